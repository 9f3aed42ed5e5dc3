/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/policy.h"

#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *source(const json_t *row)
{
	return strdup(json_is_true(json_object_get(row, "configured")) ? "smcrd.conf" : "smcrctl");
}

static const struct column rule_columns[] = {
	{ "RULE", "rule" },
	{ "FROM", NULL, .format = source },
	{ "HITS", "hits" },
};

static void print_rules(const json_t *result, bool details)
{
	const json_t *rules = json_object_get(result, "rules");
	const char *rest = json_string_value(json_object_get(result, "default"));
	bool denied = rest && !strcmp(rest, "deny");
	if (json_array_size(rules) == 0) {
		puts("No rule: every connection may use SMC-R.");
		return;
	}
	table_print(rules, rule_columns, COUNT(rule_columns), details);
	json_int_t hits = json_integer_value(json_object_get(result, "default_hits"));
	if (denied)
		printf("What no rule allows is denied: %" JSON_INTEGER_FORMAT
		       " connection%s so far.\n",
		       hits, hits == 1 ? "" : "s");
}

/* ---- what was seen ---- */

static char *port_or_all(const json_t *row)
{
	const json_t *port = json_object_get(row, "port");
	char *text = NULL;
	if (!json_is_integer(port))
		return strdup("all");
	return asprintf(&text, "%" JSON_INTEGER_FORMAT, json_integer_value(port)) < 0 ? NULL : text;
}

static char *percent(const json_t *row)
{
	char *text = NULL;
	double share = json_number_value(json_object_get(row, "short_share"));
	return asprintf(&text, "%.0f%%", share * 100) < 0 ? NULL : text;
}

static char *rate(const json_t *row)
{
	char *text = NULL;
	double rate = json_number_value(json_object_get(row, "rate_per_second"));
	return asprintf(&text, "%.1f/s", rate) < 0 ? NULL : text;
}

static const struct column failed_columns[] = {
	{ "PEER", "peer" },         { "PORT", NULL, .format = port_or_all }, { "UID", "uid" },
	{ "FAILURES", "failures" }, { "SECONDS-LEFT", "seconds_left" },      { "WHY", "text" },
};

static const struct column learnt_columns[] = {
	{ "PEER", "peer" },
	{ "PORT", "port" },
	{ "ROLE", "role" },
	{ "LOCAL", "local" },
	{ "UID", "uid" },
	{ "LEFT-ON-TCP", "left_on_tcp" },
	{ "SHORT", NULL, .format = percent },
	{ "RATE", NULL, .format = rate },
	{ "SEEN", "connections" },
	{ "LEFT", "left" },
	{ "TRIED", "tried" },
};

/* The more peers send the option back, the nearer to this host is the cause that they share. */
static void print_echoes(const json_t *failed)
{
	unsigned int echoes = 0;
	size_t i;
	json_t *row;
	json_array_foreach(failed, i, row)
	{
		const char *kind = json_string_value(json_object_get(row, "kind"));
		echoes += kind && !strcmp(kind, "echo");
	}
	if (echoes > 1)
		printf("TCP option 254 comes back from %u peers: look for a middlebox near this "
		       "host.\n",
		       echoes);
}

static void print_failed(const json_t *result, bool details)
{
	const json_t *failed = json_object_get(result, "failed");
	if (json_array_size(failed) == 0)
		return;
	puts("\nPeers and ports that failed (0 seconds left: SMC-R is tried again):");
	table_print(failed, failed_columns, COUNT(failed_columns), details);
	print_echoes(failed);
}

/* Without details only the peers and ports whose connections are left on TCP. */
static void print_learnt(const json_t *result, bool details)
{
	json_t *shown = json_array(), *row;
	size_t i;
	json_array_foreach(json_object_get(result, "learnt"), i, row)
	{
		if (details || json_is_true(json_object_get(row, "left_on_tcp")))
			json_array_append(shown, row);
	}
	if (json_array_size(shown) > 0) {
		puts(details ? "\nHow long connections last:"
			     : "\nConnections are short, and left on TCP but for a sample:");
		table_print(shown, learnt_columns, COUNT(learnt_columns), details);
	}
	json_decref(shown);
}

static char *proven(const json_t *row)
{
	return strdup(json_is_true(json_object_get(row, "proven"))
			      ? "larger packets did not pass when the link was set up"
			      : "a larger packet of data was not acknowledged");
}

static const struct column path_columns[] = {
	{ "PEER", "peer" },
	{ "RNIC", "rnic" },
	{ "PEER-GID", "peer_gid" },
	{ "MTU", "mtu" },
	{ "SECONDS-LEFT", "seconds_left" },
	{ "WHY", NULL, .format = proven },
};

static void print_paths(const json_t *result, bool details)
{
	const json_t *paths = json_object_get(result, "paths");
	if (json_array_size(paths) == 0)
		return;
	puts("\nPaths that packets of full size do not pass (new links use smaller ones):");
	table_print(paths, path_columns, COUNT(path_columns), details);
}

void policy_print(const json_t *result, bool details)
{
	print_rules(result, details);
	print_failed(result, details);
	print_learnt(result, details);
	print_paths(result, details);
}
