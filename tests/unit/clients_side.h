/* SPDX-License-Identifier: MIT */
/**
 * @file clients_side.h
 * For tests/unit/test_clients*.c: runs daemon/clients in a process of its own and speaks to its
 * Unix socket. The engine below daemon/clients is the test's: it does what the test says and sends
 * every byte back. A test program includes this file once.
 */
#ifndef SMCRD_TESTS_CLIENTS_SIDE_H
#define SMCRD_TESTS_CLIENTS_SIDE_H

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <syslog.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/clients/clients.h"
#include "daemon/conns/conns.h"
#include "daemon/conns/view.h"
#include "daemon/rendezvous/gate.h"
#include "daemon/rendezvous/option.h"
#include "daemon/smcr/engine.h"
#include "daemon/smcr/view.h"
#include "proto/ipc/ipc.h"
#include "tests/lib/option.h"
#include "tests/lib/proves.h"
#include "tests/lib/scripted_engine.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* no program uses every function */

#define WAIT_MS 30000

/* ---- the daemon ---- */

struct daemon_side {
	pid_t pid;
	int commands; /* write end of a pipe; each byte is one of "efxrgtwsq", see on_command() */
	char dir[32];
	char path[64];
};

static struct conns *daemon_conns;
static struct clients *daemon_clients;

static void on_engine(void *ctx)
{
	(void)ctx;
}

static bool on_capable(void *ctx, const struct smcr_addr *peer)
{
	(void)ctx;
	(void)peer;
	return script->capable;
}

struct text {
	char *at;
	size_t left;
};

static bool add_line(void *arg, const struct conn_view *view)
{
	struct text *text = arg;
	int n = snprintf(text->at, text->left,
			 "%s state=%d ended=%d reason=%x/%x pid=%d tx=%llu rx=%llu port=%u\n",
			 conn_mode_name(view->mode), (int)view->state, view->ended, view->reason,
			 view->peer_reason, (int)view->pid, (unsigned long long)view->tx_bytes,
			 (unsigned long long)view->rx_bytes, view->peer.port);
	text->at += n;
	text->left -= (size_t)n;
	return true;
}

/* Requests that wait for their reply, and how many askers have given up waiting. */
static uint64_t held[64];
static unsigned int num_held, num_gone;
static unsigned int num_tried, num_wakes;

static void answer_held(void)
{
	while (num_held > 0)
		clients_control_reply(daemon_clients, held[--num_held], strdup("late"));
}

static void add_limit(void *arg, const struct limit_view *view)
{
	struct text *text = arg;
	int n = snprintf(text->at, text->left, "%s %u %s\n", view->everybody ? "all" : "user",
			 (unsigned int)view->uid, smcr_reason_name(view->reason));
	text->at += n;
	text->left -= (size_t)n;
}

static double least_rest = 1e9;

static double seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void be_slow(void)
{
	static double ended, took;
	double begun = seconds();
	if (took > 0 && (begun - ended) / took < least_rest)
		least_rest = (begun - ended) / took;
	while (seconds() < begun + 0.01)
		;
	ended = seconds();
	took = ended - begun;
}

/* The methods of this daemon: "conns" has a line for each connection, "limits" likewise. "long" has
 * 200 KB. "no" is refused. "later" is answered when "answer" comes. "held" tells how many requests
 * wait and how many of their askers are gone. "news" is tried again with each "wake" and answered
 * with the second one; "tried" tells how often. "groups" tells the asker's groups. "slow" keeps the
 * loop busy for 10 ms. "rest" tells the shortest time between two "slow" requests, as a multiple of
 * what the first of them took. "size" is that of the file that came along, -1 without one. Any
 * other request is its own answer. */
