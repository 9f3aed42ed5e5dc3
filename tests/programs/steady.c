/* SPDX-License-Identifier: MIT */
/*
 * Ordinary TCP connections that run until told to stop, while a test breaks links. They check that
 * every byte arrives once and in order, and measure for how long nothing arrives.
 *
 *   steady serve|connect|visit ADDRESS PORT [OPTIONS]
 *
 *   serve       answer what the others send
 *   connect     N bulk connections with a stream each way, and N ping-pong connections of 64 bytes
 *   visit       one ping-pong connection after the other, of MESSAGES each
 *   --bulk, --pingpong   connect: how many connections of each kind (0)
 *   --count     visit: messages on each connection (100)
 *   --rate      rate of each bulk stream in 1000 bytes a second (10000); 0: as fast as possible
 *   --pace      time from an answer to the next ping (1000)
 *   --gap       report when nothing arrives on a connection for at least this long (100)
 *   --tick      how often bytes and pings that are due are sent, in microseconds (1000)
 *   --mortal    connections may be reset: that is counted, and the client makes others instead.
 *               Wrong bytes and an end of file before its time are errors as always.
 *
 * Bytes show their place: word number i of a stream is (i + key) * ODD, with a key of its own for
 * each connection and direction. So a receiver of a wrong byte also knows which place of the stream
 * the byte belongs to. The client ends first, with shutdown(SHUT_WR). The server answers with how
 * much it has received and sent.
 *
 * Commands on standard input: "mark LABEL" prints the longest time without arrival since the last
 * mark, and how long pings and new connections have taken since then; "stop" (or SIGTERM) ends in
 * order. Lines on standard output; times of day in seconds since 1970, lengths in microseconds:
 *
 *   ready                                         connected, or listening
 *   gap END LENGTH KIND NUMBER                    nothing arrived for LENGTH, until END
 *   mark LABEL pingpong LENGTH bulk LENGTH late LENGTH ping LENGTHS setup LENGTHS resets N
 *                                                 late: longest delay until this process was woken;
 *                                                 ping: until a ping was answered; setup: from
 *                                                 connect() to the first answer; LENGTHS: median,
 *                                                 99 %, longest
 *   reset TIME KIND NUMBER sent N received N: TEXT
 *   error TIME KIND NUMBER sent N received N: TEXT
 *   total connections N sent N received N errors N resets N
 *
 * Exit status 0: every connection ended in order and all bytes were right; 1: not; 2: usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK       65536
#define FLOWS_MAX   256
#define PING        64
#define HELLO       16
#define STRAY_MAX   32 /* wrong bytes that are kept to find their place: two words, unaligned */
#define TRAILER     17
#define BURST       (512 * 1024)
#define PATIENCE_US 60000000 /* a connection on which nothing arrives for so long has failed */
#define AGAIN_US    500000   /* pause before another connection in place of one that was reset */
#define SAMPLES_MAX 65536
#define ODD         0x9E3779B97F4A7C15u

enum kind { PINGPONG, BULK, KINDS };
static const char *const kind_names[KINDS] = { "pingpong", "bulk" };

struct flow {
	int fd;
	bool server;
	bool known; /* hello sent or received */
	bool failed, ended;
	enum kind kind;
	uint32_t number, rate;
	uint64_t tx_key, rx_key;
	uint64_t sent, received;
	uint64_t credit, credit_at; /* bulk: bytes that may be sent; when that was computed */
	uint64_t ping_at;           /* pingpong: when the next ping is due */
	uint64_t connect_at;        /* client: when connect() was called */
	uint64_t pinged_at;         /* client: when the last ping was sent */
	bool full;                  /* the socket takes no more bytes at present */
	bool broken;                /* the socket will never take bytes again; recv() tells why */
	bool shut;                  /* the own direction has ended */
	uint64_t arrived_at;
	uint8_t hello[HELLO]; /* server: the part that has arrived */
	size_t hello_len;
	uint8_t stray[STRAY_MAX]; /* bytes from the first wrong one on */
	size_t stray_len;
	uint8_t trailer[TRAILER];
	size_t trailer_left;
};

static struct {
	bool server, visit, mortal;
	struct sockaddr_in addr;
	uint32_t bulk, pingpong, rate;
	uint64_t pace, gap, count, tick;
} opt = { .rate = 10000, .pace = 1000, .gap = 100000, .count = 100, .tick = 1000 };

