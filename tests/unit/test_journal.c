/* SPDX-License-Identifier: MIT */
/* What the journal gets: events with their meaning in fields, for programs that read it. The
 * functions that would talk to the machine's journal are replaced here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/events/events.h"
#include "daemon/host/log.h"
#include "tests/lib/tries.h"

/* The entry that was sent last: "NAME=VALUE", a line each, in the order of sending. */
static char entry[4096];
static unsigned int num_entries;

int sd_journal_sendv_with_location(const char *file, const char *line, const char *func,
				   const struct iovec *iov, int n)
{
	size_t len = 0;
	(void)file;
	(void)line;
	(void)func;
	num_entries++;
	for (int i = 0; i < n; i++)
		len += (size_t)snprintf(entry + len, sizeof(entry) - len, "%.*s\n",
					(int)iov[i].iov_len, (const char *)iov[i].iov_base);
	return 0;
}

/* The journal runs. */
int access(const char *path, int mode)
{
	return strcmp(path, "/run/systemd/journal/socket") != 0 ? faccessat(AT_FDCWD, path, mode, 0)
								: 0;
}

static int setup(void **state)
{
	log_open(LOG_INFO, true);
	*entry = '\0';
	num_entries = 0;
	return events_new((struct events **)state);
}

static int teardown(void **state)
{
	events_free(*state);
	log_open(-1, false);
	return 0;
}

static void a_link_that_fails(void **state)
{
	const struct smcr_event event = {
		.type = SMCR_EVENT_LINK_FAILED,
		.lgr = 7,
		.peer = { .family = AF_INET, .ip = { 192, 0, 2, 9 }, .port = 80 },
		.link = 2,
		.device = "soft:eth0",
		.num_conns = 12,
		.text = "retry exceeded",
	};
	events_engine(*state, &event);
	assert_int_equal(num_entries, 1);
	assert_string_equal(entry,
			    "MESSAGE=link 7/2 on soft:eth0 with peer 192.0.2.9 has failed: retry "
			    "exceeded; 12 connections have moved\n"
			    "PRIORITY=4\n"
			    "MESSAGE_ID=bcf5bf1a9be44662b0733b81d5aa663a\n"
			    "SMCRD_EVENT=link-failed\n"
			    "PEER=192.0.2.9\n"
			    "LINK_GROUP=7\n"
			    "LINK=2\n"
			    "RNIC=soft:eth0\n"
			    "CONNECTIONS=12\n");
}

static void a_connection_that_falls_back(void **state)
{
	const struct smcr_addr local = { .family = AF_INET, .ip = { 192, 0, 2, 1 }, .port = 40000 };
	const struct smcr_addr peer = { .family = AF_INET, .ip = { 192, 0, 2, 9 }, .port = 80 };
	const struct conns_told told = { .kind = CONNS_FELL_BACK,
					 .local = &local,
					 .peer = &peer,
					 .pid = 12,
					 .program = "curl",
					 .reason = SMCR_REASON_PEER_DECLINED,
					 .peer_reason = SMCR_REASON_NO_DEVICE };
	events_connection(*state, &told);
	assert_int_equal(num_entries, 1);
	const char *fields = strstr(entry, "MESSAGE_ID=");
	assert_non_null(fields);
	assert_string_equal(fields, "MESSAGE_ID=965a559fc476402e95bd37c10d4deee2\n"
				    "SMCRD_EVENT=fallback\n"
				    "PEER=192.0.2.9\n"
				    "PROGRAM=curl\n"
				    "REASON=peer-declined\n"
				    "PEER_REASON=no-device\n");
}

/** A text from outside ends no field and begins no other. */
static void a_line_stays_one_field(void **state)
{
	events_command(*state, "link.delete\nPRIORITY=0", true, "no\nsuch link");
	assert_int_equal(num_entries, 1);
	assert_null(strstr(entry, "\nPRIORITY=0"));
	assert_non_null(strstr(entry, "\nSMCRD_EVENT=command\n"));
}

/** smcrctl-event(8) has the name of each field. */
static void the_manual_has_all(void **state)
{
	static const char *const names[] = { "MESSAGE_ID",  "SMCRD_EVENT", "PEER",
					     "LINK_GROUP",  "LINK",        "RNIC",
					     "CONNECTIONS", "PROGRAM",     "REASON",
					     "PEER_REASON" };
	static char manual[32768];
	FILE *in = fopen("man/smcrctl-event.8", "r");
	(void)state;
	assert_non_null(in);
	manual[fread(manual, 1, sizeof(manual) - 1, in)] = '\0';
	fclose(in);
	const char *journal = strstr(manual, ".Sh JOURNAL");
	assert_non_null(journal);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		TRIES("%s", names[i]);
		assert_non_null(strstr(journal, names[i]));
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_link_that_fails),
		CASE(a_connection_that_falls_back),
		CASE(a_line_stays_one_field),
		CASE(the_manual_has_all),
	};
	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
