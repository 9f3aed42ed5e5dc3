/* SPDX-License-Identifier: MIT */
/**
 * @file pcap.h
 * Read the captures below tests/captures: gzip-compressed pcap files of Ethernet frames.
 */
#ifndef SMCRD_TESTS_PCAP_H
#define SMCRD_TESTS_PCAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** One IPv4 packet of TCP or UDP. The pointers are valid until pcap_close(). */
struct pcap_packet {
	unsigned int number; /* of the frame in the file, counted from 1 as other tools do */
	uint64_t time_ns;
	const uint8_t *ip; /* IPv4 header */
	size_t ip_len;     /* header and payload as the header says, padding excluded */
	uint8_t protocol;  /* IPPROTO_TCP or IPPROTO_UDP */
	uint32_t src;      /* addresses and ports in host byte order */
	uint32_t dst;
	uint16_t src_port;
	uint16_t dst_port;
	const uint8_t *l4; /* TCP or UDP header */
	const uint8_t *payload;
	size_t payload_len;
};

struct pcap;

/**
 * Open a file and read all of it.
 * @param path      an uncompressed pcap file, or one whose name ends in ".gz"
 * @param ret_pcap  to be closed with pcap_close()
 * @return 0; -ENOENT etc.; -EBADMSG (not a pcap file of Ethernet frames)
 */
int pcap_open(const char *path, struct pcap **ret_pcap);

/**
 * The next IPv4 packet of TCP or UDP; other frames are passed over.
 * @return 1, 0 at the end, or -EBADMSG (cut short inside a frame)
 */
int pcap_next(struct pcap *pcap, struct pcap_packet *ret_packet);

/** Close; NULL is allowed. Packets must not be used any more. */
void pcap_close(struct pcap *pcap);

#endif
