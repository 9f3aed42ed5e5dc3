/* SPDX-License-Identifier: MIT */
/**
 * @file daemon.h
 * smcrd as a whole: makes its parts in order, connects them, and frees them again.
 */
#ifndef SMCRD_DAEMON_H
#define SMCRD_DAEMON_H

#include "daemon/host/config.h"

#define DAEMON_ERROR_LEN 512

struct smcrd;

/**
 * Start everything: interfaces, RNICs, engine, TCP option, socket. If something that is not needed
 * fails, that is logged: the TCP option where BPF is not permitted, or discovered RNICs that cannot
 * be opened. What was asked for by name must work; a named interface that is missing is waited for,
 * if there is another RNIC.
 * @param config  ownership passes to this function, also on failure
 * @param source  where the configuration came from and is read again; must exist as long as the
 *                process
 * @return 0, or a negative errno with a sentence in `ret_error`; -EALREADY: another smcrd serves
 *         this network namespace
 */
int smcrd_new(struct config *config, const struct config_source *source, struct smcrd **ret_smcrd,
	      char ret_error[DAEMON_ERROR_LEN]);

/** Serve until SIGTERM or SIGINT, then stop in good order (TERM-1). On SIGHUP read the
 * configuration again. */
void smcrd_run(struct smcrd *smcrd);
void smcrd_free(struct smcrd *smcrd);

#endif
