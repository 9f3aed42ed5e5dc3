/* SPDX-License-Identifier: MIT */
/* connect() on blocking sockets: what the program sees of each outcome of a hand-over. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/preload/inherit.h"
#include "lib/smcr/holders.h"
#include "lib/smcr/path.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"
#include "proto/smcr/reason.h"
#include "tests/preload/fixture.h"

/* Less than the second for which the library takes a daemon as absent. */
#define SOON_MS 900

static int client(void)
{
	return pre_net_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);
}

/* ---- SMC-R */

static void test_pair_takes_the_place(void **state)
{
	(void)state;
	size_t fds = pre_net_count_fds();
	int fd = client();
	errno = 77;
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(smcrd.script->connected, 1);
	assert_int_equal(smcrd.script->last_flags, 0);
	assert_int_equal(pre_net_option.claims, 1);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(pre_net_count_fds(), fds + 2);
	pre_net_exchange(fd, peer);
	close(fd);
	char byte;
	assert_int_equal(read(peer, &byte, 1), 0);
	close(peer);
	PROVES("SOCK-5");
}

/* ---- smcrd stands still */

static int looks;

/* The library looks first before it gives the connection away. */
static bool still_at_the_second_look(void)
{
	if (++looks != 2)
		return false;
	kill(smcrd.pid, SIGCONT);
	return true;
}

static bool still_from_the_second_look_on(void)
{
	return ++looks >= 2;
}

/* The whole machine stood still: the program looks once before smcrd runs again. */
static void test_smcrd_goes_on_after_one_look(void **state)
{
	(void)state;
	looks = 0;
	kill(smcrd.pid, SIGSTOP);
	pre_net_option.stands_still = still_at_the_second_look;
	int fd = client(), error = pre_net_connect(fd, &server);
	kill(smcrd.pid, SIGCONT);
	assert_int_equal(error, 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_true(looks >= 2);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

static void test_smcrd_stands_still_with_a_connection(void **state)
{
	(void)state;
	looks = 0;
	kill(smcrd.pid, SIGSTOP);
	pre_net_option.stands_still = still_from_the_second_look_on;
	int fd = client(), error = pre_net_connect(fd, &server);
	kill(smcrd.pid, SIGCONT);
	assert_int_equal(error, ECONNRESET);
	assert_int_equal(looks, 3);
	close(fd);
}

static void test_claim_says_which_program(void **state)
{
	char path[PATH_MAX];
	(void)state;
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
	assert_true(len > 0);
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_true(pre_net_option.last_program == ipc_program_id(path, (size_t)len));
	assert_false(pre_net_option.last_required);
	close(fd);
}

/* The peer has not answered the rendezvous. connect() returns all the same, as with TCP. */
static void test_connected_before_the_outcome(void **state)
{
	(void)state;
	union ipc_addr peer;
	socklen_t len = sizeof(peer);
	smcrd.script->answer = ANSWER_OPEN;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(getpeername(fd, &peer.sa, &len), 0);
	int error = -1;
	socklen_t error_len = sizeof(error);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len), 0);
	assert_int_equal(error, 0);
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	close(pre_net_accept_plain(listener));
	close(fd);
}

static void test_addresses_are_those_of_tcp(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const int family = i == 0 ? AF_INET : AF_INET6;
		union ipc_addr there, local, peer;
		int other = pre_net_listen(family, &there);
		int fd = pre_net_socket(family, SOCK_STREAM);
		assert_int_equal(pre_net_connect(fd, &there), 0);
		int accepted = pre_net_accept_plain(other);
		memset(&local, 0, sizeof(local));
		memset(&peer, 0, sizeof(peer));
		socklen_t local_len = sizeof(local), peer_len = sizeof(peer);
		assert_int_equal(getsockname(fd, &local.sa, &local_len), 0);
		assert_int_equal(getpeername(fd, &peer.sa, &peer_len), 0);
		assert_int_equal(peer_len, pre_net_len(&there));
		assert_memory_equal(&peer, &there, peer_len);
		union ipc_addr seen = { .sa = { 0 } };
		socklen_t seen_len = sizeof(seen);
		assert_int_equal(getpeername(accepted, &seen.sa, &seen_len), 0);
		assert_int_equal(local_len, seen_len);
		assert_memory_equal(&local, &seen, seen_len);
		int value = 0;
		socklen_t len = sizeof(value);
		assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len), 0);
		assert_int_equal(value, family);
		close(accepted);
		close(fd);
		close(other);
	}
	PROVES("SOCK-1");
}

