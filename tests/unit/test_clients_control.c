/* SPDX-License-Identifier: MIT */
/* CONTROL requests whose reply comes later, and the user that the daemon takes the asker for. */
#include <grp.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/unit/clients_side.h"

static void ask(int session, const char *request)
{
	send_frame(session, IPC_CONTROL, request, strlen(request), -1);
}

static void expect_reply(int session, const char *text)
{
	struct frame frame;
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_CONTROL_REPLY);
	assert_int_equal(frame.len, strlen(text));
	assert_memory_equal(frame.payload, text, frame.len);
	free(frame.payload);
}

static void wait_for_reply(const struct daemon_side *daemon, const char *request, const char *text)
{
	for (int i = 0; i < 1000; i++) {
		char *reply = control(daemon, request);
		bool same = !strcmp(reply, text);
		if (!same && i == 999)
			fail_msg("\"%s\" answers \"%s\", not \"%s\"", request, reply, text);
		free(reply);
		if (same)
			return;
		poll(NULL, 0, 5);
	}
}

/* Opens a session of a user other than root, if the test runs as root. */
static int session_of_user(const struct daemon_side *daemon)
{
	bool root = geteuid() == 0;
	if (root) {
		assert_int_equal(chmod(daemon->dir, 0711), 0);
		assert_int_equal(seteuid(65534), 0);
	}
	int session = session_open(daemon);
	if (root)
		assert_int_equal(seteuid(0), 0);
	return session;
}

/* Several sessions wait for replies at once, and none of them holds up another session. */
static void each_session_waits_for_its_own_reply(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int sessions[20];
	daemon_start(&daemon);
	for (int i = 0; i < 20; i++) {
		sessions[i] = session_open(&daemon);
		ask(sessions[i], "later");
	}
	wait_for_reply(&daemon, "held", "20 0");
	struct pollfd none = { .fd = sessions[0], .events = POLLIN };
	assert_int_equal(poll(&none, 1, 0), 0);
	free(control(&daemon, "answer"));
	for (int i = 0; i < 20; i++) {
		expect_reply(sessions[i], "late");
		ask(sessions[i], "again"); /* the session serves as before */
		expect_reply(sessions[i], "again");
		close(sessions[i]);
	}
	daemon_stop(&daemon);
}

/* Requests that a session sends while its reply is due wait, in order. */
static void requests_behind_an_open_one_wait(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask(session, "later");
	ask(session, "second");
	ask(session, "third");
	wait_for_reply(&daemon, "held", "1 0");
	free(control(&daemon, "answer"));
	expect_reply(session, "late");
	expect_reply(session, "second");
	expect_reply(session, "third");
	close(session);
	daemon_stop(&daemon);
}

static void the_end_of_a_waiting_session_is_told(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	int stays = session_open(&daemon), goes = session_open(&daemon);
	ask(stays, "later");
	ask(goes, "later");
	wait_for_reply(&daemon, "held", "2 0");
	close(goes);
	wait_for_reply(&daemon, "held", "1 1");
	shutdown(stays, SHUT_WR); /* a session that is half closed still waits */
	free(control(&daemon, "answer"));
	expect_reply(stays, "late");
	close(stays);
	daemon_stop(&daemon);
}

/* The daemon hears of the request and of the session's end in one event. */
static void a_session_that_asks_and_ends_is_forgotten(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	assert_int_equal(kill(daemon.pid, SIGSTOP), 0);
	int session = session_connect(&daemon);
	send_hello(session);
	ask(session, "later");
	close(session);
	assert_int_equal(kill(daemon.pid, SIGCONT), 0);
	wait_for_reply(&daemon, "held", "0 1");
	daemon_stop(&daemon);
}

/* The daemon is freed while a request waits: nothing leaks, and the tool sees the end of its
 * session. */
static void the_daemon_may_stop_meanwhile(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask(session, "later");
	wait_for_reply(&daemon, "held", "1 0");
	daemon_stop(&daemon);
	assert_false(receive_frame(session, &frame));
	close(session);
}

/* While a session waits for news, the daemon serves none of its later requests, and keeps their
 * order. Nothing waits for a session that has ended. */
static void a_request_may_wait_for_news(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int sessions[20];
	daemon_start(&daemon);
	for (int i = 0; i < 20; i++) {
		sessions[i] = i % 2 ? session_of_user(&daemon) : session_open(&daemon);
		ask(sessions[i], "news");
		ask(sessions[i], "second");
	}
	int goes = session_open(&daemon), stays = session_open(&daemon);
	ask(goes, "news");
	ask(stays, "news");
	wait_for_reply(&daemon, "tried", "22");
	close(goes);
	free(control(&daemon, "wake"));
	wait_for_reply(&daemon, "tried", "43");
	struct pollfd none = { .fd = sessions[0], .events = POLLIN };
	assert_int_equal(poll(&none, 1, 0), 0);
	free(control(&daemon, "wake"));
	for (int i = 0; i < 20; i++) {
		expect_reply(sessions[i], "news");
		expect_reply(sessions[i], "second");
		close(sessions[i]);
	}
	expect_reply(stays, "news");
	wait_for_reply(&daemon, "tried", "64");
	free(control(&daemon, "wake")); /* its asker has gone */
	wait_for_reply(&daemon, "tried", "64");
	close(stays);
	daemon_stop(&daemon);
}

