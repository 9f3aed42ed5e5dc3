/* SPDX-License-Identifier: MIT */
/* connect() in progress: the pair end must look like a TCP socket that is connecting. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/smcr/path.h"
#include "proto/smcr/reason.h"
#include "tests/preload/fixture.h"

static int client(void)
{
	return pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
}

static int so_error(int fd)
{
	int error = -1;
	socklen_t len = sizeof(error);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	assert_int_equal(len, sizeof(error));
	return error;
}

static int peername_error(int fd)
{
	union ipc_addr addr;
	socklen_t len = sizeof(addr);
	return getpeername(fd, &addr.sa, &len) < 0 ? errno : 0;
}

static int epoll_ready(int ep, struct epoll_event *ret_event, int limit)
{
	int rc;
	do
		rc = epoll_wait(ep, ret_event, 1, limit);
	while (rc < 0 && errno == EINTR);
	return rc;
}

/* ---- the course of a connection */

static void test_looks_like_connecting(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(smcrd.script->connecting, 1);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(pre_net_poll_now(fd, POLLIN | POLLOUT), 0);
	assert_int_equal(pre_net_connect(fd, &server), EALREADY);
	assert_int_equal(peername_error(fd), ENOTCONN);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EAGAIN);
	union ipc_addr local;
	socklen_t len = sizeof(local);
	assert_int_equal(getsockname(fd, &local.sa, &len), 0);
	assert_int_equal(local.sa.sa_family, AF_INET);
	assert_int_not_equal(local.in.sin_port, 0);

	smcrd.script->hold = 0;
	assert_int_equal(pre_net_wait(fd, POLLIN | POLLOUT), POLLOUT);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(peername_error(fd), 0);
	/* Linux says 0 to the first connect() after the outcome and EISCONN ever after. */
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
	PROVES("SOCK-1");
}

static void test_select_waits_for_the_connection(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	for (int round = 0; round < 2; round++) {
		fd_set reads, writes;
		FD_ZERO(&reads);
		FD_ZERO(&writes);
		FD_SET(fd, &reads);
		FD_SET(fd, &writes);
		struct timeval limit = { .tv_sec = round ? 10 : 0 };
		assert_int_equal(select(fd + 1, &reads, &writes, NULL, &limit), round);
		assert_false(FD_ISSET(fd, &reads));
		smcrd.script->hold = 0;
	}
	close(fd);
	PROVES("SOCK-1");
}

static void test_close_while_connecting(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(close(fd), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_refused_connection(void **state)
{
	(void)state;
	union ipc_addr gone;
	close(pre_net_listen(AF_INET, &gone));
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), EINPROGRESS);
	assert_true(pre_net_wait(fd, POLLOUT) & POLLHUP);
	assert_int_equal(peername_error(fd), ENOTCONN);
	close(fd);

	/* Some programs ask for the name first, and by read() for the error. */
	smcrd.script->take_back = 1;
	for (int way = 0; way < 2; way++) {
		char byte;
		fd = client();
		assert_int_equal(pre_net_connect(fd, &gone), EINPROGRESS);
		pre_net_wait(fd, POLLOUT);
		assert_int_equal(peername_error(fd), ENOTCONN);
		if (way == 0)
			assert_int_equal(read(fd, &byte, 1) < 0 ? errno : 0, ECONNREFUSED);
		assert_int_equal(so_error(fd), way == 0 ? 0 : ECONNREFUSED);
		assert_int_equal(peername_error(fd), ENOTCONN);
		close(fd);
	}
	smcrd.script->take_back = 0;

	fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	/* SO_ERROR tells an error once. */
	assert_int_equal(so_error(fd), ECONNREFUSED);
	assert_int_equal(so_error(fd), 0);
	close(fd);

	fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(pre_net_connect(fd, &gone), ECONNREFUSED);
	close(fd);
	PROVES("SOCK-1");
}

static void test_connect_again_after_refusal(void **state)
{
	(void)state;
	union ipc_addr gone;
	close(pre_net_listen(AF_INET, &gone));
	smcrd.script->take_back = 1;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), ECONNREFUSED);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	/* As with the kernel, the next connect() reports the failure of the first once more. */
	assert_int_equal(pre_net_connect(fd, &server), ECONNABORTED);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), 0);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(peer);
	close(fd);
}