static void test_short_room_for_a_name(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	struct {
		struct sockaddr_in addr;
		char behind[4];
	} room;
	memset(&room, 'x', sizeof(room));
	socklen_t len = 4;
	assert_int_equal(getpeername(fd, (struct sockaddr *)&room, &len), 0);
	assert_int_equal(len, sizeof(struct sockaddr_in));
	assert_int_equal(room.addr.sin_port, server.in.sin_port);
	assert_int_equal(((char *)&room)[4], 'x');
	len = 0;
	assert_int_equal(getsockname(fd, (struct sockaddr *)&room, &len), 0);
	assert_int_equal(len, sizeof(struct sockaddr_in));
	assert_int_equal(getpeername(fd, NULL, &len), -1);
	assert_int_equal(errno, EFAULT);
	close(fd);
}

static void test_file_state_moves(void **state)
{
	(void)state;
	int fd = client();
	const struct timeval limit = { .tv_sec = 3, .tv_usec = 500000 };
	const struct f_owner_ex owner = { F_OWNER_PID, getpid() };
	int low = 5, on = 1;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)), 0);
	assert_int_equal(fcntl(fd, F_SETOWN_EX, &owner), 0);
	assert_int_equal(fcntl(fd, F_SETSIG, SIGUSR2), 0);
	signal(SIGUSR2, SIG_IGN);
	assert_int_equal(fcntl(fd, F_SETFL, O_ASYNC), 0);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);

	struct timeval got = { 0 };
	socklen_t len = sizeof(got);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
	assert_memory_equal(&got, &limit, sizeof(got));
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &got, &len), 0);
	assert_memory_equal(&got, &limit, sizeof(got));
	int value = 0;
	len = sizeof(value);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, &len), 0);
	assert_int_equal(value, 5);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &value, &len), 0);
	assert_int_equal(value, 1);
	struct f_owner_ex got_owner = { 0 };
	assert_int_equal(fcntl(fd, F_GETOWN_EX, &got_owner), 0);
	assert_int_equal(got_owner.pid, getpid());
	assert_int_equal(fcntl(fd, F_GETSIG), SIGUSR2);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_ASYNC | O_NONBLOCK), O_ASYNC);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	signal(SIGUSR2, SIG_DFL);
}

static void test_dups_are_replaced_too(void **state)
{
	(void)state;
	int fd = client();
	int copy = dup(fd);
	int far = fcntl(fd, F_DUPFD_CLOEXEC, 120);
	int hole = dup(fd);
	assert_true(copy >= 0 && far >= 120 && hole >= 0);
	close(hole);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(pre_net_kernel_family(copy), AF_UNIX);
	assert_int_equal(fcntl(copy, F_GETFD), 0);
	assert_int_equal(pre_net_kernel_family(far), AF_UNIX);
	assert_int_equal(fcntl(far, F_GETFD), FD_CLOEXEC);
	pre_net_exchange(copy, peer);
	close(fd);
	pre_net_exchange(far, peer);
	close(copy);
	close(far);
	close(peer);
}

/* @return the descriptor that comes with a message */
static int receive_passed(int via)
{
	int back = -1;
	char byte;
	struct iovec iov = { &byte, 1 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	assert_int_equal(recvmsg(via, &msg, 0), 1);
	memcpy(&back, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(back));
	return back;
}

/* Pass a descriptor to ourselves. @return the one that comes back */
static int pass_on(int fd)
{
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pre_net_pass(ends[0], fd);
	int back = receive_passed(ends[1]);
	close(ends[0]);
	close(ends[1]);
	return back;
}

static bool is_alone(int fd)
{
	return pre_holders_of(fd) == PRE_HOLDERS_ALONE;
}

/* Such a socket is connected without a search for its duplicates. */
static void test_which_sockets_are_alone(void **state)
{
	(void)state;
	int (*const ways[])(int fd) = { dup, pass_on };
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int fd = client();
		assert_true(is_alone(fd));
		assert_false(pre_path_is_pair(fd));
		int copy = ways[i](fd);
		assert_false(is_alone(fd));
		assert_false(is_alone(copy));
		assert_int_equal(pre_net_connect(fd, &server), 0);
		int peer = pre_net_accept_plain(listener);
		assert_int_equal(pre_net_kernel_family(copy), AF_UNIX);
		close(copy);
		close(fd);
		close(peer);
	}
	int fd = client();
	close(fd);
	assert_false(is_alone(fd));
	fd = client();
	int other = client();
	int copy = fcntl(fd, F_DUPFD, 0);
	assert_true(copy >= 0);
	assert_false(is_alone(fd));
	assert_int_equal(dup2(fd, other), other);
	assert_false(is_alone(other));
	close(copy);
	close(fd);
	close(other);
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_true(pre_path_is_pair(fd));
	assert_true(is_alone(fd));
	close(pre_net_accept_plain(listener));
	copy = dup(fd);
	assert_false(is_alone(fd));
	close(copy);
	close(fd);
}

