/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_fabric.h"

/* ---- set-up ---- */

volatile bool pair_allocating; /* volatile: the compiler assumes that calloc() reads no variable */

void *pair_alloc(size_t size)
{
	pair_allocating = true;
	void *p = calloc(1, size);
	pair_allocating = false;
	return p;
}

struct smcr_config pair_config(int side)
{
	struct smcr_config config = {
		.bsize = 0,
		.bsize_min = 0,
		.elements_per_rmb = 4,
		.add_link_retry = UINT64_C(24) * 3600 * 1000 * 1000,
		.test_link_interval = UINT64_MAX,
		.retry_alternative_ms = 4000,
	};
	const uint8_t id[SMCR_PEER_ID_LEN] = { 0x12, (uint8_t)(0x34 + side), 2, 0, 0, 0,
					       0,    (uint8_t)(1 + side) };
	memcpy(config.peer_id, id, sizeof(id));
	return config;
}

struct smcr_device_info pair_device(int side, size_t n)
{
	uint8_t host = (uint8_t)(1 + 100 * side + n);
	struct smcr_device_info info = {
		.id = (uint32_t)(10 * (side + 1) + n),
		.gid = { [10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = host },
		.mac = { 2, 0, 0, 0, (uint8_t)side, (uint8_t)(n + 1) },
		.mtu = SMCR_MTU_1024,
		.vlan = SMCR_NO_VLAN,
		.active = true,
		.num_prefixes = 1,
		.prefixes = { { .family = AF_INET, .ip = { 10, 0, 0, host }, .prefix_len = 24 } },
	};
	snprintf(info.name, sizeof(info.name), "rnic%d%zu", side, n);
	return info;
}

void pair_add_device_quietly(struct pair *pair, int side, const struct smcr_device_info *info)
{
	struct smcr_lgr *lgr = pair_lgr(pair, side);
	pair_add_device(pair, side, info);
	if (lgr)
		lgr->llc->add.wanted = false;
}

void pair_add_device(struct pair *pair, int side, const struct smcr_device_info *info)
{
	struct pair_side *s = &pair->side[side];
	if (s->num_devices == PAIR_MAX_DEVICES)
		pair_violation("too many devices");
	s->devices[s->num_devices++] = *info;
	if (smcr_engine_device_add(s->engine, info))
		pair_violation("device_add");
}

void pair_update_device(struct pair *pair, int side, const struct smcr_device_info *info)
{
	struct pair_side *s = &pair->side[side];
	for (size_t i = 0; i < s->num_devices; i++)
		if (s->devices[i].id == info->id)
			s->devices[i] = *info;
	if (smcr_engine_device_update(s->engine, info))
		pair_violation("device_update");
	pair_check_engines(pair);
}

void pair_set_port(struct pair *pair, int side, size_t n, bool active)
{
	struct smcr_device_info info = pair_device(side, n);
	info.active = active;
	pair_update_device(pair, side, &info);
}

void pair_remove_device(struct pair *pair, int side, uint32_t id)
{
	struct pair_side *s = &pair->side[side];
	smcr_engine_device_remove(s->engine, id);
	pair_fabric_unplug(s, id);
	for (size_t i = 0; i < s->num_devices; i++)
		if (s->devices[i].id == id)
			s->devices[i] = s->devices[--s->num_devices];
	pair_check_engines(pair);
}

struct pair *pair_new(const struct smcr_config *server, const struct smcr_config *client,
		      size_t server_devices, size_t client_devices)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	if (!pair)
		abort();
	pair->log = calloc(PAIR_LOG, sizeof(*pair->log));
	if (!pair->log)
		abort();
	pair->now = 1000;
	pair->random = 88172645463325252u;
	for (int i = 0; i < 2; i++) {
		struct pair_side *side = &pair->side[i];
		struct smcr_config config = pair_config(i);
		const struct smcr_config *given = i ? client : server;
		side->pair = pair;
		side->index = i;
		side->vlan = SMCR_NO_VLAN;
		side->next_qpn = 0x100 + 0x1000 * (uint32_t)i;
		side->next_key = 0x4000 + 0x10000 * (uint32_t)i;
		pair_start_engine(side, given ? given : &config);
		for (size_t n = 0; n < (i ? client_devices : server_devices); n++) {
			struct smcr_device_info info = pair_device(i, n);
			pair_add_device(pair, i, &info);
		}
	}
	return pair;
}

