/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/nft.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 10000
#define MAX_OUTPUT  (64u << 20)

static json_t *fail(char ret_error[NFT_ERROR_LEN], const char *text)
{
	snprintf(ret_error, NFT_ERROR_LEN, "%s", text);
	return NULL;
}

/* Looks where packages install nft: a user's PATH need not have these directories. */
static const char *find_nft(void)
{
	static const char *const places[] = { "/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft",
					      "/usr/local/sbin/nft" };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

/* In the child. */
static void become_nft(const char *path, int out)
{
	static char *const environment[] = { NULL };
	int null = open("/dev/null", O_RDWR);
	dup2(null, 0);
	dup2(out, 1);
	dup2(null, 2);
	execle(path, "nft", "-j", "list", "ruleset", NULL, environment);
	_exit(127);
}

static long long now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

/* @return false: nft takes too long or prints too much, or there is no memory */
static bool read_all(int fd, FILE *text)
{
	long long end = now_ms() + PATIENCE_MS;
	size_t total = 0;
	for (;;) {
		char buf[65536];
		long long left = end - now_ms();
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		int n = left > 0 ? poll(&ready, 1, (int)left) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		ssize_t got = read(fd, buf, sizeof(buf));
		if (got <= 0)
			return got == 0;
		total += (size_t)got;
		if (total > MAX_OUTPUT || fwrite(buf, 1, (size_t)got, text) != (size_t)got)
			return false;
	}
}

static json_t *take(pid_t child, int fd, char ret_error[NFT_ERROR_LEN])
{
	char *text = NULL;
	size_t size = 0;
	int status = -1;
	FILE *out = open_memstream(&text, &size);
	bool whole = out && read_all(fd, out);
	if (out)
		fclose(out);
	if (!whole)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	json_t *ruleset = whole && status == 0 ? json_loads(text, 0, NULL) : NULL;
	free(text);
	if (ruleset)
		return ruleset;
	return fail(ret_error, !whole ? "nft takes too long" : "nft does not list the rules");
}

json_t *nft_ruleset(char ret_error[NFT_ERROR_LEN])
{
	int ends[2];
	const char *path = find_nft();
	if (!path)
		return fail(ret_error, "the program nft is not installed");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(ret_error, strerror(errno));
	pid_t child = fork();
	if (child == 0)
		become_nft(path, ends[1]);
	close(ends[1]);
	json_t *ruleset =
		child < 0 ? fail(ret_error, strerror(errno)) : take(child, ends[0], ret_error);
	close(ends[0]);
	return ruleset;
}
