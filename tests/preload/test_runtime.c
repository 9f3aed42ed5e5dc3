/* SPDX-License-Identifier: MIT */
/* Sanitizers' runtimes, which come before the library: the list of LD_PRELOAD, and the first
 * library that a program needs. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/inspect/needed.h"
#include "lib/inspect/preload_list.h"
#include "tests/lib/tries.h"

/* ---- the list */

/* The rows are those of a list in LD_PRELOAD, and the one that is made of it. */
struct row {
	const char *list, *runtime, *made;
	bool out;  /* without the library */
	bool fits; /* the list may stay */
};

static const struct row rows[] = {
	{ "", "", "/l/us.so" },
	{ "", "libasan.so.8", "libasan.so.8::/l/us.so" },
	{ "a.so /b.so", "libasan.so.8", "libasan.so.8::/l/us.so:a.so:/b.so" },
	{ "us.so", "", "/l/us.so", .fits = true },
	{ "a.so:us.so", "", "/l/us.so:a.so", .fits = true },
	{ "us.so", "libasan.so.8", "libasan.so.8::/l/us.so" },
	{ "libasan.so.8::us.so", "libasan.so.8", "libasan.so.8::/l/us.so", .fits = true },
	{ "libasan.so.8::us.so", "", "/l/us.so" },
	{ "libasan.so.8::us.so:a.so", "", "a.so", .out = true },
	{ "/x/libasan.so.8:us.so", "", "/x/libasan.so.8:/l/us.so", .fits = true },
	{ "/x/libasan.so.8:us.so", "libasan.so.6", "/x/libasan.so.8:/l/us.so", .fits = true },
	{ "us.so:libasan.so.8", "", "libasan.so.8:/l/us.so" },
	{ "a.so:libclang_rt.asan-x86_64.so", "", "libclang_rt.asan-x86_64.so:/l/us.so:a.so" },
	{ "libasan.so.8", "", "libasan.so.8", .out = true, .fits = true },
	{ "libasan.so.8:us.so", "", "libasan.so.8", .out = true },
	{ "us.so", "", "", .out = true },
	/* these only look like it */
	{ "libasan.so.8::a.so", "", "libasan.so.8:/l/us.so:a.so" },
	{ " libasan.so.8::us.so", "", "libasan.so.8:/l/us.so", .fits = true },
	{ "libasan.so.8:::us.so", "", "libasan.so.8:/l/us.so", .fits = true },
	{ "libasan.so/a.so:mylibasan.so:libubsan.so.1", "",
	  "/l/us.so:libasan.so/a.so:mylibasan.so:libubsan.so.1" },
};

/* The room has exactly preload_list_size() bytes, so that the address sanitizer sees any write past
 * its end. */
static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s %s", rows[i].list, rows[i].runtime);
		const struct preload_wish wish = {
			.name = "us.so",
			.library = rows[i].out ? NULL : "/l/us.so",
			.runtime = rows[i].runtime,
		};
		char *room = malloc(preload_list_size(rows[i].list, &wish));
		assert_non_null(room);
		assert_string_equal(preload_list_make(rows[i].list, &wish, room), rows[i].made);
		assert_int_equal(preload_list_fits(rows[i].list, &wish), rows[i].fits);
		assert_true(!*rows[i].made || preload_list_fits(room, &wish));
		free(room);
	}
}

static void test_runtime_is_taken_out(void **state)
{
	(void)state;
	static const char *const lists[][2] = {
		{ "libasan.so.8::/l/us.so:a.so", "/l/us.so:a.so" },
		{ "/x/libclang_rt.asan.so::us.so", "us.so" },
		{ "libasan.so.8:us.so", "libasan.so.8:us.so" },
		{ "libasan.so.8::a.so", "libasan.so.8::a.so" },
		{ "libasan.so.8::", "libasan.so.8::" },
		{ "a.so::us.so", "a.so::us.so" },
		{ "", "" },
	};
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		TRIES("%s", lists[i][0]);
		char *list = strdup(lists[i][0]);
		assert_non_null(list);
		preload_list_take_runtime(list, "us.so");
		assert_string_equal(list, lists[i][1]);
		free(list);
	}
}

/* ---- the first library that a program needs */

#define STRINGS 0x400000 /* their address */
#define AT      4096     /* where they are in the file, which ends with them */

static const char strings[] = "\0libone.so\0libtwo.so";

/** A file, as far as it is read. */
struct file {
	Elf64_Dyn entries[200];
	char unused[AT - 200 * sizeof(Elf64_Dyn)];
	char strings[sizeof(strings)];
};

