/* SPDX-License-Identifier: MIT */
/* How many sessions and how much of the daemon's time users get, and what is left to others. */
#include <sys/stat.h>

#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

/* Opens a session of that user if the test runs as root, else of the test's own user. */
static int connect_as(const struct daemon_side *daemon, uid_t uid)
{
	bool root = geteuid() == 0;
	if (root) {
		assert_int_equal(chmod(daemon->dir, 0711), 0);
		assert_int_equal(seteuid(uid), 0);
	}
	const uint8_t hello[] = { 0, 1, 0, 1 };
	uint8_t frame[IPC_HEADER_LEN + sizeof(hello)];
	int session = session_connect(daemon);
	if (root)
		assert_int_equal(seteuid(0), 0);
	ipc_encode_header(IPC_HELLO, sizeof(hello), frame, sizeof(frame));
	memcpy(frame + IPC_HEADER_LEN, hello, sizeof(hello));
	/* the daemon may have refused the session already */
	send(session, frame, sizeof(frame), MSG_NOSIGNAL);
	return session;
}

/* @return 0 if the session is open, else the errno of the refusal, with its sentence in
 * `ret_text` */
static int greeted(int session, char ret_text[IPC_TEXT_MAX + 1])
{
	struct frame frame;
	struct ipc_error error = { .error = 0 };
	assert_true(receive_frame(session, &frame));
	if (frame.type == IPC_ERROR)
		assert_int_equal(ipc_decode_error(frame.payload, frame.len, &error), 0);
	else
		assert_int_equal(frame.type, IPC_HELLO);
	free(frame.payload);
	strcpy(ret_text, error.text);
	return error.error;
}

static void expect_words(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
}

/* Opens as many sessions as the daemon lets a user have. */
static int take_all(const struct daemon_side *daemon, uid_t uid, int *sessions, char *ret_text)
{
	int n = 0;
	for (;; n++) {
		int session = connect_as(daemon, uid);
		if (greeted(session, ret_text) == EUSERS) {
			close(session);
			return n;
		}
		sessions[n] = session;
	}
}

/* Wait until the user is at a limit, or is not. */
static void wait_for_limit(const struct daemon_side *daemon, uid_t uid, bool limited)
{
	char line[64];
	bool found = !limited;
	snprintf(line, sizeof(line), "user %u limit\n", (unsigned int)uid);
	for (int i = 0; found != limited && i < WAIT_MS / 10; i++) {
		char *list = control(daemon, "limits");
		found = strstr(list, line);
		free(list);
		poll(NULL, 0, 10);
	}
	assert_int_equal(found, limited);
}

static void users_leave_sessions_to_others(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions = 16 } };
	const int most[] = { 8, 4, 2, 1 };
	int sessions[4][16], users = geteuid() == 0 ? 4 : 1;
	char text[IPC_TEXT_MAX + 1];
	daemon_start_limited(&daemon, &limits);
	for (int i = 0; i < users; i++) {
		assert_int_equal(take_all(&daemon, 65534 - (uid_t)i, sessions[i], text), most[i]);
		expect_words(text, "left for all others");
	}
	for (int i = 0; i < users; i++)
		for (int n = 0; n < most[i]; n++)
			close(sessions[i][n]);
	daemon_stop(&daemon);
}

/* A user is at its limit because others have so many sessions. When these have ended, its new
 * connections may use SMC-R again, also if it opens and closes no session. */
static void a_share_grows_when_others_leave(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions = 16 } };
	int first[16], second[16];
	char text[IPC_TEXT_MAX + 1];
	const uid_t uid = 65533;
	if (geteuid() != 0)
		skip(); /* needs two users */
	daemon_start_limited(&daemon, &limits);
	int num_first = take_all(&daemon, 65534, first, text);
	int num_second = take_all(&daemon, uid, second, text);
	wait_for_limit(&daemon, uid, true);
	for (int i = 0; i < num_first; i++)
		close(first[i]);
	wait_for_limit(&daemon, uid, false);
	for (int i = 0; i < num_second; i++)
		close(second[i]);
	daemon_stop(&daemon);
}

