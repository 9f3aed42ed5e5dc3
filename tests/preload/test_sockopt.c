/* SPDX-License-Identifier: MIT */
/* getsockopt() and setsockopt() on pair ends, compared with those on a TCP socket where possible.
 * Needs root. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/smcr/next.h"
#include "lib/smcr/readable.h"
#include "tests/lib/tries.h"
#include "tests/preload/fixture.h"

static int pair_end(void)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	return fd;
}

static int plain_tcp(void)
{
	pre_net_option.negotiated = IPC_NEGOTIATED_NO;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	return fd;
}

static int get_int(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);
	if (getsockopt(fd, level, name, &value, &len) < 0)
		return -errno;
	assert_int_equal(len, sizeof(value));
	return value;
}

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

static void test_what_kind_of_socket(void **state)
{
	(void)state;
	int fd = pair_end();
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_DOMAIN), AF_INET);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
	assert_int_equal(smcrd.script->sockopts, 0);
	/* The program must not see a process at the other end, as with TCP. */
	struct ucred cred;
	socklen_t len = sizeof(cred);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len), 0);
	assert_int_equal(cred.pid, 0);
	close(fd);
	PROVES("SOCK-1");
}

/* Servers change these for each answer. smcrd is asked once for a value that nobody has set, and
 * told once that TCP_NODELAY is on, so that it relays without delay. */
static void test_pushing_options_stay_here(void **state)
{
	(void)state;
	int fd = pair_end();
	assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 0);
	assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_CORK), 0);
	int asked = smcrd.script->sockopts;
	assert_int_equal(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1), 0);
	assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_MAXSEG) > 0, 1); /* smcrd serves in order */
	assert_int_equal(smcrd.script->sockopts, asked + 2);
	int copy = dup(fd);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(set_int(fd, IPPROTO_TCP, TCP_NODELAY, i % 2 * 5), 0);
		assert_int_equal(get_int(copy, IPPROTO_TCP, TCP_NODELAY), i % 2);
		assert_int_equal(set_int(fd, IPPROTO_TCP, TCP_CORK, i / 2), 0);
		assert_int_equal(get_int(copy, IPPROTO_TCP, TCP_CORK), i / 2);
		assert_int_equal(get_int(copy, IPPROTO_TCP, TCP_NODELAY), i % 2);
	}
	assert_int_equal(smcrd.script->sockopts, asked + 2);
	assert_true(get_int(fd, SOL_SOCKET, SO_MAX_PACING_RATE) == -1);
	close(copy);
	close(fd);
	PROVES("SOCK-3");
}

/* Options are set and read back through the daemon. */
static void test_options_of_the_tcp_socket(void **state)
{
	(void)state;
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_KEEPIDLE, 77 },       { IPPROTO_TCP, TCP_KEEPCNT, 3 },
		{ IPPROTO_TCP, TCP_MAXSEG, 500 },        { SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ SOL_SOCKET, SO_REUSEADDR, 1 },         { SOL_SOCKET, SO_SNDBUF, 20000 },
		{ SOL_SOCKET, SO_RCVBUF, 30000 },        { IPPROTO_IP, IP_TOS, 0x10 },
		{ IPPROTO_TCP, TCP_QUICKACK, 1 },        { SOL_SOCKET, SO_PRIORITY, 4 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 5000 }, { IPPROTO_IP, IP_RECVTTL, 1 },
		{ IPPROTO_IP, IP_RECVTOS, 1 },           { IPPROTO_IP, IP_PKTINFO, 1 },
	};
	int fd = pair_end();
	int tcp = pre_net_socket(AF_INET, SOCK_STREAM);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const int level = options[i].level, name = options[i].name;
		int asked = smcrd.script->sockopts;
		assert_int_equal(set_int(fd, level, name, options[i].value),
				 set_int(tcp, level, name, options[i].value));
		const int got = get_int(fd, level, name);
		if (name != TCP_MAXSEG || level != IPPROTO_TCP)
			assert_int_equal(got, get_int(tcp, level, name));
		assert_int_equal(smcrd.script->sockopts, asked + 2);
	}
	close(tcp);
	close(fd);
	PROVES("SOCK-4");
}

