/* SPDX-License-Identifier: MIT */
/* Urgent data (MSG_OOB) between programs: through the engine, and through a relay to and from TCP.
 */
#include "tests/unit/clients_side.h"

#include <sys/ioctl.h>

static volatile sig_atomic_t signals;

static void on_urgent(int signal)
{
	(void)signal;
	signals++;
}

static int relayed(const struct daemon_side *daemon, struct tcp *tcp)
{
	script->outcome = OUTCOME_FALLBACK;
	*tcp = connect_tcp();
	return hand_over(daemon, tcp, IPC_HANDOVER_ACCEPTED);
}

/* "abc", "d" urgent, "ef" */
static void send_urgent(int fd)
{
	assert_int_equal(send(fd, "abc", 3, 0), 3);
	assert_int_equal(send(fd, "d", 1, MSG_OOB), 1);
	assert_int_equal(send(fd, "ef", 2, 0), 2);
}

static void expect_queued(int fd, int least)
{
	int queued = 0;
	for (int i = 0; i < WAIT_MS && queued < least; i++) {
		assert_int_equal(ioctl(fd, FIONREAD, &queued), 0);
		usleep(queued < least ? 1000 : 0);
	}
	assert_true(queued >= least);
}

static void expect_piece(int fd, const char *text)
{
	char buf[16] = { 0 };
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), strlen(text));
	assert_string_equal(buf, text);
}

/* Reads the bytes of send_urgent() as a program does that knows of urgent data. */
static void expect_urgent(int fd, bool in_line)
{
	char byte = 0;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &(int){ in_line }, 4), 0);
	assert_true(wait_bits(fd, POLLPRI));
	expect_queued(fd, 3);
	assert_int_equal(sockatmark(fd), 0);
	expect_piece(fd, "abc");
	assert_int_equal(sockatmark(fd), 1);
	assert_int_equal(recv(fd, &byte, 1, MSG_OOB), in_line ? -1 : 1);
	if (in_line)
		assert_int_equal(recv(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 'd');
	expect_bytes(fd, "ef");
	assert_int_equal(sockatmark(fd), 0);
}

static void urgent_bytes_stay_urgent(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	signal(SIGURG, on_urgent);
	assert_int_equal(fcntl(pair, F_SETOWN, getpid()), 0);
	for (int i = 1; i <= 4; i++) {
		send_urgent(pair);
		expect_urgent(pair, i % 2);
		WAIT_COUNT(signals, i);
	}
	WAIT_COUNT(script->urgent_taken, 4);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("URG-8");
}

/* New urgent data wait until the peer has consumed the urgent byte before. The bytes that follow
 * them wait too. */
static void a_new_one_waits(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	script->silent = true;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(pair, "a", 1, MSG_OOB), 1);
	WAIT_COUNT(script->urgent_taken, 1);
	assert_int_equal(send(pair, "bc", 2, 0), 2);
	assert_int_equal(send(pair, "d", 1, MSG_OOB), 1);
	assert_int_equal(send(pair, "ef", 2, 0), 2);
	while (script->urgent_refused == 0)
		usleep(1000);
	assert_int_equal(script->urgent_taken, 1);
	assert_int_equal(script->taken, 3); /* "a" and "bc" */

	script->silent = false;
	daemon_command(&daemon, 'g');
	WAIT_COUNT(script->urgent_taken, 2);
	assert_int_equal(setsockopt(pair, SOL_SOCKET, SO_OOBINLINE, &(int){ 1 }, 4), 0);
	expect_queued(pair, 6); /* the second urgent byte has taken the place of the first */
	expect_bytes(pair, "abc");
	assert_int_equal(sockatmark(pair), 1);
	expect_bytes(pair, "def");
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("URG-8");
}

/* The program reads nothing, so all buffers on the way are full. The program is told of urgent data
 * all the same, and finds the urgent byte behind all that was sent before it. */
static void the_program_is_told_before_it_reads(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	static char block[64 * 1024];
	size_t sent = 0, got = 0;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	signals = 0;
	signal(SIGURG, on_urgent);
	assert_int_equal(fcntl(pair, F_SETOWN, getpid()), 0);
	for (; sent < 3u << 20; sent += sizeof(block))
		assert_int_equal(send(pair, block, sizeof(block), 0), sizeof(block));
	assert_true(script->taken < (long)sent);
	assert_int_equal(signals, 0);
	assert_int_equal(send(pair, "!", 1, MSG_OOB), 1);
	assert_int_equal(send(pair, "after", 5, 0), 5);
	assert_true(wait_bits(pair, POLLPRI));
	WAIT_COUNT(signals, 1); /* the kernel sends it just after poll() can see the byte */
	assert_int_equal(script->urgent_announced, 1);

	while (!sockatmark(pair)) {
		ssize_t n = recv(pair, block, sizeof(block), 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_int_equal(got, sent);
	assert_int_equal(recv(pair, block, 1, MSG_OOB), 1);
	assert_int_equal(block[0], '!');
	expect_bytes(pair, "after");
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("URG-2 URG-4");
}

static void the_relay_keeps_bytes_urgent(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp;
	daemon_start(&daemon);
	int pair = relayed(&daemon, &tcp);
	signals = 0;
	signal(SIGURG, on_urgent);
	assert_int_equal(fcntl(pair, F_SETOWN, getpid()), 0);
	for (int i = 1; i <= 4; i++) {
		send_urgent(tcp.far);
		expect_urgent(pair, i % 2);
		WAIT_COUNT(signals, i);
		send_urgent(pair);
		expect_urgent(tcp.far, i % 2);
	}
	/* Urgent bytes with no other data before them. */
	for (int i = 0; i < 3; i++) {
		char byte;
		assert_int_equal(send(tcp.far, "x", 1, MSG_OOB), 1);
		assert_true(wait_bits(pair, POLLPRI));
		assert_int_equal(recv(pair, &byte, 1, MSG_OOB), 1);
		assert_int_equal(send(pair, "y", 1, MSG_OOB), 1);
		assert_true(wait_bits(tcp.far, POLLPRI));
		assert_int_equal(recv(tcp.far, &byte, 1, MSG_OOB), 1);
	}
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urgent_bytes_stay_urgent),
		cmocka_unit_test(a_new_one_waits),
		cmocka_unit_test(the_program_is_told_before_it_reads),
		cmocka_unit_test(the_relay_keeps_bytes_urgent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
