/* SPDX-License-Identifier: MIT */
/**
 * @file ipc.h
 * The messages on smcrd's Unix stream socket, shared by programs (the preload library) and tools.
 *
 * A frame is an 8-byte header and a payload:
 *   @0:2 magic "SM"; @2:1 frame format = 1; @3:1 type; @4:4 payload length, big-endian; payload
 * Numbers in payloads are big-endian too. Descriptors travel as SCM_RIGHTS, at most one in a send,
 * and belong to the last frame of the send. Message numbers are never reused; a message with
 * another meaning gets another number.
 *
 * A session starts with HELLO from the client (the versions that it speaks) and HELLO from the
 * daemon (the version chosen) or ERROR and close. A client may send its first request right behind
 * its HELLO, best in the same send; the daemon's HELLO may then come as late as the reply. Every
 * request gets exactly one reply: RESULT, STATUS, SOCKOPT, CONTROL_REPLY, INFO, MEMORY or ERROR. An
 * unknown type gets ERROR with EOPNOTSUPP, never silence.
 *
 * Pure functions: no I/O, no allocation; thread safe. Errors as in proto/smcr/wire.h.
 */
#ifndef SMCRD_PROTO_IPC_IPC_H
#define SMCRD_PROTO_IPC_IPC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/path/page.h"

#define IPC_HEADER_LEN        8
#define IPC_FORMAT            1
#define IPC_VERSION           1
#define IPC_MAX_CLIENT_LEN    512 /* payload of every type but the two CONTROL types */
#define IPC_MAX_CONTROL_LEN   (16u << 20)
#define IPC_DEFAULT_SOCKET    "/run/smcrd/smcrd.sock"
#define IPC_SOCKET_ENV        "SMCRD_SOCKET"
#define IPC_SOCKOPT_VALUE_MAX 256
#define IPC_TEXT_MAX          255
#define IPC_RNIC_MAX          63

enum ipc_type {
	IPC_HELLO = 1,
	IPC_ERROR = 2,    /* daemon: struct ipc_error */
	IPC_HANDOVER = 3, /* program: struct ipc_handover + the TCP socket */
	IPC_RESULT = 4,   /* daemon: struct ipc_result, + the pair end if outcome is PAIR or OPEN */
	IPC_STATUS_REQUEST = 5, /* program: struct ipc_status_request + its pair end as proof */
	IPC_STATUS = 6, /* daemon: struct ipc_status, + the TCP socket if IPC_STATUS_TAKE_BACK */
	IPC_SOCKOPT_REQUEST = 7, /* program: struct ipc_sockopt + its pair end as proof */
	IPC_SOCKOPT = 8,         /* daemon: struct ipc_sockopt with result */
	IPC_CONTROL = 9,         /* tool: JSON request */
	IPC_CONTROL_REPLY = 10,  /* daemon: JSON reply */
	IPC_INFO_REQUEST = 11,   /* program: struct ipc_info_request + its pair end or TCP socket */
	IPC_INFO = 12,           /* daemon: struct ipc_info */
	IPC_MEMORY_REQUEST = 13, /* program: struct ipc_memory_request + its pair end as proof */
	IPC_MEMORY = 14,         /* daemon: struct ipc_memory, + the memfd if granted */
};

struct ipc_header {
	uint8_t type;    /* enum ipc_type, unknown values are passed on */
	uint32_t length; /* payload bytes */
};

struct ipc_hello {
	uint16_t min_version; /* daemon: both fields carry the version chosen */
	uint16_t max_version;
};

struct ipc_error {
	int32_t error;               /* positive errno */
	char text[IPC_TEXT_MAX + 1]; /* a sentence, NUL terminated here, not on the wire */
};

/** A socket address as the program's socket family gives it: an AF_INET6 socket that talks IPv4 has
 *  IPv4-mapped addresses in `in6`. Port and address in network byte order, as in sockaddr. */
union ipc_addr {
	struct sockaddr sa; /* sa_family: AF_INET or AF_INET6 */
	struct sockaddr_in in;
	struct sockaddr_in6 in6; /* sin6_flowinfo is 0; sin6_scope_id as getsockname gives it */
};

