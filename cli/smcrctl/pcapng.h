/* SPDX-License-Identifier: MIT */
/**
 * @file pcapng.h
 * The blocks of a pcapng file that a capture has (draft-ietf-opsawg-pcapng), written to a stream.
 * Errors of the stream stay in it (ferror()).
 */
#ifndef SMCRD_SMCRCTL_PCAPNG_H
#define SMCRD_SMCRCTL_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** The section, first of all. Numbers are in this host's byte order. */
void pcapng_begin(FILE *out, const char *application);

/** An Ethernet interface; they count from 0 on in the order of these calls. Times are in ns.
 *  @param mac  6 bytes; NULL: not known */
void pcapng_interface(FILE *out, const char *name, const char *description, const uint8_t *mac);

struct pcapng_packet {
	uint32_t interface;
	uint64_t time_ns; /* since 1970 */
	bool outbound;    /* else inbound */
	uint64_t lost;    /* packets of this interface between the one before and this one */
	const char *comment;
	const uint8_t *data;
	uint32_t len;      /* in the file, */
	uint32_t original; /* and as it was: the same or more */
};
void pcapng_packet(FILE *out, const struct pcapng_packet *packet);

/** What an interface had in all. */
struct pcapng_statistics {
	uint32_t interface;
	uint64_t begin_ns, end_ns; /* of the capture, since 1970 */
	uint64_t packets;          /* in the file */
	uint64_t lost;             /* that are not */
};
/** At the end, one for each interface. */
void pcapng_statistics(FILE *out, const struct pcapng_statistics *statistics);

#endif
