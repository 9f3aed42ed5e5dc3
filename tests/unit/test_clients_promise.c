/* SPDX-License-Identifier: MIT */
/* Rendezvous with the TCP option: promises to peers, and no promises when a limit is reached. Needs
 * root. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "proto/smcr/reason.h"

static int setup_group(void **state)
{
	(void)state;
	with_option = true;
	return option_namespace();
}

/* ---- claimed sockets */

static void claim(int fd)
{
	int one = 1;
	assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &one, sizeof(one)), 0);
}

static int get_int(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);
	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static enum ipc_negotiated negotiated(int fd)
{
	return (enum ipc_negotiated)get_int(fd, IPC_SOL_SMCR, IPC_SO_NEGOTIATED);
}

/* Both sockets are claimed: `near` comes from accept(), `far` from connect(). */
static struct tcp promised_tcp(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	struct tcp tcp;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	claim(listener);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	tcp.peer = addr;
	tcp.far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	claim(tcp.far);
	assert_int_equal(connect(tcp.far, (struct sockaddr *)&addr, len), 0);
	tcp.near = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(tcp.near >= 0);
	limit_waiting(tcp.near);
	limit_waiting(tcp.far);
	close(listener);
	return tcp;
}

static void close_tcp(struct tcp *tcp)
{
	if (tcp->near >= 0)
		close(tcp->near);
	if (tcp->far >= 0)
		close(tcp->far);
}

/* The socket is as it was: the bytes from the peer are still there, and the peer gets what is
 * written. */
static void expect_untouched(const struct tcp *tcp)
{
	char text[8];
	assert_int_equal(send(tcp->far, "proposal", 8, 0), 8);
	assert_int_equal(recv(tcp->near, text, 8, MSG_WAITALL), 8);
	assert_int_equal(send(tcp->near, "decline.", 8, 0), 8);
	assert_int_equal(recv(tcp->far, text, 8, MSG_WAITALL), 8);
}

static int refused(const struct daemon_side *daemon, const struct tcp *tcp,
		   enum ipc_handover_kind kind)
{
	int session = session_open(daemon);
	ask_handover(session, kind, 0, NULL, tcp->near);
	int error = receive_error(session);
	close(session);
	return error;
}

/* ---- promises */

static void a_promise_is_served_and_its_mark_removed(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	struct tcp tcp = promised_tcp();
	int copy = dup(tcp.near);
	int usual = get_int(tcp.far, IPPROTO_TCP, TCP_SYNCNT);
	assert_int_equal(get_int(copy, IPPROTO_TCP, TCP_SYNCNT), IPC_PROMISE_MARK);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(get_int(copy, IPPROTO_TCP, TCP_SYNCNT), usual);
	close(copy);
	close(pair);
	close_tcp(&tcp);
	daemon_stop(&daemon);
}

static void the_next_daemon_serves_the_promise_too(void **state)
{
	(void)state;
	struct daemon_side first, second;
	for (int bpf = 1; bpf >= 0; bpf--) {
		with_option = true;
		daemon_start(&first);
		struct tcp tcp = promised_tcp();
		daemon_kill(&first);
		with_option = bpf;
		daemon_start(&second);
		script->capable = 0;
		int pair = hand_over(&second, &tcp, IPC_HANDOVER_ACCEPTED);
		WAIT_COUNT(script->starts, 1);
		close(pair);
		close_tcp(&tcp);
		daemon_stop(&second);
	}
	with_option = true;
}

/* connect() was claimed with another daemon: nobody knows what that daemon promised. */
static void a_client_of_another_daemon_connects_again(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	struct tcp tcp = promised_tcp();
	daemon_kill(&daemon);
	daemon_start(&daemon);
	struct tcp client = { .near = tcp.far, .far = tcp.near };
	assert_int_equal(refused(&daemon, &client, IPC_HANDOVER_CONNECTED), EACCES);
	expect_untouched(&client);
	close_tcp(&client);
	daemon_stop(&daemon);
}

