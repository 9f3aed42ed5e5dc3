/* SPDX-License-Identifier: MIT */
#include "tests/lib/busfix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_MADE_UP 1001 /* first link group that is made up */
#define A_PART        64   /* rows in one part of a view */
#define SILENCE_MS    300
#define SHORT_MS      1000

struct busfix_wraps busfix_wraps;

/* ---- functions of other files that this file replaces (linker option --wrap) ---- */

/* The links of an engine pair have none of the fabric's queue pairs. */
void __wrap_fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats);

void __wrap_fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats)
{
	(void)qp;
	ret_stats->retransmits = 7;
}

int __wrap_sd_bus_message_new_signal(sd_bus *sd, sd_bus_message **ret_signal, const char *path,
				     const char *interface, const char *member);
int __real_sd_bus_message_new_signal(sd_bus *sd, sd_bus_message **ret_signal, const char *path,
				     const char *interface, const char *member);

int __wrap_sd_bus_message_new_signal(sd_bus *sd, sd_bus_message **ret_signal, const char *path,
				     const char *interface, const char *member)
{
	if (busfix_wraps.signals_to_fail) {
		busfix_wraps.signals_to_fail--;
		return -ENOMEM;
	}
	return __real_sd_bus_message_new_signal(sd, ret_signal, path, interface, member);
}

int __wrap_sd_bus_call_method_async(sd_bus *sd, sd_bus_slot **ret_slot, const char *destination,
				    const char *path, const char *interface, const char *member,
				    sd_bus_message_handler_t callback, void *userdata,
				    const char *types, ...);

int __wrap_sd_bus_call_method_async(sd_bus *sd, sd_bus_slot **ret_slot, const char *destination,
				    const char *path, const char *interface, const char *member,
				    sd_bus_message_handler_t callback, void *userdata,
				    const char *types, ...)
{
	enum { WAIT_US = 300000 };
	const char *who = busfix_wraps.who_is_asked;
	sd_bus_message *message = NULL;
	va_list args;
	int r = sd_bus_message_new_method_call(sd, &message, who ? who : destination, path,
					       interface, member);
	va_start(args, types);
	if (r >= 0)
		r = sd_bus_message_appendv(message, types, args);
	va_end(args);
	if (r >= 0)
		r = sd_bus_call_async(sd, ret_slot, message, callback, userdata, who ? WAIT_US : 0);
	sd_bus_message_unref(message);
	return r;
}

/* ---- the bus ---- */

static const char bus_config[] =
	"<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\"\n"
	" \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
	"<busconfig><type>custom</type><listen>%s</listen><auth>EXTERNAL</auth>\n"
	"<limit name=\"max_replies_per_connection\">10000</limit>\n"
	"<policy context=\"default\"><allow user=\"*\"/>%s<allow send_destination=\"*\"/>\n"
	"<allow eavesdrop=\"false\"/></policy></busconfig>\n";

void busfix_write_config(const struct busfix *busfix, const char *policy)
{
	FILE *out = fopen(busfix->config, "w");
	assert_non_null(out);
	fprintf(out, bus_config, busfix->address, policy);
	assert_int_equal(fclose(out), 0);
}

static void become_daemon(const struct busfix *busfix, int ready)
{
	char option[96], to[24];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* its warnings about limits */
	snprintf(option, sizeof(option), "--config-file=%s", busfix->config);
	snprintf(to, sizeof(to), "--print-pid=%d", ready);
	execlp("dbus-daemon", "dbus-daemon", "--nofork", "--nopidfile", option, to, (char *)NULL);
	_exit(127);
}

void busfix_start_daemon(struct busfix *busfix)
{
	char said[4];
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	busfix->daemon = fork();
	if (busfix->daemon == 0) {
		close(ready[0]);
		become_daemon(busfix, ready[1]);
	}
	close(ready[1]);
	ssize_t n = read(ready[0], said, sizeof(said));
	close(ready[0]);
	if (n <= 0)
		skip();
}

void busfix_end_daemon(struct busfix *busfix)
{
	if (busfix->daemon <= 0)
		return;
	kill(busfix->daemon, SIGKILL);
	waitpid(busfix->daemon, NULL, 0);
	busfix->daemon = 0;
	unlink(busfix->address + strlen("unix:path="));
}

