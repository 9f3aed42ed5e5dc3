/* SPDX-License-Identifier: MIT */
/* listen(), accept() and accept4(). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include "lib/smcr/path.h"
#include "proto/smcr/reason.h"
#include "tests/preload/fixture.h"

/* A client without the library. */
static int plain_client(void)
{
	int fd = pre_net_socket(server.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC);
	assert_int_equal(syscall(SYS_connect, fd, &server, pre_net_len(&server)), 0);
	return fd;
}

static void test_listen_claims(void **state)
{
	(void)state;
	union ipc_addr addr;
	int fd = pre_net_listen(AF_INET, &addr);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(pre_net_option.claims, 1);
	assert_int_equal(pre_net_option.last_claimed, fd);
	close(fd);
	fd = pre_net_listen(AF_INET6, &addr);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(pre_net_option.claims, 2);
	close(fd);
	fd = pre_net_socket(AF_UNIX, SOCK_STREAM);
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	assert_int_equal(listen(-1, 1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(pre_net_option.claims, 2);
	PROVES("SOCK-5");
}

static void test_pair_takes_the_place(void **state)
{
	(void)state;
	size_t fds = pre_net_count_fds();
	int client = plain_client();
	struct sockaddr_in from, own;
	socklen_t len = sizeof(from);
	errno = 77;
	int fd = accept(listener, (struct sockaddr *)&from, &len);
	assert_int_equal(errno, 77);
	assert_int_equal(fd, client + 1);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_true(pre_path_is_pair(fd));
	assert_int_equal(len, sizeof(from));
	assert_int_equal(from.sin_family, AF_INET);
	len = sizeof(own);
	assert_int_equal(getsockname(client, (struct sockaddr *)&own, &len), 0);
	assert_memory_equal(&from, &own, sizeof(own));
	assert_int_equal(getpeername(fd, (struct sockaddr *)&from, &len), 0);
	assert_memory_equal(&from, &own, sizeof(own));
	assert_int_equal(pre_net_count_fds(), fds + 2);
	assert_int_equal(smcrd.script->accepted, 1);
	pre_net_exchange(fd, client);
	close(client);
	char byte;
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	PROVES("SOCK-1");
}

/* After a reset getpeername() fails as on a TCP socket. */
static void test_no_peer_after_a_reset(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int client = plain_client();
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&addr, &len), 0);
	kill(smcrd.pid, SIGKILL);
	struct pollfd pfd = { .fd = fd };
	assert_int_equal(poll(&pfd, 1, 60000), 1);
	assert_true(pfd.revents & POLLHUP);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&addr, &len), -1);
	assert_int_equal(errno, ENOTCONN);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	close(client);
}

static void test_flags(void **state)
{
	(void)state;
	static const int flags[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC };
	for (size_t i = 0; i < 4; i++) {
		int client = plain_client();
		int fd = accept4(listener, NULL, NULL, flags[i]);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		assert_int_equal(fcntl(fd, F_GETFD), flags[i] & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK,
				 flags[i] & SOCK_NONBLOCK ? O_NONBLOCK : 0);
		close(fd);
		close(client);
	}
	assert_int_equal(accept4(listener, NULL, NULL, 1), -1);
	assert_int_equal(errno, EINVAL);
}

static void test_inherited_options(void **state)
{
	(void)state;
	const struct timeval limit = { .tv_sec = 4 };
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	int client = plain_client();
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	struct timeval got = { 0 };
	socklen_t len = sizeof(got);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
	assert_int_equal(got.tv_sec, 4);
	close(fd);
	close(client);
}

static void expect_plain(void)
{
	int client = plain_client();
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	pre_net_exchange(fd, client);
	close(fd);
	close(client);
}

static void test_plain_connections(void **state)
{
	(void)state;
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	expect_plain();
	assert_int_equal(pre_net_option.claims, 0);
	/* The listener is older than the daemon: the library claims it for later connections .. */
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	expect_plain();
	assert_int_equal(pre_net_option.claims, 1);
	assert_int_equal(pre_net_option.last_claimed, listener);
	assert_int_equal(smcrd.script->sessions, 0);
	/* .. and reports this connection to smcrd, whose BPF programs have not seen it. */
	assert_int_equal(pre_net_option.plain_told, 1);
	assert_int_equal(pre_net_option.last_plain.reason, SMCR_REASON_NOT_CLAIMED);
	assert_int_equal(pre_net_option.last_plain.flags, IPC_PLAIN_ACCEPTED);
	/* The daemon decides. */
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	smcrd.script->answer = ANSWER_TCP;
	smcrd.script->reason = SMCR_REASON_NO_DEVICE;
	expect_plain();
	assert_int_equal(smcrd.script->accepted, 1);
	assert_int_equal(pre_net_option.plain_told, 1);
	/* Without BPF the daemon decides too, and a connection that it refuses stays on TCP. */
	pre_net_option.absent = true;
	expect_plain();
	assert_int_equal(smcrd.script->accepted, 2);
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = EOPNOTSUPP;
	expect_plain();
	assert_int_equal(smcrd.script->accepted, 3);
}

