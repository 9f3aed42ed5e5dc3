/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/netns.h"

#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* 0: the kernel does not tell */
static json_int_t own_cookie(void)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		cookie = 0;
	close(fd);
	return (json_int_t)cookie;
}

enum netns_relation netns_compare(const json_t *host)
{
	json_int_t theirs = json_integer_value(json_object_get(host, "netns_cookie"));
	json_int_t ours = own_cookie();
	if (!theirs || !ours)
		return NETNS_UNKNOWN;
	return theirs == ours ? NETNS_SAME : NETNS_OTHER;
}

bool netns_server(struct ipc_serving *ret_serving)
{
	socklen_t len = sizeof(*ret_serving);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bool told = getsockopt(fd, IPC_SOL_SMCR, IPC_SO_SERVING, ret_serving, &len) == 0 &&
		    len == sizeof(*ret_serving);
	close(fd);
	if (told)
		ret_serving->socket[sizeof(ret_serving->socket) - 1] = '\0';
	return told;
}
