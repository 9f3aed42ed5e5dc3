/* SPDX-License-Identifier: MIT */
/* RDMA channels of SMB clients, served for a server that knows none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smbgate/serve.h"
#include "tests/lib/proves.h"
#include "tests/lib/smb2fix.h"
#include "tests/lib/tries.h"

#define MOST         100000
#define MESSAGE_MOST 250000

static const struct smbdirect_descriptor memory[] = {
	{ 0x10000, 11, 5000 },
	{ 0x20000, 22, 0 },
	{ 0x30000, 33, 90000 },
};
static const struct smbdirect_descriptor plain[] = { { 0x40000, 44, MOST } };

static struct smb2fix in, wanted;
static uint8_t out[SMB2FIX_MOST];

static int setup(void **state)
{
	const struct serve_config config = { .max_read_write_size = MOST,
					     .max_message = MESSAGE_MOST };
	struct serve *serve;
	if (serve_new(&config, &serve) != 0)
		return -1;
	in.len = wanted.len = 0;
	*state = serve;
	return 0;
}

static int teardown(void **state)
{
	serve_free(*state);
	return 0;
}

/* Looks at the message `in` as one of the client, and builds what the server gets into `out`. */
static struct serve_plan ask(struct serve *serve)
{
	struct serve_plan plan;
	uint8_t *copy = malloc(in.len); /* so that the address sanitizer sees a read behind it */
	assert_non_null(copy);
	memcpy(copy, in.bytes, in.len);
	assert_int_equal(serve_request(serve, copy, in.len, &plan), 0);
	memset(out, 0xEE, sizeof(out));
	if (!plan.untouched)
		serve_build_request(&plan, copy, out);
	free(copy);
	return plan;
}

static struct serve_plan answer(struct serve *serve)
{
	struct serve_plan plan;
	assert_int_equal(serve_response(serve, in.bytes, in.len, &plan), 0);
	memset(out, 0xEE, sizeof(out));
	if (!plan.untouched)
		serve_build_response(&plan, in.bytes, out);
	return plan;
}

static void expect_transfer(const struct serve_plan *plan, size_t i, size_t at, uint64_t offset,
			    uint32_t token, uint32_t length)
{
	assert_true(i < plan->num_transfers);
	assert_int_equal(plan->transfers[i].at, at);
	assert_int_equal(plan->transfers[i].remote.offset, offset);
	assert_int_equal(plan->transfers[i].remote.token, token);
	assert_int_equal(plan->transfers[i].remote.length, length);
}

/* ---- WRITE */

static void a_write_gets_its_data(void **state)
{
	smb2fix_write(&in, 7, 9000, SMB2_CHANNEL_RDMA_V1, memory, 3);
	struct serve_plan plan = ask(*state);
	assert_false(plan.untouched);
	assert_int_equal(plan.len, 112 + 9000);
	assert_int_equal(plan.num_transfers, 2);
	expect_transfer(&plan, 0, 112, 0x10000, 11, 5000);
	expect_transfer(&plan, 1, 5112, 0x30000, 33, 4000);
	/* With the data in its place it is a WRITE as one sees it over TCP. */
	smb2fix_write_data(&wanted, 7, 9000, 3);
	smb2fix_pattern(out + 112, 9000, 3);
	assert_memory_equal(out, wanted.bytes, wanted.len);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);
}

static void a_write_of_nothing(void **state)
{
	smb2fix_write(&in, 7, 0, SMB2_CHANNEL_RDMA_V1_INVALIDATE, plain, 1);
	struct serve_plan plan = ask(*state);
	assert_int_equal(plan.len, 113);
	assert_int_equal(plan.num_transfers, 0);
	struct smb2_write_request request;
	assert_int_equal(smb2_decode_write_request(out, plan.len, &request), 0);
	assert_int_equal(request.channel, SMB2_CHANNEL_NONE);
	assert_int_equal(request.length, 0);
	assert_int_equal(out[112], 0);
	serve_plan_clear(&plan);
}

