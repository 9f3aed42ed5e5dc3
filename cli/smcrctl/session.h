/* SPDX-License-Identifier: MIT */
/**
 * @file session.h
 * One request to smcrd over its Unix socket (proto/ipc/ipc.h).
 */
#ifndef SMCRD_SMCRCTL_SESSION_H
#define SMCRD_SMCRCTL_SESSION_H

#include <stddef.h>

#define SESSION_ERROR_LEN 512

/**
 * Connect, greet, send one CONTROL request and wait for its reply.
 * @param path       socket of the daemon
 * @param request    JSON text
 * @param seconds    patience
 * @param ret_reply  malloc'ed, NUL terminated JSON text
 * @return 0; -ECONNREFUSED: no daemon there; -ETIMEDOUT; -EPROTO; in each case with a sentence
 */
int session_request(const char *path, const char *request, unsigned int seconds, char **ret_reply,
		    char ret_error[SESSION_ERROR_LEN]);

#endif
