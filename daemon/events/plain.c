/* SPDX-License-Identifier: MIT */
#include "daemon/events/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

/** A connection; in two lists, oldest first: of all, and of its user. */
struct kept {
	struct plain_conn conn;
	struct user *user;
	bool hashed; /* by cookie */
	struct kept *prev, *next;
	struct kept *user_prev, *user_next;
	UT_hash_handle hh;
};

struct peer_key {
	uint8_t family, ip[16];
};

/** A peer; in two lists too. Its user is the first one who had a connection with it. */
struct peer {
	struct plain_peer known;
	struct peer_key key;
	struct user *user;
	struct peer *prev, *next;
	struct peer *user_prev, *user_next;
	UT_hash_handle hh;
};

struct user {
	uid_t uid;
	struct kept *kept;
	struct peer *peers;
	size_t num_kept, num_peers;
	UT_hash_handle hh;
};

struct plain {
	struct rdv_tally *tally;
	struct kept *kept, *by_cookie;
	size_t num_kept;
	uint64_t last_number;
	struct peer *peers, *by_key;
	size_t num_peers;
	uint64_t others; /* connections with peers that were removed */
	struct user *users;
};

int plain_new(struct rdv_tally *tally, struct plain **ret_plain)
{
	struct plain *plain = calloc(1, sizeof(*plain));
	if (!plain)
		return -ENOMEM;
	plain->tally = tally;
	*ret_plain = plain;
	return 0;
}

/* ---- users ---- */

static struct user *user_get(struct plain *plain, uid_t uid)
{
	struct user *user;
	HASH_FIND(hh, plain->users, &uid, sizeof(uid), user);
	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	HASH_ADD(hh, plain->users, uid, sizeof(user->uid), user);
	return user;
}

static void user_put(struct plain *plain, struct user *user)
{
	if (user->num_kept || user->num_peers)
		return;
	HASH_DELETE(hh, plain->users, user);
	free(user);
}

/* ---- connections ---- */

static void unhash(struct plain *plain, struct kept *kept)
{
	if (kept->hashed)
		HASH_DELETE(hh, plain->by_cookie, kept);
	kept->hashed = false;
}

/* The user may be freed with its last entry. */
static void forget(struct plain *plain, struct kept *kept)
{
	struct user *user = kept->user;
	unhash(plain, kept);
	DL_DELETE(plain->kept, kept);
	DL_DELETE2(user->kept, kept, user_prev, user_next);
	plain->num_kept--;
	user->num_kept--;
	free(kept);
	user_put(plain, user);
}

static struct kept *find(const struct plain *plain, uint64_t cookie)
{
	struct kept *kept;
	HASH_FIND(hh, plain->by_cookie, &cookie, sizeof(cookie), kept);
	return kept;
}

/* A socket that was connected before has the same cookie. */
static void hash(struct plain *plain, struct kept *kept)
{
	struct kept *before = find(plain, kept->conn.seen.cookie);
	if (!kept->conn.seen.cookie)
		return;
	if (before)
		unhash(plain, before);
	kept->hashed = true;
	HASH_ADD(hh, plain->by_cookie, conn.seen.cookie, sizeof(kept->conn.seen.cookie), kept);
}

static void keep(struct plain *plain, const struct rdv_plain *seen)
{
	struct kept *kept = calloc(1, sizeof(*kept));
	struct user *user = kept ? user_get(plain, seen->uid) : NULL;
	if (!user) {
		free(kept);
		return;
	}
	kept->conn = (struct plain_conn){ .number = ++plain->last_number, .seen = *seen };
	kept->user = user;
	DL_APPEND(plain->kept, kept);
	DL_APPEND2(user->kept, kept, user_prev, user_next);
	plain->num_kept++;
	user->num_kept++;
	hash(plain, kept);
	if (user->num_kept > PLAIN_OF_A_USER)
		forget(plain, user->kept);
	else if (plain->num_kept > PLAIN_KEPT)
		forget(plain, plain->kept);
}

/* ---- peers ---- */

/* The connections of the removed peer are counted in `others`. */
static void forget_peer(struct plain *plain, struct peer *peer)
{
	struct user *user = peer->user;
	plain->others += peer->known.connections;
	HASH_DELETE(hh, plain->by_key, peer);
	DL_DELETE(plain->peers, peer);
	DL_DELETE2(user->peers, peer, user_prev, user_next);
	plain->num_peers--;
	user->num_peers--;
	free(peer);
	user_put(plain, user);
}

static void append_peer(struct plain *plain, struct peer *peer)
{
	DL_APPEND(plain->peers, peer);
	DL_APPEND2(peer->user->peers, peer, user_prev, user_next);
}