/** What the program hands over. */
enum ipc_handover_kind {
	IPC_HANDOVER_CONNECTED = 1,  /* blocking connect() has succeeded: reply after rendezvous */
	IPC_HANDOVER_CONNECTING = 2, /* connect() gave EINPROGRESS: reply a plugged end at once */
	IPC_HANDOVER_ACCEPTED = 3,   /* socket of accept(): the reply is a pair end, at once */
};

enum {
	IPC_HANDOVER_REQUIRE = 1 << 0, /* smcr-run --require: a fallback is an error, not TCP */
};

struct ipc_handover {
	uint8_t kind; /* enum ipc_handover_kind */
	uint8_t flags;
	/** CONNECTING: the address that connect() was given, in the socket's family, since the
	 * kernel does not tell it during the handshake. AF_UNSPEC with the other kinds. */
	union ipc_addr peer;
};

enum ipc_outcome {
	IPC_OUTCOME_PAIR = 1, /* a pair end comes with this frame: put it in the socket's place */
	IPC_OUTCOME_TCP = 2,  /* keep the TCP socket: it has no bytes of CLC and stays plain TCP */
	IPC_OUTCOME_FAILED = 3, /* the connection is gone: report `error` */
	/** CONNECTED: as PAIR, but the peer has not answered yet, so SMC-R or TCP may carry the
	 * bytes. connect() succeeds now, and bytes that are written wait. */
	IPC_OUTCOME_OPEN = 4,
};

struct ipc_result {
	uint8_t outcome; /* enum ipc_outcome */
	int32_t error;   /* positive errno with FAILED, else 0 */
	uint32_t reason; /* enum smcr_reason with TCP, else 0 */
};

enum {
	/** The program can put a TCP socket in the pair end's place: nobody else holds the pair end
	 *  (no dup, no fork since) and its epoll registrations are known. Without it the daemon
	 *  never answers IPC_STATUS_TAKE_BACK. */
	IPC_STATUS_MAY_TAKE_BACK = 1 << 0,
	/** For connect() with AF_UNSPEC: reset the connection and give the TCP socket back (with
	 * IPC_STATUS_TAKE_BACK, if there is one). */
	IPC_STATUS_DISCONNECT = 1 << 1,
	/** Tell the state only: how connect() has ended stays to be told. For calls that do not
	 *  report it, as getpeername(). Not with the other flags. */
	IPC_STATUS_LOOK = 1 << 2,
};

struct ipc_status_request {
	uint8_t flags;
};

enum ipc_conn_state {
	IPC_CONN_CONNECTING = 1, /* TCP handshake or rendezvous under way */
	IPC_CONN_SMCR = 2,
	IPC_CONN_RELAY = 3,  /* fell back: the daemon relays between the pair and TCP */
	IPC_CONN_FAILED = 4, /* `error` says why (what SO_ERROR reports once) */
	IPC_CONN_CLOSED = 5,
	IPC_CONN_OPEN = 6, /* connected; whether SMC-R or TCP carries the bytes is undecided */
};

enum {
	/** The fallback, or the failure of connect(), came before any byte passed: the TCP socket
	 *  comes with the STATUS frame, the daemon has let go of it, and the program puts it back
	 * in the pair end's place. With RELAY it goes on as plain TCP, with FAILED the program may
	 *  call connect() on it again, as with CLOSED after IPC_STATUS_DISCONNECT. */
	IPC_STATUS_TAKE_BACK = 1 << 0,
};

struct ipc_status {
	uint8_t state; /* enum ipc_conn_state */
	uint8_t flags;
	int32_t error;
	uint32_t reason;
};

enum ipc_sockopt_op {
	IPC_SOCKOPT_GET = 1,
	IPC_SOCKOPT_SET = 2,
	IPC_SOCKOPT_CONTROL = 3, /* ioctl(): `name` is SIOCOUTQ or SIOCOUTQNSD, the value an int */
};

