/* SPDX-License-Identifier: MIT */
/**
 * @file letters.h
 * What the event loop and the thread of the bus tell each other, and nothing else is shared by the
 * two: letters in a box for each direction. Whoever puts a letter into a box has it no more.
 *
 * The thread asks with a letter, and the same one comes back with the answer, so that no answer
 * fails for want of memory. How many there are is bounded by what the thread asks: one look at a
 * time, and BUS_MAX_CALLS calls.
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
	LETTER_LOOK, /* something is to be shown; the thread waits for it */
	LETTER_CALL, /* a method is called; the answer comes when it has ended */
	LETTER_GONE, /* nobody waits for the answer to that call any more */
	LETTER_TOLD, /* what has become of the connection to the bus */
	/* From the loop: */
	LETTER_LOOKED,
	LETTER_ANSWER,
};

/** What has become of the connection to the bus. */
enum bus_told {
	BUS_TOLD_NOTHING,
	BUS_TOLD_ABSENT,  /* it cannot be reached */
	BUS_TOLD_GONE,    /* likewise, after smcrd had its name */
	BUS_TOLD_REFUSED, /* the name */
	BUS_TOLD_QUEUED,  /* another program has the name */
	BUS_TOLD_SERVED,  /* smcrd has its name */
};

struct letter {
	enum letter_kind kind;
	uint64_t request;  /* its number, of a call and a look */
	json_t *json;      /* the request; then the whole reply, or NULL if there is none */
	char *text;        /* a reply that came later, in place of json; why, of what is told */
	struct ucred cred; /* who asks */
	gid_t *groups;     /* its groups */
	size_t num_groups;
	enum bus_told told;
	struct letter *prev, *next;
};

/** @return zeroed, or NULL: there is no memory */
struct letter *letter_new(enum letter_kind kind);
/** NULL is allowed. */
void letter_free(struct letter *letter);

struct box {
	pthread_mutex_t lock; /* of the list, for as long as it takes to put and take one */
	struct letter *letters;
	int fd; /* readable once something was put in; -1: there is no box */
};

/** @return 0 or a negative errno */
int box_open(struct box *box);
/** Frees the letters in it. */
void box_close(struct box *box);
void box_put(struct box *box, struct letter *letter);
/** Make fd readable, for what is no letter. */
void box_poke(const struct box *box);
/** Let fd be readable no more, until something is put in. Take letters after this. */
void box_heard(const struct box *box);
/** The oldest one. @return NULL: it is empty */
struct letter *box_take(struct box *box);
/** The oldest one of a kind. @return NULL: there is none */
struct letter *box_take_kind(struct box *box, enum letter_kind kind);

#endif
