/* SPDX-License-Identifier: MIT */
/**
 * @file busfix.h
 * smcrd's side of a bus (daemon/bus/) on an engine pair's link group, a dbus-daemon started by the
 * test, and a client. All but dbus-daemon runs in the test's process: a test that waits has to call
 * busfix_turn(), best by busfix_until().
 *
 * The Makefile lists the test programs that link this file (BUS_TESTS), because busfix.c wraps some
 * functions of other files.
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
#define BUSFIX_PATIENCE   120 /* seconds, however busy the machine is */

struct busfix {
	struct controlfix *fix;
	char dir[32], address[64], config[64];
	pid_t daemon;
	struct bus *bus;
	sd_bus *client;
	/* How smcrd behaves: */
	bool slow;         /* each request takes a while */
	bool leaves;       /* each request makes smcrd leave the bus */
	bool as_root;      /* every caller is taken for root, else for nobody */
	bool ends_at_once; /* a command has ended when the call that began it returns */
	/* Show links that are made up, in place of the engine's: link 1 of groups 1001 and up. */
	bool makes_up;
	unsigned int made_up;
	const char *state; /* state of all made-up links */
	/* What smcrd was asked: */
	unsigned int looks; /* requests without a caller: smcrd's side reads a view for itself */
	unsigned int asked; /* requests of a caller with the credentials of this process */
	unsigned int gone;
	double longest_turn; /* longest turn of the loop, in seconds of processor time */
	/* What the client got: */
	unsigned int limited; /* calls refused because there were too many in a second */
	bool answered;        /* the last call has its answer */
	sd_bus_message *reply;
};

/** cmocka's setup and teardown: *state becomes a struct busfix. smcrd's side is off. */
int busfix_setup(void **state);
/** Likewise, but smcrd's side gives a bus up soon that reads nothing. */
int busfix_setup_impatient(void **state);
int busfix_teardown(void **state);
#define BUSFIX_CASE(name) cmocka_unit_test_setup_teardown(name, busfix_setup, busfix_teardown)

/** What the wrapped functions do. busfix_setup() resets all fields. */
extern struct busfix_wraps {
	unsigned int signals_to_fail; /* so many of smcrd's next signals cannot be made */
	const char *who_is_asked;     /* name that is asked in place of the bus; NULL: the bus */
} busfix_wraps;

/* ---- the bus ---- */

/** Write the bus's configuration; `policy` is a <policy> that says who may own smcrd's name. A
 *  dbus-daemon that runs reads the file again on SIGHUP. */
void busfix_write_config(const struct busfix *busfix, const char *policy);
/** Start dbus-daemon and wait until it can be reached. Without dbus-daemon the test is skipped. */
void busfix_start_daemon(struct busfix *busfix);
void busfix_end_daemon(struct busfix *busfix);
/** A new connection to the bus. The caller closes it. */
sd_bus *busfix_connect(const struct busfix *busfix);
/** Does anybody own smcrd's name? */
bool busfix_is_owned(const struct busfix *busfix);
/** Start dbus-daemon, smcrd's side, which owns its name, and a client.
 *  @return the fixture, from cmocka's state */
struct busfix *busfix_on_the_bus(void **state);

/* ---- time ---- */

double busfix_seconds(clockid_t clock);
/** Let both sides do what they can do without waiting. */
void busfix_turn(struct busfix *busfix);

#define busfix_until(busfix, condition)                                                            \
	do {                                                                                       \
		time_t busfix_end = time(NULL) + BUSFIX_PATIENCE;                                  \
		while (!(condition) && time(NULL) < busfix_end)                                    \
			busfix_turn(busfix);                                                       \
		assert_true(condition);                                                            \
	} while (0)

/** Raise so many events of commands, all with the same text. */
void busfix_happen(struct busfix *busfix, unsigned int times);

/* ---- calls of the client ---- */

/** Send a call without waiting. Types and values are those of sd_bus_message_append(). */
void busfix_start(struct busfix *busfix, const char *path, const char *interface,
		  const char *member, const char *types, ...);
/** Call and wait. @return the answer, valid until the next one */
sd_bus_message *busfix_ask(struct busfix *busfix, const char *path, const char *interface,
			   const char *member, const char *types, ...);
/** Call a method of the manager and wait. The answer must not be an error. */
sd_bus_message *busfix_show(struct busfix *busfix, const char *member, const char *types, ...);
/** Send a call to the manager's path and do not wait. @param text  an argument; may be NULL */
void busfix_send(const struct busfix *busfix, const char *interface, const char *member,
		 const char *text, bool wants_reply);

void busfix_expect_good(sd_bus_message *reply);
/** The reply must be this error, and its message must contain these words. */
void busfix_expect_error(sd_bus_message *reply, const char *name, const char *words);

/* ---- contents of answers ---- */

/** Read a property that has a simple type. */
void busfix_get(struct busfix *busfix, const char *path, const char *interface, const char *name,
		const char *type, void *ret);
/** Read the a{sv} that comes next in the message, and find the value of a key if it has this type.
 */
bool busfix_find(sd_bus_message *message, const char *key, const char *type, void *ret);
/** Count the rows of the array that comes next in the message. */
size_t busfix_count_rows(sd_bus_message *message);
/** The introspection XML of a path, valid until the next answer. */
const char *busfix_introspect(struct busfix *busfix, const char *path);

/** The manual page org.smcrd.Manager1(5) must contain this name. */
void busfix_expect_in_manual(const char *name);

#endif
