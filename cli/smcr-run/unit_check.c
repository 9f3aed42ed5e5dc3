/* SPDX-License-Identifier: MIT */
#include "cli/smcr-run/unit_check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "lib/inspect/inspect.h"

/** What all checks need. */
struct check {
	const struct unit_request *request;
	const struct unit_state *state;
	const char *socket;
	FILE *out;
};

__attribute__((format(printf, 2, 3))) static void warn(const struct check *c, const char *format,
						       ...)
{
	va_list list;
	fprintf(stderr, "smcr-run: %s: ", c->request->name);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}

static bool is_set(const struct check *c, const char *property)
{
	return *unit_state_get(c->state, property);
}

/* ---- the way to smcrd */

static void check_families(const struct check *c)
{
	const char *families;
	enum unit_list list = unit_state_list(c->state, "RestrictAddressFamilies", &families);
	if (list == UNIT_LIST_ALLOWS && !unit_words_have(families, "AF_UNIX")) {
		warn(c, "RestrictAddressFamilies= has no AF_UNIX, by which smcrd is reached: the "
			"drop-in adds it");
		fprintf(c->out, "# smcrd is reached by a Unix socket.\n"
				"RestrictAddressFamilies=AF_UNIX\n");
	} else if (list == UNIT_LIST_FORBIDS && unit_words_have(families, "AF_UNIX")) {
		warn(c, "RestrictAddressFamilies= forbids AF_UNIX, by which smcrd is reached: all "
			"connections will be plain TCP");
	}
}

/* System calls of the library that a server does not need anyway. */
static void check_calls(const struct check *c)
{
	static const char *const needed[] = { "accept4",    "close",   "connect",    "dup3",
					      "faccessat2", "fcntl",   "getsockopt", "openat",
					      "ppoll",      "pread64", "recvmsg",    "sendmsg",
					      "setsockopt", "socket",  "getpeername" };
	const char *calls;
	enum unit_list list = unit_state_list(c->state, "SystemCallFilter", &calls);
	for (size_t i = 0; list != UNIT_LIST_NONE && i < sizeof(needed) / sizeof(needed[0]); i++)
		if (unit_words_have(calls, needed[i]) != (list == UNIT_LIST_ALLOWS))
			warn(c,
			     "SystemCallFilter= does not allow %s(), which the preload library "
			     "needs",
			     needed[i]);
}

/* smcrd serves the sockets of its own network namespace. */
static void check_network(const struct check *c)
{
	if (unit_state_is_on(c->state, "PrivateNetwork") || is_set(c, "NetworkNamespacePath"))
		warn(c, "the service has a network namespace of its own: all connections will be "
			"plain TCP unless an smcrd runs there and --socket names its socket");
}

/* ---- files */

static bool below(const char *path, const char *dir)
{
	return unit_words_cover(dir, path);
}

static void check_hidden(const struct check *c, const char *what, const char *path)
{
	const char *home = unit_state_get(c->state, "ProtectHome");
	if (*home && strcmp(home, "no") != 0 && strcmp(home, "read-only") != 0 &&
	    below(path, "/home /root /run/user"))
		warn(c, "ProtectHome= hides %s, %s: all connections will be plain TCP", what, path);
	if (unit_state_is_on(c->state, "PrivateTmp") && below(path, "/tmp /var/tmp"))
		warn(c, "PrivateTmp= hides %s, %s: all connections will be plain TCP", what, path);
	if (unit_words_cover(unit_state_get(c->state, "InaccessiblePaths"), path))
		warn(c, "InaccessiblePaths= hides %s, %s: all connections will be plain TCP", what,
		     path);
}

static bool is_elsewhere(const struct check *c, const char *path)
{
	const char *root = unit_state_get(c->state, "RootDirectory");
	return (*root && strcmp(root, "/") != 0) || is_set(c, "RootImage") ||
	       unit_words_cover(unit_state_get(c->state, "TemporaryFileSystem"), path);
}

/* The drop-in binds the socket's directory, because smcrd makes a new socket when it starts. */
static void bring_files(const struct check *c)
{
	const char *slash = strrchr(c->socket, '/');
	if (!is_elsewhere(c, c->request->library) && !is_elsewhere(c, c->socket))
		return;
	if (slash == c->socket || strpbrk(c->socket, " \t\"'\\:%")) {
		warn(c,
		     "the service sees other files than the host (RootDirectory=, RootImage=, "
		     "TemporaryFileSystem=), and a drop-in cannot name the path %s",
		     c->socket);
		return;
	}
	fprintf(c->out,
		"# The service sees other files than the host: this adds the library and the\n"
		"# directory of smcrd's socket.\n"
		"BindReadOnlyPaths=%s -%.*s\n",
		c->request->library, (int)(slash - c->socket), c->socket);
}

