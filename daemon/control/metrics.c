/* SPDX-License-Identifier: MIT */
#include "daemon/control/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/control/counters.h"
#include "daemon/control/snapshot.h"
#include "daemon/control/views.h"
#include "proto/smcr/reason.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The most RNICs that are shown. */
#define MAX_DEVICES 64

struct device {
	struct rnic_info info;
	struct rnic_stats stats;
	uint32_t id;
	uint64_t links;
};

/* The sources of the samples. */
struct source {
	struct openmetrics out;
	struct snapshot snapshot;
	struct device devices[MAX_DEVICES];
	size_t num_devices;
};

/* ---- samples with no, one and two labels ---- */

static void sample(struct source *source, uint64_t value)
{
	openmetrics_sample(&source->out, NULL, 0, value);
}

static void sample1(struct source *source, const char *name, const char *label, uint64_t value)
{
	const struct openmetrics_label labels[] = { { name, label } };
	openmetrics_sample(&source->out, labels, 1, value);
}

static void sample2(struct source *source, const char *name, const char *label, const char *name2,
		    const char *label2, uint64_t value)
{
	const struct openmetrics_label labels[] = { { name, label }, { name2, label2 } };
	openmetrics_sample(&source->out, labels, 2, value);
}

static void directions(struct source *source, uint64_t sent, uint64_t received)
{
	sample1(source, "direction", "sent", sent);
	sample1(source, "direction", "received", received);
}

static void roles(struct source *source, const uint64_t counts[2])
{
	sample1(source, "role", "server", counts[SMCR_ROLE_SERVER]);
	sample1(source, "role", "client", counts[SMCR_ROLE_CLIENT]);
}

/* ---- the daemon ---- */

static void build(struct source *source)
{
	sample1(source, "version", SMCRD_VERSION, 1);
}

static void start_time(struct source *source)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	openmetrics_seconds(&source->out, NULL, 0, us - source->snapshot.uptime_us);
}

static void option_available(struct source *source)
{
	sample(source, source->snapshot.control->option != NULL);
}

static void draining(struct source *source)
{
	sample(source, source->snapshot.control->drain.on);
}

static void listeners(struct source *source)
{
	sample(source, source->snapshot.listeners.claimed);
}

static void listeners_refused(struct source *source)
{
	sample(source, source->snapshot.listeners.refused);
}

static void user_refused(struct source *source)
{
	const struct egress_view *egress = &source->snapshot.egress;
	sample1(source, "what", "roce", egress->refused[EGRESS_ROCE]);
	sample1(source, "what", "clc", egress->refused[EGRESS_CLC]);
}

static void long_turns(struct source *source)
{
	const struct turns *turns = source->snapshot.control->turns;
	for (int i = 0; turns && i < TURNS_WORKS; i++)
		sample1(source, "work", turns_name((enum turns_work)i), turns->counts[i].times);
}

static void longest_turn(struct source *source)
{
	const struct turns *turns = source->snapshot.control->turns;
	for (int i = 0; turns && i < TURNS_WORKS; i++) {
		const struct openmetrics_label labels[] = { { "work",
							      turns_name((enum turns_work)i) } };
		openmetrics_seconds(&source->out, labels, 1, turns->counts[i].longest_us);
	}
}

/* ---- connections ---- */

static void connections(struct source *source)
{
	const struct conns_view *conns = &source->snapshot.conns;
	sample1(source, "mode", "smcr", conns->conns_smcr);
	sample1(source, "mode", "relayed", conns->conns_relay);
	sample1(source, "mode", "pending", conns->conns_pending);
}

static void connections_shared(struct source *source)
{
	sample(source, source->snapshot.conns.conns_shared);
}

static void names_taken(struct source *source)
{
	sample(source, source->snapshot.conns.names_taken);
}

static void established(struct source *source)
{
	static const char *const names[] = {
		[SMCR_ROLE_SERVER] = "server", [SMCR_ROLE_CLIENT] = "client"
	};
	for (int role = 0; role < 2; role++)
		for (int v2 = 0; v2 < 2; v2++)
			sample2(source, "role", names[role], "version", v2 ? "2" : "1",
				source->snapshot.stats.established[role][v2]);
}

