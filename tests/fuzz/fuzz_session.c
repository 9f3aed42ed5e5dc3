/* SPDX-License-Identifier: MIT */
/*
 * Programs and tools at the daemon's Unix socket, in several sessions, one after another and at the
 * same time. They send frames in any order, cut anywhere, with descriptors of any kind. Connections
 * are handed over, and their pairs, peers and rendezvous then do what the input says. The code
 * under test is the daemon's own (daemon/clients/, daemon/conns/); the engine is
 * tests/lib/scripted_engine.h, and the input sets the clock. Whatever comes, each reply must be a
 * frame that the library would understand, with at most one descriptor. When all sessions have
 * ended, no connection, descriptor or memory may be left.
 */
#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/clients/clients.h"
#include "proto/ipc/ipc.h"
#include "tests/fuzz/records.h"
#include "tests/lib/scripted_engine.h"

#define SESSIONS 4
#define THINGS   16 /* descriptors that the program holds */
#define HELD     8

/* Descriptors below this number are checked for leaks. Without root a user may have few. */
#define MOST_DESCRIPTORS 256

struct talk {
	int fd; /* -1: closed */
	uint8_t in[300000];
	size_t in_len;
};

static struct fuzz {
	struct event_base *base;
	struct conns *conns;
	struct clients *clients;
	bool stopped;
	bool sent_itself; /* a session's own end was sent in a session, which keeps it open */
	struct talk talks[SESSIONS];
	int things[THINGS];
	unsigned int next_thing;
	uint64_t held[HELD];
	unsigned int num_held;
	struct conns_config config;
} fuzz;

static char directory[64], path[96];
static struct sockaddr_in listener_addr;
static int listener = -1;
static uint64_t clock_us;

/* ---- the clock, also of libevent */

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, clock, ret_time);
	clock_us++; /* else code that reads the clock in a loop would never see time pass */
	*ret_time = (struct timespec){ (time_t)(clock_us / 1000000),
				       (long)(clock_us % 1000000 * 1000) };
	return 0;
}

static void run_loop(unsigned int turns)
{
	for (unsigned int i = 0; i < turns; i++)
		event_base_loop(fuzz.base, EVLOOP_NONBLOCK);
}

/* ---- the daemon's other parts ---- */

static void on_engine(void *ctx)
{
	(void)ctx;
}

static bool on_capable(void *ctx, const struct smcr_addr *peer)
{
	(void)ctx;
	(void)peer;
	return script->capable;
}

static bool on_administrator(void *ctx, const struct clients_asker *asker)
{
	(void)ctx;
	(void)asker;
	return script->administrator;
}

static bool see_conn(void *arg, const struct conn_view *view)
{
	unsigned int *count = arg;
	must(conn_mode_name(view->mode) != NULL);
	return ++*count % 3;
}

static void see_limit(void *arg, const struct limit_view *view)
{
	(void)arg;
	must(smcr_reason_name(view->reason) != NULL);
}

static void see_reason(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count)
{
	(void)arg;
	(void)peer_reason;
	must(smcr_reason_name(reason) != NULL && count > 0);
}

/* Read the views that operators can ask for. */
static void look_at_views(void)
{
	struct conns_view view;
	struct conns_place place = { 0 };
	unsigned int count = 0;
	conns_get_view(fuzz.conns, &view);
	while (!conns_walk(fuzz.conns, &place, see_conn, &count) && count < 64)
		;
	conns_each_reason(fuzz.conns, see_reason, NULL);
	limits_each(fuzz.conns, see_limit, NULL);
}

/* The request's first byte decides how it is answered. */
static int on_control(void *ctx, const struct clients_asker *asker, const char *json, size_t len,
		      char **ret_reply)
{
	(void)ctx;
	uint8_t first = len ? (uint8_t)json[0] : 0;
	size_t long_len = first % 8 == 1 ? 200000 : 20;
	*ret_reply = calloc(1, long_len + 1);
	memset(*ret_reply, 'x', long_len);
	switch (first % 8) {
	case 2: return -EPERM;
	case 3:
		if (fuzz.num_held < HELD) {
			fuzz.held[fuzz.num_held++] = asker->request;
			return -EINPROGRESS;
		}
		return -EBUSY;
	case 4: return -EAGAIN;
	case 5:
		free(*ret_reply);
		*ret_reply = NULL;
		return -EINVAL;
	case 6: look_at_views(); return 0;
	default: return 0;
	}
}

