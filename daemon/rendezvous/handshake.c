/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <ifaddrs.h>
#include <linux/bpf.h> /* BPF_TCP_*: the states of TCP_INFO; netinet/tcp.h and linux/tcp.h clash */
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <unistd.h>

#include "daemon/rendezvous/spoken.h"

/* ---- addresses */

int rdv_read_name(int fd, bool peer, union ipc_addr *ret_name)
{
	union ipc_addr name = { 0 };
	socklen_t len = sizeof(name);
	if ((peer ? getpeername(fd, &name.sa, &len) : getsockname(fd, &name.sa, &len)) < 0)
		return -errno;
	if (name.sa.sa_family != AF_INET && name.sa.sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (name.sa.sa_family == AF_INET6)
		name.in6.sin6_flowinfo = 0;
	*ret_name = name;
	return 0;
}

struct smcr_addr rdv_addr_of(const union ipc_addr *name)
{
	struct smcr_addr addr = { .family = AF_INET };
	if (name->sa.sa_family == AF_INET) {
		memcpy(addr.ip, &name->in.sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&name->in6.sin6_addr)) {
		memcpy(addr.ip, name->in6.sin6_addr.s6_addr + 12, 4);
	} else {
		addr.family = AF_INET6;
		memcpy(addr.ip, &name->in6.sin6_addr, 16);
	}
	addr.port = ntohs(name->in.sin_port); /* has the same offset in both families */
	return addr;
}

/* ---- is it fit for a rendezvous */

static int refuse(struct rdv_verdict *verdict, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(struct rdv_verdict *verdict, int error, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(verdict->text, sizeof(verdict->text), format, ap);
	va_end(ap);
	return error;
}

/** An option of level SOL_SOCKET that is an int. @return its value or a negative errno */
static int int_option(int fd, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);
	return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -errno : value;
}

static bool read_tcp_info(int fd, struct tcp_info *ret_info)
{
	socklen_t len = sizeof(*ret_info);
	memset(ret_info, 0, sizeof(*ret_info));
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ret_info, &len) == 0;
}

/* Raw sockets may have TCP's protocol number too, but have no TCP_INFO. */
static int verify_kind_of_socket(int fd, struct tcp_info *ret_info, struct rdv_verdict *verdict)
{
	int protocol = int_option(fd, SO_PROTOCOL);
	if (protocol < 0)
		return refuse(verdict, protocol, "the descriptor handed over is not a socket: %s",
			      strerror(-protocol));
	if (protocol == IPPROTO_MPTCP)
		return refuse(verdict, -EPROTONOSUPPORT,
			      "the socket is an MPTCP socket, whose data SMC-R cannot carry");
	if (protocol != IPPROTO_TCP || !read_tcp_info(fd, ret_info))
		return refuse(verdict, -EPROTONOSUPPORT,
			      "the socket is not a TCP socket (address family %d, protocol %d)",
			      int_option(fd, SO_DOMAIN), protocol);
	return 0;
}

static int verify_namespace(int fd, struct rdv_verdict *verdict)
{
	uint64_t own = 0, cookie = 0;
	socklen_t len = sizeof(cookie);
	if (verdict->option.claimed)
		return 0; /* the BPF programs take claims in the daemon's namespace only */
	int r = rdv_netns_cookie(&own);
	if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		r = -errno;
	if (r < 0)
		return refuse(verdict, r, "cannot tell the socket's network namespace: %s",
			      strerror(-r));
	if (cookie != own)
		return refuse(verdict, -EXDEV,
			      "the socket belongs to another network namespace than the daemon");
	return 0;
}

static int verify_claim(const struct rdv_option *option, struct rdv_verdict *verdict)
{
	if (verdict->marked)
		return 0;
	if (!option)
		return refuse(verdict, -EOPNOTSUPP,
			      "the daemon runs without the SMC-R TCP option on this host");
	if (!verdict->option.claimed)
		return refuse(verdict, -EACCES,
			      "the socket was not claimed before connect() or listen()");
	return 0;
}

