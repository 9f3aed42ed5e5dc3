/* SPDX-License-Identifier: MIT */
/* Rendezvous: the element and the send buffer that a connection gets, and how large they are. */
#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"

uint8_t smcr_clc_element_bsize(const struct smcr_conn *conn)
{
	return conn->params.rcvbuf ? smcr_bsize_holding(conn->params.rcvbuf)
				   : smcr_bsize_choose(conn->engine, conn->params.expected.rcv);
}

/** Size code of the send buffer: as the program has set it, else as the administrator has, else as
 * the connection is expected to need. */
static uint8_t sndbuf_bsize(const struct smcr_conn *conn)
{
	uint32_t want = conn->params.sndbuf ? conn->params.sndbuf : conn->engine->config.sndbuf;
	uint8_t bsize = 0;
	if (!want)
		return smcr_bsize_choose(conn->engine, conn->params.expected.snd);
	while (bsize < SMCR_BSIZE_MAX && smcr_bsize_bytes(bsize) < want)
		bsize++;
	return bsize;
}

/** If the connection's user holds much, the size that the program has set gets it no more than
 * others get (account.c). */
static uint8_t at_most_as_others(const struct smcr_conn *conn, uint8_t bsize)
{
	uint8_t most = smcr_bsize_choose(conn->engine, 0);
	return smcr_account_is_large(conn) && bsize > most ? most : bsize;
}

/** Take an element of code `bsize` up to code `most`. If there is none, add a slab, with elements
 * down to code `least` if memory is short. */
static int take_or_add(struct smcr_conn *conn, bool is_rmb, uint8_t bsize, uint8_t most,
		       uint8_t least, struct smcr_element *ret)
{
	struct smcr_lgr *lgr = conn->lgr;
	int rc = smcr_element_take(lgr, is_rmb, bsize, most, ret);
	if (rc != -ENOENT)
		return rc;
	struct smcr_slab *slab;
	if (!is_rmb && conn->params.sndbuf)
		bsize = at_most_as_others(conn, bsize);
	rc = smcr_account_is_small(conn) ? smcr_slab_add_last(lgr, is_rmb, bsize, least, &slab)
					 : smcr_slab_add(lgr, is_rmb, bsize, least, &slab);
	if (rc)
		return rc;
	return smcr_element_take(lgr, is_rmb, slab->bsize, most, ret);
}

/** RMB-6: the element may not be smaller than the program has set. */
static int take_element(struct smcr_conn *conn)
{
	uint8_t bsize = smcr_clc_element_bsize(conn);
	uint8_t least = conn->params.rcvbuf ? bsize : conn->engine->config.bsize_min;
	if (at_most_as_others(conn, least) < least)
		return -ENOSPC;
	return take_or_add(conn, true, bsize, SMCR_BSIZE_MAX, least, &conn->rx.element);
}

/** SOCK-2: a program that has set a size does not get more if memory of that size is free, as it
 * may want to have few bytes under way. It gets less if memory is short. */
static int take_send_buffer(struct smcr_conn *conn, uint8_t bsize)
{
	uint8_t least = conn->engine->config.bsize_min;
	uint8_t most = conn->params.sndbuf ? bsize : SMCR_BSIZE_MAX;
	int rc = take_or_add(conn, false, bsize, most, least, &conn->tx.buf);
	if (rc == -ENOMEM &&
	    !smcr_element_take(conn->lgr, false, bsize, SMCR_BSIZE_MAX, &conn->tx.buf))
		rc = 0;
	return rc;
}

static void count_buffer(struct smcr_flow_stats *stats, const struct smcr_element *got,
			 uint8_t want)
{
	stats->buffers[got->slab->bsize]++;
	stats->downgrades += got->slab->bsize < want;
}

/* Count the sizes that the connection got, and whether they are smaller than with all memory
 * free. */
static void count_memory(const struct smcr_conn *conn)
{
	const struct smcr_conn_params *params = &conn->params;
	struct smcr_engine *engine = conn->engine;
	uint8_t rcv = params->rcvbuf ? smcr_bsize_holding(params->rcvbuf)
				     : smcr_bsize_plenty(engine, params->expected.rcv);
	uint8_t snd = params->sndbuf || engine->config.sndbuf
			      ? sndbuf_bsize(conn)
			      : smcr_bsize_plenty(engine, params->expected.snd);
	count_buffer(&engine->stats.rx, &conn->rx.element, rcv);
	count_buffer(&engine->stats.tx, &conn->tx.buf, snd);
}

int smcr_clc_take_memory(struct smcr_conn *conn)
{
	int rc = smcr_account_open(conn);
	if (rc)
		return rc;
	uint8_t sndbuf = sndbuf_bsize(conn); /* before the element takes memory */
	rc = smcr_account_allows(conn) ? take_element(conn) : -ENOSPC;
	if (!rc)
		rc = take_send_buffer(conn, sndbuf);
	smcr_account_settle(conn);
	if (rc) {
		smcr_account_refused(conn);
		return rc;
	}
	smcr_rx_prepare(conn);
	count_memory(conn);
	return 0;
}

enum smcr_reason smcr_clc_memory_reason(const struct smcr_conn *conn, int rc)
{
	if (rc == -ENOMEM || rc == -ENOSPC)
		return SMCR_REASON_RMBE_EXHAUSTED;
	smcr_log_peer(conn->engine, &conn->params.peer, LOG_WARNING, "buffers",
		      "a connection gets no buffers: %s", strerror(-rc));
	return SMCR_REASON_INTERNAL;
}
