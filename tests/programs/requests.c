/* SPDX-License-Identifier: MIT */
/*
 * Ordinary TCP clients that connect, send a request, verify the answer, and begin again, until told
 * to stop; and their server. Tests restart smcrd meanwhile to see what programs notice.
 *
 *   requests serve ADDRESS PORT
 *   requests ask ADDRESS PORT [--clients N] [--pause MS] [--size BYTES]
 *
 *   serve      a thread for each connection; PORT is served by a blocking accept(), PORT + 1 by
 *              poll() and a listener that does not block
 *   --clients  client processes, each of which makes one connection after the other (10)
 *   --pause    longest pause between two requests of a connection (20)
 *   --size     most bytes in a request and in an answer (100000); one in sixteen may have 32 times
 *              as many, so that whoever sends them waits for room
 *
 * A connection carries one to three requests. Who closes first, whether connect() blocks, whether
 * the client ends its direction early, and all sizes and contents are random. After SIGTERM clients
 * finish their connection and end. Lines on standard output; times in seconds of CLOCK_MONOTONIC,
 * which all processes of a machine share:
 *
 *   ready
 *   now ok N pair N open N      ten times a second: connections that were right; how many of them
 *                               were no TCP sockets at their end (SMC-R, or relayed); those open
 *   event SIDE WHAT start T end T KIND STEP bytes N port N HOW: TEXT
 *                               a connection that was not right. WHAT: reset; eof, an unexpected
 *                               end of file; proposal, the beginning of a CLC message; wrong,
 *                               other bytes than were sent; hang; error. KIND: pair or tcp
 *   total WHAT N ...
 *
 * Exit status 0: whatever happened to connections; 1: the program itself failed; 2: usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE_MAX_ALLOWED (1u << 24)
#define CLIENTS_MAX      1000
#define PATIENCE_S       40 /* more than the 30 s that a rendezvous may take */
#define TICK_MS          100
#define MAGIC_ASK        0x31304b41u
#define MAGIC_ANSWER     0x32304b41u
#define CLC_EYECATCHER   0xd9c3d4e2u /* E2 D4 C3 D9 as a little-endian word */

/** Header of a message, in the byte order of the machine, on which both ends run. */
struct head {
	uint32_t magic;
	uint32_t flags;
	uint64_t seed;
	uint32_t length;        /* of the content that follows */
	uint32_t answer_length; /* in a request only */
};

#define FLAG_LAST          1u /* no further request on this connection */
#define FLAG_SERVER_CLOSES 2u /* the server closes first, after the last answer */

enum what { OK, RESET, END_OF_FILE, PROPOSAL, WRONG, HANG, FAILURE, WHATS };
static const char *const what_names[WHATS] = { "ok",    "reset", "eof",  "proposal",
					       "wrong", "hang",  "error" };

/** What all processes count together. */
struct counts {
	_Atomic uint64_t what[WHATS];
	_Atomic uint64_t pair, open;
};

/** One connection, as one side sees it. */
struct visit {
	int fd;
	bool server, nonblocking;
	const char *step; /* what the side does at present */
	double start;
	uint64_t received;
	uint16_t port;       /* the client's */
	bool may_have_ended; /* at the server: the client may have sent its end of file */
	enum what what;
};

static struct {
	struct sockaddr_in addr;
	uint32_t clients, pause_ms, size;
} opt = { .clients = 10, .pause_ms = 20, .size = 100000 };

static struct counts *counts;
static volatile sig_atomic_t stopping;

/* ---- time, chance, output */

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

