/* SPDX-License-Identifier: MIT */
/**
 * @file output.h
 * Output for programs: JSON documents with a schema. Errors are printed as sentences, too.
 */
#ifndef SMCRD_SMCRCTL_OUTPUT_H
#define SMCRD_SMCRCTL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2, /* wrong words or values, whether smcrctl or smcrd notices it */
	STATUS_NO_DAEMON = 3,
	STATUS_NOT_FOUND = 4,
};

struct output {
	bool json, pretty; /* pretty: indented; else each document is one line */
	bool details;      /* tables with all columns */
	bool exact_bytes;  /* 1234567 instead of 1.2M */
	FILE *to;          /* documents go there; NULL: to standard output */
	char words[32];    /* what smcrd is asked for, in the words of the command line */
};

/** Print one document: {"schema": 1, KEY: value}. */
void output_json(const struct output *output, const char *key, const json_t *value);

/** Print an error that smcrctl found, as a sentence on standard error and, with JSON, as a
 * document.
 * @return `status` */
int output_error(const struct output *output, enum exit_status status, const char *code,
		 const char *text);

/** Print the error that session_open(), pages_request() or the like have returned, with its
 * sentence. @return the exit status */
int output_failure(const struct output *output, int error, const char *text);

/** Print why smcrd refuses, with output->words where a command is not permitted or not known.
 * @param error  the "error" of its reply @return the exit status */
int output_refusal(const struct output *output, const json_t *error);

#endif
