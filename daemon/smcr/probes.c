/* SPDX-License-Identifier: MIT */
#include "daemon/smcr/probes.h"

#include "daemon/smcr/internal.h"

#ifdef SMCRD_PROBES

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define SEMAPHORE(name)                                                                            \
	volatile unsigned short smcrd_##name##_semaphore __attribute__((section(".probes"), used))

SEMAPHORE(smc_tx_sendmsg);
SEMAPHORE(smc_rx_recvmsg);
SEMAPHORE(smcr_link_down);

/* The first three are those of the kernel's tracepoints. */
void smcr_probe_fire_sendmsg(const struct smcr_conn *conn, size_t len)
{
	const struct smcr_link *link = conn->tx.link;
	const char *device = link ? link->device_name : "";
	const unsigned int group = link ? link->lgr->id : 0, number = link ? link->number : 0;
	STAP_PROBE6(smcrd, smc_tx_sendmsg, conn, len, device, group, number, conn->params.pid);
}

void smcr_probe_fire_recvmsg(const struct smcr_conn *conn, size_t len)
{
	const struct smcr_link *link = conn->rx.last_link ? conn->rx.last_link : conn->tx.link;
	const char *device = link ? link->device_name : "";
	const unsigned int group = link ? link->lgr->id : 0, number = link ? link->number : 0;
	STAP_PROBE6(smcrd, smc_rx_recvmsg, conn, len, device, group, number, conn->params.pid);
}

void smcr_probe_fire_link_down(const struct smcr_link *link, const char *why)
{
	STAP_PROBE5(smcrd, smcr_link_down, link, why, link->device_name, link->lgr->id,
		    link->number);
}

#else

void smcr_probe_fire_sendmsg(const struct smcr_conn *conn, size_t len)
{
	(void)conn;
	(void)len;
}

void smcr_probe_fire_recvmsg(const struct smcr_conn *conn, size_t len)
{
	(void)conn;
	(void)len;
}

void smcr_probe_fire_link_down(const struct smcr_link *link, const char *why)
{
	(void)link;
	(void)why;
}

#endif
