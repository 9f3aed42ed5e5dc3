/* SPDX-License-Identifier: MIT */
/* Which users may send CLC on a socket whose peer was promised SMC-R, and what the log says about
 * it. Needs root. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/rendezvous/gate.h"
#include "daemon/rendezvous/spoken.h"
#include "proto/smcr/clc.h"
#include "tests/lib/option.h"
#include "tests/lib/tries.h"

#define PATIENCE_MS 10000
#define USER        12345

/* All tests share a network namespace of their own, with the option and the gate attached. */
static struct rdv_option *option;
static struct rdv_gate *gate;

static int open_gate(void)
{
	char text[RDV_TEXT_MAX];
	int cgroup = attach_root();
	int r = rdv_gate_open(cgroup, option, &gate, text);
	if (r < 0)
		print_error("%s\n", text);
	else
		rdv_gate_guard(gate, true);
	if (cgroup >= 0)
		close(cgroup);
	return r;
}

static int setup_group(void **state)
{
	(void)state;
	return option_setup(&option) < 0 ? -1 : open_gate();
}

static int teardown_group(void **state)
{
	(void)state;
	rdv_gate_close(gate);
	rdv_option_close(option);
	return 0;
}

/* ---- a connection whose both ends are promised SMC-R */

struct ends {
	int client, server;
};

static int claimed_socket(int family)
{
	int one = 1, fd = socket(family, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &one, sizeof(one)), 0);
	return fd;
}

static void assert_promised(int fd)
{
	struct rdv_option_state known;
	assert_int_equal(rdv_option_query(option, fd, &known), 0);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_YES);
}

