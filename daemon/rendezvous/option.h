/* SPDX-License-Identifier: MIT */
/**
 * @file option.h
 * The SMC-R TCP option (RFC 7609 3.1, 3.5.1.1, A.1) on the sockets of programs, without a kernel
 * patch: BPF programs on the root of the cgroup hierarchy, limited to the network namespace of the
 * daemon and to sockets that were claimed (proto/ipc/ipc.h: IPC_SO_CLAIM). They vanish with the
 * process that opened them, however it ends.
 *
 * What a program without the daemon sees: setsockopt(IPC_SO_CLAIM) fails. What it sees with it:
 * setsockopt(IPC_SO_CLAIM) succeeds, and getsockopt(IPC_SO_NEGOTIATED) answers
 *   UNKNOWN   not claimed with this daemon (for an accepted socket: its listener was not; claiming
 *             the listener again helps), or the handshake is not finished;
 *   YES       settled: both sides carried the option;
 *   NO        settled: they did not, or (while connect() is still in progress) ours does not.
 *
 * One thread uses a `struct rdv_option`. Functions return 0 or a negative errno. Where `option` may
 * be NULL (no BPF on this host) it is said.
 */
#ifndef SMCRD_RENDEZVOUS_OPTION_H
#define SMCRD_RENDEZVOUS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/rendezvous/bpf/rule.h"
#include "proto/ipc/ipc.h"

struct rdv_option;

/** Room that a sentence for the operator needs at most. */
#define RDV_TEXT_MAX 256

/** Room for the name of a process, as the kernel cuts it, with its NUL. */
#define RDV_COMM_LEN 16

/** What the BPF programs know of one socket. */
struct rdv_option_state {
	bool claimed;        /* by the program, or inherited from a claimed listener */
	enum smcr_role role; /* valid once negotiated is YES or NO */
	enum ipc_negotiated negotiated;
	uint32_t reason; /* enum smcr_reason: why NO; else SMCR_REASON_NONE */
	/** Server, YES: the program's own TCP_SYNCNT, in whose place IPC_PROMISE_MARK stands; 0
	 * where that is not known, or no mark stands. */
	int syn_retries;
	/** Where the last connect() goes, also while the kernel does not tell (SYN_SENT); family 0
	 * for other sockets. IPv4-mapped addresses come as IPv4. */
	struct smcr_addr peer;
	uint32_t uid;     /* real user of the process that claimed it (or its listener) */
	uint64_t program; /* what that said it is: ipc_program_id(); 0: nothing */
};

/** A peer for which the option is left off for a while. */
struct rdv_skipped_peer {
	struct smcr_addr peer;     /* port 0: all of it */
	uint32_t seconds_left;     /* 1.. */
	char reason[RDV_TEXT_MAX]; /* sentence given when it was skipped */
};

/**
 * Load the programs and attach them. From here on claimed sockets of the calling thread's network
 * namespace carry the option.
 * @param cgroup    what attach_root() gave, its error too; stays the caller's
 * @param ret_text  on failure: what is missing and what to do, for the log; room RDV_TEXT_MAX. The
 *                  daemon can go on without: all connections are plain TCP then
 * @return 0, -EPERM or -EACCES (needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN), -ENOSYS or
 * -EOPNOTSUPP (kernel too old or built without), or what the kernel said
 */
int rdv_option_open(int cgroup, struct rdv_option **ret_option, char ret_text[RDV_TEXT_MAX]);

/** Detach and free. Claims and outcomes are forgotten. NULL is allowed. */
void rdv_option_close(struct rdv_option *option);

/** How often rdv_option_beat() is to be called at least. */
#define RDV_BEAT_MS 500

/**
 * Show that the daemon makes progress. From the first call on no connection is promised SMC-R while
 * the last one is more than three seconds ago (SMCR_REASON_NO_DAEMON, IPC_SO_STANDS_STILL); claims
 * are recorded meanwhile, and count again with the next call. Costs no system call. NULL is
 * allowed.
 */
void rdv_option_beat(struct rdv_option *option);

/**
 * Leave the option off every new connection for a reason, or (SMCR_REASON_NONE, as after open) send
 * and answer it: while no RNIC is usable, and while the daemon stops (TCPO-8). Claims are recorded
 * in both cases; connections that have negotiated it are not touched. NULL is allowed.
 */
void rdv_option_hold(struct rdv_option *option, enum smcr_reason reason);

/**
 * The same while the daemon is short of what each connection costs it. Either reason suffices. NULL
 * is allowed.
 */
void rdv_option_limit(struct rdv_option *option, enum smcr_reason reason);

/**
 * The same for the sockets that one user has claimed: it has as many connections as it may.
 * SMCR_REASON_NONE ends it. NULL is allowed.
 * @return 0, -ENOSPC (4096 users)
 */
int rdv_option_limit_user(struct rdv_option *option, uid_t uid, enum smcr_reason reason);

/** Listeners that are claimed. */
struct rdv_listeners {
	uint32_t claimed;  /* of all users */
	uint32_t refused;  /* claims that were one too many, since open: these listeners are plain
			      TCP */
	uid_t refused_uid; /* whose the last one was */
};

/**
 * How many there are. All users together may have 16384; one of them no more than are left, so that
 * nobody's are lost by what another one claims. NULL is allowed.
 */
void rdv_option_get_listeners(const struct rdv_option *option, struct rdv_listeners *ret_listeners);

