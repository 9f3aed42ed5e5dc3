/* SPDX-License-Identifier: MIT */
/* One handed-over connection: its birth, and its life as a table of phase and event. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

#define ID_TRIES      8
#define RESET_WAIT_MS 1000 /* for a program that reads what came before a reset of TCP */

/* ---- birth ---- */

static void on_work(struct task *task);
static void on_later(struct task *task);

struct conn *conn_new(struct conns *conns, const struct conn_offer *offer, int tcp)
{
	struct quota *quota = offer->quota;
	if (!limits_allow_conn(conns, quota))
		return NULL;
	uint64_t id;
	struct conn *conn = naming_draw(conns, &id) < 0 ? NULL : calloc(1, sizeof(*conn));
	if (!conn)
		return NULL;
	conn->number = conns->last_number + 1;
	if (order_add(&conns->order, conn->number, conn) < 0) {
		free(conn);
		return NULL;
	}
	conns->last_number++;
	conn->conns = conns;
	conn->id = conn->name.id = id;
	conn->cred = offer->cred;
	snprintf(conn->program, sizeof(conn->program), "%s", offer->program ? offer->program : "");
	conn->quota = quota;
	conn->kind = offer->msg->kind;
	conn->phase = PHASE_CONNECTING;
	conn->work.run = on_work;
	conn->later.run = on_later;
	conn->started_ms = conns_now_ms();
	conn->tcp = tcp;
	socklen_t cookie_len = sizeof(conn->cookie);
	getsockopt(tcp, SOL_SOCKET, SO_COOKIE, &conn->cookie, &cookie_len);
	conn->pair.fd = conn->pair_watch.fd = conn->tcp_watch.fd = conn->shared.fd = -1;
	quota->conns++;
	conns->counts.conns++;
	conn->files = FDS_OF_NEW_CONN;
	limits_count_files(conns, quota, conn->files);
	trim_note_begin(conns);
	DL_PREPEND(conns->conns, conn);
	HASH_ADD(hh, conns->by_id, id, sizeof(conn->id), conn);
	limits_update(conns, quota);
	return conn;
}

static int new_id(struct conn *conn)
{
	struct conns *conns = conn->conns;
	uint64_t id;
	int r = naming_draw(conns, &id);
	if (r < 0)
		return r;
	HASH_DELETE(hh, conns->by_id, conn);
	conn->id = conn->name.id = id;
	HASH_ADD(hh, conns->by_id, id, sizeof(conn->id), conn);
	return 0;
}

/* Try some names. As nobody can foretell one, hardly ever a second is needed. */
static int open_named(struct conn *conn, int plug_fd, int *ret_program)
{
	int r = -EADDRINUSE;
	for (int i = 0; i < ID_TRIES && r == -EADDRINUSE; i++) {
		r = i > 0 ? new_id(conn) : 0;
		if (r == 0)
			r = pair_open(&conn->name, plug_fd, &conn->pair, ret_program);
		if (r == -EADDRINUSE)
			naming_taken(conn);
	}
	return r;
}

static void on_pair_ready(struct watch *watch, uint32_t events)
{
	struct conn *conn = container_of(watch, struct conn, pair_watch);
	/* The kernel reports EPOLLOUT after every read of the program: watch for it only while it
	 * is needed. */
	bool wanted = conn->pump.rx_full || conn->relay.rx_full || conn->shared.wants_empty;
	if (events & EPOLLOUT && !wanted)
		poller_modify(conn->conns->poller, watch, POLLER_INPUT);
	pair_note(&conn->pair, events);
	if (conn->phase == PHASE_RELAY)
		relay_note_pair(&conn->relay, events);
	else
		pump_note(&conn->pump, events); /* kept until SMC-R or TCP carries the data */
	conn_mark(conn);
}