static bool state_fits(uint8_t state, enum ipc_handover_kind kind)
{
	switch (kind) {
	case IPC_HANDOVER_CONNECTING:
		/* The handshake may have ended by now, with or without success. */
		return state == BPF_TCP_SYN_SENT || state == BPF_TCP_ESTABLISHED ||
		       state == BPF_TCP_CLOSE_WAIT || state == BPF_TCP_CLOSE;
	case IPC_HANDOVER_CONNECTED:
	case IPC_HANDOVER_ACCEPTED:
		/* If the peer is gone already, a FIN or RST shows that later. */
		return state == BPF_TCP_ESTABLISHED || state == BPF_TCP_CLOSE_WAIT;
	}
	return false;
}

static const char *kind_name(enum ipc_handover_kind kind)
{
	switch (kind) {
	case IPC_HANDOVER_CONNECTED: return "connected";
	case IPC_HANDOVER_CONNECTING: return "connecting";
	case IPC_HANDOVER_ACCEPTED: return "accepted";
	}
	return NULL;
}

/* Bytes that the peer has sent and nobody has read; its FIN counts as one. */
static uint64_t unread_bytes(int fd, const struct tcp_info *info)
{
	int queued = 0;
	uint64_t fin = info->tcpi_state == BPF_TCP_CLOSE_WAIT;
	if (ioctl(fd, SIOCINQ, &queued) < 0 || queued < 0)
		queued = 0;
	uint64_t unread = (uint64_t)queued + fin;
	return unread < info->tcpi_bytes_received ? MAX(unread, spoken_peek(fd) + fin) : unread;
}

static int verify_no_data(int fd, const struct tcp_info *info, struct rdv_verdict *verdict)
{
	uint64_t sent = info->tcpi_bytes_sent, received = info->tcpi_bytes_received, read = 0;
	if (received)
		read = received - MIN(received, unread_bytes(fd, info));
	if (!sent && !info->tcpi_notsent_bytes && !read)
		return 0;
	return refuse(verdict, -EISCONN,
		      "application data has passed already: %llu bytes sent, %llu read",
		      (unsigned long long)sent, (unsigned long long)read);
}

static int verify_progress(int fd, enum ipc_handover_kind kind, const struct tcp_info *info,
			   struct rdv_verdict *verdict)
{
	if (!state_fits(info->tcpi_state, kind))
		return refuse(verdict, -ENOTCONN, "TCP state %u is not that of a %s socket",
			      info->tcpi_state, kind_name(kind));
	/* With TCP_FASTOPEN_CONNECT the SYN is sent with the first write, which would never
	 * come. */
	if (info->tcpi_state == BPF_TCP_SYN_SENT && !info->tcpi_unacked)
		return refuse(verdict, -ENOTCONN,
			      "connect() was deferred by TCP_FASTOPEN_CONNECT: no SYN was sent");
	if (info->tcpi_state == BPF_TCP_CLOSE)
		return 0; /* the connect() has failed already, as waiting for it will show */
	return verify_no_data(fd, info, verdict);
}

/** While a connect() is in progress only the BPF programs know its address. */
static int read_addrs(int fd, struct rdv_verdict *verdict)
{
	int r = rdv_read_name(fd, false, &verdict->local_name);
	int peer_r = r < 0 ? r : rdv_read_name(fd, true, &verdict->peer_name);
	if (r == 0)
		verdict->local = rdv_addr_of(&verdict->local_name);
	if (peer_r == 0)
		verdict->peer = rdv_addr_of(&verdict->peer_name);
	else if (r == 0 && verdict->option.peer.family)
		verdict->peer = verdict->option.peer;
	else
		return refuse(verdict, peer_r, "cannot read the socket's addresses: %s",
			      strerror(-peer_r));
	return 0;
}

/* ---- the mark of a promise */

static int syn_retries(int fd)
{
	int value = 0;
	socklen_t len = sizeof(value);
	return getsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &value, &len) < 0 ? 0 : value;
}

