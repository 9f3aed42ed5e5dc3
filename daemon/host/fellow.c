/* SPDX-License-Identifier: MIT */
#include "daemon/host/fellow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "daemon/host/unix_socket.h"

#define LISTENS 0x10000u /* a flag in /proc/net/unix */
#define PREFIX  " @smcrd:"
#define MOST    1000 /* a user can have as many such addresses as files */

static bool listens(const char *socket_path, uid_t uid, pid_t *ret_pid)
{
	struct sockaddr_un addr;
	struct ucred holder;
	int len = ipc_abstract_address(socket_path, 0, &addr);
	if (len < 0 || unix_socket_holder(&addr, (socklen_t)len, &holder) < 0 || holder.uid != uid)
		return false;
	*ret_pid = holder.pid;
	return true;
}

pid_t fellow_pid(const char *socket_path, uid_t uid)
{
	pid_t pid = 0;
	return listens(socket_path, uid, &pid) ? pid : 0;
}

/* @return the path in a line of /proc/net/unix; NULL: none */
static const char *path_in(char *line)
{
	unsigned int flags;
	char *name = strstr(line, PREFIX);
	if (!name || sscanf(line, "%*s %*s %*s %x", &flags) != 1 || !(flags & LISTENS))
		return NULL;
	name += strlen(PREFIX);
	name[strcspn(name, "\n")] = '\0';
	return name;
}

bool fellow_find(uid_t uid, struct fellow *ret_fellow)
{
	FILE *sockets = fopen("/proc/thread-self/net/unix", "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;
	for (int i = 0; sockets && !found && i < MOST && getline(&line, &size, sockets) > 0;) {
		const char *path = path_in(line);
		if (!path)
			continue;
		i++;
		found = listens(path, uid, &ret_fellow->pid);
		if (found)
			snprintf(ret_fellow->socket, sizeof(ret_fellow->socket), "%s", path);
	}
	free(line);
	if (sockets)
		fclose(sockets);
	return found;
}
