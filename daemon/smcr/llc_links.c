/* SPDX-License-Identifier: MIT */
/*
 * Which links a group should have, and when the server tries to add one (RFC 7609 2.2.1, 2.2.2,
 * 3.5.5.1, C.8): the rules about RNICs, the occasions for ADD LINK, the pause after an attempt that
 * failed.
 */
#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"

/** The longest pause between two attempts (ERR-72). */
#define RETRY_MAX (UINT64_C(600) * 1000 * 1000)

/* ---- which RNICs have links ---- */

/** Does this link count when RNICs are compared? Not if this side has answered its deletion: the
 * server may be adding its successor already. */
static bool counts(const struct smcr_link *link)
{
	return link && link->state != SMCR_LINK_FAILED && link->state != SMCR_LINK_DEACTIVATING &&
	       link->deletion.state != SMCR_DELETION_AGREED;
}

static bool same_local(const struct smcr_link *a, const struct smcr_link *b)
{
	return smcr_same_rnic(a->local_gid, a->local_mac, b->local_gid, b->local_mac);
}

static bool same_peer(const struct smcr_link *a, const struct smcr_link *b)
{
	return smcr_same_rnic(a->peer_gid, a->peer_mac, b->peer_gid, b->peer_mac);
}

/** Has the link an RNIC in common with a link other than `except`? */
static bool shares(const struct smcr_link *link, const struct smcr_link *except)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *other = link->lgr->links[i];
		if (counts(other) && other != link && other != except &&
		    (same_local(link, other) || same_peer(link, other)))
			return true;
	}
	return false;
}

static bool all_symmetric(const struct smcr_lgr *lgr, const struct smcr_link *except)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (counts(lgr->links[i]) && lgr->links[i] != except &&
		    shares(lgr->links[i], except))
			return false;
	return true;
}

struct smcr_link *smcr_llc_asymmetric_link(const struct smcr_lgr *lgr)
{
	struct smcr_link *newest = NULL;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (counts(link) && shares(link, NULL) && all_symmetric(lgr, link) &&
		    (!newest || link->ref > newest->ref))
			newest = link;
	}
	return newest;
}

bool smcr_llc_topology_ok(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		for (unsigned int j = 0; j < i; j++) {
			const struct smcr_link *a = lgr->links[i], *b = lgr->links[j];
			if (counts(a) && counts(b) && same_local(a, b) && same_peer(a, b))
				return false; /* parallel (LG-3) */
		}
	return all_symmetric(lgr, smcr_llc_asymmetric_link(lgr)); /* LG-4 */
}

unsigned int smcr_llc_symmetric_links(const struct smcr_lgr *lgr)
{
	unsigned int n = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		n += counts(lgr->links[i]);
	return n - (smcr_llc_asymmetric_link(lgr) ? 1 : 0);
}

/** Do other links use both RNICs of this link, so that the group does not need it? */
static bool superfluous(const struct smcr_link *link)
{
	bool local = false, peer = false;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *other = link->lgr->links[i];
		if (!counts(other) || other == link ||
		    other->deletion.state == SMCR_DELETION_WANTED)
			continue;
		local |= same_local(link, other);
		peer |= same_peer(link, other);
	}
	return local && peer;
}

void smcr_llc_keep_asymmetric(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && link->deletion.state == SMCR_DELETION_WANTED &&
		    link->state == SMCR_LINK_ACTIVE &&
		    link->deletion.reason == SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED &&
		    !superfluous(link))
			smcr_llc_cancel_deletion(link);
	}
}

/** Does a link other than `except` use this RNIC of the peer? */
static bool peer_rnic_in_use(const struct smcr_lgr *lgr, const uint8_t *gid, const uint8_t *mac,
			     const struct smcr_link *except)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		if (counts(link) && link != except &&
		    smcr_same_rnic(link->peer_gid, link->peer_mac, gid, mac))
			return true;
	}
	return false;
}

static bool device_in_use(const struct smcr_lgr *lgr, const struct smcr_device *device,
			  const struct smcr_link *except)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (counts(lgr->links[i]) && lgr->links[i] != except &&
		    lgr->links[i]->device == device)
			return true;
	return false;
}

/** ADDL-17: is the RNIC active, on the group's LAN, and not drained? */
static bool on_lan(const struct smcr_lgr *lgr, const struct smcr_device *device)
{
	return device->info.active && !device->drained && device->info.vlan == lgr->vlan &&
	       smcr_device_on_prefix(device, &lgr->prefix);
}

