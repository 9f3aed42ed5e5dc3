/* SPDX-License-Identifier: MIT */
#include "lib/smcr/promise.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/smcr/sys.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/tcpopt.h"

/* A peer that was promised SMC-R sends its Proposal as soon as it is connected; this is for a
 * daemon on a busy host. */
#define PROPOSAL_MS 1000
/* After the daemon's death no SYN-ACK carries the option: a handshake that ends later than this,
 * the time that an acknowledgement may be on its way, promises nothing. */
#define DOUBT_MS 300
#define SYN_MAX  256 /* link layer, IP with its options, TCP with its options */

/* ---- what waits in the socket */

/** The head of the receive queue, left there. @return bytes, 0: end of file, or a negative errno */
static int peek(int fd, uint8_t *buf, size_t len)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	return sys_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);
}

static int take(int fd, uint8_t *buf, size_t len)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int rc = sys_recvmsg(fd, &msg, MSG_DONTWAIT);
	if (rc < 0)
		return rc;
	return (size_t)rc == len ? 0 : -EBADMSG;
}

/* May bytes that begin so be a CLC message? */
static bool looks_like_clc(const uint8_t *buf, size_t len)
{
	static const uint8_t eye[] = { SMCR_EYE_CATCHER >> 24, SMCR_EYE_CATCHER >> 16 & 0xFF,
				       SMCR_EYE_CATCHER >> 8 & 0xFF, SMCR_EYE_CATCHER & 0xFF };
	if (len < SMCR_CLC_HEADER_LEN)
		return memcmp(buf, eye, len < sizeof(eye) ? len : sizeof(eye)) == 0;
	return smcr_clc_peek_length(buf, len) > 0;
}

/** How long the peer has been silent; while it has sent nothing, how old the connection is. The
 *  socket lock that the kernel takes for this lets a handshake that is just ending end first. */
static int64_t silence_of(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	memset(&info, 0, sizeof(info));
	if (sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return 0;
	return info.tcpi_last_ack_recv;
}

/** Until as many bytes are there, or none will follow. @return poll events, 0: the time is over */
static short await(int fd, int bytes, int64_t deadline)
{
	int before = 1, rc = -EINTR;
	short revents = 0;
	sys_get_int(fd, SOL_SOCKET, SO_RCVLOWAT, &before);
	sys_setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
	for (int64_t left; rc == -EINTR && (left = deadline - sys_now_ms()) > 0;) {
		struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
		rc = sys_poll_one(fd, POLLIN | POLLRDHUP, &ts, &revents);
	}
	sys_setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &before, sizeof(before));
	return rc > 0 ? revents : 0;
}

/**
 * See `len` bytes at the head of the queue that may be CLC; waits for what is missing.
 * @return 0, -EBADMSG, -ETIMEDOUT, -ECONNRESET (end of file comes first), or what the socket said
 */
static int peek_clc(int fd, uint8_t *buf, int len, int64_t deadline)
{
	for (short revents = POLLIN;;) {
		int rc = peek(fd, buf, (size_t)len);
		if (rc == 0)
			return -ECONNRESET;
		if (rc < 0 && rc != -EAGAIN && rc != -EINTR)
			return rc;
		if (rc > 0 && !looks_like_clc(buf, (size_t)rc))
			return -EBADMSG;
		if (rc == len)
			return 0;
		if (revents != POLLIN)
			return revents ? -ECONNRESET : -ETIMEDOUT;
		revents = await(fd, len, deadline);
	}
}

/** @return the length of the CLC message at the head of the queue, which is in `buf` then and still
 *  in the socket; or a negative errno as above */
static int peek_message(int fd, uint8_t buf[SMCR_CLC_MAX_LEN], int64_t deadline)
{
	int rc = peek_clc(fd, buf, SMCR_CLC_HEADER_LEN, deadline);
	if (rc < 0)
		return rc;
	int len = smcr_clc_peek_length(buf, SMCR_CLC_HEADER_LEN);
	rc = len < 0 ? len : peek_clc(fd, buf, len, deadline);
	return rc < 0 ? rc : len;
}

/* ---- was it promised */

static _Atomic int64_t unanswered_since; /* milliseconds; 0: the last question was answered */

void pre_promise_answered(void)
{
	if (atomic_load_explicit(&unanswered_since, memory_order_relaxed) != 0)
		atomic_store(&unanswered_since, 0);
}

/* Can the handshake have begun while a daemon was there? */
static bool in_doubt(int64_t age)
{
	int64_t now = sys_now_ms(), first = 0;
	if (atomic_compare_exchange_strong(&unanswered_since, &first, now))
		first = now;
	return now - age <= first + DOUBT_MS;
}

static bool is_marked(int fd)
{
	int value;
	return sys_get_int(fd, IPPROTO_TCP, TCP_SYNCNT, &value) == 0 && value == IPC_PROMISE_MARK;
}

/* A claim makes the listener keep its peers' SYNs. */
static bool keeps_syns(int listener)
{
	int value;
	return sys_get_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, &value) == 0 && value != 0;
}

