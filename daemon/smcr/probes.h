/* SPDX-License-Identifier: MIT */
/**
 * @file probes.h
 * Probes for tracing tools (USDT, provider "smcrd"), named like the tracepoints of SMC in the Linux
 * kernel. bpftrace, perf and systemtap attach to them while smcrd runs. docs/operations.md tells
 * their arguments, etc/bpftrace/ has a script for each.
 *
 * Each probe has a semaphore, which is not zero while somebody traces. When nobody does, a probe
 * costs one test of the semaphore. Without <sys/sdt.h> the build has no probes.
 */
#ifndef SMCRD_SMCR_PROBES_H
#define SMCRD_SMCR_PROBES_H

#include <stddef.h>

#if defined(__has_include) && !defined(SMCRD_NO_PROBES)
#if __has_include(<sys/sdt.h>)
#define SMCRD_PROBES 1
#endif
#endif

struct smcr_conn;
struct smcr_link;

#ifdef SMCRD_PROBES
/* Tracing tools write into these; the ELF notes tell where they are. */
extern volatile unsigned short smcrd_smc_tx_sendmsg_semaphore;
extern volatile unsigned short smcrd_smc_rx_recvmsg_semaphore;
extern volatile unsigned short smcrd_smcr_link_down_semaphore;
#define SMCR_IS_TRACED(name) __builtin_expect(smcrd_##name##_semaphore != 0, 0)
#else
#define SMCR_IS_TRACED(name) 0
#endif

/* Fire a probe: somebody traces. */
void smcr_probe_fire_sendmsg(const struct smcr_conn *conn, size_t len);
void smcr_probe_fire_recvmsg(const struct smcr_conn *conn, size_t len);
void smcr_probe_fire_link_down(const struct smcr_link *link, const char *why);

/** A program has sent `len` bytes. */
static inline void smcr_probe_sendmsg(const struct smcr_conn *conn, size_t len)
{
	if (SMCR_IS_TRACED(smc_tx_sendmsg))
		smcr_probe_fire_sendmsg(conn, len);
}

/** A program has received `len` bytes. */
static inline void smcr_probe_recvmsg(const struct smcr_conn *conn, size_t len)
{
	if (SMCR_IS_TRACED(smc_rx_recvmsg))
		smcr_probe_fire_recvmsg(conn, len);
}

/** A link that was in use, or was about to be, has failed. */
static inline void smcr_probe_link_down(const struct smcr_link *link, const char *why)
{
	if (SMCR_IS_TRACED(smcr_link_down))
		smcr_probe_fire_link_down(link, why);
}

#endif
