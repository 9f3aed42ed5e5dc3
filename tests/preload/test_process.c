/* SPDX-License-Identifier: MIT */
/* Pair ends across processes, threads, signal handlers and sandboxes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "proto/smcr/clc.h"
#include "tests/preload/fixture.h"

static int pair_end(int flags)
{
	int fd = pre_net_socket(AF_INET, SOCK_STREAM | flags);
	int rc = pre_net_connect(fd, &server);
	assert_int_equal(rc, flags & SOCK_NONBLOCK ? EINPROGRESS : 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	return fd;
}

static int exit_status(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- pair ends in other processes. These run in children and tell results as exit statuses */

enum { GOOD, BAD_PEER, BAD_DOMAIN, BAD_ERROR, BAD_DATA };

static int look_at(int fd)
{
	union ipc_addr peer;
	int domain = 0, error = -1;
	socklen_t len = sizeof(peer);
	if (getpeername(fd, &peer.sa, &len) < 0 || len != sizeof(peer.in) ||
	    memcmp(&peer, &server, len) != 0)
		return BAD_PEER;
	len = sizeof(domain);
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_INET)
		return BAD_DOMAIN;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0)
		return BAD_ERROR;
	return write(fd, "hello", 5) == 5 ? GOOD : BAD_DATA;
}

static void expect_hello(int peer)
{
	char got[5];
	pre_net_wait(peer, POLLIN);
	assert_int_equal(recv(peer, got, sizeof(got), MSG_WAITALL), 5);
	assert_memory_equal(got, "hello", 5);
}

static void test_fork(void **state)
{
	(void)state;
	int fd = pair_end(0);
	int peer = pre_net_accept_plain(listener);
	pid_t pid = fork();
	if (pid == 0)
		_exit(look_at(fd));
	assert_int_equal(exit_status(pid), GOOD);
	expect_hello(peer);
	pre_net_exchange(fd, peer);
	close(fd);
	close(peer);
	PROVES("GEN-9");
}

static void test_exec(void **state)
{
	(void)state;
	for (int connecting = 0; connecting < 2; connecting++) {
		char number[16], port[16];
		int fd = pair_end(connecting ? SOCK_NONBLOCK : 0);
		int peer = pre_net_accept_plain(listener);
		pre_net_wait(fd, POLLOUT);
		snprintf(number, sizeof(number), "%d", fd);
		snprintf(port, sizeof(port), "%d", ntohs(server.in.sin_port));
		pid_t pid = fork();
		if (pid == 0) {
			execl("/proc/self/exe", "test_process", number, port, NULL);
			_exit(99);
		}
		assert_int_equal(exit_status(pid), GOOD);
		expect_hello(peer);
		close(fd);
		close(peer);
	}
	PROVES("GEN-9");
}

static void test_descriptor_passing(void **state)
{
	(void)state;
	int ends[2], fd = pair_end(0);
	int peer = pre_net_accept_plain(listener);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char byte;
		char room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
		struct iovec iov = { &byte, 1 };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = room,
				      .msg_controllen = sizeof(room) };
		int got;
		close(fd);
		if (recvmsg(ends[1], &msg, 0) != 1)
			_exit(98);
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(got));
		_exit(look_at(got));
	}
	pre_net_pass(ends[0], fd);
	assert_int_equal(exit_status(pid), GOOD);
	expect_hello(peer);
	close(ends[0]);
	close(ends[1]);
	close(fd);
	close(peer);
	PROVES("GEN-9");
}

/* The connection ends for the peer when the last holder has closed it, not before. */
static void test_last_holder_ends_it(void **state)
{
	(void)state;
	int gate[2], fd = pair_end(0);
	int peer = pre_net_accept_plain(listener);
	char byte;
	assert_int_equal(pipe(gate), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 && write(fd, "hello", 5) == 5 ? 0 : 1);
	}
	close(fd);
	assert_int_equal(pre_net_poll_now(peer, POLLIN | POLLRDHUP), 0);
	close(gate[1]);
	expect_hello(peer);
	assert_int_equal(exit_status(pid), 0);
	pre_net_wait(peer, POLLIN);
	assert_int_equal(recv(peer, &byte, 1, 0), 0);
	close(gate[0]);
	close(peer);
}

static void expect_unix(int fd)
{
	union {
		struct sockaddr sa;
		struct sockaddr_un un;
	} name;
	socklen_t len = sizeof(name);
	assert_int_equal(getpeername(fd, &name.sa, &len), 0);
	assert_int_equal(name.sa.sa_family, AF_UNIX);
	len = sizeof(name);
	assert_int_equal(getsockname(fd, &name.sa, &len), 0);
	assert_int_equal(name.sa.sa_family, AF_UNIX);
}

