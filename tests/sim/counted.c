/* SPDX-License-Identifier: MIT */
#include "tests/sim/counted.h"

#include "daemon/smcr/stats.h"
#include "tests/sim/host.h"
#include "tests/sim/world.h"

void counted_tx(struct host *host, uint64_t len)
{
	host->counted.tx_requests++;
	host->counted.tx_bytes += len;
}

void counted_rx(struct host *host, uint64_t len)
{
	host->counted.rx_requests += len > 0;
	host->counted.rx_bytes += len;
}

static void check_flow(struct host *host, const char *name, const struct smcr_flow_stats *flow,
		       uint64_t requests, uint64_t bytes)
{
	uint64_t classes = 0;
	for (unsigned int i = 0; i < SMCR_SIZE_CLASSES; i++)
		classes += flow->sizes[i];
	if (flow->requests != requests || flow->request_bytes != bytes || classes != requests)
		world_fail(host->world, "STATS",
			   "%s: %s: %llu requests in %llu of all classes, %llu bytes; its programs "
			   "made %llu with %llu",
			   host->name, name, (unsigned long long)flow->requests,
			   (unsigned long long)classes, (unsigned long long)flow->request_bytes,
			   (unsigned long long)requests, (unsigned long long)bytes);
	if (flow->messages > flow->cdcs || flow->messages > flow->bytes)
		world_fail(host->world, "STATS", "%s: %s: %llu messages with bytes, of %llu",
			   host->name, name, (unsigned long long)flow->messages,
			   (unsigned long long)flow->cdcs);
}

void counted_check(struct host *host)
{
	const struct counted *counted = &host->counted;
	struct smcr_engine_stats stats;
	smcr_engine_get_stats(host->engine, &stats);
	check_flow(host, "sent", &stats.tx, counted->tx_requests, counted->tx_bytes);
	check_flow(host, "received", &stats.rx, counted->rx_requests, counted->rx_bytes);
	/* The engine sends bytes after the program wrote them, and receives them before it reads.
	 */
	if (stats.tx.bytes > stats.tx.request_bytes || stats.rx.bytes < stats.rx.request_bytes)
		world_fail(host->world, "STATS", "%s: %llu bytes sent of %llu, %llu taken of %llu",
			   host->name, (unsigned long long)stats.tx.bytes,
			   (unsigned long long)stats.tx.request_bytes,
			   (unsigned long long)stats.rx.request_bytes,
			   (unsigned long long)stats.rx.bytes);
	if (stats.groups_up != counted->groups || stats.groups_down > stats.groups_up ||
	    stats.links_failed + stats.links_deleted > stats.links_up ||
	    stats.failovers > stats.links_failed)
		world_fail(host->world, "STATS", "%s: groups and links do not add up", host->name);
}

void counted_forget(struct host *host)
{
	host->counted = (struct counted){ 0 };
}
