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
 *   llc.c       dispatch, queue, collisions (SER)   llc_*.c      one exchange a file
 *   conn.c      connection life and lookup          view.c       snapshots and invariants
 *   cursor.h    position arithmetic (CDC-7..9)      cdc.c        CDC in and out (section 15)
 *   tx.c        writing into the peer's element     rx.c         own element, window updates (WIN)
 *   close.c     CLOSE and ABORT state tables (4.8)
 *
 * Positions: inside the engine a position in a byte stream is a 64-bit count of bytes since the
 * start, never a cursor; cursor.h converts at the wire.
 */
#ifndef SMCRD_ENGINE_INTERNAL_H
#define SMCRD_ENGINE_INTERNAL_H

#include <uthash.h>
#include <utlist.h>

#include "daemon/engine/engine.h"
#include "daemon/engine/ops.h"
#include "daemon/engine/view.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"

#define SMCR_LINK_SLOTS SMCR_MAX_LINKS_TOTAL

/* ---- timers (timer.c) ---- */

struct smcr_timer {
	uint64_t deadline;
	size_t pos; /* 1-based place in the heap, 0 = not running */
	void (*fire)(struct smcr_engine *engine, void *arg);
	void *arg;
};

void smcr_timer_init(struct smcr_timer *timer,
		     void (*fire)(struct smcr_engine *engine, void *arg), void *arg);
/** (Re)start: fires `delay` microseconds from now. */
void smcr_timer_start(struct smcr_engine *engine, struct smcr_timer *timer, uint64_t delay);
void smcr_timer_stop(struct smcr_engine *engine, struct smcr_timer *timer);
static inline bool smcr_timer_running(const struct smcr_timer *timer)
{
	return timer->pos != 0;
}

/* ---- devices ---- */

struct smcr_device {
	struct smcr_device_info info;
	struct smcr_device *next, *prev;
};

/* ---- memory: RMBs and send buffers (slab.c) ---- */

enum smcr_slab_state {
	SMCR_SLAB_NEW, /* not known to the peer: its tokens have not been told */
	SMCR_SLAB_ANNOUNCING, /* CONFIRM RKEY exchange under way */
	SMCR_SLAB_READY, /* elements may be given to connections */
	SMCR_SLAB_DELETING, /* DELETE RKEY under way */
};

/** A piece of registered memory cut into elements of one size: an RMB (remote write), or the send
 *  buffers of a link group (not remote; always READY). Registered once a link (A18, RMB-10). */
struct smcr_slab {
	struct smcr_lgr *lgr;
	bool is_rmb;
	enum smcr_slab_state state;
	uint8_t *base;
	uint32_t element_size; /* E, bytes */
	uint8_t bsize; /* code of E */
	uint16_t count; /* elements, 1..255 */
	uint16_t used;
	uint8_t map[32]; /* bit i: element i (0-based) is used */
	struct {
		void *mr; /* NULL: not registered on that link slot */
		uint32_t lkey, rkey;
	} reg[SMCR_LINK_SLOTS];
	struct smcr_timer idle; /* RKEY-13: delay before an unused RMB goes */
	struct smcr_slab *next, *prev;
};

/** One element of a slab, as a connection holds it. */
struct smcr_element {
	struct smcr_slab *slab; /* NULL: none */
	uint8_t index; /* 1-based, as on the wire */
	uint8_t *addr;
	uint32_t size;
};

/* ---- the peer's memory (peer_rmb.c) ---- */

struct smcr_rtoken {
	bool valid;
	uint32_t rkey;
	uint64_t vaddr;
};

struct smcr_peer_rmb {
	struct smcr_rtoken token[SMCR_LINK_SLOTS]; /* by link slot (RMB-10) */
	struct smcr_conn *user[SMCR_MAX_ELEMENTS + 1]; /* by element index, who writes into it */
	struct smcr_peer_rmb *next, *prev;
};

/* ---- links (link.c) ---- */

enum smcr_link_state {
	SMCR_LINK_ACTIVATING, /* being set up; carries LLC of its own setup only */
	SMCR_LINK_ACTIVE,
	SMCR_LINK_DEACTIVATING, /* DELETE LINK under way: nothing new on it */
	SMCR_LINK_FAILED, /* unusable; kept until the peer agrees that it is gone (DELL-7) */
};

