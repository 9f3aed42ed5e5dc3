/* SPDX-License-Identifier: MIT */
/* The TCP side of the gateway: messages cut anywhere, what is no message, pauses, and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/smbgate/tcp.h"
#include "tests/lib/tries.h"

#define PATIENCE_MS 20000
#define MOST        64

struct fixture {
	struct event_base *base;
	struct tcp_side *side;
	int peer;
	size_t connected, messages, ended, drained, refused, freed;
	size_t lens[MOST];
	uint8_t *bytes;     /* of the message that comes */
	uint8_t sums[MOST]; /* of each message: xor of its bytes */
	bool no_room, pauses;
	enum tcp_end end;
	int error;
};

/* ---- what the side tells */

static void on_connected(void *ctx)
{
	struct fixture *fix = ctx;
	fix->connected++;
}

static uint8_t *on_room(void *ctx, size_t len)
{
	struct fixture *fix = ctx;
	fix->refused += fix->no_room;
	if (fix->no_room)
		return NULL;
	assert_null(fix->bytes);
	fix->bytes = malloc(len);
	return fix->bytes;
}

static void on_message(void *ctx, size_t len)
{
	struct fixture *fix = ctx;
	assert_true(fix->messages < MOST);
	fix->lens[fix->messages] = len;
	for (size_t i = 0; i < len; i++)
		fix->sums[fix->messages] ^= fix->bytes[i];
	fix->messages++;
	free(fix->bytes);
	fix->bytes = NULL;
	if (fix->pauses)
		tcp_side_pause(fix->side);
}

static void on_drained(void *ctx)
{
	struct fixture *fix = ctx;
	fix->drained++;
}

static void on_ended(void *ctx, enum tcp_end end, int error)
{
	struct fixture *fix = ctx;
	fix->ended++;
	fix->end = end;
	fix->error = error;
}

static const struct tcp_ops ops = { on_connected, on_room, on_message, on_drained, on_ended };

/* ---- the fixture */

static void pair_up(struct fixture *fix)
{
	int fds[2];
	fix->base = event_base_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	fix->peer = fds[1];
	assert_int_equal(tcp_side_adopt(fix->base, fds[0], &ops, fix, &fix->side), 0);
	tcp_side_resume(fix->side);
}

static void down(struct fixture *fix)
{
	tcp_side_free(fix->side, false);
	free(fix->bytes);
	if (fix->peer >= 0)
		close(fix->peer);
	event_base_free(fix->base);
}

