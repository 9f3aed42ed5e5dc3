/* SPDX-License-Identifier: MIT */
/**
 * @file main.c
 * smcr-sim [--seeds N] [--start S] [--seed S] [--scenario NAME] [--jobs N] [--coverage] [-v]
 * [--list]
 *
 * TAP on standard output: a line for each scenario and block of seeds. A seed that fails is printed
 * with the violated requirement and the command that repeats it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/proves.h"
#include "tests/sim/coverage.h"
#include "tests/sim/crash.h"
#include "tests/sim/scenario.h"

#define BLOCK        100   /* seeds in one TAP line */
#define WHOLE        2000u /* with so many seeds --coverage fails if a row was never taken */
#define MAX_FAILURES 5     /* failing seeds after which a scenario is left */
#define MAX_JOBS     256

static const struct scenario *const families[] = { scenarios_data,    scenarios_group,
						   scenarios_failure, scenarios_survive,
						   scenarios_sweep,   scenarios_break,
						   scenarios_version };

/** Seeds that once found an error. */
static const struct {
	const char *scenario;
	uint64_t seed;
} regressions[] = {
#include "tests/sim/regressions.txt"
	{ NULL, 0 },
};

static struct {
	uint64_t seeds, start, jobs;
	bool one_seed, verbose, coverage;
	const char *scenario;
	const char *program;
} options = { .seeds = 200, .start = 1, .jobs = 1 };

static unsigned int tests, failures;
static uint64_t runs;

/** The results of a scenario's runs in one process. */
struct tally {
	unsigned int blocks; /* of the whole scenario */
	unsigned int bad;
	uint64_t runs;
	struct witnesses seen;
	struct coverage coverage;
};

static struct tally tally; /* this process */

/* ---- runs ---- */

static bool run_one(const struct scenario *scenario, uint64_t seed, uint64_t *ret_digest)
{
	crash_run(scenario->name, seed);
	struct world *w = world_new(scenario->name, seed, options.verbose);
	scenario->run(w);
	bool ok = !w->failed;
	if (!ok)
		printf("# seed %" PRIu64 " at %.6f s: %s: %s\n# reproduce: %s --scenario %s --seed "
		       "%" PRIu64 " -v\n",
		       seed, (double)w->clock.now / 1e6, w->failed_id, w->failed_text,
		       options.program, scenario->name, seed);
	if (options.verbose) {
		printf("# %.6f s, %" PRIu64 " events, %zu connections, digest %016" PRIx64 "\n",
		       (double)w->clock.now / 1e6, w->clock.fired, w->num_pairs, w->digest);
		for (int i = 0; i < NUM_WITNESSES; i++) {
			if (obs_seen(w->observer)->count[i])
				printf("# seen: %s %" PRIu64 "\n", witness_name(i),
				       obs_seen(w->observer)->count[i]);
		}
	}
	for (int i = 0; i < NUM_WITNESSES; i++)
		tally.seen.count[i] += obs_seen(w->observer)->count[i];
	*ret_digest = w->digest;
	world_free(w);
	tally.runs++;
	fflush(stdout);
	return ok;
}

