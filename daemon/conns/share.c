/* SPDX-License-Identifier: MIT */
/* A program that moves many bytes asks to share the memory of its connection. If that is refused,
 * the program goes on with the pair.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syslog.h>

#include "daemon/conns/internal.h"

static bool devices_allow(const struct conns *conns)
{
	const struct conns_callbacks *callbacks = &conns->config.callbacks;
	return !callbacks->can_share || callbacks->can_share(callbacks->ctx);
}

/* Are both directions open, and does no urgent byte wait in the send buffer? */
static bool is_fit(const struct conn *conn)
{
	const struct pump *pump = &conn->pump;
	return pump->conn && !pump->closing && !pump->closed && !pump->write_ended &&
	       !pump->tx_ended && !pump->rx_ended && !pump->deaf && !pump->urgent_waits;
}

static enum ipc_memory_outcome judge(const struct conn *conn, const struct ipc_memory_request *msg)
{
	const struct conns *conns = conn->conns;
	if (msg->version != IPC_MEMORY_VERSION)
		return IPC_MEMORY_OTHER;
	if (!conns->config.shared_memory)
		return IPC_MEMORY_OFF;
	switch (conn->phase) {
	case PHASE_CONNECTING:
	case PHASE_RENDEZVOUS:
	case PHASE_DECLINING:
	case PHASE_AGAIN: return IPC_MEMORY_PENDING;
	case PHASE_RELAY:
	case PHASE_CLOSING:
	case PHASE_DEAD: return IPC_MEMORY_TCP;
	case PHASE_SMCR: break;
	}
	if (!is_fit(conn))
		return IPC_MEMORY_TCP;
	if (!devices_allow(conns))
		return IPC_MEMORY_DEVICE;
	/* One user may have half of all shared connections, and their files are of the user's
	 * share. */
	bool too_many = conns->counts.conns_shared >= conns->config.limits.shared ||
			conn->quota->shared >= (conns->config.limits.shared + 1) / 2 ||
			!limits_allow_files(conns, conn->quota, 1);
	return too_many || !pair_least_charge(&conn->pair) ? IPC_MEMORY_NONE : IPC_MEMORY_GRANTED;
}

static int start_sharing(struct conn *conn, int proof)
{
	struct conns *conns = conn->conns;
	int r = shared_open(&conn->shared, conn->smc, conns_now_us());
	if (r < 0)
		return r;
	conn->pump.shared = &conn->shared;
	conn->was_shared = true;
	conn->quota->shared++;
	limits_count_files(conns, conn->quota, 1);
	conns->counts.conns_shared++;
	conns->counts.shared++;
	pair_narrow(&conn->pair, proof);
	path_tx_set_backlog(&conn->shared.tx, pair_pending(&conn->pair) > 0);
	pump_note(&conn->pump, 0);
	conn_mark(conn);
	return 0;
}

/* @return a descriptor of the memory for the program, or a negative errno */
static int share(struct conn *conn, int proof)
{
	if (!conn->pump.shared) {
		int r = start_sharing(conn, proof);
		if (r < 0) {
			conns_warn_of_user(
				conn->conns, conn->cred.uid, "no shared memory",
				"cannot share memory with pid %d, its connection stays slower: %s",
				(int)conn->cred.pid, strerror(-r));
			return r;
		}
	}
	int fd = fcntl(conn->shared.fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int conns_share(struct conns *conns, int proof, const struct ipc_memory_request *msg,
		struct ipc_memory *ret_memory, int *ret_fd)
{
	struct ipc_memory memory = { .outcome = IPC_MEMORY_TCP };
	struct shown shown;
	int fd = -1;
	int r = shown_look_up(conns, proof, &shown);
	if (r < 0)
		return r;
	if (shown.conn && shown.conn->pump.shared)
		memory.outcome = IPC_MEMORY_GRANTED;
	else if (shown.conn)
		memory.outcome = (uint8_t)judge(shown.conn, msg);
	if (memory.outcome == IPC_MEMORY_GRANTED) {
		fd = share(shown.conn, proof);
		if (fd < 0)
			memory.outcome = IPC_MEMORY_NONE;
	}
	if (fd >= 0) {
		memory.layout = shown.conn->shared.layout;
		memory.least_charge = pair_least_charge(&shown.conn->pair);
	}
	*ret_memory = memory;
	*ret_fd = fd;
	return 0;
}
