/* SPDX-License-Identifier: MIT */
/**
 * @file view.h
 * What operators see of an engine: snapshots, never pointers into the engine. All functions are
 * [anywhere].
 */
#ifndef SMCRD_SMCR_VIEW_H
#define SMCRD_SMCR_VIEW_H

#include "daemon/smcr/engine.h"

/** The states of a link. */
enum smcr_link_state {
	SMCR_LINK_ACTIVATING, /* being set up; carries only LLC messages of its own setup */
	SMCR_LINK_ACTIVE,
	SMCR_LINK_DEACTIVATING, /* DELETE LINK is under way: nothing new goes on the link */
	SMCR_LINK_FAILED,       /* unusable; kept until the peer agrees that it is gone (DELL-7) */
};

/** The states of a connection (RFC 7609 4.8; requirements.tsv, groups CLOSE and ABORT). */
enum smcr_conn_state {
	SMCR_STATE_INIT, /* rendezvous */
	SMCR_STATE_ACTIVE,
	SMCR_STATE_PEER_CLOSE_WAIT_1,
	SMCR_STATE_PEER_CLOSE_WAIT_2,
	SMCR_STATE_APP_CLOSE_WAIT_1,
	SMCR_STATE_APP_CLOSE_WAIT_2,
	SMCR_STATE_APP_FIN_CLOSE_WAIT,
	SMCR_STATE_PEER_FIN_CLOSE_WAIT,
	SMCR_STATE_PEER_ABORT_WAIT,
	SMCR_STATE_PROCESS_ABORT, /* the peer has aborted; the own A is on its way (Figure 23) */
	SMCR_STATE_CLOSED,        /* over; kept until no request is outstanding */
};

/** Names as `smcrctl` prints them; static storage; never NULL. */
const char *smcr_conn_state_name(int state); /* "active", "peer-close-wait-1", .. (RFC 7609 4.8) */
const char *smcr_link_state_name(int state); /* activating active deactivating failed */

struct smcr_lgr_view {
	uint32_t id;
	enum smcr_role role;
	const char *type; /* single symmetric asymmetric-local asymmetric-peer */
	uint8_t version;
	enum smcr_dialect dialect;
	uint8_t peer_id[SMCR_PEER_ID_LEN];
	struct smcr_addr peer; /* TCP address of the peer in the group's first connection */
	uint16_t vlan;
	uint8_t max_links;
	struct { /* version 2 */
		uint8_t release, max_conns;
		bool direct;    /* no gateway between the RoCE addresses */
		const char *os; /* the peer's operating system */
	} v2;
	char eid[SMCR_EID_LEN + 1], peer_host[SMCR_EID_LEN + 1]; /* "" in version 1 */
	uint32_t num_conns, num_links, num_rmbs, num_peer_rmbs;
	uint64_t idle_us; /* since the last connection ended; 0 with connections */
};

#define SMCR_LAST_ERROR_LEN 128

struct smcr_link_view {
	uint32_t lgr_id;
	uint8_t number;
	struct smcr_addr peer; /* as in its link group's view */
	char peer_host[SMCR_EID_LEN + 1];
	enum smcr_dialect dialect; /* likewise; valid if `dialect_known` */
	bool dialect_known;        /* the group's first link was confirmed */
	int state;                 /* enum smcr_link_state */
	uint32_t device_id;
	char device_name[SMCR_DEVICE_NAME_LEN];
	uint8_t local_gid[SMCR_GID_LEN], peer_gid[SMCR_GID_LEN];
	uint8_t local_mac[SMCR_MAC_LEN], peer_mac[SMCR_MAC_LEN];
	uint32_t local_qpn, peer_qpn;
	uint8_t mtu; /* enum smcr_mtu */
	uint32_t uid, peer_uid;
	uint32_t num_conns;          /* connections that write on the link */
	uint64_t tx_bytes, rx_bytes; /* application bytes; rx: announced by CDCs on this link */
	bool disabled; /* the operator wants no writes on it while the group has another link */
	void *qp;      /* the host's handle, for the host's own counters */
	char last_error[SMCR_LAST_ERROR_LEN]; /* "" if none */
};

struct smcr_conn_view {
	struct smcr_addr local, peer;
	enum smcr_role role;
	uint32_t lgr_id;                  /* 0 while none */
	char peer_host[SMCR_EID_LEN + 1]; /* as in the view of the link group */
	uint8_t link_number;              /* 0 while none */
	int state;                        /* enum smcr_conn_state */
	uint64_t tx_bytes, rx_bytes;      /* application bytes */
	/** Bytes taken from the program: not written to the peer yet; not known to have arrived
	 * there. */
	uint64_t tx_unsent, tx_unacked;
	bool tx_ended, rx_ended; /* the peer was told, or has told, that no more bytes follow */
	uint32_t rmbe_size, peer_rmbe_size, sndbuf_size;
	uint32_t pid;
	/** Bytes: free in the peer's element; received and not taken by the program; free in the
	 * own element as the peer knows. */
	uint64_t tx_window, rx_unread, rx_window;
	uint64_t tx_in_peer; /* written to the peer, and not known to be read */
	uint64_t tx_requests, rx_requests, tx_full, tx_window_full, rx_full; /* engine/stats.h */
	uint32_t moves;             /* how often it moved to another link */
	uint32_t rtt_us;            /* from posting a CDC to its completion; 0: not known */
	uint64_t said_us, heard_us; /* since the last CDC was sent, and came; UINT64_MAX: none */
	uint8_t version;            /* 0 while there is no link group */
	enum smcr_dialect dialect;
	void *qp;   /* the host's handle of the link's QP; NULL: none */
	void *user; /* NULL once CLOSED was raised: the host has forgotten it (close.c) */
};

