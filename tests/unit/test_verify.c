/* SPDX-License-Identifier: MIT */
/* What the BPF programs must know of a socket so that a rendezvous may begin on it. Needs root. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/policy/policy.h"
#include "daemon/rendezvous/handshake.h"
#include "daemon/rendezvous/option.h"
#include "proto/smcr/reason.h"
#include "tests/lib/option.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define PATIENCE_S 10

/* All tests share a network namespace of their own, with the option attached. */
static struct rdv_option *option;
static struct event_base *base;

static int setup_group(void **state)
{
	(void)state;
	if (option_setup(&option) < 0)
		return -1;
	base = event_base_new();
	return base ? 0 : -1;
}

static int teardown_group(void **state)
{
	(void)state;
	rdv_option_close(option);
	event_base_free(base);
	return 0;
}

static void claim(int fd)
{
	int one = 1;
	assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &one, sizeof(one)), 0);
}

static int tcp_socket(bool claimed)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	if (claimed)
		claim(fd);
	return fd;
}

static int listen_on_loopback(bool claimed, int backlog, struct sockaddr_in *ret_addr)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = tcp_socket(claimed);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(fd, backlog), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	*ret_addr = addr;
	return fd;
}

static int connect_to(int fd, const struct sockaddr_in *addr)
{
	return connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? -errno : 0;
}

struct ends {
	int client, server;
	struct sockaddr_in addr; /* where the server has listened */
};

static struct ends connected(bool client_claimed, bool server_claimed)
{
	struct ends ends;
	int listener = listen_on_loopback(server_claimed, 4, &ends.addr);
	ends.client = tcp_socket(client_claimed);
	assert_int_equal(connect_to(ends.client, &ends.addr), 0);
	ends.server = accept(listener, NULL, NULL);
	assert_true(ends.server >= 0);
	close(listener);
	return ends;
}

static void close_ends(struct ends *ends)
{
	close(ends->client);
	close(ends->server);
}

static int verify(int fd, enum ipc_handover_kind kind, struct rdv_verdict *ret_verdict)
{
	int r = rdv_verify_socket(option, fd, kind, ret_verdict);
	/* A refusal has a sentence, otherwise there is none. */
	assert_int_equal(r < 0, ret_verdict->text[0] != '\0');
	return r;
}

static void assert_refused(int fd, enum ipc_handover_kind kind, int error, const char *why)
{
	struct rdv_verdict verdict;
	assert_int_equal(verify(fd, kind, &verdict), error);
	if (!strstr(verdict.text, why))
		fail_msg("\"%s\" does not say \"%s\"", verdict.text, why);
}

static void fit_sockets_pass_with_their_addresses_and_outcome(void **state)
{
	struct rdv_verdict verdict;
	struct ends ends = connected(true, true);
	(void)state;
	assert_int_equal(verify(ends.client, IPC_HANDOVER_CONNECTED, &verdict), 0);
	assert_int_equal(verdict.option.negotiated, IPC_NEGOTIATED_YES);
	assert_int_equal(verdict.option.role, SMCR_ROLE_CLIENT);
	assert_int_equal(verdict.peer.family, AF_INET);
	assert_int_equal(verdict.peer.port, ntohs(ends.addr.sin_port));
	assert_memory_equal(verdict.peer.ip, &ends.addr.sin_addr, 4);
	uint16_t client_port = verdict.local.port;
	assert_int_equal(verify(ends.client, IPC_HANDOVER_CONNECTING, &verdict), 0);

	assert_int_equal(verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	assert_int_equal(verdict.option.negotiated, IPC_NEGOTIATED_YES);
	assert_int_equal(verdict.option.role, SMCR_ROLE_SERVER);
	assert_int_equal(verdict.local.port, ntohs(ends.addr.sin_port));
	assert_int_equal(verdict.peer.port, client_port);
	close_ends(&ends);
	PROVES("TCPO-6");
}

static void the_outcome_says_why_not(void **state)
{
	struct rdv_option_state known;
	struct smcr_addr peer = { .family = AF_INET, .ip = { 127, 0, 0, 1 } };
	struct ends ends = connected(true, false);
	(void)state;
	assert_int_equal(rdv_option_query(option, ends.client, &known), 0);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_NO);
	assert_int_equal(known.reason, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(rdv_option_query(option, ends.server, &known), 0);
	assert_false(known.claimed);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_UNKNOWN);
	close_ends(&ends);

	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 60, "no path"), 0);
	ends = connected(true, true);
	assert_int_equal(rdv_option_query(option, ends.client, &known), 0);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_NO);
	assert_int_equal(known.reason, SMCR_REASON_PEER_SKIPPED);
	assert_int_equal(rdv_option_query(option, ends.server, &known), 0);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_NO);
	assert_int_equal(known.reason, SMCR_REASON_PEER_NO_SMC);
	close_ends(&ends);
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), 0);

	/* Another user's connections have failed. */
	assert_int_equal(rdv_option_skip_peer(option, getuid() + 1, &peer, 60, "no path"), 0);
	ends = connected(true, true);
	assert_int_equal(rdv_option_query(option, ends.client, &known), 0);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_YES);
	close_ends(&ends);
	assert_int_equal(rdv_option_unskip_peer(option, getuid() + 1, &peer), 0);

	rdv_option_hold(option, SMCR_REASON_NO_DEVICE);
	ends = connected(true, true);
	assert_int_equal(rdv_option_query(option, ends.client, &known), 0);
	assert_int_equal(known.reason, SMCR_REASON_NO_DEVICE);
	close_ends(&ends);
	rdv_option_hold(option, SMCR_REASON_NONE);
	PROVES("TCPO-8");
}

