/* SPDX-License-Identifier: MIT */
#include "lib/smcr/holders.h"

#include <stdatomic.h>
#include <stdint.h>

#include "lib/smcr/path.h"

static _Atomic uint8_t holders[PRE_PATH_SLOTS];

enum pre_holders pre_holders_of(int fd)
{
	return (unsigned int)fd < PRE_PATH_SLOTS ? (enum pre_holders)atomic_load(&holders[fd])
						 : PRE_HOLDERS_UNKNOWN;
}

void pre_holders_set(int fd, enum pre_holders now)
{
	if ((unsigned int)fd < PRE_PATH_SLOTS && pre_holders_of(fd) != now)
		atomic_store(&holders[fd], (uint8_t)now);
}

void pre_holders_copied(int from, int to)
{
	if (pre_holders_of(from) == PRE_HOLDERS_ALONE)
		pre_holders_set(from, PRE_HOLDERS_UNKNOWN);
	pre_holders_set(to, pre_holders_of(from));
}

void pre_holders_replaced(int fd)
{
	if (pre_holders_of(fd) == PRE_HOLDERS_PASSED)
		pre_holders_set(fd, PRE_HOLDERS_UNKNOWN);
}
