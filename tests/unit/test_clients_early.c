/* SPDX-License-Identifier: MIT */
/*
 * connect() returns before the rendezvous has an outcome. The connection then goes on over SMC-R or
 * TCP as soon as the peer's answer says which. Without a sound answer the daemon makes the
 * connection again as plain TCP.
 */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include <sys/syscall.h>

static void start(struct daemon_side *daemon)
{
	const struct side_limits limits = { .conns = { .connect_wait_ms = 20 } };
	daemon_start_limited(daemon, &limits);
}

/* A connection whose listener stays open, so that the daemon can connect again. */
struct listened {
	struct tcp tcp;
	int listener;
};

static struct listened listen_and_connect(void)
{
	struct listened l;
	l.listener = listen_tcp(&l.tcp.peer);
	limit_waiting(l.listener);
	l.tcp.near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(l.tcp.near, (struct sockaddr *)&l.tcp.peer, sizeof(l.tcp.peer)),
			 0);
	l.tcp.far = accept4(l.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(l.tcp.far >= 0);
	limit_waiting(l.tcp.far);
	return l;
}

/* @return the program's pair end, which came before the outcome */
static int released(const struct daemon_side *daemon, struct tcp *tcp)
{
	int pair, session = session_open(daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp->near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_OPEN);
	close(session);
	close(tcp->near);
	tcp->near = -1;
	make_blocking(pair);
	return pair;
}

static void expect_state(const struct daemon_side *daemon, int pair, enum ipc_conn_state state)
{
	int tcp;
	struct ipc_status status = ask_status(daemon, pair, 0, &tcp);
	assert_int_equal(status.state, state);
	assert_int_equal(status.error, 0);
}

static in_port_t port_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	assert_int_equal(name(fd, (struct sockaddr *)&addr, &len), 0);
	return addr.sin_port;
}

