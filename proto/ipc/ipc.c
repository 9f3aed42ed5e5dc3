/* SPDX-License-Identifier: MIT */
#include "proto/ipc/ipc.h"

#include <errno.h>

#include "proto/smcr/bytes.h"

#define IPC_MAGIC 0x534du /* "SM" */

/* ---- frame header */

static uint32_t max_length(uint8_t type)
{
	return type == IPC_CONTROL || type == IPC_CONTROL_REPLY ? IPC_MAX_CONTROL_LEN
								: IPC_MAX_CLIENT_LEN;
}

int ipc_encode_header(uint8_t type, uint32_t length, uint8_t *buf, size_t len)
{
	struct bytes_writer w = bytes_writer(buf, len);
	if (length > max_length(type))
		return -EINVAL;
	write_be16(&w, IPC_MAGIC);
	write_u8(&w, IPC_FORMAT);
	write_u8(&w, type);
	write_be32(&w, length);
	return w.failed ? -ENOBUFS : IPC_HEADER_LEN;
}

int ipc_decode_header(const uint8_t *buf, size_t len, struct ipc_header *ret_header)
{
	if (len < IPC_HEADER_LEN)
		return -EAGAIN;
	struct bytes_reader r = bytes_reader(buf, len);
	uint16_t magic = read_be16(&r);
	uint8_t format = read_u8(&r);
	struct ipc_header header = { .type = read_u8(&r) };
	header.length = read_be32(&r);
	if (magic != IPC_MAGIC || format != IPC_FORMAT || header.length > max_length(header.type))
		return -EBADMSG;
	*ret_header = header;
	return 0;
}

/*
 * ---- payloads
 *
 * For each message one function checks the fields, for encoding and decoding. A payload has exactly
 * the bytes of its message: a longer message would have another number.
 */

static int written(const struct bytes_writer *w, size_t len)
{
	return w->failed ? -ENOBUFS : (int)(len - w->left);
}

static bool read_whole(const struct bytes_reader *r)
{
	return !r->failed && r->left == 0;
}

static int32_t read_i32(struct bytes_reader *r)
{
	return (int32_t)read_be32(r);
}

static void write_i32(struct bytes_writer *w, int32_t value)
{
	write_be32(w, (uint32_t)value);
}

static bool hello_valid(const struct ipc_hello *m)
{
	return m->min_version >= 1 && m->min_version <= m->max_version;
}

