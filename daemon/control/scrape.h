/* SPDX-License-Identifier: MIT */
/**
 * @file scrape.h
 * HTTP for monitoring systems: only GET /metrics, on a Unix socket, a TCP address or both. A
 * connection gets one answer.
 *
 * Anybody may connect, so everything is bounded: connections at a time (the oldest one is closed
 * for a new one), connections per second, the length of a request, the time from accept() to the
 * last byte of the answer, and how often the metrics are collected. libevent's evhttp bounds
 * neither connections nor their whole time, so the little HTTP that is needed is done here.
 */
#ifndef SMCRD_CONTROL_SCRAPE_H
#define SMCRD_CONTROL_SCRAPE_H

#include <stddef.h>

struct event_base;
struct scrape;

#define SCRAPE_MAX_CONNS      64
#define SCRAPE_SECONDS        5   /* the longest time of a connection */
#define SCRAPE_WINDOW_MS      100 /* in each window of this length */
#define SCRAPE_CONNS_A_WINDOW 5   /* at most so many connections are accepted */
#define SCRAPE_FRESH_MS       250 /* metrics are not collected more often */

struct scrape_params {
	struct event_base *base;
	/** Make the text, malloc'ed, or NULL without memory. Called from the event loop. */
	char *(*text)(void *ctx);
	void *ctx;
};

/** The two places to listen. */
enum scrape_door {
	SCRAPE_LOCAL, /* a Unix socket */
	SCRAPE_TCP,
	SCRAPE_DOORS,
};

/** Make a scrape that does not listen yet. @return 0 or a negative errno */
int scrape_new(const struct scrape_params *params, struct scrape **ret_scrape);
/**
 * Let a door listen at another place; does nothing if the place is the same. The old place stays
 * open until the new one is, also if the new one fails. Does not block.
 * @param at        path, or "127.0.0.1:9469", "[::1]:9469"; "": nowhere. Copied
 * @param ret_text  on failure: a sentence of up to `len` bytes
 * @return 0 or a negative errno
 */
int scrape_listen(struct scrape *scrape, enum scrape_door door, const char *at, char *ret_text,
		  size_t len);
/** @return where the door listens; "": it does not. Valid until the next scrape_listen() */
const char *scrape_at(const struct scrape *scrape, enum scrape_door door);
/** NULL is allowed. */
void scrape_close(struct scrape *scrape);

#endif
