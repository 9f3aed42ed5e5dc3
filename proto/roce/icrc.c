/* SPDX-License-Identifier: MIT */
#include "proto/roce/icrc.h"

#include <isa-l/crc.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "proto/smcr/bytes.h"

#define IPV4_HEADER_LEN 20
#define UDP_HEADER_LEN  8
#define MASKED_LEN      8 /* bytes FF for InfiniBand's link-layer header, which RoCEv2 lacks */
#define PSEUDO_LEN      (MASKED_LEN + IPV4_HEADER_LEN + UDP_HEADER_LEN)
/* From the end of the identification field to the start of the UDP payload. */
#define ID_TO_PAYLOAD   (IPV4_HEADER_LEN - 6 + UDP_HEADER_LEN)
#define IPPROTO_UDP_NUM 17
#define BTH_MASKED_BYTE 4 /* FECN, BECN, reserved */

/* The CRC-32 polynomial in reflected form: bit 31 is x^0. */
#define POLYNOMIAL 0xEDB88320u

#ifdef __x86_64__
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
	_mm256_zeroupper();
}

/* ISA-L leaves the upper halves of the vector registers in use. Every SSE instruction after that
 * is slow until they are cleared, and compilers make such instructions of any copy: a packet cost
 * 300 ns more. */
static void forget_vectors(void)
{
	if (__builtin_cpu_supports("avx"))
		clear_upper_halves();
}
#else
static void forget_vectors(void)
{
}
#endif

static uint32_t continue_crc(uint32_t crc, const uint8_t *data, size_t len)
{
	crc = crc32_gzip_refl(crc, data, len);
	forget_vectors();
	return crc;
}

/* Fills in the headers before the UDP payload. */
static void fill_prefix(uint8_t buf[PSEUDO_LEN], const struct roce_flow *flow, size_t udp_len,
			uint16_t ip_id)
{
	uint8_t *ip = buf + MASKED_LEN;
	uint8_t *udp = ip + IPV4_HEADER_LEN;
	uint16_t datagram = (uint16_t)(udp_len + UDP_HEADER_LEN);

	memset(buf, 0xFF, PSEUDO_LEN);
	ip[0] = 0x45;
	put_be16(ip + 2, (uint16_t)(datagram + IPV4_HEADER_LEN));
	put_be16(ip + 4, ip_id);
	put_be16(ip + 6, 0x4000); /* do not fragment */
	ip[9] = IPPROTO_UDP_NUM;
	memcpy(ip + 12, &flow->saddr, 4);
	memcpy(ip + 16, &flow->daddr, 4);
	memcpy(udp, &flow->sport, 2);
	memcpy(udp + 2, &flow->dport, 2);
	put_be16(udp + 4, datagram);
}

static uint32_t of_prefix(const struct roce_flow *flow, size_t udp_len, uint16_t ip_id)
{
	uint8_t buf[PSEUDO_LEN];
	fill_prefix(buf, flow, udp_len, ip_id);
	return continue_crc(0, buf, sizeof(buf));
}

uint32_t roce_icrc_begin(const struct roce_flow *flow, size_t udp_len, uint16_t ip_id,
			 const uint8_t *header, size_t header_len)
{
	uint8_t buf[PSEUDO_LEN + ROCE_MAX_HEADER];
	fill_prefix(buf, flow, udp_len, ip_id);
	memcpy(buf + PSEUDO_LEN, header, header_len);
	buf[PSEUDO_LEN + BTH_MASKED_BYTE] = 0xFF;
	return continue_crc(0, buf, PSEUDO_LEN + header_len);
}

uint32_t roce_icrc_update(uint32_t crc, const void *data, size_t len)
{
	return len ? continue_crc(crc, data, len) : crc;
}

void roce_icrc_put(uint32_t icrc, uint8_t *buf)
{
	buf[0] = (uint8_t)icrc;
	buf[1] = (uint8_t)(icrc >> 8);
	buf[2] = (uint8_t)(icrc >> 16);
	buf[3] = (uint8_t)(icrc >> 24);
}

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		product ^= a & bit ? b : 0;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

