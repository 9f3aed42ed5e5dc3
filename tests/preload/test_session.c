/* SPDX-License-Identifier: MIT */
/* Requests to smcrd: each error as the kernel or smcrd gave it, and descriptors of any number. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/session.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/unasked.h"
#include "tests/lib/tries.h"
#include "tests/preload/fixture.h"

static int pair_end(void)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	return fd;
}

static void expect_errors(int fd, int error, int of_options)
{
	struct ipc_status status;
	struct ipc_info info;
	struct ipc_memory memory;
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_GET,
				      .level = IPPROTO_TCP,
				      .name = TCP_NODELAY,
				      .length = sizeof(int) };
	enum ipc_conn_state conn_state;
	int got = -9;
	size_t fds = pre_net_count_fds();
	assert_int_equal(pre_ask_status(fd, 0, &status, &got), -error);
	assert_int_equal(pre_ask_status(fd, IPC_STATUS_MAY_TAKE_BACK, &status, &got), -error);
	assert_int_equal(pre_status_look(fd, &conn_state), -error);
	assert_int_equal(pre_ask_info(fd, false, 1000, &info), -error);
	assert_int_equal(pre_ask_memory(fd, &memory, &got), -error);
	assert_int_equal(pre_ask_sockopt(fd, &option), -of_options);
	assert_int_equal(pre_take_back(fd), -error);
	assert_int_equal(got, -9);
	assert_int_equal(pre_net_count_fds(), fds);
}

static void test_errors_are_told(void **state)
{
	(void)state;
	int fd = pair_end();
	socklen_t len = pre_settings.daemon_len;
	pre_settings.daemon_len = 0; /* as with a path that is too long */
	expect_errors(fd, ENAMETOOLONG, ECONNRESET);
	pre_settings.daemon_len = len;
	kill(smcrd.pid, SIGKILL);
	waitpid(smcrd.pid, NULL, 0);
	expect_errors(fd, ECONNREFUSED, ECONNRESET);
	close(fd);
}

static void test_addresses_are_copied_whole(void **state)
{
	(void)state;
	const socklen_t least = offsetof(struct sockaddr_in6, sin6_scope_id);
	union ipc_addr in = { .in.sin_family = AF_INET },
		       in6 = { .in6 = { .sin6_family = AF_INET6, .sin6_scope_id = 5 } },
		       other = { .sa.sa_family = AF_UNIX }, to;
	assert_true(pre_unasked_copy(&in.sa, sizeof(in.in), &to));
	assert_memory_equal(&to.in, &in.in, sizeof(in.in));
	assert_false(pre_unasked_copy(&in.sa, sizeof(in.in) - 1, &to));
	assert_true(pre_unasked_copy(&in6.sa, sizeof(in6.in6), &to));
	assert_memory_equal(&to.in6, &in6.in6, sizeof(in6.in6));
	assert_true(pre_unasked_copy(&in6.sa, least, &to)); /* as before there were scopes */
	assert_int_equal(to.in6.sin6_scope_id, 0);
	assert_false(pre_unasked_copy(&in6.sa, least - 1, &to));
	assert_false(pre_unasked_copy(&other.sa, sizeof(other), &to));
}

/* ---- the number 0, which is free in programs that have closed their standard input */

#define IN_CHILD(check)                                                                            \
	do {                                                                                       \
		int status_;                                                                       \
		pid_t pid_ = fork();                                                               \
		assert_true(pid_ >= 0);                                                            \
		if (pid_ == 0)                                                                     \
			_exit(check);                                                              \
		assert_int_equal(waitpid(pid_, &status_, 0), pid_);                                \
		assert_true(WIFEXITED(status_));                                                   \
		assert_int_equal(WEXITSTATUS(status_), 0);                                         \
	} while (0)

/* The program's socket is number 0. @return 0, or the step that failed */
static int connects_at_zero(int peer)
{
	char byte;
	close(0);
	if (socket(AF_INET, SOCK_STREAM, 0) != 0 || connect(0, &server.sa, pre_net_len(&server)))
		return 1;
	if (pre_net_kernel_family(0) != AF_UNIX)
		return 2;
	int fd = accept4(peer, NULL, NULL, 0);
	return fd < 0 || write(0, "x", 1) != 1 || read(fd, &byte, 1) != 1 ? 3 : 0;
}

static void test_a_socket_with_number_zero(void **state)
{
	(void)state;
	IN_CHILD(connects_at_zero(listener));
}

/* accept() gives number 0. */
static int accepts_at_zero(void)
{
	union ipc_addr addr;
	socklen_t len = sizeof(addr);
	int client = pre_net_socket(AF_INET, SOCK_STREAM);
	char byte;
	if (syscall(SYS_connect, client, &server, pre_net_len(&server)) < 0)
		return 1;
	close(0);
	if (accept(listener, &addr.sa, &len) != 0 || addr.sa.sa_family != AF_INET)
		return 2;
	if (pre_net_kernel_family(0) != AF_UNIX)
		return 3;
	return write(client, "x", 1) != 1 || read(0, &byte, 1) != 1 ? 4 : 0;
}

static void test_an_accepted_socket_with_number_zero(void **state)
{
	(void)state;
	IN_CHILD(accepts_at_zero());
}

/* What the library opens for a moment gets number 0: the session, or a TCP socket that answers for
 * the one that is gone. */
static int asks_at_zero(int fd, bool alive)
{
	struct ifreq interface = { .ifr_name = "lo" };
	struct sockaddr_in addr;
	socklen_t len = sizeof(int);
	int value = 7, on = 1;
	close(0);
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		return 1;
	if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &value, &len) || value == 7)
		return 2;
	if (ioctl(fd, SIOCOUTQNSD, &value) || value != 0)
		return 3;
	if (ioctl(fd, SIOCGIFMTU, &interface) || interface.ifr_mtu == 0)
		return 4;
	len = sizeof(addr);
	if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0 && alive)
		return 5;
	return fcntl(0, F_GETFD) != -1; /* nothing is left there */
}

static void test_questions_with_number_zero(void **state)
{
	(void)state;
	int fd = pair_end();
	IN_CHILD(asks_at_zero(fd, true));
	kill(smcrd.pid, SIGKILL);
	waitpid(smcrd.pid, NULL, 0);
	IN_CHILD(asks_at_zero(fd, false));
	close(fd);
}

/* connect() with AF_UNSPEC: the TCP socket comes back, for a moment at number 0. */
static int comes_back_at_zero(void)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	if (pre_net_connect(fd, &server) != 0 || pre_net_kernel_family(fd) != AF_UNIX)
		return 1;
	close(0);
	if (connect(fd, &none, sizeof(none)) != 0 || pre_net_kernel_family(fd) != AF_INET)
		return 2;
	return fcntl(0, F_GETFD) != -1;
}

static void test_a_socket_that_comes_back_at_zero(void **state)
{
	(void)state;
	smcrd.script->take_back = 1;
	IN_CHILD(comes_back_at_zero());
	smcrd.script->take_back = 0; /* the library makes another one */
	IN_CHILD(comes_back_at_zero());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_errors_are_told),
		TEST(test_addresses_are_copied_whole),
		TEST(test_a_socket_with_number_zero),
		TEST(test_an_accepted_socket_with_number_zero),
		TEST(test_questions_with_number_zero),
		TEST(test_a_socket_that_comes_back_at_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
