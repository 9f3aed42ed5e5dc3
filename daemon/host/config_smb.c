/* SPDX-License-Identifier: MIT */
#include "daemon/host/config_smb.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "daemon/host/tcp_socket.h"

#define WORD_LEN 64

socklen_t config_smb_server_parse(const char *text, struct sockaddr_storage *ret_server)
{
	struct sockaddr_un *local = (struct sockaddr_un *)ret_server;
	if (text[0] != '/')
		return tcp_socket_address(text, ret_server);
	if (strlen(text) >= sizeof(local->sun_path))
		return 0;
	memset(ret_server, 0, sizeof(*ret_server));
	local->sun_family = AF_UNIX;
	strcpy(local->sun_path, text);
	return sizeof(*local);
}

/* With or without a port. Connections of RDMA go over IPv4 here. */
static bool parse_peer(const char *text, struct sockaddr_storage *ret_peer)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_peer;
	if (strchr(text, ':'))
		return tcp_socket_address(text, ret_peer) && in->sin_family == AF_INET;
	memset(ret_peer, 0, sizeof(*ret_peer));
	in->sin_family = AF_INET;
	return inet_pton(AF_INET, text, &in->sin_addr) == 1;
}

bool config_smb_client_parse(const char *text, struct config_smb_client *ret_client)
{
	char listen[WORD_LEN], peer[WORD_LEN], more;
	if (sscanf(text, "%63s %63s %c", listen, peer, &more) != 2)
		return false;
	ret_client->listen_len = tcp_socket_address(listen, &ret_client->listen);
	return ret_client->listen_len && parse_peer(peer, &ret_client->peer);
}
