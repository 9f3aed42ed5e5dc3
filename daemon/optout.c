/* SPDX-License-Identifier: MIT */
#include "daemon/optout.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/host/log.h"

static bool listed(const struct smcr_prefix *list, size_t num, const struct smcr_prefix *prefix)
{
	for (size_t i = 0; i < num; i++)
		if (memcmp(&list[i], prefix, sizeof(*prefix)) == 0)
			return true;
	return false;
}

/* Exclude the prefixes of the present policies from the option. */
static void on_policies(void *ctx)
{
	struct optout *optout = ctx;
	struct smcr_prefix now[OPTOUT_MAX_PREFIXES];
	size_t num = ipsec_prefixes(optout->ipsec, now, OPTOUT_MAX_PREFIXES);
	for (size_t i = 0; i < optout->num_prefixes; i++)
		if (!listed(now, num, &optout->prefixes[i]))
			rdv_option_include(optout->option, &optout->prefixes[i]);
	/* Connections of a prefix without room carry the option, and are declined. */
	for (size_t i = 0; i < num; i++)
		if (!listed(optout->prefixes, optout->num_prefixes, &now[i]))
			rdv_option_exclude(optout->option, &now[i], SMCR_REASON_IPSEC);
	memcpy(optout->prefixes, now, num * sizeof(now[0]));
	optout->num_prefixes = num;
}

void optout_start(struct optout *optout, struct event_base *base, struct rdv_option *option)
{
	optout->option = option;
	int r = ipsec_watch_new(base, on_policies, optout, &optout->ipsec);
	if (r == 0)
		on_policies(optout);
	else if (r != -EPROTONOSUPPORT)
		log_message(LOG_WARNING,
			    "IPsec policies cannot be read: %s: connections under IPsec are not "
			    "recognised (CAP_NET_ADMIN is needed)",
			    strerror(-r));
}

void optout_stop(struct optout *optout)
{
	ipsec_watch_free(optout->ipsec);
	optout->ipsec = NULL;
}

enum smcr_reason optout_judge(struct optout *optout, const struct smcr_addr *local,
			      const struct smcr_addr *peer, uint32_t mark)
{
	return ipsec_applies(optout->ipsec, local, peer, mark) ? SMCR_REASON_IPSEC
							       : SMCR_REASON_NONE;
}