static void stop(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* Run the loop until the count is there. */
static bool wait_for(struct fixture *fix, const size_t *count, size_t want)
{
	const struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	bool late = false;
	struct event *timer = evtimer_new(fix->base, stop, &late);
	evtimer_add(timer, &patience);
	while (*count < want && !late)
		event_base_loop(fix->base, EVLOOP_ONCE);
	event_free(timer);
	return *count >= want;
}

/* Let the side do what it can do now. */
static void settle(struct fixture *fix)
{
	for (int i = 0; i < 5; i++)
		event_base_loop(fix->base, EVLOOP_NONBLOCK);
}

static void say(const struct fixture *fix, const void *bytes, size_t len)
{
	assert_int_equal(send(fix->peer, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* ---- reading */

/* Three messages, cut in two at every byte. */
static void messages_cut_anywhere(void **state)
{
	(void)state;
	static const uint8_t text[] = { 0,   0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 1,
					'x', 0, 0, 0, 5,   1,   2,   3, 4, 5 };
	for (size_t cut = 0; cut <= sizeof(text); cut++) {
		TRIES("cut %zu", cut);
		struct fixture fix = { 0 };
		pair_up(&fix);
		say(&fix, text, cut);
		settle(&fix);
		say(&fix, text + cut, sizeof(text) - cut);
		assert_true(wait_for(&fix, &fix.messages, 3));
		assert_int_equal(fix.lens[0], 3);
		assert_int_equal(fix.sums[0], 'a' ^ 'b' ^ 'c');
		assert_int_equal(fix.lens[1], 1);
		assert_int_equal(fix.sums[1], 'x');
		assert_int_equal(fix.lens[2], 5);
		assert_int_equal(fix.sums[2], 1 ^ 2 ^ 3 ^ 4 ^ 5);
		assert_int_equal(fix.ended, 0);
		down(&fix);
	}
}

static void a_message_byte_by_byte(void **state)
{
	(void)state;
	static const uint8_t text[] = { 0, 0, 0, 4, 9, 8, 7, 6 };
	struct fixture fix = { 0 };
	pair_up(&fix);
	for (size_t i = 0; i < sizeof(text); i++) {
		assert_int_equal(fix.messages, 0);
		say(&fix, text + i, 1);
		settle(&fix);
	}
	assert_true(wait_for(&fix, &fix.messages, 1));
	down(&fix);
}

static void what_is_no_message(void **state)
{
	(void)state;
	static const uint8_t heads[][4] = {
		{ 0x85, 0, 0, 0 },                       /* NetBIOS: keepalive */
		{ 0x81, 0, 0, 68 },                      /* NetBIOS: session request */
		{ 'G', 'E', 'T', ' ' },  { 0, 0, 0, 0 }, /* nothing in it */
		{ 0, 0xFF, 0xFF, 0xFF }, /* three bytes are 16 MiB less one, which is allowed */
	};
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		TRIES("head %zu", i);
		struct fixture fix = { 0 };
		pair_up(&fix);
		say(&fix, heads[i], 4);
		if (i == 4) {
			settle(&fix);
			assert_int_equal(fix.ended, 0);
			assert_non_null(fix.bytes);
		} else {
			assert_true(wait_for(&fix, &fix.ended, 1));
			assert_int_equal(fix.end, TCP_END_BAD_DATA);
			assert_null(fix.bytes);
		}
		down(&fix);
	}
}

/* What is in the stage is not forgotten, and not told while it pauses. */
static void pauses_between_messages(void **state)
{
	(void)state;
	static const uint8_t text[] = { 0, 0, 0, 1, 'a', 0, 0, 0, 1, 'b', 0, 0, 0, 1, 'c' };
	struct fixture fix = { .pauses = true };
	pair_up(&fix);
	say(&fix, text, sizeof(text));
	for (size_t i = 1; i <= 3; i++) {
		assert_true(wait_for(&fix, &fix.messages, i));
		settle(&fix);
		assert_int_equal(fix.messages, i);
		tcp_side_resume(fix.side);
		tcp_side_resume(fix.side); /* twice is once */
	}
	down(&fix);
}

static void room_is_refused_then_given(void **state)
{
	(void)state;
	static const uint8_t text[] = { 0, 0, 0, 2, 'a', 'b' };
	struct fixture fix = { .no_room = true };
	pair_up(&fix);
	say(&fix, text, sizeof(text));
	assert_true(wait_for(&fix, &fix.refused, 1));
	settle(&fix);
	assert_int_equal(fix.refused, 1); /* it waits */
	tcp_side_resume(fix.side);
	assert_true(wait_for(&fix, &fix.refused, 2));
	fix.no_room = false;
	tcp_side_resume(fix.side);
	assert_true(wait_for(&fix, &fix.messages, 1));
	assert_int_equal(fix.lens[0], 2);
	assert_int_equal(fix.sums[0], 'a' ^ 'b');
	down(&fix);
}

/* Long ones do not pass through the stage. */
static void long_messages(void **state)
{
	(void)state;
	enum { LEN = 3 << 20 };
	struct fixture fix = { 0 };
	uint8_t *text = malloc(4 + LEN);
	assert_non_null(text);
	text[0] = 0;
	text[1] = LEN >> 16 & 0xFF;
	text[2] = LEN >> 8 & 0xFF;
	text[3] = LEN & 0xFF;
	uint8_t sum = 0;
	for (size_t i = 0; i < LEN; i++)
		sum ^= text[4 + i] = (uint8_t)(i * 7 + i / 999);
	pair_up(&fix);
	for (size_t round = 1; round <= 2; round++) {
		for (size_t at = 0; at < 4 + LEN;) {
			ssize_t n = send(fix.peer, text + at, 4 + LEN - at,
					 MSG_NOSIGNAL | MSG_DONTWAIT);
			if (n > 0)
				at += (size_t)n;
			event_base_loop(fix.base, EVLOOP_NONBLOCK);
		}
		assert_true(wait_for(&fix, &fix.messages, round));
		assert_int_equal(fix.lens[round - 1], LEN);
		assert_int_equal(fix.sums[round - 1], sum);
	}
	free(text);
	down(&fix);
}

/* ---- writing */

static void on_freed(void *arg)
{
	struct fixture *fix = arg;
	fix->freed++;
}

static void messages_are_written(void **state)
{
	(void)state;
	uint8_t got[64];
	struct fixture fix = { 0 };
	pair_up(&fix);
	assert_int_equal(tcp_side_begin(fix.side, 5), 0);
	assert_int_equal(tcp_side_add(fix.side, "ab", 2), 0);
	assert_int_equal(tcp_side_add_memory(fix.side, "cde", 3, on_freed, &fix), 0);
	assert_int_equal(tcp_side_queued(fix.side), 9);
	assert_int_equal(tcp_side_begin(fix.side, TCP_MESSAGE_MOST + 1), -EMSGSIZE);
	assert_true(wait_for(&fix, &fix.drained, 1));
	assert_int_equal(fix.freed, 1);
	assert_int_equal(tcp_side_queued(fix.side), 0);
	assert_int_equal(recv(fix.peer, got, sizeof(got), 0), 9);
	assert_memory_equal(got, "\0\0\0\5abcde", 9);
	down(&fix);
}

/* More than the socket takes: it leaves as the peer reads, then the side closes. */
static void a_finish_lets_all_leave(void **state)
{
	(void)state;
	enum { LEN = 4 << 20 };
	struct fixture fix = { 0 };
	static uint8_t text[LEN], got[65536];
	size_t sum = 0;
	pair_up(&fix);
	assert_int_equal(tcp_side_begin(fix.side, LEN), 0);
	assert_int_equal(tcp_side_add_memory(fix.side, text, LEN, on_freed, &fix), 0);
	tcp_side_finish(fix.side);
	settle(&fix);
	assert_int_equal(fix.ended, 0);
	assert_true(tcp_side_queued(fix.side) > 0);
	while (sum < 4 + LEN) {
		ssize_t n = recv(fix.peer, got, sizeof(got), MSG_DONTWAIT);
		if (n > 0)
			sum += (size_t)n;
		event_base_loop(fix.base, EVLOOP_NONBLOCK);
	}
	assert_true(wait_for(&fix, &fix.ended, 1));
	assert_int_equal(fix.end, TCP_END_CLOSED);
	assert_int_equal(fix.freed, 1);
	down(&fix);
	assert_int_equal(fix.ended, 1);
}

/* Memory of what was never sent is given back. */
static void a_free_gives_memory_back(void **state)
{
	(void)state;
	enum { LEN = 4 << 20 };
	static uint8_t text[LEN];
	struct fixture fix = { 0 };
	pair_up(&fix);
	assert_int_equal(tcp_side_add_memory(fix.side, text, LEN, on_freed, &fix), 0);
	settle(&fix);
	assert_int_equal(fix.freed, 0);
	down(&fix);
	assert_int_equal(fix.freed, 1);
}

/* What was queued just before leaves in front of the end of file, unless a reset is wanted. */
static void a_free_lets_the_last_message_leave(void **state)
{
	(void)state;
	uint8_t got[16];
	for (int reset = 0; reset < 2; reset++) {
		TRIES("reset %d", reset);
		struct fixture fix = { 0 };
		pair_up(&fix);
		assert_int_equal(tcp_side_begin(fix.side, 1), 0);
		assert_int_equal(tcp_side_add(fix.side, "x", 1), 0);
		tcp_side_free(fix.side, reset);
		fix.side = NULL;
		assert_int_equal(recv(fix.peer, got, sizeof(got), 0), reset ? 0 : 5);
		if (!reset)
			assert_memory_equal(got, "\0\0\0\1x", 5);
		assert_true(recv(fix.peer, got, sizeof(got), 0) <= 0);
		down(&fix);
	}
}

/* ---- ends */

/* A whole message in front of the end is told first. */
static void the_peer_closes(void **state)
{
	(void)state;
	struct fixture fix = { 0 };
	pair_up(&fix);
	say(&fix, "\0\0\0\1a\0\0", 7); /* and one that is not whole */
	close(fix.peer);
	fix.peer = -1;
	assert_true(wait_for(&fix, &fix.ended, 1));
	assert_int_equal(fix.messages, 1);
	assert_int_equal(fix.end, TCP_END_CLOSED);
	down(&fix);
}

static int listen_at(struct sockaddr_in *ret_addr)
{
	socklen_t len = sizeof(*ret_addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*ret_addr = (struct sockaddr_in){ .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)ret_addr, len), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret_addr, &len), 0);
	return fd;
}

static void connects_and_is_reset(void **state)
{
	(void)state;
	struct fixture fix = { .peer = -1 };
	struct sockaddr_in addr;
	const struct linger hard = { .l_onoff = 1 };
	int listener = listen_at(&addr);
	fix.base = event_base_new();
	assert_int_equal(tcp_side_connect(fix.base, (struct sockaddr *)&addr, sizeof(addr), 5000,
					  &ops, &fix, &fix.side),
			 0);
	assert_true(wait_for(&fix, &fix.connected, 1));
	fix.peer = accept(listener, NULL, NULL);
	assert_true(fix.peer >= 0);
	say(&fix, "\0\0\0\1a", 5);
	settle(&fix);
	assert_int_equal(fix.messages, 0); /* not before it is asked for */
	tcp_side_resume(fix.side);
	assert_true(wait_for(&fix, &fix.messages, 1));
	setsockopt(fix.peer, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(fix.peer);
	fix.peer = -1;
	assert_true(wait_for(&fix, &fix.ended, 1));
	assert_int_equal(fix.end, TCP_END_RESET);
	assert_int_equal(fix.error, ECONNRESET);
	down(&fix);
	close(listener);
}

static void nobody_listens(void **state)
{
	(void)state;
	struct fixture fix = { .peer = -1 };
	struct sockaddr_in addr;
	close(listen_at(&addr));
	fix.base = event_base_new();
	assert_int_equal(tcp_side_connect(fix.base, (struct sockaddr *)&addr, sizeof(addr), 5000,
					  &ops, &fix, &fix.side),
			 0);
	assert_true(wait_for(&fix, &fix.ended, 1));
	assert_int_equal(fix.end, TCP_END_REFUSED);
	assert_int_equal(fix.error, ECONNREFUSED);
	assert_int_equal(fix.connected, 0);
	down(&fix);

	const struct sockaddr_un local = { .sun_family = AF_UNIX,
					   .sun_path = "/nonexistent/smb.sock" };
	struct event_base *base = event_base_new();
	struct tcp_side *side;
	assert_int_equal(tcp_side_connect(base, (const struct sockaddr *)&local, sizeof(local),
					  5000, &ops, &fix, &side),
			 -ENOENT);
	event_base_free(base);
}

/* A backlog that is full does not answer. */
static void a_server_that_does_not_answer(void **state)
{
	(void)state;
	struct fixture fix = { .peer = -1 };
	struct sockaddr_in addr;
	int listener = listen_at(&addr), others[16];
	assert_int_equal(listen(listener, 0), 0);
	for (size_t i = 0; i < 16; i++) {
		others[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(others[i], (struct sockaddr *)&addr, sizeof(addr));
	}
	fix.base = event_base_new();
	assert_int_equal(tcp_side_connect(fix.base, (struct sockaddr *)&addr, sizeof(addr), 200,
					  &ops, &fix, &fix.side),
			 0);
	assert_true(wait_for(&fix, &fix.ended, 1));
	assert_int_equal(fix.end, TCP_END_REFUSED);
	assert_int_equal(fix.error, ETIMEDOUT);
	down(&fix);
	for (size_t i = 0; i < 16; i++)
		close(others[i]);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_cut_anywhere),
		cmocka_unit_test(a_message_byte_by_byte),
		cmocka_unit_test(what_is_no_message),
		cmocka_unit_test(pauses_between_messages),
		cmocka_unit_test(room_is_refused_then_given),
		cmocka_unit_test(long_messages),
		cmocka_unit_test(messages_are_written),
		cmocka_unit_test(a_finish_lets_all_leave),
		cmocka_unit_test(a_free_gives_memory_back),
		cmocka_unit_test(a_free_lets_the_last_message_leave),
		cmocka_unit_test(the_peer_closes),
		cmocka_unit_test(connects_and_is_reset),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(a_server_that_does_not_answer),
	};
	return cmocka_run_group_tests_name("smbgate_tcp", tests, NULL, NULL);
}
