/* SPDX-License-Identifier: MIT */
/* Servers that do not answer the option: when they are asked, and that nothing is lost of the count
 * of connections. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/unanswered.h"
#include "tests/preload/fixture.h"

#define STREAK      16
#define INTERVAL_MS 100

/* ---- the table; each test has servers of its own */

static union ipc_addr server_of(uint16_t port)
{
	return (union ipc_addr){ .in = { .sin_family = AF_INET,
					 .sin_port = htons(port),
					 .sin_addr.s_addr = htonl(0xC0000201) } };
}

static uint64_t clock_now = 1000000;

static void pass_time(uint64_t ms)
{
	clock_now += ms;
}

/* A question is answered without the option, and smcrd confirms that. @return how many were told */
static uint32_t ask(const union ipc_addr *to)
{
	uint32_t number;
	if (pre_unanswered_plain(to, clock_now, &number))
		pre_unanswered_confirm(to, clock_now);
	return number;
}

static void ask_often(const union ipc_addr *to, int times, uint64_t apart)
{
	for (int i = 0; i < times; i++) {
		assert_false(pre_unanswered_skip(to, clock_now));
		assert_int_equal(ask(to), 0);
		pass_time(apart);
	}
}

static uint32_t skip_all(const union ipc_addr *to)
{
	uint32_t skipped = 0;
	while (pre_unanswered_skip(to, clock_now))
		skipped++;
	return skipped;
}

static void asked_seldom_after_a_streak(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(1), other = server_of(2);
	ask_often(&to, STREAK, 1);
	assert_int_equal(skip_all(&to), IPC_UNASKED_MAX);
	assert_false(pre_unanswered_skip(&other, clock_now));
	/* With the next question the others are told, and the same begins anew. */
	assert_int_equal(ask(&to), IPC_UNASKED_MAX);
	assert_int_equal(skip_all(&to), IPC_UNASKED_MAX);
	assert_int_equal(ask(&to), IPC_UNASKED_MAX);
	/* After 100 ms there is a question in any case, and the streak goes on. */
	assert_true(pre_unanswered_skip(&to, clock_now));
	pass_time(INTERVAL_MS);
	assert_false(pre_unanswered_skip(&to, clock_now));
	assert_int_equal(ask(&to), 1);
	assert_true(pre_unanswered_skip(&to, clock_now));
}

static void who_connects_seldom_always_asks(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(3);
	ask_often(&to, 100, INTERVAL_MS);
	ask_often(&to, STREAK - 1, 1);
	pass_time(INTERVAL_MS);
	ask_often(&to, STREAK, 1);
	assert_true(pre_unanswered_skip(&to, clock_now));
	/* Then it stops for a while. */
	pass_time(2 * INTERVAL_MS);
	assert_false(pre_unanswered_skip(&to, clock_now));
	assert_int_equal(ask(&to), 1);
	ask_often(&to, STREAK - 1, 1);
	assert_true(pre_unanswered_skip(&to, clock_now));
}

static void an_answer_ends_it(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(4);
	ask_often(&to, STREAK - 1, 1);
	assert_int_equal(pre_unanswered_end(&to), 0);
	ask_often(&to, STREAK, 1);
	assert_int_equal(skip_all(&to), IPC_UNASKED_MAX);
	assert_int_equal(pre_unanswered_end(&to), IPC_UNASKED_MAX);
	assert_int_equal(pre_unanswered_end(&to), 0);
	ask_often(&to, STREAK, 1);
	assert_true(pre_unanswered_skip(&to, clock_now));
}

/* The same, but nobody can be told of the number now. */
static void an_answer_in_the_background_ends_it(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(9);
	pre_unanswered_break(&to);
	ask_often(&to, STREAK, 1);
	assert_int_equal(skip_all(&to), IPC_UNASKED_MAX);
	pre_unanswered_break(&to);
	assert_int_equal(ask(&to), IPC_UNASKED_MAX);
	ask_often(&to, STREAK - 2, 1);
	assert_false(pre_unanswered_skip(&to, clock_now));
	assert_int_equal(ask(&to), 0);
	assert_true(pre_unanswered_skip(&to, clock_now));
}

/* Until smcrd has said that it is the server who does not answer, each connection is asked about.
 */
static void nothing_without_confirmation(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(5);
	uint32_t number;
	for (int i = 1; i < 3 * STREAK; i++) {
		assert_false(pre_unanswered_skip(&to, clock_now));
		assert_int_equal(pre_unanswered_plain(&to, clock_now, &number), i >= STREAK);
		assert_int_equal(number, 0);
		pass_time(1);
	}
	pre_unanswered_confirm(&to, clock_now);
	assert_true(pre_unanswered_skip(&to, clock_now));
}

