/* SPDX-License-Identifier: MIT */
#include "daemon/policy/failures.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/policy/place_key.h"

#define MAX_ENTRIES   4096
#define RESET_SECONDS 2 /* short, as a restarted daemon causes resets */
#define LONGEST       3600
#define ECHO_SECONDS  3600
#define ECHO_LONGEST  86400
#define ECHO_PORTS    3
#define REMEMBER_MS   3600000ull

struct entry {
	struct failure failure;
	struct place_key key;
	UT_hash_handle hh; /* oldest first */
};

/* An address that SMC-R has worked with, so it does not only send the option back. */
struct good_peer {
	struct place_key key; /* port 0 */
	uint64_t worked_ms;
	UT_hash_handle hh; /* ordered: longest ago first */
};

struct failures {
	uint32_t first_seconds;
	uint64_t last_order;
	struct entry *entries;
	struct good_peer *good;
};

static struct place_key key_of(const struct smcr_addr *peer, uint16_t port)
{
	struct place_key key = place_key_of(peer);
	key.port = port;
	return key;
}

struct failures *failures_new(uint32_t first_seconds)
{
	struct failures *failures = calloc(1, sizeof(*failures));
	if (failures)
		failures->first_seconds = first_seconds;
	return failures;
}

void failures_set_first(struct failures *failures, uint32_t first_seconds)
{
	failures->first_seconds = first_seconds;
}

static void remove_entry(struct failures *failures, struct entry *entry)
{
	HASH_DELETE(hh, failures->entries, entry);
	free(entry);
}

static void remove_good(struct failures *failures, struct good_peer *good)
{
	HASH_DELETE(hh, failures->good, good);
	free(good);
}

void failures_free(struct failures *failures)
{
	if (!failures)
		return;
	while (failures->entries)
		remove_entry(failures, failures->entries);
	while (failures->good)
		remove_good(failures, failures->good);
	free(failures);
}

/* ---- what is remembered ---- */

static void forget_old(struct failures *failures, uint64_t now_ms)
{
	struct entry *entry, *next;
	for (entry = failures->entries; entry; entry = next) {
		next = entry->hh.next;
		if (now_ms >= entry->failure.until_ms + REMEMBER_MS)
			remove_entry(failures, entry);
	}
	while (failures->good && now_ms >= failures->good->worked_ms + REMEMBER_MS)
		remove_good(failures, failures->good);
}

static struct entry *find(const struct failures *failures, const struct place_key *key)
{
	struct entry *entry;
	HASH_FIND(hh, failures->entries, key, sizeof(*key), entry);
	return entry;
}

/* Make room for a further port of an address by removing its oldest one. */
static void make_room_at(struct failures *failures, const struct place_key *key)
{
	struct entry *entry, *first = NULL;
	unsigned int ports = 0;
	for (entry = failures->entries; entry; entry = entry->hh.next) {
		if (!entry->key.port || !place_key_same_address(&entry->key, key))
			continue;
		first = first ? first : entry;
		ports++;
	}
	if (ports >= place_key_most(key))
		remove_entry(failures, first);
}

