/* SPDX-License-Identifier: MIT */
/* A capture of a member of admin_group has all of an LLC message but its keys. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proto/roce/roce.h"
#include "proto/smcr/llc.h"
#include "tests/lib/hex.h"
#include "tests/lib/pcap.h"
#include "tests/lib/tries.h"

#define RFC      SMCR_LLC_FORM_RFC
#define DEPLOYED SMCR_LLC_FORM_DEPLOYED
#define ANY      SMCR_LLC_FORM_ANY

/* In the messages below every byte of a key has this value, and no other byte has it. Reserved
 * bytes are not zero: if one of them were taken for a key, the test would see it. */
#define KEY_BYTE 0xA5

#define PSN    "A5A5A5 "
#define RKEY   "A5A5A5A5 "
#define RTOKEN "A5A5A5A5 A5A5A5A5A5A5A5A5 "
#define PAIR   RKEY RTOKEN
#define SPEC   "02 " RTOKEN
#define MAC    "525400000001 "
#define GID    "FE800000 00000000 0000FFFF 0A000001 "
#define R2     "E1E2 "
#define R4     "E1E2E3E4 "
#define R8     R4 R4
#define R16    R8 R8

/* The formats of RFC 7609 A.3.1 to A.3.8 byte by byte, of docs/dialects.md and
 * docs/version-2.md. */
static const struct {
	const char *text;
	unsigned int forms;
} messages[] = {
	/* CONFIRM LINK, request and reply */
	{ "01 2C 00 03 " MAC GID "000011 01 00000101 02 FF " R8, ANY },
	{ "01 2C 00 83 " MAC GID "000011 01 00000101 02 FF " R8, ANY },
	/* ADD LINK: request, reply, rejection */
	{ "02 2C 00 00 " MAC GID "000012 02 03 " PSN R8 R2, RFC },
	{ "02 2C 00 80 " MAC GID "000012 02 03 " PSN R8 R2, RFC },
	{ "02 2C 02 C0 " MAC GID "000012 02 03 " PSN R8 R2, RFC },
	{ "02 2C 00 00 " MAC R2 GID "000012 02 03 " PSN R8, DEPLOYED },
	{ "02 2C 00 80 " MAC R2 GID "000012 02 03 " PSN R8, DEPLOYED },
	/* ADD LINK CONTINUATION */
	{ "03 2C 00 00 02 02 " R2 PAIR PAIR R4, ANY },
	{ "03 2C 00 80 02 FF " R2 PAIR PAIR R4, ANY },
	/* DELETE LINK */
	{ "04 2C 00 20 02 00020000 " R16 R16 "E1E2E3 ", ANY },
	{ "04 2C 00 80 02 00100000 " R16 R16 "E1E2E3 ", ANY },
	/* CONFIRM RKEY and its CONTINUATION */
	{ "06 2C 00 00 02 " RTOKEN SPEC SPEC "E1 ", ANY },
	{ "06 2C 00 B0 08 " RTOKEN SPEC SPEC "E1 ", ANY },
	{ "08 2C 00 00 06 " SPEC SPEC SPEC, ANY },
	{ "08 2C 00 A0 03 " SPEC SPEC SPEC, ANY },
	/* TEST LINK */
	{ "07 2C 00 80 00010203 04050607 08090A0B 0C0D0E0F " R16 R8, ANY },
	/* DELETE RKEY */
	{ "09 2C 00 00 08 00 " R2 RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY R4, ANY },
	{ "09 2C 00 A0 08 40 " R2 RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY R4, ANY },
	/* version 2 */
	{ "21 2C00 03 " MAC GID "000011 01 00000101 02 FF " R8, ANY },
	{ "22 2C00 C1 " MAC R2 GID "000012 02 03 " PSN R8, ANY },
	{ "22 4800 00 " MAC R2 GID "000012 02 03 " PSN R8 "80 E1 " GID R8 "0000 ", ANY },
	{ "22 6800 80 " MAC R2 GID "000012 02 03 " PSN R8 "80 E1 " GID R8 "0200 " PAIR PAIR, ANY },
	{ "24 2C00 20 02 00010000 " R16 R16 "E1E2E3 ", ANY },
	{ "25 3C00 00 " R16 R4 "02 E1E2E3 " GID GID, ANY },
	{ "26 2C00 00 02 " RTOKEN SPEC SPEC "E1 ", ANY },
	{ "27 2C00 80 00010203 04050607 08090A0B 0C0D0E0F " R16 R8, ANY },
	{ "29 2C00 00 09 00 " R2 RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY, ANY },
	{ "29 3000 80 0A 01 " R2 RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY, ANY },
	/* Types that neither version has may have keys anywhere. */
	{ "05 2C 00 00 " RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY RKEY, ANY },
	{ "00 2C 00 00 " RKEY, ANY },
	{ "0A 2C 00 00 " RKEY, ANY },
	{ "11 2C 00 00 " RKEY, ANY },
	{ "23 2C 00 00 " RKEY, ANY },
	{ "28 2C 00 00 " RKEY, ANY },
	{ "2A 2C 00 00 " RKEY, ANY },
	{ "8C 2C 01 02 " RKEY RKEY RKEY, ANY },
	{ "FF 2C 01 02 " RKEY, ANY },
	/* So may bytes behind the end of a message. */
	{ "01 2C 00 03 " MAC GID "000011 01 00000101 02 FF " R8 RKEY, ANY },
	{ "07 2C 00 80 00010203 04050607 08090A0B 0C0D0E0F " R16 R8 "A5 ", ANY },
	{ "27 2C00 80 00010203 04050607 08090A0B 0C0D0E0F " R16 R8 "A5 ", ANY },
};

