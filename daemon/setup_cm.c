/* SPDX-License-Identifier: MIT */
/* Step of the start that makes the connection manager, and what it asks and tells the daemon. It
 * has the RNICs that the fabric has opened. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/cm/trace.h"
#include "daemon/host/log.h"
#include "daemon/internal.h"

static struct smcr_addr16 addr16(const struct cm_addr *addr)
{
	struct smcr_addr same = { .family = addr->family };
	memcpy(same.ip, addr->addr, sizeof(same.ip));
	return rdv_addr16(&same);
}

/* The rules that connections of SMC-R have. Programs and users are not known here: rules that name
 * a program match none, and the user is smcrd's. */
static bool may_use(void *ctx, struct rnic *rnic, const struct cm_addr *local,
		    const struct cm_addr *peer)
{
	const struct smcrd *smcrd = ctx;
	const struct smcr_subject subject = { .local = addr16(local),
					      .peer = addr16(peer),
					      .uid = geteuid(),
					      .port = local->port ? local->port : peer->port };
	(void)rnic;
	return smcrd->policy && !policy_denies(smcrd->policy, &subject);
}

static void on_told(void *ctx, const struct cm_told *told)
{
	struct smcrd *smcrd = ctx;
	events_cm(smcrd->events, told);
}

static void on_message(void *ctx, const struct cm_message *message)
{
	struct smcrd *smcrd = ctx;
	cm_trace(message);
	control_cm_message(&smcrd->control, message);
}

static void at_work(void *ctx, uint64_t now)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_CM, now);
}

int setup_cm(struct smcrd *smcrd)
{
	const struct cm_params params = { .base = smcrd->base,
					  .may_use = may_use,
					  .told = on_told,
					  .at_work = at_work,
					  .ctx = smcrd };
	int error = cm_new(&params, &smcrd->cm);
	if (!error)
		cm_set_tap(smcrd->cm, on_message, smcrd);
	return error;
}

/* SMC-R goes on without. */
static void add(struct smcrd *smcrd, struct rnic *rnic)
{
	char text[CM_ERROR_LEN];
	if (cm_add_rnic(smcrd->cm, rnic, text))
		log_message(LOG_NOTICE, "%s", text);
}

void cm_on_device(void *ctx, struct rnic *rnic, enum fabric_change change)
{
	struct smcrd *smcrd = ctx;
	switch (change) {
	case FABRIC_DEVICE_OPENED: add(smcrd, rnic); break;
	case FABRIC_DEVICE_CHANGED: cm_rnic_changed(smcrd->cm, rnic); break;
	case FABRIC_DEVICE_CLOSING: cm_remove_rnic(smcrd->cm, rnic); break;
	}
}

/* Not said again if there is still none. */
static void add_again(void *arg, uint32_t id, struct rnic *rnic)
{
	const struct smcrd *smcrd = arg;
	char text[CM_ERROR_LEN];
	(void)id;
	if (!cm_has_rnic(smcrd->cm, rnic) && !cm_add_rnic(smcrd->cm, rnic, text))
		log_message(LOG_NOTICE, "the kernel's connection manager is there: RDMA "
					"connections by IP address are possible");
}

void cm_look(struct smcrd *smcrd)
{
	fabric_each_device(smcrd->fabric, add_again, smcrd);
}
