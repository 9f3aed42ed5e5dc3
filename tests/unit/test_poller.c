/* SPDX-License-Identifier: MIT */
/* The epoll instance of the connections: what the kernel is told, and which callbacks run. The
 * Makefile links this test so that epoll_ctl() is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/conns/poller.h"

int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

static unsigned int calls;
static int last_op;

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	calls++;
	last_op = op;
	return __real_epoll_ctl(epfd, op, fd, event);
}

/* A watched end of a socket pair, and what its callback has seen. */
struct end {
	struct watch watch;
	struct poller *poller;
	int near, far;
	unsigned int ready;
	uint32_t events;
	struct end *victim; /* whose watch the callback removes */
};

static struct event_base *base;
static struct poller *poller;
static int depth; /* of batches */
static unsigned int batches, in_batch, largest_batch;

static void on_batch(void *ctx, bool begin)
{
	assert_ptr_equal(ctx, &batches);
	depth += begin ? 1 : -1;
	batches += begin;
	in_batch = 0;
}

static int setup(void **state)
{
	(void)state;
	base = event_base_new();
	assert_int_equal(poller_new(base, on_batch, &batches, &poller), 0);
	batches = largest_batch = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	poller_free(poller);
	event_base_free(base);
	return 0;
}

static void on_ready(struct watch *watch, uint32_t events)
{
	struct end *end = (struct end *)watch;
	assert_int_equal(depth, 1);
	end->ready++;
	if (++in_batch > largest_batch)
		largest_batch = in_batch;
	end->events = events;
	if (end->victim)
		poller_remove(poller, &end->victim->watch);
}

static void open_end(struct end *end, uint32_t events)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	*end = (struct end){ .near = pair[0], .far = pair[1] };
	assert_int_equal(poller_add(poller, &end->watch, end->near, events, on_ready), 0);
}

static void close_end(struct end *end)
{
	poller_remove(poller, &end->watch);
	close(end->near);
	close(end->far);
}

static void look(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(depth, 0);
}

/* The kernel is told of changes only: each call would make it tell the same event again. */
static void only_changes_are_told(void **state)
{
	(void)state;
	struct end end;
	open_end(&end, EPOLLIN);
	calls = 0;
	poller_modify(poller, &end.watch, EPOLLIN);
	assert_int_equal(calls, 0);
	poller_modify(poller, &end.watch, EPOLLIN | EPOLLOUT);
	assert_int_equal(calls, 1);
	assert_int_equal(last_op, EPOLL_CTL_MOD);
	poller_modify(poller, &end.watch, EPOLLIN | EPOLLOUT);
	assert_int_equal(calls, 1);
	look();
	assert_int_equal(end.ready, 1);
	assert_int_equal(end.events, EPOLLOUT);
	look(); /* edge-triggered: nothing is new */
	assert_int_equal(end.ready, 1);
	poller_remove(poller, &end.watch);
	assert_int_equal(calls, 2);
	assert_int_equal(last_op, EPOLL_CTL_DEL);
	poller_remove(poller, &end.watch);
	poller_modify(poller, &end.watch, EPOLLIN);
	assert_int_equal(calls, 2);
	close_end(&end);
}

static void a_descriptor_that_cannot_be_watched(void **state)
{
	(void)state;
	struct watch watch = { .fd = -1 };
	assert_int_equal(poller_add(poller, &watch, -1, EPOLLIN, on_ready), -EBADF);
	assert_int_equal(watch.fd, -1);
}

/* Both are ready in the same round, and whoever comes first removes the other. */
static void a_watch_that_was_removed_is_not_called(void **state)
{
	(void)state;
	struct end a, b;
	open_end(&a, EPOLLIN);
	open_end(&b, EPOLLIN);
	a.victim = &b;
	b.victim = &a;
	assert_int_equal(write(a.far, "x", 1), 1);
	assert_int_equal(write(b.far, "x", 1), 1);
	look();
	assert_int_equal(a.ready + b.ready, 1);
	assert_int_equal(batches, 1); /* one batch for all of the round */
	close_end(&a);
	close_end(&b);
}

/* More descriptors are ready than a round takes: others have their turn before the rest. */
static void more_than_a_round(void **state)
{
	(void)state;
	enum { ENDS = 70, ROUND = 64 };
	static struct end ends[ENDS];
	for (int i = 0; i < ENDS; i++) {
		open_end(&ends[i], EPOLLIN);
		assert_int_equal(write(ends[i].far, "x", 1), 1);
	}
	look();
	look();
	for (int i = 0; i < ENDS; i++) {
		assert_int_equal(ends[i].ready, 1);
		close_end(&ends[i]);
	}
	assert_int_equal(batches, 2);
	assert_int_equal(largest_batch, ROUND);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		FRESH(only_changes_are_told),
		FRESH(a_descriptor_that_cannot_be_watched),
		FRESH(a_watch_that_was_removed_is_not_called),
		FRESH(more_than_a_round),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
