/* SPDX-License-Identifier: MIT */
/* The socket pair between a program and the daemon: kept byte, plug, ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/conns/pair.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

static uint64_t next_id = 1;

static struct ipc_pair_name name_of(uint64_t id)
{
	return (struct ipc_pair_name){
		.local.in = { .sin_family = AF_INET,
			      .sin_port = htons(1000),
			      .sin_addr.s_addr = htonl(0x0a000001) },
		.peer.in = { .sin_family = AF_INET,
			     .sin_port = htons(2000),
			     .sin_addr.s_addr = htonl(0x0a000002) },
		.id = ((uint64_t)getpid() << 32) + id,
	};
}

static void open_pair(struct pair *pair, int *program, int plug_fd)
{
	struct ipc_pair_name name = name_of(next_id++);
	assert_int_equal(pair_open(&name, plug_fd, pair, program), 0);
}

static ssize_t read_some(struct pair *pair, void *buf, size_t len)
{
	struct iovec iov = { buf, len };
	ssize_t n = pair_read(pair, &iov, 1);
	pair_settle(pair);
	return n;
}

static ssize_t write_some(struct pair *pair, const void *buf, size_t len)
{
	struct iovec iov = { (void *)buf, len };
	return pair_write(pair, &iov, 1);
}

static short poll_bits(int fd, short events, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	assert_true(poll(&pfd, 1, timeout_ms) >= 0);
	return pfd.revents;
}

static size_t queued(const struct pair *pair)
{
	int n = 0;
	assert_int_equal(ioctl(pair->fd, FIONREAD, &n), 0);
	return (size_t)n;
}

/* ---- death of the daemon */

static void send_fd(int socket, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	if (sendmsg(socket, &msg, 0) != 1)
		_exit(1);
}

