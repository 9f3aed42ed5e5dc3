/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tests/sim/app.h"

/* Word i of a stream is a mix of its key and i; the prefix, if any, lies over it. */
static uint8_t stream_byte(const struct stream *stream, uint64_t pos)
{
	if (pos < stream->prefix_len)
		return stream->prefix[pos];
	return (uint8_t)(prng_mix(stream->key + pos / 8) >> 8 * (pos % 8));
}

void stream_fill(const struct stream *stream, uint64_t pos, uint8_t *buf, size_t len)
{
	while (len && (pos < stream->prefix_len || pos % 8)) {
		*buf++ = stream_byte(stream, pos++);
		len--;
	}
	for (; len >= 8; len -= 8, buf += 8, pos += 8) {
		uint64_t word = prng_mix(stream->key + pos / 8);
		memcpy(buf, &word, 8);
	}
	while (len--)
		*buf++ = stream_byte(stream, pos++);
}

bool stream_check(const struct stream *stream, uint64_t pos, const uint8_t *buf, size_t len)
{
	uint8_t want[512];
	while (len) {
		size_t n = len < sizeof(want) ? len : sizeof(want);
		stream_fill(stream, pos, want, n);
		if (memcmp(want, buf, n) != 0)
			return false;
		pos += n;
		buf += n;
		len -= n;
	}
	return true;
}
