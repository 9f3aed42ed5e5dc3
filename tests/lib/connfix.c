/* SPDX-License-Identifier: MIT */
#include "tests/lib/connfix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/clc.h"

#define SHADOW_VADDR  UINT64_C(0x7f0000010000)
#define SHADOW_INDEX  3
#define PEER_TOKEN    0xA1B2C3D4u
#define SLAB_BSIZE    2 /* 64 KiB, then cut down to the size that the test wants */
#define SLAB_ELEMENTS 4

static uint8_t pattern(uint64_t pos)
{
	return (uint8_t)(pos * 7 + (pos >> 8) * 13 + (pos >> 16));
}

#define fail_at(file, line, ...)                                                                   \
	do {                                                                                       \
		print_error(__VA_ARGS__);                                                          \
		print_error("\n");                                                                 \
		_fail((file), (line));                                                             \
	} while (0)

/* ---- the host ---- */

static void op_random(void *ctx, void *buf, size_t len)
{
	struct connfix *f = ctx;
	uint8_t *out = buf;
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(f->next_key++ * 167 + 13);
}

static int op_mem_alloc(void *ctx, size_t len, void **ret_addr)
{
	struct connfix *f = ctx;
	void *addr = aligned_alloc(4096, len);
	assert_non_null(addr);
	memset(addr, 0, len);
	f->live_mem += len;
	*ret_addr = addr;
	return 0;
}

static void op_mem_free(void *ctx, void *addr, size_t len)
{
	struct connfix *f = ctx;
	assert_false(f->shared);
	f->live_mem -= len;
	free(addr);
}

static int op_mem_recover(void *ctx, void *addr, size_t len)
{
	struct connfix *f = ctx;
	assert_false(f->shared);
	f->recovered++;
	f->recovered_len += len;
	if (f->fail_recover)
		return -ENOMEM;
	memset(addr, 0, len);
	return 0;
}

static int op_mem_discard(void *ctx, void *addr, size_t len)
{
	(void)ctx;
	memset(addr, 0, len);
	return 0;
}

static int op_qp_create(void *ctx, uint32_t device_id, uint64_t link_ref, uint32_t send_depth,
			uint32_t recv_len, void **ret_qp, uint32_t *ret_qpn)
{
	struct connfix *f = ctx;
	(void)device_id;
	(void)send_depth;
	(void)recv_len;
	uint64_t *qp = malloc(sizeof(*qp));
	assert_non_null(qp);
	*qp = link_ref;
	f->live_qps++;
	*ret_qp = qp;
	*ret_qpn = 0x100 + (uint32_t)link_ref;
	return 0;
}

static int op_qp_connect(void *ctx, void *qp, const struct smcr_qp_peer *peer)
{
	(void)ctx;
	(void)qp;
	(void)peer;
	return 0;
}

static int op_qp_start(void *ctx, void *qp, uint32_t psn, uint32_t retry_ms)
{
	(void)ctx;
	(void)qp;
	(void)psn;
	(void)retry_ms;
	return 0;
}

static void op_qp_set_retry(void *ctx, void *qp, uint32_t retry_ms)
{
	(void)ctx;
	(void)qp;
	(void)retry_ms;
}

static void op_qp_want_ack(void *ctx, void *qp)
{
	struct connfix *f = ctx;
	(void)qp;
	f->acks_wanted++;
}

static void op_qp_error(void *ctx, void *qp)
{
	(void)ctx;
	(void)qp;
}

static uint64_t op_qp_heard(void *ctx, void *qp)
{
	(void)ctx;
	(void)qp;
	return 0;
}

static void op_qp_destroy(void *ctx, void *qp)
{
	struct connfix *f = ctx;
	f->live_qps--;
	free(qp);
}

static int op_mr_register(void *ctx, void *qp, void *addr, size_t len, bool remote,
			  struct smcr_mr *ret_mr)
{
	struct connfix *f = ctx;
	(void)qp;
	(void)len;
	(void)remote;
	f->live_mrs++;
	*ret_mr = (struct smcr_mr){ .handle = f, .vaddr = (uintptr_t)addr };
	ret_mr->lkey = ++f->next_key;
	ret_mr->rkey = ++f->next_key;
	return 0;
}

static void op_mr_deregister(void *ctx, void *mr)
{
	struct connfix *f = ctx;
	(void)mr;
	f->live_mrs--;
}

