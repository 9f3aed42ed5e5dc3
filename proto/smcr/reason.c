/* SPDX-License-Identifier: MIT */
#include "proto/smcr/reason.h"

#include <stddef.h>

struct reason {
	uint32_t code;
	const char *name;
	const char *text;
};

/* Codes without an enumerator are sent by deployed peers only: we show them, never send them. */
static const struct reason reasons[] = {
	{ SMCR_REASON_NONE, "none", "SMC-R is used, or no reason was given" },
	{ SMCR_REASON_NO_MEMORY, "no-memory", "memory for buffers or a link group ran out" },
	{ SMCR_REASON_CONFIRM_LINK_FAILED, "confirm-link-failed",
	  "the first link could not be confirmed over RoCE in time" },
	{ SMCR_REASON_ADD_LINK_FAILED, "add-link-failed",
	  "the exchange about a second link failed or took too long" },
	{ SMCR_REASON_CONFIG, "config", "the configuration does not allow SMC-R here" },
	{ SMCR_REASON_PEER_NO_SMC, "peer-no-smc",
	  "the peer did not offer SMC-R: no SMC option in its TCP handshake" },
	{ SMCR_REASON_LOCAL_POLICY, "local-policy",
	  "a local rule excludes this connection from SMC-R" },
	{ SMCR_REASON_IPSEC, "ipsec", "the connection is under IPsec, which RDMA would bypass" },
	{ SMCR_REASON_NO_DEVICE, "no-device",
	  "no usable RDMA device for the interface of this connection" },
	{ 0x03030001, "no-d-device", "the peer found no SMC-D device" },
	{ SMCR_REASON_NO_R_DEVICE, "no-r-device", "no usable SMC-R device was found" },
	{ 0x03030003, "no-ismv2", "the peer has no ISM version 2 hardware" },
	{ 0x03030004, "no-v2-extension", "the version 2 extension of the Proposal is missing" },
	{ 0x03030005, "no-dv2-extension", "the SMC-Dv2 extension of the Proposal is missing" },
	{ 0x03030006, "no-seid", "no system EID" },
	{ 0x03030007, "no-dv2-device", "the peer found no SMC-Dv2 device" },
	{ 0x03030008, "no-ueid", "SMC-Rv2 was offered without any user EID" },
	{ 0x03030009, "release-mismatch", "the two sides disagree on the SMC release number" },
	{ 0x0303000a, "max-conns", "the number of connections a link group was not acceptable" },
	{ 0x0303000b, "max-links", "the number of links a link group was not acceptable" },
	{ SMCR_REASON_MODE_MISMATCH, "mode-mismatch",
	  "the peer accepted a kind of SMC that was not offered" },
	{ SMCR_REASON_EYE_CATCHER, "eye-catcher",
	  "the peer uses, or refuses, eye catchers in receive buffers" },
	{ SMCR_REASON_SOCKET_OPTION, "socket-option",
	  "a socket option is in use that SMC-R cannot serve" },
	{ SMCR_REASON_PREFIX_MISMATCH, "prefix-mismatch",
	  "the two sides are not in the same IP subnet, which SMC-R version 1 requires" },
	{ SMCR_REASON_VLAN, "vlan", "the VLAN of the connection's interface could not be used" },
	{ 0x03090000, "ism-vlan", "the peer could not register the VLAN with its ISM device" },
	{ SMCR_REASON_NO_ACTIVE_LINK, "no-active-link", "the link group has no active link" },
	{ SMCR_REASON_UNKNOWN_LINK, "unknown-link",
	  "the server named a link that the client does not have" },
	{ SMCR_REASON_VERSION_MISMATCH, "version-mismatch", "no SMC version in common" },
	{ 0x030d0000, "d-buffer-limit", "the peer reached its limit of SMC-D buffers" },
	{ 0x030e0000, "no-route", "no route to the peer's RoCE address" },
	{ 0x030f0000, "no-indirect", "the route to the peer's RoCE address is not what it said" },
	{ SMCR_REASON_OUT_OF_SYNC, "out-of-sync",
	  "the server used a link group that the client no longer has" },
	{ SMCR_REASON_PEER_DECLINED, "peer-declined", "the peer declined; its own code tells why" },
	{ SMCR_REASON_INTERNAL, "internal", "an internal error" },
	{ SMCR_REASON_RTOKEN, "rtoken", "the peer's RMB key and address could not be stored" },
	{ SMCR_REASON_QP_NOT_READY, "qp-not-ready", "the queue pair could not be made ready" },
	{ SMCR_REASON_RKEY_EXCHANGE, "rkey-exchange",
	  "a new receive buffer could not be registered or announced to the peer" },
	{ SMCR_REASON_BAD_ENUM, "bad-value",
	  "a message carried a reserved MTU, buffer size or version" },
	{ SMCR_REASON_RMBE_EXHAUSTED, "rmbe-exhausted",
	  "no receive buffer is free and no more may be made" },
	{ SMCR_REASON_PEER_SKIPPED, "peer-skipped",
	  "RoCE to this peer failed a moment ago and is not tried again yet" },
	{ SMCR_REASON_NO_BPF, "no-bpf", "this host cannot send the SMC option: no BPF programs" },
	{ SMCR_REASON_SHUTTING_DOWN, "shutting-down", "smcrd is shutting down" },
	{ SMCR_REASON_NOT_CLAIMED, "not-claimed",
	  "the socket was made before the preload library or smcrd could prepare it" },
};

static const struct reason *find(uint32_t code)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].code == code)
			return &reasons[i];
	return NULL;
}

const char *smcr_reason_name(uint32_t code)
{
	const struct reason *reason = find(code);
	return reason ? reason->name : "unknown";
}

const char *smcr_reason_text(uint32_t code)
{
	const struct reason *reason = find(code);
	return reason ? reason->text
		      : "the peer gave a code that only its own documentation explains";
}
