/* SPDX-License-Identifier: MIT */
/* Devices, memory and queue pairs. How requests travel is in wire.c. */
#include "tests/sim/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/sim/host.h"
#include "tests/sim/observer.h"
#include "tests/sim/wire.h"

struct fabric *fabric_new(struct world *w)
{
	struct fabric *fabric = sim_zalloc(sizeof(*fabric));
	fabric->world = w;
	return fabric;
}

#define PAGE 4096u

/** The memory of a block: pages that cost nothing until they are used, with a page on either side
 * that nobody may touch. */
static uint8_t *map_block(size_t len)
{
	size_t whole = (len + PAGE - 1) / PAGE * PAGE;
	uint8_t *pages = mmap(NULL, whole + (size_t)2 * PAGE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, whole, PROT_READ | PROT_WRITE) != 0)
		abort();
	return pages + PAGE;
}

static void unmap_block(struct block *block)
{
	if (block->base)
		munmap(block->base - PAGE,
		       (block->len + PAGE - 1) / PAGE * PAGE + (size_t)2 * PAGE);
	block->base = NULL;
}

void fabric_free(struct fabric *fabric)
{
	struct mr *mr, *next_mr;
	HASH_ITER (hh, fabric->mrs, mr, next_mr) {
		HASH_DEL(fabric->mrs, mr);
		free(mr);
	}
	struct qp *qp, *next_qp;
	HASH_ITER (hh, fabric->qps, qp, next_qp) {
		HASH_DEL(fabric->qps, qp);
		wire_free(qp);
		free(qp->sq);
		free(qp->rq);
		free(qp);
	}
	struct block *block, *next_block;
	DL_FOREACH_SAFE (fabric->blocks, block, next_block) {
		unmap_block(block);
		free(block);
	}
	for (size_t i = 0; i < fabric->num_devices; i++)
		free(fabric->devices[i]);
	free(fabric);
}

struct device *fabric_device_new(struct world *w, struct host *host, unsigned int lan, uint8_t mtu)
{
	struct fabric *fabric = w->fabric;
	if (fabric->num_devices == SIM_MAX_DEVICES)
		abort();
	struct device *device = sim_zalloc(sizeof(*device));
	uint8_t number = (uint8_t)(fabric->num_devices + 1);
	struct smcr_device_info *info = &device->info;
	device->world = w;
	device->host = host;
	device->index = fabric->num_devices;
	device->present = true;
	device->port_up = true;
	info->id = 100u + number;
	snprintf(info->name, sizeof(info->name), "sim:%zu/%u", host_index(host), number);
	const uint8_t gid[SMCR_GID_LEN] = { [10] = 0xff, 0xff, 10, (uint8_t)lan, 0, number };
	const uint8_t mac[SMCR_MAC_LEN] = { 0x02, 0x51, (uint8_t)lan, 0, 0, number };
	memcpy(info->gid, gid, sizeof(gid));
	memcpy(info->mac, mac, sizeof(mac));
	info->mtu = mtu;
	info->vlan = SMCR_NO_VLAN;
	info->active = true;
	info->num_prefixes = 2;
	info->prefixes[0] = (struct smcr_prefix){
		.family = AF_INET,
		.ip = { 10, (uint8_t)lan, 0, number },
		.prefix_len = 24,
	};
	info->prefixes[1] = (struct smcr_prefix){
		.family = AF_INET6,
		.ip = { 0xfd, 0, 0, (uint8_t)lan, [15] = number },
		.prefix_len = 64,
	};
	fabric->devices[fabric->num_devices++] = device;
	return device;
}

void fabric_cut_one(struct fabric *fabric, size_t from, size_t to, bool cut)
{
	fabric->cut[from][to] = cut;
	world_log(fabric->world, "fabric", "path from %s to %s %s",
		  fabric->devices[from]->info.name, fabric->devices[to]->info.name,
		  cut ? "cut" : "mended");
}

void fabric_cut(struct fabric *fabric, size_t a, size_t b, bool cut)
{
	fabric_cut_one(fabric, a, b, cut);
	fabric_cut_one(fabric, b, a, cut);
}

void fabric_limit(struct fabric *fabric, size_t from, size_t to, uint32_t most)
{
	fabric->most[from][to] = most;
	world_log(fabric->world, "fabric", "path from %s to %s takes %u bytes",
		  fabric->devices[from]->info.name, fabric->devices[to]->info.name, most);
}

void fabric_device_unplug(struct device *device)
{
	world_log(device->world, "fabric", "%s unplugged", device->info.name);
	device->present = false;
	struct qp *qp, *next;
	HASH_ITER (hh, device->world->fabric->qps, qp, next) {
		if (qp->device == device && qp->state < QP_ERR)
			fabric_qp_error(qp);
	}
}

