/* SPDX-License-Identifier: MIT */
/* RDMA channels that the gateway offers to a server of SMB Direct, for a client that knows none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smbgate/offer.h"
#include "tests/lib/smb2fix.h"
#include "tests/lib/tries.h"

#define LEAST 4096
#define MOST  100000

static const struct smbdirect_descriptor descriptor = { 0x1234567890, 77, 9000 };
static struct smb2fix in;
static uint8_t out[SMB2FIX_MOST];
static int memory_a, memory_b;
static size_t released;

/* The server chooses a dialect. */
static void negotiate(struct offer *offer, uint16_t dialect)
{
	struct offer_answer answer;
	in.len = 0;
	smb2fix_negotiate_answer(&in, dialect);
	assert_int_equal(offer_response(offer, in.bytes, in.len, &answer), 0);
	assert_null(answer.memory);
	in.len = 0;
}

static int setup(void **state)
{
	const struct offer_config config = { .least = LEAST, .max_read_write_size = MOST };
	struct offer *offer;
	if (offer_new(&config, &offer) != 0)
		return -1;
	negotiate(offer, SMB2_DIALECT_311);
	released = 0;
	*state = offer;
	return 0;
}

static void release(void *ctx, void *memory)
{
	(void)ctx;
	assert_true(memory == &memory_a || memory == &memory_b);
	released++;
}

static int teardown(void **state)
{
	offer_free(*state, release, NULL);
	return 0;
}

static struct offer_plan look(struct offer *offer)
{
	struct offer_plan plan;
	uint8_t *copy = malloc(in.len);
	assert_non_null(copy);
	memcpy(copy, in.bytes, in.len);
	offer_request(offer, copy, in.len, &plan);
	free(copy);
	return plan;
}

static void a_write_leaves_its_data_here(void **state)
{
	smb2fix_write_data(&in, 5, 9000, 3);
	struct offer_plan plan = look(*state);
	assert_int_equal(plan.what, OFFER_WRITE);
	assert_int_equal(plan.data_at, 112);
	assert_int_equal(plan.length, 9000);
	assert_int_equal(plan.len, 128);
	assert_int_equal(offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_a, out),
			 0);
	/* It is as a client of SMB Direct would have sent it. */
	static struct smb2fix wanted;
	wanted.len = 0;
	smb2fix_write(&wanted, 5, 9000, SMB2_CHANNEL_RDMA_V1_INVALIDATE, &descriptor, 1);
	assert_memory_equal(out, wanted.bytes, wanted.len);
	assert_int_equal(offer_pending(*state), 1);

	struct offer_answer answer;
	in.len = 0;
	smb2fix_add(&in, SMB2_WRITE, 5, SMB2_FLAG_RESPONSE, 17, 17);
	assert_int_equal(offer_response(*state, in.bytes, in.len, &answer), 0);
	assert_ptr_equal(answer.memory, &memory_a);
	assert_int_equal(answer.length, 0);
	assert_int_equal(offer_pending(*state), 0);
}

/* The response of a server that has written so many bytes into our memory. */
static void read_answer(uint64_t message_id, uint32_t written)
{
	const struct smb2_read_response response = { .data_offset = 80, .remaining = written };
	size_t at = smb2fix_add(&in, SMB2_READ, message_id, SMB2_FLAG_RESPONSE, 17, 16);
	smb2_put_read_response(in.bytes + at, &response);
}

static void a_read_gets_its_data(void **state)
{
	smb2fix_read(&in, 6, 9000, SMB2_CHANNEL_NONE, NULL, 0);
	struct offer_plan plan = look(*state);
	assert_int_equal(plan.what, OFFER_READ);
	assert_int_equal(plan.length, 9000);
	assert_int_equal(offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_b, out),
			 0);
	static struct smb2fix wanted;
	wanted.len = 0;
	smb2fix_read(&wanted, 6, 9000, SMB2_CHANNEL_RDMA_V1_INVALIDATE, &descriptor, 1);
	assert_memory_equal(out, wanted.bytes, wanted.len);

	struct offer_answer answer;
	in.len = 0;
	smb2fix_error(&in, SMB2_READ, 6, SMB2_STATUS_PENDING, SMB2_FLAG_ASYNC);
	assert_int_equal(offer_response(*state, in.bytes, in.len, &answer), 0);
	assert_null(answer.memory);
	in.len = 0;
	read_answer(6, 8999);
	assert_int_equal(offer_response(*state, in.bytes, in.len, &answer), 0);
	assert_ptr_equal(answer.memory, &memory_b);
	assert_int_equal(answer.length, 8999);
	offer_build_head(&answer, in.bytes, out);
	smb2fix_pattern(out + OFFER_HEAD_LEN, 8999, 4);
	wanted.len = 0;
	smb2fix_read_answer(&wanted, 6, 8999, 4);
	assert_memory_equal(out, wanted.bytes, wanted.len);
}

