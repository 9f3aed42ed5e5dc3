/* SPDX-License-Identifier: MIT */
/*
 * proto/smbdirect and daemon/smbdirect. What a decoder takes comes back from the encoder as the
 * same message. A connection of either role gets any messages: it reads nothing behind them, keeps
 * to its bounds, and ends once.
 *
 * The input is a byte that chooses role and sizes, and steps: a byte that says what happens, and
 * for a message two bytes with its length and its bytes.
 */
#include <errno.h>
#include <string.h>

#include "daemon/smbdirect/transport.h"
#include "proto/smbdirect/smbdirect.h"
#include "tests/fuzz/fuzz.h"

#define OWN_TOKEN  0x1234
#define SENDS_MOST 100000

/* ---- the codec */

static void round_trips(const uint8_t *data, size_t size)
{
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	struct smbdirect_request request, request2;
	struct smbdirect_response response, response2;
	struct smbdirect_data head, head2;
	memset(&request, 0, sizeof(request));
	memset(&request2, 0, sizeof(request2));
	memset(&response, 0, sizeof(response));
	memset(&response2, 0, sizeof(response2));
	if (smbdirect_decode_request(data, size, &request) == 0) {
		smbdirect_encode_request(&request, buf);
		must(smbdirect_decode_request(buf, SMBDIRECT_REQUEST_LEN, &request2) == 0);
		must(request.credits_requested == request2.credits_requested);
		must(memcmp(buf, data, 4) == 0 && memcmp(buf + 6, data + 6, 14) == 0);
	}
	if (smbdirect_decode_response(data, size, &response) == 0) {
		smbdirect_encode_response(&response, buf);
		must(smbdirect_decode_response(buf, SMBDIRECT_RESPONSE_LEN, &response2) == 0);
		must(memcmp(buf, data, 6) == 0 && memcmp(buf + 8, data + 8, 24) == 0);
	}
	if (smbdirect_decode_data(data, size, &head) == 0) {
		must(head.length == 0 || (head.offset >= SMBDIRECT_DATA_OFFSET &&
					  head.offset + (uint64_t)head.length <= size));
		const size_t len = smbdirect_encode_data(&head, buf);
		must(len == (head.length ? SMBDIRECT_DATA_OFFSET : SMBDIRECT_DATA_LEN));
		if (head.length > 0)
			return; /* its payload is not in `buf` */
		must(smbdirect_decode_data(buf, len, &head2) == 0);
		must(head2.remaining == head.remaining &&
		     head2.response_requested == head.response_requested);
	}
}

/* ---- a connection */

struct owner {
	struct smbd *smbd;
	struct smbd_config config;
	uint32_t small, posted, size;
	bool full; /* there is no room for SENDs */
	unsigned int established, ended, sends;
};

static uint32_t op_post_receives(void *ctx, uint32_t n, uint32_t size)
{
	struct owner *owner = ctx;
	must(n > 0 && !owner->ended);
	if (!owner->smbd) {
		must(n == 1 && size == SMBD_NEGOTIATE_SIZE);
		owner->small = 1;
		return 1;
	}
	must(size >= SMBDIRECT_MIN_RECEIVE_SIZE && size <= owner->config.max_receive_size);
	must(owner->posted == 0 || owner->size == size);
	owner->size = size;
	owner->posted += n;
	must(owner->posted <= owner->config.receive_credit_max);
	return n;
}

static int op_send(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		   size_t len, const uint32_t *token)
{
	struct owner *owner = ctx;
	struct smbd_view view;
	(void)head;
	(void)payload;
	(void)token;
	smbd_get_view(owner->smbd, &view);
	must(!owner->ended && head_len + len <= view.max_send_size);
	must(++owner->sends < SENDS_MOST);
	if (!owner->established)
		return 0;
	must(view.send_credits > 0);
	return owner->full ? -EAGAIN : 0;
}

static bool op_has_token(void *ctx, uint32_t token)
{
	(void)ctx;
	return token == OWN_TOKEN;
}

static void op_established(void *ctx)
{
	struct owner *owner = ctx;
	must(!owner->ended && ++owner->established == 1);
}

