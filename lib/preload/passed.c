/* SPDX-License-Identifier: MIT */
#include "lib/preload/passed.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How long is a control message? Another thread of the program may change that at any time, so it
 * is read here, once. @return at most `left`, in which there is room for a header; 0: it is no
 * control message */
static size_t length_at(const uint8_t *at, size_t left)
{
	const size_t len = ((const volatile struct cmsghdr *)at)->cmsg_len;
	return len >= sizeof(struct cmsghdr) && len <= left ? len : 0;
}

static void note_each(const uint8_t *at, size_t len, void (*note)(int fd))
{
	const struct cmsghdr *c = (const struct cmsghdr *)at;
	if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	for (size_t i = CMSG_LEN(0); i + sizeof(int) <= len; i += sizeof(int)) {
		int fd;
		memcpy(&fd, at + i, sizeof(fd));
		note(fd);
	}
}

void passed_each(const struct msghdr *msg, void (*note)(int fd))
{
	const volatile struct msghdr *m = msg;
	const uint8_t *at = m->msg_control;
	size_t left = at ? m->msg_controllen : 0;
	while (left >= sizeof(struct cmsghdr)) {
		const size_t len = length_at(at, left);
		if (len == 0)
			break;
		note_each(at, len, note);
		if (CMSG_ALIGN(len) >= left)
			break;
		at += CMSG_ALIGN(len);
		left -= CMSG_ALIGN(len);
	}
}
