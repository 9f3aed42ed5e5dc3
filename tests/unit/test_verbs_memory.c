/* SPDX-License-Identifier: MIT */
/* What peers are told of memory of a verbs device: a random start, which says nothing about where
 * the memory lies in this process, wherever the device takes one. There is no device: the test has
 * its own functions of libibverbs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/fabric/internal.h"
#include "daemon/host/log.h"
#include "daemon/rnic/verbs/internal.h"
#include "tests/lib/tries.h"

#define BOTH  (RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE)
#define PAGES 4

/* ---- libibverbs: with flags that are no constants all registrations come here */

static struct {
	int refuses_others; /* errno for any address but the memory's own; 0: takes it */
	int refuses_own;    /* errno for the memory's own address; 0: takes it */
	unsigned int asked_others, asked_own, registered;
	uint64_t iova;
} device;

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	static const uint32_t key = 0x1234;
	bool own = iova == (uintptr_t)addr;
	int error = own ? device.refuses_own : device.refuses_others;
	(void)pd;
	(void)length;
	assert_true(access & IBV_ACCESS_LOCAL_WRITE);
	if (own)
		device.asked_own++;
	else
		device.asked_others++;
	if (error) {
		errno = error;
		return NULL;
	}
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->lkey = mr->rkey = key;
	device.iova = iova;
	device.registered++;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	device.registered--;
	free(mr);
	return 0;
}

/* ---- the log */

static char line[300];
static unsigned int lines;

