/* SPDX-License-Identifier: MIT */
/* How the BPF programs remember what they have answered to a SYN, while many other SYNs come. Needs
 * root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/rendezvous/bpf/rule.h"
#include "proto/ipc/ipc.h"
#include "tests/lib/option.h"

#define MANY    18000 /* more than the BPF map can hold */
#define BACKLOG 4000
#define SERVER  7001 /* program numbers as rules name them */
#define CLIENT  7002

static struct rdv_option *option;

static int setup_group(void **state)
{
	struct rlimit limit = { MANY + 1000, MANY + 1000 };
	(void)state;
	if (option_setup(&option) < 0)
		return -1;
	if (system("sysctl -qw net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=8192") != 0 ||
	    setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		print_error("needs root: longer queues, more descriptors\n");
		return -1;
	}
	return 0;
}

static int teardown_group(void **state)
{
	(void)state;
	rdv_option_close(option);
	return 0;
}

/* ---- sockets */

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = port };
	assert_int_equal(inet_pton(AF_INET, ip, &addr.sin_addr), 1);
	return addr;
}

static int claimed(uint64_t program)
{
	const struct ipc_claim claim = { .wanted = 1, .program = program };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)), 0);
	return fd;
}

/** @param defers  accept() waits until the client has sent data (TCP_DEFER_ACCEPT) */
static int listening(bool defers, struct sockaddr_in *ret_addr)
{
	socklen_t len = sizeof(*ret_addr);
	int seconds = 60, fd = claimed(SERVER);
	*ret_addr = at("127.0.0.1", 0);
	if (defers)
		assert_int_equal(
			setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds)),
			0);
	assert_int_equal(bind(fd, (struct sockaddr *)ret_addr, len), 0);
	assert_int_equal(listen(fd, BACKLOG + 96), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret_addr, &len), 0);
	return fd;
}

/** @param from  NULL: any address; the kernel finds a free port sooner then */
static int connected(const char *from, const struct sockaddr_in *to)
{
	const struct linger reset = { .l_onoff = 1 }; /* no port stays in TIME_WAIT */
	int fd = claimed(CLIENT);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (from) {
		const struct sockaddr_in source = at(from, 0);
		assert_int_equal(bind(fd, (const struct sockaddr *)&source, sizeof(source)), 0);
	}
	assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof(*to)), 0);
	return fd;
}

/** Completes a deferred handshake. @return what the server knows of it */
static struct rdv_option_state finish(int listener, int client)
{
	struct rdv_option_state known;
	assert_int_equal(send(client, "x", 1, MSG_NOSIGNAL), 1);
	int server = accept(listener, NULL, NULL);
	assert_true(server >= 0);
	assert_int_equal(rdv_option_query(option, server, &known), 0);
	close(server);
	close(client);
	return known;
}

/* ---- other hosts' handshakes meanwhile */

static void many_connections(void)
{
	struct sockaddr_in addr;
	int listener = listening(false, &addr);
	for (int i = 0; i < MANY; i++) {
		int client = connected(NULL, &addr), server = accept(listener, NULL, NULL);
		assert_true(server >= 0);
		close(client);
		close(server);
	}
	close(listener);
}

static void many_half_open(void)
{
	static int clients[MANY];
	int listeners[MANY / BACKLOG + 1];
	struct sockaddr_in addr;
	for (int i = 0; i < MANY; i++) {
		if (i % BACKLOG == 0)
			listeners[i / BACKLOG] = listening(true, &addr);
		clients[i] = connected(NULL, &addr);
	}
	for (int i = 0; i < MANY; i++)
		close(clients[i]);
	for (int i = 0; i <= (MANY - 1) / BACKLOG; i++)
		close(listeners[i]);
}

/* ---- tests */

static struct smcr_addr host(const char *ip)
{
	struct smcr_addr addr = { .family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, ip, addr.ip), 1);
	return addr;
}

/** Connections that come and go do not push out the answer to a slow handshake: what was refused
 *  stays refused. */
static void connections_that_come_and_go_push_nothing_out(void **state)
{
	struct smcr_addr peer = host("127.0.0.5");
	struct sockaddr_in addr;
	(void)state;
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 1000, "a test"), 0);
	int listener = listening(true, &addr), client = connected("127.0.0.5", &addr);
	many_connections();
	struct rdv_option_state known = finish(listener, client);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_NO);
	assert_int_equal(known.reason, SMCR_REASON_PEER_SKIPPED);
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), 0);
	close(listener);
}

/** So many handshakes are begun that an answer is lost. The rule still tells that the option was
 *  refused. */
static void a_rule_tells_what_was_answered(void **state)
{
	const struct smcr_rule deny = { .flags =
						SMCR_RULE_DENY | SMCR_RULE_PROGRAM | SMCR_RULE_PEER,
					.program = SERVER,
					.peer = { { 0, 0, htonl(0xFFFF), htonl(0x7F000005) } },
					.peer_mask = { { ~0u, ~0u, ~0u, ~0u } } };
	struct sockaddr_in addr;
	(void)state;
	assert_int_equal(rdv_option_set_rule(option, 0, &deny), 0);
	int listener = listening(true, &addr), client = connected("127.0.0.5", &addr);
	many_half_open();
	struct rdv_option_state known = finish(listener, client);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_NO);
	assert_int_equal(known.reason, SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(rdv_option_set_rule(option, 0, NULL), 0);
	close(listener);
}

/** A promise stands, even if new handshakes are refused meanwhile. */
static void a_promise_stands_though_its_record_is_lost(void **state)
{
	struct sockaddr_in addr;
	(void)state;
	int listener = listening(true, &addr), client = connected("127.0.0.5", &addr);
	many_half_open();
	rdv_option_hold(option, SMCR_REASON_NO_DEVICE);
	struct rdv_option_state known = finish(listener, client);
	rdv_option_hold(option, SMCR_REASON_NONE);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_YES);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_that_come_and_go_push_nothing_out),
		cmocka_unit_test(a_rule_tells_what_was_answered),
		cmocka_unit_test(a_promise_stands_though_its_record_is_lost),
	};
	return cmocka_run_group_tests_name("answers", tests, setup_group, teardown_group);
}
