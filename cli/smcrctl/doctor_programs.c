/* SPDX-License-Identifier: MIT */
/*
 * Programs under smcr-run with plugins that the preload library does not reach: those that
 * dlmopen() has put into namespaces of their own, and libraries of LD_AUDIT. Each such namespace
 * has a C library of its own, so a second one in a process's memory shows them.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/smcrctl/doctor.h"

#define LIBRARY "libsmcr-preload.so"
#define TOLD    8 /* so many processes are told one by one */

/** What a process has in its memory. */
struct contents {
	bool ours; /* the preload library */
	size_t c_libraries;
};

/* "libc.so.6", and "libc-2.31.so" of older versions */
static bool is_c_library(const char *name)
{
	static const char now[] = "libc.so.", before[] = "libc-";
	return strncmp(name, now, strlen(now)) == 0 ||
	       (strncmp(name, before, strlen(before)) == 0 &&
		isdigit((unsigned char)name[strlen(before)]));
}

/* A line of /proc/PID/maps. Only the beginning of a file is counted: each copy in memory has it
 * once. */
static void note_mapping(const char *line, struct contents *contents)
{
	unsigned long long offset;
	const char *name = strrchr(line, '/');
	if (!name || sscanf(line, "%*s %*s %llx", &offset) != 1 || offset != 0)
		return;
	if (strncmp(name + 1, LIBRARY, strlen(LIBRARY)) == 0)
		contents->ours = true;
	contents->c_libraries += is_c_library(name + 1);
}

/* What this user may not see of a process counts as nothing. */
static struct contents contents_of(const char *pid)
{
	struct contents contents = { .ours = false };
	char path[PATH_MAX], *line = NULL;
	size_t size = 0;
	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	FILE *maps = fopen(path, "re");
	while (maps && getline(&line, &size, maps) > 0)
		note_mapping(line, &contents);
	free(line);
	if (maps)
		fclose(maps);
	return contents;
}

static bool is_in_this_network(const char *pid)
{
	char path[PATH_MAX];
	struct stat own, other;
	snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
	return stat("/proc/self/ns/net", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* Programs choose their names, which must not control the terminal. @param name  empty: not known
 */
static void name_of(const char *pid, char *name, size_t size)
{
	char path[PATH_MAX];
	*name = '\0';
	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	FILE *file = fopen(path, "re");
	if (file && !fgets(name, (int)size, file))
		*name = '\0';
	if (file)
		fclose(file);
	name[strcspn(name, "\n")] = '\0';
	for (; *name; name++)
		if (!isprint((unsigned char)*name))
			*name = '?';
}

static void tell(struct doctor *doctor, const char *pid, size_t namespaces)
{
	char name[32];
	name_of(pid, name, sizeof(name));
	findings_add(
		&doctor->findings, FINDING_WARNING,
		"process %s (%s) has %zu namespace%s of plugins (dlmopen, LD_AUDIT): what these "
		"connect is plain TCP, and connections over SMC-R are Unix sockets to "
		"them\n'smcr-run -v' names such plugins when they are opened, '--require' "
		"refuses them",
		pid, name, namespaces, namespaces == 1 ? "" : "s");
}

void doctor_programs(struct doctor *doctor)
{
	size_t told = 0, more = 0;
	struct dirent *entry;
	DIR *processes = opendir("/proc");
	while (processes && (entry = readdir(processes))) {
		const char *pid = entry->d_name;
		if (!isdigit((unsigned char)*pid) || !is_in_this_network(pid))
			continue;
		const struct contents contents = contents_of(pid);
		if (!contents.ours || contents.c_libraries < 2)
			continue;
		if (told < TOLD)
			tell(doctor, pid, contents.c_libraries - 1);
		more += told == TOLD;
		told += told < TOLD;
	}
	if (processes)
		closedir(processes);
	if (more > 0)
		findings_add(&doctor->findings, FINDING_WARNING,
			     "%zu more processes have such namespaces", more);
}
