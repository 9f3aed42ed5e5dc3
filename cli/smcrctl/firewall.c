/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/firewall.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ROCE_PORT 4791
#define UDP       17
#define MAX_DEPTH 16
#define MAX_STEPS 100000 /* rules that are followed: a ruleset may reach a chain by many jumps */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Does a condition hold? MAYBE: that depends on something that is not known here. */
enum truth { NO, MAYBE, YES };

/* What has become of the packet. */
enum outcome { GOES_ON, ACCEPTED, DROPPED };

struct walk {
	const json_t *items; /* of the ruleset */
	const char *family, *table;
	const char *interface;
	bool incoming;
	json_int_t sender; /* -1: not known */
	bool doubt;        /* an earlier rule may have accepted the packet */
	bool exception;    /* that rule names the port */
	unsigned int steps;
	struct firewall_verdict verdict;
};

static enum truth truth_of(bool value)
{
	return value ? YES : NO;
}

static enum truth not(enum truth truth) { return truth == MAYBE ? MAYBE : truth_of(truth == NO); }

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* ---- what is known of the packet ---- */

/* The value of a field. KNOWN: as a number, a name or both. ABSENT: the packet has no such field */
struct value {
	enum { KNOWN, UNKNOWN, ABSENT } kind;
	json_int_t number; /* -1: none */
	const char *name;  /* NULL: none */
};

static const struct value unknown = { .kind = UNKNOWN };

static struct value payload_value(const json_t *payload)
{
	const char *protocol = text_of(payload, "protocol"), *field = text_of(payload, "field");
	static const char *const others[] = { "tcp", "icmp", "icmpv6", "sctp", "dccp", "ip6",
					      "esp", "ah",   "comp",   "igmp", "arp",  "udplite" };
	for (size_t i = 0; i < COUNT(others); i++)
		if (!strcmp(protocol, others[i]))
			return (struct value){ .kind = ABSENT };
	bool ports = !strcmp(protocol, "udp") || !strcmp(protocol, "th");
	if (ports && (!strcmp(field, "dport") || !strcmp(field, "sport")))
		return (struct value){ .number = ROCE_PORT };
	if (!strcmp(protocol, "ip") && !strcmp(field, "protocol"))
		return (struct value){ .number = UDP, .name = "udp" };
	if (!strcmp(protocol, "ip") && !strcmp(field, "version"))
		return (struct value){ .number = 4 };
	return unknown;
}

static struct value meta_value(const struct walk *walk, const char *key)
{
	bool in = !strcmp(key, "iifname") || !strcmp(key, "iif");
	bool out = !strcmp(key, "oifname") || !strcmp(key, "oif");
	if ((in && walk->incoming) || (out && !walk->incoming))
		return (struct value){ .number = -1, .name = walk->interface };
	if (!strcmp(key, "skuid") && !walk->incoming && walk->sender >= 0)
		return (struct value){ .number = walk->sender };
	if (!strcmp(key, "l4proto"))
		return (struct value){ .number = UDP, .name = "udp" };
	if (!strcmp(key, "nfproto"))
		return (struct value){ .number = 2, .name = "ipv4" };
	if (!strcmp(key, "protocol"))
		return (struct value){ .number = 0x0800, .name = "ip" };
	return unknown;
}

static struct value value_of(const struct walk *walk, const json_t *expression)
{
	const json_t *payload = json_object_get(expression, "payload");
	const json_t *meta = json_object_get(expression, "meta");
	const json_t *ct = json_object_get(expression, "ct");
	if (payload)
		return payload_value(payload);
	if (meta)
		return meta_value(walk, text_of(meta, "key"));
	if (ct && !strcmp(text_of(ct, "key"), "state"))
		return (struct value){ .number = -1, .name = "new" };
	if (ct && !strcmp(text_of(ct, "key"), "status"))
		return (struct value){ .number = -1, .name = "" }; /* a new flow has none of them */
	return unknown;
}

static bool names_port(const json_t *expression)
{
	const char *field = text_of(json_object_get(expression, "payload"), "field");
	return !strcmp(field, "dport") || !strcmp(field, "sport");
}

/* ---- conditions ---- */

static enum truth equals(const struct value *value, const json_t *right);

static enum truth is_any(const struct value *value, const json_t *list)
{
	enum truth truth = NO;
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		enum truth one = equals(value, item);
		truth = one > truth ? one : truth;
	}
	return truth;
}

static enum truth equals_text(const struct value *value, const char *text)
{
	size_t len = strlen(text);
	if (*text == '@' || !value->name)
		return MAYBE; /* a named set; a service by its name */
	if (len && text[len - 1] == '*')
		return truth_of(!strncmp(value->name, text, len - 1));
	return truth_of(!strcmp(value->name, text));
}

static enum truth within(const struct value *value, const json_t *range)
{
	const json_t *from = json_array_get(range, 0), *to = json_array_get(range, 1);
	if (value->number < 0 || !json_is_integer(from) || !json_is_integer(to))
		return MAYBE;
	return truth_of(json_integer_value(from) <= value->number &&
			value->number <= json_integer_value(to));
}

