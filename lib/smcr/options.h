/* SPDX-License-Identifier: MIT */
/**
 * @file options.h
 * What each socket option means on a pair end: the tables of docs/sockets.md and
 * docs/library.md.
 */
#ifndef SMCRD_LIB_SMCR_OPTIONS_H
#define SMCRD_LIB_SMCR_OPTIONS_H

enum pre_treatment {
	PRE_OPT_TCP,      /* acts on the TCP socket behind it: the daemon is asked */
	PRE_OPT_LOCAL,    /* acts on the program's own end */
	PRE_OPT_FAMILY,   /* SO_DOMAIN: of the connection */
	PRE_OPT_PROTOCOL, /* SO_PROTOCOL: TCP */
	PRE_OPT_NOBODY,   /* SO_PEERCRED: no process, as on TCP */
	PRE_OPT_ERROR,    /* SO_ERROR: the outcome of connect(), else as LOCAL */
	PRE_OPT_REFUSED,  /* cannot be had on a pair end */
};

struct pre_option {
	enum pre_treatment get, set;
	int error; /* REFUSED: positive errno, what a kernel without the function says */
};

/** Never fails: options that nobody knows here are the daemon's to judge. Levels that TCP does not
 *  have are refused, in the words of a Unix socket where these are the same. */
struct pre_option pre_option_of(int level, int name);

#endif