/* Users have all the sessions that they may have. Administrators still get one, to look and to act.
 */
static void administrators_have_sessions_of_their_own(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions_per_uid = 3 } };
	int sessions[3];
	char text[IPC_TEXT_MAX + 1];
	struct frame frame;
	daemon_start_limited(&daemon, &limits);
	uid_t uid = geteuid();
	assert_int_equal(take_all(&daemon, uid, sessions, text), 3);
	expect_words(text, "max_sessions_per_user");

	script->administrator = true;
	int tool = connect_as(&daemon, uid);
	assert_int_equal(greeted(tool, text), 0);
	send_frame(tool, IPC_CONTROL, "works", 5, -1);
	assert_true(receive_frame(tool, &frame));
	assert_int_equal(frame.type, IPC_CONTROL_REPLY);
	free(frame.payload);
	struct tcp tcp = connect_tcp(); /* this session is for tools only */
	ask_handover(tool, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	assert_int_equal(receive_error(tool), EUSERS);
	assert_int_equal(send(tcp.near, "plain", 5, 0), 5);
	expect_bytes(tcp.far, "plain");
	close(tcp.near);
	close(tcp.far);
	close(tool);
	for (int i = 0; i < 3; i++)
		close(sessions[i]);
	daemon_stop(&daemon);
}

/* ---- connections, where the daemon may open few files ---- */

#define OF_OTHERS 128 /* files that are set aside for the rest of the daemon */

/* A user with one session, and the connections that he has handed over there. */
struct holder {
	int session, num;
	struct tcp tcp[64];
	int pair[64];
};

/* Hands one more accepted connection over. @return false: the daemon has not taken it */
static bool take_one(struct holder *holder)
{
	struct frame frame;
	int n = holder->num;
	assert_true(n < 64);
	holder->tcp[n] = connect_tcp();
	ask_handover(holder->session, IPC_HANDOVER_ACCEPTED, 0, NULL, holder->tcp[n].near);
	assert_true(receive_frame(holder->session, &frame));
	holder->pair[n] = frame.fd;
	free(frame.payload);
	if (frame.type == IPC_RESULT) {
		assert_true(frame.fd >= 0);
		holder->num++;
		return true;
	}
	assert_int_equal(frame.type, IPC_ERROR);
	close(holder->tcp[n].near);
	close(holder->tcp[n].far);
	return false;
}

/* Hands over as many as the daemon takes. @return how many there are; -1: he gets no session */
static int take_connections(const struct daemon_side *daemon, uid_t uid, struct holder *holder)
{
	char text[IPC_TEXT_MAX + 1];
	*holder = (struct holder){ .session = connect_as(daemon, uid) };
	int error = greeted(holder->session, text);
	if (error) {
		assert_int_equal(error, EUSERS);
		expect_words(text, "LimitNOFILE=");
		return -1;
	}
	while (take_one(holder))
		;
	return holder->num;
}

/* The peers reset the connections, and the session ends. */
static void let_go(struct holder *holder)
{
	const struct linger reset = { .l_onoff = 1 };
	for (int i = 0; i < holder->num; i++) {
		setsockopt(holder->tcp[i].far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(holder->tcp[i].far);
		close(holder->tcp[i].near);
		close(holder->pair[i]);
	}
	close(holder->session);
	holder->num = 0;
}

/* A connection takes three files until it is settled, and a session two. */
static void users_leave_files_to_others(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .files = OF_OTHERS + 64 };
	const int most[] = { 14, 4, 1, -1 };
	struct holder holders[4];
	int users = geteuid() == 0 ? 4 : 1;
	daemon_start_limited(&daemon, &limits);
	for (int i = 0; i < users; i++) {
		TRIES("user %d", i);
		assert_int_equal(take_connections(&daemon, 65534 - (uid_t)i, &holders[i]), most[i]);
	}
	for (int i = 0; i < users; i++)
		let_go(&holders[i]);
	daemon_stop(&daemon);
}