static void a_claim_tells_user_and_program(void **state)
{
	const struct ipc_claim claim = { .wanted = 1, .program = 0x123456789abcdef0 };
	struct rdv_option_state known;
	struct sockaddr_in addr;
	(void)state;
	int listener = listen_on_loopback(false, 4, &addr);
	assert_int_equal(setsockopt(listener, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)),
			 0);
	/* In a child process: this process stays root. */
	pid_t child = fork();
	if (child == 0) {
		bool ok = setuid(4711) == 0;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		ok = ok && !setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(int)) &&
		     connect_to(fd, &addr) == 0 && rdv_option_query(option, fd, &known) == 0;
		_exit(ok && known.uid == 4711 && known.program == 0 ? 0 : 1);
	}
	int status;
	int server = accept(listener, NULL, NULL);
	assert_true(server >= 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rdv_option_query(option, server, &known), 0);
	assert_int_equal(known.uid, 0);
	assert_true(known.program == claim.program);
	close(server);
	close(listener);
}

/* ---- rules, own addresses and short connections, in the BPF programs */

static struct ends connected_to(int listener, const struct sockaddr_in *addr)
{
	struct ends ends = { .addr = *addr, .client = tcp_socket(true) };
	assert_int_equal(connect_to(ends.client, addr), 0);
	ends.server = accept(listener, NULL, NULL);
	assert_true(ends.server >= 0);
	return ends;
}

/* The reasons why the client's side did not send the option, and the server's side did not answer
 * it. */
static void expect_reasons(int listener, const struct sockaddr_in *addr, uint32_t client,
			   uint32_t server)
{
	struct rdv_option_state known;
	struct ends ends = connected_to(listener, addr);
	assert_int_equal(rdv_option_query(option, ends.client, &known), 0);
	assert_int_equal(known.reason, client);
	assert_int_equal(rdv_option_query(option, ends.server, &known), 0);
	assert_int_equal(known.reason, server);
	close_ends(&ends);
}

static void set_rule(uint32_t place, const char *text)
{
	struct policy_rule rule;
	char why[POLICY_WHY_LEN];
	assert_int_equal(policy_rule_parse(text, true, &rule, why), 0);
	assert_int_equal(rdv_option_set_rule(option, place, &rule.match), 0);
}

static void clear_rule(uint32_t place)
{
	assert_int_equal(rdv_option_set_rule(option, place, NULL), 0);
}

static void rules_keep_the_option_off(void **state)
{
	static const char *const deny[] = { "deny port 1-65535",    "deny uid 0",
					    "deny peer 127.0.0.1",  "deny peer 127.0.0.0/8",
					    "deny local 127.0.0.1", "deny all" };
	static const char *const other[] = { "deny port 1", "deny uid 1", "deny peer 127.0.0.2",
					     "deny local 127.0.0.2", "deny program /usr/bin/ssh" };
	struct sockaddr_in addr;
	char exact[32];
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	for (size_t i = 0; i < sizeof(deny) / sizeof(deny[0]); i++) {
		TRIES("%s", deny[i]);
		set_rule(0, deny[i]);
		expect_reasons(listener, &addr, SMCR_REASON_LOCAL_POLICY, SMCR_REASON_PEER_NO_SMC);
		assert_int_equal(rdv_option_rule_hits(option, 0), 1);
	}
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		TRIES("%s", other[i]);
		set_rule(0, other[i]);
		expect_reasons(listener, &addr, 0, 0);
		assert_int_equal(rdv_option_rule_hits(option, 0), 0);
	}
	snprintf(exact, sizeof(exact), "deny port %u", ntohs(addr.sin_port));
	set_rule(0, exact);
	expect_reasons(listener, &addr, SMCR_REASON_LOCAL_POLICY, SMCR_REASON_PEER_NO_SMC);
	clear_rule(0);
	close(listener);
}

static void the_last_rule_counts_and_empty_places_do_not(void **state)
{
	struct sockaddr_in addr;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	set_rule(SMCR_MAX_RULES - 1, "deny all");
	expect_reasons(listener, &addr, SMCR_REASON_LOCAL_POLICY, SMCR_REASON_PEER_NO_SMC);
	clear_rule(SMCR_MAX_RULES - 1);
	expect_reasons(listener, &addr, 0, 0);
	assert_int_equal(rdv_option_set_rule(option, SMCR_MAX_RULES, NULL), -EINVAL);
	close(listener);
}

