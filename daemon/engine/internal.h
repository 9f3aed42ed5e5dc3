/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * The engine's own structures, shared by its files. Nothing outside daemon/engine includes it, unit
 * tests of the engine excepted.
 *
 * Where things live
 *   engine.c    life, clock, device list            timer.c      deadlines (binary heap)
 *   lgr.c       link groups                         link.c       links: QP, posting, completions
 *   slab.c      RMBs and send buffers               peer_rmb.c   the peer's RMBs and RTokens
 *   clc.c, clc_server.c, clc_client.c               rendezvous of one connection (RFC 7609 3.5)
 *   clc_agree.c what both sides agree on: versions, EIDs, limits
 *   account.c   who holds how much of the memory    events.c     what operators are told
 *   stats.c     what is counted for operators       configure.c  another configuration
 *   llc_steps.c the table: what each step of an exchange means (C.7.1)
 *   llc.c       the exchange that runs: step, timer, loss of its links
 *   deletion.h  how far the deletion of a link is
 *   llc_*.c     one exchange a file; llc_receive.c, llc_send.c: messages
 *   llc_schedule.c  what may run next              llc_collide.c  collisions (SER)
 *   llc_links.c which links a group should have (LG, ADDL-14..17, C.8)
 *   conn.c      connection life and lookup          view.c       snapshots and invariants
 *   command.c   commands of operators               keepalive.c probes of what is idle (4.5.3)
 *   cursor.h    position arithmetic (CDC-7..9)      cdc.c        CDC in and out (RFC 7609 A.4)
 *   rows.c      rows taken of the RFC's collision and recovery tables
 *   tx.c        writing into the peer's element     rx.c         own element, window updates (WIN)
 *   drain.c     RNICs that are taken out of use
 *   path_mtu.c  do full-size packets pass?        arrivals.c   what a CDC announces, for captures
 *   probes.c    for tracing tools
 *   failover.c  connections move between links (FO)
 *   close.c     CLOSE and ABORT state tables (4.8)  urgent.c     urgent data (URG)
 *   data.h      what these five share
 * llc.h and rendezvous.h hold what only the llc*.c and clc*.c files share.
 *
 * Who may free what, and when. Events (ops->conn_event) are raised at once, and a connection may be
 * freed by any call that can raise one. Links and link groups are never freed inside an input or a
 * call of the data path: their end is decided there (smcr_link_fail(), smcr_lgr_end()) and carried
 * out from the timer queue, with delay zero, so that a `struct smcr_link *` stays good for the
 * whole call.
 *
 * Positions: inside the engine a position in a byte stream is a 64-bit count of bytes since the
 * start, never a cursor; cursor.h converts at the wire.
 */
#ifndef SMCRD_ENGINE_INTERNAL_H
#define SMCRD_ENGINE_INTERNAL_H

#include <uthash.h>
#include <utlist.h>

#include "daemon/engine/deletion.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/log_limit.h"
#include "daemon/engine/ops.h"
#include "daemon/engine/rows.h"
#include "daemon/engine/stats.h"
#include "daemon/engine/timer.h"
#include "daemon/engine/view.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"

#define SMCR_LINK_SLOTS      SMCR_MAX_LINKS_TOTAL
#define SMCR_LINK_LLC_WAIT   16 /* LLC messages that may wait for room in a send queue */
#define SMCR_LINK_MIN_DEPTH  64 /* of a send queue */
#define SMCR_EYE_CATCHER_LEN 4  /* at the start of an element, RFC dialect (RMB-2) */

/* ---- devices ---- */

struct smcr_device {
	struct smcr_device_info info;
	bool drained; /* an operator wants nothing new on it (drain.c) */
	struct smcr_device *next, *prev;
};

/* ---- memory: RMBs and send buffers (slab.c) ---- */

enum smcr_slab_state {
	SMCR_SLAB_NEW,        /* not known to the peer: its tokens have not been told */
	SMCR_SLAB_ANNOUNCING, /* CONFIRM RKEY exchange under way */
	SMCR_SLAB_READY,      /* elements may be given to connections */
	SMCR_SLAB_DELETING,   /* DELETE RKEY under way */
};

/** A piece of registered memory cut into elements of one size: an RMB (remote write), or the send
 *  buffers of a link group (not remote; always READY). Registered once a link (A18, RMB-10). */
struct smcr_slab {
	struct smcr_lgr *lgr;
	uint32_t number; /* in the group, for operators: they are counted from 1 */
	bool is_rmb;
	enum smcr_slab_state state;
	/** RMB, NEW: an announcement was broken, the peer may know it. It is announced again before
	 * anything else that relies on what the peer knows. */
	bool doubtful;
	uint8_t *base;
	uint32_t element_size; /* E, bytes */
	uint8_t bsize;         /* code of E */
	uint16_t count;        /* elements, 1..255 */
	uint16_t used;
	uint16_t retired; /* elements that nobody gets any more: see mem_recover() */
	uint8_t map[32];  /* bit i: element i (0-based) is used, or retired */
	/** Bytes at the start of each element (0-based) that may be other than zero. */
	uint32_t dirty[SMCR_MAX_ELEMENTS];
	struct {
		void *mr; /* NULL: not registered on that link slot */
		uint32_t lkey, rkey;
		uint64_t vaddr;
		bool told; /* the peer has this RToken (CLC, CONFIRM RKEY or ADD LINK CONT.) */
	} reg[SMCR_LINK_SLOTS];
	struct smcr_timer idle;  /* RKEY-13: delay before an unused RMB goes */
	struct smcr_timer sweep; /* delay before memory of unused elements goes */
	struct smcr_slab *next, *prev;
};