static struct peer *new_peer(struct plain *plain, const struct peer_key *key, uid_t uid)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	struct user *user = peer ? user_get(plain, uid) : NULL;
	if (!user) {
		free(peer);
		return NULL;
	}
	peer->key = *key;
	peer->user = user;
	peer->known.addr.family = key->family;
	memcpy(peer->known.addr.ip, key->ip, sizeof(key->ip));
	HASH_ADD(hh, plain->by_key, key, sizeof(peer->key), peer);
	append_peer(plain, peer);
	plain->num_peers++;
	user->num_peers++;
	if (user->num_peers > PLAIN_PEERS_OF_USER)
		forget_peer(plain, user->peers);
	else if (plain->num_peers > PLAIN_PEERS)
		forget_peer(plain, plain->peers);
	return peer;
}

static void count(struct plain *plain, const struct smcr_addr *addr, uid_t uid, uint32_t reason,
		  uint32_t connections)
{
	struct peer *peer;
	struct peer_key key = { .family = (uint8_t)addr->family };
	if (!addr->family) {
		plain->others += connections;
		return;
	}
	memcpy(key.ip, addr->ip, sizeof(key.ip));
	HASH_FIND(hh, plain->by_key, &key, sizeof(key), peer);
	if (peer) { /* move it to the end: it was seen last */
		DL_DELETE(plain->peers, peer);
		DL_DELETE2(peer->user->peers, peer, user_prev, user_next);
		append_peer(plain, peer);
	} else {
		peer = new_peer(plain, &key, uid);
	}
	if (!peer) {
		plain->others += connections;
		return;
	}
	peer->known.connections += connections;
	peer->known.reason = reason;
}

void plain_count(struct plain *plain, const struct smcr_addr *addr, uid_t uid, uint32_t reason)
{
	if (plain)
		count(plain, addr, uid, reason, 1);
}

/* The connection that they came before may have no entry, or have lost it. */
static void add_unasked(struct plain *plain, const struct rdv_plain *seen)
{
	struct kept *kept = find(plain, seen->cookie);
	if (kept)
		kept->conn.unasked = seen->unasked;
	count(plain, &seen->peer, seen->uid, seen->reason, seen->unasked);
}

/* ---- */

void plain_free(struct plain *plain)
{
	if (!plain)
		return;
	while (plain->kept)
		forget(plain, plain->kept);
	while (plain->peers)
		forget_peer(plain, plain->peers);
	free(plain);
}

void plain_add(struct plain *plain, const struct rdv_plain *seen)
{
	if (!plain)
		return;
	if (seen->unasked) {
		add_unasked(plain, seen);
		return;
	}
	keep(plain, seen);
	plain_count(plain, &seen->peer, seen->uid, seen->reason);
}

static void on_seen(void *arg, const struct rdv_plain *seen)
{
	plain_add(arg, seen);
}

void plain_look(struct plain *plain)
{
	if (plain)
		rdv_tally_read(plain->tally, on_seen, plain);
}

void plain_forget(struct plain *plain, uint64_t cookie)
{
	if (!plain)
		return;
	plain_look(plain);
	struct kept *kept = find(plain, cookie);
	if (kept)
		forget(plain, kept);
}

/* ---- looking ---- */

void plain_walk(const struct plain *plain, uint64_t below,
		bool (*fn)(void *arg, const struct plain_conn *conn), void *arg)
{
	const struct kept *oldest = plain ? plain->kept : NULL;
	if (!oldest)
		return;
	for (const struct kept *kept = oldest->prev;; kept = kept->prev) {
		if ((!below || kept->conn.number < below) && !fn(arg, &kept->conn))
			return;
		if (kept == oldest)
			return;
	}
}

static int by_connections(const struct peer *a, const struct peer *b)
{
	if (a->known.connections != b->known.connections)
		return a->known.connections < b->known.connections ? 1 : -1;
	return 0;
}

static void add_untold(void *arg, const struct rdv_plain_count *count)
{
	*(uint64_t *)arg += count->untold;
}

size_t plain_peers(struct plain *plain, struct plain_peer *ret_peers, size_t max,
		   uint64_t *ret_others)
{
	size_t n = 0;
	*ret_others = 0;
	if (!plain)
		return 0;
	*ret_others = plain->others;
	rdv_tally_each_count(plain->tally, add_untold, ret_others);
	HASH_SRT(hh, plain->by_key, by_connections);
	for (const struct peer *peer = plain->by_key; peer; peer = peer->hh.next) {
		if (n < max)
			ret_peers[n++] = peer->known;
		else
			*ret_others += peer->known.connections;
	}
	return n;
}

void plain_each_count(const struct plain *plain,
		      void (*fn)(void *arg, const struct rdv_plain_count *count), void *arg)
{
	if (plain)
		rdv_tally_each_count(plain->tally, fn, arg);
}
