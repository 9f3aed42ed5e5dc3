/* SPDX-License-Identifier: MIT */
#include "daemon/policy/failures.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/policy/place_key.h"

#define MAX_ENTRIES   4096 /* the BPF programs have room for as many */
#define RESET_SECONDS 2    /* short, as a restarted daemon causes resets */
#define LONGEST       3600
#define ECHO_SECONDS  3600
#define ECHO_LONGEST  86400
#define ECHO_PORTS    3
#define REMEMBER_MS   3600000ull

/* All its bytes are set. */
struct key {
	struct place_key place;
	uint32_t uid;
};

_Static_assert(sizeof(struct key) == sizeof(struct place_key) + sizeof(uint32_t), "padding");

struct entry {
	struct failure failure;
	struct key key;
	UT_hash_handle hh; /* oldest first */
};

struct failures {
	uint32_t first_seconds;
	uint64_t last_order;
	void (*forgotten)(void *arg, const struct failure *failure);
	void *arg;
	struct entry *failed;
	/* Addresses (port 0) that SMC-R has worked with, so they do not only send the option back.
	 * until_ms: when it worked; ordered: longest ago first. */
	struct entry *good;
};

static struct key key_of(uid_t uid, const struct smcr_addr *peer, uint16_t port)
{
	struct key key = { .place = place_key_of(peer), .uid = uid };
	key.place.port = port;
	return key;
}

struct failures *failures_new(uint32_t first_seconds,
			      void (*forgotten)(void *arg, const struct failure *failure),
			      void *arg)
{
	struct failures *failures = calloc(1, sizeof(*failures));
	if (!failures)
		return NULL;
	failures->first_seconds = first_seconds;
	failures->forgotten = forgotten;
	failures->arg = arg;
	return failures;
}

void failures_set_first(struct failures *failures, uint32_t first_seconds)
{
	failures->first_seconds = first_seconds;
}

/** @param table &failures->failed or &failures->good */
static void forget(struct failures *failures, struct entry **table, struct entry *entry)
{
	if (table == &failures->failed && failures->forgotten)
		failures->forgotten(failures->arg, &entry->failure);
	HASH_DELETE(hh, *table, entry);
	free(entry);
}

void failures_free(struct failures *failures)
{
	if (!failures)
		return;
	failures->forgotten = NULL;
	while (failures->failed)
		forget(failures, &failures->failed, failures->failed);
	while (failures->good)
		forget(failures, &failures->good, failures->good);
	free(failures);
}

/* ---- what is remembered ---- */

static void forget_old(struct failures *failures, struct entry **table, uint64_t now_ms)
{
	struct entry *entry, *next;
	for (entry = *table; entry; entry = next) {
		next = entry->hh.next;
		if (now_ms >= entry->failure.until_ms + REMEMBER_MS)
			forget(failures, table, entry);
	}
}

static struct entry *find(struct entry *table, const struct key *key)
{
	struct entry *entry;
	HASH_FIND(hh, table, key, sizeof(*key), entry);
	return entry;
}

/* How many entries a user may have: of one address, of one network (hosts of a LAN may share an
 * IPv6 /64), and of all. */
enum scope {
	OF_ADDRESS,
	OF_NETWORK,
	OF_USER,
	SCOPES,
};
static const unsigned int most[SCOPES] = { PLACES_OF_PEER, MAX_ENTRIES / 16, MAX_ENTRIES / 4 };

static bool is_alike(const struct key *a, const struct key *b, enum scope scope)
{
	if (a->uid != b->uid || scope == OF_USER)
		return a->uid == b->uid;
	/* Ports do not displace whole peers, which weigh more. */
	if (!a->place.port != !b->place.port)
		return false;
	return scope == OF_NETWORK ? place_key_same_network(&a->place, &b->place)
				   : place_key_same_address(&a->place, &b->place);
}

static int compare_uids(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;
	return (*left > *right) - (*left < *right);
}

/* @return the user with the most entries; `adding` if no other user has more */
static uint32_t largest_user(const struct entry *table, uint32_t adding)
{
	static uint32_t uids[MAX_ENTRIES];
	uint32_t largest = adding;
	size_t n = 0, run = 0, longest = 0;
	for (const struct entry *entry = table; entry && n < MAX_ENTRIES; entry = entry->hh.next)
		uids[n++] = entry->key.uid;
	qsort(uids, n, sizeof(uids[0]), compare_uids);
	for (size_t i = 0; i < n; i++) {
		run = i > 0 && uids[i] == uids[i - 1] ? run + 1 : 1;
		if (run > longest || (run == longest && uids[i] == adding)) {
			longest = run;
			largest = uids[i];
		}
	}
	return largest;
}

