/* SPDX-License-Identifier: MIT */
/**
 * @file peers.h
 * "smcrctl peer": a row for each host with which SMC-R was used or tried. smcrd has no list of
 * them: smcrctl makes it from link groups, links, events and remembered failures.
 */
#ifndef SMCRD_SMCRCTL_PEERS_H
#define SMCRD_SMCRCTL_PEERS_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/session.h"
#include "cli/smcrctl/table.h"

/**
 * Make the list.
 * @param request  JSON text; "peer" of its params limits the rows to one peer
 * @return as pages_request(); the reply's result is an array
 */
int peers_gather(struct session *session, const char *request, json_t **ret_reply,
		 char ret_error[SESSION_ERROR_LEN]);

void peers_print(const json_t *result, bool details);

#define PEERS_NUM_COLUMNS 10
extern const struct column peer_columns[PEERS_NUM_COLUMNS];

#endif
