/* SPDX-License-Identifier: MIT */
/**
 * @file caller.h
 * Who calls setsockopt(): noted with sockets that are claimed, barred or left on TCP.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_CALLER_H
#define SMCRD_RENDEZVOUS_BPF_CALLER_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "daemon/rendezvous/bpf/smcr.h"

/* The program and flags of `by` come with the call: the caller says what program it is. */
struct caller {
	struct smcr_claimant by;
	struct smcr_process process;
};

static __always_inline void who_calls(struct caller *caller)
{
	caller->by.uid = (__u32)bpf_get_current_uid_gid();
	caller->process.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(caller->process.comm, sizeof(caller->process.comm));
}

#endif