static struct needed_map map_of_file(void)
{
	struct needed_map map = { .count = 0 };
	const Elf64_Phdr dynamic = { .p_type = PT_DYNAMIC,
				     .p_filesz = sizeof(((struct file *)NULL)->entries) };
	const Elf64_Phdr load = {
		.p_type = PT_LOAD,
		.p_offset = AT,
		.p_vaddr = STRINGS,
		.p_filesz = sizeof(strings),
	};
	needed_note(&map, &load);
	needed_note(&map, &dynamic);
	return map;
}

static void expect_first(const struct needed_map *map, const Elf64_Dyn *entries, size_t count,
			 size_t size, const char *name)
{
	static struct file file;
	char found[64] = "not set";
	memset(&file, 0, sizeof(file));
	memcpy(file.strings, strings, sizeof(strings));
	memcpy(file.entries, entries, count * sizeof(entries[0]));
	int fd = memfd_create("program", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &file, sizeof(file)), sizeof(file));
	needed_first(fd, map, found, size);
	assert_string_equal(found, name);
	close(fd);
}

#define ENTRY(tag, value)                                                                          \
	{                                                                                          \
		.d_tag = (tag), .d_un.d_val = (value)                                              \
	}
#define EXPECT(map, name, ...)                                                                     \
	expect_first(map, (const Elf64_Dyn[]){ __VA_ARGS__ },                                      \
		     sizeof((const Elf64_Dyn[]){ __VA_ARGS__ }) / sizeof(Elf64_Dyn), 64, name)

static void test_first_needed(void **state)
{
	(void)state;
	struct needed_map map = map_of_file();
	EXPECT(&map, "libone.so", ENTRY(DT_NEEDED, 1), ENTRY(DT_NEEDED, 11),
	       ENTRY(DT_STRTAB, STRINGS));
	EXPECT(&map, "libtwo.so", ENTRY(DT_STRTAB, STRINGS), ENTRY(DT_NEEDED, 11),
	       ENTRY(DT_NEEDED, 1));
	EXPECT(&map, "", ENTRY(DT_STRTAB, STRINGS), ENTRY(DT_NULL, 0), ENTRY(DT_NEEDED, 1));
	EXPECT(&map, "", ENTRY(DT_NEEDED, 1));
	/* behind the file's end, in no segment, around the end of the address space */
	EXPECT(&map, "", ENTRY(DT_NEEDED, sizeof(strings)), ENTRY(DT_STRTAB, STRINGS));
	EXPECT(&map, "", ENTRY(DT_NEEDED, 1), ENTRY(DT_STRTAB, STRINGS - AT));
	EXPECT(&map, "", ENTRY(DT_NEEDED, UINT64_MAX), ENTRY(DT_STRTAB, STRINGS));
	/* more entries than are read at once */
	Elf64_Dyn many[100] = { [98] = ENTRY(DT_NEEDED, 11), [99] = ENTRY(DT_STRTAB, STRINGS) };
	for (size_t i = 0; i < 98; i++)
		many[i].d_tag = DT_DEBUG;
	expect_first(&map, many, 100, 64, "libtwo.so");
	/* the name does not fit */
	expect_first(&map, many, 100, sizeof("libtwo.so"), "libtwo.so");
	expect_first(&map, many, 100, sizeof("libtwo.so") - 1, "");
}

static void test_first_needed_of_odd_files(void **state)
{
	(void)state;
	struct needed_map map = map_of_file(), none = { .count = 0 };
	const Elf64_Phdr more = { .p_type = PT_LOAD };
	EXPECT(&none, "", ENTRY(DT_NEEDED, 1), ENTRY(DT_STRTAB, STRINGS));
	for (size_t i = 0; i < 2 * NEEDED_LOADS; i++)
		needed_note(&map, &more);
	EXPECT(&map, "libone.so", ENTRY(DT_NEEDED, 1), ENTRY(DT_STRTAB, STRINGS));
	map.dynamic = UINT64_MAX - 8;
	EXPECT(&map, "", ENTRY(DT_NEEDED, 1), ENTRY(DT_STRTAB, STRINGS));
	map.dynamic = 0;
	map.dynamic_size = UINT64_MAX;
	EXPECT(&map, "libone.so", ENTRY(DT_NEEDED, 1), ENTRY(DT_STRTAB, STRINGS));
	map.loads[0].offset = UINT64_MAX - 4;
	EXPECT(&map, "", ENTRY(DT_NEEDED, 1), ENTRY(DT_STRTAB, STRINGS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_runtime_is_taken_out),
		cmocka_unit_test(test_first_needed),
		cmocka_unit_test(test_first_needed_of_odd_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
