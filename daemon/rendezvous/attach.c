/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/attach.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "daemon/host/log.h"
#include "daemon/host/privileges.h"
#include "proto/ipc/cgroup_root.h"

int attach_root(void)
{
	/* Mounting needs CAP_SYS_ADMIN, opening does not. The service's system call filter forbids
	 * mounting. */
	return ipc_cgroup_root(privileges_has(CAP_SYS_ADMIN));
}

int attach_program(struct bpf_program *prog, int cgroup, struct bpf_link **ret_link)
{
	/* Unlike BPF_PROG_ATTACH, a link vanishes with its owner, and leaves programs of others
	 * attached.
	 */
	struct bpf_link *link = bpf_program__attach_cgroup(prog, cgroup);
	if (!link)
		return -errno;
	*ret_link = link;
	return 0;
}

/* ---- what fails, and what to do */

struct advice {
	const char *what, *todo;
};

static struct advice of_loading(int error)
{
	/* Programs that compare a pointer with NULL need CAP_PERFMON; without it the kernel says
	 * -EACCES. */
	if (error == -EPERM || error == -EACCES)
		return (struct advice){ "the kernel does not let us load BPF programs",
					"give the daemon CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" };
	return (struct advice){
		"the kernel refuses the BPF programs",
		"a kernel of version 6.1 or newer with CONFIG_CGROUP_BPF is needed"
	};
}

static struct advice of_attaching(int error)
{
	switch (error) {
	case -EPERM:
		return (struct advice){ "cannot attach to the root cgroup",
					"give the daemon CAP_NET_ADMIN, or find with `bpftool "
					"cgroup tree` who attached a program there without "
					"allowing others" };
	case -E2BIG:
		return (struct advice){ "the kernel takes no more BPF programs at the root cgroup, "
					"it has 64 of a kind",
					"end other instances of smcrd, in other network namespaces "
					"too; `bpftool cgroup tree` lists the programs" };
	default:
		return (struct advice){
			"cannot attach to the root cgroup",
			"a kernel of version 6.1 or newer with CONFIG_CGROUP_BPF is needed"
		};
	}
}

static struct advice advise(enum attach_step step, int error)
{
	switch (step) {
	case ATTACH_MEMORY: return (struct advice){ "no memory", "free some" };
	case ATTACH_NETNS:
		return (struct advice){ "the kernel has no SO_NETNS_COOKIE",
					"a kernel of version 6.1 or newer is needed" };
	case ATTACH_OPEN:
		return (struct advice){ "cannot open the built-in BPF object",
					"the installation is damaged, install smcrd again" };
	case ATTACH_LOAD: return of_loading(error);
	case ATTACH_ROOT:
		return (struct advice){
			"cannot open the root of the cgroup2 hierarchy",
			"mount it on /sys/fs/cgroup or give the daemon CAP_SYS_ADMIN"
		};
	case ATTACH_PROGRAM: break;
	}
	return of_attaching(error);
}

int attach_failed(const char *of, enum attach_step step, int error, char ret_text[RDV_TEXT_MAX])
{
	const struct advice advice = advise(step, error);
	snprintf(ret_text, RDV_TEXT_MAX, "%s%s: %s; %s", of, advice.what, strerror(-error),
		 advice.todo);
	return error;
}

int attach_log(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level != LIBBPF_DEBUG)
		log_messagev(LOG_DEBUG, format, args);
	return 0;
}
