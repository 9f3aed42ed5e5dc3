/* SPDX-License-Identifier: MIT */
/*
 * How much memory of RMBs and send buffers each user of this host holds, and each peer, by its
 * address. None of them may take what the others need (SEC-4, RMB-12):
 *
 * - The last sixteenth of the budget is set aside for connections whose user or whose peer holds
 *   little. One of the two is enough: otherwise a peer that makes a server's user hold much would
 *   shut other peers out of that server.
 * - A user that holds much gets no larger buffers with SO_RCVBUF or SO_SNDBUF than without them.
 *   So the memory that is left for others shrinks no faster.
 *
 * A connection that gets no memory is declined and goes on as TCP.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"

#define SET_ASIDE_SHARE 16           /* 1/16 of the budget is set aside, */
#define SET_ASIDE_STEP  (256u << 10) /* in multiples of this; nothing of a tiny budget */
#define LITTLE_SHARE    256          /* less than 1/256 of the budget is little */
#define MUCH_SIXTEENTHS 6            /* more than 6/16 of the budget is much */

struct account_key {
	uint8_t family; /* of a peer's address; AF_UNSPEC: a user */
	uint8_t id[16]; /* the address, or the user's number */
};

struct smcr_account {
	struct account_key key;
	uint64_t held; /* bytes */
	uint32_t num_conns;
	UT_hash_handle hh; /* engine->accounts */
};

static struct smcr_account *get(struct smcr_engine *engine, uint8_t family, const void *id,
				size_t len)
{
	struct account_key key = { .family = family };
	struct smcr_account *account;
	memcpy(key.id, id, len);
	HASH_FIND(hh, engine->accounts, &key, sizeof(key), account);
	if (!account) {
		account = calloc(1, sizeof(*account));
		if (!account)
			return NULL;
		account->key = key;
		HASH_ADD(hh, engine->accounts, key, sizeof(account->key), account);
	}
	account->num_conns++;
	return account;
}

static void put(struct smcr_engine *engine, struct smcr_account *account)
{
	if (!account || --account->num_conns)
		return;
	HASH_DELETE(hh, engine->accounts, account);
	free(account);
}

int smcr_account_open(struct smcr_conn *conn)
{
	const struct smcr_addr *peer = &conn->params.peer;
	size_t len = peer->family == AF_INET ? 4 : sizeof(peer->ip);
	if (conn->accounts.user)
		return 0;
	conn->accounts.user =
		get(conn->engine, AF_UNSPEC, &conn->params.uid, sizeof(conn->params.uid));
	conn->accounts.peer = get(conn->engine, peer->family, peer->ip, len);
	if (conn->accounts.user && conn->accounts.peer)
		return 0;
	smcr_account_close(conn);
	return -ENOMEM;
}

/* The connection holds `held` bytes now. */
static void settle(struct smcr_conn *conn, uint64_t held)
{
	uint64_t before = conn->accounts.held;
	conn->engine->memory_held += held - before;
	conn->accounts.user->held += held - before;
	conn->accounts.peer->held += held - before;
	conn->accounts.held = held;
}

void smcr_account_settle(struct smcr_conn *conn)
{
	settle(conn, (uint64_t)conn->rx.element.size + conn->tx.buf.size);
}

void smcr_account_close(struct smcr_conn *conn)
{
	if (conn->accounts.held)
		settle(conn, 0);
	put(conn->engine, conn->accounts.user);
	put(conn->engine, conn->accounts.peer);
	conn->accounts.user = conn->accounts.peer = NULL;
}

bool smcr_account_is_small(const struct smcr_conn *conn)
{
	uint64_t little = conn->engine->config.memory_budget / LITTLE_SHARE;
	return conn->accounts.user->held < little || conn->accounts.peer->held < little;
}

bool smcr_account_is_large(const struct smcr_conn *conn)
{
	uint64_t much = conn->engine->config.memory_budget / 16 * MUCH_SIXTEENTHS;
	return !smcr_account_is_small(conn) && conn->accounts.user->held > much;
}

uint64_t smcr_account_set_aside(const struct smcr_engine *engine)
{
	uint64_t share = engine->config.memory_budget / SET_ASIDE_SHARE;
	return share - share % SET_ASIDE_STEP;
}

bool smcr_account_allows(const struct smcr_conn *conn)
{
	const struct smcr_engine *engine = conn->engine;
	uint64_t left = engine->config.memory_budget - smcr_account_set_aside(engine);
	return smcr_account_is_small(conn) || engine->memory_held < left;
}

void smcr_account_refused(struct smcr_conn *conn)
{
	struct smcr_engine *engine = conn->engine;
	engine->count.memory_refused++;
	smcr_log_peer(engine, &conn->params.peer, LOG_WARNING, "memory",
		      "no buffers for a connection, which stays TCP: user %u has %llu KiB in use, "
		      "connections with this peer %llu, of %llu (memory)",
		      (unsigned int)conn->params.uid,
		      (unsigned long long)conn->accounts.user->held >> 10,
		      (unsigned long long)conn->accounts.peer->held >> 10,
		      (unsigned long long)engine->config.memory_budget >> 10);
}
