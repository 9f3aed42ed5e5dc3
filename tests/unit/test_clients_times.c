/* SPDX-License-Identifier: MIT */
/* What daemon/conns does after a time: the test moves the daemon's clock. The Makefile links this
 * test so that clock_gettime() is the one below; the event loop has its own clock. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include "daemon/conns/internal.h"

int __real_clock_gettime(clockid_t clock, struct timespec *ret_ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_ts);

/* Shared with the daemon. */
static struct {
	_Atomic int64_t ns; /* the time, which stands still until the test moves it */
	_Atomic int looks;  /* how often a clock was read */
} * times;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_ts)
{
	if (!times || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ret_ts);
	times->looks++;
	*ret_ts = (struct timespec){ times->ns / 1000000000, times->ns % 1000000000 };
	return 0;
}

static int setup(void **state)
{
	(void)state;
	times->ns = INT64_C(1000000000000);
	return 0;
}

static void pass(int64_t ms)
{
	times->ns += ms * 1000000;
}

/* The daemon, which has nothing else to do, looks for what is due, twice at least. */
static void await_looks(void)
{
	int before = times->looks;
	for (int i = 0; times->looks < before + 2 && i < WAIT_MS; i++)
		poll(NULL, 0, 1);
	assert_true(times->looks >= before + 2);
}

/* A TCP connection whose listener goes on listening. */
static struct tcp connect_to(int listener, const struct sockaddr_in *addr)
{
	struct tcp tcp = { .peer = *addr };
	tcp.near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(tcp.near, (const struct sockaddr *)addr, sizeof(*addr)), 0);
	tcp.far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(tcp.far >= 0);
	limit_waiting(tcp.far);
	return tcp;
}

static void clocks_are_exact(void **state)
{
	(void)state;
	static const struct {
		int64_t ns;
		uint64_t ms, us;
	} rows[] = { { 1000, 0, 1 },
		     { 999999, 0, 999 },
		     { 1000000, 1, 1000 },
		     { 7999999999, 7999, 7999999 },
		     { 8000000000, 8000, 8000000 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		times->ns = rows[i].ns;
		assert_int_equal(conns_now_ms(), rows[i].ms);
		assert_int_equal(conns_now_us(), rows[i].us);
	}
}

/* A program may ask for a minute why its connection has failed. */
static void a_failure_is_told_for_a_minute(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int back;
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	daemon_command(&daemon, 'x');
	expect_reset(pair);
	pass(59999);
	await_looks();
	struct ipc_status status = ask_status(&daemon, pair, IPC_STATUS_LOOK, &back);
	assert_int_equal(status.state, IPC_CONN_FAILED);
	assert_int_equal(status.error, ETIMEDOUT);
	assert_int_equal(back, -1);
	pass(1);
	for (int i = 0; status.state == IPC_CONN_FAILED && i < WAIT_MS / 10; i++) {
		poll(NULL, 0, 10);
		status = ask_status(&daemon, pair, IPC_STATUS_LOOK, &back);
	}
	assert_int_equal(status.state, IPC_CONN_CLOSED);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* A program has closed, and the peer takes nothing more: the connection is given up once, however
 * long its end takes. */
static void a_connection_is_given_up_once(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .close_wait_ms = 1000 } };
	struct tcp tcp = connect_tcp(), other = connect_tcp();
	static char block[4 * RING];
	daemon_start_limited(&daemon, &limits);
	int failed = hand_over(&daemon, &other, IPC_HANDOVER_ACCEPTED);
	daemon_command(&daemon, 'x'); /* is remembered for a minute, so the daemon looks on */
	expect_reset(failed);
	script->outcome = OUTCOME_ESTABLISHED;
	script->silent = script->slow_aborts = 1;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_true(send(pair, block, sizeof(block), MSG_DONTWAIT) > RING);
	close(pair);
	wait_for_line(&daemon, "smcr"); /* the close is worked off */
	await_looks();
	pass(999);
	await_looks();
	assert_int_equal(script->aborts, 0);
	pass(1000); /* the close may have been noted after the first part of the time */
	WAIT_COUNT(script->aborts, 1);
	pass(5000);
	await_looks();
	assert_int_equal(script->aborts, 1);
	close(failed);
	close(tcp.far);
	close(other.far);
	daemon_stop(&daemon);
}

/* More failures than the daemon remembers of one user, which is half of all: the oldest is
 * forgotten. */
