/* SPDX-License-Identifier: MIT */
/**
 * @file main.c
 * smbd-sim [--seeds N] [--start S] [--seed S] [--jobs N] [-v]
 *
 * TAP on standard output: a line for each block of seeds. A seed that fails is printed with what
 * does not hold and the command that repeats it.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/proves.h"
#include "tests/smbdsim/run.h"

#define BLOCKS       10  /* TAP lines */
#define MAX_FAILURES 5   /* failing seeds after which a block is left */
#define CPU_LIMIT    60  /* seconds that a run may take */
#define ENOUGH       500 /* seeds that show each rule */

static struct {
	uint64_t seeds, start;
	bool one_seed, verbose;
} options = { .seeds = 2000, .start = 1 };

static volatile uint64_t current_seed;

/* A run that crashes or does not end. */
static void on_signal(int number)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "\n# signal %d: smbd-sim --seed %" PRIu64 " -v\n",
			 number, current_seed);
	if (write(STDOUT_FILENO, text, (size_t)n) < 0)
		_exit(3);
	signal(number, SIG_DFL);
	raise(number);
}

static bool run_one(uint64_t seed)
{
	char why[256];
	current_seed = seed;
	alarm(CPU_LIMIT);
	const bool ok = run_seed(seed, options.verbose, why, sizeof(why));
	alarm(0);
	if (!ok)
		printf("# seed %" PRIu64 ": %s\n# reproduce: build/bin/smbd-sim --seed %" PRIu64
		       " -v\n",
		       seed, why, seed);
	return ok;
}

static unsigned int run_block(uint64_t first, uint64_t num)
{
	unsigned int bad = 0;
	for (uint64_t i = 0; i < num && bad < MAX_FAILURES; i++)
		bad += !run_one(first + i);
	return bad;
}

static unsigned int run_all(void)
{
	const uint64_t blocks = options.seeds < BLOCKS ? 1 : BLOCKS;
	unsigned int bad = 0;
	uint64_t first = options.start;
	for (uint64_t i = 0; i < blocks; i++) {
		const uint64_t num = options.seeds / blocks + (i < options.seeds % blocks);
		const unsigned int failed = run_block(first, num);
		printf("%sok %" PRIu64 " - seeds %" PRIu64 "..%" PRIu64 "\n", failed ? "not " : "",
		       i + 1, first, first + num - 1);
		fflush(stdout);
		bad += failed;
		first += num;
	}
	printf("1..%" PRIu64 "\n", blocks);
	return bad;
}

static void proves(void)
{
	PROVES("SMBD-20 SMBD-23 SMBD-24 SMBD-37 SMBD-60 SMBD-79 SMBD-85 SMBD-91 SMBD-97 SMBD-103");
	PROVES("SMBD-105 SMBD-106 SMBD-126 SMBD-127 SMBD-131 SMBD-132 SMBD-135 SMBD-137 SMBD-139");
	PROVES("SMBD-141 SMBD-142 SMBD-172 SMBD-173 SMBD-175 SMBD-180");
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "start", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'o' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "v", longs, NULL)) != -1;) {
		switch (c) {
		case 'n': options.seeds = strtoull(optarg, NULL, 0); break;
		case 's': options.start = strtoull(optarg, NULL, 0); break;
		case 'o':
			options.start = strtoull(optarg, NULL, 0);
			options.one_seed = true;
			break;
		case 'j': break; /* smcr-sim has it; one process is fast enough */
		case 'v': options.verbose = true; break;
		default: exit(2);
		}
	}
	if (options.one_seed || options.seeds == 0)
		options.seeds = 1;
}

int main(int argc, char **argv)
{
	struct random random = { 1 };
	parse(argc, argv);
	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	signal(SIGALRM, on_signal);
	for (size_t i = 0; i < PATTERN_LEN; i++)
		pattern[i] = (uint8_t)random_next(&random);
	const unsigned int bad = run_all();
	if (bad == 0 && options.seeds >= ENOUGH)
		proves();
	return bad ? 1 : 0;
}
