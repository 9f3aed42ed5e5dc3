/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/rendezvous/clc_stream.h"
#include "daemon/rendezvous/spoken.h"
#include "proto/smcr/clc.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define PATIENCE_MS 5000

/** A stream on one end of a TCP connection, the events that it told, and what to do at an event. */
struct fixture {
	struct event_base *base;
	struct event *timer;
	struct clc_stream *stream;
	int fd; /* the stream's end of the TCP connection */
	int peer;
	/* One letter for each event that the stream told: P A C D messages, g garbage, f FIN, r
	 * RST, u flushed. */
	char said[64];
	int error;
	enum clc_stream_mode then; /* mode to set at each message */
	bool free_on_event;
	bool unwanted; /* messages that come belong to the program */
	bool inside;   /* a function of the stream is running: no callback may come */
};

/* spoken_alone() and spoken_say() let everything pass: whatever others write, and however much the
 * stream sends. */
static bool trusting;

bool __real_spoken_alone(const struct spoken *spoken);
bool __wrap_spoken_alone(const struct spoken *spoken);
int __real_spoken_say(struct spoken *spoken, const uint8_t *msg, size_t len);
int __wrap_spoken_say(struct spoken *spoken, const uint8_t *msg, size_t len);

bool __wrap_spoken_alone(const struct spoken *spoken)
{
	return trusting || __real_spoken_alone(spoken);
}

int __wrap_spoken_say(struct spoken *spoken, const uint8_t *msg, size_t len)
{
	return trusting ? 0 : __real_spoken_say(spoken, msg, len);
}

static void say(struct fixture *f, char letter)
{
	size_t n = strlen(f->said);
	assert_false(f->inside);
	assert_true(n + 1 < sizeof(f->said));
	f->said[n] = letter;
	if (f->free_on_event) {
		clc_stream_free(f->stream);
		f->stream = NULL;
	}
}

static void on_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct fixture *f = ctx;
	struct smcr_clc_msg decoded;
	assert_int_equal(smcr_clc_decode(msg, len, &decoded), 0);
	assert_int_equal(decoded.length, len);
	say(f, " PACD"[decoded.type]);
	if (f->stream)
		assert_int_equal(clc_stream_set_mode(f->stream, f->then), 0);
}

static bool is_wanted(void *ctx, const uint8_t *msg, size_t len)
{
	const struct fixture *f = ctx;
	(void)msg;
	(void)len;
	return !f->unwanted;
}

static void on_garbage(void *ctx)
{
	say(ctx, 'g');
}

static void on_tcp_event(void *ctx, enum smcr_tcp_event event, int error)
{
	struct fixture *f = ctx;
	f->error = error;
	say(f, event == SMCR_TCP_FIN ? 'f' : 'r');
}

static void on_flushed(void *ctx)
{
	say(ctx, 'u');
}

static const struct clc_stream_callbacks callbacks = {
	.wanted = is_wanted,
	.message = on_message,
	.garbage = on_garbage,
	.tcp_event = on_tcp_event,
	.flushed = on_flushed,
};

