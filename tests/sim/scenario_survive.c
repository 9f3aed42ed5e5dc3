/* SPDX-License-Identifier: MIT */
/* Links fail, and operators add and delete links, but one link of each group always stays (harm.h).
 * So no connection may be reset, every byte arrives, and in the end the group is redundant again.
 */
#include <string.h>

#include "tests/sim/harm.h"
#include "tests/sim/obs.h"
#include "tests/sim/scenario.h"

#define HARM_FROM   (200 * MSEC)
#define HARM_UNTIL  (8 * SEC)
#define MEND_WITHIN (3 * SEC)
#define MENDED      (12 * SEC) /* everything is mended */
#define REDUNDANT   (90 * SEC) /* every group must have its links again */

static void start(struct world *w, struct smcr_config config[2], unsigned int devices0,
		  unsigned int devices1)
{
	bool many = devices0 + devices1 > 8 && prng_chance(&w->rng, 700);
	any_settings(w);
	any_configs(w, config);
	w->set.failures = true;
	w->set.no_reset = true;
	for (int i = 0; i < 2; i++) {
		struct smcr_config *c = &config[i];
		if (many)
			c->max_links = SMCR_MAX_LINKS;
		c->retry_alternative_ms = (uint32_t)prng_size(&w->rng, 50, 1000);
		c->elements_per_rmb = (uint8_t)prng_range(&w->rng, 1, 4);
		c->rmb_idle_timeout = prng_size(&w->rng, 1, 2000) * MSEC;
		c->lgr_idle_timeout = 600 * SEC;
		c->close_wait_timeout = 2000 * SEC;
		c->add_link_retry = prng_range(&w->rng, 1, 5) * SEC;
		c->test_link_interval = prng_range(&w->rng, 2, 30) * SEC;
	}
	two_hosts(w, config, devices0, devices1);
}

static void traffic(struct world *w, uint64_t n, uint64_t from, uint64_t until, uint64_t bytes)
{
	struct plan plan[2];
	for (; n; n--) {
		any_clean_plans(w, plan, bytes);
		struct route route = route_from(w, prng_chance(&w->rng, 150));
		pair_open(w, &route, plan, prng_range(&w->rng, from, until));
	}
}

/** A connection that is open all the time, and busy most of it. */
static void keeper(struct world *w)
{
	struct plan plan[2];
	memset(plan, 0, sizeof(plan));
	for (int s = 0; s < 2; s++)
		plan[s] = (struct plan){
			.tx_total = 200000,
			.write_min = 1,
			.write_max = 2000,
			.write_pause = 50000,
			.read_min = 1,
			.read_max = 100000,
			.read_pause = prng_chance(&w->rng, 300) ? 50000 : 0,
			.end = END_CLOSE_DONE,
			.linger = REDUNDANT + 10 * SEC,
		};
	struct route route = route_from(w, 0);
	pair_open(w, &route, plan, 0);
}

static void harm_within(struct world *w, uint64_t n)
{
	for (; n; n--)
		harm_something_at(w, prng_range(&w->rng, HARM_FROM, HARM_UNTIL), MEND_WITHIN);
}

/* ---- after the harm ---- */

static unsigned int devices_of(const struct world *w, const struct host *host)
{
	unsigned int n = 0;
	for (size_t i = 0; i < w->fabric->num_devices; i++)
		n += w->fabric->devices[i]->host == host;
	return n;
}

static bool share(const struct obs_link *a, const struct obs_link *b)
{
	return a->qp[0]->device == b->qp[0]->device || a->qp[1]->device == b->qp[1]->device;
}

/** How many links can be chosen so that no two of them share an RNIC? */
static unsigned int disjoint(struct obs_group *group, unsigned int *ret_links)
{
	struct obs_link *link, *taken[SMCR_MAX_LINKS_TOTAL];
	unsigned int n = 0;
	*ret_links = 0;
	DL_FOREACH (group->links, link) {
		bool fresh = true;
		if (!harm_works(link))
			continue;
		++*ret_links;
		for (unsigned int i = 0; i < n; i++)
			fresh &= !share(link, taken[i]);
		if (fresh && n < SMCR_MAX_LINKS_TOTAL)
			taken[n++] = link;
	}
	return n;
}

