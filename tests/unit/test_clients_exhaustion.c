/* SPDX-License-Identifier: MIT */
/* A daemon whose allocations, descriptors and watches fail, one after the other, while a program
 * hands a connection over, uses it and ends it. The program gets a connection that works or an
 * error, and the next connection works. The Makefile links this test so that these functions are
 * those below; libevent is told of its own. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/types.h>

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __real_memfd_create(const char *name, unsigned int flags);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_memfd_create(const char *name, unsigned int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);

/* The scripted engine and this test have memory always. */
#define calloc(n, size) __real_calloc(n, size)
#define malloc(size)    __real_malloc(size)
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"
#undef calloc
#undef malloc

#include <dirent.h>
#include <uthash.h>

/* ---- the C library ---- */

/* Counts down to the allocation of `where` that fails, of the daemon's process or the test's; 0: no
 * allocation fails. In shared memory. */
static struct {
	_Atomic unsigned int failing;
	_Atomic pid_t where;
	_Atomic int cause; /* errno of the call that has failed */
} * memory;

/* uthash ends the process when it gets no memory for its tables, so those allocations never
 * fail. */
static bool is_for_hash(size_t size)
{
	return size == sizeof(UT_hash_table) ||
	       size == HASH_INITIAL_NUM_BUCKETS * sizeof(UT_hash_bucket);
}

static bool fails(size_t size)
{
	if (!memory || is_for_hash(size) || getpid() != memory->where || !memory->failing)
		return false;
	memory->cause = ENOMEM;
	return --memory->failing == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return fails(size) ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails(size) ? NULL : __real_realloc(p, size);
}

/* What needs a descriptor, or memory of the kernel. */
static bool is_short(int error)
{
	if (!fails(0))
		return false;
	memory->cause = errno = error;
	return true;
}

int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
	return is_short(EMFILE) ? -1 : __real_socketpair(domain, type, protocol, ends);
}

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	return is_short(EMFILE) ? -1 : __real_memfd_create(name, flags);
}

int __wrap_epoll_create1(int flags)
{
	return is_short(EMFILE) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && is_short(ENOSPC))
		return -1;
	return __real_epoll_ctl(epfd, op, fd, event);
}

static void *event_malloc(size_t size)
{
	return fails(size) ? NULL : __real_malloc(size);
}

static void *event_realloc(void *p, size_t size)
{
	return fails(size) ? NULL : __real_realloc(p, size);
}

/* The n-th allocation of this process from now on fails; 0: none. */
static void let_fail(pid_t where, unsigned int n)
{
	memory->where = where;
	memory->failing = n;
}

/* ---- tests ---- */

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	unsigned int n = 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The daemon's part for connections is made as a whole, or not at all. */
static void all_or_nothing(void **state)
{
	(void)state;
	struct event_base *base = event_base_new();
	const struct conns_config config = { .base = base };
	struct conns *conns = NULL;
	unsigned int n = 0;
	int r;
	let_fail(getpid(), 0);
	assert_int_equal(conns_new(&config, &conns), 0); /* libevent's tables grow */
	conns_free(conns);
	conns = NULL;
	unsigned int open = descriptors();
	for (let_fail(getpid(), ++n); (r = conns_new(&config, &conns)) != 0;
	     let_fail(getpid(), ++n)) {
		TRIES("allocation %u", n);
		assert_int_equal(r, -memory->cause);
		assert_null(conns);
		assert_int_equal(descriptors(), open);
	}
	let_fail(0, 0);
	assert_true(n > 8);
	conns_free(conns);
	assert_int_equal(descriptors(), open);
	event_base_free(base);
}

