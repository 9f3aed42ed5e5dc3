/* SPDX-License-Identifier: MIT */
/* Which uevents of the kernel say that a verbs device, or the connection manager, comes or goes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>

#include "daemon/host/hotplug.h"
#include "tests/lib/hex.h"
#include "tests/lib/tries.h"

#include <stdlib.h>

/* A copy of exactly this size: the address sanitizer sees a read behind its end. */
static bool judge(const char *msg, size_t len)
{
	uint8_t *copy = exact_copy((const uint8_t *)msg, len);
	bool result = hotplug_is_rdma((const char *)copy, len);
	free(copy);
	return result;
}

#define JUDGE(text) judge(text, sizeof(text))

static void messages(void **state)
{
	(void)state;
#define PATH "@/devices/virtual/infiniband_verbs/uverbs0\0"
	assert_true(JUDGE("add" PATH "ACTION=add\0SUBSYSTEM=infiniband_verbs\0SEQNUM=1"));
	assert_true(JUDGE("remove" PATH "SUBSYSTEM=infiniband_verbs\0ACTION=remove"));
	assert_true(JUDGE("add@/devices/virtual/misc/rdma_cm\0ACTION=add\0SUBSYSTEM=misc\0"
			  "DEVNAME=infiniband/rdma_cm"));
	assert_false(JUDGE("add@/devices/virtual/misc/x\0ACTION=add\0SUBSYSTEM=misc\0"
			   "DEVNAME=x"));
	assert_false(JUDGE("change" PATH "ACTION=change\0SUBSYSTEM=infiniband_verbs"));
	assert_false(JUDGE("add@/devices/x\0ACTION=add\0SUBSYSTEM=net"));
	assert_false(JUDGE("add" PATH "ACTION=add"));
	static const char cut[] = "add" PATH "ACTION=add\0SUBSYSTEM=infiniband_verbs";
	for (size_t len = 0; len < sizeof(cut); len++) {
		TRIES("length %zu", len);
		assert_false(judge(cut, len));
	}
	assert_true(judge(cut, sizeof(cut)));
}

static void on_change(void *ctx)
{
	(*(int *)ctx)++;
}

static void can_be_watched(void **state)
{
	(void)state;
	int changes = 0;
	struct hotplug_watch *watch;
	struct event_base *base = event_base_new();
	assert_int_equal(hotplug_watch_new(base, on_change, &changes, &watch), 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(changes, 0);
	hotplug_watch_free(watch);
	hotplug_watch_free(NULL);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test(can_be_watched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
