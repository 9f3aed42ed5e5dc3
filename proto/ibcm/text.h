/* SPDX-License-Identifier: MIT */
/**
 * @file text.h
 * Messages of the connection manager as text for the log, on one line, and the reasons of a REJ in
 * words. What would help to forge packets or messages is left out: numbers of queue pairs,
 * communication and transaction ids, and starting PSNs; so are private data but for the addresses
 * in them.
 */
#ifndef SMCRD_PROTO_IBCM_TEXT_H
#define SMCRD_PROTO_IBCM_TEXT_H

#include "proto/ibcm/ibcm.h"

/** Room for every text; a longer one is cut. */
#define IBCM_TEXT_LEN 320

/** "REQ to port 7471, from 192.0.2.1:40000 to 192.0.2.2, ..". */
void ibcm_text(const struct ibcm_msg *msg, char ret_text[IBCM_TEXT_LEN]);

/** The short, stable name of the reason of a REJ ("invalid-service-id"), or "unknown". Static
 * storage. */
const char *ibcm_reject_name(uint16_t reason);
/** A reason in words, for the end of a sentence. Static storage. */
const char *ibcm_reject_text(uint16_t reason);

#endif
