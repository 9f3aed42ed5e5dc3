/* SPDX-License-Identifier: MIT */
/* The socket calls of the RNICs. A descriptor is FIRST_FD plus a place in the table. */
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/ip.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/roce/roce.h"
#include "tests/rnicsim/host.h"
#include "tests/rnicsim/loop.h"
#include "tests/rnicsim/sights.h"
#include "tests/rnicsim/wire.h"
#include "tests/rnicsim/world.h"

#define FIRST_FD     100000
#define MAX_SOCKETS  16
#define LARGEST      65507 /* bytes of one datagram */
#define MOST_JOINED  64
#define OVERHEAD     28  /* IPv4 and UDP */
#define CHARGE       512 /* what a datagram costs of the receive buffer beside its bytes */
#define OLD_SEGMENTS 64

struct sock {
	bool open;
	struct host *host;
	struct in_addr addr; /* zero: not bound */
	bool bound, tells_tos, joins;
	struct watch *reader, *writer;
	uint64_t full_until;
	struct packet **inbox; /* a heap by time of arrival */
	size_t len, cap;
	size_t charged;
	uint64_t next_order;
};

static struct sock socks[MAX_SOCKETS];
static size_t live;

static struct sock *sock_at(int fd)
{
	size_t i = (size_t)(fd - FIRST_FD);
	if (fd < FIRST_FD || i >= MAX_SOCKETS || !socks[i].open) {
		world_fail("a call for descriptor %d, which is not open", fd);
		abort();
	}
	return &socks[i];
}

static int fd_of(const struct sock *sock)
{
	return FIRST_FD + (int)(sock - socks);
}

size_t sockets_live(void)
{
	return live;
}

struct sock *socket_of(struct in_addr addr)
{
	for (size_t i = 0; i < MAX_SOCKETS; i++) {
		if (socks[i].open && socks[i].bound && socks[i].addr.s_addr == addr.s_addr)
			return &socks[i];
	}
	return NULL;
}

/* ---- what has arrived */

static bool before(const struct packet *a, const struct packet *b)
{
	return a->arrives != b->arrives ? a->arrives < b->arrives : a->order < b->order;
}

static void swap(struct packet **a, struct packet **b)
{
	struct packet *t = *a;
	*a = *b;
	*b = t;
}

static struct packet *pop(struct sock *sock)
{
	struct packet **heap = sock->inbox, *packet = heap[0];
	heap[0] = heap[--sock->len];
	for (size_t i = 0;;) {
		size_t least = i, left = 2 * i + 1, right = 2 * i + 2;
		if (left < sock->len && before(heap[left], heap[least]))
			least = left;
		if (right < sock->len && before(heap[right], heap[least]))
			least = right;
		if (least == i)
			break;
		swap(&heap[i], &heap[least]);
		i = least;
	}
	sock->charged -= packet->len + CHARGE;
	return packet;
}

static void on_arrival(void *object, uint64_t arg)
{
	struct sock *sock = object;
	(void)arg;
	if (sock->open && sock->reader)
		loop_look(sock->reader);
}

