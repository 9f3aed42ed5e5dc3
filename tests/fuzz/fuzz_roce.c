/* SPDX-License-Identifier: MIT */
/* proto/roce: the decoder never reads past its buffer, and what it accepts encodes to the same
 * bytes. The ICRC that roce_icrc_begin() and roce_icrc_update() compute is the one that is
 * accepted.
 */
#include <string.h>

#include "proto/roce/icrc.h"
#include "proto/roce/roce.h"
#include "tests/fuzz/fuzz.h"

static struct roce_icrc_tables tables;

/* Clear the bits of a BTH that our sender leaves 0 and a receiver ignores. */
static void clear_reserved(uint8_t *header)
{
	header[4] &= 0x40; /* BECN */
	header[8] &= 0x80;
	if (roce_is_answer(header[0]) && roce_ext_len(header[0]))
		header[12] &= 0x7F;
	if (header[0] == ROCE_UD_SEND_ONLY)
		header[16] = 0;
	if (header[0] == ROCE_CONGESTION)
		memset(header + ROCE_BTH_LEN, 0, ROCE_CNP_RESERVED);
}

static void check_encoding(const struct roce_packet *p, const uint8_t *buf)
{
	uint8_t expect[ROCE_MAX_HEADER] = { 0 };
	uint8_t header[ROCE_MAX_HEADER] = { 0 };
	memcpy(expect, buf, p->header_len);
	clear_reserved(expect);
	roce_encode_bth(&p->bth, header);
	roce_encode_ext(p->bth.opcode, &p->ext, header + ROCE_BTH_LEN);
	must(memcmp(header, expect, p->header_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!tables.inverse[0])
		roce_icrc_tables_init(&tables);
	if (size < 2)
		return 0;
	uint16_t id = (uint16_t)(data[0] << 8 | data[1]);
	size_t len = size - 2;
	/* A heap block of exactly this size, so that the address sanitizer sees reads past its end.
	 */
	uint8_t *buf = malloc(len ? len : 1);
	must(buf != NULL);
	memcpy(buf, data + 2, len);

	struct roce_packet p;
	if (roce_decode(buf, len, &p) == 0) {
		must(p.header_len + p.payload_len + p.bth.pad + ROCE_ICRC_LEN == len);
		check_encoding(&p, buf);
		struct roce_flow flow = { 0x0100007F, 0x0200007F, 0xB712, 0xB712 };
		uint32_t crc = roce_icrc_begin(&flow, len, id, buf, p.header_len);
		crc = roce_icrc_update(crc, buf + p.header_len, len - p.header_len - ROCE_ICRC_LEN);
		roce_icrc_put(crc, buf + len - ROCE_ICRC_LEN);
		struct roce_icrc_flow icrc_flow;
		roce_icrc_flow_init(&icrc_flow, &flow);
		uint16_t found;
		must(roce_icrc_check(&tables, &icrc_flow, buf, len, 0, &found) && found == id);
	}
	free(buf);
	return 0;
}
