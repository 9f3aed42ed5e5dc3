/* SPDX-License-Identifier: MIT */
/* The relay between a pair and TCP, one turn at a time. What it does in the daemon is in
 * test_clients_relay.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/conns/relay.h"

#define LONG_ANSWER (600 * 1024)

struct fixture {
	struct relay relay;
	struct pair pair;
	int program; /* the program's end of the pair */
	int near, far;
};

static void connect_tcp(int *ret_near, int *ret_far)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	*ret_far = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(*ret_far, (struct sockaddr *)&addr, len), 0);
	*ret_near = accept(listener, NULL, NULL);
	assert_true(*ret_near >= 0);
	close(listener);
}

static int setup(void **state)
{
	static struct fixture fixture;
	const struct ipc_pair_name name = { .local.in.sin_family = AF_INET,
					    .peer.in.sin_family = AF_INET,
					    .id = (uint64_t)getpid() << 32 };
	fixture = (struct fixture){ 0 };
	assert_int_equal(pair_open(&name, -1, &fixture.pair, &fixture.program), 0);
	connect_tcp(&fixture.near, &fixture.far);
	relay_start(&fixture.relay, &fixture.pair, fixture.near);
	assert_int_equal(relay_run(&fixture.relay), RELAY_WAIT);
	*state = &fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	relay_stop(&f->relay);
	pair_reset(&f->pair);
	close(f->near);
	close(f->far);
	return 0;
}

static void await(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	assert_int_equal(poll(&pfd, 1, 10000), 1);
}

/* The program answers and closes, while the peer sends on. The relay finds out as it passes the
 * peer's bytes on, before an event tells of the close. */
static void a_program_that_closes_amid_the_peers_bytes_has_its_answer_sent(void **state)
{
	struct fixture *f = *state;
	char buf[16];
	assert_int_equal(send(f->program, "answer", 6, 0), 6);
	close(f->program);
	assert_int_equal(send(f->far, "more", 4, 0), 4);
	await(f->near, POLLIN);
	relay_note_tcp(&f->relay, EPOLLIN);
	assert_int_equal(relay_run(&f->relay), RELAY_ABORTED);
	await(f->far, POLLIN);
	assert_int_equal(recv(f->far, buf, sizeof(buf), 0), 6);
	assert_memory_equal(buf, "answer", 6);
}

/* The program shuts writing down, of which an event tells, and closes with bytes unread before the
 * relay has its turn: the end of file goes before the reset. */
static void the_end_of_file_comes_before_the_reset(void **state)
{
	struct fixture *f = *state;
	char buf[16];
	assert_int_equal(send(f->far, "unread", 6, 0), 6);
	await(f->near, POLLIN);
	relay_note_tcp(&f->relay, EPOLLIN);
	assert_int_equal(relay_run(&f->relay), RELAY_WAIT);
	assert_int_equal(send(f->program, "answer", 6, 0), 6);
	shutdown(f->program, SHUT_WR);
	pair_note(&f->pair, EPOLLIN | EPOLLRDHUP);
	relay_note_pair(&f->relay, EPOLLIN | EPOLLRDHUP);
	close(f->program);
	assert_int_equal(relay_run(&f->relay), RELAY_ABORTED);
	await(f->far, POLLIN);
	assert_int_equal(recv(f->far, buf, sizeof(buf), 0), 6);
	await(f->far, POLLRDHUP);
	assert_int_equal(recv(f->far, buf, sizeof(buf), 0), 0);
}

/* The program closes with bytes unread, behind more bytes of its own than one turn moves. TCP has
 * room for all of them. */
