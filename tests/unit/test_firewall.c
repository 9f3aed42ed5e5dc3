/* SPDX-License-Identifier: MIT */
/* What smcrctl doctor reads from a firewall's rules, as "nft -j list ruleset" prints them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/smcrctl/firewall.h"

#define TABLE "'family':'inet','table':'t'"
#define BASE(name, hook, policy)                                                                   \
	"{'chain':{'family':'inet','table':'t','name':'" name                                      \
	"','handle':1,'type':'filter','hook':'" hook "','prio':0,'policy':'" policy "'}}"
#define CHAIN(name) "{'chain':{" TABLE ",'name':'" name "','handle':2}}"
#define IN(policy)  BASE("in", "input", policy)
/* Conditions end in a comma, as a verdict always follows. */
#define RULE(chain, what)      "{'rule':{" TABLE ",'chain':'" chain "','handle':7,'expr':[" what "]}}"
#define MATCH(left, op, right) "{'match':{'op':'" op "','left':" left ",'right':" right "}},"
#define DPORT                  "{'payload':{'protocol':'udp','field':'dport'}}"
#define SADDR                  "{'payload':{'protocol':'ip','field':'saddr'}}"
#define META(key)              "{'meta':{'key':'" key "'}}"
#define STATE                  "{'ct':{'key':'state'}}"
#define STATUS                 "{'ct':{'key':'status'}}"
#define REJECT                 "{'reject':{'type':'icmpx','expr':'admin-prohibited'}}"
#define ROCE                   MATCH(DPORT, "==", "4791")
#define DROP                   "{'drop':null}"
#define ACCEPT                 "{'accept':null}"
#define JUMP(chain)            "{'jump':{'target':'" chain "'}}"

static json_t *ruleset_of(const char *items)
{
	char text[4096];
	json_error_t error;
	snprintf(text, sizeof(text), "{'nftables':[{'metainfo':{'version':'1.0.6'}},%s]}", items);
	for (char *at = text; *at; at++)
		if (*at == '\'')
			*at = '"';
	json_t *ruleset = json_loads(text, 0, &error);
	if (!ruleset)
		fail_msg("%s: %s", error.text, items);
	return ruleset;
}

#define SENDER 991

static struct firewall_verdict judge(const char *items, bool incoming)
{
	json_t *ruleset = ruleset_of(items);
	struct firewall_verdict verdict = firewall_judge(ruleset, "eth0", incoming, SENDER);
	json_decref(ruleset);
	return verdict;
}

struct sample {
	const char *items;
	enum firewall_fate fate;
};

static void expect(const struct sample *samples, size_t num)
{
	for (size_t i = 0; i < num; i++) {
		struct firewall_verdict verdict = judge(samples[i].items, true);
		if (verdict.fate != samples[i].fate)
			fail_msg("fate %d (%s), not %d: %s", verdict.fate, verdict.where,
				 samples[i].fate, samples[i].items);
	}
}

#define EXPECT(samples) expect(samples, sizeof(samples) / sizeof((samples)[0]))

static void plain_rules(void **state)
{
	static const struct sample samples[] = {
		{ IN("accept"), FIREWALL_PASSES },
		{ IN("drop"), FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", ROCE DROP), FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", ROCE "{'reject':{'type':'icmp'}}"), FIREWALL_DROPS },
		{ IN("drop") "," RULE("in", ROCE ACCEPT), FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", ROCE ACCEPT) "," RULE("in", DROP), FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", "{'counter':{'packets':1,'bytes':2}}," DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(DPORT, "==", "4790") DROP), FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", MATCH(DPORT, "!=", "4791") DROP), FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", MATCH(DPORT, "==", "{'set':[53,4791]}") DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(DPORT, "!=", "{'set':[53,123]}") DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(DPORT, "==", "{'range':[4000,5000]}") DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(DPORT, ">=", "1024") DROP), FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(DPORT, "<", "1024") DROP), FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", MATCH(META("l4proto"), "==", "'udp'") DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(META("l4proto"), "==", "17") DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE(
			  "in",
			  MATCH("{'payload':{'protocol':'tcp','field':'dport'}}", "!=", "22") DROP),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", MATCH(META("iifname"), "==", "'eth0'") DROP),
		  FIREWALL_DROPS },
		{ IN("accept") "," RULE("in", MATCH(META("iifname"), "==", "'eth*'") DROP),
		  FIREWALL_DROPS },
		{ IN("drop") "," RULE("in", MATCH(META("iifname"), "==", "'lo'") ACCEPT),
		  FIREWALL_DROPS },
	};
	(void)state;
	EXPECT(samples);
}

