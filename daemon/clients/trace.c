/* SPDX-License-Identifier: MIT */
/* The protocol trace of sessions: each request, and each reply with its outcome. */
#include <stdio.h>
#include <string.h>

#include "daemon/clients/internal.h"

#define TEXT_LEN    320
#define CONTROL_LEN 160 /* of a CONTROL request; the rest is cut */

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {
		[IPC_HELLO] = "HELLO",
		[IPC_ERROR] = "ERROR",
		[IPC_HANDOVER] = "HANDOVER",
		[IPC_RESULT] = "RESULT",
		[IPC_STATUS_REQUEST] = "STATUS_REQUEST",
		[IPC_STATUS] = "STATUS",
		[IPC_SOCKOPT_REQUEST] = "SOCKOPT_REQUEST",
		[IPC_SOCKOPT] = "SOCKOPT",
		[IPC_CONTROL] = "CONTROL",
		[IPC_CONTROL_REPLY] = "CONTROL_REPLY",
		[IPC_INFO_REQUEST] = "INFO_REQUEST",
		[IPC_INFO] = "INFO",
		[IPC_MEMORY_REQUEST] = "MEMORY_REQUEST",
		[IPC_MEMORY] = "MEMORY",
	};
	const char *name = type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
	return name ? name : "a message of an unknown type";
}

/* Text of a client, in one line of printable characters. */
static void put_printable(char *text, size_t len, const void *bytes, size_t num)
{
	const size_t n = num < len ? num : len - 1;
	memcpy(text, bytes, n);
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	text[n] = '\0';
}

static void tell(const struct session *session, const char *what, uint8_t type, const char *text)
{
	trace_tellf(IPC_TRACE_IPC, "session %llu, pid %d, uid %u: %s %s%s%s",
		    (unsigned long long)session->number, (int)session->cred.pid,
		    (unsigned int)session->cred.uid, what, type_name(type), *text ? ", " : "",
		    text);
}

static const char *handover_text(const struct session *session)
{
	struct ipc_handover msg;
	if (ipc_decode_handover(session->payload, session->payload_len, &msg) < 0)
		return "malformed";
	switch ((enum ipc_handover_kind)msg.kind) {
	case IPC_HANDOVER_CONNECTED: return "a socket that is connected";
	case IPC_HANDOVER_CONNECTING: return "a socket that is being connected";
	case IPC_HANDOVER_ACCEPTED: return "a socket that was accepted";
	}
	return "malformed";
}

void session_tell_request(const struct session *session)
{
	char text[TEXT_LEN] = "";
	if (session->frame.type == IPC_CONTROL)
		put_printable(text, CONTROL_LEN, session->payload, session->payload_len);
	else if (session->frame.type == IPC_HANDOVER)
		snprintf(text, sizeof(text), "%s", handover_text(session));
	tell(session, "request", session->frame.type, text);
}

static void put_result(const struct ipc_result *result, char *text, size_t len)
{
	switch ((enum ipc_outcome)result->outcome) {
	case IPC_OUTCOME_PAIR: snprintf(text, len, "a pair end"); break;
	case IPC_OUTCOME_TCP:
		snprintf(text, len, "plain TCP: %s", smcr_reason_text(result->reason));
		break;
	case IPC_OUTCOME_FAILED: snprintf(text, len, "failed: %s", strerror(result->error)); break;
	case IPC_OUTCOME_OPEN: snprintf(text, len, "a pair end, still undecided"); break;
	}
}

/* Views are long, and may have what only administrators see: a refusal alone is told as it is. */
static void put_control_reply(const char *payload, size_t len, char *text, size_t room)
{
	static const char refusal[] = "{\"schema\":1,\"error\":";
	const size_t begin = sizeof(refusal) - 1;
	if (len <= begin || memcmp(payload, refusal, begin) != 0)
		snprintf(text, room, "done, %zu bytes", len);
	else
		put_printable(text, room, payload + begin, len - begin - 1);
}

void session_tell_reply(const struct session *session, enum ipc_type type, const void *payload,
			size_t len)
{
	char text[TEXT_LEN] = "";
	struct ipc_result result;
	struct ipc_error error;
	if (type == IPC_RESULT && ipc_decode_result(payload, len, &result) == 0)
		put_result(&result, text, sizeof(text));
	else if (type == IPC_ERROR && ipc_decode_error(payload, len, &error) == 0)
		snprintf(text, sizeof(text), "%s", error.text);
	else if (type == IPC_CONTROL_REPLY)
		put_control_reply(payload, len, text, sizeof(text));
	tell(session, "reply", (uint8_t)type, text);
}
