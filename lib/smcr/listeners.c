/* SPDX-License-Identifier: MIT */
#include "lib/smcr/listeners.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"
#include "proto/ipc/ipc.h"

#define SLOTS 64

/* `key` is written last; a slot whose socket is gone is as good as free. */
struct entry {
	_Atomic uint64_t key; /* descriptor + 1 in the upper half, port below; 0: free */
	_Atomic uint64_t cookie;
};

static struct entry table[SLOTS];
static _Atomic bool any;

static uint64_t key_of(int fd, in_port_t port)
{
	return ((uint64_t)((uint32_t)fd + 1) << 32) | port;
}

static int fd_of(uint64_t key)
{
	return (int)(uint32_t)(key >> 32) - 1;
}

static bool is_gone(const struct entry *entry, uint64_t key)
{
	uint64_t cookie;
	return key == 0 || pre_cookie(fd_of(key), &cookie) < 0 ||
	       cookie != atomic_load(&entry->cookie);
}

void pre_listeners_add(int fd)
{
	union ipc_addr addr;
	socklen_t len = sizeof(addr);
	uint64_t cookie;
	if (sys_getsockname(fd, &addr, &len) < 0 || pre_cookie(fd, &cookie) < 0)
		return;
	const uint64_t key = key_of(fd, addr.in.sin_port); /* at the same place in both families */
	for (size_t i = 0; i < SLOTS; i++) {
		uint64_t old = atomic_load(&table[i].key);
		if ((old == key || is_gone(&table[i], old)) &&
		    atomic_compare_exchange_strong(&table[i].key, &old, 0)) {
			atomic_store(&table[i].cookie, cookie);
			atomic_store(&table[i].key, key);
			atomic_store(&any, true);
			return;
		}
	}
}

static bool listens_at(in_port_t port)
{
	for (size_t i = 0; i < SLOTS; i++) {
		uint64_t key = atomic_load(&table[i].key);
		if (key != 0 && (in_port_t)key == port && !is_gone(&table[i], key))
			return true;
	}
	return false;
}

static bool same_host(const union ipc_addr *a, const union ipc_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET6)
		return IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr);
	return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
}

static bool is_loopback(const union ipc_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
	return ntohl(addr->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* The kernel chooses an own address as the source of what goes to that address. A datagram socket
 * shows it without a packet. */
static bool is_local(const struct sockaddr *addr, socklen_t len)
{
	union ipc_addr there, here;
	socklen_t there_len = sizeof(there), here_len = sizeof(here);
	int fd = sys_socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bool local = sys_connect(fd, addr, len) == 0 &&
		     sys_getpeername(fd, &there, &there_len) == 0 &&
		     sys_getsockname(fd, &here, &here_len) == 0 &&
		     (same_host(&there, &here) || is_loopback(&there));
	sys_close(fd);
	return local;
}

bool pre_listeners_have(const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_in head; /* the port is at the same place in both families */
	if (!atomic_load_explicit(&any, memory_order_relaxed) || !addr || len < sizeof(head))
		return false;
	memcpy(&head, addr, sizeof(head));
	if (head.sin_family != AF_INET && head.sin_family != AF_INET6)
		return false;
	return listens_at(head.sin_port) && is_local(addr, len);
}