static void what_failed_is_not_counted(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(6);
	pre_unanswered_uncount(&to);
	ask_often(&to, STREAK, 1);
	pre_unanswered_uncount(&to);
	assert_true(pre_unanswered_skip(&to, clock_now));
	assert_true(pre_unanswered_skip(&to, clock_now));
	pre_unanswered_uncount(&to);
	assert_int_equal(ask(&to), 1);
}

static void addresses_are_told_apart(void **state)
{
	(void)state;
	union ipc_addr to = { .in6 = { .sin6_family = AF_INET6, .sin6_port = htons(80) } };
	to.in6.sin6_addr.s6_addr[0] = 0xFE;
	to.in6.sin6_addr.s6_addr[15] = 1;
	to.in6.sin6_scope_id = 2;
	ask_often(&to, STREAK, 1);
	union ipc_addr others[] = { to, to, to, to };
	others[0].in6.sin6_scope_id = 3;
	others[1].in6.sin6_addr.s6_addr[15] = 2;
	others[2].in6.sin6_addr.s6_addr[0] = 0xFD;
	others[3].in6.sin6_port = htons(81);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(pre_unanswered_skip(&others[i], clock_now));
	to.in6.sin6_flowinfo = 7;
	assert_true(pre_unanswered_skip(&to, clock_now));
	uint32_t number;
	const union ipc_addr none = { .sa = { .sa_family = AF_UNIX } };
	assert_false(pre_unanswered_skip(&none, clock_now));
	assert_false(pre_unanswered_plain(&none, clock_now, &number));
	assert_int_equal(pre_unanswered_end(&none), 0);
}

/* More servers than places: some are asked each time, and those that have a place keep it. */
static void more_servers_than_places(void **state)
{
	(void)state;
	enum { SERVERS = 200 };
	int seldom = 0;
	for (int round = 0; round < STREAK; round++)
		for (uint16_t i = 0; i < SERVERS; i++) {
			const union ipc_addr to = server_of((uint16_t)(1000 + i));
			ask(&to);
		}
	for (uint16_t i = 0; i < SERVERS; i++) {
		const union ipc_addr to = server_of((uint16_t)(1000 + i));
		for (int j = 0; j < STREAK; j++)
			ask(&to);
	}
	for (uint16_t i = 0; i < SERVERS; i++) {
		const union ipc_addr to = server_of((uint16_t)(1000 + i));
		seldom += pre_unanswered_skip(&to, clock_now);
	}
	assert_in_range(seldom, 32, 64);
	pass_time(2 * INTERVAL_MS);
	const union ipc_addr newer = server_of(1);
	ask_often(&newer, STREAK, 1);
	assert_true(pre_unanswered_skip(&newer, clock_now));
}

static void a_child_does_not_count_again(void **state)
{
	(void)state;
	const union ipc_addr to = server_of(7);
	int status;
	ask_often(&to, STREAK, 1);
	assert_true(pre_unanswered_skip(&to, clock_now));
	pid_t child = fork();
	if (child == 0)
		_exit(skip_all(&to) == IPC_UNASKED_MAX && ask(&to) == IPC_UNASKED_MAX ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ask(&to), 1);
}

#define THREADS 4
#define CALLS   50000

static _Atomic uint64_t skipped, told;

static void *many_calls(void *arg)
{
	const union ipc_addr *to = arg;
	for (int i = 0; i < CALLS; i++) {
		if (pre_unanswered_skip(to, clock_now))
			atomic_fetch_add(&skipped, 1);
		else
			atomic_fetch_add(&told, ask(to));
	}
	return NULL;
}

static void threads_lose_no_count(void **state)
{
	(void)state;
	union ipc_addr to = server_of(8);
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, many_calls, &to), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(skipped > 0);
	assert_true(told + ask(&to) == skipped);
}

/* ---- connect(), to a server that does not answer */

static void go_without_option(void)
{
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	pre_net_option.answers_unasked = true;
}

static int client(void)
{
	return pre_net_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);
}

static int connections; /* since the last reset of pre_net_option */

static void connect_plain(void)
{
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	close(fd);
	close(pre_net_accept_plain(listener));
	connections++;
}

/* Have the library know that the server does not answer. It then asks at most once in 33 times; but
 * on a busy machine more than 100 ms may pass between two connections. */
static void reach_streak(void)
{
	uint64_t claims;
	do {
		claims = (uint64_t)pre_net_option.claims;
		connect_plain();
		assert_true(connections < 100000);
	} while ((uint64_t)pre_net_option.claims != claims);
}

static int start_without(void **state)
{
	int rc = start(state);
	/* The kernel may give the listener the port of an earlier test's. The library knows of that
	 * server that it does not answer, and of connections that were not told yet. */
	pre_unanswered_end(&server);
	go_without_option();
	connections = 0;
	return rc;
}