static struct smcr_link *link_of(struct connfix *f, uint64_t ref)
{
	if (f->link3 && f->link3->ref == ref)
		return f->link3;
	return f->link2 && f->link2->ref == ref ? f->link2 : f->link;
}

/* The WRITE must lie in the peer's element and in the own send buffer, and use its link's keys. */
static void note_write(struct connfix *f, const struct smcr_link *link, const struct smcr_wr *wr,
		       struct connfix_post *post)
{
	const struct smcr_conn_tx *tx = &f->conn->tx;
	uint64_t element =
		tx->rmb->token[link->slot].vaddr + (uint64_t)(tx->index - 1) * tx->element_size;
	assert_int_equal(wr->rkey, tx->rmb->token[link->slot].rkey);
	assert_int_equal(wr->lkey, tx->buf.slab->reg[link->slot].lkey);
	assert_in_range(wr->remote_addr, element + tx->element_size - tx->usable,
			element + tx->element_size - 1);
	assert_in_range(wr->length, 1, element + tx->element_size - wr->remote_addr);
	const uint8_t *src = wr->addr;
	assert_true(src >= tx->buf.addr && src + wr->length <= tx->buf.addr + tx->buf.size);
	post->from = (uint32_t)(wr->remote_addr - element);
	post->len = wr->length;
	post->src = wr->addr;
}

static int op_post(void *ctx, void *qp, const struct smcr_wr *wr, size_t n)
{
	struct connfix *f = ctx;
	if (f->post_fails)
		return -EIO;
	for (size_t i = 0; i < n; i++) {
		assert_true(f->num_posts < CONNFIX_LOG);
		struct connfix_post *post = &f->posts[f->num_posts++];
		*post = (struct connfix_post){
			.link_ref = *(uint64_t *)qp,
			.wr_id = wr[i].wr_id,
			.is_write = wr[i].is_write,
		};
		assert_int_equal(wr[i].signaled, i == n - 1);
		if (wr[i].is_write)
			note_write(f, link_of(f, post->link_ref), &wr[i], post);
		else if (smcr_cdc_decode(wr[i].addr, wr[i].length, &post->cdc) < 0)
			f->num_posts--; /* LLC messages of the group are not recorded */
	}
	return 0;
}

static void op_clc_send(void *user, const uint8_t *msg, size_t len)
{
	(void)user;
	(void)msg;
	(void)len;
	fail_msg("CLC message from an open connection");
}

static void op_conn_event(void *user, const struct smcr_conn_event *event)
{
	struct connfix *f = user;
	assert_non_null(f); /* NULL after CLOSED */
	assert_false(f->closed_raised);
	if (event->type == SMCR_CONN_CLOSED)
		f->closed_raised = true;
	if (event->type == SMCR_CONN_WRITABLE) {
		f->writable++;
		return;
	}
	if (event->type == SMCR_CONN_RESET && event->rx_intact)
		f->readable_in_reset = connfix_readable(f);
	assert_true(f->num_events < CONNFIX_EVENTS);
	f->events[f->num_events++] = *event;
}

static void op_unshare(void *user)
{
	struct connfix *f = user;
	assert_non_null(f); /* NULL after CLOSED */
	assert_true(f->shared);
	f->shared = false;
}

static void op_command_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	(void)ctx;
	(void)id;
	(void)result;
}

static void op_event(void *ctx, const struct smcr_event *event)
{
	(void)ctx;
	(void)event;
}

static void op_log(void *ctx, int priority, const char *line)
{
	struct connfix *f = ctx;
	(void)priority;
	f->log_lines++;
	snprintf(f->last_log, sizeof(f->last_log), "%s", line);
}

static void op_trace(void *ctx, enum ipc_trace category, const char *line)
{
	(void)category;
	op_log(ctx, 0, line);
}

static const struct smcr_host_ops host_ops = { .random = op_random,
					       .log = op_log,
					       .trace = op_trace };

static const struct smcr_rdma_ops rdma_ops = {
	.mem_alloc = op_mem_alloc,
	.mem_free = op_mem_free,
	.mem_recover = op_mem_recover,
	.mem_discard = op_mem_discard,
	.qp_create = op_qp_create,
	.qp_connect = op_qp_connect,
	.qp_start = op_qp_start,
	.qp_set_retry = op_qp_set_retry,
	.qp_want_ack = op_qp_want_ack,
	.qp_error = op_qp_error,
	.qp_heard = op_qp_heard,
	.qp_destroy = op_qp_destroy,
	.mr_register = op_mr_register,
	.mr_deregister = op_mr_deregister,
	.post = op_post,
};

