/* SPDX-License-Identifier: MIT */
/*
 * Sends bytes both ways at once, by the C library's functions and by raw system calls in turn, from
 * two threads and a child process that writes first. Every byte shows its place in its stream.
 *
 *   mix serve ADDRESS PORT BYTES SEED
 *   mix connect ADDRESS PORT BYTES SEED
 *
 * A server prints "listening". The last line is "whole"; "reset" if a reset ended the connection;
 * or what is wrong, with exit status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PART    150000
#define CHILD   20000      /* bytes that the child writes */
#define IN_FILE (4u << 20) /* the stream's first bytes, for sendfile() */

static int fd, file;
static uint64_t total, seed;
static const char *_Atomic verdict;
static const char ended_early[] = "the stream ended early";

static uint8_t byte_at(uint64_t pos)
{
	return (uint8_t)((pos * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

static uint32_t chance(uint64_t *state, uint32_t of)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(*state >> 33) % of;
}

/* The kernel reports a reset once. The thread that gets the report may print it only after the
 * other thread has seen the end of the stream. */
static bool failed(const char *what)
{
	const char *none = NULL, *early = ended_early;
	if (errno == ECONNRESET || errno == EPIPE)
		what = "reset";
	if (!atomic_compare_exchange_strong(&verdict, &none, what) && strcmp(what, "reset") == 0)
		atomic_compare_exchange_strong(&verdict, &early, what);
	shutdown(fd, SHUT_RDWR);
	return false;
}

static ssize_t put(uint64_t *random, uint8_t *buf, size_t len, uint64_t at)
{
	struct iovec iov[2] = { { buf, len / 2 }, { buf + len / 2, len - len / 2 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	off_t offset = (off_t)at;
	switch (chance(random, 7)) {
	case 0: return syscall(SYS_write, fd, buf, len);
	case 1: return write(fd, buf, len);
	case 2: return send(fd, buf, len, MSG_NOSIGNAL);
	case 3: return writev(fd, iov, 2);
	case 4: return sendmsg(fd, &msg, MSG_NOSIGNAL);
	case 5: return at + len <= IN_FILE ? sendfile(fd, file, &offset, len) : write(fd, buf, len);
	default: {
		ssize_t n = send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		struct pollfd pfd = { .fd = fd, .events = POLLOUT };
		if (n < 0 && errno == EAGAIN && poll(&pfd, 1, -1) > 0)
			return put(random, buf, len, at);
		return n;
	}
	}
}

static ssize_t get(uint64_t *random, uint8_t *buf, size_t len)
{
	struct iovec iov[2] = { { buf, len / 2 }, { buf + len / 2, len - len / 2 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	switch (chance(random, 7)) {
	case 0: return syscall(SYS_read, fd, buf, len);
	case 1: return read(fd, buf, len);
	case 2: return recv(fd, buf, len, 0);
	case 3: return readv(fd, iov, 2);
	case 4: return recvmsg(fd, &msg, 0);
	case 5: return poll(&pfd, 1, -1) > 0 ? read(fd, buf, len) : -1;
	default: return poll(&pfd, 1, -1) > 0 ? recv(fd, buf, len, MSG_WAITALL) : -1;
	}
}

static bool put_all(uint64_t at, uint64_t end, uint64_t random)
{
	static _Thread_local uint8_t buf[PART];
	while (at < end) {
		size_t len = 1 + chance(&random, chance(&random, 2) ? PART : 300);
		if (len > end - at)
			len = end - at;
		for (size_t i = 0; i < len; i++)
			buf[i] = byte_at(at + i);
		ssize_t n = put(&random, buf, len, at);
		if (n <= 0)
			return failed("nothing was written");
		at += (uint64_t)n;
	}
	return true;
}

static void *receive(void *arg)
{
	static uint8_t buf[PART];
	uint64_t random = seed + 1;
	(void)arg;
	for (uint64_t at = 0; at < total;) {
		size_t len = 1 + chance(&random, chance(&random, 2) ? PART : 300);
		if (len > total - at)
			len = total - at;
		errno = 0;
		ssize_t n = get(&random, buf, len);
		if (n <= 0) {
			failed(n < 0 ? "nothing was read" : ended_early);
			return NULL;
		}
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] != byte_at(at + (uint64_t)i)) {
				failed("a wrong byte");
				return NULL;
			}
		at += (uint64_t)n;
	}
	return NULL;
}

/* The file's pages may be in a queue long after sendfile() has returned, so they must not change.
 */
static bool make_file(void)
{
	static uint8_t buf[IN_FILE];
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = byte_at(i);
	file = (int)syscall(SYS_memfd_create, "mix", 0);
	return file >= 0 && write(file, buf, sizeof(buf)) == (ssize_t)sizeof(buf);
}

static bool run(void)
{
	pthread_t thread;
	uint8_t last;
	int status;
	if (!make_file())
		return failed("no file");
	pid_t child = fork();
	if (child == 0)
		_exit(put_all(0, CHILD, seed + 2) ? 0 : 1);
	pthread_create(&thread, NULL, receive, NULL);
	bool put = child > 0 && waitpid(child, &status, 0) == child && status == 0;
	if (put)
		put_all(CHILD, total, seed);
	else
		failed("the child");
	shutdown(fd, SHUT_WR);
	pthread_join(thread, NULL);
	errno = 0;
	if (!atomic_load(&verdict) && read(fd, &last, 1) != 0)
		failed("more came than was written");
	return !atomic_load(&verdict);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	if (argc != 6 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((uint16_t)atoi(argv[3]));
	total = strtoull(argv[4], NULL, 10) + CHILD;
	seed = strtoull(argv[5], NULL, 10);
	signal(SIGPIPE, SIG_IGN);
	int on = 1, s = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (strcmp(argv[1], "serve") == 0) {
		if (bind(s, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(s, 5) < 0)
			return 2;
		puts("listening");
		fflush(stdout);
		fd = accept(s, NULL, NULL);
	} else {
		fd = connect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0 ? s : -1;
	}
	if (fd < 0)
		return 2;
	bool whole = run();
	const char *text = whole ? "whole" : atomic_load(&verdict);
	puts(text);
	return whole || strcmp(text, "reset") == 0 ? 0 : 1;
}
