/* SPDX-License-Identifier: MIT */
/**
 * @file spoken.h
 * What smcrd sends and receives as CLC on one TCP socket. The gate (gate.h) is told of each message
 * before it is sent, and lets it pass. The kernel's counters of the socket show whether another
 * process that has the socket too has written or read there: then the bytes are not CLC of smcrd or
 * of the peer.
 */
#ifndef SMCRD_RENDEZVOUS_SPOKEN_H
#define SMCRD_RENDEZVOUS_SPOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"

struct spoken {
	int fd;
	uint64_t before; /* bytes written before spoken_begin(), as the kernel counts */
	uint64_t said, heard;
	bool others; /* another process had written before that */
	struct ipc_spoken *told;
};

/** @param fd a connected TCP socket on which nothing was sent; the caller keeps it */
void spoken_begin(struct spoken *spoken, int fd);

/** No further message will be sent. The gate stays as it is. */
void spoken_end(struct spoken *spoken);

/**
 * To be called before each message is sent. Without a gate this is a system call that fails.
 * @return 0, -ENOMEM, -ENOBUFS (more than IPC_SPOKEN_MAX in all)
 */
int spoken_say(struct spoken *spoken, const uint8_t *msg, size_t len);

/** smcrd has read `len` bytes from the socket. */
void spoken_hear(struct spoken *spoken, size_t len);

/** Has no other process written to the socket or read from it? A system call that is under way
 * right now may be missed. */
bool spoken_alone(const struct spoken *spoken);

/** CLC is over, and the connection is TCP: from now on anything may be sent on the socket. */
void spoken_free_socket(int fd);

/** How many bytes can be read from a TCP socket, up to 4096, found by peeking at them. What SIOCINQ
 * tells of sockets that are in a BPF sockmap may lack bytes. */
uint64_t spoken_peek(int fd);

#endif