/* Both ends of these connections are on this host: a connection that is allowed counts twice. */
static void what_no_rule_allows_is_denied(void **state)
{
	struct sockaddr_in addr;
	uint64_t before = rdv_option_rule_hits(option, SMCR_MAX_RULES);
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	set_rule(3, "allow port 1");
	expect_reasons(listener, &addr, SMCR_REASON_LOCAL_POLICY, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(rdv_option_rule_hits(option, 3), 0);
	assert_int_equal(rdv_option_rule_hits(option, SMCR_MAX_RULES), before + 1);
	set_rule(1, "allow local 127.0.0.1");
	expect_reasons(listener, &addr, 0, 0);
	assert_int_equal(rdv_option_rule_hits(option, 1), 2);
	set_rule(2, "deny uid 0");
	expect_reasons(listener, &addr, SMCR_REASON_LOCAL_POLICY, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(rdv_option_rule_hits(option, 1), 2);
	assert_int_equal(rdv_option_rule_hits(option, 2), 1);
	for (uint32_t place = 1; place <= 3; place++)
		clear_rule(place);
	expect_reasons(listener, &addr, 0, 0);
	close(listener);
}

/* The client's side does not know the server's program. The server's side does, and denies. */
static void a_server_is_judged_by_its_program(void **state)
{
	const struct ipc_claim claim = { .wanted = 1,
					 .program = ipc_program_id("/sbin/httpd", 11) };
	struct sockaddr_in addr;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	assert_int_equal(setsockopt(listener, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)),
			 0);
	set_rule(0, "deny program /sbin/httpd");
	expect_reasons(listener, &addr, SMCR_REASON_PEER_NO_SMC, SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(rdv_option_rule_hits(option, 0), 1);
	clear_rule(0);
	close(listener);
}

static void own_addresses_stay_tcp(void **state)
{
	struct smcr_addr own = { .family = AF_INET, .ip = { 10, 99, 0, 1 } };
	struct sockaddr_in addr;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	expect_reasons(listener, &addr, 0, 0);
	/* As soon as an own address is known, loopback addresses count as own. */
	assert_int_equal(rdv_option_own_address(option, &own, true), 0);
	assert_int_equal(rdv_option_own_address(option, &own, true), 0);
	expect_reasons(listener, &addr, SMCR_REASON_OWN_HOST, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(rdv_option_own_address(option, &own, false), 0);
	assert_int_equal(rdv_option_own_address(option, &own, false), 0);
	expect_reasons(listener, &addr, 0, 0);
	own.family = AF_UNIX;
	assert_int_equal(rdv_option_own_address(option, &own, true), -EINVAL);
	assert_int_equal(
		rdv_option_own_address(NULL, &(struct smcr_addr){ .family = AF_INET }, true), 0);
	close(listener);
}

/* How many of `n` connections carry the option. */
static unsigned int count_tried(int listener, const struct sockaddr_in *addr, unsigned int n)
{
	unsigned int tried = 0;
	for (unsigned int i = 0; i < n; i++) {
		struct rdv_option_state known;
		struct ends ends = connected_to(listener, addr);
		assert_int_equal(rdv_option_query(option, ends.server, &known), 0);
		tried += known.negotiated == IPC_NEGOTIATED_YES;
		close_ends(&ends);
	}
	return tried;
}

static void short_connections_are_left_on_tcp_but_for_a_sample(void **state)
{
	struct sockaddr_in addr;
	struct rdv_place where = { .uid = getuid(),
				   .peer = { .family = AF_INET, .ip = { 127, 0, 0, 1 } } };
	uint64_t left, tried;
	where.local = where.peer;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	where.peer.port = ntohs(addr.sin_port);
	assert_int_equal(rdv_option_short_counts(option, &where, &left, &tried), -ENOENT);
	for (int i = 0; i < 2; i++) {
		TRIES("server %d", i);
		where.server = i;
		assert_int_equal(rdv_option_set_short(option, &where, true), 0);
		unsigned int n = count_tried(listener, &addr, 1600);
		/* One in 32 is tried, by chance: that is 50, with a deviation of 7. */
		assert_in_range(n, 15, 110);
		assert_int_equal(rdv_option_short_counts(option, &where, &left, &tried), 0);
		assert_int_equal(tried, n);
		assert_int_equal(left, 1600 - n);
		assert_int_equal(rdv_option_set_short(option, &where, false), 0);
		assert_int_equal(rdv_option_set_short(option, &where, false), -ENOENT);
		assert_int_equal(count_tried(listener, &addr, 40), 40);
	}
	where.peer.port = 0;
	assert_int_equal(rdv_option_set_short(option, &where, true), -EINVAL);
	close(listener);
}

/* A program that requires SMC-R gets it even where connections are short. */
static void who_requires_smc_is_not_left_on_tcp(void **state)
{
	const struct ipc_claim claim = { .wanted = 1, .flags = IPC_CLAIM_REQUIRED };
	struct sockaddr_in addr;
	struct rdv_place where = { .uid = getuid(),
				   .peer = { .family = AF_INET, .ip = { 127, 0, 0, 1 } } };
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	where.peer.port = ntohs(addr.sin_port);
	assert_int_equal(rdv_option_set_short(option, &where, true), 0);
	for (int i = 0; i < 40; i++) {
		struct rdv_option_state known;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)),
				 0);
		assert_int_equal(connect_to(fd, &addr), 0);
		assert_int_equal(rdv_option_query(option, fd, &known), 0);
		assert_int_equal(known.negotiated, IPC_NEGOTIATED_YES);
		close(fd);
		close(accept(listener, NULL, NULL));
	}
	assert_int_equal(rdv_option_set_short(option, &where, false), 0);
	close(listener);
}

/* Another user, another peer, another port: each counts for itself, at the client and at the
 * server; there another address of its own, too. */
static void short_connections_of_others_are_let_alone(void **state)
{
	struct sockaddr_in addr;
	struct rdv_place here = { .uid = getuid(),
				  .peer = { .family = AF_INET, .ip = { 127, 0, 0, 1 } } };
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	here.peer.port = ntohs(addr.sin_port);
	here.local = here.peer;
	struct rdv_place others[] = { here, here, here, here };
	others[0].uid++;
	others[1].peer.ip[3]++;
	others[2].peer.port++;
	others[3].local.ip[3]++;
	for (size_t i = 0; i < 7; i++) {
		TRIES("%zu", i);
		struct rdv_place *where = &others[i / 2];
		where->server = i % 2 || i == 6;
		assert_int_equal(rdv_option_set_short(option, where, true), 0);
		assert_int_equal(count_tried(listener, &addr, 40), 40);
		assert_int_equal(rdv_option_set_short(option, where, false), 0);
	}
	close(listener);
}

