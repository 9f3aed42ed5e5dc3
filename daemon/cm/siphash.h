/* SPDX-License-Identifier: MIT */
/**
 * @file siphash.h
 * SipHash-2-4 (Aumasson and Bernstein, 2012): a hash with a secret key. Who does not know the key
 * cannot find inputs that fall together. So it hashes what peers choose.
 */
#ifndef SMCRD_CM_SIPHASH_H
#define SMCRD_CM_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint8_t key[16], const void *data, size_t len);

#endif
