/* SPDX-License-Identifier: MIT */
/* A soft RNIC whose allocations, descriptors and thread fail, one after the other: each call
 * returns the error, leaves nothing behind, and works when there is memory again. The Makefile
 * links this test so that these functions of the libraries are those below; libevent is told of its
 * own. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <netlink/errno.h>
#include <netlink/socket.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/rnic/soft/internal.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

void *__real_aligned_alloc(size_t align, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
struct nl_sock *__real_nl_socket_alloc(void);
int __real_nl_connect(struct nl_sock *nl, int protocol);
int __real_eventfd(unsigned int value, int flags);
int __real_timerfd_create(int clock, int flags);
int __real_socket(int domain, int type, int protocol);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
struct nl_sock *__wrap_nl_socket_alloc(void);
int __wrap_nl_connect(struct nl_sock *nl, int protocol);
int __wrap_eventfd(unsigned int value, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

/* Counts down to the call that fails; 0: no call fails. Volatile, as the compiler takes allocation
 * for a function that reads no variable. */
static volatile unsigned int failing;

/* What the call that failed last stands for. */
static int cause;

/* Fails this call? Then its caller has to tell this errno. */
static bool fails_with(int error)
{
	if (!failing || --failing)
		return false;
	cause = error;
	errno = error;
	return true;
}

static bool fails(void)
{
	return fails_with(ENOMEM);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __real_aligned_alloc(align, size);
}

struct nl_sock *__wrap_nl_socket_alloc(void)
{
	return fails() ? NULL : __real_nl_socket_alloc();
}

int __wrap_nl_connect(struct nl_sock *nl, int protocol)
{
	return fails_with(EIO) ? -NLE_FAILURE : __real_nl_connect(nl, protocol);
}

int __wrap_eventfd(unsigned int value, int flags)
{
	return fails_with(EMFILE) ? -1 : __real_eventfd(value, flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
	return fails_with(EMFILE) ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_socket(int domain, int type, int protocol)
{
	return fails_with(EMFILE) ? -1 : __real_socket(domain, type, protocol);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return fails_with(EAGAIN) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* libevent's own allocations. */
static void *event_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

static void *event_realloc(void *p, size_t size)
{
	return fails() ? NULL : realloc(p, size);
}

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", 4096);
	rnic_side_qp(&side, 1, 1, 64); /* so that the device has its tables */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&side);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

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

/* The thread that reads the interface's state closes its own descriptors when it ends. */
static void await_descriptors(unsigned int want)
{
	for (int i = 0; i < 30000 && descriptors() != want; i++)
		usleep(1000);
	assert_int_equal(descriptors(), want);
}

static int open_device(struct rnic **ret_rnic, bool hurry, char error[RNIC_ERROR_LEN])
{
	const struct rnic_open_params params = { .base = base, .hurry = hurry };
	*error = '\0';
	return rnic_open("soft:lo", &params, ret_rnic, error);
}

/* Opening a device: its tables and batches, the thread that reads the interface's state, the socket
 * of its address. Each failure is told with the name of the device. */
static void device(void **state)
{
	(void)state;
	for (int hurry = 0; hurry < 2; hurry++) {
		char error[RNIC_ERROR_LEN];
		struct rnic *rnic = NULL;
		unsigned int open = descriptors(), n = 0;
		int r;
		for (failing = ++n; (r = open_device(&rnic, hurry, error)) != 0; failing = ++n) {
			TRIES("hurry %d, call %u", hurry, n);
			assert_int_equal(failing, 0);
			assert_int_equal(r, -cause);
			assert_null(rnic);
			assert_ptr_equal(strstr(error, "rnic soft:lo: "), error);
			await_descriptors(open);
		}
		failing = 0;
		assert_true(n > 18);
		rnic_close(rnic);
		await_descriptors(open);
	}
}

static struct rnic_info info_of(const struct rnic_side *of)
{
	struct rnic_info info;
	rnic_get_info(of->rnic, &info);
	return info;
}

/* Let the device read the interface's state, in which each call in turn fails from now on. */
static void read_interface(unsigned int n)
{
	struct rnic_stats before, now;
	rnic_get_stats(side.rnic, &before);
	failing = n;
	rnic_link_changed(side.rnic);
	do {
		event_base_loop(base, EVLOOP_ONCE);
		rnic_get_stats(side.rnic, &now);
	} while (now.interface_reads == before.interface_reads);
}

/* An address that comes when there is no memory for its socket is no GID, and becomes one when the
 * device looks again. The other addresses stay. */
static void address(void **state)
{
	(void)state;
	assert_int_equal(info_of(&side).num_gids, 1);
	testnet_addr_add("t0", "10.77.0.9/24");
	unsigned int n = 0;
	do {
		TRIES("call %u", n + 1);
		struct rnic_info info = info_of(&side);
		assert_int_equal(info.num_gids, 1);
		assert_int_equal(info.gids[0].raw[15], 1);
		assert_int_equal(info.state, RNIC_PORT_ACTIVE);
		read_interface(++n);
	} while (failing == 0);
	failing = 0;
	assert_true(n > 4); /* the endpoint, its socket, two events */
	assert_int_equal(info_of(&side).num_gids, 2);
	testnet_addr_delete("t0", "10.77.0.9/24");
	read_interface(0);
	assert_int_equal(info_of(&side).num_gids, 1);
}

static void protection_domain(void **state)
{
	(void)state;
	struct rnic_pd *pd = NULL;
	failing = 1;
	assert_int_equal(rnic_pd_alloc(side.rnic, &pd), -ENOMEM);
	assert_null(pd);
	assert_int_equal(rnic_pd_alloc(side.rnic, &pd), 0);
	rnic_pd_free(pd);
}

static void memory_region(void **state)
{
	(void)state;
	struct rnic_mr *mr = NULL;
	failing = 1;
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 64, 0, &mr), -ENOMEM);
	assert_null(mr);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 64, 0, &mr), 0);
	rnic_mr_deregister(mr);
}

