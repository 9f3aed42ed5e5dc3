/* SPDX-License-Identifier: MIT */
#include "daemon/conns/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Send queues of both ends; the kernel doubles these numbers. The kernel charges the writer for a
 * whole buffer until its last byte is read, and reports "writable" when at most a quarter of the
 * queue is charged. So four times the largest buffer of one write must fit (36 KiB are charged as
 * 37 KiB, the plug's buffers as 66 KiB), or a program whose only queued byte is the kept byte would
 * never be writable. Room beyond that lets forwarded bytes stay queued. Dropping forwarded bytes
 * costs a system call and wakes a program that sleeps in recv() for nothing.
 */
#define TO_PROGRAM_BYTES   (512 * 1024)
#define FROM_PROGRAM_BYTES (2 * 1024 * 1024)
#define PLUGGED_BYTES      (160 * 1024) /* the plug fills it; pair_unplug() enlarges it */
#define LARGEST_SKB        (72 * 1024)
#define NARROW_BYTES       (2 * LARGEST_SKB) /* doubled: four of the buffers that sendfile() makes */
/* Send queue of pair_make_way(): an urgent byte may stand behind all bytes that can be under way,
 * which are those in the pair of the peer's program, in the peer's send buffer, and in the RMBE.
 * Few pairs may have this size at once: a program that does not read and a peer that means harm
 * could fill many of them. */
#define WIDE_BYTES   (8 * 1024 * 1024)
#define WIDE_AT_ONCE 32

#define PEEK_MAX (32 * 1024) /* above this, the second copy of a peek costs more than FIONREAD */
#define BULK_MIN (8 * 1024)  /* with less pending, the program is no bulk writer any more */

/*
 * How many forwarded messages may stay queued. Each peek walks past all of them, at some 0.1 us a
 * message. But dropping messages costs a system call, and wakes a program that sleeps in recv() for
 * nothing. After a write to the program it is awake anyway, so the limit at a write is lower.
 */
#define QUEUED_AT_WRITE 2
#define QUEUED_MOST     16

static uint8_t dropped[64 * 1024]; /* target for bytes that are dropped; never read */

/* ---- opening */

static void size_queue(int fd, int bytes)
{
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* How many forwarded bytes may stay queued so that the program's end still becomes writable in
 * time. The worst case is assumed: each byte was a write of its own and is charged `one_byte`. */
static uint32_t slack_of(int program_fd, int one_byte)
{
	int sndbuf = 0;
	socklen_t len = sizeof(sndbuf);
	if (getsockopt(program_fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len) < 0 ||
	    sndbuf / 4 <= LARGEST_SKB || one_byte <= 0)
		return 0;
	return (uint32_t)((sndbuf / 4 - LARGEST_SKB) / one_byte);
}

/* What the kernel charges for a write of one byte. The queue of `program_fd` holds just one. */
static int charge_of_one_byte(int program_fd)
{
	static int charge;
	if (charge == 0 && ioctl(program_fd, SIOCOUTQ, &charge) < 0)
		charge = 0;
	return charge;
}

void pair_widen(struct pair *pair, int program_fd)
{
	if (pair->narrow)
		return;
	size_queue(program_fd, FROM_PROGRAM_BYTES);
	pair->slack = slack_of(program_fd, pair->one_byte);
}

void pair_narrow(struct pair *pair, int program_fd)
{
	int charged = 0;
	pair->narrow = true;
	pair->slack = 0;
	pair_settle(pair);
	/* If the kept byte is the last of a large message, the program could not write with a queue
	 * of this size.
	 */
	if (ioctl(program_fd, SIOCOUTQ, &charged) == 0 && charged <= 2 * NARROW_BYTES / 4)
		size_queue(program_fd, NARROW_BYTES);
}

uint32_t pair_least_charge(const struct pair *pair)
{
	return pair->one_byte > 0 ? (uint32_t)pair->one_byte : 0;
}

bool pair_unread(const struct pair *pair)
{
	int charged = 0;
	return ioctl(pair->fd, SIOCOUTQ, &charged) == 0 && charged > 0;
}

int pair_plug_file(void)
{
	int fd = memfd_create("smcrd-plug", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, 4 * PLUGGED_BYTES) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

/* Fill the program's send queue with references to the file's pages. */
static int plug(int program_fd, int plug_fd, uint32_t *inout_bytes)
{
	uint32_t total = 0;
	for (;;) {
		off_t offset = 0;
		ssize_t n = sendfile(program_fd, plug_fd, &offset, 4 * PLUGGED_BYTES);
		if (n > 0)
			total += (uint32_t)n;
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n == 0 || errno != EINTR)
			return n < 0 ? -errno : -EIO;
	}
	*inout_bytes += total;
	return 0;
}

int pair_cookie(int fd, uint64_t *ret_cookie)
{
	socklen_t len = sizeof(*ret_cookie);
	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, ret_cookie, &len) < 0 ? -errno : 0;
}

static int bind_to(int program_fd, const struct ipc_pair_name *name)
{
	struct sockaddr_un addr;
	int len = ipc_pair_name_encode(name, &addr, sizeof(addr));
	if (len < 0)
		return len;
	return bind(program_fd, (struct sockaddr *)&addr, (socklen_t)len) < 0 ? -errno : 0;
}

static int open_ends(struct pair *pair, int program_fd, const struct ipc_pair_name *name,
		     int plug_fd)
{
	int r = name ? bind_to(program_fd, name) : 0;
	if (r == 0)
		r = pair_cookie(program_fd, &pair->program_cookie);
	if (r < 0)
		return r;
	size_queue(pair->fd, TO_PROGRAM_BYTES);
	size_queue(program_fd, plug_fd < 0 ? FROM_PROGRAM_BYTES : PLUGGED_BYTES);
	int on = 1;
	if (setsockopt(pair->fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)) < 0)
		on = 0; /* without it the kernel refuses MSG_OOB to programs */
	if (send(program_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return -errno;
	pair->ahead = 1;
	pair->one_byte = charge_of_one_byte(program_fd);
	pair->slack = slack_of(program_fd, pair->one_byte);
	return plug_fd >= 0 ? plug(program_fd, plug_fd, &pair->ahead) : 0;
}

int pair_open(const struct ipc_pair_name *name, int plug_fd, struct pair *ret_pair,
	      int *ret_program_fd)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	struct pair pair = { .fd = ends[0], .program_fd = -1 };
	int r = open_ends(&pair, ends[1], name, plug_fd);
	if (r < 0) {
		close(ends[0]);
		close(ends[1]);
		return r;
	}
	if (plug_fd >= 0) /* if this fails, the queue stays small */
		pair.program_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);
	*ret_pair = pair;
	*ret_program_fd = ends[1];
	return 0;
}

