/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tests/rnicsim/host.h"
#include "tests/rnicsim/world.h"

#define LATE    (3 * SEC)  /* a second copy may come so much later */
#define BURST   (3 * MSEC) /* for so long all packets may get lost */
#define FOREVER UINT64_MAX

/* So many of 1000 packets may get lost without reason to give a peer up. */
#define BEARABLE 60

void net_init(void)
{
	const struct settings *set = &world->set;
	for (size_t a = 0; a < MAX_HOSTS; a++) {
		for (size_t b = 0; b < MAX_HOSTS; b++) {
			world->paths[a][b] = (struct path){
				.delay = (uint32_t)choose_size(1, set->delay_max),
				.jitter = (uint32_t)choose_size(0, set->jitter_max),
				.loss = (uint32_t)choose(0, set->loss),
				.bursts = (uint32_t)choose(0, set->bursts),
				.duplicates = (uint32_t)choose(0, set->duplicates),
				.late_duplicates = (uint32_t)choose(0, set->late_duplicates),
				.reordering = (uint32_t)choose(0, set->reordering),
				.marks = (uint32_t)choose(0, set->marks),
				.damage = (uint32_t)choose(0, set->damage),
				.rate_kib_ms = set->rate_kib_ms,
			};
		}
	}
}

/* ---- what happens to a packet */

static bool is_dead(const struct path *path)
{
	return now() >= path->dead_from && now() < path->dead_until;
}

/* @return when the packet arrives, or 0: it is lost */
static uint64_t travel(struct path *path, size_t len)
{
	uint64_t at = now() + path->delay;
	if (is_dead(path)) {
		path->harmed_at = now();
		return 0;
	}
	if (now() < path->burst_until)
		return 0;
	if (chance(path->bursts))
		path->burst_until = now() + choose_size(1, BURST);
	if (chance(path->loss))
		return 0;
	if (path->rate_kib_ms) {
		uint64_t begin = path->busy_until > now() ? path->busy_until : now();
		uint64_t room = (uint64_t)world->set.queue_kib * MSEC / path->rate_kib_ms;
		if (begin - now() > room) {
			path->harmed_at = now();
			return 0;
		}
		path->busy_until = begin + len * MSEC / ((uint64_t)path->rate_kib_ms << 10);
		at += path->busy_until - now();
	}
	if (chance(path->reordering))
		at += choose_size(1, 5 * MSEC);
	return at + choose(0, path->jitter);
}

/* Few bits change, or the length. Much damage that the ICRC does not notice must not happen. */
static void damage(struct packet *packet)
{
	packet->damaged = true;
	switch (choose(0, 3)) {
	case 0: packet->len = choose(1, packet->len); break;
	case 1: packet->data[choose(0, packet->len - 1)] ^= (uint8_t)choose(1, 255); break;
	default: packet->data[choose(0, packet->len - 1)] ^= (uint8_t)(1u << choose(0, 7)); break;
	}
}

static struct packet *packet_of(const struct host *from, const uint8_t *data, size_t len)
{
	struct packet *packet = sim_alloc(sizeof(*packet) + len);
	*packet = (struct packet){ .from = from->addr, .len = len };
	memcpy(packet->data, data, len);
	return packet;
}

static void send_copy(const struct host *from, struct sock *sock, struct path *path,
		      uint64_t arrives, const uint8_t *data, size_t len, bool capable)
{
	struct packet *packet = packet_of(from, data, len);
	packet->arrives = arrives;
	packet->capable = capable;
	packet->marked = capable && chance(path->marks);
	if (chance(path->damage))
		damage(packet);
	socket_deliver(sock, packet);
}

void net_send(const struct host *from, struct in_addr to, const uint8_t *data, size_t len,
	      bool capable)
{
	const struct host *dest = host_of(to);
	struct sock *sock = socket_of(to);
	if (!dest || !sock)
		return;
	struct path *path = &world->paths[from->index][dest->index];
	uint64_t arrives = travel(path, len);
	if (!arrives)
		return;
	send_copy(from, sock, path, arrives, data, len, capable);
	if (chance(path->duplicates))
		send_copy(from, sock, path, arrives + choose_size(0, MSEC), data, len, capable);
	if (chance(path->late_duplicates))
		send_copy(from, sock, path, arrives + choose_size(1, LATE), data, len, capable);
}

/* ---- what breaks */

static void kill_path(struct path *path, uint64_t until)
{
	path->dead_from = now();
	path->dead_until = until;
	path->harmed_at = now();
}

static uint64_t until_when(void)
{
	if (!world->set.heals && chance(200))
		return FOREVER;
	return now() + choose_size(MSEC, world->set.outage_max);
}

void net_tick(void)
{
	struct settings *set = &world->set;
	struct host *host = &world->hosts[choose(0, world->num_hosts - 1)];
	size_t a = choose(0, world->num_hosts - 1), b = choose(0, world->num_hosts - 1);
	if (chance(set->one_way_outages)) {
		uint64_t until = until_when();
		world_log("nothing passes from host %zu to %zu", a, b);
		kill_path(&world->paths[a][b], until);
	}
	if (chance(set->outages)) {
		uint64_t until = until_when();
		world_log("nothing passes between hosts %zu and %zu", a, b);
		kill_path(&world->paths[a][b], until);
		kill_path(&world->paths[b][a], until);
	}
	if (chance(set->freezes)) {
		host->frozen_until = now() + choose_size(MSEC, set->freeze_max);
		host->harmed_at = host->frozen_until;
		world_log("host %zu stands still until %.6f", host->index,
			  (double)host->frozen_until / 1e6);
	}
	if (set->send_errors && chance(2)) {
		world_log("host %zu sends packets one by one", host->index);
		host->no_segmentation = true;
	}
}

void net_heal(void)
{
	for (size_t a = 0; a < MAX_HOSTS; a++) {
		for (size_t b = 0; b < MAX_HOSTS; b++) {
			struct path *path = &world->paths[a][b];
			if (is_dead(path))
				path->harmed_at = now();
			path->dead_until = path->burst_until = 0;
			path->loss = path->bursts = path->damage = 0;
		}
	}
	world->set.send_errors = world->set.socket_full = 0;
}

static bool was_bad(const struct path *path, uint64_t from)
{
	return is_dead(path) || path->harmed_at >= from || path->loss + path->damage > BEARABLE ||
	       path->bursts > BEARABLE / 10;
}

bool net_was_bad(const struct host *a, const struct host *b, uint64_t from)
{
	return was_bad(&world->paths[a->index][b->index], from) ||
	       was_bad(&world->paths[b->index][a->index], from) || a->harmed_at >= from ||
	       b->harmed_at >= from;
}
