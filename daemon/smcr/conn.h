/* SPDX-License-Identifier: MIT */
/**
 * @file conn.h
 * Connections: what the engine knows of a connection, how it begins and ends, and how it is found.
 * Functions of the data path are in data.h.
 */
#ifndef SMCRD_SMCR_CONN_H
#define SMCRD_SMCR_CONN_H

#include <uthash.h>

#include "daemon/smcr/lgr.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"

struct smcr_account;

#define SMCR_EYE_CATCHER_LEN 4 /* at the start of an element, RFC dialect (RMB-2) */

enum smcr_conn_phase {
	SMCR_PHASE_RENDEZVOUS, /* CLC, and in first contact LLC: conn->rv tells where */
	SMCR_PHASE_OPEN,       /* ESTABLISHED was raised */
	SMCR_PHASE_GONE,       /* outcome told; being freed */
};

/** What client and server have agreed on for a connection and, in first contact, for its group. */
struct smcr_agreed {
	uint8_t version; /* 0: not known yet */
	/* version 2 */
	uint8_t eid[SMCR_EID_LEN];
	/* and in first contact */
	uint8_t release;
	uint8_t max_conns, max_links;
	bool direct;
};

/** The rendezvous of a connection; clc*.c alone change this. */
struct smcr_conn_rv {
	int step; /* enum smcr_rv_step, clc.h */
	bool first_contact;
	bool give_up; /* decline at the next occasion that the rules allow (ERR-3) */
	uint32_t give_up_reason;
	struct smcr_conn_event outcome;     /* decided, to be raised (RV_OUTCOME, RV_DECLINED) */
	uint8_t decliner[SMCR_PEER_ID_LEN]; /* RV_DECLINED: of the peer */
	struct smcr_timer clc_timer, total_timer;
	uint64_t answer_by; /* the peer waits for our next CLC message: it is sent by then */
	/** The peer's Accept or Confirm, if another connection may still use the element that it
	 * names (RV_S_CONTESTED, RV_C_CONTESTED). */
	struct smcr_clc_accept *contested;
	uint64_t contest_began, contest_ends, contest_look;
	struct smcr_clc_proposal proposal; /* client: as sent; server: as received */
	struct smcr_agreed agreed;
	struct smcr_device
		*device;        /* client: the RNIC that the Proposal named; NULL if it went away */
	struct smcr_link *link; /* the link that CLC names; NULL if it went away */
	struct smcr_lgr *held_by; /* server: waits for the first contact of this group (RV-15) */
	bool has_waited;          /* server: has waited for a first contact that took too long */
	struct smcr_conn *held_next, *held_prev;
};

/** How much of a buffer a connection has used; need.c alone changes this. Positions are byte
 * counts. */
struct smcr_need {
	uint64_t since; /* when the present measurement began */
	uint64_t mark;  /* position at that time: bytes behind it count */
	uint32_t most;  /* the most that was measured; UINT32_MAX: the buffer was full */
};

/** Writing into the peer's element; tx.c alone changes this. Positions are byte counts since the
 * start. */
struct smcr_conn_tx {
	struct smcr_element buf;   /* send buffer, from lgr->sndbufs; size is a power of two */
	uint64_t committed;        /* the program has put this many bytes into the buffer */
	uint64_t written;          /* RDMA writes posted up to here */
	uint64_t completed;        /* their completions up to here: buffer space below is free */
	uint64_t peer_consumed;    /* from the peer's consumer cursor */
	struct smcr_peer_rmb *rmb; /* the peer's RMB that has the element */
	uint8_t index;             /* index of the element in `rmb`, 1-based */
	uint32_t element_size;     /* E of the peer's element */
	uint32_t usable;           /* U: E, or E-4 in the RFC dialect */
	struct smcr_link *link;    /* for own writes (RS-11); NULL: none is left */
	bool moving; /* `link` is new, the validation has not been posted there (failover.c) */
	uint32_t
		outstanding; /* requests posted and not completed, over all links; kept by link.c */
	uint32_t proofs;     /* those of them that prove a link (path_mtu.c) */
	bool blocked_sent;   /* B of the last CDC */
	bool cdc_due;        /* a CDC must go even without data */
	bool asking;     /* CDCs carry R until the peer answers: it may not know the connection */
	bool freed;      /* buffer space has become free since the last WRITABLE */
	bool ack_wanted; /* the RNIC was asked to hurry the last CDC's completion */
	bool done_sent, closed_sent; /* D, C */
	bool abort_due, abort_sent;  /* A */
	uint16_t cdc_seq;            /* number of the last CDC posted; first is 1 (CDC-2) */
	uint16_t cdc_completed;      /* SS (FO-5) */
	bool urgent;         /* the peer has not consumed an urgent byte that was committed */
	bool urgent_soon;    /* another urgent byte is announced, and not committed yet */
	uint64_t urgent_end; /* position behind it, where writing stops (URG-3) */
	bool urgent_told;    /* U was sent, and no data since */
	uint16_t urgent_seq; /* number of the first CDC with that U */
	bool waiting;        /* in link->waiting */
	struct smcr_conn *wait_next, *wait_prev;
	bool held_back;                 /* no data before a CDC of the peer comes (denied.c) */
	struct smcr_timer answer_timer; /* how long `held_back` may last */
	uint64_t bytes;
	struct smcr_need need;
	/* for operators */
	uint64_t said;        /* when the last CDC was posted */
	uint64_t timed_since; /* when the CDC whose round trip is measured was posted; 0: none is */
	uint16_t timed_seq;
	uint32_t rtt; /* microseconds from posting a CDC until its completion; 0: not known */
	uint32_t moves;
	uint64_t requests, full, window_full; /* as in struct smcr_flow_stats */
};

