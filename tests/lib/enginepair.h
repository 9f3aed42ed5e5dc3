/* SPDX-License-Identifier: MIT */
/**
 * @file enginepair.h
 * Two engines, the RNICs between them and the TCP connections that carry CLC, all in memory and
 * under a virtual clock: for unit tests and fuzzing of whole exchanges.
 *
 * Things happen only in pair_pump() and pair_run(). A filter sees every SEND and CLC message before
 * it is delivered, and may hold, lose or fail it. Messages that passed are kept decoded, in order.
 * After every delivery both engines are checked (smcr_engine_check()). Every RDMA write is checked
 * against the registration of its RKey. A violation is printed and aborts the program.
 *
 * The default configuration has small buffers (16 KiB elements, four in an RMB), never probes an
 * idle link, does not try again by itself when a link is missing, and gives all QPs the same retry
 * limit.
 */
#ifndef SMCRD_TESTS_ENGINEPAIR_H
#define SMCRD_TESTS_ENGINEPAIR_H

#include "daemon/smcr/engine.h"
#include "daemon/smcr/ops.h"
#include "daemon/smcr/view.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"

#define PAIR_SERVER 0 /* by habit; either side may play either role */
#define PAIR_CLIENT 1

#define PAIR_MAX_DEVICES 9
#define PAIR_MAX_CONNS   320
#define PAIR_LOG         8192

struct pair;

/** What becomes of a message. */
enum pair_verdict {
	PAIR_PASS,
	PAIR_HOLD, /* not now: the message and those behind it wait */
	PAIR_LOSE, /* never arrives, but its sender believes that it did */
	PAIR_FAIL, /* SEND only: completes with an error at once */
};

/** A message on its way. */
struct pair_msg {
	int from; /* side */
	bool is_clc;
	struct smcr_clc_msg clc;
	int conn;     /* CLC: index in pair->conns */
	uint8_t link; /* SEND: number of the sender's link */
	bool is_cdc;
	struct smcr_llc_msg llc;
	uint8_t num_rtokens; /* ADD LINK of version 2 */
	size_t length;       /* SEND: bytes */
	struct smcr_cdc cdc;
};

typedef enum pair_verdict (*pair_filter)(struct pair *pair, const struct pair_msg *msg, void *arg);

struct pair_qp;
struct pair_mr;
struct pair_mem;

struct pair_clc {
	uint8_t buf[SMCR_CLC_MAX_LEN];
	size_t len;
	struct pair_clc *next, *prev;
};

/** What the host of one end of a TCP connection has heard from its engine. */
struct pair_end {
	struct pair *pair;
	int side, conn;
	struct smcr_conn *smc; /* NULL once gone */
	unsigned int established, fallback, failed, reset, closed, readable, writable, outgrown;
	struct smcr_conn_event last; /* the last of FALLBACK, FAILED, RESET, CLOSED, OUTGROWN */
	bool tcp_dead;               /* RST sent or received */
	bool tcp_fin;                /* FIN sent */
	struct pair_clc *in;         /* CLC messages that wait to be read */
};

struct pair_conn {
	struct pair_end end[2];
	int client; /* side of the client */
};

/** What an engine told operators last. */
struct pair_event {
	struct smcr_event event; /* without its device */
	char text[128];
};

