/* SPDX-License-Identifier: MIT */
/*
 * A writer of the library: writes into the memory while nothing is queued in the pair
 * (proto/path/send.h). write_all() has one call, in parts, each written under the lock:
 *
 *     into the memory          as long as it has room and the pair is empty
 *     polling                  when it is full: does the daemon make room in a moment?
 *     into the pair (`pour`)   if not: until the pair is unwritable, so that the kernel can wait
 *     waiting for the pair     then the call begins anew with the memory, or ends with what it has
 *
 * Where the memory cannot be used any more (OUTSIDE), the kernel writes the rest (write_rest()).
 */
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/param.h>

#include "lib/preload/data.h"
#include "lib/preload/data_pieces.h"
#include "lib/preload/data_source.h"
#include "lib/preload/data_wait.h"
#include "lib/preload/send_all.h"
#include "lib/smcr/next.h"
#include "lib/smcr/path.h"
#include "lib/smcr/sys.h"
#include "proto/path/send.h"

#define KNOWN_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)
/* Every kernel charges messages up to this size like the smallest one. */
#define SMALL   128
#define LOCK_NS 1000000 /* how long to wait for another writer of the library */

/* One call. */
struct writing {
	int fd;
	int flags;
	struct pre_path *path;
	struct data_source source;
	bool pour;     /* write into the pair until it is unwritable */
	size_t poured; /* bytes since `pour` was set */
	int64_t began; /* when the first wait began, sys_now_ms(); 0: none has begun */
	int error;     /* last error of the kernel, negative errno; 0: none */
};

/* Result of writing a part. */
enum outcome {
	WRITTEN, /* a part was written */
	FULL,    /* nothing can be written now */
	OUTSIDE, /* the memory cannot be used: leave the rest to the kernel */
	ENDED,   /* the source has no more, or cannot be read */
};

/* The path whose lock this thread holds. A signal handler must not wait for the thread that it has
 * interrupted. */
static __thread const struct pre_path *volatile locking __attribute__((tls_model("initial-exec")));

/* ---- the pair */