static bool in_use(const struct obs_group *group)
{
	const struct obs_conn *conn;
	DL_FOREACH (group->obs->conns, conn) {
		if (conn->group == group && !conn->gone[CLIENT] && !conn->gone[SERVER] &&
		    conn->pair->side[CLIENT].established && conn->pair->side[SERVER].established)
			return true;
	}
	return false;
}

/** GEN-8, LG-3..5: groups in use are as redundant as the RNICs allow. */
static void check_redundant(struct world *w)
{
	struct obs_group *group;
	DL_FOREACH (w->observer->groups, group) {
		unsigned int client = devices_of(w, group->host[CLIENT]);
		unsigned int server = devices_of(w, group->host[SERVER]);
		unsigned int links, apart = disjoint(group, &links);
		unsigned int less = client < server ? client : server;
		unsigned int more = client < server ? server : client;
		if (group->ended || w->failed || !in_use(group))
			continue;
		if (less > 1 ? apart < 2 : links < (more > 1 ? 2 : 1))
			world_fail(w, "GEN-8",
				   "group %u: %u links, %u of them apart, with %u and %u RNICs",
				   group->number, links, apart, client, server);
	}
}

static void mend_event(void *object, uint64_t arg)
{
	(void)arg;
	harm_mend(object);
}

/** Run until everything is mended, check redundancy, let new connections use the groups, and end.
 */
static void live_on(struct world *w)
{
	clock_at(&w->clock, MENDED, mend_event, w, 0);
	world_run(w, REDUNDANT, NULL);
	if (!w->failed)
		check_redundant(w);
	traffic(w, prng_range(&w->rng, 1, 3), 0, SEC, 50000);
	run_connections(w);
	run_down(w);
}

/* ---- scenarios ---- */

/** Anything breaks. */
static void run_survive(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, (unsigned int)prng_range(&w->rng, 2, 4),
	      (unsigned int)prng_range(&w->rng, 2, 4));
	keeper(w);
	traffic(w, prng_range(&w->rng, 2, 12), 0, HARM_UNTIL, 100000);
	harm_within(w, prng_range(&w->rng, 1, 10));
	live_on(w);
}

/** One failure after another, under bulk data. */
static void run_double(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, (unsigned int)prng_range(&w->rng, 3, 4),
	      (unsigned int)prng_range(&w->rng, 3, 4));
	keeper(w);
	traffic(w, prng_range(&w->rng, 2, 5), 0, SEC, 2000000);
	for (uint64_t n = prng_range(&w->rng, 2, 6); n; n--) {
		uint64_t when = prng_range(&w->rng, HARM_FROM, 3 * SEC);
		harm_something_at(w, when, MEND_WITHIN);
		harm_something_at(w, when + prng_size(&w->rng, 0, 20 * MSEC), MEND_WITHIN);
	}
	live_on(w);
}

/** RNICs that only one side has. */
static void run_asymmetric(struct world *w)
{
	static const unsigned int devices[][2] = { { 1, 2 }, { 2, 1 }, { 2, 3 }, { 3, 2 },
						   { 1, 3 }, { 4, 2 }, { 2, 2 } };
	struct smcr_config config[2];
	size_t i = prng_range(&w->rng, 0, sizeof(devices) / sizeof(devices[0]) - 1);
	start(w, config, devices[i][0], devices[i][1]);
	keeper(w);
	traffic(w, prng_range(&w->rng, 2, 10), 0, HARM_UNTIL, 50000);
	harm_within(w, prng_range(&w->rng, 1, 6));
	live_on(w);
}

