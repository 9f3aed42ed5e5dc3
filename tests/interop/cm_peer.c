/* SPDX-License-Identifier: MIT */
/*
 * The other side of the kernel's rdma_cm and of programs that use it, made of the daemon's RNICs
 * and connection manager.
 *
 *   cm_peer --rnic NAME [OPTION..] COMMAND ADDRESS
 *
 *   rping-server, rping-client        rping -c and rping -s; --count pings of --size bytes
 *   ucmatose-server, ucmatose-client  ucmatose -s and ucmatose -b; --conns connections with --count
 *                                     messages of --size bytes each way
 *   bw-server, bw-client              ib_KIND_bw -R; --kind send, read or write
 *   nobody                            a request to a port without listener is refused
 *   refuse, refused                   a listener that refuses, with private data; and a request to
 * it
 *
 * ADDRESS is the server's. A server prints "listening on port .." when it does. The last line is
 * "ok COMMAND" with exit status 0, or "FAILED COMMAND: .." with exit status 1; 2: usage.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/interop/peer/peer.h"

#define PORT_RPING    7174
#define PORT_UCMATOSE 7471
#define PORT_PERFTEST 18515
#define PORT_NOBODY   9999

#define MAX_COUNT 1000000 /* of messages there are receive buffers for fewer */
#define MAX_CONNS 64
#define MAX_SIZE  65536

static const struct command {
	const char *name;
	void (*run)(struct peer *peer, const struct peer_options *options);
	uint16_t port;
} commands[] = {
	{ "rping-server", rping_server, PORT_RPING },
	{ "rping-client", rping_client, PORT_RPING },
	{ "ucmatose-server", ucmatose_server, PORT_UCMATOSE },
	{ "ucmatose-client", ucmatose_client, PORT_UCMATOSE },
	{ "bw-server", perftest_server, PORT_PERFTEST },
	{ "bw-client", perftest_client, PORT_PERFTEST },
	{ "nobody", refusal_nobody, PORT_NOBODY },
	{ "refuse", refusal_give, PORT_RPING },
	{ "refused", refusal_get, PORT_RPING },
};

static const struct option long_options[] = {
	{ "rnic", required_argument, NULL, 'r' },    { "port", required_argument, NULL, 'p' },
	{ "count", required_argument, NULL, 'n' },   { "size", required_argument, NULL, 's' },
	{ "conns", required_argument, NULL, 'c' },   { "kind", required_argument, NULL, 'k' },
	{ "seconds", required_argument, NULL, 't' }, { 0 }
};

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: cm_peer --rnic NAME [--port N] [--count N] [--size BYTES]\n"
			"               [--conns N] [--kind send|read|write] [--seconds N]\n"
			"               COMMAND ADDRESS; the commands are");
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(stderr, " %s", commands[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

static unsigned int number(const char *text, unsigned int max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);
	if (*end || end == text || value < 1 || value > max)
		usage();
	return (unsigned int)value;
}

static const struct command *command_of(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	usage();
}

static void set_address(struct cm_addr *addr, const char *text)
{
	addr->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(addr->family, text, addr->addr) != 1)
		usage();
}

int main(int argc, char **argv)
{
	struct peer_options options = { .conns = 1, .count = 10, .size = 64 };
	const char *rnic = NULL;
	unsigned int seconds = 30;
	int option;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 'r': rnic = optarg; break;
		case 'p': options.addr.port = (uint16_t)number(optarg, 65535); break;
		case 'n': options.count = number(optarg, MAX_COUNT); break;
		case 's': options.size = number(optarg, MAX_SIZE); break;
		case 'c': options.conns = number(optarg, MAX_CONNS); break;
		case 'k': options.kind = optarg; break;
		case 't': seconds = number(optarg, 3600); break;
		default: usage();
		}
	}
	if (!rnic || argc - optind != 2)
		usage();
	const struct command *command = command_of(argv[optind]);
	set_address(&options.addr, argv[optind + 1]);
	if (options.addr.port == 0)
		options.addr.port = command->port;
	struct peer peer = { .doing = command->name };
	peer_open(&peer, rnic, seconds);
	command->run(&peer, &options);
	peer_close(&peer);
	peer_say("ok %s", command->name);
	return 0;
}
