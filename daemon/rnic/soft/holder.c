/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/rnic/soft/internal.h"

#define MAX_HOLDERS 8
#define NAME_LEN    64

/* Processes that had the RoCEv2 port when rnic_soft_note_holders() ran, while /proc could still be
 * read. */
static struct {
	unsigned long inode;
	char name[NAME_LEN];
} noted[MAX_HOLDERS];
static size_t num_noted;

/* Read from /proc/net/udp or udp6 the inodes of UDP sockets with which a bind to addr:port
 * collides. Sockets bound to all addresses (in udp6: of both families) count too. If `addr` is
 * INADDR_ANY, every socket of that port counts. */
static size_t read_sockets(const char *path, bool v6, struct in_addr addr, uint16_t port,
			   unsigned long *inodes, size_t max)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	char line[512];
	size_t n = 0;
	while (n < max && fgets(line, sizeof(line), f)) {
		char local[33];
		unsigned int local_port;
		unsigned long inode;
		if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %lu", local,
			   &local_port, &inode) != 3 ||
		    local_port != port)
			continue;
		bool any = strspn(local, "0") == strlen(local);
		if (any || addr.s_addr == INADDR_ANY ||
		    (!v6 && strtoul(local, NULL, 16) == addr.s_addr))
			inodes[n++] = inode;
	}
	fclose(f);
	return n;
}

/* Has the process a descriptor of one of the sockets? `ret_hidden` is set to true if its
 * descriptors cannot be read. */
static bool process_has(const char *pid, const unsigned long *inodes, size_t n, bool *ret_hidden)
{
	char path[300];
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	if (!dir) {
		*ret_hidden = *ret_hidden || errno == EACCES;
		return false;
	}
	bool found = false;
	for (struct dirent *fd; !found && (fd = readdir(dir));) {
		char target[64];
		ssize_t len = readlinkat(dirfd(dir), fd->d_name, target, sizeof(target) - 1);
		unsigned long inode;
		*ret_hidden = *ret_hidden || (len < 0 && errno == EACCES);
		if (len <= 0)
			continue;
		target[len] = '\0';
		if (sscanf(target, "socket:[%lu]", &inode) != 1)
			continue;
		for (size_t i = 0; i < n; i++)
			found = found || inodes[i] == inode;
	}
	closedir(dir);
	return found;
}

static void name_process(const char *pid, char *buf, size_t len)
{
	char path[300];
	char comm[32] = "";
	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	FILE *f = fopen(path, "re");
	if (f) {
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		fclose(f);
	}
	snprintf(buf, len, "%s (pid %s)", *comm ? comm : "a process", pid);
}

/* The list has sockets of the kernel too, which no process has. */
static void name_nobody(bool hidden, char *buf, size_t len)
{
	bool rxe = access("/sys/module/rdma_rxe", F_OK) == 0;
	snprintf(buf, len, "the kernel%s%s", rxe ? " (rdma_rxe)" : "",
		 hidden ? ", or a process that `ss -lunp` shows to root" : "");
}

static size_t read_all_sockets(struct in_addr addr, uint16_t port,
			       unsigned long inodes[MAX_HOLDERS])
{
	size_t n =
		read_sockets("/proc/thread-self/net/udp", false, addr, port, inodes, MAX_HOLDERS);
	return n + read_sockets("/proc/thread-self/net/udp6", true, addr, port, inodes + n,
				MAX_HOLDERS - n);
}

static bool find_process(const unsigned long *inodes, size_t n, bool *ret_hidden, char *buf,
			 size_t len)
{
	DIR *proc = opendir("/proc");
	bool found = false;
	for (struct dirent *entry; proc && n > 0 && !found && (entry = readdir(proc));) {
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    process_has(entry->d_name, inodes, n, ret_hidden)) {
			name_process(entry->d_name, buf, len);
			found = true;
		}
	}
	if (proc)
		closedir(proc);
	return found;
}

void rnic_soft_note_holders(void)
{
	const struct in_addr all = { INADDR_ANY };
	unsigned long inodes[MAX_HOLDERS];
	bool hidden = false;
	size_t n = read_all_sockets(all, ROCE_UDP_PORT, inodes);
	num_noted = 0;
	for (size_t i = 0; i < n; i++) {
		if (!find_process(&inodes[i], 1, &hidden, noted[num_noted].name, NAME_LEN))
			continue;
		noted[num_noted++].inode = inodes[i];
	}
}

static bool find_noted(const unsigned long *inodes, size_t n, char *buf, size_t len)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < num_noted; k++)
			if (noted[k].inode == inodes[i]) {
				snprintf(buf, len, "%s", noted[k].name);
				return true;
			}
	return false;
}

void soft_port_holder(struct in_addr addr, uint16_t port, char *buf, size_t len)
{
	unsigned long inodes[MAX_HOLDERS];
	size_t n = read_all_sockets(addr, port, inodes);
	bool hidden = access("/proc/1", F_OK) < 0; /* hidepid, ProtectProc= */
	if (find_process(inodes, n, &hidden, buf, len) || find_noted(inodes, n, buf, len))
		return;
	if (n == 0)
		snprintf(buf, len, "an unknown socket");
	else
		name_nobody(hidden, buf, len);
}
