/* SPDX-License-Identifier: MIT */
/*
 * RDMA connections that others may try to harm: a server that keeps memory of each client, and
 * clients who look at every byte of theirs.
 *
 *   rdma_keeper serve RNIC ADDRESS PORT          until SIGTERM; then it prints "served N"
 *   rdma_keeper keep RNIC ADDRESS PORT SECONDS   one connection, in use all the time
 *   rdma_keeper visit RNIC ADDRESS PORT SECONDS  connections that come and go
 *
 * RNIC as smcrd names it, ADDRESS and PORT are the server's. In each round a client writes numbers
 * into its part of the server's memory, reads them back, and sends a message that ends its token.
 * The server answers with the next token, and with how many of the bytes are not the client's. One
 * half of the part has a token that stays, and is written in the first round only.
 *
 * A client prints "knows RKEY START ID PEER_ID QPN" when it is connected: the token that stays, and
 * what the connection manager calls the connection. Its last line is "rounds N failed N longest MS
 * late MS": the longest round, and by how much a timer of this process was late at most. Exits with
 * 0, or prints what is wrong and exits with 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/cm/cm.h"
#include "daemon/rnic/alarm.h"

#define HALF      (16u << 10) /* of a client's part: with a token that stays, with one that ends */
#define PARTS     256         /* clients at a time, with those that do not answer */
#define DEPTH     16
#define READS     4
#define RETRY_MS  4000
#define PATIENCE  20000000 /* microseconds, for a round */
#define TICK_MS   10
#define PACE_US   2000 /* between rounds: others need the processor, too */
#define CONNECT_S 10
#define WHY_US    500000

/** What a client asks for: these bytes are to be in its part. */
struct question {
	uint32_t number; /* 0: none yet */
};

struct answer {
	uint64_t start, lasting_start;
	uint32_t rkey, lasting_rkey;
	uint32_t wrong; /* bytes of the part that are not the client's */
};

static struct event_base *base;
static struct rnic *rnic;
static struct rnic_pd *pd;
static struct cm *cm;

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("error: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	exit(1);
}

static void must(int r, const char *what)
{
	if (r)
		die("cannot %s: %s", what, strerror(-r));
}

/* The bytes that round `number` writes. Round 0 is for the half that stays. */
static void fill(uint8_t *at, uint32_t number)
{
	for (uint32_t i = 0; i < HALF; i++)
		at[i] = (uint8_t)(number * 7 + i * 13 + (i >> 8));
}

static uint32_t count_wrong(const uint8_t *at, uint32_t number)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < HALF; i++)
		n += at[i] != (uint8_t)(number * 7 + i * 13 + (i >> 8));
	return n;
}

static int post(struct rnic_qp *qp, struct rnic_send_wr wr)
{
	wr.flags |= RNIC_SEND_SIGNALED;
	return rnic_post_send(qp, &wr, 1);
}

/* ---- the server */

struct client {
	struct rnic_qp *qp;
	struct cm_conn *conn;
	struct rnic_window *lasting, *window;
	uint8_t *part;
	bool connected;
	bool served, asked; /* it has sent a message; one that is not answered */
	struct question question;
	uint64_t since;
};

static struct client clients[PARTS];
static uint8_t *memory;
static struct rnic_mr *region;
static uint64_t served;

static void client_free(struct client *client)
{
	cm_conn_free(client->conn);
	rnic_qp_destroy(client->qp);
	rnic_window_free(client->lasting);
	rnic_window_free(client->window);
	*client = (struct client){ .part = client->part };
}

static int bind_half(struct client *client, struct rnic_window *window, unsigned int half)
{
	return rnic_window_bind(window, client->qp, region, client->part + (size_t)half * HALF,
				HALF, RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_WRITE);
}

/* @return whether the client may go on */
static bool answer(struct client *client)
{
	struct answer answer = { 0 };
	client->asked = false;
	if (!client->served && bind_half(client, client->lasting, 0))
		return false;
	served += !client->served;
	client->served = true;
	if (client->question.number)
		answer.wrong = count_wrong(client->part, 0) +
			       count_wrong(client->part + HALF, client->question.number);
	if (bind_half(client, client->window, 1))
		return false; /* it has not ended the token */
	answer.start = rnic_window_vaddr(client->window);
	answer.rkey = rnic_window_rkey(client->window);
	answer.lasting_start = rnic_window_vaddr(client->lasting);
	answer.lasting_rkey = rnic_window_rkey(client->lasting);
	return post(client->qp,
		    (struct rnic_send_wr){ .opcode = RNIC_WR_SEND,
					   .flags = RNIC_SEND_INLINE,
					   .num_sge = 1,
					   .sge = { { &answer, sizeof(answer), 0 } } }) == 0;
}

