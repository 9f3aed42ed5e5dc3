/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/guard.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/host/log.h"
#include "daemon/host/udp_sockets.h"
#include "daemon/rendezvous/attach.h"
#include "guard.skel.h"
#include "proto/roce/roce.h"

struct rdv_guard {
	struct guard *skel;
};

static int attach_all(struct guard *skel, int cgroup)
{
	const struct {
		struct bpf_program *prog;
		struct bpf_link **link;
	} all[] = {
		{ skel->progs.guard_bind4, &skel->links.guard_bind4 },
		{ skel->progs.guard_bind6, &skel->links.guard_bind6 },
		{ skel->progs.guard_connect4, &skel->links.guard_connect4 },
		{ skel->progs.guard_connect6, &skel->links.guard_connect6 },
		{ skel->progs.guard_sendmsg4, &skel->links.guard_sendmsg4 },
		{ skel->progs.guard_sendmsg6, &skel->links.guard_sendmsg6 },
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(all) / sizeof(all[0]); i++)
		r = attach_program(all[i].prog, cgroup, all[i].link);
	return r;
}

static int load(struct rdv_guard *guard, int cgroup, char text[RDV_TEXT_MAX])
{
	uint64_t cookie;
	int r = rdv_netns_cookie(&cookie);
	if (r < 0)
		return attach_failed("", ATTACH_NETNS, r, text);
	guard->skel = guard__open();
	if (!guard->skel)
		return attach_failed("", ATTACH_OPEN, -errno, text);
	guard->skel->rodata->netns_cookie = cookie;
	guard->skel->rodata->own_uid = getuid();
	r = guard__load(guard->skel);
	if (r < 0)
		return attach_failed("", ATTACH_LOAD, r, text);
	if (cgroup < 0)
		return attach_failed("", ATTACH_ROOT, cgroup, text);
	r = attach_all(guard->skel, cgroup);
	return r < 0 ? attach_failed("", ATTACH_PROGRAM, r, text) : 0;
}

/* The BPF programs are not called when a connected socket sends. No further socket can be connected
 * now. */
static void end_older(void)
{
	int r = udp_sockets_end(ROCE_UDP_PORT, getuid());
	if (r < 0)
		log_message(LOG_WARNING,
			    "sockets that users have connected to UDP port %u before smcrd started "
			    "can still send there: %s; the kernel finds them with its module "
			    "udp_diag: load that, and switch egress_guard off and on",
			    ROCE_UDP_PORT, strerror(-r));
}

int rdv_guard_open(int cgroup, struct rdv_guard **ret_guard, char ret_text[RDV_TEXT_MAX])
{
	struct rdv_guard *guard = calloc(1, sizeof(*guard));
	if (!guard)
		return attach_failed("", ATTACH_MEMORY, -ENOMEM, ret_text);
	libbpf_print_fn_t before = libbpf_set_print(attach_log);
	int r = load(guard, cgroup, ret_text);
	libbpf_set_print(before);
	if (r < 0) {
		rdv_guard_close(guard);
		return r;
	}
	end_older();
	*ret_guard = guard;
	return 0;
}

void rdv_guard_close(struct rdv_guard *guard)
{
	if (!guard)
		return;
	guard__destroy(guard->skel);
	free(guard);
}

struct rdv_refused rdv_guard_refused(const struct rdv_guard *guard)
{
	if (!guard)
		return (struct rdv_refused){ .by_user = -1 };
	return (struct rdv_refused){ .total = &guard->skel->bss->num_refused,
				     .by_user = bpf_map__fd(guard->skel->maps.refused) };
}