static struct entry *make(struct failures *failures, const struct smcr_addr *peer,
			  const struct place_key *key)
{
	if (key->port)
		make_room_at(failures, key);
	if (HASH_COUNT(failures->entries) >= MAX_ENTRIES)
		remove_entry(failures, failures->entries);
	struct entry *entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = *key;
	entry->failure.peer = *peer;
	entry->failure.peer.port = key->port;
	entry->failure.order = ++failures->last_order;
	HASH_ADD(hh, failures->entries, key, sizeof(entry->key), entry);
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
static struct entry *note(struct failures *failures, const struct smcr_addr *peer, uint16_t port,
			  enum failure_kind kind, uint64_t now_ms)
{
	const struct place_key key = key_of(peer, port);
	struct entry *entry = find(failures, &key);
	if (!entry)
		entry = make(failures, peer, &key);
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

static bool only_echoes(const struct failures *failures, const struct smcr_addr *peer)
{
	const struct place_key key = key_of(peer, 0);
	const struct entry *whole = find(failures, &key);
	struct good_peer *good;
	unsigned int ports = 0;
	if (whole && whole->failure.kind == FAILURE_ECHO)
		return true; /* it was tried again, and failed */
	HASH_FIND(hh, failures->good, &key, sizeof(key), good);
	for (const struct entry *entry = failures->entries; entry; entry = entry->hh.next)
		if (place_key_same_address(&entry->key, &key) && speaks_no_smc(&entry->failure))
			ports++;
	return !good && ports >= ECHO_PORTS;
}

const struct failure *failures_note(struct failures *failures, const struct smcr_addr *peer,
				    enum failure_kind kind, uint64_t now_ms)
{
	forget_old(failures, now_ms);
	struct entry *entry =
		note(failures, peer, kind == FAILURE_PATH ? 0 : peer->port, kind, now_ms);
	if (entry && kind != FAILURE_PATH && only_echoes(failures, peer))
		entry = note(failures, peer, 0, FAILURE_ECHO, now_ms);
	return entry ? &entry->failure : NULL;
}

/* ---- it works ---- */

static size_t forget(struct failures *failures, struct entry *entry,
		     void (*forgotten)(void *arg, const struct failure *failure), void *arg)
{
	if (!entry)
		return 0;
	if (forgotten)
		forgotten(arg, &entry->failure);
	remove_entry(failures, entry);
	return 1;
}

static void remember_good(struct failures *failures, const struct place_key *key, uint64_t now_ms)
{
	struct good_peer *good;
	HASH_FIND(hh, failures->good, key, sizeof(*key), good);
	if (good)
		HASH_DELETE(hh, failures->good, good); /* to the end of the list */
	else if (HASH_COUNT(failures->good) >= MAX_ENTRIES)
		remove_good(failures, failures->good);
	if (!good)
		good = calloc(1, sizeof(*good));
	if (!good)
		return;
	good->key = *key;
	good->worked_ms = now_ms;
	HASH_ADD(hh, failures->good, key, sizeof(good->key), good);
}

void failures_worked(struct failures *failures, const struct smcr_addr *peer, uint64_t now_ms,
		     void (*forgotten)(void *arg, const struct failure *failure), void *arg)
{
	const struct place_key whole = key_of(peer, 0), port = key_of(peer, peer->port);
	remember_good(failures, &whole, now_ms);
	forget(failures, find(failures, &whole), forgotten, arg);
	forget(failures, find(failures, &port), forgotten, arg);
}

size_t failures_forget(struct failures *failures, const struct smcr_addr *peer, uint16_t port,
		       void (*forgotten)(void *arg, const struct failure *failure), void *arg)
{
	const struct place_key key = key_of(peer, port);
	struct entry *entry, *next;
	size_t n = 0;
	for (entry = failures->entries; entry; entry = next) {
		next = entry->hh.next;
		if (place_key_same_address(&entry->key, &key) && (!port || entry->key.port == port))
			n += forget(failures, entry, forgotten, arg);
	}
	return n;
}

/* ---- views ---- */

bool failures_walk(struct failures *failures, uint64_t now_ms, uint64_t after,
		   bool (*fn)(void *arg, const struct failure *failure), void *arg)
{
	forget_old(failures, now_ms);
	for (const struct entry *entry = failures->entries; entry; entry = entry->hh.next)
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

const struct failure *failures_find(const struct failures *failures, const struct smcr_addr *peer,
				    uint64_t now_ms)
{
	const uint16_t ports[] = { 0, peer->port };
	const struct failure *found = NULL;
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		const struct place_key key = key_of(peer, ports[i]);
		const struct entry *entry = find(failures, &key);
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
	case FAILURE_ANSWER: return "the peer's answer to the rendezvous was none of an SMC-R peer";
	case FAILURE_RESET: return "the peer reset the connection during the rendezvous";
	case FAILURE_ECHO:
		return "the peer, or something on the way to it, sends TCP option 254 back and "
		       "does not speak SMC-R";
	}
	return "";
}
