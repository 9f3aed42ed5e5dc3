/* SPDX-License-Identifier: MIT */
#include "lib/preload/passed.h"

#include <stddef.h>
#include <stdint.h>

void passed_each(const struct msghdr *msg, void (*note)(int fd))
{
	struct msghdr *m = (struct msghdr *)msg;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;
			__builtin_memcpy(&fd, (uint8_t *)c + at, sizeof(fd));
			note(fd);
		}
	}
}
