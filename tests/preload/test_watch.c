/* SPDX-License-Identifier: MIT */
/* The library's record of epoll registrations: what it keeps, what it forgets, and when it tells.
 */
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/watch.h"
#include "tests/preload/fixture.h"

static uint64_t cookie_of(int fd)
{
	uint64_t cookie;
	assert_int_equal(pre_cookie(fd, &cookie), 0);
	return cookie;
}

static struct epoll_event event(uint32_t events, uint64_t data)
{
	return (struct epoll_event){ .events = events, .data = { .u64 = data } };
}

static void test_set_change_drop(void **state)
{
	(void)state;
	struct pre_watch list[PRE_WATCH_MAX];
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	const uint64_t cookie = cookie_of(fd);
	struct epoll_event e = event(EPOLLIN | EPOLLET, 1);
	assert_int_equal(pre_watch_list(fd, cookie, list), 0);
	pre_watch_change(100, fd, &e);
	assert_int_equal(pre_watch_list(fd, cookie, list), 0);
	pre_watch_set(100, fd, cookie, &e);
	e = event(EPOLLOUT, UINT64_MAX);
	pre_watch_set(101, fd, cookie, &e);
	assert_int_equal(pre_watch_list(fd, cookie, list), 2);
	assert_int_equal(list[0].epfd, 100);
	assert_int_equal(list[0].event.events, EPOLLIN | EPOLLET);
	assert_int_equal(list[0].event.data.u64, 1);
	assert_int_equal(list[1].epfd, 101);
	assert_true(list[1].event.data.u64 == UINT64_MAX);
	/* A new registration of the same socket with the same epoll replaces the old one. */
	e = event(EPOLLRDHUP, 3);
	pre_watch_set(100, fd, cookie, &e);
	e = event(EPOLLIN, 4);
	pre_watch_change(101, fd, &e);
	assert_int_equal(pre_watch_list(fd, cookie, list), 2);
	assert_int_equal(list[0].event.events, EPOLLRDHUP);
	assert_int_equal(list[1].event.data.u64, 4);
	/* Another socket with that number has no registration. */
	assert_int_equal(pre_watch_list(fd, cookie + 1, list), 0);
	pre_watch_drop(100, fd);
	assert_int_equal(pre_watch_list(fd, cookie, list), 1);
	assert_int_equal(list[0].epfd, 101);
	pre_watch_forget(fd);
	assert_int_equal(pre_watch_list(fd, cookie, list), 0);
	close(fd);
}

/* Sockets closed without EPOLL_CTL_DEL leave stale entries, which are replaced when space is
 * needed.
 */
static void test_stale_entries_make_room(void **state)
{
	(void)state;
	struct pre_watch list[PRE_WATCH_MAX];
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	const struct epoll_event e = event(EPOLLIN, 7);
	uint64_t cookie = cookie_of(fd);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < PRE_WATCH_MAX; i++)
			pre_watch_set(200 + round * 10 + i, fd, cookie, &e);
		assert_int_equal(pre_watch_list(fd, cookie, list), PRE_WATCH_MAX);
		int other = pre_net_socket(AF_INET, SOCK_STREAM);
		assert_int_equal(dup2(other, fd), fd);
		close(other);
		cookie = cookie_of(fd);
	}
	assert_true(pre_watch_complete(fd));
	pre_watch_forget(fd);
	close(fd);
}

static void change(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = event(events, data);
	assert_int_equal(epoll_ctl(epfd, op, fd, &e), 0);
}

/* An epoll instance that was duplicated: what was registered by one number is changed and removed
 * by the other. When the socket is replaced, the last change holds. */
static void test_duplicated_instances(void **state)
{
	(void)state;
	struct epoll_event got[2];
	int epfd = epoll_create1(EPOLL_CLOEXEC), copy = dup(epfd);
	if (!sys_is_same(epfd, copy))
		skip(); /* a kernel or a container without kcmp() */
	int changed = pre_net_socket(AF_INET, SOCK_STREAM);
	int removed = pre_net_socket(AF_INET, SOCK_STREAM);
	int again = pre_net_socket(AF_INET, SOCK_STREAM);
	change(epfd, EPOLL_CTL_ADD, changed, EPOLLIN, 1);
	change(copy, EPOLL_CTL_MOD, changed, EPOLLOUT, 2);
	change(epfd, EPOLL_CTL_ADD, removed, EPOLLOUT, 3);
	change(copy, EPOLL_CTL_DEL, removed, 0, 0);
	change(epfd, EPOLL_CTL_ADD, again, EPOLLOUT, 4);
	change(copy, EPOLL_CTL_DEL, again, 0, 0);
	change(copy, EPOLL_CTL_ADD, again, EPOLLOUT, 5);
	for (int i = 0; i < 3; i++) {
		int fd = i == 0 ? changed : i == 1 ? removed : again;
		assert_int_equal(pre_net_connect(fd, &server), 0);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	}
	assert_int_equal(epoll_wait(epfd, got, 2, 0), 2);
	assert_int_equal(got[0].data.u64 + got[1].data.u64, 2 + 5);
	change(epfd, EPOLL_CTL_DEL, changed, 0, 0);
	change(epfd, EPOLL_CTL_DEL, again, 0, 0);
	assert_int_equal(epoll_wait(epfd, got, 2, 0), 0);
	close(changed);
	close(removed);
	close(again);
	close(copy);
	close(epfd);
}

