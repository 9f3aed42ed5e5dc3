/* SPDX-License-Identifier: MIT */
/* Options whose effect SMC-R does not have: sockets and listeners that have them stay on TCP, and
 * smcrd is told why. Needs root. The library remembers which options the program has set, so the
 * order of these tests counts. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/smcr/fit.h"
#include "lib/smcr/holders.h"
#include "proto/smcr/reason.h"
#include "tests/lib/tries.h"
#include "tests/preload/fixture.h"

static const int one = 1, zero, sent = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE;
static const int received = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
static const struct sock_txtime when = { .clockid = CLOCK_MONOTONIC };
static struct sock_filter all_of_it = { .code = BPF_RET | BPF_K, .k = UINT32_MAX };
static const struct sock_fprog filter = { .len = 1, .filter = &all_of_it };

static const struct unfit {
	const char *what;
	int level, name;
	const void *value;
	socklen_t len;
	uint32_t reason;
	bool clients_only;
} options[] = {
#define OPTION(level, name, value, ...)                                                            \
	{                                                                                          \
#name, level, name, &(value), sizeof(value), __VA_ARGS__                           \
	}
	OPTION(SOL_SOCKET, SO_ZEROCOPY, one, SMCR_REASON_TCP_MESSAGES, true),
	OPTION(SOL_SOCKET, SO_TIMESTAMP_OLD, one, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TIMESTAMP_NEW, one, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TIMESTAMPNS_OLD, one, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TIMESTAMPNS_NEW, one, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TIMESTAMPING_OLD, sent, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TIMESTAMPING_OLD, received, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TIMESTAMPING_NEW, received, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_TXTIME, when, SMCR_REASON_TCP_MESSAGES),
	OPTION(IPPROTO_TCP, TCP_INQ, one, SMCR_REASON_TCP_MESSAGES),
	OPTION(SOL_SOCKET, SO_ATTACH_FILTER, filter, SMCR_REASON_SOCKET_OPTION),
	OPTION(IPPROTO_IP, IP_MINTTL, one, SMCR_REASON_SOCKET_OPTION),
	OPTION(SOL_SOCKET, SO_PEEK_OFF, zero, SMCR_REASON_SOCKET_OPTION),
	OPTION(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, one, SMCR_REASON_SOCKET_OPTION, true),
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

/* Set it, past the library unless `seen`. @return false: the kernel does not have it for TCP */
static bool set(int fd, const struct unfit *option, bool seen)
{
	int rc = seen ? setsockopt(fd, option->level, option->name, option->value, option->len)
		      : (int)syscall(SYS_setsockopt, fd, option->level, option->name, option->value,
				     option->len);
	if (rc < 0 && option->name == SO_PEEK_OFF && errno == EOPNOTSUPP)
		return false; /* before Linux 6.10 */
	assert_int_equal(rc, 0);
	return true;
}

static int client(void)
{
	return pre_net_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);
}

static void expect_told(uint32_t reason, uint32_t flags)
{
	assert_int_equal(pre_net_option.plain_told, 1);
	assert_int_equal(pre_net_option.last_plain.reason, reason);
	assert_int_equal(pre_net_option.last_plain.flags, flags);
	pre_net_option.plain_told = 0;
}

static void expect_plain(int fd)
{
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	/* Fast Open connects with the first data. */
	assert_int_equal(send(fd, "x", 1, 0), 1);
	int peer = pre_net_accept_plain(listener);
	char byte;
	assert_int_equal(read(peer, &byte, 1), 1);
	pre_net_exchange(fd, peer);
	close(peer);
	close(fd);
}

/* ---- sockets that came from another process with the option */

