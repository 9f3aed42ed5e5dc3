/* SPDX-License-Identifier: MIT */
/**
 * @file needed.h
 * The first library that an ELF program of this architecture's class and byte order needs. All
 * functions are async-signal-safe and thread safe.
 */
#ifndef SMCRD_LIB_INSPECT_NEEDED_H
#define SMCRD_LIB_INSPECT_NEEDED_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define NEEDED_LOADS 8 /* programs have four or five */

/** Where the file's dynamic section and strings are. It lies on the stack of exec(). */
struct needed_map {
	uint64_t dynamic, dynamic_size; /* in the file; the size is 0: there is none */
	size_t count;
	struct {
		uint64_t address, offset, size;
	} loads[NEEDED_LOADS]; /* the first ones */
};

/** Note a segment, if it is one of these. @param map  zeros at first */
void needed_note(struct needed_map *map, const Elf64_Phdr *segment);

/**
 * Read the name of the first library, as the loader will look for it.
 * @param fd        the file
 * @param ret_name  empty: it needs none, the name is longer, or the file cannot be read as ELF
 * @param size      of ret_name, at most 4096
 */
void needed_first(int fd, const struct needed_map *map, char *ret_name, size_t size);

#endif
