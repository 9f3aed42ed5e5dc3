/* SPDX-License-Identifier: MIT */
#include "lib/smcr/request.h"

#include <string.h>
#include <sys/param.h>

#include "lib/smcr/claim.h"
#include "lib/smcr/reach.h"
#include "lib/smcr/session.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"

#define LOOK_MS 500 /* how often a wait checks whether smcrd stands still */

/* ---- waiting */

/* Where the whole machine stood still, as a virtual one does while it is moved, this process may
 * run again before smcrd does. A connection that was given away is lost if smcrd is given up, so
 * that takes two checks. */
static int look_for_life(struct pre_request *s)
{
	int64_t now = sys_now_ms();
	if (now < s->look_at)
		return 0;
	bool before = s->still;
	s->look_at = now + LOOK_MS;
	s->still = pre_stands_still(s->socket);
	return s->still && (before || !s->given) ? -PRE_STANDS_STILL : 0;
}

static int wait_for(struct pre_request *s, short events)
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
static int send_all(struct pre_request *s, const uint8_t *buf, size_t len, int fd)
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
static int send_request(struct pre_request *s, uint8_t type, const uint8_t *payload, size_t len,
			int fd)
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
static int take_fds(struct pre_request *s, struct msghdr *msg)
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
static int receive_some(struct pre_request *s)
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

static int receive_all(struct pre_request *s, uint8_t *buf, size_t len)
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

static int receive_frame(struct pre_request *s)
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

static int receive_answer(struct pre_request *s)
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

/* ---- a request from beginning to end */

/* A rendezvous may take long, connecting may not. smcrd whose backlog is full counts as absent only
 * after PRE_REPLY_MS: what a shorter limit ends tells little of smcrd. */
static int connect_to_daemon(const struct pre_request *s, int limit_ms)
{
	int rc = pre_reach_connect(s->socket, MIN(s->deadline, sys_now_ms() + PRE_REPLY_MS));
	if ((rc == -EAGAIN || rc == -EINTR) && limit_ms < PRE_REPLY_MS)
		return -ETIMEDOUT;
	if (rc < 0 && !pre_is_shortage(rc))
		pre_usable_absent();
	return rc;
}

bool pre_request_has_free(int fd, int count)
{
	int copy = sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return false;
	bool enough = count == 1 || pre_request_has_free(fd, count - 1);
	sys_close(copy);
	return enough;
}

/* @return 0: the caller closes s->socket; or a negative errno */
static int begin(struct pre_request *s, uint8_t type, int limit_ms)
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

/* Before a connection is given away: is the daemon alive, and is a descriptor number free for its
 * answer? */
static int check(struct pre_request *s, uint8_t type)
{
	if (type == IPC_HANDOVER && !pre_request_has_free(s->socket, 1))
		return -EMFILE;
	return look_for_life(s);
}

static int talk(struct pre_request *s, uint8_t type, const uint8_t *payload, size_t len, int fd,
		bool wakeable)
{
	int rc = send_request(s, type, payload, len, fd);
	s->wakeable = wakeable;
	/* smcrd may have refused the session with an ERROR and hung up. */
	if (rc == -EPIPE && receive_frame(s) == 0 && s->type == IPC_ERROR)
		return 0;
	return rc < 0 ? rc : receive_answer(s);
}

int pre_request_ask(uint8_t type, const uint8_t *payload, int len, int fd, int limit_ms,
		    bool wakeable, struct pre_request *ret_request)
{
	struct pre_request *s = ret_request;
	int rc = begin(s, type, limit_ms);
	if (rc < 0)
		return rc;
	rc = len < 0 ? len : check(s, type);
	if (rc == 0)
		rc = connect_to_daemon(s, limit_ms);
	if (rc == 0)
		rc = talk(s, type, payload, (size_t)len, fd, wakeable);
	sys_close(s->socket);
	return rc;
}

int pre_request_tell(uint8_t type, const uint8_t *payload, int len, int fd, int limit_ms)
{
	struct pre_request s;
	int rc = len < 0 ? len : begin(&s, type, limit_ms);
	if (rc < 0)
		return rc;
	rc = pre_reach_connect(s.socket, s.deadline);
	if (rc == 0)
		rc = send_request(&s, type, payload, (size_t)len, fd);
	sys_close(s.socket);
	return rc;
}

void pre_request_drop_fd(struct pre_request *s)
{
	if (s->fd >= 0)
		sys_close(s->fd);
	s->fd = -1;
}
