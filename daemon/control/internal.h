/* SPDX-License-Identifier: MIT */
/** @file internal.h What the files of daemon/control share. */
#ifndef SMCRD_CONTROL_INTERNAL_H
#define SMCRD_CONTROL_INTERNAL_H

#include <jansson.h>

#include "daemon/control/control.h"

/** Why a request is refused or a command failed. */
struct refusal {
	const char *code;      /* short, stable */
	int error;             /* positive errno */
	const char *parameter; /* the parameter that is wrong, or NULL */
	json_t *errors;        /* a sentence for each error; NULL: there is only `text` */
	char text[256];
};

/** Fill in a refusal. @return NULL, which methods can return as their result */
void *refuse(struct refusal *refusal, int error, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** A caller that waits for a reply that comes later. */
struct waiter {
	uint64_t request; /* 0: nobody */
	void (*reply)(void *ctx, uint64_t request, char *reply);
	void *ctx;
};

struct waiter waiter_of(const struct clients_asker *asker);
/** Reply to a caller that waits. @param result taken over; NULL: refused */
void waiter_reply(const struct waiter *waiter, json_t *result, const struct refusal *refusal);

/* page.c */

#define PAGE_PLACE_LEN 40

/** One part (page) of a view. */
struct page {
	const char *after;  /* where the part before ended; NULL: this is the first one */
	bool administrator; /* the caller is one: some things are not shown to others */
	uid_t uid;          /* who asks */
	const struct params *params;
	unsigned int rows;         /* rows so far */
	unsigned int looked;       /* how many rows were checked, shown or not */
	bool incomplete;           /* rows are missing because there was no memory */
	bool wait;                 /* there are no rows yet: wait; the view returns NULL */
	char next[PAGE_PLACE_LEN]; /* where this part ends; "": it is the last one */
};

/**
 * Find where the part begins.
 * @param sections     names of the lists that the view has, in the order in which it shows them
 * @param ret_section  the list to begin with
 * @param ret_number   begin behind the row with this number; 0: with the first row
 * @return false: the refusal is filled in
 */
bool page_begin(const struct page *page, const char *const *sections, size_t num_sections,
		size_t *ret_section, uint64_t *ret_number, struct refusal *refusal);
/** End the part: the next one begins behind the row with this number. */
void page_end(struct page *page, const char *section, uint64_t number);
/**
 * Add a row to the list of a section.
 * @param row     ownership passes; NULL: there was no memory for the row
 * @param number  number of the row, larger than those before: the next part may begin behind it
 * @return false: the page is full
 */
bool page_add(struct page *page, json_t *list, json_t *row, const char *section, uint64_t number);

/**
 * Leave a row out that does not match the filter.
 * @return false: the page has checked enough rows
 */
bool page_skip(struct page *page, const char *section, uint64_t number);

/* params.c */

/** Parameters of methods; a set of parameters is made of bits 1 << PARAM_.. */
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
	PARAM_ID,
	NUM_PARAMS,
};

/** Values of parameters; 0, false or NULL if not given. Texts belong to the request. */
struct params {
	unsigned int given; /* bits 1 << PARAM_.. */
	uint32_t linkgroup;
	uint8_t link, from, to;
	bool disorderly, data, wait;
	const char *name, *rule, *peer, *after, *local, *program, *mode, *state, *value;
	uint16_t port;
	uint32_t pid, uid, id;
};

/**
 * Check and read the "params" of a request (NULL: it has none). A parameter that is not in
 * `required` or `optional` is refused, so that a client of a later version learns that it has no
 * effect.
 * @return true, or false with the refusal filled in
 */
bool params_take(const json_t *json, unsigned int required, unsigned int optional,
		 struct params *ret_params, struct refusal *refusal);

/* filter.c */

/** Which rows of a view are wanted. */
struct filter {
	struct smcr_addr peer; /* family 0: any peer */
	uint16_t port;         /* of either side; 0: any */
	uint32_t linkgroup;    /* 0: any */
	bool by_pid, by_uid;
	uint32_t pid, uid;
	const char *mode, *state; /* one of the names; NULL: any */
};

/**
 * Read the filter from the parameters of a request.
 * @param state_name  names the states from 0 on, then "unknown"; NULL if the rows have no state
 * @return false: the refusal is filled in
 */
bool filter_take(const struct params *params, const char *(*state_name)(int state),
		 struct filter *ret_filter, struct refusal *refusal);
/** Does the filter let this peer pass? */
bool filter_peer(const struct filter *filter, const struct smcr_addr *peer);
/** Does the filter let this link group pass? 0: the row has none. */
bool filter_group(const struct filter *filter, uint32_t linkgroup);
/** Does the filter let a row with these ports pass? */
bool filter_port(const struct filter *filter, uint16_t local, uint16_t peer);
/** Does `wanted`, a member of the filter, let this name pass? */
bool filter_name(const char *wanted, const char *name);

/* ueids.c: these do what they are asked for at once. @return the result or NULL: refused */
json_t *ueid_add(struct control *control, const struct params *params, struct refusal *refusal);
json_t *ueid_remove(struct control *control, const struct params *params, struct refusal *refusal);

/* policies.c: likewise */

/** An address as text, without a port; an IPv4-mapped one becomes IPv4. `name` is the parameter.
 * @return false: the refusal is filled in */
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
	const char *text; /* the beginning of a sentence: what is wanted, and by whom */
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

/* smbdirect.c: likewise at once */

/** End a connection of SMB Direct. */
json_t *smbdirect_disconnect(struct control *control, const struct params *params,
			     struct refusal *refusal);

/* configs.c */
json_t *config_set(struct control *control, const struct params *params, struct refusal *refusal);
/** Read the configuration again for the caller. */
json_t *config_reload(struct control *control, const struct command_call *call, bool *ret_later);
/** Nobody waits for this request any more. Does nothing if it is not for a reload. */
void config_reload_forget(struct control *control, uint64_t request);
void config_reload_forget_all(struct control *control);

/* capture.c */

/** Write a capture into the memory that came with the request, until the caller is gone. Once it
 * has begun, a reply comes only when its link group ends. */
json_t *capture_start(struct control *control, const struct command_call *call, bool *ret_later);
/** Nobody reads the capture of this request any more. Does nothing if there is none. */
void capture_forget(struct control *control, uint64_t request);
void capture_forget_all(struct control *control);

/* cm_check.c */

/** Make an RDMA connection to the peer and port, and end it: the reply tells how far it has come.
 */
json_t *cm_check_start(struct control *control, const struct command_call *call, bool *ret_later);
/** @return false: that request is none of these */
bool cm_check_forget(struct control *control, uint64_t request);
void cm_check_forget_all(struct control *control);

/* commands.c */

#define COMMAND_TEXT_LEN 220

/**
 * Start a command of the engine for the caller.
 * @param text  what is wanted, and by whom; copied
 * @return true: the reply comes later; or false with the refusal filled in
 */
bool command_start(struct control *control, const struct clients_asker *asker,
		   enum smcr_command_type type, const struct params *params, const char *text,
		   struct refusal *refusal);

#endif
