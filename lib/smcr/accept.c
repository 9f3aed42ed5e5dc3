/* SPDX-License-Identifier: MIT */
/*
 * listen(), accept() and accept4(): a connection whose handshake carried the SMC option goes to the
 * daemon, and the program gets a pair end with the same number and flags.
 */
#include <stdint.h>

#include "lib/smcr/bar.h"
#include "lib/smcr/calls.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/fit.h"
#include "lib/smcr/log.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/promise.h"
#include "lib/smcr/replace.h"
#include "lib/smcr/session.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"
#include "proto/smcr/reason.h"

static const char offered[] = "SMC-R offered";
static const char out_of_reach[] = "smcrd is out of reach";

/* What became of a listener. */
struct claimed {
	const char *text; /* what -v shows for it; NULL: no TCP socket */
	uint32_t plain;   /* enum smcr_reason why its connections are plain TCP */
};

/* Claim the listener if it can be claimed. */
static struct claimed claim_listener(int fd, bool daemon_alive, enum pre_policy policy)
{
	if (!pre_is_tcp(fd))
		return (struct claimed){ 0 };
	const struct pre_unfit unfit = pre_unfit_to_accept(fd, fd);
	if (unfit.text) {
		pre_unclaim(fd); /* it may listen already */
		return (struct claimed){ unfit.text, unfit.reason };
	}
	if (!pre_daemon_usable(daemon_alive))
		return (struct claimed){ out_of_reach, SMCR_REASON_NO_DAEMON };
	if (pre_is_barred(fd))
		return (struct claimed){ "a program that cannot use SMC-R may accept there too",
					 SMCR_REASON_BARRED };
	pre_note_listener();
	switch (pre_claim(fd, policy)) {
	case PRE_CLAIM_MADE: return (struct claimed){ .text = offered };
	case PRE_CLAIM_NO_BPF:
		return (struct claimed){ .text = "smcrd decides without the SMC option" };
	default: break;
	}
	return (struct claimed){ "the SMC option was refused for this socket",
				 SMCR_REASON_NOT_CLAIMED };
}

/* listen() has failed. Whoever connects the socket past the library would promise SMC-R, and nobody
 * would speak CLC. A socket that listens since an earlier call keeps its claim. */
static void take_claim_back(int fd)
{
	int listens;
	if (sys_get_int(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens) == 0 && !listens)
		pre_unclaim(fd);
}

int pre_listen(int fd, int backlog, enum pre_policy policy)
{
	struct claimed claimed = { 0 };
	if (policy == PRE_NEVER)
		pre_unclaim(fd);
	else
		claimed = claim_listener(fd, false, policy);
	int rc = sys_result(pre_next.listen(fd, backlog));
	if (rc < 0 && claimed.text == offered)
		take_claim_back(fd);
	else if (rc == 0 && claimed.text)
		pre_log_listener(fd, claimed.plain, claimed.text);
	return rc;
}

/* ---- one accepted connection: the program gets it, or it is dropped */

struct incoming {
	int listener;
	int fd;
	enum pre_policy policy;
};

/* Close the connection with a reset. @return false */
static bool drop(int fd)
{
	const struct linger reset = { .l_onoff = 1 };
	sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	sys_close(fd);
	return false;
}

static bool stays_tcp(const struct incoming *in, const char *text, uint32_t reason)
{
	bool required = in->policy == PRE_REQUIRE;
	if ((!required && !pre_settings.verbose) || !pre_is_tcp(in->fd))
		return true;
	pre_log_fallback(in->fd, text, reason);
	return required ? drop(in->fd) : true;
}

