/* SPDX-License-Identifier: MIT */
/*
 * connect(): first the program's own connect(), with its own rights and errors. If both sides have
 * put the SMC-R option into the handshake, the daemon gets the socket, and the program a pair end.
 *
 * pre_connect() at the end decides which of these it is:
 *
 *     connect_unasked()    the server has just not answered the option: the kernel's connect() only
 *     connect_claimed()    one system call has claimed the socket: the usual case
 *     connect_tcp()        a TCP socket that was not claimed yet: look at options and daemon first
 *     connect_other()      a pair end (outcome.h), or nothing that concerns SMC-R
 *
 * A connection that was made ends in one of the functions of "outcomes": the program's descriptor
 * is a pair end (take_connected(), take_connecting()), or still the TCP socket (stays_tcp() and
 * those that call it), or the connection is gone (lost()). Each returns what the program's call
 * returns.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/fit.h"
#include "lib/smcr/log.h"
#include "lib/smcr/next.h"
#include "lib/smcr/outcome.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/promise.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/replace.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/unanswered.h"
#include "lib/smcr/unasked.h"
#include "lib/smcr/usable.h"
#include "lib/smcr/watch.h"
#include "proto/smcr/reason.h"

/* One call of connect(). */
struct attempt {
	int fd;
	/** The program's, and perhaps invalid: not to be read before the kernel has read it. */
	const struct sockaddr *addr;
	socklen_t len;
	enum pre_policy policy;
	struct pre_file_state state; /* set by hand_over() */
	enum pre_claim claim;
	bool asked_fit; /* pre_unfit() was asked and has found nothing */
};

static int plain_connect(const struct attempt *a)
{
	return sys_result(pre_next.connect(a->fd, a->addr, a->len));
}

/* False: an earlier connect() was called on this TCP socket, and this one only asks for its
 * outcome. */
static bool is_first_connect(int fd)
{
	uint8_t state; /* the first byte of struct tcp_info */
	socklen_t len = sizeof(state);
	return sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &len) == 0 && state == TCP_CLOSE;
}

/* ---- outcomes */

/* The program keeps its TCP socket; with PRE_REQUIRE the connection is reset.
 * @param rc    result of the kernel's connect(), for the program
 * @param text  why, or NULL: `reason` says it */
static int stays_tcp(const struct attempt *a, int rc, const char *text, uint32_t reason)
{
	pre_log_fallback(a->fd, text, reason);
	if (a->policy == PRE_REQUIRE) {
		sys_disconnect(a->fd);
		return -EPROTONOSUPPORT;
	}
	if (rc == 0)
		pre_watch_forget(a->fd);
	return rc;
}

/* Why the library leaves a connection on TCP: a text for the program's user and a reason for
 * smcrd's operator. */
struct aside {
	const char *text; /* NULL: the connection is not left on TCP */
	uint32_t reason;
};

static struct aside aside_unfit(int fd)
{
	const struct pre_unfit unfit = pre_unfit(fd);
	return (struct aside){ unfit.text, unfit.reason };
}

static bool goes_on(int rc)
{
	return rc == -EINPROGRESS || rc == -EINTR;
}

/* Leave the connection on TCP, after connect(). @param rc result of connect() */
static int steps_aside(const struct attempt *a, int rc, struct aside why)
{
	if (rc == 0 || goes_on(rc))
		pre_tell_plain(a->fd, why.reason, false);
	return stays_tcp(a, rc, why.text, SMCR_REASON_NONE);
}

/*
 * The handshake has, or may have, promised SMC-R, but there is no daemon to keep the promise, and
 * the peer waits for CLC. No byte has passed, so another connection without the option does as
 * well, unless the server accepts only one.
 */
static int connect_again_plain(const struct attempt *a, struct aside why)
{
	sys_disconnect(a->fd);
	if (pre_unclaim(a->fd) < 0) {
		pre_log(a->fd, "failed: no daemon, and the SMC option cannot be taken back");
		return -ECONNRESET;
	}
	if (a->policy == PRE_REQUIRE)
		return stays_tcp(a, -EPROTONOSUPPORT, why.text, SMCR_REASON_NONE);
	return steps_aside(a, plain_connect(a), why);
}

/* Where it is known that SMC-R was promised, a Decline makes the connection plain TCP, and the
 * peer's program does not notice. @param rc result of connect() */
static int decline_or_connect_again(const struct attempt *a, int rc, struct aside why)
{
	if (a->policy != PRE_REQUIRE && pre_negotiated(a->fd) == IPC_NEGOTIATED_YES &&
	    pre_promise_withdraw(a->fd, why.reason) == 0)
		return steps_aside(a, rc, why);
	return connect_again_plain(a, why);
}

static int not_handed(const struct attempt *a, int rc, const struct pre_handover *handover)
{
	const struct aside why = { handover->text, pre_reason_not_handed(handover->error) };
	if (a->claim == PRE_CLAIM_MADE)
		return decline_or_connect_again(a, rc, why);
	return stays_tcp(a, rc, why.text, SMCR_REASON_NONE);
}

