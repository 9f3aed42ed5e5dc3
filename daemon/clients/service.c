/* SPDX-License-Identifier: MIT */
/* The listening socket. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syslog.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define BACKLOG       1024
#define ACCEPTS       64 /* a turn of the event loop */
#define PAUSE_SECONDS 1

/* ---- opening the socket ---- */

/* The process behind a socket file. @return 0 and its pid, or -ECONNREFUSED, -ENOENT, .. */
static int holder_of(const struct sockaddr_un *addr, pid_t *ret_pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int r = 0;
	/* EAGAIN: its backlog is full, so somebody listens. */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 && errno != EAGAIN)
		r = -errno;
	*ret_pid = 0;
	if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
		*ret_pid = cred.pid;
	close(fd);
	return r;
}

/* Remove a socket file that nobody serves. @return 0 if the name is free now */
static int clear_stale(const struct sockaddr_un *addr, char *ret_text, size_t len)
{
	struct stat st;
	pid_t pid = 0;
	const char *path = addr->sun_path;
	if (lstat(path, &st) < 0)
		return 0; /* bind() says what is wrong, if anything */
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(ret_text, len, "%s is in the way and no socket: remove it", path);
		return -EEXIST;
	}
	int r = holder_of(addr, &pid);
	if (r == 0) {
		snprintf(ret_text, len,
			 "%s is held by smcrd pid %d: stop it, or choose another socket with "
			 "--socket",
			 path, (int)pid);
		return -EADDRINUSE;
	}
	if (r == -ECONNREFUSED && unlink(path) == 0)
		return 0;
	r = r == -ECONNREFUSED ? -errno : r;
	snprintf(ret_text, len, "%s: cannot replace the old socket: %s", path, strerror(-r));
	return r;
}

#define LOCK_TRIES    20
#define LOCK_PAUSE_US 50000

/* Hold the directory while the name is looked at and taken, so that of two daemons that start at
 * once only one wins. Everybody can hold it: so not for longer than another daemon would need.
 * @return descriptor or -1 */
static int lock_directory(const char *path)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];
	snprintf(copy, sizeof(copy), "%s", path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && i < LOCK_TRIES; i++)
		usleep(LOCK_PAUSE_US);
	return fd;
}

static int bind_and_listen(int fd, const struct sockaddr_un *addr, char *ret_text, size_t len)
{
	int lock = lock_directory(addr->sun_path);
	int r = clear_stale(addr, ret_text, len);
	if (r == 0 &&
	    (bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ||
	     /* Every program may connect; methods that change something check who asks. */
	     chmod(addr->sun_path, 0666) < 0 || listen(fd, BACKLOG) < 0)) {
		r = -errno;
		snprintf(ret_text, len, "cannot listen on %s: %s", addr->sun_path, strerror(-r));
	}
	if (lock >= 0)
		close(lock);
	return r;
}

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

/* accept() has no descriptor: take one session all the same, to refuse it. @return 0 or errno */
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
		/* Nobody shall wait for what will not come. */
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

/* Programs that need it are plain TCP without. */
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
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct event_base *base = clients->config.base;
	const char *path = clients->config.socket_path;
	if (strlen(path) >= sizeof(addr.sun_path)) {
		snprintf(ret_text, len, "%s: a socket path has at most %zu bytes", path,
			 sizeof(addr.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(addr.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int r = bind_and_listen(fd, &addr, ret_text, len);
	if (r < 0) {
		close(fd);
		return r;
	}
	clients->listen_fd = fd;
	struct stat st;
	if (lstat(path, &st) == 0) {
		clients->socket_dev = st.st_dev;
		clients->socket_ino = st.st_ino;
	}
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
	struct stat st;
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
	if (clients->listen_fd < 0)
		return;
	/* Another daemon may have taken the name since. */
	if (lstat(clients->config.socket_path, &st) == 0 && st.st_dev == clients->socket_dev &&
	    st.st_ino == clients->socket_ino)
		unlink(clients->config.socket_path);
	close(clients->listen_fd);
	clients->listen_fd = -1;
}
