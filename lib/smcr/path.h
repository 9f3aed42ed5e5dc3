/* SPDX-License-Identifier: MIT */
/**
 * @file path.h
 * Which descriptors of this process are pair ends, and which of these have memory that smcrd shares
 * (docs/data-path.md). "Path" is short for the data path through that memory.
 *
 * A table by descriptor number, of fixed size and without locks: usable in signal handlers and by
 * any number of threads, and not harmed by a fork at any moment. Entries may be missing or out of
 * date. A descriptor that is missing is read and written through the kernel, which is always right.
 * For one that is found the kernel is asked before bytes are moved, since the library does not see
 * every reuse of a number.
 */
#ifndef SMCRD_LIB_SMCR_PATH_H
#define SMCRD_LIB_SMCR_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"
#include "proto/path/page.h"

#define PRE_PATH_SLOTS 32768 /* higher descriptors are never in the table */

/** State of polling before sleeping: how often polling was in vain lately, and how many calls skip
 * it. */
struct pre_path_spin {
	_Atomic uint32_t vain, skip;
};

/** Shared memory that is mapped into this process. Each descriptor that has it, and each call that
 * uses it, holds a reference; the last one unmaps it. All but atomic members are written before the
 * first reference is given, and then only read. */
struct pre_path {
	_Atomic uint32_t references; /* 0: free */
	uint8_t *memory;             /* begins with the control page: pre_path_page() */
	struct path_layout layout;
	int least_charge; /* SIOCOUTQ while one small message is queued, as the daemon has said */
	uint32_t part;    /* bytes to write into the pair at once, enough to make it unwritable */
	_Atomic bool reads_outside;  /* only the pair is read: pre_path_reads_outside() */
	_Atomic bool writes_outside; /* the program has shut down writing */
	/** Positive errno that the kernel reported to a call that had moved bytes already: for the
	 * next call. 0: none */
	_Atomic int error;
	struct pre_path_spin receive, send;
};

static inline struct path_page *pre_path_page(const struct pre_path *path)
{
	return (struct path_page *)path->memory;
}

/** In a slot: a pair end that will have no memory, or what was passed and may be one. path.c has
 * the other values. */
#define PRE_PATH_NONE 3u

extern _Atomic uintptr_t pre_path_slots[PRE_PATH_SLOTS];

static inline uintptr_t pre_path_slot(int fd)
{
	return (unsigned int)fd < PRE_PATH_SLOTS
		       ? atomic_load_explicit(&pre_path_slots[fd], memory_order_relaxed)
		       : 0;
}

/* ---- questions of each call that moves data */

/** May `fd` have memory, now or later? If not, this costs one load. */
static inline bool pre_path_concerns(int fd)
{
	uintptr_t slot = pre_path_slot(fd);
	return slot != 0 && slot != PRE_PATH_NONE;
}

/** Was `fd` a pair end when it was last seen, or may it be one? Costs one load. */
static inline bool pre_path_is_pair(int fd)
{
	return pre_path_slot(fd) != 0;
}

/* ---- descriptors that come and go. These functions take any number, and holders.h hears of it */

/** `fd` is a pair end that came by exec, which has no memory in this process, or was passed and may
 * be one. */
void pre_path_note_pair(int fd);

/** socket() or accept() has made `fd`. It is alone, unless the library could not see a dup() of it
 * or another file at its number: pre_sees_calls. */
void pre_path_note_socket(int fd);

/** Another file, which nobody else has, is about to take the place of the one at `fd`. */
void pre_path_replaced(int fd);

/** `fd` is a pair end now: its memory, if it may have some, is asked for when it has moved many
 * bytes. */
void pre_path_expect(int fd);

/** Remove the entry of a number that is about to be closed or has another file. Does nothing if
 * there is no entry. */
void pre_path_forget(int fd);
/** The same for all numbers from `first` to `last`. */
void pre_path_forget_range(unsigned int first, unsigned int last);
/** `to` is a copy of `from`. */
void pre_path_copied(int from, int to);

/* ---- the memory */

/** A call has moved `bytes` of this descriptor, which may be any, through the kernel. */
void pre_path_moved(int fd, size_t bytes);

/**
 * The memory of a descriptor. Asks the daemon for it if that is due, and waits a second at most for
 * the answer.
 * @param fd  a number for which pre_path_concerns() is or was true
 * @return the memory, which the caller gives back to pre_path_put() and does not use later; it
 * stays mapped until then, though the descriptor is closed. NULL: none now. errno may have changed
 */
struct pre_path *pre_path_get(int fd);
void pre_path_put(struct pre_path *path);

/** The program has set an option that only the kernel implements (SO_RCVLOWAT, SO_PEEK_OFF), or a
 * read has ended in a reset. The pair alone is read from now on. @param fd any */
void pre_path_reads_outside(int fd);
/** The program has shut down writing: the kernel reports that. @param fd any */
void pre_path_writes_outside(int fd);

/** Keep a reset that the kernel reported to a call which had moved bytes already. The kernel does
 * not report it again, so the next call does. @param path  may be NULL: nothing is kept
 * @param error  negative errno; any other error than ECONNRESET is ignored, since the kernel
 * reports it again */
void pre_path_keep_error(struct pre_path *path, int error);
/** Take a kept error. @return negative errno; 0: none */
int pre_path_kept_error(struct pre_path *path);

/**
 * Enter memory that the daemon has granted for a pair end.
 * @param memfd  stays open and the caller's
 * @return 0 or a negative errno
 */
int pre_path_adopt(int fd, int memfd, const struct ipc_memory *granted);

#endif
