/* SPDX-License-Identifier: MIT */
/* A thread reads the configuration, and tells the event loop the outcome. */
#include <grp.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/reload.h"

struct fixture {
	struct event_base *base;
	struct reload *reload;
	char path[64];
	struct config_source source;
	/* what the event loop was told */
	unsigned int loaded;
	uint64_t number;
	unsigned int max_links; /* of the latest reading, 0 after errors */
	size_t errors;
	unsigned int slow, slow_ms;
};

/* To look up the group "slow" takes until the test says so. */
static sem_t looked_up, answer;

struct group *getgrnam(const char *name)
{
	static struct group group;
	if (strcmp(name, "slow") != 0)
		return NULL;
	sem_post(&looked_up);
	sem_wait(&answer);
	return &group;
}

static void on_loaded(void *ctx, uint64_t number, struct config *next, struct config_notes *errors)
{
	struct fixture *fixture = ctx;
	fixture->loaded++;
	fixture->number = number;
	fixture->max_links = next ? next->engine.max_links : 0;
	fixture->errors = errors->num;
}

static void on_slow(void *ctx)
{
	struct fixture *fixture = ctx;
	fixture->slow++;
}

static void write_file(const struct fixture *fixture, const char *text)
{
	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int renew(struct fixture *fixture)
{
	const struct reload_params params = { .base = fixture->base,
					      .source = &fixture->source,
					      .loaded = on_loaded,
					      .slow = on_slow,
					      .slow_ms = fixture->slow_ms,
					      .ctx = fixture };
	reload_free(fixture->reload);
	return reload_new(&params, &fixture->reload);
}

static int setup(void **state)
{
	/* static, as the thread may use its source until the process ends */
	static struct fixture the_fixture;
	struct fixture *fixture = &the_fixture;
	*fixture = (struct fixture){ .slow_ms = 3600 * 1000 };
	strcpy(fixture->path, "/tmp/smcrd-reload-XXXXXX");
	int fd = mkstemp(fixture->path);
	if (fd < 0)
		return -1;
	close(fd);
	fixture->source.path = fixture->path;
	fixture->base = event_base_new();
	*state = fixture;
	if (sem_init(&looked_up, 0, 0) < 0 || sem_init(&answer, 0, 0) < 0)
		return -1;
	return renew(fixture);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	reload_free(fixture->reload);
	event_base_free(fixture->base);
	unlink(fixture->path);
	return 0;
}

static void run_until(struct fixture *fixture, unsigned int loaded)
{
	while (fixture->loaded < loaded)
		assert_int_equal(event_base_loop(fixture->base, EVLOOP_ONCE), 0);
}

static void the_current_file_is_read(void **state)
{
	struct fixture *fixture = *state;
	write_file(fixture, "max_links = 3\n");
	assert_int_equal(reload_begin(fixture->reload), 1);
	run_until(fixture, 1);
	assert_int_equal(fixture->number, 1);
	assert_int_equal(fixture->max_links, 3);
	write_file(fixture, "max_links = 33\nnonsense\n");
	assert_int_equal(reload_begin(fixture->reload), 2);
	run_until(fixture, 2);
	assert_int_equal(fixture->number, 2);
	assert_int_equal(fixture->max_links, 0);
	assert_int_equal(fixture->errors, 2);
}

/* Requests that come while the files are read are answered by one more reading. */
static void requests_while_it_reads_share_the_next_reading(void **state)
{
	struct fixture *fixture = *state;
	write_file(fixture, "max_links = 5\nadmin_group = slow\n");
	assert_int_equal(reload_begin(fixture->reload), 1);
	sem_wait(&looked_up);
	assert_int_equal(reload_begin(fixture->reload), 2);
	assert_int_equal(reload_begin(fixture->reload), 2);
	write_file(fixture, "max_links = 6\n");
	sem_post(&answer);
	run_until(fixture, 1);
	assert_int_equal(fixture->number, 1);
	assert_int_equal(fixture->max_links, 5);
	run_until(fixture, 2);
	assert_int_equal(fixture->number, 2);
	assert_int_equal(fixture->max_links, 6);
	assert_int_equal(fixture->slow, 0);
}

static void a_reading_that_hangs_is_told_once(void **state)
{
	struct fixture *fixture = *state;
	fixture->slow_ms = 1;
	renew(fixture);
	write_file(fixture, "max_links = 5\nadmin_group = slow\n");
	assert_int_equal(reload_begin(fixture->reload), 1);
	while (fixture->slow == 0)
		assert_int_equal(event_base_loop(fixture->base, EVLOOP_ONCE), 0);
	assert_int_equal(fixture->loaded, 0);
	sem_wait(&looked_up);
	sem_post(&answer);
	run_until(fixture, 1);
	assert_int_equal(fixture->max_links, 5);
	assert_int_equal(fixture->slow, 1);
	/* the next request begins another reading */
	assert_int_equal(reload_begin(fixture->reload), 2);
	while (fixture->slow == 1)
		assert_int_equal(event_base_loop(fixture->base, EVLOOP_ONCE), 0);
	sem_wait(&looked_up);
	sem_post(&answer);
	run_until(fixture, 2);
	assert_int_equal(fixture->slow, 2);
}

static void an_end_does_not_wait_for_a_reading(void **state)
{
	struct fixture *fixture = *state;
	write_file(fixture, "admin_group = slow\n");
	assert_int_equal(reload_begin(fixture->reload), 1);
	sem_wait(&looked_up);
	reload_free(fixture->reload);
	fixture->reload = NULL;
	assert_int_equal(fixture->loaded, 0);
	sem_post(&answer);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_current_file_is_read),
		CASE(requests_while_it_reads_share_the_next_reading),
		CASE(a_reading_that_hangs_is_told_once),
		CASE(an_end_does_not_wait_for_a_reading),
	};
	return cmocka_run_group_tests_name("reload", tests, NULL, NULL);
}
