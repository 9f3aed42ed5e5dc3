/* SPDX-License-Identifier: MIT */
/* The administrator's rules: how they are written, and what they decide about a connection. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/policy/rules.h"
#include "proto/ipc/ipc.h"
#include "tests/lib/tries.h"

static struct policy_rule rule(const char *text)
{
	struct policy_rule rule;
	char why[POLICY_WHY_LEN] = "";
	if (policy_rule_parse(text, true, &rule, why))
		fail_msg("%s: %s", text, why);
	return rule;
}

/* Each rule is shown with its parts in a fixed order, and reads back as the same rule. */
static void rules_are_shown_as_they_are_read(void **state)
{
	static const struct {
		const char *read, *shown;
	} cases[] = {
		{ "deny port 22", "deny port 22" },
		{ "  deny\tport  22 ", "deny port 22" },
		{ "allow port 8000-8999", "allow port 8000-8999" },
		{ "deny port 22-22", "deny port 22" },
		{ "deny uid 0", "deny uid 0" },
		{ "deny uid root", "deny uid 0" },
		{ "deny uid 4294967294", "deny uid 4294967294" },
		{ "deny program /usr/bin/ssh", "deny program /usr/bin/ssh" },
		{ "deny peer 192.0.2.1", "deny peer 192.0.2.1" },
		{ "deny peer 192.0.2.1/32", "deny peer 192.0.2.1" },
		{ "allow local 192.0.2.0/24", "allow local 192.0.2.0/24" },
		{ "deny peer 0.0.0.0/0", "deny peer 0.0.0.0/0" },
		{ "deny peer 128.0.0.0/1", "deny peer 128.0.0.0/1" },
		{ "deny peer 2001:db8::/33", "deny peer 2001:db8::/33" },
		{ "deny peer ::1", "deny peer ::1" },
		{ "deny peer ::/0", "deny peer ::/0" },
		{ "deny peer ::ffff:192.0.2.0/120", "deny peer 192.0.2.0/24" },
		{ "deny local 10.0.0.1 peer 10.0.0.2 port 5 program /a uid 7",
		  "deny uid 7 program /a port 5 peer 10.0.0.2 local 10.0.0.1" },
		{ "deny all", "deny all" },
		{ "allow all", "allow all" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].read);
		struct policy_rule first = rule(cases[i].read);
		char text[POLICY_RULE_TEXT];
		policy_rule_text(&first, text);
		assert_string_equal(text, cases[i].shown);
		struct policy_rule again = rule(text);
		assert_true(policy_rule_equal(&first, &again));
	}
}

static void errors_name_the_word(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "begins with" },
		{ "refuse port 22", "begins with" },
		{ "deny", "what is to be denied" },
		{ "allow", "what is to be allowed" },
		{ "deny ports 22", "'ports' is not uid, program" },
		{ "deny port", "'port' is not followed" },
		{ "deny port 22 port 23", "'port' is there twice" },
		{ "deny port 0", "no TCP port is in '0'" },
		{ "deny port 9-8", "no TCP port is in '9-8'" },
		{ "deny port 65536", "'65536' is no TCP port" },
		{ "deny port 1-65536", "'1-65536' is no TCP port" },
		{ "deny port 22-", "'22-' is no TCP port" },
		{ "deny port ssh", "'ssh' is no TCP port" },
		{ "deny port 18446744073709551638", "is no TCP port" },
		{ "deny uid no-such-user-here", "no user 'no-such-user-here'" },
		{ "deny uid 4294967295", "4294967295" },
		{ "deny uid -1", "'-1'" },
		{ "deny program ssh", "'ssh' is not the absolute path" },
		{ "deny peer 192.0.2.300", "'192.0.2.300' is no address" },
		{ "deny peer 192.0.2.0/33", "'192.0.2.0/33' is no address" },
		{ "deny peer 192.0.2.0/", "is no address" },
		{ "deny peer 192.0.2.1/24", "bits behind the first 24" },
		{ "deny peer 2001:db8::1/64", "bits behind the first 64" },
		{ "deny peer 2001:db8::/129", "is no address" },
		{ "deny peer localhost", "'localhost' is no address" },
		{ "deny all port 22", "'all' is followed by 'port'" },
		{ "deny port 22 all", "'all' is not" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].text);
		struct policy_rule untouched = { .program = "as before" };
		char why[POLICY_WHY_LEN] = "";
		assert_int_equal(policy_rule_parse(cases[i].text, true, &untouched, why), -EINVAL);
		assert_string_equal(untouched.program, "as before");
		if (!strstr(why, cases[i].why))
			fail_msg("\"%s\": \"%s\" does not say \"%s\"", cases[i].text, why,
				 cases[i].why);
	}
}