/** Groups with as many links as allowed, while RMBs come and go. */
static void run_eight(struct world *w)
{
	struct smcr_config config[2];
	bool client = prng_chance(&w->rng, 500);
	start(w, config, client ? 9 : 8, client ? 8 : 9);
	keeper(w);
	traffic(w, prng_range(&w->rng, 10, 30), 0, HARM_UNTIL, 20000);
	harm_within(w, prng_range(&w->rng, 0, 6));
	live_on(w);
}

static void pause_event(void *object, uint64_t arg)
{
	struct host *host = object;
	if (!host_frozen(host))
		host_freeze(host, arg);
}

/** Daemons that are stopped for up to a second, links that fail meanwhile. */
static void run_pause(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, (unsigned int)prng_range(&w->rng, 2, 3),
	      (unsigned int)prng_range(&w->rng, 2, 3));
	keeper(w);
	traffic(w, prng_range(&w->rng, 2, 12), 0, HARM_UNTIL, 100000);
	for (uint64_t n = prng_range(&w->rng, 1, 4); n; n--)
		clock_at(&w->clock, prng_range(&w->rng, 0, HARM_UNTIL), pause_event,
			 w->hosts[prng_range(&w->rng, 0, 1)], prng_size(&w->rng, MSEC, SEC));
	harm_within(w, prng_range(&w->rng, 0, 3));
	live_on(w);
}

/* ---- operators ---- */

static bool is_anchor(struct world *w, const struct smcr_link_view *view)
{
	const struct qp *qp = fabric_qp_find(w->fabric, view->local_qpn);
	if (!qp || !qp->link)
		return false;
	harm_anchor(qp->link->group);
	return qp->link->group->anchor == qp->link;
}

static void command_event(void *object, uint64_t arg)
{
	static const enum smcr_command_type types[] = {
		SMCR_COMMAND_LINK_DELETE,  SMCR_COMMAND_LINK_ADD,    SMCR_COMMAND_LINK_TEST,
		SMCR_COMMAND_LINK_DISABLE, SMCR_COMMAND_LINK_ENABLE, SMCR_COMMAND_FAILOVER,
		SMCR_COMMAND_FAILOVER,
	};
	struct host *host = object;
	struct world *w = host->world;
	struct prng *rng = &w->rng;
	struct host_links list;
	(void)arg;
	if (host_frozen(host))
		return;
	host_list_links(host, &list);
	if (!list.num)
		return;
	const struct smcr_link_view *link = &list.link[prng_range(rng, 0, list.num - 1)];
	const struct smcr_link_view *to = &list.link[prng_range(rng, 0, list.num - 1)];
	struct smcr_command command = {
		.type = types[prng_range(rng, 0, sizeof(types) / sizeof(types[0]) - 1)],
		.lgr = link->lgr_id,
		.link = link->number,
		.orderly = prng_chance(rng, 500),
	};
	if (command.type == SMCR_COMMAND_LINK_DELETE && is_anchor(w, link))
		return;
	if (command.type == SMCR_COMMAND_LINK_ADD)
		command.link = 0;
	if (command.type == SMCR_COMMAND_FAILOVER) {
		if (prng_chance(rng, 500))
			command.link = 0;
		if (to->lgr_id == link->lgr_id && to->number != command.link &&
		    prng_chance(rng, 600))
			command.to = to->number;
	}
	host_command(host, &command);
}

/** An operator wants the deleted links back. */
static void restore_event(void *object, uint64_t arg)
{
	struct world *w = object;
	(void)arg;
	for (size_t i = 0; i < w->num_hosts; i++) {
		struct host_links list;
		host_list_links(w->hosts[i], &list);
		for (size_t k = 0; k < list.num; k++) {
			struct smcr_command command = { .type = SMCR_COMMAND_LINK_ENABLE,
							.lgr = list.link[k].lgr_id,
							.link = list.link[k].number };
			host_command(w->hosts[i], &command);
			if (k && list.link[k].lgr_id == list.link[k - 1].lgr_id)
				continue;
			command.type = SMCR_COMMAND_LINK_ADD;
			command.link = 0;
			host_command(w->hosts[i], &command);
		}
	}
}

