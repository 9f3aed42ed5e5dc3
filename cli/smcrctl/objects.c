/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/smcrctl/cm.h"
#include "cli/smcrctl/peers.h"
#include "cli/smcrctl/config.h"
#include "cli/smcrctl/log.h"
#include "cli/smcrctl/policy.h"
#include "cli/smcrctl/smbdirect.h"
#include "cli/smcrctl/stats.h"
#include "cli/smcrctl/table.h"
#include "cli/smcrctl/top_frame.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *text_of(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

char *link_text(const json_t *row, const char *number_key)
{
	const json_t *group = json_object_get(row, "linkgroup");
	const json_t *number = json_object_get(row, number_key);
	char *text = NULL;
	if (!json_is_integer(group) || !json_is_integer(number))
		return NULL;
	if (asprintf(&text, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
		     json_integer_value(group), json_integer_value(number)) < 0)
		return NULL;
	return text;
}

static char *link_of_link(const json_t *row)
{
	return link_text(row, "number");
}

static char *link_of_connection(const json_t *row)
{
	return link_text(row, "link");
}

/* "active, disabled": the link is up, but an operator does not want it to be written on. */
static char *link_state(const json_t *row)
{
	char *text = NULL;
	const char *state = text_of(row, "state");
	bool disabled = json_is_true(json_object_get(row, "disabled"));
	if (!state || asprintf(&text, "%s%s", state, disabled ? ", disabled" : "") < 0)
		return NULL;
	return text;
}

static char *qpn_pair(const json_t *row)
{
	const json_t *local = json_object_get(row, "local_qpn");
	const json_t *peer = json_object_get(row, "peer_qpn");
	char *text = NULL;
	if (!json_is_integer(local) || !json_is_integer(peer)) /* only administrators see them */
		return NULL;
	if (asprintf(&text, "%06llx/%06llx", (unsigned long long)json_integer_value(local),
		     (unsigned long long)json_integer_value(peer)) < 0)
		return NULL;
	return text;
}

/* How a connection has failed, as its program was told. NULL: it has not */
static char *failure(const json_t *row)
{
	const char *state = text_of(row, "state"), *error = text_of(row, "error");
	char *text = NULL;
	if (!state || strcmp(state, "failed") || !error || asprintf(&text, "failed: %s", error) < 0)
		return NULL;
	return text;
}

/* This host's reason in words, then the peer's if it declined, or how many connections the row
 * stands for. Of a connection that has failed instead: how. */
static char *fallback(const json_t *row)
{
	const char *own = text_of(row, "fallback_text"), *peer = text_of(row, "peer_fallback_text");
	json_int_t unasked = json_integer_value(json_object_get(row, "unasked"));
	char *text = NULL;
	if (!own)
		return failure(row);
	if (!peer && unasked > 0)
		return asprintf(&text, "%s; the same for %" JSON_INTEGER_FORMAT " before it", own,
				unasked) < 0
			       ? NULL
			       : text;
	if (asprintf(&text, peer ? "%s; the peer says: %s" : "%s", own, peer) < 0)
		return NULL;
	return text;
}

/* The reasons as numbers, as other tools show them: "05000000/03030000". */
static char *fallback_codes(const json_t *row)
{
	const json_t *own = json_object_get(row, "fallback_code");
	const json_t *peer = json_object_get(row, "peer_fallback_code");
	char *text = NULL;
	if (!json_is_integer(own))
		return NULL;
	int n = json_is_integer(peer)
			? asprintf(&text, "%08llx/%08llx",
				   (unsigned long long)json_integer_value(own),
				   (unsigned long long)json_integer_value(peer))
			: asprintf(&text, "%08llx", (unsigned long long)json_integer_value(own));
	return n < 0 ? NULL : text;
}

static char *fallbacks(const json_t *info)
{
	const json_t *list = json_object_get(info, "fallbacks");
	char *text = NULL;
	size_t size = 0, i;
	json_t *item;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(list, i, item)
	{
		const char *peer = text_of(item, "peer_text");
		fprintf(out, "%s%s%s%s (%" JSON_INTEGER_FORMAT ")", i ? "; " : "",
			text_of(item, "text"), peer ? "; the peer says: " : "", peer ? peer : "",
			json_integer_value(json_object_get(item, "connections")));
	}
	fclose(out);
	return text;
}

