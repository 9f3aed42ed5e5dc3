/* SPDX-License-Identifier: MIT */
/* Whose socket pairs are believed to be pair ends, and what is known of a number that is used again
 * behind the library's back. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/trust.h"
#include "tests/preload/fixture.h"

#include "tests/lib/child.h" /* needs cmocka.h before it */

#define FOREIGNER 54321

/* ---- makers */

/* One end of a socket pair that a process of another user has made. */
static int foreign_end(void)
{
	int via[2], status, end = -1;
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = room,
			      .msg_controllen = sizeof(room) };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, via), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int pair[2];
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setuid(FOREIGNER) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
			_exit(1);
		pre_net_pass(via[1], pair[0]);
		_exit(0);
	}
	assert_int_equal(recvmsg(via[0], &msg, MSG_CMSG_CLOEXEC), 1);
	memcpy(&end, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(end));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(via[0]);
	close(via[1]);
	return end;
}

/* Before there is a smcrd: its socket's owner is noted when the file is first seen. */
static bool the_first_owner_is_noted(void)
{
	char dir[] = "/tmp/trust.XXXXXX";
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int end = foreign_end(), socket_fd = pre_net_socket(AF_UNIX, SOCK_STREAM);
	if (!mkdtemp(dir))
		return false;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", dir);
	pre_set_daemon(addr.sun_path);
	bool nobody = !pre_trust_end(end);
	bool made = bind(socket_fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
		    chown(addr.sun_path, FOREIGNER, (gid_t)-1) == 0;
	pre_trust_note_owner();
	unlink(addr.sun_path);
	rmdir(dir);
	return nobody && made && pre_trust_end(end);
}

static void test_the_first_owner(void **state)
{
	(void)state;
	if (geteuid() != 0 || access(IPC_DEFAULT_SOCKET, F_OK) == 0)
		skip(); /* needs two users, and no smcrd */
	assert_succeeds(the_first_owner_is_noted);
}

static bool strangers_are_not_trusted(void)
{
	int end = foreign_end();
	return !pre_trust_maker(end) && !pre_trust_end(end);
}

/* The owner of smcrd's socket is, as far as the path is looked at now. Otherwise the owner counts
 * whom the library has seen first, root. */
static bool the_owner_is_trusted(void)
{
	int end = foreign_end();
	if (chown(smcrd.path, FOREIGNER, (gid_t)-1) < 0 || !pre_trust_maker(end) ||
	    pre_trust_end(end))
		return false;
	pre_trust_note_owner();
	return !pre_trust_end(end);
}

/* A file at the path that is no socket has no owner who could be trusted. */
static bool only_the_owner_of_a_socket(void)
{
	int end = foreign_end();
	if (unlink(smcrd.path) < 0)
		return false;
	close(open(smcrd.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	if (chown(smcrd.path, FOREIGNER, (gid_t)-1) < 0)
		return false;
	pre_trust_note_owner();
	return !pre_trust_maker(end) && !pre_trust_end(end);
}

/* Nor is a user trusted for the owner of a socket at a path that was too long to be used. */
static bool not_without_a_path(void)
{
	int end = foreign_end();
	if (chown(smcrd.path, FOREIGNER, (gid_t)-1) < 0)
		return false;
	pre_settings.daemon_len = 0;
	return !pre_trust_maker(end);
}

/* Whoever made the pair end that a hand-over gave to this process is. */
static bool who_has_given_one_is_trusted(void)
{
	int end = foreign_end(), tcp = pre_net_socket(AF_INET, SOCK_STREAM);
	if (pre_trust_given(tcp) || pre_trust_end(end))
		return false;
	return pre_trust_given(end) && pre_trust_end(end) && pre_trust_maker(end);
}

static void test_makers(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip(); /* needs two users */
	assert_succeeds(strangers_are_not_trusted);
	assert_succeeds(the_owner_is_trusted);
	assert_succeeds(not_without_a_path);
	assert_succeeds(who_has_given_one_is_trusted);
	assert_succeeds(only_the_owner_of_a_socket);
}

/* ---- numbers */

/* The library takes this number for a pair end: its owner was closed by a system call. */
static int stale_number(void)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(syscall(SYS_close, fd), 0);
	assert_true(pre_path_is_pair(fd));
	return fd;
}

static void expect_forgotten(int fd, int number)
{
	assert_int_equal(fd, number);
	assert_false(pre_path_is_pair(fd));
	close(fd);
}

static void test_numbers_that_are_used_again(void **state)
{
	(void)state;
	int ends[2], number = stale_number();
	expect_forgotten(socket(AF_INET, SOCK_DGRAM, 0), number);
	/* two at once: both are closed by system calls */
	number = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(number, &server), 0);
	int other = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(other, &server), 0);
	assert_int_equal(syscall(SYS_close, number) + syscall(SYS_close, other), 0);
	assert_true(pre_path_is_pair(number) && pre_path_is_pair(other));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	expect_forgotten(ends[0], number);
	expect_forgotten(ends[1], other);
	number = stale_number();
	expect_forgotten(dup(STDERR_FILENO), number);
	number = stale_number();
	expect_forgotten(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), number);
	number = stale_number();
	expect_forgotten(fcntl64(STDERR_FILENO, F_DUPFD, 0), number);
	number = stale_number();
	expect_forgotten(dup2(STDERR_FILENO, number), number);
	number = stale_number();
	expect_forgotten(dup3(STDERR_FILENO, number, O_CLOEXEC), number);
	number = stale_number();
	assert_int_equal(close_range((unsigned int)number, (unsigned int)number, 0), 0);
	assert_false(pre_path_is_pair(number));
	number = stale_number();
	/* nothing is closed yet */
	assert_int_equal(
		close_range((unsigned int)number, (unsigned int)number, (int)CLOSE_RANGE_CLOEXEC),
		0);
	assert_true(pre_path_is_pair(number));
	closefrom(number);
	assert_false(pre_path_is_pair(number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_first_owner),
		TEST(test_makers),
		TEST(test_numbers_that_are_used_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