void pair_start_engine(struct pair_side *side, const struct smcr_config *config)
{
	const struct smcr_ops ops = pair_ops(side);
	if (smcr_engine_new(config, &ops, side->pair->now, &side->engine))
		pair_violation("engine_new");
}

static void free_clc(struct pair_end *end)
{
	struct pair_clc *clc, *next;
	DL_FOREACH_SAFE (end->in, clc, next)
		free(clc);
	end->in = NULL;
}

void pair_free(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		smcr_engine_free(pair->side[i].engine);
		if (*pair_fabric_leaks(&pair->side[i]))
			pair_violation("side %d leaks %s", i, pair_fabric_leaks(&pair->side[i]));
	}
	for (int i = 0; i < pair->num_conns; i++) {
		free_clc(&pair->conns[i].end[0]);
		free_clc(&pair->conns[i].end[1]);
	}
	free(pair->log);
	free(pair);
}

/* ---- TCP connections ---- */

struct smcr_conn_params pair_params(struct pair *pair, int side, enum smcr_role role, int conn)
{
	struct smcr_conn_params params = {
		.refuse = pair->side[side].refuse,
		.rcvbuf = pair->side[side].rcvbuf,
		.sndbuf = pair->side[side].sndbuf,
		.expected = pair->side[side].expected,
		.role = role,
		.local = { .family = AF_INET,
			   .ip = { 10, 0, pair->side[side].net, side ? 101 : 1 } },
		.peer = { .family = AF_INET,
			  .ip = { 10, 0, pair->side[side].net, side ? 1 : 101 } },
		.local_prefix_len = 24,
		.vlan = pair->side[side].vlan,
		.user = &pair->conns[conn].end[side],
		.pid = (uint32_t)(100 + conn),
	};
	if (pair->side[side].self)
		params.peer = params.local;
	if (pair->side[side].far)
		memcpy(params.peer.ip, (const uint8_t[4]){ 192, 0, 2, 7 }, 4);
	params.local.port = role == SMCR_ROLE_SERVER ? 80 : (uint16_t)(40000 + conn);
	params.peer.port = role == SMCR_ROLE_SERVER ? (uint16_t)(40000 + conn) : 80;
	return params;
}

static int new_conn(struct pair *pair, int client)
{
	int conn = pair->num_conns++;
	if (conn >= PAIR_MAX_CONNS)
		pair_violation("too many connections");
	pair->conns[conn].client = client;
	for (int i = 0; i < 2; i++)
		pair->conns[conn].end[i] =
			(struct pair_end){ .pair = pair, .side = i, .conn = conn };
	return conn;
}

static void start(struct pair *pair, int conn, int side, enum smcr_role role)
{
	struct smcr_conn_params params = pair_params(pair, side, role, conn);
	smcr_engine_run(pair->side[side].engine, pair->now);
	if (smcr_conn_start(pair->side[side].engine, &params, &pair->conns[conn].end[side].smc))
		pair_violation("conn_start");
}

int pair_start_alone(struct pair *pair, int side, enum smcr_role role)
{
	int conn = new_conn(pair, role == SMCR_ROLE_CLIENT ? side : !side);
	start(pair, conn, side, role);
	return conn;
}

int pair_connect(struct pair *pair, int client)
{
	int conn = new_conn(pair, client);
	start(pair, conn, !client, SMCR_ROLE_SERVER);
	start(pair, conn, client, SMCR_ROLE_CLIENT);
	return conn;
}

void pair_inject_clc_raw(struct pair *pair, int conn, int from, const void *data, size_t len)
{
	struct pair_clc *clc = pair_alloc(sizeof(*clc));
	if (!clc || len > sizeof(clc->buf))
		abort();
	memcpy(clc->buf, data, len);
	clc->len = len;
	DL_APPEND(pair->conns[conn].end[!from].in, clc);
}

void pair_inject_clc(struct pair *pair, int conn, int from, const struct smcr_clc_msg *msg)
{
	uint8_t buf[SMCR_CLC_MAX_LEN];
	int len = smcr_clc_encode(msg, buf, sizeof(buf));
	if (len < 0)
		pair_violation("clc_encode");
	pair_inject_clc_raw(pair, conn, from, buf, (size_t)len);
}

