/* SPDX-License-Identifier: MIT */
/*
 * A peer breaks a rule: one message of a script is changed, replaced or lost, or another message
 * follows it. The engine that receives this must do what the RFC's tables call for (RFC 7609 C.7.1,
 * second list; 3.5.5.3). The test sees that on the wire, in what the engine sends next. The
 * observer is off; programs still check bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/rows.h"
#include "proto/smcr/llc.h"
#include "tests/sim/scenario.h"
#include "tests/sim/wire.h"

#define C  SMCR_ROLE_CLIENT
#define S  SMCR_ROLE_SERVER
#define RE true

enum how {
	CHANGE,  /* the message itself is changed */
	INSTEAD, /* another message comes in its place */
	AFTER,   /* another message comes behind it, on the same link */
	DROP,
};

struct breaking;

/** A message sent by the side that has received the breach. */
struct said {
	const struct breaking *breaking;
	uint8_t link; /* number of the link that carries the message */
	const struct smcr_llc_msg *msg;
};

/** What that side must do. */
struct answer {
	const char *what;
	uint64_t within;
	bool (*is)(const struct said *said);      /* it sends such a message by then */
	bool (*holds)(struct breaking *breaking); /* this is true then */
	bool alone;                               /* the other side is frozen until then */
};

struct breach {
	enum smcr_row row; /* the row of the tables that is tried .. */
	enum smcr_role by; /* .. by the engine in this role */
	/* the other side's message that is changed: the nth of this type */
	uint8_t type;
	bool reply;
	unsigned int nth;
	enum how how;
	void (*make)(struct smcr_llc_msg *msg);
	const struct answer *answer;
};

struct breaking {
	struct world *world;
	const struct breach *breach;
	unsigned int count;
	bool done, answered, judged;
	uint64_t until; /* the answer must have come */
	struct qp *to;
	uint8_t extra[SMCR_LLC_LEN];
	uint8_t carrier; /* number of the link that carried the breach */
	uint8_t subject; /* number of the link that the message was about, if any */
	bool deleted;    /* the receiver has asked for the deletion of the carrier */
	bool changes;    /* the receiver has begun a change of links */
	struct {         /* numbers of links, as CONFIRM LINK has told them */
		uint32_t qpn;
		uint8_t number;
	} links[64];
	unsigned int num_links;
};

/* ---- what the receiver of the breach has to do ---- */

/** It asks, on another link, to delete link `number`. */
static bool deletes(const struct said *said, uint8_t number, uint32_t reason)
{
	const struct smcr_llc_delete_link *m = &said->msg->delete_link;
	return said->msg->type == SMCR_LLC_DELETE_LINK && !said->msg->reply && !m->all &&
	       !m->orderly && m->link_number == number && said->link != number &&
	       m->reason == reason;
}

static bool drops_the_new_link(const struct said *said)
{
	return deletes(said, said->breaking->subject, SMCR_LLC_DEL_PROTOCOL_VIOLATION);
}

static bool blames_the_carrier(const struct said *said)
{
	return deletes(said, said->breaking->carrier, SMCR_LLC_DEL_PROTOCOL_VIOLATION);
}

static bool loses_the_carrier(const struct said *said)
{
	return deletes(said, said->breaking->carrier, SMCR_LLC_DEL_LOST_PATH);
}

static bool loses_another_link(const struct said *said)
{
	return said->msg->type == SMCR_LLC_DELETE_LINK &&
	       said->msg->delete_link.link_number != said->breaking->carrier &&
	       deletes(said, said->msg->delete_link.link_number, SMCR_LLC_DEL_LOST_PATH);
}

static bool refuses_the_mtu(const struct said *said)
{
	const struct smcr_llc_add_link *m = &said->msg->add_link;
	return said->msg->type == SMCR_LLC_ADD_LINK && said->msg->reply && m->reject &&
	       m->reject_reason == SMCR_LLC_REJECT_INVALID_MTU &&
	       m->link_number == said->breaking->subject;
}

static bool knows_no_such_link(const struct said *said)
{
	const struct smcr_llc_delete_link *m = &said->msg->delete_link;
	return said->msg->type == SMCR_LLC_DELETE_LINK && said->msg->reply &&
	       m->link_number == 200 && m->reason == SMCR_LLC_DEL_UNKNOWN_LINK;
}

