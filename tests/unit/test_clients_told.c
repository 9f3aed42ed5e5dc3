/* SPDX-License-Identifier: MIT */
/* What daemon/conns tells operators and daemon/policy of a connection: what has become of it, and
 * what is learnt from that. The Makefile links this test so that it can say what a handshake has
 * agreed upon. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include "daemon/rendezvous/handshake.h"

/* Lines that the daemon's process has written, in shared memory. */
static struct {
	_Atomic size_t len;
	char text[16384];
} * told;

/* What the handshake of a socket is said to have agreed upon; shared too. */
static struct {
	bool in_force;
	struct rdv_option_state option;
} * seen;

int __real_rdv_verify_socket(const struct rdv_option *option, int fd, enum ipc_handover_kind kind,
			     struct rdv_verdict *ret_verdict);
int __wrap_rdv_verify_socket(const struct rdv_option *option, int fd, enum ipc_handover_kind kind,
			     struct rdv_verdict *ret_verdict);

int __wrap_rdv_verify_socket(const struct rdv_option *option, int fd, enum ipc_handover_kind kind,
			     struct rdv_verdict *ret_verdict)
{
	int r = __real_rdv_verify_socket(option, fd, kind, ret_verdict);
	if (!seen->in_force)
		return r;
	ret_verdict->option = seen->option;
	return 0;
}

static void __attribute__((format(printf, 1, 2))) tell(const char *format, ...)
{
	va_list args;
	size_t at = told->len;
	va_start(args, format);
	int n = vsnprintf(told->text + at, sizeof(told->text) - at, format, args);
	va_end(args);
	told->len = at + (size_t)n;
}

static void on_worked(void *ctx, uid_t uid, const struct smcr_addr *peer)
{
	(void)ctx;
	tell("worked uid=%u port=%u\n", (unsigned int)uid, peer->port);
}

static void on_failed(void *ctx, uid_t uid, const struct smcr_addr *peer, enum conns_failure how)
{
	(void)ctx;
	tell("failed uid=%u port=%u how=%d\n", (unsigned int)uid, peer->port, (int)how);
}

static void on_ended(void *ctx, const struct conns_ended *ended)
{
	(void)ctx;
	tell("ended bytes=%llu\n", (unsigned long long)ended->bytes);
}

static void on_told(void *ctx, const struct conns_told *what)
{
	static const char *const kinds[] = { [CONNS_REFUSED] = "refused",
					     [CONNS_STAYED_TCP] = "stayed",
					     [CONNS_FELL_BACK] = "fell back",
					     [CONNS_BROKE] = "broke",
					     [CONNS_WAS_RESET] = "was reset" };
	struct conns_view counts;
	(void)ctx;
	conns_get_view(daemon_conns, &counts);
	tell("%s server=%d port=%u reason=%x/%x why=%s", kinds[what->kind], what->server,
	     what->peer->port, what->reason, what->peer_reason, what->why ? what->why : "-");
	/* what was counted, the event itself with it */
	tell(" tcp=%llu fell=%llu failed=%llu resets=%llu\n",
	     (unsigned long long)counts.not_candidates, (unsigned long long)counts.fallbacks,
	     (unsigned long long)counts.failed, (unsigned long long)counts.resets);
}

static void on_settled(void *ctx, uint64_t cookie)
{
	(void)ctx;
	tell("settled cookie=%llx\n", (unsigned long long)cookie);
}

static void add(struct conns_callbacks *callbacks)
{
	callbacks->worked = on_worked;
	callbacks->failed = on_failed;
	callbacks->ended = on_ended;
	callbacks->told = on_told;
	callbacks->settled_tcp = on_settled;
}

static int setup(void **state)
{
	(void)state;
	told->len = 0;
	memset(told->text, 0, sizeof(told->text));
	add_callbacks = add;
	return 0;
}

/* Wait for so many lines, and compare all of them. */
static void expect_told(const char *format, ...)
{
	char want[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(want, sizeof(want), format, args);
	va_end(args);
	for (int i = 0; told->len < strlen(want) && i < WAIT_MS; i++)
		poll(NULL, 0, 1);
	assert_string_equal(told->text, want);
}

static unsigned int uid(void)
{
	return (unsigned int)geteuid();
}

static unsigned int port_of(int fd)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&addr, &len), 0);
	return ntohs(addr.sin_port);
}

