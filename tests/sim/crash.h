/* SPDX-License-Identifier: MIT */
/**
 * @file crash.h
 * A run that crashes, gets a sanitizer report or does not end says with which command it can be
 * repeated.
 */
#ifndef SMCRD_TESTS_SIM_CRASH_H
#define SMCRD_TESTS_SIM_CRASH_H

#include <stdint.h>

/** To be called once. @param program  of the command */
void crash_catch(const char *program);
/** A run begins. It may take five minutes of processor time. `scenario` has to stay. */
void crash_run(const char *scenario, uint64_t seed);

#endif
