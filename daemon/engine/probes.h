/* SPDX-License-Identifier: MIT */
/**
 * @file probes.h
 * Probes for tracing tools (USDT, provider "smcrd"), with the names that the tracepoints of the
 * Linux kernel's SMC have: bpftrace, perf and systemtap attach to them while smcrd runs.
 * docs/operations.md tells what their arguments are, etc/bpftrace/ has a script for each.
 *
 * Each has a semaphore, which is not zero while somebody traces; until then a probe costs a look at
 * that. Where <sys/sdt.h> is not installed the build has none.
 */
#ifndef SMCRD_ENGINE_PROBES_H
#define SMCRD_ENGINE_PROBES_H

#include <stddef.h>

#if defined(__has_include) && !defined(SMCRD_NO_PROBES)
#if __has_include(<sys/sdt.h>)
#define SMCRD_PROBES 1
#endif
#endif

struct smcr_conn;
struct smcr_link;

#ifdef SMCRD_PROBES
/* Tracing tools write there, by the names that the ELF notes tell them. */
extern volatile unsigned short smcrd_smc_tx_sendmsg_semaphore;
extern volatile unsigned short smcrd_smc_rx_recvmsg_semaphore;
extern volatile unsigned short smcrd_smcr_link_down_semaphore;
#define SMCR_IS_TRACED(name) __builtin_expect(smcrd_##name##_semaphore != 0, 0)
#else
#define SMCR_IS_TRACED(name) 0
#endif

/* Somebody traces. */
void smcr_probe_fire_sendmsg(const struct smcr_conn *conn, size_t len);
void smcr_probe_fire_recvmsg(const struct smcr_conn *conn, size_t len);
void smcr_probe_fire_link_down(const struct smcr_link *link, const char *why);

/** A program has given so many bytes to be sent. */
static inline void smcr_probe_sendmsg(const struct smcr_conn *conn, size_t len)
{
	if (SMCR_IS_TRACED(smc_tx_sendmsg))
		smcr_probe_fire_sendmsg(conn, len);
}

/** A program has taken so many bytes. */
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
