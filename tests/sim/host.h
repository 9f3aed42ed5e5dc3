/* SPDX-License-Identifier: MIT */
/**
 * @file host.h
 * One engine and what surrounds it: its operations on the fake RNIC, its clock, its events.
 */
#ifndef SMCRD_TESTS_SIM_HOST_H
#define SMCRD_TESTS_SIM_HOST_H

#include "daemon/smcr/engine.h"
#include "daemon/smcr/ops.h"
#include "daemon/smcr/view.h"
#include "tests/sim/counted.h"
#include "tests/sim/fabric.h"

struct side;

/** An event of a connection, to be acted on after the engine has returned. */
struct note {
	struct side *side;
	struct smcr_conn_event event;
};

struct host {
	struct world *world;
	size_t index;
	char name[8];
	struct smcr_config config;
	struct smcr_engine *engine;
	bool in_engine;
	struct note *notes;
	size_t num_notes, cap_notes;
	uint64_t wake_at, wake_number;
	uint64_t frozen_until;
	uint64_t spin_at, spins; /* timer runs without progress of the clock */
	uint64_t steps, next_check;
	uint32_t num_conns;        /* that the engine holds */
	uint32_t num_qps, num_mrs; /* that the engine holds; must equal its view */
	uint32_t qps_high;         /* the most QPs that it held at once */
	uint64_t memory;
	uint32_t commands; /* of operators, whose outcome is still to come */
	bool operated;     /* an operator has given a command */
	uint16_t generation;
	unsigned int ueid_changes;
	struct counted counted;
	struct told_group *told; /* groups that are up, as the engine has told operators */
};

/** A host with an engine configured by `config`, and with a new peer ID. */
struct host *host_new(struct world *w, const struct smcr_config *config);
void host_free(struct host *host);
struct world *host_world(const struct host *host);
size_t host_index(const struct host *host);

/** These two enclose every call into the engine. host_enter() sets the engine's clock; host_leave()
 *  acts on events, checks invariants and plans the next timer run. */
void host_enter(struct host *host);
void host_leave(struct host *host);

void host_add_device(struct host *host, struct device *device);
/** Tell the engine what the device is now (port, presence). */
void host_device_changed(struct host *host, struct device *device);
/** The daemon and its programs do nothing for a while; its RNICs go on. */
void host_freeze(struct host *host, uint64_t time);
/** @return when the host goes on, or 0: it is not frozen */
uint64_t host_frozen(const struct host *host);
/** Probe every link (TEST LINK). */
void host_test_links(struct host *host);
struct host_links {
	struct smcr_link_view link[64];
	size_t num;
};
/** The links as the engine's view shows them. */
void host_list_links(struct host *host, struct host_links *ret_links);
/** An operator gives a command. Its outcome must come in time. */
void host_command(struct host *host, const struct smcr_command *command);
/** An operator takes a device out of use, or wants it used again. */
void host_drain(struct host *host, const struct device *device, bool drained);
/** Remove the UEID if the host has it, else add it. */
void host_toggle_ueid(struct host *host, const char *name);
void host_shutdown(struct host *host);
/** The daemon dies without a word and starts again with another instance ID. */
void host_restart(struct host *host);

/** The fabric delivers a message. Call this between host_enter() and host_leave(). */
void host_rdma_recv(struct host *host, struct qp *qp, const struct message *msg);
/** The fabric reports a completion of request `number` of the QP, see wire_done(). */
void host_rdma_done(struct host *host, struct qp *qp, uint64_t number,
		    enum smcr_send_status status);
/** The QP went into error by itself. */
void host_qp_failed(struct host *host, struct qp *qp);
void host_stale_input(struct host *host, struct qp *qp, uint64_t kind);

/** No link group, connection, memory, QP, MR or timer is left; else a violation. */
void host_check_empty(struct host *host, const char *when);

#endif
