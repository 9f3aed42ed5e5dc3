/* SPDX-License-Identifier: MIT */
/* RNICs of libibverbs on rdma_rxe: what any RNIC has to do, and what only verbs devices do. Runs in
 * the guest "rnic": rxe0 on t0 and rxe1 on t1, a veth pair in this namespace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/hotplug.h"
#include "daemon/rnic/verbs/internal.h"
#include "tests/lib/rnic_behaviour.h"
#include "tests/lib/testnet.h"

#define PATIENCE 10000

#define a behaviour_a
#define b behaviour_b

static int setup(void **state)
{
	(void)state;
	behaviour_base = event_base_new();
	rnic_side_open(&a, behaviour_base, "verbs:rxe0", RNIC_BEHAVIOUR_MEM);
	rnic_side_open(&b, behaviour_base, "verbs:rxe1/1", RNIC_BEHAVIOUR_MEM);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&a);
	rnic_side_close(&b);
	event_base_free(behaviour_base);
	return 0;
}

static const uint8_t gid_a[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 1 };
static const uint8_t gid_b[16] = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 };

static void device_says_what_it_is(void **state)
{
	(void)state;
	struct rnic_info info;
	rnic_get_info(a.rnic, &info);
	assert_string_equal(info.name, "verbs:rxe0/1");
	assert_int_equal(info.kind, RNIC_VERBS);
	assert_int_equal(info.port, 1);
	assert_string_equal(info.netdev, "t0");
	assert_int_equal(info.state, RNIC_PORT_ACTIVE);
	assert_int_equal(info.max_path_mtu, 5);
	assert_int_equal(info.max_reads_answered, 128);
	assert_int_equal(info.max_reads_asked, 128);
	assert_true(info.windows);
	assert_true(info.num_gids >= 1);
	assert_memory_equal(info.gids[0].raw, gid_a, 16);
	assert_int_equal(info.gids[0].type, RNIC_GID_ROCE_V2);
	assert_int_equal(info.gids[0].prefix_len, 24);
	uint8_t mac[6];
	testnet_link_mac("t0", mac);
	assert_memory_equal(info.mac, mac, 6);
}

static void collect(void *ctx, const struct rnic_verbs_port *port)
{
	char *names = ctx;
	sprintf(names + strlen(names), "%s on %s; ", port->name, port->netdev);
}

static void ports_are_listed(void **state)
{
	(void)state;
	char names[1000] = "";
	rnic_verbs_each(collect, names);
	assert_non_null(strstr(names, "verbs:rxe0/1 on t0; "));
	assert_non_null(strstr(names, "verbs:rxe1/1 on t1; "));
}

/* When a device cannot be opened, the error tells why. */
static void refusals(void **state)
{
	(void)state;
	struct rnic_open_params params = { .base = behaviour_base };
	struct rnic *rnic = NULL;
	char error[RNIC_ERROR_LEN];
	assert_int_equal(rnic_open("verbs:rxe7", &params, &rnic, error), -ENODEV);
	assert_non_null(strstr(error, "rnic verbs:rxe7/1: no such RDMA device; this host has "));
	assert_non_null(strstr(error, "rxe0"));
	assert_int_equal(rnic_open("verbs:rxe0/2", &params, &rnic, error), -ENODEV);
	assert_string_equal(error, "rnic verbs:rxe0/2: the device's ports are 1 to 1");
	assert_int_equal(rnic_open("soft:t0", &params, &rnic, error), -EADDRINUSE);
	assert_non_null(strstr(error, "the kernel (rdma_rxe)"));
	assert_null(rnic);
}

/* A device that is shared with other namespaces does not show their GIDs. */
static void other_namespace(void **state)
{
	(void)state;
	struct rnic_open_params params = { .base = behaviour_base };
	struct rnic *rnic = NULL;
	struct testnet net;
	char error[RNIC_ERROR_LEN], names[100] = "";
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	testnet_new(&net, 1500);
	int r = rnic_open("verbs:rxe0", &params, &rnic, error);
	rnic_verbs_each(collect, names);
	assert_int_equal(setns(here, CLONE_NEWNET), 0);
	close(here);
	testnet_free(&net);
	assert_int_equal(r, -EADDRNOTAVAIL);
	assert_non_null(strstr(error, "no RoCE GID for an interface of this network namespace"));
	assert_string_equal(names, "");
}

/* ---- memory */

