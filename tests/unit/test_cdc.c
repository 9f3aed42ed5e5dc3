/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/cdc.h"
#include "tests/lib/hex.h"
#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

/* Sequence 258, token A1B2C3D4, producer (2, 1500), consumer (1, 1000), P and U, D. */
#define GOLDEN                                                                                     \
	"FE 2C 0102 A1B2C3D4 0000 0002 000005DC 0000 0001 000003E8 60 80 "                         \
	"000000000000000000 000000000000000000"

static void golden_wire(uint8_t ret_bytes[SMCR_CDC_LEN])
{
	assert_int_equal(hex_bytes(GOLDEN, ret_bytes, SMCR_CDC_LEN), SMCR_CDC_LEN);
}

static int decode(const uint8_t *bytes, size_t len, struct smcr_cdc *ret_cdc)
{
	uint8_t *copy = exact_copy(bytes, len);
	int rc = smcr_cdc_decode(copy, len, ret_cdc);
	free(copy);
	return rc;
}

static struct smcr_cdc decoded(const uint8_t *bytes)
{
	struct smcr_cdc cdc = { 0 };
	assert_int_equal(decode(bytes, SMCR_CDC_LEN, &cdc), 0);
	return cdc;
}

static void golden_message(void **state)
{
	(void)state;
	uint8_t bytes[SMCR_CDC_LEN];
	golden_wire(bytes);
	struct smcr_cdc cdc = decoded(bytes);
	assert_int_equal(cdc.seq, 258);
	assert_int_equal(cdc.alert_token, 0xA1B2C3D4);
	assert_int_equal(cdc.producer.wrap, 2);
	assert_int_equal(cdc.producer.offset, 1500);
	assert_int_equal(cdc.consumer.wrap, 1);
	assert_int_equal(cdc.consumer.offset, 1000);
	assert_int_equal(cdc.prod_flags, SMCR_CDC_URGENT_PENDING | SMCR_CDC_URGENT_PRESENT);
	assert_int_equal(cdc.conn_flags, SMCR_CDC_SENDING_DONE);

	uint8_t buf[SMCR_CDC_LEN + 1];
	memset(buf, 0x55, sizeof(buf));
	assert_int_equal(smcr_cdc_encode(&cdc, buf, sizeof(buf)), SMCR_CDC_LEN);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(buf[SMCR_CDC_LEN], 0x55);
	PROVES("CDC-1");
}

static void flags_are_where_the_rfc_puts_them(void **state)
{
	(void)state;
	assert_int_equal(SMCR_CDC_WRITE_BLOCKED, 0x80);
	assert_int_equal(SMCR_CDC_URGENT_PENDING, 0x40);
	assert_int_equal(SMCR_CDC_URGENT_PRESENT, 0x20);
	assert_int_equal(SMCR_CDC_CONS_UPDATE_REQ, 0x10);
	assert_int_equal(SMCR_CDC_FAILOVER, 0x08);
	assert_int_equal(SMCR_CDC_SENDING_DONE, 0x80);
	assert_int_equal(SMCR_CDC_CLOSED, 0x40);
	assert_int_equal(SMCR_CDC_ABORT, 0x20);
	uint8_t bytes[SMCR_CDC_LEN];
	golden_wire(bytes);
	for (unsigned int flags = 0; flags < 256; flags++) {
		bytes[24] = (uint8_t)flags;
		bytes[25] = (uint8_t)~flags;
		struct smcr_cdc cdc = decoded(bytes);
		assert_int_equal(cdc.prod_flags, flags & 0xF8);
		assert_int_equal(cdc.conn_flags, ~flags & 0xE0);
	}
	PROVES("CDC-1");
}

