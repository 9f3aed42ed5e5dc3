/* SPDX-License-Identifier: MIT */
#include "daemon/policy/failures.h"

#include <stddef.h>
#include <stdlib.h>

#include "daemon/policy/kept.h"

#define RESET_SECONDS 2 /* short, as a restarted daemon causes resets */
#define LONGEST       3600
#define ECHO_SECONDS  3600
#define ECHO_LONGEST  86400
#define ECHO_PORTS    3
#define REMEMBER_MS   3600000ull

struct entry {
	struct kept kept; /* oldest first */
	struct failure failure;
};

struct failures {
	uint32_t first_seconds;
	uint64_t last_order;
	void (*forgotten)(void *arg, const struct failure *failure);
	void *arg;
	struct kept *failed;
	/* Addresses (port 0) that SMC-R has worked with, so they do not only send the option back.
	 * until_ms: when it worked; ordered: longest ago first. */
	struct kept *good;
};

_Static_assert(offsetof(struct entry, kept) == 0, "entry_of()");

/* @param kept  NULL: NULL */
static struct entry *entry_of(struct kept *kept)
{
	return (struct entry *)kept;
}

static struct entry *next_of(const struct entry *entry)
{
	return entry_of(entry->kept.hh.next);
}

static struct kept_key key_of(uid_t uid, const struct smcr_addr *peer, uint16_t port)
{
	struct kept_key key = { .place = place_key_of(peer), .uid = uid };
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
static void forget(struct failures *failures, struct kept **table, struct entry *entry)
{
	if (table == &failures->failed && failures->forgotten)
		failures->forgotten(failures->arg, &entry->failure);
	kept_remove(table, &entry->kept);
	free(entry);
}

void failures_free(struct failures *failures)
{
	if (!failures)
		return;
	failures->forgotten = NULL;
	while (failures->failed)
		forget(failures, &failures->failed, entry_of(failures->failed));
	while (failures->good)
		forget(failures, &failures->good, entry_of(failures->good));
	free(failures);
}

/* ---- what is remembered ---- */

static void forget_old(struct failures *failures, struct kept **table, uint64_t now_ms)
{
	struct entry *entry, *next;
	for (entry = entry_of(*table); entry; entry = next) {
		next = next_of(entry);
		if (now_ms >= entry->failure.until_ms + REMEMBER_MS)
			forget(failures, table, entry);
	}
}

static struct entry *find(struct kept *table, const struct kept_key *key)
{
	return entry_of(kept_find(table, key));
}

/* Make an entry. Another one is forgotten if there are as many as there may be. */
static struct entry *make(struct failures *failures, struct kept **table,
			  const struct kept_key *key)
{
	struct kept *in_the_way = kept_in_the_way(*table, key, NULL);
	if (in_the_way)
		forget(failures, table, entry_of(in_the_way));
	struct entry *entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->kept.key = *key;
	kept_add(table, &entry->kept);
	return entry;
}

static struct entry *make_failed(struct failures *failures, const struct smcr_addr *peer,
				 const struct kept_key *key)
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
	const struct kept_key key = key_of(uid, peer, port);
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
	const struct kept_key key = key_of(uid, peer, 0);
	const struct entry *whole = find(failures->failed, &key);
	unsigned int ports = 0;
	if (whole && whole->failure.kind == FAILURE_ECHO)
		return true; /* it was tried again, and failed */
	for (const struct entry *entry = entry_of(failures->failed); entry; entry = next_of(entry))
		if (entry->kept.key.uid == uid &&
		    place_key_same_address(&entry->kept.key.place, &key.place) &&
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

static void remember_good(struct failures *failures, const struct kept_key *key, uint64_t now_ms)
{
	struct entry *good = find(failures->good, key);
	if (good)
		kept_use(&failures->good, &good->kept);
	else
		good = make(failures, &failures->good, key);
	if (good)
		good->failure.until_ms = now_ms;
}

static void forget_key(struct failures *failures, const struct kept_key *key)
{
	struct entry *entry = find(failures->failed, key);
	if (entry)
		forget(failures, &failures->failed, entry);
}

void failures_worked(struct failures *failures, uid_t uid, const struct smcr_addr *peer,
		     uint64_t now_ms)
{
	const struct kept_key whole = key_of(uid, peer, 0), port = key_of(uid, peer, peer->port);
	remember_good(failures, &whole, now_ms);
	forget_key(failures, &whole);
	forget_key(failures, &port);
}

size_t failures_forget(struct failures *failures, const struct smcr_addr *peer, uint16_t port)
{
	const struct place_key key = place_key_of(peer);
	struct entry *entry, *next;
	size_t n = 0;
	for (entry = entry_of(failures->failed); entry; entry = next) {
		next = next_of(entry);
		if (!place_key_same_address(&entry->kept.key.place, &key) ||
		    (port && entry->kept.key.place.port != port))
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
	for (const struct entry *entry = entry_of(failures->failed); entry; entry = next_of(entry))
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
		const struct kept_key key = key_of(uid, peer, ports[i]);
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
