/* SPDX-License-Identifier: MIT */
/*
 * The abstract name of the program's end of a socket pair, "\0smcr-pair:ID:ADDR:PORT:ADDR:PORT": ID
 * in 16 hexadecimal digits, ADDR a dotted quad or, for AF_INET6, 32 hexadecimal digits, so that two
 * of them fit a sockaddr_un. For the same reason the scope of a link-local address stands in its
 * bytes 4..7, which are zero in every such address (RFC 4291 2.5.6).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "proto/ipc/ipc.h"
#include "proto/smcr/bytes.h"

#define ADDR6_DIGITS 32
#define SCOPE_AT     4
/* Prefix, identifier, twice an address and a port behind separators; the prefix counts the NUL. */
#define NAME_SIZE (sizeof(IPC_PAIR_NAME_PREFIX) + 16 + 2 * (1 + ADDR6_DIGITS + 1 + 5))

_Static_assert(1 + NAME_SIZE - 1 <= sizeof(((struct sockaddr_un *)0)->sun_path),
	       "a pair name fits an abstract address");

static bool format_addr6(const struct sockaddr_in6 *addr, char ret_text[ADDR6_DIGITS + 1])
{
	uint8_t bytes[16];
	memcpy(bytes, &addr->sin6_addr, sizeof(bytes));
	if (IN6_IS_ADDR_LINKLOCAL(&addr->sin6_addr)) {
		if (get_be32(bytes + SCOPE_AT) != 0)
			return false;
		put_be32(bytes + SCOPE_AT, addr->sin6_scope_id);
	}
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		snprintf(ret_text + 2 * (size_t)i, 3, "%02x", bytes[i]);
	return true;
}

static bool format_addr(const union ipc_addr *addr, char ret_text[ADDR6_DIGITS + 1])
{
	if (addr->sa.sa_family == AF_INET)
		return inet_ntop(AF_INET, &addr->in.sin_addr, ret_text, ADDR6_DIGITS + 1);
	return addr->sa.sa_family == AF_INET6 && format_addr6(&addr->in6, ret_text);
}

/* sin_port and sin6_port are at the same place. */
static unsigned int port_of(const union ipc_addr *addr)
{
	return ntohs(addr->in.sin_port);
}

/* @return length without NUL, or -EINVAL */
static int format_name(const struct ipc_pair_name *name, char ret_text[NAME_SIZE])
{
	char local[ADDR6_DIGITS + 1];
	char peer[ADDR6_DIGITS + 1];
	if (name->local.sa.sa_family != name->peer.sa.sa_family ||
	    !format_addr(&name->local, local) || !format_addr(&name->peer, peer))
		return -EINVAL;
	return snprintf(ret_text, NAME_SIZE, "%s%016" PRIx64 ":%s:%u:%s:%u", IPC_PAIR_NAME_PREFIX,
			name->id, local, port_of(&name->local), peer, port_of(&name->peer));
}

int ipc_pair_name_encode(const struct ipc_pair_name *name, void *ret_sockaddr_un, size_t len)
{
	char text[NAME_SIZE];
	int text_len = format_name(name, text);
	if (text_len < 0)
		return -EINVAL;
	size_t need = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)text_len;
	if (len < need)
		return -EINVAL;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	memcpy(addr.sun_path + 1, text, (size_t)text_len);
	memcpy(ret_sockaddr_un, &addr, need);
	return (int)need;
}

/* Cut off the text before the next ':', or what is left of it; empty after the last. */
static const char *next_field(char **at)
{
	char *field = *at;
	char *end = strchrnul(field, ':');
	*at = *end ? end + 1 : end;
	*end = '\0';
	return field;
}

static bool parse_addr6(const char *text, uint16_t port, struct sockaddr_in6 *ret_addr)
{
	uint8_t bytes[16];
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		if (sscanf(text + 2 * (size_t)i, "%2hhx", &bytes[i]) != 1)
			return false;
	*ret_addr = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = port };
	memcpy(&ret_addr->sin6_addr, bytes, sizeof(bytes));
	if (IN6_IS_ADDR_LINKLOCAL(&ret_addr->sin6_addr)) {
		ret_addr->sin6_scope_id = get_be32(bytes + SCOPE_AT);
		memset(ret_addr->sin6_addr.s6_addr + SCOPE_AT, 0, 4);
	}
	return true;
}

static bool parse_addr(char **at, union ipc_addr *ret_addr)
{
	const char *text = next_field(at);
	uint16_t port = htons((uint16_t)strtoul(next_field(at), NULL, 10));
	if (strlen(text) == ADDR6_DIGITS)
		return parse_addr6(text, port, &ret_addr->in6);
	ret_addr->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port };
	return inet_pton(AF_INET, text, &ret_addr->in.sin_addr) == 1;
}

int ipc_pair_name_decode(const void *sockaddr_un, size_t len, struct ipc_pair_name *ret_name)
{
	const size_t text_at = offsetof(struct sockaddr_un, sun_path) + 1;
	const size_t prefix_len = sizeof(IPC_PAIR_NAME_PREFIX) - 1;
	struct sockaddr_un addr = { 0 };
	if (len <= text_at + prefix_len || len - text_at >= NAME_SIZE)
		return -EINVAL;
	memcpy(&addr, sockaddr_un, len); /* leaves a NUL behind the text */
	if (addr.sun_family != AF_UNIX || addr.sun_path[0] != '\0' ||
	    memcmp(addr.sun_path + 1, IPC_PAIR_NAME_PREFIX, prefix_len) != 0)
		return -EINVAL;

	char *at = addr.sun_path + 1 + prefix_len;
	struct ipc_pair_name name = { .id = strtoull(next_field(&at), NULL, 16) };
	if (!parse_addr(&at, &name.local) || !parse_addr(&at, &name.peer))
		return -EINVAL;

	/* The parsing above is lenient. Only text that format_name() would write is a valid name.
	 */
	char again[NAME_SIZE];
	int again_len = format_name(&name, again);
	if (again_len < 0 || (size_t)again_len != len - text_at ||
	    memcmp(again, (const char *)sockaddr_un + text_at, (size_t)again_len) != 0)
		return -EINVAL;
	*ret_name = name;
	return 0;
}
