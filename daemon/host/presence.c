/* SPDX-License-Identifier: MIT */
#include "daemon/host/presence.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/host/holder.h"
#include "proto/ipc/ipc.h"

#define NAME     "smcrd-presence:"
#define ALONE_MS 10000 /* only the thread waits that looks after neighbour entries */

/* A random name: process ids are not unique, since other pid namespaces may have the same. */
static int random_name(struct sockaddr_un *ret_addr, socklen_t *ret_len)
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return -EIO;
	*ret_addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int len = snprintf(ret_addr->sun_path + 1, sizeof(ret_addr->sun_path) - 1,
			   NAME "%016" PRIx64, number);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	return 0;
}

/* The socket does not listen, so nobody can connect to it. */
int presence_show(void)
{
	struct sockaddr_un addr;
	socklen_t len;
	int error = random_name(&addr, &len);
	if (error)
		return error;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&addr, len) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

void presence_end(int presence)
{
	if (presence >= 0)
		close(presence);
}

/* ---- who else is there */

/* Could a smcrd run as this user? Root's, this process's own, and the one whose the socket of the
 * service is; others cannot make that file. */
static bool is_of_smcrd(uid_t uid)
{
	struct stat st;
	return uid == 0 || uid == geteuid() ||
	       (stat(IPC_DEFAULT_SOCKET, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == uid);
}

struct seen {
	unsigned int smcrds, strangers;
	uid_t stranger; /* the last one */
};

static bool look_at(void *arg, const char *name, size_t name_len, uid_t uid)
{
	const size_t len = strlen(NAME);
	struct seen *seen = arg;
	if (name_len <= len || name[0] != '\0' || memcmp(name + 1, NAME, len) != 0)
		return true;
	if (is_of_smcrd(uid)) {
		seen->smcrds++;
	} else {
		seen->strangers++;
		seen->stranger = uid;
	}
	return true;
}

/* For kernels that do not list the users of Unix sockets (CONFIG_UNIX_DIAG): anybody's name counts.
 */
static int count_names(struct seen *seen)
{
	char *line = NULL;
	size_t size = 0;
	FILE *sockets = fopen("/proc/thread-self/net/unix", "re");
	if (!sockets)
		return -errno;
	*seen = (struct seen){ 0 };
	while (getline(&line, &size, sockets) >= 0)
		seen->smcrds += strstr(line, " @" NAME) != NULL;
	int r = ferror(sockets) ? -EIO : 0;
	free(line);
	fclose(sockets);
	return r;
}

static int look_around(int limit_ms, struct seen *ret_seen)
{
	struct seen seen = { 0 };
	int r = holder_each_unix(limit_ms, look_at, &seen);
	if (r < 0 && r != -ETIME)
		r = count_names(&seen);
	*ret_seen = seen;
	return r;
}

bool presence_is_alone(void)
{
	struct seen seen;
	/* The one is this process's own. */
	return look_around(ALONE_MS, &seen) == 0 && seen.smcrds == 1;
}

bool presence_find_stranger(uid_t *ret_uid)
{
	struct seen seen;
	look_around(HOLDER_START_MS, &seen);
	if (seen.strangers == 0)
		return false;
	*ret_uid = seen.stranger;
	return true;
}
