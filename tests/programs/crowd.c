/* SPDX-License-Identifier: MIT */
/*
 * Many TCP connections that are open at the same time and carry little data.
 *
 *   crowd serve ADDRESS PORT             send back what comes, on as many connections as there are
 *   crowd connect ADDRESS PORT COUNT     open COUNT connections, 64 bytes there and back on each
 *
 * Prints "listening" or "open". For each line on standard input the client sends 64 bytes there and
 * back on each connection again, and prints "answered". At the end of the input it closes all
 * connections and prints "closed". Exit status 0; 1: failed, with the reason on standard error; 2:
 * usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 64
#define BATCH 256

static int fail(const char *what)
{
	fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static int new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? fail("socket") : fd;
}

/* ---- server ---- */

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("a new connection");
}

static void echo(int fd)
{
	char buf[BYTES];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);
	if (n <= 0)
		close(fd);
	else if (send(fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
		fail("send");
}

static void serve(const struct sockaddr_in *addr)
{
	const int on = 1;
	int listener = new_socket(), epoll = epoll_create1(0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ||
	    listen(listener, SOMAXCONN) < 0)
		fail("listen");
	watch(epoll, listener);
	say("listening");
	for (;;) {
		struct epoll_event events[BATCH];
		int n = epoll_wait(epoll, events, BATCH, -1);
		if (n < 0)
			fail("epoll_wait");
		for (int i = 0; i < n; i++)
			if (events[i].data.fd == listener)
				watch(epoll, accept(listener, NULL, NULL));
			else
				echo(events[i].data.fd);
	}
}

/* ---- client ---- */

static void fill(char buf[BYTES], size_t i, unsigned int round)
{
	for (size_t at = 0; at < BYTES; at++)
		buf[at] = (char)(i * 31 + round * 7 + at);
}

static void ask(int fd, size_t i, unsigned int round)
{
	char sent[BYTES], came[BYTES];
	fill(sent, i, round);
	if (send(fd, sent, sizeof(sent), MSG_NOSIGNAL) != BYTES)
		fail("send");
	if (recv(fd, came, sizeof(came), MSG_WAITALL) != BYTES)
		fail("recv");
	if (memcmp(sent, came, BYTES)) {
		fprintf(stderr, "crowd: connection %zu: other bytes came back\n", i);
		exit(1);
	}
}

static void be_clients(const struct sockaddr_in *addr, size_t count)
{
	int *fds = calloc(count, sizeof(int));
	char line[80];
	if (!fds)
		fail("calloc");
	for (size_t i = 0; i < count; i++) {
		fds[i] = new_socket();
		if (connect(fds[i], (const struct sockaddr *)addr, sizeof(*addr)) < 0)
			fail("connect");
		ask(fds[i], i, 0);
	}
	say("open");
	for (unsigned int round = 1; fgets(line, sizeof(line), stdin); round++) {
		for (size_t i = 0; i < count; i++)
			ask(fds[i], i, round);
		say("answered");
	}
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	free(fds);
	say("closed");
}

int main(int argc, char **argv)
{
	struct rlimit limit;
	bool server = argc == 4 && strcmp(argv[1], "serve") == 0;
	if (!server && !(argc == 5 && strcmp(argv[1], "connect") == 0)) {
		fprintf(stderr, "usage: crowd serve ADDRESS PORT\n"
				"       crowd connect ADDRESS PORT COUNT\n");
		return 2;
	}
	struct sockaddr_in addr = { .sin_family = AF_INET };
	addr.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
	if (inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (server)
		serve(&addr);
	else
		be_clients(&addr, strtoul(argv[4], NULL, 10));
	return 0;
}
