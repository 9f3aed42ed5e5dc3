/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "proto/ipc/ipc.h"

#define PREFIX      "smcrd:"
#define TOLD_PREFIX "smcrd-at:%016" PRIx64 ":"
#define PREFIX_SIZE 32

int ipc_abstract_address(const char *path, uint64_t number, struct sockaddr_un *ret_addr)
{
	char prefix[PREFIX_SIZE] = PREFIX;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	if (number)
		snprintf(prefix, sizeof(prefix), TOLD_PREFIX, number);
	const size_t prefix_len = strlen(prefix);
	const size_t max_len = sizeof(addr.sun_path) - 1 - prefix_len;
	size_t len = strlen(path);
	if (len == 0)
		return -EINVAL;
	/* Most paths that differ do so at the end, so the end is kept. */
	if (len > max_len) {
		path += len - max_len;
		len = max_len;
	}
	memcpy(addr.sun_path + 1, prefix, prefix_len);
	memcpy(addr.sun_path + 1 + prefix_len, path, len);
	*ret_addr = addr;
	return (int)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix_len + len);
}
