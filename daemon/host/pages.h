/* SPDX-License-Identifier: MIT */
/**
 * @file pages.h
 * What lies behind addresses: private pages, or those of a file that another process has mapped.
 * Addresses and lengths are whole pages. Nothing may write there while these run: the daemon's one
 * thread calls them.
 */
#ifndef SMCRD_DAEMON_HOST_PAGES_H
#define SMCRD_DAEMON_HOST_PAGES_H

#include <stddef.h>
#include <sys/types.h>

/** Put the pages of the file in this place, which get what is there. @return 0 or a negative errno:
 *  all is as before */
int pages_share(void *addr, size_t len, int fd, off_t offset);

/** Put private pages in this place, with what is there. Others keep the file. @return 0 or a
 * negative errno: all is as before */
int pages_own(void *addr, size_t len);

/** Put zeroed private pages in this place, and give the file's memory back to the system, whoever
 *  else has it mapped. @return 0 or a negative errno */
int pages_renew(void *addr, size_t len);

/** Give private pages back to the system; they are zeroed when they are touched again. @return 0 or
 * a negative errno */
int pages_discard(void *addr, size_t len);

#endif
