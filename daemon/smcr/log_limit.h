/* SPDX-License-Identifier: MIT */
/**
 * @file log_limit.h
 * Limits of the log, which a peer could fill. One line a minute is written for each peer and
 * reason; the next one tells how many were left out. As a host may have very many addresses, all
 * peers together have a limit too: beyond it one line a minute is written, for any peer. For use by
 * one thread.
 */
#ifndef SMCRD_SMCR_LOG_LIMIT_H
#define SMCRD_SMCR_LOG_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LIMIT_MS     60000
#define LOG_LIMIT_PLACES 128 /* lines a minute of all peers together, and one */
#define LOG_LIMIT_TEXT   80

struct log_limit {
	struct {
		const char *reason; /* NULL: a free place */
		uint8_t peer[16];
		int64_t at; /* when the last line was written */
		unsigned int left_out;
	} places[LOG_LIMIT_PLACES];
	struct {
		bool told;
		int64_t at;
		unsigned int left_out;
	} rest; /* lines for which there was no place */
};

/**
 * May a line be written?
 * @param limit   zeros at first
 * @param reason  what the line is about; static storage
 * @param peer    an address of 16 bytes
 * @param now     milliseconds of any clock that only goes forward
 * @param ret_more  if true is returned: end of the line, which tells how many lines were left out
 */
bool log_limit_passes(struct log_limit *limit, const char *reason, const uint8_t peer[16],
		      int64_t now, char ret_more[LOG_LIMIT_TEXT]);

#endif
