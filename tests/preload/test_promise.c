/* SPDX-License-Identifier: MIT */
/* accept() where the handshake promised SMC-R and no daemon keeps the promise. */
#include <errno.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/smcr/promise.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/reason.h"
#include "tests/preload/fixture.h"

/* Less than the second for which a Proposal is waited. A busy machine may need longer now and then,
 * so one of a few tries has to be as fast as that. */
#define AT_ONCE_MS 950
#define TRIES      8

/* ---- the peer: a client that speaks CLC by hand */

static int peer_connect(void)
{
	int fd = pre_net_socket(server.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC);
	assert_int_equal(syscall(SYS_connect, fd, &server, pre_net_len(&server)), 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

static size_t proposal(uint8_t version, uint8_t buf[SMCR_CLC_MAX_LEN])
{
	const struct smcr_clc_proposal msg = {
		.version = version,
		.offers_r_v1 = true,
		.offers_r_v2 = version == SMCR_CLC_VERSION_2,
		.ipv4_mask_len = 24,
		.v2 = { .num_eids = 1, .release = 1, .max_conns = 32, .max_links = 2 },
	};
	int len = smcr_clc_encode_proposal(&msg, buf, SMCR_CLC_MAX_LEN);
	assert_true(len > 0);
	return (size_t)len;
}

static void propose(int fd)
{
	uint8_t buf[SMCR_CLC_MAX_LEN];
	say(fd, buf, proposal(SMCR_CLC_VERSION_1, buf));
}

static void give_up(int fd)
{
	const struct smcr_clc_decline msg = { .version = 1, .diagnosis = SMCR_REASON_INTERNAL };
	uint8_t buf[SMCR_CLC_DECLINE_LEN];
	assert_int_equal(smcr_clc_encode_decline(&msg, buf, sizeof(buf)), sizeof(buf));
	say(fd, buf, sizeof(buf));
}

static void hear_decline(int fd, uint8_t version, uint32_t reason)
{
	uint8_t buf[SMCR_CLC_DECLINE_V2_LEN];
	struct smcr_clc_msg msg;
	size_t len = version == SMCR_CLC_VERSION_2 ? SMCR_CLC_DECLINE_V2_LEN : SMCR_CLC_DECLINE_LEN;
	pre_net_wait(fd, POLLIN);
	assert_int_equal(recv(fd, buf, len, MSG_WAITALL), len);
	assert_int_equal(smcr_clc_decode(buf, len, &msg), 0);
	assert_int_equal(msg.type, SMCR_CLC_DECLINE);
	assert_int_equal(msg.decline.version, version);
	assert_int_equal(msg.decline.diagnosis, reason);
	assert_false(msg.decline.out_of_sync);
}

/* ---- the server */

static void kill_daemon(void)
{
	kill(smcrd.pid, SIGKILL);
	waitpid(smcrd.pid, NULL, 0);
	unlink(smcrd.path);
}

static void set_int(int fd, int level, int name, int value)
{
	assert_int_equal(setsockopt(fd, level, name, &value, sizeof(value)), 0);
}

static int get_int(int fd, int level, int name)
{
	int value = -1;
	assert_int_equal(sys_get_int(fd, level, name, &value), 0);
	return value;
}

/* Accepted sockets inherit the mark from the listener. */
static void mark_connections(void)
{
	set_int(listener, IPPROTO_TCP, TCP_SYNCNT, IPC_PROMISE_MARK);
}

static void refuse_to_wait(void)
{
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
}

/* The peer gets a Decline, and the program a plain TCP socket whose first bytes are its own. */
static void expect_declined(int peer, uint32_t reason)
{
	int fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	hear_decline(peer, SMCR_CLC_VERSION_1, reason);
	pre_net_exchange(peer, fd);
	close(fd);
	close(peer);
}

static void expect_dropped(int peer)
{
	assert_int_equal(accept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	pre_net_expect_reset(peer);
	close(peer);
}

/* Options that make the program wait for what the kernel tells, which pair ends do not have. A
 * listener that has them from after listen() on passes them to the sockets that are accepted. */
static void test_notices_that_a_listener_asks_for(void **state)
{
	(void)state;
	static const struct {
		int name, value;
	} options[] = {
		{ SO_TIMESTAMPNS, 1 },
		{ SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE },
		{ SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE },
	};
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		assert_int_equal(listen(listener, 8), 0);
		int claims = pre_net_option.claims, unclaims = pre_net_option.unclaims;
		set_int(listener, SOL_SOCKET, options[i].name, options[i].value);
		int peer = peer_connect();
		propose(peer);
		expect_declined(peer, SMCR_REASON_TCP_MESSAGES);
		assert_int_equal(pre_net_option.unclaims, unclaims + 1);
		assert_int_equal(pre_net_option.claims, claims);
		assert_int_equal(listen(listener, 8), 0);
		assert_int_equal(pre_net_option.claims, claims);
		set_int(listener, SOL_SOCKET, options[i].name, 0);
	}
	assert_int_equal(smcrd.script->sessions, 0);
}

/* ---- who promised it */

/* The answers of IPC_SO_NEGOTIATED when the daemon that saw the handshake is gone. */
static void play_restart(int which)
{
	pre_net_option.absent = which == 0;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
}

static void test_a_marked_connection_goes_to_the_next_daemon(void **state)
{
	(void)state;
	mark_connections();
	for (int i = 0; i < 2; i++) {
		play_restart(i);
		int peer = peer_connect();
		int fd = accept(listener, NULL, NULL);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		pre_net_exchange(peer, fd);
		close(fd);
		close(peer);
	}
	assert_int_equal(smcrd.script->accepted, 2);
}

static void test_a_marked_connection_is_declined_without_one(void **state)
{
	(void)state;
	mark_connections();
	kill_daemon();
	for (int i = 0; i < 2; i++) {
		play_restart(i);
		int peer = peer_connect();
		propose(peer);
		expect_declined(peer, SMCR_REASON_NO_DAEMON);
	}
}

static void test_the_next_daemon_may_refuse(void **state)
{
	(void)state;
	mark_connections();
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = ESHUTDOWN;
	for (int i = 0; i < 2; i++) {
		play_restart(i);
		int peer = peer_connect();
		propose(peer);
		expect_declined(peer, SMCR_REASON_NO_DAEMON);
	}
}

/* The daemon died before it could set the mark: the Proposal shows that SMC-R was promised. */
static void test_a_proposal_that_waits_is_a_promise(void **state)
{
	(void)state;
	set_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, 1);
	for (int i = 0; i < 2; i++) {
		play_restart(i);
		int peer = peer_connect();
		propose(peer);
		int fd = accept(listener, NULL, NULL);
		assert_int_equal(pre_net_kernel_family(fd), AF_UNIX);
		close(fd);
		close(peer);
	}
	kill_daemon();
	int peer = peer_connect();
	propose(peer);
	expect_declined(peer, SMCR_REASON_NO_DAEMON);
}

static void expect_plain(void)
{
	int64_t took = AT_ONCE_MS;
	for (int i = 0; i < TRIES && took >= AT_ONCE_MS; i++) {
		int peer = peer_connect();
		int64_t before = sys_now_ms();
		int fd = accept(listener, NULL, NULL);
		took = sys_now_ms() - before;
		assert_int_equal(pre_net_kernel_family(fd), AF_INET);
		pre_net_exchange(fd, peer);
		close(fd);
		close(peer);
	}
	assert_true(took < AT_ONCE_MS);
}

/* accept() does not wait for peers that were promised nothing, whatever they send or do not send.
 */
static void test_plain_connections_are_not_held_up(void **state)
{
	(void)state;
	kill_daemon();
	for (int kept = 0; kept < 2; kept++)
		for (int i = 0; i < 2; i++) {
			set_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, kept);
			play_restart(i);
			expect_plain();
			int peer = peer_connect();
			say(peer, "GET / HTTP/1.0", 14);
			int fd = accept(listener, NULL, NULL);
			char text[14];
			assert_int_equal(recv(fd, text, sizeof(text), MSG_WAITALL), 14);
			assert_memory_equal(text, "GET / HTTP/1.0", 14);
			close(fd);
			close(peer);
		}
	/* A listener that was never claimed: bytes that look like CLC are the program's. */
	set_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, 0);
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t len = proposal(SMCR_CLC_VERSION_1, buf);
	int peer = peer_connect();
	say(peer, buf, len);
	int fd = accept(listener, NULL, NULL);
	assert_int_equal(recv(fd, buf, 1, 0), 1);
	assert_int_equal(buf[0], 0xE2);
	close(fd);
	close(peer);
}

