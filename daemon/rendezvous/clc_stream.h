/* SPDX-License-Identifier: MIT */
/**
 * @file clc_stream.h
 * CLC messages on a TCP connection (RFC 7609 3.2). A clc_stream cuts the TCP stream into messages
 * without taking a byte that belongs to the application (CLC-15, ERR-14), and watches the
 * connection afterwards.
 *
 * A message is taken from the socket whole or not at all. So everything that was not handed to
 * `message` is still in the socket.
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

#include "daemon/smcr/engine.h"

struct clc_stream;
struct event_base;

/** The errno of a RESET that the stream itself raises: another process that has the socket has
 * written to it or read from it (spoken.h). The connection counts as broken. */
#define CLC_STREAM_MEDDLED EPROTO

enum clc_stream_mode {
	/** Nothing is read or noticed; sending goes on. */
	CLC_STREAM_OFF,
	/** Bytes on TCP are CLC messages, as smcr_conn_wants_clc() is true. */
	CLC_STREAM_CLC,
	/** SMC-R carries the data. Only the end of TCP may come; any byte is `garbage`. */
	CLC_STREAM_WATCH,
};

/**
 * All callbacks are called from the event loop, never from inside a function below. Each may call
 * any of the functions, clc_stream_free() too.
 */
struct clc_stream_callbacks {
	/** Should this whole message, which is still in the socket, be taken? If not, it is
	 * `garbage`. May not call any function below. */
	bool (*wanted)(void *ctx, const uint8_t *msg, size_t len);
	/** One whole message, of the length that smcr_clc_peek_length() tells. The stream goes on
	 * to the next one only if it still is in mode CLC: set another mode here if no more CLC is
	 * wanted. */
	void (*message)(void *ctx, const uint8_t *msg, size_t len);
	/** Bytes that are no CLC message in mode CLC (ERR-11, ERR-13), or any byte in mode WATCH.
	 * The bytes stay in the socket. The stream is in mode OFF now. */
	void (*garbage)(void *ctx);
	/** FIN or RST, each at most once; `error` is the errno of RESET, 0 with FIN. After RESET
	 * the stream is in mode OFF and drops unsent bytes; after FIN it still notices RESET. */
	void (*tcp_event)(void *ctx, enum smcr_tcp_event event, int error);
	/** The kernel has taken all bytes that clc_stream_send() had to keep. May be NULL. */
	void (*flushed)(void *ctx);
};

/**
 * @param fd         connected non-blocking TCP socket; stays the caller's and must stay open until
 *                   clc_stream_free()
 * @param callbacks  must outlive the stream
 * @return 0, -ENOMEM, -EOPNOTSUPP (event_base without edge triggering), or an error of the socket.
 *         The stream starts in mode OFF
 */
int clc_stream_new(struct event_base *base, int fd, const struct clc_stream_callbacks *callbacks,
		   void *ctx, struct clc_stream **ret_stream);

/** Stop and free the stream; the socket is left as in mode OFF. NULL is allowed. */
void clc_stream_free(struct clc_stream *stream);

/**
 * Change what is read. In mode OFF the program finds the socket as if nobody had read: its
 * SO_RCVLOWAT is restored, and no byte behind the last `message` is gone. After a change to CLC or
 * WATCH, bytes that wait in the socket are noticed. @return 0, -ENOMEM
 */
int clc_stream_set_mode(struct clc_stream *stream, enum clc_stream_mode mode);
enum clc_stream_mode clc_stream_mode(const struct clc_stream *stream);

/**
 * Send a message, in any mode. Bytes that the kernel does not take now are kept and sent later;
 * failures come as `tcp_event`.
 * @return 0, -ENOBUFS (more than 4 KiB waiting, or more than 1 KiB in all: the message was not
 *         taken)
 */
int clc_stream_send(struct clc_stream *stream, const uint8_t *msg, size_t len);

/** Has the connection been found broken? The kernel tells the error of a socket once, and has told
 * it here. So whoever reads the socket from now on gets an end of file that nobody has sent. */
bool clc_stream_broken(const struct clc_stream *stream);

/** How many bytes the kernel has not taken yet. The socket may be given away only when this is
 * 0. */
size_t clc_stream_unsent(const struct clc_stream *stream);

#endif
