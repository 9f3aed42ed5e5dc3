/* SPDX-License-Identifier: MIT */
#include "lib/preload/carry.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "lib/inspect/inspect.h"
#include "lib/inspect/preload_list.h"
#include "lib/preload/environment.h"
#include "lib/smcr/log.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "proto/ipc/ipc.h"

/* Facts from the time when the library was loaded. Written once, before `state.open` is set. */
static struct {
	bool declined;       /* CARRY_ENV */
	char path[PATH_MAX]; /* the library's */
	char socket[sizeof(IPC_SOCKET_ENV "=") + PATH_MAX];
	struct environment_ours ours;
	struct inspect_measure measure;
} start;

static struct {
	_Atomic bool open;
	_Atomic pid_t pid; /* process of this memory; a child of vfork() has another id */
} state;

/* ---- at load */

static void note_pid(void)
{
	atomic_store(&state.pid, (pid_t)syscall(SYS_getpid));
}

/* Copy the library's path. An absolute path is taken as smcr-run gave it; a relative one is
 * resolved in the present directory.
 */
static bool copy_path(const char *name, char path[PATH_MAX])
{
	const size_t len = strlen(name);
	if (*name != '/')
		return realpath(name, path);
	if (len >= PATH_MAX)
		return false;
	memcpy(path, name, len + 1);
	return true;
}

/* Find the path of this library. @return false: it is linked into a program, or LD_PRELOAD cannot
 * name it */
static bool find_library(void)
{
	Dl_info self, program;
	if (!dladdr(&start, &self) || !self.dli_fname || !copy_path(self.dli_fname, start.path) ||
	    start.path[strcspn(start.path, " :")])
		return false;
	if (dladdr((void *)getauxval(AT_PHDR), &program) && program.dli_fbase == self.dli_fbase)
		return false;
	start.ours.path = start.path;
	start.ours.library = strrchr(start.path, '/') + 1;
	return true;
}

/* Take out the runtime that this program needed and others do not (preload_list.h), also for shells
 * that system() and popen() start. Nobody looks at the environment yet. */
static void leave_runtime(void)
{
	char *list = secure_getenv("LD_PRELOAD");
	if (list)
		preload_list_take_runtime(list, start.ours.library);
}

static void keep_settings(void)
{
	const char *socket = secure_getenv(IPC_SOCKET_ENV);
	const size_t name_len = sizeof(IPC_SOCKET_ENV "=") - 1;
	size_t count = 0; /* at most ENVIRONMENT_SETTINGS */
	if (socket && strlen(socket) < PATH_MAX) {
		memcpy(start.socket, IPC_SOCKET_ENV "=", name_len);
		memcpy(start.socket + name_len, socket, strlen(socket) + 1);
		start.ours.settings[count++] = start.socket;
	}
	if (pre_settings.require)
		start.ours.settings[count++] = PRE_REQUIRE_ENV "=1";
	if (pre_settings.verbose)
		start.ours.settings[count++] = PRE_VERBOSE_ENV "=1";
	if (pre_settings.dlopen_alone)
		start.ours.settings[count++] = PRE_DLOPEN_ENV "=0";
	if (pre_settings.sharing == PRE_SHARING_YES)
		start.ours.settings[count++] = PRE_SHARED_ENV "=yes";
	else if (pre_settings.sharing == PRE_SHARING_ALWAYS)
		start.ours.settings[count++] = PRE_SHARED_ENV "=always";
}

/* Reads the settings of smcr-run by pre_ready(): the constructor of ready.c may run later. */
__attribute__((constructor)) static void carry_open(void)
{
	const char *wanted = secure_getenv(CARRY_ENV);
	if (atomic_load(&state.open) || !pre_ready() || !find_library())
		return;
	int saved = errno;
	leave_runtime();
	start.declined = wanted && strcmp(wanted, "0") == 0;
	keep_settings();
	inspect_measure_self(&start.measure);
	inherit_open();
	note_pid();
	pthread_atfork(NULL, NULL, note_pid);
	errno = saved;
	atomic_store(&state.open, true);
}

/* ---- one program */

/** Can a program use SMC-R, and may it have the library? */
struct judgement {
	bool able;
	bool harmful; /* the library must not be in LD_PRELOAD */
	const char *text;
	char interpreter[INSPECT_LINE]; /* what `text` is about; empty: the program itself */
	char runtime[INSPECT_RUNTIME];
};

/* A separate function, so that its large buffer is off the stack when exec() is called. */
__attribute__((noinline)) static void judge_found(const char *name, int flags,
						  struct inspect_result *result)
{
	char path[PATH_MAX];
	*result = (struct inspect_result){ .verdict = INSPECT_UNKNOWN, .text = "" };
	if (inspect_find(name, path) == 0)
		inspect_program(AT_FDCWD, path, flags, &start.measure, result);
}

/* Can the library's file be opened? If not (after chroot(), as another user), the dynamic loader
 * would print an error. */