static bool knows_no_such_key(const struct said *said)
{
	const struct smcr_llc_delete_rkey *m = &said->msg->delete_rkey;
	return said->msg->type == SMCR_LLC_DELETE_RKEY && said->msg->reply && m->negative &&
	       m->error_mask == 0x80;
}

static bool answers_add_link(const struct said *said)
{
	return said->msg->type == SMCR_LLC_ADD_LINK && said->msg->reply &&
	       said->msg->add_link.link_number == 99;
}

static bool answers_delete_link(const struct said *said)
{
	return said->msg->type == SMCR_LLC_DELETE_LINK && said->msg->reply &&
	       said->msg->delete_link.link_number == 1;
}

static bool answers_confirm_rkey(const struct said *said)
{
	return said->msg->type == SMCR_LLC_CONFIRM_RKEY && said->msg->reply &&
	       said->msg->confirm_rkey.rkey == 0x7777;
}

static bool puts_confirm_rkey_off(const struct said *said)
{
	return answers_confirm_rkey(said) && said->msg->confirm_rkey.negative &&
	       said->msg->confirm_rkey.retry;
}

static bool answers_test_link(const struct said *said)
{
	static const uint8_t none[16];
	return said->msg->type == SMCR_LLC_TEST_LINK && said->msg->reply &&
	       said->link == said->breaking->carrier &&
	       !memcmp(said->msg->test_link.user_data, none, sizeof(none));
}

static bool deletes_all(const struct said *said)
{
	return said->msg->type == SMCR_LLC_DELETE_LINK && !said->msg->reply &&
	       said->msg->delete_link.all;
}

/** Its program's connections over this group have been reset. */
static bool has_ended_the_group(struct breaking *breaking)
{
	const struct world *w = breaking->world;
	for (size_t i = 0; i < w->num_pairs; i++) {
		const struct side *side = &w->pairs[i]->side[breaking->breach->by == S];
		if (side->established && !side->fallback && side->mode != SIDE_OVER &&
		    !w->pairs[i]->tcp.dead)
			return false;
	}
	return true;
}

/** It has declined: both programs go on over TCP. */
static bool has_declined(struct breaking *breaking)
{
	const struct pair *pair = breaking->world->pairs[0];
	return pair->side[CLIENT].fallback && pair->side[SERVER].fallback && !pair->tcp.dead;
}

/** How many queue pairs of that side are in one of these states? */
static unsigned int queue_pairs(const struct breaking *breaking, enum qp_state first,
				enum qp_state last)
{
	const struct world *w = breaking->world;
	unsigned int n = 0;
	for (const struct qp *qp = w->fabric->qps; qp; qp = qp->hh.next)
		n += qp->host == w->hosts[breaking->breach->by == S] && qp->state >= first &&
		     qp->state <= last;
	return n;
}

/** It keeps the request until its own exchange is over, and that is still under way. */
static bool has_put_it_off(struct breaking *breaking)
{
	return !breaking->changes && queue_pairs(breaking, QP_ERR, QP_ERR) == 0;
}

/** It has freed the half-built link: only the first link and the newest are left. */
static bool has_given_up(struct breaking *breaking)
{
	return queue_pairs(breaking, QP_INIT, QP_ERR) <= 2;
}

/** The breach has had no effect. */
static bool goes_on(struct breaking *breaking)
{
	return breaking->to->state == QP_RTS && !breaking->deleted;
}

#define AT_ONCE (20 * MSEC)
#define IN_TIME (4500 * MSEC) /* the engine waits 4 s for an answer that does not come */
#define LATER   (9 * SEC)     /* twice: the script's next exchange waits 4 s as well */

