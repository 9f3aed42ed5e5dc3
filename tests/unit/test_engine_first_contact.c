/* SPDX-License-Identifier: MIT */
/* First contact from Proposal to the open data gate (RFC 7609 3.5.1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

/** The messages that went through, in order, as text: "P" Proposal, "A1"/"A0" Accept with F=1 or 0,
 *  "C" Confirm, "D" Decline; "cl1"/"CL1" CONFIRM LINK and its reply on link 1, "al"/"AL"/"AL-" ADD
 *  LINK, its reply and its negative reply, "ac"/"AC" CONTINUATION; other types by number. */
static const char *story(const struct pair *pair)
{
	static char text[1024];
	size_t n = 0;
	text[0] = '\0';
	for (size_t i = 0; i < pair->log_len && n < sizeof(text) - 20; i++) {
		const struct pair_msg *m = &pair->log[i];
		const struct smcr_llc_msg *l = &m->llc;
		if (m->is_cdc)
			continue;
		if (m->is_clc)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%c%s ",
					      "?PACD"[m->clc.type],
					      m -> clc.type != SMCR_CLC_ACCEPT   ? ""
						   : m->clc.accept.first_contact ? "1"
										 : "0");
		else if (l->type == SMCR_LLC_CONFIRM_LINK)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u ",
					      l->reply ? "CL" : "cl", m->link);
		else if (l->type == SMCR_LLC_ADD_LINK)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s ",
					      l->reply ? "AL" : "al",
					      l->add_link.reject ? "-" : "");
		else if (l->type == SMCR_LLC_ADD_LINK_CONT)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ",
					      l->reply ? "AC" : "ac");
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%u%s ", l->type,
					      l->reply ? "r" : "");
	}
	return text;
}

static void established(struct pair *pair, int conn)
{
	pair_pump(pair);
	assert_true(pair_both_established(pair, conn));
	pair_exchange(pair, conn);
}

/* ---- combinations of RNICs ---- */

static void one_rnic_each(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_connect(pair, C);
	established(pair, c);
	assert_string_equal(story(pair), "P A1 C cl1 CL1 al AL- ");
	/* the server has tried its only RNIC, for an asymmetric link (ADDL-2) */
	const struct pair_msg *add = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false);
	assert_memory_equal(add->llc.add_link.gid, pair->side[S].devices[0].gid, SMCR_GID_LEN);
	const struct pair_msg *answer = pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, true);
	assert_int_equal(answer->llc.add_link.reject_reason, SMCR_LLC_REJECT_NO_ALT_PATH);
	/* and has freed the queue pair of that link (ADDL-6) */
	assert_int_equal(pair_num_qps(pair, S), 1);
	assert_int_equal(pair_num_qps(pair, C), 1);
	assert_string_equal(pair_lgr_view(pair, S).type, "single");
	pair_close(pair, c);
	pair_free(pair);
	PROVES("RV-4 RV-7 RV-9 ADDL-1 ADDL-5 ADDL-6 LLC-4");
}

static void two_rnics_each(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c = pair_connect(pair, C);
	established(pair, c);
	assert_string_equal(story(pair), "P A1 C cl1 CL1 al AL ac AC cl2 CL2 ");
	for (int side = 0; side < 2; side++) {
		struct smcr_lgr *lgr = pair_lgr(pair, side);
		assert_string_equal(smcr_lgr_type_name(lgr), "symmetric");
		assert_int_equal(pair_num_qps(pair, side), 2);
		for (uint8_t n = 1; n <= 2; n++) {
			struct smcr_link *link = pair_link(pair, side, n);
			assert_int_equal(link->state, SMCR_LINK_ACTIVE);
			assert_int_equal(link->device->info.id, pair->side[side].devices[n - 1].id);
			assert_int_equal(link->peer_uid, pair_link_view(pair, !side, n).uid);
			assert_true(lgr->peer_rmbs->token[link->slot].valid);
			assert_true(lgr->rmbs->reg[link->slot].told);
		}
		assert_int_equal(lgr->max_links, 4);
		assert_int_equal(lgr->dialect, SMCR_DIALECT_DEPLOYED);
		assert_true(pair_link_view(pair, side, 1).uid != pair_link_view(pair, side, 2).uid);
	}
	pair_close(pair, c);
	pair_free(pair);
	PROVES("ADDL-4 ADDL-8 ADDL-10 ADDL-12 LLC-5 LLC-6 LLC-7 LG-1 LG-9 LG-12 RKEY-12 RMB-10 "
	       "RKEY-11");
}

static void server_has_two(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 1);
	int c = pair_connect(pair, C);
	established(pair, c);
	assert_string_equal(pair_lgr_view(pair, S).type, "asymmetric-peer");
	assert_string_equal(pair_lgr_view(pair, C).type, "asymmetric-local");
	pair_close(pair, c);
	pair_free(pair);
}

static void client_has_two(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 2);
	int c = pair_connect(pair, C);
	established(pair, c);
	assert_string_equal(pair_lgr_view(pair, S).type, "asymmetric-local");
	assert_string_equal(pair_lgr_view(pair, C).type, "asymmetric-peer");
	pair_close(pair, c);
	pair_free(pair);
	PROVES("ADDL-2");
}

