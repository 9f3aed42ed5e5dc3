/* SPDX-License-Identifier: MIT */
/* After a fallback the program has the pair end: relay, taking the TCP socket back, connect() that
 * fails. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

/* Makes a relayed connection, from an accept() or a connect() in progress. */
static int relayed(const struct daemon_side *daemon, struct tcp *tcp, enum ipc_handover_kind kind)
{
	script->outcome = OUTCOME_FALLBACK;
	*tcp = connect_tcp();
	int pair = hand_over(daemon, tcp, kind);
	if (kind == IPC_HANDOVER_CONNECTING)
		assert_true(wait_bits(pair, POLLOUT));
	return pair;
}

static void the_relay_passes_bulk_and_half_closes(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const size_t total = 16u << 20;
	daemon_start(&daemon);
	for (int kind = IPC_HANDOVER_CONNECTING; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		TRIES("kind %d", kind);
		struct tcp tcp;
		int pair = relayed(&daemon, &tcp, (enum ipc_handover_kind)kind);
		/* The program sends first, then the peer: each half of the connection outlives the
		 * other. */
		pid_t sender = start_sender(pair, -1, total);
		expect_pattern(tcp.far, total);
		expect_child_ok(sender);
		sender = start_sender(tcp.far, -1, total);
		expect_pattern(pair, total);
		expect_child_ok(sender);
		close(pair);
		close(tcp.far);
	}
	wait_for_line(&daemon, "tcp state=5 ended=1 reason=5000000/3070000");
	wait_for_line(&daemon, "tx=16777216 rx=16777216");
	daemon_stop(&daemon);
	PROVES("GEN-4");
}

static void data_that_looks_like_clc_is_only_data(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	const char *decline = "\xe2\xd4\xc3\xd9\x04 and so on";
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send(tcp.far, decline, strlen(decline), 0), strlen(decline));
		expect_bytes(pair, decline);
		assert_int_equal(send(pair, decline, strlen(decline), 0), strlen(decline));
		expect_bytes(tcp.far, decline);
	}
	assert_int_equal(script->clc, 0);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("ERR-14");
}

static void the_relay_carries_both_directions_at_once(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	const size_t total = 8u << 20;
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	pid_t near = start_sender(pair, tcp.far, total);
	pid_t far = start_sender(tcp.far, pair, total);
	pid_t reader = fork();
	assert_true(reader >= 0);
	if (reader == 0) {
		close(tcp.far);
		expect_pattern(pair, total);
		_exit(0);
	}
	expect_pattern(tcp.far, total);
	expect_child_ok(reader);
	expect_child_ok(near);
	expect_child_ok(far);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void the_relay_waits_for_a_slow_reader(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	static char block[100000];
	daemon_start(&daemon);
	for (int to_program = 0; to_program < 2; to_program++) {
		int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		int from = to_program ? tcp.far : pair, to = to_program ? pair : tcp.far;
		size_t sent = 0, got = 0;
		struct pollfd pfd = { .fd = from, .events = POLLOUT };
		while (poll(&pfd, 1, 200) == 1) { /* until all buffers are full */
			ssize_t n = send(from, block, sizeof(block), MSG_DONTWAIT);
			assert_true(n > 0);
			sent += (size_t)n;
		}
		assert_true(sent > 500000);
		assert_true(sent < 32u << 20); /* buffers have a limit */
		shutdown(from, SHUT_WR);
		for (ssize_t n; (n = recv(to, block, sizeof(block), 0)) > 0;)
			got += (size_t)n;
		assert_int_equal(got, sent);
		close(pair);
		close(tcp.far);
	}
	daemon_stop(&daemon);
}

static void resets_pass_the_relay(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	const struct linger reset = { .l_onoff = 1 };
	daemon_start(&daemon);

	/* The peer resets: the program reads what came before, then the error. */
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(tcp.far, "last", 4, 0), 4);
	assert_true(wait_bits(pair, POLLIN));
	setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(tcp.far);
	expect_bytes(pair, "last");
	expect_reset(pair);
	close(pair);

	/* The program resets by closing with unread data. What it wrote before goes out. */
	pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(tcp.far, "unread", 6, 0), 6);
	assert_true(wait_bits(pair, POLLIN));
	int none;
	ask_status(&daemon, pair, 0, &none); /* the daemon has worked off earlier events */
	kill(daemon.pid, SIGSTOP);           /* it then sees answer and end at the same time */
	assert_int_equal(waitpid(daemon.pid, NULL, WUNTRACED), daemon.pid);
	assert_int_equal(send(pair, "answer", 6, 0), 6);
	close(pair);
	kill(daemon.pid, SIGCONT);
	expect_bytes(tcp.far, "answer");
	expect_reset(tcp.far);
	close(tcp.far);

	/* The same after shutdown(), which the daemon was shown: the peer gets end of file too. */
	pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(tcp.far, "unread", 6, 0), 6);
	assert_true(wait_bits(pair, POLLIN));
	assert_int_equal(send(pair, "answer", 6, 0), 6);
	shutdown(pair, SHUT_WR);
	ask_status(&daemon, pair, 0, &none);
	close(pair);
	expect_bytes(tcp.far, "answer");
	expect_end(tcp.far);
	assert_true(wait_bits(tcp.far, POLLERR));
	close(tcp.far);

	/* The peer resets after its end of file: the program finds out as it writes. */
	pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	shutdown(tcp.far, SHUT_WR);
	expect_end(pair);
	setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(tcp.far);
	assert_true(wait_bits(pair, POLLERR));
	assert_int_equal(send(pair, "x", 1, MSG_NOSIGNAL), -1);
	close(pair);
	daemon_stop(&daemon);
}