/* The library does not see how fclose() closes, so it takes the number for that of the last socket.
 */
static void test_a_passed_socket_is_not_alone(void **state)
{
	(void)state;
	int fd = client(), ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pre_net_pass(ends[0], fd);
	int number = client();
	assert_int_equal(syscall(SYS_close, number), 0);
	int copy = receive_passed(ends[1]);
	assert_int_equal(copy, number);
	assert_false(is_alone(copy));
	assert_int_equal(pre_net_connect(copy, &server), 0);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	pre_net_exchange(fd, peer);
	close(ends[0]);
	close(ends[1]);
	close(fd);
	close(copy);
	close(peer);
}

/* Programs forbid themselves system calls, as sshd does: write() must not become another one. */
static void test_who_may_only_write_writes(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	int peer = pre_net_accept_plain(listener);
	pre_net_write_confined(fd, peer);
	close(peer);
	close(fd);
}

/* Pair ends that come by exec or are passed raise no SIGPIPE either where TCP would not. */
static void test_pair_ends_of_others_are_known(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	close(pre_net_accept_plain(listener));
	int passed = pass_on(fd);
	assert_true(pre_path_is_pair(passed));
	assert_false(pre_path_concerns(passed));
	pre_path_forget(fd); /* as after exec */
	inherit_open();
	assert_true(pre_path_is_pair(fd));
	close(passed);
	close(fd);
}

/* ---- plain TCP */

static void expect_plain(int fd)
{
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(peer);
	close(fd);
}

static void test_peer_without_option(void **state)
{
	(void)state;
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_plain(fd);
	assert_int_equal(smcrd.script->sessions, 0);
}

static void test_daemon_decides_for_tcp(void **state)
{
	(void)state;
	smcrd.script->answer = ANSWER_TCP;
	smcrd.script->reason = SMCR_REASON_PREFIX_MISMATCH;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_plain(fd);
	assert_int_equal(smcrd.script->connected, 1);
}

static void test_without_bpf_the_daemon_is_asked(void **state)
{
	(void)state;
	pre_net_option.absent = true;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
	close(pre_net_accept_plain(listener));
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = EOPNOTSUPP;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_plain(fd);
	assert_int_equal(smcrd.script->connected, 2);
}

/* The library has reported one plain connection since the last call, with this reason. */
static void expect_told(uint32_t reason)
{
	assert_int_equal(pre_net_option.plain_told, 1);
	assert_int_equal(pre_net_option.last_plain.reason, reason);
	assert_int_equal(pre_net_option.last_plain.flags, 0);
	pre_net_option.plain_told = 0;
}

static void test_refused_claim(void **state)
{
	(void)state;
	pre_net_option.claim_error = EPERM;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_told(SMCR_REASON_NOT_CLAIMED);
	expect_plain(fd);
	assert_int_equal(smcrd.script->sessions, 0);
}

/* The library reports connections that it has left on TCP itself. It does not report connections
 * that failed, nor those that smcrd or its BPF programs have left on TCP. This test has to come
 * after those that expect a claim, because the library remembers that a program sets SO_ZEROCOPY.
 */
static void test_stepping_aside_is_told(void **state)
{
	const int on = 1;
	(void)state;
	int fd = client();
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), 0);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_told(SMCR_REASON_TCP_MESSAGES);
	expect_plain(fd);
	pre_net_option.claim_error = EPERM;
	fd = client();
	union ipc_addr nobody = server;
	int unused = pre_net_socket(AF_INET, SOCK_STREAM);
	socklen_t len = sizeof(nobody);
	nobody.in.sin_port = 0;
	assert_int_equal(bind(unused, &nobody.sa, pre_net_len(&nobody)), 0);
	assert_int_equal(getsockname(unused, &nobody.sa, &len), 0);
	assert_int_equal(pre_net_connect(fd, &nobody), ECONNREFUSED);
	assert_int_equal(pre_net_option.plain_told, 0);
	close(unused);
	close(fd);
	pre_net_option.claim_error = 0;
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_plain(fd);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	smcrd.script->answer = ANSWER_TCP;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_plain(fd);
	assert_int_equal(pre_net_option.plain_told, 0);
}