static enum truth equals(const struct value *value, const json_t *right)
{
	const json_t *element = json_object_get(right, "elem");
	if (element)
		right = json_object_get(element, "val");
	if (json_is_array(right))
		return is_any(value, right);
	if (json_is_string(right))
		return equals_text(value, json_string_value(right));
	if (json_is_integer(right))
		return value->number < 0 ? MAYBE
					 : truth_of(value->number == json_integer_value(right));
	if (json_object_get(right, "set"))
		return is_any(value, json_object_get(right, "set"));
	if (json_object_get(right, "range"))
		return within(value, json_object_get(right, "range"));
	return MAYBE;
}

static enum truth compares(const struct value *value, const char *op, const json_t *right)
{
	json_int_t number = json_integer_value(right);
	if (!strcmp(op, "==") || !strcmp(op, "in"))
		return equals(value, right);
	if (!strcmp(op, "!="))
		return not(equals(value, right));
	if (!json_is_integer(right) || value->number < 0)
		return MAYBE;
	if (!strcmp(op, "<"))
		return truth_of(value->number < number);
	if (!strcmp(op, ">"))
		return truth_of(value->number > number);
	if (!strcmp(op, "<="))
		return truth_of(value->number <= number);
	if (!strcmp(op, ">="))
		return truth_of(value->number >= number);
	return MAYBE;
}

static enum truth match(const struct walk *walk, const json_t *condition)
{
	struct value value = value_of(walk, json_object_get(condition, "left"));
	if (value.kind != KNOWN)
		return value.kind == ABSENT ? NO : MAYBE;
	return compares(&value, text_of(condition, "op"), json_object_get(condition, "right"));
}

/* ---- rules ---- */

struct rule {
	enum truth applies;
	bool names_port;
	const char *verb; /* "accept", "drop", "jump" ..; NULL: it decides nothing */
	const char *target;
};

static bool is_verb(const char *key)
{
	static const char *const verbs[] = { "accept", "drop", "reject", "return",
					     "jump",   "goto", "queue" };
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (!strcmp(key, verbs[i]))
			return true;
	return false;
}

static void take_verdict(const json_t *statement, struct rule *rule)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)statement, key, value)
	{
		if (!is_verb(key))
			continue;
		rule->verb = key;
		rule->target = text_of(value, "target");
	}
}

/* Does the rule go on after the statement, for each packet? */
static bool restricts_nothing(const json_t *statement)
{
	static const char *const harmless[] = { "counter", "log",       "mangle",
						"notrack", "ct helper", "ct timeout",
						"dup",     "last",      "ct expectation",
						"secmark", "continue" };
	for (size_t i = 0; i < COUNT(harmless); i++)
		if (json_object_get(statement, harmless[i]))
			return true;
	return false;
}

static bool has_verdict(const json_t *statement)
{
	const char *key = json_object_iter_key(json_object_iter((json_t *)statement));
	return key && is_verb(key);
}

/* Takes the verdict that a map has for the packet's value, if both are known. */
static void take_map(const struct walk *walk, const json_t *map, struct rule *rule)
{
	struct value value = value_of(walk, json_object_get(map, "key"));
	size_t i;
	json_t *pair;
	if (value.kind != KNOWN || !json_object_get(json_object_get(map, "data"), "set"))
		return;
	json_array_foreach(json_object_get(json_object_get(map, "data"), "set"), i, pair)
	{
		if (equals(&value, json_array_get(pair, 0)) != YES)
			continue;
		rule->names_port |= names_port(json_object_get(map, "key"));
		take_verdict(json_array_get(pair, 1), rule);
		return;
	}
}

static void restrict_to(struct rule *rule, enum truth truth)
{
	if (truth < rule->applies)
		rule->applies = truth;
}

static struct rule read_rule(const struct walk *walk, const json_t *expressions)
{
	struct rule rule = { .applies = YES };
	size_t i;
	json_t *statement;
	json_array_foreach(expressions, i, statement)
	{
		const json_t *condition = json_object_get(statement, "match");
		const json_t *map = json_object_get(statement, "vmap");
		if (condition) {
			restrict_to(&rule, match(walk, condition));
			rule.names_port |= names_port(json_object_get(condition, "left"));
		} else if (map) {
			take_map(walk, map, &rule);
		} else if (has_verdict(statement)) {
			take_verdict(statement, &rule);
		} else if (!restricts_nothing(statement)) {
			restrict_to(&rule, MAYBE); /* limits, quotas, unknown statements */
		}
	}
	return rule;
}

/* ---- chains ---- */

static void note(struct walk *walk, enum firewall_fate fate, const char *what, const char *chain)
{
	if (fate <= walk->verdict.fate)
		return;
	walk->verdict.fate = fate;
	snprintf(walk->verdict.where, sizeof(walk->verdict.where),
		 "%.40s of chain %.64s, table %.10s %.64s", what, chain, walk->family, walk->table);
	snprintf(walk->verdict.chain, sizeof(walk->verdict.chain), "%.10s %.64s %.64s",
		 walk->family, walk->table, chain);
}

