/* SPDX-License-Identifier: MIT */
/* INFO requests: the outcome of a connection, told at once or as soon as there is one. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void ask_info(int session, uint8_t flags, int proof)
{
	const struct ipc_info_request request = { .flags = flags };
	uint8_t buf[8];
	int len = ipc_encode_info_request(&request, buf, sizeof(buf));
	assert_true(len > 0);
	send_frame(session, IPC_INFO_REQUEST, buf, (size_t)len, proof);
}

static struct ipc_info receive_info(int session)
{
	struct frame frame;
	struct ipc_info info;
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_INFO);
	assert_int_equal(frame.fd, -1);
	assert_int_equal(ipc_decode_info(frame.payload, frame.len, &info), 0);
	free(frame.payload);
	return info;
}

static struct ipc_info info_of(const struct daemon_side *daemon, int proof)
{
	int session = session_open(daemon);
	ask_info(session, 0, proof);
	struct ipc_info info = receive_info(session);
	close(session);
	return info;
}

/* @return a session that waits and has no answer so far */
static int wait_with(const struct daemon_side *daemon, int proof)
{
	int session = session_open(daemon);
	ask_info(session, IPC_INFO_WAIT, proof);
	assert_int_equal(poll(&(struct pollfd){ .fd = session, .events = POLLIN }, 1, 20), 0);
	return session;
}

/* ---- at once ---- */

static void info_describes_a_connection(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct ipc_info info = info_of(&daemon, pair);
	assert_int_equal(info.mode, IPC_MODE_PENDING);
	assert_int_equal(info.flags, IPC_INFO_SERVER | IPC_INFO_BYTES);
	assert_int_equal(info.linkgroup, 0);
	assert_string_equal(info.rnic, "");

	daemon_command(&daemon, 'e');
	assert_int_equal(send(pair, "hello", 5, 0), 5);
	expect_bytes(pair, "hello");
	info = info_of(&daemon, pair);
	assert_int_equal(info.mode, IPC_MODE_SMCR);
	assert_int_equal(info.flags, IPC_INFO_SERVER | IPC_INFO_BYTES);
	assert_int_equal(info.error, 0);
	assert_int_equal(info.reason, SMCR_REASON_NONE);
	assert_int_equal(info.linkgroup, 3);
	assert_int_equal(info.link, 2);
	assert_string_equal(info.rnic, "roce_1");
	assert_int_equal(info.tx_bytes, 5);
	assert_int_equal(info.rx_bytes, 5);
	assert_int_equal(info.rmbe_size, 65536);
	assert_int_equal(info.peer_rmbe_size, 32768);

	/* The daemon remembers the outcome while somebody has the descriptor, and longer. */
	daemon_command(&daemon, 'r');
	wait_for_line(&daemon, "smcr state=5 ended=1");
	info = info_of(&daemon, pair);
	assert_int_equal(info.mode, IPC_MODE_SMCR);
	assert_int_equal(info.flags, IPC_INFO_SERVER | IPC_INFO_BYTES | IPC_INFO_ENDED);
	assert_int_equal(info.error, ECONNRESET);
	assert_int_equal(info.tx_bytes, 5);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void info_tells_why_a_connection_is_relayed(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTING);
	struct ipc_info info;
	int session = session_open(&daemon);
	/* The end of the TCP handshake may not be known yet. */
	ask_info(session, IPC_INFO_WAIT, pair);
	info = receive_info(session);
	assert_int_equal(info.mode, IPC_MODE_TCP);
	assert_int_equal(info.flags, IPC_INFO_BYTES | IPC_INFO_RELAYED);
	assert_int_equal(info.reason, SMCR_REASON_PEER_DECLINED);
	assert_int_equal(info.peer_reason, 0x03070000);
	assert_int_equal(info.linkgroup, 0);
	assert_string_equal(info.rnic, "");
	close(session);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* The daemon has closed its descriptor of the socket, and still knows the outcome. */
static void a_socket_that_stayed_tcp_tells_why(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int pair;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	int session = session_open(&daemon);
	ask_handover(session, IPC_HANDOVER_CONNECTED, 0, NULL, tcp.near);
	assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
	ask_info(session, IPC_INFO_WAIT, tcp.near);
	struct ipc_info info = receive_info(session);
	assert_int_equal(info.mode, IPC_MODE_TCP);
	assert_int_equal(info.flags, 0); /* no flag: neither ended nor counted */
	assert_int_equal(info.error, 0);
	assert_int_equal(info.reason, SMCR_REASON_PEER_DECLINED);
	assert_int_equal(info.peer_reason, 0x03070000);
	/* The other side's socket has the same addresses, but was not handed over. */
	ask_info(session, 0, tcp.far);
	assert_int_equal(receive_error(session), EACCES);
	close(session);
	close(tcp.near);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* ---- whose connection it is ---- */

/* Inode numbers of sockets are used again after 2^32 sockets. Here each socket has the same
 * number. */
int fstat(int fd, struct stat *st)
{
	int r = (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
	if (r == 0 && S_ISSOCK(st->st_mode))
		st->st_ino = 7;
	return r;
}

static void neither_a_name_nor_an_inode_proves_anything(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	assert_int_equal(getsockname(pair, (struct sockaddr *)&addr, &len), 0);
	for (int ended = 0; ended < 2; ended++) {
		if (ended) {
			close(pair);
			wait_for_line(&daemon, "ended=1");
		}
		int session = session_open(&daemon), forged[2], status;
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			if (unshare(CLONE_NEWNET) < 0)
				_exit(77);
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, forged) < 0 ||
			    bind(forged[1], (struct sockaddr *)&addr, len) < 0)
				_exit(1);
			ask_info(session, 0, forged[1]);
			_exit(receive_error(session) == (ended ? ENOENT : EACCES) ? 0 : 2);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WEXITSTATUS(status) == 77)
			skip(); /* no permission to make network namespaces */
		assert_int_equal(status, 0);
		close(session);
	}
	close(tcp.far);
	daemon_stop(&daemon);
}

