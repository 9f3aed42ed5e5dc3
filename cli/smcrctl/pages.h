/* SPDX-License-Identifier: MIT */
/**
 * @file pages.h
 * smcrd sends views that may be long in parts (daemon/control/control.h). Here the parts are
 * joined.
 */
#ifndef SMCRD_SMCRCTL_PAGES_H
#define SMCRD_SMCRCTL_PAGES_H

#include <jansson.h>

#include "cli/smcrctl/session.h"

#define PAGES_PLACE_LEN 64

/**
 * Make one request.
 * @param request    JSON text
 * @param after      where the previous part ended; NULL: ask for the first part
 * @param ret_reply  the caller frees it
 * @return 0, -EBADMSG: the reply is no JSON, or as session_request(); ret_error has a sentence then
 */
int pages_ask(struct session *session, const char *request, const char *after, json_t **ret_reply,
	      char ret_error[SESSION_ERROR_LEN]);

/** Where the part in this reply ends, for asking for the next part; NULL: this was the last part.
 */
const char *pages_next(const json_t *reply);

/**
 * Make a request, and ask for further parts as long as there are some.
 * @param request    JSON text
 * @param ret_reply  the reply with all parts, or the first reply that is an error; the caller frees
 * it
 * @return 0, -EBADMSG: a reply is no JSON, or as session_request(); ret_error has a sentence then
 */
int pages_request(struct session *session, const char *request, json_t **ret_reply,
		  char ret_error[SESSION_ERROR_LEN]);

#endif