/* ---- dropping forwarded bytes */

/* Drop bytes from the head of the queue until only `keep` forwarded ones are left. */
static void drop(struct pair *pair, uint32_t keep)
{
	struct iovec iov[16];
	pair->queued = 0;
	while (pair->ahead > keep) {
		size_t left = pair->ahead - keep;
		int n = 0;
		for (; left > 0 && n < 16; n++) {
			iov[n].iov_base = dropped;
			iov[n].iov_len = MIN(left, sizeof(dropped));
			left -= iov[n].iov_len;
		}
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)n };
		ssize_t got = recvmsg(pair->fd, &msg, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break; /* cannot happen: forwarded bytes are in the queue */
		pair->ahead -= (uint32_t)got;
	}
}

void pair_let_go(struct pair *pair)
{
	if (pair->program_fd >= 0)
		close(pair->program_fd);
	pair->program_fd = -1;
}

void pair_unplug(struct pair *pair)
{
	if (pair->program_fd >= 0)
		pair_widen(pair, pair->program_fd);
	pair_let_go(pair);
	drop(pair, 1);
}

void pair_settle(struct pair *pair)
{
	if (pair->ahead > pair->slack + 1 || pair->queued >= QUEUED_MOST)
		drop(pair, 1);
}

/* ---- from the program */

