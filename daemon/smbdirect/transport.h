/* SPDX-License-Identifier: MIT */
/**
 * @file transport.h
 * SMB Direct (MS-SMBD) as a machine without I/O: one connection. What happens is told to it by
 * calls, with the time; it answers by the operations of its owner. So the same code runs over RNICs
 * and in the simulator.
 *
 * The owner has a queue pair, and a user above (the gateway). Calls in their order:
 *
 *   active side:  smbd_new(), then connect the queue pair; smbd_connected() -> established
 *   passive side: smbd_new(), then accept; smbd_connected() -> established, when the peer has asked
 *   both: smbd_send(), message; smbd_close(), or the peer goes -> ended; smbd_free()
 *
 * smbd_new() posts the first receive, so it comes before the queue pair can get anything (SMBD-7,
 * SMBD-28, SMBD-34). The names of counters are those of MS-SMBD 3.1.1.1
 * (docs/smbdirect-readings.md).
 *
 * Threads: all calls for a connection come from one thread. Operations are called inside calls.
 * `established` and `message` may call smbd_send(), smbd_sent(), smbd_hold(), smbd_close() and
 * smbd_lost(); what has to be sent leaves behind them. The other operations may only call the
 * functions that read, as these may.
 * Times are microseconds of any clock that only goes on.
 */
#ifndef SMCRD_SMBDIRECT_TRANSPORT_H
#define SMCRD_SMBDIRECT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smbd;

/** Bytes of the receive buffer for the Negotiate message (SMBD-28). */
#define SMBD_NEGOTIATE_SIZE 512
/** Least credits of either side: with fewer both sides could wait for each other (SMBD-174). */
#define SMBD_MIN_CREDITS 3
#define SMBD_MAX_CREDITS 65535

enum smbd_role {
	SMBD_ACTIVE,  /* waits for a Negotiate Response */
	SMBD_PASSIVE, /* waits for a Negotiate Request */
	SMBD_ESTABLISHED,
	SMBD_GONE, /* `ended` was called */
};

/** What is announced to the peer, and times. 0: the default in brackets (SMBD-156 to SMBD-158). */
struct smbd_config {
	uint32_t receive_credit_max;  /* receives that may be posted (255) */
	uint32_t send_credit_target;  /* credits that are asked of the peer (255) */
	uint32_t max_send_size;       /* bytes of a SEND, 128..8136 (1364) */
	uint32_t max_receive_size;    /* likewise of one that comes (8192) */
	uint32_t max_fragmented_size; /* bytes of an upper message that comes (1048576) */
	/** Bytes of an RDMA transfer for one request: at least 65536 (8388608). */
	uint32_t max_read_write_size;
	uint64_t keepalive_us;   /* silence of the peer until it is asked (120 s) */
	uint64_t answer_us;      /* the time that it has to answer (5 s) */
	uint64_t negotiation_us; /* until negotiation has ended (active 120 s, passive 5 s) */
};

/** Why a connection has ended. */
enum smbd_end {
	SMBD_END_NONE,
	SMBD_END_CLOSED,         /* smbd_close() */
	SMBD_END_LOST,           /* the queue pair has failed, or the peer has disconnected */
	SMBD_END_NO_NEGOTIATION, /* the peer did not negotiate in time */
	SMBD_END_SILENT,         /* the peer did not answer a keepalive */
	SMBD_END_VERSION,        /* no common version */
	SMBD_END_REFUSED,        /* the peer's Response has a Status */
	SMBD_END_BAD_NEGOTIATE,  /* a Negotiate message that breaks a rule */
	SMBD_END_BAD_DATA,       /* a Data Transfer message that breaks a rule */
	SMBD_END_BAD_SEQUENCE,   /* fragments that do not fit together */
	SMBD_END_TOO_LONG,       /* an upper message that is longer than announced */
	SMBD_END_CREDITS,        /* more credits than there can be */
	SMBD_END_TOKEN,          /* a token that is not of this connection was invalidated */
	SMBD_END_RESOURCES,      /* no receive could be posted, or no memory */
};

