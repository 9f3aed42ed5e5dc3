/* SPDX-License-Identifier: MIT */
/**
 * @file methods.h
 * What there is in the one table of methods, for transports that name methods, parameters and
 * results themselves (daemon/bus).
 */
#ifndef SMCRD_CONTROL_METHODS_H
#define SMCRD_CONTROL_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_result {
	CONTROL_OBJECT,  /* shows one thing */
	CONTROL_ROWS,    /* shows a list of objects */
	CONTROL_OUTCOME, /* an object that says in "text" what a change has come to */
};

struct control_method {
	const char *name; /* "linkgroup.show"; or only "failover". Static storage */
	enum control_result result;
	bool session; /* of the Unix socket only: it waits long, or brings a descriptor */
	unsigned int required, optional; /* parameters: bits 1 << their number */
};

/** @return false: there is no method of this number; they count from 0 */
bool control_method(size_t number, struct control_method *ret_method);

enum control_type {
	CONTROL_NUMBER, /* up to `max` */
	CONTROL_TEXT,
	CONTROL_TRUTH, /* true or false */
};

struct control_param {
	const char *name; /* static storage */
	enum control_type type;
	uint32_t max;
};

/** @return false: there is no parameter of this number; they count from 0 */
bool control_param(unsigned int number, struct control_param *ret_param);

#endif