static void rfc_dialect(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.dialect = SMCR_DIALECT_FORCE_RFC;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	int c = pair_connect(pair, C);
	established(pair, c);
	assert_int_equal(pair_lgr_view(pair, S).dialect, SMCR_DIALECT_RFC);
	assert_int_equal(pair_lgr_view(pair, C).dialect, SMCR_DIALECT_RFC);
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
	pair_close(pair, c);
	pair_free(pair);
}

/* ---- contents of CLC messages ---- */

static void credentials(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct smcr_device_info small = pair->side[C].devices[0];
	small.mtu = SMCR_MTU_512;
	pair->side[C].devices[0] = small;
	assert_int_equal(smcr_engine_device_update(pair->side[C].engine, &small), 0);
	int c = pair_connect(pair, C);
	established(pair, c);
	const struct smcr_clc_proposal *p =
		&pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc.proposal;
	const struct smcr_clc_accept *a = &pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
	const struct smcr_clc_accept *f = &pair_last_clc(pair, C, SMCR_CLC_CONFIRM)->clc.accept;
	struct smcr_config sc = pair_config(S), cc = pair_config(C);
	assert_memory_equal(p->peer_id, cc.peer_id, SMCR_PEER_ID_LEN);
	assert_memory_equal(a->peer_id, sc.peer_id, SMCR_PEER_ID_LEN);
	assert_memory_equal(f->peer_id, cc.peer_id, SMCR_PEER_ID_LEN);
	assert_int_equal(p->version, 1);
	assert_int_equal(p->ipv4_subnet, 0x0A000000);
	assert_int_equal(p->ipv4_mask_len, 24);
	assert_int_equal(p->num_prefixes, 0);
	assert_memory_equal(p->gid, small.gid, SMCR_GID_LEN);
	assert_memory_equal(p->mac, small.mac, SMCR_MAC_LEN);
	assert_true(a->first_contact);
	assert_memory_equal(a->mac, pair->side[S].devices[0].mac, SMCR_MAC_LEN);
	assert_memory_equal(f->mac, small.mac, SMCR_MAC_LEN);
	assert_int_equal(a->rmbe_index, 1);
	assert_true(a->alert_token && f->alert_token && a->alert_token != f->alert_token);
	/* both ends use the smaller MTU, and each side's PSN comes from the other (checked by the
	 * fabric too) */
	assert_int_equal(pair_link_view(pair, S, 1).mtu, SMCR_MTU_512);
	assert_int_equal(pair_link_view(pair, C, 1).mtu, SMCR_MTU_512);
	assert_int_equal(pair_link(pair, S, 1)->peer_psn, f->psn);
	assert_int_equal(pair_link(pair, C, 1)->peer_psn, a->psn);
	assert_int_equal(pair_link(pair, S, 1)->psn, a->psn);
	/* Each side draws its own. The random numbers are the same in every run. */
	assert_int_not_equal(a->psn, f->psn);
	assert_memory_equal(pair_link_view(pair, S, 1).peer_mac, small.mac, SMCR_MAC_LEN);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("PEER-1 CLC-4 CLC-6 CLC-9 CLC-10 CLC-17");
}

/** Before its Confirm the client has a queue pair that is set up as the Accept says (RV-6). */
static void client_connects_its_queue_pair(void **state)
{
	(void)state;
	for (int small = 0; small < 2; small++) {
		TRIES("small %d", small);
		struct pair *pair = pair_new(NULL, NULL, 1, 0);
		struct smcr_device_info info = pair_device(C, 0);
		info.mtu = small ? SMCR_MTU_512 : SMCR_MTU_4096; /* the server has 1024 */
		pair_add_device(pair, C, &info);
		struct pair_pick pick = {
			.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		assert_true(pick.seen > 0);
		const struct smcr_clc_accept *a =
			&pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept;
		const struct smcr_link *link = pair_lgr(pair, C)->links[0];
		const struct smcr_qp_peer *peer = pair_qp_peer(pair, C, link->number);
		assert_memory_equal(peer->gid, a->gid, SMCR_GID_LEN);
		assert_memory_equal(peer->mac, a->mac, SMCR_MAC_LEN);
		assert_memory_equal(peer->mac, pair->side[S].devices[0].mac, SMCR_MAC_LEN);
		assert_int_equal(peer->qpn, a->qpn);
		assert_int_equal(peer->psn, a->psn);
		assert_int_equal(peer->mtu, small ? SMCR_MTU_512 : SMCR_MTU_1024);
		/* the client has memory, and a token for the peer */
		const struct smcr_conn *conn = pair_end(pair, c, C)->smc;
		assert_non_null(conn->rx.element.slab);
		assert_non_null(conn->rx.element.slab->reg[link->slot].mr);
		assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_CONFIRM_FIRST);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		const struct smcr_clc_accept *f =
			&pair_last_clc(pair, C, SMCR_CLC_CONFIRM)->clc.accept;
		assert_int_equal(f->rkey, conn->rx.element.slab->reg[link->slot].rkey);
		assert_int_equal(f->mtu, small ? SMCR_MTU_512 : SMCR_MTU_1024);
		established(pair, c);
		pair_free(pair);
	}
	PROVES("RV-6 CLC-9");
}

