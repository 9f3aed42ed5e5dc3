/* SPDX-License-Identifier: MIT */
/* The functions behind the interposed ones before the library has found them: system calls. This
 * program's constructor runs before that of the library, as those of other libraries may. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/smcr/next.h"

static struct pre_next early;

__attribute__((constructor(101))) static void keep_early(void)
{
	early = pre_next;
}

static bool is_open(int fd)
{
	return syscall(SYS_fcntl, fd, F_GETFD) >= 0;
}

static void test_they_are_system_calls(void **state)
{
	(void)state;
	/* a constructor of the library has found the C library's */
	assert_ptr_not_equal(early.connect, pre_next.connect);
	assert_ptr_not_equal(early.close, pre_next.close);
	assert_int_equal(early.connect(-1, NULL, 0), -1);
	assert_int_equal(errno, EBADF);
}

static void expect(int to, const char *text)
{
	char buf[64];
	ssize_t len = (ssize_t)strlen(text);
	assert_int_equal(early.read(to, buf, sizeof(buf)), len);
	assert_memory_equal(buf, text, (size_t)len);
}

static void test_bytes(void **state)
{
	(void)state;
	int pair[2] = { -1, -1 };
	char buf[64];
	assert_int_equal(early.socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(early.write(pair[0], "write", 5), 5);
	expect(pair[1], "write");
	struct iovec out[2] = { { (void *)(uintptr_t) "wri", 3 },
				{ (void *)(uintptr_t) "tev", 3 } };
	assert_int_equal(early.writev(pair[0], out, 2), 6);
	struct iovec in[2] = { { buf, 2 }, { buf + 2, 10 } };
	assert_int_equal(early.readv(pair[1], in, 2), 6);
	assert_memory_equal(buf, "writev", 6);
	assert_int_equal(early.send(pair[0], "send", 4, 0), 4);
	assert_int_equal(early.recv(pair[1], buf, sizeof(buf), MSG_PEEK), 4);
	assert_int_equal(early.recv(pair[1], buf, sizeof(buf), 0), 4);
	assert_memory_equal(buf, "send", 4);
	assert_int_equal(early.sendto(pair[0], "sendto", 6, MSG_DONTWAIT, NULL, 0), 6);
	assert_int_equal(early.recvfrom(pair[1], buf, 3, MSG_DONTWAIT, NULL, NULL), 3);
	expect(pair[1], "dto");
	struct msghdr msg = { .msg_iov = out, .msg_iovlen = 2 };
	assert_int_equal(early.sendmsg(pair[0], &msg, 0), 6);
	msg.msg_iov = in;
	assert_int_equal(early.recvmsg(pair[1], &msg, 0), 6);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	off_t at = 1;
	assert_int_equal(early.sendfile(pair[0], file, &at, 3), 3);
	assert_int_equal(at, 4);
	expect(pair[1], "ELF");
	int waiting = -1;
	assert_int_equal(early.write(pair[0], "xy", 2), 2);
	assert_int_equal(early.ioctl(pair[1], FIONREAD, &waiting), 0);
	assert_int_equal(waiting, 2);
	assert_int_equal(early.shutdown(pair[0], SHUT_WR), 0);
	expect(pair[1], "xy");
	assert_int_equal(early.read(pair[1], buf, 1), 0);
	close(file);
	assert_int_equal(early.close(pair[0]), 0);
	assert_int_equal(early.close(pair[1]), 0);
	assert_false(is_open(pair[0]) || is_open(pair[1]));
}

static void test_connections(void **state)
{
	(void)state;
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
			   found = { 0 };
	socklen_t len = sizeof(found);
	int listener = early.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), value = 0;
	assert_true(listener >= 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(early.listen(listener, 4), 0);
	assert_int_equal(early.getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	assert_int_not_equal(addr.sin_port, 0);
	for (int way = 0; way < 2; way++) {
		int client = early.socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(early.connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
		len = sizeof(found);
		assert_int_equal(early.getpeername(client, (struct sockaddr *)&found, &len), 0);
		assert_int_equal(found.sin_port, addr.sin_port);
		len = sizeof(found);
		int fd = way ? early.accept4(listener, (struct sockaddr *)&found, &len,
					     SOCK_CLOEXEC | SOCK_NONBLOCK)
			     : early.accept(listener, (struct sockaddr *)&found, &len);
		assert_true(fd >= 0);
		assert_int_equal(found.sin_family, AF_INET);
		assert_int_equal(early.fcntl(fd, F_GETFD), way ? FD_CLOEXEC : 0);
		assert_int_equal(early.fcntl64(fd, F_GETFL) & O_NONBLOCK, way ? O_NONBLOCK : 0);
		early.close(fd);
		early.close(client);
	}
	const int on = 1;
	assert_int_equal(early.setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	len = sizeof(value);
	assert_int_equal(early.getsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &value, &len), 0);
	assert_int_equal(value, 1);
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN };
	assert_int_equal(early.epoll_ctl(epfd, EPOLL_CTL_ADD, listener, &event), 0);
	assert_int_equal(early.epoll_ctl(epfd, EPOLL_CTL_ADD, listener, &event), -1);
	assert_int_equal(errno, EEXIST);
	early.close(epfd);
	early.close(listener);
}

static void test_descriptors(void **state)
{
	(void)state;
	int fd = early.dup(STDERR_FILENO);
	assert_true(fd > STDERR_FILENO);
	assert_int_equal(early.fcntl(fd, F_DUPFD_CLOEXEC, 200), 200);
	assert_int_equal(early.dup2(fd, 201), 201);
	assert_int_equal(early.fcntl(201, F_GETFD), 0);
	assert_int_equal(early.dup3(fd, 202, O_CLOEXEC), 202);
	assert_int_equal(early.fcntl(202, F_GETFD), FD_CLOEXEC);
	/* dup2() of a number to itself only asks whether it is open */
	assert_int_equal(early.dup2(202, 202), 202);
	assert_int_equal(early.fcntl(202, F_GETFD), FD_CLOEXEC);
	assert_int_equal(early.dup2(203, 203), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(early.close_range(200, 200, 0), 0);
	assert_false(is_open(200));
	assert_true(is_open(201));
	early.closefrom(201);
	assert_false(is_open(201) || is_open(202));
	assert_true(is_open(fd));
	assert_int_equal(early.close(fd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_they_are_system_calls),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_descriptors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
