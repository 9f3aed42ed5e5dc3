/* SPDX-License-Identifier: MIT */
/* The events that operators read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/cm/cm.h"
#include "daemon/smbgate/gate.h"
#include "daemon/events/events.h"
#include "daemon/host/log.h"
#include "tests/lib/tries.h"

static struct events *fresh(void)
{
	struct events *events;
	assert_int_equal(events_new(&events), 0);
	return events;
}

struct seen {
	size_t num, most;
	struct event_record first, last;
};

static bool see(void *arg, const struct event_record *event)
{
	struct seen *seen = arg;
	if (seen->num++ == 0)
		seen->first = *event;
	else
		assert_int_equal(event->id, seen->last.id + 1);
	seen->last = *event;
	return !seen->most || seen->num < seen->most;
}

static struct seen look(const struct events *events, uint64_t after, size_t most)
{
	struct seen seen = { .most = most };
	events_walk(events, after, see, &seen);
	return seen;
}

/** Adds an event of the peer 192.0.2.`host`. */
static void of_peer(struct events *events, uint8_t host, uint32_t group)
{
	const struct smcr_event event = {
		.type = SMCR_EVENT_LGR_UP,
		.lgr = group,
		.peer = { .family = AF_INET, .ip = { 192, 0, 2, host }, .port = 80 },
		.text = "",
	};
	events_engine(events, &event);
}

static void the_last_ones_are_kept(void **state)
{
	(void)state;
	struct events *events = fresh();
	assert_int_equal(look(events, 0, 0).num, 0);
	for (unsigned int i = 1; i <= EVENTS_KEPT + 500; i++)
		of_peer(events, (uint8_t)(i % 10), i);
	struct seen all = look(events, 0, 0);
	assert_int_equal(all.num, EVENTS_KEPT);
	assert_int_equal(all.first.id, 501);
	assert_int_equal(all.first.group, 501);
	assert_int_equal(all.last.group, 1500);
	assert_true(all.first.time_us && all.first.time_us <= all.last.time_us);
	assert_int_equal(look(events, 1400, 0).num, 100);
	assert_int_equal(look(events, 1400, 0).first.id, 1401);
	assert_int_equal(look(events, 300, 7).last.id, 507);
	assert_int_equal(look(events, 1500, 0).num, 0);
	assert_int_equal(look(events, UINT64_MAX, 0).num, 0);
	events_free(events);
}

static void count_call(void *ctx)
{
	++*(unsigned int *)ctx;
}

static void readers_that_wait_are_told(void **state)
{
	(void)state;
	unsigned int calls = 0;
	struct events *events = fresh();
	of_peer(events, 1, 1);
	events_notify(events, count_call, &calls);
	assert_int_equal(events_last_id(events), 1);
	of_peer(events, 1, 2);
	events_command(events, "link.delete", false, "done");
	assert_int_equal(calls, 2);
	assert_int_equal(events_last_id(events), 3);
	events_free(events);
}

static bool count_kinds(void *arg, const struct event_record *event)
{
	unsigned int *counts = arg; /* events of this peer, of another peer, of commands */
	counts[event->kind == EVENT_COMMAND ? 2 : event->peer.ip[3] == 66]++;
	return true;
}

/** Neither a peer nor an operator's script can fill the whole history, or the log. */
static void no_peer_takes_all(void **state)
{
	(void)state;
	unsigned int counts[3] = { 0 }, logged = 0;
	struct events *events = fresh();
	of_peer(events, 1, 1);
	events_command(events, "link.delete", false, "done");
	for (unsigned int i = 0; i < 5000; i++)
		of_peer(events, 66, i);
	of_peer(events, 1, 2);
	events_walk(events, 0, count_kinds, counts);
	assert_int_equal(counts[0], 2);
	assert_int_equal(counts[1], EVENTS_OF_A_PEER);
	assert_int_equal(counts[2], 1);
	for (unsigned int i = 0; i < 5000; i++)
		events_command(events, "policy.add", false, "done");
	memset(counts, 0, sizeof(counts));
	events_walk(events, 0, count_kinds, counts);
	assert_int_equal(counts[0], 2);
	assert_int_equal(counts[1], EVENTS_OF_A_PEER);
	assert_int_equal(counts[2], EVENTS_OF_A_PEER);
	events_free(events);

	events = fresh();
	for (unsigned int i = 0; i < 100; i++) {
		of_peer(events, 66, i);
		logged += look(events, i, 0).last.logged;
	}
	assert_int_equal(logged, EVENTS_PEER_A_MINUTE);
	of_peer(events, 1, 1);
	assert_true(look(events, 100, 0).last.logged);
	events_free(events);
}