/* The instance goes on under another number than the one by which the socket was registered. */
static void test_an_instance_with_another_number(void **state)
{
	(void)state;
	struct epoll_event got[2];
	int first = epoll_create1(EPOLL_CLOEXEC), fd = pre_net_socket(AF_INET, SOCK_STREAM);
	change(first, EPOLL_CTL_ADD, fd, EPOLLOUT, 6);
	int epfd = dup(first);
	close(first);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(epoll_wait(epfd, got, 2, 0), 1);
	assert_int_equal(got[0].data.u64, 6);
	change(epfd, EPOLL_CTL_MOD, fd, EPOLLIN, 7); /* the registration is the pair end's */
	assert_int_equal(epoll_wait(epfd, got, 2, 0), 0);
	change(epfd, EPOLL_CTL_DEL, fd, 0, 0);
	close(fd);
	close(epfd);
}

/* The library has not seen that a pair end was closed, as by fclose(), nor that another socket was
 * made, as by a raw system call. The registration of the new socket is kept all the same. */
static void test_a_number_that_is_used_again_unseen(void **state)
{
	(void)state;
	int epfd = epoll_create1(EPOLL_CLOEXEC), fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(syscall(SYS_close, fd), 0);
	assert_int_equal(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), fd);
	assert_true(pre_path_is_pair(fd)); /* as the library still has it */
	change(epfd, EPOLL_CTL_ADD, fd, EPOLLIN, 6);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	change(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT, 7); /* ENOENT if it had stayed behind */
	close(fd);
	close(epfd);
}

/* A registration that does not fit is not lost silently: the socket stays on TCP. This has to be
 * the last test in this program, because the number stays marked. */
static void test_overflow_is_told(void **state)
{
	(void)state;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	struct epoll_event e = event(EPOLLIN, 7);
	int epolls[PRE_WATCH_MAX + 1];
	for (int i = 0; i <= PRE_WATCH_MAX; i++) {
		assert_true(pre_watch_complete(fd));
		epolls[i] = epoll_create1(EPOLL_CLOEXEC);
		assert_int_equal(epoll_ctl(epolls[i], EPOLL_CTL_ADD, fd, &e), 0);
	}
	assert_false(pre_watch_complete(fd));
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(smcrd.script->sessions, 0);
	for (int i = 0; i <= PRE_WATCH_MAX; i++)
		close(epolls[i]);
	close(fd);
}

/* ---- threads that use the same bucket */

#define THREADS 4
#define ROUNDS  20000

struct worker {
	pthread_t thread;
	int fd;
	uint64_t cookie;
	int errors;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct pre_watch list[PRE_WATCH_MAX];
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct epoll_event e = event(i & 0x7fff, ~(uint64_t)i);
		pre_watch_set(w->fd, w->fd, w->cookie, &e);
		size_t count = pre_watch_list(w->fd, w->cookie, list);
		w->errors += count != 1 || list[0].epfd != w->fd ||
			     list[0].event.events != (i & 0x7fff) ||
			     list[0].event.data.u64 != ~(uint64_t)i;
		pre_watch_drop(w->fd, w->fd);
		w->errors += pre_watch_list(w->fd, w->cookie, list) != 0;
	}
	return NULL;
}

static void test_threads_share_a_bucket(void **state)
{
	(void)state;
	struct worker workers[THREADS] = { 0 };
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 600 + 4096 * THREADS)
		skip();
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < THREADS; i++) {
		int fd = pre_net_socket(AF_INET, SOCK_STREAM);
		workers[i].fd = dup2(fd, 500 + 4096 * i);
		assert_int_equal(workers[i].fd, 500 + 4096 * i);
		workers[i].cookie = cookie_of(fd);
		close(fd);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].errors, 0);
		close(workers[i].fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_change_drop),
		cmocka_unit_test(test_stale_entries_make_room),
		cmocka_unit_test(test_threads_share_a_bucket),
		TEST(test_duplicated_instances),
		TEST(test_an_instance_with_another_number),
		TEST(test_a_number_that_is_used_again_unseen),
		TEST(test_overflow_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
