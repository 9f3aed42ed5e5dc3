/* SPDX-License-Identifier: MIT */
/**
 * @file gate.h
 * Looks at what leaves claimed sockets. It sees whether SYN and SYN-ACK really have the option that
 * the BPF programs of option.h have put in, and keeps ordinary users of the daemon's network
 * namespace from sending CLC messages. On a claimed socket whose handshake carried the option both
 * ways, CLC messages pass only if smcrd has written them (IPC_SO_SPOKEN). Harmless Declines, and
 * bytes that are no CLC, pass and open the gate of the socket for good. Sockets of root are not
 * checked. bpf/gate.bpf.c has the rules.
 */
#ifndef SMCRD_RENDEZVOUS_GATE_H
#define SMCRD_RENDEZVOUS_GATE_H

#include <stdbool.h>

#include "daemon/rendezvous/option.h"
#include "daemon/rendezvous/refused.h"

struct rdv_gate;

/**
 * Begin to look at handshakes; this lasts as long as the process. Refuses no CLC message before
 * rdv_gate_guard().
 * @param cgroup    what attach_root() gave, its error too; stays the caller's
 * @param option    must outlive the gate
 * @param ret_text  on failure: what is missing, for the log; room for RDV_TEXT_MAX
 * @return 0, or a negative errno: users can send CLC messages on claimed sockets, and the option
 *         counts as sent where another BPF program has taken it out
 */
int rdv_gate_open(int cgroup, const struct rdv_option *option, struct rdv_gate **ret_gate,
		  char ret_text[RDV_TEXT_MAX]);

/** NULL is allowed. */
void rdv_gate_close(struct rdv_gate *gate);

/** Refuse CLC messages from now on, or let them pass. NULL is allowed. */
void rdv_gate_guard(struct rdv_gate *gate, bool guards);

/** Counts of refused packets, by the user who has the socket. NULL: none. */
struct rdv_refused rdv_gate_refused(const struct rdv_gate *gate);

#endif
