/* SPDX-License-Identifier: MIT */
#include "lib/smcr/session.h"

#include <stdio.h>
#include <string.h>

#include "lib/smcr/claim.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/reach.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"
#include "proto/smcr/reason.h"

#define RENDEZVOUS_MS 60000 /* longest wait for a rendezvous: twice the daemon's limit */
#define MEMORY_MS     1000  /* limit for MEMORY requests, which are made inside read() or write() */
#define SHOW_MS       100   /* limit for what is told inside shutdown() */
#define LOOK_MS       500   /* how often a wait checks whether smcrd stands still */

/* One request and its answer. */
struct session {
	int socket;
	int64_t deadline;
	int64_t look_at; /* when to check whether smcrd stands still */
	bool still;      /* so it was at the last check */
	bool wakeable;   /* a signal ends the wait for the answer */
	bool given;      /* the daemon may have received the request's descriptor */
	int fd;          /* received with the answer, or -1 */
	uint8_t ahead[2 * (IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN)]; /* received, not decoded yet */
	size_t ahead_at, ahead_len;
	uint8_t type;
	uint32_t len;
	uint8_t payload[IPC_MAX_CLIENT_LEN];
};

/* Where the whole machine stood still, as a virtual one does while it is moved, this process may
 * run again before smcrd does. A connection that was given away is lost if smcrd is given up, so
 * that takes two checks. */
static int look_for_life(struct session *s)
{
	int64_t now = sys_now_ms();
	if (now < s->look_at)
		return 0;
	bool before = s->still;
	s->look_at = now + LOOK_MS;
	s->still = pre_stands_still(s->socket);
	return s->still && (before || !s->given) ? -PRE_STANDS_STILL : 0;
}

static int wait_for(struct session *s, short events)
{
	for (;;) {
		int64_t until = s->look_at < s->deadline ? s->look_at : s->deadline;
		int64_t left = until - sys_now_ms();
		short revents;
		if (left < 0)
			left = 0;
		struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
		int rc = sys_poll_one(s->socket, events, &ts, &revents);
		if (rc > 0)
			return 0;
		if (rc < 0 && (rc != -EINTR || s->wakeable))
			return rc;
		if (sys_now_ms() >= s->deadline)
			return -ETIMEDOUT;
		rc = look_for_life(s);
		if (rc < 0)
			return rc;
	}
}

/* ---- sending */

union fd_control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

/** @param fd is sent with the first byte; -1: none */
static int send_all(struct session *s, const uint8_t *buf, size_t len, int fd)
{
	size_t sent = 0;
	while (sent < len) {
		struct iovec iov = { .iov_base = (void *)(uintptr_t)(buf + sent),
				     .iov_len = len - sent };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		union fd_control control;
		if (fd >= 0 && sent == 0) {
			memset(&control, 0, sizeof(control));
			msg.msg_control = &control;
			msg.msg_controllen = sizeof(control.room);
			control.header.cmsg_level = SOL_SOCKET;
			control.header.cmsg_type = SCM_RIGHTS;
			control.header.cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		}
		int rc = sys_sendmsg(s->socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (rc == -EAGAIN)
			rc = wait_for(s, POLLOUT);
		else if (rc > 0) {
			sent += (size_t)rc;
			s->given = s->given || fd >= 0;
		}
		if (rc < 0 && rc != -EINTR)
			return rc;
	}
	return 0;
}

static int put_frame(uint8_t type, const uint8_t *payload, size_t len, uint8_t *buf,
		     size_t *inout_at)
{
	uint8_t *at = buf + *inout_at;
	if (len > IPC_MAX_CLIENT_LEN ||
	    ipc_encode_header(type, (uint32_t)len, at, IPC_HEADER_LEN) < 0)
		return -EINVAL;
	memcpy(at + IPC_HEADER_LEN, payload, len);
	*inout_at += IPC_HEADER_LEN + len;
	return 0;
}

/* HELLO and request go in one send, so that the daemon wakes up once and answers once. */
static int send_request(struct session *s, uint8_t type, const uint8_t *payload, size_t len, int fd)
{
	const struct ipc_hello hello = { .min_version = IPC_VERSION, .max_version = IPC_VERSION };
	uint8_t greeting[IPC_MAX_CLIENT_LEN], frames[2 * (IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN)];
	size_t at = 0;
	int n = ipc_encode_hello(&hello, greeting, sizeof(greeting));
	if (n < 0 || put_frame(IPC_HELLO, greeting, (size_t)n, frames, &at) < 0 ||
	    put_frame(type, payload, len, frames, &at) < 0)
		return -EINVAL;
	return send_all(s, frames, at, fd);
}

/* ---- receiving */

/* At most one descriptor comes in a session; further ones are closed. */
static int take_fds(struct session *s, struct msghdr *msg)
{
	int rc = msg->msg_flags & MSG_CTRUNC ? -EMFILE : 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (s->fd < 0)
				s->fd = fd;
			else {
				sys_close(fd);
				rc = -EBADMSG;
			}
		}
	}
	return rc;
}