static uint32_t below(uint64_t *state, uint32_t limit)
{
	return limit ? (uint32_t)(next_random(state) % limit) : 0;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Ask the kernel: the C library's getsockopt() may be interposed. */
static bool is_tcp_socket(int fd)
{
	int domain = 0;
	socklen_t len = sizeof(domain);
	return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       domain == AF_INET;
}

/* Report what is wrong with a connection; only the first report counts. Each line is one write(),
 * because many processes share the file. */
__attribute__((format(printf, 3, 4))) static void wrong(struct visit *v, enum what what,
							const char *text, ...)
{
	char why[160], line[400];
	va_list ap;
	if (v->what != OK)
		return;
	v->what = what;
	va_start(ap, text);
	vsnprintf(why, sizeof(why), text, ap);
	va_end(ap);
	int n = snprintf(line, sizeof(line),
			 "event %s %s start %.6f end %.6f %s %s bytes %" PRIu64 " port %u %s: %s\n",
			 v->server ? "server" : "client", what_names[what], v->start, now(),
			 is_tcp_socket(v->fd) ? "tcp" : "pair", v->step, v->received, v->port,
			 v->nonblocking ? "nonblocking" : "blocking", why);
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		die("requests: standard output");
}

static void wrong_errno(struct visit *v, int error)
{
	enum what what = error == ECONNRESET                     ? RESET
			 : error == EAGAIN || error == ETIMEDOUT ? HANG
								 : FAILURE;
	wrong(v, what, "%s", strerror(error));
}

/* ---- content */

static void fill(uint8_t *buf, size_t len, uint64_t seed)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = next_random(&seed);
		memcpy(buf + at, &word, len - at < 8 ? len - at : 8);
	}
}

static void wrong_bytes(struct visit *v, const uint8_t *got, size_t len)
{
	uint32_t word = 0;
	memcpy(&word, got, len < 4 ? len : 4);
	wrong(v, word == CLC_EYECATCHER ? PROPOSAL : WRONG, "%zu bytes from %02x %02x %02x %02x on",
	      len, got[0], len > 1 ? got[1] : 0, len > 2 ? got[2] : 0, len > 3 ? got[3] : 0);
}

static bool check_content(struct visit *v, const uint8_t *got, size_t len, uint64_t seed)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = next_random(&seed);
		size_t n = len - at < 8 ? len - at : 8;
		if (memcmp(got + at, &word, n) != 0) {
			wrong_bytes(v, got + at, len - at);
			return false;
		}
	}
	return true;
}

/* ---- bytes */

static bool wait_for(struct visit *v, short events)
{
	struct pollfd p = { .fd = v->fd, .events = events };
	int rc = poll(&p, 1, PATIENCE_S * 1000);
	if (rc == 0)
		wrong(v, HANG, "nothing for %d s", PATIENCE_S);
	return rc > 0;
}

/* After EPIPE, read from the socket. As with TCP, the read must give the end of file that the other
 * side has sent before. */
static void ask_why(struct visit *v)
{
	char byte;
	ssize_t n = recv(v->fd, &byte, 1, 0);
	if (n == 0 && v->may_have_ended)
		wrong(v, RESET, "EPIPE behind the other side's end");
	else if (n == 0)
		wrong(v, END_OF_FILE, "EPIPE, then end of file");
	else if (n > 0)
		wrong(v, WRONG, "EPIPE, then a byte %02x", (unsigned)byte & 0xff);
	else
		wrong_errno(v, errno);
}

