/* SPDX-License-Identifier: MIT */
#include "daemon/apply.h"

#include <string.h>

#include "daemon/host/log.h"
#include "daemon/host/trace.h"
#include "proto/smcr/eid.h"

void apply_fill_conns(const struct config *config, struct conns_config *ret)
{
	ret->shared_memory = config->shared_memory;
	ret->busy_poll_us = config->busy_poll_us;
	ret->limits = (struct conns_limits){
		.sessions_per_uid = config->max_sessions_per_user,
		.conns_per_uid = config->max_connections_per_user,
		.connect_wait_ms = config->connect_wait_ms,
		.keepalive_min_s = config->tcp_keepalive_min_seconds,
	};
}

/* ---- what was added at run time stays ---- */

static bool has_ueid(const struct smcr_config *config, const uint8_t ueid[SMCR_EID_LEN])
{
	return smcr_eid_choose((const uint8_t(*)[SMCR_EID_LEN])config->ueids, config->num_ueids,
			       (const uint8_t(*)[SMCR_EID_LEN])ueid, 1) >= 0;
}

/* Append the UEIDs that were added at run time to those of the new files. @return how many UEIDs
 * there would be; `ret` gets as many as it can hold */
static size_t merge_ueids(const struct apply_parts *parts, const struct config *next,
			  struct smcr_config *ret)
{
	uint8_t present[SMCR_MAX_UEIDS][SMCR_EID_LEN];
	size_t num = smcr_engine_get_ueids(conns_engine(parts->conns), present);
	size_t n = next->engine.num_ueids;
	for (size_t i = 0; i < num; i++) {
		if (has_ueid(&parts->config->engine, present[i]) ||
		    has_ueid(&next->engine, present[i]))
			continue;
		if (n++ < SMCR_MAX_UEIDS)
			memcpy(ret->ueids[ret->num_ueids++], present[i], SMCR_EID_LEN);
	}
	return n;
}

static void check_limits(const struct apply_parts *parts, const struct config *next,
			 size_t num_ueids, struct config_notes *errors)
{
	size_t num_rules = policy_count_with(parts->policy, next->rules, next->num_rules);
	if (num_ueids > SMCR_MAX_UEIDS)
		config_note(errors,
			    "ueid: with those that 'smcrctl ueid add' has added there would be "
			    "%zu, and %d are possible: remove %zu first",
			    num_ueids, SMCR_MAX_UEIDS, num_ueids - SMCR_MAX_UEIDS);
	if (num_rules > SMCR_MAX_RULES)
		config_note(errors,
			    "deny, allow: with those that 'smcrctl policy add' has added there "
			    "would be %zu rules, and %d are possible: delete %zu first",
			    num_rules, SMCR_MAX_RULES, num_rules - SMCR_MAX_RULES);
}

/* ---- */

static void note_restarts(const struct config *config, struct config_notes *notes)
{
	for (size_t i = 0; i < config->num_settings; i++) {
		const struct config_setting *setting = &config->settings[i];
		if (setting->after_restart)
			config_note(notes, "%s: stays %s until a restart; then %s",
				    setting->key->name, setting->value, setting->after_restart);
	}
}

/* The clients keep a pointer to the path. */
static void keep_address(struct config *running, struct config *next)
{
	char *path = running->socket_path;
	running->socket_path = next->socket_path;
	next->socket_path = path;
}

/* The peer ID stays (PEER-3), and so does the host name that peers were told. */
static void exchange(struct config *running, struct config *next)
{
	struct config before = *running;
	memcpy(next->engine.peer_id, before.engine.peer_id, sizeof(next->engine.peer_id));
	memcpy(next->engine.host_name, before.engine.host_name, sizeof(next->engine.host_name));
	keep_address(&before, next);
	*running = *next;
	*next = before;
}

/* Each part of the daemon gets the new configuration; values that have not changed have no
 * effect. */
static void tell_parts(const struct apply_parts *parts, const struct smcr_config *engine)
{
	const struct config *config = parts->config;
	struct conns_config conns;
	apply_fill_conns(config, &conns);
	log_set_level(config->log_level);
	trace_set(config->engine.trace);
	waiting_set_most(parts->waiting, config->busy_poll_us);
	policy_configure(parts->policy, config->skip_seconds, &config->shorts);
	batch_begin(conns_batch(parts->conns));
	conns_configure(parts->conns, &conns);
	smcr_engine_configure(conns_engine(parts->conns), engine);
	batch_end(conns_batch(parts->conns));
}

/* Try again to attach BPF programs that could not be attached before. */
static void guard_egress(const struct apply_parts *parts, struct config_notes *notes)
{
	struct egress_view view;
	egress_set(parts->egress, parts->config->egress_guard);
	egress_get_view(parts->egress, &view);
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		if (view.errors[i][0])
			config_note(notes, "egress_guard: %s: %s",
				    egress_kind_risk((enum egress_kind)i), view.errors[i]);
}

static void check_files(const struct apply_parts *parts, struct config *next,
			struct smcr_config *engine, struct config_notes *errors)
{
	check_limits(parts, next, merge_ueids(parts, next, engine), errors);
	if (!errors->num && config_keep(parts->config, next) < 0)
		config_note(errors, "out of memory");
}

static void take_files(const struct apply_parts *parts, struct config_notes *notes)
{
	const struct config *config = parts->config;
	policy_set_configured(parts->policy, config->rules, config->num_rules);
	note_restarts(config, notes);
}

static void take_rnics(const struct apply_parts *parts, struct config_notes *notes)
{
	batch_begin(conns_batch(parts->conns));
	rnics_settle(parts->rnics, notes);
	batch_end(conns_batch(parts->conns));
}

void apply_config(const struct apply_parts *parts, enum apply_what what, struct config *next,
		  struct config_notes *ret_errors, struct config_notes *ret_notes)
{
	struct smcr_config engine = next->engine;
	if (what == APPLY_FILES)
		check_files(parts, next, &engine, ret_errors);
	else
		engine.num_ueids =
			(uint8_t)smcr_engine_get_ueids(conns_engine(parts->conns), engine.ueids);
	/* The last check: whether an RNIC can be used shows only when it is opened. */
	if (!ret_errors->num && what != APPLY_VALUES)
		rnics_prepare(parts->rnics, next, ret_errors, ret_notes);
	if (ret_errors->num)
		return;
	exchange(parts->config, next);
	tell_parts(parts, &engine);
	guard_egress(parts, ret_notes);
	if (what != APPLY_VALUES)
		take_rnics(parts, ret_notes);
	if (what == APPLY_FILES)
		take_files(parts, ret_notes);
}
