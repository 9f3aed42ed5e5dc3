/* SPDX-License-Identifier: MIT */
/* libsmcr's socket calls: the effect of each policy, and what a program sees of a pair end. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "include/smcr.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/reason.h"
#include "tests/preload/fixture.h"

static int client(int flags)
{
	return pre_net_socket(AF_INET, SOCK_STREAM | flags);
}

static int connect_with(int fd, enum smcr_policy policy)
{
	return smcr_connect(fd, &server.sa, pre_net_len(&server), policy);
}

/* A client that connects to the listener without SMC-R. */
static int plain_client(void)
{
	int fd = client(0);
	assert_int_equal(connect(fd, &server.sa, pre_net_len(&server)), 0);
	pre_net_wait(listener, POLLIN);
	return fd;
}

static int accept_with(enum smcr_policy policy)
{
	return smcr_accept(listener, NULL, NULL, SOCK_CLOEXEC, policy);
}

/* ---- connect */

static void test_connect_prefers(void **state)
{
	(void)state;
	size_t fds = pre_net_count_fds();
	int fd = client(0);
	errno = 77;
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(smcrd.script->last_flags, 0);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(pre_net_count_fds(), fds + 2);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);

	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	fd = client(0);
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(smcrd.script->connected, 1);
	close(fd);
}