/* Receive at least one byte. Waits before the first attempt, since the answer takes a while. */
static int receive_some(struct session *s)
{
	for (;;) {
		union fd_control control;
		struct iovec iov = { .iov_base = s->ahead, .iov_len = sizeof(s->ahead) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control.room) };
		int rc = wait_for(s, POLLIN);
		if (rc == 0)
			rc = sys_recvmsg(s->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (rc == -EAGAIN || (rc == -EINTR && !s->wakeable))
			continue;
		if (rc == 0)
			rc = -ECONNRESET;
		if (rc < 0)
			return rc;
		s->ahead_at = 0;
		s->ahead_len = (size_t)rc;
		return take_fds(s, &msg);
	}
}

static int receive_all(struct session *s, uint8_t *buf, size_t len)
{
	size_t got = 0;
	while (got < len) {
		if (s->ahead_at == s->ahead_len) {
			int rc = receive_some(s);
			if (rc < 0)
				return rc;
		}
		size_t part = s->ahead_len - s->ahead_at;
		if (part > len - got)
			part = len - got;
		memcpy(buf + got, s->ahead + s->ahead_at, part);
		s->ahead_at += part;
		got += part;
	}
	return 0;
}

static int receive_frame(struct session *s)
{
	uint8_t bytes[IPC_HEADER_LEN];
	struct ipc_header header;
	int rc = receive_all(s, bytes, sizeof(bytes));
	if (rc < 0)
		return rc;
	if (ipc_decode_header(bytes, sizeof(bytes), &header) < 0 ||
	    header.length > sizeof(s->payload))
		return -EBADMSG;
	rc = receive_all(s, s->payload, header.length);
	if (rc < 0)
		return rc;
	s->type = header.type;
	s->len = header.length;
	return 0;
}

static int receive_answer(struct session *s)
{
	struct ipc_hello hello;
	int rc = receive_frame(s);
	if (rc < 0 || s->type == IPC_ERROR)
		return rc;
	if (s->type != IPC_HELLO || ipc_decode_hello(s->payload, s->len, &hello) < 0 ||
	    hello.min_version != IPC_VERSION || hello.max_version != IPC_VERSION)
		return -EBADMSG;
	return receive_frame(s);
}

/* ---- a session from beginning to end */

static int connect_to_daemon(const struct session *s)
{
	int rc = pre_reach_connect(s->socket, PRE_REPLY_MS);
	if (rc < 0 && !pre_is_shortage(rc))
		pre_usable_absent();
	return rc;
}

/* Are so many descriptor numbers free? If the descriptor of an answer cannot be received, the
 * connection is lost. */
static bool has_free(int fd, int count)
{
	int copy = sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return false;
	bool enough = count == 1 || has_free(fd, count - 1);
	sys_close(copy);
	return enough;
}

/** @return 0: the caller closes s->socket; or a negative errno */
static int begin(struct session *s, uint8_t type, int limit_ms)
{
	s->fd = -1;
	s->ahead_at = s->ahead_len = 0;
	s->given = s->wakeable = s->still = false;
	s->deadline = sys_now_ms() + limit_ms;
	s->look_at = type == IPC_HANDOVER ? 0 : INT64_MAX;
	if (pre_settings.daemon_len == 0)
		return -ENAMETOOLONG;
	s->socket = pre_usable_socket();
	return s->socket < 0 ? s->socket : 0;
}

/** Make one request. @return 0: there is an answer (perhaps IPC_ERROR); or a negative errno. In
 * both cases the caller closes ret_session->fd unless it is -1 */
static int ask(uint8_t type, const uint8_t *payload, int len, int fd, int limit_ms, bool wakeable,
	       struct session *ret_session)
{
	struct session *s = ret_session;
	int error = begin(s, type, limit_ms);
	if (error < 0)
		return error;
	bool stuck = type == IPC_HANDOVER && !has_free(s->socket, 1);
	int rc = stuck ? -EMFILE : len < 0 ? len : look_for_life(s);
	if (rc == 0)
		rc = connect_to_daemon(s);
	if (rc == 0)
		rc = send_request(s, type, payload, (size_t)len, fd);
	s->wakeable = wakeable;
	if (rc == 0)
		rc = receive_answer(s);
	else if (rc == -EPIPE && receive_frame(s) == 0 && s->type == IPC_ERROR)
		rc = 0; /* smcrd has refused the session with an ERROR and hung up */
	sys_close(s->socket);
	return rc;
}

