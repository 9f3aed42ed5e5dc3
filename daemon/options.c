/* SPDX-License-Identifier: MIT */
#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/ipc/config_file.h"

static void usage(FILE *out)
{
	fprintf(out,
		"usage: smcrd [OPTIONS]\n"
		"SMC-R (RFC 7609) for the TCP programs of this host.\n\n"
		"  -f, --foreground    stay in the foreground (as a systemd service does)\n"
		"  -c, --config FILE   configuration (default %s)\n"
		"  -s, --socket PATH   listen for programs and smcrctl here\n"
		"  -r, --rnic DEVICE   soft:INTERFACE or verbs:DEVICE[/PORT]; may be repeated and\n"
		"                      replaces the configured devices\n"
		"  -C, --check-config  say what is wrong with the configuration, and end: 0 if "
		"nothing\n"
		"                      is, else 1\n"
		"  -V, --version       print the version\n"
		"  -h, --help          print this\n",
		ipc_config_file());
}

/* Make a path absolute. @return false: there is no such path, or it is too long */
static bool make_absolute(const char *path, char ret_path[PATH_MAX])
{
	char directory[PATH_MAX] = "";
	if (path[0] != '/' && !getcwd(directory, sizeof(directory)))
		return false;
	int n = snprintf(ret_path, PATH_MAX, "%s%s%s", directory, *directory ? "/" : "", path);
	return n < PATH_MAX;
}

static int take_path(const char *option, const char *path, char ret_path[PATH_MAX],
		     const char **ret)
{
	if (!*path || !make_absolute(path, ret_path)) {
		fprintf(stderr, "smcrd: %s: '%.64s' is no path\n", option, path);
		return 2;
	}
	*ret = ret_path;
	return -1;
}

static int take_rnic(struct config_source *source, const char *name)
{
	if (source->num_rnics == CONFIG_MAX_RNICS) {
		fprintf(stderr, "smcrd: more than %d --rnic\n", CONFIG_MAX_RNICS);
		return 2;
	}
	source->rnics[source->num_rnics++] = name;
	return -1;
}

static int take_option(int c, struct options *options)
{
	struct config_source *source = &options->source;
	switch (c) {
	case 'f': options->foreground = true; return -1;
	case 'c': return take_path("--config", optarg, options->config_path, &source->path);
	case 's': return take_path("--socket", optarg, options->socket_path, &source->socket_path);
	case 'r': return take_rnic(source, optarg);
	case 'C': options->check_config = true; return -1;
	case 'V': puts("smcrd " SMCRD_VERSION); return 0;
	case 'h': usage(stdout); return 0;
	default: usage(stderr); return 2;
	}
}

int options_parse(int argc, char **argv, struct options *ret_options)
{
	static const struct option long_options[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "config", required_argument, NULL, 'c' },
		{ "socket", required_argument, NULL, 's' },
		{ "rnic", required_argument, NULL, 'r' },
		{ "check-config", no_argument, NULL, 'C' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c, status = -1;
	*ret_options = (struct options){ .foreground = false };
	while (status < 0 && (c = getopt_long(argc, argv, "fc:s:r:CVh", long_options, NULL)) != -1)
		status = take_option(c, ret_options);
	if (status >= 0)
		return status;
	if (optind < argc) {
		fprintf(stderr, "smcrd: unexpected argument '%s'\n", argv[optind]);
		usage(stderr);
		return 2;
	}
	return -1;
}
