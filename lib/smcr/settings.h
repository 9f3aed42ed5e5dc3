/* SPDX-License-Identifier: MIT */
/**
 * @file settings.h
 * What smcr-run puts into the environment, and which smcrd this process uses.
 */
#ifndef SMCRD_LIB_SMCR_SETTINGS_H
#define SMCRD_LIB_SMCR_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PRE_REQUIRE_ENV "SMCR_REQUIRE"
#define PRE_VERBOSE_ENV "SMCR_VERBOSE"
#define PRE_SHARED_ENV  "SMCRD_SHARED" /* "no", "yes" or "always" */
#define PRE_DLOPEN_ENV  "SMCR_DLOPEN"  /* "0": dlopen() and dlmopen() are the C library's */

/** Does the program's process share memory with smcrd (path.h)? */
enum pre_sharing {
	PRE_SHARING_NO,
	PRE_SHARING_YES,    /* for connections that move many bytes */
	PRE_SHARING_ALWAYS, /* for all connections, at once */
};

struct pre_settings {
	struct sockaddr_un daemon;          /* where smcrd listens */
	socklen_t daemon_len;               /* 0: the path in the environment is too long */
	struct sockaddr_un daemon_abstract; /* ipc_abstract_address() of it, without a number */
	socklen_t daemon_abstract_len;
	uint64_t program;  /* ipc_program_id() of this program; 0: its path is unknown */
	bool require;      /* use PRE_REQUIRE instead of PRE_PREFER */
	bool verbose;      /* say on standard error what became of each connection */
	bool dlopen_alone; /* plugins may be opened so that their calls pass the library by */
	bool valgrind;     /* the program runs under valgrind (readable.h) */
	enum pre_sharing sharing;
};

/** Written once, before pre_ready() returns true for the first time. Tests change them. */
extern struct pre_settings pre_settings;

/** For pre_ready(): read the environment. */
void pre_settings_read(void);

/**
 * Use another smcrd than the environment's. For programs of smcrd itself (smcrctl), before they
 * have threads.
 * @param path  path of its socket; if it is too long, no smcrd is used
 */
void pre_set_daemon(const char *path);

#endif
