/* SPDX-License-Identifier: MIT */
/*
 * A peer that breaks the rules of the CLC exchange, each time in another way. It runs as root, who
 * may send CLC on a claimed socket.
 *
 *   clc_peer connect ADDRESS PORT VERSION COUNT SEED OWN-ADDRESS OWN-MAC UEID
 *   clc_peer serve ADDRESS PORT VERSION COUNT SEED OWN-ADDRESS OWN-MAC UEID
 *
 * An exchange begins as a genuine one of VERSION, with the RNIC of OWN-ADDRESS. One or both of this
 * peer's messages are changed in their bytes or fields, come in another order or in pieces, or are
 * not sent. After the last message the connection ends in some way, whatever was agreed.
 *
 * The last line is "exchanges N mangled N answered N plain N": handshakes; those with the option;
 * how many of these the other side answered; those without the option. Exit status 0; 1: failed,
 * with the reason on standard error; 2: usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/ipc/ipc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/eid.h"
#include "tests/lib/random.h"

#define ANSWER_MS  50    /* how long to wait for an answer */
#define PATIENCE_S 60    /* for a handshake on a busy machine */
#define PLAIN_US   20000 /* pause after a handshake without the option, which is of no use */
#define ATTEMPTS   40    /* most handshakes until one has the option */
#define ROOM       1500  /* buffer for a message and bytes behind it */

static struct {
	struct sockaddr_in to;
	uint8_t version;
	uint8_t gid[SMCR_GID_LEN], mac[SMCR_MAC_LEN], eid[SMCR_EID_LEN];
} own;

static struct random rnd;

static struct {
	unsigned long exchanges, mangled, answered, plain;
} count;

struct message {
	uint8_t bytes[ROOM];
	size_t len;
};