/* Anybody can give a Unix socket any name. The library must not take such a socket for a pair end,
 * neither one that connects nor one that is passed to it. Root listens here, and the library trusts
 * pairs made by root. */
static void test_forged_pair_name(void **state)
{
	(void)state;
	struct ipc_pair_name name = { .local = server, .peer = server, .id = 1 };
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	struct sockaddr_un addr, forged;
	socklen_t len = sizeof(addr);
	if (geteuid() != 0)
		skip();
	int local = pre_net_socket(AF_UNIX, SOCK_STREAM);
	assert_int_equal(bind(local, (const struct sockaddr *)&any, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(local, 1), 0);
	assert_int_equal(getsockname(local, (struct sockaddr *)&addr, &len), 0);
	int forged_len = ipc_pair_name_encode(&name, &forged, sizeof(forged));
	assert_true(forged_len > 0);
	int passed = pre_net_socket(AF_UNIX, SOCK_STREAM);
	assert_int_equal(bind(passed, (struct sockaddr *)&forged, (socklen_t)forged_len), 0);
	assert_int_equal(connect(passed, (struct sockaddr *)&addr, len), 0);
	expect_unix(passed);
	close(passed);
	close(accept(local, NULL, NULL));
	pid_t pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (syscall(SYS_setuid, 65534) < 0 ||
		    bind(fd, (struct sockaddr *)&forged, (socklen_t)forged_len) < 0 ||
		    connect(fd, (struct sockaddr *)&addr, len) < 0)
			_exit(1);
		pause();
	}
	int fd = accept(local, NULL, NULL);
	assert_true(fd >= 0);
	expect_unix(fd);
	kill(pid, SIGKILL);
	assert_int_equal(exit_status(pid), 128 + SIGKILL);
	close(fd);
	close(local);
}

/* ---- many at once */

#define THREADS 8
#define ROUNDS  25

static _Atomic int unexpected;

static void connect_once(int epoll)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT };
	int fd = socket(AF_INET, SOCK_STREAM | (epoll >= 0 ? SOCK_NONBLOCK : 0), 0);
	if (epoll >= 0) {
		event.data.fd = fd;
		unexpected += epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0;
	}
	int rc = pre_net_connect(fd, &server);
	unexpected += rc != (epoll >= 0 ? EINPROGRESS : 0);
	if (epoll >= 0) {
		event.data.fd = -1;
		unexpected += epoll_wait(epoll, &event, 1, 10000) != 1;
		unexpected += event.data.fd != fd;
		unexpected += !(event.events & EPOLLOUT);
	}
	union ipc_addr peer;
	socklen_t len = sizeof(peer);
	unexpected +=
		getpeername(fd, &peer.sa, &len) != 0 || peer.in.sin_port != server.in.sin_port;
	/* A child that was just forked may hold the file, and then close() leaves it registered. */
	if (epoll >= 0)
		unexpected += epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL) != 0;
	unexpected += close(fd) != 0;
}

static void *connect_often(void *arg)
{
	int epoll = (uintptr_t)arg % 2 ? epoll_create1(EPOLL_CLOEXEC) : -1;
	for (int i = 0; i < ROUNDS; i++)
		connect_once(epoll);
	if (epoll >= 0)
		close(epoll);
	return NULL;
}

/* Until the listener is shut down. */
static void *accept_all(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = (int)syscall(SYS_accept4, listener, NULL, NULL, 0);
		if (fd >= 0)
			close(fd);
		else if (errno != EINTR)
			return NULL;
	}
}

static pthread_t start_accepting(void)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, accept_all, NULL), 0);
	return thread;
}

static void stop_accepting(pthread_t thread)
{
	shutdown(listener, SHUT_RD);
	pthread_join(thread, NULL);
}

static void test_threads(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	size_t fds = pre_net_count_fds();
	unexpected = 0;
	pthread_t acceptor = start_accepting();
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, connect_often, (void *)i), 0);
	/* In a child that is forked meanwhile everything must be usable. */
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(120);
			unexpected = 0;
			connect_once(-1);
			connect_once(epoll_create1(0));
			_exit(unexpected);
		}
		assert_int_equal(exit_status(pid), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop_accepting(acceptor);
	assert_int_equal(unexpected, 0);
	assert_int_equal(pre_net_count_fds(), fds);
}

static void connect_in_handler(int number)
{
	(void)number;
	int saved = errno;
	connect_once(-1);
	errno = saved;
}

/* connect() may be called in signal handlers, even while another connect() is interrupted. */
static void test_signal_handlers(void **state)
{
	(void)state;
	struct sigaction action = { .sa_handler = connect_in_handler, .sa_flags = SA_RESTART };
	struct sigaction before;
	const struct itimerval often = { { .tv_usec = 3000 }, { .tv_usec = 3000 } };
	const struct itimerval never = { { 0 }, { 0 } };
	unexpected = 0;
	pthread_t acceptor = start_accepting();
	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 30; i++)
		connect_once(-1);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	stop_accepting(acceptor);
	assert_int_equal(unexpected, 0);
}

