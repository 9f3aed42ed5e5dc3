/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/trace.h"

#include <arpa/inet.h>

#include "daemon/host/trace.h"
#include "proto/smbdirect/text.h"

/* The client asks, and the server answers. */
static enum smbdirect_kind kind_of(const struct smbgate_message *message)
{
	if (!message->negotiates)
		return SMBDIRECT_DATA_TRANSFER;
	return message->serves == message->sent ? SMBDIRECT_NEGOTIATE_RESPONSE
						: SMBDIRECT_NEGOTIATE_REQUEST;
}

void smbgate_trace(const struct smbgate_message *message)
{
	char text[SMBDIRECT_TEXT_LEN], peer[INET6_ADDRSTRLEN] = "?";
	if (!trace_is_on(IPC_TRACE_SMBDIRECT))
		return;
	smbdirect_text(kind_of(message), message->bytes, message->len, text);
	inet_ntop(message->peer.family, message->peer.addr, peer, sizeof(peer));
	trace_tellf(IPC_TRACE_SMBDIRECT, "%s %s, %s, connection %llu: %s",
		    message->sent ? "sent to" : "received from", peer, message->rnic,
		    (unsigned long long)message->number, text);
}
