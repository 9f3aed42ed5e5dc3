/* SPDX-License-Identifier: MIT */
/* The log's thread: the event loop never waits for who takes the lines, whatever that does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "daemon/host/log_writer.h"

#define LINES_MAX 20000

/* Whoever takes the lines: one for each post of `takes`. */
static struct {
	sem_t takes, taken;
	char *lines[LINES_MAX];
	int priorities[LINES_MAX];
	unsigned int num;
} reader;

static void read_line(int priority, const struct iovec *fields, int num)
{
	(void)num;
	assert_int_equal(strlen(fields[0].iov_base), fields[0].iov_len);
	while (sem_wait(&reader.takes) < 0)
		;
	reader.priorities[reader.num] = priority;
	reader.lines[reader.num++] = strdup(fields[0].iov_base);
	sem_post(&reader.taken);
}

static int setup(void **state)
{
	(void)state;
	memset(&reader, 0, sizeof(reader));
	sem_init(&reader.takes, 0, 0);
	sem_init(&reader.taken, 0, 0);
	assert_int_equal(log_writer_start(read_line), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	log_writer_stop();
	for (unsigned int i = 0; i < reader.num; i++)
		free(reader.lines[i]);
	sem_destroy(&reader.takes);
	sem_destroy(&reader.taken);
	return 0;
}

static void put(unsigned int number)
{
	char text[300];
	int len = snprintf(text, sizeof(text), "MESSAGE=line %u %0200d", number, 0);
	char peer[] = "PEER=a";
	struct iovec fields[] = { { text, (size_t)len }, { peer, strlen(peer) } };
	assert_true(log_writer_put(LOG_INFO, fields, 2));
	memset(text, 'x', sizeof(text)); /* the fields are copied */
}

static void take(unsigned int num)
{
	for (unsigned int i = 0; i < num; i++)
		sem_post(&reader.takes);
	for (unsigned int i = 0; i < num; i++)
		while (sem_wait(&reader.taken) < 0)
			;
}

static void expect_line(unsigned int at, unsigned int number)
{
	unsigned int found;
	assert_int_equal(sscanf(reader.lines[at], "MESSAGE=line %u 0", &found), 1);
	assert_int_equal(found, number);
	assert_int_equal(reader.priorities[at], LOG_INFO);
}

static void lines_come_in_order(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		put(i);
	take(100);
	for (unsigned int i = 0; i < 100; i++)
		expect_line(i, i);
}

/* Nobody takes a line: this returns all the same, and memory is bounded. When lines are taken again
 * one tells how many are missing. */
static void a_full_queue_leaves_lines_out(void **state)
{
	(void)state;
	const unsigned int num = LINES_MAX - 2;
	unsigned int left_out;
	for (unsigned int i = 0; i < num; i++)
		put(i);
	do
		take(1);
	while (!strstr(reader.lines[reader.num - 1], "left out"));
	const unsigned int kept = reader.num - 1;
	assert_int_equal(sscanf(strrchr(reader.lines[kept], ' '), "%u", &left_out), 1);
	assert_int_equal(kept + left_out, num);
	assert_int_equal(reader.priorities[kept], LOG_WARNING);
	assert_true(kept > 1000 && kept < LOG_WRITER_BYTES / 200);
	for (unsigned int i = 0; i < kept; i++)
		expect_line(i, i);
	put(num);
	take(1);
	expect_line(kept + 1, num);
}

static void what_waits_is_written_at_the_end(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 10; i++)
		put(i);
	for (unsigned int i = 0; i < 10; i++)
		sem_post(&reader.takes);
	log_writer_stop();
	assert_int_equal(reader.num, 10);
	char late[] = "MESSAGE=late";
	const struct iovec field = { late, strlen(late) };
	assert_false(log_writer_put(LOG_INFO, &field, 1));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(lines_come_in_order),
		CASE(a_full_queue_leaves_lines_out),
		CASE(what_waits_is_written_at_the_end),
	};
	return cmocka_run_group_tests_name("log_writer", tests, NULL, NULL);
}
