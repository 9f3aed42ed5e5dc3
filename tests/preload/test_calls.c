/* SPDX-License-Identifier: MIT */
/* Calls that move data on a pair end without shared memory, compared with those on a TCP socket
 * where possible. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/preload/inherit.h"
#include "lib/preload/send_all.h"
#include "lib/preload/wait_all.h"
#include "lib/smcr/path.h"
#include "tests/lib/tries.h"
#include "tests/preload/fixture.h"

static int connected(enum ipc_negotiated negotiated, int family)
{
	pre_net_option.negotiated = negotiated;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), family);
	return fd;
}

static int pair_end(void)
{
	return connected(IPC_NEGOTIATED_YES, AF_UNIX);
}

static int plain_tcp(void)
{
	return connected(IPC_NEGOTIATED_NO, AF_INET);
}

/* A pair end whose daemon is the test. @param ret_far  the daemon's end */
static int own_pair(int *ret_far)
{
	const struct ipc_pair_name name = { .id = 1, .local = server, .peer = server };
	struct sockaddr_un addr;
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	socklen_t len = (socklen_t)ipc_pair_name_encode(&name, &addr, sizeof(addr));
	assert_int_equal(bind(ends[0], (struct sockaddr *)&addr, len), 0);
	pre_path_note_pair(ends[0]);
	*ret_far = ends[1];
	return ends[0];
}

/* ---- addresses where nothing is */

static ssize_t result_of(ssize_t n)
{
	return n < 0 ? -errno : n;
}

static ssize_t send_list(int fd, const void *list, int way)
{
	const struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)list, .msg_iovlen = 2 };
	switch (way) {
	case 0: return result_of(writev(fd, list, 2));
	case 1: return result_of(sendmsg(fd, list, MSG_NOSIGNAL));
	default: return result_of(sendmsg(fd, &msg, MSG_NOSIGNAL));
	}
}

static ssize_t receive_list(int fd, void *list, int flags, int way)
{
	struct msghdr msg = { .msg_iov = list, .msg_iovlen = 2 };
	flags |= MSG_DONTWAIT;
	return result_of(way == 0 ? recvmsg(fd, list, flags) : recvmsg(fd, &msg, flags));
}

/* The library reads the list of pieces where it sends a long one in parts. To ask the kernel first
 * would cost every call; so only addresses that nobody has are told apart. */
static void test_lists_to_send(void **state)
{
	(void)state;
	static const intptr_t nowhere[] = { 0, 8, -1, INTPTR_MIN };
	int pair = pair_end(), tcp = plain_tcp();
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
		for (int way = 0; way < 3; way++) {
			TRIES("%#zx, way %d", (size_t)nowhere[i], way);
			const void *list = (const void *)nowhere[i];
			assert_int_equal(send_list(tcp, list, way), -EFAULT);
			assert_int_equal(send_list(pair, list, way), -EFAULT);
		}
	close(pair);
	close(tcp);
}

/* A page that cannot be read is found too, where the library receives for the program. */
static void test_lists_to_receive(void **state)
{
	(void)state;
	static const int flags[] = { 0, MSG_WAITALL, MSG_TRUNC, MSG_ERRQUEUE };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *room = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(room != MAP_FAILED);
	assert_int_equal(mprotect(room + page, page, PROT_NONE), 0);
	void *const nowhere[] = { (void *)8, (void *)-1, room + page, room + page - 16 };
	int pair = pair_end(), tcp = plain_tcp();
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
		for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
			for (int way = 0; way < 2; way++) {
				TRIES("%p, flags %#x, way %d", nowhere[i], (unsigned)flags[f], way);
				assert_int_equal(receive_list(tcp, nowhere[i], flags[f], way),
						 -EFAULT);
				assert_int_equal(receive_list(pair, nowhere[i], flags[f], way),
						 -EFAULT);
			}
	munmap(room, 2 * page);
	close(pair);
	close(tcp);
}

/* ---- SO_SNDTIMEO */

#define LONG     (4u << 20)
#define LIMIT_US 200000
#define PAUSE_US 20000

/* A pair end whose daemon takes one part at a time, and only while the pair is full. */
struct slow_pair {
	int end, far;
	atomic_bool ended;
	pthread_t reader;
};

static bool is_full(int fd)
{
	return pre_net_poll_now(fd, POLLOUT) == 0;
}

static void *read_slowly(void *arg)
{
	struct slow_pair *pair = arg;
	static char part[SEND_ALL_PART];
	while (!atomic_load(&pair->ended)) {
		usleep(PAUSE_US);
		if (is_full(pair->end))
			recv(pair->far, part, sizeof(part), MSG_DONTWAIT);
	}
	return NULL;
}

