/* SPDX-License-Identifier: MIT */
#include "daemon/smcr/log_limit.h"

#include <stdio.h>
#include <string.h>

static bool is_free(const struct log_limit *limit, size_t i, int64_t now)
{
	return !limit->places[i].reason || now - limit->places[i].at >= LOG_LIMIT_MS;
}

static bool is_of(const struct log_limit *limit, size_t i, const char *reason,
		  const uint8_t peer[16])
{
	return limit->places[i].reason && !strcmp(limit->places[i].reason, reason) &&
	       !memcmp(limit->places[i].peer, peer, sizeof(limit->places[i].peer));
}

/* Lines without a place pass once a minute, with a hint that the log is not complete: else an
 * attacker with many addresses could hide what others do without a trace. */
static bool rest_passes(struct log_limit *limit, int64_t now, char ret_more[LOG_LIMIT_TEXT])
{
	if (limit->rest.told && now - limit->rest.at < LOG_LIMIT_MS) {
		limit->rest.left_out++;
		return false;
	}
	if (limit->rest.left_out)
		snprintf(ret_more, LOG_LIMIT_TEXT,
			 " (lines about other peers that were left out: %u; there are too many)",
			 limit->rest.left_out);
	else
		snprintf(ret_more, LOG_LIMIT_TEXT,
			 " (not all peers are named for a minute: there are too many)");
	limit->rest.told = true;
	limit->rest.at = now;
	limit->rest.left_out = 0;
	return true;
}

bool log_limit_passes(struct log_limit *limit, const char *reason, const uint8_t peer[16],
		      int64_t now, char ret_more[LOG_LIMIT_TEXT])
{
	size_t place = LOG_LIMIT_PLACES;
	for (size_t i = 0; i < LOG_LIMIT_PLACES; i++) {
		if (is_of(limit, i, reason, peer)) {
			place = i;
			break;
		}
		if (place == LOG_LIMIT_PLACES && is_free(limit, i, now))
			place = i;
	}
	if (place == LOG_LIMIT_PLACES)
		return rest_passes(limit, now, ret_more);
	if (!is_free(limit, place, now)) {
		limit->places[place].left_out++;
		return false;
	}
	ret_more[0] = '\0';
	if (is_of(limit, place, reason, peer) && limit->places[place].left_out)
		snprintf(ret_more, LOG_LIMIT_TEXT, " (and %u time%s before)",
			 limit->places[place].left_out,
			 limit->places[place].left_out == 1 ? "" : "s");
	limit->places[place].reason = reason;
	limit->places[place].at = now;
	limit->places[place].left_out = 0;
	memcpy(limit->places[place].peer, peer, sizeof(limit->places[place].peer));
	return true;
}
