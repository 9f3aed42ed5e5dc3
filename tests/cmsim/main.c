/* SPDX-License-Identifier: MIT */
/**
 * @file main.c
 * cm-sim [--seeds N] [--start S] [--seed S] [--jobs N] [-v]
 *
 * TAP on standard output: a line for each block of seeds. A seed that fails is printed with what is
 * wrong and the command that repeats it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/cmsim/world.h"
#include "tests/lib/proves.h"

enum {
	BLOCK = 1000,   /* seeds in one TAP line */
	CPU_LIMIT = 60, /* seconds of processor time a run may take */
	MAX_JOBS = 256,
	MAX_FAILURES = 5, /* in one process */
};

/* Which rules a situation shows, if nothing was wrong in any run. */
static const char *const proofs[NUM_SEEN] = {
	[SEEN_CONNECTED] = "CM-12 CM-13 CM-14 CM-16",
	[SEEN_REPEAT] = "CM-4 CM-18",
	[SEEN_RTU_AGAIN] = "CM-19",
	[SEEN_DREP_AGAIN] = "CM-20",
	[SEEN_REQ_AGAIN] = "CM-22",
	[SEEN_HEARD] = "CM-17",
	[SEEN_CROSSED] = "CM-25",
	[SEEN_REFUSED] = "CM-32",
	[SEEN_NO_LISTENER] = "CM-8",
	[SEEN_REP_REFUSED] = "CM-27",
	[SEEN_LIMITED] = "CM-29",
	[SEEN_ATTACKED] = "CM-30",
};

static const char *const seen_names[NUM_SEEN] = {
	[SEEN_CONNECTED] = "connected",
	[SEEN_REPEAT] = "message repeated",
	[SEEN_RTU_AGAIN] = "RTU again",
	[SEEN_DREP_AGAIN] = "DREP again",
	[SEEN_REQ_AGAIN] = "REQ again",
	[SEEN_HEARD] = "data before RTU",
	[SEEN_CROSSED] = "DREQs cross",
	[SEEN_STALE] = "stale connection",
	[SEEN_REFUSED] = "refused with private data",
	[SEEN_NO_LISTENER] = "no listener",
	[SEEN_REP_REFUSED] = "REP to no connection",
	[SEEN_LIMITED] = "REQ over the limit",
	[SEEN_ATTACKED] = "message of an attacker",
	[SEEN_RESTART] = "restart",
};

static struct {
	uint64_t seeds, start, jobs;
	bool one, verbose;
	const char *program;
} options = { .seeds = 1000, .start = 1, .jobs = 1 };

/** What a process has found. */
struct tally {
	uint64_t seen[NUM_SEEN];
	unsigned int bad;
};

static volatile uint64_t current_seed;

static void say_where(const char *what)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "\n# %s\n# reproduce: %s --seed %" PRIu64 " -v\n",
			 what, options.program, current_seed);
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

/* With sanitizers, they handle the signals of crashes themselves. */
static void catch_crashes(void)
{
	signal(SIGVTALRM, on_signal);
	signal(SIGABRT, on_signal);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(on_sanitizer);
	else
		signal(SIGSEGV, on_signal);
}

static void run_one(uint64_t seed, struct tally *tally)
{
	const struct itimerval limit = { .it_value = { .tv_sec = CPU_LIMIT } };
	current_seed = seed;
	setitimer(ITIMER_VIRTUAL, &limit, NULL);
	if (run(seed, options.verbose, tally->seen))
		return;
	printf("# reproduce: %s --seed %" PRIu64 " -v\n", options.program, seed);
	tally->bad++;
}

/* The blocks that fall to job number `job`. */
static void run_blocks(uint64_t job, struct tally *tally)
{
	uint64_t last = options.start + options.seeds - 1, block = 0;
	for (uint64_t seed = options.start; seed <= last; seed += BLOCK, block++) {
		uint64_t end = seed + BLOCK - 1 < last ? seed + BLOCK - 1 : last;
		unsigned int before = tally->bad;
		if (block % options.jobs != job)
			continue;
		for (uint64_t s = seed; s <= end && tally->bad < MAX_FAILURES; s++)
			run_one(s, tally);
		printf("%sok %" PRIu64 " - seeds %" PRIu64 "..%" PRIu64 "\n",
		       tally->bad > before ? "not " : "", block + 1, seed, end);
		fflush(stdout);
	}
}

static struct tally *run_jobs(bool *ret_crashed)
{
	struct tally *tallies = mmap(NULL, MAX_JOBS * sizeof(*tallies), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[MAX_JOBS];
	if (tallies == MAP_FAILED)
		abort();
	for (uint64_t job = 0; job < options.jobs; job++) {
		fflush(stdout);
		pid[job] = fork();
		if (pid[job] < 0)
			abort();
		if (pid[job] == 0) {
			run_blocks(job, &tallies[job]);
			exit(0);
		}
	}
	for (uint64_t job = 0; job < options.jobs; job++) {
		int status = -1;
		waitpid(pid[job], &status, 0);
		*ret_crashed |= status != 0;
	}
	return tallies;
}

static void report(const struct tally *sum)
{
	for (int i = 0; i < NUM_SEEN; i++) {
		printf("# %s: %" PRIu64 "\n", seen_names[i], sum->seen[i]);
		if (sum->seen[i] && proofs[i] && !options.one)
			proves_by("tests/cmsim/run.c", "run", proofs[i]);
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

static void usage(FILE *out)
{
	fprintf(out,
		"usage: %s [OPTIONS]\n"
		"  --seeds N      seeds to run (%" PRIu64 ")\n"
		"  --start S      the first of them (%" PRIu64 ")\n"
		"  --seed S       this seed only\n"
		"  --jobs N       processes that share the work (1)\n"
		"  -v, --verbose  print what happens\n",
		options.program, options.seeds, options.start);
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "start", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'o' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
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
			options.one = true;
			options.start = number(optarg);
			options.seeds = 1;
			break;
		case 'j': options.jobs = number(optarg); break;
		case 'v': options.verbose = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (optind < argc || !options.seeds || !options.jobs || options.jobs > MAX_JOBS) {
		usage(stderr);
		exit(2);
	}
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct tally sum = { 0 };
	bool crashed = false;
	parse(argc, argv);
	catch_crashes();
	double begin = seconds();
	struct tally *tallies = run_jobs(&crashed);
	for (uint64_t job = 0; job < options.jobs; job++) {
		sum.bad += tallies[job].bad;
		for (int i = 0; i < NUM_SEEN; i++)
			sum.seen[i] += tallies[job].seen[i];
	}
	if (!sum.bad && !crashed)
		report(&sum);
	printf("1..%" PRIu64 "\n# %" PRIu64 " seeds in %.1f s\n",
	       (options.seeds + BLOCK - 1) / BLOCK, options.seeds, seconds() - begin);
	return sum.bad || crashed;
}
