/* SPDX-License-Identifier: MIT */
/*
 * A program with one socket. Standard input tells it step by step what to do with the socket. It
 * answers each command by one line: "ok", "ok VALUE" or the name of the errno.
 *
 *   socket tcp|mptcp|udp|unix [6]
 *   share-port                     before bind: other sockets may listen at the same port
 *   bind ADDR PORT | port | listen | connect ADDR PORT | disconnect | shutdown | close
 *   accept                         the accepted socket takes the listener's place
 *   parent                         close the accepted socket, go back to the listener
 *   send DATA | receive
 *   fastopen-listen | fastopen-connect ADDR PORT DATA
 *   defer-accept                   accept() only connections with data
 *   sign PEER KEY                  TCP's MD5 option (RFC 2385)
 *   getsockopt LEVEL NAME LENGTH | setsockopt LEVEL NAME LENGTH
 *   claim [0|1] | claim-to-connect | bar [0|1]
 *   negotiated | stands-still | reason | plain REASON_CODE
 *   negotiated-as-claims-end       as soon as claims are refused
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/ipc/ipc.h"

#define BIG_VALUE 65536

static int fd = -1;
static int parent = -1;

static socklen_t parse(const char *ip, const char *port, struct sockaddr_storage *ret_addr)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_addr;
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (inet_pton(AF_INET, ip, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(port));
		return sizeof(*in);
	}
	if (inet_pton(AF_INET6, ip, &in6->sin6_addr) != 1) {
		fprintf(stderr, "no address: %s\n", ip);
		exit(2);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons((uint16_t)atoi(port));
	return sizeof(*in6);
}

static int make_socket(const char *protocol, const char *family)
{
	int one = 1;
	if (!strcmp(protocol, "unix"))
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
	else if (!strcmp(protocol, "udp"))
		fd = socket(*family == '6' ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
	else
		fd = socket(*family == '6' ? AF_INET6 : AF_INET, SOCK_STREAM,
			    !strcmp(protocol, "mptcp") ? IPPROTO_MPTCP : IPPROTO_TCP);
	return fd < 0 ? -1 : setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
}

static int set_private(int name, const char *value)
{
	int wanted = *value ? atoi(value) : 1;
	return setsockopt(fd, IPC_SOL_SMCR, name, &wanted, sizeof(wanted));
}

static int say_plain(const char *reason)
{
	const struct ipc_plain plain = { .reason = (uint32_t)strtoul(reason, NULL, 16) };
	return setsockopt(fd, IPC_SOL_SMCR, IPC_SO_PLAIN, &plain, sizeof(plain));
}

static int claim_to_connect(void)
{
	const struct ipc_claim claim = { .wanted = 1, .flags = IPC_CLAIM_TO_CONNECT };
	return setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &claim, sizeof(claim));
}

static int negotiated(const char **ret_text)
{
	static const char *const names[] = { "unknown", "yes", "no", "unclaimed", "doubtful" };
	int value = -1;
	socklen_t len = sizeof(value);
	if (getsockopt(fd, IPC_SOL_SMCR, IPC_SO_NEGOTIATED, &value, &len) < 0)
		return -1;
	*ret_text = value >= 0 && value <= 4 && len == sizeof(value) ? names[value] : "nonsense";
	return 0;
}

static int get_private(int name, const char **ret_text)
{
	static char text[16];
	int value = -1;
	socklen_t len = sizeof(value);
	if (getsockopt(fd, IPC_SOL_SMCR, name, &value, &len) < 0)
		return -1;
	snprintf(text, sizeof(text), "%x", (unsigned int)value);
	*ret_text = text;
	return 0;
}

static int accept_child(void)
{
	int child = accept(fd, NULL, NULL);
	if (child < 0)
		return -1;
	parent = fd;
	fd = child;
	return 0;
}

static int disconnect(void)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	return connect(fd, &none, sizeof(none));
}

static int negotiated_as_claims_end(const char **ret_text)
{
	const int wanted = 0;
	while (setsockopt(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, &wanted, sizeof(wanted)) == 0)
		;
	return errno == ENOPROTOOPT ? negotiated(ret_text) : -1;
}

static int fastopen_listen(void)
{
	int backlog = 16;
	return setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &backlog, sizeof(backlog));
}

static int fastopen_connect(const char *ip, const char *port, const char *data)
{
	struct sockaddr_storage addr;
	socklen_t len = parse(ip, port, &addr);
	return sendto(fd, data, strlen(data), MSG_FASTOPEN, (struct sockaddr *)&addr, len) < 0 ? -1
											       : 0;
}

static int defer_accept(void)
{
	int seconds = 5;
	return setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
}

static int sign(const char *peer, const char *key)
{
	struct tcp_md5sig md5 = { .tcpm_keylen = (uint16_t)strlen(key) };
	parse(peer, "0", (struct sockaddr_storage *)&md5.tcpm_addr);
	memcpy(md5.tcpm_key, key, strlen(key));
	return setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &md5, sizeof(md5));
}

static int get_option(const char *level, const char *name, const char *length,
		      const char **ret_text)
{
	static char value[BIG_VALUE], text[16];
	socklen_t len = (socklen_t)atoi(length);
	if (len > sizeof(value) || getsockopt(fd, atoi(level), atoi(name), value, &len) < 0)
		return -1;
	snprintf(text, sizeof(text), "%u", len);
	*ret_text = text;
	return 0;
}

static int set_option(const char *level, const char *name, const char *length)
{
	static const char value[BIG_VALUE];
	return setsockopt(fd, atoi(level), atoi(name), value, (socklen_t)atoi(length));
}

static int share_port(void)
{
	int one = 1;
	return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
}

static int local_port(const char **ret_text)
{
	static char text[16];
	struct sockaddr_in6 addr;
	socklen_t len = sizeof(addr);
	if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		return -1;
	snprintf(text, sizeof(text), "%u", ntohs(addr.sin6_port));
	*ret_text = text;
	return 0;
}

static int receive(const char **ret_text)
{
	static char data[256];
	ssize_t n = recv(fd, data, sizeof(data) - 1, 0);
	if (n < 0)
		return -1;
	data[n] = '\0';
	*ret_text = data;
	return 0;
}

static int obey(char *line, const char **ret_text)
{
	char arg[5][64] = { "" };
	struct sockaddr_storage addr;
	sscanf(line, "%63s %63s %63s %63s %63s", arg[0], arg[1], arg[2], arg[3], arg[4]);
	const char *command = arg[0];
	if (!strcmp(command, "socket"))
		return make_socket(arg[1], arg[2]);
	if (!strcmp(command, "claim"))
		return set_private(IPC_SO_CLAIM, arg[1]);
	if (!strcmp(command, "claim-to-connect"))
		return claim_to_connect();
	if (!strcmp(command, "bar"))
		return set_private(IPC_SO_BAR, arg[1]);
	if (!strcmp(command, "plain"))
		return say_plain(arg[1]);
	if (!strcmp(command, "shutdown"))
		return shutdown(fd, SHUT_RDWR);
	if (!strcmp(command, "share-port"))
		return share_port();
	if (!strcmp(command, "bind")) {
		socklen_t len = parse(arg[1], arg[2], &addr);
		return bind(fd, (struct sockaddr *)&addr, len);
	}
	if (!strcmp(command, "listen"))
		return listen(fd, 16);
	if (!strcmp(command, "connect")) {
		socklen_t len = parse(arg[1], arg[2], &addr);
		return connect(fd, (struct sockaddr *)&addr, len);
	}
	if (!strcmp(command, "accept"))
		return accept_child();
	if (!strcmp(command, "negotiated"))
		return negotiated(ret_text);
	if (!strcmp(command, "stands-still"))
		return get_private(IPC_SO_STANDS_STILL, ret_text);
	if (!strcmp(command, "reason"))
		return get_private(IPC_SO_REASON, ret_text);
	if (!strcmp(command, "negotiated-as-claims-end"))
		return negotiated_as_claims_end(ret_text);
	if (!strcmp(command, "disconnect"))
		return disconnect();
	if (!strcmp(command, "fastopen-listen"))
		return fastopen_listen();
	if (!strcmp(command, "fastopen-connect"))
		return fastopen_connect(arg[1], arg[2], arg[3]);
	if (!strcmp(command, "defer-accept"))
		return defer_accept();
	if (!strcmp(command, "sign"))
		return sign(arg[1], arg[2]);
	if (!strcmp(command, "send"))
		return send(fd, arg[1], strlen(arg[1]), MSG_NOSIGNAL) < 0 ? -1 : 0;
	if (!strcmp(command, "receive"))
		return receive(ret_text);
	if (!strcmp(command, "getsockopt"))
		return get_option(arg[1], arg[2], arg[3], ret_text);
	if (!strcmp(command, "setsockopt"))
		return set_option(arg[1], arg[2], arg[3]);
	if (!strcmp(command, "port"))
		return local_port(ret_text);
	if (!strcmp(command, "parent")) {
		close(fd);
		fd = parent;
		return 0;
	}
	if (!strcmp(command, "close"))
		return close(fd);
	errno = ENOSYS;
	return -1;
}

int main(void)
{
	char line[256];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		const char *text = "";
		if (obey(line, &text) < 0)
			printf("%s\n", strerrorname_np(errno));
		else
			printf("ok%s%s\n", *text ? " " : "", text);
	}
	return 0;
}