static void a_peer_that_is_gone_leaves_no_proposal_behind(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct linger reset = { .l_onoff = 1 };
	daemon_start(&daemon);
	struct tcp tcp = promised_tcp();
	assert_int_equal(send(tcp.far, "proposal", 8, 0), 8);
	setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(tcp.far);
	tcp.far = -1;
	int pair, session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_ACCEPTED, 0, NULL, tcp.near);
	struct ipc_result result = receive_result(session, &pair);
	assert_int_equal(result.outcome, IPC_OUTCOME_FAILED);
	assert_int_equal(result.error, ECONNRESET);
	close(session);
	close_tcp(&tcp);
	daemon_stop(&daemon);
}

static void another_namespace_is_refused(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	daemon_start(&daemon);
	int other = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(setns(own, CLONE_NEWNET), 0);
	for (int promise = 0; promise < 2; promise++) {
		TRIES("promise %d", promise);
		struct daemon_side here;
		if (promise)
			daemon_start(&here);
		struct tcp tcp = promise ? promised_tcp() : connect_tcp();
		assert_int_equal(refused(&daemon, &tcp, IPC_HANDOVER_ACCEPTED), EXDEV);
		assert_int_equal(refused(&daemon, &tcp, IPC_HANDOVER_CONNECTED), EXDEV);
		expect_untouched(&tcp);
		close_tcp(&tcp);
		if (promise)
			daemon_stop(&here);
	}
	close(own);
	close(other);
	daemon_stop(&daemon);
}

static void connections_without_a_promise_stay_plain(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	struct tcp tcp = connect_tcp();
	int pair, session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_ACCEPTED, 0, NULL, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
	expect_untouched(&tcp);
	close(session);
	close_tcp(&tcp);
	daemon_stop(&daemon);
}

/* ---- limits */

/* Waits until new handshakes are promised or not promised, as wanted; in the latter case for this
 * reason. */
static void wait_for_promises(bool promised, uint32_t reason)
{
	for (int i = 0; i < WAIT_MS / 10; i++) {
		struct tcp tcp = promised_tcp();
		bool yes = negotiated(tcp.near) == IPC_NEGOTIATED_YES;
		uint32_t why = (uint32_t)get_int(tcp.far, IPC_SOL_SMCR, IPC_SO_REASON);
		close_tcp(&tcp);
		if (yes == promised && why == reason)
			return;
		poll(NULL, 0, 10);
	}
	fail_msg("promises: not %d", promised);
}

static void expect_limits(const struct daemon_side *daemon, const char *lines)
{
	char *list = control(daemon, "limits");
	assert_string_equal(list, lines);
	free(list);
}

static void a_user_at_its_limit_promises_nothing(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .conns_per_uid = 2 } };
	struct tcp tcp[3];
	int pairs[2];
	char line[64];
	snprintf(line, sizeof(line), "user %u limit\n", (unsigned int)getuid());
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	for (int i = 0; i < 3; i++)
		tcp[i] = promised_tcp();
	pairs[0] = hand_over(&daemon, &tcp[0], IPC_HANDOVER_ACCEPTED);
	expect_limits(&daemon, "");
	pairs[1] = hand_over(&daemon, &tcp[1], IPC_HANDOVER_ACCEPTED);
	expect_limits(&daemon, line);
	/* This connection was promised before the limit was reached. */
	assert_int_equal(refused(&daemon, &tcp[2], IPC_HANDOVER_ACCEPTED), EUSERS);
	expect_untouched(&tcp[2]);
	wait_for_promises(false, SMCR_REASON_LIMIT);
	close(pairs[0]);
	wait_for_promises(true, SMCR_REASON_NONE);
	expect_limits(&daemon, "");
	close(pairs[1]);
	for (int i = 0; i < 3; i++)
		close_tcp(&tcp[i]);
	daemon_stop(&daemon);
}

