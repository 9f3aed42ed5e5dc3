/* SPDX-License-Identifier: MIT */
/** @file scrape_request.h What an HTTP request wants of smcrd. Pure. */
#ifndef SMCRD_CONTROL_SCRAPE_REQUEST_H
#define SMCRD_CONTROL_SCRAPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define SCRAPE_PATH        "/metrics"
#define SCRAPE_MAX_REQUEST 4096 /* bytes, with its headers */

enum scrape_request {
	SCRAPE_INCOMPLETE, /* its end has not come */
	SCRAPE_METRICS,
	SCRAPE_TOO_LONG,
	SCRAPE_MALFORMED,
	SCRAPE_OTHER_METHOD,
	SCRAPE_OTHER_PATH,
};

/**
 * Read what has come: up to the end of the headers, which are not looked at. What follows does not
 * count, so that an answer stays the same when more has come.
 * @param ret_head  the answer goes without a body (HEAD)
 */
enum scrape_request scrape_request_read(const char *data, size_t len, bool *ret_head);

#endif