sd_bus *busfix_connect(const struct busfix *busfix)
{
	sd_bus *client = NULL;
	assert_true(sd_bus_new(&client) >= 0);
	assert_true(sd_bus_set_address(client, busfix->address) >= 0);
	assert_true(sd_bus_set_bus_client(client, true) >= 0);
	/* busfix_until() gives up, and no call before that: sd-bus's own limit is shorter. */
	assert_true(sd_bus_set_method_call_timeout(client, 2 * BUSFIX_PATIENCE * 1000000ULL) >= 0);
	assert_true(sd_bus_start(client) >= 0);
	return client;
}

bool busfix_is_owned(const struct busfix *busfix)
{
	return sd_bus_get_name_creds(busfix->client, BUS_NAME, 0, NULL) >= 0;
}

struct busfix *busfix_on_the_bus(void **state)
{
	struct busfix *busfix = *state;
	busfix_start_daemon(busfix);
	busfix->client = busfix_connect(busfix);
	bus_configure(busfix->bus, CONFIG_DBUS_AUTO);
	busfix_until(busfix, busfix_is_owned(busfix));
	return busfix;
}

/* ---- time ---- */

double busfix_seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void take_a_while(void)
{
	const double end = busfix_seconds(CLOCK_THREAD_CPUTIME_ID) + 0.003;
	while (busfix_seconds(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

void busfix_turn(struct busfix *busfix)
{
	struct pollfd pollfd = { .fd = -1, .events = POLLIN };
	const double begun = busfix_seconds(CLOCK_THREAD_CPUTIME_ID);
	event_base_loop(busfix->fix->base, EVLOOP_NONBLOCK);
	const double took = busfix_seconds(CLOCK_THREAD_CPUTIME_ID) - begun;
	if (took > busfix->longest_turn)
		busfix->longest_turn = took;
	if (busfix->client) {
		while (sd_bus_process(busfix->client, NULL) > 0)
			;
		pollfd.fd = sd_bus_get_fd(busfix->client);
	}
	poll(&pollfd, 1, 1);
}

void busfix_happen(struct busfix *busfix, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		events_command(busfix->fix->control.events, "link.delete", false, "done");
}

/* ---- what smcrd does for its side ---- */

static json_t *made_up_row(const struct busfix *busfix, unsigned int number)
{
	return json_pack("{s:I, s:i, s:s, s:s, s:s, s:b, s:s, s:i, s:i, s:I}", "linkgroup",
			 (json_int_t)FIRST_MADE_UP + number, "number", 1, "peer", "192.0.2.1",
			 "peer_host", "a.example", "state", busfix->state, "disabled", 0, "rnic",
			 "soft:eth0", "port", 1, "path_mtu", 1024, "tx_bytes",
			 (json_int_t)busfix->looks);
}

/* Answer link.show with links that are made up: a part of them, or the link of one group. */
static json_t *make_up(const struct busfix *busfix, const json_t *request)
{
	const json_t *params = json_object_get(request, "params");
	const json_t *group = json_object_get(params, "linkgroup");
	const char *after = json_string_value(json_object_get(params, "after"));
	unsigned int from = after ? (unsigned int)atoi(after) : 0, to = busfix->made_up;
	char next[16] = "";
	json_t *rows = json_array();
	if (group) {
		const json_int_t number = json_integer_value(group) - FIRST_MADE_UP;
		from = number >= 0 ? (unsigned int)number : to;
		to = from < to ? from + 1 : from;
	} else if (to > from + A_PART) {
		to = from + A_PART;
		snprintf(next, sizeof(next), "%u", to);
	}
	for (unsigned int i = from; i < to; i++)
		json_array_append_new(rows, made_up_row(busfix, i));
	return json_pack("{s:o, s:s*}", "result", rows, "next", *next ? next : NULL);
}

static int call(void *ctx, const struct clients_asker *asker, const json_t *request,
		json_t **ret_reply)
{
	struct busfix *busfix = ctx;
	struct clients_asker as = *asker;
	if (asker->cred.uid != (uid_t)-1) {
		assert_int_equal(asker->cred.uid, getuid());
		assert_int_equal(asker->cred.pid, getpid());
		assert_true(asker->num_groups > 0);
		assert_non_null(asker->reply);
		busfix->asked++;
	} else {
		busfix->looks++;
	}
	if (busfix->slow)
		take_a_while();
	if (busfix->leaves)
		bus_configure(busfix->bus, CONFIG_DBUS_NO);
	if (busfix->ends_at_once && asker->reply) {
		asker->reply(asker->reply_ctx, asker->request, strdup("{\"text\":\"done\"}"));
		return -EINPROGRESS;
	}
	if (busfix->makes_up &&
	    !strcmp(json_string_value(json_object_get(request, "method")), "link.show")) {
		*ret_reply = make_up(busfix, request);
		return 0;
	}
	as.cred.uid = busfix->as_root ? 0 : 65534;
	as.num_groups = 0;
	return control_handle_json(&busfix->fix->control, &as, request, ret_reply);
}

static void gone(void *ctx, uint64_t request)
{
	struct busfix *busfix = ctx;
	busfix->gone++;
	control_forget(&busfix->fix->control, request);
}

static void on_event(void *ctx)
{
	struct busfix *busfix = ctx;
	bus_wake(busfix->bus);
}

static void on_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct busfix *busfix = ctx;
	control_command_done(&busfix->fix->control, id, result);
}

static int connect_sides(struct busfix *busfix, unsigned int patience_ms)
{
	struct control *control = &busfix->fix->control;
	struct pair_side *side = &busfix->fix->pair->side[PAIR_SERVER];
	const struct bus_params params = { .base = busfix->fix->base,
					   .address = busfix->address,
					   .control = control,
					   .call = call,
					   .gone = gone,
					   .ctx = busfix,
					   .silence_ms = SILENCE_MS,
					   .patience_ms = patience_ms };
	if (events_new(&control->events) < 0)
		return -1;
	events_notify(control->events, on_event, busfix);
	side->on_command_done = on_done;
	side->on_command_ctx = busfix;
	return bus_new(&params, &busfix->bus);
}

static int setup(void **state, unsigned int patience_ms)
{
	struct busfix *busfix = calloc(1, sizeof(*busfix));
	void *fix;
	if (!busfix || controlfix_setup(&fix) < 0)
		return -1;
	busfix_wraps = (struct busfix_wraps){ 0 };
	busfix->fix = fix;
	busfix->state = "active";
	strcpy(busfix->dir, "/tmp/test-bus-XXXXXX");
	if (!mkdtemp(busfix->dir))
		return -1;
	snprintf(busfix->address, sizeof(busfix->address), "unix:path=%s/bus", busfix->dir);
	snprintf(busfix->config, sizeof(busfix->config), "%s/bus.conf", busfix->dir);
	busfix_write_config(busfix, "<allow own=\"*\"/>");
	*state = busfix;
	return connect_sides(busfix, patience_ms);
}

int busfix_setup(void **state)
{
	return setup(state, 0);
}

int busfix_setup_impatient(void **state)
{
	return setup(state, SHORT_MS);
}

int busfix_teardown(void **state)
{
	struct busfix *busfix = *state;
	void *fix = busfix->fix;
	struct events *events = busfix->fix->control.events;
	sd_bus_message_unref(busfix->reply);
	sd_bus_close_unref(busfix->client);
	bus_free(busfix->bus);
	busfix->bus = NULL;
	busfix_end_daemon(busfix);
	unlink(busfix->config);
	assert_int_equal(rmdir(busfix->dir), 0);
	controlfix_teardown(&fix);
	events_free(events);
	free(busfix);
	return 0;
}

/* ---- calls of the client ---- */

static int on_answer(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct busfix *busfix = userdata;
	(void)error;
	sd_bus_message_unref(busfix->reply);
	busfix->reply = sd_bus_message_ref(message);
	busfix->limited +=
		sd_bus_message_is_method_error(message, SD_BUS_ERROR_LIMITS_EXCEEDED) > 0;
	busfix->answered = true;
	return 0;
}

static void begin(struct busfix *busfix, const char *path, const char *interface,
		  const char *member, const char *types, va_list args)
{
	busfix->answered = false;
	assert_true(sd_bus_call_method_asyncv(busfix->client, NULL, BUS_NAME, path, interface,
					      member, on_answer, busfix, types, args) >= 0);
}

void busfix_start(struct busfix *busfix, const char *path, const char *interface,
		  const char *member, const char *types, ...)
{
	va_list args;
	va_start(args, types);
	begin(busfix, path, interface, member, types, args);
	va_end(args);
}

static sd_bus_message *finish(struct busfix *busfix)
{
	busfix_until(busfix, busfix->answered);
	return busfix->reply;
}

sd_bus_message *busfix_ask(struct busfix *busfix, const char *path, const char *interface,
			   const char *member, const char *types, ...)
{
	va_list args;
	va_start(args, types);
	begin(busfix, path, interface, member, types, args);
	va_end(args);
	return finish(busfix);
}

sd_bus_message *busfix_show(struct busfix *busfix, const char *member, const char *types, ...)
{
	va_list args;
	va_start(args, types);
	begin(busfix, BUSFIX_ROOT, BUSFIX_MANAGER, member, types, args);
	va_end(args);
	busfix_expect_good(finish(busfix));
	return busfix->reply;
}

void busfix_send(const struct busfix *busfix, const char *interface, const char *member,
		 const char *text, bool wants_reply)
{
	uint64_t cookie;
	sd_bus_message *message = NULL;
	assert_true(sd_bus_message_new_method_call(busfix->client, &message, BUS_NAME, BUSFIX_ROOT,
						   interface, member) >= 0);
	assert_true(sd_bus_message_set_expect_reply(message, wants_reply) >= 0);
	assert_true(!text || sd_bus_message_append(message, "s", text) >= 0);
	assert_true(sd_bus_send(busfix->client, message, wants_reply ? &cookie : NULL) >= 0);
	sd_bus_message_unref(message);
}

void busfix_expect_error(sd_bus_message *reply, const char *name, const char *words)
{
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	assert_non_null(error);
	assert_string_equal(error->name, name);
	if (!strstr(error->message, words))
		fail_msg("\"%s\" does not say \"%s\"", error->message, words);
}

void busfix_expect_good(sd_bus_message *reply)
{
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	if (error)
		fail_msg("%s: %s", error->name, error->message);
}

/* ---- what an answer has ---- */

void busfix_get(struct busfix *busfix, const char *path, const char *interface, const char *name,
		const char *type, void *ret)
{
	sd_bus_message *reply =
		busfix_ask(busfix, path, BUSFIX_PROPERTIES, "Get", "ss", interface, name);
	busfix_expect_good(reply);
	assert_true(sd_bus_message_read(reply, "v", type, ret) > 0);
}

bool busfix_find(sd_bus_message *message, const char *key, const char *type, void *ret)
{
	const char *name, *contents;
	bool found = false;
	assert_true(sd_bus_message_enter_container(message, 'a', "{sv}") > 0);
	while (sd_bus_message_enter_container(message, 'e', "sv") > 0) {
		assert_true(sd_bus_message_read_basic(message, 's', &name) > 0);
		assert_true(sd_bus_message_peek_type(message, NULL, &contents) > 0);
		if (!strcmp(name, key) && !strcmp(contents, type))
			found = sd_bus_message_read(message, "v", type, ret) > 0;
		else
			assert_true(sd_bus_message_skip(message, "v") >= 0);
		assert_true(sd_bus_message_exit_container(message) >= 0);
	}
	assert_true(sd_bus_message_exit_container(message) >= 0);
	return found;
}

size_t busfix_count_rows(sd_bus_message *message)
{
	size_t num = 0;
	assert_true(sd_bus_message_enter_container(message, 'a', "a{sv}") > 0);
	while (!sd_bus_message_at_end(message, false)) {
		assert_true(sd_bus_message_skip(message, "a{sv}") >= 0);
		num++;
	}
	assert_true(sd_bus_message_exit_container(message) >= 0);
	return num;
}

const char *busfix_introspect(struct busfix *busfix, const char *path)
{
	const char *text;
	busfix_expect_good(busfix_ask(busfix, path, BUSFIX_INTROSPECT, "Introspect", ""));
	assert_true(sd_bus_message_read(busfix->reply, "s", &text) > 0);
	return text;
}

/* ---- the manual page ---- */

static const char *manual(void)
{
	static char text[32768];
	FILE *in = fopen("man/org.smcrd.Manager1.5", "r");
	assert_non_null(in);
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	return text;
}

void busfix_expect_in_manual(const char *name)
{
	size_t len = strlen(name);
	const char *text = manual(), *at = text;
	while ((at = strstr(at, name)) && !(strchr(" \n", at[-1]) && strchr(" ,\n", at[len])))
		at++;
	if (!at)
		fail_msg("org.smcrd.Manager1(5) lacks %s", name);
}
