/* SPDX-License-Identifier: MIT */
/* The connection manager's machine in Linux' place: it answers the REQs of a capture as Linux has.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <string.h>

#include "proto/roce/roce.h"
#include "proto/smcr/bytes.h"
#include "tests/lib/cmfix.h"
#include "tests/lib/pcap.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define RPING      "tests/captures/linux-rdma-cm-rping-ucmatose.pcap.gz"
#define VARIATIONS "tests/captures/user-space-cm-req-variations.pcap.gz"

#define LINUX      0x0A000001u /* 10.0.0.1 */
#define RPING_PORT 7174

/* A datagram of queue pair 1: BTH, Q_Key and source queue pair, MAD, ICRC. */
enum {
	DETH_LEN = 8,
	MAD_AT = ROCE_BTH_LEN + DETH_LEN,
	FRAME_LEN = MAD_AT + IBCM_MAD_LEN + ROCE_ICRC_LEN,
	UD_SEND_ONLY = 0x64,
};

/* What Linux has said to a REQ. */
struct answer {
	enum ibcm_type type; /* 0: nothing */
	struct ibcm_rej rej;
};

/* The next message of queue pair 1 that is whole, and right below the MAD. */
static const uint8_t *next_mad(struct pcap *pcap, struct pcap_packet *ret_packet)
{
	while (pcap_next(pcap, ret_packet) > 0) {
		const uint8_t *roce = ret_packet->payload;
		if (ret_packet->protocol == IPPROTO_UDP && ret_packet->payload_len == FRAME_LEN &&
		    roce[0] == UD_SEND_ONLY && (get_be16(roce + 2) & 0x7FFF) == 0x7FFF &&
		    get_be32(roce + ROCE_BTH_LEN) == IBCM_QKEY)
			return roce + MAD_AT;
	}
	return NULL;
}

/* What Linux answers before the peer says the next thing. */
static struct answer answer_of_linux(const char *path, unsigned int frame)
{
	struct pcap *pcap;
	struct pcap_packet packet;
	const uint8_t *mad;
	struct answer answer = { 0 };
	struct ibcm_msg msg;
	assert_int_equal(pcap_open(path, &pcap), 0);
	while ((mad = next_mad(pcap, &packet))) {
		if (packet.number <= frame)
			continue;
		if (packet.src == LINUX && ibcm_decode(mad, IBCM_MAD_LEN, &msg) == 0 &&
		    (msg.type == IBCM_REP || msg.type == IBCM_REJ))
			answer = (struct answer){ msg.type, msg.rej };
		break;
	}
	pcap_close(pcap);
	if (answer.type != IBCM_REJ)
		answer.rej = (struct ibcm_rej){ 0 };
	return answer;
}

static struct answer answer_of_ours(struct cmfix *fix, uint32_t from, const uint8_t *mad)
{
	uint8_t gid[16] = { [10] = 0xFF, 0xFF };
	const struct cm_machine_own_qp own = cmfix_own_qp(fix, 0);
	const struct cm_offer offer = cmfix_offer(NULL);
	struct answer answer = { 0 };
	put_be32(gid + 12, from);
	cm_machine_receive(fix->machine, cmfix_own, gid, mad, IBCM_MAD_LEN, fix->now);
	cmfix_run(fix);
	if (fix->num_events) {
		struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
		assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), 0);
		answer.type = cmfix_sent(fix, IBCM_REP)->msg.type;
		cm_machine_conn_free(conn);
	} else if (fix->num_sent) {
		answer = (struct answer){ IBCM_REJ, cmfix_sent(fix, IBCM_REJ)->msg.rej };
	}
	return answer;
}

/* Three choices are others than Linux': the reason for another transport is the one that the
 * specification has for it, a queue pair 0 or 1 is refused, and nothing is sent to an address that
 * the REQ did not come from. */
static bool is_choice(const uint8_t *mad, const struct answer *ours)
{
	struct ibcm_msg msg;
	if (ibcm_decode(mad, IBCM_MAD_LEN, &msg) < 0)
		return false;
	if (msg.req.transport != 0)
		return ours->rej.reason == IBCM_REJ_INVALID_TRANSPORT;
	if (msg.req.qpn < 2)
		return ours->rej.reason == IBCM_REJ_UNSUPPORTED_REQUEST;
	return msg.req.primary.local_gid[15] != 9 && ours->rej.reason == IBCM_REJ_CONSUMER;
}

