/* SPDX-License-Identifier: MIT */
/* The listening sockets: the socket file and the abstract address. */
#include <errno.h>
#include <string.h>
#include <sys/syslog.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define BACKLOG       1024
#define ACCEPTS       64 /* sessions accepted in one turn of the event loop */
#define PAUSE_SECONDS 1

/* ---- accepting ---- */

static void pause_accepting(struct clients *clients, int error)
{
	const struct timeval delay = { .tv_sec = PAUSE_SECONDS };
	event_del(clients->listen_event);
	if (clients->abstract_event)
		event_del(clients->abstract_event);
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
	if (clients->abstract_event)
		event_add(clients->abstract_event, NULL);
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
			session_new(clients, fd, listen_fd == clients->abstract_fd);
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

static int open_abstract(const char *path)
{
	struct sockaddr_un addr;
	int len = ipc_abstract_address(path, &addr);
	int fd = len < 0 ? len : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return len < 0 ? len : -errno;
	if (bind(fd, (struct sockaddr *)&addr, (socklen_t)len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

/* Without the abstract address, programs that need it stay on plain TCP. */
static void listen_abstract(struct clients *clients)
{
	int fd = open_abstract(clients->config.socket_path);
	if (fd < 0) {
		conns_log(clients->conns, LOG_WARNING,
			  "cannot listen on %s in the abstract namespace: %s; programs that "
			  "change their root directory will stay on TCP",
			  clients->config.socket_path, strerror(-fd));
		return;
	}
	clients->abstract_fd = fd;
	clients->abstract_event =
		event_new(clients->config.base, fd, EV_READ | EV_PERSIST, on_connection, clients);
	if (clients->abstract_event)
		event_add(clients->abstract_event, NULL);
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
	listen_abstract(clients);
	return 0;
}

void service_close(struct clients *clients)
{
	if (clients->listen_event)
		event_free(clients->listen_event);
	if (clients->listen_pause)
		event_free(clients->listen_pause);
	if (clients->abstract_event)
		event_free(clients->abstract_event);
	if (clients->abstract_fd >= 0)
		close(clients->abstract_fd);
	clients->listen_event = clients->listen_pause = clients->abstract_event = NULL;
	clients->abstract_fd = -1;
	unix_socket_close(&clients->listen);
}
