/* SPDX-License-Identifier: MIT */
/** @file top_ask.h Samples of what smcrd has: asked for in pages, one after the other. */
#ifndef SMCRD_SMCRCTL_TOP_ASK_H
#define SMCRD_SMCRCTL_TOP_ASK_H

#include "cli/smcrctl/session.h"
#include "cli/smcrctl/top_sample.h"

struct top_ask {
	const char *socket_path;
	const json_t *filter; /* parameters of connection.show; NULL: none */
	struct top_sample now, before;
	bool has_now, has_before; /* before: of the same smcrd and filter */
	json_t *refusal;          /* smcrd's, if it has refused; else NULL */
};

/**
 * Take the next sample; the one before is kept. As long as that fails, nothing changes.
 * @return 0; -ENOENT: smcrd refuses (ask->refusal); as session_open() and pages_ask(); with a
 * sentence
 */
int top_ask(struct top_ask *ask, char ret_error[SESSION_ERROR_LEN]);

/** From now on by another filter: rates begin anew. */
void top_ask_filter(struct top_ask *ask, const json_t *filter);

void top_ask_free(struct top_ask *ask);

/** CLOCK_MONOTONIC in microseconds. */
uint64_t top_ask_now(void);

#endif
