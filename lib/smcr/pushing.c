/* SPDX-License-Identifier: MIT */
#include "lib/smcr/pushing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "lib/smcr/sys.h"

/* For each option: it was set, and is on. The kernel's own value, all ones, has none of these. */
#define NODELAY_SET    0x01UL
#define NODELAY_ON     0x02UL
#define NODELAY_WAS_ON 0x10UL
#define CORK_SET       0x04UL
#define CORK_ON        0x08UL
#define NEVER_SET      (~0UL)

static unsigned long marks_of(int fd)
{
	unsigned long marks = NEVER_SET;
	socklen_t len = sizeof(marks);
	if (sys_getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &marks, &len) < 0 ||
	    len != sizeof(marks) || marks == NEVER_SET)
		return 0;
	return marks;
}

bool pre_pushing_get(int fd, int name, bool *ret_on)
{
	const unsigned long marks = marks_of(fd);
	*ret_on = marks & (name == TCP_CORK ? CORK_ON : NODELAY_ON);
	return marks & (name == TCP_CORK ? CORK_SET : NODELAY_SET);
}

int pre_pushing_set(int fd, int name, bool on)
{
	const unsigned long is_on = name == TCP_CORK ? CORK_ON : NODELAY_ON;
	const unsigned long is_set = name == TCP_CORK ? CORK_SET : NODELAY_SET;
	const unsigned long was_on = name == TCP_CORK ? 0 : NODELAY_WAS_ON;
	unsigned long marks = (marks_of(fd) & ~is_on) | is_set | (on ? is_on | was_on : 0);
	return sys_setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &marks, sizeof(marks));
}

bool pre_pushing_was_nodelay(int fd)
{
	return marks_of(fd) & NODELAY_WAS_ON;
}

static void restore(int fd, int tcp, int name)
{
	bool on;
	if (!pre_pushing_get(fd, name, &on))
		return;
	const int value = on;
	sys_setsockopt(tcp, IPPROTO_TCP, name, &value, sizeof(value));
}

void pre_pushing_restore(int fd, int tcp)
{
	restore(fd, tcp, TCP_NODELAY);
	restore(fd, tcp, TCP_CORK);
}
