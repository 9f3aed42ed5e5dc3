/* SPDX-License-Identifier: MIT */
/**
 * @file attach.h
 * What attaching BPF programs to the root of the cgroup hierarchy takes.
 */
#ifndef SMCRD_RENDEZVOUS_ATTACH_H
#define SMCRD_RENDEZVOUS_ATTACH_H

#include <bpf/libbpf.h>

#include "daemon/rendezvous/option.h"

/**
 * A descriptor of the root of the cgroup2 hierarchy, the caller's. With CAP_SYS_ADMIN it is found
 * wherever it is mounted, else on /sys/fs/cgroup or its unified directory only.
 * @return that or a negative errno
 */
int attach_root(void);

/** Attach a program there for as long as the link lives. @return 0 or a negative errno */
int attach_program(struct bpf_program *prog, int cgroup, struct bpf_link **ret_link);

/** On the way to programs that are attached. */
enum attach_step {
	ATTACH_MEMORY,  /* none for what we know of them */
	ATTACH_NETNS,   /* rdv_netns_cookie() */
	ATTACH_OPEN,    /* the BPF object that is built in */
	ATTACH_LOAD,    /* programs and maps into the kernel */
	ATTACH_ROOT,    /* attach_root() */
	ATTACH_PROGRAM, /* attach_program() */
};

/**
 * Say that a step has failed, why, and what to do.
 * @param of        for whom, with ": " behind it; may be empty
 * @param error     negative errno
 * @param ret_text  for the log and operators; room RDV_TEXT_MAX
 * @return error
 */
int attach_failed(const char *of, enum attach_step step, int error, char ret_text[RDV_TEXT_MAX]);

/** For libbpf_set_print(). What libbpf says, the verifier's complaints among it, is for developers.
 */
int attach_log(enum libbpf_print_level level, const char *format, va_list args);

#endif