/* @return false: the connection was reset, or has ended */
static bool passes(int from, int to)
{
	char buf[5];
	if (send(from, "hello", sizeof(buf), MSG_NOSIGNAL) != sizeof(buf)) {
		assert_true(errno == ECONNRESET || errno == EPIPE);
		return false;
	}
	for (size_t at = 0; at < sizeof(buf);) {
		ssize_t n = recv(to, buf + at, sizeof(buf) - at, 0);
		if (n < 0)
			assert_int_equal(errno, ECONNRESET);
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	assert_memory_equal(buf, "hello", sizeof(buf));
	return true;
}

/* @return false: the session has ended without a reply, for which it had no memory, or refuses */
static bool has_result(int session, struct ipc_result *ret_result, int *ret_pair)
{
	struct frame frame;
	if (!receive_frame(session, &frame))
		return false;
	bool is_result = frame.type == IPC_RESULT;
	if (is_result)
		assert_int_equal(ipc_decode_result(frame.payload, frame.len, ret_result), 0);
	else
		assert_int_equal(frame.type, IPC_ERROR);
	free(frame.payload);
	assert_int_equal(frame.fd >= 0, ret_result->outcome == IPC_OUTCOME_PAIR ||
						ret_result->outcome == IPC_OUTCOME_OPEN);
	*ret_pair = frame.fd;
	return is_result;
}

/* The peer sees an end, so no descriptor of the socket is left in the daemon. */
static void expect_peer_sees_end(int far)
{
	char rest[64];
	ssize_t len;
	while ((len = recv(far, rest, sizeof(rest), 0)) > 0)
		;
	assert_true(len == 0 || errno == ECONNRESET);
	close(far);
}

/* Hand a connection over, let an allocation fail meanwhile, and use the connection as far as the
 * program has one. @return whether bytes passed: over the engine, which sends them back, or over
 * TCP */
static bool try_connection(const struct daemon_side *daemon, enum ipc_handover_kind kind,
			   unsigned int failing)
{
	struct tcp tcp = connect_tcp();
	int session = session_open(daemon), pair = -1;
	struct ipc_result result = { 0 };
	bool works = false;
	let_fail(daemon->pid, failing);
	ask_handover(session, kind, 0, kind == IPC_HANDOVER_CONNECTING ? &tcp.peer : NULL,
		     tcp.near);
	bool told = has_result(session, &result, &pair);
	if (pair >= 0) {
		make_blocking(pair);
		works = passes(pair, script->outcome == OUTCOME_ESTABLISHED ? pair : tcp.far);
		close(pair);
	} else if (told && result.outcome == IPC_OUTCOME_TCP) {
		works = passes(tcp.near, tcp.far);
		assert_true(works);
	}
	close(tcp.near);
	close(session);
	expect_peer_sees_end(tcp.far);
	return works;
}

/* A new daemon for each: its tables grow with the first connection. @return how many allocations
 * there are */
static unsigned int fail_each(enum ipc_handover_kind kind, int outcome)
{
	unsigned int n = 0, failed = 0;
	for (bool over = false; !over;) {
		struct daemon_side daemon;
		TRIES("kind %d, outcome %d, allocation %u", kind, outcome, n + 1);
		daemon_start(&daemon);
		script->outcome = outcome;
		failed += !try_connection(&daemon, kind, ++n);
		over = memory->failing > 0;
		let_fail(0, 0);
		assert_true(try_connection(&daemon, kind, 0));
		daemon_stop(&daemon);
	}
	assert_true(failed > 0);
	return n - 1;
}

static void each_allocation_of_a_connection(void **state)
{
	(void)state;
	for (int kind = IPC_HANDOVER_CONNECTED; kind <= IPC_HANDOVER_ACCEPTED; kind++) {
		assert_true(fail_each((enum ipc_handover_kind)kind, OUTCOME_ESTABLISHED) > 3);
		assert_true(fail_each((enum ipc_handover_kind)kind, OUTCOME_FALLBACK) > 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_or_nothing),
		cmocka_unit_test(each_allocation_of_a_connection),
	};
	memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	event_set_mem_functions(event_malloc, event_realloc, free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
