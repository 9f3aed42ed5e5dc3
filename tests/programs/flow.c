/* SPDX-License-Identifier: MIT */
/*
 * The traffic shapes of the interoperability matrix. One program is client and server, over AF_SMC
 * or over TCP, which smcr-run turns into SMC-R. Every byte shows its place in its stream and is
 * checked.
 *
 *   flow [OPTIONS] serve ADDRESS PORT SHAPE [AMOUNT]
 *   flow [OPTIONS] connect ADDRESS PORT SHAPE [AMOUNT]
 *
 *   --smc        sockets of the family AF_SMC
 *   --seconds N  fail when the run takes longer (300)
 *
 * Shapes, with the default of AMOUNT in parentheses:
 *
 *   echo    AMOUNT requests and answers of 1 to 5000 bytes (100)
 *   bulk    AMOUNT bytes each way at the same time, then the end of each stream (4 MB)
 *   stall   to a receiver that reads only when nothing more arrives: the sender has to be blocked
 *           before it has sent AMOUNT bytes (100 MB); first from the client, then from the server
 *   half    AMOUNT bytes, shutdown(SHUT_WR), and twice as many bytes back (100 kB); first from the
 *           client, then from the server
 *   urgent  500 bytes, one urgent byte, 1000 bytes; first from the client, then from the server
 *   abort   close() with unread data: the other side, which sends AMOUNT bytes (100 kB), gets
 *           ECONNRESET; first the server closes, then the client
 *   many    AMOUNT connections at a time, 100 bytes each way on each (200)
 *
 * The server prints "listening" when it listens. The last line begins with "ok" or "failed". Exit
 * status 0 or 1; 2: usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef AF_SMC
#define AF_SMC 43
#endif
#define SMCPROTO_SMC  0 /* over IPv4 */
#define SMCPROTO_SMC6 1 /* over IPv6 */

#define CHUNK        65536
#define STALL_MS     400 /* a socket that is not writable for so long is blocked */
#define STALL_MORE   500000
#define QUIET_MS     2000 /* nothing more arrived for so long: the sender is blocked */
#define URGENT_AT    500
#define URGENT_AFTER 1000
#define MANY_BYTES   100

static struct {
	bool server, smc;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t addr_len;
	uint64_t amount;
} opt;

static int listener = -1;
static const char *step = "start";

/* Each direction of each connection has a key of its own, which decides its bytes. */
struct conn {
	int fd;
	uint32_t tx_key, rx_key;
	uint64_t sent, received;
};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("failed: %s: ", step);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	_exit(1);
}

/* SIGALRM: a run takes so long only if it hangs. */
static void too_long(int sig)
{
	static const char text[] = "failed: too long in: ";
	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0 || write(1, step, strlen(step)) < 0 ||
	    write(1, "\n", 1) < 0)
		_exit(3);
	_exit(1);
}

/* ---- bytes that show their place */

static uint8_t byte_at(uint32_t key, uint64_t at)
{
	uint64_t word = (at / 8 + ((uint64_t)key << 32)) * 0x9E3779B97F4A7C15u;
	return (uint8_t)(word >> (at % 8 * 8));
}

static void fill(uint8_t *buf, size_t len, uint32_t key, uint64_t at)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(key, at + i);
}

static void check(struct conn *conn, const uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++, conn->received++)
		if (buf[i] != byte_at(conn->rx_key, conn->received))
			fail("byte %llu is wrong", (unsigned long long)conn->received);
}

/* ---- sockets */

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR)
			fail("poll: %s", strerror(errno));
}

static int new_socket(void)
{
	int family = opt.addr.any.sa_family;
	int protocol = family == AF_INET ? SMCPROTO_SMC : SMCPROTO_SMC6;
	int fd = opt.smc ? socket(AF_SMC, SOCK_STREAM, protocol) : socket(family, SOCK_STREAM, 0);
	if (fd < 0)
		fail("socket: %s", strerror(errno));
	return fd;
}

static void start_listening(void)
{
	int one = 1;
	listener = new_socket();
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, &opt.addr.any, opt.addr_len) < 0 || listen(listener, 1024) < 0)
		fail("listen: %s", strerror(errno));
	printf("listening\n");
	fflush(stdout);
}

/* The next connection: `number` counts them on both sides. */
static struct conn next_conn(uint32_t number)
{
	struct conn conn = { .tx_key = number * 2 + opt.server,
			     .rx_key = number * 2 + !opt.server };
	step = opt.server ? "accept" : "connect";
	if (opt.server) {
		conn.fd = accept(listener, NULL, NULL);
		if (conn.fd < 0)
			fail("%s", strerror(errno));
		return conn;
	}
	conn.fd = new_socket();
	if (connect(conn.fd, &opt.addr.any, opt.addr_len) < 0)
		fail("connection %u: %s", number, strerror(errno));
	return conn;
}

