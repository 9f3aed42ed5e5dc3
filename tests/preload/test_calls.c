/* SPDX-License-Identifier: MIT */
/* Calls that move data on a pair end without shared memory, compared with those on a TCP socket
 * where possible. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lists_to_send),
		TEST(test_lists_to_receive),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
