/* SPDX-License-Identifier: MIT */
/* One client of the Unix socket: frames in, frames out (proto/ipc/ipc.h). */
#include <errno.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syslog.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define FRAMES_A_TURN 16
#define FIRST_ROOM    4096 /* first size for a large payload; it grows as bytes come */
#define MAX_FDS       4 /* descriptors received in one call; further ones are an error and closed */

/* ---- life ---- */

static void set_deadline(struct session *session)
{
	session->deadline_ms = conns_now_ms() + session->clients->config.limits.frame_timeout_ms;
	clients_need_sweep(session->clients);
}

static void close_fd(const struct session *session, int *fd)
{
	close_foreign(*fd, session->quota);
	*fd = -1;
}

static void drop_payload(struct session *session)
{
	if (session->payload != session->small)
		free(session->payload);
	session->payload = NULL;
	session->payload_len = session->payload_room = 0;
}

/* Has the client not read a reply that came with a descriptor? The kernel lets smcrd have only as
 * many descriptors on their way as it may open files, whoever has to read them. If there were more,
 * no program would get any. */
static bool has_unread_descriptor(struct session *session)
{
	int unread = 0;
	if (session->gave_fd)
		session->gave_fd = ioctl(session->socket, SIOCOUTQ, &unread) == 0 && unread > 0;
	return session->gave_fd;
}

static void free_session(struct session *session)
{
	struct conns *conns = session->clients->conns;
	if (session->reserved)
		limits_give_reserved(conns);
	else
		limits_count_session(conns, session->quota, -1);
	session->quota->tools -= session->reserved;
	quota_put(conns, session->quota);
	close(session->socket);
	free(session);
}

/* Descriptors that the client has not read count for its user until it reads them, or closes. */
static void release(struct task *task)
{
	struct session *session = container_of(task, struct session, grave);
	struct clients *clients = session->clients;
	drop_payload(session);
	free(session->out);
	close_fd(session, &session->fd);
	close_fd(session, &session->out_fd);
	limits_count_unsent(session->quota, -(ssize_t)session->unsent);
	if (clients->freeing || !has_unread_descriptor(session)) {
		free_session(session);
		return;
	}
	shutdown(session->socket, SHUT_RDWR);
	DL_APPEND(clients->unread, session);
	clients_need_sweep(clients);
}

bool session_free_read(struct clients *clients)
{
	struct session *session, *next;
	DL_FOREACH_SAFE (clients->unread, session, next) {
		if (!clients->freeing && has_unread_descriptor(session))
			continue;
		DL_DELETE(clients->unread, session);
		free_session(session);
	}
	return clients->unread;
}

void session_close(struct session *session)
{
	struct clients *clients = session->clients;
	if (session->dead)
		return;
	session->dead = true;
	poller_forget(clients->poller, &session->watch); /* release() closes the socket */
	batch_cancel(&session->later);
	DL_DELETE(clients->sessions, session);
	conn_asker_forget(&session->asker);
	conn_watcher_forget(&session->watcher);
	request_forget(session);
	pace_forget(session);
	session->grave.run = release;
	batch_bury(clients->batch, &session->grave);
}

/* ---- output ---- */

/* Send once. The descriptor goes with the first byte. */
static ssize_t send_bytes(struct session *session)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { session->out + session->out_at, session->out_len - session->out_at };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (session->out_fd >= 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &session->out_fd, sizeof(int));
	}
	return sendmsg(session->socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The kernel accepts no more bytes for now: count the rest. @return false: the user has too many
 * unread bytes */
static bool keep_unsent(struct session *session)
{
	size_t unsent = session->out_len - session->out_at;
	ssize_t change = (ssize_t)unsent - (ssize_t)session->unsent;
	session->unsent = unsent;
	return limits_count_unsent(session->quota, change) || change <= 0;
}

static void flush(struct session *session)
{
	while (session->out) {
		ssize_t n = send_bytes(session);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && keep_unsent(session)) {
			poller_modify(session->clients->poller, &session->watch,
				      POLLER_INPUT | EPOLLOUT);
			set_deadline(session);
			return;
		}
		if (n < 0) {
			session_close(session);
			return;
		}
		session->gave_fd |= session->out_fd >= 0;
		close_fd(session, &session->out_fd);
		session->out_at += (size_t)n;
		if (session->out_at < session->out_len)
			continue;
		keep_unsent(session); /* counts 0 */
		free(session->out);
		session->out = NULL;
		session->deadline_ms = 0;
	}
	if (session->closing)
		session_close(session);
}

