/* SPDX-License-Identifier: MIT */
/*
 * ib_send_bw, ib_read_bw and ib_write_bw with -R. Two connections go to the same port. By the first
 * one the sides tell each other parameters, message by message, the client always first:
 *
 *   16 bytes   the version, as text
 *   4, 4       sizes of a page and of a cache line, big-endian
 *   2          the code of the path MTU, a digit
 *   56         zeros: the sides meet. Then the client makes the second connection
 *   56         zeros
 *   56, ..     the place of the data, three times; SEND: four times
 *
 * Data go by the second connection, from the client; of RDMA READ to it. Then by the first one:
 *
 *   56         the place of the data again
 *   8, ..      five results of the client: size, iterations, and three rates; not of SEND
 *   56         the place; not of SEND
 *
 * Then the client ends the second connection, and both sides end the first one.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/bytes.h"
#include "tests/interop/peer/peer.h"

#define VERSION     "6.06"
#define VERSION_LEN 16
#define PAGE        4096
#define CACHE_LINE  64
#define PLACE_LEN   56
#define RESULT_LEN  8
#define NUM_RESULTS 5
#define UNDER_WAY   16
#define OUTSTANDING 128 /* RDMA READs that perftest has under way if it can */
#define GID_AT      32

enum kind {
	KIND_SEND,
	KIND_READ,
	KIND_WRITE,
};

/* Where a side's data are. */
struct place {
	uint32_t rkey;
	uint64_t addr;
};

struct run {
	struct peer *peer;
	const struct peer_options *options;
	enum kind kind;
	struct peer_conn *talk, *data;
	struct peer_mem out;    /* messages of `talk` */
	struct peer_mem shared; /* data that the peer reads or writes */
	struct peer_mem own;    /* data of own requests */
	struct place theirs;
	unsigned int places; /* messages with a place, after the data connection was made */
};

static const struct peer_shape talk_shape = {
	.message_max = 64, .receives = 8, .sends = 4, .rnr_retry = 7
};

static enum kind kind_of(const struct peer *peer, const char *name)
{
	static const char *const names[] = { "send", "read", "write" };
	for (int i = 0; i < 3; i++)
		if (name && strcmp(name, names[i]) == 0)
			return (enum kind)i;
	peer_die(peer, "the kinds are send, read and write");
}

static struct peer_shape data_shape(const struct run *run)
{
	bool reads = run->kind == KIND_READ;
	return (struct peer_shape){
		.message_max = run->options->size,
		.receives = run->kind == KIND_SEND ? run->options->count : 1,
		.sends = UNDER_WAY,
		.reads_answered = reads ? OUTSTANDING : 0,
		.reads_asked = reads ? OUTSTANDING : 0,
		.rnr_retry = 7,
	};
}

static void run_begin(struct run *run, struct peer *peer, const struct peer_options *options)
{
	size_t len = options->size > PAGE ? options->size : PAGE;
	*run = (struct run){ .peer = peer,
			     .options = options,
			     .kind = kind_of(peer, options->kind) };
	peer_mem_new(peer, PLACE_LEN, RNIC_ACCESS_LOCAL_WRITE, &run->out);
	peer_mem_new(peer, len,
		     run->kind == KIND_READ ? RNIC_ACCESS_REMOTE_READ
					    : RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE,
		     &run->shared);
	peer_mem_new(peer, len, RNIC_ACCESS_LOCAL_WRITE, &run->own);
	if (run->kind == KIND_READ)
		for (size_t i = 0; i < len; i++)
			run->shared.addr[i] = (uint8_t)(i * 7 + i / 251);
}

static void run_end(struct run *run)
{
	peer_conn_free(run->talk);
	peer_conn_free(run->data);
	peer_mem_free(&run->out);
	peer_mem_free(&run->shared);
	peer_mem_free(&run->own);
}

/* ---- messages of the first connection */

static void say(struct run *run, uint32_t len)
{
	peer_post(run->talk, RNIC_WR_SEND, &run->out, 0, len, 0, 0);
	peer_await_posted(run->talk, 0);
}

/* Put the own place into `out`; zeros as long as there is no data connection. */
static void put_place(struct run *run)
{
	struct bytes_writer w = bytes_writer(run->out.addr, PLACE_LEN);
	if (!run->data || run->places == 0) {
		write_zeros(&w, PLACE_LEN);
		return;
	}
	write_be32(&w, 0); /* LID */
	write_be32(&w, run->data->shape.reads_asked);
	write_be32(&w, rnic_qp_num(run->data->qp));
	write_be32(&w, 0); /* PSN: the connection manager has agreed on it */
	write_be32(&w, rnic_mr_rkey(run->shared.mr));
	write_zeros(&w, 4);
	write_be64(&w, rnic_mr_vaddr(run->shared.mr));
	write_bytes(&w, run->peer->info.gids[0].raw, 16);
	write_be32(&w, 0); /* of a shared receive queue */
	write_be32(&w, 0); /* index of the GID */
}

static void get_place(struct run *run, const uint8_t *data)
{
	struct bytes_reader r = bytes_reader(data + 16, PLACE_LEN - 16);
	if (!run->data || run->places == 0)
		return;
	run->theirs.rkey = read_be32(&r);
	read_skip(&r, 4);
	run->theirs.addr = read_be64(&r);
}

/* Take a message of the given length. */
static const uint8_t *take(struct run *run, uint32_t len)
{
	uint32_t got;
	const uint8_t *data = peer_receive(run->talk, &got);
	if (got != len)
		peer_die(run->peer, "a message of %u bytes in place of %u", got, len);
	return data;
}

