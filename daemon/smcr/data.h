/* SPDX-License-Identifier: MIT */
/**
 * @file data.h
 * The data path of a connection in SMCR_PHASE_OPEN: what cdc.c, tx.c, rx.c, urgent.c, close.c and
 * failover.c share, and what the rest of the engine calls. These files also define calls of the
 * host that are declared in engine.h: smcr_conn_tx_*(), smcr_conn_rx_*(),
 * smcr_conn_shutdown/close/abort().
 *
 * When a connection is freed: only in calls of which internal.h or this file says so. The calls
 * with which the host fills and empties buffers (smcr_conn_tx_*, smcr_conn_rx_*,
 * smcr_conn_shutdown) never free it; if such a call finds that the connection has ended, the end is
 * carried out from the timer queue.
 */
#ifndef SMCRD_SMCR_DATA_H
#define SMCRD_SMCR_DATA_H

#include "daemon/smcr/cursor.h"
#include "daemon/smcr/internal.h"

/** The most RDMA writes that a range of bytes needs: it is cut where the peer's element wraps and
 * where the send buffer wraps (CDC-11). */
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
/** A CDC for this connection came on `link` (decoded; token and group matched). In phase RENDEZVOUS
 * the CDC is kept in rx.early. May free the connection. */
void smcr_cdc_input(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_cdc *cdc);
/**
 * Post `n` RDMA writes (0..SMCR_MAX_WRITES) and the CDC that describes the connection's whole
 * present state (CDC-4, CDC-6) in one call. Both arrays have room for one more entry. The caller
 * has checked that the link has room (smcr_tx_room).
 */
void smcr_cdc_post(struct smcr_conn *conn, struct smcr_wr *wr, struct smcr_tx_entry *entries,
		   size_t n);

/** A CDC has come in on `link`: check it, and give it to its connection. */
void smcr_cdc_recv(struct smcr_link *link, const uint8_t *data, size_t len);
/** tx.cdc_completed has moved: end the measurement of the round trip if its CDC has completed. */
void smcr_cdc_timed(struct smcr_conn *conn);

/* ---- tx.c ---- */
/** A WRITE or CDC of this connection completed on `link` (tx.outstanding is already less). If `ok`
 * is false the request is only accounted for: the failure of the link is told separately. May free
 * the connection. */
void smcr_tx_done(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_tx_entry *entry,
		  bool ok);
/** A write that was to prove a link (A67) has completed or was flushed (tx.outstanding and
 * tx.proofs are already less). The connection may be open by then, if that link was given up: it
 * has space for data from the last of these writes on. May free the connection. */
void smcr_tx_proof_over(struct smcr_conn *conn);
/** Ask the peer for a CDC, to learn whether it still knows the connection. Does nothing if no CDC
 * can be sent. Never frees. */
void smcr_tx_ask(struct smcr_conn *conn);
/** Can smcr_tx_ask() ask about the connection, now or once it has a link again? */
bool smcr_tx_may_ask(const struct smcr_conn *conn);
/** The link has room again. */
void smcr_tx_resume(struct smcr_conn *conn);
/** Has the connection's link room for `n` requests? If not, smcr_tx_push() is called when there is
 * room.
 */
bool smcr_tx_link_room(struct smcr_conn *conn, uint32_t n);
/** The same, within the connection's share of the link. */
bool smcr_tx_room(struct smcr_conn *conn, uint32_t n);
/** Post whatever is due and possible, in this order: A; data; a CDC on its own; D or C. Never
 * frees. */
void smcr_tx_push(struct smcr_conn *conn);
/** If A is due, the CDC that is posted next has it, and D if that ended the data before. */
void smcr_tx_take_abort(struct smcr_conn *conn);
/** Free window of the peer's element, bytes. */
static inline uint64_t smcr_tx_window(const struct smcr_conn *conn)
{
	return conn->tx.usable - (conn->tx.written - conn->tx.peer_consumed);
}

/** Count `len` bytes that are written with one message; tx.written includes them. */
void smcr_tx_count(struct smcr_conn *conn, uint64_t len);
/** The position up to which the peer's window and the bytes that the program has committed allow to
 * write now. */
uint64_t smcr_tx_limit(const struct smcr_conn *conn);
/** Cut the bytes [from, to) of the send buffer into writes into the peer's element. @return
 * requests filled in, up to SMCR_MAX_WRITES */
size_t smcr_tx_build_writes(const struct smcr_conn *conn, uint64_t from, uint64_t to,
			    struct smcr_wr *wr, struct smcr_tx_entry *entries);

/* ---- failover.c ---- */
/** While tx.moving: post the validation and the replay as soon as no request is outstanding on
 * another link and the new link has room. */
void smcr_failover_step(struct smcr_conn *conn);
/** Is the connection's last CDC, with C or A, sent but not known to have arrived? */
bool smcr_failover_last_word_pending(const struct smcr_conn *conn);

/* ---- rx.c ---- */
/** The connection has its element and its send buffer: zero the element, write the eye catcher
 * (RMB-3). */
