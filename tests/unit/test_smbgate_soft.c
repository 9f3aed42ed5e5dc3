/* SPDX-License-Identifier: MIT */
/* Two gateways over software RNICs and connection managers, in two namespaces. A client that only
 * knows TCP is in front of one, a server that only knows TCP behind the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <event2/listener.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/rnic/soft/internal.h"
#include "daemon/smbgate/gate.h"
#include "daemon/smbgate/rdma.h"
#include "daemon/smbgate/serve.h"
#include "daemon/smbgate/tcp.h"
#include "proto/ibcm/ibcm.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/smb2fix.h"
#include "tests/lib/testnet.h"
#include "tests/lib/tries.h"

#define PATIENCE   30000 /* milliseconds: of a busy machine */
#define PORT       5445
#define DOOR       1445
#define MOST       8 /* ends of TCP connections */
#define DATA       (256u * 1024)
#define SERVE_MANY (SERVE_DESCRIPTORS + 1)

/** The client's or the server's end of a TCP connection. */
struct end {
	struct tcp_side *tcp;
	uint8_t *bytes; /* of the message that comes */
	size_t connected, messages, ended, wrong;
	bool server, deaf; /* deaf: it reads nothing */
	uint64_t last_id;
	uint32_t last_status;
	size_t last_len;
};

struct host {
	struct rnic_side side;
	struct cm *cm;
	struct smbgate *gate;
	size_t up, down, refused;
	char why[SMBGATE_TEXT_LEN];
};

static struct testnet net;
static struct event_base *base;
static struct host a, b; /* a: of the client; b: of the server */
static struct evconnlistener *listener;
static struct sockaddr_un server_addr;
static struct end clients[MOST], servers[MOST];
static size_t num_clients, num_servers;

static const struct cm_addr addr_a = { .family = AF_INET, .addr = { 10, 77, 0, 1 } };
static const struct cm_addr addr_b = { .family = AF_INET, .addr = { 10, 77, 0, 2 }, .port = PORT };

static bool wait_for(const size_t *count, size_t want)
{
	return rnic_side_wait(base, count, want, PATIENCE);
}

/* ---- both ends of TCP */

static void send_fix(struct end *end, const struct smb2fix *fix)
{
	assert_int_equal(tcp_side_begin(end->tcp, fix->len), 0);
	assert_int_equal(tcp_side_add(end->tcp, fix->bytes, fix->len), 0);
}

static bool is_pattern(const uint8_t *bytes, size_t len, uint8_t first)
{
	uint8_t *expect = malloc(len + 1);
	assert_non_null(expect);
	smb2fix_pattern(expect, len, first);
	const bool same = memcmp(bytes, expect, len) == 0;
	free(expect);
	return same;
}

static struct smb2fix answer; /* it is large */

/* The server: data are a pattern that begins with the message id. Other requests are answered with
 * a message as long as they are. */
static void serve_one(struct end *end, const uint8_t *bytes, size_t len)
{
	struct smb2_header header;
	struct smb2_write_request write;
	struct smb2_read_request read;
	answer.len = 0;
	assert_int_equal(smb2_decode_header(bytes, len, &header), 0);
	if (header.command == SMB2_WRITE && smb2_decode_write_request(bytes, len, &write) == 0) {
		end->wrong +=
			write.channel != 0 || !is_pattern(bytes + write.data_offset, write.length,
							  (uint8_t)header.message_id);
		smb2fix_error(&answer, SMB2_WRITE, header.message_id, 0, 0);
	} else if (header.command == SMB2_READ &&
		   smb2_decode_read_request(bytes, len, &read) == 0) {
		end->wrong += read.channel != 0;
		smb2fix_read_answer(&answer, header.message_id, read.length,
				    (uint8_t)header.message_id);
	} else if (header.command == SMB2_NEGOTIATE) {
		smb2fix_negotiate_answer(&answer, 0x0311);
	} else {
		smb2fix_error(&answer, header.command, header.message_id, 0xC000000D, 0);
	}
	send_fix(end, &answer);
}

