/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "cli/smcrctl/check.h"
#include "proto/smcr/reason.h"

#define HERE_OR_THERE(text)                                                                        \
	{                                                                                          \
		text " of this host", text " of the peer"                                          \
	}
#define EITHER(text)                                                                               \
	{                                                                                          \
		text, text                                                                         \
	}

/* What is not here has no better advice than its own sentence and the logs. */
static const struct {
	uint32_t reason;
	const char *advice[2]; /* about ours, about the peer's */
} table[] = {
	{ SMCR_REASON_PEER_NO_SMC,
	  EITHER("start smcrd there, and the server under smcr-run; if both are so, a rule of the "
		 "peer's excludes it ('smcrctl policy' there), or a middlebox takes TCP option 254 "
		 "out") },
	{ SMCR_REASON_CONFIRM_LINK_FAILED,
	  EITHER("let UDP port 4791 pass both ways, through the firewalls of both hosts and what "
		 "is "
		 "between them ('smcrctl doctor' on both looks at theirs)") },
	{ SMCR_REASON_PATH_MTU, EITHER("let the path carry the MTU of the RNICs' interfaces, on "
				       "each switch between them, or "
				       "give the interfaces the MTU of the path; connections from "
				       "now on use smaller packets") },
	{ SMCR_REASON_NO_ROUTE,
	  EITHER("let the RoCE addresses of both hosts reach each other: 'ip route get' from each "
		 "to those that 'smcrctl device' shows on the other") },
	{ SMCR_REASON_PREFIX_MISMATCH,
	  EITHER("give both hosts addresses of one subnet with the same prefix length, or for "
		 "version 2 a UEID in common: 'smcrctl ueid add NAME' on both") },
	{ SMCR_REASON_UEID_MISMATCH,
	  EITHER("give both hosts a UEID in common: 'smcrctl ueid add NAME' on both") },
	{ SMCR_REASON_NO_UEID,
	  EITHER("give both hosts a UEID in common: 'smcrctl ueid add NAME' on both") },
	{ SMCR_REASON_VERSION_MISMATCH,
	  EITHER("see 'versions' in smcrd.conf(5) of both; version 2 needs a UEID in common: "
		 "'smcrctl ueid add NAME' on both") },
	{ SMCR_REASON_NO_DEVICE,
	  { "give the interface of this connection an IPv4 address and see 'smcrctl doctor'",
	    "see 'smcrctl doctor' on the peer: the interface of this connection needs an IPv4 "
	    "address and an RNIC; for version 2 'smcrctl ueid' of both must have one in common" } },
	{ SMCR_REASON_NO_R_DEVICE, { "see 'smcrctl doctor'", "see 'smcrctl doctor' on the peer" } },
	{ SMCR_REASON_NO_MEMORY, HERE_OR_THERE("raise 'memory' in smcrd.conf(5)") },
	{ SMCR_REASON_RMBE_EXHAUSTED, HERE_OR_THERE("raise 'memory' in smcrd.conf(5)") },
	{ SMCR_REASON_LIMIT,
	  HERE_OR_THERE("see 'at a limit' in 'smcrctl info', and max_connections_per_user in "
			"smcrd.conf(5),") },
	{ SMCR_REASON_NO_DESCRIPTORS, HERE_OR_THERE("raise LimitNOFILE= of smcrd.service") },
	{ SMCR_REASON_LOCAL_POLICY,
	  { "see 'smcrctl policy'; 'smcrctl policy delete RULE' lifts it",
	    "see 'smcrctl policy' on the peer" } },
	{ SMCR_REASON_PEER_SKIPPED,
	  { "see what has failed in 'smcrctl policy'; 'smcrctl policy forget' lets it be tried "
	    "again",
	    "see 'smcrctl policy' on the peer" } },
	{ SMCR_REASON_OWN_HOST, EITHER("nothing is wrong: ask about another host") },
	{ SMCR_REASON_SHORT_CONNECTIONS,
	  EITHER("nothing is wrong; short_connection_rate = 0 in smcrd.conf(5) turns that off") },
	{ SMCR_REASON_IPSEC, EITHER("nothing is wrong: RDMA would bypass the encryption") },
	{ SMCR_REASON_OTHER_NETWORK, EITHER("start an smcrd in the network namespace of the "
					    "program, with a --socket of its own "
					    "that SMCRD_SOCKET names") },
	{ SMCR_REASON_NO_BPF, EITHER("see 'smcrctl doctor'") },
	{ SMCR_REASON_NO_DAEMON, EITHER("start smcrd: systemctl start smcrd") },
	{ SMCR_REASON_SHUTTING_DOWN, EITHER("try again when smcrd has been started") },
	{ SMCR_REASON_OTHER_NETWORK,
	  EITHER("start an smcrd in the network namespace of the program ('ip netns exec')") },
	{ SMCR_REASON_NO_ANSWER, EITHER("what answers there sends the TCP option back without "
					"speaking SMC-R: a middlebox, "
					"or a program that does not accept connections") },
};

const char *check_advice(uint32_t reason, bool peer)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].reason == reason)
			return table[i].advice[peer];
	return peer ? "its smcrd logs more: journalctl -u smcrd on the peer"
		    : "smcrd logs more: journalctl -u smcrd";
}

bool check_is_path(uint32_t reason)
{
	return reason == SMCR_REASON_CONFIRM_LINK_FAILED;
}
