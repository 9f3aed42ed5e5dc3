/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/objects.h"
#include "cli/smcrctl/pages.h"

/* ---- rows ---- */

struct peers {
	json_t *rows;
	json_t *by_address;            /* the same rows */
	char wanted[INET6_ADDRSTRLEN]; /* "": all */
};

/* The row of the peer that the item is about; NULL: it is about no peer, or not a wanted one. */
static json_t *row_of(struct peers *peers, const json_t *item)
{
	const char *peer = json_string_value(json_object_get(item, "peer"));
	if (!peer || (*peers->wanted && strcmp(peer, peers->wanted) != 0))
		return NULL;
	json_t *row = json_object_get(peers->by_address, peer);
	if (row)
		return row;
	row = json_pack("{s:s, s:n, s:i, s:i, s:i, s:i, s:i, s:n, s:[], s:n}", "peer", peer,
			"peer_host", "linkgroups", 0, "links", 0, "connections", 0, "tx_bytes", 0,
			"rx_bytes", 0, "skipped_seconds_left", "failures", "last_event");
	json_object_set_new(peers->by_address, peer, row);
	json_array_append(peers->rows, row);
	return row;
}

static void add(json_t *row, const char *key, json_int_t value)
{
	json_t *sum = json_object_get(row, key);
	json_integer_set(sum, json_integer_value(sum) + value);
}

static json_int_t number(const json_t *item, const char *key)
{
	return json_integer_value(json_object_get(item, key));
}

static void add_group(struct peers *peers, const json_t *group)
{
	json_t *row = row_of(peers, group), *host = json_object_get(group, "peer_host");
	if (!row)
		return;
	add(row, "linkgroups", 1);
	add(row, "connections", number(group, "connections"));
	if (json_is_string(host))
		json_object_set(row, "peer_host", host);
}

static void add_link(struct peers *peers, const json_t *link)
{
	json_t *row = row_of(peers, link);
	if (!row)
		return;
	add(row, "links", 1);
	add(row, "tx_bytes", number(link, "tx_bytes"));
	add(row, "rx_bytes", number(link, "rx_bytes"));
}

/* Events come oldest first: the last one stays. */
static void add_event(struct peers *peers, const json_t *event)
{
	json_t *row = row_of(peers, event);
	if (row)
		json_object_set_new(row, "last_event",
				    json_pack("{s:O, s:O, s:O, s:O}", "id",
					      json_object_get(event, "id"), "time_us",
					      json_object_get(event, "time_us"), "event",
					      json_object_get(event, "event"), "text",
					      json_object_get(event, "text")));
}

/* A failure of one port does not concern the others. Of several users' the one that lasts longest
 * counts. */
static void add_failure(struct peers *peers, const json_t *failure)
{
	json_t *row = row_of(peers, failure);
	json_t *left = json_object_get(failure, "seconds_left");
	if (!row)
		return;
	json_array_append_new(json_object_get(row, "failures"),
			      json_pack("{s:O, s:O, s:O, s:O, s:O}", "port",
					json_object_get(failure, "port"), "uid",
					json_object_get(failure, "uid"), "kind",
					json_object_get(failure, "kind"), "text",
					json_object_get(failure, "text"), "seconds_left", left));
	if (json_is_null(json_object_get(failure, "port")) &&
	    json_integer_value(left) > number(row, "skipped_seconds_left"))
		json_object_set(row, "skipped_seconds_left", left);
}

/* ---- questions to smcrd ---- */

static const struct source {
	const char *method, *list; /* list: its key; NULL: the result itself is the list */
	bool takes_peer;           /* the method can be limited to a peer */
	void (*add)(struct peers *peers, const json_t *item);
} sources[] = {
	{ "linkgroup.show", NULL, true, add_group },
	{ "link.show", NULL, true, add_link },
	{ "policy.show", "failed", false, add_failure },
	{ "event.show", NULL, true, add_event },
};

