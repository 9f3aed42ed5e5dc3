/* SPDX-License-Identifier: MIT */
/*
 * Both sides of the shared data path at once, over a real socket pair: threads that read and write
 * as the library does, threads that use the pair alone, and the daemon. Seeds decide everything but
 * the scheduler's choices.
 *
 * The stream consists of words of 8 bytes, and all threads move whole words, so that each word
 * tells its place. A received word is the number of its place. A sent word has its writer, its
 * number among the writer's words, and a time: how many writes had ended when this one began.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/path/receive.h"
#include "proto/path/send.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

#define WORD       ((uint32_t)sizeof(uint64_t))
#define RING       (1024u)
#define LONGEST    (3000u / WORD * WORD) /* bytes of one call */
#define RECEIVED   (40000u)              /* words received in a run */
#define WRITES     (1500u)               /* writes of each writer */
#define MAX_SENT   (1u << 21)            /* words sent in a run, at most */
#define THREADS    6
#define PATIENCE   200 /* how often the daemon looks at a call that does not end */
#define DEADLINE_S 300

static struct world {
	_Alignas(PATH_PAGE_SIZE) uint8_t memory[PATH_PAGE_SIZE + 2 * RING];
	struct path_layout layout;
	int program, daemon; /* ends of the pair */
	int least_charge;
	struct path_rx rx;
	struct path_tx tx;
	_Atomic bool over, failed;
	/* ---- receiving */
	_Atomic uint64_t floor; /* calls that have ended have returned the words before this one */
	_Atomic uint8_t seen[RECEIVED];
	_Atomic uint32_t seen_count;
	/* ---- sending */
	_Atomic uint64_t clock;
	_Atomic uint32_t writers; /* writers that have not ended */
	uint64_t began[THREADS][WRITES], ended[THREADS][WRITES];
	uint32_t lengths[THREADS][WRITES];
	uint64_t *sent;
	uint32_t sent_count;
} world;

static struct path_page *page(void)
{
	return (struct path_page *)world.memory;
}

/* cmocka's assertions work only in the main thread. */
static void must(bool condition, const char *what)
{
	if (condition)
		return;
	if (!atomic_exchange(&world.failed, true))
		fprintf(stderr, "%s\n", what);
	atomic_store(&world.over, true);
}

static bool by_chance(struct random *random, uint32_t of)
{
	return random_below(random, of) == 0;
}

/* Another thread may run between any two steps. */
static void step(struct random *random)
{
	if (by_chance(random, 8))
		sched_yield();
}

/* ---- receiving */

/* One call has returned these words. */
static void note_read(const uint64_t *words, uint32_t bytes, uint64_t floor)
{
	uint32_t n = bytes / WORD;
	must(bytes % WORD == 0, "a word was torn");
	for (uint32_t i = 0; i < n; i++) {
		must(words[i] < RECEIVED, "no word of the stream");
		if (atomic_load(&world.over))
			return;
		must(words[i] == words[0] + i, "a gap within a call");
		must(atomic_exchange(&world.seen[words[i]], 1) == 0, "a word came twice");
		atomic_fetch_add(&world.seen_count, 1);
	}
	must(words[0] >= floor, "a word came late");
	uint64_t end = words[0] + n;
	uint64_t now = atomic_load(&world.floor);
	while (now < end && !atomic_compare_exchange_weak(&world.floor, &now, end))
		;
}

static ssize_t wait_for_head(void *buf, size_t len)
{
	struct pollfd pfd = { .fd = world.program, .events = POLLIN };
	poll(&pfd, 1, 20);
	return recv(world.program, buf, len, MSG_DONTWAIT);
}

