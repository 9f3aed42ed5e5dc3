/* SPDX-License-Identifier: MIT */
#include "tests/lib/smbdfix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct smbd_config smbdfix_config = {
	.receive_credit_max = 10,
	.send_credit_target = 10,
	.max_send_size = 1024,
	.max_receive_size = 1024,
	.max_fragmented_size = 131072,
	.max_read_write_size = 0x00100000,
};

static void *copy_of(const void *bytes, size_t len)
{
	void *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

/* ---- operations */

static uint32_t op_post_receives(void *ctx, uint32_t n, uint32_t size)
{
	struct smbdfix *fix = ctx;
	assert_true(n > 0);
	assert_int_equal(fix->ended, 0);
	if (n > fix->post_room)
		n = fix->post_room;
	fix->post_room -= n;
	if (size == SMBD_NEGOTIATE_SIZE && !fix->smbd) {
		fix->posted_small += n;
		return n;
	}
	if (fix->posted_size)
		assert_int_equal(size, fix->posted_size);
	fix->posted_size = size;
	fix->posted += n;
	return n;
}

static int op_send(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		   size_t len, const uint32_t *token)
{
	struct smbdfix *fix = ctx;
	assert_int_equal(fix->ended, 0);
	if (fix->send_error)
		return fix->send_error;
	if (fix->send_room == 0)
		return -EAGAIN;
	fix->send_room--;
	assert_true(fix->num_sent < SMBDFIX_MOST);
	struct smbdfix_sent *sent = &fix->sent[fix->num_sent++];
	sent->len = head_len + len;
	sent->bytes = malloc(sent->len);
	assert_non_null(sent->bytes);
	memcpy(sent->bytes, head, head_len);
	if (len)
		memcpy(sent->bytes + head_len, payload, len);
	sent->has_token = token;
	sent->token = token ? *token : 0;
	return 0;
}

static bool op_reserve(void *ctx, size_t bytes)
{
	struct smbdfix *fix = ctx;
	if (fix->reserve_most && bytes > fix->reserve_most)
		return false;
	fix->reserved = bytes;
	return true;
}

static bool op_has_token(void *ctx, uint32_t token)
{
	const struct smbdfix *fix = ctx;
	return fix->own_token && token == fix->own_token;
}

static void op_established(void *ctx)
{
	struct smbdfix *fix = ctx;
	fix->established++;
	assert_int_equal(smbdfix_view(fix).role, SMBD_ESTABLISHED);
	if (fix->on_established)
		fix->on_established(fix);
}

static void op_message(void *ctx, const uint8_t *data, size_t len, const uint32_t *token)
{
	struct smbdfix *fix = ctx;
	assert_int_equal(fix->ended, 0);
	free(fix->message);
	fix->message = copy_of(data, len);
	fix->message_len = len;
	fix->message_has_token = token;
	fix->message_token = token ? *token : 0;
	fix->num_messages++;
	if (fix->on_message)
		fix->on_message(fix);
}

static void op_ended(void *ctx, enum smbd_end end, bool send_first)
{
	struct smbdfix *fix = ctx;
	fix->ended++;
	fix->end = end;
	fix->end_send_first = send_first;
}

static const struct smbd_ops ops = {
	.post_receives = op_post_receives,
	.send = op_send,
	.reserve = op_reserve,
	.has_token = op_has_token,
	.established = op_established,
	.message = op_message,
	.ended = op_ended,
};

/* ---- connections */

void smbdfix_new(struct smbdfix *fix, const struct smbd_config *config, enum smbd_role role)
{
	*fix = (struct smbdfix){ .now = 1000000, .post_room = UINT32_MAX, .send_room = SIZE_MAX };
	assert_int_equal(smbd_new(config, role, &ops, fix, fix->now, &fix->smbd), 0);
	assert_int_equal(fix->posted_small, 1);
}

int smbdfix_again(struct smbdfix *fix, enum smbd_role role, struct smbd **ret_smbd)
{
	return smbd_new(&smbdfix_config, role, &ops, fix, fix->now, ret_smbd);
}

void smbdfix_free(struct smbdfix *fix)
{
	if (smbdfix_view(fix).role == SMBD_GONE)
		assert_int_equal(fix->ended, 1);
	assert_int_equal(smbdfix_view(fix).end, fix->end);
	smbd_free(fix->smbd);
	for (size_t i = 0; i < fix->num_sent; i++)
		free(fix->sent[i].bytes);
	free(fix->message);
	fix->smbd = NULL;
}

void smbdfix_join(struct smbdfix *active, const struct smbd_config *active_config,
		  struct smbdfix *passive, const struct smbd_config *passive_config)
{
	smbdfix_new(active, active_config, SMBD_ACTIVE);
	smbdfix_new(passive, passive_config, SMBD_PASSIVE);
	smbd_connected(passive->smbd, passive->now);
	smbd_connected(active->smbd, active->now);
	smbdfix_pump(active, passive);
	assert_int_equal(active->established, 1);
	assert_int_equal(passive->established, 1);
}

void smbdfix_establish(struct smbdfix *fix, const struct smbd_config *config, enum smbd_role role,
		       uint16_t requested, uint16_t granted)
{
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	smbdfix_new(fix, config, role);
	smbd_connected(fix->smbd, fix->now);
	if (role == SMBD_ACTIVE) {
		const struct smbdirect_response response = {
			.version = 0x0100,
			.credits_requested = requested,
			.credits_granted = granted + 1, /* one more to grant what it has itself */
			.max_read_write_size = 0x00100000,
			.preferred_send_size = 1024,
			.max_receive_size = 1024,
			.max_fragmented_size = 131072,
		};
		smbdfix_next(fix);
		smbdirect_encode_response(&response, buf);
		smbdfix_get(fix, buf, SMBDIRECT_RESPONSE_LEN, NULL);
		assert_int_equal(smbdfix_next_data(fix).length, 0);
	} else {
		const struct smbdirect_request request = { 0x0100, 0x0100, requested,
							   1024,   1024,   131072 };
		const struct smbdirect_data grant = { .credits_requested = requested,
						      .credits_granted = granted };
		smbdirect_encode_request(&request, buf);
		smbdfix_get(fix, buf, SMBDIRECT_REQUEST_LEN, NULL);
		smbdfix_next(fix);
		if (granted)
			smbdfix_get_data(fix, &grant, 0);
	}
	assert_int_equal(fix->established, 1);
}

/* ---- messages */

void smbdfix_get(struct smbdfix *fix, const void *bytes, size_t len, const uint32_t *token)
{
	/* a block of its own, so that the address sanitizer sees a read behind it */
	uint8_t *copy = copy_of(bytes, len);
	if (fix->posted_small)
		fix->posted_small--;
	else if (fix->posted)
		fix->posted--;
	smbd_received(fix->smbd, copy, len, token, fix->now);
	free(copy);
	smbdfix_check(fix);
}

static void fill(uint8_t *bytes, size_t len, uint8_t first)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(first + i + i / 251);
}

