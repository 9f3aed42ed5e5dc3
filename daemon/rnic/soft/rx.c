/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/rnic/soft/internal.h"

#define RX_MESSAGES 4
#define RX_BUFFER   65536 /* largest length of datagrams that UDP_GRO joins */
#define RX_BULK     32768 /* after so many bytes, looking again is cheaper than the event loop */
#define RX_CONTROL  (CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint8_t)))
#define MIN_CHARGE  512 /* least number of bytes that the kernel charges a socket for a datagram */

struct soft_rx {
	struct mmsghdr msgs[RX_MESSAGES];
	struct iovec iov[RX_MESSAGES];
	struct sockaddr_in from[RX_MESSAGES];
	_Alignas(struct cmsghdr) uint8_t control[RX_MESSAGES][RX_CONTROL];
	uint8_t *buffers;
};

int soft_rx_new(struct soft_rx **ret_rx)
{
	struct soft_rx *rx = calloc(1, sizeof(*rx));
	if (!rx)
		return -ENOMEM;
	rx->buffers = aligned_alloc(4096, (size_t)RX_MESSAGES * RX_BUFFER);
	if (!rx->buffers) {
		free(rx);
		return -ENOMEM;
	}
	for (size_t i = 0; i < RX_MESSAGES; i++)
		rx->iov[i] = (struct iovec){ rx->buffers + i * RX_BUFFER, RX_BUFFER };
	*ret_rx = rx;
	return 0;
}

void soft_rx_free(struct soft_rx *rx)
{
	if (!rx)
		return;
	free(rx->buffers);
	free(rx);
}

static struct soft_qp *find_qp(struct soft_device *dev, uint32_t qpn)
{
	struct soft_qp *qp;
	HASH_FIND(hh, dev->qps, &qpn, sizeof(qpn), qp);
	return qp;
}

/* Only the default partition is valid, as full or limited member (IBA 10.9.1.2). */
static bool pkey_ok(uint16_t pkey)
{
	return (pkey & 0x7FFF) == (ROCE_PKEY_DEFAULT & 0x7FFF);
}

/* smcrd as sender numbers the segments of one send from 0 (tx.c). */
static bool is_soft_id(uint16_t ip_id)
{
	return ip_id < SOFT_MAX_SEGMENTS;
}

/*
 * The flow of the last packet is kept: a peer sends nearly all packets of a queue pair from one
 * port.
 * @param ip_id  in: a guess; out: the identification that the packet had
 */
static bool icrc_ok(struct soft_qp *qp, const struct sockaddr_in *from, const uint8_t *buf,
		    size_t len, uint16_t *ip_id)
{
	struct roce_icrc_flow *heard = &qp->heard_flow;
	const struct roce_flow flow = { .saddr = from->sin_addr.s_addr,
					.daddr = qp->ep->addr.s_addr,
					.sport = from->sin_port,
					.dport = htons(qp->dev->port) };
	if (memcmp(&heard->flow, &flow, sizeof(flow)))
		roce_icrc_flow_init(heard, &flow);
	if (!roce_icrc_check(qp->dev->tables, heard, buf, len, *ip_id, ip_id))
		return false;
	return !qp->peer_is_soft || is_soft_id(*ip_id);
}

/* Is it the packet with the expected PSN? The first PSN is random and known to the peer only, so a
 * stranger can hardly guess it. */
static bool is_due(const struct soft_qp *qp, const struct roce_packet *packet)
{
	if (roce_is_answer(packet->bth.opcode))
		return soft_requester_awaits(qp, packet->bth.psn);
	return packet->bth.opcode != ROCE_CONGESTION && packet->bth.psn == qp->rs.expected;
}

/*
 * Does the packet come from the peer's UDP port? RoCEv2 does not authenticate senders. smcrd sends
 * from port 4791, which it holds on the addresses of its RNICs. Hardware and rdma_rxe choose a
 * source port for each queue pair, to spread flows, perhaps different ones for requests and
 * answers. So the port of the first packet with the expected PSN is taken as the peer's. Before
 * that packet only port 4791 counts.
 *
 * A peer whose first packet comes from port 4791, with an identification that smcrd gives, is taken
 * for a soft RNIC of smcrd. It sends everything from there, and answers marks; whether another RNIC
 * does is unknown.
 */
static bool port_counts(struct soft_qp *qp, const struct sockaddr_in *from,
			const struct roce_packet *packet, uint16_t ip_id)
{
	const in_port_t ours = htons(qp->dev->port);
	bool answer = roce_is_answer(packet->bth.opcode);
	in_port_t *port = answer ? &qp->answer_port : &qp->request_port;
	if (!*port && is_due(qp, packet)) {
		bool first = !qp->request_port && !qp->answer_port;
		qp->peer_is_soft = first && from->sin_port == ours && is_soft_id(ip_id);
		if (qp->peer_is_soft)
			qp->request_port = qp->answer_port = ours;
		*port = from->sin_port;
	}
	return from->sin_port == (*port ? *port : ours);
}

