/* SPDX-License-Identifier: MIT */
#include "lib/inspect/inspect.h"

#include <dlfcn.h>
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/inspect/needed.h"
#include "lib/inspect/preload_list.h"
#include "lib/smcr/sys.h"

#define MAX_INTERPRETERS    4 /* the kernel's limit of scripts whose interpreters are scripts */
#define MAX_PROGRAM_HEADERS 512
#define MAX_NOTES           64
#define SEGMENTS_AT_ONCE    16
#define ST_NOSUID_FLAG      2 /* in statfs(2)'s f_flags */

/* ---- search */

static int executable(const char *path)
{
	struct stat st;
	if (fstatat(AT_FDCWD, path, &st, 0) < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EACCES;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

/* Make the path of a name in an element of PATH. @return false: it is too long */
static bool join(const char *dir, size_t len, const char *name, size_t name_len, char *ret_path)
{
	if (len + sizeof("./") + name_len >= PATH_MAX)
		return false;
	/* An empty element is the current directory. */
	memcpy(ret_path, len ? dir : ".", len ? len : 1);
	size_t at = len ? len : 1;
	ret_path[at] = '/';
	memcpy(ret_path + at + 1, name, name_len + 1);
	return true;
}

static int search(const char *dirs, const char *name, size_t name_len, char *ret_path)
{
	int result = -ENOENT;
	for (;; dirs++) {
		const size_t len = strcspn(dirs, ":");
		const int rc =
			join(dirs, len, name, name_len, ret_path) ? executable(ret_path) : -ENOENT;
		if (rc == 0)
			return 0;
		if (rc == -EACCES)
			result = -EACCES;
		dirs += len;
		if (!*dirs)
			return result;
	}
}

int inspect_find(const char *name, char *ret_path)
{
	const size_t name_len = strlen(name);
	if (name_len >= PATH_MAX)
		return -ENAMETOOLONG;
	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		memcpy(ret_path, name, name_len + 1);
		return executable(name);
	}
	const char *dirs = getenv("PATH");
	return search(dirs ? dirs : "/bin:/usr/bin", name, name_len, ret_path);
}

/* ---- ELF */

/** The facts about an ELF file that matter here. */
struct elf_facts {
	uint8_t class;
	uint16_t machine;
	bool interpreter;
	char loader[INSPECT_LOADER]; /* its name without directory, if it fits */
	bool go;
	struct needed_map map;
};

static bool read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	return offset <= INT64_MAX && sys_pread(fd, buf, len, (off_t)offset) == (int)len;
}

