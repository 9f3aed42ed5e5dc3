/* SPDX-License-Identifier: MIT */
/** @file trace.h The protocol trace of the connection manager. */
#ifndef SMCRD_CM_TRACE_H
#define SMCRD_CM_TRACE_H

#include "daemon/cm/cm.h"

/** Write a message to the log, if operators have turned the category cm on. */
void cm_trace(const struct cm_message *message);

#endif