/* A message may come before the connection is complete. Then the answer waits. */
static bool take(struct client *client, const struct rnic_wc *wc)
{
	if (client->asked || wc->length != sizeof(client->question))
		return false;
	client->asked = true;
	memcpy(&client->question, wc->data, sizeof(client->question));
	if (client->connected)
		return answer(client);
	cm_conn_heard(client->conn);
	return true;
}

static void on_served(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct client *client = ctx;
	(void)qp;
	for (size_t i = 0; i < n; i++) {
		if (wc[i].status == RNIC_WC_SUCCESS && (!wc[i].is_recv || take(client, &wc[i])))
			continue;
		client_free(client);
		return;
	}
}

static void on_client(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct client *client = ctx;
	(void)conn;
	client->connected = event->type == CM_CONNECTED;
	if (!client->connected || (client->asked && !answer(client)))
		client_free(client);
}

/* A part that is free, or that of whoever has asked for the longest time and does not go on. */
static struct client *find_part(void)
{
	struct client *oldest = NULL;
	for (size_t i = 0; i < PARTS; i++) {
		struct client *client = &clients[i];
		if (!client->qp)
			return client;
		if (!client->connected && (!oldest || client->since < oldest->since))
			oldest = client;
	}
	if (oldest)
		client_free(oldest);
	return oldest;
}

static void on_request(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	const struct cm_offer offer = { .reads_answered = READS, .rnr_retry = 7 };
	char error[CM_ERROR_LEN];
	(void)ctx;
	if (event->type != CM_REQUEST) {
		cm_conn_free(conn);
		return;
	}
	struct client *client = find_part();
	if (!client) {
		cm_reject(conn, NULL, 0);
		return;
	}
	const struct rnic_qp_params params = { .send_depth = DEPTH,
					       .recv_depth = DEPTH,
					       .recv_size = 64,
					       .on_completion = on_served,
					       .ctx = client };
	must(rnic_qp_create(pd, &params, &client->qp), "make a queue pair");
	must(rnic_window_new(pd, &client->lasting), "make a window");
	must(rnic_window_new(pd, &client->window), "make a window");
	client->conn = conn;
	client->since = alarm_now();
	memset(client->part, 0, 2 * (size_t)HALF);
	if (cm_accept(conn, client->qp, &offer, RETRY_MS, on_client, client, error))
		client_free(client);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	event_base_loopbreak(base);
}

static void serve(const struct cm_addr *addr)
{
	const unsigned int access =
		RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ;
	struct cm_listener *listener;
	char error[CM_ERROR_LEN];
	struct event *ends = evsignal_new(base, SIGTERM, on_signal, NULL);
	event_add(ends, NULL);
	memory = calloc(PARTS, 2 * (size_t)HALF);
	if (!memory)
		die("out of memory");
	must(rnic_mr_register(pd, memory, PARTS * 2 * (size_t)HALF, access, &region),
	     "register memory");
	for (size_t i = 0; i < PARTS; i++)
		clients[i].part = memory + i * 2 * HALF;
	if (cm_listen(cm, addr, on_request, NULL, &listener, error))
		die("%s", error);
	printf("listening\n");
	fflush(stdout);
	event_base_dispatch(base);
	for (size_t i = 0; i < PARTS; i++)
		if (clients[i].qp)
			client_free(&clients[i]);
	cm_listener_free(listener);
	rnic_mr_deregister(region);
	free(memory);
	event_free(ends);
	printf("served %" PRIu64 "\n", served);
}

/* ---- a client */

static struct {
	struct rnic_qp *qp;
	struct cm_conn *conn;
	uint8_t *mem; /* HALF to write from, HALF to read to */
	struct rnic_mr *mr;
	bool connected, ended, answered;
	struct answer answer;
	unsigned int sends; /* under way */
	const char *why;    /* it has ended */
	uint16_t reason;    /* of a refusal */
	enum rnic_wc_status status;
	uint32_t number;
} own;

static uint64_t rounds, failed, longest, late;
static bool over;

