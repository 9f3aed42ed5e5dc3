/* SPDX-License-Identifier: MIT */
/*
 * A server that inherits its listener as descriptor FD. It accepts one connection after the other,
 * sends back what it gets, and prints "served" for each. It ends with status 3 if a connection
 * begins with a CLC message. usage: accept_at FD
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int send_all(int fd, const char *buf, ssize_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, buf, (size_t)len, MSG_NOSIGNAL);
		if (n < 0)
			return -1;
		buf += n;
		len -= n;
	}
	return 0;
}

static void echo(int fd)
{
	static const char eyecatcher[] = { '\xE2', '\xD4', '\xC3', '\xD9' };
	char buf[65536];
	ssize_t n, total = 0;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		if (total == 0 && n >= 4 && memcmp(buf, eyecatcher, sizeof(eyecatcher)) == 0) {
			puts("a CLC message");
			exit(3);
		}
		total += n;
		if (send_all(fd, buf, n) < 0)
			return;
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: accept_at FD\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (;;) {
		int fd = accept(atoi(argv[1]), NULL, NULL);
		if (fd < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			perror("accept_at");
			return 1;
		}
		echo(fd);
		close(fd);
		puts("served");
	}
}