static void fault_told_event(void *object, uint64_t arg)
{
	struct qp *qp = object;
	(void)arg;
	host_qp_failed(qp->host, qp);
}

void fabric_qp_fault(struct fabric *fabric)
{
	struct world *w = fabric->world;
	struct qp *qp, *next, *live[64];
	size_t n = 0;
	HASH_ITER (hh, fabric->qps, qp, next) {
		if (qp->state < QP_ERR && n < sizeof(live) / sizeof(live[0]))
			live[n++] = qp;
	}
	if (!n)
		return;
	qp = live[prng_range(&w->rng, 0, n - 1)];
	world_log(w, "fabric", "QP %06x on %s fails", qp->qpn, qp->device->info.name);
	fabric_qp_error(qp);
	clock_in(&w->clock, prng_range(&w->rng, 0, 3000), fault_told_event, qp, 0);
}

/* ---- memory ---- */

int fabric_mem_alloc(struct host *host, size_t len, struct block **ret_block)
{
	struct world *w = host_world(host);
	struct fabric *fabric = w->fabric;
	struct block *block = sim_zalloc(sizeof(*block));
	if (!len)
		abort();
	block->host = host;
	block->id = ++fabric->next_block;
	block->base = map_block(len);
	block->len = len;
	DL_APPEND(fabric->blocks, block);
	*ret_block = block;
	return 0;
}

struct block *fabric_block_at(struct host *host, const void *addr)
{
	const uint8_t *at = addr;
	struct block *block;
	DL_FOREACH (host_world(host)->fabric->blocks, block) {
		if (block->host == host && !block->freed && at >= block->base &&
		    at < block->base + block->len)
			return block;
	}
	return NULL;
}

void fabric_mem_free(struct host *host, void *addr, size_t len)
{
	struct world *w = host_world(host);
	struct block *block = fabric_block_at(host, addr);
	if (!block || block->base != addr || block->len != len) {
		world_fail(w, "HOST", "mem_free of memory that was not allocated");
		return;
	}
	if (block->num_mrs) {
		world_fail(w, "HOST", "mem_free of block %u while %u MRs cover it", block->id,
			   block->num_mrs);
		return;
	}
	obs_mem_free(w->observer, block);
	block->freed = true;
	unmap_block(block);
}

int fabric_mr_register(struct qp *qp, void *addr, size_t len, bool remote, struct mr **ret_mr)
{
	struct world *w = qp->world;
	struct fabric *fabric = w->fabric;
	struct block *block = fabric_block_at(qp->host, addr);
	if (!block || !len || len > (size_t)(block->base + block->len - (uint8_t *)addr)) {
		world_fail(w, "HOST", "mr_register of memory that was not allocated");
		return -EINVAL;
	}
	if (qp->state == QP_DESTROYED) {
		world_fail(w, "HOST", "mr_register in the PD of a destroyed QP");
		return -EINVAL;
	}
	if (!qp->device->present)
		return -ENODEV;
	struct mr *mr = sim_zalloc(sizeof(*mr));
	do {
		mr->key = (uint32_t)prng_next(&w->rng);
	} while (!mr->key || fabric_mr_find(fabric, mr->key));
	mr->qp = qp;
	mr->block = block;
	mr->addr = addr;
	mr->vaddr = (uint64_t)mr->key << 16;
	mr->len = len;
	mr->remote = remote;
	qp->num_mrs++;
	block->num_mrs++;
	HASH_ADD(hh, fabric->mrs, key, sizeof(mr->key), mr);
	*ret_mr = mr;
	return 0;
}

void fabric_mr_deregister(struct mr *mr)
{
	struct qp *qp = mr->qp;
	for (uint64_t i = qp->acked; qp->state == QP_RTS && i < qp->posted; i++) {
		const struct smcr_wr *wr = &qp->sq[i % qp->depth].wr;
		if (wr->is_write && wr->lkey == mr->key)
			world_fail(qp->world, "CDC-17",
				   "MR deregistered under a posted WRITE on QP %06x", qp->qpn);
	}
	obs_mr_deregister(qp->world->observer, mr);
	qp->num_mrs--;
	mr->block->num_mrs--;
	HASH_DEL(qp->world->fabric->mrs, mr);
	free(mr);
}

struct mr *fabric_mr_find(struct fabric *fabric, uint32_t key)
{
	struct mr *mr;
	HASH_FIND(hh, fabric->mrs, &key, sizeof(key), mr);
	return mr;
}

/* ---- queue pairs ---- */

