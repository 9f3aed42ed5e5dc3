/* SPDX-License-Identifier: MIT */
/*
 * An ordinary TCP program to measure with: it knows nothing of SMC-R.
 *
 * tcpbench serve ADDRESS PORT: serve bulk, rtt and hold, until killed, with a thread for each
 * connection.
 *
 * tcpbench bulk ADDRESS PORT SECONDS [STREAMS [up|down]]: STREAMS connections (1) carry as many
 * bytes as they can for SECONDS, to the server (up) or from it (down); prints the sum of the rates
 * that the receivers measured, in MB/s.
 *
 * tcpbench rtt ADDRESS PORT COUNT [SIZE]: ping-pongs of SIZE bytes (64); prints the median and the
 * 99th percentile in microseconds.
 *
 * tcpbench hold ADDRESS PORT COUNT: open COUNT connections, each with one ping-pong; prints "held",
 * and keeps the connections open until standard input ends.
 *
 * tcpbench answer ADDRESS PORT: serve ask and setup, until killed.
 *
 * tcpbench ask ADDRESS PORT COUNT: COUNT connections one after the other: connect, 64 bytes there
 * and back, close; prints the median and the 99th percentile in microseconds, and connections a
 * second.
 *
 * tcpbench setup ADDRESS PORT COUNT: the same with connect and close only. The last connection asks
 * as well: when the server has answered, it has accepted all the others.
 *
 * Servers print "listening" when they listen. They do not fork, because rsockets do not work in a
 * child.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PING_SIZE   64
#define BULK_SIZE   (256 * 1024)
#define MAX_SIZE    (1u << 20)
#define MAX_STREAMS 64

/* The first bytes that a client of `serve` sends. */
struct wish {
	char what;      /* 'U', 'D': bulk to or from the server; 'R': ping-pongs */
	uint32_t size;  /* of a ping-pong */
	double seconds; /* of 'D' */
};

static void die(const char *what)
{
	fprintf(stderr, "tcpbench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool send_all(int fd, const void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(fd, (const char *)buf + at, len - at, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* @return false: the connection ended or broke before that */
static bool recv_all(int fd, void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = recv(fd, (char *)buf + at, len - at, 0);
		if (n == 0)
			errno = ENODATA;
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void must_send(int fd, const void *buf, size_t len)
{
	if (!send_all(fd, buf, len))
		die("send");
}

static void must_recv(int fd, void *buf, size_t len)
{
	if (!recv_all(fd, buf, len))
		die("recv");
}

static struct sockaddr_in address(const char *addr, const char *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	if (inet_pton(AF_INET, addr, &in.sin_addr) != 1) {
		fprintf(stderr, "tcpbench: '%s' is not an IPv4 address\n", addr);
		exit(2);
	}
	return in;
}

static void no_delay(int fd)
{
	int one = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		die("TCP_NODELAY");
}

static int connect_to(const struct sockaddr_in *in)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)in, sizeof(*in)) < 0)
		die("connect");
	return fd;
}

static int open_connection(const char *addr, const char *port, const struct wish *wish)
{
	struct sockaddr_in in = address(addr, port);
	int fd = connect_to(&in);
	no_delay(fd);
	must_send(fd, wish, sizeof(*wish));
	return fd;
}

/* Take bytes until the end. @return how many came. @param ret_seconds  how long that took */
static double take(int fd, double *ret_seconds)
{
	char *buf = malloc(BULK_SIZE);
	double start = now(), got = 0;
	ssize_t n;
	while (buf && (n = recv(fd, buf, BULK_SIZE, 0)) > 0)
		got += (double)n;
	*ret_seconds = now() - start;
	free(buf);
	return got;
}

static void give(int fd, double seconds)
{
	char *buf = calloc(1, BULK_SIZE);
	double end = now() + seconds;
	while (buf && now() < end && send_all(fd, buf, BULK_SIZE))
		;
	shutdown(fd, SHUT_WR);
	free(buf);
}

static void serve_rtt(int fd, size_t size)
{
	char *buf = malloc(size);
	while (buf && recv_all(fd, buf, size) && send_all(fd, buf, size))
		;
	free(buf);
}

static int listen_at(const char *addr, const char *port)
{
	struct sockaddr_in in = address(addr, port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, SOMAXCONN) < 0)
		die("listen");
	printf("listening\n");
	fflush(stdout);
	return fd;
}

static int accept_one(int fd)
{
	int conn = accept(fd, NULL, NULL);
	if (conn < 0)
		die("accept");
	return conn;
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct wish wish;
	double result[2];
	pthread_detach(pthread_self()); /* not by another thread, which might look too late */
	no_delay(fd);
	if (recv_all(fd, &wish, sizeof(wish)) && wish.size <= MAX_SIZE) {
		switch (wish.what) {
		case 'U':
			result[0] = take(fd, &result[1]);
			send_all(fd, result, sizeof(result));
			break;
		case 'D': give(fd, wish.seconds); break;
		default: serve_rtt(fd, wish.size);
		}
	}
	close(fd);
	return NULL;
}

static _Noreturn void serve(const char *addr, const char *port)
{
	int fd = listen_at(addr, port);
	for (;;) {
		pthread_t thread;
		int conn = accept_one(fd);
		if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)conn))
			die("thread");
	}
}

