/* SPDX-License-Identifier: MIT */
/*
 * How many connections, sessions and descriptors one user and all users may hold, and what is done
 * when the daemon runs out of descriptors. Each is shared out by what is left: a user who takes all
 * that it can leaves some for others, and no user can keep others out. At a limit new connections
 * carry no SMC-R option, so they are plain TCP from the start. A socket whose peer was promised
 * SMC-R just before is refused, and its program declines (daemon/clients/refusal.c).
 *
 * A limit that was reached is lifted only some way below. Otherwise each connection that ends would
 * let many new handshakes promise SMC-R, of which one could have it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

#define SLACK_SHARE   8          /* a limit is lifted at 1/8 below it */
#define RESERVED      64         /* sessions beyond the limit, for administrators' tools */
#define UNSENT_MOST   (1u << 20) /* bytes of replies that a user's tools may leave unread */
#define SHORT_AT      8          /* fewer free descriptors than this are a shortage */
#define ENOUGH_AT     32         /* free descriptors at which a shortage ends */
#define CHECK_SECONDS 1
#define LOG_MS        60000 /* least time between two lines about the same limit */
#define FDS_OF_OTHERS 128   /* descriptors of the rest of the daemon */
/* Enough for one session with one connection, also where that is more than the process may open. */
#define FDS_LEAST (FDS_OF_SESSION + FDS_OF_NEW_CONN)
/* A user may hold twice as much as is left: so a user who is alone has two thirds. Two descriptors
 * of each connection are in use for long, and three were set aside, whoever had them. So such a
 * user has no fewer connections than if there were no shares. */
#define TIMES_LEFT 2

/* ---- numbers */

static bool is_at(uint32_t held, uint32_t limit, bool already)
{
	uint32_t slack = already ? (limit + SLACK_SHARE - 1) / SLACK_SHARE : 0;
	return already ? held > limit - slack : held >= limit;
}

static uint32_t left_of(uint32_t limit, uint32_t held)
{
	return limit > held ? limit - held : 0;
}

/* What a user may hold if so much is left. */
static uint32_t share_of(uint32_t left)
{
	return left > UINT32_MAX / TIMES_LEFT ? UINT32_MAX : left * TIMES_LEFT;
}

/* Threads close descriptors, so these are counted anew each time. */
static uint32_t files_of_all(const struct conns *conns)
{
	return conns->files + close_pending_of_all();
}

static uint32_t files_of(const struct quota *quota)
{
	return quota->files + close_pending(quota);
}

static uint32_t files_left(const struct conns *conns)
{
	return left_of(conns->files_most, files_of_all(conns));
}

/* Limits are reached when there is no room for what a further connection takes. */
static bool files_are_at(uint32_t held, uint32_t limit, bool already)
{
	return is_at(held + FDS_OF_NEW_CONN - 1, limit, already);
}

static bool all_at_limit(const struct conns *conns)
{
	const struct conns_limits *limits = &conns->config.limits;
	bool already = conns->limited == SMCR_REASON_LIMIT;
	return is_at(conns->counts.conns, limits->conns, already) ||
	       is_at(conns->sessions, limits->sessions, already) ||
	       files_are_at(files_of_all(conns), conns->files_most, already);
}

static uint32_t conn_share(const struct conns *conns)
{
	const struct conns_limits *limits = &conns->config.limits;
	uint32_t share = share_of(left_of(limits->conns, conns->counts.conns));
	return share < limits->conns_per_uid ? share : limits->conns_per_uid;
}

/* How many sessions a user may have: at most as many as are free. */
static uint32_t session_share(const struct conns *conns)
{
	const struct conns_limits *limits = &conns->config.limits;
	uint32_t left = left_of(limits->sessions, conns->sessions);
	return left < limits->sessions_per_uid ? left : limits->sessions_per_uid;
}

/* If nothing is left for anybody, a user who holds nothing is not at a limit of its own. */
static bool user_at_limit(const struct conns *conns, const struct quota *quota)
{
	const uint32_t files = files_of(quota);
	return (quota->conns && is_at(quota->conns, conn_share(conns), quota->limited)) ||
	       (quota->sessions && is_at(quota->sessions, session_share(conns), quota->limited)) ||
	       (files && files_are_at(files, share_of(files_left(conns)), quota->limited));
}

bool limits_allow_files(const struct conns *conns, const struct quota *quota, uint32_t more)
{
	const uint32_t left = files_left(conns);
	return left >= more && files_of(quota) + more <= share_of(left);
}

bool limits_allow_conn(const struct conns *conns, const struct quota *quota)
{
	return conns->counts.conns < conns->config.limits.conns &&
	       quota->conns < conn_share(conns) &&
	       limits_allow_files(conns, quota, FDS_OF_NEW_CONN);
}