static void connect_pair(int *ret_client, int *ret_server)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int one = 1;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	*ret_client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(*ret_client, (struct sockaddr *)&addr, len), 0);
	*ret_server = accept(listener, NULL, NULL);
	assert_true(*ret_server >= 0);
	setsockopt(*ret_client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	memset(f, 0, sizeof(*f));
	f->base = event_base_new();
	f->timer = evtimer_new(f->base, on_timer, NULL);
	f->then = CLC_STREAM_CLC;
	connect_pair(&f->peer, &f->fd);
	assert_int_equal(fcntl(f->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(clc_stream_new(f->base, f->fd, &callbacks, f, &f->stream), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	trusting = false;
	struct fixture *f = *state;
	clc_stream_free(f->stream);
	close(f->fd);
	if (f->peer >= 0)
		close(f->peer);
	event_free(f->timer);
	event_base_free(f->base);
	return 0;
}

static void set_mode(struct fixture *f, enum clc_stream_mode mode)
{
	f->inside = true;
	assert_int_equal(clc_stream_set_mode(f->stream, mode), 0);
	f->inside = false;
	assert_int_equal(clc_stream_mode(f->stream), mode);
}

/* Runs one iteration of the event loop, for at most this long. */
static void turn(struct fixture *f, int ms)
{
	struct timeval tv = { .tv_usec = ms * 1000 };
	evtimer_add(f->timer, &tv);
	event_base_loop(f->base, EVLOOP_ONCE);
	evtimer_del(f->timer);
}

/* Runs the loop until exactly these events were told. */
static void expect(struct fixture *f, const char *said)
{
	for (int i = 0; i < PATIENCE_MS / 10 && strlen(f->said) < strlen(said); i++)
		turn(f, 10);
	assert_string_equal(f->said, said);
}

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* After what is under way the loop sleeps until its timer fires. A socket that stays ready would
 * wake it. */
static void expect_quiet(struct fixture *f)
{
	int quiet = 0;
	for (int i = 0; i < 200 && quiet < 3; i++) {
		double start = now_ms();
		turn(f, 20);
		quiet = now_ms() - start > 18 ? quiet + 1 : 0;
	}
	assert_int_equal(quiet, 3);
}

static void peer_sends(struct fixture *f, const void *bytes, size_t len)
{
	assert_int_equal(send(f->peer, bytes, len, MSG_NOSIGNAL), len);
}

static void wait_queued(int fd, int bytes)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t buf[2048];
	assert_true(bytes <= (int)sizeof(buf));
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (recv(fd, buf, (size_t)bytes, MSG_PEEK | MSG_DONTWAIT) >= bytes)
			return;
		poll(&p, 1, 1);
	}
	fail_msg("the bytes did not arrive");
}

static void peer_closes(struct fixture *f)
{
	assert_int_equal(shutdown(f->peer, SHUT_WR), 0);
}

static void peer_resets(struct fixture *f)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	setsockopt(f->peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(f->peer);
	f->peer = -1;
}

/* The program would read exactly these bytes next from the stream's socket. */
static void program_reads(struct fixture *f, const void *bytes, size_t len)
{
	uint8_t buf[2048];
	wait_queued(f->fd, (int)len);
	assert_int_equal(recv(f->fd, buf, sizeof(buf), MSG_DONTWAIT), len);
	assert_memory_equal(buf, bytes, len);
}

static size_t decline(uint8_t *buf)
{
	struct smcr_clc_decline msg = { .version = 1, .diagnosis = 0x03030000 };
	return (size_t)smcr_clc_encode_decline(&msg, buf, SMCR_CLC_MAX_LEN);
}

static size_t proposal(uint8_t *buf, uint8_t prefixes)
{
	struct smcr_clc_proposal msg = { .version = 1, .offers_r_v1 = true };
	msg.num_prefixes = prefixes;
	msg.ip_offset = 40;
	for (int i = 0; i < prefixes; i++)
		msg.prefixes[i].len = 64;
	return (size_t)smcr_clc_encode_proposal(&msg, buf, SMCR_CLC_MAX_LEN);
}

static void whole_messages_come_one_by_one(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN * 3];
	size_t n = proposal(buf, 8);
	n += decline(buf + n);
	n += proposal(buf + n, 1);
	peer_sends(f, buf, n);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "PDP");
	expect_quiet(f);
	PROVES("CLC-15");
}

static void a_message_may_come_byte_by_byte(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = proposal(buf, 8);
	set_mode(f, CLC_STREAM_CLC);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(f->said, "");
		peer_sends(f, buf + i, 1);
		if (i + 1 < n) {
			wait_queued(f->fd, (int)i + 1);
			turn(f, 1);
		}
	}
	expect(f, "P");
	PROVES("CLC-15");
}

static void part_of_a_message_does_not_keep_the_loop_busy(void **state)
{
	static const size_t parts[] = { 1, 5, 8, 30 };
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t sent = 0, n = proposal(buf, 0);
	set_mode(f, CLC_STREAM_CLC);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		TRIES("row %zu", i);
		peer_sends(f, buf + sent, parts[i] - sent);
		sent = parts[i];
		wait_queued(f->fd, (int)sent);
		expect_quiet(f);
		assert_string_equal(f->said, "");
	}
	/* Switched off in the middle of a message, the stream leaves all bytes to the program. */
	set_mode(f, CLC_STREAM_OFF);
	program_reads(f, buf, sent);
	/* Bytes that somebody else has read may be a part of a message. */
	peer_sends(f, buf, n);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "r");
	assert_int_equal(f->error, CLC_STREAM_MEDDLED);
}

