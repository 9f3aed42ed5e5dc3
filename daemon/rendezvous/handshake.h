/* SPDX-License-Identifier: MIT */
/**
 * @file handshake.h
 * TCP sockets that programs hand over: is this one fit for a rendezvous, wait for its connect(),
 * where is it on the network, and how does it end if the daemon dies.
 */
#ifndef SMCRD_RENDEZVOUS_HANDSHAKE_H
#define SMCRD_RENDEZVOUS_HANDSHAKE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/engine/engine.h"
#include "daemon/rendezvous/option.h"
#include "proto/ipc/ipc.h"

struct event_base;

/** What rdv_verify_socket() found out. */
struct rdv_verdict {
	struct rdv_option_state option; /* UNKNOWN for a connect() that ended this moment: wait */
	bool marked;                    /* IPC_PROMISE_MARK stands on it */
	/** Of the connection, known also while connect() is in progress. IPv4-mapped IPv6 addresses
	 * come as IPv4. */
	struct smcr_addr local, peer;
	/** As rdv_read_name() gives them; no family: not known, or not looked at. */
	union ipc_addr local_name, peer_name;
	char text[RDV_TEXT_MAX]; /* on refusal: a sentence that says why; else empty */
};

/**
 * An address of a TCP socket as its program knows it, without an IPv6 flow label.
 * @param peer  the peer's address instead of the socket's own
 * @return 0, -ENOTCONN (no peer yet, or no more), -EAFNOSUPPORT (neither IPv4 nor IPv6), -EBADF, ..
 */
int rdv_read_name(int fd, bool peer, union ipc_addr *ret_name);

/** @return the same address for the engine: an IPv4-mapped IPv6 address as IPv4
 *  @param name  its family is AF_INET or AF_INET6 */
struct smcr_addr rdv_addr_of(const union ipc_addr *name);

/**
 * May the daemon run CLC on this socket? It must be a TCP socket (not MPTCP) of the daemon's
 * network namespace that was claimed and has carried no application byte; received bytes that
 * nobody read are fine, for they may be the peer's Proposal. `kind` says which TCP states are
 * right. An
 * accepted socket that another daemon's handshake has marked counts as claimed and negotiated.
 * @param option       NULL: refused unless marked, no option can have been negotiated
 * @param ret_verdict  filled in any case; `option` and `marked` of every TCP socket
 * @return 0; -ENOTSOCK, -EPROTONOSUPPORT (no TCP), -EXDEV (other namespace), -EACCES (not claimed),
 *         -ENOTCONN (TCP state does not fit the kind), -EISCONN (bytes have passed), -EINVAL
 * (kind), -EOPNOTSUPP (no BPF)
 */
int rdv_verify_socket(const struct rdv_option *option, int fd, enum ipc_handover_kind kind,
		      struct rdv_verdict *ret_verdict);

/** Put the program's own TCP_SYNCNT back where IPC_PROMISE_MARK stands: the connection is ours. */
void rdv_unmark(int fd, const struct rdv_verdict *verdict);

/** A connect() in progress. */
struct rdv_connect_wait;

/**
 * The connect() has ended. The wait is gone when this is called.
 * @param error  0 or the positive errno that connect() would have given (SO_ERROR, taken from the
 *               socket)
 * @param state  with error 0: what the handshake negotiated, YES or NO
 */
typedef void (*rdv_connected_cb)(void *ctx, int error, const struct rdv_option_state *state);

/**
 * Wait until the connect() in progress on a non-blocking socket has ended. The kernel's own limits
 * for connect() apply. The callback comes from the event loop, never from inside this function.
 * @param fd  stays the caller's and must stay open until the callback or rdv_connect_wait_cancel()
 * @return 0, -ENOMEM
 */
int rdv_connect_wait(struct event_base *base, const struct rdv_option *option, int fd,
		     rdv_connected_cb callback, void *ctx, struct rdv_connect_wait **ret_wait);

/** Give up waiting; no callback follows. NULL is allowed. */
void rdv_connect_wait_cancel(struct rdv_connect_wait *wait);

/**
 * From now on closing the last descriptor resets the connection, the kernel's doing so for a daemon
 * that died included.
 * @param ret_before  the program's own SO_LINGER, for rdv_linger_restore()
 */
int rdv_linger_arm(int fd, struct linger *ret_before);
/** Before an orderly close or a fallback: as the program had it. */
int rdv_linger_restore(int fd, const struct linger *before);

/** The network interface that owns an address. */
struct rdv_path {
	char ifname[IF_NAMESIZE];
	unsigned int ifindex;
	uint8_t prefix_len; /* bits (CLC-6) */
	uint16_t vlan;      /* 0..4094, or SMCR_NO_VLAN */
};

/** @return 0, -EADDRNOTAVAIL (no interface has it), -EINVAL (family), -ENOMEM */
int rdv_path_of(const struct smcr_addr *local, struct rdv_path *ret_path);

#endif
