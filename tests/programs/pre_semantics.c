/* SPDX-License-Identifier: MIT */
/*
 * Makes the socket calls that programs make, and prints the results, one a line. With and without
 * SMC-R the output must be the same, but for the differences in tests/bats/semantics.diff.
 *
 *   pre_semantics ADDRESS PORT   a client of echo_server at PORT and command_server at PORT + 2;
 *                                nobody may listen at PORT + 1
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in server;

/* ---- results */

static void number(const char *what, long value)
{
	printf("%s: %ld\n", what, value);
}

/* Print a result, or the name of the error. */
static void result(const char *what, long rc)
{
	if (rc < 0)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else
		number(what, rc);
}

static void option(const char *what, int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);
	int rc = getsockopt(fd, level, name, &value, &len);
	result(what, rc < 0 ? rc : value);
}

static void set_option(const char *what, int fd, int level, int name, int value)
{
	char label[64];
	snprintf(label, sizeof(label), "set %s", what);
	result(label, setsockopt(fd, level, name, &value, sizeof(value)));
	option(what, fd, level, name);
}

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static short wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int ready;
	do
		ready = poll(&p, 1, 10000);
	while (ready < 0 && errno == EINTR); /* SIGURG interrupts poll() */
	if (ready <= 0)
		give_up("poll");
	return p.revents;
}

static int open_socket(int flags)
{
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
	if (fd < 0)
		give_up("socket");
	return fd;
}

static int connect_to(int fd, int port_offset)
{
	struct sockaddr_in addr = server;
	addr.sin_port = htons((uint16_t)(ntohs(server.sin_port) + port_offset));
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr));
}

static int connected_at(int port_offset)
{
	int fd = open_socket(0);
	if (connect_to(fd, port_offset) < 0)
		give_up("connect");
	return fd;
}

static int connected(void)
{
	return connected_at(0);
}

static void read_whole(int fd, size_t len)
{
	char buf[4096];
	while (len > 0) {
		ssize_t n = read(fd, buf, len < sizeof(buf) ? len : sizeof(buf));
		if (n <= 0)
			give_up("read");
		len -= (size_t)n;
	}
}

/* Connect to command_server and send commands. The first one is "e": its answer shows that the
 * server has the connection. */
static int commanded(const char *commands)
{
	int fd = connected_at(2);
	size_t len = strlen(commands);
	if (send(fd, commands, len, MSG_NOSIGNAL) != (ssize_t)len)
		give_up("send");
	read_whole(fd, 1);
	return fd;
}

/* ---- connect */

static void names(int fd)
{
	struct sockaddr_in addr = { 0 };
	socklen_t len = sizeof(addr);
	result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
	number("peer is the server",
	       addr.sin_addr.s_addr == server.sin_addr.s_addr && addr.sin_port == server.sin_port);
	len = 5;
	result("getsockname", getsockname(fd, (struct sockaddr *)&addr, &len));
	number("getsockname length", len);
	number("getsockname family", addr.sin_family);
}

static void blocking_connect(void)
{
	puts("# blocking connect");
	int fd = open_socket(0);
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	result("getpeername before", getpeername(fd, (struct sockaddr *)&addr, &len));
	result("connect", connect_to(fd, 0));
	result("connect again", connect_to(fd, 0));
	names(fd);
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	result("listen", listen(fd, 1));
	result("accept", accept(fd, NULL, NULL));
	const struct sockaddr_in any = { .sin_family = AF_INET };
	result("bind", bind(fd, (const struct sockaddr *)&any, sizeof(any)));
	result("close", close(fd));
	result("close again", close(fd));
}

