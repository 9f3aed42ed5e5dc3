/* SPDX-License-Identifier: MIT */
/* Connections of verbs devices: what the kernel's rdma_cm tells, and what it is asked. There is no
 * device: the test has its own functions of librdmacm, and an RNIC of its own. tests/interop has
 * the real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/cm/kernel.h"
#include "daemon/host/log.h"
#include "daemon/rnic/alarm.h"
#include "daemon/rnic/backend.h"
#include "tests/lib/tries.h"

#define PORT 445

/* ---- librdmacm */

static struct rdma_event_channel channel;
static struct rdma_cm_event waiting[8]; /* events that nobody has taken */
static size_t num_waiting;
static int num_ids; /* those that there are */
static unsigned int num_listening, rejected, disconnected, established, notified;
static int listen_errno, disconnect_errno; /* 0: that works */
static struct rdma_conn_param asked, accepted;
static struct ibv_device device = { .name = "fake0" }, other_device = { .name = "fake1" };
static struct ibv_context context = { .device = &device },
			  other_context = { .device = &other_device };

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* What measures coverage opens files too. */
int __wrap_open(const char *path, int flags, ...)
{
	if (!strcmp(path, "/dev/infiniband/rdma_cm"))
		return eventfd(0, EFD_CLOEXEC);
	return __real_open(path, flags, 0666);
}

/* Lines of the log. */
static unsigned int lines;
void __wrap_log_message(int priority, const char *format, ...);

void __wrap_log_message(int priority, const char *format, ...)
{
	assert_int_equal(priority, LOG_WARNING);
	assert_non_null(format);
	lines++;
}

/* How long the last alarm of a connection waits, in seconds; 0: none does. */
static unsigned int patience;
void __real_alarm_set(struct alarm *alarm, uint64_t at);
void __real_alarm_clear(struct alarm *alarm);
void __wrap_alarm_set(struct alarm *alarm, uint64_t at);
void __wrap_alarm_clear(struct alarm *alarm);

void __wrap_alarm_set(struct alarm *alarm, uint64_t at)
{
	const uint64_t now = alarm_now();
	patience = at > now ? (unsigned int)((at - now + 999999) / 1000000) : 1;
	__real_alarm_set(alarm, at);
}

void __wrap_alarm_clear(struct alarm *alarm)
{
	patience = 0;
	__real_alarm_clear(alarm);
}

static int result(int error)
{
	errno = error;
	return error ? -1 : 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	channel.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return &channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *gone)
{
	close(gone->fd);
}

int rdma_create_id(struct rdma_event_channel *of, struct rdma_cm_id **ret_id, void *ctx,
		   enum rdma_port_space ps)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));
	assert_non_null(id);
	assert_int_equal(ps, RDMA_PS_TCP);
	id->channel = of;
	id->context = ctx;
	*ret_id = id;
	__atomic_add_fetch(&num_ids, 1, __ATOMIC_SEQ_CST);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	__atomic_sub_fetch(&num_ids, 1, __ATOMIC_SEQ_CST);
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **ret_event)
{
	uint64_t count;
	(void)of;
	if (num_waiting == 0) {
		(void)!read(channel.fd, &count, sizeof(count));
		return result(EAGAIN);
	}
	struct rdma_cm_event *event = malloc(sizeof(*event));
	assert_non_null(event);
	*event = waiting[0];
	memmove(waiting, waiting + 1, --num_waiting * sizeof(waiting[0]));
	*ret_event = event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	memcpy(&id->route.addr.src_storage, addr, sizeof(struct sockaddr_in));
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	assert_int_equal(ntohs(id->route.addr.src_sin.sin_port), PORT);
	assert_true(backlog > 0);
	num_listening += listen_errno == 0;
	return result(listen_errno);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	assert_true(ms > 0);
	memcpy(&id->route.addr.src_storage, from, sizeof(struct sockaddr_in));
	memcpy(&id->route.addr.dst_storage, to, sizeof(struct sockaddr_in));
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)id;
	assert_true(ms > 0);
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	asked = *param;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	accepted = *param;
	return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	established++;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	(void)id;
	(void)private_data;
	(void)len;
	rejected++;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	disconnected++;
	return result(disconnect_errno);
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	assert_int_equal(event, IBV_EVENT_COMM_EST);
	notified++;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	*mask = 0;
	attr->dest_qp_num = 0x22;
	attr->rq_psn = 0xFF000111;
	attr->sq_psn = 0xFF000222;
	attr->path_mtu = IBV_MTU_1024;
	attr->rnr_retry = 6;
	return 0;
}

