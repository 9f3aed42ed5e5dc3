/* SPDX-License-Identifier: MIT */
#include "tests/sim/crash.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#define CPU_LIMIT 300 /* seconds of processor time a run may take */

static const char *program = "", *current_scenario = "";
static volatile uint64_t current_seed;

static void say_where(const char *what)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "\n# %s in scenario %s, seed %" PRIu64
			 "\n# reproduce: %s --scenario %s --seed %" PRIu64 " -v\n",
			 what, current_scenario, current_seed, program, current_scenario,
			 current_seed);
	if (n > 0 && write(STDOUT_FILENO, text, (size_t)n) < 0)
		_exit(3);
}

static void on_signal(int number)
{
	say_where(number == SIGVTALRM ? "no end" : "crash");
	signal(number, SIG_DFL);
	raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void on_sanitizer(void)
{
	say_where("sanitizer report");
}

void crash_catch(const char *name)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM };
	program = name;
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(on_sanitizer);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* With sanitizers, they handle the signals of crashes themselves. */
		if (!__sanitizer_set_death_callback || signals[i] == SIGVTALRM ||
		    signals[i] == SIGABRT)
			signal(signals[i], on_signal);
	}
}

void crash_run(const char *scenario, uint64_t seed)
{
	const struct itimerval limit = { .it_value = { .tv_sec = CPU_LIMIT } };
	current_scenario = scenario;
	current_seed = seed;
	setitimer(ITIMER_VIRTUAL, &limit, NULL);
}
