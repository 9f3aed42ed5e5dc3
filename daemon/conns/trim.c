/* SPDX-License-Identifier: MIT */
/*
 * Gives memory of the heap back to the system some time after most connections have ended. By
 * itself malloc keeps free pages that lie between pages in use.
 */
#include <malloc.h>

#include "daemon/conns/internal.h"

#define TRIM_SECONDS 10
#define WORTH_WHILE  100 /* connections that have ended since the largest number */

static bool is_due(const struct conns *conns)
{
	uint32_t ended = conns->most_conns - conns->counts.conns;
	return ended >= WORTH_WHILE && ended >= conns->most_conns / 2;
}

void trim_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct conns *conns = arg;
	(void)fd;
	(void)what;
	if (!is_due(conns)) /* new connections have come */
		return;
	conns->most_conns = conns->counts.conns;
	malloc_trim(0);
}

void trim_note_begin(struct conns *conns)
{
	if (conns->most_conns < conns->counts.conns)
		conns->most_conns = conns->counts.conns;
}

void trim_note_end(struct conns *conns)
{
	const struct timeval delay = { .tv_sec = TRIM_SECONDS };
	if (is_due(conns) && !conns->freeing && !evtimer_pending(conns->trim_timer, NULL))
		evtimer_add(conns->trim_timer, &delay);
}
