/* SPDX-License-Identifier: MIT */
/** @file obs.h What the observer's own files share. */
#ifndef SMCRD_TESTS_SIM_OBS_H
#define SMCRD_TESTS_SIM_OBS_H

#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"
#include "tests/sim/observer.h"

/* Sides of a group are named as those of its connections: CLIENT, SERVER. */

enum {
	X_ADD = 1,         /* ADD LINK .. CONFIRM LINK */
	X_DEL = 2,         /* the server's DELETE LINK of one link */
	X_RKEY_CLIENT = 4, /* CONFIRM or DELETE RKEY */
	X_RKEY_SERVER = 8,
};

struct obs_link {
	struct obs_group *group;
	struct qp *qp[2];
	uint8_t number; /* 0: not told yet */
	bool first;     /* of the group: from CLC */
	bool confirmed; /* CONFIRM LINK was sent on it */
	bool active[2]; /* the side knows that the link is active */
	bool doomed;    /* its deletion was asked for, or has begun */
	bool gone[2];   /* the side's QP is destroyed, or it knows that the link is deleted */
	bool proven[2]; /* the side knows that full-size packets of its own pass */
	uint32_t proofs_open[2]; /* WRITEs of the side under way that try full-size packets */
	uint32_t uid[2];
	struct obs_link *next, *prev;
};

struct obs_token {
	struct obs_link *link;
	uint32_t rkey;
	uint64_t vaddr;
	bool told; /* the peer has received the message with the token */
};

struct obs_rmb {
	struct obs_group *group;
	int owner; /* side */
	struct block *block;
	uint32_t element_size; /* 0 until CLC tells it */
	bool confirmed;        /* the owner knows that the RMB is announced */
	bool announced;        /* the exchange that announces the RMB is complete at the peer */
	bool deleting;         /* DELETE RKEY was sent */
	bool deleted;          /* the peer has answered DELETE RKEY */
	bool delete_confirmed; /* that answer has reached the owner */
	struct obs_token token[SMCR_MAX_LINKS_TOTAL + 1];
	struct obs_flow *user[SMCR_MAX_ELEMENTS + 1]; /* flow that was given the element last */
	struct obs_rmb *next, *prev;
};

/** One direction of a connection. */
struct obs_flow {
	struct obs_conn *conn;
	int writer;          /* the side that writes; the other side owns the element */
	struct obs_rmb *rmb; /* NULL until CLC tells it */
	uint8_t index;
	uint32_t token;    /* the owner's alert token, which the writer puts into its CDCs */
	UT_hash_handle hh; /* by (owner's host, token) */
	struct {
		uint32_t host, token;
	} key;
	/* posted by the writer */
	uint64_t written;
	struct qp *qp;        /* on which it posts */
	uint32_t open;        /* requests whose completion the writer has not seen */
	uint32_t writes_open; /* WRITEs among them */
	uint64_t done_pos;    /* end of the last WRITE that completed */
	uint16_t done_seq;    /* sequence number of the last CDC that completed (SS) */
	bool last_done;       /* the last CDC that was posted has completed */
	bool unproven;        /* F was sent, and nothing has completed since */
	bool moved;           /* F was sent, and no CDC with a number of its own since */
	bool any_cdc;
	struct smcr_cdc last;        /* the last CDC that the writer posted */
	uint64_t produced, consumed; /* positions in that CDC; consumed: in the writer's element */
	bool owed;                   /* a window update is due, but had to wait for the link */
	/* delivered to the owner */
	uint64_t seen_produced, seen_consumed;
	bool seen_any;
	struct smcr_cdc seen;
};

/** A connection from its Proposal on. */
struct obs_conn {
	struct pair *pair;
	struct obs_group *group; /* from Accept on */
	bool proposal_sent, proposal_seen, accept_sent, accept_seen, confirm_sent, confirm_seen;
	bool decline_sent[2], decline_seen[2];
	bool gone[2]; /* the side's engine has freed the connection */
	bool pnr[2];  /* first contact: the side is past its point of no return (ERR-8) */
	struct smcr_clc_proposal proposal; /* as the server has received it */
	unsigned int ueid_changes;         /* how often the server's UEIDs had changed by then */
	struct smcr_clc_accept accept, confirm;
	struct obs_flow flow[2]; /* by writer */
	struct obs_conn *next, *prev;
};

struct obs_request {
	bool used;
	struct obs_link *link;
	int from;
	bool delivered;
	bool expect_negative; /* it crossed an exchange of the server and must be refused (SER-4) */
	struct smcr_llc_msg msg;
	uint8_t raw[SMCR_LLC_LEN];
};

#define OBS_MAX_REQUESTS 16

