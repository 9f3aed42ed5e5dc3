/* SPDX-License-Identifier: MIT */
/**
 * @file log_limit.h
 * What a peer does may fill the log. So of each peer and reason one line a minute is written, and
 * the next one tells how many were left out. One host may have very many addresses: so all together
 * have a limit too, beyond which one line a minute is written, whoever it is about. One thread.
 */
#ifndef SMCRD_ENGINE_LOG_LIMIT_H
#define SMCRD_ENGINE_LOG_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LIMIT_MS     60000
#define LOG_LIMIT_PLACES 128 /* so many lines a minute, of all peers together, and the one */
#define LOG_LIMIT_TEXT   80

struct log_limit {
	struct {
		const char *reason; /* NULL: a free place */
		uint8_t peer[16];
		int64_t at; /* when a line was written */
		unsigned int left_out;
	} places[LOG_LIMIT_PLACES];
	struct {
		bool told;
		int64_t at;
		unsigned int left_out;
	} rest; /* for whom there was no place */
};

/**
 * May a line be written?
 * @param limit   zeros at first
 * @param reason  what it is about; static storage
 * @param peer    an address of 16 bytes
 * @param now     milliseconds of any clock that only goes forward
 * @param ret_more  if it may: what the line ends with: how many were left out since the last one
 */
bool log_limit_passes(struct log_limit *limit, const char *reason, const uint8_t peer[16],
		      int64_t now, char ret_more[LOG_LIMIT_TEXT]);

#endif