static void one_line_of_text(void **state)
{
	(void)state;
	struct events *events = fresh();
	events_command(events, "policy.add", true, "a\n\033[31mb\x7f");
	assert_string_equal(look(events, 0, 0).last.text, "policy.add: a??[31mb?");
	events_command(events, "config.set", true, "'caf\xC3' is no level");
	assert_string_equal(look(events, 1, 0).last.text, "config.set: 'caf?' is no level");
	for (unsigned int shift = 0; shift < 4; shift++) {
		char long_text[1000] = "xxxx";
		for (size_t at = shift; at + 4 < sizeof(long_text); at += 4)
			memcpy(long_text + at, "\xF0\x9F\x98\x80", 5);
		events_command(events, "", true, long_text);
		const struct event_record last = look(events, 2 + shift, 0).last;
		json_t *json = json_string(last.text); /* NULL if the text is not UTF-8 */
		assert_non_null(json);
		json_decref(json);
		assert_in_range(strlen(last.text), EVENTS_TEXT_LEN - 5, EVENTS_TEXT_LEN - 1);
	}
	events_free(events);
}

static void sentences(void **state)
{
	static const struct {
		enum smcr_event_type type;
		uint8_t link;
		uint32_t conns;
		const char *text, *kind, *sentence;
	} rows[] = {
		{ SMCR_EVENT_LGR_UP, 0, 0, "", "group-up",
		  "link group 7 with peer 192.0.2.9 is up" },
		{ SMCR_EVENT_LINK_UP, 1, 0, "", "link-up",
		  "link 7/1 on soft:eth0 with peer 192.0.2.9 is up" },
		{ SMCR_EVENT_LINK_FAILED, 1, 12, "retry exceeded", "link-failed",
		  "link 7/1 on soft:eth0 with peer 192.0.2.9 has failed: retry exceeded; 12 "
		  "connections have moved" },
		{ SMCR_EVENT_LINK_FAILED, 1, 0, "retry exceeded", "link-failed",
		  "link 7/1 on soft:eth0 with peer 192.0.2.9 has failed: retry exceeded" },
		{ SMCR_EVENT_LINK_DELETED, 2, 1, "an operator wants it", "link-deleted",
		  "link 7/2 on soft:eth0 with peer 192.0.2.9 is deleted: an operator wants it; 1 "
		  "connection has moved" },
		{ SMCR_EVENT_LINK_REFUSED, 3, 0, "no answer", "link-refused",
		  "link 7/3 on soft:eth0 with peer 192.0.2.9 could not be set up: no answer" },
		{ SMCR_EVENT_LGR_DOWN, 0, 1, "it is over", "group-down",
		  "link group 7 with peer 192.0.2.9 has ended: it is over; 1 connection was "
		  "reset" },
		{ SMCR_EVENT_LGR_DOWN, 0, 3, "it is over", "group-down",
		  "link group 7 with peer 192.0.2.9 has ended: it is over; 3 connections were "
		  "reset" },
	};
	(void)state;
	struct events *events = fresh();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].text);
		const struct smcr_event event = {
			.type = rows[i].type,
			.lgr = 7,
			.peer = { .family = AF_INET, .ip = { 192, 0, 2, 9 }, .port = 80 },
			.link = rows[i].link,
			.device = rows[i].link ? "soft:eth0" : NULL,
			.num_conns = rows[i].conns,
			.text = rows[i].text,
		};
		events_engine(events, &event);
		const struct event_record last = look(events, i, 0).last;
		assert_string_equal(last.text, rows[i].sentence);
		assert_string_equal(event_kind_name(last.kind), rows[i].kind);
		assert_int_equal(last.group, 7);
		assert_int_equal(last.link, rows[i].link);
		assert_string_equal(last.rnic, rows[i].link ? "soft:eth0" : "");
		assert_int_equal(last.connections, rows[i].conns);
		assert_int_equal(last.peer.port, 0);
	}
	events_free(events);
}

