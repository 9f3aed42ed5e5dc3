/* SPDX-License-Identifier: MIT */
/**
 * @file hex.h
 * Golden bytes written as text, and copies of exact size for the address sanitizer.
 */
#ifndef SMCRD_TESTS_HEX_H
#define SMCRD_TESTS_HEX_H

#include <stddef.h>
#include <stdint.h>

/**
 * Turn hexadecimal digits into bytes; blanks are ignored, anything else aborts.
 * @param text  an even number of digits
 * @param buf   room for the bytes
 * @param room  bytes in buf; a longer text aborts
 * @return number of bytes
 */
size_t hex_bytes(const char *text, uint8_t *buf, size_t room);

/** A heap copy of exactly `len` bytes, to be freed: reading past its end is seen. */
uint8_t *exact_copy(const void *bytes, size_t len);

#endif
