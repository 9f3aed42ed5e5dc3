/* SPDX-License-Identifier: MIT */
/** @file unix_socket.h A listening Unix socket with a name in the file system. */
#ifndef SMCRD_HOST_UNIX_SOCKET_H
#define SMCRD_HOST_UNIX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct unix_socket {
	int fd; /* -1: it is not open */
	const char *path;
	dev_t dev; /* device and inode of the file */
	ino_t ino;
};

struct unix_socket_params {
	const char *path; /* lives as long as the socket */
	int backlog;
	const char *what;   /* for the error text: which program has such a socket, "smcrd" */
	const char *advice; /* for the error text, what to do then: "choose another .." */
	/** Take a lock on the directory, so that of two processes that start at once only one gets
	 * the name. Any user can hold that lock, and this waits for it for up to a second: not to
	 * be set while an event loop runs. */
	bool wait;
};

/**
 * Listen for connections of all users. A socket file that an ended process left is replaced.
 * @param ret_text  on failure: a sentence of less than `len` bytes
 * @return 0; -EADDRINUSE: another process listens there; -EEXIST: a file that is no socket is
 *         there; -ENAMETOOLONG; or another negative errno
 */
int unix_socket_open(const struct unix_socket_params *params, struct unix_socket *ret_socket,
		     char *ret_text, size_t len);
/** Close the socket and remove its file, unless another process has put its own there. Nothing
 * happens if the socket is not open.
 */
void unix_socket_close(struct unix_socket *socket);

/**
 * The process that listens at an address, as far as the kernel tells. Does not wait for that
 * process.
 * @param ret_holder  pid 0: not known, or in a PID namespace that this process does not see
 * @return 0; -ECONNREFUSED, -ENOENT: nobody listens there; or another negative errno
 */
int unix_socket_holder(const struct sockaddr_un *addr, socklen_t addr_len,
		       struct ucred *ret_holder);

#endif
