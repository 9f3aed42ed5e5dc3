/* SPDX-License-Identifier: MIT */
#include "daemon/host/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int unix_socket_holder(const struct sockaddr_un *addr, socklen_t addr_len, struct ucred *ret_holder)
{
	socklen_t len = sizeof(*ret_holder);
	*ret_holder = (struct ucred){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int r = 0;
	/* EAGAIN: the backlog is full, so a process listens. */
	if (connect(fd, (const struct sockaddr *)addr, addr_len) < 0 && errno != EAGAIN)
		r = -errno;
	if (r == 0)
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_holder, &len);
	close(fd);
	return r;
}

/* Remove a socket file at which no process listens. @return 0: the name is free now */
static int clear_stale(const struct sockaddr_un *addr, const char *what, const char *advice,
		       char *ret_text, size_t len)
{
	struct stat st;
	struct ucred holder;
	const char *path = addr->sun_path;
	if (lstat(path, &st) < 0)
		return 0; /* if something is wrong, bind() will say what */
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(ret_text, len,
			 "%s is in the way and no socket: remove it (it is of user %u)", path,
			 (unsigned int)st.st_uid);
		return -EEXIST;
	}
	int r = unix_socket_holder(addr, sizeof(*addr), &holder);
	if (r == 0) {
		/* The file says who has made it, even if nobody answers there. */
		snprintf(ret_text, len, "%s is held by %s pid %d of user %u: stop it, or %s", path,
			 what, (int)holder.pid,
			 (unsigned int)(holder.pid > 0 ? holder.uid : st.st_uid), advice);
		return -EADDRINUSE;
	}
	if (r == -ECONNREFUSED && unlink(path) == 0)
		return 0;
	r = r == -ECONNREFUSED ? -errno : r;
	snprintf(ret_text, len, "%s: cannot replace the old socket of user %u: %s", path,
		 (unsigned int)st.st_uid, strerror(-r));
	return r;
}

#define LOCK_TRIES    20
#define LOCK_PAUSE_US 50000

/* Lock the directory while the name is checked and taken, so that of two daemons that start at once
 * only one gets it. Any user can hold this lock, so wait no longer than another daemon would need.
 * @return the descriptor to close, or -1 */
static int lock_directory(const char *path, bool wait)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];
	snprintf(copy, sizeof(copy), "%s", path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int tries = wait ? LOCK_TRIES : 0;
	for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && i < tries; i++)
		usleep(LOCK_PAUSE_US);
	return fd;
}

static const char *what_to_do(int error)
{
	switch (error) {
	case ENOENT: return "; make its directory, or choose another path";
	case EACCES: return "; let this user write to its directory, or choose another path";
	default: return "";
	}
}

static int bind_and_listen(const struct unix_socket_params *params, int fd,
			   const struct sockaddr_un *addr, char *ret_text, size_t len)
{
	int lock = lock_directory(addr->sun_path, params->wait);
	int r = clear_stale(addr, params->what, params->advice, ret_text, len);
	if (r == 0 &&
	    (bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ||
	     /* Every program may connect. Methods that change something check who calls. */
	     chmod(addr->sun_path, 0666) < 0 || listen(fd, params->backlog) < 0)) {
		r = -errno;
		snprintf(ret_text, len, "cannot listen on %s: %s%s", addr->sun_path, strerror(-r),
			 what_to_do(-r));
	}
	if (lock >= 0)
		close(lock);
	return r;
}

int unix_socket_open(const struct unix_socket_params *params, struct unix_socket *ret_socket,
		     char *ret_text, size_t len)
{
	const char *path = params->path;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	if (strlen(path) >= sizeof(addr.sun_path)) {
		snprintf(ret_text, len, "%s: a socket path has at most %zu bytes", path,
			 sizeof(addr.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(addr.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		int error = errno;
		snprintf(ret_text, len, "cannot listen on %s: %s", path, strerror(error));
		return -error;
	}
	int r = bind_and_listen(params, fd, &addr, ret_text, len);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_socket = (struct unix_socket){ .fd = fd, .path = path };
	if (lstat(path, &st) == 0) {
		ret_socket->dev = st.st_dev;
		ret_socket->ino = st.st_ino;
	}
	return 0;
}

void unix_socket_close(struct unix_socket *socket)
{
	struct stat st;
	if (socket->fd < 0)
		return;
	/* Another process may have taken the name. */
	if (lstat(socket->path, &st) == 0 && st.st_dev == socket->dev && st.st_ino == socket->ino)
		unlink(socket->path);
	close(socket->fd);
	socket->fd = -1;
}
