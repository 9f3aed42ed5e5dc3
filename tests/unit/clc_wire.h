/* SPDX-License-Identifier: MIT */
/**
 * @file clc_wire.h
 * CLC messages written as text, and what tests of the codec do with them.
 */
#ifndef SMCRD_TESTS_CLC_WIRE_H
#define SMCRD_TESTS_CLC_WIRE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/clc.h"
#include "tests/lib/hex.h"

#define EYE     "E2D4C3D9 "
#define PEER_ID "1234 525400000001 "
#define GID     "00000000 00000000 0000FFFF 0A000001 "
#define MAC     "525400000001 "
#define ZEROS_40                                                                                   \
	"0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 "
/* QPN 000011, RKey 0000032A, index 1, token A1B2C3D4, 64 KiB and MTU 1024, address, PSN. */
#define CREDENTIALS PEER_ID GID MAC "000011 0000032A 01 A1B2C3D4 23 00 FF168C56051B0000 00 4BD3EA "

/* The peer ID of PEER_ID as bytes. */
static const uint8_t peer_id[8] = { 0x12, 0x34, 0x52, 0x54, 0, 0, 0, 1 };
static const uint8_t gid[16] = { [10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = 1 };
static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

struct wire {
	uint8_t bytes[1024];
	size_t len;
};

static inline struct wire wire(const char *text)
{
	struct wire w = { { 0 }, 0 };
	w.len = hex_bytes(text, w.bytes, sizeof(w.bytes));
	return w;
}

/* Decodes a copy that ends where the address sanitizer notices reads behind it. */
static inline int decode(const struct wire *w, struct smcr_clc_msg *ret_msg)
{
	uint8_t *copy = exact_copy(w->bytes, w->len);
	int rc = smcr_clc_decode(copy, w->len, ret_msg);
	free(copy);
	return rc;
}

static inline struct smcr_clc_msg decoded(const struct wire *w)
{
	struct smcr_clc_msg msg = { 0 };
	assert_int_equal(decode(w, &msg), 0);
	return msg;
}

/* Decoding fails with `error` and leaves the output alone. */
static inline void refused(const struct wire *w, int error)
{
	struct smcr_clc_msg msg;
	struct smcr_clc_msg before;
	memset(&msg, 0xA5, sizeof(msg));
	memcpy(&before, &msg, sizeof(msg));
	assert_int_equal(decode(w, &msg), error);
	assert_memory_equal(&msg, &before, sizeof(msg));
}

static inline void refused_with(struct wire w, size_t at, uint8_t value)
{
	w.bytes[at] = value;
	refused(&w, -EBADMSG);
}

/* `msg` encodes to these bytes if the buffer is large enough, and not at all into a smaller one. */
static inline void encodes_to(const struct smcr_clc_msg *msg, const struct wire *w)
{
	uint8_t buf[1024];
	memset(buf, 0x55, sizeof(buf));
	assert_int_equal(smcr_clc_encode(msg, buf, sizeof(buf)), w->len);
	assert_memory_equal(buf, w->bytes, w->len);
	assert_int_equal(buf[w->len], 0x55);
	for (size_t room = 0; room < w->len; room++) {
		uint8_t *small = exact_copy(buf, room);
		assert_int_equal(smcr_clc_encode(msg, small, room), -ENOBUFS);
		free(small);
	}
}

/* Decodes the message with one byte changed. */
static inline int decode_with(const char *text, size_t at, uint8_t value)
{
	struct wire w = wire(text);
	struct smcr_clc_msg msg = { 0 };
	w.bytes[at] = value;
	int rc = decode(&w, &msg);
	if (rc == 0 || rc == -ENOTSUP)
		assert_int_equal(msg.length, w.len); /* set on success and on failure */
	return rc;
}

/* Sets each reserved bit in turn: the decoded message stays the same. */
static inline void reserved_bits_change_nothing(const char *text, size_t at, uint8_t mask)
{
	struct wire w = wire(text);
	struct smcr_clc_msg plain = decoded(&w);
	for (uint8_t bit = 0x80; bit; bit >>= 1) {
		if (!(mask & bit))
			continue;
		assert_false(w.bytes[at] & bit); /* smcrd sends the bit as zero */
		w.bytes[at] |= bit;
		struct smcr_clc_msg msg = decoded(&w);
		assert_memory_equal(&msg, &plain, sizeof(msg));
		w.bytes[at] &= (uint8_t)~bit;
	}
}

#endif