struct pair_side {
	struct pair *pair;
	int index;
	struct smcr_engine *engine;
	struct smcr_device_info devices[PAIR_MAX_DEVICES];
	size_t num_devices;
	struct pair_qp *qps;
	struct pair_mr *mrs;
	struct pair_mem *mems;
	uint32_t next_qpn, next_key;
	bool blocked;  /* nothing that this side sends on RNICs arrives */
	uint32_t most; /* packets of this side with more bytes of data vanish; 0: no limit */
	/** The daemon hangs: its engine hears nothing and runs no timer. Its RNIC still sends what
	 * was posted and acknowledges what comes, and its kernel keeps the TCP connections. */
	bool hung;
	uint64_t silent_us; /* time since this side's RNICs last heard of the peer */
	bool hold_completions;
	uint8_t hold_link; /* hold only the completions of this link; 0: of all links */
	/* faults: make the n-th next call fail, counted down; 0: none */
	int fail_qp_create, fail_qp_connect, fail_qp_start, fail_mr_register, fail_mem_alloc,
		fail_post;
	int mr_error;               /* what fail_mr_register gives; 0: -ENOMEM */
	bool keep_memory;           /* a part of an allocation cannot be given back */
	enum smcr_reason refuse;    /* its connections must not use SMC-R */
	uint32_t rcvbuf, sndbuf;    /* what its programs set */
	struct smcr_needs expected; /* the policy's values where the programs set nothing */
	uint8_t net;                /* 10.0.NET.0/24 is where its connections are */
	uint16_t vlan;              /* of the interface that its connections use; SMCR_NO_VLAN */
	bool far;                   /* the peers of its TCP connections are behind a router */
	bool self;                  /* the peers of its TCP connections are at its own address */
	unsigned int log_lines;
	char log_line[256]; /* the last one */
	char trace[8192];   /* lines of the protocol trace, as many as there is room for */
	unsigned int events[SMCR_EVENT_LGR_DOWN + 1]; /* of each type so far */
	struct pair_event event;                      /* the last one */
	/* the last command_done() */
	unsigned int commands_done;
	uint64_t command_id;
	struct smcr_command_result command_result;
	/* called for each command_done(), if set */
	void (*on_command_done)(void *ctx, uint64_t id, const struct smcr_command_result *result);
	void *on_command_ctx;
};

struct pair {
	uint64_t now;
	uint64_t random;
	struct pair_side side[2];
	struct pair_conn conns[PAIR_MAX_CONNS];
	int num_conns;
	pair_filter filter;
	void *filter_arg;
	struct pair_msg *log; /* what was delivered */
	size_t log_len;
	bool tolerant; /* fuzzing: peers may break rules; RDMA faults fail the QP instead */
	bool denies;   /* a write to unregistered memory fails the QP, and is no violation */
};

/** Devices of a pair, `n` a side: 10.0.0.1.. on the server side, 10.0.0.101.. on the client's, /24.
 *  NULL configurations mean the default. */
struct pair *pair_new(const struct smcr_config *server, const struct smcr_config *client,
		      size_t server_devices, size_t client_devices);
/** A new engine for a side that has none, or whose engine was freed. It knows no device. */
void pair_start_engine(struct pair_side *side, const struct smcr_config *config);
/** Free both engines without shutting them down, and check that they give everything back. */
void pair_free(struct pair *pair);
struct smcr_config pair_config(int side);
/** One more device: number `n` has address 10.0.0.(n + 1), or + 101. */
struct smcr_device_info pair_device(int side, size_t n);
void pair_add_device(struct pair *pair, int side, const struct smcr_device_info *info);
/** The same, but the side's link group does not try to use it of its own accord. */
void pair_add_device_quietly(struct pair *pair, int side, const struct smcr_device_info *info);
/** The device has changed: tell the engine. */
void pair_update_device(struct pair *pair, int side, const struct smcr_device_info *info);
/** The port of device number `n` goes up or down. */
void pair_set_port(struct pair *pair, int side, size_t n, bool active);
/** The device is unplugged: its queue pairs are gone. */
void pair_remove_device(struct pair *pair, int side, uint32_t id);

/** Open a TCP connection with the option on both sides, and start both rendezvous.
 *  @return index in pair->conns */