static const struct smcr_conn_ops conn_ops = { .clc_send = op_clc_send,
					       .event = op_conn_event,
					       .unshare = op_unshare };

static struct smcr_ops ops_of(struct connfix *f)
{
	return (struct smcr_ops){ .host = &host_ops,
				  .host_ctx = f,
				  .rdma = &rdma_ops,
				  .rdma_ctx = f,
				  .conns = &conn_ops,
				  .command_done = op_command_done,
				  .command_ctx = f,
				  .event = op_event,
				  .event_ctx = f };
}

/* ---- building ---- */

static struct smcr_link *build_link(struct connfix *f, uint32_t device_id)
{
	struct smcr_device_info info = { .id = device_id, .mtu = SMCR_MTU_4096, .active = true };
	info.gid[15] = info.mac[5] = (uint8_t)device_id;
	info.vlan = SMCR_NO_VLAN;
	snprintf(info.name, sizeof(info.name), "fake%u", device_id);
	assert_int_equal(smcr_engine_device_add(f->engine, &info), 0);
	struct smcr_link *link = NULL;
	assert_int_equal(smcr_link_new(f->lgr, smcr_device_by_id(f->engine, device_id), 0, &link),
			 0);
	link->state = SMCR_LINK_ACTIVE;
	return link;
}

static void build_group(struct connfix *f)
{
	struct smcr_config config = {
		.bsize = SLAB_BSIZE,
		.bsize_min = SLAB_BSIZE,
		.elements_per_rmb = SLAB_ELEMENTS,
		.send_depth = f->params.send_depth,
	};
	struct smcr_prefix prefix = { .family = 2, .prefix_len = 24 };
	static const uint8_t peer_id[SMCR_PEER_ID_LEN] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	f->now = 1000000;
	const struct smcr_ops ops = ops_of(f);
	assert_int_equal(smcr_engine_new(&config, &ops, f->now, &f->engine), 0);
	assert_int_equal(
		smcr_lgr_new(f->engine, SMCR_ROLE_SERVER, peer_id, SMCR_NO_VLAN, &prefix, &f->lgr),
		0);
	f->lgr->state = SMCR_LGR_ACTIVE;
	f->lgr->dialect = f->params.deployed ? SMCR_DIALECT_DEPLOYED : SMCR_DIALECT_RFC;
	f->lgr->dialect_known = true;
	f->link = build_link(f, 1);
	if (f->params.links >= 2)
		f->link2 = build_link(f, 2);
	if (f->params.links >= 3)
		f->link3 = build_link(f, 3);
}

static void take_element(struct connfix *f, bool is_rmb, uint32_t size, struct smcr_element *ret)
{
	struct smcr_slab *slab;
	assert_int_equal(smcr_slab_add(f->lgr, is_rmb, SLAB_BSIZE, SLAB_BSIZE, &slab), 0);
	slab->state = SMCR_SLAB_READY;
	assert_int_equal(smcr_element_take(f->lgr, is_rmb, SLAB_BSIZE, SLAB_BSIZE, ret), 0);
	assert_true(size <= ret->size);
	ret->size = size;
}

/* Make `vaddr` (start of an RMB of which `index` is the element) the place to write to. */
static void target(struct connfix *f, uint64_t vaddr, uint8_t index)
{
	struct smcr_peer_rmb *rmb = f->conn->tx.rmb;
	if (!rmb) {
		assert_int_equal(smcr_peer_rmb_add(f->lgr, &rmb), 0);
		struct smcr_clc_accept msg = { .rmbe_index = index, .alert_token = PEER_TOKEN };
		smcr_peer_rmb_claim(rmb, &msg, f->conn);
		f->conn->tx.element_size = f->params.element; /* may be no power of two */
	}
	smcr_peer_rmb_set(rmb, f->link, 0x1111, vaddr);
	if (f->link2)
		smcr_peer_rmb_set(rmb, f->link2, 0x2222, vaddr + 0x100000);
	if (f->link3)
		smcr_peer_rmb_set(rmb, f->link3, 0x3333, vaddr + 0x200000);
}