static struct ends connected_by(int family, uid_t uid)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr = { .sa.sa_family = (sa_family_t)family };
	socklen_t len = sizeof(addr);
	struct ends ends;
	int one = 1, listener = claimed_socket(family);
	if (family == AF_INET)
		addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		addr.in6.sin6_addr = in6addr_loopback;
	assert_int_equal(bind(listener, &addr.sa, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, &addr.sa, &len), 0);
	ends.client = claimed_socket(family);
	assert_int_equal(connect(ends.client, &addr.sa, len), 0);
	ends.server = accept(listener, NULL, NULL);
	assert_true(ends.server >= 0);
	close(listener);
	assert_promised(ends.client);
	assert_promised(ends.server);
	/* The sockets then count as made by a process of that user. */
	assert_int_equal(fchown(ends.client, uid, (gid_t)-1), 0);
	assert_int_equal(fchown(ends.server, uid, (gid_t)-1), 0);
	setsockopt(ends.client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(ends.server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return ends;
}

static struct ends connected(void)
{
	return connected_by(AF_INET, USER);
}

/* With a reset: bytes that were refused would be repeated, and be refused again in another test. */
static void close_end(int fd)
{
	const struct linger reset = { .l_onoff = 1 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

static void close_ends(struct ends *ends)
{
	close_end(ends->client);
	close_end(ends->server);
}

/* ---- sending */

static size_t decline(uint8_t *buf, bool out_of_sync, bool v2)
{
	const struct smcr_clc_decline msg = { .version =
						      v2 ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1,
					      .out_of_sync = out_of_sync,
					      .diagnosis = 0x03030000 };
	int len = smcr_clc_encode_decline(&msg, buf, SMCR_CLC_DECLINE_V2_LEN);
	assert_true(len > 0);
	return (size_t)len;
}

static size_t a_proposal(uint8_t *buf)
{
	const uint8_t head[] = { 0xE2, 0xD4, 0xC3, 0xD9, SMCR_CLC_PROPOSAL, 0, 52, 0x10 };
	memset(buf, 7, 52);
	memcpy(buf, head, sizeof(head));
	memcpy(buf + 48, head, 4);
	return 52;
}

static void write_all(int fd, const void *buf, size_t len)
{
	assert_int_equal(send(fd, buf, len, MSG_NOSIGNAL), len);
}

static void assert_arrives(int fd, const void *expected, size_t len)
{
	uint8_t buf[4096];
	size_t have = 0;
	while (have < len) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		ssize_t n = recv(fd, buf + have, sizeof(buf) - have, MSG_DONTWAIT);
		assert_true(n > 0);
		have += (size_t)n;
	}
	assert_int_equal(have, len);
	assert_memory_equal(buf, expected, len);
}

static uint64_t total(void)
{
	const struct rdv_refused refused = rdv_gate_refused(gate);
	return rdv_refused_total(&refused);
}

/* On loopback bytes arrive before send() returns. */
static void assert_nothing_arrives(int fd)
{
	uint8_t byte;
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void assert_refused(int from, int to, const void *buf, size_t len)
{
	uint64_t before = total();
	write_all(from, buf, len);
	assert_true(total() > before);
	assert_nothing_arrives(to);
}

static void assert_passes(int from, int to, const void *buf, size_t len)
{
	uint64_t before = total();
	write_all(from, buf, len);
	assert_arrives(to, buf, len);
	assert_int_equal(total(), before);
}

/* A connection on which smcrd has sent the client's first message. */
static struct ends proposed(struct spoken *ret_spoken, const void *proposal, size_t len)
{
	struct ends ends = connected();
	spoken_begin(ret_spoken, ends.client);
	assert_int_equal(spoken_say(ret_spoken, proposal, len), 0);
	assert_passes(ends.client, ends.server, proposal, len);
	return ends;
}

/* ---- tests */

static void a_program_cannot_speak_clc(void **state)
{
	uint8_t buf[4096] = { 0 };
	size_t len = a_proposal(buf);
	(void)state;
	for (int family = AF_INET; family; family = family == AF_INET ? AF_INET6 : 0) {
		TRIES("family %d", family);
		struct ends ends = connected_by(family, USER);
		assert_refused(ends.client, ends.server, buf, len);
		assert_refused(ends.server, ends.client, buf, len);
		/* Nothing passes behind refused bytes. */
		write_all(ends.client, "GET /", 5);
		assert_nothing_arrives(ends.server);
		close_ends(&ends);
		/* More bytes than fit into a segment. */
		ends = connected_by(family, USER);
		assert_refused(ends.server, ends.client, buf, sizeof(buf));
		close_ends(&ends);
	}
}

static void clc_in_small_pieces_is_clc(void **state)
{
	uint8_t buf[64];
	(void)state;
	a_proposal(buf);
	for (size_t len = 1; len <= 8; len++) {
		TRIES("len %zu", len);
		struct ends ends = connected();
		assert_refused(ends.client, ends.server, buf, len);
		close_ends(&ends);
	}
	/* The eye catcher of SMC-D has the same first three bytes. */
	buf[3] = 0xC4;
	struct ends ends = connected();
	assert_refused(ends.client, ends.server, buf, 52);
	close_ends(&ends);
}

static void options_of_ip_hide_nothing(void **state)
{
	const uint8_t nops[] = { 1, 1, 1, 1 };
	uint8_t buf[64];
	size_t len = a_proposal(buf);
	struct ends ends = connected();
	(void)state;
	assert_int_equal(setsockopt(ends.client, IPPROTO_IP, IP_OPTIONS, nops, sizeof(nops)), 0);
	assert_refused(ends.client, ends.server, buf, len);
	close_ends(&ends);
	/* A destination option with six bytes of padding. */
	const uint8_t padding[] = { 0, 0, 1, 4, 0, 0, 0, 0 };
	ends = connected_by(AF_INET6, USER);
	assert_int_equal(
		setsockopt(ends.client, IPPROTO_IPV6, IPV6_DSTOPTS, padding, sizeof(padding)), 0);
	assert_refused(ends.client, ends.server, buf, len);
	close_ends(&ends);
}

static void other_bytes_than_clc_pass_and_all_behind_them(void **state)
{
	uint8_t buf[64];
	size_t len = a_proposal(buf);
	struct ends ends = connected();
	(void)state;
	assert_passes(ends.server, ends.client, "220 ready\r\n", 11);
	assert_passes(ends.client, ends.server, "Q", 1);
	/* data to the peer, which has had other bytes before */
	assert_passes(ends.client, ends.server, buf, len);
	close_ends(&ends);
}

static void a_decline_passes_and_all_behind_it(void **state)
{
	uint8_t buf[64];
	(void)state;
	for (int v2 = 0; v2 < 2; v2++) {
		TRIES("v2 %d", v2);
		struct ends ends = connected();
		assert_passes(ends.server, ends.client, buf, decline(buf, false, v2));
		assert_passes(ends.server, ends.client, "220 ready\r\n", 11);
		close_ends(&ends);
	}
	/* A Decline and the program's first bytes in one packet. */
	struct ends ends = connected();
	size_t len = decline(buf, false, false);
	memcpy(buf + len, "220", 3);
	assert_passes(ends.server, ends.client, buf, len + 3);
	close_ends(&ends);
}

static void a_decline_that_ends_groups_is_refused(void **state)
{
	uint8_t buf[64];
	struct ends ends = connected();
	(void)state;
	assert_refused(ends.server, ends.client, buf, decline(buf, true, false));
	close_ends(&ends);
	ends = connected();
	assert_refused(ends.client, ends.server, buf, decline(buf, true, true));
	close_ends(&ends);
	/* The beginning of a Decline may become any message. */
	ends = connected();
	assert_refused(ends.client, ends.server, buf, decline(buf, false, false) - 1);
	close_ends(&ends);
}

static void roots_sockets_are_let_alone(void **state)
{
	uint8_t buf[64];
	size_t len = a_proposal(buf);
	struct ends ends = connected_by(AF_INET, 0);
	(void)state;
	assert_passes(ends.client, ends.server, buf, len);
	close_ends(&ends);
}

static void only_what_smcrd_has_announced_passes(void **state)
{
	uint8_t proposal[64], forged[64];
	size_t len = a_proposal(proposal);
	struct spoken spoken;
	struct ends ends = proposed(&spoken, proposal, len);
	(void)state;
	assert_true(spoken_alone(&spoken));
	/* Another process with a descriptor of the socket sends the next message. */
	memcpy(forged, proposal, len);
	forged[4] = SMCR_CLC_CONFIRM;
	assert_refused(ends.client, ends.server, forged, len);
	assert_false(spoken_alone(&spoken));
	spoken_end(&spoken);
	close_ends(&ends);
	/* Another process sends in smcrd's place. */
	ends = connected();
	spoken_begin(&spoken, ends.client);
	assert_int_equal(spoken_say(&spoken, proposal, len), 0);
	assert_refused(ends.client, ends.server, forged, len);
	spoken_end(&spoken);
	close_ends(&ends);
}

static void messages_follow_each_other(void **state)
{
	uint8_t proposal[64], buf[64];
	size_t len = a_proposal(proposal);
	struct spoken spoken;
	struct ends ends = proposed(&spoken, proposal, len);
	(void)state;
	assert_true(spoken_alone(&spoken));
	size_t more = decline(buf, true, false);
	assert_int_equal(spoken_say(&spoken, buf, more), 0);
	assert_passes(ends.client, ends.server, buf, more);
	assert_true(spoken_alone(&spoken));
	assert_refused(ends.client, ends.server, "x", 1);
	spoken_end(&spoken);
	close_ends(&ends);
}

static void a_connection_that_falls_back_is_free(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct spoken spoken;
	struct ends ends = proposed(&spoken, proposal, len);
	(void)state;
	spoken_end(&spoken);
	spoken_free_socket(ends.client);
	assert_passes(ends.client, ends.server, "\xE2\xD4\xC3\xD9 data", 9);
	close_ends(&ends);
}

static void bytes_that_others_read_are_noticed(void **state)
{
	uint8_t buf[64];
	struct ends ends = connected();
	struct spoken spoken;
	(void)state;
	spoken_begin(&spoken, ends.client);
	/* the process behind the socket reads these bytes, smcrd does not */
	assert_passes(ends.server, ends.client, "12345678", 8);
	assert_false(spoken_alone(&spoken));
	spoken_hear(&spoken, 8);
	assert_true(spoken_alone(&spoken));
	write_all(ends.server, "123", 3);
	struct pollfd p = { .fd = ends.client, .events = POLLIN };
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_true(spoken_alone(&spoken)); /* nobody has read these bytes */
	close(ends.server);
	p.events = POLLRDHUP;
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_true(spoken_alone(&spoken));
	assert_int_equal(recv(ends.client, buf, 3, 0), 3);
	assert_false(spoken_alone(&spoken));
	spoken_hear(&spoken, 3);
	assert_true(spoken_alone(&spoken));
	spoken_end(&spoken);
	close_end(ends.client);
}

/* Bytes that others sent before smcrd looked for the first time are noticed. */
static void bytes_that_others_sent_before_are_noticed(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct ends ends = connected();
	struct spoken spoken;
	(void)state;
	write_all(ends.client, proposal, len);
	spoken_begin(&spoken, ends.client);
	assert_false(spoken_alone(&spoken));
	spoken_end(&spoken);
	close_ends(&ends);
}

static int say_as(uid_t uid, int fd, const struct ipc_spoken *said, socklen_t len)
{
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setresuid(uid, uid, 0), 0);
	int r = setsockopt(fd, IPC_SOL_SMCR, IPC_SO_SPOKEN, said, len) < 0 ? -errno : 0;
	assert_int_equal(setresuid(0, 0, 0), 0);
	return r;
}

static void only_smcrd_says_what_it_has_said(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct ipc_spoken said = { .length = (uint32_t)len };
	const struct ipc_spoken freed = { .length = IPC_SPOKEN_FREED };
	struct ends ends = connected();
	(void)state;
	memcpy(said.bytes, proposal, len);
	assert_int_equal(say_as(USER, ends.client, &said, sizeof(said)), -EPERM);
	assert_int_equal(say_as(USER, ends.client, &freed, 8), -EPERM);
	assert_int_equal(say_as(0, ends.client, &said, 8), -EINVAL);
	assert_int_equal(say_as(0, ends.client, &said, 2), -EINVAL);
	said.length = IPC_SPOKEN_MAX + 1;
	assert_int_equal(say_as(0, ends.client, &said, sizeof(said)), -EINVAL);
	assert_refused(ends.client, ends.server, proposal, len);
	close_ends(&ends);
}

static void a_socket_that_is_connected_again_is_held_again(void **state)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t addr_len = sizeof(addr);
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct spoken spoken;
	int listener = claimed_socket(AF_INET), client = claimed_socket(AF_INET);
	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 2), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &addr_len), 0);
	assert_int_equal(fchown(client, USER, (gid_t)-1), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	spoken_begin(&spoken, client);
	assert_int_equal(spoken_say(&spoken, proposal, len), 0);
	spoken_end(&spoken);
	assert_int_equal(connect(client, &none, sizeof(none)), 0);
	close(accept(listener, NULL, NULL));
	/* After another connect() nothing counts that smcrd sent before. */
	assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	int server = accept(listener, NULL, NULL);
	assert_promised(client);
	assert_refused(client, server, proposal, len);
	close_end(server);
	close_end(client);
	close(listener);
}