static _Noreturn void answer(const char *addr, const char *port)
{
	char buf[PING_SIZE];
	int fd = listen_at(addr, port);
	for (;;) {
		int conn = accept_one(fd);
		if (recv_all(conn, buf, sizeof(buf)))
			send_all(conn, buf, sizeof(buf));
		close(conn);
	}
}

struct stream {
	pthread_t thread;
	const char *addr, *port;
	struct wish wish;
	double rate; /* MB/s */
};

static void *run_stream(void *arg)
{
	struct stream *stream = arg;
	double result[2];
	int fd = open_connection(stream->addr, stream->port, &stream->wish);
	if (stream->wish.what == 'U') {
		give(fd, stream->wish.seconds);
		must_recv(fd, result, sizeof(result));
	} else {
		result[0] = take(fd, &result[1]);
	}
	close(fd);
	stream->rate = result[0] / result[1] / 1e6;
	return NULL;
}

static int bulk(const char *addr, const char *port, double seconds, size_t streams, bool up)
{
	static struct stream all[MAX_STREAMS];
	double rate = 0;
	if (!streams || streams > MAX_STREAMS) {
		fprintf(stderr, "tcpbench: 1 to %d streams\n", MAX_STREAMS);
		return 2;
	}
	for (size_t i = 0; i < streams; i++) {
		struct wish wish = { .what = up ? 'U' : 'D', .seconds = seconds };
		all[i] = (struct stream){ .addr = addr, .port = port, .wish = wish };
		if (pthread_create(&all[i].thread, NULL, run_stream, &all[i]))
			die("thread");
	}
	for (size_t i = 0; i < streams; i++) {
		pthread_join(all[i].thread, NULL);
		rate += all[i].rate;
	}
	printf("%.1f\n", rate);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double *new_times(size_t count)
{
	double *times = calloc(count, sizeof(*times));
	if (!times || !count)
		die("memory");
	return times;
}

/* Frees the times. */
static void print_times(double *times, size_t count)
{
	qsort(times, count, sizeof(*times), compare);
	printf("%.1f %.1f", times[count / 2], times[count - 1 - count / 100]);
	free(times);
}

static int rtt(const char *addr, const char *port, size_t count, size_t size)
{
	static char buf[MAX_SIZE];
	double *times = new_times(count);
	if (!size || size > MAX_SIZE) {
		fprintf(stderr, "tcpbench: 1 to %u bytes\n", MAX_SIZE);
		return 2;
	}
	int fd = open_connection(addr, port, &(struct wish){ .what = 'R', .size = (uint32_t)size });
	for (size_t i = 0; i < count; i++) {
		double start = now();
		must_send(fd, buf, size);
		must_recv(fd, buf, size);
		times[i] = (now() - start) * 1e6;
	}
	print_times(times, count);
	printf("\n");
	return 0;
}

static int hold(const char *addr, const char *port, size_t count)
{
	char byte = 0;
	for (size_t i = 0; i < count; i++) {
		int fd = open_connection(addr, port, &(struct wish){ .what = 'R', .size = 1 });
		must_send(fd, &byte, 1);
		must_recv(fd, &byte, 1);
	}
	printf("held\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

/* @param question  send and receive bytes on each connection, or only connect and close? */
static int connections(const char *addr, const char *port, size_t count, bool question)
{
	char buf[PING_SIZE] = { 0 };
	struct sockaddr_in in = address(addr, port);
	double *times = new_times(count), first = now();
	for (size_t i = 0; i < count; i++) {
		double start = now();
		int fd = connect_to(&in);
		if (question || i + 1 == count) {
			must_send(fd, buf, sizeof(buf));
			must_recv(fd, buf, sizeof(buf));
		}
		close(fd);
		times[i] = (now() - start) * 1e6;
	}
	double rate = (double)count / (now() - first);
	print_times(times, count);
	printf(" %.1f\n", rate);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: tcpbench serve ADDRESS PORT | "
			"bulk ADDRESS PORT SECONDS [STREAMS [up|down]] | "
			"rtt ADDRESS PORT COUNT [SIZE] | hold ADDRESS PORT COUNT | "
			"answer ADDRESS PORT | ask ADDRESS PORT COUNT | "
			"setup ADDRESS PORT COUNT\n");
	return 2;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return usage();
	const char *what = argv[1], *addr = argv[2], *port = argv[3];
	if (argc == 4 && !strcmp(what, "serve"))
		serve(addr, port);
	if (argc == 4 && !strcmp(what, "answer"))
		answer(addr, port);
	if (argc < 5 || argc > 7)
		return usage();
	size_t count = (size_t)atol(argv[4]), more = argc > 5 ? (size_t)atol(argv[5]) : 0;
	if (!strcmp(what, "bulk"))
		return bulk(addr, port, atof(argv[4]), argc > 5 ? more : 1,
			    argc < 7 || !strcmp(argv[6], "up"));
	if (argc <= 6 && !strcmp(what, "rtt"))
		return rtt(addr, port, count, argc > 5 ? more : PING_SIZE);
	if (argc == 5 && !strcmp(what, "hold"))
		return hold(addr, port, count);
	if (argc == 5 && !strcmp(what, "ask"))
		return connections(addr, port, count, true);
	if (argc == 5 && !strcmp(what, "setup"))
		return connections(addr, port, count, false);
	return usage();
}