/* ---- server */

/* Answer a message of the client by one of the same kind, which its length tells. */
static void answer(struct run *run)
{
	uint32_t len;
	const uint8_t *data = peer_receive(run->talk, &len);
	switch (len) {
	case VERSION_LEN:
	case 4:
	case 2:
	case RESULT_LEN: memcpy(run->out.addr, data, len); break;
	case PLACE_LEN:
		get_place(run, data);
		put_place(run);
		run->places += run->data != NULL;
		break;
	default: peer_die(run->peer, "a message of %u bytes", len);
	}
	say(run, len);
}

static void check_messages(struct run *run)
{
	const uint8_t *first = NULL;
	if (run->data->arrived != run->options->count)
		peer_die(run->peer, "%zu messages have come", run->data->arrived);
	for (unsigned int i = 0; i < run->options->count; i++) {
		const uint8_t *data = run->data->inbox.addr + (size_t)i * run->options->size;
		if (run->data->lengths[i] != run->options->size)
			peer_die(run->peer, "message %u has %u bytes", i, run->data->lengths[i]);
		if (first && memcmp(first, data, run->options->size) != 0)
			peer_die(run->peer, "message %u is not as the first one", i);
		first = first ? first : data;
	}
}

static void check_written(const struct run *run)
{
	size_t at = 0;
	while (at < run->options->size && run->shared.addr[at] == 0)
		at++;
	if (at == run->options->size)
		peer_die(run->peer, "nothing was written");
}

void perftest_server(struct peer *peer, const struct peer_options *options)
{
	struct run run;
	struct peer_listener listener;
	run_begin(&run, peer, options);
	struct peer_shape shape = data_shape(&run);
	peer_listen(peer, &options->addr, &listener);
	run.talk = peer_accept(peer, &listener, &talk_shape);
	while (!run.data || !run.data->ended) {
		if (peer_has_message(run.talk))
			answer(&run);
		else if (!run.data && listener.num > 0)
			run.data = peer_accept(peer, &listener, &shape);
		else
			peer_turn(peer, "the client");
	}
	peer_disconnect(run.talk);
	if (run.kind == KIND_SEND)
		check_messages(&run);
	else if (run.kind == KIND_WRITE)
		check_written(&run);
	peer_unlisten(&listener);
	run_end(&run);
}

/* ---- client */

/* Send the message in `out` and take the server's. */
static const uint8_t *exchange(struct run *run, uint32_t len)
{
	say(run, len);
	return take(run, len);
}

static void exchange_number(struct run *run, uint32_t number)
{
	put_be32(run->out.addr, number);
	if (get_be32(exchange(run, 4)) != number)
		peer_die(run->peer, "the server has another size than %u", number);
}

static void exchange_places(struct run *run, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++) {
		put_place(run);
		get_place(run, exchange(run, PLACE_LEN));
	}
}

static void begin_talk(struct run *run)
{
	memset(run->out.addr, 0, VERSION_LEN);
	memcpy(run->out.addr, VERSION, sizeof(VERSION));
	if (memcmp(exchange(run, VERSION_LEN), VERSION, sizeof(VERSION)) != 0)
		peer_die(run->peer, "the server has another version");
	exchange_number(run, PAGE);
	exchange_number(run, CACHE_LINE);
	run->out.addr[0] = (uint8_t)('0' + run->peer->info.max_path_mtu);
	run->out.addr[1] = 0;
	exchange(run, 2);
	exchange_places(run, 1);
}

static void transfer(struct run *run)
{
	static const enum rnic_opcode opcode[] = { RNIC_WR_SEND, RNIC_WR_RDMA_READ,
						   RNIC_WR_RDMA_WRITE };
	for (unsigned int i = 0; i < run->options->count; i++)
		peer_post(run->data, opcode[run->kind], &run->own, 0, run->options->size,
			  run->theirs.addr, run->theirs.rkey);
	peer_await_posted(run->data, 0);
}

/* perftest fills its memory with numbers by chance. */
static void check_read(const struct run *run)
{
	size_t zeros = 0;
	for (size_t i = 0; i < run->options->size; i++)
		zeros += run->own.addr[i] == 0;
	if (zeros > run->options->size / 2)
		peer_die(run->peer, "%zu bytes of what was read are zero", zeros);
}

static void end_talk(struct run *run)
{
	exchange_places(run, 1);
	if (run->kind == KIND_SEND)
		return;
	/* The rates, which come last, are no numbers that anybody needs here. */
	const uint64_t results[NUM_RESULTS] = { run->options->size, run->options->count };
	for (int i = 0; i < NUM_RESULTS; i++) {
		struct bytes_writer w = bytes_writer(run->out.addr, RESULT_LEN);
		write_be64(&w, results[i]);
		exchange(run, RESULT_LEN);
	}
	exchange_places(run, 1);
}

void perftest_client(struct peer *peer, const struct peer_options *options)
{
	struct run run;
	run_begin(&run, peer, options);
	struct peer_shape shape = data_shape(&run);
	run.talk = peer_connect(peer, &options->addr, &talk_shape);
	begin_talk(&run);
	/* The server listens for this one a little later than it says. */
	run.data = peer_connect(peer, &options->addr, &shape);
	exchange_places(&run, 1);
	run.places = 1;
	exchange_places(&run, run.kind == KIND_SEND ? 4 : 3);
	transfer(&run);
	if (run.kind == KIND_READ)
		check_read(&run);
	end_talk(&run);
	peer_disconnect(run.data);
	peer_disconnect(run.talk);
	run_end(&run);
}