static bool send_all(struct visit *v, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	while (len > 0) {
		ssize_t n = send(v->fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN && v->nonblocking) {
			if (!wait_for(v, POLLOUT))
				return false;
			continue;
		}
		if (n < 0) {
			if (errno == EPIPE)
				ask_why(v);
			else
				wrong_errno(v, errno);
			return false;
		}
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/** @return len; less at an end of file; -1: the connection failed, which has been reported */
static ssize_t receive(struct visit *v, void *buf, size_t len)
{
	size_t got = 0;
	while (got < len) {
		ssize_t n = recv(v->fd, (uint8_t *)buf + got, len - got, 0);
		if (n < 0 && errno == EAGAIN && v->nonblocking) {
			if (!wait_for(v, POLLIN))
				return -1;
			continue;
		}
		if (n < 0) {
			wrong_errno(v, errno);
			return -1;
		}
		if (n == 0)
			break;
		got += (size_t)n;
		v->received += (size_t)n;
	}
	return (ssize_t)got;
}

/* Receive a message. @return 1; 0: end of file before the message; -1: failed and reported */
static int receive_message(struct visit *v, uint32_t magic, struct head *head, uint8_t *content)
{
	ssize_t n = receive(v, head, sizeof(*head));
	if (n == 0)
		return 0;
	if (n > 0 && head->magic != magic && n >= 4) {
		wrong_bytes(v, (uint8_t *)head, (size_t)n);
		return -1;
	}
	if (n == (ssize_t)sizeof(*head)) {
		if (head->length > SIZE_MAX_ALLOWED || head->answer_length > SIZE_MAX_ALLOWED) {
			wrong_bytes(v, (uint8_t *)head, (size_t)n);
			return -1;
		}
		n = receive(v, content, head->length);
		if (n == (ssize_t)head->length)
			return check_content(v, content, head->length, head->seed) ? 1 : -1;
	}
	if (n >= 0)
		wrong(v, END_OF_FILE, "end of file in a message");
	return -1;
}

static bool send_message(struct visit *v, uint8_t *buf, const struct head *head)
{
	memcpy(buf, head, sizeof(*head));
	fill(buf + sizeof(*head), head->length, head->seed);
	return send_all(v, buf, sizeof(*head) + head->length);
}

static void finished(struct visit *v)
{
	if (v->what == OK && !is_tcp_socket(v->fd))
		counts->pair++;
	counts->what[v->what]++;
	counts->open--;
	close(v->fd);
}

/* ---- server */

static void answer_requests(struct visit *v, uint8_t *buf)
{
	struct head head;
	uint32_t flags = 0;
	for (;;) {
		v->step = flags & FLAG_LAST ? "end" : "request";
		int rc = receive_message(v, MAGIC_ASK, &head, buf);
		if (rc == 0 && !(flags & FLAG_LAST))
			wrong(v, END_OF_FILE, "end of file where a request belongs");
		if (rc <= 0)
			return;
		flags = head.flags;
		v->may_have_ended = flags & FLAG_LAST;
		head = (struct head){ MAGIC_ANSWER, flags, ~head.seed, head.answer_length, 0 };
		v->step = "answer";
		if (!send_message(v, buf, &head))
			return;
		if ((flags & FLAG_LAST) && (flags & FLAG_SERVER_CLOSES))
			return;
	}
}

static void *serve_visit(void *arg)
{
	struct visit *v = arg;
	uint8_t *buf = malloc(sizeof(struct head) + SIZE_MAX_ALLOWED);
	struct timeval patience = { .tv_sec = 2 * PATIENCE_S };
	if (!buf)
		die("requests: malloc");
	setsockopt(v->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(v->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	answer_requests(v, buf);
	finished(v);
	free(buf);
	free(v);
	return NULL;
}

static void *accept_visits(void *arg)
{
	int listener = *(int *)arg;
	bool nonblocking = fcntl(listener, F_GETFL) & O_NONBLOCK;
	/* pthread_detach() looks at a thread that may have ended, and freed itself, meanwhile. */
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	for (;;) {
		struct sockaddr_in peer = { 0 };
		socklen_t len = sizeof(peer);
		struct pollfd p = { .fd = listener, .events = POLLIN };
		if (nonblocking)
			poll(&p, 1, -1);
		int fd = accept(listener, (struct sockaddr *)&peer, &len);
		if (fd < 0) {
			if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
				continue;
			die("requests: accept");
		}
		pthread_t thread;
		struct visit *v = calloc(1, sizeof(*v));
		if (!v)
			die("requests: calloc");
		*v = (struct visit){ .fd = fd,
				     .server = true,
				     .step = "request",
				     .start = now(),
				     .port = ntohs(peer.sin_port) };
		counts->open++;
		if (pthread_create(&thread, &detached, serve_visit, v) != 0)
			die("requests: pthread_create");
	}
	return NULL;
}

static int listen_at(uint16_t port, int flags)
{
	struct sockaddr_in in = opt.addr;
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	in.sin_port = htons(port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 1024) < 0)
		die("requests: listen");
	return fd;
}

static void start_serving(void)
{
	static int listeners[2];
	uint16_t port = ntohs(opt.addr.sin_port);
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		listeners[i] = listen_at((uint16_t)(port + i), i ? SOCK_NONBLOCK : 0);
		if (pthread_create(&thread, NULL, accept_visits, &listeners[i]) != 0)
			die("requests: pthread_create");
	}
}

/* ---- client */

/* Note the client's port, by which a failed connection can be found in other logs. */
static void note_port(struct visit *v)
{
	struct sockaddr_in own = { 0 };
	socklen_t len = sizeof(own);
	if (getsockname(v->fd, (struct sockaddr *)&own, &len) == 0)
		v->port = ntohs(own.sin_port);
}

static bool connect_visit(struct visit *v, const struct sockaddr_in *to)
{
	int error = connect(v->fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ? errno : 0;
	note_port(v);
	if (error == 0)
		return true;
	if (!v->nonblocking || error != EINPROGRESS) {
		wrong_errno(v, error);
		return false;
	}
	socklen_t len = sizeof(error);
	if (!wait_for(v, POLLOUT))
		return false;
	if (getsockopt(v->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error)
		wrong_errno(v, error);
	return error == 0;
}

static uint32_t some_length(uint64_t *chance)
{
	uint64_t most = below(chance, 16) ? opt.size : (uint64_t)opt.size * 32;
	return below(chance, most < SIZE_MAX_ALLOWED ? (uint32_t)most : SIZE_MAX_ALLOWED);
}

static bool ask_once(struct visit *v, uint8_t *buf, uint64_t *chance, uint32_t flags)
{
	struct head head = { MAGIC_ASK, flags, next_random(chance), some_length(chance),
			     some_length(chance) };
	uint64_t seed = ~head.seed;
	uint32_t length = head.answer_length;
	v->step = "request";
	if (!send_message(v, buf, &head))
		return false;
	if ((flags & FLAG_LAST) && below(chance, 2) && shutdown(v->fd, SHUT_WR) < 0) {
		/* ENOTCONN is what TCP gives after a reset. */
		wrong_errno(v, errno == ENOTCONN ? ECONNRESET : errno);
		return false;
	}
	v->step = "answer";
	int rc = receive_message(v, MAGIC_ANSWER, &head, buf);
	if (rc == 0)
		wrong(v, END_OF_FILE, "end of file where an answer belongs");
	if (rc > 0 && (head.seed != seed || head.length != length)) {
		wrong(v, WRONG, "the answer to another request");
		return false;
	}
	return rc > 0;
}

static void ask_questions(struct visit *v, uint8_t *buf, uint64_t *chance)
{
	uint32_t closes = below(chance, 2) ? FLAG_SERVER_CLOSES : 0;
	for (uint32_t left = 1 + below(chance, 3); left > 0; left--) {
		if (!ask_once(v, buf, chance, closes | (left == 1 ? FLAG_LAST : 0)))
			return;
		usleep(below(chance, opt.pause_ms * 1000));
	}
	v->step = "end";
	if (closes && receive(v, buf, 1) > 0)
		wrong_bytes(v, buf, 1);
}

static void visit_once(uint8_t *buf, uint64_t *chance)
{
	struct sockaddr_in to = opt.addr;
	struct visit v = { .nonblocking = below(chance, 2), .step = "connect", .start = now() };
	to.sin_port = htons((uint16_t)(ntohs(to.sin_port) + below(chance, 2)));
	v.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (v.nonblocking ? SOCK_NONBLOCK : 0), 0);
	if (v.fd < 0)
		die("requests: socket");
	counts->open++;
	alarm(2 * PATIENCE_S); /* its default action ends the process, which its parent reports */
	if (connect_visit(&v, &to))
		ask_questions(&v, buf, chance);
	alarm(0);
	finished(&v);
}

static void stop(int sig)
{
	(void)sig;
	stopping = 1;
}

static void client(uint32_t number)
{
	uint64_t chance = number + ((uint64_t)getpid() << 32);
	uint8_t *buf = malloc(sizeof(struct head) + SIZE_MAX_ALLOWED);
	if (!buf)
		die("requests: malloc");
	/* SIGTERM is blocked during a connection, so that it interrupts no call. */
	sigset_t stops;
	sigemptyset(&stops);
	sigaddset(&stops, SIGTERM);
	sigprocmask(SIG_BLOCK, &stops, NULL);
	do {
		visit_once(buf, &chance);
		sigpending(&stops);
	} while (!sigismember(&stops, SIGTERM));
	exit(0);
}

/* ---- start and end */

static void print_now(void)
{
	printf("now ok %" PRIu64 " pair %" PRIu64 " open %" PRIu64 "\n", counts->what[OK],
	       counts->pair, counts->open);
	fflush(stdout);
}

static void print_total(void)
{
	printf("total");
	for (int i = 0; i < WHATS; i++)
		printf(" %s %" PRIu64, what_names[i], counts->what[i]);
	printf(" pair %" PRIu64 " open %" PRIu64 "\n", counts->pair, counts->open);
	fflush(stdout);
}

/* Reap clients, and report those that were killed. @return how many are left */
static int reap(int left)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		left--;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			printf("event client %s start 0 end %.6f tcp process bytes 0 port 0 : "
			       "client %d ended with status %#x\n",
			       what_names[HANG], now(), (int)pid, (unsigned)status);
			counts->what[HANG]++;
		}
	}
	return left;
}