/* SMC-R works: with a server its port is learnt, of a client its host alone. */
static void what_works(void **state)
{
	(void)state;
	for (int kind = IPC_HANDOVER_CONNECTED; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		TRIES("kind %d", kind);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		const bool server = kind == IPC_HANDOVER_ACCEPTED;
		setup(state);
		daemon_start(&daemon);
		script->outcome = OUTCOME_ESTABLISHED;
		int pair = hand_over(&daemon, &tcp, (enum ipc_handover_kind)kind);
		assert_int_equal(send(pair, "hello", 5, 0), 5);
		expect_bytes(pair, "hello");
		close(pair);
		expect_end(tcp.far);
		expect_told("worked uid=%u port=%u\nended bytes=10\n", uid(),
			    server ? 0 : ntohs(tcp.peer.sin_port));
		close(tcp.far);
		daemon_stop(&daemon);
	}
}

/* What the end of smcrd cuts short teaches nothing, and operators know why. */
static void what_the_end_of_smcrd_cuts_short(void **state)
{
	(void)state;
	for (int orderly = 0; orderly < 2; orderly++) {
		TRIES("orderly %d", orderly);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp(), pending = connect_tcp();
		setup(state);
		daemon_start(&daemon);
		script->outcome = OUTCOME_ESTABLISHED;
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		expect_told("worked uid=%u port=0\n", uid());
		script->outcome = OUTCOME_HOLD;
		int other = hand_over(&daemon, &pending, IPC_HANDOVER_ACCEPTED);
		WAIT_COUNT(script->starts, 2);
		if (orderly) {
			daemon_command(&daemon, 's');
			expect_reset(other);
		}
		daemon_stop(&daemon);
		expect_reset(pair);
		expect_told("worked uid=%u port=0\n", uid());
		close(other);
		close(pair);
		close(tcp.far);
		close(pending.far);
	}
}

static void what_stays_tcp(void **state)
{
	(void)state;
	for (int server = 0; server < 2; server++) {
		TRIES("server %d", server);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		int pair, session;
		const unsigned int port = port_of(tcp.near);
		setup(state);
		daemon_start(&daemon);
		script->capable = 0; /* and the option cannot be seen */
		session = session_open(&daemon);
		ask_handover(session, server ? IPC_HANDOVER_ACCEPTED : IPC_HANDOVER_CONNECTED, 0,
			     NULL, tcp.near);
		assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
		expect_told("stayed server=%d port=%u reason=%x/0 why=- tcp=1 fell=0 failed=0 "
			    "resets=0\n",
			    server, port, SMCR_REASON_NO_BPF);
		close(session);
		close(tcp.near);
		close(tcp.far);
		daemon_stop(&daemon);
	}
}

static void what_falls_back(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	const unsigned int port = port_of(tcp.near);
	daemon_start(&daemon);
	script->outcome = OUTCOME_FALLBACK;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(pair, "hello", 5, 0), 5);
	expect_bytes(tcp.far, "hello");
	close(pair);
	expect_end(tcp.far);
	expect_told("fell back server=1 port=%u reason=%x/3070000 why=- tcp=0 fell=1 failed=0 "
		    "resets=0\n",
		    port, SMCR_REASON_PEER_DECLINED);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* A server's rendezvous breaks: its program got the error, and of a client nothing is learnt. */
static void what_breaks(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	const unsigned int port = port_of(tcp.near);
	daemon_start(&daemon);
	script->outcome = OUTCOME_FAILED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	expect_reset(pair);
	expect_told("broke server=1 port=%u reason=0/0 why=%s tcp=0 fell=0 failed=1 resets=0\n",
		    port, strerror(ETIMEDOUT));
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* A client's rendezvous breaks: SMC-R is not tried with that server for a time, and the connection
 * is made again. A reset is told apart from silence. */
static void what_is_made_again(void **state)
{
	(void)state;
	for (int reset = 0; reset < 2; reset++) {
		TRIES("reset %d", reset);
		struct daemon_side daemon;
		struct sockaddr_in addr;
		const struct linger abort = { .l_onoff = 1 };
		int listener = listen_tcp(&addr);
		struct tcp tcp = { .peer = addr };
		setup(state);
		tcp.near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(tcp.near, (struct sockaddr *)&addr, sizeof(addr)), 0);
		int far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		daemon_start(&daemon);
		int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTING);
		WAIT_COUNT(script->starts, 1);
		if (reset) {
			setsockopt(far, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
			close(far);
		} else {
			daemon_command(&daemon, 'x');
		}
		int again = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(again >= 0);
		limit_waiting(again);
		assert_int_equal(send(again, "hello", 5, 0), 5);
		expect_bytes(pair, "hello");
		expect_told("failed uid=%u port=%u how=%d\nfell back server=0 port=%u reason=%x/0 "
			    "why=- tcp=0 fell=1 failed=0 resets=0\n",
			    uid(), ntohs(addr.sin_port), reset ? CONNS_RESET : CONNS_NO_ANSWER,
			    ntohs(addr.sin_port), SMCR_REASON_NO_ANSWER);
		close(pair);
		close(again);
		if (!reset)
			close(far);
		close(listener);
		daemon_stop(&daemon);
	}
}

