/* SPDX-License-Identifier: MIT */
/*
 * A user of the system bus who attacks smcrd.
 *
 *   bus_attacker ADDRESS SECONDS SEED
 *
 * Many connections to the bus come and go. They call all methods of smcrd, and some that do not
 * exist, with arguments that fit or do not, long ones too, on paths that exist or do not. They send
 * signals and answers that look like those of the bus or of smcrd, messages as large as the bus
 * passes, and questions for all objects. Half of the connections never read an answer.
 *
 * The last line is "sent N answers N refusals N lost N": messages, good answers, errors, and
 * connections that the bus has ended. Exit status 0; 1: failed, with the reason on standard error;
 * 2: usage.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>

#include "tests/lib/random.h"

#define CONNECTIONS  40
#define PATIENCE_S   120        /* most time beyond SECONDS until there is an answer */
#define A_TURN       20         /* messages of one connection in its turn */
#define MOST_QUEUED  4          /* messages of a connection that the bus has not taken */
#define LARGE        (31 << 20) /* about as much as the bus passes */
#define LARGE_ONE_IN 20000      /* one message in so many is large: the bus limits queued bytes */
#define LONG         60000
#define NAME_LEN     256
#define MANAGER      "/org/smcrd", "org.smcrd.Manager1"
#define PROPERTIES   "org.freedesktop.DBus.Properties"
#define NUMBER(a)    (sizeof(a) / sizeof((a)[0]))

static struct random rnd;
static const char *address;
static char *large; /* LARGE bytes of text */

static struct {
	unsigned long sent, answers, refusals, lost;
} count;

static struct connection {
	sd_bus *sd;
	bool deaf; /* it reads no answers */
} connections[CONNECTIONS];

static const char *const methods[] = {
	"ShowInfo",     "ShowHost",   "ShowStats",    "ShowMetrics",     "ShowDevice",
	"ShowUeid",     "ShowLink",   "ShowRmb",      "ShowConnection",  "ShowEvent",
	"ShowConfig",   "ShowPolicy", "JudgePolicy",  "ShowLinkgroup",   "AddDevice",
	"RemoveDevice", "AddUeid",    "SetConfig",    "ReloadConfig",    "BeginDrain",
	"AddPolicy",    "AddLink",    "Failover",     "DeleteLinkgroup", "TestLink",
	"DisableLink",  "DeleteLink", "ForgetPolicy", "Delete",          "Test",
	"Disable",      "Nonsense",   "Get",          "GetAll",          "Set",
	"Introspect",   "Ping",       "GetMachineId",
};

static const char *const interfaces[] = {
	"org.smcrd.Manager1",
	"org.smcrd.Linkgroup1",
	"org.smcrd.Link1",
	"org.smcrd.Device1",
	"org.smcrd.Nonsense1",
	PROPERTIES,
	"org.freedesktop.DBus.Introspectable",
	"org.freedesktop.DBus.Peer",
	"org.freedesktop.DBus.ObjectManager",
};

static const char *const paths[] = {
	"/org/smcrd",          "/",
	"/org/smcrd/link",     "/org/smcrd/link/1_1",
	"/org/smcrd/link/9_9", "/org/smcrd/linkgroup/1",
	"/org/smcrd/device",   "/org/smcrd/device/soft_3aeth0",
	"/org/smcrd/nonsense", "/org/freedesktop/DBus",
};

static const char *const keys[] = { "linkgroup", "link", "peer", "after",   "mode",
				    "port",      "pid",  "uid",  "nonsense" };

static const char *one_of(const char *const *list, size_t num)
{
	return list[random_below(&rnd, (uint32_t)num)];
}

/* ---- what a message is about ---- */

/* A path with as many parts as fit into `len`. Valid until the next call. */
static const char *long_path(size_t len)
{
	static char path[LONG + 1];
	for (size_t i = 0; i < len; i++)
		path[i] = i % 2 ? 'a' : '/';
	path[len & ~(size_t)1] = '\0';
	return path;
}

static const char *some_path(void)
{
	switch (random_below(&rnd, 100)) {
	case 0: return long_path(LONG);
	case 1: return long_path(2 + random_below(&rnd, 1000));
	default: return one_of(paths, NUMBER(paths));
	}
}

static const char *some_member(void)
{
	static char name[NAME_LEN];
	if (random_below(&rnd, 20))
		return one_of(methods, NUMBER(methods));
	memset(name, 'A', NAME_LEN - 1); /* as long as D-Bus allows */
	return name;
}

/* Any text. Valid until the next call. */
static const char *some_text(void)
{
	static char text[LONG + 1];
	size_t len = random_below(&rnd, 100) ? random_below(&rnd, 100) : random_below(&rnd, LONG);
	memset(text, 'a' + (int)random_below(&rnd, 26), len);
	text[len] = '\0';
	return text;
}

