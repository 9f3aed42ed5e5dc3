/* SPDX-License-Identifier: MIT */
#include "daemon/policy/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ipc/ipc.h"

#define MAPPED_BITS 96 /* before the IPv4 address in IPv4-mapped IPv6 */
#define ADDR_BITS   128
#define BLANKS      " \t"

static bool refuse(char why[POLICY_WHY_LEN], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool refuse(char why[POLICY_WHY_LEN], const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, POLICY_WHY_LEN, format, args);
	va_end(args);
	return false;
}

/* ---- values of conditions ---- */

/** Digits only, up to `max`. */
static bool number(const char *text, size_t len, unsigned long max, __u32 *ret)
{
	unsigned long value = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned long)(text[i] - '0');
		if (value > max)
			return false;
	}
	*ret = (__u32)value;
	return len > 0;
}

/* The last number stands for "no user" in the kernel. */
static bool set_uid(struct policy_rule *rule, const char *value, bool names,
		    char why[POLICY_WHY_LEN])
{
	if (number(value, strlen(value), UINT32_MAX - 1, &rule->match.uid))
		return true;
	if (!names)
		return refuse(why, "'%.40s' is no user number", value);
	const struct passwd *user = getpwnam(value);
	if (!user)
		return refuse(why, "this host has no user '%.40s'", value);
	rule->match.uid = user->pw_uid;
	return true;
}

static bool set_program(struct policy_rule *rule, const char *value, bool names,
			char why[POLICY_WHY_LEN])
{
	size_t len = strlen(value);
	(void)names;
	if (value[0] != '/')
		return refuse(why, "'%.40s' is not the absolute path of a program", value);
	if (len >= sizeof(rule->program))
		return refuse(why, "the path '%.40s...' is longer than %d characters", value,
			      POLICY_PROGRAM_MAX - 1);
	memcpy(rule->program, value, len + 1);
	rule->match.program = ipc_program_id(value, len);
	return true;
}

static bool set_port(struct policy_rule *rule, const char *value, bool names,
		     char why[POLICY_WHY_LEN])
{
	const char *dash = strchr(value, '-');
	size_t first = dash ? (size_t)(dash - value) : strlen(value);
	struct smcr_rule *match = &rule->match;
	(void)names;
	if (!number(value, first, UINT16_MAX, &match->port_min) ||
	    (dash && !number(dash + 1, strlen(dash + 1), UINT16_MAX, &match->port_max)))
		return refuse(why, "'%.40s' is no TCP port, nor a range such as 8000-8999", value);
	if (!dash)
		match->port_max = match->port_min;
	if (match->port_min == 0 || match->port_min > match->port_max)
		return refuse(why, "no TCP port is in '%.40s'", value);
	return true;
}

static struct smcr_addr16 mask_of(unsigned int bits)
{
	struct smcr_addr16 mask = { { 0 } };
	for (unsigned int i = 0; i < 4; i++) {
		unsigned int here = bits < 32 * i ? 0 : bits - 32 * i;
		if (here)
			mask.word[i] = htonl(here >= 32 ? UINT32_MAX : ~(UINT32_MAX >> here));
	}
	return mask;
}

/* ADDR or ADDR/LEN, of either family */
static bool set_net(struct smcr_addr16 *ret_net, struct smcr_addr16 *ret_mask, const char *value,
		    char why[POLICY_WHY_LEN])
{
	char addr[INET6_ADDRSTRLEN];
	struct smcr_addr16 net = { { 0, 0, htonl(0xFFFF), 0 } };
	const char *slash = strchr(value, '/');
	size_t len = slash ? (size_t)(slash - value) : strlen(value);
	bool ipv6 = strchr(value, ':') != NULL;
	__u32 bits = ipv6 ? 128 : 32;
	snprintf(addr, sizeof(addr), "%.*s", len < sizeof(addr) ? (int)len : 0, value);
	if (inet_pton(ipv6 ? AF_INET6 : AF_INET, addr, ipv6 ? &net.word[0] : &net.word[3]) != 1 ||
	    (slash && !number(slash + 1, strlen(slash + 1), bits, &bits)))
		return refuse(why, "'%.50s' is no address, nor a network such as 192.0.2.0/24",
			      value);
	struct smcr_addr16 mask = mask_of(ipv6 ? bits : MAPPED_BITS + bits);
	if (!smcr_addr_within(&net, &net, &mask))
		return refuse(why,
			      "'%.50s' is no network: the address has bits behind the first %u",
			      value, bits);
	*ret_net = net;
	*ret_mask = mask;
	return true;
}

static bool set_peer(struct policy_rule *rule, const char *value, bool names,
		     char why[POLICY_WHY_LEN])
{
	(void)names;
	return set_net(&rule->match.peer, &rule->match.peer_mask, value, why);
}

static bool set_local(struct policy_rule *rule, const char *value, bool names,
		      char why[POLICY_WHY_LEN])
{
	(void)names;
	return set_net(&rule->match.local, &rule->match.local_mask, value, why);
}

/* ---- whole rules ---- */

static const struct condition {
	const char *word;
	__u32 flag;
	bool (*set)(struct policy_rule *rule, const char *value, bool names,
		    char why[POLICY_WHY_LEN]);
} conditions[] = {
	{ "uid", SMCR_RULE_UID, set_uid },       { "program", SMCR_RULE_PROGRAM, set_program },
	{ "port", SMCR_RULE_PORT, set_port },    { "peer", SMCR_RULE_PEER, set_peer },
	{ "local", SMCR_RULE_LOCAL, set_local },
};
#define NUM_CONDITIONS (sizeof(conditions) / sizeof(conditions[0]))

static const struct condition *find_condition(const char *word)
{
	for (size_t i = 0; i < NUM_CONDITIONS; i++)
		if (!strcmp(conditions[i].word, word))
			return &conditions[i];
	return NULL;
}