/** Run seeds first..last as test number `test`. One seed is run twice: both runs must be equal. */
static void run_block(const struct scenario *scenario, uint64_t first, uint64_t last,
		      unsigned int test)
{
	unsigned int before = tally.bad;
	for (uint64_t seed = first; seed <= last && tally.bad < MAX_FAILURES; seed++) {
		uint64_t digest = 0, again = 0;
		if (!run_one(scenario, seed, &digest)) {
			tally.bad++;
		} else if (seed == first && !options.one_seed) {
			run_one(scenario, seed, &again);
			if (again != digest) {
				printf("# seed %" PRIu64 ": two runs differ\n", seed);
				tally.bad++;
			}
		}
	}
	printf("%sok %u - %s, seeds %" PRIu64 "..%" PRIu64 "\n", tally.bad > before ? "not " : "",
	       test, scenario->name, first, last);
	fflush(stdout);
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/** Record the requirements that the scenario checks and whose situation has come up. */
static void record_proofs(const struct scenario *scenario)
{
	char copy[1024], *save = NULL;
	snprintf(copy, sizeof(copy), "%s", scenario->proves);
	for (char *id = strtok_r(copy, " ", &save); id; id = strtok_r(NULL, " ", &save)) {
		if (witness_of(&tally.seen, id))
			proves_by(scenario->file, scenario->name, id);
		else
			printf("# %s: no proof of %s, it did not come up\n", scenario->name, id);
	}
}

/** Run the blocks of a scenario that fall to job number `job`. */
static void run_blocks(const struct scenario *scenario, uint64_t job)
{
	unsigned int n = 0;
	uint64_t count = options.seeds / scenario->cost;
	uint64_t last = options.one_seed ? options.start : options.start + (count ? count : 1) - 1;
	for (size_t i = 0; regressions[i].scenario && !options.one_seed; i++) {
		if (strcmp(regressions[i].scenario, scenario->name) == 0 &&
		    n++ % options.jobs == job)
			run_block(scenario, regressions[i].seed, regressions[i].seed, tests + n);
	}
	for (uint64_t seed = options.start; seed <= last; seed += BLOCK) {
		uint64_t end = seed + BLOCK - 1 < last ? seed + BLOCK - 1 : last;
		if (n++ % options.jobs == job && tally.bad < MAX_FAILURES)
			run_block(scenario, seed, end, tests + n);
	}
	tally.blocks = n;
}

/** Run a job's blocks in a process of its own. Never returns. */
static void work(const struct scenario *scenario, uint64_t job, struct tally *ret)
{
	memset(&coverage, 0, sizeof(coverage));
	run_blocks(scenario, job);
	tally.coverage = coverage;
	*ret = tally;
	fflush(stdout);
	exit(0);
}

/** Add the results of a process. One that crashed has left no results. */
static void merge(const struct tally *part, int status)
{
	tally.blocks = part->blocks > tally.blocks ? part->blocks : tally.blocks;
	tally.bad += part->bad + (status != 0);
	tally.runs += part->runs;
	for (int i = 0; i < NUM_WITNESSES; i++)
		tally.seen.count[i] += part->seen.count[i];
	coverage_merge(&part->coverage);
}

/** Share the blocks of a scenario among processes. */
static void run_jobs(const struct scenario *scenario)
{
	size_t len = options.jobs * sizeof(struct tally);
	struct tally *part =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[MAX_JOBS];
	if (part == MAP_FAILED)
		abort();
	fflush(stdout);
	for (uint64_t job = 0; job < options.jobs; job++) {
		pid[job] = fork();
		if (pid[job] < 0)
			abort();
		if (!pid[job])
			work(scenario, job, &part[job]);
	}
	for (uint64_t job = 0; job < options.jobs; job++) {
		int status = -1;
		waitpid(pid[job], &status, 0);
		merge(&part[job], status);
	}
	munmap(part, len);
}

static void run_scenario(const struct scenario *scenario)
{
	double begin = seconds();
	tally = (struct tally){ 0 };
	if (options.jobs > 1)
		run_jobs(scenario);
	else
		run_blocks(scenario, 0);
	tests += tally.blocks;
	failures += tally.bad;
	runs += tally.runs;
	double took = seconds() - begin;
	printf("# %s: %.1f seeds/second\n", scenario->name,
	       (double)tally.runs / (took > 0 ? took : 1e-9));
	if (!tally.bad && !options.one_seed)
		record_proofs(scenario);
}

/* ---- command line ---- */

static void usage(FILE *out)
{
	fprintf(out,
		"usage: %s [OPTIONS]\n"
		"  --seeds N        seeds to run of every scenario (%" PRIu64
		"); costly ones run fewer\n"
		"  --start S        the first of them (%" PRIu64 ")\n"
		"  --seed S         this seed only\n"
		"  --scenario NAME  this scenario only\n"
		"  --jobs N         processes that share the work (1)\n"
		"  --coverage       print which rows of the collision matrix and of the\n"
		"                   recovery tables were taken; with %u seeds or more of every\n"
		"                   scenario it is an error if one was not\n"
		"  -v, --verbose    print the event log\n"
		"  --list           name the scenarios\n",
		options.program, options.seeds, options.start, WHOLE);
}

static void list(void)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		for (const struct scenario *s = families[f]; s->name; s++)
			printf("%-10s %s\n", s->name, s->what);
	}
}

static uint64_t number(const char *text)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-') {
		fprintf(stderr, "%s: not a number: %s\n", options.program, text);
		exit(2);
	}
	return value;
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "start", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'o' },
		{ "scenario", required_argument, NULL, 'c' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "coverage", no_argument, NULL, 'r' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;
	options.program = argv[0];
	while ((c = getopt_long(argc, argv, "j:vh", longs, NULL)) != -1) {
		switch (c) {
		case 'n': options.seeds = number(optarg); break;
		case 's': options.start = number(optarg); break;
		case 'o':
			options.one_seed = true;
			options.start = number(optarg);
			break;
		case 'c': options.scenario = optarg; break;
		case 'j': options.jobs = number(optarg); break;
		case 'r': options.coverage = true; break;
		case 'v': options.verbose = true; break;
		case 'l': list(); exit(0);
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (optind < argc || !options.jobs || options.jobs > MAX_JOBS) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	bool found = false;
	parse(argc, argv);
	crash_catch(options.program);
	double begin = seconds();
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		for (const struct scenario *s = families[f]; s->name; s++) {
			if (options.scenario && strcmp(options.scenario, s->name) != 0)
				continue;
			found = true;
			run_scenario(s);
		}
	}
	if (!found) {
		fprintf(stderr, "%s: no scenario %s; --list names them\n", options.program,
			options.scenario);
		return 2;
	}
	if (options.coverage) {
		unsigned int missing = coverage_print();
		if (!options.scenario && options.seeds >= WHOLE) {
			failures += missing > 0;
			printf("%sok %u - every row taken, in both roles\n", missing ? "not " : "",
			       ++tests);
		}
	}
	double took = seconds() - begin;
	printf("1..%u\n# %" PRIu64 " runs in %.1f s, %.1f seeds/second\n", tests, runs, took,
	       (double)runs / (took > 0 ? took : 1e-9));
	return failures ? 1 : 0;
}