static void put_options(sd_bus_message *message)
{
	const uint32_t num = random_below(&rnd, random_below(&rnd, 50) ? 4 : 200);
	sd_bus_message_open_container(message, 'a', "{sv}");
	for (uint32_t i = 0; i < num; i++) {
		const char *key = random_below(&rnd, 8) ? one_of(keys, NUMBER(keys)) : some_text();
		if (random_below(&rnd, 2))
			sd_bus_message_append(message, "{sv}", key, "s", some_text());
		else
			sd_bus_message_append(message, "{sv}", key, "u", random_below(&rnd, 5000));
	}
	sd_bus_message_close_container(message);
}

/* Append variants in variants, as deep as D-Bus allows, or deeper: then the message cannot be made.
 */
static void put_nested(sd_bus_message *message)
{
	const uint32_t depth = random_below(&rnd, 40);
	for (uint32_t i = 0; i < depth; i++)
		sd_bus_message_open_container(message, 'v', "v");
	sd_bus_message_append(message, "v", "u", 1);
	for (uint32_t i = 0; i < depth; i++)
		sd_bus_message_close_container(message);
}

static void put_text(sd_bus_message *message)
{
	sd_bus_message_append(message, "s", some_text());
}

static void put_manager(sd_bus_message *message)
{
	sd_bus_message_append(message, "s", "org.smcrd.Manager1");
}

static void put_arguments(sd_bus_message *message)
{
	if (random_below(&rnd, LARGE_ONE_IN) == 0) {
		sd_bus_message_append_basic(message, 's', large);
		return;
	}
	switch (random_below(&rnd, 10)) {
	case 0: break;
	case 1: put_text(message); break;
	case 2: sd_bus_message_append(message, "u", random_below(&rnd, 4)); break;
	case 3: sd_bus_message_append(message, "uy", random_below(&rnd, 4), 1); break;
	case 4: sd_bus_message_append(message, "ss", "org.smcrd.Manager1", "Version"); break;
	case 5: sd_bus_message_append(message, "s", "org.smcrd.Link1"); break;
	case 6: put_nested(message); break;
	case 7: sd_bus_message_append(message, "as", 2, "a", some_text()); break;
	default: put_options(message); break;
	}
}

/* ---- messages ---- */

