/* SPDX-License-Identifier: MIT */
/*
 * smcr-run: start a program with its TCP connections over SMC-R, by putting the preload library
 * into its environment. smcr-run says where that cannot work: the dynamic loader says nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/smcr-run/unit.h"
#include "lib/inspect/inspect.h"
#include "lib/inspect/preload_list.h"
#include "proto/ipc/ipc.h"

#define LIBRARY "libsmcr-preload.so"

/* Those of env(1), so that scripts can tell failures of smcr-run from the program's. */
enum {
	EXIT_OURS = 125,
	EXIT_CANNOT_RUN = 126,
	EXIT_NOT_FOUND = 127,
};

struct options {
	bool require;
	bool verbose;
	const char *socket;
	const char *unit;
	bool write;
};

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: smcr-run [OPTION]... PROGRAM [ARGUMENT]...\n"
		"       smcr-run [OPTION]... --unit NAME.service [--write]\n"
		"Run PROGRAM with its TCP connections over SMC-R where the peer can. Or make a "
		"drop-in\n"
		"file for a service of systemd, with which the service does the same.\n"
		"\n"
		"  -r, --require      a connection that would be plain TCP fails instead\n"
		"  -v, --verbose      say on standard error what became of each connection\n"
		"  -s, --socket PATH  where smcrd listens (default: $%s or\n"
		"                     %s)\n"
		"  -u, --unit NAME    print a drop-in file for this service\n"
		"  -w, --write        write that file below /etc/systemd/system instead\n"
		"  -h, --help         print this help\n"
		"  -V, --version      print the version\n"
		"\n"
		"Exit status: that of PROGRAM; 125 if smcr-run itself fails, 126 if PROGRAM cannot "
		"be\n"
		"run (with --require also: if it cannot use SMC-R), 127 if it is not found.\n",
		IPC_SOCKET_ENV, IPC_DEFAULT_SOCKET);
}

static bool parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option longs[] = {
		{ "require", no_argument, NULL, 'r' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "socket", required_argument, NULL, 's' },
		{ "unit", required_argument, NULL, 'u' },
		{ "write", no_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { 0 };
	int c;
	/* "+": the words behind the program's name are the program's. */
	while ((c = getopt_long(argc, argv, "+rvs:u:whV", longs, NULL)) != -1) {
		switch (c) {
		case 'r': options.require = true; break;
		case 'v': options.verbose = true; break;
		case 's': options.socket = optarg; break;
		case 'u': options.unit = optarg; break;
		case 'w': options.write = true; break;
		case 'h': usage(stdout); exit(EXIT_SUCCESS);
		case 'V': printf("smcr-run %s\n", SMCRD_VERSION); exit(EXIT_SUCCESS);
		default: return false;
		}
	}
	if (options.unit ? optind < argc : options.write) {
		fprintf(stderr, "smcr-run: --unit takes no program, and --write needs --unit\n");
		return false;
	}
	if (!options.unit && optind == argc) {
		fprintf(stderr, "smcr-run: no program given\n");
		return false;
	}
	*ret_options = options;
	return true;
}

/* The library is beside the build's programs, or where `make install` puts it. */
static bool find_library(char *ret_path)
{
	static const char *const places[] = { "../lib/smcrd/" LIBRARY, "../lib64/smcrd/" LIBRARY,
					      "../lib/" LIBRARY };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return false;
	self[n] = '\0';
	char *name = strrchr(self, '/') + 1;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char path[PATH_MAX];
		*name = '\0';
		int len = snprintf(path, sizeof(path), "%s%s", self, places[i]);
		if (len > 0 && (size_t)len < sizeof(path) && realpath(path, ret_path))
			return true;
	}
	return false;
}

/* A copy of the library that an outer smcr-run has named is left out: it would do everything a
 * second time. */
static int set_preload(const struct preload_wish *wish)
{
	const char *list = getenv("LD_PRELOAD");
	if (!list)
		list = "";
	char *room = malloc(preload_list_size(list, wish));
	if (!room)
		return -1;
	int rc = setenv("LD_PRELOAD", preload_list_make(list, wish, room), 1);
	free(room);
	return rc;
}

/* An inner smcr-run sets the variable to 0 rather than removing it: the library that the outer one
 * loads would put a missing variable back. */
static int set_flag(const char *name, bool on)
{
	return on || getenv(name) ? setenv(name, on ? "1" : "0", 1) : 0;
}

/** @param wish  without a library: this program must not load it */
static int set_environment(const struct options *options, const struct preload_wish *wish)
{
	if (options->socket && setenv(IPC_SOCKET_ENV, options->socket, 1) < 0)
		return -1;
	if (set_flag("SMCR_REQUIRE", options->require) < 0 ||
	    set_flag("SMCR_VERBOSE", options->verbose) < 0)
		return -1;
	return wish->library ? set_preload(wish) : 0;
}

