/* SPDX-License-Identifier: MIT */
/** @file internal.h What the files of this room share. */
#ifndef SMCRD_CONTROL_INTERNAL_H
#define SMCRD_CONTROL_INTERNAL_H

#include <jansson.h>

#include "daemon/control/control.h"

/** Why a request is refused or a command failed. */
struct refusal {
	const char *code;      /* short, stable */
	int error;             /* positive errno */
	const char *parameter; /* the one to blame, or NULL */
	json_t *errors;        /* sentences, one each thing that is wrong; NULL: the text has it */
	char text[256];
};

/** @return NULL, so that methods without a result can return this */
void *refuse(struct refusal *refusal, int error, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** Who waits for a reply that comes later. */
struct waiter {
	uint64_t request; /* 0: nobody */
	void (*reply)(void *ctx, uint64_t request, char *reply);
	void *ctx;
};

struct waiter waiter_of(const struct clients_asker *asker);
/** Somebody waits, but not from now on. @param result  taken over; NULL: refused */
void waiter_reply(const struct waiter *waiter, json_t *result, const struct refusal *refusal);

/* page.c */

#define PAGE_PLACE_LEN 40

/** A part of what a view shows. */
struct page {
	const char *after;  /* where the part before has ended; NULL: this is the first one */
	bool administrator; /* asks: some things are not for everybody */
	uid_t uid;          /* who asks */
	const struct params *params;
	unsigned int rows;         /* so far */
	unsigned int looked;       /* at how many, shown or not */
	bool incomplete;           /* for want of memory */
	bool wait;                 /* there is nothing yet; the view returns NULL */
	char next[PAGE_PLACE_LEN]; /* where this part has ended; "": nothing is left */
};

/**
 * Where does it begin?
 * @param sections     names of the lists that the view has, in the order in which it shows them
 * @param ret_section  the one to begin with
 * @param ret_number   behind the row of this number; 0: with the first one
 * @return false: the refusal is filled in
 */
bool page_begin(const struct page *page, const char *const *sections, size_t num_sections,
		size_t *ret_section, uint64_t *ret_number, struct refusal *refusal);
/** The next part begins behind the row of this number. */
void page_end(struct page *page, const char *section, uint64_t number);
/**
 * Add a row to the list of a section.
 * @param row     taken over; NULL: there was no memory for it
 * @param number  the row's, larger than those before: the next part begins behind it
 * @return may there be another? If not, the page is full
 */
bool page_add(struct page *page, json_t *list, json_t *row, const char *section, uint64_t number);

/**
 * Leave a row out that does not match the filter.
 * @return may there be another? If not, the page has looked at enough of them
 */
bool page_skip(struct page *page, const char *section, uint64_t number);

/* params.c */

/** Parameters that methods take; a set of them is made of bits 1 << PARAM_.. */
enum param_name {
	PARAM_LINKGROUP,
	PARAM_LINK,
	PARAM_FROM,
	PARAM_TO,
	PARAM_DISORDERLY,
	PARAM_NAME,
	PARAM_RULE,
	PARAM_PEER,
	PARAM_PORT,
	PARAM_AFTER,
	PARAM_LOCAL,
	PARAM_PROGRAM,
	PARAM_PID,
	PARAM_UID,
	PARAM_MODE,
	PARAM_STATE,
	PARAM_VALUE,
	PARAM_DATA,
	PARAM_WAIT,
	NUM_PARAMS,
};

/** Their values; 0, false or NULL if not given. Text belongs to the request. */
struct params {
	unsigned int given; /* bits 1 << PARAM_.. */
	uint32_t linkgroup;
	uint8_t link, from, to;
	bool disorderly, data, wait;
	const char *name, *rule, *peer, *after, *local, *program, *mode, *state, *value;
	uint16_t port;
	uint32_t pid, uid;
};

/**
 * Check and take the "params" of a request (NULL: it has none). What is not in `required` or
 * `optional` is refused, so that a client of a later version learns that it would be ignored.
 * @return true, or false with the refusal filled in
 */
bool params_take(const json_t *json, unsigned int required, unsigned int optional,
		 struct params *ret_params, struct refusal *refusal);

/* filter.c */

/** Which rows of a view are wanted. */
struct filter {
	struct smcr_addr peer; /* family 0: of any */
	uint16_t port;         /* of either side; 0: any */
	uint32_t linkgroup;    /* 0: any */
	bool by_pid, by_uid;
	uint32_t pid, uid;
	const char *mode, *state; /* one of the names; NULL: any */
};

/**
 * What the parameters of a request ask for.
 * @param state_name  of the numbers from 0 on, then "unknown"; NULL if the rows have no state
 * @return false: the refusal is filled in
 */
bool filter_take(const struct params *params, const char *(*state_name)(int state),
		 struct filter *ret_filter, struct refusal *refusal);
/** Is it about the peer, if one is asked for? */
bool filter_peer(const struct filter *filter, const struct smcr_addr *peer);
/** Is it of the link group, likewise? 0: it is of none. */
bool filter_group(const struct filter *filter, uint32_t linkgroup);
/** Is this the name, likewise? `wanted` is a member of the filter. */
bool filter_name(const char *wanted, const char *name);

/* ueids.c: these do what they are asked for at once. @return the result or NULL: refused */
json_t *ueid_add(struct control *control, const struct params *params, struct refusal *refusal);
json_t *ueid_remove(struct control *control, const struct params *params, struct refusal *refusal);

/* policies.c: likewise */

/** An address as text, without a port. `name` is the parameter. @return false: the refusal is
 * filled in */
bool policy_take_address(const char *text, const char *name, struct smcr_addr *ret_addr,
			 struct refusal *refusal);
json_t *policy_add(struct control *control, const struct params *params, struct refusal *refusal);
json_t *policy_delete(struct control *control, const struct params *params,
		      struct refusal *refusal);
json_t *policy_forget_place(struct control *control, const struct params *params,
			    struct refusal *refusal);

/** A command whose outcome may come later. */
struct command_call {
	const struct clients_asker *asker;
	const struct params *params;
	const char *text; /* what is wanted, and by whom: the beginning of a sentence */
	struct refusal *refusal;
};

/* devices.c: these do what they are asked for at once. @return the result or NULL: refused */
json_t *device_add(struct control *control, const struct params *params, struct refusal *refusal);
json_t *device_remove(struct control *control, const struct params *params,
		      struct refusal *refusal);
json_t *device_drain(struct control *control, const struct params *params, struct refusal *refusal);
json_t *device_enable(struct control *control, const struct params *params,
		      struct refusal *refusal);

/* drain.c */
json_t *drain_begin(struct control *control, const struct command_call *call, bool *ret_later);
json_t *drain_end(struct control *control, const struct params *params, struct refusal *refusal);
/** @return false: that request does not wait for the end of a drain */
bool drain_forget(struct control *control, uint64_t request);
void drain_forget_all(struct control *control);

/* configs.c */
json_t *config_set(struct control *control, const struct params *params, struct refusal *refusal);
/** Read the configuration anew for whoever asks. */
json_t *config_reload(struct control *control, const struct command_call *call, bool *ret_later);
/** Nobody waits for that one any more. Nothing if it is none for a reload. */
void config_reload_forget(struct control *control, uint64_t request);
void config_reload_forget_all(struct control *control);

/* capture.c */

/** Write what comes and goes into the memory that came with the request, until whoever asks has
 *  gone. If it has begun a reply comes only when the link group ends that it is about. */
json_t *capture_start(struct control *control, const struct command_call *call, bool *ret_later);
/** Nobody reads that one any more. Nothing if it is none. */
void capture_forget(struct control *control, uint64_t request);
void capture_forget_all(struct control *control);

/* commands.c */

#define COMMAND_TEXT_LEN 220

/**
 * Start a command of the engine for whoever asks.
 * @param text  what is wanted, and by whom; copied
 * @return true: the reply comes later; or false with the refusal filled in
 */
bool command_start(struct control *control, const struct clients_asker *asker,
		   enum smcr_command_type type, const struct params *params, const char *text,
		   struct refusal *refusal);

#endif
