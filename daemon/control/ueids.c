/* SPDX-License-Identifier: MIT */
/* UEIDs, by which hosts with version 2 know that they belong together. */
#include <errno.h>
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"
#include "daemon/smcr/view.h"
#include "proto/smcr/eid.h"

struct counts {
	uint8_t ueids[SMCR_MAX_UEIDS][SMCR_EID_LEN];
	char names[SMCR_MAX_UEIDS][SMCR_EID_TEXT_LEN];
	json_int_t lgrs[SMCR_MAX_UEIDS];
	size_t len;
};

static void count_lgr(void *arg, const struct smcr_lgr_view *view)
{
	struct counts *counts = arg;
	for (size_t i = 0; view->version >= 2 && i < counts->len; i++)
		counts->lgrs[i] += !strcmp(view->eid, counts->names[i]);
}

json_t *control_show_ueids(struct control *control, struct page *page, struct refusal *refusal)
{
	struct counts counts = { .len = 0 };
	json_t *list = json_array();
	(void)page;
	(void)refusal;
	counts.len = smcr_engine_get_ueids(control->engine, counts.ueids);
	for (size_t i = 0; i < counts.len; i++)
		smcr_eid_text(counts.ueids[i], counts.names[i]);
	smcr_engine_each_lgr(control->engine, count_lgr, &counts);
	for (size_t i = 0; i < counts.len; i++)
		json_array_append_new(list, json_pack("{s:s, s:I}", "name", counts.names[i],
						      "linkgroups", counts.lgrs[i]));
	return list;
}

static bool parse(const char *name, uint8_t ret_ueid[SMCR_EID_LEN], struct refusal *refusal)
{
	if (!smcr_ueid_parse(name, ret_ueid))
		return true;
	refuse(refusal, EINVAL, "bad-parameter", "'%.64s' is no UEID: " SMCR_UEID_RULE, name);
	refusal->parameter = "name";
	return false;
}

/* Tell at once if something else prevents version 2, and not only with the first fallback. */
static const char *obstacle(const struct control *control)
{
	const struct smcr_config *config = &control->config->engine;
	if (config->versions == SMCR_VERSIONS_1_ONLY)
		return "; smcrd.conf allows version 1 only, so none will";
	if (config->dialect == SMCR_DIALECT_FORCE_RFC)
		return "; smcrd.conf forces the dialect of the RFC, which version 2 has not, so "
		       "none will";
	return "";
}

json_t *ueid_add(struct control *control, const struct params *params, struct refusal *refusal)
{
	uint8_t ueid[SMCR_EID_LEN];
	if (!parse(params->name, ueid, refusal))
		return NULL;
	int error = smcr_engine_add_ueid(control->engine, ueid);
	if (error == -EEXIST)
		return refuse(refusal, EEXIST, "exists", "UEID %s is there already", params->name);
	if (error)
		return refuse(refusal, ENOSPC, "full", "there are %d UEIDs; more cannot be offered",
			      SMCR_MAX_UEIDS);
	return json_pack("{s:o}", "text",
			 json_sprintf("UEID %s: new connections may use version 2 by it, until "
				      "smcrd stops%s",
				      params->name, obstacle(control)));
}

json_t *ueid_remove(struct control *control, const struct params *params, struct refusal *refusal)
{
	uint8_t ueid[SMCR_EID_LEN];
	if (!parse(params->name, ueid, refusal))
		return NULL;
	if (smcr_engine_remove_ueid(control->engine, ueid))
		return refuse(refusal, ENOENT, "not-found",
			      "there is no UEID %s; 'smcrctl ueid' lists them", params->name);
	bool configured = config_forget(control->config, "ueid", params->name);
	return json_pack("{s:o}", "text",
			 json_sprintf("UEID %s: new connections do not use it; link groups that "
				      "have it stay%s",
				      params->name,
				      configured ? "; it stands in smcrd.conf and counts again "
						   "after a restart or reload"
						 : ""));
}
