/* SPDX-License-Identifier: MIT */
/* Interfaces as netlink tells them: every change is announced, even if the kernel had to drop
 * messages. Needs root. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/cache.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/host/neigh.h"
#include "daemon/host/neigh_entry.h"
#include "daemon/host/neigh_keeper.h"
#include "daemon/host/netif.h"
#include "tests/lib/testnet.h"

#define PATIENCE_MS 20000

static struct testnet net;
static struct event_base *base;
static struct netif_watch *watch;
static struct netif last; /* t0 as it was announced last */
static unsigned int told;

static void on_change(void *ctx, const struct netif *netif)
{
	(void)ctx;
	if (strcmp(netif->name, "t0") && netif->ifindex != last.ifindex)
		return;
	last = *netif;
	told++;
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	memset(&last, 0, sizeof(last));
	told = 0;
	return netif_watch_new(base, on_change, NULL, &watch);
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(seteuid(0), 0); /* a failed test may have left another user */
	netif_watch_free(watch);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static uint64_t now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		uint64_t limit_ = now_us() + PATIENCE_MS * 1000;                                   \
		while (!(condition) && now_us() < limit_)                                          \
			event_base_loop(base, EVLOOP_NONBLOCK);                                    \
		assert_true(condition);                                                            \
	} while (0)

static void carrier(void **state)
{
	(void)state;
	struct netif t0;
	/* The kernel sees a little later that the other end is up. */
	EXPECT(netif_by_name(watch, "t0", &t0) == 0 && t0.running);
	assert_true(t0.present && t0.ethernet);
	for (int i = 0; i < 2; i++) {
		testnet_enter(&net, 1);
		uint64_t start = now_us();
		testnet_link_up("t1", 0);
		EXPECT(told && !last.running);
		uint64_t took = now_us() - start;
		/* The kernel holds a second change of carrier back for up to a second. */
		print_message("# carrier loss told after %lu us\n", took);
		testnet_link_up("t1", 1);
		EXPECT(last.running);
		testnet_enter(&net, 0);
		testnet_link_up("t0", 0);
		EXPECT(!last.running);
		testnet_link_up("t0", 1);
		EXPECT(last.running);
	}
	assert_true(last.present);
	assert_int_equal(last.ifindex, t0.ifindex);
}

static bool has_ipv6(const struct netif *netif)
{
	static const uint8_t addr[16] = { 0xFD, 0, 0, 0x77, [15] = 1 };
	for (size_t i = 0; i < netif->num_addrs6; i++)
		if (!memcmp(netif->addrs6[i].addr, addr, 16) && netif->addrs6[i].prefix_len == 64)
			return true;
	return false;
}

static void addresses_mtu_and_name(void **state)
{
	(void)state;
	testnet_addr_delete("t0", "10.77.0.1/24");
	EXPECT(told && last.num_addrs == 0);
	testnet_addr_add("t0", "10.77.0.1/24");
	testnet_addr_add("t0", "10.78.0.1/16");
	EXPECT(last.num_addrs == 2);
	assert_int_equal(last.addrs[0].addr, 0x0A4D0001);
	assert_int_equal(last.addrs[1].prefix_len, 16);
	testnet_addr_add("t0", "fd00:77::1/64");
	EXPECT(has_ipv6(&last));
	testnet_link_mtu("t0", 900);
	EXPECT(last.mtu == 900);

	unsigned int ifindex = last.ifindex;
	testnet_link_up("t0", 0);
	testnet_link_rename("t0", "lan0");
	EXPECT(!strcmp(last.name, "lan0"));
	assert_int_equal(last.ifindex, ifindex);
	assert_true(last.present);
	struct netif t0;
	assert_int_equal(netif_by_name(watch, "t0", &t0), -ENODEV);
	assert_int_equal(netif_by_name(watch, "lan0", &t0), 0);
}

