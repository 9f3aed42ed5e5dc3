/* SPDX-License-Identifier: MIT */
/* UEIDs: the names by which version 2 hosts know that they belong together. */
#include <errno.h>
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"
#include "daemon/engine/view.h"
#include "proto/smcr/eid.h"

struct count {
	char name[SMCR_EID_TEXT_LEN];
	json_int_t lgrs;
};

static void count_lgr(void *arg, const struct smcr_lgr_view *view)
{
	struct count *count = arg;
	if (view->version >= 2 && !strcmp(view->eid, count->name))
		count->lgrs++;
}

json_t *control_show_ueids(struct control *control)
{
	uint8_t ueids[SMCR_MAX_UEIDS][SMCR_EID_LEN];
	size_t n = smcr_engine_get_ueids(control->engine, ueids);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		struct count count = { .lgrs = 0 };
		smcr_eid_text(ueids[i], count.name);
		smcr_engine_each_lgr(control->engine, count_lgr, &count);
		json_array_append_new(list, json_pack("{s:s, s:I}", "name", count.name,
						      "linkgroups", count.lgrs));
	}
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

/* What stands in the way of version 2 is told at once, not with the first fallback. */
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
		return refuse(refusal, ENOENT, "not-found", "there is no UEID %s", params->name);
	return json_pack("{s:o}", "text",
			 json_sprintf("UEID %s: new connections do not use it; link groups that "
				      "have it stay",
				      params->name));
}