static void on_own(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	for (size_t i = 0; i < n; i++) {
		if (!wc[i].is_recv)
			own.sends--;
		if (wc[i].status != RNIC_WC_SUCCESS) {
			if (!own.ended)
				own.status = wc[i].status;
			own.ended = true;
		} else if (wc[i].is_recv) {
			if (wc[i].length != sizeof(own.answer))
				die("a message of %u bytes", wc[i].length);
			memcpy(&own.answer, wc[i].data, sizeof(own.answer));
			own.answered = true;
		}
	}
}

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	(void)ctx;
	(void)conn;
	own.connected |= event->type == CM_CONNECTED;
	if (event->type == CM_ENDED) {
		own.ended = true;
		own.why = cm_end_name(event->end);
		own.reason = event->reject_reason;
	}
}

/* A timer that is late tells how long this process could not go on. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	static uint64_t before;
	uint64_t now = alarm_now();
	(void)fd;
	(void)what;
	(void)arg;
	if (before && now - before > TICK_MS * 1000)
		late = MAX(late, now - before - TICK_MS * 1000);
	before = now;
}

/* Run the loop until the condition holds. @return false: the connection has ended, or takes too
 * long */
static bool wait_for(bool (*done)(void))
{
	const uint64_t end = alarm_now() + PATIENCE;
	while (!own.ended && !done() && alarm_now() < end)
		event_base_loop(base, EVLOOP_ONCE);
	/* The queue pair may tell of the end before the connection manager does, who knows why. */
	const uint64_t why_end = alarm_now() + WHY_US;
	while (own.ended && !own.why && alarm_now() < why_end)
		event_base_loop(base, EVLOOP_ONCE);
	return !own.ended && done();
}

static bool is_connected(void)
{
	return own.connected;
}

static bool is_idle(void)
{
	return own.sends == 0;
}

static bool is_answered(void)
{
	return own.answered && own.sends == 0;
}

static bool client_open(const struct cm_addr *server)
{
	const struct rnic_qp_params params = {
		.send_depth = DEPTH, .recv_depth = DEPTH, .recv_size = 64, .on_completion = on_own
	};
	struct cm_connect_params connect = { .peer = *server,
					     .offer = { .reads_asked = READS, .rnr_retry = 7 },
					     .timeout_ms = CONNECT_S * 1000,
					     .retry_ms = RETRY_MS,
					     .fn = on_event };
	char error[CM_ERROR_LEN];
	own.connected = own.ended = own.answered = false;
	own.why = NULL;
	own.sends = 0;
	own.number = 0;
	own.status = RNIC_WC_SUCCESS;
	must(rnic_qp_create(pd, &params, &own.qp), "make a queue pair");
	connect.qp = own.qp;
	if (cm_resolve(cm, server, &connect.rnic, &connect.local, error) ||
	    cm_connect(cm, &connect, &own.conn, error))
		die("%s", error);
	return wait_for(is_connected);
}

static void client_close(void)
{
	cm_conn_free(own.conn);
	rnic_qp_destroy(own.qp);
}

static struct rnic_sge half(unsigned int i)
{
	return (struct rnic_sge){ own.mem + (size_t)i * HALF, HALF, rnic_mr_lkey(own.mr) };
}

static bool request(enum rnic_opcode opcode, struct rnic_sge sge, uint64_t start, uint32_t rkey,
		    unsigned int flags)
{
	own.sends++;
	return post(own.qp, (struct rnic_send_wr){ .opcode = opcode,
						   .flags = flags,
						   .num_sge = 1,
						   .sge = { sge },
						   .remote_addr = start,
						   .rkey = rkey }) == 0;
}

/* Send a message, and wait for the answer. */
static bool ask(enum rnic_opcode opcode)
{
	struct question question = { own.number };
	own.answered = false;
	return request(opcode, (struct rnic_sge){ &question, sizeof(question), 0 }, 0,
		       own.answer.rkey, RNIC_SEND_INLINE) &&
	       wait_for(is_answered);
}

/* Write bytes, and read them back. */
static bool write_and_read(uint32_t number, uint64_t start, uint32_t rkey, bool write)
{
	fill(own.mem, number);
	memset(own.mem + HALF, 0, HALF);
	if ((write && !request(RNIC_WR_RDMA_WRITE, half(0), start, rkey, 0)) ||
	    !request(RNIC_WR_RDMA_READ, half(1), start, rkey, 0) || !wait_for(is_idle))
		return false;
	uint32_t wrong = count_wrong(own.mem + HALF, number);
	if (wrong)
		die("%u bytes that were read are not those that were written", wrong);
	return true;
}

