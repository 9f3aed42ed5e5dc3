/* SPDX-License-Identifier: MIT */
/* The policy as a whole: the rules in force and what they have decided, peers that are left to TCP
 * and for how long, and which reason comes first. The Makefile links this test so that the clock is
 * the test's, and so that it sees what the BPF programs are told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "daemon/policy/policy.h"
#include "tests/lib/tries.h"

#define SECOND 1000

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_ts);
int __wrap_rdv_option_skip_peer(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer,
				uint32_t seconds, const char *reason);
int __wrap_rdv_option_unskip_peer(struct rdv_option *option, uid_t uid,
				  const struct smcr_addr *peer);
int __wrap_rdv_option_set_rule(struct rdv_option *option, uint32_t place,
			       const struct smcr_rule *rule);
uint64_t __wrap_rdv_option_rule_hits(const struct rdv_option *option, uint32_t place);

static uint64_t now_ms;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_ts)
{
	(void)clock;
	*ret_ts = (struct timespec){ (time_t)(now_ms / 1000), (long)(now_ms % 1000 * 1000000) };
	return 0;
}

/* What the BPF programs were told last. */
static struct {
	unsigned int skips, unskips;
	uid_t uid;
	struct smcr_addr peer;
	uint32_t seconds;
	bool in_place[SMCR_MAX_RULES]; /* rules */
	uint64_t hits[SMCR_MAX_RULES + 1];
} bpf;

int __wrap_rdv_option_skip_peer(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer,
				uint32_t seconds, const char *reason)
{
	(void)option;
	assert_true(*reason);
	bpf.skips++;
	bpf.uid = uid;
	bpf.peer = *peer;
	bpf.seconds = seconds;
	return 0;
}

int __wrap_rdv_option_unskip_peer(struct rdv_option *option, uid_t uid,
				  const struct smcr_addr *peer)
{
	(void)option;
	bpf.unskips++;
	bpf.uid = uid;
	bpf.peer = *peer;
	return 0;
}

int __wrap_rdv_option_set_rule(struct rdv_option *option, uint32_t place,
			       const struct smcr_rule *rule)
{
	(void)option;
	assert_true(place < SMCR_MAX_RULES);
	bpf.in_place[place] = rule != NULL;
	return 0;
}

uint64_t __wrap_rdv_option_rule_hits(const struct rdv_option *option, uint32_t place)
{
	(void)option;
	return bpf.hits[place];
}

static struct event_base *base;
static struct policy *policy;

static int setup(void **state)
{
	(void)state;
	memset(&bpf, 0, sizeof(bpf));
	now_ms = 5000000;
	base = event_base_new();
	const struct policy_params params = { .base = base, .skip_seconds = 60 };
	return policy_new(&params, &policy);
}

static int teardown(void **state)
{
	(void)state;
	policy_free(policy);
	event_base_free(base);
	return 0;
}

static struct policy_rule rule(const char *text)
{
	struct policy_rule parsed;
	char why[POLICY_WHY_LEN];
	assert_int_equal(policy_rule_parse(text, false, &parsed, why), 0);
	return parsed;
}

static int add(const char *text, bool configured)
{
	const struct policy_rule parsed = rule(text);
	return policy_add_rule(policy, &parsed, configured);
}

static int take_out(const char *text)
{
	const struct policy_rule parsed = rule(text);
	return policy_delete_rule(policy, &parsed);
}

/* Each rule in force as a line: its text, "+" if it was added at run time, and its hits. */
static bool add_line(void *arg, const struct policy_rule_view *view)
{
	char text[POLICY_RULE_TEXT], *lines = arg;
	policy_rule_text(view->rule, text);
	sprintf(lines + strlen(lines), "%s%s %u\n", text, view->configured ? "" : " +",
		(unsigned int)view->hits);
	return true;
}

static void expect_rules(const char *lines)
{
	static char found[SMCR_MAX_RULES * 2 * POLICY_RULE_TEXT];
	*found = '\0';
	assert_true(policy_walk_rules(policy, 0, add_line, found));
	assert_string_equal(found, lines);
}

static enum smcr_reason judge(uint32_t uid)
{
	const struct smcr_subject subject = { .uid = uid };
	return policy_judge(policy, &subject);
}

/* ---- rules ---- */

static void rules_come_and_go(void **state)
{
	(void)state;
	assert_int_equal(add("deny uid 1", true), 0);
	assert_int_equal(add("deny uid 2", false), 0);
	assert_int_equal(add("deny uid 2", true), -EEXIST);
	assert_int_equal(add("deny uid 3", false), 0);
	expect_rules("deny uid 1 0\ndeny uid 2 + 0\ndeny uid 3 + 0\n");
	assert_true(bpf.in_place[0] && bpf.in_place[1] && bpf.in_place[2]);
	assert_int_equal(take_out("deny uid 2"), 0);
	assert_int_equal(take_out("deny uid 2"), -ENOENT);
	assert_false(bpf.in_place[1]);
	assert_int_equal(add("deny uid 4", false), 0); /* in the place that is free, but the last */
	assert_true(bpf.in_place[1]);
	expect_rules("deny uid 1 0\ndeny uid 3 + 0\ndeny uid 4 + 0\n");
}