/** CONFIRM LINK and its reply describe their sender. */
static void confirm_links_tell_of_their_senders(uint8_t server_limit, uint8_t client_limit)
{
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].max_links = server_limit;
	config[C].max_links = client_limit;
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	int c = pair_connect(pair, C);
	established(pair, c);
	unsigned int seen = 0;
	for (size_t i = 0; i < pair->log_len; i++) {
		const struct pair_msg *m = &pair->log[i];
		if (m->is_clc || m->is_cdc || m->llc.type != SMCR_LLC_CONFIRM_LINK)
			continue;
		const struct smcr_llc_confirm_link *said = &m->llc.confirm_link;
		const struct smcr_link *link = pair_link(pair, m->from, m->link);
		const struct smcr_device_info *device = &pair->side[m->from].devices[seen / 2];
		assert_int_equal(m->from, m->llc.reply ? C : S);
		assert_int_equal(m->link, 1 + seen / 2); /* each on the link that it confirms */
		assert_memory_equal(said->gid, device->gid, SMCR_GID_LEN);
		assert_memory_equal(said->mac, device->mac, SMCR_MAC_LEN);
		assert_int_equal(said->qpn, link->qpn);
		assert_int_equal(said->qpn, pair_link_view(pair, !m->from, m->link).peer_qpn);
		assert_int_equal(said->link_number, m->link);
		assert_int_equal(said->link_user_id, link->uid);
		assert_true(said->link_user_id != 0);
		assert_int_equal(said->max_links, seen ? 3 : server_limit);
		seen++;
	}
	assert_int_equal(seen, 4);
	pair_free(pair);
}

static void confirm_link_tells_of_its_sender(void **state)
{
	(void)state;
	confirm_links_tell_of_their_senders(5, 3);
	confirm_links_tell_of_their_senders(3, 5);
	PROVES("RV-8 RV-9 LG-7 LG-12");
}

static int connect_ipv6(struct pair *pair)
{
	int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	struct smcr_conn_params params = pair_params(pair, C, SMCR_ROLE_CLIENT, c);
	params.local = params.peer =
		(struct smcr_addr){ .family = AF_INET6, .ip = { 0x20, 1, 0xD, 0xB8 } };
	params.local.ip[15] = 2;
	params.local_prefix_len = 64;
	assert_int_equal(smcr_conn_start(pair->side[C].engine, &params, &pair_end(pair, c, C)->smc),
			 0);
	return c;
}

/** The Proposal has the prefixes of the interface that it leaves by: each once, that of the
 *  connection first, at most eight, none of IPv4 (CLC-7). */
static void ipv6_prefixes(void **state)
{
	(void)state;
	for (size_t others = 0; others <= 10; others += 5) {
		TRIES("others %zu", others);
		struct pair *pair = pair_new(NULL, NULL, 0, 0);
		struct smcr_device_info info = pair_device(C, 0), wrong = pair_device(C, 1);
		struct smcr_prefix prefix = { .family = AF_INET6,
					      .ip = { 0x20, 1, 0xD, 0xB8, [15] = 2 },
					      .prefix_len = 64 };
		info.prefixes[info.num_prefixes++] = prefix;
		prefix.ip[15] = 77; /* another address of the same network */
		info.prefixes[info.num_prefixes++] = prefix;
		prefix.ip[0] = 0xFE, prefix.ip[1] = 0x80; /* link-local */
		info.prefixes[info.num_prefixes++] = prefix;
		for (size_t i = 0; i < others; i++) {
			prefix.ip[0] = 0xFD, prefix.ip[7] = (uint8_t)(i + 1);
			info.prefixes[info.num_prefixes++] = prefix;
		}
		pair_add_device(pair, C, &info);
		prefix.ip[7] = 0xEE; /* belongs to another RNIC */
		wrong.prefixes[0] = prefix;
		pair_add_device(pair, C, &wrong);
		int c = connect_ipv6(pair);
		struct smcr_clc_msg msg;
		const struct pair_clc *out = pair_end(pair, c, S)->in;
		assert_int_equal(smcr_clc_decode(out->buf, out->len, &msg), 0);
		const struct smcr_clc_proposal *p = &msg.proposal;
		assert_int_equal(p->num_prefixes, others < 8 ? 1 + others : 8);
		assert_int_equal(p->ipv4_subnet, 0);
		assert_int_equal(p->ipv4_mask_len, 0);
		const uint8_t own[16] = { 0x20, 1, 0xD, 0xB8 };
		assert_memory_equal(p->prefixes[0].addr, own, 16);
		for (unsigned int i = 0; i < p->num_prefixes; i++) {
			const uint8_t other[16] = { 0xFD, 0x80, 0xD, 0xB8, [7] = (uint8_t)i };
			assert_int_equal(p->prefixes[i].len, 64);
			if (i)
				assert_memory_equal(p->prefixes[i].addr, other, 16);
		}
		pair_free(pair);
	}
	PROVES("CLC-7");
}

/** A Proposal over IPv6 has 1 to 8 prefixes. Another count is an error of format, not another
 *  LAN. */
