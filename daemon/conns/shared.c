/* SPDX-License-Identifier: MIT */
#include "daemon/conns/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/conns/pump_internal.h"
#include "daemon/host/pages.h"

/* Length of a head, in bytes. The least is enough for a small message: readers of the library take
 * the rest from the memory. Heads grow if nobody takes from the memory: then an outsider reads, or
 * a program that reads so little at a time that the pair is all it gets to. */
#define HEAD_LEAST 4096u
#define HEAD_MOST  (256u * 1024)
#define READ_MUCH  8192u

/* How long a reader may be `at_work`, and a writer hold the lock, before it counts as dead or
 * stopped. If it is alive no byte is lost: after a reader the path is slower for a while, after a
 * writer for ever. */
#define READER_PATIENCE_US 5000
#define LOCK_PATIENCE_US   50000
/* How often a turn begins anew because a reader took the bytes that were about to be forwarded. The
 * bound keeps a program that changes `taken` all the time from holding up other connections. */
#define ANEW_MOST 64
/* After this time without a read, a program may be waiting with MSG_PEEK or FIONREAD for more bytes
 * than the head has. */
#define HEAD_PATIENCE_US 4000
/* The engine is told of short heads at the latest when they are such a part of the ring. */
#define UNTOLD_PART 8

/* ---- life */