/* The daemon has let go of the socket. @param reason  enum smcr_reason */
static int given_back(const struct attempt *a, int rc, uint32_t reason)
{
	/* A daemon without BPF does not know what the daemon before it has promised. */
	if (a->claim == PRE_CLAIM_MADE && reason == SMCR_REASON_NO_BPF)
		return connect_again_plain(a, (struct aside){ "smcrd was started anew, without BPF",
							      SMCR_REASON_NONE });
	return stays_tcp(a, rc, NULL, reason);
}

/* The connection has ended during the rendezvous. @param error  positive errno */
static int failed(const struct attempt *a, int error)
{
	pre_log(a->fd, "failed during the rendezvous");
	sys_disconnect(a->fd);
	return -error;
}

/* The daemon may have sent CLC messages, so this connection cannot be used any more. */
static int lost(const struct attempt *a)
{
	pre_log(a->fd, "failed: smcrd went away, or stands still, during the rendezvous");
	sys_disconnect(a->fd);
	return -ECONNRESET;
}

/* A blocking connect(): the connection is there. */
static int take_connected(const struct attempt *a, const struct pre_handover *handover)
{
	if (pre_replace(a->fd, &a->state, handover->fd, PRE_REPLACE_CONNECTED) < 0)
		return lost(a);
	pre_watch_forget(a->fd);
	pre_log(a->fd, handover->handed == PRE_HANDED_OPEN ? PRE_LOG_OPEN : "SMC-R");
	return 0;
}

/* A non-blocking or interrupted connect() that goes on in the background. */
static int take_connecting(const struct attempt *a, int rc, int pair)
{
	uint64_t cookie;
	pre_pair_owe_success(pair);
	if (pre_replace(a->fd, &a->state, pair, PRE_REPLACE_CONNECTED) < 0 ||
	    pre_cookie(a->fd, &cookie) < 0)
		return lost(a);
	pre_pending_add(a->fd, cookie);
	return rc == 0 ? -EINPROGRESS : rc;
}