/* Peers learn no address of this process: rdma_rxe takes a start of our own. The transfers of the
 * other tests go to such addresses. */
static void peers_are_told_a_random_start(void **state)
{
	(void)state;
	const struct rnic_side *sides[] = { &a, &b };
	for (int i = 0; i < 2; i++) {
		const struct rnic_side *side = sides[i];
		assert_true(verbs_device_of(side->rnic)->starts_anywhere);
		assert_true(rnic_mr_vaddr(side->mr) != (uintptr_t)side->mem);
		assert_true((rnic_mr_vaddr(side->mr) - (uintptr_t)side->mem) %
				    (uintptr_t)sysconf(_SC_PAGESIZE) ==
			    0);
	}
	assert_true(rnic_mr_vaddr(a.mr) != rnic_mr_vaddr(b.mr));
}

/* ---- windows, receive buffers */

/* Other devices than rdma_rxe look at the bounds of a window, and so need no region for each
 * binding: the same windows, bound as they are there. */
static void windows_of_whole_regions(void **state)
{
	const struct rnic_behaviour_group *group = &rnic_behaviour_window;
	assert_true(verbs_device_of(b.rnic)->windows_leak);
	verbs_device_of(b.rnic)->windows_leak = false;
	for (size_t i = 0; i < group->num; i++) {
		const struct CMUnitTest *test = &group->tests[i];
		if (strcmp(test->name, "nothing_beside_them_is") == 0)
			continue;
		test->setup_func(state);
		test->test_func(state);
		test->teardown_func(state);
	}
	verbs_device_of(b.rnic)->windows_leak = true;
}

/* From a device that does not flush, the user's buffers come back all the same: many more than a
 * batch, in order, and the end behind them. */
static void buffers_of_a_device_that_keeps_them(void **state)
{
	const size_t num = 100;
	(void)state;
	a.user_receives = true;
	rnic_side_qp(&a, 8, (unsigned int)num, 0);
	for (uint64_t i = 0; i < num; i++)
		assert_int_equal(rnic_side_post_recv(&a, i, 1, 1000 + i), 0);
	struct verbs_qp *qp = (struct verbs_qp *)a.qp;
	qp->state = VERBS_QP_ERR; /* of which the device knows nothing */
	qp->end_now = qp->ready = true;
	verbs_device_kick(qp->dev);
	assert_true(rnic_side_wait(behaviour_base, &a.num_recvs, num + 1, PATIENCE));
	rnic_side_idle(behaviour_base, 20);
	assert_int_equal(a.num_recvs, num + 1);
	for (size_t i = 0; i <= num; i++) {
		assert_int_equal(a.recvs[i].status, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(a.recvs[i].wr_id, i < num ? 1000 + i : 0);
	}
	qp->state = VERBS_QP_INIT; /* so that it is stopped */
	rnic_behaviour_disconnect(NULL);
}

/* ---- inline data */

static void without_inline(void **state)
{
	(void)state;
	rnic_behaviour_disconnect(NULL);
	verbs_device_of(a.rnic)->inline_wanted = 16;
	rnic_behaviour_connect(NULL);
	verbs_device_of(a.rnic)->inline_wanted = RNIC_MAX_INLINE;
	char text[64];
	for (unsigned int i = 0; i < 1000;) {
		memset(text, (int)i, sizeof(text));
		int r = rnic_side_send(&a, text, 1 + i % sizeof(text), i);
		if (r == 0) {
			i++;
			continue;
		}
		assert_int_equal(r, -ENOMEM);
		event_base_loop(behaviour_base, EVLOOP_ONCE);
	}
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1000, PATIENCE));
	for (unsigned int i = 0; i < 1000; i++) {
		assert_int_equal(b.messages[i].length, 1 + i % sizeof(text));
		for (unsigned int k = 0; k < b.messages[i].length; k++)
			assert_int_equal(b.messages[i].data[k], (uint8_t)i);
	}
	const struct rnic_sge pieces[] = { { "abcdefghij", 10, 0 },
					   { NULL, 0, 0 },
					   { "0123456789", 10, 0 } };
	struct rnic_send_wr wr = {
		.opcode = RNIC_WR_SEND, .flags = RNIC_SEND_INLINE, .num_sge = 3, .pieces = pieces
	};
	rnic_behaviour_disconnect(NULL);
	verbs_device_of(a.rnic)->inline_wanted = 16;
	a.max_sge = 3;
	rnic_behaviour_connect(NULL);
	verbs_device_of(a.rnic)->inline_wanted = RNIC_MAX_INLINE;
	assert_int_equal(rnic_post_send(a.qp, &wr, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	assert_int_equal(b.messages[0].length, 20);
	assert_memory_equal(b.messages[0].data, "abcdefghij0123456789", 20);
}

/* ---- rnic_poll() */

#define NOTES 30

/* rnic_poll() reports what the kernel has done meanwhile, without the event loop. */
static void poll_hands_in(void **state)
{
	(void)state;
	rnic_side_pattern(a.mem, NOTES * 100, 7);
	memset(b.mem, 0, NOTES * 100);
	rnic_poll(b.rnic);
	for (uint32_t i = 0; i < NOTES; i++) {
		assert_int_equal(rnic_side_write(&a, i * 100, 100, &b, i * 100, i), 0);
		assert_int_equal(rnic_side_send(&a, &i, sizeof(i), i), 0);
	}
	for (int i = 0; i < PATIENCE && b.num_messages < NOTES; i++) {
		usleep(1000);
		rnic_poll(b.rnic);
	}
	assert_int_equal(b.num_messages, NOTES);
	assert_memory_equal(b.mem, a.mem, NOTES * 100);
	for (int i = 0; i < PATIENCE && a.num_sends < 2 * NOTES; i++) {
		usleep(1000);
		rnic_poll(a.rnic);
	}
	assert_int_equal(a.num_sends, 2 * NOTES);
	/* Events of completions that were polled already find nothing; later ones are still
	 * reported. */
	rnic_side_idle(behaviour_base, 20);
	assert_int_equal(b.num_messages, NOTES);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, NOTES + 1, PATIENCE));
}