static int ask(struct session *session, const struct source *source, const json_t *params,
	       json_t **ret_reply, char ret_error[SESSION_ERROR_LEN])
{
	json_t *request = json_pack("{s:s, s:O}", "method", source->method, "params", params);
	if (!source->takes_peer)
		json_object_set_new(request, "params", json_object());
	char *text = json_dumps(request, JSON_COMPACT);
	json_decref(request);
	if (!text) {
		snprintf(ret_error, SESSION_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	int error = pages_request(session, text, ret_reply, ret_error);
	free(text);
	return error;
}

static void add_all(struct peers *peers, const struct source *source, const json_t *reply)
{
	const json_t *list = json_object_get(reply, "result");
	size_t i;
	json_t *item;
	if (source->list)
		list = json_object_get(list, source->list);
	json_array_foreach(list, i, item)
	{
		source->add(peers, item);
	}
}

/* Notes the wanted address in smcrd's notation. smcrd refuses a text that is no address. */
static void take_wanted(struct peers *peers, const json_t *params)
{
	const char *text = json_string_value(json_object_get(params, "peer"));
	struct in6_addr ip;
	if (text && inet_pton(AF_INET6, text, &ip) == 1 && IN6_IS_ADDR_V4MAPPED(&ip))
		inet_ntop(AF_INET, ip.s6_addr + 12, peers->wanted, sizeof(peers->wanted));
	else if (text && inet_pton(AF_INET6, text, &ip) == 1)
		inet_ntop(AF_INET6, &ip, peers->wanted, sizeof(peers->wanted));
	else if (text)
		snprintf(peers->wanted, sizeof(peers->wanted), "%s", text);
}

int peers_gather(struct session *session, const char *request, json_t **ret_reply,
		 char ret_error[SESSION_ERROR_LEN])
{
	struct peers peers = { .rows = json_array(), .by_address = json_object() };
	json_t *whole = json_loads(request, 0, NULL), *params = json_object_get(whole, "params");
	json_t *refused = NULL;
	int error = 0;
	take_wanted(&peers, params);
	for (size_t i = 0; !error && !refused && i < sizeof(sources) / sizeof(sources[0]); i++) {
		json_t *reply = NULL;
		error = ask(session, &sources[i], params, &reply, ret_error);
		if (!error && json_object_get(reply, "error"))
			refused = json_incref(reply);
		else if (!error)
			add_all(&peers, &sources[i], reply);
		json_decref(reply);
	}
	if (!error)
		*ret_reply = refused ? refused
				     : json_pack("{s:i, s:O}", "schema", 1, "result", peers.rows);
	json_decref(peers.rows);
	json_decref(peers.by_address);
	json_decref(whole);
	return error;
}

/* ---- as a table ---- */

/* "57 s", "port 443 2 s", "no" */
static char *skipped(const json_t *row)
{
	char *text = NULL;
	size_t size, i;
	json_t *failure;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(json_object_get(row, "failures"), i, failure)
	{
		const json_t *port = json_object_get(failure, "port");
		json_int_t left = number(failure, "seconds_left");
		if (left <= 0)
			continue;
		fputs(ftell(out) ? ", " : "", out);
		if (json_is_integer(port))
			fprintf(out, "port %" JSON_INTEGER_FORMAT " ", json_integer_value(port));
		fprintf(out, "%" JSON_INTEGER_FORMAT " s", left);
	}
	if (ftell(out) == 0)
		fputs("no", out);
	fclose(out);
	return text;
}

/* The last thing that went wrong, else the last thing that happened. */
static char *last(const json_t *row)
{
	const json_t *failures = json_object_get(row, "failures");
	const json_t *failure = json_array_get(failures, json_array_size(failures) - 1);
	const json_t *event = json_object_get(row, "last_event");
	const json_t *told = failure ? failure : event;
	const char *text = json_string_value(json_object_get(told, "text"));
	return text ? strdup(text) : NULL;
}

static char *last_time(const json_t *row)
{
	return event_time(json_object_get(row, "last_event"));
}

const struct column peer_columns[PEERS_NUM_COLUMNS] = {
	{ "PEER", "peer" },
	{ "HOST", "peer_host", .drop = 1 },
	{ "GROUPS", "linkgroups", .drop = 3 },
	{ "LINKS", "links", .drop = 2 },
	{ "CONNECTIONS", "connections" },
	{ "TX-BYTES", "tx_bytes", .drop = 4 },
	{ "RX-BYTES", "rx_bytes", .drop = 4 },
	{ "SKIPPED", NULL, .format = skipped },
	{ "LAST-EVENT", NULL, .format = last_time, .drop = 5 },
	{ "LAST", NULL, .format = last, .sentence = true },
};

void peers_print(const json_t *result, bool details)
{
	table_print(result, peer_columns, PEERS_NUM_COLUMNS, details);
}
