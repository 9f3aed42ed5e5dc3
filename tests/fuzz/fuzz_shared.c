/* SPDX-License-Identifier: MIT */
/*
 * The daemon's side of a connection that shares its memory (docs/data-path.md). The program writes
 * anything anywhere into its pages between any two accesses of the daemon, and also uses the pair
 * and the memory rightly or wrongly. Whatever it does, the engine must never be told of bytes that
 * are not there, each turn must end soon, and the connection may end only by the program's fault.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/meddle.h"

#include "daemon/conns/shared.c" /* with the atomic operations of meddle.h */
#include "tests/lib/scripted_engine.h"

#pragma GCC diagnostic ignored "-Wunused-function"

/* Most accesses to the page in one turn: four for each page of the element, when each is forwarded
 * by itself, and some for what the program has changed meanwhile. */
#define ACCESSES_MOST 2000
#define TURNS_MOST    64

/* The owner of the pump, in place of daemon/conns/conn.c. */
static struct owner {
	struct smcr_conn *smc;
	struct pair pair;
	struct pump pump;
	struct shared shared;
	int program;     /* -1: closed */
	uint8_t *memory; /* the program's mapping */
	bool meddled, over;
} owner;

static void meddle_now(const struct record *record)
{
	owner.meddled = true;
	if (record->who < 0x80)
		meddle_with_word((struct path_page *)owner.memory, record, RING);
	else /* change a byte of the page or the rings */
		memset(owner.memory + record->large % (PATH_PAGE_SIZE + 2 * RING), record->who, 1);
}

/* ---- what the engine calls ---- */

void conns_clc_send(void *user, const uint8_t *msg, size_t len)
{
	(void)user;
	(void)msg;
	(void)len;
}

void conns_event(void *user, const struct smcr_conn_event *event)
{
	(void)user;
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED: break;
	case SMCR_CONN_URGENT:
	case SMCR_CONN_READABLE: pump_note_readable(&owner.pump); break;
	case SMCR_CONN_WRITABLE: pump_note_writable(&owner.pump); break;
	case SMCR_CONN_RESET:
		pump_last(&owner.pump, event->rx_ended);
		owner.over = true;
		break;
	case SMCR_CONN_FALLBACK:
	case SMCR_CONN_FAILED:
	case SMCR_CONN_CLOSED: owner.smc = owner.pump.conn = NULL; break;
	default: break;
	}
}

void conns_unshare(void *user)
{
	(void)user;
	shared_end(&owner.shared);
}

/* ---- the daemon ---- */

static void end(void)
{
	owner.over = true;
	owner.pump.conn = NULL;
	owner.pump.shared = NULL;
	shared_close(&owner.shared);
}

static void turn(void)
{
	int turns = 0;
	bool more = true;
	for (; more && !owner.over && owner.pump.conn && turns < TURNS_MOST; turns++) {
		meddlers.accesses = 0;
		more = pump_run(&owner.pump);
		must(meddlers.accesses < ACCESSES_MOST);
		if (owner.pump.violated) {
			must(owner.meddled);
			end();
			pair_reset(&owner.pair);
			if (owner.smc)
				smcr_conn_abort(owner.smc);
		} else if (owner.pump.closing) {
			end();
			pair_finish(&owner.pair);
		}
	}
}

/* Poll the page as daemon/conns/lookout.c does. */
static void look(void)
{
	if (owner.over || !owner.pump.conn)
		return;
	if (shared_has_news(&owner.shared, owner.shared.now))
		turn();
	else if (!shared_is_timed(&owner.shared))
		shared_stop_polling(&owner.shared);
}

static void hear(uint32_t events)
{
	if (owner.over)
		return;
	pump_note(&owner.pump, events);
	turn();
}

/* ---- the program ---- */

static void write_pair(const struct record *record, int flags)
{
	static const uint8_t bytes[70000];
	size_t len = 1 + record->large % sizeof(bytes);
	if (owner.program >= 0 && send(owner.program, bytes, flags & MSG_OOB ? 1 : len,
				       MSG_DONTWAIT | MSG_NOSIGNAL | flags) > 0)
		hear(EPOLLIN);
}

static void read_pair(const struct record *record)
{
	static uint8_t bytes[70000];
	if (owner.program >= 0 &&
	    recv(owner.program, bytes, 1 + record->large % sizeof(bytes), MSG_DONTWAIT) > 0)
		hear(EPOLLOUT);
}

static void close_program(void)
{
	if (owner.program < 0)
		return;
	close(owner.program);
	owner.program = -1;
	hear(EPOLLIN | EPOLLRDHUP | EPOLLHUP);
}

