/* SPDX-License-Identifier: MIT */
/**
 * @file tcp.h
 * The TCP side of a connection of the gateway: SMB messages with the four bytes in front of each
 * that tell its length (MS-SMB2 2.1). Messages that come are told when they are whole.
 *
 * Threads: the event loop's. Callbacks come from the event loop, and in none of the calls here.
 * Inside a callback everything may be called but tcp_side_free().
 */
#ifndef SMCRD_SMBGATE_TCP_H
#define SMCRD_SMBGATE_TCP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct tcp_side;

/** Bytes of the largest message: more than SMB sends, and the most that three bytes can tell; the
 * first of the four is 0. */
#define TCP_MESSAGE_MOST ((16u << 20) - 1)

enum tcp_end {
	TCP_END_CLOSED,   /* the other side has closed */
	TCP_END_RESET,    /* it has reset, or the connection was lost */
	TCP_END_REFUSED,  /* connecting has failed */
	TCP_END_BAD_DATA, /* what came is no SMB message */
	TCP_END_MEMORY,
};

struct tcp_ops {
	void (*connected)(void *ctx);
	/** A message has begun to come, or waits because there was no room for it: where do its
	 * bytes go? @return memory for `len` bytes, which `message` gets; NULL: there is none now,
	 * call tcp_side_resume() */
	uint8_t *(*room)(void *ctx, size_t len);
	/** It is whole, in the memory of `room`. */
	void (*message)(void *ctx, size_t len);
	/** What was queued has become less. */
	void (*drained)(void *ctx);
	/** The last callback. */
	void (*ended)(void *ctx, enum tcp_end end, int error);
};

/** Connect to an SMB server, TCP or a Unix socket. @param timeout_ms  for connecting
 * @return 0 or a negative errno */
int tcp_side_connect(struct event_base *base, const struct sockaddr *addr, socklen_t len,
		     unsigned int timeout_ms, const struct tcp_ops *ops, void *ctx,
		     struct tcp_side **ret_side);
/** Use a socket that was accepted; it is closed with the side, also after an error. It is not read
 * before tcp_side_resume(). */
int tcp_side_adopt(struct event_base *base, int fd, const struct tcp_ops *ops, void *ctx,
		   struct tcp_side **ret_side);
/** Close. Without `reset` what is queued leaves if the socket takes all of it now; else it is lost,
 * and the other side gets a reset. NULL is allowed. */
void tcp_side_free(struct tcp_side *side, bool reset);
/** Close when what is queued has left; `ended` follows. Nothing is read any more. */
void tcp_side_finish(struct tcp_side *side);

/**
 * Queue a message of `len` bytes: its length first, then what tcp_side_add() brings.
 * @return 0; -ENOMEM; -EMSGSIZE
 */
int tcp_side_begin(struct tcp_side *side, size_t len);
/** Queue bytes, which are copied. @return 0 or -ENOMEM */
int tcp_side_add(struct tcp_side *side, const void *bytes, size_t len);
/** Queue bytes that stay where they are until `done` is called, which is so too if this fails. */
int tcp_side_add_memory(struct tcp_side *side, const void *bytes, size_t len,
			void (*done)(void *arg), void *arg);
/** Bytes that wait to leave. */
size_t tcp_side_queued(const struct tcp_side *side);

/** Read no messages for the moment. */
void tcp_side_pause(struct tcp_side *side);
/** Read messages (again); callbacks come from the event loop. */
void tcp_side_resume(struct tcp_side *side);

#endif
