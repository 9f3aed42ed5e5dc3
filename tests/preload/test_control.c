/* SPDX-License-Identifier: MIT */
/* shutdown() and ioctl() on pair ends, connect() with AF_UNSPEC, and calls on a connection that is
 * over. Where possible, results are compared with those of a TCP socket. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "lib/smcr/sys.h"
#include "tests/preload/fixture.h"

static int pair_end(void)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	return fd;
}

static int control(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

static int shut(int fd, int how)
{
	return shutdown(fd, how) < 0 ? -errno : 0;
}

static int disconnect(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	return connect(fd, &none, sizeof(none)) < 0 ? -errno : 0;
}

static int nodelay(int fd, int value, socklen_t len)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, len) < 0 ? -errno : 0;
}

/* ---- ioctl() */

static void test_requests_of_tcp_sockets(void **state)
{
	(void)state;
	static const unsigned long requests[] = { SIOCGIFADDR,    SIOCGIFNETMASK, SIOCGIFBRDADDR,
						  SIOCGIFDSTADDR, SIOCGIFINDEX,   SIOCGIFFLAGS,
						  SIOCGIFMTU,     SIOCGSTAMP_NEW };
	int fd = pair_end(), tcp = pre_net_socket(AF_INET, SOCK_STREAM);
	size_t fds = pre_net_count_fds();
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct ifreq got = { .ifr_name = "lo" }, want = { .ifr_name = "lo" };
		assert_int_equal(control(fd, requests[i], &got), control(tcp, requests[i], &want));
		assert_memory_equal(&got, &want, sizeof(got));
	}
	assert_int_equal(control(fd, SIOCGIFADDR, NULL), control(tcp, SIOCGIFADDR, NULL));
	assert_int_equal(control(fd, 0x89ff, NULL), control(tcp, 0x89ff, NULL));
	assert_int_equal(pre_net_count_fds(), fds);
	assert_int_equal(smcrd.script->sessions, 1); /* the daemon was not asked */
	close(tcp);
	close(fd);
}

