/* SPDX-License-Identifier: MIT */
/*
 * Measures the software RNIC between two network namespaces that a veth pair joins, and TCP over
 * the same pair. Each side is a process. Needs root; the namespaces end with the processes.
 *
 *   roce_bench [--mtu BYTES] [--seconds S] [--rounds N] [--size BYTES] [--spin] [--pin]
 *              [--only bulk|read|send|latency] [--no-tcp]
 *
 * Each round measures, one after the other: bulk (RDMA WRITEs of SIZE bytes, each with a 44-byte
 * SEND behind it, one way), TCP bulk, RDMA READs of SIZE bytes, SENDs of SIZE bytes into buffers
 * that the receiver's user posts, latency (64-byte WRITE + SEND, ping-pong), TCP latency. READ and
 * SEND are compared with the bulk of the same run, which is measured with them. Medians of the
 * rounds are printed. --spin: both sides poll and yield instead of sleeping.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/rnic/rnic.h"

#define WINDOW   16 /* messages of bulk under way */
#define MAX_SIZE (4u << 20)
#define TCP_PORT 7000
#define ROUNDS   99
#define SEND_LEN 44
#define PINGS    20000
#define BUFFERS  (2 * WINDOW) /* posted by the receiver of bulk SENDs */
#define READS    16           /* at a time */

static unsigned int mtu = 1500;
static unsigned int seconds = 2;
static unsigned int rounds = 3;
static unsigned int size = 262144;
static bool spin, pin;
static bool measure_bulk = true, measure_read = true, measure_send = true;
static bool measure_latency = true, measure_tcp = true;

struct hello {
	struct rnic_qp_peer peer;
	uint32_t user_qpn;
	uint64_t mem;
	uint32_t rkey;
};

/* The kinds of bulk. */
enum bulk {
	BULK_WRITE,
	BULK_READ, /* the data come to the side that asks */
	BULK_SEND,
	BULK_KINDS,
};

/* The state of one process. */
struct side {
	int which;
	int sock; /* to the other process, for the start and end of each part */
	struct event_base *base;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_mr *mr, *source; /* the same memory, for the peer and for own requests */
	struct rnic_qp *qp;
	struct rnic_qp *user_qp; /* for READs, and SENDs into buffers that are posted here */
	uint8_t *mem;
	struct hello other;
	uint64_t received, completed;
	uint64_t buffers; /* posted so far */
	bool echo;        /* answer each message at once, from the callback */
	uint64_t posted;
	double sent_at;
	double *samples;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double clock_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu_now(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void turn(struct side *s)
{
	if (!spin) {
		event_base_loop(s->base, EVLOOP_ONCE);
		return;
	}
	event_base_loop(s->base, EVLOOP_NONBLOCK);
	sched_yield();
}

static bool post_write(struct side *s, size_t at, uint32_t len)
{
	static const uint8_t note[SEND_LEN];
	struct rnic_send_wr wr[2] = {
		{ .opcode = RNIC_WR_RDMA_WRITE,
		  .num_sge = 1,
		  .sge = { { s->mem + at, len, rnic_mr_lkey(s->source) } },
		  .remote_addr = s->other.mem + MAX_SIZE + at,
		  .rkey = s->other.rkey },
		{ .opcode = RNIC_WR_SEND,
		  .flags = RNIC_SEND_INLINE | RNIC_SEND_SIGNALED,
		  .num_sge = 1,
		  .sge = { { note, SEND_LEN, 0 } } },
	};
	return rnic_post_send(s->qp, wr, 2) == 0;
}

static bool post_read(struct side *s, size_t at, uint32_t len)
{
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_READ,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { s->mem + MAX_SIZE + at, len,
					      rnic_mr_lkey(s->source) } },
				   .remote_addr = s->other.mem + at,
				   .rkey = s->other.rkey };
	return rnic_post_send(s->user_qp, &wr, 1) == 0;
}

