/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/pcapng.h"

#include <string.h>

enum block {
	BLOCK_SECTION = 0x0A0D0D0A,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
};

enum option {
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	SECTION_APPLICATION = 4,
	INTERFACE_NAME = 2,
	INTERFACE_DESCRIPTION = 3,
	INTERFACE_MAC = 6,
	INTERFACE_RESOLUTION = 9,
	PACKET_FLAGS = 2,
	PACKET_LOST = 4,
	STATISTICS_BEGIN = 2,
	STATISTICS_END = 3,
	STATISTICS_RECEIVED = 4,
	STATISTICS_LOST = 5,
};

#define BYTE_ORDER_MAGIC  0x1A2B3C4Du
#define LINKTYPE_ETHERNET 1
#define NANOSECONDS       9 /* times are in units of 10^-9 seconds */
#define INBOUND           1
#define OUTBOUND          2
#define BODY_MAX          512 /* of a block without packet data */
#define TEXT_MAX          200 /* of an option; longer texts are cut */

/** What a block has between its two lengths, without the packet data. */
struct body {
	uint8_t bytes[BODY_MAX];
	size_t len;
};

static void put(struct body *body, const void *from, size_t len)
{
	memcpy(body->bytes + body->len, from, len);
	body->len += len;
}

static void put16(struct body *body, uint16_t value)
{
	put(body, &value, sizeof(value));
}

static void put32(struct body *body, uint32_t value)
{
	put(body, &value, sizeof(value));
}

static size_t padding(size_t len)
{
	return (4 - len % 4) % 4;
}

static void put_option(struct body *body, enum option option, const void *value, size_t len)
{
	static const uint8_t zeros[4];
	put16(body, (uint16_t)option);
	put16(body, (uint16_t)len);
	put(body, value, len);
	put(body, zeros, padding(len));
}

static void put_text(struct body *body, enum option option, const char *text)
{
	put_option(body, option, text, strnlen(text, TEXT_MAX));
}

static void put_end(struct body *body)
{
	put_option(body, OPTION_END, "", 0);
}

/* A 64-bit time is two 32-bit numbers, the upper one first in either byte order. */
static void put_time(struct body *body, uint64_t time_ns)
{
	put32(body, (uint32_t)(time_ns >> 32));
	put32(body, (uint32_t)time_ns);
}

/* `data` lies between the first `data_at` bytes of the body and the others. */
static void write_block(FILE *out, enum block type, const struct body *body, size_t data_at,
			const void *data, size_t len)
{
	static const uint8_t zeros[4];
	const uint32_t total = (uint32_t)(12 + body->len + len + padding(len));
	const uint32_t head[2] = { (uint32_t)type, total };
	fwrite(head, sizeof(head), 1, out);
	fwrite(body->bytes, 1, data_at, out);
	fwrite(data, 1, len, out);
	fwrite(zeros, 1, padding(len), out);
	fwrite(body->bytes + data_at, 1, body->len - data_at, out);
	fwrite(&total, sizeof(total), 1, out);
}

void pcapng_begin(FILE *out, const char *application)
{
	const int64_t unknown_length = -1;
	struct body body = { .len = 0 };
	put32(&body, BYTE_ORDER_MAGIC);
	put16(&body, 1); /* version 1.0 */
	put16(&body, 0);
	put(&body, &unknown_length, sizeof(unknown_length));
	put_text(&body, SECTION_APPLICATION, application);
	put_end(&body);
	write_block(out, BLOCK_SECTION, &body, body.len, "", 0);
}

void pcapng_interface(FILE *out, const char *name, const char *description, const uint8_t *mac)
{
	const uint8_t resolution = NANOSECONDS;
	struct body body = { .len = 0 };
	put16(&body, LINKTYPE_ETHERNET);
	put16(&body, 0);
	put32(&body, 0); /* packets may be of any length */
	put_text(&body, INTERFACE_NAME, name);
	put_text(&body, INTERFACE_DESCRIPTION, description);
	if (mac)
		put_option(&body, INTERFACE_MAC, mac, 6);
	put_option(&body, INTERFACE_RESOLUTION, &resolution, 1);
	put_end(&body);
	write_block(out, BLOCK_INTERFACE, &body, body.len, "", 0);
}

void pcapng_packet(FILE *out, const struct pcapng_packet *packet)
{
	const uint32_t flags = packet->outbound ? OUTBOUND : INBOUND;
	struct body body = { .len = 0 };
	put32(&body, packet->interface);
	put_time(&body, packet->time_ns);
	put32(&body, packet->len);
	put32(&body, packet->original);
	const size_t data_at = body.len;
	put_text(&body, OPTION_COMMENT, packet->comment);
	put_option(&body, PACKET_FLAGS, &flags, sizeof(flags));
	if (packet->lost)
		put_option(&body, PACKET_LOST, &packet->lost, sizeof(packet->lost));
	put_end(&body);
	write_block(out, BLOCK_PACKET, &body, data_at, packet->data, packet->len);
}

static void put_time_option(struct body *body, enum option option, uint64_t time_ns)
{
	const uint32_t halves[2] = { (uint32_t)(time_ns >> 32), (uint32_t)time_ns };
	put_option(body, option, halves, sizeof(halves));
}

void pcapng_statistics(FILE *out, const struct pcapng_statistics *statistics)
{
	struct body body = { .len = 0 };
	put32(&body, statistics->interface);
	put_time(&body, statistics->end_ns);
	put_time_option(&body, STATISTICS_BEGIN, statistics->begin_ns);
	put_time_option(&body, STATISTICS_END, statistics->end_ns);
	put_option(&body, STATISTICS_RECEIVED, &statistics->packets, sizeof(statistics->packets));
	put_option(&body, STATISTICS_LOST, &statistics->lost, sizeof(statistics->lost));
	put_end(&body);
	write_block(out, BLOCK_STATISTICS, &body, body.len, "", 0);
}
