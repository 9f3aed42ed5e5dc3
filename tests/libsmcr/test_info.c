/* SPDX-License-Identifier: MIT */
/* What libsmcr tells about a connection, how it waits for the outcome, and how it gives the TCP
 * socket back. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "include/smcr.h"
#include "proto/smcr/reason.h"
#include "tests/preload/fixture.h"

static int client(int flags)
{
	return pre_net_socket(AF_INET, SOCK_STREAM | flags);
}

static int connected(enum smcr_policy policy)
{
	int fd = client(0);
	assert_int_equal(smcr_connect(fd, &server.sa, pre_net_len(&server), policy), 0);
	return fd;
}

static int connecting(void)
{
	int fd = client(SOCK_NONBLOCK);
	assert_int_equal(smcr_connect(fd, &server.sa, pre_net_len(&server), SMCR_PREFER),
			 -EINPROGRESS);
	return fd;
}

static struct smcr_info info_of(int fd)
{
	struct smcr_info info;
	memset(&info, 0xa5, sizeof(info));
	errno = 77;
	assert_int_equal(smcr_get_info(fd, &info, sizeof(info)), 0);
	assert_int_equal(errno, 77);
	return info;
}

/* ---- info */

static void test_smcr(void **state)
{
	(void)state;
	size_t fds = pre_net_count_fds();
	int fd = connected(SMCR_PREFER);
	struct smcr_info info = info_of(fd);
	assert_int_equal(info.mode, SMCR_MODE_SMCR);
	assert_int_equal(info.flags, SMCR_INFO_BYTES);
	assert_int_equal(info.error, 0);
	assert_int_equal(info.reason, 0);
	assert_string_equal(info.reason_name, "");
	assert_string_equal(info.reason_text, "");
	assert_string_equal(info.peer_reason_text, "");
	assert_int_equal(info.linkgroup, 3);
	assert_int_equal(info.link, 2);
	assert_string_equal(info.rnic, "roce_1");
	assert_true(info.tx_bytes == 1ull << 40 && info.rx_bytes == 7);
	assert_int_equal(info.rmbe_size, 65536);
	assert_int_equal(info.peer_rmbe_size, 32768);
	assert_int_equal(info.reserved, 0);
	assert_int_equal(smcr_wait_established(fd, 0), 0);
	close(fd);
	assert_int_equal(pre_net_count_fds(), fds);
}

static void test_relayed(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->reason = SMCR_REASON_PREFIX_MISMATCH;
	int fd = connecting();
	assert_int_equal(smcr_wait_established(fd, 10000), 0);
	struct smcr_info info = info_of(fd);
	assert_int_equal(info.mode, SMCR_MODE_TCP);
	assert_int_equal(info.flags, SMCR_INFO_BYTES | SMCR_INFO_RELAYED);
	assert_int_equal(info.reason, SMCR_REASON_PREFIX_MISMATCH);
	assert_string_equal(info.reason_name, "prefix-mismatch");
	assert_string_equal(info.reason_text, smcr_strreason(info.reason));
	assert_string_equal(info.peer_reason_text, info.reason_text);
	assert_string_equal(info.rnic, "");
	close(fd);
}

/* The kernel and smcrd's BPF programs know about plain connections. smcrd is asked only if it may
 * have had the socket. */
