/* SPDX-License-Identifier: MIT */
/**
 * @file llc.h
 * The LLC exchanges of a link group (RFC 7609 3.5.1, 3.5.5, C.7, C.8): what the llc*.c files share.
 *
 * A group has one exchange about links at a time (`step`), started by the server and served by the
 * client, and beside it each side's RKEY exchanges (SER-2, SER-3). What each step means is one row
 * of the table in llc_steps.c. Who wants to start something leaves a mark where it belongs (a slab
 * that is NEW and in use, a link whose deletion is WANTED) and calls smcr_llc_kick(); what may run
 * then is decided in one place, llc_schedule.c. So an exchange that a link failure breaks is simply
 * found again when the group is stable (SER-6).
 */
#ifndef SMCRD_ENGINE_LLC_H
#define SMCRD_ENGINE_LLC_H

#include "daemon/engine/internal.h"
#include "daemon/engine/llc_steps.h"

/** The own RKEY exchange. */
enum smcr_rkey_step {
	SMCR_RKEY_IDLE,
	SMCR_RKEY_CONFIRM, /* CONFIRM RKEY or a CONTINUATION sent, the reply is awaited (ERR-37) */
	SMCR_RKEY_DELETE,  /* DELETE RKEY sent, the reply is awaited (ERR-39) */
};

#define SMCR_LLC_QUEUE_MAX   16
#define SMCR_RKEY_DELETE_MAX 8

struct smcr_llc_queued {
	uint64_t link_ref; /* on which it came */
	struct smcr_llc_msg msg;
};

/** Version 2: links of a group in all. CONFIRM RKEY tells RTokens of two links beside its own, and
 *  nothing continues it. */
#define SMCR_V2_LINKS_TOTAL 3

/** An RToken as it was when a CONFIRM RKEY exchange began. */
struct smcr_llc_told {
	uint64_t ref; /* of the link */
	uint8_t number;
	uint32_t rkey;
	uint64_t vaddr;
};

/** Why the server tries for another link (ADDL-14, ERR-71). */
enum smcr_add_occasion {
	SMCR_ADD_MORE,     /* an attempt has succeeded: perhaps there is more */
	SMCR_ADD_RNIC,     /* an own RNIC has appeared on the LAN */
	SMCR_ADD_NOTICE,   /* the client has told of one */
	SMCR_ADD_LOSS,     /* a link was lost */
	SMCR_ADD_OPERATOR, /* a command */
	SMCR_ADD_TIMER,    /* the pause after a failure is over */
};

