/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/option.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/rendezvous/attach.h"
#include "daemon/rendezvous/bpf/serving.h"
#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/serving.h"
#include "smcr.skel.h"

#define MAX_SKIP_SECONDS 86400
#define NSEC_PER_SEC     1000000000ull

/* The BPF programs cannot include ipc.h. */
_Static_assert(IPC_SOL_SMCR == 0x534d4352 && IPC_SO_CLAIM == 1 && IPC_SO_NEGOTIATED == 2 &&
		       IPC_SO_REASON == 3 && IPC_SO_BAR == 4 && IPC_SO_STANDS_STILL == 5 &&
		       IPC_NEGOTIATED_UNKNOWN == 0 && IPC_NEGOTIATED_YES == 1 &&
		       IPC_NEGOTIATED_NO == 2 && IPC_NEGOTIATED_UNCLAIMED == 3 &&
		       IPC_NEGOTIATED_DOUBTFUL == 4 && IPC_PROMISE_MARK == 113 &&
		       IPC_SO_PLAIN == 6 && IPC_SO_SPOKEN == 7 && IPC_SO_UNASKED == 8 &&
		       IPC_UNASKED_MAX == SMCR_UNASKED_MAX && IPC_SO_ADDRESS == 9 &&
		       IPC_SO_SERVING == 10,
	       "numbers.h has other numbers");

_Static_assert(sizeof(struct smcr_claim) == sizeof(struct ipc_claim) &&
		       offsetof(struct smcr_claim, wanted) == offsetof(struct ipc_claim, wanted) &&
		       offsetof(struct smcr_claim, flags) == offsetof(struct ipc_claim, flags) &&
		       offsetof(struct smcr_claim, program) ==
			       offsetof(struct ipc_claim, program) &&
		       IPC_CLAIM_REQUIRED == 1 && IPC_CLAIM_TO_CONNECT == 2,
	       "smcr.h has another claim");

_Static_assert(sizeof(struct smcr_aside) == sizeof(struct ipc_plain) &&
		       offsetof(struct smcr_aside, reason) == offsetof(struct ipc_plain, reason) &&
		       offsetof(struct smcr_aside, flags) == offsetof(struct ipc_plain, flags) &&
		       IPC_PLAIN_ACCEPTED == 1,
	       "smcr.h has another word for plain TCP");

_Static_assert(sizeof(struct smcr_spoken) == sizeof(struct ipc_spoken) &&
		       offsetof(struct smcr_spoken, words) == offsetof(struct ipc_spoken, bytes) &&
		       SMCR_SPOKEN_FREED == IPC_SPOKEN_FREED,
	       "smcr.h has other words");

_Static_assert(sizeof(struct smcr_serving) == sizeof(struct ipc_serving) &&
		       offsetof(struct smcr_serving, uid) == offsetof(struct ipc_serving, uid) &&
		       offsetof(struct smcr_serving, flags) ==
			       offsetof(struct ipc_serving, flags) &&
		       offsetof(struct smcr_serving, socket) ==
			       offsetof(struct ipc_serving, socket) &&
		       SMCR_SERVING_STANDS_STILL == IPC_SERVING_STANDS_STILL &&
		       SMCR_SERVING_STOPS == IPC_SERVING_STOPS,
	       "serving.h tells of another daemon");

_Static_assert(RDV_COMM_LEN == SMCR_COMM_LEN, "smcr.h has another length of names");

struct skip {
	struct skip *next;
	uid_t uid;
	struct smcr_addr peer;
	uint64_t until; /* as now_ns() */
	char reason[RDV_TEXT_MAX];
};

struct rdv_option {
	struct smcr *skel;
	uint64_t netns_cookie;
	struct skip *skips;
	uint32_t rule_flags[SMCR_MAX_RULES]; /* flags of the rules; 0: no rule in the place */
	int claims;                          /* link of the setsockopt BPF program */
	int64_t clock_offset_ns;             /* of this time namespace, from the first one */
};

/* ---- opening */

static int fail(enum attach_step step, int error, char text[RDV_TEXT_MAX])
{
	return attach_failed("cannot send the SMC-R TCP option: ", step, error, text);
}