/* The table is full: who has the most entries loses the oldest of them. So users who have many
 * displace nobody who has few. */
static void forget_of_largest_user(struct failures *failures, struct entry **table, uint32_t adding)
{
	const uint32_t uid = largest_user(*table, adding);
	for (struct entry *entry = *table; entry; entry = entry->hh.next) {
		if (entry->key.uid == uid) {
			forget(failures, table, entry);
			return;
		}
	}
}

/* Make room for a further entry by forgetting the oldest one if there are as many as there may be.
 * Each scope lies within the next one, so room in the narrowest full one is room in all. */
static void make_room(struct failures *failures, struct entry **table, const struct key *key)
{
	struct entry *first[SCOPES] = { NULL };
	unsigned int n[SCOPES] = { 0 };
	for (struct entry *entry = *table; entry; entry = entry->hh.next)
		for (enum scope scope = OF_ADDRESS; scope < SCOPES; scope++)
			if (is_alike(&entry->key, key, scope) && n[scope]++ == 0)
				first[scope] = entry;
	for (enum scope scope = OF_ADDRESS; scope < SCOPES; scope++) {
		if (n[scope] >= most[scope]) {
			forget(failures, table, first[scope]);
			return;
		}
	}
	if (HASH_COUNT(*table) >= MAX_ENTRIES)
		forget_of_largest_user(failures, table, key->uid);
}

static struct entry *make(struct failures *failures, struct entry **table, const struct key *key)
{
	make_room(failures, table, key);
	struct entry *entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = *key;
	HASH_ADD(hh, *table, key, sizeof(entry->key), entry);
	return entry;
}

static struct entry *make_failed(struct failures *failures, const struct smcr_addr *peer,
				 const struct key *key)
{
	struct entry *entry = make(failures, &failures->failed, key);
	if (!entry)
		return NULL;
	entry->failure.uid = key->uid;
	entry->failure.peer = *peer;
	entry->failure.peer.port = key->place.port;
	entry->failure.order = ++failures->last_order;
	return entry;
}

static uint32_t first_of(const struct failures *failures, enum failure_kind kind)
{
	switch (kind) {
	case FAILURE_PATH:
	case FAILURE_LINK:
	case FAILURE_ANSWER: break;
	case FAILURE_RESET: return RESET_SECONDS;
	case FAILURE_ECHO: return ECHO_SECONDS;
	}
	return failures->first_seconds;
}

static uint32_t longest_of(const struct failures *failures, enum failure_kind kind)
{
	uint32_t longest = kind == FAILURE_ECHO ? ECHO_LONGEST : LONGEST;
	return longest > failures->first_seconds ? longest : failures->first_seconds;
}

/* Connections that were under way at the same time fail together. So the time gets longer only if a
 * connection fails that was begun after the last time was over. */
static struct entry *note(struct failures *failures, uid_t uid, const struct smcr_addr *peer,
			  uint16_t port, enum failure_kind kind, uint64_t now_ms)
{
	const struct key key = key_of(uid, peer, port);
	struct entry *entry = find(failures->failed, &key);
	if (!entry)
		entry = make_failed(failures, peer, &key);
	if (!entry)
		return NULL;
	struct failure *failure = &entry->failure;
	uint32_t longest = longest_of(failures, kind), first = first_of(failures, kind);
	bool again = now_ms >= failure->until_ms;
	failure->times++;
	failure->kind = kind;
	if (again) {
		failure->attempts++;
		failure->seconds *= 2;
	}
	if (failure->seconds < first)
		failure->seconds = first;
	if (failure->seconds > longest)
		failure->seconds = longest;
	if (again || failure->until_ms < now_ms + first * 1000ull)
		failure->until_ms = now_ms + failure->seconds * 1000ull;
	return entry;
}

/* ---- the option comes back ---- */

/* A single reset may come from a daemon that was restarted, but not a second one after a while. */
static bool speaks_no_smc(const struct failure *failure)
{
	return failure->peer.port != 0 &&
	       (failure->kind == FAILURE_ANSWER ||
		(failure->kind == FAILURE_RESET && failure->attempts > 1));
}