static void test_queue_lengths(void **state)
{
	(void)state;
	int fd = pair_end(), value = 77;
	errno = 77;
	assert_int_equal(ioctl(fd, SIOCOUTQ, &value), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(value, 0);
	value = 77;
	assert_int_equal(control(fd, SIOCOUTQNSD, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(smcrd.script->sockopts, 2);
	assert_int_equal(control(fd, SIOCOUTQ, NULL), -EFAULT);
	assert_int_equal(control(fd, SIOCOUTQNSD, NULL), -EFAULT);
	assert_int_equal(control(fd, SIOCATMARK, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(smcrd.script->sockopts, 2);
	/* where smcrd cannot be asked, nothing is known to wait */
	pre_settings.daemon_len = 0;
	value = 77;
	assert_int_equal(control(fd, SIOCOUTQ, &value), 0);
	assert_int_equal(value, 0);
	close(fd);
}

/* For other descriptors the library asks nobody. */
static void test_other_descriptors_pass(void **state)
{
	(void)state;
	int ends[2], value = 0;
	char byte = 'x';
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(write(ends[0], &byte, 1), 1);
	assert_int_equal(control(ends[0], SIOCOUTQ, &value), 0);
	assert_true(value > 0);
	assert_int_equal(control(ends[0], SIOCOUTQNSD, &value), -ENOTTY);
	assert_int_equal(control(ends[0], SIOCGIFADDR, &(struct ifreq){ .ifr_name = "lo" }),
			 -ENOTTY);
	assert_int_equal(shut(ends[0], SHUT_RDWR), 0);
	assert_int_equal(shut(ends[0], SHUT_RDWR), 0);
	assert_int_equal(control(-1, SIOCOUTQ, &value), -EBADF);
	assert_int_equal(shut(-1, SHUT_WR), -EBADF);
	assert_int_equal(smcrd.script->sessions, 0);
	close(ends[0]);
	close(ends[1]);
}

/* ---- a connection that is over */

/* Calls on the socket must give what they give on a TCP socket. */
static void expect_over(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int value = 77;
	assert_int_equal(nodelay(fd, 1, sizeof(int)), 0);
	assert_int_equal(nodelay(fd, 1, 1), -EINVAL);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	assert_int_equal(info.tcpi_state, 7); /* CLOSE */
	len = sizeof(value);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, 9999, &value, &len), -1);
	assert_int_equal(errno, ENOPROTOOPT);
	value = 77;
	assert_int_equal(control(fd, SIOCOUTQ, &value), 0);
	assert_int_equal(control(fd, SIOCOUTQNSD, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(shut(fd, SHUT_WR), -ENOTCONN);
	assert_int_equal(shut(fd, 7), -EINVAL);
}

static void test_after_the_end(void **state)
{
	(void)state;
	int fd = pair_end(), peer = pre_net_accept_plain(listener);
	assert_int_equal(shut(fd, SHUT_WR), 0);
	close(peer);
	while (!(pre_net_wait(fd, POLLHUP) & POLLHUP) || smcrd.script->conns > 0)
		usleep(1000);
	size_t fds = pre_net_count_fds();
	expect_over(fd);
	assert_int_equal(pre_net_count_fds(), fds);
	close(fd);
	PROVES("SOCK-3");
}

/* The own end is over, and the peer may still be there. */
static void test_after_the_own_end(void **state)
{
	(void)state;
	int fd = pair_end(), peer = pre_net_accept_plain(listener);
	assert_int_equal(shut(fd, SHUT_RDWR), 0);
	assert_int_equal(shut(fd, SHUT_WR), 0);
	close(peer);
	close(fd);
}

static void test_after_the_daemons_death(void **state)
{
	(void)state;
	int fd = pair_end();
	kill(smcrd.pid, SIGTERM);
	assert_int_equal(waitid(P_PID, (id_t)smcrd.pid, NULL, WEXITED | WNOWAIT), 0);
	expect_over(fd);
	close(fd);
}

/* ---- connect() with AF_UNSPEC */

static void test_disconnect(void **state)
{
	(void)state;
	int fd = pair_end(), peer = pre_net_accept_plain(listener);
	size_t fds = pre_net_count_fds();
	assert_int_equal(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
	assert_int_equal(nodelay(fd, 1, sizeof(int)), 0);
	assert_int_equal(connect(fd, NULL, sizeof(struct sockaddr)), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(disconnect(fd), 0);
	assert_int_equal(smcrd.script->disconnects, 1);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(pre_net_count_fds(), fds);
	pre_net_expect_reset(peer);
	close(peer);

	/* The socket keeps its options, and can be connected again. */
	int value = 0;
	socklen_t len = sizeof(value);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
	assert_int_equal(value, 1);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(peer);
	close(fd);
	PROVES("SOCK-5");
}

static void test_disconnect_after_the_end(void **state)
{
	(void)state;
	int fd = pair_end();
	kill(smcrd.pid, SIGTERM);
	assert_int_equal(waitid(P_PID, (id_t)smcrd.pid, NULL, WEXITED | WNOWAIT), 0);
	assert_int_equal(disconnect(fd), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	close(pre_net_accept_plain(listener));
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	assert_int_equal(pre_net_connect(fd, &server), 0);
	int peer = pre_net_accept_plain(listener);
	pre_net_exchange(fd, peer);
	close(peer);
	close(fd);
}

/* ---- shutdown() */

/* Has smcrd been told so often? Nobody waits for that. */
static void expect_told(int times)
{
	for (int i = 0; i < 10000 && smcrd.script->status_requests < times; i++)
		poll(NULL, 0, 1);
	assert_int_equal(smcrd.script->status_requests, times);
}

static void test_smcrd_is_told_that_writing_was_shut_down(void **state)
{
	(void)state;
	static const int hows[] = { SHUT_RD, SHUT_WR, SHUT_RDWR };
	for (int i = 0; i < 3; i++) {
		int fd = pair_end();
		int peer = pre_net_accept_plain(listener);
		assert_int_equal(shut(fd, hows[i]), 0);
		close(fd);
		expect_told(i);
		close(peer);
	}
}

/* A program with many connections must not stand still too. */
static void test_smcrd_that_stands_still_holds_up_no_shutdown(void **state)
{
	(void)state;
	int fds[3], peers[3];
	for (int i = 0; i < 3; i++) {
		fds[i] = pair_end();
		peers[i] = pre_net_accept_plain(listener);
	}
	kill(smcrd.pid, SIGSTOP);
	int64_t begun = sys_now_ms();
	for (int i = 0; i < 3; i++)
		assert_int_equal(shut(fds[i], SHUT_WR), 0);
	int64_t took = sys_now_ms() - begun;
	kill(smcrd.pid, SIGCONT);
	assert_in_range(took, 0, 5000);
	expect_told(3);
	for (int i = 0; i < 3; i++) {
		close(fds[i]);
		close(peers[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_smcrd_is_told_that_writing_was_shut_down),
		TEST(test_smcrd_that_stands_still_holds_up_no_shutdown),
		TEST(test_requests_of_tcp_sockets),
		TEST(test_queue_lengths),
		TEST(test_other_descriptors_pass),
		TEST(test_after_the_end),
		TEST(test_after_the_own_end),
		TEST(test_after_the_daemons_death),
		TEST(test_disconnect),
		TEST(test_disconnect_after_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
