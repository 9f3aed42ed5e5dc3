/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/smbdirect/descriptors.h"

/* A READ whose response is due. Only the client's own table has its message ids, so it can make
 * only its own look-ups slow. */
struct read {
	uint64_t message_id;
	uint32_t length;
	bool invalidate;
	size_t num;
	struct smbdirect_descriptor descriptors[SERVE_DESCRIPTORS];
	UT_hash_handle hh;
};

struct serve {
	struct serve_config config;
	struct read *reads;
};

enum change {
	PASS,
	REFUSE,     /* spoil the request */
	READ_PLAIN, /* a READ without its channel */
	WRITE_DATA, /* a WRITE with its data */
	DATA_GONE,  /* the response to a READ without its data */
};

struct serve_part {
	enum change change;
	size_t at, len;         /* of the message that has come */
	size_t out_at, out_len; /* of the one that is built, without padding */
	size_t room;            /* the same with padding */
	uint32_t bytes;         /* of data */
	bool last;              /* of its compound */
};

int serve_new(const struct serve_config *config, struct serve **ret_serve)
{
	struct serve *serve = calloc(1, sizeof(*serve));
	if (!serve)
		return -ENOMEM;
	serve->config = *config;
	*ret_serve = serve;
	return 0;
}

static void forget(struct serve *serve, struct read *read)
{
	HASH_DEL(serve->reads, read);
	free(read);
}

void serve_free(struct serve *serve)
{
	if (!serve)
		return;
	while (serve->reads)
		forget(serve, serve->reads);
	free(serve);
}

size_t serve_pending(const struct serve *serve)
{
	return HASH_COUNT(serve->reads);
}

void serve_plan_clear(struct serve_plan *plan)
{
	free(plan->transfers);
	free(plan->parts);
	*plan = (struct serve_plan){ .untouched = true };
}

/* ---- plans */

static int plan_begin(struct serve_plan *plan, size_t num_parts)
{
	*plan = (struct serve_plan){ .untouched = true };
	plan->parts = calloc(num_parts, sizeof(*plan->parts));
	plan->transfers = calloc(num_parts * SERVE_DESCRIPTORS, sizeof(*plan->transfers));
	if (plan->parts && plan->transfers)
		return 0;
	serve_plan_clear(plan);
	return -ENOMEM;
}

/* The next part of the message that is built. */
static struct serve_part *plan_add(struct serve_plan *plan, enum change change,
				   const struct compound_part *from, size_t out_len)
{
	struct serve_part *part = &plan->parts[plan->num_parts++];
	*part = (struct serve_part){ .change = change,
				     .at = from->at,
				     .len = from->len,
				     .out_at = plan->len,
				     .out_len = out_len,
				     .last = from->header.next == 0 };
	part->room = compound_aligned(out_len, part->last);
	plan->len += part->room;
	plan->untouched &= change == PASS;
	return part;
}

/* Transfers of the first `length` bytes of the memory that the descriptors name. */
static int plan_transfers(struct serve_plan *plan, size_t at,
			  const struct smbdirect_descriptor *descriptors, size_t num,
			  uint32_t length, uint32_t most)
{
	struct smbdirect_descriptor pieces[SERVE_DESCRIPTORS];
	int n = smbd_descriptors_locate(descriptors, num, 0, length, most, pieces);
	for (int i = 0; i < n; i++) {
		plan->transfers[plan->num_transfers++] =
			(struct serve_transfer){ .at = at, .remote = pieces[i] };
		at += pieces[i].length;
	}
	return n;
}

/* ---- requests */

static bool has_channel(uint32_t channel)
{
	return channel == SMB2_CHANNEL_RDMA_V1 || channel == SMB2_CHANNEL_RDMA_V1_INVALIDATE;
}

/* @return how many there are; 0: none, too many, or not whole */
static size_t read_descriptors(const uint8_t *info, size_t len,
			       struct smbdirect_descriptor descriptors[SERVE_DESCRIPTORS])
{
	const size_t num = len / SMBDIRECT_DESCRIPTOR_LEN;
	if (len % SMBDIRECT_DESCRIPTOR_LEN != 0 || num > SERVE_DESCRIPTORS)
		return 0;
	for (size_t i = 0; i < num; i++)
		smbdirect_decode_descriptor(info + i * SMBDIRECT_DESCRIPTOR_LEN, &descriptors[i]);
	return num;
}

/* Is the memory large enough, and none of its addresses wraps? */
static bool has_room(const struct smbdirect_descriptor *descriptors, size_t num, uint32_t length,
		     uint32_t most)
{
	struct smbdirect_descriptor pieces[SERVE_DESCRIPTORS];
	return num > 0 && (length == 0 ||
			   smbd_descriptors_locate(descriptors, num, 0, length, most, pieces) > 0);
}

