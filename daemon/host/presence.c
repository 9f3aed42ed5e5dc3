/* SPDX-License-Identifier: MIT */
#include "daemon/host/presence.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME "smcrd-presence:"

/* A random name: process ids are not unique, since other pid namespaces may have the same. */
static int random_name(struct sockaddr_un *ret_addr, socklen_t *ret_len)
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return -EIO;
	*ret_addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int len = snprintf(ret_addr->sun_path + 1, sizeof(ret_addr->sun_path) - 1,
			   NAME "%016" PRIx64, number);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	return 0;
}

/* The socket does not listen, so nobody can connect to it. */
int presence_show(void)
{
	struct sockaddr_un addr;
	socklen_t len;
	int error = random_name(&addr, &len);
	if (error)
		return error;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&addr, len) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

void presence_end(int presence)
{
	if (presence >= 0)
		close(presence);
}

bool presence_is_alone(void)
{
	char *line = NULL;
	size_t size = 0;
	unsigned int seen = 0;
	FILE *sockets = fopen("/proc/thread-self/net/unix", "re");
	if (!sockets)
		return false;
	while (getline(&line, &size, sockets) >= 0)
		seen += strstr(line, " @" NAME) != NULL;
	/* The one is this process's own. */
	bool alone = !ferror(sockets) && seen == 1;
	free(line);
	fclose(sockets);
	return alone;
}
