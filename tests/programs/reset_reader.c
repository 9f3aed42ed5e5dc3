/* SPDX-License-Identifier: MIT */
/*
 * Reads from a server that never stops, or that never sends anything, until the connection ends.
 * Exit status 0: it ended with ECONNRESET, and the time of day is on standard output; 1: with an
 * end of file or another error. SIGALRM kills the program if nothing happens for 30 s.
 *
 *   reset_reader ADDRESS PORT [--reader plain|exec|epoll]
 *
 *   plain  this process reads, and waits in read()
 *   exec   a child reads that runs without any preload library
 *   epoll  this process reads, and waits in epoll_wait(), edge-triggered
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int tell_end(ssize_t n)
{
	int error = errno;
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (n < 0 && error == ECONNRESET) {
		printf("reset %lld.%06ld\n", (long long)ts.tv_sec, ts.tv_nsec / 1000);
		return 0;
	}
	fprintf(stderr, "reset_reader: %s\n", n == 0 ? "clean end of file" : strerror(error));
	return 1;
}

static int read_to_the_end(int fd)
{
	static char buf[65536];
	ssize_t n;
	do {
		alarm(300); /* kills the process if the connection does not end */
		n = read(fd, buf, sizeof(buf));
	} while (n > 0);
	return tell_end(n);
}

static int wait_for_the_end(int fd)
{
	static char buf[65536];
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	ssize_t n;
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event) < 0) {
		perror("reset_reader: epoll");
		return 1;
	}
	for (;;) {
		alarm(300);
		epoll_wait(ep, &event, 1, -1);
		while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
			;
		if (n == 0 || errno != EAGAIN)
			return tell_end(n);
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
	close(fd); /* now only the child holds the connection */
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--fd"))
		return read_to_the_end(atoi(argv[2]));
	if (argc != 3 && !(argc == 5 && !strcmp(argv[3], "--reader"))) {
		fprintf(stderr, "usage: reset_reader ADDRESS PORT [--reader HOW]\n");
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
	if (argc == 5 && !strcmp(argv[4], "epoll"))
		return wait_for_the_end(fd);
	return read_to_the_end(fd);
}