/* The connection is accepted at once, and the program reads these bytes. */
static void expect_bytes(const uint8_t *bytes, size_t len)
{
	uint8_t got[SMCR_CLC_MAX_LEN];
	int64_t took = AT_ONCE_MS;
	for (int i = 0; i < TRIES && took >= AT_ONCE_MS; i++) {
		int peer = peer_connect();
		say(peer, bytes, len);
		pre_net_wait(listener, POLLIN);
		int64_t before = sys_now_ms();
		int fd = accept(listener, NULL, NULL);
		took = sys_now_ms() - before;
		assert_int_equal(recv(fd, got, len, MSG_WAITALL), len);
		assert_memory_equal(got, bytes, len);
		close(fd);
		close(peer);
	}
	assert_true(took < AT_ONCE_MS);
}

/* The daemon runs, and knows that the listener's claim was taken back before the handshake. So
 * accept() waits for nothing, and claims the listener again. */
static void test_the_daemon_knows_that_nothing_was_promised(void **state)
{
	(void)state;
	const uint8_t byte = SMCR_EYE_CATCHER >> 24;
	set_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, 1);
	pre_net_option.negotiated = IPC_NEGOTIATED_UNCLAIMED;
	refuse_to_wait();
	expect_bytes(&byte, 1);
	assert_true(pre_net_option.claims > 0);
	assert_int_equal(pre_net_option.last_claimed, listener);
	assert_int_equal(pre_net_option.last_plain.reason, SMCR_REASON_NOT_CLAIMED);
	assert_int_equal(smcrd.script->sessions, 0);
}