/* Linux's client does not invalidate the token of a WRITE itself, and its queue pair fails when it
 * registers memory with that token again (MS-SMB2 3.3.5.13). */
static void a_write_kills_its_token(void **state)
{
	smb2fix_write(&in, 7, 9000, SMB2_CHANNEL_RDMA_V1_INVALIDATE, memory, 3);
	struct serve_plan plan = ask(*state);
	assert_int_equal(plan.num_transfers, 2);
	assert_int_equal(serve_pending(*state), 1);
	assert_false(serve_expects_data(*state));
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_error(&in, SMB2_WRITE, 7, SMB2_STATUS_PENDING, SMB2_FLAG_ASYNC);
	plan = answer(*state); /* not yet */
	assert_false(plan.invalidate);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_add(&in, SMB2_WRITE, 7, SMB2_FLAG_RESPONSE | SMB2_FLAG_ASYNC, 17, 17);
	plan = answer(*state);
	assert_true(plan.untouched);
	assert_true(plan.invalidate);
	assert_int_equal(plan.token, 11);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);
}

/* ---- READ */

static void a_read_loses_its_channel(void **state)
{
	smb2fix_read(&in, 8, 8192, SMB2_CHANNEL_RDMA_V1_INVALIDATE, plain, 1);
	struct serve_plan plan = ask(*state);
	struct smb2_read_request request;
	assert_int_equal(plan.len, in.len);
	assert_int_equal(smb2_decode_read_request(out, plan.len, &request), 0);
	assert_int_equal(request.length, 8192);
	assert_int_equal(request.channel, SMB2_CHANNEL_NONE);
	assert_int_equal(request.info_offset + request.info_length, 0);
	assert_int_equal(serve_pending(*state), 1);
	serve_plan_clear(&plan);

	in.len = 0;
	smb2fix_read_answer(&in, 8, 150, 5);
	plan = answer(*state);
	assert_int_equal(plan.len, 80);
	assert_int_equal(plan.num_transfers, 1);
	expect_transfer(&plan, 0, 80, 0x40000, 44, 150);
	assert_true(plan.invalidate);
	assert_int_equal(plan.token, 44);
	struct smb2_read_response response;
	assert_int_equal(smb2_decode_read_response(out, plan.len, &response), 0);
	assert_int_equal(response.data_offset, 80);
	assert_int_equal(response.length, 0);
	assert_int_equal(response.remaining, 150);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);

	plan = answer(*state); /* it is no answer to anything now */
	assert_true(plan.untouched);
	assert_false(plan.invalidate);
	serve_plan_clear(&plan);
}

static void a_read_into_several_pieces(void **state)
{
	smb2fix_read(&in, 8, 50000, SMB2_CHANNEL_RDMA_V1, memory, 3);
	struct serve_plan plan = ask(*state);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_read_answer(&in, 8, 50000, 5);
	plan = answer(*state);
	expect_transfer(&plan, 0, 80, 0x10000, 11, 5000);
	expect_transfer(&plan, 1, 5080, 0x30000, 33, 45000);
	assert_false(plan.invalidate);
	serve_plan_clear(&plan);
}

static void a_read_that_fails_kills_its_token_too(void **state)
{
	smb2fix_read(&in, 8, 8192, SMB2_CHANNEL_RDMA_V1_INVALIDATE, plain, 1);
	struct serve_plan plan = ask(*state);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_error(&in, SMB2_READ, 8, SMB2_STATUS_PENDING, SMB2_FLAG_ASYNC);
	plan = answer(*state); /* not yet */
	assert_true(plan.untouched);
	assert_false(plan.invalidate);
	assert_int_equal(serve_pending(*state), 1);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_error(&in, SMB2_READ, 8, 0xC0000011, SMB2_FLAG_ASYNC); /* end of file */
	plan = answer(*state);
	assert_true(plan.untouched);
	assert_true(plan.invalidate);
	assert_int_equal(plan.token, 44);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);
	PROVES("SMBD-84");
}

