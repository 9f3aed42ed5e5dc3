/* SPDX-License-Identifier: MIT */
/*
 * A reader of the library: takes the bytes of the pair first, then those of the memory
 * (proto/path/receive.h). One call goes through these functions, the outermost first:
 *
 *     data_receive()     leaves to the kernel what only the kernel can do; does MSG_WAITALL
 *     receive()          finds the memory of the descriptor
 *     look_past_head()   waits a moment while the daemon forwards a head
 *     look_at_work()     says that a reader is at work: the daemon forwards no head meanwhile
 *     look()             takes what is in the pair and in the memory now
 *     look_polling()     if that was nothing: polls the memory for a while, and looks again
 */
#include <pthread.h>
#include <sched.h>
#include <sys/param.h>

#include "lib/preload/data.h"
#include "lib/preload/data_pieces.h"
#include "lib/preload/data_wait.h"
#include "lib/smcr/next.h"
#include "lib/smcr/path.h"
#include "lib/smcr/sys.h"
#include "proto/path/receive.h"

#define KNOWN_FLAGS (MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)
#define HEAD_YIELDS 200 /* how often to yield while a head is on its way */
#define TRIES       4 /* attempts if another reader was faster each time, or the page is corrupt */

/* One call. */
struct reading {
	int fd;
	struct pre_path *path;
	const struct iovec *iov;
	int count;
	size_t want;
	int flags;
};

/* Copy bytes behind the first `at` ones of the call. @return how many: fewer than `len` if the
 * program has shortened its list meanwhile */
static uint32_t copy_out(const struct reading *r, size_t at, uint64_t pos, uint32_t len)
{
	const struct path_ring *ring = &r->path->layout.receive;
	uint32_t sum = 0;
	for (int i = 0; i < r->count && sum < len; i++) {
		const struct iovec piece = data_piece(r->iov, i);
		if (at >= piece.iov_len) {
			at -= piece.iov_len;
			continue;
		}
		const uint32_t n = (uint32_t)MIN(piece.iov_len - at, len - sum);
		path_ring_get(r->path->memory, ring, pos + sum, (uint8_t *)piece.iov_base + at, n);
		sum += n;
		at = 0;
	}
	return sum;
}

/* Read the pair without waiting. @return bytes; 0: it is empty, or at the end of the stream, which
 * the daemon reports there when nothing is left in the memory; or a negative errno */
static int take_head(const struct reading *r)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)r->iov, .msg_iovlen = (size_t)r->count };
	int rc = sys_recvmsg(r->fd, &msg, (r->flags & MSG_PEEK) | MSG_DONTWAIT);
	return rc == -EAGAIN ? 0 : rc;
}

/* Read pair and memory once. @return bytes; -EAGAIN: the memory has none, and the pair is left to
 * the kernel; -EALREADY: a head is on its way; or another error */
static ssize_t look(const struct reading *r)
{
	struct path_page *page = pre_path_page(r->path);
	for (int i = 0; i < TRIES; i++) {
		uint64_t taken;
		if (!path_reader_look(page, &taken))
			return -EALREADY;
		uint32_t n = path_reader_available(page, r->path->layout.receive.size, taken);
		if (n == 0)
			break;
		int head = take_head(r);
		/* More than was asked for: the program has lengthened its list meanwhile. */
		if (head < 0 || (size_t)head >= r->want)
			return head;
		n = (uint32_t)MIN(n, r->want - (size_t)head);
		n = copy_out(r, (size_t)head, taken, n);
		if (n > 0 && (r->flags & MSG_PEEK ? path_reader_unchanged(page, taken)
						  : path_reader_take(page, taken, n)))
			return head + (ssize_t)n;
		if (head > 0)
			return head;
	}
	return -EAGAIN;
}

static bool is_there(void *arg)
{
	const struct reading *r = arg;
	struct path_page *page = pre_path_page(r->path);
	uint64_t taken;
	return !path_reader_look(page, &taken) ||
	       path_reader_available(page, r->path->layout.receive.size, taken) > 0;
}

/* look() found nothing: if the call may block, poll for a while.
 * @return as look() */
static ssize_t look_polling(const struct reading *r)
{
	struct pre_path_spin *state = &r->path->receive;
	if (r->flags & MSG_DONTWAIT || !data_may_spin(state, r->fd))
		return -EAGAIN;
	/* Bytes that came before this call are in the pair. */
	int head = take_head(r);
	if (head != 0)
		return head;
	return data_spin(state, is_there, (void *)(uintptr_t)r) ? look(r) : -EAGAIN;
}

/* Look as a reader at work. If bytes came while the daemon waited for this reader, it has forwarded
 * none, so they are looked for again. @return as look() */
