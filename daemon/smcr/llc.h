/* SPDX-License-Identifier: MIT */
/**
 * @file llc.h
 * The LLC exchanges of a link group (RFC 7609 3.5.1, 3.5.5, C.7, C.8): their state, and what
 * starts, carries and ends them. Each exchange has a header of its own, as llc_add_link.h.
 *
 * A group has one exchange about links at a time (`step`), which the server starts and the client
 * serves. Beside it each side may have an RKEY exchange (SER-2, SER-3). The table in llc_steps.c
 * says what each step means. To start an exchange, code leaves a mark (a slab that is NEW and in
 * use, a link whose deletion is WANTED) and calls smcr_llc_kick(). llc_schedule.c alone decides
 * what may run. So an exchange that a link failure has broken is found again when the group is
 * stable (SER-6).
 */
#ifndef SMCRD_SMCR_LLC_H
#define SMCRD_SMCR_LLC_H

#include "daemon/smcr/internal.h"
#include "daemon/smcr/llc_steps.h"

/** Where the own RKEY exchange is. */
enum smcr_rkey_step {
	SMCR_RKEY_IDLE,
	SMCR_RKEY_CONFIRM, /* CONFIRM RKEY or a CONTINUATION sent, the reply is awaited (ERR-37) */
	SMCR_RKEY_DELETE,  /* DELETE RKEY sent, the reply is awaited (ERR-39) */
};

#define SMCR_LLC_QUEUE_MAX   16
#define SMCR_RKEY_DELETE_MAX 8

struct smcr_llc_queued {
	uint64_t link_ref; /* the link on which it came */
	struct smcr_llc_msg msg;
};

/** Version 2: the most links of a group. CONFIRM RKEY has room for the RTokens of two links beside
 * the one that carries it, and there is no CONTINUATION. */
#define SMCR_V2_LINKS_TOTAL 3

/** An RToken as it was when a CONFIRM RKEY exchange began. */
struct smcr_llc_told {
	uint64_t ref; /* of the link */
	uint8_t number;
	uint32_t rkey;
	uint64_t vaddr;
};

/** Why the server tries to add a link (ADDL-14, ERR-71). */
enum smcr_add_occasion {
	SMCR_ADD_MORE,     /* an attempt has succeeded: perhaps another one does too */
	SMCR_ADD_RNIC,     /* an own RNIC has appeared on the LAN */
	SMCR_ADD_NOTICE,   /* the client has told of an RNIC */
	SMCR_ADD_LOSS,     /* a link was lost */
	SMCR_ADD_OPERATOR, /* a command of an operator */
	SMCR_ADD_TIMER,    /* the pause after a failure is over */
};

struct smcr_llc_flow {
	/* the exchange about links */
	enum smcr_llc_step step;
	uint64_t entered;             /* when it came to this step */
	struct smcr_link *carrier;    /* the link it runs on */
	struct smcr_link *subject;    /* the link it is about */
	struct smcr_timer timer;      /* for the answer */
	struct smcr_timer send_timer; /* first contact: for the completion of the own SEND */
	struct smcr_llc_confirm_link request; /* first CONFIRM LINK: the request */
	/** The link whose full-size packets have to pass (path_mtu.c) before we act on the peer's
	 * CONFIRM LINK, which is in `confirm`; NULL: none */
	struct smcr_link *proving;
	struct smcr_llc_confirm_link confirm;
	unsigned int repeated; /* how often CONFIRM LINK or DELETE LINK was repeated */
	/* trying to add a link (llc_links.c) */
	struct {
		bool wanted; /* server: ADD LINK is due; client: the notice of an RNIC is due */
		bool client_changed; /* server: the client may have a new RNIC */
		uint64_t told; /* client: when it told of an RNIC without an answer yet; 0: never */
		enum smcr_add_occasion why;
		uint64_t last;   /* when the last attempt began */
		uint64_t delay;  /* the last pause after a failure; 0: nothing has failed */
		bool unanswered; /* client: the server was told, and no attempt has begun since */
		struct smcr_timer retry; /* ERR-70 */
		/* server, version 2: REQUEST ADD LINK came on link `asked_on` and has to be
		 * answered */
		bool asked;
		uint64_t asked_on;
		/** Number of the new link that this side abandoned last, if the peer may still send
		 * a message about it; else 0 */
		uint8_t abandoned;
	} add;
	/* ADD LINK of version 2 */
	struct smcr_llc_rtokens rtokens; /* in the last ADD LINK that came */
	bool add_held; /* client: `held_add` waits for the own CONFIRM RKEY exchange */
	struct smcr_llc_queued held_add;
	/* ADD LINK CONTINUATION */
	struct smcr_slab *own[SMCR_MAX_RMBS]; /* the RMBs to tell, in order */
	unsigned int own_count, own_next;
	bool peer_counted; /* the first RTokens have come, with CONTINUATION or ADD LINK */
	uint8_t peer_left; /* what the peer's next CONTINUATION must say (ADDL-9) */
	bool cont_held;    /* client: `held_cont`, the first, waits for the own RKEY exchange */
	bool cont_overdue; /* the own RKEY exchange takes too long: do not wait for it */
	bool add_overdue;  /* deployed dialect: an answer is late, the carrier is tested */
	struct smcr_llc_add_link_cont held_cont;
	/* own RKEY exchange */
	struct {
		enum smcr_rkey_step step;
		struct smcr_link *link;                      /* the link that carries it */
		struct smcr_slab *slab;                      /* CONFIRM */
		struct smcr_llc_told other[SMCR_LINK_SLOTS]; /* CONFIRM: the other links */
		unsigned int others, sent;
		bool continued; /* the reply to a CONTINUATION is awaited */
		struct smcr_slab *slabs[SMCR_RKEY_DELETE_MAX]; /* DELETE */
		unsigned int num_slabs;
		unsigned int retries; /* how many negative replies with C came in a row */
		bool hold;            /* after a negative reply with C: wait for `retry` */
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
		struct smcr_timer timer; /* for the next CONTINUATION (A71) */
	} peer_rkey;
	/* the answer to the peer's DELETE RKEY while a WRITE to one of those RMBs is under way */
	struct {
		struct smcr_link *link; /* NULL: none */
		struct smcr_llc_msg reply;
		struct smcr_timer timer; /* it goes then at the latest */
	} withdrawal;
	struct smcr_llc_queued
		queue[SMCR_LLC_QUEUE_MAX]; /* requests of the peer, in order (SER-5) */
	unsigned int queued;
	struct smcr_timer work; /* starts what may run now */
};