static bool is_any(const union ipc_addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
	return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

/* The peer's address, which the kernel does not tell before the handshake ends. The kernel takes
 * the address "any" for the host's own. */
static union ipc_addr peer_of(const struct attempt *a)
{
	union ipc_addr peer = { .sa = { .sa_family = AF_UNSPEC } }, own;
	socklen_t len = sizeof(own);
	memcpy(&peer, a->addr, a->len < sizeof(peer) ? a->len : sizeof(peer));
	if (is_any(&peer) && sys_getsockname(a->fd, &own, &len) == 0) {
		if (peer.sa.sa_family == AF_INET6)
			peer.in6.sin6_addr = own.in6.sin6_addr;
		else
			peer.in.sin_addr = own.in.sin_addr;
	}
	if (peer.sa.sa_family == AF_INET6)
		peer.in6.sin6_flowinfo = 0;
	return peer;
}

/* @param rc  0, or the error of a connect() that goes on in the background */
static int hand_over(struct attempt *a, int rc)
{
	struct pre_handover handover;
	if (pre_file_state(a->fd, &a->state) < 0)
		return -EBADF; /* the program has closed the descriptor meanwhile */
	bool wait = rc == 0 && !(a->state.status & O_NONBLOCK);
	union ipc_addr peer = peer_of(a);
	pre_ask_handover(a->fd, wait ? IPC_HANDOVER_CONNECTED : IPC_HANDOVER_CONNECTING,
			 wait ? NULL : &peer, a->policy, &handover);
	/* The daemon had the open file too, and has made it non-blocking. */
	if (handover.fd < 0 && handover.handed != PRE_NOT_HANDED)
		pre_restore_status(a->fd, &a->state);
	switch (handover.handed) {
	case PRE_HANDED_PAIR:
	case PRE_HANDED_OPEN:
		return wait ? take_connected(a, &handover) : take_connecting(a, rc, handover.fd);
	case PRE_HANDED_TCP: return given_back(a, rc, handover.reason);
	case PRE_HANDED_FAILED: return failed(a, handover.error);
	case PRE_NOT_HANDED: return not_handed(a, rc, &handover);
	case PRE_HANDED_LOST: break;
	}
	return lost(a);
}

/* The answer decides whether later connections to this server are asked about. */
static void note_answer(const struct attempt *a, enum ipc_negotiated negotiated)
{
	union ipc_addr to;
	if ((negotiated != IPC_NEGOTIATED_NO && negotiated != IPC_NEGOTIATED_YES) ||
	    !pre_unasked_copy(a->addr, a->len, &to))
		return;
	if (negotiated == IPC_NEGOTIATED_NO)
		pre_unasked_plain(a->fd, &to);
	else
		pre_unasked_answered(a->fd, &to);
}

static int connect_claimed(struct attempt *a)
{
	int rc = plain_connect(a);
	/* Nothing was connected, or this call was a disconnect. Without a claim a later connect()
	 * must not send the option. */
	if ((rc < 0 && !goes_on(rc)) || a->addr->sa_family == AF_UNSPEC) {
		pre_unclaim(a->fd);
		return rc;
	}
	enum ipc_negotiated negotiated = pre_negotiated(a->fd);
	note_answer(a, negotiated);
	if (negotiated == IPC_NEGOTIATED_NO)
		return stays_tcp(a, rc, NULL, pre_negotiated_reason(a->fd));
	struct aside why = { 0 };
	if (!a->asked_fit)
		why = aside_unfit(a->fd);
	if (!why.text && negotiated == IPC_NEGOTIATED_UNKNOWN && rc == 0)
		why = (struct aside){ "smcrd was started anew during the handshake",
				      SMCR_REASON_NOT_CLAIMED };
	return why.text ? decline_or_connect_again(a, rc, why) : hand_over(a, rc);
}

/* End a claim that an earlier connect() with another policy may have made. */
static int connect_without(const struct attempt *a)
{
	pre_unclaim(a->fd);
	return plain_connect(a);
}

/* Claim the socket. @return without text: it is claimed, or there is no BPF and the daemon decides;
 * else why it stays on TCP */
static struct aside claim(struct attempt *a)
{
	const struct aside unfit = aside_unfit(a->fd);
	if (unfit.text)
		return unfit;
	a->asked_fit = true;
	if (!pre_daemon_usable(false))
		return (struct aside){ "smcrd is out of reach", SMCR_REASON_NO_DAEMON };
	if (a->claim == PRE_CLAIM_UNASKED)
		a->claim = pre_claim_to_connect(a->fd, a->policy);
	if (a->claim == PRE_CLAIM_MADE || a->claim == PRE_CLAIM_NO_BPF)
		return (struct aside){ 0 };
	return (struct aside){ "the SMC option was refused for this socket",
			       SMCR_REASON_NOT_CLAIMED };
}

static int connect_tcp(struct attempt *a)
{
	if (a->policy == PRE_NEVER)
		return connect_without(a);
	const struct aside why = claim(a);
	if (why.text && a->policy == PRE_REQUIRE)
		return stays_tcp(a, -EPROTONOSUPPORT, why.text, SMCR_REASON_NONE);
	if (!why.text && a->claim == PRE_CLAIM_MADE)
		return connect_claimed(a);
	int rc = plain_connect(a);
	if (rc < 0 && !goes_on(rc))
		return rc;
	if (why.text)
		return steps_aside(a, rc, why);
	return a->addr->sa_family == AF_UNSPEC ? rc : hand_over(a, rc);
}

/*
 * Usually one system call claims the socket, or tells what it is. This is not done for the first
 * connect() of a process, so that a process that never connects by TCP does not look for the
 * daemon.
 */
static enum pre_claim claim_at_once(const struct attempt *a)
{
	if (a->policy == PRE_NEVER || !pre_daemon_known() || pre_may_be_unfit(a->fd))
		return PRE_CLAIM_UNASKED;
	return pre_claim_to_connect(a->fd, a->policy);
}

/* Connect without a claim, if the server has just not answered the option. A claim would tell what
 * the descriptor is; now it may be anything. A program with libsmcr may want to know why each of
 * its connections is TCP, so libsmcr always asks.
 * @return false: it may be a pair end */
static bool connect_unasked(const struct attempt *a, int *ret_rc)
{
	union ipc_addr to;
	if (a->policy != PRE_PREFER || !pre_sees_calls || !pre_unanswered_any() ||
	    !pre_unasked_may(a->addr, a->len, &to))
		return false;
	int rc = plain_connect(a);
	if (pre_unasked_made(a->fd, &to, rc))
		stays_tcp(a, rc, "not asked again so soon", SMCR_REASON_PEER_NO_SMC);
	*ret_rc = rc;
	return rc != -EINVAL; /* the error of a Unix socket */
}

/* ---- the whole call */

/* `fd` is no TCP socket: a pair end, or nothing that concerns SMC-R. */
static int connect_other(const struct attempt *a)
{
	struct ipc_pair_name name;
	if (pre_pair_name(a->fd, &name) == 0)
		return pre_outcome_connect(a->fd, a->addr, a->len, &name);
	return plain_connect(a);
}

int pre_connect(int fd, const struct sockaddr *addr, socklen_t len, enum pre_policy policy)
{
	struct attempt attempt = { .fd = fd, .addr = addr, .len = len, .policy = policy };
	int rc;
	if (connect_unasked(&attempt, &rc))
		return rc;
	attempt.claim = claim_at_once(&attempt);
	switch (attempt.claim) {
	case PRE_CLAIM_MADE: return connect_claimed(&attempt);
	case PRE_CLAIM_LATE: return plain_connect(&attempt);
	case PRE_CLAIM_NO_TCP: return connect_other(&attempt);
	case PRE_CLAIM_UNASKED:
	case PRE_CLAIM_NO_BPF:
	case PRE_CLAIM_REFUSED: break;
	}
	if (!pre_is_tcp(fd))
		return connect_other(&attempt);
	return is_first_connect(fd) ? connect_tcp(&attempt) : plain_connect(&attempt);
}

int pre_fast_open(int fd, enum pre_policy policy)
{
	return policy == PRE_REQUIRE && pre_is_tcp(fd) && is_first_connect(fd) ? -EOPNOTSUPP : 0;
}
