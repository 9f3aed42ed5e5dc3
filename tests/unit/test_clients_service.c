/* SPDX-License-Identifier: MIT */
/* The Unix socket: greeting, frames, limits, proofs, socket options, two daemons at one path. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include <linux/sockios.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* ---- frames ---- */

static void a_session_starts_with_hello(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const uint8_t future[] = { 0, 7, 0, 9 };
	struct frame frame;
	daemon_start(&daemon);
	int session = session_connect(&daemon);
	send_frame(session, IPC_CONTROL, "conns", 5, -1);
	assert_int_equal(receive_error(session), EPROTO);
	assert_false(receive_frame(session, &frame));
	close(session);

	session = session_connect(&daemon);
	send_frame(session, IPC_HELLO, future, sizeof(future), -1);
	assert_int_equal(receive_error(session), EPROTONOSUPPORT);
	assert_false(receive_frame(session, &frame));
	close(session);
	daemon_stop(&daemon);
}

static void unknown_types_get_an_error_and_garbage_the_end(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	send_frame(session, 99, "payload", 7, -1);
	assert_int_equal(receive_error(session), EOPNOTSUPP);
	send_frame(session, IPC_CONTROL, "echo", 4, -1); /* the session still serves */
	assert_true(receive_frame(session, &frame));
	assert_memory_equal(frame.payload, "echo", 4);
	free(frame.payload);
	send_with_fd(session, "GET / HTTP/1.1\r\n", 16, -1);
	assert_int_equal(receive_error(session), EPROTO);
	assert_false(receive_frame(session, &frame));
	close(session);

	session = session_open(&daemon);
	send_frame(session, IPC_HANDOVER, "xyz", 3, -1);
	assert_int_equal(receive_error(session), EPROTO);
	close(session);
	session = session_open(&daemon);
	send_frame(session, IPC_STATUS_REQUEST, "\0", 1, -1);
	assert_int_equal(receive_error(session), EBADF); /* the frame came without a descriptor */
	close(session);
	daemon_stop(&daemon);
}

static void requests_may_come_in_one_piece_or_byte_by_byte(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	uint8_t buf[64];
	size_t len = 0;
	const uint8_t hello[] = { 0, 1, 0, 1 };
	len += (size_t)ipc_encode_header(IPC_HELLO, 4, buf, 8);
	memcpy(buf + len, hello, 4);
	len += 4;
	for (int i = 0; i < 3; i++) {
		len += (size_t)ipc_encode_header(IPC_CONTROL, 4, buf + len, 8);
		memcpy(buf + len, "ech0", 4);
		buf[len + 3] = (uint8_t)('0' + i);
		len += 4;
	}
	daemon_start(&daemon);
	for (int single = 0; single < 2; single++) {
		int session = session_connect(&daemon);
		for (size_t at = 0; at < len; at += single ? 1 : len)
			send_with_fd(session, buf + at, single ? 1 : len, -1);
		assert_true(receive_frame(session, &frame));
		assert_int_equal(frame.type, IPC_HELLO);
		free(frame.payload);
		for (int i = 0; i < 3; i++) {
			assert_true(receive_frame(session, &frame));
			assert_int_equal(frame.payload[3], '0' + i);
			free(frame.payload);
		}
		close(session);
	}
	daemon_stop(&daemon);
}

static size_t put_frame(uint8_t type, const void *payload, size_t len, uint8_t *buf)
{
	assert_int_equal(ipc_encode_header(type, (uint32_t)len, buf, IPC_HEADER_LEN),
			 IPC_HEADER_LEN);
	memcpy(buf + IPC_HEADER_LEN, payload, len);
	return IPC_HEADER_LEN + len;
}

