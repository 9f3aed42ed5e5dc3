/* SPDX-License-Identifier: MIT */
/**
 * @file conn.h
 * Connections: all that is known of one, its life and lookup. What its data path shares is in
 * data.h.
 */
#ifndef SMCRD_ENGINE_CONN_H
#define SMCRD_ENGINE_CONN_H

#include <uthash.h>

#include "daemon/engine/lgr.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"

struct smcr_account;

#define SMCR_EYE_CATCHER_LEN 4 /* at the start of an element, RFC dialect (RMB-2) */

enum smcr_conn_phase {
	SMCR_PHASE_RENDEZVOUS, /* CLC, and in first contact LLC: conn->rv tells where */
	SMCR_PHASE_OPEN,       /* ESTABLISHED was raised */
	SMCR_PHASE_GONE,       /* outcome told; being freed */
};

/** What client and server agree on for a connection, and in first contact for its group. */
struct smcr_agreed {
	uint8_t version; /* 0: not known yet */
	/* version 2 */
	uint8_t eid[SMCR_EID_LEN];
	/* and in first contact */
	uint8_t release;
	uint8_t max_conns, max_links;
	bool direct;
};

/** Rendezvous side of a connection; owned by clc*.c. */
struct smcr_conn_rv {
	int step; /* enum smcr_rv_step, rendezvous.h */
	bool first_contact;
	bool give_up; /* decline at the next occasion that the rules allow (ERR-3) */
	uint32_t give_up_reason;
	struct smcr_conn_event outcome;     /* decided, to be raised (RV_OUTCOME, RV_DECLINED) */
	uint8_t decliner[SMCR_PEER_ID_LEN]; /* whose Decline may still come (RV_DECLINED) */
	struct smcr_timer clc_timer, total_timer;
	uint64_t answer_by; /* the peer waits for our next message: something is said until then */
	/** The element that this names may have another user still (RV_S_CONTESTED,
	 * RV_C_CONTESTED); since when, and how long that may take. */
	struct smcr_clc_accept *contested;
	uint64_t contest_began, contest_ends, contest_look;
	struct smcr_clc_proposal proposal; /* client: as sent; server: as received */
	struct smcr_agreed agreed;
	struct smcr_device
		*device;        /* client: the RNIC that the Proposal named; NULL if it went away */
	struct smcr_link *link; /* the link that CLC names; NULL if it went away */
	struct smcr_lgr *held_by; /* server: waits for this first contact (RV-15) */
	bool has_waited;          /* server: in vain, for one that took long */
	struct smcr_conn *held_next, *held_prev;
};

/** How much of a buffer a connection has used; owned by need.c. Positions are byte counts. */
struct smcr_need {
	uint64_t since; /* what came since then counts, */
	uint64_t mark;  /* which is what is behind here */
	uint32_t most;  /* UINT32_MAX: all, and it could have been more */
};

/** Writing into the peer's element; owned by tx.c. Positions are byte counts since the start. */
struct smcr_conn_tx {
	struct smcr_element buf;   /* send buffer, from lgr->sndbufs; size is a power of two */
	uint64_t committed;        /* the program has put this many bytes into the buffer */
	uint64_t written;          /* RDMA writes posted up to here */
	uint64_t completed;        /* their completions up to here: buffer space below is free */
	uint64_t peer_consumed;    /* from the peer's consumer cursor */
	struct smcr_peer_rmb *rmb; /* where to */
	uint8_t index;             /* element index there, 1-based */
	uint32_t element_size;     /* E of the peer's element */
	uint32_t usable;           /* U: E, or E-4 in the RFC dialect */
	struct smcr_link *link;    /* own choice (RS-11); NULL: none is left, one may come */
	bool moving; /* `link` is new, the validation has not been posted there (failover.c) */
	uint32_t
		outstanding; /* requests posted and not completed, over all links; kept by link.c */
	bool blocked_sent;   /* B of the last CDC */
	bool cdc_due;        /* a CDC must go even without data */
	bool asking;         /* R is said until the peer answers: it may not know us any more */
	bool freed;          /* buffer space came free since WRITABLE was raised last */
	bool done_sent, closed_sent; /* D, C */
	bool abort_due, abort_sent;  /* A */
	uint16_t cdc_seq;            /* number of the last CDC posted; first is 1 (CDC-2) */
	uint16_t cdc_completed;      /* SS (FO-5) */
	bool urgent;         /* an urgent byte was committed that the peer has not consumed */
	bool urgent_soon;    /* another one was announced, and not committed yet */
	uint64_t urgent_end; /* one past it: nothing is written beyond (URG-3) */
	bool urgent_told;    /* U was said, and no data written since */
	uint16_t urgent_seq; /* number of the first CDC that said it */
	bool waiting;        /* in link->waiting */
	struct smcr_conn *wait_next, *wait_prev;
	bool held_back;                 /* no data before the peer has said something (denied.c) */
	struct smcr_timer answer_timer; /* for that it has so long */
	uint64_t bytes;
	struct smcr_need need;
	/* for operators */
	uint64_t said;        /* when a CDC was posted last */
	uint64_t timed_since; /* when the one that is timed was posted; 0: none is */
	uint16_t timed_seq;
	uint32_t rtt; /* microseconds from posting a CDC until its completion; 0: not known */
	uint32_t moves;
	uint64_t requests, full, window_full; /* as in struct smcr_flow_stats */
};

