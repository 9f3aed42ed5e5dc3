/* SPDX-License-Identifier: MIT */
/* Descriptors whose close() blocks: nobody waits for a descriptor of another user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/conns/internal.h"
#include "tests/lib/tries.h"

#define PATIENCE_MS 60000
/* sockets of one user; with two more the closer would take no more from this user */
#define CROWD 62
#define USERS 3 /* users with so many sockets */

/* A connection whose last close() waits a very long time for a peer that does not read. */
struct slow {
	int near, far;
};

static struct slow slow_new(void)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	const int small = 4096;
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	static char block[65536];
	struct slow slow;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	slow.near = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(slow.near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	assert_int_equal(connect(slow.near, (struct sockaddr *)&addr, sizeof(addr)), 0);
	slow.far = accept(listener, NULL, NULL);
	assert_true(slow.far >= 0);
	close(listener);
	struct pollfd pfd = { .fd = slow.near, .events = POLLOUT };
	while (poll(&pfd, 1, 20) == 1)
		assert_true(send(slow.near, block, sizeof(block), MSG_DONTWAIT) > 0);
	setsockopt(slow.near, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return slow;
}

static void read_all(int fd)
{
	static char block[65536];
	while (recv(fd, block, sizeof(block), 0) > 0)
		;
	close(fd);
}

static void until_closed(const struct quota *quota, uint32_t left)
{
	for (int ms = 0; close_pending(quota) > left && ms < PATIENCE_MS; ms += 5)
		poll(NULL, 0, 5);
	assert_int_equal(close_pending(quota), left);
}

static void nobody_waits_for_another_user(void **state)
{
	static struct slow crowd[USERS][CROWD];
	struct quota users[USERS], other = { .uid = 1 };
	(void)state;
	for (unsigned int u = 0; u < USERS; u++) {
		users[u] = (struct quota){ .uid = 1000 + u };
		for (int i = 0; i < CROWD; i++) {
			crowd[u][i] = slow_new();
			close_foreign(crowd[u][i].near, &users[u]);
		}
		assert_int_equal(close_pending(&users[u]), CROWD);
		assert_false(close_overdue(&users[u]));
	}
	/* descriptors of another user are closed one after the other, each as soon as its peer
	 * reads */
	for (int i = 0; i < 3; i++) {
		struct slow slow = slow_new();
		close_foreign(slow.near, &other);
		assert_int_equal(close_pending(&other), 1);
		read_all(slow.far);
		until_closed(&other, 0);
	}
	/* many of this user's: each is closed in its turn */
	struct slow own[12];
	for (int i = 0; i < 12; i++) {
		own[i] = slow_new();
		close_foreign(own[i].near, &other);
	}
	for (int i = 0; i < 12; i++)
		close(own[i].far); /* resets the connection, as bytes are unread */
	until_closed(&other, 0);
	for (unsigned int u = 0; u < USERS; u++) {
		TRIES("user %u", u);
		assert_int_equal(close_pending(&users[u]), CROWD);
		for (int i = 0; i < CROWD; i++)
			close(crowd[u][i].far);
	}
	for (unsigned int u = 0; u < USERS; u++)
		until_closed(&users[u], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_waits_for_another_user),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
