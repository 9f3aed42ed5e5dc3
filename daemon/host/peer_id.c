/* SPDX-License-Identifier: MIT */
#include "daemon/host/peer_id.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "daemon/host/log.h"

/* Length of the file's contents: four hexadecimal digits and a line feed. */
#define TEXT_LEN 5

uint16_t peer_id_next_instance(bool known, uint16_t previous, uint64_t seconds)
{
	uint16_t instance = (uint16_t)seconds;
	if (known && instance == previous)
		instance++;
	return instance;
}

/* Others may write to the directory too (as to /tmp), so no link is followed, and a pipe does not
 * block. */
static bool read_instance(const char *path, uint16_t *ret_instance)
{
	struct stat st;
	char text[TEXT_LEN + 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	bool whole = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		     read(fd, text, TEXT_LEN) == TEXT_LEN &&
		     strspn(text, "0123456789abcdef") == TEXT_LEN - 1;
	close(fd);
	if (whole)
		*ret_instance = (uint16_t)strtoul(text, NULL, 16);
	return whole;
}

/* @return 0 or a negative errno */
static int write_whole(int fd, uint16_t instance)
{
	char text[TEXT_LEN + 1];
	snprintf(text, sizeof(text), "%04x\n", instance);
	ssize_t written = write(fd, text, TEXT_LEN);
	if (written < 0)
		return -errno;
	return written == TEXT_LEN ? 0 : -ENOSPC;
}

/* Write a new file, and rename it over the old one when it is complete. */
static int write_instance(const char *path, uint16_t instance)
{
	char new_path[PATH_MAX];
	if ((size_t)snprintf(new_path, sizeof(new_path), "%s.new", path) >= sizeof(new_path))
		return -ENAMETOOLONG;
	unlink(new_path); /* left by a daemon that was killed here */
	int fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	int r = write_whole(fd, instance);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(new_path, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(new_path);
	return r;
}

/* PEER-2. */
static uint16_t remembered_instance(const char *socket_path)
{
	char path[PATH_MAX];
	uint16_t previous = 0;
	snprintf(path, sizeof(path), "%s.instance", socket_path);
	bool known = read_instance(path, &previous);
	uint16_t instance = peer_id_next_instance(known, previous, (uint64_t)time(NULL));
	int r = write_instance(path, instance);
	if (r < 0)
		log_message(LOG_WARNING,
			    "%s cannot be written: %s; peers may take smcrd for the one before if "
			    "it is started again within a second",
			    path, strerror(-r));
	return instance;
}

void peer_id_make(const uint8_t mac[SMCR_MAC_LEN], const char *socket_path,
		  uint8_t ret_peer_id[SMCR_PEER_ID_LEN])
{
	uint16_t instance = remembered_instance(socket_path);
	ret_peer_id[0] = (uint8_t)(instance >> 8);
	ret_peer_id[1] = (uint8_t)instance;
	if (mac) {
		memcpy(ret_peer_id + 2, mac, SMCR_MAC_LEN);
		return;
	}
	if (getrandom(ret_peer_id + 2, SMCR_MAC_LEN, 0) != SMCR_MAC_LEN)
		memset(ret_peer_id + 2, 0, SMCR_MAC_LEN);
	ret_peer_id[2] = (uint8_t)((ret_peer_id[2] & 0xFC) | 0x02); /* local, not multicast */
}
