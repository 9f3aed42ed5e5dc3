/* SPDX-License-Identifier: MIT */
/*
 * Preload library for test suites that connect to themselves over loopback, in one process or
 * several. It puts their TCP listeners on another host than their clients, which they do not
 * notice. A TCP socket that is bound or listens moves to the network namespace of host a; one that
 * connects stays on host b, where the process is, or goes back there. 127.0.0.1 and ::1 become host
 * a's address on the way to the kernel, and both hosts' addresses become 127.0.0.1 and ::1 on the
 * way back. Other sockets do not change.
 *
 * Any other preload library works behind this one (LD_PRELOAD names this one first), and sees a
 * client on host b and a server on host a. The daemons of the two hosts have two sockets, but a
 * process has one SMCRD_SOCKET. So SMCRD_SOCKET has to be /proc/thread-self/cwd/smcrd.sock: during
 * a call the calling thread enters the directory, and the namespace, of the host that the call is
 * for.
 *
 * Environment: TWOHOSTS_NS_A, TWOHOSTS_NS_B   files of the namespaces
 *              TWOHOSTS_DIR_A, TWOHOSTS_DIR_B directories, each with that host's smcrd.sock
 *              TWOHOSTS_A, TWOHOSTS_A6        host a's addresses
 *              TWOHOSTS_B, TWOHOSTS_B6        host b's
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum host { HOST_A, HOST_B, NO_HOST };

static struct {
	bool ready;
	const char *ns[2], *dir[2];
	struct in_addr v4[2];
	struct in6_addr v6[2];
	uint64_t cookie_a;
} world;

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage space;
};

static struct {
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*shutdown)(int, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*recv)(int, void *, size_t, int);
} next;

/* ---- being on a host */

static bool enter_namespace(enum host host)
{
	int fd = open(world.ns[host], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	int rc = setns(fd, CLONE_NEWNET);
	close(fd);
	return rc == 0;
}

/** Directory and namespace of a thread before it entered those of a host. */
struct place {
	bool moved;
	int cwd;
};

static __thread bool own_cwd; /* this thread shares its working directory with no other thread */

static struct place go_to(enum host host)
{
	struct place place = { .cwd = -1 };
	int saved = errno;
	if (host == NO_HOST)
		return place;
	if (!own_cwd && unshare(CLONE_FS) == 0)
		own_cwd = true;
	if (own_cwd) {
		place.cwd = open(".", O_PATH | O_CLOEXEC);
		if (place.cwd >= 0 && chdir(world.dir[host]) < 0) {
			close(place.cwd);
			place.cwd = -1;
		}
	}
	place.moved = host == HOST_A && enter_namespace(HOST_A);
	errno = saved;
	return place;
}

static void go_back(struct place place)
{
	int saved = errno;
	if (place.moved && !enter_namespace(HOST_B))
		abort(); /* the thread would go on in the wrong place */
	if (place.cwd >= 0) {
		if (fchdir(place.cwd) < 0)
			abort();
		close(place.cwd);
	}
	errno = saved;
}

/* ---- which sockets this library moves */

/* Ask the kernel, not a library behind this one. */
static int kernel_option(int fd, int level, int option)
{
	int value = -1, saved = errno;
	socklen_t len = sizeof(value);
	if (syscall(SYS_getsockopt, fd, level, option, &value, &len) < 0)
		value = -1;
	errno = saved;
	return value;
}

static bool is_tcp(int fd)
{
	return kernel_option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
}

static bool is_on_a(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	int saved = errno;
	if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		cookie = 0;
	errno = saved;
	return cookie == world.cookie_a;
}

static bool is_address_of(enum host host, const union address *addr)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	if (addr->any.sa_family == AF_INET)
		return addr->in.sin_addr.s_addr == world.v4[host].s_addr;
	if (addr->any.sa_family != AF_INET6)
		return false;
	const uint8_t *ip = addr->in6.sin6_addr.s6_addr;
	return memcmp(ip, &world.v6[host], 16) == 0 ||
	       (memcmp(ip, mapped, 12) == 0 && memcmp(ip + 12, &world.v4[host], 4) == 0);
}

/* On which host a socket is. In the place of a TCP socket there may be a Unix socket (a pair end)
 * with the same names. */