static size_t iov_bytes(const struct iovec *iov, int iovcnt)
{
	size_t bytes = 0;
	for (int i = 0; i < iovcnt; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* Segments of bytes [skip, skip + len) of `iov`. @return number of them */
static int iov_slice(const struct iovec *iov, int iovcnt, size_t skip, size_t len,
		     struct iovec *ret_iov)
{
	int n = 0;
	for (int i = 0; i < iovcnt && len > 0; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		size_t part = MIN(iov[i].iov_len - skip, len);
		ret_iov[n].iov_base = (uint8_t *)iov[i].iov_base + skip;
		ret_iov[n++].iov_len = part;
		len -= part;
		skip = 0;
	}
	return n;
}

/*
 * Copy bytes and leave them queued. For few bytes this is the cheapest way. A peek begins at the
 * head of the queue, so it copies forwarded bytes too: then it stops before an urgent byte that was
 * not forwarded. @return the number of bytes that were not forwarded; -EAGAIN or 0: none
 */
static ssize_t peek(struct pair *pair, const struct iovec *iov, int iovcnt, size_t skip, size_t len)
{
	if (pair->ahead > sizeof(dropped))
		drop(pair, 1);
	struct iovec part[3] = { { dropped, pair->ahead } };
	struct msghdr msg = { .msg_iov = part };
	msg.msg_iovlen = 1 + (size_t)iov_slice(iov, iovcnt, skip, len, part + 1);
	ssize_t n;
	do
		n = recvmsg(pair->fd, &msg, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : 0;
	if ((size_t)n <= pair->ahead)
		return 0;
	n -= pair->ahead;
	pair->ahead += (uint32_t)n;
	pair->queued++;
	if (msg.msg_flags & MSG_CTRUNC)
		pair->slack = 0; /* drop sent descriptors at once: one may be of the pair itself */
	/* A short count means that the queue was read to its end. The exceptions are calls that
	 * ended early at descriptors that a program sent (the kernel closes them here) or at an
	 * urgent byte, of which an event tells. */
	pair->drained = (size_t)n < len && !(msg.msg_flags & MSG_CTRUNC);
	return n;
}

/* ---- urgent bytes from the program
 *
 * A read stops before an urgent byte only if it has read something before. A read that begins at
 * the urgent byte goes on behind it (kernel 6.18). And with forwarded bytes at the head of the
 * queue, SIOCATMARK does not tell whether the next byte is urgent. So where an urgent byte may be
 * queued, the forwarded bytes are dropped first. */

static bool urgent_queued(const struct pair *pair)
{
	struct pollfd pfd = { .fd = pair->fd, .events = POLLPRI };
	return poll(&pfd, 1, 0) > 0 && pfd.revents & POLLPRI;
}

bool pair_urgent_pending(struct pair *pair)
{
	if (!urgent_queued(pair) || pair_pending(pair) == 0)
		return false;
	drop(pair, 0); /* the urgent byte may have been the last forwarded one */
	return urgent_queued(pair);
}

/* Has the program closed its end with delivered bytes unread? */
static void note_error(struct pair *pair)
{
	int error = 0;
	socklen_t len = sizeof(error);
	if (getsockopt(pair->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNRESET)
		pair->unread = true;
}

/* Only forwarded bytes were queued. @return 0: the program writes no more; -EAGAIN */
static ssize_t read_nothing(struct pair *pair)
{
	struct pollfd pfd = { .fd = pair->fd, .events = POLLRDHUP };
	if (pair->ended)
		return 0;
	if (poll(&pfd, 1, 0) <= 0)
		return -EAGAIN;
	if (pfd.revents & POLLERR)
		note_error(pair);
	pair->ended = true;
	return pair_pending(pair) == 0 ? 0 : -EAGAIN; /* an event tells of what has just come */
}

/* An urgent byte may be next, or descriptors that stop each peek. @return as pair_read() */
static ssize_t read_with_care(struct pair *pair, const struct iovec *iov, int iovcnt, size_t room)
{
	int at_mark = 0;
	pair->bulk = false;
	if (pair_pending(pair) == 0)
		return read_nothing(pair);
	drop(pair, 0); /* the first byte that was not forwarded becomes the kept byte */
	pair->urgent = ioctl(pair->fd, SIOCATMARK, &at_mark) == 0 && at_mark;
	ssize_t n = peek(pair, iov, iovcnt, 0, pair->urgent ? 1 : MIN(room, PEEK_MAX));
	pair->drained = false;
	return n;
}

/* As peek(), but of bytes before an urgent byte only. */
static ssize_t peek_ordinary(struct pair *pair, const struct iovec *iov, int iovcnt, size_t skip,
			     size_t len)
{
	const bool at_head = pair->ahead == 0;
	ssize_t n = peek(pair, iov, iovcnt, skip, len);
	if (n <= 0 || !at_head || !urgent_queued(pair))
		return n;
	pair->ahead = 0; /* the first byte may be the urgent one */
	pair->marked = true;
	return 0;
}

/*
 * Ask how many bytes there are, read all but the last one, and peek at that. For many bytes this is
 * the cheapest way. A read may stop early (at descriptors or an urgent byte). Then the first byte
 * that is left becomes the kept byte, though it was not forwarded.
 */
static ssize_t take(struct pair *pair, const struct iovec *iov, int iovcnt, size_t skip,
		    size_t room)
{
	size_t fresh = pair_pending(pair);
	size_t want = MIN(fresh, room);
	if (want < BULK_MIN || pair->ahead > sizeof(dropped) || pair->ahead == 0) {
		pair->bulk = false;
		return peek_ordinary(pair, iov, iovcnt, skip, MIN(room, PEEK_MAX));
	}
	struct iovec part[3] = { { dropped, pair->ahead } };
	struct msghdr msg = { .msg_iov = part };
	msg.msg_iovlen = 1 + (size_t)iov_slice(iov, iovcnt, skip, want - 1, part + 1);
	ssize_t n;
	do
		n = recvmsg(pair->fd, &msg, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -EAGAIN; /* cannot happen: the queue has bytes */
	size_t got = (size_t)n;
	if (got <= pair->ahead) {
		pair->ahead -= (uint32_t)got;
		return peek_ordinary(pair, iov, iovcnt, skip, MIN(room, PEEK_MAX));
	}
	got -= pair->ahead;
	pair->ahead = 0;
	pair->drained = false;
	n = peek_ordinary(pair, iov, iovcnt, skip + got, 1);
	pair->drained = n == 1 && got + 1 == fresh && fresh < room;
	return (ssize_t)got + MAX(n, 0);
}

void pair_note(struct pair *pair, uint32_t events)
{
	if (events & EPOLLPRI)
		pair->marked = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		pair->ended = true;
	if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == EPOLLRDHUP)
		pair->shut = true;
}

void pair_look_if_shut(struct pair *pair)
{
	struct pollfd pfd = { .fd = pair->fd, .events = POLLRDHUP };
	if (poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLRDHUP | POLLERR)) == POLLRDHUP)
		pair->shut = true;
}

ssize_t pair_read(struct pair *pair, const struct iovec *iov, int iovcnt)
{
	size_t room = iov_bytes(iov, iovcnt);
	ssize_t n = 0;
	pair->drained = pair->urgent = false;
	if (pair->marked)
		pair->marked = urgent_queued(pair);
	if (!pair->marked) {
		n = pair->bulk ? take(pair, iov, iovcnt, 0, room)
			       : peek_ordinary(pair, iov, iovcnt, 0, MIN(room, PEEK_MAX));
		if (n == PEEK_MAX)
			pair->bulk = true;
	}
	return n == 0 ? read_with_care(pair, iov, iovcnt, room) : n;
}

size_t pair_pending(const struct pair *pair)
{
	int queued = 0;
	if (ioctl(pair->fd, FIONREAD, &queued) < 0 || queued < 0)
		return 0;
	return (size_t)queued > pair->ahead ? (size_t)queued - pair->ahead : 0;
}

/* ---- to the program */

static ssize_t deliver(struct pair *pair, const struct iovec *iov, int iovcnt, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)iovcnt };
	ssize_t n;
	do
		n = sendmsg(pair->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN)
		return -EAGAIN;
	if (errno == ENOBUFS || errno == ENOMEM)
		return -ENOBUFS;
	if (errno == ECONNRESET)
		pair->unread = true;
	return -EPIPE;
}