/* "192.0.2.1 (3), others (2)" */
static char *fallback_peers(const json_t *info)
{
	const json_t *list = json_object_get(info, "fallback_peers");
	char *text = NULL;
	size_t size = 0, i;
	json_t *item;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(list, i, item)
	{
		const char *peer = text_of(item, "peer");
		fprintf(out, "%s%s (%" JSON_INTEGER_FORMAT ")", i ? ", " : "",
			peer ? peer : "others",
			json_integer_value(json_object_get(item, "connections")));
	}
	fclose(out);
	return text;
}

static char *skipped(const json_t *info)
{
	const json_t *list = json_object_get(info, "skipped_peers");
	char *text = NULL;
	size_t size = 0, i;
	json_t *item;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(list, i, item)
	{
		const json_t *port = json_object_get(item, "port");
		fprintf(out, "%s%s", i ? "; " : "", text_of(item, "peer"));
		if (json_is_integer(port))
			fprintf(out, " port %" JSON_INTEGER_FORMAT, json_integer_value(port));
		fprintf(out,
			" for %" JSON_INTEGER_FORMAT " s, for user %" JSON_INTEGER_FORMAT " (%s)",
			json_integer_value(json_object_get(item, "seconds_left")),
			json_integer_value(json_object_get(item, "uid")), text_of(item, "reason"));
	}
	fclose(out);
	return text;
}

static char *limits(const json_t *info)
{
	const json_t *list = json_object_get(info, "limits");
	char *text = NULL;
	size_t size = 0, i;
	json_t *item;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(list, i, item)
	{
		const json_t *uid = json_object_get(item, "uid");
		fputs(i ? "; " : "", out);
		if (json_is_integer(uid))
			fprintf(out, "user %" JSON_INTEGER_FORMAT, json_integer_value(uid));
		else
			fputs("everybody", out);
		fprintf(out, " (%s)", text_of(item, "text"));
	}
	fclose(out);
	return text;
}

static char *draining(const json_t *info)
{
	const json_t *drain = json_object_get(info, "draining");
	char *text = NULL;
	if (!json_is_object(drain))
		return strdup("no");
	if (asprintf(&text,
		     "for %" JSON_INTEGER_FORMAT
		     " s: new connections are plain TCP, %" JSON_INTEGER_FORMAT
		     " of smcrd's are left ('smcrctl drain --off' ends that)",
		     json_integer_value(json_object_get(drain, "age_ms")) / 1000,
		     json_integer_value(json_object_get(drain, "connections"))) < 0)
		return NULL;
	return text;
}

static char *tcp_option(const json_t *info)
{
	const json_t *option = json_object_get(info, "tcp_option");
	char *text = NULL;
	if (json_is_true(json_object_get(option, "available")))
		return strdup("in use");
	if (asprintf(&text, "not available, connections stay TCP: %s",
		     text_of(option, "error") ? text_of(option, "error") : "no reason known") < 0)
		return NULL;
	return text;
}

/* "2026-11-23 05:31:13.250", local time. */
char *event_time(const json_t *row)
{
	const json_t *time_us = json_object_get(row, "time_us");
	json_int_t us = json_integer_value(time_us);
	time_t seconds = (time_t)(us / 1000000);
	char text[64], *whole = NULL;
	struct tm tm;
	if (!json_is_integer(time_us) || !localtime_r(&seconds, &tm) ||
	    !strftime(text, sizeof(text), "%F %T", &tm) ||
	    asprintf(&whole, "%s.%03d", text, (int)(us / 1000 % 1000)) < 0)
		return NULL;
	return whole;
}

void event_print_line(const json_t *event, bool details)
{
	char *when = event_time(event);
	const char *kind = text_of(event, "event"), *text = text_of(event, "text");
	if (details)
		printf("%6" JSON_INTEGER_FORMAT "  ",
		       json_integer_value(json_object_get(event, "id")));
	printf("%s  %-12s  %s\n", when ? when : "-", kind ? kind : "-", text ? text : "-");
	free(when);
}