/** getsockopt, setsockopt or ioctl on the TCP connection behind a pair end. The payload always has
 *  `length` bytes of value, also where they are room only. */
struct ipc_sockopt {
	uint8_t op;
	int32_t level;
	int32_t name;
	int32_t result;  /* reply: 0 or positive errno */
	uint16_t length; /* request GET, CONTROL: room; else bytes in value */
	uint8_t value[IPC_SOCKOPT_VALUE_MAX];
};

enum {
	/** Reply when the mode is no longer PENDING. Whoever does not want to wait any more closes
	 *  the session. */
	IPC_INFO_WAIT = 1 << 0,
};

struct ipc_info_request {
	uint8_t flags;
};

enum ipc_mode {
	IPC_MODE_PENDING = 1, /* TCP handshake or rendezvous under way */
	IPC_MODE_SMCR = 2,
	IPC_MODE_TCP = 3, /* fell back, or never was a candidate */
};

enum {
	IPC_INFO_SERVER = 1 << 0,  /* the program accepted the connection */
	IPC_INFO_BYTES = 1 << 1,   /* tx_bytes and rx_bytes are known */
	IPC_INFO_RELAYED = 1 << 2, /* TCP by way of the daemon */
	IPC_INFO_ENDED = 1 << 3,   /* the connection is over */
};

/** What became of a connection. The daemon tells it to those who show a descriptor of it: a pair
 *  end, or the TCP socket that was handed over and stayed with the program. */
struct ipc_info {
	uint8_t mode;         /* enum ipc_mode */
	uint8_t flags;        /* IPC_INFO_.. */
	int32_t error;        /* positive errno if it failed, else 0 */
	uint32_t reason;      /* enum smcr_reason why not SMC-R, else 0 */
	uint32_t peer_reason; /* the peer's code if it declined, else 0 */
	uint32_t linkgroup;   /* numbers as smcrctl shows them; 0: none */
	uint8_t link;
	uint64_t tx_bytes, rx_bytes; /* application bytes */
	uint32_t rmbe_size, peer_rmbe_size;
	char rnic[IPC_RNIC_MAX +
		  1]; /* RNIC of the link; NUL terminated here, not on the wire; "": none */
};

#define IPC_MEMORY_VERSION 1 /* of proto/path/ */

struct ipc_memory_request {
	uint8_t version;
};

enum ipc_memory_outcome {
	IPC_MEMORY_GRANTED = 0,
	IPC_MEMORY_PENDING = 1, /* whether SMC-R carries the connection is undecided */
	IPC_MEMORY_TCP = 2,     /* TCP carries the connection, or it is over */
	IPC_MEMORY_DEVICE = 3,  /* the RNIC has pinned the memory */
	IPC_MEMORY_NONE = 4,    /* no memory, or the daemon has no more to share */
	IPC_MEMORY_OFF = 5,     /* the configuration does not allow it */
	IPC_MEMORY_OTHER = 6,   /* another version than the daemon's */
};

/** The shared memory of a connection (docs/data-path.md). Every process that shows the pair end
 * gets the same memory. Once it was granted the daemon follows the protocol, whether or not the
 * program uses the memory. Unless it is granted, all fields but the first are zero. */
struct ipc_memory {
	uint8_t outcome; /* enum ipc_memory_outcome */
	struct path_layout layout;
	/** What SIOCOUTQ gives on the program's end while only a message of one byte is queued. */
	uint32_t least_charge;
};

/** Write a frame header. @return 8, -ENOBUFS or -EINVAL (more than the type may have) */
int ipc_encode_header(uint8_t type, uint32_t length, uint8_t *buf, size_t len);
/** Read a frame header. @return 0, -EAGAIN (len < 8), -EBADMSG (magic, format, or a length above
 *  what the type may have) */
int ipc_decode_header(const uint8_t *buf, size_t len, struct ipc_header *ret_header);

/* Payloads. Encoders return the payload length, -ENOBUFS or -EINVAL (a field out of its range);
 * decoders 0 or -EBADMSG (length, or a field out of its range). */
