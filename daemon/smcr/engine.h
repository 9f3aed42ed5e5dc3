/* SPDX-License-Identifier: MIT */
/**
 * @file engine.h
 * The SMC-R machine (RFC 7609): peers, link groups, links, LLC flows, RMBs and tokens, connections.
 *
 * The engine does no I/O and knows no clock, socket, thread or verb. Its host (smcrd, or the
 * simulator) tells it events and the time, and the engine calls operations of the host (ops.h). The
 * engine has no globals: a host may run several engines. An engine is used by one thread.
 *
 * Rules for the host
 * - Call smcr_engine_set_time() before a batch of inputs, and smcr_engine_run() no later than
 *   smcr_engine_next_deadline(). Before smcr_engine_run(), hand in everything that has arrived:
 *   then an answer that came in time counts although the host itself was late, and a timer that
 *   ends a link loses nothing that the device has acknowledged.
 * - Never call into the engine from inside an operation or a connection event, except functions
 *   marked [anywhere]. Instead note the event, return, and act on it afterwards.
 * - After FALLBACK, FAILED or CLOSED the `struct smcr_conn` is gone.
 * Functions return 0 or a negative errno unless said otherwise.
 */
#ifndef SMCRD_SMCR_ENGINE_H
#define SMCRD_SMCR_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "proto/ipc/commands.h"
#include "proto/smcr/reason.h"
#include "proto/smcr/wire.h"

struct smcr_engine;
struct smcr_conn;
struct smcr_ops;

#define SMCR_NO_VLAN     0xFFFF
#define SMCR_MAX_UEIDS   8
#define SMCR_NO_DEADLINE UINT64_MAX

enum smcr_role {
	SMCR_ROLE_SERVER, /* the side that accepted the TCP connection */
	SMCR_ROLE_CLIENT,
};

enum smcr_dialect_policy {
	SMCR_DIALECT_AUTO, /* the flag bits of CONFIRM LINK tell */
	SMCR_DIALECT_FORCE_RFC,
	SMCR_DIALECT_FORCE_DEPLOYED,
};

/** Versions of SMC-R that may be used with a peer. Version 2 also needs a UEID. */
enum smcr_versions {
	SMCR_VERSIONS_BOTH,
	SMCR_VERSIONS_1_ONLY,
	SMCR_VERSIONS_2_ONLY,
};

/**
 * A program has closed, and its peer takes nothing of what it wrote. With TCP the kernel gives such
 * an orphaned connection up, though the peer answers its zero-window probes, when the pause between
 * two of these has grown to its limit of 120 s: after 200 ms, 400 ms and so on up to 102.4 s, and
 * 120 s more. With what went before the first probe that was 339 s here (Linux 6.18). Programs that
 * end while their readers are busy rely on that time. In microseconds.
 */
#define SMCR_LAST_BYTES_TIMEOUT 340000000