/* The daemon dies: the program must not see an end of file, which would look like an orderly end.
 */
static void test_daemon_dies(void **state)
{
	(void)state;
	int fd = client();
	char byte;
	smcrd.script->hold = 1;
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	kill(smcrd.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)smcrd.pid, NULL, WEXITED | WNOWAIT), 0);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fd);
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	close(fd);
	unlink(smcrd.path);
	rmdir(smcrd.dir);
}

static void test_so_error_without_a_daemon(void **state)
{
	(void)state;
	int fd = client();
	smcrd.script->hold = 1;
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	kill(smcrd.pid, SIGTERM);
	assert_int_equal(waitid(P_PID, (id_t)smcrd.pid, NULL, WEXITED | WNOWAIT), 0);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), ECONNRESET);
	assert_int_equal(so_error(fd), 0);
	close(fd);
}

/* ---- fallback */

static void test_socket_comes_back(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	smcrd.script->reason = SMCR_REASON_PEER_NO_SMC;
	size_t fds = pre_net_count_fds();
	int fd = client();
	const int on = 1;
	const struct timeval limit = { .tv_sec = 7 }, none = { 0 };
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_true(pre_path_is_pair(fd));
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)), 0);
	assert_int_equal(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(smcrd.script->taken_back, 1);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_false(pre_path_is_pair(fd));
	struct timeval got = { 0 };
	socklen_t len = sizeof(got);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
	assert_int_equal(got.tv_sec, 7);
	/* What the program has set back while the pair end was there is set back here too. */
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &got, &len), 0);
	assert_int_equal(got.tv_sec, 0);
	int corked = 0;
	len = sizeof(corked);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CORK, &corked, &len), 0);
	assert_true(corked);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(pre_net_count_fds(), fds + 2);
	pre_net_exchange(fd, peer);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	close(fd);
	close(peer);
}

static void test_socket_comes_back_by_connect(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	close(fd);
}

