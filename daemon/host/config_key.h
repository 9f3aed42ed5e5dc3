/* SPDX-License-Identifier: MIT */
/** @file config_key.h Declarations that the files about the configuration share. */
#ifndef SMCRD_HOST_CONFIG_KEY_H
#define SMCRD_HOST_CONFIG_KEY_H

#include "daemon/host/config.h"

#define CONFIG_WHY_LEN POLICY_WHY_LEN

/** Where a value was given. */
struct config_place {
	enum config_origin origin;
	const char *file; /* CONFIG_FROM_FILE */
	unsigned int line;
};

/**
 * Give a key a value: check the value, store what it means, and note it as a setting.
 * @param name  name of the key
 * @param ret_why  on failure: a sentence that says why
 * @return false: the value is wrong, and nothing has changed
 */
bool config_put(struct config *config, const char *name, const char *value,
		const struct config_place *place, char ret_why[CONFIG_WHY_LEN]);

/** @return false: no memory, and `ret` need not be freed */
bool config_copy(const struct config *from, struct config *ret);

/** Give every key that is no list its default. @return as config_put() */
bool config_put_defaults(struct config *config, char ret_why[CONFIG_WHY_LEN]);

/** Forget all RNICs, as if none had been named. */
void config_clear_rnics(struct config *config);

/** The only setting of a key that is no list, or the first of a list. @return NULL: there is none
 */
struct config_setting *config_setting(const struct config *config, const char *name);

#endif