/* The daemon has been gone for so long that no handshake of its time can have ended just now. So a
 * peer that sends the beginning of a Proposal and is then silent was promised nothing. */
static void test_half_a_proposal_holds_nobody_up(void **state)
{
	(void)state;
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t len = proposal(SMCR_CLC_VERSION_1, buf);
	set_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, 1);
	kill_daemon();
	play_restart(0);
	expect_plain();
	for (int64_t over = sys_now_ms() + 400; sys_now_ms() < over;) /* DOUBT_MS in promise.c */
		nanosleep(&pause, NULL);
	expect_bytes(buf, 1);
	expect_bytes(buf, SMCR_CLC_HEADER_LEN);
	expect_bytes(buf, len - 1);
	int peer = peer_connect();
	propose(peer);
	expect_declined(peer, SMCR_REASON_NO_DAEMON);
}

/* ---- what the peer sends */

static void test_a_decline_has_the_version_of_the_proposal(void **state)
{
	(void)state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	kill_daemon();
	for (uint8_t version = 1; version <= 3; version++) {
		int peer = peer_connect();
		size_t len = proposal(version > 2 ? 2 : version, buf);
		buf[7] = (uint8_t)(version << 4 | (buf[7] & 0x0F));
		say(peer, buf, len);
		int fd = accept(listener, NULL, NULL);
		assert_int_equal(pre_net_kernel_family(fd), AF_INET);
		hear_decline(peer, version > 2 ? 2 : version, SMCR_REASON_NO_DAEMON);
		pre_net_exchange(fd, peer);
		close(fd);
		close(peer);
	}
}

