/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "cli/smcrctl/check.h"
#include "proto/smcr/reason.h"

#define HERE_OR_THERE(text) ((struct advice){ text " of this host", text " of the peer" })
#define EITHER(text)        ((struct advice){ text, text })

struct advice {
	const char *ours, *peers; /* for a reason of this host, of the peer; NULL: see the logs */
};

/* For a reason that is not in this list there is no advice but to read the logs. */
static struct advice advice_of(uint32_t reason)
{
	switch (reason) {
	case SMCR_REASON_PEER_NO_SMC:
		return EITHER(
			"start smcrd there, and the server under smcr-run; if both run so, "
			"'smcrctl policy' there shows a rule against this connection or a "
			"failure with this host ('smcrctl policy forget' there ends its "
			"effect), 'smcrctl info' there whether smcrd is drained, and 'smcrctl "
			"doctor' there whether another BPF program takes TCP option 254 out; or "
			"a middlebox does");
	case SMCR_REASON_OPTION_REMOVED:
		return EITHER("'smcrctl doctor' as root names the BPF programs of others that see "
			      "TCP handshakes; 'nft list ruleset' has the firewall's rules");
	case SMCR_REASON_CONFIRM_LINK_FAILED:
		return EITHER(
			"let UDP port 4791 pass both ways, through the firewalls of both hosts and "
			"those between them ('smcrctl doctor' checks the firewall of its host)");
	case SMCR_REASON_PATH_MTU:
		return EITHER("let the path carry the MTU of the RNICs' interfaces, on each switch "
			      "between them, or give the interfaces the MTU of the path; "
			      "connections from now on use smaller packets");
	case SMCR_REASON_NO_ROUTE:
		return EITHER("let the RoCE addresses of both hosts reach each other: 'ip route "
			      "get' from each to those that 'smcrctl device' shows on the other");
	case SMCR_REASON_PREFIX_MISMATCH:
		return EITHER(
			"give both hosts addresses of one subnet with the same prefix length, or "
			"for version 2 a UEID in common: 'smcrctl ueid add NAME' on both");
	case SMCR_REASON_UEID_MISMATCH:
	case SMCR_REASON_NO_UEID:
		return EITHER("give both hosts a UEID in common: 'smcrctl ueid add NAME' on both");
	case SMCR_REASON_VERSION_MISMATCH:
		return EITHER("see 'versions' in smcrd.conf(5) of both; version 2 needs a UEID in "
			      "common: 'smcrctl ueid add NAME' on both");
	case SMCR_REASON_NO_DEVICE:
		return (struct advice){ "give the interface of this connection an IPv4 address and "
					"see 'smcrctl doctor'",
					"see 'smcrctl doctor' on the peer: the interface of this "
					"connection needs an IPv4 address and an RNIC; for version "
					"2 'smcrctl ueid' of both must have one in common" };
	case SMCR_REASON_NO_R_DEVICE:
		return (struct advice){ "see 'smcrctl doctor'",
					"see 'smcrctl doctor' on the peer" };
	case SMCR_REASON_NO_MEMORY:
	case SMCR_REASON_RMBE_EXHAUSTED: return HERE_OR_THERE("raise 'memory' in smcrd.conf(5)");
	case SMCR_REASON_LIMIT:
		return HERE_OR_THERE("see 'at a limit' in 'smcrctl info', and "
				     "max_connections_per_user in smcrd.conf(5),");
	case SMCR_REASON_NO_DESCRIPTORS:
		return HERE_OR_THERE("raise LimitNOFILE= of smcrd.service");
	case SMCR_REASON_LOCAL_POLICY:
		return (struct advice){
			"see 'smcrctl policy'; 'smcrctl policy delete RULE' lifts it",
			"see 'smcrctl policy' on the peer"
		};
	case SMCR_REASON_PEER_SKIPPED:
		return (struct advice){ "see what has failed in 'smcrctl policy'; 'smcrctl policy "
					"forget' lets SMC-R be tried again",
					"see 'smcrctl policy' on the peer" };
	case SMCR_REASON_OWN_HOST: return EITHER("nothing is wrong: ask about another host");
	case SMCR_REASON_SHORT_CONNECTIONS:
		return EITHER("nothing is wrong; short_connection_rate = 0 in smcrd.conf(5) turns "
			      "that off");
	case SMCR_REASON_IPSEC: return EITHER("nothing is wrong: RDMA would bypass the encryption");
	case SMCR_REASON_OTHER_NETWORK:
		return EITHER("start an smcrd in the network namespace of the program, with a "
			      "--socket of its own that SMCRD_SOCKET names");
	case SMCR_REASON_NO_BPF: return EITHER("see 'smcrctl doctor'");
	case SMCR_REASON_NO_DAEMON: return EITHER("start smcrd: systemctl start smcrd");
	case SMCR_REASON_DRAINING:
		return (struct advice){ "'smcrctl drain --off' ends that; 'smcrctl info' says "
					"since when it is so",
					"'smcrctl drain --off' on the peer ends that" };
	case SMCR_REASON_SHUTTING_DOWN: return EITHER("try again when smcrd has been started");
	case SMCR_REASON_NO_ANSWER:
		return EITHER("what answers there sends the TCP option back without speaking "
			      "SMC-R: a middlebox, or a program that does not accept connections");
	}
	return (struct advice){ NULL, NULL };
}

const char *check_advice(uint32_t reason, bool peer)
{
	struct advice advice = advice_of(reason);
	if (peer)
		return advice.peers ? advice.peers
				    : "its smcrd logs more: journalctl -u smcrd on the peer";
	return advice.ours ? advice.ours : "smcrd logs more: journalctl -u smcrd";
}

bool check_is_path(uint32_t reason)
{
	return reason == SMCR_REASON_CONFIRM_LINK_FAILED;
}
