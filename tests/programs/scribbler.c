/* SPDX-License-Identifier: MIT */
/*
 * A program that misuses the memory that it shares with smcrd (docs/data-path.md): again and again
 * it changes bytes that it has sent, so that packets change on their way.
 *
 *   scribbler ADDRESS PORT SECONDS      under smcr-run with SMCRD_SHARED=always
 *
 * The last line is "scribbled" if there was such memory. Exit status 0: there was, and nothing was
 * refused; 1: not; 2: usage.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_PAGE 4096 /* not changed, because the daemon checks it */
#define ATTEMPTS     30   /* most connections until one has memory */
#define ATTEMPT_S    1.0

static uint8_t *memory;
static size_t memory_len;
static atomic_bool done;

/* Find the memory that the library has mapped. */
static bool find_memory(void)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		uintptr_t from, to;
		if (!strstr(line, "smcrd-path") ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2)
			continue;
		memory = (uint8_t *)from + CONTROL_PAGE;
		memory_len = to - from - CONTROL_PAGE;
	}
	if (maps)
		fclose(maps);
	return memory;
}

static void *scribble(void *arg)
{
	uint64_t seed = 88172645463325252u;
	(void)arg;
	while (!atomic_load(&done)) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		((volatile uint8_t *)memory)[seed % memory_len] = (uint8_t)(seed >> 56);
	}
	return NULL;
}

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool send_some(int fd)
{
	static const uint8_t data[100000];
	if (send(fd, data, sizeof(data), MSG_NOSIGNAL) >= 0)
		return true;
	perror("send");
	return false;
}

/* Connect until a connection has memory: a busy daemon may not answer in time when the library asks
 * for memory. @return descriptor; -1: failed, with the reason on standard error */
static int connect_with_memory(const struct sockaddr_in *addr)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0) {
			perror("connect");
			return -1;
		}
		for (double end = now() + ATTEMPT_S; now() < end;) {
			if (!send_some(fd))
				return -1;
			if (find_memory())
				return fd;
		}
		close(fd);
	}
	fputs("no memory\n", stderr);
	return -1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	pthread_t thread;
	if (argc != 4 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((uint16_t)atoi(argv[2]));
	int fd = connect_with_memory(&addr);
	if (fd < 0 || pthread_create(&thread, NULL, scribble, NULL))
		return 1;
	for (double end = now() + atof(argv[3]); now() < end;)
		if (!send_some(fd))
			return 1;
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	close(fd);
	puts("scribbled");
	return 0;
}