static bool post_send(struct side *s, size_t at, uint32_t len)
{
	struct rnic_send_wr wr = { .opcode = RNIC_WR_SEND,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { s->mem + at, len, rnic_mr_lkey(s->source) } } };
	return rnic_post_send(s->user_qp, &wr, 1) == 0;
}

/* Post the next receive buffer for bulk. */
static void post_buffer(struct side *s)
{
	struct rnic_recv_wr wr = { .addr = s->mem + MAX_SIZE + s->buffers++ * size % MAX_SIZE,
				   .length = size,
				   .lkey = rnic_mr_lkey(s->source) };
	if (rnic_post_recv(s->user_qp, &wr, 1))
		die("post a buffer");
}

static void on_message(struct side *s)
{
	double now = clock_now();
	s->received++;
	if (!s->echo)
		return;
	if (s->which == 0) {
		s->samples[s->received - 1] = (now - s->sent_at) * 1e6;
		s->sent_at = now;
	}
	if (s->posted < PINGS)
		s->posted += post_write(s, 0, 64);
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct side *s = ctx;
	for (size_t i = 0; i < n; i++) {
		if (wc[i].status != RNIC_WC_SUCCESS) {
			fprintf(stderr, "roce_bench: %s\n", rnic_wc_status_text(wc[i].status));
			exit(1);
		}
		if (wc[i].is_recv && qp == s->user_qp)
			post_buffer(s);
		else if (wc[i].is_recv)
			on_message(s);
		else
			s->completed++;
	}
}

static void tell(struct side *s, const void *data, size_t len)
{
	if (write(s->sock, data, len) != (ssize_t)len)
		die("write");
}

static void hear(struct side *s, void *data, size_t len)
{
	if (recv(s->sock, data, len, MSG_WAITALL) != (ssize_t)len)
		die("the other side is gone");
}

/* Wait until both sides have come here. */
static void meet(struct side *s)
{
	char c = 'x';
	tell(s, &c, 1);
	hear(s, &c, 1);
}

static void open_side(struct side *s)
{
	char error[RNIC_ERROR_LEN];
	s->base = event_base_new();
	struct rnic_open_params params = { .base = s->base };
	struct rnic_qp_params qp = { .send_depth = 4 * WINDOW,
				     .recv_depth = 1024,
				     .recv_size = 64,
				     .on_completion = on_completion,
				     .ctx = s };
	struct rnic_qp_params user_qp = { .send_depth = 4 * WINDOW,
					  .recv_depth = BUFFERS,
					  .user_receives = true,
					  .on_completion = on_completion,
					  .ctx = s };
	if (rnic_open(s->which ? "soft:t1" : "soft:t0", &params, &s->rnic, error)) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	s->mem = mmap(NULL, 2 * MAX_SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->mem == MAP_FAILED || rnic_pd_alloc(s->rnic, &s->pd) ||
	    rnic_mr_register(s->pd, s->mem, 2 * MAX_SIZE,
			     RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE |
				     RNIC_ACCESS_REMOTE_READ,
			     &s->mr) ||
	    rnic_mr_register(s->pd, s->mem, 2 * MAX_SIZE, RNIC_ACCESS_LOCAL_WRITE, &s->source) ||
	    rnic_qp_create(s->pd, &qp, &s->qp) || rnic_qp_create(s->pd, &user_qp, &s->user_qp))
		die("out of memory");
	for (int i = 0; i < BUFFERS; i++)
		post_buffer(s);

	struct rnic_info info;
	rnic_get_info(s->rnic, &info);
	struct hello own = { .peer = { .qpn = rnic_qp_num(s->qp), .rq_psn = 0x123 },
			     .user_qpn = rnic_qp_num(s->user_qp),
			     .mem = rnic_mr_vaddr(s->mr),
			     .rkey = rnic_mr_rkey(s->mr) };
	own.peer.path_mtu = info.max_path_mtu;
	memcpy(own.peer.gid, info.gids[0].raw, 16);
	memcpy(own.peer.mac, info.mac, 6);
	tell(s, &own, sizeof(own));
	hear(s, &s->other, sizeof(s->other));
	struct rnic_qp_send_params start = { .sq_psn = 0x123, .retry_ms = 4000, .rnr_retry = 7 };
	if (rnic_qp_connect(s->qp, &s->other.peer) || rnic_qp_start(s->qp, &start))
		die("connect");
	struct rnic_qp_peer user_peer = s->other.peer;
	user_peer.qpn = s->other.user_qpn;
	user_peer.reads_answered = start.reads_asked = READS;
	if (rnic_qp_connect(s->user_qp, &user_peer) || rnic_qp_start(s->user_qp, &start))
		die("connect");
}

