/* SPDX-License-Identifier: MIT */
/*
 * Reads from a server that never stops until the connection ends, and tells how it ended: exit
 * status 0 for ECONNRESET, 1 for a clean end of file or another error, 3 if nothing happens for 10
 * s.
 *
 *   reset_reader ADDRESS PORT [--reader plain|exec]
 *
 *   plain  this process reads; exec  a child that runs without any preload library reads
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int read_to_the_end(int fd)
{
	static char buf[65536];
	for (;;) {
		alarm(10); /* its default action ends us: no end was seen */
		ssize_t n = read(fd, buf, sizeof(buf));
		if (n > 0)
			continue;
		if (n == 0)
			fprintf(stderr, "reset_reader: clean end of file\n");
		else if (errno == ECONNRESET)
			return 0;
		else
			fprintf(stderr, "reset_reader: %s\n", strerror(errno));
		return 1;
	}
}

static int run_child(const char *self, int fd)
{
	char number[16];
	int status;
	snprintf(number, sizeof(number), "%d", fd);
	pid_t pid = fork();
	if (pid == 0) {
		unsetenv("LD_PRELOAD");
		execl(self, self, "--fd", number, (char *)NULL);
		_exit(127);
	}
	close(fd); /* the child alone holds it now */
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--fd"))
		return read_to_the_end(atoi(argv[2]));
	if (argc != 3 && !(argc == 5 && !strcmp(argv[3], "--reader"))) {
		fprintf(stderr, "usage: reset_reader ADDRESS PORT [--reader plain|exec]\n");
		return 2;
	}
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[2])) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, argv[1], &in.sin_addr);
	if (connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0) {
		perror("reset_reader: connect");
		return 2;
	}
	if (argc == 5 && !strcmp(argv[4], "exec"))
		return run_child("/proc/self/exe", fd);
	return read_to_the_end(fd);
}
