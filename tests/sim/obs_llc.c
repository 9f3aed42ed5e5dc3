/* SPDX-License-Identifier: MIT */
/* LLC as seen on the links: requests and their replies, one exchange at a time (group SER). */
#include <string.h>

#include "tests/sim/obs.h"

int group_decode(const struct obs_group *group, const uint8_t *data, size_t len,
		 struct smcr_llc_msg *ret_msg, struct smcr_llc_rtokens *ret_rtokens)
{
	ret_rtokens->count = 0;
	return group_is_v2(group) ? smcr_llc_decode_v2(data, len, ret_msg, ret_rtokens)
				  : smcr_llc_decode(data, len, group->dialect, ret_msg);
}

int group_encode(const struct obs_group *group, const struct smcr_llc_msg *msg,
		 const struct smcr_llc_rtokens *rtokens, uint8_t *data, size_t len)
{
	return group_is_v2(group) ? smcr_llc_encode_v2(msg, rtokens, data, len)
				  : smcr_llc_encode(msg, group->dialect, data, len);
}

struct obs_link *link_by_number(struct obs_group *group, uint8_t number)
{
	struct obs_link *link, *found = NULL;
	DL_FOREACH (group->links, link) {
		/* Numbers come again after 255 links: take the newest link. */
		if (link->number == number)
			found = link;
	}
	return found;
}

/* ---- exchanges ---- */

#define RKEY_BITS (X_RKEY_CLIENT | X_RKEY_SERVER)

void exchange_start(struct obs_group *group, int side, unsigned int bit)
{
	unsigned int other = group->known[side];
	/* RKEY exchanges of both sides may overlap (SER-3). */
	if (bit & RKEY_BITS) {
		if (group->known[!side] & RKEY_BITS & ~bit)
			obs_see(group->obs, SEEN_RKEY_OVERLAP);
		other &= ~(unsigned int)RKEY_BITS | bit;
	}
	/* Version 2: this exchange may have waited for a long SEND of its side. What the side heard
	 * of during that SEND came too late to stop it. */
	other &= ~group->late[side];
	if (other && !group->shaky && !group->ended)
		world_fail(group->obs->world, "SER-2",
			   "group %u: the %s starts exchange %x while it knows of %x",
			   group->number, side_text(side), bit, other);
	group->known[side] |= bit;
}

void exchange_learnt(struct obs_group *group, int side, unsigned int bit)
{
	group->known[side] |= bit;
	if (group->longs[side])
		group->late[side] |= bit;
}

void exchange_end(struct obs_group *group, int side, unsigned int bit)
{
	group->known[side] &= ~bit;
	group->late[side] &= ~bit;
	group->dirty = true;
}

/* Longer than an exchange waits for an answer, and than a message takes to its receiver. */
#define SETTLED (15 * SEC)

/** After a failure both sides give up the exchanges in progress, each at its own time. After a long
 * silence they must have done so, and the rules apply again. */
static void settle(struct obs_group *group)
{
	struct obs_link *link;
	uint64_t now = group->obs->world->clock.now;
	bool whole = now > group->busy_at + SETTLED;
	if (group->shaky && !group->ended && whole) {
		DL_FOREACH (group->links, link)
			whole &= link->gone[CLIENT] == link->gone[SERVER];
		if (whole) {
			group->shaky = false;
			group->known[CLIENT] = group->known[SERVER] = 0;
			group->late[CLIENT] = group->late[SERVER] = 0;
			group->adding = NULL;
			memset(group->requests, 0, sizeof(group->requests));
			memset(group->stage, 0, sizeof(group->stage));
			obs_see(group->obs, SEEN_SETTLED);
		}
	}
	if (group->busy_at < now)
		group->busy_at = now;
}

/* ---- requests and replies ---- */

static bool wants_reply(int from, const struct smcr_llc_msg *msg)
{
	if (msg->reply)
		return false;
	if (msg->type == SMCR_LLC_ADD_LINK)
		return from == SERVER;
	if (msg->type == SMCR_LLC_REQUEST_ADD_LINK) /* ADD LINK is an answer too */
		return false;
	if (msg->type == SMCR_LLC_DELETE_LINK)
		return from == SERVER && !msg->delete_link.all;
	return true;
}

static void remember(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
		     const uint8_t *raw)
{
	struct obs_group *group = link->group;
	for (size_t i = 0; i < OBS_MAX_REQUESTS; i++) {
		struct obs_request *request = &group->requests[i];
		if (request->used)
			continue;
		*request = (struct obs_request){
			.used = true, .link = link, .from = from, .msg = *msg
		};
		memcpy(request->raw, raw, SMCR_LLC_LEN);
		return;
	}
	if (!group->shaky)
		world_fail(group->obs->world, "LLC-4", "group %u: more than %d requests unanswered",
			   group->number, OBS_MAX_REQUESTS);
}