/* However often a user connects, the sample of a client has no more than so many a second. */
static void a_sample_has_a_rate(void **state)
{
	struct sockaddr_in addr;
	struct rdv_place where = { .uid = getuid(),
				   .peer = { .family = AF_INET, .ip = { 127, 0, 0, 1 } } };
	struct timespec begin, end;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	where.peer.port = ntohs(addr.sin_port);
	rdv_option_set_sample(option, 1);
	assert_int_equal(rdv_option_set_short(option, &where, true), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	unsigned int n = count_tried(listener, &addr, 1600);
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_in_range(n, 1, end.tv_sec - begin.tv_sec + 2);
	assert_int_equal(rdv_option_set_short(option, &where, false), 0);
	rdv_option_set_sample(option, 0);
	close(listener);
}

static void other_descriptors_are_refused(void **state)
{
	int pipes[2], pair[2];
	struct rdv_option_state known;
	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_refused(pipes[0], IPC_HANDOVER_CONNECTED, -ENOTSOCK, "not a socket");
	assert_int_equal(rdv_option_query(option, pipes[0], &known), -ENOTSOCK);
	close(pipes[0]);
	close(pipes[1]);
	assert_refused(pipes[0], IPC_HANDOVER_CONNECTED, -EBADF, "not a socket");
	assert_int_equal(rdv_option_query(option, pipes[0], &known), -EBADF);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_refused(pair[0], IPC_HANDOVER_CONNECTED, -EPROTONOSUPPORT, "not a TCP socket");
	close(pair[0]);
	close(pair[1]);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_refused(fd, IPC_HANDOVER_CONNECTED, -EPROTONOSUPPORT, "not a TCP socket");
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	assert_true(fd >= 0);
	assert_refused(fd, IPC_HANDOVER_CONNECTED, -EPROTONOSUPPORT, "MPTCP");
	close(fd);
	fd = tcp_socket(true);
	assert_refused(fd, (enum ipc_handover_kind)9, -EINVAL, "unknown kind");
	close(fd);
}

static void a_socket_of_another_namespace_is_refused(void **state)
{
	int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	(void)state;
	assert_true(own >= 0);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int one = 1;
	assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &one, sizeof(one)), -1);
	assert_int_equal(setns(own, CLONE_NEWNET), 0);
	close(own);
	assert_refused(fd, IPC_HANDOVER_CONNECTED, -EXDEV, "another network namespace");
	close(fd);
}

static void an_unclaimed_socket_is_refused(void **state)
{
	struct rdv_verdict verdict;
	struct ends ends = connected(false, true);
	(void)state;
	assert_refused(ends.client, IPC_HANDOVER_CONNECTED, -EACCES, "not claimed");
	assert_int_equal(rdv_verify_socket(NULL, ends.client, IPC_HANDOVER_CONNECTED, &verdict),
			 -EOPNOTSUPP);
	/* Only the claim is missing: all that is known of the socket is filled in. */
	assert_int_equal(verdict.peer.port, ntohs(ends.addr.sin_port));
	close_ends(&ends);
}

static void the_state_must_fit_the_kind(void **state)
{
	struct sockaddr_in addr;
	struct ends ends = connected(true, true);
	(void)state;
	int listener = listen_on_loopback(true, 1, &addr);
	assert_refused(listener, IPC_HANDOVER_ACCEPTED, -ENOTCONN, "accepted");
	assert_refused(listener, IPC_HANDOVER_CONNECTING, -ENOTCONN, "connecting");
	close(listener);
	int fresh = tcp_socket(true);
	assert_refused(fresh, IPC_HANDOVER_CONNECTED, -ENOTCONN, "connected");
	close(fresh);
	shutdown(ends.client, SHUT_WR);
	assert_refused(ends.client, IPC_HANDOVER_CONNECTED, -ENOTCONN, "connected");
	close_ends(&ends);
}

static void bytes_that_passed_are_noticed_and_waiting_ones_allowed(void **state)
{
	struct rdv_verdict verdict;
	struct ends ends = connected(true, true);
	char byte;
	(void)state;
	/* The client's Proposal may come before accept() returns, and so may its FIN. */
	assert_int_equal(send(ends.client, "proposal", 8, 0), 8);
	assert_int_equal(verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	assert_refused(ends.client, IPC_HANDOVER_CONNECTED, -EISCONN, "8 bytes sent");
	shutdown(ends.client, SHUT_WR);
	assert_int_equal(recv(ends.server, &byte, 1, MSG_PEEK), 1);
	assert_int_equal(verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	assert_int_equal(recv(ends.server, &byte, 1, 0), 1);
	assert_refused(ends.server, IPC_HANDOVER_ACCEPTED, -EISCONN, "1 read");
	close_ends(&ends);
	ends = connected(true, true);
	shutdown(ends.client, SHUT_WR);
	assert_int_equal(recv(ends.server, &byte, 1, 0), 0);
	assert_int_equal(verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	close_ends(&ends);
}

static void a_deferred_fast_open_connect_is_refused(void **state)
{
	struct sockaddr_in addr;
	int one = 1, listener = listen_on_loopback(true, 1, &addr), fd = tcp_socket(true);
	(void)state;
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof(one)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &one, sizeof(one)), 0);
	assert_int_equal(connect_to(fd, &addr), 0);
	assert_refused(fd, IPC_HANDOVER_CONNECTING, -ENOTCONN, "TCP_FASTOPEN_CONNECT");
	close(fd);
	close(listener);
}

/* ---- the mark on promised sockets */

static int syn_retries(int fd)
{
	int value = 0;
	socklen_t len = sizeof(value);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &value, &len), 0);
	return value;
}

static void set_syn_retries(int fd, int value)
{
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &value, sizeof(value)), 0);
}

