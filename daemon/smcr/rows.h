/* SPDX-License-Identifier: MIT */
/**
 * @file rows.h
 * The rows of RFC 7609's tables about collisions (3.5.5.3) and recovery (C.7.1, C.8), and how often
 * an engine has taken each of them in each role. The simulator reports the counts and demands that
 * every row is taken.
 */
#ifndef SMCRD_SMCR_ROWS_H
#define SMCRD_SMCR_ROWS_H

#include "daemon/smcr/engine.h"

#define SMCR_ROW_S 1 /* a row of the server */
#define SMCR_ROW_C 2 /* of the client */

/* X(name, roles, text). ERR-31 has no row: only a deployed server can owe more CONTINUATIONs in
 * first contact (A60), and this engine never does. The first table is the collision matrix: a
 * message comes in while its receiver has an exchange in progress. Its columns are enum
 * smcr_row_column. */
#define SMCR_ROWS_COLLISION(X)                                                                     \
	X(TEST_LINK, SMCR_ROW_S | SMCR_ROW_C, "TEST LINK")                                         \
	X(ADD_LINK, SMCR_ROW_S | SMCR_ROW_C, "ADD LINK (S: notice)")                               \
	X(DELETE_LINK, SMCR_ROW_S | SMCR_ROW_C, "DELETE LINK, one (S: request)")                   \
	X(DELETE_ALL, SMCR_ROW_S | SMCR_ROW_C, "DELETE LINK, all")                                 \
	X(CONFIRM_RKEY, SMCR_ROW_S | SMCR_ROW_C, "CONFIRM RKEY")                                   \
	X(DELETE_RKEY, SMCR_ROW_S | SMCR_ROW_C, "DELETE RKEY")                                     \
	X(CONFIRM_LINK, SMCR_ROW_C, "CONFIRM LINK")

