/* SPDX-License-Identifier: MIT */
#include "proto/smcr/cdc.h"

#include <errno.h>

#include "proto/smcr/bytes.h"

/* Defined flag bits; the others are reserved: sent 0, ignored on receipt (CDC-1). */
enum {
	PROD_FLAGS = 0xF8,
	CONN_FLAGS = 0xE0,
};

/* Two reserved bytes, wrap sequence number, cursor. */
static struct smcr_cdc_cursor read_cursor(struct bytes_reader *r)
{
	struct smcr_cdc_cursor cursor;
	read_skip(r, 2);
	cursor.wrap = read_be16(r);
	cursor.offset = read_be32(r);
	return cursor;
}

static void write_cursor(struct bytes_writer *w, struct smcr_cdc_cursor cursor)
{
	write_zeros(w, 2);
	write_be16(w, cursor.wrap);
	write_be32(w, cursor.offset);
}

int smcr_cdc_decode(const uint8_t *buf, size_t len, struct smcr_cdc *ret_cdc)
{
	if (len != SMCR_CDC_LEN || buf[0] != SMCR_CDC_TYPE || buf[1] != SMCR_CDC_LEN)
		return -EBADMSG;
	struct bytes_reader r = bytes_reader(buf + 2, len - 2);
	struct smcr_cdc cdc = { 0 };
	cdc.seq = read_be16(&r);
	cdc.alert_token = read_be32(&r);
	cdc.producer = read_cursor(&r);
	cdc.consumer = read_cursor(&r);
	cdc.prod_flags = read_u8(&r) & PROD_FLAGS;
	cdc.conn_flags = read_u8(&r) & CONN_FLAGS;
	*ret_cdc = cdc;
	return 0;
}

bool smcr_cdc_is_failover(const uint8_t *data, size_t len)
{
	struct smcr_cdc cdc;
	return smcr_cdc_decode(data, len, &cdc) == 0 && cdc.prod_flags & SMCR_CDC_FAILOVER;
}

int smcr_cdc_encode(const struct smcr_cdc *cdc, uint8_t *buf, size_t len)
{
	if (len < SMCR_CDC_LEN)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, SMCR_CDC_LEN);
	write_u8(&w, SMCR_CDC_TYPE);
	write_u8(&w, SMCR_CDC_LEN);
	write_be16(&w, cdc->seq);
	write_be32(&w, cdc->alert_token);
	write_cursor(&w, cdc->producer);
	write_cursor(&w, cdc->consumer);
	write_u8(&w, cdc->prod_flags & PROD_FLAGS);
	write_u8(&w, cdc->conn_flags & CONN_FLAGS);
	write_zeros(&w, w.left);
	return SMCR_CDC_LEN;
}