/* The daemon dies, and another one starts. */
static void restart_option(void)
{
	char text[RDV_TEXT_MAX];
	rdv_option_close(option);
	assert_int_equal(option_open(&option, text), 0);
}

static void a_promise_outlives_the_daemon(void **state)
{
	struct rdv_verdict verdict;
	struct ends ends = connected(true, true);
	(void)state;
	int usual = syn_retries(ends.client);
	assert_int_equal(syn_retries(ends.server), IPC_PROMISE_MARK);
	restart_option();
	assert_int_equal(verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	assert_true(verdict.marked);
	assert_int_equal(verdict.option.negotiated, IPC_NEGOTIATED_YES);
	assert_int_equal(verdict.option.role, SMCR_ROLE_SERVER);
	/* The mark also counts without BPF programs. */
	assert_int_equal(rdv_verify_socket(NULL, ends.server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	assert_int_equal(verdict.option.negotiated, IPC_NEGOTIATED_YES);
	/* On a socket of connect() the mark means nothing. */
	set_syn_retries(ends.client, IPC_PROMISE_MARK);
	assert_refused(ends.client, IPC_HANDOVER_CONNECTED, -EACCES, "not claimed");
	rdv_unmark(ends.server, &verdict);
	assert_int_equal(syn_retries(ends.server), usual);
	assert_refused(ends.server, IPC_HANDOVER_ACCEPTED, -EACCES, "not claimed");
	close_ends(&ends);
}

static void a_refused_socket_tells_its_promise_too(void **state)
{
	struct rdv_verdict verdict;
	struct ends ends = connected(true, true);
	const struct linger reset = { .l_onoff = 1 };
	char byte;
	(void)state;
	setsockopt(ends.client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	assert_int_equal(send(ends.client, "proposal", 8, 0), 8);
	close(ends.client);
	assert_int_equal(verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict), -ENOTCONN);
	assert_int_equal(verdict.option.negotiated, IPC_NEGOTIATED_YES);
	/* the byte that the program would read */
	assert_int_equal(recv(ends.server, &byte, 1, 0), 1);
	close(ends.server);
}

static void only_a_promise_is_marked(void **state)
{
	struct rdv_verdict verdict;
	(void)state;
	for (int i = 0; i < 3; i++) {
		TRIES("case %d", i);
		struct ends ends = connected(i & 1, i & 2);
		assert_int_equal(syn_retries(ends.server), syn_retries(ends.client));
		verify(ends.server, IPC_HANDOVER_ACCEPTED, &verdict);
		assert_false(verdict.marked);
		close_ends(&ends);
	}
}

static void the_programs_own_number_comes_back(void **state)
{
	struct rdv_verdict verdict;
	struct sockaddr_in addr;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr), client = tcp_socket(true);
	set_syn_retries(listener, 5);
	set_syn_retries(client, 4);
	assert_int_equal(connect_to(client, &addr), 0);
	int server = accept(listener, NULL, NULL);
	assert_int_equal(syn_retries(client), 4);
	assert_int_equal(syn_retries(server), IPC_PROMISE_MARK);
	assert_int_equal(verify(server, IPC_HANDOVER_ACCEPTED, &verdict), 0);
	rdv_unmark(server, &verdict);
	assert_int_equal(syn_retries(server), 5);
	close(server);
	close(client);
	close(listener);
}

/* ---- limits */

static uint32_t reason_of(int fd)
{
	struct rdv_option_state known;
	assert_int_equal(rdv_option_query(option, fd, &known), 0);
	return known.reason;
}

static void who_is_at_a_limit_promises_nothing(void **state)
{
	(void)state;
	const uid_t uid = getuid(), other = uid + 1;
	assert_int_equal(rdv_option_limit_user(option, other, SMCR_REASON_LIMIT), 0);
	struct ends ends = connected(true, true);
	assert_int_equal(syn_retries(ends.server), IPC_PROMISE_MARK);
	close_ends(&ends);
	assert_int_equal(rdv_option_limit_user(option, uid, SMCR_REASON_LIMIT), 0);
	ends = connected(true, true);
	assert_int_equal(reason_of(ends.client), SMCR_REASON_LIMIT);
	close_ends(&ends);
	assert_int_equal(rdv_option_limit_user(option, uid, SMCR_REASON_NONE), 0);
	assert_int_equal(rdv_option_limit_user(option, other, SMCR_REASON_NONE), 0);
	rdv_option_limit(option, SMCR_REASON_NO_DESCRIPTORS);
	ends = connected(true, true);
	assert_int_equal(reason_of(ends.client), SMCR_REASON_NO_DESCRIPTORS);
	close_ends(&ends);
	rdv_option_limit(option, SMCR_REASON_NONE);
	ends = connected(true, true);
	assert_int_equal(reason_of(ends.client), SMCR_REASON_NONE);
	assert_int_equal(syn_retries(ends.server), IPC_PROMISE_MARK);
	close_ends(&ends);
	PROVES("TCPO-8");
}

/* In a child process another user claims the listener, which this process goes on using. */
static void claim_as(int fd, uid_t uid)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int one = 1;
		if (setuid(uid) < 0 ||
		    setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &one, sizeof(one)) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_listener_belongs_to_its_last_claimer(void **state)
{
	struct sockaddr_in addr;
	const uid_t worker = 12345;
	(void)state;
	int listener = listen_on_loopback(true, 4, &addr);
	assert_int_equal(rdv_option_limit_user(option, worker, SMCR_REASON_LIMIT), 0);
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			claim_as(listener, worker);
		else if (i == 2)
			claim(listener);
		int client = tcp_socket(true);
		assert_int_equal(connect_to(client, &addr), 0);
		int server = accept(listener, NULL, NULL);
		assert_int_equal(reason_of(server), i == 1 ? SMCR_REASON_LIMIT : SMCR_REASON_NONE);
		assert_int_equal(reason_of(client),
				 i == 1 ? SMCR_REASON_PEER_NO_SMC : SMCR_REASON_NONE);
		close(client);
		close(server);
	}
	assert_int_equal(rdv_option_limit_user(option, worker, SMCR_REASON_NONE), 0);
	close(listener);
}

/* ---- connect() that is in progress */

/* A listener with a full queue: SYNs are dropped until the first connection is accepted. */
struct full {
	int listener, first;
	struct sockaddr_in addr;
};

static struct full full_listener(void)
{
	struct full full;
	full.listener = listen_on_loopback(true, 0, &full.addr);
	full.first = tcp_socket(true);
	assert_int_equal(connect_to(full.first, &full.addr), 0);
	return full;
}

static int connecting_to(const struct full *full)
{
	int fd = tcp_socket(true);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(connect_to(fd, &full->addr), -EINPROGRESS);
	return fd;
}

static void a_connect_without_the_option_is_settled_before_it_ends(void **state)
{
	struct rdv_option_state known;
	int negotiated = -1;
	socklen_t len = sizeof(negotiated);
	(void)state;
	rdv_option_hold(option, SMCR_REASON_NO_DEVICE);
	struct full full = full_listener();
	int fd = connecting_to(&full);
	assert_int_equal(rdv_option_query(option, fd, &known), 0);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_NO);
	assert_int_equal(known.reason, SMCR_REASON_NO_DEVICE);
	assert_int_equal(getsockopt(fd, IPC_SOL_SMCR, IPC_SO_NEGOTIATED, &negotiated, &len), 0);
	assert_int_equal(negotiated, IPC_NEGOTIATED_NO);
	rdv_option_hold(option, SMCR_REASON_NONE);
	close(fd);
	close(full.first);
	close(full.listener);
}