/* Remember a READ. @return false: its channel cannot be served */
static bool note_read(struct serve *serve, const uint8_t *buf, const struct smb2_header *header,
		      const struct smb2_read_request *request)
{
	struct read *known;
	HASH_FIND(hh, serve->reads, &header->message_id, sizeof(header->message_id), known);
	if (known || serve_pending(serve) >= SERVE_PENDING_MOST)
		return false;
	struct read *read = calloc(1, sizeof(*read));
	if (!read)
		return false;
	read->message_id = header->message_id;
	read->length = request->length;
	read->invalidate = request->channel == SMB2_CHANNEL_RDMA_V1_INVALIDATE;
	read->num = read_descriptors(buf + request->info_offset, request->info_length,
				     read->descriptors);
	if (!has_room(read->descriptors, read->num, request->length,
		      serve->config.max_read_write_size)) {
		free(read);
		return false;
	}
	HASH_ADD(hh, serve->reads, message_id, sizeof(read->message_id), read);
	return true;
}

static void plan_read(struct serve *serve, struct serve_plan *plan, const uint8_t *buf,
		      const struct compound_part *from)
{
	struct smb2_read_request request;
	if (smb2_decode_read_request(buf + from->at, from->len, &request) < 0 ||
	    !has_channel(request.channel)) {
		plan_add(plan, PASS, from, from->len);
		return;
	}
	if (note_read(serve, buf + from->at, &from->header, &request)) {
		plan_add(plan, READ_PLAIN, from, from->len);
		return;
	}
	plan_add(plan, REFUSE, from, from->len);
	plan->num_refused++;
}

/* The memory of a WRITE. @return how many descriptors; 0: the channel cannot be served */
static size_t write_memory(const struct serve *serve, const uint8_t *buf,
			   const struct smb2_write_request *request,
			   struct smbdirect_descriptor descriptors[SERVE_DESCRIPTORS])
{
	/* Data in the message and by RDMA at once are against the rules (MS-SMB2 3.3.5.13). */
	if (request->length != 0 || request->remaining > serve->config.max_read_write_size)
		return 0;
	size_t num =
		read_descriptors(buf + request->info_offset, request->info_length, descriptors);
	return smbd_descriptors_length(descriptors, num) < request->remaining ? 0 : num;
}

/* `behind`: bytes of the compound behind this request. */
static void plan_write(const struct serve *serve, struct serve_plan *plan, const uint8_t *buf,
		       const struct compound_part *from, size_t behind)
{
	struct smb2_write_request request;
	struct smbdirect_descriptor descriptors[SERVE_DESCRIPTORS];
	if (smb2_decode_write_request(buf + from->at, from->len, &request) < 0 ||
	    !has_channel(request.channel)) {
		plan_add(plan, PASS, from, from->len);
		return;
	}
	size_t num = write_memory(serve, buf + from->at, &request, descriptors);
	/* The structure size promises a byte, also of a request without data. */
	size_t bytes = request.remaining ? request.remaining : 1;
	size_t data_at = plan->len + SMB2_WRITE_REQUEST_LEN;
	/* A compound of many WRITEs may want more than any message has: the last ones do not get
	 * it.
	 */
	if (num == 0 ||
	    compound_aligned(data_at + bytes, false) + behind > serve->config.max_message ||
	    (request.remaining && plan_transfers(plan, data_at, descriptors, num, request.remaining,
						 serve->config.max_read_write_size) < 0)) {
		plan_add(plan, REFUSE, from, from->len);
		plan->num_refused++;
		return;
	}
	struct serve_part *part = plan_add(plan, WRITE_DATA, from, SMB2_WRITE_REQUEST_LEN + bytes);
	part->bytes = request.remaining;
}

int serve_request(struct serve *serve, const uint8_t *buf, size_t len, struct serve_plan *ret_plan)
{
	struct compound_part parts[COMPOUND_MOST];
	*ret_plan = (struct serve_plan){ .untouched = true };
	if (smb2_kind(buf, len) != SMB2_PLAIN)
		return 0;
	int num = compound_split(buf, len, parts);
	if (num < 0)
		return 0;
	if (plan_begin(ret_plan, (size_t)num) < 0)
		return -ENOMEM;
	for (int i = 0; i < num; i++) {
		const bool is_signed = parts[i].header.flags & SMB2_FLAG_SIGNED;
		if (!is_signed && parts[i].header.command == SMB2_READ)
			plan_read(serve, ret_plan, buf, &parts[i]);
		else if (!is_signed && parts[i].header.command == SMB2_WRITE)
			plan_write(serve, ret_plan, buf, &parts[i],
				   len - parts[i].at - parts[i].len);
		else
			plan_add(ret_plan, PASS, &parts[i], parts[i].len);
	}
	return 0;
}

/* ---- building */

/* Copy the first `len` bytes of a part to its place, and make the padding behind it. */
static uint8_t *copy_part(const struct serve_part *part, const uint8_t *buf, uint8_t *out,
			  size_t len)
{
	uint8_t *to = out + part->out_at;
	memcpy(to, buf + part->at, len);
	memset(to + part->out_len, 0, part->room - part->out_len);
	smb2_put_next(to, part->last ? 0 : (uint32_t)part->room);
	return to;
}

