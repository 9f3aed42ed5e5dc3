/* SPDX-License-Identifier: MIT */
/* Records of connections that failed, kept for a minute so that their programs can ask why. */
#include <stdlib.h>

#include "daemon/conns/internal.h"

#define FAILED_MAX         1024
#define FAILED_LIFETIME_MS 60000

void failed_remove(struct conns *conns, struct failed_conn *failed)
{
	HASH_DELETE(hh, conns->failed, failed);
	close_foreign(failed->tcp, failed->quota);
	failed->quota->failed--;
	quota_put(conns, failed->quota);
	free(failed);
}

void failed_add(struct conn *conn, int error, uint32_t reason, int tcp)
{
	struct conns *conns = conn->conns;
	struct failed_conn *failed = calloc(1, sizeof(*failed));
	if (!failed || conns->freeing) {
		free(failed);
		close_foreign(tcp, conn->quota);
		return;
	}
	if (HASH_COUNT(conns->failed) >= FAILED_MAX)
		failed_remove(conns, conns->failed); /* the oldest */
	failed->id = conn->id;
	failed->program_cookie = conn->pair.program_cookie;
	failed->error = error;
	failed->reason = reason;
	failed->tcp = tcp;
	failed->quota = conn->quota;
	failed->quota->failed++;
	failed->expires_ms = conns_now_ms() + FAILED_LIFETIME_MS;
	HASH_ADD(hh, conns->failed, id, sizeof(failed->id), failed);
	conns_need_sweep(conns);
}

void failed_expire(struct conns *conns, uint64_t now_ms)
{
	while (conns->failed && conns->failed->expires_ms <= now_ms)
		failed_remove(conns, conns->failed);
}