static void deleted_and_made_again(void **state)
{
	(void)state;
	struct netif before;
	assert_int_equal(netif_by_name(watch, "t0", &before), 0);
	last = before;
	testnet_link_delete("t0");
	EXPECT(told && !last.present);
	assert_string_equal(last.name, "t0");
	assert_int_equal(last.ifindex, before.ifindex);
	testnet_enter(&net, 1);
	testnet_veth_add(&net, "t0", "t1", 1500);
	testnet_enter(&net, 0);
	EXPECT(last.present);
	assert_int_not_equal(last.ifindex, before.ifindex);
	assert_int_equal(last.num_addrs, 0);
}

static void count_t0(void *ctx, const struct netif *netif)
{
	*(unsigned int *)ctx += !strcmp(netif->name, "t0");
}

/* The kernel also tells of a bridge's ports as ports: such a message is no second interface, and a
 * port that leaves the bridge has not gone. */
static void bridge_ports_are_told_once(void **state)
{
	(void)state;
	unsigned int seen = 0;
	testnet_bridge_add("bridge");
	testnet_link_master("t0", "bridge");
	testnet_link_mtu("t0", 1400);
	EXPECT(told && last.mtu == 1400);
	netif_each(watch, count_t0, &seen);
	assert_int_equal(seen, 1);
	testnet_link_master("t0", NULL);
	testnet_link_mtu("t0", 1300);
	EXPECT(last.mtu == 1300);
	assert_true(last.present);
	assert_int_equal(last.num_addrs, 1);
	seen = 0;
	netif_each(watch, count_t0, &seen);
	assert_int_equal(seen, 1);
}

/* @return true if `mac` is the permanent entry of 10.77.0.9 on t0 */
static bool neighbour_is(const uint8_t *mac)
{
	char line[200];
	unsigned int flags = 0, found[6];
	FILE *arp = fopen("/proc/thread-self/net/arp", "r");
	assert_non_null(arp);
	while (fgets(line, sizeof(line), arp))
		if (sscanf(line, "10.77.0.9 0x%*x 0x%x %x:%x:%x:%x:%x:%x", &flags, &found[0],
			   &found[1], &found[2], &found[3], &found[4], &found[5]) == 7)
			break;
	fclose(arp);
	bool same = flags & 4; /* ATF_PERM */
	for (int i = 0; i < 6 && same; i++)
		same = found[i] == mac[i];
	return same;
}

static const uint8_t nine[4] = { 10, 77, 0, 9 };
static const uint8_t macs[3][6] = {
	{ 2, 0, 0, 0, 0, 9 }, { 2, 0, 0, 0, 0, 10 }, { 2, 0, 0, 0, 0, 11 }, /* belong to no host */
};

/* Gives the other host 10.77.0.9 on a NIC with this MAC. @return index of t0, which exists */
static unsigned int peer_with(const uint8_t mac[6])
{
	struct netif t0;
	testnet_enter(&net, 1);
	testnet_link_set_mac("t1", mac);
	testnet_addr_add("t1", "10.77.0.9/24");
	testnet_enter(&net, 0);
	EXPECT(netif_by_name(watch, "t0", &t0) == 0 && t0.running);
	last = t0;
	return t0.ifindex;
}

static void peer_gets(const uint8_t mac[6])
{
	testnet_enter(&net, 1);
	testnet_link_set_mac("t1", mac);
	testnet_enter(&net, 0);
}

/* A thread carries out requests in order. This waits until the latest request is carried out: it
 * is about an entry of an operator, so the thread changes nothing. */
static void settle(unsigned int ifindex)
{
	const struct rnic_host_ops *ops = &netif_rnic_host_ops;
	static const uint8_t last_one[4] = { 10, 77, 0, 200 };
	testnet_neigh_add("t0", "10.77.0.200", macs[2]);
	assert_int_equal(ops->neigh_set(watch, ifindex, AF_INET, last_one, macs[2]), 0);
	while (!ops->neigh_settle(watch))
		;
	ops->neigh_unset(watch, ifindex, AF_INET, last_one, macs[2]);
}

static void ask_for(unsigned int ifindex, const uint8_t mac[6])
{
	assert_int_equal(netif_rnic_host_ops.neigh_set(watch, ifindex, AF_INET, nine, mac), 0);
}

static void give_up(unsigned int ifindex, const uint8_t mac[6])
{
	netif_rnic_host_ops.neigh_unset(watch, ifindex, AF_INET, nine, mac);
	settle(ifindex);
}