/* Other processes hold the pair end. It must go on working for them, so the daemon relays. */
static void test_shared_pair_ends_stay(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	int copy = dup(fd);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(smcrd.script->may_take_back, 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	pre_net_exchange(copy, peer);
	close(peer);
	close(copy);
	close(fd);

	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(smcrd.script->may_take_back, 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
	/* A pair end that was made after the fork is held by this process alone. */
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	close(fd);
}

/* Somebody has the pair end, whom a search for duplicates in this process does not find. */
static void test_passed_pair_ends_stay(void **state)
{
	(void)state;
	int ends[2];
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	pre_net_pass(ends[0], fd);
	int copy = dup2(fd, fd + 500);
	close(fd);
	pre_net_wait(copy, POLLOUT);
	assert_int_equal(so_error(copy), 0);
	assert_int_equal(pre_net_kernel_family(copy), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(copy, peer);
	close(peer);
	close(copy);
	close(ends[0]);
	close(ends[1]);
}

/* ---- duplicates */

static int by_dup(int fd)
{
	return dup(fd);
}

static int by_dup2(int fd)
{
	return dup2(fd, fd + 500);
}

static int by_system_call(int fd)
{
	return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 300);
}

/* The program goes on with a duplicate. The outcome belongs to the socket, not to the number. */
static void test_outcome_at_a_duplicate(void **state)
{
	(void)state;
	static int (*const ways[])(int) = { by_dup, by_dup2, by_system_call };
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		smcrd.script->hold = 1;
		int fd = client();
		assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
		int copy = ways[i](fd);
		assert_true(copy >= 0);
		close(fd);
		assert_int_equal(pre_net_poll_now(copy, POLLIN | POLLOUT), 0);
		assert_int_equal(pre_net_connect(copy, &server), EALREADY);
		assert_int_equal(peername_error(copy), ENOTCONN);
		assert_int_equal(so_error(copy), 0);
		smcrd.script->hold = 0;
		assert_int_equal(pre_net_wait(copy, POLLIN | POLLOUT), POLLOUT);
		assert_int_equal(so_error(copy), 0);
		assert_int_equal(peername_error(copy), 0);
		assert_int_equal(pre_net_connect(copy, &server), 0);
		assert_int_equal(pre_net_connect(copy, &server), EISCONN);
		int peer = pre_net_accept_plain(listener);
		pre_net_exchange(copy, peer);
		close(copy);
		close(peer);
	}
	PROVES("SOCK-1");
}

static void test_success_is_told_at_one_duplicate(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	int copy = dup(fd);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(pre_net_connect(copy, &server), 0);
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	close(copy);
	close(fd);
}

static void test_success_is_told_in_one_process(void **state)
{
	(void)state;
	int fd = client(), status;
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	pid_t pid = fork();
	if (pid == 0)
		_exit(pre_net_connect(fd, &server));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	close(fd);
}

static void test_blocking_connect_waits_at_a_duplicate(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	int fd = client(), status;
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	int copy = dup2(fd, fd + 500);
	close(fd);
	assert_int_equal(fcntl(copy, F_SETFL, 0), 0);
	pid_t pid = fork();
	if (pid == 0) {
		usleep(200000);
		smcrd.script->hold = 0;
		_exit(0);
	}
	assert_int_equal(pre_net_connect(copy, &server), 0);
	assert_int_equal(pre_net_connect(copy, &server), EISCONN);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(copy);
}

/* The program goes on with a duplicate. A registration that was made by the first number cannot
 * follow: then the pair end stays. */
static void test_socket_comes_back_at_a_duplicate(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	for (int watched = 0; watched < 2; watched++) {
		int ep = epoll_create1(EPOLL_CLOEXEC);
		struct epoll_event event = { .events = EPOLLOUT, .data = { .u64 = 3 } };
		int fd = client();
		assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
		if (watched)
			assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
		int copy = dup2(fd, fd + 500);
		close(fd);
		assert_int_equal(pre_net_wait(copy, POLLOUT), POLLOUT);
		assert_int_equal(so_error(copy), 0);
		assert_int_equal(pre_net_kernel_family(copy), watched ? AF_UNIX : AF_INET);
		assert_int_equal(epoll_ready(ep, &event, 0), watched);
		int peer = pre_net_accept_plain(listener);
		pre_net_exchange(copy, peer);
		close(peer);
		close(copy);
		close(ep);
	}
}

static void test_connect_again_at_a_duplicate(void **state)
{
	(void)state;
	union ipc_addr gone;
	close(pre_net_listen(AF_INET, &gone));
	smcrd.script->take_back = 1;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &gone), EINPROGRESS);
	int copy = dup2(fd, fd + 500);
	close(fd);
	pre_net_wait(copy, POLLOUT);
	assert_int_equal(pre_net_connect(copy, &gone), ECONNREFUSED);
	assert_int_equal(pre_net_connect(copy, &gone), EINPROGRESS);
	close(copy);
}

/* ---- epoll */

/* nginx registers a socket with epoll before connect(). In the kernel the registration belongs to
 * the old file. */
static void test_registration_follows(void **state)
{
	(void)state;
	static const uint32_t modes[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLRDHUP };
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		smcrd.script->hold = 1;
		int ep = epoll_create1(EPOLL_CLOEXEC);
		int fd = client();
		struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | modes[i],
					     .data = { .u64 = 0x1234567890abcdefULL } };
		assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
		assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		assert_int_equal(epoll_ready(ep, &event, 0), 0);
		smcrd.script->hold = 0;
		memset(&event, 0, sizeof(event));
		assert_int_equal(epoll_ready(ep, &event, 10000), 1);
		assert_int_equal(event.events, EPOLLOUT);
		assert_true(event.data.u64 == 0x1234567890abcdefULL);
		assert_int_equal(so_error(fd), 0);
		if (modes[i] == EPOLLONESHOT)
			assert_int_equal(epoll_ready(ep, &event, 0), 0);
		event.events = EPOLLIN;
		event.data.u64 = 5;
		assert_int_equal(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &event), 0);
		int peer = pre_net_accept_plain(listener);
		assert_int_equal(send(peer, "x", 1, 0), 1);
		assert_int_equal(epoll_ready(ep, &event, 10000), 1);
		assert_int_equal(event.events, EPOLLIN);
		assert_int_equal(event.data.u64, 5);
		assert_int_equal(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL), 0);
		close(peer);
		close(fd);
		close(ep);
	}
	PROVES("SOCK-1");
}

