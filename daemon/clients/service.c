/* SPDX-License-Identifier: MIT */
/* The listening sockets: the socket file and the abstract addresses. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syslog.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clients/internal.h"
#include "daemon/host/holder.h"

#define BACKLOG       1024
#define ACCEPTS       64 /* sessions accepted in one turn of the event loop */
#define PAUSE_SECONDS 1
#define NUMBER_TRIES  8

/* ---- accepting ---- */

static void pause_accepting(struct clients *clients, int error)
{
	const struct timeval delay = { .tv_sec = PAUSE_SECONDS };
	event_del(clients->listen_event);
	for (int i = 0; i < NUM_ABSTRACT; i++)
		if (clients->abstract[i].event)
			event_del(clients->abstract[i].event);
	evtimer_add(clients->listen_pause, &delay);
	conns_log(clients->conns, LOG_WARNING,
		  "%s: cannot accept sessions for now: %s; raise the limit of open files",
		  clients->config.socket_path, strerror(error));
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct clients *clients = arg;
	(void)fd;
	(void)what;
	event_add(clients->listen_event, NULL);
	for (int i = 0; i < NUM_ABSTRACT; i++)
		if (clients->abstract[i].event)
			event_add(clients->abstract[i].event, NULL);
}

/* There is no descriptor for accept(). Free the spare one, to accept a session and tell it so.
 * @return 0 or errno */
static int refuse_one(struct clients *clients, int listen_fd)
{
	if (!limits_spend_spare(clients->conns))
		return EMFILE;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int error = fd < 0 ? errno : 0;
	if (fd >= 0)
		session_refuse(fd, EMFILE, smcr_reason_text(SMCR_REASON_NO_DESCRIPTORS));
	limits_get_spare(clients->conns);
	return error;
}

static void on_connection(evutil_socket_t listen_fd, short what, void *arg)
{
	struct clients *clients = arg;
	(void)what;
	batch_begin(clients->batch);
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			session_new(clients, fd, listen_fd != clients->listen.fd);
			continue;
		}
		int error = errno;
		/* Refuse with an answer, so that clients do not wait in vain. */
		if (error == EMFILE || error == ENFILE) {
			limits_out_of_descriptors(clients->conns);
			error = refuse_one(clients, listen_fd);
		}
		if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
			pause_accepting(clients, error);
		if (error != 0 && error != EINTR && error != ECONNABORTED)
			break;
	}
	batch_end(clients->batch);
}

/* ---- abstract addresses ---- */

static int open_abstract(const struct sockaddr_un *addr, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)addr, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

static void serve_abstract(struct clients *clients, enum abstract_which which, int fd)
{
	struct abstract_socket *abstract = &clients->abstract[which];
	abstract->fd = fd;
	abstract->event =
		event_new(clients->config.base, fd, EV_READ | EV_PERSIST, on_connection, clients);
	if (abstract->event)
		event_add(abstract->event, NULL);
}

/* The address that programs are told. Users can take only addresses that they can foretell. */
static int listen_told(struct clients *clients)
{
	struct sockaddr_un addr;
	uint64_t number = 0;
	int fd = -EADDRINUSE;
	for (int i = 0; i < NUMBER_TRIES && fd == -EADDRINUSE; i++) {
		if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
			return -EIO;
		int len = ipc_abstract_address(clients->config.socket_path, number | 1, &addr);
		fd = len < 0 ? len : open_abstract(&addr, (socklen_t)len);
	}
	if (fd < 0)
		return fd;
	serve_abstract(clients, ABSTRACT_TOLD, fd);
	rdv_option_tell_address(clients->config.option, number | 1);
	return 0;
}

/* @param told  programs are told of another address */
static void warn_of_holder(struct clients *clients, const struct sockaddr_un *addr, size_t len,
			   bool told)
{
	char text[HOLDER_TEXT];
	uid_t uid = 0;
	int r = holder_of_unix(addr, len, HOLDER_START_MS, &uid);
	holder_text(r, uid, text);
	conns_log(clients->conns, LOG_WARNING,
		  "%s has taken smcrd's address @%.*s in the abstract namespace: %s", text,
		  (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), addr->sun_path + 1,
		  told ? "programs that change their root directory are told of another one"
		       : "programs that change their root directory stay on TCP; end that process "
			 "and restart smcrd");
}

/* The address that needs no telling, for hosts without BPF. Without an abstract address, programs
 * that need one stay on plain TCP. */
static void listen_known(struct clients *clients, bool told)
{
	struct sockaddr_un addr;
	int len = ipc_abstract_address(clients->config.socket_path, 0, &addr);
	int fd = len < 0 ? len : open_abstract(&addr, (socklen_t)len);
	if (fd >= 0)
		serve_abstract(clients, ABSTRACT_KNOWN, fd);
	else if (fd == -EADDRINUSE)
		warn_of_holder(clients, &addr, (size_t)len, told);
	else if (!told)
		conns_log(clients->conns, LOG_WARNING,
			  "cannot listen on %s in the abstract namespace: %s; programs that "
			  "change their root directory will stay on TCP",
			  clients->config.socket_path, strerror(-fd));
}

static void listen_abstract(struct clients *clients)
{
	int r = clients->config.option ? listen_told(clients) : -EOPNOTSUPP;
	listen_known(clients, r == 0);
}

static void close_abstract(struct clients *clients)
{
	rdv_option_tell_address(clients->config.option, 0);
	for (int i = 0; i < NUM_ABSTRACT; i++) {
		struct abstract_socket *abstract = &clients->abstract[i];
		if (abstract->event)
			event_free(abstract->event);
		if (abstract->fd >= 0)
			close(abstract->fd);
		*abstract = (struct abstract_socket){ .fd = -1 };
	}
}

/* ---- the whole ---- */

/* Who can put a file there, can put one there before smcrd, or instead of its own. */
static void look_at_directory(struct clients *clients)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct stat st;
	snprintf(copy, sizeof(copy), "%s", clients->config.socket_path);
	const char *directory = dirname(copy);
	if (stat(directory, &st) == 0 && st.st_mode & S_IWOTH)
		conns_log(
			clients->conns, LOG_WARNING,
			"every user may write to %s, and can take smcrd's place there before it "
			"starts: choose a directory for its socket to which only smcrd's user may",
			directory);
}

int service_open(struct clients *clients, char *ret_text, size_t len)
{
	struct event_base *base = clients->config.base;
	const struct unix_socket_params params = { .path = clients->config.socket_path,
						   .backlog = BACKLOG,
						   .what = "smcrd",
						   .advice = "choose another socket with --socket",
						   .wait = true };
	int r = unix_socket_open(&params, &clients->listen, ret_text, len);
	if (r < 0)
		return r;
	int fd = clients->listen.fd;
	clients->listen_event = event_new(base, fd, EV_READ | EV_PERSIST, on_connection, clients);
	clients->listen_pause = evtimer_new(base, on_pause_over, clients);
	if (!clients->listen_event || !clients->listen_pause ||
	    event_add(clients->listen_event, NULL) < 0)
		return -ENOMEM;
	look_at_directory(clients);
	listen_abstract(clients);
	return 0;
}

void service_close(struct clients *clients)
{
	if (clients->listen_event)
		event_free(clients->listen_event);
	if (clients->listen_pause)
		event_free(clients->listen_pause);
	clients->listen_event = clients->listen_pause = NULL;
	close_abstract(clients);
	unix_socket_close(&clients->listen);
}
