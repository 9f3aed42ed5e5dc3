/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <utlist.h>

#include "daemon/smbgate/internal.h"

static const struct smbgate_config defaults = {
	.ports = { 5445, 445 },
	.conns = 256,
	.conns_per_peer = 64,
	.memory = 512u << 20,
	.memory_per_conn = 64u << 20,
	/* Data of messages that are signed or encrypted are in the messages, and Samba's client
	 * sends 8 MiB in one: with a head of SMB, one of encryption, and room for a compound. */
	.smbd.max_fragmented_size = (8u << 20) + 65536,
};

uint64_t gate_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void gate_addr_text(const struct sockaddr *addr, char *text, size_t len)
{
	char host[INET6_ADDRSTRLEN] = "?";
	if (addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)addr;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, len, "%s:%u", host, ntohs(in->sin_port));
	} else if (addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)addr;
		inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
		snprintf(text, len, "[%s]:%u", host, ntohs(in->sin6_port));
	} else if (addr->sa_family == AF_UNIX) {
		snprintf(text, len, "%s", ((const struct sockaddr_un *)addr)->sun_path);
	} else {
		snprintf(text, len, "%s", host);
	}
}

/* ---- listeners */

/* Those that are not established count, so a peer can only hold as many (SMBD-171). */
static unsigned int conns_with(const struct smbgate *gate, const struct cm_addr *peer)
{
	const struct gate_conn *conn;
	unsigned int n = 0;
	DL_FOREACH (gate->conns, conn) {
		n += conn->serves && conn->peer.family == peer->family &&
		     memcmp(conn->peer.addr, peer->addr, sizeof(peer->addr)) == 0;
	}
	return n;
}

static void on_cm(void *ctx, struct cm_conn *cm, const struct cm_event *event)
{
	struct gate_port *port = ctx;
	struct smbgate *gate = port->gate;
	struct cm_addr local, peer;
	if (event->type != CM_REQUEST)
		return;
	cm_conn_addrs(cm, &local, &peer);
	if (gate->num_conns < gate->config.conns &&
	    conns_with(gate, &peer) < gate->config.conns_per_peer) {
		port->count.taken++;
		gate_conn_serve_request(gate, cm);
		return;
	}
	port->count.refused++;
	gate_tell_too_many(gate, true, &local, &peer, "");
	cm_reject(cm, NULL, 0);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr,
		      int len, void *arg)
{
	struct gate_door *door = arg;
	struct smbgate *gate = door->gate;
	char user[64];
	(void)listener;
	(void)len;
	if (gate->num_conns >= gate->config.conns) {
		door->count.refused++;
		gate_addr_text(addr, user, sizeof(user));
		gate_tell_too_many(gate, false, &(struct cm_addr){ 0 }, &door->offer.peer, user);
		evutil_closesocket(fd);
		return;
	}
	door->count.taken++;
	gate_conn_offer_socket(gate, &door->offer, fd);
}

static void close_listeners(struct smbgate *gate)
{
	for (size_t i = 0; i < SMBGATE_PORTS; i++) {
		if (gate->ports[i].listener)
			cm_listener_free(gate->ports[i].listener);
		gate->ports[i].listener = NULL;
	}
	for (size_t i = 0; i < gate->num_doors; i++) {
		if (gate->doors[i].listener)
			evconnlistener_free(gate->doors[i].listener);
		gate->doors[i].listener = NULL;
	}
	gate->num_doors = 0;
}

static int listen_rdma(struct smbgate *gate, char *ret_error)
{
	int first = 0;
	for (size_t i = 0; i < SMBGATE_PORTS; i++) {
		const struct cm_addr local = { .family = AF_INET, .port = gate->config.ports[i] };
		char error[CM_ERROR_LEN];
		struct gate_port *port = &gate->ports[i];
		*port = (struct gate_port){ .gate = gate };
		if (local.port == 0)
			continue;
		int failed =
			cm_listen(gate->params.cm, &local, on_cm, port, &port->listener, error);
		if (!failed)
			continue;
		port->count.error = failed;
		snprintf(port->count.text, SMBGATE_TEXT_LEN, "%s", error);
		if (!first)
			snprintf(ret_error, SMBGATE_TEXT_LEN, "%s", error);
		first = first ? first : failed;
	}
	return first;
}

static int open_door(struct smbgate *gate, const struct smbgate_offer *offer, char *ret_error)
{
	struct gate_door *door = &gate->doors[gate->num_doors++];
	*door = (struct gate_door){ .gate = gate, .offer = *offer };
	door->listener = evconnlistener_new_bind(
		gate->params.base, on_accept, door,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, 64,
		(const struct sockaddr *)&offer->listen, (int)offer->listen_len);
	if (door->listener)
		return 0;
	int error = errno;
	char text[64];
	gate_addr_text((const struct sockaddr *)&offer->listen, text, sizeof(text));
	door->count.error = -error;
	snprintf(door->count.text, SMBGATE_TEXT_LEN, "cannot listen on %s: %s", text,
		 strerror(error));
	snprintf(ret_error, SMBGATE_TEXT_LEN, "smbdirect: %s", door->count.text);
	return -error;
}

#define FILL(field)                                                                                \
	do {                                                                                       \
		if (gate->config.field == 0)                                                       \
			gate->config.field = defaults.field;                                       \
	} while (0)

int smbgate_configure(struct smbgate *gate, const struct smbgate_config *config,
		      char ret_error[SMBGATE_TEXT_LEN])
{
	int error = 0;
	if (gate->complete && memcmp(&gate->given, config, sizeof(*config)) == 0)
		return 0;
	close_listeners(gate);
	gate->given = *config;
	gate->config = *config;
	FILL(conns);
	FILL(conns_per_peer);
	FILL(memory);
	FILL(memory_per_conn);
	FILL(smbd.max_fragmented_size);
	if (config->ports[0] == 0)
		memcpy(gate->config.ports, defaults.ports, sizeof(defaults.ports));
	gate->budget.most = gate->config.memory;
	if (config->serve)
		error = listen_rdma(gate, ret_error);
	for (size_t i = 0; i < config->num_offers; i++) {
		int failed = open_door(gate, &config->offers[i], ret_error);
		error = error ? error : failed;
	}
	gate->complete = !error;
	return error;
}

/* ---- life */

int smbgate_new(const struct smbgate_params *params, struct smbgate **ret_gate)
{
	struct smbgate *gate = calloc(1, sizeof(*gate));
	if (!gate)
		return -ENOMEM;
	gate->params = *params;
	gate->config = defaults;
	gate->budget.most = gate->config.memory;
	*ret_gate = gate;
	return 0;
}

void smbgate_free(struct smbgate *gate)
{
	if (!gate)
		return;
	close_listeners(gate);
	while (gate->conns)
		gate_conn_free(gate->conns);
	free(gate);
}

int smbgate_disconnect(struct smbgate *gate, uint64_t number)
{
	struct gate_conn *conn;
	DL_FOREACH (gate->conns, conn) {
		if (conn->number == number) {
			gate_conn_end(conn, true, "an administrator has ended it");
			return 0;
		}
	}
	return -ENOENT;
}
