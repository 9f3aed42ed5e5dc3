/* SPDX-License-Identifier: MIT */
/*
 * The orderly stop (TERM-1), on SIGTERM or SIGINT. Nothing new is begun, what there is gets some
 * time to end, then the loop ends. A second signal ends the loop at once.
 */
#include "daemon/host/log.h"
#include "daemon/internal.h"

/* How long an orderly stop waits for connections and peers before it leaves them. */
#define STOP_PATIENCE_US 3000000
/* After that RNICs go on answering for this time; soft RNICs answer that their queue pairs have
 * ended. Otherwise a peer with rdma_rxe repeats its requests forever, and the kernel's SMC-R waits
 * for that. */
#define STOP_ANSWER_US 300000
#define LOOK_US        10000 /* how often smcrd looks whether it is over */

static bool stop_finished(const struct smcrd *smcrd)
{
	return smcr_engine_idle(smcrd->engine) && conns_active(smcrd->conns) == 0;
}

void stop_on_check(evutil_socket_t fd, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	(void)fd;
	(void)what;
	uint64_t now = fabric_now();
	if (stop_finished(smcrd) && smcrd->stop_deadline > now + smcrd->stop_answer)
		smcrd->stop_deadline = now + smcrd->stop_answer;
	smcrd->done = now >= smcrd->stop_deadline;
}

/* The order counts: programs hand nothing over any more (clients_stop()) before their connections
 * are given up (conns_stop()), and the RNICs know that the process ends (fabric_leave()) before the
 * engine destroys their queue pairs. */
void stop_on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct smcrd *smcrd = arg;
	const struct timeval often = { .tv_usec = LOOK_US };
	(void)what;
	smcrd_host_at_work(smcrd);
	if (smcrd->stopping) {
		smcrd->done = true; /* asked twice: stop at once */
		return;
	}
	log_message(LOG_NOTICE, "stopping on signal %d", (int)sig);
	status_stopping(&smcrd->status);
	smcrd->stopping = true;
	smcrd->stop_deadline = fabric_now() + STOP_PATIENCE_US;
	if (!smcr_engine_idle(smcrd->engine))
		smcrd->stop_answer = STOP_ANSWER_US;
	promise_update(smcrd);
	clients_stop(smcrd->clients);
	conns_stop(smcrd->conns);
	fabric_leave(smcrd->fabric);
	smcrd_enter_engine(smcrd);
	smcr_engine_shutdown(smcrd->engine);
	event_add(smcrd->stop_check, &often);
}
