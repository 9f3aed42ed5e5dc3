/* SPDX-License-Identifier: MIT */
/**
 * @file kernel.h
 * The kernel's rdma_cm: one event channel of librdmacm on the event loop, and the ids that are on
 * it. Only verbs.c uses it.
 *
 * librdmacm's own calls return -1 and set errno; here they return a negative errno.
 */
#ifndef SMCRD_CM_KERNEL_H
#define SMCRD_CM_KERNEL_H

#include <rdma/rdma_cma.h>

#include "daemon/cm/internal.h"

/** What is behind an id: one side of it is set. */
struct cm_kernel_id {
	struct rdma_cm_id *id;
	struct cm_port *port;
	/** An event of the id; none comes behind cm_kernel_id_end(). It was copied and is
	 * acknowledged already, so the id may be freed. With RDMA_CM_EVENT_CONNECT_REQUEST,
	 * event->id is a new one, which the callee frees or keeps. */
	void (*on_event)(struct cm_kernel_id *id, const struct rdma_cm_event *event);
};

/** Open the channel, or count one more user of it.
 *  @param name  of the RNIC, for the sentence */
int cm_kernel_open(struct cm *cm, const char *name, char ret_error[CM_ERROR_LEN]);
/** One user less; the last one closes it. */
void cm_kernel_close(struct cm *cm);

/** Make an id of the port space of TCP; `id->port` and `id->on_event` are set. */
int cm_kernel_id_new(struct cm *cm, struct cm_kernel_id *id);
/** Take a new id of a CONNECT_REQUEST. */
void cm_kernel_id_take(struct cm_kernel_id *id, struct rdma_cm_id *rdma_id);
/** Refuse and destroy such an id. */
void cm_kernel_refuse(struct cm *cm, struct rdma_cm_id *id);
/** Destroy the id, if there is one: no event comes any more. The kernel ends what has not ended. */
void cm_kernel_id_end(struct cm_kernel_id *id);
/** The same for an id that listens: when this returns its port is free. */
void cm_kernel_id_end_listening(struct cm_kernel_id *id);

/** @return 0 or a negative errno */
int cm_kernel_result(int result);

union cm_sockaddr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

void cm_to_sockaddr(const struct cm_addr *addr, union cm_sockaddr *ret_sockaddr);
void cm_from_sockaddr(const struct sockaddr *sockaddr, struct cm_addr *ret_addr);

#endif