/* smcrd keeps its entries as long as they have users, whatever happens to the interface
 * meanwhile. */
static void neighbours(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	ask_for(t0, macs[0]);
	EXPECT(neighbour_is(macs[0]));
	ask_for(t0, macs[0]);

	testnet_link_up("t0", 0);
	assert_false(neighbour_is(macs[0]));
	testnet_link_up("t0", 1);
	EXPECT(neighbour_is(macs[0]));

	give_up(t0, macs[0]);
	assert_true(neighbour_is(macs[0]));
	give_up(t0, macs[0]);
	assert_false(neighbour_is(macs[0]));
}

static void an_operators_entry_stays(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	testnet_neigh_add("t0", "10.77.0.9", macs[2]);
	ask_for(t0, macs[0]);
	settle(t0);
	assert_true(neighbour_is(macs[2]));
	give_up(t0, macs[0]);
	assert_true(neighbour_is(macs[2]));
	/* An operator's entry is not deleted even if it has the MAC that the peer names. */
	ask_for(t0, macs[2]);
	settle(t0);
	give_up(t0, macs[2]);
	assert_true(neighbour_is(macs[2]));
}

static struct neigh_entry entry_of(const struct neigh_key *key)
{
	struct nl_sock *nl = nl_socket_alloc();
	struct neigh_entry entry;
	assert_int_equal(nl_connect(nl, NETLINK_ROUTE), 0);
	assert_int_equal(neigh_entry_read(nl, key, &entry), 0);
	nl_socket_free(nl);
	return entry;
}

static struct neigh_key key_of_nine(unsigned int ifindex)
{
	struct neigh_key key = { .ifindex = ifindex, .family = AF_INET };
	memcpy(key.addr, nine, sizeof(nine));
	return key;
}

/* The kernel still marks such an entry as smcrd's, so the next daemon takes it for its own. */
static void an_entry_put_over_ours_stays(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	ask_for(t0, macs[0]);
	EXPECT(neighbour_is(macs[0]));
	testnet_neigh_add("t0", "10.77.0.9", macs[2]);
	ask_for(t0, macs[0]);
	settle(t0);
	assert_true(neighbour_is(macs[2]));
	give_up(t0, macs[0]);
	give_up(t0, macs[0]);
	assert_true(neighbour_is(macs[2]));
	assert_int_equal(netif_purge_neighbours(watch), 0);
	settle(t0);
	assert_true(neighbour_is(macs[2]));
	const struct neigh_key key = key_of_nine(t0);
	assert_int_equal(entry_of(&key).protocol, RTPROT_STATIC);
}

static bool kernel_has(const uint8_t *mac)
{
	const struct neigh_key key = key_of_nine(last.ifindex);
	const struct neigh_entry entry = entry_of(&key);
	return entry.has_mac && !memcmp(entry.mac, mac, sizeof(entry.mac));
}

/* A peer may name any MAC, and all IP packets to the address of its GID would go there. The kernel
 * finds out who has the address, and smcrd uses that MAC. */
static void a_mac_that_does_not_answer_is_not_believed(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	ask_for(t0, macs[1]);
	EXPECT(kernel_has(macs[0]));
	assert_false(neighbour_is(macs[0]));
	give_up(t0, macs[1]);
	assert_true(kernel_has(macs[0]));

	/* A false MAC does not replace the right one either. */
	ask_for(t0, macs[0]);
	EXPECT(neighbour_is(macs[0]));
	ask_for(t0, macs[1]);
	settle(t0);
	assert_true(neighbour_is(macs[0]));
	give_up(t0, macs[1]);
	assert_true(neighbour_is(macs[0]));
	give_up(t0, macs[0]);
	assert_false(neighbour_is(macs[0]));
}

static void a_mac_that_answers_later_is_believed_then(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	ask_for(t0, macs[1]);
	ask_for(t0, macs[2]);
	settle(t0);
	assert_false(neighbour_is(macs[1]));
	peer_gets(macs[1]);
	EXPECT(neighbour_is(macs[1]));
	give_up(t0, macs[2]);
	assert_true(neighbour_is(macs[1]));
	give_up(t0, macs[1]);
	assert_false(neighbour_is(macs[1]));
}

