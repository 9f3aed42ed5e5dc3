/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/sights.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/rnic/rnic.h"

struct sights sights;

static const char *const names[SAW_FAILURE] = {
	[SAW_WRITE] = "WRITEs",
	[SAW_SEND] = "SENDs",
	[SAW_READ] = "READs",
	[SAW_LONG_READ] = "READs of several packets",
	[SAW_CHANGED_READ] = "READs that found later bytes",
	[SAW_SEND_INVALIDATE] = "SENDs with invalidate",
	[SAW_USER_BUFFER] = "messages in buffers of users",
	[SAW_WINDOW] = "windows bound",
	[SAW_TOKEN_DEATH] = "tokens that died in use",
	[SAW_FREED_MEMORY] = "requests whose memory was freed",
	[SAW_RETRANSMIT] = "packets sent again",
	[SAW_HELD] = "packets that came early",
	[SAW_DUPLICATE] = "packets that came again",
	[SAW_DAMAGE] = "packets damaged",
	[SAW_RNR] = "receivers not ready",
	[SAW_CONGESTION] = "congestion notifications",
	[SAW_TIMEOUT] = "timeouts",
	[SAW_SOCKET_FULL] = "sockets that were full",
	[SAW_DESTROY_IN_CALLBACK] = "QPs destroyed in their callback",
	[SAW_DESTROY_OF_ANOTHER] = "QPs destroyed in the callback of another",
};

void saw(unsigned int sight)
{
	sights.count[sight]++;
}

void saw_stats(const struct rnic_stats *stats)
{
	sights.count[SAW_RETRANSMIT] += stats->retransmits;
	sights.count[SAW_HELD] += stats->out_of_order;
	sights.count[SAW_DUPLICATE] += stats->duplicates;
	sights.count[SAW_DAMAGE] += stats->drop_icrc;
	sights.count[SAW_RNR] += stats->rnr_naks_received;
	sights.count[SAW_CONGESTION] += stats->cnps_received;
	sights.count[SAW_TIMEOUT] += stats->timeouts;
}

void sights_add(struct sights *to, const struct sights *from)
{
	for (int i = 0; i < NUM_SIGHTS; i++)
		to->count[i] += from->count[i];
}

void sights_print(const struct sights *of)
{
	for (int i = 0; i < NUM_SIGHTS; i++) {
		if (i < SAW_FAILURE)
			printf("# %12" PRIu64 " %s\n", of->count[i], names[i]);
		else if (of->count[i])
			printf("# %12" PRIu64 " failures: %s\n", of->count[i],
			       rnic_wc_status_text((enum rnic_wc_status)(i - SAW_FAILURE)));
	}
}
