/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tests/rnicsim/conn.h"
#include "tests/rnicsim/host.h"

#define MOST_AT_ONCE 4

/* A request that is about to be posted. */
struct draft {
	struct rnic_send_wr wr;
	struct rnic_sge pieces[RNIC_MAX_SGE];
	uint64_t tag;
	size_t from; /* the pattern's first byte in the request's data */
	uint32_t length;
	unsigned int allowed;
	struct token *token, *kills;
	size_t offset, stored; /* in the region of the token: what may be stored there */
	struct region *target; /* where it may be stored, or NULL */
};

static uint64_t new_tag(void)
{
	return prng_next(&world->rng) << 8;
}

/* ---- data */

/* Put the data into `n` pieces of the source, or take pieces for what a READ fetches. @return
 * false: there is no room */
static bool fill_pieces(struct end *end, struct draft *d, unsigned int n)
{
	struct arena *arena = d->wr.opcode == RNIC_WR_RDMA_READ ? &end->sink : &end->source;
	uint32_t at = 0;
	for (unsigned int i = 0; i < n; i++) {
		uint32_t left = d->length - at;
		uint32_t len = i + 1 == n ? left : (uint32_t)choose(0, left / (n - i) * 2);
		len = len < left ? len : left;
		uint8_t *piece = arena_take(arena, len);
		if (!piece)
			return false;
		if (arena == &end->source)
			pattern_fill(piece, d->tag, d->from + at, len);
		d->pieces[i] = (struct rnic_sge){ piece, len, rnic_mr_lkey(arena->mr) };
		at += len;
	}
	d->wr.num_sge = n;
	if (n <= RNIC_FEW_SGE && chance(800))
		memcpy(d->wr.sge, d->pieces, n * sizeof(d->pieces[0]));
	else
		d->wr.pieces = d->pieces;
	return true;
}

static bool fill(struct end *end, struct draft *d)
{
	unsigned int most = end->params.max_sge ? end->params.max_sge : RNIC_FEW_SGE;
	unsigned int n = (unsigned int)choose(d->length ? 1 : 0, most);
	if (chance(300))
		n = n > 1 ? 1 : n;
	if (d->length <= RNIC_MAX_INLINE && d->wr.opcode != RNIC_WR_RDMA_READ && chance(400))
		d->wr.flags |= RNIC_SEND_INLINE;
	return fill_pieces(end, d, n);
}

/* ---- requests */

static uint32_t some_length(uint32_t most)
{
	return chance(700) ? (uint32_t)choose_size(0, most) : (uint32_t)choose(0, most);
}

static bool is_refused(const struct draft *d)
{
	return !(d->allowed & ALLOWS(RNIC_WC_SUCCESS));
}

/* A token of another connection of the peer's host that this one must not use, or NULL. */
static struct token *foreign_token(const struct end *end)
{
	for (size_t i = choose(0, world->num_conns - 1), n = 0; n < 2 * world->num_conns; n++) {
		const struct conn *conn = world->conns[(i + n / 2) % world->num_conns];
		const struct end *owner = &conn->ends[n % 2];
		if (conn == end->conn || owner->host != end->peer->host)
			continue;
		/* Others of the protection domain may use what is registered in it, but no
		 * window. */
		bool same = owner->pd == end->peer->pd;
		struct token *token = owner->regions[same ? WINDOWED : choose(0, WINDOWED)].token;
		if (token)
			return token;
	}
	return NULL;
}

/* A token that is dead, or will be when the request comes. */
static struct token *dead_token(const struct end *end)
{
	struct token *token = end->peer->regions[choose(0, MAX_REGIONS - 1)].tokens;
	while (token && !token->dead && !token->given_up)
		token = token->next;
	return token;
}

/* Does a READ use the token whose response has not come? */
static bool is_being_read(const struct end *end, const struct token *token)
{
	for (size_t i = 0; i < end->count; i++) {
		const struct request *r = request_at(end, i);
		if (r->opcode == RNIC_WR_RDMA_READ && r->token == token)
			return true;
	}
	return false;
}