static int drop_fd(struct session *s)
{
	if (s->fd >= 0)
		sys_close(s->fd);
	s->fd = -1;
	return 0;
}

static int error_of(const struct session *s)
{
	struct ipc_error error;
	return ipc_decode_error(s->payload, s->len, &error) < 0 ? EBADMSG : error.error;
}

static void describe(struct pre_handover *handover, const struct session *s)
{
	struct ipc_error error;
	const char *words = strerrordesc_np(handover->error);
	const char *whose = "smcrd cannot be asked";
	if (handover->error == PRE_STANDS_STILL)
		words = "it was stopped, or hangs";
	if (s && ipc_decode_error(s->payload, s->len, &error) == 0) {
		words = error.text;
		whose = "smcrd";
	}
	snprintf(handover->text, sizeof(handover->text), "%s: %s", whose,
		 words ? words : "unknown error");
}

uint32_t pre_reason_not_handed(int error)
{
	switch (error) {
	case EUSERS: return SMCR_REASON_LIMIT;
	case EMFILE:
	case ENFILE: return SMCR_REASON_NO_DESCRIPTORS;
	case EXDEV: return SMCR_REASON_OTHER_NETWORK;
	default: return SMCR_REASON_NO_DAEMON;
	}
}

/* ---- requests */

static bool is_pair(int fd)
{
	return fd >= 0 && pre_pair_trust(fd);
}

static enum pre_handed judge_result(struct session *s, struct pre_handover *ret_handover)
{
	struct ipc_result result;
	if (s->type == IPC_ERROR) {
		ret_handover->error = error_of(s);
		ret_handover->short_of = pre_is_shortage(-ret_handover->error);
		describe(ret_handover, s);
		if (ret_handover->error == EXDEV)
			pre_usable_foreign();
		return PRE_NOT_HANDED;
	}
	if (s->type != IPC_RESULT || ipc_decode_result(s->payload, s->len, &result) < 0)
		return PRE_HANDED_LOST;
	bool brings_pair = result.outcome == IPC_OUTCOME_PAIR || result.outcome == IPC_OUTCOME_OPEN;
	if (brings_pair != is_pair(s->fd))
		return PRE_HANDED_LOST;
	ret_handover->error = result.error;
	ret_handover->reason = result.reason;
	switch ((enum ipc_outcome)result.outcome) {
	case IPC_OUTCOME_PAIR:
	case IPC_OUTCOME_OPEN:
		ret_handover->fd = s->fd;
		s->fd = -1;
		return result.outcome == IPC_OUTCOME_PAIR ? PRE_HANDED_PAIR : PRE_HANDED_OPEN;
	case IPC_OUTCOME_TCP: return PRE_HANDED_TCP;
	case IPC_OUTCOME_FAILED: return PRE_HANDED_FAILED;
	}
	return PRE_HANDED_LOST;
}

void pre_ask_handover(int fd, enum ipc_handover_kind kind, const union ipc_addr *peer,
		      enum pre_policy policy, struct pre_handover *ret_handover)
{
	struct ipc_handover request = {
		.kind = (uint8_t)kind,
		.flags = policy == PRE_REQUIRE ? IPC_HANDOVER_REQUIRE : 0,
	};
	if (peer)
		request.peer = *peer;
	struct pre_handover handover = { .fd = -1 };
	struct session s;
	uint8_t payload[64];
	int len = ipc_encode_handover(&request, payload, sizeof(payload));
	int rc = ask(IPC_HANDOVER, payload, len, fd,
		     kind == IPC_HANDOVER_CONNECTED ? RENDEZVOUS_MS : PRE_REPLY_MS, false, &s);
	if (rc == 0) {
		handover.handed = judge_result(&s, &handover);
	} else {
		handover.handed = s.given ? PRE_HANDED_LOST : PRE_NOT_HANDED;
		handover.error = -rc;
		handover.short_of = pre_is_shortage(rc);
		describe(&handover, NULL);
	}
	drop_fd(&s);
	*ret_handover = handover;
}