static struct flow *flows[FLOWS_MAX];
static size_t num_flows;
static int listener = -1;
static volatile sig_atomic_t stopping;
static struct {
	uint64_t connections, sent, received, errors, resets;
} total;
static uint64_t worst[KINDS], worst_late;
static struct {
	uint32_t count[KINDS];
	uint64_t at;
} again;                /* connections to make in place of those that were reset, and when */
static uint32_t visits; /* number of the next connection that is made later than the first ones */

/* Lengths since the last mark. The first SAMPLES_MAX count. */
struct samples {
	uint32_t us[SAMPLES_MAX];
	size_t n;
};
static struct samples pings, setups;

/* ---- time and output */

static uint64_t clock_us(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static void print_time(const char *what)
{
	uint64_t t = clock_us(CLOCK_REALTIME);
	printf("%s %" PRIu64 ".%06" PRIu64, what, t / 1000000, t % 1000000);
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void print_flow(const char *what, const struct flow *f)
{
	print_time(what);
	printf(" %s %" PRIu32 " sent %" PRIu64 " received %" PRIu64 ": ", kind_names[f->kind],
	       f->number, f->sent, f->received);
}

/* The connection has failed; only the first report counts. */
__attribute__((format(printf, 2, 3))) static void flow_fail(struct flow *f, const char *text, ...)
{
	va_list ap;
	if (f->failed)
		return;
	f->failed = true;
	total.errors++;
	print_flow("error", f);
	va_start(ap, text);
	vprintf(text, ap);
	va_end(ap);
	putchar('\n');
}

/* A call has failed with errno. */
static void flow_call_fail(struct flow *f, const char *call)
{
	int error = errno;
	bool connecting = !strcmp(call, "connect");
	if (!opt.mortal || f->failed || (error != ECONNRESET && !connecting)) {
		flow_fail(f, "%s: %s", call, strerror(error));
		return;
	}
	f->failed = true;
	total.resets++;
	print_flow("reset", f);
	printf("%s: %s\n", call, strerror(error));
	if (!f->server && !opt.visit) {
		again.count[f->kind]++;
		again.at = now_us() + AGAIN_US;
	}
}

/* ---- content */

static uint64_t stream_key(uint32_t number, bool to_server)
{
	uint64_t x = ((uint64_t)number * 2 + to_server + 1) * 0xBF58476D1CE4E5B9u;
	return x ^ (x >> 31);
}

static uint64_t load_word(const uint8_t *p)
{
	uint64_t w = 0;
	for (int i = 7; i >= 0; i--)
		w = w << 8 | p[i];
	return w;
}

static void store_word(uint8_t *p, uint64_t w)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(w >> (8 * i));
}

static void fill(uint8_t *buf, size_t len, uint64_t key, uint64_t at)
{
	uint8_t word[8];
	while (len > 0) {
		size_t skip = at % 8, n = 8 - skip < len ? 8 - skip : len;
		store_word(word, (at / 8 + key) * ODD);
		memcpy(buf, word + skip, n);
		buf += n;
		at += n;
		len -= n;
	}
}

/* The number of a word: fill() backwards. */
static uint64_t word_number(uint64_t word, uint64_t key)
{
	uint64_t inverse =
		ODD; /* correct in 3 bits; each step doubles the number of correct bits */
	for (int i = 0; i < 5; i++)
		inverse *= 2 - ODD * inverse;
	return word * inverse - key;
}

/* Which place of the stream are these bytes from? */
static bool find_place(const uint8_t *buf, size_t len, uint64_t key, uint64_t *ret_at)
{
	for (size_t skip = 0; skip < 8 && skip + 16 <= len; skip++) {
		uint64_t i = word_number(load_word(buf + skip), key);
		if (i < UINT64_MAX / 16 && i * 8 >= skip &&
		    word_number(load_word(buf + skip + 8), key) == i + 1) {
			*ret_at = i * 8 - skip;
			return true;
		}
	}
	return false;
}

/* Report what came in place of byte number f->received. */
static void judge_stray(struct flow *f)
{
	uint64_t at, want = f->received;
	if (find_place(f->stray, f->stray_len, f->tx_key, &at))
		flow_fail(f, "for byte %" PRIu64 " comes our own byte %" PRIu64, want, at);
	else if (!find_place(f->stray, f->stray_len, f->rx_key, &at))
		flow_fail(f, "for byte %" PRIu64 " comes something else: %02x%02x%02x%02x..", want,
			  f->stray[0], f->stray[1], f->stray[2], f->stray[3]);
	else if (at == want)
		flow_fail(f, "byte %" PRIu64 " is wrong, those after it are right", want);
	else
		flow_fail(f, "for byte %" PRIu64 " comes byte %" PRIu64 ": %" PRIu64 " bytes %s",
			  want, at, at > want ? at - want : want - at,
			  at > want ? "are missing" : "come again");
}

/* Send the trailer: a byte that cannot be the stream's next one, then the server's two counts. */
static void put_trailer(struct flow *f)
{
	fill(f->trailer, 1, f->tx_key, f->sent);
	f->trailer[0] ^= 0xff;
	store_word(f->trailer + 1, f->received);
	store_word(f->trailer + 9, f->sent);
	f->trailer_left = TRAILER;
}

/* The server has ended its direction: compare the counts in its trailer with the client's. */
static void judge_end(struct flow *f)
{
	uint64_t got, sent;
	if (!f->shut) {
		flow_fail(f, "end of file too early");
		return;
	}
	if (f->stray_len != TRAILER) {
		flow_fail(f, "end of file with %zu bytes of %d of the trailer", f->stray_len,
			  TRAILER);
		return;
	}
	got = load_word(f->stray + 1);
	sent = load_word(f->stray + 9);
	if (got != f->sent || sent != f->received)
		flow_fail(f, "the server has received %" PRIu64 " and sent %" PRIu64, got, sent);
	f->ended = true;
}

static void check(struct flow *f, const uint8_t *buf, size_t len)
{
	static uint8_t expected[CHUNK];
	size_t good = 0, keep;
	if (f->stray_len == 0) {
		fill(expected, len, f->rx_key, f->received);
		if (memcmp(buf, expected, len) == 0)
			good = len;
		else
			while (buf[good] == expected[good])
				good++;
		f->received += good;
	}
	keep = len - good < STRAY_MAX - f->stray_len ? len - good : STRAY_MAX - f->stray_len;
	memcpy(f->stray + f->stray_len, buf + good, keep);
	f->stray_len += keep;
	/* A trailer is shorter than this, and only the server sends one. */
	if (f->stray_len == STRAY_MAX || (f->stray_len > 0 && f->server))
		judge_stray(f);
}

/* ---- connections */

static struct flow *flow_new(int fd)
{
	struct flow *f = calloc(1, sizeof(*f));
	if (!f || num_flows == FLOWS_MAX)
		die("too many connections");
	f->fd = fd;
	f->server = opt.server;
	f->arrived_at = f->credit_at = f->ping_at = now_us();
	flows[num_flows++] = f;
	total.connections++;
	return f;
}

static void flow_start(struct flow *f, enum kind kind, uint32_t number, uint32_t rate)
{
	f->kind = kind;
	f->number = number;
	f->rate = rate;
	f->tx_key = stream_key(number, !f->server);
	f->rx_key = stream_key(number, f->server);
	f->arrived_at = f->credit_at = f->ping_at = now_us();
	f->known = true;
}

static void flow_connect(enum kind kind, uint32_t number)
{
	uint32_t hello[HELLO / 4] = { htonl(0x53544459), htonl(kind), htonl(number),
				      htonl(opt.rate) };
	struct flow *f = flow_new(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	f->kind = kind;
	f->number = number;
	f->connect_at = now_us();
	if (f->fd < 0)
		die("socket");
	if (connect(f->fd, (struct sockaddr *)&opt.addr, sizeof(opt.addr)) < 0)
		flow_call_fail(f, "connect");
	else if (send(f->fd, hello, sizeof(hello), MSG_NOSIGNAL) != HELLO)
		flow_call_fail(f, "send");
	flow_start(f, kind, number, opt.rate);
}

static void flow_free(size_t i)
{
	struct flow *f = flows[i];
	total.sent += f->sent;
	total.received += f->received;
	if (f->fd >= 0)
		close(f->fd);
	free(f);
	flows[i] = flows[--num_flows];
}

/* Take bytes of hello from the start of what arrived. @return how many */
static size_t take_hello(struct flow *f, const uint8_t *buf, size_t len)
{
	size_t n = HELLO - f->hello_len < len ? HELLO - f->hello_len : len;
	uint32_t hello[HELLO / 4];
	memcpy(f->hello + f->hello_len, buf, n);
	f->hello_len += n;
	if (f->hello_len < HELLO)
		return n;
	memcpy(hello, f->hello, HELLO);
	if (ntohl(hello[0]) != 0x53544459 || ntohl(hello[1]) >= KINDS)
		flow_fail(f, "this is no steady client");
	else
		flow_start(f, (enum kind)ntohl(hello[1]), ntohl(hello[2]), ntohl(hello[3]));
	return n;
}

/* ---- sending */

/* Number of bytes of the stream that are due now. */
static uint64_t due(struct flow *f, uint64_t now)
{
	if (f->shut || f->broken || !f->known)
		return 0;
	if (f->kind == PINGPONG && f->server)
		return f->received - f->sent;
	if (f->kind == PINGPONG) {
		if (f->sent > f->received)
			return PING - f->sent % PING == PING ? 0 : PING - f->sent % PING;
		return !stopping && now >= f->ping_at ? PING : 0;
	}
	if (stopping && !f->server)
		return 0;
	if (f->rate == 0)
		return CHUNK;
	if (now - f->credit_at < opt.tick)
		return f->credit;
	f->credit += (now - f->credit_at) * f->rate / 1000;
	f->credit_at = now;
	if (f->credit > BURST)
		f->credit = BURST;
	return f->credit;
}

/* Has the client sent everything that it will send? */
static bool said_all(const struct flow *f)
{
	if (f->server || f->shut || !f->known)
		return false;
	if (f->kind == PINGPONG && f->received != f->sent)
		return false;
	return stopping || (opt.visit && f->sent >= opt.count * PING);
}

static void end_own_direction(struct flow *f)
{
	if (shutdown(f->fd, SHUT_WR) < 0)
		flow_fail(f, "shutdown: %s", strerror(errno));
	f->shut = true;
}

static ssize_t send_bytes(struct flow *f, const uint8_t *buf, size_t len)
{
	ssize_t n = send(f->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno == EAGAIN) {
		f->full = true;
		return 0;
	}
	if (n < 0 && errno == EPIPE) {
		f->broken = true;
		return 0;
	}
	if (n < 0)
		flow_call_fail(f, "send");
	return n;
}

static void send_trailer(struct flow *f)
{
	ssize_t n = send_bytes(f, f->trailer + TRAILER - f->trailer_left, f->trailer_left);
	if (n <= 0)
		return;
	f->trailer_left -= (size_t)n;
	f->ended = f->trailer_left == 0;
}

static void send_due(struct flow *f)
{
	static uint8_t buf[CHUNK];
	uint64_t now = now_us(), want = due(f, now);
	if (f->trailer_left > 0)
		send_trailer(f);
	if (f->sent == f->received)
		f->pinged_at = now;
	for (uint64_t left = want; left > 0 && !f->full && !f->failed;) {
		size_t len = left < CHUNK ? (size_t)left : CHUNK;
		fill(buf, len, f->tx_key, f->sent);
		ssize_t n = send_bytes(f, buf, len);
		if (n <= 0)
			break;
		f->sent += (uint64_t)n;
		left -= (uint64_t)n;
		f->credit -= f->kind == BULK && f->rate ? (uint64_t)n : 0;
	}
	if (!f->failed && !f->broken && said_all(f))
		end_own_direction(f);
}

/* ---- receiving */

static void note_arrival(struct flow *f)
{
	uint64_t now = now_us(), gap = now - f->arrived_at;
	f->arrived_at = now;
	/* No gap is counted where waiting is normal: a server waits for pings, and all at the end.
	 */
	if (f->shut || stopping || !f->known || (f->server && f->kind == PINGPONG))
		return;
	if (gap > worst[f->kind])
		worst[f->kind] = gap;
	if (gap >= opt.gap) {
		print_time("gap");
		printf(" %" PRIu64 " %s %" PRIu32 "\n", gap, kind_names[f->kind], f->number);
	}
}

static void at_end_of_file(struct flow *f)
{
	if (f->broken) {
		flow_fail(f, "send: %s, and then end of file", strerror(EPIPE));
	} else if (!f->server) {
		judge_end(f);
	} else if (f->shut) {
		return; /* the stream has ended */
	} else if (f->known && f->stray_len == 0) {
		f->shut = true;
		put_trailer(f);
	} else {
		flow_fail(f, "end of file too early");
	}
}

static void sample(struct samples *samples, uint64_t since)
{
	if (samples->n < SAMPLES_MAX)
		samples->us[samples->n++] = (uint32_t)(now_us() - since);
}

/* Client: all of a ping has come back. */
static void note_answer(struct flow *f)
{
	sample(&pings, f->pinged_at);
	if (f->received == PING)
		sample(&setups, f->connect_at);
	f->ping_at = now_us() + opt.pace;
}

/* Receive at most a few chunks, so that other connections get their turn. */
static void receive(struct flow *f)
{
	static uint8_t buf[CHUNK];
	for (int i = 0; i < 4 && !f->failed; i++) {
		ssize_t n = recv(f->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			flow_call_fail(f, "recv");
			return;
		}
		if (n == 0) {
			at_end_of_file(f);
			return;
		}
		note_arrival(f);
		size_t taken = f->known || !f->server ? 0 : take_hello(f, buf, (size_t)n);
		if (!f->failed && taken < (size_t)n)
			check(f, buf + taken, (size_t)n - taken);
		if (f->kind == PINGPONG && !f->server && f->received == f->sent &&
		    f->stray_len == 0)
			note_answer(f);
		if ((size_t)n < sizeof(buf))
			return;
	}
}

/* ---- commands */

static void stop(int sig)
{
	(void)sig;
	stopping = 1;
}

static int by_length(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Print median, 99th percentile and the longest, and forget them. */
static void print_samples(const char *what, struct samples *samples)
{
	size_t n = samples->n;
	if (n == 0) {
		printf(" %s - - -", what);
		return;
	}
	qsort(samples->us, n, sizeof(samples->us[0]), by_length);
	printf(" %s %" PRIu32 " %" PRIu32 " %" PRIu32, what, samples->us[(n - 1) / 2],
	       samples->us[(n * 99 + 99) / 100 - 1], samples->us[n - 1]);
	samples->n = 0;
}

/* Print the longest times without arrival, including those that still last. */
static void mark(const char *label)
{
	uint64_t now = now_us();
	for (size_t i = 0; i < num_flows; i++) {
		struct flow *f = flows[i];
		if (f->known && !f->shut && !(f->server && f->kind == PINGPONG) &&
		    now - f->arrived_at > worst[f->kind])
			worst[f->kind] = now - f->arrived_at;
	}
	printf("mark %s pingpong %" PRIu64 " bulk %" PRIu64 " late %" PRIu64, label,
	       worst[PINGPONG], worst[BULK], worst_late);
	print_samples("ping", &pings);
	print_samples("setup", &setups);
	printf(" resets %" PRIu64 "\n", total.resets);
	worst[PINGPONG] = worst[BULK] = worst_late = 0;
}

/* Carry out commands on standard input. @return false: the input has ended */
static bool take_commands(void)
{
	static char line[256];
	static size_t len;
	ssize_t n = read(STDIN_FILENO, line + len, sizeof(line) - 1 - len);
	char *end;
	if (n <= 0)
		return false;
	len += (size_t)n;
	line[len] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		if (!strncmp(line, "mark ", 5))
			mark(line + 5);
		else if (!strcmp(line, "stop"))
			stopping = 1;
		else
			fprintf(stderr, "steady: no command '%s'\n", line);
		len -= (size_t)(end + 1 - line);
		memmove(line, end + 1, len + 1);
	}
	if (len == sizeof(line) - 1)
		len = 0;
	return true;
}

/* ---- the loop */

static void accept_one(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		flow_new(fd);
	else if (errno != EAGAIN && errno != ECONNABORTED)
		die("accept");
}

static void look_after(uint64_t now)
{
	for (size_t i = 0; i < num_flows;) {
		struct flow *f = flows[i];
		if (now - f->arrived_at > PATIENCE_US && !f->ended)
			flow_fail(f, "nothing arrives for %d s", PATIENCE_US / 1000000);
		if (f->failed || f->ended)
			flow_free(i);
		else
			i++;
	}
}

static void wait_events(bool *commands)
{
	static struct pollfd fds[FLOWS_MAX + 2];
	size_t n = num_flows;
	uint64_t before = now_us(), took;
	struct timespec tick = { .tv_nsec = (long)opt.tick * 1000 };
	for (size_t i = 0; i < n; i++) {
		struct flow *f = flows[i];
		int events = (f->server && f->shut ? 0 : POLLIN) | (f->full ? POLLOUT : 0);
		fds[i] = (struct pollfd){ .fd = f->fd, .events = (short)events };
	}
	fds[n] = (struct pollfd){ .fd = *commands ? STDIN_FILENO : -1, .events = POLLIN };
	fds[n + 1] = (struct pollfd){ .fd = listener, .events = POLLIN };
	if (ppoll(fds, n + 2, num_flows > 0 || !opt.server ? &tick : NULL, NULL) < 0) {
		if (errno != EINTR)
			die("poll");
		return;
	}
	took = now_us() - before;
	if (num_flows > 0 && took > opt.tick && took - opt.tick > worst_late)
		worst_late = took - opt.tick;
	for (size_t i = 0; i < n; i++) {
		if (fds[i].revents & POLLOUT)
			flows[i]->full = false;
		if (fds[i].revents & ~POLLOUT)
			receive(flows[i]);
	}
	if (fds[n].revents)
		*commands = take_commands();
	if (fds[n + 1].revents)
		accept_one();
}

static void connect_again(void)
{
	if (now_us() < again.at)
		return;
	for (int kind = 0; kind < KINDS; kind++) {
		uint32_t n = again.count[kind];
		again.count[kind] = 0;
		while (n-- > 0)
			flow_connect((enum kind)kind, visits++);
	}
}

static void run(void)
{
	bool commands = true;
	for (;;) {
		if (opt.visit && num_flows == 0 && !stopping)
			flow_connect(PINGPONG, visits++);
		if (!stopping)
			connect_again();
		for (size_t i = 0; i < num_flows; i++)
			if (!flows[i]->failed && !flows[i]->full)
				send_due(flows[i]);
		look_after(now_us());
		/* A server is told to stop only after its clients have left. */
		if (num_flows == 0 && (stopping || (!opt.server && !opt.visit && !opt.mortal)))
			return;
		wait_events(&commands);
		if (opt.server && stopping)
			for (size_t i = 0; i < num_flows; i++)
				flow_fail(flows[i], "still open at the end");
	}
}

/* ---- start */

static void listen_there(void)
{
	int one = 1;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (struct sockaddr *)&opt.addr, sizeof(opt.addr)) ||
	    listen(listener, FLOWS_MAX))
		die("listen");
}

