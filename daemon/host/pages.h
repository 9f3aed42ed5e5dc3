/* SPDX-License-Identifier: MIT */
/**
 * @file pages.h
 * Replaces the pages behind an address range: private pages by those of a file that another process
 * has mapped, and back. Ranges consist of whole pages. No other thread may write to the range
 * meanwhile; the event loop's thread calls these functions.
 */
#ifndef SMCRD_DAEMON_HOST_PAGES_H
#define SMCRD_DAEMON_HOST_PAGES_H

#include <stddef.h>
#include <sys/types.h>

/** Replace the range by pages of the file, into which its contents are copied before. @return 0 or
 * a negative errno: nothing has changed */
int pages_share(void *addr, size_t len, int fd, off_t offset);

/** Replace the range by private pages with the same contents. Other processes keep the file's
 * pages. @return 0 or a negative errno: nothing has changed */
int pages_own(void *addr, size_t len);

/** Replace the range by zeroed private pages, and give the file's memory back to the system even if
 * other processes have it mapped. @return 0 or a negative errno */
int pages_renew(void *addr, size_t len);

/** Give private pages of the range back to the system; when they are touched again they are zero.
 * @return 0 or a negative errno */
int pages_discard(void *addr, size_t len);

#endif
