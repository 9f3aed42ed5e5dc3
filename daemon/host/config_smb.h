/* SPDX-License-Identifier: MIT */
/** @file config_smb.h The values of the keys about SMB Direct. Functions only compute. */
#ifndef SMCRD_HOST_CONFIG_SMB_H
#define SMCRD_HOST_CONFIG_SMB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONFIG_MAX_SMB_CLIENTS 8

/** Where programs connect, and the server of SMB Direct behind that. */
struct config_smb_client {
	struct sockaddr_storage listen;
	socklen_t listen_len;
	struct sockaddr_storage peer; /* port 0: the usual ones */
};

struct config_smb {
	struct sockaddr_storage server; /* where clients of SMB Direct are led */
	socklen_t server_len;           /* 0: nowhere */
	struct config_smb_client clients[CONFIG_MAX_SMB_CLIENTS];
	size_t num_clients;
	uint64_t memory; /* bytes */
};

/** "127.0.0.1:445" or the path of a Unix socket. @return length of the address; 0: neither */
socklen_t config_smb_server_parse(const char *text, struct sockaddr_storage *ret_server);
/** "127.0.0.1:1445 192.0.2.1" or "127.0.0.1:1445 192.0.2.1:5445". @return false: it is not so */
bool config_smb_client_parse(const char *text, struct config_smb_client *ret_client);

#endif
