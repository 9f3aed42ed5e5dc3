/* SPDX-License-Identifier: MIT */
/*
 * Makes TCP_INFO, SIOCOUTQ and SIOCOUTQNSD describe the program's stream. The TCP connection behind
 * a pair end is idle while SMC-R carries the bytes, and with a relay it knows only of some of them.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>

#include "daemon/conns/internal.h"
#include "daemon/smcr/view.h"

/* States of a TCP socket as TCP_INFO tells them. netinet/tcp.h has them, but clashes with
 * linux/tcp.h. */
enum {
	ESTABLISHED = 1,
	FIN_WAIT1 = 4,
	FIN_WAIT2 = 5,
	CLOSE_WAIT = 8,
	LAST_ACK = 9,
};

/* A stream as TCP counts it. */
struct stream {
	uint64_t taken,
		received; /* bytes that the program wrote; bytes that arrived from the peer */
	uint64_t unsent, unacked; /* bytes of `taken`; unsent bytes are unacked too */
	bool tx_ended, rx_ended;
};

static bool over_smcr(const struct conn *conn)
{
	return conn->smc && (conn->phase == PHASE_SMCR || conn->phase == PHASE_CLOSING);
}

static struct stream smcr_stream(const struct conn *conn)
{
	struct smcr_conn_view view;
	smcr_conn_get_view(conn->smc, &view);
	uint64_t held =
		conn->pump
			.urgent_waits; /* an urgent byte that was taken and is not committed yet */
	return (struct stream){
		.taken = conn->pump.tx_bytes,
		.received = view.rx_bytes,
		.unsent = view.tx_unsent + held,
		.unacked = view.tx_unacked + held,
		.tx_ended = view.tx_ended,
		.rx_ended = view.rx_ended,
	};
}

static uint64_t tcp_count(int tcp, unsigned long request)
{
	int value = 0;
	return ioctl(tcp, request, &value) == 0 && value > 0 ? (uint64_t)value : 0;
}

static struct stream relayed_stream(const struct conn *conn)
{
	const struct relay *relay = &conn->relay;
	uint64_t rest = relay->tx_rest.data ? relay->tx_rest.len - relay->tx_rest.at : 0;
	uint64_t fin = relay->tx_ended; /* SIOCOUTQ counts the FIN until it is acknowledged */
	uint64_t unacked = tcp_count(conn->tcp, SIOCOUTQ);
	uint64_t unsent = tcp_count(conn->tcp, SIOCOUTQNSD);
	return (struct stream){
		.taken = relay->tx_bytes,
		.received = relay->rx_bytes + tcp_count(conn->tcp, SIOCINQ),
		.unsent = rest + unsent - MIN(unsent, fin),
		.unacked = rest + unacked - MIN(unacked, fin),
		.tx_ended = relay->tx_ended,
		.rx_ended = relay->rx_ended,
	};
}

/* Bytes that still are in the pair or in shared memory count as written. */
static struct stream stream_of(const struct conn *conn)
{
	struct stream stream = { 0 };
	if (over_smcr(conn))
		stream = smcr_stream(conn);
	else if (conn->phase == PHASE_RELAY)
		stream = relayed_stream(conn);
	uint64_t pending = conn->pair.fd >= 0 ? pair_pending(&conn->pair) : 0;
	if (conn->pump.shared)
		pending += path_tx_unseen(&conn->pump.shared->tx);
	stream.taken += pending;
	stream.unsent += pending;
	stream.unacked += pending;
	return stream;
}

static uint8_t state_of(const struct conn *conn, const struct stream *stream)
{
	if (!conn->pump.write_ended && !conn->pump.tx_ended)
		return stream->rx_ended ? CLOSE_WAIT : ESTABLISHED;
	if (stream->rx_ended)
		return LAST_ACK;
	return stream->tx_ended && stream->unacked == 0 ? FIN_WAIT2 : FIN_WAIT1;
}

static bool handshake_is_over(const struct conn *conn)
{
	switch (conn->phase) {
	case PHASE_RENDEZVOUS:
	case PHASE_DECLINING:
	case PHASE_SMCR:
	case PHASE_RELAY:
	case PHASE_CLOSING: return true;
	case PHASE_CONNECTING:
	case PHASE_AGAIN:
	case PHASE_DEAD: break;
	}
	return false;
}

/* TCP_INFO counts SYN and FIN as bytes; the acknowledged SYN only on the side that connected. */
static void correct(const struct conn *conn, struct tcp_info *info)
{
	const struct stream stream = stream_of(conn);
	const bool acked = stream.tx_ended && stream.unacked == 0;
	if (conn->phase != PHASE_RELAY) {
		info->tcpi_state = state_of(conn, &stream);
		info->tcpi_bytes_retrans = 0;
	}
	info->tcpi_bytes_acked =
		stream.taken - stream.unacked + (conn->kind != IPC_HANDOVER_ACCEPTED) + acked;
	info->tcpi_bytes_received = stream.received + stream.rx_ended;
	info->tcpi_bytes_sent = stream.taken - stream.unsent + info->tcpi_bytes_retrans;
	info->tcpi_notsent_bytes = (uint32_t)MIN(stream.unsent, UINT32_MAX);
}

void tcpinfo_correct(const struct conn *conn, struct ipc_sockopt *msg)
{
	struct tcp_info info = { 0 };
	if (msg->op != IPC_SOCKOPT_GET || msg->level != IPPROTO_TCP || msg->name != TCP_INFO ||
	    msg->result != 0 || !handshake_is_over(conn))
		return;
	size_t len = MIN(msg->length, sizeof(info));
	memcpy(&info, msg->value, len);
	correct(conn, &info);
	memcpy(msg->value, &info, len);
}

void tcpinfo_control(const struct conn *conn, struct ipc_sockopt *msg)
{
	if (msg->name != SIOCOUTQ && msg->name != SIOCOUTQNSD)
		msg->result = EINVAL;
	else if (!conn || conn->tcp < 0)
		msg->result = ENOTCONN;
	if (msg->result != 0)
		return;
	const struct stream stream = stream_of(conn);
	uint64_t bytes = msg->name == SIOCOUTQ ? stream.unacked : stream.unsent;
	int value = (int)MIN(bytes, INT32_MAX);
	msg->length = MIN(msg->length, sizeof(value));
	memcpy(msg->value, &value, msg->length);
}