/** An RNIC that has a link of the group, or NULL. */
static struct smcr_device *used_device(const struct smcr_lgr *lgr)
{
	struct smcr_device *device;
	DL_FOREACH (lgr->engine->devices, device)
		if (on_lan(lgr, device) && device_in_use(lgr, device, NULL))
			return device;
	return NULL;
}

struct smcr_device *smcr_llc_unused_device(const struct smcr_lgr *lgr,
					   const struct smcr_link *except)
{
	struct smcr_device *device, *found = NULL;
	DL_FOREACH (lgr->engine->devices, device) {
		if (!on_lan(lgr, device) || device_in_use(lgr, device, except))
			continue;
		if (!device_in_use(lgr, device, NULL))
			return device;
		found = device;
	}
	return found;
}

/* ---- is there anything to add? ---- */

bool smcr_llc_room_for_link(const struct smcr_lgr *lgr)
{
	unsigned int n = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		n += counts(lgr->links[i]);
	return !smcr_lgr_is_v2(lgr) || n < SMCR_V2_LINKS_TOTAL;
}

struct smcr_device *smcr_llc_add_candidate(const struct smcr_lgr *lgr, bool client_changed)
{
	const struct smcr_link *odd = smcr_llc_asymmetric_link(lgr);
	if (smcr_llc_symmetric_links(lgr) >= lgr->max_links || !smcr_llc_room_for_link(lgr))
		return NULL; /* LG-8 */
	struct smcr_device *device = smcr_llc_unused_device(lgr, NULL);
	/* LG-5: the RNIC of the asymmetric link, for which the client had no RNIC of its own */
	if (!device && odd && client_changed)
		device = smcr_llc_unused_device(lgr, odd);
	/* ADDL-2: there is one link, but the client may have a second RNIC */
	if (!device && !odd && smcr_llc_symmetric_links(lgr) == 1)
		device = used_device(lgr);
	return device;
}

enum smcr_add_link_answer smcr_llc_add_link_decide(bool server_rnic_new, bool have_unused,
						   bool have_asymmetric)
{
	if (server_rnic_new && have_unused)
		return SMCR_ADD_LINK_ON_UNUSED; /* symmetric */
	if (have_asymmetric || (!server_rnic_new && !have_unused))
		return SMCR_ADD_LINK_REJECT; /* second asymmetric, or parallel */
	return have_unused ? SMCR_ADD_LINK_ON_UNUSED : SMCR_ADD_LINK_ON_USED; /* asymmetric */
}

/* The asymmetric link does not count: it is deleted when the new one takes its place (LG-5,
 * A45). */
struct smcr_device *smcr_llc_device_for(const struct smcr_lgr *lgr,
					const struct smcr_llc_add_link *request)
{
	const struct smcr_link *odd = smcr_llc_asymmetric_link(lgr);
	bool odd_again =
		odd && smcr_same_rnic(odd->peer_gid, odd->peer_mac, request->gid, request->mac);
	struct smcr_device *unused = smcr_llc_unused_device(lgr, odd_again ? NULL : odd);
	bool server_rnic_new = !peer_rnic_in_use(lgr, request->gid, request->mac, odd);
	switch (smcr_llc_add_link_decide(server_rnic_new, unused != NULL, odd != NULL)) {
	case SMCR_ADD_LINK_ON_UNUSED: return unused;
	case SMCR_ADD_LINK_ON_USED: return used_device(lgr);
	case SMCR_ADD_LINK_REJECT: break;
	}
	return NULL;
}

enum smcr_notice_answer smcr_llc_notice_decide(unsigned int links, bool asymmetric,
					       bool one_client_rnic, uint8_t limit)
{
	unsigned int symmetric = links - (asymmetric ? 1 : 0);
	if (links <= 1 || (asymmetric && one_client_rnic && symmetric == 1))
		return SMCR_NOTICE_MUST;
	return symmetric < limit ? SMCR_NOTICE_MAY : SMCR_NOTICE_IGNORE;
}

/* ---- occasions ---- */

/** Does this occasion still count after an operator has deleted a link (A50)? The others may be
 * attempts to replace what the operator does not want. */
static bool outlasts_operator(enum smcr_add_occasion why)
{
	return why == SMCR_ADD_RNIC || why == SMCR_ADD_LOSS || why == SMCR_ADD_OPERATOR;
}

static void want(struct smcr_lgr *lgr, enum smcr_add_occasion why)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (!flow->add.wanted || !outlasts_operator(flow->add.why))
		flow->add.why = why;
	flow->add.wanted = true;
	flow->add.client_changed |=
		why == SMCR_ADD_NOTICE || why == SMCR_ADD_TIMER || why == SMCR_ADD_OPERATOR;
	smcr_llc_kick(lgr);
}

