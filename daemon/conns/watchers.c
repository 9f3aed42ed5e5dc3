/* SPDX-License-Identifier: MIT */
/* Watchers wait until it is settled whether SMC-R or TCP carries the data of a connection. */
#include "daemon/conns/internal.h"

void conn_watcher_forget(struct conn_watcher *watcher)
{
	if (watcher->conn)
		DL_DELETE(watcher->conn->watchers, watcher);
	watcher->conn = NULL;
}

static void tell(struct conn *conn, const struct conn_view *view)
{
	while (conn->watchers) {
		struct conn_watcher *watcher = conn->watchers;
		conn_watcher_forget(watcher);
		watcher->settled(watcher, view);
	}
}

void watchers_settled(struct conn *conn)
{
	struct conn_view view;
	if (!conn->watchers || conn->phase == PHASE_DEAD)
		return;
	history_describe(conn, &view);
	if (view.mode != CONN_MODE_PENDING)
		tell(conn, &view);
}

void watchers_ended(struct conn *conn)
{
	struct conn_view view;
	if (!conn->watchers)
		return;
	bool known = history_find_pair(conn->conns, conn->id, conn->pair.program_cookie, &view);
	tell(conn, known ? &view : NULL);
}