char *since_text(const json_t *row)
{
	const json_t *time_us = json_object_get(row, "time_us");
	time_t begun = (time_t)(json_integer_value(time_us) / 1000000), now = time(NULL);
	struct tm tm, today;
	char text[32];
	if (!json_is_integer(time_us) || !localtime_r(&begun, &tm) || !localtime_r(&now, &today))
		return NULL;
	bool same_day = tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday;
	if (!strftime(text, sizeof(text), same_day ? "%T" : "%F", &tm))
		return NULL;
	return strdup(text);
}

/* "down: its interface has no IPv4 address", "active, drained" */
static char *device_state(const json_t *row)
{
	char *text = NULL;
	const char *state = text_of(row, "state"), *why = text_of(row, "down_text");
	const char *drained = json_is_true(json_object_get(row, "drained")) ? ", drained" : "";
	if (!state ||
	    asprintf(&text, "%s%s%s%s", state, drained, why ? ": " : "", why ? why : "") < 0)
		return NULL;
	return text;
}

static const struct column info_columns[] = {
	{ "version", "version" },
	{ "pid", "pid" },
	{ "uptime", "uptime_ms", .format = table_uptime },
	{ "socket", "socket" },
	{ "peer id", "peer_id" },
	{ "tcp option", NULL, .format = tcp_option },
	{ "draining", NULL, .format = draining },
	{ "devices", "devices" },
	{ "connections over SMC-R", "connections.smcr" },
	{ "connections sharing memory", "connections.shared" },
	{ "connections relayed", "connections.relayed" },
	{ "connections pending", "connections.pending" },
	{ "established so far", "connections.established_total" },
	{ "fallen back so far", "connections.fallbacks_total" },
	{ "plain TCP so far", "connections.plain_tcp_total" },
	{ "failed so far", "connections.failed_total" },
	{ "reset so far", "connections.resets_total" },
	{ "why not SMC-R", NULL, .format = fallbacks },
	{ "with which peers", NULL, .format = fallback_peers },
	{ "peers skipped", NULL, .format = skipped },
	{ "at a limit", NULL, .format = limits },
	{ "RDMA connections", "cm.connections" },
	{ "RDMA listeners", "cm.listeners" },
	{ "SMB Direct connections", "smbdirect.connections" },
	{ "SMB Direct listeners", "smbdirect.listeners" },
	{ "link groups", "engine.linkgroups" },
	{ "memory used", "engine.memory_used_bytes" },
	{ "memory budget", "engine.memory_budget_bytes" },
	{ "refused for memory", "engine.memory_refused_total" },
	{ "listeners refused", "tcp_option.listeners_refused_total" },
	{ "system bus", "dbus", .details = true },
	{ "listeners", "tcp_option.listeners", .details = true },
	{ "bytes sent", "connections.tx_bytes", .details = true },
	{ "bytes received", "connections.rx_bytes", .details = true },
	{ "sent by shared memory", "connections.shared_tx_bytes", .details = true },
	{ "received by shared memory", "connections.shared_rx_bytes", .details = true },
	{ "names taken", "connections.names_taken_total", .details = true },
	{ "links", "engine.links", .details = true },
	{ "rmbs", "engine.rmbs", .details = true },
	{ "elements used", "engine.elements_used", .details = true },
	{ "queue pairs", "engine.queue_pairs", .details = true },
	{ "memory regions", "engine.memory_regions", .details = true },
	{ "timers", "engine.timers", .details = true },
	{ "cdc dropped", "engine.cdc_dropped", .details = true },
	{ "llc dropped", "engine.llc_dropped", .details = true },
	{ "llc protocol errors", "engine.llc_protocol_errors", .details = true },
	{ "first contacts refused", "engine.first_contacts_refused_total", .details = true },
	{ "long turns for programs", "event_loop.programs.long_turns", .details = true },
	{ "long turns for tools", "event_loop.tools.long_turns", .details = true },
	{ "long turns for roce", "event_loop.roce.long_turns", .details = true },
	{ "long turns for timers", "event_loop.timers.long_turns", .details = true },
	{ "long turns for cm", "event_loop.cm.long_turns", .details = true },
	{ "long turns for the host", "event_loop.host.long_turns", .details = true },
	{ "looks for more work", "event_loop.spins_total", .details = true },
	{ "of these in vain", "event_loop.vain_spins_total", .details = true },
	{ "sleeps", "event_loop.sleeps_total", .details = true },
};

