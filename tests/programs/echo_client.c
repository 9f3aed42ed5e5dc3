/* SPDX-License-Identifier: MIT */
/*
 * An ordinary TCP client of echo_server. It sends bytes that show their place in the stream, and
 * checks what comes back, in one of the ways in which programs use sockets.
 *
 *   echo_client ADDRESS PORT [--bytes N] [--connections N] [--way block|epoll|select|threads]
 *               [--repeat N] [--half-close] [--hold]
 *
 *   --way epoll        registered with edge-triggered epoll before a non-blocking connect()
 *   --way select       non-blocking connect(), select()
 *   --way threads      a thread for each connection, each as in block
 *   --repeat N         do everything N times, one after the other
 *   --half-close       shutdown(SHUT_WR) when all is sent; end of file must follow the last byte
 *   --hold             when all is done, stay connected until killed
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_S 120 /* longest time in which nothing happens */

#define CHUNK 65536

enum way { WAY_BLOCK, WAY_EPOLL, WAY_SELECT, WAY_THREADS };

static struct {
	struct sockaddr_in addr;
	uint64_t bytes;
	int connections, repeat;
	enum way way;
	bool half_close, hold;
} opt = { .bytes = 1000, .connections = 1, .repeat = 1 };

struct conn {
	int fd;
	int id;
	bool connected, shut, done;
	uint64_t sent, received;
};

static void fail(const struct conn *conn, const char *what)
{
	fprintf(stderr, "echo_client: connection %d: %s (%s), sent %llu received %llu\n", conn->id,
		what, strerror(errno), (unsigned long long)conn->sent,
		(unsigned long long)conn->received);
	exit(1);
}

/* The byte at this place in the stream of a connection. */
static unsigned char content(int id, uint64_t at)
{
	uint64_t x = (at >> 3) * 0x9E3779B97F4A7C15u + (uint64_t)id * 0xBF58476D1CE4E5B9u;
	x ^= x >> 29;
	return (unsigned char)(x >> ((at & 7) * 8));
}

static void send_some(struct conn *conn)
{
	unsigned char buf[CHUNK];
	while (conn->sent < opt.bytes) {
		uint64_t left = opt.bytes - conn->sent;
		size_t len = left < sizeof(buf) ? (size_t)left : sizeof(buf);
		for (size_t i = 0; i < len; i++)
			buf[i] = content(conn->id, conn->sent + i);
		ssize_t n = send(conn->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n < 0)
			fail(conn, "send");
		conn->sent += (uint64_t)n;
	}
	if (opt.half_close && !conn->shut) {
		if (shutdown(conn->fd, SHUT_WR) < 0)
			fail(conn, "shutdown");
		conn->shut = true;
	}
}

static void receive_some(struct conn *conn)
{
	unsigned char buf[CHUNK];
	for (;;) {
		ssize_t n = recv(conn->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n < 0)
			fail(conn, "recv");
		if (n == 0) {
			errno = 0;
			if (conn->received < opt.bytes || !opt.half_close)
				fail(conn, "end of file too early");
			conn->done = true;
			return;
		}
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] != content(conn->id, conn->received + (uint64_t)i))
				fail(conn, "wrong byte");
		conn->received += (uint64_t)n;
		if (conn->received > opt.bytes)
			fail(conn, "more bytes than were sent");
		if (conn->received == opt.bytes && !opt.half_close) {
			conn->done = true;
			return;
		}
	}
}

static void pump(struct conn *conn)
{
	send_some(conn);
	receive_some(conn);
}

static void open_socket(struct conn *conn, int flags)
{
	conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (conn->fd < 0)
		fail(conn, "socket");
}

/* Ask what programs ask after connect(): who is the peer, and has connect() succeeded? */
static void check_connected(struct conn *conn)
{
	struct sockaddr_in peer = { 0 };
	socklen_t len = sizeof(peer);
	int error = 0;
	socklen_t error_len = sizeof(error);
	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
		fail(conn, "SO_ERROR");
	errno = error;
	if (error)
		fail(conn, "connect");
	if (getpeername(conn->fd, (struct sockaddr *)&peer, &len) < 0)
		fail(conn, "getpeername");
	if (peer.sin_family != AF_INET || peer.sin_port != opt.addr.sin_port ||
	    peer.sin_addr.s_addr != opt.addr.sin_addr.s_addr)
		fail(conn, "getpeername names another address");
	conn->connected = true;
}

static void run_blocking(struct conn *conn)
{
	open_socket(conn, 0);
	if (connect(conn->fd, (struct sockaddr *)&opt.addr, sizeof(opt.addr)) < 0)
		fail(conn, "connect");
	check_connected(conn);
	while (!conn->done) {
		short events = POLLIN | (conn->sent < opt.bytes ? POLLOUT : 0);
		struct pollfd pfd = { .fd = conn->fd, .events = events };
		int n = poll(&pfd, 1, PATIENCE_S * 1000);
		if (n < 0 && errno == EINTR) /* it was stopped and goes on */
			continue;
		if (n <= 0)
			fail(conn, "nothing happens");
		pump(conn);
	}
}

