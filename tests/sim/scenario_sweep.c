/* SPDX-License-Identifier: MIT */
/*
 * A failure at every point of every exchange. A few scripts lead two hosts through everything that
 * LLC and failover can do. Their LLC messages and CDCs with F are numbered, and each run harms one
 * of these messages in one way. The seed chooses script, message and harm: SWEEP_RUNS seeds are all
 * combinations, fewer seeds are a sample.
 */
#include <string.h>
#include <sys/socket.h>

#include "tests/sim/harm.h"
#include "tests/sim/obs.h"
#include "tests/sim/scenario.h"

enum {
	LOSE,       /* acknowledged by the RNIC, never seen by the peer's daemon */
	LOSE_REPLY, /* the peer's next message is lost in that way */
	FAIL_SEND,  /* not delivered, and the QP fails */
	FAIL_ACK,   /* delivered, but the QP fails before it is acknowledged */
	PORT_OWN,
	PORT_PEER,
	PORT_FLAP,
	UNPLUG_OWN,
	UNPLUG_PEER,
	CUT_PATH,
	PAUSE_PEER,   /* for nearly a second */
	SILENCE_PEER, /* for longer than any exchange waits */
	RESTART_PEER, /* with another peer ID */
	RESTART_OWN,
	CROSS, /* operators of both sides give a command at this moment */
	FAULTS,
};

#define SCRIPTS  8
#define MESSAGES 160 /* more than any script has */

#define KEEP_UNTIL (60 * SEC)
#define CHECK_AT   (50 * SEC)

struct sweep {
	struct world *w;
	unsigned int script, fault;
	uint64_t number; /* of the message to be harmed */
	uint64_t count;  /* messages so far */
	struct qp *qp;   /* that posted the harmed message */
	uint64_t harmed_at;
	struct host *lose_of; /* whose next message is lost */
};

/* ---- the harm ---- */

static bool numbered(const struct request *req)
{
	return !req->wr.is_write && (req->payload[0] != SMCR_CDC_TYPE ||
				     smcr_cdc_is_failover(req->payload, req->wr.length));
}

/** Does `other` stay sound when an end of `link`, or its path, is harmed? */
static bool apart(const struct obs_link *link, const struct obs_link *other)
{
	return other != link && harm_sound(other) &&
	       other->qp[CLIENT]->device != link->qp[CLIENT]->device &&
	       other->qp[SERVER]->device != link->qp[SERVER]->device;
}

/** The link will be harmed. If no other link stays sound, connections may be reset. */
static void give_over(struct world *w, struct obs_link *link)
{
	struct obs_group *group;
	struct obs_link *other;
	DL_FOREACH (w->observer->groups, group) {
		struct obs_link *anchor = NULL;
		DL_FOREACH (group->links, other) {
			if (link->qp[CLIENT] && link->qp[SERVER] && apart(link, other))
				anchor = other;
		}
		group->anchor = anchor;
		group->exposed |= !anchor;
	}
}

static void ask(struct host *host, enum smcr_command_type type, unsigned int nth);

static void cross(struct world *w)
{
	static const enum smcr_command_type pairs[][2] = {
		{ SMCR_COMMAND_LINK_ADD, SMCR_COMMAND_LINK_ADD },
		{ SMCR_COMMAND_LINK_DELETE, SMCR_COMMAND_LINK_ADD },
		{ SMCR_COMMAND_LINK_DELETE, SMCR_COMMAND_LINK_TEST },
		{ SMCR_COMMAND_LINK_TEST, SMCR_COMMAND_LINK_DELETE },
		{ SMCR_COMMAND_LINK_DELETE, SMCR_COMMAND_LINK_DELETE },
		{ SMCR_COMMAND_FAILOVER, SMCR_COMMAND_LINK_DELETE },
	};
	size_t i = prng_range(&w->rng, 0, sizeof(pairs) / sizeof(pairs[0]) - 1);
	for (int s = 0; s < 2; s++)
		ask(w->hosts[s], pairs[i][s], (unsigned int)prng_range(&w->rng, 0, 3));
}

