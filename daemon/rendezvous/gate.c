/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/gate.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/rendezvous/attach.h"
#include "gate.skel.h"

struct rdv_gate {
	struct gate *skel;
};

static int load(struct rdv_gate *gate, int cgroup, const struct rdv_option *option,
		char text[RDV_TEXT_MAX])
{
	const struct rdv_gate_source source = rdv_option_gate_source(option);
	gate->skel = gate__open();
	if (!gate->skel)
		return attach_failed("", ATTACH_OPEN, -errno, text);
	int r = bpf_map__reuse_fd(gate->skel->maps.socks, source.socks);
	if (r == 0)
		r = bpf_map__reuse_fd(gate->skel->maps.spoken, source.spoken);
	if (r == 0)
		r = bpf_map__reuse_fd(gate->skel->maps.synacks, source.synacks);
	if (r == 0)
		r = gate__load(gate->skel);
	if (r < 0)
		return attach_failed("", ATTACH_LOAD, r, text);
	if (cgroup < 0)
		return attach_failed("", ATTACH_ROOT, cgroup, text);
	r = attach_program(gate->skel->progs.smcr_gate, cgroup, &gate->skel->links.smcr_gate);
	return r < 0 ? attach_failed("", ATTACH_PROGRAM, r, text) : 0;
}

int rdv_gate_open(int cgroup, const struct rdv_option *option, struct rdv_gate **ret_gate,
		  char ret_text[RDV_TEXT_MAX])
{
	struct rdv_gate *gate = calloc(1, sizeof(*gate));
	if (!gate)
		return attach_failed("", ATTACH_MEMORY, -ENOMEM, ret_text);
	libbpf_print_fn_t before = libbpf_set_print(attach_log);
	int r = load(gate, cgroup, option, ret_text);
	libbpf_set_print(before);
	if (r < 0) {
		rdv_gate_close(gate);
		return r;
	}
	*ret_gate = gate;
	return 0;
}

void rdv_gate_close(struct rdv_gate *gate)
{
	if (!gate)
		return;
	gate__destroy(gate->skel);
	free(gate);
}

void rdv_gate_guard(struct rdv_gate *gate, bool guards)
{
	if (gate)
		gate->skel->bss->guards = guards;
}

struct rdv_refused rdv_gate_refused(const struct rdv_gate *gate)
{
	if (!gate)
		return (struct rdv_refused){ .by_user = -1 };
	return (struct rdv_refused){ .total = &gate->skel->bss->num_refused,
				     .by_user = bpf_map__fd(gate->skel->maps.refused) };
}