static int on_control(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		      char **ret_reply)
{
	(void)ctx;
	char *reply = calloc(1, 300000);
	struct text text = { reply, 300000 };
	*ret_reply = reply;
	memcpy(reply, json, len);
	if (strcmp(reply, "conns") == 0) {
		struct conns_place place = { 0 };
		conns_walk(daemon_conns, &place, add_line, &text);
	} else if (strcmp(reply, "limits") == 0) {
		*reply = '\0';
		limits_each(daemon_conns, add_limit, &text);
	} else if (strcmp(reply, "long") == 0) {
		memset(reply, 'x', 200000);
	} else if (strcmp(reply, "no") == 0) {
		snprintf(reply, 100, "uid %d may not", (int)asker->cred.uid);
		return -EPERM;
	} else if (strcmp(reply, "later") == 0) {
		held[num_held++] = asker->request;
		return -EINPROGRESS;
	} else if (strcmp(reply, "answer") == 0) {
		answer_held();
	} else if (strncmp(reply, "news", 4) == 0) {
		num_tried++;
		return num_wakes < 2 ? -EAGAIN : 0;
	} else if (strcmp(reply, "wake") == 0) {
		num_wakes++;
		clients_control_wake(daemon_clients);
	} else if (strcmp(reply, "tried") == 0) {
		snprintf(reply, 100, "%u", num_tried);
	} else if (strcmp(reply, "held") == 0) {
		snprintf(reply, 100, "%u %u", num_held, num_gone);
	} else if (strcmp(reply, "slow") == 0) {
		be_slow();
	} else if (strcmp(reply, "rest") == 0) {
		snprintf(reply, 100, "%.1f", least_rest);
	} else if (strcmp(reply, "size") == 0) {
		struct stat st = { .st_size = -1 };
		fstat(asker->fd, &st);
		snprintf(reply, 100, "%ld", (long)st.st_size);
	} else if (strcmp(reply, "groups") == 0) {
		for (size_t i = 0; i < asker->num_groups; i++)
			sprintf(reply + strlen(reply), " %u", (unsigned int)asker->groups[i]);
	}
	return 0;
}

static void on_gone(void *ctx, uint64_t request)
{
	(void)ctx;
	num_gone++;
	for (unsigned int i = 0; i < num_held; i++)
		if (held[i] == request)
			held[i] = held[--num_held];
}

static bool is_administrator(void *ctx, const struct clients_asker *asker)
{
	(void)ctx;
	return asker->cred.uid == geteuid() && script->administrator;
}

static void on_log(void *ctx, int priority, const char *line)
{
	(void)ctx;
	if (priority == LOG_WARNING) {
		snprintf(script->warning, sizeof(script->warning), "%s", line);
		script->warnings++;
	}
	if (getenv("CLIENTS_LOG"))
		fprintf(stderr, "# %s\n", line);
}

/* The peer takes a tenth of a ring. */
static void fake_take(struct smcr_conn *conn)
{
	uint64_t n = conn->tx_head - conn->tx_tail;
	conn->tx_tail += n < RING / 10 ? n : RING / 10;
	fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_WRITABLE });
}

/* e, f, x: the outcome of all rendezvous under way. r: reset the established connections. g: send
 * back what was written. t: the peer takes a part of it and sends nothing back. w: another
 * configuration, with a wait of connect() of 20 ms. s: stop in good order. q: free everything and
 * exit. */
static void on_command(evutil_socket_t fd, short what, void *arg)
{
	const struct conns_config shorter = { .limits = { .connect_wait_ms = 20 } };
	char command;
	(void)what;
	if (read(fd, &command, 1) != 1)
		_exit(0); /* the test process has ended */
	struct smcr_conn *conn = fake_conns, *next;
	for (; conn; conn = next) {
		next = conn->next;
		if (command == 'e' && !conn->established)
			fake_settle(conn, OUTCOME_ESTABLISHED);
		else if (command == 'f' && !conn->established)
			fake_settle(conn, OUTCOME_FALLBACK);
		else if (command == 'x' && !conn->established)
			fake_settle(conn, OUTCOME_FAILED);
		else if (command == 'r' && conn->established)
			smcr_conn_tcp_event(conn, SMCR_TCP_RESET);
		else if (command == 'g')
			fake_echo(conn);
		else if (command == 't')
			fake_take(conn);
	}
	if (command == 'w')
		conns_configure(daemon_conns, &shorter);
	if (command == 's') {
		clients_stop(daemon_clients);
		conns_stop(daemon_conns);
	}
	if (command == 'q')
		event_base_loopbreak(arg);
}

static struct rdv_option *daemon_option;
static bool with_option; /* the daemon opens the TCP option; needs root and a network namespace */
static struct rdv_gate *daemon_gate;
static bool with_gate; /* and keeps users from sending CLC messages themselves */

/* What a test may set; zero in a field means the default. */
struct side_limits {
	struct conns_limits conns;
	struct clients_limits clients;
	rlim_t files; /* how many the daemon may open */
};

/* What a test wants to be told besides; NULL: nothing. Called in the daemon's process. */
static void (*add_callbacks)(struct conns_callbacks *callbacks);

