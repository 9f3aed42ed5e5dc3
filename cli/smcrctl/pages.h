/* SPDX-License-Identifier: MIT */
/**
 * @file pages.h
 * smcrd shows what there may be many of in parts (daemon/control/control.h); here they become one.
 */
#ifndef SMCRD_SMCRCTL_PAGES_H
#define SMCRD_SMCRCTL_PAGES_H

#include <jansson.h>

#include "cli/smcrctl/session.h"

#define PAGES_PLACE_LEN 64

/**
 * Make one request.
 * @param request    JSON text
 * @param after      the place where the part before has ended, or NULL
 * @param ret_reply  the caller frees it
 * @return 0; -EBADMSG: the reply is no JSON; as session_request(); with a sentence
 */
int pages_ask(struct session *session, const char *request, const char *after, json_t **ret_reply,
	      char ret_error[SESSION_ERROR_LEN]);

/** Where the part that a reply has ends, to ask for the next one; NULL: it was the last one. */
const char *pages_next(const json_t *reply);

/**
 * Make a request and, as long as its reply says that there is more, the next one.
 * @param request    JSON text
 * @param ret_reply  the reply with all parts; the caller frees it. Or a later one, if that is an
 * error
 * @return 0; -EBADMSG: a reply is no JSON; as session_request(); with a sentence
 */
int pages_request(struct session *session, const char *request, json_t **ret_reply,
		  char ret_error[SESSION_ERROR_LEN]);

#endif