/* The port that the REQ is for, if Linux listened there: rping, ksmbd, nfsd. */
static uint16_t listening(const uint8_t *mad)
{
	static const uint16_t ports[] = { RPING_PORT, 445, 20049 };
	struct ibcm_msg msg;
	for (size_t i = 0; i < 3 && ibcm_decode(mad, IBCM_MAD_LEN, &msg) == 0; i++) {
		if (ibcm_service_port(msg.req.service_id) == ports[i])
			return ports[i];
	}
	return 0;
}

static void reqs_are_answered_as_by_linux(void **state)
{
	struct pcap *pcap;
	struct pcap_packet packet;
	const uint8_t *mad;
	unsigned int reqs = 0, accepted = 0, refused = 0, silent = 0, choices = 0;
	(void)state;
	assert_int_equal(pcap_open(VARIATIONS, &pcap), 0);
	while ((mad = next_mad(pcap, &packet))) {
		if (packet.dst != LINUX || get_be16(mad + 16) != IBCM_REQ)
			continue;
		TRIES("frame %u", packet.number);
		struct cmfix *fix = cmfix_new(NULL);
		fix->port = listening(mad);
		cmfix_set_mtu(fix, 5);
		struct answer linux_says = answer_of_linux(VARIATIONS, packet.number);
		struct answer ours = answer_of_ours(fix, packet.src, mad);
		reqs++;
		if (is_choice(mad, &ours)) {
			choices++;
		} else {
			assert_int_equal(ours.type, linux_says.type);
			assert_int_equal(ours.rej.reason, linux_says.rej.reason);
			assert_int_equal(ours.rej.subject, linux_says.rej.subject);
			assert_int_equal(ours.rej.info_len, linux_says.rej.info_len);
			accepted += ours.type == IBCM_REP;
			refused += ours.type == IBCM_REJ;
			silent += ours.type == 0;
		}
		cmfix_free(fix);
	}
	pcap_close(pcap);
	print_message("# %u REQs: %u accepted, %u refused, %u not answered, %u choices\n", reqs,
		      accepted, refused, silent, choices);
	assert_true(reqs >= 20 && accepted >= 20 && refused >= 6 && silent == 0);
	assert_in_range(choices, 1, 3);
	PROVES("CM-7 CM-8 CM-9 CM-11");
}

/* rping -c of Linux connects, and ucmatose; ids of ours are put in the place of Linux'. */
static void a_client_of_linux_connects_and_leaves(void **state)
{
	struct pcap *pcap;
	struct pcap_packet packet;
	const uint8_t *mad;
	struct ibcm_msg msg, rep = { 0 };
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn = NULL;
	unsigned int connected = 0;
	(void)state;
	fix->port = RPING_PORT;
	assert_int_equal(pcap_open(RPING, &pcap), 0);
	while (!connected && (mad = next_mad(pcap, &packet))) {
		if (packet.dst != LINUX)
			continue;
		assert_int_equal(ibcm_decode(mad, IBCM_MAD_LEN, &msg), 0);
		TRIES("frame %u", packet.number);
		if (msg.type == IBCM_REQ) {
			conn = cmfix_passive(fix, &msg, 0, &rep);
			assert_int_equal(fix->qps[0].how.path_mtu, 3);
			assert_int_equal(fix->qps[0].how.rnr_retry, 7);
			continue;
		}
		msg.remote_id = rep.local_id;
		if (msg.type == IBCM_DREQ)
			msg.dreq_qpn = fix->qps[0].qpn;
		cmfix_receive(fix, cmfix_peer, &msg);
		if (msg.type == IBCM_RTU)
			cmfix_event(fix, CM_CONNECTED);
		if (msg.type != IBCM_DREQ)
			continue;
		cmfix_sent(fix, IBCM_DREP);
		assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_PEER_DISCONNECTED);
		connected++;
	}
	pcap_close(pcap);
	assert_int_equal(connected, 1);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-5 CM-6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reqs_are_answered_as_by_linux),
		cmocka_unit_test(a_client_of_linux_connects_and_leaves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
