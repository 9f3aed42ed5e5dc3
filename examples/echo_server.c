/* SPDX-License-Identifier: MIT */
/*
 * An echo server with libsmcr: each connection gets a process of its own, which says what carries
 * it and sends back what it gets.
 *
 *   cc -o echo_server echo_server.c $(pkg-config --cflags --libs smcr)
 *   ./echo_server [--require | --never] ADDRESS PORT
 */
#include "example.h"

#include <signal.h>

static void serve(int fd)
{
	char bytes[65536];
	ssize_t n;
	if (tell_outcome(fd) < 0)
		return;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (write_all(fd, bytes, (size_t)n) < 0)
			break;
	if (n != 0)
		perror("echo");
}

static int listen_at(const struct addrinfo *address, enum smcr_policy policy)
{
	int fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol), on = 1;
	/* Functions of the C library serve a socket that is not yet connected. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, address->ai_addr, address->ai_addrlen) < 0) {
		perror("bind");
		exit(1);
	}
	int rc = smcr_listen(fd, SOMAXCONN, policy);
	if (rc < 0) {
		complain("listen", rc);
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	enum smcr_policy policy = take_policy(&argc, argv);
	struct addrinfo *address = take_address(argc, argv);
	int listener = listen_at(address, policy);
	freeaddrinfo(address);
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps the children */
	for (;;) {
		int fd = smcr_accept(listener, NULL, NULL, 0, policy);
		if (fd < 0) {
			complain("accept", fd);
			continue;
		}
		pid_t pid = fork();
		if (pid == 0) {
			close(listener);
			serve(fd);
			_exit(0);
		}
		if (pid < 0)
			perror("fork");
		close(fd);
	}
}