static void open_rooms(struct event_base *base, const char *path, const struct side_limits *limits)
{
	char text[256];
	struct conns_config conns_config = {
		.base = base,
		.shared_memory = !script->no_sharing,
		.busy_poll_us = 50,
		.callbacks = { .engine_enter = on_engine,
			       .engine_leave = on_engine,
			       .assume_capable = on_capable,
			       .log = on_log },
	};
	struct clients_config config = {
		.base = base,
		.socket_path = path,
		.callbacks = { .control = on_control,
			       .administrator = is_administrator,
			       .control_gone = on_gone },
	};
	if (add_callbacks)
		add_callbacks(&conns_config.callbacks);
	if (limits) {
		conns_config.limits = limits->conns;
		config.limits = limits->clients;
	}
	if (limits && limits->files) {
		const struct rlimit files = { limits->files, limits->files };
		if (setrlimit(RLIMIT_NOFILE, &files) < 0)
			_exit(1);
	}
	/* connect() waits until the test gives the outcome */
	if (conns_config.limits.connect_wait_ms == 0)
		conns_config.limits.connect_wait_ms = 6 * WAIT_MS;
	if (with_option && option_open(&daemon_option, text) < 0) {
		fprintf(stderr, "# %s\n", text);
		_exit(1);
	}
	int cgroup = with_gate ? attach_root() : -1;
	if (with_gate && rdv_gate_open(cgroup, daemon_option, &daemon_gate, text) < 0) {
		fprintf(stderr, "# %s\n", text);
		_exit(1);
	}
	rdv_gate_guard(daemon_gate, with_gate);
	if (cgroup >= 0)
		close(cgroup);
	conns_config.option = config.option = daemon_option;
	if (conns_new(&conns_config, &daemon_conns) < 0)
		_exit(1);
	config.conns = daemon_conns;
	if (clients_new(&config, &daemon_clients, text, sizeof(text)) < 0) {
		fprintf(stderr, "# clients_new: %s\n", text);
		_exit(1);
	}
}

static void run_daemon(const char *path, const struct side_limits *limits, int commands, int ready)
{
	struct event_base *base = event_base_new();
	open_rooms(base, path, limits);
	struct event *event = event_new(base, commands, EV_READ | EV_PERSIST, on_command, base);
	event_add(event, NULL);
	if (write(ready, "r", 1) != 1)
		_exit(1);
	event_base_dispatch(base);
	while (fake_conns)
		fake_free(fake_conns);
	clients_free(daemon_clients);
	conns_free(daemon_conns);
	rdv_gate_close(daemon_gate);
	rdv_option_close(daemon_option);
	event_free(event);
	event_base_free(base);
	libevent_global_shutdown();
	exit(0); /* the leak checker runs at exit */
}

static bool no_sharing; /* daemons that are started from now on do not share memory */

static void daemon_start_limited(struct daemon_side *daemon, const struct side_limits *limits)
{
	int commands[2], ready[2];
	char byte;
	if (!script)
		script = mmap(NULL, sizeof(*script), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(script, 0, sizeof(*script));
	script->capable = 1;
	script->no_sharing = no_sharing;
	snprintf(daemon->dir, sizeof(daemon->dir), "/tmp/clients.XXXXXX");
	assert_non_null(mkdtemp(daemon->dir));
	snprintf(daemon->path, sizeof(daemon->path), "%s/sock", daemon->dir);
	assert_int_equal(pipe2(commands, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	fflush(NULL);
	daemon->pid = fork();
	assert_true(daemon->pid >= 0);
	if (daemon->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The daemon shall hold no descriptor of the test. */
		for (int fd = 3; fd < 256; fd++)
			if (fd != commands[0] && fd != ready[1])
				close(fd);
		run_daemon(daemon->path, limits, commands[0], ready[1]);
	}
	close(commands[0]);
	close(ready[1]);
	daemon->commands = commands[1];
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
}

static void daemon_start(struct daemon_side *daemon)
{
	daemon_start_limited(daemon, NULL);
}

static void daemon_command(struct daemon_side *daemon, char command)
{
	assert_int_equal(write(daemon->commands, &command, 1), 1);
}

/* The daemon was told to end; it must not have leaked or crashed. */
static void daemon_ends(struct daemon_side *daemon)
{
	int status;
	assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(daemon->commands);
	unlink(daemon->path);
	rmdir(daemon->dir);
}

/* Ends the daemon in good order. */
static void daemon_stop(struct daemon_side *daemon)
{
	daemon_command(daemon, 'q');
	daemon_ends(daemon);
}

static void daemon_kill(struct daemon_side *daemon)
{
	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, NULL, 0);
	close(daemon->commands);
	unlink(daemon->path);
	rmdir(daemon->dir);
}

/* ---- waiting ---- */

static bool wait_bits(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	return poll(&pfd, 1, WAIT_MS) == 1;
}

/* Wait until a counter that another process moves has a value. */
#define WAIT_COUNT(counter, value)                                                                 \
	do {                                                                                       \
		int waited_ = 0;                                                                   \
		while ((counter) != (value) && waited_++ < WAIT_MS)                                \
			poll(NULL, 0, 1);                                                          \
		assert_int_equal((counter), (value));                                              \
	} while (0)

/* ---- the other side of the Unix socket ---- */

struct frame {
	uint8_t type;
	size_t len;
	uint8_t *payload;
	int fd;
};

static int session_connect(const struct daemon_side *daemon)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = WAIT_MS / 1000 };
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", daemon->path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

static void send_with_fd(int session, const void *data, size_t len, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fd >= 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	}
	assert_int_equal(sendmsg(session, &msg, MSG_NOSIGNAL), len);
}