static void slow_pair_start(struct slow_pair *pair)
{
	const struct timeval limit = { .tv_usec = LIMIT_US };
	pair->end = own_pair(&pair->far);
	assert_int_equal(setsockopt(pair->end, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	atomic_store(&pair->ended, false);
	assert_int_equal(pthread_create(&pair->reader, NULL, read_slowly, pair), 0);
}

static void slow_pair_stop(struct slow_pair *pair)
{
	atomic_store(&pair->ended, true);
	pthread_join(pair->reader, NULL);
	close(pair->end);
	close(pair->far);
}

static ssize_t send_long(int fd, int file, enum send_all_way way, bool sends_file)
{
	static char bytes[LONG];
	struct iovec iov[] = { { bytes, LONG / 2 }, { bytes, LONG / 2 } };
	const struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	if (sends_file)
		return sendfile(fd, file, NULL, LONG);
	switch (way) {
	case SEND_ALL_SEND: return send(fd, bytes, LONG, MSG_NOSIGNAL);
	case SEND_ALL_SENDMSG: return sendmsg(fd, &msg, MSG_NOSIGNAL);
	case SEND_ALL_WRITE: return write(fd, bytes, LONG);
	case SEND_ALL_WRITEV: break;
	}
	return writev(fd, iov, 2);
}

/* Each wait is shorter than the limit, all of them together are longer. The call ends with what it
 * has sent, as with TCP. */
static void test_limit_of_a_long_send(void **state)
{
	(void)state;
	int file = memfd_create("long", 0);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, LONG), 0);
	for (int way = 0; way <= SEND_ALL_WRITEV + 1; way++) {
		struct slow_pair pair;
		TRIES("way %d", way);
		slow_pair_start(&pair);
		const ssize_t n =
			send_long(pair.end, file, (enum send_all_way)way, way > SEND_ALL_WRITEV);
		slow_pair_stop(&pair);
		assert_true(n > 0);
		assert_true(n < (ssize_t)LONG);
	}
	close(file);
}

/* ---- SO_RCVLOWAT */

enum receive_way { BY_READ, BY_READV, BY_RECV, BY_RECVFROM, BY_RECVMSG, BY_RECV_ALL, WAYS };

static ssize_t receive_by(int fd, enum receive_way way, char *buf, size_t len)
{
	struct iovec iov[] = { { buf, 2 }, { buf + 2, len - 2 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct sockaddr_storage addr;
	socklen_t addr_len = sizeof(addr);
	switch (way) {
	case BY_READ: return read(fd, buf, len);
	case BY_READV: return readv(fd, iov, 2);
	case BY_RECV: return recv(fd, buf, len, 0);
	case BY_RECVFROM: return recvfrom(fd, buf, len, 0, (struct sockaddr *)&addr, &addr_len);
	case BY_RECVMSG: return recvmsg(fd, &msg, 0);
	case BY_RECV_ALL:
	case WAYS: break;
	}
	return recv(fd, buf, len, MSG_WAITALL);
}

static int low_pair(int low, int *ret_far)
{
	int end = own_pair(ret_far);
	assert_int_equal(setsockopt(end, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)), 0);
	return end;
}

/* The daemon has bytes unread when it closes, as always: a reset. */
static void reset(int end, int far)
{
	assert_int_equal(send(end, "x", 1, MSG_NOSIGNAL), 1);
	close(far);
}

static void *reset_when_read(void *arg)
{
	const int *ends = arg;
	int unread;
	do
		assert_int_equal(ioctl(ends[0], FIONREAD, &unread), 0);
	while (unread > 0 && usleep(1000) == 0);
	reset(ends[0], ends[1]);
	return NULL;
}

/* The call that waits for more bytes gets those that have come. The next one gets the reset. */
static void test_reset_below_the_low_mark(void **state)
{
	(void)state;
	for (int way = 0; way < WAYS; way++)
		for (int waits = 0; waits < 2; waits++) {
			char buf[64];
			int ends[2];
			pthread_t thread;
			TRIES("way %d, %s", way, waits ? "waits" : "has come");
			ends[0] = low_pair(10, &ends[1]);
			assert_int_equal(send(ends[1], "abc", 3, 0), 3);
			if (!waits)
				reset(ends[0], ends[1]);
			else
				assert_int_equal(
					pthread_create(&thread, NULL, reset_when_read, ends), 0);
			assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 20), 3);
			assert_memory_equal(buf, "abc", 3);
			if (waits)
				pthread_join(thread, NULL);
			assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 20), -1);
			assert_int_equal(errno, ECONNRESET);
			assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 20), 0);
			close(ends[0]);
		}
}