/* The peer has another NIC: the entry gets the new MAC though the old one still has users. */
static void a_mac_that_answers_replaces_one_that_does_not(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	ask_for(t0, macs[0]);
	EXPECT(neighbour_is(macs[0]));
	peer_gets(macs[1]);
	ask_for(t0, macs[1]);
	EXPECT(neighbour_is(macs[1]));
	give_up(t0, macs[0]);
	assert_true(neighbour_is(macs[1]));
	give_up(t0, macs[1]);
	assert_false(neighbour_is(macs[1]));
}

static void note_doubt(void *ctx, const struct neigh_doubt *doubt)
{
	*(struct neigh_doubt *)ctx = *doubt;
}

static bool worked(struct neigh_keeper *keeper)
{
	neigh_keeper_work(keeper);
	return true;
}

/* Both NICs of a host answer for either address. The entry keeps the first MAC while its users are
 * there, and gets the second one when they are gone. */
static void the_first_mac_stays_while_it_answers(void **state)
{
	(void)state;
	uint8_t second[6];
	struct neigh_doubt doubt = { 0 };
	struct neigh_keeper *keeper;
	const struct neigh_key key = key_of_nine(peer_with(macs[0]));
	testnet_enter(&net, 1);
	testnet_macvlan_add("t2", "t1");
	testnet_link_up("t2", 1);
	testnet_link_mac("t2", second);
	testnet_enter(&net, 0);
	assert_int_equal(neigh_keeper_new(note_doubt, &doubt, &keeper), 0);
	neigh_keeper_want(keeper, &key, second);
	EXPECT(worked(keeper) && neighbour_is(second)); /* the second NIC does answer */
	neigh_keeper_release(keeper, &key, second);

	neigh_keeper_want(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && neighbour_is(macs[0]));
	neigh_keeper_want(keeper, &key, second);
	EXPECT(worked(keeper) && doubt.key.ifindex);
	assert_true(neighbour_is(macs[0]));
	assert_memory_equal(doubt.mac, second, 6);
	assert_true(doubt.other_known);
	assert_memory_equal(doubt.other, macs[0], 6);
	assert_true(neigh_keeper_due(keeper) == INT64_MAX);
	assert_int_equal(neigh_keeper_fd(keeper), -1);

	neigh_keeper_release(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && neighbour_is(second));
	neigh_keeper_release(keeper, &key, second);
	assert_false(neighbour_is(second));
	neigh_keeper_free(keeper);
}

static struct neigh_key ipv6_peer_with(const uint8_t mac[6])
{
	struct neigh_key key = { .ifindex = peer_with(mac),
				 .family = AF_INET6,
				 .addr = { 0xFD, 0, 0, 0x77, [15] = 9 } };
	testnet_addr_add("t0", "fd00:77::1/64");
	testnet_enter(&net, 1);
	testnet_addr_add("t1", "fd00:77::9/64");
	testnet_enter(&net, 0);
	return key;
}

/* @return true if `mac` is the permanent entry for this key */
static bool is_permanent(const struct neigh_key *key, const uint8_t mac[6])
{
	const struct neigh_entry entry = entry_of(key);
	return entry.state & NUD_PERMANENT && entry.has_mac && !memcmp(entry.mac, mac, 6);
}

/* In IPv6 only the kernel can ask who has an address. To ask, it would give the permanent entry
 * up: nothing would reach the host until it answered, and nobody would write smcrd's entry again.
 * So the first MAC stays. */
