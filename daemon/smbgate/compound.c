/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/compound.h"

#include <errno.h>

#define ALIGNMENT 8

int compound_split(const uint8_t *buf, size_t len, struct compound_part parts[COMPOUND_MOST])
{
	size_t at = 0;
	for (int n = 0; n < COMPOUND_MOST; n++) {
		struct compound_part *part = &parts[n];
		if (smb2_decode_header(buf + at, len - at, &part->header) < 0)
			return -EBADMSG;
		part->at = at;
		part->len = smb2_message_len(&part->header, len - at);
		if (part->header.next == 0)
			return n + 1;
		at += part->len;
	}
	return -E2BIG;
}

size_t compound_aligned(size_t len, bool last)
{
	return last ? len : (len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}