void socket_deliver(struct sock *sock, struct packet *packet)
{
	size_t charge = packet->len + CHARGE;
	if (sock->charged + charge > (size_t)world->set.receive_buffer_kib << 10) {
		sock->host->harmed_at = now();
		free(packet);
		return;
	}
	if (sock->len == sock->cap) {
		size_t cap = sock->cap ? 2 * sock->cap : 64;
		struct packet **heap = sim_alloc(cap * sizeof(struct packet *));
		if (sock->len)
			memcpy(heap, sock->inbox, sock->len * sizeof(*heap));
		free(sock->inbox);
		sock->inbox = heap;
		sock->cap = cap;
	}
	sock->charged += charge;
	packet->order = sock->next_order++;
	size_t i = sock->len++;
	sock->inbox[i] = packet;
	for (; i > 0 && before(sock->inbox[i], sock->inbox[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&sock->inbox[i], &sock->inbox[(i - 1) / 2]);
	clock_at(&world->clock, packet->arrives, on_arrival, sock, 0);
}

static bool has_arrived(const struct sock *sock)
{
	return sock->len > 0 && sock->inbox[0]->arrives <= now();
}

bool socket_is_readable(int fd)
{
	return has_arrived(sock_at(fd));
}

bool socket_is_writable(int fd)
{
	return now() >= sock_at(fd)->full_until;
}

void socket_watched(int fd, bool for_writing, struct watch *watch)
{
	struct sock *sock = sock_at(fd);
	if (for_writing)
		sock->writer = watch;
	else
		sock->reader = watch;
}

static void empty(struct sock *sock)
{
	for (size_t i = 0; i < sock->len; i++)
		free(sock->inbox[i]);
	free(sock->inbox);
	sock->inbox = NULL;
	sock->len = sock->cap = sock->charged = 0;
}

void sockets_free(void)
{
	for (size_t i = 0; i < MAX_SOCKETS; i++) {
		if (socks[i].open)
			empty(&socks[i]);
		socks[i] = (struct sock){ 0 };
	}
	live = 0;
}

/* ---- open, bind, close */

int __wrap_socket(int family, int type, int protocol);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_close(int fd);

int __wrap_socket(int family, int type, int protocol)
{
	(void)family;
	(void)type;
	(void)protocol;
	for (size_t i = 0; i < MAX_SOCKETS; i++) {
		if (socks[i].open)
			continue;
		socks[i] = (struct sock){ .open = true };
		live++;
		return fd_of(&socks[i]);
	}
	errno = EMFILE;
	return -1;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	struct sock *sock = sock_at(fd);
	(void)value;
	(void)len;
	if (level == IPPROTO_IP && option == IP_RECVTOS)
		sock->tells_tos = true;
	if (level == IPPROTO_UDP && option == UDP_GRO)
		sock->joins = true;
	return 0;
}

/* Only what is in the socket is asked for. */
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	const struct sock *sock = sock_at(fd);
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	(void)level;
	(void)option;
	for (size_t i = 0; i < sock->len; i++) {
		if (sock->inbox[i]->arrives <= now())
			info[SK_MEMINFO_RMEM_ALLOC] += (uint32_t)sock->inbox[i]->len + CHARGE;
	}
	memcpy(value, info, *len < sizeof(info) ? *len : sizeof(info));
	return 0;
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock *sock = sock_at(fd);
	struct sockaddr_in sin;
	if (len != sizeof(sin)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(&sin, addr, sizeof(sin));
	sock->addr = sin.sin_addr;
	sock->bound = true;
	sock->host = host_of(sin.sin_addr);
	return 0;
}

int __wrap_close(int fd)
{
	struct sock *sock = sock_at(fd);
	empty(sock);
	sock->open = false;
	live--;
	return 0;
}

/* ---- sending */

int __wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len);

static void on_room(void *object, uint64_t arg)
{
	struct sock *sock = object;
	(void)arg;
	if (sock->open && sock->writer)
		loop_look(sock->writer);
}

/* @return 0, or the error of this send */
static int refusal(struct sock *sock)
{
	static const int errors[] = { ENOBUFS, EPERM, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED };
	if (now() < sock->full_until)
		return EAGAIN;
	if (chance(world->set.socket_full)) {
		saw(SAW_SOCKET_FULL);
		sock->full_until = now() + choose_size(1, 5 * MSEC);
		clock_at(&world->clock, sock->full_until, on_room, sock, 0);
		return EAGAIN;
	}
	if (!chance(world->set.send_errors))
		return 0;
	sock->host->harmed_at = now();
	return errors[choose(0, sizeof(errors) / sizeof(errors[0]) - 1)];
}

/* What control messages ask for. */
struct wanted {
	size_t segment; /* 0: one packet */
	bool capable;
};

static struct wanted wanted_of(const struct msghdr *msg)
{
	struct wanted wanted = { 0 };
	/* CMSG_NXTHDR takes a header that is not const. */
	struct msghdr copy = *msg;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c; c = CMSG_NXTHDR(&copy, c)) {
		uint16_t size;
		int tos;
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT) {
			memcpy(&size, CMSG_DATA(c), sizeof(size));
			wanted.segment = size;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			memcpy(&tos, CMSG_DATA(c), sizeof(tos));
			wanted.capable = IPTOS_ECN(tos) != IPTOS_ECN_NOT_ECT;
		} else {
			world_fail("an unknown control message");
		}
	}
	return wanted;
}

/* The kernel's rules for one datagram. @return 0 or the error */
static int rules(const struct sock *sock, size_t len, const struct wanted *wanted)
{
	size_t packet = wanted->segment ? wanted->segment : len;
	if (len > LARGEST || packet + OVERHEAD > sock->host->mtu)
		return EMSGSIZE;
	if (!wanted->segment)
		return 0;
	if (len <= wanted->segment)
		world_fail("segmentation of a single packet, an error in some kernels");
	if (sock->host->no_segmentation)
		return EIO;
	size_t segments = (len + wanted->segment - 1) / wanted->segment;
	return segments > (world->set.old_kernel ? OLD_SEGMENTS : 2 * OLD_SEGMENTS) ? EINVAL : 0;
}

