/* SPDX-License-Identifier: MIT */
/* smcrd takes no session for a while, and its backlog is full: whoever asks it waits to connect,
 * for no longer than for an answer. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "lib/smcr/path.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"
#include "tests/preload/fixture.h"

#define MOST_CALLERS 200 /* more than the backlog of pre_daemon.c */

static int callers[MOST_CALLERS], count;
static int ends[2]; /* stands for a pair end, and smcrd's end of it */

static bool call_smcrd(void)
{
	int fd = pre_net_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
	callers[count++] = fd;
	if (syscall(SYS_connect, fd, &pre_settings.daemon, pre_settings.daemon_len) == 0)
		return true;
	assert_int_equal(errno, EAGAIN);
	return false;
}

static int start_full(void **state)
{
	start(state);
	pre_settings.sharing = PRE_SHARING_ALWAYS;
	kill(smcrd.pid, SIGSTOP);
	count = 0;
	while (call_smcrd())
		assert_true(count < MOST_CALLERS);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	return 0;
}

static int stop_full(void **state)
{
	close(ends[0]);
	close(ends[1]);
	while (count > 0)
		close(callers[--count]);
	kill(smcrd.pid, SIGCONT);
	return stop(state);
}

/* A read() may ask for memory. */
static void test_a_read_waits_as_long_as_for_memory(void **state)
{
	(void)state;
	char byte;
	pre_path_expect(ends[0]);
	assert_int_equal(write(ends[1], "x", 1), 1);
	const int64_t before = sys_now_ms();
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_true(sys_now_ms() - before < PRE_REPLY_MS / 2);
	assert_int_equal(pre_path_slot(ends[0]), PRE_PATH_NONE); /* no later call waits again */
}

/* Connecting ends with the limit of what is asked. */
static void ask_in_vain(bool wait, int limit_ms)
{
	struct ipc_info info;
	const int64_t before = sys_now_ms();
	assert_int_equal(pre_ask_info(ends[0], wait, limit_ms, &info), -ETIMEDOUT);
	assert_true(sys_now_ms() - before < PRE_REPLY_MS / 2);
}

/* Only who has waited for long takes smcrd for absent. */
static void test_a_short_limit_ends_connecting(void **state)
{
	(void)state;
	ask_in_vain(true, 1);
	assert_true(pre_daemon_known());
}

/* A limit that has passed is not taken for none. */
static void test_no_time_left(void **state)
{
	(void)state;
	ask_in_vain(false, 0);
}

#define FULL(name) cmocka_unit_test_setup_teardown(name, start_full, stop_full)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FULL(test_a_read_waits_as_long_as_for_memory),
		FULL(test_a_short_limit_ends_connecting),
		FULL(test_no_time_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