static ssize_t look_at_work(const struct reading *r)
{
	struct path_page *page = pre_path_page(r->path);
	ssize_t n = -EAGAIN;
	bool more = true;
	for (int i = 0; i < TRIES && more; i++) {
		path_reader_begin(page);
		n = look(r);
		if (n == -EAGAIN)
			n = look_polling(r);
		more = path_reader_end(page) && n == -EAGAIN;
	}
	return n;
}

/* Read, and wait a moment for a head that is on its way. While a head is forwarded its bytes are
 * neither in the pair nor in the memory, but FIONREAD may have told the program of them. @return as
 * look(), except for -EALREADY
 */
static ssize_t look_past_head(const struct reading *r)
{
	ssize_t n = look_at_work(r);
	for (int i = 0; i < HEAD_YIELDS && n == -EALREADY; i++) {
		sched_yield();
		n = look_at_work(r);
	}
	return n == -EALREADY ? -EAGAIN : n;
}

/* As data_receive(), but without MSG_WAITALL, and `*ret` is bytes or a negative errno. */
static bool receive(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret)
{
	struct reading r = { .fd = fd, .iov = iov, .count = count, .flags = flags };
	r.want = data_length(iov, count);
	if (r.want == 0)
		return false;
	r.path = pre_path_get(fd);
	if (!r.path)
		return false;
	ssize_t n = pre_path_kept_error(r.path);
	if (n == 0 && atomic_load_explicit(&r.path->reads_outside, memory_order_relaxed))
		n = -EAGAIN;
	else if (n == 0)
		n = look_past_head(&r);
	pre_path_put(r.path);
	if (n == -ENOTSOCK || n == -EBADF)
		pre_path_forget(fd); /* the number has another file now */
	if (n < 0 && (n == -EAGAIN || n == -ENOTSOCK || n == -EBADF))
		return false;
	*ret = n;
	return true;
}

/* ---- MSG_WAITALL */

static bool has_limit(int fd)
{
	struct timeval limit = { 0 };
	socklen_t len = sizeof(limit);
	sys_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &len);
	return limit.tv_sec || limit.tv_usec;
}

static ssize_t result_of(ssize_t n)
{
	return n < 0 ? -errno : n;
}

static void keep_error(int fd, int error)
{
	struct pre_path *path = pre_path_get(fd);
	if (!path)
		return;
	pre_path_keep_error(path, error);
	pre_path_put(path);
}

/* Receive part by part; the kernel waits for each. @return bytes or a negative errno */
static ssize_t receive_all(int fd, struct iovec rest, int flags)
{
	size_t got = 0;
	ssize_t n;
	do {
		if (!receive(fd, &rest, 1, flags, &n))
			n = result_of(pre_next.recv(fd, rest.iov_base, rest.iov_len, flags));
		if (n < 0 && got > 0)
			keep_error(fd, (int)n);
		if (n <= 0)
			break;
		rest.iov_base = (uint8_t *)rest.iov_base + n;
		rest.iov_len -= (size_t)n;
		got += (size_t)n;
	} while (rest.iov_len > 0 && !data_is_nonblocking(fd));
	return got > 0 ? (ssize_t)got : n;
}

static bool has_memory(int fd)
{
	struct pre_path *path = pre_path_get(fd);
	if (path)
		pre_path_put(path);
	return path;
}

bool data_receive(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret)
{
	int saved = errno;
	ssize_t n = 0;
	bool done = true;
	if (flags & ~KNOWN_FLAGS)
		return false;
	bool all = flags & MSG_WAITALL && !(flags & MSG_DONTWAIT);
	/* Cases that are left to the kernel. */
	if (all && (count != 1 || data_length(iov, count) == 0 || flags & MSG_PEEK ||
		    has_limit(fd) || !has_memory(fd)))
		return false;
	pthread_testcancel();
	if (all)
		n = receive_all(fd, *iov, flags & ~MSG_WAITALL);
	else
		done = receive(fd, iov, count, flags & ~MSG_WAITALL, &n);
	errno = done && n < 0 ? (int)-n : saved;
	if (done)
		*ret = n < 0 ? -1 : n;
	return done;
}

size_t data_readable(int fd)
{
	uint64_t taken;
	uint32_t n = 0;
	if (!pre_path_concerns(fd))
		return 0;
	struct pre_path *path = pre_path_get(fd);
	if (!path)
		return 0;
	if (path_reader_look(pre_path_page(path), &taken))
		n = path_reader_available(pre_path_page(path), path->layout.receive.size, taken);
	pre_path_put(path);
	return n;
}