static void ipv6_prefixes_that_cannot_be(void **state)
{
	(void)state;
	static const unsigned int counts[] = { 0, 9 };
	for (size_t i = 0; i < 2; i++) {
		TRIES("case %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 1, 0);
		/* the client's engine is not used: the test sends its messages */
		int c = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
		struct pair_clc *decline = pair_end(pair, c, S)->in;
		DL_DELETE(pair_end(pair, c, S)->in, decline);
		free(decline);
		struct smcr_conn_params params = pair_params(pair, S, SMCR_ROLE_SERVER, c);
		params.local = params.peer =
			(struct smcr_addr){ .family = AF_INET6, .ip = { 0x20, 1, 0xD, 0xB8 } };
		assert_int_equal(
			smcr_conn_start(pair->side[S].engine, &params, &pair_end(pair, c, S)->smc),
			0);
		struct smcr_clc_msg msg = { .type = SMCR_CLC_PROPOSAL };
		struct smcr_config config = pair_config(C);
		msg.proposal = (struct smcr_clc_proposal){ .version = 1,
							   .offers_r_v1 = true,
							   .num_prefixes = counts[i] ? 8 : 0 };
		for (unsigned int n = 0; n < msg.proposal.num_prefixes; n++)
			msg.proposal.prefixes[n].len = 64;
		memcpy(msg.proposal.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
		uint8_t buf[SMCR_CLC_MAX_LEN] = { 0 };
		int len = smcr_clc_encode(&msg, buf, sizeof(buf));
		assert_int_equal(len, counts[i] ? 52 + 8 * 17 : 52);
		if (counts[i]) { /* the ninth prefix follows the others */
			memmove(buf + len + 17 - 4, buf + len - 4, 4);
			memset(buf + len - 4, 0, 17);
			len += 17;
			buf[5] = (uint8_t)(len >> 8);
			buf[6] = (uint8_t)len;
			buf[47] = 9;
		}
		pair_inject_clc_raw(pair, c, C, buf, (size_t)len);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, c, S)->failed, 1);
		assert_int_equal(pair_end(pair, c, S)->last.error, EPROTO);
		assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_DECLINE), 0);
		pair_free(pair);
	}
	PROVES("CLC-7 ERR-13");
}

static void ipv6(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 0);
		info.num_prefixes = 3;
		info.prefixes[1] = (struct smcr_prefix){ .family = AF_INET6,
							 .ip = { 0xFE, 0x80, [15] = 1 },
							 .prefix_len = 64 };
		info.prefixes[2] = (struct smcr_prefix){ .family = AF_INET6,
							 .ip = { 0x20, 1, 0xD,
								 0xB8, [15] = (uint8_t)(side + 1) },
							 .prefix_len = 64 };
		pair_add_device(pair, side, &info);
	}
	int c = connect_ipv6(pair);
	established(pair, c);
	const struct smcr_clc_proposal *p =
		&pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc.proposal;
	const uint8_t network[16] = { 0x20, 1, 0xD, 0xB8 };
	assert_int_equal(p->num_prefixes, 1); /* link-local prefixes tell nothing */
	assert_memory_equal(p->prefixes[0].addr, network, 16);
	assert_int_equal(p->prefixes[0].len, 64);
	assert_int_equal(p->ipv4_subnet, 0);
	/* the group also serves IPv4 connections between the same RNICs (PEER-4) */
	int second = pair_connect(pair, C);
	established(pair, second);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false), 1);
	pair_close(pair, c);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("CLC-7");
}

static void other_subnet_is_declined(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 1);
	struct smcr_device_info info = pair_device(S, 0);
	info.prefixes[0].ip[2] = 1; /* 10.0.1.0/24 */
	pair_add_device(pair, S, &info);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_string_equal(story(pair), "P D ");
	assert_int_equal(pair_end(pair, c, S)->fallback, 1);
	assert_int_equal(pair_end(pair, c, C)->fallback, 1);
	assert_int_equal(pair_end(pair, c, S)->last.reason, SMCR_REASON_PREFIX_MISMATCH);
	assert_int_equal(pair_end(pair, c, C)->last.reason, SMCR_REASON_PEER_DECLINED);
	assert_int_equal(pair_end(pair, c, C)->last.peer_reason, SMCR_REASON_PREFIX_MISMATCH);
	assert_false(pair_end(pair, c, C)->last.path_dead);
	/* the netmask must be the same too */
	info.prefixes[0].ip[2] = 0;
	info.prefixes[0].prefix_len = 23;
	assert_int_equal(smcr_engine_device_update(pair->side[S].engine, &info), 0);
	c = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->fallback, 1);
	assert_true(smcr_engine_idle(pair->side[S].engine));
	pair_free(pair);
	PROVES("RV-3");
}

static void other_vlan_is_declined(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	struct smcr_device_info server = pair_device(S, 0), client = pair_device(C, 0);
	server.vlan = 7;
	pair_add_device(pair, S, &server);
	pair_add_device(pair, C, &client);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, S)->fallback, 1);
	assert_int_equal(pair_end(pair, c, C)->fallback, 1);
	pair_free(pair);
	PROVES("LG-2");
}

