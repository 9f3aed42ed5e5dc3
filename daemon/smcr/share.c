/* SPDX-License-Identifier: MIT */
/* Connections whose memory the host shares with the program. */
#include <errno.h>

#include "daemon/smcr/data.h"

int smcr_conn_share(struct smcr_conn *conn, struct smcr_conn_memory *ret_memory)
{
	if (!smcr_data_usable(conn))
		return -ENOTCONN;
	struct smcr_element *element = &conn->rx.element, *buf = &conn->tx.buf;
	element->shared = buf->shared = conn->shared = true;
	*ret_memory = (struct smcr_conn_memory){
		.element = element->addr,
		.element_size = element->size,
		.element_skip = element->size - conn->rx.usable,
		.buffer = buf->addr,
		.buffer_size = buf->size,
	};
	return 0;
}

void smcr_conn_unshare(struct smcr_conn *conn)
{
	if (!conn->shared)
		return;
	conn->shared = false;
	conn->engine->ops.conns->unshare(conn->params.user);
}

void smcr_conn_get_positions(const struct smcr_conn *conn,
			     struct smcr_conn_positions *ret_positions)
{
	*ret_positions = (struct smcr_conn_positions){
		.consumed = conn->rx.consumed,
		.produced = conn->rx.produced,
		.completed = conn->tx.completed,
		.committed = conn->tx.committed,
	};
}
