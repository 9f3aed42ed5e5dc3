/* SPDX-License-Identifier: MIT */
/**
 * @file smcr.h
 * libsmcr: TCP sockets whose data may go over SMC-R (RFC 7609), for programs that want to say when
 * and to know what became of it. Programs that need neither are started with smcr-run(1) unchanged.
 *
 * Where both sides of a connection agree on SMC-R the descriptor is no longer a TCP socket but one
 * end of a Unix stream socket pair whose other end smcrd(8) holds: a pair end. It is read, written,
 * polled, duplicated, inherited and passed on as any descriptor, with the C library's functions.
 * Only what asks about the connection needs the functions below, because the C library's would
 * answer for a Unix socket: smcr_getsockopt(), smcr_setsockopt(), smcr_getsockname(),
 * smcr_getpeername(), smcr_shutdown() and smcr_ioctl(). On every other descriptor these do what
 * their namesakes do.
 *
 * All functions return 0 (or what else is said there) or a negative errno, and leave errno alone.
 * All are safe in any number of threads and in signal handlers; they take no lock, allocate nothing
 * and leave no descriptor of their own open. smcr_connect() and smcr_accept() are cancellation
 * points. What a program does under smcr-run(1) holds for its calls of libsmcr as well.
 *
 * Sockets that are not TCP over IPv4 or IPv6 are the C library's, whatever the policy.
 *
 * SMCRD_SOCKET in the environment says where smcrd listens if that is not its usual place.
 */
#ifndef SMCR_H
#define SMCR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/** Of this header; smcr_version() tells the library's. */
#define SMCR_VERSION_MAJOR 0
#define SMCR_VERSION_MINOR 1
#define SMCR_VERSION_PATCH 0
#define SMCR_VERSION       "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** What one connection, or those of one listener, shall be. */
enum smcr_policy {
	SMCR_PREFER = 0,  /* SMC-R where both sides can, else plain TCP */
	SMCR_REQUIRE = 1, /* SMC-R; plain TCP is an error */
	SMCR_NEVER = 2    /* plain TCP, without asking anybody */
};

/**
 * connect(2) with a policy. The descriptor keeps its number, flags and options, whatever it is
 * afterwards; register it with epoll after this call, not before.
 *
 * On a blocking socket the call returns as soon as the program may send. The transport may still be
 * open then: see smcr_wait_established(). On a non-blocking one it gives -EINPROGRESS; the
 * descriptor becomes writable when the outcome is there, which smcr_getsockopt() of SO_ERROR or
 * another smcr_connect() tells.
 *
 * @return 0; -EPROTONOSUPPORT: it would be plain TCP, and SMCR_REQUIRE was asked for (if that shows
 *         after this call has returned the connection is reset, and SO_ERROR says the same);
 *         -EPROTONOSUPPORT also for SMCR_NEVER under smcr-run --require; -EINVAL: no such policy;
 *         -EAGAIN: called while the library is being loaded; -ECONNRESET also if smcrd went away in
 *         the rendezvous; otherwise as connect(2)
 */
int smcr_connect(int fd, const struct sockaddr *addr, socklen_t len, enum smcr_policy policy);

/**
 * listen(2) that offers SMC-R to those who will connect, unless the policy is SMCR_NEVER. May be
 * called again on a socket that listens, to change the policy or because the socket was inherited.
 * Succeeds without smcrd too: smcr_accept() makes the offer good when smcrd is there.
 * @return 0; -EPROTONOSUPPORT for SMCR_NEVER under smcr-run --require; -EINVAL: no such policy;
 *         -EAGAIN: called while the library is being loaded; otherwise as listen(2)
 */
int smcr_listen(int fd, int backlog, enum smcr_policy policy);

/**
 * accept4(2) on a listener of smcr_listen(). The program may send and receive at once; whether over
 * SMC-R may be open still: see smcr_wait_established().
 *
 * With SMCR_REQUIRE a connection that would be plain TCP is reset, and the call goes on to the next
 * one; one that turns out to be plain TCP later is reset then. A client that was offered SMC-R
 * which it cannot have (smcrd has gone, or the policy is SMCR_NEVER now) is declined and plain TCP.
 * That may take a second, even on a non-blocking socket, and where it does not succeed the
 * connection is reset too.
 *
 * @param addr       as for accept(2); may be NULL
 * @param len        likewise
 * @param flags      SOCK_NONBLOCK, SOCK_CLOEXEC
 * @param policy     in general the one that smcr_listen() was given
 * @return the new descriptor; -EINVAL: no such policy; -EPROTONOSUPPORT for SMCR_NEVER under
 *         smcr-run --require; -EAGAIN also if called while the library is being loaded; otherwise
 * as accept(2)
 */
int smcr_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags, enum smcr_policy policy);

/** What carries the data of a connection. */
enum smcr_mode {
	SMCR_MODE_PENDING = 1, /* open still: TCP handshake or rendezvous under way */
	SMCR_MODE_SMCR = 2,
	SMCR_MODE_TCP = 3
};

/** Flags of struct smcr_info. */
enum {
	SMCR_INFO_SERVER = 1 << 0,  /* this side accepted the connection */
	SMCR_INFO_BYTES = 1 << 1,   /* tx_bytes and rx_bytes are known */
	SMCR_INFO_RELAYED = 1 << 2, /* plain TCP, but by way of smcrd: see smcr_take_back() */
	SMCR_INFO_ENDED = 1 << 3    /* the connection is over */
};