static void the_first_mac_stays_in_ipv6(void **state)
{
	(void)state;
	struct neigh_doubt doubt = { 0 };
	struct neigh_keeper *keeper;
	const struct neigh_key key = ipv6_peer_with(macs[0]);
	assert_int_equal(neigh_keeper_new(note_doubt, &doubt, &keeper), 0);
	neigh_keeper_want(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && is_permanent(&key, macs[0]));
	/* There may have been a doubt while the address was not usable yet. */
	doubt.key.ifindex = 0;
	neigh_keeper_want(keeper, &key, macs[2]);
	EXPECT(worked(keeper) && doubt.key.ifindex);
	assert_memory_equal(doubt.mac, macs[2], 6);
	assert_memory_equal(doubt.other, macs[0], 6);
	assert_true(is_permanent(&key, macs[0]));
	neigh_keeper_release(keeper, &key, macs[2]);
	assert_true(is_permanent(&key, macs[0]));
	neigh_keeper_release(keeper, &key, macs[0]);
	assert_false(is_permanent(&key, macs[0]));
	neigh_keeper_free(keeper);
}

/* The peer has another NIC: its MAC is entered when the links over the old NIC have ended. */
static void a_mac_follows_in_ipv6_when_the_first_has_no_users(void **state)
{
	(void)state;
	struct neigh_doubt doubt = { 0 };
	struct neigh_keeper *keeper;
	const struct neigh_key key = ipv6_peer_with(macs[0]);
	assert_int_equal(neigh_keeper_new(note_doubt, &doubt, &keeper), 0);
	neigh_keeper_want(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && is_permanent(&key, macs[0]));
	/* There may have been a doubt while the address was not usable yet. */
	doubt.key.ifindex = 0;
	peer_gets(macs[1]);
	neigh_keeper_want(keeper, &key, macs[1]);
	EXPECT(worked(keeper) && doubt.key.ifindex);
	assert_true(is_permanent(&key, macs[0]));
	neigh_keeper_release(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && is_permanent(&key, macs[1]));
	neigh_keeper_release(keeper, &key, macs[1]);
	assert_false(is_permanent(&key, macs[1]));
	neigh_keeper_free(keeper);
}

/* Makes a keeper whose socket to the kernel is *ret_fd. */
static struct neigh_keeper *keeper_with_socket(struct neigh_doubt *doubt, int *ret_fd)
{
	struct neigh_keeper *keeper;
	int family;
	socklen_t len = sizeof(family);
	*ret_fd = dup(STDERR_FILENO); /* the lowest free descriptor: the keeper's socket gets it */
	close(*ret_fd);
	assert_int_equal(neigh_keeper_new(note_doubt, doubt, &keeper), 0);
	assert_int_equal(getsockopt(*ret_fd, SOL_SOCKET, SO_DOMAIN, &family, &len), 0);
	assert_int_equal(family, AF_NETLINK);
	return keeper;
}

/* The next send on this socket fails; the keeper then makes another one. */
static void spoil(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_true(dup2(null, fd) == fd);
	close(null);
}

static void an_entry_that_cannot_be_read_stays(void **state)
{
	(void)state;
	struct neigh_doubt doubt = { 0 };
	int fd;
	const struct neigh_key key = key_of_nine(peer_with(macs[0]));
	struct neigh_keeper *keeper = keeper_with_socket(&doubt, &fd);
	neigh_keeper_want(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && neighbour_is(macs[0]));
	spoil(fd);
	neigh_keeper_want(keeper, &key, macs[0]);
	assert_true(neighbour_is(macs[0]));
	EXPECT(worked(keeper) && neigh_keeper_way(keeper, &key, macs[0]) == NEIGH_RIGHT);
	assert_true(neighbour_is(macs[0]));
	neigh_keeper_release(keeper, &key, macs[0]);
	assert_false(neighbour_is(macs[0]));
	neigh_keeper_free(keeper);
}

/* An entry that cannot be written over is deleted: until then it is still there, and smcrd's. */
static void an_entry_that_cannot_be_written_over_is_deleted(void **state)
{
	(void)state;
	struct neigh_doubt doubt = { 0 };
	int fd;
	const struct neigh_key key = key_of_nine(peer_with(macs[0]));
	struct neigh_keeper *keeper = keeper_with_socket(&doubt, &fd);
	neigh_keeper_want(keeper, &key, macs[0]);
	EXPECT(worked(keeper) && neighbour_is(macs[0]));
	peer_gets(macs[1]);
	neigh_keeper_want(keeper, &key, macs[1]);
	/* Without privileges entries can be read but not changed. */
	assert_int_equal(seteuid(65534), 0);
	EXPECT(worked(keeper) && (doubt.key.ifindex || neigh_keeper_due(keeper) == INT64_MAX));
	assert_int_equal(seteuid(0), 0);
	assert_true(neighbour_is(macs[0]));
	spoil(fd); /* a socket that was made without privileges keeps being refused */
	neigh_keeper_want(keeper, &key, macs[0]);
	neigh_keeper_release(keeper, &key, macs[1]);
	neigh_keeper_release(keeper, &key, macs[0]);
	assert_false(neighbour_is(macs[0]));
	neigh_keeper_free(keeper);
}