static size_t bytes_of(const char *text, uint8_t bytes[SMCR_LLC_V2_MAX_LEN])
{
	return hex_bytes(text, bytes, SMCR_LLC_V2_MAX_LEN);
}

static void assert_keys_alone_are_hidden(const uint8_t *before, size_t len, unsigned int forms)
{
	/* the address sanitizer sees a write behind the end */
	uint8_t *after = exact_copy(before, len);
	const bool any = memchr(before, KEY_BYTE, len) != NULL;
	assert_int_equal(smcr_llc_hide_keys(after, len, forms), any);
	for (size_t i = 0; i < len; i++)
		if (after[i] != (before[i] == KEY_BYTE ? 0 : before[i]))
			fail_msg("type %02X: byte %zu is %02X and was %02X", before[0], i, after[i],
				 before[i]);
	free(after);
}

static void keys_alone_are_hidden(void **state)
{
	uint8_t bytes[SMCR_LLC_V2_MAX_LEN];
	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		TRIES("%s", messages[i].text);
		const size_t len = bytes_of(messages[i].text, bytes);
		for (size_t cut = 0; cut <= len; cut++)
			assert_keys_alone_are_hidden(bytes, cut, messages[i].forms);
	}
}

/* While the dialect of a group is not known, the PSN may be in either place. */
static void a_psn_is_hidden_in_either_place(void **state)
{
	static const char *const places[] = {
		"02 2C 00 00 " MAC GID "000012 02 03 A5A5A5 A5A5 " R8,
		"02 2C 00 00 " MAC R2 GID "000012 A5 A5 A5A5A5 " R8,
	};
	uint8_t bytes[SMCR_LLC_V2_MAX_LEN];
	(void)state;
	for (size_t i = 0; i < 2; i++)
		assert_keys_alone_are_hidden(bytes, bytes_of(places[i], bytes), ANY);
}

/* ---- messages of other implementations ---- */

static void without_link_rtokens(struct smcr_llc_link_rtoken *tokens, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		tokens[i].rkey = 0;
		tokens[i].vaddr = 0;
	}
}

