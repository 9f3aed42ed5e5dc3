/* SPDX-License-Identifier: MIT */
/** @file monitor.h "smcrctl monitor": events as they happen. */
#ifndef SMCRD_SMCRCTL_MONITOR_H
#define SMCRD_SMCRCTL_MONITOR_H

#include "cli/smcrctl/output.h"
#include "cli/smcrctl/session.h"

/**
 * Print events until an interrupt ends the program, or until smcrd ends.
 * @param session  opened without a limit of time
 * @param request  of the method event.wait
 * @param before   print so many events that have happened already first
 * @return the exit status
 */
int monitor_run(struct session *session, const char *request, unsigned int before,
		const struct output *output);

#endif