/* The peer was promised SMC-R, and is told with a Decline that the connection is TCP: the only
 * connection that it gets. */
static void expect_declined(int fd, uint32_t reason)
{
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	int peer = pre_net_accept_plain(listener);
	pre_net_expect_decline(peer, reason);
	pre_net_exchange(fd, peer);
	assert_int_equal(pre_net_poll_now(listener, POLLIN), 0);
	close(peer);
	close(fd);
}

/* The handshake promised SMC-R and the daemon refuses. */
static void test_refusal_after_the_promise(void **state)
{
	(void)state;
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = EUSERS;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_told(SMCR_REASON_LIMIT);
	expect_declined(fd, SMCR_REASON_LIMIT);
}

/* Nobody knows whether the handshake has promised SMC-R: a second connection without the promise.
 */
static void test_promise_of_an_earlier_daemon(void **state)
{
	(void)state;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_option.unclaims, 1);
	int broken = pre_net_accept_plain(listener);
	pre_net_expect_reset(broken);
	close(broken);
	expect_plain(fd);
}

/* Other users had all names that smcrd tried for the pair end. */
static void test_a_pair_end_without_a_name(void **state)
{
	(void)state;
	smcrd.script->nameless = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

/* The same before the rendezvous: the connection is plain TCP, and the reason is not that smcrd is
 * not there. */
static void test_no_name_for_a_pair_end(void **state)
{
	(void)state;
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = EADDRINUSE;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_told(SMCR_REASON_INTERNAL);
	expect_declined(fd, SMCR_REASON_INTERNAL);
}

static void test_promise_that_cannot_be_taken_back(void **state)
{
	(void)state;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	pre_net_option.cannot_unclaim = true;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), ECONNRESET);
	close(fd);
	int broken = pre_net_accept_plain(listener);
	pre_net_expect_reset(broken);
	close(broken);
}

/* Connect without a daemon, and again when there is one, of which the library does not know yet.
 * @return false: the machine was so busy that the library may have asked again */
static bool connect_twice_in_a_while(void)
{
	struct pre_settings there = pre_settings;
	const int64_t before = sys_now_ms();
	const int sessions = smcrd.script->sessions;
	strcpy(pre_settings.daemon.sun_path, "/nonexistent/sock");
	pre_settings.daemon_abstract_len = (socklen_t)ipc_abstract_address(
		"/nonexistent/sock", 0, &pre_settings.daemon_abstract);
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	expect_plain(fd);
	pre_settings = there;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	if (sys_now_ms() - before >= SOON_MS) {
		close(fd);
		close(pre_net_accept_plain(listener));
		return false;
	}
	assert_int_equal(smcrd.script->sessions, sessions);
	expect_plain(fd);
	return true;
}

/* An absent daemon is not asked for each connection. */
static void test_absent_daemon(void **state)
{
	(void)state;
	int fd;
	pre_net_option.absent = true;
	for (int i = 0; !connect_twice_in_a_while() && i < 10; i++)
		while (!pre_daemon_usable(false)) /* as at the start of a test */
			nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	const int sessions = smcrd.script->sessions;
	/* After a while the library asks again. */
	for (int i = 0; smcrd.script->sessions == sessions; i++) {
		assert_true(i < 100);
		nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
		fd = client();
		assert_int_equal(pre_net_connect(fd, &server), 0);
		close(fd);
		close(pre_net_accept_plain(listener));
	}
}

static void test_no_descriptor_left(void **state)
{
	(void)state;
	struct rlimit before, tight;
	int fd = client();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	tight = before;
	tight.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	int rc = pre_net_connect(fd, &server);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(rc, 0);
	expect_declined(fd, SMCR_REASON_NO_DESCRIPTORS);
}

/* The library needs one descriptor to ask the daemon and one for its answer. With only one left, it
 * does not ask. */