/* a / x modulo the polynomial, the opposite of the step above. */
static uint32_t divide_by_x(uint32_t a)
{
	return a & 1u << 31 ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static void init_inverse(uint32_t inverse[ROCE_MAX_LEN + 1])
{
	/* A difference in the identification has gone through its own two bytes and through all
	 * that follow, each a multiplication by x^8. */
	uint32_t factor = 1u << 31;
	for (size_t i = 0; i < 8 * (2 + ID_TO_PAYLOAD); i++)
		factor = divide_by_x(factor);
	for (size_t covered = 0; covered <= ROCE_MAX_LEN; covered++) {
		inverse[covered] = factor;
		for (int i = 0; i < 8; i++)
			factor = divide_by_x(factor);
	}
}

static void init_bytes(uint32_t byte[4][256])
{
	for (uint32_t value = 0; value < 256; value++) {
		uint32_t crc = value;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		byte[0][value] = crc;
	}
	for (int following = 1; following < 4; following++)
		for (uint32_t value = 0; value < 256; value++) {
			uint32_t crc = byte[following - 1][value];
			byte[following][value] = crc >> 8 ^ byte[0][crc & 0xFF];
		}
}

void roce_icrc_tables_init(struct roce_icrc_tables *tables)
{
	const struct roce_flow flow = { 0 };
	const uint32_t crc = of_prefix(&flow, 0, 0);
	init_inverse(tables->inverse);
	init_bytes(tables->byte);
	for (size_t len = 0; len <= ROCE_MAX_LEN; len++)
		tables->length[len] = of_prefix(&flow, len, 0) ^ crc;
	for (unsigned int value = 0; value < 256; value++) {
		tables->id[0][value] = of_prefix(&flow, 0, (uint16_t)(value << 8)) ^ crc;
		tables->id[1][value] = of_prefix(&flow, 0, (uint16_t)value) ^ crc;
	}
}

void roce_icrc_flow_init(struct roce_icrc_flow *icrc_flow, const struct roce_flow *flow)
{
	icrc_flow->flow = *flow;
	icrc_flow->crc = of_prefix(flow, 0, 0);
}

static uint32_t load_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Adds four bytes at once. By ISA-L a BTH alone would take more time than 256 bytes do. */
static uint32_t add_four(const struct roce_icrc_tables *tables, uint32_t crc, uint32_t four)
{
	crc ^= four;
	return tables->byte[3][crc & 0xFF] ^ tables->byte[2][crc >> 8 & 0xFF] ^
	       tables->byte[1][crc >> 16 & 0xFF] ^ tables->byte[0][crc >> 24];
}

uint32_t roce_icrc_start(const struct roce_icrc_tables *tables, const struct roce_icrc_flow *flow,
			 size_t udp_len, uint16_t ip_id, const uint8_t *bth)
{
	uint32_t crc = ~(flow->crc ^ tables->length[udp_len] ^ tables->id[0][ip_id >> 8] ^
			 tables->id[1][ip_id & 0xFF]);
	crc = add_four(tables, crc, load_le32(bth));
	crc = add_four(tables, crc, load_le32(bth + BTH_MASKED_BYTE) | 0xFF);
	return ~add_four(tables, crc, load_le32(bth + 8));
}

bool roce_icrc_check(const struct roce_icrc_tables *tables, const struct roce_icrc_flow *flow,
		     const uint8_t *buf, size_t len, uint16_t ip_id_guess, uint16_t *ret_ip_id)
{
	*ret_ip_id = ip_id_guess;
	if (len < ROCE_MIN_LEN || len > ROCE_MAX_LEN)
		return false;
	size_t covered = len - ROCE_ICRC_LEN;
	uint32_t crc = roce_icrc_start(tables, flow, len, ip_id_guess, buf);
	crc = roce_icrc_update(crc, buf + ROCE_BTH_LEN, covered - ROCE_BTH_LEN);
	uint32_t difference = crc ^ load_le32(buf + covered);
	if (difference == 0)
		return true;
	/* Only the identification, 16 bits, may differ: by the guess xor the value that was sent.
	 * The register has its first byte, the high one, below. */
	difference = multiply(tables->inverse[covered], difference);
	*ret_ip_id ^= (uint16_t)(difference << 8 | (difference & 0xFFFF) >> 8);
	return difference < 1u << 16;
}
