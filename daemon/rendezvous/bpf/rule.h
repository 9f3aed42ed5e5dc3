/* SPDX-License-Identifier: MIT */
/**
 * @file rule.h
 * Matching a connection against a rule of the administrator. The BPF programs and the daemon use
 * the same code. As smcr.h is, this is compiled by both, with fixed-width types and explicit
 * padding only.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_RULE_H
#define SMCRD_RENDEZVOUS_BPF_RULE_H

#include <linux/types.h>
#include <stdbool.h>

#define SMCR_MAX_RULES 256

/** IPv4 as IPv4-mapped IPv6. */
struct smcr_addr16 {
	__u32 word[4]; /* network byte order */
};

/** What rules can match. */
struct smcr_subject {
	struct smcr_addr16 local, peer;
	__u64 program; /* ipc_program_id(); 0: unknown */
	__u32 uid;     /* user that called connect() or listen() */
	__u32 port;    /* the server's, whichever side that is; host byte order */
};

enum {
	SMCR_RULE_DENY = 1 << 0,
	SMCR_RULE_ALLOW = 1 << 1, /* neither bit: there is no rule in this place */
	/* Conditions, all of which have to hold. */
	SMCR_RULE_UID = 1 << 2,
	SMCR_RULE_PROGRAM = 1 << 3,
	SMCR_RULE_PORT = 1 << 4,
	SMCR_RULE_PEER = 1 << 5,
	SMCR_RULE_LOCAL = 1 << 6,
};

/** Bits outside a mask are zero, and so are members without a flag. */
struct smcr_rule {
	__u32 flags;
	__u32 uid;
	__u64 program;
	__u32 port_min, port_max;
	struct smcr_addr16 peer, peer_mask;
	struct smcr_addr16 local, local_mask;
};

static inline __attribute__((always_inline)) bool smcr_addr_within(const struct smcr_addr16 *addr,
								   const struct smcr_addr16 *net,
								   const struct smcr_addr16 *mask)
{
	for (int i = 0; i < 4; i++)
		if ((addr->word[i] & mask->word[i]) != net->word[i])
			return false;
	return true;
}

/** Does the rule match? An unknown program matches no rule that names a program. */
static inline __attribute__((always_inline)) bool
smcr_rule_matches(const struct smcr_rule *rule, const struct smcr_subject *subject)
{
	__u32 flags = rule->flags;
	if (!(flags & (SMCR_RULE_DENY | SMCR_RULE_ALLOW)))
		return false;
	if ((flags & SMCR_RULE_UID) && rule->uid != subject->uid)
		return false;
	if ((flags & SMCR_RULE_PROGRAM) && rule->program != subject->program)
		return false;
	if ((flags & SMCR_RULE_PORT) &&
	    (subject->port < rule->port_min || subject->port > rule->port_max))
		return false;
	if ((flags & SMCR_RULE_PEER) &&
	    !smcr_addr_within(&subject->peer, &rule->peer, &rule->peer_mask))
		return false;
	return !(flags & SMCR_RULE_LOCAL) ||
	       smcr_addr_within(&subject->local, &rule->local, &rule->local_mask);
}

#endif
