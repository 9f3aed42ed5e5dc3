/* SPDX-License-Identifier: MIT */
/* Sends zeros to every client until the connection breaks. usage: endless_server ADDRESS PORT */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *arg)
{
	static const char zeros[65536];
	int fd = (int)(intptr_t)arg;
	pthread_detach(pthread_self()); /* not by another thread, which might look too late */
	while (send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL) > 0)
		;
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: endless_server ADDRESS PORT\n");
		return 2;
	}
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[2])) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, argv[1], &in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 64) < 0) {
		perror("endless_server");
		return 1;
	}
	for (;;) {
		pthread_t thread;
		int conn = accept(fd, NULL, NULL);
		if (conn < 0)
			continue;
		if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)conn) != 0)
			close(conn);
	}
}
