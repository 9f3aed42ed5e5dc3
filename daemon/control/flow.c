/* SPDX-License-Identifier: MIT */
#include "daemon/control/flow.h"

#include "daemon/fabric/fabric.h"

static void set(json_t *row, const char *key, bool known, uint64_t value)
{
	json_object_set_new(row, key, known ? json_integer((json_int_t)value) : json_null());
}

static void set_text(json_t *row, const char *key, bool known, const char *text)
{
	json_object_set_new(row, key, known ? json_string(text) : json_null());
}

/* Values of the link's queue pair, which all its connections share. */
static uint64_t link_retransmits(const struct smcr_conn_view *view)
{
	struct rnic_qp_stats stats = { 0 };
	if (view->qp)
		fabric_qp_stats(view->qp, &stats);
	return stats.retransmits;
}

void flow_set(json_t *row, const struct conn_view *view)
{
	const struct smcr_conn_view *engine = &view->engine;
	bool linked = view->in_engine && engine->lgr_id;
	bool open = linked && engine->peer_rmbe_size && view->mode == CONN_MODE_SMCR;
	set(row, "version", linked, engine->version);
	set_text(row, "dialect", open,
		 engine->dialect == SMCR_DIALECT_DEPLOYED ? "deployed" : "rfc");
	set(row, "tx_unsent_bytes", open, engine->tx_unsent);
	set(row, "tx_buffered_bytes", open, engine->tx_unacked);
	set(row, "tx_window_bytes", open, engine->tx_window);
	set(row, "tx_in_peer_bytes", open, engine->tx_in_peer);
	set(row, "rx_buffered_bytes", open, engine->rx_unread);
	set(row, "rx_window_bytes", open, engine->rx_window);
	set(row, "tx_requests", open, engine->tx_requests);
	set(row, "rx_requests", open, engine->rx_requests);
	set(row, "tx_full_events", open, engine->tx_full);
	set(row, "tx_window_full_events", open, engine->tx_window_full);
	set(row, "rx_full_events", open, engine->rx_full);
	set(row, "cdc_sent_ago_us", open && engine->said_us != UINT64_MAX, engine->said_us);
	set(row, "cdc_received_ago_us", open && engine->heard_us != UINT64_MAX, engine->heard_us);
	set(row, "rtt_us", open && engine->rtt_us, engine->rtt_us);
	set(row, "moves", open, engine->moves);
	set(row, "link_retransmits", open && engine->qp, link_retransmits(engine));
}