struct outcome {
	int calls, error;
	struct rdv_option_state state;
};

static void on_connected(void *ctx, int error, const struct rdv_option_state *state)
{
	struct outcome *outcome = ctx;
	outcome->calls++;
	outcome->error = error;
	outcome->state = *state;
	event_base_loopbreak(base);
}

/* Runs the loop until on_connected() is called, or for as long as the test waits. */
static void await_connected(void)
{
	struct timeval tv = { .tv_sec = PATIENCE_S };
	event_base_loopexit(base, &tv);
	event_base_dispatch(base);
}

static void a_connect_in_progress_tells_its_peer_and_succeeds_later(void **state)
{
	struct rdv_verdict verdict;
	struct outcome outcome = { 0 };
	struct rdv_connect_wait *wait;
	struct full full = full_listener();
	int fd = connecting_to(&full);
	(void)state;
	assert_int_equal(verify(fd, IPC_HANDOVER_CONNECTING, &verdict), 0);
	assert_int_equal(verdict.option.negotiated, IPC_NEGOTIATED_UNKNOWN);
	assert_int_equal(verdict.peer.port, ntohs(full.addr.sin_port));
	assert_memory_equal(verdict.peer.ip, &full.addr.sin_addr, 4);
	assert_refused(fd, IPC_HANDOVER_CONNECTED, -ENOTCONN, "connected");
	assert_int_equal(rdv_connect_wait(base, option, fd, on_connected, &outcome, &wait), 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(outcome.calls, 0);
	close(accept(full.listener, NULL, NULL));
	await_connected();
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.state.negotiated, IPC_NEGOTIATED_YES);
	assert_int_equal(outcome.state.role, SMCR_ROLE_CLIENT);
	close(fd);
	close(full.first);
	close(full.listener);
}

static void a_refused_connect_tells_the_error(void **state)
{
	struct rdv_verdict verdict;
	struct outcome outcome = { 0 };
	struct rdv_connect_wait *wait;
	struct full full = full_listener();
	int fd = connecting_to(&full);
	(void)state;
	assert_int_equal(rdv_connect_wait(base, option, fd, on_connected, &outcome, &wait), 0);
	close(full.listener);
	await_connected();
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.error, ECONNREFUSED);
	/* The socket is handed over after the error was read: the daemon still learns the peer's
	 * address. */
	assert_int_equal(verify(fd, IPC_HANDOVER_CONNECTING, &verdict), 0);
	assert_int_equal(verdict.peer.port, ntohs(full.addr.sin_port));
	assert_int_equal(rdv_connect_wait(base, option, fd, on_connected, &outcome, &wait), 0);
	await_connected();
	assert_int_equal(outcome.calls, 2);
	assert_int_equal(outcome.error, ECONNREFUSED);
	close(fd);
	close(full.first);
}

static void a_look_at_a_wait_needs_no_event_loop(void **state)
{
	struct outcome outcome = { 0 };
	struct rdv_connect_wait *wait;
	struct ends ends = connected(true, true);
	struct full full = full_listener();
	int fd = connecting_to(&full);
	(void)state;
	assert_int_equal(rdv_connect_wait(base, option, fd, on_connected, &outcome, &wait), 0);
	rdv_connect_look(wait);
	assert_int_equal(outcome.calls, 0); /* not over yet */
	rdv_connect_wait_cancel(wait);
	assert_int_equal(rdv_connect_wait(base, option, ends.client, on_connected, &outcome, &wait),
			 0);
	rdv_connect_look(wait);
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.state.negotiated, IPC_NEGOTIATED_YES);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(outcome.calls, 1);
	close(fd);
	close(full.first);
	close(full.listener);
	close_ends(&ends);
}