/** Are both messages about the same link? Several DELETE LINKs can be under way at the same time,
 * because version 2 repeats requests. And the next ADD LINK can be under way behind one that was
 * given up and that nobody will answer. */
static bool same_subject(const struct obs_request *request, const struct smcr_llc_msg *msg)
{
	switch (msg->type) {
	case SMCR_LLC_DELETE_LINK:
		return request->msg.delete_link.link_number == msg->delete_link.link_number;
	case SMCR_LLC_ADD_LINK:
		return request->msg.add_link.link_number == msg->add_link.link_number;
	default: return true;
	}
}

/** The request that `msg` answers, or that it is: one about the same link if there is one, else any
 * of that type. */
static struct obs_request *find_request(struct obs_link *link, int from, bool delivered,
					const struct smcr_llc_msg *msg)
{
	struct obs_request *other = NULL;
	for (size_t i = 0; i < OBS_MAX_REQUESTS; i++) {
		struct obs_request *request = &link->group->requests[i];
		if (!request->used || request->delivered != delivered || request->link != link ||
		    request->from != from || request->msg.type != msg->type)
			continue;
		if (same_subject(request, msg))
			return request;
		if (!other)
			other = request;
	}
	return other;
}

struct obs_request *request_answered(struct obs_link *link, int from,
				     const struct smcr_llc_msg *reply)
{
	struct obs_request *request = find_request(link, !from, true, reply);
	if (request)
		request->used = false;
	return request;
}

void requests_void(const struct obs_link *link, int side)
{
	struct obs_group *group = link->group;
	for (size_t i = 0; i < OBS_MAX_REQUESTS; i++) {
		if (group->requests[i].link == link && group->requests[i].from != side)
			group->requests[i].used = false;
	}
}

static void mark_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg)
{
	struct obs_group *group = link->group;
	struct obs_request *request = find_request(link, !to, false, msg);
	if (!request)
		return;
	request->delivered = true;
	/* SER-4: the server refuses a CONFIRM RKEY that crosses its own exchange. */
	request->expect_negative = msg->type == SMCR_LLC_CONFIRM_RKEY && to == SERVER &&
				   group->known[SERVER] & (X_ADD | X_DEL) && !group_is_v2(group);
}

/** Which roles may send what (LLC-4, 3.5.5). */
static bool role_allowed(int from, const struct smcr_llc_msg *msg)
{
	switch (msg->type) {
	case SMCR_LLC_CONFIRM_LINK:
	case SMCR_LLC_ADD_LINK_CONT: return msg->reply == (from == CLIENT);
	case SMCR_LLC_ADD_LINK: return msg->reply ? from == CLIENT : true;
	case SMCR_LLC_REQUEST_ADD_LINK: return msg->reply == (from == SERVER);
	default: return true;
	}
}

static void dispatch_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
			    const struct smcr_llc_rtokens *rtokens,
			    const struct obs_request *request, const uint8_t *raw)
{
	struct world *w = link->group->obs->world;
	switch (msg->type) {
	case SMCR_LLC_CONFIRM_LINK: confirm_link_posted(link, from, msg, request); break;
	case SMCR_LLC_ADD_LINK: add_posted(link, from, msg, rtokens, request); break;
	case SMCR_LLC_REQUEST_ADD_LINK: request_posted(link, from, msg); break;
	case SMCR_LLC_ADD_LINK_CONT: cont_posted(link, from, msg); break;
	case SMCR_LLC_DELETE_LINK: delete_link_posted(link, from, msg, request); break;
	case SMCR_LLC_CONFIRM_RKEY:
	case SMCR_LLC_CONFIRM_RKEY_CONT:
	case SMCR_LLC_DELETE_RKEY: rkey_posted(link, from, msg, request); break;
	case SMCR_LLC_TEST_LINK:
		obs_see(link->group->obs, SEEN_TEST_LINK);
		if (request && memcmp(request->raw + 4, raw + 4, SMCR_LLC_LEN - 4) != 0)
			world_fail(w, "TEST-1", "TEST LINK is not echoed");
		break;
	default: break;
	}
}

/** Messages have 44 bytes. In version 2 some are longer; a side sends one such at a time. */
static void check_length(struct obs_group *group, int from, size_t len)
{
	struct world *w = group->obs->world;
	if (len == SMCR_LLC_LEN)
		return;
	if (!group_is_v2(group) || len < SMCR_LLC_LEN)
		world_fail(w, "LLC-1", "group %u: SEND of %zu bytes", group->number, len);
	if (group->longs[from]++)
		world_fail(w, "LLC-1", "group %u: the %s sends two long messages at once",
			   group->number, side_text(from));
	obs_see(group->obs, SEEN_LONG);
}