/** The engine gets CLC messages only while it wants some. The rest stays in the TCP connection. */
static bool read_clc(struct pair *pair, struct pair_end *end)
{
	struct pair_clc *clc = end->in;
	struct pair_msg msg = { .from = !end->side, .is_clc = true, .conn = end->conn };
	if (!clc || !end->smc || pair->side[end->side].hung || !smcr_conn_wants_clc(end->smc))
		return false;
	bool sound = !smcr_clc_decode(clc->buf, clc->len, &msg.clc);
	enum pair_verdict verdict = sound ? pair_judge(pair, &msg) : PAIR_PASS;
	if (verdict == PAIR_HOLD)
		return false;
	DL_DELETE(end->in, clc);
	if (verdict == PAIR_PASS) {
		if (sound)
			pair_log_msg(pair, &msg);
		smcr_conn_clc_input(end->smc, clc->buf, clc->len);
	}
	free(clc);
	pair_check_engines(pair);
	return true;
}

/** When a connection has ended its TCP connection, tell the other end. */
static bool pass_tcp_end(struct pair *pair, struct pair_end *end)
{
	struct pair_end *other = &pair->conns[end->conn].end[!end->side];
	bool rst = end->failed || end->reset || (end->closed && end->last.tcp_reset);
	if (rst && !end->tcp_dead) {
		end->tcp_dead = other->tcp_dead = true;
		if (other->smc && !pair->side[other->side].hung)
			smcr_conn_tcp_event(other->smc, SMCR_TCP_RESET);
	} else if (end->closed && !end->tcp_fin && !end->tcp_dead) {
		end->tcp_fin = true;
		if (other->smc && !pair->side[other->side].hung)
			smcr_conn_tcp_event(other->smc, SMCR_TCP_FIN);
	} else {
		return false;
	}
	pair_check_engines(pair);
	return true;
}

struct pair_end *pair_end(struct pair *pair, int conn, int side)
{
	return &pair->conns[conn].end[side];
}

bool pair_both_established(struct pair *pair, int conn)
{
	return pair->conns[conn].end[0].established == 1 &&
	       pair->conns[conn].end[1].established == 1 && pair->conns[conn].end[0].smc &&
	       pair->conns[conn].end[1].smc;
}

/* ---- running ---- */

void pair_check_engines(struct pair *pair)
{
	char text[256];
	for (int i = 0; i < 2; i++)
		if (smcr_engine_check(pair->side[i].engine, text, sizeof(text)))
			pair_violation("side %d: %s", i, text);
}

enum pair_verdict pair_judge(struct pair *pair, const struct pair_msg *msg)
{
	return pair->filter ? pair->filter(pair, msg, pair->filter_arg) : PAIR_PASS;
}

void pair_log_msg(struct pair *pair, const struct pair_msg *msg)
{
	if (pair->log_len == PAIR_LOG)
		pair->log_len = 0; /* the log is full: begin again, a long run counts by itself */
	pair->log[pair->log_len++] = *msg;
}

bool pair_step(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct smcr_engine *engine = pair->side[i].engine;
		uint64_t deadline = smcr_engine_next_deadline(engine);
		if (pair->side[i].hung)
			continue;
		smcr_engine_run(engine, pair->now);
		if (deadline <= pair->now) {
			pair_check_engines(pair);
			return true;
		}
	}
	for (int c = 0; c < pair->num_conns; c++)
		for (int i = 0; i < 2; i++)
			if (read_clc(pair, &pair->conns[c].end[i]) ||
			    pass_tcp_end(pair, &pair->conns[c].end[i]))
				return true;
	return pair_fabric_step(pair);
}

void pair_pump(struct pair *pair)
{
	for (unsigned int steps = 0; pair_step(pair); steps++)
		if (steps > 1000000)
			pair_violation("no end of messages");
}

void pair_run(struct pair *pair, uint64_t us)
{
	uint64_t end = pair->now + us;
	pair_pump(pair);
	for (;;) {
		uint64_t next = pair_fabric_deadline(pair);
		for (int i = 0; i < 2; i++) {
			uint64_t deadline = smcr_engine_next_deadline(pair->side[i].engine);
			if (!pair->side[i].hung)
				next = deadline < next ? deadline : next;
		}
		if (next > end)
			break;
		pair->now = next > pair->now ? next : pair->now;
		pair_pump(pair);
	}
	pair->now = end;
	pair_pump(pair);
}

int pair_connected(struct pair *pair)
{
	int conn = pair_connect(pair, PAIR_CLIENT);
	pair_pump(pair);
	if (!pair_both_established(pair, conn))
		pair_violation("a connection is not established");
	return conn;
}