static enum host host_of(int fd)
{
	union address own = { 0 };
	socklen_t len = sizeof(own);
	int saved = errno;
	if (!world.ready)
		return NO_HOST;
	if (is_tcp(fd))
		return is_on_a(fd) ? HOST_A : HOST_B;
	if (kernel_option(fd, SOL_SOCKET, SO_DOMAIN) != AF_UNIX)
		return NO_HOST;
	int rc = next.getsockname(fd, &own.any, &len);
	errno = saved;
	if (rc < 0 || (own.any.sa_family != AF_INET && own.any.sa_family != AF_INET6))
		return NO_HOST;
	return is_address_of(HOST_A, &own) ? HOST_A : HOST_B;
}

/* ---- addresses */

static bool is_loopback(const union address *addr)
{
	const struct in6_addr *ip = &addr->in6.sin6_addr;
	if (addr->any.sa_family == AF_INET)
		return ntohl(addr->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return addr->any.sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(ip) ||
		(IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == IN_LOOPBACKNET));
}

static bool is_any(const union address *addr)
{
	if (addr->any.sa_family == AF_INET)
		return addr->in.sin_addr.s_addr == 0;
	return addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

static void put_address(union address *addr, const struct in_addr *v4, const struct in6_addr *v6)
{
	struct in6_addr *ip = &addr->in6.sin6_addr;
	if (addr->any.sa_family == AF_INET)
		addr->in.sin_addr = *v4;
	else if (IN6_IS_ADDR_V4MAPPED(ip))
		memcpy(ip->s6_addr + 12, v4, sizeof(*v4));
	else
		*ip = *v6;
}

/* @return the address to give to the kernel: addr, or *space */
static const struct sockaddr *to_kernel(const struct sockaddr *addr, socklen_t len, bool connects,
					union address *space)
{
	if (!addr || len < sizeof(addr->sa_family) || len > sizeof(*space))
		return addr;
	memset(space, 0, sizeof(*space));
	memcpy(space, addr, len);
	if ((addr->sa_family == AF_INET && len < sizeof(space->in)) ||
	    (addr->sa_family == AF_INET6 && len < offsetof(struct sockaddr_in6, sin6_scope_id)))
		return addr;
	if (!is_loopback(space) && !(connects && is_any(space)))
		return addr;
	put_address(space, &world.v4[HOST_A], &world.v6[HOST_A]);
	return &space->any;
}

static void from_kernel(union address *addr)
{
	const struct in_addr loopback = { htonl(INADDR_LOOPBACK) };
	if (is_address_of(HOST_A, addr) || is_address_of(HOST_B, addr))
		put_address(addr, &loopback, &in6addr_loopback);
}

/* Copy an address to the program as the kernel does; the program's buffer may be shorter. */
static void hand_out(union address *from, socklen_t from_len, struct sockaddr *to,
		     socklen_t *to_len)
{
	from_kernel(from);
	if (to && to_len) {
		memcpy(to, from, *to_len < from_len ? *to_len : from_len);
		*to_len = from_len;
	}
}

/* ---- moving a socket to host a */

static const struct {
	int level, option;
} moved_options[] = {
	{ SOL_SOCKET, SO_REUSEADDR },  { SOL_SOCKET, SO_REUSEPORT },
	{ SOL_SOCKET, SO_KEEPALIVE },  { SOL_SOCKET, SO_OOBINLINE },
	{ SOL_SOCKET, SO_LINGER },     { SOL_SOCKET, SO_RCVTIMEO },
	{ SOL_SOCKET, SO_SNDTIMEO },   { SOL_SOCKET, SO_RCVLOWAT },
	{ IPPROTO_IPV6, IPV6_V6ONLY }, { IPPROTO_IP, IP_TOS },
	{ IPPROTO_IPV6, IPV6_TCLASS }, { IPPROTO_TCP, TCP_NODELAY },
	{ IPPROTO_TCP, TCP_CORK },     { IPPROTO_TCP, TCP_DEFER_ACCEPT },
	{ IPPROTO_TCP, TCP_KEEPIDLE },
};

static void copy_options(int from, int to)
{
	for (size_t i = 0; i < sizeof(moved_options) / sizeof(moved_options[0]); i++) {
		char value[64];
		socklen_t len = sizeof(value);
		int level = moved_options[i].level, option = moved_options[i].option;
		if (syscall(SYS_getsockopt, from, level, option, value, &len) == 0)
			(void)syscall(SYS_setsockopt, to, level, option, value, len);
	}
	/* The kernel doubles buffer sizes that are set. */
	for (int option = SO_SNDBUF; option <= SO_RCVBUF; option++) {
		int size = kernel_option(from, SOL_SOCKET, option) / 2;
		if (size != kernel_option(to, SOL_SOCKET, option) / 2)
			(void)syscall(SYS_setsockopt, to, SOL_SOCKET, option, &size, sizeof(size));
	}
	fcntl(to, F_SETFL, fcntl(from, F_GETFL));
}

/* Put a new socket on the host, with the same options, in the place of a socket. */
static void move_to(enum host host, int fd)
{
	int saved = errno;
	struct place place = go_to(host);
	if (place.moved == (host == HOST_A)) {
		int other = (int)syscall(SYS_socket, kernel_option(fd, SOL_SOCKET, SO_DOMAIN),
					 SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
		if (other >= 0) {
			copy_options(fd, other);
			(void)syscall(SYS_dup3, other, fd,
				      fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
			close(other);
		}
	}
	go_back(place);
	errno = saved;
}

/* Was the socket bound to a port that the program named? */
static _Atomic bool named_port[1024];

static in_port_t *port_of(union address *addr)
{
	return addr->any.sa_family == AF_INET ? &addr->in.sin_port : &addr->in6.sin6_port;
}

static void note_port(int fd, const struct sockaddr *addr, socklen_t len)
{
	union address named = { 0 };
	if (fd < 0 || fd >= (int)(sizeof(named_port) / sizeof(named_port[0])) ||
	    len > sizeof(named))
		return;
	memcpy(&named, addr, len);
	named_port[fd] = *port_of(&named) != 0;
}

/* Some programs bind a client's socket to any address. bind() put it on host a, where it would
 * connect to its own host: let it have the port that was named, or any, of host b.
 * @return 0; -1: the port is in use there */
static int take_client_back(int fd)
{
	union address own = { 0 };
	socklen_t len = sizeof(own);
	int rc = 0, saved = errno;
	if (is_tcp(fd) && is_on_a(fd) && kernel_option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0 &&
	    syscall(SYS_getsockname, fd, &own, &len) == 0 && is_any(&own)) {
		if (fd >= (int)(sizeof(named_port) / sizeof(named_port[0])) || !named_port[fd])
			*port_of(&own) = 0;
		move_to(HOST_B, fd);
		rc = (int)syscall(SYS_bind, fd, &own, len);
	}
	if (rc == 0)
		errno = saved;
	return rc;
}

/* ---- what programs call */

EXPORT int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	union address space;
	const struct sockaddr *to = addr.__sockaddr__;
	if (!world.ready || !is_tcp(fd))
		return next.bind(fd, to, len);
	if (!is_on_a(fd))
		move_to(HOST_A, fd);
	struct place place = go_to(host_of(fd));
	int rc = next.bind(fd, to_kernel(to, len, false, &space), len);
	if (rc == 0)
		note_port(fd, to, len);
	go_back(place);
	return rc;
}

EXPORT int listen(int fd, int backlog)
{
	if (world.ready && is_tcp(fd) && !is_on_a(fd))
		move_to(HOST_A, fd);
	struct place place = go_to(host_of(fd));
	int rc = next.listen(fd, backlog);
	go_back(place);
	return rc;
}

EXPORT int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	union address space;
	const struct sockaddr *to = addr.__sockaddr__;
	if (world.ready && take_client_back(fd) < 0)
		return -1;
	enum host host = host_of(fd);
	if (host == NO_HOST)
		return next.connect(fd, to, len);
	struct place place = go_to(host);
	int rc = next.connect(fd, to_kernel(to, len, true, &space), len);
	go_back(place);
	return rc;
}

EXPORT int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len, int flags)
{
	union address peer;
	socklen_t peer_len = sizeof(peer);
	enum host host = host_of(fd);
	if (host == NO_HOST)
		return next.accept4(fd, addr.__sockaddr__, len, flags);
	struct place place = go_to(host);
	int rc = next.accept4(fd, &peer.any, &peer_len, flags);
	go_back(place);
	if (rc >= 0)
		hand_out(&peer, peer_len, addr.__sockaddr__, len);
	return rc;
}

