/* SPDX-License-Identifier: MIT */
/**
 * @file shared.h
 * Bytes through memory: the program has mapped the RMBE and the send buffer of its connection
 * (docs/data-path.md). The pair stays open beside it, and the pump uses both.
 *
 * The program may write anything into the memory at any time. proto/path/ checks the control words,
 * and this module never reads a word twice. A program that breaks the protocol loses its
 * connection.
 */
#ifndef SMCRD_DAEMON_CONNS_SHARED_H
#define SMCRD_DAEMON_CONNS_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/smcr/engine.h"
#include "proto/path/receive.h"
#include "proto/path/send.h"

struct shared {
	int fd; /* the memfd; -1: nothing is shared */
	struct path_page *page;
	struct path_layout layout;
	void *buffer; /* address of the send buffer in this process */
	struct path_rx rx;
	struct path_tx tx;
	uint64_t now; /* microseconds; the owner sets it before it runs the pump */

	bool rx_over;        /* for ever: readers get bytes through the pair only */
	bool through_pair;   /* the same, until the program has read the pair's urgent byte */
	bool wants_empty;    /* the owner watches for EPOLLOUT: that tells that the pair was read */
	unsigned int anew;   /* how often in this turn a reader was faster than forward() */
	size_t head;         /* how many bytes the next head has */
	bool head_short;     /* the last head left bytes in the memory */
	size_t head_len;     /* length of the last head, with what was added to it */
	uint64_t head_end;   /* stream position of its end */
	uint32_t head_looks; /* the page's `looks` when it was forwarded */
	unsigned int head_longer; /* how often it was made longer while nobody read it */
	bool locked;              /* the daemon has the writers' lock */
	bool polled;              /* the page says that the daemon polls */

	/* Times at which to look without an event; 0: none. */
	uint64_t reader_due; /* from then on a reader that is `at_work` counts as dead */
	uint64_t lock_due;   /* from then on the holder of the lock counts as dead */
	uint64_t head_due;   /* then a head that nobody has read is made longer */
	uint64_t active;     /* when bytes were moved last */

	uint64_t tx_bytes, rx_bytes; /* bytes that did not pass through the pair */
};

/**
 * Put the connection's memory into a memfd for the program. To be called between two turns of the
 * pump.
 * @return 0, or a negative errno: nothing has changed
 */
int shared_open(struct shared *shared, struct smcr_conn *conn, uint64_t now);
/**
 * End the path: who has the memory mapped uses the pair alone from now on. What a reader copies
 * from the memory after this call is not taken, and what a writer puts there does not count. So the
 * pages may be emptied then, and must not be before. May be called inside the pump's calls of the
 * engine, and any number of times. Nothing happens if nothing is shared.
 */
void shared_end(struct shared *shared);
/** End the path and give back what the daemon itself has of it. The connection keeps its pages
 * until the engine lets go of them. */
void shared_close(struct shared *shared);

/** Has the program changed a control word since the last look, or is one of the times above due? */
bool shared_has_news(struct shared *shared, uint64_t now);
/** Is one of the times above set? */
static inline bool shared_is_timed(const struct shared *shared)
{
	return shared->reader_due || shared->lock_due || shared->head_due;
}
/** Tell the program that the daemon polls the control page from now on. */
void shared_poll(struct shared *shared);
/** Tell the program that the daemon stops polling. @return false: it has to go on, since a writer
 * may rely on it */
bool shared_stop_polling(struct shared *shared);

#endif
