/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * RNICs of libibverbs: hardware, and the kernel's rdma_rxe.
 *
 *   device.c      open, close, the port's state, asynchronous events, the run loop
 *   ports.c       which devices and ports exist
 *   gids.c        which GIDs of a port are used
 *   explain.c     why a device cannot be used, and what to do
 *   counters.c    the kernel's counters
 *   mr.c          protection domains and memory regions
 *   window.c      memory windows
 *   attrs.c       attributes of QPs
 *   qp.c          how a QP begins, changes and ends
 *   post.c        sending: work requests
 *   sendq.c       places of the send queue
 *   recv.c        receive buffers, ours and those of the user
 *   completion.c  work completions
 *   watch.c       whether requests of a QP complete in time
 *   reaper.c      destroying objects of a device
 *
 * Each QP has a completion queue of its own for sends and receives, so that completions stay in
 * order and none is left when the QP was destroyed. All completion queues of a device share one
 * completion channel, whose descriptor is on the event loop. Calls of the user only change state
 * and ask for a run, so that no callback runs inside such a call.
 */
#ifndef SMCRD_RNIC_VERBS_INTERNAL_H
#define SMCRD_RNIC_VERBS_INTERNAL_H

#include <infiniband/verbs.h>
#include <uthash.h>

#include "daemon/rnic/backend.h"
#include "daemon/rnic/netdev.h"
#include "daemon/rnic/verbs.h"
#include "daemon/rnic/verbs/reaper.h"

struct event;
struct verbs_device;
struct verbs_qp;

/* ---- gids.c */

/** The most entries of the GID table that are read, and interfaces that they may belong to. */
#define VERBS_MAX_GIDS    256
#define VERBS_MAX_NETDEVS 16

/** The GIDs that an RNIC uses, best first, all of one interface. */
struct verbs_gids {
	size_t num;
	struct rnic_gid gid[RNIC_MAX_GIDS];
	uint8_t index[RNIC_MAX_GIDS]; /* indices in the port's GID table */
	const struct rnic_netdev *netdev;
};

/**
 * Choose GIDs from a port's table. A GID is usable if its interface is among `netdevs`, the
 * interfaces of our namespace, and has its address, because devices can be shared by namespaces.
 * Best is RoCE version 2 with an IPv4 address, then IPv6, then version 1, then link-local GIDs. The
 * first of the best decides the interface. @return false if no GID is usable
 */
bool verbs_choose_gids(const struct ibv_gid_entry *entries, size_t num_entries, uint32_t port,
		       const struct rnic_netdev *netdevs, size_t num_netdevs,
		       struct verbs_gids *ret_gids);
/** The IP address of a GID. @return true with the address (4 or 16 bytes) and its family; false if
 * the GID is link-local */
bool verbs_gid_address(const uint8_t gid[16], int *ret_family, const uint8_t **ret_addr);

/* ---- ports.c */

/** Parse "DEV[/PORT]". @return 0 or -EINVAL */
int verbs_parse_name(const char *name, char ret_dev[RNIC_NAME_LEN], uint8_t *ret_port);
/** Read the interfaces of our namespace that a port's GIDs belong to, and choose among the GIDs.
 * `netdevs` has VERBS_MAX_NETDEVS places and must outlive `ret_gids`. @return 0, -EADDRNOTAVAIL if
 * no GID is usable, or another errno */
int verbs_read_gids(struct ibv_context *context, uint8_t port, struct rnic_netdev *netdevs,
		    struct verbs_gids *ret_gids);

/* ---- explain.c */

enum verbs_absence {
	VERBS_NO_SUCH_DEVICE, /* the kernel has no device of this name */
	VERBS_NO_UVERBS,      /* the kernel has it, but ib_uverbs does not */
	VERBS_NO_PROVIDER,    /* libibverbs knows no driver for it */
};

/** Find in sysfs why libibverbs has not listed a device. */
enum verbs_absence verbs_absence_of(const char *sysfs, const char *dev);
/** A sentence for the operator. `others`: names of the existing devices, or "". */
void verbs_explain_absence(const char *name, enum verbs_absence absence, const char *others,
			   char ret_error[RNIC_ERROR_LEN]);
/** The same when ibv_open_device() has failed. `node`: the device file */
void verbs_explain_open(const char *name, const char *node, int error,
			char ret_error[RNIC_ERROR_LEN]);
void verbs_explain_no_gid(const char *name, char ret_error[RNIC_ERROR_LEN]);

/* ---- attrs.c */

/** The retry time in InfiniBand's form: wait for an acknowledgement for 4.096 us * 2^timeout, and
 * retry_cnt times more. */
struct verbs_patience {
	uint8_t timeout;
	uint8_t retry_cnt;
};

