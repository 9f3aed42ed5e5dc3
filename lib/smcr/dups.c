/* SPDX-License-Identifier: MIT */
#include "lib/smcr/dups.h"

#include <limits.h>

#include "lib/smcr/holders.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"

#define DUP_LOWEST 128 /* descriptors below this are looked at */
#define DUP_AROUND 16  /* so are this many before and after the socket's */

int pre_dups_candidate(int fd, int after)
{
	int next = after + 1;
	if (next >= DUP_LOWEST && next < fd - DUP_AROUND)
		next = fd - DUP_AROUND;
	if (next == fd)
		next++;
	return next < DUP_LOWEST || next <= fd + DUP_AROUND ? next : -1;
}

/* How many descriptors the process has; INT_MAX if the kernel (before 6.2) does not tell, or /proc
 * cannot be seen. */
static int count_open(void)
{
	struct stat st;
	int rc = sys_stat("/proc/thread-self/fd", &st);
	return rc == 0 && st.st_size > 0 && st.st_size < INT_MAX ? (int)st.st_size : INT_MAX;
}

struct pre_dups pre_dups_begin(int fd, uint64_t cookie)
{
	return (struct pre_dups){
		.fd = fd, .cookie = cookie, .at = -1, .open = count_open(), .seen = 1
	};
}

/* Have all descriptors been seen? Other threads may have opened some meanwhile, so they are counted
 * again. */
static bool seen_all(struct pre_dups *dups)
{
	if (dups->seen >= dups->open)
		dups->open = count_open();
	return dups->seen >= dups->open;
}

int pre_dups_next(struct pre_dups *dups)
{
	while (!seen_all(dups)) {
		uint64_t cookie;
		dups->at = pre_dups_candidate(dups->fd, dups->at);
		if (dups->at < 0)
			return -1;
		int rc = pre_cookie(dups->at, &cookie);
		if (rc != -EBADF)
			dups->seen++;
		if (rc == 0 && cookie == dups->cookie)
			return dups->at;
	}
	return -1;
}

bool pre_dups_any(int fd, uint64_t cookie)
{
	if (pre_holders_of(fd) == PRE_HOLDERS_ALONE)
		return false;
	if (pre_holders_of(fd) == PRE_HOLDERS_PASSED)
		return true;
	struct pre_dups dups = pre_dups_begin(fd, cookie);
	return pre_dups_next(&dups) >= 0;
}