static int fail(const char *what)
{
	fprintf(stderr, "clc_peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool one_in(uint32_t n)
{
	return random_below(&rnd, n) == 0;
}

/* ---- values that are not what they should be */

static uint32_t odd_u32(void)
{
	static const uint32_t odd[] = { 0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFF, 0xFFFFFFFF };
	return one_in(2) ? (uint32_t)random_u64(&rnd) : odd[random_below(&rnd, 7)];
}

static uint64_t odd_u64(void)
{
	return (uint64_t)odd_u32() << 32 | odd_u32();
}

static uint8_t odd_u8(void)
{
	static const uint8_t odd[] = { 0, 1, 5, 15, 16, 200, 254, 255 };
	return one_in(2) ? (uint8_t)random_u64(&rnd) : odd[random_below(&rnd, 8)];
}

static void mapped(uint8_t gid[SMCR_GID_LEN], in_addr_t addr)
{
	memset(gid, 0, SMCR_GID_LEN);
	gid[10] = gid[11] = 0xFF;
	memcpy(gid + 12, &addr, sizeof(addr));
}

/* A GID that fits nobody: zero, all ones, the other side's own, loopback, multicast, or random. */
static void odd_gid(uint8_t gid[SMCR_GID_LEN])
{
	static const char *const odd[] = { "0.0.0.0",   "255.255.255.255", "127.0.0.1",
					   "224.0.0.1", "10.77.0.255",     "10.77.0.200" };
	uint32_t which = random_below(&rnd, 8);
	if (which < 6)
		mapped(gid, inet_addr(odd[which]));
	else if (which == 6)
		mapped(gid, own.to.sin_addr.s_addr);
	else
		random_bytes(&rnd, gid, SMCR_GID_LEN);
}

static void odd_mac(uint8_t mac[SMCR_MAC_LEN])
{
	static const uint8_t odd[][SMCR_MAC_LEN] = { { 0 },
						     { 255, 255, 255, 255, 255, 255 },
						     { 1, 0, 0x5E, 0, 0, 1 } };
	if (one_in(2))
		random_bytes(&rnd, mac, SMCR_MAC_LEN);
	else
		memcpy(mac, odd[random_below(&rnd, 3)], SMCR_MAC_LEN);
}

static void odd_proposal(struct smcr_clc_proposal *p)
{
	switch (random_below(&rnd, 9)) {
	case 0: odd_gid(p->gid); break;
	case 1: odd_mac(p->mac); break;
	case 2: p->ipv4_subnet = odd_u32(); break;
	case 3: p->ipv4_mask_len = odd_u8() % 33; break;
	case 4:
		p->num_prefixes = 1 + odd_u8() % SMCR_CLC_MAX_PREFIXES;
		random_bytes(&rnd, p->prefixes, sizeof(p->prefixes));
		for (size_t i = 0; i < SMCR_CLC_MAX_PREFIXES; i++)
			p->prefixes[i].len %= 129;
		break;
	case 5: odd_gid(p->v2.gid); break;
	case 6:
		p->v2.num_eids = odd_u8() % (SMCR_CLC_MAX_EIDS + 1);
		random_bytes(&rnd, p->v2.eids[1], sizeof(p->v2.eids[1]));
		break;
	case 7:
		p->v2.release = odd_u8() % 16;
		p->v2.max_conns = odd_u8();
		p->v2.max_links = odd_u8();
		break;
	default: p->ip_offset = p->version == 1 ? odd_u8() % 41 : 0; break;
	}
}

static void odd_accept(struct smcr_clc_accept *a)
{
	switch (random_below(&rnd, 13)) {
	case 0: odd_gid(a->gid); break;
	case 1: odd_mac(a->mac); break;
	case 2: a->qpn = odd_u32() & SMCR_QPN_MAX; break;
	case 3: a->rkey = odd_u32(); break;
	case 4: a->rmbe_index = odd_u8() ? odd_u8() | 1 : 255; break;
	case 5: a->alert_token = odd_u32(); break;
	case 6: a->bsize = odd_u8() % (a->version == 1 ? 6 : 16); break;
	case 7: a->mtu = 1 + odd_u8() % 5; break;
	case 8: a->rmb_vaddr = odd_u64(); break;
	case 9: a->psn = odd_u32() & SMCR_PSN_MASK; break;
	case 10: a->first_contact = !a->first_contact; break;
	case 11: random_bytes(&rnd, a->eid, sizeof(a->eid)); break;
	default:
		a->fce.release = odd_u8() % 16;
		a->fce.max_conns = odd_u8();
		a->fce.max_links = odd_u8();
		break;
	}
	if (a->version != 1 && (!a->first_contact || a->type != SMCR_CLC_CONFIRM))
		a->num_gids = 0;
}

/* ---- genuine messages */

static void put_peer_id(uint8_t peer_id[SMCR_PEER_ID_LEN])
{
	peer_id[0] = 0x12;
	peer_id[1] = (uint8_t)random_u64(&rnd);
	memcpy(peer_id + 2, own.mac, sizeof(own.mac));
}

static struct smcr_clc_msg proposal(uint8_t version)
{
	struct smcr_clc_msg msg = { .type = SMCR_CLC_PROPOSAL };
	struct smcr_clc_proposal *p = &msg.proposal;
	p->version = version;
	p->offers_r_v1 = version == 1 || one_in(2);
	p->offers_r_v2 = version == 2;
	put_peer_id(p->peer_id);
	memcpy(p->gid, own.gid, sizeof(own.gid));
	memcpy(p->mac, own.mac, sizeof(own.mac));
	p->ipv4_subnet = ntohl(own.to.sin_addr.s_addr) & 0xFFFFFF00;
	p->ipv4_mask_len = 24;
	if (version == 2) {
		p->v2.num_eids = 1;
		memcpy(p->v2.eids[0], own.eid, sizeof(own.eid));
		p->v2.release = SMCR_CLC_RELEASE;
		memcpy(p->v2.gid, own.gid, sizeof(own.gid));
		p->v2.max_conns = 255;
		p->v2.max_links = 2;
	}
	return msg;
}

/* An Accept, or the Confirm that answers `accept`. */
static struct smcr_clc_msg credentials(uint8_t type, uint8_t version,
				       const struct smcr_clc_accept *accept)
{
	struct smcr_clc_msg msg = { .type = type };
	struct smcr_clc_accept *a = &msg.accept;
	a->type = type;
	a->version = version;
	a->first_contact = accept ? accept->first_contact : !one_in(4);
	put_peer_id(a->peer_id);
	memcpy(a->gid, own.gid, sizeof(own.gid));
	memcpy(a->mac, own.mac, sizeof(own.mac));
	a->qpn = 2 + random_below(&rnd, SMCR_QPN_MAX - 2);
	a->rkey = (uint32_t)random_u64(&rnd);
	a->rmbe_index = 1 + random_below(&rnd, 255) % 255;
	a->alert_token = (uint32_t)random_u64(&rnd);
	a->bsize = random_below(&rnd, 6);
	a->mtu = SMCR_MTU_1024;
	a->rmb_vaddr = random_u64(&rnd);
	a->psn = (uint32_t)random_u64(&rnd) & SMCR_PSN_MASK;
	if (version == 1)
		return msg;
	memcpy(a->eid, own.eid, sizeof(own.eid));
	a->fce = accept ? accept->fce : (struct smcr_clc_first_contact){ .release = 1 };
	a->fce.max_conns = accept ? accept->fce.max_conns : 255;
	a->fce.max_links = accept ? accept->fce.max_links : 2;
	if (a->first_contact && type == SMCR_CLC_CONFIRM) {
		a->num_gids = 1;
		memcpy(a->gids[0], own.gid, sizeof(own.gid));
	}
	return msg;
}

static struct smcr_clc_msg decline(void)
{
	struct smcr_clc_msg msg = { .type = SMCR_CLC_DECLINE };
	msg.decline.version = 1 + random_below(&rnd, 2);
	msg.decline.out_of_sync = one_in(2);
	put_peer_id(msg.decline.peer_id);
	msg.decline.diagnosis = one_in(2) ? 0x03010000 : odd_u32();
	return msg;
}

static struct smcr_clc_msg any_message(void)
{
	uint8_t version = 1 + random_below(&rnd, 2);
	switch (random_below(&rnd, 4)) {
	case 0: return proposal(version);
	case 1: return credentials(SMCR_CLC_ACCEPT, version, NULL);
	case 2: return credentials(SMCR_CLC_CONFIRM, version, NULL);
	default: return decline();
	}
}

static void encode(const struct smcr_clc_msg *msg, struct message *ret)
{
	int len = smcr_clc_encode(msg, ret->bytes, sizeof(ret->bytes));
	ret->len = len > 0 ? (size_t)len : 0; /* a message that cannot be encoded is not sent */
}

/* ---- mangling */

static void put_length(struct message *m, uint32_t len)
{
	m->bytes[5] = (uint8_t)(len >> 8);
	m->bytes[6] = (uint8_t)len;
}

static void add(struct message *m, size_t len)
{
	len = len < sizeof(m->bytes) - m->len ? len : sizeof(m->bytes) - m->len;
	random_bytes(&rnd, m->bytes + m->len, len);
	m->len += len;
}

/* Make the message longer or shorter, with a length field and a trailer that fit. */
static void resize(struct message *m)
{
	static const uint8_t trailer[4] = { 0xE2, 0xD4, 0xC3, 0xD9 };
	if (one_in(2))
		add(m, random_below(&rnd, 700));
	else
		m->len = 12 + random_below(&rnd, (uint32_t)m->len - 12);
	memcpy(m->bytes + m->len - 4, trailer, 4);
	put_length(m, (uint32_t)m->len);
}

static void mangle_bytes(struct message *m)
{
	if (m->len < 13)
		return;
	switch (random_below(&rnd, 10)) {
	case 0:
	case 1:
		for (uint32_t n = 1 + random_below(&rnd, 8); n > 0; n--)
			m->bytes[random_below(&rnd, (uint32_t)m->len)] ^=
				(uint8_t)(1 + random_below(&rnd, 255));
		break;
	case 2: m->len = random_below(&rnd, (uint32_t)m->len); break;
	case 3: add(m, 1 + random_below(&rnd, 600)); break;
	case 4: put_length(m, (uint32_t)random_u64(&rnd) & 0xFFFF); break;
	case 5: m->bytes[4] = odd_u8(); break;
	case 6: m->bytes[7] = odd_u8(); break;
	case 7: resize(m); break;
	case 8:
		memcpy(m->bytes + m->len, m->bytes, m->len);
		m->len *= 2;
		break;
	default:
		m->len = 0;
		add(m, random_below(&rnd, ROOM));
		break;
	}
}

/* Encode `msg` and change it. */
static void mangle(struct smcr_clc_msg msg, struct message *ret)
{
	uint32_t way = random_below(&rnd, 8);
	if (way == 0)
		msg = any_message();
	if (way >= 4 && msg.type == SMCR_CLC_PROPOSAL)
		odd_proposal(&msg.proposal);
	else if (way >= 4 && (msg.type == SMCR_CLC_ACCEPT || msg.type == SMCR_CLC_CONFIRM))
		odd_accept(&msg.accept);
	encode(&msg, ret);
	if (way < 4 || one_in(4))
		mangle_bytes(ret);
}

/* ---- the connection */

/* Send a message. The peer may have hung up, which is not an error. */
static void say(int fd, const struct message *m)
{
	size_t part = one_in(8) ? 1 + random_below(&rnd, 20) : m->len;
	for (size_t at = 0; at < m->len; at += part) {
		size_t len = m->len - at < part ? m->len - at : part;
		if (send(fd, m->bytes + at, len, MSG_NOSIGNAL) < 0)
			return;
	}
}

/* @return number of bytes that came within that time; 0: none, or the connection has ended */
static size_t hear(int fd, uint8_t *buf, size_t room, int milliseconds)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	if (poll(&wait, 1, milliseconds) <= 0)
		return 0;
	ssize_t n = recv(fd, buf, room, MSG_DONTWAIT);
	return n > 0 ? (size_t)n : 0;
}

static void hang_up(int fd)
{
	const struct linger reset = { 1, 0 };
	switch (random_below(&rnd, 4)) {
	case 0: setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); break;
	case 1: shutdown(fd, SHUT_WR); break;
	default: break;
	}
	close(fd);
}

