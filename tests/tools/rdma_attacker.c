/* SPDX-License-Identifier: MIT */
/*
 * An attacker on the LAN of hosts that have RDMA connections (rdma_keeper.c). He knows everything
 * about one of the connections that its two sides know.
 *
 *   rdma_attacker OWN SERVER PORT RKEY START ID PEER_ID QPN SECONDS SEED HOST..
 *
 * OWN is his address, SERVER and PORT are those of `rdma_keeper serve`, RKEY to QPN what
 * `rdma_keeper keep` tells, and the first HOST the one that it runs on. To all of them he sends
 * datagrams to queue pair 1, of right and wrong forms, in his own name and in that of others. And
 * he connects with the server, and asks on that connection for what is not his.
 *
 * The last line is "mads=N forged=N offences=N refused=N unconnected=N". Exits with 0; with 1 if
 * the server has given him something, and prints what.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/ibcm/ibcm.h"
#include "proto/ibcm/ip.h"
#include "proto/roce/icrc.h"
#include "proto/roce/roce.h"

#define MTU        1024
#define HALF       16384 /* of rdma_keeper.c */
#define MOST_HOSTS 8
#define BURST      200 /* datagrams to queue pair 1 between two offences */
#define PAUSE_US   5000
#define ANSWER_MS  300  /* to a request for a connection, and to an offence */
#define ATOMIC     0x13 /* compare and swap */
#define ATOMIC_LEN 28
#define UD_RANDOM  600

/** What the server tells its clients, rdma_keeper.c. */
struct answer {
	uint64_t start, lasting_start;
	uint32_t rkey, lasting_rkey, wrong;
};

static int fd, raw_fd; /* of UDP, of IP */
static struct in_addr own, server, hosts[MOST_HOSTS];
static unsigned int num_hosts;
static uint16_t port;

static struct {
	uint32_t rkey;
	uint64_t start;
	uint32_t id, peer_id, qpn;
} victim;

static unsigned long mads, forged, offences, refused, unconnected;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static uint32_t random32(void)
{
	return (uint32_t)random() ^ (uint32_t)random() << 16;
}

static uint32_t below(uint32_t n)
{
	return random32() % n;
}

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- packets */

struct packet {
	struct in_addr from, to;
	uint8_t opcode;
	uint16_t pkey;
	uint32_t qpn, psn;
	uint8_t ext[ATOMIC_LEN]; /* the header behind the BTH */
	size_t ext_len;
	const void *payload;
	size_t len;
	bool spoilt; /* its ICRC is wrong */
};

static size_t build(const struct packet *p, uint8_t *buf)
{
	const struct roce_flow flow = { .saddr = p->from.s_addr,
					.daddr = p->to.s_addr,
					.sport = htons(ROCE_UDP_PORT),
					.dport = htons(ROCE_UDP_PORT) };
	const struct roce_bth bth = { .opcode = p->opcode,
				      .pad = (uint8_t)(-p->len & 3),
				      .pkey = p->pkey ? p->pkey : ROCE_PKEY_DEFAULT,
				      .dest_qp = p->qpn,
				      .ack_req = true,
				      .psn = p->psn & ROCE_PSN_MASK };
	size_t header = ROCE_BTH_LEN + p->ext_len, body = p->len + bth.pad;
	size_t len = header + body + ROCE_ICRC_LEN;
	roce_encode_bth(&bth, buf);
	memcpy(buf + ROCE_BTH_LEN, p->ext, p->ext_len);
	memset(buf + header, 0, body);
	if (p->len)
		memcpy(buf + header, p->payload, p->len);
	uint32_t crc = roce_icrc_begin(&flow, len, 0, buf, ROCE_BTH_LEN);
	crc = roce_icrc_update(crc, buf + ROCE_BTH_LEN, p->ext_len + body);
	roce_icrc_put(p->spoilt ? crc ^ 0x10000 : crc, buf + header + body);
	return len;
}

/* Datagrams in the name of others have an IP header of the attacker's making. Who is sent to may be
 * unknown to ARP, and the socket may be full: such a datagram is lost. */
