/* SPDX-License-Identifier: MIT */
#include "daemon/cm/kernel.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/rnic/verbs/reaper.h"

#define DEVICE "/dev/infiniband/rdma_cm"

/* How many events are taken before other work of the event loop has its turn. */
#define MAX_EVENTS 64

struct cm_kernel {
	struct rdma_event_channel *channel;
	struct event *readable;
	unsigned int users;
	struct verbs_reaper *reaper; /* the kernel may take long to destroy an id */
	struct verbs_job last;
};

/** An id that is destroyed by the reaper. */
struct doomed {
	struct verbs_job job;
	struct rdma_cm_id *id;
};

int cm_kernel_result(int result)
{
	if (result == 0)
		return 0;
	return errno ? -errno : -EIO;
}

void cm_to_sockaddr(const struct cm_addr *addr, union cm_sockaddr *ret_sockaddr)
{
	memset(ret_sockaddr, 0, sizeof(*ret_sockaddr));
	if (addr->family == AF_INET) {
		ret_sockaddr->in.sin_family = AF_INET;
		ret_sockaddr->in.sin_port = htons(addr->port);
		memcpy(&ret_sockaddr->in.sin_addr, addr->addr, 4);
	} else {
		ret_sockaddr->in6.sin6_family = AF_INET6;
		ret_sockaddr->in6.sin6_port = htons(addr->port);
		memcpy(&ret_sockaddr->in6.sin6_addr, addr->addr, 16);
	}
}

void cm_from_sockaddr(const struct sockaddr *sockaddr, struct cm_addr *ret_addr)
{
	*ret_addr = (struct cm_addr){ .family = (uint8_t)sockaddr->sa_family };
	if (sockaddr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sockaddr;
		ret_addr->port = ntohs(in->sin_port);
		memcpy(ret_addr->addr, &in->sin_addr, 4);
	} else if (sockaddr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sockaddr;
		ret_addr->port = ntohs(in6->sin6_port);
		memcpy(ret_addr->addr, &in6->sin6_addr, 16);
	}
}

/* ---- the end of ids */

static void destroy(void *arg)
{
	struct doomed *doomed = arg;
	rdma_destroy_id(doomed->id);
	free(doomed);
}

static void doom(struct cm_kernel *kernel, struct rdma_cm_id *id)
{
	struct doomed *doomed = calloc(1, sizeof(*doomed));
	id->context = NULL;
	if (!doomed) {
		rdma_destroy_id(id);
		return;
	}
	doomed->id = id;
	doomed->job = (struct verbs_job){ .run = destroy, .arg = doomed };
	verbs_reaper_do(kernel->reaper, &doomed->job);
}

/* ---- events */

/* An id may be destroyed only when its events are acknowledged, which invalidates them: so they are
 * copied first. */
struct copied {
	struct rdma_cm_event event;
	uint8_t private_data[CM_PRIVATE_MAX];
};

static void copy(const struct rdma_cm_event *event, struct copied *ret_copied)
{
	struct rdma_conn_param *param = &ret_copied->event.param.conn;
	ret_copied->event = *event;
	if (param->private_data_len > sizeof(ret_copied->private_data))
		param->private_data_len = sizeof(ret_copied->private_data);
	if (!param->private_data)
		param->private_data_len = 0;
	if (param->private_data_len)
		memcpy(ret_copied->private_data, param->private_data, param->private_data_len);
	param->private_data = ret_copied->private_data;
}

/* What is behind the id that an event is about: the listener, with a new id. NULL: it has ended. */
static struct cm_kernel_id *id_of(const struct rdma_cm_event *event)
{
	const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	return request ? event->listen_id->context : event->id->context;
}

static bool take_event(struct cm_kernel *kernel)
{
	struct rdma_cm_event *event;
	struct copied copied;
	if (rdma_get_cm_event(kernel->channel, &event))
		return false;
	copy(event, &copied);
	/* Not later: an id that is being destroyed may be gone when its events are acknowledged. */
	struct cm_kernel_id *id = id_of(event);
	rdma_ack_cm_event(event);
	if (id)
		id->on_event(id, &copied.event);
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct cm *cm = arg;
	(void)fd;
	(void)what;
	(void)cm_at_work(cm);
	/* A callback that closes the last RNIC closes the channel. */
	for (int i = 0; i < MAX_EVENTS && cm->kernel && take_event(cm->kernel); i++)
		;
}

