/* SPDX-License-Identifier: MIT */
/** @file capture.h Writes the records of smcrd's ring to a pcapng file. */
#ifndef SMCRD_SMCRCTL_CAPTURE_H
#define SMCRD_SMCRCTL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/capture/ring.h"

struct capture_file;

/** Begin a file. @param out  has to stay until capture_file_end(). @return NULL: no memory */
struct capture_file *capture_file_new(FILE *out);
/**
 * Write a record of the ring.
 * @return 0, -EBADMSG: the record is not understood, -ENOMEM
 */
int capture_file_add(struct capture_file *file, const void *record, size_t len);
/** Messages so far: SENDs and, if they were wanted, WRITEs. */
uint64_t capture_file_messages(const struct capture_file *file);
/**
 * Write each RNIC's sums, and free the file. RNICs whose messages were all lost share one more
 * interface.
 * @param ring  has the numbers of lost messages
 * @return how many messages were lost
 */
uint64_t capture_file_end(struct capture_file *file, const struct capture_ring *ring);

#endif
