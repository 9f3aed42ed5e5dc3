/* SPDX-License-Identifier: MIT */
/**
 * @file llc_steps.h
 * The steps of the exchange about links. The table of what each step means is in llc_steps.c.
 */
#ifndef SMCRD_SMCR_LLC_STEPS_H
#define SMCRD_SMCR_LLC_STEPS_H

#include "daemon/smcr/internal.h"

/** Where the exchange about links is. S: server, C: client. */
enum smcr_llc_step {
	SMCR_LLC_IDLE,
	/* first contact, link 1 */
	SMCR_LLC_S_CONFIRM_FIRST,
	SMCR_LLC_C_AWAIT_CONFIRM_FIRST,
	SMCR_LLC_C_AWAIT_ADD,
	/* ADD LINK: another link */
	SMCR_LLC_S_ADD,
	SMCR_LLC_S_ADD_CONT,
	SMCR_LLC_S_CONFIRM_ADDED,
	SMCR_LLC_C_AWAIT_ADD_CONT,
	SMCR_LLC_C_AWAIT_NEXT_CONT,
	SMCR_LLC_C_AWAIT_CONFIRM_ADDED,
	/* DELETE LINK of one link */
	SMCR_LLC_S_DELETE,
	SMCR_LLC_S_DELETE_ADDED,
	SMCR_LLC_C_AWAIT_DELETE,
	/* DELETE LINK of all: the end of the group */
	SMCR_LLC_S_DELETE_ALL,
	SMCR_LLC_C_AWAIT_DELETE_ALL,
	SMCR_LLC_NUM_STEPS,
};

/** Which exchange a step belongs to. */
enum smcr_llc_exchange {
	SMCR_EXCHANGE_NONE,
	SMCR_EXCHANGE_FIRST_LINK,  /* first contact until ADD LINK */
	SMCR_EXCHANGE_ADD_LINK,    /* ADD LINK to CONFIRM LINK */
	SMCR_EXCHANGE_DELETE_LINK, /* of one link */
	SMCR_EXCHANGE_DELETE_ALL,
};

/** The link that a message of an exchange uses: CONFIRM LINK goes on the new link, all others on
 * the carrier (LLC-6). */
enum smcr_llc_on {
	SMCR_ON_CARRIER, /* the link that the exchange runs on */
	SMCR_ON_SUBJECT, /* the link that the exchange is about */
};

struct smcr_llc_step_msg {
	uint8_t type; /* 0: there is no such message */
	bool reply;
	enum smcr_llc_on on;
};

/** How an exchange has ended. */
enum smcr_llc_outcome {
	SMCR_LLC_SUCCEEDED,
	SMCR_LLC_FAILED,
	SMCR_LLC_GIVEN_UP, /* the peer does not go on */
};

/** What to do when the awaited message does not come. */
struct smcr_llc_recovery {
	enum smcr_row row; /* row of C.7.1 that this is; SMCR_NUM_ROWS: none */
	void (*act)(struct smcr_lgr *lgr);
};

/** One step. No function pointer is NULL: doing nothing is a function too. */
struct smcr_llc_step_row {
	unsigned int number; /* the step, to check that each step has a row */
	enum smcr_llc_exchange exchange;
	unsigned int roles;            /* roles that can be at this step: SMCR_ROW_S, SMCR_ROW_C */
	struct smcr_llc_step_msg sent; /* our message that led here; its completion is awaited */
	struct smcr_llc_step_msg awaited; /* the peer's message that leads on */
	/** Version 2: how long to wait for that in microseconds, before our message is repeated; 0:
	 * the usual time. */
	uint64_t wait_v2;
	/** The time is over: does the peer get more time? @return true: yes, do nothing else */
	bool (*spare)(struct smcr_lgr *lgr);
	struct smcr_llc_recovery first; /* when the time is over, in first contact */
	struct smcr_llc_recovery later; /* when the time is over, in an open group */
	void (*on_carrier_lost)(
		struct smcr_lgr *lgr); /* the carrier has failed, in an open group */
	void (*on_subject_lost)(
		struct smcr_lgr *lgr); /* the subject has failed, the carrier has not */
	/** The carrier has answered TEST LINK, so it is not to blame for a missing answer. */
	void (*on_carrier_answers)(struct smcr_lgr *lgr);
	/** The exchange ends at this step. If it has not succeeded, `why` tells operators why. */
	void (*on_end)(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why);
};

/** The row of a step. */
const struct smcr_llc_step_row *smcr_llc_step_row(enum smcr_llc_step step);
/** Which exchange a step belongs to. */
enum smcr_llc_exchange smcr_llc_exchange_of(enum smcr_llc_step step);
/** Is this the message that the exchange about links waits for, on the right link? */
bool smcr_llc_awaits(const struct smcr_link *link, const struct smcr_llc_msg *msg);

#endif
