/* SPDX-License-Identifier: MIT */
/*
 * The table of steps: what each step of the exchange about links means, in one row per step.
 *
 * Compare it with Appendix C.7.1 of RFC 7609: "LLC message" there is the column "sent", "Timer
 * waits for" is "awaited", and "Recovery action" is "first contact" and "later". What happens when
 * the awaited message comes is in the file of the exchange, in the order of time:
 * llc_first_contact.c, llc_add_link.c, llc_delete_link.c. llc.c uses this table.
 */
#include <errno.h>

#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_confirm_link.h"
#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/llc_links.h"

/* ---- what the rows say ---- */

static void nothing(struct smcr_lgr *lgr)
{
	(void)lgr;
}

/** The exchange was no attempt to add a link, so its outcome is not told. */
static void no_attempt(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why)
{
	(void)lgr;
	(void)outcome;
	(void)why;
}

static bool no_more_time(struct smcr_lgr *lgr)
{
	(void)lgr;
	return false;
}

/** "Treat the link over which the message was sent as if it had failed." */
static void carrier_fails(struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	smcr_link_fail(flow->carrier, SMCR_LLC_DEL_LOST_PATH, "no answer to %s",
		       smcr_llc_type_name(smcr_llc_step_row(flow->step)->sent.type));
}

/** "The setup of the new link failed"; the carrier stays. */
static void subject_fails(struct smcr_lgr *lgr)
{
	smcr_link_fail(lgr->llc->subject, SMCR_LLC_DEL_LOST_PATH, "CONFIRM LINK was not %s",
		       lgr->role == SMCR_ROLE_SERVER ? "answered" : "received");
}

/** "Tear down the link group." */
static void group_ends(struct smcr_lgr *lgr)
{
	smcr_lgr_end(lgr, lgr->end_error);
}

/* ---- the table ---- */

/* A pointer that is no function, as NULL, does not compile. */
#define ACT(fn)   _Generic((fn), void (*)(struct smcr_lgr *) : (fn))
#define SPARE(fn) _Generic((fn), bool (*)(struct smcr_lgr *) : (fn))
#define END(fn)                                                                                    \
	_Generic((fn), void (*)(struct smcr_lgr *, enum smcr_llc_outcome, const char *) : (fn))

/* Each row has every column, and each step has one row: rows are counted, and two rows for one step
 * do not compile (-Woverride-init). */
#define ROW(step, exchange_, roles_, sent_, awaited_, wait_v2_, spare_, first_row, first_act,      \
	    later_row, later_act, carrier_lost, subject_lost, carrier_answers, end)                \
	[SMCR_LLC_##step] = { .number = __COUNTER__,                                               \
			      .exchange = SMCR_EXCHANGE_##exchange_,                               \
			      .roles = roles_,                                                     \
			      .sent = sent_,                                                       \
			      .awaited = awaited_,                                                 \
			      .wait_v2 = wait_v2_,                                                 \
			      .spare = SPARE(spare_),                                              \
			      .first = { first_row, ACT(first_act) },                              \
			      .later = { later_row, ACT(later_act) },                              \
			      .on_carrier_lost = ACT(carrier_lost),                                \
			      .on_subject_lost = ACT(subject_lost),                                \
			      .on_carrier_answers = ACT(carrier_answers),                          \
			      .on_end = END(end) }
/* clang-format off */
#define REQUEST(type, on) { SMCR_LLC_##type, false, SMCR_ON_##on }
#define REPLY(type, on)   { SMCR_LLC_##type, true, SMCR_ON_##on }
#define NO_MESSAGE        { 0 }
/* clang-format on */
#define ERR(number) SMCR_ROW_ERR_##number
#define NO_ROW      SMCR_NUM_ROWS
#define S           SMCR_ROW_S
#define C           SMCR_ROW_C

/* Version 2. CONFIRM LINK is repeated because deployed clients drop one that comes before they wait
 * for it. A server that sends nothing after CONFIRM LINK cannot add a link. */
#define REPEAT_CONFIRM_AFTER (UINT64_C(500) * 1000)
#define ADD_LINK_WAIT        (UINT64_C(2) * 1000 * 1000)

enum { BEFORE_ROWS = __COUNTER__ };