static const struct answer
	drop_new_link = { "ask to delete the new link, as a violation", AT_ONCE,
			  drops_the_new_link },
	blame_carrier = { "ask to delete the link, as a violation", AT_ONCE, blames_the_carrier },
	lose_carrier = { "ask to delete the link, as lost", LATER, loses_the_carrier },
	lose_other = { "ask to delete the other link, as lost", AT_ONCE, loses_another_link },
	refuse_mtu = { "refuse the MTU", AT_ONCE, refuses_the_mtu },
	no_such_link = { "reply that there is no such link", AT_ONCE, knows_no_such_link },
	no_such_key = { "reply which RKey it does not know", AT_ONCE, knows_no_such_key },
	add_reply = { "answer ADD LINK", AT_ONCE, answers_add_link },
	start_over = { "give up the half-built link and answer", AT_ONCE, answers_add_link,
		       has_given_up },
	delete_reply = { "answer DELETE LINK", AT_ONCE, answers_delete_link },
	rkey_reply = { "answer CONFIRM RKEY", AT_ONCE, answers_confirm_rkey },
	rkey_later = { "refuse CONFIRM RKEY, to be tried again", AT_ONCE, puts_confirm_rkey_off },
	test_answer = { "answer TEST LINK", AT_ONCE, answers_test_link },
	delete_group = { "delete all links", AT_ONCE, deletes_all },
	/* when the breach comes on the group's only link */
	end_group = { "end the group", AT_ONCE, .holds = has_ended_the_group },
	end_group_in_time = { "end the group", IN_TIME, .holds = has_ended_the_group,
			      .alone = true },
	decline = { "decline", 500 * MSEC, .holds = has_declined },
	put_off = { "put it off", 800 * MSEC, .holds = has_put_it_off },
	ignore = { "ignore it", 500 * MSEC, .holds = goes_on };

/* ---- what the other side says ---- */

static void wrong_qpn(struct smcr_llc_msg *msg)
{
	msg->confirm_link.qpn ^= 0x55;
}

static void reserved_mtu(struct smcr_llc_msg *msg)
{
	msg->add_link.mtu = 9;
}

static void one_more(struct smcr_llc_msg *msg)
{
	msg->add_link_cont.num_rtokens += 9;
}

static void no_others(struct smcr_llc_msg *msg)
{
	msg->confirm_rkey.num_tokens = 0;
	memset(msg->confirm_rkey.other, 0, sizeof(msg->confirm_rkey.other));
}

static void other_data(struct smcr_llc_msg *msg)
{
	msg->test_link.user_data[3] ^= 1;
}

static void unknown_key(struct smcr_llc_msg *msg)
{
	msg->delete_rkey.rkey[0] ^= 0x1234;
}

static void unknown_link(struct smcr_llc_msg *msg)
{
	msg->delete_link.link_number = 200;
}

static void test_link(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_TEST_LINK };
}

static void test_reply(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_TEST_LINK, .reply = true };
}

static void add_link(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_ADD_LINK };
	msg->add_link = (struct smcr_llc_add_link){ .qpn = 77,
						    .link_number = 99,
						    .mtu = SMCR_MTU_1024,
						    .gid = { 0xfd, [15] = 1 },
						    .mac = { 2, [5] = 9 } };
}

static void delete_one(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_LINK };
	msg->delete_link.link_number = 1;
	msg->delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
}

static void delete_all(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_LINK };
	msg->delete_link.all = true;
	msg->delete_link.reason = SMCR_LLC_DEL_OPERATOR;
}

static void confirm_rkey(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_CONFIRM_RKEY };
	msg->confirm_rkey.rkey = 0x7777;
	msg->confirm_rkey.vaddr = 0x70000;
}

static void delete_rkey(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_RKEY };
	msg->delete_rkey.count = 1;
	msg->delete_rkey.rkey[0] = 0x8888;
}

static void confirm_link(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_CONFIRM_LINK };
	msg->confirm_link.link_number = 1;
	msg->confirm_link.max_links = 8;
}

#define ROW(name)      SMCR_ROW_##name
#define ADDING(name)   SMCR_ROW_##name
#define DELETING(name) SMCR_ROW_##name##_DURING_DELETE_LINK
#define RKEYS(name)    SMCR_ROW_##name##_DURING_RKEY

#define CONFIRM_LINK SMCR_LLC_CONFIRM_LINK
#define ADD_LINK     SMCR_LLC_ADD_LINK
#define CONT         SMCR_LLC_ADD_LINK_CONT
#define DELETE_LINK  SMCR_LLC_DELETE_LINK
#define CONFIRM_RKEY SMCR_LLC_CONFIRM_RKEY
#define RKEY_CONT    SMCR_LLC_CONFIRM_RKEY_CONT
#define DELETE_RKEY  SMCR_LLC_DELETE_RKEY
#define TEST_LINK    SMCR_LLC_TEST_LINK

