/* SPDX-License-Identifier: MIT */
#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static void usage(FILE *out)
{
	fputs("usage: smcrd [OPTIONS]\n"
	      "SMC-R (RFC 7609) for the TCP programs of this host.\n\n"
	      "  -f, --foreground    stay in the foreground (as a systemd service does)\n"
	      "  -c, --config FILE   configuration (default " CONFIG_DEFAULT_PATH ")\n"
	      "  -s, --socket PATH   listen for programs and smcrctl here\n"
	      "  -r, --rnic DEVICE   soft:INTERFACE or verbs:DEVICE[/PORT]; may be repeated and\n"
	      "                      replaces the configured devices\n"
	      "  -V, --version       print the version\n"
	      "  -h, --help          print this\n",
	      out);
}

int options_parse(int argc, char **argv, struct options *ret_options)
{
	static const struct option long_options[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "config", required_argument, NULL, 'c' },
		{ "socket", required_argument, NULL, 's' },
		{ "rnic", required_argument, NULL, 'r' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options options = { 0 };
	int c;
	while ((c = getopt_long(argc, argv, "fc:s:r:Vh", long_options, NULL)) != -1) {
		switch (c) {
		case 'f': options.foreground = true; break;
		case 'c': options.config_path = optarg; break;
		case 's': options.socket_path = optarg; break;
		case 'r':
			if (options.num_rnics == CONFIG_MAX_RNICS) {
				fprintf(stderr, "smcrd: more than %d --rnic\n", CONFIG_MAX_RNICS);
				return 2;
			}
			options.rnics[options.num_rnics++] = optarg;
			break;
		case 'V': puts("smcrd " SMCRD_VERSION); return 0;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "smcrd: unexpected argument '%s'\n", argv[optind]);
		usage(stderr);
		return 2;
	}
	*ret_options = options;
	return -1;
}