static void look_at_answer(struct end *end, const uint8_t *bytes, size_t len)
{
	struct smb2_header header;
	struct smb2_read_response read;
	assert_int_equal(smb2_decode_header(bytes, len, &header), 0);
	end->last_id = header.message_id;
	end->last_status = header.status;
	end->last_len = len;
	if (header.command == SMB2_READ && smb2_decode_read_response(bytes, len, &read) == 0)
		end->wrong += !is_pattern(bytes + read.data_offset, read.length,
					  (uint8_t)header.message_id);
}

static void on_connected(void *ctx)
{
	struct end *end = ctx;
	end->connected++;
	tcp_side_resume(end->tcp);
}

static uint8_t *on_room(void *ctx, size_t len)
{
	struct end *end = ctx;
	end->bytes = malloc(len);
	return end->bytes;
}

static void on_message(void *ctx, size_t len)
{
	struct end *end = ctx;
	end->messages++;
	if (end->server)
		serve_one(end, end->bytes, len);
	else
		look_at_answer(end, end->bytes, len);
	free(end->bytes);
	end->bytes = NULL;
	if (end->deaf)
		tcp_side_pause(end->tcp);
}

static void on_drained(void *ctx)
{
	(void)ctx;
}

static void on_ended(void *ctx, enum tcp_end how, int error)
{
	struct end *end = ctx;
	(void)how;
	(void)error;
	end->ended++;
}

static const struct tcp_ops ops = { on_connected, on_room, on_message, on_drained, on_ended };
static bool new_servers_are_deaf;

static void on_accept(struct evconnlistener *from, evutil_socket_t fd, struct sockaddr *addr,
		      int len, void *arg)
{
	(void)from;
	(void)addr;
	(void)len;
	(void)arg;
	assert_true(num_servers < MOST);
	struct end *end = &servers[num_servers];
	*end = (struct end){ .server = true, .deaf = new_servers_are_deaf };
	assert_int_equal(tcp_side_adopt(base, fd, &ops, end, &end->tcp), 0);
	if (!end->deaf)
		tcp_side_resume(end->tcp);
	num_servers++;
}