/* The program wakes up once for both replies. The descriptor belongs to the request. */
static void greeting_and_request_in_one_send_are_answered_in_one(void **state)
{
	(void)state;
	struct daemon_side daemon;
	uint8_t buf[128], *error = buf + IPC_HEADER_LEN + 4;
	int pipes[2];
	daemon_start(&daemon);
	int session = session_connect(&daemon);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	size_t len = put_frame(IPC_HELLO, "\0\1\0\1", 4, buf);
	len += put_frame(IPC_INFO_REQUEST, "\0", 1, buf + len);
	send_with_fd(session, buf, len, pipes[0]);
	ssize_t got = recv(session, buf, sizeof(buf), 0);
	assert_true(got > 2 * IPC_HEADER_LEN + 4);
	assert_int_equal(buf[3], IPC_HELLO);
	assert_int_equal(error[3], IPC_ERROR);
	struct ipc_error decoded;
	assert_int_equal(ipc_decode_error(error + IPC_HEADER_LEN,
					  (size_t)got - 2 * IPC_HEADER_LEN - 4, &decoded),
			 0);
	/* EACCES for the pipe; EBADF would say that the request got no descriptor */
	assert_int_equal(decoded.error, EACCES);

	/* The descriptor belongs to the last request, and is closed with it. */
	len = put_frame(IPC_INFO_REQUEST, "\0", 1, buf);
	len += put_frame(IPC_INFO_REQUEST, "\0", 1, buf + len);
	send_with_fd(session, buf, len, pipes[0]);
	assert_int_equal(receive_error(session), EBADF);
	assert_int_equal(receive_error(session), EACCES);
	send_frame(session, IPC_INFO_REQUEST, "\0", 1, -1);
	assert_int_equal(receive_error(session), EBADF);

	/* A program that sends half a request may wait for the greeting before it sends the
	 * rest. */
	int slow = session_connect(&daemon);
	struct frame frame;
	len = put_frame(IPC_HELLO, "\0\1\0\1", 4, buf);
	len += put_frame(IPC_CONTROL, "echo", 4, buf + len);
	send_with_fd(slow, buf, len - 2, -1);
	assert_true(receive_frame(slow, &frame));
	assert_int_equal(frame.type, IPC_HELLO);
	free(frame.payload);
	send_with_fd(slow, buf + len - 2, 2, -1);
	assert_true(receive_frame(slow, &frame));
	assert_memory_equal(frame.payload, "echo", 4);
	free(frame.payload);
	close(slow);
	close(session);
	close(pipes[0]);
	close(pipes[1]);
	daemon_stop(&daemon);
}

static void half_sent_frames_and_silent_sessions_time_out(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .clients = { .frame_timeout_ms = 2000 } };
	struct frame frame;
	uint8_t header[8];
	daemon_start_limited(&daemon, &limits);
	int silent = session_connect(&daemon), half = session_open(&daemon),
	    payload = session_open(&daemon), idle = session_open(&daemon);
	ipc_encode_header(IPC_CONTROL, 4, header, sizeof(header));
	send_with_fd(half, header, 5, -1);
	send_with_fd(payload, header, 8, -1);
	assert_false(receive_frame(silent, &frame));
	assert_false(receive_frame(half, &frame));
	assert_false(receive_frame(payload, &frame));
	send_frame(idle, IPC_CONTROL, "echo", 4, -1); /* no limit of time between requests */
	assert_true(receive_frame(idle, &frame));
	free(frame.payload);
	close(silent);
	close(half);
	close(payload);
	close(idle);
	daemon_stop(&daemon);
}

static void control_requests_and_replies_of_any_size(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	static uint8_t request[100000];
	const struct side_limits limits = { .clients = { .control_request_bytes = 256u << 10 } };
	daemon_start_limited(&daemon, &limits);
	char *reply = control(&daemon, "long");
	assert_int_equal(strlen(reply), 200000);
	free(reply);

	int session = session_open(&daemon);
	memset(request, 'y', sizeof(request));
	ipc_encode_header(IPC_CONTROL, sizeof(request) - 8, request, 8);
	send_with_fd(session, request, sizeof(request), -1);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.len, sizeof(request) - 8);
	free(frame.payload);
	send_frame(session, IPC_CONTROL, "no", 2, -1);
	assert_int_equal(receive_error(session), EPERM);
	ipc_encode_header(IPC_CONTROL, 1u << 20, request, 8); /* above the limit */
	send_with_fd(session, request, 8, -1);
	assert_int_equal(receive_error(session), EMSGSIZE);
	close(session);
	daemon_stop(&daemon);
}