/* Sets the kernel's limit for a socket's options and storage in this network namespace. @return
 * true if it was set */
static bool set_room(const char *bytes)
{
	FILE *f = fopen("/proc/sys/net/core/optmem_max", "we");
	if (!f)
		return false; /* before Linux 6.8 */
	fputs(bytes, f);
	return fclose(f) == 0;
}

/* The listener gives up its claim after it has answered the SYN. Its connection exists only when
 * the first bytes come. */
static void unclaim_behind_the_answer(struct ends *ends, int *ret_listener)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	const int zero = 0, seconds = 60;
	int listener = claimed_socket(AF_INET);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(
		setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	ends->client = claimed_socket(AF_INET);
	assert_int_equal(connect(ends->client, (struct sockaddr *)&addr, len), 0);
	assert_promised(ends->client);
	assert_int_equal(setsockopt(listener, IPC_SOL_SMCR, IPC_SO_CLAIM, &zero, sizeof(zero)), 0);
	*ret_listener = listener;
}

static void giving_the_claim_up_does_not_open_the_gate(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct ends ends;
	int listener;
	(void)state;
	unclaim_behind_the_answer(&ends, &listener);
	write_all(ends.client, proposal, len);
	ends.server = accept(listener, NULL, NULL);
	assert_true(ends.server >= 0);
	assert_promised(ends.server);
	assert_int_equal(fchown(ends.server, USER, (gid_t)-1), 0);
	assert_refused(ends.server, ends.client, proposal, len);
	close(listener);
	close_ends(&ends);
}