static void bytes_that_others_write_end_the_exchange(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = decline(buf);
	set_mode(f, CLC_STREAM_CLC);
	f->inside = true;
	assert_int_equal(clc_stream_send(f->stream, buf, n), 0);
	f->inside = false;
	assert_int_equal(send(f->fd, buf, n, 0), n);
	f->inside = true;
	assert_int_equal(clc_stream_send(f->stream, buf, n), 0);
	f->inside = false;
	expect(f, "r");
	assert_int_equal(f->error, CLC_STREAM_MEDDLED);
}

static void application_data_behind_a_decline_stay_in_the_socket(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN * 2];
	size_t n = decline(buf);
	memcpy(buf + n, "hello", 5);
	f->then = CLC_STREAM_OFF;
	peer_sends(f, buf, n + 5);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "D");
	turn(f, 20);
	program_reads(f, "hello", 5);
	assert_string_equal(f->said, "D");
	PROVES("CLC-15");
}

static void urgent_data_behind_a_decline_are_not_meddling(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = decline(buf);
	memcpy(buf + n, "now!..", 6);
	f->then = CLC_STREAM_OFF;
	assert_int_equal(send(f->peer, buf, n + 4, MSG_OOB), n + 4);
	assert_int_equal(send(f->peer, buf + n + 4, 2, 0), 2);
	struct pollfd p = { .fd = f->fd, .events = POLLPRI };
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "D");
}

/* The peer declines, answers and closes at once, while somebody looks on another processor. */
static void a_fin_that_comes_meanwhile_is_not_meddling(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		TRIES("connection %d", i);
		int client, server;
		struct spoken spoken;
		struct pollfd fin = { .events = POLLRDHUP };
		connect_pair(&client, &server);
		spoken_begin(&spoken, client);
		pid_t peer = fork();
		assert_true(peer >= 0);
		if (peer == 0) {
			send(server, "answer", 6, 0);
			shutdown(server, SHUT_WR);
			_exit(0);
		}
		fin.fd = client;
		do
			assert_true(spoken_alone(&spoken));
		while (poll(&fin, 1, 0) == 0);
		assert_true(spoken_alone(&spoken));
		spoken_end(&spoken);
		int status;
		assert_int_equal(waitpid(peer, &status, 0), peer);
		assert_int_equal(status, 0);
		close(client);
		close(server);
	}
}

static void payload_that_looks_like_clc_is_not_inspected(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN * 2];
	size_t first = decline(buf), second = proposal(buf + first, 2);
	f->then = CLC_STREAM_OFF;
	peer_sends(f, buf, first + second);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "D");
	peer_sends(f, buf, first);
	wait_queued(f->fd, (int)(second + first));
	turn(f, 20);
	assert_string_equal(f->said, "D");
	memmove(buf + first + second, buf, first);
	program_reads(f, buf + first, second + first);
	PROVES("ERR-14");
}

static void expect_garbage(struct fixture *f, const void *bytes, size_t len)
{
	peer_sends(f, bytes, len);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "g");
	assert_int_equal(clc_stream_mode(f->stream), CLC_STREAM_OFF);
	program_reads(f, bytes, len);
	f->said[0] = '\0';
}

static void what_is_no_clc_is_garbage_and_stays(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = decline(buf);
	expect_garbage(f, "GET / HTTP/1.1\r\n\r\n", 18);
	expect_garbage(f, "x", 1); /* found at once, though one byte is less than a header */
	expect_garbage(f, "\xE2\xD4x", 3);
	buf[4] = 0;
	expect_garbage(f, buf, n); /* type 0 */
	buf[4] = 5;
	expect_garbage(f, buf, n);
	decline(buf);
	buf[5] = 0xFF;
	expect_garbage(f, buf, n); /* 65308 bytes */
	buf[5] = 0;
	buf[6] = 7;
	expect_garbage(f, buf, n); /* a length less than that of the header */
	PROVES("ERR-13");
}

/** After a Decline the peer's program may send bytes that look like CLC. */
static void a_message_that_nobody_wants_is_garbage(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = decline(buf);
	f->unwanted = true;
	expect_garbage(f, buf, n);
	PROVES("ERR-14 GEN-4");
}

static void garbage_behind_a_message(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = proposal(buf, 0);
	buf[n] = 'x';
	peer_sends(f, buf, n + 1);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "Pg");
	program_reads(f, "x", 1);
}

static void fin_alone_in_the_middle_and_behind_a_message(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = proposal(buf, 0);
	peer_sends(f, buf, n);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "P");
	peer_sends(f, buf, 20);
	turn(f, 20);
	peer_closes(f);
	expect(f, "Pf");
	assert_int_equal(f->error, 0);
	expect_quiet(f);
	assert_string_equal(f->said, "Pf");
}

