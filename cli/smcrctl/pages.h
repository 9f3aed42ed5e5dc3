/* SPDX-License-Identifier: MIT */
/**
 * @file pages.h
 * smcrd shows what there may be many of in parts (daemon/control/control.h); here they become one.
 */
#ifndef SMCRD_SMCRCTL_PAGES_H
#define SMCRD_SMCRCTL_PAGES_H

#include <jansson.h>

#include "cli/smcrctl/session.h"

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