static void reserved_fields_are_ignored_and_sent_zero(void **state)
{
	(void)state;
	static const struct {
		size_t from;
		size_t to;
		uint8_t mask;
	} reserved[] = {
		{ 8, 10, 0xFF },  { 16, 18, 0xFF }, { 24, 25, 0x07 },
		{ 25, 26, 0x1F }, { 26, 44, 0xFF },
	};
	uint8_t plain[SMCR_CDC_LEN];
	golden_wire(plain);
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		TRIES("row %zu", i);
		for (size_t at = reserved[i].from; at < reserved[i].to; at++) {
			uint8_t bytes[SMCR_CDC_LEN];
			memcpy(bytes, plain, sizeof(bytes));
			bytes[at] |= reserved[i].mask;
			struct smcr_cdc cdc = decoded(bytes);
			/* The encoder drops such bits if the structure has them. */
			cdc.prod_flags |= 0x07;
			cdc.conn_flags |= 0x1F;
			assert_int_equal(smcr_cdc_encode(&cdc, bytes, sizeof(bytes)), SMCR_CDC_LEN);
			assert_memory_equal(bytes, plain, sizeof(bytes));
		}
	}
	PROVES("CDC-1");
}

static void anything_else_is_refused(void **state)
{
	(void)state;
	uint8_t bytes[SMCR_CDC_LEN + 1] = { 0 };
	golden_wire(bytes);
	struct smcr_cdc cdc;
	struct smcr_cdc before;
	memset(&cdc, 0xA5, sizeof(cdc));
	memcpy(&before, &cdc, sizeof(cdc));
	for (size_t len = 0; len <= sizeof(bytes); len++)
		if (len != SMCR_CDC_LEN)
			assert_int_equal(decode(bytes, len, &cdc), -EBADMSG);
	for (unsigned int value = 0; value < 256; value++) {
		bytes[0] = (uint8_t)value;
		if (value != 0xFE)
			assert_int_equal(decode(bytes, SMCR_CDC_LEN, &cdc), -EBADMSG);
	}
	bytes[0] = 0xFE;
	for (unsigned int value = 0; value < 256; value++) {
		bytes[1] = (uint8_t)value;
		if (value != 44)
			assert_int_equal(decode(bytes, SMCR_CDC_LEN, &cdc), -EBADMSG);
	}
	assert_memory_equal(&cdc, &before, sizeof(cdc));
	for (size_t len = 0; len < SMCR_CDC_LEN; len++)
		assert_int_equal(smcr_cdc_encode(&cdc, bytes, len), -ENOBUFS);
}

static void failover_flag_is_seen_without_decoding(void **state)
{
	(void)state;
	uint8_t bytes[SMCR_CDC_LEN + 1] = { SMCR_CDC_TYPE, SMCR_CDC_LEN };
	assert_false(smcr_cdc_is_failover(bytes, SMCR_CDC_LEN));
	bytes[24] = (uint8_t)~SMCR_CDC_FAILOVER;
	assert_false(smcr_cdc_is_failover(bytes, SMCR_CDC_LEN));
	bytes[24] = SMCR_CDC_FAILOVER;
	assert_true(smcr_cdc_is_failover(bytes, SMCR_CDC_LEN));
	for (size_t len = 0; len <= sizeof(bytes); len++)
		if (len != SMCR_CDC_LEN)
			assert_false(smcr_cdc_is_failover(bytes, len));
	bytes[0] = 1; /* LLC */
	assert_false(smcr_cdc_is_failover(bytes, SMCR_CDC_LEN));
}

static void random_messages_round_trip(void **state)
{
	(void)state;
	struct random random = { 3 };
	for (int i = 0; i < 20000; i++) {
		uint8_t bytes[SMCR_CDC_LEN];
		random_bytes(&random, bytes, sizeof(bytes));
		bytes[0] = SMCR_CDC_TYPE;
		bytes[1] = SMCR_CDC_LEN;
		struct smcr_cdc cdc = decoded(bytes);
		assert_int_equal(smcr_cdc_encode(&cdc, bytes, sizeof(bytes)), SMCR_CDC_LEN);
		struct smcr_cdc again = decoded(bytes);
		assert_memory_equal(&again, &cdc, sizeof(cdc));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_message),
		cmocka_unit_test(flags_are_where_the_rfc_puts_them),
		cmocka_unit_test(reserved_fields_are_ignored_and_sent_zero),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(failover_flag_is_seen_without_decoding),
		cmocka_unit_test(random_messages_round_trip),
	};
	return cmocka_run_group_tests_name("cdc", tests, NULL, NULL);
}