static void op_message(void *ctx, const uint8_t *data, size_t len, const uint32_t *token)
{
	const struct owner *owner = ctx;
	uint8_t *copy = malloc(len); /* the sanitizer sees each byte read */
	must(copy && owner->established && !owner->ended);
	must(len > 0 && len <= owner->config.max_fragmented_size);
	must(!token || *token == OWN_TOKEN);
	memcpy(copy, data, len);
	free(copy);
}

static void op_ended(void *ctx, enum smbd_end end, bool send_first)
{
	struct owner *owner = ctx;
	(void)send_first;
	must(++owner->ended == 1 && end != SMBD_END_NONE);
}

static const struct smbd_ops ops = {
	.post_receives = op_post_receives,
	.send = op_send,
	.has_token = op_has_token,
	.established = op_established,
	.message = op_message,
	.ended = op_ended,
};

static void get(struct owner *owner, const uint8_t *data, size_t len, unsigned int how,
		uint64_t now)
{
	const uint32_t token = how & 0x80 ? OWN_TOKEN : OWN_TOKEN + 1;
	const size_t room = owner->small ? SMBD_NEGOTIATE_SIZE : owner->posted ? owner->size : 0;
	if (len > room) { /* the queue pair fails */
		smbd_lost(owner->smbd, now);
		return;
	}
	if (owner->small)
		owner->small = 0;
	else
		owner->posted--;
	uint8_t *copy = malloc(len ? len : 1);
	must(copy);
	memcpy(copy, data, len);
	smbd_received(owner->smbd, copy, len, how & 0x40 ? &token : NULL, now);
	free(copy);
}

static void send_message(struct owner *owner, unsigned int how, uint64_t now)
{
	const size_t len = 1 + (size_t)(how >> 3) * 97;
	const uint32_t token = 5;
	uint8_t *data = calloc(1, len);
	must(data);
	if (smbd_send(owner->smbd, data, len, how & 0x80 ? &token : NULL, now) < 0)
		free(data);
}

static void check(const struct owner *owner)
{
	struct smbd_view view;
	smbd_get_view(owner->smbd, &view);
	must((view.role == SMBD_GONE) == (owner->ended == 1));
	if (view.role != SMBD_ESTABLISHED)
		return;
	must(view.receive_credits == owner->posted && view.pending_grant <= view.receive_credits);
	must(view.send_credits <= SMBD_MAX_CREDITS);
}

static void play(struct owner *owner, const uint8_t *data, size_t size)
{
	uint64_t now = 1;
	while (size > 0 && !owner->ended) {
		const unsigned int how = *data;
		size_t len = 0;
		data++;
		size--;
		switch (how & 7) {
		case 0: smbd_hold(owner->smbd, how & 8, now); break;
		case 1: send_message(owner, how, now); break;
		case 2: owner->full = how & 8; break;
		case 3:
			owner->full = false;
			smbd_sent(owner->smbd, now);
			break;
		case 4: now = smbd_timer(owner->smbd, now + (UINT64_C(1) << (how >> 3))); break;
		case 5: smbd_connected(owner->smbd, now); break;
		default:
			if (size < 2)
				return;
			len = (size_t)(data[0] | data[1] << 8);
			data += 2;
			size -= 2;
			len = len < size ? len : size;
			get(owner, data, len, how, now);
		}
		now = now == UINT64_MAX ? 1 : now;
		data += len;
		size -= len;
		check(owner);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct owner owner = { 0 };
	round_trips(data, size);
	if (size == 0)
		return 0;
	owner.config = (struct smbd_config){
		.receive_credit_max = *data & 0x40 ? 255 : 3 + (*data >> 1) % 16,
		.send_credit_target = *data & 0x40 ? 255 : 3 + (*data >> 2) % 8,
		.max_send_size = 128 + *data,
		.max_fragmented_size = 131072,
		.max_receive_size = 8192,
	};
	struct smbd *smbd;
	must(smbd_new(&owner.config, *data & 1 ? SMBD_ACTIVE : SMBD_PASSIVE, &ops, &owner, 1,
		      &smbd) == 0);
	owner.smbd = smbd;
	if (!(*data & 0x80))
		smbd_connected(smbd, 1);
	play(&owner, data + 1, size - 1);
	smbd_close(smbd);
	must(owner.ended == 1);
	smbd_free(smbd);
	return 0;
}
