/* SPDX-License-Identifier: MIT */
#include "tests/lib/path_daemon.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define QUEUE       (80 * 1024) /* SO_SNDBUF of the program's end; the kernel doubles it */
#define HEAD_LEAST  2048
#define HEAD_MOST   (256 * 1024)
#define PATIENCE_NS 5000000 /* for readers at work, and for a head that nobody reads */
#define LOCK_NS     100000000
#define PART        (64 * 1024)

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void nonsense(struct path_daemon *d)
{
	atomic_fetch_add(&d->protocol_errors, 1);
	atomic_store(&d->stop, true);
}

/* ---- from the peer to the program */

static bool fill_memory(struct path_daemon *d)
{
	static __thread uint8_t buf[PART];
	const struct path_ring *ring = &d->granted.layout.receive;
	uint64_t room = ring->size - (d->rx.produced - d->rx.taken);
	if (room == 0 || d->wire_ended)
		return false;
	ssize_t n = recv(d->wire, buf, lesser(room, sizeof(buf)), MSG_DONTWAIT);
	d->wire_ended = n == 0;
	if (n <= 0)
		return false;
	path_ring_put(d->memory, ring, d->rx.produced, buf, (uint32_t)n);
	path_rx_publish(&d->rx, d->rx.produced + (uint64_t)n);
	return true;
}

/* Must another head be forwarded? Yes, if the memory has bytes and either the pair is empty or the
 * program has not read the head for a while. */
static bool owes_head(struct path_daemon *d, bool *ret_waiting)
{
	int queued = 0;
	if (d->rx.taken == d->rx.produced)
		return false;
	ioctl(d->pair, SIOCOUTQ, &queued);
	if (queued == 0 && !path_rx_reader_at_work(&d->rx)) {
		d->waited_ns = 0;
		return true;
	}
	*ret_waiting = true;
	if (d->waited_ns == 0)
		d->waited_ns = now_ns();
	if (now_ns() - d->waited_ns < PATIENCE_NS)
		return false;
	d->waited_ns = 0;
	path_rx_ignore_readers(&d->rx);
	return true;
}