/* The peer was promised SMC-R and waits for CLC: send a Decline in the daemon's place. */
static bool decline(const struct incoming *in, const char *text, uint32_t reason)
{
	int rc = in->policy == PRE_REQUIRE ? -EPROTONOSUPPORT : pre_promise_decline(in->fd, reason);
	if (rc < 0) {
		pre_log(in->fd, "dropped: the handshake promised SMC-R");
		pre_log_fallback(in->fd, text, reason);
		return drop(in->fd);
	}
	pre_promise_forget(in->listener, in->fd);
	pre_tell_plain(in->fd, reason, true);
	return stays_tcp(in, text, reason);
}

/*
 * smcrd did not take the connection. Later peers must not be promised SMC-R in vain, so the
 * listener loses its claim; take() claims it again when smcrd answers.
 *
 * The claim stays where smcrd leaves the option off by itself: at a limit, for the user who has
 * claimed (this one, so the claim is made anew), without free descriptors, while it stops, and
 * while it stands still. The claim stays too if this process lacks descriptors, or one of the two
 * lacks memory: that is over soon, and other processes may accept there, or have claimed listeners
 * at this address, which answer with the option only while this one is claimed too.
 */
static bool keeps_claim(const struct pre_handover *handover)
{
	return handover->error == PRE_STANDS_STILL || handover->error == ESHUTDOWN ||
	       handover->short_of;
}

static bool not_handed(const struct incoming *in, bool promised,
		       const struct pre_handover *handover)
{
	if (!promised)
		return stays_tcp(in, handover->text, SMCR_REASON_NONE);
	if (handover->error == EUSERS)
		pre_claim(in->listener, in->policy);
	else if (!keeps_claim(handover))
		pre_unclaim(in->listener);
	return decline(in, handover->text, pre_reason_not_handed(handover->error));
}

static bool take_pair(int fd, const struct pre_file_state *state, int pair)
{
	if (pre_replace(fd, state, pair, PRE_REPLACE_ACCEPTED) < 0)
		return drop(fd);
	pre_log(fd, "SMC-R rendezvous begun");
	return true;
}

/* The program has set the option when the listener was claimed. */
static bool leave_unfit(const struct incoming *in, bool promised, struct pre_unfit why)
{
	pre_unclaim(in->listener);
	return promised ? decline(in, why.text, why.reason) : stays_tcp(in, why.text, why.reason);
}

static bool hand_over(const struct incoming *in, bool promised)
{
	const int fd = in->fd;
	const struct pre_unfit unfit = pre_unfit_to_accept(fd, in->listener);
	if (unfit.text)
		return leave_unfit(in, promised, unfit);
	struct pre_handover handover;
	struct pre_file_state state;
	if (pre_file_state(fd, &state) < 0)
		return drop(fd);
	pre_ask_handover(fd, IPC_HANDOVER_ACCEPTED, NULL, in->policy, &handover);
	switch (handover.handed) {
	case PRE_HANDED_PAIR:
	case PRE_HANDED_OPEN: return take_pair(fd, &state, handover.fd);
	case PRE_HANDED_TCP:
		pre_restore_status(fd, &state);
		return stays_tcp(in, NULL, handover.reason);
	case PRE_NOT_HANDED: return not_handed(in, promised, &handover);
	case PRE_HANDED_LOST:
		sys_disconnect(fd); /* close() sends no reset while smcrd has a descriptor too */
		break;
	case PRE_HANDED_FAILED: break;
	}
	pre_log(fd, "dropped: smcrd could not take it");
	return drop(fd);
}

/* No BPF program answers for the connection: its daemon has ended, or there never was one. */
static bool take_unanswered(const struct incoming *in)
{
	if (pre_promise_stands(in->listener, in->fd))
		return hand_over(in, true);
	if (pre_daemon_usable(false))
		return hand_over(in, false);
	return stays_tcp(in, "smcrd is out of reach", SMCR_REASON_NONE);
}

/*
 * The listener is not claimed: claim it, for the next connections.
 * @param known  this daemon has seen the handshake, and promised nothing. Otherwise the listener
 *               is older than the daemon, and an earlier one may have promised SMC-R
 */
