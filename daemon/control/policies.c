/* SPDX-License-Identifier: MIT */
/* Methods about which connections use SMC-R: the administrator's rules, and what was learnt of
 * peers and ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"
#include "daemon/host/words.h"

enum section { RULES, FAILED, LEARNT, PATHS, SECTIONS };
static const char *const sections[SECTIONS] = { "rules", "failed", "learnt", "paths" };

struct part {
	struct page *page;
	enum section section;
	json_t *lists[SECTIONS];
};

/* @return whether the part has room for another row */
static bool add_row(struct part *part, json_t *row, uint64_t number)
{
	return page_add(part->page, part->lists[part->section], row, sections[part->section],
			number);
}

static bool add_rule(void *arg, const struct policy_rule_view *view)
{
	char text[POLICY_RULE_TEXT];
	bool denies = view->rule->match.flags & SMCR_RULE_DENY;
	policy_rule_text(view->rule, text);
	words_mend(text); /* paths of programs may have any bytes */
	return add_row(arg,
		       json_pack("{s:s, s:s, s:b, s:I}", "rule", text, "action",
				 denies ? "deny" : "allow", "configured", view->configured, "hits",
				 (json_int_t)view->hits),
		       view->order);
}

/* "10.0.0.2" */
static json_t *address(const struct smcr_addr *where)
{
	char ip[INET6_ADDRSTRLEN];
	if (!inet_ntop(where->family, where->ip, ip, sizeof(ip)))
		return json_null();
	return json_string(ip);
}

static json_t *gid_text(const uint8_t gid[SMCR_GID_LEN])
{
	char text[INET6_ADDRSTRLEN];
	return json_string(inet_ntop(AF_INET6, gid, text, sizeof(text)));
}

/* null: all ports */
static json_t *port(const struct smcr_addr *where)
{
	return where->port ? json_integer(where->port) : json_null();
}

static bool add_failure(void *arg, const struct failure *failure, uint32_t seconds_left)
{
	return add_row(arg,
		       json_pack("{s:o, s:o, s:I, s:s, s:s, s:I, s:I, s:I}", "peer",
				 address(&failure->peer), "port", port(&failure->peer), "uid",
				 (json_int_t)failure->uid, "kind", failure_name(failure->kind),
				 "text", failure_text(failure->kind), "failures",
				 (json_int_t)failure->times, "skipped_seconds",
				 (json_int_t)failure->seconds, "seconds_left",
				 (json_int_t)seconds_left),
		       failure->order);
}

static bool add_short(void *arg, const struct policy_short_view *view)
{
	const struct short_place *place = view->place;
	const struct rdv_place *where = &place->where;
	return add_row(arg,
		       json_pack("{s:o, s:o, s:I, s:s, s:I, s:b, s:f, s:f, s:I, s:I, s:I, s:I}",
				 "peer", address(&where->peer), "local",
				 where->server ? address(&where->local) : json_null(), "port",
				 (json_int_t)where->peer.port, "role",
				 where->server ? "server" : "client", "uid", (json_int_t)where->uid,
				 "left_on_tcp", place->is_short, "short_share", place->share,
				 "rate_per_second", place->rate, "connections",
				 (json_int_t)place->seen, "left", (json_int_t)view->left, "tried",
				 (json_int_t)view->tried, "age_seconds", (json_int_t)view->age_s),
		       place->order);
}

/* Paths that only limit the size of packets: connections use SMC-R all the same. */
static bool add_path(void *arg, const struct smcr_path_view *view)
{
	json_t *rnic = *view->device_name ? json_string(view->device_name) : json_null();
	return add_row(arg,
		       json_pack("{s:o, s:o, s:o, s:i, s:b, s:I}", "peer", address(&view->peer),
				 "rnic", rnic, "peer_gid", gid_text(view->peer_gid), "mtu",
				 (int)smcr_mtu_bytes(view->mtu), "proven", view->proven,
				 "seconds_left", (json_int_t)(view->left_us / 1000000 + 1)),
		       view->number);
}

static bool walk(struct control *control, struct part *part, uint64_t after)
{
	struct policy *policy = control->policy;
	switch (part->section) {
	case RULES: return policy_walk_rules(policy, after, add_rule, part);
	case FAILED: return policy_walk_failures(policy, after, add_failure, part);
	case LEARNT: return policy_walk_shorts(policy, after, add_short, part);
	case PATHS:
		return after > UINT32_MAX ||
		       smcr_engine_walk_paths(control->engine, (uint32_t)after, add_path, part);
	case SECTIONS: break;
	}
	return false;
}

json_t *control_show_policy(struct control *control, struct page *page, struct refusal *refusal)
{
	bool in_force;
	size_t section;
	uint64_t after;
	if (!page_begin(page, sections, SECTIONS, &section, &after, refusal))
		return NULL;
	struct part part = { .page = page, .section = (enum section)section };
	for (size_t i = 0; i < SECTIONS; i++)
		part.lists[i] = json_array();
	while (walk(control, &part, after)) {
		part.section++;
		after = 0;
	}
	uint64_t unnamed = policy_unnamed(control->policy, &in_force);
	return json_pack("{s:o, s:s, s:I, s:o, s:o, s:o}", "rules", part.lists[RULES], "default",
			 in_force ? "deny" : "allow", "default_hits", (json_int_t)unnamed, "failed",
			 part.lists[FAILED], "learnt", part.lists[LEARNT], "paths",
			 part.lists[PATHS]);
}