static const struct column device_columns[] = {
	{ "NAME", "name" },
	{ "STATE", "state", .format = device_state },
	{ "NETDEV", "netdev" },
	{ "GIDS", "gids", .drop = 3 },
	{ "MTU", "mtu", .drop = 2 },
	{ "LINKS", "links" },
	{ "CRITICAL", "critical", .drop = 1 },
	{ "RETRANSMITS", "counters.retransmits", .details = true },
	{ "TIMEOUTS", "counters.timeouts", .details = true },
	{ "BAD-ICRC", "counters.drop_icrc", .details = true },
	{ "BAD-QP", "counters.drop_qp", .details = true },
	{ "BAD-PEER", "counters.drop_peer", .details = true },
	{ "BAD-PSN", "counters.drop_psn", .details = true },
	{ "BAD-ACCESS", "counters.drop_access", .details = true },
	{ "MALFORMED", "counters.drop_malformed", .details = true },
};

static const struct column linkgroup_columns[] = {
	{ "ID", "id" },
	{ "PEER", "peer" },
	{ "ROLE", "role" },
	{ "TYPE", "type", .drop = 2 },
	{ "VERSION", "version", .drop = 1 },
	{ "RELEASE", "release", .details = true },
	{ "DIALECT", "dialect", .drop = 3 },
	{ "PEER-ID", "peer_id", .drop = 6 },
	{ "PEER-HOST", "peer_host", .details = true },
	{ "PEER-OS", "peer_os", .details = true },
	{ "EID", "eid", .details = true },
	{ "DIRECT", "direct", .details = true },
	{ "VLAN", "vlan", .drop = 5 },
	{ "LINKS", "links" },
	{ "MAX-LINKS", "max_links", .details = true },
	{ "CONNECTIONS", "connections" },
	{ "MAX-CONNS", "max_connections", .details = true },
	{ "RMBS", "rmbs", .drop = 4 },
	{ "PEER-RMBS", "peer_rmbs", .details = true },
	{ "IDLE-MS", "idle_ms", .details = true },
};

static const struct column link_columns[] = {
	{ "LINK", NULL, .format = link_of_link },
	{ "PEER", "peer" },
	{ "PEER-HOST", "peer_host", .details = true },
	{ "STATE", "state", .format = link_state },
	{ "RNIC", "rnic", .drop = 1 },
	{ "LOCAL-GID", "local_gid", .drop = 6 },
	{ "PEER-GID", "peer_gid", .drop = 5 },
	{ "QPN", NULL, .format = qpn_pair, .drop = 7 },
	{ "MTU", "path_mtu", .drop = 4 },
	{ "CONNECTIONS", "connections" },
	{ "TX-BYTES", "tx_bytes", .drop = 2 },
	{ "RX-BYTES", "rx_bytes", .drop = 2 },
	{ "UID", "uid", .details = true },
	{ "PEER-UID", "peer_uid", .details = true },
	{ "RETRANSMITS", "retransmits", .drop = 3 },
	{ "LAST-ERROR", "last_error", .details = true },
};