/** All times in microseconds. Zero in a field means the default in parentheses. */
struct smcr_config {
	uint8_t peer_id[SMCR_PEER_ID_LEN]; /* instance ID and a MAC (PEER-1), for life (PEER-3) */
	enum smcr_dialect_policy dialect;
	enum smcr_versions versions;
	/** UEIDs: with at least one, and an IPv4 GID, version 2 is offered and accepted, unless the
	 * RFC's dialect is forced: version 2 has no dialects. */
	uint8_t num_ueids;
	uint8_t ueids[SMCR_MAX_UEIDS][SMCR_EID_LEN];
	char host_name[SMCR_EID_LEN + 1]; /* in version 2 told to peers, for their operators */
	uint8_t max_links;                /* 2..8 (4) */
	uint8_t bsize;     /* element size code while memory is plenty, 0..5, 0xFF = default (5: 512
			      KiB) */
	uint8_t bsize_min; /* smallest code when memory is short, 0xFF = default (0: 16 KiB) */
	uint32_t sndbuf;   /* bytes of a connection's send buffer, a power of two (an element's) */
	uint8_t elements_per_rmb;   /* 1..255 (min(255, 4 MiB / element size), a quarter of it in
				       first contact) */
	uint64_t memory_budget;     /* bytes of RMBs and send buffers together (1 GiB) */
	uint32_t send_depth;        /* outstanding work requests of a link (1024) */
	uint64_t clc_timeout;       /* to wait for one CLC message (10 s) */
	uint64_t clc_total_timeout; /* for the whole rendezvous (30 s) */
	/** How long other connections of the peer wait for a first contact; then one of them begins
	 * a first contact of its own (2 s: a first contact that fails by itself has failed by
	 * then). */
	uint64_t hold_timeout;
	/** After an own Decline while links are set up: how long to wait for a Decline of the peer
	 * that crosses it (1 s). A later one reaches the own program as data. */
	uint64_t decline_grace;
	uint64_t llc_fc_timeout; /* to wait for an LLC answer in first contact (10 s: ERR-16) */
	uint64_t llc_timeout;    /* the same in an established group (4 s) */
	/** First contact, before the point of no return: an LLC SEND without completion for this
	 * long counts as failed (ERR-17, ERR-18), so that a dead RoCE path costs little. The client
	 * waits longer, so that Declines do not cross. (1 s server, 1.5 s client) */
	uint64_t fc_send_timeout_server;
	uint64_t fc_send_timeout_client;
	uint64_t lgr_idle_timeout; /* LG-16 (600 s) */
	uint64_t rmb_idle_timeout; /* delay before an unused RMB is deleted (60 s) */
	/** C.8: pause before the server tries again to set up a missing link (2 s). It doubles with
	 * every attempt that fails, up to 600 s. */
	uint64_t add_link_retry;
	/** How often an active link without traffic is probed (30 s); UINT64_MAX: never */
	uint64_t test_link_interval;
	uint64_t command_timeout;    /* how long a command waits for its outcome (10 s) */
	uint64_t close_wait_timeout; /* PeerCloseWait1/2, PeerFinCloseWait after close (60 s) */
	/** After close: how long the peer may take nothing while most of its element is full, or
	 * not all is written (close_wait_timeout). smcrd has SMCR_LAST_BYTES_TIMEOUT. */
	uint64_t last_bytes_timeout;
	uint64_t half_close_timeout; /* PeerCloseWait1/2 after shutdown only (7200 s) */
	uint64_t abort_wait_timeout; /* PeerAbortWait (10 s) */
	uint64_t fin_grace;          /* TERM-3 (1 s) */
	/** A close that resets: how long its RST waits at most for A to arrive at the peer (1 s) */
	uint64_t rst_delay;
	uint64_t rst_grace; /* how long A may come after the peer's RST (100 ms) */
	/** How long a QP may be without progress, in milliseconds: if its link is the only active
	 * one of the group (4000), and if the group has another active link (300) */
	uint32_t retry_ms;
	uint32_t retry_alternative_ms;
	uint32_t trace; /* categories whose messages are traced: IPC_TRACE_BIT() of each (none) */
};

/** An address; IPv4 in the first four bytes of `ip`. */
struct smcr_addr {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint8_t ip[16];
	uint16_t port; /* host byte order */
};

/** Are the addresses equal, apart from their ports? */
static inline bool smcr_same_host(const struct smcr_addr *a, const struct smcr_addr *b)
{
	return a->family == b->family && !memcmp(a->ip, b->ip, a->family == AF_INET ? 4 : 16);
}

struct smcr_prefix {
	uint8_t family;
	uint8_t ip[16]; /* an address inside it; bits beyond prefix_len do not matter */
	uint8_t prefix_len;
};

#define SMCR_MAX_DEVICE_PREFIXES 16
#define SMCR_DEVICE_NAME_LEN     64

/** What the engine has to know of an RNIC port. */
struct smcr_device_info {
	uint32_t id; /* given by the host, unique among the devices present */
	char name[SMCR_DEVICE_NAME_LEN];
	uint8_t gid[SMCR_GID_LEN]; /* the GID that QPs will use */
	uint8_t mac[SMCR_MAC_LEN];
	uint8_t mtu;   /* enum smcr_mtu, largest path MTU */
	uint16_t vlan; /* VLAN ID, or SMCR_NO_VLAN */
	bool active;
	const char *down;    /* why it is not active, static storage; may be NULL */
	size_t num_prefixes; /* addresses of the network interface behind it */
	struct smcr_prefix prefixes[SMCR_MAX_DEVICE_PREFIXES];
};

/** Make an engine. `ops` is copied. @return 0 or -ENOMEM */
int smcr_engine_new(const struct smcr_config *config, const struct smcr_ops *ops, uint64_t now,
		    struct smcr_engine **ret_engine);