/* Programs that do not know which kind of address a socket has set both, and look for errors. */
static void test_options_of_the_other_family(void **state)
{
	(void)state;
	int fd = pair_end();
	assert_int_equal(set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x10), -ENOPROTOOPT);
	close(fd);
	close(listener);
	listener = pre_net_listen(AF_INET6, &server);
	fd = pre_net_socket(AF_INET6, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	assert_int_equal(set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x10), 0);
	assert_int_equal(get_int(fd, IPPROTO_IPV6, IPV6_TCLASS), 0x10);
	assert_int_equal(set_int(fd, IPPROTO_IP, IP_TOS, 0x20), 0); /* TCP takes it, too */
	close(fd);
}

static void test_values_of_any_size(void **state)
{
	(void)state;
	int fd = pair_end();
	const struct linger linger = { 1, 5 };
	struct linger got = { 0 };
	socklen_t len = sizeof(got);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_memory_equal(&got, &linger, sizeof(linger));
	struct tcp_info info;
	len = sizeof(info);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	assert_true(len >= 104 && len <= sizeof(info));
	assert_int_equal(info.tcpi_state, 1); /* established */
	uint8_t first = 0;
	len = 1;
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &first, &len), 0);
	assert_int_equal(first, 1);
	char name[32] = "";
	len = sizeof(name);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	assert_string_equal(name, "reno");
	close(fd);
}

static void test_options_of_the_own_end(void **state)
{
	(void)state;
	int fd = pair_end();
	const struct timeval limit = { .tv_usec = 40000 };
	char byte;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 9), 0);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_RCVLOWAT), 9);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_OOBINLINE, 1), 0);
	assert_int_equal(smcrd.script->sockopts, 0);
	close(fd);
}

/* The pair end's own send buffer decides when the pair end is writable, so buffer sizes that the
 * program sets do not change it. */
static void test_buffer_sizes_leave_the_pair_alone(void **state)
{
	(void)state;
	smcrd.script->hold = 1;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
	assert_int_equal(pre_net_connect(fd, &server), EINPROGRESS);
	int before = 0, after = 0;
	socklen_t len = sizeof(before);
	assert_int_equal(pre_next.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &before, &len), 0);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_SNDBUF, 8 << 20), 0);
	assert_int_equal(pre_next.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &after, &len), 0);
	assert_int_equal(before, after);
	assert_int_equal(pre_net_poll_now(fd, POLLOUT), 0);
	close(fd);
}

static void test_what_cannot_be_had(void **state)
{
	(void)state;
	int fd = pair_end();
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1), -EOPNOTSUPP);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(set_int(fd, IPPROTO_TCP, TCP_REPAIR, 1), -EPERM);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_ATTACH_BPF, 0), -EOPNOTSUPP);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_TIMESTAMP, 1), -EOPNOTSUPP);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1), -EOPNOTSUPP);
	assert_int_equal(set_int(fd, SOL_SOCKET, SO_TIMESTAMPING, 0x10), -EOPNOTSUPP);
	assert_int_equal(set_int(fd, IPPROTO_TCP, TCP_INQ, 1), -ENOPROTOOPT);
	assert_int_equal(smcrd.script->sockopts, 0);
	close(fd);
}

static void test_errors(void **state)
{
	(void)state;
	int fd = pair_end();
	int tcp = pre_net_socket(AF_INET, SOCK_STREAM);
	static char large[300];
	assert_int_equal(set_int(fd, IPPROTO_TCP, 9999, 1), set_int(tcp, IPPROTO_TCP, 9999, 1));
	assert_int_equal(get_int(fd, IPPROTO_TCP, 9999), get_int(tcp, IPPROTO_TCP, 9999));
	assert_int_equal(get_int(fd, 4711, 1), get_int(tcp, 4711, 1));
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, "", 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, large, sizeof(large)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, large, sizeof(large)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, NULL, 4), -1);
	assert_int_equal(errno, EFAULT);
	socklen_t len = (socklen_t)-1;
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, large, &len), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, large, NULL), -1);
	assert_int_equal(errno, EFAULT);
	close(tcp);
	close(fd);
}