/* Users are given by number, because looking up a name may block the event loop. */
static bool parse(const char *text, struct policy_rule *rule, struct refusal *refusal)
{
	char why[POLICY_WHY_LEN];
	if (!policy_rule_parse(text, false, rule, why))
		return true;
	refuse(refusal, EINVAL, "bad-parameter", "this is no rule: %s", why);
	refusal->parameter = "rule";
	return false;
}

json_t *policy_add(struct control *control, const struct params *params, struct refusal *refusal)
{
	struct policy_rule rule;
	char text[POLICY_RULE_TEXT];
	if (!parse(params->rule, &rule, refusal))
		return NULL;
	policy_rule_text(&rule, text);
	int error = policy_add_rule(control->policy, &rule, false);
	if (error == -EEXIST)
		return refuse(refusal, EEXIST, "exists", "there is a rule \"%.200s\" already",
			      text);
	if (error)
		return refuse(refusal, ENOSPC, "full",
			      "there are %d rules; there is room for no more", SMCR_MAX_RULES);
	return json_pack("{s:o}", "text",
			 json_sprintf("%s: new connections go by it, until smcrd stops", text));
}

struct search {
	const struct policy_rule *rule;
	bool configured;
};

static bool look(void *arg, const struct policy_rule_view *view)
{
	struct search *search = arg;
	if (!policy_rule_equal(view->rule, search->rule))
		return true;
	search->configured = view->configured;
	return false;
}

/* "deny port 22": the key, and its value */
static void forget_configured(struct config *config, const char *text)
{
	bool denies = !strncmp(text, "deny ", strlen("deny "));
	config_forget(config, denies ? "deny" : "allow", strchr(text, ' ') + 1);
}

json_t *policy_delete(struct control *control, const struct params *params, struct refusal *refusal)
{
	struct policy_rule rule;
	char text[POLICY_RULE_TEXT];
	if (!parse(params->rule, &rule, refusal))
		return NULL;
	struct search search = { .rule = &rule };
	policy_walk_rules(control->policy, 0, look, &search);
	policy_rule_text(&rule, text);
	if (policy_delete_rule(control->policy, &rule))
		return refuse(refusal, ENOENT, "not-found",
			      "there is no rule \"%.200s\"; 'smcrctl policy' lists them", text);
	forget_configured(control->config, text);
	return json_pack("{s:o}", "text",
			 json_sprintf("%s: new connections do not go by it%s", text,
				      search.configured ? "; it stands in smcrd.conf and counts "
							  "again after a restart or reload"
							: ""));
}

/* ---- what was seen ---- */

/* IPv4 addresses of connections have family AF_INET, even on IPv6 sockets. */
static void unmap(struct smcr_addr *addr)
{
	static const uint8_t prefix[12] = { [10] = 0xFF, [11] = 0xFF };
	if (addr->family != AF_INET6 || memcmp(addr->ip, prefix, sizeof(prefix)) != 0)
		return;
	struct smcr_addr ipv4 = { .family = AF_INET };
	memcpy(ipv4.ip, addr->ip + sizeof(prefix), 4);
	*addr = ipv4;
}

bool policy_take_address(const char *text, const char *name, struct smcr_addr *ret_addr,
			 struct refusal *refusal)
{
	struct smcr_addr parsed = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	if (inet_pton(parsed.family, text, parsed.ip) == 1) {
		unmap(&parsed);
		*ret_addr = parsed;
		return true;
	}
	refuse(refusal, EINVAL, "bad-parameter",
	       "'%.64s' is no address of a peer: IPv4 or IPv6, not a name", text);
	refusal->parameter = name;
	return false;
}

json_t *policy_forget_place(struct control *control, const struct params *params,
			    struct refusal *refusal)
{
	struct smcr_addr where = { .family = 0 };
	if (!params->peer && !params->port) {
		refusal->parameter = "peer";
		return refuse(refusal, EINVAL, "bad-parameter",
			      "what is to be forgotten? \"peer\", \"port\" or both are missing");
	}
	if (params->peer && !policy_take_address(params->peer, "peer", &where, refusal))
		return NULL;
	where.port = params->port;
	size_t n = policy_forget(control->policy, &where), paths = 0;
	if (where.family && !where.port)
		paths = smcr_engine_forget_paths(control->engine, &where);
	if (n + paths == 0)
		return refuse(refusal, ENOENT, "not-found",
			      "nothing is remembered of that; 'smcrctl policy' shows what is");
	return json_pack("{s:o, s:I}", "text",
			 json_sprintf("%zu %s forgotten: new %s", n + paths,
				      n + paths == 1 ? "entry is" : "entries are",
				      n && paths ? "connections try SMC-R, new links packets of "
						   "full size"
				      : n        ? "connections try SMC-R"
						 : "links try packets of full size"),
			 "entries", (json_int_t)(n + paths));
}
