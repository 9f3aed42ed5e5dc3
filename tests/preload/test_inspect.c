/* SPDX-License-Identifier: MIT */
/* Which programs can use SMC-R: scripts whose interpreters are scripts, programs by descriptor, and
 * names that PATH is searched for. What ELF files are judged to be is in tests/bats/smcr-run.bats,
 * where they are started too. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/inspect/inspect.h"
#include "tests/lib/tries.h"

static char dir[] = "/tmp/inspect.XXXXXX";
static struct inspect_measure measure;

static int setup(void **state)
{
	(void)state;
	inspect_measure_self(&measure);
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof(command), "/bin/rm -r %s", dir);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

/* A file of this directory with a mode and a text. */
static void put(const char *name, mode_t mode, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static struct inspect_result judge(int dirfd, const char *path, int flags)
{
	struct inspect_result result;
	inspect_program(dirfd, path, flags, &measure, &result);
	return result;
}

/* As many as the kernel starts, and no more: s1 is a script whose interpreter is this program, s2
 * one whose interpreter is s1, and so on. */
static void scripts_within_scripts(void **state)
{
	(void)state;
	char name[] = "s1", line[PATH_MAX];
	put(name, 0700, "#!/proc/self/exe -x\n");
	for (; name[1] <= '5'; name[1]++) {
		TRIES("%s", name);
		struct inspect_result result = judge(AT_FDCWD, name, 0);
		assert_int_equal(result.verdict, name[1] <= '4' ? INSPECT_OK : INSPECT_UNKNOWN);
		if (name[1] <= '4')
			assert_string_equal(result.interpreter, "/proc/self/exe");
		snprintf(line, sizeof(line), "#! \t%s/%s\t-x y\n", dir, name);
		char next[] = { 's', (char)(name[1] + 1), '\0' };
		put(next, 0700, line);
	}
}

static void programs_by_descriptor(void **state)
{
	(void)state;
	static const int numbers[] = { 7, 9, 10, 19, 89, 99, 100, 101, 999 };
	int self = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		TRIES("%d", numbers[i]);
		assert_int_equal(dup2(self, numbers[i]), numbers[i]);
		if (numbers[i] != self)
			assert_int_equal(judge(numbers[i], "", AT_EMPTY_PATH).verdict, INSPECT_OK);
		close(numbers[i]);
		assert_int_equal(judge(numbers[i], "", AT_EMPTY_PATH).verdict, INSPECT_UNKNOWN);
		if (numbers[i] == self)
			self = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	}
	close(self);
	assert_int_equal(judge(-1, "", AT_EMPTY_PATH).verdict, INSPECT_UNKNOWN);
	assert_int_equal(judge(AT_FDCWD, "", 0).verdict, INSPECT_UNKNOWN);
}

/* The head of this program, and the path of its loader. */
static void read_own(Elf64_Ehdr *ret_head, char ret_path[PATH_MAX])
{
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	Elf64_Phdr segment = { 0 };
	assert_int_equal(read(self, ret_head, sizeof(*ret_head)), sizeof(*ret_head));
	for (int i = 0; segment.p_type != PT_INTERP; i++) {
		const off_t at = (off_t)ret_head->e_phoff + i * (off_t)sizeof(segment);
		assert_true(i < ret_head->e_phnum);
		assert_int_equal(pread(self, &segment, sizeof(segment), at), sizeof(segment));
	}
	assert_true(segment.p_filesz < PATH_MAX);
	assert_int_equal(pread(self, ret_path, segment.p_filesz, (off_t)segment.p_offset),
			 segment.p_filesz);
	close(self);
}

