/* SPDX-License-Identifier: MIT */
#include "daemon/host/ipsec.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/host/log.h"

/* How often a dump is repeated because policies changed meanwhile. */
#define MAX_TRIES 10
/* Most announcements read in one go; for the rest the socket becomes readable again. */
#define MAX_MESSAGES 1000

/** The parts of a policy that matter. "Remote" is the far end of the host's connections: the
 * destination of an out-policy, the source of an in-policy. */
struct policy {
	bool protects; /* transforms or blocks; else lets packets pass as they are */
	bool out;
	uint8_t type; /* main or sub: policies of both types apply */
	uint32_t priority;
	uint8_t family, proto;
	struct smcr_prefix local, remote;
	uint16_t local_port, local_port_mask, remote_port, remote_port_mask; /* host byte order */
	uint32_t mark, mark_mask;
};

struct ipsec_watch {
	struct nl_sock *changes; /* subscribed to changes of policies */
	struct event *event;
	void (*on_change)(void *ctx);
	void *ctx;
	struct policy *policies;
	size_t num, cap;
	bool blind; /* the policies could not be read */
};

/* ---- reading ---- */

/* The bits of an address's byte number `byte` that belong to a prefix of this length. */
static uint8_t byte_mask(uint8_t prefix_len, unsigned int byte)
{
	unsigned int bits = prefix_len > 8 * byte ? prefix_len - 8 * byte : 0;
	return bits >= 8 ? 0xFF : (uint8_t)(0xFF00 >> bits);
}

static struct smcr_prefix prefix_of(const xfrm_address_t *addr, uint8_t len, uint8_t family)
{
	struct smcr_prefix prefix = { .family = family, .prefix_len = len };
	const uint8_t *ip = (const uint8_t *)addr;
	for (unsigned int i = 0; i < sizeof(prefix.ip); i++)
		prefix.ip[i] = ip[i] & byte_mask(len, i);
	return prefix;
}

/** Are family and prefix lengths possible? An empty selector has no family and fits both. */
static bool sound(const struct xfrm_selector *sel)
{
	uint8_t most = sel->family == AF_INET ? 32 : 128;
	if (sel->family == AF_UNSPEC)
		return !sel->prefixlen_s && !sel->prefixlen_d;
	return (sel->family == AF_INET || sel->family == AF_INET6) && sel->prefixlen_s <= most &&
	       sel->prefixlen_d <= most;
}

static struct policy policy_of(const struct xfrm_userpolicy_info *info, bool transforms)
{
	const struct xfrm_selector *sel = &info->sel;
	struct policy policy = {
		.protects = transforms || info->action == XFRM_POLICY_BLOCK,
		.out = info->dir == XFRM_POLICY_OUT,
		.priority = info->priority,
		.family = (uint8_t)sel->family,
		.proto = sel->proto,
	};
	struct smcr_prefix src = prefix_of(&sel->saddr, sel->prefixlen_s, policy.family);
	struct smcr_prefix dst = prefix_of(&sel->daddr, sel->prefixlen_d, policy.family);
	uint16_t sport = ntohs(sel->sport), sport_mask = ntohs(sel->sport_mask);
	uint16_t dport = ntohs(sel->dport), dport_mask = ntohs(sel->dport_mask);
	policy.local = policy.out ? src : dst;
	policy.remote = policy.out ? dst : src;
	policy.local_port = policy.out ? sport : dport;
	policy.local_port_mask = policy.out ? sport_mask : dport_mask;
	policy.remote_port = policy.out ? dport : sport;
	policy.remote_port_mask = policy.out ? dport_mask : sport_mask;
	return policy;
}

