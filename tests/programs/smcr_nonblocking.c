/* SPDX-License-Identifier: MIT */
/*
 * A non-blocking client of libsmcr with epoll. It prints what became of the connection, takes the
 * TCP socket back where possible, and sends 100,000 bytes to an echo server.
 * usage: smcr_nonblocking ADDRESS PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <smcr.h>

#define TOTAL       100000
#define PATIENCE_MS 120000

static void fail(const char *what, int error)
{
	fprintf(stderr, "smcr_nonblocking: %s: %s\n", what, strerror(error));
	exit(1);
}

static void watch(int epfd, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl", errno);
}

static void wait_for_event(int epfd)
{
	struct epoll_event event;
	int n = epoll_wait(epfd, &event, 1, PATIENCE_MS);
	if (n <= 0)
		fail("epoll_wait", n ? errno : ETIMEDOUT);
}

static void finish_connect(int epfd, int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);
	wait_for_event(epfd);
	int rc = smcr_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (rc < 0 || error)
		fail("connect", rc < 0 ? -rc : error);
}

static void tell(int fd)
{
	struct smcr_info info;
	int rc = smcr_wait_established(fd, PATIENCE_MS);
	if (rc == 0)
		rc = smcr_get_info(fd, &info, sizeof(info));
	if (rc < 0)
		fail("outcome", -rc);
	printf("%s%s %s\n", smcr_strmode(info.mode),
	       info.flags & SMCR_INFO_RELAYED ? " relayed" : "", info.reason_name);
}

/* Taking the TCP socket back closes the old file, which ends its registration with epoll. */
static void take_back(int epfd, int fd)
{
	int rc = smcr_take_back(fd);
	printf("take back: %s\n", strerror(-rc));
	if (rc == 0)
		watch(epfd, fd, EPOLLIN | EPOLLOUT);
}

static void exchange(int epfd, int fd)
{
	static char out[TOTAL], in[TOTAL];
	size_t sent = 0, got = 0;
	for (size_t i = 0; i < TOTAL; i++)
		out[i] = (char)(i * 7 >> 3);
	while (got < TOTAL) {
		wait_for_event(epfd);
		ssize_t n = send(fd, out + sent, TOTAL - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		n = recv(fd, in + got, TOTAL - got, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			fail("recv", n ? errno : EPIPE);
		got += n > 0 ? (size_t)n : 0;
	}
	if (memcmp(in, out, TOTAL) != 0)
		fail("wrong bytes", EBADMSG);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: smcr_nonblocking ADDRESS PORT\n");
		return 2;
	}
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[2])) };
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), family;
	socklen_t len = sizeof(family);
	inet_pton(AF_INET, argv[1], &in.sin_addr);
	int rc = smcr_connect(fd, (struct sockaddr *)&in, sizeof(in), SMCR_PREFER);
	if (rc < 0 && rc != -EINPROGRESS)
		fail("connect", -rc);
	watch(epfd, fd, EPOLLIN | EPOLLOUT);
	finish_connect(epfd, fd);
	tell(fd);
	take_back(epfd, fd);
	exchange(epfd, fd);
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	printf("family %s\n", family == AF_UNIX ? "unix" : "inet");
	return 0;
}