static bool client_round(void)
{
	const bool first = own.number == 0;
	const uint64_t began = alarm_now();
	if (first && !ask(RNIC_WR_SEND))
		return false;
	own.number++;
	if (!write_and_read(0, own.answer.lasting_start, own.answer.lasting_rkey, first) ||
	    !write_and_read(own.number, own.answer.start, own.answer.rkey, true) ||
	    !ask(RNIC_WR_SEND_INVALIDATE))
		return false;
	if (own.answer.wrong)
		die("%u bytes of the server's memory are not those that were written",
		    own.answer.wrong);
	longest = MAX(longest, alarm_now() - began);
	rounds++;
	return true;
}

static bool tell_view(void *arg, const struct cm_conn_view *view)
{
	(void)arg;
	printf("knows %u %" PRIu64 " %u %u %u\n", own.answer.lasting_rkey, own.answer.lasting_start,
	       view->local_id, view->peer_id, view->peer_qpn);
	fflush(stdout);
	return false;
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	over = true;
}

/* Leave the processor to others. */
static void pause_a_little(void)
{
	const struct timeval pace = { .tv_usec = PACE_US };
	event_base_loopexit(base, &pace);
	event_base_dispatch(base);
}

static void keep(const struct cm_addr *server)
{
	if (!client_open(server) || !client_round())
		die("no connection: %s", own.why ? own.why : rnic_wc_status_text(own.status));
	cm_each_conn(cm, tell_view, NULL);
	while (!over) {
		if (!client_round())
			die("the connection has ended: %s; %s", own.why ? own.why : "no answer",
			    rnic_wc_status_text(own.status));
		pause_a_little();
	}
	client_close();
}

static void visit(const struct cm_addr *server)
{
	while (!over) {
		if (!client_open(server) || !client_round()) {
			failed++;
			printf("not made: %s, reason %u; %s\n", own.why ? own.why : "no answer",
			       own.reason, rnic_wc_status_text(own.status));
		}
		client_close();
		pause_a_little();
	}
}

static void be_client(const struct cm_addr *server, const char *seconds,
		      void (*work)(const struct cm_addr *))
{
	const struct timeval limit = { .tv_sec = atoi(seconds) }, tick = { 0, TICK_MS * 1000 };
	struct event *end = evtimer_new(base, on_over, NULL);
	struct event *ticks = event_new(base, -1, EV_PERSIST, on_tick, NULL);
	event_add(end, &limit);
	event_add(ticks, &tick);
	own.mem = malloc(2 * (size_t)HALF);
	if (!own.mem)
		die("out of memory");
	must(rnic_mr_register(pd, own.mem, 2 * (size_t)HALF, RNIC_ACCESS_LOCAL_WRITE, &own.mr),
	     "register memory");
	work(server);
	rnic_mr_deregister(own.mr);
	free(own.mem);
	event_free(end);
	event_free(ticks);
	printf("rounds %" PRIu64 " failed %" PRIu64 " longest %" PRIu64 " late %" PRIu64 "\n",
	       rounds, failed, longest / 1000, late / 1000);
}

/* ---- */

static void on_rnic(void *ctx, struct rnic *changed, const struct rnic_event *event)
{
	(void)ctx;
	(void)event;
	if (cm)
		cm_rnic_changed(cm, changed);
}

int main(int argc, char **argv)
{
	char error[MAX(RNIC_ERROR_LEN, CM_ERROR_LEN)];
	const bool serves = argc == 5 && !strcmp(argv[1], "serve");
	const bool keeps = argc == 6 && !strcmp(argv[1], "keep");
	if (!serves && !keeps && !(argc == 6 && !strcmp(argv[1], "visit"))) {
		fprintf(stderr,
			"usage: rdma_keeper serve|keep|visit RNIC ADDRESS PORT [SECONDS]\n");
		return 2;
	}
	struct cm_addr addr = { .family = AF_INET, .port = (uint16_t)atoi(argv[4]) };
	if (inet_pton(AF_INET, argv[3], addr.addr) != 1)
		die("%s is no IPv4 address", argv[3]);
	base = event_base_new();
	const struct rnic_open_params open = { .base = base, .on_event = on_rnic };
	const struct cm_params params = { .base = base };
	if (rnic_open(argv[2], &open, &rnic, error))
		die("%s", error);
	must(rnic_pd_alloc(rnic, &pd), "allocate a protection domain");
	must(cm_new(&params, &cm), "start a connection manager");
	if (cm_add_rnic(cm, rnic, error))
		die("%s", error);
	if (serves)
		serve(&addr);
	else
		be_client(&addr, argv[5], keeps ? keep : visit);
	cm_remove_rnic(cm, rnic);
	cm_free(cm);
	rnic_pd_free(pd);
	rnic_close(rnic);
	event_base_free(base);
	return 0;
}
