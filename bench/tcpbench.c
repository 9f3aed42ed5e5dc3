/* SPDX-License-Identifier: MIT */
/*
 * An ordinary TCP program to measure with: it knows nothing of SMC-R.
 *
 * tcpbench serve ADDRESS PORT: serve bulk and rtt, one connection after the other, until killed.
 *
 * tcpbench bulk ADDRESS PORT SECONDS: send for that long; prints MB/s as the receiver saw it.
 *
 * tcpbench rtt ADDRESS PORT COUNT: ping-pongs of 64 bytes; prints the median and the 99th
 * percentile in microseconds.
 *
 * tcpbench answer ADDRESS PORT: serve ask and setup, until killed.
 *
 * tcpbench ask ADDRESS PORT COUNT: connections one after the other: connect, 64 bytes there and
 * back, close; prints the median and the 99th percentile in microseconds, and connections a second.
 *
 * tcpbench setup ADDRESS PORT COUNT: the same with connect and close only; the last connection of
 * all asks, so that the server is through with the others when it has answered.
 *
 * Servers say "listening" when they do. They are single processes that do not fork: rsockets would
 * not follow.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PING_SIZE 64
#define BULK_SIZE (256 * 1024)

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

static int open_connection(const char *addr, const char *port, char mode)
{
	struct sockaddr_in in = address(addr, port);
	int fd = connect_to(&in);
	no_delay(fd);
	must_send(fd, &mode, 1);
	return fd;
}

/* Take bytes until the end, then answer how many came and how long it took. */
static void serve_bulk(int fd)
{
	static char buf[BULK_SIZE];
	double start = now(), result[2] = { 0 };
	ssize_t n;
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		result[0] += (double)n;
	result[1] = now() - start;
	send_all(fd, result, sizeof(result));
}

static void serve_rtt(int fd)
{
	char buf[PING_SIZE];
	while (recv_all(fd, buf, sizeof(buf)) && send_all(fd, buf, sizeof(buf)))
		;
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

static _Noreturn void serve(const char *addr, const char *port)
{
	char mode;
	int fd = listen_at(addr, port);
	for (;;) {
		int conn = accept_one(fd);
		no_delay(conn);
		if (recv_all(conn, &mode, 1) && mode == 'B')
			serve_bulk(conn);
		else
			serve_rtt(conn);
		close(conn);
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

static int bulk(const char *addr, const char *port, double seconds)
{
	static char buf[BULK_SIZE];
	int fd = open_connection(addr, port, 'B');
	double end = now() + seconds, result[2];
	while (now() < end)
		must_send(fd, buf, sizeof(buf));
	shutdown(fd, SHUT_WR);
	must_recv(fd, result, sizeof(result));
	printf("%.1f\n", result[0] / result[1] / 1e6);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double *room_for(size_t count)
{
	double *times = calloc(count, sizeof(*times));
	if (!times || !count)
		die("memory");
	return times;
}

/* Frees them. */
static void print_times(double *times, size_t count)
{
	qsort(times, count, sizeof(*times), compare);
	printf("%.1f %.1f", times[count / 2], times[count - 1 - count / 100]);
	free(times);
}

static int rtt(const char *addr, const char *port, size_t count)
{
	char buf[PING_SIZE] = { 0 };
	double *times = room_for(count);
	int fd = open_connection(addr, port, 'R');
	for (size_t i = 0; i < count; i++) {
		double start = now();
		must_send(fd, buf, sizeof(buf));
		must_recv(fd, buf, sizeof(buf));
		times[i] = (now() - start) * 1e6;
	}
	print_times(times, count);
	printf("\n");
	return 0;
}

/* @param question  ask one, or only connect and close? */
static int connections(const char *addr, const char *port, size_t count, bool question)
{
	char buf[PING_SIZE] = { 0 };
	struct sockaddr_in in = address(addr, port);
	double *times = room_for(count), first = now();
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

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "answer"))
		answer(argv[2], argv[3]);
	if (argc == 5 && !strcmp(argv[1], "bulk"))
		return bulk(argv[2], argv[3], atof(argv[4]));
	if (argc == 5 && !strcmp(argv[1], "rtt"))
		return rtt(argv[2], argv[3], (size_t)atol(argv[4]));
	if (argc == 5 && !strcmp(argv[1], "ask"))
		return connections(argv[2], argv[3], (size_t)atol(argv[4]), true);
	if (argc == 5 && !strcmp(argv[1], "setup"))
		return connections(argv[2], argv[3], (size_t)atol(argv[4]), false);
	fprintf(stderr, "usage: tcpbench serve ADDRESS PORT | bulk ADDRESS PORT SECONDS | "
			"rtt ADDRESS PORT COUNT | answer ADDRESS PORT | "
			"ask ADDRESS PORT COUNT | setup ADDRESS PORT COUNT\n");
	return 2;
}
