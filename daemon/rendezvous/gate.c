/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/gate.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rendezvous/attach.h"
#include "gate.skel.h"

struct rdv_gate {
	struct gate *skel;
};

static int fail(char text[RDV_TEXT_MAX], int error, const char *what)
{
	snprintf(text, RDV_TEXT_MAX, "%s: %s", what, strerror(-error));
	return error;
}

static int load(struct rdv_gate *gate, int cgroup, const struct rdv_option *option,
		char text[RDV_TEXT_MAX])
{
	const struct rdv_gate_source source = rdv_option_gate_source(option);
	gate->skel = gate__open();
	if (!gate->skel)
		return fail(text, -errno, "cannot open the built-in BPF object");
	int r = bpf_map__reuse_fd(gate->skel->maps.socks, source.socks);
	if (r == 0)
		r = bpf_map__reuse_fd(gate->skel->maps.spoken, source.spoken);
	if (r == 0)
		r = gate__load(gate->skel);
	if (r < 0)
		return fail(text, r, "the kernel does not load the BPF program");
	if (cgroup < 0)
		return fail(text, cgroup, "cannot open the root of the cgroup2 hierarchy");
	r = attach_program(gate->skel->progs.smcr_gate, cgroup, &gate->skel->links.smcr_gate);
	return r < 0 ? fail(text, r, "cannot attach to the root cgroup") : 0;
}

int rdv_gate_open(int cgroup, const struct rdv_option *option, struct rdv_gate **ret_gate,
		  char ret_text[RDV_TEXT_MAX])
{
	struct rdv_gate *gate = calloc(1, sizeof(*gate));
	if (!gate)
		return fail(ret_text, -ENOMEM, "no memory");
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

struct rdv_refused rdv_gate_refused(const struct rdv_gate *gate)
{
	if (!gate)
		return (struct rdv_refused){ .by_user = -1 };
	return (struct rdv_refused){ .total = &gate->skel->bss->num_refused,
				     .by_user = bpf_map__fd(gate->skel->maps.refused) };
}
