/* SPDX-License-Identifier: MIT */
/* The engine's rules that are written as tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"
#include "daemon/smcr/llc_rtokens.h"
#include "tests/lib/enginepair.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

static void max_links(void **state)
{
	static const struct {
		uint8_t server, client, want;
	} rows[] = {
		{ 2, 0, 2 }, { 5, 0, 5 }, { 8, 0, 8 },   { 2, 2, 2 }, { 8, 2, 2 },   { 8, 3, 3 },
		{ 4, 4, 4 }, { 4, 5, 4 }, { 2, 255, 2 }, { 8, 1, 2 }, { 2, 1, 2 },   { 0, 0, 2 },
		{ 0, 8, 2 }, { 1, 0, 2 }, { 1, 5, 2 },   { 9, 0, 8 }, { 255, 0, 8 }, { 255, 9, 8 },
		{ 9, 8, 8 }, { 9, 3, 3 }, { 9, 1, 2 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("server %u, client %u", rows[i].server, rows[i].client);
		assert_int_equal(smcr_llc_negotiate_max_links(rows[i].server, rows[i].client),
				 rows[i].want);
	}
	PROVES("LG-7");
}

static void dialect(void **state)
{
	(void)state;
	for (unsigned int request = 0; request < 128; request++)
		for (unsigned int reply = 0; reply < 128; reply++) {
			bool both = (request & 3) && (reply & 3);
			assert_int_equal(smcr_llc_choose_dialect(SMCR_DIALECT_AUTO,
								 (uint8_t)request, (uint8_t)reply),
					 both ? SMCR_DIALECT_DEPLOYED : SMCR_DIALECT_RFC);
			assert_int_equal(smcr_llc_choose_dialect(SMCR_DIALECT_FORCE_RFC,
								 (uint8_t)request, (uint8_t)reply),
					 SMCR_DIALECT_RFC);
			assert_int_equal(smcr_llc_choose_dialect(SMCR_DIALECT_FORCE_DEPLOYED,
								 (uint8_t)request, (uint8_t)reply),
					 SMCR_DIALECT_DEPLOYED);
		}
}

static void add_link_answer(void **state)
{
	static const struct {
		bool server_new, unused, asymmetric;
		enum smcr_add_link_answer want;
	} rows[] = {
		{ false, false, false, SMCR_ADD_LINK_REJECT },   /* parallel */
		{ false, true, false, SMCR_ADD_LINK_ON_UNUSED }, /* asymmetric */
		{ true, true, false, SMCR_ADD_LINK_ON_UNUSED },  /* symmetric */
		{ true, false, false, SMCR_ADD_LINK_ON_USED },   /* asymmetric */
		{ false, false, true, SMCR_ADD_LINK_REJECT },
		{ false, true, true, SMCR_ADD_LINK_REJECT },   /* second asymmetric */
		{ true, false, true, SMCR_ADD_LINK_REJECT },   /* second asymmetric */
		{ true, true, true, SMCR_ADD_LINK_ON_UNUSED }, /* symmetric */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		assert_int_equal(smcr_llc_add_link_decide(rows[i].server_new, rows[i].unused,
							  rows[i].asymmetric),
				 rows[i].want);
	}
	PROVES("ADDL-3 LG-4");
}

/** How many messages a side with `n` RTokens needs; together they list all pairs. */
static void count_down(unsigned int n, unsigned int want_messages)
{
	unsigned int pairs = 0, messages = 0;
	uint8_t left = (uint8_t)n;
	do {
		assert_true(smcr_llc_rtokens_pairs(left) <= 2);
		pairs += smcr_llc_rtokens_pairs(left);
		messages++;
		if (left > 2)
			assert_int_equal(smcr_llc_rtokens_next(left), left - 2);
		else
			assert_int_equal(smcr_llc_rtokens_next(left), 0);
		left = smcr_llc_rtokens_next(left);
	} while (left);
	assert_int_equal(pairs, n);
	assert_int_equal(messages, want_messages);
}

static void add_link_continuation(void **state)
{
	(void)state;
	count_down(0, 1);
	count_down(1, 1);
	count_down(2, 1);
	count_down(3, 2);
	count_down(4, 2);
	count_down(5, 3);
	count_down(255, 128);
	PROVES("ADDL-9");
}