/* Nothing tells when there is room again for a user whose share was small: others have ended
 * connections, or a thread has closed descriptors. */
static void check_later(struct conns *conns)
{
	const struct timeval period = { .tv_sec = CHECK_SECONDS };
	if (!event_pending(conns->limit_check, EV_TIMEOUT, NULL))
		evtimer_add(conns->limit_check, &period);
}

static void update_all(struct conns *conns)
{
	enum smcr_reason reason = SMCR_REASON_NONE;
	if (conns->short_of_fds)
		reason = SMCR_REASON_NO_DESCRIPTORS;
	else if (all_at_limit(conns))
		reason = SMCR_REASON_LIMIT;
	if (reason == conns->limited)
		return;
	conns->limited = reason;
	rdv_option_limit(conns->config.option, reason);
	if (reason == SMCR_REASON_NONE)
		return;
	check_later(conns);
	const uint64_t now = conns_now_ms();
	if (conns->limit_logged_ms && now - conns->limit_logged_ms < LOG_MS)
		return;
	conns->limit_logged_ms = now;
	conns_log(conns, LOG_WARNING,
		  "new connections stay TCP: %s (connections: %u, sessions: %u, files for them: %u "
		  "of %u)",
		  smcr_reason_text(reason), conns->counts.conns, conns->sessions,
		  files_of_all(conns), conns->files_most);
}

static void update_user(struct conns *conns, struct quota *quota)
{
	bool limited = user_at_limit(conns, quota);
	if (limited == quota->limited)
		return;
	quota->limited = limited;
	rdv_option_limit_user(conns->config.option, quota->uid,
			      limited ? SMCR_REASON_LIMIT : SMCR_REASON_NONE);
	if (!limited)
		return;
	check_later(conns);
	conns_warn_of_user(
		conns, quota->uid, "limit",
		"new connections of user %u stay TCP: it is at a limit of smcrd.conf "
		"(max_connections_per_user: it has %u; max_sessions_per_user: it has %u), "
		"or has its share of what is left for all (files: it has %u, and %u are "
		"left; LimitNOFILE= of the service)",
		(unsigned int)quota->uid, quota->conns, quota->sessions, files_of(quota),
		files_left(conns));
}

void limits_update(struct conns *conns, struct quota *quota)
{
	if (conns->freeing)
		return;
	update_all(conns);
	update_user(conns, quota);
}

/* A user whose connections take its share of the files still gets sessions, by which programs use
 * these connections. */
static bool files_allow_session(const struct conns *conns, const struct quota *quota)
{
	const uint32_t left = files_left(conns);
	return left >= FDS_OF_SESSION && (quota->sessions + 1) * FDS_OF_SESSION <= share_of(left);
}

bool limits_allow_session(struct conns *conns, struct quota *quota, char *ret_why, size_t len)
{
	const struct conns_limits *limits = &conns->config.limits;
	unsigned int uid = (unsigned int)quota->uid;
	if (close_overdue(quota))
		snprintf(ret_why, len, "too many sockets of user %u are still being closed", uid);
	else if (quota->sessions >= limits->sessions_per_uid)
		snprintf(ret_why, len,
			 "user %u has %u sessions with smcrd, as many as it may "
			 "(max_sessions_per_user)",
			 uid, quota->sessions);
	else if (quota->sessions >= session_share(conns))
		snprintf(ret_why, len,
			 "user %u has %u sessions with smcrd, and no more than these are left for "
			 "all others",
			 uid, quota->sessions);
	else if (!files_allow_session(conns, quota))
		snprintf(ret_why, len,
			 "user %u has %u sessions with smcrd, which may open %u files more only "
			 "(LimitNOFILE=)",
			 uid, quota->sessions, files_left(conns));
	else
		return true;
	limits_update(conns, quota); /* sessions of others may have made the user's share smaller */
	return false;
}

bool limits_take_reserved(struct conns *conns)
{
	if (conns->reserved == RESERVED)
		return false;
	conns->reserved++;
	return true;
}

void limits_give_reserved(struct conns *conns)
{
	conns->reserved--;
}

bool limits_count_unsent(struct quota *quota, ssize_t change)
{
	quota->unsent += (size_t)change;
	return quota->unsent <= UNSENT_MOST;
}

void limits_count_session(struct conns *conns, struct quota *quota, int change)
{
	conns->sessions += (uint32_t)change;
	quota->sessions += (uint32_t)change;
	limits_count_files(conns, quota, change * FDS_OF_SESSION);
	limits_update(conns, quota);
}

void limits_count_files(struct conns *conns, struct quota *quota, int change)
{
	conns->files += (uint32_t)change;
	quota->files += (uint32_t)change;
}