static void test_few_descriptors_left(void **state)
{
	(void)state;
	struct rlimit before;
	for (int left = 1; left <= 2; left++) {
		int fd = client();
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
		const struct rlimit tight = { (rlim_t)fd + 1 + (rlim_t)left, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
		int rc = pre_net_connect(fd, &server);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(rc, 0);
		assert_int_equal(smcrd.script->sessions, left - 1);
		if (left == 1) {
			expect_declined(fd, SMCR_REASON_NO_DESCRIPTORS);
		} else {
			close(fd);
		}
	}
}

static void test_everything_else_passes(void **state)
{
	(void)state;
	int udp = pre_net_socket(AF_INET, SOCK_DGRAM);
	assert_int_equal(pre_net_connect(udp, &server), 0);
	close(udp);
	int local = pre_net_socket(AF_UNIX, SOCK_STREAM);
	const struct sockaddr_un nowhere = { .sun_family = AF_UNIX, .sun_path = "/nonexistent" };
	assert_int_equal(connect(local, (const struct sockaddr *)&nowhere, sizeof(nowhere)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(pre_net_connect(local, &server), EINVAL);
	close(local);
	assert_int_equal(pre_net_connect(-1, &server), EBADF);
	assert_int_equal(pre_net_connect(STDIN_FILENO, &server), ENOTSOCK);
	int fd = client();
	union ipc_addr wild = server;
	assert_int_equal(connect(fd, &wild.sa, 3), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(connect(fd, (const struct sockaddr *)8, sizeof(wild.in)), -1);
	assert_int_equal(errno, EFAULT);
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	assert_int_equal(connect(fd, &none, sizeof(none)), 0);
	assert_int_equal(smcrd.script->sessions, 0);
	close(fd);
}

static void test_refused_connection(void **state)
{
	(void)state;
	union ipc_addr gone;
	close(pre_net_listen(AF_INET, &gone));
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), ECONNREFUSED);
	assert_int_equal(smcrd.script->sessions, 0);
	/* The same socket may try again. */
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
}

/* A socket that was claimed for nothing must not send the option later, when perhaps nobody of this
 * library connects it. */
static void test_claim_without_connection_is_taken_back(void **state)
{
	(void)state;
	union ipc_addr gone;
	close(pre_net_listen(AF_INET, &gone));
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0); /* now the library knows the daemon */
	close(fd);
	close(pre_net_accept_plain(listener));
	pre_net_option.claims = pre_net_option.unclaims = 0;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), ECONNREFUSED);
	assert_int_equal(pre_net_option.unclaims, 1);
	assert_int_equal(connect(fd, (const struct sockaddr *)8, sizeof(gone.in)), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(pre_net_option.unclaims, 2);
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	assert_int_equal(connect(fd, &none, sizeof(none)), 0);
	assert_int_equal(pre_net_option.claims, 3);
	assert_int_equal(pre_net_option.unclaims, 3);
	close(fd);
}

/* ---- failures */

static void test_failed_rendezvous(void **state)
{
	(void)state;
	smcrd.script->answer = ANSWER_FAILED;
	smcrd.script->error = EPROTO;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EPROTO);
	int peer = pre_net_accept_plain(listener);
	pre_net_expect_reset(peer);
	close(peer);
	smcrd.script->answer = ANSWER_PAIR;
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
}

/* The daemon took the socket and then gave no valid answer. Nobody knows what it told the peer, so
 * the connection ends for both sides. */
static void test_lost_sockets(void **state)
{
	(void)state;
	static const int answers[] = {
		ANSWER_GARBAGE, ANSWER_WRONG_TYPE,    ANSWER_NO_FD, ANSWER_WRONG_FD,
		ANSWER_HANG_UP, ANSWER_OTHER_VERSION, ANSWER_DIE,
	};
	size_t fds = pre_net_count_fds();
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		smcrd.script->answer = answers[i];
		int fd = client();
		assert_int_equal(pre_net_connect(fd, &server), ECONNRESET);
		assert_int_equal(pre_net_kernel_family(fd), AF_INET);
		assert_int_equal(pre_net_count_fds(), fds + 1);
		int peer = pre_net_accept_plain(listener);
		pre_net_expect_reset(peer);
		close(peer);
		close(fd);
	}
}