static void *run_thread(void *arg)
{
	run_blocking(arg);
	return NULL;
}

static void run_threads(struct conn *conns)
{
	pthread_t *threads = calloc((size_t)opt.connections, sizeof(*threads));
	for (int i = 0; i < opt.connections; i++)
		if (pthread_create(&threads[i], NULL, run_thread, &conns[i]))
			fail(&conns[i], "pthread_create");
	for (int i = 0; i < opt.connections; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

static void start_connect(struct conn *conn)
{
	if (connect(conn->fd, (struct sockaddr *)&opt.addr, sizeof(opt.addr)) < 0 &&
	    errno != EINPROGRESS)
		fail(conn, "connect");
}

static void run_epoll(struct conn *conns)
{
	int left = opt.connections, ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < opt.connections; i++) {
		struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
					     .data.ptr = &conns[i] };
		open_socket(&conns[i], SOCK_NONBLOCK);
		if (epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &event) < 0)
			fail(&conns[i], "epoll_ctl");
		start_connect(&conns[i]);
	}
	while (left > 0) {
		struct epoll_event events[16];
		int n = epoll_wait(ep, events, 16, PATIENCE_S * 1000);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail(&conns[0], "nothing happens");
		for (int i = 0; i < n; i++) {
			struct conn *conn = events[i].data.ptr;
			if (conn->done)
				continue;
			if (!conn->connected && !(events[i].events & (EPOLLOUT | EPOLLERR)))
				continue;
			/* an unconnected TCP socket reports OUT|HUP until connect() is called */
			if (!conn->connected)
				check_connected(conn);
			pump(conn);
			left -= conn->done;
		}
	}
	close(ep);
}

static void run_select(struct conn *conns)
{
	int left = opt.connections;
	for (int i = 0; i < opt.connections; i++) {
		open_socket(&conns[i], SOCK_NONBLOCK);
		start_connect(&conns[i]);
	}
	while (left > 0) {
		fd_set in, out;
		struct timeval patience = { .tv_sec = PATIENCE_S };
		int max = 0;
		FD_ZERO(&in);
		FD_ZERO(&out);
		for (int i = 0; i < opt.connections; i++) {
			if (conns[i].done)
				continue;
			FD_SET(conns[i].fd, &in);
			if (!conns[i].connected || conns[i].sent < opt.bytes)
				FD_SET(conns[i].fd, &out);
			max = conns[i].fd > max ? conns[i].fd : max;
		}
		int n = select(max + 1, &in, &out, NULL, &patience);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail(&conns[0], "nothing happens");
		for (int i = 0; i < opt.connections; i++) {
			struct conn *conn = &conns[i];
			if (conn->done || (!FD_ISSET(conn->fd, &in) && !FD_ISSET(conn->fd, &out)))
				continue;
			if (!conn->connected && !FD_ISSET(conn->fd, &out))
				continue;
			if (!conn->connected)
				check_connected(conn);
			pump(conn);
			left -= conn->done;
		}
	}
}

static void run_once(int round)
{
	struct conn *conns = calloc((size_t)opt.connections, sizeof(*conns));
	for (int i = 0; i < opt.connections; i++)
		conns[i].id = round * opt.connections + i;
	switch (opt.way) {
	case WAY_BLOCK:
		for (int i = 0; i < opt.connections; i++)
			run_blocking(&conns[i]);
		break;
	case WAY_EPOLL: run_epoll(conns); break;
	case WAY_SELECT: run_select(conns); break;
	case WAY_THREADS: run_threads(conns); break;
	}
	while (opt.hold)
		pause();
	for (int i = 0; i < opt.connections; i++)
		close(conns[i].fd);
	free(conns);
}

static enum way parse_way(const char *name)
{
	static const char *const names[] = { "block", "epoll", "select", "threads" };
	for (int i = 0; i < 4; i++)
		if (!strcmp(names[i], name))
			return (enum way)i;
	fprintf(stderr, "echo_client: no way '%s'\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "bytes", required_argument, NULL, 'b' },
		{ "connections", required_argument, NULL, 'c' },
		{ "way", required_argument, NULL, 'w' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "half-close", no_argument, NULL, 'h' },
		{ "hold", no_argument, NULL, 'o' },
		{ 0 },
	};
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'b': opt.bytes = strtoull(optarg, NULL, 10); break;
		case 'c': opt.connections = atoi(optarg); break;
		case 'w': opt.way = parse_way(optarg); break;
		case 'r': opt.repeat = atoi(optarg); break;
		case 'h': opt.half_close = true; break;
		case 'o': opt.hold = true; break;
		default: return 2;
		}
	}
	if (argc - optind != 2 || inet_pton(AF_INET, argv[optind], &opt.addr.sin_addr) != 1) {
		fprintf(stderr, "usage: echo_client ADDRESS PORT [OPTIONS]\n");
		return 2;
	}
	opt.addr.sin_family = AF_INET;
	opt.addr.sin_port = htons((uint16_t)atoi(argv[optind + 1]));
	for (int round = 0; round < opt.repeat; round++)
		run_once(round);
	return 0;
}
