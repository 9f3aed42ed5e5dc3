/* SPDX-License-Identifier: MIT */
#include "tests/lib/pre_net.h"

#include <dirent.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/ready.h"
#include "proto/smcr/clc.h"

#define WAIT_MS 60000

int pre_net_socket(int family, int type)
{
	int fd = socket(family, type, 0);
	assert_true(fd >= 0);
	return fd;
}

socklen_t pre_net_len(const union ipc_addr *addr)
{
	return addr->sa.sa_family == AF_INET6 ? sizeof(addr->in6) : sizeof(addr->in);
}

int pre_net_listen(int family, union ipc_addr *ret_addr)
{
	int fd = pre_net_socket(family, SOCK_STREAM | SOCK_CLOEXEC);
	union ipc_addr addr = { .sa = { .sa_family = (sa_family_t)family } };
	if (family == AF_INET6)
		addr.in6.sin6_addr = in6addr_loopback;
	else
		addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, &addr.sa, pre_net_len(&addr)), 0);
	assert_int_equal(syscall(SYS_listen, fd, 64), 0);
	socklen_t len = sizeof(addr);
	assert_int_equal(getsockname(fd, &addr.sa, &len), 0);
	*ret_addr = addr;
	return fd;
}

int pre_net_connect(int fd, const union ipc_addr *addr)
{
	return connect(fd, &addr->sa, pre_net_len(addr)) < 0 ? errno : 0;
}

int pre_net_accept_plain(int listener)
{
	pre_net_wait(listener, POLLIN);
	int fd = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

int pre_net_kernel_family(int fd)
{
	int family = -1;
	socklen_t len = sizeof(family);
	assert_int_equal(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &family, &len), 0);
	return family;
}

static short poll_for(int fd, short events, int limit)
{
	struct pollfd p = { .fd = fd, .events = events };
	int rc;
	do
		rc = poll(&p, 1, limit);
	while (rc < 0 && errno == EINTR);
	assert_true(rc >= 0);
	return rc == 0 ? 0 : p.revents;
}

short pre_net_poll_now(int fd, short events)
{
	return poll_for(fd, events, 0);
}

short pre_net_wait(int fd, short events)
{
	short revents = poll_for(fd, events, WAIT_MS);
	assert_int_not_equal(revents, 0);
	return revents;
}

static void pass(int from, int to, const char *text)
{
	char got[64] = "";
	size_t len = strlen(text), at = 0;
	assert_int_equal(send(from, text, len, MSG_NOSIGNAL), len);
	while (at < len) {
		pre_net_wait(to, POLLIN);
		ssize_t n = recv(to, got + at, sizeof(got) - at, 0);
		assert_true(n > 0);
		at += (size_t)n;
	}
	assert_string_equal(got, text);
}

void pre_net_exchange(int a, int b)
{
	pass(a, b, "there");
	pass(b, a, "and back again");
}

void pre_net_expect_reset(int fd)
{
	char byte;
	pre_net_wait(fd, POLLIN);
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
}

void pre_net_expect_decline(int fd, uint32_t reason)
{
	uint8_t buf[SMCR_CLC_DECLINE_LEN];
	struct smcr_clc_msg msg;
	pre_net_wait(fd, POLLIN);
	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	assert_int_equal(smcr_clc_decode(buf, sizeof(buf), &msg), 0);
	assert_int_equal(msg.type, SMCR_CLC_DECLINE);
	assert_int_equal(msg.decline.diagnosis, reason);
	assert_false(msg.decline.out_of_sync);
}

void pre_net_pass(int via, int fd)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	*c = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	assert_int_equal(sendmsg(via, &msg, 0), 1);
}

