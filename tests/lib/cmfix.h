/* SPDX-License-Identifier: MIT */
/**
 * @file cmfix.h
 * One machine of the connection manager in the hands of a test, which is its network, its RNIC, its
 * users and its clock. The test speaks for the peers, message by message.
 */
#ifndef SMCRD_TESTS_CMFIX_H
#define SMCRD_TESTS_CMFIX_H

#include "daemon/cm/machine.h"
#include "proto/ibcm/ip.h"
#include "tests/lib/random.h"

#define CMFIX_SENT   4096 /* messages that are kept until cmfix_sent() takes them */
#define CMFIX_EVENTS 256
#define CMFIX_QPS    32
#define CMFIX_PORT   445
#define CMFIX_SECOND UINT64_C(1000000)
#define CMFIX_REPEAT UINT64_C(4294967) /* code 20: 4.096 us times 2 to the power of 20 */

extern const uint8_t cmfix_own[16], cmfix_own_second[16]; /* 10.0.0.1, 10.0.0.11 */
extern const uint8_t cmfix_peer[16], cmfix_other[16];     /* 10.0.0.2, 10.0.0.3 */

enum cmfix_qp_state {
	CMFIX_INIT,
	CMFIX_RTR,
	CMFIX_RTS,
	CMFIX_ERR,
};

struct cmfix_qp {
	uint32_t qpn;
	enum cmfix_qp_state state;
	struct cm_machine_qp how;
};

struct cmfix_mad {
	uint8_t local_gid[16], peer_gid[16];
	uint8_t bytes[IBCM_MAD_LEN];
	struct ibcm_msg msg;
	enum cmfix_qp_state first_qp; /* state of qps[0] when it was sent */
};

struct cmfix_event {
	struct cm_machine_conn *conn;
	void *ctx;
	struct cm_event event;
	uint8_t private_data[CM_PRIVATE_MAX];
	char text[CM_ERROR_LEN];
};

struct cmfix {
	struct cm_machine *machine;
	uint64_t now;
	struct random random;
	struct cmfix_mad sent[CMFIX_SENT];
	size_t num_sent, num_taken;
	struct cmfix_event events[CMFIX_EVENTS];
	size_t num_events, num_seen;
	struct cmfix_qp qps[CMFIX_QPS];
	bool stranger;                         /* may_use answers false */
	bool fail_connect, fail_start;         /* of queue pairs */
	uint16_t port;                         /* somebody listens here: CMFIX_PORT */
	unsigned int refused;                  /* calls of that operation */
	uint16_t refused_reason, refused_port; /* of the peer */
	/** Called with each event, inside the callback; may be NULL. */
	void (*on_event)(struct cmfix *fix, struct cmfix_event *event);
};

/** A machine with the addresses cmfix_own and cmfix_own_second, path MTU 1024 (code 3) and 16 reads
 * each way. */
struct cmfix *cmfix_new(const struct cm_limits *limits);
void cmfix_set_mtu(struct cmfix *fix, uint8_t max_path_mtu);
/** Free it. The machine must have nothing to remember any more, after time wait. */
void cmfix_free(struct cmfix *fix);

/** A REQ as Linux sends it, from 10.0.0.2 to CMFIX_PORT; qpn 0x11, id 0x1001. */
struct ibcm_msg cmfix_req(void);
/** A REP to the REQ that the machine has sent. */
struct ibcm_msg cmfix_rep(const struct ibcm_msg *req);
/** A message about the connection that the ids name, as the peer has them. */
struct ibcm_msg cmfix_about(enum ibcm_type type, uint64_t transaction_id, uint32_t peer_id,
			    uint32_t own_id);

/** A message comes from a peer to cmfix_own. */
void cmfix_receive(struct cmfix *fix, const uint8_t from[16], const struct ibcm_msg *msg);
/** Take the next message that the machine has sent; there must be one, of this type. */
const struct cmfix_mad *cmfix_sent(struct cmfix *fix, enum ibcm_type type);
/** There is none. */
void cmfix_silent(const struct cmfix *fix);
/** Take the next event; there must be one, of this type. */
const struct cmfix_event *cmfix_event(struct cmfix *fix, enum cm_event_type type);
void cmfix_no_event(const struct cmfix *fix);
/** Let the machine do what is due now. */
void cmfix_run(struct cmfix *fix);
/** Let time pass. */
void cmfix_pass(struct cmfix *fix, uint64_t us);

/** Ask 10.0.0.2 for a connection with qps[0]. @return as cm_machine_connect() */
int cmfix_connect(struct cmfix *fix, struct cm_machine_conn **ret_conn);
/** How queue pair `qp` is handed to the machine. */
struct cm_machine_own_qp cmfix_own_qp(struct cmfix *fix, unsigned int qp);
/** An offer of 8 reads each way, RNR retry 5, and private data "text". */
struct cm_offer cmfix_offer(const char *text);

/** A connection that the machine has asked for; ids as in the messages. */
struct cm_machine_conn *cmfix_active(struct cmfix *fix, struct ibcm_msg *ret_req);
/** A connection that `req` has asked for, with queue pair `qp`; also its REP. */
struct cm_machine_conn *cmfix_passive(struct cmfix *fix, const struct ibcm_msg *req,
				      unsigned int qp, struct ibcm_msg *ret_rep);

#endif