static void confirm_rkey_specs(void **state)
{
	(void)state;
	for (unsigned int links = 1; links <= SMCR_LINK_SLOTS; links++) {
		unsigned int left = links - 1, told = smcr_llc_rkey_specs(left, false), n;
		assert_int_equal(told, left < 2 ? left : 2);
		while (told < left) {
			n = smcr_llc_rkey_specs(left - told, true);
			assert_int_equal(n, left - told < 3 ? left - told : 3);
			told += n;
		}
		assert_int_equal(told, left);
	}
	/* 9 links: 8 -> 6 -> 3 */
	assert_int_equal(8 - smcr_llc_rkey_specs(8, false), 6);
	assert_int_equal(6 - smcr_llc_rkey_specs(6, true), 3);
	assert_int_equal(3 - smcr_llc_rkey_specs(3, true), 0);
	PROVES("RKEY-4");
}

static void classification(void **state)
{
	(void)state;
	assert_int_equal(smcr_clc_classify(true, false), SMCR_CONTACT_FIRST);
	assert_int_equal(smcr_clc_classify(true, true), SMCR_CONTACT_FIRST);
	assert_int_equal(smcr_clc_classify(false, true), SMCR_CONTACT_SUBSEQUENT);
	assert_int_equal(smcr_clc_classify(false, false), SMCR_CONTACT_OUT_OF_SYNC);
}

static void decline_window(void **state)
{
	static const struct {
		enum smcr_rv_step step;
		bool first, committed;
		enum smcr_decline_window want;
	} rows[] = {
		/* the peer owes the next message: wait for it (ERR-3) */
		{ SMCR_RV_S_AWAIT_PROPOSAL, false, false, SMCR_DECLINE_LATER },
		{ SMCR_RV_C_AWAIT_ACCEPT, false, false, SMCR_DECLINE_LATER },
		{ SMCR_RV_S_AWAIT_CONFIRM, true, false, SMCR_DECLINE_LATER },
		{ SMCR_RV_C_AWAIT_DECLINE, true, false, SMCR_DECLINE_LATER },
		/* Decline instead of the own next message (ERR-1) */
		{ SMCR_RV_S_DECIDES, false, false, SMCR_DECLINE_NOW },
		{ SMCR_RV_S_HELD, false, false, SMCR_DECLINE_NOW },
		{ SMCR_RV_S_ANNOUNCE, false, false, SMCR_DECLINE_NOW },
		{ SMCR_RV_C_CONTESTED, false, false, SMCR_DECLINE_NOW },
		{ SMCR_RV_C_ANNOUNCE, false, false, SMCR_DECLINE_NOW },
		/* subsequent contact: no Decline after the Accept (ERR-4) */
		{ SMCR_RV_S_AWAIT_CONFIRM, false, false, SMCR_DECLINE_NEVER },
		{ SMCR_RV_S_CONTESTED, false, false, SMCR_DECLINE_NEVER },
		/* first contact: up to the point of no return (ERR-5, ERR-7) */
		{ SMCR_RV_LLC, true, false, SMCR_DECLINE_NOW },
		{ SMCR_RV_LLC, true, true, SMCR_DECLINE_NEVER },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		assert_int_equal(
			smcr_clc_decline_window(rows[i].step, rows[i].first, rows[i].committed),
			rows[i].want);
	}
}

static struct smcr_prefix prefix4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t len)
{
	return (struct smcr_prefix){ .family = AF_INET, .ip = { a, b, c, d }, .prefix_len = len };
}

static bool names4(uint32_t subnet, uint8_t mask_len, struct smcr_prefix prefix)
{
	const struct smcr_addr client = { .family = AF_INET, .ip = { 10, 0, 0, 2 } };
	const struct smcr_clc_proposal proposal = { .ipv4_subnet = subnet,
						    .ipv4_mask_len = mask_len };
	return smcr_clc_names_prefix(&proposal, &client, &prefix);
}