/* Users that wait are told whether the host can send to an address at all. */
static void an_address_that_nobody_has_is_told(void **state)
{
	(void)state;
	const struct rnic_host_ops *ops = &netif_rnic_host_ops;
	unsigned int t0 = peer_with(macs[0]);
	static const uint8_t nobody[4] = { 10, 77, 0, 77 };
	assert_int_equal(ops->neigh_set(watch, t0, AF_INET, nobody, macs[0]), 0);
	assert_false(ops->neigh_settle(watch));
	ops->neigh_unset(watch, t0, AF_INET, nobody, macs[0]);
	ask_for(t0, macs[0]);
	EXPECT(ops->neigh_settle(watch));
	EXPECT(neighbour_is(macs[0]));
	give_up(t0, macs[0]);
}

/* The same if the peer has named no MAC: the host finds the MAC out, and smcrd makes no entry. */
static void without_a_mac_any_host_with_the_address_will_do(void **state)
{
	(void)state;
	static const uint8_t any[6], nobody[4] = { 10, 77, 0, 78 };
	const struct rnic_host_ops *ops = &netif_rnic_host_ops;
	struct nl_sock *nl = nl_socket_alloc();
	struct neigh_entry entry;
	unsigned int t0 = peer_with(macs[0]);
	struct neigh_key key = { .ifindex = t0, .family = AF_INET };
	memcpy(key.addr, nine, sizeof(nine));
	assert_int_equal(nl_connect(nl, NETLINK_ROUTE), 0);
	assert_int_equal(ops->neigh_set(watch, t0, AF_INET, nobody, any), 0);
	assert_false(ops->neigh_settle(watch));
	ops->neigh_unset(watch, t0, AF_INET, nobody, any);
	ask_for(t0, any);
	EXPECT(ops->neigh_settle(watch));
	assert_int_equal(neigh_entry_read(nl, &key, &entry), 0);
	assert_memory_equal(entry.mac, macs[0], sizeof(entry.mac));
	assert_true(entry.protocol != NEIGH_PROTOCOL);
	give_up(t0, any);
	nl_socket_free(nl);
}

/* A daemon that was killed leaves its entries, and they outlive the peer's NIC: the next daemon
 * deletes them. Entries of others stay. */
static void entries_of_a_dead_daemon_are_deleted(void **state)
{
	(void)state;
	unsigned int t0 = peer_with(macs[0]);
	struct nl_sock *nl = nl_socket_alloc();
	struct neigh_key left = { .ifindex = t0, .family = AF_INET }, other = left;
	struct neigh_entry entry;
	memcpy(left.addr, (const uint8_t[]){ 10, 77, 0, 7 }, 4);
	memcpy(other.addr, (const uint8_t[]){ 10, 77, 0, 8 }, 4);
	assert_int_equal(nl_connect(nl, NETLINK_ROUTE), 0);
	assert_int_equal(neigh_entry_write(nl, &left, macs[2], NEIGH_PROTOCOL, false), 0);
	assert_int_equal(neigh_entry_write(nl, &other, macs[2], NEIGH_PROTOCOL + 1, false), 0);
	assert_int_equal(neigh_entry_write(nl, &other, macs[2], NEIGH_PROTOCOL, false), -NLE_EXIST);
	ask_for(t0, macs[0]);
	EXPECT(neighbour_is(macs[0]));
	assert_int_equal(netif_purge_neighbours(watch), 0);
	settle(t0);
	assert_int_equal(neigh_entry_read(nl, &left, &entry), 0);
	assert_int_equal(entry.state, 0);
	assert_int_equal(neigh_entry_read(nl, &other, &entry), 0);
	assert_int_equal(entry.protocol, NEIGH_PROTOCOL + 1);
	assert_memory_equal(entry.mac, macs[2], sizeof(entry.mac));
	assert_true(neighbour_is(macs[0]));
	give_up(t0, macs[0]);
	assert_false(neighbour_is(macs[0]));
	nl_socket_free(nl);
}

