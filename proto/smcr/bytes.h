/* SPDX-License-Identifier: MIT */
/**
 * @file bytes.h
 * Fields of packed, unaligned messages: big-endian, and little-endian ones of SMB.
 *
 * A reader or writer is a bounded cursor with a failure flag. A step that does not fit moves
 * nothing, reads as zero, and sets the flag, which stays set. So a codec reads or writes field by
 * field, as the specification lists them, and checks once at the end.
 */
#ifndef SMCRD_PROTO_SMCR_BYTES_H
#define SMCRD_PROTO_SMCR_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes_reader {
	const uint8_t *at;
	size_t left;
	bool failed;
};

struct bytes_writer {
	uint8_t *at;
	size_t left;
	bool failed;
};

static inline struct bytes_reader bytes_reader(const void *buf, size_t len)
{
	return (struct bytes_reader){ .at = buf, .left = len };
}

static inline struct bytes_writer bytes_writer(void *buf, size_t len)
{
	return (struct bytes_writer){ .at = buf, .left = len };
}

/** The next `len` bytes; NULL: fewer are left. */
static inline const uint8_t *read_span(struct bytes_reader *r, size_t len)
{
	if (r->failed || len > r->left) {
		r->failed = true;
		return NULL;
	}
	const uint8_t *span = r->at;
	r->at += len;
	r->left -= len;
	return span;
}

/** Space for the next `len` bytes; NULL: less is left. */
static inline uint8_t *write_span(struct bytes_writer *w, size_t len)
{
	if (w->failed || len > w->left) {
		w->failed = true;
		return NULL;
	}
	uint8_t *span = w->at;
	w->at += len;
	w->left -= len;
	return span;
}

/** An unsigned big-endian number of `size` bytes, 1..8. */
static inline uint64_t read_be(struct bytes_reader *r, unsigned int size)
{
	const uint8_t *span = read_span(r, size);
	uint64_t value = 0;
	for (unsigned int i = 0; span && i < size; i++)
		value = value << 8 | span[i];
	return value;
}

/** The low `size` bytes of a number, big-endian. */
static inline void write_be(struct bytes_writer *w, uint64_t value, unsigned int size)
{
	uint8_t *span = write_span(w, size);
	for (unsigned int i = 0; span && i < size; i++)
		span[i] = (uint8_t)(value >> 8 * (size - 1 - i));
}

static inline uint8_t read_u8(struct bytes_reader *r)
{
	return (uint8_t)read_be(r, 1);
}

static inline uint16_t read_be16(struct bytes_reader *r)
{
	return (uint16_t)read_be(r, 2);
}

static inline uint32_t read_be24(struct bytes_reader *r)
{
	return (uint32_t)read_be(r, 3);
}

static inline uint32_t read_be32(struct bytes_reader *r)
{
	return (uint32_t)read_be(r, 4);
}

static inline uint64_t read_be64(struct bytes_reader *r)
{
	return read_be(r, 8);
}

/** An unsigned little-endian number of `size` bytes, 1..8. */
static inline uint64_t read_le(struct bytes_reader *r, unsigned int size)
{
	const uint8_t *span = read_span(r, size);
	uint64_t value = 0;
	for (unsigned int i = size; span && i > 0; i--)
		value = value << 8 | span[i - 1];
	return value;
}

/** The low `size` bytes of a number, little-endian. */
static inline void write_le(struct bytes_writer *w, uint64_t value, unsigned int size)
{
	uint8_t *span = write_span(w, size);
	for (unsigned int i = 0; span && i < size; i++)
		span[i] = (uint8_t)(value >> 8 * i);
}

static inline uint16_t read_le16(struct bytes_reader *r)
{
	return (uint16_t)read_le(r, 2);
}

static inline uint32_t read_le32(struct bytes_reader *r)
{
	return (uint32_t)read_le(r, 4);
}

static inline uint64_t read_le64(struct bytes_reader *r)
{
	return read_le(r, 8);
}

static inline void write_le16(struct bytes_writer *w, uint16_t value)
{
	write_le(w, value, 2);
}

static inline void write_le32(struct bytes_writer *w, uint32_t value)
{
	write_le(w, value, 4);
}

static inline void write_le64(struct bytes_writer *w, uint64_t value)
{
	write_le(w, value, 8);
}

/** Copy `len` bytes out; zeros if fewer are left. */
static inline void read_bytes(struct bytes_reader *r, void *ret_bytes, size_t len)
{
	const uint8_t *span = read_span(r, len);
	if (span)
		memcpy(ret_bytes, span, len);
	else
		memset(ret_bytes, 0, len);
}

static inline void read_skip(struct bytes_reader *r, size_t len)
{
	(void)read_span(r, len);
}

static inline void write_u8(struct bytes_writer *w, uint8_t value)
{
	write_be(w, value, 1);
}

static inline void write_be16(struct bytes_writer *w, uint16_t value)
{
	write_be(w, value, 2);
}

static inline void write_be24(struct bytes_writer *w, uint32_t value)
{
	write_be(w, value, 3);
}

static inline void write_be32(struct bytes_writer *w, uint32_t value)
{
	write_be(w, value, 4);
}

static inline void write_be64(struct bytes_writer *w, uint64_t value)
{
	write_be(w, value, 8);
}

static inline void write_bytes(struct bytes_writer *w, const void *bytes, size_t len)
{
	uint8_t *span = write_span(w, len);
	if (span)
		memcpy(span, bytes, len);
}

/** `len` reserved bytes: zeros (CLC-3, LLC-2). */
static inline void write_zeros(struct bytes_writer *w, size_t len)
{
	uint8_t *span = write_span(w, len);
	if (span)
		memset(span, 0, len);
}

/* Single fields at a known offset in a buffer whose size the caller has checked. */

static inline uint16_t get_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get_be24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | get_be16(p + 1);
}

static inline uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)get_be16(p) << 16 | get_be16(p + 2);
}

static inline void put_be16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void put_be24(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 16);
	put_be16(p + 1, (uint16_t)value);
}

static inline void put_be32(uint8_t *p, uint32_t value)
{
	put_be16(p, (uint16_t)(value >> 16));
	put_be16(p + 2, (uint16_t)value);
}

#endif
