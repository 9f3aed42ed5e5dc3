/* SPDX-License-Identifier: MIT */
/* Captures: who may ask, with which memory, how many run, and what is written about a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "daemon/control/capture_sink.h"
#include "daemon/smcr/internal.h"
#include "proto/capture/record.h"
#include "proto/smcr/cdc.h"
#include "tests/lib/controlfix.h"
#include "tests/lib/tries.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int memory_of(size_t len, int seals)
{
	int fd = memfd_create("test-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static char refusal_text[300]; /* the text of the latest refusal */

/* The reply that came later, to a capture that has ended. */
static struct {
	uint64_t request;
	char *reply;
} told;

static void on_reply(void *ctx, uint64_t request, char *reply)
{
	(void)ctx;
	assert_null(told.reply);
	told.request = request;
	told.reply = reply;
}

/* @return "" if the capture has begun, else the code of the refusal, valid until the next call */
static const char *ask(struct controlfix *fix, uint64_t request, uid_t uid, int fd,
		       const char *params)
{
	static char code[64];
	const struct clients_asker asker = { .request = request,
					     .reply = on_reply,
					     .cred = { .uid = uid, .pid = getpid() },
					     .fd = fd };
	char json[128], *text = NULL;
	int len = snprintf(json, sizeof(json), "{\"method\":\"capture.run\",\"params\":{%s}}",
			   params);
	int r = control_handle(&fix->control, &asker, json, (size_t)len, &text);
	code[0] = '\0';
	if (r == -EINPROGRESS)
		return code;
	assert_int_equal(r, 0);
	json_t *reply = json_loads(text, 0, NULL);
	const json_t *error = json_object_get(reply, "error");
	snprintf(code, sizeof(code), "%s", json_string_value(json_object_get(error, "code")));
	snprintf(refusal_text, sizeof(refusal_text), "%s",
		 json_string_value(json_object_get(error, "text")));
	json_decref(reply);
	free(text);
	return code;
}

static void only_administrators_capture(void **state)
{
	struct controlfix *fix = *state;
	int fd = memory_of(CAPTURE_MIN_SIZE, SEALS);
	assert_string_equal(ask(fix, 1, 65534, fd, ""), "not-permitted");
	free(fix->config.admin_group);
	fix->config.admin_group = strdup("operators");
	fix->config.admin_gid = 0; /* the group of the asker */
	assert_string_equal(ask(fix, 2, 65534, fd, "\"data\":true"), "not-permitted");
	assert_string_equal(ask(fix, 3, 65534, fd, "\"data\":false"), "");
	assert_string_equal(ask(fix, 4, 0, fd, "\"data\":true"), "");
	close(fd);
}

static void memory_has_to_be_sound(void **state)
{
	struct controlfix *fix = *state;
	static const struct {
		size_t len;
		int seals;
	} wrong[] = { { CAPTURE_MIN_SIZE, 0 },
		      { CAPTURE_MIN_SIZE, F_SEAL_GROW },
		      { CAPTURE_MIN_SIZE - 1, SEALS },
		      { CAPTURE_MIN_SIZE + 1, SEALS },
		      { CAPTURE_MAX_SIZE + 4096, SEALS } };
	int ends[2];
	assert_string_equal(ask(fix, 1, 0, -1, ""), "bad-request");
	assert_int_equal(pipe(ends), 0);
	assert_string_equal(ask(fix, 1, 0, ends[1], ""), "bad-request");
	close(ends[0]);
	close(ends[1]);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		TRIES("row %zu", i);
		int fd = memory_of(wrong[i].len, wrong[i].seals);
		assert_string_equal(ask(fix, 1, 0, fd, ""), "bad-request");
		close(fd);
	}
	assert_string_equal(ask(fix, 1, 0, -1, "\"peer\":\"nonsense\""), "bad-parameter");
	int fd = memory_of(CAPTURE_MIN_SIZE, SEALS); /* a refused request leaves nothing behind */
	assert_string_equal(ask(fix, 2, 0, fd, ""), "");
	close(fd);
}

