/* SPDX-License-Identifier: MIT */
/**
 * @file answers.h
 * What the connections (daemon/conns/) ask and tell the rest of the daemon: may this connection use
 * SMC-R, how long is the prefix of this address, this connection has ended.
 */
#ifndef SMCRD_ANSWERS_H
#define SMCRD_ANSWERS_H

#include "daemon/conns/conns.h"
#include "daemon/daemon.h"

/** Fill in who answers. The daemon's other parts need not be there yet. */
void answers_fill(struct smcrd *smcrd, struct conns_callbacks *ret_callbacks);

/** Programs have work for the engine: tell it the time, before anything else of it is called. */
void answers_enter_engine(struct smcrd *smcrd);

#endif
