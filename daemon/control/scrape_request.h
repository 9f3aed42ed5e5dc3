/* SPDX-License-Identifier: MIT */
/** @file scrape_request.h Parses HTTP requests for scrape.h. Pure functions. */
#ifndef SMCRD_CONTROL_SCRAPE_REQUEST_H
#define SMCRD_CONTROL_SCRAPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define SCRAPE_PATH        "/metrics"
#define SCRAPE_MAX_REQUEST 4096 /* bytes, with its headers */

enum scrape_request {
	SCRAPE_INCOMPLETE, /* the end of the headers has not come */
	SCRAPE_METRICS,
	SCRAPE_TOO_LONG,
	SCRAPE_MALFORMED,
	SCRAPE_OTHER_METHOD,
	SCRAPE_OTHER_PATH,
};

/**
 * Parse what has come, up to the end of the headers, which are not checked. Bytes behind the
 * headers do not count, so the answer does not depend on them.
 * @param ret_head  HEAD: the answer has no body
 */
enum scrape_request scrape_request_read(const char *data, size_t len, bool *ret_head);

#endif
