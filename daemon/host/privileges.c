/* SPDX-License-Identifier: MIT */
#include "daemon/host/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sets of capabilities, one bit each. */
struct sets {
	uint64_t effective, permitted, inheritable;
};

#define BIT(capability) (UINT64_C(1) << (capability))

#define ALWAYS_NEEDED (BIT(CAP_NET_ADMIN) | BIT(CAP_NET_RAW) | BIT(CAP_BPF) | BIT(CAP_PERFMON))

static struct __user_cap_header_struct header(void)
{
	return (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
}

static int read_sets(struct sets *ret_sets)
{
	struct __user_cap_header_struct head = header();
	struct __user_cap_data_struct word[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_capget, &head, word) < 0)
		return -errno;
	*ret_sets = (struct sets){
		.effective = word[0].effective | (uint64_t)word[1].effective << 32,
		.permitted = word[0].permitted | (uint64_t)word[1].permitted << 32,
		.inheritable = word[0].inheritable | (uint64_t)word[1].inheritable << 32,
	};
	return 0;
}

static int write_sets(const struct sets *sets)
{
	struct __user_cap_header_struct head = header();
	const struct __user_cap_data_struct word[_LINUX_CAPABILITY_U32S_3] = {
		{ (uint32_t)sets->effective, (uint32_t)sets->permitted,
		  (uint32_t)sets->inheritable },
		{ (uint32_t)(sets->effective >> 32), (uint32_t)(sets->permitted >> 32),
		  (uint32_t)(sets->inheritable >> 32) },
	};
	return syscall(SYS_capset, &head, word) < 0 ? -errno : 0;
}

bool privileges_has(int capability)
{
	struct sets sets;
	return read_sets(&sets) == 0 && (sets.effective & BIT(capability));
}

/* If the socket's directory belongs to the service's user, root needs CAP_DAC_OVERRIDE to use it.
 * @return that capability, or none */
static uint64_t for_directory(const char *directory, const struct sets *sets)
{
	struct sets without = *sets;
	without.effective &= ALWAYS_NEEDED;
	if (write_sets(&without) < 0)
		return 0;
	int r = faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS);
	bool refused = r < 0 && errno == EACCES;
	write_sets(sets);
	return refused ? BIT(CAP_DAC_OVERRIDE) : 0;
}

/* The kernel counts memory that is registered with verbs devices against RLIMIT_MEMLOCK. @return
 * CAP_IPC_LOCK if that cannot be lifted, or none */
static uint64_t for_locked_memory(void)
{
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	return setrlimit(RLIMIT_MEMLOCK, &none) < 0 ? BIT(CAP_IPC_LOCK) : 0;
}

/* Drop capabilities from the bounding set. Without CAP_SETPCAP that fails, which does no harm:
 * after PR_SET_NO_NEW_PRIVS execve() gives no capabilities. */
static void bound(uint64_t keep)
{
	for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!(keep & BIT(i)) && prctl(PR_CAPBSET_DROP, i) < 0)
			return;
}

int privileges_drop(const char *directory)
{
	struct sets sets;
	int r = read_sets(&sets);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	const uint64_t keep =
		(ALWAYS_NEEDED | for_directory(directory, &sets) | for_locked_memory()) &
		sets.permitted;
	bound(keep);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return write_sets(&(struct sets){ .effective = keep, .permitted = keep });
}
