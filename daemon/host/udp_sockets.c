/* SPDX-License-Identifier: MIT */
#include "daemon/host/udp_sockets.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdlib.h>

/* Bounds the work if a user goes on making sockets. So many sockets may have the same addresses. */
#define PASSES 100

struct search {
	uid_t uid;
	struct inet_diag_req_v2 *found;
	size_t num;
	int error;
};

static int on_socket(struct nl_msg *msg, void *arg)
{
	struct search *search = arg;
	struct nlmsghdr *header = nlmsg_hdr(msg);
	const struct inet_diag_msg *diag = nlmsg_data(header);
	if (!nlmsg_valid_hdr(header, sizeof(*diag)) || diag->idiag_uid == 0 ||
	    diag->idiag_uid == search->uid)
		return NL_OK;
	struct inet_diag_req_v2 *more =
		reallocarray(search->found, search->num + 1, sizeof(search->found[0]));
	if (!more) {
		search->error = -ENOMEM;
		return NL_STOP;
	}
	search->found = more;
	search->found[search->num++] = (struct inet_diag_req_v2){
		.sdiag_family = diag->idiag_family, .sdiag_protocol = IPPROTO_UDP, .id = diag->id
	};
	return NL_OK;
}

/* libnl's error codes are not those of errno, and nothing depends on which one it was. */
static int ask(struct nl_sock *nl, int type, int flags, struct inet_diag_req_v2 *request)
{
	return nl_send_simple(nl, type, flags, request, sizeof(*request)) < 0 ? -EIO : 0;
}

static int find(struct nl_sock *nl, uint8_t family, uint16_t peer_port, struct search *search)
{
	struct inet_diag_req_v2 request = { .sdiag_family = family,
					    .sdiag_protocol = IPPROTO_UDP,
					    .idiag_states = UINT32_MAX,
					    .id.idiag_dport = htons(peer_port) };
	nl_socket_modify_cb(nl, NL_CB_VALID, NL_CB_CUSTOM, on_socket, search);
	int r = ask(nl, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request);
	if (r == 0 && nl_recvmsgs_default(nl) < 0)
		r = -EIO;
	return search->error ? search->error : r;
}

/* Disconnect a socket. One that was closed meanwhile is no error. */
static int end(struct nl_sock *nl, struct inet_diag_req_v2 *found)
{
	int r = ask(nl, SOCK_DESTROY, NLM_F_ACK, found);
	if (r < 0)
		return r;
	r = nl_wait_for_ack(nl);
	if (r == -NLE_OBJ_NOTFOUND)
		return 0;
	if (r == -NLE_PERM)
		return -EPERM;
	return r < 0 ? -EOPNOTSUPP : 0; /* a kernel without CONFIG_INET_DIAG_DESTROY */
}

static int find_all(struct nl_sock *nl, uint16_t peer_port, struct search *search)
{
	search->num = 0;
	int r = find(nl, AF_INET, peer_port, search);
	return r == 0 ? find(nl, AF_INET6, peer_port, search) : r;
}

/* Of several sockets with the same addresses the kernel finds only one at a time, and reports that
 * the others do not exist. So repeat until none is left. */
static int end_all(struct nl_sock *nl, uint16_t peer_port, struct search *search)
{
	for (int pass = 0; pass < PASSES; pass++) {
		int r = find_all(nl, peer_port, search);
		for (size_t i = 0; r == 0 && i < search->num; i++)
			r = end(nl, &search->found[i]);
		if (r < 0 || search->num == 0)
			return r;
	}
	return -EBUSY;
}

int udp_sockets_end(uint16_t peer_port, uid_t uid)
{
	struct search search = { .uid = uid };
	struct nl_sock *nl = nl_socket_alloc();
	if (!nl)
		return -ENOMEM;
	int r = nl_connect(nl, NETLINK_SOCK_DIAG) < 0 ? -EIO : end_all(nl, peer_port, &search);
	nl_socket_free(nl);
	free(search.found);
	return r;
}
