/* SPDX-License-Identifier: MIT */
#include "tests/sim/harm.h"

#include "tests/sim/obs.h"

bool harm_sound(const struct obs_link *link)
{
	return !link->doomed && harm_works(link);
}

bool harm_works(const struct obs_link *link)
{
	const struct qp *c = link->qp[CLIENT], *s = link->qp[SERVER];
	if (!c || !s || c->state != QP_RTS || s->state != QP_RTS)
		return false;
	for (int side = 0; side < 2; side++) {
		const struct device *device = link->qp[side]->device;
		if (!link->active[side] || link->gone[side] || !device->present || !device->port_up)
			return false;
	}
	const struct fabric *fabric = c->world->fabric;
	return !fabric->cut[c->device->index][s->device->index] &&
	       !fabric->cut[s->device->index][c->device->index];
}

void harm_anchor(struct obs_group *group)
{
	struct obs_link *link;
	if (group->ended || group->exposed || (group->anchor && harm_sound(group->anchor)))
		return;
	group->anchor = NULL;
	DL_FOREACH (group->links, link) {
		if (!group->anchor && harm_sound(link))
			group->anchor = link;
	}
	if (!group->anchor) {
		group->exposed = true;
		world_log(group->obs->world, "harm", "group %u is exposed", group->number);
	}
}

/* ---- what must be spared ---- */

/** Does an anchor use device `a`, or the path between `a` and `b` if there is a `b`? */
static bool spared(struct world *w, const struct device *a, const struct device *b)
{
	struct obs_group *group;
	if (!w->set.no_reset)
		return false;
	DL_FOREACH (w->observer->groups, group) {
		harm_anchor(group);
		if (group->ended || !group->anchor)
			continue;
		const struct device *c = group->anchor->qp[CLIENT]->device;
		const struct device *s = group->anchor->qp[SERVER]->device;
		if (b ? (a == c && b == s) || (a == s && b == c) : a == c || a == s)
			return true;
	}
	return false;
}

/* ---- ports and devices ---- */

static void told_event(void *object, uint64_t arg)
{
	struct device *device = object;
	(void)arg;
	if (host_frozen(device->host))
		clock_at(&device->world->clock, host_frozen(device->host), told_event, device, 0);
	else if (device->host->engine && device->known)
		host_device_changed(device->host, device);
}

static void tell(struct device *device)
{
	struct world *w = device->world;
	clock_in(&w->clock, prng_range(&w->rng, 0, 3000), told_event, device, 0);
}

void harm_set_port(struct device *device, bool up)
{
	if (!device->present || device->port_up == up)
		return;
	device->port_up = up;
	world_log(device->world, "fabric", "port of %s %s", device->info.name, up ? "up" : "down");
	tell(device);
}

static void port_up_event(void *object, uint64_t arg)
{
	(void)arg;
	harm_set_port(object, true);
}

bool harm_port(struct device *device, uint64_t time)
{
	if (!device->present || !device->port_up || spared(device->world, device, NULL))
		return false;
	harm_set_port(device, false);
	if (time)
		clock_in(&device->world->clock, time, port_up_event, device, 0);
	return true;
}

static void replug_event(void *object, uint64_t arg)
{
	(void)arg;
	harm_replug(object);
}

void harm_replug(struct device *device)
{
	if (device->present)
		return;
	/* The host has to notice that the device is gone before it comes back. */
	if (device->known || host_frozen(device->host)) {
		clock_in(&device->world->clock, 5 * MSEC, replug_event, device, 0);
		return;
	}
	world_log(device->world, "fabric", "%s is back", device->info.name);
	device->present = true;
	device->info.active = device->port_up;
	host_add_device(device->host, device);
}

bool harm_unplug(struct device *device, uint64_t time)
{
	if (!device->present || !device->known || spared(device->world, device, NULL))
		return false;
	fabric_device_unplug(device);
	tell(device);
	if (time)
		clock_in(&device->world->clock, time, replug_event, device, 0);
	return true;
}

/* ---- paths and queue pairs ---- */

static void mend_event(void *object, uint64_t arg)
{
	fabric_cut_one(object, arg & 0xff, arg >> 8, false);
}

