/* SPDX-License-Identifier: MIT */
#include "daemon/check_readable.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE_USER "smcrd"

static void check_file(void *arg, const char *path)
{
	(void)arg;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		fprintf(stderr,
			"smcrd: warning: %s: the user " SERVICE_USER
			", as which the service runs, cannot read it: chmod, or chgrp " SERVICE_USER
			"\n",
			path);
	if (fd >= 0)
		close(fd);
}

void check_readable(const struct config_source *source)
{
	const struct passwd *user = geteuid() == 0 ? getpwnam(SERVICE_USER) : NULL;
	if (!user)
		return;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (initgroups(user->pw_name, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 &&
		    setuid(user->pw_uid) == 0)
			config_each_file(source, check_file, NULL);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}