static void all_at_their_limit_promise_nothing(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .conns = 1 } };
	char lines[64];
	/* nothing is left, and who has the one connection has his share */
	snprintf(lines, sizeof(lines), "all 0 limit\nuser %u limit\n", (unsigned int)getuid());
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	struct tcp tcp = promised_tcp();
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	wait_for_promises(false, SMCR_REASON_LIMIT);
	expect_limits(&daemon, lines);
	close(pair);
	wait_for_promises(true, SMCR_REASON_NONE);
	close_tcp(&tcp);
	daemon_stop(&daemon);
}

static void too_many_sessions_promise_nothing(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions_per_uid = 2 } };
	daemon_start_limited(&daemon, &limits);
	int a = session_open(&daemon), b = session_open(&daemon);
	wait_for_promises(false, SMCR_REASON_LIMIT);
	int c = session_connect(&daemon);
	assert_int_equal(receive_error(c), EUSERS);
	close(a);
	close(b);
	close(c);
	wait_for_promises(true, SMCR_REASON_NONE);
	daemon_stop(&daemon);
}

static int session_of(const struct daemon_side *daemon, uid_t uid)
{
	assert_int_equal(seteuid(uid), 0);
	int session = session_open(daemon);
	assert_int_equal(seteuid(0), 0);
	return session;
}

/* When others have all sessions, a program without one is refused, and the daemon forgets its
 * connection. */
static void a_program_that_was_refused_is_promised_again(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions = 2 } };
	daemon_start_limited(&daemon, &limits);
	assert_int_equal(chmod(daemon.dir, 0711), 0);
	int first = session_of(&daemon, 65534), second = session_of(&daemon, 65533);
	int one_too_many = session_connect(&daemon);
	assert_int_equal(receive_error(one_too_many), EUSERS);
	close(one_too_many);
	close(first);
	close(second);
	wait_for_promises(true, SMCR_REASON_NONE);
	daemon_stop(&daemon);
}

/* ---- descriptors */

static void limit_descriptors(const struct daemon_side *daemon, rlim_t limit)
{
	const struct rlimit files = { limit, 4096 };
	assert_int_equal(prlimit(daemon->pid, RLIMIT_NOFILE, &files, NULL), 0);
}

static bool is_open(const struct daemon_side *daemon, unsigned int fd)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)daemon->pid, fd);
	return lstat(path, &st) == 0;
}

static unsigned int count_open(const struct daemon_side *daemon)
{
	unsigned int count = 0;
	for (unsigned int fd = 0; fd < 256; fd++)
		count += is_open(daemon, fd);
	return count;
}

/* Waits until the daemon has no more than `open` descriptors, and lets it open `room` more. */
static void leave_descriptors(const struct daemon_side *daemon, unsigned int open,
			      unsigned int room)
{
	unsigned int fd = 0;
	WAIT_COUNT(count_open(daemon), open);
	for (; room > 0 || is_open(daemon, fd); fd++)
		room -= !is_open(daemon, fd);
	limit_descriptors(daemon, fd);
}

static void a_daemon_without_descriptors_refuses_at_once(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int sessions[8];
	for (size_t i = 0; i < 8; i++)
		sessions[i] = session_open(&daemon);
	struct tcp tcp[3];
	for (int i = 0; i < 3; i++)
		tcp[i] = promised_tcp();
	unsigned int open = count_open(&daemon);
	/* Descriptors for nothing; for the TCP socket; for one pair end as well. */
	for (unsigned int room = 0; room < 3; room++) {
		leave_descriptors(&daemon, open, room);
		ask_handover(sessions[room], IPC_HANDOVER_ACCEPTED, 0, NULL, tcp[room].near);
		assert_int_equal(receive_error(sessions[room]), EMFILE);
		expect_untouched(&tcp[room]);
		wait_for_promises(false, SMCR_REASON_NO_DESCRIPTORS);
		/* the descriptor that comes with the frame is lost, and the session ends */
		if (room == 0)
			open--;
	}
	leave_descriptors(&daemon, open, 0);
	int one_too_many = session_connect(&daemon);
	assert_int_equal(receive_error(one_too_many), EMFILE);
	close(one_too_many);
	limit_descriptors(&daemon, 4096);
	wait_for_promises(true, SMCR_REASON_NONE);
	expect_limits(&daemon, "");
	for (size_t i = 0; i < 8; i++)
		close(sessions[i]);
	for (int i = 0; i < 3; i++)
		close_tcp(&tcp[i]);
	tcp[0] = promised_tcp();
	int pair = hand_over(&daemon, &tcp[0], IPC_HANDOVER_ACCEPTED);
	close(pair);
	close_tcp(&tcp[0]);
	daemon_stop(&daemon);
}

