/* SPDX-License-Identifier: MIT */
/** @file log.h "smcrctl log": what smcrd's log has, made of two keys of the configuration. */
#ifndef SMCRD_SMCRCTL_LOG_H
#define SMCRD_SMCRCTL_LOG_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/session.h"

/**
 * Ask for the configuration, and make an object with "level" and "trace" of it.
 * @param request  is not needed
 * @return as pages_request()
 */
int log_gather(struct session *session, const char *request, json_t **ret_reply,
	       char ret_error[SESSION_ERROR_LEN]);

void log_print(const json_t *result, bool details);

/** LEVEL as params of config.set. @return words taken, or -1 after an error message */
int log_level_argument(int argc, char **argv, json_t *params);
/** CATEGORY .. or "off" as params of config.set. @return as log_level_argument() */
int log_trace_arguments(int argc, char **argv, json_t *params);

/** The words for both, NULL behind the last one. */
extern const char *const log_levels[];
extern const char *const log_traces[];

#endif