static const struct conns_told *of_conn(enum conns_told_kind kind, uint8_t host)
{
	static struct smcr_addr local, peer;
	static struct conns_told told;
	local = (struct smcr_addr){ .family = AF_INET, .ip = { 192, 0, 2, 1 }, .port = 40000 };
	peer = (struct smcr_addr){ .family = AF_INET, .ip = { 192, 0, 2, host }, .port = 80 };
	told = (struct conns_told){ .kind = kind,
				    .local = &local,
				    .peer = &peer,
				    .pid = 12,
				    .program = "curl",
				    .reason = SMCR_REASON_PEER_DECLINED,
				    .peer_reason = SMCR_REASON_NO_DEVICE,
				    .why = "the peer has reset the TCP connection" };
	return &told;
}

static void connections(void **state)
{
	char sentence[EVENTS_TEXT_LEN];
	(void)state;
	struct events *events = fresh();
	events_connection(events, of_conn(CONNS_FELL_BACK, 9));
	struct event_record last = look(events, 0, 0).last;
	snprintf(sentence, sizeof(sentence),
		 "connection 192.0.2.1:40000 to 192.0.2.9:80 (pid 12) fell back to TCP: "
		 "%s; the peer says: %s",
		 smcr_reason_text(SMCR_REASON_PEER_DECLINED),
		 smcr_reason_text(SMCR_REASON_NO_DEVICE));
	assert_string_equal(last.text, sentence);
	assert_string_equal(event_kind_name(last.kind), "fallback");
	assert_int_equal(last.reason, SMCR_REASON_PEER_DECLINED);
	assert_int_equal(last.peer_reason, SMCR_REASON_NO_DEVICE);
	assert_int_equal(last.peer.port, 0);
	/* The program is for the journal: not every reader of the text may know it. */
	assert_string_equal(last.program, "curl");
	assert_null(strstr(last.text, "curl"));

	struct conns_told told = *of_conn(CONNS_WAS_RESET, 9);
	told.server = true;
	told.program = NULL;
	told.reason = told.peer_reason = SMCR_REASON_NONE;
	events_connection(events, &told);
	last = look(events, 1, 0).last;
	assert_string_equal(last.text, "connection 192.0.2.1:40000 from 192.0.2.9:80 (pid 12) was "
				       "reset: the peer has reset the TCP connection");
	assert_string_equal(event_kind_name(last.kind), "reset");

	told.kind = CONNS_BROKE;
	told.pid = 0;
	told.why = NULL;
	told.reason = SMCR_REASON_INTERNAL;
	events_connection(events, &told);
	last = look(events, 2, 0).last;
	snprintf(sentence, sizeof(sentence),
		 "connection 192.0.2.1:40000 from 192.0.2.9:80 broke before SMC-R was agreed upon: "
		 "%s",
		 smcr_reason_text(SMCR_REASON_INTERNAL));
	assert_string_equal(last.text, sentence);
	assert_string_equal(event_kind_name(last.kind), "fallback");

	/* A connection that did not begin SMC-R is no event. */
	events_connection(events, of_conn(CONNS_STAYED_TCP, 9));
	events_connection(events, of_conn(CONNS_REFUSED, 9));
	assert_int_equal(look(events, 0, 0).num, 3);
	events_free(events);
}

