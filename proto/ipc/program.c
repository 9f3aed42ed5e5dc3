/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "proto/ipc/ipc.h"

/* What the kernel appends to the path of an executable that was replaced or removed. */
#define DELETED " (deleted)"

/* 64-bit FNV-1a. The numbers are only compared within one host. */
#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

uint64_t ipc_program_id(const char *path, size_t len)
{
	const size_t deleted = strlen(DELETED);
	uint64_t id = FNV_BASIS;
	if (len > deleted && memcmp(path + len - deleted, DELETED, deleted) == 0)
		len -= deleted;
	for (size_t i = 0; i < len; i++)
		id = (id ^ (uint8_t)path[i]) * FNV_PRIME;
	return id ? id : 1;
}