/** The own element; owned by rx.c. */
struct smcr_conn_rx {
	struct smcr_element element;
	uint32_t usable;            /* U */
	uint64_t produced;          /* from the peer's producer cursor: readable up to here */
	uint64_t consumed;          /* taken by the program */
	uint64_t consumed_sent;     /* as told to the peer last */
	bool peer_blocked;          /* B of the peer's last CDC (WIN-3) */
	bool update_requested;      /* R (WIN-4) */
	bool urgent;                /* U came, and no CDC has said yet that the byte was consumed */
	uint64_t urgent_end;        /* one past the last byte that U named */
	bool urgent_pending;        /* the peer's last CDC had P without U */
	uint16_t cdc_seq;           /* SR: last number processed, 0 if none */
	bool done, closed, aborted; /* D, C, A seen */
	bool early_lost;            /* a validation before the gate opened found data missing */
	bool early_valid;           /* newest CDC that came before the gate opened (RV-13, RS-9) */
	struct smcr_cdc early;
	struct smcr_link *last_link; /* link of the last CDC (TEST-8) */
	uint64_t heard;              /* when a CDC came last */
	uint64_t bytes;
	struct smcr_need need;
	uint64_t requests, full; /* as in struct smcr_flow_stats */
};

struct smcr_conn {
	struct smcr_engine *engine;
	struct smcr_conn_params params;
	enum smcr_conn_phase phase;
	enum smcr_conn_state state;
	uint64_t began; /* when */
	bool in_gap;    /* lgr->gap counts it */
	struct smcr_lgr *lgr;
	uint32_t token; /* alert token the peer uses towards us (CLC-12), 0 = none yet */
	uint32_t peer_token;
	struct smcr_conn_rv rv;
	struct smcr_conn_tx tx;
	struct smcr_conn_rx rx;
	struct { /* account.c; NULL: none is open */
		struct smcr_account *user, *peer;
		uint64_t held; /* as they were told */
	} accounts;
	/* close.c */
	bool app_closed;   /* the host called close or abort: no events but CLOSED */
	bool app_shutdown; /* shutdown(WR) asked */
	bool reset_raised; /* RESET was raised: only CLOSED follows */
	bool told;         /* CLOSED was raised: gone for the host, params.user is NULL */
	bool tcp_reset;    /* TCP ends by RST */
	bool tcp_fin;      /* FIN came */
	bool tcp_rst;      /* RST came */
	struct smcr_timer close_timer, fin_timer;
	/* keepalive.c */
	uint64_t keepalive_interval; /* 0: none */
	uint64_t last_active;        /* when anything came, or was delivered, for it (TEST-3) */
	struct smcr_timer keepalive;
	struct smcr_conn *lgr_next, *lgr_prev;
	struct smcr_conn *next, *prev; /* engine->conns */
	UT_hash_handle hh;             /* engine->tokens by token, once it has one */
	UT_hash_handle peer_hh;        /* lgr->peer_tokens, while it has tx.rmb */
};

/** By alert token; NULL if none or stale (CDC-5). */
struct smcr_conn *smcr_conn_by_token(const struct smcr_engine *engine, uint32_t token);
/** Give it an alert token: not zero, unique, and none of the last 65535, so that what comes late
 * for a connection that has gone is not taken for another's (CLC-12). */
void smcr_conn_new_token(struct smcr_conn *conn);
/** Tell the host, count. After FALLBACK, FAILED or CLOSED call smcr_conn_free(). */
void smcr_conn_raise(struct smcr_conn *conn, const struct smcr_conn_event *event);
/** Give back elements, token and claims and leave the group; the connection goes on without. */
void smcr_conn_detach(struct smcr_conn *conn);
/** Take it out of everything and free it. Raises nothing. */
void smcr_conn_free(struct smcr_conn *conn);

#endif