static void run_clients(void)
{
	static pid_t pids[CLIENTS_MAX];
	uint32_t left = opt.clients;
	for (uint32_t i = 0; i < opt.clients; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("requests: fork");
		if (pids[i] == 0)
			client(i);
	}
	for (bool told = false; left > 0; usleep(TICK_MS * 1000)) {
		print_now();
		if (stopping && !told) {
			for (uint32_t i = 0; i < opt.clients; i++)
				kill(pids[i], SIGTERM);
			told = true;
		}
		left = (uint32_t)reap((int)left);
	}
}

static bool parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "clients", required_argument, NULL, 'c' },
		{ "pause", required_argument, NULL, 'p' },
		{ "size", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
		if (c == '?')
			return false;
		uint32_t value = (uint32_t)strtoul(optarg, NULL, 10);
		if (c == 'c')
			opt.clients = value;
		else if (c == 'p')
			opt.pause_ms = value;
		else
			opt.size = value;
	}
	if (argc - optind != 3 || opt.clients > CLIENTS_MAX || opt.size > SIZE_MAX_ALLOWED)
		return false;
	opt.addr.sin_family = AF_INET;
	opt.addr.sin_port = htons((uint16_t)atoi(argv[optind + 2]));
	return inet_pton(AF_INET, argv[optind + 1], &opt.addr.sin_addr) == 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop, .sa_flags = SA_RESTART };
	if (!parse_options(argc, argv) ||
	    (strcmp(argv[optind], "serve") && strcmp(argv[optind], "ask"))) {
		fprintf(stderr, "usage: requests serve|ask ADDRESS PORT [--clients N] "
				"[--pause MS] [--size BYTES]\n");
		return 2;
	}
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (counts == MAP_FAILED)
		die("requests: mmap");
	sigaction(SIGTERM, &action, NULL);
	bool serving = !strcmp(argv[optind], "serve");
	if (serving)
		start_serving();
	printf("ready\n");
	fflush(stdout);
	if (!serving)
		run_clients();
	while (serving && !stopping) {
		print_now();
		usleep(TICK_MS * 1000);
	}
	print_total();
	return 0;
}