void smbdfix_get_data(struct smbdfix *fix, const struct smbdirect_data *data, uint8_t first)
{
	uint8_t *bytes = malloc(SMBDIRECT_DATA_OFFSET + (size_t)data->length);
	assert_non_null(bytes);
	size_t head = smbdirect_encode_data(data, bytes);
	fill(bytes + head, data->length, first);
	smbdfix_get(fix, bytes, head + data->length, NULL);
	free(bytes);
}

const struct smbdfix_sent *smbdfix_next(struct smbdfix *fix)
{
	assert_true(fix->taken < fix->num_sent);
	return &fix->sent[fix->taken++];
}

struct smbdirect_data smbdfix_next_data(struct smbdfix *fix)
{
	const struct smbdfix_sent *sent = smbdfix_next(fix);
	struct smbdirect_data data;
	assert_int_equal(smbdirect_decode_data(sent->bytes, sent->len, &data), 0);
	assert_int_equal(data.length ? data.offset + data.length : SMBDIRECT_DATA_LEN, sent->len);
	return data;
}

bool smbdfix_is_silent(const struct smbdfix *fix)
{
	return fix->taken == fix->num_sent;
}

/* One message of `from`, if there is one, to `to`. */
static bool pump_one(struct smbdfix *from, struct smbdfix *to)
{
	if (smbdfix_is_silent(from) || to->ended)
		return false;
	const struct smbdfix_sent *sent = smbdfix_next(from);
	assert_true(to->posted + to->posted_small > 0); /* or the RNIC would refuse it */
	smbdfix_get(to, sent->bytes, sent->len, sent->has_token ? &sent->token : NULL);
	free(sent->bytes);
	from->sent[from->taken - 1].bytes = NULL;
	if (smbdfix_is_silent(from)) {
		from->num_sent = 0;
		from->taken = 0;
	}
	return true;
}

size_t smbdfix_pump(struct smbdfix *a, struct smbdfix *b)
{
	size_t n = 0;
	for (bool any = true; any;) {
		any = pump_one(a, b);
		any |= pump_one(b, a);
		n += any;
		assert_true(n < 100000);
	}
	return n;
}

int smbdfix_send(struct smbdfix *fix, size_t len, uint8_t first)
{
	uint8_t *bytes = malloc(len ? len : 1);
	assert_non_null(bytes);
	fill(bytes, len, first);
	int error = smbd_send(fix->smbd, bytes, len, NULL, fix->now);
	if (error)
		free(bytes);
	return error;
}

void smbdfix_expect_message(const struct smbdfix *fix, size_t len, uint8_t first)
{
	uint8_t *expected = malloc(len);
	assert_non_null(expected);
	fill(expected, len, first);
	assert_int_equal(fix->message_len, len);
	assert_memory_equal(fix->message, expected, len);
	free(expected);
}

struct smbd_view smbdfix_view(const struct smbdfix *fix)
{
	struct smbd_view view;
	smbd_get_view(fix->smbd, &view);
	return view;
}

void smbdfix_check(const struct smbdfix *fix)
{
	const struct smbd_view view = smbdfix_view(fix);
	if (view.role != SMBD_ESTABLISHED)
		return;
	assert_int_equal(view.receive_credits, fix->posted);
	assert_true(view.pending_grant <= view.receive_credits);
}
