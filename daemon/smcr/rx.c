/* SPDX-License-Identifier: MIT */
/* The own element: data that the peer has written (RMB-2), and telling the peer what was read (RFC
 * 7609 4.2, 4.4, 4.5.1). The engine itself writes into the element only in smcr_rx_prepare()
 * (RMB-4). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/probes.h"

/* RFC 7609 4.2 leaves the value to the owner of the RMB; this is the eye catcher of CLC
 * messages. */
static const uint8_t eye_catcher[4] = { 0xE2, 0xD4, 0xC3, 0xD9 };

/* RMB-3: before the element is announced, zero those bytes that may not be zero (A62). */
void smcr_rx_prepare(struct smcr_conn *conn)
{
	struct smcr_element *element = &conn->rx.element;
	uint32_t *dirty = &element->slab->dirty[element->index - 1];
	memset(element->addr, 0, *dirty);
	memcpy(element->addr, eye_catcher, sizeof(eye_catcher));
	*dirty = element->size;
}

/* This saves time: zeroing 64 KiB was a sixth of the processor time of a short connection. */
void smcr_rx_settle(struct smcr_conn *conn)
{
	const struct smcr_conn_rx *rx = &conn->rx;
	const struct smcr_element *element = &rx->element;
	if (!element->slab || !rx->closed || rx->aborted)
		return;
	uint64_t end = element->size - rx->usable + rx->produced;
	if (end < element->size)
		element->slab->dirty[element->index - 1] = (uint32_t)end;
}

/* RMB-5. */
bool smcr_rx_eye_catcher_ok(const struct smcr_conn *conn)
{
	if (conn->rx.usable == conn->rx.element.size)
		return true; /* deployed dialect: these bytes are data */
	return memcmp(conn->rx.element.addr, eye_catcher, sizeof(eye_catcher)) == 0;
}

bool smcr_rx_update_due(const struct smcr_conn *conn)
{
	const struct smcr_conn_rx *rx = &conn->rx;
	uint64_t gain = rx->consumed - rx->consumed_sent;              /* Wr - Ws */
	uint64_t ws = rx->usable - (rx->produced - rx->consumed_sent); /* as the peer knows it */
	if (!gain)
		return false;
	if (rx->peer_blocked || rx->update_requested) /* WIN-3, WIN-4 */
		return true;
	if (rx->urgent && rx->consumed >= rx->urgent_end) /* URG-6 */
		return true;
	return 2 * ws < rx->usable && 10 * gain >= rx->usable; /* WIN-1, A25 */
}

int smcr_conn_rx_data(struct smcr_conn *conn, struct iovec iov[2])
{
	if (!smcr_data_usable(conn))
		return 0;
	uint64_t len = conn->rx.produced - conn->rx.consumed;
	if (len && !smcr_rx_eye_catcher_ok(conn)) {
		if (!conn->reset_raised) /* else this call comes from inside that event */
			smcr_close_local_abort(conn, ECONNRESET,
					       "eye catcher of the element overwritten");
		return 0;
	}
	struct smcr_ring ring = smcr_rx_ring(conn);
	int n = 0;
	for (uint64_t pos = conn->rx.consumed; len > 0; n++) {
		uint64_t run = smcr_ring_run(ring, pos);
		if (run > len)
			run = len;
		iov[n] = (struct iovec){ conn->rx.element.addr + smcr_ring_offset(ring, pos), run };
		pos += run;
		len -= run;
	}
	return n;
}

static void count_request(struct smcr_conn *conn, size_t n)
{
	struct smcr_flow_stats *stats = &conn->engine->stats.rx;
	conn->rx.requests++;
	stats->requests++;
	stats->request_bytes += n;
	stats->sizes[smcr_size_class(n)]++;
}

void smcr_conn_rx_consume(struct smcr_conn *conn, size_t n)
{
	if (!n || !smcr_data_usable(conn))
		return;
	assert(n <= conn->rx.produced - conn->rx.consumed);
	conn->rx.consumed += n;
	count_request(conn, n);
	smcr_probe_recvmsg(conn, n);
	if (!smcr_rx_update_due(conn))
		return;
	conn->tx.cdc_due = true;
	smcr_tx_push(conn);
}

bool smcr_conn_rx_eof(const struct smcr_conn *conn)
{
	return (conn->rx.done || conn->rx.closed) && conn->rx.consumed == conn->rx.produced;
}