static void window(void **state)
{
	(void)state;
	struct rnic_window *mw = NULL;
	unsigned int users = ((struct soft_pd *)side.pd)->users;
	failing = 1;
	assert_int_equal(rnic_window_new(side.pd, &mw), -ENOMEM);
	assert_null(mw);
	assert_int_equal(((struct soft_pd *)side.pd)->users, users);
	assert_int_equal(rnic_window_new(side.pd, &mw), 0);
	rnic_window_free(mw);
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

/* The allocations for a queue pair, its completions, its timer with a descriptor and two events,
 * its send queue and its receive buffers (or the list of the user's, and pieces of requests). */
static void create(bool user_receives)
{
	struct rnic_qp_params params = { .send_depth = 8,
					 .recv_depth = 4,
					 .recv_size = 64,
					 .user_receives = user_receives,
					 .max_sge = user_receives ? RNIC_MAX_SGE : 0,
					 .on_completion = on_completion };
	struct rnic_qp *qp = NULL;
	unsigned int users = ((struct soft_pd *)side.pd)->users;
	unsigned int open = descriptors();
	unsigned int n = 0;
	int r;
	for (failing = ++n; (r = rnic_qp_create(side.pd, &params, &qp)) != 0; failing = ++n) {
		TRIES("call %u", n);
		assert_int_equal(failing, 0);
		assert_int_equal(r, -cause);
		assert_null(qp);
		assert_int_equal(((struct soft_pd *)side.pd)->users, users);
		assert_int_equal(descriptors(), open);
	}
	failing = 0;
	assert_true(n > 8);
	rnic_qp_destroy(qp);
}

static void queue_pair(void **state)
{
	(void)state;
	create(false);
}

static void queue_pair_with_receives_of_the_user(void **state)
{
	(void)state;
	create(true);
}

/* The responses of a queue pair whose peer may read, and its own READs. It can be connected when
 * there is memory. */
static void responses(void **state)
{
	(void)state;
	struct rnic_qp_params params = { .send_depth = 8,
					 .recv_depth = 4,
					 .user_receives = true,
					 .on_completion = on_completion };
	struct rnic_qp_peer peer = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				     .qpn = 2,
				     .path_mtu = 1,
				     .reads_answered = 1 };
	struct rnic_qp *qp;
	assert_int_equal(rnic_qp_create(side.pd, &params, &qp), 0);
	failing = 1;
	assert_int_equal(rnic_qp_connect(qp, &peer), -ENOMEM);
	assert_int_equal(rnic_qp_connect(qp, &peer), 0);
	/* The same for own READs. */
	struct rnic_qp_send_params send = { .retry_ms = 100, .reads_asked = 1 };
	struct rnic_send_wr read = { .opcode = RNIC_WR_RDMA_READ };
	failing = 1;
	assert_int_equal(rnic_qp_start(qp, &send), -ENOMEM);
	assert_int_equal(rnic_post_send(qp, &read, 1), -EINVAL);
	assert_int_equal(rnic_qp_start(qp, &send), 0);
	assert_int_equal(rnic_post_send(qp, &read, 1), 0);
	rnic_qp_destroy(qp);
}

/* A packet for which there is no memory has to be sent again. */
static void held_packet(void **state)
{
	(void)state;
	size_t budget = 1000;
	struct soft_hold hold = { .budget = &budget };
	for (unsigned int n = 1; n <= 2; n++) {
		failing = n;
		assert_int_equal(soft_hold_put(&hold, 0, 1, (const uint8_t *)"x", 1, 0),
				 SOFT_HOLD_FULL);
		assert_int_equal(hold.count, 0);
		assert_true(budget == 1000);
	}
	failing = 0;
	assert_int_equal(soft_hold_put(&hold, 0, 1, (const uint8_t *)"x", 1, 0), SOFT_HOLD_KEPT);
	soft_hold_clear(&hold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device),
		cmocka_unit_test(address),
		cmocka_unit_test(protection_domain),
		cmocka_unit_test(memory_region),
		cmocka_unit_test(queue_pair),
		cmocka_unit_test(queue_pair_with_receives_of_the_user),
		cmocka_unit_test(window),
		cmocka_unit_test(responses),
		cmocka_unit_test(held_packet),
	};
	event_set_mem_functions(event_malloc, event_realloc, free);
	return cmocka_run_group_tests(tests, setup, teardown);
}
