/* SPDX-License-Identifier: MIT */
#include "cli/smcr-run/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/smcr-run/unit_check.h"
#include "cli/smcr-run/unit_state.h"
#include "lib/inspect/inspect.h"
#include "lib/inspect/preload_list.h"
#include "proto/ipc/ipc.h"

#define UNIT_DIR     "/etc/systemd/system"
#define FILE_NAME    "50-smcr.conf"
#define SUFFIX       ".service"
#define NAME_MAX_LEN 255 /* longest name of a unit */

/* ---- names and values */

/* Does systemd allow this name (systemd.unit(5))? It becomes part of a path. */
static bool is_valid_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789:-_.\\@";
	const size_t len = strlen(name), suffix = strlen(SUFFIX);
	return len > suffix && len <= NAME_MAX_LEN && strspn(name, allowed) == len &&
	       strcmp(name + len - suffix, SUFFIX) == 0 && *name != '.' && *name != '@';
}

static bool is_template(const char *name)
{
	const char *at = strchr(name, '@');
	return at && at[1] == '.';
}

static bool has_control_characters(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return true;
	return false;
}

/* In double quotes systemd reads backslashes as escapes, and percent signs as specifiers. */
static void print_assignment(FILE *out, const char *name, const char *value)
{
	fprintf(out, "Environment=\"%s=", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		if (*value == '%')
			fputc('%', out);
		fputc(*value, out);
	}
	fputs("\"\n", out);
}

/* ---- LD_PRELOAD */

/* @return where the value begins, or NULL. Blanks separate assignments; an assignment whose value
 *         has blanks stands in quotes. */
static const char *find_preload(const char *environment, bool *ret_quoted)
{
	static const char name[] = "LD_PRELOAD=";
	for (const char *at = environment; (at = strstr(at, name)); at++) {
		const char before = at > environment ? at[-1] : ' ';
		*ret_quoted = before == '"' || before == '\'';
		if (before == ' ' || *ret_quoted)
			return at + strlen(name);
	}
	return NULL;
}

/* The list in the service's Environment=; the caller frees it. */
static char *preload_of(const char *environment)
{
	bool quoted;
	const char *at = find_preload(environment, &quoted);
	return at ? strndup(at, strcspn(at, quoted ? "\"'" : " ")) : strdup("");
}

/* The drop-in's LD_PRELOAD replaces that of the service, so it has the service's libraries too. */
static void print_preload(FILE *out, const struct unit_request *request,
			  const struct unit_state *state)
{
	char runtime[INSPECT_RUNTIME];
	unit_check_runtime(request, state, runtime);
	const struct preload_wish wish = {
		.name = strrchr(request->library, '/') + 1,
		.library = request->library,
		.runtime = runtime,
	};
	char *list = preload_of(unit_state_get(state, "Environment"));
	char *room = list ? malloc(preload_list_size(list, &wish)) : NULL;
	if (room)
		print_assignment(out, "LD_PRELOAD", preload_list_make(list, &wish, room));
	free(room);
	free(list);
}

/* ---- the file */

static void print_drop_in(FILE *out, const struct unit_request *request,
			  const struct unit_state *state)
{
	fprintf(out,
		"# TCP connections of %s over SMC-R where the peer can, through smcrd(8).\n"
		"# Made by smcr-run --unit. Belongs in\n"
		"#   " UNIT_DIR "/%s.d/" FILE_NAME "\n"
		"# It takes effect after systemctl daemon-reload and systemctl restart.\n"
		"\n"
		"[Unit]\n"
		"Wants=smcrd.service\n"
		"After=smcrd.service\n"
		"\n"
		"[Service]\n",
		request->name, request->name);
	print_preload(out, request, state);
	if (request->socket)
		print_assignment(out, IPC_SOCKET_ENV, request->socket);
	if (request->require)
		print_assignment(out, "SMCR_REQUIRE", "1");
	if (request->verbose)
		print_assignment(out, "SMCR_VERBOSE", "1");
	unit_check(request, state, request->socket ? request->socket : IPC_DEFAULT_SOCKET, out);
}

static int failed(const char *path)
{
	fprintf(stderr, "smcr-run: %s: %s\n", path, strerror(errno));
	return -1;
}

/* rename() puts the whole file in place, so systemd never reads a part of it. */
static int write_file(const char *path, const char *text, size_t len)
{
	char temporary[sizeof(UNIT_DIR) + NAME_MAX_LEN + 64];
	snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
	int fd = mkstemp(temporary);
	if (fd < 0)
		return failed(temporary);
	FILE *file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		unlink(temporary);
		return failed(temporary);
	}
	bool written = fwrite(text, 1, len, file) == len && fchmod(fd, 0644) == 0;
	if (fclose(file) != 0 || !written || rename(temporary, path) < 0) {
		unlink(temporary);
		return failed(path);
	}
	return 0;
}

static int install(const char *name, const char *text, size_t len)
{
	char path[sizeof(UNIT_DIR) + NAME_MAX_LEN + 32];
	snprintf(path, sizeof(path), UNIT_DIR "/%s.d", name);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return failed(path);
	snprintf(path, sizeof(path), UNIT_DIR "/%s.d/" FILE_NAME, name);
	if (write_file(path, text, len) < 0)
		return -1;
	fprintf(stderr,
		"smcr-run: %s is written; now: systemctl daemon-reload && systemctl restart %s\n",
		path, name);
	return 0;
}

static int put(const struct unit_request *request, const char *text, size_t len)
{
	if (request->write)
		return install(request->name, text, len);
	if (fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0)
		return failed("standard output");
	return 0;
}

static bool check_request(const struct unit_request *request)
{
	if (!is_valid_name(request->name)) {
		fprintf(stderr, "smcr-run: %s is no name of a service: it must end in " SUFFIX "\n",
			request->name);
		return false;
	}
	if (request->socket &&
	    (*request->socket != '/' || has_control_characters(request->socket))) {
		fprintf(stderr, "smcr-run: for a service the socket needs an absolute path\n");
		return false;
	}
	return !has_control_characters(request->library);
}

int unit_drop_in(const struct unit_request *request)
{
	struct unit_state state = { 0 };
	char *text = NULL;
	size_t len;
	if (!check_request(request))
		return -1;
	/* systemd has no settings to tell for a template without an instance. */
	if (is_template(request->name) || !unit_state_read(request->name, &state))
		fprintf(stderr,
			"smcr-run: systemd says nothing of %s here: its settings are not checked\n",
			request->name);
	FILE *out = open_memstream(&text, &len);
	if (out)
		print_drop_in(out, request, &state);
	int rc = out && fclose(out) == 0 ? put(request, text, len) : failed("memory");
	free(text);
	unit_state_free(&state);
	return rc;
}
