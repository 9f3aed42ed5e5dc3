/* SPDX-License-Identifier: MIT */
/* The protocol trace: what messages are as text, without keys, and how many lines a category may
 * write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/log.h"
#include "daemon/host/trace.h"
#include "proto/smcr/eid.h"
#include "proto/smcr/reason.h"
#include "proto/smcr/text.h"
#include "tests/lib/tries.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Values that no text may have, in decimal or hexadecimal: keys, and numbers of queue pairs. */
#define SECRET      0xABCDEF
#define SECRET_TEXT "11259375"

static const uint8_t gid[SMCR_GID_LEN] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

static void expect_no_secret(const char *text)
{
	assert_null(strstr(text, SECRET_TEXT));
	assert_null(strstr(text, "abcdef"));
}

static void expect_clc(const struct smcr_clc_msg *msg, const char *wanted)
{
	char text[SMCR_TEXT_LEN];
	smcr_clc_text(msg, text);
	assert_string_equal(text, wanted);
	expect_no_secret(text);
}

static void proposals(void **state)
{
	struct smcr_clc_msg msg = {
		.type = SMCR_CLC_PROPOSAL,
		.proposal = { .version = 1, .offers_r_v1 = true, .ipv4_mask_len = 24 }
	};
	(void)state;
	memcpy(msg.proposal.gid, gid, sizeof(gid));
	expect_clc(&msg, "Proposal, version 1, for SMC-R version 1, GID ::ffff:10.0.0.1, IPv4 "
			 "network of 24 bits");
	msg.proposal.num_prefixes = 2;
	msg.proposal.version = 2;
	msg.proposal.offers_r_v2 = msg.proposal.offers_d = true;
	msg.proposal.v2.num_eids = 2;
	msg.proposal.v2.release = 1;
	memcpy(msg.proposal.v2.gid, gid, sizeof(gid));
	assert_int_equal(smcr_ueid_parse("A.B", msg.proposal.v2.eids[0]), 0);
	memset(msg.proposal.v2.eids[1], '\n', 2); /* a peer may send anything */
	expect_clc(&msg, "Proposal, version 2, for SMC-R version 1 and SMC-R version 2, and SMC-D, "
			 "GID ::ffff:10.0.0.1, IPv6 prefixes 2, release 1, UEIDs A.B ??");
}

static void accepts_and_confirms(void **state)
{
	struct smcr_clc_msg msg = { .type = SMCR_CLC_ACCEPT,
				    .accept = { .type = SMCR_CLC_ACCEPT,
						.first_contact = true,
						.version = 1,
						.qpn = SECRET,
						.rkey = SECRET,
						.alert_token = SECRET,
						.rmb_vaddr = SECRET,
						.psn = SECRET,
						.rmbe_index = 3,
						.bsize = 1,
						.mtu = SMCR_MTU_1024 } };
	(void)state;
	memcpy(msg.accept.gid, gid, sizeof(gid));
	expect_clc(&msg, "Accept, version 1, first contact, element 3 of 32768 bytes, path MTU "
			 "1024, GID ::ffff:10.0.0.1");
	msg.accept.first_contact = false;
	msg.accept.mtu = 9;
	expect_clc(&msg, "Accept, version 1, group that exists, element 3 of 32768 bytes, path MTU "
			 "of the unknown code 9, GID ::ffff:10.0.0.1");
	msg.accept.type = msg.type = SMCR_CLC_CONFIRM;
	msg.accept.version = 2;
	msg.accept.first_contact = true;
	msg.accept.mtu = SMCR_MTU_4096;
	assert_int_equal(smcr_ueid_parse("A.B", msg.accept.eid), 0);
	msg.accept.fce = (struct smcr_clc_first_contact){ .os = SMCR_CLC_OS_LINUX,
							  .release = 1,
							  .host = "here",
							  .max_conns = 20,
							  .max_links = 2 };
	expect_clc(&msg, "Confirm, version 2, element 3 of 32768 bytes, path MTU 4096, GID "
			 "::ffff:10.0.0.1, UEID A.B, release 1, host here, Linux, max connections "
			 "20, max links 2, gateways possible");
	msg.accept.smc_type = SMCR_CLC_SMC_D;
	expect_clc(&msg, "Confirm, version 2, not for SMC-R");
}

static void declines(void **state)
{
	struct smcr_clc_msg msg = {
		.type = SMCR_CLC_DECLINE,
		.decline = { .version = 1, .out_of_sync = true, .diagnosis = SMCR_REASON_NO_DEVICE }
	};
	char wanted[SMCR_TEXT_LEN];
	(void)state;
	snprintf(wanted, sizeof(wanted),
		 "Decline, version 1, reason 03030000: %s, the link group is not known",
		 smcr_reason_text(SMCR_REASON_NO_DEVICE));
	expect_clc(&msg, wanted);
}