/* The option is found only after the peer was promised SMC-R. */
static void test_clients_that_came_so(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0); /* now the library knows the daemon */
	close(fd);
	close(pre_net_accept_plain(listener));
	for (size_t i = 0; i < OPTIONS; i++) {
		const int claims = pre_net_option.claims;
		const int sessions = smcrd.script->sessions;
		TRIES("%s", options[i].what);
		fd = client();
		pre_holders_set(fd, PRE_HOLDERS_UNKNOWN);
		if (!set(fd, &options[i], false)) {
			close(fd);
			continue;
		}
		assert_int_equal(pre_net_connect(fd, &server), 0);
		assert_int_equal(pre_net_option.claims, claims + 1);
		assert_int_equal(smcrd.script->sessions, sessions);
		expect_told(options[i].reason, 0);
		int peer = pre_net_accept_plain(listener);
		pre_net_expect_decline(peer, options[i].reason);
		pre_net_exchange(fd, peer);
		close(peer);
		close(fd);
	}
}

/* accept() finds that the listener is not claimed, and why it must not be. */
static void expect_accepted_plain(uint32_t reason)
{
	const int claims = pre_net_option.claims;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNCLAIMED;
	int fd = client();
	assert_int_equal(syscall(SYS_connect, fd, &server, pre_net_len(&server)), 0);
	int accepted = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(accepted), AF_INET);
	expect_told(reason, IPC_PLAIN_ACCEPTED);
	assert_int_equal(pre_net_option.claims, claims);
	close(accepted);
	close(fd);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
}

static void inherit_listener(void)
{
	close(listener);
	listener = pre_net_listen(AF_INET, &server);
	pre_holders_set(listener, PRE_HOLDERS_UNKNOWN);
}

static void test_listeners_that_came_so(void **state)
{
	(void)state;
	for (size_t i = 0; i < OPTIONS; i++) {
		if (options[i].clients_only)
			continue;
		TRIES("%s", options[i].what);
		inherit_listener();
		if (!set(listener, &options[i], false))
			continue;
		const int claims = pre_net_option.claims;
		assert_int_equal(listen(listener, 4), 0);
		assert_int_equal(pre_net_option.claims, claims);
		expect_accepted_plain(options[i].reason);
	}
}

/* A listener that has no such option is asked once, and the next one of that number again. */
static void test_another_listener_of_the_same_number(void **state)
{
	(void)state;
	inherit_listener();
	const int number = listener;
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(pre_net_option.claims, 1);
	inherit_listener();
	assert_int_equal(listener, number);
	assert_int_equal(syscall(SYS_setsockopt, listener, SOL_SOCKET, SO_TIMESTAMP, &one, 4), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(pre_net_option.claims, 1);
}

/* ---- options of connections are no reason to ask about other sockets */

static void test_options_of_connections(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)), -1);
	close(fd);
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)), 0);
	assert_false(pre_may_be_unfit(fd));
	close(fd);
}

/* ---- SO_ZEROCOPY of listeners */

static int plain_client(void)
{
	int fd = client();
	assert_int_equal(syscall(SYS_connect, fd, &server, pre_net_len(&server)), 0);
	return fd;
}

static void listen_with_zerocopy(void)
{
	socklen_t len = sizeof(server);
	close(listener);
	listener = client();
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)), 0);
	server.in.sin_port = 0;
	assert_int_equal(bind(listener, &server.sa, pre_net_len(&server)), 0);
	assert_int_equal(getsockname(listener, &server.sa, &len), 0);
	assert_int_equal(listen(listener, 4), 0);
}

static void expect_byte(int fd, char expected)
{
	char byte = 0;
	assert_int_equal(pre_net_wait(fd, POLLIN), POLLIN);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 1);
	assert_int_equal(byte, expected);
}

/* TCP ignores the flag without the option, and so does a pair end. */
static void test_zerocopy_without_the_option(void **state)
{
	(void)state;
	char byte = 'b';
	struct iovec iov = { &byte, 1 };
	const struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	errno = 77;
	assert_int_equal(send(fd, "a", 1, MSG_ZEROCOPY), 1);
	expect_byte(peer, 'a');
	assert_int_equal(sendmsg(fd, &msg, MSG_ZEROCOPY), 1);
	expect_byte(peer, 'b');
	assert_int_equal(sendto(fd, "c", 1, MSG_ZEROCOPY, NULL, 0), 1);
	expect_byte(peer, 'c');
	assert_int_equal(errno, 77);
	close(peer);
	close(fd);
}

