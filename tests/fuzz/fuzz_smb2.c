/* SPDX-License-Identifier: MIT */
/*
 * The gateway's translators of SMB2 messages (daemon/smbgate/serve.h, offer.h) with any bytes as
 * messages. Transfers stay within messages, what is built has exactly the planned length, and every
 * byte of it is written but those that come by RDMA.
 *
 * The input is a list of messages: a byte that says whose it is, two bytes with its length, and it.
 */
#include <string.h>

#include "daemon/smbgate/offer.h"
#include "daemon/smbgate/serve.h"
#include "proto/smb2/smb2.h"
#include "tests/fuzz/fuzz.h"

#define READ_WRITE_MOST 65536
#define MESSAGE_MOST    200000

/* Transfers are in their order, do not overlap, and stay within `len` bytes. */
static void check_transfers(const struct serve_plan *plan, size_t len)
{
	size_t at = 0;
	must(plan->num_transfers <= plan->num_parts * SERVE_DESCRIPTORS);
	for (size_t i = 0; i < plan->num_transfers; i++) {
		const struct serve_transfer *transfer = &plan->transfers[i];
		must(transfer->at >= at && transfer->at <= len);
		must(transfer->remote.length > 0 && transfer->remote.length <= len - transfer->at);
		must(transfer->remote.offset <= UINT64_MAX - transfer->remote.length);
		at = transfer->at + transfer->remote.length;
	}
}

typedef void build_fn(const struct serve_plan *plan, const uint8_t *buf, uint8_t *out);

static uint8_t *build_over(build_fn *build, const struct serve_plan *plan, const uint8_t *buf,
			   int fill)
{
	uint8_t *out = malloc(plan->len); /* no byte more: the sanitizer sees */
	must(out);
	memset(out, fill, plan->len);
	build(plan, buf, out);
	return out;
}

/* Each byte is written, so two messages that were built over different bytes are the same, but for
 * the data of transfers. */
static uint8_t *check_build(build_fn *build, const struct serve_plan *plan, const uint8_t *buf,
			    bool with_transfers)
{
	uint8_t *a = build_over(build, plan, buf, 0x00), *b = build_over(build, plan, buf, 0xFF);
	for (size_t i = 0; i < plan->num_transfers && with_transfers; i++)
		memset(b + plan->transfers[i].at, 0, plan->transfers[i].remote.length);
	must(memcmp(a, b, plan->len) == 0);
	free(b);
	return a;
}

/* What was built is a compound of as many messages, with the same ids in the same order. */
static void check_compound(const uint8_t *buf, size_t len, const uint8_t *out, size_t out_len)
{
	struct compound_part in[COMPOUND_MOST], made[COMPOUND_MOST];
	const int num = compound_split(buf, len, in);
	must(num > 0 && compound_split(out, out_len, made) == num);
	for (int i = 0; i < num; i++) {
		must(in[i].at + in[i].len <= len && made[i].at + made[i].len <= out_len);
		must(made[i].header.message_id == in[i].header.message_id);
		must(made[i].header.command == in[i].header.command);
	}
}

static void client_message(struct serve *serve, const uint8_t *buf, size_t len)
{
	struct serve_plan plan;
	must(serve_request(serve, buf, len, &plan) == 0);
	must(serve_pending(serve) <= SERVE_PENDING_MOST);
	if (!plan.untouched) {
		must(plan.len <= (len > MESSAGE_MOST ? len : MESSAGE_MOST));
		check_transfers(&plan, plan.len);
		uint8_t *out = check_build(serve_build_request, &plan, buf, true);
		check_compound(buf, len, out, plan.len);
		free(out);
	}
	serve_plan_clear(&plan);
}

static void server_message(struct serve *serve, const uint8_t *buf, size_t len)
{
	struct serve_plan plan;
	const size_t pending = serve_pending(serve);
	if (serve_response(serve, buf, len, &plan) == 0 && !plan.untouched) {
		must(plan.len <= len && serve_pending(serve) < pending);
		check_transfers(&plan, len);
		uint8_t *out = check_build(serve_build_response, &plan, buf, false);
		check_compound(buf, len, out, plan.len);
		free(out);
	}
	serve_plan_clear(&plan);
}

static void program_message(struct offer *offer, const uint8_t *buf, size_t len)
{
	const struct smbdirect_descriptor descriptor = { 0x1000, 7, 100 };
	struct offer_plan plan;
	offer_request(offer, buf, len, &plan);
	if (plan.what == OFFER_NOTHING)
		return;
	must(plan.length > 0 && plan.length <= READ_WRITE_MOST);
	must(plan.what == OFFER_READ || plan.data_at + plan.length <= len);
	uint8_t *out = malloc(plan.len);
	uint32_t *memory = malloc(sizeof(*memory));
	must(out && memory);
	*memory = plan.length;
	must(offer_build_request(offer, &plan, buf, &descriptor, memory, out) == 0);
	struct smb2_header header;
	must(smb2_decode_header(out, plan.len, &header) == 0);
	must(header.message_id == plan.message_id && header.next == 0);
	free(out);
}

/* @return false: the connection ends */
static bool peer_message(struct offer *offer, const uint8_t *buf, size_t len)
{
	uint8_t head[OFFER_HEAD_LEN];
	struct offer_answer answer;
	if (offer_response(offer, buf, len, &answer) < 0)
		return false;
	if (!answer.memory)
		return true;
	must(answer.length <= *(uint32_t *)answer.memory);
	if (answer.length > 0)
		offer_build_head(&answer, buf, head);
	free(answer.memory);
	return true;
}

static void release(void *ctx, void *memory)
{
	(void)ctx;
	free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct serve_config serve_config = { READ_WRITE_MOST, MESSAGE_MOST };
	const struct offer_config offer_config = { 100, READ_WRITE_MOST };
	struct serve *serve;
	struct offer *offer;
	bool goes_on = true;
	must(serve_new(&serve_config, &serve) == 0 && offer_new(&offer_config, &offer) == 0);
	while (size >= 3 && goes_on) {
		const unsigned int who = data[0] & 3;
		size_t len = (size_t)(data[1] | data[2] << 8);
		len = len < size - 3 ? len : size - 3;
		uint8_t *message = malloc(len ? len : 1);
		must(message);
		memcpy(message, data + 3, len);
		data += 3 + len;
		size -= 3 + len;
		switch (who) {
		case 0: client_message(serve, message, len); break;
		case 1: server_message(serve, message, len); break;
		case 2: program_message(offer, message, len); break;
		default: goes_on = peer_message(offer, message, len); break;
		}
		free(message);
	}
	serve_free(serve);
	offer_free(offer, release, NULL);
	return 0;
}
