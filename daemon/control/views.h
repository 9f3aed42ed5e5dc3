/* SPDX-License-Identifier: MIT */
/**
 * @file views.h
 * The show methods: snapshots of the engine, the devices and the connections as JSON. Each returns
 * a new reference, or NULL: there was no memory, or the refusal is filled in.
 */
#ifndef SMCRD_CONTROL_VIEWS_H
#define SMCRD_CONTROL_VIEWS_H

#include <jansson.h>

#include "daemon/cm/cm.h"
#include "daemon/conns/view.h"
#include "daemon/control/internal.h"

json_t *control_show_info(struct control *control, struct page *page, struct refusal *refusal);
json_t *control_show_devices(struct control *control, struct page *page, struct refusal *refusal);
json_t *control_show_linkgroups(struct control *control, struct page *page,
				struct refusal *refusal);
json_t *control_show_links(struct control *control, struct page *page, struct refusal *refusal);
json_t *control_show_connections(struct control *control, struct page *page,
				 struct refusal *refusal);
/** The time so long ago, in microseconds since 1970. */
json_t *control_json_time(uint64_t age_us);
/** A text; null if it is NULL or empty. */
json_t *control_json_text(const char *text);
/** An address without its port; null if there is none. */
json_t *control_json_host(const struct smcr_addr *addr);
/** An address with its port; null if there is none, as of a socket that was handed over without
 * being connected. */
json_t *control_json_addr(const struct smcr_addr *addr);
/** Bytes of the path MTU with this code; null if there is none. */
json_t *control_json_mtu(uint8_t code);
/* cm.c */
json_t *control_show_cm(struct control *control, struct page *page, struct refusal *refusal);
/** The address as the one of link groups is. */
struct smcr_addr control_cm_addr(const struct cm_addr *addr);
/** Private data as hex digits, without the zeros at their end, as they come in fields of a fixed
 * size; null if there are none. */
json_t *control_json_hex(const uint8_t *bytes, size_t len);
/* smbdirect.c */
json_t *control_show_smbdirect(struct control *control, struct page *page, struct refusal *refusal);
/* rmbs.c, stats.c */
json_t *control_show_rmbs(struct control *control, struct page *page, struct refusal *refusal);
json_t *control_show_stats(struct control *control, struct page *page, struct refusal *refusal);
/* plain.c */
/** How many connections did not use SMC-R, by reason; and by peer. */
json_t *control_fallbacks(const struct control *control);
json_t *control_fallback_peers(const struct control *control);
/** How many such connections the BPF programs have counted. */
uint64_t control_count_plain(const struct control *control);
/** One such connection as the view of a connection. */
void control_plain_view(const struct plain_conn *conn, struct conn_view *ret_view);
/* metrics.c */
json_t *control_show_metrics(struct control *control, struct page *page, struct refusal *refusal);
/* history.c */
json_t *control_show_events(struct control *control, struct page *page, struct refusal *refusal);
/** The events behind a place; waits until there are any. */
json_t *control_wait_for_events(struct control *control, struct page *page,
				struct refusal *refusal);
/* configs.c */
json_t *control_show_config(struct control *control, struct page *page, struct refusal *refusal);
/* ueids.c */
json_t *control_show_ueids(struct control *control, struct page *page, struct refusal *refusal);
/* host.c */
json_t *control_show_host(struct control *control, struct page *page, struct refusal *refusal);
/* judge.c */
json_t *control_judge(struct control *control, struct page *page, struct refusal *refusal);
/* policies.c */
json_t *control_show_policy(struct control *control, struct page *page, struct refusal *refusal);

#endif
