/* SPDX-License-Identifier: MIT */
/**
 * @file methods.h
 * The contents of the table of methods, for transports with names of their own for methods,
 * parameters and results (daemon/bus).
 */
#ifndef SMCRD_CONTROL_METHODS_H
#define SMCRD_CONTROL_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_result {
	CONTROL_OBJECT,  /* shows one object */
	CONTROL_ROWS,    /* shows a list of objects */
	CONTROL_OUTCOME, /* an object whose "text" tells the outcome of a change */
};

struct control_method {
	const char *name; /* as "linkgroup.show" or "failover". Static storage */
	enum control_result result;
	bool session; /* on the Unix socket only: it waits long, or needs a descriptor */
	unsigned int required, optional; /* parameters: bits 1 << their number */
};

/** @return false: there is no method with this number, which counts from 0 */
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

/** @return false: there is no parameter with this number, which counts from 0 */
bool control_param(unsigned int number, struct control_param *ret_param);

#endif