/* ---- sandboxes */

/* socket() gives EACCES for AF_UNIX. */
static int forbid_unix_sockets(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static int connect_and_tell(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (pre_net_connect(fd, &server) != 0)
		return 20;
	return pre_net_kernel_family(fd) == AF_INET && write(fd, "hello", 5) == 5 ? 0 : 21;
}

static void expect_hello_from_next(void)
{
	int peer = pre_net_accept_plain(listener);
	expect_hello(peer);
	close(peer);
}

/* A program enters its sandbox after it has used SMC-R. Its next connection has promised SMC-R, and
 * the library declines; later connections are plain. */
static void test_sandbox_entered_later(void **state)
{
	(void)state;
	close(pair_end(0));
	close(pre_net_accept_plain(listener));
	pre_net_option.claims = 0;
	pid_t pid = fork();
	if (pid == 0) {
		if (forbid_unix_sockets() < 0)
			_exit(22);
		int status = connect_and_tell();
		if (status == 0 && pre_net_option.claims == 1)
			status = connect_and_tell();
		_exit(status ? status : pre_net_option.claims != 1);
	}
	assert_int_equal(exit_status(pid), 0);
	uint8_t buf[SMCR_CLC_DECLINE_LEN];
	struct smcr_clc_msg msg;
	int declined = pre_net_accept_plain(listener);
	pre_net_wait(declined, POLLIN);
	assert_int_equal(recv(declined, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	assert_int_equal(smcr_clc_decode(buf, sizeof(buf), &msg), 0);
	assert_int_equal(msg.type, SMCR_CLC_DECLINE);
	expect_hello(declined);
	close(declined);
	expect_hello_from_next();
}

/* A program that is started in a sandbox, such as systemd's RestrictAddressFamilies=, does not
 * promise SMC-R. */
static void test_sandbox_from_the_start(void **state)
{
	(void)state;
	char port[16];
	snprintf(port, sizeof(port), "%d", ntohs(server.in.sin_port));
	pid_t pid = fork();
	if (pid == 0) {
		if (forbid_unix_sockets() == 0)
			execl("/proc/self/exe", "test_process", "sandboxed", port, NULL);
		_exit(22);
	}
	assert_int_equal(exit_status(pid), 0);
	expect_hello_from_next();
}

/* Run by the test above, in a new process. */
static int in_a_sandbox(void)
{
	union ipc_addr addr;
	pre_net_play_option();
	int own = pre_net_listen(AF_INET, &addr);
	if (listen(own, 1) < 0)
		return 23;
	int status = connect_and_tell();
	return status ? status : pre_net_option.claims;
}

/* closefrom(), and descriptors closed behind the library's back, do no harm: the library keeps no
 * descriptor open. */
static void test_closefrom(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(120);
		syscall(SYS_close_range, 0, ~0U, 0);
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd != 0 || pre_net_connect(fd, &server) != 0)
			_exit(30);
		_exit(look_at(fd));
	}
	assert_int_equal(exit_status(pid), GOOD);
	int peer = pre_net_accept_plain(listener);
	expect_hello(peer);
	close(peer);
}

/* -v writes to standard error only as long as descriptor 2 is the same file as at the start. */
static void test_verbose_keeps_to_standard_error(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		pre_settings.verbose = true;
		close(STDERR_FILENO);
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd != STDERR_FILENO || pre_net_connect(fd, &server) != 0)
			_exit(40);
		_exit(look_at(fd));
	}
	assert_int_equal(exit_status(pid), GOOD);
	int peer = pre_net_accept_plain(listener);
	expect_hello(peer);
	char byte;
	pre_net_wait(peer, POLLIN);
	assert_int_equal(recv(peer, &byte, 1, 0), 0);
	close(peer);
}

/* The program was started again. Its arguments: a descriptor or "sandboxed", and the server's port.
 */
static int after_exec(char **argv)
{
	server.in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[2])),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	return strcmp(argv[1], "sandboxed") == 0 ? in_a_sandbox() : look_at(atoi(argv[1]));
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return after_exec(argv);
	const struct CMUnitTest tests[] = {
		TEST(test_fork),
		TEST(test_exec),
		TEST(test_descriptor_passing),
		TEST(test_last_holder_ends_it),
		TEST(test_forged_pair_name),
		TEST(test_threads),
		TEST(test_signal_handlers),
		TEST(test_sandbox_entered_later),
		TEST(test_sandbox_from_the_start),
		TEST(test_closefrom),
		TEST(test_verbose_keeps_to_standard_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