static bool daemon_path_fits(const char *path)
{
	return strlen(path) < sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

/* @param ret_owner  whose process listens; nobody's (-1) if that is not known
 * @return 0 or a negative errno */
static int try_address(const struct sockaddr_un *addr, socklen_t len, uid_t *ret_owner)
{
	struct ucred cred = { 0 };
	socklen_t cred_len = sizeof(cred);
	*ret_owner = (uid_t)-1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int error = 0;
	if (connect(fd, (const struct sockaddr *)addr, len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0)
		error = -errno;
	close(fd);
	if (!error)
		*ret_owner = cred.uid;
	return error == -EAGAIN ? 0 : error; /* many wait there already: somebody listens */
}

/* Does the preload library reach smcrd where this user cannot reach the path (lib/smcr/reach.h)? */
static bool is_at_abstract_address(const char *path)
{
	struct sockaddr_un addr;
	uid_t owner;
	uint64_t number = 0;
	socklen_t number_len = sizeof(number);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || getsockopt(fd, IPC_SOL_SMCR, IPC_SO_ADDRESS, &number, &number_len) < 0)
		number = 0;
	if (fd >= 0)
		close(fd);
	int len = ipc_abstract_address(path, number, &addr);
	return len > 0 && !try_address(&addr, (socklen_t)len, &owner) &&
	       (owner == 0 || owner == getuid());
}

/* Called with -v only: programs run without the daemon, too. */
static void report_daemon(const char *path, bool require)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	uid_t owner;
	strcpy(addr.sun_path, path);
	int error = try_address(&addr, sizeof(addr), &owner);
	if (!error || (error != -ECONNREFUSED && is_at_abstract_address(path)))
		return;
	fprintf(stderr, "smcr-run: no smcrd at %s: %s; %sconnections %s\n", path, strerror(-error),
		error == -EACCES ? "" : "until it is started (systemctl start smcrd) ",
		require ? "fail" : "are plain TCP");
}

/** @return true: the program can use SMC-R, or the kernel will say why it cannot run; false: it
 * cannot use SMC-R, and why was printed */
static bool check_program(const char *path, bool require, struct inspect_result *ret_result)
{
	struct inspect_measure measure;
	struct inspect_result *result = ret_result;
	inspect_measure_self(&measure);
	inspect_program(AT_FDCWD, path, 0, &measure, result);
	if (result->verdict == INSPECT_OK || result->verdict == INSPECT_UNKNOWN)
		return true;
	fprintf(stderr, "smcr-run: %s cannot use SMC-R: %s%s\n",
		*result->interpreter ? result->interpreter : path, result->text,
		require ? "" : "; it runs over plain TCP");
	return false;
}

static int not_run(const char *program, int error)
{
	fprintf(stderr, "smcr-run: %s: %s\n", program, strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int make_drop_in(const struct options *options, const char *library, const char *socket)
{
	const struct unit_request request = {
		.name = options->unit,
		.library = library,
		.socket = strcmp(socket, IPC_DEFAULT_SOCKET) == 0 ? NULL : socket,
		.require = options->require,
		.verbose = options->verbose,
		.write = options->write,
	};
	return unit_drop_in(&request) < 0 ? EXIT_OURS : EXIT_SUCCESS;
}

/** @return only if the program could not be started: the exit status */
static int run(const struct options *options, const char *library, const char *socket,
	       char *const argv[])
{
	char path[PATH_MAX];
	struct inspect_result inspected;
	int rc = inspect_find(argv[0], path);
	if (rc < 0)
		return not_run(argv[0], -rc);
	if (!check_program(path, options->require, &inspected) && options->require)
		return EXIT_CANNOT_RUN;
	if (options->verbose)
		report_daemon(socket, options->require);
	const struct preload_wish wish = {
		.name = LIBRARY,
		.library = inspect_harmful(inspected.verdict) ? NULL : library,
		.runtime = inspected.runtime,
	};
	if (set_environment(options, &wish) < 0) {
		fprintf(stderr, "smcr-run: environment: %s\n", strerror(errno));
		return EXIT_OURS;
	}
	execvp(argv[0], argv);
	return not_run(argv[0], errno);
}

int main(int argc, char **argv)
{
	struct options options;
	char library[PATH_MAX];
	if (!parse_options(argc, argv, &options)) {
		fprintf(stderr, "Try 'smcr-run --help'.\n");
		return EXIT_OURS;
	}
	const char *socket_path = options.socket ? options.socket : getenv(IPC_SOCKET_ENV);
	if (!socket_path || !*socket_path)
		socket_path = IPC_DEFAULT_SOCKET;
	if (!daemon_path_fits(socket_path)) {
		fprintf(stderr,
			"smcr-run: the socket path %s is too long: it has at most %zu bytes\n",
			socket_path, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
		return EXIT_OURS;
	}
	if (!find_library(library)) {
		fprintf(stderr,
			"smcr-run: %s is neither in ../lib/smcrd nor in ../lib, seen from "
			"this program: is smcrd installed completely?\n",
			LIBRARY);
		return EXIT_OURS;
	}
	if (strpbrk(library, " :")) {
		fprintf(stderr,
			"smcr-run: LD_PRELOAD cannot name %s: there is a blank or colon in "
			"the path\n",
			library);
		return EXIT_OURS;
	}
	if (options.unit)
		return make_drop_in(&options, library, socket_path);
	return run(&options, library, socket_path, argv + optind);
}