/* If the BPF programs get no memory for the socket, no connection comes about. */
static void without_memory_for_a_socket_there_is_no_connection(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct ends ends;
	int listener;
	(void)state;
	unclaim_behind_the_answer(&ends, &listener);
	if (set_room("0")) {
		write_all(ends.client, proposal, len);
		assert_true(set_room("131072"));
		assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(accept(listener, NULL, NULL), -1);
		assert_int_equal(errno, EAGAIN);
	}
	close(listener);
	close_end(ends.client);
}

static void users_are_told_apart(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	const struct rdv_refused refused = rdv_gate_refused(gate);
	const struct rdv_refused none = rdv_gate_refused(NULL);
	struct rdv_refused_users users;
	struct ends ends = connected_by(AF_INET, USER + 1), others = connected();
	(void)state;
	rdv_refused_take(&refused, &users);
	assert_int_equal(users.num, 1);
	assert_int_equal(users.most, USER);
	assert_true(users.times > 0 && users.times <= total());
	assert_refused(ends.client, ends.server, proposal, len);
	rdv_refused_take(&refused, &users);
	assert_int_equal(users.num, 1);
	assert_int_equal(users.most, USER + 1);
	assert_refused(ends.server, ends.client, proposal, len);
	assert_refused(others.server, others.client, proposal, len);
	rdv_refused_take(&refused, &users);
	assert_int_equal(users.num, 2);
	rdv_refused_take(&none, &users);
	assert_int_equal(users.num, 0);
	assert_int_equal(rdv_refused_total(&none), 0);
	close_ends(&ends);
	close_ends(&others);
}