struct qp *fabric_qp_find(struct fabric *fabric, uint32_t qpn)
{
	struct qp *qp;
	HASH_FIND(hh, fabric->qps, &qpn, sizeof(qpn), qp);
	return qp;
}

int fabric_qp_create(struct device *device, uint64_t link_ref, uint32_t depth, uint32_t recv_len,
		     struct qp **ret_qp)
{
	struct world *w = device->world;
	struct fabric *fabric = w->fabric;
	if (!device->present)
		return -ENODEV;
	if (!depth || depth > 4096) {
		world_fail(w, "HOST", "qp_create with depth %u", depth);
		return -EINVAL;
	}
	struct qp *qp = sim_zalloc(sizeof(*qp));
	do {
		qp->qpn = (uint32_t)prng_range(&w->rng, 2, SMCR_QPN_MAX);
	} while (fabric_qp_find(fabric, qp->qpn));
	qp->world = w;
	qp->device = device;
	qp->host = device->host;
	qp->link_ref = link_ref;
	qp->state = QP_INIT;
	qp->depth = depth;
	qp->recv_len = recv_len;
	qp->sq = sim_zalloc(depth * sizeof(*qp->sq));
	HASH_ADD(hh, fabric->qps, qpn, sizeof(qp->qpn), qp);
	device->num_qps++;
	*ret_qp = qp;
	return 0;
}

int fabric_qp_connect(struct qp *qp, const struct smcr_qp_peer *peer)
{
	struct world *w = qp->world;
	if (qp->state != QP_INIT) {
		if (qp->state != QP_ERR)
			world_fail(w, "HOST", "qp_connect in state %d", qp->state);
		return -EINVAL;
	}
	if (!smcr_mtu_valid(peer->mtu) || peer->mtu > qp->device->info.mtu)
		world_fail(w, "CLC-9", "path MTU code %u on a device of %u", peer->mtu,
			   qp->device->info.mtu);
	qp->peer = *peer;
	qp->state = QP_RTR;
	return 0;
}

int fabric_qp_start(struct qp *qp, uint32_t psn, uint32_t retry_ms)
{
	if (qp->state != QP_RTR) {
		if (qp->state != QP_ERR)
			world_fail(qp->world, "HOST", "qp_start in state %d", qp->state);
		return -EINVAL;
	}
	if (psn > SMCR_PSN_MASK)
		world_fail(qp->world, "CLC-10", "PSN %x", psn);
	qp->psn = psn;
	qp->retry_us = (uint64_t)retry_ms * MSEC;
	qp->state = QP_RTS;
	return 0;
}

void fabric_qp_set_retry(struct qp *qp, uint32_t retry_ms)
{
	if (qp->state != QP_RTS && qp->state != QP_ERR)
		world_fail(qp->world, "HOST", "qp_set_retry in state %d", qp->state);
	qp->retry_us = (uint64_t)retry_ms * MSEC;
}

/* ACKs take as long as the world lets them. */
void fabric_qp_want_ack(const struct qp *qp)
{
	if (qp->state != QP_RTS && qp->state != QP_ERR)
		world_fail(qp->world, "HOST", "qp_want_ack in state %d", qp->state);
}

void fabric_qp_error(struct qp *qp)
{
	if (qp->state >= QP_ERR)
		return;
	wire_land_some(qp);
	qp->state = QP_ERR;
	obs_qp_error(qp->world->observer, qp);
	wire_flush(qp);
}

void fabric_qp_destroy(struct qp *qp)
{
	struct world *w = qp->world;
	if (qp->state == QP_DESTROYED) {
		world_fail(w, "HOST", "qp_destroy twice");
		return;
	}
	if (qp->num_mrs)
		world_fail(w, "HOST", "qp_destroy with %u MRs left", qp->num_mrs);
	if (qp->state == QP_RTS)
		wire_land_some(qp);
	qp->state = QP_DESTROYED;
	qp->device->num_qps--;
	wire_forget(qp);
	obs_qp_destroy(w->observer, qp);
	wire_gone(qp);
}

int fabric_post(struct qp *qp, const struct smcr_wr *wr, size_t n)
{
	struct world *w = qp->world;
	if (qp->state == QP_ERR)
		return -EIO;
	if (qp->state != QP_RTS) {
		world_fail(w, "HOST", "post on QP %06x in state %d", qp->qpn, qp->state);
		return -ENOTCONN;
	}
	if (qp->posted - qp->reported + n > qp->depth) {
		world_fail(w, "HOST", "post beyond the send depth %u of QP %06x", qp->depth,
			   qp->qpn);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n && !w->failed; i++)
		wire_post(qp, &wr[i]);
	return 0;
}
