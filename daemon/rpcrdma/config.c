/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "daemon/rpcrdma/internal.h"

static const struct rpcr_config defaults = {
	.receives = 32,
	.send_size = RPCRDMA_V2_THRESHOLD,
	.receive_size = RPCRDMA_V2_THRESHOLD,
	.segment_size = 1048576,
	.segment_count = 16,
	.most_reads = 16,
	.most_writes = 16,
	.most_calls = 128,
	.most_joined = 1048576,
	.answer_us = 30000000, /* RR2-40 */
	.v1_send_size = RPCRDMA_V1_THRESHOLD,
};

#define MOST_SIZE 1048576

#define FILL(field)                                                                                \
	do {                                                                                       \
		if (config->field == 0)                                                            \
			config->field = defaults.field;                                            \
	} while (0)

void rpcr_config_fill(struct rpcr_config *config)
{
	FILL(receives);
	FILL(send_size);
	FILL(receive_size);
	FILL(segment_size);
	FILL(segment_count);
	FILL(most_reads);
	FILL(most_writes);
	FILL(most_calls);
	FILL(most_joined);
	FILL(answer_us);
	FILL(v1_send_size);
}

static const char *wrong_with(const struct rpcr_config *config)
{
	if (config->receives > UINT16_MAX)
		return "receives have to be 1 to 65535";
	if (config->send_size < RPCRDMA_LEAST_SIZE || config->send_size > MOST_SIZE ||
	    config->receive_size < RPCRDMA_LEAST_SIZE || config->receive_size > MOST_SIZE)
		return "sizes of a SEND and of a receive have to be 128 to 1048576 bytes";
	if (config->segment_count > RPCRDMA_MOST_READS ||
	    config->segment_count > RPCRDMA_MOST_SEGMENTS)
		return "segments of a header have to be at most 64";
	if (config->most_writes > RPCRDMA_MOST_WRITES)
		return "Write chunks of a Call have to be at most 32";
	if (config->reverse > RPCRDMA_REVERSE_GENERAL)
		return "there is no such support of the reverse direction";
	return NULL;
}

int rpcr_config_check(const struct rpcr_config *config, const char **ret_why)
{
	struct rpcr_config filled = *config;
	rpcr_config_fill(&filled);
	const char *why = wrong_with(&filled);
	if (!why)
		return 0;
	*ret_why = why;
	return -EINVAL;
}
