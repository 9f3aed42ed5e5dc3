/* SPDX-License-Identifier: MIT */
/* Which user has a name or a port. Root makes sockets as another user; others ask of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/holder.h"
#include "tests/lib/tries.h"

#define LIMIT_MS 10000

static uid_t other;

/* @return a socket of the other user */
static int others_socket(int family)
{
	other = geteuid() == 0 ? 12345 : geteuid();
	setfsuid(other);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setfsuid(geteuid());
	assert_true(fd >= 0);
	return fd;
}

static void expect_holder(int r, uid_t uid)
{
	char text[HOLDER_TEXT], want[HOLDER_TEXT];
	assert_int_equal(r, 0);
	assert_int_equal(uid, other);
	holder_text(r, uid, text);
	snprintf(want, sizeof(want), "user %u", (unsigned int)other);
	assert_string_equal(text, want);
}

static void of_an_abstract_name(void **state)
{
	(void)state;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const size_t at = offsetof(struct sockaddr_un, sun_path);
	char text[HOLDER_TEXT];
	uid_t uid = 77;
	int len =
		snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "holder-test-%d", getpid());
	const size_t size = at + 1 + (size_t)len;
	assert_int_equal(holder_of_unix(&addr, size, LIMIT_MS, &uid), -ENOENT);
	for (int listens = 0; listens < 2; listens++) {
		TRIES("listens: %d", listens);
		int fd = others_socket(AF_UNIX);
		assert_int_equal(bind(fd, (struct sockaddr *)&addr, (socklen_t)size), 0);
		assert_int_equal(listens ? listen(fd, 1) : 0, 0);
		int r = holder_of_unix(&addr, size, LIMIT_MS, &uid);
		expect_holder(r, uid);
		/* It is the whole name that counts. */
		uid = 77;
		assert_int_equal(holder_of_unix(&addr, size - 1, LIMIT_MS, &uid), -ENOENT);
		assert_int_equal(holder_of_unix(&addr, at, LIMIT_MS, &uid), -EINVAL);
		/* No time is left to look. */
		assert_int_equal(holder_of_unix(&addr, size, 0, &uid), -ETIME);
		assert_int_equal(uid, 77);
		close(fd);
	}
	holder_text(-ETIME, uid, text);
	assert_string_equal(text, "a user whom the kernel does not name");
}

static void of_a_pair_end(void **state)
{
	(void)state;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int ends[2];
	uid_t uid = 77;
	int len =
		snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "holder-pair-%d", getpid());
	const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len;
	close(others_socket(AF_UNIX));
	setfsuid(other);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	setfsuid(geteuid());
	assert_int_equal(bind(ends[1], (struct sockaddr *)&addr, (socklen_t)size), 0);
	int r = holder_of_unix(&addr, size, LIMIT_MS, &uid);
	expect_holder(r, uid);
	close(ends[0]);
	close(ends[1]);
}

static struct sockaddr_storage address(const char *text, in_port_t port)
{
	struct sockaddr_storage addr = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	void *ip = addr.ss_family == AF_INET ? (void *)&in->sin_addr : (void *)&in6->sin6_addr;
	assert_int_equal(inet_pton(addr.ss_family, text, ip), 1);
	in->sin_port = port;
	return addr;
}

static void of_a_port(void **state)
{
	static const struct {
		const char *theirs, *ours;
		bool covers;
	} rows[] = {
		{ "127.0.0.1", "127.0.0.1", true }, { "127.0.0.1", "127.0.0.2", false },
		{ "127.0.0.1", "0.0.0.0", true },   { "0.0.0.0", "127.0.0.1", true },
		{ "::", "127.0.0.1", true },        { "::1", "::1", true },
		{ "::1", "127.0.0.1", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s, %s", rows[i].theirs, rows[i].ours);
		struct sockaddr_storage theirs = address(rows[i].theirs, 0);
		socklen_t len = sizeof(theirs);
		uid_t uid = 77;
		int fd = others_socket(theirs.ss_family);
		if (bind(fd, (struct sockaddr *)&theirs, len) < 0) { /* no IPv6 here */
			close(fd);
			continue;
		}
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&theirs, &len), 0);
		struct sockaddr_storage ours =
			address(rows[i].ours, ((struct sockaddr_in *)&theirs)->sin_port);
		int r = holder_of_tcp(&ours, LIMIT_MS, &uid);
		if (rows[i].covers)
			expect_holder(r, uid);
		else
			assert_int_equal(r, -ENOENT);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_an_abstract_name),
		cmocka_unit_test(of_a_pair_end),
		cmocka_unit_test(of_a_port),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
