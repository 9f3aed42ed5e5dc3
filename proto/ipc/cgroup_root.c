/* SPDX-License-Identifier: MIT */
#include "proto/ipc/cgroup_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool is_cgroup2(int fd)
{
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/** Open the root of the hierarchy with a mount of our own, because `ip netns exec` hides the host's
 * mount. */
static int mount_cgroup_root(void)
{
	int root = -1;
	int fs = fsopen("cgroup2", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
		int mount = fsmount(fs, FSMOUNT_CLOEXEC, 0);
		if (mount >= 0) {
			/* The descriptor of the mount cannot be used as a directory; the mount
			 * exists as long as the one opened here.
			 */
			root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			int saved = errno;
			close(mount);
			errno = saved;
		}
	}
	int error = errno;
	close(fs);
	return root < 0 ? -error : root;
}

int ipc_cgroup_root(bool may_mount)
{
	static const char *const usual[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	int root = may_mount ? mount_cgroup_root() : -ENOENT;
	for (size_t i = 0; root < 0 && i < sizeof(usual) / sizeof(usual[0]); i++) {
		int fd = open(usual[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && is_cgroup2(fd))
			root = fd;
		else if (fd >= 0)
			close(fd);
	}
	return root;
}
