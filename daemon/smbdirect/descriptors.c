/* SPDX-License-Identifier: MIT */
#include "daemon/smbdirect/descriptors.h"

#include <errno.h>
#include <stdbool.h>

uint64_t smbd_descriptors_length(const struct smbdirect_descriptor *list, size_t n)
{
	uint64_t length = 0;
	for (size_t i = 0; i < n; i++)
		length += list[i].length;
	return length;
}

/* The first `length` bytes of a piece behind `skip` bytes of it. @return false: the address wraps
 */
static bool cut(const struct smbdirect_descriptor *from, uint64_t skip, uint32_t length,
		struct smbdirect_descriptor *ret_part)
{
	ret_part->token = from->token;
	ret_part->length = length;
	return !__builtin_add_overflow(from->offset, skip, &ret_part->offset) &&
	       ret_part->offset <= UINT64_MAX - length;
}

int smbd_descriptors_locate(const struct smbdirect_descriptor *list, size_t n, uint64_t offset,
			    uint32_t length, uint32_t most, struct smbdirect_descriptor *ret_parts)
{
	uint32_t left = length;
	int parts = 0;
	if (length == 0)
		return -EINVAL;
	if (length > most)
		return -EMSGSIZE;
	for (size_t i = 0; i < n && left > 0; i++) {
		if (offset >= list[i].length) { /* also a piece without bytes */
			offset -= list[i].length;
			continue;
		}
		uint64_t here = list[i].length - offset;
		uint32_t used = here < left ? (uint32_t)here : left;
		if (!cut(&list[i], offset, used, &ret_parts[parts++]))
			return -ERANGE;
		left -= used;
		offset = 0;
	}
	return left > 0 ? -ERANGE : parts;
}
