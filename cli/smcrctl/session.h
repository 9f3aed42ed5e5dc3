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
	/* A wait for a reply ends when nobody reads standard output any more, and takes any time;
	 * false at first. */
	bool for_reader;
	/* Replies may take any time, once smcrd has greeted; false at first. */
	bool patient;
};

/**
 * Connect.
 * @param path     socket of the daemon; outlives the session
 * @param seconds  how long to wait for the daemon, for each request
 * @return 0; -ECONNREFUSED: no daemon there; -EACCES; each error with a sentence in ret_error
 */
int session_open(struct session *session, const char *path, unsigned int seconds,
		 char ret_error[SESSION_ERROR_LEN]);
void session_close(struct session *session);

/**
 * Send a CONTROL request and wait for its reply.
 * @param request    JSON text
 * @param ret_reply  malloc'ed, NUL terminated JSON text
 * @return 0; -ETIMEDOUT; -EPIPE: smcrd has ended; -ECANCELED: nobody reads standard output any more
 *         (for_reader); -EPROTO; each error with a sentence in ret_error
 */
int session_request(struct session *session, const char *request, char **ret_reply,
		    char ret_error[SESSION_ERROR_LEN]);

/**
 * Send a CONTROL request, the first one of the session, with a descriptor, and do not wait for the
 * reply: session->fd becomes readable when the reply has come, or smcrd has ended.
 * @return as session_request()
 */
int session_begin(struct session *session, const char *request, int descriptor,
		  char ret_error[SESSION_ERROR_LEN]);
/** Wait for the reply to session_begin(). @return as session_request() */
int session_end(struct session *session, char **ret_reply, char ret_error[SESSION_ERROR_LEN]);

#endif
