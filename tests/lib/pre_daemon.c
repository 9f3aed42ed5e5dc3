/* SPDX-License-Identifier: MIT */
#include "tests/lib/pre_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/smcr/session.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/usable.h"
#include "proto/ipc/ipc.h"

#define MAX_CONNS    512
#define MAX_SESSIONS 64
#define CHUNK        4096

/* Bytes of one direction that were read and not yet written. */
struct flow {
	char bytes[CHUNK];
	size_t from, to;
	bool eof, eof_passed;
};

struct conn {
	bool used;
	int tcp;             /* -1: given back */
	int end;             /* the daemon's end of the pair, -1: closed */
	ino_t program_inode; /* of the program's end */
	size_t plug;         /* bytes of the plug, which are dropped when the rendezvous ends */
	enum ipc_conn_state state;
	int error;
	uint32_t reason;
	bool passed; /* application bytes have been seen */
	struct flow out, in;
};

static struct conn conns[MAX_CONNS];
static struct pre_daemon_script *script;
static uint64_t next_id = 1;

static struct pre_daemon self; /* used in the daemon's process, to clean up */

static int abstract_listeners[2] = { -1, -1 };

/* Stop as smcrd does: close the abstract address before the path is removed. So nobody who misses
 * the path can still reach the address. */
static void clean_up(void)
{
	for (int i = 0; i < 2; i++)
		if (abstract_listeners[i] >= 0)
			close(abstract_listeners[i]);
	unlink(self.path);
	rmdir(self.dir);
}

static void on_end(int signal)
{
	(void)signal;
	clean_up();
	_exit(0);
}

static void die(const char *what)
{
	fprintf(stderr, "pre_daemon: %s: %s\n", what, strerror(errno));
	clean_up();
	_exit(1);
}

/* ---- frames. The program under test may do anything, so errors here do not fail the test */

static void put(int fd, const uint8_t *bytes, size_t len, int sent_fd)
{
	for (size_t at = 0; at < len;) {
		struct iovec iov = { .iov_base = (void *)(uintptr_t)(bytes + at),
				     .iov_len = script->dribble ? 1 : len - at };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		union {
			struct cmsghdr header;
			char room[CMSG_SPACE(sizeof(int))];
		} control;
		if (sent_fd >= 0 && at == 0) {
			memset(&control, 0, sizeof(control));
			control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
							   .cmsg_level = SOL_SOCKET,
							   .cmsg_type = SCM_RIGHTS };
			memcpy(CMSG_DATA(&control.header), &sent_fd, sizeof(int));
			msg.msg_control = &control;
			msg.msg_controllen = sizeof(control);
		}
		ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL);
		if (n < 0)
			return;
		at += (size_t)n;
	}
}

static void put_frame(int fd, uint8_t type, const uint8_t *payload, int len, int sent_fd)
{
	uint8_t frame[IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN];
	if (len < 0 || ipc_encode_header(type, (uint32_t)len, frame, sizeof(frame)) < 0)
		die("a frame to send");
	memcpy(frame + IPC_HEADER_LEN, payload, (size_t)len);
	put(fd, frame, IPC_HEADER_LEN + (size_t)len, sent_fd);
}

/* A connected program, and what it has sent so far. One program may have several sessions: its
 * signal handler may connect while the code that it interrupts is in the middle of a session. */
struct session {
	int fd; /* -1: free */
	int received;
	bool waits; /* it waits for INFO about `received` */
	size_t len;
	uint8_t bytes[2 * (IPC_HEADER_LEN + IPC_MAX_CLIENT_LEN)];
};

static struct session sessions[MAX_SESSIONS];

/* @return false: the program hung up */
static bool receive(struct session *s)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { s->bytes + s->len, sizeof(s->bytes) - s->len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(s->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&s->received, CMSG_DATA(c), sizeof(int));
	s->len += (size_t)n;
	return true;
}

/* Find the frame that begins at `at`. @return its length with the header; 0: not complete yet */
static size_t frame_at(const struct session *s, size_t at, struct ipc_header *ret_header)
{
	if (s->len < at || ipc_decode_header(s->bytes + at, s->len - at, ret_header) < 0)
		return 0;
	size_t len = IPC_HEADER_LEN + (size_t)ret_header->length;
	return s->len - at < len ? 0 : len;
}