/* All that a user can have who is alone, where users may have 64 files. Established connections
 * take two files. */
static void take_as_one_alone(struct daemon_side *daemon, struct holder *holder)
{
	assert_int_equal(take_connections(daemon, 65534, holder), 14);
	for (int i = 0; holder->num < 20 && i < WAIT_MS; i++) {
		daemon_command(daemon, 'e');
		poll(NULL, 0, 1);
		take_one(holder);
	}
	assert_int_equal(holder->num, 20);
}

/* A user who is alone has as many connections as if three files were set aside for each, whoever
 * has them: here 21, less one for his session. */
static void a_user_alone_has_many_connections(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .files = OF_OTHERS + 64 };
	char text[IPC_TEXT_MAX + 1];
	struct holder holder;
	daemon_start_limited(&daemon, &limits);
	take_as_one_alone(&daemon, &holder);
	/* He gets a session by which his programs use them. */
	int session = connect_as(&daemon, 65534);
	assert_int_equal(greeted(session, text), 0);
	close(session);
	let_go(&holder);
	daemon_stop(&daemon);
}

static void send_request(int session, int pair)
{
	const uint8_t version = IPC_MEMORY_VERSION;
	send_frame(session, IPC_MEMORY_REQUEST, &version, 1, pair);
}

/* Ask for the memory of the holder's connection. */
static uint8_t ask_memory(const struct holder *holder, int n)
{
	struct frame frame;
	struct ipc_memory memory;
	send_request(holder->session, holder->pair[n]);
	assert_true(receive_frame(holder->session, &frame));
	assert_int_equal(frame.type, IPC_MEMORY);
	assert_int_equal(ipc_decode_memory(frame.payload, frame.len, &memory), 0);
	free(frame.payload);
	if (frame.fd >= 0)
		close(frame.fd);
	return memory.outcome;
}

/* Memory that a program shares takes a file more, which is of the user's share too. */
static void shared_memory_leaves_files_to_others(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .files = OF_OTHERS + 64 };
	struct holder holder, other;
	int granted = 0;
	daemon_start_limited(&daemon, &limits);
	take_as_one_alone(&daemon, &holder);
	daemon_command(&daemon, 'e');
	for (int i = 0; ask_memory(&holder, 19) == IPC_MEMORY_PENDING; i++) {
		assert_true(i < WAIT_MS);
		poll(NULL, 0, 1);
	}
	for (int i = 0; i < holder.num; i++)
		granted += ask_memory(&holder, i) == IPC_MEMORY_GRANTED;
	assert_int_equal(granted, 1); /* he has 43 files then, and 21 are left */
	if (geteuid() == 0) {
		assert_true(take_connections(&daemon, 65533, &other) > 0);
		let_go(&other);
	}
	let_go(&holder);
	daemon_stop(&daemon);
}

static void await(int fd, short event)
{
	struct pollfd pfd = { .fd = fd, .events = event };
	assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
	assert_true(pfd.revents & event);
}

/* All that smcrd sends to all users counts as on its way until it is read. So who does not read has
 * no more of that than sessions. */
static void unread_descriptors_are_few(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions_per_uid = 2 } };
	char text[IPC_TEXT_MAX + 1];
	struct holder holder = { .session = -1 };
	struct frame frame;
	daemon_start_limited(&daemon, &limits);
	holder.session = connect_as(&daemon, 65534);
	assert_int_equal(greeted(holder.session, text), 0);
	assert_true(take_one(&holder));
	daemon_command(&daemon, 'e');
	for (int i = 0; ask_memory(&holder, 0) != IPC_MEMORY_GRANTED; i++) {
		assert_true(i < WAIT_MS);
		poll(NULL, 0, 1);
	}
	int lazy = connect_as(&daemon, 65534);
	assert_int_equal(greeted(lazy, text), 0);
	send_request(lazy, holder.pair[0]);
	await(lazy, POLLIN);
	send_request(lazy, holder.pair[0]);
	await(lazy, POLLRDHUP);
	/* The session counts until the first reply is read. */
	int more = connect_as(&daemon, 65534);
	assert_int_equal(greeted(more, text), EUSERS);
	close(more);
	assert_true(receive_frame(lazy, &frame));
	assert_true(frame.fd >= 0);
	close(frame.fd);
	free(frame.payload);
	assert_false(receive_frame(lazy, &frame));
	for (int i = 0; greeted(more = connect_as(&daemon, 65534), text) != 0; i++) {
		assert_true(i < WAIT_MS / 10);
		close(more);
		poll(NULL, 0, 10);
	}
	close(more);
	close(lazy);
	let_go(&holder);
	daemon_stop(&daemon);
}