int pair_connect(struct pair *pair, int client);
/** Connect from the client's side and deliver until both ends are established. */
int pair_connected(struct pair *pair);
/** A pair with so many RNICs on both sides and one connection; the log is empty. */
struct pair *pair_grouped(size_t rnics, int *ret_conn);
/** Start one end only; the test plays the other end. */
int pair_start_alone(struct pair *pair, int side, enum smcr_role role);
/** Parameters as pair_connect() uses them. */
struct smcr_conn_params pair_params(struct pair *pair, int side, enum smcr_role role, int conn);

/** Deliver everything that can be delivered now; time stands still. */
void pair_pump(struct pair *pair);
/** Deliver and let time pass. */
void pair_run(struct pair *pair, uint64_t us);
/** Deliver one message or completion. @return false: there was none */
bool pair_step(struct pair *pair);

/** Put a SEND on the far end of a side's link as if its engine had posted it. */
void pair_inject_llc(struct pair *pair, int from, uint8_t link, const struct smcr_llc_msg *msg);
void pair_inject_raw(struct pair *pair, int from, uint8_t link, const void *data, size_t len);
/** Put CLC on a TCP connection as if `from` had sent it. */
void pair_inject_clc(struct pair *pair, int conn, int from, const struct smcr_clc_msg *msg);
void pair_inject_clc_raw(struct pair *pair, int conn, int from, const void *data, size_t len);

/** The QP of a link completes its outstanding requests with an error. */
void pair_fail_link(struct pair *pair, int side, uint8_t link);

/** The host tells the engine that the queue pair of a link has failed. */
void pair_qp_fails(struct pair *pair, int side, uint8_t link);
/** An operator asks for another link of the first group. */
void pair_add_link(struct pair *pair, int side);

/* What operators see. */
/** The view of the first group. The test fails if there is none. */
struct smcr_lgr_view pair_lgr_view(struct pair *pair, int side);
/** The view of the link with that number. The test fails if there is none. */
struct smcr_link_view pair_link_view(struct pair *pair, int side, uint8_t number);
struct smcr_engine_view pair_engine_view(struct pair *pair, int side);
struct smcr_conn_view pair_conn_view(struct pair *pair, int conn, int side);
/** The reference by which the engine and its host name the queue pair of that link. */
uint64_t pair_link_ref(struct pair *pair, int side, uint8_t number);

/* The engine's own structures: any test may ask whether they exist, but only tests of the engine's
 * insides read them. */
struct smcr_lgr *pair_lgr(struct pair *pair, int side); /* the first one, or NULL */
struct smcr_link *pair_link(struct pair *pair, int side, uint8_t number);
struct pair_end *pair_end(struct pair *pair, int conn, int side);
bool pair_both_established(struct pair *pair, int conn);

/** Write `len` patterned bytes. Read and check them at the other end. */
void pair_send(struct pair *pair, int conn, int from, size_t len, uint8_t seed);
void pair_expect(struct pair *pair, int conn, int at, size_t len, uint8_t seed);
/** Send a few bytes both ways and check that they arrive. */
void pair_exchange(struct pair *pair, int conn);
/** Both ends close; run until both are gone. */
void pair_close(struct pair *pair, int conn);

/** How many LLC messages of this kind were delivered? */
unsigned int pair_count_llc(const struct pair *pair, int from, uint8_t type, bool reply);
unsigned int pair_count_clc(const struct pair *pair, int from, uint8_t type);
/** The last LLC message of this kind that was delivered, or NULL. */
const struct pair_msg *pair_last_llc(const struct pair *pair, int from, uint8_t type, bool reply);
const struct pair_msg *pair_last_clc(const struct pair *pair, int from, uint8_t type);
void pair_clear_log(struct pair *pair);
/** The retry limit that the QP of a link was given last, in milliseconds. */
uint32_t pair_retry_ms(struct pair *pair, int side, uint8_t link);
/** The peer that the QP of a link was connected to. */
const struct smcr_qp_peer *pair_qp_peer(struct pair *pair, int side, uint8_t link);
/** QPs that a side's host holds. */
unsigned int pair_num_qps(const struct pair *pair, int side);

#endif