static void requests_that_make_no_sense(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct frame frame;
	daemon_start(&daemon);
	int session = session_open(&daemon), pipes[2];
	send_frame(session, IPC_INFO_REQUEST, "\0", 1, -1);
	assert_int_equal(receive_error(session), EBADF);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	send_frame(session, IPC_INFO_REQUEST, "\0", 1, pipes[0]);
	assert_int_equal(receive_error(session), EACCES);
	send_frame(session, IPC_INFO_REQUEST, "\2", 1, pipes[0]);
	assert_int_equal(receive_error(session), EPROTO);
	assert_false(receive_frame(session, &frame));
	close(pipes[0]);
	close(pipes[1]);
	close(session);
	daemon_stop(&daemon);
}

/* ---- later ---- */

static void every_session_that_waits_is_told_and_goes_on(void **state)
{
	(void)state;
	static const struct {
		char command;
		enum ipc_mode mode;
		int error;
		uint8_t flags;
	} rows[] = {
		{ 'e', IPC_MODE_SMCR, 0, IPC_INFO_SERVER | IPC_INFO_BYTES },
		{ 'f', IPC_MODE_TCP, 0, IPC_INFO_SERVER | IPC_INFO_BYTES | IPC_INFO_RELAYED },
		{ 'x', IPC_MODE_TCP, ETIMEDOUT, IPC_INFO_SERVER | IPC_INFO_ENDED },
		{ 's', IPC_MODE_TCP, ECONNRESET, IPC_INFO_SERVER | IPC_INFO_ENDED },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		int sessions[3];
		daemon_start(&daemon);
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		for (size_t j = 0; j < 3; j++)
			sessions[j] = wait_with(&daemon, pair);
		daemon_command(&daemon, rows[i].command);
		for (size_t j = 0; j < 3; j++) {
			struct ipc_info info = receive_info(sessions[j]);
			assert_int_equal(info.mode, rows[i].mode);
			assert_int_equal(info.error, rows[i].error);
			assert_int_equal(info.flags, rows[i].flags);
			/* With an outcome the next request in the same session does not wait. */
			ask_info(sessions[j], IPC_INFO_WAIT, pair);
			assert_int_equal(receive_info(sessions[j]).mode, rows[i].mode);
			close(sessions[j]);
		}
		close(pair);
		close(tcp.far);
		daemon_stop(&daemon);
	}
}

/* STATUS tells SO_ERROR once: INFO must not use it up. */
static void the_error_is_still_told_afterwards(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	int back;
	daemon_start(&daemon);
	script->outcome = OUTCOME_FAILED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	wait_for_line(&daemon, "ended=1");
	for (int i = 0; i < 2; i++)
		assert_int_equal(info_of(&daemon, pair).error, ETIMEDOUT);
	assert_int_equal(ask_status(&daemon, pair, 0, &back).error, ETIMEDOUT);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void a_session_that_ends_waits_no_longer(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	const struct side_limits limits = { .conns = { .sessions_per_uid = 3 } };
	daemon_start_limited(&daemon, &limits);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int patient = wait_with(&daemon, pair);
	for (int i = 0; i < 10; i++)
		/* each session that closes frees its place in the quota */
		close(wait_with(&daemon, pair));
	daemon_command(&daemon, 'e');
	assert_int_equal(receive_info(patient).mode, IPC_MODE_SMCR);
	close(patient);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void the_connection_may_end_first(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = wait_with(&daemon, pair);
	const struct linger reset = { .l_onoff = 1 };
	setsockopt(tcp.far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(tcp.far);
	assert_int_equal(receive_info(session).error, ECONNRESET);
	close(session);
	close(pair);
	daemon_stop(&daemon);
}

static void the_daemon_may_end_first(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	struct frame frame;
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	int session = wait_with(&daemon, pair);
	daemon_stop(&daemon);
	assert_false(receive_frame(session, &frame));
	close(session);
	close(pair);
	close(tcp.far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info_describes_a_connection),
		cmocka_unit_test(info_tells_why_a_connection_is_relayed),
		cmocka_unit_test(a_socket_that_stayed_tcp_tells_why),
		cmocka_unit_test(neither_a_name_nor_an_inode_proves_anything),
		cmocka_unit_test(requests_that_make_no_sense),
		cmocka_unit_test(every_session_that_waits_is_told_and_goes_on),
		cmocka_unit_test(the_error_is_still_told_afterwards),
		cmocka_unit_test(a_session_that_ends_waits_no_longer),
		cmocka_unit_test(the_connection_may_end_first),
		cmocka_unit_test(the_daemon_may_end_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
