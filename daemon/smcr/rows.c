/* SPDX-License-Identifier: MIT */
/* Names and counts of the rows of the tables of RFC 7609 3.5.5.3, C.7.1 and C.8. */
#include <stdio.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_rkey.h"

static const struct {
	const char *name, *text;
	unsigned int roles;
} rows[SMCR_NUM_ROWS] = {
#define ROW(name_, roles_, text_)                                                                  \
	[SMCR_ROW_##name_] = { "during ADD LINK", text_, roles_ },                                 \
	[SMCR_ROW_##name_##_DURING_DELETE_LINK] = { "during DELETE LINK", text_, roles_ },         \
	[SMCR_ROW_##name_##_DURING_RKEY] = { "during CONFIRM or DELETE RKEY", text_, roles_ },
	SMCR_ROWS_COLLISION(ROW)
#undef ROW
#define ROW(name_, roles_, text_) [SMCR_ROW_##name_] = { #name_, text_, roles_ },
		SMCR_ROWS_RECOVERY(ROW)
#undef ROW
};

uint32_t smcr_engine_row(const struct smcr_engine *engine, enum smcr_row row, enum smcr_role role)
{
	return engine->rows[row][role];
}

const char *smcr_row_name(enum smcr_row row, unsigned int *ret_roles)
{
	static char text[128];
	*ret_roles = rows[row].roles;
	if (row < SMCR_ROW_ERR_18)
		snprintf(text, sizeof(text), "%s %s", rows[row].text, rows[row].name);
	else
		snprintf(text, sizeof(text), "%s: %s", rows[row].name, rows[row].text);
	return text;
}

/* ---- the collision matrix ---- */

static bool link_going(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->state == SMCR_LINK_DEACTIVATING)
			return true;
	return false;
}

static bool in_progress(const struct smcr_lgr *lgr, enum smcr_row_column column)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	enum smcr_llc_exchange exchange = smcr_llc_exchange_of(flow->step);
	switch (column) {
	case SMCR_ROW_DURING_ADD_LINK: return exchange == SMCR_EXCHANGE_ADD_LINK;
	case SMCR_ROW_DURING_DELETE_LINK:
		return exchange == SMCR_EXCHANGE_DELETE_LINK ||
		       (lgr->role == SMCR_ROLE_CLIENT && link_going(lgr));
	case SMCR_ROW_DURING_RKEY:
		return flow->rkey.step != SMCR_RKEY_IDLE || smcr_llc_peer_rkey_runs(lgr);
	default: return false;
	}
}

static int row_of(const struct smcr_llc_msg *msg)
{
	switch (msg->type) {
	case SMCR_LLC_TEST_LINK: return SMCR_ROW_TEST_LINK;
	case SMCR_LLC_ADD_LINK:
	case SMCR_LLC_REQUEST_ADD_LINK: return SMCR_ROW_ADD_LINK;
	case SMCR_LLC_DELETE_LINK:
		return msg->delete_link.all ? SMCR_ROW_DELETE_ALL : SMCR_ROW_DELETE_LINK;
	case SMCR_LLC_CONFIRM_RKEY: return SMCR_ROW_CONFIRM_RKEY;
	case SMCR_LLC_DELETE_RKEY: return SMCR_ROW_DELETE_RKEY;
	case SMCR_LLC_CONFIRM_LINK: return SMCR_ROW_CONFIRM_LINK;
	default: return -1;
	}
}

void smcr_rows_collision(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg)
{
	int row = row_of(msg);
	if (msg->reply || row < 0)
		return;
	for (int column = 0; column < SMCR_ROW_COLUMNS; column++)
		if (in_progress(lgr, (enum smcr_row_column)column))
			smcr_row(lgr, (enum smcr_row)(row + column));
}