int rdv_netns_cookie(uint64_t *ret_cookie)
{
	static uint64_t known; /* the daemon does not change its namespace */
	socklen_t len = sizeof(known);
	if (known) {
		*ret_cookie = known;
		return 0;
	}
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int r = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &known, &len) < 0 ? -errno : 0;
	close(fd);
	*ret_cookie = known;
	return r;
}

/*
 * When smcrd is killed its links are closed one after the other. A fallback takes back the claim of
 * a socket, through this BPF program for setsockopt. If this program is gone already, the fallback
 * goes on as if there were no claim, and connects again. Then the BPF programs that send the option
 * must be gone too, so this link has to be closed last. Linux closes the files of a dead process
 * from the highest descriptor to the lowest. That is not documented, but tests/bats/option.bats
 * would notice another order.
 * @param fd  a descriptor below those of the other links, which is replaced
 */
static int attach_claims(const struct bpf_program *prog, int cgroup, int fd)
{
	int link = bpf_link_create(bpf_program__fd(prog), cgroup, BPF_CGROUP_SETSOCKOPT, NULL);
	if (link < 0)
		return link;
	int r = dup3(link, fd, O_CLOEXEC) < 0 ? -errno : 0;
	close(link);
	return r;
}

/* Of two daemons that start at once, the one whose program answers first was attached first. It
 * stays, and the other one ends. @return -EALREADY: this is the other one */
static int check_first(const struct rdv_option *option)
{
	struct ipc_serving serving;
	int r = rdv_serving_ask(&serving);
	if (r == -ENOENT) /* the programs of another cgroup hierarchy's root are not asked */
		return 0;
	if (r == -EPROTO)
		return -EALREADY;
	if (r < 0)
		return r;
	return serving.instance == option->skel->bss->serving.instance ? 0 : -EALREADY;
}

static int attach(struct rdv_option *option, int cgroup)
{
	struct smcr *skel = option->skel;
	option->claims = fcntl(cgroup, F_DUPFD_CLOEXEC, 0);
	if (option->claims < 0)
		return -errno;
	int r = attach_program(skel->progs.smcr_sockops, cgroup, &skel->links.smcr_sockops);
	if (r == 0)
		r = attach_program(skel->progs.smcr_getsockopt, cgroup,
				   &skel->links.smcr_getsockopt);
	if (r == 0)
		r = check_first(option);
	/* Last, so that no socket can be claimed before the rest works. */
	if (r == 0)
		r = attach_claims(skel->progs.smcr_setsockopt, cgroup, option->claims);
	return r;
}

/* Without time namespaces there is no such file. */
static int64_t read_clock_offset(void)
{
	long long seconds, nanoseconds;
	int64_t offset = 0;
	FILE *f = fopen("/proc/self/timens_offsets", "re");
	if (!f)
		return 0;
	if (fscanf(f, "monotonic %lld %lld", &seconds, &nanoseconds) == 2)
		offset = seconds * (int64_t)NSEC_PER_SEC + nanoseconds;
	fclose(f);
	return offset;
}

/* What others are told who ask which daemon this is. */
static int introduce(struct smcr_serving *serving, const char *socket_path)
{
	struct stat st;
	ssize_t n = getrandom(&serving->instance, sizeof(serving->instance), 0);
	if (n != (ssize_t)sizeof(serving->instance))
		return -EIO;
	serving->pid = (uint32_t)getpid();
	serving->uid = getuid();
	if (stat("/proc/self/ns/pid", &st) == 0)
		serving->pid_namespace = st.st_ino;
	snprintf(serving->socket, sizeof(serving->socket), "%s", socket_path);
	return 0;
}

