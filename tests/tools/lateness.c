/* SPDX-License-Identifier: MIT */
/*
 * How late is this machine? For judging how long something took that could have been kept waiting.
 *
 *   lateness PID..
 *
 * On each processor a thread sleeps for a millisecond, over and over, and sees by how much longer
 * it took: for as long the processor did something else, or did not run at all (a virtual machine
 * that stands still). And the kernel counts for how long the main thread of each process PID was
 * ready to run and had no processor (schedstat); that is read every two milliseconds.
 *
 * A line "LABEL US.." on standard input, with a length in microseconds for each PID, is answered by
 *
 *   LABEL late US waits US..
 *
 * with what was measured since the last such line: the longest delay of a sleep, and for each PID
 * the most that its main thread waited for a processor within any time of that length. So whatever
 * took that process so long has waited no longer within it. Ends with its input. Exit status 1: it
 * cannot measure, with the reason on standard error; 2: usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_US  1000
#define SAMPLE_MS 2
#define PIDS_MAX  8
#define LINE_LEN  1024

struct sample {
	uint64_t at_us, waited_us;
};

/* A process, and all samples since the last line of input. */
struct process {
	int fd; /* of schedstat */
	struct sample *samples;
	size_t num, room;
};

static struct process processes[PIDS_MAX];
static size_t num_processes;
static _Atomic uint64_t latest_us;

static uint64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void *sleep_and_look(void *arg)
{
	const struct timespec length = { .tv_nsec = SLEEP_US * 1000 };
	(void)arg;
	for (;;) {
		uint64_t before = now_us();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
		uint64_t took = now_us() - before, most = atomic_load(&latest_us);
		uint64_t late = took > SLEEP_US ? took - SLEEP_US : 0;
		while (late > most && !atomic_compare_exchange_weak(&latest_us, &most, late))
			;
	}
	return NULL;
}

/* @return how many threads run */
static int start_sleepers(void)
{
	cpu_set_t all, one;
	pthread_attr_t attr;
	pthread_t thread;
	int running = 0;
	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_attr_init(&attr);
		pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
		running += pthread_create(&thread, &attr, sleep_and_look, NULL) == 0;
		pthread_attr_destroy(&attr);
	}
	return running;
}

/* @return false: the process has ended, or there is no memory; what was measured stays */
static bool take_sample(struct process *process)
{
	char text[128] = "";
	uint64_t ran_ns, waited_ns;
	if (pread(process->fd, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) != 2)
		return false;
	if (process->num == process->room) {
		size_t room = process->room ? 2 * process->room : 4096;
		struct sample *samples = realloc(process->samples, room * sizeof(*samples));
		if (!samples)
			return false;
		process->samples = samples;
		process->room = room;
	}
	process->samples[process->num++] = (struct sample){ now_us(), waited_ns / 1000 };
	return true;
}

/* The most that was waited within any `length_us`. Something of that length that begins behind
 * sample i and not behind i + 1 has ended `length_us` behind sample i + 1. */
static uint64_t most_waited(const struct process *process, uint64_t length_us)
{
	const struct sample *samples = process->samples;
	uint64_t most = 0;
	for (size_t i = 0, j = 0; i + 1 < process->num; i++) {
		while (j + 1 < process->num && samples[j].at_us < samples[i + 1].at_us + length_us)
			j++;
		uint64_t waited = samples[j].waited_us - samples[i].waited_us;
		most = waited > most ? waited : most;
	}
	return most < length_us ? most : length_us; /* samples may be further apart */
}

static void answer(char *line)
{
	char *rest = NULL;
	const char *label = strtok_r(line, " \n", &rest);
	if (!label)
		return;
	printf("%s late %" PRIu64 " waits", label, atomic_exchange(&latest_us, 0));
	for (size_t i = 0; i < num_processes; i++) {
		const char *length = strtok_r(NULL, " \n", &rest);
		take_sample(&processes[i]);
		printf(" %" PRIu64,
		       most_waited(&processes[i], length ? strtoull(length, NULL, 10) : 0));
		processes[i].num = 0;
		take_sample(&processes[i]);
	}
	printf("\n");
	fflush(stdout);
}

static void run(void)
{
	const struct sched_param before_others = { .sched_priority = 1 };
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char line[LINE_LEN];
	/* The later a sample, the more it has of waits that were over before. If this is refused,
	 * as in a container, waits are told too long. The threads that sleep are like other
	 * processes. */
	sched_setscheduler(0, SCHED_FIFO, &before_others);
	for (;;) {
		int ready = poll(&input, 1, SAMPLE_MS);
		for (size_t i = 0; i < num_processes; i++)
			take_sample(&processes[i]);
		if (ready > 0 && !fgets(line, sizeof(line), stdin))
			return;
		if (ready > 0)
			answer(line);
	}
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc - 1 > PIDS_MAX) {
		fprintf(stderr, "usage: lateness PID.. (at most %d)\n", PIDS_MAX);
		return 2;
	}
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() tells of each line */
	for (; num_processes < (size_t)argc - 1; num_processes++) {
		char path[64];
		const char *pid = argv[num_processes + 1];
		struct process *process = &processes[num_processes];
		snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/schedstat", pid, pid);
		process->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (process->fd < 0 || !take_sample(process)) {
			fprintf(stderr, "lateness: %s: %s\n", path, strerror(errno));
			return 1;
		}
	}
	if (start_sleepers() == 0) {
		fprintf(stderr, "lateness: no thread can be started\n");
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	run();
	return 0;
}
