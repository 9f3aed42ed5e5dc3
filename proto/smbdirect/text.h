/* SPDX-License-Identifier: MIT */
/**
 * @file text.h
 * Messages of SMB Direct as text for the log, on one line: all fields of Negotiate messages, and of
 * Data Transfer messages the head. The payload belongs to SMB and is left out.
 */
#ifndef SMCRD_PROTO_SMBDIRECT_TEXT_H
#define SMCRD_PROTO_SMBDIRECT_TEXT_H

#include "proto/smbdirect/smbdirect.h"

/** Room for every text; a longer one is cut. */
#define SMBDIRECT_TEXT_LEN 256

/** What a message is, which its bytes do not tell: its place in the conversation does. */
enum smbdirect_kind {
	SMBDIRECT_NEGOTIATE_REQUEST,
	SMBDIRECT_NEGOTIATE_RESPONSE,
	SMBDIRECT_DATA_TRANSFER,
};

/** "Data Transfer: 1340 bytes, 5000 follow, grants 2 credits, wants 255, asks for an answer". Bytes
 * that are no such message become a text too. */
void smbdirect_text(enum smbdirect_kind kind, const uint8_t *buf, size_t len,
		    char ret_text[SMBDIRECT_TEXT_LEN]);

/** A Status in words, or "unknown". Static storage. */
const char *smbdirect_status_text(uint32_t status);

#endif
