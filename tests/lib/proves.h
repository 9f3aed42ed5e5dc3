/* SPDX-License-Identifier: MIT */
/**
 * @file proves.h
 * How a test says which requirement of docs/requirements*.tsv it proves. Called as the last
 * statement of a test, so that only a test that passed is recorded. docs/conformance*.md is made
 * from it.
 */
#ifndef SMCRD_TESTS_PROVES_H
#define SMCRD_TESTS_PROVES_H

/**
 * Append an "ID<tab>file:test" line for each id to the file that the environment variable
 * SMCR_PROOFS names; do nothing without it.
 * @param file  source file of the test
 * @param test  name of the test
 * @param ids   requirement ids separated by blanks, "CLC-1 CLC-3"
 */
void proves_by(const char *file, const char *test, const char *ids);

/** In a C test function, as its last statement: PROVES("CLC-1 CLC-3"); */
#define PROVES(ids) proves_by(__FILE__, __func__, (ids))

#endif