static void harm_event(void *object, uint64_t arg)
{
	struct sweep *sweep = object;
	struct world *w = sweep->w;
	struct qp *qp = sweep->qp, *peer = fabric_qp_find(w->fabric, qp->peer.qpn);
	(void)arg;
	if (!peer || w->failed)
		return;
	switch (sweep->fault) {
	case PORT_OWN: harm_port(qp->device, 2 * SEC); break;
	case PORT_PEER: harm_port(peer->device, 2 * SEC); break;
	case PORT_FLAP: harm_port(qp->device, 500); break;
	case UNPLUG_OWN: harm_unplug(qp->device, SEC); break;
	case UNPLUG_PEER: harm_unplug(peer->device, SEC); break;
	case CUT_PATH: harm_cut(qp->device, peer->device, true, 2 * SEC); break;
	case PAUSE_PEER: host_freeze(peer->host, 900 * MSEC); break;
	case SILENCE_PEER: host_freeze(peer->host, 12 * SEC); break;
	case RESTART_PEER: host_restart(peer->host); break;
	case RESTART_OWN: host_restart(qp->host); break;
	case CROSS: cross(w); break;
	default: break;
	}
}

/** Tell the observer what connections can no longer rely on after the harm. */
static void loosen(struct sweep *sweep, struct obs_link *link)
{
	struct settings *set = &sweep->w->set;
	switch (sweep->fault) {
	case LOSE:
	case LOSE_REPLY:
	case SILENCE_PEER:
	case RESTART_PEER:
	case RESTART_OWN:
		set->no_reset = false;
		set->timeouts = true;
		break;
	case PAUSE_PEER: break;
	case CROSS: give_over(sweep->w, link); break;
	default: link->doomed = true; give_over(sweep->w, link);
	}
}

static void on_post(struct world *w, struct qp *qp, struct request *req)
{
	struct sweep *sweep = w->sweep;
	if (!numbered(req))
		return;
	if (sweep->lose_of == qp->host) {
		req->fate = FATE_LOST;
		sweep->lose_of = NULL;
	}
	if (sweep->count++ != sweep->number || !qp->link)
		return;
	struct qp *peer = fabric_qp_find(w->fabric, qp->peer.qpn);
	world_log(w, "sweep", "message %llu, harm %u", (unsigned long long)sweep->number,
		  sweep->fault);
	loosen(sweep, qp->link);
	obs_disturbed(w->observer, qp->link);
	sweep->qp = qp;
	sweep->harmed_at = w->clock.now;
	switch (sweep->fault) {
	case LOSE: req->fate = FATE_LOST; break;
	case LOSE_REPLY: sweep->lose_of = peer ? peer->host : NULL; break;
	case FAIL_SEND: req->fate = FATE_FAILS; break;
	case FAIL_ACK: req->fate = FATE_FAILS_LATE; break;
	default: clock_in(&w->clock, 0, harm_event, sweep, 0); break;
	}
}

/* ---- the scripts ---- */

/** A command about the nth link, or its group. */
static void ask(struct host *host, enum smcr_command_type type, unsigned int nth)
{
	struct host_links list;
	if (host_frozen(host))
		return;
	host_list_links(host, &list);
	if (!list.num)
		return;
	const struct smcr_link_view *view = &list.link[nth % list.num];
	struct smcr_command command = {
		.type = type, .lgr = view->lgr_id, .link = view->number, .orderly = nth % 2
	};
	if (type == SMCR_COMMAND_LINK_ADD || type == SMCR_COMMAND_LGR_DELETE)
		command.link = 0;
	if (type == SMCR_COMMAND_LGR_DELETE)
		host->world->set.no_reset = false;
	if (type == SMCR_COMMAND_LINK_DELETE) {
		const struct qp *qp = fabric_qp_find(host->world->fabric, view->local_qpn);
		if (qp && qp->link) {
			qp->link->doomed = true;
			give_over(host->world, qp->link);
		}
	}
	host_command(host, &command);
}

static void ask_event(void *object, uint64_t arg)
{
	ask(object, (enum smcr_command_type)(arg & 0xff), (unsigned int)(arg >> 8));
}

static void at_command(struct world *w, uint64_t when, int host, enum smcr_command_type type,
		       unsigned int nth)
{
	clock_at(&w->clock, when, ask_event, w->hosts[host], (uint64_t)type | nth << 8);
}

static void test_event(void *object, uint64_t arg)
{
	(void)arg;
	if (!host_frozen(object))
		host_test_links(object);
}

static void port_event(void *object, uint64_t arg)
{
	struct device *device = object;
	struct world *w = device->world;
	struct qp *qp, *next;
	(void)arg;
	HASH_ITER (hh, w->fabric->qps, qp, next) {
		if (qp->device == device && qp->state < QP_ERR && qp->link)
			give_over(w, qp->link);
	}
	harm_port(device, SEC);
}

static void replug_event(void *object, uint64_t arg)
{
	(void)arg;
	harm_replug(object);
}

