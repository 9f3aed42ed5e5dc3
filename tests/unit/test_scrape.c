/* SPDX-License-Identifier: MIT */
/* HTTP of monitoring systems, and of other visitors of that socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/control/scrape.h"
#include "daemon/control/scrape_request.h"
#include "daemon/host/tcp_socket.h"
#include "tests/lib/tries.h"

static unsigned int slept;

/* Replaces the C library's function and counts. */
int usleep(useconds_t us)
{
	const struct timespec pause = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
	slept++;
	return nanosleep(&pause, NULL);
}

struct fixture {
	char dir[32];
	char path[64];
	struct event_base *base;
	struct scrape *scrape;
	unsigned int collected;
	size_t text_len;
};

static char *collect(void *ctx)
{
	struct fixture *fixture = ctx;
	char *text = NULL;
	fixture->collected++;
	assert_true(asprintf(&text, "%0*u", (int)fixture->text_len, fixture->collected) > 0);
	return text;
}

static struct scrape *new_scrape(struct fixture *fixture)
{
	const struct scrape_params params = { .base = fixture->base,
					      .text = collect,
					      .ctx = fixture };
	struct scrape *scrape;
	assert_int_equal(scrape_new(&params, &scrape), 0);
	return scrape;
}

static void open_scrape(struct fixture *fixture, const char *address)
{
	char text[256];
	fixture->scrape = new_scrape(fixture);
	assert_int_equal(
		scrape_listen(fixture->scrape, SCRAPE_LOCAL, fixture->path, text, sizeof(text)), 0);
	assert_int_equal(scrape_listen(fixture->scrape, SCRAPE_TCP, address, text, sizeof(text)),
			 0);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	strcpy(fixture->dir, "/tmp/test-scrape-XXXXXX");
	if (!mkdtemp(fixture->dir))
		return -1;
	snprintf(fixture->path, sizeof(fixture->path), "%s/metrics.sock", fixture->dir);
	fixture->base = event_base_new();
	fixture->text_len = 8;
	open_scrape(fixture, "");
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	scrape_close(fixture->scrape);
	assert_int_equal(access(fixture->path, F_OK), -1); /* the socket's file is gone */
	event_base_free(fixture->base);
	rmdir(fixture->dir);
	free(fixture);
	return 0;
}