struct smcr_llc_flow {
	/* the exchange about links */
	enum smcr_llc_step step;
	uint64_t entered;                     /* when it came to that */
	struct smcr_link *carrier;            /* the link it runs on */
	struct smcr_link *subject;            /* the link it is about */
	struct smcr_timer timer;              /* for the answer */
	struct smcr_timer send_timer;         /* first contact: for the completion of the SEND */
	struct smcr_llc_confirm_link request; /* first CONFIRM LINK: what was asked */
	/** The link whose full-size packets are to pass before `confirm`, the peer's CONFIRM LINK
	 *  on it, is acted on (path_mtu.c); NULL: none */
	struct smcr_link *proving;
	struct smcr_llc_confirm_link confirm;
	unsigned int repeated; /* how often CONFIRM or DELETE LINK was */
	/* when to try for another link (llc_links.c) */
	struct {
		bool wanted; /* server: ADD LINK is due; client: the notice of an RNIC is due */
		bool client_changed; /* server: the client may have another RNIC than before */
		enum smcr_add_occasion why;
		uint64_t last;           /* when the last attempt began */
		uint64_t delay;          /* the last pause after a failure; 0: nothing has failed */
		struct smcr_timer retry; /* ERR-70 */
		/* server, version 2: REQUEST ADD LINK came on that link, and wants an answer */
		bool asked;
		uint64_t asked_on;
		/** Number of the new link that this side abandoned last, about which the peer may
		 * still say something. 0: there is none, or the peer has said that */
		uint8_t abandoned;
	} add;
	/* ADD LINK of version 2 */
	struct smcr_llc_rtokens rtokens; /* of the last one that came */
	bool add_held; /* client: ADD LINK has come, and waits for the end of the own CONFIRM RKEY
			  exchange */
	struct smcr_llc_queued held_add;
	/* ADD LINK CONTINUATION */
	struct smcr_slab *own[SMCR_MAX_RMBS]; /* RMBs to tell, in order */
	unsigned int own_count, own_next;
	bool peer_counted; /* its first CONTINUATION has come, or its RTokens with ADD LINK */
	uint8_t peer_left; /* what its next one must say (ADDL-9) */
	bool cont_held; /* client: the first CONTINUATION has come, and waits for the end of the own
			   RKEY exchange */
	bool cont_overdue; /* that exchange has taken too long: do not wait any longer */
	bool add_overdue;  /* the answer to ADD LINK is late, and the carrier is tested (deployed
			      dialect) */
	struct smcr_llc_add_link_cont held_cont;
	/* own RKEY exchange */
	struct {
		enum smcr_rkey_step step;
		struct smcr_link *link;                      /* carries it */
		struct smcr_slab *slab;                      /* CONFIRM */
		struct smcr_llc_told other[SMCR_LINK_SLOTS]; /* CONFIRM: the other links */
		unsigned int others, sent;
		bool continued; /* the reply to a CONTINUATION is awaited */
		struct smcr_slab *slabs[SMCR_RKEY_DELETE_MAX]; /* DELETE */
		unsigned int num_slabs;
		unsigned int retries; /* negative replies with C in a row */
		bool hold;            /* a negative reply with C came: wait for `retry` */
		struct smcr_timer timer, retry;
	} rkey;
	/* the peer's CONFIRM RKEY while its CONTINUATIONs are due (RKEY-8) */
	struct {
		struct smcr_link *link; /* NULL: none */
		unsigned int left;
		uint32_t rkey;
		uint64_t vaddr;
		struct smcr_llc_link_rtoken other[SMCR_MAX_LINKS];
		unsigned int others;
	} peer_rkey;
	struct smcr_llc_queued
		queue[SMCR_LLC_QUEUE_MAX]; /* the peer's requests, in order (SER-5) */
	unsigned int queued;
	struct smcr_timer work; /* starts what may run now */
};

/* ---- pure rules, one table each ---- */

/** LG-7: the group's limit, from the server's request and the client's reply. */
uint8_t smcr_llc_negotiate_max_links(uint8_t server, uint8_t client);
/** The group's dialect, from the flag bits of the first CONFIRM LINK (docs/dialects.md). */
enum smcr_dialect smcr_llc_choose_dialect(enum smcr_dialect_policy policy, uint8_t request_flags,
					  uint8_t reply_flags);

/** ADDL-3: what a client does with an ADD LINK. */
enum smcr_add_link_answer {
	SMCR_ADD_LINK_REJECT,    /* reason 1 */
	SMCR_ADD_LINK_ON_UNUSED, /* accept on an RNIC that no link uses yet */
	SMCR_ADD_LINK_ON_USED,   /* accept on an RNIC in use */
};
/**
 * @param server_rnic_new  the server's RNIC has no link of the group yet
 * @param have_unused      we have an RNIC on the LAN that has none
 * @param have_asymmetric  the group has an asymmetric link (LG-4)
 */
enum smcr_add_link_answer smcr_llc_add_link_decide(bool server_rnic_new, bool have_unused,
						   bool have_asymmetric);
/** ADDL-16: what a server does with the client's ADD LINK. */
enum smcr_notice_answer {
	SMCR_NOTICE_IGNORE,
	SMCR_NOTICE_MAY,
	SMCR_NOTICE_MUST,
};
/**
 * @param links            links of the group
 * @param asymmetric       one of them is asymmetric
 * @param one_client_rnic  they share the client's RNIC
 * @param limit            symmetric links agreed
 */
enum smcr_notice_answer smcr_llc_notice_decide(unsigned int links, bool asymmetric,
					       bool one_client_rnic, uint8_t limit);
/** ADDL-9: pairs in the message that says `left`, and what the next one says. */
unsigned int smcr_llc_rtokens_pairs(uint8_t left);
uint8_t smcr_llc_rtokens_next(uint8_t left);
/** RKEY-4: specs of other links in a message that says `left`. */
unsigned int smcr_llc_rkey_specs(unsigned int left, bool continuation);

/* ---- rows.c ---- */
/** A request of the peer comes in: note which cells of the collision matrix (3.5.5.3) apply. */
void smcr_rows_collision(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg);

