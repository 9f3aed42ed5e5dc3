/* SPDX-License-Identifier: MIT */
/* errno is the program's: a call that succeeds leaves it as it is, and a call that fails sets it,
 * whichever way the library takes for the call. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tests/lib/tries.h"
#include "tests/preload/fixture.h"

#define UNTOUCHED 77

static char block[1 << 20];

static ssize_t by_read(int fd, size_t len)
{
	return read(fd, block, len);
}

static ssize_t by_readv(int fd, size_t len)
{
	struct iovec iov[2] = { { block, len / 2 }, { block + len / 2, len - len / 2 } };
	return readv(fd, iov, 2);
}

static ssize_t by_recv(int fd, size_t len)
{
	return recv(fd, block, len, 0);
}

static ssize_t by_recv_waitall(int fd, size_t len)
{
	return recv(fd, block, len, MSG_WAITALL);
}

static ssize_t by_recv_trunc(int fd, size_t len)
{
	return recv(fd, NULL, len, MSG_TRUNC);
}

static ssize_t by_recvmsg(int fd, size_t len)
{
	struct iovec iov = { block, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	return recvmsg(fd, &msg, 0);
}

static ssize_t by_write(int fd, size_t len)
{
	return write(fd, block, len);
}

static ssize_t by_writev(int fd, size_t len)
{
	struct iovec iov[2] = { { block, len / 2 }, { block + len / 2, len - len / 2 } };
	return writev(fd, iov, 2);
}

static ssize_t by_send(int fd, size_t len)
{
	return send(fd, block, len, MSG_NOSIGNAL);
}

static ssize_t by_sendto(int fd, size_t len)
{
	return sendto(fd, block, len, MSG_NOSIGNAL, &server.sa, pre_net_len(&server));
}

static ssize_t by_sendmsg(int fd, size_t len)
{
	struct iovec iov = { block, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	return sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static int file = -1;

static ssize_t by_sendfile(int fd, size_t len)
{
	off_t at = 0;
	return sendfile(fd, file, &at, len);
}

static const struct {
	const char *name;
	ssize_t (*call)(int fd, size_t len);
} receive_ways[] = {
	{ "read", by_read },           { "readv", by_readv },
	{ "recv", by_recv },           { "MSG_WAITALL", by_recv_waitall },
	{ "MSG_TRUNC", by_recv_trunc }, { "recvmsg", by_recvmsg },
}, send_ways[] = {
	{ "write", by_write },   { "writev", by_writev },   { "send", by_send },
	{ "sendto", by_sendto }, { "sendmsg", by_sendmsg }, { "sendfile", by_sendfile },
};

/* A pair end that does not block, and the socket at its far end. */
static int pair_end(int *ret_peer)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	*ret_peer = pre_net_accept_plain(listener);
	return fd;
}

static void test_receiving(void **state)
{
	(void)state;
	int peer, fd = pair_end(&peer);
	for (size_t i = 0; i < sizeof(receive_ways) / sizeof(receive_ways[0]); i++) {
		TRIES("%s", receive_ways[i].name);
		errno = UNTOUCHED;
		assert_int_equal(receive_ways[i].call(fd, 8), -1);
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(send(peer, "8 bytes.more", 12, 0), 12);
		assert_int_equal(pre_net_wait(fd, POLLIN), POLLIN);
		errno = UNTOUCHED;
		assert_int_equal(receive_ways[i].call(fd, 8), 8);
		assert_int_equal(errno, UNTOUCHED);
		assert_int_equal(recv(fd, block, sizeof(block), 0), 4);
		assert_memory_equal(block, "more", 4);
	}
	close(peer);
	assert_true(pre_net_wait(fd, POLLIN) & POLLIN);
	for (size_t i = 0; i < sizeof(receive_ways) / sizeof(receive_ways[0]); i++) {
		TRIES("%s at the end", receive_ways[i].name);
		errno = ECONNRESET; /* of an earlier call */
		assert_int_equal(receive_ways[i].call(fd, 8), 0);
		assert_int_equal(errno, ECONNRESET);
	}
	close(fd);
}

static void test_sending(void **state)
{
	(void)state;
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(file >= 0);
	for (size_t i = 0; i < sizeof(send_ways) / sizeof(send_ways[0]); i++) {
		int peer, fd = pair_end(&peer);
		ssize_t n;
		size_t sent = 0;
		TRIES("%s", send_ways[i].name);
		errno = UNTOUCHED;
		assert_int_equal(send_ways[i].call(fd, 8), 8);
		assert_int_equal(errno, UNTOUCHED);
		/* until all queues on the way are full */
		for (struct pollfd pfd = { .fd = fd, .events = POLLOUT };
		     poll(&pfd, 1, 100) == 1 || sent == 0;) {
			errno = UNTOUCHED;
			n = send_ways[i].call(fd, 200000);
			assert_int_equal(errno, n < 0 ? EAGAIN : UNTOUCHED);
			sent += n > 0 ? (size_t)n : 0;
		}
		errno = UNTOUCHED;
		do
			n = send_ways[i].call(fd, 200000);
		while (n > 0);
		assert_int_equal(n, -1);
		assert_int_equal(errno, EAGAIN);
		close(fd);
		close(peer);
	}
	close(file);
}

static void test_options_and_names(void **state)
{
	(void)state;
	int peer, fd = pair_end(&peer), value = 0, on = 1;
	union ipc_addr addr;
	socklen_t len = sizeof(value);
	errno = UNTOUCHED;
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 60 }, sizeof(int)), 0);
	len = sizeof(addr);
	assert_int_equal(getsockname(fd, &addr.sa, &len), 0);
	len = sizeof(addr);
	assert_int_equal(getpeername(fd, &addr.sa, &len), 0);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_int_equal(errno, UNTOUCHED);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 0 }, sizeof(int)), -1);
	assert_int_equal(errno, EINVAL);
	errno = UNTOUCHED;
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(peer), 0);
	assert_int_equal(errno, UNTOUCHED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_receiving),
		TEST(test_sending),
		TEST(test_options_and_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
