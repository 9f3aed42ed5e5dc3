/* SPDX-License-Identifier: MIT */
/* Events of the kernel's rdma_cm and the end of ids. There is no such device: the test has its own
 * functions of librdmacm, which wait and free as those of the library do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/cm/kernel.h"

/* ---- librdmacm */

/** An id. What destroys it waits until each event of it that was taken is acknowledged. */
struct fake_id {
	struct rdma_cm_id id;
	unsigned int taken, acknowledged;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rdma_event_channel channel;
static bool channel_there;
static struct rdma_cm_event waiting[4]; /* events that nobody has taken */
static size_t num_waiting;
static unsigned int num_ids, destroyed, refused;
static struct fake_id *graves[8];
static bool destroying; /* the end of an id waits for an acknowledgement */

static int open_errno; /* 0: the device is there */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* What measures coverage opens files too. */
int __wrap_open(const char *path, int flags, ...)
{
	if (!strcmp(path, "/dev/infiniband/rdma_cm") && open_errno) {
		errno = open_errno;
		return -1;
	}
	if (!strcmp(path, "/dev/infiniband/rdma_cm"))
		return eventfd(0, EFD_CLOEXEC);
	return __real_open(path, flags, 0666);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	channel.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	channel_there = true;
	return &channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *gone)
{
	assert_ptr_equal(gone, &channel);
	pthread_mutex_lock(&lock);
	channel_there = false;
	close(channel.fd);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int rdma_create_id(struct rdma_event_channel *of, struct rdma_cm_id **ret_id, void *context,
		   enum rdma_port_space ps)
{
	struct fake_id *id = calloc(1, sizeof(*id));
	assert_non_null(id);
	assert_int_equal(ps, RDMA_PS_TCP);
	id->id.channel = of;
	id->id.context = context;
	*ret_id = &id->id;
	num_ids++;
	return 0;
}

/* What is gone does not keep its bytes. Its memory goes with the test. */
int rdma_destroy_id(struct rdma_cm_id *gone)
{
	struct fake_id *id = (struct fake_id *)gone;
	pthread_mutex_lock(&lock);
	while (id->acknowledged < id->taken) {
		destroying = true;
		pthread_cond_broadcast(&changed);
		pthread_cond_wait(&changed, &lock);
	}
	memset(id, 0xA5, sizeof(*id));
	graves[destroyed++] = id;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **ret_event)
{
	assert_ptr_equal(of, &channel);
	if (num_waiting == 0) {
		uint64_t count;
		(void)!read(channel.fd, &count, sizeof(count));
		errno = EAGAIN;
		return -1;
	}
	struct rdma_cm_event *event = malloc(sizeof(*event));
	assert_non_null(event);
	*event = waiting[0];
	memmove(waiting, waiting + 1, --num_waiting * sizeof(waiting[0]));
	pthread_mutex_lock(&lock);
	((struct fake_id *)(event->listen_id ? event->listen_id : event->id))->taken++;
	pthread_mutex_unlock(&lock);
	*ret_event = event;
	return 0;
}

/* Another thread that waits for this may be quicker than the caller. */
int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct fake_id *id = (struct fake_id *)(event->listen_id ? event->listen_id : event->id);
	pthread_mutex_lock(&lock);
	const unsigned int before = destroyed;
	id->acknowledged++;
	pthread_cond_broadcast(&changed);
	while (destroying && destroyed == before)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	memset(event, 0xA5, sizeof(*event));
	free(event);
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
	(void)id;
	(void)private_data;
	assert_int_equal(len, 0);
	refused++;
	return 0;
}

/* ---- the user */

static struct event_base *base;
static struct cm cm;
static struct cm_port port;
static struct cm_kernel_id own, second;
static unsigned int events;
static struct rdma_cm_id *requested;
static uint8_t told[CM_PRIVATE_MAX];
static size_t told_len;

static void on_event(struct cm_kernel_id *id, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	assert_true(id == &own || id == &second);
	events++;
	told_len = param->private_data_len;
	if (told_len)
		memcpy(told, param->private_data, told_len);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		requested = event->id;
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		cm_kernel_id_end(id);
}

static unsigned int work;

static void at_work(void *ctx, uint64_t now)
{
	(void)ctx;
	assert_true(now > 0);
	work++;
}

static void new_id(struct cm_kernel_id *id)
{
	*id = (struct cm_kernel_id){ .port = &port, .on_event = on_event };
	assert_int_equal(cm_kernel_id_new(&cm, id), 0);
}

static int setup(void **state)
{
	char error[CM_ERROR_LEN];
	(void)state;
	base = event_base_new();
	cm = (struct cm){ .params = { .base = base, .at_work = at_work } };
	work = 0;
	port = (struct cm_port){ .cm = &cm };
	events = destroyed = refused = num_ids = 0;
	destroying = false;
	assert_int_equal(cm_kernel_open(&cm, "verbs:x/1", error), 0);
	new_id(&own);
	new_id(&second);
	return 0;
}

/* Ids that are left end, and behind them the channel. */
static int teardown(void **state)
{
	(void)state;
	cm_kernel_id_end(&own);
	cm_kernel_id_end_listening(&second);
	cm_kernel_close(&cm);
	assert_null(cm.kernel);
	pthread_mutex_lock(&lock);
	while (channel_there)
		pthread_cond_wait(&changed, &lock);
	assert_int_equal(destroyed, num_ids);
	while (destroyed > 0)
		free(graves[--destroyed]);
	pthread_mutex_unlock(&lock);
	event_base_free(base);
	return 0;
}

static void comes(enum rdma_cm_event_type type, struct rdma_cm_id *id, struct rdma_cm_id *listen_id,
		  const struct rdma_conn_param *param)
{
	const uint64_t one = 1;
	struct rdma_cm_event event = { .event = type, .id = id, .listen_id = listen_id };
	if (param)
		event.param.conn = *param;
	waiting[num_waiting++] = event;
	assert_int_equal(write(channel.fd, &one, sizeof(one)), sizeof(one));
}

static void run(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

static void private_data_are_copied_as_far_as_they_are_there(void **state)
{
	static const uint8_t data[CM_PRIVATE_MAX + 8] = { 1, 2, 3 };
	static const struct {
		const void *data;
		uint8_t len;
		size_t told;
	} rows[] = { { data, 3, 3 }, { data, CM_PRIVATE_MAX + 8, CM_PRIVATE_MAX }, { NULL, 9, 0 } };
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct rdma_conn_param param = { .private_data = rows[i].data,
						       .private_data_len = rows[i].len };
		comes(RDMA_CM_EVENT_ESTABLISHED, own.id, NULL, &param);
		run();
		assert_int_equal(events, i + 1);
		assert_int_equal(told_len, rows[i].told);
		assert_memory_equal(told, data, told_len);
	}
}

/* Two events of an id wait; the first one ends it. */
static void no_event_comes_behind_the_end(void **state)
{
	(void)state;
	comes(RDMA_CM_EVENT_DISCONNECTED, own.id, NULL, NULL);
	run();
	assert_int_equal(events, 1);
	assert_true(work > 0);
	assert_null(own.id);
}

/* The library lets the event of an id be taken while another thread destroys that id, which ends as
 * soon as the event is acknowledged. */
static void an_id_may_be_gone_with_the_acknowledgement(void **state)
{
	struct fake_id *id = (struct fake_id *)own.id;
	(void)state;
	comes(RDMA_CM_EVENT_DISCONNECTED, own.id, NULL, NULL);
	id->taken++; /* the kernel has told of it already */
	cm_kernel_id_end(&own);
	pthread_mutex_lock(&lock);
	while (!destroying)
		pthread_cond_wait(&changed, &lock);
	id->taken--;
	pthread_mutex_unlock(&lock);
	run();
	assert_int_equal(events, 0);
	assert_int_equal(destroyed, 1);
}

/* A request comes with an id of its own, which may be refused at once. */
static void a_request_is_about_its_listener(void **state)
{
	struct rdma_cm_id *id;
	(void)state;
	assert_int_equal(rdma_create_id(&channel, &id, NULL, RDMA_PS_TCP), 0);
	comes(RDMA_CM_EVENT_CONNECT_REQUEST, id, own.id, NULL);
	run();
	assert_int_equal(events, 1);
	assert_ptr_equal(requested, id);
	cm_kernel_refuse(&cm, id);
	assert_int_equal(refused, 1);
}

/* The device comes with the kernel's module. Who opened it before keeps it. */
static void the_device_is_not_there(void **state)
{
	static const struct {
		int error;
		const char *text;
	} rows[] = {
		{ ENOENT, "load its module (modprobe rdma_ucm)" },
		{ ENODEV, "load its module (modprobe rdma_ucm)" },
		{ EPERM, "restart the service" },
		{ EACCES, "Permission denied" },
	};
	struct cm other = { .params = { .base = base } };
	char error[CM_ERROR_LEN];
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_errno = rows[i].error;
		assert_int_equal(cm_kernel_open(&other, "verbs:y/1", error), -rows[i].error);
		assert_null(other.kernel);
		assert_non_null(strstr(error, "rnic verbs:y/1: "));
		assert_non_null(strstr(error, rows[i].text));
		assert_int_equal(cm_kernel_open(&cm, "verbs:y/1", error), 0);
		cm_kernel_close(&cm);
		assert_non_null(cm.kernel);
	}
	open_errno = 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(private_data_are_copied_as_far_as_they_are_there),
		TEST(no_event_comes_behind_the_end),
		TEST(an_id_may_be_gone_with_the_acknowledgement),
		TEST(a_request_is_about_its_listener),
		TEST(the_device_is_not_there),
	};
	return cmocka_run_group_tests_name("cm_kernel", tests, NULL, NULL);
}