/* ---- llc.c ---- */
int smcr_llc_init(struct smcr_lgr *lgr);
void smcr_llc_free(struct smcr_lgr *lgr);
void smcr_llc_link_init(struct smcr_link *link);
void smcr_llc_link_free(struct smcr_link *link);
/** The exchange about links comes to this step; not IDLE. (Re)starts its timer. */
void smcr_llc_enter(struct smcr_lgr *lgr, enum smcr_llc_step step, struct smcr_link *carrier,
		    struct smcr_link *subject);
/** The exchange is over. Opens the gate of a first contact. `why`, where it has not succeeded, is
 *  for who wants a link more. */
void smcr_llc_end(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why);
/** Client: a new request of the server shows that it has given up its exchange (SER-7). The
 * half-built link goes, unless it is `keep`. */
void smcr_llc_server_gave_up(struct smcr_lgr *lgr, const struct smcr_link *keep);
/** (Re)start the timer of the present step. */
void smcr_llc_await(struct smcr_lgr *lgr);
/** A link has failed: break what runs on it (SER-6), tell the peer on another, or end the group. */
void smcr_llc_link_lost(struct smcr_link *link);
/** Does a link work, or may the exchange that runs still lead to one? */
bool smcr_llc_alive(const struct smcr_lgr *lgr);
/** Deployed dialect: an answer about another link is late. @return true: the link that carried the
 *  question is tested, and may stay if it answers */
bool smcr_llc_carrier_may_stay(struct smcr_link *carrier);
/** The link has answered TEST LINK: it is sound, and an answer that is still missing will not
 * come. */
void smcr_llc_link_answers(struct smcr_link *link);

/* ---- llc_schedule.c ---- */
void smcr_llc_schedule_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** Start what may run now, from the timer queue. */
void smcr_llc_kick(struct smcr_lgr *lgr);

