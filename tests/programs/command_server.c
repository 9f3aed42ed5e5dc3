/* SPDX-License-Identifier: MIT */
/*
 * An ordinary threaded TCP server. Each byte that it gets is a command:
 *
 *   e  send "e"                    w  send end of file, and go on
 *   r  reset the connection        c  close the connection
 *   d  send end of file and close the connection at once
 *   u  send "abc", "d" as urgent data, "ef"
 *   m  tell where the urgent byte is in what follows, and its value: "3 d"
 *   f  send FLOOD bytes, "!" as urgent data, "end"
 *   k  read no more, and keep the connection
 *   x  read no more, and reset the connection when nothing more comes
 *
 * usage: command_server ADDRESS PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOOD       1700000
#define PATIENCE_MS 120000 /* for the urgent byte */

static void send_urgent(int fd)
{
	send(fd, "abc", 3, MSG_NOSIGNAL);
	send(fd, "d", 1, MSG_NOSIGNAL | MSG_OOB);
	send(fd, "ef", 2, MSG_NOSIGNAL);
}

static void flood(int fd)
{
	static const char block[FLOOD / 100];
	for (int i = 0; i < 100; i++)
		send(fd, block, sizeof(block), MSG_NOSIGNAL);
	send(fd, "!", 1, MSG_NOSIGNAL | MSG_OOB);
	send(fd, "end", 3, MSG_NOSIGNAL);
}

/* Read up to the urgent mark, as telnetd does. */
static void find_mark(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };
	char byte = 0, text[32];
	int before = 0;
	if (poll(&p, 1, PATIENCE_MS) == 1)
		while (sockatmark(fd) == 0 && recv(fd, &byte, 1, 0) == 1)
			before++;
	ssize_t n = recv(fd, &byte, 1, MSG_OOB);
	int len = snprintf(text, sizeof(text), "%d %c", before, n == 1 ? byte : '-');
	send(fd, text, (size_t)len, MSG_NOSIGNAL);
}

/* Has the sender filled all buffers on the way? */
static void await_standstill(int fd)
{
	int before = 0, now = 0;
	for (int same = 0; same < 20; before = now) {
		usleep(10000);
		ioctl(fd, FIONREAD, &now);
		same = now > 0 && now == before ? same + 1 : 0;
	}
}

/* Returns when the connection is to be closed. */
static void obey(int fd)
{
	const struct linger reset = { .l_onoff = 1 };
	char command;
	while (recv(fd, &command, 1, 0) == 1) {
		switch (command) {
		case 'e': send(fd, "e", 1, MSG_NOSIGNAL); break;
		case 'w': shutdown(fd, SHUT_WR); break;
		case 'u': send_urgent(fd); break;
		case 'f': flood(fd); break;
		case 'm': find_mark(fd); break;
		case 'k':
			for (;;)
				pause();
		case 'x':
			await_standstill(fd);
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
			return;
		case 'r': setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); return;
		case 'd': shutdown(fd, SHUT_WR); return;
		case 'c': return;
		default: break;
		}
	}
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	pthread_detach(pthread_self()); /* not by another thread, which might look too late */
	obey(fd);
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: command_server ADDRESS PORT\n");
		return 2;
	}
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[2])) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, argv[1], &in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 1024) < 0) {
		perror("command_server");
		return 1;
	}
	for (;;) {
		pthread_t thread;
		int conn = accept(fd, NULL, NULL);
		if (conn < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			perror("command_server: accept");
			return 1;
		}
		if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)conn) != 0)
			close(conn);
	}
}
