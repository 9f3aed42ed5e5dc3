/* SPDX-License-Identifier: MIT */
/*
 * Keepalive (RFC 7609 4.5.3): idle connections whose program wants it, and idle links, are probed
 * with TEST LINK. Traffic only notes the time and restarts no timer: a timer that fires looks
 * whether there was traffic.
 */
#include "daemon/smcr/llc_test_link.h"

/** Has there been no traffic for `interval`? If there has, *ret_left is how long until that may be
 * so. */
static bool idle(const struct smcr_engine *engine, uint64_t last_active, uint64_t interval,
		 uint64_t *ret_left)
{
	uint64_t since = engine->now - last_active;
	if (since < interval)
		*ret_left = interval - since;
	return since >= interval;
}

/* ---- connections (TEST-3, TEST-4) ---- */

/** TEST-4: probe only a link that has been idle as long as the connection; one probe serves all
 * connections of the link.
 * @param wait  time until the connection is checked again; shortened if the link may be idle
 *              before */
static void probe(const struct smcr_conn *conn, struct smcr_link *link, uint64_t *wait)
{
	uint64_t left = *wait;
	if (!link || !smcr_link_works(link))
		return;
	if (idle(conn->engine, link->last_active, conn->keepalive_interval, &left))
		smcr_llc_test_link(link);
	else if (left < *wait)
		*wait = left;
}

static void on_conn_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_conn *conn = arg;
	uint64_t wait = conn->keepalive_interval;
	if (idle(engine, conn->last_active, conn->keepalive_interval, &wait)) {
		probe(conn, conn->tx.link, &wait);
		if (conn->rx.last_link != conn->tx.link)
			probe(conn, conn->rx.last_link, &wait); /* TEST-8 */
	}
	smcr_timer_start(engine, &conn->keepalive, wait);
}

void smcr_keepalive_conn_init(struct smcr_conn *conn)
{
	smcr_timer_init(&conn->keepalive, on_conn_timer, conn);
	conn->last_active = conn->engine->now;
}

void smcr_conn_keepalive(struct smcr_conn *conn, uint64_t interval)
{
	if (interval == conn->keepalive_interval)
		return;
	conn->keepalive_interval = interval;
	if (interval)
		smcr_timer_start(conn->engine, &conn->keepalive, interval);
	else
		smcr_timer_stop(conn->engine, &conn->keepalive);
}

/* ---- links ---- */

static void on_link_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_link *link = arg;
	const uint64_t interval = engine->config.test_link_interval;
	uint64_t wait = interval;
	if (link->state != SMCR_LINK_ACTIVE)
		return;
	if (idle(engine, link->last_active, interval, &wait) || link->probe_due)
		smcr_llc_test_link(link);
	link->probe_due = false;
	if (interval != UINT64_MAX)
		smcr_timer_start(engine, &link->idle_timer, wait);
}

void smcr_keepalive_link_init(struct smcr_link *link)
{
	smcr_timer_init(&link->idle_timer, on_link_timer, link);
	link->last_active = link->lgr->engine->now;
}

void smcr_keepalive_link_probe(struct smcr_link *link)
{
	link->probe_due = true;
	smcr_timer_start(link->lgr->engine, &link->idle_timer, 0);
}

void smcr_keepalive_link_stop(struct smcr_link *link)
{
	smcr_timer_stop(link->lgr->engine, &link->idle_timer);
}

void smcr_keepalive_link_start(struct smcr_link *link)
{
	struct smcr_engine *engine = link->lgr->engine;
	uint64_t interval = engine->config.test_link_interval;
	if (interval != UINT64_MAX && !smcr_timer_running(&link->idle_timer))
		smcr_timer_start(engine, &link->idle_timer, interval);
}