static int visit(const struct fixture *fixture)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", fixture->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Runs the loop until the other end closes. @return what it has sent; the caller frees it */
static char *hear(const struct fixture *fixture, int fd)
{
	size_t len = 0, room = 1 << 20;
	char *text = calloc(1, room);
	ssize_t n = -1;
	while (n != 0) {
		event_base_loop(fixture->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		n = recv(fd, text + len, room - 1 - len, 0);
		if (n < 0 && errno == ECONNRESET)
			n = 0;
		assert_true(n >= 0 || errno == EAGAIN);
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return text;
}

static char *ask(const struct fixture *fixture, const char *request)
{
	int fd = visit(fixture);
	say(fd, request);
	return hear(fixture, fd);
}

#define REQUEST "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"

static void metrics_are_answered(void **state)
{
	char *text = ask(*state, REQUEST);
	assert_string_equal(text, "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; "
				  "version=1.0.0; charset=utf-8\r\nContent-Length: 8\r\n"
				  "Cache-Control: no-store\r\nConnection: close\r\n\r\n00000001");
	free(text);
}

static void requests_are_read_as_http_says(void **state)
{
	static const struct {
		const char *request, *status, *body;
	} rows[] = {
		{ "GET /metrics HTTP/1.0\r\n\r\n", "200 OK", "0000000" },
		{ "GET /metrics HTTP/1.1\n\n", "200 OK", "0000000" },
		{ "GET /metrics?x=y HTTP/1.1\r\n\r\n", "200 OK", "0000000" },
		{ "GET /metrics HTTP/1.1\r\nA: b\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", "200 OK",
		  "0000000" },
		{ "HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", NULL },
		{ "HEAD / HTTP/1.1\r\n\r\n", "404 Not Found", NULL },
		{ "GET / HTTP/1.1\r\n\r\n", "404 Not Found", "are at /metrics\n" },
		{ "GET /metricsx HTTP/1.1\r\n\r\n", "404 Not Found", "are at /metrics\n" },
		{ "POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "GET and HEAD" },
		{ "get /metrics HTTP/1.1\r\n\r\n", "400 Bad Request", "GET /metrics" },
		{ "GET /metrics\r\n\r\n", "400 Bad Request", "GET /metrics" },
		{ "GET /metrics HTTP/2\r\n\r\n", "400 Bad Request", "GET /metrics" },
		{ "GET /metrics HTTP/1.1 x\r\n\r\n", "400 Bad Request", "GET /metrics" },
		{ "\r\n\r\n", "400 Bad Request", "GET /metrics" },
		{ "\x16\x03\x01\r\n\r\n", "400 Bad Request", "GET /metrics" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		char *text = ask(*state, rows[i].request);
		const char *body = strstr(text, "\r\n\r\n");
		assert_non_null(body);
		if (strncmp(text, "HTTP/1.1 ", 9) != 0 ||
		    strncmp(text + 9, rows[i].status, strlen(rows[i].status)) != 0)
			fail_msg("%s: %s", rows[i].request, text);
		if (rows[i].body && !strstr(body + 4, rows[i].body))
			fail_msg("%s: %s", rows[i].request, text);
		if (!rows[i].body)
			assert_string_equal(body, "\r\n\r\n");
		assert_true(strncmp(rows[i].status, "405", 3) ||
			    strstr(text, "\r\nAllow: GET, HEAD\r\n"));
		free(text);
	}
}

/* Requests that come a byte at a time, or with the writing side shut down before the answer. */
static void slow_requests_are_answered(void **state)
{
	struct fixture *fixture = *state;
	int fd = visit(fixture);
	for (const char *c = REQUEST; *c; c++) {
		assert_int_equal(send(fd, c, 1, MSG_NOSIGNAL), 1);
		event_base_loop(fixture->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	}
	shutdown(fd, SHUT_WR);
	char *text = hear(fixture, fd);
	assert_non_null(strstr(text, "200 OK"));
	free(text);
}

static void requests_without_end_are_refused(void **state)
{
	struct fixture *fixture = *state;
	int fd = visit(fixture);
	char much[SCRAPE_MAX_REQUEST + 1];
	memset(much, 'x', sizeof(much));
	much[SCRAPE_MAX_REQUEST] = '\0';
	say(fd, much);
	char *text = hear(fixture, fd);
	assert_non_null(strstr(text, "431 Request Header Fields Too Large"));
	free(text);
}

/* To collect metrics takes time that programs need, so scrapes soon after each other share one
 * text. */
static void metrics_are_not_collected_for_each(void **state)
{
	struct fixture *fixture = *state;
	unsigned int asked = 0;
	/* On a busy machine a text may be old at each of the first requests. */
	for (; asked < 3 || (fixture->collected == asked && asked < 30); asked++)
		free(ask(fixture, REQUEST));
	assert_true(fixture->collected < asked);
	usleep(SCRAPE_FRESH_MS * 1000);
	unsigned int before = fixture->collected;
	free(ask(fixture, REQUEST));
	assert_int_equal(fixture->collected, before + 1);
}

/* A text larger than the kernel takes at once, for many visitors who share it; some of them
 * leave. */
static void long_answers_come_whole(void **state)
{
	struct fixture *fixture = *state;
	int fds[10];
	fixture->text_len = 600000;
	for (size_t i = 0; i < 10; i++) {
		fds[i] = visit(fixture);
		say(fds[i], REQUEST);
	}
	for (size_t i = 0; i < 10; i++) {
		if (i % 3 == 2) {
			close(fds[i]);
			continue;
		}
		char *text = hear(fixture, fds[i]);
		const char *body = strstr(text, "\r\n\r\n");
		assert_non_null(body);
		assert_int_equal(strlen(body + 4), 600000);
		free(text);
	}
}

/* An idle visitor is dropped when others come, and after a time anyway. */
static void idle_visitors_make_way(void **state)
{
	struct fixture *fixture = *state;
	int first = visit(fixture), others[SCRAPE_MAX_CONNS];
	char byte;
	for (size_t i = 0; i < SCRAPE_MAX_CONNS; i++) {
		others[i] = visit(fixture);
		event_base_loop(fixture->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	}
	ssize_t n = -1; /* a turn of the loop lets some of them in */
	while (n < 0) {
		event_base_loop(fixture->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		n = recv(first, &byte, 1, 0);
	}
	assert_int_equal(n, 0);
	say(others[SCRAPE_MAX_CONNS - 1], REQUEST);
	char *text = hear(fixture, others[SCRAPE_MAX_CONNS - 1]);
	assert_non_null(strstr(text, "200 OK"));
	free(text);
	for (n = -1; n < 0;) {
		event_base_loop(fixture->base, EVLOOP_ONCE);
		n = recv(others[0], &byte, 1, 0);
	}
	assert_int_equal(n, 0);
	for (size_t i = 0; i < SCRAPE_MAX_CONNS - 1; i++)
		close(others[i]);
	close(first);
}

static void addresses_are_checked(void **state)
{
	static const struct {
		const char *text;
		socklen_t len;
	} rows[] = {
		{ "127.0.0.1:9469", sizeof(struct sockaddr_in) },
		{ "0.0.0.0:1", sizeof(struct sockaddr_in) },
		{ "[::1]:65535", sizeof(struct sockaddr_in6) },
		{ "", 0 },
		{ "127.0.0.1", 0 },
		{ "127.0.0.1:0", 0 },
		{ "127.0.0.1:65536", 0 },
		{ "127.0.0.1:80x", 0 },
		{ "127.0.0.1:-1", 0 },
		{ "127.0.0.256:80", 0 },
		{ "localhost:80", 0 },
		{ "::1:80", 0 },
		{ "[::1:80", 0 },
		{ "[127.0.0.1]:80", 0 },
	};
	struct sockaddr_storage addr;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		if (tcp_socket_address(rows[i].text, &addr) != rows[i].len)
			fail_msg("%s", rows[i].text);
	}
}

/* @return a port of the loopback address that is free */
static unsigned int free_port(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	/* a socket that is bound but does not listen keeps the port for the test */
	int probe = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(probe, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(getsockname(probe, (struct sockaddr *)&addr, &len), 0);
	close(probe);
	return ntohs(addr.sin_port);
}

static void answers_at(const struct fixture *fixture, unsigned int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	say(fd, REQUEST);
	char *text = hear(fixture, fd);
	assert_non_null(strstr(text, "200 OK"));
	free(text);
}

static void answers_locally(const struct fixture *fixture)
{
	char *answer = ask(fixture, REQUEST);
	assert_non_null(strstr(answer, "200 OK"));
	free(answer);
}

static void tcp_is_answered_too(void **state)
{
	struct fixture *fixture = *state;
	unsigned int port = free_port();
	char address[64];
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	scrape_close(fixture->scrape);
	open_scrape(fixture, address);
	answers_at(fixture, port);
}

/* A socket file that another process serves stays; one that a dead process has left is replaced. */
static void sockets_of_others_are_left_alone(void **state)
{
	struct fixture *fixture = *state;
	struct scrape *other = new_scrape(fixture);
	struct stat st;
	char text[256];
	assert_int_equal(scrape_listen(other, SCRAPE_LOCAL, fixture->path, text, sizeof(text)),
			 -EADDRINUSE);
	assert_non_null(strstr(text, "metrics_socket"));
	assert_string_equal(scrape_at(other, SCRAPE_LOCAL), "");
	scrape_close(other);
	assert_int_equal(stat(fixture->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	answers_locally(fixture);
}

/* If smcrd cannot listen at a new address, the old one stays open. It tries again at the next
 * request. */
static void a_failure_leaves_the_old_address_open(void **state)
{
	struct fixture *fixture = *state;
	struct scrape *scrape = fixture->scrape;
	char good[64], taken[64], want[64], text[256];
	unsigned int port = free_port();
	snprintf(good, sizeof(good), "127.0.0.1:%u", port);
	snprintf(taken, sizeof(taken), "127.0.0.1:%u", free_port());
	const uid_t uid = geteuid() == 0 ? 12345 : geteuid();
	setfsuid(uid);
	int other = tcp_socket_listen(taken, 1, text, sizeof(text));
	setfsuid(geteuid());
	assert_true(other >= 0);
	assert_int_equal(scrape_listen(scrape, SCRAPE_TCP, good, text, sizeof(text)), 0);
	assert_int_equal(scrape_listen(scrape, SCRAPE_TCP, taken, text, sizeof(text)), -EADDRINUSE);
	assert_non_null(strstr(text, taken));
	snprintf(want, sizeof(want), "Address already in use, by user %u", uid);
	assert_non_null(strstr(text, want));
	assert_string_equal(scrape_at(scrape, SCRAPE_TCP), good);
	answers_at(fixture, port);
	assert_int_equal(scrape_listen(scrape, SCRAPE_LOCAL, fixture->dir, text, sizeof(text)),
			 -EEXIST);
	assert_string_equal(scrape_at(scrape, SCRAPE_LOCAL), fixture->path);
	answers_locally(fixture);
	close(other);
	assert_int_equal(scrape_listen(scrape, SCRAPE_TCP, taken, text, sizeof(text)), 0);
	assert_string_equal(scrape_at(scrape, SCRAPE_TCP), taken);
	assert_int_equal(scrape_listen(scrape, SCRAPE_TCP, "", text, sizeof(text)), 0);
	assert_string_equal(scrape_at(scrape, SCRAPE_TCP), "");
}

/* A port at all addresses and the same port at one, or two names of one path: both cannot be open
 * together. */
static void addresses_that_exclude_each_other_are_exchanged(void **state)
{
	struct fixture *fixture = *state;
	struct scrape *scrape = fixture->scrape;
	char all[64], one[64], path[80], text[256];
	unsigned int port = free_port();
	snprintf(all, sizeof(all), "0.0.0.0:%u", port);
	snprintf(one, sizeof(one), "127.0.0.1:%u", port);
	snprintf(path, sizeof(path), "%s/./metrics.sock", fixture->dir);
	assert_int_equal(scrape_listen(scrape, SCRAPE_TCP, all, text, sizeof(text)), 0);
	assert_int_equal(scrape_listen(scrape, SCRAPE_TCP, one, text, sizeof(text)), 0);
	assert_string_equal(scrape_at(scrape, SCRAPE_TCP), one);
	answers_at(fixture, port);
	assert_int_equal(scrape_listen(scrape, SCRAPE_LOCAL, path, text, sizeof(text)), 0);
	assert_string_equal(scrape_at(scrape, SCRAPE_LOCAL), path);
	answers_locally(fixture);
}

/* Any user can lock a directory for as long as they like. smcrd does not wait for the lock, as it
 * would stop the event loop. */
static void a_locked_directory_is_not_waited_for(void **state)
{
	struct fixture *fixture = *state;
	char path[80], text[256];
	int held = open(fixture->dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(flock(held, LOCK_EX), 0);
	snprintf(path, sizeof(path), "%s/other.sock", fixture->dir);
	slept = 0;
	assert_int_equal(scrape_listen(fixture->scrape, SCRAPE_LOCAL, path, text, sizeof(text)), 0);
	assert_int_equal(slept, 0);
	assert_string_equal(scrape_at(fixture->scrape, SCRAPE_LOCAL), path);
	assert_int_equal(access(fixture->path, F_OK), -1);
	close(held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(metrics_are_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(requests_are_read_as_http_says, setup, teardown),
		cmocka_unit_test_setup_teardown(slow_requests_are_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(requests_without_end_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(metrics_are_not_collected_for_each, setup,
						teardown),
		cmocka_unit_test_setup_teardown(long_answers_come_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(idle_visitors_make_way, setup, teardown),
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test_setup_teardown(tcp_is_answered_too, setup, teardown),
		cmocka_unit_test_setup_teardown(sockets_of_others_are_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failure_leaves_the_old_address_open, setup,
						teardown),
		cmocka_unit_test_setup_teardown(addresses_that_exclude_each_other_are_exchanged,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_locked_directory_is_not_waited_for, setup,
						teardown),
	};
	signal(SIGPIPE, SIG_IGN); /* smcrd ignores SIGPIPE too */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
