/* SPDX-License-Identifier: MIT */
/* Reads the files of the configuration and reports every error in them. Changes at run time,
 * too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/host/config_key.h"
#include "proto/ipc/config_file.h"

#define MAX_FILE_SIZE (1 << 20)

/* ---- notes ---- */

void config_note(struct config_notes *notes, const char *format, ...)
{
	va_list args;
	if (notes->num++ >= CONFIG_MAX_NOTES)
		return;
	va_start(args, format);
	if (vasprintf(&notes->text[notes->num - 1], format, args) < 0)
		notes->text[notes->num - 1] = NULL;
	va_end(args);
}

const char *config_note_text(const struct config_notes *notes, size_t i)
{
	return notes->text[i] ? notes->text[i] : "out of memory";
}

size_t config_notes_kept(const struct config_notes *notes)
{
	return notes->num < CONFIG_MAX_NOTES ? notes->num : CONFIG_MAX_NOTES;
}

void config_notes_free(struct config_notes *notes)
{
	for (size_t i = 0; i < config_notes_kept(notes); i++)
		free(notes->text[i]);
	*notes = (struct config_notes){ .num = 0 };
}

/* ---- lines ---- */

struct parse {
	struct config *config;
	struct config_notes *errors;
	struct config_place place;
	bool said; /* the line was of the form "key = value" */
};

/* The same key in another file overrides the value. Twice in one file is a mistake: whoever edits
 * the first line wonders why nothing changes. */
static void check_once(const struct parse *parse, const char *name)
{
	const struct config_setting *before = config_setting(parse->config, name);
	if (!before || before->key->list || !before->file ||
	    strcmp(before->file, parse->place.file) != 0)
		return;
	config_note(parse->errors,
		    "%s:%u: %s: line %u of this file gives the key too: remove one of the two",
		    parse->place.file, parse->place.line, name, before->line);
}

/* libinih calls this for "key = value". */
static int on_key(void *ctx, const char *section, const char *name, const char *value)
{
	struct parse *parse = ctx;
	char why[CONFIG_WHY_LEN];
	(void)section;
	if (!*name)
		return 0; /* "= value" */
	parse->said = true;
	check_once(parse, name);
	if (!config_put(parse->config, name, value, &parse->place, why))
		config_note(parse->errors, "%s:%u: %.64s: %s", parse->place.file, parse->place.line,
			    name, why);
	return 1;
}

/* Lines are given to libinih one at a time. For a whole file libinih would tell only the first line
 * with an error, and it cuts long lines into two. */
static void parse_line(struct parse *parse, char *line)
{
	const char *start = line + strspn(line, " \t");
	const char *file = parse->place.file;
	unsigned int number = parse->place.line;
	line[strcspn(line, "\r\n")] = '\0';
	parse->said = false;
	if (*start == '#' || *start == ';')
		return;
	if (*start == '[')
		config_note(parse->errors, "%s:%u: sections such as %.40s have no meaning", file,
			    number, start);
	else if (strlen(start) >= INI_MAX_LINE)
		config_note(parse->errors, "%s:%u: the line is longer than %d characters", file,
			    number, INI_MAX_LINE - 1);
	else if (ini_parse_string(start, on_key, parse) != 0 && !parse->said)
		config_note(parse->errors, "%s:%u: this is not 'key = value'", file, number);
}

/* /dev/null stands for an empty file. */
static bool can_be_read_again(const struct stat *st)
{
	return S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3));
}

/* Refuse pipes, sockets and devices: reading them may block, and gives something else next time.
 * @return a descriptor or a negative errno; -EINVAL: no regular file; -EFBIG: too large */
static int open_file(const char *path, struct stat *ret_stat)
{
	int error = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == ENXIO ? -EINVAL : -errno; /* a socket */
	if (fstat(fd, ret_stat) < 0)
		error = -errno;
	else if (S_ISDIR(ret_stat->st_mode))
		error = -EISDIR;
	else if (!can_be_read_again(ret_stat))
		error = -EINVAL;
	else if (ret_stat->st_size > MAX_FILE_SIZE)
		error = -EFBIG;
	if (error)
		close(fd);
	return error ? error : fd;
}