/* ---- the RNIC */

static struct rnic_qp_peer qp_peer;
static struct rnic_qp_send_params qp_send;
static unsigned int connects, errors;
static int start_error;

static int qp_connect(struct rnic_qp *qp, const struct rnic_qp_peer *peer)
{
	(void)qp;
	qp_peer = *peer;
	connects++;
	return 0;
}

static int qp_start(struct rnic_qp *qp, const struct rnic_qp_send_params *params)
{
	(void)qp;
	qp_send = *params;
	return start_error;
}

static void qp_error(struct rnic_qp *qp)
{
	(void)qp;
	errors++;
}

static const struct rnic_backend backend = { .qp_connect = qp_connect,
					     .qp_start = qp_start,
					     .qp_error = qp_error };
static struct rnic rnic;
static struct rnic_qp qp = { .rnic = &rnic, .qpn = 0x777 };

/* ---- the user */

static struct event_base *base;
static struct cm *cm;
static struct cm_listener *listener;
static struct cm_conn *conn;
static bool deny;
static unsigned int requests, connected, ended, told_refused;
static struct cm_event last;
static uint8_t told_data[CM_PRIVATE_MAX];

static const struct cm_addr own = { .family = AF_INET, .addr = { 10, 0, 0, 1 }, .port = PORT };
static const struct cm_addr peer = { .family = AF_INET, .addr = { 10, 0, 0, 9 }, .port = 4711 };

static void on_event(void *ctx, struct cm_conn *of, const struct cm_event *event)
{
	(void)ctx;
	conn = of;
	last = *event;
	memcpy(told_data, event->private_data, event->private_len);
	requests += event->type == CM_REQUEST;
	connected += event->type == CM_CONNECTED;
	ended += event->type == CM_ENDED;
}

static bool may_use(void *ctx, struct rnic *of, const struct cm_addr *local,
		    const struct cm_addr *with)
{
	(void)ctx;
	assert_ptr_equal(of, &rnic);
	assert_int_equal(local->addr[3], 1);
	assert_int_equal(with->addr[3], 9);
	return !deny;
}

static void told(void *ctx, const struct cm_told *what)
{
	(void)ctx;
	told_refused += what->what == CM_TOLD_REFUSED;
}

static void set_gid(size_t at, uint8_t last_byte)
{
	const uint8_t gid[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, last_byte };
	memcpy(rnic.info.gids[at].raw, gid, sizeof(gid));
	rnic.info.gids[at].type = RNIC_GID_ROCE_V2;
}

