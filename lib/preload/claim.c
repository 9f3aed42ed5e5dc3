/* SPDX-License-Identifier: MIT */
#include "lib/preload/claim.h"

#include "lib/preload/next.h"
#include "lib/preload/sys.h"

static int set_claim(int fd, int on)
{
	return sys_result(pre_next.setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &on, sizeof(on)));
}

enum pre_claim pre_claim(int fd)
{
	switch (set_claim(fd, 1)) {
	case 0: return PRE_CLAIM_MADE;
	case -ENOPROTOOPT: return PRE_CLAIM_NO_BPF;
	default: return PRE_CLAIM_REFUSED;
	}
}

int pre_unclaim(int fd)
{
	int rc = set_claim(fd, 0);
	return rc == -ENOPROTOOPT ? 0 : rc; /* smcrd is gone, and its programs with it */
}

int pre_negotiated(int fd)
{
	int value = IPC_NEGOTIATED_UNKNOWN;
	socklen_t len = sizeof(value);
	int rc = sys_result(pre_next.getsockopt(fd, IPC_SOL_SMCR, IPC_SO_NEGOTIATED, &value, &len));
	if (rc < 0)
		return rc;
	return value == IPC_NEGOTIATED_YES || value == IPC_NEGOTIATED_NO ? value
									 : IPC_NEGOTIATED_UNKNOWN;
}
