/* SPDX-License-Identifier: MIT */
/*
 * The daemon takes the shared memory away at any moment of a call (docs/data-path.md): it ends the
 * path, or takes over the send buffer, and then empties the pages. The library's code is included
 * here with atomic operations that call step() before and after, so that the daemon comes between
 * any two of them. No byte that the library returns or writes may come from emptied pages.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void step(void);

#undef atomic_load
#undef atomic_store
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_fetch_or
#undef atomic_compare_exchange_strong
#define STEPPED(operation)                                                                         \
	({                                                                                         \
		step();                                                                            \
		__auto_type result_ = (operation);                                                 \
		step();                                                                            \
		result_;                                                                           \
	})
#define ORDER                     memory_order_seq_cst
#define atomic_load(at)           STEPPED(atomic_load_explicit(at, ORDER))
#define atomic_fetch_add(at, n)   STEPPED(atomic_fetch_add_explicit(at, n, ORDER))
#define atomic_fetch_sub(at, n)   STEPPED(atomic_fetch_sub_explicit(at, n, ORDER))
#define atomic_fetch_or(at, bits) STEPPED(atomic_fetch_or_explicit(at, bits, ORDER))
#define atomic_store(at, value)                                                                    \
	do {                                                                                       \
		step();                                                                            \
		atomic_store_explicit(at, value, ORDER);                                           \
		step();                                                                            \
	} while (0)
#define atomic_compare_exchange_strong(at, expected, value)                                        \
	STEPPED(atomic_compare_exchange_strong_explicit(at, expected, value, ORDER, ORDER))

#define data_receive   stepped_receive
#define data_readable  stepped_readable
#define data_send      stepped_send
#define data_send_file stepped_send_file
#include "lib/preload/data_receive.c"
#undef KNOWN_FLAGS
#undef TRIES
#include "lib/preload/data_send.c"
#include "lib/smcr/ready.h"
#include "tests/lib/tries.h"

#define RING  (4 * PATH_PAGE_SIZE)
#define SPAN  (PATH_PAGE_SIZE + 2 * RING)
#define HEAD  100
#define BYTES 5000
/* Positions at which the rings wrap in the middle of the call. */
#define RX_AT (RING - 1000u)
#define TX_AT (2 * RING - 700u)

enum way { NEVER, END, TAKE_OVER };

static struct {
	int fd, daemon, memfd;
	struct ipc_memory granted;
	uint8_t *memory; /* the daemon's mapping */
	struct path_page *page;
	enum way way;
	unsigned int steps, when;
	uint8_t sent[2 * BYTES]; /* what the daemon has taken from the send buffer */
	size_t num_sent;
} side;

/* The bytes of each stream; none is 0. */
static uint8_t byte_at(size_t i)
{
	return (uint8_t)(1 + i % 251);
}

/* The daemon takes what was committed. */
static void take_committed(uint64_t committed)
{
	while (side.num_sent < (committed & ~PATH_MARK) - TX_AT) {
		const uint64_t pos = TX_AT + side.num_sent;
		side.sent[side.num_sent++] =
			side.memory[path_ring_place(&side.granted.layout.send, pos)];
	}
}

static void give_away(void)
{
	if (side.way == END)
		atomic_fetch_or_explicit(&side.page->taken, PATH_MARK, ORDER);
	take_committed(atomic_fetch_or_explicit(&side.page->committed, PATH_MARK, ORDER));
	if (side.way == END)
		madvise(side.memory + side.granted.layout.receive.at, RING, MADV_REMOVE);
	madvise(side.memory + side.granted.layout.send.at, RING, MADV_REMOVE);
}

static void step(void)
{
	if (side.way != NEVER && side.steps++ == side.when)
		give_away();
}

