/* SPDX-License-Identifier: MIT */
/* The manual page of each object has every key of its JSON, and no other: the keys that smcrd
 * writes are compared with the items of the page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/cm/cm.h"
#include "daemon/smbgate/gate.h"
#include "daemon/conns/conns.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/rnic/backend.h"
#include "proto/smcr/eid.h"
#include "tests/lib/controlfix.h"
#include "tests/lib/tries.h"

/* ---- rows that need root, or more than two engines ---- */

size_t __wrap_rdv_option_skipped_peers(struct rdv_option *option,
				       struct rdv_skipped_peer *ret_peers, size_t max);
void __wrap_rdv_option_get_listeners(const struct rdv_option *option,
				     struct rdv_listeners *ret_listeners);
void __wrap_limits_each(const struct conns *conns,
			void (*fn)(void *arg, const struct limit_view *view), void *arg);
void __wrap_fabric_each_device(struct fabric *fabric,
			       void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg);
void __wrap_fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats);
bool __wrap_smcr_engine_walk_paths(const struct smcr_engine *engine, uint32_t after,
				   bool (*fn)(void *arg, const struct smcr_path_view *view),
				   void *arg);

size_t __wrap_rdv_option_skipped_peers(struct rdv_option *option,
				       struct rdv_skipped_peer *ret_peers, size_t max)
{
	(void)option;
	assert_true(max >= 1);
	ret_peers[0] = (struct rdv_skipped_peer){ .peer = { .family = AF_INET },
						  .seconds_left = 1,
						  .reason = "it failed" };
	return 1;
}

void __wrap_rdv_option_get_listeners(const struct rdv_option *option,
				     struct rdv_listeners *ret_listeners)
{
	(void)option;
	*ret_listeners = (struct rdv_listeners){ 0 };
}

void __wrap_limits_each(const struct conns *conns,
			void (*fn)(void *arg, const struct limit_view *view), void *arg)
{
	const struct limit_view view = { .uid = 1, .reason = SMCR_REASON_LIMIT };
	(void)conns;
	fn(arg, &view);
}

static void no_stats(const struct rnic *rnic, struct rnic_stats *ret_stats)
{
	(void)rnic;
	*ret_stats = (struct rnic_stats){ 0 };
}

void __wrap_fabric_each_device(struct fabric *fabric,
			       void (*fn)(void *arg, uint32_t id, struct rnic *rnic), void *arg)
{
	static const struct rnic_backend backend = { .get_stats = no_stats };
	struct rnic rnic = { .backend = &backend, .info = { .name = "soft:eth0", .num_gids = 1 } };
	(void)fabric;
	fn(arg, 1, &rnic);
}

void __wrap_fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats)
{
	(void)qp;
	*ret_stats = (struct rnic_qp_stats){ 0 };
}

bool __wrap_smcr_engine_walk_paths(const struct smcr_engine *engine, uint32_t after,
				   bool (*fn)(void *arg, const struct smcr_path_view *view),
				   void *arg)
{
	const struct smcr_path_view path = { .number = 1, .mtu = 1 };
	(void)engine;
	(void)after;
	return fn(arg, &path);
}

void __wrap_cm_each_conn(struct cm *cm, bool (*fn)(void *arg, const struct cm_conn_view *view),
			 void *arg);
void __wrap_cm_each_listener(struct cm *cm,
			     void (*fn)(void *arg, const struct cm_listener_view *view), void *arg);
void __wrap_cm_get_stats(const struct cm *cm, struct cm_stats *ret_stats);

void __wrap_cm_each_conn(struct cm *cm, bool (*fn)(void *arg, const struct cm_conn_view *view),
			 void *arg)
{
	const struct cm_conn_view view = { .number = 1, .state = CM_STATE_ENDED };
	(void)cm;
	fn(arg, &view);
}

void __wrap_cm_each_listener(struct cm *cm,
			     void (*fn)(void *arg, const struct cm_listener_view *view), void *arg)
{
	const struct cm_listener_view view = { .local.family = AF_INET };
	(void)cm;
	fn(arg, &view);
}

void __wrap_cm_get_stats(const struct cm *cm, struct cm_stats *ret_stats)
{
	(void)cm;
	*ret_stats = (struct cm_stats){ 0 };
}

void __wrap_smbgate_each(struct smbgate *gate,
			 bool (*fn)(void *arg, const struct smbgate_view *view), void *arg);
void __wrap_smbgate_each_listener(const struct smbgate *gate,
				  void (*fn)(void *arg, const struct smbgate_listener_view *view),
				  void *arg);
