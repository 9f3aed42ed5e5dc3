/* SPDX-License-Identifier: MIT */
/* Connections that programs hand over: outcome, data, half close, reset, death of program or
 * daemon. */
#define RING 409600 /* send buffers of the scripted engine: more than one turn of the pump */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include <arpa/inet.h>
#include <linux/bpf.h>

#define LONG_ANSWER (300 * 1024)

/* ---- over SMC-R ---- */

static void a_blocking_connect_gets_its_pair_when_established(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int pair;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	WAIT_COUNT(script->starts, 1);
	assert_int_equal(script->last_role, SMCR_ROLE_CLIENT);
	/* GEN-6: no reply before the rendezvous is over. */
	assert_int_equal(poll(&(struct pollfd){ .fd = session, .events = POLLIN }, 1, 20), 0);
	daemon_command(&daemon, 'e');
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(tcp.near);
	close(session);
	make_blocking(pair);

	struct sockaddr_un addr;
	struct ipc_pair_name name;
	socklen_t len = sizeof(addr);
	assert_int_equal(getsockname(pair, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(ipc_pair_name_decode(&addr, len, &name), 0);
	assert_int_equal(name.peer.in.sin_port, tcp.peer.sin_port);

	assert_int_equal(send(pair, "hello", 5, 0), 5);
	expect_bytes(pair, "hello"); /* the engine sends it back */
	wait_for_line(&daemon, "smcr state=2");
	close(pair);
	WAIT_COUNT(script->closes, 1);
	assert_int_equal(script->closes_unread, 0);
	expect_end(tcp.far);
	wait_for_line(&daemon, "smcr state=5 ended=1 reason=0/0");
	wait_for_line(&daemon, "tx=5 rx=5");
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("GEN-6");
}

/* Names keep the family of the program's socket. The engine gets IPv4 addresses where the peers use
 * IPv4. */
static void ipv6_sockets_keep_their_family(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	for (int mapped = 0; mapped < 2; mapped++) {
		struct sockaddr_in6 addr = { .sin6_family = AF_INET6 };
		struct tcp tcp;
		socklen_t len = sizeof(addr);
		int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;
		setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0)
			skip(); /* this machine has no IPv6 */
		assert_int_equal(listen(listener, 1), 0);
		assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
		inet_pton(AF_INET6, mapped ? "::ffff:127.0.0.1" : "::1", &addr.sin6_addr);
		tcp.near = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(tcp.near, (struct sockaddr *)&addr, sizeof(addr)), 0);
		tcp.far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);

		struct sockaddr_un un;
		struct ipc_pair_name name;
		len = sizeof(un);
		assert_int_equal(getsockname(pair, (struct sockaddr *)&un, &len), 0);
		assert_int_equal(ipc_pair_name_decode(&un, len, &name), 0);
		assert_memory_equal(&name.peer.in6, &addr, sizeof(addr));
		assert_int_equal(script->last_family, mapped ? AF_INET : AF_INET6);
		close(pair);
		close(tcp.far);
		close(listener);
	}
	daemon_stop(&daemon);
}

static void bulk_passes_both_ways_with_half_close(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const size_t total = 24u << 20;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	for (int kind = IPC_HANDOVER_CONNECTED; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		TRIES("kind %d", kind);
		struct tcp tcp = connect_tcp();
		int pair = hand_over(&daemon, &tcp, (enum ipc_handover_kind)kind);
		pid_t sender = start_sender(pair, -1, total);
		expect_pattern(pair, total);
		expect_child_ok(sender);
		WAIT_COUNT(script->shutdowns, kind);
		close(pair);
		WAIT_COUNT(script->closes, kind);
		expect_end(tcp.far);
		close(tcp.far);
	}
	assert_int_equal(script->closes_unread, 0);
	daemon_stop(&daemon);
}