static void non_blocking_connect(void)
{
	puts("# non-blocking connect");
	int fd = open_socket(SOCK_NONBLOCK);
	result("connect", connect_to(fd, 0));
	number("writable", !!(wait_for(fd, POLLOUT) & POLLOUT));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	result("connect for the outcome", connect_to(fd, 0));
	result("connect again", connect_to(fd, 0));
	names(fd);
	number("O_NONBLOCK", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	close(fd);
	fd = open_socket(SOCK_NONBLOCK);
	result("connect", connect_to(fd, 0));
	number("writable", !!(wait_for(fd, POLLOUT) & POLLOUT));
	result("connect for the outcome", connect_to(fd, 0));
	result("connect again", connect_to(fd, 0));
	close(fd);
}

static void refused_connect(void)
{
	puts("# refused connect");
	int fd = open_socket(0);
	result("blocking", connect_to(fd, 1));
	result("the same socket to the server", connect_to(fd, 0));
	close(fd);
	fd = open_socket(SOCK_NONBLOCK);
	result("non-blocking", connect_to(fd, 1));
	/* When a pair ends, the kernel tells so a moment before its queue is empty. */
	int revents = wait_for(fd, POLLOUT);
	for (int i = 0; i < 1000 && !(revents & POLLOUT); i++) {
		usleep(1000);
		revents = wait_for(fd, POLLOUT);
	}
	number("revents", revents & (POLLOUT | POLLHUP));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	option("SO_ERROR again", fd, SOL_SOCKET, SO_ERROR);
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
	close(fd);
	fd = open_socket(SOCK_NONBLOCK);
	result("non-blocking", connect_to(fd, 1));
	wait_for(fd, POLLOUT);
	result("connect for the outcome", connect_to(fd, 1));
	result("the same socket to the server", connect_to(fd, 0));
	close(fd);
}

/* send() and recv() after connect() in progress was refused, when nobody has asked for the outcome.
 */
static void refused_without_a_look(void)
{
	puts("# refused connect, no look at the outcome");
	char byte;
	int fd = open_socket(SOCK_NONBLOCK);
	result("non-blocking", connect_to(fd, 1));
	wait_for(fd, POLLOUT);
	result("recv", recv(fd, &byte, 1, 0));
	result("recv again", recv(fd, &byte, 1, 0));
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
	fd = open_socket(SOCK_NONBLOCK);
	result("non-blocking", connect_to(fd, 1));
	wait_for(fd, POLLOUT);
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	result("send again", send(fd, "x", 1, MSG_NOSIGNAL));
	result("recv", recv(fd, &byte, 1, 0));
	close(fd);
	/* getpeername() tells whether connect() has succeeded, and recv() tells why not. */
	for (int way = 0; way < 2; way++) {
		struct sockaddr_in addr;
		socklen_t len = sizeof(addr);
		fd = open_socket(SOCK_NONBLOCK);
		result("non-blocking", connect_to(fd, 1));
		wait_for(fd, POLLOUT);
		result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
		if (way == 0)
			result("recv", recv(fd, &byte, 1, 0));
		option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
		close(fd);
	}
}

static int disconnect_it(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	return connect(fd, &none, sizeof(none));
}

/* connect() with AF_UNSPEC, and what the socket can do afterwards. */
static void disconnect(void)
{
	puts("# disconnect");
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	char byte;
	int fd = connected();
	set_option("TCP_KEEPIDLE", fd, IPPROTO_TCP, TCP_KEEPIDLE, 55);
	result("disconnect", disconnect_it(fd));
	result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
	number("revents", wait_for(fd, POLLIN | POLLOUT));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	option("SO_ERROR again", fd, SOL_SOCKET, SO_ERROR);
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	result("recv", recv(fd, &byte, 1, 0));
	result("disconnect again", disconnect_it(fd));
	result("connect", connect_to(fd, 0));
	result("send", send(fd, "x", 1, 0));
	result("recv", recv(fd, &byte, 1, 0));
	option("TCP_KEEPIDLE", fd, IPPROTO_TCP, TCP_KEEPIDLE);
	close(fd);
	fd = open_socket(SOCK_NONBLOCK);
	result("connect", connect_to(fd, 0));
	result("disconnect at once", disconnect_it(fd));
	result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
	result("connect", connect_to(fd, 0));
	wait_for(fd, POLLOUT);
	result("send", send(fd, "x", 1, 0));
	wait_for(fd, POLLIN);
	result("recv", recv(fd, &byte, 1, 0));
	number("O_NONBLOCK", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	close(fd);
}

/* ---- options */

/* IP_OPTIONS: servers look for a source route, and remove it. */
static void seldom_options(int fd)
{
	char text[64];
	socklen_t len = sizeof(text);
	result("IP_OPTIONS", getsockopt(fd, IPPROTO_IP, IP_OPTIONS, text, &len));
	number("length", len);
	result("set IP_OPTIONS", setsockopt(fd, IPPROTO_IP, IP_OPTIONS, NULL, 0));
	len = sizeof(text);
	result("SO_MEMINFO", getsockopt(fd, SOL_SOCKET, SO_MEMINFO, text, &len));
	number("length", len);
	len = sizeof(text);
	result("SO_PEERGROUPS", getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, text, &len));
	set_option("SO_RXQ_OVFL", fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	set_option("SO_SELECT_ERR_QUEUE", fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1);
	set_option("SO_INCOMING_CPU", fd, SOL_SOCKET, SO_INCOMING_CPU, 0);
	set_option("SO_TXREHASH", fd, SOL_SOCKET, SO_TXREHASH, 1);
	set_option("SO_DETACH_FILTER", fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	set_option("TCP_FASTOPEN", fd, IPPROTO_TCP, TCP_FASTOPEN, 5);
	set_option("TCP_FASTOPEN_NO_COOKIE", fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1);
	set_option("IP_RECVERR_RFC4884", fd, IPPROTO_IP, IP_RECVERR_RFC4884, 0);
	set_option("IP_UNICAST_IF", fd, IPPROTO_IP, IP_UNICAST_IF, 0);
	/* squid asks so for the TOS of a server. */
	len = sizeof(text);
	result("IP_PKTOPTIONS", getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, text, &len));
	number("length", len);
}

/* Options that a pair end does not have may be turned off. */
static void options_that_are_off(int fd)
{
	set_option("SO_ZEROCOPY", fd, SOL_SOCKET, SO_ZEROCOPY, 0);
	set_option("SO_TIMESTAMP", fd, SOL_SOCKET, SO_TIMESTAMP, 0);
	set_option("SO_TIMESTAMPNS", fd, SOL_SOCKET, SO_TIMESTAMPNS, 0);
	set_option("SO_TIMESTAMPING", fd, SOL_SOCKET, SO_TIMESTAMPING, 0);
	set_option("TCP_INQ", fd, IPPROTO_TCP, TCP_INQ, 0);
	result("TCP_INQ of one byte", setsockopt(fd, IPPROTO_TCP, TCP_INQ, "", 1));
}

static void set_linger(int fd, struct linger linger)
{
	socklen_t len = sizeof(linger);
	result("set SO_LINGER", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	result("SO_LINGER", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
	number("l_onoff", linger.l_onoff);
	number("l_linger", linger.l_linger);
}

static void options(void)
{
	puts("# options");
	int fd = connected();
	struct timeval limit = { .tv_sec = 2 };
	struct tcp_info info = { 0 };
	struct ucred cred = { 1, 1, 1 };
	socklen_t len;
	option("SO_DOMAIN", fd, SOL_SOCKET, SO_DOMAIN);
	option("SO_TYPE", fd, SOL_SOCKET, SO_TYPE);
	option("SO_PROTOCOL", fd, SOL_SOCKET, SO_PROTOCOL);
	option("SO_ACCEPTCONN", fd, SOL_SOCKET, SO_ACCEPTCONN);
	set_option("TCP_NODELAY", fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option("TCP_NODELAY", fd, IPPROTO_TCP, TCP_NODELAY, 0);
	set_option("TCP_CORK", fd, IPPROTO_TCP, TCP_CORK, 1);
	set_option("TCP_KEEPIDLE", fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
	set_option("TCP_KEEPINTVL", fd, IPPROTO_TCP, TCP_KEEPINTVL, 7);
	set_option("TCP_USER_TIMEOUT", fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
	set_option("TCP_FASTOPEN_CONNECT", fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
	set_option("SO_DEBUG", fd, SOL_SOCKET, SO_DEBUG, 0);
	set_option("SO_NO_CHECK", fd, SOL_SOCKET, SO_NO_CHECK, 1);
	set_option("SO_BSDCOMPAT", fd, SOL_SOCKET, SO_BSDCOMPAT, 1);
	set_option("SO_KEEPALIVE", fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option("SO_REUSEADDR", fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_option("SO_SNDBUF", fd, SOL_SOCKET, SO_SNDBUF, 60000);
	set_option("SO_RCVBUF", fd, SOL_SOCKET, SO_RCVBUF, 50000);
	set_option("SO_RCVLOWAT", fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	set_option("SO_OOBINLINE", fd, SOL_SOCKET, SO_OOBINLINE, 1);
	set_option("SO_PRIORITY", fd, SOL_SOCKET, SO_PRIORITY, 5);
	set_option("IP_TOS", fd, IPPROTO_IP, IP_TOS, 0x20);
	set_option("IP_TTL", fd, IPPROTO_IP, IP_TTL, 33);
	/* BIRD gives up an accepted connection if that fails. */
	set_option("IP_MINTTL", fd, IPPROTO_IP, IP_MINTTL, 1);
	/* Erlang sets these on every connection that it accepts, and closes it if that fails. */
	set_option("IP_RECVTOS", fd, IPPROTO_IP, IP_RECVTOS, 1);
	set_option("IP_RECVTTL", fd, IPPROTO_IP, IP_RECVTTL, 1);
	set_option("IP_RECVTTL", fd, IPPROTO_IP, IP_RECVTTL, 0);
	set_option("IP_PKTINFO", fd, IPPROTO_IP, IP_PKTINFO, 1);
	set_option("IP_RECVERR", fd, IPPROTO_IP, IP_RECVERR, 0);
	set_option("IPV6_V6ONLY", fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set_option("IPV6_RECVTCLASS", fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	set_option("unknown TCP option", fd, IPPROTO_TCP, 30000, 1);
	set_option("unknown level", fd, 30000, 1, 1);
	seldom_options(fd);
	options_that_are_off(fd);
	set_linger(fd, (struct linger){ 2, 3 });
	set_linger(fd, (struct linger){ 0, 9 });
	result("set SO_RCVTIMEO", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	limit.tv_sec = 0;
	len = sizeof(limit);
	result("SO_RCVTIMEO", getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &len));
	number("tv_sec", limit.tv_sec);
	len = sizeof(info);
	result("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	number("tcpi_state", info.tcpi_state);
	len = sizeof(cred);
	result("SO_PEERCRED", getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len));
	number("pid", cred.pid);
	number("uid", (int)cred.uid);
	result("TCP_NODELAY of one byte", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, "", 1));
	close(fd);
}

/* ---- data */

static void receiving(void)
{
	puts("# receiving");
	int fd = connected();
	char buf[64];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	int waiting = -1;
	struct timeval limit = { .tv_usec = 50000 };
	result("recv of nothing", recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	result("recv with a limit", recv(fd, buf, sizeof(buf), 0));
	limit.tv_usec = 0;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	result("send", send(fd, "0123456789", 10, 0));
	result("recv MSG_PEEK | MSG_WAITALL", recv(fd, buf, 10, MSG_PEEK | MSG_WAITALL));
	result("FIONREAD", ioctl(fd, FIONREAD, &waiting));
	number("bytes waiting", waiting);
	result("recv of no bytes", recv(fd, buf, 0, 0));
	result("recv of 4", recv(fd, buf, 4, 0));
	result("recvfrom", recvfrom(fd, buf, 1, 0, (struct sockaddr *)&from, &len));
	number("address length", len);
	struct iovec iov[2] = { { buf, 2 }, { buf + 2, 2 } };
	result("readv", readv(fd, iov, 2));
	result("read", read(fd, buf, sizeof(buf)));
	result("send", send(fd, "abc", 3, 0));
	result("recv MSG_WAITALL", recv(fd, buf, 3, MSG_WAITALL));
	result("FIONBIO", ioctl(fd, FIONBIO, &(int){ 1 }));
	result("read of nothing", read(fd, buf, 1));
	close(fd);
}

/* More than a socket pair holds. */
static void discarding(int fd)
{
	static char block[1 << 20];
	const size_t blocks = 12;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		for (size_t i = 0; i < blocks; i++)
			for (size_t n = 0; n < sizeof(block);)
				n += (size_t)send(fd, block, sizeof(block) - n, 0);
		_exit(0);
	}
	result("recv MSG_TRUNC of much",
	       recv(fd, NULL, blocks * sizeof(block), MSG_TRUNC | MSG_WAITALL));
	waitpid(pid, NULL, 0);
}

#define SMALL_STACK ((size_t)16384)

static void *discard_in_thread(void *arg)
{
	return (void *)recv(*(int *)arg, NULL, 100, MSG_TRUNC);
}

/* As in servers with very many threads. */
static void discarding_on_a_small_stack(int fd)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *discarded;
	char *stack = mmap(NULL, 5 * SMALL_STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *room = stack + 4 * SMALL_STACK;
	if (stack == MAP_FAILED || mprotect(room, SMALL_STACK, PROT_READ | PROT_WRITE) < 0 ||
	    pthread_attr_init(&attr) || pthread_attr_setstack(&attr, room, SMALL_STACK) ||
	    send(fd, "discarded", 9, 0) != 9)
		give_up("small stack");
	if (pthread_create(&thread, &attr, discard_in_thread, &fd))
		give_up("pthread_create");
	pthread_join(thread, &discarded);
	number("recv MSG_TRUNC on a small stack", (long)discarded);
	pthread_attr_destroy(&attr);
	munmap(stack, 5 * SMALL_STACK);
}

static void receiving_oddly(void)
{
	puts("# receiving, seldom used");
	int fd = connected(), waiting = 0;
	char buf[16];
	struct sockaddr_storage from;
	socklen_t len;
	struct iovec iov = { buf, 2 };
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1
	};
	set_option("SO_RCVLOWAT", fd, SOL_SOCKET, SO_RCVLOWAT, 5);
	result("send", send(fd, "ab", 2, 0));
	while (ioctl(fd, FIONREAD, &waiting) == 0 && waiting < 2)
		usleep(1000);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	result("poll below SO_RCVLOWAT", poll(&p, 1, 0));
	result("send", send(fd, "cdefgh", 6, 0));
	result("poll above SO_RCVLOWAT", wait_for(fd, POLLIN));
	result("recvmsg", recvmsg(fd, &msg, MSG_WAITALL));
	number("address length", msg.msg_namelen);
	number("flags", msg.msg_flags);
	while (ioctl(fd, FIONREAD, &waiting) == 0 && waiting < 6)
		usleep(1000);
	result("recv MSG_ERRQUEUE", recv(fd, buf, 1, MSG_ERRQUEUE | MSG_DONTWAIT));
	result("recvmsg MSG_ERRQUEUE without a buffer",
	       recvmsg(fd, &(struct msghdr){ 0 }, MSG_ERRQUEUE | MSG_DONTWAIT));
	result("recv MSG_TRUNC", recv(fd, NULL, 2, MSG_TRUNC | MSG_WAITALL));
	set_option("SO_RCVLOWAT", fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	result("recv MSG_TRUNC | MSG_PEEK", recv(fd, NULL, 100, MSG_TRUNC | MSG_PEEK));
	len = sizeof(from);
	result("recvfrom MSG_TRUNC",
	       recvfrom(fd, NULL, 1, MSG_TRUNC, (struct sockaddr *)&from, &len));
	number("address length", len);
	iov.iov_len = 1;
	result("recvmsg MSG_TRUNC", recvmsg(fd, &msg, MSG_TRUNC));
	result("recv", recv(fd, buf, sizeof(buf), 0));
	number("byte", buf[0]);
	result("recv MSG_TRUNC of nothing", recv(fd, NULL, 2, MSG_TRUNC | MSG_DONTWAIT));
	discarding(fd);
	discarding_on_a_small_stack(fd);
	close(fd);
}

static void sending(void)
{
	puts("# sending");
	int fd = connected();
	struct iovec iov[2] = { { (void *)(size_t) "ab", 2 }, { (void *)(size_t) "cde", 3 } };
	result("writev", writev(fd, iov, 2));
	result("send of nothing", send(fd, "", 0, 0));
	result("send MSG_MORE", send(fd, "x", 1, MSG_MORE));
	ssize_t addressed = sendto(fd, "yz", 2, 0, (struct sockaddr *)&server, sizeof(server));
	result("sendto with an address", addressed);
	struct sockaddr_storage zero = { 0 };
	result("sendto of nothing", sendto(fd, "", 0, 0, (struct sockaddr *)&zero, sizeof(zero)));
	const struct msghdr msg = {
		.msg_name = &server, .msg_namelen = sizeof(server), .msg_iov = iov, .msg_iovlen = 2
	};
	errno = 0;
	result("sendmsg with an address", sendmsg(fd, &msg, 0));
	number("errno", errno);
	result("send", send(fd, "end", 3, 0));
	read_whole(fd, 14 + (addressed > 0 ? (size_t)addressed : 0));
	int file = memfd_create("data", 0);
	if (ftruncate(file, 100000) < 0)
		give_up("ftruncate");
	off_t offset = 0;
	size_t sent = 0;
	while (sent < 100000) {
		ssize_t n = sendfile(fd, file, &offset, 100000 - sent);
		if (n <= 0)
			give_up("sendfile");
		sent += (size_t)n;
	}
	read_whole(fd, 100000);
	number("sendfile", (long)sent);
	int pipes[2];
	if (pipe(pipes) < 0)
		give_up("pipe");
	result("write to a pipe", write(pipes[1], "spliced", 7));
	result("splice out", splice(pipes[0], NULL, fd, NULL, 7, 0));
	char peeked[7];
	recv(fd, peeked, sizeof(peeked), MSG_PEEK | MSG_WAITALL);
	result("splice in", splice(fd, NULL, pipes[1], NULL, 7, 0));
	close(pipes[0]);
	close(pipes[1]);
	close(file);
	close(fd);
}

/* ---- the end of a connection */

static void half_close(void)
{
	puts("# half close");
	int fd = connected();
	char buf[16];
	result("send", send(fd, "last", 4, 0));
	result("shutdown SHUT_WR", shutdown(fd, SHUT_WR));
	result("send after it", send(fd, "x", 1, MSG_NOSIGNAL));
	result("recv", recv(fd, buf, 4, MSG_WAITALL));
	result("end of file", recv(fd, buf, 4, 0));
	result("and again", recv(fd, buf, 4, 0));
	number("poll", wait_for(fd, POLLIN | POLLRDHUP) & (POLLIN | POLLRDHUP));
	close(fd);
	fd = connected();
	result("shutdown SHUT_RD", shutdown(fd, SHUT_RD));
	result("recv after it", recv(fd, buf, 4, 0));
	close(fd);
	fd = connected();
	result("shutdown SHUT_RDWR", shutdown(fd, SHUT_RDWR));
	result("send after it", send(fd, "x", 1, MSG_NOSIGNAL));
	result("recv after it", recv(fd, buf, 4, 0));
	result("shutdown of no such half", shutdown(fd, 7));
	close(fd);
}

/* shutdown() of both directions, while the peer keeps its side open. */
static void shut_both_ways(void)
{
	puts("# shut both ways");
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = commanded("ek");
	result("shutdown SHUT_RDWR", shutdown(fd, SHUT_RDWR));
	number("revents", wait_for(fd, POLLIN | POLLRDHUP));
	result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
	result("getsockname", getsockname(fd, (struct sockaddr *)&addr, &len));
	close(fd);
}

/* shutdown() for reading, and what the peer sends afterwards. */
static void shut_for_reading(void)
{
	puts("# shut for reading");
	char buf[4];
	int fd = connected(), waiting = 0;
	result("shutdown SHUT_RD", shutdown(fd, SHUT_RD));
	number("revents", wait_for(fd, POLLIN | POLLRDHUP));
	result("send", send(fd, "ab", 2, 0));
	for (int i = 0; i < 300 && ioctl(fd, FIONREAD, &waiting) == 0 && waiting < 2; i++)
		usleep(1000);
	result("recv", recv(fd, buf, 2, 0));
	result("shutdown SHUT_WR", shutdown(fd, SHUT_WR));
	close(fd);
}

static void show(const char *what, int fd, size_t len, int flags)
{
	char buf[16] = { 0 };
	ssize_t n = recv(fd, buf, len, flags);
	if (n > 0)
		printf("%s: \"%s\"\n", what, buf);
	else
		result(what, n);
}

static int reset_by_peer(void)
{
	int fd = commanded("e");
	result("set TCP_NODELAY", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, 4));
	if (send(fd, "r", 1, 0) != 1)
		give_up("send");
	number("revents", wait_for(fd, POLLRDHUP));
	return fd;
}

static void dead_socket(int fd)
{
	struct sockaddr_in addr = { 0 };
	socklen_t len = sizeof(addr);
	struct tcp_info info = { .tcpi_state = 99 };
	struct linger linger = { 1, 0 };
	result("getpeername", getpeername(fd, (struct sockaddr *)&addr, &len));
	number("length", len);
	len = sizeof(addr);
	result("getsockname", getsockname(fd, (struct sockaddr *)&addr, &len));
	number("family", addr.sin_family);
	set_option("TCP_NODELAY", fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option("unknown TCP option", fd, IPPROTO_TCP, 30000, 1);
	result("set of one byte", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, "", 1));
	result("set SO_LINGER", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	len = sizeof(info);
	result("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	number("tcpi_state", info.tcpi_state);
	result("shutdown SHUT_WR", shutdown(fd, SHUT_WR));
	result("shutdown SHUT_RD", shutdown(fd, SHUT_RD));
	result("shutdown of no such half", shutdown(fd, 7));
	result("connect", connect_to(fd, 0));
	result("disconnect", disconnect_it(fd));
	result("connect again", connect_to(fd, 0));
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	char byte;
	result("recv", recv(fd, &byte, 1, 0));
}

/* The server sends "e" and resets the connection: other ways to wait for more than that. */
static void wait_for_all_oddly(void)
{
	char buf[4];
	struct iovec iov[] = { { buf, 2 }, { buf + 2, 2 } };
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	struct msghdr msg = {
		.msg_name = &addr, .msg_namelen = sizeof(addr), .msg_iov = iov, .msg_iovlen = 2
	};
	int fd = commanded("e");
	result("send", send(fd, "er", 2, 0));
	result("recvmsg of two pieces", recvmsg(fd, &msg, MSG_WAITALL));
	number("length", msg.msg_namelen);
	result("recv", recv(fd, buf, 4, 0));
	close(fd);
	fd = commanded("e");
	result("send", send(fd, "er", 2, 0));
	result("recvfrom", recvfrom(fd, buf, 4, MSG_WAITALL, (struct sockaddr *)&addr, &len));
	number("length", len);
	result("recv", recv(fd, buf, 4, 0));
	close(fd);
	fd = commanded("e");
	result("send", send(fd, "er", 2, 0));
	result("recv without a buffer", recv(fd, NULL, 4, MSG_WAITALL | MSG_TRUNC));
	result("recv", recv(fd, buf, 4, 0));
	close(fd);
}

/* ---- a reset while a long send waits for room */

#define LONG ((size_t)64 << 20)

enum way { BY_SEND, BY_SENDMSG, BY_WRITE, BY_WRITEV, WAYS };

static ssize_t send_long(int fd, enum way way, void *bytes)
{
	struct iovec iov[] = { { bytes, 7 }, { bytes, LONG } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	switch (way) {
	case BY_SENDMSG: return sendmsg(fd, &msg, MSG_NOSIGNAL);
	case BY_WRITE: return write(fd, bytes, LONG);
	case BY_WRITEV: return writev(fd, iov, 2);
	default: return send(fd, bytes, LONG, MSG_NOSIGNAL);
	}
}

static void *receive_in_thread(void *arg)
{
	char byte;
	return (void *)(intptr_t)(recv(*(int *)arg, &byte, 1, 0) < 0 ? errno : 0);
}

/* Whoever receives next, perhaps meanwhile, must not take the reset for the end of the stream. */
static void long_send(enum way way, void *bytes, bool threaded)
{
	static const char *const names[] = { "send", "sendmsg", "write", "writev" };
	int fd = commanded("e");
	char byte;
	pthread_t thread;
	void *error;
	if (send(fd, "x", 1, 0) != 1 ||
	    (threaded && pthread_create(&thread, NULL, receive_in_thread, &fd)))
		give_up("long send");
	ssize_t n = send_long(fd, way, bytes);
	printf("%s: %s\n", names[way], n > 0 && (size_t)n < LONG ? "a part" : "else");
	if (threaded) {
		pthread_join(thread, &error);
		printf("recv meanwhile: %s\n", strerror((int)(intptr_t)error));
	} else {
		result("recv", recv(fd, &byte, 1, 0));
	}
	result("recv again", recv(fd, &byte, 1, 0));
	close(fd);
}

/* Shut the socket when nothing more fits into it. */
static void *shut_in_thread(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLOUT };
	for (int full = 0; full < 20; usleep(10000))
		full = poll(&p, 1, 0) == 0 ? full + 1 : 0;
	shutdown(p.fd, SHUT_WR);
	return NULL;
}

static void shutdown_of_a_long_send(void *bytes)
{
	puts("# shutdown() of another thread while a long send waits for room");
	int fd = commanded("e");
	pthread_t thread;
	if (send(fd, "k", 1, 0) != 1 || pthread_create(&thread, NULL, shut_in_thread, &fd))
		give_up("long send");
	ssize_t n = send(fd, bytes, LONG, MSG_NOSIGNAL);
	printf("send: %s\n", n > 0 && (size_t)n < LONG ? "a part" : "else");
	pthread_join(thread, NULL);
	result("send again", send(fd, bytes, 1, MSG_NOSIGNAL));
	close(fd);
}

/* Long calls on other files are none of the library's business. */
static void long_writes_elsewhere(void *bytes)
{
	puts("# long writes elsewhere");
	int ends[2], file = memfd_create("file", MFD_CLOEXEC);
	void *volatile bad = (void *)8; /* the compiler knows that nothing is there */
	struct iovec nowhere[] = { { bytes, 40000 }, { bad, 40000 } };
	result("socketpair", socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	errno = 77;
	result("write", write(file, bytes, 40000));
	number("errno", errno);
	result("send", send(ends[0], bytes, 40000, 0));
	number("errno", errno);
	result("recv", recv(ends[1], bytes, LONG, 0));
	result("writev of a bad list", writev(file, bad, 2));
	result("writev of bad bytes", writev(ends[0], nowhere, 2));
	result("sendmsg of a bad message", sendmsg(ends[0], bad, 0));
	result("recvmsg of a bad message", recvmsg(ends[0], bad, MSG_WAITALL));
	close(file);
	close(ends[0]);
	close(ends[1]);
}

static void long_calls(void)
{
	puts("# a reset while a long send waits for room");
	void *bytes = calloc(1, LONG);
	if (!bytes)
		give_up("calloc");
	for (enum way way = 0; way < WAYS; way++)
		long_send(way, bytes, false);
	for (int i = 0; i < 5; i++)
		long_send(BY_SEND, bytes, true);
	shutdown_of_a_long_send(bytes);
	long_writes_elsewhere(bytes);
	free(bytes);
}

/* ---- SIGPIPE after a reset */

static volatile sig_atomic_t sigpipes;

static void on_sigpipe(int sig)
{
	(void)sig;
	sigpipes++;
}

/* A result, and how many signals there were so far. */
static void signalled(const char *what, ssize_t n)
{
	result(what, n);
	number("SIGPIPE", sigpipes);
}

static void sigpipe_after_reset(void)
{
	char buf[4];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	puts("# after a reset: write first");
	signal(SIGPIPE, SIG_IGN);
	int fd = reset_by_peer();
	result("write", write(fd, "x", 1));
	result("writev", writev(fd, &iov, 1));
	result("read", read(fd, buf, 1));
	close(fd);
	puts("# after a reset: SIGPIPE");
	signal(SIGPIPE, on_sigpipe);
	fd = reset_by_peer();
	signalled("sendmsg", sendmsg(fd, &msg, MSG_NOSIGNAL));
	signalled("write", write(fd, "x", 1));
	signalled("writev", writev(fd, &iov, 1));
	signalled("read", read(fd, buf, 1));
	signalled("sendmsg", sendmsg(fd, &msg, 0));
	close(fd);
	fd = reset_by_peer();
	signalled("sendmsg", sendmsg(fd, &msg, 0));
	signalled("send", send(fd, "x", 1, 0));
	close(fd);
	fd = reset_by_peer();
	signalled("send", send(fd, "x", 1, 0));
	signalled("send", send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
	int file = memfd_create("file", MFD_CLOEXEC);
	if (write(file, "text", 4) != 4)
		give_up("memfd");
	off_t at = 0;
	fd = reset_by_peer();
	signalled("sendfile", sendfile(fd, file, &at, 4));
	signalled("sendfile", sendfile(fd, file, &at, 4));
	close(file);
	close(fd);
	fd = commanded("e");
	result("shutdown", shutdown(fd, SHUT_WR));
	signalled("write", write(fd, "x", 1));
	signalled("send", send(fd, "x", 1, 0));
	close(fd);
	int ends[2];
	result("pipe", pipe(ends));
	close(ends[0]);
	signalled("write", write(ends[1], "x", 1));
	close(ends[1]);
	signal(SIGPIPE, SIG_DFL);
}

static void after_reset(void)
{
	puts("# after a reset: recv first");
	char buf[4];
	int fd = reset_by_peer();
	result("recv", recv(fd, buf, 1, 0));
	result("recv again", recv(fd, buf, 1, 0));
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	dead_socket(fd);
	close(fd);
	puts("# after a reset: behind a part of what MSG_WAITALL waits for");
	fd = commanded("e");
	result("send", send(fd, "er", 2, 0));
	show("recv", fd, 10, MSG_WAITALL);
	show("recv again", fd, 10, MSG_WAITALL);
	show("and again", fd, 10, MSG_WAITALL);
	close(fd);
	fd = commanded("e");
	result("send", send(fd, "er", 2, 0));
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	result("recvmsg", recvmsg(fd, &msg, MSG_WAITALL));
	result("recvmsg again", recvmsg(fd, &msg, MSG_WAITALL));
	close(fd);
	wait_for_all_oddly();
	puts("# after a reset: send first");
	fd = reset_by_peer();
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	result("send again", send(fd, "x", 1, MSG_NOSIGNAL));
	result("recv", recv(fd, buf, 1, 0));
	close(fd);
	sigpipe_after_reset();
	puts("# after a reset: SO_ERROR first");
	fd = reset_by_peer();
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	option("SO_ERROR again", fd, SOL_SOCKET, SO_ERROR);
	result("recv", recv(fd, buf, 1, 0));
	result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
}

/* ---- what TCP tells of the stream */

static int state_of(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ? -1 : info.tcpi_state;
}

/* Wait until TCP_INFO tells this state: the peer's kernel may have to acknowledge something first.
 */
static void state_becomes(int fd, int state)
{
	for (int i = 0; i < 5000 && state_of(fd) != state; i++)
		usleep(1000);
	number("tcpi_state", state_of(fd));
}

static void after_end(void)
{
	puts("# after the end in both directions");
	char byte;
	int fd = commanded("e");
	result("send", send(fd, "w", 1, MSG_NOSIGNAL));
	result("end of file", recv(fd, &byte, 1, 0));
	state_becomes(fd, 8 /* CLOSE_WAIT */);
	result("send", send(fd, "c", 1, MSG_NOSIGNAL));
	result("shutdown SHUT_WR", shutdown(fd, SHUT_WR));
	state_becomes(fd, 7 /* CLOSE */);
	dead_socket(fd);
	close(fd);
}

/* When a reset comes the kernel notes the error a moment before the end of the connection. */
static bool hangs_up(int fd)
{
	for (int i = 0; i < 5000; i++) {
		if (wait_for(fd, 0) & POLLHUP)
			return true;
		usleep(1000);
	}
	return false;
}

/* A server that has answered and is done: it shuts writing down and closes, though bytes of ours
 * are unread. TCP resets, but the answer and the end of file come first. */
static void reset_behind_the_end(void)
{
	puts("# after a reset: behind the end of file");
	char buf[4];
	for (int i = 0; i < 20; i++) {
		int fd = commanded("eedunread");
		result("recv", recv(fd, buf, 1, 0));
		number("hangs up", hangs_up(fd));
		result("end of file", recv(fd, buf, 1, 0));
		result("end of file again", recv(fd, buf, 1, 0));
		result("send", send(fd, "x", 1, MSG_NOSIGNAL));
		close(fd);
	}
}

static bool get_info(int fd, struct tcp_info *ret_info)
{
	socklen_t len = sizeof(*ret_info);
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ret_info, &len) == 0 &&
	       len == sizeof(*ret_info);
}

static void byte_counts(int fd, size_t sent)
{
	struct tcp_info info;
	for (int i = 0; i < 5000 && get_info(fd, &info) && info.tcpi_bytes_acked <= sent; i++)
		usleep(1000);
	if (!get_info(fd, &info))
		give_up("TCP_INFO");
	number("tcpi_bytes_acked", (long)info.tcpi_bytes_acked);
	number("tcpi_bytes_received", (long)info.tcpi_bytes_received);
	number("tcpi_bytes_sent", (long)(info.tcpi_bytes_sent - info.tcpi_bytes_retrans));
	number("tcpi_notsent_bytes", info.tcpi_notsent_bytes);
}

static void what_tcp_tells(void)
{
	puts("# TCP_INFO");
	char buf[4096] = { 0 };
	int fd = commanded("e");
	number("tcpi_state", state_of(fd));
	byte_counts(fd, 1);
	result("send", send(fd, "eee", 3, 0));
	result("recv", recv(fd, buf, 3, MSG_WAITALL));
	byte_counts(fd, 4);
	result("send", send(fd, "k", 1, 0));
	result("shutdown SHUT_WR", shutdown(fd, SHUT_WR));
	state_becomes(fd, 5 /* FIN_WAIT2 */);
	close(fd);
	fd = connected();
	for (int i = 0; i < 25; i++) {
		if (send(fd, buf, sizeof(buf), 0) != sizeof(buf))
			give_up("send");
		read_whole(fd, sizeof(buf));
	}
	byte_counts(fd, 25 * sizeof(buf));
	close(fd);
}

/* ---- ioctl() */

static void interface(int fd, const char *what, unsigned long request, const char *name)
{
	struct ifreq request_arg = { 0 };
	snprintf(request_arg.ifr_name, sizeof(request_arg.ifr_name), "%s", name);
	result(what, ioctl(fd, request, &request_arg));
	number("family", request_arg.ifr_addr.sa_family);
}

static void device_controls(void)
{
	puts("# ioctl");
	int fd = connected(), value = -1;
	char buf[4];
	result("FIONREAD", ioctl(fd, FIONREAD, &value));
	number("value", value);
	result("send", send(fd, "abcd", 4, 0));
	result("recv", recv(fd, buf, 4, MSG_WAITALL));
	for (int i = 0; i < 5000 && ioctl(fd, SIOCOUTQ, &value) == 0 && value > 0; i++)
		usleep(1000);
	result("SIOCOUTQ", ioctl(fd, SIOCOUTQ, &value));
	number("value", value);
	result("SIOCOUTQNSD", ioctl(fd, SIOCOUTQNSD, &value));
	number("value", value);
	result("SIOCATMARK", ioctl(fd, SIOCATMARK, &value));
	number("value", value);
	result("SIOCOUTQ of nowhere", ioctl(fd, SIOCOUTQ, NULL));
	interface(fd, "SIOCGIFADDR", SIOCGIFADDR, "eth0");
	interface(fd, "SIOCGIFNETMASK", SIOCGIFNETMASK, "eth0");
	interface(fd, "SIOCGIFBRDADDR", SIOCGIFBRDADDR, "lo");
	interface(fd, "SIOCGIFINDEX", SIOCGIFINDEX, "eth0");
	interface(fd, "SIOCGIFADDR of none", SIOCGIFADDR, "none");
	result("SIOCGSTAMP", ioctl(fd, SIOCGSTAMP_NEW, buf));
	result("SIOCSPGRP", ioctl(fd, SIOCSPGRP, &(int){ getpid() }));
	result("SIOCGPGRP", ioctl(fd, SIOCGPGRP, &value));
	number("is us", value == getpid());
	result("isatty", isatty(fd) ? 1 : -1);
	close(fd);
	puts("# ioctl while the peer does not read");
	fd = commanded("ek");
	static char block[65536];
	size_t sent = 0;
	do /* until the socket stays full */
		for (ssize_t n; (n = send(fd, block, sizeof(block), MSG_DONTWAIT)) > 0;)
			sent += (size_t)n;
	while (poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 500) > 0);
	ioctl(fd, SIOCOUTQ, &value);
	number("SIOCOUTQ tells what the peer has not got", value > 0 && (size_t)value <= sent + 2);
	ioctl(fd, SIOCOUTQNSD, &value);
	number("SIOCOUTQNSD tells what has not left", value > 0 && (size_t)value <= sent);
	close(fd);
}

/* ---- urgent data */

static volatile sig_atomic_t urgent_signals;

static void on_urgent(int signal)
{
	(void)signal;
	urgent_signals++;
}

static void at_mark(int fd)
{
	result("sockatmark", sockatmark(fd));
}

/* "abc", urgent "d", "ef" are on their way: wait for all. */
static void await_urgent(int fd)
{
	int waiting = 0;
	number("POLLPRI", wait_for(fd, POLLPRI) & POLLPRI);
	fd_set exceptions;
	FD_ZERO(&exceptions);
	FD_SET(fd, &exceptions);
	result("select", select(fd + 1, NULL, NULL, &exceptions, NULL));
	/* FIONREAD of a TCP socket does not count bytes behind the urgent mark. */
	while (ioctl(fd, FIONREAD, &waiting) == 0 && waiting < 3)
		usleep(1000);
}

static void urgent_data_in(void)
{
	puts("# urgent data arrives");
	signal(SIGURG, on_urgent);
	int fd = commanded("e");
	at_mark(fd);
	show("recv MSG_OOB of nothing", fd, 1, MSG_OOB);
	result("F_SETOWN", fcntl(fd, F_SETOWN, getpid()));
	urgent_signals = 0;
	result("send", send(fd, "u", 1, 0));
	await_urgent(fd);
	number("SIGURG", urgent_signals);
	at_mark(fd);
	show("peek", fd, 10, MSG_PEEK);
	show("recv", fd, 10, 0);
	at_mark(fd);
	show("peek MSG_OOB", fd, 1, MSG_OOB | MSG_PEEK);
	show("recv MSG_OOB", fd, 1, MSG_OOB);
	show("recv MSG_OOB again", fd, 1, MSG_OOB);
	at_mark(fd);
	show("recv", fd, 2, MSG_WAITALL);
	at_mark(fd);
	result("send", send(fd, "u", 1, 0));
	await_urgent(fd);
	show("recv MSG_OOB first", fd, 1, MSG_OOB);
	show("recv", fd, 10, 0);
	at_mark(fd);
	show("recv", fd, 2, MSG_WAITALL);
	result("send", send(fd, "u", 1, 0));
	await_urgent(fd);
	show("recv", fd, 10, 0);
	show("recv past it", fd, 2, MSG_WAITALL);
	show("recv MSG_OOB", fd, 1, MSG_OOB);
	at_mark(fd);
	puts("# urgent data in line");
	set_option("SO_OOBINLINE", fd, SOL_SOCKET, SO_OOBINLINE, 1);
	result("send", send(fd, "u", 1, 0));
	await_urgent(fd);
	show("recv MSG_OOB", fd, 1, MSG_OOB);
	show("recv", fd, 10, 0);
	at_mark(fd);
	show("recv", fd, 3, MSG_WAITALL);
	at_mark(fd);
	number("SIGURG", urgent_signals);
	close(fd);
}

static void urgent_data_out(void)
{
	puts("# urgent data is sent");
	int fd = commanded("e");
	result("send", send(fd, "mabc", 4, 0));
	result("send MSG_OOB", send(fd, "d", 1, MSG_OOB));
	show("the peer says", fd, 3, MSG_WAITALL);
	result("send", send(fd, "m", 1, 0));
	result("send of three, MSG_OOB", send(fd, "xyz", 3, MSG_OOB));
	show("the peer says", fd, 3, MSG_WAITALL);
	result("send", send(fd, "m", 1, 0));
	result("send of one, MSG_OOB", send(fd, "!", 1, MSG_OOB));
	show("the peer says", fd, 3, MSG_WAITALL);
	result("send", send(fd, "e", 1, 0));
	show("recv", fd, 1, 0);
	close(fd);
}

/* ---- what the kernel tells beside the data */

static int connected_with(int level, int name, int value)
{
	int fd = open_socket(0);
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		give_up("setsockopt");
	if (connect_to(fd, 0) < 0)
		give_up("connect");
	return fd;
}

/* Receive 4 of 10 bytes, with the messages for which there is room, and then the others. */
static void receive_messages(int fd, struct msghdr *msg, void *room, size_t len)
{
	static char bytes[16];
	static struct iovec iov = { bytes, 4 };
	*msg = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	msg->msg_control = room;
	msg->msg_controllen = len;
	if (send(fd, "0123456789", 10, 0) != 10 ||
	    recv(fd, bytes, 10, MSG_PEEK | MSG_WAITALL) != 10 || recvmsg(fd, msg, 0) != 4)
		give_up("recvmsg");
	read_whole(fd, 6);
}

/* Which messages come with data? The kernel begins to note times a moment after a program has asked
 * for them. */
static void messages_with(const char *what, int fd, bool wanted)
{
	char room[256];
	struct msghdr msg;
	int messages = 0;
	receive_messages(fd, &msg, room, sizeof(room));
	for (int i = 0; wanted && i < 100 && msg.msg_controllen == 0; i++) {
		poll(NULL, 0, 50);
		receive_messages(fd, &msg, room, sizeof(room));
	}
	puts(what);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		messages++;
		number("level", c->cmsg_level);
		number("type", c->cmsg_type);
		if (c->cmsg_level == IPPROTO_TCP && c->cmsg_type == TCP_CM_INQ)
			number("bytes left", *(int *)CMSG_DATA(c));
	}
	number("messages", messages);
	close(fd);
}

static void told_with_the_data(void)
{
	const int received = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	puts("# what is told with the data");
	messages_with("no option", connected(), false);
	messages_with("TCP_INQ", connected_with(IPPROTO_TCP, TCP_INQ, 1), true);
	messages_with("SO_TIMESTAMP", connected_with(SOL_SOCKET, SO_TIMESTAMP, 1), true);
	messages_with("SO_TIMESTAMPNS", connected_with(SOL_SOCKET, SO_TIMESTAMPNS, 1), true);
	messages_with("SO_TIMESTAMPING", connected_with(SOL_SOCKET, SO_TIMESTAMPING, received),
		      true);
}

/* Without SO_ZEROCOPY there are no notices. */
static void sending_without_a_copy(void)
{
	puts("# MSG_ZEROCOPY without the option");
	int fd = connected();
	char byte;
	result("send", send(fd, "x", 1, MSG_ZEROCOPY));
	result("recv", recv(fd, &byte, 1, 0));
	result("recvmsg MSG_ERRQUEUE", recvmsg(fd, &(struct msghdr){ 0 }, MSG_ERRQUEUE));
	close(fd);
}

static void descriptors(void)
{
	puts("# descriptors");
	int fd = connected();
	char byte;
	int copy = dup(fd);
	close(fd);
	result("send by the dup", send(copy, "a", 1, 0));
	result("recv by the dup", recv(copy, &byte, 1, MSG_WAITALL));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(send(copy, "b", 1, 0) == 1 ? 0 : 1);
	int status = -1;
	waitpid(pid, &status, 0);
	number("send by the child", status);
	result("recv by the parent", recv(copy, &byte, 1, MSG_WAITALL));
	result("fcntl F_SETFD", fcntl(copy, F_SETFD, FD_CLOEXEC));
	number("F_GETFD", fcntl(copy, F_GETFD));
	result("lseek", lseek(copy, 0, SEEK_SET));
	close(copy);
}

static void epoll_before_connect(bool edge)
{
	printf("# epoll before connect, %s\n", edge ? "edges" : "levels");
	int ep = epoll_create1(0);
	int fd = open_socket(SOCK_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | (edge ? EPOLLET : 0),
				     .data.u64 = 42 };
	char buf[8];
	result("add", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	result("connect", connect_to(fd, 0));
	/* An unconnected TCP socket reports events before connect(), with edge trigger too. */
	do
		result("wait", epoll_wait(ep, &event, 1, 10000));
	while (event.events & EPOLLHUP);
	number("events", event.events);
	number("data", (long)event.data.u64);
	result("add again", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	event.events = EPOLLIN | (edge ? EPOLLET : 0);
	result("modify", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &event));
	result("send", send(fd, "x", 1, 0));
	result("wait", epoll_wait(ep, &event, 1, 10000));
	number("events", event.events);
	result("recv", recv(fd, buf, 1, 0));
	result("nothing more", epoll_wait(ep, &event, 1, 50));
	result("delete", epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	result("delete again", epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	close(fd);
	close(ep);
}

int main(int argc, char **argv)
{
	if (argc != 3 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1) {
		fprintf(stderr, "usage: pre_semantics ADDRESS PORT\n");
		return 2;
	}
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)atoi(argv[2]));
	blocking_connect();
	non_blocking_connect();
	refused_connect();
	refused_without_a_look();
	disconnect();
	options();
	receiving();
	receiving_oddly();
	sending();
	half_close();
	shut_both_ways();
	shut_for_reading();
	after_reset();
	long_calls();
	after_end();
	reset_behind_the_end();
	what_tcp_tells();
	device_controls();
	urgent_data_in();
	urgent_data_out();
	descriptors();
	epoll_before_connect(false);
	epoll_before_connect(true);
	sending_without_a_copy();
	told_with_the_data();
	return 0;
}
