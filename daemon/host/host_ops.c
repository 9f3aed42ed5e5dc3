/* SPDX-License-Identifier: MIT */
#include "daemon/host/host_ops.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/host/log.h"
#include "daemon/host/trace.h"

static void op_random(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	for (size_t at = 0; at < len;) {
		ssize_t n = getrandom((uint8_t *)buf + at, len - at, 0);
		if (n > 0)
			at += (size_t)n;
		else if (errno != EINTR)
			abort(); /* tokens must not be guessed: there is no way on without entropy
				  */
	}
}

static void op_log(void *ctx, int priority, const char *line)
{
	(void)ctx;
	log_message(priority, "%s", line);
}

static void op_trace(void *ctx, enum ipc_trace category, const char *line)
{
	(void)ctx;
	trace_tell(category, line);
}

const struct smcr_host_ops host_ops = { .random = op_random, .log = op_log, .trace = op_trace };
