/* SPDX-License-Identifier: MIT */
/* Sums of everything since the start of smcrd. */
#include "daemon/control/counters.h"
#include "daemon/control/snapshot.h"
#include "daemon/control/views.h"
#include "proto/smcr/reason.h"

static void set(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

/* ---- connections ---- */

static json_t *by_role(const uint64_t counts[2])
{
	json_t *object = json_object();
	set(object, "server", counts[SMCR_ROLE_SERVER]);
	set(object, "client", counts[SMCR_ROLE_CLIENT]);
	return object;
}

static json_t *established(const struct smcr_engine_stats *stats, unsigned int version)
{
	const uint64_t counts[2] = { stats->established[0][version - 1],
				     stats->established[1][version - 1] };
	return by_role(counts);
}

static json_t *connections(const struct snapshot *snapshot)
{
	const struct conns_view *conns = &snapshot->conns;
	const struct smcr_engine_stats *stats = &snapshot->stats;
	json_t *object = json_object();
	json_object_set_new(object, "established_v1", established(stats, 1));
	json_object_set_new(object, "established_v2", established(stats, 2));
	json_object_set_new(object, "handshake_errors", by_role(stats->failed));
	json_object_set_new(object, "fallbacks", by_role(stats->fallbacks));
	set(object, "plain_tcp", conns->not_candidates + control_count_plain(snapshot->control));
	set(object, "failed", conns->failed);
	set(object, "resets", conns->resets);
	set(object, "smcr_now", conns->conns_smcr);
	set(object, "relayed_now", conns->conns_relay);
	set(object, "pending_now", conns->conns_pending);
	set(object, "shared", conns->shared);
	set(object, "shared_now", conns->conns_shared);
	json_object_set_new(object, "reasons", control_fallbacks(snapshot->control));
	return object;
}

/* ---- bytes ---- */

static json_t *classes(const uint64_t *counts, unsigned int n, const char *(*name)(unsigned int i))
{
	json_t *object = json_object();
	for (unsigned int i = 0; i < n; i++)
		set(object, name(i), counts[i]);
	return object;
}

static json_t *flow(const struct smcr_flow_stats *flow, uint64_t shared, uint64_t relayed)
{
	json_t *object = json_object();
	set(object, "bytes", flow->bytes);
	set(object, "shared_bytes", shared);
	set(object, "relayed_bytes", relayed);
	set(object, "messages", flow->messages);
	set(object, "cdc_messages", flow->cdcs);
	set(object, "requests", flow->requests);
	set(object, "request_bytes", flow->request_bytes);
	json_object_set_new(object, "request_sizes",
			    classes(flow->sizes, SMCR_SIZE_CLASSES, snapshot_size_name));
	json_object_set_new(object, "buffer_sizes",
			    classes(flow->buffers, SMCR_BSIZE_MAX + 1, snapshot_buffer_name));
	set(object, "full_events", flow->full);
	set(object, "downgrades", flow->downgrades);
	set(object, "urgent_bytes", flow->urgent);
	return object;
}

/* ---- times ---- */

static json_t *times(const struct smcr_times *times)
{
	const uint64_t *ends = smcr_time_ends();
	json_t *list = json_array();
	uint64_t count = 0;
	for (unsigned int i = 0; i < SMCR_TIME_CLASSES; i++) {
		json_t *end =
			i + 1 < SMCR_TIME_CLASSES ? json_integer((json_int_t)ends[i]) : json_null();
		count += times->counts[i];
		json_array_append_new(list, json_pack("{s:o, s:I}", "up_to_us", end, "count",
						      (json_int_t)times->counts[i]));
	}
	return json_pack("{s:I, s:I, s:o}", "count", (json_int_t)count, "sum_us",
			 (json_int_t)times->sum_us, "classes", list);
}

/* ---- groups, memory, devices ---- */

static json_t *groups(const struct snapshot *snapshot)
{
	const struct smcr_engine_stats *stats = &snapshot->stats;
	json_t *object = json_object();
	set(object, "groups_now", snapshot->engine.num_lgrs);
	set(object, "groups_up", stats->groups_up);
	set(object, "groups_ended", stats->groups_down);
	set(object, "links_now", snapshot->engine.num_links);
	set(object, "links_up", stats->links_up);
	set(object, "links_failed", stats->links_failed);
	set(object, "links_deleted", stats->links_deleted);
	set(object, "links_refused", stats->links_refused);
	set(object, "failovers", stats->failovers);
	set(object, "moves", stats->moves);
	return object;
}

static json_t *memory(const struct snapshot *snapshot)
{
	const struct smcr_engine_view *engine = &snapshot->engine;
	json_t *object = json_object();
	set(object, "used_bytes", engine->memory_used);
	set(object, "budget_bytes", engine->memory_budget);
	set(object, "rmbs", engine->num_rmbs);
	set(object, "elements_used", engine->num_elements_used);
	set(object, "refused", engine->memory_refused);
	return object;
}

static json_t *refused(const struct snapshot *snapshot)
{
	json_t *object = json_object();
	set(object, "roce", snapshot->egress.refused[EGRESS_ROCE]);
	set(object, "clc", snapshot->egress.refused[EGRESS_CLC]);
	return object;
}

/* ---- the connection manager ---- */

static uint64_t cm_now(const struct snapshot *snapshot)
{
	uint64_t sum = 0;
	for (int state = 0; state < CM_STATE_ENDED; state++)
		sum += snapshot->cm_conns[state];
	return sum;
}

static json_t *cm(const struct snapshot *snapshot)
{
	const struct cm_stats *stats = &snapshot->cm;
	json_t *object = json_object();
	set(object, "connections_now", cm_now(snapshot));
	set(object, "listeners_now", snapshot->cm_listeners);
	set(object, "connected", stats->connected);
	set(object, "disconnected", stats->disconnected);
	set(object, "failed", stats->failed);
	set(object, "refused", stats->refused);
	set(object, "limited", stats->limited);
	set(object, "dropped", stats->dropped);
	set(object, "resent", stats->resent);
	json_object_set_new(object, "sent",
			    classes(stats->sent, SNAPSHOT_CM_MESSAGES, snapshot_cm_name));
	json_object_set_new(object, "received",
			    classes(stats->received, SNAPSHOT_CM_MESSAGES, snapshot_cm_name));
	return object;
}

/* ---- SMB Direct ---- */

static json_t *smbdirect(const struct snapshot *snapshot)
{
	const struct smbgate_stats *stats = &snapshot->smbdirect;
	json_t *object = json_object();
	uint64_t now = 0;
	for (int state = 0; state < SMBGATE_ENDED; state++)
		now += snapshot->smbdirect_conns[state];
	set(object, "connections_now", now);
	set(object, "listeners_now", snapshot->smbdirect_listeners);
	set(object, "established", stats->established);
	set(object, "ended", stats->ended);
	set(object, "refused", stats->refused);
	set(object, "tx_bytes", stats->sent);
	set(object, "rx_bytes", stats->received);
	set(object, "rdma_read_tx_bytes", stats->read_sent);
	set(object, "rdma_read_rx_bytes", stats->read_received);
	set(object, "rdma_write_tx_bytes", stats->write_sent);
	set(object, "rdma_write_rx_bytes", stats->write_received);
	set(object, "channels_served", stats->channels_served);
	set(object, "channels_refused", stats->channels_refused);
	set(object, "memory_bytes", stats->memory);
	set(object, "memory_most_bytes", stats->memory_most);
	return object;
}

static void add_device(void *arg, uint32_t id, struct rnic *rnic)
{
	struct rnic_info info;
	struct rnic_stats stats;
	(void)id;
	rnic_get_info(rnic, &info);
	rnic_get_stats(rnic, &stats);
	json_t *object = counters_json(&stats);
	json_object_set_new(object, "name", json_string(info.name));
	json_array_append_new(arg, object);
}

json_t *control_show_stats(struct control *control, struct page *page, struct refusal *refusal)
{
	struct snapshot snapshot;
	json_t *object = json_object(), *devices = json_array();
	(void)page;
	(void)refusal;
	snapshot_take(control, &snapshot);
	const struct conns_view *conns = &snapshot.conns;
	json_t *tx = flow(&snapshot.stats.tx, conns->shared_tx_bytes, conns->relay_tx_bytes);
	json_t *rx = flow(&snapshot.stats.rx, conns->shared_rx_bytes, conns->relay_rx_bytes);
	set(tx, "window_full_events", snapshot.stats.tx.window_full);
	set(object, "uptime_ms", snapshot.uptime_us / 1000);
	json_object_set_new(object, "connections", connections(&snapshot));
	json_object_set_new(object, "tx", tx);
	json_object_set_new(object, "rx", rx);
	json_object_set_new(object, "handshakes", times(&snapshot.stats.handshakes[0]));
	json_object_set_new(object, "first_contacts", times(&snapshot.stats.handshakes[1]));
	json_object_set_new(object, "failover_gaps", times(&snapshot.stats.failover_gaps));
	json_object_set_new(object, "linkgroups", groups(&snapshot));
	json_object_set_new(object, "memory", memory(&snapshot));
	json_object_set_new(object, "refused", refused(&snapshot));
	json_object_set_new(object, "cm", cm(&snapshot));
	json_object_set_new(object, "smbdirect", smbdirect(&snapshot));
	fabric_each_device(control->fabric, add_device, devices);
	json_object_set_new(object, "devices", devices);
	return object;
}
