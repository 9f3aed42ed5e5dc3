/* SPDX-License-Identifier: MIT */
#include "lib/smcr/path.h"

#include <sys/mman.h>

#include "lib/smcr/settings.h"
#include "lib/smcr/session.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"

/*
 * A slot holds 0; or, for a pair end, PRE_PATH_NONE; or EXPECTED and the count of bytes moved, as
 * long as it has no memory; or ASKING, while its memory is asked for; or the address of a struct
 * pre_path.
 */
#define EXPECTED   1u
#define ASKING     2u
#define KIND       3u
#define COUNT_UNIT 4u

/* When so many bytes were moved, memory is asked for. Each call counts as CALL_COST bytes more,
 * since shared memory saves calls as well as copies. */
#define ENOUGH    (128 * 1024)
#define CALL_COST 2048

#define CLAIMED UINT32_MAX /* being set up or freed: nobody may use it */
#define PROBES  32

_Static_assert(_Alignof(struct pre_path) > KIND, "an address leaves room for the kind");

_Atomic uintptr_t pre_path_slots[PRE_PATH_SLOTS];

/* Who else may have a socket or pair end, as far as the library has seen. */
enum holders {
	UNKNOWN, /* the process may have duplicates */
	ALONE,   /* nobody */
	PASSED,  /* others */
};
static _Atomic uint8_t holders[PRE_PATH_SLOTS];

static struct pre_path paths[PRE_PATH_SLOTS];

static bool is_path(uintptr_t slot)
{
	return slot != 0 && (slot & KIND) == 0;
}

/* ---- references */

static bool hold(struct pre_path *path)
{
	uint32_t n = atomic_load(&path->references);
	do
		if (n == 0 || n == CLAIMED)
			return false;
	while (!atomic_compare_exchange_weak(&path->references, &n, n + 1));
	return true;
}

void pre_path_put(struct pre_path *path)
{
	uint32_t n = atomic_load(&path->references);
	while (!atomic_compare_exchange_weak(&path->references, &n, n == 1 ? CLAIMED : n - 1))
		;
	if (n > 1)
		return;
	munmap(path->memory, path->layout.length);
	atomic_store(&path->references, 0);
}

/* Find a free struct pre_path, at an index near the number. (Not at the same index always: it may
 * outlive its descriptor.) */
static struct pre_path *claim(int fd)
{
	for (int i = 0; i < PROBES; i++) {
		struct pre_path *path = &paths[(fd + i) % PRE_PATH_SLOTS];
		uint32_t none = 0;
		if (atomic_compare_exchange_strong(&path->references, &none, CLAIMED))
			return path;
	}
	return NULL;
}

/* ---- following descriptors */

static uintptr_t set_slot(int fd, uintptr_t slot)
{
	uintptr_t before = atomic_exchange(&pre_path_slots[fd], slot);
	if (is_path(before))
		pre_path_put((struct pre_path *)before);
	return before;
}

static enum holders holders_of(int fd)
{
	return (unsigned int)fd < PRE_PATH_SLOTS ? (enum holders)atomic_load(&holders[fd])
						 : UNKNOWN;
}

static void set_holders(int fd, enum holders now)
{
	if ((unsigned int)fd < PRE_PATH_SLOTS && holders_of(fd) != now)
		atomic_store(&holders[fd], (uint8_t)now);
}

bool pre_path_is_alone(int fd)
{
	return holders_of(fd) == ALONE;
}

bool pre_path_was_passed(int fd)
{
	return holders_of(fd) == PASSED;
}

void pre_path_passed(int fd)
{
	set_holders(fd, PASSED);
}

static void empty_slot(int fd)
{
	if (pre_path_slot(fd) != 0)
		set_slot(fd, 0);
}

void pre_path_forget(int fd)
{
	set_holders(fd, UNKNOWN);
	empty_slot(fd);
}

void pre_path_replaced(int fd)
{
	if (pre_path_was_passed(fd))
		set_holders(fd, UNKNOWN);
	empty_slot(fd);
}

static void enter(int fd, uintptr_t slot)
{
	if ((unsigned int)fd < PRE_PATH_SLOTS)
		set_slot(fd, slot);
}

void pre_path_note_pair(int fd)
{
	set_holders(fd, UNKNOWN); /* not what the number's last owner was */
	enter(fd, PRE_PATH_NONE);
}

void pre_path_note_socket(int fd)
{
	pre_path_forget(fd); /* the number's last owner */
	if (pre_sees_calls)
		set_holders(fd, ALONE);
}

void pre_path_forget_range(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < PRE_PATH_SLOTS; fd++)
		pre_path_forget((int)fd);
}

void pre_path_expect(int fd)
{
	enter(fd, pre_settings.sharing == PRE_SHARING_NO ? PRE_PATH_NONE : EXPECTED);
}

static struct pre_path *held(int fd)
{
	uintptr_t slot = atomic_load(&pre_path_slots[fd]);
	if (!is_path(slot))
		return NULL;
	struct pre_path *path = (struct pre_path *)slot;
	if (!hold(path))
		return NULL;
	/* Before hold() the descriptor may have been closed, and the structure reused. */
	if (atomic_load(&pre_path_slots[fd]) == slot)
		return path;
	pre_path_put(path);
	return NULL;
}

