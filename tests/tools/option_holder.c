/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the daemon in tests of the TCP option. It opens the option, prints "ready", then
 * carries out one command a line from standard input and answers each with one line. It ends at the
 * end of its input. Until then its heartbeat shows that it runs, as the daemon's does. With
 * --no-gate it does not see what really leaves.
 *
 *   skip ADDR[,PORT] SECONDS REASON... | unskip ADDR[,PORT] | skipped | hold REASON_CODE
 *   exclude ADDR/LEN | include ADDR/LEN
 *   plain | plain-counts
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/log.h"
#include "daemon/rendezvous/gate.h"
#include "daemon/rendezvous/option.h"
#include "daemon/rendezvous/tally.h"
#include "tests/lib/option.h"

static int parse_addr(const char *text, struct smcr_addr *ret_addr)
{
	struct smcr_addr addr = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	if (inet_pton(addr.family, text, addr.ip) != 1)
		return -1;
	*ret_addr = addr;
	return 0;
}

/* ADDR or ADDR,PORT */
static int parse_peer(char *text, struct smcr_addr *ret_addr)
{
	char *comma = strchr(text, ',');
	if (comma)
		*comma = '\0';
	int r = parse_addr(text, ret_addr);
	if (r == 0 && comma)
		ret_addr->port = (uint16_t)atoi(comma + 1);
	return r;
}

static int parse_prefix(char *text, struct smcr_prefix *ret_prefix)
{
	struct smcr_addr addr;
	char *slash = strchr(text, '/');
	if (!slash)
		return -1;
	*slash = '\0';
	if (parse_addr(text, &addr) < 0)
		return -1;
	ret_prefix->family = addr.family;
	memcpy(ret_prefix->ip, addr.ip, sizeof(addr.ip));
	ret_prefix->prefix_len = (uint8_t)atoi(slash + 1);
	return 0;
}

static void show_skipped(struct rdv_option *option)
{
	struct rdv_skipped_peer peers[16];
	size_t n = rdv_option_skipped_peers(option, peers, 16);
	printf("%zu", n);
	for (size_t i = 0; i < n; i++) {
		char text[INET6_ADDRSTRLEN];
		inet_ntop(peers[i].peer.family, peers[i].peer.ip, text, sizeof(text));
		printf(" [%s,%u %u %s]", text, peers[i].peer.port, peers[i].seconds_left,
		       peers[i].reason);
	}
	printf("\n");
}

/* The records of plain connections. Each "plain" goes on where the last one has ended. */
static struct rdv_tally *tally;

static void show_plain(void *arg, const struct rdv_plain *plain)
{
	char peer[INET6_ADDRSTRLEN];
	(void)arg;
	inet_ntop(plain->peer.family, plain->peer.ip, peer, sizeof(peer));
	printf("[%s %s,%u %08x %s uid %u%s] ",
	       plain->role == SMCR_ROLE_SERVER ? "server" : "client", peer,
	       plain->role == SMCR_ROLE_SERVER ? plain->local.port : plain->peer.port,
	       plain->reason, plain->comm, (unsigned int)plain->uid,
	       plain->pid || plain->cookie ? "" : " without a number");
}

static void show_count(void *arg, const struct rdv_plain_count *count)
{
	(void)arg;
	printf("[%08x %llu] ", count->reason, (unsigned long long)count->connections);
}

static void obey(struct rdv_option *option, char *line)
{
	char command[16] = "", arg[64] = "", reason[128] = "";
	unsigned int seconds = 0;
	struct smcr_addr addr;
	struct smcr_prefix prefix;
	int r = -1;
	sscanf(line, "%15s %63s %u %127[^\n]", command, arg, &seconds, reason);
	if (!strcmp(command, "skip") && parse_peer(arg, &addr) == 0)
		r = rdv_option_skip_peer(option, getuid(), &addr, seconds, reason);
	else if (!strcmp(command, "unskip") && parse_peer(arg, &addr) == 0)
		r = rdv_option_unskip_peer(option, getuid(), &addr);
	else if (!strcmp(command, "exclude") && parse_prefix(arg, &prefix) == 0)
		r = rdv_option_exclude(option, &prefix, SMCR_REASON_LOCAL_POLICY);
	else if (!strcmp(command, "include") && parse_prefix(arg, &prefix) == 0)
		r = rdv_option_include(option, &prefix);
	else if (!strcmp(command, "hold")) {
		rdv_option_hold(option, (enum smcr_reason)strtoul(arg, NULL, 0));
		r = 0;
	} else if (!strcmp(command, "skipped")) {
		show_skipped(option);
		return;
	} else if (!strcmp(command, "plain")) {
		rdv_tally_read(tally, show_plain, NULL);
		r = 0;
	} else if (!strcmp(command, "plain-counts")) {
		rdv_tally_each_count(tally, show_count, NULL);
		r = 0;
	}
	printf("%s\n", r == 0 ? "ok" : "failed");
}

/* Standard input is unbuffered, so that poll() sees every byte that waits. */
static void wait_for_line(struct rdv_option *option)
{
	struct pollfd input = { .events = POLLIN };
	do
		rdv_option_beat(option);
	while (poll(&input, 1, RDV_BEAT_MS) == 0);
	rdv_option_beat(option); /* before the answer, after which the test goes on */
}

int main(int argc, char **argv)
{
	struct rdv_option *option;
	struct rdv_gate *gate = NULL;
	char text[RDV_TEXT_MAX], line[256];
	log_open(LOG_DEBUG, false);
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	if (option_open(&option, text) < 0) {
		fprintf(stderr, "%s\n", text);
		return 1;
	}
	int cgroup = attach_root();
	if (!(argc > 1 && !strcmp(argv[1], "--no-gate")) &&
	    rdv_gate_open(cgroup, option, &gate, text) < 0) {
		fprintf(stderr, "%s\n", text);
		return 1;
	}
	if (rdv_tally_open(option, &tally) < 0) {
		fprintf(stderr, "cannot open the tally\n");
		return 1;
	}
	rdv_option_beat(option);
	printf("ready\n");
	for (wait_for_line(option); fgets(line, sizeof(line), stdin); wait_for_line(option))
		obey(option, line);
	rdv_tally_close(tally);
	rdv_gate_close(gate);
	rdv_option_close(option);
	return 0;
}