/* What the BPF programs know counts more than the mark, which any program can set. */
static void look_for_mark(int fd, enum ipc_handover_kind kind, struct rdv_verdict *verdict)
{
	struct rdv_option_state *option = &verdict->option;
	if (kind != IPC_HANDOVER_ACCEPTED || option->negotiated == IPC_NEGOTIATED_NO ||
	    option->negotiated == IPC_NEGOTIATED_UNCLAIMED)
		return;
	verdict->marked = option->syn_retries || syn_retries(fd) == IPC_PROMISE_MARK;
	if (!verdict->marked)
		return;
	option->claimed = true;
	option->role = SMCR_ROLE_SERVER;
	option->negotiated = IPC_NEGOTIATED_YES;
}

/* The value of a socket whose program never set it. */
static int usual_syn_retries(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int value = fd < 0 ? 0 : syn_retries(fd);
	if (fd >= 0)
		close(fd);
	return value;
}

void rdv_unmark(int fd, const struct rdv_verdict *verdict)
{
	if (!verdict->marked)
		return;
	int value = verdict->option.syn_retries;
	if (!value)
		value = usual_syn_retries();
	if (value)
		setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &value, sizeof(value));
}

/* ---- the whole check */

int rdv_verify_socket(const struct rdv_option *option, int fd, enum ipc_handover_kind kind,
		      struct rdv_verdict *ret_verdict)
{
	struct tcp_info info;
	memset(ret_verdict, 0, sizeof(*ret_verdict));
	if (!kind_name(kind))
		return refuse(ret_verdict, -EINVAL, "unknown kind of handover %d", (int)kind);
	int r = verify_kind_of_socket(fd, &info, ret_verdict);
	if (r < 0)
		return r;
	r = rdv_option_query(option, fd, &ret_verdict->option);
	if (r < 0)
		return refuse(ret_verdict, r, "cannot look the socket up: %s", strerror(-r));
	r = verify_namespace(fd, ret_verdict);
	look_for_mark(fd, kind, ret_verdict);
	if (r == 0)
		r = verify_progress(fd, kind, &info, ret_verdict);
	if (r == 0)
		r = read_addrs(fd, ret_verdict);
	return r < 0 ? r : verify_claim(option, ret_verdict);
}

/* ---- a connect() in progress */

struct rdv_connect_wait {
	const struct rdv_option *option;
	int fd;
	struct event *event;
	rdv_connected_cb callback;
	void *ctx;
};

/** @return the TCP state, or BPF_TCP_CLOSE when there is none */
static uint8_t tcp_state(int fd)
{
	struct tcp_info info;
	return read_tcp_info(fd, &info) ? info.tcpi_state : BPF_TCP_CLOSE;
}

static void on_connect_end(evutil_socket_t fd, short what, void *arg)
{
	struct rdv_connect_wait *wait = arg;
	struct rdv_option_state state = { 0 };
	(void)what;
	/* TCP_INFO takes the socket lock, so the BPF callback of a handshake that has just ended
	 * has run when it returns. */
	uint8_t tcp = tcp_state(fd);
	if (tcp == BPF_TCP_SYN_SENT || tcp == BPF_TCP_SYN_RECV)
		return;
	int error = int_option(fd, SO_ERROR);
	if (error < 0)
		error = -error;
	if (!error && tcp == BPF_TCP_CLOSE)
		error = ECONNREFUSED; /* another process has read the error from the socket */
	if (!error)
		error = -rdv_option_query(wait->option, fd, &state);
	rdv_connected_cb callback = wait->callback;
	void *ctx = wait->ctx;
	rdv_connect_wait_cancel(wait);
	callback(ctx, error, &state);
}

