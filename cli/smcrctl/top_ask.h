/* SPDX-License-Identifier: MIT */
/** @file top_ask.h Takes samples of smcrd's views, page by page. */
#ifndef SMCRD_SMCRCTL_TOP_ASK_H
#define SMCRD_SMCRCTL_TOP_ASK_H

#include "cli/smcrctl/session.h"
#include "cli/smcrctl/top_sample.h"

struct top_ask {
	const char *socket_path;
	const json_t *filter; /* parameters of connection.show; NULL: none */
	struct top_sample now, before;
	bool has_now, has_before; /* `before` is of the same smcrd and filter as `now` */
	json_t *refusal;          /* the "error" with which smcrd has refused; else NULL */
};

/**
 * Take the next sample; the sample before is kept. On failure both stay as they are.
 * @return 0, -ENOENT: smcrd refuses (ask->refusal), or as session_open() and pages_ask(); ret_error
 * then has a sentence
 */
int top_ask(struct top_ask *ask, char ret_error[SESSION_ERROR_LEN]);

/** From now on use another filter: rates begin anew. */
void top_ask_filter(struct top_ask *ask, const json_t *filter);

void top_ask_free(struct top_ask *ask);

/** CLOCK_MONOTONIC in microseconds. */
uint64_t top_ask_now(void);

#endif