/** Something has changed: attempts that failed before may succeed now (ERR-72). */
static void forget_failures(struct smcr_lgr *lgr)
{
	lgr->llc->add.delay = 0;
	smcr_timer_stop(lgr->engine, &lgr->llc->add.retry);
}

void smcr_llc_want_link(struct smcr_lgr *lgr, enum smcr_add_occasion why)
{
	struct smcr_engine *engine = lgr->engine;
	struct smcr_llc_flow *flow = lgr->llc;
	uint64_t again = flow->add.last + engine->config.add_link_retry;
	if (lgr->state == SMCR_LGR_TERMINATING)
		return;
	if (why == SMCR_ADD_RNIC || why == SMCR_ADD_NOTICE)
		forget_failures(lgr);
	if (why != SMCR_ADD_LOSS || !flow->add.last || engine->now >= again)
		want(lgr, why);
	else if (!smcr_timer_running(&flow->add.retry)) /* not too often */
		smcr_timer_start(engine, &flow->add.retry, again - engine->now);
}

/** While the device's link is being deleted, no new link can be asked for: note to do so when the
 * link is freed. */
static void mark_going_link(const struct smcr_lgr *lgr, const struct smcr_device *device)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && link->device == device && smcr_deletion_begun(&link->deletion))
			link->deletion.rnic_back = true;
	}
}

void smcr_llc_rnic_back(struct smcr_lgr *lgr, const struct smcr_device *device)
{
	if (lgr->state == SMCR_LGR_TERMINATING || !on_lan(lgr, device))
		return;
	if (device_in_use(lgr, device, NULL)) {
		mark_going_link(lgr, device);
		return;
	}
	smcr_llc_want_link(lgr, SMCR_ADD_RNIC); /* ADDL-14, ADDL-15 */
}

void smcr_llc_rnic_appeared(struct smcr_engine *engine, const struct smcr_device *device)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr)
		smcr_llc_rnic_back(lgr, device);
}

static void count_occasion(const struct smcr_lgr *lgr, enum smcr_add_occasion why)
{
	if (why == SMCR_ADD_TIMER)
		smcr_row(lgr, SMCR_ROW_ERR_71_TIMER);
	else if (why == SMCR_ADD_RNIC)
		smcr_row(lgr, SMCR_ROW_ERR_71_RNIC);
	else if (why == SMCR_ADD_NOTICE)
		smcr_row(lgr, SMCR_ROW_ERR_71_NOTICE);
}

/**
 * The link that carries ADD LINK, or the notice of an RNIC: the asymmetric link only if there is no
 * other one that stays. A deployed client refuses to use the RNIC of the carrier for the new link,
 * as the new link could only be a second asymmetric one. A deployed server that gets a notice does
 * not offer its RNIC of the carrier. So with the asymmetric link as carrier no other link would
 * ever take its place (LG-5).
 */
static struct smcr_link *add_carrier(const struct smcr_lgr *lgr)
{
	struct smcr_link *odd = smcr_llc_asymmetric_link(lgr);
	struct smcr_link *carrier = smcr_lgr_any_link(lgr, odd);
	if (carrier && !smcr_deletion_begun(&carrier->deletion))
		return carrier;
	return smcr_lgr_any_link(lgr, NULL);
}

/** There was a link to add, but its RNIC has gone meanwhile, or other links have the RNICs:
 * commands that want one need not wait. */
static void tell_nothing_to_add(struct smcr_lgr *lgr)
{
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_ADD_FAILED,
						  .why = "no RNIC is left that it could use" });
}

/** Server: no link can be added. Tell that to a client that has asked. */
static void refuse_add(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (!flow->add.asked)
		return;
	flow->add.asked = false;
	struct smcr_link *link = smcr_link_by_ref(lgr->engine, flow->add.asked_on);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_REQUEST_ADD_LINK, .reply = true };
	if (link && smcr_link_works(link))
		smcr_llc_send(link, &msg);
}

bool smcr_llc_start_add_link(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *carrier = add_carrier(lgr);
	if (!flow->add.wanted || !carrier)
		return false;
	struct smcr_device *device = smcr_llc_add_candidate(lgr, flow->add.client_changed);
	flow->add.wanted = flow->add.client_changed = false;
	if (!device) {
		refuse_add(lgr);
		tell_nothing_to_add(lgr);
		return false;
	}
	count_occasion(lgr, flow->add.why);
	int rc = smcr_llc_add_link(lgr, device, carrier);
	if (!rc) {
		flow->add.asked = false; /* the ADD LINK is the answer */
		return true;
	}
	refuse_add(lgr);
	smcr_llc_add_attempt(lgr);
	smcr_llc_add_ended(lgr, SMCR_LLC_FAILED, strerror(-rc));
	return false;
}