static void build_conn(struct connfix *f)
{
	struct smcr_conn_params params = { .role = SMCR_ROLE_SERVER, .user = f };
	assert_int_equal(smcr_conn_new(f->engine, &params, &f->conn), 0);
	struct smcr_conn *conn = f->conn;
	smcr_lgr_add_conn(f->lgr, conn);
	smcr_conn_new_token(conn);
	smcr_link_assign(conn, f->link);
	take_element(f, true, f->params.element, &conn->rx.element);
	take_element(f, false, f->params.sndbuf, &conn->tx.buf);
	f->shadow = calloc(1, f->params.element);
	assert_non_null(f->shadow);
	target(f, SHADOW_VADDR, SHADOW_INDEX);
	smcr_rx_prepare(conn);
}

static struct smcr_ring ring_of(const struct connfix *f)
{
	uint32_t reserved = f->params.deployed ? 0 : 4;
	return (struct smcr_ring){ f->params.element, f->params.element - reserved };
}

uint64_t connfix_pos_of(const struct connfix *f, struct connfix_pos pos)
{
	struct smcr_ring ring = ring_of(f);
	if (!pos.wrap && !pos.cursor)
		return 0;
	return (uint64_t)pos.wrap * ring.usable + pos.cursor - (ring.size - ring.usable);
}

static void place_directions(struct connfix *f)
{
	struct smcr_conn_tx *tx = &f->conn->tx;
	struct smcr_conn_rx *rx = &f->conn->rx;
	uint64_t out = connfix_pos_of(f, f->params.tx), in = connfix_pos_of(f, f->params.rx);
	tx->committed = tx->written = tx->completed = tx->peer_consumed = out;
	rx->produced = rx->consumed = rx->consumed_sent = in;
	f->peer_cons = out;
	f->peer_prod = in;
}

static struct connfix *build(const struct connfix_params *params)
{
	struct connfix *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	if (params)
		f->params = *params;
	if (!f->params.element)
		f->params.element = 10000;
	if (!f->params.sndbuf)
		f->params.sndbuf = 65536;
	if (!f->params.send_depth)
		f->params.send_depth = 256;
	build_group(f);
	build_conn(f);
	place_directions(f);
	return f;
}

void connfix_open(struct connfix *f)
{
	smcr_data_open(f->conn);
	connfix_expect_event(f, SMCR_CONN_ESTABLISHED, __FILE__, __LINE__);
}

struct connfix *connfix_new(const struct connfix_params *params)
{
	struct connfix *f = build(params);
	if (!f->params.gate_shut)
		connfix_open(f);
	return f;
}

/* f writes into the element that `to` holds. */
static void join(struct connfix *f, struct connfix *to)
{
	f->peer = to;
	f->conn->peer_token = to->conn->token;
	const struct smcr_element *element = &to->conn->rx.element;
	/* Choose the RMB's start so that this element is the RMB's element number SHADOW_INDEX. */
	target(f, (uint64_t)(uintptr_t)element->addr - (SHADOW_INDEX - 1) * (uint64_t)element->size,
	       SHADOW_INDEX);
}

void connfix_new_pair(const struct connfix_params *params_a, const struct connfix_params *params_b,
		      struct connfix **ret_a, struct connfix **ret_b)
{
	struct connfix *a = build(params_a), *b = build(params_b);
	join(a, b);
	join(b, a);
	connfix_open(a);
	connfix_open(b);
	*ret_a = a;
	*ret_b = b;
}

void connfix_free(struct connfix *f)
{
	smcr_engine_free(f->engine);
	assert_int_equal(f->live_mrs, 0);
	assert_int_equal(f->live_qps, 0);
	assert_int_equal(f->live_mem, 0);
	free(f->shadow);
	free(f);
}

void connfix_run(struct connfix *f, uint64_t us)
{
	f->now += us;
	smcr_engine_run(f->engine, f->now);
}

bool connfix_gone(const struct connfix *f)
{
	const struct smcr_conn *conn;
	DL_FOREACH (f->engine->conns, conn)
		if (conn == f->conn)
			return false;
	return true;
}

/* ---- the program ---- */