static int add_policy(struct ipsec_watch *watch, const struct policy *policy)
{
	if (watch->num == watch->cap) {
		size_t cap = watch->cap ? 2 * watch->cap : 16;
		struct policy *more = realloc(watch->policies, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		watch->policies = more;
		watch->cap = cap;
	}
	watch->policies[watch->num++] = *policy;
	return 0;
}

/* One policy of a dump. */
static int on_policy(struct nl_msg *msg, void *arg)
{
	struct ipsec_watch *watch = arg;
	struct nlmsghdr *header = nlmsg_hdr(msg);
	struct xfrm_userpolicy_info info;
	struct nlattr *attrs[XFRMA_MAX + 1];
	if (header->nlmsg_type != XFRM_MSG_NEWPOLICY ||
	    nlmsg_parse(header, sizeof(info), attrs, XFRMA_MAX, NULL) < 0)
		return NL_SKIP;
	memcpy(&info, nlmsg_data(header), sizeof(info));
	/* Skip policies for forwarded packets, and those of single sockets, whose directions are
	 * numbered higher. */
	if (info.dir >= XFRM_POLICY_FWD || !sound(&info.sel) ||
	    (attrs[XFRMA_IF_ID] && nla_get_u32(attrs[XFRMA_IF_ID])))
		return NL_OK;
	bool transforms = attrs[XFRMA_TMPL] &&
			  nla_len(attrs[XFRMA_TMPL]) >= (int)sizeof(struct xfrm_user_tmpl);
	struct policy policy = policy_of(&info, transforms);
	if (attrs[XFRMA_POLICY_TYPE] &&
	    nla_len(attrs[XFRMA_POLICY_TYPE]) >= (int)sizeof(struct xfrm_userpolicy_type))
		policy.type =
			((struct xfrm_userpolicy_type *)nla_data(attrs[XFRMA_POLICY_TYPE]))->type;
	if (attrs[XFRMA_MARK] && nla_len(attrs[XFRMA_MARK]) >= (int)sizeof(struct xfrm_mark)) {
		struct xfrm_mark mark;
		memcpy(&mark, nla_data(attrs[XFRMA_MARK]), sizeof(mark));
		policy.mark = mark.v;
		policy.mark_mask = mark.m;
	}
	return add_policy(watch, &policy) < 0 ? -NLE_NOMEM : NL_OK;
}

static int negative_errno(int nl_error)
{
	switch (-nl_error) {
	case NLE_SUCCESS: return 0;
	case NLE_PERM: return -EPERM;
	case NLE_NOMEM: return -ENOMEM;
	case NLE_PROTO_MISMATCH:
	case NLE_AF_NOSUPPORT:
	case NLE_OPNOTSUPP: return -EPROTONOSUPPORT;
	default: return -EIO;
	}
}

static int dump(struct ipsec_watch *watch)
{
	struct xfrm_userpolicy_id all = { 0 };
	struct nl_sock *sock = nl_socket_alloc();
	if (!sock)
		return -NLE_NOMEM;
	int r = nl_connect(sock, NETLINK_XFRM);
	bool again = r == 0;
	nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, on_policy, watch);
	for (int i = 0; again && i < MAX_TRIES; i++) {
		watch->num = 0;
		r = nl_send_simple(sock, XFRM_MSG_GETPOLICY, NLM_F_DUMP, &all, sizeof(all));
		if (r >= 0)
			r = nl_recvmsgs_default(sock);
		again = r == -NLE_DUMP_INTR;
	}
	nl_socket_free(sock);
	return r < 0 ? r : 0;
}

static int read_policies(struct ipsec_watch *watch)
{
	int r = negative_errno(dump(watch));
	if (r < 0 && !watch->blind)
		log_message(LOG_WARNING,
			    "the IPsec policies cannot be read (%s): new connections stay TCP",
			    strerror(-r));
	watch->blind = r < 0;
	return r;
}

/* ---- following ---- */

static int on_any(struct nl_msg *msg, void *arg)
{
	(void)msg;
	*(bool *)arg = true;
	return NL_SKIP;
}

/* If changes were announced, read the policies again. */
static void catch_up(struct ipsec_watch *watch)
{
	bool changed = false;
	int r = 0;
	nl_socket_modify_cb(watch->changes, NL_CB_VALID, NL_CB_CUSTOM, on_any, &changed);
	for (int i = 0; r != -NLE_AGAIN && i < MAX_MESSAGES; i++) {
		r = nl_recvmsgs_default(watch->changes);
		changed |= r < 0 &&
			   r != -NLE_AGAIN; /* NLE_NOMEM: the kernel has dropped announcements */
	}
	if (!changed)
		return;
	read_policies(watch);
	watch->on_change(watch->ctx);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	catch_up(arg);
}

static int subscribe(struct ipsec_watch *watch, struct event_base *base)
{
	watch->changes = nl_socket_alloc();
	if (!watch->changes)
		return -ENOMEM;
	nl_socket_disable_seq_check(watch->changes);
	int r = nl_connect(watch->changes, NETLINK_XFRM);
	if (r == 0)
		r = nl_socket_add_membership(watch->changes, XFRMNLGRP_POLICY);
	if (r == 0)
		r = nl_socket_set_nonblocking(watch->changes);
	if (r < 0)
		return negative_errno(r);
	watch->event = event_new(base, nl_socket_get_fd(watch->changes), EV_READ | EV_PERSIST,
				 on_readable, watch);
	return watch->event && event_add(watch->event, NULL) == 0 ? 0 : -ENOMEM;
}

