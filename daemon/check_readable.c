/* SPDX-License-Identifier: MIT */
#include "daemon/check_readable.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE_USER "smcrd"

struct reader {
	char blamed[PATH_MAX]; /* the directory of the last warning */
};

/* The outermost directory above `path` that cannot be entered. @return false: all of them can */
static bool find_closed(const char *path, char ret_directory[PATH_MAX])
{
	size_t len = strlen(path);
	for (size_t at = 1; at < len && at < PATH_MAX; at++) {
		if (path[at] != '/')
			continue;
		memcpy(ret_directory, path, at);
		ret_directory[at] = '\0';
		if (access(ret_directory, X_OK) < 0)
			return true;
	}
	return false;
}

static void warn(const char *what, const char *cannot)
{
	fprintf(stderr,
		"smcrd: warning: %s: the user " SERVICE_USER
		", as which the service runs, cannot %s it: chmod, or chgrp " SERVICE_USER "\n",
		what, cannot);
}

/* Warn of a directory once, and not for each file in it. */
static void check_file(void *arg, const char *path)
{
	struct reader *reader = arg;
	char directory[PATH_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0)
		close(fd);
	else if (errno == EACCES && !find_closed(path, directory))
		warn(path, "read");
	else if (errno == EACCES && strcmp(directory, reader->blamed) != 0) {
		memcpy(reader->blamed, directory, sizeof(directory));
		warn(directory, "enter");
	}
}

void check_readable(const struct config_source *source)
{
	struct reader reader = { .blamed = "" };
	const struct passwd *user = geteuid() == 0 ? getpwnam(SERVICE_USER) : NULL;
	if (!user)
		return;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (initgroups(user->pw_name, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 &&
		    setuid(user->pw_uid) == 0)
			config_each_file(source, check_file, &reader);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}