static void put_error(int fd, int error)
{
	struct ipc_error message = { .error = error, .text = "as the test has it" };
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	put_frame(fd, IPC_ERROR, payload, ipc_encode_error(&message, payload, sizeof(payload)), -1);
}

static void put_result(int fd, uint8_t outcome, int sent_fd)
{
	struct ipc_result result = { .outcome = outcome };
	uint8_t payload[64];
	if (outcome == IPC_OUTCOME_FAILED)
		result.error = script->error;
	if (outcome == IPC_OUTCOME_TCP)
		result.reason = (uint32_t)script->reason;
	put_frame(fd, IPC_RESULT, payload, ipc_encode_result(&result, payload, sizeof(payload)),
		  sent_fd);
}

/* ---- pairs */

static void name_pair(int program_end, int tcp, const union ipc_addr *peer)
{
	struct ipc_pair_name name = { .id = next_id++ };
	struct sockaddr_un addr;
	socklen_t local_len = sizeof(name.local), peer_len = sizeof(name.peer);
	getsockname(tcp, &name.local.sa, &local_len);
	/* The kernel does not tell the peer's address in SYN_SENT, nor after the program has reset
	 * the connection because of a wrong version; in the latter case nobody will ask for it. */
	if (getpeername(tcp, &name.peer.sa, &peer_len) < 0)
		name.peer = peer->sa.sa_family == AF_UNSPEC ? name.local : *peer;
	int len = ipc_pair_name_encode(&name, &addr, sizeof(addr));
	if (len < 0 || bind(program_end, (struct sockaddr *)&addr, (socklen_t)len) < 0)
		die("pair name");
}

/* @return the program's end */
static int open_pair(struct conn *conn, const struct ipc_handover *handover)
{
	const bool plugged = handover->kind == IPC_HANDOVER_CONNECTING;
	int ends[2];
	struct stat st;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0 ||
	    fstat(ends[1], &st) < 0)
		die("socketpair");
	conn->end = ends[0];
	conn->program_inode = st.st_ino;
	if (!script->nameless)
		name_pair(ends[1], conn->tcp, &handover->peer);
	static const char zeros[4096];
	conn->plug = 0;
	do {
		ssize_t n = send(ends[1], zeros, plugged ? sizeof(zeros) : 1, MSG_NOSIGNAL);
		if (n < 0)
			break;
		conn->plug += (size_t)n;
	} while (plugged);
	return ends[1];
}

static void close_conn(struct conn *conn)
{
	if (conn->end >= 0)
		close(conn->end);
	if (conn->tcp >= 0)
		close(conn->tcp);
	conn->used = false;
	script->conns--;
}

static struct conn *new_conn(int tcp)
{
	for (size_t i = 0; i < MAX_CONNS; i++)
		if (!conns[i].used) {
			conns[i] = (struct conn){ .used = true, .tcp = tcp, .end = -1 };
			script->conns++;
			return &conns[i];
		}
	die("too many connections");
	return NULL;
}

static struct conn *conn_of(int pair_end)
{
	struct stat st;
	if (pair_end < 0 || fstat(pair_end, &st) < 0)
		return NULL;
	for (size_t i = 0; i < MAX_CONNS; i++)
		if (conns[i].used && conns[i].program_inode == st.st_ino)
			return &conns[i];
	return NULL;
}

static bool is_undecided(const struct conn *conn)
{
	return conn->state == IPC_CONN_CONNECTING || conn->state == IPC_CONN_OPEN;
}

/* ---- requests */

static void hand_over_pair(int fd, struct conn *conn, const struct ipc_handover *handover,
			   bool open)
{
	int program_end = open_pair(conn, handover);
	conn->state = handover->kind != IPC_HANDOVER_CONNECTED ? IPC_CONN_CONNECTING
		      : open                                   ? IPC_CONN_OPEN
							       : IPC_CONN_SMCR;
	put_result(fd, conn->state == IPC_CONN_OPEN ? IPC_OUTCOME_OPEN : IPC_OUTCOME_PAIR,
		   program_end);
	close(program_end);
}

