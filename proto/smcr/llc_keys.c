/* SPDX-License-Identifier: MIT */
/* Where messages other than CDC have keys: RTokens and initial PSNs. All other bytes may be shown.
 */
#include <string.h>

#include "proto/smcr/llc_parts.h"

#define RTOKEN_LEN      12 /* RKey and address */
#define PAIR_LEN        16 /* a reference RKey before them */
#define LINK_SPEC_LEN   13 /* a link number before them */
#define PSN_LEN         3
#define RKEYS_V1_LEN    32 /* of DELETE RKEY */
#define SPANS_MAX       3
#define PSN_AT_RFC      31 /* in ADD LINK (docs/dialects.md) */
#define PSN_AT_DEPLOYED 33

struct span {
	size_t at, len;
};

/** The bytes of a message that must not be shown. */
struct keys {
	struct span spans[SPANS_MAX];
	size_t end; /* all bytes from here on: keys, or bytes that are in no known layout */
};

/* For a type that is not known: all but the header, because keys may be anywhere behind it. */
static const struct keys unknown = { .end = LLC_HEADER_LEN };

static const struct keys keys_v1[] = {
	[SMCR_LLC_CONFIRM_LINK] = { .end = SMCR_LLC_LEN },
	[SMCR_LLC_ADD_LINK] = { .end = SMCR_LLC_LEN }, /* psn_of() */
	[SMCR_LLC_ADD_LINK_CONT] = { .spans = { { 8, PAIR_LEN }, { 8 + PAIR_LEN, PAIR_LEN } },
				     .end = SMCR_LLC_LEN },
	[SMCR_LLC_DELETE_LINK] = { .end = SMCR_LLC_LEN },
	[SMCR_LLC_CONFIRM_RKEY] = { .spans = { { 5, RTOKEN_LEN },
					       { 5 + LINK_SPEC_LEN, RTOKEN_LEN },
					       { 5 + 2 * LINK_SPEC_LEN, RTOKEN_LEN } },
				    .end = SMCR_LLC_LEN },
	[SMCR_LLC_TEST_LINK] = { .end = SMCR_LLC_LEN },
	[SMCR_LLC_CONFIRM_RKEY_CONT] = { .spans = { { 6, RTOKEN_LEN },
						    { 6 + LINK_SPEC_LEN, RTOKEN_LEN },
						    { 6 + 2 * LINK_SPEC_LEN, RTOKEN_LEN } },
					 .end = SMCR_LLC_LEN },
	[SMCR_LLC_DELETE_RKEY] = { .spans = { { 8, RKEYS_V1_LEN } }, .end = SMCR_LLC_LEN },
};

/* ADD LINK ends with pairs, DELETE RKEY with RKeys, REQUEST ADD LINK with GIDs. */
static const struct keys keys_v2[] = {
	[SMCR_LLC_CONFIRM_LINK] = { .end = SMCR_LLC_LEN },
	[SMCR_LLC_ADD_LINK] = { .spans = { { PSN_AT_DEPLOYED, PSN_LEN } }, .end = 72 },
	[SMCR_LLC_DELETE_LINK] = { .end = SMCR_LLC_LEN },
	[SMCR_LLC_REQUEST_ADD_LINK] = { .end = SIZE_MAX },
	[SMCR_LLC_CONFIRM_RKEY] = { .spans = { { 5, RTOKEN_LEN },
					       { 5 + LINK_SPEC_LEN, RTOKEN_LEN },
					       { 5 + 2 * LINK_SPEC_LEN, RTOKEN_LEN } },
				    .end = SMCR_LLC_LEN },
	[SMCR_LLC_TEST_LINK] = { .end = SMCR_LLC_LEN },
	[SMCR_LLC_DELETE_RKEY] = { .end = 8 },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct keys *keys_of(uint8_t type)
{
	const struct keys *keys = &unknown;
	const size_t v2_type = type - (size_t)SMCR_LLC_V2_TYPE;
	if (type < COUNT(keys_v1))
		keys = &keys_v1[type];
	else if (type >= SMCR_LLC_V2_TYPE && v2_type < COUNT(keys_v2))
		keys = &keys_v2[v2_type];
	return keys->end ? keys : &unknown;
}

/* @return true: a part of the span is in the message */
static bool hide(uint8_t *buf, size_t len, struct span span)
{
	if (span.at >= len || span.len == 0)
		return false;
	memset(buf + span.at, 0, span.len < len - span.at ? span.len : len - span.at);
	return true;
}

/* Where an ADD LINK of version 1 has its PSN; or both places if it may be in either form. */
static struct span psn_of(unsigned int forms)
{
	const size_t from = forms == SMCR_LLC_FORM_DEPLOYED ? PSN_AT_DEPLOYED : PSN_AT_RFC;
	const size_t last = forms == SMCR_LLC_FORM_RFC ? PSN_AT_RFC : PSN_AT_DEPLOYED;
	return (struct span){ from, last + PSN_LEN - from };
}

bool smcr_llc_hide_keys(uint8_t *buf, size_t len, unsigned int forms)
{
	const struct keys *keys = len ? keys_of(buf[0]) : &unknown;
	bool any = hide(buf, len, (struct span){ keys->end, SIZE_MAX });
	for (size_t i = 0; i < SPANS_MAX; i++)
		any |= hide(buf, len, keys->spans[i]);
	if (len && buf[0] == SMCR_LLC_ADD_LINK)
		any |= hide(buf, len, psn_of(forms));
	return any;
}
