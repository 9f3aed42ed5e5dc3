/* SPDX-License-Identifier: MIT */
/* Calls that move data on a pair end without shared memory, compared with those on a TCP socket
 * where possible. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/preload/send_all.h"
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
	const struct ipc_pair_name name = { .id = 1, .local = server, .peer = server };
	struct sockaddr_un addr;
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	socklen_t len = (socklen_t)ipc_pair_name_encode(&name, &addr, sizeof(addr));
	assert_int_equal(bind(ends[0], (struct sockaddr *)&addr, len), 0);
	assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	pre_path_note_pair(ends[0]);
	pair->end = ends[0];
	pair->far = ends[1];
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lists_to_send),
		TEST(test_lists_to_receive),
		TEST(test_limit_of_a_long_send),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