int ipsec_watch_new(struct event_base *base, void (*on_change)(void *ctx), void *ctx,
		    struct ipsec_watch **ret_watch)
{
	struct ipsec_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->on_change = on_change;
	watch->ctx = ctx;
	watch->blind = true; /* the caller reports an error of the first reading */
	int r = subscribe(watch, base);
	if (r == 0)
		r = read_policies(watch);
	if (r < 0) {
		ipsec_watch_free(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

void ipsec_watch_free(struct ipsec_watch *watch)
{
	if (!watch)
		return;
	if (watch->event)
		event_free(watch->event);
	nl_socket_free(watch->changes);
	free(watch->policies);
	free(watch);
}

/* ---- judging ---- */

static bool covers(const struct smcr_prefix *prefix, const uint8_t *ip)
{
	for (unsigned int i = 0; 8 * i < prefix->prefix_len; i++)
		if ((prefix->ip[i] ^ ip[i]) & byte_mask(prefix->prefix_len, i))
			return false;
	return true;
}

static bool selects_tcp(const struct policy *policy)
{
	return !policy->proto || policy->proto == IPPROTO_TCP;
}

static bool selects(const struct policy *policy, const struct smcr_addr *local,
		    const struct smcr_addr *peer, uint32_t mark)
{
	return (policy->family == AF_UNSPEC || policy->family == local->family) &&
	       selects_tcp(policy) && (mark & policy->mark_mask) == policy->mark &&
	       covers(&policy->local, local->ip) && covers(&policy->remote, peer->ip) &&
	       !((policy->local_port ^ local->port) & policy->local_port_mask) &&
	       !((policy->remote_port ^ peer->port) & policy->remote_port_mask);
}

/* Of the policies of one direction that select the connection, the one with the smallest priority
 * decides; of several with that priority, one that protects. */
static bool direction_applies(const struct ipsec_watch *watch, bool out, uint8_t type,
			      const struct smcr_addr *local, const struct smcr_addr *peer,
			      uint32_t mark)
{
	const struct policy *best = NULL;
	for (size_t i = 0; i < watch->num; i++) {
		const struct policy *policy = &watch->policies[i];
		if (policy->out != out || policy->type != type ||
		    !selects(policy, local, peer, mark))
			continue;
		if (!best || policy->priority < best->priority ||
		    (policy->priority == best->priority && policy->protects))
			best = policy;
	}
	return best && best->protects;
}

bool ipsec_applies(struct ipsec_watch *watch, const struct smcr_addr *local,
		   const struct smcr_addr *peer, uint32_t mark)
{
	if (!watch)
		return false;
	catch_up(watch);
	if (watch->blind)
		return true;
	for (int type = XFRM_POLICY_TYPE_MAIN; type <= XFRM_POLICY_TYPE_SUB; type++)
		if (direction_applies(watch, true, type, local, peer, mark) ||
		    direction_applies(watch, false, type, local, peer, mark))
			return true;
	return false;
}

/* ---- prefixes ---- */

static bool overlap(const struct smcr_prefix *a, const struct smcr_prefix *b)
{
	const struct smcr_prefix *wide = a->prefix_len < b->prefix_len ? a : b;
	return covers(wide, wide == a ? b->ip : a->ip);
}

/* Does another policy exempt a part of this policy's traffic? */
static bool has_exception(const struct ipsec_watch *watch, const struct policy *policy)
{
	for (size_t i = 0; i < watch->num; i++) {
		const struct policy *other = &watch->policies[i];
		if (!other->protects && other->out == policy->out && other->type == policy->type &&
		    other->priority < policy->priority && selects_tcp(other) &&
		    (other->family == AF_UNSPEC || other->family == policy->family) &&
		    overlap(&other->local, &policy->local) &&
		    overlap(&other->remote, &policy->remote))
			return true;
	}
	return false;
}

static bool whole(const struct ipsec_watch *watch, const struct policy *policy)
{
	return policy->protects && policy->family != AF_UNSPEC && selects_tcp(policy) &&
	       !policy->mark_mask && !policy->local_port_mask && !policy->remote_port_mask &&
	       !has_exception(watch, policy);
}

static size_t add_prefix(struct smcr_prefix *list, size_t num, size_t max,
			 const struct smcr_prefix *prefix)
{
	for (size_t i = 0; i < num; i++)
		if (!memcmp(&list[i], prefix, sizeof(*prefix)))
			return num;
	if (num < max)
		list[num++] = *prefix;
	return num;
}

size_t ipsec_prefixes(const struct ipsec_watch *watch, struct smcr_prefix *ret_prefixes, size_t max)
{
	size_t num = 0;
	for (size_t i = 0; i < watch->num; i++) {
		const struct policy *policy = &watch->policies[i];
		/* A remote prefix of length 0 is every host; then the local prefix is used. */
		if (whole(watch, policy))
			num = add_prefix(ret_prefixes, num, max,
					 policy->remote.prefix_len ? &policy->remote
								   : &policy->local);
	}
	return num;
}