/* A call that smcrd answers, or refuses because the caller is no administrator. */
static int make_proper_call(sd_bus *sd, sd_bus_message **ret)
{
	static const struct {
		const char *path, *interface, *member;
		void (*put)(sd_bus_message *message);
	} calls[] = {
		{ MANAGER, "ShowInfo", NULL },
		{ MANAGER, "ShowMetrics", NULL },
		{ MANAGER, "ShowConnection", put_options },
		{ MANAGER, "ShowLink", put_options },
		{ MANAGER, "ShowEvent", put_options },
		{ MANAGER, "BeginDrain", put_options },
		{ MANAGER, "AddUeid", put_text },
		{ "/org/smcrd", PROPERTIES, "GetAll", put_manager },
		{ "/org/smcrd", "org.freedesktop.DBus.Introspectable", "Introspect", NULL },
		{ "/org/smcrd/link", "org.freedesktop.DBus.Introspectable", "Introspect", NULL },
		{ "/org/smcrd", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", NULL },
	};
	const uint32_t which = random_below(&rnd, NUMBER(calls));
	int r = sd_bus_message_new_method_call(sd, ret, "org.smcrd", calls[which].path,
					       calls[which].interface, calls[which].member);
	if (r >= 0 && calls[which].put)
		calls[which].put(*ret);
	return r;
}

static int make_wild_call(sd_bus *sd, sd_bus_message **ret)
{
	int r = sd_bus_message_new_method_call(sd, ret, "org.smcrd", some_path(),
					       one_of(interfaces, NUMBER(interfaces)),
					       some_member());
	if (r >= 0)
		put_arguments(*ret);
	return r;
}

/* A forged signal, as if the bus or smcrd had sent it. */
static int make_signal(sd_bus *sd, sd_bus_message **ret)
{
	static const char *const told[][2] = {
		{ "org.freedesktop.DBus.Local", "Disconnected" }, /* the bus hangs up for this */
		{ "org.freedesktop.DBus", "NameAcquired" },
		{ "org.freedesktop.DBus", "NameLost" },
		{ "org.freedesktop.DBus", "NameOwnerChanged" },
		{ "org.smcrd.Manager1", "LinkFailed" },
		{ "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved" },
	};
	const uint32_t which =
		random_below(&rnd, 100) ? 1 + random_below(&rnd, NUMBER(told) - 1) : 0;
	const char *const *what = told[which];
	int r = sd_bus_message_new_signal(sd, ret, some_path(), what[0], what[1]);
	if (r >= 0)
		sd_bus_message_append(*ret, "s", "org.smcrd");
	if (r >= 0 && random_below(&rnd, 4))
		sd_bus_message_set_destination(*ret, "org.smcrd");
	return r;
}

/* A forged answer, as if smcrd had asked, for instance who a caller is. */
static int make_answer(sd_bus *sd, sd_bus_message **ret)
{
	sd_bus_message *call = NULL;
	int r = sd_bus_message_new_method_call(sd, &call, "org.smcrd", "/", "a.b", "C");
	if (r >= 0)
		r = sd_bus_message_seal(call, 1 + random_below(&rnd, 1000), 0);
	if (r >= 0)
		r = sd_bus_message_new_method_return(call, ret);
	if (r >= 0)
		sd_bus_message_set_destination(*ret, "org.smcrd");
	if (r >= 0)
		sd_bus_message_append(*ret, "a{sv}", 1, "UnixUserID", "u", 0);
	sd_bus_message_unref(call);
	return r;
}

static int make(sd_bus *sd, sd_bus_message **ret)
{
	switch (random_below(&rnd, 10)) {
	case 0: return make_signal(sd, ret);
	case 1: return make_answer(sd, ret);
	case 2:
	case 3:
	case 4:
	case 5: return make_proper_call(sd, ret);
	default: return make_wild_call(sd, ret);
	}
}

/* ---- connections ---- */

static int on_message(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	(void)userdata;
	(void)error;
	if (sd_bus_message_is_method_error(message, NULL) > 0)
		count.refusals++;
	else if (!sd_bus_message_is_signal(message, NULL, NULL))
		count.answers++;
	return 0;
}

static void come(struct connection *connection)
{
	int r = sd_bus_new(&connection->sd);
	if (r >= 0)
		r = sd_bus_set_address(connection->sd, address);
	if (r >= 0)
		r = sd_bus_set_bus_client(connection->sd, true);
	if (r >= 0)
		r = sd_bus_add_filter(connection->sd, NULL, on_message, NULL);
	if (r >= 0)
		r = sd_bus_start(connection->sd);
	connection->deaf = random_below(&rnd, 2);
	if (r < 0)
		connection->sd = sd_bus_close_unref(connection->sd);
}

/* Read answers. A deaf connection reads only the bus's first answers, without which it could not
 * send. */
static void take_answers(struct connection *connection)
{
	int r = 1;
	for (int i = 0; i < A_TURN && r > 0; i++)
		if (connection->deaf && sd_bus_is_ready(connection->sd) > 0)
			break;
		else
			r = sd_bus_process(connection->sd, NULL);
	if (r >= 0)
		return;
	count.lost++;
	connection->sd = sd_bus_close_unref(connection->sd);
}

static void attack(struct connection *connection)
{
	uint64_t queued = 0, cookie;
	for (int i = 0; i < A_TURN && queued < MOST_QUEUED; i++) {
		sd_bus_message *message = NULL;
		/* sd_bus_send() without a cookie asks for no answer. */
		if (make(connection->sd, &message) >= 0)
			count.sent += sd_bus_send(connection->sd, message,
						  random_below(&rnd, 4) ? &cookie : NULL) >= 0;
		sd_bus_message_unref(message);
		sd_bus_get_n_queued_write(connection->sd, &queued);
	}
}

static void turn(struct connection *connection)
{
	if (!connection->sd)
		come(connection);
	if (connection->sd)
		take_answers(connection);
	if (!connection->sd || sd_bus_is_ready(connection->sd) <= 0)
		return;
	attack(connection);
	if (random_below(&rnd, 100) == 0) /* the connection ends, whatever is under way */
		connection->sd = sd_bus_close_unref(connection->sd);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: bus_attacker ADDRESS SECONDS SEED\n");
		return 2;
	}
	address = argv[1];
	const double end = now() + atof(argv[2]);
	rnd.state = strtoull(argv[3], NULL, 10) * 2 + 1;
	large = malloc(LARGE + 1);
	if (!large) {
		fprintf(stderr, "bus_attacker: no memory\n");
		return 1;
	}
	memset(large, 'a', LARGE);
	large[LARGE] = '\0';
	while (now() < end || (count.answers == 0 && now() < end + PATIENCE_S)) {
		turn(&connections[random_below(&rnd, CONNECTIONS)]);
		poll(NULL, 0, (int)random_below(&rnd, 2)); /* leave the processor to the bus */
	}
	for (size_t i = 0; i < CONNECTIONS; i++)
		sd_bus_close_unref(connections[i].sd);
	free(large);
	printf("sent %lu answers %lu refusals %lu lost %lu\n", count.sent, count.answers,
	       count.refusals, count.lost);
	return 0;
}