/* The reason is an internal error, of which the log says more. */
static void what_cannot_be_begun_is_in_the_log(void **state)
{
	(void)state;
	struct daemon_side daemon;
	char byte;
	daemon_start(&daemon);
	script->start_error = -EIO;
	struct tcp tcp = promised_tcp();
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(recv(pair, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(script->warnings, 1);
	script->start_error = 0;
	close(pair);
	close_tcp(&tcp);
	daemon_stop(&daemon);
}

static struct rdv_option *flipped;
static atomic_bool flipped_enough;

static void *flip(void *arg)
{
	while (!flipped_enough) {
		rdv_option_hold(flipped, SMCR_REASON_SHUTTING_DOWN);
		rdv_option_hold(flipped, SMCR_REASON_NONE);
	}
	return arg;
}

/* The policy changes between the reservation of bytes for the option and the writing of the option.
 * The option is then neither sent nor promised. */
static void both_sides_agree_while_the_policy_changes(void **state)
{
	(void)state;
	char text[RDV_TEXT_MAX];
	pthread_t thread;
	assert_int_equal(option_open(&flipped, text), 0);
	assert_int_equal(pthread_create(&thread, NULL, flip, NULL), 0);
	for (int i = 0; i < 12000; i++) {
		TRIES("case %d", i);
		struct tcp tcp = promised_tcp();
		bool far = negotiated(tcp.far) == IPC_NEGOTIATED_YES;
		bool near = negotiated(tcp.near) == IPC_NEGOTIATED_YES;
		close_tcp(&tcp);
		assert_int_equal(near, far);
	}
	flipped_enough = true;
	pthread_join(thread, NULL);
	rdv_option_close(flipped);
}

/* ---- the gate */

#define A_USER 12345

static const char clc[] = "\xe2\xd4\xc3\xd9\x03\x01\x44\x10 a Confirm, or data that looks like one";

/* @param kind  how `near` will be handed over */
static struct tcp users_tcp(enum ipc_handover_kind kind)
{
	struct tcp tcp = promised_tcp();
	if (kind == IPC_HANDOVER_CONNECTED) {
		int accepted = tcp.near;
		tcp.near = tcp.far;
		tcp.far = accepted;
	}
	assert_int_equal(fchown(tcp.near, A_USER, (gid_t)-1), 0);
	return tcp;
}

static void expect_decline(int fd)
{
	char decline[28];
	assert_int_equal(recv(fd, decline, sizeof(decline), MSG_WAITALL), sizeof(decline));
}

/* CLC messages of smcrd pass. After a fallback the program's bytes pass too. */
static void a_fallback_opens_the_gate(void **state)
{
	(void)state;
	struct daemon_side daemon;
	with_gate = true;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	script->decline = 1;
	/* The program keeps its TCP socket. */
	struct tcp tcp = users_tcp(IPC_HANDOVER_CONNECTED);
	int pair, session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
	expect_decline(tcp.far);
	assert_int_equal(send(tcp.near, clc, sizeof(clc), 0), sizeof(clc));
	expect_bytes(tcp.far, clc);
	close(session);
	close_tcp(&tcp);
	/* smcrd relays between pair and TCP. */
	tcp = users_tcp(IPC_HANDOVER_ACCEPTED);
	pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	expect_decline(tcp.far);
	assert_int_equal(send(pair, clc, sizeof(clc), 0), sizeof(clc));
	expect_bytes(tcp.far, clc);
	close(pair);
	close_tcp(&tcp);
	daemon_stop(&daemon);
	with_gate = false;
}

/* A second descriptor of the socket does not get bytes past the gate, and its use ends the
 * rendezvous. */
static void a_second_sender_ends_the_connection(void **state)
{
	(void)state;
	struct daemon_side daemon;
	char byte;
	with_gate = true;
	daemon_start(&daemon);
	script->decline = 1;
	struct tcp tcp = users_tcp(IPC_HANDOVER_ACCEPTED);
	int copy = dup(tcp.near);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	WAIT_COUNT(script->starts, 1);
	assert_int_equal(send(copy, clc, sizeof(clc), 0), sizeof(clc));
	daemon_command(&daemon, 'f');
	assert_int_equal(recv(tcp.far, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(recv(pair, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(copy);
	close(pair);
	close_tcp(&tcp);
	daemon_stop(&daemon);
	with_gate = false;
}

/* ---- the address for programs that cannot reach the path */

/* The number in the daemon's abstract address, asked of a Unix socket. @return 0: there is none */
static uint64_t address_number(void)
{
	uint64_t number = 1;
	socklen_t len = sizeof(number), half = sizeof(number) / 2;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (getsockopt(fd, IPC_SOL_SMCR, IPC_SO_ADDRESS, &number, &len) < 0) {
		assert_true(errno == EOPNOTSUPP || errno == ENOPROTOOPT);
		number = 0;
	} else {
		assert_int_equal(len, sizeof(number));
		assert_int_equal(
			getsockopt(fd, IPC_SOL_SMCR, IPC_SO_ADDRESS, &(uint64_t){ 0 }, &half), -1);
		assert_int_equal(errno, EINVAL);
	}
	close(fd);
	return number;
}

/* Programs are told of an address that nobody else can have, whichever earlier ones were seen. */
static void nobody_can_foretell_the_address(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	uint64_t before = 0;
	for (int i = 0; i < 2; i++) {
		TRIES("daemon %d", i);
		assert_true(address_number() == 0);
		daemon_start(&daemon);
		const uint64_t number = address_number();
		assert_true(number != 0 && number != before);
		struct sockaddr_un addr;
		int len = ipc_abstract_address(daemon.path, number, &addr);
		int session = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(session, (struct sockaddr *)&addr, (socklen_t)len), 0);
		send_hello(session);
		assert_true(receive_frame(session, &frame));
		assert_int_equal(frame.type, IPC_HELLO);
		free(frame.payload);
		send_frame(session, IPC_CONTROL, "echo", 4, -1);
		assert_int_equal(receive_error(session), EPERM); /* tools have no business there */
		close(session);
		before = number;
		daemon_command(&daemon, 's');
		while (address_number() != 0) /* nobody is sent to where it listens no more */
			poll(NULL, 0, 1);
		daemon_stop(&daemon);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_promise_is_served_and_its_mark_removed),
		cmocka_unit_test(the_next_daemon_serves_the_promise_too),
		cmocka_unit_test(a_client_of_another_daemon_connects_again),
		cmocka_unit_test(a_peer_that_is_gone_leaves_no_proposal_behind),
		cmocka_unit_test(another_namespace_is_refused),
		cmocka_unit_test(connections_without_a_promise_stay_plain),
		cmocka_unit_test(a_user_at_its_limit_promises_nothing),
		cmocka_unit_test(all_at_their_limit_promise_nothing),
		cmocka_unit_test(too_many_sessions_promise_nothing),
		cmocka_unit_test(a_program_that_was_refused_is_promised_again),
		cmocka_unit_test(a_daemon_without_descriptors_refuses_at_once),
		cmocka_unit_test(nobody_can_foretell_the_address),
		cmocka_unit_test(a_fallback_opens_the_gate),
		cmocka_unit_test(a_second_sender_ends_the_connection),
		cmocka_unit_test(what_cannot_be_begun_is_in_the_log),
		cmocka_unit_test(both_sides_agree_while_the_policy_changes),
	};
	return cmocka_run_group_tests(tests, setup_group, NULL);
}