static bool count_classes(void *arg, const struct event_record *event)
{
	/* events of links, of connections of peer 66, of other connections */
	unsigned int *counts = arg;
	bool connection = event->kind == EVENT_RESET || event->kind == EVENT_FALLBACK;
	counts[!connection ? 0 : event->peer.ip[3] == 66 ? 1 : 2]++;
	return true;
}

/** However many connections a peer resets, events of links stay, and are in the log too. */
static void connections_leave_links_alone(void **state)
{
	unsigned int counts[3] = { 0 }, logged = 0;
	(void)state;
	struct events *events = fresh();
	of_peer(events, 66, 1);
	events_connection(events, of_conn(CONNS_FELL_BACK, 1));
	for (unsigned int i = 0; i < 5000; i++)
		events_connection(events, of_conn(CONNS_WAS_RESET, 66));
	events_walk(events, 0, count_classes, counts);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], EVENTS_OF_PEERS_CONNS);
	assert_int_equal(counts[2], 1);
	of_peer(events, 66, 2);
	assert_true(look(events, 5002, 0).last.logged);
	for (unsigned int i = 0; i < 5000; i++)
		events_connection(events, of_conn(CONNS_WAS_RESET, (uint8_t)(i % 50)));
	memset(counts, 0, sizeof(counts));
	events_walk(events, 0, count_classes, counts);
	assert_int_equal(counts[0], 2);
	assert_int_equal(counts[1] + counts[2], EVENTS_OF_CONNECTIONS);
	events_free(events);

	events = fresh();
	for (unsigned int i = 0; i < 300; i++) {
		events_connection(events, of_conn(CONNS_WAS_RESET, 66));
		logged += look(events, i, 0).last.logged;
	}
	assert_int_equal(logged, EVENTS_CONNS_PEER_A_MINUTE);
	events_free(events);
}

static void rnics(void **state)
{
	(void)state;
	struct events *events = fresh();
	events_rnic(events, "soft:eth0", true, "in use");
	struct event_record last = look(events, 0, 0).last;
	assert_string_equal(last.text, "rnic soft:eth0: in use");
	assert_string_equal(last.rnic, "soft:eth0");
	assert_string_equal(event_kind_name(last.kind), "rnic-up");
	events_rnic(events, "soft:eth0", false, "its port is down: its interface has no address");
	last = look(events, 1, 0).last;
	assert_string_equal(last.text,
			    "rnic soft:eth0: its port is down: its interface has no address");
	assert_string_equal(event_kind_name(last.kind), "rnic-down");
	events_free(events);
}

static void users_that_were_refused(void **state)
{
	(void)state;
	struct events *events = fresh();
	for (unsigned int i = 0; i < 2 * EVENTS_OF_PEERS_CONNS; i++)
		events_refused(events, "user 1000 was refused the port, 3 times");
	events_rnic(events, "soft:eth0", true, "in use");
	events_refused(events, "user 1000 was refused the port, 4 times");
	struct event_record last = look(events, 2 * EVENTS_OF_PEERS_CONNS + 1, 0).last;
	assert_string_equal(last.text, "user 1000 was refused the port, 4 times");
	assert_string_equal(event_kind_name(last.kind), "user-refused");
	assert_int_equal(last.peer.family, 0);
	events_free(events);
}

static struct cm_addr at(uint8_t last, uint16_t port)
{
	return (struct cm_addr){ .family = AF_INET, .addr = { 192, 0, 2, last }, .port = port };
}

static bool count_refused(void *arg, const struct event_record *event)
{
	*(unsigned int *)arg += event->kind == EVENT_CM_REFUSED;
	return true;
}