static void what_is_no_answer(void **state)
{
	smb2fix_read(&in, 8, 100, SMB2_CHANNEL_RDMA_V1_INVALIDATE, plain, 1);
	struct serve_plan plan = ask(*state);
	serve_plan_clear(&plan);
	for (int i = 0; i < 3; i++) {
		TRIES("message %d", i);
		in.len = 0;
		smb2fix_read_answer(&in, i == 0 ? 9 : 8, 100, 1);
		if (i == 1)
			in.bytes[12] = SMB2_WRITE;
		if (i == 2)
			in.bytes[16] = 0; /* no response */
		plan = answer(*state);
		assert_true(plan.untouched);
		assert_false(plan.invalidate);
		serve_plan_clear(&plan);
	}
	assert_int_equal(serve_pending(*state), 1);
}

static void more_data_than_asked_for(void **state)
{
	struct serve_plan plan;
	/* what counts is what the READ asks for, not how much memory there is */
	smb2fix_read(&in, 8, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	plan = ask(*state);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_read_answer(&in, 8, 101, 5);
	assert_int_equal(serve_response(*state, in.bytes, in.len, &plan), -EPROTO);
}

/* ---- what passes */

static void what_has_no_channel_passes(void **state)
{
	static const char *const kinds[] = { "\xFDSMB", "\xFCSMB", "\xFFSMB", "" };
	for (int i = 0; i < 9; i++) {
		TRIES("message %d", i);
		in.len = 0;
		if (i < 4)
			smb2fix_read(&in, 8, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
		if (i < 3)
			memcpy(in.bytes, kinds[i], 4);
		if (i == 3)
			in.len = 60; /* cut */
		if (i == 4)
			smb2fix_read(&in, 8, 100, SMB2_CHANNEL_NONE, NULL, 0);
		if (i == 5)
			smb2fix_write_data(&in, 8, 100, 1);
		if (i == 6)
			smb2fix_add(&in, 0x000C, 8, 0, 4, 4); /* CANCEL */
		if (i == 7) {                                 /* signed */
			smb2fix_write(&in, 8, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
			in.bytes[16] |= SMB2_FLAG_SIGNED;
		}
		if (i == 8) { /* a channel of later versions */
			smb2fix_read(&in, 8, 100, 3, plain, 1);
		}
		struct serve_plan plan = ask(*state);
		assert_true(plan.untouched);
		assert_int_equal(plan.num_transfers, 0);
		assert_int_equal(serve_pending(*state), 0);
		serve_plan_clear(&plan);
	}
}

/* ---- channels that cannot be served */

static void expect_refused(struct serve *serve, const char *what)
{
	TRIES("%s", what);
	struct serve_plan plan = ask(serve);
	assert_int_equal(plan.num_refused, 1);
	assert_int_equal(plan.num_transfers, 0);
	assert_int_equal(plan.len, in.len);
	/* The server sees a wrong structure size; the rest is the client's. */
	assert_int_equal(out[64] | out[65] << 8, 0xFFFF);
	assert_memory_equal(out, in.bytes, 64);
	assert_memory_equal(out + 66, in.bytes + 66, in.len - 66);
	serve_plan_clear(&plan);
	in.len = 0;
}

static void wrong_channels_are_refused(void **state)
{
	struct smbdirect_descriptor many[17] = { { 0, 0, 0 } };
	const struct smbdirect_descriptor high[] = { { UINT64_MAX - 10, 1, 100 } };
	many[0] = plain[0];
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, NULL, 0);
	expect_refused(*state, "a READ without descriptors");
	smb2fix_read(&in, 1, 95001, SMB2_CHANNEL_RDMA_V1, memory, 3);
	expect_refused(*state, "a READ of more than the memory");
	smb2fix_read(&in, 1, MOST + 1, SMB2_CHANNEL_RDMA_V1, memory, 3);
	expect_refused(*state, "a READ of more than may be");
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, many, 17);
	expect_refused(*state, "a READ with many descriptors");
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	in.bytes[110] = 15;
	expect_refused(*state, "a READ with a part of a descriptor");
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, high, 1);
	expect_refused(*state, "a READ behind the last address");
	smb2fix_write(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, NULL, 0);
	expect_refused(*state, "a WRITE without descriptors");
	smb2fix_write(&in, 1, 95001, SMB2_CHANNEL_RDMA_V1, memory, 3);
	expect_refused(*state, "a WRITE of more than the memory");
	smb2fix_write(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, high, 1);
	expect_refused(*state, "a WRITE behind the last address");
	smb2fix_write(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	in.bytes[66] = 112;
	in.bytes[68] = 8;
	expect_refused(*state, "a WRITE with data in two ways");
	assert_int_equal(serve_pending(*state), 0);
	PROVES("SMBD-151 SMBD-154");
}

/* Behind a WRITE that is right, whose descriptors must not be taken for theirs. */
static void a_wrong_channel_behind_a_good_one(void **state)
{
	struct smbdirect_descriptor many[17];
	for (int i = 0; i < 17; i++)
		many[i] = plain[0];
	for (int i = 0; i < 3; i++) {
		TRIES("%d", i);
		in.len = 0;
		smb2fix_write(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, many, 16);
		size_t at = smb2fix_write(&in, 2, 100, SMB2_CHANNEL_RDMA_V1, many, 17);
		if (i == 1)
			in.bytes[at + 106] = 15; /* a part of a descriptor */
		if (i == 2) {                    /* data in two ways */
			in.bytes[at + 66] = 112;
			in.bytes[at + 68] = 8;
			in.bytes[at + 106] = 16;
			in.bytes[at + 107] = 0;
		}
		struct serve_plan plan = ask(*state);
		assert_int_equal(plan.num_refused, 1);
		assert_int_equal(plan.num_transfers, 1);
		serve_plan_clear(&plan);
	}
}

/* The client waits for the end of its token, whatever becomes of its request. */
static void what_is_refused_kills_its_token_too(void **state)
{
	for (int i = 0; i < 2; i++) {
		const uint16_t command = i ? SMB2_WRITE : SMB2_READ;
		in.len = 0;
		if (i)
			smb2fix_write(&in, 5, MOST + 1, SMB2_CHANNEL_RDMA_V1_INVALIDATE, memory, 3);
		else
			smb2fix_read(&in, 5, MOST + 1, SMB2_CHANNEL_RDMA_V1_INVALIDATE, memory, 3);
		expect_refused(*state, i ? "a WRITE" : "a READ");
		smb2fix_error(&in, command, 5, 0xC000000D, 0);
		struct serve_plan plan = answer(*state);
		assert_true(plan.untouched);
		assert_true(plan.invalidate);
		assert_int_equal(plan.token, 11);
		assert_int_equal(serve_pending(*state), 0);
		serve_plan_clear(&plan);
	}
}

/* Data in the response to a READ that was refused are not for the client's memory. */
static void a_refused_read_gets_no_data(void **state)
{
	smb2fix_read(&in, 5, MOST + 1, SMB2_CHANNEL_RDMA_V1_INVALIDATE, memory, 3);
	expect_refused(*state, "a READ");
	assert_false(serve_expects_data(*state));
	smb2fix_read_answer(&in, 5, 100, 5);
	struct serve_plan plan = answer(*state);
	assert_true(plan.untouched);
	assert_int_equal(plan.num_transfers, 0);
	serve_plan_clear(&plan);
}

static void a_message_id_twice_is_refused(void **state)
{
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	struct serve_plan plan = ask(*state);
	assert_int_equal(plan.num_refused, 0);
	serve_plan_clear(&plan);
	expect_refused(*state, "the same again");
	assert_int_equal(serve_pending(*state), 1);
}

static void pending_reads_are_bounded(void **state)
{
	for (uint64_t id = 0; id < SERVE_PENDING_MOST; id++) {
		in.len = 0;
		smb2fix_read(&in, id, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
		struct serve_plan plan;
		assert_int_equal(serve_request(*state, in.bytes, in.len, &plan), 0);
		assert_int_equal(plan.num_refused, 0);
		serve_plan_clear(&plan);
	}
	in.len = 0;
	smb2fix_read(&in, SERVE_PENDING_MOST, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	expect_refused(*state, "one more");
}

/* ---- compounds */

static void a_compound_is_no_longer_than_a_message(void **state)
{
	for (uint64_t id = 1; id <= 4; id++)
		smb2fix_write(&in, id, MOST, SMB2_CHANNEL_RDMA_V1, plain, 1);
	struct serve_plan plan = ask(*state);
	assert_int_equal(plan.num_refused, 2);
	assert_int_equal(plan.num_transfers, 2);
	assert_true(plan.len <= MESSAGE_MOST);
	serve_plan_clear(&plan);

	/* what follows counts too */
	in.len = 0;
	smb2fix_write(&in, 1, MOST, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2fix_add(&in, 0x0005, 2, 0, 57, MESSAGE_MOST - MOST - 112 - 64);
	plan = ask(*state);
	assert_int_equal(plan.len, MESSAGE_MOST);
	assert_int_equal(plan.num_refused, 0);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_write(&in, 1, MOST, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2fix_add(&in, 0x0005, 2, 0, 57, MESSAGE_MOST - MOST - 112 - 64 + 1);
	expect_refused(*state, "a WRITE with too much behind it");
	PROVES("SMBD-169");
}

static void a_compound_of_all_kinds(void **state)
{
	smb2fix_add(&in, 0x0005, 1, 0, 57, 59); /* CREATE, not a multiple of 8 */
	smb2fix_write(&in, 2, 1001, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2fix_read(&in, 3, 500, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2fix_write(&in, 4, 10, SMB2_CHANNEL_RDMA_V1, NULL, 0); /* wrong */
	smb2fix_add(&in, 0x0006, 5, 0, 24, 24);                   /* CLOSE */
	struct serve_plan plan = ask(*state);
	assert_int_equal(plan.num_refused, 1);
	assert_int_equal(plan.num_transfers, 1);
	struct compound_part parts[COMPOUND_MOST];
	assert_int_equal(compound_split(out, plan.len, parts), 5);
	assert_int_equal(parts[1].at, 128);
	assert_int_equal(plan.transfers[0].at, 128 + 112);
	assert_int_equal(parts[2].at, 128 + 1120); /* 112 + 1001, and padding */
	for (uint64_t id = 1; id <= 5; id++)
		assert_int_equal(parts[id - 1].header.message_id, id);
	struct smb2_write_request write;
	assert_int_equal(smb2_decode_write_request(out + parts[1].at, parts[1].len, &write), 0);
	assert_int_equal(write.length, 1001);
	for (size_t i = 128 + 112 + 1001; i < parts[2].at; i++)
		assert_int_equal(out[i], 0); /* padding is not memory of the daemon */
	serve_plan_clear(&plan);

	in.len = 0;
	smb2fix_add(&in, 0x0005, 1, SMB2_FLAG_RESPONSE, 89, 89);
	smb2fix_read_answer(&in, 3, 333, 9);
	size_t close = smb2fix_add(&in, 0x0006, 5, SMB2_FLAG_RESPONSE, 60, 60);
	plan = answer(*state);
	assert_int_equal(plan.num_transfers, 1);
	expect_transfer(&plan, 0, 160 + 80, 0x40000, 44, 333);
	assert_int_equal(compound_split(out, plan.len, parts), 3);
	assert_int_equal(parts[1].at, 160);
	assert_int_equal(parts[2].at, 240);
	assert_memory_equal(out + 240, in.bytes + close, in.len - close);
	serve_plan_clear(&plan);
}

/* One READ fails, another one does not. */
static void answers_in_a_compound(void **state)
{
	struct compound_part parts[COMPOUND_MOST];
	smb2fix_read(&in, 1, 500, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2fix_read(&in, 2, 500, SMB2_CHANNEL_RDMA_V1, plain, 1);
	struct serve_plan plan = ask(*state);
	serve_plan_clear(&plan);
	in.len = 0;
	smb2fix_error(&in, SMB2_READ, 1, 0xC0000011, 0);
	smb2fix_read_answer(&in, 2, 500, 9);
	plan = answer(*state);
	assert_int_equal(plan.num_transfers, 1);
	assert_int_equal(compound_split(out, plan.len, parts), 2);
	assert_int_equal(parts[0].header.message_id, 1);
	assert_int_equal(parts[0].header.status, 0xC0000011);
	assert_int_equal(parts[1].header.message_id, 2);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);
}

static void the_room_that_is_just_enough(void **state)
{
	smb2fix_read(&in, 1, 95000, SMB2_CHANNEL_RDMA_V1, memory, 3);
	smb2fix_read(&in, 2, 0, SMB2_CHANNEL_RDMA_V1, plain, 1);
	struct serve_plan plan = ask(*state);
	assert_int_equal(plan.num_refused, 0);
	assert_int_equal(serve_pending(*state), 2);
	serve_plan_clear(&plan);

	/* a WRITE behind another request of its compound, with the last byte that there may be */
	in.len = 0;
	smb2fix_add(&in, 0x0005, 3, 0, 57, MESSAGE_MOST - MOST - 112 - 64 - 2000);
	smb2fix_write(&in, 4, MOST, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2fix_add(&in, 0x0006, 5, 0, 24, 2000 - 64 - 6);
	plan = ask(*state);
	assert_int_equal(plan.num_refused, 0);
	assert_true(plan.len <= MESSAGE_MOST && plan.len + 8 > MESSAGE_MOST);
	serve_plan_clear(&plan);
}

static void compounds_that_are_not_sound_pass(void **state)
{
	static const uint32_t nexts[] = { 1, 8, 63, 72, 65, 0xFFFFFFF8, 176, 184 };
	for (size_t i = 0; i < sizeof(nexts) / sizeof(nexts[0]); i++) {
		TRIES("next %u", nexts[i]);
		in.len = 0;
		smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
		smb2_put_next(in.bytes, nexts[i]);
		struct serve_plan plan = ask(*state);
		assert_true(plan.untouched);
		assert_int_equal(serve_pending(*state), 0);
		serve_plan_clear(&plan);
		plan = answer(*state);
		assert_true(plan.untouched);
		serve_plan_clear(&plan);
	}
	/* the second message ends behind the compound, by less than where it begins */
	in.len = 0;
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	size_t second = smb2fix_read(&in, 2, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	smb2_put_next(in.bytes + second, 96);
	struct serve_plan plan = ask(*state);
	assert_true(plan.untouched);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);
	in.bytes[0] = 0xFD; /* encrypted */
	plan = answer(*state);
	assert_true(plan.untouched);
	serve_plan_clear(&plan);
}

static void long_compounds_pass(void **state)
{
	for (uint64_t id = 0; id <= COMPOUND_MOST; id++)
		smb2fix_read(&in, id, 100, SMB2_CHANNEL_RDMA_V1, plain, 1);
	struct serve_plan plan = ask(*state);
	assert_true(plan.untouched);
	assert_int_equal(serve_pending(*state), 0);
	serve_plan_clear(&plan);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_write_gets_its_data),
		TEST(a_write_of_nothing),
		TEST(a_write_kills_its_token),
		TEST(a_read_loses_its_channel),
		TEST(a_read_into_several_pieces),
		TEST(a_read_that_fails_kills_its_token_too),
		TEST(what_is_no_answer),
		TEST(more_data_than_asked_for),
		TEST(what_has_no_channel_passes),
		TEST(wrong_channels_are_refused),
		TEST(a_wrong_channel_behind_a_good_one),
		TEST(what_is_refused_kills_its_token_too),
		TEST(a_refused_read_gets_no_data),
		TEST(a_message_id_twice_is_refused),
		TEST(pending_reads_are_bounded),
		TEST(a_compound_is_no_longer_than_a_message),
		TEST(a_compound_of_all_kinds),
		TEST(answers_in_a_compound),
		TEST(the_room_that_is_just_enough),
		TEST(compounds_that_are_not_sound_pass),
		TEST(long_compounds_pass),
	};
	return cmocka_run_group_tests_name("smbgate: serve", tests, NULL, NULL);
}
