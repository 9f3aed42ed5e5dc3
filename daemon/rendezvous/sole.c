/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/sole.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/host/fellow.h"
#include "daemon/host/log.h"
#include "daemon/host/netns_lock.h"
#include "daemon/rendezvous/serving.h"

/* How long another one may take that was told to end: stop.c gives it three seconds and a half. */
#define STOPS_US 6000000
/* How long the lock may be held while no BPF programs answer: the other one starts, and soon says
 * who it is, or it ends. */
#define SILENT_US 2000000
#define PAUSE_US  50000

/* What is known of the other one. */
struct other {
	struct ipc_serving serving; /* socket "": not known */
	pid_t pid;                  /* 0: not known, or not to be seen from here */
	bool earlier;               /* of a version that does not say which one it is */
};

/* ---- naming it ---- */

static bool is_own_pid_namespace(uint64_t inode)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == inode;
}

static void find_process(struct other *other)
{
	const struct ipc_serving *serving = &other->serving;
	other->pid = is_own_pid_namespace(serving->pid_namespace)
			     ? (pid_t)serving->pid
			     : fellow_pid(serving->socket, serving->uid);
}

/* One that has said nothing of itself. */
static void look_for(struct other *other, uid_t uid)
{
	struct fellow fellow;
	if (!fellow_find(uid, &fellow))
		return;
	other->pid = fellow.pid;
	snprintf(other->serving.socket, sizeof(other->serving.socket), "%s", fellow.socket);
}

/* ": process 12, socket /run/smcrd/smcrd.sock" */
static void describe(const struct other *other, char *text, size_t len)
{
	const struct ipc_serving *serving = &other->serving;
	char process[64] = "";
	if (other->pid > 0)
		snprintf(process, sizeof(process), ": process %d", (int)other->pid);
	else if (serving->pid > 0)
		snprintf(process, sizeof(process), ": process %u of another PID namespace",
			 serving->pid);
	snprintf(text, len, "%s%s%s%s", process, *serving->socket ? ", socket " : "",
		 serving->socket,
		 serving->flags & IPC_SERVING_STANDS_STILL ? ", stopped or hanging" : "");
}

static int refuse(const struct other *other, char *text, size_t len)
{
	char description[256];
	describe(other, description, sizeof(description));
	snprintf(text, len,
		 "another smcrd%s serves this network namespace%s; a namespace has one: use its "
		 "socket (SMCRD_SOCKET), or stop it; for the network of a container start smcrd in "
		 "the network namespace of the container (ip netns exec, nsenter --net)",
		 other->earlier ? " of an earlier version" : "", description);
	return -EALREADY;
}

/* ---- looking for it ---- */

/* @return 0: BPF programs answer for another one; -ENOENT: none do */
static int ask(struct other *other)
{
	*other = (struct other){ .pid = 0 };
	int r = rdv_serving_ask(&other->serving);
	if (r == 0)
		find_process(other);
	other->earlier = r == -EPROTO;
	if (other->earlier)
		look_for(other, 0);
	if (other->earlier && !other->pid)
		look_for(other, geteuid());
	return r == 0 || other->earlier ? 0 : -ENOENT;
}

static void look_for_holder(struct other *other)
{
	uid_t uid;
	*other = (struct other){ .pid = 0 };
	if (netns_lock_holder(&uid) == 0)
		look_for(other, uid);
}

static int take(int *ret_lock)
{
	int lock = netns_lock_take();
	if (lock == -EBUSY)
		return -EBUSY;
	if (lock < 0)
		log_message(LOG_DEBUG,
			    "another smcrd that has no BPF programs is not kept from starting: %s",
			    strerror(-lock));
	*ret_lock = lock < 0 ? -1 : lock;
	return 0;
}

int sole_become(int *ret_lock, char *ret_text, size_t len)
{
	struct other other;
	unsigned int waited = 0, silent = 0;
	while (silent <= SILENT_US) {
		bool answers = ask(&other) == 0;
		bool stops = other.serving.flags & IPC_SERVING_STOPS;
		if (answers && !(stops && waited < STOPS_US))
			return refuse(&other, ret_text, len);
		if (!answers && take(ret_lock) == 0)
			return 0;
		/* One that ends closes its BPF programs before the lock. */
		silent = answers ? 0 : silent + PAUSE_US;
		waited += PAUSE_US;
		usleep(PAUSE_US);
	}
	look_for_holder(&other);
	return refuse(&other, ret_text, len);
}

int sole_refuse(char *ret_text, size_t len)
{
	struct other other;
	ask(&other);
	return refuse(&other, ret_text, len);
}