/* @return true: the socket is kept */
static bool on_handover(int fd, const uint8_t *payload, size_t len, int tcp,
			enum pre_daemon_answer answer)
{
	struct ipc_handover handover;
	int pipes[2];
	if (ipc_decode_handover(payload, len, &handover) < 0 || tcp < 0) {
		put_error(fd, EBADMSG);
		return false;
	}
	script->last_flags = handover.flags;
	switch (handover.kind) {
	case IPC_HANDOVER_CONNECTED: script->connected++; break;
	case IPC_HANDOVER_CONNECTING: script->connecting++; break;
	default: script->accepted++; break;
	}
	switch (answer) {
	case ANSWER_PAIR:
	case ANSWER_OPEN:
	case ANSWER_OTHER_VERSION:
		fcntl(tcp, F_SETFL, O_NONBLOCK);
		hand_over_pair(fd, new_conn(tcp), &handover, answer == ANSWER_OPEN);
		return true;
	case ANSWER_TCP: put_result(fd, IPC_OUTCOME_TCP, -1); break;
	case ANSWER_FAILED: put_result(fd, IPC_OUTCOME_FAILED, -1); break;
	case ANSWER_ERROR: put_error(fd, script->error); break;
	case ANSWER_GARBAGE:
		put(fd, (const uint8_t *)"HTTP/1.1 400 Bad Request\r\n", 26, -1);
		break;
	case ANSWER_WRONG_TYPE:
		put_frame(fd, IPC_CONTROL_REPLY, (const uint8_t *)"{}", 2, -1);
		break;
	case ANSWER_NO_FD: put_result(fd, IPC_OUTCOME_PAIR, -1); break;
	case ANSWER_WRONG_FD:
		if (pipe(pipes) < 0)
			die("pipe");
		put_result(fd, IPC_OUTCOME_PAIR, pipes[0]);
		close(pipes[0]);
		close(pipes[1]);
		break;
	case ANSWER_HANG_UP: break;
	case ANSWER_DIE: clean_up(); _exit(0);
	}
	return false;
}

static bool gives_back(const struct conn *conn, bool may)
{
	bool over =
		conn->state == IPC_CONN_FAILED || (conn->state == IPC_CONN_RELAY && !conn->passed);
	return may && script->take_back && over && conn->tcp >= 0;
}

static void on_status(int fd, const uint8_t *payload, size_t len, int pair_end)
{
	struct ipc_status_request request;
	struct conn *conn = conn_of(pair_end);
	uint8_t answer[64];
	script->status_requests++;
	if (ipc_decode_status_request(payload, len, &request) < 0 || !conn) {
		put_error(fd, conn ? EBADMSG : ENOENT);
		return;
	}
	bool may = request.flags & IPC_STATUS_MAY_TAKE_BACK;
	bool give = gives_back(conn, may);
	if (request.flags & IPC_STATUS_DISCONNECT) {
		const struct sockaddr none = { .sa_family = AF_UNSPEC };
		give = conn->tcp >= 0 && connect(conn->tcp, &none, sizeof(none)) == 0;
		script->disconnects++;
	}
	struct ipc_status status = { .state = (uint8_t)conn->state,
				     .flags = give ? IPC_STATUS_TAKE_BACK : 0,
				     .error = conn->error,
				     .reason = conn->reason };
	script->may_take_back = may;
	if (!(request.flags & IPC_STATUS_LOOK))
		conn->error = 0; /* an error is told once, as the kernel does */
	script->taken_back += give;
	put_frame(fd, IPC_STATUS, answer, ipc_encode_status(&status, answer, sizeof(answer)),
		  give ? conn->tcp : -1);
	if (give)
		close_conn(conn);
}

static void on_sockopt(int fd, const uint8_t *payload, size_t len, int pair_end)
{
	struct ipc_sockopt option;
	struct conn *conn = conn_of(pair_end);
	uint8_t answer[IPC_MAX_CLIENT_LEN];
	script->sockopts++;
	if (ipc_decode_sockopt(payload, len, &option) < 0 || !conn || conn->tcp < 0) {
		put_error(fd, ENOTCONN);
		return;
	}
	socklen_t size = option.length;
	int rc;
	if (option.op == IPC_SOCKOPT_GET)
		rc = getsockopt(conn->tcp, option.level, option.name, option.value, &size);
	else if (option.op == IPC_SOCKOPT_SET)
		rc = setsockopt(conn->tcp, option.level, option.name, option.value, size);
	else
		rc = ioctl(conn->tcp, (unsigned int)option.name, option.value);
	option.result = rc < 0 ? errno : 0;
	option.length = (uint16_t)(option.op != IPC_SOCKOPT_SET && rc == 0 ? size : 0);
	put_frame(fd, IPC_SOCKOPT, answer, ipc_encode_sockopt(&option, answer, sizeof(answer)), -1);
}