static void version_two(void **state)
{
	(void)state;
	/* a Proposal of version 2 that also offers version 1 of SMC-R is answered in version 1 */
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	uint8_t buf[92] = { 0xE2, 0xD4, 0xC3, 0xD9, 1, 0, 92, 0x28 };
	struct smcr_device_info client = pair->side[C].devices[0];
	struct smcr_config cc = pair_config(C);
	memcpy(buf + 8, cc.peer_id, 8);
	memcpy(buf + 16, client.gid, 16);
	memcpy(buf + 32, client.mac, 6);
	buf[39] = 40;
	buf[80] = 10;
	buf[84] = 24;
	memcpy(buf + 88, buf, 4);
	pair_inject_clc_raw(pair, c, C, buf, sizeof(buf));
	/* there is no client's engine: look at the message on its way */
	pair_pump(pair);
	struct smcr_clc_msg answer;
	const struct pair_clc *out = pair_end(pair, c, C)->in;
	assert_non_null(out);
	assert_int_equal(smcr_clc_decode(out->buf, out->len, &answer), 0);
	assert_int_equal(answer.type, SMCR_CLC_ACCEPT);
	assert_int_equal(out->buf[7] >> 4, 1);
	pair_free(pair);
	/* a Proposal that offers version 2 only gets a Decline in its long form, never a reset */
	pair = pair_new(NULL, NULL, 1, 1);
	c = pair_start_alone(pair, S, SMCR_ROLE_SERVER);
	uint8_t v2[156] = { 0xE2, 0xD4, 0xC3, 0xD9, 1, 0, 156, 0x22 };
	v2[51] = 28;
	v2[80] = 1;
	v2[83] = 0x10;
	memcpy(v2 + 120, "SMCLAB                          ", 32);
	memcpy(v2 + 152, buf, 4);
	pair_inject_clc_raw(pair, c, C, v2, sizeof(v2));
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, S)->fallback, 1);
	out = pair_end(pair, c, C)->in;
	assert_non_null(out);
	assert_int_equal(smcr_clc_decode(out->buf, out->len, &answer), 0);
	assert_int_equal(answer.type, SMCR_CLC_DECLINE);
	assert_int_equal(answer.decline.version, 2);
	assert_int_equal(answer.decline.diagnosis, SMCR_REASON_NO_DEVICE);
	assert_int_equal(pair_end(pair, c, S)->last.reason, SMCR_REASON_UEID_MISMATCH);
	pair_free(pair);
	/* an Accept of version 2 does not answer a Proposal of version 1: it gets a Decline too */
	pair = pair_new(NULL, NULL, 1, 1);
	c = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	struct smcr_clc_msg accept = { .type = SMCR_CLC_ACCEPT };
	accept.accept = (struct smcr_clc_accept){ .type = SMCR_CLC_ACCEPT,
						  .version = 2,
						  .first_contact = true,
						  .rmbe_index = 1,
						  .mtu = SMCR_MTU_1024 };
	pair_inject_clc(pair, c, S, &accept);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->fallback, 1);
	assert_int_equal(pair_end(pair, c, C)->last.reason, SMCR_REASON_VERSION_MISMATCH);
	pair_free(pair);
	PROVES("CLC-4");
}

/* ---- the data gate ---- */

static void nothing_before_accept(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
	pair_pump(pair);
	struct smcr_engine_view view;
	smcr_engine_get_view(pair->side[C].engine, &view);
	assert_int_equal(view.num_lgrs + view.num_links + view.num_qps + view.num_mrs, 0);
	assert_int_equal(view.memory_used, 0);
	struct smcr_clc_msg msg;
	const struct pair_clc *out = pair_end(pair, c, S)->in;
	assert_int_equal(smcr_clc_decode(out->buf, out->len, &msg), 0);
	assert_int_equal(msg.type, SMCR_CLC_PROPOSAL);
	pair_free(pair);
	PROVES("RV-1");
}