static void poll_other(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (!wc->is_recv)
		return;
	rnic_poll(side->rnic); /* the device has no other QP, so nothing is reported */
	for (int i = 0; i < PATIENCE && a.num_sends < 1; i++) {
		usleep(1000);
		rnic_poll(a.rnic);
	}
	assert_int_equal(a.num_sends, 1);
}

static void poll_from_another_devices_callback(void **state)
{
	(void)state;
	b.hook = poll_other;
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 1, PATIENCE));
	assert_int_equal(a.num_sends, 1);
}

static void destroy_both(struct rnic_side *side, const struct rnic_wc *wc)
{
	(void)wc;
	rnic_side_qp_destroy(side);
	rnic_side_qp_destroy(&a);
}

static void poll_callback_destroys(void **state)
{
	(void)state;
	b.hook = destroy_both;
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	for (int i = 0; i < PATIENCE && b.num_messages < 1; i++) {
		usleep(1000);
		rnic_poll(b.rnic);
	}
	assert_null(a.qp);
	assert_null(b.qp);
	rnic_side_idle(behaviour_base, 20);
}

/* ---- the end of the process */

/* Connect `a` to a device that is about to be closed. */
static void connected_one_leaves(struct rnic_side *c)
{
	rnic_side_open(c, behaviour_base, "verbs:rxe1/1", 4096);
	rnic_side_qp(&a, 8, 8, 44);
	rnic_side_qp(c, 8, 8, 44);
	rnic_side_join(&a, c, 3);
	rnic_leave(c->rnic);
	rnic_qp_error(c->qp);
}

/* What the peer still sends is acknowledged, but not reported here. */
static void who_leaves_goes_on_to_answer(void **state)
{
	(void)state;
	struct rnic_side c;
	connected_one_leaves(&c);
	rnic_side_qp_destroy(&c);
	assert_int_equal(rnic_side_write(&a, 0, 100, &c, 0, 1), 0);
	assert_int_equal(rnic_side_send(&a, "x", 1, 2), 0);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 2, PATIENCE));
	for (int i = 0; i < 2; i++)
		assert_int_equal(a.sends[i].status, RNIC_WC_SUCCESS);
	assert_int_equal(c.num_messages + c.recv_errors, 0);
	rnic_behaviour_disconnect(NULL);
	rnic_side_close(&c);
}

/* So does one whose windows and memory were given back: nothing of that reaches the device any
 * more.
 */
