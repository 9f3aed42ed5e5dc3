/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/serving.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static bool knows_earlier_option(int fd)
{
	int value;
	socklen_t len = sizeof(value);
	return getsockopt(fd, IPC_SOL_SMCR, IPC_SO_STANDS_STILL, &value, &len) == 0;
}

/* The kernel's own answer is ENOPROTOOPT or EOPNOTSUPP. */
static int ask(int fd, struct ipc_serving *serving)
{
	socklen_t len = sizeof(*serving);
	if (getsockopt(fd, IPC_SOL_SMCR, IPC_SO_SERVING, serving, &len) < 0) {
		if (errno != ENOPROTOOPT && errno != EOPNOTSUPP)
			return -errno;
		return knows_earlier_option(fd) ? -EPROTO : -ENOENT;
	}
	if (len != sizeof(*serving))
		return -EPROTO;
	serving->socket[sizeof(serving->socket) - 1] = '\0';
	return 0;
}

int rdv_serving_ask(struct ipc_serving *ret_serving)
{
	*ret_serving = (struct ipc_serving){ 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int r = ask(fd, ret_serving);
	close(fd);
	return r;
}
