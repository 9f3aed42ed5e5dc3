/* SPDX-License-Identifier: MIT */
/* Sums as tables: a line for each thing, a column for each side, direction or size. */
#include "cli/smcrctl/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A line: its title, and the key of its numbers. */
struct line {
	const char *title;
	const char *key;
	bool bytes;
};

static const json_t *find(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

static void print(json_t *rows, const struct column *columns, size_t num_columns)
{
	table_print(rows, columns, num_columns, true);
	json_decref(rows);
	putchar('\n');
}

static json_t *row_of(const char *title)
{
	return json_pack("{s:s}", "title", title);
}

static void set(json_t *row, const char *key, const json_t *value)
{
	json_object_set(row, key, value ? (json_t *)value : json_null());
}

/* Bytes look as in all tables: 1.2M, or exact. */
static void set_amount(json_t *row, const char *key, const json_t *value, bool bytes)
{
	char *text =
		bytes && json_is_integer(value) ? table_bytes(json_integer_value(value)) : NULL;
	if (text)
		json_object_set_new(row, key, json_string(text));
	else
		set(row, key, value);
	free(text);
}

/* ---- connections by role ---- */

static void print_roles(const json_t *connections)
{
	static const struct line lines[] = {
		{ "connections over SMC-R version 1", "established_v1" },
		{ "connections over SMC-R version 2", "established_v2" },
		{ "fallbacks to TCP", "fallbacks" },
		{ "handshake errors", "handshake_errors" },
	};
	static const struct column columns[] = {
		{ "SINCE THE START", "title" },
		{ "SERVER", "server" },
		{ "CLIENT", "client" },
	};
	json_t *rows = json_array();
	for (size_t i = 0; i < COUNT(lines); i++) {
		const json_t *counts = find(connections, lines[i].key);
		json_t *row = row_of(lines[i].title);
		set(row, "server", find(counts, "server"));
		set(row, "client", find(counts, "client"));
		json_array_append_new(rows, row);
	}
	print(rows, columns, COUNT(columns));
}

/* ---- bytes by direction ---- */

static void print_directions(const json_t *tx, const json_t *rx)
{
	static const struct line lines[] = {
		{ "bytes", "bytes", true },
		{ "of these by shared memory", "shared_bytes", true },
		{ "bytes relayed over TCP", "relayed_bytes", true },
		{ "messages with bytes", "messages" },
		{ "CDC messages", "cdc_messages" },
		{ "requests", "requests" },
		{ "own buffer full", "full_events" },
		{ "peer's buffer full", "window_full_events" },
		{ "buffers smaller for lack of memory", "downgrades" },
		{ "urgent bytes", "urgent_bytes" },
	};
	static const struct column columns[] = {
		{ "OVER SMC-R", "title" },
		{ "SENT", "sent" },
		{ "RECEIVED", "received" },
	};
	json_t *rows = json_array();
	for (size_t i = 0; i < COUNT(lines); i++) {
		json_t *row = row_of(lines[i].title);
		set_amount(row, "sent", find(tx, lines[i].key), lines[i].bytes);
		set_amount(row, "received", find(rx, lines[i].key), lines[i].bytes);
		json_array_append_new(rows, row);
	}
	print(rows, columns, COUNT(columns));
}

/* ---- by size ---- */

static void add_sizes(json_t *rows, const char *title, const json_t *counts)
{
	json_t *row = row_of(title);
	json_object_update(row, (json_t *)counts);
	json_array_append_new(rows, row);
}

static void print_sizes(const json_t *tx, const json_t *rx)
{
	static const struct column columns[] = {
		{ "BY SIZE", "title" }, { "8K", "8K" },     { "16K", "16K" },
		{ "32K", "32K" },       { "64K", "64K" },   { "128K", "128K" },
		{ "256K", "256K" },     { "512K", "512K" }, { ">512K", ">512K" },
	};
	json_t *rows = json_array();
	add_sizes(rows, "requests sent", find(tx, "request_sizes"));
	add_sizes(rows, "requests received", find(rx, "request_sizes"));
	add_sizes(rows, "send buffers", find(tx, "buffer_sizes"));
	add_sizes(rows, "receive buffers", find(rx, "buffer_sizes"));
	print(rows, columns, COUNT(columns));
}

/* ---- the rest ---- */

static const struct column rest_columns[] = {
	{ "uptime", "uptime_ms", .format = table_uptime },
	{ "connections over SMC-R now", "connections.smcr_now" },
	{ "connections sharing memory now", "connections.shared_now" },
	{ "connections relayed now", "connections.relayed_now" },
	{ "connections plain TCP", "connections.plain_tcp" },
	{ "connections failed", "connections.failed" },
	{ "connections reset", "connections.resets" },
	{ "link groups now", "linkgroups.groups_now" },
	{ "link groups that came", "linkgroups.groups_up" },
	{ "link groups that went", "linkgroups.groups_ended" },
	{ "links now", "linkgroups.links_now" },
	{ "links that came", "linkgroups.links_up" },
	{ "links that failed", "linkgroups.links_failed" },
	{ "links that were deleted", "linkgroups.links_deleted" },
	{ "links that could not be set up", "linkgroups.links_refused" },
	{ "failovers", "linkgroups.failovers" },
	{ "moves of connections", "linkgroups.moves" },
	{ "memory used", "memory.used_bytes" },
	{ "memory budget", "memory.budget_bytes" },
	{ "refused for memory", "memory.refused" },
	{ "rmbs", "memory.rmbs" },
	{ "elements used", "memory.elements_used" },
	{ "RDMA connections now", "cm.connections_now" },
	{ "RDMA connections made", "cm.connected" },
	{ "RDMA connections ended", "cm.disconnected" },
	{ "RDMA connections failed", "cm.failed" },
	{ "RDMA listeners now", "cm.listeners_now" },
	{ "RDMA requests refused", "cm.refused" },
	{ "RDMA requests too many", "cm.limited" },
	{ "CM messages dropped", "cm.dropped" },
	{ "CM messages sent again", "cm.resent" },
	{ "SMB Direct connections now", "smbdirect.connections_now" },
	{ "SMB Direct listeners now", "smbdirect.listeners_now" },
	{ "SMB Direct established", "smbdirect.established" },
	{ "SMB Direct ended", "smbdirect.ended" },
	{ "SMB Direct refused", "smbdirect.refused" },
	{ "SMB bytes sent by SEND", "smbdirect.tx_bytes" },
	{ "SMB bytes received by SEND", "smbdirect.rx_bytes" },
	{ "SMB bytes sent by READ", "smbdirect.rdma_read_tx_bytes" },
	{ "SMB bytes received by READ", "smbdirect.rdma_read_rx_bytes" },
	{ "SMB bytes sent by WRITE", "smbdirect.rdma_write_tx_bytes" },
	{ "SMB bytes received by WRITE", "smbdirect.rdma_write_rx_bytes" },
	{ "SMB channels served", "smbdirect.channels_served" },
	{ "SMB channels refused", "smbdirect.channels_refused" },
	{ "SMB Direct memory", "smbdirect.memory_bytes" },
	{ "SMB Direct memory at most", "smbdirect.memory_most_bytes" },
	{ "users kept from port 4791", "refused.roce" },
	{ "users kept from CLC", "refused.clc" },
};

/* ---- details ---- */

static char *up_to(const json_t *row)
{
	const json_t *end = find(row, "up_to_us");
	char *text = NULL;
	if (!json_is_integer(end))
		return strdup("longer");
	return asprintf(&text, "up to %.1f ms", (double)json_integer_value(end) / 1000) < 0 ? NULL
											    : text;
}

static void print_times(const json_t *result)
{
	static const struct line lines[] = {
		{ "HANDSHAKES", "handshakes" },
		{ "FIRST-CONTACTS", "first_contacts" },
		{ "FAILOVER-GAPS", "failover_gaps" },
	};
	const struct column columns[] = {
		{ "TIME", NULL, .format = up_to },
		{ lines[0].title, lines[0].key },
		{ lines[1].title, lines[1].key },
		{ lines[2].title, lines[2].key },
	};
	const json_t *first = find(find(result, lines[0].key), "classes"), *class;
	json_t *rows = json_array();
	size_t c;
	json_array_foreach(first, c, class)
	{
		json_t *row = json_object();
		set(row, "up_to_us", find(class, "up_to_us"));
		for (size_t i = 0; i < COUNT(lines); i++) {
			const json_t *classes = find(find(result, lines[i].key), "classes");
			set(row, lines[i].key, find(json_array_get(classes, c), "count"));
		}
		json_array_append_new(rows, row);
	}
	print(rows, columns, COUNT(columns));
}

/* What has been counted by name, a line for each. */
static void print_cm(const json_t *cm)
{
	static const struct column columns[] = {
		{ "CM MESSAGES", "title" },
		{ "SENT", "sent" },
		{ "RECEIVED", "received" },
	};
	const char *name;
	json_t *rows = json_array(), *count;
	json_object_foreach((json_t *)find(cm, "sent"), name, count)
	{
		json_t *row = row_of(name);
		set(row, "sent", count);
		set(row, "received", find(find(cm, "received"), name));
		json_array_append_new(rows, row);
	}
	print(rows, columns, COUNT(columns));
}

static void print_reasons(const json_t *connections)
{
	static const struct column columns[] = {
		{ "CONNECTIONS", "connections" },
		{ "WHY NOT SMC-R", "text" },
	};
	print(json_incref((json_t *)find(connections, "reasons")), columns, COUNT(columns));
}

static void print_devices(const json_t *devices)
{
	static const struct column columns[] = {
		{ "RNIC", "name" },
		{ "TX-PACKETS", "tx_packets" },
		{ "TX-BYTES", "tx_bytes" },
		{ "RX-PACKETS", "rx_packets" },
		{ "RX-BYTES", "rx_bytes" },
		{ "RETRANSMITS", "retransmits" },
		{ "TIMEOUTS", "timeouts" },
		{ "DUPLICATES", "duplicates" },
		{ "OUT-OF-ORDER", "out_of_order" },
	};
	print(json_incref((json_t *)devices), columns, COUNT(columns));
}

void stats_print(const json_t *result, bool details)
{
	const json_t *connections = find(result, "connections");
	const json_t *tx = find(result, "tx"), *rx = find(result, "rx");
	print_roles(connections);
	print_directions(tx, rx);
	print_sizes(tx, rx);
	if (details) {
		print_times(result);
		print_cm(find(result, "cm"));
		print_reasons(connections);
		print_devices(find(result, "devices"));
	}
	table_print_object(result, rest_columns, COUNT(rest_columns), details);
}
