/* SPDX-License-Identifier: MIT */
/**
 * @file serving.h
 * Which smcrd serves this network namespace: its BPF programs are asked, and answer also while it
 * was stopped. They are gone with it. Only who may attach programs to the root of the cgroup
 * hierarchy can give another answer. Needs no privileges.
 */
#ifndef SMCRD_RENDEZVOUS_SERVING_H
#define SMCRD_RENDEZVOUS_SERVING_H

#include "proto/ipc/ipc.h"

/**
 * Ask for the smcrd of the calling thread's network namespace.
 * @return 0; -ENOENT: there is none, or it serves without BPF programs; -EPROTO: there is one of a
 *         version that does not say which it is; or another negative errno: not known
 */
int rdv_serving_ask(struct ipc_serving *ret_serving);

#endif