/** Operations of the owner; all are required but `reserve`. */
struct smbd_ops {
	/** Post up to `n` receives of `size` bytes each. @return how many were posted */
	uint32_t (*post_receives)(void *ctx, uint32_t n, uint32_t size);
	/**
	 * Send one message: head and payload, which the owner copies before it returns.
	 * @param token  a token of the peer to invalidate with the SEND; NULL: none. The owner may
	 *               leave it out if its RNIC cannot (SMBD-84).
	 * @return 0; -EAGAIN: no room, call smbd_sent() when there is; another negative errno: the
	 *         connection is lost
	 */
	int (*send)(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		    size_t len, const uint32_t *token);
	/**
	 * From now on so many bytes are needed for the upper message that comes in fragments; 0:
	 * none. The owner bounds what all connections may need. smbd_free() does not call it.
	 * @return false: there are not so many, and the connection ends
	 */
	bool (*reserve)(void *ctx, size_t bytes);
	/** Is this token, which a message of the peer has invalidated, one of memory that this
	 * connection has registered? */
	bool (*has_token)(void *ctx, uint32_t token);
	/** Negotiation has succeeded: messages may be sent from now on. */
	void (*established)(void *ctx);
	/** An upper message has come, whole. `data` is valid until the call returns. @param token a
	 * token that the peer has invalidated with it; NULL: none */
	void (*message)(void *ctx, const uint8_t *data, size_t len, const uint32_t *token);
	/**
	 * The last operation: nothing is sent or posted any more. The owner disconnects, and
	 * deregisters all memory of the connection (SMBD-142).
	 * @param send_first  let what was sent leave before (SMBD-42)
	 */
	void (*ended)(void *ctx, enum smbd_end end, bool send_first);
};

/** What was agreed, and where the connection stands; for users and operators (SMBD-140). */
struct smbd_view {
	enum smbd_role role;
	enum smbd_end end;
	uint32_t status; /* of a Response that refused */
	uint32_t max_send_size, max_fragmented_send_size, max_receive_size;
	uint32_t max_fragmented_receive_size, max_read_write_size;
	uint64_t keepalive_us;
	uint32_t send_credits, receive_credits, pending_grant, send_target, receive_target;
	uint64_t queued_bytes; /* of upper messages that are not sent yet */
	uint64_t messages_sent, messages_received, fragments_sent, fragments_received;
	uint64_t empty_sent, empty_received;
	uint64_t bytes_sent, bytes_received; /* payload */
};

/** Is the configuration one that can work? @return 0; -EINVAL with a sentence in `*ret_why` (static
 * storage) */
int smbd_config_check(const struct smbd_config *config, const char **ret_why);

/** Put defaults in the place of zeros. */
void smbd_config_fill(struct smbd_config *config, enum smbd_role role);

/**
 * Make a connection, and post its first receive.
 * @param role  SMBD_ACTIVE or SMBD_PASSIVE
 * @return 0; -EINVAL: smbd_config_check(); -ENOMEM; -ENOBUFS: the receive could not be posted
 */
int smbd_new(const struct smbd_config *config, enum smbd_role role, const struct smbd_ops *ops,
	     void *ctx, uint64_t now, struct smbd **ret_smbd);
/** Free it, without any operation. NULL is allowed. */
void smbd_free(struct smbd *smbd);

/** The queue pair is connected. The Request of the peer may have come already (SMBD-176). */
void smbd_connected(struct smbd *smbd, uint64_t now);
/** The message of a receive has come. `token`: which token it has invalidated, or NULL. */
void smbd_received(struct smbd *smbd, const uint8_t *data, size_t len, const uint32_t *token,
		   uint64_t now);
/** There is room for a SEND again. */
void smbd_sent(struct smbd *smbd, uint64_t now);
/** The queue pair has failed, or the peer has disconnected (SMBD-5). */
void smbd_lost(struct smbd *smbd, uint64_t now);
/** Time has passed. @return when to call again, at the latest; UINT64_MAX: never */
uint64_t smbd_timer(struct smbd *smbd, uint64_t now);
/** When to call smbd_timer(); to be asked after each call. */
uint64_t smbd_deadline(const struct smbd *smbd);

/**
 * Send an upper message. It waits until credits are there.
 * @param data   from malloc(); the connection frees it, unless an error is returned
 * @param token  a token of the peer that is to be invalidated with the message; NULL: none
 * @return 0; -ENOTCONN: not established (SMBD-179); -EMSGSIZE: longer than the peer takes
 *         (SMBD-77); -EINVAL: no byte; -ENOMEM
 */
int smbd_send(struct smbd *smbd, uint8_t *data, size_t len, const uint32_t *token, uint64_t now);
/** Post and grant no further receives (or do it again): the user cannot take more messages for the
 * moment. The peer goes on until its credits are used up. Without credits it cannot answer a
 * keepalive, nor ask: a connection that is held for longer than that takes ends as silent. */
void smbd_hold(struct smbd *smbd, bool hold, uint64_t now);
/** End the connection now. `ended` is called. */
void smbd_close(struct smbd *smbd);

void smbd_get_view(const struct smbd *smbd, struct smbd_view *ret_view);
/** An end in words, for the end of a sentence. Static storage. */
const char *smbd_end_text(enum smbd_end end);

#endif
