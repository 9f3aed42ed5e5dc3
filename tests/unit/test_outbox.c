/* SPDX-License-Identifier: MIT */
/* The order in which the requests of a turn are posted, and what a wr_id tells when one of them
 * fails. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/fabric/outbox.h"
#include "daemon/rnic/backend.h"
#include "tests/lib/proves.h"

static struct outbox outbox;
static uint64_t next_id;
static char posted[1024]; /* the requests that the RNIC got, as text */
static int lists, answer;

static int post(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n)
{
	(void)qp;
	lists++;
	if (answer)
		return answer;
	for (size_t i = 0; i < n; i++) {
		size_t at = strlen(posted);
		bool write = wr[i].opcode == RNIC_WR_RDMA_WRITE;
		snprintf(posted + at, sizeof(posted) - at, "%s%c%u", at ? " " : "",
			 write ? 'W' : *(const char *)wr[i].sge[0].addr, (unsigned int)wr[i].wr_id);
	}
	return 0;
}

static const struct rnic_backend backend = { .post_send = post };
static struct rnic rnic = { .backend = &backend };
static struct rnic_qp qp = { .rnic = &rnic };

static int setup(void **state)
{
	(void)state;
	outbox = (struct outbox){ 0 };
	next_id = 0;
	*posted = '\0';
	lists = answer = 0;
	return 0;
}

/* Adds `writes` RDMA writes and a SEND whose only byte is `name`. */
static bool add(unsigned int writes, char name)
{
	static const uint8_t payload[100];
	struct rnic_send_wr list[OUTBOX_MOST + 1];
	for (unsigned int i = 0; i < writes; i++)
		list[i] = (struct rnic_send_wr){ .wr_id = next_id + i,
						 .opcode = RNIC_WR_RDMA_WRITE,
						 .num_sge = 1,
						 .sge = { { payload, sizeof(payload), 0 } } };
	list[writes] = (struct rnic_send_wr){ .wr_id = next_id + writes,
					      .opcode = RNIC_WR_SEND,
					      .flags = RNIC_SEND_INLINE | RNIC_SEND_SIGNALED,
					      .num_sge = 1,
					      .sge = { { &name, 1, 0 } } };
	if (outbox_add(&outbox, list, writes + 1) == 0)
		return false;
	next_id += writes + 1;
	return true;
}

static void writes_go_first_in_one_list(void **state)
{
	(void)state;
	assert_true(add(1, 'a'));
	assert_true(add(2, 'b'));
	assert_true(add(1, 'c'));
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	/* Numbers from 1 on have not completed before the SEND of a has. */
	assert_string_equal(posted, "W0 W1 W1 W1 a1 b4 c6");
	assert_int_equal(lists, 1);
	PROVES("CDC-6");
}

static void nothing_passes_a_send_that_came_alone(void **state)
{
	(void)state;
	assert_true(add(1, 'a'));
	assert_true(add(0, 'l'));
	assert_true(add(0, 'm'));
	assert_false(add(1, 'b'));
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_string_equal(posted, "W0 a1 l2 m3");
	assert_true(add(1, 'b'));
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_string_equal(posted, "W0 a1 l2 m3 W4 b5");
}

/* A connection on its new link posts validation, its data once more, and a CDC (FO-4). */
static void nothing_passes_a_send_before_its_writes(void **state)
{
	(void)state;
	const char names[] = "vc";
	struct rnic_send_wr list[3] = {
		{ .wr_id = 2,
		  .opcode = RNIC_WR_SEND,
		  .flags = RNIC_SEND_INLINE,
		  .num_sge = 1,
		  .sge = { { &names[0], 1, 0 } } },
		{ .wr_id = 3,
		  .opcode = RNIC_WR_RDMA_WRITE,
		  .num_sge = 1,
		  .sge = { { names, 1, 0 } } },
		{ .wr_id = 4,
		  .opcode = RNIC_WR_SEND,
		  .flags = RNIC_SEND_INLINE,
		  .num_sge = 1,
		  .sge = { { &names[1], 1, 0 } } },
	};
	assert_true(add(1, 'a'));
	assert_int_equal(outbox_add(&outbox, list, 3), 1);
	assert_int_equal(outbox_add(&outbox, list + 1, 2), 0);
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_int_equal(outbox_add(&outbox, list + 1, 2), 2);
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_string_equal(posted, "W0 a1 v2 W3 c4");
}

/* A small message does not wait until another connection's many bytes have left. */
static void much_is_not_passed_on_together(void **state)
{
	(void)state;
	static uint8_t payload[OUTBOX_BYTES];
	struct rnic_send_wr large = { .opcode = RNIC_WR_RDMA_WRITE,
				      .num_sge = 1,
				      .sge = { { payload, sizeof(payload), 0 } } };
	assert_true(add(1, 'a'));
	assert_int_equal(outbox_add(&outbox, &large, 1), 1);
	assert_false(add(1, 'b'));
	assert_true(add(0, 'c'));
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_true(add(1, 'b'));
}

static void requests_that_do_not_fit_are_refused_whole(void **state)
{
	(void)state;
	for (unsigned int i = 0; i + 2 <= OUTBOX_MOST; i += 2)
		assert_true(add(1, 'x'));
	while (add(1, 'y'))
		;
	assert_in_range(outbox.num_writes, OUTBOX_MOST - 2, OUTBOX_MOST);
	assert_int_equal(outbox.num_writes, outbox.num_sends);
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_true(add(OUTBOX_MOST - 1, 'z'));
}

static void the_outbox_is_empty_after_a_post(void **state)
{
	(void)state;
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_int_equal(lists, 0);
	answer = -EIO;
	assert_true(add(1, 'a'));
	assert_int_equal(outbox_post(&outbox, &qp), -EIO);
	answer = 0;
	assert_true(add(1, 'b'));
	assert_int_equal(outbox_post(&outbox, &qp), 0);
	assert_string_equal(posted, "W2 b3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(writes_go_first_in_one_list, setup),
		cmocka_unit_test_setup(nothing_passes_a_send_that_came_alone, setup),
		cmocka_unit_test_setup(nothing_passes_a_send_before_its_writes, setup),
		cmocka_unit_test_setup(much_is_not_passed_on_together, setup),
		cmocka_unit_test_setup(requests_that_do_not_fit_are_refused_whole, setup),
		cmocka_unit_test_setup(the_outbox_is_empty_after_a_post, setup),
	};
	return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