int ipc_encode_hello(const struct ipc_hello *msg, uint8_t *buf, size_t len);
int ipc_decode_hello(const uint8_t *buf, size_t len, struct ipc_hello *ret_msg);
int ipc_encode_error(const struct ipc_error *msg, uint8_t *buf, size_t len);
int ipc_decode_error(const uint8_t *buf, size_t len, struct ipc_error *ret_msg);
int ipc_encode_handover(const struct ipc_handover *msg, uint8_t *buf, size_t len);
int ipc_decode_handover(const uint8_t *buf, size_t len, struct ipc_handover *ret_msg);
int ipc_encode_result(const struct ipc_result *msg, uint8_t *buf, size_t len);
int ipc_decode_result(const uint8_t *buf, size_t len, struct ipc_result *ret_msg);
int ipc_encode_status_request(const struct ipc_status_request *msg, uint8_t *buf, size_t len);
int ipc_decode_status_request(const uint8_t *buf, size_t len, struct ipc_status_request *ret_msg);
int ipc_encode_status(const struct ipc_status *msg, uint8_t *buf, size_t len);
int ipc_decode_status(const uint8_t *buf, size_t len, struct ipc_status *ret_msg);
int ipc_encode_sockopt(const struct ipc_sockopt *msg, uint8_t *buf, size_t len);
int ipc_decode_sockopt(const uint8_t *buf, size_t len, struct ipc_sockopt *ret_msg);
int ipc_encode_info_request(const struct ipc_info_request *msg, uint8_t *buf, size_t len);
int ipc_decode_info_request(const uint8_t *buf, size_t len, struct ipc_info_request *ret_msg);
int ipc_encode_info(const struct ipc_info *msg, uint8_t *buf, size_t len);
int ipc_decode_info(const uint8_t *buf, size_t len, struct ipc_info *ret_msg);
int ipc_encode_memory_request(const struct ipc_memory_request *msg, uint8_t *buf, size_t len);
int ipc_decode_memory_request(const uint8_t *buf, size_t len, struct ipc_memory_request *ret_msg);
int ipc_encode_memory(const struct ipc_memory *msg, uint8_t *buf, size_t len);
int ipc_decode_memory(const uint8_t *buf, size_t len, struct ipc_memory *ret_msg);

struct sockaddr_un;

/**
 * The second address of a daemon, in the abstract namespace. It is for programs that cannot reach
 * the path of the socket (after chroot(), with a relative path, as another user). The name is
 * "smcrd-at:", a number and the path, or the end of the path that fits. Each daemon draws its
 * number, so nobody can take the name first, and tells it by IPC_SO_ADDRESS. Where there is no BPF
 * to tell it, the name is "smcrd:" and the path, which anybody can bind. So a client checks which
 * user's process listens (SO_PEERCRED) before it hands anything over. The daemon accepts no CONTROL
 * requests at either name, since no file permissions guard them.
 * @param path    path of the daemon's socket, exactly as given to both sides
 * @param number  what IPC_SO_ADDRESS gives; 0: the name without a number
 * @return address length for bind() and connect(), or -EINVAL: the path is empty
 */
int ipc_abstract_address(const char *path, uint64_t number, struct sockaddr_un *ret_addr);

/**
 * The abstract name to which the program's end of a pair is bound. Every process that holds the end
 * learns both addresses from getsockname(), also after exec, dup and descriptor passing. Both
 * addresses have the same family.
 */
struct ipc_pair_name {
	union ipc_addr local; /* what getsockname() of the TCP socket gives */
	union ipc_addr peer;  /* what getpeername() of the TCP socket gives, or would give */
	uint64_t id;          /* random, so that nobody can bind the name before the daemon does */
};

#define IPC_PAIR_NAME_PREFIX "smcr-pair:"

/** Fill a sockaddr_un (leading NUL included). @return address length for bind(), or -EINVAL */
int ipc_pair_name_encode(const struct ipc_pair_name *name, void *ret_sockaddr_un, size_t len);
/** @return 0; -EINVAL: this is not the name of a pair of smcrd */
int ipc_pair_name_decode(const void *sockaddr_un, size_t len, struct ipc_pair_name *ret_name);