static void send_packet(const struct packet *p)
{
	uint8_t buf[sizeof(struct iphdr) + 8 + ROCE_MAX_LEN];
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(ROCE_UDP_PORT),
					.sin_addr = p->to };
	uint8_t *data = buf + sizeof(struct iphdr) + 8;
	size_t len = build(p, data);
	if (p->from.s_addr == own.s_addr) {
		(void)!sendto(fd, data, len, 0, (const struct sockaddr *)&to, sizeof(to));
		return;
	}
	struct iphdr ip = { .version = 4,
			    .ihl = 5,
			    .tot_len = htons((uint16_t)(sizeof(ip) + 8 + len)),
			    .frag_off = htons(IP_DF),
			    .ttl = 64,
			    .protocol = IPPROTO_UDP,
			    .saddr = p->from.s_addr,
			    .daddr = p->to.s_addr };
	const uint16_t udp[4] = { htons(ROCE_UDP_PORT), htons(ROCE_UDP_PORT),
				  htons((uint16_t)(8 + len)), 0 };
	memcpy(buf, &ip, sizeof(ip));
	memcpy(buf + sizeof(ip), udp, sizeof(udp));
	(void)!sendto(raw_fd, buf, sizeof(ip) + 8 + len, 0, (const struct sockaddr *)&to,
		      sizeof(to));
	forged++;
}

/* ---- queue pair 1 */

static void gid_of(struct in_addr addr, uint8_t gid[16])
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xFF, 2);
	memcpy(gid + 12, &addr, 4);
}

static struct packet datagram(struct in_addr from, struct in_addr to, const void *data, size_t len)
{
	struct packet p = { .from = from,
			    .to = to,
			    .opcode = ROCE_UD_SEND_ONLY,
			    .qpn = IBCM_QPN,
			    .psn = random32(),
			    .ext_len = ROCE_DETH_LEN,
			    .payload = data,
			    .len = len };
	const union roce_ext ext = { .deth = { .qkey = IBCM_QKEY, .src_qp = 1 } };
	roce_encode_ext(p.opcode, &ext, p.ext);
	return p;
}

static void say(struct in_addr from, struct in_addr to, const struct ibcm_msg *msg)
{
	uint8_t mad[IBCM_MAD_LEN];
	must(ibcm_encode(msg, mad) == 0, "encode a message");
	struct packet p = datagram(from, to, mad, sizeof(mad));
	send_packet(&p);
}

static struct ibcm_msg request(struct in_addr from, struct in_addr to, uint16_t to_port)
{
	struct ibcm_msg msg = {
		.type = IBCM_REQ,
		.transaction_id = random32(),
		.local_id = random32(),
		.req = { .service_id = IBCM_SERVICE_TCP + to_port,
			 .ca_guid = random32(),
			 .qpn = 2 + below(0xFFFFFD),
			 .responder_resources = 4,
			 .initiator_depth = 4,
			 .remote_timeout = 20,
			 .starting_psn = random32() & ROCE_PSN_MASK,
			 .local_timeout = 20,
			 .retry_count = 7,
			 .pkey = ROCE_PKEY_DEFAULT,
			 .path_mtu = 3,
			 .rnr_retry = 7,
			 .max_cm_retries = 15,
			 .primary = { .local_lid = 0xFFFF,
				      .remote_lid = 0xFFFF,
				      .hop_limit = 64,
				      .ack_timeout = 17 } },
	};
	struct ibcm_ip ip = { .version = 4, .source_port = (uint16_t)random32() };
	memcpy(ip.source, &from, 4);
	memcpy(ip.destination, &to, 4);
	gid_of(from, msg.req.primary.local_gid);
	gid_of(to, msg.req.primary.remote_gid);
	must(ibcm_ip_encode(&ip, msg.private_data) == 0, "encode addresses");
	return msg;
}

/* A message about a connection that is not the attacker's. */
static struct ibcm_msg about(uint32_t local_id, uint32_t remote_id)
{
	static const enum ibcm_type types[] = { IBCM_MRA, IBCM_REJ,  IBCM_REP,
						IBCM_RTU, IBCM_DREQ, IBCM_DREP };
	struct ibcm_msg msg = { .type = types[below(6)],
				.transaction_id = random32(),
				.local_id = local_id,
				.remote_id = remote_id };
	switch (msg.type) {
	case IBCM_REJ:
		msg.rej.subject = (enum ibcm_subject)below(3);
		msg.rej.reason = (uint16_t)(below(2) ? IBCM_REJ_CONSUMER : IBCM_REJ_TIMEOUT);
		break;
	case IBCM_REP:
		msg.rep.qpn = 2 + below(0xFFFFFD);
		msg.rep.starting_psn = random32() & ROCE_PSN_MASK;
		break;
	case IBCM_DREQ: msg.dreq_qpn = victim.qpn; break;
	default: break;
	}
	return msg;
}

