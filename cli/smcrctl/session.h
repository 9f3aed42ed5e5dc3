/* SPDX-License-Identifier: MIT */
/**
 * @file session.h
 * Requests to smcrd over its Unix socket (proto/ipc/ipc.h).
 */
#ifndef SMCRD_SMCRCTL_SESSION_H
#define SMCRD_SMCRCTL_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#define SESSION_ERROR_LEN 512

struct session {
	int fd;
	const char *path;
	bool greeted;
	/* Waiting for a reply ends when nobody reads standard output any more; false at first. */
	bool for_reader;
};

/**
 * Connect.
 * @param path     socket of the daemon; outlives the session
 * @param seconds  patience with the daemon, for each request; 0: without end
 * @return 0; -ECONNREFUSED: no daemon there; -EACCES; in each case with a sentence
 */
int session_open(struct session *session, const char *path, unsigned int seconds,
		 char ret_error[SESSION_ERROR_LEN]);
void session_close(struct session *session);

/**
 * Send a CONTROL request and wait for its reply.
 * @param request    JSON text
 * @param ret_reply  malloc'ed, NUL terminated JSON text
 * @return 0; -ETIMEDOUT; -EPIPE: smcrd has ended; -ECANCELED: nobody reads standard output any more
 *         (for_reader); -EPROTO; in each case with a sentence
 */
int session_request(struct session *session, const char *request, char **ret_reply,
		    char ret_error[SESSION_ERROR_LEN]);

/**
 * Send a CONTROL request, the first one of the session, with a descriptor, and wait for no reply:
 * `fd` becomes readable when there is one, or smcrd ends.
 * @return 0; as session_request(), with a sentence
 */
int session_begin(struct session *session, const char *request, int descriptor,
		  char ret_error[SESSION_ERROR_LEN]);
/** The reply to that. As session_request(). */
int session_end(struct session *session, char **ret_reply, char ret_error[SESSION_ERROR_LEN]);

#endif
