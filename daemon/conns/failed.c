/* SPDX-License-Identifier: MIT */
/* Records of connections that failed, or have ended otherwise than by a reset, kept for a minute so
 * that their programs can ask why. */
#include <stdlib.h>

#include "daemon/conns/internal.h"

#define FAILED_MAX         1024
#define FAILED_LIFETIME_MS 60000

void failed_remove(struct conns *conns, struct failed_conn *failed)
{
	HASH_DELETE(hh, conns->failed, failed);
	limits_count_files(conns, failed->quota, -failed->files);
	close_foreign(failed->tcp, failed->quota);
	failed->quota->failed--;
	quota_put(conns, failed->quota);
	free(failed);
}

/* A user may have no more records than are left for others: then the oldest of them goes. So one
 * whose connections fail in masses displaces nobody else's. */
static struct failed_conn *in_the_way(const struct conns *conns, const struct quota *quota)
{
	const uint32_t left = FAILED_MAX - HASH_COUNT(conns->failed);
	struct failed_conn *failed;
	if (quota->failed == 0)
		return left > 0 ? NULL : conns->failed;
	if (quota->failed < left)
		return NULL;
	for (failed = conns->failed; failed && failed->quota != quota; failed = failed->hh.next)
		;
	return failed;
}

void failed_add(const struct conn *conn, int error, uint32_t reason, int tcp)
{
	struct conns *conns = conn->conns;
	struct failed_conn *failed = calloc(1, sizeof(*failed));
	if (!failed || conns->freeing) {
		free(failed);
		close_foreign(tcp, conn->quota);
		return;
	}
	struct failed_conn *oldest = in_the_way(conns, conn->quota);
	if (oldest)
		failed_remove(conns, oldest);
	failed->id = conn->id;
	failed->program_cookie = conn->pair.program_cookie;
	failed->error = error;
	failed->reason = reason;
	failed->tcp = tcp;
	failed->quota = conn->quota;
	failed->quota->failed++;
	failed->files = tcp >= 0;
	limits_count_files(conns, failed->quota, failed->files);
	failed->expires_ms = conns_now_ms() + FAILED_LIFETIME_MS;
	HASH_ADD(hh, conns->failed, id, sizeof(failed->id), failed);
	conns_need_sweep(conns);
}

void failed_expire(struct conns *conns, uint64_t now_ms)
{
	while (conns->failed && conns->failed->expires_ms <= now_ms)
		failed_remove(conns, conns->failed);
}