static void test_connect_requires(void **state)
{
	(void)state;
	int fd = client(0);
	assert_int_equal(connect_with(fd, SMCR_REQUIRE), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(smcrd.script->last_flags, IPC_HANDOVER_REQUIRE);
	close(fd);

	fd = client(0);
	smcrd.script->answer = ANSWER_TCP;
	errno = 77;
	assert_int_equal(connect_with(fd, SMCR_REQUIRE), -EPROTONOSUPPORT);
	assert_int_equal(errno, 77);
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	assert_int_equal(connect_with(fd, SMCR_REQUIRE), -EPROTONOSUPPORT);
	/* The socket is like new: it may be connected without SMC-R. */
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	close(fd);
}

static void test_connect_never(void **state)
{
	(void)state;
	int fd = client(0);
	assert_int_equal(connect_with(fd, SMCR_NEVER), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(pre_net_option.claims, 0);
	/* A claim of an earlier attempt is taken back. */
	assert_int_equal(pre_net_option.unclaims, 1);
	assert_int_equal(smcrd.script->sessions, 0);
	close(fd);
}

static void test_each_call_has_its_own_policy(void **state)
{
	(void)state;
	static const enum smcr_policy policies[] = { SMCR_REQUIRE, SMCR_PREFER, SMCR_NEVER };
	static const int results[] = { -EPROTONOSUPPORT, 0, 0 };
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	for (size_t i = 0; i < 6; i++) {
		int fd = client(0);
		assert_int_equal(connect_with(fd, policies[i % 3]), results[i % 3]);
		close(fd);
	}
}

static void test_errors_are_the_kernels(void **state)
{
	(void)state;
	assert_int_equal(connect_with(-1, SMCR_PREFER), -EBADF);
	assert_int_equal(smcr_listen(-1, 1, SMCR_PREFER), -EBADF);
	assert_int_equal(smcr_accept(-1, NULL, NULL, 0, SMCR_PREFER), -EBADF);
	int value;
	socklen_t len = sizeof(value);
	assert_int_equal(smcr_getsockopt(-1, SOL_SOCKET, SO_ERROR, &value, &len), -EBADF);
	union ipc_addr nobody;
	int other = pre_net_listen(AF_INET, &nobody);
	close(other);
	int fd = client(0);
	assert_int_equal(smcr_connect(fd, &nobody.sa, pre_net_len(&nobody), SMCR_REQUIRE),
			 -ECONNREFUSED);
	close(fd);
}

static void test_unknown_policies(void **state)
{
	(void)state;
	const enum smcr_policy unknown = (enum smcr_policy)3;
	int fd = client(0);
	assert_int_equal(connect_with(fd, unknown), -EINVAL);
	assert_int_equal(smcr_listen(fd, 1, unknown), -EINVAL);
	assert_int_equal(accept_with(unknown), -EINVAL);
	assert_int_equal(pre_net_option.claims, 0);
	close(fd);
}

/* With smcr-run --require a program cannot choose plain TCP. */
static void test_the_operator_requires(void **state)
{
	(void)state;
	pre_settings.require = true;
	int fd = client(0);
	assert_int_equal(connect_with(fd, SMCR_NEVER), -EPROTONOSUPPORT);
	assert_int_equal(smcr_listen(listener, 1, SMCR_NEVER), -EPROTONOSUPPORT);
	assert_int_equal(accept_with(SMCR_NEVER), -EPROTONOSUPPORT);
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	assert_int_equal(smcrd.script->last_flags, IPC_HANDOVER_REQUIRE);
	close(fd);
}

/* ---- listen and accept */

static void test_listen(void **state)
{
	(void)state;
	assert_int_equal(smcr_listen(listener, 8, SMCR_PREFER), 0);
	assert_int_equal(pre_net_option.claims, 1);
	assert_int_equal(pre_net_option.last_claimed, listener);
	assert_int_equal(smcr_listen(listener, 8, SMCR_REQUIRE), 0);
	assert_int_equal(pre_net_option.claims, 2);
	assert_int_equal(pre_net_option.unclaims, 0);
	assert_int_equal(smcr_listen(listener, 8, SMCR_NEVER), 0);
	assert_int_equal(pre_net_option.claims, 2);
	assert_int_equal(pre_net_option.unclaims, 1);
}

static void test_accept(void **state)
{
	(void)state;
	int peer = plain_client();
	struct sockaddr_in from, name;
	socklen_t len = sizeof(from), name_len = sizeof(name);
	errno = 77;
	int fd = smcr_accept(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC, SMCR_PREFER);
	assert_true(fd >= 0);
	assert_int_equal(errno, 77);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(getsockname(peer, (struct sockaddr *)&name, &name_len), 0);
	assert_memory_equal(&from, &name, sizeof(name));
	assert_int_equal(smcr_getpeername(fd, (struct sockaddr *)&from, &len), 0);
	assert_memory_equal(&from, &name, sizeof(name));
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);

	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	peer = plain_client();
	fd = accept_with(SMCR_PREFER);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

/* accept() refuses the client, and no other client waits. */
static void expect_turned_away(enum smcr_policy policy)
{
	int peer = plain_client();
	assert_int_equal(accept_with(policy), -EAGAIN);
	pre_net_expect_reset(peer);
	close(peer);
}

static void test_accept_requires(void **state)
{
	(void)state;
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	expect_turned_away(SMCR_REQUIRE);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	smcrd.script->answer = ANSWER_TCP;
	expect_turned_away(SMCR_REQUIRE);
	smcrd.script->answer = ANSWER_PAIR;
	int peer = plain_client();
	int fd = accept_with(SMCR_REQUIRE);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(smcrd.script->last_flags, IPC_HANDOVER_REQUIRE);
	close(fd);
	close(peer);
}

static void test_accept_never(void **state)
{
	(void)state;
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 2; i++) {
		pre_net_option.negotiated = i ? IPC_NEGOTIATED_NO : IPC_NEGOTIATED_UNKNOWN;
		int peer = plain_client();
		int fd = accept_with(SMCR_NEVER);
		assert_int_equal(pre_net_kernel_family(fd), AF_INET);
		pre_net_exchange(fd, peer);
		close(fd);
		close(peer);
	}
	assert_int_equal(pre_net_option.claims, 0);
	assert_int_equal(smcrd.script->sessions, 0);
}

/* The handshake promised SMC-R to this client before the policy changed, so it speaks CLC now. */
static void test_accept_never_declines_what_was_offered(void **state)
{
	(void)state;
	const struct smcr_clc_proposal proposal = { .version = 1, .ipv4_mask_len = 24 };
	uint8_t bytes[SMCR_CLC_MAX_LEN];
	struct smcr_clc_msg decline;
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	int peer = plain_client();
	int len = smcr_clc_encode_proposal(&proposal, bytes, sizeof(bytes));
	assert_int_equal(send(peer, bytes, (size_t)len, 0), len);
	int fd = accept_with(SMCR_NEVER);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	pre_net_wait(peer, POLLIN);
	assert_int_equal(recv(peer, bytes, SMCR_CLC_DECLINE_LEN, MSG_WAITALL),
			 SMCR_CLC_DECLINE_LEN);
	assert_int_equal(smcr_clc_decode(bytes, SMCR_CLC_DECLINE_LEN, &decline), 0);
	assert_int_equal(decline.type, SMCR_CLC_DECLINE);
	assert_int_equal(decline.decline.diagnosis, SMCR_REASON_LOCAL_POLICY);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
	assert_int_equal(smcrd.script->sessions, 0);
}

/* The daemon knows that nothing was promised: what the client sends is the program's, whatever it
 * looks like. */
static void test_accept_never_takes_no_bytes(void **state)
{
	(void)state;
	const int on = 1;
	const struct smcr_clc_proposal proposal = { .version = 1, .ipv4_mask_len = 24 };
	uint8_t sent[SMCR_CLC_MAX_LEN], bytes[SMCR_CLC_MAX_LEN];
	assert_int_equal(setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)), 0);
	pre_net_option.negotiated = IPC_NEGOTIATED_UNCLAIMED;
	int peer = plain_client();
	int len = smcr_clc_encode_proposal(&proposal, sent, sizeof(sent));
	assert_int_equal(send(peer, sent, (size_t)len, 0), len);
	int fd = accept_with(SMCR_NEVER);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 1000), 1);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), len);
	assert_memory_equal(bytes, sent, (size_t)len);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
	assert_int_equal(pre_net_option.claims, 0);
	assert_int_equal(smcrd.script->sessions, 0);
}

/* ---- a pair end answers as TCP does */

