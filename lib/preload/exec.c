/* SPDX-License-Identifier: MIT */
/*
 * All interposed functions that start programs. Calls inside the C library (in system(), popen()
 * and wordexp()) are not interposed.
 *
 * Each keeps the contract of the C library's function: errors, errno, async-signal safety; and
 * execvp() and its like search PATH of the program's own environment, not of the new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/inspect/inspect.h"
#include "lib/preload/carry.h"
#include "lib/smcr/next.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- the next functions */

typedef int spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		  const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

static struct {
	int (*execve)(const char *path, char *const argv[], char *const envp[]);
	int (*execvpe)(const char *file, char *const argv[], char *const envp[]);
	int (*fexecve)(int fd, char *const argv[], char *const envp[]);
	int (*execveat)(int dirfd, const char *path, char *const argv[], char *const envp[],
			int flags);
	spawn *posix_spawn, *posix_spawnp;
	int (*adddup2)(posix_spawn_file_actions_t *actions, int fd, int new_fd);
} next;

/* Where there is no next function, or not yet, the kernel is asked. */

static int kernel_execve(const char *path, char *const argv[], char *const envp[])
{
	return (int)syscall(SYS_execve, path, argv, envp);
}

static int kernel_execvpe(const char *file, char *const argv[], char *const envp[])
{
	char path[PATH_MAX];
	int rc = inspect_find(file, path);
	if (rc == 0)
		return kernel_execve(path, argv, envp);
	errno = -rc;
	return -1;
}

static int kernel_execveat(int dirfd, const char *path, char *const argv[], char *const envp[],
			   int flags)
{
	return (int)syscall(SYS_execveat, dirfd, path, argv, envp, flags);
}

static int kernel_fexecve(int fd, char *const argv[], char *const envp[])
{
	return kernel_execveat(fd, "", argv, envp, AT_EMPTY_PATH);
}

static int no_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		    const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	(void)pid, (void)path, (void)actions, (void)attributes, (void)argv, (void)envp;
	return ENOSYS;
}

static int no_adddup2(posix_spawn_file_actions_t *actions, int fd, int new_fd)
{
	(void)actions, (void)fd, (void)new_fd;
	return ENOSYS;
}

/* Call it early: dlsym() must not be called in children of fork(). Several threads may run this;
 * they find the same. */
__attribute__((constructor)) static void find_next(void)
{
	if (next.execve)
		return;
	next.execvpe = kernel_execvpe;
	next.fexecve = kernel_fexecve;
	next.execveat = kernel_execveat;
	next.posix_spawn = next.posix_spawnp = no_spawn;
	next.adddup2 = no_adddup2;
	next.execve = kernel_execve;
	pre_next_symbol("execve", &next.execve, sizeof(next.execve));
	pre_next_symbol("execvpe", &next.execvpe, sizeof(next.execvpe));
	pre_next_symbol("fexecve", &next.fexecve, sizeof(next.fexecve));
	pre_next_symbol("execveat", &next.execveat, sizeof(next.execveat));
	pre_next_symbol("posix_spawn", &next.posix_spawn, sizeof(next.posix_spawn));
	pre_next_symbol("posix_spawnp", &next.posix_spawnp, sizeof(next.posix_spawnp));
	pre_next_symbol("posix_spawn_file_actions_adddup2", &next.adddup2, sizeof(next.adddup2));
}

/* ---- exec */

/* @return false: the program must not be started, and errno says why */
static bool begin(struct carry *ret_carry, const struct carry_program *program, char *const envp[])
{
	find_next();
	int rc = carry_begin(ret_carry, program, envp);
	if (rc < 0)
		errno = -rc;
	return rc == 0;
}

/* The kernel has not started it. */
static int failed(struct carry *carry, int rc)
{
	carry_end(carry, false);
	return rc;
}

static int exec_path(const char *path, char *const argv[], char *const envp[])
{
	const struct carry_program program = { .dirfd = AT_FDCWD, .path = path };
	struct carry carry;
	if (!begin(&carry, &program, envp))
		return -1;
	return failed(&carry, next.execve(path, argv, carry.envp));
}

