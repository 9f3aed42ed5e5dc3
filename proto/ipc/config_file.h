/* SPDX-License-Identifier: MIT */
/**
 * @file config_file.h
 * Where smcrd and its tools find the configuration of this installation.
 */
#ifndef SMCRD_PROTO_IPC_CONFIG_FILE_H
#define SMCRD_PROTO_IPC_CONFIG_FILE_H

#include <stdint.h>
#include <sys/stat.h>

#define IPC_SYSTEM_CONFIG_FILE "/etc/smcrd/smcrd.conf"

/** The main file of the configuration, unless the command line names another. It is
 * PREFIX/etc/smcrd/smcrd.conf if that exists, where PREFIX is the one of `make install` of the
 * running program; else IPC_SYSTEM_CONFIG_FILE. Looked for once, at the first call. Thread safe.
 * @return an absolute path of less than PATH_MAX bytes, in static storage */
const char *ipc_config_file(void);

/** When the content of a file was changed last: smcrd tells that of the file that it has read, and
 * tools compare. @return microseconds since 1970 */
int64_t ipc_config_changed_us(const struct stat *st);

#endif
