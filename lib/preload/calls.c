/* SPDX-License-Identifier: MIT */
#include "lib/preload/calls.h"

#include "lib/preload/next.h"
#include "lib/preload/sys.h"

int pre_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return sys_result(pre_next.connect(fd, addr, len));
}

int pre_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return sys_result(pre_next.accept(fd, addr, len));
}

int pre_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return sys_result(pre_next.accept4(fd, addr, len, flags));
}

int pre_listen(int fd, int backlog)
{
	return sys_result(pre_next.listen(fd, backlog));
}

int pre_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return sys_result(pre_next.epoll_ctl(epfd, op, fd, event));
}

int pre_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return sys_result(pre_next.getsockname(fd, addr, len));
}

int pre_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return sys_result(pre_next.getpeername(fd, addr, len));
}

int pre_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return sys_result(pre_next.getsockopt(fd, level, name, value, len));
}

int pre_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return sys_result(pre_next.setsockopt(fd, level, name, value, len));
}