static void who_leaves_gives_windows_back(void **state)
{
	(void)state;
	struct rnic_side c;
	struct rnic_window *window;
	struct rnic_mr *mr;
	rnic_side_open(&c, behaviour_base, "verbs:rxe1/1", 4096);
	rnic_side_qp(&a, 8, 8, 44);
	rnic_side_qp(&c, 8, 8, 44);
	rnic_side_join(&a, &c, 3);
	assert_int_equal(rnic_mr_register(c.pd, c.mem, 4096,
					  RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &mr),
			 0);
	assert_int_equal(rnic_window_new(c.pd, &window), 0);
	assert_int_equal(rnic_window_bind(window, c.qp, mr, c.mem, 100, RNIC_ACCESS_REMOTE_WRITE),
			 0);
	assert_int_equal(rnic_side_send(&c, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &c.num_sends, 1, PATIENCE));
	rnic_leave(c.rnic);
	rnic_qp_error(c.qp);
	rnic_side_qp_destroy(&c);
	rnic_window_free(window);
	rnic_mr_deregister(mr);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(a.sends[0].status, RNIC_WC_SUCCESS);
	rnic_behaviour_disconnect(NULL);
	rnic_side_close(&c);
}

/* libibverbs reads an asynchronous event of a device. */
static void raise_async(struct rnic *rnic, enum ibv_event_type type, const void *element)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	const struct ib_uverbs_async_event_desc event = { .element = (uintptr_t)element,
							  .event_type = type };
	const int async_fd = dev->context->async_fd;
	int ends[2];
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(write(ends[1], &event, sizeof(event)), sizeof(event));
	dev->context->async_fd = ends[0];
	event_active(dev->async, EV_READ, 0);
	event_base_loop(behaviour_base, EVLOOP_NONBLOCK);
	dev->context->async_fd = async_fd;
	close(ends[0]);
	close(ends[1]);
}

/* An asynchronous event of a queue pair that was left at work changes nothing. */
static void who_leaves_ignores_events(void **state)
{
	(void)state;
	struct rnic_side c;
	connected_one_leaves(&c);
	const struct ibv_qp *qp = ((const struct verbs_qp *)c.qp)->qp;
	rnic_side_qp_destroy(&c);
	raise_async(c.rnic, IBV_EVENT_QP_ACCESS_ERR, qp);
	assert_int_equal(qp->events_completed, 1);
	assert_int_equal(rnic_side_send(&a, "x", 1, 1), 0);
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 1, PATIENCE));
	assert_int_equal(a.sends[0].status, RNIC_WC_SUCCESS);
	rnic_behaviour_disconnect(NULL);
	rnic_side_close(&c);
}

/* A queue pair that is not destroyed reports errors as usual. */
static void who_leaves_hears_of_errors(void **state)
{
	(void)state;
	struct rnic_side c;
	connected_one_leaves(&c);
	assert_true(rnic_side_wait(behaviour_base, &c.recv_errors, 1, PATIENCE));
	rnic_behaviour_disconnect(NULL);
	rnic_side_close(&c);
}

/* ---- neighbours */

static struct {
	unsigned int sets, unsets, ifindex;
	int family, answer;
	uint8_t addr[4], mac[6];
} host;

static int neigh_set(void *ctx, unsigned int ifindex, int family, const void *addr,
		     const uint8_t mac[6])
{
	assert_ptr_equal(ctx, &host);
	host.sets++;
	host.ifindex = ifindex;
	host.family = family;
	memcpy(host.addr, addr, 4);
	memcpy(host.mac, mac, 6);
	return host.answer;
}

static void neigh_unset(void *ctx, unsigned int ifindex, int family, const void *addr,
			const uint8_t mac[6])
{
	assert_ptr_equal(ctx, &host);
	assert_int_equal(ifindex, host.ifindex);
	assert_int_equal(family, host.family);
	assert_memory_equal(addr, host.addr, 4);
	assert_memory_equal(mac, host.mac, 6);
	host.unsets++;
}

static void no_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

