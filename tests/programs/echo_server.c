/* SPDX-License-Identifier: MIT */
/* An ordinary threaded TCP server: sends back what it gets. usage: echo_server ADDRESS PORT */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int echo(int fd)
{
	char buf[65536];
	ssize_t n;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < n;) {
			ssize_t sent = send(fd, buf + at, (size_t)(n - at), MSG_NOSIGNAL);
			if (sent < 0)
				return -1;
			at += sent;
		}
	}
	return n < 0 ? -1 : 0;
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	pthread_detach(pthread_self()); /* not by another thread, which might look too late */
	echo(fd);
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: echo_server ADDRESS PORT\n");
		return 2;
	}
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[2])) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, argv[1], &in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 1024) < 0) {
		perror("echo_server");
		return 1;
	}
	for (;;) {
		pthread_t thread;
		int conn = accept(fd, NULL, NULL);
		if (conn < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			perror("echo_server: accept");
			return 1;
		}
		if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)conn) != 0)
			close(conn);
	}
}