static void a_cancelled_wait_stays_silent(void **state)
{
	struct outcome outcome = { 0 };
	struct rdv_connect_wait *wait;
	struct ends ends = connected(true, true);
	(void)state;
	assert_int_equal(rdv_connect_wait(base, option, ends.client, on_connected, &outcome, &wait),
			 0);
	rdv_connect_wait_cancel(wait);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(outcome.calls, 0);
	/* Waiting for a connect() that is over calls back at once. */
	assert_int_equal(rdv_connect_wait(base, option, ends.client, on_connected, &outcome, &wait),
			 0);
	assert_int_equal(outcome.calls, 0);
	await_connected();
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.state.negotiated, IPC_NEGOTIATED_YES);
	close_ends(&ends);
}

/* ---- SO_LINGER, paths, skipped peers */

static void linger_resets_until_it_is_restored(void **state)
{
	const struct linger programs = { .l_onoff = 1, .l_linger = 30 };
	struct linger before, now;
	socklen_t len = sizeof(now);
	struct ends ends = connected(true, true);
	char byte;
	(void)state;
	setsockopt(ends.client, SOL_SOCKET, SO_LINGER, &programs, sizeof(programs));
	assert_int_equal(rdv_linger_arm(ends.client, &before), 0);
	assert_int_equal(rdv_linger_restore(ends.client, &before), 0);
	assert_int_equal(getsockopt(ends.client, SOL_SOCKET, SO_LINGER, &now, &len), 0);
	assert_int_equal(now.l_onoff, 1);
	assert_int_equal(now.l_linger, 30);
	assert_int_equal(rdv_linger_arm(ends.client, &before), 0);
	close(ends.client);
	assert_int_equal(recv(ends.server, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(ends.server);
	assert_int_equal(rdv_linger_arm(-1, &before), -EBADF);
}

static void an_address_has_an_interface_and_a_prefix(void **state)
{
	struct smcr_addr addr = { .family = AF_INET, .ip = { 127, 0, 0, 1 } };
	struct rdv_path path;
	(void)state;
	assert_int_equal(rdv_path_of(&addr, &path), 0);
	assert_string_equal(path.ifname, "lo");
	assert_int_equal(path.ifindex, if_nametoindex("lo"));
	assert_int_equal(path.prefix_len, 8);
	assert_int_equal(path.vlan, SMCR_NO_VLAN);
	assert_int_equal(system("ip link add v0 type veth peer name v1 && "
				"ip addr add 10.9.8.7/20 dev v0 label v0:alias && "
				"ip addr add fd09::7/60 dev v0 nodad"),
			 0);
	memcpy(addr.ip, (uint8_t[]){ 10, 9, 8, 7 }, 4);
	assert_int_equal(rdv_path_of(&addr, &path), 0);
	assert_string_equal(path.ifname, "v0");
	assert_int_equal(path.ifindex, if_nametoindex("v0"));
	assert_int_equal(path.prefix_len, 20);
	addr.family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, "fd09::7", addr.ip), 1);
	assert_int_equal(rdv_path_of(&addr, &path), 0);
	assert_string_equal(path.ifname, "v0");
	assert_int_equal(path.prefix_len, 60);
	addr.family = AF_INET;
	memcpy(addr.ip, (uint8_t[]){ 10, 9, 8, 6 }, 4);
	assert_int_equal(rdv_path_of(&addr, &path), -EADDRNOTAVAIL);
	addr.family = AF_UNIX;
	assert_int_equal(rdv_path_of(&addr, &path), -EINVAL);
}

static void a_vlan_interface_has_its_id(void **state)
{
	struct smcr_addr addr = { .family = AF_INET, .ip = { 10, 42, 0, 1 } };
	struct rdv_path path;
	(void)state;
	assert_int_equal(system("ip link add w0 type veth peer name w1"), 0);
	if (system("ip link add link w0 name w0.42 type vlan id 42 2>/dev/null") != 0) {
		print_message("this kernel has no VLAN interfaces\n");
		skip();
	}
	assert_int_equal(system("ip addr add 10.42.0.1/24 dev w0.42"), 0);
	assert_int_equal(rdv_path_of(&addr, &path), 0);
	assert_string_equal(path.ifname, "w0.42");
	assert_int_equal(path.vlan, 42);
}

static void skipped_peers_are_listed(void **state)
{
	struct smcr_addr peer = { .family = AF_INET, .ip = { 10, 0, 0, 1 } };
	struct rdv_skipped_peer peers[4];
	(void)state;
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 0);
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 100, "first"), 0);
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 50, "second"), 0);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 1);
	assert_int_equal(peers[0].peer.family, AF_INET);
	assert_int_equal(peers[0].peer.port, 0);
	assert_memory_equal(peers[0].peer.ip, peer.ip, 4);
	assert_string_equal(peers[0].reason, "second");
	assert_in_range(peers[0].seconds_left, 60, 100);
	peer.ip[3] = 2;
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, UINT32_MAX, "third"), 0);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 1), 1);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 2);
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), 0);
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), -ENOENT);
	peer.family = AF_UNIX;
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 1, "no address"), -EINVAL);
	peer.family = AF_INET;
	peer.ip[3] = 1;
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), 0);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 0);
}

static void a_port_of_a_peer_is_skipped_by_itself(void **state)
{
	struct smcr_addr peer = { .family = AF_INET, .ip = { 10, 0, 0, 1 }, .port = 80 };
	struct rdv_skipped_peer peers[4];
	(void)state;
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 100, "no CLC message came"),
			 0);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 1);
	assert_int_equal(peers[0].peer.port, 80);
	peer.port = 0;
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), -ENOENT);
	assert_int_equal(rdv_option_skip_peer(option, getuid(), &peer, 100, "no path"), 0);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 2);
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), 0);
	peer.port = 80;
	assert_int_equal(rdv_option_unskip_peer(option, getuid(), &peer), 0);
	assert_int_equal(rdv_option_skipped_peers(option, peers, 4), 0);
}