int pre_ask_status(int fd, uint8_t flags, struct ipc_status *ret_status, int *ret_tcp)
{
	if (flags && flags != IPC_STATUS_LOOK && !has_free(fd, 2))
		flags = 0;
	const struct ipc_status_request request = { .flags = flags };
	struct ipc_status status;
	struct session s;
	uint8_t payload[8];
	int len = ipc_encode_status_request(&request, payload, sizeof(payload));
	int rc = ask(IPC_STATUS_REQUEST, payload, len, fd, PRE_REPLY_MS, false, &s);
	if (rc == 0 && s.type == IPC_ERROR)
		rc = -error_of(&s);
	else if (rc == 0 &&
		 (s.type != IPC_STATUS || ipc_decode_status(s.payload, s.len, &status) < 0))
		rc = -EBADMSG;
	if (rc < 0) {
		drop_fd(&s);
		return rc;
	}
	if (!flags || !(status.flags & IPC_STATUS_TAKE_BACK) || !pre_is_tcp(s.fd))
		drop_fd(&s);
	*ret_status = status;
	*ret_tcp = s.fd;
	return 0;
}

int pre_ask_info(int fd, bool wait, int limit_ms, struct ipc_info *ret_info)
{
	const struct ipc_info_request request = { .flags = wait ? IPC_INFO_WAIT : 0 };
	struct ipc_info info;
	struct session s;
	uint8_t payload[8];
	int len = ipc_encode_info_request(&request, payload, sizeof(payload));
	int rc = ask(IPC_INFO_REQUEST, payload, len, fd, limit_ms, wait, &s);
	drop_fd(&s);
	if (rc < 0)
		return rc;
	if (s.type == IPC_ERROR)
		return -error_of(&s);
	if (s.type != IPC_INFO || ipc_decode_info(s.payload, s.len, &info) < 0)
		return -EBADMSG;
	*ret_info = info;
	return 0;
}

int pre_ask_sockopt(int fd, struct ipc_sockopt *inout_option)
{
	struct ipc_sockopt answer;
	struct session s;
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	int len = ipc_encode_sockopt(inout_option, payload, sizeof(payload));
	int rc = ask(IPC_SOCKOPT_REQUEST, payload, len, fd, PRE_REPLY_MS, false, &s);
	drop_fd(&s);
	/* setsockopt() must not return the errors of asking the daemon. */
	if (rc < 0)
		return pre_is_shortage(rc) ? rc : -ECONNRESET;
	if (s.type == IPC_ERROR)
		return -error_of(&s);
	if (s.type != IPC_SOCKOPT || ipc_decode_sockopt(s.payload, s.len, &answer) < 0)
		return -EBADMSG;
	if (answer.result != 0)
		return -answer.result;
	*inout_option = answer;
	return 0;
}

/* Make a request whose answer nobody reads. */
static int tell(uint8_t type, const uint8_t *payload, int len, int fd, int limit_ms)
{
	struct session s;
	int rc = len < 0 ? len : begin(&s, type, limit_ms);
	if (rc < 0)
		return rc;
	rc = pre_reach_connect(s.socket, limit_ms);
	if (rc == 0)
		rc = send_request(&s, type, payload, (size_t)len, fd);
	sys_close(s.socket);
	return rc;
}

int pre_tell_sockopt(int fd, const struct ipc_sockopt *option)
{
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	int len = ipc_encode_sockopt(option, payload, sizeof(payload));
	return tell(IPC_SOCKOPT_REQUEST, payload, len, fd, PRE_REPLY_MS);
}

void pre_show(int fd)
{
	const struct ipc_status_request request = { .flags = IPC_STATUS_LOOK };
	uint8_t payload[8];
	int len = ipc_encode_status_request(&request, payload, sizeof(payload));
	if (!pre_stands_still(fd))
		tell(IPC_STATUS_REQUEST, payload, len, fd, SHOW_MS);
}

int pre_ask_memory(int fd, struct ipc_memory *ret_answer, int *ret_memfd)
{
	const struct ipc_memory_request request = { .version = IPC_MEMORY_VERSION };
	struct ipc_memory answer;
	struct session s;
	uint8_t payload[8];
	if (!has_free(fd, 2))
		return -EMFILE;
	int len = ipc_encode_memory_request(&request, payload, sizeof(payload));
	int rc = ask(IPC_MEMORY_REQUEST, payload, len, fd, MEMORY_MS, false, &s);
	if (rc == 0 && s.type == IPC_ERROR)
		rc = -error_of(&s);
	else if (rc == 0 &&
		 (s.type != IPC_MEMORY || ipc_decode_memory(s.payload, s.len, &answer) < 0 ||
		  (answer.outcome == IPC_MEMORY_GRANTED) != (s.fd >= 0)))
		rc = -EBADMSG;
	if (rc < 0) {
		drop_fd(&s);
		return rc;
	}
	*ret_answer = answer;
	*ret_memfd = s.fd;
	return 0;
}
