/* SPDX-License-Identifier: MIT */
/* The daemon when the path of its socket leads nowhere, as after chroot(). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/smcr/pair.h"
#include "lib/smcr/reach.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/trust.h"
#include "lib/smcr/usable.h"
#include "tests/preload/fixture.h"

static void lose_sight(void)
{
	assert_int_equal(unlink(smcrd.path), 0);
}

static int peer_connect(void)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC);
	assert_int_equal(syscall(SYS_connect, fd, &server, pre_net_len(&server)), 0);
	return fd;
}

static void test_connections_begin_and_live_on(void **state)
{
	(void)state;
	int on = 1, got = 0;
	socklen_t len = sizeof(got);
	union ipc_addr addr;
	int peer = peer_connect(), before = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(before), AF_UNIX);
	lose_sight();
	/* A connection that exists: options, names, outcome. */
	assert_int_equal(setsockopt(before, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	assert_int_equal(getsockopt(before, IPPROTO_TCP, TCP_NODELAY, &got, &len), 0);
	assert_int_equal(got, 1);
	len = sizeof(addr);
	assert_int_equal(getpeername(before, &addr.sa, &len), 0);
	assert_int_equal(addr.sa.sa_family, AF_INET);
	len = sizeof(got);
	assert_int_equal(getsockopt(before, SOL_SOCKET, SO_ERROR, &got, &len), 0);
	assert_int_equal(got, 0);
	pre_net_exchange(before, peer);
	close(before);
	close(peer);
	/* New connections. */
	peer = peer_connect();
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
	int client = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(client, &server), 0);
	assert_int_equal(pre_net_kernel_family(client), AF_UNIX);
	fd = pre_net_accept_plain(listener);
	pre_net_exchange(client, fd);
	close(fd);
	close(client);
	client = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
	assert_int_equal(pre_net_connect(client, &server), EINPROGRESS);
	pre_net_wait(client, POLLOUT);
	assert_int_equal(pre_net_connect(client, &server), 0);
	close(client);
}

/* The process looks for the daemon for the first time now. Run in a child process. */
static void test_a_first_look(void **state)
{
	(void)state;
	lose_sight();
	kill(smcrd.pid, SIGSTOP); /* the look must not need an answer of the daemon */
	assert_true(pre_daemon_usable(false));
	kill(smcrd.pid, SIGCONT);
}

static void expect_in_reach(void)
{
	int fd = pre_net_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC);
	assert_int_equal(pre_reach_look(fd), 0);
	close(fd);
	fd = pre_net_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC);
	assert_int_equal(pre_reach_connect(fd, sys_now_ms() + 10000), 0);
	close(fd);
}

/* In another root directory the path may lead to anything. */
static void test_whatever_is_in_the_way(void **state)
{
	(void)state;
	char moved[sizeof(smcrd.dir) + 8];
	snprintf(moved, sizeof(moved), "%s.moved", smcrd.dir);
	expect_in_reach();
	if (geteuid() == 0) { /* a directory that this user may not enter */
		assert_int_equal(chmod(smcrd.dir, 0700), 0);
		assert_int_equal(seteuid(12345), 0);
		expect_in_reach();
		assert_int_equal(seteuid(0), 0);
	}
	assert_int_equal(rename(smcrd.dir, moved), 0);
	expect_in_reach();
	int file = open(smcrd.dir, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	close(file);
	expect_in_reach();
	assert_int_equal(unlink(smcrd.dir), 0);
	assert_int_equal(symlink(smcrd.dir, smcrd.dir), 0); /* a link that leads nowhere */
	expect_in_reach();
	assert_int_equal(unlink(smcrd.dir), 0);
	assert_int_equal(rename(moved, smcrd.dir), 0);
}

/* ---- another user's process at the address */

static int bind_abstract(void)
{
	int fd = pre_net_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC);
	/* The daemon may take a moment to end. */
	while (bind(fd, (struct sockaddr *)&pre_settings.daemon_abstract,
		    pre_settings.daemon_abstract_len) < 0)
		assert_int_equal(errno, EADDRINUSE);
	return fd;
}