static void a_client_that_does_not_read_blocks_nobody(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .clients = { .frame_timeout_ms = 3000 } };
	struct pollfd pfd = { .events = POLLOUT };
	char byte;
	daemon_start_limited(&daemon, &limits);
	int slow = session_open(&daemon);
	fcntl(slow, F_SETFL, O_NONBLOCK);
	pfd.fd = slow;
	uint8_t frame[12];
	ipc_encode_header(IPC_CONTROL, 4, frame, sizeof(frame));
	memcpy(frame + 8, "long", 4);
	/* Requests until the daemon takes no more: the replies that it keeps are bounded. */
	size_t sent = 0;
	while (poll(&pfd, 1, 100) == 1 && !(pfd.revents & (POLLHUP | POLLERR)) && sent < 1u << 20) {
		ssize_t n = send(slow, frame, sizeof(frame), MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
	}
	assert_true(sent < 1u << 20);
	char *reply = control(&daemon, "long");
	free(reply);
	/* In the end the daemon closes the session. */
	pfd.events = 0;
	assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
	while (recv(slow, &byte, 1, 0) == 1)
		;
	close(slow);
	daemon_stop(&daemon);
}

static void a_client_that_never_stops_asking_blocks_nobody(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int session = session_open(&daemon);
		pid_t reader = fork();
		if (reader == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			struct frame frame;
			while (receive_frame(session, &frame))
				free(frame.payload);
			_exit(0);
		}
		for (;;)
			send_frame(session, IPC_CONTROL, "echo", 4, -1);
	}
	for (int i = 0; i < 20; i++)
		free(control(&daemon, "echo"));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	daemon_stop(&daemon);
}

/* ---- descriptors ---- */

/* The write end of a pipe tells when the last copy of the read end is closed. */
static int fresh_pipe(int *ret_write)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*ret_write = ends[1];
	return ends[0];
}

static void descriptors_nobody_wants_are_closed(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	int write_end;
	daemon_start(&daemon);

	/* A descriptor comes with a request that takes none. */
	int read_end = fresh_pipe(&write_end);
	int session = session_open(&daemon);
	send_frame(session, IPC_CONTROL, "echo", 4, write_end);
	close(write_end);
	assert_true(receive_frame(session, &frame));
	free(frame.payload);
	assert_true(wait_bits(read_end, 0)); /* POLLHUP */
	close(read_end);

	/* A descriptor that is no TCP socket is handed over. */
	read_end = fresh_pipe(&write_end);
	ask_handover(session, IPC_HANDOVER_ACCEPTED, 0, NULL, write_end);
	close(write_end);
	assert_int_equal(receive_error(session), ENOTSOCK);
	assert_true(wait_bits(read_end, 0));
	close(read_end);

	/* Two descriptors come at once. */
	read_end = fresh_pipe(&write_end);
	uint8_t header[8];
	ipc_encode_header(IPC_CONTROL, 4, header, sizeof(header));
	send_with_fd(session, header, 4, write_end);
	send_with_fd(session, header + 4, 4, write_end);
	close(write_end);
	assert_int_equal(receive_error(session), EPROTO);
	assert_true(wait_bits(read_end, 0));
	close(read_end);
	close(session);
	daemon_stop(&daemon);
}

static void a_close_that_takes_its_time_blocks_nobody(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	const struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	static char block[100000];
	uint8_t request[12];
	struct timespec before, after;
	daemon_start(&daemon);
	/* The peer does not read, so that the last close() waits for a minute (SO_LINGER). */
	struct tcp tcp = connect_tcp();
	struct pollfd pfd = { .fd = tcp.near, .events = POLLOUT };
	while (poll(&pfd, 1, 200) == 1)
		assert_true(send(tcp.near, block, sizeof(block), MSG_DONTWAIT) > 0);
	setsockopt(tcp.near, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	int session = session_open(&daemon);
	ipc_encode_header(IPC_CONTROL, 4, request, sizeof(request));
	memcpy(request + IPC_HEADER_LEN, "echo", 4);
	send_with_fd(session, request, 6, tcp.near);
	close(tcp.near); /* the daemon's close() will be the last */
	clock_gettime(CLOCK_MONOTONIC, &before);
	send_with_fd(session, request + 6, 6, -1);
	assert_true(receive_frame(session, &frame));
	free(frame.payload);
	free(control(&daemon, "echo"));
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true(after.tv_sec - before.tv_sec < 30);
	close(session);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void sockets_that_are_no_tcp_stay_with_the_program(void **state)
{
	(void)state;
	struct daemon_side daemon;
	int pair;
	daemon_start(&daemon);
	int session = session_open(&daemon);
	int udp = socket(AF_INET, SOCK_DGRAM, 0), unconnected = socket(AF_INET, SOCK_STREAM, 0);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, udp);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, unconnected);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);

	struct tcp tcp = connect_tcp();
	assert_int_equal(send(tcp.near, "used", 4, 0), 4);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
	assert_int_equal(script->starts, 0);
	close(tcp.near);
	close(tcp.far);
	close(udp);
	close(unconnected);
	close(session);
	daemon_stop(&daemon);
}