/* A program that has the loader of this one, and a note of the owner "Go", which may be cut off. */
static void notes(void **state)
{
	(void)state;
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segments[2];
		Elf64_Nhdr note;
		char owner[4];
	} file = { 0 };
	char path[PATH_MAX];
	read_own(&file.head, path);
	file.head.e_phoff = offsetof(__typeof__(file), segments);
	file.head.e_phnum = 2;
	file.segments[0].p_type = PT_INTERP;
	file.segments[0].p_offset = sizeof(file);
	file.segments[1] = (Elf64_Phdr){ .p_type = PT_NOTE,
					 .p_offset = offsetof(__typeof__(file), note),
					 .p_filesz = sizeof(file.note) + sizeof(file.owner),
					 .p_align = 4 };
	file.note.n_namesz = sizeof(file.owner);
	file.segments[0].p_filesz = strlen(path) + 1;
	static const struct {
		const char *owner;
		bool cut;
		enum inspect_verdict verdict;
	} rows[] = { { "Go", false, INSPECT_GO },
		     { "go", false, INSPECT_OK },
		     { "Go", true, INSPECT_OK } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		int fd = open("elf", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
		strcpy(file.owner, rows[i].owner);
		/* behind the end of the file, where the loader is named too */
		file.segments[1].p_offset = rows[i].cut ? sizeof(file) + sizeof(path)
							: offsetof(__typeof__(file), note);
		assert_int_equal(write(fd, &file, sizeof(file)), sizeof(file));
		assert_int_equal(write(fd, path, strlen(path) + 1), strlen(path) + 1);
		close(fd);
		assert_int_equal(judge(AT_FDCWD, "elf", 0).verdict, rows[i].verdict);
	}
}

static void links_that_are_not_followed(void **state)
{
	(void)state;
	assert_int_equal(symlink("/proc/self/exe", "link"), 0);
	assert_int_equal(judge(AT_FDCWD, "link", 0).verdict, INSPECT_OK);
	assert_int_equal(judge(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW).verdict, INSPECT_UNKNOWN);
}

static void expect_found(const char *path, const char *name, int error, const char *found)
{
	char out[PATH_MAX];
	if (path)
		assert_int_equal(setenv("PATH", path, 1), 0);
	else
		assert_int_equal(unsetenv("PATH"), 0);
	assert_int_equal(inspect_find(name, out), -error);
	if (!error)
		assert_string_equal(out, found);
}

static void names_are_searched_for(void **state)
{
	(void)state;
	char *before = strdup(getenv("PATH")), path[3 * PATH_MAX], want[PATH_MAX];
	char long_name[PATH_MAX + 1];
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(mkdir("first", 0700), 0);
	assert_int_equal(mkdir("second", 0700), 0);
	put("first/data", 0600, "data");
	put("second/data", 0700, "#!/bin/sh\n");
	put("here", 0700, "#!/bin/sh\n");
	snprintf(path, sizeof(path), "%s/none:%s/first:%s/second", dir, dir, dir);
	snprintf(want, sizeof(want), "%s/second/data", dir);
	expect_found(path, "data", 0, want); /* one that may not be executed is passed over */
	snprintf(path, sizeof(path), "%s/first:%s/none", dir, dir);
	expect_found(path, "data", EACCES, NULL);
	expect_found(path, "none", ENOENT, NULL);
	expect_found(path, "", ENOENT, NULL);
	expect_found(path, "first/data", EACCES, NULL); /* a slash: PATH is not searched */
	expect_found(path, "second/data", 0, "second/data");
	expect_found("/none:", "here", 0, "./here"); /* an empty element is this directory */
	expect_found(":/none", "here", 0, "./here");
	expect_found(path, long_name, ENAMETOOLONG, NULL);
	expect_found(NULL, "sh", 0, "/bin/sh");
	setenv("PATH", before, 1);
	free(before);
}

static void harm(void **state)
{
	(void)state;
	assert_true(inspect_harmful(INSPECT_WRONG_CLASS));
	assert_true(inspect_harmful(INSPECT_OTHER_LOADER));
	assert_false(inspect_harmful(INSPECT_OK));
	assert_false(inspect_harmful(INSPECT_GO));
	assert_false(inspect_harmful(INSPECT_STATIC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scripts_within_scripts),
		cmocka_unit_test(programs_by_descriptor),
		cmocka_unit_test(notes),
		cmocka_unit_test(links_that_are_not_followed),
		cmocka_unit_test(names_are_searched_for),
		cmocka_unit_test(harm),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