int ipc_encode_hello(const struct ipc_hello *msg, uint8_t *buf, size_t len)
{
	if (!hello_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_be16(&w, msg->min_version);
	write_be16(&w, msg->max_version);
	return written(&w, len);
}

int ipc_decode_hello(const uint8_t *buf, size_t len, struct ipc_hello *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_hello msg = { .min_version = read_be16(&r) };
	msg.max_version = read_be16(&r);
	if (!read_whole(&r) || !hello_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

int ipc_encode_error(const struct ipc_error *msg, uint8_t *buf, size_t len)
{
	size_t text_len = strnlen(msg->text, sizeof(msg->text));
	if (msg->error <= 0 || text_len > IPC_TEXT_MAX)
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_i32(&w, msg->error);
	write_bytes(&w, msg->text, text_len);
	return written(&w, len);
}

int ipc_decode_error(const uint8_t *buf, size_t len, struct ipc_error *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_error msg = { .error = read_i32(&r) };
	size_t text_len = r.left;
	if (r.failed || msg.error <= 0 || text_len > IPC_TEXT_MAX)
		return -EBADMSG;
	read_bytes(&r, msg.text, text_len);
	if (memchr(msg.text, '\0', text_len))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

/* Address families on the wire: 0 (none), 4 and 6. */
static void write_addr(struct bytes_writer *w, const union ipc_addr *addr)
{
	if (addr->sa.sa_family == AF_INET) {
		write_u8(w, 4);
		write_bytes(w, &addr->in.sin_port, 2);
		write_bytes(w, &addr->in.sin_addr, 4);
	} else if (addr->sa.sa_family == AF_INET6) {
		write_u8(w, 6);
		write_bytes(w, &addr->in6.sin6_port, 2);
		write_bytes(w, &addr->in6.sin6_addr, 16);
		write_be32(w, addr->in6.sin6_scope_id);
	} else {
		write_u8(w, 0);
	}
}

static bool read_addr(struct bytes_reader *r, union ipc_addr *ret_addr)
{
	uint8_t family = read_u8(r);
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (family == 4) {
		ret_addr->in.sin_family = AF_INET;
		read_bytes(r, &ret_addr->in.sin_port, 2);
		read_bytes(r, &ret_addr->in.sin_addr, 4);
	} else if (family == 6) {
		ret_addr->in6.sin6_family = AF_INET6;
		read_bytes(r, &ret_addr->in6.sin6_port, 2);
		read_bytes(r, &ret_addr->in6.sin6_addr, 16);
		ret_addr->in6.sin6_scope_id = read_be32(r);
	} else if (family != 0) {
		return false;
	}
	return true;
}

static bool handover_valid(const struct ipc_handover *m)
{
	sa_family_t family = m->peer.sa.sa_family;
	return m->kind >= IPC_HANDOVER_CONNECTED && m->kind <= IPC_HANDOVER_ACCEPTED &&
	       !(m->flags & ~IPC_HANDOVER_REQUIRE) &&
	       (m->kind == IPC_HANDOVER_CONNECTING ? family == AF_INET || family == AF_INET6
						   : family == AF_UNSPEC);
}

int ipc_encode_handover(const struct ipc_handover *msg, uint8_t *buf, size_t len)
{
	if (!handover_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->kind);
	write_u8(&w, msg->flags);
	write_addr(&w, &msg->peer);
	return written(&w, len);
}

int ipc_decode_handover(const uint8_t *buf, size_t len, struct ipc_handover *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_handover msg = { .kind = read_u8(&r) };
	msg.flags = read_u8(&r);
	if (!read_addr(&r, &msg.peer) || !read_whole(&r) || !handover_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool result_valid(const struct ipc_result *m)
{
	return m->outcome >= IPC_OUTCOME_PAIR && m->outcome <= IPC_OUTCOME_OPEN && m->error >= 0 &&
	       (m->error > 0) == (m->outcome == IPC_OUTCOME_FAILED);
}

int ipc_encode_result(const struct ipc_result *msg, uint8_t *buf, size_t len)
{
	if (!result_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->outcome);
	write_i32(&w, msg->error);
	write_be32(&w, msg->reason);
	return written(&w, len);
}

int ipc_decode_result(const uint8_t *buf, size_t len, struct ipc_result *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_result msg = { .outcome = read_u8(&r) };
	msg.error = read_i32(&r);
	msg.reason = read_be32(&r);
	if (!read_whole(&r) || !result_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool status_request_valid(const struct ipc_status_request *m)
{
	const uint8_t acting = IPC_STATUS_MAY_TAKE_BACK | IPC_STATUS_DISCONNECT;
	return !(m->flags & ~acting) || m->flags == IPC_STATUS_LOOK;
}

int ipc_encode_status_request(const struct ipc_status_request *msg, uint8_t *buf, size_t len)
{
	if (!status_request_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->flags);
	return written(&w, len);
}

int ipc_decode_status_request(const uint8_t *buf, size_t len, struct ipc_status_request *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_status_request msg = { .flags = read_u8(&r) };
	if (!read_whole(&r) || !status_request_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool status_valid(const struct ipc_status *m)
{
	return m->state >= IPC_CONN_CONNECTING && m->state <= IPC_CONN_OPEN && m->error >= 0 &&
	       !(m->flags & ~IPC_STATUS_TAKE_BACK);
}

int ipc_encode_status(const struct ipc_status *msg, uint8_t *buf, size_t len)
{
	if (!status_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->state);
	write_u8(&w, msg->flags);
	write_i32(&w, msg->error);
	write_be32(&w, msg->reason);
	return written(&w, len);
}

int ipc_decode_status(const uint8_t *buf, size_t len, struct ipc_status *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_status msg = { .state = read_u8(&r) };
	msg.flags = read_u8(&r);
	msg.error = read_i32(&r);
	msg.reason = read_be32(&r);
	if (!read_whole(&r) || !status_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool sockopt_valid(const struct ipc_sockopt *m)
{
	return m->op >= IPC_SOCKOPT_GET && m->op <= IPC_SOCKOPT_CONTROL && m->result >= 0 &&
	       m->length <= IPC_SOCKOPT_VALUE_MAX;
}

int ipc_encode_sockopt(const struct ipc_sockopt *msg, uint8_t *buf, size_t len)
{
	if (!sockopt_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->op);
	write_i32(&w, msg->level);
	write_i32(&w, msg->name);
	write_i32(&w, msg->result);
	write_be16(&w, msg->length);
	write_bytes(&w, msg->value, msg->length);
	return written(&w, len);
}

int ipc_decode_sockopt(const uint8_t *buf, size_t len, struct ipc_sockopt *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_sockopt msg = { .op = read_u8(&r) };
	msg.level = read_i32(&r);
	msg.name = read_i32(&r);
	msg.result = read_i32(&r);
	msg.length = read_be16(&r);
	if (r.failed || !sockopt_valid(&msg))
		return -EBADMSG;
	read_bytes(&r, msg.value, msg.length);
	if (!read_whole(&r))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool info_request_valid(const struct ipc_info_request *m)
{
	return !(m->flags & ~IPC_INFO_WAIT);
}

int ipc_encode_info_request(const struct ipc_info_request *msg, uint8_t *buf, size_t len)
{
	if (!info_request_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->flags);
	return written(&w, len);
}

int ipc_decode_info_request(const uint8_t *buf, size_t len, struct ipc_info_request *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_info_request msg = { .flags = read_u8(&r) };
	if (!read_whole(&r) || !info_request_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool info_valid(const struct ipc_info *m)
{
	return m->mode >= IPC_MODE_PENDING && m->mode <= IPC_MODE_TCP && m->error >= 0 &&
	       !(m->flags &
		 ~(IPC_INFO_SERVER | IPC_INFO_BYTES | IPC_INFO_RELAYED | IPC_INFO_ENDED));
}

int ipc_encode_info(const struct ipc_info *msg, uint8_t *buf, size_t len)
{
	size_t rnic_len = strnlen(msg->rnic, sizeof(msg->rnic));
	if (!info_valid(msg) || rnic_len > IPC_RNIC_MAX)
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->mode);
	write_u8(&w, msg->flags);
	write_i32(&w, msg->error);
	write_be32(&w, msg->reason);
	write_be32(&w, msg->peer_reason);
	write_be32(&w, msg->linkgroup);
	write_u8(&w, msg->link);
	write_be64(&w, msg->tx_bytes);
	write_be64(&w, msg->rx_bytes);
	write_be32(&w, msg->rmbe_size);
	write_be32(&w, msg->peer_rmbe_size);
	write_u8(&w, (uint8_t)rnic_len);
	write_bytes(&w, msg->rnic, rnic_len);
	return written(&w, len);
}

int ipc_decode_info(const uint8_t *buf, size_t len, struct ipc_info *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_info msg = { .mode = read_u8(&r) };
	msg.flags = read_u8(&r);
	msg.error = read_i32(&r);
	msg.reason = read_be32(&r);
	msg.peer_reason = read_be32(&r);
	msg.linkgroup = read_be32(&r);
	msg.link = read_u8(&r);
	msg.tx_bytes = read_be64(&r);
	msg.rx_bytes = read_be64(&r);
	msg.rmbe_size = read_be32(&r);
	msg.peer_rmbe_size = read_be32(&r);
	size_t rnic_len = read_u8(&r);
	if (r.failed || rnic_len > IPC_RNIC_MAX || !info_valid(&msg))
		return -EBADMSG;
	read_bytes(&r, msg.rnic, rnic_len);
	if (!read_whole(&r) || memchr(msg.rnic, '\0', rnic_len))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

int ipc_encode_memory_request(const struct ipc_memory_request *msg, uint8_t *buf, size_t len)
{
	if (msg->version == 0)
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->version);
	return written(&w, len);
}

int ipc_decode_memory_request(const uint8_t *buf, size_t len, struct ipc_memory_request *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_memory_request msg = { .version = read_u8(&r) };
	if (!read_whole(&r) || msg.version == 0)
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

static bool ring_empty(const struct path_ring *ring)
{
	return ring->at == 0 && ring->size == 0;
}

static bool memory_valid(const struct ipc_memory *m)
{
	const struct path_layout *layout = &m->layout;
	if (m->outcome == IPC_MEMORY_GRANTED)
		return path_layout_valid(layout) && m->least_charge > 0 &&
		       m->least_charge <= INT32_MAX;
	return m->outcome <= IPC_MEMORY_OTHER && layout->length == 0 && m->least_charge == 0 &&
	       ring_empty(&layout->receive) && ring_empty(&layout->send);
}

static void write_ring(struct bytes_writer *w, const struct path_ring *ring)
{
	write_be32(w, ring->at);
	write_be32(w, ring->size);
}

static struct path_ring read_ring(struct bytes_reader *r)
{
	struct path_ring ring = { .at = read_be32(r) };
	ring.size = read_be32(r);
	return ring;
}

int ipc_encode_memory(const struct ipc_memory *msg, uint8_t *buf, size_t len)
{
	if (!memory_valid(msg))
		return -EINVAL;
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, msg->outcome);
	write_be32(&w, msg->layout.length);
	write_ring(&w, &msg->layout.receive);
	write_ring(&w, &msg->layout.send);
	write_be32(&w, msg->least_charge);
	return written(&w, len);
}

int ipc_decode_memory(const uint8_t *buf, size_t len, struct ipc_memory *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ipc_memory msg = { .outcome = read_u8(&r) };
	msg.layout.length = read_be32(&r);
	msg.layout.receive = read_ring(&r);
	msg.layout.send = read_ring(&r);
	msg.least_charge = read_be32(&r);
	if (!read_whole(&r) || !memory_valid(&msg))
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}