static const struct column connection_columns[] = {
	{ "ID", "id", .details = true },
	{ "SINCE", "time_us", .format = since_text, .drop = 6 },
	{ "LOCAL", "local" },
	{ "PEER", "peer" },
	{ "PEER-HOST", "peer_host", .details = true },
	{ "ROLE", "role", .details = true },
	{ "MODE", "mode" },
	{ "LINK", NULL, .format = link_of_connection, .drop = 3 },
	{ "STATE", "state", .drop = 1 },
	{ "TX-BYTES", "tx_bytes", .drop = 2 },
	{ "RX-BYTES", "rx_bytes", .drop = 2 },
	{ "RMBE", "rmbe_size", .details = true },
	{ "PEER-RMBE", "peer_rmbe_size", .details = true },
	{ "SNDBUF", "sndbuf_size", .details = true },
	{ "SHARED-TX", "shared_tx_bytes", .details = true },
	{ "SHARED-RX", "shared_rx_bytes", .details = true },
	{ "VERSION", "version", .details = true },
	{ "DIALECT", "dialect", .details = true },
	{ "TX-UNSENT", "tx_unsent_bytes", .details = true },
	{ "TX-BUFFER", "tx_buffered_bytes", .details = true },
	{ "TX-WINDOW", "tx_window_bytes", .details = true },
	{ "IN-PEER", "tx_in_peer_bytes", .details = true },
	{ "RX-BUFFER", "rx_buffered_bytes", .details = true },
	{ "RX-WINDOW", "rx_window_bytes", .details = true },
	{ "TX-REQS", "tx_requests", .details = true },
	{ "RX-REQS", "rx_requests", .details = true },
	{ "TX-FULL", "tx_full_events", .details = true },
	{ "STALLS", "tx_window_full_events", .details = true },
	{ "RX-FULL", "rx_full_events", .details = true },
	{ "SENT-AGO-US", "cdc_sent_ago_us", .details = true },
	{ "HEARD-AGO-US", "cdc_received_ago_us", .details = true },
	{ "RTT-US", "rtt_us", .details = true },
	{ "MOVES", "moves", .details = true },
	{ "RETRANSMITS", "link_retransmits", .details = true },
	{ "UID", "uid", .details = true },
	{ "PID", "pid", .drop = 5 },
	{ "PROGRAM", "program", .drop = 4 },
	{ "ERROR", "error", .details = true },
	{ "CODES", NULL, .details = true, .format = fallback_codes },
	{ "FALLBACK", NULL, .format = fallback, .sentence = true },
};

/* GROUP/NUMBER, as in the names of links. */
static char *rmb_name(const json_t *row)
{
	return link_text(row, "number");
}

/* How much of the RMB is filled, in percent. */
static char *rmb_fill(const json_t *row)
{
	json_int_t size = json_integer_value(json_object_get(row, "size_bytes"));
	json_int_t filled = json_integer_value(json_object_get(row, "filled_bytes"));
	char *text = NULL;
	if (size <= 0 || asprintf(&text, "%.1f%%", 100.0 * (double)filled / (double)size) < 0)
		return NULL;
	return text;
}

/* The ids of the connections: table.c shows arrays of strings only. */
static char *rmb_owners(const json_t *row)
{
	const json_t *owners = json_object_get(row, "owners"), *owner;
	char *text = NULL;
	size_t size = 0, i;
	FILE *out = json_array_size(owners) ? open_memstream(&text, &size) : NULL;
	if (!out)
		return NULL;
	json_array_foreach(owners, i, owner)
	{
		fprintf(out, "%s%" JSON_INTEGER_FORMAT, i ? "," : "", json_integer_value(owner));
	}
	fclose(out);
	return text;
}

static const struct column rmb_columns[] = {
	{ "RMB", NULL, .format = rmb_name },
	{ "KIND", "kind" },
	{ "STATE", "state" },
	{ "ELEMENT", "element_size" },
	{ "ELEMENTS", "elements" },
	{ "USED", "elements_used" },
	{ "SIZE", "size_bytes" },
	{ "FILLED", "filled_bytes" },
	{ "FILL", NULL, .format = rmb_fill },
	{ "LINKS", "links", .details = true },
	{ "OWNERS", NULL, .details = true, .format = rmb_owners },
};

static const struct column event_columns[] = {
	{ "ID", "id", .details = true },
	{ "TIME", "time_us", .format = event_time },
	{ "EVENT", "event", .drop = 1 },
	{ "PEER", "peer", .details = true },
	{ "LINKGROUP", "linkgroup", .details = true },
	{ "LINK", "link", .details = true },
	{ "RNIC", "rnic", .details = true },
	{ "CONNECTIONS", "connections", .details = true },
	{ "TEXT", "text", .sentence = true },
};