static int usage(void)
{
	fprintf(stderr, "usage: steady serve|connect|visit ADDRESS PORT [OPTIONS]\n");
	return 2;
}

static bool parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "bulk", required_argument, NULL, 'b' },
		{ "pingpong", required_argument, NULL, 'p' },
		{ "rate", required_argument, NULL, 'r' },
		{ "pace", required_argument, NULL, 'a' },
		{ "gap", required_argument, NULL, 'g' },
		{ "count", required_argument, NULL, 'c' },
		{ "tick", required_argument, NULL, 't' },
		{ "mortal", no_argument, NULL, 'm' },
		{ 0 },
	};
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;
		switch (c) {
		case 'b': opt.bulk = (uint32_t)value; break;
		case 'p': opt.pingpong = (uint32_t)value; break;
		case 'r': opt.rate = (uint32_t)value; break;
		case 'a': opt.pace = value; break;
		case 'g': opt.gap = value * 1000; break;
		case 'c': opt.count = value; break;
		case 't': opt.tick = value < 500000 ? value : 500000; break;
		case 'm': opt.mortal = true; break;
		default: return false;
		}
	}
	if (argc - optind != 3 || inet_pton(AF_INET, argv[optind + 1], &opt.addr.sin_addr) != 1)
		return false;
	opt.addr.sin_family = AF_INET;
	opt.addr.sin_port = htons((uint16_t)atoi(argv[optind + 2]));
	opt.server = !strcmp(argv[optind], "serve");
	opt.visit = !strcmp(argv[optind], "visit");
	return (opt.server || opt.visit || !strcmp(argv[optind], "connect")) &&
	       opt.bulk + opt.pingpong <= FLOWS_MAX && opt.count > 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	if (!parse(argc, argv))
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (opt.server)
		listen_there();
	for (uint32_t i = 0; !opt.server && !opt.visit && i < opt.bulk + opt.pingpong; i++)
		flow_connect(i < opt.bulk ? BULK : PINGPONG, i);
	visits = opt.bulk + opt.pingpong;
	puts("ready");
	run();
	printf("total connections %" PRIu64 " sent %" PRIu64 " received %" PRIu64 " errors %" PRIu64
	       " resets %" PRIu64 "\n",
	       total.connections, total.sent, total.received, total.errors, total.resets);
	return total.errors > 0;
}