#define TEST_WITHOUT(name) cmocka_unit_test_setup_teardown(name, start_without, stop)

/* What connected nothing has had its claim taken back. */
static int untold(void)
{
	int asked = pre_net_option.claims - pre_net_option.unclaims;
	return connections - asked - (int)pre_net_option.unasked;
}

static void each_connection_is_counted(void **state)
{
	(void)state;
	reach_streak();
	while (connections < 1000)
		connect_plain();
	assert_in_range(untold(), 0, IPC_UNASKED_MAX);
	assert_int_equal(pre_net_option.unclaims, 0);
	assert_int_equal(smcrd.script->sessions, 0);
	/* The server answers now: it is noticed, and what was not told yet is. */
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	for (int i = 0;; i++) {
		int fd = client();
		assert_true(i <= IPC_UNASKED_MAX);
		assert_int_equal(pre_net_connect(fd, &server), 0);
		int family = pre_net_kernel_family(fd);
		close(fd);
		close(pre_net_accept_plain(listener));
		connections++;
		if (family == AF_UNIX)
			break;
	}
	assert_int_equal(untold(), 0);
	/* From then on each is asked about. */
	const int claims = pre_net_option.claims;
	int fd = client();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_option.claims, claims + 1);
	close(fd);
}

static void an_older_smcrd_is_asked_each_time(void **state)
{
	(void)state;
	pre_net_option.answers_unasked = false;
	while (connections < 5 * STREAK)
		connect_plain();
	assert_int_equal(pre_net_option.claims, connections);
}

static void whoever_requires_smcr_always_asks(void **state)
{
	(void)state;
	reach_streak();
	int claims = pre_net_option.claims;
	for (int i = 0; i < STREAK; i++) {
		int fd = client();
		assert_int_equal(pre_connect(fd, &server.sa, sizeof(server.in), PRE_REQUIRE),
				 -EPROTONOSUPPORT);
		close(fd);
		close(pre_net_accept_plain(listener));
		assert_int_equal(pre_net_option.claims, ++claims);
	}
	reach_streak();
	claims = pre_net_option.claims;
	int unclaims = pre_net_option.unclaims;
	int fd = client();
	assert_int_equal(pre_connect(fd, &server.sa, sizeof(server.in), PRE_NEVER), 0);
	assert_int_equal(pre_net_option.claims, claims);
	assert_int_equal(pre_net_option.unclaims, unclaims + 1);
	close(fd);
	close(pre_net_accept_plain(listener));
}

/* The address lies at the end of a page behind which there is nothing, or reaches beyond it. */
static void addresses_out_of_memory(void **state)
{
	const long page = sysconf(_SC_PAGESIZE);
	(void)state;
	char *room = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(room != MAP_FAILED);
	assert_int_equal(mprotect(room + page, (size_t)page, PROT_NONE), 0);
	for (size_t inside = 0; inside <= sizeof(server.in); inside++) {
		char *at = room + page - inside;
		memcpy(at, &server, inside);
		reach_streak();
		int fd = client();
		int rc = connect(fd, (struct sockaddr *)at, sizeof(server.in));
		if (inside == sizeof(server.in)) {
			assert_int_equal(rc, 0);
			close(pre_net_accept_plain(listener));
			connections++;
		} else {
			assert_int_equal(rc, -1);
			assert_int_equal(errno, EFAULT);
		}
		close(fd);
	}
	static const uintptr_t nowhere[] = { 0, 8, 0xFFFFFFFFFFFFFFF8u, 0x800000000000u };
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		reach_streak();
		int fd = client();
		assert_int_equal(
			connect(fd, (const struct sockaddr *)nowhere[i], sizeof(server.in)), -1);
		assert_int_equal(errno, EFAULT);
		close(fd);
	}
	munmap(room, (size_t)page * 2);
}

static void whole_storage_as_address(void **state)
{
	(void)state;
	struct sockaddr_storage storage = { 0 };
	memcpy(&storage, &server.in, sizeof(server.in));
	reach_streak();
	for (int i = 0; i < 10 * STREAK; i++) {
		int fd = client();
		assert_int_equal(connect(fd, (struct sockaddr *)&storage, sizeof(storage)), 0);
		close(fd);
		close(pre_net_accept_plain(listener));
		connections++;
	}
	assert_in_range(untold(), 0, IPC_UNASKED_MAX);
	assert_true(pre_net_option.claims < connections);
}