/* In whose name? In that of hosts of the LAN, or of addresses that nobody has. */
static struct in_addr somebody(void)
{
	struct in_addr addr = own;
	if (below(2))
		return hosts[below(num_hosts)];
	((uint8_t *)&addr)[3] = (uint8_t)(100 + below(100));
	return addr;
}

static void datagram_of_wrong_form(struct in_addr to)
{
	uint8_t data[UD_RANDOM];
	struct ibcm_msg msg = request(own, to, port);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)random32();
	struct packet p = datagram(own, to, data, IBCM_MAD_LEN);
	switch (below(8)) {
	case 0: break;
	case 1: p.len = below(UD_RANDOM); break;
	case 2: p.opcode = (uint8_t)random32(); break;
	case 3: p.ext[below(4)] ^= 1; break; /* the Q_Key */
	case 4: p.pkey = 0x7FFE; break;
	case 5: p.spoilt = true; /* fall through */
	default:
		/* A message, but for some bytes. */
		must(ibcm_encode(&msg, data) == 0, "encode a message");
		for (uint32_t i = below(4); i > 0; i--)
			data[below(below(2) ? 24 : IBCM_MAD_LEN)] ^= (uint8_t)random32();
	}
	send_packet(&p);
}

static void some_mad(void)
{
	struct in_addr to = below(2) ? server : hosts[below(num_hosts)], from = own;
	struct ibcm_msg msg;
	mads++;
	switch (below(6)) {
	case 0:
	case 1: datagram_of_wrong_form(to); return;
	case 2: from = somebody(); /* fall through */
	case 3: msg = request(from, to, below(3) ? port : (uint16_t)random32()); break;
	case 4: /* what he knows, in his own name */
		if (below(2))
			to = hosts[0];
		msg = to.s_addr == server.s_addr ? about(victim.id, victim.peer_id)
						 : about(victim.peer_id, victim.id);
		break;
	default: /* what he guesses, in another one's */
		from = somebody();
		msg = about(random32(), random32());
		break;
	}
	if (from.s_addr != to.s_addr)
		say(from, to, &msg);
}

/* ---- a connection of his own */

static struct {
	uint32_t id, qpn, psn; /* his own: the next PSN */
	uint32_t peer_id, peer_qpn;
	struct answer answer;
} conn;

/* The next packet of the server for the queue pair `qpn`. @return false: none by `end` */
static bool receive(uint32_t qpn, uint64_t end, struct roce_packet *ret_packet)
{
	static uint8_t buf[ROCE_MAX_LEN];
	for (uint64_t now; (now = now_ms()) < end;) {
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		struct sockaddr_in from;
		socklen_t from_len = sizeof(from);
		if (poll(&poller, 1, (int)(end - now)) <= 0)
			continue;
		ssize_t n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from,
				     &from_len);
		if (n > 0 && from.sin_addr.s_addr == server.s_addr &&
		    roce_decode(buf, (size_t)n, ret_packet) == 0 && ret_packet->bth.dest_qp == qpn)
			return true;
	}
	return false;
}

static bool await_rep(uint64_t end)
{
	struct roce_packet p;
	struct ibcm_msg msg;
	while (receive(IBCM_QPN, end, &p)) {
		if (ibcm_decode(p.payload, p.payload_len, &msg) || msg.remote_id != conn.id)
			continue;
		if (msg.type == IBCM_REJ) /* too many requests of his */
			return false;
		if (msg.type != IBCM_REP)
			continue;
		conn.peer_id = msg.local_id;
		conn.peer_qpn = msg.rep.qpn;
		conn.psn = msg.rep.starting_psn;
		return true;
	}
	return false;
}

static struct packet rc(uint8_t opcode)
{
	return (struct packet){
		.from = own, .to = server, .opcode = opcode, .qpn = conn.peer_qpn, .psn = conn.psn
	};
}

static struct packet reth(uint8_t opcode, uint32_t rkey, uint64_t start, uint32_t length)
{
	struct packet p = rc(opcode);
	const union roce_ext ext = { .reth = { .va = start, .rkey = rkey, .length = length } };
	p.ext_len = roce_encode_ext(opcode, &ext, p.ext);
	return p;
}

static struct packet invalidate(uint32_t rkey)
{
	static const uint32_t question;
	struct packet p = rc(ROCE_SEND_ONLY_INVALIDATE);
	const union roce_ext ext = { .invalidate = rkey };
	p.ext_len = roce_encode_ext(p.opcode, &ext, p.ext);
	p.payload = &question;
	p.len = sizeof(question);
	return p;
}

