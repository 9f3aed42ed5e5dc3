/* SPDX-License-Identifier: MIT */
/* Link groups: how they begin and end, their links, their idle time (RFC 7609 2.2, 3.5.4). */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"
#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/llc_test_link.h"

void smcr_lgr_probe(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->state == SMCR_LINK_ACTIVE)
			smcr_llc_test_link(lgr->links[i]);
}

/** Test the links: nothing else would show a client that its server has ended without telling
 * (TERM-2). */
static void idle_client(struct smcr_lgr *lgr)
{
	smcr_lgr_probe(lgr);
	smcr_timer_start(lgr->engine, &lgr->idle, lgr->engine->config.lgr_idle_timeout);
}

/** LG-16: no connection has used the group for a long time. Only the server may end it (DELL-8). */
static void on_idle(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	if (lgr->num_conns)
		return;
	if (lgr->role == SMCR_ROLE_CLIENT) {
		idle_client(lgr);
		return;
	}
	smcr_event_lgr_why(lgr, "nobody has used it for %u s",
			   (unsigned int)(engine->config.lgr_idle_timeout / 1000000));
	smcr_llc_delete_all(lgr, SMCR_LLC_DEL_INACTIVITY, ECONNRESET);
}

/* FO-13, GEN-5: established connections are reset, none goes back to IP. */
void smcr_lgr_end_conns(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn, *next;
	unsigned int reset = 0;
	DL_FOREACH_SAFE2 (lgr->conns, conn, next, lgr_next) {
		if (conn->phase == SMCR_PHASE_RENDEZVOUS) {
			smcr_clc_lgr_lost(conn);
			continue;
		}
		reset += smcr_close_kill(conn, lgr->end_error);
	}
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_LGR_DOWN, .num_conns = reset });
}

static void on_end_work(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	(void)engine;
	smcr_lgr_end_conns(lgr);
	struct smcr_conn *held = lgr->fc.held;
	bool path_dead = lgr->path_dead;
	lgr->fc.held = NULL;
	smcr_lgr_free(lgr);
	smcr_clc_release_held(held, path_dead);
}

/* LG-1: role, peer and VLAN (LG-2) belong to the group, so they are the same for all its links. */
int smcr_lgr_new(struct smcr_engine *engine, enum smcr_role role,
		 const uint8_t peer_id[SMCR_PEER_ID_LEN], uint16_t vlan,
		 const struct smcr_prefix *prefix, struct smcr_lgr **ret_lgr)
{
	struct smcr_lgr *lgr = calloc(1, sizeof(*lgr));
	if (!lgr)
		return -ENOMEM;
	lgr->engine = engine;
	lgr->role = role;
	lgr->state = SMCR_LGR_FIRST_CONTACT;
	lgr->vlan = vlan;
	lgr->prefix = *prefix;
	lgr->dialect_policy = engine->config.dialect;
	lgr->version = SMCR_CLC_VERSION_1;
	lgr->max_conns = UINT8_MAX;
	memcpy(lgr->peer_id, peer_id, SMCR_PEER_ID_LEN);
	smcr_timer_init(&lgr->idle, on_idle, lgr);
	smcr_timer_init(&lgr->end_work, on_end_work, lgr);
	int rc = smcr_llc_init(lgr);
	if (rc) {
		free(lgr);
		return rc;
	}
	lgr->id = engine->next_lgr_id++;
	lgr->idle_since = engine->now;
	DL_APPEND(engine->lgrs, lgr);
	*ret_lgr = lgr;
	return 0;
}

void smcr_lgr_end(struct smcr_lgr *lgr, int error)
{
	if (smcr_timer_running(&lgr->end_work))
		return;
	lgr->state = SMCR_LGR_TERMINATING;
	lgr->end_error = error;
	smcr_timer_start(lgr->engine, &lgr->end_work, 0);
}

void smcr_lgr_free(struct smcr_lgr *lgr)
{
	struct smcr_engine *engine = lgr->engine;
	assert(!lgr->conns);
	lgr->state = SMCR_LGR_TERMINATING;
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_LGR_GONE });
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			smcr_link_free(lgr->links[i]);
	while (lgr->rmbs)
		smcr_slab_free(lgr->rmbs);
	while (lgr->sndbufs)
		smcr_slab_free(lgr->sndbufs);
	smcr_peer_rmb_free_all(lgr);
	smcr_llc_free(lgr);
	smcr_timer_stop(engine, &lgr->idle);
	smcr_timer_stop(engine, &lgr->end_work);
	DL_DELETE(engine->lgrs, lgr);
	free(lgr);
}

struct smcr_link *smcr_lgr_link_by_number(const struct smcr_lgr *lgr, uint8_t number)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->number == number)
			return lgr->links[i];
	return NULL;
}

struct smcr_link *smcr_lgr_any_link(const struct smcr_lgr *lgr, const struct smcr_link *except)
{
	struct smcr_link *going = NULL;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || link == except || !smcr_link_works(link))
			continue;
		if (!smcr_deletion_begun(&link->deletion))
			return link;
		if (!going)
			going = link;
	}
	return going;
}

struct smcr_link *smcr_lgr_least_loaded(const struct smcr_lgr *lgr)
{
	struct smcr_link *best = NULL;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && smcr_link_works(link) && smcr_failover_is_better(link, best))
			best = link;
	}
	return best;
}

void smcr_lgr_add_conn(struct smcr_lgr *lgr, struct smcr_conn *conn)
{
	assert(!conn->lgr);
	conn->lgr = lgr;
	lgr->num_conns++;
	DL_APPEND2(lgr->conns, conn, lgr_prev, lgr_next);
	smcr_timer_stop(lgr->engine, &lgr->idle);
}

void smcr_lgr_remove_conn(struct smcr_conn *conn)
{
	struct smcr_lgr *lgr = conn->lgr;
	DL_DELETE2(lgr->conns, conn, lgr_prev, lgr_next);
	conn->lgr = NULL;
	lgr->num_conns--;
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_CONN_MOVED });
	if (lgr->num_conns)
		return;
	lgr->idle_since = lgr->engine->now;
	smcr_timer_start(lgr->engine, &lgr->idle, lgr->engine->config.lgr_idle_timeout);
}

/** By GID, or by MAC if there is one. */
bool smcr_same_rnic(const uint8_t *gid_a, const uint8_t *mac_a, const uint8_t *gid_b,
		    const uint8_t *mac_b)
{
	static const uint8_t no_mac[SMCR_MAC_LEN];
	return !memcmp(gid_a, gid_b, SMCR_GID_LEN) ||
	       (!memcmp(mac_a, mac_b, SMCR_MAC_LEN) && memcmp(mac_a, no_mac, SMCR_MAC_LEN));
}

const char *smcr_lgr_type_name(const struct smcr_lgr *lgr)
{
	const struct smcr_link *first = NULL;
	bool local_shared = false, peer_shared = false, more = false;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		if (!link || link->state != SMCR_LINK_ACTIVE)
			continue;
		if (!first) {
			first = link;
			continue;
		}
		more = true;
		local_shared = smcr_same_rnic(link->local_gid, link->local_mac, first->local_gid,
					      first->local_mac);
		peer_shared = smcr_same_rnic(link->peer_gid, link->peer_mac, first->peer_gid,
					     first->peer_mac);
		if (!local_shared && !peer_shared)
			return "symmetric";
	}
	if (!more)
		return "single";
	return local_shared ? "asymmetric-local" : "asymmetric-peer";
}
