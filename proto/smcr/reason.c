/* SPDX-License-Identifier: MIT */
#include "proto/smcr/reason.h"

#include <stdio.h>

struct reason {
	const char *name;
	const char *text;
};

/* There is no default case, so that the compiler warns of a code without words. */
static struct reason of_ours(enum smcr_reason code)
{
	switch (code) {
	case SMCR_REASON_NONE:
		return (struct reason){ "none", "SMC-R is used, or no reason was given" };
	case SMCR_REASON_NO_MEMORY:
		return (struct reason){ "no-memory",
					"there is no memory for another link group or its buffers: "
					"'memory' in smcrd.conf is used up, or too small" };
	case SMCR_REASON_CONFIRM_LINK_FAILED:
		return (struct reason){ "confirm-link-failed",
					"no answer came over RoCE in time: does a firewall on the "
					"way, or of one of the hosts, drop UDP port 4791?" };
	case SMCR_REASON_ADD_LINK_FAILED:
		return (struct reason){
			"add-link-failed",
			"a link of the new link group failed while it was set up: RoCE packets are "
			"lost on the way, or an RDMA device went down"
		};
	case SMCR_REASON_CONFIG:
		return (struct reason){
			"config",
			"'versions' in smcrd.conf allows no version of SMC-R for this connection"
		};
	case SMCR_REASON_PEER_NO_SMC:
		return (struct reason){
			"peer-no-smc",
			"the peer did not offer SMC-R: no SMC option in its TCP handshake"
		};
	case SMCR_REASON_LOCAL_POLICY:
		return (struct reason){ "local-policy",
					"a deny or allow rule keeps this connection from SMC-R: "
					"smcrctl policy shows which" };
	case SMCR_REASON_IPSEC:
		return (struct reason){ "ipsec",
					"the connection is under IPsec, which RDMA would bypass" };
	case SMCR_REASON_NO_DEVICE:
		return (struct reason){
			"no-device",
			"no RDMA device can be used for this connection (smcrctl device shows "
			"why); peers of version 2 also say so when no user EID is in common"
		};
	case SMCR_REASON_NO_R_DEVICE:
		return (struct reason){ "no-r-device",
					"no RDMA device is active in the network of this "
					"connection: smcrctl device shows why" };
	case SMCR_REASON_NO_UEID:
		return (struct reason){ "no-ueid",
					"SMC-Rv2 was offered without any user EID: neither 'ueid' "
					"in smcrd.conf nor smcrctl ueid gave one" };
	case SMCR_REASON_RELEASE_MISMATCH:
		return (struct reason){ "release-mismatch",
					"the two sides disagree on the release of SMC version 2" };
	case SMCR_REASON_MAX_CONNS:
		return (struct reason){
			"max-conns",
			"the two sides disagree on how many connections a link group may have"
		};
	case SMCR_REASON_MAX_LINKS:
		return (struct reason){
			"max-links",
			"the two sides disagree on how many links a link group may have"
		};
	case SMCR_REASON_MODE_MISMATCH:
		return (struct reason){ "mode-mismatch",
					"the peer accepted a kind of SMC that was not offered" };
	case SMCR_REASON_EYE_CATCHER:
		return (struct reason){ "eye-catcher",
					"the two sides disagree on eye catchers in receive "
					"buffers: see 'dialect' in smcrd.conf" };
	case SMCR_REASON_SOCKET_OPTION:
		return (struct reason){ "socket-option",
					"the socket has an option, or is of a kind, that SMC-R "
					"cannot serve, such as TCP Fast Open or a filter" };
	case SMCR_REASON_PREFIX_MISMATCH:
		return (struct reason){
			"prefix-mismatch",
			"the two sides are not in the same IP subnet, which SMC-R version 1 "
			"requires; version 2 requires a user EID in common"
		};
	case SMCR_REASON_VLAN:
		return (struct reason){ "vlan", "the VLAN of the connection's interface could not "
						"be used with an RDMA device" };
	case SMCR_REASON_NO_ACTIVE_LINK:
		return (struct reason){
			"no-active-link",
			"the link group had no active link for the connection while it was set up"
		};
	case SMCR_REASON_UNKNOWN_LINK:
		return (struct reason){ "unknown-link",
					"the server named a link that the client does not have" };
	case SMCR_REASON_VERSION_MISMATCH:
		return (struct reason){
			"version-mismatch",
			"no SMC version in common: see 'versions' in smcrd.conf of both sides"
		};
	case SMCR_REASON_NO_ROUTE:
		return (struct reason){ "no-route", "no route to the peer's RoCE address" };
	case SMCR_REASON_NOT_INDIRECT:
		return (struct reason){
			"not-indirect",
			"the server said that a gateway is between the RoCE addresses, and none is"
		};
	case SMCR_REASON_OUT_OF_SYNC:
		return (struct reason){ "out-of-sync",
					"the server used a link group that the client has ended; "
					"the next connection makes a new one" };
	case SMCR_REASON_PEER_DECLINED:
		return (struct reason){ "peer-declined", "the peer declined SMC-R" };
	case SMCR_REASON_INTERNAL:
		return (struct reason){ "internal",
					"an internal error, of which the log of smcrd says more" };
	case SMCR_REASON_RTOKEN:
		return (struct reason){
			"rtoken", "the key and address of the peer's receive buffer could not be "
				  "stored: they are there already, or there are too many"
		};
	case SMCR_REASON_QP_NOT_READY:
		return (struct reason){ "qp-not-ready", "the RDMA device did not make the queue "
							"pair ready: the log of smcrd says more" };
	case SMCR_REASON_RKEY_EXCHANGE:
		return (struct reason){ "rkey-exchange",
					"a new receive buffer could not be registered with the "
					"RDMA device, or announced to the peer over RoCE" };
	case SMCR_REASON_BAD_ENUM:
		return (struct reason){
			"bad-value", "a message carried a reserved MTU, buffer size or version"
		};
	case SMCR_REASON_RMBE_EXHAUSTED:
		return (struct reason){
			"rmbe-exhausted",
			"there is no room for a receive buffer: 'memory' in smcrd.conf, a user's "
			"or peer's part of it, or the 255 RMBs of a link group"
		};
	case SMCR_REASON_PEER_SKIPPED:
		return (struct reason){ "peer-skipped",
					"SMC-R with this peer failed a moment ago and is not tried "
					"again yet: smcrctl policy shows why and for how long" };
	case SMCR_REASON_NO_BPF:
		return (struct reason){ "no-bpf", "this host cannot send the SMC option: smcrd has "
						  "no BPF programs, and smcrctl info says why" };
	case SMCR_REASON_SHUTTING_DOWN:
		return (struct reason){ "shutting-down", "smcrd is shutting down" };
	case SMCR_REASON_NOT_CLAIMED:
		return (struct reason){
			"not-claimed",
			"the socket was not prepared for SMC-R: its program did not want that, or "
			"it is older than smcrd or than the library in its program"
		};
	case SMCR_REASON_NO_ANSWER:
		return (struct reason){
			"no-answer", "the handshake promised SMC-R, but no sound answer to the "
				     "rendezvous came: the connection was made again as plain TCP"
		};
	case SMCR_REASON_PATH_MTU:
		return (struct reason){
			"path-mtu",
			"full-size packets do not get through to the peer's RNIC, small ones do: "
			"the MTU of the path is less than that of the interface"
		};
	case SMCR_REASON_UEID_MISMATCH:
		return (struct reason){
			"ueid-mismatch",
			"the two sides have no user EID in common: see smcrctl ueid on both"
		};
	case SMCR_REASON_LIMIT:
		return (struct reason){
			"limit", "smcrd serves as many connections, sessions or listeners as it "
				 "may, of this user, with this peer or of all: see smcrctl info"
		};
	case SMCR_REASON_NO_DESCRIPTORS:
		return (struct reason){ "no-descriptors", "no file descriptor is left for this in "
							  "smcrd, in the program, or on the host" };
	case SMCR_REASON_NO_DAEMON:
		return (struct reason){
			"no-daemon", "no smcrd answers that could serve this connection: it does "
				     "not run, it hangs, or the program may not reach its socket"
		};
	case SMCR_REASON_DRAINING:
		return (struct reason){ "draining", "smcrd takes no new SMC-R connections: an "
						    "operator has it drained (smcrctl drain)" };
	case SMCR_REASON_OPTION_REMOVED:
		return (struct reason){
			"option-removed",
			"another BPF program of this host, or its firewall, has kept the SMC "
			"option "
			"out of the TCP handshake: smcrctl doctor names such programs"
		};
	case SMCR_REASON_OWN_HOST:
		return (struct reason){ "own-host",
					"both ends are on this host, where RDMA gains nothing" };
	case SMCR_REASON_BARRED:
		return (struct reason){
			"shared-listener",
			"a program without the library has this listener too and may accept from it"
		};
	case SMCR_REASON_OTHER_NETWORK:
		return (struct reason){ "other-namespace",
					"the program is in another network namespace than its "
					"smcrd: that namespace needs an smcrd of its own" };
	case SMCR_REASON_TCP_MESSAGES:
		return (struct reason){
			"tcp-messages",
			"the program has asked for what only TCP tells it, such as "
			"timestamps (SO_TIMESTAMP, SO_TIMESTAMPING), TCP_INQ or the "
			"notices of SO_ZEROCOPY"
		};
	case SMCR_REASON_SHORT_CONNECTIONS:
		return (struct reason){ "short-connections",
					"connections to this port end too soon for SMC-R to pay: "
					"smcrctl policy shows which" };
	}
	return (struct reason){ 0 };
}