static void long_words_are_refused(void **state)
{
	char text[2 * POLICY_RULE_TEXT], why[POLICY_WHY_LEN];
	struct policy_rule parsed;
	int at = sprintf(text, "deny program /");
	(void)state;
	memset(text + at, 'a', POLICY_PROGRAM_MAX - 2);
	text[at + POLICY_PROGRAM_MAX - 2] = '\0';
	assert_int_equal(policy_rule_parse(text, true, &parsed, why), 0);
	assert_int_equal(strlen(parsed.program), POLICY_PROGRAM_MAX - 1);
	text[at + POLICY_PROGRAM_MAX - 2] = 'a';
	text[at + POLICY_PROGRAM_MAX - 1] = '\0';
	assert_int_equal(policy_rule_parse(text, true, &parsed, why), -EINVAL);
	assert_non_null(strstr(why, "longer than 255"));
	memset(text + at, 'a', sizeof(text) - (size_t)at - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(policy_rule_parse(text, true, &parsed, why), -EINVAL);
	assert_non_null(strstr(why, "longer than 511"));
	/* An address that is too long for the buffer. */
	assert_int_equal(policy_rule_parse("deny peer "
					   "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb",
					   true, &parsed, why),
			 -EINVAL);
}

static void users_go_by_number_where_nobody_may_be_asked(void **state)
{
	struct policy_rule parsed;
	char why[POLICY_WHY_LEN];
	(void)state;
	assert_int_equal(policy_rule_parse("deny uid root", false, &parsed, why), -EINVAL);
	assert_non_null(strstr(why, "'root' is no user number"));
	assert_int_equal(policy_rule_parse("deny uid 0", false, &parsed, why), 0);
}

/* ---- what rules decide ---- */

static struct smcr_addr16 addr(const char *text)
{
	struct smcr_addr16 addr = { { 0, 0, htonl(0xFFFF), 0 } };
	bool ipv6 = strchr(text, ':') != NULL;
	assert_int_equal(
		inet_pton(ipv6 ? AF_INET6 : AF_INET, text, ipv6 ? &addr.word[0] : &addr.word[3]),
		1);
	return addr;
}

/* ssh of user 1000, from 10.0.0.1 to port 22 of 10.0.0.2 */
static struct smcr_subject ssh(void)
{
	return (struct smcr_subject){ .local = addr("10.0.0.1"),
				      .peer = addr("10.0.0.2"),
				      .program = ipc_program_id("/usr/bin/ssh", 12),
				      .uid = 1000,
				      .port = 22 };
}

static void every_condition_has_to_hold(void **state)
{
	static const struct {
		const char *text;
		bool matches;
	} cases[] = {
		{ "deny all", true },
		{ "deny port 22", true },
		{ "deny port 21", false },
		{ "deny port 20-22", true },
		{ "deny port 22-30", true },
		{ "deny port 23-30", false },
		{ "deny uid 1000", true },
		{ "deny uid 0", false },
		{ "deny program /usr/bin/ssh", true },
		{ "deny program /usr/bin/sshd", false },
		{ "deny peer 10.0.0.2", true },
		{ "deny peer 10.0.0.1", false },
		{ "deny peer 10.0.0.0/30", true },
		{ "deny peer 10.0.0.4/30", false },
		{ "deny peer 0.0.0.0/0", true },
		{ "deny peer ::ffff:0:0/96", true },
		{ "deny peer 2001:db8::/32", false },
		{ "deny local 10.0.0.1", true },
		{ "deny local 10.0.0.2", false },
		{ "deny port 22 uid 1000 program /usr/bin/ssh peer 10.0.0.2 local 10.0.0.1", true },
		{ "deny port 23 uid 1000 program /usr/bin/ssh peer 10.0.0.2 local 10.0.0.1",
		  false },
		{ "deny port 22 uid 1001 program /usr/bin/ssh peer 10.0.0.2 local 10.0.0.1",
		  false },
		{ "deny port 22 uid 1000 program /usr/bin/scp peer 10.0.0.2 local 10.0.0.1",
		  false },
		{ "deny port 22 uid 1000 program /usr/bin/ssh peer 10.0.0.3 local 10.0.0.1",
		  false },
		{ "deny port 22 uid 1000 program /usr/bin/ssh peer 10.0.0.2 local 10.0.0.3",
		  false },
	};
	const struct smcr_subject subject = ssh();
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].text);
		struct policy_rule one = rule(cases[i].text);
		if (smcr_rule_matches(&one.match, &subject) != cases[i].matches)
			fail_msg("%s: not %d", cases[i].text, cases[i].matches);
	}
}

