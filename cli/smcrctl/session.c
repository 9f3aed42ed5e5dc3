/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/smcrctl/interrupt.h"
#include "proto/ipc/ipc.h"

static int fail(char *ret_error, int error, const char *path, const char *what)
{
	snprintf(ret_error, SESSION_ERROR_LEN, "%s: %s", path, what);
	return error;
}

static int open_socket(const char *path, unsigned int seconds, char *ret_error)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = (time_t)seconds };
	if (strlen(path) >= sizeof(addr.sun_path))
		return fail(ret_error, -ECONNREFUSED, path, "the socket path is too long");
	strcpy(addr.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(ret_error, -errno, path, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	int error = errno;
	close(fd);
	if (error == EACCES || error == EPERM)
		return fail(ret_error, -EACCES, path, "no permission to talk to smcrd");
	if (error == EAGAIN) /* many wait before us: it listens, and accepts nobody */
		return fail(ret_error, -ETIMEDOUT, path, "smcrd does not answer in time");
	snprintf(ret_error, SESSION_ERROR_LEN, "no smcrd answers on %s: %s", path, strerror(error));
	return -ECONNREFUSED;
}

static int send_all(int fd, const void *buf, size_t len)
{
	const char *at = buf;
	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int receive_all(int fd, void *buf, size_t len)
{
	char *at = buf;
	while (len > 0) {
		ssize_t n = recv(fd, at, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (n == 0)
			return -EPIPE;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Sends the whole frame and the descriptor in one call. */
static int send_with_descriptor(int fd, uint8_t type, const void *payload, size_t len, int along)
{
	uint8_t header[IPC_HEADER_LEN];
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec parts[2] = { { header, sizeof(header) }, { (void *)payload, len } };
	struct msghdr msg = { .msg_iov = parts,
			      .msg_iovlen = 2,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	ipc_encode_header(type, (uint32_t)len, header, sizeof(header));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &along, sizeof(int));
	ssize_t n;
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == sizeof(header) + len ? 0 : -EMSGSIZE;
}

static int send_frame(int fd, uint8_t type, const void *payload, size_t len)
{
	uint8_t header[IPC_HEADER_LEN];
	ipc_encode_header(type, (uint32_t)len, header, sizeof(header));
	int error = send_all(fd, header, sizeof(header));
	return error ? error : send_all(fd, payload, len);
}

/* The next frame; the payload is malloc'ed and NUL terminated. */
static int receive_frame(int fd, struct ipc_header *ret_header, char **ret_payload)
{
	uint8_t raw[IPC_HEADER_LEN];
	struct ipc_header header;
	int error = receive_all(fd, raw, sizeof(raw));
	if (error)
		return error;
	if (ipc_decode_header(raw, sizeof(raw), &header) < 0)
		return -EPROTO;
	char *payload = malloc((size_t)header.length + 1);
	if (!payload)
		return -ENOMEM;
	error = receive_all(fd, payload, header.length);
	if (error) {
		free(payload);
		return error;
	}
	payload[header.length] = '\0';
	*ret_header = header;
	*ret_payload = payload;
	return 0;
}

static int wait_for_frame(const struct session *session)
{
	struct pollfd fds[] = { { .fd = session->fd, .events = POLLIN }, interrupt_reader() };
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents)
			return 0;
		if (interrupt_reader_has_gone(&fds[1]))
			return -ECANCELED;
	}
}

static int send_hello(int fd)
{
	struct ipc_hello hello = { .min_version = IPC_VERSION, .max_version = IPC_VERSION };
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	int len = ipc_encode_hello(&hello, buf, sizeof(buf));
	return send_frame(fd, IPC_HELLO, buf, (size_t)len);
}

static void wait_without_end(int fd)
{
	struct timeval none = { 0 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
}

/* smcrd sends HELLO, then the reply. ERROR may come instead of either.
 * @param ret_reply  NULL: wait for HELLO only */
static int receive_reply(const struct session *session, char **ret_reply, char *ret_error)
{
	const char *path = session->path;
	for (;;) {
		struct ipc_header header;
		char *payload;
		int error = session->for_reader ? wait_for_frame(session) : 0;
		if (!error)
			error = receive_frame(session->fd, &header, &payload);
		if (error == -ECANCELED)
			return fail(ret_error, error, path, "nobody reads the output any more");
		if (error == -ETIMEDOUT)
			return fail(ret_error, error, path, "smcrd does not answer in time");
		if (error == -EPIPE)
			return fail(ret_error, error, path, "smcrd has ended");
		if (error == -ECONNRESET) /* smcrd ended before it read the request */
			return fail(ret_error, -EPIPE, path, "smcrd has ended");
		if (error)
			return fail(ret_error, error, path, strerror(-error));
		if (header.type == IPC_HELLO && session->patient)
			wait_without_end(session->fd);
		if (header.type == IPC_HELLO && !ret_reply) {
			free(payload);
			return 0;
		}
		if (header.type == IPC_CONTROL_REPLY && ret_reply) {
			*ret_reply = payload;
			return 0;
		}
		struct ipc_error refused;
		bool is_error = header.type == IPC_ERROR &&
				ipc_decode_error((uint8_t *)payload, header.length, &refused) == 0;
		free(payload);
		if (is_error)
			return fail(ret_error, -EPROTO, path, refused.text);
		if (header.type != IPC_HELLO)
			return fail(ret_error, -EPROTO, path, "this is not smcrd's protocol");
	}
}

int session_open(struct session *session, const char *path, unsigned int seconds,
		 char ret_error[SESSION_ERROR_LEN])
{
	int fd = open_socket(path, seconds, ret_error);
	*session = (struct session){ .fd = fd, .path = path };
	return fd < 0 ? fd : 0;
}

void session_close(struct session *session)
{
	if (session->fd >= 0)
		close(session->fd);
	session->fd = -1;
}

int session_request(struct session *session, const char *request, char **ret_reply,
		    char ret_error[SESSION_ERROR_LEN])
{
	/* If sending fails, smcrd may have sent an ERROR before, which says why. */
	if (session->greeted || !send_hello(session->fd))
		send_frame(session->fd, IPC_CONTROL, request, strlen(request));
	session->greeted = true;
	return receive_reply(session, ret_reply, ret_error);
}

int session_begin(struct session *session, const char *request, int descriptor,
		  char ret_error[SESSION_ERROR_LEN])
{
	int error = send_hello(session->fd);
	if (!error)
		error = receive_reply(session, NULL, ret_error);
	else
		fail(ret_error, error, session->path, strerror(-error));
	if (error)
		return error;
	session->greeted = true;
	error = send_with_descriptor(session->fd, IPC_CONTROL, request, strlen(request),
				     descriptor);
	return error ? fail(ret_error, error, session->path, strerror(-error)) : 0;
}

int session_end(struct session *session, char **ret_reply, char ret_error[SESSION_ERROR_LEN])
{
	return receive_reply(session, ret_reply, ret_error);
}
