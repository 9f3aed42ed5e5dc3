/* SPDX-License-Identifier: MIT */
/* Memory of connections that is shared with programs: who gets it after that, and pages that are
 * exchanged at the same address. */
#include "tests/lib/connfix.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/host/pages.h"

#include "tests/lib/tries.h"

#define LEN    (16 * 4096)
#define SECOND 1000000ull

static void close_both_ways(struct connfix *f)
{
	connfix_peer_flags(f, 0, SMCR_CDC_CLOSED);
	connfix_peer_cdc(f);
	smcr_conn_close(f->conn, false);
	connfix_complete(f);
	connfix_run(f, 1);
	assert_true(connfix_gone(f));
}

static void a_shared_connections_memory_is_recovered(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	struct smcr_conn_memory memory;
	assert_int_equal(smcr_conn_share(f->conn, &memory), 0);
	assert_ptr_equal(memory.element, f->conn->rx.element.addr);
	assert_int_equal(memory.element_size, 10000);
	assert_int_equal(memory.element_skip, 4);
	assert_ptr_equal(memory.buffer, f->conn->tx.buf.addr);
	assert_int_equal(memory.buffer_size, 65536);
	assert_int_equal(smcr_conn_share(f->conn, &memory), 0);
	struct smcr_slab *rmb = f->conn->rx.element.slab;
	f->shared = true;
	assert_int_equal(f->recovered, 0);
	close_both_ways(f);
	assert_false(f->shared);
	assert_int_equal(f->recovered, 2);
	assert_int_equal(f->recovered_len, 10000 + 65536);
	assert_int_equal(rmb->retired, 0);
	assert_int_equal(rmb->dirty[0], 0);
	connfix_free(f);
}

static void group_goes(struct connfix *f)
{
	smcr_close_kill(f->conn, ECONNRESET);
}

static void program_aborts(struct connfix *f)
{
	smcr_conn_abort(f->conn);
}

static void peer_aborts(struct connfix *f)
{
	connfix_peer_flags(f, 0, SMCR_CDC_ABORT);
	connfix_peer_cdc(f);
}

static void tcp_is_reset(struct connfix *f)
{
	smcr_conn_tcp_event(f->conn, SMCR_TCP_RESET);
}

static void program_closes(struct connfix *f)
{
	smcr_conn_close(f->conn, false);
}

static void program_leaves_bytes_unread(struct connfix *f)
{
	smcr_conn_close(f->conn, true);
}

static void host_stops(struct connfix *f)
{
	smcr_engine_shutdown(f->engine);
}

static void engine_is_freed(struct connfix *f)
{
	(void)f; /* connfix_free() does that */
}

/* Whatever ends a connection, the host hears that its memory is about to go before the memory goes,
 * which connfix asserts: also while the RNIC still sends from the send buffer. */
static void sharing_ends_before_memory_goes(void **state)
{
	static void (*const ends[])(struct connfix *) = {
		group_goes,   program_aborts,  peer_aborts,
		tcp_is_reset, program_closes,  program_leaves_bytes_unread,
		host_stops,   engine_is_freed,
	};
	(void)state;
	for (size_t i = 0; i < 2 * sizeof(ends) / sizeof(ends[0]); i++) {
		TRIES("way %zu%s", i / 2, i % 2 ? ", with a write under way" : "");
		struct connfix *f = connfix_new(NULL);
		struct smcr_conn_memory memory;
		assert_int_equal(smcr_conn_share(f->conn, &memory), 0);
		f->shared = true;
		if (i % 2)
			connfix_write(f, 700);
		ends[i / 2](f);
		if (ends[i / 2] != engine_is_freed) {
			connfix_run(f, 120 * SECOND);
			if (f->live_qps > 0) /* else the links have gone with their group */
				connfix_complete(f);
			connfix_run(f, 120 * SECOND);
			assert_true(connfix_gone(f));
			assert_false(f->shared);
			assert_int_equal(f->recovered, 2);
		}
		connfix_free(f);
	}
}

static void other_connections_memory_is_left_alone(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	close_both_ways(f);
	assert_int_equal(f->recovered, 0);
	connfix_free(f);
}