#define SMCR_RMB_MAX_OWNERS 255

/** A slab: an RMB, or send buffers of a link group. */
struct smcr_rmb_view {
	uint32_t lgr_id, number; /* counted in the group from 1 */
	bool is_rmb;
	const char *state; /* new announcing ready deleting */
	uint32_t element_size;
	uint32_t elements, used;
	uint64_t fill; /* bytes in its elements that are not read, or not known to have arrived */
	uint32_t registered;    /* number of links on which it is registered */
	uint32_t lgr_num_conns; /* of the group, all of which a view of one slab looks at */
	/** `user` of the connections that use its elements; without those that the host has
	 * forgotten. */
	uint32_t num_owners;
	void *const *owners;
};

/** A path from an RNIC of this host to an RNIC of a peer on which full-size packets did not
 * pass. */
struct smcr_path_view {
	uint32_t number;       /* 1..64; the number of a forgotten path may be used again */
	struct smcr_addr peer; /* as in the view of the link group in which that was found */
	char device_name[SMCR_DEVICE_NAME_LEN]; /* "" if the device is not there now */
	uint8_t local_gid[SMCR_GID_LEN], peer_gid[SMCR_GID_LEN];
	uint8_t mtu; /* enum smcr_mtu: used for new links */
	bool proven; /* found by packets of every size; else suspected because data were lost */
	uint64_t left_us; /* time until the path is forgotten */
};

struct smcr_engine_view {
	uint64_t memory_used; /* bytes of RMBs and send buffers */
	uint64_t memory_budget;
	uint32_t num_conns, num_lgrs, num_links, num_rmbs, num_elements_used, num_timers;
	uint32_t num_qps, num_mrs; /* that the host has made and not destroyed; for leak checks */
	uint64_t conns_established, conns_fallback, conns_failed, conns_reset; /* since start */
	uint64_t memory_refused, first_contacts_refused; /* connections declined for that reason */
	uint64_t cdc_dropped_token, cdc_dropped_old, llc_dropped, llc_protocol_errors;
};

void smcr_engine_get_view(const struct smcr_engine *engine, struct smcr_engine_view *ret_view);
void smcr_engine_each_lgr(const struct smcr_engine *engine,
			  void (*fn)(void *arg, const struct smcr_lgr_view *view), void *arg);
void smcr_engine_each_link(const struct smcr_engine *engine,
			   void (*fn)(void *arg, const struct smcr_link_view *view), void *arg);
/** Call `fn` for the link groups with a larger id than `after`, smallest first, until it returns
 *  false. @return true: those were all */
bool smcr_engine_walk_lgrs(const struct smcr_engine *engine, uint32_t after,
			   bool (*fn)(void *arg, const struct smcr_lgr_view *view), void *arg);
/** The same for the links of these groups. The walk stops only between groups: what `fn` returns
 * counts for the last link of a group. */
bool smcr_engine_walk_links(const struct smcr_engine *engine, uint32_t after,
			    bool (*fn)(void *arg, const struct smcr_link_view *view), void *arg);
/** The last RMB that a walk has come to, as in smcr_rmb_view. Zero: the walk begins. */
struct smcr_rmb_place {
	uint32_t lgr_id, number;
};
/** Call `fn` for the slabs behind `after`, ordered by group and number, until it returns false.
 * @return true: those were all */
bool smcr_engine_walk_rmbs(const struct smcr_engine *engine, struct smcr_rmb_place after,
			   bool (*fn)(void *arg, const struct smcr_rmb_view *view), void *arg);
/** Call `fn` for the paths with a larger number than `after`, until it returns false. @return true:
 *  those were all */
bool smcr_engine_walk_paths(const struct smcr_engine *engine, uint32_t after,
			    bool (*fn)(void *arg, const struct smcr_path_view *view), void *arg);
/** The view of a link. @return false: there is no such link */
bool smcr_engine_get_link(const struct smcr_engine *engine, uint64_t link_ref,
			  struct smcr_link_view *ret_view);

/** One piece of memory in an element that RDMA writes of the peer have filled. */
struct smcr_arrival {
	const uint8_t *addr;
	uint32_t length;
	uint32_t rkey;        /* the peer's RKey of the memory on that link */
	uint64_t remote_addr; /* where the peer has written */
};
/**
 * The bytes that a message announces. To be called before smcr_engine_recv() gets the message; the
 * result is valid until the next call that is not [anywhere]. There are none if the connection is
 * not established or the message is not in order.
 * @return 0..2
 */
size_t smcr_engine_arrivals(const struct smcr_engine *engine, uint64_t link_ref,
			    const uint8_t *data, size_t len, struct smcr_arrival ret[2]);

/** Has an operator taken this device out of use? */
bool smcr_engine_device_drained(const struct smcr_engine *engine, uint32_t id);
/** Does an active link lead to the host with this address? The port does not matter. */
bool smcr_engine_reaches(const struct smcr_engine *engine, const struct smcr_addr *peer);
void smcr_conn_get_view(const struct smcr_conn *conn, struct smcr_conn_view *ret_view);

/**
 * Check every internal invariant that can be seen from one side (RKEY-11, element accounting, hash
 * and list consistency). For the simulator and tests.
 * @return 0, or -EINVAL with a sentence in `ret_text`
 */
int smcr_engine_check(const struct smcr_engine *engine, char *ret_text, size_t len);

#endif
