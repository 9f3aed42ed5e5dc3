/* SPDX-License-Identifier: MIT */
/**
 * @file config_file.h
 * Where smcrd and its tools find the configuration of this installation.
 */
#ifndef SMCRD_PROTO_IPC_CONFIG_FILE_H
#define SMCRD_PROTO_IPC_CONFIG_FILE_H

#define IPC_SYSTEM_CONFIG_FILE "/etc/smcrd/smcrd.conf"

/** The main file of the configuration, unless the command line names another: etc/smcrd/smcrd.conf
 * of the directory below which the running program was installed (PREFIX of `make install`), if
 * there is one, else IPC_SYSTEM_CONFIG_FILE. Looked for once, at the first call; thread safe.
 *  @return an absolute path of less than PATH_MAX bytes, for as long as the program runs */
const char *ipc_config_file(void);

#endif
