/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <event2/event.h>

#include "daemon/rnic/verbs/internal.h"

/* How many times the watch checks for progress within the retry time. If this process does not run
 * for a while, that counts as one check at most. */
#define LOOKS 8

static void schedule(struct verbs_qp *qp)
{
	uint64_t us = qp->limit_us / LOOKS;
	struct timeval tv = { (time_t)(us / 1000000), (suseconds_t)(us % 1000000) };
	event_add(qp->watch, &tv);
}

/* As with the soft RNIC, the user has to agree twice in a row, so that news between the two
 * questions can change the answer. */
static bool give_up(struct verbs_qp *qp)
{
	if (qp->silent_us < qp->limit_us / 2)
		return false;
	bool before = qp->may_give_up;
	qp->may_give_up = !qp->params.may_give_up ||
			  qp->params.may_give_up(qp->params.ctx, &qp->base, qp->silent_us);
	return qp->silent_us >= qp->limit_us && before && qp->may_give_up;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_qp *qp = arg;
	(void)fd;
	(void)what;
	if (qp->state != VERBS_QP_RTS || qp->sendq.head == qp->sendq.tail) {
		qp->watching = false;
		return;
	}
	if (qp->progress != qp->seen) {
		qp->silent_us = 0;
		qp->may_give_up = false;
	} else {
		qp->silent_us += qp->limit_us / LOOKS;
	}
	qp->seen = qp->progress;
	if (give_up(qp)) {
		qp->watching = false;
		qp->given_up = true;
		verbs_qp_fail(qp);
		return;
	}
	schedule(qp);
}

int verbs_watch_init(struct verbs_qp *qp)
{
	qp->watch = evtimer_new(qp->dev->base.params.base, on_look, qp);
	return qp->watch ? 0 : -ENOMEM;
}

static void set_limit(struct verbs_qp *qp, unsigned int retry_ms)
{
	uint64_t us = (uint64_t)retry_ms * 1000;
	qp->limit_us = us > qp->floor_us ? us : qp->floor_us;
}

void verbs_watch_start(struct verbs_qp *qp, unsigned int retry_ms, uint64_t floor_us)
{
	qp->floor_us = floor_us;
	set_limit(qp, retry_ms);
}

void verbs_watch_set_retry(struct rnic_qp *base, unsigned int retry_ms)
{
	struct verbs_qp *qp = (struct verbs_qp *)base;
	if (qp->state != VERBS_QP_RTS)
		return;
	set_limit(qp, retry_ms);
	if (qp->watching)
		schedule(qp);
}

void verbs_watch_posted(struct verbs_qp *qp)
{
	if (qp->watching)
		return;
	qp->watching = true;
	qp->silent_us = 0;
	qp->may_give_up = false;
	qp->seen = qp->progress;
	schedule(qp);
}
