/* SPDX-License-Identifier: MIT */
/* Connections that are plain TCP, as the BPF programs count and report them. Needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/tally.h"
#include "tests/lib/option.h"

static struct rdv_option *option;
static struct rdv_tally *tally;
static int listener;
static struct sockaddr_in addr = { .sin_family = AF_INET };

static int setup_group(void **state)
{
	socklen_t len = sizeof(addr);
	(void)state;
	if (option_setup(&option) < 0)
		return -1;
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	return bind(listener, (struct sockaddr *)&addr, len) < 0 || listen(listener, 64) < 0 ||
			       getsockname(listener, (struct sockaddr *)&addr, &len) < 0
		       ? -1
		       : 0;
}

static int setup(void **state)
{
	(void)state;
	return rdv_tally_open(option, &tally);
}

static int teardown(void **state)
{
	(void)state;
	rdv_tally_close(tally);
	return 0;
}

static int teardown_group(void **state)
{
	(void)state;
	rdv_option_close(option);
	close(listener);
	return 0;
}

/** Makes a connection to the listener, which is not claimed, and closes it. */
static int connect_once(bool claimed, uint32_t said)
{
	const struct ipc_claim claim = { .wanted = 1 };
	const struct ipc_plain plain = { .reason = said };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int r = claimed && setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)) < 0;
	r = r || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0;
	if (said)
		r = r || setsockopt(fd, IPC_SOL_SMCR, IPC_SO_PLAIN, &plain, sizeof(plain)) < 0;
	close(accept(listener, NULL, NULL));
	close(fd);
	return r;
}

struct told {
	size_t num;
	struct rdv_plain last;
};

static void tell(void *arg, const struct rdv_plain *plain)
{
	struct told *told = arg;
	told->num++;
	told->last = *plain;
}

static struct told read_all(void)
{
	struct told told = { 0 };
	rdv_tally_read(tally, tell, &told);
	return told;
}

struct count {
	uint32_t reason;
	uint64_t connections, untold;
};

static void count(void *arg, const struct rdv_plain_count *from)
{
	struct count *to = arg;
	if (from->reason != to->reason)
		return;
	to->connections = from->connections;
	to->untold = from->untold;
}

static struct count counted(uint32_t reason)
{
	struct count found = { .reason = reason };
	rdv_tally_each_count(tally, count, &found);
	return found;
}

static uint64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void records_tell_user_time_and_reason(void **state)
{
	(void)state;
	prctl(PR_SET_NAME, "a\xff\n program");
	uint64_t before = now_us();
	assert_int_equal(connect_once(true, 0), 0);
	struct told told = read_all();
	assert_int_equal(told.num, 1);
	assert_in_range(told.last.time_us, before - 1000, now_us() + 1000);
	assert_string_equal(told.last.comm, "a?? program");
	assert_int_equal(told.last.reason, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(told.last.role, SMCR_ROLE_CLIENT);
	assert_int_equal(told.last.uid, 0);
	assert_true(told.last.pid == getpid() || told.last.pid == 0);
	assert_int_equal(told.last.peer.family, AF_INET);
	assert_int_equal(told.last.peer.port, ntohs(addr.sin_port));
	assert_memory_equal(told.last.peer.ip, &addr.sin_addr, 4);
	assert_memory_equal(told.last.local.ip, &addr.sin_addr, 4);
	assert_int_not_equal(told.last.local.port, 0);
	assert_int_not_equal(told.last.cookie, 0);
	assert_int_equal(counted(SMCR_REASON_PEER_NO_SMC).connections, 1);
	assert_int_equal(read_all().num, 0); /* each is reported once */

	assert_int_equal(connect_once(false, 0), 0); /* nobody asked for SMC-R */
	assert_int_equal(read_all().num, 0);
	assert_int_equal(connect_once(false, SMCR_REASON_NO_DAEMON), 0);
	told = read_all();
	assert_int_equal(told.num, 1);
	assert_int_equal(told.last.reason, SMCR_REASON_NO_DAEMON);
	assert_int_equal(told.last.peer.port, ntohs(addr.sin_port));
	assert_memory_equal(told.last.peer.ip, &addr.sin_addr, 4);
	assert_int_equal(counted(SMCR_REASON_NO_DAEMON).connections, 1);
	/* Libraries do not give this reason. */
	assert_int_equal(connect_once(false, 0x12345678), 1);
	assert_int_equal(counted(0x12345678).connections, 0);
}

/** While one user has more records than its share, those of other users are reported. All
 *  connections are counted. */
static void a_user_has_a_part_of_the_room(void **state)
{
	(void)state;
	const uint64_t before = counted(SMCR_REASON_PEER_NO_SMC).connections;
	const unsigned int many = SMCR_PLAIN_OF_A_USER + 300;
	for (unsigned int i = 0; i < many; i++)
		assert_int_equal(connect_once(true, 0), 0);
	pid_t child = fork();
	if (child == 0)
		_exit(setuid(4711) < 0 || connect_once(true, 0));
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	struct told told = read_all();
	assert_int_equal(told.num, SMCR_PLAIN_OF_A_USER + 1);
	assert_int_equal(told.last.uid, 4711);
	struct count found = counted(SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(found.connections, before + many + 1);
	assert_int_equal(found.untold, 300);
	/* After that records are reported again. */
	assert_int_equal(connect_once(true, 0), 0);
	assert_int_equal(read_all().num, 1);
}

static int tell_unasked(int fd, int number)
{
	return setsockopt(fd, IPC_SOL_SMCR, IPC_SO_UNASKED, &number, sizeof(number)) < 0 ? errno
											 : 0;
}

/* A claimed connection to a listener. */
static int connected(const struct sockaddr_in *to, socklen_t len)
{
	const struct ipc_claim claim = { .wanted = 1, .flags = IPC_CLAIM_TO_CONNECT };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)to, len), 0);
	return fd;
}

