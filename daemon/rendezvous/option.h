/* SPDX-License-Identifier: MIT */
/**
 * @file option.h
 * The SMC-R TCP option (RFC 7609 3.1, 3.5.1.1, A.1) on the sockets of programs, without a kernel
 * patch. BPF programs on the root of the cgroup hierarchy send and read it, for claimed sockets
 * (proto/ipc/ipc.h: IPC_SO_CLAIM) of the daemon's network namespace only. The BPF programs vanish
 * with the process that has opened them, however that ends.
 *
 * What a program without the daemon sees: setsockopt(IPC_SO_CLAIM) fails. What it sees with it:
 * setsockopt(IPC_SO_CLAIM) succeeds, and getsockopt(IPC_SO_NEGOTIATED) answers
 *   UNKNOWN   not claimed with this daemon (for an accepted socket: its listener was not; claiming
 *             the listener again helps), or the handshake is not finished;
 *   YES       settled: both sides carried the option;
 *   NO        settled: they did not, or (while connect() is still in progress) ours does not.
 *
 * A `struct rdv_option` is used by one thread. Functions return 0 or a negative errno. Functions
 * that allow NULL for `option` (no BPF on this host) say so.
 */
#ifndef SMCRD_RENDEZVOUS_OPTION_H
#define SMCRD_RENDEZVOUS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/rendezvous/bpf/rule.h"
#include "daemon/smcr/engine.h"
#include "proto/ipc/ipc.h"

struct rdv_option;

/** The most bytes of a sentence for the operator, with its NUL. */
#define RDV_TEXT_MAX 256

/** The most bytes of a process' name as the kernel cuts it, with its NUL. */
#define RDV_COMM_LEN 16

/** What the BPF programs know of one socket. */
struct rdv_option_state {
	bool claimed;        /* by the program, or inherited from a claimed listener */
	enum smcr_role role; /* valid once negotiated is YES or NO */
	enum ipc_negotiated negotiated;
	uint32_t reason; /* enum smcr_reason: why NO; else SMCR_REASON_NONE */
	/** Server, YES: the program's own TCP_SYNCNT, which IPC_PROMISE_MARK has replaced; 0: not
	 * known, or there is no mark. */
	int syn_retries;
	/** The address of the last connect(), even while the kernel does not tell it (SYN_SENT);
	 * family 0 for other sockets. IPv4-mapped addresses are IPv4 here. */
	struct smcr_addr peer;
	uint32_t uid;     /* real user of the process that claimed it (or its listener) */
	uint64_t program; /* what that process said it is: ipc_program_id(); 0: nothing */
};

/** A peer to which the option is not sent for a while. */
struct rdv_skipped_peer {
	uid_t uid;                 /* by connections of this user */
	struct smcr_addr peer;     /* port 0: all ports */
	uint32_t seconds_left;     /* 1.. */
	char reason[RDV_TEXT_MAX]; /* sentence given when it was skipped */
};

/**
 * Load the BPF programs and attach them. From now on handshakes of claimed sockets of the calling
 * thread's network namespace carry the option.
 * @param cgroup       what attach_root() gave, its error too; stays the caller's
 * @param socket_path  of the daemon, for others who ask who serves the namespace (serving.h)
 * @param ret_text  on failure: what is missing and what to do, for the log; room RDV_TEXT_MAX. The
 *                  daemon can go on; then all connections are plain TCP
 * @return 0, -EPERM or -EACCES (needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN), -ENOSYS or
 * -EOPNOTSUPP (kernel too old or built without), -EALREADY (another daemon's programs serve the
 * namespace: this one must not go on), or what the kernel said
 */
int rdv_option_open(int cgroup, const char *socket_path, struct rdv_option **ret_option,
		    char ret_text[RDV_TEXT_MAX]);

/** Detach and free. Claims and outcomes are forgotten. NULL is allowed. */
void rdv_option_close(struct rdv_option *option);

/** rdv_option_beat() has to be called at least this often. */
#define RDV_BEAT_MS 500

