/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/smbdirect/descriptors.h"

/* A request whose response is due: a READ whose data go by RDMA, or any request whose client waits
 * until its token is invalidated. Only the client's own table has its message ids, so it can make
 * only its own look-ups slow. */
struct asked {
	uint64_t message_id;
	uint16_t command;
	uint32_t length; /* that a READ asks for */
	bool invalidate;
	uint32_t token; /* the first one */
	bool data;      /* the memory gets the data of the response: */
	size_t num;
	struct smbdirect_descriptor descriptors[SERVE_DESCRIPTORS];
	UT_hash_handle hh;
};

struct serve {
	struct serve_config config;
	struct asked *asked;
	size_t num_data; /* of these, those with `data` */
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

static void forget(struct serve *serve, struct asked *asked)
{
	HASH_DEL(serve->asked, asked);
	serve->num_data -= asked->data;
	free(asked);
}

void serve_free(struct serve *serve)
{
	if (!serve)
		return;
	while (serve->asked)
		forget(serve, serve->asked);
	free(serve);
}

size_t serve_pending(const struct serve *serve)
{
	return HASH_COUNT(serve->asked);
}

bool serve_expects_data(const struct serve *serve)
{
	return serve->num_data > 0;
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

/* What a request says of the client's memory. */
struct channel {
	uint32_t kind;
	size_t num; /* of descriptors; 0: none, too many, or not whole */
	struct smbdirect_descriptor descriptors[SERVE_DESCRIPTORS];
};

static struct channel read_channel(uint32_t kind, const uint8_t *info, size_t len)
{
	struct channel channel = { .kind = kind };
	channel.num = read_descriptors(info, len, channel.descriptors);
	return channel;
}

/* Remember a request. @return NULL: its message id is in use, there are too many, or no memory */
static struct asked *note(struct serve *serve, const struct smb2_header *header,
			  const struct channel *channel)
{
	struct asked *asked;
	HASH_FIND(hh, serve->asked, &header->message_id, sizeof(header->message_id), asked);
	if (asked || serve_pending(serve) >= SERVE_PENDING_MOST)
		return NULL;
	asked = calloc(1, sizeof(*asked));
	if (!asked)
		return NULL;
	asked->message_id = header->message_id;
	asked->command = header->command;
	asked->invalidate = channel->kind == SMB2_CHANNEL_RDMA_V1_INVALIDATE && channel->num > 0;
	asked->token = channel->descriptors[0].token;
	HASH_ADD(hh, serve->asked, message_id, sizeof(asked->message_id), asked);
	return asked;
}

/* Is the memory large enough, and none of its addresses wraps? */
static bool has_room(const struct serve *serve, const struct channel *channel, uint32_t length)
{
	struct smbdirect_descriptor pieces[SERVE_DESCRIPTORS];
	return channel->num > 0 &&
	       (length == 0 ||
		smbd_descriptors_locate(channel->descriptors, channel->num, 0, length,
					serve->config.max_read_write_size, pieces) > 0);
}

/* Remember a READ of so many bytes, which go by RDMA. */
static bool note_data(struct serve *serve, const struct smb2_header *header,
		      const struct channel *channel, uint32_t length)
{
	struct asked *asked = note(serve, header, channel);
	if (!asked)
		return false;
	asked->data = true;
	asked->length = length;
	asked->num = channel->num;
	memcpy(asked->descriptors, channel->descriptors,
	       channel->num * sizeof(channel->descriptors[0]));
	serve->num_data++;
	return true;
}

/* Whatever becomes of a request, the response to it invalidates the token of a client that relies
 * on that: such a client cannot use its memory region again before (MS-SMB2 3.3.5.12, 3.3.5.13).
 * @return false: the request cannot be remembered */
static bool note_token(struct serve *serve, const struct smb2_header *header,
		       const struct channel *channel)
{
	return channel->kind != SMB2_CHANNEL_RDMA_V1_INVALIDATE || channel->num == 0 ||
	       note(serve, header, channel);
}

static void plan_refusal(struct serve_plan *plan, const struct compound_part *from)
{
	plan_add(plan, REFUSE, from, from->len);
	plan->num_refused++;
}

static void plan_read(struct serve *serve, struct serve_plan *plan, const uint8_t *buf,
		      const struct compound_part *from)
{
	struct smb2_read_request request;
	buf += from->at;
	if (smb2_decode_read_request(buf, from->len, &request) < 0 ||
	    !has_channel(request.channel)) {
		plan_add(plan, PASS, from, from->len);
		return;
	}
	const struct channel channel =
		read_channel(request.channel, buf + request.info_offset, request.info_length);
	const bool sound = has_room(serve, &channel, request.length);
	if (sound && note_data(serve, &from->header, &channel, request.length)) {
		plan_add(plan, READ_PLAIN, from, from->len);
		return;
	}
	if (!sound)
		note_token(serve, &from->header, &channel);
	plan_refusal(plan, from);
}

/* Data in the message and by RDMA at once are against the rules (MS-SMB2 3.3.5.13). */
static bool is_sound_write(const struct serve *serve, const struct smb2_write_request *request,
			   const struct channel *channel)
{
	return request->length == 0 && has_room(serve, channel, request->remaining);
}

/* `behind`: bytes of the compound behind this request. */
static void plan_write(struct serve *serve, struct serve_plan *plan, const uint8_t *buf,
		       const struct compound_part *from, size_t behind)
{
	struct smb2_write_request request;
	buf += from->at;
	if (smb2_decode_write_request(buf, from->len, &request) < 0 ||
	    !has_channel(request.channel)) {
		plan_add(plan, PASS, from, from->len);
		return;
	}
	const struct channel channel =
		read_channel(request.channel, buf + request.info_offset, request.info_length);
	/* The structure size promises a byte, also of a request without data. */
	const size_t bytes = request.remaining ? request.remaining : 1;
	const size_t data_at = plan->len + SMB2_WRITE_REQUEST_LEN;
	/* A compound of many WRITEs may want more than any message has: the last ones do not get
	 * it. */
	if (!note_token(serve, &from->header, &channel) ||
	    !is_sound_write(serve, &request, &channel) ||
	    compound_aligned(data_at + bytes, false) + behind > serve->config.max_message ||
	    (request.remaining &&
	     plan_transfers(plan, data_at, channel.descriptors, channel.num, request.remaining,
			    serve->config.max_read_write_size) < 0)) {
		plan_refusal(plan, from);
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

/* The request that a message answers; NULL: none, or this is no answer yet. */
static struct asked *answered(struct serve *serve, const struct smb2_header *header)
{
	struct asked *asked;
	if (!(header->flags & SMB2_FLAG_RESPONSE))
		return NULL;
	if ((header->flags & SMB2_FLAG_ASYNC) && header->status == SMB2_STATUS_PENDING)
		return NULL;
	HASH_FIND(hh, serve->asked, &header->message_id, sizeof(header->message_id), asked);
	return asked && asked->command == header->command ? asked : NULL;
}

/* The response to a READ with a channel. An error has another structure size, and passes. */
static int plan_answer(const struct serve *serve, struct serve_plan *plan,
		       const struct asked *asked, const uint8_t *buf,
		       const struct compound_part *from)
{
	struct smb2_read_response response;
	if (!asked->data || smb2_decode_read_response(buf + from->at, from->len, &response) < 0 ||
	    response.length == 0) {
		plan_add(plan, PASS, from, from->len);
		return 0;
	}
	if (response.length > asked->length ||
	    plan_transfers(plan, from->at + response.data_offset, asked->descriptors, asked->num,
			   response.length, serve->config.max_read_write_size) < 0)
		return -EPROTO;
	struct serve_part *part = plan_add(plan, DATA_GONE, from, SMB2_READ_RESPONSE_LEN);
	part->bytes = response.length;
	return 0;
}

static int plan_response(struct serve *serve, struct serve_plan *plan, const uint8_t *buf,
			 const struct compound_part *from)
{
	struct asked *asked = answered(serve, &from->header);
	if (!asked) {
		plan_add(plan, PASS, from, from->len);
		return 0;
	}
	int error = plan_answer(serve, plan, asked, buf, from);
	/* A SEND has room for one token; clients invalidate the others themselves (SMBD-84). */
	if (asked->invalidate) {
		plan->invalidate = true;
		plan->token = asked->token;
	}
	forget(serve, asked);
	return error;
}

int serve_response(struct serve *serve, const uint8_t *buf, size_t len, struct serve_plan *ret_plan)
{
	struct compound_part parts[COMPOUND_MOST];
	int error = 0;
	*ret_plan = (struct serve_plan){ .untouched = true };
	if (!serve->asked || smb2_kind(buf, len) != SMB2_PLAIN)
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