/* What the sender of bulk tells the receiver at the end, and what the receiver answers. */
struct result {
	uint64_t messages;
	double cpu;
};

static void roce_bulk_send(struct side *s, enum bulk kind, double *ret_rate, double *ret_cpu)
{
	static bool (*const post[])(struct side *, size_t, uint32_t) = {
		[BULK_WRITE] = post_write, [BULK_READ] = post_read, [BULK_SEND] = post_send
	};
	double start = clock_now(), cpu = cpu_now();
	uint64_t posted = 0;
	s->completed = 0;
	meet(s);
	while (clock_now() - start < seconds) {
		while (posted < s->completed + WINDOW &&
		       post[kind](s, posted * size % MAX_SIZE, size))
			posted++;
		turn(s);
	}
	while (s->completed < posted)
		turn(s);
	double took = clock_now() - start;
	struct result r = { .messages = posted, .cpu = cpu_now() - cpu };
	tell(s, &r, sizeof(r));
	hear(s, &r, sizeof(r));
	*ret_rate = (double)posted * size / took / 1e9;
	*ret_cpu = (r.cpu + cpu_now() - cpu) / ((double)posted * size / 1e9);
}

/* Answer the other side's packets until it says on the socket that it is done. */
static void serve(struct side *s)
{
	char c;
	while (recv(s->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 1) {
		struct timeval tick = { 0, 20000 };
		event_base_loopexit(s->base, &tick);
		if (spin) {
			for (int i = 0; i < 1000; i++)
				turn(s);
		} else {
			event_base_loop(s->base, 0);
		}
	}
}

static void roce_bulk_receive(struct side *s)
{
	double cpu = cpu_now();
	struct result r;
	s->received = 0;
	meet(s);
	serve(s);
	hear(s, &r, sizeof(r));
	r.cpu = cpu_now() - cpu;
	tell(s, &r, sizeof(r));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return n ? values[n / 2] : 0;
}

static double roce_latency(struct side *s)
{
	s->posted = s->received = s->completed = 0;
	s->echo = true;
	meet(s);
	if (s->which == 0) {
		s->sent_at = clock_now();
		s->posted += post_write(s, 0, 64);
	}
	while (s->completed < PINGS || s->received < PINGS)
		turn(s);
	s->echo = false;
	/* The other side may still wait for its last acknowledgement. */
	char c = 'x';
	tell(s, &c, 1);
	serve(s);
	hear(s, &c, 1);
	return median(s->samples, PINGS);
}

static int tcp_connect(struct side *s)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT) };
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, "10.77.0.2", &sin.sin_addr);
	if (s->which == 1) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 1))
			die("listen");
		meet(s);
		int conn = accept(fd, NULL, NULL);
		close(fd);
		fd = conn;
	} else {
		meet(s);
		if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
			die("connect");
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void tcp_read(int fd, uint8_t *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = recv(fd, buf + at, len - at, spin ? MSG_DONTWAIT : 0);
		if (n > 0)
			at += (size_t)n;
		else if (n == 0)
			return;
		else if (errno == EAGAIN)
			sched_yield();
		else
			die("recv");
	}
}