void __wrap_smbgate_get_stats(const struct smbgate *gate, struct smbgate_stats *ret_stats);

void __wrap_smbgate_each(struct smbgate *gate,
			 bool (*fn)(void *arg, const struct smbgate_view *view), void *arg)
{
	const struct smbgate_view view = { .number = 1, .state = SMBGATE_ENDED };
	(void)gate;
	fn(arg, &view);
}

void __wrap_smbgate_each_listener(const struct smbgate *gate,
				  void (*fn)(void *arg, const struct smbgate_listener_view *view),
				  void *arg)
{
	const struct smbgate_listener_view view = { .listen = "0.0.0.0:445" };
	(void)gate;
	fn(arg, &view);
}

void __wrap_smbgate_get_stats(const struct smbgate *gate, struct smbgate_stats *ret_stats)
{
	(void)gate;
	*ret_stats = (struct smbgate_stats){ 0 };
}

/* ---- a smcrd that has a row of every kind ---- */

static void nothing(void *ctx)
{
	(void)ctx;
}

static void no_outcome(struct conn_asker *asker, enum ipc_outcome outcome, int error,
		       uint32_t reason, int fd)
{
	(void)asker;
	(void)outcome;
	(void)error;
	(void)reason;
	(void)fd;
}

struct fixture {
	struct controlfix *fix;
	struct turns turns;
	json_t *reply; /* the reply that came later */
};

/* Makes a connection that is plain TCP. */
static void have_connection(struct controlfix *fix)
{
	const struct conns_config config = { .base = fix->base,
					     .engine = fix->control.engine,
					     .limits = { .history = 1 },
					     .callbacks = { .engine_enter = nothing,
							    .engine_leave = nothing } };
	const struct ipc_handover msg = { .kind = IPC_HANDOVER_CONNECTED };
	const struct rdv_verdict verdict = { .local_name.in.sin_family = AF_INET };
	struct conn_asker asker = { .outcome = no_outcome };
	assert_int_equal(conns_new(&config, &fix->control.conns), 0);
	const struct conn_offer offer = { .msg = &msg,
					  .quota = quota_get(fix->control.conns, 0),
					  .verdict_error = -ENOTCONN,
					  .verdict = &verdict,
					  .asker = &asker };
	assert_int_equal(conns_adopt(fix->control.conns, &offer, socket(AF_INET, SOCK_STREAM, 0)),
			 0);
}

static void have_policy(struct fixture *fixture)
{
	struct control *control = &fixture->fix->control;
	const struct policy_params params = { .base = fixture->fix->base,
					      .skip_seconds = 60,
					      .shorts = fixture->fix->config.shorts };
	const struct smcr_addr peer = { .family = AF_INET, .port = 80 };
	const struct rdv_place to = { .peer = peer };
	const struct smcr_needs needs = { 1, 1 };
	struct policy_rule rule;
	char why[POLICY_WHY_LEN];
	assert_int_equal(policy_new(&params, &control->policy), 0);
	assert_int_equal(policy_rule_parse("deny port 22", false, &rule, why), 0);
	assert_int_equal(policy_add_rule(control->policy, &rule, false), 0);
	policy_failed(control->policy, 0, &peer, FAILURE_PATH);
	policy_ended(control->policy, &to, 5, 100, &needs);
}

static void on_reply(void *ctx, uint64_t request, char *reply)
{
	struct fixture *fixture = ctx;
	(void)request;
	json_decref(fixture->reply);
	fixture->reply = json_loads(reply, 0, NULL);
	free(reply);
}

static void on_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct fixture *fixture = ctx;
	control_command_done(&fixture->fix->control, id, result);
}

static uint64_t on_reload(void *ctx)
{
	(void)ctx;
	return 1;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct smcr_addr peer = { .family = AF_INET };
	uint8_t ueid[SMCR_EID_LEN];
	if (!fixture || controlfix_setup((void **)&fixture->fix))
		return -1;
	struct control *control = &fixture->fix->control;
	control->turns = &fixture->turns;
	control->option = (struct rdv_option *)fixture; /* never used */
	control->cm = (struct cm *)fixture;             /* likewise */
	control->smbgate = (struct smbgate *)fixture;   /* likewise */
	control->reload = on_reload;
	fixture->fix->pair->side[PAIR_SERVER].on_command_done = on_done;
	fixture->fix->pair->side[PAIR_SERVER].on_command_ctx = fixture;
	have_connection(fixture->fix);
	have_policy(fixture);
	if (events_new(&control->events) || plain_new(NULL, &control->plain) ||
	    smcr_ueid_parse("A.B", ueid) || smcr_engine_add_ueid(control->engine, ueid))
		return -1;
	events_command(control->events, "a command", false, "done");
	plain_count(control->plain, &peer, 0, SMCR_REASON_PEER_NO_SMC);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	struct control *control = &fixture->fix->control;
	void *fix = fixture->fix;
	json_decref(fixture->reply);
	conns_free(control->conns);
	policy_free(control->policy);
	plain_free(control->plain);
	events_free(control->events);
	controlfix_teardown(&fix);
	free(fixture);
	return 0;
}

