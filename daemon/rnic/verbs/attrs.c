/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "daemon/rnic/verbs/internal.h"

/* IBA 9.7.6.1.3: shorter timeouts need not be exact, and a busy peer needs this time to answer. */
#define MIN_TIMEOUT     11 /* 8.4 ms */
#define MAX_TIMEOUT     31 /* 2.4 hours */
#define ENDLESS_TIMEOUT 14 /* 67 ms */
#define RETRY_CNT       7

/* A request for which the receiver has no buffer is repeated after 0.64 ms (IBA table 45). */
#define MIN_RNR_TIMER 12

/* What devices are told when there are no RDMA READs: not every driver has to take 0. The access
 * flags, and rnic_post_send(), see to it that there are none. */
#define NO_READS 1

/* The value is used on routed paths only; the kernel takes it from the route. */
#define HOP_LIMIT 64

uint64_t verbs_patience_us(struct verbs_patience patience)
{
	return ((UINT64_C(4096) << patience.timeout) / 1000) * (patience.retry_cnt + 1u);
}

struct verbs_patience verbs_patience_for(unsigned int retry_ms, bool endless)
{
	struct verbs_patience patience = { endless ? ENDLESS_TIMEOUT : MIN_TIMEOUT, RETRY_CNT };
	while (!endless && patience.timeout < MAX_TIMEOUT &&
	       verbs_patience_us(patience) < (uint64_t)retry_ms * 1000)
		patience.timeout++;
	return patience;
}

int verbs_attr_init(uint8_t port, struct ibv_qp_attr *ret_attr)
{
	*ret_attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.port_num = port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

int verbs_attr_rtr(uint8_t port, uint8_t gid_index, const struct rnic_qp_peer *peer,
		   struct ibv_qp_attr *ret_attr)
{
	*ret_attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)peer->path_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->rq_psn,
		.max_dest_rd_atomic = NO_READS,
		.min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = { .is_global = 1,
			     .port_num = port,
			     .grh = { .sgid_index = gid_index, .hop_limit = HOP_LIMIT } },
	};
	memcpy(ret_attr->ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (peer->reads_answered == 0)
		return mask;
	ret_attr->max_dest_rd_atomic = peer->reads_answered;
	ret_attr->qp_access_flags =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	return mask | IBV_QP_ACCESS_FLAGS;
}

int verbs_attr_rts(const struct rnic_qp_send_params *params, bool endless,
		   struct ibv_qp_attr *ret_attr)
{
	struct verbs_patience patience = verbs_patience_for(params->retry_ms, endless);
	*ret_attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = params->sq_psn,
		.timeout = patience.timeout,
		.retry_cnt = patience.retry_cnt,
		.rnr_retry = (uint8_t)params->rnr_retry,
		.max_rd_atomic = params->reads_asked ? params->reads_asked : NO_READS,
	};
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

enum rnic_wc_status verbs_wc_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS: return RNIC_WC_SUCCESS;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_MW_BIND_ERR: return RNIC_WC_LOC_PROT_ERR;
	case IBV_WC_BAD_RESP_ERR: return RNIC_WC_BAD_RESP_ERR;
	case IBV_WC_REM_ACCESS_ERR: return RNIC_WC_REM_ACCESS_ERR;
	case IBV_WC_REM_INV_REQ_ERR: return RNIC_WC_REM_INV_REQ_ERR;
	case IBV_WC_REM_OP_ERR: return RNIC_WC_REM_OP_ERR;
	case IBV_WC_RETRY_EXC_ERR: return RNIC_WC_RETRY_EXC_ERR;
	case IBV_WC_RNR_RETRY_EXC_ERR: return RNIC_WC_RNR_RETRY_EXC_ERR;
	case IBV_WC_WR_FLUSH_ERR: return RNIC_WC_WR_FLUSH_ERR;
	default: return RNIC_WC_GENERAL_ERR;
	}
}
