/* SPDX-License-Identifier: MIT */
#include "proto/ipc/config_file.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char found[PATH_MAX] = IPC_SYSTEM_CONFIG_FILE;

/* Look for etc/smcrd/smcrd.conf in PREFIX. The running program is in PREFIX/sbin or PREFIX/bin. */
static void look(void)
{
	char self[PATH_MAX], path[PATH_MAX + sizeof("/.." IPC_SYSTEM_CONFIG_FILE)], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(path, sizeof(path), "%s/.." IPC_SYSTEM_CONFIG_FILE, self);
	if (realpath(path, real))
		memcpy(found, real, sizeof(found));
}

const char *ipc_config_file(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, look);
	return found;
}

int64_t ipc_config_changed_us(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
}
