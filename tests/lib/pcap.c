/* SPDX-License-Identifier: MIT */
#include "tests/lib/pcap.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/bytes.h"

#define FILE_HEADER_LEN  24
#define FRAME_HEADER_LEN 16
#define LINK_ETHERNET    1
#define ETHER_HEADER_LEN 14
#define ETHER_TYPE_IPV4  0x0800
#define IP_HEADER_LEN    20
#define TCP_HEADER_LEN   20
#define UDP_HEADER_LEN   8

struct pcap {
	uint8_t *bytes;
	size_t len;
	size_t at;
	unsigned int frames;
	bool little_endian;
	bool nanoseconds;
};

/* ---- the file */

static int read_stream(FILE *in, uint8_t **ret_bytes, size_t *ret_len)
{
	uint8_t *bytes = NULL;
	size_t len = 0;
	size_t room = 0;
	do {
		if (len == room) {
			room = room ? 2 * room : 1 << 16;
			uint8_t *grown = realloc(bytes, room);
			if (!grown) {
				free(bytes);
				return -ENOMEM;
			}
			bytes = grown;
		}
		len += fread(bytes + len, 1, room - len, in);
	} while (!feof(in) && !ferror(in));
	*ret_bytes = bytes;
	*ret_len = len;
	return 0;
}

static int read_plain(const char *path, uint8_t **ret_bytes, size_t *ret_len)
{
	FILE *in = fopen(path, "rb");
	if (!in)
		return -errno;
	int rc = read_stream(in, ret_bytes, ret_len);
	fclose(in);
	return rc;
}

/* Paths come from the tests themselves, and contain no quotes. */
static int read_gzip(const char *path, uint8_t **ret_bytes, size_t *ret_len)
{
	char command[512];
	int n = snprintf(command, sizeof(command), "exec gzip -dc < '%s'", path);
	if (n < 0 || (size_t)n >= sizeof(command) || strchr(path, '\''))
		return -EINVAL;
	FILE *in = popen(command, "r");
	if (!in)
		return -errno;
	int rc = read_stream(in, ret_bytes, ret_len);
	int status = pclose(in);
	if (rc == 0 && status != 0) {
		free(*ret_bytes);
		rc = -ENOENT;
	}
	return rc;
}

static uint32_t field32(const struct pcap *pcap, size_t at)
{
	uint32_t value = get_be32(pcap->bytes + at);
	return pcap->little_endian ? __builtin_bswap32(value) : value;
}

static bool parse_file_header(struct pcap *pcap)
{
	if (pcap->len < FILE_HEADER_LEN)
		return false;
	switch (get_be32(pcap->bytes)) {
	case 0xa1b2c3d4: break;
	case 0xd4c3b2a1: pcap->little_endian = true; break;
	case 0xa1b23c4d: pcap->nanoseconds = true; break;
	case 0x4d3cb2a1: pcap->little_endian = pcap->nanoseconds = true; break;
	default: return false;
	}
	pcap->at = FILE_HEADER_LEN;
	return field32(pcap, 20) == LINK_ETHERNET;
}

int pcap_open(const char *path, struct pcap **ret_pcap)
{
	struct pcap *pcap = calloc(1, sizeof(*pcap));
	if (!pcap)
		return -ENOMEM;
	size_t path_len = strlen(path);
	bool compressed = path_len > 3 && strcmp(path + path_len - 3, ".gz") == 0;
	int rc = (compressed ? read_gzip : read_plain)(path, &pcap->bytes, &pcap->len);
	if (rc < 0) {
		free(pcap);
		return rc;
	}
	if (!parse_file_header(pcap)) {
		pcap_close(pcap);
		return -EBADMSG;
	}
	*ret_pcap = pcap;
	return 0;
}

void pcap_close(struct pcap *pcap)
{
	if (!pcap)
		return;
	free(pcap->bytes);
	free(pcap);
}

/* ---- frames */

static bool parse_l4(struct pcap_packet *p, size_t l4_len)
{
	size_t header_len;
	if (p->protocol == IPPROTO_UDP && l4_len >= UDP_HEADER_LEN)
		header_len = UDP_HEADER_LEN;
	else if (p->protocol == IPPROTO_TCP && l4_len >= TCP_HEADER_LEN)
		header_len = 4u * (p->l4[12] >> 4);
	else
		return false;
	if (header_len > l4_len)
		return false;
	p->src_port = get_be16(p->l4);
	p->dst_port = get_be16(p->l4 + 2);
	p->payload = p->l4 + header_len;
	p->payload_len = l4_len - header_len;
	return true;
}

/* @return false: the frame is no whole IPv4 packet of TCP or UDP */
static bool parse_frame(const uint8_t *frame, size_t len, struct pcap_packet *p)
{
	if (len < ETHER_HEADER_LEN + IP_HEADER_LEN ||
	    get_be16(frame + ETHER_HEADER_LEN - 2) != ETHER_TYPE_IPV4)
		return false;
	p->ip = frame + ETHER_HEADER_LEN;
	p->ip_len = get_be16(p->ip + 2);
	size_t header_len = 4u * (p->ip[0] & 0x0F);
	if (p->ip[0] >> 4 != 4 || header_len < IP_HEADER_LEN || p->ip_len < header_len ||
	    p->ip_len > len - ETHER_HEADER_LEN)
		return false;
	p->protocol = p->ip[9];
	p->src = get_be32(p->ip + 12);
	p->dst = get_be32(p->ip + 16);
	p->l4 = p->ip + header_len;
	return parse_l4(p, p->ip_len - header_len);
}

int pcap_next(struct pcap *pcap, struct pcap_packet *ret_packet)
{
	while (pcap->at < pcap->len) {
		if (pcap->len - pcap->at < FRAME_HEADER_LEN)
			return -EBADMSG;
		uint32_t seconds = field32(pcap, pcap->at);
		uint32_t fraction = field32(pcap, pcap->at + 4);
		uint32_t captured = field32(pcap, pcap->at + 8);
		const uint8_t *frame = pcap->bytes + pcap->at + FRAME_HEADER_LEN;
		if (captured > pcap->len - pcap->at - FRAME_HEADER_LEN)
			return -EBADMSG;
		pcap->at += FRAME_HEADER_LEN + captured;
		struct pcap_packet packet = { .number = ++pcap->frames };
		packet.time_ns = seconds * UINT64_C(1000000000) +
				 fraction * (pcap->nanoseconds ? 1u : UINT64_C(1000));
		if (parse_frame(frame, captured, &packet)) {
			*ret_packet = packet;
			return 1;
		}
	}
	return 0;
}