/** One element of a slab, as a connection holds it. */
struct smcr_element {
	struct smcr_slab *slab; /* NULL: none */
	uint8_t index;          /* 1-based, as on the wire */
	uint8_t *addr;
	uint32_t size;
	bool shared; /* the host has put other pages there */
};

/* ---- the peer's memory (peer_rmb.c) ---- */

struct smcr_rtoken {
	bool valid;
	uint32_t rkey;
	uint64_t vaddr;
};

/** Links that CLC may still name though they have gone: more than all of a group three times over,
 *  as a Confirm may be seconds behind what happens on the links. */
#define SMCR_GONE_LINKS 32

/** A token that is not valid must not be written with: the link is not theirs, or the peer has
 *  withdrawn the RMB (RKEY-16). */
struct smcr_peer_rmb {
	/** Tokens on the links that went last: a Confirm that was on its way may still name them.
	 */
	struct {
		uint32_t qpn; /* the peer's */
		struct smcr_rtoken token;
	} gone[SMCR_GONE_LINKS];
	unsigned int next_gone;
	bool withdrawn; /* DELETE RKEY came; kept for its users' sake */
	uint16_t users;
	struct smcr_rtoken token[SMCR_LINK_SLOTS];     /* by link slot (RMB-10) */
	struct smcr_conn *user[SMCR_MAX_ELEMENTS + 1]; /* by element index, who writes into it */
	struct smcr_peer_rmb *next, *prev;
};

/* ---- links (link.c) ---- */

enum smcr_link_state {
	SMCR_LINK_ACTIVATING, /* being set up; carries LLC of its own setup only */
	SMCR_LINK_ACTIVE,
	SMCR_LINK_DEACTIVATING, /* DELETE LINK under way: nothing new on it */
	SMCR_LINK_FAILED,       /* unusable; kept until the peer agrees that it is gone (DELL-7) */
};

/** What operators know of a link. */
enum smcr_told {
	SMCR_TOLD_NOTHING,
	SMCR_TOLD_UP,
	SMCR_TOLD_DOWN,
};

enum smcr_tx_kind {
	SMCR_TX_WRITE,
	SMCR_TX_CDC,
	SMCR_TX_LLC,
	SMCR_TX_PROOF, /* a write that shows what packets pass (path_mtu.c) */
};

/** What a posted work request was, kept until its completion. */
struct smcr_tx_entry {
	enum smcr_tx_kind kind;
	struct smcr_conn *conn; /* WRITE, CDC; NULL when the connection is gone */
	uint64_t tx_end;        /* WRITE: send-buffer position that is free once it is done */
	uint32_t length;        /* of a write, in bytes; 0: it is none. Set by smcr_link_post() */
	uint16_t cdc_seq;       /* CDC */
	uint8_t llc_type;       /* LLC: what was sent */
	bool llc_reply;
	uint8_t llc_number; /* LLC: the link number it is about, if any */
	bool llc_long;      /* LLC: longer than SMCR_LLC_LEN */
	/** Send buffer of a connection that is gone, whose last WRITE this is: it goes back with
	 * the completion, not before (CDC-17). Set by smcr_link_forget(). */
	struct smcr_element release;
};

struct smcr_link {
	uint64_t ref; /* names it towards the host */
	struct smcr_lgr *lgr;
	uint8_t slot;   /* index in lgr->links and in the token tables */
	uint8_t number; /* on the wire, 1..255 (LG-11) */
	enum smcr_link_state state;
	struct smcr_device *device; /* NULL once the device is gone */
	char device_name[SMCR_DEVICE_NAME_LEN];
	uint8_t local_gid[SMCR_GID_LEN];
	uint8_t local_mac[SMCR_MAC_LEN];
	void *qp;          /* NULL once destroyed */
	bool qp_failed;    /* in error: nothing can be sent */
	uint32_t qpn, psn; /* own */
	uint8_t peer_gid[SMCR_GID_LEN];
	uint8_t peer_mac[SMCR_MAC_LEN];
	uint32_t peer_qpn, peer_psn;
	uint8_t mtu;            /* smaller of both, enum smcr_mtu */
	uint32_t uid, peer_uid; /* link user IDs (LG-12) */
	uint32_t retry_ms;      /* how long the QP may go without progress */
	bool was_active;        /* it was proven once (CONFIRM LINK) */
	uint64_t added;         /* when it became active, if it is not the first link */
	/* posted requests: entry of wr_id is tx[wr_id % tx_depth]; ids run without gaps */
	struct smcr_tx_entry *tx;
	uint32_t tx_depth;
	uint64_t tx_next, tx_done; /* next wr_id to post; all below tx_done have completed */
	uint64_t tx_posted;        /* from here on nothing was really posted */
	struct {                   /* LLC messages that wait for room, in order */
		uint8_t *msg;      /* a copy */
		size_t len;
		struct smcr_tx_entry entry;
	} llc_wait[SMCR_LINK_LLC_WAIT];
	unsigned int llc_waiting;
	struct smcr_timer fail_work; /* carries out smcr_link_fail() */
	struct smcr_conn *waiting;   /* connections that wait for room (DL list, conn->tx.wait_*) */
	uint32_t num_conns;          /* connections that write on it */
	uint32_t num_promised;       /* connections in rendezvous that CLC has put on it */
	uint64_t tx_bytes, rx_bytes;
	char last_error[SMCR_LAST_ERROR_LEN];
	enum smcr_told told;
	bool path_dead; /* it failed because nothing gets through, not by a local cause */
	bool too_large; /* it failed because packets of its MTU do not get through */
	uint8_t passed; /* largest packets known to get through from here, enum smcr_mtu; 0: none */
	bool disabled;  /* the operator wants no writes on it while there is another one */
	struct smcr_deletion deletion;
	unsigned int deletions_asked; /* client: requests about others sent on this link */
	unsigned int
		deletions_repeated; /* server: replies about others that may still come on it */
	/* llc_test_link.c */
	uint8_t test_data[16];
	uint64_t test_sent;           /* when */
	struct smcr_timer test_timer; /* ERR-38 */
	/* keepalive.c */
	uint64_t last_active; /* when anything came, or was delivered, on it (TEST-3) */
	struct smcr_timer idle_timer;
	UT_hash_handle hh; /* engine->links by ref */
};