static void send_frame(int session, uint8_t type, const void *payload, size_t len, int fd)
{
	uint8_t buf[IPC_HEADER_LEN + 2 * IPC_MAX_CLIENT_LEN];
	assert_int_equal(ipc_encode_header(type, (uint32_t)len, buf, sizeof(buf)), IPC_HEADER_LEN);
	memcpy(buf + IPC_HEADER_LEN, payload, len);
	send_with_fd(session, buf, IPC_HEADER_LEN + len, fd);
}

/* @return false at end of file */
static bool receive_bytes(int session, void *buf, size_t len, int *ret_fd)
{
	for (size_t at = 0; at < len;) {
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec iov = { (uint8_t *)buf + at, len - at };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(session, &msg, MSG_CMSG_CLOEXEC);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return false;
		assert_true(n > 0);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		if (cmsg)
			memcpy(ret_fd, CMSG_DATA(cmsg), sizeof(*ret_fd));
		at += (size_t)n;
	}
	return true;
}

/* @return false at end of file. The payload is to be freed. */
static bool receive_frame(int session, struct frame *ret_frame)
{
	uint8_t header[IPC_HEADER_LEN];
	struct ipc_header decoded;
	struct frame frame = { .fd = -1 };
	if (!receive_bytes(session, header, sizeof(header), &frame.fd))
		return false;
	assert_int_equal(ipc_decode_header(header, sizeof(header), &decoded), 0);
	frame.type = decoded.type;
	frame.len = decoded.length;
	frame.payload = calloc(1, frame.len + 1);
	assert_true(receive_bytes(session, frame.payload, frame.len, &frame.fd));
	*ret_frame = frame;
	return true;
}

static void send_hello(int session)
{
	const uint8_t hello[] = { 0, 1, 0, 1 };
	send_frame(session, IPC_HELLO, hello, sizeof(hello), -1);
}

static int session_open(const struct daemon_side *daemon)
{
	struct frame frame;
	int session = session_connect(daemon);
	send_hello(session);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_HELLO);
	free(frame.payload);
	return session;
}

/* @return positive errno of the ERROR frame that must come */
static int receive_error(int session)
{
	struct frame frame;
	struct ipc_error error;
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_ERROR);
	assert_int_equal(ipc_decode_error(frame.payload, frame.len, &error), 0);
	free(frame.payload);
	return error.error;
}

/* The reply of a tool's request, to be freed. */
static char *control(const struct daemon_side *daemon, const char *request)
{
	struct frame frame;
	int session = session_open(daemon);
	send_frame(session, IPC_CONTROL, request, strlen(request), -1);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_CONTROL_REPLY);
	close(session);
	return (char *)frame.payload;
}

/* Wait until `text` stands in the list of connections. */
static void wait_for_line(const struct daemon_side *daemon, const char *text)
{
	for (int i = 0; i < 1000; i++) {
		char *list = control(daemon, "conns");
		bool found = strstr(list, text) != NULL;
		if (!found && i == 999)
			fail_msg("no \"%s\" in:\n%s", text, list);
		free(list);
		if (found)
			return;
		poll(NULL, 0, 5);
	}
}

/* ---- handing over ---- */

static void ask_handover(int session, enum ipc_handover_kind kind, uint8_t flags,
			 const struct sockaddr_in *peer, int tcp)
{
	struct ipc_handover msg = { .kind = (uint8_t)kind, .flags = flags };
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	if (peer)
		msg.peer.in = *peer;
	int len = ipc_encode_handover(&msg, buf, sizeof(buf));
	assert_true(len > 0);
	send_frame(session, IPC_HANDOVER, buf, (size_t)len, tcp);
}