static struct end *client_new(void)
{
	const struct sockaddr_in door = { .sin_family = AF_INET,
					  .sin_port = htons(DOOR),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_true(num_clients < MOST);
	struct end *end = &clients[num_clients++];
	*end = (struct end){ 0 };
	assert_int_equal(tcp_side_connect(base, (const struct sockaddr *)&door, sizeof(door), 5000,
					  &ops, end, &end->tcp),
			 0);
	return end;
}

static void end_free(struct end *end)
{
	tcp_side_free(end->tcp, false);
	free(end->bytes);
	*end = (struct end){ 0 };
}

/* ---- hosts */

static void told(void *ctx, const struct smbgate_told *what)
{
	struct host *host = ctx;
	host->up += what->what == SMBGATE_TOLD_UP;
	host->down += what->what == SMBGATE_TOLD_DOWN;
	host->refused += what->what == SMBGATE_TOLD_REFUSED;
	snprintf(host->why, sizeof(host->why), "%s", what->text);
}

static bool may_use(void *ctx, struct rnic *rnic, const struct cm_addr *local,
		    const struct cm_addr *peer)
{
	(void)ctx;
	(void)rnic;
	(void)local;
	(void)peer;
	return true;
}

static void host_open(struct host *host, int ns, const char *name)
{
	const struct cm_params params = { .base = base, .may_use = may_use, .ctx = host };
	const struct smbgate_params gate = { .base = base, .told = told, .ctx = host };
	char error[CM_ERROR_LEN];
	testnet_enter(&net, ns);
	rnic_side_open(&host->side, base, name, 65536);
	assert_int_equal(cm_new(&params, &host->cm), 0);
	assert_int_equal(cm_add_rnic(host->cm, host->side.rnic, error), 0);
	struct smbgate_params with_cm = gate;
	with_cm.cm = host->cm;
	assert_int_equal(smbgate_new(&with_cm, &host->gate), 0);
}

static void host_close(struct host *host)
{
	smbgate_free(host->gate);
	cm_free(host->cm);
	rnic_side_close(&host->side);
	memset(host, 0, sizeof(*host));
}

static struct smbgate_config server_config(void)
{
	struct smbgate_config config;
	memset(&config, 0, sizeof(config));
	config.serve = true;
	memcpy(&config.server, &server_addr, sizeof(server_addr));
	config.server_len = sizeof(server_addr);
	config.ports[0] = PORT;
	return config;
}

static struct smbgate_config client_config(void)
{
	struct smbgate_config config;
	memset(&config, 0, sizeof(config));
	struct sockaddr_in *door = (struct sockaddr_in *)&config.offers[0].listen;
	door->sin_family = AF_INET;
	door->sin_port = htons(DOOR);
	door->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	config.offers[0].listen_len = sizeof(*door);
	config.offers[0].peer = addr_b;
	config.num_offers = 1;
	return config;
}

static void configure(struct host *host, const struct smbgate_config *config)
{
	char error[SMBGATE_TEXT_LEN] = "";
	if (smbgate_configure(host->gate, config, error) < 0)
		fail_msg("%s", error);
}

static int begin(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	host_open(&b, 1, "soft:t1");
	host_open(&a, 0, "soft:t0");
	server_addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(server_addr.sun_path, sizeof(server_addr.sun_path), "/tmp/smbgate-%d.sock",
		 (int)getpid());
	unlink(server_addr.sun_path);
	listener = evconnlistener_new_bind(base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 16,
					   (struct sockaddr *)&server_addr, sizeof(server_addr));
	assert_non_null(listener);
	const struct smbgate_config serves = server_config(), offers = client_config();
	configure(&b, &serves);
	configure(&a, &offers);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (size_t i = 0; i < num_clients; i++)
		end_free(&clients[i]);
	for (size_t i = 0; i < num_servers; i++)
		end_free(&servers[i]);
	num_clients = num_servers = 0;
	new_servers_are_deaf = false;
	if (listener)
		evconnlistener_free(listener);
	listener = NULL;
	unlink(server_addr.sun_path);
	host_close(&a);
	host_close(&b);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

/* ---- asking */

static bool first_view(void *arg, const struct smbgate_view *view)
{
	*(struct smbgate_view *)arg = *view;
	return false;
}

/* Of the newest connection. */
static struct smbgate_view view_of(const struct host *host)
{
	struct smbgate_view view = { 0 };
	smbgate_each(host->gate, first_view, &view);
	return view;
}

static bool count_live(void *arg, const struct smbgate_view *view)
{
	*(size_t *)arg += view->state != SMBGATE_ENDED;
	return true;
}

static size_t live(const struct host *host)
{
	size_t n = 0;
	smbgate_each(host->gate, count_live, &n);
	return n;
}

static struct smbgate_stats stats_of(const struct host *host)
{
	struct smbgate_stats stats;
	smbgate_get_stats(host->gate, &stats);
	return stats;
}

/* Run the loop until a condition holds. */
#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const size_t never = 0;                                                            \
		for (int tries_ = 0; !(condition) && tries_ < PATIENCE / 5; tries_++)              \
			rnic_side_wait(base, &never, 1, 5);                                        \
		assert_true(condition);                                                            \
	} while (0)

static struct smb2fix request;

static void send_write(struct end *client, uint64_t id, uint32_t bytes)
{
	request.len = 0;
	smb2fix_write_data(&request, id, bytes, (uint8_t)id);
	send_fix(client, &request);
}

static void send_read(struct end *client, uint64_t id, uint32_t bytes)
{
	request.len = 0;
	smb2fix_read(&request, id, bytes, 0, NULL, 0);
	send_fix(client, &request);
}

/* A request whose data are in the message. */
static void send_signed_write(struct end *client, uint64_t id, uint32_t bytes)
{
	request.len = 0;
	smb2fix_write_data(&request, id, bytes, (uint8_t)id);
	request.bytes[16] |= SMB2_FLAG_SIGNED;
	send_fix(client, &request);
}

static struct end *client_up(void)
{
	const size_t up = a.up;
	struct end *client = client_new();
	assert_true(wait_for(&a.up, up + 1));
	return client;
}

/* Channels are offered only to a server that has told its dialect. */
static void negotiate(struct end *client)
{
	request.len = 0;
	smb2fix_add(&request, SMB2_NEGOTIATE, 0, 0, 36, 36);
	send_fix(client, &request);
	assert_true(wait_for(&client->messages, 1));
	client->messages = 0;
}

/* ---- transfers */

static void data_go_by_rdma(void **state)
{
	(void)state;
	struct end *client = client_up();
	negotiate(client);
	for (uint64_t id = 1; id <= 20; id += 2) {
		send_write(client, id, DATA);
		send_read(client, id + 1, DATA);
	}
	assert_true(wait_for(&client->messages, 20));
	assert_int_equal(client->wrong, 0);
	assert_int_equal(servers[0].wrong, 0);
	assert_int_equal(client->last_id, 20);
	const struct smbgate_view left = view_of(&a), right = view_of(&b);
	assert_int_equal(left.rdma_read, 10 * DATA);
	assert_int_equal(left.rdma_written, 10 * DATA);
	assert_int_equal(right.rdma_read, 10 * DATA);
	assert_int_equal(right.rdma_written, 10 * DATA);
	assert_int_equal(right.channels_served, 20);
	assert_int_equal(right.channels_refused, 0);
	assert_true(left.smbd.bytes_sent < DATA); /* heads alone */
	const struct smbgate_stats stats = stats_of(&b);
	assert_int_equal(stats.read_received, 10 * DATA);
	assert_int_equal(stats.write_sent, 10 * DATA);
	assert_int_equal(stats_of(&a).read_sent, 10 * DATA);

	/* The client goes: nothing is left, and what has been is remembered. */
	tcp_side_free(client->tcp, false);
	client->tcp = NULL;
	assert_true(wait_for(&b.down, 1));
	assert_true(wait_for(&a.down, 1));
	assert_int_equal(live(&a) + live(&b), 0);
	assert_int_equal(stats_of(&b).memory, 0);
	assert_int_equal(stats_of(&b).read_received, 10 * DATA);
	assert_int_equal(view_of(&a).state, SMBGATE_ENDED);
	assert_string_equal(a.why, "the TCP side has closed");
	UNTIL(servers[0].ended == 1);
}

static void signed_data_go_in_messages(void **state)
{
	(void)state;
	struct end *client = client_up();
	for (uint64_t id = 1; id <= 20; id++)
		send_signed_write(client, id, DATA);
	assert_true(wait_for(&client->messages, 20));
	assert_int_equal(servers[0].wrong, 0);
	assert_int_equal(view_of(&a).rdma_read, 0);
	assert_true(view_of(&a).smbd.bytes_sent > 20 * DATA);
}

/* Requests for which there is no memory wait, and all of them are answered. */
static void memory_is_bounded(void **state)
{
	(void)state;
	struct smbgate_config serves = server_config(), offers = client_config();
	serves.memory = offers.memory = 3u << 20;
	serves.memory_per_conn = offers.memory_per_conn = 1u << 20;
	configure(&b, &serves);
	configure(&a, &offers);
	struct end *client[4];
	for (size_t i = 0; i < 4; i++) {
		client[i] = client_up();
		negotiate(client[i]);
	}
	for (uint64_t id = 1; id <= 16; id += 2) {
		for (size_t i = 0; i < 4; i++) {
			send_write(client[i], id, DATA);
			send_read(client[i], id + 1, DATA);
		}
	}
	for (size_t i = 0; i < 4; i++) {
		assert_true(wait_for(&client[i]->messages, 16));
		assert_int_equal(client[i]->wrong + servers[i].wrong, 0);
		assert_true(stats_of(&a).memory <= 3u << 20);
		assert_true(stats_of(&b).memory <= 3u << 20);
	}
	/* What the four keep for later does not keep a fifth one waiting. */
	struct end *fifth = client_up();
	negotiate(fifth);
	send_write(fifth, 1, DATA);
	send_read(fifth, 2, DATA);
	assert_true(wait_for(&fifth->messages, 2));
}

/* A server that reads nothing: the client is held, and then all comes. */
static void a_slow_server_holds_the_client(void **state)
{
	(void)state;
	enum { NUM = 100 };
	new_servers_are_deaf = true;
	struct end *client = client_up();
	for (uint64_t id = 1; id <= NUM; id++)
		send_signed_write(client, id, DATA);
	/* The last credit is kept for a message that grants some. */
	UNTIL(view_of(&a).smbd.send_credits <= 1 && view_of(&a).smbd.queued_bytes >= 4u << 20);
	const size_t waits = tcp_side_queued(client->tcp);
	assert_true(waits > 0);
	servers[0].deaf = false;
	tcp_side_resume(servers[0].tcp);
	assert_true(wait_for(&client->messages, NUM));
	assert_int_equal(servers[0].wrong, 0);
}

/* ---- ends */

static void the_server_ends_it(void **state)
{
	(void)state;
	struct end *client = client_up();
	send_read(client, 1, DATA);
	assert_true(wait_for(&client->messages, 1));
	tcp_side_free(servers[0].tcp, false);
	servers[0].tcp = NULL;
	assert_true(wait_for(&client->ended, 1));
	UNTIL(live(&a) + live(&b) == 0);
	assert_string_equal(b.why, "the TCP side has closed");
}

static void without_a_server(void **state)
{
	(void)state;
	evconnlistener_free(listener);
	listener = NULL;
	struct end *client = client_new();
	assert_true(wait_for(&client->ended, 1));
	assert_true(wait_for(&a.refused, 1));
	assert_true(wait_for(&b.refused, 1));
	assert_non_null(strstr(b.why, "cannot connect to the SMB server"));
	assert_non_null(strstr(a.why, "refuse"));
	assert_int_equal(stats_of(&a).refused, 1);
	assert_int_equal(live(&a) + live(&b), 0);
}

static void nobody_serves_smb_direct(void **state)
{
	(void)state;
	struct smbgate_config none;
	memset(&none, 0, sizeof(none));
	configure(&b, &none);
	struct end *client = client_new();
	assert_true(wait_for(&client->ended, 1));
	assert_true(wait_for(&a.refused, 1));
	assert_non_null(strstr(a.why, "nobody listens"));
}

static void an_administrator_ends_it(void **state)
{
	(void)state;
	struct end *client = client_up();
	assert_int_equal(smbgate_disconnect(b.gate, 4711), -ENOENT);
	assert_int_equal(smbgate_disconnect(b.gate, view_of(&b).number), 0);
	assert_true(wait_for(&client->ended, 1));
	assert_true(wait_for(&b.down, 1));
	assert_string_equal(b.why, "an administrator has ended it");
	UNTIL(live(&a) + live(&b) == 0);
	assert_int_equal(smbgate_disconnect(b.gate, 1), -ENOENT); /* it has ended */
	/* The next one works. */
	client = client_up();
	send_write(client, 1, DATA);
	assert_true(wait_for(&client->messages, 1));
}

/* An RNIC is taken away in the middle of transfers. */
static void the_rnic_goes(void **state)
{
	(void)state;
	struct host *const hosts[] = { &a, &b };
	for (size_t i = 0; i < 2; i++) {
		TRIES("host %zu", i);
		char error[CM_ERROR_LEN];
		struct end *client = client_up();
		for (uint64_t id = 1; id <= 40; id += 2) {
			send_write(client, id, DATA);
			send_read(client, id + 1, DATA);
		}
		assert_true(wait_for(&client->messages, 2));
		cm_remove_rnic(hosts[i]->cm, hosts[i]->side.rnic);
		assert_int_equal(live(hosts[i]), 0); /* at once */
		assert_true(wait_for(&client->ended, 1));
		UNTIL(live(&a) + live(&b) == 0);
		UNTIL(stats_of(&a).memory + stats_of(&b).memory == 0);
		assert_int_equal(cm_add_rnic(hosts[i]->cm, hosts[i]->side.rnic, error), 0);
	}
	struct end *client = client_up();
	send_read(client, 1, DATA);
	assert_true(wait_for(&client->messages, 1));
}

/* Datagrams of the connection manager of b, without RTUs. */
struct filter {
	rnic_gsi_fn *gsi;
	void *ctx;
	size_t unheard;
};

static void without_rtus(void *ctx, const struct rnic_gsi_datagram *datagram)
{
	struct filter *filter = ctx;
	const uint16_t type = (uint16_t)(datagram->data[16] << 8 | datagram->data[17]);
	if (type == IBCM_RTU)
		filter->unheard++;
	else
		filter->gsi(filter->ctx, datagram);
}

/* The last message that connects is lost: the client's first message shows that it is connected. */
static void the_last_message_that_connects_is_lost(void **state)
{
	(void)state;
	struct soft_gsi *gsi = &soft_device_of(b.side.rnic)->gsi;
	struct filter filter = { gsi->fn, gsi->ctx, 0 };
	rnic_soft_set_gsi(b.side.rnic, without_rtus, &filter);
	struct end *client = client_up();
	send_write(client, 1, DATA);
	assert_true(wait_for(&client->messages, 1));
	assert_true(filter.unheard >= 1);
}

/* ---- limits */

static void connections_are_limited(void **state)
{
	(void)state;
	struct smbgate_config offers = client_config(), serves = server_config();
	offers.conns = 2;
	configure(&a, &offers);
	client_up();
	client_up();
	struct end *third = client_new();
	assert_true(wait_for(&third->ended, 1));
	assert_int_equal(a.refused, 1);
	assert_string_equal(a.why, "there are too many");
	assert_int_equal(live(&a), 2);
	/* Of one peer. */
	offers.conns = 0;
	configure(&a, &offers);
	serves.conns_per_peer = 3;
	configure(&b, &serves);
	client_up();
	struct end *fourth = client_new();
	assert_true(wait_for(&fourth->ended, 1));
	assert_true(wait_for(&b.refused, 1));
	assert_string_equal(b.why, "there are too many");
	assert_int_equal(live(&b), 3);
}

struct seen_listeners {
	size_t num;
	struct smbgate_listener_view views[4];
};

static void see_listener(void *arg, const struct smbgate_listener_view *view)
{
	struct seen_listeners *seen = arg;
	seen->views[seen->num++] = *view;
}

static void listeners_tell_what_is_wrong(void **state)
{
	(void)state;
	struct seen_listeners seen = { 0 };
	char error[SMBGATE_TEXT_LEN] = "";
	struct smbgate_config both = client_config();
	struct cm_listener *other;
	char text[CM_ERROR_LEN];
	client_up();
	smbgate_each_listener(a.gate, see_listener, &seen);
	assert_int_equal(seen.num, 1);
	assert_false(seen.views[0].serves);
	assert_string_equal(seen.views[0].listen, "127.0.0.1:1445");
	assert_string_equal(seen.views[0].leads_to, "10.77.0.2:5445");
	assert_int_equal(seen.views[0].taken, 1);
	/* Another address that this host has not, and an RDMA port that somebody has. */
	const struct cm_addr local = { .family = AF_INET, .port = PORT };
	assert_int_equal(cm_listen(a.cm, &local, NULL, NULL, &other, text), 0);
	both.serve = true;
	memcpy(&both.server, &server_addr, sizeof(server_addr));
	both.server_len = sizeof(server_addr);
	both.ports[0] = PORT;
	((struct sockaddr_in *)&both.offers[0].listen)->sin_addr.s_addr = htonl(0xC0000201);
	assert_true(smbgate_configure(a.gate, &both, error) < 0);
	assert_true(*error);
	seen.num = 0;
	smbgate_each_listener(a.gate, see_listener, &seen);
	assert_int_equal(seen.num, 2);
	assert_true(seen.views[0].serves);
	assert_string_equal(seen.views[0].listen, "0.0.0.0:5445");
	assert_int_equal(seen.views[0].error, -EADDRINUSE);
	assert_true(*seen.views[0].text);
	assert_int_equal(seen.views[1].error, -EADDRNOTAVAIL);
	cm_listener_free(other);
}

/* ---- a client that speaks SMB Direct, and does not mean well */

struct hostile {
	struct rdma *rdma;
	struct cm_conn *conn;
	struct memory_budget budget;
	size_t established, messages, ended, cm_ended, written;
	struct block *block; /* of a READ: where the answer's data have to be when it comes */
};

static void on_h_seen(void *ctx, bool sent, bool negotiates, const uint8_t *bytes, size_t len)
{
	(void)ctx;
	(void)sent;
	(void)negotiates;
	(void)bytes;
	(void)len;
}

static void on_h_established(void *ctx)
{
	struct hostile *hostile = ctx;
	hostile->established++;
}

static void on_h_message(void *ctx, const uint8_t *data, size_t len, const uint32_t *token)
{
	struct hostile *hostile = ctx;
	struct smb2_read_response response;
	(void)token;
	hostile->messages++;
	if (hostile->block && smb2_decode_read_response(data, len, &response) == 0)
		hostile->written +=
			is_pattern(hostile->block->bytes, response.remaining, (uint8_t)data[24]) &&
			response.remaining > 0;
}

static void on_h_transferred(void *ctx, void *tag)
{
	(void)ctx;
	(void)tag;
}

static void on_h_room(void *ctx)
{
	(void)ctx;
}

static void on_h_ended(void *ctx, enum smbd_end how)
{
	struct hostile *hostile = ctx;
	(void)how;
	hostile->ended++;
}

static const struct rdma_ops hostile_ops = { on_h_seen,        on_h_established, on_h_message,
					     on_h_transferred, on_h_room,        on_h_ended };

static void on_h_cm(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct hostile *hostile = ctx;
	(void)conn;
	if (event->type == CM_CONNECTED)
		rdma_connected(hostile->rdma);
	else
		hostile->cm_ended++;
}

static void hostile_open(struct hostile *hostile)
{
	char error[CM_ERROR_LEN] = "";
	*hostile = (struct hostile){ .budget.most = 64u << 20 };
	const struct rdma_params params = { .base = base,
					    .rnic = a.side.rnic,
					    .role = SMBD_ACTIVE,
					    .budget = &hostile->budget,
					    .most_memory = 64u << 20,
					    .ops = &hostile_ops,
					    .ctx = hostile };
	assert_int_equal(rdma_new(&params, &hostile->rdma, error), 0);
	const struct cm_connect_params connect = { .rnic = a.side.rnic,
						   .local = addr_a,
						   .peer = addr_b,
						   .qp = rdma_qp(hostile->rdma),
						   .offer = { .reads_answered = 4, .rnr_retry = 7 },
						   .retry_ms = 4000,
						   .fn = on_h_cm,
						   .ctx = hostile };
	if (cm_connect(a.cm, &connect, &hostile->conn, error) < 0)
		fail_msg("%s", error);
	assert_true(wait_for(&hostile->established, 1));
}

static void hostile_close(struct hostile *hostile)
{
	cm_conn_free(hostile->conn);
	block_put(hostile->block);
	rdma_free(hostile->rdma);
}

static void hostile_send(struct hostile *hostile)
{
	uint8_t *copy = malloc(request.len);
	assert_non_null(copy);
	memcpy(copy, request.bytes, request.len);
	assert_int_equal(rdma_send(hostile->rdma, copy, request.len, NULL), 0);
}

/* The data of a READ are in the client's memory when the response comes, however many there are. */
static void writes_come_before_the_response(void **state)
{
	(void)state;
	struct hostile honest;
	struct smbdirect_descriptor descriptor;
	struct rdma_offer *offer;
	int error;
	hostile_open(&honest);
	honest.block = rdma_block(honest.rdma, BLOCK_OFFERED, DATA, &error);
	assert_non_null(honest.block);
	for (uint64_t id = 1; id <= 50; id++) {
		TRIES("message %u", (unsigned int)id);
		memset(honest.block->bytes, 0, DATA);
		assert_int_equal(
			rdma_offer(honest.rdma, honest.block, 0, DATA, true, &offer, &descriptor),
			0);
		request.len = 0;
		smb2fix_read(&request, id, DATA, SMB2_CHANNEL_RDMA_V1_INVALIDATE, &descriptor, 1);
		hostile_send(&honest);
		assert_true(wait_for(&honest.messages, id));
		assert_int_equal(honest.written, id);
		rdma_offer_end(offer);
	}
	hostile_close(&honest);
}

/* Tokens that are none, that give too little, or not the right: only that connection ends. */
static void wrong_tokens_end_their_connection_alone(void **state)
{
	(void)state;
	struct end *client = client_up();
	for (unsigned int kind = 0; kind < 6; kind++) {
		TRIES("kind %u", kind);
		struct hostile hostile;
		struct smbdirect_descriptor descriptor = { .token = 0x4711, .length = DATA };
		struct rdma_offer *offer = NULL;
		const size_t down = b.down;
		int error;
		hostile_open(&hostile);
		struct block *block = rdma_block(hostile.rdma, BLOCK_OFFERED, 2 * DATA, &error);
		assert_non_null(block);
		if (kind >= 2)
			assert_int_equal(rdma_offer(hostile.rdma, block, 0, DATA, kind == 2, &offer,
						    &descriptor),
					 0);
		if (kind == 4)
			descriptor.offset += DATA - 100; /* beyond its end */
		if (kind == 5)
			descriptor.token ^= 0x100;
		request.len = 0;
		if (kind % 2 == 0) /* kind 2: memory that may be written, and not read */
			smb2fix_write(&request, 9, DATA, SMB2_CHANNEL_RDMA_V1, &descriptor, 1);
		else /* kind 3: memory that may be read, and not written */
			smb2fix_read(&request, 9, DATA, SMB2_CHANNEL_RDMA_V1, &descriptor, 1);
		hostile_send(&hostile);
		assert_true(wait_for(&b.down, down + 1));
		assert_int_equal(hostile.messages, 0);
		rdma_offer_end(offer);
		block_put(block);
		hostile_close(&hostile);
		UNTIL(live(&b) == 1);
		/* The other one goes on. */
		const size_t messages = client->messages;
		send_write(client, 10 + kind, DATA);
		assert_true(wait_for(&client->messages, messages + 1));
		assert_int_equal(client->wrong, 0);
	}
}

/* Channels that are refused before any transfer: the server hears of a request that it refuses, and
 * the connection goes on. */
static void wrong_channels_are_refused(void **state)
{
	(void)state;
	struct hostile hostile;
	struct smbdirect_descriptor many[SERVE_MANY];
	memset(many, 0, sizeof(many));
	hostile_open(&hostile);
	for (size_t i = 0; i < SERVE_MANY; i++)
		many[i] = (struct smbdirect_descriptor){ .token = 1, .length = 1 };
	request.len = 0;
	smb2fix_write(&request, 1, SERVE_MANY, SMB2_CHANNEL_RDMA_V1, many, SERVE_MANY);
	hostile_send(&hostile);
	many[0].length = 10;
	request.len = 0;
	smb2fix_read(&request, 2, DATA, SMB2_CHANNEL_RDMA_V1, many, 1); /* more than it names */
	hostile_send(&hostile);
	assert_true(wait_for(&hostile.messages, 1));
	UNTIL(view_of(&b).channels_refused >= 1);
	assert_int_equal(hostile.ended, 0);
	hostile_close(&hostile);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(data_go_by_rdma),
		TEST(signed_data_go_in_messages),
		TEST(memory_is_bounded),
		TEST(a_slow_server_holds_the_client),
		TEST(the_server_ends_it),
		TEST(without_a_server),
		TEST(nobody_serves_smb_direct),
		TEST(an_administrator_ends_it),
		TEST(the_rnic_goes),
		TEST(the_last_message_that_connects_is_lost),
		TEST(connections_are_limited),
		TEST(listeners_tell_what_is_wrong),
		TEST(writes_come_before_the_response),
		TEST(wrong_tokens_end_their_connection_alone),
		TEST(wrong_channels_are_refused),
	};
	signal(SIGPIPE, SIG_IGN); /* as smcrd does */
	return cmocka_run_group_tests_name("smbgate_soft", tests, NULL, NULL);
}