struct pair *pair_grouped(size_t rnics, int *ret_conn)
{
	struct pair *pair = pair_new(NULL, NULL, rnics, rnics);
	*ret_conn = pair_connected(pair);
	pair_clear_log(pair);
	return pair;
}

/* ---- looking inside, and injecting ---- */

struct smcr_lgr *pair_lgr(struct pair *pair, int side)
{
	return pair->side[side].engine->lgrs;
}

struct smcr_link *pair_link(struct pair *pair, int side, uint8_t number)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (pair->side[side].engine->lgrs, lgr) {
		struct smcr_link *link = smcr_lgr_link_by_number(lgr, number);
		if (link)
			return link;
	}
	return NULL;
}

static struct pair_qp *qp_of(struct pair *pair, int side, uint8_t number)
{
	struct smcr_link *link = pair_link(pair, side, number);
	struct pair_qp *qp = link ? pair_fabric_qp(&pair->side[side], link->ref) : NULL;
	if (!qp)
		pair_violation("side %d has no link %u", side, number);
	return qp;
}

void pair_inject_raw(struct pair *pair, int from, uint8_t number, const void *data, size_t len)
{
	struct pair_qp *peer = pair_fabric_peer(pair, qp_of(pair, from, number));
	if (peer)
		pair_fabric_deliver(pair, peer, data, len);
}

void pair_inject_llc(struct pair *pair, int from, uint8_t number, const struct smcr_llc_msg *msg)
{
	uint8_t buf[SMCR_LLC_V2_SEND_MAX];
	struct smcr_link *link = pair_link(pair, from, number);
	if (!link)
		pair_violation("cannot inject on a link that is not there");
	int len = smcr_lgr_is_v2(link->lgr)
			  ? smcr_llc_encode_v2(msg, NULL, buf, sizeof(buf))
			  : smcr_llc_encode(msg, link->lgr->dialect, buf, sizeof(buf));
	if (len < SMCR_LLC_LEN)
		pair_violation("cannot inject");
	pair_inject_raw(pair, from, number, buf, (size_t)len);
}

void pair_fail_link(struct pair *pair, int side, uint8_t number)
{
	struct smcr_link *link = pair_link(pair, side, number);
	struct pair_qp *qp = qp_of(pair, side, number);
	pair_fabric_fail(qp);
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "made to fail");
}

void pair_qp_fails(struct pair *pair, int side, uint8_t number)
{
	uint64_t ref = pair_link_ref(pair, side, number);
	smcr_engine_qp_failed(pair->side[side].engine, ref, "made to fail");
}

void pair_add_link(struct pair *pair, int side)
{
	uint64_t id;
	const struct smcr_command command = { .type = SMCR_COMMAND_LINK_ADD,
					      .lgr = pair_lgr_view(pair, side).id };
	if (smcr_engine_command(pair->side[side].engine, &command, &id))
		pair_violation("a link cannot be asked for");
}

/* ---- what operators see ---- */

static bool first_lgr(void *arg, const struct smcr_lgr_view *view)
{
	*(struct smcr_lgr_view *)arg = *view;
	return false;
}

struct smcr_lgr_view pair_lgr_view(struct pair *pair, int side)
{
	struct smcr_lgr_view view;
	if (smcr_engine_walk_lgrs(pair->side[side].engine, 0, first_lgr, &view))
		pair_violation("side %d has no link group", side);
	return view;
}

/** A search for a link by its number. */
struct sought {
	uint8_t number;
	bool found;
	struct smcr_link_view view;
};

static void seek_link(void *arg, const struct smcr_link_view *view)
{
	struct sought *sought = arg;
	if (view->number == sought->number && !sought->found) {
		sought->view = *view;
		sought->found = true;
	}
}

struct smcr_link_view pair_link_view(struct pair *pair, int side, uint8_t number)
{
	struct sought sought = { .number = number };
	smcr_engine_each_link(pair->side[side].engine, seek_link, &sought);
	if (!sought.found)
		pair_violation("side %d has no link %u", side, number);
	return sought.view;
}

struct smcr_engine_view pair_engine_view(struct pair *pair, int side)
{
	struct smcr_engine_view view;
	smcr_engine_get_view(pair->side[side].engine, &view);
	return view;
}

struct smcr_conn_view pair_conn_view(struct pair *pair, int conn, int side)
{
	struct smcr_conn_view view;
	if (!pair_end(pair, conn, side)->smc)
		pair_violation("side %d has no connection %d", side, conn);
	smcr_conn_get_view(pair_end(pair, conn, side)->smc, &view);
	return view;
}