static int load(struct rdv_option *option, int cgroup, const char *socket_path,
		char text[RDV_TEXT_MAX])
{
	option->clock_offset_ns = read_clock_offset();
	int r = rdv_netns_cookie(&option->netns_cookie);
	if (r < 0)
		return fail(ATTACH_NETNS, r, text);
	option->skel = smcr__open();
	if (!option->skel)
		return fail(ATTACH_OPEN, -errno, text);
	option->skel->rodata->netns_cookie = option->netns_cookie;
	option->skel->rodata->own_uid = getuid();
	option->skel->rodata->page_size = (int)sysconf(_SC_PAGESIZE);
	r = introduce(&option->skel->bss->serving, socket_path);
	if (r < 0)
		return fail(ATTACH_LOAD, r, text);
	r = smcr__load(option->skel);
	if (r < 0)
		return fail(ATTACH_LOAD, r, text);
	if (cgroup < 0)
		return fail(ATTACH_ROOT, cgroup, text);
	r = attach(option, cgroup);
	if (r == -EALREADY) {
		snprintf(text, RDV_TEXT_MAX, "another smcrd serves this network namespace");
		return r;
	}
	return r < 0 ? fail(ATTACH_PROGRAM, r, text) : 0;
}

int rdv_option_open(int cgroup, const char *socket_path, struct rdv_option **ret_option,
		    char ret_text[RDV_TEXT_MAX])
{
	struct rdv_option *option = calloc(1, sizeof(*option));
	if (!option)
		return fail(ATTACH_MEMORY, -ENOMEM, ret_text);
	option->claims = -1;
	libbpf_print_fn_t before = libbpf_set_print(attach_log);
	int r = load(option, cgroup, socket_path, ret_text);
	libbpf_set_print(before);
	if (r < 0) {
		rdv_option_close(option);
		return r;
	}
	*ret_option = option;
	return 0;
}

void rdv_option_close(struct rdv_option *option)
{
	struct skip *skip, *next;
	if (!option)
		return;
	LL_FOREACH_SAFE (option->skips, skip, next)
		free(skip);
	smcr__destroy(option->skel);
	if (option->claims >= 0)
		close(option->claims);
	free(option);
}

/* The clock of bpf_ktime_get_ns(): CLOCK_MONOTONIC of the first time namespace. */
static uint64_t now_ns(const struct rdv_option *option)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec -
	       (uint64_t)option->clock_offset_ns;
}

void rdv_option_beat(struct rdv_option *option)
{
	if (option)
		option->skel->bss->last_beat = now_ns(option);
}

void rdv_option_tell_address(struct rdv_option *option, uint64_t number)
{
	if (option)
		option->skel->bss->address_number = number;
}

void rdv_option_hold(struct rdv_option *option, enum smcr_reason reason)
{
	if (option)
		option->skel->bss->hold_reason = reason;
}

void rdv_option_limit(struct rdv_option *option, enum smcr_reason reason)
{
	if (option)
		option->skel->bss->limit_reason = reason;
}

int rdv_option_limit_user(struct rdv_option *option, uid_t uid, enum smcr_reason reason)
{
	uint32_t value = reason;
	if (!option)
		return 0;
	int limited = bpf_map__fd(option->skel->maps.limited);
	if (reason == SMCR_REASON_NONE) {
		if (bpf_map_delete_elem(limited, &uid) == 0)
			option->skel->bss->num_limited--;
		return 0;
	}
	if (bpf_map_update_elem(limited, &uid, &value, BPF_NOEXIST) == 0)
		option->skel->bss->num_limited++;
	else if (bpf_map_update_elem(limited, &uid, &value, BPF_EXIST) < 0)
		return -ENOSPC;
	return 0;
}

void rdv_option_get_listeners(const struct rdv_option *option, struct rdv_listeners *ret_listeners)
{
	*ret_listeners = (struct rdv_listeners){ 0 };
	if (option)
		*ret_listeners =
			(struct rdv_listeners){ .claimed = option->skel->bss->num_listening,
						.refused = option->skel->bss->num_refused,
						.refused_uid = option->skel->bss->refused_uid };
}

/* ---- what is known of a socket */

static struct smcr_addr16 to_addr16(uint8_t family, const uint8_t *ip)
{
	struct smcr_addr16 addr = { { 0, 0, htonl(0xFFFF), 0 } };
	if (family == AF_INET)
		memcpy(&addr.word[3], ip, 4);
	else
		memcpy(addr.word, ip, 16);
	return addr;
}

