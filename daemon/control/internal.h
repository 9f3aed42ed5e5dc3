/* SPDX-License-Identifier: MIT */
/** @file internal.h What the files of this room share. */
#ifndef SMCRD_CONTROL_INTERNAL_H
#define SMCRD_CONTROL_INTERNAL_H

#include <jansson.h>

#include "daemon/control/control.h"

/** Why a request is refused or a command failed. */
struct refusal {
	const char *code;      /* short, stable */
	int error;             /* positive errno */
	const char *parameter; /* the one to blame, or NULL */
	char text[256];
};

/** @return NULL, so that methods without a result can return this */
void *refuse(struct refusal *refusal, int error, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** The reply as text, malloc'ed, or NULL without memory. Takes `result` over; NULL: refused. */
char *reply_text(json_t *result, const struct refusal *refusal);

/* params.c */

/** Parameters that methods take; a set of them is made of bits 1 << PARAM_.. */
enum param_name {
	PARAM_LINKGROUP,
	PARAM_LINK,
	PARAM_FROM,
	PARAM_TO,
	PARAM_DISORDERLY,
	PARAM_NAME,
	PARAM_RULE,
	PARAM_PEER,
	PARAM_PORT,
	NUM_PARAMS,
};

/** Their values; 0, false or NULL if not given. Text belongs to the request. */
struct params {
	uint32_t linkgroup;
	uint8_t link, from, to;
	bool disorderly;
	const char *name, *rule, *peer;
	uint16_t port;
};

/**
 * Check and take the "params" of a request (NULL: it has none). What is not in `required` or
 * `optional` is refused, so that a client of a later version learns that it would be ignored.
 * @return true, or false with the refusal filled in
 */
bool params_take(const json_t *json, unsigned int required, unsigned int optional,
		 struct params *ret_params, struct refusal *refusal);

/* ueids.c: these do what they are asked for at once. @return the result or NULL: refused */
json_t *ueid_add(struct control *control, const struct params *params, struct refusal *refusal);
json_t *ueid_remove(struct control *control, const struct params *params, struct refusal *refusal);

/* policies.c: likewise */
json_t *policy_add(struct control *control, const struct params *params, struct refusal *refusal);
json_t *policy_delete(struct control *control, const struct params *params,
		      struct refusal *refusal);
json_t *policy_forget_place(struct control *control, const struct params *params,
			    struct refusal *refusal);

/* commands.c */

/**
 * Start a command of the engine for whoever asks.
 * @return true: the reply comes later; or false with the refusal filled in
 */
bool command_start(struct control *control, uint64_t request, enum smcr_command_type type,
		   const struct params *params, struct refusal *refusal);

#endif
