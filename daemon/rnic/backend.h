/* SPDX-License-Identifier: MIT */
/**
 * @file backend.h
 * The interface between rnic.c and a kind of RNIC. rnic.c rejects parameters that are wrong for
 * every kind, and then calls the backend. The structures here are the first members of the
 * backend's structures.
 */
#ifndef SMCRD_RNIC_BACKEND_H
#define SMCRD_RNIC_BACKEND_H

#include "daemon/rnic/rnic.h"

struct rnic_backend {
	/** `device` is the name without its "soft:" or "verbs:". */
	int (*open)(const char *device, const struct rnic_open_params *params,
		    struct rnic **ret_rnic, char ret_error[RNIC_ERROR_LEN]);
	void (*close)(struct rnic *rnic);
	void (*poll)(struct rnic *rnic);
	void (*link_changed)(struct rnic *rnic);
	void (*leave)(struct rnic *rnic); /* may be NULL */
	void (*get_stats)(const struct rnic *rnic, struct rnic_stats *ret_stats);
	int (*pd_alloc)(struct rnic *rnic, struct rnic_pd **ret_pd);
	void (*pd_free)(struct rnic_pd *pd);
	int (*mr_register)(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
			   struct rnic_mr **ret_mr);
	void (*mr_deregister)(struct rnic_mr *mr);
	int (*window_new)(struct rnic_pd *pd, struct rnic_window **ret_window); /* may be NULL */
	void (*window_free)(struct rnic_window *window);
	int (*window_bind)(struct rnic_window *window, struct rnic_qp *qp, struct rnic_mr *mr,
			   const void *addr, size_t len, unsigned int access);
	int (*window_invalidate)(struct rnic_window *window, struct rnic_qp *qp);
	int (*qp_create)(struct rnic_pd *pd, const struct rnic_qp_params *params,
			 struct rnic_qp **ret_qp);
	int (*qp_connect)(struct rnic_qp *qp, const struct rnic_qp_peer *peer);
	int (*qp_start)(struct rnic_qp *qp, const struct rnic_qp_send_params *params);
	void (*qp_set_retry)(struct rnic_qp *qp, unsigned int retry_ms); /* may be NULL */
	void (*qp_want_ack)(struct rnic_qp *qp);                         /* may be NULL */
	void (*qp_error)(struct rnic_qp *qp);
	void (*qp_destroy)(struct rnic_qp *qp);
	int (*post_send)(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);
	int (*post_recv)(struct rnic_qp *qp, const struct rnic_recv_wr *wr, size_t n);
	void (*qp_get_stats)(const struct rnic_qp *qp, struct rnic_qp_stats *ret_stats);
};

struct rnic {
	const struct rnic_backend *backend;
	struct rnic_open_params params;
	struct rnic_info info; /* what rnic_get_info() tells */
	unsigned int events;   /* bits of enum rnic_event_type, to be told */
	bool closed; /* closed inside a callback: no event any more, freed after the run */
};

struct rnic_pd {
	struct rnic *rnic;
};

struct rnic_mr {
	struct rnic *rnic;
	uint32_t lkey, rkey;
	uint64_t vaddr;
};

/** `rkey` and `vaddr` of the last binding; the backend sets them when it binds the window. */
struct rnic_window {
	struct rnic *rnic;
	uint32_t rkey;
	uint64_t vaddr;
};

struct rnic_qp {
	struct rnic *rnic;
	uint32_t qpn;
	unsigned int max_sge; /* pieces of a send request */
	bool may_read;        /* RDMA READs may be posted */
};

/** Write into `ret_error` (RNIC_ERROR_LEN bytes) what cannot be done, and why. @return `error` */
int rnic_fail(const struct rnic *rnic, int error, const char *what, char *ret_error);
/** Note an event that has to be raised. */
void rnic_event_due(struct rnic *rnic, enum rnic_event_type type);
/** Note the events for the differences between `before` and rnic->info. */
void rnic_changed_since(struct rnic *rnic, const struct rnic_info *before);
/** Raise the noted events, from the event loop. A callback may close the RNIC. */
void rnic_tell_events(struct rnic *rnic);

/** A random number that nobody can guess. */
uint32_t rnic_random(void);
/** A random start address of a memory region, for the peers. The true address would tell them where
 * the memory of this process lies. The start is not 0, a multiple of 64 KiB and thus of any page
 * size, and below 2^47, as addresses of all processes are: so every device can have it, and no
 * region wraps. */
uint64_t rnic_random_start(void);

extern const struct rnic_backend rnic_soft_backend;
extern const struct rnic_backend rnic_verbs_backend;

#endif
