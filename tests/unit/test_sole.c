/* SPDX-License-Identifier: MIT */
/* One smcrd serves a network namespace: the lock, the answer of BPF programs, and the name of the
 * other one. tests/bats/sole.bats has whole daemons. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/fellow.h"
#include "daemon/host/netns_lock.h"
#include "daemon/rendezvous/serving.h"
#include "daemon/rendezvous/sole.h"
#include "tests/lib/option.h"

#define A_USER 65534

static struct rdv_option *option;

static int setup_group(void **state)
{
	(void)state;
	return option_namespace();
}

static int teardown(void **state)
{
	(void)state;
	rdv_option_close(option);
	option = NULL;
	return 0;
}

static void open_option(void)
{
	char text[RDV_TEXT_MAX];
	assert_int_equal(option_open(&option, text), 0);
}

static int become_user(void)
{
	return setuid(A_USER);
}

static int leave_namespace(void)
{
	return unshare(CLONE_NEWNET);
}

/* In a process of its own, behind `first`. @return what the function returns, negated */
static int in_process(int (*first)(void), int (*function)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(first() < 0 ? 255 : -function());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* ---- the lock */

static int take(void)
{
	int lock = netns_lock_take();
	return lock < 0 ? lock : 0;
}

static void one_process_has_the_lock_of_a_namespace(void **state)
{
	(void)state;
	uid_t uid = A_USER;
	assert_int_equal(netns_lock_holder(&uid), -ENOENT);
	int lock = netns_lock_take();
	assert_true(lock >= 0);
	assert_int_equal(netns_lock_holder(&uid), 0);
	assert_int_equal(uid, 0);
	assert_int_equal(netns_lock_take(), -EBUSY);
	assert_int_equal(netns_lock_take(),
			 -EBUSY); /* the one that was refused has changed nothing */
	/* It is of one namespace. */
	assert_int_equal(in_process(leave_namespace, take), 0);
	close(lock);
	lock = netns_lock_take();
	assert_true(lock >= 0);
	close(lock);
}

static void the_lock_ends_with_its_holder(void **state)
{
	(void)state;
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (netns_lock_take() >= 0 && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(netns_lock_take(), -EBUSY);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	int lock = netns_lock_take();
	assert_true(lock >= 0);
	close(lock);
}

static void no_ordinary_user_takes_the_lock(void **state)
{
	(void)state;
	assert_int_equal(in_process(become_user, take), EPERM);
}

/* ---- the answer of BPF programs */

static int ask(void)
{
	struct ipc_serving serving;
	return rdv_serving_ask(&serving);
}

static void the_bpf_programs_say_who_serves(void **state)
{
	(void)state;
	struct ipc_serving serving, again;
	struct stat st;
	assert_int_equal(ask(), -ENOENT);
	open_option();
	assert_int_equal(rdv_serving_ask(&serving), 0);
	assert_int_equal(serving.pid, getpid());
	assert_int_equal(serving.uid, 0);
	assert_int_equal(serving.flags, 0);
	assert_string_equal(serving.socket, "/nowhere");
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(serving.pid_namespace, st.st_ino);
	assert_int_equal(in_process(become_user, ask), 0);
	rdv_option_hold(option, SMCR_REASON_SHUTTING_DOWN);
	assert_int_equal(rdv_serving_ask(&again), 0);
	assert_int_equal(again.flags, IPC_SERVING_STOPS);
	assert_int_equal(again.instance, serving.instance);
	assert_int_equal(in_process(leave_namespace, ask), ENOENT);
}

static void too_little_room_for_the_answer_is_an_error(void **state)
{
	(void)state;
	struct ipc_serving serving;
	socklen_t len = sizeof(serving) - 1;
	open_option();
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(getsockopt(fd, IPC_SOL_SMCR, IPC_SO_SERVING, &serving, &len), -1);
	assert_int_equal(errno, EINVAL);
	len = sizeof(serving) + 1;
	char more[sizeof(serving) + 1];
	assert_int_equal(getsockopt(fd, IPC_SOL_SMCR, IPC_SO_SERVING, more, &len), 0);
	assert_int_equal(len, sizeof(serving));
	close(fd);
}

static void the_programs_that_were_attached_first_stay(void **state)
{
	(void)state;
	struct rdv_option *second = NULL;
	struct ipc_serving first, after;
	char text[RDV_TEXT_MAX];
	open_option();
	assert_int_equal(rdv_serving_ask(&first), 0);
	assert_int_equal(option_open(&second, text), -EALREADY);
	assert_null(second);
	assert_int_equal(rdv_serving_ask(&after), 0);
	assert_int_equal(after.instance, first.instance);
	rdv_option_close(option);
	open_option();
	assert_int_equal(rdv_serving_ask(&after), 0);
	assert_int_not_equal(after.instance, first.instance);
}

/* ---- the name of the other one */

/* Listen at the abstract address of a socket path. */
static int listen_at(const char *path)
{
	struct sockaddr_un addr;
	int len = ipc_abstract_address(path, 0, &addr);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, (socklen_t)len), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static int listen_at_the_users(void)
{
	return -(listen_at("/users/1") < 0 || pause() == 0);
}

static pid_t users_listener(void)
{
	struct fellow fellow;
	pid_t pid = fork();
	if (pid == 0)
		_exit(setuid(A_USER) < 0 || listen_at_the_users());
	while (!fellow_find(A_USER, &fellow))
		sched_yield();
	assert_int_equal(fellow.pid, pid);
	assert_string_equal(fellow.socket, "/users/1");
	return pid;
}

static void another_is_found_by_the_address_of_its_user(void **state)
{
	(void)state;
	struct fellow fellow;
	assert_false(fellow_find(0, &fellow));
	pid_t user = users_listener();
	assert_false(fellow_find(0, &fellow));
	assert_int_equal(fellow_pid("/users/1", 0), 0);
	assert_int_equal(fellow_pid("/users/1", A_USER), user);
	int fd = listen_at("/roots/1");
	assert_true(fellow_find(0, &fellow));
	assert_int_equal(fellow.pid, getpid());
	assert_string_equal(fellow.socket, "/roots/1");
	close(fd);
	kill(user, SIGKILL);
	assert_int_equal(waitpid(user, NULL, 0), user);
}

/* ---- all of it */

static void the_second_one_is_refused(void **state)
{
	(void)state;
	char text[512], expected[128];
	int lock = -1, second = -1;
	assert_int_equal(sole_become(&lock, text, sizeof(text)), 0);
	assert_true(lock >= 0);
	/* neither BPF programs nor an address: another one that has just started, or hangs */
	assert_int_equal(sole_become(&second, text, sizeof(text)), -EALREADY);
	assert_int_equal(second, -1);
	assert_non_null(strstr(text, "another smcrd serves this network namespace; a namespace"));
	int fd = listen_at("/roots/1");
	snprintf(expected, sizeof(expected), "namespace: process %d, socket /roots/1; ", getpid());
	assert_int_equal(sole_become(&second, text, sizeof(text)), -EALREADY);
	assert_non_null(strstr(text, expected));
	open_option();
	snprintf(expected, sizeof(expected), "namespace: process %d, socket /nowhere; ", getpid());
	assert_int_equal(sole_become(&second, text, sizeof(text)), -EALREADY);
	assert_non_null(strstr(text, expected));
	assert_int_equal(sole_refuse(text, sizeof(text)), -EALREADY);
	assert_non_null(strstr(text, expected));
	close(lock); /* the answer of BPF programs is enough */
	assert_int_equal(sole_become(&second, text, sizeof(text)), -EALREADY);
	rdv_option_close(option);
	option = NULL;
	assert_int_equal(sole_become(&second, text, sizeof(text)), 0);
	close(second);
	close(fd);
}

/* It ends as a daemon does that was told to: its programs answer for longer than another one waits
 * for a silent holder of the lock, and are closed before the lock. */
static int stop_slowly(int ready)
{
	struct rdv_option *own;
	char text[RDV_TEXT_MAX];
	if (netns_lock_take() < 0 || option_open(&own, text) < 0)
		return 1;
	rdv_option_hold(own, SMCR_REASON_SHUTTING_DOWN);
	if (write(ready, "", 1) != 1)
		return 1;
	usleep(2800000);
	rdv_option_close(own);
	usleep(300000);
	return 0;
}

static void one_that_stops_is_waited_for_until_it_gives_up_the_lock(void **state)
{
	(void)state;
	int ready[2], status, lock = -1;
	char byte, text[512];
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(stop_slowly(ready[1]));
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_int_equal(sole_become(&lock, text, sizeof(text)), 0);
	assert_true(lock >= 0);
	close(lock);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_teardown(name, teardown)
		T(one_process_has_the_lock_of_a_namespace),
		T(the_lock_ends_with_its_holder),
		T(no_ordinary_user_takes_the_lock),
		T(the_bpf_programs_say_who_serves),
		T(too_little_room_for_the_answer_is_an_error),
		T(the_programs_that_were_attached_first_stay),
		T(another_is_found_by_the_address_of_its_user),
		T(the_second_one_is_refused),
		T(one_that_stops_is_waited_for_until_it_gives_up_the_lock),
	};
	return cmocka_run_group_tests_name("sole", tests, setup_group, NULL);
}