static void fallbacks(struct source *source)
{
	roles(source, source->snapshot.stats.fallbacks);
}

static void handshake_errors(struct source *source)
{
	roles(source, source->snapshot.stats.failed);
}

/* Diagnoses of peers are one label value, as they may be any number. */
#define MAX_REASONS 128
struct reasons {
	size_t num;
	struct {
		uint32_t reason;
		uint64_t count;
	} of[MAX_REASONS];
};

static void add_reason(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count)
{
	struct reasons *reasons = arg;
	size_t i = 0;
	(void)peer_reason;
	while (i < reasons->num && reasons->of[i].reason != reason)
		i++;
	if (i == MAX_REASONS)
		return;
	if (i == reasons->num)
		reasons->of[reasons->num++].reason = reason;
	reasons->of[i].count += count;
}

static void add_plain(void *arg, const struct rdv_plain_count *count)
{
	add_reason(arg, count->reason, SMCR_REASON_NONE, count->connections);
}

static void not_smcr(struct source *source)
{
	const struct control *control = source->snapshot.control;
	struct reasons reasons = { 0 };
	char code[16];
	if (control->conns)
		conns_each_reason(control->conns, add_reason, &reasons);
	plain_each_count(control->plain, add_plain, &reasons);
	for (size_t i = 0; i < reasons.num; i++) {
		snprintf(code, sizeof(code), "%08" PRIx32, reasons.of[i].reason);
		sample2(source, "reason", smcr_reason_name(reasons.of[i].reason), "code", code,
			reasons.of[i].count);
	}
}

static void failed(struct source *source)
{
	sample(source, source->snapshot.conns.failed);
}

static void resets(struct source *source)
{
	sample(source, source->snapshot.stats.resets);
}

static void moves(struct source *source)
{
	sample(source, source->snapshot.stats.moves);
}

static void handshake_time(struct source *source)
{
	static const char *const contacts[] = { "later", "first" };
	for (size_t i = 0; i < COUNT(contacts); i++) {
		const struct smcr_times *times = &source->snapshot.stats.handshakes[i];
		const struct openmetrics_label labels[] = { { "contact", contacts[i] } };
		openmetrics_histogram(&source->out, labels, 1, smcr_time_ends(), times->counts,
				      SMCR_TIME_CLASSES, times->sum_us, 1000000);
	}
}

/* ---- bytes ---- */

static void bytes(struct source *source)
{
	const struct smcr_engine_stats *stats = &source->snapshot.stats;
	directions(source, stats->tx.bytes, stats->rx.bytes);
}

static void shared_bytes(struct source *source)
{
	const struct conns_view *conns = &source->snapshot.conns;
	directions(source, conns->shared_tx_bytes, conns->shared_rx_bytes);
}

static void relayed_bytes(struct source *source)
{
	const struct conns_view *conns = &source->snapshot.conns;
	directions(source, conns->relay_tx_bytes, conns->relay_rx_bytes);
}

static void messages(struct source *source)
{
	const struct smcr_engine_stats *stats = &source->snapshot.stats;
	directions(source, stats->tx.messages, stats->rx.messages);
}

static void cdc_messages(struct source *source)
{
	const struct smcr_engine_stats *stats = &source->snapshot.stats;
	directions(source, stats->tx.cdcs, stats->rx.cdcs);
}

static void urgent_bytes(struct source *source)
{
	const struct smcr_engine_stats *stats = &source->snapshot.stats;
	directions(source, stats->tx.urgent, stats->rx.urgent);
}

static void request_size(struct source *source, const char *direction,
			 const struct smcr_flow_stats *flow)
{
	const struct openmetrics_label labels[] = { { "direction", direction } };
	uint64_t ends[SMCR_SIZE_CLASSES];
	for (unsigned int i = 0; i < SMCR_SIZE_CLASSES; i++)
		ends[i] = smcr_size_class_end(i);
	openmetrics_histogram(&source->out, labels, 1, ends, flow->sizes, SMCR_SIZE_CLASSES,
			      flow->request_bytes, 1);
}

