/* SPDX-License-Identifier: MIT */
/**
 * @file scrape.h
 * HTTP for monitoring systems: GET /metrics on a Unix socket, a TCP address or both, and nothing
 * else. A connection gets one answer.
 *
 * Anybody may be at the other end, so all of it is bounded: connections at a time (the oldest one
 * makes way), connections a second, the length of a request, the time from accept() to the last
 * byte of the answer, and how often the metrics are collected. libevent's evhttp bounds neither
 * connections nor their whole time, so that what little HTTP this takes is done here.
 */
#ifndef SMCRD_CONTROL_SCRAPE_H
#define SMCRD_CONTROL_SCRAPE_H

#include <stddef.h>

struct event_base;
struct scrape;

#define SCRAPE_MAX_CONNS      64
#define SCRAPE_SECONDS        5   /* a connection lasts no longer */
#define SCRAPE_WINDOW_MS      100 /* in this time */
#define SCRAPE_CONNS_A_WINDOW 5   /* so many connections are accepted */
#define SCRAPE_FRESH_MS       250 /* metrics are not collected more often */

struct scrape_params {
	struct event_base *base;
	/** The text of now, malloc'ed, or NULL without memory. From the event loop. */
	char *(*text)(void *ctx);
	void *ctx;
};

/** Where they come in. */
enum scrape_door {
	SCRAPE_LOCAL, /* a Unix socket */
	SCRAPE_TCP,
	SCRAPE_DOORS,
};

/** Nobody can come in yet. @return 0 or a negative errno */
int scrape_new(const struct scrape_params *params, struct scrape **ret_scrape);
/**
 * Listen there instead of where that door is open now; nothing happens if that is the same place.
 * Where it was open it stays so until the other place is, and if the other one fails. Waits for
 * nobody.
 * @param at        path, or "127.0.0.1:9469", "[::1]:9469"; "": nowhere. Copied
 * @param ret_text  on failure: a sentence of up to `len` bytes
 * @return 0 or a negative errno
 */
int scrape_listen(struct scrape *scrape, enum scrape_door door, const char *at, char *ret_text,
		  size_t len);
/** @return where that door is open; "": it is not. Until the next call of scrape_listen() */
const char *scrape_at(const struct scrape *scrape, enum scrape_door door);
/** NULL is allowed. */
void scrape_close(struct scrape *scrape);

#endif
