/* SPDX-License-Identifier: MIT */
/*
 * The data path through shared memory. The library's calls are on one side, tests/lib/path_daemon.c
 * plays the daemon on the other. Raw system calls in the same program stand for outsiders,
 * processes that have the pair end but not the library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/smcr/path.h"
#include "lib/smcr/ready.h"
#include "tests/lib/path_daemon.h"
#include "tests/lib/pre_net.h"
#include "tests/lib/random.h"

#define RING  (64u * 1024)
#define WAIT  10000 /* ms: as long as it takes on a slow machine */
#define TOTAL (3u << 20)

static struct path_daemon smcrd;
static int fd, peer;

static int start_with(uint32_t ring, bool eye_catcher)
{
	signal(SIGPIPE, SIG_IGN);
	pre_ready();
	path_daemon_start(&smcrd, ring, eye_catcher);
	fd = smcrd.program;
	peer = smcrd.peer;
	assert_int_equal(pre_path_adopt(fd, smcrd.memfd, &smcrd.granted), 0);
	return 0;
}

static int start(void **state)
{
	(void)state;
	return start_with(RING, false);
}

static int stop(void **state)
{
	(void)state;
	if (fd >= 0)
		close(fd);
	path_daemon_stop(&smcrd);
	return 0;
}

static ssize_t raw_read(int from, void *buf, size_t len)
{
	return syscall(SYS_read, from, buf, len);
}

static ssize_t raw_write(int to, const void *buf, size_t len)
{
	return syscall(SYS_write, to, buf, len);
}

static short ready(int of, short events, int timeout)
{
	struct pollfd pfd = { .fd = of, .events = events };
	assert_true(poll(&pfd, 1, timeout) >= 0);
	return pfd.revents;
}

