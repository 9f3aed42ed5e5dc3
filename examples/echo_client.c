/* SPDX-License-Identifier: MIT */
/*
 * A client of an echo server with libsmcr: says what carries the connection, then sends each line
 * of standard input and prints what comes back.
 *
 *   cc -o echo_client echo_client.c $(pkg-config --cflags --libs smcr)
 *   ./echo_client [--require | --never] ADDRESS PORT
 */
#include "example.h"

static int connect_to(const struct addrinfo *address, enum smcr_policy policy)
{
	int fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
	if (fd < 0) {
		perror("socket");
		exit(1);
	}
	int rc = smcr_connect(fd, address->ai_addr, address->ai_addrlen, policy);
	if (rc < 0) {
		complain("connect", rc);
		exit(1);
	}
	return fd;
}

/* @return 0, or -1: the server is gone */
static int exchange(int fd, const char *line, size_t len)
{
	char bytes[4096];
	if (write_all(fd, line, len) < 0) {
		perror("send");
		return -1;
	}
	while (len > 0) {
		ssize_t n = read(fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes));
		if (n <= 0) {
			fprintf(stderr, "the server has ended the connection\n");
			return -1;
		}
		fwrite(bytes, 1, (size_t)n, stdout);
		len -= (size_t)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	enum smcr_policy policy = take_policy(&argc, argv);
	struct addrinfo *address = take_address(argc, argv);
	char line[4096];
	int fd = connect_to(address, policy), rc = tell_outcome(fd);
	freeaddrinfo(address);
	while (rc == 0 && fgets(line, sizeof(line), stdin))
		rc = exchange(fd, line, strlen(line));
	close(fd);
	return rc == 0 ? 0 : 1;
}
