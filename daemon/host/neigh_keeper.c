/* SPDX-License-Identifier: MIT */
#include "daemon/host/neigh_keeper.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <utlist.h>

#include "daemon/host/arp.h"
#include "daemon/host/neigh.h"

/* Time before the first repetition of a question; it doubles each time. The tries last for 51 s
 * together, since the port of a switch may need 30 s before it forwards. */
#define AGAIN_MS 50
#define TRIES    10
/* The same for a zero MAC, for which the kernel asks: no event tells of its answer, so look
 * often. */
#define AGAIN_ANY_MS 2
/* So many tries fall into the first second. */
#define DOUBT_TRIES 4

/* States in which the kernel has a MAC to send to. */
#define VALID_STATES  (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)
#define STATIC_STATES (NUD_PERMANENT | NUD_NOARP) /* an operator's entry, or one without ARP */

struct wanted {
	struct neigh_key key;
	uint8_t mac[6];
	unsigned int tries;   /* tries that have failed */
	int64_t due;          /* when the next try is due; INT64_MAX: none */
	bool answered;        /* the host with `mac` has answered */
	bool holder_answered; /* so has the host whose MAC the keeper has written */
	bool may_resolve;     /* the kernel's entry is known, and is not permanent */
	enum neigh_way way;   /* what the kernel has */
	struct wanted *next, *prev;
};

struct written {
	struct neigh_key key;
	uint8_t mac[6];
	struct written *next, *prev;
};

struct neigh_keeper {
	struct nl_sock *nl;
	struct arp arp; /* open while answers are waited for */
	struct wanted *wanted;
	struct written *written; /* entries that the keeper has written and not deleted */
	void (*doubt)(void *ctx, const struct neigh_doubt *doubt);
	void *ctx;
};

int64_t neigh_keeper_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool same_key(const struct neigh_key *a, const struct neigh_key *b)
{
	return a->ifindex == b->ifindex && a->family == b->family &&
	       !memcmp(a->addr, b->addr, sizeof(a->addr));
}

static bool same_mac(const uint8_t a[6], const uint8_t b[6])
{
	return !memcmp(a, b, 6);
}

static bool is_any(const uint8_t mac[6])
{
	static const uint8_t none[6];
	return same_mac(mac, none);
}

static struct wanted *find_wanted(const struct neigh_keeper *keeper, const struct neigh_key *key,
				  const uint8_t mac[6])
{
	struct wanted *wanted;
	DL_FOREACH (keeper->wanted, wanted) {
		if (same_key(&wanted->key, key) && same_mac(wanted->mac, mac))
			return wanted;
	}
	return NULL;
}

static struct written *find_written(const struct neigh_keeper *keeper, const struct neigh_key *key)
{
	struct written *written;
	DL_FOREACH (keeper->written, written) {
		if (same_key(&written->key, key))
			return written;
	}
	return NULL;
}

/* ---- the kernel's entries */

/* Is the entry as the keeper wrote it? If an operator changes the MAC of such an entry, the kernel
 * keeps its protocol number, so the MAC is compared too. */
static bool is_ours(const struct neigh_entry *found, const struct written *written)
{
	return written && found->state & NUD_PERMANENT && found->protocol == NEIGH_PROTOCOL &&
	       found->has_mac && same_mac(found->mac, written->mac);
}

/* Note an entry before it is written, so that no entry is ever without a note. */
static struct written *note_written(struct neigh_keeper *keeper, const struct wanted *wanted)
{
	struct written *written = find_written(keeper, &wanted->key);
	if (!written) {
		written = calloc(1, sizeof(*written));
		if (!written)
			return NULL;
		written->key = wanted->key;
		DL_APPEND(keeper->written, written);
	}
	memcpy(written->mac, wanted->mac, sizeof(written->mac));
	return written;
}