/* ---- rows.c ---- */
/** A request of the peer has come: count the cells of the collision matrix (3.5.5.3) that apply. */
void smcr_rows_collision(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg);

/* ---- llc.c ---- */
int smcr_llc_init(struct smcr_lgr *lgr);
void smcr_llc_free(struct smcr_lgr *lgr);
void smcr_llc_link_init(struct smcr_link *link);
void smcr_llc_link_free(struct smcr_link *link);
/** The exchange about links comes to `step`, not IDLE. Starts the timer of the step. */
void smcr_llc_enter(struct smcr_lgr *lgr, enum smcr_llc_step step, struct smcr_link *carrier,
		    struct smcr_link *subject);
/** The exchange is over. Opens the gate of a first contact. If the exchange has not succeeded,
 * `why` says why no link was added. */
void smcr_llc_end(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why);
/** Client: a new request of the server shows that the server has given up its exchange (SER-7).
 * Drop the half-built link, unless it is `keep`. */
void smcr_llc_server_gave_up(struct smcr_lgr *lgr, const struct smcr_link *keep);
/** Restart the timer of the present step. */
void smcr_llc_await(struct smcr_lgr *lgr);
/** A link has failed: break off the exchanges on it (SER-6), tell the peer on another link, or end
 * the group. */
void smcr_llc_link_lost(struct smcr_link *link);
/** Does a link of the group work, or may the running exchange still lead to one? */
bool smcr_llc_alive(const struct smcr_lgr *lgr);
/** Deployed dialect: an answer about another link is late. @return true: the carrier is being
 * tested, and stays if it answers */
bool smcr_llc_carrier_may_stay(struct smcr_link *carrier);
/** The link has answered TEST LINK, so it works, and an answer that is still missing will not
 * come. */
void smcr_llc_link_answers(struct smcr_link *link);

/* ---- llc_schedule.c ---- */
void smcr_llc_schedule_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** Start what may run now, from the timer queue. */
void smcr_llc_kick(struct smcr_lgr *lgr);

/* ---- llc_send.c ---- */
/** Encode a message in the group's version and post it. If the send queue is full, the link
 * fails. */
void smcr_llc_send(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** The same for an ADD LINK of version 2 that is no rejection. */
void smcr_llc_send_rtokens(struct smcr_link *link, const struct smcr_llc_msg *msg,
			   const struct smcr_llc_rtokens *rtokens);
/** The SEND of an LLC message has completed. */
void smcr_llc_sent(struct smcr_link *link, const struct smcr_tx_entry *entry, bool ok);

/* ---- llc_receive.c ---- */
/** Give a message that may be handled now to the function for its type. */
void smcr_llc_dispatch(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** The link is out of sync (ERR-63): it fails. */
void smcr_llc_protocol_error(struct smcr_link *link, const char *what);
/** Nothing waits for this message: the link is out of sync. In version 2 the message is only
 * dropped, because deployed peers answer late and repeat messages. */
void smcr_llc_unexpected(struct smcr_link *link, const char *what);

/* ---- llc_collide.c ---- */
/** What to do with a request that comes during an exchange. */
enum smcr_collision {
	SMCR_HANDLE,
	SMCR_QUEUE,   /* keep it until the exchange has ended */
	SMCR_REFUSE,  /* answer with Z and C: the peer has to try again */
	SMCR_GAVE_UP, /* the server has given up the exchange: so do we, then handle (SER-7) */
};
/** The matrix of 3.5.5.3 (SER-4). */
enum smcr_collision smcr_llc_collision(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg);
/** Keep a request of the peer until the running exchange has ended (SER-5). */
void smcr_llc_queue(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** Take the next queued request whose link still exists. @return false: there is none */
bool smcr_llc_dequeue(struct smcr_lgr *lgr, struct smcr_link **ret_link,
		      struct smcr_llc_msg *ret_msg);
/** Forget the queued requests of a link that has failed. */
void smcr_llc_drop_queued(const struct smcr_link *link);

#endif
