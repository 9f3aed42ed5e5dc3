/* SPDX-License-Identifier: MIT */
/* The engine's timers: order, restart and stop, compared with a simple model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "daemon/smcr/internal.h"
#include "tests/lib/enginepair.h"
#include "tests/lib/tries.h"

#define TIMERS 200

struct fired {
	int order[100000];
	size_t n;
};

static struct fired fired;
static struct smcr_timer timers[TIMERS];

static void note(struct smcr_engine *engine, void *arg)
{
	(void)engine;
	fired.order[fired.n++] = (int)((struct smcr_timer *)arg - timers);
}

static void random_against_model(void **state)
{
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	struct smcr_engine *engine = pair->side[0].engine;
	uint64_t deadline[TIMERS] = { 0 }, started[TIMERS], serial = 0, now = pair->now;
	bool running[TIMERS] = { 0 };
	char text[128];
	(void)state;
	for (int i = 0; i < TIMERS; i++)
		smcr_timer_init(&timers[i], note, &timers[i]);
	srand(7);
	fired.n = 0;
	for (int step = 0; step < 20000; step++) {
		TRIES("step %d", step);
		int i = rand() % TIMERS;
		if (rand() % 3) {
			uint64_t delay = (uint64_t)(rand() % 50);
			smcr_timer_start(engine, &timers[i], delay);
			running[i] = true;
			deadline[i] = now + delay;
			started[i] = serial++;
		} else {
			smcr_timer_stop(engine, &timers[i]);
			running[i] = false;
		}
		assert_int_equal(smcr_engine_check(engine, text, sizeof(text)), 0);
		if (step % 10)
			continue;
		now += (uint64_t)(rand() % 20);
		size_t before = fired.n;
		smcr_engine_run(engine, now);
		/* the model takes the earliest deadline, and of those the first that was started */
		for (;;) {
			int next = -1;
			for (int j = 0; j < TIMERS; j++)
				if (running[j] && deadline[j] <= now &&
				    (next < 0 || deadline[j] < deadline[next] ||
				     (deadline[j] == deadline[next] && started[j] < started[next])))
					next = j;
			if (next < 0)
				break;
			running[next] = false;
			assert_true(before < fired.n);
			assert_int_equal(fired.order[before++], next);
		}
		assert_int_equal(before, fired.n);
		uint64_t earliest = SMCR_NO_DEADLINE;
		for (int j = 0; j < TIMERS; j++)
			if (running[j] && deadline[j] < earliest)
				earliest = deadline[j];
		assert_true(smcr_engine_next_deadline(engine) == earliest);
		if (fired.n > 90000)
			fired.n = 0;
	}
	for (int i = 0; i < TIMERS; i++)
		smcr_timer_stop(engine, &timers[i]);
	assert_true(smcr_engine_next_deadline(engine) == SMCR_NO_DEADLINE);
	pair_free(pair);
}

static void endless_delay(void **state)
{
	struct pair *pair = pair_new(NULL, NULL, 0, 0);
	struct smcr_engine *engine = pair->side[0].engine;
	struct smcr_timer timer;
	(void)state;
	smcr_timer_init(&timer, note, timers);
	smcr_timer_start(engine, &timer, UINT64_MAX); /* must not wrap into the past */
	fired.n = 0;
	smcr_engine_run(engine, UINT64_MAX / 2);
	assert_int_equal(fired.n, 0);
	smcr_timer_stop(engine, &timer);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_against_model),
		cmocka_unit_test(endless_delay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