/* ---- link groups (lgr.c, llc*.c) ---- */

enum smcr_lgr_state {
	SMCR_LGR_FIRST_CONTACT, /* until its first connection is open (RV) */
	SMCR_LGR_ACTIVE,
	SMCR_LGR_TERMINATING, /* DELETE LINK A=1 sent, or all links lost */
};

struct smcr_pending;

struct smcr_llc_flow; /* the configuration exchange in progress and the queue: llc.h */

/** First contact: its connection, and who waits for its end (RV-15). */
struct smcr_first_contact {
	struct smcr_conn *conn; /* NULL once the gate is open (RV-12), or the connection is gone */
	bool committed;         /* past the own point of no return (ERR-8) */
	bool declining;         /* the link is lost, the Decline has to wait for something */
	struct smcr_conn *held; /* server: proposals of the same peer, DL list, conn->rv.held_* */
};

/** Connections whose link has failed and that have not gone on yet (stats.c). */
struct smcr_gap {
	uint32_t conns;
	uint64_t began,
		moved; /* when the first failure was, and the last one has moved; 0: none has */
};

struct smcr_lgr {
	struct smcr_engine *engine;
	uint32_t id;         /* local, never on the wire */
	enum smcr_role role; /* ours */
	enum smcr_lgr_state state;
	enum smcr_dialect_policy dialect_policy; /* the engine's when the group began */
	enum smcr_dialect dialect; /* fixed when the first CONFIRM LINK exchange is done */
	bool dialect_known;
	/** As Proposal and Accept negotiated it; of CLC and LLC alike (docs/version-2.md). */
	uint8_t version;            /* SMCR_CLC_VERSION_1 or _2 */
	uint8_t release;            /* version 2: 0, or from 1 on with limits of its own */
	uint8_t max_conns;          /* version 2: at a time; 255 where nothing was negotiated */
	enum smcr_byte_order order; /* version 2: of the peer's processor, once known */
	/** Version 2: a message longer than SMCR_LLC_LEN is on its way. The peer may have one
	 * buffer for such messages: the next one waits for its completion (link.c). */
	bool long_posted;
	struct { /* version 2 */
		uint8_t eid[SMCR_EID_LEN];
		bool direct;                /* no gateway between the RoCE addresses */
		uint8_t os;                 /* the peer's, enum smcr_clc_os */
		uint8_t host[SMCR_EID_LEN]; /* its host name, padded */
		uint8_t gid[SMCR_GID_LEN];  /* server: of the Proposal that it was set up for */
	} v2;
	uint8_t peer_id[SMCR_PEER_ID_LEN]; /* zero: not told by the Proposal, Confirm will */
	uint16_t vlan;
	struct smcr_prefix prefix; /* the LAN it lives on */
	bool doubted;              /* server: perhaps the peer knows it no more (ERR-9) */
	struct smcr_addr peer;     /* TCP address of the first connection's, for the log */
	bool near;                 /* the peer that it was set up with is on it: see link.c */
	uint8_t max_links;         /* negotiated (LG-7) */
	uint8_t last_link_number;
	struct smcr_link *links[SMCR_LINK_SLOTS];
	struct { /* far ends of the links that went last: CLC on its way may still name them */
		uint32_t qpn;
		uint8_t gid[SMCR_GID_LEN], mac[SMCR_MAC_LEN];
	} gone[SMCR_GONE_LINKS];
	unsigned int next_gone;
	uint32_t last_slab;     /* number */
	struct smcr_slab *rmbs; /* own */
	struct smcr_slab *sndbufs;
	struct smcr_peer_rmb *peer_rmbs;
	struct smcr_conn *conns; /* DL list, conn->lgr_next/prev */
	uint32_t num_conns;
	struct smcr_first_contact fc;
	struct smcr_llc_flow *llc;
	bool told_up;        /* operators know that it is there */
	char why[144];       /* it ends, for operators; "": it does not */
	int end_error;       /* TERMINATING: what programs are told */
	uint32_t end_reason; /* TERMINATING: what the peer is told */
	bool path_dead;      /* lost because nothing gets through */
	struct smcr_gap gap;
	struct smcr_timer end_work; /* carries out smcr_lgr_end() */
	uint64_t idle_since;
	struct smcr_timer idle; /* LG-16 */
	struct smcr_lgr *next, *prev;
};