enum smcr_tx_kind {
	SMCR_TX_WRITE,
	SMCR_TX_CDC,
	SMCR_TX_LLC,
};

/** What a posted work request was, kept until its completion. */
struct smcr_tx_entry {
	enum smcr_tx_kind kind;
	struct smcr_conn *conn; /* WRITE, CDC; NULL when the connection is gone */
	uint64_t tx_end; /* WRITE: send-buffer position that is free once it is done */
	uint16_t cdc_seq; /* CDC */
	uint8_t llc_type; /* LLC: what was sent */
	bool llc_reply;
};

struct smcr_link {
	uint64_t ref; /* names it towards the host */
	struct smcr_lgr *lgr;
	uint8_t slot; /* index in lgr->links and in the token tables */
	uint8_t number; /* on the wire, 1..255 (LG-11) */
	enum smcr_link_state state;
	struct smcr_device *device; /* NULL once the device is gone */
	char device_name[SMCR_DEVICE_NAME_LEN];
	uint8_t local_gid[SMCR_GID_LEN];
	uint8_t local_mac[SMCR_MAC_LEN];
	void *qp; /* NULL once destroyed */
	bool qp_failed; /* in error: nothing can be sent */
	uint32_t qpn, psn; /* own */
	uint8_t peer_gid[SMCR_GID_LEN];
	uint8_t peer_mac[SMCR_MAC_LEN];
	uint32_t peer_qpn, peer_psn;
	uint8_t mtu; /* smaller of both, enum smcr_mtu */
	uint32_t uid, peer_uid; /* link user IDs (LG-12) */
	/* posted requests: entry of wr_id is tx[wr_id % tx_depth]; ids run without gaps */
	struct smcr_tx_entry *tx;
	uint32_t tx_depth;
	uint64_t tx_next, tx_done; /* next wr_id to post; all below tx_done have completed */
	struct smcr_conn *waiting; /* connections that wait for room (DL list, conn->tx.wait_*) */
	uint32_t num_conns; /* connections that write on it */
	uint64_t tx_bytes, rx_bytes;
	char last_error[96];
	UT_hash_handle hh; /* engine->links by ref */
};

/* ---- link groups (lgr.c, llc*.c) ---- */

enum smcr_lgr_state {
	SMCR_LGR_FIRST_CONTACT, /* until its first connection is open (RV) */
	SMCR_LGR_ACTIVE,
	SMCR_LGR_TERMINATING, /* DELETE LINK A=1 sent, or all links lost */
};

struct smcr_llc_flow; /* the configuration exchange in progress and the queue: llc.h */

struct smcr_lgr {
	struct smcr_engine *engine;
	uint32_t id; /* local, never on the wire */
	enum smcr_role role; /* ours */
	enum smcr_lgr_state state;
	enum smcr_dialect dialect; /* fixed when the first CONFIRM LINK exchange is done */
	bool dialect_known;
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	uint16_t vlan;
	struct smcr_prefix prefix; /* the LAN it lives on */
	uint8_t max_links; /* negotiated (LG-7) */
	uint8_t last_link_number;
	struct smcr_link *links[SMCR_LINK_SLOTS];
	struct smcr_slab *rmbs; /* own */
	struct smcr_slab *sndbufs;
	struct smcr_peer_rmb *peer_rmbs;
	struct smcr_conn *conns; /* DL list, conn->lgr_next/prev */
	uint32_t num_conns;
	struct smcr_llc_flow *llc;
	uint64_t idle_since;
	struct smcr_timer idle; /* LG-16 */
	struct smcr_timer add_link_retry; /* ERR-70 */
	struct smcr_lgr *next, *prev;
};

/* ---- connections ---- */

enum smcr_conn_phase {
	SMCR_PHASE_RENDEZVOUS, /* CLC, and in first contact LLC: conn->rv tells where */
	SMCR_PHASE_OPEN, /* ESTABLISHED was raised */
	SMCR_PHASE_GONE, /* outcome told; being freed */
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
	SMCR_CONN_CLOSED_STATE,
};