void pre_path_copied(int from, int to)
{
	pre_path_forget(to);
	if (pre_path_is_alone(from))
		set_holders(from, UNKNOWN);
	set_holders(to, holders_of(from));
	if (!pre_path_is_pair(from) || (unsigned int)to >= PRE_PATH_SLOTS || from == to)
		return;
	struct pre_path *path = held(from);
	uintptr_t none = pre_path_concerns(from) ? EXPECTED : PRE_PATH_NONE;
	set_slot(to, path ? (uintptr_t)path : none);
}

/* ---- asking for memory */

void pre_path_moved(int fd, size_t bytes)
{
	if (!pre_path_concerns(fd))
		return;
	uintptr_t slot = atomic_load(&pre_path_slots[fd]);
	if ((slot & KIND) != EXPECTED || slot / COUNT_UNIT >= ENOUGH)
		return;
	if (bytes > ENOUGH)
		bytes = ENOUGH;
	atomic_compare_exchange_strong(&pre_path_slots[fd], &slot,
				       slot + COUNT_UNIT * (bytes + CALL_COST));
}

static bool option_is(int fd, int name, int usual)
{
	int value = usual;
	sys_get_int(fd, SOL_SOCKET, name, &value);
	return value == usual;
}

/* Map the memory. @return its address, or MAP_FAILED with errno */
static void *map(int memfd, const struct ipc_memory *granted)
{
	struct stat st;
	const size_t length = granted->layout.length;
	if (syscall(SYS_fstat, memfd, &st) < 0)
		return MAP_FAILED;
	if (!path_layout_valid(&granted->layout) || st.st_size < (off_t)length) {
		errno = EBADMSG;
		return MAP_FAILED;
	}
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
}

/* @return a path with one reference, or NULL with errno */
static struct pre_path *open_path(int fd, int memfd, const struct ipc_memory *granted)
{
	struct pre_path *path = claim(fd);
	int queue = 0;
	if (!path) {
		errno = EMFILE;
		return NULL;
	}
	void *memory = map(memfd, granted);
	if (memory == MAP_FAILED) {
		atomic_store(&path->references, 0);
		return NULL;
	}
	sys_get_int(fd, SOL_SOCKET, SO_SNDBUF, &queue);
	path->memory = memory;
	path->layout = granted->layout;
	path->least_charge = (int)granted->least_charge;
	path->part = (uint32_t)queue / 4 + 1;
	atomic_store(&path->reads_outside,
		     !option_is(fd, SO_RCVLOWAT, 1) || !option_is(fd, SO_PEEK_OFF, -1));
	atomic_store(&path->writes_outside, false);
	atomic_store(&path->error, 0);
	path->receive.vain = path->receive.skip = 0;
	path->send.vain = path->send.skip = 0;
	atomic_store(&path->references, 1);
	return path;
}

int pre_path_adopt(int fd, int memfd, const struct ipc_memory *granted)
{
	if ((unsigned int)fd >= PRE_PATH_SLOTS)
		return -EMFILE;
	struct pre_path *path = open_path(fd, memfd, granted);
	if (!path)
		return -errno;
	set_slot(fd, (uintptr_t)path);
	return 0;
}

/* Ask the daemon for the memory; the slot holds ASKING meanwhile. @return what the slot shall hold
 * then */
static uintptr_t ask(int fd)
{
	struct ipc_memory answer;
	int memfd;
	if (pre_ask_memory(fd, &answer, &memfd) < 0)
		return PRE_PATH_NONE;
	switch ((enum ipc_memory_outcome)answer.outcome) {
	case IPC_MEMORY_GRANTED: break;
	case IPC_MEMORY_PENDING:
	case IPC_MEMORY_NONE: return EXPECTED;
	case IPC_MEMORY_TCP:
	case IPC_MEMORY_DEVICE:
	case IPC_MEMORY_OFF:
	case IPC_MEMORY_OTHER: return PRE_PATH_NONE;
	}
	struct pre_path *path = open_path(fd, memfd, &answer);
	sys_close(memfd);
	return path ? (uintptr_t)path : PRE_PATH_NONE;
}

static bool is_due(uintptr_t slot)
{
	return (slot & KIND) == EXPECTED &&
	       (slot / COUNT_UNIT >= ENOUGH || pre_settings.sharing == PRE_SHARING_ALWAYS);
}

static void ask_if_due(int fd)
{
	uintptr_t slot = atomic_load(&pre_path_slots[fd]), asking = ASKING;
	if (!is_due(slot) || !atomic_compare_exchange_strong(&pre_path_slots[fd], &slot, ASKING))
		return;
	uintptr_t now = ask(fd);
	/* The descriptor may have been closed meanwhile. */
	if (!atomic_compare_exchange_strong(&pre_path_slots[fd], &asking, now) && is_path(now))
		pre_path_put((struct pre_path *)now);
}

struct pre_path *pre_path_get(int fd)
{
	ask_if_due(fd);
	return held(fd);
}

/* ---- directions that only the kernel serves from now on */

void pre_path_reads_outside(int fd)
{
	struct pre_path *path = pre_path_concerns(fd) ? held(fd) : NULL;
	if (!path)
		return;
	atomic_store(&path->reads_outside, true);
	pre_path_put(path);
}

void pre_path_writes_outside(int fd)
{
	struct pre_path *path = pre_path_concerns(fd) ? held(fd) : NULL;
	if (!path)
		return;
	atomic_store(&path->writes_outside, true);
	pre_path_put(path);
}