static void acknowledge(uint32_t psn)
{
	struct packet p = rc(ROCE_ACKNOWLEDGE);
	const union roce_ext ext = { .aeth = { .kind = ROCE_ACK, .value = 0x1F } };
	p.psn = psn;
	p.ext_len = roce_encode_ext(p.opcode, &ext, p.ext);
	send_packet(&p);
}

/* Connect, and get tokens as any client does. */
static bool join(void)
{
	static const uint32_t question;
	struct ibcm_msg msg = request(own, server, port);
	conn.id = msg.local_id;
	conn.qpn = msg.req.qpn;
	say(own, server, &msg);
	if (!await_rep(now_ms() + ANSWER_MS))
		return false;
	msg = (struct ibcm_msg){ .type = IBCM_RTU, .local_id = conn.id, .remote_id = conn.peer_id };
	say(own, server, &msg);
	struct packet p = rc(ROCE_SEND_ONLY);
	p.payload = &question;
	p.len = sizeof(question);
	send_packet(&p);
	conn.psn++;
	struct roce_packet in;
	const uint64_t end = now_ms() + ANSWER_MS;
	while (receive(conn.qpn, end, &in)) {
		if (in.bth.opcode != ROCE_SEND_ONLY || in.payload_len != sizeof(conn.answer))
			continue;
		memcpy(&conn.answer, in.payload, sizeof(conn.answer));
		acknowledge(in.bth.psn);
		return true;
	}
	return false;
}

static void part(void)
{
	struct ibcm_msg msg = { .type = IBCM_DREQ,
				.local_id = conn.id,
				.remote_id = conn.peer_id,
				.dreq_qpn = conn.peer_qpn };
	say(own, server, &msg);
}

enum offence {
	READ_BEYOND,
	READ_BEFORE,
	READ_LONG,
	READ_FOREIGN,
	WRITE_BEYOND,
	WRITE_FOREIGN,
	KILL_FOREIGN,
	KILL_UNKNOWN,
	ATOMIC_FOREIGN,
	MIDDLE,
	TOO_LONG,
	WRONG_PSNS, /* from here on there may be no answer, or a right one */
	MANY_READS,
	FOREIGN_QUEUE_PAIR,
	OFFENCES,
};

static const char *const offence_names[] = { "a READ beyond its window",
					     "a READ before its window",
					     "a READ of 2 GiB",
					     "a READ with a foreign token",
					     "a WRITE beyond its window",
					     "a WRITE with a foreign token",
					     "a SEND that ends a foreign token",
					     "a SEND that ends no token",
					     "an atomic operation",
					     "a message without its beginning",
					     "a message that is too long" };

static void wrong_psns(const void *data)
{
	for (int i = 0; i < 50; i++) {
		struct packet p = reth(ROCE_WRITE_ONLY, conn.answer.rkey, conn.answer.start, 8);
		p.psn += 1 + below(ROCE_PSN_MASK - 1);
		p.payload = data;
		p.len = 8;
		send_packet(&p);
	}
}

/* More than were agreed on, and the same again and again. */
static void many_reads(void)
{
	for (uint32_t i = 0; i < 64; i++) {
		struct packet p = reth(ROCE_READ_REQUEST, conn.answer.lasting_rkey,
				       conn.answer.lasting_start, HALF);
		p.psn += below(2) ? 0 : i / 2 * (HALF / MTU);
		send_packet(&p);
	}
}

static void to_foreign_queue_pair(const void *data)
{
	for (int i = 0; i < 50; i++) {
		struct packet p = i % 2 ? reth(ROCE_WRITE_ONLY, victim.rkey, victim.start, 8)
					: invalidate(victim.rkey);
		p.qpn = victim.qpn;
		p.psn = random32();
		p.payload = data;
		p.len = 8;
		send_packet(&p);
	}
}