EXPORT int accept(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	return accept4(fd, addr, len, 0);
}

static int name_of(int fd, struct sockaddr *addr, socklen_t *len,
		   int (*get)(int, struct sockaddr *, socklen_t *))
{
	union address name;
	socklen_t name_len = sizeof(name);
	enum host host = host_of(fd);
	if (host == NO_HOST)
		return get(fd, addr, len);
	struct place place = go_to(host);
	int rc = get(fd, &name.any, &name_len);
	go_back(place);
	if (rc == 0)
		hand_out(&name, name_len, addr, len);
	return rc;
}

EXPORT int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	return name_of(fd, addr.__sockaddr__, len, next.getsockname);
}

EXPORT int getpeername(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	return name_of(fd, addr.__sockaddr__, len, next.getpeername);
}

EXPORT int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict len)
{
	struct place place = go_to(host_of(fd));
	int rc = next.getsockopt(fd, level, option, value, len);
	go_back(place);
	return rc;
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	struct place place = go_to(host_of(fd));
	int rc = next.setsockopt(fd, level, option, value, len);
	go_back(place);
	return rc;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct place place = go_to(host_of(fd));
	int rc = next.epoll_ctl(epfd, op, fd, event);
	go_back(place);
	return rc;
}

EXPORT int shutdown(int fd, int how)
{
	struct place place = go_to(host_of(fd));
	int rc = next.shutdown(fd, how);
	go_back(place);
	return rc;
}