ssize_t pair_write(struct pair *pair, const struct iovec *iov, int iovcnt)
{
	ssize_t n = deliver(pair, iov, iovcnt, 0);
	if (n > 0 && pair->queued >= QUEUED_AT_WRITE)
		drop(pair, 1);
	return n;
}

ssize_t pair_write_urgent(struct pair *pair, const void *byte)
{
	struct iovec iov = { (void *)(uintptr_t)byte, 1 };
	return deliver(pair, &iov, 1, MSG_OOB);
}

static unsigned int wide_pairs;

bool pair_make_way(struct pair *pair)
{
	if (pair->wide || wide_pairs == WIDE_AT_ONCE)
		return false;
	size_queue(pair->fd, WIDE_BYTES);
	pair->wide = true;
	wide_pairs++;
	return true;
}

void pair_end_way(struct pair *pair)
{
	if (!pair->wide)
		return;
	size_queue(pair->fd, TO_PROGRAM_BYTES);
	pair->wide = false;
	wide_pairs--;
}

void pair_shutdown(struct pair *pair)
{
	shutdown(pair->fd, SHUT_WR);
}

bool pair_closed(struct pair *pair)
{
	struct pollfd pfd = { .fd = pair->fd };
	if (poll(&pfd, 1, 0) <= 0 || !(pfd.revents & (POLLHUP | POLLERR)))
		return false;
	note_error(pair);
	return true;
}

/* ---- the end */

static void close_end(struct pair *pair)
{
	pair_end_way(pair);
	pair_let_go(pair);
	close(pair->fd);
	pair->fd = -1;
}

void pair_finish(struct pair *pair)
{
	if (pair->fd < 0)
		return;
	drop(pair, 0);
	close_end(pair);
}

void pair_refuse(struct pair *pair)
{
	if (pair->fd < 0)
		return;
	shutdown(pair->fd, SHUT_RD); /* nothing can be added while the queue is emptied */
	while (recv(pair->fd, dropped, sizeof(dropped), MSG_DONTWAIT) > 0)
		;
	close_end(pair);
}

void pair_reset(struct pair *pair)
{
	if (pair->fd < 0)
		return;
	close_end(pair); /* with the kept byte unread */
}
