/* SPDX-License-Identifier: MIT */
#include "lib/smcr/reach.h"

#include <sys/param.h>
#include <sys/un.h>

#include "lib/smcr/claim.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/trust.h"
#include "proto/ipc/ipc.h"

/* How long to wait at the abstract address. If smcrd does not listen there, any user can, and let
 * clients wait: who listens is known only once connected. smcrd's backlog takes far more clients
 * than come in this time. */
#define ABSTRACT_MS 100

/* Is the path of the socket out of reach? (Or there is no daemon.) */
static bool is_out_of_sight(int error)
{
	return error == -ENOENT || error == -EACCES || error == -ENOTDIR || error == -ELOOP;
}

/* connect() blocks if the backlog is full; SO_SNDTIMEO bounds that. The kernel takes a limit of 0
 * for none, so a deadline that has passed leaves a millisecond. */
static int set_limit(int fd, int64_t deadline)
{
	int64_t left = deadline - sys_now_ms();
	if (left < 1)
		left = 1;
	const struct timeval limit = { .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };
	return sys_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int connect_until(int fd, const struct sockaddr_un *addr, socklen_t len, int64_t deadline)
{
	int rc;
	do {
		rc = set_limit(fd, deadline);
		if (rc == 0)
			rc = sys_connect(fd, addr, len);
	} while (rc == -EINTR && sys_now_ms() < deadline);
	return rc;
}

/* The BPF programs tell which number is in the name. Where there are none, the name has no number,
 * and others may have it. */
static int connect_abstract(int fd, int64_t deadline)
{
	struct sockaddr_un addr = pre_settings.daemon_abstract;
	socklen_t len = pre_settings.daemon_abstract_len;
	uint64_t number;
	if (pre_address_number(fd, &number) == 0)
		len = (socklen_t)ipc_abstract_address(pre_settings.daemon.sun_path, number, &addr);
	int rc = connect_until(fd, &addr, len, MIN(deadline, sys_now_ms() + ABSTRACT_MS));
	return rc == 0 && !pre_trust_end(fd) ? -ECONNREFUSED : rc;
}

int pre_reach_look(int fd)
{
	int rc = sys_may_write(pre_settings.daemon.sun_path);
	if (rc == 0)
		pre_trust_note_owner();
	return is_out_of_sight(rc) ? connect_abstract(fd, INT64_MAX) : 0;
}

int pre_reach_connect(int fd, int64_t deadline)
{
	int rc = connect_until(fd, &pre_settings.daemon, pre_settings.daemon_len, deadline);
	return is_out_of_sight(rc) ? connect_abstract(fd, deadline) : rc;
}