static void llc_messages(void **state)
{
	static const struct {
		struct smcr_llc_msg msg;
		const char *text;
	} cases[] = {
		{ { .type = SMCR_LLC_CONFIRM_LINK,
		    .confirm_link = { .qpn = SECRET,
				      .link_user_id = 7,
				      .link_number = 1,
				      .max_links = 4,
				      .flags = 1 } },
		  "CONFIRM LINK request, link 1, max links 4, no eye catchers, GID ::" },
		{ { .type = SMCR_LLC_CONFIRM_LINK,
		    .reply = true,
		    .confirm_link = { .link_number = 1, .max_links = 2, .max_conns = 20 } },
		  "CONFIRM LINK reply, link 1, max links 2, max connections 20, GID ::" },
		{ { .type = SMCR_LLC_ADD_LINK,
		    .add_link = { .link_number = 2,
				  .mtu = SMCR_MTU_512,
				  .qpn = SECRET,
				  .psn = SECRET } },
		  "ADD LINK request, link 2, path MTU 512, GID ::" },
		{ { .type = SMCR_LLC_ADD_LINK,
		    .reply = true,
		    .add_link = { .link_number = 2, .reject = true, .reject_reason = 1 } },
		  "ADD LINK reply, link 2, refused: no other path" },
		{ { .type = SMCR_LLC_ADD_LINK_CONT,
		    .add_link_cont = { .link_number = 2,
				       .num_rtokens = 3,
				       .pair = { { SECRET, SECRET, SECRET } } } },
		  "ADD LINK CONTINUATION request, link 2, RMBs still to come 3" },
		{ { .type = SMCR_LLC_DELETE_LINK,
		    .delete_link = { .link_number = 2,
				     .orderly = true,
				     .reason = SMCR_LLC_DEL_OPERATOR } },
		  "DELETE LINK request, link 2, in good order: an operator wants it" },
		{ { .type = SMCR_LLC_DELETE_LINK,
		    .delete_link = { .all = true, .reason = SMCR_LLC_DEL_LOST_PATH } },
		  "DELETE LINK request, all links, at once: the path is lost" },
		{ { .type = SMCR_LLC_REQUEST_ADD_LINK, .request_add_link = { .num_gids = 2 } },
		  "REQUEST ADD LINK request, GID ::, GID ::" },
		{ { .type = SMCR_LLC_CONFIRM_RKEY,
		    .confirm_rkey = { .num_tokens = 1, .rkey = SECRET, .vaddr = SECRET } },
		  "CONFIRM RKEY request, an RMB on this link and 1 others" },
		{ { .type = SMCR_LLC_CONFIRM_RKEY,
		    .reply = true,
		    .confirm_rkey = { .negative = true, .retry = true } },
		  "CONFIRM RKEY reply, an RMB on this link and 0 others, refused, to be tried "
		  "again" },
		{ { .type = SMCR_LLC_CONFIRM_RKEY_CONT, .confirm_rkey_cont = { .num_left = 2 } },
		  "CONFIRM RKEY CONTINUATION request, links still to come 2" },
		{ { .type = SMCR_LLC_DELETE_RKEY,
		    .delete_rkey = { .count = 1, .rkey = { SECRET } } },
		  "DELETE RKEY request, RMBs 1" },
		{ { .type = SMCR_LLC_DELETE_RKEY,
		    .reply = true,
		    .delete_rkey = { .count = 1, .negative = true } },
		  "DELETE RKEY reply, RMBs 1, refused: some are not known" },
		{ { .type = SMCR_LLC_TEST_LINK, .test_link = { .user_data = "ABCDEF" } },
		  "TEST LINK request" },
	};
	const struct smcr_llc_rtokens rtokens = { .count = 1,
						  .pair = { { SECRET, SECRET, SECRET } } };
	char text[SMCR_TEXT_LEN];
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		TRIES("%s", cases[i].text);
		smcr_llc_text(&cases[i].msg, NULL, text);
		assert_string_equal(text, cases[i].text);
		expect_no_secret(text);
	}
	smcr_llc_text(&cases[2].msg, &rtokens, text);
	assert_string_equal(text, "ADD LINK request, link 2, path MTU 512, GID ::, RMBs 1");
}