static void a_program_that_does_not_read_is_waited_for(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	static uint8_t block[65536];
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	struct pollfd pfd = { .fd = pair, .events = POLLOUT };
	size_t sent = 0;
	while (poll(&pfd, 1, 200) == 1) { /* until all buffers on the way there and back are full */
		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = pattern(sent + i);
		ssize_t n = send(pair, block, sizeof(block), MSG_DONTWAIT);
		assert_true(n > 0);
		sent += (size_t)n;
	}
	assert_true(sent > 1u << 20);
	assert_true(sent < 32u << 20);
	shutdown(pair, SHUT_WR);
	expect_pattern(pair, sent);
	close(pair);
	WAIT_COUNT(script->closes, 1);
	assert_int_equal(script->closes_unread, 0);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void shutdown_of_reading_lets_the_rest_flow(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	static uint8_t block[500000];
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	shutdown(pair, SHUT_RD);
	/* The engine sends back more than it can hold. The daemon must take these bytes and drop
	 * them. */
	assert_int_equal(send(pair, block, sizeof(block), 0), sizeof(block));
	WAIT_COUNT(script->taken, (long)sizeof(block));
	assert_int_equal(script->closes, 0);
	shutdown(pair, SHUT_WR);
	WAIT_COUNT(script->closes, 1); /* both halves are closed: a close */
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("CLOSE-5");
}

static void data_written_before_the_outcome_flows_after_it(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(script->last_role, SMCR_ROLE_SERVER);
	assert_int_equal(send(pair, "early", 5, 0), 5);
	int tcp_back;
	assert_int_equal(ask_status(&daemon, pair, 0, &tcp_back).state, IPC_CONN_CONNECTING);
	assert_int_equal(script->taken, 0);
	daemon_command(&daemon, 'e');
	expect_bytes(pair, "early");
	assert_int_equal(ask_status(&daemon, pair, 0, &tcp_back).state, IPC_CONN_SMCR);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("GEN-6");
}

static void a_program_that_closes_early_still_sends_all(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	static uint8_t data[90000];
	assert_int_equal(send(pair, data, sizeof(data), 0), sizeof(data));
	close(pair);
	poll(NULL, 0, 20); /* time for a wrong daemon to close already */
	assert_int_equal(script->closes, 0);
	daemon_command(&daemon, 'e');
	WAIT_COUNT(script->closes, 1);
	/* CLOSE-7: all bytes first, then the close */
	assert_int_equal(script->taken, (long)sizeof(data));
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("CLOSE-7");
}

static void close_with_unread_data_aborts(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	for (int killed = 0; killed < 2; killed++) {
		struct tcp tcp = connect_tcp();
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			send(pair, "question", 8, 0);
			wait_bits(pair, POLLIN);
			if (!killed)
				_exit(0);
			raise(SIGKILL);
		}
		close(pair);
		waitpid(child, NULL, 0);
		WAIT_COUNT(script->closes_unread, 1 + killed);
		expect_reset(tcp.far);
		close(tcp.far);
	}
	daemon_stop(&daemon);
	PROVES("GEN-10");
}

