/* SPDX-License-Identifier: MIT */
/* Steps of the start that load the BPF programs and keep them informed. smcrd serves without them:
 * then connections stay TCP, but for those to networks that the configuration names. */
#include <errno.h>
#include <string.h>

#include "daemon/host/log.h"
#include "daemon/internal.h"
#include "daemon/rendezvous/sole.h"

/* smcrd serves without the option, but not beside another smcrd. */
int setup_option(struct smcrd *smcrd)
{
	int error = rdv_option_open(smcrd->cgroup, smcrd->config.socket_path, &smcrd->option,
				    smcrd->option_error);
	if (!error) {
		smcrd->option_error[0] = '\0';
		return 0;
	}
	smcrd->option = NULL;
	if (error == -EALREADY)
		return sole_refuse(smcrd->error, DAEMON_ERROR_LEN);
	log_message(LOG_WARNING, "the SMC-R TCP option cannot be used, connections stay TCP%s: %s",
		    smcrd->config.num_capable_subnets ? " but to the capable_subnet networks" : "",
		    smcrd->option_error);
	return 0;
}

/* smcrd serves without the counts. */
int setup_tally(struct smcrd *smcrd)
{
	int error = smcrd->option ? rdv_tally_open(smcrd->option, &smcrd->tally) : 0;
	if (!error)
		error = plain_new(smcrd->tally, &smcrd->plain);
	if (error)
		log_message(LOG_WARNING,
			    "connections that are plain TCP cannot be counted, smcrctl shows only "
			    "those that were handed over: %s",
			    strerror(-error));
	return 0;
}

/* smcrd serves without these BPF programs too, but says so. */
int setup_egress(struct smcrd *smcrd)
{
	struct egress_view view;
	int error = egress_new(smcrd->cgroup, smcrd->option, &smcrd->egress);
	if (error)
		return error;
	egress_set(smcrd->egress, smcrd->config.egress_guard);
	egress_get_view(smcrd->egress, &view);
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		if (view.errors[i][0])
			log_message(LOG_WARNING, "%s: %s", egress_kind_risk((enum egress_kind)i),
				    view.errors[i]);
	return 0;
}

int setup_heartbeat(struct smcrd *smcrd)
{
	const struct heartbeat_of of = { .turns = &smcrd->turns,
					 .option = smcrd->option,
					 .plain = smcrd->plain,
					 .egress = smcrd->egress,
					 .events = smcrd->events };
	return heartbeat_start(&smcrd->heartbeat, smcrd->base, &of);
}

int setup_optout(struct smcrd *smcrd)
{
	optout_start(&smcrd->optout, smcrd->base, smcrd->option);
	return 0;
}
