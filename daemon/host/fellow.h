/* SPDX-License-Identifier: MIT */
/**
 * @file fellow.h
 * Which process another smcrd of this network namespace is, for sentences: who listens at its
 * abstract address (ipc_abstract_address()). Any user can listen at such an address. So the user
 * has to be known from elsewhere, and nothing may depend on what is found.
 */
#ifndef SMCRD_HOST_FELLOW_H
#define SMCRD_HOST_FELLOW_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/ipc/ipc.h"

/** @param socket_path  of that smcrd. @return its process, if it is of that user; 0: not known */
pid_t fellow_pid(const char *socket_path, uid_t uid);

struct fellow {
	pid_t pid; /* 0: not known */
	char socket[IPC_SERVING_PATH_MAX];
};

/** Find an smcrd of a user. @return whether there is one */
bool fellow_find(uid_t uid, struct fellow *ret_fellow);

#endif