static void message_and_fin_at_once(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	peer_sends(f, buf, decline(buf));
	peer_closes(f);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "Df");
}

static void reset_alone_in_the_middle_and_behind_a_message(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = proposal(buf, 0);
	memcpy(buf + n, buf, 20);
	set_mode(f, CLC_STREAM_CLC);
	peer_sends(f, buf, n + 20);
	wait_queued(f->fd, (int)n + 20);
	peer_resets(f);
	expect(f, "Pr");
	assert_int_equal(f->error, ECONNRESET);
	assert_int_equal(clc_stream_mode(f->stream), CLC_STREAM_OFF);
	expect_quiet(f);
	assert_string_equal(f->said, "Pr");
}

static void reset_of_an_idle_stream(void **state)
{
	struct fixture *f = *state;
	set_mode(f, CLC_STREAM_CLC);
	turn(f, 10);
	peer_resets(f);
	expect(f, "r");
	assert_int_equal(f->error, ECONNRESET);
}

static void the_watch_reports_a_byte(void **state)
{
	struct fixture *f = *state;
	set_mode(f, CLC_STREAM_WATCH);
	expect_quiet(f);
	assert_string_equal(f->said, "");
	peer_sends(f, "x", 1);
	expect(f, "g");
	program_reads(f, "x", 1);
}

static void the_watch_reports_a_byte_that_was_there_before(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = proposal(buf, 0);
	buf[n] = 'x';
	f->then = CLC_STREAM_WATCH;
	peer_sends(f, buf, n + 1);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "Pg");
}

static void the_watch_reports_part_of_a_message_left_over(void **state)
{
	struct fixture *f = *state;
	set_mode(f, CLC_STREAM_CLC);
	peer_sends(f, "\xE2\xD4\xC3\xD9", 4);
	wait_queued(f->fd, 4);
	turn(f, 20);
	assert_string_equal(f->said, "");
	set_mode(f, CLC_STREAM_WATCH);
	expect(f, "g");
}

static void the_watch_reports_fin_then_reset(void **state)
{
	struct fixture *f = *state;
	set_mode(f, CLC_STREAM_WATCH);
	peer_closes(f);
	expect(f, "f");
	expect_quiet(f);
	assert_string_equal(f->said, "f");
	peer_resets(f);
	expect(f, "fr");
	assert_true(f->error == EPIPE || f->error == ECONNRESET);
}

static void an_error_that_somebody_else_has_read_is_a_reset_too(void **state)
{
	struct fixture *f = *state;
	int error = 0;
	socklen_t len = sizeof(error);
	peer_resets(f);
	struct pollfd p = { .fd = f->fd };
	poll(&p, 1, PATIENCE_MS);
	assert_int_equal(getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	assert_int_equal(error, ECONNRESET);
	set_mode(f, CLC_STREAM_WATCH);
	for (int i = 0; i < 100 && !strchr(f->said, 'r'); i++)
		turn(f, 10);
	assert_non_null(strchr(f->said, 'r'));
	assert_int_equal(f->error, ECONNRESET);
}

static void a_message_is_kept_while_the_kernel_is_full(void **state)
{
	struct fixture *f = *state;
	static uint8_t junk[65536];
	uint8_t buf[SMCR_CLC_MAX_LEN], tail[SMCR_CLC_MAX_LEN];
	size_t filled = 0, n = decline(buf), have = 0;
	ssize_t r;
	trusting = true;
	while ((r = send(f->fd, junk, sizeof(junk), MSG_DONTWAIT)) > 0)
		filled += (size_t)r;
	f->inside = true;
	assert_int_equal(clc_stream_send(f->stream, buf, n), 0);
	size_t unsent = clc_stream_unsent(f->stream);
	assert_true(unsent > 0 && unsent <= n);
	while (clc_stream_send(f->stream, buf, n) == 0)
		assert_true(clc_stream_unsent(f->stream) <= 4096);
	f->inside = false;
	assert_true(clc_stream_unsent(f->stream) > 4096 - n);
	assert_int_equal(fcntl(f->peer, F_SETFL, O_NONBLOCK), 0);
	while (filled) {
		r = recv(f->peer, junk, filled < sizeof(junk) ? filled : sizeof(junk), 0);
		if (r > 0)
			filled -= (size_t)r;
		else
			turn(f, 1);
	}
	expect(f, "u");
	assert_int_equal(clc_stream_unsent(f->stream), 0);
	do {
		r = recv(f->peer, tail + have, n - have, 0);
		have += r > 0 ? (size_t)r : 0;
		if (have == n) {
			assert_memory_equal(tail, buf, n);
			have = 0;
		}
	} while (r > 0);
	assert_int_equal(have, 0);
}

static void a_failed_send_is_told_from_the_loop(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t n = decline(buf);
	peer_resets(f);
	struct pollfd p = { .fd = f->fd };
	poll(&p, 1, PATIENCE_MS);
	f->inside = true;
	assert_int_equal(clc_stream_send(f->stream, buf, n), 0);
	assert_int_equal(clc_stream_send(f->stream, buf, n), 0);
	f->inside = false;
	expect(f, "r");
	assert_int_equal(f->error, ECONNRESET);
	assert_int_equal(clc_stream_unsent(f->stream), 0);
}

static void low_water_mark_is_as_before_when_off(void **state)
{
	struct fixture *f = *state;
	int lowat = 7, now = 0;
	socklen_t len = sizeof(now);
	struct clc_stream *second;
	setsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat));
	clc_stream_free(f->stream);
	assert_int_equal(clc_stream_new(f->base, f->fd, &callbacks, f, &second), 0);
	f->stream = second;
	set_mode(f, CLC_STREAM_CLC);
	peer_sends(f, "\xE2", 1);
	wait_queued(f->fd, 1);
	turn(f, 20);
	getsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &now, &len);
	assert_int_equal(now, SMCR_CLC_HEADER_LEN);
	set_mode(f, CLC_STREAM_OFF);
	getsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &now, &len);
	assert_int_equal(now, 7);
	set_mode(f, CLC_STREAM_CLC);
	clc_stream_free(f->stream);
	f->stream = NULL;
	getsockopt(f->fd, SOL_SOCKET, SO_RCVLOWAT, &now, &len);
	assert_int_equal(now, 7);
}