static void cdc_messages(void **state)
{
	struct smcr_cdc cdc = {
		.seq = 7, .alert_token = SECRET, .producer = { 1, 4096 }, .consumer = { 0, 12 }
	};
	char text[SMCR_TEXT_LEN];
	(void)state;
	smcr_cdc_text(&cdc, text);
	assert_string_equal(text, "CDC 7, producer 1/4096, consumer 0/12");
	cdc.prod_flags = SMCR_CDC_WRITE_BLOCKED | SMCR_CDC_FAILOVER;
	cdc.conn_flags = SMCR_CDC_CLOSED;
	smcr_cdc_text(&cdc, text);
	assert_string_equal(text, "CDC 7, producer 1/4096, consumer 0/12, write blocked, failover, "
				  "closed");
}

/* What a peer sends may make the longest text: it is cut, and nothing behind it is written. */
static void a_long_text_is_cut(void **state)
{
	struct {
		char text[SMCR_TEXT_LEN];
		char behind;
	} room = { .behind = 'x' };
	struct smcr_clc_msg msg = {
		.type = SMCR_CLC_PROPOSAL,
		.proposal = { .version = 2, .offers_r_v2 = true, .v2.num_eids = SMCR_CLC_MAX_EIDS }
	};
	struct smcr_llc_msg llc = { .type = SMCR_LLC_REQUEST_ADD_LINK,
				    .request_add_link.num_gids = SMCR_LLC_MAX_GIDS };
	(void)state;
	memset(msg.proposal.v2.gid, 0xaa, SMCR_GID_LEN);
	memset(msg.proposal.v2.eids, 'A', sizeof(msg.proposal.v2.eids));
	smcr_clc_text(&msg, room.text);
	assert_true(strlen(room.text) < SMCR_TEXT_LEN);
	memset(llc.request_add_link.gid, 0xaa, sizeof(llc.request_add_link.gid));
	smcr_llc_text(&llc, NULL, room.text);
	assert_true(strlen(room.text) < SMCR_TEXT_LEN);
	assert_int_equal(room.behind, 'x');
}

/* ---- the limit ---- */

static void a_busy_category_is_cut_short(void **state)
{
	struct trace_limit limit = { 0 };
	unsigned int left_out;
	(void)state;
	for (int i = 0; i < TRACE_LINES_MAX; i++) {
		assert_true(trace_limit_passes(&limit, 5000, &left_out));
		assert_int_equal(left_out, 0);
	}
	for (int i = 0; i < 3; i++)
		assert_false(trace_limit_passes(&limit, 5999, &left_out));
	assert_int_equal(trace_limit_take(&limit, 5999), 0);
	assert_true(trace_limit_passes(&limit, 6000, &left_out));
	assert_int_equal(left_out, 3);
	assert_true(trace_limit_passes(&limit, 6000, &left_out));
	assert_int_equal(left_out, 0);
}

static void what_was_left_out_is_told_without_another_line_too(void **state)
{
	struct trace_limit limit = { 0 };
	unsigned int left_out;
	(void)state;
	for (int i = 0; i < TRACE_LINES_MAX + 2; i++)
		trace_limit_passes(&limit, 5000, &left_out);
	assert_int_equal(trace_limit_take(&limit, 6000), 2);
	assert_int_equal(trace_limit_take(&limit, 6000), 0);
}

/* Whatever the log's level is: who has asked for a trace gets it. */
static void a_category_is_logged_at_any_level_until_it_is_off(void **state)
{
	char text[65536] = "";
	FILE *written = tmpfile();
	const int before = dup(STDERR_FILENO);
	(void)state;
	unsetenv("JOURNAL_STREAM");
	fflush(stderr);
	dup2(fileno(written), STDERR_FILENO);
	log_open(LOG_ERR, false);
	assert_false(trace_is_on(IPC_TRACE_LLC));
	trace_set(IPC_TRACE_BIT(IPC_TRACE_LLC));
	const bool on = trace_is_on(IPC_TRACE_LLC), other = trace_is_on(IPC_TRACE_CDC);
	for (int i = 0; i < TRACE_LINES_MAX + 1; i++)
		trace_tellf(IPC_TRACE_LLC, "line %d", i);
	trace_set(0);
	const bool off = !trace_is_on(IPC_TRACE_LLC);
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(written);
	text[fread(text, 1, sizeof(text) - 1, written)] = '\0';
	fclose(written);
	assert_true(on && !other && off);
	assert_non_null(strstr(text, "smcrd: trace: llc: line 0\n"));
	assert_non_null(strstr(text, "smcrd: trace: llc: line 999\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proposals),
		cmocka_unit_test(accepts_and_confirms),
		cmocka_unit_test(declines),
		cmocka_unit_test(llc_messages),
		cmocka_unit_test(cdc_messages),
		cmocka_unit_test(a_long_text_is_cut),
		cmocka_unit_test(a_busy_category_is_cut_short),
		cmocka_unit_test(what_was_left_out_is_told_without_another_line_too),
		cmocka_unit_test(a_category_is_logged_at_any_level_until_it_is_off),
	};
	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
