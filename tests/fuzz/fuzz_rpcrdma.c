/* SPDX-License-Identifier: MIT */
/* proto/rpcrdma: no decoder reads past its buffer, and what one accepts comes back from the encoder
 * as the same bytes, reserved flags and unknown properties excepted. */
#include <string.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "tests/fuzz/fuzz.h"

static void check_lists(uint32_t version, const uint8_t *data, size_t size)
{
	static struct rpcrdma_lists lists;
	static uint8_t again[RPCRDMA_MOST_LISTS_LEN];
	size_t len;
	if (rpcrdma_decode_lists(data, size, version, &lists, &len) < 0)
		return;
	must(len <= size);
	must(rpcrdma_lists_len(&lists, version) == len);
	must(rpcrdma_encode_lists(&lists, version, again, sizeof(again)) == len);
	must(memcmp(again, data, len) == 0);
	must(rpcrdma_encode_lists(&lists, version, again, len - 1) == 0);
}

static void check_error(uint32_t version, const uint8_t *data, size_t size)
{
	uint8_t again[RPCRDMA_ERROR_MOST_LEN];
	struct rpcrdma_error error;
	if (rpcrdma_decode_error(data, size, version, &error) < 0)
		return;
	const size_t len = rpcrdma_encode_error(&error, again);
	must(memcmp(again, data, 4) == 0);
	if (rpcrdma_error_is_known(version, error.code))
		must(len == size && memcmp(again, data, len) == 0);
}

/* Unknown properties and repeated ones are not kept, so only the values come back. */
static void check_properties(const uint8_t *data, size_t size)
{
	struct rpcrdma_properties p = rpcrdma_default_properties;
	struct rpcrdma_properties back = rpcrdma_default_properties;
	if (rpcrdma_decode_properties(data, size, &p) < 0) {
		must(p.send_size == back.send_size && !p.hostauth);
		return;
	}
	must(p.send_size >= RPCRDMA_LEAST_SIZE && p.receive_size >= RPCRDMA_LEAST_SIZE);
	must(!p.hostauth || p.hostauth_len <= size);
	const size_t room = 256 + p.hostauth_len;
	uint8_t *again = malloc(room);
	must(again != NULL);
	const size_t len = rpcrdma_encode_properties(&p, again, room);
	must(len > 0 && rpcrdma_decode_properties(again, len, &back) == 0);
	must(back.send_size == p.send_size && back.receive_size == p.receive_size);
	must(back.segment_size == p.segment_size && back.segment_count == p.segment_count);
	must(back.reverse == p.reverse && back.hostauth_len == p.hostauth_len);
	must(p.hostauth_len == 0 || memcmp(back.hostauth, p.hostauth, p.hostauth_len) == 0);
	free(again);
}

static void check_private(const uint8_t *data, size_t size)
{
	uint8_t again[RPCRDMA_PRIVATE_LEN];
	struct rpcrdma_private private_data;
	if (rpcrdma_decode_private(data, size, &private_data) < 0)
		return;
	rpcrdma_encode_private(&private_data, again);
	must(memcmp(again, data, 5) == 0 && memcmp(again + 6, data + 6, 2) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpcrdma_prefix prefix;
	struct rpcrdma_error error;
	uint8_t again[RPCRDMA_V2_PREFIX_LEN];
	check_private(data, size);
	if (size >= 4)
		(void)rpcrdma_propset_has(data + 4, size - 4, data[0]);
	if (rpcrdma_decode_foreign_error(data, size, &error))
		must(size == 20 || size == 28);
	if (rpcrdma_decode_prefix(data, size, &prefix) < 0)
		return 0;
	const size_t len = rpcrdma_encode_prefix(&prefix, again);
	must(memcmp(again, data, RPCRDMA_V1_PREFIX_LEN) == 0);
	switch (prefix.type) {
	case RPCRDMA_MSG:
	case RPCRDMA_NOMSG: check_lists(prefix.version, data + len, size - len); break;
	case RPCRDMA_ERROR: check_error(prefix.version, data + len, size - len); break;
	case RPCRDMA_CONNPROP: check_properties(data + len, size - len); break;
	default: break;
	}
	return 0;
}