/** Rendezvous side of a connection; owned by clc*.c. */
struct smcr_conn_rv {
	int step; /* enum smcr_rv_step, clc.h */
	bool first_contact;
	struct smcr_timer clc_timer, total_timer;
	struct smcr_clc_proposal proposal; /* server: as received */
	struct smcr_clc_accept accept; /* client: as received */
	struct smcr_link *link; /* the link that CLC names */
	bool held; /* server: waits for a first contact with the same peer (RV-15) */
	struct smcr_conn *held_next, *held_prev;
};

/** Writing into the peer's element; owned by tx.c. Positions are byte counts since the start. */
struct smcr_conn_tx {
	struct smcr_element buf; /* send buffer, from lgr->sndbufs; size is a power of two */
	uint64_t committed; /* the program has put this many bytes into the buffer */
	uint64_t written; /* RDMA writes posted up to here */
	uint64_t completed; /* their completions up to here: buffer space below is free */
	uint64_t peer_consumed; /* from the peer's consumer cursor */
	struct smcr_peer_rmb *rmb; /* where to */
	uint8_t index; /* element index there, 1-based */
	uint32_t element_size; /* E of the peer's element */
	uint32_t usable; /* U: E, or E-4 in the RFC dialect */
	struct smcr_link *link; /* own choice (RS-11) */
	uint32_t outstanding; /* requests posted and not completed, over all links */
	bool blocked; /* B is to be sent, or was in the last CDC */
	bool blocked_sent;
	bool cdc_due; /* a CDC must go as soon as the link has room */
	bool done_sent, closed_sent, abort_sent; /* D, C, A */
	uint16_t cdc_seq; /* number of the last CDC posted; first is 1 (CDC-2) */
	uint16_t cdc_completed; /* SS (FO-5) */
	bool waiting; /* in link->waiting */
	struct smcr_conn *wait_next, *wait_prev;
	uint64_t bytes;
};

/** The own element; owned by rx.c. */
struct smcr_conn_rx {
	struct smcr_element element;
	uint32_t usable; /* U */
	uint64_t produced; /* from the peer's producer cursor: readable up to here */
	uint64_t consumed; /* taken by the program */
	uint64_t consumed_sent; /* as told to the peer last */
	bool peer_blocked; /* B of the peer's last CDC (WIN-3) */
	bool update_requested; /* R (WIN-4) */
	bool any; /* a CDC was processed */
	uint16_t cdc_seq; /* SR: last number processed */
	bool done, closed, aborted; /* D, C, A seen */
	bool early_valid; /* newest CDC that came before the gate opened (RV-13, RS-9) */
	struct smcr_cdc early;
	struct smcr_link *last_link; /* link of the last CDC (TEST-8) */
	uint64_t bytes;
};

struct smcr_conn {
	struct smcr_engine *engine;
	struct smcr_conn_params params;
	enum smcr_conn_phase phase;
	enum smcr_conn_state state;
	struct smcr_lgr *lgr;
	uint32_t token; /* alert token the peer uses towards us (CLC-12), 0 = none yet */
	uint32_t peer_token;
	struct smcr_conn_rv rv;
	struct smcr_conn_tx tx;
	struct smcr_conn_rx rx;
	/* close.c */
	bool app_closed; /* the host called close or abort: no events but CLOSED */
	bool app_shutdown; /* shutdown(WR) asked */
	bool reset_raised;
	bool tcp_dead, tcp_fin;
	struct smcr_timer close_timer, fin_timer;
	struct smcr_conn *lgr_next, *lgr_prev;
	struct smcr_conn *next, *prev; /* engine->conns */
	UT_hash_handle hh; /* engine->tokens by token, once it has one */
};

struct smcr_engine {
	struct smcr_config config; /* defaults filled in */
	const struct smcr_ops *ops;
	void *ctx;
	uint64_t now;
	struct smcr_timer **heap;
	size_t heap_len, heap_cap;
	struct smcr_device *devices;
	struct smcr_lgr *lgrs;
	struct smcr_link *links; /* hash by ref */
	struct smcr_conn *conns; /* all, DL list */
	struct smcr_conn *tokens; /* hash by token */
	uint64_t memory_used;
	uint64_t next_link_ref;
	uint32_t next_lgr_id;
	bool shutting_down;
	struct smcr_engine_view count; /* counters kept as they happen */
};

