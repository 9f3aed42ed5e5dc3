/* SPDX-License-Identifier: MIT */
/**
 * @file peers.h
 * "smcrctl peer": a row for each host that SMC-R was spoken with or tried with. smcrd has no list
 * of them: it is put together of link groups, links, events and what is remembered of failures.
 */
#ifndef SMCRD_SMCRCTL_PEERS_H
#define SMCRD_SMCRCTL_PEERS_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/session.h"
#include "cli/smcrctl/table.h"

/**
 * @param request  JSON text: of its params, "peer" limits the rows to one
 * @return as pages_request(); the reply's result is an array
 */
int peers_gather(struct session *session, const char *request, json_t **ret_reply,
		 char ret_error[SESSION_ERROR_LEN]);

void peers_print(const json_t *result, bool details);

#define PEERS_NUM_COLUMNS 10
extern const struct column peer_columns[PEERS_NUM_COLUMNS];

#endif
