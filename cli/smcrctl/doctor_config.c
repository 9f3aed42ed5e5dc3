/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/smcrctl/doctor.h"
#include "proto/ipc/config_file.h"

#define SERVICE    "smcrd" /* the user that the service runs as */
#define MAX_GROUPS 64

struct reader {
	const struct passwd *user;
	gid_t groups[MAX_GROUPS];
	int num_groups;
};

static bool in_group(const struct reader *reader, gid_t gid)
{
	for (int i = 0; i < reader->num_groups; i++)
		if (reader->groups[i] == gid)
			return true;
	return false;
}

/* @param right  4: read, 5: read and enter */
static bool may(const struct reader *reader, const struct stat *st, mode_t right)
{
	if (st->st_uid == reader->user->pw_uid)
		right <<= 6;
	else if (in_group(reader, st->st_gid))
		right <<= 3;
	return (st->st_mode & right) == right;
}

/* The user of this command may not look: whether the service may is not known. */
static void cannot_look(struct doctor *doctor, const char *path)
{
	findings_add(&doctor->findings, FINDING_WARNING,
		     "whether user " SERVICE " can read %s was not checked: %s\nthis needs root",
		     path, strerror(errno));
}

/* @return true: the service can read the path, or there is none */
static bool look_at(struct doctor *doctor, const struct reader *reader, const char *path,
		    mode_t right)
{
	struct stat st;
	if (stat(path, &st) < 0) {
		if (errno == ENOENT)
			return true;
		cannot_look(doctor, path);
		return false;
	}
	if (may(reader, &st, right))
		return true;
	findings_add(&doctor->findings, FINDING_PROBLEM,
		     "user " SERVICE " cannot %s %s, so the service does not start"
		     "\nlet it: chgrp " SERVICE " %s; chmod g+r%s %s",
		     right & 1 ? "read and enter" : "read", path, path, right & 1 ? "x" : "", path);
	return false;
}

static bool look_at_drop_ins(struct doctor *doctor, const struct reader *reader)
{
	char directory[PATH_MAX + sizeof(".d")];
	const struct dirent *entry;
	snprintf(directory, sizeof(directory), "%s.d", ipc_config_file());
	bool good = look_at(doctor, reader, directory, 5);
	DIR *dir = good ? opendir(directory) : NULL;
	if (good && !dir && errno != ENOENT) {
		cannot_look(doctor, directory);
		good = false;
	}
	while (dir && (entry = readdir(dir))) {
		char path[sizeof(directory) + sizeof(entry->d_name) + 1];
		const char *end = strrchr(entry->d_name, '.');
		if (!end || strcmp(end, ".conf"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		good = look_at(doctor, reader, path, 4) && good;
	}
	if (dir)
		closedir(dir);
	return good;
}

/* If the service cannot enter the directory, findings about its files would say nothing new. */
static bool look_at_all(struct doctor *doctor, const struct reader *reader, const char *directory,
			const char *file)
{
	struct stat st;
	if (!look_at(doctor, reader, directory, 5))
		return false;
	if (stat(file, &st) < 0 && errno != ENOENT) { /* nor can the files beside it be looked at */
		cannot_look(doctor, file);
		return false;
	}
	bool good = look_at(doctor, reader, file, 4);
	return look_at_drop_ins(doctor, reader) && good;
}

void doctor_config(struct doctor *doctor)
{
	const char *file = ipc_config_file();
	char directory[PATH_MAX];
	struct reader reader = { .user = getpwnam(SERVICE), .num_groups = MAX_GROUPS };
	if (!reader.user && doctor->host)
		return; /* smcrd answers, so it runs as another user */
	if (!reader.user) {
		findings_add(&doctor->findings, FINDING_WARNING,
			     "there is no user " SERVICE ", which the service runs as\nmake the "
			     "user: systemd-sysusers (smcrd that root starts does not need it)");
		return;
	}
	if (getgrouplist(SERVICE, reader.user->pw_gid, reader.groups, &reader.num_groups) < 0)
		reader.num_groups = MAX_GROUPS;
	snprintf(directory, sizeof(directory), "%s", file);
	*strrchr(directory, '/') = '\0';
	if (look_at_all(doctor, &reader, directory, file))
		findings_add(&doctor->findings, FINDING_OK,
			     "user " SERVICE " can read the configuration below %s", directory);
}