/* Memory that cannot be taken back from the program is given to no other connection. */
static void memory_that_stays_shared_is_retired(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	struct smcr_conn_memory memory;
	struct smcr_element element;
	assert_int_equal(smcr_conn_share(f->conn, &memory), 0);
	struct smcr_slab *rmb = f->conn->rx.element.slab, *sndbuf = f->conn->tx.buf.slab;
	f->shared = f->fail_recover = true;
	close_both_ways(f);
	assert_int_equal(rmb->retired, 1);
	assert_int_equal(sndbuf->retired, 1);
	assert_int_equal(rmb->used, 0);
	for (unsigned int i = 1; i < rmb->count; i++)
		assert_int_equal(smcr_element_take(f->lgr, true, 0, SMCR_BSIZE_MAX, &element), 0);
	assert_int_equal(smcr_element_take(f->lgr, true, 0, SMCR_BSIZE_MAX, &element), -ENOENT);
	rmb->used = 0;
	connfix_free(f);
}

static void positions_follow_the_stream(void **state)
{
	(void)state;
	struct connfix *f = connfix_new(NULL);
	struct smcr_conn_positions at, then;
	smcr_conn_get_positions(f->conn, &at);
	assert_int_equal(at.consumed, at.produced);
	assert_int_equal(at.completed, at.committed);
	connfix_write(f, 700);
	connfix_peer_writes(f, 300);
	connfix_peer_cdc(f);
	connfix_read(f, 100);
	smcr_conn_get_positions(f->conn, &then);
	assert_int_equal(then.committed, at.committed + 700);
	assert_int_equal(then.completed, at.completed);
	assert_int_equal(then.produced, at.produced + 300);
	assert_int_equal(then.consumed, at.consumed + 100);
	connfix_complete(f);
	smcr_conn_get_positions(f->conn, &then);
	assert_int_equal(then.completed, at.committed + 700);
	connfix_free(f);
}

/* ---- pages */

static uint8_t *private_pages(void)
{
	uint8_t *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	for (size_t i = 0; i < LEN; i++)
		at[i] = (uint8_t)(i * 7 + i / 4096);
	return at;
}

static void expect_pattern(const uint8_t *at, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		assert_int_equal(at[i], (uint8_t)(i * 7 + i / 4096));
}

static void pages_are_shared_and_become_ones_own(void **state)
{
	(void)state;
	uint8_t *at = private_pages();
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, LEN), 0);
	uint8_t *other = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* The second half of the pages is replaced by the first half of the file. */
	assert_int_equal(pages_share(at + LEN / 2, LEN / 2, fd, 0), 0);
	expect_pattern(at, 0, LEN);
	assert_memory_equal(other, at + LEN / 2, LEN / 2);
	other[5] = 99;
	assert_int_equal(at[LEN / 2 + 5], 99);
	assert_int_equal(pages_own(at + LEN / 2, LEN / 2), 0);
	assert_int_equal(at[LEN / 2 + 5], 99);
	expect_pattern(at, LEN / 2 + 6, LEN);
	other[6] = 98;
	at[LEN / 2 + 7] = 97;
	expect_pattern(at, LEN / 2 + 6, LEN / 2 + 7);
	assert_int_not_equal(other[7], 97);
	munmap(other, LEN);
	munmap(at, LEN);
	close(fd);
}

static void renewed_pages_are_zero_and_the_files_are_gone(void **state)
{
	(void)state;
	uint8_t *at = private_pages();
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, LEN), 0);
	uint8_t *other = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(pages_share(at, LEN, fd, 0), 0);
	assert_int_equal(pages_renew(at, LEN), 0);
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(at[i] | other[i], 0);
	other[3] = 1;
	assert_int_equal(at[3], 0);
	munmap(other, LEN);
	munmap(at, LEN);
	close(fd);
}

static void pages_that_cannot_be_shared_stay_as_they_are(void **state)
{
	(void)state;
	uint8_t *at = private_pages();
	assert_int_equal(pages_share(at, LEN, -1, 0), -EBADF);
	expect_pattern(at, 0, LEN);
	at[0] = 1;
	munmap(at, LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shared_connections_memory_is_recovered),
		cmocka_unit_test(sharing_ends_before_memory_goes),
		cmocka_unit_test(other_connections_memory_is_left_alone),
		cmocka_unit_test(memory_that_stays_shared_is_retired),
		cmocka_unit_test(positions_follow_the_stream),
		cmocka_unit_test(pages_are_shared_and_become_ones_own),
		cmocka_unit_test(renewed_pages_are_zero_and_the_files_are_gone),
		cmocka_unit_test(pages_that_cannot_be_shared_stay_as_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