/* One user of two is at the limit of his share. When the other has ended his connections he is not,
 * although nothing of his own has changed. */
static void a_share_of_files_grows_when_others_leave(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .files = OF_OTHERS + 64 };
	struct holder first, second;
	if (geteuid() != 0)
		skip(); /* needs two users */
	daemon_start_limited(&daemon, &limits);
	assert_int_equal(take_connections(&daemon, 65534, &first), 14);
	assert_int_equal(take_connections(&daemon, 65533, &second), 4);
	wait_for_limit(&daemon, 65533, true);
	let_go(&first);
	wait_for_limit(&daemon, 65533, false);
	let_go(&second);
	daemon_stop(&daemon);
}

/* A user who is at no limit has more than his share when another one has taken what was left. With
 * the next connection that is refused it counts as a limit, so that no further one is promised
 * SMC-R. */
static void a_share_of_files_shrinks_when_others_come(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .files = OF_OTHERS + 64 };
	struct holder first, second;
	char text[IPC_TEXT_MAX + 1];
	if (geteuid() != 0)
		skip(); /* needs two users */
	daemon_start_limited(&daemon, &limits);
	first = (struct holder){ .session = connect_as(&daemon, 65534) };
	assert_int_equal(greeted(first.session, text), 0);
	while (first.num < 8)
		assert_true(take_one(&first));
	assert_int_equal(take_connections(&daemon, 65533, &second), 8);
	wait_for_limit(&daemon, 65534, false);
	assert_false(take_one(&first));
	wait_for_limit(&daemon, 65534, true);
	let_go(&second);
	wait_for_limit(&daemon, 65534, false);
	let_go(&first);
	daemon_stop(&daemon);
}

/* A user whose connections fail in masses does not make the daemon forget why those of others did:
 * their programs still learn it. */
static void failures_of_others_are_remembered(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct holder first, many;
	int back;
	if (geteuid() != 0)
		skip(); /* needs two users */
	daemon_start(&daemon);
	script->outcome = OUTCOME_FAILED;
	first = (struct holder){ .session = session_open(&daemon) };
	many = (struct holder){ .session = connect_as(&daemon, 65534) };
	char text[IPC_TEXT_MAX + 1];
	assert_int_equal(greeted(many.session, text), 0);
	assert_true(take_one(&first));
	for (int i = 0; i < 1500; i++) { /* 1024 are remembered */
		assert_true(take_one(&many));
		many.num = 0;
		close(many.pair[0]);
		close(many.tcp[0].near);
		close(many.tcp[0].far);
	}
	struct ipc_status status = ask_status(&daemon, first.pair[0], 0, &back);
	assert_int_equal(status.state, IPC_CONN_FAILED);
	assert_int_equal(status.error, ETIMEDOUT);
	let_go(&first);
	let_go(&many);
	daemon_stop(&daemon);
}

/* A session also ends if it is idle from its greeting on. */
static void idle_sessions_end(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .clients = { .idle_timeout_ms = 500 } };
	struct frame frame;
	daemon_start_limited(&daemon, &limits);
	int idle = session_open(&daemon), waiting = session_open(&daemon);
	send_frame(waiting, IPC_CONTROL, "later", 5, -1);
	assert_int_equal(receive_error(idle), ETIMEDOUT);
	assert_false(receive_frame(idle, &frame));
	close(idle);
	/* it begins later, so that the session that waits outlives two idle ones */
	idle = session_open(&daemon);
	assert_int_equal(receive_error(idle), ETIMEDOUT);
	close(idle);
	free(control(&daemon, "answer"));
	assert_true(receive_frame(waiting, &frame));
	assert_int_equal(frame.type, IPC_CONTROL_REPLY);
	free(frame.payload);
	assert_int_equal(receive_error(waiting), ETIMEDOUT);
	close(waiting);
	daemon_stop(&daemon);
}

