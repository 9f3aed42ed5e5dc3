/* SPDX-License-Identifier: MIT */
/**
 * @file records.h
 * Inputs that are lists of steps of RECORD_LEN bytes, and how libFuzzer changes such a list: mostly
 * by whole steps, so that the steps behind a change keep their meaning. A target includes this
 * once, and its LLVMFuzzerTestOneInput() reads steps with record_next().
 */
#ifndef SMCRD_TESTS_FUZZ_RECORDS_H
#define SMCRD_TESTS_FUZZ_RECORDS_H

#include <string.h>

#include "tests/fuzz/fuzz.h"

#define RECORD_LEN   8
#define RECORDS_MOST 256 /* longer lists take more time and find no more */

/** A step. The target decides what the bytes mean. Missing bytes are 0. */
struct record {
	uint8_t what, who;
	uint16_t small;
	uint32_t large;
};
_Static_assert(sizeof(struct record) == RECORD_LEN, "steps are read as they lie there");

struct records {
	const uint8_t *at;
	size_t left;
};

/** Read the next step. @return false: there is none */
static inline bool record_next(struct records *records, struct record *ret_record)
{
	size_t len = records->left < RECORD_LEN ? records->left : RECORD_LEN;
	*ret_record = (struct record){ 0 };
	if (len == 0)
		return false;
	memcpy(ret_record, records->at, len);
	records->at += len;
	records->left -= len;
	return true;
}

/** libFuzzer's own changes, within `size` bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
/** libFuzzer calls this instead of making its own changes. @return the new size */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
/** The same, when libFuzzer makes one input of two. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
				 uint8_t *out, size_t max_size, unsigned int seed);

static uint32_t record_dice(uint64_t *state, size_t sides)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return sides ? (uint32_t)((*state >> 33) % sides) : 0;
}

/* Repeat steps of the list at another place. */
static size_t record_repeat(uint8_t *data, size_t steps, size_t most, uint64_t *state)
{
	size_t from = record_dice(state, steps), to = record_dice(state, steps + 1);
	size_t count = 1 + record_dice(state, 4);
	uint8_t copy[4 * RECORD_LEN];
	if (count > steps - from)
		count = steps - from;
	if (count > most - steps)
		count = most - steps;
	memcpy(copy, data + from * RECORD_LEN, count * RECORD_LEN);
	memmove(data + (to + count) * RECORD_LEN, data + to * RECORD_LEN,
		(steps - to) * RECORD_LEN);
	memcpy(data + to * RECORD_LEN, copy, count * RECORD_LEN);
	return steps + count;
}

static size_t record_remove(uint8_t *data, size_t steps, uint64_t *state)
{
	size_t from = record_dice(state, steps), count = 1 + record_dice(state, 4);
	if (count > steps - from)
		count = steps - from;
	memmove(data + from * RECORD_LEN, data + (from + count) * RECORD_LEN,
		(steps - from - count) * RECORD_LEN);
	return steps - count;
}

static void record_swap(uint8_t *data, size_t steps, uint64_t *state)
{
	uint8_t *a = data + record_dice(state, steps) * RECORD_LEN;
	uint8_t *b = data + record_dice(state, steps) * RECORD_LEN;
	uint8_t copy[RECORD_LEN];
	memcpy(copy, a, RECORD_LEN);
	memmove(a, b, RECORD_LEN);
	memcpy(b, copy, RECORD_LEN);
}

/* Replace a step by a new one: any kind and object, mostly small numbers. */
static void record_renew(uint8_t *data, size_t steps, uint64_t *state)
{
	struct record record = { .what = (uint8_t)record_dice(state, 256),
				 .who = (uint8_t)record_dice(state, 256),
				 .small =
					 (uint16_t)record_dice(state, 1u << record_dice(state, 17)),
				 .large = record_dice(state, 1u << record_dice(state, 31)) };
	memcpy(data + record_dice(state, steps) * RECORD_LEN, &record, RECORD_LEN);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	uint64_t state = seed;
	if (max_size > RECORDS_MOST * RECORD_LEN)
		max_size = RECORDS_MOST * RECORD_LEN;
	if (size > max_size)
		size = max_size;
	size_t steps = size / RECORD_LEN, most = max_size / RECORD_LEN;
	if (most == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	if (steps == 0) {
		memset(data, 0, RECORD_LEN);
		steps = 1;
	}
	switch (record_dice(&state, 8)) {
	case 0:
	case 1:
		if (steps < most)
			steps = record_repeat(data, steps, most, &state);
		break;
	case 2:
		if (steps > 1)
			steps = record_remove(data, steps, &state);
		break;
	case 3: record_swap(data, steps, &state); break;
	case 4:
	case 5: record_renew(data, steps, &state); break;
	case 6: /* change the bytes of one step */
		(void)LLVMFuzzerMutate(data + record_dice(&state, steps) * RECORD_LEN, RECORD_LEN,
				       RECORD_LEN);
		break;
	default: return LLVMFuzzerMutate(data, size, max_size);
	}
	return steps * RECORD_LEN;
}

/* Join the beginning of one input and the end of the other. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
				 uint8_t *out, size_t max_size, unsigned int seed)
{
	uint64_t state = seed;
	size_t most = max_size / RECORD_LEN;
	most = most < RECORDS_MOST ? most : RECORDS_MOST;
	size_t head = record_dice(&state, a_size / RECORD_LEN + 1);
	size_t from = record_dice(&state, b_size / RECORD_LEN + 1);
	size_t tail = b_size / RECORD_LEN - from;
	head = head < most ? head : most;
	tail = tail < most - head ? tail : most - head;
	memcpy(out, a, head * RECORD_LEN);
	memcpy(out + head * RECORD_LEN, b + from * RECORD_LEN, tail * RECORD_LEN);
	return (head + tail) * RECORD_LEN;
}

#endif