/* One call of a reader in the library. @return bytes, 0 if there are none now */
static uint32_t read_as_library(struct random *random, uint64_t *buf, uint32_t want, bool dies)
{
	const struct path_ring *ring = &world.layout.receive;
	uint64_t taken;
	uint32_t got = 0;
	path_reader_begin(page());
	step(random);
	bool whole = path_reader_look(page(), &taken);
	step(random);
	ssize_t head = recv(world.program, buf, want, MSG_DONTWAIT);
	if (head > 0)
		got = (uint32_t)head;
	if (dies && by_chance(random, 50))
		return got; /* dies after it has told that it is at work */
	if (whole && got < want) {
		uint32_t n = path_reader_available(page(), ring->size, taken);
		if (n > want - got)
			n = want - got;
		step(random);
		path_ring_get(world.memory, ring, taken, (uint8_t *)buf + got, n);
		step(random);
		if (n > 0 && path_reader_take(page(), taken, n))
			got += n;
	}
	bool more = path_reader_end(page());
	if (got == 0 && !more) {
		head = wait_for_head(buf, want);
		got = head > 0 ? (uint32_t)head : 0;
	}
	return got;
}

struct thread {
	pthread_t id;
	struct random random;
	uint32_t number;
};

static uint32_t some_bytes(struct random *random)
{
	uint32_t max = by_chance(random, 3) ? LONGEST : 8 * WORD;
	return WORD * (1 + (uint32_t)random_below(random, max / WORD));
}

static void *reader(void *arg)
{
	struct thread *thread = arg;
	uint64_t buf[LONGEST / WORD];
	while (!atomic_load(&world.over)) {
		uint64_t floor = atomic_load(&world.floor);
		uint32_t got = read_as_library(&thread->random, buf, some_bytes(&thread->random),
					       thread->number == 0);
		if (got > 0)
			note_read(buf, got, floor);
	}
	return NULL;
}

static void *outside_reader(void *arg)
{
	struct thread *thread = arg;
	uint64_t buf[LONGEST / WORD];
	while (!atomic_load(&world.over)) {
		uint64_t floor = atomic_load(&world.floor);
		ssize_t got = wait_for_head(buf, some_bytes(&thread->random));
		if (got > 0)
			note_read(buf, (uint32_t)got, floor);
	}
	return NULL;
}

static void put_words(uint64_t first, uint32_t bytes)
{
	for (uint64_t i = first; i < first + bytes / WORD; i++)
		path_ring_put(world.memory, &world.layout.receive, i * WORD, &i, WORD);
}

