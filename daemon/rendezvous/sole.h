/* SPDX-License-Identifier: MIT */
/**
 * @file sole.h
 * One smcrd serves a network namespace. Two would both answer handshakes there, by rules of their
 * own and with RNICs of which only one can have UDP port 4791, and connections of one would be
 * reset by what the other promises. So a second one does not start, and names the first.
 *
 * Two things show that another one is there, and both end with it, however it ends:
 *   its BPF programs   answer who serves the namespace (daemon/rendezvous/serving.h)
 *   a lock             which needs CAP_NET_RAW, so that it is held without BPF too
 *                      (daemon/host/netns_lock.h)
 * Neither can be had by an ordinary user. So an smcrd without both capabilities does not keep
 * another one from starting, but does not start beside another one either.
 */
#ifndef SMCRD_RENDEZVOUS_SOLE_H
#define SMCRD_RENDEZVOUS_SOLE_H

#include <stddef.h>

/**
 * Become the only smcrd of this network namespace. Waits a few seconds for one that is about to
 * end.
 * @param ret_lock  the lock, to be closed at the end; -1: this process cannot hold it
 * @param ret_text  on failure: who serves the namespace, and what to do
 * @return 0, -EALREADY
 */
int sole_become(int *ret_lock, char *ret_text, size_t len);

/** Another smcrd's BPF programs were attached first: as sole_become() fails. @return -EALREADY */
int sole_refuse(char *ret_text, size_t len);

#endif