/** The shortest retry time of at least `retry_ms`, with the largest retry count, because the count
 * is also used up by packets that are lost one after the other, each of which is reported at once.
 * `endless`: the device repeats forever with that count; then choose a timeout with which it
 * repeats soon. */
struct verbs_patience verbs_patience_for(unsigned int retry_ms, bool endless);
uint64_t verbs_patience_us(struct verbs_patience patience);

int verbs_attr_init(uint8_t port, struct ibv_qp_attr *ret_attr);
int verbs_attr_rtr(uint8_t port, uint8_t gid_index, const struct rnic_qp_peer *peer,
		   struct ibv_qp_attr *ret_attr);
int verbs_attr_rts(const struct rnic_qp_send_params *params, bool endless,
		   struct ibv_qp_attr *ret_attr);
enum rnic_wc_status verbs_wc_status(enum ibv_wc_status status);

/* ---- counters.c */

/** Add up the kernel's counters of a port. `port_dir`: ".../infiniband/DEV/ports/PORT" */
void verbs_counters_read(const char *port_dir, struct rnic_stats *ret_stats);
void verbs_counters_subtract(struct rnic_stats *stats, const struct rnic_stats *before);

/* ---- sendq.c */

/** A posted work request. */
struct verbs_slot {
	uint64_t wr_id; /* wr_id of the user */
	bool wanted;    /* the user wants a completion on success too */
	bool own;       /* the user did not post it, and is never told of it */
};

/**
 * The places of the send queue. The device may complete only some requests: a completion tells that
 * those before it are done too. The last request of every call is signaled, so that each place
 * becomes free in the end.
 */
struct verbs_sendq {
	struct verbs_slot *slots;
	uint32_t depth;
	uint64_t head, tail; /* sequence numbers: next to post, oldest not yet done */
};

int verbs_sendq_init(struct verbs_sendq *sendq, uint32_t depth);
void verbs_sendq_free(struct verbs_sendq *sendq);
uint32_t verbs_sendq_room(const struct verbs_sendq *sendq);
/** Take the next place. @return its sequence number */
uint64_t verbs_sendq_push(struct verbs_sendq *sendq, uint64_t wr_id, bool wanted);
/** Take the next place for a request that the user did not post. */
uint64_t verbs_sendq_push_own(struct verbs_sendq *sendq);
/** Give back the last `n` places, whose requests the device has not taken. */
void verbs_sendq_unpush(struct verbs_sendq *sendq, size_t n);
/** Request `seq` and those before it are done. @return the slot, or NULL: it was not outstanding */
const struct verbs_slot *verbs_sendq_retire(struct verbs_sendq *sendq, uint64_t seq);

/* ---- device.c */

struct verbs_device {
	struct rnic base;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct event *completions, *async; /* the two descriptors */
	struct event *kick;
	uint64_t sysfs_inode; /* of the device's directory; differs for another device */
	struct ibv_device_attr attr;
	uint8_t gid_index[RNIC_MAX_GIDS]; /* of info.gids, in the port's table */
	bool endless;                     /* a retry count of 7 means forever */
	unsigned int invalidated;         /* wc_flags of a SEND that has invalidated a token */
	bool windows_leak;                /* a window lets peers reach all of its region */
	bool starts_anywhere;             /* peers may be told another address of a region */
	uint32_t inline_wanted;           /* RNIC_MAX_INLINE; tests use less */
	struct rnic_stats before;
	struct verbs_reaper *reaper;
	struct verbs_job close;

	bool running; /* inside a run: callbacks may be on the stack */
	bool fatal;   /* the device is lost, and gives no completions any more */
	bool leaving; /* nothing is destroyed any more: rnic_leave() */
	unsigned int pds, mrs, windows;
	struct verbs_mr *regions; /* hash by lkey */
	struct verbs_qp *qps;     /* with destroyed ones until the end of the run */
	bool untidy;              /* there are destroyed ones */
};

static inline struct verbs_device *verbs_device_of(const struct rnic *rnic)
{
	return (struct verbs_device *)rnic;
}

/** libibverbs returns an errno, or -1 and sets errno. @return 0 or a negative errno */
int verbs_result(int result);
/** Microseconds of CLOCK_MONOTONIC. */
uint64_t verbs_clock(void);
/** Ask for a run. */
void verbs_device_kick(struct verbs_device *dev);

/* ---- mr.c */

struct verbs_pd {
	struct rnic_pd base;
	struct ibv_pd *pd;
	unsigned int qps; /* QPs that are not destroyed */
	struct verbs_job free;
};

struct verbs_mr {
	struct rnic_mr base;
	struct verbs_pd *pd;
	struct ibv_mr *mr;
	uint8_t *addr;
	size_t len;
	unsigned int access;
	struct ibv_mr *for_windows;   /* the same memory as windows are bound to it, or NULL */
	struct verbs_window *windows; /* those that the device may have bound to it */
	struct verbs_job free;
	UT_hash_handle hh;
};