static void test_plain_tcp(void **state)
{
	(void)state;
	static const struct {
		enum ipc_negotiated negotiated;
		bool absent;
		int stayed;
		uint32_t reason;
		int requests;
	} rows[] = {
		{ IPC_NEGOTIATED_NO, false, 0, SMCR_REASON_PEER_NO_SMC, 0 },
		{ IPC_NEGOTIATED_UNKNOWN, false, 0, SMCR_REASON_NOT_CLAIMED, 0 },
		{ IPC_NEGOTIATED_UNCLAIMED, false, 0, SMCR_REASON_NOT_CLAIMED, 0 },
		{ IPC_NEGOTIATED_YES, false, SMCR_REASON_VLAN, SMCR_REASON_VLAN, 1 },
		{ IPC_NEGOTIATED_YES, false, 0, SMCR_REASON_NONE, 1 }, /* forgotten */
		{ IPC_NEGOTIATED_YES, true, 0, SMCR_REASON_NO_BPF, 1 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = connected(SMCR_NEVER);
		pre_net_option.negotiated = rows[i].negotiated;
		pre_net_option.absent = rows[i].absent;
		smcrd.script->stayed = rows[i].stayed;
		smcrd.script->info_requests = 0;
		struct smcr_info info = info_of(fd);
		assert_int_equal(info.mode, SMCR_MODE_TCP);
		assert_int_equal(info.flags, 0);
		assert_int_equal(info.reason, rows[i].reason);
		assert_int_equal(info.reason_text[0] != '\0', rows[i].reason != 0);
		assert_int_equal(smcrd.script->info_requests, rows[i].requests);
		assert_int_equal(smcr_wait_established(fd, -1), 0);
		close(fd);
	}
}

static void test_no_connections(void **state)
{
	(void)state;
	struct smcr_info info;
	int pipes[2], unix_socket = pre_net_socket(AF_UNIX, SOCK_STREAM);
	int fresh = client(0);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(smcr_get_info(-1, &info, sizeof(info)), -EBADF);
	assert_int_equal(smcr_get_info(pipes[0], &info, sizeof(info)), -ENOTSOCK);
	assert_int_equal(smcr_get_info(unix_socket, &info, sizeof(info)), -EOPNOTSUPP);
	assert_int_equal(smcr_get_info(fresh, &info, sizeof(info)), -ENOTCONN);
	assert_int_equal(smcr_get_info(listener, &info, sizeof(info)), -ENOTCONN);
	assert_int_equal(smcr_wait_established(-1, 0), -EBADF);
	assert_int_equal(smcr_wait_established(listener, -1), -ENOTCONN);
	assert_int_equal(smcr_take_back(-1), -ENOTSOCK);
	assert_int_equal(smcr_take_back(unix_socket), -ENOTSOCK);
	close(pipes[0]);
	close(pipes[1]);
	close(unix_socket);
	close(fresh);
}

/* Programs built with other versions pass structures of other sizes. */
static void test_sizes(void **state)
{
	(void)state;
	struct {
		struct smcr_info info;
		unsigned char later[16];
		unsigned char behind;
	} room;
	int fd = connected(SMCR_PREFER);
	memset(&room, 0xa5, sizeof(room));
	assert_int_equal(smcr_get_info(fd, &room.info, sizeof(room.info) - 1), -EINVAL);
	assert_int_equal(smcr_get_info(fd, NULL, sizeof(room.info)), -EINVAL);
	assert_int_equal(((unsigned char *)&room)[0], 0xa5);
	assert_int_equal(smcr_get_info(fd, &room.info, sizeof(room.info) + sizeof(room.later)), 0);
	assert_int_equal(room.info.mode, SMCR_MODE_SMCR);
	for (size_t i = 0; i < sizeof(room.later); i++)
		assert_int_equal(room.later[i], 0);
	assert_int_equal(room.behind, 0xa5);
	close(fd);
}

static void test_no_daemon(void **state)
{
	(void)state;
	struct smcr_info info;
	int fd = connected(SMCR_PREFER);
	kill(smcrd.pid, SIGTERM);
	pre_net_wait(fd, POLLIN); /* the pair end is reset */
	assert_true(smcr_get_info(fd, &info, sizeof(info)) < 0);
	assert_true(smcr_wait_established(fd, -1) < 0);
	assert_true(smcr_take_back(fd) < 0);
	close(fd);
	fd = connected(SMCR_NEVER);
	assert_int_equal(info_of(fd).mode, SMCR_MODE_TCP);
	close(fd);
}

/* ---- waiting */

static void test_a_limit(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	size_t fds = pre_net_count_fds();
	int fd = connecting();
	assert_int_equal(info_of(fd).mode, SMCR_MODE_PENDING);
	assert_int_equal(smcr_wait_established(fd, 0), -ETIMEDOUT);
	assert_int_equal(smcrd.script->info_waits, 0);
	struct timespec before, after;
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(smcr_wait_established(fd, 30), -ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true((after.tv_sec - before.tv_sec) * 1000 +
			    (after.tv_nsec - before.tv_nsec) / 1000000 >=
		    29);
	assert_int_equal(smcrd.script->info_waits, 1);
	assert_int_equal(pre_net_count_fds(), fds + 1);
	close(fd);
}

struct waiter {
	pthread_t thread;
	int fd, limit, result;
	_Atomic bool done;
};

static void *wait_in_thread(void *arg)
{
	struct waiter *waiter = arg;
	waiter->result = smcr_wait_established(waiter->fd, waiter->limit);
	waiter->done = true;
	return NULL;
}

static void wait_until_waits(int count)
{
	for (int i = 0; smcrd.script->info_waits != count; i++) {
		assert_true(i < 10000);
		poll(NULL, 0, 1);
	}
}

/* @return what the wait gives when the outcome comes */
static int outcome_of(int fd, int limit)
{
	struct waiter waiter = { .fd = fd, .limit = limit };
	smcrd.script->info_waits = 0;
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_in_thread, &waiter), 0);
	wait_until_waits(1);
	smcrd.script->hold = 0;
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	return waiter.result;
}

