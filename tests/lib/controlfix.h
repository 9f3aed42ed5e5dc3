/* SPDX-License-Identifier: MIT */
/**
 * @file controlfix.h
 * The control methods on an engine with a link group and connections, without a transport.
 */
#ifndef SMCRD_TESTS_LIB_CONTROLFIX_H
#define SMCRD_TESTS_LIB_CONTROLFIX_H

#include <event2/event.h>
#include <jansson.h>

#include "daemon/control/control.h"
#include "tests/lib/enginepair.h"

struct controlfix {
	struct event_base *base;
	struct config config;
	struct control control;
	struct pair *pair; /* control.engine is the engine of the pair's server */
	int conn;          /* index of a connection of the pair */
};

/** cmocka's setup and teardown: *state becomes a struct controlfix. */
int controlfix_setup(void **state);
int controlfix_teardown(void **state);
/** Call a method without parameters, as root or as nobody. The caller frees the parsed reply. */
json_t *controlfix_ask(struct controlfix *fix, bool root, const char *method);
/** A number inside a result; dots separate the keys of `path`. Fails if there is no number. */
json_int_t controlfix_number(const json_t *result, const char *path);

#endif
