/* SPDX-License-Identifier: MIT */
/*
 * The configuration changes: its files are read again (SIGHUP, smcrctl config reload), or an
 * operator sets a value or adds an RNIC. Both come to apply(): apply_config() in apply.c checks
 * everything and changes most parts; metrics, bus and the promise to peers follow here.
 */
#include <stdlib.h>

#include "daemon/apply.h"
#include "daemon/host/log.h"
#include "daemon/internal.h"

#define RELOAD_SLOW_MS 5000

static void log_change(void *arg, const struct config_change *change)
{
	char *text = config_change_text(change);
	(void)arg;
	if (text)
		log_message(LOG_NOTICE, "%s", text);
	free(text);
}

static void apply(struct smcrd *smcrd, enum apply_what what, struct config *next,
		  struct config_notes *ret_errors, struct config_notes *ret_notes)
{
	const struct apply_parts parts = { .config = &smcrd->config,
					   .rnics = smcrd->rnics,
					   .policy = smcrd->policy,
					   .conns = smcrd->conns,
					   .waiting = &smcrd->waiting,
					   .egress = smcrd->egress };
	apply_config(&parts, what, next, ret_errors, ret_notes);
	if (!ret_errors->num && what == APPLY_FILES) {
		setup_scrape_doors(smcrd, ret_notes);
		setup_smb_listeners(smcrd, ret_notes);
	}
	if (!ret_errors->num)
		(void)setup_bus(smcrd); /* which never fails */
	promise_update(smcrd);
}

/* ---- an operator asks ---- */

void reconfigure_values(void *ctx, struct config *next, struct config_notes *ret_errors)
{
	struct config_notes notes = { .num = 0 };
	apply(ctx, APPLY_VALUES, next, ret_errors, &notes);
	describe_notes(LOG_WARNING, &notes);
	config_notes_free(&notes);
}

void reconfigure_rnics(void *ctx, struct config *next, struct config_notes *ret_errors,
		       struct config_notes *ret_notes)
{
	apply(ctx, APPLY_DEVICES, next, ret_errors, ret_notes);
	describe_notes(LOG_WARNING, ret_notes);
}

/* ---- the files are read again ---- */

static void on_loaded(void *ctx, uint64_t number, struct config *next, struct config_notes *errors)
{
	struct smcrd *smcrd = ctx;
	struct config_notes notes = { .num = 0 };
	turns_begin(&smcrd->turns, TURNS_TOOLS, fabric_now());
	if (next && !errors->num && !smcrd->stopping)
		apply(smcrd, APPLY_FILES, next, errors, &notes);
	if (!smcrd->stopping)
		describe_notes(LOG_ERR, errors);
	if (!errors->num && !smcrd->stopping) /* `next` has what held before */
		config_compare(next, &smcrd->config, log_change, NULL);
	describe_notes(LOG_WARNING, &notes);
	const struct control_reloaded outcome = { .stopping = smcrd->stopping,
						  .errors = errors,
						  .notes = &notes,
						  .before = errors->num ? NULL : next,
						  .now = &smcrd->config };
	control_reload_done(&smcrd->control, number, &outcome);
	config_notes_free(&notes);
	if (number < smcrd->reloading)
		return; /* another reload was asked for meanwhile, and its outcome counts */
	smcrd->reloading = 0;
	if (!smcrd->stopping)
		status_ready(&smcrd->status);
}

uint64_t reconfigure_begin(void *ctx)
{
	struct smcrd *smcrd = ctx;
	uint64_t number = smcrd->stopping ? 0 : reload_begin(smcrd->reload);
	if (number && !smcrd->reloading)
		status_reloading(&smcrd->status);
	if (number)
		smcrd->reloading = number;
	return number;
}

void reconfigure_on_hangup(evutil_socket_t sig, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	(void)sig;
	(void)what;
	if (smcrd->stopping)
		log_message(LOG_INFO, "the configuration is not read again: smcrd stops");
	else if (!reconfigure_begin(smcrd))
		log_message(LOG_ERR,
			    "the configuration cannot be read again now: there is no memory or "
			    "no thread to read it with; ask again later");
}

static void on_slow_reload(void *ctx)
{
	(void)ctx;
	log_message(LOG_WARNING,
		    "the configuration is still being read after %d s: a file system, or what "
		    "users and groups are looked up in, does not answer. What holds goes on, and "
		    "other reloads wait",
		    RELOAD_SLOW_MS / 1000);
}

int setup_reload(struct smcrd *smcrd)
{
	const struct reload_params params = { .base = smcrd->base,
					      .source = smcrd->source,
					      .loaded = on_loaded,
					      .slow = on_slow_reload,
					      .slow_ms = RELOAD_SLOW_MS,
					      .ctx = smcrd };
	return reload_new(&params, &smcrd->reload);
}
