/* SPDX-License-Identifier: MIT */
/*
 * The library's side of the memory that it shares with the daemon (docs/data-path.md). A program
 * makes calls, while somebody writes anything anywhere into the pages between any two accesses, the
 * other end of the pair does anything, and another thread of the program changes the list of pieces
 * of the call. No call may move more bytes than the program has room for, or touch other memory. To
 * show that, the program's buffers and lists are heap blocks of exactly their size, and the shared
 * memory lies between pages that cannot be accessed.
 */
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "tests/fuzz/meddle.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include "lib/smcr/next.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/sys.h"

const bool pre_sees_calls = true; /* as in the preload library */

/* No call really waits, or a run would mostly wait: each look at the clock advances it by some
 * microseconds. */
static int64_t clock_ns;

static int look_at_clock(clockid_t clock, struct timespec *ret_time)
{
	(void)clock;
	clock_ns += 20000;
	*ret_time = (struct timespec){ clock_ns / 1000000000, clock_ns % 1000000000 };
	return 0;
}

/* Whoever would wait is interrupted by a signal. */
static int poll_at_once(int fd, short events, const struct timespec *timeout, short *ret_revents)
{
	const struct timespec now = { 0 };
	(void)timeout;
	int rc = sys_poll_one(fd, events, &now, ret_revents);
	return rc == 0 ? -EINTR : rc;
}

static int yield_to_nobody(void)
{
	return 0;
}

#define clock_gettime look_at_clock
#define sys_poll_one  poll_at_once
#define sched_yield   yield_to_nobody
#include "lib/preload/data_pieces.c"
#include "lib/preload/data_source.c"
#include "lib/preload/data_wait.c"
#include "lib/preload/data_receive.c" /* with the atomic operations of meddle.h */
#undef KNOWN_FLAGS
#include "lib/preload/data_send.c"
#undef KNOWN_FLAGS
#include "lib/preload/send_all.c"
#undef clock_gettime
#undef sys_poll_one
#undef sched_yield

#define RING_SIZE (16 * PATH_PAGE_SIZE)
#define SPAN      (PATH_PAGE_SIZE + 2 * RING_SIZE)
#define FENCE     (16 * PATH_PAGE_SIZE)
#define MOST      100000 /* most bytes of a call */
#define PIECES    4

static struct ipc_memory granted = {
	.layout = { .length = SPAN,
		    .receive = { PATH_PAGE_SIZE + 4, RING_SIZE - 4 },
		    .send = { PATH_PAGE_SIZE + RING_SIZE, RING_SIZE } },
};

static struct side {
	int fd, daemon, memfd, file;
	bool waits;      /* `fd` is blocking */
	uint8_t *memory; /* the daemon's mapping */
	uint8_t *fences; /* two pages around the library's mapping; NULL: there are none */
} side;

/* The list of pieces of the call that is under way, and how long each piece can be. */
static struct pieces {
	struct iovec *iov;
	size_t room[PIECES];
	int count; /* 0: there is no such call */
} pieces;

static void change_list(const struct record *record)
{
	if (pieces.count == 0)
		return;
	int i = record->small % pieces.count;
	pieces.iov[i].iov_len = record->large % (pieces.room[i] + 1);
}

static void meddle_now(const struct record *record)
{
	if (record->who < 0x80)
		meddle_with_word((struct path_page *)side.memory, record, RING_SIZE);
	else if (record->who < 0xC0)
		side.memory[record->large % SPAN] = record->who;
	else
		change_list(record);
}

/* ---- the program's calls ---- */

/* Make the list of one call, and its pieces. @return for how many bytes there is room */
static size_t open_pieces(const struct record *record)
{
	const size_t sum = record->large % MOST;
	size_t left = sum;
	pieces.count = 1 + record->who / 16 % PIECES;
	pieces.iov = calloc((size_t)pieces.count, sizeof(*pieces.iov));
	must(pieces.iov != NULL);
	for (int i = 0; i < pieces.count; i++) {
		const size_t part = i + 1 < pieces.count ? left / 3 : left;
		pieces.room[i] = part;
		pieces.iov[i] = (struct iovec){ calloc(1, part ? part : 1),
						record->small & 0x100 ? part / 2 : part };
		must(pieces.iov[i].iov_base != NULL);
		left -= part;
	}
	return sum;
}

