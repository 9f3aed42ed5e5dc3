/* SPDX-License-Identifier: MIT */
#include "lib/smcr/path.h"

#include <sys/mman.h>

#include "lib/smcr/fit.h"
#include "lib/smcr/holders.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/session.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"

/*
 * What a slot holds is told by its two lowest bits:
 *
 *     0, no other bit      no pair end, as far as the library knows
 *     0, with other bits   a pair end with memory: the address of its struct pre_path, to which the
 *                          slot has a reference
 *     EXPECTED             a pair end that may have memory later; the other bits count the bytes
 *                          that it has moved
 *     ASKING               a pair end whose memory a thread is asking for; other threads use the
 *                          kernel meanwhile
 *     PRE_PATH_NONE        a pair end that will have no memory, or what was passed and may be one
 */
#define EXPECTED   1u
#define ASKING     2u
#define KIND       3u /* mask of these bits */
#define COUNT_UNIT 4u

/* When so many bytes were moved, memory is asked for. Each call counts as CALL_COST bytes more,
 * since shared memory saves calls as well as copies. */
#define ENOUGH    (128 * 1024)
#define CALL_COST 2048

#define RESERVED UINT32_MAX /* as references: being set up or freed, nobody may use it */
#define PROBES   32

_Static_assert(_Alignof(struct pre_path) > KIND, "an address leaves room for the kind");

_Atomic uintptr_t pre_path_slots[PRE_PATH_SLOTS];

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
		if (n == 0 || n == RESERVED)
			return false;
	while (!atomic_compare_exchange_weak(&path->references, &n, n + 1));
	return true;
}

void pre_path_put(struct pre_path *path)
{
	uint32_t n = atomic_load(&path->references);
	while (!atomic_compare_exchange_weak(&path->references, &n, n == 1 ? RESERVED : n - 1))
		;
	if (n > 1)
		return;
	munmap(path->memory, path->layout.length);
	atomic_store(&path->references, 0);
}

/* Find a free struct pre_path, at an index near the number. (Not at the same index always: it may
 * outlive its descriptor.) */
static struct pre_path *reserve(int fd)
{
	for (int i = 0; i < PROBES; i++) {
		struct pre_path *path = &paths[(fd + i) % PRE_PATH_SLOTS];
		uint32_t none = 0;
		if (atomic_compare_exchange_strong(&path->references, &none, RESERVED))
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

static void empty_slot(int fd)
{
	if (pre_path_slot(fd) != 0)
		set_slot(fd, 0);
}

void pre_path_forget(int fd)
{
	pre_holders_set(fd, PRE_HOLDERS_UNKNOWN);
	pre_fit_forget(fd);
	empty_slot(fd);
}

void pre_path_replaced(int fd)
{
	pre_holders_replaced(fd);
	empty_slot(fd);
}

static void enter(int fd, uintptr_t slot)
{
	if ((unsigned int)fd < PRE_PATH_SLOTS)
		set_slot(fd, slot);
}

void pre_path_note_pair(int fd)
{
	pre_holders_set(fd, PRE_HOLDERS_UNKNOWN); /* not what the number's last owner was */
	pre_fit_forget(fd);
	enter(fd, PRE_PATH_NONE);
}

void pre_path_note_socket(int fd)
{
	pre_path_forget(fd); /* the number's last owner */
	if (pre_sees_calls)
		pre_holders_set(fd, PRE_HOLDERS_ALONE);
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
	pre_holders_copied(from, to);
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
	struct pre_path *path = reserve(fd);
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

/* ---- a reset that the next call reports */

void pre_path_keep_error(struct pre_path *path, int error)
{
	if (path && error == -ECONNRESET)
		atomic_store(&path->error, -error);
}

int pre_path_kept_error(struct pre_path *path)
{
	if (atomic_load_explicit(&path->error, memory_order_relaxed) == 0)
		return 0;
	return -atomic_exchange(&path->error, 0);
}
