/* SPDX-License-Identifier: MIT */
#include "daemon/host/waiting.h"

#include <sched.h>
#include <sys/param.h>

/* A look that finds work saves a wakeup; a look in vain costs `most_us` at worst. So looking pays
 * if one in three finds work. After WORTH_MAX, some ten looks in vain end the looking. */
#define FOUND     2
#define IN_VAIN   1
#define WORTH_MAX 16
#define PAYS      6

/* A process that slept sees work so much later. */
#define WAKEUP_US 20

void waiting_init(struct waiting *waiting, uint32_t most_us)
{
	*waiting = (struct waiting){ .most_us = most_us, .worth = WORTH_MAX };
}

void waiting_set_most(struct waiting *waiting, uint32_t most_us)
{
	if (waiting->most_us == 0)
		waiting->since = 0; /* the clock was not read while looking was off */
	waiting->most_us = most_us;
}

/* Work has come. Learn whether looking found it, or would have found it. */
static void learn(struct waiting *waiting, uint64_t waited_us)
{
	uint64_t most_us = waiting->most_us + (waiting->slept ? WAKEUP_US : 0);
	if (waited_us <= most_us)
		waiting->worth = MIN(waiting->worth + FOUND, WORTH_MAX);
	else
		waiting->worth -= MIN(waiting->worth, IN_VAIN);
}

static bool sleep_now(struct waiting *waiting)
{
	waiting->spinning = false;
	waiting->slept = true;
	waiting->counts.sleeps++;
	return false;
}

bool waiting_look(struct waiting *waiting, uint64_t work, uint64_t now_us)
{
	bool grown = work != waiting->seen;
	waiting->seen = work;
	if (waiting->most_us == 0)
		return sleep_now(waiting);
	if (grown) {
		if (waiting->since)
			learn(waiting, now_us - waiting->since);
		waiting->since = now_us;
		waiting->spinning = waiting->slept = false;
	}
	if (waiting->slept || waiting->worth < PAYS)
		return sleep_now(waiting);
	if (now_us - waiting->since >= waiting->most_us) {
		waiting->counts.vain += waiting->spinning;
		return sleep_now(waiting);
	}
	if (!grown) {
		waiting->counts.spins += !waiting->spinning;
		waiting->spinning = true;
		sched_yield(); /* so that on a loaded host other processes run meanwhile */
	}
	return true;
}