/**
 * What is known about a socket.
 * @param option  NULL: nothing is claimed
 * @param fd      any descriptor of the socket, also one received from another process
 * @return 0, -EBADF, -ENOTSOCK
 */
int rdv_option_query(const struct rdv_option *option, int fd, struct rdv_option_state *ret_state);

/** SO_NETNS_COOKIE of the calling thread's network namespace. @return 0 or what the kernel said */
int rdv_netns_cookie(uint64_t *ret_cookie);

/**
 * Leave the option off connections to a peer for a while, because SMC-R with it did not work
 * (path_dead of a FALLBACK event: UDP 4791 dropped on the way, say). Again for the same peer and
 * port: the later end and the new reason hold.
 * @param option   NULL: nothing to do
 * @param peer     port 0: all connections with the address, those that come from it included; else
 *                 those to this TCP port there only
 * @param seconds  1..86400, more is cut
 * @param reason   sentence for the operator, copied
 * @return 0, -EINVAL (family), -ENOMEM
 */
int rdv_option_skip_peer(struct rdv_option *option, const struct smcr_addr *peer, uint32_t seconds,
			 const char *reason);

/** Forget that, for the same address and port. @return 0, -ENOENT */
int rdv_option_unskip_peer(struct rdv_option *option, const struct smcr_addr *peer);

/**
 * Peers that are skipped now, in no order.
 * @param option  NULL: none
 * @return number written to `ret_peers`, at most `max`
 */
size_t rdv_option_skipped_peers(struct rdv_option *option, struct rdv_skipped_peer *ret_peers,
				size_t max);

/**
 * Never send or answer the option where the local or the remote address is inside a prefix (local
 * policy, IPsec, an interface without RNIC: TCPO-8). Holds until it is removed. Of two prefixes the
 * longer one gives the reason, of the same prefix the first call. NULL is allowed.
 * @param reason  not SMCR_REASON_NONE
 * @return 0, -EINVAL (family, length), -ENOSPC (1024 prefixes)
 */
int rdv_option_exclude(struct rdv_option *option, const struct smcr_prefix *prefix,
		       enum smcr_reason reason);

/** Take such a prefix back. @return 0, -EINVAL, -ENOENT */
int rdv_option_include(struct rdv_option *option, const struct smcr_prefix *prefix);

/**
 * An address of this host's: connections with it, and once there is one also those with loopback
 * addresses, are SMCR_REASON_OWN_HOST. NULL is allowed.
 * @param own   false: it is one no more
 * @param addr  the port does not matter
 * @return 0, -EINVAL (family), -ENOSPC (4096 addresses)
 */
int rdv_option_own_address(struct rdv_option *option, const struct smcr_addr *addr, bool own);

/** As rules and the BPF programs write addresses. */
struct smcr_addr16 rdv_addr16(const struct smcr_addr *addr);

/* ---- who may speak CLC: daemon/rendezvous/gate.h */

/** What gate.c works on: BPF maps. Descriptors stay the option's. */
struct rdv_gate_source {
	int socks, spoken;
};

struct rdv_gate_source rdv_option_gate_source(const struct rdv_option *option);

/* ---- connections that stay plain TCP: daemon/rendezvous/tally.h reads them */

/** What tally.c works on. Descriptors stay the option's. */
struct rdv_tally_source {
	int told, counts;        /* BPF maps */
	uint32_t *round;         /* to be counted up whenever `told` has been read */
	int64_t clock_offset_ns; /* CLOCK_MONOTONIC here less that of the BPF programs */
};

struct rdv_tally_source rdv_option_tally_source(struct rdv_option *option);

/** The name of a process for people: a program may have any bytes in it.
 *  @param comm  as the kernel gives it; not always NUL terminated */
void rdv_comm(const char comm[RDV_COMM_LEN], char ret_comm[RDV_COMM_LEN]);

/** An address of the BPF programs'. @param port  host byte order */
struct smcr_addr rdv_addr_of16(const struct smcr_addr16 *addr, uint16_t port);

/* ---- rules: deny wins; where one allows, what none allows is denied (SMCR_REASON_LOCAL_POLICY) */

/**
 * Put a rule in a place, or (NULL) leave that empty; the place's hits are 0 again. NULL is allowed.
 * @param place  below SMCR_MAX_RULES
 * @return 0, -EINVAL
 */
int rdv_option_set_rule(struct rdv_option *option, uint32_t place, const struct smcr_rule *rule);

/** How many handshakes the rule there has decided; place SMCR_MAX_RULES: how many none of those
 *  that allow did. NULL: 0. */
uint64_t rdv_option_rule_hits(const struct rdv_option *option, uint32_t place);

/* ---- where connections are short */

/**
 * Leave the option off connections to a peer's port, but for a sample of them, or (`on` false) stop
 * that. NULL is allowed.
 * @param where  address and TCP port of the peer; family 0: all connections to this port of ours
 * @return 0, -EINVAL, -ENOSPC (1024 places), -ENOENT (`on` false)
 */
int rdv_option_set_short(struct rdv_option *option, const struct smcr_addr *where, bool on);

/** Handshakes there since then: left on TCP, and tried all the same. NULL: -ENOENT.
 *  @return 0, -ENOENT */
int rdv_option_short_counts(const struct rdv_option *option, const struct smcr_addr *where,
			    uint64_t *ret_left, uint64_t *ret_tried);

#endif
