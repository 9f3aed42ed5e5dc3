/* SPDX-License-Identifier: MIT */
#include "lib/smcr/fit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>

#include "lib/smcr/holders.h"
#include "lib/smcr/path.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/watch.h"
#include "proto/smcr/reason.h"

/* Which sockets an option makes unfit. */
enum scope {
	EVERY,    /* those that are connected, and listeners */
	CLIENTS,  /* those that are connected */
	ZEROCOPY, /* as EVERY, but listeners only if the program has used MSG_ZEROCOPY: gRPC sets
		     the option on each of its listeners, and seldom uses it */
};

struct row {
	int level, name;
	int alias; /* another name by which the program sets it, or 0 */
	int off;   /* the value that means that it is not set */
	enum scope scope;
	struct pre_unfit why;
};

#define TELLS(text)                                                                                \
	{                                                                                          \
		text, SMCR_REASON_TCP_MESSAGES                                                     \
	}
#define CHANGES(text)                                                                              \
	{                                                                                          \
		text, SMCR_REASON_SOCKET_OPTION                                                    \
	}
#define TIMESTAMPS TELLS("timestamps of received data were asked for")

#define ROW_ZEROCOPY 0

static const struct row rows[] = {
	/* What the kernel tells with the data, or on the error queue. */
	{ SOL_SOCKET, SO_ZEROCOPY, 0, 0, ZEROCOPY,
	  TELLS("SO_ZEROCOPY is set: the program will wait for the kernel's notices") },
	{ SOL_SOCKET, SO_TIMESTAMPING_OLD, SO_TIMESTAMPING_NEW, 0, EVERY,
	  TELLS("SO_TIMESTAMPING is set: the program will wait for timestamps") },
	{ SOL_SOCKET, SO_TIMESTAMP_OLD, 0, 0, EVERY, TIMESTAMPS },
	{ SOL_SOCKET, SO_TIMESTAMP_NEW, 0, 0, EVERY, TIMESTAMPS },
	{ SOL_SOCKET, SO_TIMESTAMPNS_OLD, 0, 0, EVERY, TIMESTAMPS },
	{ SOL_SOCKET, SO_TIMESTAMPNS_NEW, 0, 0, EVERY, TIMESTAMPS },
	{ SOL_SOCKET, SO_TXTIME, 0, 0, EVERY,
	  TELLS("SO_TXTIME is set: the program decides when packets leave") },
	{ IPPROTO_TCP, TCP_INQ, 0, 0, EVERY,
	  TELLS("TCP_INQ is set: each message is to say how much more there is") },

	/* Which packets the kernel takes. What goes by RDMA would go past these. */
	{ SOL_SOCKET, SO_ATTACH_FILTER, SO_ATTACH_BPF, 0, EVERY,
	  CHANGES("a filter is attached to the socket") },
	{ IPPROTO_IP, IP_MINTTL, 0, 0, EVERY, CHANGES("IP_MINTTL is set") },
	{ IPPROTO_IPV6, IPV6_MINHOPCOUNT, 0, 0, EVERY, CHANGES("IPV6_MINHOPCOUNT is set") },

	/* What happens to the stream. */
	{ SOL_SOCKET, SO_PEEK_OFF, 0, -1, EVERY, CHANGES("SO_PEEK_OFF is set") },
	{ IPPROTO_TCP, TCP_REPAIR, 0, 0, CLIENTS,
	  CHANGES("TCP_REPAIR is set: there is no handshake") },
	{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0, 0, CLIENTS,
	  CHANGES("TCP_FASTOPEN_CONNECT is set: the handshake waits for data") },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))
#define ALL  ((1u << ROWS) - 1)

_Static_assert(ROWS < 32, "a bit for each row");

static _Atomic uint32_t seen; /* rows whose options the program has set; a bit for each */
static _Atomic bool zerocopy_used;

/* By descriptor: a listener that may have come from another process has none of these options. */
static _Atomic bool looked_at[PRE_PATH_SLOTS];

static bool has_looked_at(int fd)
{
	return (unsigned int)fd < PRE_PATH_SLOTS && atomic_load(&looked_at[fd]);
}

void pre_fit_forget(int fd)
{
	if (has_looked_at(fd))
		atomic_store(&looked_at[fd], false);
}

/* The number of instructions of a filter; the kernel does not tell that of a BPF program. */
static bool has_filter(int fd)
{
	socklen_t len = 0;
	int rc = sys_getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len);
	return rc == -EACCES || (rc == 0 && len > 0);
}

static bool is_set(int fd, const struct row *row)
{
	int value;
	if (row->level == SOL_SOCKET && row->name == SO_ATTACH_FILTER)
		return has_filter(fd);
	return sys_get_int(fd, row->level, row->name, &value) == 0 && value != row->off;
}

static bool concerns(const struct row *row, bool accepts)
{
	switch (row->scope) {
	case CLIENTS: return !accepts;
	case ZEROCOPY: return !accepts || !pre_sees_calls || atomic_load(&zerocopy_used);
	case EVERY: break;
	}
	return true;
}

/* @param ask  a bit for each row */
static struct pre_unfit find(int fd, uint32_t ask, bool accepts)
{
	for (size_t i = 0; ask >> i; i++)
		if (ask & 1u << i && concerns(&rows[i], accepts) && is_set(fd, &rows[i]))
			return rows[i].why;
	return (struct pre_unfit){ 0 };
}

static uint32_t rows_to_ask(bool made_here)
{
	return made_here ? atomic_load_explicit(&seen, memory_order_relaxed) : ALL;
}

struct pre_unfit pre_unfit_to_accept(int fd, int listener)
{
	const bool made_here =
		pre_holders_of(listener) == PRE_HOLDERS_ALONE || has_looked_at(listener);
	const struct pre_unfit why = find(fd, rows_to_ask(made_here), true);
	if (!made_here && !why.text && pre_sees_calls && (unsigned int)listener < PRE_PATH_SLOTS)
		atomic_store(&looked_at[listener], true);
	return why;
}

struct pre_unfit pre_unfit(int fd)
{
	if (!pre_watch_complete(fd))
		return (struct pre_unfit)CHANGES("too many epoll registrations to follow");
	return find(fd, rows_to_ask(pre_holders_of(fd) == PRE_HOLDERS_ALONE), false);
}

bool pre_may_be_unfit(int fd)
{
	return !pre_sees_calls || atomic_load_explicit(&seen, memory_order_relaxed) != 0 ||
	       !pre_watch_complete(fd);
}

/* Options that are set later do not make a difference to what was claimed. */
static bool may_be_claimed(int fd)
{
	uint8_t state; /* the first byte of struct tcp_info */
	socklen_t len = sizeof(state);
	return sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &len) == 0 &&
	       (state == TCP_CLOSE || state == TCP_LISTEN);
}

void pre_fit_note_option(int fd, int level, int name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].level == level && (rows[i].name == name || rows[i].alias == name) &&
		    !(atomic_load(&seen) & 1u << i) && may_be_claimed(fd))
			atomic_fetch_or(&seen, 1u << i);
}

void pre_fit_note_zerocopy(void)
{
	if (atomic_exchange(&zerocopy_used, true))
		return;
	atomic_fetch_or(&seen, 1u << ROW_ZEROCOPY); /* also of listeners that were looked at */
}
