/* SPDX-License-Identifier: MIT */
#include "tests/lib/mangler.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RELEASE_US 700

static const char *const own_addr[2] = { "10.77.0.9", "10.77.0.8" };
static const char *const rnic_addr[2] = { "10.77.0.1", "10.77.0.2" };

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

static struct in_addr addr_of(const char *text)
{
	struct in_addr addr;
	must(inet_pton(AF_INET, text, &addr) == 1, text);
	return addr;
}

static bool chance(struct mangler *m, unsigned int thousandths)
{
	return random_below(&m->random, 1000) < thousandths;
}

/* Send the packet from socket `out`, with the ICRC for its new addresses. */
static void forward(struct mangler *m, int out, uint8_t *buf, size_t len)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(ROCE_UDP_PORT),
				  .sin_addr = addr_of(rnic_addr[out]) };
	struct roce_flow flow = { .saddr = addr_of(own_addr[out]).s_addr,
				  .daddr = to.sin_addr.s_addr,
				  .sport = htons(ROCE_UDP_PORT),
				  .dport = htons(ROCE_UDP_PORT) };
	struct roce_packet p;
	must(roce_decode(buf, len, &p) == 0, "a soft RNIC sent nonsense");
	size_t body = len - p.header_len - ROCE_ICRC_LEN;
	uint32_t crc = roce_icrc_begin(&flow, len, 0, buf, p.header_len);
	crc = roce_icrc_update(crc, buf + p.header_len, body);
	roce_icrc_put(crc, buf + len - ROCE_ICRC_LEN);
	if (chance(m, m->faults.damage)) {
		buf[random_below(&m->random, (uint32_t)len)] ^= 0x10;
		m->damaged++;
	}
	m->forwarded++;
	/* If the socket's buffer is full, this is one more packet lost. */
	if (sendto(m->fd[out], buf, len, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		m->lost++;
}

static void release(struct mangler *m, size_t i)
{
	struct mangler_packet p = m->held[i];
	m->held[i] = m->held[--m->num_held];
	forward(m, p.out, p.buf, p.len);
}

static void on_release(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct mangler *m = arg;
	while (m->num_held > 0)
		release(m, random_below(&m->random, (uint32_t)m->num_held));
}

static void hold(struct mangler *m, int out, const uint8_t *buf, size_t len)
{
	m->delayed++;
	if (m->num_held == MANGLER_HELD)
		release(m, random_below(&m->random, MANGLER_HELD));
	struct mangler_packet *p = &m->held[m->num_held++];
	p->out = out;
	p->len = len;
	memcpy(p->buf, buf, len);
	struct timeval tv = { 0, RELEASE_US };
	if (!evtimer_pending(m->release, NULL))
		evtimer_add(m->release, &tv);
}

static void mangle(struct mangler *m, int out, uint8_t *buf, size_t len)
{
	bool too_large = m->faults.most && len > m->faults.most;
	if (too_large || chance(m, m->faults.lose)) {
		m->lost++;
		return;
	}
	if (chance(m, m->faults.delay)) {
		hold(m, out, buf, len);
		return;
	}
	if (chance(m, m->faults.duplicate)) {
		uint8_t copy[ROCE_MAX_LEN];
		memcpy(copy, buf, len);
		m->duplicated++;
		if (chance(m, 500))
			hold(m, out, copy, len);
		else
			forward(m, out, copy, len);
	}
	forward(m, out, buf, len);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	struct mangler *m = arg;
	int out = fd == m->fd[0];
	uint8_t buf[ROCE_MAX_LEN];
	for (int i = 0; i < 64; i++) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0)
			return;
		mangle(m, out, buf, (size_t)n);
	}
}

static int open_socket(const char *addr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int value = IP_PMTUDISC_DO;
	must(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &value, sizeof(value)) == 0, addr);
	value = 16 << 20;
	must(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &value, sizeof(value)) == 0, addr);
	must(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &value, sizeof(value)) == 0, addr);
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(ROCE_UDP_PORT),
				   .sin_addr = addr_of(addr) };
	must(bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0, addr);
	return fd;
}

void mangler_open(struct mangler *m, const struct testnet *net, struct event_base *base,
		  uint64_t seed)
{
	memset(m, 0, sizeof(*m));
	m->base = base;
	m->random.state = seed;
	testnet_enter(net, 1);
	testnet_addr_add("t1", "10.77.0.9/24");
	m->fd[0] = open_socket(own_addr[0]);
	testnet_enter(net, 0);
	testnet_addr_add("t0", "10.77.0.8/24");
	m->fd[1] = open_socket(own_addr[1]);
	for (int i = 0; i < 2; i++) {
		m->readable[i] = event_new(base, m->fd[i], EV_READ | EV_PERSIST, on_readable, m);
		event_add(m->readable[i], NULL);
	}
	m->release = evtimer_new(base, on_release, m);
}

void mangler_close(struct mangler *m)
{
	for (int i = 0; i < 2; i++) {
		event_free(m->readable[i]);
		close(m->fd[i]);
	}
	event_free(m->release);
}

void mangler_gid(int which, uint8_t gid[16])
{
	struct in_addr addr = addr_of(own_addr[which]);
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xFF;
	memcpy(gid + 12, &addr, 4);
}