/* @return false: it cannot be written now, or another process has written one */
static bool write_entry(struct neigh_keeper *keeper, const struct wanted *wanted, bool replace)
{
	const struct written *known = find_written(keeper, &wanted->key);
	const struct written before = known ? *known : (struct written){ 0 };
	struct neigh_entry now;
	struct written *written = note_written(keeper, wanted);
	if (!written)
		return false;
	if (neigh_entry_write(keeper->nl, &wanted->key, wanted->mac, NEIGH_PROTOCOL, replace) == 0)
		return true;
	/* Perhaps it was written and only the answer was lost. */
	if (neigh_entry_read(keeper->nl, &wanted->key, &now) == 0 && is_ours(&now, written))
		return true;
	/* Otherwise the entry that was written before is still there. */
	if (known)
		memcpy(written->mac, before.mac, sizeof(written->mac));
	return false;
}

/* An operator's entry that was put over the keeper's has NEIGH_PROTOCOL, so the next daemon would
 * delete it as a left one. Give it the protocol number of operators' entries. */
static void hand_over(struct neigh_keeper *keeper, const struct neigh_key *key,
		      const struct neigh_entry *found)
{
	if (found->state & NUD_PERMANENT && found->protocol == NEIGH_PROTOCOL && found->has_mac)
		neigh_entry_write(keeper->nl, key, found->mac, RTPROT_STATIC, true);
}

static void withdraw(struct neigh_keeper *keeper, struct written *written)
{
	struct neigh_entry found;
	if (neigh_entry_read(keeper->nl, &written->key, &found) == 0) {
		if (is_ours(&found, written))
			neigh_entry_delete(keeper->nl, &written->key);
		else
			hand_over(keeper, &written->key, &found);
	}
	DL_DELETE(keeper->written, written);
	free(written);
}

/* ---- asking */

static void ask_mac(struct neigh_keeper *keeper, const struct neigh_key *key, const uint8_t mac[6])
{
	if (keeper->arp.fd >= 0 || arp_open(&keeper->arp) == 0)
		arp_ask(&keeper->arp, key->ifindex, key->addr, mac);
}

/* Ask for a wanted entry once more. The kernel asks by broadcast if it has no MAC: then at least
 * some host that answers can be reached. For IPv6 only the kernel asks, also whether the MAC that
 * it has still holds. The kernel must not ask while an entry is permanent: it would turn it into
 * one of its own, which ends when nobody answers. */
static void ask(struct neigh_keeper *keeper, const struct wanted *wanted)
{
	const struct written *written = find_written(keeper, &wanted->key);
	if (wanted->may_resolve && (wanted->way == NEIGH_NONE || wanted->key.family != AF_INET))
		neigh_entry_resolve(keeper->nl, &wanted->key);
	if (wanted->key.family != AF_INET || is_any(wanted->mac))
		return;
	ask_mac(keeper, &wanted->key, wanted->mac);
	if (written && !same_mac(written->mac, wanted->mac))
		ask_mac(keeper, &wanted->key, written->mac);
}

static void tell_doubt(struct neigh_keeper *keeper, const struct wanted *wanted,
		       const struct neigh_entry *found)
{
	struct neigh_doubt doubt = { .key = wanted->key,
				     .other_known = found->has_mac && found->state & VALID_STATES };
	memcpy(doubt.mac, wanted->mac, sizeof(doubt.mac));
	memcpy(doubt.other, found->mac, sizeof(doubt.other));
	if (!is_any(doubt.mac) && (!doubt.other_known || !same_mac(doubt.other, doubt.mac)))
		keeper->doubt(keeper->ctx, &doubt);
}

/* ---- looking */

/* Has the host of the present entry had time to answer, and has not answered? */
static bool holder_is_silent(const struct wanted *wanted)
{
	return !wanted->holder_answered && wanted->tries > 1;
}

/* Is another MAC for this address wanted for longer, and may still be answered? */
static bool is_behind(const struct neigh_keeper *keeper, const struct wanted *wanted)
{
	const struct wanted *other;
	DL_FOREACH (keeper->wanted, other) {
		if (other == wanted)
			break;
		if (same_key(&other->key, &wanted->key) && other->due != INT64_MAX &&
		    other->tries < 2)
			return true;
	}
	return false;
}

static bool may_write(const struct neigh_keeper *keeper, const struct wanted *wanted,
		      const struct neigh_entry *found, const struct written *holder)
{
	if (holder)
		return wanted->answered && holder_is_silent(wanted);
	return (wanted->answered || (found->state & NUD_REACHABLE && found->has_mac &&
				     same_mac(found->mac, wanted->mac))) &&
	       !is_behind(keeper, wanted);
}