int verbs_pd_alloc(struct rnic *rnic, struct rnic_pd **ret_pd);
void verbs_pd_free(struct rnic_pd *pd);
int verbs_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		      struct rnic_mr **ret_mr);
void verbs_mr_deregister(struct rnic_mr *mr);
/** RNIC_ACCESS_* as libibverbs has them. */
int verbs_access(unsigned int access);
/** Register a part of a region, which peers know by `vaddr`, once more for windows: so the region's
 * own keys need not allow windows, and those of the part give peers no right. @return NULL with
 * errno set */
struct ibv_mr *verbs_mr_part(const struct verbs_mr *mr, uint64_t vaddr, const void *addr,
			     size_t len);
/** The same for the whole region, once. */
struct ibv_mr *verbs_mr_for_windows(struct verbs_mr *mr);
/**
 * May regions of a device start at another address for peers than in the memory of this process?
 * Not with mlx4: the driver chooses the size of the device's pages by the memory's own address, and
 * the device then finds other memory behind an address that differs in the bits within such a page.
 * @param ibdev_path  ".../infiniband/DEV"
 */
bool verbs_mr_may_start_anywhere(const char *ibdev_path);
/** Do `len` bytes at `addr` lie in the region? */
bool verbs_mr_contains(const struct verbs_mr *mr, const void *addr, size_t len);
/** May a QP of `pd` receive into [addr, addr + len) with `lkey`? */
bool verbs_mr_receives(struct verbs_device *dev, const struct verbs_pd *pd, uint32_t lkey,
		       const void *addr, size_t len);

/* ---- window.c */

/**
 * A memory window of type 2. The kernel object is another one when the first cannot be bound again:
 * a queue pair or a region that goes takes it along. It belongs to what it was bound to last, even
 * after its invalidation, because the device carries that out later.
 */
struct verbs_window {
	struct rnic_window base;
	struct verbs_pd *pd;
	struct ibv_mw *mw;   /* NULL: made when it is bound */
	struct ibv_mr *part; /* the memory that it is bound to alone, if dev->windows_leak */
	struct verbs_qp *qp; /* bound last for this one, or NULL */
	struct verbs_mr *mr; /* and to this one */
	bool bound;          /* the token is not invalidated */
	bool freed;          /* freed by the user while the device has a request about it */
	uint64_t seq;        /* of the last such request in the send queue of `qp` */
	UT_hash_handle hh;   /* of qp->windows, by the token */
	struct verbs_window *prev, *next; /* of mr->windows */
};

int verbs_window_new(struct rnic_pd *pd, struct rnic_window **ret_window);
void verbs_window_free(struct rnic_window *window);
int verbs_window_bind(struct rnic_window *window, struct rnic_qp *qp, struct rnic_mr *mr,
		      const void *addr, size_t len, unsigned int access);
int verbs_window_invalidate(struct rnic_window *window, struct rnic_qp *qp);
/** The peer's SEND has invalidated a token. @return false: it is not one of this QP's windows */
bool verbs_window_gone(struct verbs_qp *qp, uint32_t rkey);
/** Requests of the QP are done: free the windows that waited for that. */
void verbs_window_settle(struct verbs_qp *qp);
/** Unbind, at once, all windows that the device may have bound for a QP that ends, or to a region.
 */
void verbs_window_drop_qp(struct verbs_qp *qp);
void verbs_window_drop_mr(struct verbs_mr *mr);

/* ---- qp.c */

enum verbs_qp_state {
	VERBS_QP_INIT,
	VERBS_QP_RTR,
	VERBS_QP_RTS,
	VERBS_QP_ERR,
};

/** Memory of a QP that the device reads or writes. */
struct verbs_memory {
	uint8_t *mem;
	struct ibv_mr *mr;
};

/** A receive buffer that the user has posted. */
struct verbs_buffer {
	uint64_t wr_id;
	const uint8_t *addr;
	uint32_t length;
};

struct verbs_qp {
	struct rnic_qp base;
	struct verbs_device *dev;
	struct verbs_pd *pd;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct rnic_qp_params params;
	enum verbs_qp_state state;

	struct verbs_sendq sendq;
	struct ibv_send_wr *send_wrs; /* scratch of one call */
	struct ibv_sge *send_sges;    /* max_sge for each */
	unsigned int max_sge;         /* at least RNIC_FEW_SGE */
	uint32_t max_inline;
	struct verbs_memory
		bounce; /* for inline data that the device does not take, one place per slot */

	unsigned int recv_depth;      /* at most what the device allows */
	unsigned int recvs_out;       /* receives that have not completed */
	struct verbs_memory recv;     /* unless the user posts receives */
	struct verbs_buffer *buffers; /* ring of those that the user has posted, */
	uint64_t buffer_head;         /* and the number of the next one */

