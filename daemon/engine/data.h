/* SPDX-License-Identifier: MIT */
/**
 * @file data.h
 * The data path of a connection in SMCR_PHASE_OPEN: what cdc.c, tx.c, rx.c, urgent.c, close.c and
 * failover.c share, and what others ask of them. They also define the host's calls in engine.h:
 * smcr_conn_tx_*(), smcr_conn_rx_*(), smcr_conn_shutdown/close/abort().
 *
 * Who may free: the connection is freed only where internal.h or this file says so. What the host
 * calls while it fills or empties buffers (smcr_conn_tx_*, smcr_conn_rx_*, smcr_conn_shutdown)
 * never frees; an end that such a call finds is carried out from the timer queue.
 */
#ifndef SMCRD_ENGINE_DATA_H
#define SMCRD_ENGINE_DATA_H

#include "daemon/engine/cursor.h"
#include "daemon/engine/internal.h"

/** Most RDMA writes that one range needs: it is cut where the peer's element wraps and where the
 *  send buffer wraps (CDC-11). */
#define SMCR_MAX_WRITES 3

static inline struct smcr_ring smcr_tx_ring(const struct smcr_conn *conn)
{
	return (struct smcr_ring){ conn->tx.element_size, conn->tx.usable };
}

static inline struct smcr_ring smcr_rx_ring(const struct smcr_conn *conn)
{
	return (struct smcr_ring){ conn->rx.element.size, conn->rx.usable };
}

/** Open and not ending abnormally: data, cursors and flags still mean something. */
static inline bool smcr_data_flowing(const struct smcr_conn *conn)
{
	return conn->phase == SMCR_PHASE_OPEN && conn->state != SMCR_STATE_PEER_ABORT_WAIT &&
	       conn->state != SMCR_STATE_PROCESS_ABORT && conn->state != SMCR_STATE_CLOSED;
}

/** May the host still use the data calls? */
static inline bool smcr_data_usable(const struct smcr_conn *conn)
{
	return smcr_data_flowing(conn) && !conn->app_closed;
}

/* ---- cdc.c ---- */
/** A CDC for this connection came on `link` (decoded; token and group matched); also in phase
 *  RENDEZVOUS, where it is kept in rx.early. May free the connection. */
void smcr_cdc_input(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_cdc *cdc);
/**
 * Post `n` RDMA writes (0..SMCR_MAX_WRITES) and the CDC that describes the connection's whole
 * present state (CDC-4, CDC-6) in one call; both arrays have room for one more. The caller has made
 * sure of the room (smcr_tx_room).
 */
void smcr_cdc_post(struct smcr_conn *conn, struct smcr_wr *wr, struct smcr_tx_entry *entries,
		   size_t n);

/** A CDC message has come in on `link`: check it, and give it to its connection. */
void smcr_cdc_recv(struct smcr_link *link, const uint8_t *data, size_t len);
/** tx.cdc_completed has moved: is it the message that is timed? */
void smcr_cdc_timed(struct smcr_conn *conn);

/* ---- tx.c ---- */
/** A WRITE or CDC of this connection completed on `link` (tx.outstanding is already less). Not ok:
 *  account only, the link's failure is told separately. May free the connection. */
void smcr_tx_done(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_tx_entry *entry,
		  bool ok);
/** A write that was to prove a link (A67) is over, delivered or flushed (tx.outstanding is already
 *  less). The connection may be open by then, if that link was given up. May free the connection.
 */
void smcr_tx_proof_over(struct smcr_conn *conn);
/** Ask the peer for a CDC: does it know the connection still? Does nothing where none can be sent.
 *  Never frees. */
void smcr_tx_ask(struct smcr_conn *conn);
/** Is it one that smcr_tx_ask() can ask about, now or when its link is well again? */
bool smcr_tx_may_ask(const struct smcr_conn *conn);
/** Room on the link again. */
void smcr_tx_resume(struct smcr_conn *conn);
/** Is there room for `n` requests on its link? If not, smcr_tx_push() will be called when there is.
 */
bool smcr_tx_link_room(struct smcr_conn *conn, uint32_t n);
/** The same, within the connection's share of the link. */
bool smcr_tx_room(struct smcr_conn *conn, uint32_t n);
/** Post whatever is due and possible: A; data; a CDC on its own; then D or C. Never frees. */
void smcr_tx_push(struct smcr_conn *conn);
/** Free window of the peer's element, bytes. */
static inline uint64_t smcr_tx_window(const struct smcr_conn *conn)
{
	return conn->tx.usable - (conn->tx.written - conn->tx.peer_consumed);
}

/** So many bytes more are written with one message; tx.written includes them. */
void smcr_tx_count(struct smcr_conn *conn, uint64_t len);
/** Up to which position the window and the program allow to write now. */
uint64_t smcr_tx_limit(const struct smcr_conn *conn);
/** Cut the bytes [from, to) of the send buffer into writes into the peer's element. @return
 * requests filled in, up to SMCR_MAX_WRITES */
size_t smcr_tx_build_writes(const struct smcr_conn *conn, uint64_t from, uint64_t to,
			    struct smcr_wr *wr, struct smcr_tx_entry *entries);

