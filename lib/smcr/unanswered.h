/* SPDX-License-Identifier: MIT */
/**
 * @file unanswered.h
 * Remembers servers that do not answer the SMC-R option, so that not every connection pays for the
 * claim and the question what was negotiated.
 *
 * A program that connects to such a server again and again (16 answers without the option in a row,
 * less than 100 ms apart) asks it only sometimes from then on: if the last question is 100 ms ago,
 * or 32 connections have gone without one. In between the library makes the program's connect() and
 * nothing else (A72). A program that connects less often asks each time.
 *
 * A table of fixed size without locks and allocation: usable in signal handlers, by any number of
 * threads, and not harmed by a fork at any moment. Servers share its places; a place that is in use
 * is left to the server that has it, and the other one is asked each time. Two servers whose
 * addresses have the same 34 bits of a hash are taken for one, which costs a connection SMC-R at
 * most while both are asked seldom.
 *
 * `now` is pre_unanswered_now(). The family of an address must be AF_INET or AF_INET6, else the
 * functions do nothing and return false or 0.
 */
#ifndef SMCRD_LIB_SMCR_UNANSWERED_H
#define SMCRD_LIB_SMCR_UNANSWERED_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"

/** Begin to notice forks: a child does not count its parent's connections again. Called once. */
void pre_unanswered_begin(void);

/** Milliseconds of CLOCK_MONOTONIC_COARSE, some behind. No system call on the usual hosts. */
uint64_t pre_unanswered_now(void);

/** May there be a server that is not asked? False costs one load in programs that have never met
 * one. */
bool pre_unanswered_any(void);

/** May this connection go without a question? If true it is counted; pre_unanswered_uncount() takes
 * that back. */
bool pre_unanswered_skip(const union ipc_addr *to, uint64_t now);

/** The connection that was counted last has not come about. */
void pre_unanswered_uncount(const union ipc_addr *to);

/**
 * A connection to this server was asked about, and is plain TCP.
 * @param ret_number  how many connections before it went without a question and have not been told;
 *                    they are not counted here any more
 * @return true: smcrd has to say whether the server has not answered, and to be told the number;
 *         then pre_unanswered_confirm() or pre_unanswered_end() has to be called
 */
bool pre_unanswered_plain(const union ipc_addr *to, uint64_t now, uint32_t *ret_number);

/** The server has not answered. */
void pre_unanswered_confirm(const union ipc_addr *to, uint64_t now);

/** The server has answered a connection that is out of reach by now: ask each time again. What was
 * counted stays, to be told later. */
void pre_unanswered_break(const union ipc_addr *to);

/** The server has answered, or it was not asked for another reason: ask each time again.
 * @return how many connections went without a question and have not been told */
uint32_t pre_unanswered_end(const union ipc_addr *to);

#endif