/** printf to ops->log. */
void smcr_log(struct smcr_engine *engine, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- slab.c ---- */
/** A free element that fits `want` bytes of usable room best, in a READY slab; its `used` mark is
 *  set. @return 0, -ENOENT: a slab must be added first (smcr_slab_add) */
int smcr_element_take(struct smcr_lgr *lgr, bool is_rmb, uint32_t want, struct smcr_element *ret);
void smcr_element_release(struct smcr_element *element);
/** Allocate a slab fitting `want`, register it on every usable link; RMBs start NEW. Shrinks under
 *  memory pressure (RMB-12). */
int smcr_slab_add(struct smcr_lgr *lgr, bool is_rmb, uint32_t want, struct smcr_slab **ret_slab);
int smcr_slab_register(struct smcr_slab *slab, struct smcr_link *link);
void smcr_slab_free(struct smcr_slab *slab);

/* ---- link.c ---- */
/** Room for `n` more work requests on a link that may carry data? */
bool smcr_link_room(const struct smcr_link *link, uint32_t n);
/**
 * Post requests; entries[i] tells what wr[i] is (copied). wr_id and signaled are set here: the last
 * of the list is signaled. A failure to post fails the link (later, from the timer queue: never
 * inside this call) and counts as posted and flushed.
 */
void smcr_link_post(struct smcr_link *link, struct smcr_wr *wr,
		    const struct smcr_tx_entry *entries, size_t n);
/** Queue for room; smcr_conn_tx_resume() is called once when there is some. */
void smcr_link_wait(struct smcr_link *link, struct smcr_conn *conn);
/** Forget a connection everywhere: waiting list, entries of posted requests, counts. */
void smcr_link_forget(struct smcr_link *link, struct smcr_conn *conn);
/** The link cannot be used any more: tell the peer on another link, move or reset connections. */
void smcr_link_fail(struct smcr_link *link, const char *why);

/* ---- conn.c ---- */
/** By alert token; NULL if none or stale (CDC-5). */
struct smcr_conn *smcr_conn_by_token(struct smcr_engine *engine, uint32_t token);
void smcr_conn_raise(struct smcr_conn *conn, const struct smcr_conn_event *event);
/** Take it out of everything, give back elements and token, free it. Raises nothing. */
void smcr_conn_free(struct smcr_conn *conn);

/* ---- tx.c, rx.c, cdc.c, close.c: the data path of a connection ---- */
/** Own element and send buffer are held: zero the element, write the eye catcher (RMB-3). */
void smcr_conn_data_prepare(struct smcr_conn *conn);
/** The peer's element, token and the dialect are known and the gate opens (RV-12, RS-8..10): set up
 *  positions, go to ACTIVE, raise ESTABLISHED, process what came early, send what waits. */
void smcr_conn_data_open(struct smcr_conn *conn);
/** A CDC for this connection came on `link` (already decoded; token matched). */
void smcr_conn_cdc_input(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_cdc *cdc);
/** A WRITE or CDC of this connection completed on `link`. */
void smcr_conn_tx_done(struct smcr_conn *conn, struct smcr_link *link,
		       const struct smcr_tx_entry *entry, bool ok);
/** Room on the link again. */
void smcr_conn_tx_resume(struct smcr_conn *conn);
/** The link it writes on is gone. Until failover exists this resets the connection (GEN-5). */
void smcr_conn_link_lost(struct smcr_conn *conn, struct smcr_link *link);
/** No link left, or the group ends (DELL-9, FO-13): reset without any RDMA, raise RESET (`error`)
 *  if the program has not closed, then CLOSED, free. */
void smcr_conn_kill(struct smcr_conn *conn, int error);
/** Local cause of an abnormal end, a link being there (section 21): send A, PeerAbortWait. */
void smcr_conn_local_abort(struct smcr_conn *conn, int error, const char *why);

#endif
