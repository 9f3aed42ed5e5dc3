/* SPDX-License-Identifier: MIT */
/*
 * Messages of the Linux kernel (tests/captures/README.md) decode, encode to the same bytes again,
 * and are what a connection understands, on either side.
 */
#include <netinet/in.h>
#include <string.h>

#include "proto/roce/roce.h"
#include "tests/lib/pcap.h"
#include "tests/lib/proves.h"
#include "tests/lib/smbdfix.h"
#include "tests/lib/tries.h"

#define SERVER 0x0A000001u
/* RoCE's SEND that invalidates a token, which stands behind the BTH. */

struct story {
	unsigned int from_client, from_server; /* SENDs */
	unsigned int empty, messages, first_fragments, invalidating;
};

static struct story story;
/* Ours, which get what the kernel's have got. */
static struct smbdfix client, server;

static void check_request(const uint8_t *bytes, size_t len)
{
	uint8_t again[SMBDIRECT_REQUEST_LEN];
	struct smbdirect_request request;
	assert_int_equal(len, sizeof(again));
	assert_int_equal(smbdirect_decode_request(bytes, len, &request), 0);
	assert_int_equal(request.max_receive_size, 1364);
	assert_int_equal(request.max_fragmented_size, 173910);
	smbdirect_encode_request(&request, again);
	assert_memory_equal(again, bytes, len);
}

static void check_response(const uint8_t *bytes, size_t len)
{
	uint8_t again[SMBDIRECT_RESPONSE_LEN];
	struct smbdirect_response response;
	assert_int_equal(len, sizeof(again));
	assert_int_equal(smbdirect_decode_response(bytes, len, &response), 0);
	assert_int_equal(response.max_read_write_size, 8388608);
	smbdirect_encode_response(&response, again);
	assert_memory_equal(again, bytes, len);
}

/* SENDs of the kernel end with their payload. */
static void check_data(const uint8_t *bytes, size_t len)
{
	uint8_t again[SMBDIRECT_DATA_OFFSET];
	struct smbdirect_data data;
	assert_int_equal(smbdirect_decode_data(bytes, len, &data), 0);
	const size_t head = smbdirect_encode_data(&data, again);
	assert_int_equal(len, head + data.length);
	assert_memory_equal(again, bytes, head);
	story.empty += data.length == 0;
	story.messages += data.length > 0 && data.remaining == 0;
	story.first_fragments += data.remaining > 0;
}

/** A SEND of the capture. */
struct send {
	const uint8_t *bytes;
	size_t len;
	bool invalidates;
	uint32_t token;
};

/* @return false: it is no SEND */
static bool find_send(const struct pcap_packet *p, struct send *ret_send)
{
	struct roce_packet roce;
	if (roce_decode(p->payload, p->payload_len, &roce) < 0)
		return false;
	*ret_send = (struct send){ .bytes = roce.payload,
				   .len = roce.payload_len,
				   .invalidates = roce_invalidates(roce.bth.opcode),
				   .token = roce.invalidate };
	return roce.bth.opcode == ROCE_SEND_ONLY || roce.bth.opcode == ROCE_SEND_ONLY_INVALIDATE;
}

static void take_send(bool from_server, const struct send *send)
{
	unsigned int *count = from_server ? &story.from_server : &story.from_client;
	struct smbdfix *to = from_server ? &client : &server;
	if (++*count > 1)
		check_data(send->bytes, send->len);
	else if (from_server)
		check_response(send->bytes, send->len);
	else
		check_request(send->bytes, send->len);
	story.invalidating += send->invalidates;
	to->own_token = send->token; /* the kernel's client had it */
	smbdfix_get(to, send->bytes, send->len, send->invalidates ? &send->token : NULL);
	assert_int_equal(to->ended, 0);
}

static void linux_client_and_server(void **state)
{
	(void)state;
	struct pcap *pcap;
	struct pcap_packet packet;
	const struct smbd_config config = { 0 };
	smbdfix_new(&client, &config, SMBD_ACTIVE);
	smbdfix_new(&server, &config, SMBD_PASSIVE);
	smbd_connected(client.smbd, client.now);
	smbd_connected(server.smbd, server.now);
	assert_int_equal(pcap_open("tests/captures/linux-smb-direct.pcap.gz", &pcap), 0);
	while (pcap_next(pcap, &packet) > 0) {
		struct send send;
		TRIES("frame %u", packet.number);
		if (packet.protocol == IPPROTO_UDP && packet.dst_port == ROCE_UDP_PORT &&
		    find_send(&packet, &send))
			take_send(packet.src == SERVER, &send);
	}
	pcap_close(pcap);
	assert_int_equal(story.from_client, 74);
	assert_int_equal(story.from_server, 52);
	assert_int_equal(story.empty, 5);
	assert_int_equal(story.messages, 102);
	assert_int_equal(story.first_fragments, 17);
	assert_int_equal(story.invalidating, 11);
	/* What was agreed stays. */
	for (int i = 0; i < 2; i++) {
		const struct smbd_view view = smbdfix_view(i ? &server : &client);
		assert_int_equal(view.max_send_size, 1364);
		assert_int_equal(view.max_receive_size, 1364);
		assert_int_equal(view.max_fragmented_send_size, 173910);
	}
	assert_int_equal(client.num_messages + server.num_messages, story.messages);
	smbdfix_free(&client);
	smbdfix_free(&server);
	PROVES("SMBD-8 SMBD-9 SMBD-12 SMBD-14 SMBD-15 SMBD-17 SMBD-78 SMBD-80 SMBD-82");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linux_client_and_server),
	};
	return cmocka_run_group_tests_name("smbd: captures", tests, NULL, NULL);
}