/* Codes that deployed peers send; smcrd only shows them. */
static struct reason of_others(uint32_t code)
{
	switch (code) {
	case 0x03030001: return (struct reason){ "no-d-device", "no SMC-D device was found" };
	case 0x03030003: return (struct reason){ "no-ismv2", "there is no ISM version 2 hardware" };
	case 0x03030004:
		return (struct reason){ "no-v2-extension",
					"the version 2 extension of the Proposal is missing" };
	case 0x03030005:
		return (struct reason){ "no-dv2-extension",
					"the SMC-Dv2 extension of the Proposal is missing" };
	case 0x03030006: return (struct reason){ "no-seid", "there is no system EID" };
	case 0x03030007: return (struct reason){ "no-dv2-device", "no SMC-Dv2 device was found" };
	case 0x03090000:
		return (struct reason){ "ism-vlan",
					"the VLAN could not be registered with the ISM device" };
	case 0x030d0000:
		return (struct reason){ "d-buffer-limit",
					"there are as many SMC-D buffers as there may be" };
	default:
		return (struct reason){
			"unknown", "the peer gave a code that only its own documentation explains"
		};
	}
}

static struct reason reason_of(uint32_t code)
{
	struct reason reason = of_ours((enum smcr_reason)code);
	return reason.name ? reason : of_others(code);
}

void smcr_reason_sentence(uint32_t own, uint32_t peer, char *ret_text, size_t len)
{
	if (peer)
		snprintf(ret_text, len, "%s; the peer says: %s", smcr_reason_text(own),
			 smcr_reason_text(peer));
	else
		snprintf(ret_text, len, "%s", smcr_reason_text(own));
}

const char *smcr_reason_name(uint32_t code)
{
	return reason_of(code).name;
}

const char *smcr_reason_text(uint32_t code)
{
	return reason_of(code).text;
}