/* What a program tells of connections that were made without a claim is counted once for each
 * connection with a claim, and never more than 32. */
static void connections_without_a_claim_are_counted(void **state)
{
	(void)state;
	const uint64_t before = counted(SMCR_REASON_PEER_NO_SMC).connections;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(tell_unasked(fd, 1), EINVAL);
	close(fd);
	fd = connected(&addr, sizeof(addr));
	struct told told = read_all();
	assert_int_equal(told.num, 1);
	assert_int_equal(told.last.unasked, 0);
	const uint64_t cookie = told.last.cookie;
	assert_int_equal(tell_unasked(fd, IPC_UNASKED_MAX + 1), EINVAL);
	assert_int_equal(tell_unasked(fd, -1), EINVAL);
	assert_int_equal(tell_unasked(fd, IPC_UNASKED_MAX), 0);
	assert_int_equal(tell_unasked(fd, 1), EALREADY);
	told = read_all();
	assert_int_equal(told.num, 1);
	assert_int_equal(told.last.unasked, IPC_UNASKED_MAX);
	assert_true(told.last.cookie == cookie);
	assert_int_equal(told.last.peer.port, ntohs(addr.sin_port));
	assert_memory_equal(told.last.peer.ip, &addr.sin_addr, 4);
	assert_int_equal(counted(SMCR_REASON_PEER_NO_SMC).connections,
			 before + 1 + IPC_UNASKED_MAX);
	close(accept(listener, NULL, NULL));
	close(fd);

	/* A question only: nothing is counted. */
	fd = connected(&addr, sizeof(addr));
	assert_int_equal(tell_unasked(fd, 0), 0);
	assert_int_equal(read_all().num, 1);
	assert_int_equal(counted(SMCR_REASON_PEER_NO_SMC).connections,
			 before + 2 + IPC_UNASKED_MAX);
	close(accept(listener, NULL, NULL));
	close(fd);
}

/* The peer answers the option now. Those before are counted all the same. */
static void a_peer_that_answers_now(void **state)
{
	(void)state;
	const struct ipc_claim claim = { .wanted = 1 };
	struct sockaddr_in there = { .sin_family = AF_INET };
	socklen_t len = sizeof(there);
	const uint64_t before = counted(SMCR_REASON_PEER_NO_SMC).connections;
	int other = socket(AF_INET, SOCK_STREAM, 0);
	there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(setsockopt(other, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)), 0);
	assert_int_equal(bind(other, (struct sockaddr *)&there, len), 0);
	assert_int_equal(listen(other, 64), 0);
	assert_int_equal(getsockname(other, (struct sockaddr *)&there, &len), 0);
	int fd = connected(&there, len);
	assert_int_equal(tell_unasked(fd, 7), ENODATA);
	struct told told = read_all();
	assert_int_equal(told.num, 1);
	assert_int_equal(told.last.unasked, 7);
	assert_int_equal(told.last.reason, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(counted(SMCR_REASON_PEER_NO_SMC).connections, before + 7);
	close(fd);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_tell_user_time_and_reason, setup, teardown),
		cmocka_unit_test_setup_teardown(a_user_has_a_part_of_the_room, setup, teardown),
		cmocka_unit_test_setup_teardown(connections_without_a_claim_are_counted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_peer_that_answers_now, setup, teardown),
	};
	return cmocka_run_group_tests(tests, setup_group, teardown_group);
}