void smcr_rx_prepare(struct smcr_conn *conn);
/** The own element is given back. A peer that has closed in good order has written only what its
 * cursors told of, so only those bytes have to be zeroed for the next connection. */
void smcr_rx_settle(struct smcr_conn *conn);
/** RMB-5: is the eye catcher of the own element whole? True where the dialect has none. */
bool smcr_rx_eye_catcher_ok(const struct smcr_conn *conn);
/** After a consumption: do the rules of WIN-1 to WIN-7 want a CDC for the consumer cursor? */
bool smcr_rx_update_due(const struct smcr_conn *conn);

/* ---- urgent.c ---- */
/** The position up to which data may be written now: not beyond an urgent byte that the peer has
 * not consumed (URG-3). At least tx.written. */
uint64_t smcr_urgent_limit(const struct smcr_conn *conn);
/** P and U of the next CDC; tx.written includes the bytes that are posted with that CDC. */
uint8_t smcr_urgent_flags(const struct smcr_conn *conn);
/** tx.written has moved. */
void smcr_urgent_written(struct smcr_conn *conn);
/** This CDC was posted, with the newest consumer position. */
void smcr_urgent_posted(struct smcr_conn *conn, const struct smcr_cdc *cdc);
/** The connection writes on another link from now on; tx.cdc_completed is final for the old link.
 * If the peer may not have been told of an urgent byte, the next CDC tells it again. */
void smcr_urgent_moved(struct smcr_conn *conn);
/** tx.peer_consumed has moved. Raises WRITABLE if a new urgent byte may come. */
void smcr_urgent_acknowledged(struct smcr_conn *conn);
/** P and U of a CDC that came, once rx.produced is up to date. Raises URGENT. */
void smcr_urgent_input(struct smcr_conn *conn, const struct smcr_cdc *cdc);
/** `newest` takes the place of `older`, which was never processed: keep what `older` said about an
 * urgent byte. */
void smcr_urgent_keep(const struct smcr_cdc *older, struct smcr_cdc *newest);

/* ---- close.c ---- */
/** The peer's element, token and the dialect are known and the gate opens (RV-12, RS-8, RS-9,
 * RS-10): set up positions, go to ACTIVE, raise ESTABLISHED, process the CDC that came early, send
 * what waits. tcp_fin may be set already, as a FIN may overtake the CDC. May free the
 * connection. */
void smcr_data_open(struct smcr_conn *conn);
/** The rendezvous broke after Accept of a subsequent contact, and the host was told: the client may
 * have sent Confirm and be writing already. No A can be sent, as the peer's token is unknown. The
 * own element stays in use until the abort timer ends the wait (RMB-8). */
void smcr_close_linger(struct smcr_conn *conn);
/** No link is left, or the group ends (DELL-9, FO-13): reset without any RDMA, raise RESET
 * (`error`) if the program has not closed, raise CLOSED, free. Phase OPEN only. @return RESET was
 * raised */
bool smcr_close_kill(struct smcr_conn *conn, int error);
/**
 * The peer has given the element that this connection writes into to another connection (RMB-9):
 * give up the claim on the element and, if the own C is not sent, reset without any RDMA. The own
 * element stays in use until the peer's last CDC comes, which CLC may have overtaken, or
 * PeerAbortWait is over. Phase OPEN only. May free the connection.
 */
void smcr_close_evict(struct smcr_conn *conn);
/** Local cause of an abnormal end (ABORT): raise RESET (`error`) if the program has not
 * closed, send A, PeerAbortWait. Never frees. `why` is for the log; NULL: the program wanted it. */
void smcr_close_local_abort(struct smcr_conn *conn, int error, const char *why);
/** Data came that the program will not read, since it has closed: ABORT, and D goes with A if the
 * own data were not cut short. Never frees. */
void smcr_close_unread(struct smcr_conn *conn);
/** smcr_conn_tcp_event() in phase OPEN (the rendezvous handles it before). */
void smcr_close_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event);
/** Send D or C if the program asked for it and all data and CDCs have completed. Never frees. */
void smcr_close_step(struct smcr_conn *conn);
/** Will D or C be sent as soon as the outstanding requests have completed? */
bool smcr_close_draining(const struct smcr_conn *conn);
/** The peer or the RNIC shows life: restart the timers that wait for the end of the connection.
 * `progress`: own data have arrived or were read. */
void smcr_close_activity(struct smcr_conn *conn, bool progress);
/** D came for the first time. */
void smcr_close_peer_done(struct smcr_conn *conn);
/** C came for the first time. May free. @return the connection is still flowing */
bool smcr_close_peer_closed(struct smcr_conn *conn);
/** A came while flowing. May free. */
void smcr_close_peer_abort(struct smcr_conn *conn);
/** A or C came while the connection is being aborted. May free. */
void smcr_close_abort_answered(struct smcr_conn *conn);
/** A request has completed although the connection does not flow any more. May free. */
void smcr_close_completed(struct smcr_conn *conn);

#endif
