/* SPDX-License-Identifier: MIT */
#include "lib/smcr/settings.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "lib/smcr/sys.h"
#include "lib/smcr/trust.h"
#include "proto/ipc/ipc.h"

struct pre_settings pre_settings;

static bool is_set(const char *name)
{
	const char *value = secure_getenv(name);
	return value && *value && strcmp(value, "0") != 0;
}

static bool is_off(const char *name)
{
	const char *value = secure_getenv(name);
	return value && strcmp(value, "0") == 0;
}

static enum pre_sharing sharing(void)
{
	const char *value = secure_getenv(PRE_SHARED_ENV);
	if (value && strcmp(value, "always") == 0)
		return PRE_SHARING_ALWAYS;
	return value && strcmp(value, "yes") == 0 ? PRE_SHARING_YES : PRE_SHARING_NO;
}

/* valgrind loads libraries of its own into the programs that it runs. */
static bool under_valgrind(void)
{
	const char *preload = secure_getenv("LD_PRELOAD");
	return preload && strstr(preload, "/vgpreload_");
}

/* While /proc is in sight: a program may change its root later. Without /proc what execve() was
 * given has to do, if it says where the program is. */
static uint64_t own_program(void)
{
	char path[PATH_MAX];
	int len = sys_readlink("/proc/self/exe", path, sizeof(path));
	if (len > 0)
		return ipc_program_id(path, (size_t)len);
	const char *given = (const char *)getauxval(AT_EXECFN);
	return given && *given == '/' ? ipc_program_id(given, strlen(given)) : 0;
}

void pre_set_daemon(const char *path)
{
	size_t len = strlen(path);
	pre_settings.daemon_len = pre_settings.daemon_abstract_len = 0;
	if (len >= sizeof(pre_settings.daemon.sun_path))
		return;
	pre_settings.daemon = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(pre_settings.daemon.sun_path, path, len);
	pre_settings.daemon_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	pre_settings.daemon_abstract_len =
		(socklen_t)ipc_abstract_address(path, 0, &pre_settings.daemon_abstract);
	pre_trust_note_owner();
}

void pre_settings_read(void)
{
	const char *path = secure_getenv(IPC_SOCKET_ENV);
	pre_settings = (struct pre_settings){
		.program = own_program(),
		.require = is_set(PRE_REQUIRE_ENV),
		.verbose = is_set(PRE_VERBOSE_ENV),
		.dlopen_alone = is_off(PRE_DLOPEN_ENV),
		.valgrind = under_valgrind(),
		.sharing = sharing(),
	};
	pre_set_daemon(path && *path ? path : IPC_DEFAULT_SOCKET);
}
