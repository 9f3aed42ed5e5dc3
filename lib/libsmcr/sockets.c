/* SPDX-License-Identifier: MIT */
/* libsmcr's functions that have a namesake in the C library. */
#include "lib/libsmcr/call.h"
#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/policy.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"

const bool pre_sees_calls = false;

/** Begin a call with a policy. smcr-run --require overrides the program's policy. */
static struct call begin_with(enum smcr_policy policy, enum pre_policy *ret_policy)
{
	struct call call = call_begin();
	const bool required = pre_settings.require;
	if (call.error)
		return call;
	switch (policy) {
	case SMCR_PREFER: *ret_policy = required ? PRE_REQUIRE : PRE_PREFER; return call;
	case SMCR_REQUIRE: *ret_policy = PRE_REQUIRE; return call;
	case SMCR_NEVER:
		*ret_policy = PRE_NEVER;
		call.error = required ? -EPROTONOSUPPORT : 0;
		return call;
	}
	call.error = -EINVAL;
	return call;
}

int smcr_connect(int fd, const struct sockaddr *addr, socklen_t len, enum smcr_policy policy)
{
	enum pre_policy wanted;
	struct call call = begin_with(policy, &wanted);
	return call_end(&call, call.error ? call.error : pre_connect(fd, addr, len, wanted));
}

int smcr_listen(int fd, int backlog, enum smcr_policy policy)
{
	enum pre_policy wanted;
	struct call call = begin_with(policy, &wanted);
	return call_end(&call, call.error ? call.error : pre_listen(fd, backlog, wanted));
}

int smcr_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags, enum smcr_policy policy)
{
	enum pre_policy wanted;
	struct call call = begin_with(policy, &wanted);
	return call_end(&call, call.error ? call.error : pre_accept4(fd, addr, len, flags, wanted));
}

int smcr_take_back(int fd)
{
	struct call call = call_begin();
	return call_end(&call, call.error ? call.error : pre_take_back(fd));
}

int smcr_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct call call = call_begin();
	return call_end(&call,
			call.error ? call.error : pre_getsockopt(fd, level, name, value, len));
}

int smcr_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct call call = call_begin();
	return call_end(&call,
			call.error ? call.error : pre_setsockopt(fd, level, name, value, len));
}

int smcr_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct call call = call_begin();
	return call_end(&call, call.error ? call.error : pre_getsockname(fd, addr, len));
}

int smcr_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct call call = call_begin();
	return call_end(&call, call.error ? call.error : pre_getpeername(fd, addr, len));
}

int smcr_shutdown(int fd, int how)
{
	struct call call = call_begin();
	return call_end(&call, call.error ? call.error : pre_shutdown(fd, how));
}

int smcr_ioctl(int fd, unsigned long request, void *arg)
{
	struct call call = call_begin();
	if (call.error)
		return call_end(&call, call.error);
	if (!pre_ioctl_concerns(request))
		return call_end(&call, sys_result(pre_next.ioctl(fd, request, arg)));
	return call_end(&call, pre_ioctl(fd, request, arg));
}