/* A call that moves data is made where the program is, without a daemon. So the library behind this
 * one cannot ask why a connect() has failed: ask in its place. */
static ssize_t explain_reset(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error == 0)
		error = ECONNRESET;
	errno = error;
	return -1;
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	if (!next.read) /* another library's start */
		return syscall(SYS_read, fd, buf, len);
	ssize_t n = next.read(fd, buf, len);
	return n < 0 && errno == ECONNRESET ? explain_reset(fd) : n;
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t n = next.recv(fd, buf, len, flags);
	return n < 0 && errno == ECONNRESET ? explain_reset(fd) : n;
}

/* ---- start */

static bool find_cookie(void)
{
	socklen_t len = sizeof(world.cookie_a);
	if (!enter_namespace(HOST_A))
		return false;
	int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_NETNS_COOKIE,
					&world.cookie_a, &len) == 0;
	if (fd >= 0)
		close(fd);
	if (!enter_namespace(HOST_B))
		abort();
	return found;
}

static bool read_environment(void)
{
	const char *v4[2] = { getenv("TWOHOSTS_A"), getenv("TWOHOSTS_B") };
	const char *v6[2] = { getenv("TWOHOSTS_A6"), getenv("TWOHOSTS_B6") };
	world.ns[HOST_A] = getenv("TWOHOSTS_NS_A");
	world.ns[HOST_B] = getenv("TWOHOSTS_NS_B");
	world.dir[HOST_A] = getenv("TWOHOSTS_DIR_A");
	world.dir[HOST_B] = getenv("TWOHOSTS_DIR_B");
	for (int i = 0; i < 2; i++) {
		if (!world.ns[i] || !world.dir[i] || !v4[i] || !v6[i] ||
		    inet_pton(AF_INET, v4[i], &world.v4[i]) != 1 ||
		    inet_pton(AF_INET6, v6[i], &world.v6[i]) != 1)
			return false;
		/* Copy the values, because programs may change their environment. */
		world.ns[i] = strdup(world.ns[i]);
		world.dir[i] = strdup(world.dir[i]);
		if (!world.ns[i] || !world.dir[i])
			return false;
	}
	return true;
}

__attribute__((constructor)) static void start(void)
{
	*(void **)&next.bind = dlsym(RTLD_NEXT, "bind");
	*(void **)&next.listen = dlsym(RTLD_NEXT, "listen");
	*(void **)&next.connect = dlsym(RTLD_NEXT, "connect");
	*(void **)&next.accept = dlsym(RTLD_NEXT, "accept");
	*(void **)&next.accept4 = dlsym(RTLD_NEXT, "accept4");
	*(void **)&next.getsockname = dlsym(RTLD_NEXT, "getsockname");
	*(void **)&next.getpeername = dlsym(RTLD_NEXT, "getpeername");
	*(void **)&next.getsockopt = dlsym(RTLD_NEXT, "getsockopt");
	*(void **)&next.setsockopt = dlsym(RTLD_NEXT, "setsockopt");
	*(void **)&next.epoll_ctl = dlsym(RTLD_NEXT, "epoll_ctl");
	*(void **)&next.shutdown = dlsym(RTLD_NEXT, "shutdown");
	*(void **)&next.read = dlsym(RTLD_NEXT, "read");
	*(void **)&next.recv = dlsym(RTLD_NEXT, "recv");
	world.ready = read_environment() && find_cookie();
}
