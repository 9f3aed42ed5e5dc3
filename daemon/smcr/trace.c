/* SPDX-License-Identifier: MIT */
#include "daemon/smcr/trace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/smcr/text.h"

/* Where a message went or came from: an address and what is behind it. */
#define PLACE_LEN (INET6_ADDRSTRLEN + 80)

static void tell(struct smcr_engine *engine, enum ipc_trace category, enum smcr_trace_way way,
		 const char *place, const char *text)
{
	char line[SMCR_TEXT_LEN + PLACE_LEN + 32];
	if (engine->silent)
		return;
	snprintf(line, sizeof(line), "%s %s: %s",
		 way == SMCR_TRACE_SENT ? "sent to" : "received from", place, text);
	engine->ops.host->trace(engine->ops.host_ctx, category, line);
}

static const char *address(const struct smcr_addr *addr, char ret_text[INET6_ADDRSTRLEN])
{
	return inet_ntop(addr->family, addr->ip, ret_text, INET6_ADDRSTRLEN) ? ret_text : "?";
}

/* "192.0.2.2 port 443, own port 40112" */
static int put_conn(char *text, size_t len, const struct smcr_conn *conn)
{
	char name[INET6_ADDRSTRLEN];
	return snprintf(text, len, "%s port %u, own port %u", address(&conn->params.peer, name),
			conn->params.peer.port, conn->params.local.port);
}

void smcr_trace_tell_clc(const struct smcr_conn *conn, enum smcr_trace_way way, const uint8_t *msg,
			 size_t len)
{
	char place[PLACE_LEN], text[SMCR_TEXT_LEN];
	struct smcr_clc_msg decoded;
	int rc = smcr_clc_decode(msg, len, &decoded);
	put_conn(place, sizeof(place), conn);
	if (rc && rc != -ENOTSUP)
		snprintf(text, sizeof(text), "a malformed message of %zu bytes", len);
	else
		smcr_clc_text(&decoded, text);
	tell(conn->engine, IPC_TRACE_CLC, way, place, text);
}

void smcr_trace_tell_llc(const struct smcr_link *link, enum smcr_trace_way way,
			 const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens)
{
	char place[PLACE_LEN], text[SMCR_TEXT_LEN] = "a malformed or unknown message";
	char name[INET6_ADDRSTRLEN];
	const struct smcr_lgr *lgr = link->lgr;
	snprintf(place, sizeof(place), "%s, link %u/%u", address(&lgr->peer, name), lgr->id,
		 link->number);
	if (msg)
		smcr_llc_text(msg, rtokens, text);
	tell(lgr->engine, IPC_TRACE_LLC, way, place, text);
}

void smcr_trace_tell_cdc(const struct smcr_conn *conn, const struct smcr_link *link,
			 enum smcr_trace_way way, const struct smcr_cdc *cdc)
{
	char place[PLACE_LEN], text[SMCR_TEXT_LEN];
	int n = put_conn(place, sizeof(place), conn);
	snprintf(place + n, sizeof(place) - (size_t)n, ", link %u/%u", link->lgr->id, link->number);
	smcr_cdc_text(cdc, text);
	tell(conn->engine, IPC_TRACE_CDC, way, place, text);
}

/* "soft:eth1, 192.0.2.2, link 1/1: queue pair to ready to receive: done" */
void smcr_trace_tell_link(const struct smcr_link *link, const char *what, int rc)
{
	char line[SMCR_DEVICE_NAME_LEN + PLACE_LEN + 128], name[INET6_ADDRSTRLEN];
	const struct smcr_lgr *lgr = link->lgr;
	const struct smcr_engine *engine = lgr->engine;
	if (engine->silent)
		return;
	snprintf(line, sizeof(line), "%s, %s, link %u/%u: %s: %s", link->device_name,
		 address(&lgr->peer, name), lgr->id, link->number, what,
		 rc ? strerror(-rc) : "done");
	engine->ops.host->trace(engine->ops.host_ctx, IPC_TRACE_RNIC, line);
}

void smcr_trace_tell_device(const struct smcr_engine *engine, const struct smcr_device_info *info,
			    const char *what)
{
	char line[SMCR_DEVICE_NAME_LEN + 256];
	if (engine->silent)
		return;
	snprintf(line, sizeof(line), "%s: %s, port %s%s%s, path MTU %u", info->name, what,
		 info->active ? "up" : "down", !info->active && info->down ? ": " : "",
		 !info->active && info->down ? info->down : "", smcr_mtu_bytes(info->mtu));
	engine->ops.host->trace(engine->ops.host_ctx, IPC_TRACE_RNIC, line);
}