static void test_the_outcome_ends_the_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		smcrd.script->hold = 1;
		smcrd.script->fallback = i & 1;
		int fd = connecting();
		assert_int_equal(outcome_of(fd, i & 2 ? -1 : 10000), 0);
		assert_int_equal(info_of(fd).mode, i & 1 ? SMCR_MODE_TCP : SMCR_MODE_SMCR);
		close(fd);
	}
}

static void test_a_failure_ends_the_wait(void **state)
{
	(void)state;
	int value = 0;
	socklen_t len = sizeof(value);
	smcrd.script->hold = 1;
	int fd = connecting();
	int peer = pre_net_accept_plain(listener);
	const struct linger reset = { .l_onoff = 1 };
	setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(peer);
	assert_int_equal(outcome_of(fd, -1), -ECONNRESET);
	/* SO_ERROR still has the error afterwards. */
	assert_int_equal(smcr_getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len), 0);
	assert_int_equal(value, ECONNRESET);
	close(fd);
}

static void test_the_daemons_death_ends_the_wait(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	struct waiter waiter = { .fd = connecting(), .limit = 20000 };
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_in_thread, &waiter), 0);
	wait_until_waits(1);
	kill(smcrd.pid, SIGKILL);
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_int_equal(waiter.result, -ECONNRESET);
	close(waiter.fd);
}

static void on_signal(int signal)
{
	(void)signal;
}