static void *send_and_reset(void *arg)
{
	const int *ends = arg;
	assert_int_equal(send(ends[1], "abc", 3, 0), 3);
	reset(ends[0], ends[1]);
	return NULL;
}

/* A peek is left to the kernel, whatever it waits for: it ends with the bytes that have come, and
 * does not look at the error behind them. */
static void test_a_peek_leaves_the_reset(void **state)
{
	(void)state;
	for (int all = 0; all < 2; all++) {
		const int flags = all ? MSG_WAITALL : 0;
		char buf[64];
		int ends[2];
		pthread_t thread;
		TRIES("%s", all ? "MSG_WAITALL" : "low mark");
		ends[0] = low_pair(all ? 1 : 10, &ends[1]);
		assert_int_equal(pthread_create(&thread, NULL, send_and_reset, ends), 0);
		assert_int_equal(recv(ends[0], buf, 20, MSG_PEEK | flags), 3);
		pthread_join(thread, NULL);
		assert_int_equal(recv(ends[0], buf, 20, MSG_PEEK | flags), 3);
		assert_int_equal(recv(ends[0], buf, 20, flags), 3);
		assert_memory_equal(buf, "abc", 3);
		assert_int_equal(recv(ends[0], buf, 20, MSG_PEEK | flags), -1);
		assert_int_equal(errno, ECONNRESET);
		close(ends[0]);
	}
}

static void *send_rest(void *arg)
{
	const int *ends = arg;
	int unread;
	do
		assert_int_equal(ioctl(ends[0], FIONREAD, &unread), 0);
	while (unread > 0 && usleep(1000) == 0);
	assert_int_equal(send(ends[1], "defghijklmnopqrstuvwxyz", 23, 0), 23);
	return NULL;
}

static void test_low_mark(void **state)
{
	(void)state;
	for (int way = 0; way < WAYS; way++) {
		char buf[64];
		int ends[2];
		pthread_t thread;
		TRIES("way %d", way);
		ends[0] = low_pair(10, &ends[1]);
		assert_int_equal(send(ends[1], "abc", 3, 0), 3);
		assert_int_equal(pthread_create(&thread, NULL, send_rest, ends), 0);
		assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 20), 20);
		assert_memory_equal(buf, "abcdefghijklmnopqrst", 20);
		pthread_join(thread, NULL);
		/* The buffer is smaller than the low mark, and then end of file comes. */
		assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 4), 4);
		assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
		assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 20), 2);
		assert_int_equal(receive_by(ends[0], (enum receive_way)way, buf, 20), 0);
		close(ends[0]);
		close(ends[1]);
	}
}

/* What is there is received, if the call may not wait; and nothing gives EAGAIN. */
static void test_low_mark_without_waiting(void **state)
{
	(void)state;
	char buf[64];
	int far, end = low_pair(10, &far);
	assert_int_equal(fcntl(end, F_SETFL, O_NONBLOCK), 0);
	for (int way = 0; way < WAYS; way++) {
		TRIES("way %d", way);
		assert_int_equal(receive_by(end, (enum receive_way)way, buf, 20), -1);
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(send(far, "abc", 3, 0), 3);
		assert_int_equal(receive_by(end, (enum receive_way)way, buf, 20), 3);
	}
	close(far);
	close(end);
}

/* The program that had the pair end before exec has set it. */
static void test_low_mark_that_came_by_exec(void **state)
{
	(void)state;
	static const int low = 10;
	char buf[64];
	int far, end = own_pair(&far);
	assert_int_equal(syscall(SYS_setsockopt, end, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)),
			 0);
	atomic_store(&wait_all_low_used, false); /* as after exec */
	inherit_open();
	assert_int_equal(send(far, "abc", 3, 0), 3);
	reset(end, far);
	assert_int_equal(read(end, buf, 20), 3);
	assert_int_equal(read(end, buf, 20), -1);
	assert_int_equal(errno, ECONNRESET);
	close(end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lists_to_send),
		TEST(test_lists_to_receive),
		TEST(test_limit_of_a_long_send),
		TEST(test_reset_below_the_low_mark),
		TEST(test_a_peek_leaves_the_reset),
		TEST(test_low_mark),
		TEST(test_low_mark_without_waiting),
		TEST(test_low_mark_that_came_by_exec),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