static void test_names_and_options(void **state)
{
	(void)state;
	int fd = client(0), value = 0;
	socklen_t len = sizeof(value), addr_len = sizeof(struct sockaddr_in);
	struct sockaddr_in local, seen;
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(smcr_getsockname(fd, (struct sockaddr *)&local, &addr_len), 0);
	assert_int_equal(addr_len, sizeof(local));
	assert_int_equal(getpeername(peer, (struct sockaddr *)&seen, &addr_len), 0);
	assert_memory_equal(&local, &seen, sizeof(local));
	errno = 77;
	assert_int_equal(smcr_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len), 0);
	assert_int_equal(value, AF_INET);
	value = 1;
	assert_int_equal(smcr_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, len), 0);
	value = 0;
	assert_int_equal(smcr_getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
	assert_int_equal(value, 1);
	assert_int_equal(smcr_setsockopt(fd, SOL_SOCKET, SO_TXTIME, &value, len), -EOPNOTSUPP);
	assert_int_equal(errno, 77);
	close(fd);
	close(peer);
}

static void test_shutdown_and_ioctl(void **state)
{
	(void)state;
	int fd = client(0), value = 77;
	char byte;
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	int peer = pre_net_accept_plain(listener);
	/* A Unix socket does not know it. */
	assert_int_equal(ioctl(fd, SIOCOUTQNSD, &value), -1);
	errno = 77;
	assert_int_equal(smcr_ioctl(fd, SIOCOUTQNSD, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(smcr_ioctl(fd, FIONREAD, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(smcr_ioctl(fd, TCGETS, &value), -ENOTTY);
	assert_int_equal(smcr_ioctl(-1, SIOCOUTQNSD, &value), -EBADF);
	assert_int_equal(smcr_shutdown(fd, SHUT_WR), 0);
	assert_int_equal(read(peer, &byte, 1), 0);
	assert_int_equal(smcr_shutdown(fd, 99), -EINVAL);
	assert_int_equal(smcr_shutdown(-1, SHUT_WR), -EBADF);
	close(peer);
	pre_net_wait(fd, POLLIN);
	assert_int_equal(read(fd, &byte, 1), 0);
	/* The connection is over in both directions. */
	for (int i = 0; smcrd.script->conns > 0 && i < 10000; i++)
		poll(NULL, 0, 1);
	assert_int_equal(smcr_shutdown(fd, SHUT_WR), -ENOTCONN);
	assert_int_equal(errno, 77);
	close(fd);
}

/* libsmcr does not see registrations with epoll, so it does not replace the descriptor unasked. */
static void test_no_socket_comes_back_unasked(void **state)
{
	(void)state;
	int fd = client(SOCK_NONBLOCK), value = 77;
	socklen_t len = sizeof(value);
	smcrd.script->fallback = 1;
	smcrd.script->reason = SMCR_REASON_PREFIX_MISMATCH;
	smcrd.script->take_back = 1;
	assert_int_equal(connect_with(fd, SMCR_PREFER), -EINPROGRESS);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(smcr_getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len), 0);
	assert_int_equal(value, 0);
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	assert_int_equal(connect_with(fd, SMCR_PREFER), -EISCONN);
	assert_int_equal(smcrd.script->taken_back, 0);
	assert_int_equal(smcrd.script->may_take_back, 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

/* ---- words */

/* libsmcr does not see how the program closes and duplicates descriptors. */
static void test_dups_at_the_number_of_an_accepted_socket(void **state)
{
	(void)state;
	int plain = plain_client();
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	int number = accept_with(SMCR_PREFER);
	assert_true(number >= 0);
	close(number);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	int fd = client(0);
	assert_int_equal(fd, number);
	int copy = dup(fd);
	assert_true(copy >= 0);
	assert_int_equal(connect_with(fd, SMCR_PREFER), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(pre_net_kernel_family(copy), AF_UNIX);
	close(copy);
	close(fd);
	close(plain);
}

static void test_words(void **state)
{
	(void)state;
	assert_string_equal(smcr_version(), SMCR_VERSION);
	assert_string_equal(smcr_strreasonname(SMCR_REASON_PEER_NO_SMC), "peer-no-smc");
	assert_string_equal(smcr_strreasonname(0xffffffff), "unknown");
	assert_non_null(strstr(smcr_strreason(SMCR_REASON_PREFIX_MISMATCH), "subnet"));
	assert_true(*smcr_strreason(0xffffffff) != '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_connect_prefers),
		TEST(test_connect_requires),
		TEST(test_connect_never),
		TEST(test_each_call_has_its_own_policy),
		TEST(test_errors_are_the_kernels),
		TEST(test_unknown_policies),
		TEST(test_the_operator_requires),
		TEST(test_listen),
		TEST(test_accept),
		TEST(test_accept_requires),
		TEST(test_accept_never),
		TEST(test_accept_never_declines_what_was_offered),
		TEST(test_accept_never_takes_no_bytes),
		TEST(test_names_and_options),
		TEST(test_shutdown_and_ioctl),
		TEST(test_no_socket_comes_back_unasked),
		TEST(test_dups_at_the_number_of_an_accepted_socket),
		TEST(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
