/* SPDX-License-Identifier: MIT */
/** Engine pairs with UEIDs, which speak version 2. */
#ifndef SMCRD_TESTS_ENGINEPAIR_V2_H
#define SMCRD_TESTS_ENGINEPAIR_V2_H

#include <stdio.h>

#include "proto/smcr/eid.h"
#include "tests/lib/enginepair.h"

static inline void pair_add_ueid(struct smcr_config *config, const char *name)
{
	assert_int_equal(smcr_ueid_parse(name, config->ueids[config->num_ueids++]), 0);
}

/** A configuration with UEIDs of one letter each: "AB" means the UEIDs A and B. */
static inline struct smcr_config pair_config_with(int side, const char *ueids)
{
	struct smcr_config config = pair_config(side);
	for (const char *c = ueids; *c; c++)
		pair_add_ueid(&config, (char[]){ *c, '\0' });
	snprintf(config.host_name, sizeof(config.host_name), "host%d", side);
	return config;
}

static inline struct pair *pair_new_with(const char *server, const char *client, size_t rnics)
{
	struct smcr_config s = pair_config_with(PAIR_SERVER, server),
			   c = pair_config_with(PAIR_CLIENT, client);
	return pair_new(&s, &c, rnics, rnics);
}

static inline int pair_connected_well(struct pair *pair)
{
	int conn = pair_connected(pair);
	pair_exchange(pair, conn);
	return conn;
}

#endif