static void entries_of_a_killed_daemon_are_deleted(void **state)
{
	(void)state;
	struct neigh_doubt doubt = { 0 };
	struct neigh_keeper *killed;
	const struct neigh_key key = key_of_nine(peer_with(macs[0]));
	assert_int_equal(neigh_keeper_new(note_doubt, &doubt, &killed), 0);
	neigh_keeper_want(killed, &key, macs[0]);
	EXPECT(worked(killed) && neighbour_is(macs[0]));
	neigh_keeper_free(killed); /* the entry stays, as if the daemon were killed */
	assert_true(neighbour_is(macs[0]));
	assert_int_equal(netif_purge_neighbours(watch), 0);
	settle(key.ifindex);
	assert_false(neighbour_is(macs[0]));
}

/* There are more changes than fit into the socket before smcrd reads it. */
static void overrun(void **state)
{
	(void)state;
	struct netif before;
	assert_int_equal(netif_by_name(watch, "t0", &before), 0);
	last = before;
	testnet_addr_delete("t0", "10.77.0.1/24");
	for (int i = 0; i < 1500; i++) {
		testnet_addr_add("lo", "10.99.0.1/32");
		testnet_addr_delete("lo", "10.99.0.1/32");
	}
	testnet_addr_add("t0", "10.79.0.1/24");
	testnet_enter(&net, 1);
	testnet_link_up("t1", 0);
	testnet_enter(&net, 0);
	EXPECT(told && !last.running && last.num_addrs == 1 && last.addrs[0].addr == 0x0A4F0001);
	/* Later changes are announced too. */
	testnet_link_mtu("t0", 1400);
	EXPECT(last.mtu == 1400);

	for (int i = 0; i < 1500; i++) {
		testnet_addr_add("lo", "10.99.0.1/32");
		testnet_addr_delete("lo", "10.99.0.1/32");
	}
	testnet_link_delete("t0");
	EXPECT(!last.present);
	assert_int_equal(last.ifindex, before.ifindex);
	struct netif t0;
	assert_int_equal(netif_by_name(watch, "t0", &t0), -ENODEV);
}

/* libnl counts the users of an interface without atomic operations. RNICs read their interface's
 * addresses in threads of their own, and libnl would let these addresses use interfaces of a cache
 * that is offered to all. */
static void the_caches_are_not_offered_to_other_threads(void **state)
{
	(void)state;
	assert_null(nl_cache_mngt_require_safe("route/link"));
	assert_null(nl_cache_mngt_require_safe("route/addr"));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_caches_are_not_offered_to_other_threads),
		CASE(carrier),
		CASE(addresses_mtu_and_name),
		CASE(deleted_and_made_again),
		CASE(bridge_ports_are_told_once),
		CASE(neighbours),
		CASE(an_operators_entry_stays),
		CASE(an_entry_put_over_ours_stays),
		CASE(a_mac_that_does_not_answer_is_not_believed),
		CASE(a_mac_that_answers_later_is_believed_then),
		CASE(a_mac_that_answers_replaces_one_that_does_not),
		CASE(the_first_mac_stays_while_it_answers),
		CASE(the_first_mac_stays_in_ipv6),
		CASE(a_mac_follows_in_ipv6_when_the_first_has_no_users),
		CASE(an_entry_that_cannot_be_read_stays),
		CASE(an_entry_that_cannot_be_written_over_is_deleted),
		CASE(an_address_that_nobody_has_is_told),
		CASE(without_a_mac_any_host_with_the_address_will_do),
		CASE(entries_of_a_dead_daemon_are_deleted),
		CASE(entries_of_a_killed_daemon_are_deleted),
		CASE(overrun),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
