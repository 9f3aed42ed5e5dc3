/* SPDX-License-Identifier: MIT */
/* Steps of the start that are about the host: privileges, other daemons, interfaces, names. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "daemon/host/peer_id.h"
#include "daemon/host/privileges.h"
#include "daemon/internal.h"
#include "daemon/rendezvous/attach.h"
#include "daemon/rendezvous/sole.h"
#include "daemon/rnic/soft.h"

/* Do what needs more privileges than smcrd needs later, and give these up: find the root of the
 * cgroups, and see who has the UDP port of RoCEv2. */
int setup_privileges(struct smcrd *smcrd)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", smcrd->config.socket_path);
	const char *directory = dirname(copy);
	/* If the service manager has not made the directory. EEXIST is normal; bind() reports other
	 * errors. */
	mkdir(directory, 0755);
	smcrd->cgroup = attach_root();
	rnic_soft_note_holders();
	int r = privileges_drop(directory);
	if (r == 0)
		smcrd->confined = confine(smcrd->source, &smcrd->config, smcrd->files) == 0;
	return r;
}

/* Before anything is opened that the other one may have. */
int setup_sole(struct smcrd *smcrd)
{
	return sole_become(&smcrd->sole, smcrd->error, DAEMON_ERROR_LEN);
}

/* ---- interfaces ---- */

void smcrd_host_at_work(void *ctx)
{
	struct smcrd *smcrd = ctx;
	turns_begin(&smcrd->turns, TURNS_HOST, fabric_now());
}

static void on_netif_change(void *ctx, const struct netif *netif)
{
	struct smcrd *smcrd = ctx;
	smcrd_host_at_work(smcrd);
	if (smcrd->policy)
		policy_netif(smcrd->policy, netif);
	if (smcrd->rnics && !smcrd->stopping)
		rnics_netif_changed(smcrd->rnics, netif);
}

static void on_hotplug(void *ctx)
{
	struct smcrd *smcrd = ctx;
	smcrd_host_at_work(smcrd);
	if (smcrd->rnics && !smcrd->stopping) {
		rnics_devices_changed(smcrd->rnics);
		cm_look(smcrd);
	}
}

int setup_netifs(struct smcrd *smcrd)
{
	return netif_watch_new(smcrd->base, on_netif_change, smcrd, &smcrd->netifs);
}

int setup_hotplug(struct smcrd *smcrd)
{
	return hotplug_watch_new(smcrd->base, on_hotplug, smcrd, &smcrd->hotplug);
}

/* Behind all other steps that can fail: a smcrd that cannot serve has changed no neighbour entry.
 */
int setup_neighbours(struct smcrd *smcrd)
{
	return netif_purge_neighbours(smcrd->netifs);
}

/* ---- names ---- */

static void first_mac(void *ctx, const struct netif *netif)
{
	struct netif *first = ctx;
	if (!first->present && netif->ethernet && netif->num_addrs > 0)
		*first = *netif;
}

/* Set once: the peer ID stays when that RNIC is gone (PEER-3). */
static void choose_peer_id(struct smcrd *smcrd)
{
	struct netif netif = { .present = false };
	const char *name = smcrd->config.num_rnics ? smcrd->config.rnics[0] : "";
	if (strncmp(name, "soft:", 5) || netif_by_name(smcrd->netifs, name + 5, &netif) < 0)
		netif_each(smcrd->netifs, first_mac, &netif);
	peer_id_make(netif.present ? netif.mac : NULL, smcrd->config.socket_path,
		     smcrd->config.engine.peer_id);
}

/* The host name that peers of version 2 show their operators; blanks if there is none. */
static void choose_host_name(struct smcrd *smcrd)
{
	struct utsname name;
	if (uname(&name) == 0)
		snprintf(smcrd->config.engine.host_name, sizeof(smcrd->config.engine.host_name),
			 "%.*s", SMCR_EID_LEN, name.nodename);
}

int setup_names(struct smcrd *smcrd)
{
	choose_peer_id(smcrd);
	choose_host_name(smcrd);
	return 0;
}
