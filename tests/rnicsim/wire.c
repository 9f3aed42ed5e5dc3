/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/wire.h"

#include "proto/roce/roce.h"
#include "tests/rnicsim/conn.h"
#include "tests/rnicsim/host.h"

static void say(const struct host *host, const char *what, const struct roce_packet *p, size_t len)
{
	world_log("  host %zu %s %s, QP %06x, PSN %06x, %zu bytes", host->index, what,
		  roce_opcode_name(p->bth.opcode), p->bth.dest_qp, p->bth.psn, len);
}

/* ---- READs under way */

/* The end at a host whose queue pair, or whose peer's, has this number. */
static struct end *end_of(const struct host *host, uint32_t qpn, bool peers)
{
	for (size_t i = 0; i < world->num_conns; i++) {
		for (size_t k = 0; k < 2; k++) {
			struct end *end = &world->conns[i]->ends[k];
			if (end->host == host && (peers ? end->peer : end)->qpn == qpn)
				return end;
		}
	}
	return NULL;
}

static struct asked *asked_at(struct end *end, unsigned int i)
{
	return &end->asked[i % (sizeof(end->asked) / sizeof(end->asked[0]))];
}

static unsigned int first_asked(const struct end *end)
{
	const unsigned int room = sizeof(end->asked) / sizeof(end->asked[0]);
	return end->num_asked > room ? end->num_asked - room : 0;
}

/* A request for a part of what was asked for before is no new one. */
static void on_read_request(const struct host *from, const struct roce_packet *p)
{
	struct end *end = end_of(from, p->bth.dest_qp, true);
	unsigned int under_way = 0;
	if (!end || end->over || (end->num_asked && roce_psn_diff(p->bth.psn, end->asked_next) < 0))
		return;
	for (unsigned int i = first_asked(end); i < end->num_asked; i++)
		under_way += !asked_at(end, i)->received;
	if (under_way >= end->send_params.reads_asked)
		world_fail("%s has more than %u READs under way", end->name,
			   end->send_params.reads_asked);
	uint32_t packets = p->reth.length ? (p->reth.length - 1) / end->conn->mtu + 1 : 1;
	*asked_at(end, end->num_asked++) = (struct asked){ .psn = p->bth.psn, .packets = packets };
	end->asked_next = (p->bth.psn + packets) & ROCE_PSN_MASK;
}

/* A READ whose last packet has come counts as answered, even if others are missing. */
static void on_read_response(struct end *end, const struct roce_packet *p, bool received)
{
	for (unsigned int i = first_asked(end); i < end->num_asked; i++) {
		struct asked *asked = asked_at(end, i);
		if (((asked->psn + asked->packets - 1) & ROCE_PSN_MASK) != p->bth.psn)
			continue;
		asked->sent = true;
		asked->received |= received;
	}
}

/* An answer to a later request also acknowledges READs (IBA 9.7.5.1.2), so it must not leave before
 * their responses. */
static void on_answer(struct end *end, const struct roce_packet *p)
{
	/* An ACK names the last packet that was carried out, a NAK the first that was not. */
	uint32_t end_psn = (p->bth.psn + (p->aeth.kind == ROCE_ACK)) & ROCE_PSN_MASK;
	for (unsigned int i = first_asked(end); i < end->num_asked; i++) {
		const struct asked *asked = asked_at(end, i);
		if (!asked->sent && roce_psn_diff(end_psn, asked->psn + asked->packets) >= 0)
			world_fail("%s answers PSN %06x before READ %06x", end->peer->name,
				   p->bth.psn, asked->psn);
	}
}

static bool is_read_response(const struct roce_packet *p)
{
	return p->bth.opcode >= ROCE_READ_RESPONSE_FIRST &&
	       p->bth.opcode <= ROCE_READ_RESPONSE_ONLY;
}

/* ---- packets */

void wire_sent(const struct host *from, struct in_addr to, const uint8_t *data, size_t len)
{
	struct roce_packet packet;
	if (roce_decode(data, len, &packet)) {
		world_fail("host %zu has sent a malformed packet", from->index);
		return;
	}
	if (!host_of(to)) {
		world_fail("host %zu has sent a packet to nobody", from->index);
		return;
	}
	say(from, "sends", &packet, len);
	if (packet.bth.opcode == ROCE_READ_REQUEST)
		on_read_request(from, &packet);
	struct end *end = end_of(host_of(to), packet.bth.dest_qp, false);
	if (end && is_read_response(&packet))
		on_read_response(end, &packet, false);
	else if (end && !end->over && !end->peer->over && packet.bth.opcode == ROCE_ACKNOWLEDGE)
		on_answer(end, &packet);
}

void wire_received(const struct host *host, const struct packet *packet)
{
	struct roce_packet p;
	if (packet->damaged)
		world_log("  host %zu has a damaged packet", host->index);
	/* The ICRC does not cover every bit, so a damaged packet may count. */
	if (roce_decode(packet->data, packet->len, &p))
		return;
	say(host, "has", &p, packet->len);
	struct end *end = end_of(host, p.bth.dest_qp, false);
	if (end && is_read_response(&p))
		on_read_response(end, &p, true);
}