static void test_changed_registrations(void **state)
{
	(void)state;
	int ep[3];
	struct epoll_event event;
	int fd = client();
	for (int i = 0; i < 3; i++) {
		ep[i] = epoll_create1(EPOLL_CLOEXEC);
		event = (struct epoll_event){ .events = EPOLLIN, .data = { .u32 = 1 } };
		assert_int_equal(epoll_ctl(ep[i], EPOLL_CTL_ADD, fd, &event), 0);
	}
	event = (struct epoll_event){ .events = EPOLLOUT, .data = { .u32 = 2 } };
	assert_int_equal(epoll_ctl(ep[1], EPOLL_CTL_MOD, fd, &event), 0);
	assert_int_equal(epoll_ctl(ep[2], EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(epoll_ready(ep[1], &event, 10000), 1);
	assert_int_equal(event.data.u32, 2);
	assert_int_equal(epoll_ready(ep[0], &event, 0), 0);
	assert_int_equal(epoll_ctl(ep[2], EPOLL_CTL_DEL, fd, NULL), -1);
	assert_int_equal(errno, ENOENT);
	for (int i = 0; i < 3; i++)
		close(ep[i]);
	close(fd);
}

/* The library must not renew a registration that ended unseen, or one of an earlier file with the
 * same number. */
static void test_stale_registrations(void **state)
{
	(void)state;
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLOUT };
	int fd = client();
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
	close(fd);
	int again = client();
	assert_int_equal(again, fd);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_wait(fd, POLLOUT), POLLOUT);
	assert_int_equal(epoll_ready(ep, &event, 0), 0);
	close(fd);
	fd = client();
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_wait(fd, POLLOUT), POLLOUT);
	assert_int_equal(epoll_ready(ep, &event, 0), 0);
	close(fd);
	close(ep);
}

/* The program goes on with another descriptor of the epoll instance. */
static void test_registration_by_a_closed_descriptor(void **state)
{
	(void)state;
	for (int reused = 0; reused < 3; reused++) {
		struct epoll_event event = { .events = EPOLLIN, .data = { .u64 = 1 } };
		int fd = client(), other = epoll_create1(EPOLL_CLOEXEC);
		assert_int_equal(epoll_ctl(other, EPOLL_CTL_ADD, fd, &event), 0);
		event = (struct epoll_event){ .events = EPOLLOUT | EPOLLET, .data = { .u64 = 2 } };
		int first = epoll_create1(EPOLL_CLOEXEC);
		assert_int_equal(epoll_ctl(first, EPOLL_CTL_ADD, fd, &event), 0);
		int ep = dup(first);
		close(first);
		if (reused == 1)
			assert_int_equal(open("/dev/null", O_RDONLY), first);
		if (reused == 2)
			assert_int_equal(epoll_create1(EPOLL_CLOEXEC), first);
		smcrd.script->hold = 1;
		assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		assert_int_equal(epoll_ready(ep, &event, 0), 0);
		smcrd.script->hold = 0;
		assert_int_equal(epoll_ready(ep, &event, 10000), 1);
		assert_int_equal(event.events, EPOLLOUT);
		assert_true(event.data.u64 == 2);
		int peer = pre_net_accept_plain(listener);
		assert_int_equal(send(peer, "x", 1, 0), 1);
		assert_int_equal(epoll_ready(other, &event, 10000), 1);
		assert_int_equal(event.events, EPOLLIN);
		assert_true(event.data.u64 == 1);
		assert_int_equal(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &event), 0);
		if (reused)
			close(first);
		close(peer);
		close(ep);
		close(other);
		close(fd);
	}
}

/* A socket is registered after connect(), and then the TCP socket comes back. */
static void test_registration_follows_back(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET, .data = { .u64 = 11 } };
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(epoll_ready(ep, &event, 10000), 1);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	event = (struct epoll_event){ .events = EPOLLIN, .data = { .u64 = 12 } };
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &event), 0);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(send(peer, "x", 1, 0), 1);
	assert_int_equal(epoll_ready(ep, &event, 10000), 1);
	assert_int_equal(event.data.u64, 12);
	close(peer);
	close(fd);
	close(ep);
}

/* redis-benchmark and wrk never ask for the outcome of connect(), and register each socket anew for
 * each message. A question for each registration would cost much, so the outcome counts as known
 * after a few: the TCP socket does not come back any more. */
