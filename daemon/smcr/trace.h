/* SPDX-License-Identifier: MIT */
/**
 * @file trace.h
 * The protocol trace: each message as a line of the log, in the categories that operators have
 * turned on (struct smcr_config). A category that is off costs a load and a branch.
 */
#ifndef SMCRD_SMCR_TRACE_H
#define SMCRD_SMCR_TRACE_H

#include "daemon/smcr/internal.h"
#include "proto/ipc/trace.h"

enum smcr_trace_way {
	SMCR_TRACE_SENT,
	SMCR_TRACE_RECEIVED,
};

/* Write the line: somebody wants it. */
void smcr_trace_tell_clc(const struct smcr_conn *conn, enum smcr_trace_way way, const uint8_t *msg,
			 size_t len);
void smcr_trace_tell_llc(const struct smcr_link *link, enum smcr_trace_way way,
			 const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens);
void smcr_trace_tell_cdc(const struct smcr_conn *conn, const struct smcr_link *link,
			 enum smcr_trace_way way, const struct smcr_cdc *cdc);

void smcr_trace_tell_link(const struct smcr_link *link, const char *what, int rc);
void smcr_trace_tell_device(const struct smcr_engine *engine, const struct smcr_device_info *info,
			    const char *what);

static inline bool smcr_trace_is_on(const struct smcr_engine *engine, enum ipc_trace category)
{
	return __builtin_expect(engine->config.trace & IPC_TRACE_BIT(category), 0);
}

/** A CLC message, sound or not, as on the wire. */
static inline void smcr_trace_clc(const struct smcr_conn *conn, enum smcr_trace_way way,
				  const uint8_t *msg, size_t len)
{
	if (smcr_trace_is_on(conn->engine, IPC_TRACE_CLC))
		smcr_trace_tell_clc(conn, way, msg, len);
}

/** An LLC message on a link. @param msg NULL: it could not be decoded
 * @param rtokens  of ADD LINK in version 2, else NULL */
static inline void smcr_trace_llc(const struct smcr_link *link, enum smcr_trace_way way,
				  const struct smcr_llc_msg *msg,
				  const struct smcr_llc_rtokens *rtokens)
{
	if (smcr_trace_is_on(link->lgr->engine, IPC_TRACE_LLC))
		smcr_trace_tell_llc(link, way, msg, rtokens);
}

/** A CDC message of a connection on a link. */
static inline void smcr_trace_cdc(const struct smcr_conn *conn, const struct smcr_link *link,
				  enum smcr_trace_way way, const struct smcr_cdc *cdc)
{
	if (smcr_trace_is_on(conn->engine, IPC_TRACE_CDC))
		smcr_trace_tell_cdc(conn, link, way, cdc);
}

/** Something was done to a link's queue pair, or to memory on it. @param rc 0 or a negative errno
 */
static inline void smcr_trace_link(const struct smcr_link *link, const char *what, int rc)
{
	if (smcr_trace_is_on(link->lgr->engine, IPC_TRACE_RNIC))
		smcr_trace_tell_link(link, what, rc);
}

/** An RNIC has come, changed or gone. */
static inline void smcr_trace_device(const struct smcr_engine *engine,
				     const struct smcr_device_info *info, const char *what)
{
	if (smcr_trace_is_on(engine, IPC_TRACE_RNIC))
		smcr_trace_tell_device(engine, info, what);
}

#endif