/** Free the engine silently: no message is sent and no event raised; resources of the host are
 * given back.
 */
void smcr_engine_free(struct smcr_engine *engine);

/**
 * Use another configuration from now on. Link groups, links, buffers and connections stay as they
 * are. Idle times are counted from now, with the new limits. If the new memory budget is less than
 * what is in use, only new buffers are affected.
 * @param config  as in smcr_engine_new(), but for `peer_id` and `host_name`, which stay
 */
void smcr_engine_configure(struct smcr_engine *engine, const struct smcr_config *config);

/** Set the clock (microseconds, monotonic). No timer fires. */
void smcr_engine_set_time(struct smcr_engine *engine, uint64_t now);
/** Set the clock and fire the timers that are due. */
void smcr_engine_run(struct smcr_engine *engine, uint64_t now);
/** When smcr_engine_run() is needed next, or SMCR_NO_DEADLINE. [anywhere] */
uint64_t smcr_engine_next_deadline(const struct smcr_engine *engine);
/** Orderly stop (TERM-1): decline what is in rendezvous, reset connections, DELETE LINK A=1 on
 * every group. The host goes on running the engine until smcr_engine_idle(), or until it does not
 * want to wait any longer. */
void smcr_engine_shutdown(struct smcr_engine *engine);
/** True when no link group and no connection is left. [anywhere] */
bool smcr_engine_idle(const struct smcr_engine *engine);

/* UEIDs at run time. They count for new connections; groups that exist stay. */
/** @return how many UEIDs there are; the first one is offered first. [anywhere] */
size_t smcr_engine_get_ueids(const struct smcr_engine *engine,
			     uint8_t ret_ueids[SMCR_MAX_UEIDS][SMCR_EID_LEN]);
/** Add a UEID behind the others; `ueid` is in the format of smcr_ueid_parse(). @return 0, -EEXIST,
 * -ENOSPC */
int smcr_engine_add_ueid(struct smcr_engine *engine, const uint8_t ueid[SMCR_EID_LEN]);
/** @return 0 or -ENOENT */
int smcr_engine_remove_ueid(struct smcr_engine *engine, const uint8_t ueid[SMCR_EID_LEN]);

/**
 * Forget that full-size packets did not pass to the host, or the RNIC, with this address: new links
 * try them again. The port does not matter.
 * @return how many paths were forgotten
 */
size_t smcr_engine_forget_paths(struct smcr_engine *engine, const struct smcr_addr *peer);

/* Devices. */
int smcr_engine_device_add(struct smcr_engine *engine, const struct smcr_device_info *info);
/** Port state, MTU or addresses changed. A port that goes down fails its links. */
int smcr_engine_device_update(struct smcr_engine *engine, const struct smcr_device_info *info);
/**
 * An operator takes a device out of use (`drained`): no link and no group begins on it, and its
 * links are deleted in good order if their group has another link. With `drained` false the device
 * may be used again.
 * @return 0 or -ENODEV
 */
int smcr_engine_device_drain(struct smcr_engine *engine, uint32_t id, bool drained);
/** The device is gone: its links fail; the engine destroys its QPs before this returns. */
void smcr_engine_device_remove(struct smcr_engine *engine, uint32_t id);
/** Does a link use the device? [anywhere] */
bool smcr_engine_device_in_use(const struct smcr_engine *engine, uint32_t id);

/* RDMA inputs. `link_ref` is what qp_create() was given; inputs for a link that is gone are
 * ignored. */
/**
 * A SEND arrived on the link's QP. `data` is read during the call only. If
 * smcr_engine_recv_is_barrier() is true for the message, the host first hands in everything that
 * has arrived on other links (FO-8): an RDMA write of the failed link that still waits in a queue
 * of its device has to be carried out before the peer's replay is judged and new data go to the
 * same place.
 */
void smcr_engine_recv(struct smcr_engine *engine, uint64_t link_ref, const uint8_t *data,
		      size_t len);

/** Is the message a CDC with the failover flag, or DELETE LINK? (What has arrived on a link and was
 * not handed in is lost when the link is freed.) [anywhere] */
bool smcr_engine_recv_is_barrier(const uint8_t *data, size_t len);

