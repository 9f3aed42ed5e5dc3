/* SPDX-License-Identifier: MIT */
/* How long a message of SMB over TCP may be: its length has three bytes (MS-SMB2 2.1). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/smbgate/tcp.h"

static void drained(void *ctx)
{
	(void)ctx;
}

static const struct tcp_ops ops = { .drained = drained };

static void the_longest_message(void **state)
{
	(void)state;
	static const uint8_t wanted[] = { 0, 0xFF, 0xFF, 0xFF };
	uint8_t length[4];
	struct event_base *base = event_base_new();
	struct tcp_side *side;
	int fds[2];
	assert_non_null(base);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(tcp_side_adopt(base, fds[0], &ops, NULL, &side), 0);
	assert_int_equal(tcp_side_begin(side, 16 << 20), -EMSGSIZE);
	assert_int_equal(tcp_side_queued(side), 0);
	assert_int_equal(tcp_side_begin(side, (16 << 20) - 1), 0);
	assert_int_equal(tcp_side_queued(side), 4);
	for (ssize_t n = -1; n < 0;) {
		event_base_loop(base, EVLOOP_ONCE);
		n = recv(fds[1], length, sizeof(length), 0);
		assert_true(n == sizeof(length) || (n < 0 && errno == EAGAIN));
	}
	assert_memory_equal(length, wanted, sizeof(length));
	tcp_side_free(side, false);
	close(fds[1]);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_message),
	};
	return cmocka_run_group_tests_name("smbgate: length", tests, NULL, NULL);
}