static void test_no_byte_behind_the_proposal_is_taken(void **state)
{
	(void)state;
	uint8_t buf[SMCR_CLC_MAX_LEN + 20];
	char text[20] = "";
	kill_daemon();
	int peer = peer_connect();
	size_t len = proposal(SMCR_CLC_VERSION_1, buf);
	memcpy(buf + len, "early", 5);
	say(peer, buf, len + 5);
	int fd = accept(listener, NULL, NULL);
	hear_decline(peer, SMCR_CLC_VERSION_1, SMCR_REASON_NO_DAEMON);
	say(peer, " bird", 5);
	assert_int_equal(recv(fd, text, 10, MSG_WAITALL), 10);
	assert_string_equal(text, "early bird");
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_RCVLOWAT), 1);
	close(fd);
	close(peer);
}

/* Bytes of a Proposal, one at a time, with pauses. */
static void *dribble(void *arg)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t len = proposal(SMCR_CLC_VERSION_1, buf);
	for (size_t i = 0; i < len; i++) {
		nanosleep(&pause, NULL);
		send(*(int *)arg, buf + i, 1, MSG_NOSIGNAL);
	}
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
}

/* Accept a connection whose Proposal comes in pieces.
 * @return has all of it come in the second for which the library waits? */
static bool accept_in_pieces(int *ret_peer, int *ret_fd)
{
	const struct itimerval often = { { .tv_usec = 3000 }, { .tv_usec = 3000 } };
	const struct itimerval never = { { 0 }, { 0 } };
	int64_t before = sys_now_ms();
	pthread_t thread;
	int on = 1, peer = peer_connect();
	setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	signal(SIGALRM, on_signal); /* the library's own calls are interrupted and not restarted */
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, dribble, &peer), 0);
	*ret_fd = accept(listener, NULL, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	assert_int_equal(pthread_join(thread, NULL), 0);
	*ret_peer = peer;
	return sys_now_ms() - before < AT_ONCE_MS;
}

static void test_a_proposal_may_come_in_pieces_and_late(void **state)
{
	(void)state;
	int peer, fd;
	kill_daemon();
	for (int i = 0; !accept_in_pieces(&peer, &fd) && i < TRIES; i++) {
		close(fd);
		close(peer);
	}
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_RCVLOWAT), 1);
	hear_decline(peer, SMCR_CLC_VERSION_1, SMCR_REASON_NO_DAEMON);
	pre_net_exchange(peer, fd);
	close(fd);
	close(peer);
}

/* A peer that has sent Decline expects the program's bytes, and no Decline. */
static void test_a_peer_that_gave_up_is_sent_nothing(void **state)
{
	(void)state;
	kill_daemon();
	for (int proposed = 0; proposed < 2; proposed++) {
		int peer = peer_connect();
		if (proposed)
			propose(peer);
		give_up(peer);
		int fd = accept(listener, NULL, NULL);
		assert_int_equal(pre_net_kernel_family(fd), AF_INET);
		pre_net_exchange(fd, peer);
		close(fd);
		close(peer);
	}
}