/* The Go linker puts a note with the owner "Go" (its build id) into every program. */
static bool notes_are_of_go(int fd, uint64_t offset, uint64_t size)
{
	uint64_t at = 0;
	for (int i = 0; i < MAX_NOTES && size - at >= sizeof(Elf64_Nhdr); i++) {
		struct {
			Elf64_Nhdr header;
			char owner[4];
		} note;
		if (!read_at(fd, &note, sizeof(note), offset + at))
			return false;
		if (note.header.n_namesz == 4 && memcmp(note.owner, "Go\0", 4) == 0)
			return true;
		uint64_t len = sizeof(note.header) +
			       (((uint64_t)note.header.n_namesz + 3) & ~3ULL) +
			       (((uint64_t)note.header.n_descsz + 3) & ~3ULL);
		if (len > size - at)
			return false;
		at += len;
	}
	return false;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* A path that does not fit stays unknown. */
static void read_loader(int fd, const Elf64_Phdr *segment, struct elf_facts *facts)
{
	char path[INSPECT_LINE];
	facts->interpreter = true;
	if (segment->p_filesz == 0 || segment->p_filesz > sizeof(path) ||
	    !read_at(fd, path, (size_t)segment->p_filesz, segment->p_offset))
		return;
	path[segment->p_filesz - 1] = '\0';
	const char *name = name_of(path);
	if (strlen(name) < sizeof(facts->loader))
		memcpy(facts->loader, name, strlen(name) + 1);
}

static void read_segment(int fd, const Elf64_Phdr *segment, struct elf_facts *facts)
{
	if (segment->p_type == PT_INTERP)
		read_loader(fd, segment, facts);
	if (segment->p_type == PT_NOTE && !facts->go)
		facts->go = notes_are_of_go(fd, segment->p_offset, segment->p_filesz);
	needed_note(&facts->map, segment);
}

static bool read_segments64(int fd, struct elf_facts *facts)
{
	Elf64_Ehdr header;
	if (!read_at(fd, &header, sizeof(header), 0) || header.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	facts->machine = header.e_machine;
	unsigned count =
		header.e_phnum < MAX_PROGRAM_HEADERS ? header.e_phnum : MAX_PROGRAM_HEADERS;
	for (unsigned i = 0; i < count; i += SEGMENTS_AT_ONCE) {
		Elf64_Phdr segments[SEGMENTS_AT_ONCE];
		unsigned n = count - i < SEGMENTS_AT_ONCE ? count - i : SEGMENTS_AT_ONCE;
		if (!read_at(fd, segments, n * sizeof(segments[0]),
			     header.e_phoff + (uint64_t)i * sizeof(segments[0])))
			return false;
		for (unsigned s = 0; s < n; s++)
			read_segment(fd, &segments[s], facts);
	}
	return true;
}

/* A program of another class or byte order cannot load the library: the rest is not read. */
static bool read_elf(int fd, struct elf_facts *ret_facts)
{
	unsigned char ident[EI_NIDENT];
	const unsigned char native = __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
	if (!read_at(fd, ident, sizeof(ident), 0) || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return false;
	struct elf_facts facts = { .class = ident[EI_CLASS] };
	if (facts.class == ELFCLASS64 && ident[EI_DATA] == native && !read_segments64(fd, &facts))
		return false;
	*ret_facts = facts;
	return true;
}

/* The linker's name for the ELF header of the program or library that this is linked into. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

void inspect_measure_self(struct inspect_measure *ret_measure)
{
	struct inspect_measure measure = {
		.class = __ehdr_start.e_ident[EI_CLASS],
		.machine = __ehdr_start.e_machine,
	};
	Dl_info loader;
	struct stat st;
	/* 0 if the program was started by running the loader with the program as its argument. */
	unsigned long base = getauxval(AT_BASE);
	if (base && dladdr((void *)base, &loader) && loader.dli_fname) {
		const char *name = name_of(loader.dli_fname);
		if (strlen(name) < sizeof(measure.loader))
			memcpy(measure.loader, name, strlen(name) + 1);
		if (fstatat(AT_FDCWD, loader.dli_fname, &st, 0) == 0) {
			measure.loader_device = st.st_dev;
			measure.loader_inode = st.st_ino;
		}
	}
	*ret_measure = measure;
}

/* ---- privileges (what makes the kernel set AT_SECURE) */

static bool may_gain(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 && !(fs.f_flags & ST_NOSUID_FLAG) &&
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

#define IGNORED         ", so the dynamic loader ignores preload libraries"
#define PRIVILEGED(how) "it is " how IGNORED

/* Compares the effective ids that the program will have with the real ones. If the file is not
 * setuid or setgid, the program gets the ids of the process that starts it. @return why, or NULL */
static const char *changed_ids(const struct stat *st, bool gains, int flags)
{
	const bool reset = flags & INSPECT_RESET_IDS;
	if (gains && (st->st_mode & S_ISUID)) {
		if (st->st_uid != getuid())
			return PRIVILEGED("setuid");
	} else if (!reset && geteuid() != getuid()) {
		return "it is started with an effective user id that is not the real one" IGNORED;
	}
	if (gains && (st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP)) {
		if (st->st_gid != getgid())
			return PRIVILEGED("setgid");
	} else if (!reset && getegid() != getgid()) {
		return "it is started with an effective group id that is not the real one" IGNORED;
	}
	return NULL;
}

/** @param fd  may be opened with O_PATH. @return why, or NULL */
static const char *privilege_of(int fd, int flags)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return NULL;
	const bool gains = may_gain(fd);
	const char *how = changed_ids(&st, gains, flags);
	if (!how && gains && getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		how = PRIVILEGED("privileged by file capabilities");
	return how;
}

/* ---- verdict */

static void judge(struct inspect_result *result, enum inspect_verdict verdict, const char *text)
{
	result->verdict = verdict;
	result->text = text;
}

static bool is_other_loader(const struct elf_facts *program, const struct inspect_measure *measure)
{
	return *measure->loader && *program->loader &&
	       strcmp(program->loader, measure->loader) != 0;
}

#define OTHER_LIBRARY "it is built for another C library than the preload library"

/* ---- programs without a loader that run others: the loader itself, and valgrind */

/* Loaders have names such as ld-linux-x86-64.so.2, ld64.so.1, ld-musl-x86_64.so.1. */
static bool is_loader_name(const char *name)
{
	return strncmp(name, "ld", 2) == 0 && strstr(name, ".so");
}

static bool is_our_loader(int fd, const char *name, const struct inspect_measure *measure)
{
	struct stat st;
	if (*measure->loader ? strcmp(name, measure->loader) == 0 : is_loader_name(name))
		return true;
	return fstat(fd, &st) == 0 && measure->loader_inode != 0 &&
	       st.st_dev == measure->loader_device && st.st_ino == measure->loader_inode;
}

/* valgrind's tools are static, and run the program's own loader. */
static bool is_of_valgrind(const char *path)
{
	static const char dir[] = "/valgrind/";
	const char *name = name_of(path);
	const size_t len = strlen(dir);
	return (size_t)(name - path) >= len && memcmp(name - len, dir, len) == 0;
}

static void judge_without_loader(int fd, const char *path, const struct inspect_measure *measure,
				 struct inspect_result *result)
{
	if (is_our_loader(fd, name_of(path), measure) || is_of_valgrind(path))
		judge(result, INSPECT_UNKNOWN, "");
	else if (is_loader_name(name_of(path)))
		judge(result, INSPECT_OTHER_LOADER, OTHER_LIBRARY);
	else
		judge(result, INSPECT_STATIC,
		      "it is statically linked, so no library can be loaded into it");
}

/* ---- any program */

/* The runtime that the program needs in front of LD_PRELOAD. One that LD_PRELOAD cannot name is
 * none. */
static void find_runtime(int fd, const struct elf_facts *program, struct inspect_result *result)
{
	needed_first(fd, &program->map, result->runtime, sizeof(result->runtime));
	const struct preload_item item = { result->runtime, strlen(result->runtime) };
	if (!preload_list_is_runtime(&item) || strpbrk(result->runtime, " :"))
		*result->runtime = '\0';
}

static void judge_elf(int fd, const char *path, int flags, const struct elf_facts *program,
		      const struct inspect_measure *measure, struct inspect_result *result)
{
	if (program->class != measure->class || program->machine != measure->machine) {
		judge(result, INSPECT_WRONG_CLASS,
		      "it is built for another architecture than the preload library");
	} else if (program->go) {
		/* Tested before the loader: "static" would suggest that other linking helps. */
		judge(result, INSPECT_GO, "it is a Go program, which does not call the C library");
	} else if (!program->interpreter) {
		judge_without_loader(fd, path, measure, result);
	} else if (is_other_loader(program, measure)) {
		judge(result, INSPECT_OTHER_LOADER, OTHER_LIBRARY);
	} else {
		const char *how = privilege_of(fd, flags);
		judge(result, how ? INSPECT_PRIVILEGED : INSPECT_OK, how ? how : "");
		if (!how)
			find_runtime(fd, program, result);
	}
}

/* The interpreter in a script's first line. @return false: this is no script */
static bool script_interpreter(int fd, char ret_path[INSPECT_LINE])
{
	char line[INSPECT_LINE];
	int n = sys_pread(fd, line, sizeof(line) - 1, 0);
	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	char *path = line + 2 + strspn(line + 2, " \t");
	path[strcspn(path, " \t\n")] = '\0';
	memcpy(ret_path, path, strlen(path) + 1);
	return *path;
}

/* Through /proc the file of a descriptor can be opened even if it was opened with O_PATH. */
static int open_descriptor(int fd, int how)
{
	char path[sizeof("/proc/self/fd/2147483647")] = "/proc/self/fd/";
	char digits[sizeof("2147483647")];
	size_t at = strlen(path), n = 0;
	if (fd < 0)
		return -EBADF;
	do
		digits[n++] = (char)('0' + fd % 10);
	while ((fd /= 10) > 0);
	while (n > 0)
		path[at++] = digits[--n];
	path[at] = '\0';
	return sys_openat(AT_FDCWD, path, how | O_CLOEXEC);
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. @param how  O_RDONLY or O_PATH */
static int open_program(int dirfd, const char *path, int flags, int how)
{
	if ((flags & AT_EMPTY_PATH) && !*path)
		return open_descriptor(dirfd, how);
	return sys_openat(dirfd, path,
			  how | O_CLOEXEC | O_NONBLOCK |
				  (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0));
}

/* Users may run some programs that they may not read, setuid programs for example. */
static void judge_unreadable(int dirfd, const char *path, int flags, struct inspect_result *result)
{
	int fd = open_program(dirfd, path, flags, O_PATH);
	if (fd < 0)
		return;
	const char *how = privilege_of(fd, flags);
	if (how)
		judge(result, INSPECT_PRIVILEGED, how);
	sys_close(fd);
}

void inspect_program(int dirfd, const char *path, int flags, const struct inspect_measure *measure,
		     struct inspect_result *ret_result)
{
	struct inspect_result *result = ret_result;
	struct elf_facts facts;
	judge(result, INSPECT_UNKNOWN, "");
	*result->interpreter = *result->runtime = '\0';
	int fd = open_program(dirfd, path, flags, O_RDONLY);
	if (fd == -EACCES)
		judge_unreadable(dirfd, path, flags, result);
	for (int depth = 0; fd >= 0 && depth <= MAX_INTERPRETERS; depth++) {
		bool script = script_interpreter(fd, result->interpreter);
		if (!script && read_elf(fd, &facts))
			judge_elf(fd, *result->interpreter ? result->interpreter : path, flags,
				  &facts, measure, result);
		sys_close(fd);
		fd = script ? open_program(AT_FDCWD, result->interpreter, 0, O_RDONLY) : -EBADF;
		if (fd == -EACCES)
			judge_unreadable(AT_FDCWD, result->interpreter, flags & INSPECT_RESET_IDS,
					 result);
	}
	if (fd >= 0)
		sys_close(fd);
}

bool inspect_harmful(enum inspect_verdict verdict)
{
	return verdict == INSPECT_WRONG_CLASS || verdict == INSPECT_OTHER_LOADER;
}