/* A READ without its channel. The descriptors stay where they are, and mean nothing any more. */
static void build_read(const struct serve_part *part, const uint8_t *buf, uint8_t *out)
{
	struct smb2_read_request request;
	uint8_t *to = copy_part(part, buf, out, part->len);
	if (smb2_decode_read_request(to, part->len, &request) < 0)
		return; /* cannot be: it was looked at */
	request.channel = SMB2_CHANNEL_NONE;
	request.info_offset = 0;
	request.info_length = 0;
	smb2_put_read_request(to, &request);
}

/* A WRITE with room for its data. */
static void build_write(const struct serve_part *part, const uint8_t *buf, uint8_t *out)
{
	const struct smb2_write_request request = {
		.data_offset = SMB2_WRITE_REQUEST_LEN,
		.length = part->bytes,
		.channel = SMB2_CHANNEL_NONE,
	};
	uint8_t *to = copy_part(part, buf, out, SMB2_WRITE_REQUEST_LEN);
	smb2_put_write_request(to, &request);
	if (part->bytes == 0)
		to[SMB2_WRITE_REQUEST_LEN] = 0;
}

static void build_response(const struct serve_part *part, const uint8_t *buf, uint8_t *out)
{
	const struct smb2_read_response response = {
		.data_offset = SMB2_READ_RESPONSE_LEN,
		.length = 0,
		.remaining = part->bytes,
	};
	smb2_put_read_response(copy_part(part, buf, out, SMB2_READ_RESPONSE_LEN), &response);
}

static void build(const struct serve_plan *plan, const uint8_t *buf, uint8_t *out)
{
	for (size_t i = 0; i < plan->num_parts; i++) {
		const struct serve_part *part = &plan->parts[i];
		switch (part->change) {
		case PASS: copy_part(part, buf, out, part->len); break;
		case REFUSE: smb2_spoil_request(copy_part(part, buf, out, part->len)); break;
		case READ_PLAIN: build_read(part, buf, out); break;
		case WRITE_DATA: build_write(part, buf, out); break;
		case DATA_GONE: build_response(part, buf, out); break;
		}
	}
}

void serve_build_request(const struct serve_plan *plan, const uint8_t *buf, uint8_t *out)
{
	build(plan, buf, out);
}

void serve_build_response(const struct serve_plan *plan, const uint8_t *buf, uint8_t *out)
{
	build(plan, buf, out);
}

/* ---- responses */

/* The READ that a message answers; NULL: none, or this is no answer yet. */
static struct read *answered(struct serve *serve, const struct smb2_header *header)
{
	struct read *read;
	if (!(header->flags & SMB2_FLAG_RESPONSE) || header->command != SMB2_READ)
		return NULL;
	if ((header->flags & SMB2_FLAG_ASYNC) && header->status == SMB2_STATUS_PENDING)
		return NULL;
	HASH_FIND(hh, serve->reads, &header->message_id, sizeof(header->message_id), read);
	return read;
}

/* The response to a READ with a channel. An error has another structure size, and passes. */
static int plan_answer(const struct serve *serve, struct serve_plan *plan, const struct read *read,
		       const uint8_t *buf, const struct compound_part *from)
{
	struct smb2_read_response response;
	if (smb2_decode_read_response(buf + from->at, from->len, &response) < 0 ||
	    response.length == 0) {
		plan_add(plan, PASS, from, from->len);
		return 0;
	}
	if (response.length > read->length ||
	    plan_transfers(plan, from->at + response.data_offset, read->descriptors, read->num,
			   response.length, serve->config.max_read_write_size) < 0)
		return -EPROTO;
	struct serve_part *part = plan_add(plan, DATA_GONE, from, SMB2_READ_RESPONSE_LEN);
	part->bytes = response.length;
	return 0;
}

static int plan_response(struct serve *serve, struct serve_plan *plan, const uint8_t *buf,
			 const struct compound_part *from)
{
	struct read *read = answered(serve, &from->header);
	if (!read) {
		plan_add(plan, PASS, from, from->len);
		return 0;
	}
	int error = plan_answer(serve, plan, read, buf, from);
	/* Also when the READ has failed, the client waits for its token to die. A SEND has room for
	 * one token; clients invalidate the others themselves (SMBD-84). */
	if (read->invalidate) {
		plan->invalidate = true;
		plan->token = read->descriptors[0].token;
	}
	forget(serve, read);
	return error;
}

int serve_response(struct serve *serve, const uint8_t *buf, size_t len, struct serve_plan *ret_plan)
{
	struct compound_part parts[COMPOUND_MOST];
	int error = 0;
	*ret_plan = (struct serve_plan){ .untouched = true };
	if (smb2_kind(buf, len) != SMB2_PLAIN)
		return 0;
	int num = compound_split(buf, len, parts);
	if (num < 0)
		return 0;
	if (plan_begin(ret_plan, (size_t)num) < 0)
		return -ENOMEM;
	for (int i = 0; i < num && !error; i++)
		error = plan_response(serve, ret_plan, buf, &parts[i]);
	if (error)
		serve_plan_clear(ret_plan);
	return error;
}