static void check_files(const struct check *c)
{
	check_hidden(c, "the preload library", c->request->library);
	check_hidden(c, "smcrd's socket", c->socket);
	bring_files(c);
	if (unit_words_cover(unit_state_get(c->state, "NoExecPaths"), c->request->library) &&
	    !unit_words_cover(unit_state_get(c->state, "ExecPaths"), c->request->library)) {
		warn(c, "NoExecPaths= concerns the preload library: the drop-in makes it an "
			"exception");
		fprintf(c->out, "ExecPaths=%s\n", c->request->library);
	}
}

/* ---- the program */

/* ExecStart has "{ path=/usr/sbin/nginx ; argv[]=... }" for each command; the first one counts. */
static bool program_of(const struct check *c, char ret_path[PATH_MAX])
{
	static const char before[] = "path=";
	const char *at = strstr(unit_state_get(c->state, "ExecStart"), before);
	if (!at)
		return false;
	at += strlen(before);
	const char *end = strstr(at, " ;");
	if (!end || end - at >= PATH_MAX)
		return false;
	memcpy(ret_path, at, (size_t)(end - at));
	ret_path[end - at] = '\0';
	return true;
}

/* @return false: systemd does not tell the program, or it is not among the files that are seen here
 */
static bool inspect(const struct check *c, char ret_path[PATH_MAX],
		    struct inspect_result *ret_result)
{
	struct inspect_measure measure;
	if (!program_of(c, ret_path) || is_elsewhere(c, ret_path))
		return false;
	inspect_measure_self(&measure);
	inspect_program(AT_FDCWD, ret_path, 0, &measure, ret_result);
	return true;
}

static void check_program(const struct check *c)
{
	struct inspect_result result;
	char path[PATH_MAX];
	if (!inspect(c, path, &result))
		return;
	if (result.verdict != INSPECT_OK && result.verdict != INSPECT_UNKNOWN)
		warn(c, "%s cannot use SMC-R: %s", *result.interpreter ? result.interpreter : path,
		     result.text);
}

void unit_check_runtime(const struct unit_request *request, const struct unit_state *state,
			char *ret_runtime)
{
	static const char *const others[] = { "ExecCondition", "ExecStartPre", "ExecStartPost",
					      "ExecReload",    "ExecStop",     "ExecStopPost" };
	const struct check c = { .request = request, .state = state };
	struct inspect_result result;
	char path[PATH_MAX];
	*ret_runtime = '\0';
	if (!inspect(&c, path, &result) || !*result.runtime)
		return;
	memcpy(ret_runtime, result.runtime, sizeof(result.runtime));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (is_set(&c, others[i]))
			warn(&c,
			     "%s needs %s in front of LD_PRELOAD, so the commands of %s= are "
			     "preloaded with it too, and it may report leaks of theirs as "
			     "failures: "
			     "if so, take LD_PRELOAD away there (env -u LD_PRELOAD)",
			     path, result.runtime, others[i]);
}

static bool selinux_enforces(void)
{
	char answer = '0';
	int fd = open("/sys/fs/selinux/enforce", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool enforces = read(fd, &answer, 1) == 1 && answer == '1';
	close(fd);
	return enforces;
}

static void check_confinement(const struct check *c)
{
	if (is_set(c, "AppArmorProfile"))
		warn(c, "its AppArmor profile must let the service read %s and write to %s",
		     c->request->library, c->socket);
	if (is_set(c, "SELinuxContext") || selinux_enforces())
		warn(c,
		     "SELinux: where the program's start changes the domain, the dynamic loader "
		     "ignores preload libraries unless the policy allows noatsecure; the domain "
		     "must be allowed to connect to %s",
		     c->socket);
}

/* ---- its environment */

static void check_environment(const struct check *c)
{
	const char *unset = unit_state_get(c->state, "UnsetEnvironment");
	const char *files = unit_state_get(c->state, "EnvironmentFiles");
	if (unit_words_have(unset, "LD_PRELOAD") || strstr(unset, "LD_PRELOAD="))
		warn(c, "UnsetEnvironment= takes LD_PRELOAD away: all connections will be plain "
			"TCP");
	if (*files)
		warn(c,
		     "EnvironmentFile= overrides the drop-in: if that file sets LD_PRELOAD, "
		     "add %s there",
		     c->request->library);
}

void unit_check(const struct unit_request *request, const struct unit_state *state,
		const char *socket, FILE *out)
{
	const struct check c = { .request = request, .state = state, .socket = socket, .out = out };
	check_environment(&c);
	check_program(&c);
	check_families(&c);
	check_calls(&c);
	check_network(&c);
	check_files(&c);
	check_confinement(&c);
}