/* ---- the channel */

static int explain(const char *name, int error, char *ret_error)
{
	if (error == -ENOENT || error == -ENODEV)
		snprintf(ret_error, CM_ERROR_LEN,
			 "rnic %s: no RDMA connections by IP address: the kernel has no " DEVICE
			 "; load its module (modprobe rdma_ucm)",
			 name);
	else
		snprintf(ret_error, CM_ERROR_LEN,
			 "rnic %s: no RDMA connections by IP address: cannot open " DEVICE ": %s%s",
			 name, strerror(-error),
			 error == -EPERM ? "; restart the service, which was started before the "
					   "module rdma_ucm was loaded"
					 : "");
	return error;
}

/* The channel has to stay until the last id is gone. */
static void free_channel(void *arg)
{
	struct cm_kernel *kernel = arg;
	if (kernel->channel)
		rdma_destroy_event_channel(kernel->channel);
	free(kernel);
}

static void kernel_free(struct cm_kernel *kernel)
{
	if (kernel->readable)
		event_free(kernel->readable);
	kernel->last = (struct verbs_job){ .run = free_channel, .arg = kernel };
	verbs_reaper_end(kernel->reaper, &kernel->last);
}

static int kernel_new(struct cm *cm, struct cm_kernel **ret_kernel)
{
	struct cm_kernel *kernel = calloc(1, sizeof(*kernel));
	if (!kernel)
		return -ENOMEM;
	int error = 0;
	kernel->reaper = verbs_reaper_new();
	kernel->channel = rdma_create_event_channel();
	if (!kernel->reaper)
		error = -ENOMEM;
	else if (!kernel->channel)
		error = cm_kernel_result(-1);
	else if (fcntl(kernel->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		error = -errno;
	if (!error) {
		kernel->readable = event_new(cm->params.base, kernel->channel->fd,
					     EV_READ | EV_PERSIST, on_readable, cm);
		error = kernel->readable && !event_add(kernel->readable, NULL) ? 0 : -ENOMEM;
	}
	if (error) {
		kernel_free(kernel);
		return error;
	}
	*ret_kernel = kernel;
	return 0;
}

static int try_device(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int cm_kernel_open(struct cm *cm, const char *name, char ret_error[CM_ERROR_LEN])
{
	/* librdmacm tells less of why it cannot. */
	int error = cm->kernel ? 0 : try_device();
	if (!error && !cm->kernel)
		error = kernel_new(cm, &cm->kernel);
	if (error)
		return explain(name, error, ret_error);
	cm->kernel->users++;
	return 0;
}

void cm_kernel_close(struct cm *cm)
{
	if (--cm->kernel->users > 0)
		return;
	kernel_free(cm->kernel);
	cm->kernel = NULL;
}

/* ---- ids */

int cm_kernel_id_new(struct cm *cm, struct cm_kernel_id *id)
{
	return cm_kernel_result(rdma_create_id(cm->kernel->channel, &id->id, id, RDMA_PS_TCP));
}

void cm_kernel_id_take(struct cm_kernel_id *id, struct rdma_cm_id *rdma_id)
{
	id->id = rdma_id;
	rdma_id->context = id;
}

void cm_kernel_refuse(struct cm *cm, struct rdma_cm_id *id)
{
	rdma_reject(id, NULL, 0);
	doom(cm->kernel, id);
}

/* It has no messages that the kernel would have to wait for. */
void cm_kernel_id_end_listening(struct cm_kernel_id *id)
{
	if (id->id)
		rdma_destroy_id(id->id);
	id->id = NULL;
}

void cm_kernel_id_end(struct cm_kernel_id *id)
{
	if (id->id)
		doom(id->port->cm->kernel, id->id);
	id->id = NULL;
}