/** The own element; rx.c alone changes this. */
struct smcr_conn_rx {
	struct smcr_element element;
	uint32_t usable;            /* U */
	uint64_t produced;          /* from the peer's producer cursor: readable up to here */
	uint64_t consumed;          /* the program has taken the bytes up to here */
	uint64_t consumed_sent;     /* the position that the last CDC told the peer */
	bool peer_blocked;          /* B of the peer's last CDC (WIN-3) */
	bool update_requested;      /* R (WIN-4) */
	bool urgent;                /* U came, and no own CDC has acknowledged the byte yet */
	uint64_t urgent_end;        /* one past the last byte that U named */
	bool urgent_pending;        /* the peer's last CDC had P without U */
	uint16_t cdc_seq;           /* SR: last number processed, 0 if none */
	bool done, closed, aborted; /* D, C, A seen */
	bool early_lost;  /* a validation that came before the gate opened found data missing */
	bool early_valid; /* `early` is the newest CDC from before the gate (RV-13, RS-9) */
	struct smcr_cdc early;
	struct smcr_link *last_link; /* the link on which the last CDC came (TEST-8) */
	uint64_t heard;              /* when the last CDC came */
	uint64_t bytes;
	struct smcr_need need;
	uint64_t requests, full; /* as in struct smcr_flow_stats */
};

struct smcr_conn {
	struct smcr_engine *engine;
	struct smcr_conn_params params;
	enum smcr_conn_phase phase;
	enum smcr_conn_state state;
	uint64_t began; /* when the rendezvous began */
	bool in_gap;    /* lgr->gap counts it */
	struct smcr_lgr *lgr;
	uint32_t token; /* the alert token in the peer's CDCs (CLC-12); 0: none yet */
	uint32_t peer_token;
	struct smcr_conn_rv rv;
	struct smcr_conn_tx tx;
	struct smcr_conn_rx rx;
	struct { /* account.c; NULL: the accounts are not open */
		struct smcr_account *user, *peer;
		uint64_t held; /* bytes, as both accounts were told last */
	} accounts;
	bool shared; /* share.c: the host has to hear before the memory is given away */
	/* close.c */
	bool app_closed;   /* the host called close or abort: no events but CLOSED */
	bool app_shutdown; /* shutdown(WR) asked */
	bool reset_raised; /* RESET was raised: only CLOSED follows */
	bool told;         /* CLOSED was raised: the host has forgotten it, params.user is NULL */
	bool peer_first;   /* the peer has sent D or C, and this side had sent neither */
	bool tcp_reset;    /* TCP ends by RST */
	bool tcp_fin;      /* FIN came */
	bool tcp_rst;      /* RST came */
	struct smcr_timer close_timer, fin_timer, rst_timer;
	/* keepalive.c */
	uint64_t keepalive_interval; /* 0: none */
	uint64_t last_active;        /* when a message last came, or was delivered (TEST-3) */
	struct smcr_timer keepalive;
	struct smcr_conn *lgr_next, *lgr_prev;
	struct smcr_conn *next, *prev; /* engine->conns */
	UT_hash_handle hh;             /* engine->tokens by `token`, once that is not 0 */
	UT_hash_handle peer_hh;        /* lgr->peer_tokens, while tx.rmb is set */
};

/** The connection with this alert token, or NULL if there is none, or not any more (CDC-5). */
struct smcr_conn *smcr_conn_by_token(const struct smcr_engine *engine, uint32_t token);
/** Give the connection an alert token: not zero, unique, and none of the last 65535 tokens, so that
 * a late CDC for a connection that is gone is not given to another connection (CLC-12). */
void smcr_conn_new_token(struct smcr_conn *conn);
/** Raise the event and count it. After FALLBACK, FAILED or CLOSED call smcr_conn_free(). */
void smcr_conn_raise(struct smcr_conn *conn, const struct smcr_conn_event *event);
/** If the connection's memory is shared with its program, end that. Has to be called before the
 * memory is given away, and while params.user is set; does nothing when called again. */
void smcr_conn_unshare(struct smcr_conn *conn);
/** Give back the element, the send buffer, the token and the claim on the peer's element, and leave
 * the group; the connection goes on without a group. */
void smcr_conn_detach(struct smcr_conn *conn);
/** Detach the connection and free it. Raises no event. */
void smcr_conn_free(struct smcr_conn *conn);

#endif
