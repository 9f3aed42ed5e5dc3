/* SPDX-License-Identifier: MIT */
/* TEST LINK: is a link still alive? (RFC 7609 4.5.3, A.3.8) */
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc_test_link.h"

/** ERR-38, TEST-5: connections on the link move to another one, or are reset if it was the last. */
static void on_test_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_link *link = arg;
	(void)engine;
	smcr_row(link->lgr, SMCR_ROW_ERR_38);
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "no answer to TEST LINK");
}

void smcr_llc_test_link_init(struct smcr_link *link)
{
	smcr_timer_init(&link->test_timer, on_test_timer, link);
}

void smcr_llc_test_link(struct smcr_link *link)
{
	struct smcr_engine *engine = link->lgr->engine;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_TEST_LINK };
	if (smcr_timer_running(&link->test_timer))
		return; /* one probe serves all */
	engine->ops.host->random(engine->ops.host_ctx, link->test_data, sizeof(link->test_data));
	memcpy(msg.test_link.user_data, link->test_data, sizeof(link->test_data));
	smcr_timer_start(engine, &link->test_timer, engine->config.llc_timeout);
	link->test_sent = engine->now;
	smcr_llc_send(link, &msg);
}

int smcr_engine_test_link(struct smcr_engine *engine, uint32_t lgr_id, uint8_t number)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (engine->lgrs, lgr) {
		struct smcr_link *link = smcr_lgr_link_by_number(lgr, number);
		if (lgr->id != lgr_id || !link)
			continue;
		if (link->state != SMCR_LINK_ACTIVE)
			return -ENETDOWN;
		smcr_llc_test_link(link);
		return 0;
	}
	return -ENOENT;
}

void smcr_llc_on_test_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_msg reply = *msg;
	reply.reply = true;
	if (smcr_link_usable(link) && link->deletion.state != SMCR_DELETION_AGREED)
		smcr_llc_send(link, &reply); /* TEST-1 */
}

void smcr_llc_on_test_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	if (!smcr_timer_running(&link->test_timer)) {
		smcr_llc_unexpected(link, "TEST LINK reply without a request");
		return;
	}
	smcr_timer_stop(link->lgr->engine, &link->test_timer);
	if (memcmp(msg->test_link.user_data, link->test_data, sizeof(link->test_data))) {
		smcr_row(link->lgr, SMCR_ROW_ERR_60);
		smcr_llc_protocol_error(link,
					"TEST LINK reply with other data"); /* TEST-2, ERR-60 */
		return;
	}
	link->lgr->doubted = false;
	smcr_llc_link_answers(link);
	const uint64_t rtt = link->lgr->engine->now - link->test_sent;
	smcr_news_of_link(link, (struct smcr_news){ .type = SMCR_NEWS_LINK_ANSWERED, .rtt = rtt });
}
