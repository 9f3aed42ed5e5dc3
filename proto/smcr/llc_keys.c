/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "proto/smcr/llc_parts.h"

#define TYPE_MASK 0x0F /* version 2 has the same types with another high nibble */

/* So many bytes from the start tell no key, in either version and dialect. */
static size_t open_part(uint8_t type)
{
	switch (type & TYPE_MASK) {
	case SMCR_LLC_CONFIRM_LINK:
	case SMCR_LLC_DELETE_LINK:
	case SMCR_LLC_REQUEST_ADD_LINK:
	case SMCR_LLC_TEST_LINK: return SIZE_MAX;
	case SMCR_LLC_ADD_LINK: return 31; /* its PSN follows, at 31 or 33 */
	case SMCR_LLC_ADD_LINK_CONT:
	case SMCR_LLC_DELETE_RKEY: return 8;
	case SMCR_LLC_CONFIRM_RKEY:
	case SMCR_LLC_CONFIRM_RKEY_CONT: return 5;
	default: return LLC_HEADER_LEN;
	}
}

void smcr_llc_hide_keys(uint8_t *buf, size_t len)
{
	size_t open = len ? open_part(buf[0]) : 0;
	if (len > open)
		memset(buf + open, 0, len - open);
}