static void two_run_at_a_time(void **state)
{
	struct controlfix *fix = *state;
	struct capture_ring ring;
	int fd = memory_of(CAPTURE_MIN_SIZE, SEALS);
	void *memory = mmap(NULL, CAPTURE_MIN_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(capture_ring_init(&ring, memory, CAPTURE_MIN_SIZE));
	assert_string_equal(ask(fix, 1, 0, fd, ""), "");
	assert_true(capture_ring_has_begun(&ring));
	assert_string_equal(ask(fix, 2, 0, fd, "\"linkgroup\":1"), "");
	assert_string_equal(ask(fix, 3, 0, fd, ""), "busy");
	/* the refusal says who captures, and since when */
	char holder[64], program[16];
	const char *second;
	assert_int_equal(prctl(PR_GET_NAME, program), 0);
	snprintf(holder, sizeof(holder), "%s (pid %d, uid 0) since 20", program, (int)getpid());
	assert_non_null(second = strstr(refusal_text, holder));
	assert_non_null(strstr(second + 1, holder));
	control_forget(&fix->control, 3); /* no capture has this number */
	assert_string_equal(ask(fix, 4, 0, fd, ""), "busy");
	control_forget(&fix->control, 1);
	assert_string_equal(ask(fix, 5, 0, fd, ""), "");
	assert_string_equal(ask(fix, 6, 0, fd, ""), "busy");
	munmap(memory, CAPTURE_MIN_SIZE);
	close(fd);
}

static void a_group_that_is_not_there_is_refused(void **state)
{
	struct controlfix *fix = *state;
	int fd = memory_of(CAPTURE_MIN_SIZE, SEALS);
	assert_string_equal(ask(fix, 1, 0, fd, "\"linkgroup\":99"), "not-found");
	assert_non_null(
		strstr(refusal_text, "there is no link group 99; 'smcrctl linkgroup' lists them"));
	assert_string_equal(ask(fix, 2, 0, fd, "\"linkgroup\":2"), "not-found");
	assert_string_equal(ask(fix, 3, 0, fd, "\"linkgroup\":1"), "");
	close(fd);
}

static void let_time_pass(const struct controlfix *fix)
{
	const struct timeval time = { .tv_usec = 300000 };
	event_base_loopexit(fix->base, &time);
	event_base_dispatch(fix->base);
}

/* A capture of this group alone ends, and its asker is told; the other capture goes on. */
static void a_capture_ends_with_its_group(void **state)
{
	struct controlfix *fix = *state;
	const struct smcr_command end = { .type = SMCR_COMMAND_LGR_DELETE, .lgr = 1 };
	uint64_t id;
	int fd = memory_of(CAPTURE_MIN_SIZE, SEALS);
	assert_string_equal(ask(fix, 1, 0, fd, ""), "");
	assert_string_equal(ask(fix, 2, 0, fd, "\"linkgroup\":1"), "");
	let_time_pass(fix);
	assert_null(told.reply);
	assert_int_equal(smcr_engine_command(fix->control.engine, &end, &id), 0);
	pair_run(fix->pair, 1000000);
	assert_null(told.reply); /* the reply does not come while the engine is running */
	let_time_pass(fix);
	assert_int_equal(told.request, 2);
	assert_non_null(strstr(told.reply, "link group 1 has ended"));
	assert_null(strstr(told.reply, "error"));
	free(told.reply);
	told.reply = NULL;
	control_forget(&fix->control, 2); /* its session ends, but the reply was sent already */
	assert_string_equal(ask(fix, 3, 0, fd, ""), "");
	assert_string_equal(ask(fix, 4, 0, fd, ""), "busy");
	let_time_pass(fix);
	assert_null(told.reply);
	close(fd);
}

/* ---- records ---- */

#define LINK_REF 1 /* reference of the first link of the fixture */

static uint64_t marks[FABRIC_MARKS];

static struct capture_sink sink_of(void *memory, struct capture_ring *ret_reader)
{
	struct capture_sink sink = { .serial = 5 };
	memset(memory, 0, CAPTURE_MIN_SIZE);
	memset(marks, 0, sizeof(marks));
	assert_true(capture_ring_init(&sink.ring, memory, CAPTURE_MIN_SIZE));
	assert_true(capture_ring_init(ret_reader, memory, CAPTURE_MIN_SIZE));
	return sink;
}

static void give(struct capture_sink *sink, const struct controlfix *fix, const void *data,
		 uint32_t len, bool is_write)
{
	const struct fabric_message message = { .link_ref = LINK_REF,
						.marks = marks,
						.sent = true,
						.is_write = is_write,
						.data = data,
						.length = len,
						.remote_addr = 0x1000,
						.rkey = 7 };
	capture_sink_take(sink, fix->control.engine, &message);
}

struct taken {
	struct capture_message message;
	const uint8_t *data; /* valid until the next record is read */
};

static uint8_t record[1000];

/* @return length of the record, 0 if there is none */
static size_t next_record(struct capture_ring *reader)
{
	ssize_t n = capture_ring_get(reader, record, sizeof(record));
	assert_true(n >= 0);
	return (size_t)n;
}

static struct taken next_message(struct capture_ring *reader)
{
	struct taken taken;
	uint32_t len;
	size_t n = next_record(reader);
	assert_true(capture_message_take(record, n, &taken.message, &taken.data, &len));
	assert_int_equal(len, 44);
	return taken;
}

static const uint8_t cdc[44] = { SMCR_CDC_TYPE, 44, 1, 2, 3 };
static const uint8_t test_link[44] = { 7, 44, 0, 0, 1, 2, 3 };
/* CONFIRM RKEY with one key and one address */
static const uint8_t llc[44] = { 6, 44, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 5, 6, 7, 8 };

static void a_link_is_told_once(void **state)
{
	struct controlfix *fix = *state;
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	struct capture_ring reader;
	struct capture_sink sink = sink_of(memory, &reader);
	struct capture_link link;
	give(&sink, fix, cdc, sizeof(cdc), false);
	give(&sink, fix, llc, sizeof(llc), false);
	give(&sink, fix, llc, sizeof(llc), true); /* this capture does not want received messages */
	size_t n = next_record(&reader);
	assert_true(capture_link_take(record, n, &link));
	const struct smcr_link_view real = pair_link_view(fix->pair, PAIR_SERVER, 1);
	assert_int_equal(link.link, LINK_REF);
	assert_int_equal(link.group, 1);
	assert_int_equal(link.number, 1);
	assert_int_equal(link.local.qpn, real.local_qpn);
	assert_int_equal(link.peer.qpn, real.peer_qpn);
	assert_memory_equal(link.local.gid, real.local_gid, 16);
	assert_memory_equal(link.peer.mac, real.peer_mac, 6);
	assert_string_equal(link.name, real.device_name);
	struct taken taken = next_message(&reader);
	assert_int_equal(taken.message.flags, CAPTURE_SENT);
	assert_int_equal(taken.message.length, 44);
	assert_memory_equal(taken.data, cdc, 44);
	taken = next_message(&reader);
	assert_memory_equal(taken.data, llc, 44); /* root's capture has the keys */
	assert_int_equal(next_record(&reader), 0);
}

static void keys_and_data_are_roots(void **state)
{
	struct controlfix *fix = *state;
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	struct capture_ring reader;
	struct capture_sink sink = sink_of(memory, &reader);
	sink.hide_keys = true;
	give(&sink, fix, llc, sizeof(llc), false);
	give(&sink, fix, cdc, sizeof(cdc), false);
	next_record(&reader); /* the description of the link */
	struct taken taken = next_message(&reader);
	assert_int_equal(taken.message.flags, CAPTURE_SENT | CAPTURE_HIDDEN);
	assert_memory_equal(taken.data, llc, 5);
	for (int i = 5; i < 44; i++)
		assert_int_equal(taken.data[i], 0);
	/* A message without keys is not marked as one whose keys are hidden. */
	give(&sink, fix, test_link, sizeof(test_link), false);
	taken = next_message(&reader); /* the CDC message */
	assert_int_equal(taken.message.flags, CAPTURE_SENT);
	assert_memory_equal(taken.data, cdc, 44);
	taken = next_message(&reader);
	assert_int_equal(taken.message.flags, CAPTURE_SENT);
	assert_memory_equal(taken.data, test_link, 44);

	sink = sink_of(memory, &reader);
	sink.writes = true;
	give(&sink, fix, llc, sizeof(llc), true);
	next_record(&reader);
	taken = next_message(&reader);
	assert_int_equal(taken.message.flags, CAPTURE_SENT | CAPTURE_WRITE);
	assert_int_equal(taken.message.remote_addr, 0x1000);
	assert_int_equal(taken.message.rkey, 7);
	assert_memory_equal(taken.data, llc, 44);
}

/* The dialect of the link group decides where ADD LINK has its PSN. */
static void an_add_link_is_hidden_by_its_dialect(void **state)
{
	struct controlfix *fix = *state;
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	static const struct {
		bool known;
		enum smcr_dialect dialect;
		size_t first, last; /* the bytes that must be zero */
	} cases[] = { { true, SMCR_DIALECT_RFC, 31, 33 },
		      { true, SMCR_DIALECT_DEPLOYED, 33, 35 },
		      { false, SMCR_DIALECT_RFC, 31, 35 } };
	uint8_t ones[44];
	struct capture_ring reader;
	struct smcr_lgr *lgr = pair_link(fix->pair, PAIR_SERVER, 1)->lgr;
	memset(ones, 0xFF, sizeof(ones));
	ones[0] = 2;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("row %zu", i);
		struct capture_sink sink = sink_of(memory, &reader);
		sink.hide_keys = true;
		lgr->dialect_known = cases[i].known;
		lgr->dialect = cases[i].dialect;
		give(&sink, fix, ones, sizeof(ones), false);
		next_record(&reader);
		const struct taken taken = next_message(&reader);
		assert_int_equal(taken.message.flags, CAPTURE_SENT | CAPTURE_HIDDEN);
		for (size_t at = 1; at < 44; at++)
			assert_int_equal(taken.data[at],
					 at >= cases[i].first && at <= cases[i].last ? 0 : 0xFF);
	}
}

