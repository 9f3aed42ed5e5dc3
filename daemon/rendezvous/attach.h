/* SPDX-License-Identifier: MIT */
/**
 * @file attach.h
 * Attaching BPF programs to the root of the cgroup hierarchy.
 */
#ifndef SMCRD_RENDEZVOUS_ATTACH_H
#define SMCRD_RENDEZVOUS_ATTACH_H

#include <bpf/libbpf.h>

#include "daemon/rendezvous/option.h"

/**
 * Open the root of the cgroup2 hierarchy; the caller closes the descriptor. With CAP_SYS_ADMIN the
 * hierarchy is found wherever it is mounted, else only on /sys/fs/cgroup or its directory
 * `unified`.
 * @return the descriptor or a negative errno
 */
int attach_root(void);

/** Attach a program to the cgroup for as long as the link exists. @return 0 or a negative errno */
int attach_program(struct bpf_program *prog, int cgroup, struct bpf_link **ret_link);

/** The steps of attaching programs. */
enum attach_step {
	ATTACH_MEMORY,  /* memory for what this process knows of the programs */
	ATTACH_NETNS,   /* rdv_netns_cookie() */
	ATTACH_OPEN,    /* opening the built-in BPF object */
	ATTACH_LOAD,    /* loading programs and maps into the kernel */
	ATTACH_ROOT,    /* attach_root() */
	ATTACH_PROGRAM, /* attach_program() */
};

/**
 * Write a text that says which step has failed, why, and what to do.
 * @param of        what the programs are for, followed by ": "; may be empty
 * @param error     negative errno
 * @param ret_text  for the log and operators; room RDV_TEXT_MAX
 * @return error
 */
int attach_failed(const char *of, enum attach_step step, int error, char ret_text[RDV_TEXT_MAX]);

/** For libbpf_set_print(). Messages of libbpf, with those of the verifier, are for developers. */
int attach_log(enum libbpf_print_level level, const char *format, va_list args);

#endif