/* A turn of the daemon: bytes arrive, and the head goes into the pair if no reader is at work. */
static void receive_turn(struct random *random, struct path_rx *rx, uint32_t *waited)
{
	uint64_t end = (uint64_t)RECEIVED * WORD;
	int queued = 0;
	must(path_rx_load(rx) == 0, "taken is nonsense");
	uint64_t room = RING - (rx->produced - rx->taken);
	uint32_t n = some_bytes(random);
	if (n > room)
		n = (uint32_t)room;
	if (n > end - rx->produced)
		n = (uint32_t)(end - rx->produced);
	put_words(rx->produced / WORD, n);
	path_rx_publish(rx, rx->produced + n);
	ioctl(world.daemon, SIOCOUTQ, &queued);
	if (queued > 0 || rx->taken == rx->produced)
		return;
	if (path_rx_reader_at_work(rx) && ++*waited < PATIENCE)
		return;
	if (*waited >= PATIENCE)
		path_rx_ignore_readers(rx);
	*waited = 0;
	uint64_t head[RING / WORD];
	n = WORD * (1 + (uint32_t)random_below(random, 16));
	if (n > rx->produced - rx->taken)
		n = (uint32_t)(rx->produced - rx->taken);
	if (!path_rx_forward_begin(rx, n))
		return;
	path_ring_get(world.memory, &world.layout.receive, rx->taken, head, n);
	step(random);
	uint32_t part = by_chance(random, 4) ? n / WORD / 2 * WORD : n; /* the pair may be full */
	ssize_t sent = part ? send(world.daemon, head, part, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
	must(sent == (ssize_t)part, "the pair has no room");
	step(random);
	path_rx_forward_end(rx, part);
}

static void *receiving_daemon(void *arg)
{
	struct thread *thread = arg;
	uint32_t waited = 0;
	while (!atomic_load(&world.over)) {
		receive_turn(&thread->random, &world.rx, &waited);
		step(&thread->random);
		if (atomic_load(&world.seen_count) == RECEIVED)
			atomic_store(&world.over, true);
	}
	return NULL;
}

/* ---- sending */

static uint64_t word_of(uint32_t writer, uint32_t write, uint32_t number)
{
	return (uint64_t)writer << 56 | (uint64_t)write << 24 | number;
}

static bool send_raw(const void *from, uint32_t len)
{
	while (len > 0 && !atomic_load(&world.over)) {
		ssize_t n = send(world.program, from, len, MSG_NOSIGNAL);
		must(n > 0, "the pair is gone");
		if (n <= 0)
			return false;
		from = (const uint8_t *)from + n;
		len -= (uint32_t)n;
	}
	return true;
}

static bool idle(void)
{
	int charge = 0;
	must(ioctl(world.program, SIOCOUTQ, &charge) == 0, "SIOCOUTQ");
	return charge == world.least_charge;
}

/* The library ends its bytes in the pair with a small message. */
static void send_with_pair(const uint8_t *from, uint32_t len)
{
	if (len > WORD)
		send_raw(from, len - WORD);
	send_raw(from + (len > WORD ? len - WORD : 0), len > WORD ? WORD : len);
}

/* The next word goes through the pair, to wake the daemon. The writer has the lock, without which
 * the daemon cannot empty the pair, so the writer may not wait here. If others have filled the pair
 * meanwhile, their bytes wake the daemon. @return bytes written */
static uint32_t ring_doorbell(const uint8_t *from)
{
	ssize_t n = send(world.program, from, WORD, MSG_DONTWAIT | MSG_NOSIGNAL);
	must(n == (ssize_t)WORD || (n < 0 && errno == EAGAIN), "the pair is gone");
	return n > 0 ? WORD : 0;
}

/* A part of one call of a writer in the library. @return bytes written */
static uint32_t write_part(struct random *random, const uint8_t *from, uint32_t len)
{
	uint64_t at;
	if (!path_writer_lock(page())) {
		send_with_pair(from, len);
		return len;
	}
	step(random);
	bool doorbell = !path_writer_polled(page());
	step(random);
	if (path_writer_revoked(page()) || !idle() || path_writer_backlog(page())) {
		step(random);
		path_writer_unlock(page());
		send_with_pair(from, len);
		return len;
	}
	step(random);
	uint32_t room = path_writer_room(page(), world.layout.send.size, &at);
	uint32_t n = (room < len ? room : len) / WORD * WORD;
	if (n == 0) {
		path_writer_unlock(page());
		send_with_pair(from, WORD);
		return WORD;
	}
	if (doorbell && n == len)
		n -= WORD;
	path_ring_put(world.memory, &world.layout.send, at, from, n);
	step(random);
	if (!path_writer_commit(page(), at, n))
		n = 0;
	step(random);
	if (doorbell && !path_writer_revoked(page()))
		n += ring_doorbell(from + n);
	path_writer_unlock(page());
	return n;
}

static void note_write(uint32_t writer, uint32_t write, uint64_t began, uint32_t words)
{
	world.began[writer][write] = began;
	world.lengths[writer][write] = words;
	world.ended[writer][write] = atomic_fetch_add(&world.clock, 1);
}

/* So that some writes find the daemon asleep, or about to sleep. */
static void pause_writing(struct random *random)
{
	for (int i = 0; by_chance(random, 3) && i < 3; i++)
		sched_yield();
	bool asleep = by_chance(random, 4);
	for (int i = 0; asleep && i < 100 && path_writer_polled(page()); i++)
		sched_yield();
}

static void write_all(struct thread *thread, bool library)
{
	uint64_t buf[LONGEST / WORD];
	for (uint32_t w = 0; w < WRITES && !atomic_load(&world.over); w++) {
		uint32_t len = some_bytes(&thread->random), done = 0;
		for (uint32_t i = 0; i < len / WORD; i++)
			buf[i] = word_of(thread->number, w, i);
		uint64_t began = atomic_fetch_add(&world.clock, 1);
		if (!library)
			send_raw(buf, len);
		while (library && done < len && !atomic_load(&world.over))
			done += write_part(&thread->random, (uint8_t *)buf + done, len - done);
		note_write(thread->number, w, began, len / WORD);
		pause_writing(&thread->random);
	}
	atomic_fetch_sub(&world.writers, 1);
}

static void *writer(void *arg)
{
	write_all(arg, true);
	return NULL;
}

static void *outside_writer(void *arg)
{
	write_all(arg, false);
	return NULL;
}

/* In this test a whole word is kept in the pair, in place of the kept byte. */

static void arrive(const void *from, uint32_t bytes)
{
	must(world.sent_count + bytes / WORD <= MAX_SENT, "more than was written");
	if (atomic_load(&world.over))
		return;
	memcpy(world.sent + world.sent_count, from, bytes);
	world.sent_count += bytes / WORD;
}

/* Bytes in the ring reach the peer. */
static void complete(struct path_tx *tx, uint32_t most)
{
	uint8_t out[RING];
	uint64_t n = tx->committed - tx->completed;
	if (n > most)
		n = most;
	path_ring_get(world.memory, &world.layout.send, tx->completed, out, (uint32_t)n);
	arrive(out, (uint32_t)n);
	path_tx_complete(tx, tx->completed + n);
}

/* Words in the pair behind the kept one. */
static uint32_t pending(void)
{
	int queued = 0;
	must(ioctl(world.daemon, FIONREAD, &queued) == 0 && queued >= (int)WORD, "nothing is kept");
	return (uint32_t)queued - WORD;
}

static void take_pair(struct path_tx *tx, struct random *random)
{
	uint64_t words[2 + RING / WORD];
	uint32_t left = pending();
	uint32_t room = RING - (uint32_t)(tx->committed - tx->completed);
	uint32_t n = left < room ? left : room;
	if (n == 0)
		return;
	if (by_chance(random, 2))
		n = WORD; /* a part of a message */
	/* The daemon first puts the bytes into the ring, and then drops the kept word before
	 * them. */
	ssize_t got = recv(world.daemon, words, n + WORD, MSG_PEEK | MSG_DONTWAIT);
	must(got == (ssize_t)(n + WORD), "peeked too little");
	path_tx_set_backlog(tx, true);
	step(random);
	path_ring_put(world.memory, &world.layout.send, tx->committed, words + 1, n);
	must(path_tx_put(tx, n) == 0, "somebody has committed under the daemon's lock");
	step(random);
	must(recv(world.daemon, words, n, MSG_DONTWAIT) == (ssize_t)n, "dropped too little");
	step(random);
	if (pending() == 0)
		path_tx_set_backlog(tx, false);
}

static bool send_turn(struct path_tx *tx, struct random *random)
{
	must(path_tx_load(tx) == 0, "committed is nonsense");
	complete(tx, some_bytes(random));
	for (int i = 0; by_chance(random, 2) && i < 20; i++)
		sched_yield();
	if (pending() == 0 || !path_tx_lock(tx))
		return pending() > 0 || tx->committed != tx->completed;
	must(path_tx_load(tx) == 0, "committed is nonsense");
	take_pair(tx, random);
	path_tx_unlock(tx);
	return true;
}

static void *sending_daemon(void *arg)
{
	struct thread *thread = arg;
	struct path_tx *tx = &world.tx;
	while (!atomic_load(&world.over)) {
		bool busy = send_turn(tx, &thread->random);
		step(&thread->random);
		if (busy || !path_tx_stop_polling(tx))
			continue;
		if (atomic_load(&world.writers) == 0 && pending() == 0 &&
		    atomic_load(&page()->committed) == tx->completed)
			break;
		/* The daemon sleeps: only bytes in the pair wake it. */
		while (pending() == 0 && atomic_load(&world.writers) > 0 &&
		       !atomic_load(&world.over))
			sched_yield();
		must(pending() > 0 || atomic_load(&world.over) ||
			     atomic_load(&page()->committed) == tx->committed,
		     "the daemon sleeps over bytes");
		path_tx_poll(tx);
	}
	return NULL;
}

/* ---- runs */

static void open_world(void)
{
	int ends[2];
	uint64_t *sent = world.sent;
	memset(&world, 0, sizeof(world));
	world.sent = sent;
	world.layout = (struct path_layout){ sizeof(world.memory),
					     { PATH_PAGE_SIZE, RING },
					     { PATH_PAGE_SIZE + RING, RING } };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	world.program = ends[0];
	world.daemon = ends[1];
	assert_int_equal(send(world.program, "kept....", WORD, 0), WORD);
	assert_int_equal(ioctl(world.program, SIOCOUTQ, &world.least_charge), 0);
	path_rx_open(&world.rx, page(), 0, 0);
	path_tx_open(&world.tx, page(), RING, 0, 0);
}

static void run(uint64_t seed, void *(*const roles[])(void *), uint32_t count)
{
	struct thread threads[THREADS];
	assert_true(count <= THREADS);
	for (uint32_t i = 0; i < count; i++) {
		threads[i] = (struct thread){ .random = { seed * 100 + i }, .number = i };
		assert_int_equal(pthread_create(&threads[i].id, NULL, roles[i], &threads[i]), 0);
	}
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i].id, NULL);
	close(world.program);
	close(world.daemon);
	if (atomic_load(&world.failed))
		fail_msg("seed %u", (unsigned int)seed);
}

