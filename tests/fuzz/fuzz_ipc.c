/* SPDX-License-Identifier: MIT */
/*
 * The daemon's socket: a frame with its payload, or a socket address that may be a pair's name.
 * Payloads and names have only one encoding: what can be decoded encodes to the same bytes.
 */
#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "proto/ipc/ipc.h"
#include "tests/fuzz/fuzz.h"

static void same(const uint8_t *data, size_t size, const uint8_t *again, int len)
{
	must(len >= 0 && (size_t)len == size);
	must(size == 0 || memcmp(again, data, size) == 0);
}

#define CHECK_PAYLOAD(name)                                                                        \
	do {                                                                                       \
		struct ipc_##name msg;                                                             \
		uint8_t again[IPC_MAX_CLIENT_LEN];                                                 \
		int rc = ipc_decode_##name(data, size, &msg);                                      \
		must(rc == 0 || rc == -EBADMSG);                                                   \
		if (rc == 0)                                                                       \
			same(data, size, again, ipc_encode_##name(&msg, again, sizeof(again)));    \
	} while (0)

static void check_payload(uint8_t type, const uint8_t *data, size_t size)
{
	switch (type) {
	case IPC_HELLO: CHECK_PAYLOAD(hello); break;
	case IPC_ERROR: CHECK_PAYLOAD(error); break;
	case IPC_HANDOVER: CHECK_PAYLOAD(handover); break;
	case IPC_RESULT: CHECK_PAYLOAD(result); break;
	case IPC_STATUS_REQUEST: CHECK_PAYLOAD(status_request); break;
	case IPC_STATUS: CHECK_PAYLOAD(status); break;
	case IPC_SOCKOPT_REQUEST:
	case IPC_SOCKOPT: CHECK_PAYLOAD(sockopt); break;
	case IPC_INFO_REQUEST: CHECK_PAYLOAD(info_request); break;
	case IPC_INFO: CHECK_PAYLOAD(info); break;
	case IPC_MEMORY_REQUEST: CHECK_PAYLOAD(memory_request); break;
	case IPC_MEMORY: CHECK_PAYLOAD(memory); break;
	default: break;
	}
}

static void check_pair_name(const uint8_t *data, size_t size)
{
	struct ipc_pair_name name;
	struct sockaddr_un again;
	int rc = ipc_pair_name_decode(data, size, &name);
	must(rc == 0 || rc == -EINVAL);
	if (rc == 0)
		same(data, size, (uint8_t *)&again,
		     ipc_pair_name_encode(&name, &again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ipc_header header;
	check_pair_name(data, size);
	int rc = ipc_decode_header(data, size, &header);
	must((rc == -EAGAIN) == (size < IPC_HEADER_LEN));
	if (rc < 0)
		return 0;
	uint8_t again[IPC_HEADER_LEN];
	same(data, IPC_HEADER_LEN, again,
	     ipc_encode_header(header.type, header.length, again, sizeof(again)));
	check_payload(header.type, data + IPC_HEADER_LEN, size - IPC_HEADER_LEN);
	return 0;
}
