/* SPDX-License-Identifier: MIT */
#include "tests/lib/roce_peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/rnic_side.h"

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

void roce_peer_open(struct roce_peer *peer, struct event_base *base, const char *addr,
		    const char *to, uint16_t port)
{
	memset(peer, 0, sizeof(*peer));
	peer->base = base;
	roce_icrc_tables_init(&peer->tables);
	peer->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	must(peer->fd >= 0, "socket");
	/* So that the IP identification is 0, see proto/roce/icrc.h. */
	int value = IP_PMTUDISC_DO;
	must(setsockopt(peer->fd, IPPROTO_IP, IP_MTU_DISCOVER, &value, sizeof(value)) == 0,
	     "IP_MTU_DISCOVER");
	value = 16 << 20;
	must(setsockopt(peer->fd, SOL_SOCKET, SO_RCVBUFFORCE, &value, sizeof(value)) == 0,
	     "SO_RCVBUFFORCE");
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	must(inet_pton(AF_INET, addr, &sin.sin_addr) == 1, addr);
	must(bind(peer->fd, (struct sockaddr *)&sin, sizeof(sin)) == 0, "bind");
	peer->to = sin;
	must(inet_pton(AF_INET, to, &peer->to.sin_addr) == 1, to);
	peer->flow = (struct roce_flow){ .saddr = sin.sin_addr.s_addr,
					 .daddr = peer->to.sin_addr.s_addr,
					 .sport = sin.sin_port,
					 .dport = sin.sin_port };
}

void roce_peer_close(struct roce_peer *peer)
{
	close(peer->fd);
}

size_t roce_peer_build(const struct roce_peer *peer, const struct roce_peer_packet *packet,
		       uint16_t ip_id, uint8_t buf[ROCE_MAX_LEN])
{
	struct roce_bth bth = { .opcode = packet->opcode,
				.pad = (uint8_t)(-packet->len & 3),
				.pkey = packet->pkey ? packet->pkey : ROCE_PKEY_DEFAULT,
				.dest_qp = packet->qpn,
				.ack_req = packet->ack_req,
				.psn = packet->psn & ROCE_PSN_MASK };
	size_t header = ROCE_BTH_LEN;
	roce_encode_bth(&bth, buf);
	header += roce_encode_ext(packet->opcode, &packet->ext, buf + header);
	size_t body = packet->len + bth.pad;
	must(header + body + ROCE_ICRC_LEN <= ROCE_MAX_LEN, "packet too long");
	memset(buf + header, 0, body);
	if (packet->len)
		memcpy(buf + header, packet->payload, packet->len);
	size_t len = header + body + ROCE_ICRC_LEN;
	uint32_t crc = roce_icrc_begin(&peer->flow, len, ip_id, buf, header);
	roce_icrc_put(roce_icrc_update(crc, buf + header, body), buf + header + body);
	return len;
}

void roce_peer_send_raw(struct roce_peer *peer, const void *buf, size_t len)
{
	ssize_t n = sendto(peer->fd, buf, len, 0, (struct sockaddr *)&peer->to, sizeof(peer->to));
	must(n == (ssize_t)len, "sendto");
}

void roce_peer_send(struct roce_peer *peer, const struct roce_peer_packet *packet)
{
	uint8_t buf[ROCE_MAX_LEN];
	roce_peer_send_raw(peer, buf, roce_peer_build(peer, packet, 0, buf));
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(size_t *)arg = 1;
}

bool roce_peer_receive(struct roce_peer *peer, struct roce_packet *ret_packet, unsigned int ms)
{
	size_t readable = 0;
	struct event *event = event_new(peer->base, peer->fd, EV_READ, on_readable, &readable);
	event_add(event, NULL);
	bool came = rnic_side_wait(peer->base, &readable, 1, ms);
	event_free(event);
	if (!came)
		return false;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(peer->fd, peer->buf, sizeof(peer->buf), 0, (struct sockaddr *)&from,
			     &from_len);
	must(n > 0, "recvfrom");
	must(from.sin_addr.s_addr == peer->to.sin_addr.s_addr, "packet from a stranger");
	must(roce_decode(peer->buf, (size_t)n, ret_packet) == 0, "malformed packet");
	struct roce_flow flow = { .saddr = from.sin_addr.s_addr,
				  .daddr = peer->flow.saddr,
				  .sport = from.sin_port,
				  .dport = peer->flow.sport };
	struct roce_icrc_flow icrc_flow;
	roce_icrc_flow_init(&icrc_flow, &flow);
	uint16_t ip_id;
	must(roce_icrc_check(&peer->tables, &icrc_flow, peer->buf, (size_t)n, 0, &ip_id),
	     "wrong ICRC");
	return true;
}