/* @return 0, or a negative errno: the file cannot be read */
static int parse_file(struct parse *parse, const char *path, struct stat *ret_stat)
{
	char *line = NULL;
	size_t size = 0;
	int fd = open_file(path, ret_stat);
	if (fd < 0)
		return fd;
	FILE *file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	parse->place = (struct config_place){ CONFIG_FROM_FILE, path, 0 };
	errno = 0;
	while (getline(&line, &size, file) >= 0) {
		parse->place.line++;
		parse_line(parse, line);
		errno = 0;
	}
	int error = ferror(file) ? -errno : 0;
	free(line);
	fclose(file);
	return error;
}

/* ---- files ---- */

static const char *main_file(const struct config_source *source)
{
	return source->path ? source->path : ipc_config_file();
}

static int is_conf(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);
	return entry->d_name[0] != '.' && len > 5 && !strcmp(entry->d_name + len - 5, ".conf");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The directory smcrd.conf.d beside the main file. */
static void more_directory(const struct config_source *source, char ret_path[PATH_MAX])
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", main_file(source));
	snprintf(ret_path, PATH_MAX, "%.*s/smcrd.conf.d", PATH_MAX - 16, dirname(copy));
}

/* @return 0, also if there is no such directory; or a negative errno: it cannot be read */
static int each_more(const char *directory, void (*fn)(void *arg, const char *path), void *arg)
{
	char path[PATH_MAX + NAME_MAX + 2];
	struct dirent **found;
	int n = scandir(directory, &found, is_conf, by_name);
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, found[i]->d_name);
		fn(arg, path);
		free(found[i]);
	}
	free(found);
	return 0;
}

void config_each_file(const struct config_source *source, void (*fn)(void *arg, const char *path),
		      void *arg)
{
	char directory[PATH_MAX];
	fn(arg, main_file(source));
	more_directory(source, directory);
	if (each_more(directory, fn, arg) < 0)
		fn(arg, directory);
}

static void note_unread(struct parse *parse, const char *path, int error)
{
	if (error == -EINVAL)
		config_note(parse->errors,
			    "%s: this is no regular file, and a reload could not read it again; "
			    "move it away, or put a file in its place",
			    path);
	else if (error == -EFBIG)
		config_note(parse->errors, "%s: a file of more than %d KiB is no configuration",
			    path, MAX_FILE_SIZE >> 10);
	else if (error)
		config_note(parse->errors, "%s: %s", path, strerror(-error));
}

static void parse_more(void *arg, const char *path)
{
	struct parse *parse = arg;
	struct stat st;
	note_unread(parse, path, parse_file(parse, path, &st));
}

/* @return 0, or a negative errno: the main file cannot be read */
static int parse_main(struct parse *parse, const struct config_source *source)
{
	struct config_main_file *file = &parse->config->main;
	struct stat st;
	*file = (struct config_main_file){ .path = main_file(source),
					   .named = source->path != NULL };
	int error = parse_file(parse, file->path, &st);
	if (error)
		return error == -ENOENT && !source->path ? 0 : error;
	file->read = true;
	file->device = st.st_dev;
	file->inode = st.st_ino;
	file->changed_us = ipc_config_changed_us(&st);
	return 0;
}

/* @return as parse_main() */
static int parse_files(struct parse *parse, const struct config_source *source)
{
	char directory[PATH_MAX];
	int error = parse_main(parse, source);
	note_unread(parse, main_file(source), error);
	more_directory(source, directory);
	int more = each_more(directory, parse_more, parse);
	if (more)
		config_note(parse->errors, "%s: %s", directory, strerror(-more));
	return error;
}

/* ---- the command line ---- */

