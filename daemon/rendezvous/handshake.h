/* SPDX-License-Identifier: MIT */
/**
 * @file handshake.h
 * TCP sockets that programs hand over: whether a socket is fit for a rendezvous, waiting for its
 * connect(), where it is on the network, and what happens to it if the daemon dies.
 */
#ifndef SMCRD_RENDEZVOUS_HANDSHAKE_H
#define SMCRD_RENDEZVOUS_HANDSHAKE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/rendezvous/option.h"
#include "daemon/smcr/engine.h"
#include "proto/ipc/ipc.h"

struct event_base;

/** What rdv_verify_socket() found out. */
struct rdv_verdict {
	struct rdv_option_state option; /* UNKNOWN for a connect() that has just ended: wait */
	bool marked;                    /* the socket has IPC_PROMISE_MARK */
	/** Addresses of the connection, even while connect() is in progress. IPv4-mapped IPv6
	 * addresses are IPv4 here. */
	struct smcr_addr local, peer;
	/** The same as rdv_read_name() gives them; no family: not known, or not read. */
	union ipc_addr local_name, peer_name;
	char text[RDV_TEXT_MAX]; /* if refused: a sentence that says why; else empty */
};

/**
 * Read an address of a TCP socket as its program knows it, without an IPv6 flow label.
 * @param peer  the peer's address instead of the socket's own
 * @return 0, -ENOTCONN (no peer yet, or not any more), -EAFNOSUPPORT (neither IPv4 nor IPv6),
 *         -EBADF, ..
 */
int rdv_read_name(int fd, bool peer, union ipc_addr *ret_name);

/** @return `name` for the engine; an IPv4-mapped IPv6 address becomes IPv4
 *  @param name  its family is AF_INET or AF_INET6 */
struct smcr_addr rdv_addr_of(const union ipc_addr *name);

/**
 * May the daemon run CLC on this socket? It must be a TCP socket (not MPTCP) of the daemon's
 * network namespace that was claimed and has carried no application byte. Received bytes that
 * nobody has read are allowed, because they may be the peer's Proposal. `kind` says which TCP
 * states are right. An accepted socket that another daemon's handshake has marked counts as claimed
 * and negotiated.
 * @param option       NULL: no option can have been negotiated, so only a marked socket passes
 * @param ret_verdict  always filled in; `option` and `marked` for every TCP socket
 * @return 0; -ENOTSOCK, -EPROTONOSUPPORT (no TCP), -EXDEV (other namespace), -EACCES (not claimed),
 *         -ENOTCONN (TCP state does not fit the kind), -EISCONN (bytes have passed), -EINVAL
 * (kind), -EOPNOTSUPP (no BPF)
 */
int rdv_verify_socket(const struct rdv_option *option, int fd, enum ipc_handover_kind kind,
		      struct rdv_verdict *ret_verdict);

/** Replace IPC_PROMISE_MARK by the program's own TCP_SYNCNT: the daemon has taken the
 * connection. */
void rdv_unmark(int fd, const struct rdv_verdict *verdict);

/** A connect() in progress. */
struct rdv_connect_wait;

/**
 * The connect() has ended, and the wait was freed.
 * @param error  0 or the positive errno that connect() would have set (SO_ERROR, which is read from
 *               the socket)
 * @param state  if error is 0: what the handshake has negotiated, YES or NO
 */
typedef void (*rdv_connected_cb)(void *ctx, int error, const struct rdv_option_state *state);

/**
 * Wait until the connect() in progress on a non-blocking socket has ended. The kernel's own limits
 * for connect() apply. The callback comes from the event loop or rdv_connect_look(), never from
 * inside this function.
 * @param fd  stays the caller's and must stay open until the callback or rdv_connect_wait_cancel()
 * @return 0, -ENOMEM
 */
int rdv_connect_wait(struct event_base *base, const struct rdv_option *option, int fd,
		     rdv_connected_cb callback, void *ctx, struct rdv_connect_wait **ret_wait);

/** See now, without waiting for the event loop, whether the connect() has ended. If so the callback
 * comes from inside this function. */
void rdv_connect_look(struct rdv_connect_wait *wait);

/** Give up waiting; no callback follows. NULL is allowed. */
void rdv_connect_wait_cancel(struct rdv_connect_wait *wait);

/**
 * From now on closing the last descriptor resets the connection, also when the kernel closes it
 * because the daemon has died.
 * @param ret_before  the program's own SO_LINGER, for rdv_linger_restore()
 */
int rdv_linger_arm(int fd, struct linger *ret_before);
/** Restore SO_LINGER of the program, before an orderly close or a fallback. */
int rdv_linger_restore(int fd, const struct linger *before);

/** The network interface that has an address. */
struct rdv_path {
	char ifname[IF_NAMESIZE];
	unsigned int ifindex;
	uint8_t prefix_len; /* bits (CLC-6) */
	uint16_t vlan;      /* 0..4094, or SMCR_NO_VLAN */
};

/** @return 0, -EADDRNOTAVAIL (no interface has it), -EINVAL (family), -ENOMEM */
int rdv_path_of(const struct smcr_addr *local, struct rdv_path *ret_path);

#endif
