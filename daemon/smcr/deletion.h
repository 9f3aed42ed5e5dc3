/* SPDX-License-Identifier: MIT */
/**
 * @file deletion.h
 * The states of the deletion of one link (RFC 7609 3.5.4, 3.5.5.1.3, 3.5.5.1.4). llc_delete_link.c
 * alone changes them.
 *
 *     server  NONE -> WANTED -> ORDERED -> AGREED
 *                       ^----------'            the link that carried the order has failed
 *     client  NONE -> ASKED -> DOUBTED -> ANSWERED -> AGREED
 *               |     ^   |       |             DOUBTED only if the order is late
 *               |     |   v       |
 *               `-> WANTED <------'             there is no link to ask on, or no more
 *
 * The client asks, the server orders, the client answers. A server may order without being asked. A
 * deletion that is WANTED may be taken back: then it is NONE again.
 */
#ifndef SMCRD_SMCR_DELETION_H
#define SMCRD_SMCR_DELETION_H

#include "daemon/smcr/timer.h"

enum smcr_deletion_state {
	SMCR_DELETION_NONE,   /* the link stays, or has failed and its deletion is not WANTED yet */
	SMCR_DELETION_WANTED, /* the peer was not told yet: another exchange runs, own connections
				 leave, or no link can carry the message */
	SMCR_DELETION_ORDERED,  /* server: DELETE LINK is sent, the reply is awaited */
	SMCR_DELETION_ASKED,    /* client: DELETE LINK is sent, the server's is awaited (ERR-33) */
	SMCR_DELETION_DOUBTED,  /* ASKED, but the order is late, and the carrier is tested */
	SMCR_DELETION_ANSWERED, /* client: the order has come, the reply is on its way */
	SMCR_DELETION_AGREED,   /* both sides know that the link is gone: it will be freed */
};

struct smcr_deletion {
	enum smcr_deletion_state state;
	uint32_t reason;           /* an smcr_llc_delete_reason, for the peer */
	struct smcr_link *carrier; /* ASKED, DOUBTED, ANSWERED: the link on which we sent that */
	bool for_drain;            /* WANTED: because the RNIC is drained (drain.c) */
	bool rnic_back;            /* ORDERED and later: another link is to be made on the RNIC */
	/** WANTED in good order: how long connections may leave. ASKED: how long the server may
	 * take to order the deletion (ERR-33). */
	struct smcr_timer timer;
};

/** Has the peer been told, or has the peer told us, that the link is to be deleted? */
static inline bool smcr_deletion_begun(const struct smcr_deletion *deletion)
{
	return deletion->state >= SMCR_DELETION_ORDERED;
}

#endif