static void open_side(bool polled)
{
	struct path_rx rx;
	struct path_tx tx;
	int ends[2], charge = 0;
	pre_ready();
	memset(&side, 0, sizeof(side));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	side.fd = ends[0];
	side.daemon = ends[1];
	side.granted.layout = (struct path_layout){ .length = SPAN,
						    .receive = { PATH_PAGE_SIZE, RING },
						    .send = { PATH_PAGE_SIZE + RING, RING } };
	side.memfd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(side.memfd, SPAN), 0);
	side.memory = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_SHARED, side.memfd, 0);
	assert_true(side.memory != MAP_FAILED);
	side.page = (struct path_page *)side.memory;
	path_rx_open(&rx, side.page, RX_AT, RX_AT + BYTES);
	path_tx_open(&tx, side.page, RING, TX_AT, TX_AT);
	if (!polled)
		assert_true(path_tx_stop_polling(&tx));
	for (size_t i = 0; i < BYTES; i++)
		side.memory[path_ring_place(&side.granted.layout.receive, RX_AT + i)] =
			byte_at(HEAD + i);
	for (size_t i = 0; i < HEAD; i++) {
		const uint8_t byte = byte_at(i);
		assert_int_equal(write(side.daemon, &byte, 1), 1);
	}
	assert_int_equal(write(side.fd, "", 1), 1); /* the kept byte */
	assert_int_equal(ioctl(side.fd, SIOCOUTQ, &charge), 0);
	side.granted.least_charge = (uint32_t)charge;
	assert_int_equal(pre_path_adopt(side.fd, side.memfd, &side.granted), 0);
}

static void close_side(void)
{
	side.way = NEVER;
	pre_path_forget(side.fd);
	close(side.fd);
	close(side.daemon);
	close(side.memfd);
	munmap(side.memory, SPAN);
}

static void expect_stream(const uint8_t *bytes, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (bytes[i - from] != byte_at(i))
			fail_msg("byte %zu is %u", i, bytes[i - from]);
}

/* @return false: the call ended before the moment came */
static bool receive_once(int flags, unsigned int when)
{
	uint8_t buf[HEAD + BYTES];
	struct iovec iov = { buf, sizeof(buf) };
	ssize_t n = 0;
	open_side(true);
	side.way = END;
	side.when = when;
	bool done = stepped_receive(side.fd, &iov, 1, flags, &n);
	bool came = side.steps > when;
	side.way = NEVER;
	if (!done) /* left to the kernel */
		n = recv(side.fd, buf, sizeof(buf), flags);
	assert_true(n >= HEAD);
	expect_stream(buf, 0, (size_t)n);
	if (!came)
		assert_int_equal(n, HEAD + BYTES);
	close_side();
	return came;
}

static void test_reads_return_no_emptied_page(void **state)
{
	static const int flags[] = { MSG_DONTWAIT, MSG_DONTWAIT | MSG_PEEK };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		bool came = true;
		unsigned int when = 0;
		for (; came; when++) {
			TRIES("flags %#x, moment %u", (unsigned int)flags[i], when);
			came = receive_once(flags[i], when);
		}
		assert_in_range(when, 10, 1000);
	}
}

/* Everything of the call comes to the daemon, through the memory or behind that through the pair.
 */
static void expect_all_sent(size_t n)
{
	uint8_t kept;
	assert_int_equal(recv(side.daemon, &kept, 1, MSG_DONTWAIT), 1);
	ssize_t queued = recv(side.daemon, side.sent + side.num_sent,
			      sizeof(side.sent) - side.num_sent, MSG_DONTWAIT);
	if (queued > 0)
		side.num_sent += (size_t)queued;
	assert_int_equal(side.num_sent, n);
	expect_stream(side.sent, 0, n);
}

static bool send_once(enum way way, bool polled, unsigned int when)
{
	uint8_t buf[BYTES];
	struct iovec iov = { buf, sizeof(buf) };
	ssize_t n = 0;
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = byte_at(i);
	open_side(polled);
	side.way = way;
	side.when = when;
	if (!stepped_send(side.fd, &iov, 1, MSG_DONTWAIT, &n)) /* left to the kernel */
		n = send(side.fd, buf, sizeof(buf), MSG_DONTWAIT);
	bool came = side.steps > when;
	side.way = NEVER;
	assert_int_equal(n, BYTES);
	if (!came)
		take_committed(atomic_load_explicit(&side.page->committed, ORDER));
	expect_all_sent((size_t)n);
	close_side();
	return came;
}

static void test_writes_send_no_emptied_page(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		const enum way way = i / 2 ? END : TAKE_OVER;
		bool came = true;
		unsigned int when = 0;
		for (; came; when++) {
			TRIES("way %d, polled %d, moment %u", (int)way, i % 2, when);
			came = send_once(way, i % 2, when);
		}
		assert_in_range(when, 10, 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_return_no_emptied_page),
		cmocka_unit_test(test_writes_send_no_emptied_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
