/* SPDX-License-Identifier: MIT */
/*
 * The names of pair ends (struct ipc_pair_name). Every user can bind abstract names, and sees those
 * that are in use (/proc/net/unix). So each id is random: nobody can take a name before the pair
 * end has it. Who takes the name of a pair that has gone finds nothing that it is good for: no pair
 * gets it again, and a connection is known by the cookie of its pair end (shown.c).
 */
#include <errno.h>
#include <sys/random.h>
#include <sys/syslog.h>
#include <sys/un.h>

#include "daemon/conns/internal.h"
#include "daemon/host/holder.h"

#define LOG_MS 60000 /* least time between two lines */

/* Numbers are drawn many at a time, so that few connections make a system call for them. Requests
 * of 256 bytes and less are never cut short. */
static int fill(struct conns *conns)
{
	_Static_assert(sizeof(conns->ids) <= 256, "getrandom() gives all bytes");
	ssize_t n;
	do
		n = getrandom(conns->ids, sizeof(conns->ids), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(conns->ids))
		return n < 0 ? -errno : -EIO;
	conns->ids_left = NAMING_IDS;
	return 0;
}

int naming_draw(struct conns *conns, uint64_t *ret_id)
{
	const struct conn *same_id;
	uint64_t id;
	do {
		int r = conns->ids_left == 0 ? fill(conns) : 0;
		if (r < 0)
			return r;
		id = conns->ids[--conns->ids_left];
		HASH_FIND(hh, conns->by_id, &id, sizeof(id), same_id);
	} while (same_id);
	*ret_id = id;
	return 0;
}

void naming_taken(struct conn *conn)
{
	struct conns *conns = conn->conns;
	const uint64_t now = conns_now_ms();
	char text[HOLDER_TEXT];
	struct sockaddr_un addr;
	uid_t uid = 0;
	conns->counts.names_taken++;
	if (conns->taken_logged_ms && now - conns->taken_logged_ms < LOG_MS)
		return;
	conns->taken_logged_ms = now;
	int len = ipc_pair_name_encode(&conn->name, &addr, sizeof(addr));
	int r = len < 0 ? len : holder_of_unix(&addr, (size_t)len, HOLDER_LOOP_MS, &uid);
	holder_text(r, uid, text);
	conns_log(conns, LOG_WARNING,
		  "%s has taken the name of a connection of user %u before smcrd could use it: "
		  "another name is tried (so far %llu names were taken)",
		  text, (unsigned int)conn->cred.uid,
		  (unsigned long long)conns->counts.names_taken);
}
