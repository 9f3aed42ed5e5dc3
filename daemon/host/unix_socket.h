/* SPDX-License-Identifier: MIT */
/** @file unix_socket.h A listening Unix socket with a name in the file system. */
#ifndef SMCRD_HOST_UNIX_SOCKET_H
#define SMCRD_HOST_UNIX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct unix_socket {
	int fd; /* -1: it is not open */
	const char *path;
	dev_t dev; /* of the file */
	ino_t ino;
};

struct unix_socket_params {
	const char *path; /* lives as long as the socket */
	int backlog;
	const char *what;   /* whose sockets such files are, for the sentence: "smcrd" */
	const char *advice; /* what to do if somebody else listens there: "choose another .." */
	/** Of two processes that begin at once one wins. For that it waits up to a second for
	 * whoever holds the directory, and any user can hold it: not once an event loop runs. */
	bool wait;
};

/**
 * Listen there, for everybody. A file that a process left behind which has ended is replaced.
 * @param ret_text  on failure: a sentence of up to `len` bytes
 * @return 0; -EADDRINUSE: another process listens there; -EEXIST: something else is in the way;
 *         -ENAMETOOLONG; or what the kernel said
 */
int unix_socket_open(const struct unix_socket_params *params, struct unix_socket *ret_socket,
		     char *ret_text, size_t len);
/** Close it and remove the file, unless somebody else has put one there. Nothing if it is not open.
 */
void unix_socket_close(struct unix_socket *socket);

#endif
