/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "daemon/smbgate/internal.h"

const char *smbgate_state_name(enum smbgate_state state)
{
	switch (state) {
	case SMBGATE_CONNECTING: return "connecting";
	case SMBGATE_NEGOTIATING: return "negotiating";
	case SMBGATE_OPEN: return "open";
	case SMBGATE_DRAINING: return "draining";
	case SMBGATE_ENDED: return "ended";
	}
	return "unknown";
}

/* ---- what is told */

static void tell(const struct gate_conn *conn, enum smbgate_what what, bool failed,
		 const char *text)
{
	const struct smbgate_told told = {
		.what = what,
		.failed = failed,
		.number = conn->number,
		.serves = conn->serves,
		.rnic = conn->rnic,
		.local = conn->local,
		.peer = conn->peer,
		.user = conn->user,
		.text = text,
	};
	conn->gate->params.told(conn->gate->params.ctx, &told);
}

void gate_tell_up(const struct gate_conn *conn)
{
	conn->gate->past.established++;
	tell(conn, SMBGATE_TOLD_UP, false, "");
}

void gate_tell_end(const struct gate_conn *conn)
{
	if (conn->was_up) {
		tell(conn, SMBGATE_TOLD_DOWN, conn->reset, conn->why);
		return;
	}
	conn->gate->past.refused++;
	tell(conn, SMBGATE_TOLD_REFUSED, true, conn->why);
}

void gate_tell_too_many(struct smbgate *gate, bool serves, const struct cm_addr *local,
			const struct cm_addr *peer, const char *user)
{
	const struct smbgate_told told = {
		.what = SMBGATE_TOLD_REFUSED,
		.failed = true,
		.serves = serves,
		.rnic = "",
		.local = *local,
		.peer = *peer,
		.user = user,
		.text = "there are too many",
	};
	gate->past.refused++;
	gate->params.told(gate->params.ctx, &told);
}

/* ---- connections */

static void get_bytes(const struct gate_conn *conn, struct smbgate_view *ret_view)
{
	ret_view->rdma_read = conn->offered_read;
	ret_view->rdma_written = conn->offered_written;
	if (!conn->rdma)
		return;
	uint64_t read, written;
	rdma_get_view(conn->rdma, &ret_view->smbd);
	rdma_get_bytes(conn->rdma, &read, &written);
	ret_view->rdma_read += read;
	ret_view->rdma_written += written;
	ret_view->memory = rdma_memory(conn->rdma);
}

static void get_view(const struct gate_conn *conn, struct smbgate_view *ret_view)
{
	const uint64_t now = gate_now();
	*ret_view = (struct smbgate_view){
		.number = conn->number,
		.state = conn->state,
		.serves = conn->serves,
		.local = conn->local,
		.peer = conn->peer,
		.channels_served = conn->channels_served,
		.channels_refused = conn->channels_refused,
		.age_us = now - conn->began_at,
		.lasted_us = (conn->ended_at ? conn->ended_at : now) - conn->began_at,
	};
	memcpy(ret_view->rnic, conn->rnic, sizeof(ret_view->rnic));
	memcpy(ret_view->user, conn->user, sizeof(ret_view->user));
	memcpy(ret_view->why, conn->why, sizeof(ret_view->why));
	get_bytes(conn, ret_view);
}

void smbgate_each(struct smbgate *gate, bool (*fn)(void *arg, const struct smbgate_view *view),
		  void *arg)
{
	const struct gate_conn *conn;
	DL_FOREACH (gate->conns, conn) {
		struct smbgate_view view;
		get_view(conn, &view);
		if (!fn(arg, &view))
			return;
	}
	for (uint64_t i = 0; i < gate->num_history && i < SMBGATE_HISTORY; i++) {
		const struct gate_ended *ended =
			&gate->history[(gate->num_history - 1 - i) % SMBGATE_HISTORY];
		struct smbgate_view view = ended->view;
		view.age_us = gate_now() - ended->began_at;
		if (!fn(arg, &view))
			return;
	}
}

/* ---- listeners */

static void put_count(const struct gate_listening *count, struct smbgate_listener_view *view)
{
	view->taken = count->taken;
	view->refused = count->refused;
	view->error = count->error;
	memcpy(view->text, count->text, sizeof(view->text));
}

static void put_peer(const struct cm_addr *peer, char *text, size_t len)
{
	char host[INET6_ADDRSTRLEN] = "?";
	inet_ntop(peer->family, peer->addr, host, sizeof(host));
	if (peer->port)
		snprintf(text, len, peer->family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
			 peer->port);
	else
		snprintf(text, len, "%s", host);
}

void smbgate_each_listener(const struct smbgate *gate,
			   void (*fn)(void *arg, const struct smbgate_listener_view *view),
			   void *arg)
{
	for (size_t i = 0; gate->config.serve && i < SMBGATE_PORTS; i++) {
		struct smbgate_listener_view view = { .serves = true };
		if (gate->config.ports[i] == 0)
			continue;
		snprintf(view.listen, sizeof(view.listen), "0.0.0.0:%u", gate->config.ports[i]);
		gate_addr_text((const struct sockaddr *)&gate->config.server, view.leads_to,
			       sizeof(view.leads_to));
		put_count(&gate->ports[i].count, &view);
		fn(arg, &view);
	}
	for (size_t i = 0; i < gate->num_doors; i++) {
		const struct gate_door *door = &gate->doors[i];
		struct smbgate_listener_view view = { .serves = false };
		gate_addr_text((const struct sockaddr *)&door->offer.listen, view.listen,
			       sizeof(view.listen));
		put_peer(&door->offer.peer, view.leads_to, sizeof(view.leads_to));
		put_count(&door->count, &view);
		fn(arg, &view);
	}
}

/* ---- sums */

/* RDMA READs bring data to the server side, WRITEs to the client side. */
static void add(const struct smbgate_view *view, struct smbgate_stats *stats)
{
	stats->sent += view->smbd.bytes_sent;
	stats->received += view->smbd.bytes_received;
	*(view->serves ? &stats->read_received : &stats->read_sent) += view->rdma_read;
	*(view->serves ? &stats->write_sent : &stats->write_received) += view->rdma_written;
	stats->channels_served += view->channels_served;
	stats->channels_refused += view->channels_refused;
}

void gate_conn_remember(const struct gate_conn *conn)
{
	struct smbgate *gate = conn->gate;
	struct gate_ended *ended = &gate->history[gate->num_history++ % SMBGATE_HISTORY];
	get_view(conn, &ended->view);
	ended->view.state = SMBGATE_ENDED;
	ended->view.memory = 0;
	ended->began_at = conn->began_at;
	add(&ended->view, &gate->past);
	gate->past.ended += conn->was_up;
}

void smbgate_get_stats(const struct smbgate *gate, struct smbgate_stats *ret_stats)
{
	const struct gate_conn *conn;
	*ret_stats = gate->past;
	ret_stats->memory = gate->budget.used;
	ret_stats->memory_most = gate->budget.most;
	DL_FOREACH (gate->conns, conn) {
		struct smbgate_view view;
		get_view(conn, &view);
		add(&view, ret_stats);
	}
}
