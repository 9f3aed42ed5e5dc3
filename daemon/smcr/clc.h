/* SPDX-License-Identifier: MIT */
/**
 * @file clc.h
 * The rendezvous of one connection (RFC 7609 3.5, C.1 to C.6): what the clc*.c files share, and
 * what link groups and LLC exchanges call.
 */
#ifndef SMCRD_SMCR_CLC_H
#define SMCRD_SMCR_CLC_H

#include "daemon/smcr/internal.h"

/** Where a connection in phase RENDEZVOUS is. */
enum smcr_rv_step {
	SMCR_RV_OUTCOME, /* decided inside smcr_conn_start(); the event comes in the next run */
	SMCR_RV_S_AWAIT_PROPOSAL,
	SMCR_RV_S_DECIDES,  /* the Proposal is judged: Accept, Decline or HELD follows at once */
	SMCR_RV_S_HELD,     /* a first contact with the same peer is under way (RV-15) */
	SMCR_RV_S_ANNOUNCE, /* the own RMB is being announced, Accept waits (RS-3) */
	SMCR_RV_S_AWAIT_CONFIRM,
	SMCR_RV_C_AWAIT_ACCEPT,
	SMCR_RV_C_ANNOUNCE, /* the own RMB is being announced, Confirm waits (RS-5) */
	/** Accept or Confirm has named an element that another connection may still use (A66). */
	SMCR_RV_S_CONTESTED,
	SMCR_RV_C_CONTESTED,
	SMCR_RV_LLC, /* first contact: CLC is done, links are being set up */
	/** First contact: the server has deleted the group before our point of no return. Its
	 *  Decline, or the end of the TCP connection, says what that means (A58). */
	SMCR_RV_C_AWAIT_DECLINE,
	/** Declined from RV_LLC, where the peer may decline too (ERR-5): a Decline of the peer that
	 * crosses ours must not reach the program as data. The outcome FALLBACK is told when that
	 * Decline or anything else has come, or after a while. */
	SMCR_RV_DECLINED,
};

/** May a Decline be sent at this point? (ERR-3, ERR-4, ERR-5, ERR-7, ERR-8) */
enum smcr_decline_window {
	SMCR_DECLINE_NOW,
	SMCR_DECLINE_LATER, /* instead of the next own CLC message, not behind the last one */
	SMCR_DECLINE_NEVER, /* reset the TCP connection instead */
};

enum smcr_decline_window smcr_clc_decline_window(enum smcr_rv_step step, bool first_contact,
						 bool committed);

/** What an Accept means to the client (RV-5). */
enum smcr_contact {
	SMCR_CONTACT_FIRST,
	SMCR_CONTACT_SUBSEQUENT,
	SMCR_CONTACT_OUT_OF_SYNC, /* Decline with S (ERR-9) */
};

enum smcr_contact smcr_clc_classify(bool first_contact_flag, bool matches_active_link);

/* ---- clc.c: begin, wait, end without SMC-R ---- */

/** Has the first contact of this connection passed the point of no return? */
bool smcr_clc_committed(const struct smcr_conn *conn);
/** Decline and end in FALLBACK. The caller has checked smcr_clc_decline_window(). Frees the
 * connection. */
void smcr_clc_decline(struct smcr_conn *conn, enum smcr_reason reason, bool out_of_sync);
/** Decline if the rules allow it, at once or later, else fail. May free the connection. */
void smcr_clc_quit(struct smcr_conn *conn, enum smcr_reason reason, int error);
/** Decline a Proposal because no packet gets through to the peer. Frees the connection. */
void smcr_clc_skip(struct smcr_conn *conn);
/** End in FALLBACK without sending a Decline: plain TCP at once (ERR-2, GEN-4). Frees the
 * connection. */
void smcr_clc_fall_back(struct smcr_conn *conn, uint32_t reason, uint32_t peer_reason,
			bool path_dead);
/** End in FAILED: the host breaks the TCP connection. Frees the connection. */
void smcr_clc_fail(struct smcr_conn *conn, int error, enum smcr_reason reason);
/** End in FALLBACK inside smcr_conn_start(): Decline now, raise the event in the next
 * smcr_engine_run().
 */