static void put_option(struct parse *parse, const char *option, const char *name, const char *value)
{
	char why[CONFIG_WHY_LEN];
	const struct config_place place = { .origin = CONFIG_FROM_COMMAND_LINE };
	if (!config_put(parse->config, name, value, &place, why))
		config_note(parse->errors, "%s: %s", option, why);
}

static void parse_options(struct parse *parse, const struct config_source *source)
{
	if (source->socket_path)
		put_option(parse, "--socket", "socket", source->socket_path);
	if (source->num_rnics)
		config_clear_rnics(parse->config);
	for (size_t i = 0; i < source->num_rnics; i++)
		put_option(parse, "--rnic", "rnic", source->rnics[i]);
}

/* ---- the whole ---- */

/* "FILE:LINE: " of key `a`, or of key `b` if `a` has its default, or "". */
static void say_place(const struct config *config, const char *a, const char *b, char *text,
		      size_t len)
{
	const struct config_setting *setting = config_setting(config, a);
	if (!setting->file)
		setting = config_setting(config, b);
	*text = '\0';
	if (setting->file)
		snprintf(text, len, "%s:%u: ", setting->file, setting->line);
}

static void check_whole(const struct config *config, struct config_notes *errors)
{
	const struct smcr_config *engine = &config->engine;
	char place[PATH_MAX + NAME_MAX + 16];
	if (engine->bsize_min > engine->bsize) {
		say_place(config, "element_size_min", "element_size", place, sizeof(place));
		config_note(errors, "%selement_size_min (%uK) is larger than element_size (%uK)",
			    place, smcr_bsize_bytes(engine->bsize_min) / 1024,
			    smcr_bsize_bytes(engine->bsize) / 1024);
	}
	if (engine->retry_alternative_ms > engine->retry_ms) {
		say_place(config, "link_timeout_milliseconds", "last_link_timeout_milliseconds",
			  place, sizeof(place));
		config_note(errors,
			    "%slink_timeout_milliseconds (%u) is larger than "
			    "last_link_timeout_milliseconds (%u)",
			    place, engine->retry_alternative_ms, engine->retry_ms);
	}
	if (engine->versions == SMCR_VERSIONS_2_ONLY && engine->dialect == SMCR_DIALECT_FORCE_RFC) {
		say_place(config, "versions", "dialect", place, sizeof(place));
		config_note(
			errors,
			"%sversions = 2 and dialect = rfc leave nothing to speak: version 2 has "
			"the deployed dialect only",
			place);
	}
}

int config_load(const struct config_source *source, struct config *ret_config,
		struct config_notes *ret_errors)
{
	struct config config = { 0 };
	struct parse parse = { .config = &config, .errors = ret_errors };
	char why[CONFIG_WHY_LEN];
	int error = 0;
	if (!config_put_defaults(&config, why)) {
		config_note(ret_errors, "the default of a key: %s", why);
	} else {
		error = parse_files(&parse, source);
		parse_options(&parse, source);
		check_whole(&config, ret_errors);
	}
	if (ret_errors->num) {
		config_free(&config);
		return error ? error : -EINVAL;
	}
	*ret_config = config;
	return 0;
}

static const struct config_key *find_key(const char *name)
{
	const struct config_key *key;
	for (size_t i = 0; (key = config_key(i)); i++)
		if (!strcmp(key->name, name))
			return key;
	return NULL;
}

bool config_key_is_settable(const struct config_key *key)
{
	return !key->list && !key->restart && !key->looks_up && !key->by_files;
}