static bool library_is_in_reach(void)
{
	int fd = sys_openat(AT_FDCWD, start.path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		sys_close(fd);
	return fd >= 0 || fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM;
}

__attribute__((noinline)) static void judge(const struct carry_program *program,
					    struct judgement *ret_judgement)
{
	struct inspect_result result;
	if (program->search)
		judge_found(program->path, program->flags, &result);
	else
		inspect_program(program->dirfd, program->path, program->flags, &start.measure,
				&result);
	ret_judgement->able = result.verdict == INSPECT_OK || result.verdict == INSPECT_UNKNOWN;
	ret_judgement->harmful = inspect_harmful(result.verdict);
	ret_judgement->text = result.text;
	memcpy(ret_judgement->interpreter, result.interpreter, sizeof(result.interpreter));
	memcpy(ret_judgement->runtime, result.runtime, sizeof(result.runtime));
	if (!library_is_in_reach()) {
		ret_judgement->harmful = true;
		if (ret_judgement->able)
			ret_judgement->text = "the preload library is out of its reach";
		ret_judgement->able = false;
	}
}

static bool says_no(const char *value)
{
	return value && strcmp(value, "0") == 0;
}

/* The value of a setting for the program that gets the environment: a smcr-run that is started by
 * smcr-run has its own settings. */
static bool setting(char *const envp[], const char *name, bool own)
{
	const char *value = environment_get(envp, name);
	return value ? *value && !says_no(value) : own;
}

static bool is_declined(char *const envp[])
{
	return start.declined || says_no(environment_get(envp, CARRY_ENV)) ||
	       says_no(environment_get(environ, CARRY_ENV));
}

/* ---- its environment */

/* Memory for a large environment. Not in a child of vfork(): its parent would keep the memory when
 * the child has become another program. */
static void *large_room(struct carry *carry, size_t size)
{
	if ((pid_t)syscall(SYS_getpid) != atomic_load(&state.pid))
		return NULL;
	void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	carry->mapped = room;
	carry->mapped_len = size;
	return room;
}

/* @return false: no memory; the environment was not changed */
static bool make_environment(struct carry *carry, char *const envp[],
			     const struct environment_wish *wish)
{
	struct environment_view view;
	environment_view(envp, &start.ours, &view);
	if (!environment_differs(&view, &start.ours, wish))
		return true;
	size_t size = environment_size(&view, &start.ours, wish);
	void *room = size <= sizeof(carry->room) ? carry->room : large_room(carry, size);
	if (room)
		carry->envp = environment_make(envp, &view, &start.ours, wish, room);
	return room;
}

/* ---- programs that will not use SMC-R */

static void say(const struct carry_program *program, const struct judgement *judgement,
		const char *end)
{
	const char *name = program->path && *program->path ? program->path : "the program";
	const char *parts[] = { *judgement->interpreter ? judgement->interpreter : name,
				" cannot use SMC-R: ", judgement->text, end, NULL };
	pre_log_text(parts);
}

static int refuse(const struct carry_program *program, const struct judgement *judgement)
{
	say(program, judgement, "; --require: not started");
	return -EACCES;
}

static void leave_behind(struct carry *carry, const struct carry_program *program,
			 const struct judgement *judgement, bool verbose)
{
	inherit_bar(program->spawn, &carry->barred);
	if (verbose)
		say(program, judgement,
		    carry->barred.count ? "; it runs over plain TCP, and so do the listeners "
					  "that it inherits, from now on"
					: "; it runs over plain TCP");
}

/* The environment must not be changed (CARRY_ENV). Bar listeners if the program will not have the
 * library, or cannot use it. */
static void leave_alone(struct carry *carry, const struct carry_program *program,
			const struct judgement *judgement, char *const envp[])
{
	struct environment_view view;
	environment_view(envp, &start.ours, &view);
	if (!view.has_library || !judgement->able)
		inherit_bar(program->spawn, &carry->barred);
}

/* ---- the whole */

int carry_begin(struct carry *ret_carry, const struct carry_program *program, char *const envp[])
{
	struct carry *carry = ret_carry;
	struct judgement judgement;
	carry->envp = envp;
	carry->mapped = NULL;
	carry->barred.count = carry->barred.known = 0;
	if (!atomic_load_explicit(&state.open, memory_order_acquire))
		return 0;
	judge(program, &judgement);
	if (is_declined(envp)) {
		leave_alone(carry, program, &judgement, envp);
		return 0;
	}
	const struct environment_wish wish = { !judgement.harmful, judgement.runtime };
	if (!make_environment(carry, envp, &wish) && judgement.able) {
		judgement.able = false;
		judgement.text = "its environment is too large to be completed";
	}
	if (judgement.able)
		return 0;
	if (setting(envp, PRE_REQUIRE_ENV, pre_settings.require)) {
		carry_end(carry, false);
		return refuse(program, &judgement);
	}
	leave_behind(carry, program, &judgement,
		     setting(envp, PRE_VERBOSE_ENV, pre_settings.verbose));
	return 0;
}

void carry_end(struct carry *carry, bool started)
{
	int saved = errno;
	if (carry->mapped)
		munmap(carry->mapped, carry->mapped_len);
	if (!started)
		inherit_unbar(&carry->barred);
	errno = saved;
}
