/* SPDX-License-Identifier: MIT */
/*
 * Stands for a host's other BPF programs (foreign.bpf.c). It attaches its sock_ops program to the
 * root of the cgroup hierarchy, or to the cgroup of this path there, and prints "ready". The
 * program acts on the network namespace that it was started in, and leaves all others alone. Then
 * each line from standard input is answered with "ok" and the value, if there is one. It ends at
 * the end of its input, and with it all that it has attached. OPS are bits of BPF_SOCK_OPS_.. in
 * hexadecimal. zero OPS | flags OPS VALUE | option OPS BYTES | map OPS | mapped use msg|verdict
 * programs for sockets in the sockmap
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rendezvous/attach.h"
#include "daemon/rendezvous/option.h"
#include "foreign.skel.h"

static int use(struct foreign *skel, const char *what)
{
	int map = bpf_map__fd(skel->maps.sockets);
	if (!strcmp(what, "msg"))
		return bpf_prog_attach(bpf_program__fd(skel->progs.foreign_msg), map,
				       BPF_SK_MSG_VERDICT, 0);
	return bpf_prog_attach(bpf_program__fd(skel->progs.foreign_verdict), map,
			       BPF_SK_SKB_VERDICT, 0);
}

static void obey(struct foreign *skel, const char *line)
{
	char command[16] = "", arg[16] = "";
	unsigned int value = 0;
	int r = 0;
	sscanf(line, "%15s %15s %u", command, arg, &value);
	uint32_t ops = (uint32_t)strtoul(arg, NULL, 16);
	if (!strcmp(command, "zero")) {
		skel->bss->zero_at = ops;
	} else if (!strcmp(command, "flags")) {
		skel->bss->flags = value;
		skel->bss->flags_at = ops;
	} else if (!strcmp(command, "option")) {
		skel->bss->option_len = value;
		skel->bss->option_at = ops;
	} else if (!strcmp(command, "map")) {
		skel->bss->map_at = ops;
	} else if (!strcmp(command, "mapped")) {
		printf("ok %u\n", skel->bss->mapped);
		return;
	} else if (!strcmp(command, "use")) {
		r = use(skel, arg);
	} else {
		r = -1;
	}
	printf("%s\n", r == 0 ? "ok" : "failed");
}

static struct foreign *load(int cgroup)
{
	uint64_t netns;
	struct foreign *skel = foreign__open();
	if (!skel || rdv_netns_cookie(&netns) < 0)
		return NULL;
	skel->rodata->netns_cookie = netns;
	if (foreign__load(skel) < 0 ||
	    attach_program(skel->progs.foreign_sockops, cgroup, &skel->links.foreign_sockops) < 0)
		return NULL;
	return skel;
}

int main(int argc, char **argv)
{
	char line[64];
	int cgroup = attach_root();
	if (argc > 1)
		cgroup = openat(cgroup, argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct foreign *skel = cgroup < 0 ? NULL : load(cgroup);
	if (!skel) {
		perror("cannot attach the BPF program");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		obey(skel, line);
	foreign__destroy(skel);
	return 0;
}