static void expect_answer(struct offer *offer, const void *memory, uint32_t length)
{
	struct offer_answer answer;
	assert_int_equal(offer_response(offer, in.bytes, in.len, &answer), 0);
	assert_ptr_equal(answer.memory, memory);
	assert_int_equal(answer.length, length);
	in.len = 0;
}

/* A READ of as much as may be, which is answered in full, behind messages that are no answers. */
static void what_answers_a_read(void **state)
{
	smb2fix_read(&in, 6, MOST, SMB2_CHANNEL_NONE, NULL, 0);
	struct offer_plan plan = look(*state);
	assert_int_equal(plan.what, OFFER_READ);
	assert_int_equal(plan.length, MOST);
	offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_a, out);
	in.len = 0;
	smb2fix_error(&in, SMB2_READ, 7, 0, 0);
	expect_answer(*state, NULL, 0);
	smb2fix_error(&in, 0x0005, 6, 0, 0);
	expect_answer(*state, NULL, 0);
	smb2fix_add(&in, SMB2_READ, 6, 0, 17, 16);
	expect_answer(*state, NULL, 0);
	read_answer(6, 1);
	in.bytes[0] = 0xFD; /* encrypted */
	expect_answer(*state, NULL, 0);
	read_answer(6, 1);
	smb2fix_error(&in, SMB2_READ, 7, 0, 0); /* a compound */
	expect_answer(*state, NULL, 0);
	smb2fix_error(&in, SMB2_READ, 6, SMB2_STATUS_PENDING, SMB2_FLAG_ASYNC);
	expect_answer(*state, NULL, 0);
	assert_int_equal(offer_pending(*state), 1);
	read_answer(6, MOST);
	in.bytes[16] |= SMB2_FLAG_ASYNC;
	expect_answer(*state, &memory_a, MOST);

	/* what is not asynchronous is an answer, whatever its status */
	smb2fix_read(&in, 6, MOST, SMB2_CHANNEL_NONE, NULL, 0);
	plan = look(*state);
	offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_b, out);
	in.len = 0;
	smb2fix_error(&in, SMB2_READ, 6, SMB2_STATUS_PENDING, 0);
	expect_answer(*state, &memory_b, 0);
	assert_int_equal(offer_pending(*state), 0);
}

static void a_write_is_not_answered_with_data(void **state)
{
	smb2fix_write_data(&in, 5, 9000, 3);
	struct offer_plan plan = look(*state);
	offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_a, out);
	in.len = 0;
	const struct smb2_read_response response = { .data_offset = 80, .remaining = 9000 };
	size_t at = smb2fix_add(&in, SMB2_WRITE, 5, SMB2_FLAG_RESPONSE, 17, 16);
	smb2_put_read_response(in.bytes + at, &response);
	expect_answer(*state, &memory_a, 0);
}

static void a_read_that_fails_or_is_answered_inline(void **state)
{
	for (uint64_t id = 1; id <= 2; id++) {
		TRIES("%s", id == 1 ? "fails" : "inline");
		in.len = 0;
		smb2fix_read(&in, id, 9000, SMB2_CHANNEL_NONE, NULL, 0);
		struct offer_plan plan = look(*state);
		struct offer_answer answer;
		offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_a, out);
		in.len = 0;
		if (id == 1)
			smb2fix_error(&in, SMB2_READ, id, 0xC0000011, 0);
		else
			smb2fix_read_answer(&in, id, 500, 1);
		assert_int_equal(offer_response(*state, in.bytes, in.len, &answer), 0);
		assert_ptr_equal(answer.memory, &memory_a);
		assert_int_equal(answer.length, 0);
	}
}

static void more_was_written_than_there_is_room(void **state)
{
	smb2fix_read(&in, 6, 9000, SMB2_CHANNEL_NONE, NULL, 0);
	struct offer_plan plan = look(*state);
	struct offer_answer answer;
	offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_b, out);
	in.len = 0;
	read_answer(6, 9001);
	assert_int_equal(offer_response(*state, in.bytes, in.len, &answer), -EPROTO);
	offer_free(*state, release, NULL);
	assert_int_equal(released, 1);
	*state = NULL;
}