static void request_sizes(struct source *source)
{
	request_size(source, "sent", &source->snapshot.stats.tx);
	request_size(source, "received", &source->snapshot.stats.rx);
}

/* ---- buffers and memory ---- */

static void buffer_full(struct source *source)
{
	const struct smcr_engine_stats *stats = &source->snapshot.stats;
	sample1(source, "buffer", "send", stats->tx.full);
	sample1(source, "buffer", "receive", stats->rx.full);
	sample1(source, "buffer", "peer", stats->tx.window_full);
}

static void buffers_of(struct source *source, const char *kind, const uint64_t *counts)
{
	char size[24];
	for (unsigned int code = 0; code <= SMCR_BSIZE_MAX; code++) {
		snprintf(size, sizeof(size), "%" PRIu32, smcr_bsize_bytes((uint8_t)code));
		sample2(source, "buffer", kind, "size", size, counts[code]);
	}
}

static void buffers(struct source *source)
{
	buffers_of(source, "send", source->snapshot.stats.tx.buffers);
	buffers_of(source, "receive", source->snapshot.stats.rx.buffers);
}

static void downgrades(struct source *source)
{
	sample1(source, "buffer", "send", source->snapshot.stats.tx.downgrades);
	sample1(source, "buffer", "receive", source->snapshot.stats.rx.downgrades);
}

static void memory_used(struct source *source)
{
	sample(source, source->snapshot.engine.memory_used);
}

static void memory_limit(struct source *source)
{
	sample(source, source->snapshot.engine.memory_budget);
}

static void memory_refused(struct source *source)
{
	sample(source, source->snapshot.engine.memory_refused);
}

static void rmbs(struct source *source)
{
	sample(source, source->snapshot.engine.num_rmbs);
}

static void rmb_elements(struct source *source)
{
	sample(source, source->snapshot.engine.num_elements_used);
}

static void queue_pairs(struct source *source)
{
	sample(source, source->snapshot.engine.num_qps);
}

static void memory_regions(struct source *source)
{
	sample(source, source->snapshot.engine.num_mrs);
}

/* ---- link groups and links ---- */

static void groups(struct source *source)
{
	sample(source, source->snapshot.engine.num_lgrs);
}

static void group_events(struct source *source)
{
	sample1(source, "event", "up", source->snapshot.stats.groups_up);
	sample1(source, "event", "ended", source->snapshot.stats.groups_down);
}

static void link_events(struct source *source)
{
	const struct smcr_engine_stats *stats = &source->snapshot.stats;
	sample1(source, "event", "up", stats->links_up);
	sample1(source, "event", "failed", stats->links_failed);
	sample1(source, "event", "deleted", stats->links_deleted);
	sample1(source, "event", "refused", stats->links_refused);
}

static void failovers(struct source *source)
{
	sample(source, source->snapshot.stats.failovers);
}

static void failover_gaps(struct source *source)
{
	const struct smcr_times *times = &source->snapshot.stats.failover_gaps;
	openmetrics_histogram(&source->out, NULL, 0, smcr_time_ends(), times->counts,
			      SMCR_TIME_CLASSES, times->sum_us, 1000000);
}

static void protocol_errors(struct source *source)
{
	const struct smcr_engine_view *engine = &source->snapshot.engine;
	sample1(source, "kind", "cdc_dropped", engine->cdc_dropped_token + engine->cdc_dropped_old);
	sample1(source, "kind", "llc_dropped", engine->llc_dropped);
	sample1(source, "kind", "llc_error", engine->llc_protocol_errors);
}

static void first_contacts_refused(struct source *source)
{
	sample(source, source->snapshot.engine.first_contacts_refused);
}

/* ---- the connection manager ---- */

static void cm_connections(struct source *source)
{
	for (int state = 0; state < CM_STATE_ENDED; state++)
		sample1(source, "state", cm_state_name((enum cm_state)state),
			source->snapshot.cm_conns[state]);
}