/* Sends also kill a window's token of the peer. Users wait for READs before, mostly. */
static void invalidate(struct end *end, struct draft *d)
{
	struct token *token = end->peer->regions[WINDOWED].token;
	if (chance(world->set.violations)) {
		token = chance(500) ? foreign_token(end) : dead_token(end);
		d->wr.rkey = token ? token->rkey : (uint32_t)prng_next(&world->rng);
		d->allowed = ALLOWS(RNIC_WC_REM_ACCESS_ERR);
	} else if (!token || token->given_up || (is_being_read(end, token) && chance(900))) {
		return;
	} else {
		d->wr.rkey = token->rkey;
		d->kills = token;
	}
	d->wr.opcode = RNIC_WR_SEND_INVALIDATE;
}

static bool draft_send(struct end *end, struct draft *d)
{
	d->wr.opcode = RNIC_WR_SEND;
	d->length = some_length(end->peer->room);
	if (chance(world->set.violations)) {
		d->length = 2 * end->peer->room + 17 + (uint32_t)choose_size(0, 1000);
		d->allowed = ALLOWS(RNIC_WC_REM_INV_REQ_ERR);
	} else if (chance(world->set.invalidations)) {
		invalidate(end, d);
	}
	if (chance(300))
		d->wr.flags |= RNIC_SEND_SOLICITED;
	return fill(end, d);
}

/* A token of the peer that gives this right, or NULL. */
static struct token *some_token(const struct end *end, unsigned int access)
{
	for (size_t i = choose(0, MAX_REGIONS - 1), n = 0; n < MAX_REGIONS; n++) {
		struct token *token = end->peer->regions[(i + n) % MAX_REGIONS].token;
		if (token && !token->given_up && token->access & access)
			return token;
	}
	return NULL;
}

/* Ask for what the peer must refuse. Bytes in front of the first one that it refuses may be
 * stored. */
static void violate_access(struct end *end, struct draft *d, unsigned int access)
{
	const struct token *t = d->token;
	struct token *other = NULL;
	if (!d->length)
		return;
	d->stored = 0;
	uint64_t way = choose(0, 6);
	switch (way) {
	case 0: /* it ends behind the part */
		d->offset = t->offset + t->len - d->length + (size_t)choose_size(1, d->length);
		d->stored = t->offset + t->len - d->offset;
		break;
	case 1: /* it begins before it */
		d->offset = t->offset - (size_t)choose_size(1, d->length);
		break;
	case 2: /* nobody has this key */ d->wr.rkey ^= 1u << choose(0, 31); break;
	case 3: /* far away */ d->offset = (size_t)prng_next(&world->rng) | (size_t)1 << 63; break;
	case 4: /* without the right */
		for (size_t i = 0; i < MAX_REGIONS && !other; i++) {
			other = end->peer->regions[i].token;
			other = other && !other->given_up && !(other->access & access) ? other
										       : NULL;
		}
		break;
	case 5: other = foreign_token(end); break;
	default: other = dead_token(end); break;
	}
	if (other) {
		d->token = other;
		d->wr.rkey = other->rkey;
		d->offset = other->offset;
	} else if (way > 3) {
		d->wr.rkey ^= 1u << choose(0, 31);
	}
	d->allowed = ALLOWS(RNIC_WC_REM_ACCESS_ERR);
}

static bool draft_access(struct end *end, struct draft *d, enum rnic_opcode opcode,
			 unsigned int access)
{
	struct token *token = some_token(end, access);
	if (!token)
		return false;
	uint32_t most =
		token->len < world->set.max_message ? (uint32_t)token->len : world->set.max_message;
	d->wr.opcode = opcode;
	d->token = token;
	d->length = some_length(most);
	d->offset = token->offset + choose(0, token->len - d->length);
	d->stored = opcode == RNIC_WR_RDMA_WRITE ? d->length : 0;
	d->wr.rkey = token->rkey;
	if (chance(world->set.violations))
		violate_access(end, d, access);
	if (opcode == RNIC_WR_RDMA_WRITE && d->stored)
		d->target = token->region;
	else
		d->stored = 0;
	d->from = d->offset;
	d->wr.remote_addr = d->token->vaddr + (d->offset - d->token->offset);
	return fill(end, d);
}

