/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/rnic/soft/internal.h"

/* Socket buffers take several windows (window.c) of small packets, for each of which the kernel
 * charges more than twice its size. So a burst of several QPs is not lost in this host's socket. */
#define SOCKET_BUFFER (32 << 20)

/* The ICRC does not cover the TTL, so any value is right. 64 is the default of Linux. */
#define TIME_TO_LIVE 64

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct soft_endpoint *ep = arg;
	soft_device_run(ep->dev);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct soft_endpoint *ep = arg;
	ep->blocked = false;
	for (struct soft_qp *qp = ep->dev->qps; qp; qp = qp->hh.next) {
		if (qp->ep == ep)
			soft_qp_busy(qp);
	}
	soft_device_run(ep->dev);
}

void soft_endpoint_block(struct soft_endpoint *ep)
{
	ep->blocked = true;
	event_add(ep->writable, NULL);
}

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? -errno : 0;
}

/* Set a buffer size beyond the system's limit if that is permitted, else up to the limit. */
static void set_buffer(int fd, int force, int plain)
{
	if (set_int(fd, SOL_SOCKET, force, SOCKET_BUFFER))
		set_int(fd, SOL_SOCKET, plain, SOCKET_BUFFER);
}

/* The socket is unconnected and sends with "do not fragment". The kernel then sets the IP
 * identification to 0, or to 0, 1, 2.. for the segments of one send. The ICRC is computed for that
 * (tx.c). */
static int socket_setup(struct soft_endpoint *ep, const char **ret_what)
{
	const char *ifname = ep->dev->base.info.netdev;
	int r;
	*ret_what = "bind to the interface";
	if (setsockopt(ep->fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, (socklen_t)strlen(ifname) + 1))
		return -errno;
	*ret_what = "set IP_MTU_DISCOVER";
	if ((r = set_int(ep->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)))
		return r;
	*ret_what = "set IP_TTL";
	if ((r = set_int(ep->fd, IPPROTO_IP, IP_TTL, TIME_TO_LIVE)))
		return r;
	*ret_what = "set IP_RECVTOS";
	if ((r = set_int(ep->fd, IPPROTO_IP, IP_RECVTOS, 1)))
		return r;
	*ret_what = "set UDP_GRO";
	if ((r = set_int(ep->fd, IPPROTO_UDP, UDP_GRO, 1)))
		return r;
	set_buffer(ep->fd, SO_RCVBUFFORCE, SO_RCVBUF);
	set_buffer(ep->fd, SO_SNDBUFFORCE, SO_SNDBUF);
	*ret_what = "bind";
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(ep->dev->port),
				   .sin_addr = ep->addr };
	return bind(ep->fd, (struct sockaddr *)&sin, sizeof(sin)) ? -errno : 0;
}

static void explain(const struct soft_endpoint *ep, const char *what, int error, char *ret_error)
{
	char addr[INET_ADDRSTRLEN];
	inet_ntop(AF_INET, &ep->addr, addr, sizeof(addr));
	if (error == -EADDRINUSE) {
		char holder[80];
		soft_port_holder(ep->addr, ep->dev->port, holder, sizeof(holder));
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic soft:%s: cannot bind UDP %s:%u: address in use by %s; stop it or "
			 "name "
			 "another interface",
			 ep->dev->base.info.netdev, addr, ep->dev->port, holder);
		return;
	}
	snprintf(ret_error, RNIC_ERROR_LEN, "rnic soft:%s: UDP %s:%u: cannot %s: %s%s",
		 ep->dev->base.info.netdev, addr, ep->dev->port, what, strerror(-error),
		 error == -EPERM ? "; CAP_NET_RAW is needed" : "");
}

static int open_socket(struct soft_endpoint *ep, char *ret_error)
{
	const char *what = "open a socket";
	ep->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r = ep->fd < 0 ? -errno : socket_setup(ep, &what);
	if (r) {
		explain(ep, what, r, ret_error);
		return r;
	}
	ep->readable =
		event_new(ep->dev->base.params.base, ep->fd, EV_READ | EV_PERSIST, on_readable, ep);
	ep->writable = event_new(ep->dev->base.params.base, ep->fd, EV_WRITE, on_writable, ep);
	if (!ep->readable || !ep->writable || event_add(ep->readable, NULL)) {
		explain(ep, "watch the socket", -ENOMEM, ret_error);
		return -ENOMEM;
	}
	return 0;
}

static void endpoint_free(struct soft_endpoint *ep)
{
	if (ep->readable)
		event_free(ep->readable);
	if (ep->writable)
		event_free(ep->writable);
	if (ep->fd >= 0)
		close(ep->fd);
	free(ep);
}

int soft_endpoint_open(struct soft_device *dev, struct in_addr addr, uint8_t prefix_len,
		       struct soft_endpoint **ret_ep, char ret_error[RNIC_ERROR_LEN])
{
	struct soft_endpoint *ep = calloc(1, sizeof(*ep));
	if (!ep) {
		snprintf(ret_error, RNIC_ERROR_LEN, "rnic soft:%s: out of memory",
			 dev->base.info.netdev);
		return -ENOMEM;
	}
	ep->dev = dev;
	ep->addr = addr;
	ep->prefix_len = prefix_len;
	ep->present = true;
	int r = open_socket(ep, ret_error);
	if (r) {
		endpoint_free(ep);
		return r;
	}
	DL_APPEND(dev->endpoints, ep);
	*ret_ep = ep;
	return 0;
}

void soft_endpoint_close(struct soft_endpoint *ep)
{
	DL_DELETE(ep->dev->endpoints, ep);
	endpoint_free(ep);
}