static void there_are_so_many_places(void **state)
{
	(void)state;
	char text[64];
	for (int i = 0; i < SMCR_MAX_RULES; i++) {
		snprintf(text, sizeof(text), "deny uid %d", i);
		assert_int_equal(add(text, false), 0);
	}
	assert_int_equal(add("deny uid 1000", false), -ENOSPC);
	assert_int_equal(take_out("deny uid 255"), 0);
	assert_int_equal(add("deny uid 1000", false), 0);
	assert_int_equal(judge(1000), SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(judge(255), SMCR_REASON_NONE);
}

/* Another configuration replaces the rules of the last one, also where all places are taken. Rules
 * that were added at run time stay; one that the configuration has too is the configuration's. */
static void a_configuration_replaces_another(void **state)
{
	(void)state;
	const struct policy_rule second[] = { rule("deny uid 2"), rule("deny uid 3"),
					      rule("deny uid 7") };
	assert_int_equal(add("deny uid 1", true), 0);
	assert_int_equal(add("deny uid 2", true), 0);
	assert_int_equal(add("deny uid 3", false), 0);
	assert_int_equal(add("deny uid 4", false), 0);
	assert_int_equal(policy_count_with(policy, second, 3), 4);
	policy_set_configured(policy, second, 3);
	expect_rules("deny uid 2 0\ndeny uid 3 0\ndeny uid 4 + 0\ndeny uid 7 0\n");
	for (int i = 100; i < 100 + SMCR_MAX_RULES - 4; i++) {
		char text[64];
		snprintf(text, sizeof(text), "deny uid %d", i);
		assert_int_equal(add(text, true), 0);
	}
	const struct policy_rule third = rule("deny uid 8");
	policy_set_configured(policy, &third, 1);
	expect_rules("deny uid 4 + 0\ndeny uid 8 0\n");
}

/* The connection manager asks by peer and port, and that counts nothing. */
static void rules_can_be_asked(void **state)
{
	(void)state;
	const struct smcr_addr addr = { .family = AF_INET, .ip = { 192, 0, 2, 7 } };
	struct smcr_subject subject = { .peer = rdv_addr16(&addr), .port = 445 };
	assert_false(policy_denies(policy, &subject));
	assert_int_equal(add("deny peer 192.0.2.0/24 port 445", false), 0);
	assert_true(policy_denies(policy, &subject));
	subject.port = 446;
	assert_false(policy_denies(policy, &subject));
	assert_int_equal(add("allow port 20049", false), 0);
	assert_true(policy_denies(policy, &subject));
	subject.port = 20049;
	assert_false(policy_denies(policy, &subject));
	expect_rules("deny port 445 peer 192.0.2.0/24 + 0\nallow port 20049 + 0\n");
}

/* What is decided at hand-over is counted for the rule that decides, beside what the BPF programs
 * have counted. */
static void decisions_are_counted(void **state)
{
	(void)state;
	bool in_force = true;
	assert_int_equal(policy_unnamed(policy, &in_force), 0);
	assert_false(in_force);
	assert_int_equal(add("deny uid 1", true), 0);
	assert_int_equal(add("allow uid 1", true), 0);
	assert_int_equal(add("allow uid 2", true), 0);
	assert_int_equal(judge(1), SMCR_REASON_LOCAL_POLICY); /* deny wins */
	assert_int_equal(judge(1), SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(judge(2), SMCR_REASON_NONE);
	assert_int_equal(judge(3), SMCR_REASON_LOCAL_POLICY); /* what no rule allows */
	bpf.hits[0] = 10;
	bpf.hits[2] = 30;
	bpf.hits[SMCR_MAX_RULES] = 100;
	expect_rules("deny uid 1 12\nallow uid 1 0\nallow uid 2 30\n");
	assert_int_equal(policy_unnamed(policy, &in_force), 101);
	assert_true(in_force);
}

/* ---- peers ---- */

static struct smcr_addr peer(uint8_t last, uint16_t port)
{
	return (struct smcr_addr){ .family = AF_INET, .ip = { 10, 0, 0, last }, .port = port };
}

static void fails(enum failure_kind kind, uint32_t seconds)
{
	const struct smcr_addr server = peer(1, 80);
	unsigned int skips = bpf.skips;
	policy_failed(policy, 7, &server, kind);
	assert_int_equal(bpf.skips, skips + 1);
	assert_int_equal(bpf.uid, 7);
	assert_int_equal(bpf.seconds, seconds);
}

static struct policy_outlook foresee(uid_t uid, struct smcr_addr of)
{
	const struct smcr_subject subject = { .uid = uid };
	return policy_foresee(policy, &subject, &of);
}

static bool note_left(void *arg, const struct failure *failure, uint32_t seconds_left)
{
	(void)failure;
	*(uint32_t *)arg = seconds_left;
	return true;
}

static uint32_t left_in_list(void)
{
	uint32_t left = 99999;
	policy_walk_failures(policy, 0, note_left, &left);
	return left;
}

/* Seconds that have begun count as whole ones, wherever they are told. */
static void a_peer_is_left_to_tcp(void **state)
{
	(void)state;
	static const struct {
		uint64_t passed;
		uint32_t left;
	} rows[] = { { 0, 60 },    { 1, 60 },    { 999, 60 }, { 1000, 59 },
		     { 59000, 1 }, { 59999, 1 }, { 60000, 0 } };
	const uint64_t begun = now_ms;
	fails(FAILURE_ANSWER, 60);
	assert_int_equal(bpf.peer.port, 80);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		now_ms = begun + rows[i].passed;
		struct policy_outlook outlook = foresee(7, peer(1, 80));
		assert_int_equal(outlook.reason,
				 rows[i].left ? SMCR_REASON_PEER_SKIPPED : SMCR_REASON_NONE);
		assert_int_equal(outlook.seconds_left, rows[i].left);
		assert_int_equal(left_in_list(), rows[i].left);
	}
	assert_int_equal(foresee(8, peer(1, 80)).reason, SMCR_REASON_NONE); /* another user */
	fails(FAILURE_ANSWER, 120); /* the next time is twice as long */
	now_ms += 999;
	fails(FAILURE_ANSWER, 120); /* and goes on, 119.001 seconds */
	const struct smcr_addr server = peer(1, 80);
	policy_worked(policy, 7, &server);
	assert_int_equal(bpf.unskips, 1);
	assert_int_equal(foresee(7, peer(1, 80)).reason, SMCR_REASON_NONE);
}

static void which_reason_comes_first(void **state)
{
	(void)state;
	const struct netif netif = {
		.ifindex = 2, .present = true, .addrs = { { .addr = 0x0A000001 } }, .num_addrs = 1
	};
	fails(FAILURE_ANSWER, 60);
	assert_int_equal(foresee(7, peer(1, 80)).reason, SMCR_REASON_PEER_SKIPPED);
	assert_int_equal(add("deny uid 7", true), 0);
	struct policy_outlook outlook = foresee(7, peer(1, 80));
	assert_int_equal(outlook.reason, SMCR_REASON_LOCAL_POLICY);
	assert_non_null(outlook.rule);
	assert_non_null(outlook.failure); /* is told all the same */
	policy_netif(policy, &netif);
	assert_int_equal(foresee(7, peer(1, 80)).reason, SMCR_REASON_OWN_HOST);
	assert_int_equal(foresee(8, peer(2, 80)).reason, SMCR_REASON_NONE);
	assert_null(foresee(8, peer(2, 80)).rule);
	assert_false(foresee(8, peer(2, 80)).by_program);
	assert_int_equal(add("deny program /usr/bin/x", true), 0);
	assert_true(foresee(8, peer(2, 80)).by_program); /* which is not known */
	assert_int_equal(take_out("deny program /usr/bin/x"), 0);
	assert_false(foresee(8, peer(2, 80)).by_program);
}

static void operators_have_it_forgotten(void **state)
{
	(void)state;
	const struct smcr_addr server = peer(1, 80), other = peer(1, 81), whole = peer(1, 0);
	fails(FAILURE_ANSWER, 60);
	assert_int_equal(policy_forget(policy, &other), 0);
	assert_int_equal(foresee(7, server).reason, SMCR_REASON_PEER_SKIPPED);
	assert_int_equal(policy_forget(policy, &server), 1);
	assert_int_equal(bpf.unskips, 1);
	assert_int_equal(foresee(7, server).reason, SMCR_REASON_NONE);
	fails(FAILURE_PATH, 60);
	assert_int_equal(bpf.peer.port, 0);
	assert_int_equal(policy_forget(policy, &whole), 1);
	assert_int_equal(foresee(7, server).reason, SMCR_REASON_NONE);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		FRESH(rules_come_and_go),
		FRESH(there_are_so_many_places),
		FRESH(a_configuration_replaces_another),
		FRESH(rules_can_be_asked),
		FRESH(decisions_are_counted),
		FRESH(a_peer_is_left_to_tcp),
		FRESH(which_reason_comes_first),
		FRESH(operators_have_it_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
