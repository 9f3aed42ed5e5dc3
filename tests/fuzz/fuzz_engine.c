/* SPDX-License-Identifier: MIT */
/*
 * Two engines that talk to each other while the input forges CLC, LLC and CDC between them, cuts
 * paths, removes RNICs, has them complete late or not at all, and lets time pass. Whatever comes,
 * the invariants of both engines hold after every step (the engine pair checks them), nothing is
 * read or written outside a buffer, and nothing is left when the engines are freed (SEC-6).
 */
#include <string.h>

#include "daemon/smcr/internal.h"
#include "proto/smcr/eid.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/enginepair.h"

#define MAX_STEPS 96
#define MAX_CONNS 10

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t next(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static size_t take(struct input *in, uint8_t *buf, size_t len)
{
	len = len < in->left ? len : in->left;
	memcpy(buf, in->at, len);
	in->at += len;
	in->left -= len;
	return len;
}

/** Change some of the bytes. */
static void mutate(struct input *in, uint8_t *buf, size_t len)
{
	for (unsigned int n = next(in) % 4; n > 0; n--) {
		uint8_t offset = next(in);
		buf[offset % len] ^= next(in);
	}
}

static struct smcr_link *any_link(struct pair *pair, int side, uint8_t which)
{
	struct smcr_link *links[16];
	unsigned int n = 0;
	struct smcr_lgr *lgr;
	DL_FOREACH (pair->side[side].engine->lgrs, lgr)
		for (unsigned int i = 0; i < SMCR_LINK_SLOTS && n < 16; i++)
			if (lgr->links[i])
				links[n++] = lgr->links[i];
	return n ? links[which % n] : NULL;
}

/** Deliver a SEND to one side that the other has not posted. */
static void receive(struct pair *pair, int side, uint8_t which, const uint8_t *data, size_t len)
{
	const struct smcr_link *link = any_link(pair, side, which);
	if (!link)
		return;
	uint8_t *exact = malloc(len ? len : 1);
	must(exact != NULL);
	memcpy(exact, data, len);
	smcr_engine_recv(pair->side[side].engine, link->ref, exact, len);
	free(exact);
}

static void forge_bytes(struct pair *pair, struct input *in, int side)
{
	uint8_t buf[128], which = next(in);
	size_t len = next(in) % 4 ? SMCR_LLC_LEN : next(in) % sizeof(buf);
	memset(buf, 0, sizeof(buf));
	(void)take(in, buf,
		   len < 8 ? len : 8); /* the rest stays zero, but for what mutate() does */
	mutate(in, buf, sizeof(buf));
	receive(pair, side, which, buf, len);
}

/** Encode in either version; in version 2 with RTokens that are valid or not. */
static int encode_llc(struct input *in, const struct smcr_llc_msg *msg, uint8_t *buf, size_t len)
{
	struct smcr_llc_rtokens rtokens = { .count = next(in) % 5 };
	if (rtokens.count == 0)
		return smcr_llc_encode(msg, SMCR_DIALECT_DEPLOYED, buf, len);
	for (unsigned int i = 0; i < rtokens.count; i++) {
		rtokens.pair[i].ref_rkey = 0x4000u + next(in) + (next(in) % 2 ? 0x10000u : 0);
		rtokens.pair[i].new_rkey = next(in);
		rtokens.pair[i].new_vaddr = next(in);
	}
	return smcr_llc_encode_v2(msg, &rtokens, buf, len);
}

/** Send a message again that was sent before on a link or on TCP, a little changed. */
static void replay(struct pair *pair, struct input *in)
{
	uint8_t buf[SMCR_LLC_V2_SEND_MAX];
	if (!pair->log_len)
		return;
	const struct pair_msg msg = pair->log[(next(in) << 8 | next(in)) % pair->log_len];
	int side = next(in) % 2;
	if (msg.is_clc) {
		int len = smcr_clc_encode(&msg.clc, buf, sizeof(buf));
		if (len < 0)
			return;
		mutate(in, buf, (size_t)len);
		pair_inject_clc_raw(pair, next(in) % pair->num_conns, side, buf, (size_t)len);
		return;
	}
	int len = msg.is_cdc ? smcr_cdc_encode(&msg.cdc, buf, sizeof(buf))
			     : encode_llc(in, &msg.llc, buf, sizeof(buf));
	if (len < SMCR_LLC_LEN)
		return;
	mutate(in, buf, (size_t)len);
	receive(pair, side, next(in), buf, (size_t)len);
}

/** Forge a CDC with a valid alert token and any contents. */
static void forge_cdc(struct pair *pair, struct input *in, const struct pair_end *end)
{
	uint8_t buf[SMCR_CDC_LEN];
	if (!end->smc || !end->smc->token || !end->smc->lgr)
		return;
	struct smcr_cdc cdc = { .alert_token = end->smc->token };
	cdc.seq = next(in);
	cdc.producer.wrap = next(in) % 3;
	cdc.producer.offset = (uint32_t)next(in) << next(in) % 24;
	cdc.consumer.wrap = next(in) % 3;
	cdc.consumer.offset = (uint32_t)next(in) << next(in) % 24;
	cdc.prod_flags = next(in);
	cdc.conn_flags = next(in);
	must(smcr_cdc_encode(&cdc, buf, sizeof(buf)) == SMCR_CDC_LEN);
	receive(pair, end->side, next(in), buf, sizeof(buf));
}

static void forge_clc(struct pair *pair, struct input *in, int conn, int side)
{
	uint8_t buf[200];
	size_t len = take(in, buf, next(in) % sizeof(buf));
	if (len)
		pair_inject_clc_raw(pair, conn, side, buf, len);
}

static void use_data(struct pair *pair, struct input *in, const struct pair_end *end)
{
	struct iovec iov[2];
	(void)pair;
	if (!end->smc || end->smc->phase != SMCR_PHASE_OPEN || end->reset)
		return;
	if (next(in) % 2) {
		int n = smcr_conn_tx_space(end->smc, iov);
		size_t len = (size_t)next(in) << next(in) % 8;
		if (!n)
			return;
		len = len < iov[0].iov_len ? len : iov[0].iov_len;
		memset(iov[0].iov_base, 0x5A, len);
		smcr_conn_tx_commit(end->smc, len);
	} else {
		int n = smcr_conn_rx_data(end->smc, iov);
		if (n)
			smcr_conn_rx_consume(end->smc, iov[0].iov_len);
	}
}

static void end_conn(struct input *in, const struct pair_end *end)
{
	if (!end->smc)
		return;
	bool open = end->smc->phase == SMCR_PHASE_OPEN && !end->reset;
	switch (next(in) % 6) {
	case 0: smcr_conn_tcp_event(end->smc, SMCR_TCP_RESET); break;
	case 1: smcr_conn_tcp_event(end->smc, SMCR_TCP_FIN); break;
	case 2: smcr_conn_give_up(end->smc, SMCR_REASON_INTERNAL); break;
	case 3:
		if (open)
			smcr_conn_shutdown(end->smc);
		break;
	case 4:
		if (open && !end->smc->app_closed)
			smcr_conn_close(end->smc, next(in) % 2);
		break;
	case 5:
		if (open && !end->smc->app_closed)
			smcr_conn_abort(end->smc);
		break;
	}
}

static void change_device(struct pair *pair, struct input *in, int side)
{
	size_t n = next(in) % 2;
	struct smcr_device_info info = pair_device(side, n);
	if (!smcr_engine_device_update(pair->side[side].engine, &info)) {
		pair_remove_device(pair, side, info.id);
		return;
	}
	pair_add_device(pair, side, &info);
}

/* An operator gives a command, whether or not it makes sense. */
static void command(struct pair *pair, struct input *in, int side)
{
	struct smcr_engine *engine = pair->side[side].engine;
	const struct smcr_command command = {
		.type = (enum smcr_command_type)(next(in) % (SMCR_COMMAND_FAILOVER + 1)),
		.lgr = engine->lgrs ? engine->lgrs->id : next(in),
		.link = next(in) % 5,
		.to = next(in) % 5,
		.orderly = next(in) % 2,
	};
	uint64_t id;
	if (smcr_engine_command(engine, &command, &id) == 0 && next(in) % 4 == 0)
		smcr_engine_command_forget(engine, id);
}

/* Let one of the next calls to the RNIC fail. */
static void fail_call(struct pair_side *side, struct input *in)
{
	int *const calls[] = { &side->fail_qp_create, &side->fail_qp_connect,
			       &side->fail_qp_start,  &side->fail_mr_register,
			       &side->fail_mem_alloc, &side->fail_post };
	*calls[next(in) % 6] = 1 + next(in) % 4;
}

/* RNICs complete late, in another order, or with errors. The daemon hangs while time passes, and
 * runs its timers only after everything else has arrived. Operators give commands. */
static void disturb(struct pair *pair, struct input *in, int which)
{
	struct pair_side *side = &pair->side[which];
	const struct smcr_link *link;
	switch (next(in) % 10) {
	case 0:
		side->hold_completions = true;
		side->hold_link = next(in) % 4;
		break;
	case 1: side->hold_completions = false; break;
	case 2:
		link = any_link(pair, which, next(in));
		if (link)
			smcr_engine_qp_failed(side->engine, link->ref, "made to fail");
		break;
	case 3: fail_call(side, in); break;
	case 4: side->hung = next(in) % 2; break;
	case 5: side->most = next(in) % 2 ? 1024 : 0; break;
	case 6: side->keep_memory = next(in) % 2; break;
	case 7: command(pair, in, which); break;
	case 8:
		(void)smcr_engine_device_drain(side->engine, pair_device(which, next(in) % 2).id,
					       next(in) % 2);
		break;
	case 9: /* time passes without timers: later they run long after their time */
		pair->now += (uint64_t)next(in) << next(in) % 20;
		smcr_engine_set_time(side->engine, pair->now);
		smcr_engine_run(side->engine, pair->now);
		break;
	}
}

/* End what disturb() has begun: nothing is held back any more. */
static void calm(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		pair->side[i].hold_completions = pair->side[i].hung = false;
		pair->side[i].fail_post = 0;
	}
}

