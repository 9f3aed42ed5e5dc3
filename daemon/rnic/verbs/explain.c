/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/rnic/verbs/internal.h"

/* Does the uverbs device of that directory entry belong to `dev`? */
static bool serves(int verbs_dir, const char *entry, const char *dev)
{
	char path[300], ibdev[RNIC_NAME_LEN + 1] = "";
	snprintf(path, sizeof(path), "%s/ibdev", entry);
	int fd = openat(verbs_dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, ibdev, sizeof(ibdev) - 1);
	close(fd);
	if (n <= 0)
		return false;
	ibdev[strcspn(ibdev, "\n")] = '\0';
	return strcmp(ibdev, dev) == 0;
}

enum verbs_absence verbs_absence_of(const char *sysfs, const char *dev)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/class/infiniband/%s", sysfs, dev);
	if (access(path, F_OK))
		return VERBS_NO_SUCH_DEVICE;
	snprintf(path, sizeof(path), "%s/class/infiniband_verbs", sysfs);
	DIR *dir = opendir(path);
	bool found = false;
	for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
		found = serves(dirfd(dir), entry->d_name, dev);
	if (dir)
		closedir(dir);
	return found ? VERBS_NO_PROVIDER : VERBS_NO_UVERBS;
}

void verbs_explain_absence(const char *name, enum verbs_absence absence, const char *others,
			   char ret_error[RNIC_ERROR_LEN])
{
	switch (absence) {
	case VERBS_NO_UVERBS:
		snprintf(
			ret_error, RNIC_ERROR_LEN,
			"rnic %s: the kernel has the device, but not its module ib_uverbs; load it "
			"(modprobe ib_uverbs)",
			name);
		return;
	case VERBS_NO_PROVIDER:
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic %s: libibverbs has no driver for the device; install the package "
			 "ibverbs-providers",
			 name);
		return;
	case VERBS_NO_SUCH_DEVICE: break;
	}
	if (others[0])
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic %s: no such RDMA device; this host has %.120s", name, others);
	else
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic %s: this host has no RDMA device; load the NIC's RDMA driver, or "
			 "name a network interface instead, soft:IFNAME",
			 name);
}

void verbs_explain_open(const char *name, const char *node, int error,
			char ret_error[RNIC_ERROR_LEN])
{
	const char *advice = "see dmesg for what its driver says";
	if (error == -EACCES || error == -EPERM)
		advice = "run smcrd as root, or give its user the right to open it";
	else if (error == -ENOENT)
		advice = "there is no such file: mount devtmpfs on /dev or run udev";
	else if (error == -ENOMEM)
		advice = "raise the limit of locked memory (LimitMEMLOCK of smcrd.service)";
	snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: cannot open %.80s: %s; %s", name, node,
		 strerror(-error), advice);
}

void verbs_explain_no_gid(const char *name, char ret_error[RNIC_ERROR_LEN])
{
	snprintf(ret_error, RNIC_ERROR_LEN,
		 "rnic %s: no RoCE GID for an interface of this network namespace; give the "
		 "device's network interface an IP address",
		 name);
}

void rnic_verbs_explain_memory(const char *name, size_t len, int error,
			       char ret_error[RNIC_ERROR_LEN])
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	getrlimit(RLIMIT_MEMLOCK, &limit);
	int n = snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: cannot register %zu bytes: %s", name,
			 len, strerror(-error));
	if (error == -ENOMEM && limit.rlim_cur != RLIM_INFINITY && n > 0 && n < RNIC_ERROR_LEN)
		snprintf(ret_error + n, RNIC_ERROR_LEN - (size_t)n,
			 "; locked memory is limited to %llu bytes: raise LimitMEMLOCK of "
			 "smcrd.service",
			 (unsigned long long)limit.rlim_cur);
}
