/* SPDX-License-Identifier: MIT */
/*
 * Shows the kernel's SMC by its netlink families, and changes the two tables that it needs.
 *
 *   smcnl show
 *   smcnl ueid EID
 *   smcnl ueid-remove EID
 *   smcnl pnet NAME eth INTERFACE
 *   smcnl pnet NAME ib DEVICE PORT
 *
 *   show         print {"linkgroup": [..], "link": [..], "fallback": [..]}, with smcrctl's keys for
 *                things that smcrctl has too
 *   ueid         add an EID
 *   ueid-remove  remove an EID
 *   pnet         give an interface, or a port of an RDMA device, a PNET id
 */
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <linux/smc.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Newer than the headers of Debian 12. */
enum { LGR_R_V2_MAX_CONNS = 2, LGR_R_V2_MAX_LINKS = 3 };

#define EID_LEN 32

__attribute__((noreturn)) static void fail(const char *what, int error)
{
	fprintf(stderr, "smcnl: %s: %s\n", what, nl_geterror(error));
	exit(1);
}

static struct nl_sock *open_family(const char *name, int *ret_family)
{
	struct nl_sock *sock = nl_socket_alloc();
	if (!sock)
		fail("socket", -NLE_NOMEM);
	int err = genl_connect(sock);
	if (err < 0)
		fail("genl_connect", err);
	*ret_family = genl_ctrl_resolve(sock, name);
	if (*ret_family < 0)
		fail(name, *ret_family);
	return sock;
}

static struct nl_msg *new_request(int family, uint8_t command, int flags)
{
	struct nl_msg *msg = nlmsg_alloc();
	if (!msg || !genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, flags, command, 1))
		fail("request", -NLE_NOMEM);
	return msg;
}

/* ---- attributes to JSON; absent attributes become null */

static json_t *number8(struct nlattr *attr)
{
	return attr ? json_integer(nla_get_u8(attr)) : json_null();
}

static json_t *number32(struct nlattr *attr)
{
	return attr ? json_integer(nla_get_u32(attr)) : json_null();
}

/* Some names are padded with blanks. */
static json_t *text(struct nlattr *attr)
{
	if (!attr)
		return json_null();
	const char *string = nla_data(attr);
	size_t len = strnlen(string, (size_t)nla_len(attr));
	while (len > 0 && string[len - 1] == ' ')
		len--;
	return json_stringn(string, len);
}

/* A GID in the form of inet_ntop(). */
static json_t *gid(struct nlattr *attr)
{
	char string[INET6_ADDRSTRLEN] = "";
	struct in6_addr addr;
	if (attr && inet_pton(AF_INET6, nla_get_string(attr), &addr) == 1)
		inet_ntop(AF_INET6, &addr, string, sizeof(string));
	return attr ? json_string(string) : json_null();
}

/* The kernel tells a link's user ID in the byte order of the wire. */
static json_t *user_id(struct nlattr *attr)
{
	return attr ? json_integer(ntohl(nla_get_u32(attr))) : json_null();
}

static json_t *name_of(struct nlattr *attr, const char *const *names, uint32_t count,
		       uint32_t value)
{
	if (!attr)
		return json_null();
	return value < count && names[value] ? json_string(names[value]) : json_integer(value);
}

static json_t *linkgroup(struct nlattr *nest)
{
	static const char *const roles[] = { "client", "server" };
	static const char *const types[] = { "none", "single", "symmetric", "asymmetric-peer",
					     "asymmetric-local" };
	struct nlattr *at[SMC_NLA_LGR_R_MAX + 1],
		*common[SMC_NLA_LGR_V2_MAX + 1] = { 0 }, *v2[LGR_R_V2_MAX_LINKS + 1] = { 0 };
	nla_parse_nested(at, SMC_NLA_LGR_R_MAX, nest, NULL);
	if (at[SMC_NLA_LGR_R_V2_COMMON])
		nla_parse_nested(common, SMC_NLA_LGR_V2_MAX, at[SMC_NLA_LGR_R_V2_COMMON], NULL);
	if (at[SMC_NLA_LGR_R_V2])
		nla_parse_nested(v2, LGR_R_V2_MAX_LINKS, at[SMC_NLA_LGR_R_V2], NULL);
	struct nlattr *role = at[SMC_NLA_LGR_R_ROLE], *type = at[SMC_NLA_LGR_R_TYPE];
	/* In version 1 the kernel leaves out attributes of version 2, and the version number too.
	 */
	json_t *version =
		at[SMC_NLA_LGR_R_V2_COMMON] ? number8(common[SMC_NLA_LGR_V2_VER]) : json_integer(1);
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
		number32(at[SMC_NLA_LGR_R_ID]), "role",
		name_of(role, roles, 2, role ? nla_get_u8(role) : 0), "type",
		name_of(type, types, 5, type ? nla_get_u8(type) : 0), "pnetid",
		text(at[SMC_NLA_LGR_R_PNETID]), "connections",
		number32(at[SMC_NLA_LGR_R_CONNS_NUM]), "version", version, "release",
		number8(common[SMC_NLA_LGR_V2_REL]), "eid", text(common[SMC_NLA_LGR_V2_NEG_EID]),
		"peer_host", text(common[SMC_NLA_LGR_V2_PEER_HOST]), "max_connections",
		number8(v2[LGR_R_V2_MAX_CONNS]), "max_links", number8(v2[LGR_R_V2_MAX_LINKS]));
}