/** What the connection manager tells. A peer that asks again and again displaces no other event. */
static void rdma_connections(void **state)
{
	unsigned int refused = 0, counts[3] = { 0 };
	(void)state;
	struct events *events = fresh();
	struct cm_told told = { .what = CM_TOLD_CONNECTED,
				.rnic = "soft:eth0",
				.active = true,
				.local = at(1, 40000),
				.peer = at(9, 445),
				.text = "" };
	events_cm(events, &told);
	struct event_record last = look(events, 0, 0).last;
	assert_string_equal(last.text,
			    "RDMA connection 192.0.2.1:40000 to 192.0.2.9:445 on soft:eth0 is up");
	assert_string_equal(event_kind_name(last.kind), "cm-up");
	assert_string_equal(last.rnic, "soft:eth0");
	assert_int_equal(last.peer.family, AF_INET);
	assert_int_equal(last.peer.ip[3], 9);
	assert_int_equal(last.peer.port, 0);

	told.what = CM_TOLD_ENDED;
	told.active = false;
	told.text = "the peer has ended it";
	events_cm(events, &told);
	last = look(events, 1, 0).last;
	assert_string_equal(last.text, "RDMA connection 192.0.2.1:40000 from 192.0.2.9:445 on "
				       "soft:eth0 has ended: the peer has ended it");
	assert_string_equal(event_kind_name(last.kind), "cm-down");

	of_peer(events, 66, 1);
	told = (struct cm_told){ .what = CM_TOLD_REFUSED,
				 .rnic = "soft:eth0",
				 .local = at(1, 445),
				 .peer = at(66, 0),
				 .text = "nobody listens there" };
	for (unsigned int i = 0; i < 5000; i++)
		events_cm(events, &told);
	last = look(events, 5002, 0).last;
	assert_string_equal(last.text, "request of 192.0.2.66 for an RDMA connection to "
				       "192.0.2.1:445 on soft:eth0 was refused: nobody listens "
				       "there");
	assert_string_equal(event_kind_name(last.kind), "cm-refused");
	assert_false(last.logged);
	events_walk(events, 0, count_refused, &refused);
	assert_int_equal(refused, EVENTS_OF_PEERS_CONNS);
	events_walk(events, 0, count_classes, counts);
	assert_int_equal(counts[0], EVENTS_OF_PEERS_CONNS + 3);
	events_free(events);
}

/** What the gateway of SMB Direct tells, of either side. */
static void connections_of_smb_direct(void **state)
{
	(void)state;
	struct events *events = fresh();
	struct smbgate_told told = { .what = SMBGATE_TOLD_UP,
				     .number = 7,
				     .serves = true,
				     .rnic = "soft:eth0",
				     .local = at(1, 445),
				     .peer = at(9, 40000),
				     .user = "127.0.0.1:445",
				     .text = "" };
	events_smbdirect(events, &told);
	struct event_record last = look(events, 0, 0).last;
	assert_string_equal(last.text, "SMB Direct connection 7 of client 192.0.2.9:40000, for the "
				       "server at 127.0.0.1:445, on soft:eth0 is up");
	assert_string_equal(event_kind_name(last.kind), "smbdirect-up");
	assert_string_equal(last.rnic, "soft:eth0");
	assert_int_equal(last.peer.ip[3], 9);
	assert_int_equal(last.peer.port, 0);

	told = (struct smbgate_told){ .what = SMBGATE_TOLD_DOWN,
				      .number = 8,
				      .rnic = "soft:eth0",
				      .peer = at(9, 445),
				      .user = "127.0.0.1:41000",
				      .text = "the TCP side has closed" };
	events_smbdirect(events, &told);
	last = look(events, 1, 0).last;
	assert_string_equal(last.text,
			    "SMB Direct connection 8 of program 127.0.0.1:41000, with the server "
			    "192.0.2.9:445, on soft:eth0 has ended: the TCP side has closed");
	assert_string_equal(event_kind_name(last.kind), "smbdirect-down");

	told.what = SMBGATE_TOLD_REFUSED;
	told.number = 0;
	told.serves = told.failed = true;
	told.rnic = told.user = "";
	told.text = "there are too many";
	events_smbdirect(events, &told);
	last = look(events, 2, 0).last;
	assert_string_equal(last.text, "SMB Direct connection of client 192.0.2.9:445 was not "
				       "established: there are too many");
	assert_string_equal(event_kind_name(last.kind), "smbdirect-refused");
	events_free(events);
}