/* Bytes that the gate has held back go out with TCP's next retransmission. */
static void without_the_gate_all_passes(void **state)
{
	uint8_t proposal[64];
	size_t len = a_proposal(proposal);
	struct ends ends = connected();
	(void)state;
	assert_refused(ends.client, ends.server, proposal, len);
	rdv_gate_close(gate);
	gate = NULL;
	assert_arrives(ends.server, proposal, len);
	assert_int_equal(open_gate(), 0);
	assert_refused(ends.server, ends.client, proposal, len);
	close_ends(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_cannot_speak_clc),
		cmocka_unit_test(clc_in_small_pieces_is_clc),
		cmocka_unit_test(options_of_ip_hide_nothing),
		cmocka_unit_test(other_bytes_than_clc_pass_and_all_behind_them),
		cmocka_unit_test(a_decline_passes_and_all_behind_it),
		cmocka_unit_test(a_decline_that_ends_groups_is_refused),
		cmocka_unit_test(roots_sockets_are_let_alone),
		cmocka_unit_test(only_what_smcrd_has_announced_passes),
		cmocka_unit_test(messages_follow_each_other),
		cmocka_unit_test(a_connection_that_falls_back_is_free),
		cmocka_unit_test(bytes_that_others_read_are_noticed),
		cmocka_unit_test(bytes_that_others_sent_before_are_noticed),
		cmocka_unit_test(only_smcrd_says_what_it_has_said),
		cmocka_unit_test(a_socket_that_is_connected_again_is_held_again),
		cmocka_unit_test(giving_the_claim_up_does_not_open_the_gate),
		cmocka_unit_test(without_memory_for_a_socket_there_is_no_connection),
		cmocka_unit_test(users_are_told_apart),
		cmocka_unit_test(without_the_gate_all_passes),
	};
	return cmocka_run_group_tests_name("gate", tests, setup_group, teardown_group);
}
