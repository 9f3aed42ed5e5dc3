/* SPDX-License-Identifier: MIT */
#include "lib/smcr/claim.h"

#include "lib/smcr/next.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "proto/smcr/reason.h"

static int set_claim(int fd, int on, uint32_t flags)
{
	const struct ipc_claim claim = { .wanted = on,
					 .flags = flags,
					 .program = pre_settings.program };
	return sys_result(
		pre_next.setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim)));
}

static uint32_t flags_of(enum pre_policy policy)
{
	return policy == PRE_REQUIRE ? IPC_CLAIM_REQUIRED : 0;
}

/* SOCK-5. */
enum pre_claim pre_claim(int fd, enum pre_policy policy)
{
	switch (set_claim(fd, 1, flags_of(policy))) {
	case 0: return PRE_CLAIM_MADE;
	case -ENOPROTOOPT: return PRE_CLAIM_NO_BPF;
	default: return PRE_CLAIM_REFUSED;
	}
}

enum pre_claim pre_claim_to_connect(int fd, enum pre_policy policy)
{
	switch (set_claim(fd, 1, flags_of(policy) | IPC_CLAIM_TO_CONNECT)) {
	case 0: return PRE_CLAIM_MADE;
	case -ENOPROTOOPT: return PRE_CLAIM_NO_BPF;
	case -EOPNOTSUPP: /* also the error of a Unix socket without BPF */
	case -ENOTSOCK:
	case -EBADF: return PRE_CLAIM_NO_TCP;
	case -EISCONN: return PRE_CLAIM_LATE;
	default: return PRE_CLAIM_REFUSED;
	}
}

int pre_unclaim(int fd)
{
	int rc = set_claim(fd, 0, 0);
	return rc == -ENOPROTOOPT ? 0 : rc; /* smcrd has ended, with its BPF programs */
}

void pre_tell_plain(int fd, uint32_t reason, bool accepted)
{
	const struct ipc_plain plain = { .reason = reason,
					 .flags = accepted ? IPC_PLAIN_ACCEPTED : 0 };
	if (reason != SMCR_REASON_NONE)
		pre_next.setsockopt(fd, IPC_SOL_SMCR, IPC_SO_PLAIN, &plain, sizeof(plain));
}

int pre_tell_unasked(int fd, uint32_t number)
{
	return sys_result(
		pre_next.setsockopt(fd, IPC_SOL_SMCR, IPC_SO_UNASKED, &number, sizeof(number)));
}

static int get_private(int fd, int name, int *ret_value)
{
	int value = 0;
	socklen_t len = sizeof(value);
	int rc = sys_result(pre_next.getsockopt(fd, IPC_SOL_SMCR, name, &value, &len));
	if (rc < 0)
		return rc;
	*ret_value = value;
	return 0;
}

/* SOCK-5. */
int pre_negotiated(int fd)
{
	int value;
	int rc = get_private(fd, IPC_SO_NEGOTIATED, &value);
	if (rc < 0)
		return rc;
	switch (value) {
	case IPC_NEGOTIATED_YES:
	case IPC_NEGOTIATED_NO:
	case IPC_NEGOTIATED_UNCLAIMED:
	case IPC_NEGOTIATED_DOUBTFUL: return value;
	default: return IPC_NEGOTIATED_UNKNOWN;
	}
}

bool pre_stands_still(int fd)
{
	int value;
	return get_private(fd, IPC_SO_STANDS_STILL, &value) == 0 && value != 0;
}

bool pre_daemon_serves(int fd)
{
	struct ipc_serving serving;
	socklen_t len = sizeof(serving);
	return sys_result(pre_next.getsockopt(fd, IPC_SOL_SMCR, IPC_SO_SERVING, &serving, &len)) ==
		       0 &&
	       !(serving.flags & (IPC_SERVING_STANDS_STILL | IPC_SERVING_STOPS));
}

int pre_address_number(int fd, uint64_t *ret_number)
{
	uint64_t number;
	socklen_t len = sizeof(number);
	int rc = sys_result(pre_next.getsockopt(fd, IPC_SOL_SMCR, IPC_SO_ADDRESS, &number, &len));
	if (rc == 0)
		*ret_number = number;
	return rc;
}

uint32_t pre_reason_of_no(int fd)
{
	int value;
	if (get_private(fd, IPC_SO_REASON, &value) < 0 || value == SMCR_REASON_NONE)
		return SMCR_REASON_PEER_NO_SMC;
	return (uint32_t)value;
}

uint32_t pre_negotiated_reason(int fd)
{
	return pre_settings.verbose ? pre_reason_of_no(fd) : SMCR_REASON_PEER_NO_SMC;
}
