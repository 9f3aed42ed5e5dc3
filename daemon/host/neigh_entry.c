/* SPDX-License-Identifier: MIT */
#include "daemon/host/neigh_entry.h"

#include <linux/neighbour.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <string.h>
#include <sys/socket.h>

static int addr_len(int family)
{
	return family == AF_INET ? 4 : 16;
}

/* A request about one entry, or NULL. */
static struct nl_msg *new_request(int type, int flags, const struct neigh_key *key, uint16_t state)
{
	const struct ndmsg header = { .ndm_family = (uint8_t)key->family,
				      .ndm_ifindex = (int)key->ifindex,
				      .ndm_state = state };
	struct nl_msg *msg = nlmsg_alloc_simple(type, flags);
	if (msg && nlmsg_append(msg, (void *)&header, sizeof(header), NLMSG_ALIGNTO) == 0 &&
	    nla_put(msg, NDA_DST, addr_len(key->family), key->addr) == 0)
		return msg;
	nlmsg_free(msg);
	return NULL;
}

/* Open the socket anew if an answer was missing or wrong. libnl would go on to expect the sequence
 * number of that request and refuse all later answers. A new socket gets answers to its own
 * requests only.
 * @return `error` */
static int settled(struct nl_sock *nl, int error)
{
	if (error >= 0 || error == -NLE_OBJ_NOTFOUND || error == -NLE_EXIST)
		return error;
	nl_close(nl);
	nl_connect(nl, NETLINK_ROUTE);
	nl_socket_disable_seq_check(nl);
	return error;
}

/* ---- reading */

static bool parse(struct nl_msg *msg, struct neigh_key *ret_key, struct neigh_entry *ret_entry)
{
	struct nlattr *attrs[NDA_MAX + 1];
	const struct nlmsghdr *nlh = nlmsg_hdr(msg);
	if (nlh->nlmsg_type != RTM_NEWNEIGH ||
	    nlmsg_parse(nlmsg_hdr(msg), sizeof(struct ndmsg), attrs, NDA_MAX, NULL) < 0)
		return false;
	const struct ndmsg *header = nlmsg_data(nlh);
	const int len = addr_len(header->ndm_family);
	if ((header->ndm_family != AF_INET && header->ndm_family != AF_INET6) || !attrs[NDA_DST] ||
	    nla_len(attrs[NDA_DST]) != len)
		return false;
	*ret_key = (struct neigh_key){ .ifindex = (unsigned int)header->ndm_ifindex,
				       .family = header->ndm_family };
	memcpy(ret_key->addr, nla_data(attrs[NDA_DST]), (size_t)len);
	*ret_entry = (struct neigh_entry){ .state = header->ndm_state };
	if (attrs[NDA_PROTOCOL] && nla_len(attrs[NDA_PROTOCOL]) >= 1)
		ret_entry->protocol = nla_get_u8(attrs[NDA_PROTOCOL]);
	if (attrs[NDA_LLADDR] && nla_len(attrs[NDA_LLADDR]) == (int)sizeof(ret_entry->mac)) {
		memcpy(ret_entry->mac, nla_data(attrs[NDA_LLADDR]), sizeof(ret_entry->mac));
		ret_entry->has_mac = true;
	}
	return true;
}

static int on_one(struct nl_msg *msg, void *arg)
{
	struct neigh_key key;
	struct neigh_entry entry;
	if (parse(msg, &key, &entry))
		*(struct neigh_entry *)arg = entry;
	return NL_OK;
}

int neigh_entry_read(struct nl_sock *nl, const struct neigh_key *key, struct neigh_entry *ret_entry)
{
	*ret_entry = (struct neigh_entry){ 0 };
	struct nl_msg *msg = new_request(RTM_GETNEIGH, 0, key, 0);
	if (!msg)
		return -NLE_NOMEM;
	nl_socket_modify_cb(nl, NL_CB_VALID, NL_CB_CUSTOM, on_one, ret_entry);
	int error = nl_send_auto(nl, msg);
	nlmsg_free(msg);
	if (error >= 0)
		error = nl_recvmsgs_default(nl); /* the entry, or the error that there is none */
	if (error >= 0)
		error = nl_wait_for_ack(nl); /* the acknowledgement comes after the entry */
	return error == -NLE_OBJ_NOTFOUND ? 0 : settled(nl, error);
}

struct walk {
	void (*each)(void *ctx, const struct neigh_key *key, const struct neigh_entry *entry);
	void *ctx;
};

static int on_each(struct nl_msg *msg, void *arg)
{
	const struct walk *walk = arg;
	struct neigh_key key;
	struct neigh_entry entry;
	if (parse(msg, &key, &entry))
		walk->each(walk->ctx, &key, &entry);
	return NL_OK;
}

int neigh_entry_each(struct nl_sock *nl,
		     void (*each)(void *ctx, const struct neigh_key *key,
				  const struct neigh_entry *entry),
		     void *ctx)
{
	struct walk walk = { each, ctx };
	struct ndmsg all = { .ndm_family = AF_UNSPEC };
	nl_socket_modify_cb(nl, NL_CB_VALID, NL_CB_CUSTOM, on_each, &walk);
	int error = nl_send_simple(nl, RTM_GETNEIGH, NLM_F_DUMP, &all, sizeof(all));
	return settled(nl, error < 0 ? error : nl_recvmsgs_default(nl));
}

/* ---- changing */

int neigh_entry_write(struct nl_sock *nl, const struct neigh_key *key, const uint8_t mac[6],
		      uint8_t protocol, bool replace)
{
	struct nl_msg *msg =
		new_request(RTM_NEWNEIGH, NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL),
			    key, NUD_PERMANENT);
	if (!msg)
		return -NLE_NOMEM;
	if (nla_put(msg, NDA_LLADDR, 6, mac) == 0 && nla_put_u8(msg, NDA_PROTOCOL, protocol) == 0)
		return settled(nl, nl_send_sync(nl, msg));
	nlmsg_free(msg);
	return -NLE_NOMEM;
}

int neigh_entry_resolve(struct nl_sock *nl, const struct neigh_key *key)
{
	struct nl_msg *msg = new_request(RTM_NEWNEIGH, NLM_F_CREATE, key, NUD_NONE);
	if (!msg)
		return -NLE_NOMEM;
	((struct ndmsg *)nlmsg_data(nlmsg_hdr(msg)))->ndm_flags = NTF_USE;
	return settled(nl, nl_send_sync(nl, msg));
}

int neigh_entry_delete(struct nl_sock *nl, const struct neigh_key *key)
{
	struct nl_msg *msg = new_request(RTM_DELNEIGH, 0, key, 0);
	return msg ? settled(nl, nl_send_sync(nl, msg)) : -NLE_NOMEM;
}
