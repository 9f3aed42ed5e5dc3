/* SPDX-License-Identifier: MIT */
/* When the library asks smcrd for the memory of a connection, and what it makes of a refusal. What
 * it does with the memory is in test_shared.c. */
#include <string.h>
#include <sys/socket.h>

#include "lib/smcr/path.h"
#include "tests/lib/tries.h"
#include "tests/preload/fixture.h"

/* As many bytes as a connection moves before memory is asked for, of which each call adds some. */
#define ENOUGH    (128 * 1024)
#define CALL_COST 2048

static char block[ENOUGH];

static int pair_end(enum pre_sharing sharing, int *ret_peer)
{
	pre_settings.sharing = sharing;
	int fd = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(fd, &server), 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
	*ret_peer = pre_net_accept_plain(listener);
	smcrd.script->memory_requests = 0;
	return fd;
}

static void close_both(int fd, int peer)
{
	close(fd);
	close(peer);
	pre_settings.sharing = PRE_SHARING_NO;
}

/* Send so many bytes in one call, and have them taken. */
static void move(int fd, int peer, size_t len)
{
	assert_int_equal(send(fd, block, len, 0), len);
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(peer, block, sizeof(block), 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
}

static void test_never_and_always(void **state)
{
	(void)state;
	int peer, fd = pair_end(PRE_SHARING_NO, &peer);
	move(fd, peer, ENOUGH);
	move(fd, peer, 1);
	assert_int_equal(smcrd.script->memory_requests, 0);
	close_both(fd, peer);
	fd = pair_end(PRE_SHARING_ALWAYS, &peer);
	move(fd, peer, 1);
	assert_int_equal(smcrd.script->memory_requests, 1);
	close_both(fd, peer);
}

/* Many bytes in one call, or many calls. */
static void test_what_is_enough(void **state)
{
	(void)state;
	smcrd.script->memory = IPC_MEMORY_TCP;
	for (int one = 0; one < 2; one++) {
		TRIES("in one call %d", one);
		int peer, fd = pair_end(PRE_SHARING_YES, &peer);
		if (one) {
			move(fd, peer, ENOUGH - CALL_COST - 1);
			move(fd, peer, 1); /* asks before it moves anything */
		} else {
			for (size_t moved = 0; moved + 1 + CALL_COST < ENOUGH;
			     moved += 1 + CALL_COST)
				move(fd, peer, 1);
		}
		assert_int_equal(smcrd.script->memory_requests, 0);
		move(fd, peer, 1);
		move(fd, peer, 1);
		assert_int_equal(smcrd.script->memory_requests, 1);
		close_both(fd, peer);
	}
}

/* Where the answer may be another one later, the library asks again. */
static void test_refusals(void **state)
{
	(void)state;
	static const struct {
		int outcome;
		bool again;
	} rows[] = { { IPC_MEMORY_PENDING, true },
		     { IPC_MEMORY_NONE, true },
		     { IPC_MEMORY_TCP, false },
		     { IPC_MEMORY_DEVICE, false },
		     { IPC_MEMORY_OFF, false },
		     { IPC_MEMORY_OTHER, false },
		     { 0, false } /* a smcrd that does not know the request */ };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		int peer, fd = pair_end(PRE_SHARING_YES, &peer);
		smcrd.script->memory = rows[i].outcome;
		move(fd, peer, ENOUGH);
		move(fd, peer, 1);
		assert_int_equal(smcrd.script->memory_requests, 1);
		assert_int_equal(pre_path_concerns(fd), rows[i].again);
		move(fd, peer, ENOUGH);
		move(fd, peer, 1);
		assert_int_equal(smcrd.script->memory_requests, rows[i].again ? 2 : 1);
		close_both(fd, peer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_never_and_always),
		TEST(test_what_is_enough),
		TEST(test_refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
