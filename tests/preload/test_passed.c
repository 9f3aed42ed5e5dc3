/* SPDX-License-Identifier: MIT */
/* The descriptors that are passed with a message, whatever its control messages claim. They lie at
 * the end of a page, so whoever reads past them is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "lib/preload/passed.h"
#include "tests/lib/tries.h"

#define PAGE    4096u
#define HEADER  sizeof(struct cmsghdr)
#define SPACE_1 CMSG_SPACE(sizeof(int))
#define LEN_1   CMSG_LEN(sizeof(int))
#define LEN_2   CMSG_LEN(2 * sizeof(int))

static int noted[8];
static size_t count;

static void note(int fd)
{
	assert_true(count < sizeof(noted) / sizeof(noted[0]));
	noted[count++] = fd;
}

static uint8_t *end_of_page(void)
{
	uint8_t *page =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	assert_int_equal(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
	return page + PAGE;
}

/* A control message that claims to be `len` bytes long, with descriptors 7 and 8 as far as there is
 * room. */
static void put_message(uint8_t *at, size_t room, size_t len, int type)
{
	const struct cmsghdr header = { .cmsg_len = len,
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = type };
	const int fds[] = { 7, 8 };
	memcpy(at, &header, sizeof(header));
	memcpy(at + HEADER, fds, room - HEADER < sizeof(fds) ? room - HEADER : sizeof(fds));
}

static void test_what_is_claimed(void **state)
{
	(void)state;
	static const struct {
		size_t room, first, second; /* the second message, if any, begins at SPACE_1 */
		int type;
		size_t count;
	} rows[] = {
		{ SPACE_1, LEN_1, 0, SCM_RIGHTS, 1 },
		{ SPACE_1, LEN_2, 0, SCM_RIGHTS, 2 },
		{ LEN_1, LEN_1, 0, SCM_RIGHTS, 1 }, /* without what aligns the next one */
		{ SPACE_1, LEN_1 + 3, 0, SCM_RIGHTS, 1 },
		{ 2 * SPACE_1, LEN_1, LEN_1, SCM_RIGHTS, 2 },
		{ 2 * SPACE_1, LEN_1, LEN_1, SCM_CREDENTIALS, 0 },
		{ HEADER, HEADER, 0, SCM_RIGHTS, 0 },
		/* Lengths that the kernel does not make or take. */
		{ SPACE_1, SPACE_1 + 1, 0, SCM_RIGHTS, 0 },
		{ SPACE_1, 2 * PAGE, 0, SCM_RIGHTS, 0 },
		{ SPACE_1, SIZE_MAX, 0, SCM_RIGHTS, 0 },
		{ SPACE_1, 0, 0, SCM_RIGHTS, 0 },
		{ SPACE_1, HEADER - 1, 0, SCM_RIGHTS, 0 },
		{ 2 * SPACE_1, LEN_1, 2 * SPACE_1, SCM_RIGHTS, 1 },
		{ 2 * SPACE_1, LEN_1, SIZE_MAX, SCM_RIGHTS, 1 },
	};
	uint8_t *end = end_of_page();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		uint8_t *at = end - CMSG_ALIGN(rows[i].room);
		const struct msghdr msg = { .msg_control = at, .msg_controllen = rows[i].room };
		put_message(at, rows[i].room, rows[i].first, rows[i].type);
		if (rows[i].second)
			put_message(at + SPACE_1, SPACE_1, rows[i].second, rows[i].type);
		count = 0;
		passed_each(&msg, note);
		assert_int_equal(count, rows[i].count);
		if (count > 0)
			assert_int_equal(noted[0], 7);
	}
	munmap(end - PAGE, 2 * PAGE);
}

static void test_no_control_messages(void **state)
{
	(void)state;
	uint8_t *end = end_of_page();
	struct msghdr msg = { .msg_control = NULL, .msg_controllen = PAGE };
	count = 0;
	passed_each(&msg, note);
	msg = (struct msghdr){ .msg_control = end - 1, .msg_controllen = 1 };
	passed_each(&msg, note);
	assert_int_equal(count, 0);
	munmap(end - PAGE, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_claimed),
		cmocka_unit_test(test_no_control_messages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
