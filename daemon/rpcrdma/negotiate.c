/* SPDX-License-Identifier: MIT */
/* The first messages: which version is spoken, and the properties of both sides. */
#include <errno.h>

#include "daemon/rpcrdma/internal.h"

#define PROPERTIES_ROOM 1024
/* More than this of properties is no use, and a peer need not end (RR2-79). */
#define MOST_PROPERTY_BYTES 65536
/* Of our CONNPROP; a Call may not have it while its answer is out. */
#define CONNPROP_XID 0x736D6372u

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Before the server has told its size, a client keeps within the length of a first message by what
 * it sends (RR2-31); a server may send what is the default (RR2-33). */
uint32_t rpcr_threshold(const struct rpcr *rpcr)
{
	if (rpcr->version == RPCRDMA_V1)
		return rpcr->config.v1_send_size;
	return least(rpcr->config.send_size, rpcr->peer.receive_size);
}

/* One message has all of them: its length is within that of a first message, and above that of the
 * shortest message of version 1, which a server of that version would not even look at (RR2-31,
 * RR2-32). Its RESPONSE flag says nothing (RR2-23). */
void rpcr_send_properties(struct rpcr *rpcr)
{
	uint8_t body[PROPERTIES_ROOM];
	const struct rpcrdma_properties ours = {
		.send_size = rpcr->config.send_size,
		.receive_size = rpcr->config.receive_size,
		.segment_size = rpcr->config.segment_size,
		.segment_count = rpcr->config.segment_count,
		.reverse = rpcr->side == RPCR_CLIENT ? rpcr->config.reverse
						     : RPCRDMA_REVERSE_NONE, /* [X10] */
	};
	const struct rpcr_out out = {
		.xid = CONNPROP_XID,
		.version = RPCRDMA_V2,
		.type = RPCRDMA_CONNPROP,
		.body = body,
		.body_len = rpcrdma_encode_properties(&ours, body, sizeof(body)),
	};
	rpcr->connprop_xid = CONNPROP_XID;
	if (rpcr_queue(rpcr, &out) < 0)
		rpcr_end_with(rpcr, RPCR_END_RESOURCES);
}

/* ---- versions */

/* Is it ERR_VERS, or another error of a server that speaks only version 1? (RR2-39) */
static bool is_version_error(const struct rpcrdma_prefix *prefix, const uint8_t *data, size_t len,
			     struct rpcrdma_error *ret_error)
{
	if (rpcrdma_decode_foreign_error(data, len, ret_error))
		return true;
	if (prefix->version != RPCRDMA_V2 || prefix->type != RPCRDMA_ERROR)
		return false;
	return rpcrdma_decode_error(data + RPCRDMA_V2_PREFIX_LEN, len - RPCRDMA_V2_PREFIX_LEN,
				    RPCRDMA_V2, ret_error) == 0 &&
	       ret_error->code == RPCRDMA_ERR_VERS;
}

/* What a client does with what comes before the server has told its properties. Only here it may go
 * on in another version (RR2-35, RR2-37, RR2-38, RR2-199). */
static bool client_chooses(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
			   const uint8_t *data, size_t len)
{
	struct rpcrdma_error error;
	if (is_version_error(prefix, data, len, &error)) {
		const bool has_1 = error.code == RPCRDMA_ERR_VERS && error.first <= RPCRDMA_V1 &&
				   error.second >= RPCRDMA_V1;
		if (has_1 && rpcr->config.version_1)
			rpcr_speak_version_1(rpcr);
		else
			rpcr_end_with(rpcr, RPCR_END_VERSION);
		return false;
	}
	if (prefix->version != RPCRDMA_V2) {
		rpcr->count.dropped++; /* not a valid message of the server (RR2-30) */
		return false;
	}
	if (prefix->type != RPCRDMA_ERROR)
		rpcr->deadline = 0;
	return true;
}

/* The range is what is left to choose: nothing, once a version is spoken (RR2-36, RR2-201). */
static void refuse_version(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix)
{
	struct rpcrdma_error error = { RPCRDMA_ERR_VERS, RPCRDMA_V2, RPCRDMA_V2 };
	if (rpcr->version == RPCRDMA_V1)
		error.first = error.second = RPCRDMA_V1;
	else if (rpcr->version == 0 && rpcr->config.version_1)
		error.first = RPCRDMA_V1;
	rpcr->count.dropped++;
	if (rpcr->side == RPCR_SERVER)
		rpcr_send_error(rpcr, prefix, &error);
}

bool rpcr_choose_version(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
			 const uint8_t *data, size_t len)
{
	if (rpcr->side == RPCR_CLIENT && rpcr->deadline)
		return client_chooses(rpcr, prefix, data, len);
	if (rpcr->version == 0 && prefix->version == RPCRDMA_V1 && rpcr->config.version_1) {
		rpcr_speak_version_1(rpcr); /* RR2-34 */
		return rpcr->state != RPCR_GONE;
	}
	if (prefix->version != (rpcr->version ? rpcr->version : RPCRDMA_V2)) {
		refuse_version(rpcr, prefix);
		return false;
	}
	if (rpcr->version == 0) {
		rpcr->version = RPCRDMA_V2;
		rpcr_send_properties(rpcr);
	}
	return true;
}

/* ---- properties */

/* The two sides do not agree on sizes any more (RR2-189). */
static void bad_property(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix)
{
	const struct rpcrdma_error error = { .code = RPCRDMA_ERR_BAD_PROPVAL };
	rpcr_send_error(rpcr, prefix, &error);
	rpcr_run_sends(rpcr);
	rpcr_end_behind_sends(rpcr, RPCR_END_PROPERTY);
}

void rpcr_got_properties(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
			 const uint8_t *data, size_t len)
{
	const struct rpcrdma_error xdr = { .code = RPCRDMA_ERR_BAD_XDR };
	rpcr->property_bytes += len;
	if (rpcr->property_bytes > MOST_PROPERTY_BYTES) {
		rpcr_end_with(rpcr, RPCR_END_FLOOD);
		return;
	}
	switch (rpcrdma_decode_properties(data, len, &rpcr->peer)) {
	case 0: break;
	case -EINVAL: bad_property(rpcr, prefix); return;
	default: rpcr_send_error(rpcr, prefix, &xdr); break;
	}
	rpcr->peer.hostauth = NULL; /* not looked at (RR2-76) */
	rpcr->peer.hostauth_len = 0;
	if (!(prefix->flags & RPCRDMA_F_TPMORE)) /* RR2-74 */
		rpcr_established(rpcr);
}
