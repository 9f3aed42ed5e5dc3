/* SPDX-License-Identifier: MIT */
/* Names of pair ends that somebody else has, or wants to have: no connection fails for that. */
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "daemon/host/holder.h"
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#define SQUATTER 12345
#define IDS      64 /* more than the daemon tries for one connection */

/* The daemon's numbers, if the test is to know them in advance: 1, 2, .. in one order or another.
 */
static bool foretold;

ssize_t getrandom(void *buf, size_t len, unsigned int flags)
{
	static uint64_t last;
	uint64_t *numbers = buf;
	if (!foretold)
		return syscall(SYS_getrandom, buf, len, flags);
	for (size_t i = 0; i < len / sizeof(*numbers); i++)
		numbers[i] = last++ % IDS + 1;
	return (ssize_t)len;
}

/* Who makes sockets between these calls. Without root it is the test's own user. */
static uid_t become_squatter(void)
{
	if (geteuid() != 0)
		return geteuid();
	setfsuid(SQUATTER);
	return SQUATTER;
}

static void become_oneself(void)
{
	setfsuid(geteuid());
}

struct names {
	int fds[IDS];
	size_t count;
	uid_t uid;
};

/* Take the names that a connection over `tcp` would have with the ids `first`, `first` + 1, .. */
static struct names take_names(const struct tcp *tcp, uint64_t first, size_t count)
{
	struct names names = { .count = count };
	struct ipc_pair_name name = { .peer.in = tcp->peer };
	socklen_t len = sizeof(name.local);
	assert_int_equal(getsockname(tcp->near, &name.local.sa, &len), 0);
	names.uid = become_squatter();
	for (size_t i = 0; i < count; i++) {
		struct sockaddr_un addr;
		name.id = first + i;
		int size = ipc_pair_name_encode(&name, &addr, sizeof(addr));
		names.fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(names.fds[i], (struct sockaddr *)&addr, (socklen_t)size), 0);
	}
	become_oneself();
	return names;
}

static void give_names_up(struct names *names)
{
	while (names->count > 0)
		close(names->fds[--names->count]);
}

/* @return 0: the pair end has no name */
static uint64_t id_of(int pair)
{
	struct sockaddr_un addr;
	struct ipc_pair_name name;
	socklen_t len = sizeof(addr);
	assert_int_equal(getsockname(pair, (struct sockaddr *)&addr, &len), 0);
	if (len == sizeof(addr.sun_family))
		return 0;
	assert_int_equal(ipc_pair_name_decode(&addr, len, &name), 0);
	return name.id;
}

static void expect_echo(int pair)
{
	assert_int_equal(send(pair, "hello", 5, 0), 5);
	expect_bytes(pair, "hello");
}

static void end(struct tcp *tcp, int pair)
{
	close(pair);
	close(tcp->far);
	if (tcp->near >= 0)
		close(tcp->near);
}

static void expect_told(uid_t uid)
{
	char text[HOLDER_TEXT];
	holder_text(0, uid, text);
	assert_int_equal(script->warnings, 1);
	if (!strstr(script->warning, text))
		fail_msg("no \"%s\" in \"%s\"", text, script->warning);
}

/* The ids behind those that are in use are of no use to a squatter. */
static void nobody_can_foretell_names(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	for (int kind = IPC_HANDOVER_CONNECTED; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		TRIES("kind %d", kind);
		struct tcp seen = connect_tcp(), next = connect_tcp();
		int first = hand_over(&daemon, &seen, (enum ipc_handover_kind)kind);
		struct names names = take_names(&next, id_of(first) + 1, IDS);
		int second = hand_over(&daemon, &next, (enum ipc_handover_kind)kind);
		assert_true(id_of(second) != 0);
		expect_echo(second);
		give_names_up(&names);
		end(&seen, first);
		end(&next, second);
	}
	assert_int_equal(script->warnings, 0);
	daemon_stop(&daemon);
}

static void another_name_is_tried(void **state)
{
	(void)state;
	struct daemon_side daemon;
	foretold = true;
	daemon_start(&daemon);
	foretold = false;
	script->outcome = OUTCOME_ESTABLISHED;
	struct tcp tcp = connect_tcp();
	/* The daemon uses the numbers that it has drawn from the last one on: 32, 31, .. */
	struct names names = take_names(&tcp, 26, 7);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_true(id_of(pair) == 25);
	expect_echo(pair);
	expect_told(names.uid);
	give_names_up(&names);
	end(&tcp, pair);
	daemon_stop(&daemon);
}

/* All that the daemon tries: a connection that SMC-R carries goes on without a name, and one that
 * has not begun stays TCP. */
static void a_connection_does_without_a_name(void **state)
{
	(void)state;
	struct daemon_side daemon;
	foretold = true;
	daemon_start(&daemon);
	foretold = false;
	script->outcome = OUTCOME_ESTABLISHED;
	struct tcp tcp = connect_tcp();
	struct names names = take_names(&tcp, 1, IDS);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	assert_true(id_of(pair) == 0);
	expect_echo(pair);
	expect_told(names.uid);
	give_names_up(&names);
	end(&tcp, pair);
	for (int kind = IPC_HANDOVER_CONNECTING; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		TRIES("kind %d", kind);
		tcp = connect_tcp();
		names = take_names(&tcp, 1, IDS);
		int session = session_open(&daemon);
		ask_handover(session, (enum ipc_handover_kind)kind, 0,
			     kind == IPC_HANDOVER_CONNECTING ? &tcp.peer : NULL, tcp.near);
		assert_int_equal(receive_error(session), EADDRINUSE);
		close(session);
		/* The socket is as it was. */
		assert_int_equal(send(tcp.near, "plain", 5, 0), 5);
		expect_bytes(tcp.far, "plain");
		give_names_up(&names);
		close(tcp.near);
		close(tcp.far);
	}
	assert_int_equal(script->warnings, 1); /* one a minute */
	daemon_stop(&daemon);
}

/* A name is worth nothing once its pair has gone. */
static void a_name_that_is_taken_later_proves_nothing(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp(), copy = tcp;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	copy.near = dup(tcp.near);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED);
	const uint64_t id = id_of(pair);
	close(pair);
	WAIT_COUNT(script->closes, 1);
	struct names names = take_names(&copy, id, 1);
	int session = session_open(&daemon), tcp_back;
	/* It is no end of a connection that lives, and gets nothing. */
	assert_int_equal(
		ask_status(&daemon, names.fds[0], IPC_STATUS_MAY_TAKE_BACK, &tcp_back).state,
		IPC_CONN_CLOSED);
	assert_int_equal(tcp_back, -1);
	close(session);
	give_names_up(&names);
	close(copy.near);
	close(tcp.far);
	daemon_stop(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_can_foretell_names),
		cmocka_unit_test(another_name_is_tried),
		cmocka_unit_test(a_connection_does_without_a_name),
		cmocka_unit_test(a_name_that_is_taken_later_proves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