static void test_garbage_is_reset(void **state)
{
	(void)state;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t len = proposal(SMCR_CLC_VERSION_1, buf);
	kill_daemon();
	refuse_to_wait();
	for (int i = 0; i < 4; i++) {
		uint8_t bad[SMCR_CLC_MAX_LEN];
		memcpy(bad, buf, len);
		if (i == 0)
			bad[0] = 'G'; /* wrong from the first byte on */
		else if (i == 1)
			bad[4] = SMCR_CLC_ACCEPT;
		else if (i == 2)
			bad[len - 1] ^= 1;
		else
			bad[5] = 0xFF; /* a wrong length */
		int64_t took = AT_ONCE_MS;
		for (int try = 0; try < TRIES && took >= AT_ONCE_MS; try++) {
			int peer = peer_connect();
			say(peer, bad, i == 0 ? 1 : len);
			pre_net_wait(listener, POLLIN);
			int64_t before = sys_now_ms();
			expect_dropped(peer);
			took = sys_now_ms() - before;
		}
		assert_true(took < AT_ONCE_MS);
	}
	int peer = peer_connect();
	say(peer, buf, 20);
	shutdown(peer, SHUT_WR);
	pre_net_wait(listener, POLLIN);
	expect_dropped(peer);
}

/* @return for how long accept() waits for five peers that are silent, in milliseconds */
static int64_t wait_for_silent_peers(void)
{
	int peers[5];
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t len = proposal(SMCR_CLC_VERSION_1, buf);
	for (size_t i = 0; i < 5; i++) {
		peers[i] = peer_connect();
		if (i > 2)
			say(peers[i], buf, i == 3 ? 5 : len - 1);
	}
	int64_t before = sys_now_ms();
	assert_int_equal(accept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	int64_t took = sys_now_ms() - before;
	for (size_t i = 0; i < 5; i++) {
		pre_net_expect_reset(peers[i]);
		close(peers[i]);
	}
	return took;
}

/* accept() waits for all silent peers together no longer than for one. */
static void test_silent_peers_are_bounded(void **state)
{
	(void)state;
	int64_t took;
	int tries = 0;
	kill_daemon();
	refuse_to_wait();
	/* Out of the bounds if the machine is busy: before the call, so that a part of the second
	 * is over, or in it. */
	do
		took = wait_for_silent_peers();
	while ((took < 500 || took > 4500) && ++tries < TRIES);
	/* One after the other would take 5000. */
	assert_in_range(took, 500, 4500);
}

static void test_a_peer_that_is_gone_is_dropped(void **state)
{
	(void)state;
	const struct linger reset = { .l_onoff = 1 };
	kill_daemon();
	refuse_to_wait();
	for (int i = 0; i < 2; i++) {
		int peer = peer_connect();
		propose(peer);
		if (i == 0)
			setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(peer);
		pre_net_wait(listener, POLLIN);
		int fd = accept(listener, NULL, NULL);
		if (fd >= 0) { /* the peer closed in good order: end of file and no bytes */
			char byte;
			assert_int_equal(i, 1);
			assert_int_equal(recv(fd, &byte, 1, 0), 0);
			close(fd);
		}
	}
}

/* ---- what the daemon says */

static void test_limits_decline(void **state)
{
	(void)state;
	static const struct {
		int error;
		uint32_t reason;
		int claims, unclaims;
	} cases[] = {
		{ EUSERS, SMCR_REASON_LIMIT, 1, 0 },
		{ EMFILE, SMCR_REASON_NO_DESCRIPTORS, 0, 0 },
		{ ENFILE, SMCR_REASON_NO_DESCRIPTORS, 0, 0 },
		{ ENOMEM, SMCR_REASON_NO_DAEMON, 0, 0 },
		{ ESHUTDOWN, SMCR_REASON_NO_DAEMON, 0, 0 },
		{ EPROTO, SMCR_REASON_NO_DAEMON, 0, 1 },
	};
	smcrd.script->answer = ANSWER_ERROR;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		smcrd.script->error = cases[i].error;
		pre_net_option.claims = pre_net_option.unclaims = 0;
		int peer = peer_connect();
		propose(peer);
		expect_declined(peer, cases[i].reason);
		assert_int_equal(pre_net_option.plain_told, i + 1);
		assert_int_equal(pre_net_option.last_plain.reason, cases[i].reason);
		assert_int_equal(pre_net_option.last_plain.flags, IPC_PLAIN_ACCEPTED);
		assert_int_equal(pre_net_option.claims, cases[i].claims);
		assert_int_equal(pre_net_option.unclaims, cases[i].unclaims);
	}
}

