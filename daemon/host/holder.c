/* SPDX-License-Identifier: MIT */
#include "daemon/host/holder.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

/* A state of the kernel's lists only: bound, and not listening yet. Before Linux 6.8 such sockets
 * are in no list. */
#define BOUND_INACTIVE 13

struct search {
	int64_t until_ms;
	bool (*look)(struct search *search, struct nlmsghdr *header);
	bool late;
	/* holder_of_unix() */
	const char *name;
	size_t len;
	/* holder_of_tcp() */
	const struct sockaddr_storage *addr;
	bool found;
	uid_t uid;
};

/* Time of the processor, so that a busy machine finds the same. */
static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int on_socket(struct nl_msg *msg, void *arg)
{
	struct search *search = arg;
	search->late = now_ms() >= search->until_ms;
	return !search->late && search->look(search, nlmsg_hdr(msg)) ? NL_OK : NL_STOP;
}

/* Have the kernel list sockets. libnl's error codes are not those of errno, and nothing depends on
 * which one it was. */
static int list(struct search *search, const void *request, size_t len)
{
	struct nl_sock *nl = nl_socket_alloc();
	if (!nl)
		return -ENOMEM;
	nl_socket_modify_cb(nl, NL_CB_VALID, NL_CB_CUSTOM, on_socket, search);
	int r = 0;
	if (nl_connect(nl, NETLINK_SOCK_DIAG) < 0 ||
	    nl_send_simple(nl, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, (void *)(uintptr_t)request, len) <
		    0 ||
	    nl_recvmsgs_default(nl) < 0)
		r = -EIO;
	nl_socket_free(nl);
	return search->late ? -ETIME : r;
}

/* ---- Unix sockets */

static bool look_at_unix(struct search *search, struct nlmsghdr *header)
{
	const struct nlattr *name, *uid;
	if (!nlmsg_valid_hdr(header, sizeof(struct unix_diag_msg)))
		return true;
	name = nlmsg_find_attr(header, sizeof(struct unix_diag_msg), UNIX_DIAG_NAME);
	uid = nlmsg_find_attr(header, sizeof(struct unix_diag_msg), UNIX_DIAG_UID);
	if (!name || !uid || nla_len(uid) < (int)sizeof(uint32_t))
		return true;
	search->found = (size_t)nla_len(name) == search->len &&
			memcmp(nla_data(name), search->name, search->len) == 0;
	search->uid = nla_get_u32(uid);
	return !search->found;
}

int holder_of_unix(const void *sockaddr_un, size_t len, int limit_ms, uid_t *ret_uid)
{
	const size_t at = offsetof(struct sockaddr_un, sun_path);
	if (len <= at)
		return -EINVAL;
	struct search search = { .until_ms = now_ms() + limit_ms,
				 .look = look_at_unix,
				 .name = (const char *)sockaddr_un + at,
				 .len = len - at };
	const struct unix_diag_req request = { .sdiag_family = AF_UNIX,
					       .udiag_states = UINT32_MAX,
					       .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID };
	int r = list(&search, &request, sizeof(request));
	if (r < 0 || !search.found)
		return r < 0 ? r : -ENOENT;
	*ret_uid = search.uid;
	return 0;
}

/* ---- TCP */

static bool is_any(const uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (words[i])
			return false;
	return true;
}

/* Does a socket at this address keep others from `addr`? */
static bool covers(const struct inet_diag_msg *diag, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const uint32_t *theirs = diag->id.idiag_src;
	uint32_t ours[4] = { 0 };
	if (addr->ss_family == AF_INET)
		ours[0] = in->sin_addr.s_addr;
	else
		memcpy(ours, &in6->sin6_addr, sizeof(ours));
	const size_t words = diag->idiag_family == AF_INET ? 1 : 4;
	return is_any(theirs, words) || is_any(ours, 4) ||
	       (diag->idiag_family == addr->ss_family &&
		memcmp(theirs, ours, words * sizeof(ours[0])) == 0);
}

static bool look_at_tcp(struct search *search, struct nlmsghdr *header)
{
	const struct inet_diag_msg *diag = nlmsg_data(header);
	/* sin_port and sin6_port are at the same place. */
	const in_port_t port = ((const struct sockaddr_in *)search->addr)->sin_port;
	if (!nlmsg_valid_hdr(header, sizeof(*diag)) || diag->id.idiag_sport != port ||
	    !covers(diag, search->addr))
		return true;
	search->found = true;
	search->uid = diag->idiag_uid;
	return false;
}

int holder_of_tcp(const struct sockaddr_storage *addr, int limit_ms, uid_t *ret_uid)
{
	struct search search = { .until_ms = now_ms() + limit_ms,
				 .look = look_at_tcp,
				 .addr = addr };
	const uint8_t families[] = { AF_INET, AF_INET6 };
	int r = 0;
	for (size_t i = 0; i < 2 && r == 0 && !search.found; i++) {
		const struct inet_diag_req_v2 request = {
			.sdiag_family = families[i],
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = 1u << TCP_LISTEN | 1u << BOUND_INACTIVE,
			.id.idiag_sport = ((const struct sockaddr_in *)addr)->sin_port,
		};
		r = list(&search, &request, sizeof(request));
	}
	if (r < 0 || !search.found)
		return r < 0 ? r : -ENOENT;
	*ret_uid = search.uid;
	return 0;
}

/* ---- words */

void holder_text(int error, uid_t uid, char ret_text[HOLDER_TEXT])
{
	if (error == 0)
		snprintf(ret_text, HOLDER_TEXT, "user %u", (unsigned int)uid);
	else
		snprintf(ret_text, HOLDER_TEXT, "a user whom the kernel does not name");
}