enum smcr_send_status {
	SMCR_SEND_OK,
	SMCR_SEND_FLUSHED, /* the QP was in error before this request was done */
	SMCR_SEND_FAILED,  /* this one took the QP into error: the peer has not answered in time */
	SMCR_SEND_REFUSED, /* the same, because the peer or the own device has refused it */
	SMCR_SEND_DENIED,  /* the same, because the peer has no such memory */
};

/** A posted request completed. Success covers all earlier requests of the same QP. `text` says for
 * the log what failed ("the peer's RDMA device has acknowledged nothing in time"); may be NULL. */
void smcr_engine_send_done(struct smcr_engine *engine, uint64_t link_ref, uint64_t wr_id,
			   enum smcr_send_status status, const char *text);

/**
 * The peer has acknowledged nothing on the link's QP for `silent_us` microseconds: may the device
 * give the QP up when its retry time (ops->qp_start(), ops->qp_set_retry()) is over? A link is
 * given up early only if its group has another link that works. If the peer is silent on every
 * path, it may not be running, or the whole network may be down; then nothing is gained, and each
 * link counts as the last one. Other links that have been silent are probed from the next
 * smcr_engine_run() on. [anywhere]
 */
bool smcr_engine_may_give_up(struct smcr_engine *engine, uint64_t link_ref, uint64_t silent_us);

/**
 * Probe a link with TEST LINK; if no answer comes within llc_timeout, or a wrong one, it fails.
 * @return 0, -ENOENT: no such link, -ENETDOWN: the link is not active
 */
int smcr_engine_test_link(struct smcr_engine *engine, uint32_t lgr_id, uint8_t number);

/* Commands of operators, which proto/ipc/commands.h lists. LINK_DELETE is refused for the last link
 * of a group. LINK_DISABLE: own writes move off the link and do not use it while the group has
 * another one; the link stays up. FAILOVER: own writes move from `link` (0: from every link but
 * `to`) to `to` (0: to several links); with both 0 they are spread evenly. */
enum smcr_command_type {
#define COMMAND_TYPE(type, ...) SMCR_COMMAND_##type,
	IPC_COMMANDS(COMMAND_TYPE)
#undef COMMAND_TYPE
};

struct smcr_command {
	enum smcr_command_type type;
	uint32_t lgr;     /* id of the link group */
	uint8_t link, to; /* numbers of links; 0 where none is meant */
	bool orderly;     /* LINK_DELETE */
};

#define SMCR_COMMAND_TEXT_LEN 160

struct smcr_command_result {
	int error;            /* 0 or a negative errno */
	bool requested;       /* at the client: the server was asked, but has not acted in time */
	uint8_t link;         /* LINK_ADD: number of the new link */
	uint32_t connections; /* how many were moved (own direction) or reset */
	uint64_t rtt;         /* LINK_TEST: microseconds */
	char text[SMCR_COMMAND_TEXT_LEN]; /* one sentence: what happened, or why nothing did */
};

/**
 * Start a command. Its outcome comes later as ops->command_done(), never from inside this call, and
 * no later than config.command_timeout. At the client of the group LINK_DELETE, LINK_ADD and
 * LGR_DELETE are requests to the server (DELL-5, DELL-10, ADDL-15).
 * @return 0: ret_id names the command; -ENOENT: no such group or link; -EINVAL: the command makes
 *         no sense; -EBUSY: the group or link is being set up or ends; -ENOMEM. Other refusals are
 *         outcomes.
 */
int smcr_engine_command(struct smcr_engine *engine, const struct smcr_command *command,
			uint64_t *ret_id);
/** Do not call command_done() for this command: whoever gave it is gone. What it has started goes
 * on. */
void smcr_engine_command_forget(struct smcr_engine *engine, uint64_t id);

/** The QP went into error without a request of ours failing: a request of the peer was refused, or
 * the device gave the QP up. The link fails. `text` as above. */
void smcr_engine_qp_failed(struct smcr_engine *engine, uint64_t link_ref, const char *text);

/** A request that ops->post() had taken, and all requests behind it, could not be posted after all.
 * The host reports no completion of them; those before them complete as usual. The link fails.
 * `text` as above.
 */
void smcr_engine_not_posted(struct smcr_engine *engine, uint64_t link_ref, uint64_t wr_id,
			    const char *text);

/** How many bytes of receive buffer and of send buffer a connection needs so that neither slows it
 * down. 0: not known; UINT32_MAX: more than it had, or as much as possible. */
