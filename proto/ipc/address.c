/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "proto/ipc/ipc.h"

#define PREFIX "smcrd:"

int ipc_abstract_address(const char *path, struct sockaddr_un *ret_addr)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const size_t room = sizeof(addr.sun_path) - sizeof(PREFIX); /* its NUL counts for ours */
	size_t len = strlen(path), prefix = strlen(PREFIX);
	if (len == 0)
		return -EINVAL;
	/* Paths that differ mostly differ at their ends, so the end is kept. */
	if (len > room) {
		path += len - room;
		len = room;
	}
	memcpy(addr.sun_path + 1, PREFIX, prefix);
	memcpy(addr.sun_path + 1 + prefix, path, len);
	*ret_addr = addr;
	return (int)(offsetof(struct sockaddr_un, sun_path) + 1 + prefix + len);
}