/* @return false: the frame is too long */
static bool put_frame(struct session *session, enum ipc_type type, const void *payload, size_t len)
{
	uint8_t *at = session->out + session->out_len;
	if (ipc_encode_header((uint8_t)type, (uint32_t)len, at, IPC_HEADER_LEN) < 0)
		return false;
	memcpy(at + IPC_HEADER_LEN, payload, len);
	session->out_len += IPC_HEADER_LEN + len;
	session_trace_reply(session, type, payload, len);
	return true;
}

static bool put_hello(struct session *session)
{
	const struct ipc_hello msg = { .min_version = IPC_VERSION, .max_version = IPC_VERSION };
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	int len = ipc_encode_hello(&msg, buf, sizeof(buf));
	session->hello_due = false;
	return put_frame(session, IPC_HELLO, buf, (size_t)len);
}

/* Make room for HELLO and a frame with `len` bytes of payload. @return false: no memory */
static bool open_output(struct session *session, size_t len)
{
	session->out = malloc(IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN + IPC_HEADER_LEN + len);
	session->out_at = session->out_len = 0;
	return session->out;
}

/* One reply is due at a time, so `out` never has more than HELLO and one reply. */
void session_reply(struct session *session, enum ipc_type type, const void *payload, size_t len,
		   int fd)
{
	if (session->dead || session->out) {
		close_fd(session, &fd);
		return;
	}
	if (fd >= 0 && has_unread_descriptor(session)) {
		conns_warn_of_user(session->clients->conns, session->cred.uid, "unread",
				   "a program of user %u (pid %d) does not read what it asks for: "
				   "its session is ended",
				   (unsigned int)session->cred.uid, (int)session->cred.pid);
		close_fd(session, &fd);
		session_close(session);
		return;
	}
	if (!open_output(session, len) || (session->hello_due && !put_hello(session)) ||
	    !put_frame(session, type, payload, len)) {
		close_fd(session, &fd);
		session_close(session);
		return;
	}
	session->out_fd = fd;
	flush(session);
}

/* Send HELLO alone: no request has come whose reply it could go with. */
static void greet(struct session *session)
{
	if (!open_output(session, 0) || !put_hello(session))
		session_close(session);
	else
		flush(session);
}

void session_reply_result(struct session *session, enum ipc_outcome outcome, int error,
			  uint32_t reason, int fd)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	const struct ipc_result msg = {
		.outcome = (uint8_t)outcome,
		.error = outcome == IPC_OUTCOME_FAILED && error <= 0 ? EIO : error,
		.reason = outcome == IPC_OUTCOME_TCP ? reason : 0,
	};
	int len = ipc_encode_result(&msg, buf, sizeof(buf));
	session_reply(session, IPC_RESULT, buf, (size_t)len, fd);
}

void session_reply_error(struct session *session, int error, const char *format, ...)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_error msg = { .error = error };
	va_list args;
	va_start(args, format);
	vsnprintf(msg.text, sizeof(msg.text), format, args);
	va_end(args);
	int len = ipc_encode_error(&msg, buf, sizeof(buf));
	session_reply(session, IPC_ERROR, buf, (size_t)len, -1);
}

/* The client has broken the protocol: send an ERROR and end the session. */
static void protocol_error(struct session *session, int error, const char *text)
{
	session->closing = true;
	session_reply_error(session, error, "%s", text);
}

/* ---- requests ---- */

static bool more_ahead(const struct session *session)
{
	return session->ahead_at < session->ahead_len;
}

static void do_hello(struct session *session)
{
	struct ipc_hello msg;
	if (session->greeted ||
	    ipc_decode_hello(session->payload, session->payload_len, &msg) < 0) {
		protocol_error(session, EPROTO, "the HELLO is malformed, or the second one");
		return;
	}
	if (msg.min_version > IPC_VERSION || msg.max_version < IPC_VERSION) {
		protocol_error(session, EPROTONOSUPPORT,
			       "smcrd speaks version 1 of the socket protocol only");
		return;
	}
	session->greeted = true;
	session->hello_due = true;
	session->deadline_ms = 0;
	if (!more_ahead(session))
		greet(session);
}