static void send_bytes(struct conn *conn, uint64_t len)
{
	uint8_t buf[CHUNK];
	for (uint64_t end = conn->sent + len; conn->sent < end;) {
		size_t part = end - conn->sent < CHUNK ? (size_t)(end - conn->sent) : CHUNK;
		fill(buf, part, conn->tx_key, conn->sent);
		ssize_t n = send(conn->fd, buf, part, MSG_NOSIGNAL);
		if (n < 0)
			fail("send after %llu bytes: %s", (unsigned long long)conn->sent,
			     strerror(errno));
		conn->sent += (uint64_t)n;
	}
}

/* One recv(); 0 at the end of the stream. */
static size_t receive_some(struct conn *conn, uint64_t at_most)
{
	uint8_t buf[CHUNK];
	ssize_t n = recv(conn->fd, buf, at_most < CHUNK ? (size_t)at_most : CHUNK, 0);
	if (n < 0)
		fail("recv after %llu bytes: %s", (unsigned long long)conn->received,
		     strerror(errno));
	check(conn, buf, (size_t)n);
	return (size_t)n;
}

static void receive_bytes(struct conn *conn, uint64_t len)
{
	for (uint64_t end = conn->received + len; conn->received < end;)
		if (receive_some(conn, end - conn->received) == 0)
			fail("the stream ends after %llu bytes, %llu are missing",
			     (unsigned long long)conn->received,
			     (unsigned long long)(end - conn->received));
}

/* The stream has exactly `len` bytes. */
static void receive_end(struct conn *conn, uint64_t len)
{
	while (receive_some(conn, CHUNK) > 0)
		;
	if (conn->received != len)
		fail("the stream ends after %llu bytes of %llu", (unsigned long long)conn->received,
		     (unsigned long long)len);
}

static void end_sending(struct conn *conn)
{
	if (shutdown(conn->fd, SHUT_WR) < 0)
		fail("shutdown: %s", strerror(errno));
}

/* ---- shapes */

static size_t request_size(uint64_t number)
{
	return (size_t)(1 + number * 7919 % 5000);
}

static void shape_echo(void)
{
	struct conn conn = next_conn(0);
	step = "requests and answers";
	for (uint64_t i = 0; i < opt.amount; i++) {
		if (!opt.server)
			send_bytes(&conn, request_size(i));
		receive_bytes(&conn, request_size(opt.server ? i : i + 1));
		if (opt.server)
			send_bytes(&conn, request_size(i + 1));
	}
	step = "end";
	if (!opt.server)
		end_sending(&conn);
	receive_end(&conn, conn.received);
	close(conn.fd);
}