/* ---- llc_send.c ---- */
/** Encode in the group's version and post. A full send queue fails the link. */
void smcr_llc_send(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** The same for an ADD LINK of version 2 that does not reject. */
void smcr_llc_send_rtokens(struct smcr_link *link, const struct smcr_llc_msg *msg,
			   const struct smcr_llc_rtokens *rtokens);
/** An LLC message was completed. */
void smcr_llc_sent(struct smcr_link *link, const struct smcr_tx_entry *entry, bool ok);

/* ---- llc_receive.c ---- */
/** Give a message that may be acted upon to the function that handles its type. */
void smcr_llc_dispatch(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** The link is out of sync (ERR-63): it goes down. */
void smcr_llc_protocol_error(struct smcr_link *link, const char *what);
/** Nothing waits for this message: the link is out of sync. In version 2 the message is dropped,
 * as deployed peers do, because they answer late and repeat what they say. */
void smcr_llc_unexpected(struct smcr_link *link, const char *what);

/* ---- llc_collide.c ---- */
/** What to do with a request that meets an exchange in progress. */
enum smcr_collision {
	SMCR_HANDLE,
	SMCR_QUEUE,   /* keep it until the exchange has ended */
	SMCR_REFUSE,  /* answer with Z and C: to be tried again then */
	SMCR_GAVE_UP, /* the server has given up the exchange: so do we, then handle it (SER-7) */
};
/** The matrix of 3.5.5.3 (SER-4). */
enum smcr_collision smcr_llc_collision(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg);
/** Keep a request of the peer until the exchange that runs has ended (SER-5). */
void smcr_llc_queue(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** Take the next request whose link is still there. @return false: there is none */
bool smcr_llc_dequeue(struct smcr_lgr *lgr, struct smcr_link **ret_link,
		      struct smcr_llc_msg *ret_msg);
/** Forget what came on a link that has failed. */
void smcr_llc_drop_queued(const struct smcr_link *link);

/* ---- llc_first_contact.c ---- */
void smcr_llc_first_contact_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** CLC is done: prove link 1 (RV-8, RV-9). */
void smcr_llc_first_contact(struct smcr_lgr *lgr, struct smcr_link *link);
/** Client: CONFIRM LINK has come. */
void smcr_llc_first_link_asked(struct smcr_link *link, const struct smcr_llc_confirm_link *request);
/** CONFIRM LINK, or its reply, has come, and full-size packets pass. */
void smcr_llc_first_link_proved(struct smcr_link *link,
				const struct smcr_llc_confirm_link *confirm);
/** Client, version 2: no ADD LINK comes. @return true: the connection opens with one link */
bool smcr_llc_go_on_with_one_link(struct smcr_lgr *lgr);
/** First contact, before the point of no return: the SEND just posted must complete soon
 *  (ERR-17, ERR-18). */
void smcr_llc_expect_completion(struct smcr_lgr *lgr);
/** First contact: has the peer owed its next message for so long that it does not get through? A
 *  peer that finds out declines; one with another reason to decline does so at once. */
bool smcr_llc_is_overdue(const struct smcr_lgr *lgr);
/** The exchanges of a first contact are over: its connection opens, if a link works (RV-12). */
void smcr_llc_first_contact_over(struct smcr_lgr *lgr);
/** First contact breaks: Decline before the point of no return (ERR-18), else reset (ERR-7). The
 *  group ends. */
void smcr_llc_first_contact_failed(struct smcr_lgr *lgr, enum smcr_reason reason, int error);
/** The link that carries the exchange has failed, and with it the first contact; perhaps the
 * Decline has to wait. */
void smcr_llc_first_contact_link_lost(struct smcr_lgr *lgr);
/** First contact: the peer does not answer. The TCP connection is broken, the group ends. */
void smcr_llc_first_contact_timed_out(struct smcr_lgr *lgr);

/* ---- llc_confirm_link.c ---- */
struct smcr_llc_msg smcr_llc_confirm_link_of(const struct smcr_link *link, bool reply,
					     uint8_t max_links);
/** Does the message come from the far end that this link was connected to? */
bool smcr_llc_right_sender(const struct smcr_link *link, const struct smcr_llc_confirm_link *c);
/** The peer has shown that the link works. */
void smcr_llc_set_active(struct smcr_link *link, const struct smcr_llc_confirm_link *peer);
/**
 * The peer's CONFIRM LINK has come, and we can send: act on it when full-size packets have passed
 * from here (A67). In first contact a timer bounds that (ERR-17). @return false: act on it now
 */
bool smcr_llc_prove(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm);
/** Full-size packets of the link pass: go on with the CONFIRM LINK that has waited for that. */
void smcr_llc_path_proved(struct smcr_link *link);
/** Server: the answer to CONFIRM LINK takes long. In version 2 say it once more, for deployed
 * clients drop a CONFIRM LINK that comes before they wait for it. @return false: it was said
 * twice */
bool smcr_llc_repeat_confirm(struct smcr_lgr *lgr);
void smcr_llc_on_confirm_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);

/* ---- llc_links.c ---- */
void smcr_llc_links_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** No two links are parallel (LG-3), at most one is asymmetric (LG-4). */
bool smcr_llc_topology_ok(const struct smcr_lgr *lgr);
/** The link without which all links are symmetric, or NULL; of two, the newer one. */
struct smcr_link *smcr_llc_asymmetric_link(const struct smcr_lgr *lgr);
/** Links that count against the limit (LG-4). */
unsigned int smcr_llc_symmetric_links(const struct smcr_lgr *lgr);
/** Server: an asymmetric link that was to go stays if the group would be poorer without it now. */
void smcr_llc_keep_asymmetric(struct smcr_lgr *lgr);
/** An active RNIC on the group's LAN (ADDL-17) that has no link other than `except`; rather one
 * that has no link at all; or NULL. */
struct smcr_device *smcr_llc_unused_device(const struct smcr_lgr *lgr,
					   const struct smcr_link *except);
/** Server: the RNIC to try with, or NULL: nothing can be added (LG-8). `client_changed`: the client
 *  may have an RNIC that it had not. */
struct smcr_device *smcr_llc_add_candidate(const struct smcr_lgr *lgr, bool client_changed);
/** An RNIC has come, or come up, or has got an address: groups on its LAN may use it (ADDL-14,
 *  ADDL-15). */
void smcr_llc_rnic_appeared(struct smcr_engine *engine, const struct smcr_device *device);
/** The same for one group. */
void smcr_llc_rnic_back(struct smcr_lgr *lgr, const struct smcr_device *device);
/** The number of active links has changed: so has the patience of their QPs. */
void smcr_llc_links_changed(struct smcr_lgr *lgr);
/** The patience of its QPs in milliseconds, with one link more if `added` is not active yet. */
uint32_t smcr_llc_patience(const struct smcr_lgr *lgr, const struct smcr_link *added);
/** Client: the RNIC to accept an ADD LINK on, or NULL (ADDL-3). */
struct smcr_device *smcr_llc_device_for(const struct smcr_lgr *lgr,
					const struct smcr_llc_add_link *request);
/** Server: try for another link as soon as nothing else runs. */
void smcr_llc_want_link(struct smcr_lgr *lgr, enum smcr_add_occasion why);
/** Server: start ADD LINK if it is due. @return true: started */
bool smcr_llc_start_add_link(struct smcr_lgr *lgr);
/** Client: tell the server of an RNIC without a link, if that is due (ADDL-15). */
void smcr_llc_send_add_link_notice(struct smcr_lgr *lgr);
/** Version 2: can CONFIRM RKEY tell of one link more? */
bool smcr_llc_room_for_link(const struct smcr_lgr *lgr);
void smcr_llc_on_request_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_request_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** Either side: an attempt to add a link begins; an attempt has ended (ERR-70). */
void smcr_llc_add_attempt(struct smcr_lgr *lgr);
void smcr_llc_add_ended(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why);

/* ---- llc_add_link.c ---- */
/** Server: begin to add a link on `device`. @return 0 or why that is not possible */
int smcr_llc_add_link(struct smcr_lgr *lgr, struct smcr_device *device, struct smcr_link *carrier);
/* Rows of the table of steps. */
/** The answer to ADD LINK, or what follows it, is late. Deployed dialect: the carrier is tested.
 *  @return false: not so, it is as good as lost (C.7.1) */
bool smcr_llc_add_link_overdue(struct smcr_lgr *lgr);
/** The carrier has answered that test, and the peer does not go on: the new link is deleted. */
void smcr_llc_abandon_added(struct smcr_lgr *lgr);
/** The carrier has failed before CONFIRM LINK: there will be no new link. */
void smcr_llc_add_link_carrier_lost(struct smcr_lgr *lgr);
/** The carrier has failed when CONFIRM LINK was due: that comes on the new link, so the exchange
 * goes on. */
void smcr_llc_add_link_without_carrier(struct smcr_lgr *lgr);
/** The new link has failed: have it deleted, as the server; as the client. */
void smcr_llc_delete_added(struct smcr_lgr *lgr);
void smcr_llc_ask_to_delete_added(struct smcr_lgr *lgr);

/** Client: CONFIRM LINK has come on the new link. */
void smcr_llc_added_link_asked(struct smcr_link *link, const struct smcr_llc_confirm_link *request);
/** CONFIRM LINK, or its reply, has come on the new link, and full-size packets pass. */
void smcr_llc_added_link_proved(struct smcr_link *link,
				const struct smcr_llc_confirm_link *confirm);
void smcr_llc_on_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_notice(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_cont(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** The own RKEY exchange has ended, or takes too long: answer a CONTINUATION that waits for it. */
void smcr_llc_add_link_resume(struct smcr_lgr *lgr);

/* ---- llc_rtokens.c ---- */
/** Note which own RMBs the peer knows, and so must learn anew for the new link; no message of the
 *  peer has told its own. */
void smcr_llc_rtokens_list(struct smcr_lgr *lgr);
/** Version 2: those for the new link. */
struct smcr_llc_rtokens smcr_llc_rtokens_own(const struct smcr_llc_flow *flow);
/** Send the next two of them in an ADD LINK CONTINUATION. */
void smcr_llc_rtokens_send_cont(struct smcr_lgr *lgr, bool reply);
/** Take in RTokens of the peer. @return false: they do not fit (ERR-55) */
bool smcr_llc_rtokens_take_cont(struct smcr_lgr *lgr, const struct smcr_llc_add_link_cont *cont);
/** Version 2: take in those that came with ADD LINK. @return false: an RMB in use has none
 * (ERR-55) */
bool smcr_llc_rtokens_take_all(struct smcr_lgr *lgr);
/** Has either side more RTokens to tell? */
bool smcr_llc_rtokens_left(const struct smcr_lgr *lgr);

/* ---- llc_delete_link.c ---- */
void smcr_llc_delete_link_init(struct smcr_link *link);
/** The link is being freed: what was said on it about others is void. */
void smcr_llc_delete_link_free(struct smcr_link *link);
struct smcr_llc_msg smcr_llc_delete_link_of(uint8_t number, uint32_t reason, bool reply);
/** Client: the reply about link `number` was completed on `carrier`. */
void smcr_llc_delete_replied(struct smcr_link *carrier, uint8_t number);
/** Server: send DELETE LINK for `link` on `carrier`, which starts the exchange (DELL-1): the
 * deletion is ORDERED. */
void smcr_llc_order_deletion(struct smcr_lgr *lgr, struct smcr_link *link,
			     struct smcr_link *carrier);
/** Client: the carrier has answered TEST LINK. New links whose deletion was asked for on it are
 * gone. */
void smcr_llc_forget_new_links(struct smcr_link *carrier);
/** Server, deployed dialect: the client does not answer in time. @return true: it has been asked
 *  again */
bool smcr_llc_repeat_delete(struct smcr_lgr *lgr);
/** Has the group another link that works and is not to be deleted either? */
bool smcr_llc_another_stays(const struct smcr_link *link);
/** Server: a link that works is to be deleted in good order: the deletion is WANTED, and own
 *  connections move away first (DELL-3, DELL-4). llc_schedule.c orders it when it is due. */
void smcr_llc_want_deletion(struct smcr_link *link, uint32_t reason);
/** Server: a link that may be deleted now, or NULL. */
struct smcr_link *smcr_llc_deletion_due(const struct smcr_lgr *lgr);
/** Requests on the link have completed, or CLC has put a connection elsewhere: its deletion may be
 *  due. */
void smcr_llc_link_less_busy(struct smcr_link *link);
/** Client: ask for the deletion of links that have failed, or are not wanted any more, and of which
 *  the server has not been told yet. */
void smcr_llc_ask_for_deletions(struct smcr_lgr *lgr);
/** Either: have a link that works deleted in good order, because an operator wants it. */
void smcr_llc_delete_in_order(struct smcr_link *link);
/** A link has failed: have it deleted, unless its deletion has begun. */
void smcr_llc_delete_failed(struct smcr_link *link);
/** Client: a link has failed. Ask again for the deletions that were asked for on it. */
void smcr_llc_ask_again(struct smcr_link *lost);
/** Server: the carrier of the exchange that deletes a link has failed. */
void smcr_llc_delete_link_carrier_lost(struct smcr_lgr *lgr);
/** Take back a deletion that is WANTED: the link stays. */
void smcr_llc_cancel_deletion(struct smcr_link *link);
/** Client: ask for the deletion of a link on another one: a failed one, or one that works, in good
 *  order (DELL-5). */
void smcr_llc_request_delete(struct smcr_link *link);
/** Both sides know that this link is gone: it is freed from the timer queue. */
void smcr_llc_link_agreed_gone(struct smcr_link *link);
void smcr_llc_on_delete_link_request(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_link_refused(struct smcr_link *link, const struct smcr_llc_msg *msg);

/* ---- llc_delete_all.c ---- */
/** End the group with the peer's knowledge (DELL-8, DELL-10, TERM-1). */
void smcr_llc_delete_all(struct smcr_lgr *lgr, uint32_t reason, int error);
/** Send the message of smcr_llc_delete_all() (again) on a link that works, or end the group. */
void smcr_llc_send_delete_all(struct smcr_lgr *lgr);

/* ---- llc_rkey.c ---- */
void smcr_llc_rkey_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** Is a slab to be announced, or to be announced again for a link that it is not told for? */
bool smcr_llc_rkey_due(const struct smcr_slab *slab);
void smcr_llc_confirm_rkey(struct smcr_slab *slab);
/** Withdraw what is deletable. @return false: nothing is */
bool smcr_llc_delete_rkey(struct smcr_lgr *lgr);
/** Must an RMB that the peer may know be announced before a link is added? */
bool smcr_llc_rkey_unsettled(const struct smcr_lgr *lgr);
/** The link that carries the own exchange is gone. */
void smcr_llc_rkey_broken(struct smcr_lgr *lgr);
void smcr_llc_forget_slab(struct smcr_lgr *lgr, struct smcr_slab *slab);
void smcr_llc_on_confirm_rkey(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_rkey_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_rkey_cont(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_rkey_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_rkey(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_rkey_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);

/* ---- llc_test_link.c ---- */
void smcr_llc_test_link_init(struct smcr_link *link);
/** Probe a link; no answer in time, or a wrong one, fails it (ERR-38, TEST-2). */
void smcr_llc_test_link(struct smcr_link *link);
void smcr_llc_on_test_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_test_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);

/* ---- slab.c ---- */
/** Idle long enough, and not the last RMB of its group (RKEY-13). */
bool smcr_slab_deletable(const struct smcr_slab *slab);

#endif