static int make_file(struct shared *shared)
{
	int fd = memfd_create("smcrd-path", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	void *page = MAP_FAILED;
	if (ftruncate(fd, shared->layout.length) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		page = mmap(NULL, PATH_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		int error = errno;
		close(fd);
		return -error;
	}
	shared->fd = fd;
	shared->page = page;
	return 0;
}

static void drop_file(struct shared *shared)
{
	munmap(shared->page, PATH_PAGE_SIZE);
	close(shared->fd);
	shared->page = NULL;
	shared->fd = -1;
}

static int put_pages(const struct shared *shared, const struct smcr_conn_memory *memory)
{
	off_t buffer_at = (off_t)PATH_PAGE_SIZE + memory->element_size;
	int r = pages_share(memory->element, memory->element_size, shared->fd, PATH_PAGE_SIZE);
	if (r < 0)
		return r;
	r = pages_share(memory->buffer, memory->buffer_size, shared->fd, buffer_at);
	if (r < 0) /* if this fails too, the element has pages that nobody shares */
		pages_own(memory->element, memory->element_size);
	return r;
}

int shared_open(struct shared *shared, struct smcr_conn *conn, uint64_t now)
{
	struct smcr_conn_memory memory;
	struct smcr_conn_positions at;
	int r = smcr_conn_share(conn, &memory);
	if (r < 0)
		return r;
	struct shared new = {
		.layout = { .length = PATH_PAGE_SIZE + memory.element_size + memory.buffer_size,
			    .receive = { PATH_PAGE_SIZE + memory.element_skip,
					 memory.element_size - memory.element_skip },
			    .send = { PATH_PAGE_SIZE + memory.element_size, memory.buffer_size } },
		.buffer = memory.buffer,
		.head = HEAD_LEAST,
		.now = now,
		.active = now,
		.polled = true,
	};
	if (!path_layout_valid(&new.layout))
		return -EINVAL;
	r = make_file(&new);
	if (r < 0)
		return r;
	r = put_pages(&new, &memory);
	if (r < 0) {
		drop_file(&new);
		return r;
	}
	smcr_conn_get_positions(conn, &at);
	path_rx_open(&new.rx, new.page, at.consumed, at.produced);
	path_tx_open(&new.tx, new.page, memory.buffer_size, at.committed, at.completed);
	*shared = new;
	return 0;
}

void shared_end(struct shared *shared)
{
	if (shared->fd < 0)
		return;
	path_end(shared->page);
	shared->rx_over = shared->tx.taken_over = true; /* the marks are the daemon's own */
}

void shared_close(struct shared *shared)
{
	if (shared->fd < 0)
		return;
	shared_end(shared);
	drop_file(shared);
}

/* ---- looking */

bool shared_has_news(struct shared *shared, uint64_t now)
{
	struct path_page *page = shared->page;
	if (!shared->rx_over && atomic_load(&page->taken) != shared->rx.taken)
		return true;
	if (!shared->tx.taken_over && atomic_load(&page->committed) != shared->tx.committed)
		return true;
	if (shared->reader_due &&
	    (now >= shared->reader_due || !path_rx_reader_at_work(&shared->rx)))
		return true;
	if (shared->lock_due &&
	    (now >= shared->lock_due || atomic_load(&page->lock) == PATH_LOCK_FREE))
		return true;
	return shared->head_due && now >= shared->head_due;
}

void shared_poll(struct shared *shared)
{
	if (!shared->polled)
		path_tx_poll(&shared->tx);
	shared->polled = true;
}

bool shared_stop_polling(struct shared *shared)
{
	if (shared->polled && path_tx_stop_polling(&shared->tx))
		shared->polled = false;
	return !shared->polled;
}

/* The program has broken the protocol, or pages of the daemon's own could not be had. @return
 * false */
static bool violated(struct pump *pump)
{
	pump->violated = true;
	return false;
}

/* Tell the engine of all bytes that were forwarded or taken from the memory, if there are more than
 * it knows of. */
static void tell_consumed(struct pump *pump)
{
	struct shared *shared = pump->shared;
	struct smcr_conn_positions at;
	smcr_conn_get_positions(pump->conn, &at);
	smcr_conn_rx_consume(pump->conn, (size_t)(shared->rx.taken - at.consumed));
}

/* Account for bytes that readers have taken from the memory. */
static bool look_rx(struct pump *pump)
{
	struct shared *shared = pump->shared;
	const uint64_t before = shared->rx.taken;
	if (shared->rx_over)
		return true;
	if (path_rx_load(&shared->rx) < 0)
		return violated(pump);
	uint64_t n = shared->rx.taken - before;
	if (n == 0)
		return true;
	pump->rx_bytes += n;
	shared->rx_bytes += n;
	shared->active = shared->now;
	shared->head = HEAD_LEAST;
	tell_consumed(pump);
	return true;
}

/* Commit to the engine the bytes that writers have put into the send buffer. */
static bool commit_written(struct pump *pump)
{
	struct shared *shared = pump->shared;
	struct smcr_conn_positions at;
	smcr_conn_get_positions(pump->conn, &at);
	uint64_t n = shared->tx.committed - at.committed;
	if (n == 0)
		return true;
	pump->tx_bytes += n;
	shared->tx_bytes += n;
	shared->active = shared->now;
	smcr_conn_tx_commit(pump->conn, (size_t)n);
	return true;
}

static void publish_room(struct pump *pump)
{
	struct shared *shared = pump->shared;
	struct smcr_conn_positions at;
	smcr_conn_get_positions(pump->conn, &at);
	if (at.completed != shared->tx.completed)
		path_tx_complete(&shared->tx, at.completed);
}

static bool look_tx(struct pump *pump)
{
	struct shared *shared = pump->shared;
	if (shared->tx.taken_over)
		return true;
	if (path_tx_load(&shared->tx) < 0)
		return violated(pump);
	commit_written(pump);
	if (pump->conn)
		publish_room(pump);
	return true;
}

bool shared_look(struct pump *pump)
{
	/* The engine may let go of the connection inside each call. */
	return look_rx(pump) && (!pump->conn || look_tx(pump));
}

/* ---- receiving */

enum forwarded {
	FORWARDED,      /* bytes were forwarded */
	FORWARD_ANEW,   /* a reader took the bytes first: begin anew */
	FORWARD_FULL,   /* the pair takes nothing */
	FORWARD_LATER,  /* the kernel has no memory */
	FORWARD_NOBODY, /* there is nothing to forward, or nobody who reads */
};

/* The received bytes from `taken` on. @return how many segments they are */
static int bytes_from(struct pump *pump, uint64_t taken, struct iovec iov[2])
{
	struct smcr_conn_positions at;
	smcr_conn_get_positions(pump->conn, &at);
	size_t skip = (size_t)(taken - at.consumed);
	int n = smcr_conn_rx_data(pump->conn, iov);
	if (n > 0 && skip >= iov[0].iov_len) {
		skip -= iov[0].iov_len;
		iov[0] = iov[1];
		n--;
	}
	if (n <= 0 || skip >= iov[0].iov_len)
		return 0;
	iov[0].iov_base = (uint8_t *)iov[0].iov_base + skip;
	iov[0].iov_len -= skip;
	return n;
}

/* Forward the next bytes, at most `most`, into the pair. The caller tells the engine of them. */
static enum forwarded forward(struct pump *pump, size_t most)
{
	struct shared *shared = pump->shared;
	struct path_rx *rx = &shared->rx;
	struct iovec iov[2];
	size_t before = 1;
	int n = bytes_from(pump, rx->taken, iov);
	if (n == 0 || !pump_active(pump))
		return FORWARD_NOBODY;
	pump_cut(iov, n, most);
	size_t len = iov[0].iov_len + (n > 1 ? iov[1].iov_len : 0);
	if (!path_rx_forward_begin(rx, len)) {
		shared->anew++;
		return look_rx(pump) ? FORWARD_ANEW : FORWARD_NOBODY;
	}
	bool urgent =
		smcr_conn_rx_urgent(pump->conn, &before) == SMCR_URGENT_PRESENT && before == 0;
	ssize_t put = pump_deliver(pump, iov, n);
	size_t sent = put > 0 ? (size_t)put : 0;
	if (rx->produced < rx->taken + sent)
		path_rx_publish(rx, rx->taken + sent);
	path_rx_forward_end(rx, sent);
	if (put == -EAGAIN)
		return FORWARD_FULL;
	if (put == -ENOBUFS)
		return FORWARD_LATER;
	if (put < 0) {
		pump_lose_reader(pump);
		return FORWARD_NOBODY;
	}
	shared->through_pair |= urgent;
	pump->rx_bytes += sent;
	return FORWARDED;
}

/* As the pump does without shared memory. An urgent byte is on its way or in the pair, and the
 * program has to hear of it even if it reads nothing. */
static enum step forward_all(struct pump *pump)
{
	uint64_t moved = pump->rx_bytes;
	while (pump_active(pump) && pump_has_room(pump)) {
		if (pump->rx_bytes - moved >= TURN || pump->shared->anew >= ANEW_MOST)
			return STEP_MORE;
		tell_consumed(pump); /* an urgent byte is counted from there */
		if (!pump_active(pump))
			break;
		switch (forward(pump, TURN)) {
		case FORWARDED: tell_consumed(pump); break;
		case FORWARD_ANEW: break;
		case FORWARD_FULL: pump->rx_full = true; break;
		case FORWARD_LATER: return STEP_MORE;
		case FORWARD_NOBODY: return STEP_WAIT;
		}
	}
	return STEP_WAIT;
}

/* The last head was read. @return how many bytes the next one has */
static size_t head_length(struct shared *shared)
{
	uint32_t looks = atomic_load(&shared->page->looks) - shared->head_looks;
	bool memory_unused = shared->head_short && shared->head_end == shared->rx.taken;
	shared->head_longer = 0;
	if (memory_unused && looks > 0 && shared->head_len / looks >= READ_MUCH)
		shared->head = HEAD_LEAST;
	else if (memory_unused && shared->head < HEAD_MOST)
		shared->head *= 2;
	return shared->head;
}

/* After a short head a reader of the library will take the bytes behind it, and the engine is told
 * of both together. A peer that waits for room would send as few bytes as the head has, and say
 * that it waits again. If nobody reads on, the head grows, and the engine is told some milliseconds
 * later. */
static bool rest_is_read_soon(const struct pump *pump)
{
	const struct shared *shared = pump->shared;
	struct smcr_conn_positions at;
	smcr_conn_get_positions(pump->conn, &at);
	return shared->rx.taken < shared->rx.produced &&
	       shared->rx.taken - at.consumed <= shared->layout.receive.size / UNTOLD_PART;
}

static enum step forward_head(struct pump *pump, size_t length, uint64_t waiting)
{
	struct shared *shared = pump->shared;
	uint64_t from = shared->rx.taken;
	switch (forward(pump, length)) {
	case FORWARDED:
		shared->head_len = shared->head_longer ? shared->head_len : 0;
		shared->head_len += shared->rx.taken - from;
		shared->head_short = waiting > length;
		shared->head_end = shared->rx.taken;
		if (!shared->head_longer)
			shared->head_looks = atomic_load(&shared->page->looks);
		shared->active = shared->now;
		if (!rest_is_read_soon(pump))
			tell_consumed(pump);
		return STEP_MORE;
	case FORWARD_ANEW: return STEP_MORE;
	case FORWARD_FULL:
		pump->rx_full = true;
		tell_consumed(pump);
		break;
	case FORWARD_LATER: pump->rx_later = true; break;
	case FORWARD_NOBODY: break;
	}
	return STEP_WAIT;
}

/* Will a reader of the library take the bytes? One that is `at_work` takes them, or looks once more
 * before it waits. After READER_PATIENCE_US it counts as dead. */
static bool reader_comes(struct shared *shared)
{
	if (!path_rx_reader_at_work(&shared->rx)) {
		shared->reader_due = 0;
		return false;
	}
	if (!shared->reader_due)
		shared->reader_due = shared->now + READER_PATIENCE_US;
	if (shared->now < shared->reader_due)
		return true;
	path_rx_ignore_readers(&shared->rx);
	shared->reader_due = 0;
	return false;
}

/* The pair has a head that nobody has read yet. @return true: make it longer */
static bool head_lies(struct pump *pump)
{
	struct shared *shared = pump->shared;
	shared->wants_empty = true;
	if (pump->rx_full) {
		shared->head_due = 0;
		return false;
	}
	if (!shared->head_due)
		shared->head_due = shared->now + HEAD_PATIENCE_US;
	if (shared->now < shared->head_due)
		return false;
	shared->head_due = shared->now + HEAD_PATIENCE_US;
	if (shared->head_longer < 6)
		shared->head_longer++;
	return true;
}

/* One step of receiving: forward a head if the program needs one. */
static enum step step_rx(struct pump *pump)
{
	struct shared *shared = pump->shared;
	struct smcr_conn_positions at;
	smcr_conn_get_positions(pump->conn, &at);
	if (at.produced != shared->rx.produced)
		path_rx_publish(&shared->rx, at.produced);
	uint64_t waiting = at.produced - shared->rx.taken;
	if (waiting == 0) {
		shared->wants_empty = false;
		shared->head_due = shared->reader_due = 0;
		return STEP_WAIT;
	}
	if (pair_unread(pump->pair)) {
		shared->reader_due = 0;
		return head_lies(pump)
			       ? forward_head(pump, HEAD_LEAST << shared->head_longer, waiting)
			       : STEP_WAIT;
	}
	shared->head_due = 0;
	pump->rx_full = false;
	return reader_comes(shared) ? STEP_WAIT : forward_head(pump, head_length(shared), waiting);
}

static bool goes_through_pair(struct pump *pump)
{
	struct shared *shared = pump->shared;
	size_t before;
	if (shared->through_pair && !pair_unread(pump->pair))
		shared->through_pair = false;
	return shared->through_pair || smcr_conn_rx_urgent(pump->conn, &before) != SMCR_URGENT_NONE;
}

/* The program reads no more: from now on the pump drops what arrives. */
static void stop_readers(struct pump *pump)
{
	struct shared *shared = pump->shared;
	atomic_fetch_or(&shared->page->taken, PATH_MARK);
	tell_consumed(pump);
	shared->rx_over = true;
	shared->wants_empty = false;
	shared->head_due = shared->reader_due = 0;
	pump->rx_ready = true;
}

enum step shared_rx(struct pump *pump)
{
	struct shared *shared = pump->shared;
	enum step step = STEP_MORE;
	pump->rx_later = false;
	shared->anew = 0;
	while (pump_active(pump) && !pump->closed && step == STEP_MORE &&
	       shared->anew < ANEW_MOST) {
		if (pump->deaf) {
			stop_readers(pump);
			return STEP_WAIT;
		}
		if (!goes_through_pair(pump)) {
			step = step_rx(pump);
			continue;
		}
		/* A head that lies is not made longer now. If its time were kept, it would be over
		 * in each turn from then on. */
		shared->head_due = shared->reader_due = 0;
		shared->wants_empty = true;
		step = forward_all(pump);
		if (step == STEP_MORE)
			break;
		if (!pump_active(pump) || goes_through_pair(pump))
			break;
		step = STEP_MORE;
	}
	if (!pump->closed)
		pump_settle_rx(pump);
	return step == STEP_MORE || pump->rx_later ? STEP_MORE : STEP_WAIT;
}

bool shared_last(struct pump *pump)
{
	struct shared *shared = pump->shared;
	struct smcr_conn_positions at;
	struct iovec iov[2];
	if (shared->rx_over)
		return false;
	uint64_t taken = atomic_fetch_or(&shared->page->taken, PATH_MARK);
	smcr_conn_get_positions(pump->conn, &at);
	shared->rx_over = true;
	if (taken < shared->rx.taken || taken > at.produced)
		return false;
	pump->rx_bytes += taken - shared->rx.taken;
	shared->rx_bytes += taken - shared->rx.taken;
	return pump_put_last(pump, iov, bytes_from(pump, taken, iov));
}

/* ---- sending */

/* Take the memory from its writers. Bytes that they have committed still count. */
static bool revoke_memory(struct pump *pump)
{
	struct shared *shared = pump->shared;
	if (path_tx_take_over(&shared->tx) < 0)
		return violated(pump);
	return commit_written(pump);
}

/* Bytes wait in the pair, and the holder of the writers' lock is dead, was stopped, or left by
 * longjmp(). Take the lock's place: give the send buffer pages that no program has mapped. */
static bool take_over(struct pump *pump)
{
	struct shared *shared = pump->shared;
	const struct path_ring *ring = &shared->layout.send;
	shared->lock_due = 0;
	if (!revoke_memory(pump) || pages_own(shared->buffer, ring->size) < 0)
		return violated(pump);
	fallocate(shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ring->at, ring->size);
	return true;
}

bool shared_tx_begin(struct pump *pump)
{
	struct shared *shared = pump->shared;
	if (shared->tx.taken_over || shared->locked)
		return true;
	if (path_tx_lock(&shared->tx)) {
		shared->locked = true;
		shared->lock_due = 0;
		return look_tx(pump);
	}
	if (pair_pending(pump->pair) == 0) { /* no bytes wait for the lock */
		pump->tx_ready = pump->write_ended;
		shared->lock_due = 0;
		return false;
	}
	if (pump->closed) /* no process is left that could release the lock */
		return take_over(pump);
	if (!shared->lock_due)
		shared->lock_due = shared->now + LOCK_PATIENCE_US;
	return shared->now >= shared->lock_due && take_over(pump);
}

bool shared_tx_worth(struct pump *pump, size_t room)
{
	const struct shared *shared = pump->shared;
	return shared->tx.taken_over || pump->closed || room >= shared->layout.send.size / 2;
}

bool shared_tx_put(struct pump *pump, size_t n)
{
	struct shared *shared = pump->shared;
	shared->active = shared->now;
	if (shared->tx.taken_over || !pump->conn)
		return true;
	publish_room(pump); /* the bytes were put into room that was perhaps not published yet */
	return path_tx_put(&shared->tx, (uint32_t)n) == 0 || violated(pump);
}

void shared_tx_end(struct pump *pump)
{
	struct shared *shared = pump->shared;
	/* An urgent byte that waits lies behind `committed`, where a writer would overwrite it. */
	if (!shared->locked || pump->urgent_waits)
		return;
	path_tx_set_backlog(&shared->tx, pump->tx_ready);
	path_tx_unlock(&shared->tx);
	shared->locked = false;
}

bool shared_tx_finish(struct pump *pump)
{
	return pump->shared->tx.taken_over || revoke_memory(pump);
}
