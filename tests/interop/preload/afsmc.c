/* SPDX-License-Identifier: MIT */
/*
 * Preload library that turns the TCP sockets of unmodified programs into sockets of the kernel's
 * AF_SMC. The tool smc_run of the package smc-tools does the same, but Debian 12 does not have it.
 */
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef AF_SMC
#define AF_SMC 43
#endif
#define SMCPROTO_SMC  0 /* over IPv4 */
#define SMCPROTO_SMC6 1 /* over IPv6, which includes IPv4 */

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int);
	*(void **)&next = dlsym(RTLD_NEXT, "socket");
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	if ((domain == AF_INET || domain == AF_INET6) && kind == SOCK_STREAM &&
	    (protocol == 0 || protocol == IPPROTO_TCP))
		return next(AF_SMC, type, domain == AF_INET ? SMCPROTO_SMC : SMCPROTO_SMC6);
	return next(domain, type, protocol);
}
