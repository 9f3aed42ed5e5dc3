/* SPDX-License-Identifier: MIT */
/* Soft RNIC as a device: opening, refusals, changes of the interface, neighbour entries. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/privileges.h"
#include "daemon/rnic/soft.h"
#include "proto/roce/roce.h"
#include "tests/lib/proves.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define PATIENCE 30000 /* milliseconds: of a busy machine */

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static int try_open(const char *name, char error[RNIC_ERROR_LEN])
{
	struct rnic_open_params params = { .base = base };
	struct rnic *rnic = NULL;
	error[0] = '\0';
	int r = rnic_open(name, &params, &rnic, error);
	if (r == 0)
		rnic_close(rnic);
	else
		assert_null(rnic);
	return r;
}

static void refused_names(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	assert_int_equal(try_open("soft:nosuch0", error), -ENODEV);
	assert_string_equal(error, "rnic soft:nosuch0: no such network interface");
	assert_int_equal(try_open("soft:", error), -EINVAL);
	assert_int_equal(try_open("eth0", error), -EINVAL);
	assert_non_null(strstr(error, "soft:IFNAME"));
	assert_int_equal(try_open("soft:t0", error), 0);
	/* The first device has given the port back. */
	assert_int_equal(try_open("soft:t0", error), 0);
}

/* Starts a process that holds the port with so many sockets until it is killed. */
static pid_t hold_port_often(const char *name, const char *addr, unsigned int sockets)
{
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		struct sockaddr_in sin = { .sin_family = AF_INET,
					   .sin_port = htons(ROCE_UDP_PORT) };
		inet_pton(AF_INET, addr, &sin.sin_addr);
		while (sockets--) {
			const int on = 1;
			int fd = socket(AF_INET, SOCK_DGRAM, 0);
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)))
				_exit(1);
		}
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	char c;
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static pid_t hold_port(const char *name, const char *addr)
{
	return hold_port_often(name, addr, 1);
}