static void put_info(int fd, const struct conn *conn)
{
	struct ipc_info info = { .mode = IPC_MODE_TCP, .reason = (uint32_t)script->stayed };
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	if (conn) {
		info.error = conn->error;
		info.reason = conn->reason;
	}
	if (conn && conn->state == IPC_CONN_SMCR) {
		info.mode = IPC_MODE_SMCR;
		info.flags = IPC_INFO_BYTES;
		info.linkgroup = 3;
		info.link = 2;
		info.tx_bytes = 1ull << 40;
		info.rx_bytes = 7;
		info.rmbe_size = 65536;
		info.peer_rmbe_size = 32768;
		strcpy(info.rnic, "roce_1");
	} else if (conn && conn->state == IPC_CONN_RELAY) {
		info.flags = IPC_INFO_BYTES | IPC_INFO_RELAYED;
		info.peer_reason = (uint32_t)script->reason;
	} else if (conn && is_undecided(conn)) {
		info.mode = IPC_MODE_PENDING;
	}
	put_frame(fd, IPC_INFO, payload, ipc_encode_info(&info, payload, sizeof(payload)), -1);
}

/* @return true: the answer comes when the connection is decided */
static bool on_info(int fd, const uint8_t *payload, size_t len, int proof)
{
	struct ipc_info_request request;
	const struct conn *conn = conn_of(proof);
	script->info_requests++;
	if (ipc_decode_info_request(payload, len, &request) < 0 || (!conn && !script->stayed)) {
		put_error(fd, ENOENT);
		return false;
	}
	if (conn && is_undecided(conn) && request.flags & IPC_INFO_WAIT) {
		script->info_waits++;
		return true;
	}
	put_info(fd, conn);
	return false;
}

static void on_memory(int fd)
{
	const struct ipc_memory memory = { .outcome = (uint8_t)script->memory };
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	script->memory_requests++;
	if (script->memory)
		put_frame(fd, IPC_MEMORY, payload,
			  ipc_encode_memory(&memory, payload, sizeof(payload)), -1);
	else
		put_error(fd, EOPNOTSUPP);
}

static void answer(struct session *s, const struct ipc_header *header, const uint8_t *payload)
{
	/* Read the variable once: as soon as the program has seen a wrong greeting, the test may
	 * set the next answer. */
	const enum pre_daemon_answer how = (enum pre_daemon_answer)script->answer;
	uint8_t bytes[16];
	bool kept = false;
	struct ipc_hello hello = { IPC_VERSION, IPC_VERSION };
	if (how == ANSWER_OTHER_VERSION)
		hello = (struct ipc_hello){ IPC_VERSION + 1, IPC_VERSION + 1 };
	put_frame(s->fd, IPC_HELLO, bytes, ipc_encode_hello(&hello, bytes, sizeof(bytes)), -1);
	switch (header->type) {
	case IPC_HANDOVER:
		kept = on_handover(s->fd, payload, header->length, s->received, how);
		break;
	case IPC_STATUS_REQUEST: on_status(s->fd, payload, header->length, s->received); break;
	case IPC_SOCKOPT_REQUEST: on_sockopt(s->fd, payload, header->length, s->received); break;
	case IPC_INFO_REQUEST:
		s->waits = on_info(s->fd, payload, header->length, s->received);
		break;
	case IPC_MEMORY_REQUEST: on_memory(s->fd); break;
	default: put_error(s->fd, EOPNOTSUPP); break;
	}
	if (kept)
		s->received = -1;
}

static void end_session(struct session *s)
{
	if (s->received >= 0)
		close(s->received);
	close(s->fd);
	s->fd = -1;
}

