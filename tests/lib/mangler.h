/* SPDX-License-Identifier: MIT */
/**
 * @file mangler.h
 * A bad network between two soft RNICs of a testnet: a relay that loses, doubles, delays and
 * damages packets, by chance from a seed. Each RNIC takes the relay for its peer.
 *
 * Addresses: the RNIC of namespace 0 sees its peer at 10.77.0.9, that of namespace 1 at 10.77.0.8.
 */
#ifndef SMCRD_TESTS_MANGLER_H
#define SMCRD_TESTS_MANGLER_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/roce/icrc.h"
#include "tests/lib/random.h"
#include "tests/lib/testnet.h"

/** Chances in thousandths. */
struct mangler_faults {
	unsigned int lose, duplicate, delay, damage;
	size_t most; /* larger datagrams are always lost; 0: no limit */
};

#define MANGLER_HELD 64

struct mangler {
	struct event_base *base;
	struct mangler_faults faults;
	struct random random;
	int fd[2]; /* 0: in namespace 1, towards the RNIC of namespace 0; 1: the other direction */
	struct event *readable[2];
	struct event *release;
	struct mangler_packet {
		int out; /* index of fd */
		size_t len;
		uint8_t buf[ROCE_MAX_LEN];
	} held[MANGLER_HELD];
	size_t num_held;
	size_t forwarded, lost, duplicated, delayed, damaged;
};

/** Add the relay's addresses and start relaying. The devices must have been opened before. */
void mangler_open(struct mangler *mangler, const struct testnet *net, struct event_base *base,
		  uint64_t seed);
void mangler_close(struct mangler *mangler);

/** GID by which the RNIC of namespace `which` reaches the other one through the relay. */
void mangler_gid(int which, uint8_t gid[16]);

#endif