static void other_links_are_left_out(void **state)
{
	struct controlfix *fix = *state;
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	struct capture_ring reader;
	struct capture_sink sink = sink_of(memory, &reader);
	sink.filter.linkgroup = 2;
	give(&sink, fix, cdc, sizeof(cdc), false);
	give(&sink, fix, cdc, sizeof(cdc), false);
	assert_int_equal(next_record(&reader), 0);
	/* A capture with another serial number describes the link anew, even if a capture before
	 * had the same mark. */
	sink.filter.linkgroup = 1;
	sink.serial++;
	give(&sink, fix, cdc, sizeof(cdc), false);
	assert_true(next_record(&reader) > 0);
	next_message(&reader);
	assert_int_equal(next_record(&reader), 0);
}

/* The messages of a link that has gone count as lost, whether the link was described before or
 * not. */
static void messages_of_a_link_that_has_gone_are_lost(void **state)
{
	struct controlfix *fix = *state;
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	struct capture_ring reader;
	struct capture_sink sink = sink_of(memory, &reader);
	const struct fabric_message stale = {
		.link_ref = 99, .device_id = 7, .marks = marks, .data = cdc, .length = 44
	};
	capture_sink_take(&sink, fix->control.engine, &stale);
	capture_sink_take(&sink, fix->control.engine, &stale);
	assert_int_equal(next_record(&reader), 0);
	assert_int_equal(capture_ring_lost(&reader, 0), 2);
	memset(marks, 0, sizeof(marks));
	give(&sink, fix, cdc, sizeof(cdc), false); /* another RNIC, which has lost nothing */
	assert_true(next_record(&reader) > 0);
	assert_int_equal(next_message(&reader).message.lost, 0);
	assert_int_equal(capture_ring_lost(&reader, 1), 0);
}