static bool is_in(const struct walk *walk, const json_t *item)
{
	return !strcmp(text_of(item, "family"), walk->family) &&
	       !strcmp(text_of(item, "table"), walk->table);
}

static enum outcome walk_chain(struct walk *walk, const char *chain, bool certain,
			       unsigned int depth);

/* A rule that drops all the rest is judged as a policy is: nothing is noted if a rule before it
 * names the port and may have accepted the packet. */
static enum outcome drop(struct walk *walk, const json_t *item, const struct rule *rule,
			 bool certain)
{
	char what[40];
	snprintf(what, sizeof(what), "rule %" JSON_INTEGER_FORMAT,
		 json_integer_value(json_object_get(item, "handle")));
	if (certain && !walk->doubt)
		note(walk, FIREWALL_DROPS, what, text_of(item, "chain"));
	else if (rule->names_port || (certain && !walk->exception))
		note(walk, FIREWALL_MAY_DROP, what, text_of(item, "chain"));
	return certain ? DROPPED : GOES_ON;
}

static enum outcome accept_it(struct walk *walk, const struct rule *rule, bool certain)
{
	if (certain)
		return ACCEPTED;
	walk->doubt = true;
	walk->exception |= rule->names_port;
	return GOES_ON;
}

/* @param ret_ends  the packet does not reach the rest of the chain */
static enum outcome apply(struct walk *walk, const json_t *item, const struct rule *rule,
			  bool certain, unsigned int depth, bool *ret_ends)
{
	const char *verb = rule->verb;
	*ret_ends = certain && (!strcmp(verb, "return") || !strcmp(verb, "goto"));
	if (!strcmp(verb, "drop") || !strcmp(verb, "reject"))
		return drop(walk, item, rule, certain);
	if (!strcmp(verb, "accept"))
		return accept_it(walk, rule, certain);
	if (!strcmp(verb, "jump") || !strcmp(verb, "goto"))
		return walk_chain(walk, rule->target, certain, depth + 1);
	if (!strcmp(verb, "queue"))
		walk->doubt = true; /* a program decides */
	return GOES_ON;
}

static enum outcome walk_chain(struct walk *walk, const char *chain, bool certain,
			       unsigned int depth)
{
	size_t i;
	json_t *item;
	json_array_foreach(walk->items, i, item)
	{
		const json_t *found = json_object_get(item, "rule");
		if (!found || strcmp(text_of(found, "chain"), chain) || !is_in(walk, found))
			continue;
		if (++walk->steps > MAX_STEPS || depth > MAX_DEPTH) {
			walk->doubt = true;
			return GOES_ON;
		}
		struct rule rule = read_rule(walk, json_object_get(found, "expr"));
		bool sure = certain && rule.applies == YES, ends;
		if (rule.applies == NO || !rule.verb)
			continue;
		enum outcome outcome = apply(walk, found, &rule, sure, depth, &ends);
		if (outcome != GOES_ON || ends)
			return outcome;
		if (!strcmp(rule.verb, "return"))
			certain = false;
	}
	return GOES_ON;
}

static bool concerns(const struct walk *walk, const json_t *chain)
{
	static const char *const in[] = { "ingress", "prerouting", "input" };
	static const char *const out[] = { "output", "postrouting", "egress" };
	const char *hook = text_of(chain, "hook"), *family = text_of(chain, "family");
	const char *device = text_of(chain, "dev");
	bool ours = false;
	for (size_t i = 0; i < COUNT(in); i++)
		ours |= !strcmp(hook, walk->incoming ? in[i] : out[i]);
	if (!ours || !strcmp(text_of(chain, "type"), "nat"))
		return false;
	if (*device && strcmp(device, walk->interface))
		return false;
	return !strcmp(family, "ip") || !strcmp(family, "inet") || !strcmp(family, "netdev");
}

/* Each base chain may drop the packet, even if another base chain has accepted it. */
static void walk_base(struct walk *walk, const json_t *chain)
{
	const char *name = text_of(chain, "name");
	walk->family = text_of(chain, "family");
	walk->table = text_of(chain, "table");
	walk->doubt = walk->exception = false;
	if (walk_chain(walk, name, true, 0) != GOES_ON || strcmp(text_of(chain, "policy"), "drop"))
		return;
	if (!walk->doubt)
		note(walk, FIREWALL_DROPS, "the policy", name);
	else if (!walk->exception)
		note(walk, FIREWALL_MAY_DROP, "the policy", name);
}

struct firewall_verdict firewall_judge(const json_t *ruleset, const char *interface, bool incoming,
				       json_int_t sender)
{
	struct walk walk = { .items = json_object_get(ruleset, "nftables"),
			     .interface = interface,
			     .incoming = incoming,
			     .sender = sender };
	size_t i;
	json_t *item;
	json_array_foreach(walk.items, i, item)
	{
		const json_t *chain = json_object_get(item, "chain");
		if (chain && concerns(&walk, chain))
			walk_base(&walk, chain);
	}
	return walk.verdict;
}
