/* SPDX-License-Identifier: MIT */
/** @file config_key.h What the files about the configuration share. */
#ifndef SMCRD_HOST_CONFIG_KEY_H
#define SMCRD_HOST_CONFIG_KEY_H

#include "daemon/host/config.h"

#define CONFIG_WHY_LEN POLICY_WHY_LEN

/** Where a value stands. */
struct config_place {
	enum config_origin origin;
	const char *file; /* CONFIG_FROM_FILE */
	unsigned int line;
};

/**
 * Take a value: check it, store what it means, and note it as a setting.
 * @param name     of the key
 * @param ret_why  on failure: a sentence
 * @return false: it is wrong, and nothing has changed
 */
bool config_put(struct config *config, const char *name, const char *value,
		const struct config_place *place, char ret_why[CONFIG_WHY_LEN]);

/** @return false: no memory, and there is nothing to free */
bool config_copy(const struct config *from, struct config *ret);

/** Every key that is no list has its default. @return as config_put() */
bool config_put_defaults(struct config *config, char ret_why[CONFIG_WHY_LEN]);

/** Nothing was said of RNICs. */
void config_clear_rnics(struct config *config);

/** The only setting of a key that is no list. */
struct config_setting *config_setting(const struct config *config, const char *name);

#endif