static void cm_listeners(struct source *source)
{
	sample(source, source->snapshot.cm_listeners);
}

static void cm_connection_events(struct source *source)
{
	const struct cm_stats *stats = &source->snapshot.cm;
	sample1(source, "event", "connected", stats->connected);
	sample1(source, "event", "disconnected", stats->disconnected);
	sample1(source, "event", "failed", stats->failed);
}

static void cm_messages(struct source *source)
{
	const struct cm_stats *stats = &source->snapshot.cm;
	for (unsigned int i = 0; i < SNAPSHOT_CM_MESSAGES; i++) {
		const char *name = snapshot_cm_name(i);
		sample2(source, "type", name, "direction", "sent", stats->sent[i]);
		sample2(source, "type", name, "direction", "received", stats->received[i]);
	}
}

static void cm_messages_resent(struct source *source)
{
	sample(source, source->snapshot.cm.resent);
}

static void cm_messages_dropped(struct source *source)
{
	sample(source, source->snapshot.cm.dropped);
}

static void cm_requests_refused(struct source *source)
{
	sample(source, source->snapshot.cm.refused);
}

static void cm_requests_limited(struct source *source)
{
	sample(source, source->snapshot.cm.limited);
}

/* ---- SMB Direct ---- */

static void smbdirect_connections(struct source *source)
{
	for (int state = 0; state < SMBGATE_ENDED; state++)
		sample1(source, "state", smbgate_state_name((enum smbgate_state)state),
			source->snapshot.smbdirect_conns[state]);
}

static void smbdirect_listeners(struct source *source)
{
	sample(source, source->snapshot.smbdirect_listeners);
}

static void smbdirect_connection_events(struct source *source)
{
	const struct smbgate_stats *stats = &source->snapshot.smbdirect;
	sample1(source, "event", "established", stats->established);
	sample1(source, "event", "ended", stats->ended);
	sample1(source, "event", "refused", stats->refused);
}

static void smbdirect_bytes(struct source *source)
{
	const struct smbgate_stats *stats = &source->snapshot.smbdirect;
	sample2(source, "operation", "send", "direction", "sent", stats->sent);
	sample2(source, "operation", "send", "direction", "received", stats->received);
	sample2(source, "operation", "read", "direction", "sent", stats->read_sent);
	sample2(source, "operation", "read", "direction", "received", stats->read_received);
	sample2(source, "operation", "write", "direction", "sent", stats->write_sent);
	sample2(source, "operation", "write", "direction", "received", stats->write_received);
}

static void smbdirect_channels(struct source *source)
{
	const struct smbgate_stats *stats = &source->snapshot.smbdirect;
	sample1(source, "outcome", "served", stats->channels_served);
	sample1(source, "outcome", "refused", stats->channels_refused);
}

static void smbdirect_memory(struct source *source)
{
	sample(source, source->snapshot.smbdirect.memory);
}

static void smbdirect_memory_most(struct source *source)
{
	sample(source, source->snapshot.smbdirect.memory_most);
}

/* ---- RNICs ---- */

static void add_device(void *arg, uint32_t id, struct rnic *rnic)
{
	struct source *source = arg;
	if (source->num_devices == MAX_DEVICES)
		return;
	struct device *device = &source->devices[source->num_devices++];
	device->id = id;
	device->links = 0;
	rnic_get_info(rnic, &device->info);
	rnic_get_stats(rnic, &device->stats);
}

static void count_link(void *arg, const struct smcr_link_view *view)
{
	struct source *source = arg;
	for (size_t i = 0; i < source->num_devices; i++)
		source->devices[i].links += source->devices[i].id == view->device_id;
}

#define EACH_DEVICE(source, device)                                                                \
	for (const struct device *device = (source)->devices;                                      \
	     device < (source)->devices + (source)->num_devices; device++)

static void rnic_up(struct source *source)
{
	EACH_DEVICE(source, device)
	sample1(source, "device", device->info.name, device->info.state == RNIC_PORT_ACTIVE);
}

static void links(struct source *source)
{
	EACH_DEVICE(source, device)
	sample1(source, "device", device->info.name, device->links);
}

