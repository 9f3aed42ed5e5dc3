/* SPDX-License-Identifier: MIT */
/**
 * @file attach.h
 * What attaching BPF programs to the root of the cgroup hierarchy takes.
 */
#ifndef SMCRD_RENDEZVOUS_ATTACH_H
#define SMCRD_RENDEZVOUS_ATTACH_H

#include <bpf/libbpf.h>

/**
 * A descriptor of the root of the cgroup2 hierarchy, the caller's. With CAP_SYS_ADMIN it is found
 * wherever it is mounted, else on /sys/fs/cgroup or its unified directory only.
 * @return that or a negative errno
 */
int attach_root(void);

/** Attach a program there for as long as the link lives. @return 0 or a negative errno */
int attach_program(struct bpf_program *prog, int cgroup, struct bpf_link **ret_link);

/** For libbpf_set_print(). What libbpf says, the verifier's complaints among it, is for developers.
 */
int attach_log(enum libbpf_print_level level, const char *format, va_list args);

#endif
