/* SPDX-License-Identifier: MIT */
/**
 * @file shared.h
 * A connection whose element and send buffer its program has mapped (docs/data-path.md): the second
 * way that bytes take, beside the pair. The pump has both.
 *
 * Whatever stands in the memory may be nonsense: proto/path/ checks the words, and this module
 * never reads one twice. A program that breaks the protocol loses its connection.
 */
#ifndef SMCRD_DAEMON_CONNS_SHARED_H
#define SMCRD_DAEMON_CONNS_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "proto/path/receive.h"
#include "proto/path/send.h"

struct shared {
	int fd; /* of the memory; -1: it is not shared */
	struct path_page *page;
	struct path_layout layout;
	void *buffer; /* the send buffer's place in this process */
	struct path_rx rx;
	struct path_tx tx;
	uint64_t now; /* microseconds; the owner sets it before it runs the pump */

	bool rx_over;        /* readers have the pair alone, for ever */
	bool through_pair;   /* likewise until the pair is empty: it has an urgent byte */
	bool wants_empty;    /* the owner watches the pair for EPOLLOUT: to hear that it was read */
	unsigned int anew;   /* how often others were faster in this turn */
	size_t head;         /* how long heads are now */
	bool head_short;     /* the last one was not all that there was, */
	size_t head_len;     /* was so long, */
	uint64_t head_end;   /* ended here, */
	uint32_t head_looks; /* and the library had looked so often */
	unsigned int head_longer; /* how often it was made longer, lying there */
	bool locked;              /* the lock of writers is ours */
	bool polled;              /* as the page has it */

	/* When to look again though no event says so; 0: not at all. */
	uint64_t reader_due; /* a reader at work counts as dead then */
	uint64_t lock_due;   /* the holder of the lock likewise */
	uint64_t head_due;   /* a head that nobody has read is made longer then */
	uint64_t active;     /* when the program did something last */

	uint64_t tx_bytes, rx_bytes; /* that did not pass through the pair */
};

/**
 * Put the connection's memory into a file that can be passed on, between two turns of its pump.
 * @return 0, or a negative errno: all is as before
 */
int shared_open(struct shared *shared, struct smcr_conn *conn, uint64_t now);
/** Whoever has the memory uses the pair alone from now on. The connection keeps its pages until the
 *  engine lets go of them. Nothing if it is not shared. */
void shared_close(struct shared *shared);

/** Has the program changed a word since the last look, or is something due? */
bool shared_has_news(struct shared *shared, uint64_t now);
/** Do times of its own make a look due? */
static inline bool shared_is_timed(const struct shared *shared)
{
	return shared->reader_due || shared->lock_due || shared->head_due;
}
/** From now on the daemon looks at the page by itself. */
void shared_poll(struct shared *shared);
/** It wants to look no more. @return false: it has to */
bool shared_stop_polling(struct shared *shared);

#endif