static void on_gone(void *ctx, uint64_t request)
{
	(void)ctx;
	for (unsigned int i = 0; i < fuzz.num_held; i++)
		if (fuzz.held[i] == request)
			fuzz.held[i--] = fuzz.held[--fuzz.num_held];
}

static void answer_held(void)
{
	while (fuzz.num_held > 0)
		clients_control_reply(fuzz.clients, fuzz.held[--fuzz.num_held], strdup("late"));
}

/* ---- what the program holds ---- */

static void keep(int fd)
{
	int *thing = &fuzz.things[fuzz.next_thing++ % THINGS];
	if (*thing >= 0)
		close(*thing);
	*thing = fd;
}

static int thing(uint32_t which)
{
	return fuzz.things[which % THINGS];
}

/* Make a TCP connection and keep both ends. @return the program's end */
static int connect_tcp(bool connecting)
{
	int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct linger reset = { 1, 0 };
	must(near >= 0);
	if (connecting)
		fcntl(near, F_SETFL, O_NONBLOCK);
	(void)connect(near, (struct sockaddr *)&listener_addr, sizeof(listener_addr));
	fcntl(near, F_SETFL, 0);
	int far = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (far >= 0) {
		setsockopt(far, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); /* no TIME_WAIT */
		keep(far);
	}
	keep(near);
	return near;
}

static int make_memfd(uint32_t how)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(fd >= 0 && ftruncate(fd, (off_t)(how % 70000)) == 0);
	if (how & 1u << 20)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (how & 1u << 21)
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
	return fd;
}

/* A descriptor to send with a frame. It stays open until its place in the table is needed.
 * @return -1: none */
static int make_descriptor(const struct record *record)
{
	int ends[2] = { -1, -1 };
	int fd = -1;
	switch (record->small % 20) {
	case 0:
	case 1: return connect_tcp(false);
	case 2: return connect_tcp(true);
	case 3: return -1;
	case 4:
	case 5:
	case 6:
	case 7: return thing(record->large);
	case 8: fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); break;
	case 9: fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); break;
	case 10: fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0); break;
	case 11: fd = listener; break;
	case 12:
		if (pipe2(ends, O_CLOEXEC) < 0)
			return -1;
		fd = ends[record->large % 2];
		break;
	case 13:
		if (socketpair(AF_UNIX, record->large & 4 ? SOCK_DGRAM : SOCK_STREAM, 0, ends) < 0)
			return -1;
		fd = ends[record->large % 2];
		break;
	case 14: fd = make_memfd(record->large); break;
	case 15: fd = eventfd(0, EFD_CLOEXEC); break;
	case 16: fd = epoll_create1(EPOLL_CLOEXEC); break;
	case 17:
		fd = fuzz.talks[record->large % SESSIONS].fd;
		fuzz.sent_itself = true;
		break;
	case 18: fd = open("/dev/null", O_RDWR | O_CLOEXEC); break;
	case 19: fd = open("/", O_PATH | O_CLOEXEC); break;
	}
	if (ends[0] >= 0 && record->large & 2) { /* the other end is closed */
		close(fd == ends[0] ? ends[1] : ends[0]);
		ends[0] = -1;
	}
	if (ends[0] >= 0)
		keep(fd == ends[0] ? ends[1] : ends[0]);
	if (fd >= 0 && (fd == listener || record->small % 20 == 17))
		return fd;
	if (fd >= 0)
		keep(fd);
	return fd;
}

/* ---- sessions ---- */

static void close_talk(struct talk *talk)
{
	if (talk->fd >= 0)
		close(talk->fd);
	talk->fd = -1;
	talk->in_len = 0;
}