static const struct column ueid_columns[] = {
	{ "UEID", "name" },
	{ "LINKGROUPS", "linkgroups" },
};

_Static_assert(COUNT(info_columns) <= TABLE_MAX_COLUMNS, "none of them may be left out");

static void print_info(const json_t *result, bool details)
{
	table_print_object(result, info_columns, COUNT(info_columns), details);
}

static void print_devices(const json_t *result, bool details)
{
	table_print(result, device_columns, COUNT(device_columns), details);
}

static void print_linkgroups(const json_t *result, bool details)
{
	table_print(result, linkgroup_columns, COUNT(linkgroup_columns), details);
}

static void print_links(const json_t *result, bool details)
{
	table_print(result, link_columns, COUNT(link_columns), details);
}

static void print_connections(const json_t *result, bool details)
{
	table_print(result, connection_columns, COUNT(connection_columns), details);
}

static void print_rmbs(const json_t *result, bool details)
{
	table_print(result, rmb_columns, COUNT(rmb_columns), details);
}

/* Prints what a monitoring system gets. */
static void print_metrics(const json_t *result, bool details)
{
	const char *text = text_of(result, "text");
	(void)details;
	fputs(text ? text : "", stdout);
}

static void print_events(const json_t *result, bool details)
{
	table_print(result, event_columns, COUNT(event_columns), details);
}

static void print_ueids(const json_t *result, bool details)
{
	table_print(result, ueid_columns, COUNT(ueid_columns), details);
}

#define TABLE(columns) columns, COUNT(columns)

const struct object objects[] = {
	{ "info", "the daemon; why connections are TCP", print_info },
	{ "peer", "hosts that SMC-R is spoken with, or was tried with", peers_print, peer_columns,
	  PEERS_NUM_COLUMNS, .gather = peers_gather },
	{ "device", "RDMA devices", print_devices, TABLE(device_columns) },
	{ "linkgroup", "link groups: one for each peer, role and version", print_linkgroups,
	  TABLE(linkgroup_columns) },
	{ "link", "links: one for each pair of RDMA devices", print_links, TABLE(link_columns) },
	{ "failover", NULL, NULL },
	{ "drain", NULL, NULL },
	{ "connection", "connections of programs, and why some stayed TCP", print_connections,
	  TABLE(connection_columns) },
	{ "cm", "RDMA connections made by address and port, and who listens", cm_print, cm_columns,
	  CM_NUM_COLUMNS, .rows = "connections" },
	{ "smbdirect", "SMB Direct: SMB over RDMA, for Samba and its clients", smbdirect_print,
	  smbdirect_columns, SMBDIRECT_NUM_COLUMNS, .rows = "connections" },
	{ "top", "the busiest connections, links and link groups, live", .run = top_run,
	  .columns = top_columns, .num_columns = TOP_NUM_COLUMNS,
	  .arguments = "[FILTER ..] [--batch]" },
	{ "rmb", "receive and send buffers: how many are in use, how full", print_rmbs,
	  TABLE(rmb_columns) },
	{ "stats", "sums over all connections since the start", stats_print },
	{ "metrics", "these sums and more, for monitoring systems (OpenMetrics)", print_metrics },
	{ "event", "what has happened to RNICs, links and connections, and commands", print_events,
	  TABLE(event_columns) },
	{ "monitor", NULL, NULL },
	{ "ueid", "names that hosts of version 2 have in common", print_ueids,
	  TABLE(ueid_columns) },
	{ "log", "which lines smcrd logs; whether it traces messages", log_print,
	  .gather = log_gather },
	{ "config", "smcrd's settings, and from which file each is", config_print },
	{ "policy", "which connections use SMC-R, and why others do not", policy_print },
	{ "doctor", "what is wrong with this host, and what to do", .run = doctor_run,
	  .arguments = "[--rules]" },
	{ "check", "would a connection use SMC-R, and if not why?", .run = check_run,
	  .arguments = "HOST [PORT] [program PATH] [--cm]" },
	{ "capture", "messages of links as pcapng, for tshark", .run = capture_run,
	  .arguments = "[FILTER ..] [--data] [-w FILE]" },
};
const size_t num_objects = COUNT(objects);