static void test_registration_for_each_message(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	for (int times = 2; times <= 10; times += 8) {
		int ep = epoll_create1(EPOLL_CLOEXEC);
		struct epoll_event event = { .events = EPOLLIN };
		int fd = client();
		assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
		pre_net_wait(fd, POLLOUT);
		for (int i = 0; i < times; i++) {
			assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
			assert_int_equal(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL), 0);
		}
		assert_int_equal(pre_net_connect(fd, &server), 0);
		assert_int_equal(pre_net_connect(fd, &server), EISCONN);
		assert_int_equal(pre_net_kernel_family(fd), times == 2 ? AF_INET : AF_UNIX);
		int peer = pre_net_accept_plain(listener);
		pre_net_exchange(fd, peer);
		close(peer);
		close(fd);
		close(ep);
	}
}

/* ---- blocking sockets whose connect() goes on in the background */

static void fill_backlog(int *fds, int count, const union ipc_addr *addr)
{
	for (int i = 0; i < count; i++) {
		fds[i] = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
		syscall(SYS_connect, fds[i], addr, pre_net_len(addr));
	}
}

static void on_alarm(int number)
{
	(void)number;
}

static int connect_with(int fd, const union ipc_addr *addr, bool by_signal)
{
	const struct timeval limit = { .tv_usec = 100000 };
	/* Again and again: a busy machine may not be in connect() yet when the first one comes. */
	const struct itimerval soon = { limit, limit };
	const struct itimerval never = { { 0 }, { 0 } };
	struct sigaction action = { .sa_handler = on_alarm }, before;
	sigaction(SIGALRM, &action, &before);
	if (by_signal)
		setitimer(ITIMER_REAL, &soon, NULL);
	else
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	int rc = pre_net_connect(fd, addr);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	return rc;
}

static void test_blocking_connect_cut_short(void **state)
{
	(void)state;
	for (int by_signal = 0; by_signal < 2; by_signal++) {
		union ipc_addr addr;
		int backlog[4];
		int slow = pre_net_listen(AF_INET, &addr);
		assert_int_equal(syscall(SYS_listen, slow, 0), 0);
		fill_backlog(backlog, 4, &addr);
		pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
		int fd = pre_net_socket(AF_INET, SOCK_STREAM);
		assert_int_equal(connect_with(fd, &addr, by_signal),
				 by_signal ? EINTR : EINPROGRESS);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
		assert_int_equal(pre_net_poll_now(fd, POLLOUT), 0);
		/* A blocking connect() waits as long as SO_SNDTIMEO says. */
		if (!by_signal)
			assert_int_equal(pre_net_connect(fd, &addr), EALREADY);
		for (int i = 0; i < 4; i++)
			close(backlog[i]);
		close(slow);
		/* The listener is gone: the next SYN is refused. */
		int rc = EALREADY;
		for (int i = 0; rc == EALREADY && i < 100; i++)
			rc = pre_net_connect(fd, &addr);
		assert_int_equal(rc, ECONNREFUSED);
		close(fd);
	}
}

/* ---- shutdown() */

/* The kernel ends a connect() in progress, whichever direction is shut, and the socket can be
 * connected again. */
static void test_shutdown_ends_connecting(void **state)
{
	(void)state;
	union ipc_addr addr;
	int backlog[4];
	int slow = pre_net_listen(AF_INET, &addr);
	assert_int_equal(syscall(SYS_listen, slow, 0), 0);
	fill_backlog(backlog, 4, &addr);
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
		int ep = epoll_create1(EPOLL_CLOEXEC);
		struct epoll_event event = { .events = EPOLLOUT };
		int fd = client();
		assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), 0);
		assert_int_equal(pre_net_connect(fd, &addr), EINPROGRESS);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		assert_int_equal(epoll_ready(ep, &event, 0), 0);
		assert_int_equal(shutdown(fd, 7), -1);
		assert_int_equal(errno, EINVAL);
		assert_int_equal(pre_net_connect(fd, &addr), EALREADY);
		assert_int_equal(shutdown(fd, how), 0);
		assert_int_equal(epoll_ready(ep, &event, 10000), 1);
		assert_int_equal(event.events, EPOLLOUT | EPOLLERR | EPOLLHUP);
		assert_int_equal(so_error(fd), ECONNRESET);
		assert_int_equal(so_error(fd), 0);
		assert_int_equal(peername_error(fd), ENOTCONN);
		assert_int_equal(pre_net_connect(fd, &addr), EINPROGRESS);
		assert_int_equal(pre_net_connect(fd, &addr), EALREADY);
		close(fd);
		close(ep);
	}
	for (int i = 0; i < 4; i++)
		close(backlog[i]);
	close(slow);
	PROVES("SOCK-1");
}

