/* SPDX-License-Identifier: MIT */
/* The steps of the shared data path (docs/data-path.md), each alone, and what each refuses. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "proto/path/receive.h"
#include "proto/path/send.h"
#include "tests/lib/tries.h"

#define SIZE 100u

static struct path_page page;

static void clear(void)
{
	memset(&page, 0, sizeof(page));
}

/* ---- places */

static void bytes_lie_where_their_position_says(void **state)
{
	(void)state;
	const struct path_ring ring = { .at = 4100, .size = 10 };
	uint8_t memory[4200] = { 0 }, out[10];
	const uint8_t in[10] = "abcdefghij";
	assert_int_equal(path_ring_place(&ring, 0), 4100);
	assert_int_equal(path_ring_place(&ring, 29), 4109);
	assert_int_equal(path_ring_run(&ring, 27, 10), 3);
	assert_int_equal(path_ring_run(&ring, 27, 2), 2);
	path_ring_put(memory, &ring, 27, in, 10);
	assert_memory_equal(memory + 4100, "defghijabc", 10);
	assert_int_equal(memory[4099], 0);
	assert_int_equal(memory[4110], 0);
	path_ring_get(memory, &ring, 29, out, 8);
	assert_memory_equal(out, "cdefghij", 8);
}

static void layouts_that_overlap_are_refused(void **state)
{
	(void)state;
	const struct path_layout good = { 12288, { 4100, 4092 }, { 8192, 4096 } };
	assert_true(path_layout_valid(&good));
	const struct path_layout turned = { 12288, { 8192, 4096 }, { 4096, 4096 } };
	assert_true(path_layout_valid(&turned));
	const struct path_layout bad[] = {
		{ 12288, { 4100, 4093 }, { 8192, 4096 } },
		{ 12288, { 4095, 4096 }, { 8192, 4096 } },
		{ 12288, { 4096, 4096 }, { 8192, 4097 } },
		{ 12288, { 4096, 0 }, { 8192, 4096 } },
		{ 12288, { 4096, 4096 }, { 8192, 0 } },
		{ 12287, { 4096, 4096 }, { 8192, 4000 } },
		{ 12288, { 4096, 4096 }, { 12289, 1 } },
		{ 12288, { 4096, UINT32_MAX }, { 8192, 1 } },
		{ 0, { 0, 0 }, { 0, 0 } },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("row %zu", i);
		assert_false(path_layout_valid(&bad[i]));
	}
}

/* ---- receiving */

static void readers_take_what_was_published(void **state)
{
	(void)state;
	struct path_rx rx;
	uint64_t taken, other;
	clear();
	path_rx_open(&rx, &page, 1000, 1010);
	path_reader_begin(&page);
	assert_true(path_reader_look(&page, &taken));
	assert_int_equal(taken, 1000);
	assert_int_equal(path_reader_available(&page, SIZE, taken), 10);
	path_rx_publish(&rx, 1030);
	assert_int_equal(path_reader_available(&page, SIZE, taken), 30);
	assert_true(path_rx_reader_at_work(&rx));
	assert_true(path_reader_unchanged(&page, taken));
	assert_true(path_reader_look(&page, &other));
	assert_true(path_reader_take(&page, taken, 20));
	/* The other reader has taken these bytes. */
	assert_false(path_reader_take(&page, other, 5));
	assert_false(path_reader_unchanged(&page, other));
	assert_int_equal(path_rx_load(&rx), 0);
	assert_int_equal(rx.taken, 1020);
	assert_true(path_reader_end(&page)); /* 10 bytes are left */
	assert_false(path_rx_reader_at_work(&rx));
	assert_true(path_reader_look(&page, &taken));
	assert_true(path_reader_take(&page, taken, 10));
	path_reader_begin(&page);
	assert_false(path_reader_end(&page));
}

static void a_head_on_its_way_is_nobody_elses(void **state)
{
	(void)state;
	struct path_rx rx;
	uint64_t taken, other;
	clear();
	path_rx_open(&rx, &page, 0, 50);
	assert_true(path_reader_look(&page, &taken));
	assert_true(path_rx_forward_begin(&rx, 20));
	assert_false(path_reader_take(&page, taken, 1));
	assert_false(path_reader_look(&page, &other));
	path_reader_begin(&page);
	assert_false(path_reader_end(&page));
	path_rx_forward_end(&rx, 8); /* the pair took no more */
	assert_true(path_reader_look(&page, &taken));
	assert_int_equal(taken, 8);
	assert_true(path_reader_take(&page, taken, 2));
	assert_false(path_rx_forward_begin(&rx, 1)); /* a reader has taken bytes meanwhile */
	assert_int_equal(path_rx_load(&rx), 0);
	assert_true(path_rx_forward_begin(&rx, 1));
	path_rx_forward_end(&rx, 1);
	assert_int_equal(rx.taken, 11);
}