static struct ipc_result receive_result(int session, int *ret_pair)
{
	struct frame frame;
	struct ipc_result result;
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_RESULT);
	assert_int_equal(ipc_decode_result(frame.payload, frame.len, &result), 0);
	assert_int_equal(frame.fd >= 0,
			 result.outcome == IPC_OUTCOME_PAIR || result.outcome == IPC_OUTCOME_OPEN);
	free(frame.payload);
	*ret_pair = frame.fd;
	return result;
}

static struct ipc_status ask_status(const struct daemon_side *daemon, int proof, uint8_t flags,
				    int *ret_tcp)
{
	struct frame frame;
	struct ipc_status status;
	int session = session_open(daemon);
	send_frame(session, IPC_STATUS_REQUEST, &flags, 1, proof);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_STATUS);
	assert_int_equal(ipc_decode_status(frame.payload, frame.len, &status), 0);
	assert_int_equal(frame.fd >= 0, !!(status.flags & IPC_STATUS_TAKE_BACK));
	free(frame.payload);
	close(session);
	*ret_tcp = frame.fd;
	return status;
}

/* A TCP connection on loopback: `near` is the program's socket, `far` the peer's. */
struct tcp {
	int near, far;
	struct sockaddr_in peer;
};

static int listen_tcp_at(in_addr_t at, struct sockaddr_in *ret_addr)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(at) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	*ret_addr = addr;
	return fd;
}

static int listen_tcp(struct sockaddr_in *ret_addr)
{
	return listen_tcp_at(INADDR_LOOPBACK, ret_addr);
}

static void limit_waiting(int fd)
{
	struct timeval limit = { .tv_sec = WAIT_MS / 1000 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* @param at  address of the peer, host byte order */
static struct tcp connect_tcp_at(in_addr_t at)
{
	struct tcp tcp;
	int listener = listen_tcp_at(at, &tcp.peer);
	tcp.near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(tcp.near, (struct sockaddr *)&tcp.peer, sizeof(tcp.peer)), 0);
	tcp.far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(tcp.far >= 0);
	limit_waiting(tcp.near);
	limit_waiting(tcp.far);
	close(listener);
	return tcp;
}

static struct tcp connect_tcp(void)
{
	return connect_tcp_at(INADDR_LOOPBACK);
}

static void make_blocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	limit_waiting(fd);
}

/* Hands `tcp->near` over as the kind says and puts the pair end in its place. */
static int hand_over(const struct daemon_side *daemon, struct tcp *tcp, enum ipc_handover_kind kind)
{
	int pair, session = session_open(daemon);
	ask_handover(session, kind, 0, kind == IPC_HANDOVER_CONNECTING ? &tcp->peer : NULL,
		     tcp->near);
	struct ipc_result result = receive_result(session, &pair);
	assert_int_equal(result.outcome, IPC_OUTCOME_PAIR);
	close(tcp->near);
	tcp->near = -1;
	close(session);
	make_blocking(pair);
	return pair;
}

/* ---- bytes ---- */

static uint8_t pattern(size_t at)
{
	return (uint8_t)((at * 2654435761u) >> 13);
}

/* A process that writes `total` bytes of the pattern and then half-closes. */
static pid_t start_sender(int fd, int close_this, size_t total)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (close_this >= 0)
		close(close_this);
	static uint8_t buf[70000];
	for (size_t at = 0; at < total;) {
		size_t len = total - at < sizeof(buf) ? total - at : 1 + at % sizeof(buf);
		if (len > total - at)
			len = total - at;
		for (size_t i = 0; i < len; i++)
			buf[i] = pattern(at + i);
		for (size_t done = 0; done < len;) {
			ssize_t n = send(fd, buf + done, len - done, MSG_NOSIGNAL);
			if (n < 0)
				_exit(1);
			done += (size_t)n;
		}
		at += len;
	}
	shutdown(fd, SHUT_WR);
	_exit(0);
}

/* Reads until end of file: exactly `total` bytes of the pattern come. */
static void expect_pattern(int fd, size_t total)
{
	static uint8_t buf[50000];
	size_t at = 0;
	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		assert_true(n >= 0);
		if (n == 0)
			break;
		for (ssize_t i = 0; i < n; i++, at++)
			if (buf[i] != pattern(at))
				fail_msg("byte %zu is wrong", at);
	}
	assert_int_equal(at, total);
}

static void expect_child_ok(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_bytes(int fd, const char *text)
{
	char buf[64];
	size_t len = strlen(text), at = 0;
	while (at < len) {
		ssize_t n = recv(fd, buf + at, len - at, 0);
		assert_true(n > 0);
		at += (size_t)n;
	}
	assert_memory_equal(buf, text, len);
}

static void expect_end(int fd)
{
	char byte;
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void expect_reset(int fd)
{
	char byte;
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
}

#endif