int conn_open_pair(struct conn *conn, bool plugged)
{
	struct conns *conns = conn->conns;
	int program = -1;
	int r = open_named(conn, plugged ? conns->plug_fd : -1, &program);
	/* It is too late for TCP. The program gets its bytes, but no addresses. */
	if (r == -EADDRINUSE && conn->phase == PHASE_SMCR)
		r = pair_open(NULL, -1, &conn->pair, &program);
	if (r < 0)
		return r;
	conn->pump.pair = &conn->pair;
	r = poller_add(conns->poller, &conn->pair_watch, conn->pair.fd, POLLER_INPUT,
		       on_pair_ready);
	if (r < 0) {
		close(program);
		pair_reset(&conn->pair); /* an open pair.fd means that the program has its end */
		return r;
	}
	return program;
}

void conn_stop_watching(struct conn *conn)
{
	poller_remove(conn->conns->poller, &conn->pair_watch);
	poller_remove(conn->conns->poller, &conn->tcp_watch);
}

void conn_look_at_memory(struct conn *conn)
{
	if (!conn->pump.shared || !conn->pump.conn)
		return;
	conn->shared.now = conns_now_us();
	pump_look(&conn->pump);
	conn_mark(conn);
}

void conn_unshare(struct conn *conn)
{
	if (!conn->pump.shared)
		return;
	lookout_forget(conn);
	shared_close(&conn->shared);
	conn->pump.shared = NULL;
	conn->shared.wants_empty = false;
	conn->quota->shared--;
	limits_count_files(conn->conns, conn->quota, -1);
	conn->conns->counts.conns_shared--;
}

void conn_settled(struct conn *conn)
{
	limits_count_files(conn->conns, conn->quota, FDS_OF_CONN - conn->files);
	conn->files = FDS_OF_CONN;
}

/* ---- who handed it over ---- */

void conn_reply(struct conn *conn, enum ipc_outcome outcome, int error, int fd)
{
	struct conn_asker *asker = conn->asker;
	conn_asker_forget(asker);
	asker->outcome(asker, outcome, error, conn->reason, fd);
}

/* When nobody waits any more, the rendezvous goes on, and the connection is closed in good order
 * after it (GEN-10). */
void conn_asker_forget(struct conn_asker *asker)
{
	if (asker->conn)
		asker->conn->asker = NULL;
	asker->conn = NULL;
}

/* ---- bytes ---- */

/* See to it after others had their turn. */
static void mark_later(struct conn *conn)
{
	if (conn->phase != PHASE_DEAD)
		batch_later(conn->conns->batch, &conn->later);
}

static void ask_for_room(struct conn *conn, bool full)
{
	if (full)
		poller_modify(conn->conns->poller, &conn->pair_watch, POLLER_INPUT | EPOLLOUT);
}

/* Reset a connection over SMC-R. */
static void give_up(struct conn *conn, const char *why)
{
	conn->conns->counts.resets++;
	conn_tell(conn, CONNS_WAS_RESET, why);
	conn->phase = PHASE_CLOSING;
	conn->pump.conn = NULL;
	conn_stop_watching(conn);
	conn_unshare(conn);
	pair_reset(&conn->pair);
	if (conn->smc)
		smcr_conn_abort(conn->smc);
}

/* The program broke the protocol of shared memory (docs/data-path.md). */
static void violated(struct conn *conn)
{
	conns_warn_of_user(
		conn->conns, conn->cred.uid, "broken memory",
		"a program of user %u (pid %d) has broken its connection's shared memory: reset",
		(unsigned int)conn->cred.uid, (int)conn->cred.pid);
	give_up(conn, "its program has broken the memory that it shares");
}

/* How many bytes of the program have left: for the engine, or for the peer's TCP. */
static uint64_t bytes_sent(const struct conn *conn)
{
	return conn->phase == PHASE_RELAY ? relay_sent(&conn->relay) : conn->pump.tx_bytes;
}

/* The program has closed, and not all that it wrote is sent. As long as bytes leave now and then,
 * that goes on. */
static void await_last_bytes(struct conn *conn)
{
	const uint64_t sent = bytes_sent(conn);
	if (conn->close_deadline_ms && conn->sent == sent)
		return;
	conn->sent = sent;
	conn->close_deadline_ms = conns_now_ms() + conn->conns->config.limits.close_wait_ms;
	conns_need_sweep(conn->conns);
}

