/* SPDX-License-Identifier: MIT */
/**
 * @file eid.h
 * Enterprise IDs: the names by which two version 2 hosts know that they belong together. A user EID
 * (UEID) is 32 bytes of ASCII, padded with blanks: A-Z, 0-9, '.' and '-', the first one a letter or
 * digit. What a peer sends is 32 opaque bytes, compared as a whole and never judged.
 */
#ifndef SMCRD_PROTO_SMCR_EID_H
#define SMCRD_PROTO_SMCR_EID_H

#include "proto/smcr/wire.h"

/** Room for a name of 32 bytes as text. */
#define SMCR_EID_TEXT_LEN (SMCR_EID_LEN + 1)

/** What a UEID may look like, for error messages. */
#define SMCR_UEID_RULE "it is 1 to 32 of A-Z, 0-9, '.' and '-', the first of them a letter or digit"

/**
 * A UEID from configuration.
 * @param text     1..32 characters as above, without padding
 * @param ret_eid  the 32 bytes as on the wire
 * @return 0 or -EINVAL
 */
int smcr_ueid_parse(const char *text, uint8_t ret_eid[SMCR_EID_LEN]);

/**
 * An EID or host name of a message for people: without the blanks (or zeros) behind it, and with
 * '?' for every byte that is not printable ASCII.
 */
void smcr_eid_text(const uint8_t eid[SMCR_EID_LEN], char ret_text[SMCR_EID_TEXT_LEN]);

/**
 * The EID for a connection: the first of the client's list that the server has too.
 * @return its index in `offered`, or -ENOENT
 */
int smcr_eid_choose(const uint8_t (*offered)[SMCR_EID_LEN], size_t num_offered,
		    const uint8_t (*own)[SMCR_EID_LEN], size_t num_own);

#endif