struct smcr_addr rdv_addr_of16(const struct smcr_addr16 *addr16, uint16_t port)
{
	struct smcr_addr addr = { .family = AF_INET, .port = port };
	if (addr16->word[0] || addr16->word[1] || addr16->word[2] != htonl(0xFFFF)) {
		addr.family = AF_INET6;
		memcpy(addr.ip, addr16->word, 16);
	} else {
		memcpy(addr.ip, &addr16->word[3], 4);
	}
	return addr;
}

void rdv_comm(const char comm[RDV_COMM_LEN], char ret_comm[RDV_COMM_LEN])
{
	size_t i = 0;
	for (; i < RDV_COMM_LEN - 1 && comm[i]; i++)
		ret_comm[i] = comm[i] < ' ' || comm[i] > '~' ? '?' : comm[i];
	ret_comm[i] = '\0';
}

int rdv_option_query(const struct rdv_option *option, int fd, struct rdv_option_state *ret_state)
{
	struct rdv_option_state state = { .negotiated = IPC_NEGOTIATED_UNKNOWN };
	struct smcr_sock sock;
	if (!option) {
		*ret_state = state;
		return 0;
	}
	if (bpf_map_lookup_elem(bpf_map__fd(option->skel->maps.socks), &fd, &sock) < 0) {
		if (errno != ENOENT)
			return -errno;
		*ret_state = state;
		return 0;
	}
	state.claimed = sock.flags & SMCR_SOCK_CLAIMED;
	state.role = sock.role == SMCR_SOCK_CLIENT ? SMCR_ROLE_CLIENT : SMCR_ROLE_SERVER;
	state.negotiated = (enum ipc_negotiated)sock.negotiated;
	state.reason = sock.reason;
	state.syn_retries = (int)sock.syn_retries;
	state.uid = sock.by.uid;
	state.program = sock.by.program;
	if (sock.role == SMCR_SOCK_CLIENT)
		state.peer = rdv_addr_of16(&sock.peer, (uint16_t)sock.peer_port);
	*ret_state = state;
	return 0;
}

/* ---- peers to skip */

static bool same_addr(const struct smcr_addr *a, const struct smcr_addr *b)
{
	return a->family == b->family && a->port == b->port &&
	       !memcmp(a->ip, b->ip, a->family == AF_INET ? 4 : 16);
}

static struct smcr_skip_key skip_key(const struct skip *skip)
{
	return (struct smcr_skip_key){ to_addr16(skip->peer.family, skip->peer.ip), skip->peer.port,
				       skip->uid };
}

static struct skip *find_skip(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer)
{
	struct skip *skip;
	LL_FOREACH (option->skips, skip)
		if (skip->uid == uid && same_addr(&skip->peer, peer))
			return skip;
	return NULL;
}

static void forget_skip(struct rdv_option *option, struct skip *skip)
{
	struct smcr_skip_key key = skip_key(skip);
	bpf_map_delete_elem(bpf_map__fd(option->skel->maps.skipped), &key);
	LL_DELETE(option->skips, skip);
	option->skel->bss->num_skipped--;
	free(skip);
}

static void forget_expired(struct rdv_option *option)
{
	uint64_t now = now_ns(option);
	struct skip *skip, *next;
	LL_FOREACH_SAFE (option->skips, skip, next)
		if (skip->until <= now)
			forget_skip(option, skip);
}

int rdv_option_skip_peer(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer,
			 uint32_t seconds, const char *reason)
{
	if (!option)
		return 0;
	if (peer->family != AF_INET && peer->family != AF_INET6)
		return -EINVAL;
	forget_expired(option);
	if (seconds > MAX_SKIP_SECONDS)
		seconds = MAX_SKIP_SECONDS;
	uint64_t until = now_ns(option) + seconds * NSEC_PER_SEC;
	struct skip *skip = find_skip(option, uid, peer);
	if (!skip) {
		skip = calloc(1, sizeof(*skip));
		if (!skip)
			return -ENOMEM;
		skip->uid = uid;
		skip->peer = *peer;
		LL_PREPEND(option->skips, skip);
		option->skel->bss->num_skipped++;
	}
	if (until > skip->until)
		skip->until = until;
	snprintf(skip->reason, sizeof(skip->reason), "%s", reason);
	struct smcr_skip_key key = skip_key(skip);
	if (bpf_map_update_elem(bpf_map__fd(option->skel->maps.skipped), &key, &skip->until,
				BPF_ANY) == 0)
		return 0;
	int error = errno;
	forget_skip(option, skip);
	return -error;
}

