/* SPDX-License-Identifier: MIT */
/*
 * smcrd that lies: the whole daemon (Makefile), but between it and its RNICs some requests are
 * changed, or replaced by messages that it never made. Its handshakes are genuine, so its peers
 * trust it. Its WRITEs go anywhere in the memory of its peers' rkeys, and beyond.
 *
 *   LIES_SEED     seed of the random numbers
 *   LIES_ONE_IN   one request in so many is a lie (50)
 *   LIES_AFTER    first requests of a queue pair that are not changed (20), so that first contact
 *                 and the second link succeed
 *
 * At its end it prints "lies: N cdc, N llc, N write, N made up" on standard error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rnic/rnic.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/llc.h"
#include "tests/lib/random.h"

#define QUEUE_PAIRS 64
#define LIST_MAX    160 /* the fabric's outbox has 128 */
#define BEYOND      (1 << 20)

int __real_rnic_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);
int __wrap_rnic_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);

static struct {
	bool started;
	struct random random;
	uint32_t one_in, after;
	unsigned long cdc, llc, write, made_up;
} lies;

/* How many requests each queue pair has posted, by its number, which is not used again soon. */
static struct {
	uint32_t qpn, posted;
} said[QUEUE_PAIRS];

static uint32_t below(uint32_t limit)
{
	return random_below(&lies.random, limit);
}

static void tell(void)
{
	fprintf(stderr, "lies: %lu cdc, %lu llc, %lu write, %lu made up\n", lies.cdc, lies.llc,
		lies.write, lies.made_up);
}

static uint32_t setting(const char *name, uint32_t preset)
{
	const char *text = getenv(name);
	return text ? (uint32_t)strtoul(text, NULL, 0) : preset;
}

static void start(void)
{
	lies.started = true;
	lies.random.state = (uint64_t)setting("LIES_SEED", 1) * 2 + 1;
	(void)random_u64(&lies.random);
	lies.one_in = setting("LIES_ONE_IN", 50);
	lies.after = setting("LIES_AFTER", 20);
	atexit(tell);
}

static bool is_established(const struct rnic_qp *qp, size_t n)
{
	uint32_t qpn = rnic_qp_num(qp);
	size_t i = qpn % QUEUE_PAIRS;
	if (said[i].qpn != qpn) {
		said[i].qpn = qpn;
		said[i].posted = 0;
	}
	said[i].posted += (uint32_t)n;
	return said[i].posted > lies.after;
}

/* ---- the lies */

static void flip(uint8_t *bytes, size_t len)
{
	for (uint32_t n = 1 + below(6); n > 0; n--)
		bytes[below((uint32_t)len)] ^= (uint8_t)(1 + below(255));
}

static void lie_about_cursor(struct smcr_cdc_cursor *cursor)
{
	switch (below(5)) {
	case 0: cursor->offset += 1 + below(1000); break;
	case 1: cursor->offset -= 1 + below(1000); break;
	case 2: cursor->wrap += (uint16_t)(1 + below(3)); break;
	case 3: cursor->offset = (uint32_t)random_u64(&lies.random); break;
	default:
		cursor->wrap = (uint16_t)random_u64(&lies.random);
		cursor->offset = below(1 << 20);
		break;
	}
}

static void lie_in_cdc(uint8_t msg[SMCR_CDC_LEN])
{
	struct smcr_cdc cdc;
	lies.cdc++;
	if (smcr_cdc_decode(msg, SMCR_CDC_LEN, &cdc) < 0)
		return;
	switch (below(8)) {
	case 0:
	case 1: lie_about_cursor(&cdc.producer); break;
	case 2:
	case 3: lie_about_cursor(&cdc.consumer); break;
	case 4: cdc.alert_token ^= 1u << below(32); break;
	case 5: cdc.seq = (uint16_t)random_u64(&lies.random); break;
	case 6: cdc.prod_flags ^= (uint8_t)(1u << below(8)); break;
	default: cdc.conn_flags ^= (uint8_t)(1u << below(8)); break;
	}
	smcr_cdc_encode(&cdc, msg, SMCR_CDC_LEN);
	if (below(8) == 0)
		flip(msg, SMCR_CDC_LEN);
}

/* Make a message of any type, of either version, in a valid form or nearly so. */
static void make_up_llc(uint8_t msg[SMCR_LLC_LEN])
{
	static const uint8_t types[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x80, 0x3F };
	lies.made_up++;
	memset(msg, 0, SMCR_LLC_LEN);
	random_bytes(&lies.random, msg + 2, below(SMCR_LLC_LEN - 2));
	msg[0] = types[below(sizeof(types))] | (below(2) ? SMCR_LLC_V2_TYPE : 0);
	msg[1] = SMCR_LLC_LEN;
	msg[3] = (uint8_t)(below(3) ? below(2) * 0x80 : below(256)); /* flags: often "reply" */
	msg[4 + below(4)] = (uint8_t)below(4);                       /* often a link's number */
}

/* Let the WRITE go anywhere in the memory of its rkey, or beyond. */
static void lie_in_write(struct rnic_send_wr *wr)
{
	lies.write++;
	switch (below(4)) {
	case 0: wr->remote_addr += below(BEYOND); break;
	case 1: wr->remote_addr -= below(BEYOND); break;
	case 2: wr->rkey ^= below(8) ? 0 : 1u << below(32); break;
	default:
		wr->remote_addr = (wr->remote_addr & ~(uint64_t)(BEYOND - 1)) + below(BEYOND);
		break;
	}
}

/* ---- where requests are changed */

static bool is_message(const struct rnic_send_wr *wr)
{
	return wr->opcode == RNIC_WR_SEND && wr->flags & RNIC_SEND_INLINE && wr->num_sge == 1 &&
	       wr->sge[0].length == SMCR_LLC_LEN;
}

/** @param room  for the changed message; the RNIC copies inline requests when they are posted */
static void lie(struct rnic_send_wr *wr, uint8_t room[SMCR_LLC_LEN])
{
	if (wr->opcode == RNIC_WR_RDMA_WRITE) {
		lie_in_write(wr);
		return;
	}
	if (!is_message(wr))
		return;
	memcpy(room, wr->sge[0].addr, SMCR_LLC_LEN);
	wr->sge[0].addr = room;
	if (below(4) == 0) {
		make_up_llc(room);
	} else if (room[0] == SMCR_CDC_TYPE) {
		lie_in_cdc(room);
	} else {
		lies.llc++;
		flip(room, SMCR_LLC_LEN);
	}
}

int __wrap_rnic_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n)
{
	static struct rnic_send_wr list[LIST_MAX];
	static uint8_t room[LIST_MAX][SMCR_LLC_LEN];
	if (!lies.started)
		start();
	if (!is_established(qp, n) || n > LIST_MAX)
		return __real_rnic_post_send(qp, wr, n);
	memcpy(list, wr, n * sizeof(*wr));
	for (size_t i = 0; i < n; i++)
		if (below(lies.one_in) == 0)
			lie(&list[i], room[i]);
	return __real_rnic_post_send(qp, list, n);
}