static int receive_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	assert_int_equal(recvmsg(socket, &msg, MSG_CMSG_CLOEXEC), 1);
	int fd;
	assert_non_null(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* Starts a process that is the daemon of one pair: it delivers "hello", and before that takes 3
 * bytes from the program if `forward` is set. Returns when this is done. */
static pid_t start_daemon(int *ret_program, bool forward)
{
	int channel[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
	struct ipc_pair_name name = name_of(next_id++);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		struct pair pair;
		int program;
		char buf[16];
		size_t got = 0;
		if (pair_open(&name, -1, &pair, &program) < 0)
			_exit(1);
		send_fd(channel[1], program);
		close(program);
		while (forward && got < 3) {
			poll(&(struct pollfd){ .fd = pair.fd, .events = POLLIN }, 1, -1);
			ssize_t n = read_some(&pair, buf, sizeof(buf));
			got += n > 0 ? (size_t)n : 0;
		}
		if (write_some(&pair, "hello", 5) != 5 || write(channel[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(channel[1]);
	*ret_program = receive_fd(channel[0]);
	if (forward)
		assert_int_equal(write(*ret_program, "abc", 3), 3);
	char ready;
	assert_int_equal(read(channel[0], &ready, 1), 1);
	close(channel[0]);
	return pid;
}

static void kill_daemon(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void expect_hello_then_reset(int program)
{
	char buf[16];
	assert_int_equal(read(program, buf, sizeof(buf)), 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(read(program, buf, sizeof(buf)), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(send(program, "x", 1, MSG_NOSIGNAL), -1);
}

static void daemon_death_is_a_reset_for_read(void **state)
{
	(void)state;
	for (int forward = 0; forward < 2; forward++) {
		TRIES("forward %d", forward);
		int program;
		pid_t pid = start_daemon(&program, forward);
		kill_daemon(pid);
		expect_hello_then_reset(program);
		close(program);
	}
	PROVES("GEN-10");
}

static void daemon_death_is_a_reset_for_a_blocked_reader(void **state)
{
	(void)state;
	int program;
	char buf[16];
	pid_t pid = start_daemon(&program, true);
	fcntl(program, F_SETFL, fcntl(program, F_GETFL) & ~O_NONBLOCK);
	assert_int_equal(read(program, buf, sizeof(buf)), 5);
	pid_t killer = fork();
	assert_true(killer >= 0);
	/* The reader is asleep by now, or about to sleep: in both cases it must wake up. */
	if (killer == 0) {
		close(program);
		kill(pid, SIGKILL);
		_exit(0);
	}
	assert_int_equal(read(program, buf, sizeof(buf)), -1);
	assert_int_equal(errno, ECONNRESET);
	waitpid(killer, NULL, 0);
	waitpid(pid, NULL, 0);
	close(program);
	PROVES("GEN-10");
}

static void daemon_death_is_a_reset_for_poll_and_epoll(void **state)
{
	(void)state;
	int program;
	pid_t pid = start_daemon(&program, true);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, program, &event), 0);
	assert_int_equal(epoll_wait(ep, &event, 1, 20000), 1); /* readable: "hello" */
	kill_daemon(pid);
	assert_int_equal(epoll_wait(ep, &event, 1, 20000), 1);
	assert_int_equal(event.events & (EPOLLERR | EPOLLHUP | EPOLLIN),
			 EPOLLERR | EPOLLHUP | EPOLLIN);
	short bits = poll_bits(program, POLLIN | POLLOUT, 20000);
	assert_int_equal(bits & (POLLERR | POLLHUP | POLLIN), POLLERR | POLLHUP | POLLIN);
	expect_hello_then_reset(program);
	close(ep);
	close(program);
	PROVES("GEN-10");
}

/* ---- identity */

static void the_name_tells_both_addresses(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	struct ipc_pair_name want = name_of(next_id), got;
	open_pair(&pair, &program, -1);
	int copy = fcntl(program, F_DUPFD_CLOEXEC, 0);
	assert_true(fcntl(program, F_GETFD) & FD_CLOEXEC);
	close(program);

	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	assert_int_equal(getsockname(copy, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(ipc_pair_name_decode(&addr, len, &got), 0);
	assert_int_equal(got.id, want.id);
	assert_int_equal(got.local.in.sin_port, want.local.in.sin_port);
	assert_int_equal(got.peer.in.sin_addr.s_addr, want.peer.in.sin_addr.s_addr);
	uint64_t cookie;
	assert_int_equal(pair_cookie(copy, &cookie), 0);
	assert_true(cookie == pair.program_cookie);
	assert_int_equal(pair_cookie(pair.fd, &cookie), 0);
	assert_true(cookie != pair.program_cookie);

	struct pair other;
	assert_int_equal(pair_open(&want, -1, &other, &program), -EADDRINUSE);
	assert_true(fcntl(pair.fd, F_GETFD) & FD_CLOEXEC);
	pair_reset(&pair);
	close(copy);
}

/* ---- the plug */

static void a_plugged_end_becomes_writable_when_unplugged(void **state)
{
	(void)state;
	struct pair pair;
	int program, plug_fd = pair_plug_file();
	char buf[16];
	assert_true(plug_fd >= 0);
	open_pair(&pair, &program, plug_fd);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, program, &event), 0);
	assert_int_equal(epoll_wait(ep, &event, 1, 0), 0);
	assert_int_equal(write(program, "x", 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(poll_bits(program, POLLOUT | POLLIN, 0), 0);

	pair_unplug(&pair);
	assert_int_equal(epoll_wait(ep, &event, 1, 0), 1);
	assert_int_equal(event.events, EPOLLOUT);
	assert_int_equal(write(program, "first", 5), 5);
	assert_int_equal(read_some(&pair, buf, sizeof(buf)), 5);
	assert_memory_equal(buf, "first", 5);
	pair_reset(&pair);
	close(ep);
	close(program);
	close(plug_fd);
	PROVES("GEN-6");
}

/* An unplugged pair holds as much as one that never had a plug, and forwarded messages may stay in
 * it. Otherwise the daemon would drop each message of a program whose connect() did not block. */
static void an_unplugged_pair_has_the_usual_room(void **state)
{
	(void)state;
	struct pair usual, pair;
	int usual_program, program, plug_fd = pair_plug_file(), want, got;
	socklen_t len = sizeof(int);
	char buf[16];
	open_pair(&usual, &usual_program, -1);
	open_pair(&pair, &program, plug_fd);
	pair_unplug(&pair);
	assert_int_equal(getsockopt(usual_program, SOL_SOCKET, SO_SNDBUF, &want, &len), 0);
	assert_int_equal(getsockopt(program, SOL_SOCKET, SO_SNDBUF, &got, &len), 0);
	assert_int_equal(got, want);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(write(program, "hello", 5), 5);
		assert_int_equal(read_some(&pair, buf, sizeof(buf)), 5);
	}
	assert_in_range(queued(&pair), 3 * 5, 3 * 5 + 1);
	pair_reset(&usual);
	pair_reset(&pair);
	close(usual_program);
	close(program);
	close(plug_fd);
}

static void only_who_let_go_of_a_plugged_end_sees_it_closed(void **state)
{
	(void)state;
	struct pair pair;
	int program, plug_fd = pair_plug_file();
	open_pair(&pair, &program, plug_fd);
	close(program);
	assert_false(pair_closed(&pair));
	pair_let_go(&pair);
	assert_true(pair_closed(&pair));
	pair_reset(&pair);
	close(plug_fd);
}

static void closing_a_plugged_pair_is_a_reset(void **state)
{
	(void)state;
	struct pair pair;
	int program, plug_fd = pair_plug_file();
	char byte;
	open_pair(&pair, &program, plug_fd);
	pair_reset(&pair);
	assert_int_equal(read(program, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	close(program);
	close(plug_fd);
}

/* ---- bytes */

static uint8_t pattern(size_t at)
{
	return (uint8_t)((at * 2654435761u) >> 13);
}

/* Starts a program that writes `total` bytes of the pattern in pieces of any size, waits by poll()
 * when the pair is full, and then shuts down and waits for end of file. */
static pid_t start_writer(int program, int daemon, size_t total, size_t largest)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(daemon);
	uint8_t *piece = malloc(largest);
	uint64_t random = 42;
	for (size_t at = 0; at < total;) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		size_t len = 1 + (random >> 33) % largest;
		if (len > total - at)
			len = total - at;
		for (size_t i = 0; i < len; i++)
			piece[i] = pattern(at + i);
		ssize_t n = write(program, piece, len);
		if (n > 0)
			at += (size_t)n;
		else if (errno != EAGAIN)
			_exit(1);
		else if (poll(&(struct pollfd){ .fd = program, .events = POLLOUT }, 1, 20000) != 1)
			_exit(2); /* was never told that the pair takes bytes again */
	}
	shutdown(program, SHUT_WR);
	char byte;
	poll(&(struct pollfd){ .fd = program, .events = POLLIN }, 1, 20000);
	_exit(read(program, &byte, 1) == 0 ? 0 : 3);
}

static void pass_bytes(size_t total, size_t largest, size_t ring_size)
{
	struct pair pair;
	int program;
	open_pair(&pair, &program, -1);
	pid_t writer = start_writer(program, pair.fd, total, largest);
	close(program);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, pair.fd, &event), 0);

	uint8_t *ring = malloc(ring_size);
	size_t at = 0;
	bool ended = false, hangup = false;
	while (!ended) {
		/* Edge-triggered events are enough: pair_read() tells when to wait for one. */
		assert_int_equal(epoll_wait(ep, &event, 1, 20000), 1);
		hangup |= event.events & EPOLLRDHUP;
		do {
			size_t split = at % ring_size;
			struct iovec iov[2] = { { ring + split, ring_size - split },
						{ ring, split } };
			ssize_t n = pair_read(&pair, iov, 2);
			if (n == -EAGAIN)
				break;
			assert_true(n >= 0);
			ended = n == 0;
			for (ssize_t i = 0; i < n; i++, at++)
				assert_int_equal(ring[at % ring_size], pattern(at));
			assert_true(queued(&pair) >= 1);
			pair_settle(&pair);
			assert_true(queued(&pair) >= 1);
		} while (!ended && (!pair.drained || hangup));
	}
	assert_int_equal(at, total);
	pair_finish(&pair);
	int status;
	waitpid(writer, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	free(ring);
	close(ep);
}

static void every_byte_passes_once(void **state)
{
	(void)state;
	pass_bytes(20000, 3, 100000); /* small writes: bytes that were forwarded may stay queued */
	pass_bytes(20000, 50, 64);
	pass_bytes(2u << 20, 2000, 65536);
	pass_bytes(16u << 20, 100000, 512 * 1024);
	pass_bytes(16u << 20, 3u << 20, 300001); /* large writes */
}

/* Each forwarded message that stays queued makes the next peek longer. They are dropped when the
 * program gets bytes, but a program that gets none must not have long peeks either. */
static void few_forwarded_messages_stay_queued(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	size_t most = 0;
	char buf[8], text[] = "answer";
	const struct iovec answer = { text, sizeof(text) };
	open_pair(&pair, &program, -1);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(send(program, "hello", 5, 0), 5);
		assert_int_equal(read_some(&pair, buf, sizeof(buf)), 5);
		most = queued(&pair) > most ? queued(&pair) : most;
	}
	assert_in_range(most, 5, 20 * 5);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(send(program, "hello", 5, 0), 5);
		assert_int_equal(read_some(&pair, buf, sizeof(buf)), 5);
	}
	assert_int_equal(pair_write(&pair, &answer, 1), sizeof(text));
	assert_int_equal(queued(&pair), 1); /* only the kept byte */
	pair_finish(&pair);
	close(program);
}

static void forwarded_bytes_do_not_keep_the_program_from_writing(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	char buf[64];
	open_pair(&pair, &program, -1);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(write(program, "x", 1), 1);
		assert_int_equal(read_some(&pair, buf, sizeof(buf)), 1);
		assert_int_equal(poll_bits(program, POLLOUT, 0), POLLOUT);
	}
	/* Even the largest messages leave the queue once they are forwarded. */
	static uint8_t big[1 << 20];
	ssize_t sent = write(program, big, sizeof(big));
	assert_true(sent > 0);
	for (ssize_t got = 0; got < sent;)
		got += read_some(&pair, big, sizeof(big));
	assert_int_equal(poll_bits(program, POLLOUT, 0), POLLOUT);
	pair_reset(&pair);
	close(program);
}

struct marked_stream {
	struct pair pair;
	int program;
	uint64_t random;
	size_t sent, got, mark; /* mark: the position behind the newest urgent byte */
	unsigned int marks, found;
	uint8_t buf[200000];
};

static size_t some_size(struct marked_stream *s)
{
	static const size_t sizes[] = { 1, 2, 3, 100, 5000, 32 * 1024, 64 * 1024, 100000 };
	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	return sizes[(s->random >> 40) % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void write_marked(struct marked_stream *s)
{
	size_t size = some_size(s);
	bool urgent = s->random >> 62 == 0;
	for (size_t i = 0; i < size; i++)
		s->buf[i] = pattern(s->sent + i);
	ssize_t n = send(s->program, s->buf, size, urgent ? MSG_OOB : 0);
	s->sent += n > 0 ? (size_t)n : 0;
	if (n != (ssize_t)size || !urgent)
		return;
	/* otherwise the earlier urgent byte has become an ordinary one */
	s->marks += s->mark <= s->got;
	s->mark = s->sent;
}

static void read_marked(struct marked_stream *s)
{
	ssize_t n = read_some(&s->pair, s->buf, some_size(s));
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal(s->buf[i], pattern(s->got + (size_t)i));
	assert_true(queued(&s->pair) >= 1);
	if (n == -EAGAIN) {
		assert_int_equal(s->got, s->sent);
		return;
	}
	assert_true(n > 0);
	s->got += (size_t)n;
	assert_int_equal(s->pair.urgent, s->got == s->mark);
	assert_true(!s->pair.urgent || n == 1);
	s->found += s->pair.urgent;
}

/* Urgent bytes among writes of all sizes, some of which end where the daemon's reads end. Each
 * urgent byte is read alone, in its place. If several wait, the last one is urgent. */
static void urgent_bytes_are_found(void **state)
{
	(void)state;
	static struct marked_stream s = { .random = 7 };
	open_pair(&s.pair, &s.program, -1);
	for (int turn = 0; turn < 3000; turn++) {
		write_marked(&s);
		for (uint64_t n = (s.random >> 33) % 12; n > 0; n--)
			read_marked(&s);
	}
	while (s.got < s.sent)
		read_marked(&s);
	assert_true(s.marks > 200);
	assert_int_equal(s.found, s.marks);
	pair_reset(&s.pair);
	close(s.program);
}

/* The same where the daemon reads only after edge-triggered events, and until pair_read() says that
 * there is no more. */
static void events_tell_of_urgent_bytes(void **state)
{
	(void)state;
	static struct marked_stream s = { .random = 11 };
	open_pair(&s.pair, &s.program, -1);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET };
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, s.pair.fd, &event), 0);
	for (int turn = 0; turn < 3000; turn++) {
		for (uint64_t n = (s.random >> 33) % 4; n > 0; n--)
			write_marked(&s);
		write_marked(&s);
		while (epoll_wait(ep, &event, 1, 0) == 1) {
			pair_note(&s.pair, event.events);
			do
				read_marked(&s);
			while (s.got < s.sent && !s.pair.drained);
		}
		assert_int_equal(s.got, s.sent);
	}
	assert_true(s.marks > 200);
	assert_int_equal(s.found, s.marks);
	pair_reset(&s.pair);
	close(s.program);
	close(ep);
}

static void urgent_bytes_and_descriptors_do_not_stop_the_stream(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	char got[16];
	size_t len = 0;
	open_pair(&pair, &program, -1);
	assert_int_equal(write(program, "ab", 2), 2);
	assert_int_equal(send(program, "cd", 2, MSG_OOB), 2);
	assert_int_equal(write(program, "ef", 2), 2);
	send_fd(program, program); /* sends "x" with the descriptor */
	assert_int_equal(write(program, "gh", 2), 2);
	for (ssize_t n; (n = read_some(&pair, got + len, sizeof(got) - len)) > 0;)
		len += (size_t)n;
	assert_int_equal(len, 9);
	assert_memory_equal(got, "abcdefxgh", 9);
	assert_true(queued(&pair) >= 1);
	close(program); /* the copy that was sent is closed already: this is the last descriptor */
	assert_true(pair_closed(&pair));
	pair_finish(&pair);
}

/* ---- ends of the stream ---- */

static void half_close_both_ways(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	char buf[16];
	open_pair(&pair, &program, -1);
	assert_int_equal(write(program, "last", 4), 4);
	shutdown(program, SHUT_WR);
	assert_int_equal(read_some(&pair, buf, sizeof(buf)), 4);
	assert_int_equal(read_some(&pair, buf, sizeof(buf)), 0);
	assert_false(pair_closed(&pair));
	assert_true(queued(&pair) >= 1); /* a reset is still possible */

	assert_int_equal(write_some(&pair, "answer", 6), 6);
	pair_finish(&pair);
	assert_int_equal(read(program, buf, sizeof(buf)), 6);
	assert_int_equal(read(program, buf, sizeof(buf)), 0);
	close(program);
}

static void end_of_file_leaves_the_other_direction_open(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	char buf[16];
	open_pair(&pair, &program, -1);
	assert_int_equal(write_some(&pair, "bye", 3), 3);
	pair_shutdown(&pair);
	assert_int_equal(read(program, buf, sizeof(buf)), 3);
	assert_int_equal(read(program, buf, sizeof(buf)), 0);
	assert_false(pair_closed(&pair));
	assert_int_equal(write(program, "more", 4), 4);
	assert_int_equal(read_some(&pair, buf, sizeof(buf)), 4);
	pair_reset(&pair); /* after end of file only writers see the reset */
	assert_int_equal(send(program, "x", 1, MSG_NOSIGNAL), -1);
	close(program);
}

static void close_tells_whether_data_was_left_unread(void **state)
{
	(void)state;
	char buf[16];
	for (int unread = 0; unread < 2; unread++) {
		TRIES("unread %d", unread);
		struct pair pair;
		int program;
		open_pair(&pair, &program, -1);
		assert_int_equal(write_some(&pair, "data", 4), 4);
		assert_int_equal(read(program, buf, unread ? 3 : 4), unread ? 3 : 4);
		assert_int_equal(write(program, "tail", 4), 4);
		close(program);
		assert_true(pair_closed(&pair));
		assert_int_equal(pair.unread, unread);
		assert_int_equal(read_some(&pair, buf, sizeof(buf)), 4);
		assert_memory_equal(buf, "tail", 4);
		assert_int_equal(read_some(&pair, buf, sizeof(buf)), 0);
		assert_int_equal(write_some(&pair, "x", 1), -EPIPE);
		pair_finish(&pair);
	}
}

/* close() with bytes unread hides from the daemon that the program had shut writing down. */
static void shutdown_is_seen_before_the_close_only(void **state)
{
	(void)state;
	static const struct {
		bool shuts;
		int how;
		bool looked, shut;
	} rows[] = {
		{ false, 0, true, false },       { true, SHUT_RD, true, false },
		{ true, SHUT_WR, false, false }, { true, SHUT_WR, true, true },
		{ true, SHUT_RDWR, true, true },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair pair;
		int program;
		open_pair(&pair, &program, -1);
		assert_int_equal(write_some(&pair, "unread", 6), 6);
		pair_look_if_shut(&pair);
		assert_false(pair.shut);
		if (rows[i].shuts)
			shutdown(program, rows[i].how);
		if (rows[i].looked)
			pair_look_if_shut(&pair);
		close(program);
		pair_look_if_shut(&pair);
		pair_note(&pair, EPOLLRDHUP | EPOLLHUP | EPOLLERR);
		assert_int_equal(pair.shut, rows[i].shut);
		pair_reset(&pair);
	}
}

static void shutdown_of_reading_is_no_close(void **state)
{
	(void)state;
	struct pair pair;
	int program;
	char buf[16];
	open_pair(&pair, &program, -1);
	shutdown(program, SHUT_RD);
	assert_int_equal(write_some(&pair, "x", 1), -EPIPE);
	assert_false(pair_closed(&pair));
	assert_int_equal(write(program, "still", 5), 5);
	assert_int_equal(read_some(&pair, buf, sizeof(buf)), 5);
	shutdown(program, SHUT_RDWR);
	assert_true(pair_closed(&pair));
	assert_false(pair.unread);
	pair_finish(&pair);
	close(program);
	PROVES("CLOSE-5");
}

/* As many pairs as may exist at a time can have urgent bytes. Each gives its share back, whichever
 * way it ends. */
static void every_end_gives_back_the_way_of_urgent_bytes(void **state)
{
	(void)state;
	void (*const ends[])(struct pair * pair) = { pair_finish, pair_refuse, pair_reset };
	for (size_t i = 0; i < 3 * (size_t)100; i++) {
		struct pair pair;
		int program;
		open_pair(&pair, &program, -1);
		assert_true(pair_make_way(&pair));
		ends[i / 100](&pair);
		close(program);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(daemon_death_is_a_reset_for_read),
		cmocka_unit_test(daemon_death_is_a_reset_for_a_blocked_reader),
		cmocka_unit_test(daemon_death_is_a_reset_for_poll_and_epoll),
		cmocka_unit_test(the_name_tells_both_addresses),
		cmocka_unit_test(a_plugged_end_becomes_writable_when_unplugged),
		cmocka_unit_test(an_unplugged_pair_has_the_usual_room),
		cmocka_unit_test(only_who_let_go_of_a_plugged_end_sees_it_closed),
		cmocka_unit_test(closing_a_plugged_pair_is_a_reset),
		cmocka_unit_test(every_byte_passes_once),
		cmocka_unit_test(few_forwarded_messages_stay_queued),
		cmocka_unit_test(forwarded_bytes_do_not_keep_the_program_from_writing),
		cmocka_unit_test(urgent_bytes_are_found),
		cmocka_unit_test(events_tell_of_urgent_bytes),
		cmocka_unit_test(urgent_bytes_and_descriptors_do_not_stop_the_stream),
		cmocka_unit_test(half_close_both_ways),
		cmocka_unit_test(end_of_file_leaves_the_other_direction_open),
		cmocka_unit_test(close_tells_whether_data_was_left_unread),
		cmocka_unit_test(shutdown_is_seen_before_the_close_only),
		cmocka_unit_test(shutdown_of_reading_is_no_close),
		cmocka_unit_test(every_end_gives_back_the_way_of_urgent_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