static void tcp_bulk(struct side *s, double *ret_rate, double *ret_cpu)
{
	int fd = tcp_connect(s);
	double start = clock_now(), cpu = cpu_now();
	struct result r = { 0 };
	if (s->which == 0) {
		uint64_t total = 0;
		while (clock_now() - start < seconds) {
			ssize_t n = send(fd, s->mem, size, 0);
			if (n < 0)
				die("send");
			total += (uint64_t)n;
		}
		double took = clock_now() - start;
		shutdown(fd, SHUT_WR);
		hear(s, &r, sizeof(r));
		*ret_rate = (double)total / took / 1e9;
		*ret_cpu = (r.cpu + cpu_now() - cpu) / ((double)total / 1e9);
	} else {
		while (recv(fd, s->mem, size, 0) > 0)
			;
		r.cpu = cpu_now() - cpu;
		tell(s, &r, sizeof(r));
	}
	close(fd);
}

static double tcp_latency(struct side *s)
{
	int fd = tcp_connect(s);
	for (uint64_t i = 0; i < PINGS; i++) {
		double start = clock_now();
		if (s->which == 0 && send(fd, s->mem, 64, 0) != 64)
			die("send");
		tcp_read(fd, s->mem, 64);
		if (s->which == 1 && send(fd, s->mem, 64, 0) != 64)
			die("send");
		s->samples[i] = (clock_now() - start) * 1e6;
	}
	close(fd);
	return median(s->samples, PINGS);
}

static void show(const struct side *s)
{
	struct rnic_stats t;
	rnic_get_stats(s->rnic, &t);
	printf("rnic %d: tx %lu packets, rx %lu, retransmits %lu, naks sent %lu, timeouts %lu, "
	       "duplicates %lu, out of order %lu, dropped %lu\n",
	       s->which, t.tx_packets, t.rx_packets, t.retransmits, t.naks_sent, t.timeouts,
	       t.duplicates, t.out_of_order,
	       t.drop_malformed + t.drop_icrc + t.drop_qp + t.drop_peer + t.drop_psn +
		       t.drop_access);
}

/* What each round has measured. */
struct results {
	double bulk[BULK_KINDS][ROUNDS], bulk_cpu[BULK_KINDS][ROUNDS];
	double tcp[ROUNDS], tcp_cpu[ROUNDS], latency[ROUNDS], tcp_latency[ROUNDS];
};

static void one_round(struct side *s, struct results *r, unsigned int i)
{
	const bool measured[] = {
		[BULK_WRITE] = measure_bulk, [BULK_READ] = measure_read, [BULK_SEND] = measure_send
	};
	for (int kind = 0; kind < BULK_KINDS; kind++) {
		if (measured[kind] && s->which == 0)
			roce_bulk_send(s, (enum bulk)kind, &r->bulk[kind][i],
				       &r->bulk_cpu[kind][i]);
		else if (measured[kind])
			roce_bulk_receive(s);
		if (kind == BULK_WRITE && measure_bulk && measure_tcp)
			tcp_bulk(s, &r->tcp[i], &r->tcp_cpu[i]);
	}
	if (measure_latency) {
		r->latency[i] = roce_latency(s);
		r->tcp_latency[i] = measure_tcp ? tcp_latency(s) : 0;
	}
}

static void print_results(const struct results *r, unsigned int i)
{
	printf("bulk %.2f GB/s (%.2f CPU-s/GB), READ %.2f (%.2f), SEND %.2f (%.2f), TCP %.2f "
	       "(%.2f); latency %.1f us, TCP %.1f\n",
	       r->bulk[BULK_WRITE][i], r->bulk_cpu[BULK_WRITE][i], r->bulk[BULK_READ][i],
	       r->bulk_cpu[BULK_READ][i], r->bulk[BULK_SEND][i], r->bulk_cpu[BULK_SEND][i],
	       r->tcp[i], r->tcp_cpu[i], r->latency[i], r->tcp_latency[i]);
}