size_t connfix_space(struct connfix *f)
{
	struct iovec iov[2];
	int n = smcr_conn_tx_space(f->conn, iov);
	size_t len = 0;
	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static void fill(struct connfix *f, size_t n)
{
	struct iovec iov[2];
	int num = smcr_conn_tx_space(f->conn, iov);
	uint64_t pos = f->conn->tx.committed;
	size_t left = n;
	for (int i = 0; i < num && left; i++) {
		uint8_t *out = iov[i].iov_base;
		for (size_t j = 0; j < iov[i].iov_len && left; j++, left--)
			out[j] = pattern(pos++);
	}
	assert_int_equal(left, 0);
}

void connfix_write(struct connfix *f, size_t n)
{
	fill(f, n);
	smcr_conn_tx_commit(f->conn, n);
}

void connfix_write_urgent(struct connfix *f, size_t n)
{
	fill(f, n);
	assert_int_equal(smcr_conn_tx_commit_urgent(f->conn, n), 0);
}

size_t connfix_readable(struct connfix *f)
{
	struct iovec iov[2];
	int n = smcr_conn_rx_data(f->conn, iov);
	size_t len = 0;
	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

void connfix_read(struct connfix *f, size_t n)
{
	struct iovec iov[2];
	int num = smcr_conn_rx_data(f->conn, iov);
	uint64_t pos = f->conn->rx.consumed;
	size_t left = n;
	for (int i = 0; i < num && left; i++) {
		const uint8_t *in = iov[i].iov_base;
		for (size_t j = 0; j < iov[i].iov_len && left; j++, left--, pos++)
			if (in[j] != pattern(pos))
				fail_msg("byte %ju of the stream is wrong", (uintmax_t)pos);
	}
	assert_int_equal(left, 0);
	smcr_conn_rx_consume(f->conn, n);
}

/* ---- the RNIC ---- */

static size_t first_in_flight(const struct connfix *f)
{
	size_t i = f->num_posts;
	while (i > 0 && f->posts[i - 1].wr_id >=
				link_of((struct connfix *)f, f->posts[i - 1].link_ref)->tx_done)
		i--;
	return i;
}

size_t connfix_in_flight(const struct connfix *f)
{
	return f->num_posts - first_in_flight(f);
}

void connfix_complete_n(struct connfix *f, size_t n)
{
	for (size_t i = first_in_flight(f); n > 0; i++, n--) {
		assert_true(i < f->num_posts);
		smcr_engine_send_done(f->engine, f->posts[i].link_ref, f->posts[i].wr_id,
				      SMCR_SEND_OK, NULL);
	}
}

void connfix_complete(struct connfix *f)
{
	connfix_complete_n(f, connfix_in_flight(f));
}

void connfix_break_link(struct connfix *f, struct smcr_link *link)
{
	uint64_t ref = link->ref;
	for (size_t i = first_in_flight(f); i < f->num_posts; i++)
		if (f->posts[i].link_ref == ref)
			smcr_engine_send_done(f->engine, ref, f->posts[i].wr_id, SMCR_SEND_FLUSHED,
					      "test");
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "broken by the test");
	connfix_run(f, 0);
}

void connfix_forget(struct connfix *f)
{
	size_t keep = first_in_flight(f), undelivered = 0;
	while (undelivered < f->num_posts && f->posts[undelivered].delivered)
		undelivered++;
	if (keep > undelivered)
		keep = undelivered;
	memmove(f->posts, f->posts + keep, (f->num_posts - keep) * sizeof(f->posts[0]));
	f->num_posts -= keep;
	f->seen = f->num_posts;
}

/* The far end of a link of f. */
static struct smcr_link *same_link(struct connfix *f, const struct connfix *to, uint64_t ref)
{
	const struct smcr_link *link = link_of(f, ref);
	return link == f->link3 ? to->link3 : link == f->link2 ? to->link2 : to->link;
}

void connfix_lose(struct connfix *f)
{
	for (size_t i = 0; i < f->num_posts; i++)
		f->posts[i].delivered = true;
}

void connfix_deliver(struct connfix *f)
{
	struct connfix *to = f->peer;
	for (size_t i = 0; i < f->num_posts; i++) {
		struct connfix_post *post = &f->posts[i];
		if (post->delivered)
			continue;
		post->delivered = true;
		if (connfix_gone(to)) {
			f->strays += post->is_write;
		} else if (post->is_write) {
			memcpy(to->conn->rx.element.addr + post->from, post->src, post->len);
		} else {
			uint8_t msg[SMCR_CDC_LEN];
			smcr_cdc_encode(&post->cdc, msg, sizeof(msg));
			smcr_engine_recv(to->engine, same_link(f, to, post->link_ref)->ref, msg,
					 sizeof(msg));
		}
	}
}

/* ---- the scripted peer ---- */

void connfix_peer_writes(struct connfix *f, size_t n)
{
	struct smcr_ring ring = ring_of(f);
	for (; n > 0; n--, f->peer_prod++)
		f->conn->rx.element.addr[smcr_ring_offset(ring, f->peer_prod)] =
			pattern(f->peer_prod);
}

void connfix_peer_reads_all(struct connfix *f)
{
	f->peer_cons = f->conn->tx.written;
}

void connfix_inject(struct connfix *f, const struct smcr_cdc *cdc)
{
	uint8_t msg[SMCR_CDC_LEN];
	struct smcr_cdc copy = *cdc;
	if (!connfix_gone(f))
		copy.alert_token = f->conn->token;
	smcr_cdc_encode(&copy, msg, sizeof(msg));
	smcr_engine_recv(f->engine, f->link->ref, msg, sizeof(msg));
}

void connfix_peer_cdc(struct connfix *f)
{
	struct smcr_cdc cdc = {
		.seq = ++f->in_seq,
		.producer = smcr_cursor_encode(ring_of(f), f->peer_prod),
		.consumer = smcr_cursor_encode(ring_of(f), f->peer_cons),
		.prod_flags = f->peer_prod_flags,
		.conn_flags = f->peer_conn_flags,
	};
	connfix_inject(f, &cdc);
}

void connfix_peer_flags(struct connfix *f, uint8_t prod_flags, uint8_t conn_flags)
{
	f->peer_prod_flags = prod_flags;
	f->peer_conn_flags = conn_flags;
	connfix_peer_cdc(f);
}

/* ---- expectations ---- */

static void describe(const struct connfix_post *post, char *text, size_t len)
{
	if (post->is_write)
		snprintf(text, len, "W[%u..%u]", post->from, post->from + post->len - 1);
	else
		snprintf(text, len, "CDC %u p=(%u,%u) c=(%u,%u) flags %02x %02x", post->cdc.seq,
			 post->cdc.producer.wrap, post->cdc.producer.offset,
			 post->cdc.consumer.wrap, post->cdc.consumer.offset, post->cdc.prod_flags,
			 post->cdc.conn_flags);
}

static const struct connfix_post *next_post(struct connfix *f, bool is_write, const char *what,
					    const char *file, int line)
{
	char text[128];
	if (f->seen == f->num_posts)
		fail_at(file, line, "nothing was posted, expected %s", what);
	const struct connfix_post *post = &f->posts[f->seen++];
	describe(post, text, sizeof(text));
	if (post->is_write != is_write)
		fail_at(file, line, "posted %s, expected %s", text, what);
	return post;
}

void connfix_expect_write(struct connfix *f, uint32_t from, uint32_t to, const char *file, int line)
{
	char want[64];
	snprintf(want, sizeof(want), "W[%u..%u]", from, to);
	const struct connfix_post *post = next_post(f, true, want, file, line);
	if (post->from != from || post->from + post->len - 1 != to)
		fail_at(file, line, "posted W[%u..%u], expected %s", post->from,
			post->from + post->len - 1, want);
}

static const struct connfix_post *next_cdc(struct connfix *f, const char *file, int line)
{
	const struct connfix_post *post = next_post(f, false, "a CDC", file, line);
	uint16_t seq = ++f->out_seq;
	if (post->cdc.seq != seq)
		fail_at(file, line, "CDC number %u, expected %u", post->cdc.seq, seq);
	if (!f->peer && post->cdc.alert_token != PEER_TOKEN)
		fail_at(file, line, "CDC with token %08x", post->cdc.alert_token);
	return post;
}

void connfix_expect_validation(struct connfix *f, uint16_t seq, const char *file, int line)
{
	const struct connfix_post *post = next_post(f, false, "a validation", file, line);
	const struct smcr_cdc want = { .seq = seq,
				       .alert_token = post->cdc.alert_token,
				       .prod_flags = SMCR_CDC_FAILOVER };
	uint8_t got_bytes[SMCR_CDC_LEN], want_bytes[SMCR_CDC_LEN];
	char text[128];
	describe(post, text, sizeof(text));
	smcr_cdc_encode(&post->cdc, got_bytes, sizeof(got_bytes));
	smcr_cdc_encode(&want, want_bytes, sizeof(want_bytes));
	if (memcmp(got_bytes, want_bytes, sizeof(want_bytes)))
		fail_at(file, line, "posted %s, expected a validation of %u", text, seq);
	if (!f->peer && post->cdc.alert_token != PEER_TOKEN)
		fail_at(file, line, "validation with token %08x", post->cdc.alert_token);
}

void connfix_expect_cdc(struct connfix *f, struct connfix_pos producer, struct connfix_pos consumer,
			uint8_t prod_flags, uint8_t conn_flags, const char *file, int line)
{
	const struct connfix_post *post = next_cdc(f, file, line);
	const struct smcr_cdc *cdc = &post->cdc;
	char text[128];
	describe(post, text, sizeof(text));
	if (cdc->producer.wrap != producer.wrap || cdc->producer.offset != producer.cursor ||
	    cdc->consumer.wrap != consumer.wrap || cdc->consumer.offset != consumer.cursor ||
	    cdc->prod_flags != prod_flags || cdc->conn_flags != conn_flags)
		fail_at(file, line, "posted %s,\nexpected p=(%u,%u) c=(%u,%u) flags %02x %02x",
			text, producer.wrap, producer.cursor, consumer.wrap, consumer.cursor,
			prod_flags, conn_flags);
}

void connfix_expect_flags(struct connfix *f, uint8_t prod_flags, uint8_t conn_flags,
			  const char *file, int line)
{
	const struct connfix_post *post = next_cdc(f, file, line);
	char text[128];
	describe(post, text, sizeof(text));
	if (post->cdc.prod_flags != prod_flags || post->cdc.conn_flags != conn_flags)
		fail_at(file, line, "posted %s, expected flags %02x %02x", text, prod_flags,
			conn_flags);
}

void connfix_expect_none(struct connfix *f, const char *file, int line)
{
	char text[128];
	if (f->seen == f->num_posts)
		return;
	describe(&f->posts[f->seen], text, sizeof(text));
	fail_at(file, line, "posted %s, expected nothing", text);
}

static const char *event_name(enum smcr_conn_event_type type)
{
	static const char *const names[] = {
		[SMCR_CONN_ESTABLISHED] = "ESTABLISHED", [SMCR_CONN_FALLBACK] = "FALLBACK",
		[SMCR_CONN_FAILED] = "FAILED",           [SMCR_CONN_READABLE] = "READABLE",
		[SMCR_CONN_WRITABLE] = "WRITABLE",       [SMCR_CONN_RESET] = "RESET",
		[SMCR_CONN_CLOSED] = "CLOSED",           [SMCR_CONN_URGENT] = "URGENT",
	};
	return names[type];
}

void connfix_expect_event(struct connfix *f, enum smcr_conn_event_type type, const char *file,
			  int line)
{
	if (f->events_seen == f->num_events)
		fail_at(file, line, "no event, expected %s", event_name(type));
	enum smcr_conn_event_type got = f->events[f->events_seen++].type;
	if (got != type)
		fail_at(file, line, "event %s, expected %s", event_name(got), event_name(type));
}

void connfix_expect_no_event(struct connfix *f, const char *file, int line)
{
	if (f->events_seen != f->num_events)
		fail_at(file, line, "event %s, expected none",
			event_name(f->events[f->events_seen].type));
}

void connfix_expect_closed(struct connfix *f, bool tcp_reset, const char *file, int line)
{
	connfix_expect_event(f, SMCR_CONN_CLOSED, file, line);
	if (f->events[f->events_seen - 1].tcp_reset != tcp_reset)
		fail_at(file, line, "CLOSED with%s TCP reset", tcp_reset ? "out" : "");
	connfix_expect_no_event(f, file, line);
}

void connfix_expect_state(struct connfix *f, enum smcr_conn_state state, const char *file, int line)
{
	if (connfix_gone(f))
		fail_at(file, line, "the connection is gone, expected state %d", state);
	if (f->conn->state != state)
		fail_at(file, line, "state %d, expected %d", f->conn->state, state);
}
