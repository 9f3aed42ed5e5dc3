/* SPDX-License-Identifier: MIT */
/* Steps of the start that serve programs: policy, connections, the Unix socket. */
#include <sys/resource.h>
#include <sys/syslog.h>

#include "daemon/apply.h"
#include "daemon/host/log.h"
#include "daemon/internal.h"

/* The log warns if there may be fewer connections at a time. Usual limits of open files for
 * services and in containers allow many more; 1024 files, as shells often have, allow 298. */
#define FEW_CONNS 1000

static void add_own_netif(void *ctx, const struct netif *netif)
{
	policy_netif(ctx, netif);
}

int setup_policy(struct smcrd *smcrd)
{
	const struct policy_params params = { .base = smcrd->base,
					      .option = smcrd->option,
					      .skip_seconds = smcrd->config.skip_seconds,
					      .shorts = smcrd->config.shorts };
	int error = policy_new(&params, &smcrd->policy);
	if (error)
		return error;
	netif_each(smcrd->netifs, add_own_netif, smcrd->policy);
	for (size_t i = 0; i < smcrd->config.num_rules; i++)
		policy_add_rule(smcrd->policy, &smcrd->config.rules[i], true);
	return 0;
}

static void warn_of_few_files(const struct conns *conns)
{
	struct rlimit files;
	uint32_t most = conns_most(conns);
	if (most >= FEW_CONNS || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	log_message(LOG_WARNING,
		    "smcrd may open %llu files, enough for %u connection%s at a time, and others "
		    "stay TCP: let it open more, three for each connection (ulimit -n, "
		    "LimitNOFILE= of the service)",
		    (unsigned long long)files.rlim_cur, most, most == 1 ? "" : "s");
}

int setup_conns(struct smcrd *smcrd)
{
	struct conns_config config = {
		.base = smcrd->base,
		.engine = smcrd->engine,
		.option = smcrd->option,
	};
	conn_callbacks_fill(smcrd, &config.callbacks);
	apply_fill_conns(&smcrd->config, &config);
	int error = conns_new(&config, &smcrd->conns);
	if (error)
		return error;
	smcrd->control.conns = smcrd->conns;
	warn_of_few_files(smcrd->conns);
	return 0;
}

int setup_clients(struct smcrd *smcrd)
{
	const struct clients_config config = {
		.base = smcrd->base,
		.conns = smcrd->conns,
		.option = smcrd->option,
		.socket_path = smcrd->config.socket_path,
		.callbacks = { .ctx = &smcrd->control,
			       .control = control_handle,
			       .administrator = control_is_administrator,
			       .control_gone = control_forget },
	};
	return clients_new(&config, &smcrd->clients, smcrd->error, DAEMON_ERROR_LEN);
}