/* A program has closed, and the peer takes nothing more. */
static void what_is_reset_in_the_end(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .close_wait_ms = 1 } };
	struct tcp tcp = connect_tcp();
	static char block[4 * RING];
	const unsigned int port = port_of(tcp.near);
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	script->silent = 1;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_true(send(pair, block, sizeof(block), MSG_DONTWAIT) > RING);
	close(pair);
	expect_reset(tcp.far);
	expect_told("worked uid=%u port=0\nwas reset server=1 port=%u reason=0/0 why=its program "
		    "has closed, and the peer took nothing more for too long tcp=0 fell=0 failed=0 "
		    "resets=1\nended bytes=%u\n",
		    uid(), port, RING);
	close(tcp.far);
	daemon_stop(&daemon);
}

/* Each connection has a number of its own, by which lists go on. */
static void all_are_listed(void **state)
{
	(void)state;
	enum { CONNS = 5 };
	struct daemon_side daemon;
	struct tcp tcp[CONNS];
	int pair[CONNS], lines = 0;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	for (int i = 0; i < CONNS; i++) {
		tcp[i] = connect_tcp();
		pair[i] = hand_over(&daemon, &tcp[i], IPC_HANDOVER_ACCEPTED);
	}
	char *list = control(&daemon, "conns");
	for (const char *at = list; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, CONNS);
	free(list);
	for (int i = 0; i < CONNS; i++) {
		close(pair[i]);
		close(tcp[i].far);
	}
	daemon_stop(&daemon);
}

/* The handshake was left on TCP by the BPF programs, which have counted it: it is told as settled,
 * and not counted again. If the option was agreed upon in the other role, this host has counted
 * nothing. */
static void what_the_handshake_has_settled(void **state)
{
	(void)state;
	for (int settled = 0; settled < 2; settled++) {
		TRIES("settled %d", settled);
		struct daemon_side daemon;
		struct tcp tcp = connect_tcp();
		int pair, session;
		uint64_t cookie = 0;
		socklen_t len = sizeof(cookie);
		const unsigned int port = port_of(tcp.near);
		setup(state);
		seen->in_force = true;
		seen->option =
			(struct rdv_option_state){ .claimed = true,
						   .negotiated = settled ? IPC_NEGOTIATED_NO
									 : IPC_NEGOTIATED_YES,
						   .role = SMCR_ROLE_CLIENT };
		assert_int_equal(getsockopt(tcp.near, SOL_SOCKET, SO_COOKIE, &cookie, &len), 0);
		daemon_start(&daemon);
		script->capable = 0;
		session = session_open(&daemon);
		ask_handover(session, IPC_HANDOVER_ACCEPTED, 0, NULL, tcp.near);
		assert_int_equal(receive_result(session, &pair).outcome, IPC_OUTCOME_TCP);
		if (settled)
			expect_told("settled cookie=%llx\n", (unsigned long long)cookie);
		else
			expect_told("stayed server=1 port=%u reason=%x/0 why=- tcp=1 fell=0 "
				    "failed=0 resets=0\n",
				    port, SMCR_REASON_SOCKET_OPTION);
		close(session);
		close(tcp.near);
		close(tcp.far);
		daemon_stop(&daemon);
	}
	seen->in_force = false;
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		FRESH(what_works),
		FRESH(what_the_end_of_smcrd_cuts_short),
		FRESH(what_stays_tcp),
		FRESH(all_are_listed),
		FRESH(what_the_handshake_has_settled),
		FRESH(what_falls_back),
		FRESH(what_breaks),
		FRESH(what_is_made_again),
		FRESH(what_is_reset_in_the_end),
	};
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
