/* SPDX-License-Identifier: MIT */
/**
 * @file pcapng.h
 * Writes the blocks of a pcapng file that a capture needs (draft-ietf-opsawg-pcapng) to a stream.
 * ferror() tells errors of the stream.
 */
#ifndef SMCRD_SMCRCTL_PCAPNG_H
#define SMCRD_SMCRCTL_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Begin the section; to be called first. Numbers are in this host's byte order. */
void pcapng_begin(FILE *out, const char *application);

/** Describe an Ethernet interface. The first call makes interface 0, and so on. Times are in ns.
 *  @param mac  6 bytes; NULL: not known */
void pcapng_interface(FILE *out, const char *name, const char *description, const uint8_t *mac);

struct pcapng_packet {
	uint32_t interface;
	uint64_t time_ns; /* since 1970 */
	bool outbound;    /* else inbound */
	uint64_t lost;    /* packets of this interface since its packet before this one */
	const char *comment;
	const uint8_t *data;
	uint32_t len;      /* bytes in the file */
	uint32_t original; /* bytes of the whole packet: `len` or more */
};
void pcapng_packet(FILE *out, const struct pcapng_packet *packet);

/** The sums of an interface. */
struct pcapng_statistics {
	uint32_t interface;
	uint64_t begin_ns, end_ns; /* of the capture, since 1970 */
	uint64_t packets;          /* in the file */
	uint64_t lost;             /* packets that are not in the file */
};
/** To be called at the end, once for each interface. */
void pcapng_statistics(FILE *out, const struct pcapng_statistics *statistics);

#endif