static void without_keys(struct smcr_llc_msg *msg, struct smcr_llc_rtokens *rtokens)
{
	switch (msg->type) {
	case SMCR_LLC_ADD_LINK: msg->add_link.psn = 0; break;
	case SMCR_LLC_ADD_LINK_CONT:
		memset(msg->add_link_cont.pair, 0, sizeof(msg->add_link_cont.pair));
		break;
	case SMCR_LLC_CONFIRM_RKEY:
		msg->confirm_rkey.rkey = 0;
		msg->confirm_rkey.vaddr = 0;
		without_link_rtokens(msg->confirm_rkey.other, 2);
		break;
	case SMCR_LLC_CONFIRM_RKEY_CONT:
		without_link_rtokens(msg->confirm_rkey_cont.other, 3);
		break;
	case SMCR_LLC_DELETE_RKEY:
		memset(msg->delete_rkey.rkey, 0, sizeof(msg->delete_rkey.rkey));
		break;
	default: break;
	}
	memset(rtokens->pair, 0, sizeof(rtokens->pair));
}

static bool decode(const uint8_t *bytes, size_t len, struct smcr_llc_msg *ret_msg,
		   struct smcr_llc_rtokens *ret_rtokens)
{
	memset(ret_msg, 0, sizeof(*ret_msg));
	memset(ret_rtokens, 0, sizeof(*ret_rtokens));
	if (bytes[0] & SMCR_LLC_V2_TYPE)
		return smcr_llc_decode_v2(bytes, len, ret_msg, ret_rtokens) == 0;
	return smcr_llc_decode(bytes, len, SMCR_DIALECT_DEPLOYED, ret_msg) == 0;
}

static void compare(const uint8_t *bytes, size_t len, unsigned int *seen)
{
	struct smcr_llc_msg before, after;
	static struct smcr_llc_rtokens before_rtokens, after_rtokens;
	if (!decode(bytes, len, &before, &before_rtokens))
		return;
	uint8_t *hidden = exact_copy(bytes, len);
	smcr_llc_hide_keys(hidden, len, DEPLOYED);
	assert_true(decode(hidden, len, &after, &after_rtokens));
	without_keys(&before, &before_rtokens);
	assert_memory_equal(&after, &before, sizeof(after));
	assert_memory_equal(&after_rtokens, &before_rtokens, sizeof(after_rtokens));
	seen[bytes[0]]++;
	free(hidden);
}

static void what_is_left_of_recorded_messages_decodes(void **state)
{
	static const char *const files[] = { "tests/captures/linux-smcr-v1.pcap.gz",
					     "tests/captures/linux-smcr-v2.pcap.gz" };
	static const uint8_t types[] = { 0x01, 0x02, 0x03, 0x04, 0x06, 0x09,
					 0x21, 0x22, 0x24, 0x25, 0x26, 0x29 };
	unsigned int seen[256] = { 0 };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct pcap *pcap;
		struct pcap_packet packet;
		struct roce_packet roce;
		assert_int_equal(pcap_open(files[i], &pcap), 0);
		while (pcap_next(pcap, &packet) == 1)
			if (packet.protocol == IPPROTO_UDP && packet.dst_port == ROCE_UDP_PORT &&
			    roce_decode(packet.payload, packet.payload_len, &roce) == 0 &&
			    roce.bth.opcode == ROCE_SEND_ONLY)
				compare(roce.payload, roce.payload_len, seen);
		pcap_close(pcap);
	}
	for (size_t i = 0; i < sizeof(types); i++)
		if (!seen[types[i]])
			fail_msg("no message of type %02X was recorded", types[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_alone_are_hidden),
		cmocka_unit_test(a_psn_is_hidden_in_either_place),
		cmocka_unit_test(what_is_left_of_recorded_messages_decodes),
	};
	return cmocka_run_group_tests_name("llc keys", tests, NULL, NULL);
}
