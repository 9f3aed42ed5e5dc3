/* SPDX-License-Identifier: MIT */
/* This host's addresses, as its interfaces come, change and go. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>

#include "daemon/policy/own.h"

/* The addresses that are known: the last byte of each, in order, as a string of digits. */
static void expect(const struct own *own, const char *digits)
{
	char found[16] = "";
	for (char digit = '0'; digit <= '9'; digit++)
		for (size_t i = 0; i < own->num; i++) {
			const struct smcr_addr *addr = &own->list[i].addr;
			int last = addr->ip[addr->family == AF_INET ? 3 : 15];
			if (last == digit - '0')
				strncat(found, &digit, 1);
		}
	assert_string_equal(found, digits);
}

static struct netif netif(unsigned int ifindex, const char *ipv4, const char *ipv6)
{
	struct netif netif = { .ifindex = ifindex, .present = true };
	for (; *ipv4; ipv4++)
		netif.addrs[netif.num_addrs++].addr = 0x0A000000u + (uint32_t)(*ipv4 - '0');
	for (; *ipv6; ipv6++) {
		netif.addrs6[netif.num_addrs6].addr[0] = 0xFD;
		netif.addrs6[netif.num_addrs6++].addr[15] = (uint8_t)(*ipv6 - '0');
	}
	return netif;
}

static void tell(struct own *own, unsigned int ifindex, const char *ipv4, const char *ipv6)
{
	struct netif now = netif(ifindex, ipv4, ipv6);
	own_netif(own, &now);
}

static void addresses_follow_the_interfaces(void **state)
{
	struct own own = { .option = NULL };
	(void)state;
	tell(&own, 1, "12", "3");
	expect(&own, "123");
	tell(&own, 2, "4", "");
	expect(&own, "1234");
	tell(&own, 1, "12", "3"); /* tells nothing new */
	expect(&own, "1234");
	tell(&own, 1, "2", "35");
	expect(&own, "2345");
	tell(&own, 1, "", ""); /* the interface has gone */
	expect(&own, "4");
	own_free(&own);
	expect(&own, "");
}

static void the_same_address_twice_goes_with_the_last(void **state)
{
	struct own own = { .option = NULL };
	(void)state;
	tell(&own, 1, "1", "");
	tell(&own, 2, "1", "");
	expect(&own, "11");
	tell(&own, 1, "", "");
	expect(&own, "1");
	tell(&own, 2, "", "");
	expect(&own, "");
	own_free(&own);
}

static void ipv4_and_ipv6_are_told_apart(void **state)
{
	struct own own = { .option = NULL };
	(void)state;
	tell(&own, 1, "1", "1");
	expect(&own, "11");
	tell(&own, 1, "", "1");
	assert_int_equal(own.num, 1);
	assert_int_equal(own.list[0].addr.family, AF_INET6);
	own_free(&own);
}

static void there_may_be_many(void **state)
{
	struct own own = { .option = NULL };
	(void)state;
	for (unsigned int i = 1; i <= 100; i++)
		tell(&own, i, "123", "456");
	assert_int_equal(own.num, 600);
	for (unsigned int i = 1; i <= 100; i++)
		tell(&own, i, "", "");
	assert_int_equal(own.num, 0);
	own_free(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_follow_the_interfaces),
		cmocka_unit_test(the_same_address_twice_goes_with_the_last),
		cmocka_unit_test(ipv4_and_ipv6_are_told_apart),
		cmocka_unit_test(there_may_be_many),
	};
	return cmocka_run_group_tests_name("policy_own", tests, NULL, NULL);
}