/* ---- path_mtu.c ---- */

#define SMCR_PATHS_MAX 64

/** Packets from one RNIC to another get through up to this size only. */
struct smcr_path {
	uint8_t local[SMCR_GID_LEN], peer[SMCR_GID_LEN];
	struct smcr_addr host; /* the peer's, as the group knows it */
	uint32_t lgr;          /* id of the group in which that was found */
	uint8_t mtu;           /* enum smcr_mtu */
	bool proven;           /* in first contact; else data seem to show it */
	uint64_t until;        /* then it is forgotten; 0: the entry is free */
};

/* ---- connections ---- */

enum smcr_conn_phase {
	SMCR_PHASE_RENDEZVOUS, /* CLC, and in first contact LLC: conn->rv tells where */
	SMCR_PHASE_OPEN,       /* ESTABLISHED was raised */
	SMCR_PHASE_GONE,       /* outcome told; being freed */
};

/** RFC 7609 4.8 and section 20/21 of docs/requirements: the states of a connection. */
enum smcr_conn_state {
	SMCR_CONN_INIT, /* rendezvous */
	SMCR_CONN_ACTIVE,
	SMCR_CONN_PEER_CLOSE_WAIT_1,
	SMCR_CONN_PEER_CLOSE_WAIT_2,
	SMCR_CONN_APP_CLOSE_WAIT_1,
	SMCR_CONN_APP_CLOSE_WAIT_2,
	SMCR_CONN_APP_FIN_CLOSE_WAIT,
	SMCR_CONN_PEER_FIN_CLOSE_WAIT,
	SMCR_CONN_PEER_ABORT_WAIT,
	SMCR_CONN_PROCESS_ABORT, /* the peer aborted; own A is on its way (Figure 23) */
	SMCR_CONN_CLOSED_STATE,  /* over; kept until no request is outstanding */
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
};

struct smcr_engine {
	struct smcr_config config; /* defaults filled in */
	const struct smcr_ops *ops;
	void *ctx;
	uint64_t now;
	struct smcr_timer **heap;
	size_t heap_len, heap_cap, timers_reserved;
	uint64_t timer_seq;
	struct smcr_device *devices;
	struct smcr_lgr *lgrs;
	struct smcr_link *links;       /* hash by ref */
	struct smcr_conn *conns;       /* all, DL list */
	struct smcr_conn *tokens;      /* hash by token */
	struct smcr_pending *commands; /* DL list (command.c) */
	uint64_t last_command_id;
	uint64_t memory_used;          /* by slabs */
	uint64_t memory_held;          /* of it by connections */
	struct smcr_account *accounts; /* hash */
	uint64_t next_link_ref;
	uint32_t next_lgr_id;
	uint32_t next_link_uid; /* LG-12 */
	uint16_t next_token;    /* lower half of the next alert token */
	struct smcr_path paths[SMCR_PATHS_MAX];
	bool shutting_down;
	struct log_limit log_limit;
	bool silent;                   /* being freed: no log, no event, no message */
	struct smcr_engine_view count; /* counters kept as they happen */
	struct smcr_engine_stats stats;
	uint32_t rows[SMCR_NUM_ROWS][2]; /* taken, by role (rows.h) */
};