static void nonblocking(int of, bool on)
{
	int flags = fcntl(of, F_GETFL);
	assert_int_equal(fcntl(of, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

static void put(int to, const void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = raw_write(to, (const uint8_t *)buf + at, len - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
}

static void get(int from, void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		assert_true(ready(from, POLLIN, WAIT));
		ssize_t n = raw_read(from, (uint8_t *)buf + at, len - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
}

static void await_head(size_t bytes)
{
	int n = 0;
	for (int i = 0; i < WAIT; i++) {
		assert_int_equal(syscall(SYS_ioctl, fd, FIONREAD, &n), 0);
		if ((size_t)n >= bytes)
			return;
		usleep(1000);
	}
	fail_msg("%d bytes in the pair", n);
}

/* ---- whole streams */

static uint8_t byte_at(uint64_t pos)
{
	return (uint8_t)((pos * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

struct stream {
	pthread_t thread;
	struct random random;
	uint64_t at, end;
	int fd;
	bool sends;
	bool library, outside; /* which of the two makes the calls */
	bool failed;
	const char *what;
};

static ssize_t send_some(struct stream *s, const uint8_t *buf, size_t len)
{
	struct iovec iov[3] = { { (void *)buf, len / 3 },
				{ (void *)(buf + len / 3), 0 },
				{ (void *)(buf + len / 3), len - len / 3 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	bool library = s->library && (!s->outside || random_below(&s->random, 4));
	switch (random_below(&s->random, library ? 6 : 2)) {
	case 0: return library ? write(s->fd, buf, len) : raw_write(s->fd, buf, len);
	case 1:
		return library ? writev(s->fd, iov, 3)
			       : syscall(SYS_sendmsg, s->fd, &msg, MSG_NOSIGNAL);
	case 2: return send(s->fd, buf, len, MSG_NOSIGNAL);
	case 3: return sendto(s->fd, buf, len, MSG_MORE, NULL, 0);
	case 4: return sendmsg(s->fd, &msg, MSG_NOSIGNAL);
	default: return send(s->fd, buf, len, MSG_DONTWAIT);
	}
}

static ssize_t receive_some(struct stream *s, uint8_t *buf, size_t len)
{
	struct iovec iov[3] = { { buf, len / 3 }, { buf, 0 }, { buf + len / 3, len - len / 3 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	bool library = s->library && (!s->outside || random_below(&s->random, 4));
	switch (random_below(&s->random, library ? 7 : 2)) {
	case 0: return library ? read(s->fd, buf, len) : raw_read(s->fd, buf, len);
	case 1: return library ? readv(s->fd, iov, 3) : syscall(SYS_recvmsg, s->fd, &msg, 0);
	case 2: return recv(s->fd, buf, len, 0);
	case 3: return recvfrom(s->fd, buf, len, 0, NULL, NULL);
	case 4: return recvmsg(s->fd, &msg, 0);
	case 5: {
		ssize_t peeked = recv(s->fd, buf, len, MSG_PEEK | MSG_DONTWAIT);
		for (ssize_t i = 0; i < peeked; i++)
			if (buf[i] != byte_at(s->at + (uint64_t)i)) {
				s->what = "peeked wrong";
				return -2;
			}
		return recv(s->fd, buf, len, MSG_DONTWAIT);
	}
	default: return recv(s->fd, buf, len, MSG_DONTWAIT);
	}
}

static void *move(void *arg)
{
	struct stream *s = arg;
	static __thread uint8_t buf[200000];
	while (s->at < s->end && !s->failed) {
		uint32_t most = random_below(&s->random, 3) ? 300 : sizeof(buf);
		size_t len = 1 + random_below(&s->random, most);
		if (len > s->end - s->at)
			len = s->end - s->at;
		for (size_t i = 0; s->sends && i < len; i++)
			buf[i] = byte_at(s->at + i);
		errno = 0;
		ssize_t n = s->sends ? send_some(s, buf, len) : receive_some(s, buf, len);
		if (n < 0 && errno == EAGAIN) {
			ready(s->fd, s->sends ? POLLOUT : POLLIN, WAIT);
			continue;
		}
		if (n <= 0) {
			s->failed = true;
			if (!s->what)
				s->what = n < 0 ? strerror(errno) : "end of file";
			break;
		}
		for (ssize_t i = 0; !s->sends && i < n; i++)
			if (buf[i] != byte_at(s->at + (uint64_t)i)) {
				s->failed = true;
				s->what = "wrong byte";
				break;
			}
		s->at += (uint64_t)n;
	}
	return NULL;
}

/* Send TOTAL bytes in both directions at the same time. */
static void exchange(bool outside, uint64_t seed)
{
	struct stream streams[4] = {
		{ .fd = fd, .sends = true, .library = true, .outside = outside },
		{ .fd = fd, .library = true, .outside = outside },
		{ .fd = peer, .sends = true },
		{ .fd = peer },
	};
	for (uint64_t i = 0; i < 4; i++) {
		streams[i].random.state = seed * 10 + i + 1;
		streams[i].end = TOTAL;
		assert_int_equal(pthread_create(&streams[i].thread, NULL, move, &streams[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(streams[i].thread, NULL);
	for (int i = 0; i < 4; i++)
		if (streams[i].failed)
			fail_msg("stream %d at %u: %s", i, (unsigned int)streams[i].at,
				 streams[i].what);
	assert_true(smcrd.from_memory > 0);
}

static void test_streams(void **state)
{
	(void)state;
	exchange(false, 1);
	nonblocking(fd, true);
	exchange(false, 2);
}

static void test_streams_with_outsiders(void **state)
{
	(void)state;
	exchange(true, 3);
	nonblocking(fd, true);
	exchange(true, 4);
}

static int start_odd(void **state)
{
	(void)state;
	return start_with(10007, true);
}

/* ---- readiness */

static void test_a_head_makes_it_readable(void **state)
{
	(void)state;
	uint8_t buf[RING];
	memset(buf, 7, sizeof(buf));
	assert_int_equal(ready(fd, POLLIN | POLLOUT, 0), POLLOUT);
	put(peer, buf, 10000);
	assert_int_equal(ready(fd, POLLIN, WAIT), POLLIN);
	assert_int_equal(read(fd, buf, 100), 100);
	assert_int_equal(ready(fd, POLLIN, WAIT), POLLIN);
	size_t got = 100;
	while (got < 10000)
		got += (size_t)read(fd, buf, sizeof(buf));
	assert_int_equal(got, 10000);
	assert_int_equal(ready(fd, POLLIN, 0), 0);
	nonblocking(fd, true);
	assert_int_equal(read(fd, buf, 1), -1);
	assert_int_equal(errno, EAGAIN);
}

/* Wait until FIONREAD counts `len` bytes, in memory and pair together. */
static void await_bytes(int len)
{
	int n = 0;
	for (int i = 0; i < WAIT && n < len; i++) {
		assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
		usleep(1000);
	}
	assert_int_equal(n, len);
}

static void test_fionread_counts_both(void **state)
{
	(void)state;
	uint8_t buf[20000] = { 0 };
	put(peer, buf, sizeof(buf));
	await_bytes(sizeof(buf));
	assert_true(read(fd, buf, 1000) == 1000);
	await_bytes(sizeof(buf) - 1000);
}

/* After poll() has reported bytes, a read gets some, even while the daemon moves them from the
 * memory to the pair. */
static void test_bytes_that_were_told_are_there(void **state)
{
	(void)state;
	static uint8_t buf[100];
	struct stream s = { .fd = peer, .sends = true, .random = { 7 }, .end = 2000000 };
	assert_int_equal(pthread_create(&s.thread, NULL, move, &s), 0);
	for (size_t got = 0; got < s.end;) {
		int told = 0;
		assert_int_equal(ioctl(fd, FIONREAD, &told), 0);
		if (told == 0) {
			ready(fd, POLLIN, WAIT);
			continue;
		}
		ssize_t n = recv(fd, buf, 1 + got % sizeof(buf), MSG_DONTWAIT);
		assert_true(n > 0);
		got += (size_t)n;
	}
	pthread_join(s.thread, NULL);
	assert_false(s.failed);
}

static void test_edges(void **state)
{
	(void)state;
	uint8_t buf[40000] = { 0 };
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	for (int round = 0; round < 200; round++) {
		size_t got = 0, len = 1 + (size_t)round * 150;
		put(peer, buf, len);
		while (got < len) {
			assert_int_equal(epoll_wait(epoll, &event, 1, WAIT), 1);
			for (ssize_t n = 1; n > 0; got += n > 0 ? (size_t)n : 0)
				n = recv(fd, buf, 1 + got % 7000, MSG_DONTWAIT);
		}
		assert_int_equal(got, len);
	}
	close(epoll);
}

static void test_oneshot_and_exclusive(void **state)
{
	(void)state;
	uint8_t buf[100] = { 0 };
	struct epoll_event one = { .events = EPOLLIN | EPOLLONESHOT }, got;
	struct epoll_event exclusive = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	int epoll = epoll_create1(EPOLL_CLOEXEC), other = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &one), 0);
	assert_int_equal(epoll_ctl(other, EPOLL_CTL_ADD, fd, &exclusive), 0);
	put(peer, buf, sizeof(buf));
	assert_int_equal(epoll_wait(other, &got, 1, WAIT), 1);
	assert_int_equal(epoll_wait(epoll, &got, 1, WAIT), 1);
	assert_int_equal(epoll_wait(epoll, &got, 1, 0), 0);
	assert_int_equal(read(fd, buf, 60), 60);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &one), 0);
	assert_int_equal(epoll_wait(epoll, &got, 1, WAIT), 1);
	assert_int_equal(epoll_wait(other, &got, 1, WAIT), 1);
	assert_int_equal(read(fd, buf, 60), 40);
	assert_int_equal(epoll_wait(other, &got, 1, 0), 0);
	close(epoll);
	close(other);
}

/* poll() reports a full socket writable when it takes bytes again, and not before. */
static void test_writable_when_there_is_room(void **state)
{
	(void)state;
	static uint8_t buf[300000], out[300000];
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	size_t sent = 0, got = 0;
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(epoll_wait(epoll, &event, 1, 0), 1);
	nonblocking(fd, true);
	for (ssize_t n = 1; n > 0; sent += n > 0 ? (size_t)n : 0) {
		for (size_t i = 0; i < sizeof(buf); i++)
			buf[i] = byte_at(sent + i);
		n = write(fd, buf, sizeof(buf));
		assert_true(n > 0 || errno == EAGAIN);
	}
	/* The daemon may take more for a while, until everything up to the peer is full. */
	for (int quiet = 0; quiet < 20; quiet++) {
		for (size_t i = 0; i < sizeof(buf); i++)
			buf[i] = byte_at(sent + i);
		ssize_t n = write(fd, buf, sizeof(buf));
		if (n > 0) {
			sent += (size_t)n;
			quiet = 0;
		}
		usleep(1000);
	}
	assert_int_equal(ready(fd, POLLOUT, 0), 0);
	while (epoll_wait(epoll, &event, 1, 0) == 1)
		;
	while (got < sent) {
		size_t n = sent - got < sizeof(out) ? sent - got : sizeof(out);
		get(peer, out, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(out[i], byte_at(got + i));
		got += n;
	}
	assert_int_equal(ready(fd, POLLOUT, WAIT), POLLOUT);
	assert_int_equal(epoll_wait(epoll, &event, 1, WAIT), 1);
	close(epoll);
}

/* ---- waiting */

static void pass(int signal)
{
	(void)signal;
}

static void on_alarm(void (*handler)(int), int flags, long usec)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	struct itimerval timer = { .it_value = { .tv_usec = usec } };
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* A call that is to be ended by a signal may begin after the first one on a busy machine. */
static void alarm_again_and_again(int flags, long usec)
{
	const struct itimerval timer = { { .tv_usec = usec }, { .tv_usec = usec } };
	on_alarm(pass, flags, usec);
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void no_alarm(void)
{
	const struct itimerval never = { { 0 }, { 0 } };
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
}

static void test_limits_and_signals(void **state)
{
	(void)state;
	static uint8_t buf[TOTAL];
	const struct timeval limit = { .tv_usec = 20000 }, none = { 0 };
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(read(fd, buf, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)), 0);
	alarm_again_and_again(0, 20000);
	assert_int_equal(read(fd, buf, 1), -1);
	assert_int_equal(errno, EINTR);
	no_alarm();
	/* A write that waits has written a part when the signal or the time limit ends it. */
	alarm_again_and_again(SA_RESTART, 200000);
	ssize_t n = write(fd, buf, sizeof(buf));
	no_alarm();
	assert_true(n > 0 && n < (ssize_t)sizeof(buf));
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	ssize_t more = write(fd, buf, sizeof(buf));
	assert_true(more < (ssize_t)sizeof(buf));
	more = write(fd, buf, sizeof(buf));
	if (more < 0)
		assert_int_equal(errno, EAGAIN);
}

static void *put_later(void *arg)
{
	usleep(50000);
	put(peer, arg, strlen(arg));
	return NULL;
}

static void test_a_reader_that_waits_is_woken(void **state)
{
	(void)state;
	char buf[10];
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, put_later, (void *)(uintptr_t) "hello"), 0);
	assert_int_equal(read(fd, buf, sizeof(buf)), 5);
	pthread_join(thread, NULL);
	/* A signal whose handler restarts the call loses no bytes. */
	assert_int_equal(pthread_create(&thread, NULL, put_later, (void *)(uintptr_t) "again"), 0);
	on_alarm(pass, SA_RESTART, 10000);
	assert_int_equal(read(fd, buf, sizeof(buf)), 5);
	assert_memory_equal(buf, "again", 5);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&smcrd.page->at_work), 0);
}

static void test_waitall(void **state)
{
	(void)state;
	static uint8_t buf[5 * RING], out[5 * RING];
	struct stream s = { .fd = peer, .sends = true, .random = { 5 }, .end = sizeof(buf) };
	assert_int_equal(pthread_create(&s.thread, NULL, move, &s), 0);
	assert_int_equal(recv(fd, out, sizeof(out), MSG_WAITALL), sizeof(out));
	pthread_join(s.thread, NULL);
	for (size_t i = 0; i < sizeof(out); i++)
		assert_int_equal(out[i], byte_at(i));
	/* The library leaves a call with a time limit (SO_RCVTIMEO) to the kernel. */
	const struct timeval limit = { .tv_usec = 50000 };
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	put(peer, buf, 5000);
	assert_int_equal(recv(fd, out, 6000, MSG_WAITALL), 5000);
}

static void test_low_water_mark(void **state)
{
	(void)state;
	uint8_t buf[20000] = { 0 };
	pthread_t thread;
	int low = 5;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	put(peer, "abc", 3);
	await_bytes(3);
	assert_int_equal(pthread_create(&thread, NULL, put_later, (void *)(uintptr_t) "defg"), 0);
	ssize_t n = read(fd, buf, 10);
	assert_int_equal(n, 7);
	pthread_join(thread, NULL);
}

/* An outsider that peeks for more bytes than the daemon has forwarded gets them after a while. */
static void test_heads_grow(void **state)
{
	(void)state;
	uint8_t buf[30000];
	memset(buf, 1, sizeof(buf));
	put(peer, buf, sizeof(buf));
	await_head(sizeof(buf));
	assert_int_equal(syscall(SYS_recvfrom, fd, buf, sizeof(buf), MSG_PEEK, NULL, NULL),
			 sizeof(buf));
	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_PEEK), sizeof(buf));
	assert_int_equal(read(fd, buf, sizeof(buf)), sizeof(buf));
}

/* ---- leaving in the middle */

static sigjmp_buf jump;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(jump, 1);
}

static void leave_a_read(struct random *random)
{
	char buf[10];
	if (sigsetjmp(jump, 1))
		return;
	on_alarm(leave, 0, 100 + random_below(random, 2000));
	for (;;)
		read(fd, buf, sizeof(buf));
}

static void test_longjmp_out_of_reads(void **state)
{
	(void)state;
	char buf[20];
	struct random random = { 9 };
	for (int i = 0; i < 30; i++)
		leave_a_read(&random);
	/* Readers that left in the middle do not keep later readers from their bytes. */
	put(peer, "still here", 10);
	assert_int_equal(ready(fd, POLLIN, WAIT), POLLIN);
	assert_int_equal(read(fd, buf, 20), 10);
}

static void test_a_writer_left_with_the_lock(void **state)
{
	(void)state;
	static uint8_t buf[500000];
	struct stream s = { .fd = peer, .random = { 6 }, .end = sizeof(buf) };
	assert_true(path_writer_lock(smcrd.page));
	for (int i = 0; i < 3; i++)
		assert_int_equal(write(fd, "0123456789", 10), 10);
	get(peer, buf, 30);
	assert_memory_equal(buf, "012345678901234567890123456789", 30);
	assert_int_equal(smcrd.takeovers, 1);
	assert_int_equal(pthread_create(&s.thread, NULL, move, &s), 0);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = byte_at(i);
	for (size_t at = 0; at < sizeof(buf);)
		at += (size_t)write(fd, buf + at, sizeof(buf) - at);
	pthread_join(s.thread, NULL);
	assert_false(s.failed);
}

static _Atomic int looped;

static void *read_for_ever(void *arg)
{
	char c;
	(void)arg;
	for (;; atomic_fetch_add(&looped, 1))
		read(fd, &c, 1);
	return NULL;
}

static void test_cancellation(void **state)
{
	(void)state;
	pthread_t thread;
	void *result;
	char c = 'x';
	/* A reader that sleeps. */
	assert_int_equal(pthread_create(&thread, NULL, read_for_ever, NULL), 0);
	usleep(20000);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	/* A reader that always finds bytes. */
	static uint8_t plenty[RING];
	put(peer, plenty, sizeof(plenty));
	assert_int_equal(pthread_create(&thread, NULL, read_for_ever, NULL), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(atomic_load(&smcrd.page->at_work), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(pthread_create(&thread, NULL, read_for_ever, NULL), 0);
		put(peer, &c, 1);
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
	}
	assert_int_equal(atomic_load(&smcrd.page->at_work), 0);
	/* The readers have given their references back: close() unmaps the memory. */
	close(fd);
	fd = -1;
}

/* ---- ends */

static void test_end_of_file_comes_last(void **state)
{
	(void)state;
	static uint8_t buf[3 * RING], out[3 * RING];
	struct stream s = { .fd = peer, .sends = true, .random = { 5 }, .end = sizeof(buf) };
	assert_int_equal(pthread_create(&s.thread, NULL, move, &s), 0);
	size_t got = 0;
	while (got < sizeof(out) / 2)
		got += (size_t)read(fd, out + got, 3000);
	while (got < sizeof(out))
		got += (size_t)read(fd, out + got, sizeof(out) - got);
	pthread_join(s.thread, NULL);
	put(peer, "end", 3);
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	assert_int_equal(recv(fd, out, 10, MSG_WAITALL), 3);
	assert_int_equal(read(fd, out, 1), 0);
	assert_int_equal(write(fd, "x", 1), 1); /* the other direction goes on */
	get(peer, out, 1);
}

static void test_shutdown_ends_writing(void **state)
{
	(void)state;
	static uint8_t buf[50000], out[50000];
	assert_int_equal(write(fd, buf, sizeof(buf)), sizeof(buf));
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_int_equal(write(fd, buf, 1000), -1);
	assert_int_equal(errno, EPIPE);
	get(peer, out, sizeof(out));
	assert_int_equal(ready(peer, POLLIN, WAIT) & POLLIN, POLLIN);
	assert_int_equal(raw_read(peer, out, 1), 0);
	put(peer, "abc", 3);
	assert_int_equal(ready(fd, POLLIN, WAIT) & POLLIN, POLLIN);
	assert_int_equal(read(fd, out, 10), 3);
}

static void test_close_loses_nothing(void **state)
{
	(void)state;
	static uint8_t buf[60000], out[60000];
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = byte_at(i);
	path_daemon_await_sleep(&smcrd);
	assert_int_equal(write(fd, buf, 30000), 30000);
	assert_int_equal(write(fd, buf + 30000, 30000), 30000);
	close(fd);
	fd = -1;
	get(peer, out, sizeof(out));
	assert_memory_equal(buf, out, sizeof(out));
	assert_int_equal(raw_read(peer, out, 1), 0);
}

static void test_death_of_the_daemon_is_a_reset(void **state)
{
	(void)state;
	char buf[10];
	assert_int_equal(write(fd, "abc", 3), 3);
	get(peer, buf, 3);
	path_daemon_stop(&smcrd);
	assert_int_equal(read(fd, buf, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(write(fd, "abc", 3), -1);
	assert_int_equal(errno, EPIPE);
	close(fd);
	start(state);
}

/* The memory still has bytes, which the daemon, killed, has not taken away. */
static void test_nothing_comes_behind_a_reset(void **state)
{
	(void)state;
	static uint8_t data[20000], buf[sizeof(data)];
	ssize_t n;
	size_t got = 0;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = byte_at(i);
	put(peer, data, sizeof(data));
	await_bytes((int)sizeof(data));
	path_daemon_kill(&smcrd);
	while ((n = read(fd, buf + got, 1000)) > 0)
		got += (size_t)n;
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	assert_in_range(got, 1, sizeof(data) - 1);
	assert_memory_equal(buf, data, got);
	assert_int_equal(read(fd, buf, 1), 0);
	close(fd);
	start(state);
}

/* A call that wants more than one byte, and has got none, is told of a reset; the next call is
 * not. */
static void test_a_reset_is_told_once(void **state)
{
	(void)state;
	char buf[10];
	path_daemon_stop(&smcrd);
	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), 0);
	close(fd);
	start(state);
}

static void *wait_for_ten(void *arg)
{
	static char buf[10];
	ssize_t *n = arg;
	*n = recv(fd, buf, sizeof(buf), MSG_WAITALL);
	return NULL;
}

/* The kernel reports a reset once, and has done so to a call that had received some bytes already.
 */
static void test_a_reset_in_the_middle_of_a_call(void **state)
{
	(void)state;
	pthread_t thread;
	ssize_t n = -1;
	char buf[10];
	put(peer, "abc", 3);
	await_bytes(3);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ten, &n), 0);
	for (int left = 1; left > 0;)
		assert_int_equal(ioctl(fd, FIONREAD, &left), 0);
	usleep(20000);
	path_daemon_stop(&smcrd);
	pthread_join(thread, NULL);
	assert_int_equal(n, 3);
	assert_int_equal(read(fd, buf, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fd);
	start(state);
}

/* ---- descriptors and processes */

static bool has_memory(int of)
{
	struct pre_path *path = pre_path_concerns(of) ? pre_path_get(of) : NULL;
	if (path)
		pre_path_put(path);
	return path;
}

static void test_copies_of_a_descriptor(void **state)
{
	(void)state;
	char buf[10];
	int a = dup(fd), b = fcntl(fd, F_DUPFD_CLOEXEC, 100), c = dup2(fd, 200),
	    d = dup3(a, 201, 0);
	assert_true(has_memory(a) && has_memory(b) && has_memory(c) && has_memory(d));
	assert_int_equal(write(a, "a", 1), 1);
	assert_int_equal(write(d, "d", 1), 1);
	close(fd);
	assert_false(has_memory(fd));
	assert_int_equal(write(b, "b", 1), 1);
	get(peer, buf, 3);
	assert_memory_equal(buf, "adb", 3);
	assert_int_equal(dup2(peer, c), c); /* another file takes the number */
	assert_false(has_memory(c));
	assert_int_equal(close_range(100, 201, 0), 0);
	assert_false(has_memory(b) || has_memory(d));
	fd = a;
	put(peer, "x", 1);
	assert_int_equal(read(fd, buf, 10), 1);
}

/* The descriptor is closed behind the library's back, and its number used again. */
static void test_stale_entries(void **state)
{
	(void)state;
	char buf[10];
	int ends[2], keep = fcntl(fd, F_DUPFD_CLOEXEC, 300);
	put(peer, "stale", 5);
	await_bytes(5);
	assert_int_equal(syscall(SYS_close, fd), 0);
	int file = (int)syscall(SYS_memfd_create, "file", 0);
	assert_int_equal(file, fd);
	assert_int_equal(write(file, "file", 4), 4);
	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	assert_int_equal(pre_path_adopt(fd, smcrd.memfd, &smcrd.granted),
			 0); /* makes the entry stale again */
	assert_int_equal(read(file, buf, 10), 4);
	assert_memory_equal(buf, "file", 4);
	assert_int_equal(pre_path_adopt(fd, smcrd.memfd, &smcrd.granted), 0);
	assert_int_equal(syscall(SYS_close, fd), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(ends[0], fd);
	assert_false(has_memory(fd));
	close(ends[0]);
	close(ends[1]);
	fd = keep;
	assert_int_equal(read(fd, buf, 10), 5);
}

static void test_both_go_on_after_a_fork(void **state)
{
	(void)state;
	uint8_t out[4000];
	unsigned int count[2] = { 0 };
	pid_t child = fork();
	assert_true(child >= 0);
	for (int i = 0; i < 1000; i++)
		if (write(fd, child ? "pp" : "cc", 2) != 2)
			_exit(1);
	if (child == 0)
		_exit(0);
	get(peer, out, sizeof(out));
	for (size_t i = 0; i < sizeof(out); i += 2) {
		assert_int_equal(out[i], out[i + 1]); /* small writes are not torn */
		count[out[i] == 'p']++;
	}
	assert_int_equal(count[0], 1000);
	assert_int_equal(count[1], 1000);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	put(peer, "x", 1);
	assert_int_equal(read(fd, out, 10), 1);
}

/* A program without the library, after exec, posix_spawn or vfork: cat sends back what it reads. */
static void test_a_child_without_the_library(void **state)
{
	(void)state;
	static uint8_t buf[500000], out[500000];
	struct stream s = { .fd = peer, .sends = true, .random = { 8 }, .end = sizeof(buf) };
	assert_int_equal(write(fd, "mine", 4), 4);
	put(peer, "yours", 5);
	assert_int_equal(recv(fd, out, 5, MSG_WAITALL), 5);
	pid_t child = vfork();
	if (child == 0) {
		syscall(SYS_dup3, fd, 0, 0);
		syscall(SYS_dup3, fd, 1, 0);
		execlp("cat", "cat", NULL);
		_exit(127);
	}
	assert_true(child > 0);
	assert_int_equal(pthread_create(&s.thread, NULL, move, &s), 0);
	get(peer, out, 4);
	assert_memory_equal(out, "mine", 4);
	get(peer, out, sizeof(out));
	for (size_t i = 0; i < sizeof(out); i++)
		assert_int_equal(out[i], byte_at(i));
	pthread_join(s.thread, NULL);
	shutdown(peer, SHUT_WR);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(write(fd, "mine", 4), 4);
	get(peer, out, 4);
}

static void *get_until_end(void *arg)
{
	uint8_t last[3] = { 0 };
	while (memcmp(last, "end", 3) != 0) {
		last[0] = last[1];
		last[1] = last[2];
		if (raw_read(peer, &last[2], 1) != 1)
			return NULL;
	}
	return arg;
}

static void test_killed_at_any_moment(void **state)
{
	(void)state;
	static uint8_t buf[RING], out[2 * RING];
	struct random random = { 12 };
	for (int round = 0; round < 20; round++) {
		pid_t child = fork();
		if (child == 0) {
			/* All bytes are equal, so that it does not matter how many arrive. */
			memset(buf, 'k', sizeof(buf));
			for (;;) {
				write(fd, buf, 1 + random_below(&random, 3000));
				recv(fd, buf, 1, MSG_DONTWAIT);
			}
		}
		assert_true(child > 0);
		for (uint32_t i = random_below(&random, 200); i > 0; i--)
			recv(peer, out, sizeof(out), MSG_DONTWAIT);
		usleep(random_below(&random, 3000));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	/* The process that is left can send and receive everything. */
	pthread_t thread;
	void *found;
	assert_int_equal(pthread_create(&thread, NULL, get_until_end, &smcrd), 0);
	assert_int_equal(write(fd, "end", 3), 3);
	assert_int_equal(pthread_join(thread, &found), 0);
	assert_non_null(found);
	put(peer, "x", 1);
	assert_int_equal(read(fd, out, 1), 1);
}

/* A small write to a daemon that sleeps is one system call: the program may have forbidden itself
 * all others. */
static void test_who_may_only_write_writes(void **state)
{
	(void)state;
	path_daemon_await_sleep(&smcrd);
	pre_net_write_confined(fd, peer);
}

/* ---- sendfile() */

static void test_sendfile(void **state)
{
	(void)state;
	static uint8_t out[400000];
	struct stream s = { .fd = peer, .random = { 4 }, .end = sizeof(out) };
	int file = memfd_create("file", MFD_CLOEXEC);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = byte_at(i);
	put(file, out, sizeof(out));
	assert_int_equal(pthread_create(&s.thread, NULL, move, &s), 0);
	off_t offset = 0;
	assert_int_equal(sendfile(fd, file, &offset, 150000), 150000);
	assert_int_equal(offset, 150000);
	assert_int_equal(lseek(file, 150000, SEEK_SET), 150000);
	path_daemon_await_sleep(&smcrd);
	assert_true(smcrd.from_memory > 0); /* not by the kernel alone */
	while (lseek(file, 0, SEEK_CUR) < (off_t)sizeof(out))
		assert_true(sendfile(fd, file, NULL, sizeof(out)) > 0);
	assert_int_equal(sendfile(fd, file, NULL, 10), 0);
	pthread_join(s.thread, NULL);
	assert_false(s.failed);
	close(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_streams),
		TEST(test_streams_with_outsiders),
		cmocka_unit_test_setup_teardown(test_streams_with_outsiders, start_odd, stop),
		TEST(test_a_head_makes_it_readable),
		TEST(test_fionread_counts_both),
		TEST(test_bytes_that_were_told_are_there),
		TEST(test_edges),
		TEST(test_oneshot_and_exclusive),
		TEST(test_writable_when_there_is_room),
		TEST(test_limits_and_signals),
		TEST(test_a_reader_that_waits_is_woken),
		TEST(test_waitall),
		TEST(test_low_water_mark),
		TEST(test_heads_grow),
		TEST(test_longjmp_out_of_reads),
		TEST(test_a_writer_left_with_the_lock),
		TEST(test_cancellation),
		TEST(test_end_of_file_comes_last),
		TEST(test_shutdown_ends_writing),
		TEST(test_close_loses_nothing),
		TEST(test_death_of_the_daemon_is_a_reset),
		TEST(test_nothing_comes_behind_a_reset),
		TEST(test_a_reset_is_told_once),
		TEST(test_a_reset_in_the_middle_of_a_call),
		TEST(test_copies_of_a_descriptor),
		TEST(test_stale_entries),
		TEST(test_both_go_on_after_a_fork),
		TEST(test_a_child_without_the_library),
		TEST(test_killed_at_any_moment),
		TEST(test_who_may_only_write_writes),
		TEST(test_sendfile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
