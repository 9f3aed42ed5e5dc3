/* SPDX-License-Identifier: MIT */
/*
 * Limits on what users and all of them together may hold, and the daemon's own descriptors. At a
 * limit the SMC option is left off, so that new connections are plain TCP from the start; a socket
 * whose peer was promised SMC-R just before is refused, and its program declines (refusal.c).
 *
 * A limit ends some way below the number at which it begins, or every connection that ends would
 * promise one that cannot be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define SLACK_SHARE   8  /* a limit ends this part of it below */
#define SHORT_AT      8  /* fewer free descriptors than this are a shortage, */
#define ENOUGH_AT     32 /* which ends when this many are free */
#define CHECK_SECONDS 1
#define LOG_MS        60000 /* no line about the same limit sooner */
/* What a connection takes (TCP socket, pair end, session), and what the rest of the daemon does. */
#define FDS_A_CONN    3
#define FDS_OF_OTHERS 128

/* ---- numbers */

static bool is_at(uint32_t held, uint32_t limit, bool already)
{
	uint32_t slack = already ? (limit + SLACK_SHARE - 1) / SLACK_SHARE : 0;
	return already ? held > limit - slack : held >= limit;
}

static bool all_at_limit(const struct clients *clients)
{
	const struct clients_limits *limits = &clients->config.limits;
	bool already = clients->limited == SMCR_REASON_LIMIT;
	return is_at(clients->counts.conns, limits->conns, already) ||
	       is_at(clients->counts.sessions, limits->sessions, already);
}

static bool user_at_limit(const struct clients *clients, const struct quota *quota)
{
	const struct clients_limits *limits = &clients->config.limits;
	return is_at(quota->conns, limits->conns_per_uid, quota->limited) ||
	       is_at(quota->sessions, limits->sessions_per_uid, quota->limited);
}

static bool may_log(uint64_t *last_ms)
{
	uint64_t now = clients_now_ms();
	if (*last_ms && now - *last_ms < LOG_MS)
		return false;
	*last_ms = now;
	return true;
}

static void update_all(struct clients *clients)
{
	enum smcr_reason reason = SMCR_REASON_NONE;
	if (clients->short_of_fds)
		reason = SMCR_REASON_NO_DESCRIPTORS;
	else if (all_at_limit(clients))
		reason = SMCR_REASON_LIMIT;
	if (reason == clients->limited)
		return;
	clients->limited = reason;
	rdv_option_limit(clients->config.option, reason);
	if (reason != SMCR_REASON_NONE && may_log(&clients->limit_logged_ms))
		clients_log(clients, LOG_WARNING,
			    "new connections stay TCP: %s (%u connections, %u sessions)",
			    smcr_reason_text(reason), clients->counts.conns,
			    clients->counts.sessions);
}

static void update_user(struct clients *clients, struct quota *quota)
{
	bool limited = user_at_limit(clients, quota);
	if (limited == quota->limited)
		return;
	quota->limited = limited;
	rdv_option_limit_user(clients->config.option, quota->uid,
			      limited ? SMCR_REASON_LIMIT : SMCR_REASON_NONE);
	if (limited && may_log(&quota->limit_logged_ms))
		clients_log(clients, LOG_WARNING,
			    "new connections of user %u stay TCP: it has %u connections and %u "
			    "sessions (max_connections_per_user, max_sessions_per_user)",
			    (unsigned int)quota->uid, quota->conns, quota->sessions);
}

void limits_update(struct clients *clients, struct quota *quota)
{
	if (clients->freeing)
		return;
	update_all(clients);
	update_user(clients, quota);
}

void limits_each(const struct clients *clients,
		 void (*fn)(void *arg, const struct limit_view *view), void *arg)
{
	const struct quota *quota, *next;
	struct limit_view view = { .everybody = true, .reason = clients->limited };
	if (clients->limited != SMCR_REASON_NONE)
		fn(arg, &view);
	HASH_ITER (hh, clients->quotas, quota, next) {
		view = (struct limit_view){ .uid = quota->uid, .reason = SMCR_REASON_LIMIT };
		if (quota->limited)
			fn(arg, &view);
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
	struct clients *clients = arg;
	const struct timeval period = { .tv_sec = CHECK_SECONDS };
	(void)fd;
	(void)what;
	if (!has_free(clients->plug_fd, ENOUGH_AT)) {
		evtimer_add(clients->limit_check, &period);
		return;
	}
	clients->short_of_fds = false;
	update_all(clients);
}

void limits_look_at_descriptors(struct clients *clients)
{
	const struct timeval period = { .tv_sec = CHECK_SECONDS };
	/* Clients can make calls fail as if there was a shortage. */
	if (clients->short_of_fds || has_free(clients->plug_fd, SHORT_AT))
		return;
	clients->short_of_fds = true;
	update_all(clients);
	evtimer_add(clients->limit_check, &period);
}

int limits_accept_anyway(struct clients *clients, int listen_fd)
{
	if (clients->spare_fd < 0)
		return -EMFILE;
	close(clients->spare_fd);
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int error = errno;
	if (fd >= 0)
		session_refuse(fd, EMFILE, smcr_reason_text(SMCR_REASON_NO_DESCRIPTORS));
	clients->spare_fd = fcntl(clients->plug_fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -error : 0;
}

/* ---- life */

/* Where the process may have fewer descriptors than the limit of connections takes. */
static void fit_to_descriptors(struct clients_limits *limits)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
		return;
	rlim_t room = files.rlim_cur > FDS_OF_OTHERS ? files.rlim_cur - FDS_OF_OTHERS : 0;
	if (limits->conns > room / FDS_A_CONN)
		limits->conns = room < FDS_A_CONN ? 1 : (uint32_t)(room / FDS_A_CONN);
}

int limits_open(struct clients *clients)
{
	fit_to_descriptors(&clients->config.limits);
	clients->limit_check = evtimer_new(clients->config.base, on_check, clients);
	clients->spare_fd = fcntl(clients->plug_fd, F_DUPFD_CLOEXEC, 0);
	if (!clients->limit_check)
		return -ENOMEM;
	return clients->spare_fd < 0 ? -errno : 0;
}

void limits_close(struct clients *clients)
{
	if (clients->limit_check)
		event_free(clients->limit_check);
	if (clients->spare_fd >= 0)
		close(clients->spare_fd);
	clients->limit_check = NULL;
	clients->spare_fd = -1;
}
