/* SPDX-License-Identifier: MIT */
#include "proto/capture/record.h"

#include <string.h>

#include "proto/capture/ring.h"

static bool is_text(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

bool capture_link_take(const void *record, size_t len, struct capture_link *ret_link)
{
	if (len != sizeof(*ret_link))
		return false;
	memcpy(ret_link, record, sizeof(*ret_link));
	return ret_link->type == CAPTURE_LINK && ret_link->rnic < CAPTURE_RNICS &&
	       ret_link->path_mtu >= 1 && ret_link->path_mtu <= 5 &&
	       is_text(ret_link->name, sizeof(ret_link->name)) &&
	       is_text(ret_link->peer_host, sizeof(ret_link->peer_host));
}

bool capture_message_take(const void *record, size_t len, struct capture_message *ret_message,
			  const uint8_t **ret_data, uint32_t *ret_data_len)
{
	if (len < sizeof(*ret_message) || len - sizeof(*ret_message) > CAPTURE_DATA_MAX)
		return false;
	memcpy(ret_message, record, sizeof(*ret_message));
	*ret_data = (const uint8_t *)record + sizeof(*ret_message);
	*ret_data_len = (uint32_t)(len - sizeof(*ret_message));
	return ret_message->type == CAPTURE_MESSAGE && *ret_data_len <= ret_message->length;
}

bool capture_mad_take(const void *record, size_t len, struct capture_mad *ret_mad,
		      const uint8_t **ret_bytes)
{
	if (len != sizeof(*ret_mad) + IBCM_MAD_LEN)
		return false;
	memcpy(ret_mad, record, sizeof(*ret_mad));
	*ret_bytes = (const uint8_t *)record + sizeof(*ret_mad);
	return ret_mad->type == CAPTURE_MAD && ret_mad->rnic < CAPTURE_RNICS &&
	       is_text(ret_mad->name, sizeof(ret_mad->name));
}