static bool take_older(const struct incoming *in, bool known)
{
	const struct claimed claimed = claim_listener(in->listener, true, in->policy);
	if (claimed.text != out_of_reach) /* else each connection would log it */
		pre_log_listener(in->listener, claimed.plain, claimed.text);
	if (!known && pre_promise_stands(in->listener, in->fd))
		return hand_over(in, true);
	const uint32_t reason = claimed.plain ? claimed.plain : SMCR_REASON_NOT_CLAIMED;
	pre_tell_plain(in->fd, reason, true);
	return stays_tcp(in, NULL, reason);
}

/* Only the peer's first bytes tell whether it was promised SMC-R. */
static bool take_doubtful(const struct incoming *in)
{
	if (pre_promise_stands(in->listener, in->fd))
		return hand_over(in, true);
	pre_tell_plain(in->fd, SMCR_REASON_OPTION_REMOVED, true);
	return stays_tcp(in, NULL, SMCR_REASON_OPTION_REMOVED);
}

/* The call wants plain TCP. The listener may have had another policy at the handshake: then the
 * peer expects CLC and is declined. */
static bool take_plain(const struct incoming *in, int negotiated)
{
	if (negotiated == IPC_NEGOTIATED_NO || negotiated == IPC_NEGOTIATED_UNCLAIMED ||
	    !pre_is_tcp(in->fd) ||
	    (negotiated != IPC_NEGOTIATED_YES && !pre_promise_stands(in->listener, in->fd)))
		return true;
	return decline(in, "plain TCP is wanted", SMCR_REASON_LOCAL_POLICY);
}

/** @return false: the connection was dropped, accept the next one */
static bool take(const struct incoming *in)
{
	int negotiated = pre_negotiated(in->fd);
	if (negotiated > IPC_NEGOTIATED_UNKNOWN)
		pre_promise_answered();
	if (in->policy == PRE_NEVER)
		return take_plain(in, negotiated);
	switch (negotiated) {
	case IPC_NEGOTIATED_YES:
		pre_note_listener(); /* another process may have claimed it */
		return hand_over(in, true);
	case IPC_NEGOTIATED_NO: return stays_tcp(in, NULL, pre_negotiated_reason(in->fd));
	case IPC_NEGOTIATED_UNCLAIMED: return take_older(in, true);
	case IPC_NEGOTIATED_DOUBTFUL: return take_doubtful(in);
	case IPC_NEGOTIATED_UNKNOWN: return take_older(in, false);
	case -ENOPROTOOPT:
	case -EOPNOTSUPP:
		/* No BPF program handles the private options; IPv6 and IPv4 sockets have different
		 * errors for that. */
		if (pre_is_tcp(in->fd))
			return take_unanswered(in);
		return stays_tcp(in, NULL, SMCR_REASON_NO_BPF);
	default: return stays_tcp(in, "no socket that SMC-R can serve", SMCR_REASON_NONE);
	}
}

/* ---- accept() and accept4(): after a dropped connection they go on with the next */

int pre_accept(int fd, struct sockaddr *addr, socklen_t *len, enum pre_policy policy)
{
	const socklen_t room = pre_room_at(len);
	for (;;) {
		int rc = sys_result(pre_next.accept(fd, addr, len));
		const struct incoming in = { .listener = fd, .fd = rc, .policy = policy };
		if (rc >= 0)
			pre_path_note_socket(rc);
		if (rc < 0 || take(&in))
			return rc;
		if (len)
			*len = room;
	}
}

int pre_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags, enum pre_policy policy)
{
	const socklen_t room = pre_room_at(len);
	for (;;) {
		int rc = sys_result(pre_next.accept4(fd, addr, len, flags));
		const struct incoming in = { .listener = fd, .fd = rc, .policy = policy };
		if (rc >= 0)
			pre_path_note_socket(rc);
		if (rc < 0 || take(&in))
			return rc;
		if (len)
			*len = room;
	}
}