static void what_passes(void **state)
{
	for (int i = 0; i < 9; i++) {
		TRIES("message %d", i);
		in.len = 0;
		switch (i) {
		case 0: smb2fix_write_data(&in, 1, LEAST - 1, 1); break;
		case 1: smb2fix_read(&in, 1, LEAST - 1, SMB2_CHANNEL_NONE, NULL, 0); break;
		case 2: smb2fix_read(&in, 1, MOST + 1, SMB2_CHANNEL_NONE, NULL, 0); break;
		case 3: smb2fix_read(&in, 1, 9000, SMB2_CHANNEL_RDMA_V1, &descriptor, 1); break;
		case 4: /* signed */
			smb2fix_write_data(&in, 1, 9000, 1);
			in.bytes[16] |= SMB2_FLAG_SIGNED;
			break;
		case 5: /* encrypted */
			smb2fix_write_data(&in, 1, 9000, 1);
			in.bytes[0] = 0xFD;
			break;
		case 6: /* a compound */
			smb2fix_write_data(&in, 1, 9000, 1);
			smb2fix_add(&in, 0x0006, 2, 0, 24, 24);
			break;
		case 7: smb2fix_add(&in, 0x0005, 1, 0, 57, 57); break;
		case 8: /* data beyond the message */
			smb2fix_write_data(&in, 1, 9000, 1);
			in.len--;
			break;
		}
		assert_int_equal(look(*state).what, OFFER_NOTHING);
	}
}

/* MS-SMB2 2.2.19 and 2.2.21: SMB 3.0 has no SMB2_CHANNEL_RDMA_V1_INVALIDATE, and earlier dialects
 * have no channel. Linux's ksmbd refuses what the dialect does not have. */
static void channels_are_those_of_the_dialect(void **state)
{
	const struct {
		uint16_t dialect;
		uint32_t channel;
	} cases[] = {
		{ 0x0202, SMB2_CHANNEL_NONE },
		{ 0x0210, SMB2_CHANNEL_NONE },
		{ 0x02FF, SMB2_CHANNEL_NONE }, /* another NEGOTIATE is to come */
		{ SMB2_DIALECT_300, SMB2_CHANNEL_RDMA_V1 },
		{ SMB2_DIALECT_302, SMB2_CHANNEL_RDMA_V1_INVALIDATE },
		{ SMB2_DIALECT_311, SMB2_CHANNEL_RDMA_V1_INVALIDATE },
	};
	static struct smb2fix wanted;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t channel = cases[i / 2].channel;
		const bool read = i % 2;
		TRIES("dialect %x, %s", cases[i / 2].dialect, read ? "read" : "write");
		negotiate(*state, cases[i / 2].dialect);
		wanted.len = 0;
		if (read) {
			smb2fix_read(&in, i, 9000, SMB2_CHANNEL_NONE, NULL, 0);
			smb2fix_read(&wanted, i, 9000, channel, &descriptor, 1);
		} else {
			smb2fix_write_data(&in, i, 9000, 3);
			smb2fix_write(&wanted, i, 9000, channel, &descriptor, 1);
		}
		struct offer_plan plan = look(*state);
		assert_int_equal(plan.what == OFFER_NOTHING, channel == SMB2_CHANNEL_NONE);
		if (plan.what == OFFER_NOTHING)
			continue;
		offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_a, out);
		assert_memory_equal(out, wanted.bytes, wanted.len);
	}
}

static void nothing_is_offered_before_there_is_a_dialect(void **state)
{
	const struct offer_config config = { .least = LEAST, .max_read_write_size = MOST };
	struct offer *offer;
	(void)state;
	assert_int_equal(offer_new(&config, &offer), 0);
	smb2fix_read(&in, 1, 9000, SMB2_CHANNEL_NONE, NULL, 0);
	assert_int_equal(look(offer).what, OFFER_NOTHING);
	/* What is no successful answer to a NEGOTIATE tells no dialect. */
	struct offer_answer answer;
	in.len = 0;
	smb2fix_negotiate_answer(&in, SMB2_DIALECT_311);
	in.bytes[16] = 0; /* a request */
	offer_response(offer, in.bytes, in.len, &answer);
	in.len = 0;
	smb2fix_error(&in, SMB2_NEGOTIATE, 0, 0xC000000D, 0);
	offer_response(offer, in.bytes, in.len, &answer);
	in.len = 0;
	smb2fix_read(&in, 1, 9000, SMB2_CHANNEL_NONE, NULL, 0);
	assert_int_equal(look(offer).what, OFFER_NOTHING);
	offer_free(offer, release, NULL);
}

static void an_id_that_waits_is_not_offered_again(void **state)
{
	smb2fix_read(&in, 6, 9000, SMB2_CHANNEL_NONE, NULL, 0);
	struct offer_plan plan = look(*state);
	offer_build_request(*state, &plan, in.bytes, &descriptor, &memory_b, out);
	assert_int_equal(look(*state).what, OFFER_NOTHING);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_write_leaves_its_data_here),
		TEST(a_read_gets_its_data),
		TEST(what_answers_a_read),
		TEST(a_write_is_not_answered_with_data),
		TEST(a_read_that_fails_or_is_answered_inline),
		TEST(more_was_written_than_there_is_room),
		TEST(what_passes),
		TEST(an_id_that_waits_is_not_offered_again),
		TEST(channels_are_those_of_the_dialect),
		TEST(nothing_is_offered_before_there_is_a_dialect),
	};
	return cmocka_run_group_tests_name("smbgate: offer", tests, NULL, NULL);
}