static void close_pieces(void)
{
	for (int i = 0; i < pieces.count; i++)
		free(pieces.iov[i].iov_base);
	free(pieces.iov);
	pieces.count = 0;
}

static void expect_result(bool done, ssize_t n, size_t asked)
{
	must(!done || n == -1 || (n >= 0 && (size_t)n <= asked));
	must(!done || n != -1 || errno > 0);
}

static void call_receive(const struct record *record)
{
	static const int flags[] = { 0, MSG_DONTWAIT, MSG_PEEK, MSG_PEEK | MSG_DONTWAIT };
	ssize_t n = 0;
	int how = flags[record->small % 4];
	const size_t room = open_pieces(record);
	if (record->small & 4 && !side.waits)
		how |= MSG_WAITALL;
	bool done = data_receive(side.fd, pieces.iov, pieces.count, how, &n);
	expect_result(done, n, room);
	close_pieces();
}

static void call_send(const struct record *record)
{
	ssize_t n = 0;
	const size_t room = open_pieces(record);
	bool done = data_send(side.fd, pieces.iov, pieces.count,
			      record->small % 2 ? MSG_DONTWAIT : 0, &n);
	expect_result(done, n, room);
	close_pieces();
}

static void call_send_file(const struct record *record)
{
	off_t offset = record->small;
	ssize_t n = 0;
	size_t len = record->large % MOST;
	bool done = data_send_file(side.fd, side.file, &offset, len, &n);
	expect_result(done, n, len);
}

/* ---- the daemon ---- */

