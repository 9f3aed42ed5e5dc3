/* SPDX-License-Identifier: MIT */
#include "proto/ibcm/text.h"

#include <arpa/inet.h>
#include <inttypes.h>

#include "proto/ibcm/ip.h"
#include "proto/smcr/put.h"
#include "proto/smcr/wire.h"

/* ---- reasons ---- */

/* Table 110 of the specification. Of queue pairs that smcrd has not the words are general. */
static const struct reason {
	const char *name, *text;
} reasons[] = {
	[1] = { "no-qp", "it has no queue pair left" },
	[2] = { "no-eec", "it has no end-to-end context left" },
	[3] = { "no-resources", "it lacks memory or other resources" },
	[4] = { "timeout", "it got no answer in time" },
	[5] = { "unsupported-request", "it does not support such a request" },
	[6] = { "invalid-comm-id", "it does not know the connection" },
	[7] = { "invalid-comm-instance", "it does not know this instance of the connection" },
	[8] = { "invalid-service-id", "nobody listens on that port" },
	[9] = { "invalid-transport", "it does not support this transport service" },
	[10] = { "stale-connection", "it still has an old connection of the same queue pair" },
	[11] = { "no-rdc", "there is no reliable datagram channel" },
	[12] = { "invalid-gid", "the GID is not that of its port" },
	[13] = { "invalid-lid", "the LID is not that of its port" },
	[14] = { "invalid-service-level", "it does not support the service level" },
	[15] = { "invalid-traffic-class", "it does not support the traffic class" },
	[16] = { "invalid-hop-limit", "it does not support the hop limit" },
	[17] = { "invalid-packet-rate", "it does not support the packet rate" },
	[18] = { "invalid-alternate-gid", "the GID of the alternate path is not that of its port" },
	[19] = { "invalid-alternate-lid", "the LID of the alternate path is not that of its port" },
	[20] = { "invalid-alternate-service-level",
		 "it does not support the service level of the alternate path" },
	[21] = { "invalid-alternate-traffic-class",
		 "it does not support the traffic class of the alternate path" },
	[22] = { "invalid-alternate-hop-limit",
		 "it does not support the hop limit of the alternate path" },
	[23] = { "invalid-alternate-packet-rate",
		 "it does not support the packet rate of the alternate path" },
	[24] = { "port-and-cm-redirect", "another port has the service" },
	[25] = { "port-redirect", "another port has the service" },
	[26] = { "invalid-path-mtu", "it cannot carry the path MTU" },
	[27] = { "too-few-reads", "it answers fewer RDMA READs at a time than were asked for" },
	[28] = { "consumer", "its program, or its layer of IP addresses, refuses" },
	[29] = { "invalid-rnr-retry", "it does not support the RNR retry count" },
	[30] = { "duplicate-comm-id", "the communication id is in use already" },
	[31] = { "invalid-class-version", "it does not support this version of the messages" },
	[32] = { "invalid-flow-label", "it does not support the flow label" },
	[33] = { "invalid-alternate-flow-label",
		 "it does not support the flow label of the alternate path" },
};

static const struct reason *find_reason(uint16_t reason)
{
	static const struct reason unknown = { "unknown", "for a reason that has no name" };
	const size_t n = sizeof(reasons) / sizeof(reasons[0]);
	return reason < n && reasons[reason].name ? &reasons[reason] : &unknown;
}

const char *ibcm_reject_name(uint16_t reason)
{
	return find_reason(reason)->name;
}

const char *ibcm_reject_text(uint16_t reason)
{
	return find_reason(reason)->text;
}

/* ---- messages ---- */

static void put_service(struct text *text, uint64_t service_id)
{
	uint16_t port = ibcm_service_port(service_id);
	if (port)
		put(text, " to port %u", port);
	else
		put(text, " to service 0x%016" PRIx64 ", which is no port", service_id);
}

/* The addresses are the peer's claim: whoever reads a trace wants to know them as they came. */
static void put_addresses(struct text *text, const struct ibcm_msg *msg)
{
	struct ibcm_ip ip;
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
	if (ibcm_ip_decode(msg->private_data, &ip) < 0) {
		put(text, ", without IP addresses that can be read");
		return;
	}
	const int family = ip.version == 4 ? AF_INET : AF_INET6;
	inet_ntop(family, ip.source, source, sizeof(source));
	inet_ntop(family, ip.destination, destination, sizeof(destination));
	put(text, family == AF_INET ? ", from %s:%u to %s" : ", from [%s]:%u to %s", source,
	    ip.source_port, destination);
}

static void put_reads(struct text *text, uint8_t answered, uint8_t asked)
{
	put(text, ", answers %u RDMA READ%s at a time, asks %u", answered, answered == 1 ? "" : "s",
	    asked);
}

static void put_req(struct text *text, const struct ibcm_msg *msg)
{
	const struct ibcm_req *req = &msg->req;
	put_service(text, req->service_id);
	put_addresses(text, msg);
	put_reads(text, req->responder_resources, req->initiator_depth);
	if (smcr_mtu_valid(req->path_mtu))
		put(text, ", path MTU %u", smcr_mtu_bytes(req->path_mtu));
	else
		put(text, ", path MTU of the unknown code %u", req->path_mtu);
	put(text, ", RNR retries %u", req->rnr_retry);
	if (req->transport)
		put(text, ", transport service %u, which is not RC", req->transport);
}

static const char *subject_text(enum ibcm_subject subject)
{
	switch (subject) {
	case IBCM_SUBJECT_REQ: return "of the REQ";
	case IBCM_SUBJECT_REP: return "of the REP";
	case IBCM_SUBJECT_OTHER: break;
	}
	return "of another message";
}

/* 5 bits, which stand for times from 4 us to over two hours. */
static void put_time(struct text *text, uint8_t code)
{
	const uint64_t ms = (UINT64_C(4096) << code) / 1000000;
	put(text, ": the answer takes up to %" PRIu64 " ms longer", ms);
}

void ibcm_text(const struct ibcm_msg *msg, char ret_text[IBCM_TEXT_LEN])
{
	struct text text = { ret_text, IBCM_TEXT_LEN };
	put(&text, "%s", ibcm_type_name(msg->type));
	switch (msg->type) {
	case IBCM_REQ: put_req(&text, msg); break;
	case IBCM_REP:
		put_reads(&text, msg->rep.responder_resources, msg->rep.initiator_depth);
		put(&text, ", RNR retries %u", msg->rep.rnr_retry);
		break;
	case IBCM_REJ:
		put(&text, " %s, reason %u: %s", subject_text(msg->rej.subject), msg->rej.reason,
		    ibcm_reject_text(msg->rej.reason));
		break;
	case IBCM_MRA:
		put(&text, " %s", subject_text(msg->mra.subject));
		put_time(&text, msg->mra.service_timeout);
		break;
	case IBCM_SIDR_REQ: put_service(&text, msg->sidr_req.service_id); break;
	case IBCM_SIDR_REP: put(&text, ", status %u", msg->sidr_rep.status); break;
	case IBCM_RTU:
	case IBCM_DREQ:
	case IBCM_DREP: break;
	}
}
