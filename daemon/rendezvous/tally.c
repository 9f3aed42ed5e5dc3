/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/tally.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/rendezvous/bpf/smcr.h"

/* The inode of the first pid namespace, the same in every kernel. The BPF programs tell its process
 * numbers. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu

struct rdv_tally {
	struct rdv_tally_source source;
	struct ring_buffer *ring;
	bool pids_are_ours;
	size_t left; /* how many more to read in this call */
	void (*fn)(void *arg, const struct rdv_plain *plain);
	void *arg;
};

static bool in_first_pid_namespace(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == FIRST_PID_NAMESPACE;
}

static void tell(const struct rdv_tally *tally, const struct smcr_plain *from)
{
	struct rdv_plain plain = {
		.time_us = (from->time + (uint64_t)tally->source.clock_offset_ns) / 1000,
		.cookie = from->cookie,
		.local = rdv_addr_of16(&from->local, (uint16_t)from->local_port),
		.peer = rdv_addr_of16(&from->peer, (uint16_t)from->peer_port),
		.role = from->role == SMCR_SOCK_SERVER ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT,
		.reason = from->reason,
		.uid = from->uid,
		.pid = tally->pids_are_ours ? (pid_t)from->process.pid : 0,
		.unasked = from->unasked,
	};
	rdv_comm(from->process.comm, plain.comm);
	tally->fn(tally->arg, &plain);
}

/* Entries that come meanwhile are left for the next call, so the loop ends even if entries keep
 * coming. */
static int on_sample(void *ctx, void *data, size_t len)
{
	struct rdv_tally *tally = ctx;
	if (len >= sizeof(struct smcr_plain))
		tell(tally, data);
	return --tally->left > 0 ? 0 : -ECANCELED;
}

int rdv_tally_open(struct rdv_option *option, struct rdv_tally **ret_tally)
{
	struct rdv_tally *tally = calloc(1, sizeof(*tally));
	if (!tally)
		return -ENOMEM;
	tally->source = rdv_option_tally_source(option);
	tally->pids_are_ours = in_first_pid_namespace();
	tally->ring = ring_buffer__new(tally->source.told, on_sample, tally, NULL);
	if (!tally->ring) {
		int error = errno ? errno : ENOMEM;
		free(tally);
		return -error;
	}
	*ret_tally = tally;
	return 0;
}

void rdv_tally_close(struct rdv_tally *tally)
{
	if (!tally)
		return;
	ring_buffer__free(tally->ring);
	free(tally);
}

void rdv_tally_read(struct rdv_tally *tally, void (*fn)(void *arg, const struct rdv_plain *plain),
		    void *arg)
{
	if (!tally)
		return;
	tally->left = SMCR_PLAIN_MAX;
	tally->fn = fn;
	tally->arg = arg;
	ring_buffer__consume(tally->ring);
	++*tally->source.round;
}

/* @return false: that reason is gone */
static bool add_up(const struct rdv_tally *tally, uint32_t reason, size_t processors,
		   struct smcr_plain_count *parts, struct rdv_plain_count *ret_count)
{
	*ret_count = (struct rdv_plain_count){ .reason = reason };
	if (bpf_map_lookup_elem(tally->source.counts, &reason, parts) < 0)
		return false;
	for (size_t i = 0; i < processors; i++) {
		ret_count->connections += parts[i].connections;
		ret_count->untold += parts[i].untold;
	}
	return true;
}

void rdv_tally_each_count(const struct rdv_tally *tally,
			  void (*fn)(void *arg, const struct rdv_plain_count *count), void *arg)
{
	int processors = libbpf_num_possible_cpus();
	uint32_t reason, next;
	struct rdv_plain_count count;
	if (!tally || processors <= 0)
		return;
	struct smcr_plain_count *parts = calloc((size_t)processors, sizeof(*parts));
	if (!parts)
		return;
	bool more = bpf_map_get_next_key(tally->source.counts, NULL, &next) == 0;
	for (size_t i = 0; more && i < SMCR_MAX_REASONS; i++) {
		reason = next;
		if (add_up(tally, reason, (size_t)processors, parts, &count))
			fn(arg, &count);
		more = bpf_map_get_next_key(tally->source.counts, &reason, &next) == 0;
	}
	free(parts);
}