void smcr_clc_start_outcome(struct smcr_conn *conn, enum smcr_reason reason);
/** Raise the event that was decided before. Frees the connection. */
void smcr_clc_tell_outcome(struct smcr_conn *conn);
/** Wait for a CLC message (ERR-10). */
void smcr_clc_await(struct smcr_conn *conn, enum smcr_rv_step step);
/** The peer has sent its message and waits for ours. */
void smcr_clc_asked(struct smcr_conn *conn);
/** Our next CLC message has to wait for something: decline before the peer might give up and break
 * the TCP connection. Deployed peers do so after six seconds (ERR-10). */
void smcr_clc_owe(struct smcr_conn *conn, enum smcr_rv_step step);
/** Stop waiting for a CLC message and go to `step`. */
void smcr_clc_proceed(struct smcr_conn *conn, enum smcr_rv_step step);
/** Send a CLC message on the TCP connection. */
void smcr_clc_send(struct smcr_conn *conn, const uint8_t *msg, size_t len);

/* ---- clc_common.c: what both roles do ---- */

/** Is the peer's TCP address one of this host's RNICs, although its peer ID is not ours? */
bool smcr_clc_is_impostor(const struct smcr_conn *conn, const uint8_t peer_id[SMCR_PEER_ID_LEN]);
/** The network that the TCP connection uses. */
struct smcr_prefix smcr_clc_own_lan(const struct smcr_conn *conn);
/** An active RNIC on the network that the TCP connection uses, rather the one with the connection's
 * own address; or NULL. `ipv4`: its GID must be one that version 2 can use. */
struct smcr_device *smcr_clc_choose_device(const struct smcr_conn *conn, bool ipv4);
/** May one more first contact with the peer begin? If not, that is counted. */
bool smcr_clc_may_begin_group(const struct smcr_conn *conn);
/** Send Accept or Confirm with the credentials of conn->rv.link and of the own element. */
void smcr_clc_send_credentials(struct smcr_conn *conn, uint8_t type);
/** First contact: learn the peer's RMB from its CLC message (RKEY-12). */
int smcr_clc_learn_rmb(struct smcr_link *link, const struct smcr_clc_accept *msg);
/** Enter phase OPEN, writing on `link`. May free the connection. */
void smcr_clc_open(struct smcr_conn *conn, struct smcr_link *link);

/* ---- clc_memory.c: the own element and send buffer ---- */

/** Size code of the element that the connection should have. */
uint8_t smcr_clc_element_bsize(const struct smcr_conn *conn);
/** Take an element of an RMB and a send buffer in conn->lgr, adding slabs as needed. */
int smcr_clc_take_memory(struct smcr_conn *conn);
/** The reason for the peer why smcr_clc_take_memory() failed with `rc`. If that is an internal
 * error the log says more. */
enum smcr_reason smcr_clc_memory_reason(const struct smcr_conn *conn, int rc);

/* ---- clc_contest.c: the peer's element ---- */

/** Take the peer's element, token and RMB from its Accept or Confirm; the RMB must be known on
 * `link` (NULL: on a link that is gone). If another connection of ours uses the element or the
 * alert token, and the peer does not know that connection any more, the connection is reset
 * (RMB-9).
 * @return 0; -ENOENT: no such RToken; -EBUSY: the peer is being asked about the other connection,
 *         see smcr_clc_contest(); -EEXIST: the peer still knows the other connection, or the
 *         element would overlap others */
int smcr_clc_claim_element(struct smcr_conn *conn, struct smcr_link *link,
			   const struct smcr_clc_accept *msg);
/** smcr_clc_claim_element() returned -EBUSY: try again with the same message until it returns
 * something else. */
void smcr_clc_contest(struct smcr_conn *conn, const struct smcr_clc_accept *msg);

/* ---- clc_agree.c: what both sides agree on (docs/version-2.md) ---- */

/** Does the configuration allow this version? */
bool smcr_clc_version_allowed(const struct smcr_config *config, uint8_t version);
/** Client: offer version 2, through the device with this GID. */
void smcr_clc_offer_v2(const struct smcr_config *config, const uint8_t gid[SMCR_GID_LEN],
		       struct smcr_clc_proposal *proposal);
/** Server: judge version 2 of a Proposal, apart from devices.
 * @return NONE: `ret` has what is agreed on except `direct`; else why version 2 cannot be used */