struct name {
	int level, name;
};

static const struct name of_each_way[] = {
	{ IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_TCP, TCP_MAXSEG }, { IPPROTO_TCP, TCP_QUICKACK },
	{ IPPROTO_TCP, TCP_INFO },    { SOL_SOCKET, SO_SNDBUF },   { SOL_SOCKET, SO_LINGER },
	{ SOL_SOCKET, SO_DOMAIN },    { SOL_SOCKET, SO_RCVTIMEO }, { SOL_SOCKET, SO_PEERCRED },
	{ SOL_SOCKET, SO_ERROR },     { IPPROTO_IP, IP_TOS },
};

#define EACH_WAY (sizeof(of_each_way) / sizeof(of_each_way[0]))

static int get_at(int fd, const struct name *option, void *value, socklen_t *len)
{
	return getsockopt(fd, option->level, option->name, value, len) < 0 ? -errno : 0;
}

static int set_at(int fd, const struct name *option, const void *value, socklen_t len)
{
	return setsockopt(fd, option->level, option->name, value, len) < 0 ? -errno : 0;
}

static void test_addresses_where_nothing_is(void **state)
{
	(void)state;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *barred = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(barred != MAP_FAILED);
	void *const nowhere[] = { NULL, (void *)8, (void *)-8, barred };
	int fd = pair_end(), tcp = plain_tcp();
	for (size_t i = 0; i < EACH_WAY; i++)
		for (size_t at = 0; at < sizeof(nowhere) / sizeof(nowhere[0]); at++) {
			const struct name *o = &of_each_way[i];
			socklen_t len = 4, tcp_len = 4;
			TRIES("option %d %d, address %p", o->level, o->name, nowhere[at]);
			assert_int_equal(get_at(fd, o, nowhere[at], &len),
					 get_at(tcp, o, nowhere[at], &tcp_len));
			assert_int_equal(set_at(fd, o, nowhere[at], 16),
					 set_at(tcp, o, nowhere[at], 16));
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer's getsockopt() reads the length */
			int value;
			assert_int_equal(get_at(fd, o, &value, nowhere[at]), -EFAULT);
#endif
		}
	munmap(barred, page);
	close(tcp);
	close(fd);
}

/* Under valgrind nobody asks the kernel whether memory can be read. */
static void test_valgrind_is_recognized(void **state)
{
	(void)state;
	const struct pre_settings saved = pre_settings;
	const char *const preload = getenv("LD_PRELOAD");
	char *const before = strdup(preload ? preload : "");
	setenv("LD_PRELOAD", "/opt/libother.so:/usr/libexec/valgrind/vgpreload_core-amd64-linux.so",
	       1);
	pre_settings_read();
	assert_true(pre_settings.valgrind);
	assert_true(pre_is_readable(NULL, 1));
	setenv("LD_PRELOAD", "/opt/libvgpreload_like.so", 1);
	pre_settings_read();
	assert_false(pre_settings.valgrind);
	assert_false(pre_is_readable(NULL, 1));
	setenv("LD_PRELOAD", before, 1);
	free(before);
	pre_settings = saved;
}

static void test_lengths(void **state)
{
	(void)state;
	static const socklen_t lengths[] = { 4, 5, 8, 16, 64, 300, 0, 1, 3, (socklen_t)-1 };
	const int ones[100] = { 1, 1, 1, 1 };
	uint8_t got[400], tcp_got[400];
	int fd = pair_end(), tcp = plain_tcp();
	for (size_t i = 0; i < EACH_WAY; i++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			const struct name *o = &of_each_way[i];
			socklen_t len = lengths[l], tcp_len = len, none = 0;
			TRIES("option %d %d, length %d", o->level, o->name, (int)len);
			if (len >= 4 || o->name != TCP_INFO)
				assert_int_equal(set_at(fd, o, ones, len),
						 set_at(tcp, o, ones, len));
			assert_int_equal(get_at(fd, o, got, &len),
					 get_at(tcp, o, tcp_got, &tcp_len));
			if (o->name != TCP_INFO)
				assert_int_equal(len, tcp_len);
			assert_int_equal(get_at(fd, o, NULL, &none), get_at(tcp, o, NULL, &none));
		}
	assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	close(tcp);
	close(fd);
}