static void holder_is_named(void **state)
{
	(void)state;
	static const char *const addrs[] = { "10.77.0.1", "0.0.0.0" };
	for (int i = 0; i < 2; i++) {
		char error[RNIC_ERROR_LEN], expect[64];
		pid_t child = hold_port("other-smcrd", addrs[i]);
		assert_int_equal(try_open("soft:t0", error), -EADDRINUSE);
		snprintf(expect, sizeof(expect), "in use by other-smcrd (pid %d)", (int)child);
		assert_non_null(strstr(error, "rnic soft:t0: cannot bind UDP 10.77.0.1:4791"));
		assert_non_null(strstr(error, expect));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	/* A process that holds the port at another address does not matter. */
	char error[RNIC_ERROR_LEN];
	pid_t child = hold_port("harmless", "127.0.0.1");
	assert_int_equal(try_open("soft:t0", error), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Without the capabilities of the process that holds the port, smcrd names it as it was noted
 * before, but not as it was noted before the last time. */
static bool hidden_holder_is_told(pid_t holder)
{
	char error[RNIC_ERROR_LEN], noted[64];
	snprintf(noted, sizeof(noted), "in use by other-smcrd (pid %d)", (int)holder);
	rnic_soft_note_holders();
	if (privileges_drop("/") || try_open("soft:t0", error) != -EADDRINUSE ||
	    !strstr(error, noted))
		return false;
	rnic_soft_note_holders();
	return try_open("soft:t0", error) == -EADDRINUSE &&
	       strstr(error, "or a process that `ss -lunp` shows to root; stop it");
}

/* smcrd cannot look into a process with more capabilities. If it has not seen that process before,
 * the error says that such a process may hold the port, not that it must be the kernel. */
static void holder_that_hides_is_not_taken_for_the_kernel(void **state)
{
	(void)state;
	int result;
	pid_t holder = hold_port("other-smcrd", "10.77.0.1");
	pid_t child = fork();
	if (child == 0)
		_exit(hidden_holder_is_told(holder) ? 0 : 1);
	assert_int_equal(waitpid(child, &result, 0), child);
	assert_int_equal(result, 0);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
}

/* A process that was noted has ended. Another one holds the port, with more sockets than are looked
 * at, and none of them is the one that was noted. */
static void other_holder_is_not_taken_for_the_noted_one(void **state)
{
	(void)state;
	int result;
	pid_t holder = hold_port("other-smcrd", "10.77.0.1");
	rnic_soft_note_holders();
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	holder = hold_port_often("many-sockets", "10.77.0.1", 20);
	pid_t child = fork();
	if (child == 0) {
		char error[RNIC_ERROR_LEN];
		bool told = privileges_drop("/") == 0 &&
			    try_open("soft:t0", error) == -EADDRINUSE &&
			    strstr(error, "or a process that `ss -lunp` shows to root; stop it");
		_exit(told ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &result, 0), child);
	assert_int_equal(result, 0);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	rnic_soft_note_holders();
}

/* The kernel itself holds the port, as for rdma_rxe; here it is for a tunnel device. */
static void kernel_is_named(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	testnet_vxlan_add("tunnel", ROCE_UDP_PORT);
	testnet_link_up("tunnel", 1);
	assert_int_equal(try_open("soft:t0", error), -EADDRINUSE);
	assert_non_null(strstr(error, "in use by the kernel"));
	testnet_link_delete("tunnel");
	assert_int_equal(try_open("soft:t0", error), 0);
}

static struct rnic_info info_now(void)
{
	struct rnic_info info;
	rnic_get_info(side.rnic, &info);
	return info;
}

static uint64_t interface_reads(void)
{
	struct rnic_stats stats;
	rnic_get_stats(side.rnic, &stats);
	return stats.interface_reads;
}

/* Asks for the state of the interface, and waits for the kernel's answer. */
static void read_interface(void)
{
	uint64_t before = interface_reads();
	struct rnic_info info = info_now();
	unsigned int told = side.events[RNIC_EVENT_CHANGED];
	rnic_link_changed(side.rnic);
	/* The call itself does not wait for the kernel; events come from the event loop. */
	assert_int_equal(side.events[RNIC_EVENT_CHANGED], told);
	assert_int_equal(interface_reads(), before);
	assert_int_equal(info_now().state, info.state);
	for (int i = 0; i < PATIENCE && interface_reads() == before; i++)
		rnic_side_idle(base, 1);
	assert_true(interface_reads() > before);
}

static void changed(void)
{
	memset(side.events, 0, sizeof(side.events));
	/* The first answer may be to a question from before the change; the second one is not. */
	read_interface();
	read_interface();
	rnic_side_idle(base, 1); /* time for the events */
}

/* The kernel notices the carrier a little later than the change that causes it. */
static void changed_at_last(enum rnic_event_type type)
{
	memset(side.events, 0, sizeof(side.events));
	for (int i = 0; i < PATIENCE && side.events[type] == 0; i++) {
		rnic_link_changed(side.rnic);
		rnic_side_idle(base, 1);
	}
}

static void expect_events(unsigned int active, unsigned int down, unsigned int removed,
			  unsigned int change)
{
	assert_int_equal(side.events[RNIC_EVENT_PORT_ACTIVE], active);
	assert_int_equal(side.events[RNIC_EVENT_PORT_DOWN], down);
	assert_int_equal(side.events[RNIC_EVENT_REMOVED], removed);
	assert_int_equal(side.events[RNIC_EVENT_CHANGED], change);
}

static void interface_changes(void **state)
{
	(void)state;
	rnic_side_open(&side, base, "soft:t0", 4096);
	assert_int_equal(info_now().max_path_mtu, 3);
	changed();
	expect_events(0, 0, 0, 0);

	testnet_link_up("t0", 0);
	changed();
	expect_events(0, 1, 0, 0);
	assert_int_equal(info_now().state, RNIC_PORT_DOWN);
	testnet_link_up("t0", 1);
	changed_at_last(RNIC_EVENT_PORT_ACTIVE);
	expect_events(1, 0, 0, 0);

	/* No carrier: the other end is down. */
	testnet_enter(&net, 1);
	testnet_link_up("t1", 0);
	changed_at_last(RNIC_EVENT_PORT_DOWN);
	expect_events(0, 1, 0, 0);
	testnet_link_up("t1", 1);
	changed_at_last(RNIC_EVENT_PORT_ACTIVE);
	expect_events(1, 0, 0, 0);
	testnet_enter(&net, 0);

	testnet_link_mtu("t0", 9000);
	changed();
	expect_events(0, 0, 0, 1);
	assert_int_equal(info_now().max_path_mtu, 5);
	testnet_link_mtu("t0", 1000);
	changed();
	assert_int_equal(info_now().max_path_mtu, 2);
	testnet_link_mtu("t0", 1500);
	changed();

	testnet_addr_add("t0", "10.78.0.1/16");
	changed();
	expect_events(0, 0, 0, 1);
	assert_int_equal(info_now().num_gids, 2);
	static const uint8_t second[16] = { [10] = 0xFF, 0xFF, 10, 78, 0, 1 };
	assert_memory_equal(info_now().gids[1].raw, second, 16);
	assert_int_equal(info_now().gids[1].prefix_len, 16);
	/* IPv6: no GID, but the prefix of a network. Link-local prefixes do not count. */
	testnet_addr_add("t0", "fd00:77::1/64");
	testnet_addr_add("t0", "fe80::77/64");
	changed();
	expect_events(0, 0, 0, 1);
	static const struct rnic_netdev_addr third = { AF_INET6,
						       { 0xFD, 0, 0, 0x77, [15] = 1 },
						       64 };
	assert_int_equal(info_now().num_gids, 2);
	assert_int_equal(info_now().num_addrs, 3);
	assert_int_equal(info_now().addrs[0].family, AF_INET);
	assert_memory_equal(&info_now().addrs[2], &third, sizeof(third));
	testnet_addr_delete("t0", "fd00:77::1/64");
	changed();
	expect_events(0, 0, 0, 1);
	testnet_addr_delete("t0", "10.77.0.1/24");
	changed();
	expect_events(0, 0, 0, 1);
	assert_int_equal(info_now().num_gids, 1);
	assert_memory_equal(info_now().gids[0].raw, second, 16);
	testnet_addr_delete("t0", "10.78.0.1/16");
	changed();
	expect_events(0, 1, 0, 1);
	assert_int_equal(info_now().num_gids, 0);
	testnet_addr_add("t0", "10.77.0.1/24");
	changed();
	expect_events(1, 0, 0, 1);
	rnic_side_close(&side);
}

/* An address goes and comes back: the queue pair that uses it goes on. */
static void address_flaps(void **state)
{
	(void)state;
	struct rnic_side other;
	rnic_side_open(&side, base, "soft:t0", 4096);
	testnet_enter(&net, 1);
	rnic_side_open(&other, base, "soft:t1", 4096);
	testnet_enter(&net, 0);
	rnic_side_qp(&side, 8, 8, 64);
	rnic_side_qp(&other, 8, 8, 64);
	rnic_side_join(&side, &other, 3);
	assert_int_equal(rnic_side_send(&side, "1", 1, 1), 0);
	assert_true(rnic_side_wait(base, &other.num_messages, 1, PATIENCE));

	testnet_addr_delete("t0", "10.77.0.1/24");
	changed();
	expect_events(0, 1, 0, 1);
	assert_int_equal(rnic_side_send(&side, "2", 1, 2), 0);
	rnic_side_idle(base, 50);
	assert_int_equal(other.num_messages, 1);
	testnet_addr_add("t0", "10.77.0.1/24");
	changed();
	expect_events(1, 0, 0, 1);
	assert_true(rnic_side_wait(base, &other.num_messages, 2, PATIENCE));
	assert_true(rnic_side_wait(base, &side.num_sends, 2, PATIENCE));
	assert_int_equal(side.sends[1].status, RNIC_WC_SUCCESS);
	rnic_side_close(&side);
	rnic_side_close(&other);
}

static size_t down_events(void)
{
	return side.events[RNIC_EVENT_PORT_DOWN];
}

/* The kernel tells of carrier loss once a second at most. If the peer of a queue pair is silent,
 * the device looks for itself, long before the queue pair fails. */
static void carrier_loss_is_noticed_by_silence(void **state)
{
	(void)state;
	struct rnic_side other;
	rnic_side_open(&side, base, "soft:t0", 4096);
	testnet_enter(&net, 1);
	rnic_side_open(&other, base, "soft:t1", 4096);
	rnic_side_qp(&side, 8, 8, 64);
	rnic_side_qp(&other, 8, 8, 64);
	rnic_side_join(&side, &other, 3);
	for (int i = 0; i < 3; i++) {
		testnet_link_up("t1", 0);
		unsigned int ms = 0;
		/* it may fail before the event about the port comes */
		size_t want = side.num_sends + 1;
		assert_int_equal(rnic_side_send(&side, "1", 1, 1), 0);
		for (; ms < PATIENCE && down_events() == 0; ms++)
			rnic_side_idle(base, 1);
		print_message("# noticed after %u ms\n", ms);
		assert_in_range(ms, 0, 1000);
		testnet_link_up("t1", 1);
		changed_at_last(RNIC_EVENT_PORT_ACTIVE);
		assert_true(rnic_side_wait(base, &side.num_sends, want, PATIENCE));
		memset(side.events, 0, sizeof(side.events));
	}
	testnet_enter(&net, 0);
	rnic_side_close(&side);
	rnic_side_close(&other);
}

/* The device is opened before there is an address, as at boot: it has no GID and its port is down.
 * Both change later. */
static void address_comes_later(void **state)
{
	(void)state;
	testnet_addr_delete("t0", "10.77.0.1/24");
	rnic_side_open(&side, base, "soft:t0", 4096);
	assert_int_equal(info_now().num_gids, 0);
	assert_int_equal(info_now().state, RNIC_PORT_DOWN);
	rnic_side_qp(&side, 8, 8, 64);
	struct rnic_qp_peer peer = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 }, .path_mtu = 1 };
	assert_int_equal(rnic_qp_connect(side.qp, &peer), -EADDRNOTAVAIL);
	testnet_addr_add("t0", "10.77.0.1/24");
	changed();
	expect_events(1, 0, 0, 1);
	assert_int_equal(rnic_qp_connect(side.qp, &peer), 0);
	rnic_side_close(&side);
}

/* smcrd may be started without standard input. Then a descriptor of the device is 0, which is
 * closed like any other: here because there is no descriptor for the next socket. */
static void descriptor_zero_is_closed(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	struct rlimit usual, one;
	int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	one = (struct rlimit){ .rlim_cur = 1, .rlim_max = usual.rlim_max };
	close(STDIN_FILENO);
	setrlimit(RLIMIT_NOFILE, &one);
	int r = try_open("soft:t0", error);
	bool is_left = fcntl(STDIN_FILENO, F_GETFD) >= 0;
	setrlimit(RLIMIT_NOFILE, &usual);
	if (input >= 0) {
		dup2(input, STDIN_FILENO);
		close(input);
	}
	assert_non_null(strstr(error, "watch the interface"));
	assert_int_equal(r, -EIO);
	assert_false(is_left);
}

static void close_on_removed(void *ctx, struct rnic *rnic, const struct rnic_event *event)
{
	size_t *removed = ctx;
	if (event->type == RNIC_EVENT_REMOVED) {
		rnic_close(rnic);
		++*removed;
	}
}

/* A device that is opened in a hurry knows all but the carrier at once, and the carrier soon. */
static void opened_in_a_hurry(void **state)
{
	(void)state;
	char error[RNIC_ERROR_LEN];
	struct rnic_open_params params = { .base = base, .hurry = true };
	struct rnic_info info;
	rnic_side_open(&side, base, "soft:t0", 4096);
	struct rnic_info want = info_now();
	rnic_side_close(&side);
	side.rnic = NULL;
	assert_int_equal(rnic_open("soft:missing", &params, &side.rnic, error), -ENODEV);
	assert_int_equal(rnic_open("soft:t0", &params, &side.rnic, error), 0);
	info = info_now();
	for (int i = 0; i < PATIENCE && interface_reads() == 0; i++)
		rnic_side_idle(base, 1);
	assert_int_equal(info_now().state, RNIC_PORT_ACTIVE);
	info.state = RNIC_PORT_ACTIVE;
	assert_memory_equal(&info, &want, sizeof(info));
	rnic_close(side.rnic);
	memset(&side, 0, sizeof(side));
}

/* The interface is removed; the callback of that event may close the device. */
static void interface_removed(void **state)
{
	(void)state;
	struct testnet own;
	size_t removed = 0;
	char error[RNIC_ERROR_LEN];
	struct rnic *rnic;
	testnet_new(&own, 1500);
	struct rnic_open_params params = { .base = base,
					   .on_event = close_on_removed,
					   .event_ctx = &removed };
	assert_int_equal(rnic_open("soft:t0", &params, &rnic, error), 0);
	testnet_link_delete("t0");
	rnic_link_changed(rnic);
	assert_int_equal(removed, 0);
	assert_true(rnic_side_wait(base, &removed, 1, PATIENCE));
	assert_int_equal(try_open("soft:t0", error), -ENODEV);
	testnet_free(&own);
	testnet_enter(&net, 0);
}

struct neighbours {
	int users; /* how often set, minus how often unset */
	unsigned int ifindex;
	uint8_t addr[4];
	uint8_t mac[6];
	int refuse;
	bool waited;
};

static int neigh_set(void *ctx, unsigned int ifindex, int family, const void *addr,
		     const uint8_t mac[6])
{
	struct neighbours *n = ctx;
	assert_int_equal(family, AF_INET);
	if (n->refuse)
		return n->refuse;
	n->users++;
	n->ifindex = ifindex;
	memcpy(n->addr, addr, 4);
	memcpy(n->mac, mac, 6);
	return 0;
}

static void neigh_unset(void *ctx, unsigned int ifindex, int family, const void *addr,
			const uint8_t mac[6])
{
	struct neighbours *n = ctx;
	assert_int_equal(family, AF_INET);
	assert_int_equal(ifindex, n->ifindex);
	assert_memory_equal(addr, n->addr, 4);
	assert_memory_equal(mac, n->mac, 6);
	n->users--;
}

static bool neigh_settle(void *ctx)
{
	struct neighbours *n = ctx;
	n->waited = true;
	return true;
}

static void told(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

/* CLC-17: packets go to the MAC that the peer told, as long as a queue pair needs it. */
static void neighbour_entries(void **state)
{
	(void)state;
	static const struct rnic_host_ops ops = { neigh_set, neigh_unset, neigh_settle };
	struct neighbours n = { 0 };
	char error[RNIC_ERROR_LEN];
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_qp *qp;
	struct rnic_open_params params = { .base = base, .host_ops = &ops, .host_ctx = &n };
	struct rnic_qp_params qp_params = {
		.send_depth = 1, .recv_depth = 1, .recv_size = 44, .on_completion = told
	};
	struct rnic_qp_peer peer = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				     .mac = { 2, 0, 0, 0, 0, 9 },
				     .qpn = 2,
				     .path_mtu = 3 };
	assert_int_equal(rnic_open("soft:t0", &params, &rnic, error), 0);
	assert_int_equal(rnic_pd_alloc(rnic, &pd), 0);
	assert_int_equal(rnic_qp_create(pd, &qp_params, &qp), 0);

	/* Peers that cannot be connected, before one that can. */
	struct rnic_qp_peer bad = peer;
	bad.gid[0] = 0xFE;
	assert_int_equal(rnic_qp_connect(qp, &bad), -EINVAL);
	bad = peer;
	bad.path_mtu = 4; /* the interface takes 1024 */
	assert_int_equal(rnic_qp_connect(qp, &bad), -EINVAL);
	bad.path_mtu = 0;
	assert_int_equal(rnic_qp_connect(qp, &bad), -EINVAL);
	bad = peer;
	bad.sgid_index = 1;
	assert_int_equal(rnic_qp_connect(qp, &bad), -EADDRNOTAVAIL);
	n.refuse = -EPERM;
	assert_int_equal(rnic_qp_connect(qp, &peer), -EPERM);
	n.refuse = 0;
	assert_int_equal(n.users, 0);

	assert_int_equal(rnic_qp_connect(qp, &peer), 0);
	struct rnic_info info;
	rnic_get_info(rnic, &info);
	assert_int_equal(n.users, 1);
	assert_false(n.waited); /* nobody waits: other queue pairs have data to move */
	assert_int_equal(n.ifindex, info.ifindex);
	assert_memory_equal(n.addr, peer.gid + 12, 4);
	assert_memory_equal(n.mac, peer.mac, 6);
	rnic_qp_destroy(qp);
	assert_int_equal(n.users, 0);

	/* A peer that has told no MAC is found by ARP. */
	peer.gid[15] = 3;
	memset(peer.mac, 0, sizeof(peer.mac));
	assert_int_equal(rnic_qp_create(pd, &qp_params, &qp), 0);
	assert_int_equal(rnic_qp_connect(qp, &peer), 0);
	assert_int_equal(n.users, 0);
	rnic_qp_destroy(qp);

	/* A queue pair that was never connected has no entry. */
	assert_int_equal(rnic_qp_create(pd, &qp_params, &qp), 0);
	rnic_qp_destroy(qp);
	assert_int_equal(n.users, 0);
	rnic_pd_free(pd);
	rnic_close(rnic);
	PROVES("CLC-17");
}

static void parameters_are_checked(void **state)
{
	(void)state;
	struct rnic_qp *qp;
	struct rnic_mr *mr;
	rnic_side_open(&side, base, "soft:t0", 4096);
	const struct rnic_qp_params good = {
		.send_depth = 1, .recv_depth = 1, .recv_size = 44, .on_completion = told
	};
	struct rnic_qp_params bad[] = { good, good, good, good, good, good };
	bad[0].send_depth = 0;
	bad[1].send_depth = 4097;
	bad[2].recv_depth = 0;
	bad[3].recv_size = 43;
	bad[4].recv_size = 8193;
	bad[5].on_completion = NULL;
	for (int i = 0; i < 6; i++)
		assert_int_equal(rnic_qp_create(side.pd, &bad[i], &qp), -EINVAL);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 0, 0, &mr), -EINVAL);
	assert_int_equal(rnic_mr_register(side.pd, NULL, 1, 0, &mr), -EINVAL);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, SIZE_MAX, 0, &mr), -EINVAL);
	assert_int_equal(rnic_mr_register(side.pd, side.mem, 1, RNIC_ACCESS_REMOTE_WRITE, &mr),
			 -EINVAL);
	rnic_side_close(&side);
}