static void all_that_tcp_takes_goes_before_the_reset(void **state)
{
	struct fixture *f = *state;
	static char answer[LONG_ANSWER], buf[LONG_ANSWER];
	const int room = 4 * LONG_ANSWER;
	size_t got = 0;
	enum relay_result result;
	setsockopt(f->near, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	assert_int_equal(send(f->far, "unread", 6, 0), 6);
	await(f->near, POLLIN);
	relay_note_tcp(&f->relay, EPOLLIN);
	assert_int_equal(relay_run(&f->relay), RELAY_WAIT);
	assert_int_equal(send(f->program, answer, sizeof(answer), 0), sizeof(answer));
	close(f->program);
	pair_note(&f->pair, EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	relay_note_pair(&f->relay, EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	while ((result = relay_run(&f->relay)) == RELAY_MORE)
		;
	assert_int_equal(result, RELAY_ABORTED);
	shutdown(f->near, SHUT_WR); /* in place of the reset, so that the test can count */
	for (ssize_t n = 1; n > 0; got += (size_t)n) {
		await(f->far, POLLIN);
		n = recv(f->far, buf, sizeof(buf), 0);
		assert_true(n >= 0);
	}
	assert_int_equal(got, sizeof(answer));
}

/* The peer's bytes fill the pair of a program that does not read, and more wait in TCP. Then an
 * urgent byte comes: the program hears of it (URG-4), and reads it in its place. */
static void an_urgent_byte_gets_through_a_full_pair(void **state)
{
	struct fixture *f = *state;
	static char block[256 * 1024];
	size_t sent = 0, got = 0;
	struct pollfd urgent = { .fd = f->program, .events = POLLPRI };
	bool is_mark = false;
	while (!f->relay.rx_full) {
		ssize_t n = send(f->far, block, sizeof(block), MSG_DONTWAIT);
		assert_true(n > 0);
		sent += (size_t)n;
		await(f->near, POLLIN);
		relay_note_tcp(&f->relay, EPOLLIN);
		while (relay_run(&f->relay) == RELAY_MORE)
			;
	}
	assert_int_equal(send(f->far, "!", 1, MSG_OOB), 1);
	await(f->near, POLLPRI);
	assert_int_equal(poll(&urgent, 1, 0), 0);
	relay_note_tcp(&f->relay, EPOLLIN | EPOLLPRI);
	while (relay_run(&f->relay) == RELAY_MORE)
		;
	assert_int_equal(poll(&urgent, 1, 0), 1);
	while (!is_mark) {
		await(f->program, POLLIN | POLLPRI);
		ssize_t n = recv(f->program, block, sizeof(block), 0);
		assert_true(n >= 0);
		got += (size_t)n;
		is_mark = sockatmark(f->program) == 1;
		relay_note_pair(&f->relay, EPOLLOUT);
		relay_run(&f->relay);
	}
	assert_int_equal(got, sent);
	assert_int_equal(recv(f->program, block, 1, MSG_OOB), 1);
	assert_int_equal(block[0], '!');
	close(f->program);
}

/* TCP takes what the program wrote in many small parts, and the peer gets every byte in its place.
 */
static void what_tcp_does_not_take_at_once_follows(void **state)
{
	struct fixture *f = *state;
	static uint8_t block[LONG_ANSWER], part[4096];
	const int small = 1;
	size_t sent = 0, got = 0;
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 2654435761u >> 13);
	setsockopt(f->near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	setsockopt(f->far, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	while (got < sizeof(block)) {
		ssize_t n = send(f->program, block + sent, sizeof(block) - sent, MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
		relay_note_pair(&f->relay, EPOLLIN);
		relay_note_tcp(&f->relay, EPOLLOUT);
		while (relay_run(&f->relay) == RELAY_MORE)
			;
		await(f->far, POLLIN);
		n = recv(f->far, part, sizeof(part), MSG_DONTWAIT);
		assert_true(n > 0);
		assert_memory_equal(part, block + got, (size_t)n);
		got += (size_t)n;
	}
	close(f->program);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_that_tcp_takes_goes_before_the_reset, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_tcp_does_not_take_at_once_follows, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_urgent_byte_gets_through_a_full_pair, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_end_of_file_comes_before_the_reset, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_program_that_closes_amid_the_peers_bytes_has_its_answer_sent, setup,
			teardown),
	};
	return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