static void open_talk(struct talk *talk, bool abstract)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int len = sizeof(addr);
	if (talk->fd >= 0 || fuzz.stopped)
		return;
	if (abstract)
		len = ipc_abstract_address(path, 0, &addr);
	else
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	talk->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(talk->fd >= 0);
	if (connect(talk->fd, (struct sockaddr *)&addr, (socklen_t)len) < 0)
		close_talk(talk);
}

static void send_bytes(struct talk *talk, const uint8_t *bytes, size_t len, const int *fds,
		       size_t num_fds)
{
	union {
		char buf[CMSG_SPACE(6 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (talk->fd < 0 || len == 0)
		return;
	if (num_fds > 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, num_fds * sizeof(int));
	}
	(void)sendmsg(talk->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- replies ---- */

static void expect_payload(uint8_t type, const uint8_t *data, size_t len)
{
	struct ipc_hello hello;
	struct ipc_error error;
	struct ipc_result result;
	struct ipc_status status;
	struct ipc_sockopt sockopt;
	struct ipc_info info;
	struct ipc_memory memory;
	switch (type) {
	case IPC_HELLO: must(ipc_decode_hello(data, len, &hello) == 0); break;
	case IPC_ERROR: must(ipc_decode_error(data, len, &error) == 0); break;
	case IPC_RESULT: must(ipc_decode_result(data, len, &result) == 0); break;
	case IPC_STATUS: must(ipc_decode_status(data, len, &status) == 0); break;
	case IPC_SOCKOPT: must(ipc_decode_sockopt(data, len, &sockopt) == 0); break;
	case IPC_INFO: must(ipc_decode_info(data, len, &info) == 0); break;
	case IPC_MEMORY: must(ipc_decode_memory(data, len, &memory) == 0); break;
	case IPC_CONTROL_REPLY: break;
	default: must(false);
	}
}

static void take_frames(struct talk *talk)
{
	struct ipc_header header;
	size_t at = 0;
	while (talk->in_len - at >= IPC_HEADER_LEN) {
		must(ipc_decode_header(talk->in + at, talk->in_len - at, &header) == 0);
		if (talk->in_len - at - IPC_HEADER_LEN < header.length)
			break;
		expect_payload(header.type, talk->in + at + IPC_HEADER_LEN, header.length);
		at += IPC_HEADER_LEN + header.length;
	}
	memmove(talk->in, talk->in + at, talk->in_len - at);
	talk->in_len -= at;
	must(talk->in_len < sizeof(talk->in));
}

static void keep_descriptor(struct msghdr *msg)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	int fd;
	must(!(msg->msg_flags & MSG_CTRUNC));
	if (!cmsg)
		return;
	must(cmsg->cmsg_len == CMSG_LEN(sizeof(fd)) && !CMSG_NXTHDR(msg, cmsg));
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	keep(fd);
}

static void read_talk(struct talk *talk)
{
	union {
		char buf[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	ssize_t n = 1;
	while (talk->fd >= 0 && n > 0) {
		struct iovec iov = { talk->in + talk->in_len, sizeof(talk->in) - talk->in_len };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control.buf,
				      .msg_controllen = sizeof(control.buf) };
		n = recvmsg(talk->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			close_talk(talk);
		if (n <= 0)
			return;
		keep_descriptor(&msg);
		talk->in_len += (size_t)n;
		take_frames(talk);
	}
}

/* ---- requests ---- */

/* Make a payload as the library would, with contents from the record. @return its length */
static int make_payload(const struct record *record, uint8_t type, uint8_t *buf, size_t len)
{
	const struct ipc_hello hello = { 1, 1 };
	struct ipc_handover handover = { .kind = 1 + record->large % 3 };
	static const int levels[] = { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 };
	struct ipc_sockopt sockopt = { .op = (uint8_t)(1 + (record->large >> 4) % 3),
				       .level = levels[record->small >> 6 & 3],
				       .name = (int32_t)(record->large >> 8 & 127),
				       .length = (uint16_t)(record->large >> 16 & 31) };
	const struct ipc_status_request status = { .flags = (record->large >> 16) % 5 };
	const struct ipc_info_request info = { .flags = record->large >> 16 & 1 };
	const struct ipc_memory_request memory = { .version = 1 + (record->large >> 28 == 15) };
	switch (type) {
	case IPC_HELLO: return ipc_encode_hello(&hello, buf, len);
	case IPC_HANDOVER:
		handover.flags = record->large >> 8 & IPC_HANDOVER_REQUIRE;
		if (handover.kind == IPC_HANDOVER_CONNECTING)
			handover.peer.in = listener_addr;
		return ipc_encode_handover(&handover, buf, len);
	case IPC_STATUS_REQUEST: return ipc_encode_status_request(&status, buf, len);
	case IPC_SOCKOPT_REQUEST: return ipc_encode_sockopt(&sockopt, buf, len);
	case IPC_INFO_REQUEST: return ipc_encode_info_request(&info, buf, len);
	case IPC_MEMORY_REQUEST: return ipc_encode_memory_request(&memory, buf, len);
	default: break;
	}
	size_t most = type == IPC_CONTROL && record->large & 0x100 ? 20000 : 64;
	size_t n = record->large >> 9 & (most - 1);
	memset(buf, (int)(record->large & 0xFF), n);
	return (int)n;
}

/* Send a valid frame, with a descriptor of some kind; now and then cut or changed. */
static void ask(const struct record *record)
{
	static const uint8_t types[] = {
		IPC_HELLO,          IPC_HANDOVER,       IPC_HANDOVER,        IPC_HANDOVER,
		IPC_STATUS_REQUEST, IPC_STATUS_REQUEST, IPC_SOCKOPT_REQUEST, IPC_SOCKOPT_REQUEST,
		IPC_INFO_REQUEST,   IPC_INFO_REQUEST,   IPC_MEMORY_REQUEST,  IPC_MEMORY_REQUEST,
		IPC_CONTROL,        IPC_CONTROL,        IPC_RESULT,          0xEE
	};
	static uint8_t buf[IPC_HEADER_LEN + 32768];
	struct talk *talk = &fuzz.talks[record->who % SESSIONS];
	uint8_t type = types[record->who >> 4];
	int fd = type == IPC_HELLO || type == IPC_CONTROL ? -1 : make_descriptor(record);
	int len = make_payload(record, type, buf + IPC_HEADER_LEN, sizeof(buf) - IPC_HEADER_LEN);
	if (len < 0 || ipc_encode_header(type, (uint32_t)len, buf, IPC_HEADER_LEN) < 0)
		return;
	size_t whole = IPC_HEADER_LEN + (size_t)len;
	if (record->small >> 13 == 1) /* the next bytes sent take the place of the rest */
		whole = record->small >> 6 & 15;
	if (record->small >> 13 == 2)
		buf[(record->small >> 6) % whole] ^= (uint8_t)record->large;
	send_bytes(talk, buf, whole, &fd, fd >= 0);
}

/* Send bytes of the input unchanged. */
static void ask_raw(const struct record *record, struct records *rest)
{
	size_t len = record->small % 64;
	int fds[6] = { thing(record->large),
		       thing(record->large >> 4),
		       thing(record->large >> 8),
		       listener,
		       listener,
		       listener };
	size_t num_fds = fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0 ? record->large >> 16 & 7 : 0;
	len = len < rest->left ? len : rest->left;
	send_bytes(&fuzz.talks[record->who % SESSIONS], rest->at, len, fds,
		   num_fds < 6 ? num_fds : 6);
	rest->at += len;
	rest->left -= len;
}

/* ---- what happens to sockets and memory that the program holds ---- */

/* The peer sends a CLC message, or the beginning of one. */
static void send_clc(int fd, const struct record *record)
{
	uint8_t msg[260] = { 0xE2, 0xD4, 0xC3, 0xD9, (uint8_t)(1 + record->large % 5) };
	size_t len = record->large >> 8 & 0xFF;
	msg[5] = (uint8_t)(len >> 8);
	msg[6] = (uint8_t)len;
	msg[7] = (uint8_t)(record->large >> 16);
	(void)send(fd, msg, record->small & 2 ? len : 5 + record->large % 8,
		   MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void use_thing(const struct record *record)
{
	static uint8_t bytes[40000];
	int fd = thing(record->who);
	size_t len = 1 + record->large % sizeof(bytes);
	int on = (int)record->small & 1;
	if (fd < 0)
		return;
	switch (record->small >> 4 & 7) {
	case 0:
		if (on)
			send_clc(fd, record);
		else
			(void)send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case 1: (void)recv(fd, bytes, len, MSG_DONTWAIT); break;
	case 2: shutdown(fd, (int)record->large % 3); break;
	case 3:
		close(fd);
		fuzz.things[record->who % THINGS] = -1;
		break;
	case 4: (void)send(fd, bytes, 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL); break;
	case 5: setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)); break;
	case 6: keep(fcntl(fd, F_DUPFD_CLOEXEC, 0)); break;
	case 7: setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); break;
	}
}

/* If the program has the memory of a connection, it writes into the control page. */
static void scribble(const struct record *record)
{
	struct stat st;
	int fd = thing(record->who);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < PATH_PAGE_SIZE)
		return;
	uint8_t *page = mmap(NULL, PATH_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return;
	uint64_t *word = (uint64_t *)(page + record->small % (sizeof(struct path_page) / 8) * 8);
	if (record->small & 0x8000)
		*word = record->large;
	else
		*word += record->large % (2 * RING);
	munmap(page, PATH_PAGE_SIZE);
}

/* ---- the engine and the daemon ---- */

static void settle_some(const struct record *record)
{
	struct smcr_conn *conn = fake_conns, *next;
	for (unsigned int i = 0; conn; conn = next, i++) {
		next = conn->next;
		if (record->small & 8 && i != record->who % 4u)
			continue;
		if (!conn->established)
			fake_settle(conn, (int)record->small % 4);
		else if (record->large % 8 == 0)
			smcr_conn_tcp_event(conn, SMCR_TCP_RESET);
		else
			fake_echo(conn);
	}
}

static void change_script(const struct record *record)
{
	script->outcome = (int)record->small % 4;
	script->decline = record->small >> 2 & 1;
	script->silent = record->small >> 3 & 1;
	script->administrator = record->small >> 4 & 1;
	script->capable = (record->small >> 5 & 3) != 3;
}

static void change_limits(const struct record *record)
{
	struct conns_config config = fuzz.config;
	config.shared_memory = record->small & 1;
	config.limits.sessions = record->small & 2 ? 2 : 0;
	config.limits.sessions_per_uid = record->small & 4 ? 1 : 0;
	config.limits.conns = record->small & 8 ? 2 : 0;
	config.limits.conns_per_uid = record->small & 16 ? 1 : 0;
	config.limits.shared = record->small & 32 ? 1 : 0;
	conns_configure(fuzz.conns, &config);
}

static void pass_time(uint64_t us)
{
	clock_us += us;
	run_loop(4);
}

static void stop(void)
{
	fuzz.stopped = true;
	clients_stop(fuzz.clients);
	conns_stop(fuzz.conns);
}

static void step(const struct record *record, struct records *rest)
{
	struct talk *talk = &fuzz.talks[record->who % SESSIONS];
	switch (record->what % 16) {
	case 0: open_talk(talk, record->small % 4 == 1); break;
	case 1: close_talk(talk); break;
	case 2:
	case 3:
	case 4:
	case 5: ask(record); break;
	case 6: ask_raw(record, rest); break;
	case 7: read_talk(talk); break;
	case 8:
	case 9: use_thing(record); break;
	case 10: scribble(record); break;
	case 11: settle_some(record); break;
	case 12: change_script(record); break;
	case 13:
		if (record->small & 0x100)
			answer_held();
		else if (record->small & 0x200)
			clients_control_wake(fuzz.clients);
		else
			change_limits(record);
		break;
	case 14: pass_time((uint64_t)record->large % 20000000); break;
	case 15:
		if (record->small % 256 == 0x77)
			stop();
		run_loop(1 + record->small % 4);
		break;
	}
	if (record->what < 0x80)
		run_loop(1);
}

/* ---- */

static void open_once(void)
{
	socklen_t len = sizeof(listener_addr);
	if (listener >= 0)
		return;
	signal(SIGPIPE, SIG_IGN);
	snprintf(directory, sizeof(directory), "/tmp/fuzz_session.XXXXXX");
	must(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/sock", directory);
	listener_addr = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(listener >= 0);
	must(bind(listener, (struct sockaddr *)&listener_addr, sizeof(listener_addr)) == 0);
	must(listen(listener, 64) == 0);
	must(getsockname(listener, (struct sockaddr *)&listener_addr, &len) == 0);
}

static void remove_directory(void) __attribute__((destructor));
static void remove_directory(void)
{
	if (!*directory)
		return;
	unlink(path);
	rmdir(directory);
}

static void begin(void)
{
	char text[256];
	clock_us = 1000000000;
	fuzz.stopped = fuzz.sent_itself = false;
	fuzz.num_held = fuzz.next_thing = 0;
	for (int i = 0; i < SESSIONS; i++)
		fuzz.talks[i].fd = -1, fuzz.talks[i].in_len = 0;
	for (int i = 0; i < THINGS; i++)
		fuzz.things[i] = -1;
	fuzz.base = event_base_new();
	must(fuzz.base != NULL);
	fuzz.config = (struct conns_config){
		.base = fuzz.base,
		.shared_memory = true,
		.busy_poll_us = 50,
		.callbacks = { .engine_enter = on_engine,
			       .engine_leave = on_engine,
			       .assume_capable = on_capable },
	};
	must(conns_new(&fuzz.config, &fuzz.conns) == 0);
	const struct clients_config config = {
		.base = fuzz.base,
		.conns = fuzz.conns,
		.socket_path = path,
		.callbacks = { .control = on_control,
			       .administrator = on_administrator,
			       .control_gone = on_gone },
	};
	must(clients_new(&config, &fuzz.clients, text, sizeof(text)) == 0);
}

/* All sessions and peers end, and each rendezvous too: no connection may be left. */
static void leave(void)
{
	const struct record all = { .small = OUTCOME_FAILED };
	for (int i = 0; i < SESSIONS; i++)
		close_talk(&fuzz.talks[i]);
	for (int i = 0; i < THINGS; i++)
		if (fuzz.things[i] >= 0)
			close(fuzz.things[i]);
	script->silent = 0;
	script->outcome = OUTCOME_FAILED;
	for (int i = 0; i < 4 && (i == 0 || conns_active(fuzz.conns) > 0); i++) {
		settle_some(&all);
		int far;
		while ((far = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
			close(far);
		pass_time(120000000);
	}
	must(conns_active(fuzz.conns) == 0);
	must(fuzz.num_held == 0 || fuzz.sent_itself);
}

static void end(void)
{
	clients_free(fuzz.clients);
	conns_free(fuzz.conns);
	event_base_free(fuzz.base);
	must(!fake_conns);
}

static unsigned int descriptors(void)
{
	unsigned int count = 0;
	for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Check for leaked descriptors. Threads of daemon/conns/closer.c may still be closing some. */
static void expect_descriptors(unsigned int before)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	for (int i = 0; i < 2000 && descriptors() > before; i++)
		nanosleep(&moment, NULL);
	must(descriptors() == before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct script told;
	struct records records = { data, size };
	struct record record;
	open_once();
	unsigned int before = descriptors();
	script = &told;
	told = (struct script){ .capable = 1, .outcome = OUTCOME_ESTABLISHED };
	begin();
	while (record_next(&records, &record))
		step(&record, &records);
	leave();
	end();
	expect_descriptors(before);
	return 0;
}