static bool draft(struct end *end, struct draft *d)
{
	if (end->started && end->send_params.reads_asked && chance(world->set.reads))
		return draft_access(end, d, RNIC_WR_RDMA_READ, RNIC_ACCESS_REMOTE_READ);
	return chance(500) ? draft_send(end, d)
			   : draft_access(end, d, RNIC_WR_RDMA_WRITE, RNIC_ACCESS_REMOTE_WRITE);
}

/* The memory of own requests is wrong. */
static void violate_locally(struct end *end, struct draft *d)
{
	struct rnic_sge *sge = d->wr.pieces ? d->pieces : d->wr.sge;
	unsigned int i = (unsigned int)choose(0, d->wr.num_sge ? d->wr.num_sge - 1 : 0);
	if (d->wr.flags & RNIC_SEND_INLINE || !d->wr.num_sge || !sge[i].length)
		return;
	d->allowed = ALLOWS(RNIC_WC_LOC_PROT_ERR);
	d->stored = 0;
	d->kills = NULL;
	/* What only peers may read is not written by READs, what they may write is not sent. */
	const struct region *wrong =
		&end->regions[d->wr.opcode == RNIC_WR_RDMA_READ ? OFFERED : TARGET];
	if (chance(500) && wrong->mr) {
		sge[i].lkey = rnic_mr_lkey(wrong->mr);
		if (sge[i].length <= wrong->block.len)
			sge[i].addr = wrong->block.mem;
	} else {
		sge[i].lkey ^= 1u << choose(0, 31);
	}
}

/* ---- posting */

static void spoil_inline(const struct draft *d)
{
	const struct rnic_sge *sge = d->wr.pieces ? d->wr.pieces : d->wr.sge;
	for (unsigned int i = 0; i < d->wr.num_sge && d->wr.flags & RNIC_SEND_INLINE; i++)
		memset((uint8_t *)(uintptr_t)sge[i].addr, 0xEE, sge[i].length);
}

static struct read *read_of(const struct draft *d)
{
	const struct region *region = d->token->region;
	size_t len = is_refused(d) ? 0 : d->length;
	struct read *read = sim_alloc(sizeof(*read) + len);
	*read = (struct read){ .offset = d->offset, .len = len, .stores = region->num_stores };
	if (!len)
		return read;
	region_expect(region, d->offset, len, read->expected);
	read->pieces = d->wr.num_sge;
	memcpy(read->piece, d->pieces, sizeof(read->piece));
	return read;
}

/* The RNIC has taken the request. */
static void note(struct end *end, const struct draft *d, uint64_t source_mark, uint64_t sink_mark)
{
	static const char *const names[] = { "SEND", "WRITE", "READ", "SEND with invalidate" };
	uint64_t message = end->num_messages;
	bool is_send = d->wr.opcode == RNIC_WR_SEND || d->wr.opcode == RNIC_WR_SEND_INVALIDATE;
	if (is_send) {
		struct message *m = message_add(end);
		m->tag = d->tag;
		m->length = d->length;
		m->sound = !is_refused(d);
		m->kills = d->kills;
	}
	struct request *r = request_add(end);
	r->wr_id = d->wr.wr_id;
	r->opcode = d->wr.opcode;
	r->signaled = d->wr.flags & RNIC_SEND_SIGNALED;
	r->length = d->length;
	r->allowed = d->allowed;
	r->token = d->token;
	r->kills = d->kills;
	r->message = message;
	r->source_mark = source_mark;
	r->sink_mark = sink_mark;
	if (d->target) {
		r->target = d->target;
		r->store = region_post(d->target, d->tag, d->offset, d->stored);
	}
	if (d->wr.opcode == RNIC_WR_RDMA_READ) {
		r->read = read_of(d);
		if (end->asks_too_much)
			r->allowed |= ALLOWS(RNIC_WC_REM_INV_REQ_ERR);
	}
	if (d->kills) {
		d->kills->given_up = true;
		memory_token_ends(end, d->kills);
	}
	if (is_refused(d))
		end->gave_cause = true;
	spoil_inline(d);
	end->unsignaled = r->signaled ? 0 : end->unsignaled + 1;
	world_note(r->wr_id << 8 ^ r->length);
	world_log("%s posts %" PRIu64 ": %s%s%s, %u bytes%s", end->name, r->wr_id, names[r->opcode],
		  d->wr.flags & RNIC_SEND_INLINE ? " inline" : "", r->signaled ? "" : " unsignaled",
		  r->length, is_refused(d) ? ", which must be refused" : "");
}