/** Tokens of a CONFIRM RKEY in progress. */
struct obs_stage {
	struct obs_rmb *rmb;
	struct obs_token token[SMCR_MAX_LINKS_TOTAL + 1];
	size_t num;
	uint8_t left; /* tokens that CONTINUATIONs have still to bring */
	uint8_t others[SMCR_MAX_LINKS_TOTAL + 1]; /* numbers of the links that need a token */
	size_t num_others;
};

struct obs_group {
	struct observer *obs;
	uint32_t number;
	struct host *host[2];
	struct obs_conn *first; /* connection of the first contact */
	uint8_t version;        /* of SMC-R, as Accept told */
	uint8_t agreed_links;   /* version 2 */
	uint8_t agreed_conns;   /* version 2, from release 1 on */
	unsigned int asked;     /* version 2: REQUEST ADD LINKs that were not refused */
	unsigned int longs[2];  /* version 2: long SENDs of that side under way */
	unsigned int late[2];   /* exchanges that the side heard of during its long SENDs */
	uint64_t began;         /* when Accept was sent */
	uint64_t proven_at;     /* when the first link was proven */
	struct obs_link *links;
	struct obs_rmb *rmbs;
	bool ended;       /* declined, or DELETE LINK of all */
	bool shaky;       /* something failed: until settle() exchanges may be given up */
	uint64_t busy_at; /* last LLC message, failure or end of a freeze */
	bool changed;     /* links have come or gone after the first contact */
	bool dialect_known;
	enum smcr_dialect dialect;
	uint8_t confirm_flags[2], max_links[2];
	bool gate[2];                        /* that side may send data */
	unsigned int known[2];               /* exchanges that the side knows to be in progress */
	const struct obs_link *rkey_link[2]; /* carries the side's latest RKEY exchange */
	bool add_attempted;
	uint8_t used_numbers[32];
	struct obs_link *anchor; /* harm.h */
	bool exposed;
	bool dirty; /* links or RTokens have changed: check RKEY-11 again */
	/* the ADD LINK in progress */
	struct obs_link *adding;
	struct obs_link *carrier;
	int cont_left[2]; /* -1: its first CONTINUATION has not come */
	bool cont_turn_client;
	size_t cont_told[2];
	struct obs_stage stage[2];
	struct obs_request requests[OBS_MAX_REQUESTS];
	struct obs_group *next, *prev;
};

struct observer {
	struct world *world;
	struct obs_group *groups;
	struct obs_conn *conns;
	struct obs_flow *tokens; /* hash by (host, token) */
	struct witnesses seen;
	uint32_t next_group;
};

static inline const char *side_text(int side)
{
	return side == SERVER ? "server" : "client";
}

/** The observer judges nothing after a failure of the run, nor when messages are mangled or forged.
 */
static inline bool obs_blind(const struct observer *obs)
{
	return obs->world->failed || obs->world->set.hostile || obs->world->set.forged;
}

static inline struct side *flow_writer(const struct obs_flow *flow)
{
	return &flow->conn->pair->side[flow->writer];
}

/** Which side of the link's group does this QP belong to? */
static inline int link_side(const struct obs_link *link, const struct qp *qp)
{
	return link->qp[SERVER] == qp ? SERVER : CLIENT;
}

static inline uint32_t flow_base(const struct obs_flow *flow)
{
	return flow->conn->group->dialect == SMCR_DIALECT_RFC ? 4 : 0;
}

/** Usable bytes of the element the flow writes into. */
static inline uint32_t flow_usable(const struct obs_flow *flow)
{
	return flow->rmb->element_size - flow_base(flow);
}

/* obs_clc.c */
struct obs_conn *obs_conn_of(struct observer *obs, struct pair *pair);

/* obs_version.c: which version, and what version 2 says in CLC */
void version_proposal_sent(struct world *w, const struct side *side,
			   const struct smcr_clc_proposal *msg);
void version_accept_sent(struct world *w, const struct obs_conn *conn, const struct side *side,
			 const struct smcr_clc_accept *msg);
void version_confirm_sent(struct world *w, const struct obs_conn *conn, const struct side *side,
			  const struct smcr_clc_accept *msg);
void version_decline_sent(struct world *w, const struct obs_conn *conn, const struct side *side,
			  const struct smcr_clc_decline *msg);
/** The Accept has put the connection into its group. */
void version_joined(struct obs_conn *conn, const struct smcr_clc_accept *msg);
/** Is it possible that the group could take no further connection? */
bool version_may_be_full(const struct obs_group *group);

/* obs_rmb.c: RMBs, elements and tokens */
/** The RMB behind a token of `side`, checked against the fabric: a live MR of that QP that may be
 *  written remotely, starting at vaddr. NULL after a violation. */
struct block *rmb_block(struct observer *obs, struct qp *qp, uint32_t rkey, uint64_t vaddr,
			const char *what);