/* The program takes bytes as the protocol says, as far as the page allows that. */
static void take_memory(const struct record *record)
{
	struct path_page *page = (struct path_page *)owner.memory;
	uint64_t taken;
	path_reader_begin(page);
	if (path_reader_look(page, &taken)) {
		uint32_t n = path_reader_available(page, RING, taken);
		if (record->small && n > record->small)
			n = record->small;
		path_reader_take(page, taken, n);
	}
	if (record->large % 4) /* else the reader dies in the middle */
		path_reader_end(page);
}

static void write_memory(const struct record *record)
{
	struct path_page *page = (struct path_page *)owner.memory;
	uint64_t at;
	if (!path_writer_lock(page))
		return;
	uint32_t n = path_writer_room(page, RING, &at);
	if (record->small && n > record->small)
		n = record->small;
	path_writer_commit(page, at, n);
	if (record->large % 4)
		path_writer_unlock(page);
}

/* ---- the peer ---- */

static void peer_writes(const struct record *record)
{
	struct smcr_conn *conn = owner.smc;
	if (!conn || conn->eof || conn->urgent)
		return;
	uint64_t room = RING - (conn->rx_head - conn->rx_tail);
	conn->rx_head += record->large % (room + 1);
	fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_READABLE });
	turn();
}

static void peer_ends(const struct record *record)
{
	struct smcr_conn *conn = owner.smc;
	if (!conn)
		return;
	if (record->large % 4 == 0) {
		smcr_conn_tcp_event(conn, SMCR_TCP_RESET);
		return;
	}
	conn->eof = true;
	fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_READABLE });
	turn();
}

/* Has the daemon ended the path before its memory was given away, and not taken that back? A
 * program may write over the marks. */
static void check_end(void)
{
	const struct path_page *page = (const struct path_page *)owner.memory;
	if (script->emptied == 0 || owner.meddled)
		return;
	must(__c11_atomic_load(&page->taken, __ATOMIC_SEQ_CST) & PATH_MARK);
	must(__c11_atomic_load(&page->committed, __ATOMIC_SEQ_CST) & PATH_MARK);
}

/* ---- */

static void step(const struct record *record)
{
	switch (record->what % 16) {
	case 0: turn(); break;
	case 1: write_pair(record, 0); break;
	case 2: write_pair(record, record->small % 4 ? 0 : MSG_OOB); break;
	case 3: read_pair(record); break;
	case 4:
	case 5: take_memory(record); break;
	case 6:
	case 7: write_memory(record); break;
	case 8:
	case 9: peer_writes(record); break;
	case 10: /* time passes, up to 65 ms */
		owner.shared.now += record->small;
		look();
		break;
	case 11: look(); break;
	case 12:
		script->silent = record->small % 2;
		if (owner.smc && owner.pump.conn)
			fake_echo(owner.smc);
		turn();
		break;
	case 13:
		if (!owner.over)
			shared_poll(&owner.shared);
		break;
	case 14:
		if (record->small % 4 == 0)
			close_program();
		else if (owner.program >= 0 && !shutdown(owner.program, (int)record->large % 3))
			hear(EPOLLIN | EPOLLRDHUP);
		break;
	case 15: peer_ends(record); break;
	}
	check_end();
}

static void begin(void)
{
	static const struct ipc_pair_name name = { .local.sa.sa_family = AF_INET,
						   .peer.sa.sa_family = AF_INET };
	struct ipc_pair_name mine = name;
	struct smcr_conn_params params = { .user = &owner };
	static uint64_t number;
	owner = (struct owner){ .shared = { .fd = -1 } };
	script->outcome = OUTCOME_ESTABLISHED;
	mine.id = (uint64_t)getpid() << 32 | number++;
	must(pair_open(&mine, -1, &owner.pair, &owner.program) == 0);
	must(smcr_conn_start(NULL, &params, &owner.smc) == 0);
	owner.pump = (struct pump){ .pair = &owner.pair, .conn = owner.smc };
	must(shared_open(&owner.shared, owner.smc, 1000) == 0);
	owner.pump.shared = &owner.shared;
	pair_narrow(&owner.pair, owner.program);
	owner.memory = mmap(NULL, owner.shared.layout.length, PROT_READ | PROT_WRITE, MAP_SHARED,
			    owner.shared.fd, 0);
	must(owner.memory != MAP_FAILED);
}

static void finish(void)
{
	size_t length = owner.shared.layout.length;
	end();
	if (owner.smc)
		smcr_conn_abort(owner.smc);
	pair_finish(&owner.pair);
	if (owner.program >= 0)
		close(owner.program);
	munmap(owner.memory, length);
	must(!fake_conns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct script told;
	script = &told;
	told = (struct script){ 0 };
	begin();
	meddle_with_steps(data, size, step);
	finish();
	return 0;
}
