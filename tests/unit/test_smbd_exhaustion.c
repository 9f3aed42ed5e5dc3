/* SPDX-License-Identifier: MIT */
/* SMB Direct and the gateway's translators without memory. The Makefile links this test so that
 * calloc() and realloc() are those below. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smbgate/offer.h"
#include "daemon/smbgate/serve.h"
#include "tests/lib/proves.h"
#include "tests/lib/smb2fix.h"
#include "tests/lib/smbdfix.h"
#include "tests/lib/tries.h"

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static unsigned int failing; /* counts down to the allocation that fails; 0: none does */

static bool fails(void)
{
	return failing > 0 && --failing == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

/* ---- connections */

static void no_connection(void **state)
{
	(void)state;
	struct smbdfix fix;
	struct smbd *smbd = NULL;
	smbdfix_new(&fix, &smbdfix_config, SMBD_ACTIVE);
	failing = 1;
	assert_int_equal(smbdfix_again(&fix, SMBD_ACTIVE, &smbd), -ENOMEM);
	assert_null(smbd);
	smbdfix_free(&fix);
}

static void no_room_in_the_queue(void **state)
{
	(void)state;
	struct smbdfix fix;
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	failing = 1;
	assert_int_equal(smbdfix_send(&fix, 10, 0), -ENOMEM);
	assert_int_equal(smbdfix_view(&fix).queued_bytes, 0);
	assert_int_equal(smbdfix_send(&fix, 10, 0), 0); /* it goes on */
	assert_int_equal(smbdfix_next_data(&fix).length, 10);
	smbdfix_free(&fix);
}

/* An answer that the peer waits for cannot be left out. */
static void no_answer(void **state)
{
	(void)state;
	struct smbdfix fix;
	const struct smbdirect_data ask = { .credits_requested = 10, .response_requested = true };
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	failing = 1;
	smbdfix_get_data(&fix, &ask, 0);
	assert_int_equal(fix.end, SMBD_END_RESOURCES);
	assert_true(smbdfix_is_silent(&fix));
	smbdfix_free(&fix);
}

static void no_room_for_a_message(void **state)
{
	(void)state;
	struct smbdfix fix;
	const struct smbdirect_data first = { .credits_requested = 10,
					      .remaining = 100,
					      .length = 10 };
	smbdfix_establish(&fix, &smbdfix_config, SMBD_PASSIVE, 10, 10);
	failing = 1;
	smbdfix_get_data(&fix, &first, 0);
	assert_int_equal(fix.end, SMBD_END_RESOURCES);
	assert_int_equal(fix.num_messages, 0);
	smbdfix_free(&fix);
	PROVES("SMBD-142");
}

/* ---- translators */

static const struct smbdirect_descriptor memory[] = { { 0x1000, 1, 5000 } };
static const struct serve_config serve_config = { 65536, 200000 };
static struct smb2fix in;

static void no_plan(void **state)
{
	(void)state;
	struct serve *serve = NULL;
	struct serve_plan plan;
	failing = 1;
	assert_int_equal(serve_new(&serve_config, &serve), -ENOMEM);
	assert_null(serve);
	assert_int_equal(serve_new(&serve_config, &serve), 0);
	for (unsigned int i = 1; i <= 2; i++) {
		TRIES("allocation %u", i);
		in.len = 0;
		smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, memory, 1);
		failing = i;
		assert_int_equal(serve_request(serve, in.bytes, in.len, &plan), -ENOMEM);
		assert_int_equal(serve_pending(serve), 0);
	}
	assert_int_equal(serve_request(serve, in.bytes, in.len, &plan), 0);
	serve_plan_clear(&plan);
	for (unsigned int i = 1; i <= 2; i++) {
		TRIES("allocation %u of a response", i);
		in.len = 0;
		smb2fix_read_answer(&in, 1, 100, 1);
		failing = i;
		assert_int_equal(serve_response(serve, in.bytes, in.len, &plan), -ENOMEM);
		serve_plan_clear(&plan);
	}
	serve_free(serve);
}

/* A READ that cannot be remembered is refused: its answer would pass without its channel. */
static void a_read_that_is_forgotten(void **state)
{
	(void)state;
	struct serve *serve = NULL;
	struct serve_plan plan;
	assert_int_equal(serve_new(&serve_config, &serve), 0);
	in.len = 0;
	smb2fix_read(&in, 1, 100, SMB2_CHANNEL_RDMA_V1, memory, 1);
	failing = 3;
	assert_int_equal(serve_request(serve, in.bytes, in.len, &plan), 0);
	assert_int_equal(failing, 0);
	assert_int_equal(plan.num_refused, 1);
	assert_int_equal(serve_pending(serve), 0);
	serve_plan_clear(&plan);
	serve_free(serve);
}

static void release(void *ctx, void *arg)
{
	(void)ctx;
	(void)arg;
	fail();
}

static void no_offer(void **state)
{
	(void)state;
	const struct offer_config config = { 4096, 65536 };
	struct offer *offer = NULL;
	struct offer_plan plan;
	uint8_t out[256];
	failing = 1;
	assert_int_equal(offer_new(&config, &offer), -ENOMEM);
	assert_null(offer);
	assert_int_equal(offer_new(&config, &offer), 0);
	in.len = 0;
	smb2fix_read(&in, 1, 9000, SMB2_CHANNEL_NONE, NULL, 0);
	offer_request(offer, in.bytes, in.len, &plan);
	failing = 1;
	assert_int_equal(offer_build_request(offer, &plan, in.bytes, memory, &in, out), -ENOMEM);
	assert_int_equal(offer_pending(offer), 0);
	offer_free(offer, release, NULL); /* the memory is still the caller's */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_connection), cmocka_unit_test(no_room_in_the_queue),
		cmocka_unit_test(no_answer),     cmocka_unit_test(no_room_for_a_message),
		cmocka_unit_test(no_plan),       cmocka_unit_test(a_read_that_is_forgotten),
		cmocka_unit_test(no_offer),
	};
	return cmocka_run_group_tests_name("smbd: exhaustion", tests, NULL, NULL);
}