/* ---- failover.c ---- */
/** While tx.moving: post validation and replay as soon as nothing is outstanding elsewhere and
 * there is room. */
void smcr_failover_step(struct smcr_conn *conn);
/** The last message of the connection, with C or A, is not known to have arrived. */
bool smcr_failover_last_word_pending(const struct smcr_conn *conn);

/* ---- rx.c ---- */
/** Own element and send buffer are held: zero the element, write the eye catcher (RMB-3). */
void smcr_rx_prepare(struct smcr_conn *conn);
/** The own element is given back: a peer that has closed in order wrote what it told of and no
 * more, so that only this has to be zeroed for the next connection. */
void smcr_rx_settle(struct smcr_conn *conn);
/** RMB-5: is the eye catcher of the own element whole? True where the dialect has none. */
bool smcr_rx_eye_catcher_ok(const struct smcr_conn *conn);
/** After a consumption: do the rules of WIN-1 to WIN-7 want a CDC for the consumer cursor? */
bool smcr_rx_update_due(const struct smcr_conn *conn);

/* ---- urgent.c ---- */
/** How far data may be written now: not beyond an urgent byte that the peer has not consumed
 * (URG-3). Not behind tx.written. */
uint64_t smcr_urgent_limit(const struct smcr_conn *conn);
/** P and U as the next CDC must say them; tx.written includes what is posted with it. */
uint8_t smcr_urgent_flags(const struct smcr_conn *conn);
/** tx.written has moved. */
void smcr_urgent_written(struct smcr_conn *conn);
/** This CDC was posted, with the newest consumer position. */
void smcr_urgent_posted(struct smcr_conn *conn, const struct smcr_cdc *cdc);
/** The connection writes on another link from now on; tx.cdc_completed is final for the old one. An
 *  urgent byte that the peer may not have been told of is told again with the next CDC. */
void smcr_urgent_moved(struct smcr_conn *conn);
/** tx.peer_consumed has moved. Raises WRITABLE if a new urgent byte may come. */
void smcr_urgent_acknowledged(struct smcr_conn *conn);
/** P and U of a CDC that came, once rx.produced is up to date. Raises URGENT. */
void smcr_urgent_input(struct smcr_conn *conn, const struct smcr_cdc *cdc);
/** `newest` takes the place of a CDC that was never processed: what that said about an urgent byte
 * still counts. */
void smcr_urgent_keep(const struct smcr_cdc *older, struct smcr_cdc *newest);

/* ---- close.c ---- */
/** The peer's element, token and the dialect are known and the gate opens (RV-12, RS-8, RS-9,
 * RS-10): set up positions, go to ACTIVE, raise ESTABLISHED, process what came early, send what
 * waits. tcp_fin may be set already (a FIN may overtake). May free the connection. */
void smcr_data_open(struct smcr_conn *conn);
/** The rendezvous broke after Accept of a subsequent contact, and the host was told: the client may
 *  have sent Confirm and be writing already. No A can be sent, the peer's token is unknown: the own
 *  element stays until the abort timer ends the wait (RMB-8). */
void smcr_close_linger(struct smcr_conn *conn);
/** No link left, or the group ends (DELL-9, FO-13): reset without any RDMA, raise RESET (`error`)
 * if the program has not closed, then CLOSED, free. Phase OPEN only. @return RESET was raised */
bool smcr_close_kill(struct smcr_conn *conn, int error);
/**
 * The peer has given the element that this connection writes into to another one (RMB-9): give up
 * the claim on it and, if the own C is not sent, reset without any RDMA. The own element stays
 * until the peer's last word comes or PeerAbortWait is over: CLC may overtake it. Phase OPEN only.
 * May free the connection.
 */
void smcr_close_evict(struct smcr_conn *conn);
/** Local cause of an abnormal end (ABORT): raise RESET (`error`) if the program has not
 * closed, send A, PeerAbortWait. Never frees. `why` is for the log; NULL: the program wanted it. */
void smcr_close_local_abort(struct smcr_conn *conn, int error, const char *why);
/** smcr_conn_tcp_event() in phase OPEN (the rendezvous handles it before). */
void smcr_close_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event);
/** Send D or C if the program asked for it and all data and CDCs have completed. Never frees. */
void smcr_close_step(struct smcr_conn *conn);
/** Is D or C going to be sent as soon as what is outstanding has completed? */
bool smcr_close_draining(const struct smcr_conn *conn);
/** The peer or the RNIC shows life: timers that wait for the end start anew. `progress`: data of
 * ours arrived or were read. */
void smcr_close_activity(struct smcr_conn *conn, bool progress);
/** D came for the first time. */
void smcr_close_peer_done(struct smcr_conn *conn);
/** C came for the first time. May free. @return the connection is still flowing */
bool smcr_close_peer_closed(struct smcr_conn *conn);
/** A came while flowing. May free. */
void smcr_close_peer_abort(struct smcr_conn *conn);
/** A or C came while the connection is being aborted. May free. */
void smcr_close_abort_answered(struct smcr_conn *conn);
/** A request completed while the connection does not flow any more. May free. */
void smcr_close_completed(struct smcr_conn *conn);

#endif
