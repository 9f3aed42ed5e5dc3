/* SPDX-License-Identifier: MIT */
/**
 * @file path.h
 * Which descriptors of this process have memory that smcrd shares (docs/data-path.md).
 *
 * A table by descriptor number, of fixed size and without locks: usable in signal handlers, by any
 * number of threads, and unharmed by a fork at any moment. What it says is a memory of convenience:
 * a descriptor that is not in it is read and written as the kernel has it, which always is right;
 * and whoever finds one in it asks the kernel before anything is moved, since a number may have
 * been used again behind the library's back.
 */
#ifndef SMCRD_LIB_SMCR_PATH_H
#define SMCRD_LIB_SMCR_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"
#include "proto/path/page.h"

#define PRE_PATH_SLOTS 32768 /* descriptors above are never in the table */

/** Looking for something a while before going to sleep: none of it where it was in vain lately. */
struct pre_path_spin {
	_Atomic uint32_t vain, skip;
};

/** Shared memory that is mapped into this process. Those who use one hold a reference, as does each
 *  descriptor. */
struct pre_path {
	_Atomic uint32_t references; /* 0: free */
	uint8_t *memory;
	struct path_layout layout;
	int least_charge;
	uint32_t part;              /* what is written into the pair at once: makes it unwritable */
	_Atomic bool reads_outside; /* options of the socket want it: the pair alone is read */
	_Atomic bool writes_outside; /* the program has shut down writing */
	/** Positive errno that the kernel has told once, in a call that had already moved bytes: of
	 * the next call. 0: none */
	_Atomic int error;
	struct pre_path_spin receive, send;
};

static inline struct path_page *pre_path_page(const struct pre_path *path)
{
	return (struct path_page *)path->memory;
}

extern _Atomic uintptr_t pre_path_slots[PRE_PATH_SLOTS];

/** May `fd` have memory, now or later? One load where it may not. */
static inline bool pre_path_concerns(int fd)
{
	return (unsigned int)fd < PRE_PATH_SLOTS &&
	       atomic_load_explicit(&pre_path_slots[fd], memory_order_relaxed) != 0;
}

/** A pair end has come to `fd`: its memory is asked for when it has moved much. */
void pre_path_expect(int fd);

/** `bytes` of a descriptor have gone through the kernel. */
void pre_path_moved(int fd, size_t bytes);

/**
 * The memory of a descriptor. Asks the daemon for it if that is due.
 * @return NULL: none (now). Else to be given back to pre_path_put(); errno may have changed
 */
struct pre_path *pre_path_get(int fd);
void pre_path_put(struct pre_path *path);

/** The program has set an option that only the kernel can follow: SO_RCVLOWAT, SO_PEEK_OFF. */
void pre_path_reads_outside(int fd);
/** The program has shut down writing. */
void pre_path_writes_outside(int fd);

/** The number is about to be closed, or another file is at it: forget what was there. Does nothing
 *  for numbers that are not in the table. */
void pre_path_forget(int fd);
/** The same for all from `first` to `last`. */
void pre_path_forget_range(unsigned int first, unsigned int last);
/** `to` is a copy of `from`. */
void pre_path_copied(int from, int to);

/**
 * Put memory in the table that the daemon has granted for a pair end.
 * @param memfd  stays the caller's
 * @return 0 or a negative errno
 */
int pre_path_adopt(int fd, int memfd, const struct ipc_memory *granted);

#endif