/**
 * Private socket options of level IPC_SOL_SMCR. BPF programs of smcrd on the cgroup root handle
 * them, so they never reach the kernel's own options. Where these programs do not serve the network
 * namespace, the kernel answers ENOPROTOOPT or EOPNOTSUPP.
 *
 * IPC_SO_CLAIM has to be set before connect() or listen() and holds for the life of the socket,
 * with IPC_CLAIM_TO_CONNECT for one connect() that sends a SYN. A listener's claim does not hold
 * for connect(), nor a claim with this flag for listen(). On a socket that listens already a claim
 * holds for later connections (if the socket was never claimed before: since kernel 6.12). Errors:
 * EOPNOTSUPP: not a TCP socket (MPTCP is not); EISCONN: too late; EPERM: barred; EINVAL; ENOMEM.
 * The first two are checked first, so they tell what kind of socket it is.
 *
 * IPC_SO_BAR is for listeners from which a program that does not speak CLC may accept. A barred
 * listener loses its claim, and nobody can claim it until the bar is lifted. The bar ends with this
 * smcrd, so the library also leaves a mark for the next one (lib/smcr/bar.h). Errors: EALREADY:
 * barred already; EINVAL also: not a listener; else as above.
 *
 * IPC_SO_STANDS_STILL, IPC_SO_ADDRESS and IPC_SO_SERVING can be read from a socket of any kind.
 * IPC_SO_SERVING tells which smcrd serves the network namespace; EINVAL: too little room for the
 * answer.
 *
 * IPC_SO_PLAIN tells smcrd that the library has left a connection on TCP, and why, so that
 * operators see it. (Connections of claimed sockets smcrd counts by itself.) It is set after
 * accept() or connect(), or while connect() is in progress, and counts once. Errors: EALREADY:
 * counted already; EBUSY: connect() is in progress on a claimed socket; EINVAL also: not connected,
 * or not a reason of a library; else as above.
 *
 * IPC_SO_UNASKED tells how many connections to this socket's peer the library has made without a
 * claim, because the peer had not answered the option just before (lib/smcr/unanswered.h). It is
 * set once after a connect() with a claim, when the handshake is over. smcrd counts these
 * connections as SMCR_REASON_PEER_NO_SMC. The answer also says whether the peer still does not
 * answer the option: success: yes; ENODATA: the number is counted, but this connection is SMC-R, or
 * plain TCP for another reason. Errors: EALREADY: told already; EINVAL: no such socket, or too
 * large a number; else as above.
 *
 * IPC_SO_SPOKEN is for smcrd alone. It tells what smcrd sends on a socket whose handshake carried
 * the option both ways; CLC messages of anybody else are stopped there (daemon/rendezvous/gate.h).
 * Errors: EPERM: neither root nor smcrd's user; EINVAL; ENOMEM.
 */
#define IPC_SOL_SMCR      0x534d4352 /* "SMCR" */
#define IPC_SO_CLAIM      1          /* setsockopt, struct ipc_claim */
#define IPC_SO_NEGOTIATED 2          /* getsockopt, int: enum ipc_negotiated */
#define IPC_SO_REASON     3          /* getsockopt, int: enum smcr_reason why it is NO, else 0 */
#define IPC_SO_BAR        4 /* setsockopt, int: 1 bars; 0 lifts the bar and restores the claim */
/** getsockopt, int: 1 while smcrd makes no progress: it was stopped or hangs. */
#define IPC_SO_STANDS_STILL 5
#define IPC_SO_PLAIN        6 /* setsockopt, struct ipc_plain */
#define IPC_SO_SPOKEN       7 /* setsockopt, struct ipc_spoken */
#define IPC_SO_UNASKED      8 /* setsockopt, int: 0..IPC_UNASKED_MAX */
/** getsockopt, uint64_t: the number in smcrd's abstract address, never 0. ENOPROTOOPT or EOPNOTSUPP
 * also if it has none. */
#define IPC_SO_ADDRESS 9
#define IPC_SO_SERVING 10 /* getsockopt, struct ipc_serving */