/* smcrd refuses the first connection, and then leaves the option off by itself. It can tell so of
 * the next connection as long as the listener is claimed. That peer's first byte could be the
 * beginning of a Proposal. @return for how long accept() took for it, in milliseconds */
static int64_t accept_after_refusal(int error)
{
	char byte = (char)0xE2;
	smcrd.script->error = error;
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	pre_net_option.unclaims = 0;
	int peer = peer_connect();
	propose(peer);
	pre_net_wait(listener, POLLIN);
	expect_declined(peer, pre_reason_not_handed(error));
	pre_net_option.negotiated =
		pre_net_option.unclaims ? IPC_NEGOTIATED_UNKNOWN : IPC_NEGOTIATED_NO;
	peer = peer_connect();
	say(peer, &byte, 1);
	pre_net_wait(listener, POLLIN);
	int64_t before = sys_now_ms();
	int fd = accept(listener, NULL, NULL);
	int64_t took = sys_now_ms() - before;
	assert_int_equal(pre_net_kernel_family(fd), AF_INET);
	close(fd);
	close(peer);
	return took;
}

static void test_nobody_waits_after_a_refusal(void **state)
{
	(void)state;
	static const int errors[] = { EMFILE, ENFILE, ESHUTDOWN };
	set_int(listener, IPPROTO_TCP, TCP_SAVE_SYN, 1);
	refuse_to_wait();
	smcrd.script->answer = ANSWER_ERROR;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		int64_t took = AT_ONCE_MS;
		for (int try = 0; try < TRIES && took >= AT_ONCE_MS; try++)
			took = accept_after_refusal(errors[i]);
		assert_true(took < AT_ONCE_MS);
	}
}

static void test_required_connections_are_reset(void **state)
{
	(void)state;
	kill_daemon();
	refuse_to_wait();
	pre_settings.require = true;
	int peer = peer_connect();
	propose(peer);
	pre_net_wait(listener, POLLIN);
	expect_dropped(peer);
}

/* ---- few descriptors */

/* Open descriptors until only `free_after` more can be opened. */
static int fill_descriptors(int free_after, int fds[64])
{
	const struct rlimit limit = { 64, 64 };
	struct rlimit before;
	int n = 0;
	getrlimit(RLIMIT_NOFILE, &before);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ limit.rlim_cur, before.rlim_max });
	while ((fds[n] = fcntl(listener, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	for (int i = 0; i < free_after; i++)
		close(fds[--n]);
	return n;
}

/* The listener keeps its claim: without one, accept() would wait for a peer that was promised
 * nothing. */
static void test_a_process_with_few_descriptors_declines(void **state)
{
	(void)state;
	struct rlimit before;
	int fds[64];
	getrlimit(RLIMIT_NOFILE, &before);
	/* One for accept() itself, one for asking the daemon, one for its answer. */
	for (int left = 0; left <= 2; left++) {
		int peer = peer_connect();
		propose(peer);
		int n = fill_descriptors(left + 1, fds);
		int fd = accept(listener, NULL, NULL);
		while (n > 0)
			close(fds[--n]);
		setrlimit(RLIMIT_NOFILE, &before);
		assert_true(fd >= 0);
		assert_int_equal(pre_net_kernel_family(fd), left < 2 ? AF_INET : AF_UNIX);
		assert_int_equal(smcrd.script->accepted, left < 2 ? 0 : 1);
		assert_int_equal(pre_net_option.unclaims, 0);
		if (left < 2) {
			hear_decline(peer, SMCR_CLC_VERSION_1, SMCR_REASON_NO_DESCRIPTORS);
			pre_net_exchange(peer, fd);
		}
		close(fd);
		close(peer);
	}
}

/* ---- the mark */

static void test_the_mark_goes_away(void **state)
{
	(void)state;
	int peer = peer_connect();
	int fd = (int)syscall(SYS_accept4, listener, NULL, NULL, 0);
	set_int(listener, IPPROTO_TCP, TCP_SYNCNT, 4);
	set_int(fd, IPPROTO_TCP, TCP_SYNCNT, 9);
	pre_promise_forget(listener, fd);
	assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_SYNCNT), 9);
	set_int(fd, IPPROTO_TCP, TCP_SYNCNT, IPC_PROMISE_MARK);
	assert_true(pre_promise_stands(listener, fd));
	pre_promise_forget(listener, fd);
	assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_SYNCNT), 4);
	assert_false(pre_promise_stands(listener, fd));
	close(fd);
	close(peer);
}