static void a_reset_waits_for_the_reader_of_what_came_before(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	static char block[100000];
	const struct linger reset = { .l_onoff = 1 };
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	size_t sent = 0, got = 0;
	struct pollfd pfd = { .fd = tcp.far, .events = POLLOUT };
	while (poll(&pfd, 1, 200) == 1)
		sent += (size_t)send(tcp.far, block, sizeof(block), MSG_DONTWAIT);
	setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(tcp.far);
	ssize_t n;
	while ((n = recv(pair, block, sizeof(block), 0)) > 0)
		got += (size_t)n;
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	assert_true(got > 500000 && got <= sent);
	close(pair);
	daemon_stop(&daemon);
}

/* With TCP, a write() that waits fails as soon as the peer has reset the connection. The program
 * cannot read what came before, because it waits. */
static void a_reset_does_not_wait_for_a_writer(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	static char block[100000];
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	for (int i = 0; i < 2; i++) {
		int fd = i ? pair : tcp.far;
		struct pollfd pfd = { .fd = fd, .events = POLLOUT };
		while (poll(&pfd, 1, 200) == 1) /* until all buffers are full */
			assert_true(send(fd, block, sizeof(block), MSG_DONTWAIT) > 0);
	}
	close(tcp.far); /* with unread bytes: a reset */
	ssize_t n = 0;
	for (int i = 0; i < 10000 && n >= 0; i++)
		n = send(pair, block, 1000, MSG_NOSIGNAL);
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	assert_true(recv(pair, block, sizeof(block), 0) > 0); /* it can still be read */
	close(pair);
	daemon_stop(&daemon);
}

static void close_sends_everything_and_then_fin(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	static char block[400000];
	daemon_start(&daemon);
	for (int killed = 0; killed < 2; killed++) {
		int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			if (send(pair, block, sizeof(block), MSG_NOSIGNAL) != sizeof(block))
				_exit(1);
			if (!killed)
				_exit(0);
			raise(SIGKILL);
		}
		close(pair);
		size_t got = 0;
		for (ssize_t n; (n = recv(tcp.far, block, sizeof(block), 0)) > 0;)
			got += (size_t)n;
		assert_int_equal(got, sizeof(block));
		waitpid(child, NULL, 0);
		close(tcp.far);
	}
	daemon_stop(&daemon);
	PROVES("GEN-10");
}

