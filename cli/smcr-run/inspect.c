/* SPDX-License-Identifier: MIT */
#include "cli/smcr-run/inspect.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_INTERPRETERS    4 /* as the kernel: a script may name a script, but not for ever */
#define MAX_PROGRAM_HEADERS 512
#define MAX_NOTE_BYTES      4096

/* ---- search */

static int executable(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EACCES;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

int inspect_find(const char *name, char *ret_path)
{
	if (strlen(name) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		strcpy(ret_path, name);
		return executable(name);
	}
	const char *dirs = getenv("PATH");
	if (!dirs)
		dirs = "/bin:/usr/bin";
	int result = -ENOENT;
	for (const char *dir = dirs;; dir++) {
		size_t len = strcspn(dir, ":");
		char path[PATH_MAX];
		/* An empty element is the current directory. */
		int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)len, dir, len ? "/" : "./",
				 name);
		if (n > 0 && (size_t)n < sizeof(path)) {
			int rc = executable(path);
			if (rc == 0) {
				strcpy(ret_path, path);
				return 0;
			}
			if (rc == -EACCES)
				result = -EACCES;
		}
		dir += len;
		if (!*dir)
			return result;
	}
}

/* ---- ELF */

/** What of an ELF file matters here. */
struct elf_facts {
	uint8_t class;
	uint16_t machine;
	bool interpreter;
	bool go;
};

static bool read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, buf, len, (off_t)offset) == (ssize_t)len;
}

/* The Go linker puts a note with the owner "Go" (its build id) into every program. */
static bool note_is_of_go(int fd, uint64_t offset, uint64_t size)
{
	union {
		Elf64_Nhdr header;
		char bytes[MAX_NOTE_BYTES];
	} note;
	size_t len = size < sizeof(note.bytes) ? (size_t)size : sizeof(note.bytes);
	if (!read_at(fd, note.bytes, len, offset))
		return false;
	size_t at = 0;
	while (len - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr header;
		memcpy(&header, note.bytes + at, sizeof(header));
		size_t name = at + sizeof(header);
		uint64_t next = name + (((uint64_t)header.n_namesz + 3) & ~3ULL) +
				(((uint64_t)header.n_descsz + 3) & ~3ULL);
		if (header.n_namesz == 4 && len - name >= 4 &&
		    !memcmp(note.bytes + name, "Go\0", 4))
			return true;
		if (next > len)
			return false;
		at = (size_t)next;
	}
	return false;
}

static bool read_segments64(int fd, struct elf_facts *facts)
{
	Elf64_Ehdr header;
	if (!read_at(fd, &header, sizeof(header), 0) || header.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	facts->machine = header.e_machine;
	for (unsigned i = 0; i < header.e_phnum && i < MAX_PROGRAM_HEADERS; i++) {
		Elf64_Phdr segment;
		if (!read_at(fd, &segment, sizeof(segment),
			     header.e_phoff + (uint64_t)i * sizeof(segment)))
			return false;
		if (segment.p_type == PT_INTERP)
			facts->interpreter = true;
		if (segment.p_type == PT_NOTE &&
		    note_is_of_go(fd, segment.p_offset, segment.p_filesz))
			facts->go = true;
	}
	return true;
}

/* Other classes and byte orders cannot load the library: no more is read of them. */
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

/* ---- privileges (what makes the kernel set AT_SECURE) */

static bool gains_privilege(int fd, const char **ret_how)
{
	struct stat st;
	struct statvfs fs;
	if (fstat(fd, &st) < 0 || fstatvfs(fd, &fs) < 0 || (fs.f_flag & ST_NOSUID))
		return false;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid()) {
		*ret_how = "setuid";
		return true;
	}
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid()) {
		*ret_how = "setgid";
		return true;
	}
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0) {
		*ret_how = "privileged by file capabilities";
		return true;
	}
	return false;
}

/* ---- verdict */

static void judge(struct inspect_result *result, enum inspect_verdict verdict, const char *text)
{
	result->verdict = verdict;
	snprintf(result->text, sizeof(result->text), "%s", text);
}

static void judge_elf(int fd, const struct elf_facts *program, const struct elf_facts *library,
		      struct inspect_result *result)
{
	const char *how;
	char text[sizeof(result->text)];
	if (program->class != library->class || program->machine != library->machine) {
		judge(result, INSPECT_WRONG_CLASS,
		      "it is built for another architecture than the preload library");
	} else if (program->go) {
		/* Before the loader: "static" would suggest that linking it otherwise helps. */
		judge(result, INSPECT_GO, "it is a Go program, which does not call the C library");
	} else if (!program->interpreter) {
		judge(result, INSPECT_STATIC,
		      "it is statically linked, so no library can be loaded into it");
	} else if (gains_privilege(fd, &how)) {
		snprintf(text, sizeof(text),
			 "it is %s, so the dynamic loader ignores preload libraries", how);
		judge(result, INSPECT_PRIVILEGED, text);
	} else {
		judge(result, INSPECT_OK, "");
	}
}

/* The interpreter in a script's first line. @return false: this is no script */
static bool script_interpreter(int fd, char *ret_path)
{
	char line[256]; /* as much as the kernel looks at */
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	char *path = line + 2 + strspn(line + 2, " \t");
	path[strcspn(path, " \t\n")] = '\0';
	strcpy(ret_path, path);
	return *path;
}

void inspect_program(const char *path, const char *library, struct inspect_result *ret_result)
{
	struct elf_facts of_library, of_program;
	struct inspect_result result = { .verdict = INSPECT_UNKNOWN };
	bool measured = false;
	int fd = open(library, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		measured = read_elf(fd, &of_library);
		close(fd);
	}
	snprintf(result.file, sizeof(result.file), "%s", path);
	for (int depth = 0; measured && depth <= MAX_INTERPRETERS; depth++) {
		char interpreter[256];
		fd = open(result.file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			break;
		bool script = script_interpreter(fd, interpreter);
		if (!script && read_elf(fd, &of_program))
			judge_elf(fd, &of_program, &of_library, &result);
		close(fd);
		if (!script)
			break;
		strcpy(result.file, interpreter);
	}
	*ret_result = result;
}
