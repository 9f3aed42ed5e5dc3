/* SPDX-License-Identifier: MIT */
/**
 * @file clc_stream.h
 * CLC messages on a TCP connection (RFC 7609 3.2): cuts the stream into messages without taking a
 * byte that belongs to the application (CLC-15, ERR-14), and watches the connection afterwards.
 *
 * A message is taken from the socket whole or not at all, so at any moment everything that was not
 * handed to `message` is still in the socket.
 *
 * One libevent loop, one thread. The stream registers the descriptor edge-triggered: nobody else
 * may register the same descriptor in the same event_base while the stream is in a mode other than
 * OFF or has unsent bytes.
 */
#ifndef SMCRD_RENDEZVOUS_CLC_STREAM_H
#define SMCRD_RENDEZVOUS_CLC_STREAM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

struct clc_stream;
struct event_base;

/** The errno of a RESET that is ours: somebody else, who has the socket too, has written to it or
 *  read from it (spoken.h). The connection is as good as broken. */
#define CLC_STREAM_MEDDLED EPROTO

enum clc_stream_mode {
	/** Nothing is read or noticed (sending goes on). */
	CLC_STREAM_OFF,
	/** Bytes on TCP are CLC messages: smcr_conn_wants_clc() is true. */
	CLC_STREAM_CLC,
	/** SMC-R carries the data: nothing may arrive on TCP but its end. Any byte is `garbage`. */
	CLC_STREAM_WATCH,
};

/**
 * All are called from the event loop, never from inside a function below, and each may call any of
 * them, clc_stream_free() too.
 */
struct clc_stream_callbacks {
	/** Is this whole message, which is still in the socket, one to be taken? If not it is
	 * `garbage`. May not call any function below. */
	bool (*wanted)(void *ctx, const uint8_t *msg, size_t len);
	/** One whole message as smcr_clc_peek_length() cut it. After each one the stream goes on
	 * only if it still is in mode CLC: set another mode from here if no more CLC is wanted. */
	void (*message)(void *ctx, const uint8_t *msg, size_t len);
	/** Bytes that are no CLC message in mode CLC (ERR-11, ERR-13), or any byte in mode WATCH.
	 * The bytes stay in the socket. The stream has gone to mode OFF. */
	void (*garbage)(void *ctx);
	/** FIN or RST, each at most once; `error` is the errno of RESET, 0 with FIN. After RESET
	 * the stream is in mode OFF and drops what it had to send; after FIN it still notices
	 * RESET. */
	void (*tcp_event)(void *ctx, enum smcr_tcp_event event, int error);
	/** Bytes that clc_stream_send() had to keep are with the kernel now. May be NULL. */
	void (*flushed)(void *ctx);
};

/**
 * @param fd         connected non-blocking TCP socket; stays the caller's and must stay open until
 *                   clc_stream_free()
 * @param callbacks  must outlive the stream
 * @return 0, -ENOMEM, -EOPNOTSUPP (event_base without edge triggering), or what the socket said.
 *         The stream starts in mode OFF
 */
int clc_stream_new(struct event_base *base, int fd, const struct clc_stream_callbacks *callbacks,
		   void *ctx, struct clc_stream **ret_stream);

/** Stop and forget the stream; the socket is as clean as after mode OFF. NULL is allowed. */
void clc_stream_free(struct clc_stream *stream);

/**
 * Change what is read. In mode OFF the socket is as the program would find it had nobody read: its
 * SO_RCVLOWAT is restored, no byte behind the last `message` is gone. Bytes that already wait in
 * the socket are noticed after a change to CLC or WATCH. @return 0, -ENOMEM
 */
int clc_stream_set_mode(struct clc_stream *stream, enum clc_stream_mode mode);
enum clc_stream_mode clc_stream_mode(const struct clc_stream *stream);

/**
 * Put a message on the connection, in any mode. What the kernel does not take now is kept and sent
 * later; failures come as `tcp_event`.
 * @return 0, -ENOBUFS (more than 4 KiB waiting, or more than 1 KiB in all: the message was not
 *         taken)
 */
int clc_stream_send(struct clc_stream *stream, const uint8_t *msg, size_t len);

/** Has the connection been found broken? The kernel has told its error, which it does once: who
 * reads the socket from now on sees an end of file that nobody has sent. */
bool clc_stream_broken(const struct clc_stream *stream);

/** Bytes not yet with the kernel. The socket may be given away only when this is 0. */
size_t clc_stream_unsent(const struct clc_stream *stream);

#endif