static int exec_file(const char *file, char *const argv[], char *const envp[])
{
	const struct carry_program program = { .dirfd = AT_FDCWD, .path = file, .search = true };
	struct carry carry;
	if (!begin(&carry, &program, envp))
		return -1;
	return failed(&carry, next.execvpe(file, argv, carry.envp));
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return exec_path(path, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
	return exec_path(path, argv, environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return exec_file(file, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return exec_file(file, argv, envp);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	const struct carry_program program = { .dirfd = fd, .path = "", .flags = AT_EMPTY_PATH };
	struct carry carry;
	if (!begin(&carry, &program, envp))
		return -1;
	return failed(&carry, next.fexecve(fd, argv, carry.envp));
}

EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
	const struct carry_program program = { .dirfd = dirfd, .path = path, .flags = flags };
	struct carry carry;
	if (!begin(&carry, &program, envp))
		return -1;
	return failed(&carry, next.execveat(dirfd, path, argv, carry.envp, flags));
}

/* ---- exec with the arguments in the call */

static size_t count_arguments(va_list *list)
{
	size_t count = 1; /* the first one has a name, and is not NULL */
	while (va_arg(*list, const char *))
		count++;
	return count;
}

static void take_arguments(char *argv[], const char *first, va_list *list, size_t count)
{
	argv[0] = (char *)(uintptr_t)first;
	for (size_t i = 1; i <= count; i++) /* with the NULL at the end */
		argv[i] = va_arg(*list, char *);
}

/* Put the arguments of the call into an array on the stack. Afterwards the list is behind the NULL.
 */
#define ARGUMENTS(argv, first, list)                                                               \
	do {                                                                                       \
		va_start(list, first);                                                             \
		size_t count_ = count_arguments(&list);                                            \
		va_end(list);                                                                      \
		argv = __builtin_alloca((count_ + 1) * sizeof(argv[0]));                           \
		va_start(list, first);                                                             \
		take_arguments(argv, first, &list, count_);                                        \
	} while (0)

EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list list;
	char **argv;
	ARGUMENTS(argv, arg, list);
	va_end(list);
	return exec_path(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	va_list list;
	char **argv;
	ARGUMENTS(argv, arg, list);
	va_end(list);
	return exec_file(file, argv, environ);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	va_list list;
	char **argv;
	ARGUMENTS(argv, arg, list);
	char *const *envp = va_arg(list, char *const *);
	va_end(list);
	return exec_path(path, argv, envp);
}

/* ---- posix_spawn: errors are returned */

static int flags_of(const posix_spawnattr_t *attributes)
{
	short flags;
	if (!attributes || posix_spawnattr_getflags(attributes, &flags) != 0)
		return 0;
	return flags & POSIX_SPAWN_RESETIDS ? INSPECT_RESET_IDS : 0;
}

static int spawn_program(spawn *function, bool search, pid_t *pid, const char *path,
			 const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attributes, char *const argv[],
			 char *const envp[])
{
	const struct carry_program program = {
		.dirfd = AT_FDCWD,
		.path = path,
		.flags = flags_of(attributes),
		.search = search,
		.spawn = actions != NULL,
	};
	struct carry carry;
	int saved = errno;
	int rc = carry_begin(&carry, &program, envp);
	if (rc == 0) {
		rc = -function(pid, path, actions, attributes, argv, carry.envp);
		carry_end(&carry, rc == 0);
	}
	errno = saved;
	return -rc;
}

EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
		       const posix_spawn_file_actions_t *restrict actions,
		       const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
		       char *const envp[restrict])
{
	find_next();
	return spawn_program(next.posix_spawn, false, pid, path, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
			const posix_spawn_file_actions_t *restrict actions,
			const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
			char *const envp[restrict])
{
	find_next();
	return spawn_program(next.posix_spawnp, true, pid, file, actions, attributes, argv, envp);
}

EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int new_fd)
{
	find_next();
	inherit_note_dup(fd);
	return next.adddup2(actions, fd, new_fd);
}