static void as_many_failures_are_told(void **state)
{
	(void)state;
	enum { MOST = 512 };
	struct daemon_side daemon;
	struct sockaddr_in addr;
	int back, listener = listen_tcp(&addr), first = -1, second = -1;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FAILED;
	for (int i = 0; i < MOST + 1; i++) {
		struct tcp tcp = connect_to(listener, &addr);
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		if (i == 0)
			first = pair;
		else if (i == 1)
			second = pair;
		else
			close(pair);
		close(tcp.far);
		if (i == MOST - 1)
			assert_int_equal(ask_status(&daemon, first, IPC_STATUS_LOOK, &back).state,
					 IPC_CONN_FAILED);
	}
	assert_int_equal(ask_status(&daemon, first, IPC_STATUS_LOOK, &back).state, IPC_CONN_CLOSED);
	assert_int_equal(ask_status(&daemon, second, IPC_STATUS_LOOK, &back).state,
			 IPC_CONN_FAILED);
	close(first);
	close(second);
	close(listener);
	daemon_stop(&daemon);
}

/* One line a minute says that there are too many connections, and one that they are this user's.
 * Between two rows the user has no connection. */
static void a_limit_is_logged_once_a_minute(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .conns = 2 } };
	static const struct {
		int64_t ms;
		int lines;
	} rows[] = { { 0, 2 }, { 59999, 2 }, { 1, 4 }, { 0, 4 } };
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct tcp tcp[2];
		int pair[2];
		pass(rows[i].ms);
		for (int k = 0; k < 2; k++) {
			tcp[k] = connect_tcp();
			pair[k] = hand_over(&daemon, &tcp[k], IPC_HANDOVER_ACCEPTED);
		}
		WAIT_COUNT(script->warnings, rows[i].lines);
		for (int k = 0; k < 2; k++) {
			close(pair[k]);
			expect_end(tcp[k].far);
			close(tcp[k].far);
		}
		free(control(&daemon, "echo")); /* the ends are worked off */
		assert_int_equal(script->warnings, rows[i].lines);
	}
	daemon_stop(&daemon);
}

static char last_line[400];
static unsigned int lines;

static void on_line(void *ctx, int priority, const char *line)
{
	(void)ctx;
	assert_int_equal(priority, LOG_WARNING);
	snprintf(last_line, sizeof(last_line), "%s", line);
	lines++;
}

/* What one user does often is told in one line a minute, and no other user's line is kept back for
 * that. */
static void each_user_has_lines_of_its_own(void **state)
{
	(void)state;
	struct event_base *base = event_base_new();
	const struct conns_config config = { .base = base, .callbacks = { .log = on_line } };
	struct conns *conns;
	assert_int_equal(conns_new(&config, &conns), 0);
	lines = 0;
	for (int i = 0; i < 10; i++)
		conns_warn_of_user(conns, 1001, "noise", "user %d is loud", 1001);
	assert_int_equal(lines, 1);
	assert_string_equal(last_line, "user 1001 is loud");
	conns_warn_of_user(conns, 1002, "noise", "user %d is loud", 1002);
	assert_int_equal(lines, 2);
	assert_string_equal(last_line, "user 1002 is loud");
	conns_warn_of_user(conns, 1001, "other", "user %d is odd", 1001);
	assert_int_equal(lines, 3);
	pass(60000);
	conns_warn_of_user(conns, 1001, "noise", "user %d is loud", 1001);
	assert_int_equal(lines, 4);
	assert_non_null(strstr(last_line, "user 1001 is loud"));
	assert_non_null(strstr(last_line, "9")); /* lines that were kept back */
	conns_free(conns);
	event_base_free(base);
}

/* A daemon that stops makes no connection again in place of one whose rendezvous it breaks. */
static void a_stopping_daemon_connects_no_more(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct sockaddr_in addr;
	int listener = listen_tcp(&addr);
	struct tcp tcp = connect_to(listener, &addr);
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTING);
	WAIT_COUNT(script->starts, 1);
	daemon_command(&daemon, 's');
	expect_reset(pair);
	expect_reset(tcp.far);
	fcntl(listener, F_SETFL, O_NONBLOCK);
	assert_int_equal(accept4(listener, NULL, NULL, 0), -1);
	assert_int_equal(errno, EAGAIN);
	close(pair);
	close(tcp.far);
	close(listener);
	daemon_stop(&daemon);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		FRESH(clocks_are_exact),
		FRESH(a_failure_is_told_for_a_minute),
		FRESH(a_connection_is_given_up_once),
		FRESH(as_many_failures_are_told),
		FRESH(a_limit_is_logged_once_a_minute),
		FRESH(each_user_has_lines_of_its_own),
		FRESH(a_stopping_daemon_connects_no_more),
	};
	times = mmap(NULL, sizeof(*times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
