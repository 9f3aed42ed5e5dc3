/* SPDX-License-Identifier: MIT */
/**
 * @file request.h
 * One request to the daemon and its answer, as frames of proto/ipc on a connection of their own.
 * What the requests are is in session.h.
 *
 * Nothing stays open in the program afterwards but the descriptor that an answer has brought.
 * Signals do not end a wait unless said so, because half a hand-over cannot be undone.
 * Async-signal-safe, and no cancellation points. errno may change.
 */
#ifndef SMCRD_LIB_SMCR_REQUEST_H
#define SMCRD_LIB_SMCR_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"

/** Lies on the caller's stack. Callers read `given`, `fd`, and of an answer type, len and payload.
 */
struct pre_request {
	int socket;
	int64_t deadline;
	int64_t look_at; /* when to check whether smcrd stands still */
	bool still;      /* so it was at the last check */
	bool wakeable;   /* a signal ends the wait for the answer */
	bool given;      /* the daemon may have received the request's descriptor */
	int fd;          /* received with the answer, or -1 */
	uint8_t ahead[2 * (IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN)]; /* received, not decoded yet */
	size_t ahead_at, ahead_len;
	uint8_t type;
	uint32_t len;
	uint8_t payload[IPC_MAX_CLIENT_LEN];
};

/**
 * Make a request and wait for its answer. A hand-over is not begun, and waits no longer, if smcrd
 * stands still.
 * @param payload   of the request; `len` is the result of its encoder, perhaps a negative errno
 * @param fd        descriptor that goes with the request; the caller's
 * @param limit_ms  the longest wait
 * @param wakeable  a signal ends the wait for the answer
 * @return 0: there is an answer, perhaps IPC_ERROR; or a negative errno: -ETIMEDOUT, -EINTR,
 *         -PRE_STANDS_STILL, -EBADMSG (the answer is nonsense), .. In both cases the caller owns
 *         ret_request->fd unless it is -1
 */
int pre_request_ask(uint8_t type, const uint8_t *payload, int len, int fd, int limit_ms,
		    bool wakeable, struct pre_request *ret_request);

/** Make a request whose answer nobody reads. Parameters as above. @return 0 or a negative errno: it
 * could not be sent */
int pre_request_tell(uint8_t type, const uint8_t *payload, int len, int fd, int limit_ms);

/** Close the descriptor that came with the answer, if any. */
void pre_request_drop_fd(struct pre_request *s);

/** Are so many descriptor numbers free? If the descriptor of an answer cannot be received, the
 * connection is lost. @param fd  any open descriptor of this process */
bool pre_request_has_free(int fd, int count);

#endif