	struct verbs_window *windows; /* hash of those bound last for this QP, by token */
	bool windows_wait;            /* some are to be freed when requests are done */

	bool armed;              /* the completion queue will raise an event */
	bool ready;              /* it may have completions */
	unsigned int unacked;    /* its events that are not acknowledged to libibverbs yet */
	struct event *end_timer; /* in ERR, for devices that do not flush */
	bool ended;              /* the last completion was given */
	bool end_now;            /* end without waiting for the device */
	bool error_due;          /* go to ERR in the next run, unless destroyed before */
	bool dead;               /* destroyed; pointers to it may remain for a while */
	struct verbs_job release, free;
	bool left;    /* destroyed, but still working: rnic_leave() */
	bool telling; /* its callback is running */

	/* Our own retry time, watch.c. */
	struct event *watch;
	bool watching;
	bool may_give_up; /* the user's last answer */
	bool given_up;    /* becomes the status of the oldest request */
	uint64_t limit_us, floor_us;
	uint64_t silent_us; /* time without progress in which this process ran */
	uint64_t progress, seen;

	bool neigh; /* the host was asked for a neighbour entry for the peer */
	unsigned int neigh_ifindex;
	uint8_t peer_gid[16];
	uint8_t peer_mac[6];

	uint64_t tx_bytes, rx_bytes;
	uint64_t heard_at; /* when the last completion showed that the peer is alive */
	struct verbs_qp *prev, *next;
};

int verbs_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params,
		    struct rnic_qp **ret_qp);
int verbs_qp_connect(struct rnic_qp *qp, const struct rnic_qp_peer *peer);
int verbs_qp_start(struct rnic_qp *qp, const struct rnic_qp_send_params *params);
void verbs_qp_user_error(struct rnic_qp *qp);
void verbs_qp_destroy(struct rnic_qp *qp);
void verbs_qp_get_stats(const struct rnic_qp *qp, struct rnic_qp_stats *ret_stats);

/** Go to ERR, for any cause. The device flushes outstanding requests. */
void verbs_qp_fail(struct verbs_qp *qp);
void verbs_qp_free(struct verbs_qp *qp);
/** Get memory for the device. @return 0 or a negative errno */
int verbs_memory_alloc(struct verbs_memory *memory, struct ibv_pd *pd, size_t len);

/* ---- post.c */

int verbs_post_init(struct verbs_qp *qp);
void verbs_post_free(struct verbs_qp *qp);
int verbs_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);
/** Why the QP would not take `n` requests now. @return 0 or the error of rnic_post_send() */
int verbs_post_refusal(const struct verbs_qp *qp, size_t n);
/** Post a request of which the user is not told. @return as rnic_post_send(); `ret_seq`: its place
 * in the send queue */
int verbs_post_own(struct verbs_qp *qp, struct ibv_send_wr *wr, uint64_t *ret_seq);

/* ---- recv.c */

/** Work request ids: those of receives have the number of the buffer. */
#define VERBS_RECV_BIT (UINT64_C(1) << 63)

int verbs_recv_init(struct verbs_qp *qp);
void verbs_recv_free(struct verbs_qp *qp);
/** Post the first receive buffers, if the RNIC posts them. */
int verbs_recv_start(struct verbs_qp *qp);
/** Post `n` receive buffers of ours (again). */
int verbs_recv_post_own(struct verbs_qp *qp, const uint32_t *buffers, unsigned int n);
int verbs_recv_post(struct rnic_qp *qp, const struct rnic_recv_wr *wr, size_t n);
/** The device gives a receive buffer back. @return its number; UINT64_MAX: it was not posted */
uint64_t verbs_recv_take(struct verbs_qp *qp, uint64_t wr_id);
/** The user's buffer that comes back next, or NULL. */
const struct verbs_buffer *verbs_recv_oldest(const struct verbs_qp *qp);

/* ---- watch.c */

/*
 * InfiniBand allows to set timeouts on the way to RTS only, and rdma_rxe has none. So that the
 * retry time can change, watch.c itself checks whether requests complete. A device may still give
 * up earlier by itself.
 */
int verbs_watch_init(struct verbs_qp *qp);
/** `floor_us`: the shortest useful retry time with the device's own timeout. */
void verbs_watch_start(struct verbs_qp *qp, unsigned int retry_ms, uint64_t floor_us);
void verbs_watch_set_retry(struct rnic_qp *qp, unsigned int retry_ms);
/** Start watching: requests were posted. */
void verbs_watch_posted(struct verbs_qp *qp);

/* ---- completion.c */

/** Take one batch from the completion queue and give it to the user. @return true if there may be
 * more */
bool verbs_qp_poll(struct verbs_qp *qp);
/** Ask for an event for the next completion; completions from before have to be polled for. */
void verbs_qp_arm(struct verbs_qp *qp);

#endif