static void rnic_bytes(struct source *source)
{
	EACH_DEVICE(source, device)
	{
		const char *name = device->info.name;
		sample2(source, "device", name, "direction", "sent", device->stats.tx_bytes);
		sample2(source, "device", name, "direction", "received", device->stats.rx_bytes);
	}
}

static void rnic_packets(struct source *source)
{
	EACH_DEVICE(source, device)
	{
		const char *name = device->info.name;
		sample2(source, "device", name, "direction", "sent", device->stats.tx_packets);
		sample2(source, "device", name, "direction", "received", device->stats.rx_packets);
	}
}

/* The other counters. */
static void rnic_counts(struct source *source, bool drops, const char *label)
{
	const size_t skip = drops ? strlen("drop_") : 0;
	EACH_DEVICE(source, device)
	for (const struct counter *counter = rnic_counters; counter->name; counter++) {
		bool traffic =
			!strncmp(counter->name, "tx_", 3) || !strncmp(counter->name, "rx_", 3);
		bool drop = !strncmp(counter->name, "drop_", 5);
		if (!traffic && drop == drops)
			sample2(source, "device", device->info.name, label, counter->name + skip,
				counter_value(counter, &device->stats));
	}
}

static void rnic_events(struct source *source)
{
	rnic_counts(source, false, "event");
}

static void rnic_drops(struct source *source)
{
	rnic_counts(source, true, "reason");
}

/* ---- the table ---- */

