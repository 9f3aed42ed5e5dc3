/* SPDX-License-Identifier: MIT */
/**
 * @file llc_steps.h
 * What a step of the exchange about links means. The table of all steps is in llc_steps.c.
 */
#ifndef SMCRD_ENGINE_LLC_STEPS_H
#define SMCRD_ENGINE_LLC_STEPS_H

#include "daemon/engine/internal.h"

/** Where the exchange about links is: S server, C client. */
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

/** The link that a message of an exchange goes over: CONFIRM LINK on the link that it concerns, all
 *  others on the carrier (LLC-6). */
enum smcr_llc_on {
	SMCR_ON_CARRIER, /* the link that the exchange runs on */
	SMCR_ON_SUBJECT, /* the link that the exchange is about */
};

struct smcr_llc_step_msg {
	uint8_t type; /* 0: there is no such message */
	bool reply;
	enum smcr_llc_on on;
};

/** How an exchange has ended, for what it was begun for. */
enum smcr_llc_outcome {
	SMCR_LLC_SUCCEEDED,
	SMCR_LLC_FAILED,
	SMCR_LLC_GIVEN_UP, /* the peer does not go on with it */
};

/** What follows when the awaited message does not come. */
struct smcr_llc_recovery {
	enum smcr_row row; /* of C.7.1, for coverage; SMCR_NUM_ROWS: none */
	void (*act)(struct smcr_lgr *lgr);
};

/** One step. Each function is there: "nothing" is a function too. */
struct smcr_llc_step_row {
	unsigned int number; /* rows are counted: each step must have one */
	enum smcr_llc_exchange exchange;
	unsigned int roles;               /* SMCR_ROW_S, SMCR_ROW_C: who can be at this step */
	struct smcr_llc_step_msg sent;    /* our message that led here; its completion is awaited */
	struct smcr_llc_step_msg awaited; /* the peer's message that leads on */
	/** Version 2: the longest time for that, in microseconds, until our message was repeated;
	 *  0: the usual time. */
	uint64_t wait_v2;
	/** The time is over: does a deployed peer get more? @return true: yes, nothing else follows
	 */
	bool (*spare)(struct smcr_lgr *lgr);
	struct smcr_llc_recovery first; /* the time is over, in first contact */
	struct smcr_llc_recovery later; /* the time is over, in a group that is open */
	void (*on_carrier_lost)(struct smcr_lgr *lgr); /* the carrier has failed, group open */
	void (*on_subject_lost)(struct smcr_lgr *lgr); /* the subject has failed, carrier not */
	/** The carrier has answered TEST LINK: it is not at fault if an answer is missing. */
	void (*on_carrier_answers)(struct smcr_lgr *lgr);
	/** The exchange ends at this step. `why` is for operators, where it has not succeeded. */
	void (*on_end)(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why);
};

/** The row of a step. */
const struct smcr_llc_step_row *smcr_llc_step_row(enum smcr_llc_step step);
/** Which exchange a step belongs to. */
enum smcr_llc_exchange smcr_llc_exchange_of(enum smcr_llc_step step);
/** Is it what the exchange about links waits for, on the link where that must come? */
bool smcr_llc_awaits(const struct smcr_link *link, const struct smcr_llc_msg *msg);

#endif