void pre_net_write_confined(int fd, int peer)
{
	int status;
	char byte;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		ssize_t n = write(fd, "x", 1);
		syscall(SYS_exit, n == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(recv(peer, &byte, 1, 0), 1);
}

size_t pre_net_count_fds(void)
{
	size_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* ---- the private options */

struct pre_net_option pre_net_option;
static struct pre_next behind;

static int fails(int error)
{
	errno = error;
	return -1;
}

static int set_bar(int fd, const void *value, socklen_t len)
{
	struct pre_net_option *o = &pre_net_option;
	int on;
	assert_int_equal(len, sizeof(on));
	memcpy(&on, value, sizeof(on));
	if (on && o->bars > 0 && o->last_barred == fd)
		return fails(EALREADY);
	o->bars += on ? 1 : -1;
	o->last_barred = on ? fd : o->last_barred;
	return 0;
}

static int add_unasked(const void *value, socklen_t len)
{
	struct pre_net_option *o = &pre_net_option;
	uint32_t number;
	assert_int_equal(len, sizeof(number));
	memcpy(&number, value, sizeof(number));
	assert_true(number <= IPC_UNASKED_MAX);
	o->unasked_told++;
	o->unasked += number;
	return o->negotiated == IPC_NEGOTIATED_NO ? 0 : fails(ENODATA);
}

/* Judge a claim before connect() as the BPF programs do (daemon/rendezvous/bpf/claims.h). */
static int judge_socket(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	if (!pre_is_tcp(fd))
		return EOPNOTSUPP;
	assert_int_equal(behind.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_state == TCP_CLOSE ? 0 : EISCONN;
}

static int set_option(int fd, int level, int name, const void *value, socklen_t len)
{
	struct pre_net_option *o = &pre_net_option;
	struct ipc_claim claim;
	if (level == IPC_SOL_SMCR && name == IPC_SO_BAR && !o->absent)
		return set_bar(fd, value, len);
	if (level == IPC_SOL_SMCR && name == IPC_SO_PLAIN && !o->absent) {
		assert_int_equal(len, sizeof(o->last_plain));
		memcpy(&o->last_plain, value, sizeof(o->last_plain));
		o->plain_told++;
		return 0;
	}
	if (level == IPC_SOL_SMCR && name == IPC_SO_UNASKED && o->answers_unasked)
		return add_unasked(value, len);
	if (level != IPC_SOL_SMCR || name != IPC_SO_CLAIM || o->absent)
		return behind.setsockopt(fd, level, name, value, len);
	assert_int_equal(len, sizeof(claim));
	memcpy(&claim, value, sizeof(claim));
	assert_int_equal(claim.flags & ~(unsigned int)(IPC_CLAIM_REQUIRED | IPC_CLAIM_TO_CONNECT),
			 0);
	if (claim.flags & IPC_CLAIM_TO_CONNECT && judge_socket(fd))
		return fails(judge_socket(fd));
	if (claim.wanted) {
		o->claims++;
		o->last_program = claim.program;
		o->last_required = claim.flags & IPC_CLAIM_REQUIRED;
		o->last_claimed = fd;
		return o->claim_error ? fails(o->claim_error) : 0;
	}
	o->unclaims++;
	return o->cannot_unclaim ? fails(EISCONN) : 0;
}

static int answer_with(int answer, void *value, socklen_t *len)
{
	assert_true(*len >= sizeof(answer));
	memcpy(value, &answer, sizeof(answer));
	*len = sizeof(answer);
	return 0;
}

static int get_option(int fd, int level, int name, void *value, socklen_t *len)
{
	const struct pre_net_option *o = &pre_net_option;
	bool ours = level == IPC_SOL_SMCR && !o->absent;
	if (ours && name == IPC_SO_NEGOTIATED)
		return answer_with(pre_is_tcp(fd) ? o->negotiated : IPC_NEGOTIATED_UNKNOWN, value,
				   len);
	if (ours && name == IPC_SO_STANDS_STILL)
		return answer_with(o->stands_still && o->stands_still(), value, len);
	if (ours && name == IPC_SO_ADDRESS && o->address) {
		assert_true(*len >= sizeof(o->address));
		memcpy(value, &o->address, sizeof(o->address));
		return 0;
	}
	return behind.getsockopt(fd, level, name, value, len);
}

void pre_net_play_option(void)
{
	assert_true(pre_ready());
	pre_net_option = (struct pre_net_option){ 0 };
	if (pre_next.setsockopt == set_option)
		return;
	behind = pre_next;
	pre_next.setsockopt = set_option;
	pre_next.getsockopt = get_option;
}