static void run_pump(struct conn *conn)
{
	struct shared *shared = conn->pump.shared;
	if (shared)
		shared->now = conns_now_us();
	early_before_bytes(conn);
	bool more = pump_run(&conn->pump);
	if (conn->pump.violated) {
		violated(conn);
		return;
	}
	if (conn->pump.closing) {
		conn_unshare(conn);
		conn->phase = PHASE_CLOSING;
		poller_forget(conn->conns->poller, &conn->pair_watch);
		conn_stop_watching(conn);
		pair_finish(&conn->pair); /* the program has got all that it gets */
		return;
	}
	ask_for_room(conn, conn->pump.rx_full || (shared && shared->wants_empty));
	if (conn->pump.closed)
		await_last_bytes(conn);
	if (shared)
		lookout_update(conn);
	if (more)
		mark_later(conn);
}

/* TCP was reset, and the program has not read all that came before. */
static void await_reader(struct conn *conn)
{
	conn->reset_deadline_ms = 0;
	if (!relay_reset_waits(&conn->relay))
		return;
	conn->reset_deadline_ms = conns_now_ms() + RESET_WAIT_MS;
	conns_need_sweep(conn->conns);
}

static void run_relay(struct conn *conn)
{
	early_before_bytes(conn);
	switch (relay_run(&conn->relay)) {
	case RELAY_WAIT: ask_for_room(conn, conn->relay.rx_full); break;
	case RELAY_MORE: mark_later(conn); break;
	case RELAY_FINISHED: conn_end_relay(conn, true); return;
	case RELAY_ABORTED:
	case RELAY_RESET: conn_end_relay(conn, false); return;
	}
	if (conn->relay.closed)
		await_last_bytes(conn);
	await_reader(conn);
}

/* A program that reads may take its time. One that waits for its write() to end does not read, and
 * TCP would end that write() at once. */
static bool check_reader(struct conn *conn, uint64_t now_ms)
{
	if (conn->reset_deadline_ms <= now_ms && relay_writer_waits(&conn->relay)) {
		conn_end_relay(conn, false);
		return false;
	}
	return true;
}

bool conn_check_deadline(struct conn *conn, uint64_t now_ms)
{
	if (conn->phase == PHASE_RELAY && conn->reset_deadline_ms)
		return check_reader(conn, now_ms);
	if (!conn->close_deadline_ms)
		return false;
	if (conn->phase != PHASE_SMCR && conn->phase != PHASE_RELAY)
		return false;
	await_last_bytes(conn);
	if (conn->close_deadline_ms > now_ms)
		return true;
	if (conn->phase == PHASE_RELAY)
		conn_end_relay(conn, false);
	else
		give_up(conn,
			"its program has closed, and the peer took nothing more for too long");
	return false;
}

/* ---- the daemon stops, options change ---- */

void conn_stop(struct conn *conn)
{
	/* Once the daemon has ended nobody relays for a program that has a pair end. A peer that
	 * was told to go on over TCP would be reset in the middle. A peer that is reset now can
	 * connect again. */
	if (conn->phase == PHASE_RENDEZVOUS && conn->smc && conn->pair.fd >= 0)
		smcr_conn_tcp_event(conn->smc, SMCR_TCP_RESET);
	else if (conn->phase == PHASE_RENDEZVOUS && conn->smc)
		smcr_conn_give_up(conn->smc, SMCR_REASON_SHUTTING_DOWN);
	else if (conn->phase == PHASE_CONNECTING || conn->phase == PHASE_AGAIN ||
		 conn->phase == PHASE_DECLINING)
		conn_fail(conn, ECONNRESET, SMCR_REASON_SHUTTING_DOWN);
	else if (conn->phase == PHASE_RELAY)
		conn_end_relay(conn, false);
}