/** One kind of message is held: which side is established then? */
static void gate(size_t server_rnics, size_t client_rnics, struct pair_pick pick,
		 unsigned int server, unsigned int client)
{
	struct pair *pair = pair_new(NULL, NULL, server_rnics, client_rnics);
	pick.verdict = PAIR_HOLD;
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_true(pick.seen > 0);
	assert_int_equal(pair_end(pair, c, S)->established, server);
	assert_int_equal(pair_end(pair, c, C)->established, client);
	if (client) { /* bytes that the client writes at once are kept until the server's gate opens
		       */
		pair_send(pair, c, C, 100, 1);
		pair_pump(pair);
		assert_int_equal(pair_end(pair, c, S)->readable, 0);
	}
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	if (client)
		pair_expect(pair, c, S, 100, 1);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

/** Link 2 fails on one side, and a message of the deletion that follows is held. */
struct broken_gate {
	int sees; /* the side whose RNIC 2 goes while CONFIRM LINK is awaited on link 2 */
	struct pair_pick held;       /* message of the deletion */
	unsigned int server, client; /* which sides are established then */
};

static enum pair_verdict hold_both(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct broken_gate *gate = arg;
	bool confirm = !msg->is_clc && !msg->is_cdc && msg->link == 2 &&
		       msg->llc.type == SMCR_LLC_CONFIRM_LINK;
	(void)pair;
	if (confirm)
		return PAIR_HOLD;
	if (!pair_picked(&gate->held, msg))
		return PAIR_PASS;
	gate->held.seen++;
	return PAIR_HOLD;
}

/** RV-12: the server opens when it gets the reply to DELETE LINK, the client when it has sent that
 *  reply. */
static void gates_of_one_link(void **state)
{
	(void)state;
	const struct pair_pick request = { .from = C, .type = SMCR_LLC_DELETE_LINK };
	const struct pair_pick order = { .from = S, .type = SMCR_LLC_DELETE_LINK };
	const struct pair_pick reply = { .from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true };
	const struct broken_gate gates[] = { { S, order, 0, 0 },
					     { S, reply, 0, 1 },
					     { C, request, 0, 0 },
					     { C, order, 0, 0 },
					     { C, reply, 0, 1 } };
	for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
		TRIES("row %zu", i);
		struct broken_gate gate = gates[i];
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		pair->filter = hold_both;
		pair->filter_arg = &gate;
		int c = pair_connect(pair, C);
		pair_pump(pair);
		pair_remove_device(pair, gate.sees, pair->side[gate.sees].devices[1].id);
		pair_pump(pair);
		assert_true(gate.held.seen > 0);
		assert_int_equal(pair_end(pair, c, S)->established, gate.server);
		assert_int_equal(pair_end(pair, c, C)->established, gate.client);
		pair->filter = NULL;
		pair_pump(pair);
		assert_true(pair_both_established(pair, c));
		assert_string_equal(pair_lgr_view(pair, S).type, "single");
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("RV-12 ERR-22 ERR-28");
}

static void gates(void **state)
{
	(void)state;
	const struct pair_pick confirm_link = { .from = S, .type = SMCR_LLC_CONFIRM_LINK };
	const struct pair_pick confirm_reply = { .from = C,
						 .type = SMCR_LLC_CONFIRM_LINK,
						 .reply = true };
	const struct pair_pick add = { .from = S, .type = SMCR_LLC_ADD_LINK };
	const struct pair_pick add_reply = { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true };
	const struct pair_pick cont = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT };
	const struct pair_pick cont_reply = { .from = C,
					      .type = SMCR_LLC_ADD_LINK_CONT,
					      .reply = true };
	const struct pair_pick confirm2 = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 };
	const struct pair_pick confirm2_reply = {
		.from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .link = 2
	};
	gate(1, 1, confirm_link, 0, 0);
	gate(1, 1, confirm_reply, 0, 0);
	gate(1, 1, add, 0, 0);
	gate(1, 1, add_reply, 0, 1); /* the client has sent its negative reply */
	gate(2, 2, add_reply, 0, 0);
	gate(2, 2, cont, 0, 0);
	gate(2, 2, cont_reply, 0, 0);
	gate(2, 2, confirm2, 0, 0);
	gate(2, 2, confirm2_reply, 0, 1);
	PROVES("RV-11 RV-12 RV-13");
}

/** Link 2 fails while it is set up: one link is enough, once both sides agree on it. */
static void second_link_fails(void **state)
{
	struct smcr_config config = pair_config(S);
	/* Long enough that the client's rules are seen too. */
	config.fc_send_timeout_server = 5000000;
	(void)state;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .verdict = PAIR_FAIL
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	/* the server deletes link 2 over link 1, and the gates open with the reply (ERR-22) */
	assert_true(pair_both_established(pair, c));
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 1);
	assert_int_equal(pair_num_qps(pair, S), 1);
	assert_int_equal(pair_num_qps(pair, C), 1);
	pair_set_pick(pair, NULL);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

static void second_path_is_dead(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, 900000);
	assert_false(pair_both_established(pair, c));
	/* The server does not wait until the RNIC has used up its retries. */
	pair_run(pair, 200000);
	assert_true(pair_both_established(pair, c));
	assert_string_equal(pair_lgr_view(pair, S).type, "single");
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

/** The client loses its second RNIC while CONFIRM LINK is awaited there (ERR-28). */
static void client_loses_second_rnic(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	pair_remove_device(pair, C, pair->side[C].devices[1].id);
	assert_int_equal(pair_num_qps(pair, C), 1);
	assert_int_equal(pair_end(pair, c, C)->established, 0);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 1);
	assert_int_equal(pair_num_qps(pair, S), 1);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
}

/* ---- identity of the peer ---- */

static void a_new_instance_is_a_new_peer(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_connect(pair, C);
	established(pair, c);
	/* the client's host restarts: same addresses, another peer ID */
	struct smcr_config config = pair_config(C);
	config.peer_id[1] ^= 0x55;
	smcr_engine_free(pair->side[C].engine);
	pair_end(pair, c, C)->smc = NULL;
	pair_start_engine(&pair->side[C], &config);
	assert_int_equal(smcr_engine_device_add(pair->side[C].engine, &pair->side[C].devices[0]),
			 0);
	pair_clear_log(pair);
	int second = pair_connect(pair, C);
	established(pair, second);
	assert_true(pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.first_contact);
	struct smcr_engine_view view;
	smcr_engine_get_view(pair->side[S].engine, &view);
	assert_int_equal(view.num_lgrs, 2);
	/* the old group ends when its own link fails (TERM-2) */
	pair_send(pair, c, S, 10, 1);
	pair_run(pair, 5000000);
	smcr_engine_get_view(pair->side[S].engine, &view);
	assert_int_equal(view.num_lgrs, 1);
	assert_int_equal(pair_end(pair, c, S)->reset, 1);
	pair_exchange(pair, second);
	pair_close(pair, second);
	pair_free(pair);
	PROVES("PEER-5 PEER-4 TERM-2");
}