static const struct breach breaches[] = {
	{ ROW(ERR_51_FIRST), C, CONFIRM_LINK, false, 1, CHANGE, wrong_qpn, &decline },
	{ ROW(ERR_51), C, CONFIRM_LINK, false, 3, CHANGE, wrong_qpn, &drop_new_link },
	{ ROW(ERR_52), C, ADD_LINK, false, 1, CHANGE, reserved_mtu, &refuse_mtu },
	{ ROW(ERR_52), C, ADD_LINK, false, 2, CHANGE, reserved_mtu, &refuse_mtu },
	{ ROW(ERR_53), S, ADD_LINK, RE, 1, CHANGE, reserved_mtu, &drop_new_link },
	{ ROW(ERR_53), S, ADD_LINK, RE, 2, CHANGE, reserved_mtu, &drop_new_link },
	{ ROW(ERR_55), C, CONT, false, 3, CHANGE, one_more, &end_group },
	{ ROW(ERR_55), S, CONT, RE, 3, CHANGE, one_more, &end_group },
	{ ROW(ERR_56), S, DELETE_LINK, false, 1, CHANGE, unknown_link, &no_such_link },
	{ ROW(ERR_57), C, DELETE_LINK, false, 1, CHANGE, unknown_link, &no_such_link },
	{ ROW(ERR_58), C, CONFIRM_RKEY, false, 1, CHANGE, no_others, &lose_other },
	{ ROW(ERR_58), S, CONFIRM_RKEY, false, 1, CHANGE, no_others, &lose_other },
	{ ROW(ERR_59), C, DELETE_RKEY, false, 1, CHANGE, unknown_key, &no_such_key },
	{ ROW(ERR_59), S, DELETE_RKEY, false, 1, CHANGE, unknown_key, &no_such_key },
	{ ROW(ERR_60), C, TEST_LINK, RE, 1, CHANGE, other_data, &blame_carrier },
	{ ROW(ERR_60), S, TEST_LINK, RE, 1, CHANGE, other_data, &blame_carrier },
	{ ROW(ERR_61), C, CONFIRM_RKEY, false, 1, AFTER, NULL, &ignore },
	{ ROW(ERR_61), S, CONFIRM_RKEY, false, 1, AFTER, NULL, &ignore },
	{ ROW(ERR_63), C, CONFIRM_RKEY, false, 1, AFTER, test_reply, &blame_carrier },
	{ ROW(ERR_63), S, CONFIRM_RKEY, false, 1, AFTER, test_reply, &blame_carrier },
	{ ROW(ERR_32), C, CONT, false, 3, DROP, NULL, &end_group_in_time },
	{ ROW(ERR_27), C, CONT, false, 2, DROP, NULL, &end_group_in_time },
	{ ROW(ERR_39_CONT), C, RKEY_CONT, RE, 1, DROP, NULL, &lose_carrier },
	{ ROW(ERR_39_CONT), S, RKEY_CONT, RE, 1, DROP, NULL, &lose_carrier },
	/* collision matrix: rows that only a peer takes which has given up its own exchange */
	{ ADDING(ADD_LINK), C, CONT, false, 3, INSTEAD, add_link, &start_over },
	{ ADDING(DELETE_LINK), C, CONT, false, 3, INSTEAD, delete_one, &delete_reply },
	{ ADDING(DELETE_ALL), C, CONT, false, 3, INSTEAD, delete_all, &end_group },
	{ ADDING(CONFIRM_RKEY), C, CONT, false, 3, INSTEAD, confirm_rkey, &rkey_reply },
	{ ADDING(DELETE_RKEY), C, CONT, false, 3, INSTEAD, delete_rkey, &no_such_key },
	{ ADDING(CONFIRM_LINK), C, CONT, false, 3, INSTEAD, confirm_link, &end_group },
	{ ADDING(TEST_LINK), C, CONT, false, 3, AFTER, test_link, &test_answer },
	{ ADDING(DELETE_ALL), S, CONT, RE, 3, INSTEAD, delete_all, &delete_group },
	{ ADDING(TEST_LINK), S, ADD_LINK, RE, 2, AFTER, test_link, &test_answer },
	{ DELETING(ADD_LINK), C, DELETE_LINK, false, 1, AFTER, add_link, &add_reply },
	{ DELETING(DELETE_LINK), C, DELETE_LINK, false, 1, AFTER, delete_one, &delete_reply },
	{ DELETING(DELETE_ALL), C, DELETE_LINK, false, 1, AFTER, delete_all, &end_group },
	{ DELETING(CONFIRM_RKEY), C, DELETE_LINK, false, 1, AFTER, confirm_rkey, &rkey_reply },
	{ DELETING(DELETE_RKEY), C, DELETE_LINK, false, 1, AFTER, delete_rkey, &no_such_key },
	{ DELETING(CONFIRM_LINK), C, DELETE_LINK, false, 1, AFTER, confirm_link, &end_group },
	{ DELETING(TEST_LINK), C, DELETE_LINK, false, 1, AFTER, test_link, &test_answer },
	{ DELETING(ADD_LINK), S, DELETE_LINK, RE, 1, INSTEAD, add_link, &end_group_in_time },
	{ DELETING(DELETE_LINK), S, DELETE_LINK, RE, 1, INSTEAD, delete_one, &end_group_in_time },
	{ DELETING(DELETE_ALL), S, DELETE_LINK, RE, 1, INSTEAD, delete_all, &delete_group },
	{ DELETING(CONFIRM_RKEY), S, DELETE_LINK, RE, 1, INSTEAD, confirm_rkey, &rkey_later },
	{ DELETING(DELETE_RKEY), S, DELETE_LINK, RE, 1, INSTEAD, delete_rkey, &end_group_in_time },
	{ DELETING(TEST_LINK), S, DELETE_LINK, RE, 1, INSTEAD, test_link, &test_answer },
	{ RKEYS(DELETE_ALL), C, CONFIRM_RKEY, RE, 1, INSTEAD, delete_all, &end_group },
	{ RKEYS(DELETE_ALL), S, CONFIRM_RKEY, RE, 1, INSTEAD, delete_all, &delete_group },
	{ RKEYS(CONFIRM_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, confirm_link, &blame_carrier },
	{ RKEYS(TEST_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, test_link, &test_answer },
	{ RKEYS(TEST_LINK), S, CONFIRM_RKEY, RE, 1, INSTEAD, test_link, &test_answer },
	{ RKEYS(ADD_LINK), S, CONFIRM_RKEY, RE, 1, INSTEAD, add_link, &put_off },
	{ RKEYS(ADD_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, add_link, &add_reply },
	{ RKEYS(DELETE_LINK), S, CONFIRM_RKEY, RE, 1, INSTEAD, delete_one, &put_off },
	{ RKEYS(DELETE_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, delete_one, &delete_reply },
};

/* ---- breaking it ---- */

static void inject_event(void *object, uint64_t arg)
{
	struct breaking *breaking = object;
	(void)arg;
	if (breaking->to->state < QP_ERR)
		wire_inject(breaking->to, breaking->extra, sizeof(breaking->extra));
}

static void encode(struct world *w, const struct smcr_llc_msg *msg, uint8_t *data)
{
	if (smcr_llc_encode(msg, SMCR_DIALECT_RFC, data, SMCR_LLC_LEN) != SMCR_LLC_LEN)
		world_fail(w, "HOST", "a message that cannot be");
}

/** Learn a link's number from the request CONFIRM LINK, for both QPs of the link. */
static void note_link(struct breaking *breaking, const struct qp *qp,
		      const struct smcr_llc_msg *msg)
{
	const unsigned int room = sizeof(breaking->links) / sizeof(breaking->links[0]);
	if (msg->type != SMCR_LLC_CONFIRM_LINK || msg->reply || breaking->num_links + 2 > room)
		return;
	breaking->links[breaking->num_links].qpn = qp->qpn;
	breaking->links[breaking->num_links++].number = msg->confirm_link.link_number;
	breaking->links[breaking->num_links].qpn = qp->peer.qpn;
	breaking->links[breaking->num_links++].number = msg->confirm_link.link_number;
}

static uint8_t link_of(const struct breaking *breaking, const struct qp *qp)
{
	for (unsigned int i = breaking->num_links; i > 0; i--)
		if (breaking->links[i - 1].qpn == qp->qpn)
			return breaking->links[i - 1].number;
	return 0;
}

static uint8_t subject_of(const struct smcr_llc_msg *msg)
{
	switch (msg->type) {
	case SMCR_LLC_CONFIRM_LINK: return msg->confirm_link.link_number;
	case SMCR_LLC_ADD_LINK: return msg->add_link.link_number;
	case SMCR_LLC_ADD_LINK_CONT: return msg->add_link_cont.link_number;
	default: return 0;
	}
}

/** The receiver of the breach sends a message. */
static void hear(struct breaking *breaking, const struct qp *qp, const struct smcr_llc_msg *msg)
{
	const struct answer *answer = breaking->breach->answer;
	struct said said = { .breaking = breaking, .link = link_of(breaking, qp), .msg = msg };
	breaking->answered |= answer->is && answer->is(&said);
	breaking->changes |= !msg->reply &&
			     (msg->type == SMCR_LLC_DELETE_LINK || msg->type == SMCR_LLC_ADD_LINK);
	breaking->deleted |= msg->type == SMCR_LLC_DELETE_LINK && !msg->reply &&
			     msg->delete_link.link_number == breaking->carrier;
}

static void judge_event(void *object, uint64_t arg)
{
	struct breaking *breaking = object;
	const struct breach *breach = breaking->breach;
	unsigned int roles;
	(void)arg;
	if (breaking->judged)
		return;
	breaking->judged = true;
	bool holds = !breach->answer->holds || breach->answer->holds(breaking);
	if (!holds || (breach->answer->is && !breaking->answered))
		world_fail(breaking->world, "BREAK", "%s: the %s does not %s",
			   smcr_row_name(breach->row, &roles),
			   breach->by == S ? "server" : "client", breach->answer->what);
}

static void on_post(struct world *w, struct qp *qp, struct request *req)
{
	struct breaking *breaking = w->breaking;
	const struct breach *breach = breaking->breach;
	struct smcr_llc_msg msg;
	bool by_server = qp->host == w->hosts[1], theirs = by_server == (breach->by == S);
	if (req->wr.is_write ||
	    smcr_llc_decode(req->payload, req->wr.length, SMCR_DIALECT_RFC, &msg) < 0)
		return;
	note_link(breaking, qp, &msg);
	if (breaking->done && theirs && w->clock.now <= breaking->until)
		hear(breaking, qp, &msg);
	if (breaking->done || theirs || msg.type != breach->type || msg.reply != breach->reply ||
	    ++breaking->count != breach->nth)
		return;
	breaking->done = true;
	breaking->to = fabric_qp_find(w->fabric, qp->peer.qpn);
	breaking->carrier = link_of(breaking, qp);
	breaking->subject = subject_of(&msg);
	breaking->until = w->clock.now + breach->answer->within;
	/* The receiver must act by itself, not in answer to what the other side does. */
	if (breach->answer->alone)
		host_freeze(qp->host, breach->answer->within + SEC);
	clock_at(&w->clock, breaking->until, judge_event, breaking, 0);
	world_log(w, "break", "%s %u of %s", smcr_llc_type_name(msg.type), breach->nth,
		  qp->host->name);
	if (breach->how == DROP) {
		req->fate = FATE_LOST;
		return;
	}
	if (breach->make)
		breach->make(&msg);
	else
		test_link(&msg);
	if (breach->how != AFTER) {
		encode(w, &msg, req->payload);
		return;
	}
	encode(w, &msg, breaking->extra);
	if (!breach->make)
		breaking->extra[0] = 0x85; /* a type that is optional and unknown */
	clock_at(&w->clock, req->ready_at + 1, inject_event, breaking, 0);
}

/* ---- the script ---- */

static void command_event(void *object, uint64_t arg)
{
	struct host *host = object;
	struct host_links list;
	host_list_links(host, &list);
	if (!list.num)
		return;
	struct smcr_command command = { .type = (enum smcr_command_type)arg,
					.lgr = list.link[0].lgr_id,
					.link = arg == SMCR_COMMAND_LINK_ADD
							? 0
							: list.link[list.num - 1].number };
	host_command(host, &command);
}

static void test_event(void *object, uint64_t arg)
{
	(void)arg;
	host_test_links(object);
}

static void connect_at(struct world *w, uint64_t when, uint64_t linger)
{
	struct plan plan[2];
	memset(plan, 0, sizeof(plan));
	for (int s = 0; s < 2; s++)
		plan[s] = (struct plan){ .tx_total = 4000,
					 .write_min = 100,
					 .write_max = 2000,
					 .write_pause = 20000,
					 .read_min = 100,
					 .read_max = 10000,
					 .rcvbuf = 1,
					 .end = END_CLOSE_DONE,
					 .linger = linger };
	struct route route = { .host = { w->hosts[0], w->hosts[1] },
			       .lan = { 1, 1 },
			       .family = AF_INET };
	pair_open(w, &route, plan, when);
}

static void play(struct world *w)
{
	static const struct {
		uint64_t when;
		int host;
		enum smcr_command_type type;
	} commands[] = {
		{ 1200 * MSEC, 1, SMCR_COMMAND_LINK_DELETE },
		{ 1600 * MSEC, 1, SMCR_COMMAND_LINK_ADD },
		{ 2000 * MSEC, 0, SMCR_COMMAND_LINK_DELETE },
		{ 2400 * MSEC, 0, SMCR_COMMAND_LINK_ADD },
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		clock_at(&w->clock, commands[i].when, command_event, w->hosts[commands[i].host],
			 commands[i].type);
	connect_at(w, 0, 20 * SEC);
	for (int i = 0; i < 4; i++)
		connect_at(w, (300 + 50 * (uint64_t)i) * MSEC, 20 * SEC);
	connect_at(w, 600 * MSEC, 0);
	clock_at(&w->clock, SEC, test_event, w->hosts[0], 0);
	clock_at(&w->clock, SEC + 50 * MSEC, test_event, w->hosts[1], 0);
}

static void run_break(struct world *w)
{
	const struct breach *breach = &breaches[w->seed % (sizeof(breaches) / sizeof(breaches[0]))];
	struct breaking *breaking = sim_zalloc(sizeof(*breaking));
	bool many = breach->type == RKEY_CONT;
	breaking->world = w;
	breaking->breach = breach;
	w->breaking = breaking;
	w->posted = on_post;
	w->set = (struct settings){
		.wire_min = 5,
		.wire_max = 100,
		.ack_max = 100,
		.cq_max = 400,
		.recv_max = 0,
		.tcp_min = 10,
		.tcp_max = 100,
		.wake_max = 50,
		.failures = true,
		.timeouts = true,
		.forged = true,
		.time_limit = 1200 * SEC,
	};
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++)
		config[i] = (struct smcr_config){ .dialect = SMCR_DIALECT_FORCE_RFC,
						  .max_links = 8,
						  .elements_per_rmb = 1,
						  .bsize_min = 0,
						  .send_depth = 64,
						  .lgr_idle_timeout = 100 * SEC,
						  .rmb_idle_timeout = 100 * MSEC,
						  .test_link_interval = UINT64_MAX };
	two_hosts(w, config, many ? 4 : 2, many ? 4 : 2);
	play(w);
	run_connections(w);
	if (!w->failed && !breaking->done)
		world_fail(w, "BREAK", "the message to be changed never came");
	if (!w->failed && w->clock.now < breaking->until)
		judge_event(breaking, 0); /* the connections ended before the time was over */
	run_down(w);
	free(breaking);
	w->breaking = NULL;
	w->posted = NULL;
}

const struct scenario scenarios_break[] = {
	{ "break", "a peer that breaks a rule", run_break, 1,
	  "ERR-27 ERR-32 ERR-36 ERR-39 ERR-51 ERR-52 ERR-53 ERR-55 ERR-56 ERR-57 ERR-58 ERR-59 "
	  "ERR-60 ERR-61 ERR-63 SER-7 TEST-2",
	  __FILE__ },
	{ 0 },
};