/* A post may only be refused for a reason. */
static void judge_post(const struct end *end, int r, size_t n)
{
	if (r == -EIO)
		return; /* the queue pair has failed, of which the user will be told */
	if (r == -ENOTCONN && !end->started)
		return;
	if (r == -ENOMEM && (end->count + n > end->params.send_depth || world->set.no_memory))
		return;
	world_fail("%s: posting %zu requests behind %zu fails: %s", end->name, n, end->count,
		   strerror(-r));
}

static bool post(struct end *end)
{
	static struct draft drafts[MOST_AT_ONCE];
	struct rnic_send_wr wrs[MOST_AT_ONCE];
	uint64_t source_marks[MOST_AT_ONCE], sink_marks[MOST_AT_ONCE];
	size_t n = choose(1, MOST_AT_ONCE);
	for (size_t i = 0; i < n; i++) {
		struct draft *d = &drafts[i];
		*d = (struct draft){ .tag = new_tag(), .allowed = ALLOWS(RNIC_WC_SUCCESS) };
		d->wr.wr_id = end->next_wr_id++;
		if (chance(600) || end->unsignaled + i + 2 > end->params.send_depth / 2)
			d->wr.flags |= RNIC_SEND_SIGNALED;
		if (!draft(end, d)) {
			n = i;
			break;
		}
		if (chance(world->set.violations / 2) && !is_refused(d))
			violate_locally(end, d);
		wrs[i] = d->wr;
		source_marks[i] = arena_mark(&end->source);
		sink_marks[i] = arena_mark(&end->sink);
	}
	if (n == 0)
		return false;
	int r = rnic_post_send(end->qp, wrs, n);
	if (r) {
		judge_post(end, r, n); /* the data are given back with those of the next request */
		return false;
	}
	for (size_t i = 0; i < n; i++)
		note(end, &drafts[i], source_marks[i], sink_marks[i]);
	if (chance(200))
		rnic_qp_want_ack(end->qp);
	return true;
}

void user_post_last(struct end *end)
{
	struct draft d = { .allowed = ALLOWS(RNIC_WC_SUCCESS) };
	d.wr = (struct rnic_send_wr){ .wr_id = end->next_wr_id,
				      .opcode = RNIC_WR_RDMA_WRITE,
				      .flags = RNIC_SEND_SIGNALED };
	int r = rnic_post_send(end->qp, &d.wr, 1);
	if (r)
		return;
	end->next_wr_id++;
	note(end, &d, arena_mark(&end->source), arena_mark(&end->sink));
	request_at(end, end->count - 1)->is_last = true;
	end->last_posted = true;
}

/* ---- other things that users do */

void user_end(struct end *end)
{
	end->gave_cause = true;
	if (chance(500)) {
		world_log("%s: the user ends it", end->name);
		rnic_qp_error(end->qp);
	} else {
		end_destroy(end);
	}
}

void user_step(struct end *end)
{
	if (chance(world->set.ends)) {
		world->steps++;
		user_end(end);
		return;
	}
	if (chance(500))
		memory_post_buffers(end);
	switch (choose(0, 24)) {
	case 0: rnic_poll(end->host->rnic); break;
	case 1: rnic_qp_want_ack(end->qp); break;
	case 2:
		end->send_params.retry_ms =
			(unsigned int)choose(world->set.retry_ms_min, world->set.retry_ms_max);
		if (end->send_params.retry_ms > end->longest_retry_ms)
			end->longest_retry_ms = end->send_params.retry_ms;
		rnic_qp_set_retry(end->qp, end->send_params.retry_ms);
		break;
	case 3:
	case 4:
	case 5: memory_step(end); break;
	default: world->steps += post(end); break;
	}
}
