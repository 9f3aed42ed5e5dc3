/* SPDX-License-Identifier: MIT */
/**
 * @file spoken.h
 * What smcrd says and hears in CLC on one TCP socket. The gate (gate.h) lets pass what it is told
 * of before it is sent. And the kernel's counters of the socket show whether somebody else, who has
 * a descriptor of it too, has written or read there: what comes of that is no CLC of ours or the
 * peer's.
 */
#ifndef SMCRD_RENDEZVOUS_SPOKEN_H
#define SMCRD_RENDEZVOUS_SPOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"

struct spoken {
	int fd;
	uint64_t before; /* what the kernel counted as written when it began */
	uint64_t said, heard;
	bool others; /* somebody else has written before that */
	struct ipc_spoken *told;
};

/** @param fd  a connected TCP socket on which nobody has said anything; stays the caller's */
void spoken_begin(struct spoken *spoken, int fd);

/** Nothing more will be said. The gate stays as it is. */
void spoken_end(struct spoken *spoken);

/**
 * To be called before the message is sent. Where there is no gate it costs a system call that
 * fails.
 * @return 0, -ENOMEM, -ENOBUFS (more than IPC_SPOKEN_MAX in all)
 */
int spoken_say(struct spoken *spoken, const uint8_t *msg, size_t len);

/** So many bytes were read from the socket. */
void spoken_hear(struct spoken *spoken, size_t len);

/** Has nobody else written to the socket, or read from it? What is under way at this moment may
 *  escape. */
bool spoken_alone(const struct spoken *spoken);

/** CLC is over, and the connection is TCP: from here on anything may be sent on the socket. */
void spoken_free_socket(int fd);

#endif