struct obs_rmb *rmb_new(struct obs_group *group, int owner, struct block *block);
struct obs_token *rmb_token(struct obs_rmb *rmb, const struct obs_link *link);
void rmb_set_token(struct obs_rmb *rmb, struct obs_link *link, uint32_t rkey, uint64_t vaddr,
		   bool told);
void rmb_drop_tokens(struct obs_group *group, const struct obs_link *link);
/** CLC gives the element to the flow: it must be free (RMB-7, RMB-8). */
void rmb_claim(struct obs_rmb *rmb, uint8_t index, uint32_t element_size, struct obs_flow *flow);
bool rmb_in_use(const struct obs_rmb *rmb);
size_t rmb_count(const struct obs_group *group, int owner);
/** RKEY-11 as far as `side` knows about the other's RMBs. */
void rmb_check_complete(struct obs_group *group, int side);

/* obs_llc.c */
/** Decode in the group's version. `ret_rtokens`: those of an ADD LINK of version 2, else none. */
int group_decode(const struct obs_group *group, const uint8_t *data, size_t len,
		 struct smcr_llc_msg *ret_msg, struct smcr_llc_rtokens *ret_rtokens);
int group_encode(const struct obs_group *group, const struct smcr_llc_msg *msg,
		 const struct smcr_llc_rtokens *rtokens, uint8_t *data, size_t len);
static inline bool group_is_v2(const struct obs_group *group)
{
	return group->version == SMCR_CLC_VERSION_2;
}
/** `side` starts an exchange (SER-2), or learns that one has started, or ended. */
void exchange_start(struct obs_group *group, int side, unsigned int bit);
/** `side` hears of an exchange that the other side has started. */
void exchange_learnt(struct obs_group *group, int side, unsigned int bit);
void exchange_end(struct obs_group *group, int side, unsigned int bit);
/** The request that this reply of `from` answers. The request is forgotten; its `raw` stays valid
 *  until the next request. */
struct obs_request *request_answered(struct obs_link *link, int from,
				     const struct smcr_llc_msg *reply);
/** The link is gone for that side: the side answers nothing on the link any more. */
void requests_void(const struct obs_link *link, int side);
struct obs_link *link_by_number(struct obs_group *group, uint8_t number);
void llc_posted(struct observer *obs, struct obs_link *link, int from, const uint8_t *data,
		size_t len);
void llc_delivered(struct observer *obs, struct obs_link *link, int to, const uint8_t *data,
		   size_t len);
void llc_done(struct observer *obs, struct obs_link *link, int from, const uint8_t *data,
	      size_t len);
/* obs_add.c */
void add_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
		const struct smcr_llc_rtokens *rtokens, const struct obs_request *request);
void add_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg,
		   const struct smcr_llc_rtokens *rtokens);
/** REQUEST ADD LINK, or its refusal. */
void request_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg);
void confirm_link_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
			 const struct obs_request *request);
void confirm_link_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg);
/** The client has confirmed the link, and in first contact the server's packets pass. */
void server_goes_on(struct obs_link *link);
void delete_link_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
			const struct obs_request *request);
void delete_link_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg);
/* obs_rkey.c */
/** RTokens inside ADD LINK (version 2). */
void rtokens_posted(struct obs_link *link, int from, const struct smcr_llc_rtokens *rtokens);
void rtokens_delivered(struct obs_link *link, int to, const struct smcr_llc_rtokens *rtokens);
void cont_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg);
void cont_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg);
/** Both sides have told every RMB for the new link. */
void cont_check_complete(struct obs_group *group);
void rkey_posted(struct obs_link *link, int from, const struct smcr_llc_msg *msg,
		 const struct obs_request *request);
void rkey_delivered(struct obs_link *link, int to, const struct smcr_llc_msg *msg);

/* obs_cdc.c */
void cdc_posted(struct observer *obs, struct qp *qp, struct request *req);
void cdc_delivered(struct observer *obs, struct qp *qp, const uint8_t *data, size_t len);
void write_posted(struct observer *obs, struct qp *qp, struct request *req);
void flow_settled(const struct request *req, bool ok);

/* obs_path.c */
/** Is this WRITE no data, but a trial of full-size packets? Then it must be harmless. */
bool proof_posted(struct observer *obs, struct qp *qp, struct request *req, struct obs_flow *flow,
		  uint64_t offset);
/** The trial WRITE lands in the memory `target`. */
void proof_lands(struct observer *obs, const struct request *req, const uint8_t *target);
void proof_settled(struct observer *obs, struct qp *qp, const struct request *req, bool ok);
/** The connection opens at that side: none of the side's trial WRITEs is under way, and all links
 * of the first contact are proven. */
void proof_check(struct observer *obs, const struct obs_conn *conn, int side);

/* describe.c: messages for the event log */
const char *describe_send(const uint8_t *data, size_t len, enum smcr_dialect dialect);
const char *describe_clc(const uint8_t *data, size_t len);

#endif
