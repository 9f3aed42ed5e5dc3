/* SPDX-License-Identifier: MIT */
/**
 * @file holder.h
 * Which user has a name or a port that smcrd wants, for the log. The kernel's lists of sockets tell
 * (sock_diag), for any process of the network namespace.
 *
 * Nobody connects to such a name to find out. The other end of that connection would bear the name,
 * and SO_PEERCRED would say there that smcrd has made it: programs would take it for a pair end of
 * smcrd (lib/smcr/trust.h).
 *
 * Any thread may call these functions; they are about the thread's network namespace.
 */
#ifndef SMCRD_HOST_HOLDER_H
#define SMCRD_HOST_HOLDER_H

#include <stddef.h>
#include <sys/types.h>

struct sockaddr_storage;

/** Limits for callers, in milliseconds of the thread's processor time: in a turn of the event loop,
 * and before smcrd serves. A user may have very many sockets, and the kernel lists all. */
#define HOLDER_LOOP_MS  5
#define HOLDER_START_MS 1000

/**
 * Who has a Unix socket's name?
 * @param sockaddr_un  the name, `len` bytes as for bind()
 * @return 0; -ENOENT: nobody has it (any more); -ETIME; another negative errno
 */
int holder_of_unix(const void *sockaddr_un, size_t len, int limit_ms, uid_t *ret_uid);

/** Who listens at an IPv4 or IPv6 address and port, or at all addresses of that port?
 * @return as holder_of_unix() */
int holder_of_tcp(const struct sockaddr_storage *addr, int limit_ms, uid_t *ret_uid);

#define HOLDER_TEXT 64

/** "user 1000", or words that say that it is not known. @param error  what a function above gave */
void holder_text(int error, uid_t uid, char ret_text[HOLDER_TEXT]);

#endif