static void ipv4_subnet(void **state)
{
	(void)state;
	assert_true(names4(0x0A000000, 24, prefix4(10, 0, 0, 1, 24)));
	/* bits of the host do not count */
	assert_true(names4(0x0A0000FF, 24, prefix4(10, 0, 0, 1, 24)));
	assert_false(names4(0x0A000000, 24, prefix4(10, 0, 1, 1, 24))); /* another network */
	assert_false(names4(0x0A000000, 24, prefix4(10, 0, 0, 1, 16))); /* another mask */
	assert_false(names4(0x0A000000, 16, prefix4(10, 0, 0, 1, 24)));
	assert_true(names4(0x0A000002, 32, prefix4(10, 0, 0, 2, 32)));
	assert_true(names4(0, 0, prefix4(10, 0, 0, 1, 0)));
	/* a peer that sends the mask itself: its address tells the network (A1) */
	assert_true(names4(0xFFFFFF00, 24, prefix4(10, 0, 0, 1, 24)));
	assert_false(names4(0xFFFFFF00, 24, prefix4(10, 0, 1, 1, 24)));
}

static void ipv6_prefixes(void **state)
{
	const struct smcr_addr client = { .family = AF_INET6, .ip = { 0x20, 0x01, [15] = 2 } };
	struct smcr_clc_proposal proposal = { .num_prefixes = 2 };
	struct smcr_prefix own = { .family = AF_INET6, .prefix_len = 64 };
	(void)state;
	proposal.prefixes[0] = (struct smcr_clc_prefix){ .addr = { 0x20, 0x02 }, .len = 48 };
	proposal.prefixes[1] =
		(struct smcr_clc_prefix){ .addr = { 0x20, 0x01, 1, 2, 3, 4, 5, 6 }, .len = 64 };
	memcpy(own.ip, proposal.prefixes[1].addr, 8);
	own.ip[15] = 9;
	assert_true(smcr_clc_names_prefix(&proposal, &client, &own));
	own.ip[7] ^= 1;
	assert_false(smcr_clc_names_prefix(&proposal, &client, &own));
	own.ip[7] ^= 1;
	own.prefix_len = 63;
	assert_false(smcr_clc_names_prefix(&proposal, &client, &own));
	own = prefix4(10, 0, 0, 1, 0);
	assert_false(smcr_clc_names_prefix(&proposal, &client, &own));
}

/** Each of the first bits decides, and no other bit does. */
static void every_bit_of_a_prefix(void **state)
{
	(void)state;
	for (unsigned int bits = 0; bits <= 128; bits++)
		for (unsigned int differs = 0; differs < 128; differs++) {
			uint8_t a[16] = { [3] = 0x5A, [9] = 0xFF }, b[16];
			memcpy(b, a, sizeof(b));
			b[differs / 8] ^= (uint8_t)(0x80 >> differs % 8);
			assert_int_equal(smcr_prefix_match(a, b, bits), differs >= bits);
		}
}

static void prefix_bits(void **state)
{
	const uint8_t a[2] = { 0xFF, 0x80 }, b[2] = { 0xFF, 0xC0 };
	(void)state;
	assert_true(smcr_prefix_match(a, b, 0));
	assert_true(smcr_prefix_match(a, b, 9));
	assert_false(smcr_prefix_match(a, b, 10));
	assert_false(smcr_prefix_match(a, b, 16));
}

