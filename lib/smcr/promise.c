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

/* How long to wait for a Proposal. A peer that was promised SMC-R sends it as soon as it is
 * connected, but its daemon may run on a busy host. */
#define PROPOSAL_MS 1000
/* After the death of the daemon no SYN-ACK carries the option. The last handshakes that promise
 * SMC-R end within this time after it, while acknowledgements are on their way. */
#define DOUBT_MS 300
#define SYN_MAX  256 /* link layer, IP with its options, TCP with its options */

/* ---- bytes that wait in the socket */

/** Read the head of the receive queue and leave it there. @return bytes; 0: end of file; or a
 * negative errno */
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

/* Can these bytes be the beginning of a CLC message? */
static bool looks_like_clc(const uint8_t *buf, size_t len)
{
	static const uint8_t eye[] = { SMCR_EYE_CATCHER >> 24, SMCR_EYE_CATCHER >> 16 & 0xFF,
				       SMCR_EYE_CATCHER >> 8 & 0xFF, SMCR_EYE_CATCHER & 0xFF };
	if (len < SMCR_CLC_HEADER_LEN)
		return memcmp(buf, eye, len < sizeof(eye) ? len : sizeof(eye)) == 0;
	return smcr_clc_peek_length(buf, len) > 0;
}

/** Milliseconds since the peer sent something; if it has sent nothing, since the handshake. The
 * kernel takes the socket lock for this, so a handshake that is just ending ends first. */
static int64_t silence_of(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	memset(&info, 0, sizeof(info));
	if (sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return 0;
	return info.tcpi_last_ack_recv;
}

/** Wait until so many bytes are there, or no more will follow. @return poll events; 0: the deadline
 * has passed */
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
 * Peek at `len` bytes at the head of the queue that can be CLC; wait for those that are missing.
 * @return 0; -EBADMSG: no CLC; -ETIMEDOUT; -ECONNRESET: end of file comes first; or an error of the
 *         socket
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

/** Peek at the CLC message at the head of the queue. @return its length; it is in `buf` and still
 * in the socket; or a negative errno as above */
static int peek_message(int fd, uint8_t buf[SMCR_CLC_MAX_LEN], int64_t deadline)
{
	int rc = peek_clc(fd, buf, SMCR_CLC_HEADER_LEN, deadline);
	if (rc < 0)
		return rc;
	int len = smcr_clc_peek_length(buf, SMCR_CLC_HEADER_LEN);
	rc = len < 0 ? len : peek_clc(fd, buf, len, deadline);
	return rc < 0 ? rc : len;
}

/* ---- was SMC-R promised? */

static _Atomic int64_t
	unanswered_since; /* first question without an answer, milliseconds; 0: none */

void pre_promise_answered(void)
{
	if (atomic_load_explicit(&unanswered_since, memory_order_relaxed) != 0)
		atomic_store(&unanswered_since, 0);
}

/* Can this connection's handshake have begun while a daemon ran? @param age milliseconds since its
 * end */
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

/* Was the listener claimed? A claim makes it keep its peers' SYNs. */
static bool keeps_syns(int listener)
{
	int value;
	return sys_get_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, &value) == 0 && value != 0;
}

/** The TCP header in the SYN that the kernel has kept. @return NULL: none */
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

/* Did the peer's SYN carry the option? The kernel frees the SYN when it is read; nobody else needs
 * it. */
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

/* Do the peer's first bytes show that it was promised SMC-R? Waits only while a promise is
 * possible; otherwise any stranger who sends half a Proposal could hold up the program. */
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
	silence_of(fd); /* waits for the socket lock: the mark is set when the handshake ends */
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
	return rc == len ? 0 : -ENOBUFS; /* cannot happen: a new connection has room for it */
}

/* Has the peer declined because it waited too long? Then it goes on with TCP, and no Decline may be
 * sent. Takes the peer's Decline. */
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
	if (rc < 0 && rc != -ENOTSUP) /* a Proposal with unknown values is declined too */
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

int pre_promise_withdraw(int fd, uint32_t reason)
{
	return has_given_up(fd) ? 0 : send_decline(fd, SMCR_CLC_VERSION_1, reason);
}