void __wrap_log_message(int priority, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void __wrap_log_message(int priority, const char *format, ...)
{
	va_list args;
	(void)priority;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	lines++;
}

/* ---- two RNICs, and memory */

static struct verbs_device rnics[2];
static struct verbs_pd pds[2];
static struct fabric_device devices[2];
static struct fabric_qp qps[2];
static uintptr_t page;
static uint8_t *memory;

static int setup(void **state)
{
	(void)state;
	memset(&device, 0, sizeof(device));
	memset(devices, 0, sizeof(devices));
	lines = 0;
	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	memory = aligned_alloc(page, PAGES * page);
	for (int i = 0; i < 2; i++) {
		rnics[i] = (struct verbs_device){ .base = { .backend = &rnic_verbs_backend },
						  .starts_anywhere = true };
		snprintf(rnics[i].base.info.name, sizeof(rnics[i].base.info.name), "verbs:x%d/1",
			 i);
		/* With a queue pair memory is given back at once, without the reaper. */
		pds[i] = (struct verbs_pd){ .base = { .rnic = &rnics[i].base }, .qps = 1 };
		devices[i].rnic = &rnics[i].base;
		qps[i] = (struct fabric_qp){ .device = &devices[i], .pd = &pds[i].base };
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(device.registered, 0);
	assert_int_equal(rnics[0].mrs + rnics[1].mrs, 0);
	free(memory);
	return 0;
}

/** Register, look what peers would be told, and deregister. */
static uint64_t told(int rnic, void *addr, unsigned int access)
{
	struct rnic_mr *mr;
	assert_int_equal(rnic_mr_register(&pds[rnic].base, addr, page, access, &mr), 0);
	uint64_t vaddr = rnic_mr_vaddr(mr);
	assert_true(vaddr == device.iova);
	rnic_mr_deregister(mr);
	return vaddr;
}

/* ---- the tests */

/** An RMB is registered with each RNIC of its links, and begins elsewhere with each. */
static void peers_are_told_a_random_start(void **state)
{
	uint64_t starts[16];
	(void)state;
	for (int i = 0; i < 16; i++) {
		TRIES("region %d", i);
		starts[i] = told(i & 1, memory, BOTH);
		assert_true(starts[i] != 0 && starts[i] < UINT64_C(1) << 47);
		assert_true(starts[i] % page == 0);
		assert_true(starts[i] != (uintptr_t)memory);
		for (int before = 0; before < i; before++)
			assert_true(starts[i] != starts[before]);
	}
	assert_int_equal(device.asked_own, 0);
}

/** The kernel refuses another place in the page. */
static void the_place_in_the_page_stays(void **state)
{
	(void)state;
	assert_int_equal(told(0, memory + 24, BOTH) % page, 24);
	assert_int_equal(told(0, memory + page + page - 1, BOTH) % page, page - 1);
	assert_int_equal(device.asked_own, 0);
}

/** Nobody is told where they lie, and own requests name them by their addresses. */
static void send_buffers_keep_their_address(void **state)
{
	(void)state;
	assert_true(told(0, memory, RNIC_ACCESS_LOCAL_WRITE) == (uintptr_t)memory);
	assert_int_equal(device.asked_others, 0);
}

static void a_device_that_refuses_is_asked_once(void **state)
{
	static const int errors[] = { EINVAL, EOPNOTSUPP };
	(void)state;
	for (int i = 0; i < 2; i++) {
		TRIES("error %d", errors[i]);
		device.refuses_others = errors[i];
		device.asked_others = device.asked_own = 0;
		for (int n = 0; n < 3; n++)
			assert_true(told(i, memory, BOTH) == (uintptr_t)memory);
		assert_int_equal(device.asked_others, 1);
		assert_int_equal(device.asked_own, 3);
	}
}

/** What fails with any address says nothing about addresses. */
static void other_errors_refuse_nothing(void **state)
{
	static const struct {
		int others, own;
		unsigned int asked_own;
	} rows[] = { { ENOMEM, 0, 0 }, { EAGAIN, 0, 0 }, { EINVAL, EINVAL, 1 } };
	struct rnic_mr *mr;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		device.refuses_others = rows[i].others;
		device.refuses_own = rows[i].own;
		device.asked_own = 0;
		assert_int_equal(rnic_mr_register(&pds[0].base, memory, page, BOTH, &mr),
				 -rows[i].others);
		assert_int_equal(device.asked_own, rows[i].asked_own);
		device.refuses_others = device.refuses_own = 0;
		assert_true(told(0, memory, BOTH) != (uintptr_t)memory);
	}
}

/** The operator learns of such a device, once. */
static void the_log_names_devices_that_refuse(void **state)
{
	struct smcr_mr mr;
	(void)state;
	for (int i = 0; i < 6; i++) {
		TRIES("registration %d", i);
		device.refuses_others = i < 2 ? 0 : EINVAL;
		assert_int_equal(
			fabric_rdma_ops.mr_register(NULL, &qps[i & 1], memory, page, true, &mr), 0);
		fabric_rdma_ops.mr_deregister(NULL, mr.handle);
		assert_int_equal(
			fabric_rdma_ops.mr_register(NULL, &qps[i & 1], memory, page, false, &mr),
			0);
		fabric_rdma_ops.mr_deregister(NULL, mr.handle);
		assert_int_equal(lines, i < 2 ? 0 : i < 3 ? 1 : 2);
	}
	assert_string_equal(line,
			    "rnic verbs:x1/1: peers learn at which addresses of smcrd's memory "
			    "RMBs lie: the device or its driver takes no other addresses for "
			    "them");
}

static void drivers_that_need_the_true_address(void **state)
{
	static const struct {
		const char *driver;
		bool anywhere;
	} rows[] = { { "../../bus/pci/drivers/mlx4_core", false },
		     { "../../bus/pci/drivers/mlx5_core", true },
		     { "mlx4_core", false } };
	char root[] = "/tmp/test_verbs_memory.XXXXXX", dir[100], link[120];
	(void)state;
	assert_non_null(mkdtemp(root));
	assert_true(verbs_mr_may_start_anywhere(root)); /* no driver: rdma_rxe */
	snprintf(dir, sizeof(dir), "%s/device", root);
	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(link, sizeof(link), "%s/driver", dir);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].driver);
		assert_int_equal(symlink(rows[i].driver, link), 0);
		assert_int_equal(verbs_mr_may_start_anywhere(root), rows[i].anywhere);
		unlink(link);
	}
	rmdir(dir);
	rmdir(root);
	rnics[0].starts_anywhere = false;
	assert_true(told(0, memory, BOTH) == (uintptr_t)memory);
	assert_int_equal(device.asked_others, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(peers_are_told_a_random_start),      CASE(the_place_in_the_page_stays),
		CASE(send_buffers_keep_their_address),    CASE(a_device_that_refuses_is_asked_once),
		CASE(other_errors_refuse_nothing),        CASE(the_log_names_devices_that_refuse),
		CASE(drivers_that_need_the_true_address),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
