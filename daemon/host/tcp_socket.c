/* SPDX-License-Identifier: MIT */
#include "daemon/host/tcp_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/holder.h"

#define HOST_LEN 64

socklen_t tcp_socket_address(const char *text, struct sockaddr_storage *ret_addr)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_addr;
	char host[HOST_LEN];
	unsigned int port = 0;
	int end = 0;
	memset(ret_addr, 0, sizeof(*ret_addr));
	bool v6 = sscanf(text, "[%63[0-9a-fA-F:.]]:%5u%n", host, &port, &end) == 2;
	if (!v6 && sscanf(text, "%63[0-9.]:%5u%n", host, &port, &end) != 2)
		return 0;
	if (text[end] || port < 1 || port > UINT16_MAX)
		return 0;
	if (v6) {
		*in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					      .sin6_port = htons((uint16_t)port) };
		return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1 ? sizeof(*in6) : 0;
	}
	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? sizeof(*in) : 0;
}

int tcp_socket_listen(const char *address, int backlog, char *ret_text, size_t len)
{
	struct sockaddr_storage addr;
	const int on = 1;
	char holder[HOLDER_TEXT];
	uid_t uid = 0;
	int r = 0;
	socklen_t addr_len = tcp_socket_address(address, &addr);
	int fd = addr_len ? socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
			  : -1;
	int error = addr_len ? 0 : EINVAL;
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd, (struct sockaddr *)&addr, addr_len) == 0 && listen(fd, backlog) == 0)
			return fd;
	}
	error = error ? error : errno;
	if (fd >= 0)
		close(fd);
	if (error == EADDRINUSE)
		r = holder_of_tcp(&addr, HOLDER_LOOP_MS, &uid);
	holder_text(r, uid, holder);
	snprintf(ret_text, len, "cannot listen on %s: %s%s%s", address, strerror(error),
		 error == EADDRINUSE ? ", by " : "", error == EADDRINUSE ? holder : "");
	return -error;
}