/* The MAC that the peer has told is in the neighbour table as long as a QP needs it. */
static void neighbour_entries(void **state)
{
	(void)state;
	static const struct rnic_host_ops ops = { neigh_set, neigh_unset };
	struct rnic_open_params params = { .base = behaviour_base,
					   .host_ops = &ops,
					   .host_ctx = &host };
	struct rnic_qp_params qp_params = {
		.send_depth = 4, .recv_depth = 4, .recv_size = 44, .on_completion = no_completion
	};
	struct rnic_qp_peer peer = { .mac = { 2, 0, 0, 0, 0, 9 }, .qpn = 77, .path_mtu = 3 };
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_qp *qp[2];
	char error[RNIC_ERROR_LEN];
	memcpy(peer.gid, gid_b, 16);
	assert_int_equal(rnic_open("verbs:rxe0", &params, &rnic, error), 0);
	assert_int_equal(rnic_pd_alloc(rnic, &pd), 0);
	assert_int_equal(rnic_qp_create(pd, &qp_params, &qp[0]), 0);
	assert_int_equal(rnic_qp_create(pd, &qp_params, &qp[1]), 0);
	host.answer = -EPERM;
	assert_int_equal(rnic_qp_connect(qp[0], &peer), -EPERM);
	host.answer = 0;
	assert_int_equal(rnic_qp_connect(qp[0], &peer), 0);
	assert_int_equal(host.sets, 2);
	assert_int_equal(host.ifindex, if_nametoindex("t0"));
	assert_int_equal(host.family, AF_INET);
	assert_memory_equal(host.addr, gid_b + 12, 4);
	assert_memory_equal(host.mac, peer.mac, 6);
	rnic_qp_destroy(qp[0]);
	assert_int_equal(host.unsets, 1);
	memset(peer.mac, 0, 6); /* unknown: the host has to find the MAC */
	assert_int_equal(rnic_qp_connect(qp[1], &peer), 0);
	assert_int_equal(host.sets, 3);
	assert_memory_equal(host.mac, peer.mac, 6);
	rnic_qp_destroy(qp[1]);
	assert_int_equal(host.unsets, 2);
	/* This host's own address needs no entry. */
	memcpy(peer.gid, gid_a, 16);
	memset(peer.mac, 5, 6);
	assert_int_equal(rnic_qp_create(pd, &qp_params, &qp[0]), 0);
	assert_int_equal(rnic_qp_connect(qp[0], &peer), 0);
	assert_int_equal(host.sets, 3);
	rnic_qp_destroy(qp[0]);
	rnic_pd_free(pd);
	rnic_close(rnic);
}

/* ---- limits and counters */

static int register_without_capability(void)
{
	/* Header and data of capset(2), version 3: no capabilities. */
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} none[2] = { 0 };
	const struct rlimit low = { 65536, 65536 };
	struct rnic_side side;
	struct rnic_mr *mr;
	if (setrlimit(RLIMIT_MEMLOCK, &low) || syscall(SYS_capset, &header, none))
		return EXIT_FAILURE;
	rnic_side_open(&side, event_base_new(), "verbs:rxe0", 4096);
	uint8_t *mem = malloc(1 << 20);
	int r = rnic_mr_register(side.pd, mem, 1 << 20, RNIC_ACCESS_LOCAL_WRITE, &mr);
	return r == -ENOMEM ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Without CAP_IPC_LOCK the limit of locked memory applies. Run in another process, because the
 * kernel refuses devices to a process that has changed its capabilities since it opened them. */