bool config_with(const struct config *running, const char *name, const char *value,
		 struct config *ret_next, struct config_notes *ret_errors)
{
	const struct config_place place = { .origin = CONFIG_FROM_RUN_TIME };
	const struct config_key *key = find_key(name);
	char why[CONFIG_WHY_LEN];
	if (!key)
		config_note(ret_errors, "%.64s: there is no such key: smcrd.conf(5) has them all",
			    name);
	else if (key->restart)
		config_note(ret_errors,
			    "%s: takes a restart: write it into the files, then 'smcrctl drain "
			    "--wait && systemctl restart smcrd'",
			    name);
	else if (key->instead)
		config_note(ret_errors,
			    "%s: this is a list: '%s' changes it at run time, and the files with "
			    "a reload",
			    name, key->instead);
	else if (!config_key_is_settable(key))
		config_note(ret_errors,
			    "%s: changes by the files only: write it there, then 'smcrctl config "
			    "reload'",
			    name);
	else if (!config_copy(running, ret_next))
		config_note(ret_errors, "out of memory");
	if (ret_errors->num)
		return false;
	if (!config_put(ret_next, name, value, &place, why))
		config_note(ret_errors, "%s: %s", name, why);
	else
		check_whole(ret_next, ret_errors);
	if (ret_errors->num)
		config_free(ret_next);
	return ret_errors->num == 0;
}

/* ---- RNICs at run time ---- */

/* A verbs device without a port means its port 1. */
static bool same_rnic(const char *a, const char *b)
{
	size_t len_a = strlen(a), len_b = strlen(b), len = len_a < len_b ? len_a : len_b;
	const char *rest = len_a < len_b ? b + len : a + len;
	return !strncmp(a, b, len) && (!*rest || (!strcmp(rest, "/1") && !strncmp(a, "verbs:", 6)));
}

static const char *find_rnic(const struct config *config, const char *rnic)
{
	for (size_t i = 0; i < config->num_rnics; i++)
		if (same_rnic(config->rnics[i], rnic))
			return config->rnics[i];
	return NULL;
}

/* @return as config_with_rnic() */
static int check_rnic(const struct config *running, const char *rnic, bool wanted,
		      struct config_notes *errors)
{
	const char *named = find_rnic(running, rnic);
	if (running->num_rnics == 0) {
		config_note(errors,
			    "no RNIC is named in the configuration, so smcrd uses those that it "
			    "finds: name all with 'rnic' there first, or take one out of use with "
			    "'smcrctl device drain'");
		return -EBUSY;
	}
	if (wanted && named) {
		config_note(errors, "rnic %s is named already", named);
		return -EEXIST;
	}
	if (wanted && running->num_rnics == CONFIG_MAX_RNICS) {
		config_note(errors, "%d RNICs are named; no more can be", CONFIG_MAX_RNICS);
		return -ENOSPC;
	}
	if (!wanted && !named) {
		config_note(errors, "no rnic %.60s is named; 'smcrctl config' shows which are",
			    rnic);
		return -ENOENT;
	}
	if (!wanted && running->num_rnics == 1) {
		config_note(errors,
			    "rnic %s is the only one that is named, and without any smcrd would "
			    "use all that it finds; 'smcrctl device drain' takes it out of use",
			    named);
		return -EBUSY;
	}
	return 0;
}

/* @return as config_with_rnic() */
static int put_rnic(struct config *next, const char *rnic, struct config_notes *errors)
{
	const struct config_place place = { .origin = CONFIG_FROM_RUN_TIME };
	char why[CONFIG_WHY_LEN];
	if (config_put(next, "rnic", rnic, &place, why))
		return 0;
	config_note(errors, "rnic: %s", why);
	return -EINVAL;
}

int config_with_rnic(const struct config *running, const char *rnic, bool wanted,
		     struct config *ret_next, struct config_notes *ret_errors)
{
	if (!config_copy(running, ret_next)) {
		config_note(ret_errors, "out of memory");
		return -ENOMEM;
	}
	/* A name that is none is wrong, whatever is named. Where no more can be named there is no
	 * place to put the name, which is not looked at then. */
	bool fits = wanted && running->num_rnics < CONFIG_MAX_RNICS;
	int error = fits ? put_rnic(ret_next, rnic, ret_errors) : 0;
	if (!error)
		error = check_rnic(running, rnic, wanted, ret_errors);
	if (!error && !wanted)
		config_forget(ret_next, "rnic", find_rnic(running, rnic));
	if (error)
		config_free(ret_next);
	return error;
}
