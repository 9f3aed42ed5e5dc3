/* SPDX-License-Identifier: MIT */
#include "proto/smcr/eid.h"

#include <errno.h>
#include <string.h>

static bool is_alnum(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int smcr_ueid_parse(const char *text, uint8_t ret_eid[SMCR_EID_LEN])
{
	size_t len = strnlen(text, SMCR_EID_LEN + 1);
	if (len == 0 || len > SMCR_EID_LEN || !is_alnum(text[0]))
		return -EINVAL;
	for (size_t i = 1; i < len; i++)
		if (!is_alnum(text[i]) && text[i] != '.' && text[i] != '-')
			return -EINVAL;
	memset(ret_eid, ' ', SMCR_EID_LEN);
	memcpy(ret_eid, text, len);
	return 0;
}

void smcr_eid_text(const uint8_t eid[SMCR_EID_LEN], char ret_text[SMCR_EID_TEXT_LEN])
{
	size_t len = SMCR_EID_LEN;
	while (len > 0 && (eid[len - 1] == ' ' || eid[len - 1] == 0))
		len--;
	for (size_t i = 0; i < len; i++)
		ret_text[i] = eid[i] >= ' ' && eid[i] <= '~' ? (char)eid[i] : '?';
	ret_text[len] = '\0';
}

int smcr_eid_choose(const uint8_t (*offered)[SMCR_EID_LEN], size_t num_offered,
		    const uint8_t (*own)[SMCR_EID_LEN], size_t num_own)
{
	for (size_t i = 0; i < num_offered; i++)
		for (size_t j = 0; j < num_own; j++)
			if (memcmp(offered[i], own[j], SMCR_EID_LEN) == 0)
				return (int)i;
	return -ENOENT;
}