static struct device *late_device(struct world *w, int host, uint64_t when)
{
	struct device *device = fabric_device_new(w, w->hosts[host], 1, SMCR_MTU_1024);
	device->present = false;
	clock_at(&w->clock, when, replug_event, device, 0);
	return device;
}

static void commands_of(struct world *w, int host)
{
	at_command(w, 1000 * MSEC, host, SMCR_COMMAND_FAILOVER, 0);
	at_command(w, 1200 * MSEC, host, SMCR_COMMAND_LINK_DELETE, 1);
	at_command(w, 1600 * MSEC, host, SMCR_COMMAND_LINK_ADD, 0);
	at_command(w, 2000 * MSEC, host, SMCR_COMMAND_LINK_DELETE, 2);
	at_command(w, 2400 * MSEC, host, SMCR_COMMAND_LINK_ADD, 0);
	clock_at(&w->clock, 2600 * MSEC, test_event, w->hosts[0], 0);
	clock_at(&w->clock, 2650 * MSEC, test_event, w->hosts[1], 0);
}

static const struct {
	unsigned int devices[2];
	int ends; /* host that has the group deleted in the end, -1: none */
} scripts[SCRIPTS] = {
	{ { 2, 2 }, 0 }, { { 2, 2 }, 1 },  { { 1, 2 }, 0 }, { { 2, 1 }, 1 },
	{ { 4, 4 }, 0 }, { { 2, 2 }, -1 }, { { 3, 3 }, 1 }, { { 1, 1 }, 0 },
};

static void play(struct world *w, unsigned int script)
{
	switch (script) {
	case 0:
	case 1: commands_of(w, (int)script); break;
	case 2:
		late_device(w, 0, SEC);
		clock_at(&w->clock, 2 * SEC, port_event, w->fabric->devices[2], 0);
		break;
	case 3:
		late_device(w, 1, SEC);
		clock_at(&w->clock, 2 * SEC, port_event, w->fabric->devices[0], 0);
		break;
	case 4: commands_of(w, 1); break;
	case 5:
		clock_at(&w->clock, 1000 * MSEC, port_event, w->fabric->devices[0], 0);
		clock_at(&w->clock, 4000 * MSEC, port_event, w->fabric->devices[3], 0);
		break;
	case 6:
		at_command(w, 1000 * MSEC, 0, SMCR_COMMAND_LINK_DISABLE, 0);
		at_command(w, 1200 * MSEC, 1, SMCR_COMMAND_LINK_DISABLE, 1);
		clock_at(&w->clock, 1300 * MSEC, port_event, w->fabric->devices[2], 0);
		at_command(w, 1500 * MSEC, 0, SMCR_COMMAND_LINK_ENABLE, 0);
		at_command(w, 1500 * MSEC, 1, SMCR_COMMAND_LINK_ENABLE, 1);
		at_command(w, 1700 * MSEC, 1, SMCR_COMMAND_FAILOVER, 0);
		break;
	default:
		at_command(w, 1000 * MSEC, 1, SMCR_COMMAND_LINK_ADD, 0);
		at_command(w, 1100 * MSEC, 0, SMCR_COMMAND_LINK_ADD, 0);
		break;
	}
	/* A link that an operator has deleted comes back only when an operator asks for it. */
	for (uint64_t when = 10 * SEC; when < CHECK_AT; when += 12 * SEC) {
		at_command(w, when, 1, SMCR_COMMAND_LINK_ADD, 0);
		at_command(w, when + SEC, 1, SMCR_COMMAND_LINK_ADD, 31);
	}
	if (scripts[script].ends >= 0)
		at_command(w, KEEP_UNTIL + 30 * SEC, scripts[script].ends, SMCR_COMMAND_LGR_DELETE,
			   0);
}

static void configure(struct smcr_config *c, unsigned int script)
{
	*c = (struct smcr_config){
		.dialect = script % 2 ? SMCR_DIALECT_AUTO : SMCR_DIALECT_FORCE_RFC,
		.max_links = 8,
		.bsize = 0,
		.bsize_min = 0,
		.elements_per_rmb = 1,
		.send_depth = 64,
		.lgr_idle_timeout = 100 * SEC,
		.rmb_idle_timeout = 300 * MSEC,
		.add_link_retry = 2 * SEC,
		.test_link_interval = UINT64_MAX,
		.close_wait_timeout = 200 * SEC,
	};
}