/* The library learns from the first use; this test has to come before those that use it. */
static void test_zerocopy_that_nobody_uses(void **state)
{
	(void)state;
	listen_with_zerocopy();
	assert_int_equal(pre_net_option.claims, 1);
	int peer = plain_client();
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	int value = -1;
	socklen_t len = sizeof(value);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &value, &len), 0);
	assert_int_equal(value, 0);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

/* No byte is sent where the program would wait for a notice. The flag says that the program means
 * it: the listener's next connections are TCP. */
static void test_zerocopy_that_the_program_uses(void **state)
{
	(void)state;
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	const struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	listen_with_zerocopy();
	int peer = plain_client();
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(send(fd, "x", 1, MSG_ZEROCOPY), -1);
	assert_int_equal(errno, ENOBUFS);
	assert_int_equal(sendmsg(fd, &msg, MSG_ZEROCOPY), -1);
	assert_int_equal(errno, ENOBUFS);
	assert_int_equal(sendto(fd, "x", 1, MSG_ZEROCOPY, NULL, 0), -1);
	assert_int_equal(errno, ENOBUFS);
	assert_int_equal(send(fd, "y", 1, 0), 1);
	expect_byte(peer, 'y');
	close(fd);
	close(peer);
	expect_accepted_plain(SMCR_REASON_TCP_MESSAGES);
	assert_int_equal(pre_net_option.unclaims, 1);
}

/* ---- sockets on which the program sets the option */

static void test_clients_are_not_claimed(void **state)
{
	(void)state;
	for (size_t i = 0; i < OPTIONS; i++) {
		TRIES("%s", options[i].what);
		int fd = client();
		if (set(fd, &options[i], true)) {
			assert_int_equal(pre_net_connect(fd, &server), 0);
			expect_told(options[i].reason, 0);
			expect_plain(fd);
		}
	}
	assert_int_equal(pre_net_option.claims, 0);
	assert_int_equal(smcrd.script->sessions, 0);
}

/* The program continues a connection of another host: nothing is sent. */
static void test_repair(void **state)
{
	(void)state;
	int fd = client();
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &one, sizeof(one)), 0);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_option.claims, 0);
	expect_told(SMCR_REASON_SOCKET_OPTION, 0);
	assert_int_equal(pre_net_poll_now(listener, POLLIN), 0);
	close(fd);
}

static void test_listeners_are_not_claimed(void **state)
{
	(void)state;
	int unfit = 0;
	for (size_t i = 0; i < OPTIONS; i++) {
		TRIES("%s", options[i].what);
		int fd = client();
		if (!options[i].clients_only && set(fd, &options[i], true)) {
			assert_int_equal(listen(fd, 4), 0);
			assert_int_equal(pre_net_option.unclaims, ++unfit);
		}
		close(fd);
	}
	assert_int_equal(pre_net_option.claims, 0);
	/* Nor after listen(). */
	int fd = client();
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(pre_net_option.claims, 1);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &one, sizeof(one)), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(pre_net_option.claims, 1);
	assert_int_equal(pre_net_option.unclaims, unfit + 1);
	close(fd);
}

/* A socket without the option is claimed nonetheless, also where others have it. */
static void test_others_are_claimed(void **state)
{
	(void)state;
	int fd = client();
	assert_true(pre_may_be_unfit(fd));
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(pre_net_option.claims, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_clients_that_came_so),
		TEST(test_listeners_that_came_so),
		TEST(test_another_listener_of_the_same_number),
		TEST(test_options_of_connections),
		TEST(test_zerocopy_that_nobody_uses),
		TEST(test_zerocopy_that_the_program_uses),
		TEST(test_zerocopy_without_the_option),
		TEST(test_clients_are_not_claimed),
		TEST(test_repair),
		TEST(test_listeners_are_not_claimed),
		TEST(test_others_are_claimed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
