/* SPDX-License-Identifier: MIT */
#include "lib/smcr/log.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/smcr/pair.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "proto/smcr/reason.h"

static struct stat standard_error;
static bool have_standard_error;

void pre_log_begin(void)
{
	have_standard_error = fstat(STDERR_FILENO, &standard_error) == 0;
}

/* A program may close descriptor 2, and then another file gets that number. */
static bool still_standard_error(void)
{
	struct stat now;
	return have_standard_error && fstat(STDERR_FILENO, &now) == 0 &&
	       now.st_dev == standard_error.st_dev && now.st_ino == standard_error.st_ino;
}

struct addr_text {
	char text[INET6_ADDRSTRLEN + sizeof("[]:65535")];
};

static struct addr_text describe(const union ipc_addr *addr)
{
	struct addr_text out = { "?" };
	char ip[INET6_ADDRSTRLEN];
	if (addr->sa.sa_family == AF_INET && inet_ntop(AF_INET, &addr->in.sin_addr, ip, sizeof(ip)))
		snprintf(out.text, sizeof(out.text), "%s:%u", ip, ntohs(addr->in.sin_port));
	else if (addr->sa.sa_family == AF_INET6 &&
		 inet_ntop(AF_INET6, &addr->in6.sin6_addr, ip, sizeof(ip)))
		snprintf(out.text, sizeof(out.text), "[%s]:%u", ip, ntohs(addr->in6.sin6_port));
	return out;
}

static void addresses(int fd, union ipc_addr *ret_local, union ipc_addr *ret_peer)
{
	struct ipc_pair_name name;
	if (pre_pair_name(fd, &name) == 0) {
		*ret_local = name.local;
		*ret_peer = name.peer;
		return;
	}
	*ret_local = *ret_peer = (union ipc_addr){ .sa = { .sa_family = AF_UNSPEC } };
	socklen_t local_len = sizeof(*ret_local), peer_len = sizeof(*ret_peer);
	sys_getsockname(fd, ret_local, &local_len);
	sys_getpeername(fd, ret_peer, &peer_len);
}

/** @param length the result of snprintf() */
static void put(const char *line, int length, size_t size)
{
	if (length > 0)
		sys_write(STDERR_FILENO, line, (size_t)length < size ? (size_t)length : size - 1);
}

void pre_log(int fd, const char *text)
{
	if (!pre_settings.verbose || !still_standard_error())
		return;
	union ipc_addr local, peer;
	char line[512];
	addresses(fd, &local, &peer);
	int n = snprintf(line, sizeof(line), "smcr-run[%d]: fd %d %s > %s: %s\n", (int)getpid(), fd,
			 describe(&local).text, describe(&peer).text, text);
	put(line, n, sizeof(line));
}

void pre_log_listener(int fd, bool plain, const char *text)
{
	if (!pre_settings.verbose || !text || !still_standard_error())
		return;
	union ipc_addr local, peer;
	char line[512];
	addresses(fd, &local, &peer);
	int n = snprintf(line, sizeof(line), "smcr-run[%d]: fd %d listens at %s: %s%s\n",
			 (int)getpid(), fd, describe(&local).text, plain ? "plain TCP: " : "",
			 text);
	put(line, n, sizeof(line));
}

void pre_log_fallback(int fd, const char *text, uint32_t reason)
{
	char line[384];
	if (!pre_settings.verbose)
		return;
	if (reason == SMCR_REASON_NONE)
		snprintf(line, sizeof(line), "TCP: %s", text ? text : "no reason given");
	else
		snprintf(line, sizeof(line), "TCP: %s%s%s: %s%s", text ? text : "",
			 text ? ", " : "", smcr_reason_name(reason), smcr_reason_text(reason),
			 reason == SMCR_REASON_PEER_DECLINED ? ": smcrctl connection shows why"
							     : "");
	pre_log(fd, line);
}

struct line {
	size_t len;
	char text[512];
};

static void add(struct line *line, const char *text)
{
	for (; *text && line->len < sizeof(line->text) - 1; text++)
		line->text[line->len++] = *text;
}

static void add_number(struct line *line, unsigned number)
{
	char digits[sizeof("4294967295")];
	char *at = digits + sizeof(digits) - 1;
	*at = '\0';
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	add(line, at);
}

void pre_log_text(const char *const parts[])
{
	struct line line = { .len = 0 };
	if (!still_standard_error())
		return;
	add(&line, "smcr-run[");
	add_number(&line, (unsigned)syscall(SYS_getpid));
	add(&line, "]: ");
	for (size_t i = 0; parts[i]; i++)
		add(&line, parts[i]);
	line.text[line.len++] = '\n';
	sys_write(STDERR_FILENO, line.text, line.len);
}