/** printf to ops->log. */
void smcr_log(struct smcr_engine *engine, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** What a peer did: the line names it, by its TCP address. One a minute of each peer and reason
 *  (log_limit.h). `reason` has static storage. */
void smcr_log_peer(struct smcr_engine *engine, const struct smcr_addr *peer, int priority,
		   const char *reason, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ---- events.c ---- */

/** Of a first contact that has succeeded: tell of the group and its links. */
void smcr_event_lgr_up(struct smcr_lgr *lgr);
/** Note why it ends; the first reason counts. To be called before the end begins. */
void smcr_lgr_why(struct smcr_lgr *lgr, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same, of a DELETE LINK of the peer with a reason code. */
void smcr_lgr_why_peer(struct smcr_lgr *lgr, const char *what, uint32_t reason);
void smcr_event_lgr_down(struct smcr_lgr *lgr, unsigned int num_reset);
void smcr_event_link_up(struct smcr_link *link);
/** As link->last_error says. `num_moved`: connections that write on another one from now on. */
void smcr_event_link_failed(struct smcr_link *link, unsigned int num_moved);
/** Its deletion in good order has begun. `reason`: of DELETE LINK */
void smcr_event_link_deleted(struct smcr_link *link, unsigned int num_moved, uint32_t reason);

/* ---- stats.c ---- */
/** Data may flow: count that, and how long CLC has taken. */
void smcr_stats_established(struct smcr_conn *conn);
/** Its link has failed. */
void smcr_gap_begin(struct smcr_conn *conn);
/** It has gone on on another link (`moved`), or is over. Nothing if its link has not failed. */
void smcr_gap_end(struct smcr_conn *conn, bool moved);

/* ---- rows.c ---- */
/** A row of the tables of C.7.1 or C.8 is taken. */
static inline void smcr_row(const struct smcr_lgr *lgr, enum smcr_row row)
{
	lgr->engine->rows[row][lgr->role]++;
}

/* ---- engine.c: devices ---- */
struct smcr_device *smcr_device_by_id(struct smcr_engine *engine, uint32_t id);
/** Does the device's network interface belong to this prefix, with the same length? */
bool smcr_device_on_prefix(const struct smcr_device *device, const struct smcr_prefix *prefix);
/** Is this address in one of the device's prefixes, of this length? */
bool smcr_device_has_address(const struct smcr_device *device, const struct smcr_addr *addr,
			     unsigned int prefix_len);
/** Is it an address of the device's own network interface? */
bool smcr_device_owns_address(const struct smcr_device *device, const struct smcr_addr *addr);
/** Is this address in one of the device's networks? */
bool smcr_device_near(const struct smcr_device *device, const struct smcr_addr *addr);
/** Are the first `bits` of two addresses equal? */
bool smcr_prefix_match(const uint8_t *a, const uint8_t *b, unsigned int bits);
/** Is it one that version 2 can use: an IPv4 address (::ffff:a.b.c.d)? */
bool smcr_gid_is_ipv4(const uint8_t gid[SMCR_GID_LEN]);
/** Can an RNIC of another host have this GID: is it neither one of ours nor an address of ours, nor
 * nobody's (zero, loopback, multicast, broadcast, also that of one of our networks)? */
bool smcr_gid_may_be_peer(const struct smcr_engine *engine, const uint8_t gid[SMCR_GID_LEN]);
/** Can one RNIC have this MAC: is it neither zero nor that of a group or of all? */
bool smcr_mac_may_be_peer(const uint8_t mac[SMCR_MAC_LEN]);
/** Is the address of this GID in one of the device's IPv4 networks? */
bool smcr_device_reaches(const struct smcr_device *device, const uint8_t gid[SMCR_GID_LEN]);
/** Random: 24 bits; 32 bits and not zero. */
uint32_t smcr_random24(struct smcr_engine *engine);
uint32_t smcr_random32(struct smcr_engine *engine);
/** With the defaults where it says nothing, and within bounds. */
struct smcr_config smcr_config_fill(const struct smcr_config *given);

/* ---- slab.c ---- */
/** The smallest element size code that has room for `want` bytes of receive buffer (RMB-6). */
uint8_t smcr_bsize_holding(uint32_t want);
/**
 * Size code of an element or a send buffer for a connection whose program has set nothing, and that
 * is expected to need so many bytes (0: not known). It shrinks as memory is used up (RMB-12); what
 * needs less gets less before that.
 */
uint8_t smcr_bsize_choose(const struct smcr_engine *engine, uint32_t need);
/** What it would be if all memory were free. */
uint8_t smcr_bsize_plenty(const struct smcr_engine *engine, uint32_t need);
/**
 * A free element of code `bsize` or the next larger one there is, up to code `most`; READY slabs
 * first. Its `used` mark is set. Until its slab is READY the element must not be told to the peer.
 * @return 0, -ENOENT: a slab must be added first (smcr_slab_add)
 */
int smcr_element_take(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t most,
		      struct smcr_element *ret);
/** Give it back; does nothing for an element that is none. */
void smcr_element_release(struct smcr_element *element);
/** Allocate a slab of elements of this size (or smaller under memory pressure, but not below code
 * `least`: RMB-12) and register it on every link that has a QP; RMBs start NEW, send buffers READY.
 */
int smcr_slab_add(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		  struct smcr_slab **ret_slab);
/** The same for who may have what is set aside (account.c): where the rest is used up, a few
 * elements of that. */
int smcr_slab_add_last(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		       struct smcr_slab **ret_slab);
int smcr_slab_register(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_deregister(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_free(struct smcr_slab *slab);
unsigned int smcr_lgr_num_rmbs(const struct smcr_lgr *lgr);
/** Has the group no free element of code `bsize` or larger, and as many RMBs as may be (LG-13)? */
bool smcr_lgr_out_of_rmbs(const struct smcr_lgr *lgr, uint8_t bsize);

/* ---- account.c ---- */
/** Before a connection takes memory: from now on what it holds is counted with its user's and its
 *  peer's. @return 0 (also if that is so already), or -ENOMEM */
int smcr_account_open(struct smcr_conn *conn);
/** Count what it holds now. */
void smcr_account_settle(struct smcr_conn *conn);
/** It gives everything back; does nothing if no account is open. */
void smcr_account_close(struct smcr_conn *conn);
/* Of a connection whose accounts are open: */
/** Does its user, or its peer, hold little? Then it may have what is set aside. */
bool smcr_account_is_small(const struct smcr_conn *conn);
/** Does its user hold so much that it gets no larger buffers than others? */
bool smcr_account_is_large(const struct smcr_conn *conn);
/** May it take memory that is free? */
bool smcr_account_allows(const struct smcr_conn *conn);
/** It gets no memory: count that and log it. */
void smcr_account_refused(struct smcr_conn *conn);
/** Bytes of the budget for those who hold little. */
uint64_t smcr_memory_set_aside(const struct smcr_engine *engine);

/* ---- peer_rmb.c ---- */
/** The peer's RMB that has this RKey on this link, or NULL. Withdrawn ones are not found. */
struct smcr_peer_rmb *smcr_peer_rmb_find(struct smcr_lgr *lgr, const struct smcr_link *link,
					 uint32_t rkey);
/** As it was told for a link that is gone now; `qpn` is the peer's. */
struct smcr_peer_rmb *smcr_peer_rmb_find_gone(struct smcr_lgr *lgr, uint32_t qpn, uint32_t rkey,
					      uint64_t vaddr);
/** @return 0; -ENOSPC: the peer has 255 already (LG-13); -ENOMEM */
int smcr_peer_rmb_add(struct smcr_lgr *lgr, struct smcr_peer_rmb **ret_rmb);
void smcr_peer_rmb_set(struct smcr_peer_rmb *rmb, const struct smcr_link *link, uint32_t rkey,
		       uint64_t vaddr);
/** Forget its tokens on all links (RKEY-14); the entry goes with its last user. */
void smcr_peer_rmb_withdraw(struct smcr_lgr *lgr, struct smcr_peer_rmb *rmb);
/** `conn` writes into element `index` from now on; the element must be free (RMB-7). */
void smcr_peer_rmb_claim(struct smcr_peer_rmb *rmb, uint8_t index, struct smcr_conn *conn);
void smcr_peer_rmb_unclaim(struct smcr_conn *conn);
/** A link slot is gone. */
void smcr_peer_rmb_forget_link(struct smcr_lgr *lgr, const struct smcr_link *link);
void smcr_peer_rmb_free_all(struct smcr_lgr *lgr);
unsigned int smcr_peer_rmb_count(const struct smcr_lgr *lgr);
/** Those that connections write into. */
unsigned int smcr_peer_rmb_in_use(const struct smcr_lgr *lgr);

/* ---- link.c ---- */
/** A link with a QP on `device`, ACTIVATING, every slab of the group registered on it. `number` 0:
 *  the next free one (LG-11). */
int smcr_link_new(struct smcr_lgr *lgr, struct smcr_device *device, uint8_t number,
		  struct smcr_link **ret_link);
/** Flush what is posted, deregister, destroy the QP; the structure stays. */
void smcr_link_drop_qp(struct smcr_link *link);
/** Drop the QP and forget the link. From the timer queue only. */
void smcr_link_free(struct smcr_link *link);
/** The link that the host, or a message that waits, names; NULL if it has gone. */
struct smcr_link *smcr_link_by_ref(const struct smcr_engine *engine, uint64_t ref);
/** Is what a message of the peer names (QPN, GID and, in version 1, MAC) the far end of this link,
 *  in whatever state? */
bool smcr_link_matches(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** The same, and the link can be used. */
bool smcr_link_leads_to(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** Is this the active link that a peer's Accept or Confirm names? */
bool smcr_link_is_named(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** A message has come over the QP: that has one far end, so other links that lead to a QP of this
 *  number there are dead (PLG-5). They fail. */
void smcr_link_supersede(const struct smcr_link *link);
/** Does a peer's Accept or Confirm name a link that the group has, in whatever state, or had? */
bool smcr_lgr_had_link(const struct smcr_lgr *lgr, const struct smcr_clc_accept *msg);
/** Far end known: INIT -> RTR. */
int smcr_link_connect(struct smcr_link *link, const uint8_t gid[SMCR_GID_LEN],
		      const uint8_t mac[SMCR_MAC_LEN], uint32_t qpn, uint32_t psn, uint8_t mtu);
/** RTR -> RTS. */
int smcr_link_start(struct smcr_link *link);
/** QP there and not in error. */
static inline bool smcr_link_usable(const struct smcr_link *link)
{
	return link->qp && !link->qp_failed && link->state != SMCR_LINK_FAILED;
}
/** ACTIVE and usable: it may carry data and LLC of the group. */
static inline bool smcr_link_works(const struct smcr_link *link)
{
	return link->state == SMCR_LINK_ACTIVE && smcr_link_usable(link);
}
/** Room for `n` more work requests on a link that may carry data? (Some is kept for LLC.) */
bool smcr_link_room(const struct smcr_link *link, uint32_t n);
/**
 * Post requests; entries[i] tells what wr[i] is (copied). wr_id and signaled are set here: the last
 * of the list is signaled. Counts entries' connections as outstanding. A failure to post fails the
 * link (later, from the timer queue: never inside this call) and counts as posted and flushed.
 */
void smcr_link_post(struct smcr_link *link, struct smcr_wr *wr, const struct smcr_tx_entry *entries,
		    size_t n);
/** Post one LLC message, or keep it until there is room, and, if it is longer than SMCR_LLC_LEN,
 *  until no other one of that kind is on its way in the group. `entry` is copied.
 *  @return 0; -ENOBUFS: too many wait; -ENOMEM */
int smcr_link_post_llc(struct smcr_link *link, const uint8_t *msg, size_t len,
		       const struct smcr_tx_entry *entry);
/** Post what waits on the links of the group and can go now. */
void smcr_lgr_post_waiting_llc(struct smcr_lgr *lgr);
/** Is the completion of an LLC message of that type still to come? */
bool smcr_link_llc_posted(const struct smcr_link *link, uint8_t type);
/** Queue for room; when there is some, conn->tx.waiting is cleared and smcr_conn_tx_resume() is
 *  called, once. */
void smcr_link_wait(struct smcr_link *link, struct smcr_conn *conn);
/** Make it the link that the connection writes on (NULL: none). */
void smcr_link_assign(struct smcr_conn *conn, struct smcr_link *link);
/** Forget a connection everywhere: waiting list, entries of posted requests. A send buffer that is
 *  still being read moves to its last entry (conn->tx.buf is none afterwards). */
void smcr_link_forget(struct smcr_link *link, struct smcr_conn *conn);
/** The link cannot be used any more: tell the peer on another link, move or reset connections.
 *  `reason` is an smcr_llc_delete_reason for the peer. */
void smcr_link_fail(struct smcr_link *link, uint32_t reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** Do now what smcr_link_fail() put off. From the timer queue and device removal only. */
void smcr_link_fail_now(struct smcr_link *link);

/* ---- path_mtu.c ---- */
/** `mtu`, or what is known to pass between these RNICs if that is less. */
uint8_t smcr_path_mtu(const struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN],
		      const uint8_t peer[SMCR_GID_LEN], uint8_t mtu);
/** `mtu`, or the least that was found to pass from this RNIC on a link of the group. */
uint8_t smcr_path_mtu_in_group(const struct smcr_lgr *lgr, const uint8_t local[SMCR_GID_LEN],
			       uint8_t mtu);
/** The network at this RNIC is another one now. */
void smcr_path_forget(struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN]);
/**
 * First contact, the link can send: find out whether full-size packets pass.
 * @return true: smcr_llc_path_proved() is called when they have; false: that is known already, or
 *         there is nothing to write to
 */
bool smcr_path_prove(struct smcr_link *link);
/** It has not come to an end, and the link is given up: none of its writes may follow data. */
void smcr_path_stop(struct smcr_link *link);
/** A write of so many bytes was acknowledged. */
void smcr_path_passed(struct smcr_link *link, uint32_t length);
/** Requests up to this one get no acknowledgement. @return true: the size of packets is to blame,
 *  and remembered; the link has failed with that */
bool smcr_path_blame(struct smcr_link *link, uint64_t wr_id);

/* ---- lgr.c ---- */
int smcr_lgr_new(struct smcr_engine *engine, enum smcr_role role,
		 const uint8_t peer_id[SMCR_PEER_ID_LEN], uint16_t vlan,
		 const struct smcr_prefix *prefix, struct smcr_lgr **ret_lgr);
/** No link is left, or both sides agreed: connections are reset with `error`, everything is freed;
 *  from the timer queue. No message is sent. */
void smcr_lgr_end(struct smcr_lgr *lgr, int error);
/** Reset, or send back to TCP, every connection of a group that ends. */
void smcr_lgr_end_conns(struct smcr_lgr *lgr);
/** Free a group without connections. Engine end and timer queue only. */
void smcr_lgr_free(struct smcr_lgr *lgr);
static inline bool smcr_lgr_is_v2(const struct smcr_lgr *lgr)
{
	return lgr->version == SMCR_CLC_VERSION_2;
}
struct smcr_link *smcr_lgr_link_by_number(const struct smcr_lgr *lgr, uint8_t number);
/** An ACTIVE link other than `except` for LLC, or NULL. */
struct smcr_link *smcr_lgr_any_link(const struct smcr_lgr *lgr, const struct smcr_link *except);
/** The ACTIVE link with the fewest connections writing on it (LG-17), disabled ones last, or NULL.
 */
struct smcr_link *smcr_lgr_least_loaded(const struct smcr_lgr *lgr);
/** Test every link: those that are dead fail. */
void smcr_lgr_probe(struct smcr_lgr *lgr);
/** A connection joined or left: idle timer (LG-16). */
void smcr_lgr_add_conn(struct smcr_lgr *lgr, struct smcr_conn *conn);
void smcr_lgr_remove_conn(struct smcr_conn *conn);
/** An RNIC has come, or come up, or has got an address: groups on its LAN may use it (ADDL-14,
 *  ADDL-15). */
void smcr_lgr_rnic_appeared(struct smcr_engine *engine, const struct smcr_device *device);
/** The number of active links has changed: so has the patience of their QPs. */
void smcr_lgr_links_changed(struct smcr_lgr *lgr);
/** The patience of its QPs in milliseconds, with one link more if `added` is not active yet. */
uint32_t smcr_lgr_patience(const struct smcr_lgr *lgr, const struct smcr_link *added);
/** Do these addresses belong to one RNIC? */
bool smcr_same_rnic(const uint8_t *gid_a, const uint8_t *mac_a, const uint8_t *gid_b,
		    const uint8_t *mac_b);
/** "single", "symmetric", "asymmetric-local" (shared RNIC here), "asymmetric-peer". */
const char *smcr_lgr_type_name(const struct smcr_lgr *lgr);

/* ---- failover.c ---- */
/** The link is gone, or goes: what writes on it moves to others, or waits for one. @return how many
 *  connections have moved */
unsigned int smcr_link_leave(struct smcr_link *link);
/** Write on `to` from now on (NULL: on none until one comes): what is outstanding elsewhere is
 * waited for, then comes the validation and, if need be, the replay. Phase OPEN only. */
void smcr_conn_move(struct smcr_conn *conn, struct smcr_link *to);
/** Move what writes on `from` to `to`, or (NULL) spread it over the others. Connections for which
 * that is not possible stay. @return how many move */
unsigned int smcr_link_move_conns(struct smcr_link *from, struct smcr_link *to);
/** Should a connection rather write on `a` than on `b` (NULL: none)? Fewer write there (LG-17); one
 * that the operator has disabled is the last resort. */
bool smcr_link_better(const struct smcr_link *a, const struct smcr_link *b);
/** A link has become active, or is enabled again: it takes over those that have none, and its share
 *  of the others (FO-12, LG-17). @return how many move */
unsigned int smcr_lgr_rebalance(struct smcr_lgr *lgr);

/* ---- conn.c ---- */
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

/* ---- keepalive.c ---- */
void smcr_conn_keepalive_init(struct smcr_conn *conn);
void smcr_link_keepalive_init(struct smcr_link *link);
/** The link is active: probe it whenever it has been idle for long. */
void smcr_link_keepalive_start(struct smcr_link *link);
/** Until then it is not probed. */
void smcr_link_keepalive_stop(struct smcr_link *link);

/* ---- command.c: what commands wait for. Each may raise ops->command_done(). ---- */
/** A probe of the link was answered, `rtt` microseconds after it was sent. */
void smcr_command_tested(struct smcr_link *link, uint64_t rtt);
void smcr_command_link_failed(struct smcr_link *link);
/** A link more is active; there will be none. */
void smcr_command_link_active(struct smcr_link *link);
void smcr_command_add_failed(struct smcr_lgr *lgr, const char *why);
/** A connection of the group is not moving any more, or has left it. */
void smcr_command_moved(struct smcr_lgr *lgr);
/** The link is being freed. */
void smcr_command_link_gone(struct smcr_link *link);
/** The group is being freed. */
void smcr_command_lgr_gone(struct smcr_lgr *lgr);
/** Forget all of them, silently. */
void smcr_command_free_all(struct smcr_engine *engine);

/* ---- need.c ---- */
/** rx.produced, or tx.committed, has moved from `before`, and rx.peer_blocked is up to date. Raises
 *  OUTGROWN. */
void smcr_need_received(struct smcr_conn *conn, uint64_t before);
void smcr_need_committed(struct smcr_conn *conn, uint64_t before);
/** What the connection has needed so far. */
struct smcr_needs smcr_need_of(const struct smcr_conn *conn);

/* ---- tx.c, rx.c, cdc.c, urgent.c, close.c: the data path of a connection ---- */
/* They also define smcr_conn_tx_*(), smcr_conn_rx_*(), smcr_conn_shutdown/close/abort(). */
/** Own element and send buffer are held: zero the element, write the eye catcher (RMB-3). */
void smcr_conn_data_prepare(struct smcr_conn *conn);
/** The own element is given back: a peer that has closed in order wrote what it told of and no
 * more, so that only this has to be zeroed for the next connection. */
void smcr_conn_data_settle(struct smcr_conn *conn);
/** The peer's element, token and the dialect are known and the gate opens (RV-12, RS-8..10): set up
 *  positions, go to ACTIVE, raise ESTABLISHED, process what came early, send what waits. tcp_fin
 *  may be set already (a FIN may overtake). May free the connection. */
void smcr_conn_data_open(struct smcr_conn *conn);
/** The rendezvous broke after Accept of a subsequent contact, and the host was told: the client may
 *  have sent Confirm and be writing already. No A can be sent, the peer's token is unknown: the own
 *  element stays until the abort timer ends the wait (RMB-8). */
void smcr_conn_linger(struct smcr_conn *conn);
/** A CDC for this connection came on `link` (decoded; token and group matched); also in phase
 *  RENDEZVOUS, where it is kept in rx.early. May free the connection. */
void smcr_conn_cdc_input(struct smcr_conn *conn, struct smcr_link *link,
			 const struct smcr_cdc *cdc);
/** A WRITE or CDC of this connection completed on `link` (tx.outstanding is already less). Not ok:
 *  account only, the link's failure is told separately. May free the connection. */
void smcr_conn_tx_done(struct smcr_conn *conn, struct smcr_link *link,
		       const struct smcr_tx_entry *entry, bool ok);
/** Ask the peer for a CDC: does it know the connection still? Does nothing where none can be sent.
 *  Never frees. */
void smcr_conn_ask(struct smcr_conn *conn);
/** Is it one that smcr_conn_ask() can ask about, now or when its link is well again? */
bool smcr_conn_may_ask(const struct smcr_conn *conn);
/** Room on the link again. */
void smcr_conn_tx_resume(struct smcr_conn *conn);
/** No link left, or the group ends (DELL-9, FO-13): reset without any RDMA, raise RESET (`error`)
 * if the program has not closed, then CLOSED, free. Phase OPEN only. @return RESET was raised */
bool smcr_conn_kill(struct smcr_conn *conn, int error);
/**
 * The peer has given the element that this connection writes into to another one (RMB-9): give up
 * the claim on it and, if the own C is not sent, reset without any RDMA. The own element stays
 * until the peer's last word comes or PeerAbortWait is over: CLC may overtake it. Phase OPEN only.
 * May free the connection.
 */
void smcr_conn_evict(struct smcr_conn *conn);
/** Local cause of an abnormal end (ABORT): raise RESET (`error`) if the program has not
 * closed, send A, PeerAbortWait. Never frees. `why` is for the log; NULL: the program wanted it. */
void smcr_conn_local_abort(struct smcr_conn *conn, int error, const char *why);
/** smcr_conn_tcp_event() in phase OPEN (the rendezvous handles it before). */
void smcr_conn_open_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event);

#endif