/* Sessions that wait hold little memory. */
static void sessions_that_wait_hold_little_memory(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	char request[IPC_MAX_CLIENT_LEN + 2] = "news";
	daemon_start(&daemon);
	int session = session_open(&daemon);
	memset(request + 4, ' ', sizeof(request) - 5);
	request[sizeof(request) - 1] = '\0';
	ask(session, request);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_ERROR);
	free(frame.payload);
	request[IPC_MAX_CLIENT_LEN] = '\0';
	ask(session, request);
	wait_for_reply(&daemon, "tried", "2");
	free(control(&daemon, "wake"));
	free(control(&daemon, "wake"));
	expect_reply(session, request);
	close(session);
	daemon_stop(&daemon);
}

static void the_daemon_may_stop_before_news(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask(session, "news");
	wait_for_reply(&daemon, "tried", "1");
	daemon_stop(&daemon);
	assert_false(receive_frame(session, &frame));
	close(session);
}

static void supplementary_groups_are_those_of_the_peer(void **state)
{
	(void)state;
	struct daemon_side daemon;
	gid_t before[256], groups[100];
	char text[1000] = "groups";
	int n = getgroups(256, before);
	if (geteuid() != 0 || n < 0) {
		skip();
		return;
	}
	daemon_start(&daemon);
	for (unsigned int i = 0; i < 100; i++) {
		groups[i] = 50000 + i;
		sprintf(text + strlen(text), " %u", groups[i]);
	}
	assert_int_equal(setgroups(100, groups), 0);
	char *reply = control(&daemon, "groups");
	assert_string_equal(reply, text);
	free(reply);
	assert_int_equal(setgroups(0, NULL), 0);
	reply = control(&daemon, "groups");
	assert_string_equal(reply, "groups");
	free(reply);
	assert_int_equal(setgroups((size_t)n, before), 0);
	daemon_stop(&daemon);
}

/* Users that ask without end get a part of the daemon's time, and root does not wait for them. */
static void the_loop_is_not_for_tools_alone(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int sessions[8];
	daemon_start(&daemon);
	for (int i = 0; i < 8; i++)
		sessions[i] = session_of_user(&daemon);
	for (int i = 0; i < 8; i++) {
		ask(sessions[i], "slow");
		ask(sessions[i], "second");
	}
	close(sessions[7]); /* one that waits may be closed too */
	if (geteuid() == 0) {
		struct pollfd last = { .fd = sessions[6], .events = POLLIN };
		free(control(&daemon, "at once"));
		assert_int_equal(poll(&last, 1, 0), 0);
	}
	for (int i = 0; i < 7; i++) {
		expect_reply(sessions[i], "slow");
		expect_reply(sessions[i], "second");
		close(sessions[i]);
	}
	char *rest = control(&daemon, "rest");
	assert_true(atof(rest) >= 3.9);
	assert_true(atof(rest) < 1e6);
	free(rest);
	daemon_stop(&daemon);
}

/* A descriptor belongs to the request that it came with, and to no other. */
static void a_descriptor_may_come_along(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4711), 0);
	int session = session_open(&daemon);
	for (int i = 0; i < 3; i++) {
		ask(session, "size");
		expect_reply(session, "-1");
		send_frame(session, IPC_CONTROL, "size", 4, fd);
		expect_reply(session, "4711");
	}
	ask(session, "size");
	expect_reply(session, "-1");
	close(session);
	close(fd);
	daemon_stop(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_session_waits_for_its_own_reply),
		cmocka_unit_test(requests_behind_an_open_one_wait),
		cmocka_unit_test(the_end_of_a_waiting_session_is_told),
		cmocka_unit_test(a_session_that_asks_and_ends_is_forgotten),
		cmocka_unit_test(the_daemon_may_stop_meanwhile),
		cmocka_unit_test(a_request_may_wait_for_news),
		cmocka_unit_test(sessions_that_wait_hold_little_memory),
		cmocka_unit_test(the_daemon_may_stop_before_news),
		cmocka_unit_test(supplementary_groups_are_those_of_the_peer),
		cmocka_unit_test(the_loop_is_not_for_tools_alone),
		cmocka_unit_test(a_descriptor_may_come_along),
	};
	return cmocka_run_group_tests_name("clients: control", tests, NULL, NULL);
}
