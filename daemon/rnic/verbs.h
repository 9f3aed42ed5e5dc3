/* SPDX-License-Identifier: MIT */
/**
 * @file verbs.h
 * Lists verbs devices. Thread rules as in rnic.h.
 */
#ifndef SMCRD_RNIC_VERBS_H
#define SMCRD_RNIC_VERBS_H

#include "daemon/rnic/rnic.h"

/** A port of a device that has a RoCE GID for an interface of the calling thread's namespace. */
struct rnic_verbs_port {
	char name[RNIC_NAME_LEN]; /* "verbs:mlx5_0/1", as rnic_open() takes it */
	char netdev[IF_NAMESIZE];
};

/** Call `fn` for each such port, in the order of libibverbs' list; devices that cannot be opened
 * are left out. */
void rnic_verbs_each(void (*fn)(void *ctx, const struct rnic_verbs_port *port), void *ctx);

/** The full name: "verbs:mlx5_0" is "verbs:mlx5_0/1". Other names stay as they are. */
void rnic_verbs_full_name(const char *name, char ret_name[RNIC_NAME_LEN]);

/**
 * Why registering `len` bytes with a verbs device failed with `error` (negative errno), and what to
 * do: without CAP_IPC_LOCK locked memory is limited (RLIMIT_MEMLOCK).
 */
void rnic_verbs_explain_memory(const char *name, size_t len, int error,
			       char ret_error[RNIC_ERROR_LEN]);

#endif