static void readers_that_never_end_are_ignored(void **state)
{
	(void)state;
	struct path_rx rx;
	clear();
	path_rx_open(&rx, &page, 0, 50);
	path_reader_begin(&page); /* this reader dies */
	path_reader_begin(&page); /* this reader is stopped */
	path_rx_ignore_readers(&rx);
	assert_false(path_rx_reader_at_work(&rx));
	path_reader_begin(&page);
	assert_true(path_rx_reader_at_work(&rx));
	path_reader_end(&page);
	assert_false(path_rx_reader_at_work(&rx));
	path_reader_end(&page); /* the stopped reader goes on */
	assert_false(path_rx_reader_at_work(&rx));
	path_reader_begin(&page);
	assert_true(path_rx_reader_at_work(&rx));
}

static void nonsense_about_taken_is_noticed(void **state)
{
	(void)state;
	static const uint64_t bad[] = { 0, 999, 1051, UINT64_MAX, 1010 | PATH_MARK };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("row %zu", i);
		struct path_rx rx;
		clear();
		path_rx_open(&rx, &page, 1000, 1050);
		atomic_store(&page.taken, bad[i]);
		assert_int_equal(path_rx_load(&rx), -EPROTO);
		assert_int_equal(rx.taken, 1000);
	}
}

static void a_library_believes_no_other_process(void **state)
{
	(void)state;
	uint64_t taken;
	clear();
	atomic_store(&page.produced, 5000);
	assert_true(path_reader_look(&page, &taken));
	assert_int_equal(path_reader_available(&page, SIZE, taken), 0);
	atomic_store(&page.taken, 5001);
	assert_true(path_reader_look(&page, &taken));
	assert_int_equal(path_reader_available(&page, SIZE, taken), 0);
	atomic_store(&page.committed, 101);
	assert_int_equal(path_writer_room(&page, SIZE, &taken), 0);
	atomic_store(&page.completed, 102);
	assert_int_equal(path_writer_room(&page, SIZE, &taken), 0);
}

/* ---- sending */

static void writers_commit_what_fits(void **state)
{
	(void)state;
	struct path_tx tx;
	uint64_t at;
	clear();
	path_tx_open(&tx, &page, SIZE, 500, 480);
	assert_true(path_writer_lock(&page));
	assert_false(path_writer_lock(&page));
	assert_false(path_tx_lock(&tx));
	assert_true(path_writer_polled(&page));
	assert_false(path_writer_revoked(&page));
	assert_false(path_writer_backlog(&page));
	assert_int_equal(path_writer_room(&page, SIZE, &at), 80);
	assert_int_equal(at, 500);
	assert_true(path_writer_commit(&page, at, 80));
	assert_int_equal(path_writer_room(&page, SIZE, &at), 0);
	path_writer_unlock(&page);
	assert_int_equal(path_tx_unseen(&tx), 80);
	assert_int_equal(path_tx_load(&tx), 0);
	assert_int_equal(path_tx_unseen(&tx), 0);
	assert_int_equal(tx.committed, 580);
	path_tx_complete(&tx, 530);
	assert_int_equal(path_writer_room(&page, SIZE, &at), 50);
}

static void bytes_of_the_pair_come_behind(void **state)
{
	(void)state;
	struct path_tx tx;
	uint64_t at;
	clear();
	path_tx_open(&tx, &page, SIZE, 0, 0);
	assert_int_equal(path_writer_room(&page, SIZE, &at), SIZE);
	assert_true(path_writer_commit(&page, at, 7));
	assert_true(path_tx_lock(&tx));
	assert_false(path_writer_lock(&page));
	path_writer_unlock(&page); /* a writer that does not hold the lock */
	assert_false(path_writer_lock(&page));
	/* The daemon has not read `committed` yet. */
	assert_int_equal(path_tx_put(&tx, 3), -EPROTO);
	assert_int_equal(path_tx_load(&tx), 0);
	path_tx_set_backlog(&tx, true);
	assert_true(path_writer_backlog(&page));
	assert_int_equal(path_tx_put(&tx, 3), 0);
	assert_int_equal(tx.committed, 10);
	path_tx_set_backlog(&tx, false);
	path_tx_unlock(&tx);
	assert_true(path_writer_lock(&page));
	assert_int_equal(path_writer_room(&page, SIZE, &at), SIZE - 10);
	assert_int_equal(at, 10);
}