enum smcr_reason smcr_clc_take_v2(const struct smcr_config *config,
				  const struct smcr_clc_proposal *proposal,
				  struct smcr_agreed *ret);
/** Client: does our Proposal allow this Accept? @return NONE: `ret` is filled; else why not */
enum smcr_reason smcr_clc_check_accept(const struct smcr_clc_proposal *proposal,
				       const struct smcr_clc_accept *msg, struct smcr_agreed *ret);
/** Server: does the Confirm of a first contact repeat what was agreed? @return NONE or why not */
enum smcr_reason smcr_clc_check_confirm(const struct smcr_agreed *agreed,
					const struct smcr_clc_accept *msg);
/** First contact: store in the group what was agreed. */
void smcr_clc_agree_group(struct smcr_lgr *lgr, const struct smcr_agreed *agreed);
/** First contact in version 2: store what the peer tells of itself in the first contact
 * extension. */
void smcr_clc_learn_peer(struct smcr_lgr *lgr, const struct smcr_clc_accept *msg);
/** Add what version 2 needs to an Accept or Confirm of this connection. */
void smcr_clc_fill_v2(const struct smcr_conn *conn, struct smcr_clc_accept *msg);
/** The diagnosis that a Decline for this reason carries. */
uint32_t smcr_clc_diagnosis(enum smcr_reason reason);

/* Called by the rest of the engine. Each may free the connection. */

/** The engine stops (TERM-1). clc.c */
void smcr_clc_shutdown(struct smcr_conn *conn);
/** Something has happened to the TCP connection. clc_input.c */
void smcr_clc_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event);

/* ---- clc_group.c: what the link group tells ---- */

/** Client: the server has deleted the whole group. If its first contact could still fall back, the
 * connection leaves the group and waits for the server's CLC message. */
void smcr_clc_group_deleted(struct smcr_lgr *lgr);
/** The connection's group ends. Afterwards the connection has no group, or is gone. */
void smcr_clc_lgr_lost(struct smcr_conn *conn);
/** An RMB has been announced, or cannot be announced: connections that wait for it go on. */
void smcr_clc_slab_ready(struct smcr_slab *slab);
void smcr_clc_slab_refused(struct smcr_slab *slab);
/** The data gate of a first contact opens (RV-12): its connection is established, held Proposals
 *  are answered. */
void smcr_clc_first_contact_done(struct smcr_lgr *lgr);
/** Decide the Proposals that waited for a first contact (a DL list, which is taken over). */
void smcr_clc_release_held(struct smcr_conn *held, bool path_dead);
void smcr_clc_unhold(struct smcr_conn *conn);

/* ---- clc_server.c ---- */
void smcr_clc_server_decide(struct smcr_conn *conn);
void smcr_clc_server_accept(struct smcr_conn *conn);
/** The first contact that the connection waits for takes long. */
void smcr_clc_server_held_long(struct smcr_conn *conn);
/** `wrong`: what is wrong with the Confirm, or NONE. */
void smcr_clc_server_confirm(struct smcr_conn *conn, const struct smcr_clc_accept *msg,
			     enum smcr_reason wrong);
/** In step S_CONTESTED: try again. */
void smcr_clc_server_retry(struct smcr_conn *conn, const struct smcr_clc_accept *msg);
/** Does the Proposal list this prefix? (A1) */
bool smcr_clc_names_prefix(const struct smcr_clc_proposal *proposal, const struct smcr_addr *client,
			   const struct smcr_prefix *prefix);

/* ---- clc_client.c ---- */
void smcr_clc_client_start(struct smcr_conn *conn);
void smcr_clc_client_accept(struct smcr_conn *conn, const struct smcr_clc_accept *msg);
void smcr_clc_client_confirm(struct smcr_conn *conn);
/** In step C_CONTESTED: try again. */
void smcr_clc_client_retry(struct smcr_conn *conn, const struct smcr_clc_accept *msg);

/* ---- conn.c ---- */
int smcr_conn_new(struct smcr_engine *engine, const struct smcr_conn_params *params,
		  struct smcr_conn **ret_conn);
/** Set the link that CLC messages name for the connection (NULL: none); counted in
 * link->num_named. */
void smcr_conn_name_link(struct smcr_conn *conn, struct smcr_link *link);

#endif