/** What has to make room in the daemon's table is not skipped any more: the BPF programs have the
 * entries of the table, and room for all of them. */
static void what_is_forgotten_is_not_skipped(void **state)
{
	struct policy_params params = { .base = event_base_new(),
					.option = option,
					.skip_seconds = 1000 };
	struct smcr_addr peer = { .family = AF_INET6, .ip = { 0xfd } };
	static struct rdv_skipped_peer peers[600];
	struct policy *policy;
	(void)state;
	assert_int_equal(policy_new(&params, &policy), 0);
	for (uint16_t i = 1; i <= 260; i++) {
		memcpy(peer.ip + 14, &i, sizeof(i));
		policy_failed(policy, getuid(), &peer, FAILURE_PATH);
		policy_failed(policy, getuid() + 1, &peer, FAILURE_PATH);
	}
	assert_int_equal(rdv_option_skipped_peers(option, peers, 600), 2 * 256);
	for (uint16_t i = 1; i <= 260; i++) {
		TRIES("%u", i);
		memcpy(peer.ip + 14, &i, sizeof(i));
		assert_int_equal(policy_forget(policy, &peer), i <= 260 - 256 ? 0 : 2);
	}
	assert_int_equal(rdv_option_skipped_peers(option, peers, 600), 0);
	policy_free(policy);
	event_base_free(params.base);
}

static void without_bpf_nothing_is_claimed(void **state)
{
	struct smcr_addr peer = { .family = AF_INET };
	struct smcr_prefix prefix = { .family = AF_INET };
	struct rdv_option_state known;
	struct rdv_skipped_peer peers[1];
	struct ends ends = connected(true, true);
	(void)state;
	assert_int_equal(rdv_option_query(NULL, ends.client, &known), 0);
	assert_false(known.claimed);
	assert_int_equal(known.negotiated, IPC_NEGOTIATED_UNKNOWN);
	rdv_option_hold(NULL, SMCR_REASON_NO_DEVICE);
	rdv_option_limit(NULL, SMCR_REASON_LIMIT);
	assert_int_equal(rdv_option_limit_user(NULL, 0, SMCR_REASON_LIMIT), 0);
	assert_int_equal(rdv_option_skip_peer(NULL, getuid(), &peer, 1, "none"), 0);
	assert_int_equal(rdv_option_skipped_peers(NULL, peers, 1), 0);
	assert_int_equal(rdv_option_unskip_peer(NULL, getuid(), &peer), -ENOENT);
	assert_int_equal(rdv_option_exclude(NULL, &prefix, SMCR_REASON_LOCAL_POLICY), 0);
	assert_int_equal(rdv_option_include(NULL, &prefix), -ENOENT);
	rdv_option_close(NULL);
	close_ends(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fit_sockets_pass_with_their_addresses_and_outcome),
		cmocka_unit_test(the_outcome_says_why_not),
		cmocka_unit_test(other_descriptors_are_refused),
		cmocka_unit_test(a_socket_of_another_namespace_is_refused),
		cmocka_unit_test(an_unclaimed_socket_is_refused),
		cmocka_unit_test(the_state_must_fit_the_kind),
		cmocka_unit_test(bytes_that_passed_are_noticed_and_waiting_ones_allowed),
		cmocka_unit_test(a_deferred_fast_open_connect_is_refused),
		cmocka_unit_test(a_promise_outlives_the_daemon),
		cmocka_unit_test(a_refused_socket_tells_its_promise_too),
		cmocka_unit_test(only_a_promise_is_marked),
		cmocka_unit_test(the_programs_own_number_comes_back),
		cmocka_unit_test(who_is_at_a_limit_promises_nothing),
		cmocka_unit_test(a_listener_belongs_to_its_last_claimer),
		cmocka_unit_test(a_connect_in_progress_tells_its_peer_and_succeeds_later),
		cmocka_unit_test(a_refused_connect_tells_the_error),
		cmocka_unit_test(a_look_at_a_wait_needs_no_event_loop),
		cmocka_unit_test(a_cancelled_wait_stays_silent),
		cmocka_unit_test(linger_resets_until_it_is_restored),
		cmocka_unit_test(an_address_has_an_interface_and_a_prefix),
		cmocka_unit_test(a_vlan_interface_has_its_id),
		cmocka_unit_test(a_connect_without_the_option_is_settled_before_it_ends),
		cmocka_unit_test(a_claim_tells_user_and_program),
		cmocka_unit_test(rules_keep_the_option_off),
		cmocka_unit_test(the_last_rule_counts_and_empty_places_do_not),
		cmocka_unit_test(what_no_rule_allows_is_denied),
		cmocka_unit_test(a_server_is_judged_by_its_program),
		cmocka_unit_test(own_addresses_stay_tcp),
		cmocka_unit_test(short_connections_are_left_on_tcp_but_for_a_sample),
		cmocka_unit_test(who_requires_smc_is_not_left_on_tcp),
		cmocka_unit_test(short_connections_of_others_are_let_alone),
		cmocka_unit_test(a_sample_has_a_rate),
		cmocka_unit_test(skipped_peers_are_listed),
		cmocka_unit_test(a_port_of_a_peer_is_skipped_by_itself),
		cmocka_unit_test(what_is_forgotten_is_not_skipped),
		cmocka_unit_test(without_bpf_nothing_is_claimed),
	};
	return cmocka_run_group_tests_name("verify", tests, setup_group, teardown_group);
}