/* Nobody has asked for the outcome. */
static void test_shutdown_of_a_connected_socket(void **state)
{
	(void)state;
	char byte;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_wait(fd, POLLOUT), POLLOUT);
	int requests = smcrd.script->status_requests;
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	/* shutdown() tells smcrd, which nobody waits for, and asks nothing. The next question comes
	 * behind that. */
	for (int i = 0; i < 10000 && smcrd.script->status_requests == requests; i++)
		poll(NULL, 0, 1);
	assert_int_equal(so_error(fd), 0);
	assert_int_equal(smcrd.script->status_requests, requests + 2);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(recv(peer, &byte, 1, 0), 0);
	assert_int_equal(send(peer, "x", 1, 0), 1);
	assert_int_equal(pre_net_wait(fd, POLLIN) & POLLIN, POLLIN);
	assert_int_equal(recv(fd, &byte, 1, 0), 1);
	close(peer);
	close(fd);
}

/* ---- --require and hand-overs that fail */

static void test_require(void **state)
{
	(void)state;
	pre_settings.require = true;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(smcrd.script->last_flags, IPC_HANDOVER_REQUIRE);
	close(fd);
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EPROTONOSUPPORT);
	close(fd);
}

/* The handshake is under way, and this side's policy leaves the option off: the daemon is not
 * asked.
 */
static void test_option_kept_off(void **state)
{
	(void)state;
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(smcrd.script->connecting, 0);
	int peer = pre_net_accept_plain(listener);
	struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };
	assert_int_equal(poll(&poll_fd, 1, 60000), 1);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

static void test_outcomes_of_the_hand_over(void **state)
{
	(void)state;
	static const struct {
		int answer, rc, family;
	} cases[] = {
		{ ANSWER_TCP, EINPROGRESS, AF_INET },   { ANSWER_FAILED, EPROTO, AF_INET },
		{ ANSWER_ERROR, EINPROGRESS, AF_INET }, { ANSWER_HANG_UP, ECONNRESET, AF_INET },
		{ ANSWER_DIE, ECONNRESET, AF_INET },    { ANSWER_PAIR, EINPROGRESS, AF_INET },
	};
	smcrd.script->error = EPROTO;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		smcrd.script->answer = cases[i].answer;
		int fd = client();
		assert_int_equal(pre_net_connect(fd, &server), cases[i].rc);
		assert_int_equal(pre_net_kernel_family(fd), cases[i].family);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_looks_like_connecting),
		TEST(test_select_waits_for_the_connection),
		TEST(test_close_while_connecting),
		TEST(test_refused_connection),
		TEST(test_connect_again_after_refusal),
		TEST(test_daemon_dies),
		TEST(test_so_error_without_a_daemon),
		TEST(test_socket_comes_back),
		TEST(test_socket_comes_back_by_connect),
		TEST(test_shared_pair_ends_stay),
		TEST(test_passed_pair_ends_stay),
		TEST(test_outcome_at_a_duplicate),
		TEST(test_success_is_told_at_one_duplicate),
		TEST(test_success_is_told_in_one_process),
		TEST(test_blocking_connect_waits_at_a_duplicate),
		TEST(test_socket_comes_back_at_a_duplicate),
		TEST(test_connect_again_at_a_duplicate),
		TEST(test_registration_follows),
		TEST(test_changed_registrations),
		TEST(test_stale_registrations),
		TEST(test_registration_by_a_closed_descriptor),
		TEST(test_registration_follows_back),
		TEST(test_registration_for_each_message),
		TEST(test_blocking_connect_cut_short),
		TEST(test_shutdown_ends_connecting),
		TEST(test_shutdown_of_a_connected_socket),
		TEST(test_require),
		TEST(test_option_kept_off),
		TEST(test_outcomes_of_the_hand_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