/** Carry out one step of the input. @return false: stop */
static bool step(struct pair *pair, struct input *in)
{
	int side = next(in) % 2, conn = pair->num_conns ? next(in) % pair->num_conns : 0;
	struct pair_end *end = &pair->conns[conn].end[side];
	uint8_t what;
	switch (next(in) % 16) {
	case 0:
	case 1:
		if (pair->num_conns < MAX_CONNS)
			(void)pair_connect(pair, side);
		break;
	case 2: pair_pump(pair); break;
	case 3: pair_run(pair, (uint64_t)next(in) * 40000); break;
	case 4: forge_bytes(pair, in, side); break;
	case 5:
	case 6:
	case 7:
		if (pair->num_conns)
			replay(pair, in);
		break;
	case 8: forge_cdc(pair, in, end); break;
	case 9:
		if (pair->num_conns)
			forge_clc(pair, in, conn, side);
		break;
	case 10: use_data(pair, in, end); break;
	case 11: end_conn(in, end); break;
	case 12: change_device(pair, in, side); break;
	case 13: pair->side[side].blocked = next(in) % 2; break;
	case 14:
		for (unsigned int n = next(in); n > 0 && pair_step(pair); n--)
			;
		break;
	case 15:
		what = next(in);
		if (!what)
			smcr_engine_shutdown(pair->side[side].engine);
		else if (what >= 64)
			disturb(pair, in, side);
		else if (end->smc && pair->side[side].engine->lgrs)
			(void)smcr_engine_test_link(pair->side[side].engine,
						    pair->side[side].engine->lgrs->id, 1);
		break;
	}
	return in->left > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct smcr_config config[2] = { pair_config(0), pair_config(1) };
	uint8_t options = next(&in);
	for (int i = 0; i < 2; i++) {
		if (options & 1 << i)
			config[i].dialect = SMCR_DIALECT_FORCE_RFC;
		config[i].elements_per_rmb = 1 + (options >> 2) % 4;
		if (options & 0x40) /* with a UEID: version 2 too */
			must(!smcr_ueid_parse("SMCLAB", config[i].ueids[config[i].num_ueids++]));
	}
	struct pair *pair =
		pair_new(&config[0], &config[1], 1 + (options >> 4) % 2, 1 + (options >> 5) % 2);
	pair->tolerant = true;
	(void)pair_connect(pair, PAIR_CLIENT);
	if (options & 0x80)
		pair_pump(pair);
	for (int steps = 0; steps < MAX_STEPS && step(pair, &in); steps++)
		;
	calm(pair);
	pair_run(pair, 1000000);
	pair_free(pair);
	return 0;
}