static void a_status_needs_the_descriptor_itself(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = session_open(&daemon), forged[2], tcp_back;

	send_frame(session, IPC_STATUS_REQUEST, "\0", 1, tcp.far);
	assert_int_equal(receive_error(session), EACCES);

	/* Another pair end with the same name, which is possible in another network namespace. */
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	assert_int_equal(getsockname(pair, (struct sockaddr *)&addr, &len), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct frame frame;
		if (unshare(CLONE_NEWNET) < 0)
			_exit(77);
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, forged) < 0 ||
		    bind(forged[1], (struct sockaddr *)&addr, len) < 0)
			_exit(1);
		send_frame(session, IPC_STATUS_REQUEST, "\0", 1, forged[1]);
		_exit(receive_frame(session, &frame) && frame.type == IPC_ERROR ? 0 : 2);
	}
	int status;
	waitpid(child, &status, 0);
	if (WEXITSTATUS(status) == 77)
		print_message("# no network namespaces here: forged name not tried\n");
	else
		assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(ask_status(&daemon, pair, 0, &tcp_back).state, IPC_CONN_CONNECTING);
	close(session);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* ---- socket options ---- */

static struct ipc_sockopt sockopt(int session, int proof, const struct ipc_sockopt *request)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_sockopt answer;
	struct frame frame;
	int len = ipc_encode_sockopt(request, buf, sizeof(buf));
	send_frame(session, IPC_SOCKOPT_REQUEST, buf, (size_t)len, proof);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_SOCKOPT);
	assert_int_equal(ipc_decode_sockopt(frame.payload, frame.len, &answer), 0);
	free(frame.payload);
	return answer;
}

static int set_int(int session, int proof, int level, int name, int value)
{
	struct ipc_sockopt request = {
		.op = IPC_SOCKOPT_SET, .level = level, .name = name, .length = sizeof(value)
	};
	memcpy(request.value, &value, sizeof(value));
	return sockopt(session, proof, &request).result;
}

static int get_int(int session, int proof, int level, int name)
{
	struct ipc_sockopt request = {
		.op = IPC_SOCKOPT_GET, .level = level, .name = name, .length = sizeof(int)
	};
	struct ipc_sockopt answer = sockopt(session, proof, &request);
	int value;
	assert_int_equal(answer.result, 0);
	assert_int_equal(answer.length, sizeof(value));
	memcpy(&value, answer.value, sizeof(value));
	return value;
}

static void options_act_on_the_tcp_socket(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int size = 100000, send_size = 70000;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	setsockopt(tcp.near, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(tcp.near, SOL_SOCKET, SO_SNDBUF, &send_size, sizeof(send_size));
	int copy = dup(tcp.near);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = session_open(&daemon);
	assert_int_equal(script->last_rcvbuf, size);      /* RMB-6 */
	assert_int_equal(script->last_sndbuf, send_size); /* SOCK-2 */

	assert_int_equal(get_int(session, pair, IPPROTO_TCP, TCP_NODELAY), 0);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_NODELAY, 1), 0);
	assert_int_equal(get_int(session, pair, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(set_int(session, pair, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE, 77), 0);
	socklen_t len = sizeof(size);
	assert_int_equal(getsockopt(copy, IPPROTO_TCP, TCP_KEEPIDLE, &size, &len), 0);
	assert_int_equal(size, 77);
	/* links are probed at this interval (TEST-3) */
	assert_int_equal(script->last_keepalive, 77000000);
	assert_int_equal(set_int(session, pair, SOL_SOCKET, SO_KEEPALIVE, 0), 0);
	assert_int_equal(script->last_keepalive, 0);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE, -1), EINVAL);

	/* Options that would use the daemon's privileges or memory are refused. */
	assert_int_equal(set_int(session, pair, SOL_SOCKET, SO_MARK, 1), EPERM);
	assert_int_equal(set_int(session, pair, SOL_SOCKET, SO_ATTACH_FILTER, 1), ENOPROTOOPT);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_REPAIR, 1), ENOPROTOOPT);
	/* An option that needs no privileges is set. */
	assert_int_equal(set_int(session, pair, SOL_SOCKET, SO_PRIORITY, 6), 0);
	close(session);
	close(copy);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("SOCK-2 SOCK-3 SOCK-4");
}