/* What is no TCP socket is connected as ever, and is no connection that is counted. */
static void other_sockets(void **state)
{
	(void)state;
	struct sockaddr_un nowhere = { .sun_family = AF_UNIX, .sun_path = "/nonexistent" };
	reach_streak();
	for (int i = 0; i < 100; i++) {
		connect_plain();
		int udp = pre_net_socket(AF_INET, SOCK_DGRAM);
		assert_int_equal(pre_net_connect(udp, &server), 0);
		union ipc_addr peer;
		socklen_t len = sizeof(peer);
		assert_int_equal(getpeername(udp, &peer.sa, &len), 0);
		assert_int_equal(peer.in.sin_port, server.in.sin_port);
		close(udp);
		int local = pre_net_socket(AF_UNIX, SOCK_STREAM);
		assert_int_equal(connect(local, (struct sockaddr *)&nowhere, sizeof(nowhere)), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(pre_net_connect(local, &server), EINVAL);
		close(local);
		assert_int_equal(pre_net_connect(-1, &server), EBADF);
		assert_int_equal(pre_net_connect(STDIN_FILENO, &server), ENOTSOCK);
		int fd = client();
		assert_int_equal(connect(fd, &server.sa, 3), -1);
		assert_int_equal(errno, EINVAL);
		assert_int_equal(pre_net_connect(listener, &server), EISCONN);
		assert_int_equal(pre_net_connect(fd, &server), 0);
		assert_int_equal(pre_net_connect(fd, &server), EISCONN);
		close(fd);
		close(pre_net_accept_plain(listener));
		connections++;
	}
	assert_in_range(untold(), 0, IPC_UNASKED_MAX);
}

/* A second connect() on a pair end, while the server is known not to answer (another server was at
 * this address). */
static void pair_ends(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	go_without_option();
	reach_streak();
	assert_int_equal(pre_net_connect(fd, &server), EALREADY);
	smcrd.script->hold = 0;
	pre_net_wait(fd, POLLOUT);
	reach_streak();
	assert_int_equal(pre_net_connect(fd, &server), 0);
	reach_streak();
	assert_int_equal(pre_net_connect(fd, &server), EISCONN);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
}

static void connect_answered_in_background(void)
{
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	pre_net_wait(fd, POLLOUT);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	close(fd);
	close(pre_net_accept_plain(listener));
	connections++;
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
}

/* An address with several servers, one of which speaks SMC-R: no answer is missed. */
static void answers_in_the_background(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int n = 0; n < STREAK - 1; n++)
			connect_plain();
		connect_answered_in_background();
	}
	assert_int_equal(pre_net_option.claims, connections);
}

/* connect() of a non-blocking socket goes on in the background, and a later one asks for its
 * outcome. Together they are one connection. */
static void in_the_background(void **state)
{
	(void)state;
	reach_streak();
	for (int i = 0; i < 100; i++) {
		int fd = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
		int rc = pre_net_connect(fd, &server);
		assert_true(rc == EINPROGRESS || rc == 0);
		assert_int_equal(pre_net_kernel_family(fd), AF_INET);
		pre_net_wait(fd, POLLOUT);
		assert_int_equal(pre_net_connect(fd, &server), rc == 0 ? EISCONN : 0);
		assert_int_equal(pre_net_connect(fd, &server), EISCONN);
		close(fd);
		close(pre_net_accept_plain(listener));
		connections++;
	}
	assert_in_range(untold(), 0, IPC_UNASKED_MAX);
}

static void refused_connections(void **state)
{
	(void)state;
	reach_streak();
	union ipc_addr there = server;
	close(listener);
	for (int i = 0; i < STREAK; i++) {
		int fd = client();
		assert_int_equal(pre_net_connect(fd, &there), ECONNREFUSED);
		close(fd);
	}
	listener = pre_net_listen(AF_INET, &server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_seldom_after_a_streak),
		cmocka_unit_test(who_connects_seldom_always_asks),
		cmocka_unit_test(an_answer_ends_it),
		cmocka_unit_test(an_answer_in_the_background_ends_it),
		cmocka_unit_test(nothing_without_confirmation),
		cmocka_unit_test(what_failed_is_not_counted),
		cmocka_unit_test(addresses_are_told_apart),
		cmocka_unit_test(more_servers_than_places),
		cmocka_unit_test(a_child_does_not_count_again),
		cmocka_unit_test(threads_lose_no_count),
		TEST_WITHOUT(each_connection_is_counted),
		TEST_WITHOUT(an_older_smcrd_is_asked_each_time),
		TEST_WITHOUT(whoever_requires_smcr_always_asks),
		TEST_WITHOUT(addresses_out_of_memory),
		TEST_WITHOUT(whole_storage_as_address),
		TEST_WITHOUT(other_sockets),
		TEST_WITHOUT(pair_ends),
		TEST_WITHOUT(answers_in_the_background),
		TEST_WITHOUT(in_the_background),
		TEST_WITHOUT(refused_connections),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
