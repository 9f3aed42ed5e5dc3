/* SPDX-License-Identifier: MIT */
/*
 * rping. The client offers a buffer with the text of a ping (16 bytes: address, rkey, length, all
 * big-endian), the server fetches it by RDMA READ and says so by a message. The client offers
 * another buffer, the server puts the text there by RDMA WRITE and says so, and the client
 * compares. At the end the client disconnects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/bytes.h"
#include "tests/interop/peer/peer.h"

#define OFFER_LEN    16
#define SIZE_MAX_LEN 65536u
#define FIRST_LETTER 65 /* 'A' */
#define LAST_LETTER  122
#define LETTERS      (LAST_LETTER - FIRST_LETTER + 1)

static const struct peer_shape shape = { .message_max = OFFER_LEN,
					 .receives = 4,
					 .sends = 4,
					 .reads_answered = 1,
					 .reads_asked = 1,
					 .rnr_retry = 7 };

struct offer {
	uint64_t addr;
	uint32_t rkey, len;
};

/* The text of a ping: its number, then letters, which begin one later with each ping. */
static void make_text(unsigned int number, uint8_t *text, size_t len)
{
	int head = snprintf((char *)text, len, "rdma-ping-%u: ", number);
	for (size_t i = (size_t)head; i < len; i++)
		text[i] = (uint8_t)(FIRST_LETTER + (number + i - (size_t)head) % LETTERS);
	text[len - 1] = 0;
}

static bool is_text(unsigned int number, const uint8_t *data, size_t len)
{
	uint8_t *text = malloc(len);
	make_text(number, text, len);
	bool same = memcmp(text, data, len) == 0;
	free(text);
	return same;
}

static struct offer receive_offer(struct peer_conn *conn)
{
	uint32_t len;
	const uint8_t *data = peer_receive(conn, &len);
	if (len != OFFER_LEN)
		peer_die(conn->peer, "an offer of %u bytes", len);
	struct bytes_reader r = bytes_reader(data, len);
	struct offer offer;
	offer.addr = read_be64(&r);
	offer.rkey = read_be32(&r);
	offer.len = read_be32(&r);
	return offer;
}

static void send_offer(struct peer_conn *conn, struct peer_mem *out, const struct peer_mem *mem,
		       uint32_t len)
{
	peer_await_posted(conn, 0);
	struct bytes_writer w = bytes_writer(out->addr, OFFER_LEN);
	write_be64(&w, mem ? rnic_mr_vaddr(mem->mr) : 0);
	write_be32(&w, mem ? rnic_mr_rkey(mem->mr) : 0);
	write_be32(&w, len);
	peer_post(conn, RNIC_WR_SEND, out, 0, OFFER_LEN, 0, 0);
}

/* ---- server */

static void serve_ping(struct peer_conn *conn, unsigned int number, struct peer_mem *text,
		       struct peer_mem *out, uint32_t size)
{
	struct offer source = receive_offer(conn);
	if (source.len != size)
		peer_die(conn->peer, "ping %u has %u bytes", number, source.len);
	peer_post(conn, RNIC_WR_RDMA_READ, text, 0, size, source.addr, source.rkey);
	peer_await_posted(conn, 0);
	if (!is_text(number, text->addr, size))
		peer_die(conn->peer, "ping %u has another text: %.40s", number,
			 (const char *)text->addr);
	send_offer(conn, out, NULL, 0);
	struct offer sink = receive_offer(conn);
	if (sink.len != size)
		peer_die(conn->peer, "the sink of ping %u has %u bytes", number, sink.len);
	peer_post(conn, RNIC_WR_RDMA_WRITE, text, 0, size, sink.addr, sink.rkey);
	send_offer(conn, out, NULL, 0);
}

void rping_server(struct peer *peer, const struct peer_options *options)
{
	struct peer_listener listener;
	struct peer_mem text, out;
	peer_mem_new(peer, SIZE_MAX_LEN, RNIC_ACCESS_LOCAL_WRITE, &text);
	peer_mem_new(peer, OFFER_LEN, RNIC_ACCESS_LOCAL_WRITE, &out);
	peer_listen(peer, &options->addr, &listener);
	struct peer_conn *conn = peer_accept(peer, &listener, &shape);
	for (unsigned int i = 0; i < options->count; i++)
		serve_ping(conn, i, &text, &out, options->size);
	peer_await_posted(conn, 0);
	peer_await_end(conn);
	peer_conn_free(conn);
	peer_unlisten(&listener);
	peer_mem_free(&text);
	peer_mem_free(&out);
}

/* ---- client */

static void ping(struct peer_conn *conn, unsigned int number, struct peer_mem *source,
		 struct peer_mem *sink, struct peer_mem *out, uint32_t size)
{
	make_text(number, source->addr, size);
	memset(sink->addr, 0, size);
	send_offer(conn, out, source, size);
	receive_offer(conn);
	send_offer(conn, out, sink, size);
	receive_offer(conn);
	if (!is_text(number, sink->addr, size))
		peer_die(conn->peer, "ping %u came back as another text: %.40s", number,
			 (const char *)sink->addr);
}

void rping_client(struct peer *peer, const struct peer_options *options)
{
	struct peer_mem source, sink, out;
	peer_mem_new(peer, SIZE_MAX_LEN, RNIC_ACCESS_REMOTE_READ, &source);
	peer_mem_new(peer, SIZE_MAX_LEN, RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &sink);
	peer_mem_new(peer, OFFER_LEN, RNIC_ACCESS_LOCAL_WRITE, &out);
	struct peer_conn *conn = peer_connect(peer, &options->addr, &shape);
	for (unsigned int i = 0; i < options->count; i++)
		ping(conn, i, &source, &sink, &out, options->size);
	peer_disconnect(conn);
	peer_conn_free(conn);
	peer_mem_free(&source);
	peer_mem_free(&sink);
	peer_mem_free(&out);
}