/* The peer writes and does not read: if the relay waited for it to read, both would wait. */
static void bytes_for_a_program_that_has_closed_meet_a_reset(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	static char block[100000];
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct pollfd pfd = { .fd = pair, .events = POLLOUT };
	while (poll(&pfd, 1, 200) == 1) /* until all buffers are full */
		assert_true(send(pair, block, sizeof(block), MSG_DONTWAIT) > 0);
	close(pair);
	assert_int_equal(send(tcp.far, "answer", 6, 0), 6);
	assert_true(wait_bits(tcp.far, POLLERR));
	close(tcp.far);
	daemon_stop(&daemon);
}

static void a_peer_that_never_reads_is_not_waited_for_for_ever(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	const struct side_limits limits = { .conns = { .close_wait_ms = 300 } };
	static char block[100000];
	daemon_start_limited(&daemon, &limits);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct pollfd pfd = { .fd = pair, .events = POLLOUT };
	while (poll(&pfd, 1, 200) == 1)
		assert_true(send(pair, block, sizeof(block), MSG_DONTWAIT) > 0);
	close(pair);
	wait_for_line(&daemon, "tcp state=5 ended=1");
	ssize_t n;
	while ((n = recv(tcp.far, block, sizeof(block), 0)) > 0)
		;
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* The kernel tells the relay of room only when a third of TCP's queue is free. A slow reader needs
 * longer for that than the relay waits, and has to get everything. */
static void a_peer_that_reads_slowly_gets_everything(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	const struct side_limits limits = { .conns = { .close_wait_ms = 2500 } };
	static char block[100000];
	size_t sent = 0, got = 0;
	daemon_start_limited(&daemon, &limits);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct pollfd pfd = { .fd = pair, .events = POLLOUT };
	while (poll(&pfd, 1, 200) == 1) {
		ssize_t n = send(pair, block, sizeof(block), MSG_DONTWAIT);
		assert_true(n > 0);
		sent += (size_t)n;
	}
	close(pair);
	for (int i = 0; i < 10; i++) {
		poll(NULL, 0, 400);
		ssize_t n = recv(tcp.far, block, sizeof(block) * 4 / 5, 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	for (ssize_t n; (n = recv(tcp.far, block, sizeof(block), 0)) != 0; got += (size_t)n)
		assert_true(n > 0);
	assert_int_equal(got, sent);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void shutdown_of_reading_drops_what_arrives(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	shutdown(pair, SHUT_RD);
	assert_int_equal(send(tcp.far, "dropped", 7, 0), 7);
	assert_int_equal(send(pair, "sent", 4, 0), 4);
	expect_bytes(tcp.far, "sent");
	shutdown(pair, SHUT_WR);
	expect_end(tcp.far);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("CLOSE-5");
}

/* ---- taking the TCP socket back ---- */

static void nothing_passed_so_the_socket_goes_back(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	int back;
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_CONNECTING);
	/* no TCP socket unless the program asks for it */
	assert_int_equal(ask_status(&daemon, pair, 0, &back).flags, 0);
	struct ipc_status status = ask_status(&daemon, pair, IPC_STATUS_MAY_TAKE_BACK, &back);
	assert_int_equal(status.state, IPC_CONN_RELAY);
	assert_int_equal(status.reason, SMCR_REASON_PEER_DECLINED);
	assert_true(back >= 0);
	close(pair);
	assert_int_equal(send(back, "direct", 6, 0), 6);
	expect_bytes(tcp.far, "direct");
	assert_int_equal(send(tcp.far, "answer", 6, 0), 6);
	expect_bytes(back, "answer");
	close(back);
	expect_end(tcp.far); /* the daemon has closed its descriptor */
	close(tcp.far);
	daemon_stop(&daemon);
}

static void once_bytes_have_passed_the_relay_stays(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	int back;
	daemon_start(&daemon);
	for (int who = 0; who < 2; who++) {
		int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		assert_int_equal(send(who ? pair : tcp.far, "x", 1, 0), 1);
		assert_true(wait_bits(who ? tcp.far : pair, POLLIN));
		struct ipc_status status =
			ask_status(&daemon, pair, IPC_STATUS_MAY_TAKE_BACK, &back);
		assert_int_equal(status.state, IPC_CONN_RELAY);
		assert_int_equal(back, -1);
		expect_bytes(who ? tcp.far : pair, "x");
		close(pair);
		close(tcp.far);
	}
	daemon_stop(&daemon);
}

/* ---- connect() that fails ---- */

/* A connect() that stays in progress: the queue of the listener is full, so that SYNs are dropped.
 * The caller closes the listener. */
static int connect_slowly(struct sockaddr_in *ret_addr, int *ret_listener)
{
	struct pollfd pfd = { .events = POLLOUT };
	int listener = listen_tcp(ret_addr);
	listen(listener, 0);
	for (int i = 0; i < 16; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fd, (struct sockaddr *)ret_addr, sizeof(*ret_addr)), -1);
		assert_int_equal(errno, EINPROGRESS);
		pfd.fd = fd;
		if (poll(&pfd, 1, 300) == 0) {
			*ret_listener = listener;
			return fd;
		}
		close(fd);
	}
	fail_msg("the listener takes everything");
	return -1;
}

static void a_refused_connect_is_told_once_and_the_socket_goes_back(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct sockaddr_in addr;
	int pair, back, listener = -1;
	daemon_start(&daemon);
	int tcp = connect_slowly(&addr, &listener);
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTING, 0, &addr, tcp);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(session);
	close(tcp);
	assert_int_equal(ask_status(&daemon, pair, 0, &back).state, IPC_CONN_CONNECTING);
	assert_int_equal(poll(&(struct pollfd){ .fd = pair, .events = POLLOUT }, 1, 0), 0);
	close(listener); /* the next SYN is refused */
	assert_true(wait_bits(pair, POLLOUT));
	short bits = POLLERR | POLLHUP;
	struct pollfd pfd = { .fd = pair, .events = POLLOUT };
	poll(&pfd, 1, 0);
	assert_int_equal(pfd.revents & bits, bits);

	/* A look is no report. */
	struct ipc_status status = ask_status(&daemon, pair, IPC_STATUS_LOOK, &back);
	assert_int_equal(status.state, IPC_CONN_FAILED);
	assert_int_equal(back, -1);
	status = ask_status(&daemon, pair, 0, &back);
	assert_int_equal(status.state, IPC_CONN_FAILED);
	assert_int_equal(status.error, ECONNREFUSED);
	status = ask_status(&daemon, pair, IPC_STATUS_MAY_TAKE_BACK, &back);
	assert_int_equal(status.state, IPC_CONN_FAILED);
	assert_int_equal(status.error, 0);
	assert_true(back >= 0);

	/* The program can use the socket again. */
	listener = listen_tcp(&addr);
	fcntl(back, F_SETFL, 0);
	/* The kernel reports the failure once more although SO_ERROR was read, as it always
	 * does. */
	assert_int_equal(connect(back, (struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, ECONNABORTED);
	assert_int_equal(connect(back, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(listener);
	close(back);
	close(pair);
	daemon_stop(&daemon);
}

static void a_program_that_gives_up_ends_the_connect(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct sockaddr_in addr;
	int pair, listener = -1;
	daemon_start(&daemon);
	int tcp = connect_slowly(&addr, &listener);
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTING, 0, &addr, tcp);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(session);
	close(tcp);
	wait_for_line(&daemon, "pending state=1");
	close(pair);
	wait_for_line(&daemon, "tcp state=5 ended=1");
	close(listener);
	assert_int_equal(script->starts, 0);
	daemon_stop(&daemon);
}

/* The connection is made again as plain TCP. A program that may connect to some peers only must not
 * reach others through the daemon. */
static void the_connection_is_made_again_to_the_same_peer(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct sockaddr_in addr, other;
	int pair, far = -1, listener = -1, elsewhere = listen_tcp(&other);
	daemon_start(&daemon);
	int tcp = connect_slowly(&addr, &listener), session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTING, 0, &other, tcp);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(session);
	close(tcp);
	limit_waiting(listener);
	while (script->starts == 0) { /* until this connection leaves the listener's queue */
		far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(far >= 0);
		if (poll(&(struct pollfd){ .fd = far, .events = POLLRDHUP }, 1, 300) > 0)
			close(far);
		else
			WAIT_COUNT(script->starts, 1);
	}
	assert_int_equal(send(far, "220 welcome\r\n", 13, 0), 13);
	expect_reset(far);
	close(far);
	far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(far >= 0);
	close(far);
	close(listener);
	close(elsewhere);
	close(pair);
	daemon_stop(&daemon);
}

/* As on a TCP socket: a send() after the end does not take away the bytes that were there to be
 * read. */
static void a_reset_behind_the_end_leaves_the_end(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(tcp.far, "answer", 6, 0), 6);
	close(tcp.far);
	assert_true(wait_bits(pair, POLLRDHUP));
	assert_int_equal(send(pair, "one more", 8, MSG_NOSIGNAL), 8);
	assert_true(wait_bits(pair, 0)); /* POLLHUP */
	expect_bytes(pair, "answer");
	expect_end(pair);
	assert_int_equal(send(pair, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	close(pair);
	daemon_stop(&daemon);
}

/* SO_RCVLOWAT concerns the program's own pair end. Its value there may be lower by now, and a
 * recv() that does not wait takes less in any case. */
static void the_relay_passes_less_than_the_low_water_mark(void **state)
{
	(void)state;
	const int low = 1000;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	for (int kind = IPC_HANDOVER_CONNECTING; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		struct tcp tcp = connect_tcp();
		assert_int_equal(setsockopt(tcp.near, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)),
				 0);
		int pair = hand_over(&daemon, &tcp, (enum ipc_handover_kind)kind);
		assert_int_equal(send(tcp.far, "little", 6, 0), 6);
		expect_bytes(pair, "little");
		assert_int_equal(send(tcp.far, "more", 4, 0), 4);
		expect_bytes(pair, "more");
		close(pair);
		close(tcp.far);
	}
	daemon_stop(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_relay_passes_bulk_and_half_closes),
		cmocka_unit_test(data_that_looks_like_clc_is_only_data),
		cmocka_unit_test(the_relay_carries_both_directions_at_once),
		cmocka_unit_test(the_relay_waits_for_a_slow_reader),
		cmocka_unit_test(resets_pass_the_relay),
		cmocka_unit_test(a_reset_waits_for_the_reader_of_what_came_before),
		cmocka_unit_test(a_reset_does_not_wait_for_a_writer),
		cmocka_unit_test(close_sends_everything_and_then_fin),
		cmocka_unit_test(bytes_for_a_program_that_has_closed_meet_a_reset),
		cmocka_unit_test(a_peer_that_never_reads_is_not_waited_for_for_ever),
		cmocka_unit_test(a_peer_that_reads_slowly_gets_everything),
		cmocka_unit_test(shutdown_of_reading_drops_what_arrives),
		cmocka_unit_test(nothing_passed_so_the_socket_goes_back),
		cmocka_unit_test(once_bytes_have_passed_the_relay_stays),
		cmocka_unit_test(a_refused_connect_is_told_once_and_the_socket_goes_back),
		cmocka_unit_test(a_program_that_gives_up_ends_the_connect),
		cmocka_unit_test(the_connection_is_made_again_to_the_same_peer),
		cmocka_unit_test(a_reset_behind_the_end_leaves_the_end),
		cmocka_unit_test(the_relay_passes_less_than_the_low_water_mark),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
