/* SPDX-License-Identifier: MIT */
/* Memory that a program shares with the daemon (docs/data-path.md), at the daemon's side. The
 * stream stays whole whoever reads and writes where, and whoever dies. A program that writes
 * nonsense harms only its own connection. */
#include "tests/lib/tries.h"
#include "tests/unit/clients_side.h"

#include <limits.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "proto/path/receive.h"
#include "proto/path/send.h"

#define TOTAL (3u << 20)

/* ---- a small library with one thread, which need not be fast ---- */

struct memory {
	struct ipc_memory answer;
	int fd;
	struct path_page *page;
};

static struct ipc_memory request(const struct daemon_side *daemon, int proof, uint8_t version,
				 int *ret_fd)
{
	struct frame frame;
	struct ipc_memory memory;
	int session = session_open(daemon);
	send_frame(session, IPC_MEMORY_REQUEST, &version, 1, proof);
	assert_true(receive_frame(session, &frame));
	assert_int_equal(frame.type, IPC_MEMORY);
	assert_int_equal(ipc_decode_memory(frame.payload, frame.len, &memory), 0);
	assert_int_equal(frame.fd >= 0, memory.outcome == IPC_MEMORY_GRANTED);
	free(frame.payload);
	close(session);
	*ret_fd = frame.fd;
	return memory;
}

static uint8_t outcome(const struct daemon_side *daemon, int proof, uint8_t version)
{
	int fd;
	return request(daemon, proof, version, &fd).outcome;
}

static struct memory share(const struct daemon_side *daemon, int pair)
{
	struct memory memory;
	memory.answer = request(daemon, pair, IPC_MEMORY_VERSION, &memory.fd);
	assert_int_equal(memory.answer.outcome, IPC_MEMORY_GRANTED);
	memory.page = mmap(NULL, memory.answer.layout.length, PROT_READ | PROT_WRITE, MAP_SHARED,
			   memory.fd, 0);
	assert_true(memory.page != MAP_FAILED);
	return memory;
}

static void unmap(struct memory *memory)
{
	munmap(memory->page, memory->answer.layout.length);
	close(memory->fd);
}

static bool pair_idle(const struct memory *memory, int pair)
{
	int charge = -1;
	return ioctl(pair, SIOCOUTQ, &charge) == 0 && charge == (int)memory->answer.least_charge;
}

/* @return bytes written to the memory: one less than `len` if the daemon has to be woken */
static size_t write_locked(struct memory *memory, int pair, const uint8_t *data, size_t len,
			   bool *ret_polled)
{
	const struct path_ring *ring = &memory->answer.layout.send;
	struct path_page *page = memory->page;
	uint64_t at;
	*ret_polled = path_writer_polled(page);
	if (path_writer_revoked(page) || !pair_idle(memory, pair) || path_writer_backlog(page))
		return 0;
	size_t room = path_writer_room(page, ring->size, &at);
	size_t n = room < len ? room : len;
	if (n == len && !*ret_polled)
		n--;
	path_ring_put(page, ring, at, data, (uint32_t)n);
	return path_writer_commit(page, at, (uint32_t)n) ? n : 0;
}