/* ---- the keys of a value as paths: "failures[].port" ---- */

/* Classes of sizes are data, not keys of their own. */
static bool is_classes(const json_t *value)
{
	const char *key = json_object_iter_key(json_object_iter((json_t *)value));
	return key && !islower((unsigned char)*key);
}

static void add(json_t *keys, const char *path, const char *end, const char *key)
{
	char *whole = NULL;
	assert_true(asprintf(&whole, "%s%s%s", path, end, key) >= 0);
	json_object_set_new(keys, whole, json_null());
	free(whole);
}

static void collect(json_t *keys, const char *path, const json_t *value)
{
	const char *key;
	char *inner = NULL;
	json_t *member;
	size_t i;
	if (!value)
		return;
	if (json_is_array(value)) {
		assert_true(asprintf(&inner, "%s%s", path, *path ? "[]" : "") >= 0);
		json_array_foreach(value, i, member)
		{
			collect(keys, inner, member);
		}
		if (json_array_size(value) == 0)
			add(keys, inner, "", "");
	} else if (json_is_object(value) && !is_classes(value)) {
		json_object_foreach((json_t *)value, key, member)
		{
			assert_true(asprintf(&inner, "%s%s%s", path, *path ? "." : "", key) >= 0);
			collect(keys, inner, member);
			free(inner);
		}
		return;
	} else
		add(keys, path, "", "");
	free(inner);
}

/* ---- the items of a manual page: words behind Va in lines with It ---- */

static json_t *items_of(const char *page)
{
	char line[512], name[128];
	json_t *items = json_object();
	snprintf(name, sizeof(name), "man/%s.8", page);
	FILE *file = fopen(name, "r");
	if (!file)
		fail_msg("there is no %s", name);
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, " Va "), *save = NULL;
		if (strncmp(line, ".It ", 4) != 0 || !at)
			continue;
		for (char *word = strtok_r(at + 4, " ,\n", &save); word;
		     word = strtok_r(NULL, " ,\n", &save))
			json_object_set_new(items, word, json_null());
	}
	fclose(file);
	return items;
}

/* "fallbacks[]" stands for all keys below it. */
static bool is_told(const json_t *keys, const char *item)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)keys, key, value)
	{
		size_t len = strlen(item);
		if (!strncmp(key, item, len) && (!key[len] || key[len] == '.'))
			return true;
	}
	return false;
}

static void compare(const char *page, const json_t *keys)
{
	const char *key;
	json_t *value, *items = items_of(page);
	unsigned int wrong = 0;
	json_object_foreach((json_t *)keys, key, value)
	{
		if (json_object_get(items, key))
			continue;
		print_error("%s(8) lacks the key %s\n", page, key);
		wrong++;
	}
	json_object_foreach(items, key, value)
	{
		if (is_told(keys, key))
			continue;
		print_error("%s(8) has the key %s, which smcrd does not tell\n", page, key);
		wrong++;
	}
	json_decref(items);
	assert_int_equal(wrong, 0);
}

/* ---- tests ---- */

static void every_key_of_a_view_is_in_its_page(void **state)
{
	static const char *const objects[] = { "info",       "device", "linkgroup", "link",
					       "connection", "rmb",    "stats",     "event",
					       "ueid",       "config", "policy",    "cm",
					       "smbdirect" };
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		TRIES("%s", objects[i]);
		char method[64], page[64];
		json_t *keys = json_object();
		snprintf(method, sizeof(method), "%s.show", objects[i]);
		snprintf(page, sizeof(page), "smcrctl-%s", objects[i]);
		fixture->fix->control.drain.on = true;
		json_t *reply = controlfix_ask(fixture->fix, true, method);
		collect(keys, "", json_object_get(reply, "result"));
		assert_true(json_object_size(keys) >= 2);
		compare(page, keys);
		json_decref(keys);
		json_decref(reply);
	}
}

