/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/cm.h"

#include <stdio.h>

#include "cli/smcrctl/objects.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static json_int_t number_of(const json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

/* How many RDMA READs at a time: answered/asked. */
static char *reads(const json_t *row)
{
	char *text = NULL;
	if (asprintf(&text, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
		     number_of(row, "reads_answered"), number_of(row, "reads_asked")) < 0)
		return NULL;
	return text;
}

/* "00ab12/-": both sides' numbers, which only administrators see. @return NULL: neither is known */
static char *pair(const json_t *row, const char *local_key, const char *peer_key, int digits)
{
	const json_t *values[2] = { json_object_get(row, local_key),
				    json_object_get(row, peer_key) };
	char text[2][16] = { "-", "-" }, *whole = NULL;
	for (int i = 0; i < 2; i++)
		if (json_is_integer(values[i]))
			snprintf(text[i], sizeof(text[i]), "%0*llx", digits,
				 (unsigned long long)json_integer_value(values[i]));
	if (!json_is_integer(values[0]) && !json_is_integer(values[1]))
		return NULL;
	return asprintf(&whole, "%s/%s", text[0], text[1]) < 0 ? NULL : whole;
}

static char *qpns(const json_t *row)
{
	return pair(row, "local_qpn", "peer_qpn", 6);
}

static char *ids(const json_t *row)
{
	return pair(row, "local_id", "peer_id", 8);
}

/* "8 invalid-service-id" */
static char *reject(const json_t *row)
{
	const char *name = json_string_value(json_object_get(row, "reject_reason"));
	char *text = NULL;
	if (!name ||
	    asprintf(&text, "%" JSON_INTEGER_FORMAT " %s", number_of(row, "reject_code"), name) < 0)
		return NULL;
	return text;
}

const struct column cm_columns[CM_NUM_COLUMNS] = {
	{ "ID", "id" },
	{ "STATE", "state" },
	{ "DIRECTION", "direction", .drop = 3 },
	{ "SINCE", "time_us", .format = since_text, .drop = 5 },
	{ "LOCAL", "local" },
	{ "PEER", "peer" },
	{ "RNIC", "rnic", .drop = 2 },
	{ "QPN", NULL, .format = qpns, .drop = 6 },
	{ "READS", NULL, .format = reads, .drop = 4 },
	{ "MTU", "path_mtu", .details = true },
	{ "IDLE-MS", "idle_ms", .details = true },
	{ "RESENDS", "resends", .details = true },
	{ "IDS", NULL, .details = true, .format = ids },
	{ "END", "end", .details = true },
	{ "REJECT", "reject_code", .details = true, .format = reject },
	{ "PRIVATE-DATA", "private_data", .details = true },
	{ "WHY", "text", .sentence = true },
};

static const struct column listener_columns[] = {
	{ "LISTENS", "local" },   { "REQUESTS", "requests" }, { "ACCEPTED", "accepted" },
	{ "REFUSED", "refused" }, { "WAITING", "waiting" },
};

void cm_print(const json_t *result, bool details)
{
	const json_t *listeners = json_object_get(result, "listeners");
	table_print(json_object_get(result, "connections"), cm_columns, CM_NUM_COLUMNS, details);
	if (json_array_size(listeners) == 0)
		return;
	putchar('\n');
	table_print(listeners, listener_columns, COUNT(listener_columns), details);
}