static void a_shorter_wait_holds_for_the_next_connect(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp before = connect_tcp(), tcp = connect_tcp();
	daemon_start(&daemon); /* connect() waits longer than this test */
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, before.near);
	WAIT_COUNT(script->starts, 1);
	daemon_command(&daemon, 'w');
	int pair = released(&daemon, &tcp);
	expect_state(&daemon, pair, IPC_CONN_OPEN);
	wait_for_line(&daemon, "pending state=1"); /* the first one waits as it was told */
	close(pair);
	close(session);
	close(before.near);
	close(before.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void early_bytes_go_over_smcr(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	start(&daemon);
	int pair = released(&daemon, &tcp);
	expect_state(&daemon, pair, IPC_CONN_OPEN);
	assert_int_equal(send(pair, "early", 5, MSG_NOSIGNAL), 5);
	assert_int_equal(script->taken, 0);
	daemon_command(&daemon, 'e');
	expect_bytes(pair, "early"); /* the test's engine sends everything back */
	expect_state(&daemon, pair, IPC_CONN_SMCR);
	close(pair);
	expect_end(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void early_bytes_go_over_tcp(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	start(&daemon);
	int pair = released(&daemon, &tcp);
	assert_int_equal(send(pair, "early", 5, MSG_NOSIGNAL), 5);
	daemon_command(&daemon, 'f');
	expect_bytes(tcp.far, "early");
	assert_int_equal(send(tcp.far, "answer", 6, 0), 6);
	expect_bytes(pair, "answer");
	expect_state(&daemon, pair, IPC_CONN_RELAY);
	close(pair);
	expect_end(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void a_program_that_closes_early_still_sends_all(void **state)
{
	(void)state;
	struct daemon_side daemon;
	start(&daemon);
	for (int fallback = 0; fallback < 2; fallback++) {
		struct tcp tcp = connect_tcp();
		int pair = released(&daemon, &tcp);
		assert_int_equal(send(pair, "last", 4, MSG_NOSIGNAL), 4);
		close(pair);
		daemon_command(&daemon, fallback ? 'f' : 'e');
		if (fallback)
			expect_bytes(tcp.far, "last");
		else
			WAIT_COUNT(script->taken, 4);
		if (fallback)
			expect_end(tcp.far);
		close(tcp.far);
	}
	daemon_stop(&daemon);
}

/* A non-blocking connect(): the pair end becomes writable, and SO_ERROR tells 0. */
static void a_connect_in_progress_ends_early_too(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int pair, session;
	start(&daemon);
	session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTING, 0, &tcp.peer, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(session);
	close(tcp.near);
	assert_true(wait_bits(pair, POLLOUT));
	expect_state(&daemon, pair, IPC_CONN_OPEN);
	assert_int_equal(send(pair, "early", 5, MSG_NOSIGNAL), 5);
	daemon_command(&daemon, 'e');
	make_blocking(pair);
	expect_bytes(pair, "early");
	close(pair);
	expect_end(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* A non-blocking connect() whose rendezvous has begun, and which waits for the outcome. */
static int waiting(struct daemon_side *daemon, struct tcp *tcp)
{
	int begun = script->starts;
	int pair = hand_over(daemon, tcp, IPC_HANDOVER_CONNECTING);
	WAIT_COUNT(script->starts, begun + 1);
	return pair;
}

/* A connection over SMC-R, or over TCP by the daemon. @param outcome  command of the daemon */
static int settled(struct daemon_side *daemon, struct tcp *tcp, char outcome)
{
	int pair = waiting(daemon, tcp);
	daemon_command(daemon, outcome);
	assert_true(wait_bits(pair, POLLOUT));
	return pair;
}

static bool is_writable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	return poll(&pfd, 1, 0) == 1;
}

/* A server's answer that follows from its accept() does not overtake the client's connect(). The
 * engine of this test sends back what the program writes. */
static void a_connect_ends_before_bytes_of_the_same_peer(void **state)
{
	(void)state;
	for (const char *how = "ef"; *how; how++) {
		TRIES("how %c", *how);
		struct daemon_side daemon;
		struct tcp first = connect_tcp(), second = connect_tcp();
		daemon_start(&daemon); /* connect() waits longer than this test */
		int settled_pair = settled(&daemon, &first, *how);
		int pair = waiting(&daemon, &second);
		assert_false(is_writable(pair));
		if (*how == 'e')
			assert_int_equal(send(settled_pair, "answer", 6, MSG_NOSIGNAL), 6);
		else
			assert_int_equal(send(first.far, "answer", 6, MSG_NOSIGNAL), 6);
		expect_bytes(settled_pair, "answer");
		assert_true(is_writable(pair));
		expect_state(&daemon, pair, IPC_CONN_OPEN);
		close(pair);
		close(settled_pair);
		close(first.far);
		close(second.far);
		daemon_stop(&daemon);
	}
}

/* If it ended, a fallback would have to be relayed. */
static void a_connect_waits_while_no_bytes_of_its_peer_come(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp first = connect_tcp(), second = connect_tcp_at(INADDR_LOOPBACK + 1),
		   third = connect_tcp();
	daemon_start(&daemon);
	int relayed = settled(&daemon, &first, 'f'); /* with room for bytes that have not come */
	int other = waiting(&daemon, &second), same = waiting(&daemon, &third);
	assert_int_equal(send(relayed, "question", 8, MSG_NOSIGNAL), 8);
	expect_bytes(first.far, "question");
	assert_false(is_writable(same));
	assert_int_equal(send(first.far, "answer", 6, MSG_NOSIGNAL), 6);
	expect_bytes(relayed, "answer");
	assert_true(is_writable(same));
	assert_false(is_writable(other));
	close(relayed);
	close(other);
	close(same);
	close(first.far);
	close(second.far);
	close(third.far);
	daemon_stop(&daemon);
}

/* What the peer does instead of an answer: 'g' sends bytes that are no CLC, 'x' makes the engine
 * give up. */
static void break_it(struct daemon_side *daemon, struct tcp *tcp, char how)
{
	if (how == 'g')
		assert_int_equal(send(tcp->far, "220 welcome\r\n", 13, 0), 13);
	else
		daemon_command(daemon, how);
	expect_reset(tcp->far);
	close(tcp->far);
}

/* Reading A56: the connection is made again as plain TCP. */
static void without_an_answer_the_connection_is_made_again(void **state)
{
	(void)state;
	struct daemon_side daemon;
	start(&daemon);
	for (const char *how = "gx"; *how; how++) {
		struct listened l = listen_and_connect();
		in_port_t port = port_of(l.tcp.near, getsockname);
		int pair = released(&daemon, &l.tcp);
		assert_int_equal(send(pair, "early", 5, MSG_NOSIGNAL), 5);
		break_it(&daemon, &l.tcp, *how);
		int far = accept4(l.listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(far >= 0);
		limit_waiting(far);
		/* the port that getsockname() has told the program */
		assert_int_equal(port_of(far, getpeername), port);
		expect_bytes(far, "early");
		assert_int_equal(send(far, "answer", 6, 0), 6);
		close(far);
		expect_bytes(pair, "answer");
		expect_end(pair);
		close(pair);
		close(l.listener);
		wait_for_line(&daemon, "tcp state=5 ended=1 reason=a000008/0");
	}
	daemon_stop(&daemon);
	PROVES("ERR-11");
}

static void a_waiting_connect_gets_its_tcp_socket_connected_again(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct listened l = listen_and_connect();
	int pair;
	daemon_start(&daemon); /* this connect() waits for the outcome */
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, l.tcp.near);
	WAIT_COUNT(script->starts, 1);
	break_it(&daemon, &l.tcp, 'g');
	struct ipc_result result = receive_result(session, &pair);
	assert_int_equal(result.outcome, IPC_OUTCOME_TCP);
	assert_int_equal(result.reason, SMCR_REASON_NO_ANSWER);
	int far = accept4(l.listener, NULL, NULL, SOCK_CLOEXEC);
	limit_waiting(far);
	assert_int_equal(send(l.tcp.near, "plain", 5, 0), 5);
	expect_bytes(far, "plain");
	close(l.tcp.near);
	expect_end(far);
	close(far);
	close(l.listener);
	close(session);
	daemon_stop(&daemon);
}

static void a_peer_that_is_gone_by_then_is_a_reset(void **state)
{
	(void)state;
	struct daemon_side daemon;
	/* Its listener is closed: no second connection is possible. */
	struct tcp tcp = connect_tcp();
	start(&daemon);
	int pair = released(&daemon, &tcp);
	break_it(&daemon, &tcp, 'g');
	expect_reset(pair);
	close(pair);
	wait_for_line(&daemon, "tcp state=4 ended=1 reason=a000008/0");
	daemon_stop(&daemon);
}

static void required_smcr_is_not_made_again(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct listened l = listen_and_connect();
	int pair;
	start(&daemon);
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, IPC_HANDOVER_REQUIRE, NULL, l.tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_OPEN);
	close(session);
	close(l.tcp.near);
	make_blocking(pair);
	break_it(&daemon, &l.tcp, 'g');
	expect_reset(pair);
	close(pair);
	fcntl(l.listener, F_SETFL, O_NONBLOCK);
	assert_int_equal(accept4(l.listener, NULL, NULL, 0), -1);
	assert_int_equal(errno, EAGAIN);
	close(l.listener);
	daemon_stop(&daemon);
}

static void a_stopping_daemon_resets_open_connections(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	start(&daemon);
	int pair = released(&daemon, &tcp);
	daemon_command(&daemon, 's');
	expect_reset(pair);
	expect_reset(tcp.far);
	/* no Decline, which would tell the peer to go on over TCP */
	assert_int_equal(script->give_ups, 0);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* The peer's reset is there when our Decline is sent: send() returns the error, and the kernel
 * tells it only once. If the program had the socket back, it would see an end of file that nobody
 * has sent. */
static void a_reset_that_meets_our_decline_is_no_end_of_file(void **state)
{
	(void)state;
	const struct linger reset = { .l_onoff = 1 };
	for (int kind = IPC_HANDOVER_CONNECTED; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		TRIES("kind %d", kind);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		int pair, session;
		daemon_start(&daemon);
		script->decline = 1;
		session = session_open(&daemon);
		ask_handover(session, (enum ipc_handover_kind)kind, 0,
			     kind == IPC_HANDOVER_CONNECTING ? &tcp.peer : NULL, tcp.near);
		if (kind != IPC_HANDOVER_CONNECTED)
			assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
		WAIT_COUNT(script->starts, 1);
		kill(daemon.pid, SIGSTOP);
		daemon_command(&daemon, 'f');
		setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(tcp.far);
		assert_true(wait_bits(tcp.near, POLLHUP));
		kill(daemon.pid, SIGCONT);
		if (kind == IPC_HANDOVER_CONNECTED) {
			assert_int_equal(receive_result(session, &pair).outcome,
					 IPC_OUTCOME_FAILED);
		} else {
			make_blocking(pair);
			expect_reset(pair);
			close(pair);
		}
		close(tcp.near);
		close(session);
		daemon_stop(&daemon);
	}
}

/* Replaces the C library's function: while `no_watches` the kernel takes no more watches of Unix
 * sockets for edges. After a session was opened those are watches of pair ends. While `no_ends`
 * no event tells that a TCP handshake is over. */
static _Atomic int *no_watches, *refused_watches, *no_ends;

static bool is_of_family(int fd, int wanted)
{
	int family = -1;
	socklen_t len = sizeof(family);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == wanted;
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (no_watches && *no_watches && op == EPOLL_CTL_ADD && event->events & EPOLLET &&
	    is_of_family(fd, AF_UNIX)) {
		++*refused_watches;
		errno = ENOSPC;
		return -1;
	}
	if (no_ends && *no_ends && op == EPOLL_CTL_ADD && event->events == (EPOLLET | EPOLLOUT) &&
	    is_of_family(fd, AF_INET))
		return 0;
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

/* A connect() whose handshake is over, while no event has told so yet; and then an answer comes.
 * @return whether the connect() has ended before the answer */
static bool ends_before_an_answer(struct daemon_side *daemon, int answered)
{
	struct tcp tcp = connect_tcp();
	*no_ends = 1;
	int pair = hand_over(daemon, &tcp, IPC_HANDOVER_CONNECTING);
	*no_ends = 0;
	assert_false(is_writable(pair));
	assert_int_equal(send(answered, "answer", 6, MSG_NOSIGNAL), 6);
	expect_bytes(answered, "answer");
	bool ended = is_writable(pair);
	close(pair);
	close(tcp.far);
	return ended;
}

/* Handshakes are looked at for 200 ms, so each of a few attempts may come too late. */
static void a_handshake_is_looked_at_before_bytes_of_the_same_peer(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp first = connect_tcp();
	bool ended = false;
	no_ends =
		mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(no_ends, MAP_FAILED);
	daemon_start(&daemon);
	int pair = settled(&daemon, &first, 'e');
	for (int i = 0; i < 20 && !ended; i++)
		ended = ends_before_an_answer(&daemon, pair);
	assert_true(ended);
	close(pair);
	close(first.far);
	daemon_stop(&daemon);
	munmap(no_ends, sizeof(int));
	no_ends = NULL;
}

/* connect() then waits for the outcome. */
static void without_watches_a_connect_waits(void **state)
{
	(void)state;
	struct daemon_side daemon;
	for (const char *how = "ef"; *how; how++) {
		TRIES("how %c", *how);
		struct tcp tcp = connect_tcp();
		int pair;
		_Atomic int *shared = mmap(NULL, sizeof(int) * 2, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(shared, MAP_FAILED);
		no_watches = shared;
		refused_watches = shared + 1;
		start(&daemon);
		int session = session_open(&daemon);
		*no_watches = 1;
		ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
		WAIT_COUNT(*refused_watches, 1);
		*no_watches = 0;
		daemon_command(&daemon, *how);
		struct ipc_result result = receive_result(session, &pair);
		assert_int_equal(result.outcome, *how == 'e' ? IPC_OUTCOME_PAIR : IPC_OUTCOME_TCP);
		if (*how == 'e')
			close(pair);
		close(tcp.near);
		close(tcp.far);
		close(session);
		daemon_stop(&daemon);
		no_watches = refused_watches = NULL;
		munmap(shared, sizeof(int) * 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shorter_wait_holds_for_the_next_connect),
		cmocka_unit_test(early_bytes_go_over_smcr),
		cmocka_unit_test(early_bytes_go_over_tcp),
		cmocka_unit_test(a_program_that_closes_early_still_sends_all),
		cmocka_unit_test(a_connect_in_progress_ends_early_too),
		cmocka_unit_test(a_connect_ends_before_bytes_of_the_same_peer),
		cmocka_unit_test(a_connect_waits_while_no_bytes_of_its_peer_come),
		cmocka_unit_test(without_an_answer_the_connection_is_made_again),
		cmocka_unit_test(a_waiting_connect_gets_its_tcp_socket_connected_again),
		cmocka_unit_test(a_peer_that_is_gone_by_then_is_a_reset),
		cmocka_unit_test(required_smcr_is_not_made_again),
		cmocka_unit_test(a_stopping_daemon_resets_open_connections),
		cmocka_unit_test(a_reset_that_meets_our_decline_is_no_end_of_file),
		cmocka_unit_test(a_handshake_is_looked_at_before_bytes_of_the_same_peer),
		cmocka_unit_test(without_watches_a_connect_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