#define SMCR_ROWS_RECOVERY(X)                                                                      \
	X(ERR_18, SMCR_ROW_S | SMCR_ROW_C, "first contact, own send fails: Decline")               \
	X(ERR_19, SMCR_ROW_C, "no CONFIRM LINK in first contact")                                  \
	X(ERR_21, SMCR_ROW_S, "no reply to the first CONFIRM LINK")                                \
	X(ERR_22, SMCR_ROW_S, "no reply to CONFIRM LINK of link 2, first contact")                 \
	X(ERR_23, SMCR_ROW_S, "no reply to CONFIRM LINK of a new link")                            \
	X(ERR_24, SMCR_ROW_C, "no ADD LINK in first contact")                                      \
	X(ERR_25, SMCR_ROW_S, "no reply to ADD LINK, first contact")                               \
	X(ERR_26, SMCR_ROW_S, "no reply to ADD LINK")                                              \
	X(ERR_27_FIRST, SMCR_ROW_C, "no CONTINUATION after the ADD LINK reply, first contact")     \
	X(ERR_27, SMCR_ROW_C, "no CONTINUATION after the ADD LINK reply")                          \
	X(ERR_28, SMCR_ROW_C, "no CONFIRM LINK for link 2, first contact")                         \
	X(ERR_29, SMCR_ROW_C, "no CONFIRM LINK for a new link")                                    \
	X(ERR_30_FIRST, SMCR_ROW_S, "no reply to CONTINUATION, first contact")                     \
	X(ERR_30, SMCR_ROW_S, "no reply to CONTINUATION")                                          \
	X(ERR_32, SMCR_ROW_C, "no next CONTINUATION of the server")                                \
	X(ERR_33, SMCR_ROW_C, "the server does not act on DELETE LINK")                            \
	X(ERR_34, SMCR_ROW_C, "the server does not act on DELETE LINK of all")                     \
	X(ERR_35, SMCR_ROW_S, "DELETE LINK of all does not complete")                              \
	X(ERR_36, SMCR_ROW_S, "no reply to DELETE LINK")                                           \
	X(ERR_37, SMCR_ROW_S | SMCR_ROW_C, "no reply to CONFIRM RKEY")                             \
	X(ERR_38, SMCR_ROW_S | SMCR_ROW_C, "no reply to TEST LINK")                                \
	X(ERR_39_CONT, SMCR_ROW_S | SMCR_ROW_C, "no reply to CONFIRM RKEY CONTINUATION")           \
	X(ERR_39, SMCR_ROW_S | SMCR_ROW_C, "no reply to DELETE RKEY")                              \
	X(ERR_51_FIRST, SMCR_ROW_C, "wrong CONFIRM LINK in first contact: Decline")                \
	X(ERR_51, SMCR_ROW_C, "wrong CONFIRM LINK on a new link: it goes")                         \
	X(ERR_52, SMCR_ROW_C, "ADD LINK with a reserved MTU: refused")                             \
	X(ERR_53, SMCR_ROW_S, "ADD LINK reply that makes no link: it goes")                        \
	X(ERR_54, SMCR_ROW_C, "command on a link that the client has asked to delete: ignored")    \
	X(ERR_55, SMCR_ROW_S | SMCR_ROW_C, "RTokens of a CONTINUATION do not fit: outage")         \
	X(ERR_56_KNOWN, SMCR_ROW_S, "DELETE LINK of a link that goes already: ignored")            \
	X(ERR_56, SMCR_ROW_S, "DELETE LINK of an unknown link: refused")                           \
	X(ERR_57, SMCR_ROW_C, "DELETE LINK of an unknown link: refused")                           \
	X(ERR_58, SMCR_ROW_S | SMCR_ROW_C, "CONFIRM RKEY without a link: it has failed")           \
	X(ERR_59, SMCR_ROW_S | SMCR_ROW_C, "DELETE RKEY of unknown keys: mask")                    \
	X(ERR_60, SMCR_ROW_S | SMCR_ROW_C, "TEST LINK reply with other data: link down")           \
	X(ERR_61, SMCR_ROW_S | SMCR_ROW_C, "unknown optional message: dropped")                    \
	X(ERR_63, SMCR_ROW_S | SMCR_ROW_C, "out of sync: link down")                               \
	X(ERR_70, SMCR_ROW_S, "no second link: retry timer")                                       \
	X(ERR_71_TIMER, SMCR_ROW_S, "retry by the timer")                                          \
	X(ERR_71_RNIC, SMCR_ROW_S, "retry because of an own RNIC")                                 \
	X(ERR_71_NOTICE, SMCR_ROW_S, "retry because of the client's ADD LINK")                     \
	X(ERR_72, SMCR_ROW_S, "rejected again: the timer backs off")

enum smcr_row_column {
	SMCR_ROW_DURING_ADD_LINK,
	SMCR_ROW_DURING_DELETE_LINK,
	SMCR_ROW_DURING_RKEY,
	SMCR_ROW_COLUMNS,
};

enum smcr_row {
#define SMCR_ROW_ENUM(name, roles, text)                                                           \
	SMCR_ROW_##name, SMCR_ROW_##name##_DURING_DELETE_LINK, SMCR_ROW_##name##_DURING_RKEY,
	SMCR_ROWS_COLLISION(SMCR_ROW_ENUM)
#undef SMCR_ROW_ENUM
#define SMCR_ROW_ENUM(name, roles, text) SMCR_ROW_##name,
		SMCR_ROWS_RECOVERY(SMCR_ROW_ENUM)
#undef SMCR_ROW_ENUM
			SMCR_NUM_ROWS,
};

/** How often the engine has taken the row in this role. [anywhere] */
uint32_t smcr_engine_row(const struct smcr_engine *engine, enum smcr_row row, enum smcr_role role);
/** "TEST LINK during ADD LINK", "ERR_26: no reply to ADD LINK". Static storage until the next call.
 * @param ret_roles  set to SMCR_ROW_S and SMCR_ROW_C as they apply */
const char *smcr_row_name(enum smcr_row row, unsigned int *ret_roles);

#endif
