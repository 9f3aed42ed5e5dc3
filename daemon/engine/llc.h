/* SPDX-License-Identifier: MIT */
/**
 * @file llc.h
 * The LLC exchanges of a link group (RFC 7609 3.5.1, 3.5.5, C.7, C.8): what they keep, and what
 * starts, carries and ends each of them. What one of them does has a header of its own, as
 * llc_add_link.h.
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
		uint64_t last;   /* when the last attempt began */
		uint64_t delay;  /* the last pause after a failure; 0: nothing has failed */
		bool unanswered; /* client: the server was told, and no attempt has begun since */
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

#endif
