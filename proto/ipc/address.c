/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "proto/ipc/ipc.h"

#define PREFIX "smcrd:"

int ipc_abstract_address(const char *path, struct sockaddr_un *ret_addr)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	/* sizeof(PREFIX) includes a NUL, which stands for the one before an abstract name. */
	const size_t max_len = sizeof(addr.sun_path) - sizeof(PREFIX);
	size_t len = strlen(path), prefix = strlen(PREFIX);
	if (len == 0)
		return -EINVAL;
	/* Most paths that differ do so at the end, so the end is kept. */
	if (len > max_len) {
		path += len - max_len;
		len = max_len;
	}
	memcpy(addr.sun_path + 1, PREFIX, prefix);
	memcpy(addr.sun_path + 1 + prefix, path, len);
	*ret_addr = addr;
	return (int)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix + len);
}
