/* SPDX-License-Identifier: MIT */
#include "lib/smcr/fit.h"

#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>

#include "lib/smcr/ready.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/watch.h"

static _Atomic bool option_seen;

/* A pair end has no error queue, and so no notices: the program would wait for ever. */
const char *pre_unfit_to_accept(int fd)
{
	int value;
	if (sys_get_int(fd, SOL_SOCKET, SO_ZEROCOPY, &value) == 0 && value)
		return "SO_ZEROCOPY is set: the program will wait for the kernel's notices";
	if (sys_get_int(fd, SOL_SOCKET, SO_TIMESTAMPING, &value) == 0 &&
	    value & SOF_TIMESTAMPING_TX_RECORD_MASK)
		return "SO_TIMESTAMPING is set: the program will wait for the kernel's notices";
	return NULL;
}

const char *pre_unfit(int fd)
{
	int value;
	if (sys_get_int(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &value) == 0 && value)
		return "TCP_FASTOPEN_CONNECT is set: the handshake waits for data";
	if (!pre_watch_complete(fd))
		return "too many epoll registrations to follow";
	return pre_unfit_to_accept(fd);
}

bool pre_may_be_unfit(int fd)
{
	return !pre_sees_calls || atomic_load_explicit(&option_seen, memory_order_relaxed) ||
	       !pre_watch_complete(fd);
}

void pre_fit_note_option(int level, int name)
{
	if ((level == SOL_SOCKET &&
	     (name == SO_ZEROCOPY || name == SO_TIMESTAMPING_OLD || name == SO_TIMESTAMPING_NEW)) ||
	    (level == IPPROTO_TCP && name == TCP_FASTOPEN_CONNECT))
		atomic_store_explicit(&option_seen, true, memory_order_relaxed);
}
