/* SPDX-License-Identifier: MIT */
#include "lib/preload/data_pieces.h"

#include <limits.h>
#include <sys/param.h>

#include "lib/smcr/readable.h"

size_t data_length(const struct iovec *iov, int count)
{
	size_t sum = 0;
	if (count <= 0 || count > IOV_MAX || data_is_nowhere(iov))
		return 0;
	for (int i = 0; i < count; i++) {
		const size_t len = data_piece(iov, i).iov_len;
		if (len > SSIZE_MAX - sum)
			return 0;
		sum += len;
	}
	return sum;
}

bool data_message_readable(const struct msghdr *msg)
{
	return pre_is_readable(msg, sizeof(*msg)) && msg->msg_iovlen > 0 &&
	       msg->msg_iovlen <= IOV_MAX &&
	       pre_is_readable(msg->msg_iov, msg->msg_iovlen * sizeof(*msg->msg_iov));
}

size_t data_slice(const struct iovec *iov, int count, size_t at, size_t len,
		  struct iovec ret_iov[DATA_PIECES], size_t *ret_count)
{
	size_t sum = 0, n = 0;
	for (int i = 0; i < count && sum < len && n < DATA_PIECES; i++) {
		const struct iovec piece = data_piece(iov, i);
		if (at >= piece.iov_len) {
			at -= piece.iov_len;
			continue;
		}
		const size_t size = MIN(piece.iov_len - at, len - sum);
		ret_iov[n++] = (struct iovec){ (uint8_t *)piece.iov_base + at, size };
		sum += size;
		at = 0;
	}
	*ret_count = n;
	return sum;
}
