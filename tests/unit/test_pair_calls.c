/* SPDX-License-Identifier: MIT */
/* What the kernel is asked to do for the pair between a program and the daemon: each call may fail,
 * and queues have the sizes that the data path counts on. The Makefile links this test so that
 * these calls are those below. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/conns/pair.h"
#include "tests/lib/tries.h"

int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __real_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __real_sendfile(int out, int in, off_t *offset, size_t len);
int __real_memfd_create(const char *name, unsigned int flags);
int __real_ftruncate(int fd, off_t len);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_sendfile(int out, int in, off_t *offset, size_t len);
int __wrap_memfd_create(const char *name, unsigned int flags);
int __wrap_ftruncate(int fd, off_t len);

static const char *failing; /* the call that fails with `error`, or whose result is 0; NULL: none */
static int error;
static unsigned int interrupts; /* how often sendfile() is interrupted first */

static bool fails(const char *call)
{
	if (!failing || strcmp(call, failing) != 0)
		return false;
	errno = error;
	return true;
}

int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
	return fails("socketpair") ? -1 : __real_socketpair(domain, type, protocol, ends);
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return fails("bind") ? -1 : __real_bind(fd, addr, len);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	bool is_cookie = level == SOL_SOCKET && name == SO_COOKIE;
	return is_cookie && fails("cookie") ? -1 : __real_getsockopt(fd, level, name, value, len);
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	return fails("send") ? -1 : __real_send(fd, buf, len, flags);
}

ssize_t __wrap_sendfile(int out, int in, off_t *offset, size_t len)
{
	if (interrupts > 0) {
		interrupts--;
		errno = EINTR;
		return -1;
	}
	if (fails("sendfile"))
		return error ? -1 : 0;
	return __real_sendfile(out, in, offset, len);
}

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	return fails("memfd_create") ? -1 : __real_memfd_create(name, flags);
}

int __wrap_ftruncate(int fd, off_t len)
{
	return fails("ftruncate") ? -1 : __real_ftruncate(fd, len);
}

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	unsigned int n = 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int try_pair(int plug_fd, struct pair *ret_pair, int *ret_program)
{
	static uint32_t id;
	const struct ipc_pair_name name = { .local.in.sin_family = AF_INET,
					    .peer.in.sin_family = AF_INET,
					    .id = ((uint64_t)getpid() << 32) + ++id };
	return pair_open(&name, plug_fd, ret_pair, ret_program);
}

static void each_error_is_told(void **state)
{
	(void)state;
	static const struct {
		const char *call;
		int error, told;
	} rows[] = {
		{ "socketpair", EMFILE, EMFILE },       { "bind", EADDRINUSE, EADDRINUSE },
		{ "cookie", ENOPROTOOPT, ENOPROTOOPT }, { "send", ENOBUFS, ENOBUFS },
		{ "sendfile", ENOMEM, ENOMEM },         { "sendfile", 0, EIO },
	};
	int plug_fd = pair_plug_file();
	assert_true(plug_fd >= 0);
	unsigned int open = descriptors();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu, %s", i, rows[i].call);
		struct pair pair = { .fd = -9 };
		int program = -9;
		failing = rows[i].call;
		error = rows[i].error;
		assert_int_equal(try_pair(plug_fd, &pair, &program), -rows[i].told);
		failing = NULL;
		assert_int_equal(pair.fd, -9);
		assert_int_equal(program, -9);
		assert_int_equal(descriptors(), open);
	}
	static const char *const of_plug[] = { "memfd_create", "ftruncate" };
	for (int i = 0; i < 2; i++) {
		TRIES("%s", of_plug[i]);
		failing = of_plug[i];
		error = EMFILE;
		assert_int_equal(pair_plug_file(), -EMFILE);
		failing = NULL;
		assert_int_equal(descriptors(), open);
	}
	close(plug_fd);
}

/* A signal does not keep a pair from being plugged. */
static void interrupted_plugs_go_on(void **state)
{
	(void)state;
	struct pair pair;
	int program, plug_fd = pair_plug_file();
	interrupts = 3;
	assert_int_equal(try_pair(plug_fd, &pair, &program), 0);
	assert_int_equal(interrupts, 0);
	assert_int_equal(send(program, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EAGAIN);
	pair_unplug(&pair);
	assert_int_equal(send(program, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
	close(program);
	pair_reset(&pair);
	close(plug_fd);
}

static int queue_of(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len), 0);
	return bytes;
}

/* The queue of a program that shares memory gets small, so that it soon returns to the memory. But
 * not while so much is queued that nothing would fit then. */
static void a_narrow_queue(void **state)
{
	(void)state;
	static char block[512 * 1024];
	for (int large = 0; large < 2; large++) {
		TRIES("large %d", large);
		struct pair pair;
		int program;
		assert_int_equal(try_pair(-1, &pair, &program), 0);
		int before = queue_of(program);
		size_t len = large ? sizeof(block) : 1;
		assert_int_equal(send(program, block, len, 0), len);
		struct iovec iov = { block, sizeof(block) };
		if (!large)
			assert_int_equal(pair_read(&pair, &iov, 1), 1);
		pair_narrow(&pair, program);
		if (large)
			assert_int_equal(queue_of(program), before);
		else
			assert_true(queue_of(program) < before / 4);
		assert_int_equal(send(program, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
		pair_widen(&pair, program); /* not while the program shares memory */
		if (!large)
			assert_true(queue_of(program) < before / 4);
		close(program);
		pair_reset(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_error_is_told),
		cmocka_unit_test(interrupted_plugs_go_on),
		cmocka_unit_test(a_narrow_queue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