static void commit(enum offence offence)
{
	static const uint8_t data[MTU] = "not the victim's";
	const uint32_t rkey = conn.answer.lasting_rkey;
	const uint64_t start = conn.answer.lasting_start;
	struct packet p = { 0 };
	switch (offence) {
	case READ_BEYOND: p = reth(ROCE_READ_REQUEST, rkey, start + HALF - 8, 16); break;
	case READ_BEFORE: p = reth(ROCE_READ_REQUEST, rkey, start - 1, 2); break;
	case READ_LONG: p = reth(ROCE_READ_REQUEST, rkey, start, 1u << 31); break;
	case READ_FOREIGN: p = reth(ROCE_READ_REQUEST, victim.rkey, victim.start, 8); break;
	case WRITE_BEYOND: p = reth(ROCE_WRITE_ONLY, rkey, start + HALF - 4, 8); break;
	case WRITE_FOREIGN: p = reth(ROCE_WRITE_ONLY, victim.rkey, victim.start, 8); break;
	case KILL_FOREIGN: p = invalidate(victim.rkey); break;
	case KILL_UNKNOWN: p = invalidate(random32()); break;
	case ATOMIC_FOREIGN:
		p = reth(ROCE_READ_REQUEST, victim.rkey, victim.start, 0);
		p.opcode = ATOMIC;
		p.ext_len = ATOMIC_LEN;
		break;
	case MIDDLE: p = rc(below(2) ? ROCE_WRITE_MIDDLE : ROCE_SEND_MIDDLE); break;
	case TOO_LONG: p = rc(ROCE_SEND_ONLY); break;
	case WRONG_PSNS: wrong_psns(data); return;
	case MANY_READS: many_reads(); return;
	case FOREIGN_QUEUE_PAIR: to_foreign_queue_pair(data); return;
	case OFFENCES: return;
	}
	if (offence == WRITE_BEYOND || offence == WRITE_FOREIGN)
		p.len = 8;
	if (offence == MIDDLE || offence == TOO_LONG)
		p.len = MTU;
	if (p.len && p.opcode != ROCE_SEND_ONLY_INVALIDATE)
		p.payload = data;
	send_packet(&p);
}

/* What is asked for against the rules must get a NAK, and nothing else. */
static void expect_refusal(enum offence offence)
{
	struct roce_packet p;
	const uint64_t end = now_ms() + ANSWER_MS;
	while (receive(conn.qpn, end, &p)) {
		if (p.bth.opcode == ROCE_ACKNOWLEDGE && p.aeth.kind == ROCE_NAK) {
			refused++;
			return;
		}
		if (roce_psn_diff(p.bth.psn, conn.psn) < 0 || p.bth.opcode == ROCE_SEND_ONLY)
			continue; /* about what was before */
		printf("%s has got the answer %s\n", offence_names[offence],
		       roce_opcode_name(p.bth.opcode));
		exit(1);
	}
}

static void offend(void)
{
	const enum offence offence = (enum offence)below(OFFENCES);
	if (!join()) {
		unconnected++;
		return;
	}
	offences++;
	commit(offence);
	if (offence < WRONG_PSNS)
		expect_refusal(offence);
	if (below(2))
		part();
}

/* ---- */

static void set_addr(struct in_addr *addr, const char *text)
{
	must(inet_pton(AF_INET, text, addr) == 1, text);
}

static void open_sockets(void)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(ROCE_UDP_PORT),
					.sin_addr = own };
	int value = IP_PMTUDISC_DO; /* identification 0 */
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	raw_fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	must(fd >= 0 && raw_fd >= 0, "socket");
	must(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &value, sizeof(value)) == 0,
	     "IP_MTU_DISCOVER");
	value = 8 << 20; /* room for the answers to a burst */
	must(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &value, sizeof(value)) == 0,
	     "SO_RCVBUFFORCE");
	must(bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0, "bind");
}

int main(int argc, char **argv)
{
	if (argc < 12 || argc > 11 + MOST_HOSTS) {
		fprintf(stderr, "usage: rdma_attacker OWN SERVER PORT RKEY START ID PEER_ID QPN "
				"SECONDS SEED HOST..\n");
		return 2;
	}
	set_addr(&own, argv[1]);
	set_addr(&server, argv[2]);
	port = (uint16_t)atoi(argv[3]);
	victim.rkey = (uint32_t)strtoul(argv[4], NULL, 10);
	victim.start = strtoull(argv[5], NULL, 10);
	victim.id = (uint32_t)strtoul(argv[6], NULL, 10);
	victim.peer_id = (uint32_t)strtoul(argv[7], NULL, 10);
	victim.qpn = (uint32_t)strtoul(argv[8], NULL, 10);
	const uint64_t end = now_ms() + 1000 * strtoull(argv[9], NULL, 10);
	srandom((unsigned int)strtoul(argv[10], NULL, 10));
	for (int i = 11; i < argc; i++)
		set_addr(&hosts[num_hosts++], argv[i]);
	open_sockets();
	while (now_ms() < end) {
		for (int i = 0; i < BURST; i++)
			some_mad();
		offend();
		usleep(PAUSE_US);
	}
	printf("mads=%lu forged=%lu offences=%lu refused=%lu unconnected=%lu\n", mads, forged,
	       offences, refused, unconnected);
	return 0;
}
