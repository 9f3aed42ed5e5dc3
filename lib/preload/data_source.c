/* SPDX-License-Identifier: MIT */
#include "lib/preload/data_source.h"

#include <sys/param.h>

#include "lib/smcr/sys.h"

/* @param skip  how many of the next bytes to leave out */
static size_t slice(const struct data_source *source, size_t skip, size_t len,
		    struct iovec ret_iov[DATA_PIECES], size_t *ret_count)
{
	return data_slice(source->iov, source->count, source->done + skip, len, ret_iov, ret_count);
}

static ssize_t read_file(const struct data_source *source, size_t skip, void *buf, size_t len)
{
	off_t at = source->offset + (off_t)(source->done + skip);
	ssize_t n;
	do
		n = sys_pread(source->file, buf, len, at);
	while (n == -EINTR);
	return n;
}

ssize_t data_source_next(const struct data_source *source, size_t len,
			 uint8_t buf[DATA_SOURCE_FILE], struct iovec ret_iov[DATA_PIECES],
			 size_t *ret_count)
{
	len = MIN(len, source->left);
	if (source->iov)
		return (ssize_t)slice(source, 0, len, ret_iov, ret_count);
	ssize_t n = read_file(source, 0, buf, MIN(len, DATA_SOURCE_FILE));
	ret_iov[0] = (struct iovec){ buf, n > 0 ? (size_t)n : 0 };
	*ret_count = 1;
	return n;
}

static uint32_t copy_pieces(const struct data_source *source, uint8_t *memory,
			    const struct path_ring *ring, uint64_t pos, uint32_t len)
{
	uint32_t sum = 0;
	while (sum < len) {
		struct iovec iov[DATA_PIECES];
		size_t count;
		if (slice(source, sum, len - sum, iov, &count) == 0)
			break;
		for (size_t i = 0; i < count; i++) {
			uint32_t n = (uint32_t)iov[i].iov_len;
			path_ring_put(memory, ring, pos + sum, iov[i].iov_base, n);
			sum += n;
		}
	}
	return sum;
}

static uint32_t copy_file(const struct data_source *source, uint8_t *memory,
			  const struct path_ring *ring, uint64_t pos, uint32_t len)
{
	uint32_t sum = 0;
	while (sum < len) {
		const uint32_t run = path_ring_run(ring, pos + sum, len - sum);
		ssize_t n = read_file(source, sum, memory + path_ring_place(ring, pos + sum), run);
		if (n <= 0)
			break;
		sum += (uint32_t)n;
	}
	return sum;
}

uint32_t data_source_copy(const struct data_source *source, uint8_t *memory,
			  const struct path_ring *ring, uint64_t pos, uint32_t len)
{
	return source->iov ? copy_pieces(source, memory, ring, pos, len)
			   : copy_file(source, memory, ring, pos, len);
}