/* The kernel cuts a datagram into packets. @param lost  and they get no further */
static void cut(const struct sock *sock, struct in_addr to, const uint8_t *data, size_t len,
		const struct wanted *wanted, bool lost)
{
	size_t step = wanted->segment ? wanted->segment : len;
	for (size_t at = 0; at < len; at += step) {
		size_t part = len - at < step ? len - at : step;
		wire_sent(sock->host, to, data + at, part);
		if (!lost)
			net_send(sock->host, to, data + at, part, wanted->capable);
	}
}

static int send_one(struct sock *sock, const struct msghdr *msg)
{
	static uint8_t data[LARGEST];
	struct wanted wanted = wanted_of(msg);
	struct sockaddr_in to;
	size_t len = 0;
	memcpy(&to, msg->msg_name, sizeof(to));
	if (to.sin_port != htons(ROCE_UDP_PORT))
		world_fail("a datagram to port %u", ntohs(to.sin_port));
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (msg->msg_iov[i].iov_len > sizeof(data) - len)
			return EMSGSIZE;
		memcpy(data + len, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		len += msg->msg_iov[i].iov_len;
	}
	int lost = refusal(sock);
	int error = lost == EAGAIN ? lost : rules(sock, len, &wanted);
	if (!error)
		cut(sock, to.sin_addr, data, len, &wanted, lost);
	return error ? error : lost;
}

int __wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	struct sock *sock = sock_at(fd);
	(void)flags;
	spend(4);
	for (unsigned int i = 0; i < n; i++) {
		int error = send_one(sock, &msgs[i].msg_hdr);
		if (!error)
			continue;
		errno = error;
		return i > 0 ? (int)i : -1;
	}
	return (int)n;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr msg = { .msg_name = (void *)(uintptr_t)to,
			      .msg_namelen = to_len,
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };
	(void)flags;
	spend(2);
	int error = send_one(sock_at(fd), &msg);
	if (!error)
		return (ssize_t)len;
	errno = error;
	return -1;
}

/* ---- receiving */

int __wrap_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *timeout);

/* May the packet follow those that are joined already? The last one may be shorter. */
static bool fits(const struct packet *next, const struct packet *first, size_t last_len, size_t len)
{
	return next->from.s_addr == first->from.s_addr && next->marked == first->marked &&
	       next->capable == first->capable && last_len == first->len &&
	       next->len <= first->len && len + next->len <= LARGEST;
}

static void add_control(struct msghdr *msg, size_t room, int level, int type, const void *value,
			size_t len)
{
	if (msg->msg_controllen + CMSG_SPACE(len) > room) {
		world_fail("no room for what the kernel tells of a datagram");
		return;
	}
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), value, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

static void tell(const struct sock *sock, struct msghdr *msg, const struct packet *first,
		 unsigned int joined)
{
	size_t room = msg->msg_controllen;
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_port = htons(ROCE_UDP_PORT),
				    .sin_addr = first->from };
	int size = (int)first->len;
	uint8_t tos = first->marked ? IPTOS_ECN_CE : first->capable ? IPTOS_ECN_ECT0 : 0;
	memcpy(msg->msg_name, &from, sizeof(from));
	msg->msg_namelen = sizeof(from);
	msg->msg_flags = 0;
	msg->msg_controllen = 0;
	if (sock->tells_tos)
		add_control(msg, room, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	if (joined > 1)
		add_control(msg, room, IPPROTO_UDP, UDP_GRO, &size, sizeof(size));
}

static void take(const struct sock *sock, const struct packet *packet, uint8_t *to)
{
	memcpy(to, packet->data, packet->len);
	world_note(packet->len ^ now() << 16);
	wire_received(sock->host, packet);
}

/* Fill one message with a packet, or with several that are equal but for the length of the last. */
static void receive_one(struct sock *sock, struct mmsghdr *m)
{
	struct packet *first = pop(sock);
	uint8_t *to = m->msg_hdr.msg_iov->iov_base;
	size_t len = first->len, last_len = first->len;
	unsigned int joined = 1;
	bool joins = sock->joins && chance(world->set.joins);
	take(sock, first, to);
	while (joins && joined < MOST_JOINED && has_arrived(sock) &&
	       fits(sock->inbox[0], first, last_len, len)) {
		struct packet *next = pop(sock);
		take(sock, next, to + len);
		last_len = next->len;
		len += last_len;
		joined++;
		free(next);
	}
	m->msg_len = (unsigned int)len;
	tell(sock, &m->msg_hdr, first, joined);
	free(first);
}

int __wrap_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *timeout)
{
	struct sock *sock = sock_at(fd);
	unsigned int i = 0;
	(void)flags;
	(void)timeout;
	spend(3);
	while (i < n && has_arrived(sock))
		receive_one(sock, &msgs[i++]);
	if (i > 0)
		return (int)i;
	errno = EAGAIN;
	return -1;
}