/* The median of the ratio to the bulk of the same round. */
static double ratio(const struct results *r, enum bulk kind)
{
	double ratios[ROUNDS];
	for (unsigned int i = 0; i < rounds; i++)
		ratios[i] = r->bulk[kind][i] / r->bulk[BULK_WRITE][i];
	return median(ratios, rounds);
}

static void print_medians(struct results *r)
{
	const double of_write[] = {
		[BULK_READ] = ratio(r, BULK_READ), [BULK_SEND] = ratio(r, BULK_SEND)
	};
	for (int kind = 0; kind < BULK_KINDS; kind++) {
		r->bulk[kind][0] = median(r->bulk[kind], rounds);
		r->bulk_cpu[kind][0] = median(r->bulk_cpu[kind], rounds);
	}
	r->tcp[0] = median(r->tcp, rounds);
	r->tcp_cpu[0] = median(r->tcp_cpu, rounds);
	r->latency[0] = median(r->latency, rounds);
	r->tcp_latency[0] = median(r->tcp_latency, rounds);
	printf("median, MTU %u%s%s: ", mtu, spin ? ", spinning" : "", pin ? ", pinned" : "");
	print_results(r, 0);
	if (measure_read || measure_send)
		printf("of the bulk in the same round: READ %.2f, SEND %.2f\n", of_write[BULK_READ],
		       of_write[BULK_SEND]);
}

static void run(struct side *s)
{
	static struct results results;
	s->samples = calloc(PINGS, sizeof(*s->samples));
	if (pin) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET((size_t)s->which, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	open_side(s);
	for (unsigned int i = 0; i < rounds; i++) {
		one_round(s, &results, i);
		if (s->which != 0)
			continue;
		printf("round %u: ", i + 1);
		print_results(&results, i);
	}
	meet(s);
	show(s);
	if (s->which == 0)
		print_medians(&results);
	fflush(stdout);
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void shell(const char *format, ...)
{
	char command[256];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command) != 0) {
		fprintf(stderr, "roce_bench: failed: %s\n", command);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "mtu", required_argument, NULL, 'm' },
		{ "seconds", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "size", required_argument, NULL, 'b' },
		{ "spin", no_argument, NULL, 'y' },
		{ "pin", no_argument, NULL, 'p' },
		{ "only", required_argument, NULL, 'o' },
		{ "no-tcp", no_argument, NULL, 'n' },
		{ 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 'm': mtu = (unsigned int)atoi(optarg); break;
		case 's': seconds = (unsigned int)atoi(optarg); break;
		case 'r': rounds = (unsigned int)atoi(optarg); break;
		case 'b': size = (unsigned int)atoi(optarg); break;
		case 'y': spin = true; break;
		case 'p': pin = true; break;
		case 'n': measure_tcp = false; break;
		case 'o':
			measure_latency = strcmp(optarg, "latency") == 0;
			measure_read = strcmp(optarg, "read") == 0;
			measure_send = strcmp(optarg, "send") == 0;
			measure_bulk = !measure_latency;
			break;
		default: return 2;
		}
	}
	if (rounds < 1 || rounds > ROUNDS || size < 1 || MAX_SIZE % size != 0)
		return fprintf(stderr, "roce_bench: rounds 1..%d; the size must divide %u\n",
			       ROUNDS, MAX_SIZE),
		       2;
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || unshare(CLONE_NEWNET))
		die("network namespace");
	pid_t child = fork();
	struct side side = { .which = child == 0, .sock = fds[child == 0] };
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET))
			die("network namespace");
		meet(&side);
		meet(&side);
		shell("ip addr add 10.77.0.2/24 dev t1 && ip link set t1 up");
		meet(&side);
		run(&side);
		return 0;
	}
	meet(&side);
	shell("ip link add t0 mtu %u type veth peer name t1 mtu %u netns %d", mtu, mtu, (int)child);
	shell("ip addr add 10.77.0.1/24 dev t0 && ip link set t0 up");
	meet(&side);
	meet(&side);
	run(&side);
	int status;
	waitpid(child, &status, 0);
	return status != 0;
}