/**
 * Show that the daemon makes progress. After the first call, no connection is promised SMC-R while
 * the last call is more than three seconds ago (SMCR_REASON_NO_DAEMON, IPC_SO_STANDS_STILL). Claims
 * are recorded meanwhile, and count again from the next call on. Makes no system call. NULL is
 * allowed.
 */
void rdv_option_beat(struct rdv_option *option);

/** Tell programs the number in the daemon's abstract address (IPC_SO_ADDRESS); 0: there is none.
 * NULL is allowed. */
void rdv_option_tell_address(struct rdv_option *option, uint64_t number);

/**
 * Do not send or answer the option for new connections, for a reason, as while no RNIC is usable or
 * while the daemon stops (TCPO-8). With SMCR_REASON_NONE, as after open, send and answer it. Claims
 * are recorded in both cases; connections that have negotiated the option are not affected. NULL is
 * allowed.
 */
void rdv_option_hold(struct rdv_option *option, enum smcr_reason reason);

/**
 * As rdv_option_hold(), while the daemon lacks resources for further connections. A reason of
 * either call is enough. NULL is allowed.
 */
void rdv_option_limit(struct rdv_option *option, enum smcr_reason reason);

/**
 * The same for the sockets that one user has claimed, while that user has as many connections as
 * allowed. SMCR_REASON_NONE ends it. NULL is allowed.
 * @return 0, -ENOSPC (4096 users)
 */
int rdv_option_limit_user(struct rdv_option *option, uid_t uid, enum smcr_reason reason);

/** Numbers of claimed listeners. */
struct rdv_listeners {
	uint32_t claimed;  /* of all users */
	uint32_t refused;  /* claims since open that were too many: these listeners are plain TCP */
	uid_t refused_uid; /* the user of the last refused claim */
};

/**
 * How many listeners are claimed. All users together may have 16384. One user may have no more than
 * are left for others, so that nobody loses claims because another user makes many. NULL is
 * allowed.
 */
void rdv_option_get_listeners(const struct rdv_option *option, struct rdv_listeners *ret_listeners);

/**
 * What is known about a socket.
 * @param option  NULL: nothing is claimed
 * @param fd      any descriptor of the socket, also one received from another process
 * @return 0, -EBADF, -ENOTSOCK
 */
int rdv_option_query(const struct rdv_option *option, int fd, struct rdv_option_state *ret_state);

/** SO_NETNS_COOKIE of the calling thread's network namespace. @return 0 or an error of the
 * kernel */
int rdv_netns_cookie(uint64_t *ret_cookie);

/**
 * Do not send the option to a peer for a while, on sockets that a user has claimed, because SMC-R
 * with it did not work (path_dead of a FALLBACK event, perhaps because a firewall drops UDP port
 * 4791). If the peer and port are skipped already, the later end and the new reason count.
 * @param option   NULL: nothing to do
 * @param peer     port 0: all connections with the address, incoming ones too; else only
 *                 connections to this TCP port of the address
 * @param seconds  1..86400, larger values are reduced
 * @param reason   sentence for the operator, copied
 * @return 0, -EINVAL (family), -ENOMEM, -E2BIG (4096 of all users together)
 */
int rdv_option_skip_peer(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer,
			 uint32_t seconds, const char *reason);

/** End rdv_option_skip_peer() for the same user, address and port. @return 0, -ENOENT */
int rdv_option_unskip_peer(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer);

/**
 * Peers that are skipped now, in no order.
 * @param option  NULL: none
 * @return number written to `ret_peers`, at most `max`
 */
size_t rdv_option_skipped_peers(struct rdv_option *option, struct rdv_skipped_peer *ret_peers,
				size_t max);

/**
 * Never send or answer the option if the local or the remote address is inside a prefix (local
 * policy, IPsec, an interface without RNIC: TCPO-8), until the prefix is removed. Of two prefixes
 * the longer one gives the reason; for the same prefix the first call does. NULL is allowed.
 * @param reason  not SMCR_REASON_NONE
 * @return 0, -EINVAL (family, length), -ENOSPC (1024 prefixes)
 */