static bool only_echoes(const struct failures *failures, uid_t uid, const struct smcr_addr *peer)
{
	const struct key key = key_of(uid, peer, 0);
	const struct entry *whole = find(failures->failed, &key);
	unsigned int ports = 0;
	if (whole && whole->failure.kind == FAILURE_ECHO)
		return true; /* it was tried again, and failed */
	for (const struct entry *entry = failures->failed; entry; entry = entry->hh.next)
		if (entry->key.uid == uid &&
		    place_key_same_address(&entry->key.place, &key.place) &&
		    speaks_no_smc(&entry->failure))
			ports++;
	return !find(failures->good, &key) && ports >= ECHO_PORTS;
}

const struct failure *failures_note(struct failures *failures, uid_t uid,
				    const struct smcr_addr *peer, enum failure_kind kind,
				    uint64_t now_ms)
{
	forget_old(failures, &failures->failed, now_ms);
	forget_old(failures, &failures->good, now_ms);
	struct entry *entry =
		note(failures, uid, peer, kind == FAILURE_PATH ? 0 : peer->port, kind, now_ms);
	if (entry && kind != FAILURE_PATH && only_echoes(failures, uid, peer))
		entry = note(failures, uid, peer, 0, FAILURE_ECHO, now_ms);
	return entry ? &entry->failure : NULL;
}

/* ---- it works ---- */

static void remember_good(struct failures *failures, const struct key *key, uint64_t now_ms)
{
	struct entry *good = find(failures->good, key);
	if (good) { /* to the end of the list */
		HASH_DELETE(hh, failures->good, good);
		HASH_ADD(hh, failures->good, key, sizeof(good->key), good);
	} else {
		good = make(failures, &failures->good, key);
	}
	if (good)
		good->failure.until_ms = now_ms;
}

static void forget_key(struct failures *failures, const struct key *key)
{
	struct entry *entry = find(failures->failed, key);
	if (entry)
		forget(failures, &failures->failed, entry);
}

void failures_worked(struct failures *failures, uid_t uid, const struct smcr_addr *peer,
		     uint64_t now_ms)
{
	const struct key whole = key_of(uid, peer, 0), port = key_of(uid, peer, peer->port);
	remember_good(failures, &whole, now_ms);
	forget_key(failures, &whole);
	forget_key(failures, &port);
}

size_t failures_forget(struct failures *failures, const struct smcr_addr *peer, uint16_t port)
{
	const struct place_key key = place_key_of(peer);
	struct entry *entry, *next;
	size_t n = 0;
	for (entry = failures->failed; entry; entry = next) {
		next = entry->hh.next;
		if (!place_key_same_address(&entry->key.place, &key) ||
		    (port && entry->key.place.port != port))
			continue;
		forget(failures, &failures->failed, entry);
		n++;
	}
	return n;
}

/* ---- views ---- */

bool failures_walk(struct failures *failures, uint64_t now_ms, uint64_t after,
		   bool (*fn)(void *arg, const struct failure *failure), void *arg)
{
	forget_old(failures, &failures->failed, now_ms);
	for (const struct entry *entry = failures->failed; entry; entry = entry->hh.next)
		if (entry->failure.order > after && !fn(arg, &entry->failure))
			return false;
	return true;
}

const char *failure_name(enum failure_kind kind)
{
	switch (kind) {
	case FAILURE_PATH: return "path";
	case FAILURE_LINK: return "link";
	case FAILURE_ANSWER: return "answer";
	case FAILURE_RESET: return "reset";
	case FAILURE_ECHO: return "echo";
	}
	return "unknown";
}

const struct failure *failures_find(const struct failures *failures, uid_t uid,
				    const struct smcr_addr *peer, uint64_t now_ms)
{
	const uint16_t ports[] = { 0, peer->port };
	const struct failure *found = NULL;
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		const struct key key = key_of(uid, peer, ports[i]);
		const struct entry *entry = find(failures->failed, &key);
		if (entry && entry->failure.until_ms > now_ms &&
		    (!found || entry->failure.until_ms > found->until_ms))
			found = &entry->failure;
	}
	return found;
}

const char *failure_text(enum failure_kind kind)
{
	switch (kind) {
	case FAILURE_PATH:
		return "RoCE to this peer did not work: the first message on the link was not "
		       "acknowledged";
	case FAILURE_LINK:
		return "the first message over RoCE to this server was not acknowledged, although "
		       "other links with its host work";
	case FAILURE_ANSWER: return "no answer of an SMC-R peer to the rendezvous came";
	case FAILURE_RESET: return "the peer reset the connection during the rendezvous";
	case FAILURE_ECHO:
		return "the peer, or something on the way to it, sends TCP option 254 back and "
		       "does not speak SMC-R";
	}
	return "";
}