int rdv_connect_wait(struct event_base *base, const struct rdv_option *option, int fd,
		     rdv_connected_cb callback, void *ctx, struct rdv_connect_wait **ret_wait)
{
	struct rdv_connect_wait *wait = calloc(1, sizeof(*wait));
	if (!wait)
		return -ENOMEM;
	wait->option = option;
	wait->fd = fd;
	wait->callback = callback;
	wait->ctx = ctx;
	/* Edge-triggered, like the CLC stream that may follow on the same descriptor. */
	wait->event = event_new(base, fd, EV_WRITE | EV_ET | EV_PERSIST, on_connect_end, wait);
	if (!wait->event || event_add(wait->event, NULL) < 0) {
		rdv_connect_wait_cancel(wait);
		return -ENOMEM;
	}
	*ret_wait = wait;
	return 0;
}

void rdv_connect_look(struct rdv_connect_wait *wait)
{
	on_connect_end(wait->fd, 0, wait);
}

void rdv_connect_wait_cancel(struct rdv_connect_wait *wait)
{
	if (!wait)
		return;
	if (wait->event)
		event_free(wait->event);
	free(wait);
}

/* ---- SO_LINGER */

int rdv_linger_arm(int fd, struct linger *ret_before)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	struct linger before;
	socklen_t len = sizeof(before);
	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &before, &len) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) < 0)
		return -errno;
	*ret_before = before;
	return 0;
}

int rdv_linger_restore(int fd, const struct linger *before)
{
	return setsockopt(fd, SOL_SOCKET, SO_LINGER, before, sizeof(*before)) < 0 ? -errno : 0;
}

/* ---- where an address is */

static uint8_t mask_length(const struct sockaddr *mask)
{
	const uint8_t *bytes = NULL;
	size_t n = 0;
	uint8_t bits = 0;
	if (mask && mask->sa_family == AF_INET) {
		bytes = (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr;
		n = 4;
	} else if (mask && mask->sa_family == AF_INET6) {
		bytes = (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
		n = 16;
	}
	for (size_t i = 0; i < n; i++)
		bits = (uint8_t)(bits + __builtin_popcount(bytes[i]));
	return bits;
}

static bool is_address(const struct sockaddr *sa, const struct smcr_addr *addr)
{
	if (!sa || sa->sa_family != addr->family)
		return false;
	if (addr->family == AF_INET)
		return !memcmp(&((const struct sockaddr_in *)sa)->sin_addr, addr->ip, 4);
	return !memcmp(&((const struct sockaddr_in6 *)sa)->sin6_addr, addr->ip, 16);
}

/** VLAN id of an interface, SMCR_NO_VLAN if it is no VLAN interface. */
static uint16_t vlan_of(const char *ifname)
{
	struct vlan_ioctl_args args = { .cmd = GET_VLAN_VID_CMD };
	uint16_t vlan = SMCR_NO_VLAN;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return SMCR_NO_VLAN;
	snprintf(args.device1, sizeof(args.device1), "%s", ifname);
	if (ioctl(fd, SIOCGIFVLAN, &args) == 0 && args.u.VID >= 0 && args.u.VID < 4095)
		vlan = (uint16_t)args.u.VID;
	close(fd);
	return vlan;
}

int rdv_path_of(const struct smcr_addr *local, struct rdv_path *ret_path)
{
	struct ifaddrs *all = NULL;
	if (local->family != AF_INET && local->family != AF_INET6)
		return -EINVAL;
	if (getifaddrs(&all) < 0)
		return -errno;
	const struct ifaddrs *ifa = all;
	while (ifa && !is_address(ifa->ifa_addr, local))
		ifa = ifa->ifa_next;
	if (!ifa) {
		freeifaddrs(all);
		return -EADDRNOTAVAIL;
	}
	struct rdv_path path = { .prefix_len = mask_length(ifa->ifa_netmask) };
	/* The label of an IPv4 address may be "eth0:1". */
	snprintf(path.ifname, sizeof(path.ifname), "%.*s", (int)strcspn(ifa->ifa_name, ":"),
		 ifa->ifa_name);
	freeifaddrs(all);
	path.ifindex = if_nametoindex(path.ifname);
	path.vlan = vlan_of(path.ifname);
	*ret_path = path;
	return 0;
}