static void daemon_forwards(const struct record *record)
{
	struct path_page *page = (struct path_page *)side.memory;
	struct path_rx rx = { .page = page,
			      .taken = __c11_atomic_load(&page->taken, __ATOMIC_SEQ_CST) };
	static const uint8_t bytes[5000];
	size_t len = 1 + record->large % sizeof(bytes);
	if (!path_rx_forward_begin(&rx, len))
		return;
	if (record->small % 8)
		(void)send(side.daemon, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	path_rx_forward_end(&rx, len);
}

/* Read from the pair: everything but the kept byte, or less, or the kept byte too. */
static void daemon_takes_pair(const struct record *record)
{
	static uint8_t bytes[MOST];
	int queued = 0;
	if (ioctl(side.daemon, FIONREAD, &queued) < 0 || queued <= 1)
		return;
	size_t len = (size_t)queued - 1;
	if (record->small % 4 == 0)
		len = record->large % (len + 2);
	(void)recv(side.daemon, bytes, len < MOST ? len : MOST, MSG_DONTWAIT);
}

/* Complete everything that the program has written, however much its page claims that to be. */
static void daemon_completes(void)
{
	struct path_page *page = (struct path_page *)side.memory;
	atomic_store(&page->completed, atomic_load(&page->committed) & ~PATH_MARK);
}

static void daemon_ends(const struct record *record)
{
	if (record->small % 4 == 0) {
		path_end((struct path_page *)side.memory);
		madvise(side.memory + PATH_PAGE_SIZE, SPAN - PATH_PAGE_SIZE, MADV_REMOVE);
	} else if (record->small % 4 == 1)
		shutdown(side.daemon, (int)record->large % 3);
	else if (side.daemon >= 0) {
		close(side.daemon);
		side.daemon = -1;
	}
}

/* ---- */

static void take_fences_away(void)
{
	if (!side.fences)
		return;
	munmap(side.fences, FENCE);
	munmap(side.fences + FENCE + SPAN, FENCE);
	side.fences = NULL;
}

/* Move the library's mapping between two pages that cannot be accessed. */
static void put_fences(void)
{
	struct pre_path *path = pre_path_get(side.fd);
	must(path != NULL);
	uint8_t *place = mmap(NULL, FENCE + SPAN + FENCE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(place != MAP_FAILED);
	must(mremap(path->memory, SPAN, SPAN, MREMAP_MAYMOVE | MREMAP_FIXED, place + FENCE) ==
	     place + FENCE);
	path->memory = place + FENCE;
	pre_path_put(path);
	side.fences = place;
}

static void adopt(void)
{
	pre_path_forget(side.fd);
	take_fences_away();
	if (pre_path_adopt(side.fd, side.memfd, &granted) == 0)
		put_fences();
}

/* The daemon's answer makes no sense, or does not fit the file that comes with it. */
static void adopt_nonsense(const struct record *record)
{
	struct ipc_memory other = granted;
	uint32_t *words[] = { &other.layout.length, &other.layout.receive.at,
			      &other.layout.receive.size, &other.layout.send.at,
			      &other.layout.send.size };
	*words[record->small % 5] = record->large;
	bool valid = path_layout_valid(&other.layout) && other.layout.length <= SPAN;
	pre_path_forget(side.fd);
	take_fences_away();
	must((pre_path_adopt(side.fd, side.memfd, &other) == 0) == valid);
	adopt();
}

/* Another file gets the descriptor's number, behind the library's back. */
static void use_again(const struct record *record)
{
	int ends[2];
	must(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	must(dup3(ends[record->small % 2], side.fd, O_CLOEXEC) == side.fd);
	close(ends[0]);
	close(ends[1]);
}

/* The kernel's own calls, made so that they never wait. */
static ssize_t send_at_once(int fd, const struct msghdr *msg, int flags)
{
	return sendmsg(fd, msg, flags | MSG_DONTWAIT);
}

static ssize_t send_no_file(int fd, int file, off_t *offset, size_t len)
{
	errno = EAGAIN;
	return side.waits ? -1 : sendfile(fd, file, offset, len);
}

static void set_waiting(bool waits)
{
	int flags = fcntl(side.fd, F_GETFL);
	side.waits = waits;
	fcntl(side.fd, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static void step(const struct record *record)
{
	switch (record->what % 16) {
	case 0:
	case 1:
	case 2: call_receive(record); break;
	case 3:
	case 4:
	case 5: call_send(record); break;
	case 6: call_send_file(record); break;
	case 7: must(data_readable(side.fd) <= RING_SIZE); break;
	case 8: daemon_forwards(record); break;
	case 9: meddle_now(record); break;
	case 10: daemon_takes_pair(record); break;
	case 11: daemon_completes(); break;
	case 12: set_waiting(record->small % 2); break;
	case 13:
		if (record->small % 4 == 0)
			pre_path_writes_outside(side.fd);
		else if (record->small % 4 == 1)
			pre_path_reads_outside(side.fd);
		break;
	case 14: adopt_nonsense(record); break;
	case 15:
		if (record->who % 4 == 0)
			use_again(record);
		else
			daemon_ends(record);
		break;
	}
}

static int make_file(size_t len)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	must(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
	return fd;
}

static void begin(void)
{
	static const uint64_t begins[] = { 0, 5, RING_SIZE - 4, UINT64_C(1) << 40 };
	struct path_rx rx;
	struct path_tx tx;
	int ends[2];
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	side = (struct side){ .fd = ends[0], .daemon = ends[1] };
	side.memfd = make_file(SPAN);
	side.file = make_file(3 * RING_SIZE);
	side.memory = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_SHARED, side.memfd, 0);
	must(side.memory != MAP_FAILED);
	path_rx_open(&rx, (struct path_page *)side.memory, begins[1], begins[2]);
	path_tx_open(&tx, (struct path_page *)side.memory, RING_SIZE, begins[3], begins[3]);
	int charge = 0;
	must(send(side.fd, "", 1, 0) == 1); /* the kept byte */
	must(ioctl(side.fd, SIOCOUTQ, &charge) == 0 && charge > 0);
	granted.least_charge = (uint32_t)charge;
	adopt();
}

static void finish_run(void)
{
	pre_path_forget(side.fd);
	take_fences_away();
	close(side.fd);
	if (side.daemon >= 0)
		close(side.daemon);
	close(side.memfd);
	close(side.file);
	munmap(side.memory, SPAN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	must(pre_ready());
	signal(SIGPIPE, SIG_IGN); /* sendfile() on a pair whose other end is closed */
	pre_next.sendmsg = send_at_once;
	pre_next.sendfile = send_no_file;
	begin();
	meddle_with_steps(data, size, step);
	finish_run();
	return 0;
}