/* ---- the client tells of an RNIC: ADD LINK, in version 2 REQUEST ADD LINK ---- */

static struct smcr_llc_msg request_of(const struct smcr_link *carrier,
				      const struct smcr_device *device)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_REQUEST_ADD_LINK,
				    .request_add_link = { .num_gids = 2 } };
	memcpy(msg.request_add_link.gid[0], carrier->local_gid, SMCR_GID_LEN);
	memcpy(msg.request_add_link.gid[1], device->info.gid, SMCR_GID_LEN);
	return msg;
}

/** Client: an RNIC that the server may be told of, or NULL. That of the asymmetric link as well,
 * if a deployed server is to be told once more (A70). */
static const struct smcr_device *device_to_tell(const struct smcr_lgr *lgr)
{
	bool again = lgr->dialect == SMCR_DIALECT_DEPLOYED && smcr_llc_symmetric_links(lgr) == 1;
	if (smcr_llc_symmetric_links(lgr) >= lgr->max_links)
		return NULL; /* LG-8 */
	return smcr_llc_unused_device(lgr, again ? smcr_llc_asymmetric_link(lgr) : NULL);
}

/**
 * Would the group have another link if the peer had an RNIC that it had not? Deployed peers do not
 * always say that they have: a client that gets one while a link is added drops its own notice of
 * it, and a server that adds a link while its own RNIC returns takes another one, and does not try
 * again. So the client is asked again if it had one RNIC for two of ours, and the server if the
 * group would lose all with one RNIC of that (A70).
 */
static bool is_worth_asking_again(const struct smcr_lgr *lgr)
{
	if (lgr->dialect != SMCR_DIALECT_DEPLOYED)
		return false;
	if (lgr->role == SMCR_ROLE_CLIENT)
		return smcr_llc_symmetric_links(lgr) == 1 && device_to_tell(lgr);
	return smcr_llc_asymmetric_link(lgr) && smcr_llc_add_candidate(lgr, true);
}

/** The pause after one more attempt that has come to nothing (ERR-72). */
static uint64_t longer_pause(const struct smcr_lgr *lgr)
{
	uint64_t last = lgr->llc->add.delay;
	uint64_t pause = last ? 2 * last : lgr->engine->config.add_link_retry;
	return pause < RETRY_MAX ? pause : RETRY_MAX;
}

static bool any_link_goes(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->deletion.state != SMCR_DELETION_NONE)
			return true;
	return false;
}

void smcr_llc_send_add_link_notice(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	const struct smcr_device *device = device_to_tell(lgr);
	struct smcr_link *carrier = add_carrier(lgr);
	if (!flow->add.wanted || !carrier)
		return;
	if (!device && flow->add.why == SMCR_ADD_OPERATOR && any_link_goes(lgr))
		return; /* the group may have one more link when that link is gone */
	flow->add.wanted = false;
	if (!device) {
		tell_nothing_to_add(lgr);
		return;
	}
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK };
	memcpy(msg.add_link.mac, device->info.mac, SMCR_MAC_LEN);
	memcpy(msg.add_link.gid, device->info.gid, SMCR_GID_LEN);
	if (smcr_lgr_is_v2(lgr))
		msg = request_of(carrier, device);
	smcr_llc_send(carrier, &msg); /* ADDL-15 */
	if (outlasts_operator(flow->add.why))
		flow->add.told = lgr->engine->now;
	flow->add.unanswered = is_worth_asking_again(lgr);
	if (flow->add.unanswered)
		smcr_timer_start(lgr->engine, &flow->add.retry, longer_pause(lgr));
}

/* ---- the server hears of it ---- */

/** The client has a new RNIC (ADDL-16). The contents of the message are not used (A29), so a
 * message that comes during an exchange need not be kept: noting that a link is wanted is enough
 * (SER-4). */
void smcr_llc_on_add_link_notice(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	const struct smcr_link *odd = smcr_llc_asymmetric_link(lgr);
	unsigned int symmetric = smcr_llc_symmetric_links(lgr);
	bool one_client_rnic = odd && peer_rnic_in_use(lgr, odd->peer_gid, odd->peer_mac, odd);
	(void)msg;
	if (smcr_llc_notice_decide(symmetric + (odd ? 1 : 0), odd, one_client_rnic,
				   lgr->max_links) != SMCR_NOTICE_IGNORE)
		smcr_llc_want_link(lgr, SMCR_ADD_NOTICE);
}

