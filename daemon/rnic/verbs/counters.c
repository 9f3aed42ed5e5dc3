/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/rnic/verbs/internal.h"

/* The kernel's counters and their names differ from driver to driver. These are the names of
 * rdma_rxe and of hardware drivers. A counter that is missing stays 0. */
static const struct counter {
	size_t offset; /* in struct rnic_stats */
	unsigned int unit;
	const char *files[3]; /* below the port's directory: the first that exists */
} counters[] = {
#define FIELD(f) offsetof(struct rnic_stats, f)
	{ FIELD(tx_packets), 1, { "counters/port_xmit_packets", "hw_counters/sent_pkts" } },
	{ FIELD(rx_packets), 1, { "counters/port_rcv_packets", "hw_counters/rcvd_pkts" } },
	{ FIELD(tx_bytes), 4, { "counters/port_xmit_data" } },
	{ FIELD(rx_bytes), 4, { "counters/port_rcv_data" } },
	{ FIELD(retransmits),
	  1,
	  { "hw_counters/roce_adp_retrans", "hw_counters/completer_retry_err" } },
	{ FIELD(naks_received), 1, { "hw_counters/packet_seq_err", "hw_counters/rcvd_seq_err" } },
	{ FIELD(rnr_naks_sent), 1, { "hw_counters/out_of_buffer", "hw_counters/send_rnr_err" } },
	{ FIELD(rnr_naks_received),
	  1,
	  { "hw_counters/rnr_nak_retry_err", "hw_counters/rcvd_rnr_err" } },
	{ FIELD(cnps_sent), 1, { "hw_counters/np_cnp_sent" } },
	{ FIELD(cnps_received), 1, { "hw_counters/rp_cnp_handled" } },
	{ FIELD(timeouts), 1, { "hw_counters/local_ack_timeout_err" } },
	{ FIELD(duplicates), 1, { "hw_counters/duplicate_request" } },
	{ FIELD(out_of_order),
	  1,
	  { "hw_counters/out_of_sequence", "hw_counters/out_of_seq_request" } },
#undef FIELD
};

#define NUM_COUNTERS (sizeof(counters) / sizeof(counters[0]))

static uint64_t *field(struct rnic_stats *stats, const struct counter *counter)
{
	return (uint64_t *)((char *)stats + counter->offset);
}

static bool read_number(const char *dir, const char *file, uint64_t *ret_value)
{
	char path[PATH_MAX], text[32] = "";
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	if (n <= 0 || end == text)
		return false;
	*ret_value = value;
	return true;
}

void verbs_counters_read(const char *port_dir, struct rnic_stats *ret_stats)
{
	*ret_stats = (struct rnic_stats){ 0 };
	for (size_t i = 0; i < NUM_COUNTERS; i++) {
		const struct counter *counter = &counters[i];
		uint64_t value;
		for (size_t k = 0; k < 3 && counter->files[k]; k++) {
			if (read_number(port_dir, counter->files[k], &value)) {
				*field(ret_stats, counter) = value * counter->unit;
				break;
			}
		}
	}
}

void verbs_counters_subtract(struct rnic_stats *stats, const struct rnic_stats *before)
{
	for (size_t i = 0; i < NUM_COUNTERS; i++) {
		uint64_t *value = field(stats, &counters[i]);
		uint64_t was = *(const uint64_t *)((const char *)before + counters[i].offset);
		*value = *value >= was ? *value - was : *value; /* else the counter was reset */
	}
}