/* @return the pair end of a program that has not read what came from the peer */
static int with_bytes_unread(struct daemon_side *daemon, struct tcp *ret_tcp)
{
	daemon_start(daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	*ret_tcp = connect_tcp();
	int pair = hand_over(daemon, ret_tcp, IPC_HANDOVER_CONNECTED);
	assert_int_equal(send(pair, "request", 7, 0), 7);
	assert_true(wait_bits(pair, POLLIN));
	return pair;
}

/* The daemon sees answer and end at the same time. */
static void answer_and_close(const struct daemon_side *daemon, int pair, const void *answer,
			     size_t len)
{
	kill(daemon->pid, SIGSTOP);
	assert_int_equal(waitpid(daemon->pid, NULL, WUNTRACED), daemon->pid);
	assert_int_equal(send(pair, answer, len, 0), len);
	close(pair);
	kill(daemon->pid, SIGCONT);
}

/* The program answers before it has read the whole request, and closes. Plain TCP would have sent
 * the answer at the write. */
static void bytes_written_before_a_close_with_unread_data_are_sent(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	int pair = with_bytes_unread(&daemon, &tcp);
	answer_and_close(&daemon, pair, "answer", 6);
	WAIT_COUNT(script->closes_unread, 1);
	assert_int_equal(script->taken, 13);
	expect_reset(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* The same with more bytes than one turn moves, which all fit into the send buffer. */
static void a_long_answer_before_a_close_with_unread_data_is_sent(void **state)
{
	(void)state;
	static char answer[LONG_ANSWER];
	struct daemon_side daemon;
	struct tcp tcp;
	int pair = with_bytes_unread(&daemon, &tcp);
	script->silent = 1;
	answer_and_close(&daemon, pair, answer, sizeof(answer));
	WAIT_COUNT(script->closes_unread, 1);
	assert_int_equal(script->taken, 7 + sizeof(answer));
	expect_reset(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* The program shuts writing down, asks, and closes with bytes unread: the engine hears of the end
 * of the stream before the close. */
static void the_end_of_the_stream_comes_before_a_close_with_unread_data(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	int none, pair = with_bytes_unread(&daemon, &tcp);
	script->silent = 1; /* the peer does not end its side */
	assert_int_equal(send(pair, "answer", 6, 0), 6);
	shutdown(pair, SHUT_WR);
	ask_status(&daemon, pair, 0, &none);
	close(pair);
	WAIT_COUNT(script->closes_unread, 1);
	assert_int_equal(script->shutdowns, 1);
	expect_reset(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* As long as the peer takes something now and then its time begins anew. */
static void a_peer_that_takes_nothing_is_not_waited_for_for_ever(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	const struct side_limits limits = { .conns = { .close_wait_ms = 2500 } };
	static char block[100000];
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	script->silent = 1;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct pollfd pfd = { .fd = pair, .events = POLLOUT };
	while (poll(&pfd, 1, 200) == 1) /* until all buffers are full */
		assert_true(send(pair, block, sizeof(block), MSG_DONTWAIT) > 0);
	long taken = script->taken;
	close(pair);
	for (int i = 0; i < 10; i++) {
		poll(NULL, 0, 400);
		daemon_command(&daemon, 't');
	}
	WAIT_COUNT(script->taken >= taken + 10 * (RING / 10), true);
	assert_int_equal(script->aborts, 0);
	WAIT_COUNT(script->aborts, 1);
	expect_reset(tcp.far);
	wait_for_line(&daemon, "smcr state=5 ended=1");
	assert_int_equal(script->closes, 0);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void a_killed_program_with_nothing_unread_closes(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		send(pair, "question", 8, 0);
		expect_bytes(pair, "question");
		raise(SIGKILL);
	}
	close(pair);
	waitpid(child, NULL, 0);
	WAIT_COUNT(script->closes, 1);
	assert_int_equal(script->closes_unread, 0);
	expect_end(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("GEN-10");
}

static uint8_t tcp_state_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_state;
}

/* A connection that the program closes after its peer. @return the peer's end of TCP */
static int closed_last(const struct daemon_side *daemon)
{
	int closes = script->closes;
	struct tcp tcp = connect_tcp();
	int pair = hand_over(daemon, &tcp, IPC_HANDOVER_CONNECTED);
	close(pair);
	WAIT_COUNT(script->closes, closes + 1);
	return tcp.far;
}

/* TCP's TIME_WAIT is at the side that ends first, as without SMC-R. */
static void tcp_ends_in_the_order_of_the_programs(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	script->peer_first = true;
	int patient = closed_last(&daemon);
	int silent = closed_last(&daemon);
	int cut = closed_last(&daemon); /* the daemon has served the others meanwhile */
	assert_int_equal(tcp_state_of(patient), BPF_TCP_ESTABLISHED);
	shutdown(patient, SHUT_WR);
	expect_end(patient);
	expect_end(silent); /* does not wait for ever */
	assert_int_equal(tcp_state_of(silent), BPF_TCP_CLOSE_WAIT);
	close(patient);
	close(silent);
	close(cut);
	cut = closed_last(&daemon);
	daemon_stop(&daemon); /* no reset */
	expect_end(cut);
	close(cut);
}

/* Each that waits takes a descriptor, so the others do not: their peers may keep TCP open. */
static void not_all_wait_for_their_peers_end(void **state)
{
	(void)state;
	const struct linger reset = { .l_onoff = 1 };
	enum { MANY = 80 };
	struct daemon_side daemon;
	int fars[MANY], waiting = 0;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	script->peer_first = true;
	for (int i = 0; i < MANY; i++)
		fars[i] = closed_last(&daemon);
	close(closed_last(&daemon)); /* the daemon has served the others meanwhile */
	for (int i = 0; i < MANY; i++)
		waiting += tcp_state_of(fars[i]) == BPF_TCP_ESTABLISHED;
	assert_true(waiting > 0 && waiting < MANY);
	for (int i = 0; i < MANY; i++) {
		setsockopt(fars[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fars[i]); /* while it waits */
	}
	int next = closed_last(&daemon);
	close(closed_last(&daemon));
	assert_int_equal(tcp_state_of(next), BPF_TCP_ESTABLISHED); /* there is room again */
	close(next);
	daemon_stop(&daemon);
}

static void linger_zero_aborts(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	const struct linger linger = { .l_onoff = 1 };
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	setsockopt(tcp.near, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	close(pair);
	WAIT_COUNT(script->aborts, 1);
	expect_reset(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void a_copy_of_the_end_keeps_the_connection_open(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	pid_t child = fork(); /* GEN-9 */
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		char buf[16];
		ssize_t n = recv(pair, buf, sizeof(buf), 0);
		_exit(n == 4 && memcmp(buf, "ping", 4) == 0 ? 0 : 1);
	}
	assert_int_equal(send(pair, "ping", 4, 0), 4);
	expect_child_ok(child);
	assert_int_equal(script->closes, 0);
	assert_int_equal(send(pair, "pong", 4, 0), 4);
	expect_bytes(pair, "pong");
	close(pair);
	WAIT_COUNT(script->closes, 1);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("GEN-9");
}

static void a_reset_comes_after_what_was_delivered(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	assert_int_equal(send(pair, "data", 4, 0), 4);
	assert_true(wait_bits(pair, POLLIN));
	daemon_command(&daemon, 'r');
	expect_reset(tcp.far);
	expect_bytes(pair, "data");
	expect_reset(pair);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void the_peers_reset_and_fin_reach_the_engine(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct linger linger = { .l_onoff = 1 };
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	struct tcp tcp = connect_tcp();
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	close(tcp.far);
	WAIT_COUNT(script->tcp_fins, 1);
	close(pair);
	WAIT_COUNT(script->closes, 1);

	tcp = connect_tcp();
	pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(tcp.far);
	WAIT_COUNT(script->tcp_resets, 1);
	expect_reset(pair);
	close(pair);
	daemon_stop(&daemon);
}

static void the_daemons_death_is_a_reset_on_both_sides(void **state)
{
	(void)state;
	for (int relay = 0; relay < 2; relay++) {
		TRIES("relay %d", relay);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		daemon_start(&daemon);
		script->outcome = relay ? OUTCOME_FALLBACK : OUTCOME_ESTABLISHED;
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		assert_int_equal(send(pair, "x", 1, 0), 1);
		expect_bytes(relay ? tcp.far : pair, "x");
		daemon_kill(&daemon);
		expect_reset(pair);
		expect_reset(tcp.far);
		close(pair);
		close(tcp.far);
	}
	PROVES("GEN-10");
}

static void the_daemons_death_during_the_rendezvous(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTING);
	WAIT_COUNT(script->starts, 1);
	assert_int_equal(poll(&(struct pollfd){ .fd = pair, .events = POLLOUT }, 1, 0), 0);
	daemon_kill(&daemon);
	assert_true(wait_bits(pair, POLLOUT));
	expect_reset(pair);
	expect_reset(tcp.far);
	close(pair);
	close(tcp.far);
	PROVES("GEN-10");
}

/* ---- fallback of a blocking connect ---- */

static void a_fallback_gives_a_clean_tcp_socket(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	struct linger want = { .l_onoff = 1, .l_linger = 7 }, got;
	socklen_t len = sizeof(got);
	int pair, flags = fcntl(tcp.near, F_GETFL);
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	script->decline = 1;
	setsockopt(tcp.near, SOL_SOCKET, SO_LINGER, &want, sizeof(want));
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	struct ipc_result result = receive_result(session, &pair);
	assert_int_equal(result.outcome, IPC_OUTCOME_TCP);
	assert_int_equal(result.reason, SMCR_REASON_PEER_DECLINED);

	assert_int_equal(fcntl(tcp.near, F_GETFL), flags);
	assert_int_equal(getsockopt(tcp.near, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_memory_equal(&got, &want, sizeof(got));
	char decline[28];
	assert_int_equal(recv(tcp.far, decline, sizeof(decline), MSG_WAITALL), sizeof(decline));
	assert_int_equal(send(tcp.near, "plain", 5, 0), 5);
	expect_bytes(tcp.far, "plain");
	assert_int_equal(send(tcp.far, "text", 4, 0), 4);
	expect_bytes(tcp.near, "text");
	close(tcp.near);
	expect_end(tcp.far); /* the daemon has closed its descriptor of the socket */
	close(tcp.far);

	/* CLC-15: the session goes on, and the daemon remembers the connection. */
	wait_for_line(&daemon, "tcp state=5 ended=1 reason=5000000/3070000");
	close(session);
	daemon_stop(&daemon);
	PROVES("GEN-4 ERR-2");
}

static void where_no_option_was_negotiated_clc_is_not_tried(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int pair;
	daemon_start(&daemon);
	script->capable = 0;
	for (int kind = IPC_HANDOVER_CONNECTED; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		struct tcp tcp = connect_tcp();
		int session = session_open(&daemon);
		ask_handover(session, (enum ipc_handover_kind)kind, 0,
			     kind == IPC_HANDOVER_CONNECTING ? &tcp.peer : NULL, tcp.near);
		struct ipc_result result = receive_result(session, &pair);
		assert_int_equal(result.outcome, IPC_OUTCOME_TCP);
		assert_int_equal(result.reason, SMCR_REASON_NO_BPF);
		assert_int_equal(send(tcp.near, "plain", 5, 0), 5);
		expect_bytes(tcp.far, "plain");
		close(session);
		close(tcp.near);
		expect_end(tcp.far);
		close(tcp.far);
	}
	assert_int_equal(script->starts, 0);
	daemon_stop(&daemon);
	PROVES("TCPO-5");
}

static void required_smcr_makes_a_fallback_an_error(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int pair;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, IPC_HANDOVER_REQUIRE, NULL, tcp.near);
	struct ipc_result result = receive_result(session, &pair);
	assert_int_equal(result.outcome, IPC_OUTCOME_FAILED);
	assert_int_equal(result.error, EPROTONOSUPPORT);
	close(tcp.near);
	close(tcp.far);

	tcp = connect_tcp();
	ask_handover(session, IPC_HANDOVER_ACCEPTED, IPC_HANDOVER_REQUIRE, NULL, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(tcp.near);
	make_blocking(pair);
	expect_reset(pair);
	expect_reset(tcp.far);
	close(pair);
	close(tcp.far);
	close(session);
	daemon_stop(&daemon);
}

static void a_broken_rendezvous_resets_tcp(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int pair;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	WAIT_COUNT(script->starts, 1);
	daemon_command(&daemon, 'x');
	struct ipc_result result = receive_result(session, &pair);
	assert_int_equal(result.outcome, IPC_OUTCOME_FAILED);
	assert_int_equal(result.error, ECONNREFUSED); /* the listener is closed */
	expect_reset(tcp.far); /* though the program's descriptor is still open */
	close(tcp.near);
	close(tcp.far);

	tcp = connect_tcp();
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	WAIT_COUNT(script->starts, 2);
	assert_int_equal(send(tcp.far, "no CLC message", 14, 0), 14); /* ERR-11 */
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_FAILED);
	expect_reset(tcp.far);
	close(session);
	close(tcp.near);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("ERR-11");
}

static void a_program_killed_while_it_waits(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	for (int fallback = 0; fallback < 2; fallback++) {
		struct tcp tcp = connect_tcp();
		int session = session_open(&daemon);
		ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
		WAIT_COUNT(script->starts, 1 + fallback);
		close(session);
		close(tcp.near);
		daemon_command(&daemon, fallback ? 'f' : 'e');
		expect_end(tcp.far);
		close(tcp.far);
	}
	WAIT_COUNT(script->closes, 1);
	daemon_stop(&daemon);
	PROVES("GEN-10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_blocking_connect_gets_its_pair_when_established),
		cmocka_unit_test(ipv6_sockets_keep_their_family),
		cmocka_unit_test(bulk_passes_both_ways_with_half_close),
		cmocka_unit_test(a_program_that_does_not_read_is_waited_for),
		cmocka_unit_test(shutdown_of_reading_lets_the_rest_flow),
		cmocka_unit_test(data_written_before_the_outcome_flows_after_it),
		cmocka_unit_test(a_program_that_closes_early_still_sends_all),
		cmocka_unit_test(close_with_unread_data_aborts),
		cmocka_unit_test(bytes_written_before_a_close_with_unread_data_are_sent),
		cmocka_unit_test(a_long_answer_before_a_close_with_unread_data_is_sent),
		cmocka_unit_test(a_peer_that_takes_nothing_is_not_waited_for_for_ever),
		cmocka_unit_test(the_end_of_the_stream_comes_before_a_close_with_unread_data),
		cmocka_unit_test(a_killed_program_with_nothing_unread_closes),
		cmocka_unit_test(tcp_ends_in_the_order_of_the_programs),
		cmocka_unit_test(not_all_wait_for_their_peers_end),
		cmocka_unit_test(linger_zero_aborts),
		cmocka_unit_test(a_copy_of_the_end_keeps_the_connection_open),
		cmocka_unit_test(a_reset_comes_after_what_was_delivered),
		cmocka_unit_test(the_peers_reset_and_fin_reach_the_engine),
		cmocka_unit_test(the_daemons_death_is_a_reset_on_both_sides),
		cmocka_unit_test(the_daemons_death_during_the_rendezvous),
		cmocka_unit_test(a_fallback_gives_a_clean_tcp_socket),
		cmocka_unit_test(where_no_option_was_negotiated_clc_is_not_tried),
		cmocka_unit_test(required_smcr_makes_a_fallback_an_error),
		cmocka_unit_test(a_broken_rendezvous_resets_tcp),
		cmocka_unit_test(a_program_killed_while_it_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