void smcr_llc_on_request_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	flow->add.asked = true;
	flow->add.asked_on = link->ref;
	smcr_llc_on_add_link_notice(link, msg);
	if (!flow->add.wanted)
		refuse_add(lgr);
}

void smcr_llc_on_request_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	(void)msg;
	smcr_news_of_lgr(link->lgr, (struct smcr_news){ .type = SMCR_NEWS_ADD_FAILED,
							.why = "the server cannot add a link" });
}

/* ---- the outcome of an attempt ---- */

void smcr_llc_add_attempt(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	flow->add.last = lgr->engine->now;
	flow->add.unanswered = false;
	flow->add.told = 0;
	smcr_timer_stop(lgr->engine, &flow->add.retry);
}

static void ask_again(struct smcr_lgr *lgr)
{
	struct smcr_timer *retry = &lgr->llc->add.retry;
	if (is_worth_asking_again(lgr) && !smcr_timer_running(retry))
		smcr_timer_start(lgr->engine, retry, lgr->engine->config.add_link_retry);
}

/** An operator deletes a link. Attempts that would bring the link back are dropped, also those that
 * the client has asked for before it knew (A50). If the RNIC is drained, links on other RNICs are
 * still wanted. */
static void drop_attempts(const struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	smcr_timer_stop(lgr->engine, &flow->add.retry);
	flow->add.unanswered = false;
	if (flow->add.told && lgr->engine->now - flow->add.told < lgr->engine->config.llc_timeout)
		want(lgr, SMCR_ADD_RNIC); /* the server drops a notice that crosses its order */
	if (!flow->add.wanted || outlasts_operator(flow->add.why) || link->deletion.for_drain)
		return;
	flow->add.wanted = flow->add.client_changed = false;
	refuse_add(lgr);
}

void smcr_llc_link_goes(const struct smcr_link *link, bool by_operator)
{
	if (by_operator)
		drop_attempts(link);
	else if (link->lgr->role == SMCR_ROLE_CLIENT)
		ask_again(link->lgr);
}

static void add_succeeded(struct smcr_lgr *lgr)
{
	forget_failures(lgr);
	if (lgr->role == SMCR_ROLE_CLIENT) {
		ask_again(lgr);
		return;
	}
	struct smcr_link *odd = smcr_llc_asymmetric_link(lgr);
	if (odd && superfluous(odd))
		smcr_llc_want_deletion(odd, SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED); /* LG-5 */
	else if (odd)
		ask_again(lgr);
	smcr_llc_want_link(lgr, SMCR_ADD_MORE);
}

static void add_failed(struct smcr_lgr *lgr, const char *why)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (lgr->role == SMCR_ROLE_SERVER)
		smcr_row(lgr, flow->add.delay ? SMCR_ROW_ERR_72 : SMCR_ROW_ERR_70);
	flow->add.delay = longer_pause(lgr);
	smcr_timer_start(lgr->engine, &flow->add.retry, flow->add.delay); /* C.8 */
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_ADD_FAILED, .why = why });
}

void smcr_llc_add_ended(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why)
{
	if (outcome == SMCR_LLC_SUCCEEDED)
		add_succeeded(lgr);
	else
		add_failed(lgr, why);
}

/** Server: try again. Client: perhaps the server does not know of an RNIC (ERR-28, ERR-29), or has
 * one itself by now (A70). What goes for an operator must not come back by that (A50). */
static void on_retry(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	if (lgr->role == SMCR_ROLE_CLIENT && any_link_goes(lgr)) {
		smcr_timer_start(engine, &flow->add.retry, longer_pause(lgr));
		return;
	}
	if (flow->add.unanswered)
		flow->add.delay = longer_pause(lgr);
	want(lgr, SMCR_ADD_TIMER);
}

void smcr_llc_links_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow)
{
	smcr_timer_init(&flow->add.retry, on_retry, lgr);
}

/* ---- patience ---- */

void smcr_llc_links_changed(struct smcr_lgr *lgr)
{
	struct smcr_engine *engine = lgr->engine;
	uint32_t patience = smcr_llc_patience(lgr, NULL);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || !smcr_link_works(link))
			continue;
		smcr_keepalive_link_start(link);
		if (link->retry_ms == patience)
			continue;
		link->retry_ms = patience;
		engine->ops.rdma->qp_set_retry(engine->ops.rdma_ctx, link->qp, patience);
	}
}

uint32_t smcr_llc_patience(const struct smcr_lgr *lgr, const struct smcr_link *added)
{
	unsigned int active = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		active += link && (smcr_link_works(link) || link == added);
	}
	return active > 1 ? lgr->engine->config.retry_alternative_ms : lgr->engine->config.retry_ms;
}