uint64_t pair_link_ref(struct pair *pair, int side, uint8_t number)
{
	const struct smcr_link *link = pair_link(pair, side, number);
	if (!link)
		pair_violation("side %d has no link %u", side, number);
	return link->ref;
}

/* ---- data ---- */

static uint8_t pattern(size_t i, uint8_t seed)
{
	return (uint8_t)(seed + i * 7 + (i >> 8));
}

void pair_send(struct pair *pair, int conn, int from, size_t len, uint8_t seed)
{
	struct iovec iov[2];
	struct smcr_conn *smc = pair->conns[conn].end[from].smc;
	size_t done = 0;
	int n = smc ? smcr_conn_tx_space(smc, iov) : 0;
	for (int i = 0; i < n; i++)
		for (size_t j = 0; j < iov[i].iov_len && done < len; j++, done++)
			((uint8_t *)iov[i].iov_base)[j] = pattern(done, seed);
	if (done < len)
		pair_violation("only %zu of %zu bytes fit the send buffer", done, len);
	smcr_conn_tx_commit(smc, len);
	pair_check_engines(pair);
}

void pair_expect(struct pair *pair, int conn, int at, size_t len, uint8_t seed)
{
	struct iovec iov[2];
	struct smcr_conn *smc = pair->conns[conn].end[at].smc;
	size_t done = 0;
	int n = smc ? smcr_conn_rx_data(smc, iov) : 0;
	for (int i = 0; i < n; i++)
		for (size_t j = 0; j < iov[i].iov_len && done < len; j++, done++)
			if (((uint8_t *)iov[i].iov_base)[j] != pattern(done, seed))
				pair_violation("byte %zu is wrong", done);
	if (done < len)
		pair_violation("only %zu of %zu bytes arrived", done, len);
	smcr_conn_rx_consume(smc, len);
	pair_check_engines(pair);
}

void pair_exchange(struct pair *pair, int conn)
{
	pair_send(pair, conn, PAIR_CLIENT, 1000, 3);
	pair_send(pair, conn, PAIR_SERVER, 700, 9);
	pair_pump(pair);
	pair_expect(pair, conn, PAIR_SERVER, 1000, 3);
	pair_expect(pair, conn, PAIR_CLIENT, 700, 9);
	pair_pump(pair);
}

void pair_close(struct pair *pair, int conn)
{
	for (int i = 0; i < 2; i++)
		if (pair->conns[conn].end[i].smc)
			smcr_conn_close(pair->conns[conn].end[i].smc, false);
	pair_run(pair, 1000);
	if (pair->conns[conn].end[0].smc || pair->conns[conn].end[1].smc)
		pair_violation("a connection does not close");
}

/* ---- the log ---- */

static bool is_llc(const struct pair_msg *msg, int from, uint8_t type, bool reply)
{
	return !msg->is_clc && !msg->is_cdc && msg->from == from && msg->llc.type == type &&
	       msg->llc.reply == reply;
}

static bool is_clc(const struct pair_msg *msg, int from, uint8_t type)
{
	return msg->is_clc && msg->from == from && msg->clc.type == type;
}

unsigned int pair_count_llc(const struct pair *pair, int from, uint8_t type, bool reply)
{
	unsigned int n = 0;
	for (size_t i = 0; i < pair->log_len; i++)
		n += is_llc(&pair->log[i], from, type, reply);
	return n;
}

unsigned int pair_count_clc(const struct pair *pair, int from, uint8_t type)
{
	unsigned int n = 0;
	for (size_t i = 0; i < pair->log_len; i++)
		n += is_clc(&pair->log[i], from, type);
	return n;
}

const struct pair_msg *pair_last_llc(const struct pair *pair, int from, uint8_t type, bool reply)
{
	for (size_t i = pair->log_len; i > 0; i--)
		if (is_llc(&pair->log[i - 1], from, type, reply))
			return &pair->log[i - 1];
	return NULL;
}

const struct pair_msg *pair_last_clc(const struct pair *pair, int from, uint8_t type)
{
	for (size_t i = pair->log_len; i > 0; i--)
		if (is_clc(&pair->log[i - 1], from, type))
			return &pair->log[i - 1];
	return NULL;
}

void pair_clear_log(struct pair *pair)
{
	pair->log_len = 0;
}