static bool forward(struct path_daemon *d)
{
	const struct path_ring *ring = &d->granted.layout.receive;
	uint8_t *buf = malloc(HEAD_MOST);
	uint32_t n = (uint32_t)lesser(d->head, d->rx.produced - d->rx.taken);
	bool begun = buf && path_rx_forward_begin(&d->rx, n);
	ssize_t sent = 0;
	if (begun) {
		path_ring_get(d->memory, ring, d->rx.taken, buf, n);
		sent = send(d->pair, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		path_rx_forward_end(&d->rx, sent > 0 ? (uint64_t)sent : 0);
		atomic_fetch_add(&d->forwarded, sent > 0 ? (uint64_t)sent : 0);
		if (sent > 0)
			d->head = (uint32_t)lesser(2 * d->head, HEAD_MOST);
	}
	free(buf);
	return !begun || sent > 0; /* not begun: a reader was faster, look again */
}

/* @return something was done; *ret_waiting: look again soon */
static bool to_program(struct path_daemon *d, bool *ret_waiting)
{
	uint64_t taken = d->rx.taken;
	if (path_rx_load(&d->rx) < 0)
		nonsense(d);
	if (d->rx.taken != taken)
		d->head = HEAD_LEAST; /* the library has read from the memory */
	bool did = fill_memory(d);
	if (owes_head(d, ret_waiting))
		did = forward(d) || did;
	if (d->wire_ended && d->rx.taken == d->rx.produced && !d->shut) {
		d->shut = true;
		shutdown(d->pair, SHUT_WR);
	}
	return did;
}

/* ---- from the program to the peer */

static bool drain_memory(struct path_daemon *d)
{
	static __thread uint8_t buf[PART];
	const struct path_ring *ring = &d->granted.layout.send;
	uint64_t n = lesser(d->tx.committed - d->tx.completed, sizeof(buf));
	d->wire_full = false;
	if (n == 0)
		return false;
	path_ring_get(d->memory, ring, d->tx.completed, buf, (uint32_t)n);
	ssize_t sent = send(d->wire, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	d->wire_full = sent < 0 && errno == EAGAIN;
	if (sent < 0 && errno != EAGAIN)
		sent = (ssize_t)n; /* the peer has closed: drop the bytes */
	if (sent <= 0)
		return false;
	path_tx_complete(&d->tx, d->tx.completed + (uint64_t)sent);
	return true;
}

/* Bytes in the pair behind the kept byte. */
static uint32_t pending(const struct path_daemon *d)
{
	int queued = 0;
	return ioctl(d->pair, FIONREAD, &queued) == 0 && queued > 1 ? (uint32_t)queued - 1 : 0;
}

/* Copy bytes from the pair to the send ring. Only then drop from the pair: the old kept byte and
 * all but the last of the new bytes. */
static uint32_t take_pair(struct path_daemon *d, uint32_t most)
{
	static __thread uint8_t buf[PART + 1], dropped[PART];
	uint32_t n = (uint32_t)lesser(lesser(pending(d), most), PART);
	if (n == 0 || recv(d->pair, buf, n + 1, MSG_PEEK | MSG_DONTWAIT) != (ssize_t)n + 1)
		return 0;
	path_tx_set_backlog(&d->tx, true);
	if (d->tx.taken_over) {
		memcpy(d->own + d->own_to, buf + 1, n);
		d->own_to += n;
	} else {
		path_ring_put(d->memory, &d->granted.layout.send, d->tx.committed, buf + 1, n);
		if (path_tx_put(&d->tx, n) < 0)
			nonsense(d);
	}
	if (recv(d->pair, dropped, n, MSG_DONTWAIT) != (ssize_t)n)
		nonsense(d);
	if (pending(d) == 0)
		path_tx_set_backlog(&d->tx, false);
	atomic_fetch_add(&d->from_pair, n);
	return n;
}

static bool drain_own(struct path_daemon *d)
{
	if (d->own_at == d->own_to) {
		d->own_at = d->own_to = 0;
		return false;
	}
	ssize_t sent = send(d->wire, d->own + d->own_at, d->own_to - d->own_at,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	d->wire_full = sent < 0 && errno == EAGAIN;
	if (sent > 0)
		d->own_at += (uint64_t)sent;
	return sent > 0;
}

static bool after_takeover(struct path_daemon *d)
{
	bool did = drain_memory(d);
	if (d->tx.committed != d->tx.completed)
		return did;
	did = drain_own(d) || did;
	return (d->own_to == 0 && take_pair(d, PART) > 0) || did;
}

static void lose_patience(struct path_daemon *d, bool *ret_waiting)
{
	*ret_waiting = true;
	if (d->lock_ns == 0)
		d->lock_ns = now_ns();
	if (now_ns() - d->lock_ns < LOCK_NS)
		return;
	atomic_fetch_add(&d->takeovers, 1);
	if (path_tx_take_over(&d->tx) < 0)
		nonsense(d);
}

static bool from_program(struct path_daemon *d, bool *ret_waiting)
{
	const uint32_t size = d->granted.layout.send.size;
	uint64_t committed = d->tx.committed;
	if (d->tx.taken_over)
		return after_takeover(d);
	if (path_tx_load(&d->tx) < 0)
		nonsense(d);
	atomic_fetch_add(&d->from_memory, d->tx.committed - committed);
	bool did = drain_memory(d);
	uint32_t waits = pending(d);
	uint32_t room = size - (uint32_t)(d->tx.committed - d->tx.completed);
	if (waits == 0 || (room < waits && room < size / 2))
		return did;
	if (!path_tx_lock(&d->tx)) {
		lose_patience(d, ret_waiting);
		return did;
	}
	d->lock_ns = 0;
	committed = d->tx.committed;
	if (path_tx_load(&d->tx) < 0)
		nonsense(d);
	atomic_fetch_add(&d->from_memory, d->tx.committed - committed);
	did = take_pair(d, size - (uint32_t)(d->tx.committed - d->tx.completed)) > 0 || did;
	path_tx_unlock(&d->tx);
	return did;
}

/* ---- the loop */

static void wait_for_events(struct path_daemon *d, int timeout_ms)
{
	struct epoll_event events[4];
	struct epoll_event wire = { .events = EPOLLRDHUP | (d->wire_full ? EPOLLOUT : 0) };
	uint64_t room = d->granted.layout.receive.size - (d->rx.produced - d->rx.taken);
	if (room > 0 && !d->wire_ended)
		wire.events |= EPOLLIN;
	if (d->wire_ended)
		wire.events &= ~(uint32_t)EPOLLRDHUP;
	epoll_ctl(d->epoll, EPOLL_CTL_MOD, d->wire, &wire);
	int n = epoll_wait(d->epoll, events, 4, timeout_ms);
	for (int i = 0; i < n; i++)
		if (events[i].data.fd == d->pair && events[i].events & (EPOLLRDHUP | EPOLLHUP))
			d->pair_ended = true;
}

static void end_sending(struct path_daemon *d)
{
	if (!d->tx.taken_over && path_tx_take_over(&d->tx) < 0)
		nonsense(d);
	if (d->tx.committed == d->tx.completed && d->own_at == d->own_to && pending(d) == 0) {
		shutdown(d->wire, SHUT_WR);
		d->pair_ended = false;
	}
}

static void *run(void *arg)
{
	struct path_daemon *d = arg;
	while (!atomic_load(&d->stop)) {
		bool waiting = false;
		if (d->pair_ended)
			end_sending(d);
		bool did = to_program(d, &waiting);
		did = from_program(d, &waiting) || did;
		if (did)
			continue;
		if (waiting || !path_tx_stop_polling(&d->tx)) {
			wait_for_events(d, 0);
			sched_yield();
			continue;
		}
		atomic_store(&d->asleep, true);
		wait_for_events(d, d->pair_ended ? 1 : -1);
		atomic_store(&d->asleep, false);
		path_tx_poll(&d->tx);
	}
	if (!d->killed)
		path_end(d->page);
	return NULL;
}

static void watch(struct path_daemon *d, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data = { .fd = fd } };
	assert_int_equal(epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static void open_pair(struct path_daemon *d)
{
	int ends[2], queue = QUEUE, charge = 0;
	assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	d->program = ends[0];
	d->pair = ends[1];
	setsockopt(d->program, SOL_SOCKET, SO_SNDBUF, &queue, sizeof(queue));
	queue = 512 * 1024;
	setsockopt(d->pair, SOL_SOCKET, SO_SNDBUFFORCE, &queue, sizeof(queue));
	assert_int_equal(syscall(SYS_sendto, d->program, "", 1, 0, NULL, 0), 1);
	assert_int_equal(syscall(SYS_ioctl, d->program, SIOCOUTQ, &charge), 0);
	d->granted.least_charge = (uint32_t)charge;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	d->peer = ends[0];
	d->wire = ends[1];
}

void path_daemon_start(struct path_daemon *d, uint32_t ring, bool eye_catcher)
{
	const uint32_t pages = (ring + PATH_PAGE_SIZE - 1) / PATH_PAGE_SIZE * PATH_PAGE_SIZE;
	memset(d, 0, sizeof(*d));
	open_pair(d);
	d->granted.layout = (struct path_layout){
		.length = PATH_PAGE_SIZE + 2 * pages,
		.receive = { PATH_PAGE_SIZE + (eye_catcher ? 4 : 0), ring - (eye_catcher ? 4 : 0) },
		.send = { PATH_PAGE_SIZE + pages, ring },
	};
	assert_true(path_layout_valid(&d->granted.layout));
	d->memfd = memfd_create("path", MFD_CLOEXEC);
	assert_true(d->memfd >= 0);
	assert_int_equal(ftruncate(d->memfd, d->granted.layout.length), 0);
	d->memory = mmap(NULL, d->granted.layout.length, PROT_READ | PROT_WRITE, MAP_SHARED,
			 d->memfd, 0);
	assert_true(d->memory != MAP_FAILED);
	d->page = (struct path_page *)d->memory;
	d->own = malloc(PART);
	assert_non_null(d->own);
	d->head = HEAD_LEAST;
	/* Start at positions far from 0, so that they are not offsets in the rings. */
	path_rx_open(&d->rx, d->page, 1000003, 1000003);
	path_tx_open(&d->tx, d->page, ring, 3000017, 3000017);
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->wake = eventfd(0, EFD_CLOEXEC);
	watch(d, d->pair, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	watch(d, d->wire, EPOLLIN);
	watch(d, d->wake, EPOLLIN);
	/* Signals must go to the program's thread. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	assert_int_equal(pthread_create(&d->thread, NULL, run, d), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void path_daemon_kill(struct path_daemon *d)
{
	d->killed = true; /* the thread sees `stop` later */
	path_daemon_stop(d);
}

void path_daemon_stop(struct path_daemon *d)
{
	const uint64_t one = 1;
	atomic_store(&d->stop, true);
	assert_int_equal(write(d->wake, &one, sizeof(one)), sizeof(one));
	pthread_join(d->thread, NULL);
	close(d->pair);
	close(d->wire);
	close(d->peer);
	close(d->epoll);
	close(d->wake);
	close(d->memfd);
	munmap(d->memory, d->granted.layout.length);
	free(d->own);
	assert_int_equal(d->protocol_errors, 0);
}

void path_daemon_await_sleep(struct path_daemon *d)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	for (int i = 0; i < 10000 && !atomic_load(&d->asleep); i++)
		nanosleep(&ms, NULL);
	assert_true(atomic_load(&d->asleep));
}