static const struct metric {
	struct openmetrics_family family;
	void (*collect)(struct source *source);
} metrics[] = {
#define GAUGE     OPENMETRICS_GAUGE
#define COUNTER   OPENMETRICS_COUNTER
#define HISTOGRAM OPENMETRICS_HISTOGRAM
	{ { "smcrd_build", OPENMETRICS_INFO, "", "Version of smcrd" }, build },
	{ { "smcrd_start_time_seconds", GAUGE, "seconds", "When smcrd was started, since 1970" },
	  start_time },
	{ { "smcrd_tcp_option_available", GAUGE, "",
	    "1 if the SMC-R TCP option can be used; else connections stay TCP" },
	  option_available },
	{ { "smcrd_draining", GAUGE, "",
	    "1 if no new SMC-R connections are wanted (smcrctl drain)" },
	  draining },
	{ { "smcrd_listeners", GAUGE, "", "Listening sockets of programs under smcr-run" },
	  listeners },
	{ { "smcrd_listeners_refused", COUNTER, "",
	    "Listening sockets that were too many and accept plain TCP" },
	  listeners_refused },
	{ { "smcrd_user_refused", COUNTER, "",
	    "Attempts of users to send RoCEv2 packets or CLC messages in the name of this host" },
	  user_refused },
	{ { "smcrd_event_loop_long_turns", COUNTER, "",
	    "Times that one kind of work kept all others waiting for more than 5 ms" },
	  long_turns },
	{ { "smcrd_event_loop_longest_turn_seconds", GAUGE, "seconds",
	    "The longest time that this kind of work kept all others waiting" },
	  longest_turn },

	{ { "smcrd_connections", GAUGE, "", "Connections of programs that smcrd has now" },
	  connections },
	{ { "smcrd_connections_sharing_memory", GAUGE, "",
	    "Connections whose programs have mapped their memory now" },
	  connections_shared },
	{ { "smcrd_connections_established", COUNTER, "", "Connections that used SMC-R" },
	  established },
	{ { "smcrd_fallbacks", COUNTER, "",
	    "Connections whose CLC exchange was tried and ended in plain TCP" },
	  fallbacks },
	{ { "smcrd_handshake_errors", COUNTER, "",
	    "Connections whose CLC exchange broke the connection" },
	  handshake_errors },
	{ { "smcrd_connections_not_smcr", COUNTER, "",
	    "Connections that did not use SMC-R, by this host's reason" },
	  not_smcr },
	{ { "smcrd_connections_failed", COUNTER, "",
	    "Connections that broke before bytes could flow, connect() that failed among them" },
	  failed },
	{ { "smcrd_connections_reset", COUNTER, "",
	    "Connections over SMC-R that ended abnormally" },
	  resets },
	{ { "smcrd_names_taken", COUNTER, "",
	    "Names of connections that another process had taken before smcrd could use them" },
	  names_taken },
	{ { "smcrd_connection_moves", COUNTER, "",
	    "Times that a connection went on on another link" },
	  moves },
	{ { "smcrd_handshake_seconds", HISTOGRAM, "seconds",
	    "From the first CLC message until bytes could flow" },
	  handshake_time },

	{ { "smcrd_transferred_bytes", COUNTER, "bytes", "Bytes of programs over SMC-R" }, bytes },
	{ { "smcrd_shared_memory_bytes", COUNTER, "bytes",
	    "Bytes of programs over SMC-R that went through memory that they have mapped" },
	  shared_bytes },
	{ { "smcrd_relayed_bytes", COUNTER, "bytes",
	    "Bytes of programs that smcrd relayed over TCP after a fallback" },
	  relayed_bytes },
	{ { "smcrd_messages", COUNTER, "", "CDC messages that told of bytes of programs" },
	  messages },
	{ { "smcrd_cdc_messages", COUNTER, "", "CDC messages" }, cdc_messages },
	{ { "smcrd_urgent_bytes", COUNTER, "bytes", "Urgent bytes of programs" }, urgent_bytes },
	{ { "smcrd_request_size_bytes", HISTOGRAM, "bytes",
	    "Bytes that were taken from a program, or by it, at a time" },
	  request_sizes },

	{ { "smcrd_buffer_full", COUNTER, "",
	    "Times that a send buffer, a receive buffer or that of a peer became full" },
	  buffer_full },
	{ { "smcrd_buffers_assigned", COUNTER, "",
	    "Buffers that connections got, by their size in bytes" },
	  buffers },
	{ { "smcrd_buffer_downgrades", COUNTER, "",
	    "Buffers that were smaller because memory was short" },
	  downgrades },
	{ { "smcrd_memory_used_bytes", GAUGE, "bytes", "Memory of RMBs and send buffers" },
	  memory_used },
	{ { "smcrd_memory_limit_bytes", GAUGE, "bytes", "How much of that there may be" },
	  memory_limit },
	{ { "smcrd_memory_refused", COUNTER, "", "Connections that stayed TCP for want of memory" },
	  memory_refused },
	{ { "smcrd_rmbs", GAUGE, "", "RMBs, the memory that peers write into" }, rmbs },
	{ { "smcrd_rmb_elements_used", GAUGE, "", "Elements of RMBs that connections have" },
	  rmb_elements },
	{ { "smcrd_queue_pairs", GAUGE, "", "Queue pairs of RDMA devices" }, queue_pairs },
	{ { "smcrd_memory_regions", GAUGE, "", "Memory regions of RDMA devices" }, memory_regions },

	{ { "smcrd_linkgroups", GAUGE, "", "Link groups" }, groups },
	{ { "smcrd_linkgroup_events", COUNTER, "", "Link groups that came up and that ended" },
	  group_events },
	{ { "smcrd_links", GAUGE, "", "Links on an RDMA device" }, links },
	{ { "smcrd_link_events", COUNTER, "",
	    "Links that came up, failed, were deleted and could not be set up" },
	  link_events },
	{ { "smcrd_failovers", COUNTER, "", "Links that failed and whose connections moved" },
	  failovers },
	{ { "smcrd_failover_gap_seconds", HISTOGRAM, "seconds",
	    "From the failure of a link until all its connections went on elsewhere" },
	  failover_gaps },
	{ { "smcrd_first_contacts_refused", COUNTER, "",
	    "Connections that stayed TCP because too many link groups were being set up" },
	  first_contacts_refused },
	{ { "smcrd_protocol_errors", COUNTER, "",
	    "CDC and LLC messages that were out of place or wrong" },
	  protocol_errors },

	{ { "smcrd_cm_connections", GAUGE, "", "RDMA connections of the connection manager" },
	  cm_connections },
	{ { "smcrd_cm_listeners", GAUGE, "", "Ports on which RDMA connections are taken" },
	  cm_listeners },
	{ { "smcrd_cm_connection_events", COUNTER, "",
	    "RDMA connections that were made, that ended, and that could not be made" },
	  cm_connection_events },
	{ { "smcrd_cm_messages", COUNTER, "", "Messages of the connection manager" }, cm_messages },
	{ { "smcrd_cm_messages_resent", COUNTER, "",
	    "Messages of the connection manager that were sent again for want of an answer" },
	  cm_messages_resent },
	{ { "smcrd_cm_messages_dropped", COUNTER, "",
	    "Messages for the connection manager that were malformed or about no connection" },
	  cm_messages_dropped },
	{ { "smcrd_cm_requests_refused", COUNTER, "",
	    "Requests for RDMA connections that were refused" },
	  cm_requests_refused },
	{ { "smcrd_cm_requests_limited", COUNTER, "",
	    "Requests for RDMA connections that were too many" },
	  cm_requests_limited },

	{ { "smcrd_smbdirect_connections", GAUGE, "", "Connections of SMB Direct" },
	  smbdirect_connections },
	{ { "smcrd_smbdirect_listeners", GAUGE, "",
	    "RDMA ports and TCP addresses where connections of SMB Direct begin" },
	  smbdirect_listeners },
	{ { "smcrd_smbdirect_connection_events", COUNTER, "",
	    "Connections of SMB Direct that were established, of these those that ended, and those "
	    "that could not be established" },
	  smbdirect_connection_events },
	{ { "smcrd_smbdirect_bytes", COUNTER, "bytes",
	    "Bytes of SMB by SENDs, RDMA READs and WRITEs of SMB Direct" },
	  smbdirect_bytes },
	{ { "smcrd_smbdirect_channels", COUNTER, "",
	    "SMB requests whose data went by RDMA, and those whose channel was wrong" },
	  smbdirect_channels },
	{ { "smcrd_smbdirect_memory_bytes", GAUGE, "bytes",
	    "Memory that connections of SMB Direct have now" },
	  smbdirect_memory },
	{ { "smcrd_smbdirect_memory_most_bytes", GAUGE, "bytes",
	    "Memory that connections of SMB Direct may have together" },
	  smbdirect_memory_most },

	{ { "smcrd_rnic_up", GAUGE, "", "1 if the port of the RDMA device is active" }, rnic_up },
	{ { "smcrd_rnic_bytes", COUNTER, "bytes", "Bytes of RoCE packets" }, rnic_bytes },
	{ { "smcrd_rnic_packets", COUNTER, "", "RoCE packets" }, rnic_packets },
	{ { "smcrd_rnic_events", COUNTER, "",
	    "Retransmissions, timeouts, negative acknowledgements and the like" },
	  rnic_events },
	{ { "smcrd_rnic_dropped_packets", COUNTER, "", "RoCE packets that were refused" },
	  rnic_drops },
};

const struct openmetrics_family *metrics_family(size_t i)
{
	return i < COUNT(metrics) ? &metrics[i].family : NULL;
}

char *metrics_text(const struct control *control)
{
	struct source *source = calloc(1, sizeof(*source));
	char *text = NULL;
	if (!source)
		return NULL;
	snapshot_take(control, &source->snapshot);
	fabric_each_device(control->fabric, add_device, source);
	smcr_engine_each_link(control->engine, count_link, source);
	if (openmetrics_begin(&source->out)) {
		for (size_t i = 0; i < COUNT(metrics); i++) {
			openmetrics_family(&source->out, &metrics[i].family);
			metrics[i].collect(source);
		}
		text = openmetrics_end(&source->out);
	}
	free(source);
	return text;
}

json_t *control_show_metrics(struct control *control, struct page *page, struct refusal *refusal)
{
	(void)page;
	(void)refusal;
	char *text = metrics_text(control);
	json_t *result = text ? json_pack("{s:s}", "text", text) : NULL;
	free(text);
	return result;
}