static void memory_limit(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(register_without_capability());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void packets_are_counted(void **state)
{
	(void)state;
	struct rnic_stats before, after;
	rnic_get_stats(a.rnic, &before);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(rnic_side_send(&a, "x", 1, i), 0);
	assert_true(rnic_side_wait(behaviour_base, &b.num_messages, 10, PATIENCE));
	assert_true(rnic_side_wait(behaviour_base, &a.num_sends, 10, PATIENCE));
	/* The kernel's counters are some milliseconds late. */
	for (int i = 0; i < PATIENCE / 10; i++) {
		rnic_get_stats(a.rnic, &after);
		if (after.tx_packets >= before.tx_packets + 10)
			break;
		rnic_side_idle(behaviour_base, 10);
	}
	assert_true(after.tx_packets >= before.tx_packets + 10);
	assert_true(after.rx_packets > before.rx_packets);
}

/* ---- what devices do */

static bool wait_event(struct rnic_side *side, enum rnic_event_type type)
{
	for (int i = 0; i < PATIENCE / 10 && side->events[type] == 0; i++)
		rnic_side_idle(behaviour_base, 10);
	return side->events[type] > 0;
}

static void port_goes_and_comes(void **state)
{
	(void)state;
	struct rnic_info info;
	testnet_link_up("t0", 0);
	assert_true(wait_event(&a, RNIC_EVENT_PORT_DOWN));
	rnic_get_info(a.rnic, &info);
	assert_int_equal(info.state, RNIC_PORT_DOWN);
	testnet_link_up("t0", 1);
	assert_true(wait_event(&a, RNIC_EVENT_PORT_ACTIVE));
	rnic_get_info(a.rnic, &info);
	assert_int_equal(info.state, RNIC_PORT_ACTIVE);
	assert_memory_equal(info.gids[0].raw, gid_a, 16);
}

static bool has_gid(const struct rnic *rnic, const uint8_t gid[16])
{
	struct rnic_info info;
	rnic_get_info(rnic, &info);
	for (size_t i = 0; i < info.num_gids; i++) {
		if (!memcmp(info.gids[i].raw, gid, 16))
			return true;
	}
	return false;
}

static void addresses_change(void **state)
{
	(void)state;
	static const uint8_t more[16] = { [10] = 0xFF, 0xFF, 10, 78, 0, 1 };
	assert_false(has_gid(a.rnic, more));
	testnet_addr_add("t0", "10.78.0.1/24");
	for (int i = 0; i < PATIENCE / 10 && !has_gid(a.rnic, more); i++)
		rnic_side_idle(behaviour_base, 10);
	assert_true(has_gid(a.rnic, more));
	assert_true(wait_event(&a, RNIC_EVENT_CHANGED));
	testnet_addr_delete("t0", "10.78.0.1/24");
	for (int i = 0; i < PATIENCE / 10 && has_gid(a.rnic, more); i++)
		rnic_side_idle(behaviour_base, 10);
	assert_false(has_gid(a.rnic, more));
	assert_true(has_gid(a.rnic, gid_a));
}

static void link_changed(void *ctx)
{
	rnic_link_changed(((struct rnic_side *)ctx)->rnic);
}

/* rdma_rxe is removed only when no process has the device open; a uevent tells that it should go.
 */
static void device_is_removed(void **state)
{
	(void)state;
	struct hotplug_watch *watch;
	struct rnic_side c;
	assert_int_equal(system("ip link add t9 type dummy && ip addr add 10.79.0.1/24 dev t9 && "
				"ip link set t9 up && rdma link add rxe9 type rxe netdev t9"),
			 0);
	rnic_side_open(&c, behaviour_base, "verbs:rxe9", 4096);
	rnic_side_qp(&c, 4, 4, 44);
	assert_int_equal(hotplug_watch_new(behaviour_base, link_changed, &c, &watch), 0);
	assert_int_equal(system("rdma link delete rxe9 &"), 0);
	assert_true(wait_event(&c, RNIC_EVENT_REMOVED));
	/* The device's queue pairs have ended. */
	assert_true(rnic_side_wait(behaviour_base, &c.recv_errors, 1, PATIENCE));
	hotplug_watch_free(watch);
	rnic_side_close(&c);
	for (int i = 0; i < 100 && access("/sys/class/infiniband/rxe9", F_OK) == 0; i++)
		usleep(20000);
	assert_int_not_equal(access("/sys/class/infiniband/rxe9", F_OK), 0);
	assert_int_equal(system("ip link delete t9"), 0);
}

/* With an argument run only tests whose names match that pattern. */
int main(int argc, char **argv)
{
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
#define CONNECTED(f)                                                                               \
	cmocka_unit_test_setup_teardown(f, rnic_behaviour_connect, rnic_behaviour_disconnect)
	const struct CMUnitTest own[] = {
		cmocka_unit_test(device_says_what_it_is),
		cmocka_unit_test(ports_are_listed),
		cmocka_unit_test(refusals),
		cmocka_unit_test(other_namespace),
		cmocka_unit_test(neighbour_entries),
		cmocka_unit_test(memory_limit),
		cmocka_unit_test(peers_are_told_a_random_start),
		cmocka_unit_test(windows_of_whole_regions),
		cmocka_unit_test(buffers_of_a_device_that_keeps_them),
		CONNECTED(without_inline),
		CONNECTED(poll_hands_in),
		CONNECTED(poll_from_another_devices_callback),
		CONNECTED(poll_callback_destroys),
		cmocka_unit_test(who_leaves_goes_on_to_answer),
		cmocka_unit_test(who_leaves_gives_windows_back),
		cmocka_unit_test(who_leaves_ignores_events),
		cmocka_unit_test(who_leaves_hears_of_errors),
		CONNECTED(packets_are_counted),
		CONNECTED(port_goes_and_comes),
		CONNECTED(addresses_change),
		cmocka_unit_test(device_is_removed),
	};
	return rnic_behaviour_run("verbs RNIC", own, sizeof(own) / sizeof(own[0]), setup, teardown);
}
