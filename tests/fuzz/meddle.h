/* SPDX-License-Identifier: MIT */
/**
 * @file meddle.h
 * Let somebody else write into a control page (proto/path/) between any two accesses of the code
 * under test. A target includes that code behind this header, which makes each atomic operation
 * call meddle() before and after. Records say what is written, and when: a record whose `what` is
 * MEDDLE or above belongs to the step behind it. It takes effect in that step, once, or with
 * MEDDLE_ON again and again until the step ends.
 */
#ifndef SMCRD_TESTS_FUZZ_MEDDLE_H
#define SMCRD_TESTS_FUZZ_MEDDLE_H

#include <stdatomic.h>

#include "tests/fuzz/records.h"

#define MEDDLE        0x80
#define MEDDLE_ON     0x40
#define MEDDLERS_MOST 64
#define MEDDLE_MOST   10000 /* changes within a step */

static struct meddlers {
	struct record waiting[MEDDLERS_MOST];
	unsigned int count, next;
	unsigned int accesses, changes; /* since the step began */
	uint32_t passed;                /* accesses since the last change */
} meddlers;

/** Write what the record says, into the page or elsewhere. The target defines this function. */
static void meddle_now(const struct record *record);

static void meddle(void)
{
	meddlers.accesses++;
	meddlers.passed++;
	while (meddlers.next < meddlers.count && meddlers.changes < MEDDLE_MOST &&
	       meddlers.passed > meddlers.waiting[meddlers.next].what % 32u) {
		const struct record *record = &meddlers.waiting[meddlers.next];
		meddlers.passed = 0;
		meddlers.changes++;
		meddle_now(record);
		if (record->what & MEDDLE_ON)
			break;
		meddlers.next++;
	}
}

/* @return true: the record belongs to the step that follows */
static bool meddle_later(const struct record *record)
{
	if (record->what < MEDDLE)
		return false;
	if (meddlers.count < MEDDLERS_MOST)
		meddlers.waiting[meddlers.count++] = *record;
	return true;
}

/** Carry out the steps of an input, each with the changes that belong to it. */
static void meddle_with_steps(const uint8_t *data, size_t size,
			      void (*step)(const struct record *record))
{
	struct records records = { data, size };
	struct record record;
	while (record_next(&records, &record)) {
		if (meddle_later(&record))
			continue;
		meddlers.accesses = meddlers.changes = meddlers.passed = 0;
		step(&record);
		meddlers.count = meddlers.next = 0;
	}
	meddlers.count = meddlers.next = 0; /* drop changes with no step behind them */
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_or
#undef atomic_compare_exchange_strong
#define MEDDLED(operation)                                                                         \
	({                                                                                         \
		meddle();                                                                          \
		__auto_type meddled_result_ = (operation);                                         \
		meddle();                                                                          \
		meddled_result_;                                                                   \
	})
#define atomic_load(at)                 MEDDLED(__c11_atomic_load(at, __ATOMIC_SEQ_CST))
#define atomic_load_explicit(at, order) MEDDLED(__c11_atomic_load(at, order))
#define atomic_store(at, value)                                                                    \
	do {                                                                                       \
		meddle();                                                                          \
		__c11_atomic_store(at, value, __ATOMIC_SEQ_CST);                                   \
		meddle();                                                                          \
	} while (0)
#define atomic_fetch_add(at, n)                 MEDDLED(__c11_atomic_fetch_add(at, n, __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(at, n, order) MEDDLED(__c11_atomic_fetch_add(at, n, order))
#define atomic_fetch_sub(at, n)                 MEDDLED(__c11_atomic_fetch_sub(at, n, __ATOMIC_SEQ_CST))
#define atomic_fetch_or(at, n)                  MEDDLED(__c11_atomic_fetch_or(at, n, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(at, expected, value)                                        \
	MEDDLED(__c11_atomic_compare_exchange_strong(at, expected, value, __ATOMIC_SEQ_CST,        \
						     __ATOMIC_SEQ_CST))

#include "proto/path/page.h"

/**
 * Change a control word. `who` of the record chooses the word and how its new value is made.
 * @param ring  size of the rings; values near it are likely to be meaningful
 */
static void meddle_with_word(struct path_page *page, const struct record *record, uint32_t ring)
{
	static const uint16_t words[] = {
		offsetof(struct path_page, taken),     offsetof(struct path_page, produced),
		offsetof(struct path_page, at_work),   offsetof(struct path_page, looks),
		offsetof(struct path_page, committed), offsetof(struct path_page, completed),
		offsetof(struct path_page, lock),      offsetof(struct path_page, backlog),
		offsetof(struct path_page, polled),
	};
	const size_t known = sizeof(words) / sizeof(words[0]);
	size_t which = record->who % 16;
	size_t at = which < known ? words[which] : record->small % (sizeof(*page) - 8);
	uint64_t word;
	memcpy(&word, (uint8_t *)page + at, sizeof(word));
	switch (record->who / 16 % 8) {
	case 0: word += record->large % (ring + 2); break;
	case 1: word -= record->large % (ring + 2); break;
	case 2: word = record->large; break;
	case 3: word ^= PATH_MARK; break;
	case 4: word = (uint64_t)record->large << 32 | record->large; break;
	case 5: word += 1; break;
	case 6: word -= 1; break;
	case 7: word = (uint64_t)0 - record->small; break;
	}
	memcpy((uint8_t *)page + at, &word, sizeof(word));
}

#endif