/* Options that a program must not set on a pair end (lib/smcr/options.c) can still be read, and are
 * off. */
static void refused_options_can_be_read(void **state)
{
	(void)state;
	static const struct {
		int level, name;
	} off[] = {
		{ SOL_SOCKET, SO_TIMESTAMPING }, { SOL_SOCKET, SO_TXTIME },
		{ SOL_SOCKET, SO_ZEROCOPY },     { IPPROTO_TCP, TCP_INQ },
		{ IPPROTO_TCP, TCP_REPAIR },
	};
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = session_open(&daemon);
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		TRIES("option %d of level %d", off[i].name, off[i].level);
		assert_int_equal(get_int(session, pair, off[i].level, off[i].name), 0);
		assert_int_equal(set_int(session, pair, off[i].level, off[i].name, 0), ENOPROTOOPT);
	}
	struct ipc_sockopt protocol = {
		.op = IPC_SOCKOPT_GET, .level = IPPROTO_TCP, .name = TCP_ULP, .length = 16
	};
	protocol = sockopt(session, pair, &protocol);
	assert_int_equal(protocol.result, 0);
	assert_int_equal(protocol.length, 0); /* no name */
	close(session);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static int kernel_int(int fd, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, name, &value, &len), 0);
	return value;
}

/* The TCP connection probes no more often than the configuration allows, whether the program sets
 * its times before the hand-over or after. The program sees its own times, and links are probed by
 * those. */
static void keepalive_has_a_floor(void **state)
{
	(void)state;
	static const struct side_limits limits = { .conns = { .keepalive_min_s = 20 } };
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int on = 1, idle = 3;
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	setsockopt(tcp.near, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(tcp.near, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	int copy = dup(tcp.near);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = session_open(&daemon);
	assert_int_equal(get_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE), 3);
	assert_int_equal(kernel_int(copy, TCP_KEEPIDLE), 20);
	assert_int_equal(script->last_keepalive, 3000000);
	assert_int_equal(kernel_int(copy, TCP_KEEPINTVL), 75);

	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_KEEPINTVL, 1), 0);
	assert_int_equal(get_int(session, pair, IPPROTO_TCP, TCP_KEEPINTVL), 1);
	assert_int_equal(kernel_int(copy, TCP_KEEPINTVL), 20);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE, -1), EINVAL);
	assert_int_equal(get_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE), 3);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE, 20), 0);
	assert_int_equal(get_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE), 20);
	assert_int_equal(set_int(session, pair, IPPROTO_TCP, TCP_KEEPIDLE, 30), 0);
	assert_int_equal(kernel_int(copy, TCP_KEEPIDLE), 30);
	assert_int_equal(script->last_keepalive, 30000000);
	close(session);
	close(copy);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
	PROVES("TEST-7");
}

/* The TCP_INFO of the stream that the program sees. */
static struct tcp_info tcp_info(int session, int proof)
{
	struct ipc_sockopt request = { .op = IPC_SOCKOPT_GET,
				       .level = IPPROTO_TCP,
				       .name = TCP_INFO,
				       .length = sizeof(struct tcp_info) };
	struct ipc_sockopt answer = sockopt(session, proof, &request);
	struct tcp_info info;
	assert_int_equal(answer.result, 0);
	assert_int_equal(answer.length, sizeof(info));
	memcpy(&info, answer.value, sizeof(info));
	return info;
}

static struct ipc_sockopt ask_queue(int session, int proof, int name, uint16_t length)
{
	struct ipc_sockopt request = { .op = IPC_SOCKOPT_CONTROL, .name = name, .length = length };
	return sockopt(session, proof, &request);
}

static int queued(int session, int proof, int name)
{
	struct ipc_sockopt answer = ask_queue(session, proof, name, sizeof(int));
	int value;
	assert_int_equal(answer.result, 0);
	assert_int_equal(answer.length, sizeof(value));
	memcpy(&value, answer.value, sizeof(value));
	return value;
}

