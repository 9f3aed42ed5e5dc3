/* SPDX-License-Identifier: MIT */
/** @file ask.h Requests to smcrd, each in a session of its own, for tools that need several. */
#ifndef SMCRD_SMCRCTL_ASK_H
#define SMCRD_SMCRCTL_ASK_H

#include <jansson.h>
#include <sys/types.h>

#include "cli/smcrctl/session.h"

/**
 * Ask smcrd, in a session of its own.
 * @param seconds     how long to wait for smcrd
 * @param params      the reference is taken over; NULL: none
 * @param ret_result  the method's result; the caller frees it
 * @return 0, -ENOENT: smcrd refuses, or what session_open() and pages_request() return. ret_error
 * then has a sentence
 */
int ask_smcrd(const char *socket_path, unsigned int seconds, const char *method, json_t *params,
	      json_t **ret_result, char ret_error[SESSION_ERROR_LEN]);

/** The process that listens at the socket. @return its id, or 0: no process does */
pid_t ask_pid(const char *socket_path);

#endif