static json_t *link_(struct nlattr *nest)
{
	static const char *const states[] = { "unused", "inactive", "activating", "active" };
	struct nlattr *at[SMC_NLA_LINK_MAX + 1];
	nla_parse_nested(at, SMC_NLA_LINK_MAX, nest, NULL);
	struct nlattr *state = at[SMC_NLA_LINK_STATE];
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "number",
			 number8(at[SMC_NLA_LINK_ID]), "rnic", text(at[SMC_NLA_LINK_IB_DEV]),
			 "local_gid", gid(at[SMC_NLA_LINK_GID]), "peer_gid",
			 gid(at[SMC_NLA_LINK_PEER_GID]), "connections",
			 number32(at[SMC_NLA_LINK_CONN_CNT]), "uid", user_id(at[SMC_NLA_LINK_UID]),
			 "peer_uid", user_id(at[SMC_NLA_LINK_PEER_UID]), "state",
			 name_of(state, states, 4, state ? nla_get_u32(state) : 0));
}

static json_t *fallback(struct nlattr *nest)
{
	struct nlattr *at[SMC_NLA_FBACK_STATS_MAX + 1];
	nla_parse_nested(at, SMC_NLA_FBACK_STATS_MAX, nest, NULL);
	struct nlattr *code = at[SMC_NLA_FBACK_STATS_RSN_CODE],
		      *count = at[SMC_NLA_FBACK_STATS_RSN_CNT],
		      *type = at[SMC_NLA_FBACK_STATS_TYPE];
	char hex[16];
	snprintf(hex, sizeof(hex), "%08x", code ? nla_get_u32(code) : 0);
	return json_pack("{s:s, s:s, s:i}", "role",
			 type && nla_get_u8(type) == 1 ? "server" : "client", "reason", hex,
			 "count", count ? nla_get_u16(count) : 0);
}

struct dump {
	int attribute;
	json_t *(*convert)(struct nlattr *nest);
	json_t *list;
};

static int one_reply(struct nl_msg *msg, void *arg)
{
	struct dump *dump = arg;
	struct nlattr *at[SMC_GEN_MAX + 1];
	if (genlmsg_parse(nlmsg_hdr(msg), 0, at, SMC_GEN_MAX, NULL) == 0 && at[dump->attribute])
		json_array_append_new(dump->list, dump->convert(at[dump->attribute]));
	return NL_OK;
}

/* Get a dump, each on a separate socket. */
static json_t *get(uint8_t command, int attribute, json_t *(*convert)(struct nlattr *))
{
	struct dump dump = { attribute, convert, json_array() };
	int family, err;
	struct nl_sock *sock = open_family("SMC_GEN_NETLINK", &family);
	nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, one_reply, &dump);
	err = nl_send_sync(sock, new_request(family, command, NLM_F_REQUEST | NLM_F_DUMP));
	if (err < 0)
		fail("show", err);
	nl_socket_free(sock);
	return dump.list;
}

static int show(void)
{
	json_t *all =
		json_pack("{s:o, s:o, s:o}", "linkgroup",
			  get(SMC_NETLINK_GET_LGR_SMCR, SMC_GEN_LGR_SMCR, linkgroup), "link",
			  get(SMC_NETLINK_GET_LINK_SMCR, SMC_GEN_LINK_SMCR, link_), "fallback",
			  get(SMC_NETLINK_GET_FBACK_STATS, SMC_GEN_FBACK_STATS, fallback));
	json_dumpf(all, stdout, JSON_INDENT(1));
	printf("\n");
	json_decref(all);
	return 0;
}

/* Add an EID or, with the other command, remove it. */
static int change_ueid(uint8_t command, const char *eid)
{
	char padded[EID_LEN + 1];
	int family, err;
	if (strlen(eid) > EID_LEN)
		fail("ueid", -NLE_INVAL);
	snprintf(padded, sizeof(padded), "%-*s", EID_LEN, eid);
	struct nl_sock *sock = open_family("SMC_GEN_NETLINK", &family);
	struct nl_msg *msg = new_request(family, command, NLM_F_REQUEST | NLM_F_ACK);
	nla_put_string(msg, SMC_NLA_EID_TABLE_ENTRY, padded);
	err = nl_send_sync(sock, msg);
	if (err < 0)
		fail("ueid", err);
	nl_socket_free(sock);
	return 0;
}

static int add_pnet(const char *name, const char *interface, const char *device, const char *port)
{
	int family, err;
	struct nl_sock *sock = open_family("SMC_PNETID", &family);
	struct nl_msg *msg = new_request(family, SMC_PNETID_ADD, NLM_F_REQUEST | NLM_F_ACK);
	nla_put_string(msg, SMC_PNETID_NAME, name);
	if (interface)
		nla_put_string(msg, SMC_PNETID_ETHNAME, interface);
	if (device) {
		nla_put_string(msg, SMC_PNETID_IBNAME, device);
		nla_put_u8(msg, SMC_PNETID_IBPORT, (uint8_t)strtoul(port, NULL, 10));
	}
	err = nl_send_sync(sock, msg);
	if (err < 0)
		fail("pnet", err);
	nl_socket_free(sock);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "show") == 0)
		return show();
	if (argc == 3 && strcmp(argv[1], "ueid") == 0)
		return change_ueid(SMC_NETLINK_ADD_UEID, argv[2]);
	if (argc == 3 && strcmp(argv[1], "ueid-remove") == 0)
		return change_ueid(SMC_NETLINK_REMOVE_UEID, argv[2]);
	if (argc == 5 && strcmp(argv[1], "pnet") == 0 && strcmp(argv[3], "eth") == 0)
		return add_pnet(argv[2], argv[4], NULL, NULL);
	if (argc == 6 && strcmp(argv[1], "pnet") == 0 && strcmp(argv[3], "ib") == 0)
		return add_pnet(argv[2], NULL, argv[4], argv[5]);
	fprintf(stderr, "usage: smcnl show | ueid EID | ueid-remove EID | pnet NAME eth INTERFACE |"
			" pnet NAME ib DEVICE PORT\n");
	return 2;
}