/** The number is a program's word. With this bound each real connection can pass for 33 at most. */
#define IPC_UNASKED_MAX 32

enum {
	/** The program does not accept plain TCP, so the option is not left off for reasons of
	 * speed. */
	IPC_CLAIM_REQUIRED = 1 << 0,
	/** The claim is for the next connect(): EISCONN for a listener too. */
	IPC_CLAIM_TO_CONNECT = 1 << 1,
};

/** A program that does not tell its executable passes the first four bytes only. */
struct ipc_claim {
	int32_t wanted;   /* 1: claim the socket; 0: give the claim up */
	uint32_t flags;   /* IPC_CLAIM_.. */
	uint64_t program; /* ipc_program_id() of its path; 0: unknown */
};

enum {
	IPC_PLAIN_ACCEPTED = 1 << 0, /* the connection is of accept() */
};

struct ipc_plain {
	uint32_t reason; /* enum smcr_reason: SOCKET_OPTION, TCP_MESSAGES, NOT_CLAIMED, NO_DAEMON,
			    LIMIT, NO_DESCRIPTORS, INTERNAL, BARRED */
	uint32_t flags;  /* IPC_PLAIN_.. */
};

enum {
	IPC_SERVING_STANDS_STILL = 1 << 0, /* as IPC_SO_STANDS_STILL */
	IPC_SERVING_STOPS = 1 << 1,        /* it was told to end */
};

#define IPC_SERVING_PATH_MAX 112

/** The smcrd that serves a network namespace. What it says of itself is as it sees itself. */
struct ipc_serving {
	uint64_t instance;      /* random: tells a daemon its own answer */
	uint64_t pid_namespace; /* inode number */
	uint32_t pid;           /* in that namespace */
	uint32_t uid;
	uint32_t flags; /* IPC_SERVING_.. */
	uint32_t reserved;
	char socket[IPC_SERVING_PATH_MAX]; /* path, NUL terminated */
};

#define IPC_SPOKEN_MAX 1024 /* more than the messages of any CLC exchange */

/** All bytes that smcrd has sent on a socket since the handshake, with those that it is about to
 * send. */
struct ipc_spoken {
	uint32_t length; /* of `bytes`; IPC_SPOKEN_FREED: anything may be sent, without `bytes` */
	uint32_t reserved;
	uint8_t bytes[IPC_SPOKEN_MAX];
};

#define IPC_SPOKEN_FREED 0xFFFFFFFF

/**
 * A number for the path of a program's executable, for rules of smcrd.conf. The program itself
 * tells it and can lie: rules are for steering, not for security.
 * @param path  as /proc/self/exe gives it; " (deleted)" at the end is ignored
 * @return a number other than 0
 */
uint64_t ipc_program_id(const char *path, size_t len);

/**
 * The mark of a promise: this value of TCP_SYNCNT on an accepted socket whose handshake carried the
 * option both ways. IPC_SO_NEGOTIATED is lost when the daemon that saw the handshake ends. The mark
 * stays on the socket, where the library and the next daemon find it. The kernel does not use the
 * number of SYN retries of an established socket, and no program asks for so many. Who takes the
 * connection over restores the program's own value.
 *
 * Sockets of connect() need no mark: the library knows whether it claimed the socket, and connects
 * again.
 */
#define IPC_PROMISE_MARK 113

enum ipc_negotiated {
	IPC_NEGOTIATED_UNKNOWN = 0, /* not claimed with this smcrd, or handshake not finished */
	IPC_NEGOTIATED_YES = 1,     /* both sides carried the option */
	IPC_NEGOTIATED_NO = 2,      /* plain TCP; known early if this host decided it */
	/** Plain TCP: the listener's claim was taken back before the handshake ended, and the peer
	 * was not promised SMC-R. */
	IPC_NEGOTIATED_UNCLAIMED = 3,
	/** The peer may have been promised SMC-R, or not: of the SYN-ACKs some have left with the
	 * option and some without. Its first bytes tell. */
	IPC_NEGOTIATED_DOUBTFUL = 4,
};

#endif