/** 3.5.5.3: each cell of the matrix, at the receiver of the message. */
static void collisions(void **state)
{
	enum { H = SMCR_HANDLE, Q = SMCR_QUEUE, Z = SMCR_REFUSE, G = SMCR_GAVE_UP };
	static const struct {
		uint8_t type;
		bool all;
		enum smcr_role receiver;
		int add, del, rkey; /* during ADD LINK; DELETE LINK; an own RKEY exchange */
	} rows[] = {
		{ SMCR_LLC_TEST_LINK, false, SMCR_ROLE_SERVER, H, H, H },
		{ SMCR_LLC_TEST_LINK, false, SMCR_ROLE_CLIENT, H, H, H },
		{ SMCR_LLC_ADD_LINK, false, SMCR_ROLE_SERVER, H, H, H }, /* is remembered */
		{ SMCR_LLC_ADD_LINK, false, SMCR_ROLE_CLIENT, G, G, H },
		{ SMCR_LLC_DELETE_LINK, false, SMCR_ROLE_SERVER, Q, Q, Q },
		{ SMCR_LLC_DELETE_LINK, false, SMCR_ROLE_CLIENT, G, G, H },
		{ SMCR_LLC_DELETE_LINK, true, SMCR_ROLE_SERVER, H, H, H },
		{ SMCR_LLC_DELETE_LINK, true, SMCR_ROLE_CLIENT, H, H, H },
		{ SMCR_LLC_CONFIRM_RKEY, false, SMCR_ROLE_SERVER, Z, Z, H },
		{ SMCR_LLC_CONFIRM_RKEY, false, SMCR_ROLE_CLIENT, G, H, H },
		{ SMCR_LLC_DELETE_RKEY, false, SMCR_ROLE_SERVER, Q, Q, H },
		{ SMCR_LLC_DELETE_RKEY, false, SMCR_ROLE_CLIENT, G, H, H },
		{ SMCR_LLC_CONFIRM_LINK, false, SMCR_ROLE_CLIENT, H, H, H },
	};
	static const enum smcr_llc_step add[2][3] = {
		{ SMCR_LLC_S_ADD, SMCR_LLC_S_ADD_CONT, SMCR_LLC_S_CONFIRM_ADDED },
		{ SMCR_LLC_C_AWAIT_ADD_CONT, SMCR_LLC_C_AWAIT_CONFIRM_ADDED,
		  SMCR_LLC_C_AWAIT_NEXT_CONT },
	};
	static const enum smcr_llc_step del[2] = { SMCR_LLC_S_DELETE, SMCR_LLC_C_AWAIT_DELETE };
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu: type %u, role %d", i, rows[i].type, (int)rows[i].receiver);
		struct smcr_llc_flow flow = { .step = SMCR_LLC_IDLE };
		struct smcr_lgr lgr = { .role = rows[i].receiver, .llc = &flow };
		struct smcr_llc_msg msg = { .type = rows[i].type };
		if (rows[i].type == SMCR_LLC_DELETE_LINK)
			msg.delete_link.all = rows[i].all;
		assert_int_equal(smcr_llc_collision(&lgr, &msg), SMCR_HANDLE);
		for (int k = 0; k < 3; k++) {
			flow.step = add[rows[i].receiver == SMCR_ROLE_CLIENT][k];
			assert_int_equal((int)smcr_llc_collision(&lgr, &msg), rows[i].add);
		}
		flow.step = del[rows[i].receiver == SMCR_ROLE_CLIENT];
		assert_int_equal((int)smcr_llc_collision(&lgr, &msg), rows[i].del);
		flow.step = SMCR_LLC_IDLE;
		flow.rkey.step = SMCR_RKEY_CONFIRM;
		assert_int_equal((int)smcr_llc_collision(&lgr, &msg), rows[i].rkey);
		flow.rkey.step = SMCR_RKEY_DELETE;
		assert_int_equal((int)smcr_llc_collision(&lgr, &msg), rows[i].rkey);
	}
	PROVES("SER-4");
}

/** The table of steps: a server asks and awaits replies, a client awaits requests. */
static void steps(void **state)
{
	(void)state;
	for (int i = SMCR_LLC_IDLE + 1; i < SMCR_LLC_NUM_STEPS; i++) {
		const struct smcr_llc_step_row *row = smcr_llc_step_row((enum smcr_llc_step)i);
		bool server = row->roles == SMCR_ROW_S;
		if (row->exchange == SMCR_EXCHANGE_NONE || (!server && row->roles != SMCR_ROW_C))
			fail_msg("step %d: no exchange, or not one role", i);
		if (server && (!row->sent.type || row->sent.reply))
			fail_msg("step %d: a server has sent no request", i);
		if (row->awaited.type && row->awaited.reply != server)
			fail_msg("step %d: the wrong side answers", i);
		if (server && row->awaited.type && row->awaited.type != row->sent.type)
			fail_msg("step %d: the reply is of another type", i);
	}
	assert_int_equal(smcr_llc_exchange_of(SMCR_LLC_IDLE), SMCR_EXCHANGE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bit_of_a_prefix),
		cmocka_unit_test(collisions),
		cmocka_unit_test(steps),
		cmocka_unit_test(max_links),
		cmocka_unit_test(dialect),
		cmocka_unit_test(add_link_answer),
		cmocka_unit_test(add_link_continuation),
		cmocka_unit_test(confirm_rkey_specs),
		cmocka_unit_test(classification),
		cmocka_unit_test(decline_window),
		cmocka_unit_test(ipv4_subnet),
		cmocka_unit_test(ipv6_prefixes),
		cmocka_unit_test(prefix_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
