/* SPDX-License-Identifier: MIT */
/* Work that is put off to the end of a batch, or until others had their turn. */
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/conns/batch.h"

/* What has happened, a letter for each. */
static char story[16];

static void add(char letter)
{
	size_t len = strlen(story);
	assert_true(len + 1 < sizeof(story));
	story[len] = letter;
	story[len + 1] = 0;
}

struct named_task {
	struct task task; /* first, so that run() finds the letter */
	char letter;
};

static void run(struct task *task)
{
	add(((struct named_task *)task)->letter);
}

static struct named_task task_of(char letter)
{
	return (struct named_task){ .task.run = run, .letter = letter };
}

static void enter(void *ctx)
{
	(void)ctx;
	add('(');
}

static void leave(void *ctx)
{
	(void)ctx;
	add(')');
}

static struct event_base *base;
static struct batch *batch;

static int setup(void **state)
{
	const struct batch_callbacks callbacks = { .enter = enter, .leave = leave };
	(void)state;
	story[0] = 0;
	base = event_base_new();
	return base ? batch_new(base, &callbacks, &batch) : -1;
}

static int teardown(void **state)
{
	(void)state;
	batch_free(batch);
	event_base_free(base);
	return 0;
}

static void one_turn(void)
{
	assert_true(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

/** Tasks run when the outermost batch ends, and what is buried is freed after everything else. */
static void at_the_end_of_the_outermost_batch(void **state)
{
	struct named_task a = task_of('a'), b = task_of('b'), grave = task_of('g');
	(void)state;
	batch_begin(batch);
	batch_begin(batch);
	batch_bury(batch, &grave.task);
	batch_now(batch, &b.task);
	batch_now(batch, &a.task);
	batch_now(batch, &b.task); /* is in the list already */
	batch_end(batch);
	assert_string_equal(story, "(");
	batch_end(batch);
	assert_string_equal(story, "(ba)g");
	one_turn();
	assert_string_equal(story, "(ba)g");
}

/** Outside of a batch the event loop makes one. It does not wait for something else to happen. */
static void outside_of_a_batch(void **state)
{
	struct named_task task = task_of('a'), grave = task_of('g');
	(void)state;
	batch_now(batch, &task.task);
	assert_string_equal(story, "");
	one_turn();
	assert_string_equal(story, "(a)");
	batch_bury(batch, &grave.task);
	assert_string_equal(story, "(a)");
	one_turn();
	assert_string_equal(story, "(a)()g");
}

/** A task that is cancelled does not run. One that is put off runs in the event loop's next turn.
 */
static void cancelled_and_put_off(void **state)
{
	struct named_task a = task_of('a'), b = task_of('b');
	(void)state;
	batch_later(batch, &a.task);
	batch_later(batch, &b.task);
	batch_cancel(&a.task);
	batch_cancel(&a.task);
	assert_string_equal(story, "");
	one_turn();
	assert_string_equal(story, "(b)");
}

/** At the end of the daemon nothing is left to the event loop. */
static void freed_without_the_event_loop(void **state)
{
	struct named_task grave = task_of('g');
	(void)state;
	batch_bury(batch, &grave.task);
	batch_free_buried(batch);
	assert_string_equal(story, "g");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(at_the_end_of_the_outermost_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(outside_of_a_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(cancelled_and_put_off, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_without_the_event_loop, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