/** Operators at both sides, links that fail meanwhile. */
static void run_operate(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, (unsigned int)prng_range(&w->rng, 1, 4),
	      (unsigned int)prng_range(&w->rng, 2, 4));
	keeper(w);
	traffic(w, prng_range(&w->rng, 2, 12), 0, HARM_UNTIL, 100000);
	for (uint64_t n = prng_range(&w->rng, 1, 20); n; n--)
		clock_at(&w->clock, prng_range(&w->rng, HARM_FROM, HARM_UNTIL), command_event,
			 w->hosts[prng_range(&w->rng, 0, 1)], 0);
	if (prng_chance(&w->rng, 400))
		harm_within(w, prng_range(&w->rng, 1, 4));
	for (uint64_t when = MENDED; when < REDUNDANT - 15 * SEC; when += 12 * SEC)
		clock_at(&w->clock, when, restore_event, w, 0);
	live_on(w);
}

/* ---- RNICs that operators take out of use ---- */

static void drain_event(void *object, uint64_t arg)
{
	struct world *w = object;
	const struct device *device = w->fabric->devices[arg / 2];
	if (!host_frozen(device->host))
		host_drain(device->host, device, arg % 2);
}

static void use_all_event(void *object, uint64_t arg)
{
	struct world *w = object;
	(void)arg;
	for (size_t i = 0; i < w->fabric->num_devices; i++)
		drain_event(w, 2 * i);
}

/** Operators take RNICs out of use and back: links go and come back in good order, and one of each
 * group always stays. */
static void run_drain(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, (unsigned int)prng_range(&w->rng, 1, 4),
	      (unsigned int)prng_range(&w->rng, 1, 4));
	keeper(w);
	traffic(w, prng_range(&w->rng, 2, 12), 0, HARM_UNTIL, 100000);
	for (uint64_t n = prng_range(&w->rng, 1, 10); n; n--) {
		uint64_t device = prng_range(&w->rng, 0, w->fabric->num_devices - 1);
		clock_at(&w->clock, prng_range(&w->rng, 0, HARM_UNTIL), drain_event, w,
			 2 * device + prng_chance(&w->rng, 700));
	}
	clock_at(&w->clock, MENDED, use_all_event, w, 0);
	for (uint64_t when = MENDED + SEC; when < REDUNDANT - 15 * SEC; when += 12 * SEC)
		clock_at(&w->clock, when, restore_event, w, 0);
	live_on(w);
}

#define FAILOVER_IDS                                                                               \
	"FO-1 FO-2 FO-3 FO-4 FO-5 FO-6 FO-8 FO-9 FO-10 FO-11 GEN-8 DELL-1 DELL-2 DELL-3 DELL-7 "   \
	"SER-6 "

const struct scenario scenarios_survive[] = {
	{ "survive", "anything breaks, one link is left", run_survive, 4, FAILOVER_IDS "LG-11",
	  __FILE__ },
	{ "double", "one failure after another under bulk data", run_double, 4,
	  FAILOVER_IDS "FO-14", __FILE__ },
	{ "asymmetric", "RNICs that only one side has", run_asymmetric, 4,
	  FAILOVER_IDS "LG-3 LG-4 LG-5 ADDL-3 ADDL-14 ADDL-15 ADDL-16", __FILE__ },
	{ "eight", "eight links, and an RNIC to spare", run_eight, 50,
	  "LG-8 RKEY-3 RKEY-4 RKEY-8 ADDL-13 ADDL-14", __FILE__ },
	{ "pause", "daemons that are stopped for up to a second", run_pause, 4, FAILOVER_IDS,
	  __FILE__ },
	{ "operate", "operators at both sides", run_operate, 4,
	  FAILOVER_IDS "FO-12 DELL-4 DELL-5 DELL-6 DELL-11 ADDL-14", __FILE__ },
	{ "drain", "operators take RNICs out of use, at both sides", run_drain, 4,
	  "DELL-3 DELL-4 DELL-5 DELL-6", __FILE__ },
	{ 0 },
};