static void nobody_commits_after_a_takeover(void **state)
{
	(void)state;
	struct path_tx tx;
	uint64_t at, later;
	clear();
	path_tx_open(&tx, &page, SIZE, 0, 0);
	assert_true(path_writer_lock(&page));
	assert_int_equal(path_writer_room(&page, SIZE, &at), SIZE);
	assert_true(path_writer_commit(&page, at, 4));
	assert_int_equal(path_writer_room(&page, SIZE, &at), SIZE - 4);
	assert_int_equal(path_tx_take_over(&tx), 0);
	assert_int_equal(tx.committed, 4);
	assert_true(path_writer_revoked(&page));
	assert_int_equal(path_writer_room(&page, SIZE, &later), 0);
	assert_false(path_writer_commit(&page, at, 4));
	assert_false(path_writer_commit(&page, later, 4));
	atomic_store(&page.committed, 77); /* the value is not used any more */
	assert_int_equal(path_tx_load(&tx), 0);
	assert_int_equal(tx.committed, 4);
	assert_true(path_tx_stop_polling(&tx)); /* the lock is held for ever */
}

static void polling_stops_after_a_second_look(void **state)
{
	(void)state;
	struct path_tx tx;
	uint64_t at;
	clear();
	path_tx_open(&tx, &page, SIZE, 0, 0);
	assert_true(path_tx_stop_polling(&tx));
	assert_false(path_writer_polled(&page));
	path_tx_poll(&tx);
	assert_true(path_writer_polled(&page));
	assert_true(path_writer_lock(&page));
	assert_false(path_tx_stop_polling(&tx));
	assert_true(path_writer_polled(&page));
	path_writer_room(&page, SIZE, &at);
	assert_true(path_writer_commit(&page, at, 1));
	path_writer_unlock(&page);
	assert_false(path_tx_stop_polling(&tx));
	assert_true(path_writer_polled(&page));
	assert_int_equal(path_tx_load(&tx), 0);
	assert_true(path_tx_stop_polling(&tx));
}

static void nonsense_about_committed_is_noticed(void **state)
{
	(void)state;
	static const uint64_t bad[] = { 0, 499, 601, UINT64_MAX, 550 | PATH_MARK };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("row %zu", i);
		struct path_tx tx;
		clear();
		path_tx_open(&tx, &page, SIZE, 500, 500);
		atomic_store(&page.committed, bad[i]);
		assert_int_equal(path_tx_unseen(&tx), 0);
		assert_int_equal(path_tx_load(&tx), -EPROTO);
		assert_int_equal(path_tx_put(&tx, 1), -EPROTO);
		assert_int_equal(path_tx_take_over(&tx), -EPROTO);
		assert_int_equal(tx.committed, 500);
	}
}

static void the_end_leaves_the_pair(void **state)
{
	(void)state;
	struct path_rx rx;
	struct path_tx tx;
	uint64_t taken, at;
	clear();
	path_rx_open(&rx, &page, 0, 50);
	path_tx_open(&tx, &page, SIZE, 0, 0);
	assert_true(path_reader_look(&page, &taken));
	path_writer_room(&page, SIZE, &at);
	path_end(&page);
	assert_false(path_reader_take(&page, taken, 1));
	assert_false(path_reader_look(&page, &taken));
	path_reader_begin(&page);
	assert_false(path_reader_end(&page));
	assert_true(path_writer_revoked(&page));
	assert_false(path_writer_commit(&page, at, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_lie_where_their_position_says),
		cmocka_unit_test(layouts_that_overlap_are_refused),
		cmocka_unit_test(readers_take_what_was_published),
		cmocka_unit_test(a_head_on_its_way_is_nobody_elses),
		cmocka_unit_test(readers_that_never_end_are_ignored),
		cmocka_unit_test(nonsense_about_taken_is_noticed),
		cmocka_unit_test(a_library_believes_no_other_process),
		cmocka_unit_test(writers_commit_what_fits),
		cmocka_unit_test(bytes_of_the_pair_come_behind),
		cmocka_unit_test(nobody_commits_after_a_takeover),
		cmocka_unit_test(polling_stops_after_a_second_look),
		cmocka_unit_test(nonsense_about_committed_is_noticed),
		cmocka_unit_test(the_end_leaves_the_pair),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
