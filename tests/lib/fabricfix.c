/* SPDX-License-Identifier: MIT */
#include "tests/lib/fabricfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/host/host_ops.h"

static void no_clc(void *user, const uint8_t *msg, size_t len)
{
	(void)user;
	(void)msg;
	(void)len;
	fail_msg("there is no connection");
}

static void no_conn_event(void *user, const struct smcr_conn_event *event)
{
	(void)user;
	(void)event;
	fail_msg("there is no connection");
}

static void no_unshare(void *user)
{
	(void)user;
	fail_msg("there is no connection");
}

static const struct smcr_conn_ops no_conns = { .clc_send = no_clc,
					       .event = no_conn_event,
					       .unshare = no_unshare };

static void on_command_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	(void)ctx;
	(void)id;
	(void)result;
}

static void on_event(void *ctx, const struct smcr_event *event)
{
	(void)ctx;
	(void)event;
}

struct smcr_engine *fabricfix_engine(struct fabric *fabric, const struct smcr_config *config,
				     const struct smcr_conn_ops *conns)
{
	const struct smcr_ops ops = { .host = &host_ops,
				      .rdma = &fabric_rdma_ops,
				      .rdma_ctx = fabric,
				      .conns = conns ? conns : &no_conns,
				      .command_done = on_command_done,
				      .event = on_event };
	struct smcr_engine *engine;
	assert_int_equal(smcr_engine_new(config, &ops, fabric_now(), &engine), 0);
	fabric_attach(fabric, engine);
	return engine;
}