/* vsftpd passes its data connections to a process that cannot reach the daemon, and ends a transfer
 * if an option cannot be set. */
static void test_a_daemon_out_of_reach(void **state)
{
	(void)state;
	int status = -1, fd = pair_end();
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) < 0 || chroot("/sys") < 0 || chdir("/") < 0)
			_exit(2);
		bool right = set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
			     set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0 &&
			     set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, -1) == -EINVAL &&
			     send(fd, "x", 1, MSG_NOSIGNAL) == 1;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
}

/* As with TCP after a reset. */
static void test_keepalive_is_kept_after_the_end(void **state)
{
	(void)state;
	int before = pair_end(), after = pair_end(), unset = pair_end();
	assert_int_equal(set_int(before, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	kill(smcrd.pid, SIGKILL);
	pre_net_wait(before, POLLHUP);
	pre_net_wait(after, POLLHUP);
	assert_int_equal(set_int(after, SOL_SOCKET, SO_KEEPALIVE, 7), 0);
	assert_int_equal(get_int(before, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(get_int(after, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(get_int(unset, SOL_SOCKET, SO_KEEPALIVE), 0);
	assert_int_equal(set_int(before, SOL_SOCKET, SO_KEEPALIVE, 0), 0);
	assert_int_equal(get_int(before, SOL_SOCKET, SO_KEEPALIVE), 0);
	assert_int_equal(setsockopt(before, SOL_SOCKET, SO_KEEPALIVE, "", 1), -1);
	assert_int_equal(errno, EINVAL);
	close(before);
	close(after);
	close(unset);
}

static void test_other_sockets_pass(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(get_int(ends[0], SOL_SOCKET, SO_DOMAIN), AF_UNIX);
	assert_int_equal(get_int(ends[0], SOL_SOCKET, SO_PROTOCOL), 0);
	assert_int_equal(set_int(ends[0], SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	assert_int_equal(get_int(ends[0], IPPROTO_TCP, TCP_NODELAY), -EOPNOTSUPP);
	assert_int_equal(set_int(ends[0], IPPROTO_TCP, TCP_NODELAY, 1), -EOPNOTSUPP);
	close(ends[0]);
	close(ends[1]);
	int udp = pre_net_socket(AF_INET, SOCK_DGRAM);
	assert_int_equal(set_int(udp, IPPROTO_TCP, TCP_NODELAY, 1), -ENOPROTOOPT);
	assert_int_equal(get_int(udp, SOL_SOCKET, SO_ERROR), 0);
	close(udp);
	assert_int_equal(get_int(-1, SOL_SOCKET, SO_ERROR), -EBADF);
	assert_int_equal(set_int(STDIN_FILENO, SOL_SOCKET, SO_KEEPALIVE, 1), -ENOTSOCK);
	assert_int_equal(smcrd.script->sessions, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_kind_of_socket),
		TEST(test_options_of_the_tcp_socket),
		TEST(test_pushing_options_stay_here),
		TEST(test_values_of_any_size),
		TEST(test_options_of_the_own_end),
		TEST(test_buffer_sizes_leave_the_pair_alone),
		TEST(test_what_cannot_be_had),
		TEST(test_errors),
		TEST(test_a_daemon_out_of_reach),
		TEST(test_keepalive_is_kept_after_the_end),
		TEST(test_other_sockets_pass),
		TEST(test_options_of_the_other_family),
		TEST(test_addresses_where_nothing_is),
		TEST(test_valgrind_is_recognized),
		TEST(test_lengths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