/* A descriptor that came with several frames belongs to the last one. */
int session_descriptor(const struct session *session)
{
	return more_ahead(session) ? -1 : session->fd;
}

static bool take_fd(struct session *session, int *ret_fd)
{
	if (session_descriptor(session) < 0) {
		session_reply_error(session, EBADF, "no descriptor came with the request");
		return false;
	}
	*ret_fd = session->fd;
	session->fd = -1;
	return true;
}

static void do_handover(struct session *session)
{
	struct ipc_handover msg;
	int fd;
	if (ipc_decode_handover(session->payload, session->payload_len, &msg) < 0)
		protocol_error(session, EPROTO, "the HANDOVER is malformed");
	else if (take_fd(session, &fd))
		handover_request(session, &msg, fd);
}

static void do_status(struct session *session)
{
	struct ipc_status_request msg;
	int fd;
	if (ipc_decode_status_request(session->payload, session->payload_len, &msg) < 0) {
		protocol_error(session, EPROTO, "the STATUS_REQUEST is malformed");
	} else if (take_fd(session, &fd)) {
		query_status(session, &msg, fd);
		close_foreign(fd, session->quota);
	}
}

static void do_sockopt(struct session *session)
{
	struct ipc_sockopt msg;
	int fd;
	if (ipc_decode_sockopt(session->payload, session->payload_len, &msg) < 0) {
		protocol_error(session, EPROTO, "the SOCKOPT_REQUEST is malformed");
	} else if (take_fd(session, &fd)) {
		query_sockopt(session, &msg, fd);
		close_foreign(fd, session->quota);
	}
}

static void do_info(struct session *session)
{
	struct ipc_info_request msg;
	int fd;
	if (ipc_decode_info_request(session->payload, session->payload_len, &msg) < 0) {
		protocol_error(session, EPROTO, "the INFO_REQUEST is malformed");
	} else if (take_fd(session, &fd)) {
		info_request(session, &msg, fd);
		close_foreign(fd, session->quota);
	}
}

static void do_memory(struct session *session)
{
	struct ipc_memory_request msg;
	int fd;
	if (ipc_decode_memory_request(session->payload, session->payload_len, &msg) < 0) {
		protocol_error(session, EPROTO, "the MEMORY_REQUEST is malformed");
	} else if (take_fd(session, &fd)) {
		query_memory(session, &msg, fd);
		close_foreign(fd, session->quota);
	}
}

static void do_control(struct session *session)
{
	const uint64_t begun = conns_now_us();
	if (session->no_tool)
		session_reply_error(session, EPERM, "control requests go to smcrd's socket file");
	else
		request_control(session);
	pace_end(session, begun);
}

static void dispatch(struct session *session)
{
	session->active = true;
	if (session->frame.type == IPC_HELLO) {
		do_hello(session);
		return;
	}
	if (!session->greeted) {
		protocol_error(session, EPROTO, "a session starts with HELLO");
		return;
	}
	if (session->reserved && session->frame.type != IPC_CONTROL) {
		session_reply_error(session, EUSERS,
				    "smcrd has room for administrators' tools only");
		return;
	}
	switch (session->frame.type) {
	case IPC_HANDOVER: do_handover(session); break;
	case IPC_STATUS_REQUEST: do_status(session); break;
	case IPC_SOCKOPT_REQUEST: do_sockopt(session); break;
	case IPC_CONTROL: do_control(session); break;
	case IPC_INFO_REQUEST: do_info(session); break;
	case IPC_MEMORY_REQUEST: do_memory(session); break;
	default:
		session_reply_error(session, EOPNOTSUPP, "smcrd does not know message type %u",
				    session->frame.type);
	}
	if (!more_ahead(session))
		close_fd(session, &session->fd);
}

/* ---- input ---- */

/* Keep the first descriptor and close the others. @return false: there were others, or the user has
 * too many that are being closed */
static bool take_descriptors(struct session *session, struct msghdr *msg)
{
	bool fits = true;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (session->fd < 0) {
				session->fd = fd;
			} else {
				close_foreign(fd, session->quota);
				fits = false;
			}
		}
	}
	return fits && !(msg->msg_flags & MSG_CTRUNC) && !close_overdue(session->quota);
}

