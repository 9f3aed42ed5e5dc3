/* SPDX-License-Identifier: MIT */
#include "daemon/host/program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/taskstats.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void program_name_clean(const char *raw, size_t len, char ret_name[PROGRAM_NAME_LEN])
{
	size_t n = 0;
	for (; n < len && n < PROGRAM_NAME_LEN - 1 && raw[n] && raw[n] != '\n'; n++)
		ret_name[n] = raw[n] >= ' ' && raw[n] < 0x7F ? raw[n] : '?';
	ret_name[n] = '\0';
}

/* @return 0, or a negative errno: -ENOENT if there is no such process, or it is hidden */
static int from_proc(pid_t pid, char ret_name[PROGRAM_NAME_LEN])
{
	char path[32], text[64];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof(text));
	int error = n < 0 ? errno : 0;
	close(fd);
	program_name_clean(text, n > 0 ? (size_t)n : 0, ret_name);
	return -error;
}

/* ---- taskstats ---- */

void program_names_close(struct program_names *names)
{
	nl_socket_free(names->sock);
	*names = (struct program_names){ 0 };
}

static bool refuse(struct program_names *names)
{
	program_names_close(names);
	names->refused = true;
	return false;
}

/* Taskstats answers before sendmsg() returns, so nothing has to wait. */
static bool open_taskstats(struct program_names *names)
{
	if (!names->sock && !names->refused) {
		names->sock = nl_socket_alloc();
		if (!names->sock || genl_connect(names->sock) < 0)
			return refuse(names);
		nl_socket_disable_auto_ack(names->sock);
		names->family = genl_ctrl_resolve(names->sock, TASKSTATS_GENL_NAME);
		if (names->family < 0 || nl_socket_set_nonblocking(names->sock) < 0)
			return refuse(names);
	}
	return names->sock;
}

static int on_stats(struct nl_msg *msg, void *arg)
{
	struct nlattr *outer[TASKSTATS_TYPE_MAX + 1], *inner[TASKSTATS_TYPE_MAX + 1];
	if (genlmsg_parse(nlmsg_hdr(msg), 0, outer, TASKSTATS_TYPE_MAX, NULL) < 0 ||
	    !outer[TASKSTATS_TYPE_AGGR_PID] ||
	    nla_parse_nested(inner, TASKSTATS_TYPE_MAX, outer[TASKSTATS_TYPE_AGGR_PID], NULL) < 0 ||
	    !inner[TASKSTATS_TYPE_STATS])
		return NL_SKIP;
	const struct nlattr *stats = inner[TASKSTATS_TYPE_STATS];
	const size_t at = offsetof(struct taskstats, ac_comm);
	if ((size_t)nla_len(stats) >= at + TS_COMM_LEN)
		program_name_clean((const char *)nla_data(stats) + at, TS_COMM_LEN, arg);
	return NL_STOP;
}

static int ask_taskstats(const struct program_names *names, pid_t pid,
			 char ret_name[PROGRAM_NAME_LEN])
{
	struct nl_msg *msg = nlmsg_alloc();
	int r = -NLE_NOMEM;
	if (msg && genlmsg_put(msg, 0, 0, names->family, 0, 0, TASKSTATS_CMD_GET, 1) &&
	    nla_put_u32(msg, TASKSTATS_CMD_ATTR_PID, (uint32_t)pid) == 0)
		r = nl_send_auto(names->sock, msg);
	nlmsg_free(msg);
	nl_socket_modify_cb(names->sock, NL_CB_VALID, NL_CB_CUSTOM, on_stats, ret_name);
	return r < 0 ? r : nl_recvmsgs_default(names->sock);
}

static void from_taskstats(struct program_names *names, pid_t pid, char ret_name[PROGRAM_NAME_LEN])
{
	if (!open_taskstats(names))
		return;
	int r = ask_taskstats(names, pid, ret_name);
	if (r == -NLE_PERM)
		refuse(names);
	else if (r < 0 && r != -NLE_OBJ_NOTFOUND) /* the process has not just ended: open anew */
		program_names_close(names);
}

bool program_name(struct program_names *names, pid_t pid, char ret_name[PROGRAM_NAME_LEN])
{
	ret_name[0] = '\0';
	if (pid <= 0)
		return false;
	if (from_proc(pid, ret_name) < 0)
		from_taskstats(names, pid, ret_name);
	return *ret_name;
}