void limits_each(const struct conns *conns, void (*fn)(void *arg, const struct limit_view *view),
		 void *arg)
{
	const struct quota *quota, *next;
	struct limit_view view = { .everybody = true, .reason = conns->limited };
	if (conns->limited != SMCR_REASON_NONE)
		fn(arg, &view);
	HASH_ITER (hh, conns->quotas, quota, next) {
		view = (struct limit_view){ .uid = quota->uid, .reason = SMCR_REASON_LIMIT };
		if (quota->limited)
			fn(arg, &view);
	}
}

/* ---- quotas */

struct quota *quota_get(struct conns *conns, uid_t uid)
{
	struct quota *quota;
	HASH_FIND(hh, conns->quotas, &uid, sizeof(uid), quota);
	if (quota)
		return quota;
	quota = calloc(1, sizeof(*quota));
	if (!quota)
		return NULL;
	quota->uid = uid;
	HASH_ADD(hh, conns->quotas, uid, sizeof(uid), quota);
	return quota;
}

void quota_put(struct conns *conns, struct quota *quota)
{
	if (!quota || quota->sessions || quota->tools || quota->conns || quota->failed ||
	    quota->fins || close_pending(quota))
		return;
	if (quota->limited &&
	    !conns->freeing) /* the user's share was small when update_user() ran last */
		rdv_option_limit_user(conns->config.option, quota->uid, SMCR_REASON_NONE);
	HASH_DELETE(hh, conns->quotas, quota);
	free(quota);
}

void quota_free_all(struct conns *conns)
{
	struct quota *quota, *next;
	HASH_ITER (hh, conns->quotas, quota, next) {
		HASH_DELETE(hh, conns->quotas, quota);
		close_abandon(quota);
	}
}

/* ---- descriptors */

static bool has_free(int fd, unsigned int count)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return false;
	bool enough = count == 1 || has_free(fd, count - 1);
	close(copy);
	return enough;
}

static void on_check(evutil_socket_t fd, short what, void *arg)
{
	struct conns *conns = arg;
	struct quota *quota, *next;
	bool limited = false;
	(void)fd;
	(void)what;
	if (conns->short_of_fds)
		conns->short_of_fds = !has_free(conns->plug_fd, ENOUGH_AT);
	update_all(conns);
	HASH_ITER (hh, conns->quotas, quota, next) {
		if (quota->limited)
			update_user(conns, quota);
		limited |= quota->limited;
	}
	if (limited || conns->limited != SMCR_REASON_NONE)
		check_later(conns);
}

bool limits_out_of_descriptors(struct conns *conns)
{
	/* Clients can make a call fail in the same way, so look whether descriptors are short. */
	if (conns->short_of_fds || has_free(conns->plug_fd, SHORT_AT))
		return conns->short_of_fds;
	conns->short_of_fds = true;
	update_all(conns);
	return true;
}

bool limits_spend_spare(struct conns *conns)
{
	if (conns->spare_fd < 0)
		return false;
	close(conns->spare_fd);
	conns->spare_fd = -1;
	return true;
}

void limits_get_spare(struct conns *conns)
{
	conns->spare_fd = fcntl(conns->plug_fd, F_DUPFD_CLOEXEC, 0);
}

/* ---- life */

/* How many descriptors users may hold, by RLIMIT_NOFILE. */
static uint32_t files_for_users(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > UINT32_MAX)
		return UINT32_MAX;
	return files.rlim_cur < FDS_OF_OTHERS + FDS_LEAST
		       ? FDS_LEAST
		       : (uint32_t)files.rlim_cur - FDS_OF_OTHERS;
}

uint32_t conns_most(const struct conns *conns)
{
	const uint32_t most = conns->files_most / FDS_OF_NEW_CONN;
	return most < conns->config.limits.conns ? most : conns->config.limits.conns;
}

void limits_changed(struct conns *conns)
{
	struct quota *quota, *next;
	conns->files_most = files_for_users();
	update_all(conns);
	HASH_ITER (hh, conns->quotas, quota, next)
		update_user(conns, quota);
}

int limits_open(struct conns *conns)
{
	conns->files_most = files_for_users();
	conns->limit_check = evtimer_new(conns->config.base, on_check, conns);
	limits_get_spare(conns);
	if (!conns->limit_check)
		return -ENOMEM;
	return conns->spare_fd < 0 ? -errno : 0;
}

void limits_close(struct conns *conns)
{
	if (conns->limit_check)
		event_free(conns->limit_check);
	if (conns->spare_fd >= 0)
		close(conns->spare_fd);
	conns->limit_check = NULL;
	conns->spare_fd = -1;
}