/* @return how many bytes; 0: nothing now, or the session has ended */
static size_t receive_from_socket(struct session *session, void *buf, size_t len)
{
	union {
		char buf[CMSG_SPACE(MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	ssize_t n;
	do
		n = recvmsg(session->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		session_close(session);
		return 0;
	}
	if (!take_descriptors(session, &msg)) {
		if (limits_out_of_descriptors(session->clients->conns))
			protocol_error(session, EMFILE,
				       smcr_reason_text(SMCR_REASON_NO_DESCRIPTORS));
		else
			protocol_error(session, EPROTO,
				       "too many descriptors came with the frames");
		return 0;
	}
	return (size_t)n;
}

/* Receive as much as there is: HELLO and the first request mostly come together.
 * @return as receive_from_socket() */
static size_t receive(struct session *session, void *buf, size_t len)
{
	if (!more_ahead(session) && len >= sizeof(session->ahead))
		return receive_from_socket(session, buf, len);
	if (!more_ahead(session)) {
		session->ahead_at = 0;
		session->ahead_len =
			receive_from_socket(session, session->ahead, sizeof(session->ahead));
	}
	size_t left = session->ahead_len - session->ahead_at;
	size_t n = left < len ? left : len;
	memcpy(buf, session->ahead + session->ahead_at, n);
	session->ahead_at += n;
	return n;
}

static void start_payload(struct session *session)
{
	const struct clients_limits *limits = &session->clients->config.limits;
	if (ipc_decode_header(session->header, IPC_HEADER_LEN, &session->frame) < 0) {
		protocol_error(session, EPROTO, "this is no frame of smcrd's socket protocol");
		return;
	}
	if (session->frame.type == IPC_CONTROL &&
	    session->frame.length > limits->control_request_bytes) {
		protocol_error(session, EMSGSIZE, "the control request is too long");
		return;
	}
	session->payload = session->small;
	session->payload_len = 0;
	session->payload_room = sizeof(session->small);
}

/* @return false: no memory; the session has ended */
static bool grow_payload(struct session *session)
{
	size_t room = session->payload_room * 2;
	if (room < FIRST_ROOM)
		room = FIRST_ROOM;
	if (room > session->frame.length)
		room = session->frame.length;
	uint8_t *payload = malloc(room);
	if (!payload) {
		session_close(session);
		return false;
	}
	memcpy(payload, session->payload, session->payload_len);
	if (session->payload != session->small)
		free(session->payload);
	session->payload = payload;
	session->payload_room = room;
	return true;
}

/* @return true: a whole frame has been received */
static bool read_frame(struct session *session)
{
	while (!session->payload && !session->closing && !session->dead) {
		size_t n = receive(session, session->header + session->header_len,
				   IPC_HEADER_LEN - session->header_len);
		if (n == 0)
			return false;
		session->header_len += n;
		if (session->header_len == IPC_HEADER_LEN)
			start_payload(session);
		else if (!session->deadline_ms)
			set_deadline(session);
	}
	while (!session->closing && !session->dead &&
	       session->payload_len < session->frame.length) {
		size_t room = session->payload_room;
		if (session->payload_len == room && !grow_payload(session))
			return false;
		room = session->payload_room < session->frame.length ? session->payload_room
								     : session->frame.length;
		size_t n = receive(session, session->payload + session->payload_len,
				   room - session->payload_len);
		if (n == 0) {
			if (!session->dead && !session->deadline_ms)
				set_deadline(session);
			return false;
		}
		session->payload_len += n;
	}
	return !session->closing && !session->dead;
}

static bool reply_is_due(const struct session *session)
{
	return session->out || session->asker.conn || session->watcher.conn || session->asked ||
	       session->waits || session->paced;
}

void session_check_idle(struct session *session, uint64_t now_ms)
{
	uint64_t limit_ms = session->clients->config.limits.idle_timeout_ms;
	if (session->active || !session->greeted || reply_is_due(session)) {
		session->active = false;
		session->idle_since_ms = now_ms;
	} else if (now_ms - session->idle_since_ms >= limit_ms) {
		protocol_error(session, ETIMEDOUT, "nothing was asked in this session for long");
	}
}

/* End the session if its client has closed and waits for a reply. While a reply is due nothing is
 * read, so end of file would not be seen, and no second event tells of it. @return true: the
 * session has ended */
static bool close_if_gone(struct session *session)
{
	if (session->dead || !session->hung_up || !reply_is_due(session))
		return false;
	session_close(session);
	return true;
}

static void serve(struct session *session)
{
	for (int i = 0; !session->dead && !session->closing && !reply_is_due(session); i++) {
		if (i == FRAMES_A_TURN) {
			session_resume_later(session);
			return;
		}
		if (!read_frame(session)) {
			if (session->hello_due && !session->dead && !session->closing)
				greet(session);
			return;
		}
		if (session->greeted)
			session->deadline_ms = 0;
		if (session->header_len) /* not a request that is made again */
			session_trace_request(session);
		session->header_len = 0;
		if (session->greeted && session->frame.type == IPC_CONTROL && !pace_admits(session))
			return; /* the session keeps the frame */
		dispatch(session);
		if (session->waits)
			return; /* the session keeps the frame */
		drop_payload(session);
	}
}

void session_resume(struct session *session)
{
	serve(session);
	close_if_gone(session); /* the client may have closed after its last request */
}

static void on_later(struct task *task)
{
	session_resume(container_of(task, struct session, later));
}

void session_resume_later(struct session *session)
{
	if (!session->dead)
		batch_later(session->clients->batch, &session->later);
}

static void on_ready(struct watch *watch, uint32_t events)
{
	struct session *session = container_of(watch, struct session, watch);
	session->hung_up |= (events & (EPOLLHUP | EPOLLERR)) != 0;
	if (close_if_gone(session))
		return;
	if (session->out && events & EPOLLOUT) {
		flush(session);
		if (!session->out && !session->dead)
			poller_modify(session->clients->poller, &session->watch, POLLER_INPUT);
	}
	session_resume(session);
}

/* ---- a new one ---- */

static bool is_administrator(const struct clients *clients, int fd, const struct ucred *cred)
{
	const struct clients_callbacks *callbacks = &clients->config.callbacks;
	gid_t *groups;
	if (!callbacks->administrator)
		return cred->uid == 0;
	ssize_t n = request_groups(fd, &groups);
	const struct clients_asker asker = {
		.cred = *cred, .groups = groups, .num_groups = n > 0 ? (size_t)n : 0, .fd = -1
	};
	bool is = callbacks->administrator(callbacks->ctx, &asker);
	free(groups);
	return is;
}

void session_refuse(int fd, int error, const char *text)
{
	uint8_t buf[IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN];
	struct ipc_error msg = { .error = error };
	snprintf(msg.text, sizeof(msg.text), "%s", text);
	int len = ipc_encode_error(&msg, buf + IPC_HEADER_LEN, sizeof(buf) - IPC_HEADER_LEN);
	if (len > 0 && ipc_encode_header(IPC_ERROR, (uint32_t)len, buf, IPC_HEADER_LEN) > 0)
		send(fd, buf, (size_t)(IPC_HEADER_LEN + len), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

void session_new(struct clients *clients, int fd, bool no_tool)
{
	struct conns *conns = clients->conns;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct quota *quota = NULL;
	char why[IPC_TEXT_MAX + 1] = "smcrd is out of memory";
	bool reserved = false;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
		quota = quota_get(conns, cred.uid);
	if (quota && !limits_allow_session(conns, quota, why, sizeof(why)))
		reserved = !no_tool && is_administrator(clients, fd, &cred) &&
			   limits_take_reserved(conns);
	else if (quota)
		why[0] = '\0';
	if (*why && !reserved) {
		session_refuse(fd, EUSERS, why);
		quota_put(conns, quota);
		return;
	}
	struct session *session = calloc(1, sizeof(*session));
	if (!session || poller_add(clients->poller, &session->watch, fd, POLLER_INPUT, on_ready)) {
		free(session);
		if (reserved)
			limits_give_reserved(conns);
		session_refuse(fd, ENOMEM, "smcrd is out of memory");
		quota_put(conns, quota);
		return;
	}
	session->clients = clients;
	session->number = ++clients->last_session;
	session->socket = fd;
	session->no_tool = no_tool;
	session->reserved = reserved;
	session->cred = cred;
	session->quota = quota;
	session->fd = session->out_fd = -1;
	session->later.run = on_later;
	handover_init(session);
	info_init(session);
	DL_APPEND(clients->sessions, session);
	quota->tools += reserved;
	if (!reserved)
		limits_count_session(conns, quota, 1);
	set_deadline(session);
}
