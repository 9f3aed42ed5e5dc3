/* SPDX-License-Identifier: MIT */
/*
 * A peer that breaks a rule: one message of a script is changed, replaced, lost or followed by
 * another one, and the engine that gets it must take the row of the tables that this calls for
 * (RFC 7609 C.7.1, second list; 3.5.5.3). The observer does not look on; programs still check
 * bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/engine/rows.h"
#include "proto/smcr/llc.h"
#include "tests/sim/scenario.h"
#include "tests/sim/wire.h"

#define C  SMCR_ROLE_CLIENT
#define S  SMCR_ROLE_SERVER
#define RE true

enum how {
	CHANGE,  /* the message itself */
	INSTEAD, /* another one comes in its place */
	AFTER,   /* another one comes behind it, on the same link */
	DROP,
};

struct breach {
	enum smcr_row row; /* that must be taken .. */
	enum smcr_role by; /* .. in this role */
	/* the message of the other one, and which of that kind */
	uint8_t type;
	bool reply;
	unsigned int nth;
	enum how how;
	void (*make)(struct smcr_llc_msg *msg);
};

/* ---- what the other side says ---- */

static void wrong_qpn(struct smcr_llc_msg *msg)
{
	msg->confirm_link.qpn ^= 0x55;
}

static void reserved_mtu(struct smcr_llc_msg *msg)
{
	msg->add_link.mtu = 9;
}

static void one_more(struct smcr_llc_msg *msg)
{
	msg->add_link_cont.num_rtokens += 9;
}

static void no_others(struct smcr_llc_msg *msg)
{
	msg->confirm_rkey.num_tokens = 0;
	memset(msg->confirm_rkey.other, 0, sizeof(msg->confirm_rkey.other));
}

static void other_data(struct smcr_llc_msg *msg)
{
	msg->test_link.user_data[3] ^= 1;
}

static void unknown_key(struct smcr_llc_msg *msg)
{
	msg->delete_rkey.rkey[0] ^= 0x1234;
}

static void unknown_link(struct smcr_llc_msg *msg)
{
	msg->delete_link.link_number = 200;
}

static void test_link(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_TEST_LINK };
}

static void test_reply(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_TEST_LINK, .reply = true };
}

static void add_link(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_ADD_LINK };
	msg->add_link = (struct smcr_llc_add_link){
		.qpn = 77, .link_number = 99, .mtu = SMCR_MTU_1024, .gid = { 0xfd, [15] = 1 }
	};
}

static void delete_one(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_LINK };
	msg->delete_link.link_number = 1;
	msg->delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
}

static void delete_all(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_LINK };
	msg->delete_link.all = true;
	msg->delete_link.reason = SMCR_LLC_DEL_OPERATOR;
}

static void confirm_rkey(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_CONFIRM_RKEY };
	msg->confirm_rkey.rkey = 0x7777;
	msg->confirm_rkey.vaddr = 0x70000;
}

static void delete_rkey(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_RKEY };
	msg->delete_rkey.count = 1;
	msg->delete_rkey.rkey[0] = 0x8888;
}

static void confirm_link(struct smcr_llc_msg *msg)
{
	*msg = (struct smcr_llc_msg){ .type = SMCR_LLC_CONFIRM_LINK };
	msg->confirm_link.link_number = 1;
	msg->confirm_link.max_links = 8;
}

#define ROW(name)      SMCR_ROW_##name
#define ADDING(name)   SMCR_ROW_##name
#define DELETING(name) SMCR_ROW_##name##_DURING_DELETE_LINK
#define RKEYS(name)    SMCR_ROW_##name##_DURING_RKEY

#define CONFIRM_LINK SMCR_LLC_CONFIRM_LINK
#define ADD_LINK     SMCR_LLC_ADD_LINK
#define CONT         SMCR_LLC_ADD_LINK_CONT
#define DELETE_LINK  SMCR_LLC_DELETE_LINK
#define CONFIRM_RKEY SMCR_LLC_CONFIRM_RKEY
#define RKEY_CONT    SMCR_LLC_CONFIRM_RKEY_CONT
#define DELETE_RKEY  SMCR_LLC_DELETE_RKEY
#define TEST_LINK    SMCR_LLC_TEST_LINK

