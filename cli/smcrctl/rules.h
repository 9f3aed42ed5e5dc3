/* SPDX-License-Identifier: MIT */
/**
 * @file rules.h
 * "smcrctl doctor --rules": the firewall's rules of docs/security.md, filled in for this host.
 *
 *   rules.c         the output, and errors
 *   rules_gather.c  what smcrd knows of RNICs and peers
 *   rules_table.c   the text for nft
 */
#ifndef SMCRD_SMCRCTL_RULES_H
#define SMCRD_SMCRCTL_RULES_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/session.h"
#include "cli/smcrctl/tools.h"

/** What the rules are made of. Every text in it is fit for nft, between quotes. */
struct rules {
	json_t *interfaces; /* names: of RNICs, and of those that the configuration waits for */
	json_t *peers;      /* IPv4 addresses, and networks such as 10.1.0.0/16 */
	json_t *users;      /* who may send RoCEv2: names, or numbers as text */
	json_t *unsure;     /* sentences about RNICs for which the rules may be of no use */
};

/** Print the rules, as text for `nft -f` or as JSON. @return the exit status of smcrctl */
int rules_run(const struct tool_call *call);

/**
 * Ask smcrd for what the rules are made of.
 * @param ret_rules  rules_free() frees it, also after an error
 * @return 0; -ENODEV: smcrd has no RNIC; -EXDEV: smcrd is in another network namespace; -EINVAL: a
 * name that nft does not take; or as ask_smcrd(). ret_error then has a sentence
 */
int rules_gather(const char *socket_path, struct rules *ret_rules,
		 char ret_error[SESSION_ERROR_LEN]);
void rules_free(struct rules *rules);

/** The whole text for `nft -f`. @return malloc'ed; NULL: no memory */
char *rules_table(const struct rules *rules);

#endif