static void test_a_signal_ends_the_wait(void **state)
{
	(void)state;
	const struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGUSR1, &action, NULL);
	smcrd.script->hold = 1;
	struct waiter waiter = { .fd = connecting(), .limit = 20000 };
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_in_thread, &waiter), 0);
	wait_until_waits(1);
	/* The first signal may come before the thread sleeps. */
	for (int i = 0; !waiter.done && i < 10000; i++) {
		pthread_kill(waiter.thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_int_equal(waiter.result, -EINTR);
	/* The signal has ended the wait and nothing else: the next wait gets the outcome. */
	assert_int_equal(outcome_of(waiter.fd, 10000), 0);
	close(waiter.fd);
}

/* A socket that no pair end has replaced: the wait is for the TCP handshake alone. */
static void test_waiting_for_plain_tcp(void **state)
{
	(void)state;
	union ipc_addr full;
	int other = pre_net_listen(AF_INET, &full), fds[16], i, last = -1;
	assert_int_equal(listen(other, 0), 0);
	for (i = 0; i < 16 && last < 0; i++) {
		fds[i] = client(SOCK_NONBLOCK);
		assert_int_equal(smcr_connect(fds[i], &full.sa, pre_net_len(&full), SMCR_NEVER),
				 -EINPROGRESS);
		struct pollfd p = { .fd = fds[i], .events = POLLOUT };
		if (poll(&p, 1, 300) == 0)
			last = fds[i]; /* the listener's queue is full: SYNs are dropped */
	}
	assert_true(last >= 0);
	assert_int_equal(info_of(last).mode, SMCR_MODE_PENDING);
	assert_int_equal(smcr_wait_established(last, 0), -ETIMEDOUT);
	assert_int_equal(smcr_wait_established(last, 20), -ETIMEDOUT);
	assert_int_equal(smcr_wait_established(fds[0], 0), 0);
	close(other); /* the next SYN is refused */
	assert_int_equal(smcr_wait_established(last, 10000), -ENOTCONN);
	while (i-- > 0)
		close(fds[i]);
}

/* ---- back to TCP */

static void test_take_back(void **state)
{
	(void)state;
	smcrd.script->fallback = 1;
	smcrd.script->take_back = 1;
	smcrd.script->hold = 1;
	int fd = connecting();
	assert_int_equal(smcr_take_back(fd), -EBUSY); /* the rendezvous goes on */
	smcrd.script->hold = 0;
	assert_int_equal(smcr_wait_established(fd, 10000), 0);
	int copy = dup(fd);
	assert_int_equal(smcr_take_back(fd), -EBUSY);
	close(copy);
	errno = 77;
	assert_int_equal(smcr_take_back(fd), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(smcrd.script->taken_back, 1);
	assert_int_equal(smcr_take_back(fd), 0);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(peer);
	close(fd);
}

static void test_what_cannot_go_back(void **state)
{
	(void)state;
	smcrd.script->take_back = 1;
	int fd = connected(SMCR_PREFER);
	assert_int_equal(smcr_take_back(fd), -EBUSY); /* SMC-R */
	close(pre_net_accept_plain(listener));
	close(fd);
	smcrd.script->fallback = 1;
	fd = connecting();
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(smcr_wait_established(fd, 10000), 0);
	pre_net_exchange(fd, peer);
	assert_int_equal(smcr_take_back(fd), -EBUSY); /* bytes have passed */
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	close(fd);
	close(peer);
}

/* After a refused connect() the program may try again with the same socket. */
static void test_take_back_after_a_failure(void **state)
{
	(void)state;
	smcrd.script->take_back = 1;
	smcrd.script->hold = 1;
	int fd = connecting();
	int peer = pre_net_accept_plain(listener);
	const struct linger reset = { .l_onoff = 1 };
	setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(peer);
	assert_int_equal(outcome_of(fd, -1), -ECONNRESET);
	assert_int_equal(smcr_take_back(fd), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(smcr_connect(fd, &server.sa, pre_net_len(&server), SMCR_PREFER),
			 -EINPROGRESS);
	assert_int_equal(smcr_wait_established(fd, 10000), 0);
	assert_int_equal(info_of(fd).mode, SMCR_MODE_SMCR);
	close(fd);
}

static void test_modes(void **state)
{
	(void)state;
	assert_string_equal(smcr_strmode(SMCR_MODE_PENDING), "pending");
	assert_string_equal(smcr_strmode(SMCR_MODE_SMCR), "smcr");
	assert_string_equal(smcr_strmode(SMCR_MODE_TCP), "tcp");
	assert_string_equal(smcr_strmode(0), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_smcr),
		TEST(test_relayed),
		TEST(test_plain_tcp),
		TEST(test_no_connections),
		TEST(test_sizes),
		TEST(test_no_daemon),
		TEST(test_a_limit),
		TEST(test_the_outcome_ends_the_wait),
		TEST(test_a_failure_ends_the_wait),
		TEST(test_the_daemons_death_ends_the_wait),
		TEST(test_a_signal_ends_the_wait),
		TEST(test_waiting_for_plain_tcp),
		TEST(test_take_back),
		TEST(test_what_cannot_go_back),
		TEST(test_take_back_after_a_failure),
		TEST(test_modes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