static void test_other_families_pass(void **state)
{
	(void)state;
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	int local = pre_net_socket(AF_UNIX, SOCK_STREAM);
	assert_int_equal(bind(local, (const struct sockaddr *)&any, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(local, 1), 0);
	assert_int_equal(getsockname(local, (struct sockaddr *)&addr, &len), 0);
	for (int i = 0; i < 2; i++) {
		pre_net_option.absent = i;
		pre_settings.require = i;
		int client = pre_net_socket(AF_UNIX, SOCK_STREAM);
		assert_int_equal(connect(client, (struct sockaddr *)&addr, len), 0);
		int fd = accept(local, NULL, NULL);
		assert_true(fd >= 0);
		pre_net_exchange(client, fd);
		close(client);
		close(fd);
	}
	assert_int_equal(smcrd.script->sessions, 0);
	close(local);
}

static void test_errors_are_the_kernels(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	assert_int_equal(accept(-1, NULL, NULL), -1);
	assert_int_equal(errno, EBADF);
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer's accept() reads the length before the kernel does   \
			      */
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(accept(fd, (struct sockaddr *)&addr, (socklen_t *)1), -1);
	assert_int_equal(errno, EINVAL);
	close(fd);
#endif
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(accept(listener, (struct sockaddr *)&addr, &len), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(len, sizeof(addr));
	int client = plain_client();
	len = (socklen_t)-1;
	assert_int_equal(accept(listener, (struct sockaddr *)&addr, &len), -1);
	assert_int_equal(errno, EINVAL);
	close(client);
}

/* The peer was promised SMC-R, but the hand-over fails: the peer sees a reset, accept() goes on. */
static void test_broken_promises_are_dropped(void **state)
{
	(void)state;
	static const int answers[] = { ANSWER_ERROR,   ANSWER_FAILED, ANSWER_GARBAGE,
				       ANSWER_HANG_UP, ANSWER_NO_FD,  ANSWER_DIE };
	smcrd.script->error = EPROTO;
	size_t fds = pre_net_count_fds();
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		smcrd.script->answer = answers[i];
		int client = plain_client();
		struct sockaddr_in addr;
		socklen_t len = sizeof(addr);
		pre_net_wait(listener, POLLIN);
		assert_int_equal(accept(listener, (struct sockaddr *)&addr, &len), -1);
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(len, sizeof(addr));
		pre_net_expect_reset(client);
		close(client);
		assert_int_equal(pre_net_count_fds(), fds);
	}
	/* The listener loses its claim only when no daemon could be asked. */
	assert_int_equal(pre_net_option.unclaims, 1);
}

static void test_require(void **state)
{
	(void)state;
	pre_settings.require = true;
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 3; i++) {
		pre_net_option.negotiated = i == 1 ? IPC_NEGOTIATED_UNKNOWN : IPC_NEGOTIATED_NO;
		pre_net_option.absent = i == 2;
		smcrd.script->answer = ANSWER_TCP;
		int client = plain_client();
		pre_net_wait(listener, POLLIN);
		assert_int_equal(accept(listener, NULL, NULL), -1);
		assert_int_equal(errno, EAGAIN);
		pre_net_expect_reset(client);
		close(client);
	}
	pre_net_option.absent = false;
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	smcrd.script->answer = ANSWER_PAIR;
	int client = plain_client();
	pre_net_wait(listener, POLLIN);
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(smcrd.script->last_flags, IPC_HANDOVER_REQUIRE);
	close(fd);
	close(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_listen_claims),
		TEST(test_pair_takes_the_place),
		TEST(test_no_peer_after_a_reset),
		TEST(test_flags),
		TEST(test_inherited_options),
		TEST(test_plain_connections),
		TEST(test_other_families_pass),
		TEST(test_errors_are_the_kernels),
		TEST(test_broken_promises_are_dropped),
		TEST(test_require),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