/* The bytes of the rendezvous are part of the TCP connection, but not of the program's stream. */
static void a_relay_tells_of_the_programs_stream(void **state)
{
	(void)state;
	static char block[100000];
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	size_t sent = 0;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	script->decline = true;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = session_open(&daemon);
	char decline[28];
	assert_int_equal(recv(tcp.far, decline, sizeof(decline), MSG_WAITALL), sizeof(decline));
	assert_int_equal(send(pair, "hello", 5, 0), 5);
	expect_bytes(tcp.far, "hello");
	assert_int_equal(send(tcp.far, "welcome", 7, 0), 7);
	expect_bytes(pair, "welcome");
	while (queued(session, pair, SIOCOUTQ) > 0)
		usleep(1000);
	struct tcp_info info = tcp_info(session, pair);
	assert_int_equal(info.tcpi_bytes_acked, 5);
	assert_int_equal(info.tcpi_bytes_sent - info.tcpi_bytes_retrans, 5);
	assert_int_equal(info.tcpi_bytes_received, 7);
	assert_int_equal(info.tcpi_notsent_bytes, 0);

	for (ssize_t n; (n = send(pair, block, sizeof(block), MSG_DONTWAIT)) > 0;)
		sent += (size_t)n;
	assert_in_range(queued(session, pair, SIOCOUTQNSD), 1, sent);
	assert_in_range(queued(session, pair, SIOCOUTQ), 1, sent);
	assert_int_equal(ask_queue(session, pair, FIONREAD, sizeof(int)).result, EINVAL);
	assert_int_equal(ask_queue(session, pair, SIOCOUTQ, 0).length, 0);
	close(session);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* A reset comes, perhaps behind one byte. */
static void expect_reset_behind(int fd)
{
	char byte;
	if (recv(fd, &byte, 1, 0) == 1)
		expect_reset(fd);
	else
		assert_int_equal(errno, ECONNRESET);
}

/* connect() with AF_UNSPEC: in every state the peer sees a reset, and the program can connect the
 * socket again. */
static void a_program_that_disconnects_has_its_socket_again(void **state)
{
	(void)state;
	static const struct {
		enum ipc_handover_kind kind;
		enum scripted_outcome outcome;
		int aborts, tcp_resets;
	} rows[] = {
		{ IPC_HANDOVER_ACCEPTED, OUTCOME_ESTABLISHED, 1, 0 },
		{ IPC_HANDOVER_CONNECTING, OUTCOME_ESTABLISHED, 1, 0 },
		{ IPC_HANDOVER_ACCEPTED, OUTCOME_HOLD, 0, 1 },
		{ IPC_HANDOVER_CONNECTING, OUTCOME_HOLD, 0, 1 },
		{ IPC_HANDOVER_ACCEPTED, OUTCOME_FALLBACK, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		struct sockaddr_in addr;
		int back, status;
		daemon_start(&daemon);
		script->outcome = rows[i].outcome;
		int pair = hand_over(&daemon, &tcp, rows[i].kind);
		WAIT_COUNT(script->starts, 1);
		if (rows[i].outcome != OUTCOME_HOLD)
			assert_int_equal(send(pair, "x", 1, 0), 1);
		status = ask_status(&daemon, pair, IPC_STATUS_DISCONNECT, &back).state;
		assert_int_equal(status, IPC_CONN_CLOSED);
		assert_true(back >= 0);
		assert_int_equal(script->aborts, rows[i].aborts);
		assert_int_equal(script->tcp_resets, rows[i].tcp_resets);
		expect_reset_behind(pair);
		expect_reset_behind(tcp.far);
		close(tcp.far);

		int listener = listen_tcp(&addr);
		fcntl(back, F_SETFL, 0);
		assert_int_equal(connect(back, (struct sockaddr *)&addr, sizeof(addr)), 0);
		close(back);
		close(listener);
		assert_int_equal(ask_status(&daemon, pair, IPC_STATUS_DISCONNECT, &back).state,
				 IPC_CONN_CLOSED);
		assert_int_equal(back, -1);
		close(pair);
		daemon_stop(&daemon);
	}
}

static void linger_is_the_programs_not_the_daemons(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	struct ipc_sockopt request = { .op = IPC_SOCKOPT_GET,
				       .level = SOL_SOCKET,
				       .name = SO_LINGER,
				       .length = sizeof(struct linger) };
	struct linger linger;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = session_open(&daemon);
	struct ipc_sockopt answer = sockopt(session, pair, &request);
	memcpy(&linger, answer.value, sizeof(linger));
	assert_int_equal(linger.l_onoff, 0);
	linger = (struct linger){ .l_onoff = 1 };
	request.op = IPC_SOCKOPT_SET;
	memcpy(request.value, &linger, sizeof(linger));
	assert_int_equal(sockopt(session, pair, &request).result, 0);
	close(session);
	close(pair);
	WAIT_COUNT(script->aborts, 1);
	expect_reset(tcp.far);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* ---- limits ---- */

static void sessions_and_connections_of_a_user_are_limited(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .sessions_per_uid = 3,
						       .conns_per_uid = 2 } };
	struct frame frame;
	int sessions[3], pairs[2];
	struct tcp tcp[3];
	daemon_start_limited(&daemon, &limits);
	for (int i = 0; i < 3; i++)
		sessions[i] = session_open(&daemon);
	int refused = session_connect(&daemon);
	assert_int_equal(receive_error(refused), EUSERS);
	assert_false(receive_frame(refused, &frame));
	close(refused);

	for (int i = 0; i < 3; i++)
		tcp[i] = connect_tcp();
	for (int i = 0; i < 2; i++) {
		ask_handover(sessions[0], IPC_HANDOVER_ACCEPTED, 0, NULL, tcp[i].near);
		assert_int_equal(receive_result(sessions[0], &pairs[i]).outcome, IPC_OUTCOME_PAIR);
	}
	ask_handover(sessions[0], IPC_HANDOVER_ACCEPTED, 0, NULL, tcp[2].near);
	assert_int_equal(receive_error(sessions[0]), EUSERS);
	assert_int_equal(send(tcp[2].near, "plain", 5, 0), 5); /* untouched */
	expect_bytes(tcp[2].far, "plain");

	for (int i = 0; i < 3; i++) {
		close(sessions[i]);
		close(tcp[i].near);
		close(tcp[i].far);
	}
	for (int i = 0; i < 2; i++)
		close(pairs[i]);
	daemon_stop(&daemon);
}

/* ---- life of the socket ---- */

static char last_line[512];

static void keep_line(void *ctx, int priority, const char *line)
{
	(void)ctx;
	(void)priority;
	snprintf(last_line, sizeof(last_line), "%s", line);
}

static int try_clients(const char *path, char text[256])
{
	struct conns *conns;
	struct clients *clients = NULL;
	struct event_base *base = event_base_new();
	const struct conns_config conns_config = {
		.base = base,
		.callbacks = { .engine_enter = on_engine,
			       .engine_leave = on_engine,
			       .log = keep_line },
	};
	assert_int_equal(conns_new(&conns_config, &conns), 0);
	const struct clients_config config = { .base = base, .conns = conns, .socket_path = path };
	int r = clients_new(&config, &clients, text, 256);
	clients_free(clients);
	conns_free(conns);
	event_base_free(base);
	return r;
}

static int connect_abstract(const struct daemon_side *daemon)
{
	struct sockaddr_un addr;
	int len = ipc_abstract_address(daemon->path, 0, &addr);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	limit_waiting(fd);
	if (connect(fd, (struct sockaddr *)&addr, (socklen_t)len) < 0) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* The abstract address is for programs that have changed their root directory. It serves nothing
 * else, as no permissions guard it. */
static void the_abstract_address_serves_programs_only(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	struct frame frame;
	int pair;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int session = connect_abstract(&daemon);
	assert_true(session >= 0);
	send_hello(session);
	assert_true(receive_frame(session, &frame));
	free(frame.payload);
	send_frame(session, IPC_CONTROL, "echo", 4, -1);
	assert_int_equal(receive_error(session), EPERM);
	ask_handover(session, IPC_HANDOVER_ACCEPTED, 0, NULL, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_PAIR);
	close(session);
	/* The daemon ends, and both addresses are gone. */
	daemon_command(&daemon, 's');
	WAIT_COUNT(connect_abstract(&daemon), -ECONNREFUSED);
	close(pair);
	close(tcp.near);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* Another user has the abstract address: the daemon serves its path all the same, and tells who. */
static void a_taken_abstract_address_does_no_harm(void **state)
{
	(void)state;
	char text[256];
	const char path[] = "/tmp/clients-squatted.sock";
	struct sockaddr_un addr;
	int len = ipc_abstract_address(path, 0, &addr);
	const uid_t uid = geteuid() == 0 ? 12345 : geteuid();
	setfsuid(uid);
	int squatter = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setfsuid(geteuid());
	assert_int_equal(bind(squatter, (struct sockaddr *)&addr, (socklen_t)len), 0);
	assert_int_equal(try_clients(path, text), 0);
	snprintf(text, sizeof(text), "user %u has taken smcrd's address @smcrd:%s in", uid, path);
	assert_memory_equal(last_line, text, strlen(text));
	close(squatter);
}

static void one_daemon_a_path(void **state)
{
	(void)state;
	struct daemon_side daemon;
	char text[256], want[96];
	struct stat st;
	daemon_start(&daemon);
	assert_int_equal(stat(daemon.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(try_clients(daemon.path, text), -EADDRINUSE);
	snprintf(want, sizeof(want), "held by smcrd pid %d of user %u: ", (int)daemon.pid,
		 (unsigned int)geteuid());
	assert_non_null(strstr(text, want));
	free(control(&daemon, "echo")); /* the running daemon is unharmed */

	/* A daemon replaces the socket file of a dead one. */
	kill(daemon.pid, SIGKILL);
	waitpid(daemon.pid, NULL, 0);
	close(daemon.commands);
	assert_int_equal(access(daemon.path, F_OK), 0);
	assert_int_equal(try_clients(daemon.path, text), 0);
	assert_int_equal(access(daemon.path, F_OK), -1); /* removed when the daemon ends */

	/* A daemon does not replace other files. */
	close(open(daemon.path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(try_clients(daemon.path, text), -EEXIST);
	assert_int_equal(access(daemon.path, F_OK), 0);
	unlink(daemon.path);
	rmdir(daemon.dir);
	assert_int_equal(try_clients(daemon.path, text), -ENOENT);
	memset(text, 'x', 200);
	text[200] = '\0';
	char sentence[256];
	assert_int_equal(try_clients(text, sentence), -ENAMETOOLONG);
}

static void an_orderly_stop_ends_everything(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp waiting = connect_tcp(), relay = connect_tcp();
	int result_pair;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	int pair = hand_over(&daemon, &relay, IPC_HANDOVER_ACCEPTED);
	WAIT_COUNT(script->starts, 1);
	script->outcome = OUTCOME_HOLD;
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, waiting.near);
	WAIT_COUNT(script->starts, 2);
	daemon_command(&daemon, 's');
	assert_int_equal(receive_result(session, &result_pair).outcome, IPC_OUTCOME_TCP);
	assert_int_equal(script->give_ups, 1);
	expect_reset(pair);
	expect_reset(relay.far);
	assert_int_equal(access(daemon.path, F_OK), -1);
	close(session);
	close(pair);
	close(relay.far);
	close(waiting.near);
	close(waiting.far);
	daemon_stop(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_starts_with_hello),
		cmocka_unit_test(unknown_types_get_an_error_and_garbage_the_end),
		cmocka_unit_test(requests_may_come_in_one_piece_or_byte_by_byte),
		cmocka_unit_test(greeting_and_request_in_one_send_are_answered_in_one),
		cmocka_unit_test(half_sent_frames_and_silent_sessions_time_out),
		cmocka_unit_test(control_requests_and_replies_of_any_size),
		cmocka_unit_test(a_client_that_does_not_read_blocks_nobody),
		cmocka_unit_test(a_client_that_never_stops_asking_blocks_nobody),
		cmocka_unit_test(descriptors_nobody_wants_are_closed),
		cmocka_unit_test(a_close_that_takes_its_time_blocks_nobody),
		cmocka_unit_test(sockets_that_are_no_tcp_stay_with_the_program),
		cmocka_unit_test(a_status_needs_the_descriptor_itself),
		cmocka_unit_test(options_act_on_the_tcp_socket),
		cmocka_unit_test(refused_options_can_be_read),
		cmocka_unit_test(keepalive_has_a_floor),
		cmocka_unit_test(a_relay_tells_of_the_programs_stream),
		cmocka_unit_test(a_program_that_disconnects_has_its_socket_again),
		cmocka_unit_test(linger_is_the_programs_not_the_daemons),
		cmocka_unit_test(sessions_and_connections_of_a_user_are_limited),
		cmocka_unit_test(one_daemon_a_path),
		cmocka_unit_test(the_abstract_address_serves_programs_only),
		cmocka_unit_test(a_taken_abstract_address_does_no_harm),
		cmocka_unit_test(an_orderly_stop_ends_everything),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