/* Begins a request of root, and takes the keys of its reply, now or later. */
static void command(struct fixture *fixture, const char *request, json_t *keys)
{
	const struct clients_asker root = { .request = 1, .reply = on_reply, .reply_ctx = fixture };
	char *text = NULL;
	int error = control_handle(&fixture->fix->control, &root, request, strlen(request), &text);
	if (error == -EINPROGRESS)
		return;
	assert_int_equal(error, 0);
	on_reply(fixture, 1, text);
	collect(keys, "", json_object_get(fixture->reply, "result"));
	collect(keys, "", json_object_get(fixture->reply, "error"));
}

static void reload(struct fixture *fixture, bool good, json_t *keys)
{
	struct control *control = &fixture->fix->control;
	char sentence[] = "a sentence";
	struct config_notes none = { .num = 0 }, some = { .num = 1, .text = { sentence } };
	struct config next;
	assert_true(config_with(control->config, "log_level", "debug", &next, &none));
	const struct control_reloaded what = { .errors = good ? &none : &some,
					       .notes = good ? &some : &none,
					       .before = control->config,
					       .now = &next };
	command(fixture, "{\"method\":\"config.reload\"}", keys);
	control_reload_done(control, 1, &what);
	collect(keys, "", json_object_get(fixture->reply, good ? "result" : "error"));
	config_free(&next);
}

static void every_key_of_an_outcome_is_in_smcrctl_8(void **state)
{
	struct fixture *fixture = *state;
	json_t *keys = json_object();
	command(fixture, "{\"method\":\"link.test\",\"params\":{\"linkgroup\":1,\"link\":1}}",
		keys);
	pair_run(fixture->fix->pair, 1000);
	collect(keys, "", json_object_get(fixture->reply, "result"));
	command(fixture,
		"{\"method\":\"policy.forget\",\"params\":{\"port\":80,\"peer\":\"0.0.0.0\"}}",
		keys);
	command(fixture, "{\"method\":\"link.test\"}", keys);
	reload(fixture, true, keys);
	reload(fixture, false, keys);
	compare("smcrctl", keys);
	json_decref(keys);
}

/* ---- names of states ---- */

static void expect_name(const char *page, const char *name)
{
	char line[256], item[64], file_name[128];
	bool found = false;
	snprintf(file_name, sizeof(file_name), "man/%s.8", page);
	snprintf(item, sizeof(item), ".It Li %s\n", name);
	FILE *file = fopen(file_name, "r");
	assert_non_null(file);
	while (!found && fgets(line, sizeof(line), file))
		found = !strcmp(line, item);
	fclose(file);
	if (!found)
		fail_msg("%s(8) lacks %s", page, name);
}

static void expect_states(const char *page, const char *(*name)(int state))
{
	int state = 0;
	for (; strcmp(name(state), "unknown") != 0; state++)
		expect_name(page, name(state));
	assert_true(state >= 4);
}

static void every_state_is_in_its_page(void **state)
{
	static const char *const others[] = { "failed", "handed-back", "plain" };
	(void)state;
	expect_states("smcrctl-connection", smcr_conn_state_name);
	expect_states("smcrctl-link", smcr_link_state_name);
	for (int cm = CM_STATE_ASKING; cm <= CM_STATE_ENDED; cm++)
		expect_name("smcrctl-cm", cm_state_name((enum cm_state)cm));
	for (int smb = SMBGATE_CONNECTING; smb <= SMBGATE_ENDED; smb++)
		expect_name("smcrctl-smbdirect", smbgate_state_name((enum smbgate_state)smb));
	for (int cm = CM_END_DISCONNECTED; cm <= CM_END_LOCAL; cm++)
		expect_name("smcrctl-cm", cm_end_name((enum cm_end)cm));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		TRIES("%s", others[i]);
		expect_name("smcrctl-connection", others[i]);
	}
	for (int mode = CONN_MODE_PENDING; mode <= CONN_MODE_TCP; mode++)
		expect_name("smcrctl-connection", conn_mode_name((enum conn_mode)mode));
	for (int kind = FAILURE_PATH; kind <= FAILURE_ECHO; kind++)
		expect_name("smcrctl-policy", failure_name((enum failure_kind)kind));
	for (int kind = 0; kind < NUM_EVENT_KINDS; kind++)
		expect_name("smcrctl-event", event_kind_name((enum event_kind)kind));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_key_of_a_view_is_in_its_page, setup,
						teardown),
		cmocka_unit_test(every_state_is_in_its_page),
		cmocka_unit_test_setup_teardown(every_key_of_an_outcome_is_in_smcrctl_8, setup,
						teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
