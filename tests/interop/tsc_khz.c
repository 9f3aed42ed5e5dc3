// SPDX-License-Identifier: MIT
/* Prints the frequency of this processor's time stamp counter in kHz, for the kernel's
 * tsc_early_khz=. Prints nothing if there is no such counter. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>

#define WINDOW_NS 100000000

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Read the counter and the time together: of several readings take the one that took least, because
 * on a busy host others are interrupted. */
static uint64_t read_both(uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX, counter = 0;
	for (int i = 0; i < 20; i++) {
		uint64_t before = now_ns(), read = __rdtsc(), after = now_ns();
		if (after - before >= best)
			continue;
		best = after - before;
		counter = read;
		*ret_ns = before + best / 2;
	}
	return counter;
}

int main(void)
{
	uint64_t began, ended, first = read_both(&began);
	const struct timespec window = { .tv_nsec = WINDOW_NS };
	nanosleep(&window, NULL);
	uint64_t last = read_both(&ended);
	printf("%.0f\n", (double)(last - first) * 1e6 / (double)(ended - began));
	return 0;
}
#else
int main(void)
{
	return 0;
}
#endif