/* Accept connections as another user. Exits with 0 if nothing was ever sent on them. */
static pid_t squat(int fd)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setuid(12345) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
		    listen(fd, 8) < 0 || write(ready[1], "r", 1) != 1)
			_exit(2);
		for (;;) {
			int session = accept4(fd, NULL, NULL, 0);
			if (session < 0)
				_exit(3);
			if (recv(session, &byte, 1, 0) != 0)
				_exit(1);
			close(session);
			if (write(ready[1], "c", 1) != 1)
				_exit(4);
		}
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	/* This end of the pipe stays open: the child writes to it for each connection. */
	assert_int_equal(fcntl(ready[0], F_DUPFD_CLOEXEC, 100) >= 0, 1);
	close(ready[0]);
	return pid;
}

static void end_daemon(void)
{
	kill(smcrd.pid, SIGKILL);
	waitpid(smcrd.pid, NULL, 0);
	unlink(smcrd.path);
}

static void test_a_squatter_gets_nothing(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	end_daemon();
	int fd = bind_abstract();
	pid_t pid = squat(fd);
	int peer = peer_connect();
	fcntl(listener, F_SETFL, O_NONBLOCK);
	assert_int_equal(accept(listener, NULL, NULL), -1); /* no Proposal came: reset */
	assert_int_equal(errno, EAGAIN);
	pre_net_expect_reset(peer);
	close(peer);
	int client = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(client, &server), 0);
	assert_int_equal(pre_net_kernel_family(client), AF_INET);
	close(client);
	int status;
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* no byte has been sent to it */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	close(100);
}

/* Another user has the address that can be foretold, and smcrd tells another one. */
static void test_a_squatter_harms_nobody(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	pre_net_option.address = PRE_DAEMON_NUMBER;
	pre_settings.daemon_abstract.sun_path[2] = 'X'; /* nobody can bind the daemon's own */
	int fd = bind_abstract();
	pid_t pid = squat(fd);
	lose_sight();
	int client = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(client, &server), 0);
	assert_int_equal(pre_net_kernel_family(client), AF_UNIX);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(client, peer);
	close(client);
	close(peer);
	int status;
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	close(100);
}

static int call_abstract(void)
{
	int fd = pre_net_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (syscall(SYS_connect, fd, &pre_settings.daemon_abstract,
		    pre_settings.daemon_abstract_len) == 0)
		return fd;
	assert_int_equal(errno, EAGAIN);
	close(fd);
	return -1;
}

/* Another process listens at the address, never accepts, and its queue is full. */
static void test_a_full_squatter_holds_nobody_up(void **state)
{
	(void)state;
	int callers[4], count = 0, fd = -1, client = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_true(pre_daemon_usable(false));
	end_daemon();
	int squatter = bind_abstract();
	assert_int_equal(listen(squatter, 0), 0);
	while (count < 4 && (fd = call_abstract()) >= 0)
		callers[count++] = fd;
	assert_int_equal(fd, -1);
	int64_t before = sys_now_ms();
	assert_int_equal(pre_net_connect(client, &server), 0);
	assert_true(sys_now_ms() - before < PRE_REPLY_MS);
	assert_int_equal(pre_net_kernel_family(client), AF_INET);
	while (count > 0)
		close(callers[--count]);
	close(squatter);
	close(client);
}

static void test_who_is_trusted(void **state)
{
	(void)state;
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_true(pre_trust_end(pair[0])); /* made by this process */
	close(pair[0]);
	close(pair[1]);
	int tcp = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_false(pre_trust_end(tcp)); /* no credentials */
	close(tcp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_first_look),
		TEST(test_connections_begin_and_live_on),
		TEST(test_whatever_is_in_the_way),
		TEST(test_who_is_trusted),
		TEST(test_a_squatter_gets_nothing),
		TEST(test_a_squatter_harms_nobody),
		TEST(test_a_full_squatter_holds_nobody_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