/* A greeting and one request make a session. */
static void run_session(struct session *s)
{
	struct ipc_header hello, header;
	bool goes_on = receive(s);
	size_t first = frame_at(s, 0, &hello);
	size_t second = first ? frame_at(s, first, &header) : 0;
	if (second && hello.type == IPC_HELLO && !s->waits) {
		answer(s, &header, s->bytes + first + IPC_HEADER_LEN);
		goes_on = s->waits;
	}
	if (!goes_on)
		end_session(s);
}

static void end_wait(struct session *s)
{
	const struct conn *conn = conn_of(s->received);
	if (conn && is_undecided(conn))
		return;
	put_info(s->fd, conn);
	end_session(s);
}

static void take_session(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	script->sessions++;
	for (size_t i = 0; i < MAX_SESSIONS; i++)
		if (sessions[i].fd < 0) {
			sessions[i] = (struct session){ .fd = fd, .received = -1 };
			return;
		}
	die("too many sessions");
}

/* ---- rendezvous and relay */

static void drop_plug(struct conn *conn)
{
	char bytes[CHUNK];
	while (conn->plug > 1) {
		size_t part = conn->plug - 1 < CHUNK ? conn->plug - 1 : CHUNK;
		ssize_t n = recv(conn->end, bytes, part, MSG_DONTWAIT);
		if (n <= 0)
			return;
		conn->plug -= (size_t)n;
	}
}

/* The pair end stays known for requests of its status. When it is closed, the program sees a reset,
 * because bytes of the plug are unread. */
static void fail(struct conn *conn, int error)
{
	conn->state = IPC_CONN_FAILED;
	conn->error = error;
	close(conn->end);
	conn->end = -1;
}

static void check_rendezvous(struct conn *conn)
{
	struct pollfd p = { .fd = conn->tcp, .events = POLLOUT };
	int error = 0;
	socklen_t len = sizeof(error);
	if (script->hold || poll(&p, 1, 0) <= 0)
		return;
	getsockopt(conn->tcp, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error) {
		fail(conn, error);
		return;
	}
	conn->state = script->fallback ? IPC_CONN_RELAY : IPC_CONN_SMCR;
	conn->reason = script->fallback ? (uint32_t)script->reason : 0;
	drop_plug(conn);
}

/* Forward what the program wrote, but leave the last byte of it unread (the kept byte). */
static ssize_t read_program(struct conn *conn, char *bytes, size_t len)
{
	char peeked[CHUNK + 1];
	ssize_t n = recv(conn->end, peeked, len + 1 < sizeof(peeked) ? len + 1 : sizeof(peeked),
			 MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0)
		return n;
	if (n == 1) {
		struct pollfd p = { .fd = conn->end, .events = POLLRDHUP };
		poll(&p, 1, 0);
		errno = EAGAIN;
		return p.revents & (POLLRDHUP | POLLHUP) ? 0 : -1;
	}
	memcpy(bytes, peeked + 1, (size_t)n - 1);
	conn->passed = true;
	return recv(conn->end, peeked, (size_t)n - 1, MSG_DONTWAIT);
}