/** Each kind has its own name and its own id of 128 bits, as the journal needs them. */
static void kinds_are_told_apart(void **state)
{
	(void)state;
	for (int i = 0; i < NUM_EVENT_KINDS; i++) {
		TRIES("case %d", i);
		const char *id = event_kind_id((enum event_kind)i);
		assert_int_equal(strlen(id), 32);
		assert_int_equal(strspn(id, "0123456789abcdef"), 32);
		for (int j = 0; j < i; j++) {
			assert_string_not_equal(id, event_kind_id((enum event_kind)j));
			assert_string_not_equal(event_kind_name((enum event_kind)i),
						event_kind_name((enum event_kind)j));
		}
	}
}

static char *file_of(const char *name)
{
	static char text[65536];
	FILE *file = fopen(name, "r");
	assert_non_null(file);
	size_t len = fread(text, 1, sizeof(text) - 1, file);
	assert_true(len < sizeof(text) - 1);
	text[len] = '\0';
	fclose(file);
	return text;
}

/** The journal's catalog has an entry for each kind of event, and no other. */
static void the_catalog_has_all(void **state)
{
	(void)state;
	const char *text = file_of("systemd/smcrd.catalog");
	int entries = 0;
	for (const char *at = text; (at = strstr(at, "\n-- ")); at++)
		entries++;
	assert_int_equal(entries, NUM_EVENT_KINDS);
	for (int i = 0; i < NUM_EVENT_KINDS; i++) {
		char head[64];
		snprintf(head, sizeof(head),
			 "\n-- %s\nSubject: ", event_kind_id((enum event_kind)i));
		if (!strstr(text, head))
			fail_msg("smcrd.catalog lacks %s", event_kind_name((enum event_kind)i));
	}
}

/** The manual page has each kind with its MESSAGE_ID. */
static void the_manual_has_all(void **state)
{
	(void)state;
	const char *text = file_of("man/smcrctl-event.8");
	for (int i = 0; i < NUM_EVENT_KINDS; i++) {
		char item[128];
		snprintf(item, sizeof(item), ".It %s Ta %s\n", event_kind_name((enum event_kind)i),
			 event_kind_id((enum event_kind)i));
		if (!strstr(text, item))
			fail_msg("smcrctl-event(8) lacks: %s", item);
	}
}

/** Pieces of text of any length fit. */
static void long_pieces(void **state)
{
	char name[SMCR_DEVICE_NAME_LEN], why[1000];
	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(why, 'w', sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	struct events *events = fresh();
	const struct smcr_event event = { .type = SMCR_EVENT_LINK_FAILED,
					  .lgr = UINT32_MAX,
					  .peer = { .family = AF_INET6 },
					  .link = 255,
					  .device = name,
					  .num_conns = UINT32_MAX,
					  .text = why };
	events_engine(events, &event);
	events_command(events, why, true, why);
	struct seen seen = look(events, 0, 0);
	assert_int_equal(strlen(seen.first.text), EVENTS_TEXT_LEN - 1);
	assert_non_null(strstr(seen.first.text, " with peer :: has failed: www"));
	assert_int_equal(strlen(seen.last.text), EVENTS_TEXT_LEN - 1);
	events_free(events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_ones_are_kept),
		cmocka_unit_test(readers_that_wait_are_told),
		cmocka_unit_test(no_peer_takes_all),
		cmocka_unit_test(one_line_of_text),
		cmocka_unit_test(sentences),
		cmocka_unit_test(connections),
		cmocka_unit_test(connections_leave_links_alone),
		cmocka_unit_test(rnics),
		cmocka_unit_test(kinds_are_told_apart),
		cmocka_unit_test(users_that_were_refused),
		cmocka_unit_test(rdma_connections),
		cmocka_unit_test(connections_of_smb_direct),
		cmocka_unit_test(the_catalog_has_all),
		cmocka_unit_test(the_manual_has_all),
		cmocka_unit_test(long_pieces),
	};
	log_open(LOG_ERR, false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