/** The TCP header of the SYN that the kernel has kept. @return NULL: there is none */
static const uint8_t *tcp_header(const uint8_t *syn, size_t len, size_t *ret_len)
{
	size_t at = 0;
	if (len >= 20 && syn[0] >> 4 == 4)
		at = (size_t)(syn[0] & 0x0F) * 4;
	else if (len >= 40 && syn[0] >> 4 == 6 && syn[6] == IPPROTO_TCP)
		at = 40;
	if (at < 20 || len < at + 20)
		return NULL;
	*ret_len = len - at;
	return syn + at;
}

/* Reading the SYN frees it: nobody needs it any more. */
static bool was_offered(int fd)
{
	uint8_t syn[SYN_MAX];
	socklen_t len = sizeof(syn);
	size_t tcp_len;
	if (sys_getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, syn, &len) < 0 || len > sizeof(syn))
		return false;
	const uint8_t *tcp = tcp_header(syn, len, &tcp_len);
	if (!tcp)
		return false;
	size_t header = (size_t)(tcp[12] >> 4) * 4;
	return header >= 20 && header <= tcp_len && smcr_tcpopt_find(tcp + 20, header - 20) == 1;
}

/* The peer's first bytes tell. Nobody is waited for once the doubt is over, or any stranger who
 * sends half a Proposal could hold the program up. */
static bool is_proposed(int fd)
{
	uint8_t message[SMCR_CLC_MAX_LEN];
	int64_t age = silence_of(fd);
	int rc = peek(fd, message, 1);
	bool doubt = (rc > 0 || rc == -EAGAIN) && in_doubt(age);
	if (rc == -EAGAIN && doubt && was_offered(fd))
		rc = peek_clc(fd, message, SMCR_CLC_HEADER_LEN, sys_now_ms() + PROPOSAL_MS - age);
	else if (rc > 0 && doubt)
		rc = peek_clc(fd, message, SMCR_CLC_HEADER_LEN, sys_now_ms() + PROPOSAL_MS);
	else if (rc > 0)
		rc = peek_message(fd, message, 0);
	else
		return false;
	return rc >= 0 && message[4] == SMCR_CLC_PROPOSAL;
}

bool pre_promise_stands(int listener, int fd)
{
	const int mark = IPC_PROMISE_MARK;
	silence_of(fd); /* for the lock: the mark is set when the handshake ends */
	if (is_marked(fd))
		return true;
	if (!keeps_syns(listener) || !is_proposed(fd))
		return false;
	sys_setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &mark, sizeof(mark));
	return true;
}

void pre_promise_forget(int listener, int fd)
{
	int value;
	if (is_marked(fd) && sys_get_int(listener, IPPROTO_TCP, TCP_SYNCNT, &value) == 0)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &value, sizeof(value));
}

/* ---- declining */

static int send_decline(int fd, uint8_t version, uint32_t reason)
{
	const struct smcr_clc_decline decline = {
		.version = version >= SMCR_CLC_VERSION_2 ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1,
		.diagnosis = reason,
		.os = version >= SMCR_CLC_VERSION_2 ? SMCR_CLC_OS_LINUX : 0,
	};
	uint8_t buf[SMCR_CLC_DECLINE_V2_LEN];
	int len = smcr_clc_encode_decline(&decline, buf, sizeof(buf));
	if (len < 0)
		return len;
	struct iovec iov = { .iov_base = buf, .iov_len = (size_t)len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int rc = sys_sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (rc < 0)
		return rc;
	return rc == len ? 0 : -ENOBUFS; /* a new connection has room for this */
}

/* The peer has waited for too long and declined: it expects its program's bytes next. */
static bool has_given_up(int fd)
{
	uint8_t buf[SMCR_CLC_MAX_LEN];
	struct smcr_clc_msg msg;
	int len = peek_message(fd, buf, 0);
	return len > 0 && smcr_clc_decode(buf, (size_t)len, &msg) == 0 &&
	       msg.type == SMCR_CLC_DECLINE && take(fd, buf, (size_t)len) == 0;
}

int pre_promise_decline(int fd, uint32_t reason)
{
	uint8_t buf[SMCR_CLC_MAX_LEN];
	struct smcr_clc_msg msg;
	int len = peek_message(fd, buf, sys_now_ms() + PROPOSAL_MS - silence_of(fd));
	if (len < 0)
		return len;
	int rc = smcr_clc_decode(buf, (size_t)len, &msg);
	if (rc < 0 && rc != -ENOTSUP) /* sound, but more than we know: declined all the same */
		return rc;
	if (msg.type == SMCR_CLC_DECLINE)
		return take(fd, buf, (size_t)len);
	if (msg.type != SMCR_CLC_PROPOSAL)
		return -EBADMSG;
	rc = take(fd, buf, (size_t)len);
	if (rc < 0 || has_given_up(fd))
		return rc;
	return send_decline(fd, msg.proposal.version, reason);
}