static bool write_pair(int pair, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(pair, data, len, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* Take the writers' lock, which the daemon may have for a moment. */
static void lock_memory(struct path_page *page)
{
	for (int i = 0; !path_writer_lock(page); i++) {
		assert_true(i < WAIT_MS);
		poll(NULL, 0, 1);
	}
}

/* Writes as the library does. */
static bool write_memory(struct memory *memory, int pair, const uint8_t *data, size_t len)
{
	while (len > 0) {
		bool polled = false;
		if (!path_writer_lock(memory->page))
			return write_pair(pair, data, len);
		size_t n = write_locked(memory, pair, data, len, &polled);
		data += n;
		len -= n;
		bool ok = len == 0 || n == 0 || polled || write_pair(pair, data, 1);
		if (len > 0 && n > 0 && !polled) {
			data++;
			len--;
		}
		path_writer_unlock(memory->page);
		if (!ok)
			return false;
		if (n == 0) { /* past the memory: a part, and later its last byte alone */
			size_t part = len < 9000 ? len : 9000;
			if ((part > 1 && !write_pair(pair, data, part - 1)) ||
			    !write_pair(pair, data + part - 1, 1))
				return false;
			data += part;
			len -= part;
		}
	}
	return true;
}

/* Reads as the library does. @return as recv() */
static ssize_t read_memory(struct memory *memory, int pair, uint8_t *buf, size_t len)
{
	const struct path_ring *ring = &memory->answer.layout.receive;
	struct path_page *page = memory->page;
	for (;;) {
		uint64_t taken;
		size_t got = 0;
		path_reader_begin(page);
		bool memory_too = path_reader_look(page, &taken);
		ssize_t n = recv(pair, buf, len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			path_reader_end(page);
			return n;
		}
		got = n > 0 ? (size_t)n : 0;
		uint32_t more = memory_too && got < len
					? path_reader_available(page, ring->size, taken)
					: 0;
		if (more > len - got)
			more = (uint32_t)(len - got);
		path_ring_get(page, ring, taken, buf + got, more);
		if (more > 0 && path_reader_take(page, taken, more))
			got += more;
		bool again = path_reader_end(page);
		if (got > 0)
			return (ssize_t)got;
		if (!again)
			return recv(pair, buf, len, 0);
	}
}

/* ---- connections ---- */

struct side {
	struct daemon_side daemon;
	struct tcp tcp;
	int pair;
	struct memory memory;
};

static void open_side(struct side *side)
{
	daemon_start(&side->daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	side->tcp = connect_tcp();
	side->pair = hand_over(&side->daemon, &side->tcp, IPC_HANDOVER_ACCEPTED);
	side->memory = share(&side->daemon, side->pair);
}

static void close_side(struct side *side)
{
	unmap(&side->memory);
	if (side->pair >= 0)
		close(side->pair);
	close(side->tcp.far);
	daemon_stop(&side->daemon);
}

static void expect_echo(struct side *side, const char *text, bool by_memory)
{
	uint8_t buf[64];
	size_t len = strlen(text), at = 0;
	while (at < len) {
		ssize_t n = by_memory ? read_memory(&side->memory, side->pair, buf + at, len - at)
				      : recv(side->pair, buf + at, len - at, 0);
		assert_true(n > 0);
		at += (size_t)n;
	}
	assert_memory_equal(buf, text, len);
}

/* ---- who gets memory ---- */

static void only_connections_over_smcr_have_memory(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp(), other = connect_tcp();
	daemon_start(&daemon);
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(outcome(&daemon, pair, IPC_MEMORY_VERSION), IPC_MEMORY_PENDING);
	daemon_command(&daemon, 'e');
	wait_for_line(&daemon, "smcr state=2");
	assert_int_equal(outcome(&daemon, pair, IPC_MEMORY_VERSION + 1), IPC_MEMORY_OTHER);
	script->outcome = OUTCOME_FALLBACK;
	int relayed = hand_over(&daemon, &other, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(outcome(&daemon, relayed, IPC_MEMORY_VERSION), IPC_MEMORY_TCP);
	shutdown(pair, SHUT_WR);
	WAIT_COUNT(script->shutdowns, 1);
	assert_int_equal(outcome(&daemon, pair, IPC_MEMORY_VERSION), IPC_MEMORY_TCP);
	int session = session_open(&daemon);
	uint8_t version = IPC_MEMORY_VERSION;
	send_frame(session, IPC_MEMORY_REQUEST, &version, 1, tcp.far);
	assert_int_equal(receive_error(session), EACCES);
	close(session);
	close(pair);
	close(relayed);
	close(tcp.far);
	close(other.far);
	daemon_stop(&daemon);
}

static void the_configuration_may_forbid_sharing(void **state)
{
	(void)state;
	struct daemon_side daemon;
	struct tcp tcp = connect_tcp();
	no_sharing = true;
	daemon_start(&daemon);
	no_sharing = false;
	script->outcome = OUTCOME_ESTABLISHED;
	int pair = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(outcome(&daemon, pair, IPC_MEMORY_VERSION), IPC_MEMORY_OFF);
	close(pair);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void shared_memory_has_a_limit(void **state)
{
	(void)state;
	struct daemon_side daemon;
	const struct side_limits limits = { .conns = { .shared = 1 } };
	struct tcp tcp[2] = { connect_tcp(), connect_tcp() };
	daemon_start_limited(&daemon, &limits);
	script->outcome = OUTCOME_ESTABLISHED;
	int a = hand_over(&daemon, &tcp[0], IPC_HANDOVER_ACCEPTED);
	int b = hand_over(&daemon, &tcp[1], IPC_HANDOVER_ACCEPTED);
	struct memory memory = share(&daemon, a);
	assert_int_equal(outcome(&daemon, b, IPC_MEMORY_VERSION), IPC_MEMORY_NONE);
	close(a);
	WAIT_COUNT(script->closes, 1);
	struct memory next = share(&daemon, b);
	unmap(&memory);
	unmap(&next);
	close(b);
	close(tcp[0].far);
	close(tcp[1].far);
	daemon_stop(&daemon);
}

static void all_processes_get_the_same_memory_and_cannot_shrink_it(void **state)
{
	(void)state;
	struct side side;
	open_side(&side);
	struct memory again = share(&side.daemon, side.pair);
	assert_memory_equal(&again.answer, &side.memory.answer, sizeof(again.answer));
	again.page->at_work = 7;
	assert_int_equal(side.memory.page->at_work, 7);
	again.page->at_work = 0;
	assert_int_equal(ftruncate(again.fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(again.fd, again.answer.layout.length + 4096), -1);
	assert_int_equal(fcntl(again.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	unmap(&again);
	close_side(&side);
}

static uint32_t seed;

static uint32_t dice(uint32_t sides)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % sides;
}

/* ---- one stream ---- */

static void bytes_under_way_before_stay_in_their_place(void **state)
{
	(void)state;
	struct side side;
	daemon_start(&side.daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	script->silent = 1;
	side.tcp = connect_tcp();
	side.pair = hand_over(&side.daemon, &side.tcp, IPC_HANDOVER_ACCEPTED);
	assert_int_equal(send(side.pair, "one ", 4, 0), 4);
	WAIT_COUNT(script->taken, 4);
	assert_int_equal(send(side.pair, "two ", 4, 0), 4);
	side.memory = share(&side.daemon, side.pair);
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"three ", 6));
	assert_int_equal(send(side.pair, "four", 4, 0), 4);
	script->silent = 0;
	daemon_command(&side.daemon, 'g');
	expect_echo(&side, "one two ", false);
	expect_echo(&side, "three four", true);
	close_side(&side);
}

/* Writes and reads of any size, through the library or past it, in random turns. */
static void the_stream_is_whole_whoever_reads_and_writes(void **state)
{
	(void)state;
	static uint8_t out[70000], in[70000];
	struct side side;
	open_side(&side);
	pid_t writer = fork();
	assert_true(writer >= 0);
	seed = writer ? 7 : 11;
	if (writer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t at = 0; at < TOTAL;) {
			size_t len = 1 + dice(dice(4) ? 300 : sizeof(out));
			if (len > TOTAL - at)
				len = TOTAL - at;
			for (size_t i = 0; i < len; i++)
				out[i] = pattern(at + i);
			bool ok = dice(3) ? write_memory(&side.memory, side.pair, out, len)
					  : write_pair(side.pair, out, len);
			if (!ok)
				_exit(1);
			at += len;
		}
		shutdown(side.pair, SHUT_WR);
		_exit(0);
	}
	for (size_t at = 0;;) {
		size_t len = 1 + dice(dice(4) ? 300 : sizeof(in));
		ssize_t n = dice(3) ? read_memory(&side.memory, side.pair, in, len)
				    : recv(side.pair, in, len, 0);
		if (n == 0) {
			assert_int_equal(at, TOTAL);
			break;
		}
		if (n < 0)
			fail_msg("byte %zu: %s", at, strerror(errno));
		for (ssize_t i = 0; i < n; i++, at++)
			if (in[i] != pattern(at))
				fail_msg("byte %zu is wrong", at);
	}
	expect_child_ok(writer);
	close_side(&side);
}

static void readiness_is_told_by_the_kernel(void **state)
{
	(void)state;
	struct side side;
	uint8_t buf[10];
	open_side(&side);
	struct pollfd pfd = { .fd = side.pair, .events = POLLIN };
	assert_int_equal(poll(&pfd, 1, 0), 0);
	static uint8_t data[60000];
	assert_true(write_memory(&side.memory, side.pair, data, sizeof(data)));
	/* Each turn takes a few bytes, and there is always more to read. */
	for (size_t at = 0; at < sizeof(data);) {
		assert_true(wait_bits(side.pair, POLLIN));
		ssize_t n = read_memory(&side.memory, side.pair, buf, sizeof(buf));
		assert_true(n > 0);
		at += (size_t)n;
	}
	assert_int_equal(poll(&pfd, 1, 0), 0);
	close_side(&side);
}

/* MSG_PEEK and FIONREAD: the unread bytes at the head of the stream become more. */
static void an_unread_head_grows(void **state)
{
	(void)state;
	struct side side;
	static uint8_t data[90000], back[sizeof(data)];
	open_side(&side);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = pattern(i);
	assert_true(write_memory(&side.memory, side.pair, data, sizeof(data)));
	ssize_t n = 0;
	for (int i = 0; i < WAIT_MS && n < (ssize_t)sizeof(data); i++) {
		n = recv(side.pair, back, sizeof(back), MSG_PEEK | MSG_DONTWAIT);
		poll(NULL, 0, 1);
	}
	assert_int_equal(n, sizeof(data));
	assert_memory_equal(data, back, sizeof(data));
	assert_int_equal(read_memory(&side.memory, side.pair, back, sizeof(back)), sizeof(back));
	close_side(&side);
}

#define HEAD 4096 /* the least that the daemon forwards */

/* Write 60,000 bytes, and read them as the library does; or, if `alone`, read a head first as an
 * outsider does. @return bytes of that head, or 0 */
static ssize_t write_and_read(struct side *side, bool alone)
{
	static uint8_t data[60000], back[sizeof(data)];
	const long before = script->consumed;
	ssize_t head = 0;
	script->most_consumed = 0;
	assert_true(write_memory(&side->memory, side->pair, data, sizeof(data)));
	if (alone)
		head = recv(side->pair, back, sizeof(back), 0);
	assert_true(head >= 0);
	for (size_t at = (size_t)head; at < sizeof(data);) {
		assert_true(wait_bits(side->pair, POLLIN));
		ssize_t n = read_memory(&side->memory, side->pair, back, sizeof(back) - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
	WAIT_COUNT(script->consumed, before + (long)sizeof(data));
	return head;
}

/* The engine is told of short heads together with what a reader takes behind them. On a busy
 * machine a head may be made longer before it is read; then another try shows it. */
static void short_heads_are_told_with_what_follows(void **state)
{
	(void)state;
	struct side side;
	open_side(&side);
	bool shown[2] = { false };
	for (time_t end = time(NULL) + 60; time(NULL) < end && !(shown[0] && shown[1]);) {
		write_and_read(&side, false);
		shown[0] |= script->most_consumed == 60000;
		shown[1] |= write_and_read(&side, true) == HEAD && script->most_consumed == 60000;
	}
	assert_true(shown[0]);
	assert_true(shown[1]);
	close_side(&side);
}

/* The peer hears of what was read, if nobody reads on; and of a head that is all there is. */
static void heads_are_told_if_nothing_follows(void **state)
{
	(void)state;
	struct side side;
	static uint8_t data[60000], back[sizeof(data)];
	open_side(&side);
	assert_true(write_memory(&side.memory, side.pair, data, 5));
	WAIT_COUNT(script->consumed, 5);
	assert_int_equal(recv(side.pair, back, sizeof(back), 0), 5);
	assert_true(write_memory(&side.memory, side.pair, data, sizeof(data)));
	assert_true(wait_bits(side.pair, POLLIN));
	assert_int_equal(recv(side.pair, back, 100, 0), 100);
	WAIT_COUNT(script->consumed >= 5 + 100, true);
	assert_int_equal(recv(side.pair, back, sizeof(back) - 100, MSG_WAITALL),
			 sizeof(back) - 100);
	WAIT_COUNT(script->consumed, 5 + (long)sizeof(data));
	close_side(&side);
}

static void urgent_bytes_keep_their_place(void **state)
{
	(void)state;
	struct side side;
	uint8_t byte = 0;
	open_side(&side);
	script->silent = 1;
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"before", 6));
	assert_int_equal(send(side.pair, "!", 1, MSG_OOB), 1);
	WAIT_COUNT(script->urgent_taken, 1);
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"behind", 6));
	script->silent = 0;
	daemon_command(&side.daemon, 'g');
	assert_true(wait_bits(side.pair, POLLPRI));
	expect_echo(&side, "before", true);
	assert_int_equal(recv(side.pair, &byte, 1, MSG_OOB), 1);
	assert_int_equal(byte, '!');
	expect_echo(&side, "behind", true);
	close_side(&side);
}

/* ---- ends ---- */

static void bytes_written_before_the_end_are_sent(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		TRIES("how %d", how);
		struct side side;
		static uint8_t data[50000];
		open_side(&side);
		pid_t program = fork();
		assert_true(program >= 0);
		if (program == 0) {
			write_memory(&side.memory, side.pair, data, sizeof(data));
			if (how == 0)
				shutdown(side.pair, SHUT_WR);
			if (how == 2)
				raise(SIGKILL);
			_exit(0);
		}
		if (how > 0)
			close(side.pair);
		waitpid(program, NULL, 0);
		WAIT_COUNT(script->taken, (long)sizeof(data));
		WAIT_COUNT(how == 0 ? script->shutdowns : script->closes, 1);
		assert_int_equal(script->aborts, 0);
		if (how == 0) { /* nothing can be written after the end */
			assert_true(path_writer_revoked(side.memory.page));
			assert_int_equal(send(side.pair, "x", 1, MSG_NOSIGNAL), -1);
			assert_int_equal(errno, EPIPE);
		} else {
			side.pair = -1;
		}
		close_side(&side);
	}
}

static void unread_bytes_in_the_memory_are_unread_data(void **state)
{
	(void)state;
	struct side side;
	static uint8_t data[50000];
	open_side(&side);
	assert_true(write_memory(&side.memory, side.pair, data, sizeof(data)));
	WAIT_COUNT(script->taken, (long)sizeof(data));
	close(side.pair);
	side.pair = -1;
	WAIT_COUNT(script->closes + script->aborts, 1);
	assert_int_equal(script->closes_unread, 1);
	close_side(&side);
}

static void a_reset_comes_behind_what_had_arrived(void **state)
{
	(void)state;
	struct side side;
	open_side(&side);
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"last words", 10));
	assert_true(wait_bits(side.pair, POLLIN));
	daemon_command(&side.daemon, 'r');
	wait_for_line(&side.daemon, "ended=1");
	expect_echo(&side, "last words", true);
	uint8_t byte;
	assert_int_equal(read_memory(&side.memory, side.pair, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_true(path_writer_revoked(side.memory.page));
	close_side(&side);
}

static void peer_resets(struct side *side)
{
	daemon_command(&side->daemon, 'r');
}

static void program_ends_both_directions(struct side *side)
{
	shutdown(side->pair, SHUT_RDWR);
}

/* The descriptor is closed, and another thread is in the middle of a call. */
static void program_closes(struct side *side)
{
	close(side->pair);
	side->pair = -1;
}

static void daemon_is_freed(struct side *side)
{
	daemon_command(&side->daemon, 'q');
}

/* When the pages are empty, no reader can take bytes from there any more, and no writer put bytes
 * there that count, although the daemon has only begun to end the connection. */
static void memory_that_is_given_away_is_not_used(void **state)
{
	static void (*const ends[])(struct side *) = { peer_resets, program_ends_both_directions,
						       program_closes, daemon_is_freed };
	static uint8_t data[50000];
	(void)state;
	memset(data, 1, sizeof(data));
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		TRIES("way %zu", i);
		struct side side;
		uint64_t taken, at;
		open_side(&side);
		struct path_page *page = side.memory.page;
		const struct path_layout *layout = &side.memory.answer.layout;
		assert_true(write_memory(&side.memory, side.pair, data, sizeof(data)));
		WAIT_COUNT(atomic_load(&page->produced), sizeof(data));
		assert_true(wait_bits(side.pair, POLLIN));
		WAIT_COUNT(path_reader_look(page, &taken), true); /* no head is on its way */
		assert_true(path_reader_available(page, layout->receive.size, taken) > 0);
		script->hold_emptied = 1;
		ends[i](&side);
		WAIT_COUNT(script->emptied, 1);
		uint8_t byte = 1;
		path_ring_get(page, &layout->receive, taken, &byte, 1);
		assert_int_equal(byte, 0);
		assert_false(path_reader_take(page, taken, 1));
		assert_false(path_reader_look(page, &taken));
		assert_int_equal(path_writer_room(page, layout->send.size, &at), 0);
		script->hold_emptied = 0;
		script->emptied = 0;
		unmap(&side.memory);
		if (side.pair >= 0)
			close(side.pair);
		close(side.tcp.far);
		if (ends[i] != daemon_is_freed)
			daemon_command(&side.daemon, 'q');
		daemon_ends(&side.daemon);
	}
}

static void the_daemons_death_is_a_reset(void **state)
{
	(void)state;
	struct side side;
	uint8_t byte;
	open_side(&side);
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"abc", 3));
	expect_echo(&side, "abc", true);
	daemon_kill(&side.daemon);
	assert_int_equal(read_memory(&side.memory, side.pair, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_false(write_memory(&side.memory, side.pair, (const uint8_t *)"abc", 3));
	unmap(&side.memory);
	close(side.pair);
	close(side.tcp.far);
}

/* ---- a program dies in the middle of a call ---- */

static void a_dead_writers_lock_holds_nobody_up(void **state)
{
	(void)state;
	struct side side;
	open_side(&side);
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"done ", 5));
	lock_memory(side.memory.page);
	uint64_t at;
	assert_true(path_writer_room(side.memory.page, RING, &at) > 0);
	path_ring_put(side.memory.page, &side.memory.answer.layout.send, at, "never committed", 15);
	assert_int_equal(send(side.pair, "others ", 7, 0), 7);
	expect_echo(&side, "done others ", false);
	/* The first writer was only slow: the bytes that it did not commit do not count any
	 * more. */
	assert_false(path_writer_commit(side.memory.page, at, 15));
	path_writer_unlock(side.memory.page);
	memset((uint8_t *)side.memory.page + side.memory.answer.layout.send.at, 'X',
	       side.memory.answer.layout.send.size);
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"and more", 8));
	expect_echo(&side, "and more", true);
	close_side(&side);
}

