/* SPDX-License-Identifier: MIT */
/* The configuration is read by a thread; the event loop hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/reload.h"

struct fixture {
	struct event_base *base;
	struct reload *reload;
	char path[64];
	struct config_source source;
	/* what was heard */
	unsigned int loaded;
	uint64_t number;
	unsigned int max_links; /* of the last one; 0: errors */
	size_t errors;
};

static void on_loaded(void *ctx, uint64_t number, struct config *next, struct config_notes *errors)
{
	struct fixture *fixture = ctx;
	fixture->loaded++;
	fixture->number = number;
	fixture->max_links = next ? next->engine.max_links : 0;
	fixture->errors = errors->num;
}

static void write_file(const struct fixture *fixture, const char *text)
{
	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int setup(void **state)
{
	static struct fixture the_fixture; /* a thread may look at its source to the end */
	struct fixture *fixture = &the_fixture;
	*fixture = (struct fixture){ .loaded = 0 };
	strcpy(fixture->path, "/tmp/smcrd-reload-XXXXXX");
	int fd = mkstemp(fixture->path);
	if (fd < 0)
		return -1;
	close(fd);
	fixture->source.path = fixture->path;
	fixture->base = event_base_new();
	const struct reload_params params = { .base = fixture->base,
					      .source = &fixture->source,
					      .loaded = on_loaded,
					      .ctx = fixture };
	*state = fixture;
	return reload_new(&params, &fixture->reload);
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

static void what_the_file_says_now_is_heard(void **state)
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

/* What is asked for while the file is being read is read afterwards, once. */
static void requests_while_it_reads_share_the_next_reading(void **state)
{
	struct fixture *fixture = *state;
	char path[96];
	snprintf(path, sizeof(path), "%s.fifo", fixture->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	fixture->source.path = path; /* reading it ends when we want it to */
	assert_int_equal(reload_begin(fixture->reload), 1);
	assert_int_equal(reload_begin(fixture->reload), 2);
	assert_int_equal(reload_begin(fixture->reload), 2);
	FILE *first = fopen(path, "w");
	fputs("max_links = 5\n", first);
	fixture->source.path = fixture->path; /* of the next one */
	write_file(fixture, "max_links = 6\n");
	fclose(first);
	run_until(fixture, 1);
	assert_int_equal(fixture->number, 1);
	assert_int_equal(fixture->max_links, 5);
	run_until(fixture, 2);
	assert_int_equal(fixture->number, 2);
	assert_int_equal(fixture->max_links, 6);
	unlink(path);
}

static void an_end_does_not_wait_for_it(void **state)
{
	struct fixture *fixture = *state;
	char path[96];
	snprintf(path, sizeof(path), "%s.fifo", fixture->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	fixture->source.path = path;
	assert_int_equal(reload_begin(fixture->reload), 1);
	reload_free(fixture->reload);
	fixture->reload = NULL;
	FILE *file = fopen(path, "w"); /* waits for the thread, which then ends too */
	assert_non_null(file);
	fclose(file);
	unlink(path);
	assert_int_equal(fixture->loaded, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(what_the_file_says_now_is_heard),
		CASE(requests_while_it_reads_share_the_next_reading),
		CASE(an_end_does_not_wait_for_it),
	};
	return cmocka_run_group_tests_name("reload", tests, NULL, NULL);
}
