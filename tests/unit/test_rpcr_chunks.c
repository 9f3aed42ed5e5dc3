/* SPDX-License-Identifier: MIT */
/* Where data goes in chunks of RPC-over-RDMA. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/rpcrdma/chunks.h"
#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

static struct rpcrdma_lists reads(uint32_t n, const uint32_t positions[], const uint32_t lengths[])
{
	struct rpcrdma_lists lists = { .num_reads = n };
	for (uint32_t i = 0; i < n; i++)
		lists.reads[i] = (struct rpcrdma_read){ positions[i], { i, lengths[i], 0 } };
	return lists;
}

static void positions(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		bool is_msg;
		size_t len;
		uint32_t n, positions[4], lengths[4];
		int result;
		uint64_t whole;
		uint32_t chunks;
	} tries[] = {
		{ "no chunk", true, 100, 0, { 0 }, { 0 }, 0, 100, 0 },
		{ "one in the middle, padded", true, 100, 1, { 40 }, { 1021 }, 0, 1124, 1 },
		{ "at the end", true, 100, 1, { 100 }, { 8 }, 0, 108, 1 },
		{ "behind the end", true, 100, 1, { 104 }, { 8 }, -EBADMSG, 0, 1 },
		{ "far behind the end", true, 100, 1, { 0xFFFFFFFC }, { 8 }, -EBADMSG, 0, 1 },
		{ "no multiple of 4", true, 400, 1, { 0x8D }, { 8 }, -EBADMSG, 0, 1 },
		{ "at 0 of an MSG", true, 400, 1, { 0 }, { 8 }, -EBADMSG, 0, 1 },
		{ "three segments of odd lengths",
		  true,
		  80,
		  3,
		  { 40, 40, 40 },
		  { 1, 3, 7 },
		  0,
		  92,
		  1 },
		{ "shuffled", true, 80, 3, { 92, 40, 92 }, { 5, 12, 7 }, 0, 104, 2 },
		{ "one within another", true, 80, 2, { 40, 44 }, { 12, 4 }, -EBADMSG, 0, 2 },
		{ "one behind another", true, 40, 2, { 40, 52 }, { 12, 4 }, 0, 56, 2 },
		{ "the longest",
		  true,
		  8,
		  2,
		  { 8, 8 },
		  { 0xFFFFFFFF, 0xFFFFFFFF },
		  0,
		  8 + UINT64_C(0x200000000),
		  1 },
		{ "all of it", false, 0, 2, { 0, 0 }, { 4096, 100 }, 0, 4196, 1 },
		{ "all of it, and one within", false, 0, 2, { 0, 40 }, { 80, 9 }, 0, 92, 2 },
		{ "no chunk at 0", false, 0, 1, { 4 }, { 80 }, -EBADMSG, 0, 1 },
		{ "nothing at all", false, 0, 0, { 0 }, { 0 }, -EBADMSG, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].what);
		const struct rpcrdma_lists lists =
			reads(tries[i].n, tries[i].positions, tries[i].lengths);
		uint64_t whole = 0;
		assert_int_equal(rpcr_count_reads(&lists), tries[i].chunks);
		assert_int_equal(rpcr_check_reads(&lists, tries[i].is_msg, tries[i].len, &whole),
				 tries[i].result);
		assert_true(whole == tries[i].whole);
	}
	PROVES("RR2-97 RR2-98 RR2-101 RR2-102 RR2-106 RR2-127");
}

/* A message is taken to pieces at random, and put together again. */
static void random_messages_come_together(void **state)
{
	(void)state;
	struct random random = { 20261129 };
	for (int run = 0; run < 3000; run++) {
		TRIES("run %d", run);
		uint8_t whole[512], payload[512], data[512];
		struct rpcrdma_lists lists = { 0 };
		size_t len = 0, payload_len = 0, data_len = 0;
		const bool special = random_below(&random, 2);
		for (unsigned int part = 0; part < 4; part++) {
			const size_t kept = 4 * (random_below(&random, 6) + (part == 0));
			random_bytes(&random, whole + len, kept);
			memcpy(payload + payload_len, whole + len, kept);
			payload_len += kept;
			len += kept;
			const uint32_t at = (uint32_t)len;
			for (unsigned int k = random_below(&random, 4); k > 0; k--) {
				const uint32_t n = random_below(&random, 20);
				lists.reads[lists.num_reads++] =
					(struct rpcrdma_read){ at, { 1, n, 0 } };
				random_bytes(&random, whole + len, n);
				memcpy(data + data_len, whole + len, n);
				data_len += n;
				len += n;
			}
			while (len % 4)
				whole[len++] = 0;
		}
		if (special) { /* what is left goes into a chunk too, in two segments */
			const uint32_t cut = random_below(&random, (uint32_t)payload_len + 1);
			memcpy(data + data_len, payload, payload_len);
			lists.reads[lists.num_reads++] = (struct rpcrdma_read){ 0, { 1, cut, 0 } };
			lists.reads[lists.num_reads++] =
				(struct rpcrdma_read){ 0, { 1, (uint32_t)payload_len - cut, 0 } };
		}
		uint64_t found;
		assert_int_equal(rpcr_check_reads(&lists, !special, payload_len, &found), 0);
		assert_int_equal(found, len);
		uint8_t *back = malloc(len);
		assert_non_null(back);
		rpcr_rebuild(&lists, special ? NULL : payload, special ? 0 : payload_len, data,
			     back);
		assert_memory_equal(back, whole, len);
		free(back);
	}
	PROVES("RR2-103 RR2-104 RR2-122");
}

static void results(void **state)
{
	(void)state;
	static const struct {
		uint32_t len, first, second;
		bool fits;
	} tries[] = {
		{ 0, 0, 0, true },         { 904, 904, 0, true },       { 4096, 4096, 0, true },
		{ 4999, 4096, 903, true }, { 5000, 4096, 904, true },   { 8192, 4096, 4096, true },
		{ 8193, 0, 0, false },     { 0xFFFFFFFF, 0, 0, false },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%u bytes", tries[i].len);
		struct rpcrdma_lists lists = {
			.num_writes = 2,
			.writes = { { 0, 2 }, { 2, 0 } },
			.num_segments = 2,
			.segments = { { 1, 4096, 0 }, { 2, 4096, 8192 } },
		};
		assert_int_equal(rpcr_chunk_len(&lists, &lists.writes[0]), 8192);
		assert_int_equal(rpcr_set_written(&lists, &lists.writes[0], tries[i].len),
				 tries[i].fits);
		if (tries[i].fits) {
			assert_int_equal(lists.segments[0].length, tries[i].first);
			assert_int_equal(lists.segments[1].length, tries[i].second);
		}
		/* a chunk without segments holds nothing */
		assert_true(rpcr_set_written(&lists, &lists.writes[1], 0));
		assert_false(rpcr_set_written(&lists, &lists.writes[1], 1));
	}
	PROVES("RR2-98 RR2-108 RR2-109 RR2-110 RR2-111");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions),
		cmocka_unit_test(random_messages_come_together),
		cmocka_unit_test(results),
	};
	return cmocka_run_group_tests_name("rpcr: chunks", tests, NULL, NULL);
}