bool harm_cut(struct device *from, struct device *to, bool both, uint64_t time)
{
	struct world *w = from->world;
	struct fabric *fabric = w->fabric;
	if (from->host == to->host || spared(w, from, to))
		return false;
	fabric_cut_one(fabric, from->index, to->index, true);
	if (both)
		fabric_cut_one(fabric, to->index, from->index, true);
	if (time) {
		clock_in(&w->clock, time, mend_event, fabric, from->index | to->index << 8);
		clock_in(&w->clock, time, mend_event, fabric, to->index | from->index << 8);
	}
	return true;
}

static void fault_told_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	(void)arg;
	if (host_frozen(qp->host))
		clock_at(&qp->world->clock, host_frozen(qp->host), fault_told_event, qp, 0);
	else if (qp->state != QP_DESTROYED && qp->host->engine)
		host_qp_failed(qp->host, qp);
}

bool harm_fault(struct qp *qp)
{
	struct world *w = qp->world;
	struct obs_link *link = qp->link;
	if (qp->state >= QP_ERR)
		return false;
	if (w->set.no_reset && link) {
		harm_anchor(link->group);
		if (link == link->group->anchor)
			return false;
	}
	world_log(w, "fabric", "QP %06x on %s fails", qp->qpn, qp->device->info.name);
	fabric_qp_error(qp);
	clock_in(&w->clock, prng_range(&w->rng, 0, 3000), fault_told_event, qp, 0);
	return true;
}

bool harm_link(struct obs_link *link, enum harm kind, int end, uint64_t time)
{
	struct qp *qp = link->qp[end];
	if (!qp)
		return false;
	switch (kind) {
	case HARM_PORT: return harm_port(qp->device, time);
	case HARM_UNPLUG: return harm_unplug(qp->device, time);
	case HARM_FAULT: return harm_fault(qp);
	case HARM_CUT:
	case HARM_CUT_ONE_WAY:
		return link->qp[!end] &&
		       harm_cut(qp->device, link->qp[!end]->device, kind == HARM_CUT, time);
	case HARM_KINDS: break;
	}
	return false;
}

/* ---- anything ---- */

/** A link, chosen at random, that connections may rely on. */
static struct obs_link *any_link(struct world *w)
{
	struct obs_group *group;
	struct obs_link *link, *found = NULL;
	uint64_t seen = 0;
	DL_FOREACH (w->observer->groups, group) {
		if (group->ended)
			continue;
		DL_FOREACH (group->links, link) {
			if (link->gone[CLIENT] || link->gone[SERVER])
				continue;
			/* Each of the links gets the same chance. */
			if (prng_range(&w->rng, 0, seen++) == 0)
				found = link;
		}
	}
	return found;
}

static void something_event(void *object, uint64_t arg)
{
	struct world *w = object;
	struct prng *rng = &w->rng;
	struct obs_link *link = any_link(w);
	if (!link)
		return;
	enum harm kind = (enum harm)prng_range(rng, 0, HARM_KINDS - 1);
	int end = (int)prng_range(rng, 0, 1);
	uint64_t time = prng_size(rng, MSEC, arg);
	harm_link(link, kind, end, time);
	if (prng_chance(rng, 200)) /* at both ends at once */
		harm_link(link, (enum harm)prng_range(rng, 0, HARM_KINDS - 1), !end, time);
	if (prng_chance(rng, 300)) /* the next one dies meanwhile */
		clock_in(&w->clock, prng_size(rng, 0, 400 * MSEC), something_event, w, arg);
}

void harm_something_at(struct world *w, uint64_t when, uint64_t time)
{
	clock_at(&w->clock, when, something_event, w, time);
}

void harm_mend(struct world *w)
{
	struct fabric *fabric = w->fabric;
	for (size_t a = 0; a < fabric->num_devices; a++) {
		for (size_t b = 0; b < fabric->num_devices; b++) {
			if (fabric->cut[a][b])
				fabric_cut_one(fabric, a, b, false);
		}
		harm_replug(fabric->devices[a]);
		harm_set_port(fabric->devices[a], true);
	}
}