static void shape_bulk(void)
{
	struct conn conn = next_conn(0);
	bool ended = false, shut = false;
	step = "bulk both ways";
	fcntl(conn.fd, F_SETFL, O_NONBLOCK);
	while (!ended || !shut) {
		uint8_t buf[CHUNK];
		struct pollfd p = { .fd = conn.fd,
				    .events =
					    (short)((ended ? 0 : POLLIN) | (shut ? 0 : POLLOUT)) };
		if (poll(&p, 1, -1) < 0)
			fail("poll: %s", strerror(errno));
		if (!ended && p.revents & (POLLIN | POLLHUP | POLLERR))
			ended = receive_some(&conn, CHUNK) == 0;
		if (shut || !(p.revents & POLLOUT))
			continue;
		size_t part =
			opt.amount - conn.sent < CHUNK ? (size_t)(opt.amount - conn.sent) : CHUNK;
		fill(buf, part, conn.tx_key, conn.sent);
		ssize_t n = send(conn.fd, buf, part, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			fail("send after %llu bytes: %s", (unsigned long long)conn.sent,
			     strerror(errno));
		conn.sent += n > 0 ? (uint64_t)n : 0;
		shut = conn.sent == opt.amount;
		if (shut)
			end_sending(&conn);
	}
	receive_end(&conn, opt.amount);
	close(conn.fd);
}

/* Wait until nothing more arrives. */
static void wait_until_quiet(int fd)
{
	int before = 0, now = 0, quiet = 0;
	wait_for(fd, POLLIN);
	while (quiet < QUIET_MS) {
		poll(NULL, 0, 100);
		if (ioctl(fd, FIONREAD, &now) < 0)
			fail("FIONREAD: %s", strerror(errno));
		quiet = now == before ? quiet + 100 : 0;
		before = now;
	}
}

/* Send until blocked, and a little more. The other side tells how much it has received. */
static void stall_send(struct conn *conn)
{
	uint64_t end = opt.amount, got = 0;
	bool stalled = false;
	step = "sending to one who does not read";
	fcntl(conn->fd, F_SETFL, O_NONBLOCK);
	while (conn->sent < end) {
		uint8_t buf[CHUNK];
		size_t part = end - conn->sent < CHUNK ? (size_t)(end - conn->sent) : CHUNK;
		fill(buf, part, conn->tx_key, conn->sent);
		ssize_t n = send(conn->fd, buf, part, MSG_NOSIGNAL);
		if (n > 0) {
			conn->sent += (uint64_t)n;
			continue;
		}
		if (errno != EAGAIN)
			fail("send: %s", strerror(errno));
		struct pollfd p = { .fd = conn->fd, .events = POLLOUT };
		if (poll(&p, 1, STALL_MS) == 0 && !stalled) {
			printf("blocked after %llu bytes\n", (unsigned long long)conn->sent);
			stalled = true;
			end = conn->sent + STALL_MORE;
		}
		wait_for(conn->fd, POLLOUT);
	}
	if (!stalled)
		fail("never blocked in %llu bytes", (unsigned long long)opt.amount);
	fcntl(conn->fd, F_SETFL, 0);
	end_sending(conn);
	step = "waiting for what the other side got";
	if (recv(conn->fd, &got, sizeof(got), MSG_WAITALL) != sizeof(got) || got != conn->sent)
		fail("the other side has received %llu bytes of %llu", (unsigned long long)got,
		     (unsigned long long)conn->sent);
}

static void stall_receive(struct conn *conn)
{
	step = "waiting until the other side is blocked";
	wait_until_quiet(conn->fd);
	step = "reading what was held back";
	while (receive_some(conn, CHUNK) > 0)
		;
	if (send(conn->fd, &conn->received, sizeof(conn->received), MSG_NOSIGNAL) !=
	    sizeof(conn->received))
		fail("%s", strerror(errno));
}

static void shape_stall(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct conn conn = next_conn(i);
		if (opt.server == (i == 1))
			stall_send(&conn);
		else
			stall_receive(&conn);
		close(conn.fd);
	}
}

static void shape_half(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct conn conn = next_conn(i);
		bool first = opt.server == (i == 1);
		step = first ? "half close" : "half close of the other side";
		if (first) {
			send_bytes(&conn, opt.amount);
			end_sending(&conn);
			receive_end(&conn, 2 * opt.amount);
		} else {
			receive_end(&conn, opt.amount);
			send_bytes(&conn, 2 * opt.amount);
		}
		close(conn.fd);
	}
}

static void urgent_send(struct conn *conn)
{
	uint8_t byte = '!';
	step = "sending urgent data";
	send_bytes(conn, URGENT_AT);
	if (send(conn->fd, &byte, 1, MSG_OOB | MSG_NOSIGNAL) != 1)
		fail("%s", strerror(errno));
	send_bytes(conn, URGENT_AFTER);
	end_sending(conn);
	receive_end(conn, 0);
}

static void take_urgent(int fd)
{
	uint8_t byte = 0;
	step = "waiting for urgent data";
	wait_for(fd, POLLPRI);
	if (recv(fd, &byte, 1, MSG_OOB) != 1)
		fail("%s", strerror(errno));
	if (byte != '!')
		fail("it is %u", byte);
}

static void urgent_receive(struct conn *conn)
{
	take_urgent(conn->fd);
	step = "the stream around urgent data";
	receive_bytes(conn, URGENT_AT);
	receive_end(conn, URGENT_AT + URGENT_AFTER);
}

static void shape_urgent(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		if (!(opt.amount & 1u << i))
			continue;
		struct conn conn = next_conn(i);
		if (opt.server == (i == 1))
			urgent_send(&conn);
		else
			urgent_receive(&conn);
		close(conn.fd);
	}
}

/* Send to a peer that closes without reading everything. */
static void send_until_reset(struct conn *conn)
{
	uint8_t buf[1000];
	step = "sending what nobody reads";
	while (conn->sent < opt.amount) {
		fill(buf, sizeof(buf), conn->tx_key, conn->sent);
		ssize_t n = send(conn->fd, buf, sizeof(buf), MSG_NOSIGNAL);
		if (n < 0 && (errno == ECONNRESET || errno == EPIPE))
			return;
		if (n < 0)
			fail("%s", strerror(errno));
		conn->sent += (uint64_t)n;
	}
	step = "waiting for the reset";
	ssize_t n = recv(conn->fd, buf, 1, 0);
	if (n > 0)
		fail("data came");
	/* AF_SMC wakes a reader before it notes the reset; the next call reports it. */
	for (int i = 0; n == 0 && opt.smc && i < 100; i++) {
		n = send(conn->fd, buf, 1, MSG_NOSIGNAL) < 0 ? -1 : 0;
		poll(NULL, 0, 10);
	}
	if (n == 0)
		fail("the stream ended in order");
	if (errno != ECONNRESET && !(opt.smc && errno == EPIPE))
		fail("%s", strerror(errno));
}