int rdv_option_unskip_peer(struct rdv_option *option, uid_t uid, const struct smcr_addr *peer)
{
	struct skip *skip;
	if (!option)
		return -ENOENT;
	forget_expired(option);
	skip = find_skip(option, uid, peer);
	if (!skip)
		return -ENOENT;
	forget_skip(option, skip);
	return 0;
}

size_t rdv_option_skipped_peers(struct rdv_option *option, struct rdv_skipped_peer *ret_peers,
				size_t max)
{
	const struct skip *skip;
	size_t n = 0;
	if (!option)
		return 0;
	forget_expired(option);
	uint64_t now = now_ns(option);
	LL_FOREACH (option->skips, skip) {
		if (n == max || skip->until <= now)
			continue;
		ret_peers[n].uid = skip->uid;
		ret_peers[n].peer = skip->peer;
		ret_peers[n].seconds_left =
			(uint32_t)((skip->until - now + NSEC_PER_SEC - 1) / NSEC_PER_SEC);
		memcpy(ret_peers[n].reason, skip->reason, sizeof(skip->reason));
		n++;
	}
	return n;
}

/* ---- prefixes to leave alone */

static int prefix_key(const struct smcr_prefix *prefix, struct smcr_prefix_key *ret_key)
{
	uint32_t bits = prefix->prefix_len;
	if (prefix->family == AF_INET)
		bits += 96;
	else if (prefix->family != AF_INET6)
		return -EINVAL;
	if (bits > 128)
		return -EINVAL;
	ret_key->bits = bits;
	ret_key->prefix = to_addr16(prefix->family, prefix->ip);
	return 0;
}

int rdv_option_exclude(struct rdv_option *option, const struct smcr_prefix *prefix,
		       enum smcr_reason reason)
{
	struct smcr_prefix_key key;
	uint32_t value = reason;
	int r = prefix_key(prefix, &key);
	if (r < 0 || !option)
		return r;
	r = bpf_map_update_elem(bpf_map__fd(option->skel->maps.excluded), &key, &value,
				BPF_NOEXIST);
	if (r < 0 && errno == EEXIST)
		return 0;
	if (r < 0)
		return -errno;
	option->skel->bss->num_excluded++;
	return 0;
}

int rdv_option_include(struct rdv_option *option, const struct smcr_prefix *prefix)
{
	struct smcr_prefix_key key;
	int r = prefix_key(prefix, &key);
	if (r < 0)
		return r;
	if (!option || bpf_map_delete_elem(bpf_map__fd(option->skel->maps.excluded), &key) < 0)
		return -ENOENT;
	option->skel->bss->num_excluded--;
	return 0;
}

/* ---- this host's own addresses */

struct smcr_addr16 rdv_addr16(const struct smcr_addr *addr)
{
	return to_addr16(addr->family, addr->ip);
}

int rdv_option_own_address(struct rdv_option *option, const struct smcr_addr *addr, bool own)
{
	const uint32_t one = 1;
	if (addr->family != AF_INET && addr->family != AF_INET6)
		return -EINVAL;
	if (!option)
		return 0;
	struct smcr_addr16 key = rdv_addr16(addr);
	int map = bpf_map__fd(option->skel->maps.own);
	if (!own) {
		if (bpf_map_delete_elem(map, &key) == 0)
			option->skel->bss->num_own--;
		return 0;
	}
	if (bpf_map_update_elem(map, &key, &one, BPF_NOEXIST) == 0)
		option->skel->bss->num_own++;
	else if (errno != EEXIST)
		return errno == E2BIG ? -ENOSPC : -errno;
	return 0;
}

/* ---- who may speak CLC */

struct rdv_gate_source rdv_option_gate_source(const struct rdv_option *option)
{
	return (struct rdv_gate_source){ .socks = bpf_map__fd(option->skel->maps.socks),
					 .spoken = bpf_map__fd(option->skel->maps.spoken),
					 .synacks = bpf_map__fd(option->skel->maps.synacks) };
}