static bool hear_message(int fd, struct smcr_clc_msg *ret_msg)
{
	uint8_t buf[ROOM];
	size_t len = hear(fd, buf, sizeof(buf), PATIENCE_S * 1000);
	count.answered += len > 0;
	return smcr_clc_decode(buf, len, ret_msg) == 0;
}

static void be_client(int fd)
{
	struct message m;
	struct smcr_clc_msg msg = proposal(own.version);
	uint8_t end[64];
	if (one_in(2)) {
		mangle(msg, &m);
		say(fd, &m);
		count.answered += hear(fd, end, sizeof(end), ANSWER_MS) > 0;
		return;
	}
	encode(&msg, &m);
	say(fd, &m);
	if (!hear_message(fd, &msg) || msg.type != SMCR_CLC_ACCEPT)
		return;
	mangle(credentials(SMCR_CLC_CONFIRM, msg.accept.version, &msg.accept), &m);
	say(fd, &m);
	(void)hear(fd, end, sizeof(end), ANSWER_MS);
}

static void be_server(int fd)
{
	struct message m;
	struct smcr_clc_msg msg;
	uint8_t end[64];
	if (one_in(8)) { /* a message before the client has sent its Proposal */
		mangle(any_message(), &m);
		say(fd, &m);
	}
	if (!hear_message(fd, &msg) || msg.type != SMCR_CLC_PROPOSAL)
		return;
	mangle(credentials(SMCR_CLC_ACCEPT, own.version, NULL), &m);
	say(fd, &m);
	if (hear(fd, end, sizeof(end), ANSWER_MS) > 0 && one_in(2)) {
		mangle(any_message(), &m);
		say(fd, &m);
	}
}