static void readers_get_the_stream(void **state)
{
	(void)state;
	static void *(*const roles[])(void *) = { reader, reader, outside_reader,
						  receiving_daemon };
	for (uint64_t seed = 1; seed <= 3; seed++) {
		TRIES("seed %ju", (uintmax_t)seed);
		open_world();
		run(seed, roles, 4);
		assert_int_equal(world.seen_count, RECEIVED);
	}
}

static void one_reader_alone(void **state)
{
	(void)state;
	static void *(*const roles[])(void *) = { reader, receiving_daemon };
	open_world();
	run(11, roles, 2);
	assert_int_equal(world.seen_count, RECEIVED);
}

/* Each write is there once, with its parts in order. A write that began after another had ended
 * comes behind it. */
static void check_sent(uint32_t writers)
{
	uint32_t write[THREADS] = { 0 }, number[THREADS] = { 0 };
	uint64_t latest = 0; /* the latest time at which a write began, of those seen so far */
	for (uint32_t i = 0; i < world.sent_count; i++) {
		uint64_t word = world.sent[i];
		uint32_t w = (uint32_t)(word >> 56);
		assert_true(w < writers);
		assert_true(word == word_of(w, write[w], number[w]));
		if (world.began[w][write[w]] > latest)
			latest = world.began[w][write[w]];
		if (++number[w] < world.lengths[w][write[w]])
			continue;
		assert_true(latest < world.ended[w][write[w]]);
		number[w] = 0;
		write[w]++;
	}
	for (uint32_t w = 0; w < writers; w++)
		assert_int_equal(write[w], WRITES);
}