/* ---- connections that stay plain TCP */

struct rdv_tally_source rdv_option_tally_source(struct rdv_option *option)
{
	return (struct rdv_tally_source){
		.told = bpf_map__fd(option->skel->maps.plain_told),
		.counts = bpf_map__fd(option->skel->maps.plain_counts),
		.round = &option->skel->bss->plain_round,
		.clock_offset_ns = option->clock_offset_ns,
	};
}

/* ---- rules */

/* The BPF programs check the places up to the last one in use. */
static void count_rules(struct rdv_option *option)
{
	uint32_t last = 0, allow = 0;
	for (uint32_t i = 0; i < SMCR_MAX_RULES; i++) {
		if (option->rule_flags[i])
			last = i + 1;
		if (option->rule_flags[i] & SMCR_RULE_ALLOW)
			allow++;
	}
	option->skel->bss->num_rules = last;
	option->skel->bss->num_allow = allow;
}

int rdv_option_set_rule(struct rdv_option *option, uint32_t place, const struct smcr_rule *rule)
{
	static const struct smcr_rule none;
	const uint64_t zero = 0;
	if (place >= SMCR_MAX_RULES)
		return -EINVAL;
	if (!option)
		return 0;
	if (bpf_map_update_elem(bpf_map__fd(option->skel->maps.rules), &place, rule ? rule : &none,
				BPF_ANY) < 0 ||
	    bpf_map_update_elem(bpf_map__fd(option->skel->maps.rule_hits), &place, &zero, BPF_ANY) <
		    0)
		return -errno;
	option->rule_flags[place] = rule ? rule->flags : 0;
	count_rules(option);
	return 0;
}

uint64_t rdv_option_rule_hits(const struct rdv_option *option, uint32_t place)
{
	uint64_t hits = 0;
	if (!option ||
	    bpf_map_lookup_elem(bpf_map__fd(option->skel->maps.rule_hits), &place, &hits) < 0)
		return 0;
	return hits;
}

/* ---- where connections are short */

static int short_key(const struct rdv_place *where, struct smcr_short_key *ret_key)
{
	const struct smcr_addr *peer = &where->peer;
	if (!peer->port || (peer->family != AF_INET && peer->family != AF_INET6) ||
	    (where->server && where->local.family != peer->family))
		return -EINVAL;
	*ret_key = (struct smcr_short_key){
		.peer = rdv_addr16(peer),
		.port = peer->port,
		.uid = where->uid,
		.role = where->server ? SMCR_SOCK_SERVER : SMCR_SOCK_CLIENT,
	};
	if (where->server)
		ret_key->local = rdv_addr16(&where->local);
	return 0;
}

int rdv_option_set_short(struct rdv_option *option, const struct rdv_place *where, bool on)
{
	const struct smcr_short_counts none = { 0 };
	struct smcr_short_key key;
	int r = short_key(where, &key);
	if (r < 0 || !option)
		return r;
	int map = bpf_map__fd(option->skel->maps.shorts);
	if (!on) {
		if (bpf_map_delete_elem(map, &key) < 0)
			return -errno;
		option->skel->bss->num_short--;
		return 0;
	}
	if (bpf_map_update_elem(map, &key, &none, BPF_NOEXIST) == 0)
		option->skel->bss->num_short++;
	else if (errno != EEXIST)
		return -errno;
	return 0;
}

int rdv_option_short_counts(const struct rdv_option *option, const struct rdv_place *where,
			    uint64_t *ret_left, uint64_t *ret_tried)
{
	struct smcr_short_counts counts;
	struct smcr_short_key key;
	if (!option || short_key(where, &key) < 0 ||
	    bpf_map_lookup_elem(bpf_map__fd(option->skel->maps.shorts), &key, &counts) < 0)
		return -ENOENT;
	*ret_left = counts.left;
	*ret_tried = counts.tried;
	return 0;
}

void rdv_option_set_sample(struct rdv_option *option, uint32_t rate)
{
	if (option)
		option->skel->bss->sample_gap_ns = rate ? 1000000000 / rate : 0;
}
