/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "daemon/smbdirect/internal.h"

/* Defaults of Windows and Linux (SMBD-156, SMBD-157, SMBD-158). */
static const struct smbd_config defaults = {
	.receive_credit_max = 255,
	.send_credit_target = 255,
	.max_send_size = 1364,
	.max_receive_size = 8192,
	.max_fragmented_size = 1048576,
	.max_read_write_size = 8388608,
	.keepalive_us = 120000000,
	.answer_us = 5000000,
};
/* A server frees itself of those who only connect (SMBD-33); a client may wait (SMBD-27). */
#define NEGOTIATION_ACTIVE_US  120000000
#define NEGOTIATION_PASSIVE_US 5000000

/* Windows refuses to receive more than this in a SEND (SMBD-159). */
#define MOST_SEND_SIZE    8136
#define MOST_RECEIVE_SIZE 65536
/* Linux ends a connection whose limit is below its page size, which is 64 KiB at most (SMBD-178).
 */
#define LEAST_READ_WRITE_SIZE 65536

#define FILL(field)                                                                                \
	do {                                                                                       \
		if (config->field == 0)                                                            \
			config->field = defaults.field;                                            \
	} while (0)

void smbd_config_fill(struct smbd_config *config, enum smbd_role role)
{
	FILL(receive_credit_max);
	FILL(send_credit_target);
	FILL(max_send_size);
	FILL(max_receive_size);
	FILL(max_fragmented_size);
	FILL(max_read_write_size);
	FILL(keepalive_us);
	FILL(answer_us);
	if (config->negotiation_us == 0)
		config->negotiation_us =
			role == SMBD_ACTIVE ? NEGOTIATION_ACTIVE_US : NEGOTIATION_PASSIVE_US;
}

/* What is wrong with a configuration without zeros; NULL: nothing. */
static const char *wrong_with(const struct smbd_config *config)
{
	if (config->receive_credit_max < SMBD_MIN_CREDITS ||
	    config->receive_credit_max > SMBD_MAX_CREDITS ||
	    config->send_credit_target < SMBD_MIN_CREDITS ||
	    config->send_credit_target > SMBD_MAX_CREDITS)
		return "credits have to be 3 to 65535";
	if (config->max_send_size < SMBDIRECT_MIN_RECEIVE_SIZE ||
	    config->max_send_size > MOST_SEND_SIZE)
		return "the size of a SEND has to be 128 to 8136 bytes";
	if (config->max_receive_size < SMBDIRECT_MIN_RECEIVE_SIZE ||
	    config->max_receive_size > MOST_RECEIVE_SIZE)
		return "the size of a receive has to be 128 to 65536 bytes";
	if (config->max_fragmented_size < SMBDIRECT_MIN_FRAGMENTED_SIZE)
		return "the size of a message has to be at least 131072 bytes";
	if (config->max_read_write_size < LEAST_READ_WRITE_SIZE)
		return "the size of an RDMA transfer has to be at least 65536 bytes";
	return NULL;
}

int smbd_config_check(const struct smbd_config *config, const char **ret_why)
{
	struct smbd_config filled = *config;
	smbd_config_fill(&filled, SMBD_PASSIVE);
	const char *why = wrong_with(&filled);
	if (!why)
		return 0;
	*ret_why = why;
	return -EINVAL;
}