/* ---- connect() */

static void expect_connect_again(void)
{
	int client = pre_net_socket(AF_INET, SOCK_STREAM);
	assert_int_equal(pre_net_connect(client, &server), 0);
	assert_int_equal(pre_net_option.unclaims, 1);
	assert_int_equal(pre_net_kernel_family(client), AF_INET);
	int first = pre_net_accept_plain(listener);
	pre_net_expect_reset(first);
	close(first);
	int fd = pre_net_accept_plain(listener);
	pre_net_exchange(client, fd);
	close(fd);
	close(client);
}

static void test_connect_again_when_the_daemon_was_started_anew(void **state)
{
	(void)state;
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	expect_connect_again();
}

static void test_connect_again_when_the_new_daemon_has_no_bpf(void **state)
{
	(void)state;
	smcrd.script->answer = ANSWER_TCP;
	smcrd.script->reason = SMCR_REASON_NO_BPF;
	expect_connect_again();
}

/* This has to be the last test: afterwards the library promises nothing for a minute. */
static void test_the_daemon_of_another_namespace(void **state)
{
	(void)state;
	smcrd.script->answer = ANSWER_ERROR;
	smcrd.script->error = EXDEV;
	int peer = peer_connect();
	propose(peer);
	expect_declined(peer, SMCR_REASON_OTHER_NETWORK);
	assert_int_equal(pre_net_option.unclaims, 1);
	assert_false(pre_daemon_usable(true));
	pre_net_option.negotiated = IPC_NEGOTIATED_UNKNOWN;
	expect_plain();
	assert_int_equal(pre_net_option.claims, 0);
	assert_int_equal(smcrd.script->accepted, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_notices_that_a_listener_asks_for),
		TEST(test_a_marked_connection_goes_to_the_next_daemon),
		TEST(test_a_marked_connection_is_declined_without_one),
		TEST(test_the_next_daemon_may_refuse),
		TEST(test_a_proposal_that_waits_is_a_promise),
		TEST(test_plain_connections_are_not_held_up),
		TEST(test_half_a_proposal_holds_nobody_up),
		TEST(test_the_daemon_knows_that_nothing_was_promised),
		TEST(test_a_decline_has_the_version_of_the_proposal),
		TEST(test_no_byte_behind_the_proposal_is_taken),
		TEST(test_a_proposal_may_come_in_pieces_and_late),
		TEST(test_a_peer_that_gave_up_is_sent_nothing),
		TEST(test_garbage_is_reset),
		TEST(test_silent_peers_are_bounded),
		TEST(test_a_peer_that_is_gone_is_dropped),
		TEST(test_limits_decline),
		TEST(test_nobody_waits_after_a_refusal),
		TEST(test_required_connections_are_reset),
		TEST(test_a_process_with_few_descriptors_declines),
		TEST(test_the_mark_goes_away),
		TEST(test_connect_again_when_the_daemon_was_started_anew),
		TEST(test_connect_again_when_the_new_daemon_has_no_bpf),
		TEST(test_the_daemon_of_another_namespace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
