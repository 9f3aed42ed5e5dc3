/* SPDX-License-Identifier: MIT */
/** @file trace.h The protocol trace of SMB Direct. */
#ifndef SMCRD_SMBGATE_TRACE_H
#define SMCRD_SMBGATE_TRACE_H

#include "daemon/smbgate/gate.h"

/** Write a message to the log, if operators have turned the category smbdirect on. */
void smbgate_trace(const struct smbgate_message *message);

#endif
