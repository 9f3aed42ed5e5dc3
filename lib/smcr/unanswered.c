/* SPDX-License-Identifier: MIT */
#include "lib/smcr/unanswered.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PLACE_BITS  6
#define INTERVAL_MS 100
#define STREAK      16 /* answers without the option until the server is asked seldom */

/* A place is one number, so that it is changed at once. */
#define UNASKED_BITS 6
#define STREAK_BITS  5
#define TIME_BITS    25 /* milliseconds; they begin anew every nine hours */
#define TAG_BITS     28

_Static_assert(UNASKED_BITS + STREAK_BITS + TIME_BITS + TAG_BITS == 64, "a place is 64 bits");
_Static_assert(IPC_UNASKED_MAX < 1 << UNASKED_BITS && STREAK < 1 << STREAK_BITS, "too few bits");

#define MASK(bits) ((UINT64_C(1) << (bits)) - 1)

struct place {
	uint64_t tag;     /* which of the servers of this place */
	uint64_t asked;   /* when it was asked last */
	uint32_t streak;  /* how many answers in a row had no option */
	uint32_t unasked; /* connections since then that went without a question */
};

static _Atomic uint64_t places[1 << PLACE_BITS]; /* 0: empty */
/* When a server that is asked seldom was last asked, in milliseconds; 0: there was none. */
static _Atomic uint64_t latest;

static struct place unpack(uint64_t word)
{
	return (struct place){
		.unasked = (uint32_t)(word & MASK(UNASKED_BITS)),
		.streak = (uint32_t)(word >> UNASKED_BITS & MASK(STREAK_BITS)),
		.asked = word >> (UNASKED_BITS + STREAK_BITS) & MASK(TIME_BITS),
		.tag = word >> (UNASKED_BITS + STREAK_BITS + TIME_BITS),
	};
}

static uint64_t pack(const struct place *place)
{
	return place->unasked | (uint64_t)place->streak << UNASKED_BITS |
	       place->asked << (UNASKED_BITS + STREAK_BITS) |
	       place->tag << (UNASKED_BITS + STREAK_BITS + TIME_BITS);
}

static uint64_t since(const struct place *place, uint64_t now)
{
	return (now - place->asked) & MASK(TIME_BITS);
}

/* ---- finding a place */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 29;
}

struct found {
	_Atomic uint64_t *word;
	uint64_t tag;
};

static struct found find(const union ipc_addr *to)
{
	uint64_t words[2] = { 0 }, hash = to->sa.sa_family;
	if (to->sa.sa_family == AF_INET) {
		words[0] = (uint64_t)to->in.sin_addr.s_addr << 16 | to->in.sin_port;
	} else if (to->sa.sa_family == AF_INET6) {
		memcpy(words, &to->in6.sin6_addr, sizeof(words));
		hash = mix(hash, (uint64_t)to->in6.sin6_scope_id << 16 | to->in6.sin6_port);
	} else {
		return (struct found){ 0 };
	}
	hash = mix(mix(hash, words[0]), words[1]);
	return (struct found){ .word = &places[hash >> (64 - PLACE_BITS)],
			       .tag = hash >> (64 - PLACE_BITS - TAG_BITS) & MASK(TAG_BITS) };
}

/* ---- */

uint64_t pre_unanswered_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

bool pre_unanswered_any(void)
{
	uint64_t at = atomic_load_explicit(&latest, memory_order_relaxed);
	return at != 0 && pre_unanswered_now() - at < INTERVAL_MS;
}

/* @return false: the place stays as it is */
typedef bool edit_fn(struct place *place, uint64_t now);

/* Edit the place of a server. @return false: the server has no place, or `edit` has left it */
static bool edit_place(const union ipc_addr *to, edit_fn *edit, uint64_t now)
{
	const struct found found = find(to);
	if (!found.word)
		return false;
	uint64_t word = atomic_load(found.word);
	for (;;) {
		struct place place = unpack(word);
		if (place.tag != found.tag || !edit(&place, now))
			return false;
		if (atomic_compare_exchange_weak(found.word, &word, pack(&place)))
			return true;
	}
}