/** Version 2: does the server repeat its CONFIRM LINK, because no reply has come? */
static bool is_repeated(struct obs_link *link, const struct smcr_llc_msg *msg)
{
	if (msg->type != SMCR_LLC_CONFIRM_LINK || msg->reply)
		return false;
	bool again = link->confirmed && group_is_v2(link->group);
	link->confirmed = true;
	if (again)
		obs_see(link->group->obs, SEEN_REPEATED);
	return again;
}

void llc_posted(struct observer *obs, struct obs_link *link, int from, const uint8_t *data,
		size_t len)
{
	struct world *w = obs->world;
	struct obs_group *group = link->group;
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
	uint8_t again[SMCR_LLC_V2_SEND_MAX];
	int r = group_decode(group, data, len, &msg, &rtokens);
	settle(group);
	check_length(group, from, len);
	if (r < 0) {
		world_fail(w, "LLC-1", "group %u: the %s sends a malformed LLC message (%d)",
			   group->number, side_text(from), r);
		return;
	}
	world_log(w, link->qp[from]->device->info.name, "group %u: > %s", group->number,
		  describe_send(data, len, group->dialect));
	world_note(w, 6, link->qp[from]->qpn, (uint64_t)msg.type << 8 | msg.reply);
	if (group_encode(group, &msg, &rtokens, again, sizeof(again)) != (int)len ||
	    memcmp(again, data, len) != 0)
		world_fail(w, "LLC-2", "group %u: reserved fields of %s are not 0", group->number,
			   smcr_llc_type_name(msg.type));
	if (!role_allowed(from, &msg))
		world_fail(w, "LG-10", "group %u: the %s must not send %s", group->number,
			   side_text(from), smcr_llc_type_name(msg.type));
	if (msg.type == SMCR_LLC_ADD_LINK && !group->dialect_known)
		world_fail(w, "DIALECT", "group %u: ADD LINK before the dialect is known",
			   group->number);
	if (!link->active[from] && msg.type != SMCR_LLC_CONFIRM_LINK && !group->shaky)
		world_fail(w, "LLC-6", "group %u: %s on a link that is not active", group->number,
			   smcr_llc_type_name(msg.type));
	if (is_repeated(link, &msg))
		return;
	const struct obs_request *request = NULL;
	if (msg.reply && msg.type != SMCR_LLC_REQUEST_ADD_LINK) {
		request = request_answered(link, from, &msg);
		if (!request && !group->shaky)
			world_fail(w, "LLC-5", "group %u: %s reply of the %s without a request",
				   group->number, smcr_llc_type_name(msg.type), side_text(from));
	} else if (wants_reply(from, &msg)) {
		remember(link, from, &msg, data);
	}
	group->dirty = true;
	if (!w->failed)
		dispatch_posted(link, from, &msg, &rtokens, request, data);
}

void llc_delivered(struct observer *obs, struct obs_link *link, int to, const uint8_t *data,
		   size_t len)
{
	struct obs_group *group = link->group;
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
	settle(group);
	if (group_decode(group, data, len, &msg, &rtokens) < 0)
		return;
	world_log(obs->world, link->qp[to]->device->info.name, "group %u: < %s", group->number,
		  describe_send(data, len, group->dialect));
	if (!msg.reply)
		mark_delivered(link, to, &msg);
	group->dirty = true;
	switch (msg.type) {
	case SMCR_LLC_CONFIRM_LINK: confirm_link_delivered(link, to, &msg); break;
	case SMCR_LLC_ADD_LINK: add_delivered(link, to, &msg, &rtokens); break;
	case SMCR_LLC_ADD_LINK_CONT: cont_delivered(link, to, &msg); break;
	case SMCR_LLC_DELETE_LINK: delete_link_delivered(link, to, &msg); break;
	case SMCR_LLC_CONFIRM_RKEY:
	case SMCR_LLC_CONFIRM_RKEY_CONT:
	case SMCR_LLC_DELETE_RKEY: rkey_delivered(link, to, &msg); break;
	default: break;
	}
}

/** Completions that are points of no return (ERR-8). */
void llc_done(struct observer *obs, struct obs_link *link, int from, const uint8_t *data,
	      size_t len)
{
	struct obs_group *group = link->group;
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
	(void)obs;
	if (group_decode(group, data, len, &msg, &rtokens) < 0 || msg.type != SMCR_LLC_ADD_LINK ||
	    !link->first)
		return;
	if (from == SERVER ? !msg.reply : msg.reply)
		group->first->pnr[from] = true;
}
