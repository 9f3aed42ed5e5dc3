/* SPDX-License-Identifier: MIT */
/**
 * @file trace.h
 * The categories of the protocol trace. This is the only list of them: smcrctl completes them,
 * the configuration has them as values of log_trace, and the daemon and its engine ask
 * whether a category is on.
 */
#ifndef SMCRD_IPC_TRACE_H
#define SMCRD_IPC_TRACE_H

/** X(type, name): IPC_TRACE_type, and the word of operators */
#define IPC_TRACES(X)                                                                              \
	X(CLC, "clc")             /* messages that set up a connection */                          \
	X(LLC, "llc")             /* messages about links and memory */                            \
	X(CDC, "cdc")             /* messages of connections: cursors and flags */                 \
	X(RNIC, "rnic")           /* queue pairs, memory and ports of RNICs */                     \
	X(CM, "cm")               /* messages of the connection manager */                         \
	X(SMBDIRECT, "smbdirect") /* messages of SMB Direct */                                     \
	X(IPC, "ipc")             /* requests of programs and tools to smcrd, and its replies */

enum ipc_trace {
#define IPC_TRACE_TYPE(type, ...) IPC_TRACE_##type,
	IPC_TRACES(IPC_TRACE_TYPE)
#undef IPC_TRACE_TYPE
		IPC_NUM_TRACES
};

/** A category in a set of categories. */
#define IPC_TRACE_BIT(type) (1u << (type))

/** The value of log_trace that means no category, and the one that means all of them. */
#define IPC_TRACE_NONE "none"
#define IPC_TRACE_ALL  "all"

/** The word of a category; static storage. */
static inline const char *ipc_trace_name(enum ipc_trace category)
{
	static const char *const names[] = {
#define IPC_TRACE_NAME(type, name) [IPC_TRACE_##type] = name,
		IPC_TRACES(IPC_TRACE_NAME)
#undef IPC_TRACE_NAME
	};
	return names[category];
}

#endif