static void peer_id_survives_its_rnic(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c = pair_connect(pair, C);
	established(pair, c);
	pair_close(pair, c);
	pair_remove_device(pair, C, pair->side[C].devices[0].id);
	pair_run(pair, 1000);
	c = pair_connect(pair, C);
	pair_pump(pair);
	struct smcr_config config = pair_config(C);
	assert_memory_equal(pair_last_clc(pair, C, SMCR_CLC_PROPOSAL)->clc.proposal.peer_id,
			    config.peer_id, SMCR_PEER_ID_LEN);
	pair_free(pair);
	PROVES("PEER-3");
}

/* ---- several first contacts at once (RV-15) ---- */

static void parallel_connects_make_one_group(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c[50];
	for (int i = 0; i < 50; i++)
		c[i] = pair_connect(pair, C);
	pair_run(pair, 1000000);
	for (int i = 0; i < 50; i++)
		assert_true(pair_both_established(pair, c[i]));
	assert_int_equal(pair_num_qps(pair, S), 2);
	assert_int_equal(pair_num_qps(pair, C), 2);
	/* the server spreads connections over the links (LG-17) */
	assert_int_equal(pair_link_view(pair, S, 1).num_conns, 25);
	assert_int_equal(pair_link_view(pair, S, 2).num_conns, 25);
	/* in the deployed dialect the client takes the links that the server has chosen */
	assert_int_equal(pair_link_view(pair, C, 1).num_conns, 25);
	for (int i = 0; i < 50; i++)
		pair_exchange(pair, c[i]);
	for (int i = 0; i < 50; i++)
		pair_close(pair, c[i]);
	pair_free(pair);
	PROVES("RV-15 GEN-12 LG-17");
}

/** A client's Confirm and the LLC replies that it owes are held. */
struct slow {
	int from, to; /* first and last of its connections */
};

static enum pair_verdict hold_confirms(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	const struct slow *slow = arg;
	(void)pair;
	bool is_its = msg->is_clc && msg->conn >= slow->from && msg->conn <= slow->to;
	return is_its && msg->clc.type == SMCR_CLC_CONFIRM ? PAIR_HOLD : PAIR_PASS;
}

static void set_slow(struct pair *pair, struct slow *slow)
{
	pair->filter = hold_confirms;
	pair->filter_arg = slow;
}

/** A first contact that stalls holds other connections up for two seconds, whichever comes first,
 *  and later ones not at all. */
static void a_first_contact_that_stalls(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct slow slow = { 0, 0 };
	int c[4];
	set_slow(pair, &slow);
	c[0] = pair_connect(pair, C);
	pair_run(pair, 500000);
	for (int i = 1; i < 3; i++)
		c[i] = pair_connect(pair, C);
	pair_run(pair, 1499000);
	for (int i = 1; i < 3; i++)
		assert_int_equal(pair_end(pair, c[i], C)->established, 0);
	pair_run(pair, 1000); /* two seconds since the first contact began */
	for (int i = 1; i < 3; i++)
		assert_true(pair_both_established(pair, c[i]));
	c[3] = pair_connected(pair);
	for (int i = 1; i < 4; i++)
		pair_exchange(pair, c[i]);
	/* the first contact goes on after all */
	pair->filter = NULL;
	pair_pump(pair);
	assert_true(pair_both_established(pair, c[0]));
	for (int i = 0; i < 4; i++)
		pair_close(pair, c[i]);
	pair_free(pair);
	PROVES("RV-15 SEC-6");
}

/** The connection that then begins a first contact of its own may stall too: another two seconds,
 *  and no longer than its client may be kept waiting. */
static void held_proposals_do_not_wait_for_ever(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct slow slow = { 0, 3 };
	int c[5];
	set_slow(pair, &slow);
	for (int i = 0; i < 5; i++)
		c[i] = pair_connect(pair, C);
	pair_run(pair, 4500000);
	assert_int_equal(pair_num_qps(pair, S), 3); /* begun at once, after 2 s and after 4 s */
	for (int i = 0; i < 5; i++)
		assert_int_equal(pair_end(pair, c[i], C)->established, 0);
	pair_run(pair, 500000);
	for (int i = 3; i < 5; i++) {
		assert_int_equal(pair_end(pair, c[i], C)->fallback, 1);
		assert_int_equal(pair_end(pair, c[i], S)->fallback, 1);
	}
	pair->filter = NULL;
	pair_pump(pair);
	for (int i = 0; i < 3; i++)
		assert_true(pair_both_established(pair, c[i]));
	pair_free(pair);
	PROVES("RV-15");
}

/** Two first contacts stall, and a third connection waits for the second one. When the first one
 *  succeeds, the third connection joins its group. */
