/* SPDX-License-Identifier: MIT */
/**
 * @file letters.h
 * The messages between the event loop and the thread of the bus: letters, in a box for each
 * direction. Putting a letter into a box gives up its ownership.
 *
 * The thread asks with a letter, and the same letter comes back with the answer, so that no answer
 * fails for lack of memory. The number of letters is bounded by what the thread asks: one
 * LETTER_LOOK at a time, and BUS_MAX_CALLS calls.
 */
#ifndef SMCRD_BUS_LETTERS_H
#define SMCRD_BUS_LETTERS_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum letter_kind {
	/* From the thread: */
	LETTER_LOOK, /* a show method; the thread waits for the answer */
	LETTER_CALL, /* any method; the answer comes when it has ended */
	LETTER_GONE, /* nobody waits for the answer to a call any more */
	LETTER_TOLD, /* what has become of the connection to the bus */
	/* From the loop: */
	LETTER_LOOKED,
	LETTER_ANSWER,
};

/** What has become of the connection to the bus. */
enum bus_told {
	BUS_TOLD_NOTHING,
	BUS_TOLD_ABSENT,  /* the bus cannot be reached */
	BUS_TOLD_GONE,    /* the same, after smcrd had its name */
	BUS_TOLD_REFUSED, /* the name */
	BUS_TOLD_QUEUED,  /* another program has the name */
	BUS_TOLD_SERVED,  /* smcrd has its name */
};

struct letter {
	enum letter_kind kind;
	uint64_t request;  /* number of the request, for LOOK and CALL */
	json_t *json;      /* the request; in answers the whole reply, or NULL */
	char *text;        /* a reply that came later, instead of json; for TOLD: why */
	struct ucred cred; /* the caller */
	gid_t *groups;     /* groups of the caller */
	size_t num_groups;
	enum bus_told told;
	struct letter *prev, *next;
};

/** @return zeroed, or NULL: there is no memory */
struct letter *letter_new(enum letter_kind kind);
/** NULL is allowed. */
void letter_free(struct letter *letter);

struct box {
	pthread_mutex_t lock; /* protects the list; held only to put or take a letter */
	struct letter *letters;
	int fd; /* readable once a letter was put in; -1: no box */
};

/** @return 0 or a negative errno */
int box_open(struct box *box);
/** Close the box and free the letters in it. */
void box_close(struct box *box);
void box_put(struct box *box, struct letter *letter);
/** Make fd readable without a letter. */
void box_poke(const struct box *box);
/** Make fd not readable until the next letter. To be called before taking letters. */
void box_heard(const struct box *box);
/** Take the oldest letter. @return NULL: the box is empty */
struct letter *box_take(struct box *box);
/** Take the oldest letter of a kind. @return NULL: there is none */
struct letter *box_take_kind(struct box *box, enum letter_kind kind);

#endif
