/* SPDX-License-Identifier: MIT */
/* Which listeners are barred when a program is started that cannot use SMC-R. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/preload/inherit.h"
#include "lib/smcr/bar.h"
#include "tests/preload/fixture.h"

static void keep_on_exec(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
}

static void test_nothing_before_the_first_listener(void **state)
{
	(void)state;
	struct inherit_barred barred;
	union ipc_addr addr;
	int fd = pre_net_listen(AF_INET, &addr);
	keep_on_exec(fd);
	assert_false(pre_may_hold_listener());
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, 0);
	inherit_open(); /* as in a program that was started with the library */
	assert_true(pre_may_hold_listener());
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, 1);
	close(fd);
}

static void test_inherited_listeners_only(void **state)
{
	(void)state;
	struct inherit_barred barred;
	union ipc_addr addr;
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	int local = pre_net_socket(AF_UNIX, SOCK_STREAM),
	    idle = pre_net_socket(AF_INET, SOCK_STREAM);
	int fd = pre_net_listen(AF_INET6, &addr), high = fcntl(fd, F_DUPFD, 5000);
	assert_int_equal(bind(local, (const struct sockaddr *)&any, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(local, 1), 0);
	pre_note_listener();
	/* `listener` and `fd` are closed on exec, `high` is not. */
	assert_true(high >= 5000);
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, 1);
	assert_int_equal(pre_net_option.bars, 1);
	assert_int_equal(pre_net_option.last_barred, high);
	inherit_unbar(&barred);
	assert_int_equal(pre_net_option.bars, 0);
	close(high);
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, 0);
	close(fd);
	close(idle);
	close(local);
}

/* A listener that was barred before stays barred. */
static void test_barred_before(void **state)
{
	(void)state;
	struct inherit_barred first, second;
	keep_on_exec(listener);
	pre_note_listener();
	inherit_bar(false, &first);
	assert_int_equal(first.count, 1);
	inherit_bar(false, &second);
	assert_int_equal(second.count, 0);
	inherit_unbar(&second);
	assert_true(pre_is_barred(listener));
	inherit_unbar(&first);
	assert_false(pre_is_barred(listener));
	assert_int_equal(pre_net_option.bars, 0);
}

/* The bar holds also when smcrd starts later: the library tells smcrd at the next listen(). */
static void bar_outlives_smcrd(int family)
{
	struct inherit_barred barred;
	union ipc_addr addr;
	int fd = pre_net_listen(family, &addr);
	keep_on_exec(fd);
	pre_note_listener();
	pre_net_option.absent = true;
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, 1);
	pre_net_option.absent = false;
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(pre_net_option.claims, 0);
	assert_int_equal(pre_net_option.bars, 1);
	inherit_unbar(&barred);
	assert_int_equal(pre_net_option.bars, 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(pre_net_option.claims, 1);
	close(fd);
}

static void test_without_smcrd(void **state)
{
	(void)state;
	bar_outlives_smcrd(AF_INET);
	pre_net_play_option();
	bar_outlives_smcrd(AF_INET6);
}

static void test_dups_of_file_actions(void **state)
{
	(void)state;
	struct inherit_barred barred;
	pre_note_listener();
	inherit_bar(true, &barred);
	assert_int_equal(barred.count, 0);
	inherit_note_dup(-1);
	inherit_note_dup(listener);
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, 0);
	inherit_bar(true, &barred);
	assert_int_equal(barred.count, 1);
	assert_int_equal(pre_net_option.last_barred, listener);
}

/* Each number is noted for itself. */
static void test_dups_of_any_number(void **state)
{
	(void)state;
	static const int numbers[] = { 63, 64, 127, 200, 4095, 4096, 5000 };
	struct inherit_barred barred;
	pre_note_listener();
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int fd = fcntl(listener, F_DUPFD_CLOEXEC, numbers[i]);
		assert_int_equal(fd, numbers[i]);
		inherit_bar(true, &barred);
		if (fd <= 4096) /* higher ones have one note together */
			assert_int_equal(barred.count, 0);
		inherit_unbar(&barred);
		inherit_note_dup(fd);
		inherit_bar(true, &barred);
		assert_int_equal(barred.count, 1);
		assert_int_equal(barred.fds[0], fd);
		inherit_unbar(&barred);
		close(fd);
	}
}

static int another_listener(void)
{
	union ipc_addr addr;
	int fd = pre_net_listen(AF_INET, &addr);
	keep_on_exec(fd);
	return fd;
}

/* Two descriptors of one listener count as one. */
static void test_more_than_can_be_taken_back(void **state)
{
	(void)state;
	struct inherit_barred barred;
	int fds[INHERIT_MAX + 5];
	keep_on_exec(listener);
	int again = dup(listener);
	pre_note_listener();
	for (int i = 0; i < INHERIT_MAX + 5; i++)
		fds[i] = another_listener();
	inherit_bar(false, &barred);
	assert_int_equal(barred.count, INHERIT_MAX + 6);
	inherit_unbar(&barred);
	int left = pre_is_barred(listener);
	for (int i = 0; i < INHERIT_MAX + 5; i++) {
		left += pre_is_barred(fds[i]);
		close(fds[i]);
	}
	assert_int_equal(left, 6);
	close(again);
}

/* A chroot without /proc. Run in a child process. */
static int without_proc(void)
{
	struct inherit_barred barred;
	if (chroot(smcrd.dir) < 0)
		return 2;
	inherit_bar(false, &barred);
	return barred.count == 1 && barred.fds[0] == listener ? 0 : 1;
}

static void test_without_proc(void **state)
{
	(void)state;
	int status;
	if (geteuid() != 0)
		skip();
	keep_on_exec(listener);
	pre_note_listener();
	pid_t pid = fork();
	if (pid == 0)
		_exit(without_proc());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nothing_before_the_first_listener),
		TEST(test_inherited_listeners_only),
		TEST(test_barred_before),
		TEST(test_without_smcrd),
		TEST(test_dups_of_any_number),
		TEST(test_dups_of_file_actions),
		TEST(test_more_than_can_be_taken_back),
		TEST(test_without_proc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
