/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <utlist.h>

#include "daemon/smbgate/internal.h"

const char *smbgate_state_name(enum smbgate_state state)
{
	switch (state) {
	case SMBGATE_CONNECTING: return "connecting";
	case SMBGATE_NEGOTIATING: return "negotiating";
	case SMBGATE_OPEN: return "open";
	case SMBGATE_DRAINING: return "draining";
	case SMBGATE_ENDED: return "ended";
	}
	return "unknown";
}

void gate_conn_get_view(const struct gate_conn *conn, struct smbgate_view *ret_view)
{
	*ret_view = (struct smbgate_view){
		.number = conn->number,
		.state = conn->state,
		.serves = conn->serves,
		.local = conn->local,
		.peer = conn->peer,
		.rdma_offered = conn->offered_bytes,
		.channels_served = conn->channels_served,
		.channels_refused = conn->channels_refused,
		.age_us = gate_now() - conn->began_at,
	};
	memcpy(ret_view->rnic, conn->rnic, sizeof(ret_view->rnic));
	memcpy(ret_view->user, conn->user, sizeof(ret_view->user));
	memcpy(ret_view->why, conn->why, sizeof(ret_view->why));
	if (conn->rdma) {
		rdma_get_view(conn->rdma, &ret_view->smbd);
		rdma_get_bytes(conn->rdma, &ret_view->rdma_read, &ret_view->rdma_written);
	}
}

void smbgate_each(struct smbgate *gate, bool (*fn)(void *arg, const struct smbgate_view *view),
		  void *arg)
{
	const struct gate_conn *conn;
	DL_FOREACH (gate->conns, conn) {
		struct smbgate_view view;
		gate_conn_get_view(conn, &view);
		if (!fn(arg, &view))
			return;
	}
	for (uint64_t i = 0; i < gate->num_history && i < GATE_HISTORY; i++) {
		if (!fn(arg, &gate->history[(gate->num_history - 1 - i) % GATE_HISTORY]))
			return;
	}
}
