/* SPDX-License-Identifier: MIT */
/**
 * @file busfix.h
 * smcrd's side of a bus (daemon/bus/) on an engine pair's link group, a real dbus-daemon of the
 * test's own, and a client. All but dbus-daemon runs in the test's process: whoever waits calls
 * busfix_turn(), best by busfix_until().
 *
 * Test programs that link this one are listed in the Makefile (BUS_TESTS): calls of some functions
 * of others come here first.
 */
#ifndef SMCRD_TESTS_LIB_BUSFIX_H
#define SMCRD_TESTS_LIB_BUSFIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <systemd/sd-bus.h>
#include <time.h>

#include "daemon/bus/bus.h"
#include "tests/lib/controlfix.h"

#define BUSFIX_ROOT       "/org/smcrd"
#define BUSFIX_MANAGER    "org.smcrd.Manager1"
#define BUSFIX_PROPERTIES "org.freedesktop.DBus.Properties"
#define BUSFIX_INTROSPECT "org.freedesktop.DBus.Introspectable"
#define BUSFIX_PATIENCE   30 /* seconds, however busy the machine is */

struct busfix {
	struct controlfix *fix;
	char dir[32], address[64], config[64];
	pid_t daemon;
	struct bus *bus;
	sd_bus *client;
	/* How smcrd behaves: */
	bool slow;         /* each look takes a while */
	bool leaves;       /* the bus, by what is called */
	bool as_root;      /* who asks is taken for root, else for nobody */
	bool ends_at_once; /* what a call begins has ended when the call returns */
	/* Links that are made up, in place of the engine's: number 1 of groups 1001 and up. */
	bool makes_up;
	unsigned int made_up;
	const char *state; /* of all of them */
	/* What has come to it: */
	unsigned int looks; /* of those who are not known */
	unsigned int asked; /* with the credentials of this process */
	unsigned int gone;
	double longest_turn; /* of the loop, in seconds of the processor */
	/* What the client was answered: */
	unsigned int limited; /* refusals of what was too many a second */
	bool answered;        /* the last call */
	sd_bus_message *reply;
};

/** cmocka's setup and teardown: *state becomes a struct busfix. smcrd's side is off. */
int busfix_setup(void **state);
/** Likewise; it soon has enough of a bus that takes nothing. */
int busfix_setup_impatient(void **state);
int busfix_teardown(void **state);
#define BUSFIX_CASE(name) cmocka_unit_test_setup_teardown(name, busfix_setup, busfix_teardown)

/** What the functions of others do that come here first; all reset by busfix_setup(). */
extern struct busfix_wraps {
	unsigned int signals_to_fail; /* of those that smcrd makes, the next ones */
	const char *who_is_asked;     /* who calls, in place of the bus; NULL: the bus */
} busfix_wraps;

/* ---- the bus ---- */

/** Of the bus: a <policy> of who may have the name. What runs reads it on SIGHUP. */
void busfix_write_config(const struct busfix *busfix, const char *policy);
/** Returns when it can be reached. Without dbus-daemon the test is skipped. */
void busfix_start_daemon(struct busfix *busfix);
void busfix_end_daemon(struct busfix *busfix);
/** The caller closes it. */
sd_bus *busfix_connect(const struct busfix *busfix);
/** Does anybody have smcrd's name? */
bool busfix_is_owned(const struct busfix *busfix);
/** A daemon, smcrd's side with its name, and a client. @return the fixture, from cmocka's state */
struct busfix *busfix_on_the_bus(void **state);

/* ---- time ---- */

double busfix_seconds(clockid_t clock);
/** Both sides do what they can. */
void busfix_turn(struct busfix *busfix);

#define busfix_until(busfix, condition)                                                            \
	do {                                                                                       \
		time_t busfix_end = time(NULL) + BUSFIX_PATIENCE;                                  \
		while (!(condition) && time(NULL) < busfix_end)                                    \
			busfix_turn(busfix);                                                       \
		assert_true(condition);                                                            \
	} while (0)

/** So many events of commands come, each with the same words. */
void busfix_happen(struct busfix *busfix, unsigned int times);

/* ---- calls of the client ---- */

/** Types and values are those of sd_bus_message_append(). */
void busfix_start(struct busfix *busfix, const char *path, const char *interface,
		  const char *member, const char *types, ...);
/** @return the answer, until the next one */
sd_bus_message *busfix_ask(struct busfix *busfix, const char *path, const char *interface,
			   const char *member, const char *types, ...);
/** Of the manager; the answer must be none of errors. */
sd_bus_message *busfix_show(struct busfix *busfix, const char *member, const char *types, ...);
/** A call of the manager's path that nobody waits for. @param text  an argument; may be NULL */
void busfix_send(const struct busfix *busfix, const char *interface, const char *member,
		 const char *text, bool wants_reply);

void busfix_expect_good(sd_bus_message *reply);
/** It is this error, and its message has these words. */
void busfix_expect_error(sd_bus_message *reply, const char *name, const char *words);

/* ---- what an answer has ---- */

/** A property, of one simple type. */
void busfix_get(struct busfix *busfix, const char *path, const char *interface, const char *name,
		const char *type, void *ret);
/** The value of a key in the a{sv} that comes next, if it has this type; all of it is read. */
bool busfix_find(sd_bus_message *message, const char *key, const char *type, void *ret);
/** How many rows come next. */
size_t busfix_count_rows(sd_bus_message *message);
/** The XML of a path, until the next answer. */
const char *busfix_introspect(struct busfix *busfix, const char *path);

/** org.smcrd.Manager1(5) has this name. */
void busfix_expect_in_manual(const char *name);

#endif