/* The first RoCE packet of a peer begins a new flow. */
static void rules_that_know_flows(void **state)
{
	static const struct sample samples[] = {
		{ IN("drop") "," RULE("in", MATCH(STATE, "in", "['established','related']") ACCEPT),
		  FIREWALL_DROPS },
		{ IN("drop") "," RULE("in", MATCH(STATE, "in", "['established','new']") ACCEPT),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", MATCH(STATE, "in", "'invalid'") DROP),
		  FIREWALL_PASSES },
		{ IN("drop") "," RULE("in", "{'vmap':{'key':" STATE ",'data':{'set':"
					    "[['established'," ACCEPT "],['invalid'," DROP "]]}}}"),
		  FIREWALL_DROPS },
		{ IN("drop") "," RULE("in", "{'vmap':{'key':" DPORT ",'data':{'set':[[53," DROP
					    "],[4791," ACCEPT "]]}}}"),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", "{'vmap':{'key':" DPORT ",'data':{'set':[[4791," DROP
					      "]]}}}"),
		  FIREWALL_DROPS },
	};
	(void)state;
	EXPECT(samples);
}

/* Rules about peers' addresses. Many hosts have lists of addresses from which they accept nothing;
 * these rules are not about RoCE. */
static void rules_about_addresses_are_uncertain(void **state)
{
	static const struct sample samples[] = {
		{ IN("accept") "," RULE("in", MATCH(SADDR, "==", "'@banned'") DROP),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", ROCE MATCH(SADDR, "!=", "'@peers'") DROP),
		  FIREWALL_MAY_DROP },
		{ IN("drop") "," RULE("in", ROCE MATCH(SADDR, "==", "'@peers'") ACCEPT),
		  FIREWALL_PASSES },
		{ IN("drop") "," RULE("in", MATCH(SADDR, "==", "'10.0.0.1'") ACCEPT),
		  FIREWALL_MAY_DROP },
		{ IN("accept") "," RULE("in", MATCH(SADDR, "==", "'10.0.0.1'")
						      ACCEPT) "," RULE("in", ROCE DROP),
		  FIREWALL_MAY_DROP },
		{ IN("accept") "," RULE("in", ROCE "{'limit':{'rate':1,'per':'second'}}," DROP),
		  FIREWALL_MAY_DROP },
		{ IN("accept") "," RULE("in", "{'xt':null}," DROP), FIREWALL_PASSES },
		{ IN("drop") "," RULE("in", "{'queue':null}"), FIREWALL_MAY_DROP },
	};
	(void)state;
	EXPECT(samples);
}

/* Statements by which only some packets reach the verdict, and statements that all packets pass. */
static void statements_that_restrict(void **state)
{
	static const struct sample samples[] = {
		{ IN("accept") "," RULE("in", "{'quota':{'val':10,'inv':true}}," DROP),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", ROCE "{'quota':{'val':10,'inv':true}}," DROP),
		  FIREWALL_MAY_DROP },
		{ IN("accept") "," RULE("in", "{'ct count':{'val':9,'inv':true}}," DROP),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", "{'set':{'op':'add','elem':" SADDR
					      ",'set':'@m','stmt':[{'limit':{'rate':1}}]}}," DROP),
		  FIREWALL_PASSES },
		{ IN("accept") "," RULE("in", "{'log':null}," DROP), FIREWALL_DROPS },
		{ IN("accept") "," RULE("in",
					"{'mangle':{'key':" META("mark") ",'value':1}}," DROP),
		  FIREWALL_DROPS },
	};
	(void)state;
	EXPECT(samples);
}

/* The rest is dropped by a last rule, or by the chain's policy. */
static void the_rest_is_dropped(void **state)
{
	static const struct sample samples[] = {
		{ IN("accept") "," RULE("in", MATCH(SADDR, "==", "'10.0.0.1'")
						      ACCEPT) "," RULE("in", DROP),
		  FIREWALL_MAY_DROP },
		{ IN("accept") "," RULE("in", ROCE MATCH(SADDR, "==", "'@peers'")
						      ACCEPT) "," RULE("in", DROP),
		  FIREWALL_PASSES },
		/* rules of firewalld */
		{ IN("accept") "," RULE("in", MATCH(STATE, "in", "['established','related']") ACCEPT) "," RULE(
			  "in",
			  MATCH(STATUS, "in", "'dnat'")
				  ACCEPT) "," RULE("in", MATCH(META("iifname"), "==", "'lo'")
								 ACCEPT) "," RULE("in",
										  JUMP(
											  "zones")) "," RULE("in",
													     MATCH(
														     STATE, "in", "['invalid']") DROP) "," RULE("in", REJECT) "," CHAIN("zones") "," RULE("zones", "{'goto':{'target':'public'}}") "," CHAIN("public") "," RULE("public", MATCH("{'payload':{'protocol':'tcp','field'"
																																				":'dport'}}",
																																				"==",
																																				"22") ACCEPT) "," RULE("public", MATCH(META("l4proto"),
																																								       "==",
																																								       "{'set':['icmp','ipv6-icmp']}")
																																									 ACCEPT) "," RULE("public",
																																											  REJECT),
		  FIREWALL_DROPS },
	};
	(void)state;
	EXPECT(samples);
}

static void chains(void **state)
{
	static const struct sample samples[] = {
		{ IN("accept") "," CHAIN("sub") "," RULE("in", JUMP("sub")) "," RULE("sub",
										     ROCE DROP),
		  FIREWALL_DROPS },
		{ IN("drop") "," CHAIN("sub") "," RULE("in", JUMP("sub")) "," RULE("sub",
										   ROCE ACCEPT),
		  FIREWALL_PASSES },
		{ IN("accept") "," CHAIN("sub") "," RULE("in", JUMP("sub")) "," RULE(
			  "sub", "{'return':null}") "," RULE("sub", DROP),
		  FIREWALL_PASSES },
		{ IN("accept") "," CHAIN("sub") "," RULE(
			  "in", "{'goto':{'target':'sub'}}") "," RULE("in", DROP),
		  FIREWALL_PASSES },
		/* a chain that no rule jumps to, and one that jumps to itself */
		{ IN("accept") "," CHAIN("sub") "," RULE("sub", ROCE DROP), FIREWALL_PASSES },
		{ IN("accept") "," CHAIN("sub") "," RULE("in", JUMP("sub")) "," RULE("sub",
										     JUMP("sub")),
		  FIREWALL_PASSES },
		/* a base chain may drop what another base chain accepts */
		{ BASE("first", "prerouting", "accept") "," IN("accept") "," RULE(
			  "first", ACCEPT) "," RULE("in", ROCE DROP),
		  FIREWALL_DROPS },
		{ BASE("way", "forward", "drop"), FIREWALL_PASSES },
		{ BASE("out", "output", "drop"), FIREWALL_PASSES },
		{ "{'chain':{'family':'ip6','table':'t','name':'in','type':'filter','hook':'input',"
		  "'policy':'drop'}}",
		  FIREWALL_PASSES },
		{ "{'chain':{'family':'netdev','table':'t','name':'in','type':'filter',"
		  "'hook':'ingress','dev':'eth1','policy':'drop'}}",
		  FIREWALL_PASSES },
		{ "{'chain':{'family':'netdev','table':'t','name':'in','type':'filter',"
		  "'hook':'ingress','dev':'eth0','policy':'drop'}}",
		  FIREWALL_DROPS },
	};
	(void)state;
	EXPECT(samples);
}

static void the_place_is_named(void **state)
{
	(void)state;
	assert_string_equal(judge(IN("accept") "," RULE("in", ROCE DROP), true).where,
			    "rule 7 of chain in, table inet t");
	assert_string_equal(judge(IN("drop"), true).chain, "inet t in");
	assert_string_equal(judge(IN("drop"), true).where, "the policy of chain in, table inet t");
	assert_string_equal(judge(IN("accept"), true).where, "");
}

static void the_way_out(void **state)
{
	(void)state;
	assert_int_equal(judge(BASE("out", "output", "drop"), false).fate, FIREWALL_DROPS);
	assert_int_equal(judge(IN("drop"), false).fate, FIREWALL_PASSES);
	assert_int_equal(judge(BASE("out", "output", "accept") "," RULE(
				       "out", ROCE MATCH(META("oifname"), "==", "'eth0'") DROP),
			       false)
				 .fate,
			 FIREWALL_DROPS);
}

#define OUT(what) BASE("out", "output", "accept") "," RULE("out", ROCE what)
#define UID       META("skuid")

/* The packets are of SENDER, 991. What comes in is of no user of this host. */
static void users_who_may_send(void **state)
{
	(void)state;
	assert_int_equal(judge(OUT(MATCH(UID, "!=", "{'set':[0,991]}") DROP), false).fate,
			 FIREWALL_PASSES);
	assert_int_equal(judge(OUT(MATCH(UID, "!=", "0") DROP), false).fate, FIREWALL_DROPS);
	assert_int_equal(judge(OUT(MATCH(UID, "==", "{'range':[990,999]}") DROP), false).fate,
			 FIREWALL_DROPS);
	assert_int_equal(judge(OUT(MATCH(UID, "!=", "'smcrd'") DROP), false).fate,
			 FIREWALL_MAY_DROP);
	assert_int_equal(
		judge(IN("accept") "," RULE("in", ROCE MATCH(UID, "!=", "0") DROP), true).fate,
		FIREWALL_MAY_DROP);
}

/* Of packets whose socket is not known a rule about users leaves everything open. */
static void a_sender_who_is_not_known(void **state)
{
	json_t *ruleset = ruleset_of(OUT(MATCH(UID, "!=", "0") DROP));
	(void)state;
	assert_int_equal(firewall_judge(ruleset, "eth0", false, -1).fate, FIREWALL_MAY_DROP);
	assert_int_equal(firewall_judge(ruleset, "eth0", false, 0).fate, FIREWALL_PASSES);
	json_decref(ruleset);
}

/* Output that nft never prints does no harm. */
static void nonsense(void **state)
{
	static const char *const texts[] = {
		"1",
		"{}",
		"{'chain':[]}",
		"{'chain':{}}",
		"{'rule':1}",
		IN("accept") ",{'rule':{" TABLE ",'chain':'in','expr':{}}}",
		IN("accept") "," RULE("in", "1,[],{'match':7}"),
		IN("accept") "," RULE("in", "{'vmap':{}},{'jump':1}")
	};
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		judge(texts[i], true);
	assert_int_equal(firewall_judge(NULL, "eth0", true, -1).fate, FIREWALL_PASSES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_rules),
		cmocka_unit_test(rules_that_know_flows),
		cmocka_unit_test(rules_about_addresses_are_uncertain),
		cmocka_unit_test(statements_that_restrict),
		cmocka_unit_test(the_rest_is_dropped),
		cmocka_unit_test(chains),
		cmocka_unit_test(the_place_is_named),
		cmocka_unit_test(the_way_out),
		cmocka_unit_test(users_who_may_send),
		cmocka_unit_test(a_sender_who_is_not_known),
		cmocka_unit_test(nonsense),
	};
	return cmocka_run_group_tests_name("firewall", tests, NULL, NULL);
}