static bool take_condition(struct policy_rule *rule, const char *word, const char *value,
			   bool names, char why[POLICY_WHY_LEN])
{
	const struct condition *condition = find_condition(word);
	if (!condition)
		return refuse(why, "'%.40s' is not uid, program, port, peer, local or all", word);
	if (rule->match.flags & condition->flag)
		return refuse(why, "'%s' is there twice", word);
	if (!value)
		return refuse(why, "'%s' is not followed by a value", word);
	rule->match.flags |= condition->flag;
	return condition->set(rule, value, names, why);
}

/* Words separated by blanks. A rule without conditions needs "all", so that nobody writes one by
 * mistake. */
static bool take_words(struct policy_rule *rule, char *words, bool names, char why[POLICY_WHY_LEN])
{
	char *rest, *action = strtok_r(words, BLANKS, &rest);
	if (!action || (strcmp(action, "deny") && strcmp(action, "allow")))
		return refuse(why, "a rule begins with 'deny' or 'allow'");
	rule->match.flags = *action == 'd' ? SMCR_RULE_DENY : SMCR_RULE_ALLOW;
	char *word = strtok_r(NULL, BLANKS, &rest);
	if (!word)
		return refuse(why, "what is to be %s? uid, program, port, peer, local or all",
			      *action == 'd' ? "denied" : "allowed");
	if (!strcmp(word, "all"))
		return !(word = strtok_r(NULL, BLANKS, &rest)) ||
		       refuse(why, "'all' is followed by '%.40s'", word);
	for (; word; word = strtok_r(NULL, BLANKS, &rest))
		if (!take_condition(rule, word, strtok_r(NULL, BLANKS, &rest), names, why))
			return false;
	return true;
}

int policy_rule_parse(const char *text, bool names, struct policy_rule *ret_rule,
		      char why[POLICY_WHY_LEN])
{
	struct policy_rule rule;
	char words[POLICY_RULE_TEXT];
	memset(&rule, 0, sizeof(rule)); /* padding too: rules are compared as bytes */
	if (strlen(text) >= sizeof(words)) {
		refuse(why, "the rule is longer than %d characters", POLICY_RULE_TEXT - 1);
		return -EINVAL;
	}
	snprintf(words, sizeof(words), "%s", text);
	if (!take_words(&rule, words, names, why))
		return -EINVAL;
	*ret_rule = rule;
	return 0;
}

bool policy_rule_equal(const struct policy_rule *a, const struct policy_rule *b)
{
	return !memcmp(&a->match, &b->match, sizeof(a->match)) && !strcmp(a->program, b->program);
}

/* ---- as text ---- */

static unsigned int bits_of(const struct smcr_addr16 *mask)
{
	unsigned int bits = 0;
	for (int i = 0; i < 4; i++)
		bits += (unsigned int)__builtin_popcount(mask->word[i]);
	return bits;
}

static void print_net(FILE *out, const char *word, const struct smcr_addr16 *net,
		      const struct smcr_addr16 *mask)
{
	char addr[INET6_ADDRSTRLEN];
	unsigned int bits = bits_of(mask);
	bool mapped = bits >= MAPPED_BITS && !net->word[0] && !net->word[1] &&
		      net->word[2] == htonl(0xFFFF);
	inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? &net->word[3] : &net->word[0], addr,
		  sizeof(addr));
	fprintf(out, " %s %s", word, addr);
	if (bits < ADDR_BITS)
		fprintf(out, "/%u", mapped ? bits - MAPPED_BITS : bits);
}

static void print_rule(FILE *out, const struct policy_rule *rule)
{
	const struct smcr_rule *match = &rule->match;
	fputs(match->flags & SMCR_RULE_DENY ? "deny" : "allow", out);
	if (!(match->flags & ~(__u32)(SMCR_RULE_DENY | SMCR_RULE_ALLOW)))
		fputs(" all", out);
	if (match->flags & SMCR_RULE_UID)
		fprintf(out, " uid %u", match->uid);
	if (match->flags & SMCR_RULE_PROGRAM)
		fprintf(out, " program %s", rule->program);
	if (match->flags & SMCR_RULE_PORT)
		fprintf(out, " port %u", match->port_min);
	if (match->flags & SMCR_RULE_PORT && match->port_max != match->port_min)
		fprintf(out, "-%u", match->port_max);
	if (match->flags & SMCR_RULE_PEER)
		print_net(out, "peer", &match->peer, &match->peer_mask);
	if (match->flags & SMCR_RULE_LOCAL)
		print_net(out, "local", &match->local, &match->local_mask);
}

void policy_rule_text(const struct policy_rule *rule, char ret_text[POLICY_RULE_TEXT])
{
	memset(ret_text, 0, POLICY_RULE_TEXT);
	FILE *out = fmemopen(ret_text, POLICY_RULE_TEXT, "w");
	if (!out)
		return;
	print_rule(out, rule);
	fclose(out);
}

/* ---- what they say ---- */

struct policy_verdict policy_rules_judge(const struct policy_rule *rules, size_t num_rules,
					 const struct smcr_subject *subject)
{
	struct policy_verdict verdict = { .place = num_rules };
	bool some_allow = false;
	for (size_t i = 0; i < num_rules; i++) {
		some_allow |= (rules[i].match.flags & SMCR_RULE_ALLOW) != 0;
		if (!smcr_rule_matches(&rules[i].match, subject))
			continue;
		if (rules[i].match.flags & SMCR_RULE_DENY)
			return (struct policy_verdict){ .denied = true, .place = i };
		if (verdict.place == num_rules)
			verdict.place = i;
	}
	verdict.denied = some_allow && verdict.place == num_rules;
	return verdict;
}