static enum neigh_way way_of(const struct wanted *wanted, const struct neigh_entry *found)
{
	if (!(found->state & VALID_STATES) || !found->has_mac)
		return NEIGH_NONE;
	return is_any(wanted->mac) || same_mac(found->mac, wanted->mac) ? NEIGH_RIGHT : NEIGH_OTHER;
}

/* Decide, by what the kernel and the neighbours say now, whether the entry can be written, and
 * write it. Writing fails while the interface is down; neigh_restore() asks again when it is up.
 * @return true: nothing is left to do */
static bool judge(struct neigh_keeper *keeper, struct wanted *wanted, struct neigh_entry *ret_found)
{
	wanted->way = NEIGH_NONE;
	wanted->may_resolve = false;
	if (neigh_entry_read(keeper->nl, &wanted->key, ret_found) < 0)
		return false;
	if (is_any(wanted->mac)) {
		wanted->way = way_of(wanted, ret_found);
		wanted->may_resolve = wanted->way == NEIGH_NONE;
		return wanted->way == NEIGH_RIGHT;
	}
	const struct written *written = find_written(keeper, &wanted->key);
	const bool ours = is_ours(ret_found, written);
	const struct written *holder =
		ours && !same_mac(written->mac, wanted->mac) ? written : NULL;
	wanted->way = way_of(wanted, ret_found);
	if (holder && wanted->holder_answered)
		tell_doubt(keeper, wanted, ret_found);
	if (ret_found->state & STATIC_STATES && (!holder || wanted->holder_answered)) {
		wanted->way = NEIGH_RIGHT;
		return true;
	}
	if (!may_write(keeper, wanted, ret_found, holder)) {
		wanted->may_resolve = !(ret_found->state & STATIC_STATES);
		return false;
	}
	if (!write_entry(keeper, wanted, ret_found->state != 0))
		return false; /* perhaps an operator has written one */
	wanted->way = NEIGH_RIGHT;
	return true;
}

static void look(struct neigh_keeper *keeper, struct wanted *wanted)
{
	struct neigh_entry found;
	if (judge(keeper, wanted, &found)) {
		wanted->due = INT64_MAX;
		return;
	}
	ask(keeper, wanted);
	if (wanted->tries == DOUBT_TRIES)
		tell_doubt(keeper, wanted, &found);
	const int64_t again = is_any(wanted->mac) ? AGAIN_ANY_MS : AGAIN_MS;
	wanted->due = neigh_keeper_now() + (again << wanted->tries);
	if (++wanted->tries == TRIES)
		wanted->due = INT64_MAX;
}

static void begin(struct neigh_keeper *keeper, struct wanted *wanted)
{
	wanted->tries = 0;
	wanted->answered = wanted->holder_answered = false;
	look(keeper, wanted);
}

/* ---- answers */

static bool is_about(const struct wanted *wanted, const struct arp_answer *answer)
{
	return wanted->due != INT64_MAX && wanted->key.family == AF_INET &&
	       wanted->key.ifindex == answer->ifindex &&
	       !memcmp(wanted->key.addr, answer->addr, sizeof(answer->addr));
}

static void hear_one(struct neigh_keeper *keeper, const struct arp_answer *answer)
{
	struct neigh_entry found;
	struct wanted *wanted;
	DL_FOREACH (keeper->wanted, wanted) {
		if (!is_about(wanted, answer))
			continue;
		const struct written *written = find_written(keeper, &wanted->key);
		if (same_mac(wanted->mac, answer->mac))
			wanted->answered = true;
		else if (written && same_mac(written->mac, answer->mac))
			wanted->holder_answered = true;
		else
			continue;
		if (judge(keeper, wanted, &found))
			wanted->due = INT64_MAX;
	}
}

static void hear(struct neigh_keeper *keeper)
{
	struct arp_answer answer;
	while (keeper->arp.fd >= 0 && arp_next(&keeper->arp, &answer))
		hear_one(keeper, &answer);
}

/* ---- the outside */

