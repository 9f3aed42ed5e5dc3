/* SPDX-License-Identifier: MIT */
/* Steps of the start that serve programs: policy, connections, the Unix socket. */
#include "daemon/apply.h"
#include "daemon/internal.h"

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
	smcrd->control.conns = smcrd->conns;
	return error;
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
