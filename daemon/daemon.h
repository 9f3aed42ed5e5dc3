/* SPDX-License-Identifier: MIT */
/**
 * @file daemon.h
 * smcrd as a whole: builds the rooms in order, connects them, and takes them down again.
 */
#ifndef SMCRD_DAEMON_H
#define SMCRD_DAEMON_H

#include "daemon/host/config.h"

#define DAEMON_ERROR_LEN 512

struct smcrd;

/**
 * Bring everything up: interfaces, RNICs, engine, TCP option, socket.
 * What can be done without is logged and done without: the TCP option where BPF is not permitted,
 * discovered RNICs that cannot be opened. What was asked for by name must work; a named interface
 * that is missing is waited for, if another RNIC is there.
 * @param config  taken over, also on failure
 * @param source  where it came from, and is read again; lives as long as the process
 * @return 0, or a negative errno with a sentence in `ret_error`
 */
int smcrd_new(struct config *config, const struct config_source *source, struct smcrd **ret_smcrd,
	      char ret_error[DAEMON_ERROR_LEN]);

/** Serve until SIGTERM or SIGINT, then stop in order (TERM-1). SIGHUP: read the configuration. */
void smcrd_run(struct smcrd *smcrd);
void smcrd_free(struct smcrd *smcrd);

#endif
