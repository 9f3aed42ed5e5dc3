/* SPDX-License-Identifier: MIT */
/**
 * @file options.h
 * What each socket option means on a pair end: the tables of docs/sockets.md and
 * docs/library.md.
 */
#ifndef SMCRD_LIB_SMCR_OPTIONS_H
#define SMCRD_LIB_SMCR_OPTIONS_H

enum pre_treatment {
	PRE_OPT_TCP,      /* acts on the TCP socket behind the pair: the daemon is asked */
	PRE_OPT_TOLD,     /* the same; of an int from least to most the daemon is only told */
	PRE_OPT_LOCAL,    /* acts on the program's end of the pair */
	PRE_OPT_FAMILY,   /* SO_DOMAIN: the family of the connection */
	PRE_OPT_PROTOCOL, /* SO_PROTOCOL: TCP */
	PRE_OPT_NOBODY,   /* SO_PEERCRED: no process, as with TCP */
	PRE_OPT_PUSHING,  /* TCP_NODELAY, TCP_CORK: kept with the pair end (pushing.h) */
	PRE_OPT_ERROR,    /* SO_ERROR: the outcome of connect(), else as LOCAL */
	PRE_OPT_REFUSED,  /* not possible on a pair end */
	PRE_OPT_OFF,      /* may only be turned off, which it is: REFUSED unless it is an int 0 */
};

struct pre_option {
	enum pre_treatment get, set;
	int error;       /* REFUSED, OFF: the positive errno of a kernel without this function */
	int least, most; /* TOLD */
};

/** What an option means on a pair end. Never fails: the daemon judges options that are not in the
 * table. Levels that TCP does not have are refused. */
struct pre_option pre_option_of(int level, int name);

#endif
