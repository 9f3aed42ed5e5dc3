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
 * @param buf   where the bytes go
 * @param room  size of buf in bytes; a longer text aborts
 * @return number of bytes
 */
size_t hex_bytes(const char *text, uint8_t *buf, size_t room);

/** A heap copy of exactly `len` bytes, so that the address sanitizer sees reads past its end. The
 * caller frees it. */
uint8_t *exact_copy(const void *bytes, size_t len);

#endif
