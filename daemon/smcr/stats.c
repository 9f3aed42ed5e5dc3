/* SPDX-License-Identifier: MIT */
/* The counts of stats.h that are more than an increment. */
#include "daemon/smcr/stats.h"

#include "daemon/smcr/internal.h"

static const uint64_t time_ends[SMCR_TIME_CLASSES - 1] = {
	500,    1000,   2000,   5000,    10000,   20000,   50000,
	100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000,
};

const uint64_t *smcr_time_ends(void)
{
	return time_ends;
}

void smcr_times_add(struct smcr_times *times, uint64_t us)
{
	unsigned int class = 0;
	while (class < SMCR_TIME_CLASSES - 1 && us > time_ends[class])
		class ++;
	times->counts[class]++;
	times->sum_us += us;
}

void smcr_engine_get_stats(const struct smcr_engine *engine, struct smcr_engine_stats *ret_stats)
{
	*ret_stats = engine->stats;
}

void smcr_stats_established(struct smcr_conn *conn)
{
	struct smcr_engine *engine = conn->engine;
	bool v2 = conn->lgr && smcr_lgr_is_v2(conn->lgr);
	engine->stats.established[conn->params.role][v2]++;
	smcr_times_add(&engine->stats.handshakes[conn->rv.first_contact],
		       engine->now - conn->began);
}

/* ---- from the failure of a link until its connections go on elsewhere ---- */

void smcr_stats_gap_begin(struct smcr_conn *conn)
{
	struct smcr_gap *gap = &conn->lgr->gap;
	if (conn->in_gap)
		return;
	conn->in_gap = true;
	if (gap->conns++)
		return; /* another link has failed before all connections have moved */
	gap->began = conn->engine->now;
	gap->moved = 0;
}

void smcr_stats_gap_end(struct smcr_conn *conn, bool moved)
{
	if (!conn->in_gap)
		return;
	struct smcr_gap *gap = &conn->lgr->gap;
	conn->in_gap = false;
	if (moved)
		gap->moved = conn->engine->now;
	if (--gap->conns == 0 && gap->moved)
		smcr_times_add(&conn->engine->stats.failover_gaps, gap->moved - gap->began);
}
