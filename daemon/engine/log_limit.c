/* SPDX-License-Identifier: MIT */
#include "daemon/engine/log_limit.h"

#include <stddef.h>
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

bool log_limit_passes(struct log_limit *limit, const char *reason, const uint8_t peer[16],
		      int64_t now, unsigned int *ret_left_out)
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
		return false;
	if (!is_free(limit, place, now)) {
		limit->places[place].left_out++;
		return false;
	}
	*ret_left_out = is_of(limit, place, reason, peer) ? limit->places[place].left_out : 0;
	limit->places[place].reason = reason;
	limit->places[place].at = now;
	limit->places[place].left_out = 0;
	memcpy(limit->places[place].peer, peer, sizeof(limit->places[place].peer));
	return true;
}
