/* SPDX-License-Identifier: MIT */
#include "lib/preload/inherit.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "lib/preload/wait_all.h"
#include "lib/smcr/bar.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/sys.h"

#define LOWEST      1024 /* if /proc is not there, numbers below this are tried one by one */
#define DUP_NUMBERS 4096

/* A bit for each descriptor number that was a source of adddup2. For higher numbers there is one
 * flag. */
static _Atomic uint64_t dups[DUP_NUMBERS / 64];
static _Atomic bool high_dups;

void inherit_note_dup(int fd)
{
	if (fd < 0)
		return;
	if (fd < DUP_NUMBERS)
		atomic_fetch_or(&dups[fd / 64], 1ULL << (fd % 64));
	else
		atomic_store(&high_dups, true);
}

static bool may_be_dup(int fd)
{
	if (fd < DUP_NUMBERS)
		return atomic_load(&dups[fd / 64]) >> (fd % 64) & 1;
	return atomic_load(&high_dups);
}

/* ---- the descriptors of this process */

/* @return false: stop the walk */
typedef bool look_at(int fd, void *arg);

static void walk_numbers(look_at *look, void *arg)
{
	for (int fd = 0; fd < LOWEST; fd++)
		if (!look(fd, arg))
			return;
}

/* The record of getdents64(2); the C library's struct has other padding. */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

/* @return -1 for "." and ".." */
static int number_of(const char *name)
{
	int fd = 0;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return -1;
		fd = fd * 10 + (*name - '0');
	}
	return fd;
}

/* Call `look` for all open descriptors. /proc/thread-self is used because a thread may have its own
 * descriptor table. Descriptors that other threads open or close meanwhile may be missed, as with
 * exec itself. */
static void walk(look_at *look, void *arg)
{
	_Alignas(struct entry) char buf[1024];
	bool more = true;
	int dir = sys_openat(AT_FDCWD, "/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		walk_numbers(look, arg);
		return;
	}
	while (more) {
		int n = sys_result(syscall(SYS_getdents64, dir, buf, sizeof(buf)));
		if (n <= 0)
			break;
		for (int at = 0; at < n && more;) {
			const struct entry *entry = (const struct entry *)(buf + at);
			int fd = number_of(entry->name);
			if (fd >= 0 && fd != dir)
				more = look(fd, arg);
			at += entry->length;
		}
	}
	sys_close(dir);
}

static bool is_listener(int fd)
{
	int listens;
	return sys_get_int(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens) == 0 && listens &&
	       pre_is_tcp(fd);
}

static void note_pair(int fd)
{
	int low = 1;
	pre_path_note_pair(fd);
	sys_get_int(fd, SOL_SOCKET, SO_RCVLOWAT, &low);
	wait_all_note_low(&low);
}

static bool note_kind(int fd, void *arg)
{
	(void)arg;
	if (is_listener(fd))
		pre_note_listener();
	else if (pre_pair_is_named(fd))
		note_pair(fd);
	return true;
}

void inherit_open(void)
{
	walk(note_kind, NULL);
}

/* ---- barring */

struct search {
	bool with_dups;
	struct inherit_barred *barred;
};

static bool bar_one(int fd, void *arg)
{
	const struct search *search = arg;
	struct inherit_barred *barred = search->barred;
	if (!is_listener(fd))
		return true;
	int flags = sys_fcntl(fd, F_GETFD, 0);
	if (flags < 0 || ((flags & FD_CLOEXEC) && !(search->with_dups && may_be_dup(fd))))
		return true;
	/* A listener that was barred before stays barred, so it is not counted here. */
	if (pre_bar(fd) < 0)
		return true;
	barred->count++;
	if (barred->known < INHERIT_MAX)
		barred->fds[barred->known++] = fd;
	return true;
}

void inherit_bar(bool with_dups, struct inherit_barred *ret_barred)
{
	struct search search = { .with_dups = with_dups, .barred = ret_barred };
	ret_barred->count = ret_barred->known = 0;
	if (pre_may_hold_listener())
		walk(bar_one, &search);
}

void inherit_unbar(const struct inherit_barred *barred)
{
	for (size_t i = 0; i < barred->known; i++)
		pre_unbar(barred->fds[i]);
}
