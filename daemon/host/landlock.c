/* SPDX-License-Identifier: MIT */
#include "daemon/host/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Constants that older kernel headers do not have. */
#define FS_REFER     (UINT64_C(1) << 13) /* since ABI 2 */
#define FS_TRUNCATE  (UINT64_C(1) << 14) /* 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15) /* 5 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)  /* 6 */

/* An older kernel accepts this longer structure if the fields that it does not know are 0. */
struct ruleset {
	uint64_t handled_access_fs, handled_access_net, scoped;
};

#define READ  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define OWN                                                                                        \
	(READ | WRITE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |               \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define DEVICE   (READ | WRITE | FS_IOCTL_DEV)
#define OF_FILES (LANDLOCK_ACCESS_FS_READ_FILE | WRITE | FS_IOCTL_DEV)

/* All access rights that a kernel of this ABI can restrict. */
static uint64_t handled(int abi)
{
	uint64_t all = ((uint64_t)LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
	if (abi >= 2)
		all |= FS_REFER;
	if (abi >= 3)
		all |= FS_TRUNCATE;
	if (abi >= 5)
		all |= FS_IOCTL_DEV;
	return all;
}

int landlock_begin(struct landlock *landlock)
{
	*landlock = (struct landlock){ .fd = -1 };
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 0)
		return -errno;
	const struct ruleset ruleset = { .handled_access_fs = handled((int)abi),
					 .scoped = abi >= 6 ? SCOPE_SIGNAL : 0 };
	long fd = syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
	if (fd < 0)
		return -errno;
	*landlock = (struct landlock){ .fd = (int)fd, .abi = (int)abi };
	return 0;
}

static uint64_t access_for(enum landlock_use use)
{
	switch (use) {
	case LANDLOCK_LIST: return LANDLOCK_ACCESS_FS_READ_DIR;
	case LANDLOCK_READ: return READ;
	case LANDLOCK_OWN: return OWN;
	case LANDLOCK_DEVICE: return DEVICE;
	}
	return 0;
}

int landlock_allow(struct landlock *landlock, const char *path, enum landlock_use use)
{
	struct stat st;
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	struct landlock_path_beneath_attr rule = {
		.allowed_access = access_for(use) & handled(landlock->abi),
		.parent_fd = fd,
	};
	int r = 0;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_FILES;
	if (r == 0 &&
	    syscall(SYS_landlock_add_rule, landlock->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		r = -errno;
	close(fd);
	return r;
}

int landlock_enforce(struct landlock *landlock)
{
	int r = syscall(SYS_landlock_restrict_self, landlock->fd, 0) < 0 ? -errno : 0;
	close(landlock->fd);
	landlock->fd = -1;
	return r;
}