static void move(struct conn *conn, struct flow *flow, bool from_program)
{
	if (flow->from == flow->to && !flow->eof) {
		ssize_t n = from_program ? read_program(conn, flow->bytes, CHUNK)
					 : recv(conn->tcp, flow->bytes, CHUNK, MSG_DONTWAIT);
		flow->from = 0;
		flow->to = n > 0 ? (size_t)n : 0;
		flow->eof = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
	}
	int to = from_program ? conn->tcp : conn->end;
	if (flow->from < flow->to) {
		ssize_t n = send(to, flow->bytes + flow->from, flow->to - flow->from,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			flow->from += (size_t)n;
		conn->passed = true;
	} else if (flow->eof && !flow->eof_passed) {
		flow->eof_passed = shutdown(to, SHUT_WR) == 0 || errno == ENOTCONN;
	}
}

static void run_conn(struct conn *conn)
{
	char last;
	if (conn->state == IPC_CONN_CONNECTING)
		check_rendezvous(conn);
	if (conn->state != IPC_CONN_SMCR && conn->state != IPC_CONN_RELAY)
		return;
	move(conn, &conn->out, true);
	move(conn, &conn->in, false);
	if (conn->out.eof_passed && conn->in.eof_passed) {
		recv(conn->end, &last, 1, MSG_DONTWAIT);
		close_conn(conn);
	}
}

static void run(int listener, const int abstract[2])
{
	for (size_t i = 0; i < MAX_SESSIONS; i++)
		sessions[i].fd = -1;
	for (;;) {
		/* Poll in short rounds instead of tracking exactly what to wait for. */
		struct pollfd polls[3 + MAX_SESSIONS] = { { .fd = listener, .events = POLLIN },
							  { .fd = abstract[0], .events = POLLIN },
							  { .fd = abstract[1], .events = POLLIN } };
		bool busy = false;
		for (size_t i = 0; i < MAX_CONNS; i++) {
			if (conns[i].used)
				run_conn(&conns[i]);
			busy = busy || (conns[i].used && conns[i].state != IPC_CONN_FAILED);
		}
		for (size_t i = 0; i < MAX_SESSIONS; i++)
			if (sessions[i].fd >= 0 && sessions[i].waits)
				end_wait(&sessions[i]);
		for (size_t i = 0; i < MAX_SESSIONS; i++)
			polls[3 + i] = (struct pollfd){ .fd = sessions[i].fd, .events = POLLIN };
		if (poll(polls, 3 + MAX_SESSIONS, busy ? 1 : 1000) <= 0)
			continue;
		for (size_t i = 0; i < MAX_SESSIONS; i++)
			if (polls[3 + i].revents)
				run_session(&sessions[i]);
		if (polls[0].revents)
			take_session(listener);
		for (int i = 0; i < 2; i++)
			if (polls[1 + i].revents)
				take_session(abstract[i]);
	}
}

/* ---- start and stop */

static int listen_at(struct pre_daemon *daemon)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(daemon->dir, "/tmp/smcr-test-XXXXXX");
	if (!mkdtemp(daemon->dir))
		die("mkdtemp");
	snprintf(daemon->path, sizeof(daemon->path), "%s/sock", daemon->dir);
	strcpy(addr.sun_path, daemon->path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 64) < 0)
		die("listen");
	return fd;
}

static int listen_abstract(const char *path, uint64_t number)
{
	struct sockaddr_un addr;
	int len = ipc_abstract_address(path, number, &addr);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, (socklen_t)len) < 0 || listen(fd, 64) < 0)
		die("listen at the abstract address");
	return fd;
}

void pre_daemon_start(struct pre_daemon *ret_daemon)
{
	struct pre_daemon daemon;
	int listener = listen_at(&daemon),
	    abstract[] = { listen_abstract(daemon.path, 0),
			   listen_abstract(daemon.path, PRE_DAEMON_NUMBER) };
	pid_t parent = getpid();
	daemon.script = mmap(NULL, sizeof(*daemon.script), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (daemon.script == MAP_FAILED)
		die("mmap");
	fflush(NULL);
	daemon.pid = fork();
	if (daemon.pid < 0)
		die("fork");
	if (daemon.pid == 0) {
		self = daemon;
		memcpy(abstract_listeners, abstract, sizeof(abstract));
		script = daemon.script;
		signal(SIGTERM, on_end);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			on_end(SIGTERM);
		run(listener, abstract);
	}
	close(listener);
	close(abstract[0]);
	close(abstract[1]);
	/* Programs that tests start, and the library in the test itself, read this variable. */
	setenv(IPC_SOCKET_ENV, daemon.path, 1);
	pre_settings.daemon = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(pre_settings.daemon.sun_path, daemon.path);
	pre_settings.daemon_len = sizeof(pre_settings.daemon);
	pre_settings.daemon_abstract_len =
		(socklen_t)ipc_abstract_address(daemon.path, 0, &pre_settings.daemon_abstract);
	/* If an earlier test had no daemon, the library remembers that for a second. */
	while (!pre_daemon_usable(false))
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	*ret_daemon = daemon;
}

void pre_daemon_stop(struct pre_daemon *daemon)
{
	kill(daemon->pid, SIGTERM);
	waitpid(daemon->pid, NULL, 0);
	/* The daemon may have ended before it removed its socket. */
	unlink(daemon->path);
	rmdir(daemon->dir);
	munmap(daemon->script, sizeof(*daemon->script));
}
