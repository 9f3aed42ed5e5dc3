/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/smbdirect.h"

#include <stdio.h>

#include "cli/smcrctl/objects.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* "12/255": two numbers of the row. */
static char *pair(const json_t *row, const char *first, const char *second)
{
	char *text = NULL;
	if (asprintf(&text, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
		     json_integer_value(json_object_get(row, first)),
		     json_integer_value(json_object_get(row, second))) < 0)
		return NULL;
	return text;
}

/* Messages that this host may send now, and that the peer may. */
static char *credits(const json_t *row)
{
	return pair(row, "send_credits", "receive_credits");
}

static char *channels(const json_t *row)
{
	return pair(row, "channels_served", "channels_refused");
}

const struct column smbdirect_columns[SMBDIRECT_NUM_COLUMNS] = {
	{ "ID", "id" },
	{ "STATE", "state" },
	{ "SIDE", "side" },
	{ "SINCE", "time_us", .format = since_text, .drop = 6 },
	{ "LASTED-MS", "lasted_ms", .details = true },
	{ "LOCAL", "local", .drop = 5 },
	{ "PEER", "peer" },
	{ "RNIC", "rnic", .drop = 3 },
	{ "TCP", "tcp" },
	{ "CREDITS", NULL, .format = credits, .drop = 4 },
	{ "TX-BYTES", "tx_bytes", .drop = 2 },
	{ "RX-BYTES", "rx_bytes", .drop = 2 },
	{ "READ-BYTES", "rdma_read_bytes" },
	{ "WRITE-BYTES", "rdma_write_bytes" },
	{ "CHANNELS", NULL, .format = channels, .drop = 1 },
	{ "QUEUED", "queued_bytes", .details = true },
	{ "MEMORY", "memory_bytes", .details = true },
	{ "MAX-SEND", "max_send_bytes", .details = true },
	{ "MAX-RECEIVE", "max_receive_bytes", .details = true },
	{ "MAX-MESSAGE-SENT", "max_message_sent_bytes", .details = true },
	{ "MAX-MESSAGE-RECEIVED", "max_message_received_bytes", .details = true },
	{ "MAX-RDMA", "max_rdma_bytes", .details = true },
	{ "KEEPALIVE-MS", "keepalive_ms", .details = true },
	{ "TX-MESSAGES", "tx_messages", .details = true },
	{ "RX-MESSAGES", "rx_messages", .details = true },
	{ "WHY", "text", .sentence = true },
};

static const struct column listener_columns[] = {
	{ "LISTENS", "listens" }, { "SIDE", "side" },       { "LEADS-TO", "leads_to" },
	{ "TAKEN", "taken" },     { "REFUSED", "refused" }, { "ERROR", "error", .sentence = true },
};

void smbdirect_print(const json_t *result, bool details)
{
	const json_t *listeners = json_object_get(result, "listeners");
	table_print(json_object_get(result, "connections"), smbdirect_columns,
		    SMBDIRECT_NUM_COLUMNS, details);
	if (json_array_size(listeners) == 0)
		return;
	putchar('\n');
	table_print(listeners, listener_columns, COUNT(listener_columns), details);
}
