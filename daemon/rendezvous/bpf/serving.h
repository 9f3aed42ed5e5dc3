/* SPDX-License-Identifier: MIT */
/**
 * @file serving.h
 * Which smcrd serves the network namespace: option.c fills in all but the flags, and asks. As
 * smcr.h is, this is compiled by both, with fixed-width types and explicit padding only.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_SERVING_H
#define SMCRD_RENDEZVOUS_BPF_SERVING_H

#include <linux/types.h>

/** proto/ipc/ipc.h: struct ipc_serving. */
#define SMCR_SERVING_STANDS_STILL (1 << 0)
#define SMCR_SERVING_STOPS        (1 << 1)
#define SMCR_SERVING_PATH_MAX     112

struct smcr_serving {
	__u64 instance;
	__u64 pid_namespace;
	__u32 pid;
	__u32 uid;
	__u32 flags;
	__u32 reserved;
	char socket[SMCR_SERVING_PATH_MAX];
};

#endif