/* clang-format off */
static const struct smcr_llc_step_row rows[SMCR_LLC_NUM_STEPS] = {
/*  step, exchange, roles,
 *	sent, awaited, longest wait in version 2,
 *	what a deployed peer is granted when that time is over,
 *	else recovery: in first contact,
 *	               later,
 *	when the carrier is lost, when the subject is lost, when the carrier answers TEST LINK,
 *	when the exchange ends: is it an attempt to add a link?
 *  Above a row: its requirements, first those for first contact. */

ROW(IDLE, NONE, S | C,
	NO_MESSAGE, NO_MESSAGE, 0,
	no_more_time,
	NO_ROW, nothing,
	NO_ROW, nothing,
	nothing, nothing, nothing,
	no_attempt),

/* ---- first contact, link 1 (3.5.1.4, 3.5.1.5) ---- */

/* ERR-21. */
ROW(S_CONFIRM_FIRST, FIRST_LINK, S,
	REQUEST(CONFIRM_LINK, CARRIER), REPLY(CONFIRM_LINK, CARRIER), REPEAT_CONFIRM_AFTER,
	smcr_llc_repeat_confirm,
	ERR(21), smcr_llc_first_contact_timed_out,
	ERR(21), smcr_llc_first_contact_timed_out,
	smcr_llc_first_contact_link_lost, nothing, nothing,
	no_attempt),

/* ERR-19. */
ROW(C_AWAIT_CONFIRM_FIRST, FIRST_LINK, C,
	NO_MESSAGE /* Confirm, of CLC */, REQUEST(CONFIRM_LINK, CARRIER), 0,
	no_more_time,
	ERR(19), smcr_llc_first_contact_timed_out,
	ERR(19), smcr_llc_first_contact_timed_out,
	smcr_llc_first_contact_link_lost, nothing, nothing,
	no_attempt),

/* ERR-24. */
ROW(C_AWAIT_ADD, FIRST_LINK, C,
	REPLY(CONFIRM_LINK, CARRIER), REQUEST(ADD_LINK, CARRIER), ADD_LINK_WAIT,
	smcr_llc_go_on_with_one_link,
	ERR(24), smcr_llc_first_contact_timed_out,
	ERR(24), smcr_llc_first_contact_timed_out,
	smcr_llc_first_contact_link_lost, nothing, nothing,
	no_attempt),

/* ---- ADD LINK, server (3.5.1.6, 3.5.5.1.1) ---- */

/* ERR-25, later ERR-26. A new link that fails meanwhile is seen when the reply comes (connect_added()). */
ROW(S_ADD, ADD_LINK, S,
	REQUEST(ADD_LINK, CARRIER), REPLY(ADD_LINK, CARRIER), 0,
	smcr_llc_add_link_overdue,
	ERR(25), smcr_llc_first_contact_timed_out,
	ERR(26), carrier_fails,
	smcr_llc_add_link_carrier_lost, nothing, smcr_llc_abandon_added,
	smcr_llc_add_ended),

/* ERR-30. A new link that fails meanwhile is seen when the reply comes. */
ROW(S_ADD_CONT, ADD_LINK, S,
	REQUEST(ADD_LINK_CONT, CARRIER), REPLY(ADD_LINK_CONT, CARRIER), 0,
	smcr_llc_add_link_overdue,
	ERR(30_FIRST), smcr_llc_first_contact_timed_out,
	ERR(30), carrier_fails,
	smcr_llc_add_link_carrier_lost, nothing, smcr_llc_abandon_added,
	smcr_llc_add_ended),

/* ERR-22, later ERR-23. */
ROW(S_CONFIRM_ADDED, ADD_LINK, S,
	REQUEST(CONFIRM_LINK, SUBJECT), REPLY(CONFIRM_LINK, SUBJECT), REPEAT_CONFIRM_AFTER,
	smcr_llc_repeat_confirm,
	ERR(22), subject_fails,
	ERR(23), subject_fails,
	smcr_llc_add_link_without_carrier, smcr_llc_delete_added, nothing,
	smcr_llc_add_ended),

/* ---- ADD LINK, client ---- */

/* ERR-27. */
ROW(C_AWAIT_ADD_CONT, ADD_LINK, C,
	REPLY(ADD_LINK, CARRIER), REQUEST(ADD_LINK_CONT, CARRIER), 0,
	smcr_llc_add_link_overdue,
	ERR(27_FIRST), smcr_llc_first_contact_timed_out,
	ERR(27), carrier_fails,
	smcr_llc_add_link_carrier_lost, smcr_llc_ask_to_delete_added, smcr_llc_abandon_added,
	smcr_llc_add_ended),

/* ERR-31, later ERR-32. */
ROW(C_AWAIT_NEXT_CONT, ADD_LINK, C,
	REPLY(ADD_LINK_CONT, CARRIER), REQUEST(ADD_LINK_CONT, CARRIER), 0,
	smcr_llc_add_link_overdue,
	NO_ROW /* ERR-31 */, smcr_llc_first_contact_timed_out,
	ERR(32), carrier_fails,
	smcr_llc_add_link_carrier_lost, smcr_llc_ask_to_delete_added, smcr_llc_abandon_added,
	smcr_llc_add_ended),

/* ERR-28, later ERR-29. */
ROW(C_AWAIT_CONFIRM_ADDED, ADD_LINK, C,
	REPLY(ADD_LINK, CARRIER) /* or CONTINUATION */, REQUEST(CONFIRM_LINK, SUBJECT), 0,
	no_more_time,
	ERR(28), subject_fails,
	ERR(29), subject_fails,
	smcr_llc_add_link_without_carrier, smcr_llc_ask_to_delete_added, nothing,
	smcr_llc_add_ended),

/* ---- DELETE LINK of one link (3.5.5.1.3, 3.5.5.1.4) ---- */

/* ERR-36. */
ROW(S_DELETE, DELETE_LINK, S,
	REQUEST(DELETE_LINK, CARRIER), REPLY(DELETE_LINK, CARRIER), 0,
	smcr_llc_repeat_delete,
	ERR(36), carrier_fails,
	ERR(36), carrier_fails,
	smcr_llc_delete_link_carrier_lost, nothing, nothing,
	no_attempt),

/* The new link of an ADD LINK exchange, which has failed (ERR-22, ERR-23). ERR-36. */
ROW(S_DELETE_ADDED, DELETE_LINK, S,
	REQUEST(DELETE_LINK, CARRIER), REPLY(DELETE_LINK, CARRIER), 0,
	smcr_llc_repeat_delete,
	ERR(36), carrier_fails,
	ERR(36), carrier_fails,
	smcr_llc_delete_link_carrier_lost, nothing, nothing,
	smcr_llc_add_ended),

/* The same at the client (ERR-28, ERR-29). What a client asks for in other cases is no step, each link has a timer
 * for that: ERR-33 in llc_delete_link.c. */
ROW(C_AWAIT_DELETE, DELETE_LINK, C,
	REQUEST(DELETE_LINK, CARRIER), REQUEST(DELETE_LINK, CARRIER), 0,
	no_more_time,
	NO_ROW, nothing,
	NO_ROW, nothing,
	nothing, nothing, nothing,
	smcr_llc_add_ended),

/* ---- DELETE LINK of all (3.5.4) ---- */

/* ERR-35. */
ROW(S_DELETE_ALL, DELETE_ALL, S,
	REQUEST(DELETE_LINK, CARRIER), NO_MESSAGE /* its completion is enough */, 0,
	no_more_time,
	ERR(35), group_ends,
	ERR(35), group_ends,
	smcr_llc_send_delete_all, nothing, nothing,
	no_attempt),

/* ERR-34. */
ROW(C_AWAIT_DELETE_ALL, DELETE_ALL, C,
	REQUEST(DELETE_LINK, CARRIER), REQUEST(DELETE_LINK, CARRIER), 0,
	no_more_time,
	ERR(34), carrier_fails,
	ERR(34), carrier_fails,
	smcr_llc_send_delete_all, nothing, nothing,
	no_attempt),
};
/* clang-format on */

_Static_assert(__COUNTER__ - BEFORE_ROWS - 1 == SMCR_LLC_NUM_STEPS, "each step has one row");

const struct smcr_llc_step_row *smcr_llc_step_row(enum smcr_llc_step step)
{
	return &rows[step];
}

enum smcr_llc_exchange smcr_llc_exchange_of(enum smcr_llc_step step)
{
	return rows[step].exchange;
}

bool smcr_llc_awaits(const struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_flow *flow = link->lgr->llc;
	const struct smcr_llc_step_msg *awaited = &rows[flow->step].awaited;
	return awaited->type == msg->type && awaited->reply == msg->reply &&
	       link == (awaited->on == SMCR_ON_SUBJECT ? flow->subject : flow->carrier);
}