static bool skip(struct place *place, uint64_t now)
{
	if (place->streak < STREAK || since(place, now) >= INTERVAL_MS ||
	    place->unasked >= IPC_UNASKED_MAX)
		return false;
	place->unasked++;
	return true;
}

bool pre_unanswered_skip(const union ipc_addr *to, uint64_t now)
{
	return edit_place(to, skip, now);
}

static bool uncount(struct place *place, uint64_t now)
{
	(void)now;
	if (place->unasked == 0)
		return false;
	place->unasked--;
	return true;
}

void pre_unanswered_uncount(const union ipc_addr *to)
{
	edit_place(to, uncount, 0);
}

/* Is the answer before this one so short ago that they are in a row? If connections went without a
 * question because of it, the next question comes after the interval. */
static bool in_a_row(const struct place *place, uint64_t now)
{
	return since(place, now) < (place->unasked ? 2 : 1) * INTERVAL_MS;
}

/* Make the place that of the server. @return false: it stays with another one, which is asked
 * seldom at present */
static bool take_place(struct place *place, uint64_t tag, uint64_t now)
{
	if (place->tag == tag)
		return true;
	if (place->streak == STREAK && in_a_row(place, now))
		return false;
	*place = (struct place){ .tag = tag };
	return true;
}

/* @return true: smcrd has to be asked whether it really was the server that has not answered */
static bool note_plain(struct place *place, uint64_t now)
{
	const bool row = in_a_row(place, now);
	const bool due = place->unasked > 0 || (row && place->streak >= STREAK - 1);
	if (!row)
		place->streak = 1;
	else if (place->streak < STREAK - 1) /* the last step is pre_unanswered_confirm() */
		place->streak++;
	place->asked = now & MASK(TIME_BITS);
	place->unasked = 0;
	return due;
}

bool pre_unanswered_plain(const union ipc_addr *to, uint64_t now, uint32_t *ret_number)
{
	const struct found found = find(to);
	*ret_number = 0;
	if (!found.word)
		return false;
	uint64_t word = atomic_load(found.word);
	for (;;) {
		struct place place = unpack(word);
		if (!take_place(&place, found.tag, now))
			return false;
		const uint32_t number = place.unasked;
		const bool due = note_plain(&place, now);
		if (!atomic_compare_exchange_weak(found.word, &word, pack(&place)))
			continue;
		if (place.streak == STREAK)
			atomic_store_explicit(&latest, now, memory_order_relaxed);
		*ret_number = number;
		return due;
	}
}

static bool confirm(struct place *place, uint64_t now)
{
	(void)now;
	if (place->streak != STREAK - 1)
		return false;
	place->streak = STREAK;
	return true;
}

void pre_unanswered_confirm(const union ipc_addr *to, uint64_t now)
{
	if (edit_place(to, confirm, now))
		atomic_store_explicit(&latest, now, memory_order_relaxed);
}

static bool break_streak(struct place *place, uint64_t now)
{
	(void)now;
	if (place->streak == 0)
		return false;
	place->streak = 0;
	return true;
}

void pre_unanswered_break(const union ipc_addr *to)
{
	edit_place(to, break_streak, 0);
}

uint32_t pre_unanswered_end(const union ipc_addr *to)
{
	const struct found found = find(to);
	if (!found.word)
		return 0;
	uint64_t word = atomic_load(found.word);
	while (word != 0 && unpack(word).tag == found.tag)
		if (atomic_compare_exchange_weak(found.word, &word, 0))
			return unpack(word).unasked;
	return 0;
}

/* ---- forks */

static void on_fork_in_child(void)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		atomic_fetch_and(&places[i], ~MASK(UNASKED_BITS));
}

void pre_unanswered_begin(void)
{
	pthread_atfork(NULL, NULL, on_fork_in_child);
}