static void write_with(void *(*const roles[])(void *), uint32_t writers, uint64_t seed)
{
	world.sent = malloc(MAX_SENT * sizeof(*world.sent));
	assert_non_null(world.sent);
	open_world();
	atomic_store(&world.writers, writers);
	run(seed, roles, writers + 1);
	check_sent(writers);
	free(world.sent);
	world.sent = NULL;
}

static void one_writer_alone(void **state)
{
	(void)state;
	static void *(*const roles[])(void *) = { writer, sending_daemon };
	for (uint64_t seed = 21; seed <= 22; seed++)
		write_with(roles, 1, seed);
}

static void a_writer_and_an_outsider(void **state)
{
	(void)state;
	static void *(*const roles[])(void *) = { writer, outside_writer, sending_daemon };
	for (uint64_t seed = 31; seed <= 32; seed++)
		write_with(roles, 2, seed);
}

static void two_writers_and_an_outsider(void **state)
{
	(void)state;
	static void *(*const roles[])(void *) = { writer, writer, outside_writer, sending_daemon };
	for (uint64_t seed = 41; seed <= 42; seed++)
		write_with(roles, 3, seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_reader_alone),
		cmocka_unit_test(readers_get_the_stream),
		cmocka_unit_test(one_writer_alone),
		cmocka_unit_test(a_writer_and_an_outsider),
		cmocka_unit_test(two_writers_and_an_outsider),
	};
	alarm(DEADLINE_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