static int setup(void **state)
{
	const struct cm_params params = { .base = NULL };
	struct cm_params own_params = params;
	char error[CM_ERROR_LEN];
	(void)state;
	base = event_base_new();
	own_params.base = base;
	own_params.may_use = may_use;
	own_params.told = told;
	rnic = (struct rnic){ .backend = &backend,
			      .info = { .name = "verbs:fake0/1",
					.kind = RNIC_VERBS,
					.max_reads_answered = 16,
					.max_reads_asked = 16,
					.num_gids = 2 } };
	set_gid(0, 2);
	set_gid(1, 1);
	requests = connected = ended = told_refused = 0;
	rejected = disconnected = established = notified = connects = errors = lines = 0;
	num_listening = 0;
	listen_errno = disconnect_errno = start_error = 0;
	deny = false;
	conn = NULL;
	assert_int_equal(cm_new(&own_params, &cm), 0);
	assert_int_equal(cm_add_rnic(cm, &rnic, error), 0);
	assert_int_equal(cm_listen(cm, &own, on_event, NULL, &listener, error), 0);
	assert_int_equal(num_listening, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cm_conn_free(conn);
	cm_listener_free(listener);
	cm_free(cm);
	event_base_free(base);
	while (__atomic_load_n(&num_ids, __ATOMIC_SEQ_CST) > 0) /* the reaper's thread */
		usleep(100);
	return 0;
}

static void comes(const struct rdma_cm_event *event)
{
	const uint64_t one = 1;
	waiting[num_waiting++] = *event;
	assert_int_equal(write(channel.fd, &one, sizeof(one)), sizeof(one));
}

static void run(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_base_loop(base, EVLOOP_NONBLOCK);
}

static void id_comes(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	comes(&(struct rdma_cm_event){ .event = type, .id = id, .status = status });
	run();
}

/* The id of the listener's place, as the verbs kind keeps it in front. */
static struct rdma_cm_id *listening(void)
{
	struct cm_kernel_id **first = cm->ports->own; /* struct verbs: places */
	return (*first)->id;
}

static struct rdma_cm_id *id_of(struct cm_conn *of)
{
	return ((struct cm_kernel_id *)of->own)->id;
}

/* A request of the peer comes. */
static struct rdma_cm_id *request_comes(void)
{
	static const uint8_t data[56] = "hello";
	struct rdma_cm_id *id;
	union cm_sockaddr from, to;
	assert_int_equal(rdma_create_id(&channel, &id, NULL, RDMA_PS_TCP), 0);
	cm_to_sockaddr(&peer, &from);
	cm_to_sockaddr(&own, &to);
	memcpy(&id->route.addr.dst_storage, &from, sizeof(from.in));
	memcpy(&id->route.addr.src_storage, &to, sizeof(to.in));
	comes(&(struct rdma_cm_event){ .event = RDMA_CM_EVENT_CONNECT_REQUEST,
				       .id = id,
				       .listen_id = listening(),
				       .param.conn = { .private_data = data,
						       .private_data_len = sizeof(data),
						       .responder_resources = 20,
						       .initiator_depth = 3,
						       .qp_num = 0x22 } });
	run();
	return id;
}

static void accept_it(void)
{
	char error[CM_ERROR_LEN] = "";
	const struct cm_offer offer = { .reads_answered = 8,
					.reads_asked = 8,
					.rnr_retry = 5,
					.private_data = "welcome",
					.private_len = 7 };
	if (cm_accept(conn, &qp, &offer, 1234, on_event, NULL, error))
		fail_msg("%s", error);
}

/* ---- the passive side */

static void a_request_is_accepted(void **state)
{
	(void)state;
	struct rdma_cm_id *id = request_comes();
	assert_int_equal(requests, 1);
	assert_int_equal(last.private_len, 56);
	assert_int_equal(last.reads_answered, 16); /* the device's most */
	assert_int_equal(last.reads_asked, 3);
	accept_it();
	assert_int_equal(connects, 1);
	assert_int_equal(qp_peer.qpn, 0x22);
	assert_int_equal(qp_peer.rq_psn, 0x111);
	assert_int_equal(qp_peer.path_mtu, IBV_MTU_1024);
	assert_int_equal(qp_peer.sgid_index, 1);
	assert_int_equal(qp_peer.gid[15], 9);
	assert_int_equal(qp_peer.reads_answered, 8);
	assert_int_equal(qp_send.sq_psn, 0x222);
	assert_int_equal(qp_send.retry_ms, 1234);
	assert_int_equal(qp_send.rnr_retry, 6);
	assert_int_equal(qp_send.reads_asked, 3);
	assert_int_equal(accepted.responder_resources, 8);
	assert_int_equal(accepted.initiator_depth, 3);
	assert_int_equal(accepted.qp_num, 0x777);
	assert_int_equal(accepted.private_data_len, 7);
	assert_memory_equal(accepted.private_data, "welcome", 7);
	assert_int_equal(patience, 20); /* for the peer's RTU */
	cm_view_refresh(conn);
	assert_int_equal(conn->view.reads_answered, 8);
	assert_int_equal(conn->view.reads_asked, 3);
	assert_int_equal(conn->view.peer_qpn, 0x22);
	cm_conn_heard(conn);
	assert_int_equal(notified, 1);
	id_comes(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(connected, 1);
	assert_int_equal(patience, 0);
	assert_int_equal(last.reads_answered, 8);
	id_comes(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(ended, 1);
	assert_int_equal(last.end, CM_END_PEER_DISCONNECTED);
	assert_int_equal(disconnected, 1); /* the peer gets its answer */
	assert_int_equal(errors, 1);
}

static void a_request_is_refused(void **state)
{
	(void)state;
	struct cm_stats stats;
	deny = true;
	request_comes();
	assert_int_equal(requests, 0);
	assert_int_equal(rejected, 1);
	assert_int_equal(told_refused, 1);
	deny = false;
	request_comes();
	cm_reject(conn, "no", 2);
	conn = NULL;
	assert_int_equal(rejected, 2);
	assert_int_equal(told_refused, 2);
	cm_get_stats(cm, &stats);
	assert_int_equal(stats.refused, 2);
	assert_int_equal(stats.limited, 0);
}

/* Of what the peer asks for too much, its share is taken. */
static void too_many_requests_are_refused(void **state)
{
	struct cm_stats stats;
	struct cm_conn *first;
	(void)state;
	cm->params.limits.requests_per_peer = 1;
	request_comes();
	first = conn;
	request_comes();
	assert_int_equal(requests, 1);
	assert_ptr_equal(conn, first);
	assert_int_equal(rejected, 1);
	cm_get_stats(cm, &stats);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.limited, 1);
	assert_int_equal(told_refused, 1);
}

/* The queue pair cannot be started: the request is still there, and may be refused. */
static void an_acceptance_that_fails_leaves_the_request(void **state)
{
	char error[CM_ERROR_LEN];
	const struct cm_offer offer = { 0 };
	(void)state;
	request_comes();
	start_error = -EIO;
	assert_int_equal(cm_accept(conn, &qp, &offer, 1, on_event, NULL, error), -EIO);
	assert_int_equal(conn->view.state, CM_STATE_ASKED);
	assert_int_equal(errors, 0);
}

/* The kernel has told of the RTU, and its user ends the connection before he hears of that. */
static void the_end_crosses_the_rtu(void **state)
{
	(void)state;
	struct rdma_cm_id *id = request_comes();
	accept_it();
	cm_disconnect(conn);
	assert_int_equal(disconnected, 1);
	id_comes(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(connected, 0);
	assert_int_equal(conn->view.state, CM_STATE_ENDING);
	assert_int_equal(patience, 20); /* for the peer's answer */
	id_comes(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(ended, 1);
	assert_int_equal(last.end, CM_END_DISCONNECTED);
}

static void what_is_not_connected_yet_ends_at_once(void **state)
{
	(void)state;
	request_comes();
	accept_it();
	disconnect_errno = EINVAL;
	cm_disconnect(conn);
	run();
	assert_int_equal(ended, 1);
	assert_int_equal(last.end, CM_END_DISCONNECTED);
}

/* ---- the active side */

static struct rdma_cm_id *ask(unsigned int timeout_ms)
{
	char error[CM_ERROR_LEN] = "";
	struct cm_addr local = own;
	local.port = 0;
	const struct cm_connect_params params = {
		.rnic = &rnic,
		.local = local,
		.peer = peer,
		.qp = &qp,
		.offer = { .reads_answered = 40, .reads_asked = 4, .rnr_retry = 7 },
		.timeout_ms = timeout_ms,
		.retry_ms = 99,
		.fn = on_event
	};
	if (cm_connect(cm, &params, &conn, error))
		fail_msg("%s", error);
	struct rdma_cm_id *id = id_of(conn);
	id->verbs = &context;
	id->port_num = 1;
	return id;
}

static struct rdma_cm_id *ask_and_resolve(void)
{
	struct rdma_cm_id *id = ask(0);
	id_comes(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	id_comes(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(asked.responder_resources, 16);
	assert_int_equal(asked.initiator_depth, 4);
	assert_int_equal(asked.rnr_retry_count, 7);
	assert_int_equal(asked.qp_num, 0x777);
	assert_int_equal(patience, 20);
	return id;
}

static void an_own_request_is_accepted(void **state)
{
	(void)state;
	struct rdma_cm_id *id = ask_and_resolve();
	comes(&(struct rdma_cm_event){ .event = RDMA_CM_EVENT_CONNECT_RESPONSE,
				       .id = id,
				       .param.conn = { .initiator_depth = 2 } });
	run();
	assert_int_equal(established, 1);
	assert_int_equal(connected, 1);
	assert_int_equal(last.reads_asked, 2);
	assert_int_equal(last.reads_answered, 16);
	assert_int_equal(qp_send.reads_asked, 2);
	cm_disconnect(conn);
	assert_int_equal(errors, 1);
	id_comes(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(last.end, CM_END_DISCONNECTED);
}

static void a_queue_pair_that_fails_refuses_the_acceptance(void **state)
{
	(void)state;
	struct rdma_cm_id *id = ask_and_resolve();
	start_error = -EIO;
	id_comes(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(rejected, 1);
	assert_int_equal(established, 0);
	assert_int_equal(last.end, CM_END_LOCAL);
}

/* How an own request ends. */
static void own_requests_end(void **state)
{
	static const struct {
		enum rdma_cm_event_type type;
		int status;
		enum cm_end end;
		uint16_t reason;
	} rows[] = {
		{ RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, CM_END_TIMEOUT, 0 },
		{ RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, CM_END_TIMEOUT, 0 },
		{ RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, CM_END_TIMEOUT, 0 },
		{ RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, CM_END_LOCAL, 0 },
		{ RDMA_CM_EVENT_DEVICE_REMOVAL, 0, CM_END_LOCAL, 0 },
		{ RDMA_CM_EVENT_REJECTED, 8, CM_END_NO_LISTENER, 8 },
		{ RDMA_CM_EVENT_REJECTED, 28, CM_END_REFUSED, 28 },
		{ RDMA_CM_EVENT_REJECTED, 10, CM_END_PEER_REFUSED, 10 },
		{ RDMA_CM_EVENT_REJECTED, -1, CM_END_PEER_REFUSED, 0 },
	};
	(void)state;
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("event %d, status %d", rows[i].type, rows[i].status);
		id_comes(ask_and_resolve(), rows[i].type, rows[i].status);
		assert_int_equal(ended, i + 1);
		assert_int_equal(last.end, rows[i].end);
		assert_int_equal(last.reject_reason, rows[i].reason);
		assert_int_equal(errors, i + 1);
		cm_conn_free(conn);
		conn = NULL;
	}
}

/* What the peer has sent along with its refusal. */
static void a_refusal_has_private_data(void **state)
{
	static const uint8_t data[148] = "no, thanks";
	(void)state;
	struct rdma_cm_id *id = ask(0);
	comes(&(struct rdma_cm_event){
		.event = RDMA_CM_EVENT_REJECTED,
		.id = id,
		.status = 28,
		.param.conn = { .private_data = data, .private_data_len = sizeof(data) } });
	run();
	assert_int_equal(last.end, CM_END_REFUSED);
	assert_int_equal(last.private_len, sizeof(data));
	assert_memory_equal(told_data, data, sizeof(data));
}

/* The kernel chooses the device by the addresses. */
static void another_device_is_not_used(void **state)
{
	(void)state;
	struct rdma_cm_id *id = ask(0);
	id->verbs = &other_context;
	id_comes(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(ended, 1);
	assert_int_equal(last.end, CM_END_LOCAL);
}

static void who_does_not_answer_is_given_up(void **state)
{
	(void)state;
	ask(1);
	while (!ended)
		event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(last.end, CM_END_TIMEOUT);
}

/* ---- listeners */

static void addresses_come_and_go(void **state)
{
	const struct cm_addr any = { .family = AF_INET, .port = PORT };
	char error[CM_ERROR_LEN];
	(void)state;
	cm_listener_free(listener);
	num_listening = 0;
	assert_int_equal(cm_listen(cm, &any, on_event, NULL, &listener, error), 0);
	assert_int_equal(num_listening, 2);
	cm_rnic_changed(cm, &rnic); /* nothing has */
	assert_int_equal(num_listening, 2);
	set_gid(0, 3);
	cm_rnic_changed(cm, &rnic);
	assert_int_equal(num_listening, 3);
	assert_int_equal(num_ids, 2);
	rnic.info.num_gids = 1;
	cm_rnic_changed(cm, &rnic);
	assert_int_equal(num_ids, 1);
}

/* That is no request that was refused: the log tells why nobody listens. */
static void an_address_that_another_program_has_is_logged(void **state)
{
	(void)state;
	set_gid(1, 7);
	cm_rnic_changed(cm, &rnic);
	assert_int_equal(num_ids, 0);
	set_gid(1, 1);
	listen_errno = EADDRINUSE;
	cm_rnic_changed(cm, &rnic);
	assert_int_equal(num_ids, 0);
	assert_int_equal(lines, 1);
	assert_int_equal(told_refused, 0);
	listen_errno = 0;
	cm_rnic_changed(cm, &rnic);
	assert_int_equal(num_ids, 1);
}

static void ports_of_others_are_refused(void **state)
{
	static const struct {
		int error;
		int result;
		const char *text;
	} rows[] = {
		{ EADDRINUSE, -EADDRINUSE, "another program listens there" },
		{ EADDRNOTAVAIL, -EADDRINUSE, "another program listens there" },
		{ EACCES, -EACCES, "CAP_NET_BIND_SERVICE" },
	};
	char error[CM_ERROR_LEN];
	(void)state;
	cm_listener_free(listener);
	listener = NULL;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		listen_errno = rows[i].error;
		assert_int_equal(cm_listen(cm, &own, on_event, NULL, &listener, error),
				 rows[i].result);
		assert_non_null(strstr(error, rows[i].text));
		assert_non_null(strstr(error, "10.0.0.1:445"));
		assert_int_equal(num_ids, 0);
	}
}

/* The RNIC goes, with a connection and a request. */
static void the_rnic_goes(void **state)
{
	(void)state;
	struct rdma_cm_id *id = request_comes();
	accept_it();
	id_comes(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	struct cm_conn *first = conn;
	request_comes();
	cm_remove_rnic(cm, &rnic);
	assert_int_equal(ended, 2);
	assert_int_equal(last.end, CM_END_LOCAL);
	assert_int_equal(disconnected, 1);
	assert_int_equal(errors, 1);
	assert_null(cm->kernel);
	cm_conn_free(first == conn ? NULL : first);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_is_accepted),
		TEST(a_request_is_refused),
		TEST(too_many_requests_are_refused),
		TEST(a_refusal_has_private_data),
		TEST(an_acceptance_that_fails_leaves_the_request),
		TEST(the_end_crosses_the_rtu),
		TEST(what_is_not_connected_yet_ends_at_once),
		TEST(an_own_request_is_accepted),
		TEST(a_queue_pair_that_fails_refuses_the_acceptance),
		TEST(own_requests_end),
		TEST(another_device_is_not_used),
		TEST(who_does_not_answer_is_given_up),
		TEST(addresses_come_and_go),
		TEST(an_address_that_another_program_has_is_logged),
		TEST(ports_of_others_are_refused),
		TEST(the_rnic_goes),
	};
	return cmocka_run_group_tests_name("cm_verbs", tests, NULL, NULL);
}
