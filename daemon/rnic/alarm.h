/* SPDX-License-Identifier: MIT */
/**
 * @file alarm.h
 * A timer on an event loop that is precise to microseconds, for deadlines that move all the time
 * and are rarely reached: moving one to a later time needs no system call. libevent's own timers
 * are as precise only if every turn of the loop sets a kernel timer; otherwise they may be some
 * milliseconds late.
 *
 * Used from the event loop's thread. The callback may do anything, even free the alarm.
 */
#ifndef SMCRD_RNIC_ALARM_H
#define SMCRD_RNIC_ALARM_H

#include <stdint.h>

struct event_base;
struct alarm;

/** @return microseconds of CLOCK_MONOTONIC: the time that alarm_set() takes. Thread safe. */
uint64_t alarm_now(void);

/** @return 0 or a negative errno; the alarm is to be freed by alarm_free() */
int alarm_new(struct event_base *base, void (*callback)(void *ctx), void *ctx,
	      struct alarm **ret_alarm);

/** NULL is allowed. */
void alarm_free(struct alarm *alarm);

/**
 * Call back once, at this time or as soon as possible afterwards. Replaces the time that was set
 * before.
 * @param at  as of alarm_now()
 */
void alarm_set(struct alarm *alarm, uint64_t at);

/** Do not call back. */
void alarm_clear(struct alarm *alarm);

#endif