static int push(const struct writing *w, struct iovec *iov, size_t count)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	return sys_sendmsg(w->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Write the last of `len` bytes as a message of its own, so that the charge is the least again when
 * the daemon has taken it. */
static int push_parted(struct writing *w, struct iovec *iov, size_t count, size_t len)
{
	struct iovec *last = &iov[count - 1];
	struct iovec byte = { (uint8_t *)last->iov_base + last->iov_len - 1, 1 };
	last->iov_len--;
	int n = len > 1 ? push(w, iov, count) : 0;
	if (n < 0 || (size_t)n < len - 1)
		return n;
	int rc = push(w, &byte, 1);
	return rc == 1 ? n + 1 : n > 0 ? n : rc;
}

/* Write `len` bytes, which are the next ones of the source, into the pair. */
static enum outcome queue(struct writing *w, struct iovec *iov, size_t count, size_t len)
{
	int rc = push_parted(w, iov, count, len);
	if (rc == -EAGAIN)
		return FULL;
	if (rc <= 0) {
		w->error = rc;
		return OUTSIDE;
	}
	w->poured += (size_t)rc;
	data_source_advance(&w->source, (size_t)rc);
	return WRITTEN;
}

/* Write the next bytes into the pair, at most as many as make it unwritable. */
static enum outcome pour(struct writing *w)
{
	struct iovec iov[DATA_PIECES];
	uint8_t buf[DATA_SOURCE_FILE];
	size_t count;
	ssize_t n = data_source_next(&w->source, w->path->part, buf, iov, &count);
	return n > 0 ? queue(w, iov, count, (size_t)n) : ENDED;
}

/* Is one message of the least charge all that is queued in the pair? @return 1 or 0; -1: `fd` is no
 * pair end any more, or its connection is over */
static int is_idle(const struct writing *w)
{
	int charge = 0;
	if (syscall(SYS_ioctl, w->fd, SIOCOUTQ, &charge) < 0) {
		pre_path_forget(w->fd);
		return -1;
	}
	if (charge == 0)
		return -1;
	return charge == w->path->least_charge;
}

/* ---- under the lock */

/* Wake the daemon, which does not poll: the next byte goes through the pair. */
static enum outcome ring_doorbell(struct writing *w, uint8_t byte)
{
	struct iovec iov = { &byte, 1 };
	return queue(w, &iov, 1, 1);
}

static enum outcome write_memory(struct writing *w, uint64_t at, uint32_t n, bool doorbell)
{
	w->pour = false;
	n = data_source_copy(&w->source, w->path->memory, &w->path->layout.send, at, n);
	if (n == 0)
		return ENDED;
	/* The last byte is read from the memory: the source may have no more by now, since files
	 * and lists of pieces can be cut meanwhile, and the bytes before it would wait for the next
	 * call. It is read before the commit: after that the daemon may take the memory away. */
	const uint8_t last = w->path->memory[path_ring_place(&w->path->layout.send, at + n - 1)];
	n -= doorbell;
	if (!path_writer_commit(pre_path_page(w->path), at, n))
		return OUTSIDE;
	data_source_advance(&w->source, n);
	return doorbell ? ring_doorbell(w, last) : WRITTEN;
}

/* The steps of docs/data-path.md with the lock held. */
static enum outcome write_locked(struct writing *w)
{
	struct path_page *page = pre_path_page(w->path);
	const bool doorbell = !path_writer_polled(page);
	const bool small = w->source.left <= SMALL && w->source.iov;
	uint64_t at;
	if (path_writer_revoked(page)) {
		atomic_store(&w->path->writes_outside, true);
		return OUTSIDE;
	}
	if (small && doorbell)
		return OUTSIDE; /* written whole, by the kernel */
	int idle = is_idle(w);
	if (idle < 0)
		return OUTSIDE;
	uint32_t room = 0;
	if (idle && !path_writer_backlog(page))
		room = path_writer_room(page, w->path->layout.send.size, &at);
	if (room > w->source.left)
		room = (uint32_t)w->source.left;
	if (room > 0)
		return write_memory(w, at, room, doorbell);
	if (small)
		return OUTSIDE;
	return w->pour ? pour(w) : FULL;
}

/* ---- the lock */

static bool lock(struct writing *w)
{
	struct path_page *page = pre_path_page(w->path);
	struct timespec begin, now;
	if (path_writer_lock(page))
		return true;
	if (locking == w->path)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		sched_yield();
		if (path_writer_lock(page))
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (!path_writer_revoked(page) &&
		 (now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < LOCK_NS);
	return false;
}

static enum outcome write_part(struct writing *w)
{
	if (!w->path || !lock(w))
		return OUTSIDE;
	locking = w->path;
	enum outcome outcome = write_locked(w);
	path_writer_unlock(pre_path_page(w->path));
	locking = NULL;
	return outcome;
}

/* ---- waiting */

/* Is a quarter of the memory free, and nothing queued in the pair? */
static bool has_room(void *arg)
{
	const struct writing *w = arg;
	struct path_page *page = pre_path_page(w->path);
	const uint32_t size = w->path->layout.send.size;
	uint64_t at;
	return path_writer_revoked(page) || (path_writer_room(page, size, &at) >= size / 4 &&
					     !path_writer_backlog(page) && is_idle(w) != 0);
}

/* When the waits of the call end. Before the first one no time passes but that of copying, and the
 * clock is not read: where seccomp is strict, that kills. */
static int64_t deadline_of(struct writing *w)
{
	if (w->began == 0)
		w->began = sys_now_ms();
	return data_deadline(w->fd, w->flags, w->began, SO_SNDTIMEO);
}

/* Wait until the daemon has taken what was written into the pair. A signal ends the wait, as it
 * ends a write that was done in part. No reference is held meanwhile, since this is a cancellation
 * point. */
static bool wait_for_pair(struct writing *w)
{
	const int64_t deadline = deadline_of(w);
	pre_path_put(w->path);
	bool room = send_all_has_room(w->fd, deadline, true);
	w->path = pre_path_get(w->fd);
	return room;
}

/* ---- a call */

/* Something was written, but the memory cannot be used for the rest: the kernel writes it. */
static void write_rest(struct writing *w)
{
	const int64_t deadline = deadline_of(w);
	while (w->source.left > 0 && send_all_has_room(w->fd, deadline, false)) {
		struct iovec iov[DATA_PIECES];
		struct msghdr msg = { .msg_iov = iov };
		off_t at = w->source.offset + (off_t)w->source.done;
		const size_t part = MIN(w->source.left, SEND_ALL_PART);
		ssize_t n;
		if (w->source.iov) {
			data_slice(w->source.iov, w->source.count, w->source.done, part, iov,
				   &msg.msg_iovlen);
			n = pre_next.sendmsg(w->fd, &msg, w->flags | MSG_NOSIGNAL);
		} else {
			n = pre_next.sendfile(w->fd, w->source.file, &at, part);
		}
		if (n < 0)
			w->error = -errno;
		if (n <= 0)
			break;
		data_source_advance(&w->source, (size_t)n);
	}
}

/* Does the daemon make room in the memory while this call polls for it? */
static bool room_comes_soon(struct writing *w, bool waits)
{
	return waits && data_may_spin(&w->path->send, w->fd) &&
	       data_spin(&w->path->send, has_room, w);
}

/* The memory is full, or the pair is not empty. First poll for a while whether that changes. Then
 * fill the pair until it is not writable, before anybody waits for it.
 * @return false: the call ends here */
static bool make_room(struct writing *w, bool pair_full)
{
	const bool waits = data_may_wait(w->fd, w->flags);
	if (!w->pour) {
		w->poured = 0;
		w->pour = !room_comes_soon(w, waits);
		return true;
	}
	if (!pair_full && w->poured < w->path->part)
		return true;
	w->pour = false;
	return waits && w->source.done > 0 && wait_for_pair(w);
}

static void write_all(struct writing *w)
{
	while (w->source.left > 0) {
		enum outcome outcome = write_part(w);
		if (outcome == OUTSIDE && w->source.done > 0)
			write_rest(w);
		if (outcome == OUTSIDE || outcome == ENDED)
			return;
		if ((outcome == FULL || w->pour) && !make_room(w, outcome == FULL))
			return;
	}
}

/* @return bytes; 0: nothing was written, so the kernel has to report why, or to wait; or an error
 *         that the kernel reported and does not report again */
static ssize_t write_source(struct writing *w)
{
	pthread_testcancel();
	w->path = pre_path_get(w->fd);
	if (!w->path)
		return 0;
	w->error = pre_path_kept_error(w->path);
	if (!w->error && !atomic_load_explicit(&w->path->writes_outside, memory_order_relaxed))
		write_all(w);
	if (w->source.done > 0)
		pre_path_keep_error(w->path, w->error);
	if (w->path)
		pre_path_put(w->path);
	if (w->source.done > 0)
		return (ssize_t)w->source.done;
	return w->error == -ECONNRESET ? w->error : 0;
}

static bool finish(ssize_t n, int saved, ssize_t *ret)
{
	errno = n < 0 ? (int)-n : saved;
	*ret = n < 0 ? -1 : n;
	return n != 0;
}

bool data_send(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret)
{
	int saved = errno;
	struct writing w = {
		.fd = fd,
		.flags = flags,
		.source = { .iov = iov, .count = count, .left = data_length(iov, count) },
	};
	if (flags & ~KNOWN_FLAGS || w.source.left == 0)
		return false;
	return finish(write_source(&w), saved, ret);
}

/* Only regular files are supported here; sendfile() of others is left to the kernel. */
static bool is_file(int fd)
{
	struct stat st;
	return syscall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode);
}

bool data_send_file(int fd, int file, off_t *offset, size_t len, ssize_t *ret)
{
	int saved = errno;
	struct writing w = { .fd = fd, .source = { .file = file, .left = len } };
	if (len == 0 || len > SSIZE_MAX || !is_file(file))
		return false;
	w.source.offset = offset ? *offset : lseek(file, 0, SEEK_CUR);
	ssize_t n = w.source.offset >= 0 ? write_source(&w) : 0;
	if (n > 0 && offset)
		*offset += (off_t)n;
	else if (n > 0)
		lseek(file, w.source.offset + (off_t)n, SEEK_SET);
	return finish(n, saved, ret);
}