static void who_waits_goes_on_with_the_first_that_succeeds(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct slow slow = { 0, 1 };
	int c[3];
	set_slow(pair, &slow);
	for (int i = 0; i < 3; i++)
		c[i] = pair_connect(pair, C);
	pair_run(pair, 2500000);
	assert_int_equal(pair_num_qps(pair, S), 2); /* begun at once, and after 2 s */
	assert_int_equal(pair_end(pair, c[2], C)->established, 0);
	slow.from = 1;
	pair_pump(pair); /* no time passes */
	assert_true(pair_both_established(pair, c[0]));
	assert_true(pair_both_established(pair, c[2]));
	assert_int_equal(pair_end(pair, c[1], C)->established, 0);
	pair->filter = NULL;
	pair_pump(pair);
	for (int i = 0; i < 3; i++) {
		assert_true(pair_both_established(pair, c[i]));
		pair_exchange(pair, c[i]);
	}
	pair_free(pair);
	PROVES("RV-15");
}

/** A genuine peer that is slow loses nothing: however many connections wait, all get SMC-R, in few
 *  groups. */
static void a_slow_peer_keeps_smcr(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	struct slow slow = { 0, 29 };
	int c[30];
	set_slow(pair, &slow);
	for (int i = 0; i < 30; i++)
		c[i] = pair_connect(pair, C);
	pair_run(pair, 3500000);
	pair->filter = NULL;
	pair_pump(pair);
	for (int i = 0; i < 30; i++)
		assert_true(pair_both_established(pair, c[i]));
	assert_int_equal(pair_num_qps(pair, S), 2);
	pair_free(pair);
	PROVES("RV-15");
}

/** A host at another address that claims this peer's ID is waited for once, whatever it does after
 *  that. */
static void a_stranger_with_the_peer_id_stalls(void **state)
{
	(void)state;
	for (int v2 = 0; v2 < 2; v2++) {
		TRIES("v2 %d", v2);
		struct pair *pair = v2 ? pair_new_with("A", "A", 1) : pair_new_with("", "", 1);
		struct slow slow = { 0, 2 };
		set_slow(pair, &slow);
		pair->side[S].far = true;
		for (int i = 0; i < 3; i++)
			pair_connect(pair, C);
		pair_pump(pair);
		pair->side[S].far = false;
		int genuine[2];
		for (int i = 0; i < 2; i++)
			genuine[i] = pair_connect(pair, C);
		pair_run(pair, 1999000);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_end(pair, genuine[i], C)->established, 0);
		pair_run(pair, 1000);
		for (int i = 0; i < 2; i++)
			assert_true(pair_both_established(pair, genuine[i]));
		assert_true(pair_both_established(pair, pair_connected(pair)));
		pair->filter = NULL;
		pair_free(pair);
	}
	PROVES("RV-15 SEC-6");
}

static void held_proposals_after_a_failed_first_contact(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c[3];
	/* the first contact fails for a reason of its own: the next connection tries again */
	pair->side[C].fail_qp_create = 1;
	for (int i = 0; i < 3; i++)
		c[i] = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c[0], C)->fallback, 1);
	assert_int_equal(pair_end(pair, c[0], S)->fallback, 1);
	assert_true(pair_both_established(pair, c[1]));
	assert_true(pair_both_established(pair, c[2]));
	assert_int_equal(pair_num_qps(pair, S), 1);
	pair_close(pair, c[1]);
	pair_close(pair, c[2]);
	pair_free(pair);
	/* the path is dead: no other connection needs to find that out */
	pair = pair_new(NULL, NULL, 1, 1);
	pair->side[S].blocked = true;
	for (int i = 0; i < 3; i++)
		c[i] = pair_connect(pair, C);
	pair_run(pair, 2300000);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pair_end(pair, c[i], C)->fallback, 1);
		assert_int_equal(pair_end(pair, c[i], S)->fallback, 1);
		assert_true(pair_end(pair, c[i], S)->last.path_dead);
	}
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_rnic_each),
		cmocka_unit_test(two_rnics_each),
		cmocka_unit_test(server_has_two),
		cmocka_unit_test(client_has_two),
		cmocka_unit_test(rfc_dialect),
		cmocka_unit_test(credentials),
		cmocka_unit_test(client_connects_its_queue_pair),
		cmocka_unit_test(confirm_link_tells_of_its_sender),
		cmocka_unit_test(ipv6_prefixes),
		cmocka_unit_test(ipv6_prefixes_that_cannot_be),
		cmocka_unit_test(ipv6),
		cmocka_unit_test(other_subnet_is_declined),
		cmocka_unit_test(other_vlan_is_declined),
		cmocka_unit_test(version_two),
		cmocka_unit_test(nothing_before_accept),
		cmocka_unit_test(gates),
		cmocka_unit_test(gates_of_one_link),
		cmocka_unit_test(second_link_fails),
		cmocka_unit_test(second_path_is_dead),
		cmocka_unit_test(client_loses_second_rnic),
		cmocka_unit_test(a_new_instance_is_a_new_peer),
		cmocka_unit_test(peer_id_survives_its_rnic),
		cmocka_unit_test(parallel_connects_make_one_group),
		cmocka_unit_test(a_first_contact_that_stalls),
		cmocka_unit_test(held_proposals_do_not_wait_for_ever),
		cmocka_unit_test(who_waits_goes_on_with_the_first_that_succeeds),
		cmocka_unit_test(a_slow_peer_keeps_smcr),
		cmocka_unit_test(a_stranger_with_the_peer_id_stalls),
		cmocka_unit_test(held_proposals_after_a_failed_first_contact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
