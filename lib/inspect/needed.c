/* SPDX-License-Identifier: MIT */
#include "lib/inspect/needed.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/smcr/sys.h"

#define ENTRIES_AT_ONCE 16
#define MAX_ENTRIES     512

void needed_note(struct needed_map *map, const Elf64_Phdr *segment)
{
	if (segment->p_type == PT_DYNAMIC) {
		map->dynamic = segment->p_offset;
		map->dynamic_size = segment->p_filesz;
	}
	if (segment->p_type == PT_LOAD && map->count < NEEDED_LOADS) {
		map->loads[map->count].address = segment->p_vaddr;
		map->loads[map->count].offset = segment->p_offset;
		map->loads[map->count++].size = segment->p_filesz;
	}
}

/** What the dynamic section says. */
struct found {
	bool needs, has_strings;
	uint64_t name;    /* offset in the strings */
	uint64_t strings; /* address */
};

/* @return false: this was the last entry */
static bool note_entry(const Elf64_Dyn *entry, struct found *found)
{
	if (entry->d_tag == DT_NEEDED && !found->needs) {
		found->needs = true;
		found->name = entry->d_un.d_val;
	} else if (entry->d_tag == DT_STRTAB) {
		found->has_strings = true;
		found->strings = entry->d_un.d_ptr;
	}
	return entry->d_tag != DT_NULL && !(found->needs && found->has_strings);
}

static int read_some(int fd, void *buf, size_t len, uint64_t offset)
{
	return offset <= INT64_MAX ? sys_pread(fd, buf, len, (off_t)offset) : -1;
}

static void read_dynamic(int fd, const struct needed_map *map, struct found *found)
{
	Elf64_Dyn entries[ENTRIES_AT_ONCE];
	uint64_t count = map->dynamic_size / sizeof(entries[0]);
	if (count > MAX_ENTRIES)
		count = MAX_ENTRIES;
	for (uint64_t i = 0; i < count; i += ENTRIES_AT_ONCE) {
		uint64_t n = count - i < ENTRIES_AT_ONCE ? count - i : ENTRIES_AT_ONCE;
		int len = read_some(fd, entries, (size_t)n * sizeof(entries[0]),
				    map->dynamic + i * sizeof(entries[0]));
		if (len != (int)(n * sizeof(entries[0])))
			return;
		for (uint64_t e = 0; e < n; e++)
			if (!note_entry(&entries[e], found))
				return;
	}
}

/* Where a part of memory comes from in the file. @return false: from nowhere that was noted */
static bool offset_of(const struct needed_map *map, uint64_t address, uint64_t *ret_offset)
{
	for (size_t i = 0; i < map->count; i++) {
		const uint64_t into = address - map->loads[i].address;
		if (address >= map->loads[i].address && into < map->loads[i].size) {
			*ret_offset = map->loads[i].offset + into;
			return true;
		}
	}
	return false;
}

void needed_first(int fd, const struct needed_map *map, char *ret_name, size_t size)
{
	struct found found = { .needs = false };
	uint64_t offset;
	*ret_name = '\0';
	read_dynamic(fd, map, &found);
	if (!found.needs || !found.has_strings ||
	    !offset_of(map, found.strings + found.name, &offset))
		return;
	int len = read_some(fd, ret_name, size, offset);
	if (len <= 0 || !memchr(ret_name, '\0', (size_t)len))
		*ret_name = '\0';
}