void conn_options_changed(struct conn *conn)
{
	bool reset_wanted = conn->linger.l_onoff && conn->linger.l_linger == 0;
	conn->pump.linger_reset = conn->relay.linger_reset = reset_wanted;
	if (conn->phase != PHASE_SMCR || !conn->smc || conn->tcp < 0)
		return;
	uint64_t idle = sockopt_keepalive(conn->tcp, &conn->keepalive);
	if (idle)
		sockopt_limit_keepalive(conn->tcp, conn->conns->config.limits.keepalive_min_s,
					&conn->keepalive); /* TEST-7 */
	smcr_conn_keepalive(conn->smc, idle);              /* TEST-3 */
}

/* ---- its life ---- */

static void rendezvous_failed(struct conn *conn)
{
	again_or_fail(conn, conn->error, conn->reason);
}

static void declined(struct conn *conn)
{
	if (conn->path_dead)
		conn_note_failure(conn, CONNS_PATH_DEAD);
	conn_update_stream(conn);
	conn_fall_back(conn, conn->reason);
}

static void abandon_if_closed(struct conn *conn)
{
	if (conn->pump.closed)
		conn_abandon(conn);
}

/* What is done at an event in a phase. An event without an entry is ignored: the engine has let go
 * of the connection, or something else moves the connection on (the end of the TCP handshake, the
 * kernel taking our Decline, the function that ends the connection).
 */
static void (*const life[NUM_PHASES][NUM_CONN_EVENTS])(struct conn *conn) = {
	[PHASE_CONNECTING] = { [CONN_READY] = abandon_if_closed },
	[PHASE_RENDEZVOUS] = { [CONN_ESTABLISHED] = conn_established,
			       [CONN_FALLBACK] = declined,
			       [CONN_FAILED] = rendezvous_failed,
			       [CONN_READY] = conn_update_stream },
	[PHASE_SMCR] = { [CONN_RESET] = conn_reset,
			 [CONN_CLOSED] = conn_closed,
			 [CONN_READY] = run_pump },
	[PHASE_RELAY] = { [CONN_READY] = run_relay },
	[PHASE_CLOSING] = { [CONN_RESET] = conn_reset, [CONN_CLOSED] = conn_closed },
};

static void live(struct conn *conn, enum conn_event event)
{
	void (*step)(struct conn * conn) = life[conn->phase][event];
	if (step)
		step(conn);
}

/* Carry out what was told while the engine could not be called, in order; then move bytes. */
static void on_work(struct task *task)
{
	struct conn *conn = container_of(task, struct conn, work);
	const struct told told = conn->told;
	conn->told.count = 0;
	for (unsigned int i = 0; i < told.count; i++)
		live(conn, told.events[i]);
	live(conn, CONN_READY);
	watchers_settled(conn);
}

static void on_later(struct task *task)
{
	conn_mark(container_of(task, struct conn, later));
}

void conn_mark(struct conn *conn)
{
	if (conn->phase != PHASE_DEAD)
		batch_now(conn->conns->batch, &conn->work);
}

/* The engine tells each event once, so there is always a place. */
static void note(struct told *told, enum conn_event event)
{
	if (told->count < TOLD_MAX)
		told->events[told->count++] = event;
}

void conn_note(struct conn *conn, enum conn_event event)
{
	note(&conn->told, event);
	conn_mark(conn);
}

void conn_put_off(struct conn *conn, enum conn_event event)
{
	note(&conn->told, event);
	mark_later(conn);
}

enum ipc_conn_state conn_state(const struct conn *conn)
{
	switch (conn->phase) {
	case PHASE_CONNECTING: return IPC_CONN_CONNECTING;
	case PHASE_RENDEZVOUS:
	case PHASE_DECLINING:
	case PHASE_AGAIN: return conn->opened_early ? IPC_CONN_OPEN : IPC_CONN_CONNECTING;
	case PHASE_SMCR: return IPC_CONN_SMCR;
	case PHASE_RELAY: return IPC_CONN_RELAY;
	case PHASE_CLOSING:
		/* The program has shut down both directions: the connection exists until the peer
		 * ends it, as with TCP.
		 */
		if (conn->tcp >= 0)
			return IPC_CONN_SMCR;
		break;
	case PHASE_DEAD: break;
	}
	return IPC_CONN_CLOSED;
}
