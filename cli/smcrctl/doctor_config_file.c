/* SPDX-License-Identifier: MIT */
/* Changes to a file that smcrd does not read have no effect. So doctor checks whether smcrd has
 * read the usual file, and whether this command sees the same file. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/doctor.h"
#include "proto/ipc/config_file.h"

#define HOLDS "'smcrctl config' shows what holds"

/* A path, as this command sees it and as smcrd does. */
struct sight {
	const char *path;
	bool found;   /* by this command */
	bool as_read; /* what was found is the file that smcrd has read, unchanged */
	bool known;   /* this command, as root, could look at smcrd's files */
	bool there;   /* smcrd sees a file there */
	bool shared;  /* smcrd sees the file that was found */
	pid_t pid;    /* of smcrd */
};

static bool is_as_read(const json_t *file, const struct stat *st)
{
	return json_is_true(json_object_get(file, "read")) &&
	       doctor_number(file, "device", NULL) == (json_int_t)st->st_dev &&
	       doctor_number(file, "inode", NULL) == (json_int_t)st->st_ino &&
	       doctor_number(file, "changed_us", NULL) == ipc_config_changed_us(st);
}

/* Look below smcrd's root directory. @param ours  NULL: this command has no such file */
static void look_as_smcrd(struct sight *sight, const struct stat *ours)
{
	char path[PATH_MAX + 32];
	struct stat st;
	int root = snprintf(path, sizeof(path), "/proc/%d/root/", (int)sight->pid);
	if (!sight->pid || stat(path, &st) < 0)
		return;
	snprintf(path + root, sizeof(path) - (size_t)root, "%s", sight->path + 1);
	sight->there = stat(path, &st) == 0;
	sight->known = sight->there || errno == ENOENT;
	sight->shared =
		sight->there && ours && st.st_dev == ours->st_dev && st.st_ino == ours->st_ino;
}

/* @return 0, or an errno: whether there is such a file cannot be seen */
static int look(const struct doctor *doctor, const json_t *file, struct sight *ret_sight)
{
	struct sight sight = { .path = doctor_text(file, "path"),
			       .pid = ask_pid(doctor->socket_path) };
	struct stat st;
	sight.found = stat(sight.path, &st) == 0;
	if (!sight.found && errno != ENOENT && errno != ENOTDIR)
		return errno;
	sight.as_read = sight.found && is_as_read(file, &st);
	if (!sight.as_read)
		look_as_smcrd(&sight, sight.found ? &st : NULL);
	*ret_sight = sight;
	return 0;
}

static void is_elsewhere(struct findings *findings, const struct sight *sight)
{
	findings_add(findings, FINDING_WARNING,
		     "smcrd, process %d, runs in another mount namespace than this command, as in "
		     "a container: there %s is %s\nwrite /proc/%d/root%s, and then 'smcrctl config "
		     "reload'",
		     (int)sight->pid, sight->path, sight->there ? "another file" : "missing",
		     (int)sight->pid, sight->path);
}

static void is_gone(struct findings *findings, const struct sight *sight, bool named)
{
	if (!sight->known)
		findings_add(findings, FINDING_WARNING,
			     "%s, which smcrd has read, is not there for this command: it was "
			     "removed, or smcrd sees other files, as in a container\n" HOLDS
			     "; doctor tells root which of the two it is",
			     sight->path);
	else if (sight->there)
		is_elsewhere(findings, sight);
	else
		findings_add(
			findings, FINDING_WARNING, "%s, which smcrd has read, was removed\n%s",
			sight->path,
			named ? "put it back: without it smcrd does not start again"
			      : "'smcrctl config reload' and a restart take the defaults; " HOLDS);
}

static void is_another(struct findings *findings, const struct sight *sight, bool was_read)
{
	if (!sight->known)
		findings_add(findings, FINDING_WARNING,
			     "%s %s: it was %s since, or smcrd sees other files, as in a "
			     "container\n'smcrctl config reload' takes the change in the first "
			     "case; doctor tells root which of the two it is",
			     sight->path,
			     was_read ? "is not as smcrd has read it"
				      : "was not there when smcrd looked for it",
			     was_read ? "changed" : "made");
	else if (!sight->shared)
		is_elsewhere(findings, sight);
	else
		findings_add(findings, FINDING_WARNING,
			     "%s was %s, and has no effect yet\n'smcrctl config reload' takes "
			     "it, or names what is wrong with it",
			     sight->path,
			     was_read ? "changed after smcrd read it"
				      : "made after smcrd looked for it");
}

static void compare(struct doctor *doctor, const json_t *file)
{
	const bool was_read = json_is_true(json_object_get(file, "read"));
	struct sight sight = { 0 };
	int error = look(doctor, file, &sight);
	if (error)
		findings_add(&doctor->findings, FINDING_WARNING,
			     "whether %s is as smcrd has read it was not checked: %s\nthis needs "
			     "root; " HOLDS,
			     doctor_text(file, "path"), strerror(error));
	else if (sight.found && !sight.as_read)
		is_another(&doctor->findings, &sight, was_read);
	else if (!sight.found && was_read)
		is_gone(&doctor->findings, &sight, json_is_true(json_object_get(file, "named")));
}

/* Adds a finding if the file is not the usual one. */
static void name_it(struct findings *findings, const json_t *file)
{
	const char *path = doctor_text(file, "path"), *usual = ipc_config_file();
	const bool named = json_is_true(json_object_get(file, "named"));
	const char *why = named ? "as its option --config says" : "that of its own installation";
	if (!strcmp(path, usual))
		return;
	if (access(usual, F_OK) == 0)
		findings_add(findings, FINDING_WARNING,
			     "smcrd reads its configuration from %s, %s: %s has no effect\nwrite "
			     "what is to hold into the former%s",
			     path, why, usual, named ? ", or start smcrd without --config" : "");
	else
		findings_add(findings, FINDING_OK, "smcrd reads its configuration from %s, %s",
			     path, why);
}

void doctor_config_file(struct doctor *doctor)
{
	const json_t *file = json_object_get(doctor->host, "config_file");
	if (*doctor_text(file, "path") != '/')
		return; /* smcrd does not answer, or is of a version that does not tell */
	name_it(&doctor->findings, file);
	compare(doctor, file);
}