/* Numbers and keys cannot be guessed, and are not used again soon. */
static void numbers_are_random(void **state)
{
	(void)state;
	uint32_t qpns[64], keys[64];
	rnic_side_open(&side, base, "soft:t0", 4096);
	unsigned int small_steps = 0;
	for (int i = 0; i < 64; i++) {
		struct rnic_mr *mr;
		rnic_side_qp(&side, 1, 1, 44);
		assert_int_equal(rnic_mr_register(side.pd, side.mem, 1, 0, &mr), 0);
		qpns[i] = rnic_qp_num(side.qp);
		keys[i] = rnic_mr_rkey(mr);
		assert_true(qpns[i] > 1 && qpns[i] <= ROCE_QPN_MASK);
		for (int k = 0; k < i; k++) {
			assert_int_not_equal(keys[i], keys[k]);
			small_steps += qpns[i] - qpns[k] + 16 <= 32;
		}
		rnic_mr_deregister(mr);
		rnic_side_qp_destroy(&side);
	}
	assert_true(small_steps <= 2);
	rnic_side_close(&side);
}

/* A queue pair can be connected to another one of the same device. */
static void loopback(const char *device, uint8_t path_mtu)
{
	struct rnic_side a, b;
	rnic_side_open(&a, base, device, 65536);
	assert_int_equal(rnic_pd_alloc(a.rnic, &b.pd), 0);
	struct rnic_pd *pd = b.pd;
	b = a;
	b.pd = pd;
	rnic_side_qp(&a, 8, 8, 64);
	rnic_side_qp(&b, 8, 8, 64);
	assert_int_equal(rnic_mr_register(b.pd, b.mem + 32768, 32768,
					  RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE,
					  &b.mr),
			 0);
	rnic_side_join(&a, &b, path_mtu);
	rnic_side_pattern(a.mem, 30000, 5);
	assert_int_equal(rnic_side_write(&a, 0, 30000, &b, 0, 1), 0);
	assert_int_equal(rnic_side_send(&a, "x", 1, 2), 0);
	assert_true(rnic_side_wait(base, &b.num_messages, 1, PATIENCE));
	assert_memory_equal(a.mem + 32768, a.mem, 30000);
	assert_true(rnic_side_wait(base, &a.num_sends, 2, PATIENCE));
	rnic_side_qp_destroy(&b);
	rnic_side_forget(&b);
	rnic_mr_deregister(b.mr);
	rnic_pd_free(b.pd);
	rnic_side_close(&a);
}

static void peer_on_the_same_device(void **state)
{
	(void)state;
	loopback("soft:lo", 5);
	loopback("soft:t0", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_names),
		cmocka_unit_test(holder_is_named),
		cmocka_unit_test(holder_that_hides_is_not_taken_for_the_kernel),
		cmocka_unit_test(other_holder_is_not_taken_for_the_noted_one),
		cmocka_unit_test(kernel_is_named),
		cmocka_unit_test(interface_changes),
		cmocka_unit_test(address_flaps),
		cmocka_unit_test(carrier_loss_is_noticed_by_silence),
		cmocka_unit_test(address_comes_later),
		cmocka_unit_test(descriptor_zero_is_closed),
		cmocka_unit_test(opened_in_a_hurry),
		cmocka_unit_test(interface_removed),
		cmocka_unit_test(neighbour_entries),
		cmocka_unit_test(parameters_are_checked),
		cmocka_unit_test(numbers_are_random),
		cmocka_unit_test(peer_on_the_same_device),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