static void test_answer_in_pieces(void **state)
{
	(void)state;
	smcrd.script->dribble = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

static void on_alarm(int number)
{
	(void)number;
}

/* A signal does not end the wait for the daemon, because half a hand-over cannot be undone. On a
 * busy machine the signal may come earlier and end the kernel's wait for the handshake; the
 * hand-over takes place all the same. */
static void test_signals_during_the_hand_over(void **state)
{
	(void)state;
	struct sigaction action = { .sa_handler = on_alarm }, before;
	const struct itimerval often = { { .tv_usec = 500 }, { .tv_usec = 500 } };
	const struct itimerval never = { { 0 }, { 0 } };
	int waited = 0;
	smcrd.script->dribble = 1;
	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	for (int i = 0; i < 20 || (waited == 0 && i < 200); i++) {
		int fd = client();
		setitimer(ITIMER_REAL, &often, NULL);
		int rc = pre_net_connect(fd, &server);
		setitimer(ITIMER_REAL, &never, NULL);
		assert_true(rc == 0 || rc == EINTR);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		waited += rc == 0;
		close(fd);
		close(pre_net_accept_plain(listener));
	}
	assert_true(waited > 0);
	sigaction(SIGALRM, &before, NULL);
}

/* ---- --require */

/* TCP Fast Open connects past connect(). The program gets the error of a host that does not use it,
 * and can connect by connect(). */
static void test_require_without_fast_open(void **state)
{
	(void)state;
	struct iovec iov = { (void *)(size_t) "x", 1 };
	struct msghdr msg = { .msg_name = &server,
			      .msg_namelen = pre_net_len(&server),
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };
	for (int required = 1; required >= 0; required--) {
		pre_settings.require = required;
		int to = client(), by_msg = client();
		ssize_t n = sendto(to, "x", 1, MSG_FASTOPEN, &server.sa, pre_net_len(&server));
		assert_int_equal(n < 0 ? -errno : n, required ? -EOPNOTSUPP : 1);
		n = sendmsg(by_msg, &msg, MSG_FASTOPEN);
		assert_int_equal(n < 0 ? -errno : n, required ? -EOPNOTSUPP : 1);
		assert_int_equal(pre_net_connect(to, &server), required ? 0 : EISCONN);
		close(to);
		close(by_msg);
	}
}

static void test_require(void **state)
{
	(void)state;
	pre_settings.require = true;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(smcrd.script->last_flags, IPC_HANDOVER_REQUIRE);
	assert_true(pre_net_option.last_required);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
	close(pre_net_accept_plain(listener));

	fd = client();
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	assert_int_equal(pre_net_connect(fd, &server), EPROTONOSUPPORT);
	int peer = pre_net_accept_plain(listener);
	pre_net_expect_reset(peer);
	close(peer);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	smcrd.script->answer = ANSWER_TCP;
	assert_int_equal(pre_net_connect(fd, &server), EPROTONOSUPPORT);
	close(pre_net_accept_plain(listener));
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = EUSERS;
	assert_int_equal(pre_net_connect(fd, &server), EPROTONOSUPPORT);
	close(pre_net_accept_plain(listener));
	pre_net_option.claim_error = EPERM;
	assert_int_equal(pre_net_connect(fd, &server), EPROTONOSUPPORT);
	assert_int_equal(pre_net_poll_now(listener, POLLIN), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_connected_before_the_outcome),
		TEST(test_pair_takes_the_place),
		TEST(test_smcrd_goes_on_after_one_look),
		TEST(test_smcrd_stands_still_with_a_connection),
		TEST(test_claim_says_which_program),
		TEST(test_addresses_are_those_of_tcp),
		TEST(test_short_room_for_a_name),
		TEST(test_file_state_moves),
		TEST(test_dups_are_replaced_too),
		TEST(test_which_sockets_are_alone),
		TEST(test_a_passed_socket_is_not_alone),
		TEST(test_who_may_only_write_writes),
		TEST(test_pair_ends_of_others_are_known),
		TEST(test_peer_without_option),
		TEST(test_daemon_decides_for_tcp),
		TEST(test_without_bpf_the_daemon_is_asked),
		TEST(test_refused_claim),
		TEST(test_refusal_after_the_promise),
		TEST(test_a_pair_end_without_a_name),
		TEST(test_no_name_for_a_pair_end),
		TEST(test_promise_of_an_earlier_daemon),
		TEST(test_promise_that_cannot_be_taken_back),
		TEST(test_absent_daemon),
		TEST(test_no_descriptor_left),
		TEST(test_few_descriptors_left),
		TEST(test_everything_else_passes),
		TEST(test_refused_connection),
		TEST(test_claim_without_connection_is_taken_back),
		TEST(test_failed_rendezvous),
		TEST(test_lost_sockets),
		TEST(test_answer_in_pieces),
		TEST(test_signals_during_the_hand_over),
		TEST(test_require),
		TEST(test_require_without_fast_open),
		TEST(test_stepping_aside_is_told),
		TEST(test_everything_else_passes),
		TEST(test_refused_claim),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