/* If nobody reads, smcrd goes on and counts lost messages. The first record after that tells how
 * many. */
static void a_slow_reader_loses_messages(void **state)
{
	struct controlfix *fix = *state;
	static uint8_t memory[CAPTURE_MIN_SIZE] __attribute__((aligned(4096)));
	struct capture_ring reader;
	struct capture_sink sink = sink_of(memory, &reader);
	for (int i = 0; i < 1000; i++)
		give(&sink, fix, cdc, sizeof(cdc), false);
	const uint64_t lost = capture_ring_lost(&reader, 0);
	assert_in_range(lost, 1, 999);
	assert_true(next_record(&reader) > 0); /* the description of the link */
	for (uint64_t i = lost; i < 1000; i++)
		assert_int_equal(next_message(&reader).message.lost, 0);
	assert_int_equal(next_record(&reader), 0);
	/* smcrd tells its own count, not what the reader may have written to the page. */
	atomic_store(&reader.page->lost[0], 12345678);
	give(&sink, fix, cdc, sizeof(cdc), false);
	assert_int_equal(next_message(&reader).message.lost, lost);
}

#define TEST(function)                                                                             \
	cmocka_unit_test_setup_teardown(function, controlfix_setup, controlfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_administrators_capture),
		TEST(memory_has_to_be_sound),
		TEST(two_run_at_a_time),
		TEST(a_group_that_is_not_there_is_refused),
		TEST(a_capture_ends_with_its_group),
		TEST(a_link_is_told_once),
		TEST(keys_and_data_are_roots),
		TEST(an_add_link_is_hidden_by_its_dialect),
		TEST(other_links_are_left_out),
		TEST(messages_of_a_link_that_has_gone_are_lost),
		TEST(a_slow_reader_loses_messages),
	};
	return cmocka_run_group_tests_name("control capture", tests, NULL, NULL);
}