static const struct breach breaches[] = {
	{ ROW(ERR_51_FIRST), C, CONFIRM_LINK, false, 1, CHANGE, wrong_qpn },
	{ ROW(ERR_51), C, CONFIRM_LINK, false, 3, CHANGE, wrong_qpn },
	{ ROW(ERR_52), C, ADD_LINK, false, 1, CHANGE, reserved_mtu },
	{ ROW(ERR_52), C, ADD_LINK, false, 2, CHANGE, reserved_mtu },
	{ ROW(ERR_53), S, ADD_LINK, RE, 1, CHANGE, reserved_mtu },
	{ ROW(ERR_53), S, ADD_LINK, RE, 2, CHANGE, reserved_mtu },
	{ ROW(ERR_55), C, CONT, false, 3, CHANGE, one_more },
	{ ROW(ERR_55), S, CONT, RE, 3, CHANGE, one_more },
	{ ROW(ERR_56), S, DELETE_LINK, false, 1, CHANGE, unknown_link },
	{ ROW(ERR_57), C, DELETE_LINK, false, 1, CHANGE, unknown_link },
	{ ROW(ERR_58), C, CONFIRM_RKEY, false, 1, CHANGE, no_others },
	{ ROW(ERR_58), S, CONFIRM_RKEY, false, 1, CHANGE, no_others },
	{ ROW(ERR_59), C, DELETE_RKEY, false, 1, CHANGE, unknown_key },
	{ ROW(ERR_59), S, DELETE_RKEY, false, 1, CHANGE, unknown_key },
	{ ROW(ERR_60), C, TEST_LINK, RE, 1, CHANGE, other_data },
	{ ROW(ERR_60), S, TEST_LINK, RE, 1, CHANGE, other_data },
	{ ROW(ERR_61), C, CONFIRM_RKEY, false, 1, AFTER, NULL },
	{ ROW(ERR_61), S, CONFIRM_RKEY, false, 1, AFTER, NULL },
	{ ROW(ERR_63), C, CONFIRM_RKEY, false, 1, AFTER, test_reply },
	{ ROW(ERR_63), S, CONFIRM_RKEY, false, 1, AFTER, test_reply },
	{ ROW(ERR_32), C, CONT, false, 3, DROP, NULL },
	{ ROW(ERR_27), C, CONT, false, 2, DROP, NULL },
	{ ROW(ERR_39_CONT), C, RKEY_CONT, RE, 1, DROP, NULL },
	{ ROW(ERR_39_CONT), S, RKEY_CONT, RE, 1, DROP, NULL },
	/* the matrix, where only a peer that has given up its own exchange says such things */
	{ ADDING(ADD_LINK), C, CONT, false, 3, INSTEAD, add_link },
	{ ADDING(DELETE_LINK), C, CONT, false, 3, INSTEAD, delete_one },
	{ ADDING(DELETE_ALL), C, CONT, false, 3, INSTEAD, delete_all },
	{ ADDING(CONFIRM_RKEY), C, CONT, false, 3, INSTEAD, confirm_rkey },
	{ ADDING(DELETE_RKEY), C, CONT, false, 3, INSTEAD, delete_rkey },
	{ ADDING(CONFIRM_LINK), C, CONT, false, 3, INSTEAD, confirm_link },
	{ ADDING(TEST_LINK), C, CONT, false, 3, AFTER, test_link },
	{ ADDING(DELETE_ALL), S, CONT, RE, 3, INSTEAD, delete_all },
	{ ADDING(TEST_LINK), S, ADD_LINK, RE, 2, AFTER, test_link },
	{ DELETING(ADD_LINK), C, DELETE_LINK, false, 1, AFTER, add_link },
	{ DELETING(DELETE_LINK), C, DELETE_LINK, false, 1, AFTER, delete_one },
	{ DELETING(DELETE_ALL), C, DELETE_LINK, false, 1, AFTER, delete_all },
	{ DELETING(CONFIRM_RKEY), C, DELETE_LINK, false, 1, AFTER, confirm_rkey },
	{ DELETING(DELETE_RKEY), C, DELETE_LINK, false, 1, AFTER, delete_rkey },
	{ DELETING(CONFIRM_LINK), C, DELETE_LINK, false, 1, AFTER, confirm_link },
	{ DELETING(TEST_LINK), C, DELETE_LINK, false, 1, AFTER, test_link },
	{ DELETING(ADD_LINK), S, DELETE_LINK, RE, 1, INSTEAD, add_link },
	{ DELETING(DELETE_LINK), S, DELETE_LINK, RE, 1, INSTEAD, delete_one },
	{ DELETING(DELETE_ALL), S, DELETE_LINK, RE, 1, INSTEAD, delete_all },
	{ DELETING(CONFIRM_RKEY), S, DELETE_LINK, RE, 1, INSTEAD, confirm_rkey },
	{ DELETING(DELETE_RKEY), S, DELETE_LINK, RE, 1, INSTEAD, delete_rkey },
	{ DELETING(TEST_LINK), S, DELETE_LINK, RE, 1, INSTEAD, test_link },
	{ RKEYS(DELETE_ALL), C, CONFIRM_RKEY, RE, 1, INSTEAD, delete_all },
	{ RKEYS(DELETE_ALL), S, CONFIRM_RKEY, RE, 1, INSTEAD, delete_all },
	{ RKEYS(CONFIRM_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, confirm_link },
	{ RKEYS(TEST_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, test_link },
	{ RKEYS(TEST_LINK), S, CONFIRM_RKEY, RE, 1, INSTEAD, test_link },
	{ RKEYS(ADD_LINK), S, CONFIRM_RKEY, RE, 1, INSTEAD, add_link },
	{ RKEYS(ADD_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, add_link },
	{ RKEYS(DELETE_LINK), S, CONFIRM_RKEY, RE, 1, INSTEAD, delete_one },
	{ RKEYS(DELETE_LINK), C, CONFIRM_RKEY, RE, 1, INSTEAD, delete_one },
};

/* ---- breaking it ---- */

struct breaking {
	const struct breach *breach;
	unsigned int count;
	bool done;
	struct qp *to;
	uint8_t extra[SMCR_LLC_LEN];
};

static void inject_event(void *object, uint64_t arg)
{
	struct breaking *breaking = object;
	(void)arg;
	if (breaking->to->state < QP_ERR)
		wire_inject(breaking->to, breaking->extra, sizeof(breaking->extra));
}

static void encode(struct world *w, const struct smcr_llc_msg *msg, uint8_t *data)
{
	if (smcr_llc_encode(msg, SMCR_DIALECT_RFC, data, SMCR_LLC_LEN) != SMCR_LLC_LEN)
		world_fail(w, "HOST", "a message that cannot be");
}

static void on_post(struct world *w, struct qp *qp, struct request *req)
{
	struct breaking *breaking = w->breaking;
	const struct breach *breach = breaking->breach;
	struct smcr_llc_msg msg;
	bool from_server = qp->host == w->hosts[1];
	if (req->wr.is_write || breaking->done || from_server == (breach->by == S) ||
	    smcr_llc_decode(req->payload, req->wr.length, SMCR_DIALECT_RFC, &msg) < 0 ||
	    msg.type != breach->type || msg.reply != breach->reply ||
	    ++breaking->count != breach->nth)
		return;
	breaking->done = true;
	breaking->to = fabric_qp_find(w->fabric, qp->peer.qpn);
	world_log(w, "break", "%s %u of %s", smcr_llc_type_name(msg.type), breach->nth,
		  qp->host->name);
	if (breach->how == DROP) {
		req->fate = FATE_LOST;
		return;
	}
	if (breach->make)
		breach->make(&msg);
	else
		test_link(&msg);
	if (breach->how != AFTER) {
		encode(w, &msg, req->payload);
		return;
	}
	encode(w, &msg, breaking->extra);
	if (!breach->make)
		breaking->extra[0] = 0x85; /* optional, and unknown */
	/* Right behind the message. */
	clock_at(&w->clock, req->ready_at + 1, inject_event, breaking, 0);
}

/* ---- the script ---- */

static void command_event(void *object, uint64_t arg)
{
	struct host *host = object;
	struct host_links list;
	host_list_links(host, &list);
	if (!list.num)
		return;
	struct smcr_command command = { .type = (enum smcr_command_type)arg,
					.lgr = list.link[0].lgr_id,
					.link = arg == SMCR_COMMAND_LINK_ADD
							? 0
							: list.link[list.num - 1].number };
	host_command(host, &command);
}

static void test_event(void *object, uint64_t arg)
{
	(void)arg;
	host_test_links(object);
}

static void connect_at(struct world *w, uint64_t when, uint64_t linger)
{
	struct plan plan[2];
	memset(plan, 0, sizeof(plan));
	for (int s = 0; s < 2; s++)
		plan[s] = (struct plan){ .tx_total = 4000,
					 .write_min = 100,
					 .write_max = 2000,
					 .write_pause = 20000,
					 .read_min = 100,
					 .read_max = 10000,
					 .rcvbuf = 1,
					 .end = END_CLOSE_DONE,
					 .linger = linger };
	struct route route = { .host = { w->hosts[0], w->hosts[1] },
			       .lan = { 1, 1 },
			       .family = AF_INET };
	pair_open(w, &route, plan, when);
}

static void play(struct world *w)
{
	static const struct {
		uint64_t when;
		int host;
		enum smcr_command_type type;
	} commands[] = {
		{ 1200 * MSEC, 1, SMCR_COMMAND_LINK_DELETE },
		{ 1600 * MSEC, 1, SMCR_COMMAND_LINK_ADD },
		{ 2000 * MSEC, 0, SMCR_COMMAND_LINK_DELETE },
		{ 2400 * MSEC, 0, SMCR_COMMAND_LINK_ADD },
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		clock_at(&w->clock, commands[i].when, command_event, w->hosts[commands[i].host],
			 commands[i].type);
	connect_at(w, 0, 20 * SEC);
	for (int i = 0; i < 4; i++)
		connect_at(w, (300 + 50 * (uint64_t)i) * MSEC, 20 * SEC);
	connect_at(w, 600 * MSEC, 0);
	clock_at(&w->clock, SEC, test_event, w->hosts[0], 0);
	clock_at(&w->clock, SEC + 50 * MSEC, test_event, w->hosts[1], 0);
}

static void run_break(struct world *w)
{
	const struct breach *breach = &breaches[w->seed % (sizeof(breaches) / sizeof(breaches[0]))];
	struct breaking *breaking = sim_zalloc(sizeof(*breaking));
	bool many = breach->type == RKEY_CONT;
	breaking->breach = breach;
	w->breaking = breaking;
	w->posted = on_post;
	w->set = (struct settings){
		.wire_min = 5,
		.wire_max = 100,
		.ack_max = 100,
		.cq_max = 400,
		.recv_max = 0,
		.tcp_min = 10,
		.tcp_max = 100,
		.wake_max = 50,
		.failures = true,
		.timeouts = true,
		.forged = true,
		.time_limit = 1200 * SEC,
	};
	struct smcr_config config[2];
	for (int i = 0; i < 2; i++)
		config[i] = (struct smcr_config){ .dialect = SMCR_DIALECT_FORCE_RFC,
						  .max_links = 8,
						  .elements_per_rmb = 1,
						  .bsize_min = 0,
						  .send_depth = 64,
						  .lgr_idle_timeout = 100 * SEC,
						  .rmb_idle_timeout = 100 * MSEC,
						  .test_link_interval = UINT64_MAX };
	two_hosts(w, config, many ? 4 : 2, many ? 4 : 2);
	play(w);
	run_connections(w);
	if (!w->failed && !breaking->done)
		world_fail(w, "BREAK", "the message to be changed never came");
	unsigned int roles;
	if (!w->failed &&
	    !smcr_engine_row(w->hosts[breach->by == S]->engine, breach->row, breach->by))
		world_fail(w, "BREAK", "%s: the %s does not take it",
			   smcr_row_name(breach->row, &roles),
			   breach->by == S ? "server" : "client");
	run_down(w);
	free(breaking);
	w->breaking = NULL;
	w->posted = NULL;
}

const struct scenario scenarios_break[] = {
	{ "break", "a peer that breaks a rule", run_break, 1,
	  "ERR-51 ERR-52 ERR-53 ERR-54 ERR-55 ERR-56 ERR-57 ERR-58 ERR-59 ERR-60 ERR-61 ERR-63 "
	  "SER-7 "
	  "TEST-2",
	  __FILE__ },
	{ 0 },
};
