/* SPDX-License-Identifier: MIT */
/* What the service manager and the log say of smcrd as a whole. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/host/log.h"
#include "daemon/internal.h"

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

void describe_status(void *ctx, char ret_text[STATUS_LEN])
{
	struct smcrd *smcrd = ctx;
	struct smcr_engine_view view;
	smcr_engine_get_view(smcrd->engine, &view);
	size_t rnics = fabric_num_devices(smcrd->fabric);
	snprintf(ret_text, STATUS_LEN,
		 "%s%zu RNIC%s, TCP option %s; %u link group%s, %u connection%s over SMC-R",
		 smcrd->control.drain.on ? "draining; " : "", rnics, plural(rnics),
		 smcrd->option ? "in use" : "not available", view.num_lgrs, plural(view.num_lgrs),
		 view.num_conns, plural(view.num_conns));
}

static void list_rnic(void *arg, uint32_t id, struct rnic *rnic)
{
	FILE *out = arg;
	struct rnic_info info;
	(void)id;
	rnic_get_info(rnic, &info);
	fprintf(out, " %s", info.name);
}

void describe_start(struct smcrd *smcrd)
{
	const struct config *config = &smcrd->config;
	uint32_t most = conns_most(smcrd->conns);
	char *rnics = NULL;
	size_t size;
	FILE *out = open_memstream(&rnics, &size);
	if (out) {
		fabric_each_device(smcrd->fabric, list_rnic, out);
		fclose(out);
	}
	log_message(LOG_NOTICE,
		    "smcrd " SMCRD_VERSION " serves on %s; RNICs:%s; TCP option %s; limits: "
		    "%llu MiB of buffers, %u connection%s, %u of a user, %u links of a group; %s",
		    config->socket_path, rnics && *rnics ? rnics : " none",
		    smcrd->option ? "in use" : "not available",
		    (unsigned long long)config->engine.memory_budget >> 20, most, plural(most),
		    config->max_connections_per_user, config->engine.max_links, smcrd->files);
	free(rnics);
}

void describe_notes(int priority, const struct config_notes *notes)
{
	size_t kept = config_notes_kept(notes);
	for (size_t i = 0; i < kept; i++)
		log_message(priority, "%s", config_note_text(notes, i));
	if (kept < notes->num)
		log_message(priority, "and %zu more", notes->num - kept);
}
