/* SPDX-License-Identifier: MIT */
/** @file capture.h What comes out of smcrd's ring becomes a pcapng file. */
#ifndef SMCRD_SMCRCTL_CAPTURE_H
#define SMCRD_SMCRCTL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/capture/ring.h"

struct capture_file;

/** Begin one. @param out  outlives it. @return NULL: no memory */
struct capture_file *capture_file_new(FILE *out);
/**
 * Write a record of the ring.
 * @return 0, -EBADMSG: it is none that is understood, -ENOMEM
 */
int capture_file_add(struct capture_file *file, const void *record, size_t len);
/** Messages so far: SENDs and, if they were wanted, WRITEs. */
uint64_t capture_file_messages(const struct capture_file *file);
/**
 * Write what each RNIC had in all, and free. Those that have lost messages, and of which there is
 * none in the file, are one interface more.
 * @param ring  tells what was lost
 * @return how many messages were lost
 */
uint64_t capture_file_end(struct capture_file *file, const struct capture_ring *ring);

#endif