static void connect_at(struct world *w, uint64_t when, uint64_t bytes, uint64_t linger,
		       uint32_t pause)
{
	struct plan plan[2];
	memset(plan, 0, sizeof(plan));
	for (int s = 0; s < 2; s++)
		plan[s] = (struct plan){ .tx_total = bytes,
					 .write_min = 100,
					 .write_max = 3000,
					 .write_pause = pause,
					 .read_min = 100,
					 .read_max = 100000,
					 .rcvbuf = 1,
					 .end = END_CLOSE_DONE,
					 .linger = linger };
	struct route route = { .host = { w->hosts[0], w->hosts[1] },
			       .lan = { 1, 1 },
			       .family = AF_INET };
	pair_open(w, &route, plan, when);
}

/** After the harm every group in use has two links again, or one where there are no more RNICs. */
static void check_links(struct world *w, unsigned int script)
{
	struct obs_group *group;
	struct obs_link *link;
	const struct obs_conn *conn;
	bool single = script == 7;
	DL_FOREACH (w->observer->groups, group) {
		unsigned int links = 0;
		bool used = false;
		DL_FOREACH (group->links, link)
			links += harm_works(link);
		DL_FOREACH (w->observer->conns, conn)
			used |= conn->group == group && !conn->gone[0] && !conn->gone[1];
		if (!group->ended && used && links < (single ? 1 : 2))
			world_fail(w, "GEN-8", "group %u: %u links after all is well again",
				   group->number, links);
	}
}

static void run(struct world *w, bool v2)
{
	uint64_t place = w->seed * 7919 % SWEEP_RUNS;
	struct sweep *sweep = sim_zalloc(sizeof(*sweep));
	sweep->w = w;
	sweep->script = (unsigned int)(place % SCRIPTS);
	sweep->fault = (unsigned int)(place / SCRIPTS % FAULTS);
	sweep->number = place / SCRIPTS / FAULTS;
	w->sweep = sweep;
	w->posted = on_post;
	/* All runs of a script are the same up to the harm. */
	prng_seed(&w->rng, sweep->script);
	w->set = (struct settings){
		.wire_min = 5,
		.wire_max = 60,
		.ack_max = 60,
		.cq_max = 60,
		.recv_max = 30,
		.tcp_min = 10,
		.tcp_max = 100,
		.wake_max = 50,
		.timer_late_max = 50,
		.failures = true,
		.no_reset = true,
		.time_limit = 1200 * SEC,
	};
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++)
		configure(&config[i], sweep->script);
	if (v2)
		both_versions(config);
	two_hosts(w, config, scripts[sweep->script].devices[0], scripts[sweep->script].devices[1]);
	play(w, sweep->script);
	connect_at(w, 0, 20000, KEEP_UNTIL - 5 * SEC, 100000);
	connect_at(w, 700 * MSEC, 5000, 0, 0);
	connect_at(w, 1205 * MSEC, 3000, 0, 0);
	connect_at(w, 1605 * MSEC, 3000, 0, 0);
	connect_at(w, 2005 * MSEC, 3000, 0, 100000);
	connect_at(w, 40 * SEC, 5000, KEEP_UNTIL - 40 * SEC, 0);
	world_run(w, CHECK_AT, NULL);
	if (!w->failed && sweep->harmed_at < CHECK_AT - 35 * SEC)
		check_links(w, sweep->script);
	run_connections(w);
	run_down(w);
	if (sweep->number == MESSAGES - 1 && sweep->count > MESSAGES - 1)
		world_fail(w, "SWEEP", "script %u has more than %d messages", sweep->script,
			   MESSAGES - 1);
	free(sweep);
	w->sweep = NULL;
	w->posted = NULL;
}

static void run_sweep(struct world *w)
{
	run(w, false);
}

static void run_sweep_v2(struct world *w)
{
	run(w, true);
}

_Static_assert(SWEEP_RUNS == SCRIPTS * FAULTS * MESSAGES, "every place once");

const struct scenario scenarios_sweep[] = {
	{ "sweep", "each message of each exchange harmed in each way", run_sweep, 1,
	  "FO-1 FO-2 FO-3 FO-4 FO-5 FO-6 FO-8 FO-9 FO-10 FO-11 FO-14 SER-6 DELL-1 DELL-2 DELL-5 "
	  "DELL-6 DELL-7 DELL-10 ADDL-14 TERM-2 PEER-5",
	  __FILE__ },
	{ "sweep-v2", "the same in version 2", run_sweep_v2, 1,
	  "FO-1 FO-2 FO-3 FO-4 FO-5 FO-6 FO-8 FO-9 FO-10 FO-11 FO-14 SER-6 DELL-1 DELL-2 DELL-5 "
	  "DELL-6 DELL-7 DELL-10 ADDL-14 TERM-2 PEER-5",
	  __FILE__ },
	{ 0 },
};