/* Clock ticks of processor time that the daemon has used. */
static long ticks_of(pid_t pid)
{
	char path[64];
	long user = 0, system = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *stat = fopen(path, "re");
	assert_non_null(stat);
	assert_int_equal(fscanf(stat,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				"%ld %ld",
				&user, &system),
			 2);
	fclose(stat);
	return user + system;
}

/* Does a process use less than a tenth of a processor in some second of the next ten? On a busy
 * machine the daemon comes later to where the polls are rare. */
static bool soon_takes_little(pid_t pid)
{
	long spent = LONG_MAX;
	for (int i = 0; i < 10 && spent > sysconf(_SC_CLK_TCK) / 10; i++) {
		long before = ticks_of(pid);
		poll(NULL, 0, 1000);
		spent = ticks_of(pid) - before;
	}
	return spent <= sysconf(_SC_CLK_TCK) / 10;
}

/* Take the writers' lock while the daemon polls. On a busy machine the daemon may have stopped
 * polling before the lock is taken: then a byte through the pair wakes the daemon. */
static void lock_polled_memory(struct side *side)
{
	lock_memory(side->memory.page);
	while (!path_writer_polled(side->memory.page)) {
		path_writer_unlock(side->memory.page);
		assert_int_equal(send(side->pair, "w", 1, 0), 1);
		expect_echo(side, "w", true);
		lock_memory(side->memory.page);
	}
}