int rdv_option_exclude(struct rdv_option *option, const struct smcr_prefix *prefix,
		       enum smcr_reason reason);

/** Remove a prefix of rdv_option_exclude(). @return 0, -EINVAL, -ENOENT */
int rdv_option_include(struct rdv_option *option, const struct smcr_prefix *prefix);

/**
 * Add an address of this host: connections with it stay TCP (SMCR_REASON_OWN_HOST). Once there is
 * such an address, so do connections with loopback addresses. NULL is allowed.
 * @param own   false: remove the address
 * @param addr  the port does not matter
 * @return 0, -EINVAL (family), -ENOSPC (4096 addresses)
 */
int rdv_option_own_address(struct rdv_option *option, const struct smcr_addr *addr, bool own);

/** An address in the format of rules and BPF programs. */
struct smcr_addr16 rdv_addr16(const struct smcr_addr *addr);

/* ---- what leaves claimed sockets: daemon/rendezvous/gate.h */

/** The BPF maps that gate.c uses. The option keeps the descriptors. */
struct rdv_gate_source {
	int socks, spoken, synacks;
};

struct rdv_gate_source rdv_option_gate_source(const struct rdv_option *option);

/* ---- connections that stay plain TCP: daemon/rendezvous/tally.h reads them */

/** What tally.c uses. The option keeps the descriptors. */
struct rdv_tally_source {
	int told, counts;        /* BPF maps */
	uint32_t *round;         /* incremented whenever `told` has been read */
	int64_t clock_offset_ns; /* CLOCK_MONOTONIC here less that of the BPF programs */
};

struct rdv_tally_source rdv_option_tally_source(struct rdv_option *option);

/** The name of a process in printable form: a program may put any bytes into it.
 * @param comm  from the kernel; not always NUL terminated */
void rdv_comm(const char comm[RDV_COMM_LEN], char ret_comm[RDV_COMM_LEN]);

/** An address from the format of BPF programs. @param port host byte order */
struct smcr_addr rdv_addr_of16(const struct smcr_addr16 *addr, uint16_t port);

/* ---- rules: deny wins; where one allows, what none allows is denied (SMCR_REASON_LOCAL_POLICY) */

/**
 * Put a rule in a place, or (NULL) empty the place; its hits are 0 again. NULL is allowed.
 * @param place  below SMCR_MAX_RULES
 * @return 0, -EINVAL
 */
int rdv_option_set_rule(struct rdv_option *option, uint32_t place, const struct smcr_rule *rule);

/** How many handshakes the rule in `place` has decided; for place SMCR_MAX_RULES: how many were
 * denied because no rule allowed them. NULL: 0. */
uint64_t rdv_option_rule_hits(const struct rdv_option *option, uint32_t place);

/* ---- where connections are short */

/** Connections of a user with a peer, all to one TCP port. */
struct rdv_place {
	uid_t uid;             /* who claims the socket: who calls connect() or listen() */
	bool server;           /* the port is one of this host; else of the peer */
	struct smcr_addr peer; /* the peer's address, with that port */
	/** `server`: the address of this host to which the peer connects; no port. Else unused. */
	struct smcr_addr local;
};

/**
 * Do not send the option on these connections, except for a sample of them, or (`on` false) send it
 * again. NULL is allowed.
 * @return 0, -EINVAL, -E2BIG (4096 places), -ENOENT (`on` false)
 */
int rdv_option_set_short(struct rdv_option *option, const struct rdv_place *where, bool on);

/** How many handshakes since then were left on TCP, and how many tried SMC-R all the same. NULL:
 * -ENOENT.
 *  @return 0, -ENOENT */
int rdv_option_short_counts(const struct rdv_option *option, const struct rdv_place *where,
			    uint64_t *ret_left, uint64_t *ret_tried);

/** The sample of connect() calls to a place has no more than this many a second. NULL is allowed.
 * @param rate  0: any number */
void rdv_option_set_sample(struct rdv_option *option, uint32_t rate);

#endif