static void addresses_of_the_other_family_are_others(void **state)
{
	struct smcr_subject subject = ssh();
	(void)state;
	subject.peer = addr("2001:db8::a00:2");
	assert_false(smcr_rule_matches(&(struct smcr_rule){ 0 }, &subject));
	struct policy_rule ipv4 = rule("deny peer 0.0.0.0/0"), ipv6 = rule("deny peer 2000::/3");
	struct policy_rule both = rule("deny peer ::/0");
	assert_false(smcr_rule_matches(&ipv4.match, &subject));
	assert_true(smcr_rule_matches(&ipv6.match, &subject));
	assert_true(smcr_rule_matches(&both.match, &subject));
}

static void an_unknown_program_is_none_that_is_named(void **state)
{
	struct smcr_subject subject = ssh();
	struct policy_rule deny = rule("deny program /usr/bin/ssh");
	(void)state;
	subject.program = 0;
	assert_false(smcr_rule_matches(&deny.match, &subject));
}

static struct policy_verdict judge(const char *const *texts, size_t n,
				   const struct smcr_subject *subject)
{
	struct policy_rule rules[8] = { 0 };
	for (size_t i = 0; i < n; i++)
		rules[i] = *texts[i] ? rule(texts[i]) : (struct policy_rule){ 0 };
	return policy_rules_judge(rules, n, subject);
}

static void deny_wins_and_allow_excludes_the_rest(void **state)
{
	static const struct {
		const char *texts[4];
		size_t n;
		bool denied;
		size_t place;
	} cases[] = {
		{ { "" }, 0, false, 0 },
		{ { "" }, 1, false, 1 }, /* a place without a rule */
		{ { "deny port 23" }, 1, false, 1 },
		{ { "deny port 22" }, 1, true, 0 },
		{ { "allow port 22" }, 1, false, 0 },
		{ { "allow port 23" }, 1, true, 1 },
		{ { "allow port 22", "deny uid 1000" }, 2, true, 1 },
		{ { "allow port 22", "allow all", "deny uid 1" }, 3, false, 0 },
		{ { "allow port 23", "deny uid 1", "allow uid 1000" }, 3, false, 2 },
		{ { "allow port 23", "deny uid 1", "" }, 3, true, 3 },
		{ { "", "deny port 24", "", "deny peer 10.0.0.2" }, 4, true, 3 },
	};
	const struct smcr_subject subject = ssh();
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("row %zu", i);
		struct policy_verdict verdict = judge(cases[i].texts, cases[i].n, &subject);
		assert_int_equal(verdict.denied, cases[i].denied);
		assert_int_equal(verdict.place, cases[i].place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_shown_as_they_are_read),
		cmocka_unit_test(errors_name_the_word),
		cmocka_unit_test(long_words_are_refused),
		cmocka_unit_test(users_go_by_number_where_nobody_may_be_asked),
		cmocka_unit_test(every_condition_has_to_hold),
		cmocka_unit_test(addresses_of_the_other_family_are_others),
		cmocka_unit_test(an_unknown_program_is_none_that_is_named),
		cmocka_unit_test(deny_wins_and_allow_excludes_the_rest),
	};
	return cmocka_run_group_tests_name("policy_rules", tests, NULL, NULL);
}