int neigh_keeper_new(void (*doubt)(void *ctx, const struct neigh_doubt *doubt), void *ctx,
		     struct neigh_keeper **ret_keeper)
{
	struct neigh_keeper *keeper = calloc(1, sizeof(*keeper));
	if (!keeper)
		return -ENOMEM;
	keeper->arp.fd = -1;
	keeper->doubt = doubt;
	keeper->ctx = ctx;
	keeper->nl = nl_socket_alloc();
	if (!keeper->nl || nl_connect(keeper->nl, NETLINK_ROUTE) < 0) {
		neigh_keeper_free(keeper);
		return -EIO;
	}
	*ret_keeper = keeper;
	return 0;
}

void neigh_keeper_free(struct neigh_keeper *keeper)
{
	struct wanted *wanted, *next_wanted;
	struct written *written, *next_written;
	if (!keeper)
		return;
	DL_FOREACH_SAFE (keeper->wanted, wanted, next_wanted)
		free(wanted);
	DL_FOREACH_SAFE (keeper->written, written, next_written)
		free(written);
	arp_close(&keeper->arp);
	nl_socket_free(keeper->nl);
	free(keeper);
}

void neigh_keeper_want(struct neigh_keeper *keeper, const struct neigh_key *key,
		       const uint8_t mac[6])
{
	struct wanted *wanted = find_wanted(keeper, key, mac);
	if (!wanted) {
		wanted = calloc(1, sizeof(*wanted));
		if (!wanted)
			return; /* the kernel's own entry will do */
		wanted->key = *key;
		memcpy(wanted->mac, mac, sizeof(wanted->mac));
		DL_APPEND(keeper->wanted, wanted);
	}
	begin(keeper, wanted);
}

void neigh_keeper_release(struct neigh_keeper *keeper, const struct neigh_key *key,
			  const uint8_t mac[6])
{
	struct wanted *wanted = find_wanted(keeper, key, mac), *other;
	struct written *written = find_written(keeper, key);
	if (wanted) {
		DL_DELETE(keeper->wanted, wanted);
		free(wanted);
	}
	if (!written || !same_mac(written->mac, mac))
		return;
	withdraw(keeper, written);
	/* Other MACs that are wanted for this address have their turn now. */
	DL_FOREACH (keeper->wanted, other) {
		if (same_key(&other->key, key))
			begin(keeper, other);
	}
}

struct purge {
	struct neigh_keeper *keeper;
	struct written *left;
};

static void note_left(void *ctx, const struct neigh_key *key, const struct neigh_entry *found)
{
	struct purge *purge = ctx;
	bool left = found->state & NUD_PERMANENT && found->protocol == NEIGH_PROTOCOL &&
		    !find_written(purge->keeper, key);
	struct written *entry = left ? calloc(1, sizeof(*entry)) : NULL;
	if (!entry)
		return;
	entry->key = *key;
	DL_APPEND(purge->left, entry);
}

void neigh_keeper_purge(struct neigh_keeper *keeper)
{
	struct purge purge = { .keeper = keeper };
	struct written *entry, *next;
	neigh_entry_each(keeper->nl, note_left, &purge);
	DL_FOREACH_SAFE (purge.left, entry, next) {
		neigh_entry_delete(keeper->nl, &entry->key);
		free(entry);
	}
}

/* Answers first: they count even if the tries are due. */
void neigh_keeper_work(struct neigh_keeper *keeper)
{
	struct wanted *wanted;
	hear(keeper);
	const int64_t now = neigh_keeper_now();
	DL_FOREACH (keeper->wanted, wanted) {
		if (wanted->due <= now)
			look(keeper, wanted);
	}
	if (neigh_keeper_due(keeper) == INT64_MAX)
		arp_close(&keeper->arp);
}

int neigh_keeper_fd(const struct neigh_keeper *keeper)
{
	return keeper->arp.fd;
}

int64_t neigh_keeper_due(const struct neigh_keeper *keeper)
{
	int64_t due = INT64_MAX;
	const struct wanted *wanted;
	DL_FOREACH (keeper->wanted, wanted) {
		if (wanted->due < due)
			due = wanted->due;
	}
	return due;
}

enum neigh_way neigh_keeper_way(const struct neigh_keeper *keeper, const struct neigh_key *key,
				const uint8_t mac[6])
{
	const struct wanted *wanted = find_wanted(keeper, key, mac);
	return wanted ? wanted->way : NEIGH_NONE;
}