static void shape_abort(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct conn conn = next_conn(i);
		if (opt.server == (i == 0)) {
			step = "reading a part";
			receive_bytes(&conn, 1000);
			wait_for(conn.fd, POLLIN);
			close(conn.fd);
		} else {
			send_until_reset(&conn);
			close(conn.fd);
		}
	}
}

/* The client tells its connection's number, because connections may be accepted in another order.
 */
static void greet(struct conn *conn, uint32_t number)
{
	if (send(conn->fd, &number, sizeof(number), MSG_NOSIGNAL) != sizeof(number))
		fail("%s", strerror(errno));
	send_bytes(conn, MANY_BYTES);
}

static void take_greeting(struct conn *conn, uint32_t count)
{
	uint32_t number = 0;
	ssize_t n = recv(conn->fd, &number, sizeof(number), MSG_WAITALL);
	if (n != sizeof(number) || number >= count)
		fail("no greeting: %s", n < 0 ? strerror(errno) : "wrong number");
	conn->tx_key = number * 2 + 1;
	conn->rx_key = number * 2;
}

static void shape_many(void)
{
	uint32_t count = (uint32_t)opt.amount;
	struct conn *conns = calloc(count, sizeof(*conns));
	if (!conns)
		fail("no memory");
	for (uint32_t i = 0; i < count; i++) {
		conns[i] = next_conn(i);
		step = "greeting";
		if (!opt.server)
			greet(&conns[i], i);
	}
	step = "data on each";
	for (uint32_t i = 0; i < count; i++) {
		if (opt.server)
			take_greeting(&conns[i], count);
		receive_bytes(&conns[i], MANY_BYTES);
		if (opt.server)
			send_bytes(&conns[i], MANY_BYTES);
	}
	step = "end of each";
	for (uint32_t i = 0; i < count && !opt.server; i++)
		end_sending(&conns[i]);
	for (uint32_t i = 0; i < count; i++) {
		receive_end(&conns[i], MANY_BYTES);
		close(conns[i].fd);
	}
	free(conns);
}

static const struct {
	const char *name;
	void (*run)(void);
	uint64_t amount;
} shapes[] = {
	{ "echo", shape_echo, 100 },         { "bulk", shape_bulk, 4000000 },
	{ "stall", shape_stall, 100000000 }, { "half", shape_half, 100000 },
	{ "urgent", shape_urgent, 3 },       { "abort", shape_abort, 100000 },
	{ "many", shape_many, 200 },
};

static int usage(void)
{
	fprintf(stderr, "usage: flow [--smc] [--seconds N] serve|connect ADDRESS PORT"
			" SHAPE [AMOUNT]\n");
	return 2;
}

static void raise_file_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static bool set_address(const char *address, const char *port)
{
	uint16_t number = htons((uint16_t)strtoul(port, NULL, 10));
	if (inet_pton(AF_INET, address, &opt.addr.in.sin_addr) == 1) {
		opt.addr.in.sin_family = AF_INET;
		opt.addr.in.sin_port = number;
		opt.addr_len = sizeof(opt.addr.in);
		return true;
	}
	opt.addr.in6.sin6_family = AF_INET6;
	opt.addr.in6.sin6_port = number;
	opt.addr_len = sizeof(opt.addr.in6);
	return inet_pton(AF_INET6, address, &opt.addr.in6.sin6_addr) == 1;
}

int main(int argc, char **argv)
{
	unsigned int seconds = 300;
	int at = 1;
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--smc") == 0)
			opt.smc = true;
		else if (strcmp(argv[at], "--seconds") == 0 && at + 1 < argc)
			seconds = (unsigned int)strtoul(argv[++at], NULL, 10);
		else
			return usage();
	}
	if (argc - at < 4 || argc - at > 5)
		return usage();
	opt.server = strcmp(argv[at], "serve") == 0;
	if ((!opt.server && strcmp(argv[at], "connect") != 0) ||
	    !set_address(argv[at + 1], argv[at + 2]))
		return usage();
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if (strcmp(shapes[i].name, argv[at + 3]) != 0)
			continue;
		opt.amount = argc - at == 5 ? strtoull(argv[at + 4], NULL, 10) : shapes[i].amount;
		signal(SIGALRM, too_long);
		alarm(seconds);
		raise_file_limit();
		if (opt.server)
			start_listening();
		shapes[i].run();
		printf("ok\n");
		return 0;
	}
	return usage();
}