#define SMCR_RNIC_NAME_MAX 63

/**
 * What is known of a connection. Later versions of the library append fields. The texts are static
 * storage and never NULL.
 */
struct smcr_info {
	uint32_t mode;  /* enum smcr_mode */
	uint32_t flags; /* SMCR_INFO_.. */
	int32_t error;  /* it failed: positive errno, else 0 */
	/** Why it does not use SMC-R, or 0; the peer's code if it declined, or 0. Codes of other
	 *  implementations may have no words. */
	uint32_t reason, peer_reason;
	uint32_t linkgroup;                 /* as smcrctl(8) shows it; 0: none */
	const char *reason_name;            /* "prefix-mismatch"; "" without a reason */
	const char *reason_text;            /* a sentence; "" without a reason */
	const char *peer_reason_text;       /* likewise */
	uint64_t tx_bytes, rx_bytes;        /* of the program's data; with SMCR_INFO_BYTES */
	uint32_t rmbe_size, peer_rmbe_size; /* receive buffers of SMC-R, bytes; 0: none */
	uint32_t link;                      /* number in the link group; 0: none */
	uint32_t reserved;                  /* 0 */
	char rnic[SMCR_RNIC_NAME_MAX + 1];  /* that the link is on; "": none */
};

/**
 * What carries the data of a connection, and why. Asks smcrd about pair ends, and about those TCP
 * sockets that were refused SMC-R after the TCP handshake; of these smcrd remembers the last ones
 * only, so that the reason may be 0.
 * @param fd    a pair end or a connected TCP socket, also one that libsmcr did not connect
 * @param size  sizeof(*ret_info): fields that the library does not know are set to zero, those that
 *              the program does not know are left out
 * @return 0; -EINVAL: `size` is below that of the first version; -EBADF, -ENOTSOCK; -EOPNOTSUPP: no
 *         TCP connection, or smcrd is too old; -ENOTCONN; -ENOENT: a pair end that smcrd does not
 *         remember; -ECONNREFUSED, -EACCES and others: smcrd cannot be reached; -EAGAIN: called
 *         while the library is being loaded
 */
int smcr_get_info(int fd, struct smcr_info *ret_info, size_t size);

/**
 * Wait until the mode of a connection is no longer SMCR_MODE_PENDING. Data may be sent and received
 * before that too; they wait with smcrd.
 * @param timeout_ms  milliseconds; negative: without end; 0: do not wait
 * @return 0: SMC-R or plain TCP, smcr_get_info() tells which; -ETIMEDOUT: still open; -EINTR: a
 *         signal handler has run; the error of a connection that has failed meanwhile;
 *         -ECONNRESET also if smcrd has gone; otherwise as smcr_get_info()
 */
int smcr_wait_established(int fd, int timeout_ms);

/**
 * Put the TCP socket back in the place of a pair end: of a connection that became plain TCP and on
 * which nothing has passed (SMCR_INFO_RELAYED), or of a smcr_connect() that failed, which may be
 * called again then. Does nothing to a TCP socket. Without it all stays right, but data of such a
 * connection take the way through smcrd.
 *
 * The caller answers for two things that the library cannot see: no other process holds the
 * descriptor (by fork() or descriptor passing), and the program registers it with epoll again.
 *
 * @return 0: the descriptor is the TCP socket; -EBUSY: it stays a pair end, because it carries
 * SMC-R, is not settled, has a duplicate, or bytes have passed; the error of a connection that has
 *         failed after smcr_connect(); -ENOTSOCK: neither; otherwise as smcr_get_info()
 */
int smcr_take_back(int fd);

/**
 * As their namesakes; on a pair end they answer for the TCP connection behind it. SO_ERROR tells
 * the outcome of a smcr_connect() in progress once.
 * @return 0 or a negative errno: as their namesakes; -ECONNRESET also if smcrd cannot be asked
 */
int smcr_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int smcr_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int smcr_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int smcr_getpeername(int fd, struct sockaddr *addr, socklen_t *len);

/**
 * shutdown(2). A pair end whose connection is over gives -ENOTCONN, as a TCP socket does. A
 * smcr_connect() in progress ends, and the descriptor is a TCP socket again; registrations with
 * epoll end with the pair end. Otherwise the C library's function does the same.
 * @return 0 or a negative errno, as shutdown(2)
 */
int smcr_shutdown(int fd, int how);

/**
 * ioctl(2) of a socket: on a pair end the requests that TCP sockets know (SIOCOUTQ, SIOCOUTQNSD,
 * SIOCGIFADDR ..) are answered as by one. Other requests are the kernel's.
 * @return 0 or what the request returns, or a negative errno, as ioctl(2)
 */
int smcr_ioctl(int fd, unsigned long request, void *arg);

/** The library's version, "0.1.0". Static storage. */
const char *smcr_version(void);

/** "pending", "smcr" or "tcp"; "unknown" for anything else. Static storage. */
const char *smcr_strmode(uint32_t mode);

/** A sentence for people that says why a connection does not use SMC-R. Never NULL; static storage.
 * @param reason  of struct smcr_info, its peer_reason, or from a log */
const char *smcr_strreason(uint32_t reason);

/** The short stable name of the same, "peer-no-smc"; "unknown" for codes of others. */
const char *smcr_strreasonname(uint32_t reason);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
