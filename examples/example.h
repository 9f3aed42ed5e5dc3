/* SPDX-License-Identifier: MIT */
/* What the examples share: their arguments, and a line that says what carries a connection. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

/* With cc -std=c99 the C library declares getaddrinfo() only for who asks. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <smcr.h>

#define OUTCOME_MS 60000 /* a rendezvous with a slow peer takes long */

/* libsmcr returns negative error numbers and leaves errno alone. */
static void complain(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-error));
}

/* usage: PROGRAM [--require | --never] ADDRESS PORT */
static enum smcr_policy take_policy(int *argc, char **argv)
{
	enum smcr_policy policy = SMCR_PREFER;
	if (*argc == 4 && strcmp(argv[1], "--require") == 0)
		policy = SMCR_REQUIRE;
	else if (*argc == 4 && strcmp(argv[1], "--never") == 0)
		policy = SMCR_NEVER;
	else if (*argc != 3) {
		fprintf(stderr, "usage: %s [--require | --never] ADDRESS PORT\n", argv[0]);
		exit(2);
	}
	return policy;
}

/* ADDRESS and PORT are the last two arguments. */
static struct addrinfo *take_address(int argc, char **argv)
{
	struct addrinfo hints, *list;
	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	int error = getaddrinfo(argv[argc - 2], argv[argc - 1], &hints, &list);
	if (error) {
		fprintf(stderr, "%s %s: %s\n", argv[argc - 2], argv[argc - 1], gai_strerror(error));
		exit(2);
	}
	return list;
}

static void print_outcome(const struct smcr_info *info)
{
	if (info->mode == SMCR_MODE_SMCR)
		printf("SMC-R, link %u/%u on %s\n", (unsigned)info->linkgroup, (unsigned)info->link,
		       info->rnic);
	else if (info->reason)
		printf("TCP, %s: %s\n", info->reason_name, info->reason_text);
	else
		printf("TCP\n");
	if (info->peer_reason)
		printf("the peer says: %s\n", info->peer_reason_text);
}

/* Wait until it is known what carries the connection, and say it. @return 0 or a negative errno */
static int tell_outcome(int fd)
{
	struct smcr_info info;
	int rc = smcr_wait_established(fd, OUTCOME_MS);
	if (rc == 0)
		rc = smcr_get_info(fd, &info, sizeof(info));
	if (rc == 0)
		print_outcome(&info);
	else
		complain("what carries the connection", rc);
	fflush(stdout);
	return rc;
}

/* The descriptor of a connection takes bytes as any socket does. @return 0, or -1 and errno */
static int write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

#endif
