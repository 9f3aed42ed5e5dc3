/* SPDX-License-Identifier: MIT */
#include "daemon/control/counters.h"

#define COUNTER(name, help)                                                                        \
	{                                                                                          \
#name, help, offsetof(struct rnic_stats, name)                                     \
	}

const struct counter rnic_counters[] = {
	COUNTER(tx_packets, "RoCE packets sent"),
	COUNTER(tx_bytes, "Bytes of RoCE packets sent"),
	COUNTER(rx_packets, "RoCE packets received"),
	COUNTER(rx_bytes, "Bytes of RoCE packets received"),
	COUNTER(retransmits, "RoCE packets sent again"),
	COUNTER(naks_sent, "Negative acknowledgements sent"),
	COUNTER(naks_received, "Negative acknowledgements received"),
	COUNTER(rnr_naks_sent, "Answers sent that no receive buffer was ready"),
	COUNTER(rnr_naks_received, "Answers received that no receive buffer was ready"),
	COUNTER(cnps_sent, "Congestion notifications sent"),
	COUNTER(cnps_received, "Congestion notifications received"),
	COUNTER(timeouts, "Times that no acknowledgement came in time"),
	COUNTER(duplicates, "Packets received again"),
	COUNTER(out_of_order, "Packets received before one that was missing"),
	COUNTER(drop_malformed, "Packets dropped because they were malformed"),
	COUNTER(drop_icrc, "Packets dropped because their checksum was wrong"),
	COUNTER(drop_qp, "Packets dropped because there was no such queue pair"),
	COUNTER(drop_peer, "Packets dropped because they were not from the queue pair's peer"),
	COUNTER(drop_psn, "Packets dropped because their number was out of place"),
	COUNTER(drop_access, "Packets dropped because they were not allowed to write there"),
	{ 0 },
};

uint64_t counter_value(const struct counter *counter, const struct rnic_stats *stats)
{
	return *(const uint64_t *)((const char *)stats + counter->at);
}

json_t *counters_json(const struct rnic_stats *stats)
{
	json_t *object = json_object();
	for (const struct counter *counter = rnic_counters; counter->name; counter++)
		json_object_set_new(object, counter->name,
				    json_integer((json_int_t)counter_value(counter, stats)));
	return object;
}