static bool has_option(int fd)
{
	int value = 0;
	socklen_t len = sizeof(value);
	return getsockopt(fd, IPC_SOL_SMCR, IPC_SO_NEGOTIATED, &value, &len) == 0 &&
	       value == IPC_NEGOTIATED_YES;
}

static void exchange(int fd, void (*be)(int fd))
{
	count.exchanges++;
	if (has_option(fd)) {
		count.mangled++;
		be(fd);
	} else {
		count.plain++;
		usleep(PLAIN_US);
	}
	hang_up(fd);
}

static int new_socket(void)
{
	const int one = 1;
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &one, sizeof(one)) < 0)
		fail("cannot claim a socket");
	return fd;
}

/* ---- both roles */

static void run_client(unsigned long wanted)
{
	while (count.mangled < wanted && count.exchanges < ATTEMPTS * wanted) {
		int fd = new_socket();
		if (connect(fd, (struct sockaddr *)&own.to, sizeof(own.to)) < 0)
			fail("connect");
		exchange(fd, be_client);
	}
}

static void run_server(unsigned long wanted)
{
	int listener = new_socket();
	if (bind(listener, (struct sockaddr *)&own.to, sizeof(own.to)) < 0 ||
	    listen(listener, 64) < 0)
		fail("listen");
	while (count.mangled < wanted && count.exchanges < ATTEMPTS * wanted) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0 && errno == EAGAIN)
			fail("nobody connects");
		if (fd >= 0)
			exchange(fd, be_server);
	}
	close(listener);
}

static void parse_own(char **argv)
{
	own.to.sin_family = AF_INET;
	own.to.sin_addr.s_addr = inet_addr(argv[2]);
	own.to.sin_port = htons((uint16_t)atoi(argv[3]));
	own.version = (uint8_t)atoi(argv[4]);
	rnd.state = strtoull(argv[6], NULL, 0) * 2 + 1;
	(void)random_u64(&rnd);
	mapped(own.gid, inet_addr(argv[7]));
	if (sscanf(argv[8], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &own.mac[0], &own.mac[1], &own.mac[2],
		   &own.mac[3], &own.mac[4], &own.mac[5]) != 6 ||
	    smcr_ueid_parse(argv[9], own.eid) < 0) {
		fprintf(stderr, "clc_peer: no MAC or UEID: %s %s\n", argv[8], argv[9]);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	const char *role = argc == 10 ? argv[1] : "";
	if (strcmp(role, "connect") && strcmp(role, "serve")) {
		fprintf(stderr, "usage: clc_peer connect|serve ADDRESS PORT VERSION COUNT SEED "
				"OWN-ADDRESS OWN-MAC UEID\n");
		return 2;
	}
	parse_own(argv);
	if (!strcmp(role, "connect"))
		run_client(strtoul(argv[5], NULL, 10));
	else
		run_server(strtoul(argv[5], NULL, 10));
	printf("exchanges %lu mangled %lu answered %lu plain %lu\n", count.exchanges, count.mangled,
	       count.answered, count.plain);
	return 0;
}