struct smcr_needs {
	uint32_t rcv, snd;
};

/* Connections: rendezvous. */
struct smcr_conn_params {
	enum smcr_role role;
	struct smcr_addr local, peer; /* of the TCP connection */
	uint8_t local_prefix_len;     /* bits of the local interface address' prefix (CLC-6) */
	uint16_t vlan; /* of the interface the TCP connection uses, or SMCR_NO_VLAN */
	/** Bytes that the program has set as SO_RCVBUF and SO_SNDBUF (RMB-6, SOCK-2); 0: not set.
	 * Without a receive buffer of that size the rendezvous is declined; the send buffer may be
	 * smaller if memory is short. */
	uint32_t rcvbuf, sndbuf;
	/** What the connection is expected to need if the program has set nothing. It is a guess:
	 * the buffers are larger while memory is plentiful, and smaller when it is short. */
	struct smcr_needs expected;
	void *user;   /* passed to ops->conns */
	uint32_t pid; /* of the program, for views */
	uint32_t uid; /* of the program's user, whose memory is counted (account.c) */
	/** Not NONE: the connection must not use SMC-R, but the peer expects CLC now, so decline
	 * for this reason (SEC-4). */
	enum smcr_reason refuse;
};

/**
 * Start the rendezvous of a TCP connection on which both sides sent the option. The client's
 * Proposal (or Decline) is sent inside this call; the server waits for a Proposal. The outcome
 * comes as an event: ESTABLISHED, FALLBACK or FAILED.
 */
int smcr_conn_start(struct smcr_engine *engine, const struct smcr_conn_params *params,
		    struct smcr_conn **ret_conn);

/**
 * A whole CLC message (of the length that smcr_clc_peek_length() tells) is the next to be read from
 * the TCP connection: is it for the engine? If not, the bytes belong to the program, although they
 * look like CLC: leave them there, and call smcr_conn_clc_garbage(). [anywhere]
 */
bool smcr_conn_takes_clc(const struct smcr_conn *conn, const uint8_t *msg, size_t len);
/** Give the engine a CLC message for which smcr_conn_takes_clc() is true. */
void smcr_conn_clc_input(struct smcr_conn *conn, const uint8_t *msg, size_t len);
/** Bytes have arrived that cannot be a CLC message (ERR-11, ERR-13). */
void smcr_conn_clc_garbage(struct smcr_conn *conn);

/**
 * May bytes on the TCP connection still be CLC? The transport reads TCP only while this is true, so
 * that application data are never inspected (ERR-14). [anywhere]
 */
bool smcr_conn_wants_clc(const struct smcr_conn *conn);

enum smcr_tcp_event {
	SMCR_TCP_FIN,
	SMCR_TCP_RESET, /* RST, or any error of the socket */
};

/** Tell what happened to the TCP connection, in any state. */
void smcr_conn_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event);

/** Local resources of this connection are gone before it was established: decline if the rules
 * allow it, else reset. Ends in FALLBACK or FAILED. With SMCR_REASON_SHUTTING_DOWN no Decline is
 * sent once CLC is over: the peer may be stopping too, and Declines must not cross. */
void smcr_conn_give_up(struct smcr_conn *conn, enum smcr_reason reason);

/* Connections: data. Valid between ESTABLISHED and close/abort/RESET/CLOSED. */
/** The free part of the send buffer, which the caller may fill. @return segments in `iov`, 0..2 */
int smcr_conn_tx_space(struct smcr_conn *conn, struct iovec iov[2]);
/** The caller has filled the first `n` bytes of smcr_conn_tx_space(). n must not exceed that
 * space. */
void smcr_conn_tx_commit(struct smcr_conn *conn, size_t n);
/**
 * As smcr_conn_tx_commit(), and the last of the `n` bytes (at least one) is urgent, like the last
 * byte of a send() with MSG_OOB. The peer is told at once that an urgent byte is coming (URG-2),
 * and where it is when it has arrived. Only one urgent byte is on its way at a time: nothing behind
 * it is written until the peer has consumed it (URG-3), and the caller has to keep a further one
 * back (URG-8).
 * @return 0; -EAGAIN: nothing was committed, an earlier urgent byte has not been consumed. The
 * bytes may stay where the caller put them; WRITABLE says when to try again. -EPIPE: the connection
 * takes no data any more. -EINVAL: n is 0
 */
