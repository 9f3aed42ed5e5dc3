/* SPDX-License-Identifier: MIT */
/* Engines at work get another configuration: what changes, and what stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/lib/enginepair.h"
#include "tests/lib/proves.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000ull

static void configure(struct pair *pair, int side, const struct smcr_config *config)
{
	struct smcr_engine *engine = pair->side[side].engine;
	smcr_engine_set_time(engine, pair->now);
	smcr_engine_configure(engine, config);
}

static unsigned int probes(const struct pair *pair, int from)
{
	return pair_count_llc(pair, from, SMCR_LLC_TEST_LINK, false);
}

/* Connections and links stay as they are. Only the time that the engine waits for them changes. */
static void what_is_there_stays(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_config config = pair_config(S);
	config.max_links = 2;
	config.bsize = config.bsize_min = 2;
	config.dialect = SMCR_DIALECT_FORCE_DEPLOYED;
	config.versions = SMCR_VERSIONS_1_ONLY;
	config.memory_budget = 1 << 20;
	config.retry_ms = 5000;
	config.retry_alternative_ms = 700;
	memset(config.peer_id, 7, sizeof(config.peer_id));
	uint8_t max_links = pair_lgr_view(pair, S).max_links;
	configure(pair, S, &config);
	assert_int_equal(pair_lgr_view(pair, S).max_links, max_links);
	for (uint8_t number = 1; number <= 2; number++)
		assert_int_equal(pair_retry_ms(pair, S, number), 700);
	assert_int_equal(pair->side[S].events[SMCR_EVENT_LINK_FAILED], 0);
	for (int i = 0; i < 10; i++) {
		pair_exchange(pair, c);
		pair_run(pair, SECOND);
	}
	const struct smcr_config first = pair_config(S);
	(void)pair_connected(pair); /* the peer ID is the old one */
	assert_memory_equal(pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.peer_id,
			    first.peer_id, SMCR_PEER_ID_LEN);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("PEER-3");
}

/* The engine has more memory than the new limit: new connections stay on TCP until the limit is
 * raised. */
static void less_memory_concerns_new_buffers(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_config config = pair_config(S);
	uint64_t before = pair_engine_view(pair, S).memory_budget;
	config.memory_budget = 1;
	configure(pair, S, &config);
	pair_exchange(pair, c);
	int fallen = -1;
	for (int i = 0; i < 20 && fallen < 0; i++) {
		int more = pair_connect(pair, C);
		pair_pump(pair);
		fallen = pair_end(pair, more, C)->fallback ? more : -1;
	}
	assert_true(fallen >= 0);
	pair_exchange(pair, c);
	config.memory_budget = before;
	configure(pair, S, &config);
	pair_exchange(pair, pair_connected(pair));
	pair_free(pair);
}

/* Idle links are probed at the new interval, whether probes are switched on, come more often, or
 * are switched off. */
static void probes_go_by_the_new_interval(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_config config = pair_config(S);
	config.test_link_interval = 1000 * SECOND;
	configure(pair, S, &config);
	pair_run(pair, 20 * SECOND);
	assert_int_equal(probes(pair, S), 0);
	config.test_link_interval = 10 * SECOND;
	configure(pair, S, &config);
	pair_run(pair, 11 * SECOND);
	assert_int_equal(probes(pair, S), 1);
	config.test_link_interval = UINT64_MAX;
	configure(pair, S, &config);
	pair_run(pair, 5000 * SECOND);
	assert_int_equal(probes(pair, S), 1);
	pair_free(pair);
}

/* A group without connections ends after the new idle time, counted from the change. */
static void groups_go_by_the_new_idle_time(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_config config = pair_config(S);
	config.lgr_idle_timeout = 1000 * SECOND;
	configure(pair, S, &config);
	pair_close(pair, c);
	pair_run(pair, 500 * SECOND);
	assert_non_null(pair_lgr(pair, S));
	config.lgr_idle_timeout = 20 * SECOND;
	configure(pair, S, &config);
	pair_run(pair, 19 * SECOND);
	assert_non_null(pair_lgr(pair, S));
	pair_run(pair, 5 * SECOND);
	assert_null(pair_lgr(pair, S));
	pair_free(pair);
}

static void hold_confirm(struct pair *pair, int *c)
{
	*c = pair_connect(pair, C);
	while (!pair_count_clc(pair, C, SMCR_CLC_CONFIRM)) /* CONFIRM LINK is on its way then */
		assert_true(pair_step(pair));
}

/* Both sides keep the dialect of the configuration with which the group began. */
static void a_first_contact_under_way_keeps_its_dialect(void **state)
{
	int c;
	(void)state;
	struct smcr_config config = pair_config(S);
	config.dialect = SMCR_DIALECT_AUTO;
	struct pair *pair = pair_new(&config, NULL, 1, 1);
	hold_confirm(pair, &c);
	config.dialect = SMCR_DIALECT_FORCE_RFC;
	configure(pair, S, &config);
	pair_pump(pair);
	pair_run(pair, SECOND);
	assert_true(pair_both_established(pair, c));
	assert_int_equal(pair_lgr_view(pair, S).dialect, pair_lgr_view(pair, C).dialect);
	pair_exchange(pair, c);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_stays),
		cmocka_unit_test(less_memory_concerns_new_buffers),
		cmocka_unit_test(probes_go_by_the_new_interval),
		cmocka_unit_test(groups_go_by_the_new_idle_time),
		cmocka_unit_test(a_first_contact_under_way_keeps_its_dialect),
	};
	return cmocka_run_group_tests_name("engine_configure", tests, NULL, NULL);
}