void soft_rx_packet(struct soft_endpoint *ep, const struct soft_arrival *arrival,
		    const uint8_t *buf, size_t len, uint16_t ip_id_guess)
{
	const struct sockaddr_in *from = arrival->from;
	struct soft_device *dev = ep->dev;
	struct roce_packet packet;
	dev->stats.rx_packets++;
	dev->stats.rx_bytes += len;
	int r = roce_decode(buf, len, &packet);
	if (r == -EBADMSG || !pkey_ok(packet.bth.pkey)) {
		dev->stats.drop_malformed++;
		return;
	}
	if (soft_gsi_is_for(&packet)) {
		soft_gsi_packet(ep, from, &packet, buf, len, ip_id_guess);
		return;
	}
	struct soft_qp *qp = find_qp(dev, packet.bth.dest_qp);
	if (!qp || qp->state == SOFT_QP_INIT) {
		dev->stats.drop_qp++;
		return;
	}
	if (packet.bth.opcode == ROCE_UD_SEND_ONLY) { /* no queue pair here is for datagrams */
		dev->stats.drop_malformed++;
		return;
	}
	if (qp->ep != ep || qp->peer.sin_addr.s_addr != from->sin_addr.s_addr) {
		dev->stats.drop_peer++;
		return;
	}
	uint16_t ip_id = ip_id_guess;
	if (!icrc_ok(qp, from, buf, len, &ip_id)) {
		dev->stats.drop_icrc++;
		return;
	}
	if (!port_counts(qp, from, &packet, ip_id)) {
		dev->stats.drop_peer++;
		return;
	}
	/* A congestion notification has no PSN, so it does not prove that the peer is alive. */
	if (packet.bth.opcode != ROCE_CONGESTION)
		qp->heard_at = dev->now;
	if (qp->state == SOFT_QP_ERR) {
		if (!soft_responder_refuse_again(qp, &packet))
			dev->stats.drop_qp++;
	} else if (packet.bth.opcode == ROCE_CONGESTION) {
		soft_requester_congested(qp);
	} else if (roce_is_answer(packet.bth.opcode)) {
		if (arrival->marked && packet.bth.opcode != ROCE_ACKNOWLEDGE)
			soft_requester_marked(qp);
		soft_requester_answer(qp, &packet);
	} else {
		if (arrival->marked)
			soft_responder_congested(qp);
		soft_responder_request(qp, &packet, buf, len, r == 0);
	}
}

/* Read what the kernel tells of a datagram.
 * @param ret_marked  the network marked it (RFC 3168 5: congestion experienced)
 * @return length of each packet if UDP_GRO has joined several, else `len` */
static size_t read_control(struct msghdr *msg, size_t len, bool *ret_marked)
{
	size_t segment = len;
	*ret_marked = false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int size;
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			*ret_marked = IPTOS_ECN(*CMSG_DATA(c)) == IPTOS_ECN_CE;
		} else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&size, CMSG_DATA(c), sizeof(size));
			segment = size > 0 ? (size_t)size : len;
		}
	}
	return segment;
}

static void split(struct soft_endpoint *ep, struct mmsghdr *m)
{
	const uint8_t *buf = m->msg_hdr.msg_iov->iov_base;
	size_t len = m->msg_len;
	struct soft_arrival arrival = { .from = m->msg_hdr.msg_name };
	size_t segment = read_control(&m->msg_hdr, len, &arrival.marked);
	uint16_t index = 0;
	if (m->msg_hdr.msg_flags & MSG_TRUNC || len == 0) {
		ep->dev->stats.rx_packets++;
		ep->dev->stats.drop_malformed++;
		return;
	}
	while (len > 0) {
		size_t n = len < segment ? len : segment;
		soft_rx_packet(ep, &arrival, buf, n, index++);
		buf += n;
		len -= n;
	}
}

/* @return datagrams received */
static size_t receive(struct soft_endpoint *ep, size_t *ret_bytes)
{
	struct soft_rx *rx = ep->dev->rx;
	for (size_t i = 0; i < RX_MESSAGES; i++) {
		rx->msgs[i].msg_hdr = (struct msghdr){ .msg_name = &rx->from[i],
						       .msg_namelen = sizeof(rx->from[i]),
						       .msg_iov = &rx->iov[i],
						       .msg_iovlen = 1,
						       .msg_control = rx->control[i],
						       .msg_controllen = RX_CONTROL };
	}
	int n = recvmmsg(ep->fd, rx->msgs, RX_MESSAGES, MSG_DONTWAIT, NULL);
	size_t bytes = 0;
	for (int i = 0; i < n; i++) {
		bytes += rx->msgs[i].msg_len;
		split(ep, &rx->msgs[i]);
	}
	*ret_bytes = bytes;
	return n > 0 ? (size_t)n : 0;
}

bool soft_rx_poll(struct soft_endpoint *ep)
{
	size_t bytes;
	size_t n = receive(ep, &bytes);
	return n == RX_MESSAGES || bytes >= RX_BULK;
}

/* The most datagrams that can be in the socket now. */
static size_t queued(const struct soft_endpoint *ep)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(info);
	getsockopt(ep->fd, SOL_SOCKET, SO_MEMINFO, info, &len); /* nothing, if it cannot tell */
	return info[SK_MEMINFO_RMEM_ALLOC] / MIN_CHARGE;
}

void soft_rx_drain(struct soft_endpoint *ep)
{
	size_t left = queued(ep);
	while (left > 0) {
		size_t bytes;
		size_t n = receive(ep, &bytes);
		if (n < RX_MESSAGES)
			return;
		left -= n < left ? n : left;
	}
}