int smcr_conn_tx_commit_urgent(struct smcr_conn *conn, size_t n);
/**
 * The program has sent an urgent byte that the send buffer has no room for, or that stands behind
 * bytes that do not fit: tell the peer at once that an urgent byte is coming (URG-2). This holds
 * until smcr_conn_tx_commit_urgent(); further calls change nothing.
 */
void smcr_conn_tx_announce_urgent(struct smcr_conn *conn);
/** Would smcr_conn_tx_commit_urgent() take an urgent byte now? [anywhere] */
bool smcr_conn_tx_urgent_ready(const struct smcr_conn *conn);
/** The bytes that were received and not consumed. @return segments in `iov`, 0..2 */
int smcr_conn_rx_data(struct smcr_conn *conn, struct iovec iov[2]);
/** The program has taken the first `n` bytes of smcr_conn_rx_data(). n must not exceed their
 * number. */
void smcr_conn_rx_consume(struct smcr_conn *conn, size_t n);

enum smcr_urgent {
	SMCR_URGENT_NONE,
	SMCR_URGENT_PENDING, /* the peer has announced an urgent byte that has not come yet */
	SMCR_URGENT_PRESENT, /* the urgent byte is among the bytes of smcr_conn_rx_data() */
};

/**
 * The peer's urgent byte, until it is consumed. If a newer urgent byte comes before that, it
 * replaces the older one. The engine never takes the byte out of the stream: the host decides
 * whether the program reads it in the stream (SO_OOBINLINE) or apart from it. Consuming the byte
 * acknowledges it (URG-6), which the peer waits for.
 * @param ret_offset  PRESENT: number of bytes before it in smcr_conn_rx_data(), so 0 if it is the
 *                    next byte; else not set [anywhere]
 */
enum smcr_urgent smcr_conn_rx_urgent(const struct smcr_conn *conn, size_t *ret_offset);

/** True when the peer will send nothing more and everything was consumed. [anywhere] */
bool smcr_conn_rx_eof(const struct smcr_conn *conn);

/** Where the bytes of a connection lie; both parts are whole pages. */
struct smcr_conn_memory {
	void *element; /* received bytes: position p at `element_skip` + p % the rest */
	uint32_t element_size, element_skip;
	void *buffer; /* bytes to be sent: position p at p % `buffer_size` */
	uint32_t buffer_size;
};

/**
 * The host is about to put other pages, with the same contents, in the place of a connection's
 * memory. When the connection is gone, ops->unshare() is called for it, and then ops->mem_recover()
 * for each of the two parts before another connection uses it. May be called whenever data calls
 * may, any number of times.
 * @return 0, or -ENOTCONN
 */
int smcr_conn_share(struct smcr_conn *conn, struct smcr_conn_memory *ret_memory);

/** Positions in both directions: counts of bytes since the start. */
struct smcr_conn_positions {
	uint64_t consumed, produced; /* smcr_conn_rx_data() gives [consumed, produced) */
	/** [completed, committed) are in the send buffer; smcr_conn_tx_space() begins at
	 * `committed` */
	uint64_t completed, committed;
};
/** [anywhere] */
void smcr_conn_get_positions(const struct smcr_conn *conn,
			     struct smcr_conn_positions *ret_positions);

/** shutdown(WR): D is sent when all data have been written (CLOSE). */
void smcr_conn_shutdown(struct smcr_conn *conn);
/** close(): abort if there are unread data, else send C when all data have been written. `unread`:
 * the program has never read some bytes that were consumed. Ends in CLOSED; no other event
 * comes. */
void smcr_conn_close(struct smcr_conn *conn, bool unread);
/** Abort (ABORT): the program died, or must see an error. Ends in CLOSED; no other event comes. */
void smcr_conn_abort(struct smcr_conn *conn);

/**
 * Set the program's keepalive (4.5.3): after `interval` microseconds without traffic on the
 * connection, its links are probed if they have been idle as long. 0: no keepalive (as at the
 * start). Allowed until the connection is gone.
 */
void smcr_conn_keepalive(struct smcr_conn *conn, uint64_t interval);

/** `user` of struct smcr_conn_params. [anywhere] */
void *smcr_conn_user(const struct smcr_conn *conn);

#endif
