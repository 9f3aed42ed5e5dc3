/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/capture_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BUFFER (1u << 18)
#define LOOK_MS     50
#define MAX_LOOKS   40 /* 2 s after the end of the capture in which the reader takes nothing */

static volatile sig_atomic_t signals;

static void count(int signal)
{
	(void)signal;
	if (signals < 2)
		signals++;
}

uint64_t capture_out_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int capture_out_take_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = count }; /* no SA_RESTART */
	struct sigaction before;
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (sigaction(ends[i], NULL, &before) < 0)
			return -1;
		if (ends[i] == SIGHUP && before.sa_handler == SIG_IGN)
			continue;
		if (sigaction(ends[i], &action, NULL) < 0)
			return -1;
		sigaddset(&set, ends[i]);
	}
	return sigprocmask(SIG_UNBLOCK, &set, NULL);
}

bool capture_out_is_interrupted(void)
{
	return signals > 0;
}

bool capture_out_is_over(const struct capture_out *out)
{
	return signals || (out->end_ms && capture_out_now() >= out->end_ms);
}

/* ---- writing ---- */

static bool give_up(struct capture_out *out, const char *problem)
{
	if (!out->problem)
		out->problem = problem;
	return false;
}

/* Polls for short times, so that a signal just before poll() is noticed soon. */
static bool wait_until_writable(struct capture_out *out)
{
	struct pollfd fd = { .fd = out->fd, .events = POLLOUT };
	unsigned int looks = 0;
	for (;;) {
		int r = signals > 1 ? 0 : poll(&fd, 1, LOOK_MS);
		if (r > 0)
			return true;
		if (signals > 1)
			return give_up(out, "interrupted before all messages were written");
		looks += r == 0 && capture_out_is_over(out);
		if (looks >= MAX_LOOKS)
			return give_up(out, "its reader takes nothing");
	}
}

/* After poll() a pipe takes PIPE_BUF bytes without waiting, so each write has that many at most. */
static ssize_t write_some(void *cookie, const char *buf, size_t size)
{
	struct capture_out *out = cookie;
	size_t done = 0;
	while (done < size && !out->problem) {
		if (!out->whole && !wait_until_writable(out))
			break;
		const size_t left = size - done;
		ssize_t n =
			write(out->fd, buf + done, out->whole || left < PIPE_BUF ? left : PIPE_BUF);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || (errno != EINTR && errno != EAGAIN))
			give_up(out, strerror(n == 0 ? EIO : errno));
	}
	return (ssize_t)done;
}

/* ---- open and close ---- */

static int open_fd(const char *name)
{
	struct stat st;
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	int error = errno;
	if (error == ENXIO && stat(name, &st) == 0 && S_ISFIFO(st.st_mode))
		return -EAGAIN;
	return -error;
}

int capture_out_open(struct capture_out *out, const char *name)
{
	const cookie_io_functions_t functions = { .write = write_some };
	struct stat st;
	out->own = name != NULL;
	out->fd = name ? open_fd(name) : STDOUT_FILENO;
	if (out->fd < 0)
		return out->fd;
	out->whole = fstat(out->fd, &st) == 0 && S_ISREG(st.st_mode);
	out->file = fopencookie(out, "w", functions);
	if (out->file) {
		setvbuf(out->file, NULL, _IOFBF, FILE_BUFFER);
		return 0;
	}
	if (out->own)
		close(out->fd);
	return -ENOMEM;
}

bool capture_out_close(struct capture_out *out)
{
	if (!out->file)
		return true;
	if (fclose(out->file) != 0)
		give_up(out, strerror(errno));
	out->file = NULL;
	if (out->own && close(out->fd) != 0)
		give_up(out, strerror(errno));
	return !out->problem;
}
