/* SPDX-License-Identifier: MIT */
/**
 * @file cgroup_root.h
 * The root of the cgroup2 hierarchy, to which smcrd attaches its BPF programs. smcrctl looks there
 * for those of others.
 */
#ifndef SMCRD_PROTO_IPC_CGROUP_ROOT_H
#define SMCRD_PROTO_IPC_CGROUP_ROOT_H

#include <stdbool.h>

/**
 * @param may_mount  whoever calls has CAP_SYS_ADMIN: then the hierarchy is found also where no
 * mount of it is in sight
 * @return a descriptor of the directory, which the caller closes, or a negative errno
 */
int ipc_cgroup_root(bool may_mount);

#endif
