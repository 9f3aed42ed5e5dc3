/* SPDX-License-Identifier: MIT */
#include "lib/smcr/reach.h"

#include <sys/un.h>

#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/trust.h"

/* How long to wait at the abstract address. If smcrd does not listen there, any user can, and let
 * clients wait: who listens is known only once connected. smcrd's backlog takes far more clients
 * than come in this time. */
#define ABSTRACT_MS 100

/* Is the path of the socket out of reach? (Or there is no daemon.) */
static bool is_out_of_sight(int error)
{
	return error == -ENOENT || error == -EACCES || error == -ENOTDIR || error == -ELOOP;
}

/* connect() blocks if the backlog is full; SO_SNDTIMEO bounds that. */
static int connect_within(int fd, const struct sockaddr_un *addr, socklen_t len, int limit_ms)
{
	const struct timeval limit = { .tv_sec = limit_ms / 1000,
				       .tv_usec = limit_ms % 1000 * 1000 };
	const int64_t deadline = sys_now_ms() + limit_ms;
	int rc = sys_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (rc < 0)
		return rc;
	do
		rc = sys_connect(fd, addr, len);
	while (rc == -EINTR && sys_now_ms() < deadline);
	return rc;
}

static int connect_abstract(int fd)
{
	int rc = connect_within(fd, &pre_settings.daemon_abstract, pre_settings.daemon_abstract_len,
				ABSTRACT_MS);
	return rc == 0 && !pre_trust_end(fd) ? -ECONNREFUSED : rc;
}

int pre_reach_look(int fd)
{
	int rc = sys_may_write(pre_settings.daemon.sun_path);
	if (rc == 0)
		pre_trust_note_owner();
	return is_out_of_sight(rc) ? connect_abstract(fd) : 0;
}

int pre_reach_connect(int fd, int limit_ms)
{
	int rc = connect_within(fd, &pre_settings.daemon, pre_settings.daemon_len, limit_ms);
	return is_out_of_sight(rc) ? connect_abstract(fd) : rc;
}