static bool has_input(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, 0) == 1;
}

/* Each request takes 10 ms: together they would hold others up for a second. */
#define TOOLS 100

/* Requests that come at the same time do not keep the event loop until the last is answered, not
 * even root's. */
static void one_request_is_answered_a_turn(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int sessions[TOOLS], answered = 0, status;
	struct frame frame;
	daemon_start(&daemon);
	for (int i = 0; i < TOOLS; i++)
		sessions[i] = session_open(&daemon);
	kill(daemon.pid, SIGSTOP);
	assert_int_equal(waitpid(daemon.pid, &status, WUNTRACED), daemon.pid);
	for (int i = 0; i < TOOLS; i++)
		send_frame(sessions[i], IPC_CONTROL, "slow", 4, -1);
	int other = session_connect(&daemon);
	send_hello(other);
	kill(daemon.pid, SIGCONT);
	assert_true(receive_frame(other, &frame));
	for (int i = 0; i < TOOLS; i++)
		answered += has_input(sessions[i]);
	assert_true(answered < TOOLS);
	free(frame.payload);
	for (int i = 0; i < TOOLS; i++) {
		assert_true(receive_frame(sessions[i], &frame));
		assert_int_equal(frame.type, IPC_CONTROL_REPLY);
		free(frame.payload);
		close(sessions[i]);
	}
	close(other);
	daemon_stop(&daemon);
}

/* Replies that nobody reads are kept for a while, up to a limit. */
static void unread_replies_of_a_user_are_bounded(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int sessions[20], ended = 0;
	uint8_t frame[8 + 4];
	daemon_start(&daemon);
	ipc_encode_header(IPC_CONTROL, 4, frame, sizeof(frame));
	memcpy(frame + 8, "long", 4);
	for (int i = 0; i < 20; i++) {
		sessions[i] = session_open(&daemon);
		/* The kernel buffers one or two replies of 200 KB, and the session may end. */
		for (int n = 0; n < 4; n++)
			if (send(sessions[i], frame, sizeof(frame), MSG_NOSIGNAL) < 0)
				assert_true(errno == EPIPE || errno == ECONNRESET);
	}
	for (int waited = 0; ended == 0 && waited < WAIT_MS; waited++) {
		for (int i = 0; i < 20; i++) {
			struct pollfd pfd = { .fd = sessions[i] };
			ended += poll(&pfd, 1, 0) == 1 && pfd.revents & POLLHUP;
		}
		poll(NULL, 0, 1);
	}
	assert_true(ended > 0);
	assert_true(ended < 20);
	for (int i = 0; i < 20; i++)
		close(sessions[i]);
	daemon_stop(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_leave_sessions_to_others),
		cmocka_unit_test(a_share_grows_when_others_leave),
		cmocka_unit_test(administrators_have_sessions_of_their_own),
		cmocka_unit_test(users_leave_files_to_others),
		cmocka_unit_test(a_user_alone_has_many_connections),
		cmocka_unit_test(shared_memory_leaves_files_to_others),
		cmocka_unit_test(unread_descriptors_are_few),
		cmocka_unit_test(a_share_of_files_grows_when_others_leave),
		cmocka_unit_test(a_share_of_files_shrinks_when_others_come),
		cmocka_unit_test(failures_of_others_are_remembered),
		cmocka_unit_test(idle_sessions_end),
		cmocka_unit_test(one_request_is_answered_a_turn),
		cmocka_unit_test(unread_replies_of_a_user_are_bounded),
	};
	return cmocka_run_group_tests_name("clients: limits", tests, NULL, NULL);
}