/* A lock that is left may belong to a program that knows that the daemon polls. So the daemon polls
 * the lock, but ever less often. */
static void a_lock_that_is_left_costs_little(void **state)
{
	(void)state;
	struct side side;
	open_side(&side);
	lock_memory(side.memory.page);
	/* The daemon wakes, and cannot take this byte as long as the lock is held. */
	assert_int_equal(send(side.pair, "x", 1, 0), 1);
	expect_echo(&side, "x", false); /* comes back once the daemon takes over the lock */
	struct tcp tcp = connect_tcp();
	int quiet = hand_over(&side.daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct memory memory = share(&side.daemon, quiet);
	struct side late = { .pair = quiet, .memory = memory };
	lock_polled_memory(&late);
	assert_true(soon_takes_little(side.daemon.pid));
	/* The program was only slow. */
	uint64_t at;
	assert_true(path_writer_room(memory.page, RING, &at) > 0);
	path_ring_put(memory.page, &memory.answer.layout.send, at, "late", 4);
	assert_true(path_writer_commit(memory.page, at, 4));
	path_writer_unlock(memory.page);
	expect_echo(&late, "late", true);
	unmap(&memory);
	close(quiet);
	close(tcp.far);
	close_side(&side);
}

static void a_dead_reader_holds_nobody_up(void **state)
{
	(void)state;
	struct side side;
	open_side(&side);
	for (int i = 0; i < 3; i++) {
		TRIES("case %d", i);
		path_reader_begin(side.memory.page);
		assert_int_equal(send(side.pair, "bytes", 5, 0), 5);
		expect_echo(&side, "bytes", i % 2);
	}
	close_side(&side);
}

/* ---- hostile programs ---- */

/* The daemon lives and other connections go on. This connection is reset or goes on. */
static void nonsense_harms_its_own_connection_only(void **state)
{
	(void)state;
	struct daemon_side daemon;
	daemon_start(&daemon);
	script->outcome = OUTCOME_ESTABLISHED;
	struct tcp tcp = connect_tcp();
	int good = hand_over(&daemon, &tcp, IPC_HANDOVER_ACCEPTED);
	struct memory good_memory = share(&daemon, good);
	struct side other = { .daemon = daemon, .pair = good, .memory = good_memory };
	for (uint32_t round = 0; round < 60; round++) {
		struct tcp bad_tcp = connect_tcp();
		int bad = hand_over(&daemon, &bad_tcp, IPC_HANDOVER_ACCEPTED);
		struct memory memory = share(&daemon, bad);
		seed = round * 77 + 5;
		fcntl(bad, F_SETFL, O_NONBLOCK);
		for (int i = 0; i < 200; i++) {
			static uint8_t data[30000];
			uint32_t what = dice(12);
			_Atomic uint64_t *words[] = { &memory.page->produced, &memory.page->taken,
						      &memory.page->completed,
						      &memory.page->committed };
			_Atomic uint64_t *word = words[dice(4)];
			switch (what) {
			case 0: *word = ((uint64_t)dice(1 << 20) << 44) + dice(1 << 20); break;
			case 1: *word += dice(RING); break;
			case 2: *word -= dice(1000); break;
			case 3: *word ^= PATH_MARK; break;
			case 4: memory.page->lock = dice(4); break;
			case 5: memory.page->at_work = dice(3); break;
			case 6: memory.page->backlog = dice(3); break;
			case 7: memory.page->polled = dice(3); break;
			case 8: send(bad, data, 1 + dice(sizeof(data)), MSG_NOSIGNAL); break;
			case 9: recv(bad, data, 1 + dice(sizeof(data)), 0); break;
			case 10:
				memset((uint8_t *)memory.page + PATH_PAGE_SIZE, (int)i,
				       memory.answer.layout.length - PATH_PAGE_SIZE);
				break;
			default: memory.page->committed += 1; break;
			}
		}
		const uint8_t *hello = (const uint8_t *)"still here";
		assert_true(write_memory(&good_memory, good, hello, 10));
		expect_echo(&other, "still here", round % 2);
		unmap(&memory);
		close(bad);
		close(bad_tcp.far);
	}
	unmap(&good_memory);
	close(good);
	close(tcp.far);
	daemon_stop(&daemon);
}

static void each_word_out_of_bounds_is_a_reset(void **state)
{
	(void)state;
	static const struct {
		size_t word;
		uint64_t add;
	} rows[] = {
		{ offsetof(struct path_page, taken), 1000 },
		{ offsetof(struct path_page, taken), UINT64_MAX },
		{ offsetof(struct path_page, taken), PATH_MARK },
		{ offsetof(struct path_page, committed), UINT64_MAX },
		{ offsetof(struct path_page, committed), RING + 1 },
		{ offsetof(struct path_page, committed), PATH_MARK },
	};
	struct side side;
	open_side(&side);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct tcp tcp = connect_tcp();
		int pair = hand_over(&side.daemon, &tcp, IPC_HANDOVER_ACCEPTED);
		struct memory memory = share(&side.daemon, pair);
		struct side bad = { .pair = pair, .memory = memory };
		assert_true(write_memory(&memory, pair, (const uint8_t *)"abc", 3));
		expect_echo(&bad, "abc", true);
		WAIT_COUNT(memory.page->polled, 0); /* the daemon does not poll the page any more */
		*(_Atomic uint64_t *)((uint8_t *)memory.page + rows[i].word) += rows[i].add;
		send(pair, "x", 1, MSG_NOSIGNAL); /* the daemon polls the page again */
		uint8_t byte;
		ssize_t n;
		while ((n = recv(pair, &byte, 1, 0)) > 0)
			;
		if (n == 0 || errno != ECONNRESET)
			fail_msg("row %zu: %zd, %s", i, n, strerror(errno));
		WAIT_COUNT(script->aborts, (int)i + 1);
		assert_int_equal(script->warnings, 1); /* its user cannot fill the log */
		unmap(&memory);
		close(pair);
		close(tcp.far);
	}
	assert_true(write_memory(&side.memory, side.pair, (const uint8_t *)"fine", 4));
	expect_echo(&side, "fine", true);
	close_side(&side);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_connections_over_smcr_have_memory),
		cmocka_unit_test(the_configuration_may_forbid_sharing),
		cmocka_unit_test(shared_memory_has_a_limit),
		cmocka_unit_test(all_processes_get_the_same_memory_and_cannot_shrink_it),
		cmocka_unit_test(bytes_under_way_before_stay_in_their_place),
		cmocka_unit_test(the_stream_is_whole_whoever_reads_and_writes),
		cmocka_unit_test(readiness_is_told_by_the_kernel),
		cmocka_unit_test(an_unread_head_grows),
		cmocka_unit_test(short_heads_are_told_with_what_follows),
		cmocka_unit_test(heads_are_told_if_nothing_follows),
		cmocka_unit_test(urgent_bytes_keep_their_place),
		cmocka_unit_test(bytes_written_before_the_end_are_sent),
		cmocka_unit_test(unread_bytes_in_the_memory_are_unread_data),
		cmocka_unit_test(a_reset_comes_behind_what_had_arrived),
		cmocka_unit_test(memory_that_is_given_away_is_not_used),
		cmocka_unit_test(the_daemons_death_is_a_reset),
		cmocka_unit_test(a_dead_writers_lock_holds_nobody_up),
		cmocka_unit_test(a_lock_that_is_left_costs_little),
		cmocka_unit_test(a_dead_reader_holds_nobody_up),
		cmocka_unit_test(nonsense_harms_its_own_connection_only),
		cmocka_unit_test(each_word_out_of_bounds_is_a_reset),
	};
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
