/* SPDX-License-Identifier: MIT */
/*
 * Counts how often the kernel calls BPF programs for TCP sockets of the network namespace that it
 * was started in (BPF_PROG_TYPE_SOCK_OPS). It prints "ready". Then it answers each line from
 * standard input with a line of the count so far. It ends at the end of its input.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "daemon/rendezvous/attach.h"
#include "daemon/rendezvous/option.h"

/* What an instruction with a 64-bit constant takes: two places, with half of the constant each. */
#define LOAD_64(reg, kind, low, high)                                                              \
	{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = (reg), .src_reg = (kind), .imm = (low) },  \
	{                                                                                          \
		.imm = (high)                                                                      \
	}

/* @return a descriptor of the program, or a negative errno */
static int load(uint64_t netns, int counter)
{
	const struct bpf_insn program[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_netns_cookie },
		LOAD_64(BPF_REG_1, 0, (int32_t)netns, (int32_t)(netns >> 32)),
		{ .code = BPF_JMP | BPF_JNE | BPF_X,
		  .dst_reg = BPF_REG_0,
		  .src_reg = BPF_REG_1,
		  .off = 4 },
		LOAD_64(BPF_REG_1, BPF_PSEUDO_MAP_VALUE, counter, 0),
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 1 },
		{ .code = BPF_STX | BPF_DW | BPF_ATOMIC,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_REG_2,
		  .imm = BPF_ADD },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	return bpf_prog_load(BPF_PROG_TYPE_SOCK_OPS, "callback_count", "Dual MIT/GPL", program,
			     sizeof(program) / sizeof(program[0]), NULL);
}

static bool answer(int counter)
{
	uint32_t first = 0;
	uint64_t count;
	if (bpf_map_lookup_elem(counter, &first, &count) < 0)
		return false;
	printf("%llu\n", (unsigned long long)count);
	return true;
}

int main(void)
{
	char line[64];
	uint64_t netns;
	int cgroup = attach_root();
	int counter = bpf_map_create(BPF_MAP_TYPE_ARRAY, "count", sizeof(uint32_t), sizeof(netns),
				     1, NULL);
	int r = rdv_netns_cookie(&netns);
	if (r == 0)
		r = load(netns, counter);
	if (r >= 0) /* until this process ends, which closes the link */
		r = bpf_link_create(r, cgroup, BPF_CGROUP_SOCK_OPS, NULL);
	if (r < 0) {
		fprintf(stderr, "cannot count callbacks: %s\n", strerror(-r));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (!answer(counter))
			return 1;
	}
	return 0;
}