static void each_callback_may_free_the_stream(void **state)
{
	struct fixture *f = *state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	f->free_on_event = true;
	peer_sends(f, buf, decline(buf));
	peer_sends(f, "xx", 2);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "D");
	assert_null(f->stream);
	assert_int_equal(clc_stream_new(f->base, f->fd, &callbacks, f, &f->stream), 0);
	set_mode(f, CLC_STREAM_CLC);
	expect(f, "Dg");
	assert_null(f->stream);
	program_reads(f, "xx", 2);
	assert_int_equal(clc_stream_new(f->base, f->fd, &callbacks, f, &f->stream), 0);
	peer_closes(f);
	set_mode(f, CLC_STREAM_WATCH);
	expect(f, "Dgf");
	assert_null(f->stream);
	assert_int_equal(clc_stream_new(f->base, f->fd, &callbacks, f, &f->stream), 0);
	f->free_on_event = false;
	set_mode(f, CLC_STREAM_WATCH);
	expect(f, "Dgff");
	f->free_on_event = true;
	peer_resets(f);
	expect(f, "Dgffr");
	assert_null(f->stream);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(whole_messages_come_one_by_one),
		T(a_message_may_come_byte_by_byte),
		T(part_of_a_message_does_not_keep_the_loop_busy),
		T(bytes_that_others_write_end_the_exchange),
		T(application_data_behind_a_decline_stay_in_the_socket),
		T(urgent_data_behind_a_decline_are_not_meddling),
		T(a_fin_that_comes_meanwhile_is_not_meddling),
		T(payload_that_looks_like_clc_is_not_inspected),
		T(what_is_no_clc_is_garbage_and_stays),
		T(a_message_that_nobody_wants_is_garbage),
		T(garbage_behind_a_message),
		T(fin_alone_in_the_middle_and_behind_a_message),
		T(message_and_fin_at_once),
		T(reset_alone_in_the_middle_and_behind_a_message),
		T(reset_of_an_idle_stream),
		T(the_watch_reports_a_byte),
		T(the_watch_reports_a_byte_that_was_there_before),
		T(the_watch_reports_part_of_a_message_left_over),
		T(the_watch_reports_fin_then_reset),
		T(an_error_that_somebody_else_has_read_is_a_reset_too),
		T(a_message_is_kept_while_the_kernel_is_full),
		T(a_failed_send_is_told_from_the_loop),
		T(low_water_mark_is_as_before_when_off),
		T(each_callback_may_free_the_stream),
	};
	return cmocka_run_group_tests_name("clc_stream", tests, NULL, NULL);
}
