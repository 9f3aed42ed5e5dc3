/* SPDX-License-Identifier: MIT */
/* The control methods, objects and events on a bus of the test's own: a real dbus-daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-bus.h>

#include "daemon/bus/bus.h"
#include "daemon/bus/form.h"
#include "daemon/bus/values.h"
#include "tests/lib/controlfix.h"

#define MANAGER  "org.smcrd.Manager1"
#define PATIENCE 30 /* seconds, however busy the machine is */

/* The links of an engine pair have none of the fabric's queue pairs (see the Makefile). */
void __wrap_fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats);

void __wrap_fabric_qp_stats(void *qp, struct rnic_qp_stats *ret_stats)
{
	(void)qp;
	ret_stats->retransmits = 7;
}

/* Of the signals that smcrd makes, so many fail. */
int __wrap_sd_bus_message_new_signal(sd_bus *sd, sd_bus_message **ret_signal, const char *path,
				     const char *interface, const char *member);
int __real_sd_bus_message_new_signal(sd_bus *sd, sd_bus_message **ret_signal, const char *path,
				     const char *interface, const char *member);
static unsigned int signals_to_fail;

int __wrap_sd_bus_message_new_signal(sd_bus *sd, sd_bus_message **ret_signal, const char *path,
				     const char *interface, const char *member)
{
	if (signals_to_fail) {
		signals_to_fail--;
		return -ENOMEM;
	}
	return __real_sd_bus_message_new_signal(sd, ret_signal, path, interface, member);
}

/* Whom smcrd asks who calls: NULL for the bus. */
int __wrap_sd_bus_call_method_async(sd_bus *sd, sd_bus_slot **ret_slot, const char *destination,
				    const char *path, const char *interface, const char *member,
				    sd_bus_message_handler_t callback, void *userdata,
				    const char *types, ...);
static const char *who_is_asked;

int __wrap_sd_bus_call_method_async(sd_bus *sd, sd_bus_slot **ret_slot, const char *destination,
				    const char *path, const char *interface, const char *member,
				    sd_bus_message_handler_t callback, void *userdata,
				    const char *types, ...)
{
	enum { WAIT_US = 300000 };
	sd_bus_message *message = NULL;
	va_list args;
	int r = sd_bus_message_new_method_call(
		sd, &message, who_is_asked ? who_is_asked : destination, path, interface, member);
	va_start(args, types);
	if (r >= 0)
		r = sd_bus_message_appendv(message, types, args);
	va_end(args);
	if (r >= 0)
		r = sd_bus_call_async(sd, ret_slot, message, callback, userdata,
				      who_is_asked ? WAIT_US : 0);
	sd_bus_message_unref(message);
	return r;
}

struct fixture {
	struct controlfix *fix;
	char dir[32], address[64], config[64];
	pid_t daemon;
	struct bus *bus;
	sd_bus *client;
	bool slow;            /* each look takes a while */
	unsigned int limited; /* calls that were refused as too many a second */
	bool leaves;          /* the bus, by what is called */
	bool as_root;         /* who asks is taken for root, else for nobody */
	unsigned int looks;   /* of those who are not known */
	unsigned int asked;   /* with the credentials of this process */
	unsigned int gone;
	/* of the last call: */
	bool answered;
	sd_bus_message *reply;
	unsigned int num_signals;
	char signals[8][64];
};

/* ---- the bus ---- */

static const char bus_config[] =
	"<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\"\n"
	" \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
	"<busconfig><type>custom</type><listen>%s</listen><auth>EXTERNAL</auth>\n"
	"<limit name=\"max_replies_per_connection\">10000</limit>\n"
	"<policy context=\"default\"><allow user=\"*\"/>%s<allow send_destination=\"*\"/>\n"
	"<allow eavesdrop=\"false\"/></policy></busconfig>\n";

static void write_config(const struct fixture *fixture, const char *policy)
{
	FILE *out = fopen(fixture->config, "w");
	assert_non_null(out);
	fprintf(out, bus_config, fixture->address, policy);
	assert_int_equal(fclose(out), 0);
}

/* Returns when it can be reached. Without dbus-daemon the test is skipped. */
static void start_daemon(struct fixture *fixture)
{
	char option[96], said[4], to[24];
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	fixture->daemon = fork();
	if (fixture->daemon == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* what it has to say of limits */
		snprintf(option, sizeof(option), "--config-file=%s", fixture->config);
		snprintf(to, sizeof(to), "--print-pid=%d", ready[1]);
		execlp("dbus-daemon", "dbus-daemon", "--nofork", "--nopidfile", option, to,
		       (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	ssize_t n = read(ready[0], said, sizeof(said));
	close(ready[0]);
	if (n <= 0)
		skip();
}

static void end_daemon(struct fixture *fixture)
{
	if (fixture->daemon <= 0)
		return;
	kill(fixture->daemon, SIGKILL);
	waitpid(fixture->daemon, NULL, 0);
	fixture->daemon = 0;
	unlink(fixture->address + strlen("unix:path="));
}

/* ---- both sides in one process ---- */

static double seconds_of(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void take_a_while(void)
{
	const double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + 0.003;
	while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static int call(void *ctx, const struct clients_asker *asker, const json_t *request,
		json_t **ret_reply)
{
	struct fixture *fixture = ctx;
	struct clients_asker as = *asker;
	assert_true(bus_is_request(asker->request));
	if (asker->cred.uid != (uid_t)-1) {
		assert_int_equal(asker->cred.uid, getuid());
		assert_int_equal(asker->cred.pid, getpid());
		assert_true(asker->num_groups > 0);
		fixture->asked++;
	} else {
		fixture->looks++;
	}
	if (fixture->slow)
		take_a_while();
	if (fixture->leaves)
		bus_configure(fixture->bus, CONFIG_DBUS_NO);
	as.cred.uid = fixture->as_root ? 0 : 65534;
	as.num_groups = 0;
	return control_handle_json(&fixture->fix->control, &as, request, ret_reply);
}

static void gone(void *ctx, uint64_t request)
{
	struct fixture *fixture = ctx;
	fixture->gone++;
	control_forget(&fixture->fix->control, request);
}

static void on_reply(void *ctx, uint64_t request, char *reply)
{
	struct fixture *fixture = ctx;
	bus_reply(fixture->bus, request, reply);
}

static void on_event(void *ctx)
{
	struct fixture *fixture = ctx;
	bus_wake(fixture->bus);
}

static void on_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct fixture *fixture = ctx;
	control_command_done(&fixture->fix->control, id, result);
}

static void turn(struct fixture *fixture)
{
	struct pollfd pollfd = { .fd = -1, .events = POLLIN };
	event_base_loop(fixture->fix->base, EVLOOP_NONBLOCK);
	if (fixture->client) {
		while (sd_bus_process(fixture->client, NULL) > 0)
			;
		pollfd.fd = sd_bus_get_fd(fixture->client);
	}
	poll(&pollfd, 1, 1);
}

#define until(fixture, condition)                                                                  \
	do {                                                                                       \
		time_t end = time(NULL) + PATIENCE;                                                \
		while (!(condition) && time(NULL) < end)                                           \
			turn(fixture);                                                             \
		assert_true(condition);                                                            \
	} while (0)

static sd_bus *connect_to_bus(const struct fixture *fixture)
{
	sd_bus *client = NULL;
	assert_true(sd_bus_new(&client) >= 0);
	assert_true(sd_bus_set_address(client, fixture->address) >= 0);
	assert_true(sd_bus_set_bus_client(client, true) >= 0);
	assert_true(sd_bus_start(client) >= 0);
	return client;
}

static void connect_client(struct fixture *fixture)
{
	fixture->client = connect_to_bus(fixture);
}

static bool is_owned(const struct fixture *fixture)
{
	return sd_bus_get_name_creds(fixture->client, BUS_NAME, 0, NULL) >= 0;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	void *fix;
	if (!fixture || controlfix_setup(&fix) < 0)
		return -1;
	fixture->fix = fix;
	strcpy(fixture->dir, "/tmp/test-bus-XXXXXX");
	if (!mkdtemp(fixture->dir))
		return -1;
	snprintf(fixture->address, sizeof(fixture->address), "unix:path=%s/bus", fixture->dir);
	snprintf(fixture->config, sizeof(fixture->config), "%s/bus.conf", fixture->dir);
	write_config(fixture, "<allow own=\"*\"/>");
	struct control *control = &fixture->fix->control;
	control->reply = on_reply;
	control->reply_ctx = fixture;
	if (events_new(&control->events) < 0)
		return -1;
	events_notify(control->events, on_event, fixture);
	struct pair_side *side = &fixture->fix->pair->side[PAIR_SERVER];
	side->on_command_done = on_done;
	side->on_command_ctx = fixture;
	const struct bus_params params = { .base = fixture->fix->base,
					   .address = fixture->address,
					   .control = control,
					   .call = call,
					   .gone = gone,
					   .ctx = fixture };
	*state = fixture;
	return bus_new(&params, &fixture->bus);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	void *fix = fixture->fix;
	struct events *events = fixture->fix->control.events;
	sd_bus_message_unref(fixture->reply);
	sd_bus_close_unref(fixture->client);
	bus_free(fixture->bus);
	fixture->bus = NULL;
	end_daemon(fixture);
	unlink(fixture->config);
	assert_int_equal(rmdir(fixture->dir), 0);
	controlfix_teardown(&fix);
	events_free(events);
	free(fixture);
	return 0;
}

/* A daemon, smcrd's side with its name, and a client. */
static void be_on_the_bus(struct fixture *fixture)
{
	start_daemon(fixture);
	connect_client(fixture);
	bus_configure(fixture->bus, CONFIG_DBUS_AUTO);
	until(fixture, is_owned(fixture));
}

/* ---- calls of the client ---- */

static int on_answer(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct fixture *fixture = userdata;
	(void)error;
	sd_bus_message_unref(fixture->reply);
	fixture->reply = sd_bus_message_ref(message);
	fixture->limited +=
		sd_bus_message_is_method_error(message, SD_BUS_ERROR_LIMITS_EXCEEDED) > 0;
	fixture->answered = true;
	return 0;
}

static void begin(struct fixture *fixture, const char *path, const char *interface,
		  const char *member, const char *types, va_list args)
{
	fixture->answered = false;
	assert_true(sd_bus_call_method_asyncv(fixture->client, NULL, BUS_NAME, path, interface,
					      member, on_answer, fixture, types, args) >= 0);
}

static void start(struct fixture *fixture, const char *path, const char *interface,
		  const char *member, const char *types, ...)
{
	va_list args;
	va_start(args, types);
	begin(fixture, path, interface, member, types, args);
	va_end(args);
}

/* @return the answer, until the next one */
static sd_bus_message *ask(struct fixture *fixture, const char *path, const char *interface,
			   const char *member, const char *types, ...)
{
	va_list args;
	va_start(args, types);
	begin(fixture, path, interface, member, types, args);
	va_end(args);
	until(fixture, fixture->answered);
	return fixture->reply;
}

static void expect_error(sd_bus_message *reply, const char *name, const char *words)
{
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	assert_non_null(error);
	assert_string_equal(error->name, name);
	if (!strstr(error->message, words))
		fail_msg("\"%s\" does not say \"%s\"", error->message, words);
}

static void expect_good(sd_bus_message *reply)
{
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	if (error)
		fail_msg("%s: %s", error->name, error->message);
}

static void get(struct fixture *fixture, const char *path, const char *interface, const char *name,
		const char *type, void *ret)
{
	sd_bus_message *reply =
		ask(fixture, path, "org.freedesktop.DBus.Properties", "Get", "ss", interface, name);
	expect_good(reply);
	assert_true(sd_bus_message_read(reply, "v", type, ret) > 0);
}

/* The value of a key in the a{sv} that comes next, if it has this type; all of it is read. */
static bool find(sd_bus_message *message, const char *key, const char *type, void *ret)
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

/* How many rows come next. */
static size_t count_rows(sd_bus_message *message)
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

static char *manual(void)
{
	static char text[32768];
	FILE *in = fopen("man/org.smcrd.Manager1.5", "r");
	assert_non_null(in);
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	return text;
}

static void expect_in_manual(const char *name)
{
	size_t len = strlen(name);
	const char *text = manual(), *at = text;
	while ((at = strstr(at, name)) && !(strchr(" \n", at[-1]) && strchr(" ,\n", at[len])))
		at++;
	if (!at)
		fail_msg("org.smcrd.Manager1(5) lacks %s", name);
}

/* ---- names ---- */

static void forms_follow_from_the_table(void **state)
{
	static const struct {
		const char *method;
		enum form_class class;
		const char *member, *in, *out;
	} cases[] = {
		{ "link.delete", FORM_MANAGER, "DeleteLink", "uya{sv}", "sa{sv}" },
		{ "link.delete", FORM_LINK, "Delete", "a{sv}", "sa{sv}" },
		{ "link.delete", FORM_LINKGROUP, NULL, NULL, NULL },
		{ "link.enable", FORM_LINK, "Enable", "", "sa{sv}" },
		{ "link.add", FORM_LINKGROUP, "AddLink", "", "sa{sv}" },
		{ "link.add", FORM_LINK, NULL, NULL, NULL },
		{ "linkgroup.delete", FORM_MANAGER, "DeleteLinkgroup", "u", "sa{sv}" },
		{ "linkgroup.delete", FORM_LINKGROUP, "Delete", "", "sa{sv}" },
		{ "failover", FORM_MANAGER, "Failover", "ua{sv}", "sa{sv}" },
		{ "failover", FORM_LINKGROUP, "Failover", "a{sv}", "sa{sv}" },
		{ "device.drain", FORM_DEVICE, "Drain", "", "sa{sv}" },
		{ "device.add", FORM_DEVICE, NULL, NULL, NULL },
		{ "device.add", FORM_MANAGER, "AddDevice", "s", "sa{sv}" },
		{ "config.set", FORM_MANAGER, "SetConfig", "ss", "sa{sv}" },
		{ "config.reload", FORM_MANAGER, "ReloadConfig", "", "sa{sv}" },
		{ "ueid.add", FORM_MANAGER, "AddUeid", "s", "sa{sv}" },
		{ "ueid.add", FORM_DEVICE, NULL, NULL, NULL },
		{ "info.show", FORM_MANAGER, "ShowInfo", "", "a{sv}" },
		{ "device.show", FORM_MANAGER, "ShowDevice", "", "aa{sv}" },
		{ "connection.show", FORM_MANAGER, "ShowConnection", "a{sv}", "aa{sv}s" },
		{ "policy.show", FORM_MANAGER, "ShowPolicy", "a{sv}", "a{sv}s" },
		{ "policy.judge", FORM_MANAGER, "JudgePolicy", "sa{sv}", "a{sv}" },
		{ "event.wait", FORM_MANAGER, NULL, NULL, NULL },
		{ "capture.run", FORM_MANAGER, NULL, NULL, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct control_method method;
		struct form form;
		size_t number = 0;
		while (control_method(number, &method) && strcmp(method.name, cases[i].method))
			number++;
		assert_string_equal(method.name, cases[i].method);
		assert_int_equal(form_make(&method, cases[i].class, &form),
				 cases[i].member != NULL);
		if (!cases[i].member)
			continue;
		assert_string_equal(form.member, cases[i].member);
		assert_string_equal(form.in, cases[i].in);
		assert_string_equal(form.out, cases[i].out);
	}
}

/* Whatever the table has: two methods never get one name, and D-Bus can take each. */
static void every_method_has_a_name_of_its_own(void **state)
{
	struct control_method method, other;
	struct form form, with;
	(void)state;
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++)
		for (size_t i = 0; control_method(i, &method); i++) {
			if (!form_make(&method, class, &form))
				continue;
			assert_true(sd_bus_member_name_is_valid(form.member));
			expect_in_manual(form.member);
			for (size_t j = 0; j < i && control_method(j, &other); j++)
				if (form_make(&other, class, &with))
					assert_string_not_equal(form.member, with.member);
		}
}

static void keys_become_camel_case(void **state)
{
	char camel[FORM_NAME_LEN], longest[200];
	(void)state;
	form_camel("peer_id", camel);
	assert_string_equal(camel, "PeerId");
	form_camel("tcp_option.available", camel);
	assert_string_equal(camel, "TcpOptionAvailable");
	form_camel("link-failed", camel);
	assert_string_equal(camel, "LinkFailed");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	form_camel(longest, camel);
	assert_int_equal(strlen(camel), FORM_NAME_LEN - 1);
}

/* ---- objects ---- */

static void objects_have_typed_properties(void **state)
{
	struct fixture *fixture = *state;
	const char *text;
	uint8_t byte;
	uint32_t number;
	uint64_t large;
	int truth;
	be_on_the_bus(fixture);
	get(fixture, "/org/smcrd", MANAGER, "Version", "s", &text);
	assert_string_equal(text, SMCRD_VERSION);
	get(fixture, "/org/smcrd", MANAGER, "Pid", "u", &number);
	assert_int_equal(number, getpid());
	get(fixture, "/org/smcrd", MANAGER, "TcpOptionAvailable", "b", &truth);
	assert_false(truth);
	get(fixture, "/org/smcrd", MANAGER, "TcpOptionError", "s", &text);
	assert_string_equal(text, "not here");
	get(fixture, "/org/smcrd", MANAGER, "EngineLinks", "u", &number);
	assert_int_equal(number, 2);
	get(fixture, "/org/smcrd/linkgroup/1", "org.smcrd.Linkgroup1", "Role", "s", &text);
	assert_string_equal(text, "server");
	get(fixture, "/org/smcrd/linkgroup/1", "org.smcrd.Linkgroup1", "Connections", "u", &number);
	assert_int_equal(number, 1);
	get(fixture, "/org/smcrd/link/1_2", "org.smcrd.Link1", "State", "s", &text);
	assert_string_equal(text, "active");
	get(fixture, "/org/smcrd/link/1_2", "org.smcrd.Link1", "Number", "y", &byte);
	assert_int_equal(byte, 2);
	get(fixture, "/org/smcrd/link/1_2", "org.smcrd.Link1", "TxBytes", "t", &large);
	assert_int_equal(large, 0);
	/* What is unknown. */
	get(fixture, "/org/smcrd/link/1_2", "org.smcrd.Link1", "LastError", "s", &text);
	assert_string_equal(text, "");
	sd_bus_message *reply =
		ask(fixture, "/org/smcrd/link/1_1", "org.freedesktop.DBus.Properties", "GetAll",
		    "s", "org.smcrd.Link1");
	expect_good(reply);
	assert_true(find(reply, "Linkgroup", "u", &number));
	assert_int_equal(number, 1);
	assert_int_equal(fixture->asked, 0); /* it does not take knowing who */
}

static void what_is_not_there_is_no_object(void **state)
{
	static const char *const paths[] = {
		"/org/smcrd/link/1_3",
		"/org/smcrd/link/2_1",
		"/org/smcrd/link/1_01",
		"/org/smcrd/link/1",
		"/org/smcrd/link/1_257",
		"/org/smcrd/linkgroup/2",
		"/org/smcrd/linkgroup/01",
		"/org/smcrd/linkgroup/1/1",
		"/org/smcrd/linkgroup/x",
		"/org/smcrd/device/x",
		"/org/smcrd/linkgroup/4294967297",
		"/org/smcrd/nonsense",
		"/org/smcrd/linkgroup/1_1",
		"/org/smcrd/link/4294967297_1",
	};
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		sd_bus_message *reply = ask(fixture, paths[i], "org.freedesktop.DBus.Properties",
					    "GetAll", "s", "org.smcrd.Link1");
		if (!sd_bus_message_get_error(reply))
			fail_msg("there is something at %s", paths[i]);
	}
}

static void introspection_shows_objects_and_methods(void **state)
{
	static const char introspectable[] = "org.freedesktop.DBus.Introspectable";
	struct fixture *fixture = *state;
	const char *text;
	be_on_the_bus(fixture);
	sd_bus_message *reply = ask(fixture, "/org/smcrd/link", introspectable, "Introspect", "");
	expect_good(reply);
	assert_true(sd_bus_message_read(reply, "s", &text) > 0);
	assert_non_null(strstr(text, "<node name=\"1_1\"/>"));
	assert_non_null(strstr(text, "<node name=\"1_2\"/>"));
	reply = ask(fixture, "/org/smcrd", introspectable, "Introspect", "");
	assert_true(sd_bus_message_read(reply, "s", &text) > 0);
	assert_non_null(strstr(text, "<node name=\"linkgroup\"/>"));
	assert_non_null(strstr(text, "<arg type=\"y\" name=\"link\" direction=\"in\"/>"));
	assert_non_null(strstr(text, "<signal name=\"LinkFailed\">"));
	assert_non_null(strstr(text, "<method name=\"ShowConnection\">"));
	assert_null(strstr(text, "WaitEvent"));
	reply = ask(fixture, "/org/smcrd/linkgroup/1", introspectable, "Introspect", "");
	assert_true(sd_bus_message_read(reply, "s", &text) > 0);
	assert_non_null(strstr(text, "<method name=\"AddLink\">"));
	assert_null(strstr(text, "<method name=\"Enable\">"));
}

/* ---- the manual page ---- */

/* The names that introspection has, of methods, properties and signals. */
static void expect_members_in_manual(struct fixture *fixture, const char *path)
{
	const char *text, *at;
	char name[FORM_NAME_LEN];
	sd_bus_message *reply =
		ask(fixture, path, "org.freedesktop.DBus.Introspectable", "Introspect", "");
	expect_good(reply);
	assert_true(sd_bus_message_read(reply, "s", &text) > 0);
	at = strstr(text, "<interface name=\"org.smcrd.");
	assert_non_null(at);
	while ((at = strstr(at, " name=\""))) {
		bool is_arg = at[-1] == '"'; /* behind its type */
		bool is_node = !strncmp(at - strlen("<node"), "<node", 5);
		at += strlen(" name=\"");
		if (is_node)
			break;
		if (is_arg)
			continue;
		assert_int_equal(sscanf(at, "%63[^\"]", name), 1);
		if (!strchr(name, '.')) /* an interface, or a remark */
			expect_in_manual(name);
	}
}

static void the_manual_page_has_all_names(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	expect_members_in_manual(fixture, "/org/smcrd");
	expect_members_in_manual(fixture, "/org/smcrd/linkgroup/1");
	expect_members_in_manual(fixture, "/org/smcrd/link/1_1");
}

/* ---- methods ---- */

static void shows_answer_everybody(void **state)
{
	struct fixture *fixture = *state;
	const char *text;
	int64_t number;
	be_on_the_bus(fixture);
	sd_bus_message *reply =
		ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "linkgroup", "u", 1);
	expect_good(reply);
	assert_true(sd_bus_message_has_signature(reply, "aa{sv}s"));
	assert_true(sd_bus_message_enter_container(reply, 'a', "a{sv}") > 0);
	assert_true(find(reply, "object", "s", &text));
	assert_string_equal(text, "/org/smcrd/link/1_1");
	assert_true(find(reply, "number", "x", &number));
	assert_int_equal(number, 2);
	assert_int_equal(fixture->asked, 1);
	reply = ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", "");
	expect_good(reply);
	assert_true(find(reply, "pid", "x", &number));
	assert_int_equal(number, getpid());
	reply = ask(fixture, "/org/smcrd", MANAGER, "ShowMetrics", "");
	expect_good(reply);
	assert_true(find(reply, "text", "s", &text));
	assert_non_null(strstr(text, "# EOF"));
}

/* The table says which methods show rows: each is looked at, so that none says something else. */
static void every_show_has_the_form_it_says(void **state)
{
	struct fixture *fixture = *state;
	struct control_method method;
	struct form form;
	be_on_the_bus(fixture);
	for (size_t i = 0; control_method(i, &method); i++) {
		/* These want what the fixture has not. */
		bool leave =
			!strncmp(method.name, "policy.", 7) || !strncmp(method.name, "config.", 7);
		if (method.result == CONTROL_OUTCOME || leave ||
		    !form_make(&method, FORM_MANAGER, &form))
			continue;
		sd_bus_message *reply =
			form.options ? ask(fixture, "/org/smcrd", MANAGER, form.member, "a{sv}", 0)
				     : ask(fixture, "/org/smcrd", MANAGER, form.member, "");
		expect_good(reply);
		assert_true(sd_bus_message_has_signature(reply, form.out));
		json_t *direct = controlfix_ask(fixture->fix, true, method.name);
		assert_int_equal(json_is_array(json_object_get(direct, "result")),
				 method.result == CONTROL_ROWS);
		json_decref(direct);
	}
}

static void happen(struct fixture *fixture, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		events_command(fixture->fix->control.events, "link.delete", false, "done");
}

static void long_views_come_in_parts(void **state)
{
	struct fixture *fixture = *state;
	const char *next;
	char place[64];
	be_on_the_bus(fixture);
	happen(fixture, 100);
	sd_bus_message *reply = ask(fixture, "/org/smcrd", MANAGER, "ShowEvent", "a{sv}", 0);
	assert_int_equal(count_rows(reply), 64);
	assert_true(sd_bus_message_read(reply, "s", &next) > 0);
	snprintf(place, sizeof(place), "%s", next);
	reply = ask(fixture, "/org/smcrd", MANAGER, "ShowEvent", "a{sv}", 1, "after", "s", place);
	assert_int_equal(count_rows(reply), 36);
	assert_true(sd_bus_message_read(reply, "s", &next) > 0);
	assert_string_equal(next, "");
}

static void changes_are_for_administrators(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "DeleteLinkgroup", "u", 1),
		     "org.smcrd.Error.NotPermitted", "is for root");
	expect_error(ask(fixture, "/org/smcrd/link/1_1", "org.smcrd.Link1", "Disable", ""),
		     "org.smcrd.Error.NotPermitted", "is for root");
	assert_int_equal(fixture->asked, 2);
}

/* Another one than the bus: it says nothing, or that everybody is root. */
static int on_who_asks(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const bool *lies = userdata;
	(void)error;
	if (sd_bus_message_is_method_call(message, NULL, "GetConnectionCredentials") <= 0)
		return 0;
	if (*lies)
		assert_true(sd_bus_reply_method_return(message, "a{sv}", 1, "UnixUserID", "u", 0) >=
			    0);
	return 1;
}

static void only_the_bus_says_who_asks(void **state)
{
	struct fixture *fixture = *state;
	bool lies = true;
	be_on_the_bus(fixture);
	assert_true(sd_bus_add_filter(fixture->client, NULL, on_who_asks, &lies) >= 0);
	assert_true(sd_bus_get_unique_name(fixture->client, &who_is_asked) >= 0);
	sd_bus_message *reply = ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", "");
	who_is_asked = NULL;
	expect_error(reply, "org.smcrd.Error.NotPermitted", "does not say who asks");
	assert_int_equal(fixture->asked, 0);
}

static void a_bus_that_does_not_say_in_time_is_no_refusal(void **state)
{
	struct fixture *fixture = *state;
	bool lies = false;
	be_on_the_bus(fixture);
	assert_true(sd_bus_add_filter(fixture->client, NULL, on_who_asks, &lies) >= 0);
	assert_true(sd_bus_get_unique_name(fixture->client, &who_is_asked) >= 0);
	sd_bus_message *reply = ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", "");
	who_is_asked = NULL;
	expect_error(reply, SD_BUS_ERROR_TIMEOUT, "not said in time");
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
}

static void commands_are_answered_when_they_have_ended(void **state)
{
	struct fixture *fixture = *state;
	const char *text;
	int64_t rtt;
	be_on_the_bus(fixture);
	fixture->as_root = true;
	start(fixture, "/org/smcrd/link/1_2", "org.smcrd.Link1", "Test", "");
	until(fixture, fixture->asked == 1);
	for (int i = 0; i < 20; i++)
		turn(fixture);
	assert_false(fixture->answered);
	pair_run(fixture->fix->pair, 1000);
	until(fixture, fixture->answered);
	expect_good(fixture->reply);
	assert_true(sd_bus_message_read(fixture->reply, "s", &text) > 0);
	assert_true(*text);
	assert_true(find(fixture->reply, "rtt_us", "x", &rtt));
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "TestLink", "uy", 1, 9),
		     "org.smcrd.Error.NotFound", "link group 1 has no link 9");
}

static void wrong_calls_are_refused(void **state)
{
	struct fixture *fixture = *state;
	char longest[5000];
	be_on_the_bus(fixture);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	static const char invalid[] = SD_BUS_ERROR_INVALID_ARGS;
	expect_error(
		ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "nonsense", "u", 1),
		invalid, "no parameter \"nonsense\"");
	expect_error(
		ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "linkgroup", "i", -1),
		invalid, "out of range");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "linkgroup", "t",
			 UINT64_MAX),
		     invalid, "no text, whole number");
	expect_error(
		ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "linkgroup", "as", 0),
		invalid, "no text, whole number");
	expect_error(
		ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "peer", "s", longest),
		invalid, "longer than 4096");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 2, "peer", "s", "a",
			 "peer", "s", "b"),
		     invalid, "twice");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, "peer", "d", 1.0),
		     invalid, "no text");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1, longest, "b", 1),
		     invalid, "name of an option is longer than 63 bytes");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "ShowLink", "a{sv}", 1,
			 longest + sizeof(longest) - FORM_NAME_LEN, "b", 1),
		     invalid, "no parameter"); /* that one fits */
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "AddUeid", "s", longest), invalid,
		     "too long");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "TestLink", "uu", 1, 1), invalid, "");
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "Nonsense", ""),
		     SD_BUS_ERROR_UNKNOWN_METHOD, "Nonsense");
	expect_error(ask(fixture, "/org/smcrd/link/1_1", "org.smcrd.Link1", "Delete", "a{sv}", 1,
			 "link", "y", 2),
		     invalid, "twice"); /* the path says which */
}

static void calls_that_wait_are_bounded(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	fixture->as_root = true;
	fixture->fix->pair->side[PAIR_CLIENT].blocked = true;
	for (int i = 0; i < BUS_MAX_CALLS_OF_SENDER; i++)
		start(fixture, "/org/smcrd", MANAGER, "TestLink", "uy", 1, 1);
	until(fixture, fixture->asked == BUS_MAX_CALLS_OF_SENDER);
	expect_error(ask(fixture, "/org/smcrd", MANAGER, "TestLink", "uy", 1, 1),
		     SD_BUS_ERROR_LIMITS_EXCEEDED, "too many calls");
	/* Properties are answered all the same. */
	const char *text;
	get(fixture, "/org/smcrd", MANAGER, "Version", "s", &text);
	bus_configure(fixture->bus, CONFIG_DBUS_NO);
	assert_int_equal(fixture->gone, BUS_MAX_CALLS_OF_SENDER);
	until(fixture, !is_owned(fixture));
}

static void send_call(const struct fixture *fixture, const char *interface, const char *member,
		      const char *text, bool wants_reply)
{
	uint64_t cookie;
	sd_bus_message *message = NULL;
	assert_true(sd_bus_message_new_method_call(fixture->client, &message, BUS_NAME,
						   "/org/smcrd", interface, member) >= 0);
	assert_true(sd_bus_message_set_expect_reply(message, wants_reply) >= 0);
	assert_true(!text || sd_bus_message_append(message, "s", text) >= 0);
	assert_true(sd_bus_send(fixture->client, message, wants_reply ? &cookie : NULL) >= 0);
	sd_bus_message_unref(message);
}

static const char properties[] = "org.freedesktop.DBus.Properties";

static void who_wants_no_answer_is_shown_nothing(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	const unsigned int looks = fixture->looks;
	for (int i = 0; i < 50; i++) {
		send_call(fixture, MANAGER, "ShowInfo", NULL, false);
		send_call(fixture, properties, "GetAll", MANAGER, false);
	}
	send_call(fixture, MANAGER, "AddUeid", "x", false); /* which is for root */
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	until(fixture, fixture->asked == 3);
	assert_int_equal(fixture->looks, looks);
}

/* Those of another connection, which come behind, are answered all the same. */
static void calls_of_a_second_are_bounded(void **state)
{
	enum { FLOOD = 20 * BUS_MAX_CALLS_A_SECOND };
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	for (int i = 0; i < FLOOD; i++)
		send_call(fixture, MANAGER, "AddUeid", "x", false);
	assert_true(sd_bus_flush(fixture->client) >= 0);
	sd_bus *flooder = fixture->client;
	connect_client(fixture);
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	assert_in_range(fixture->asked, 2, FLOOD / 2);
	assert_int_equal(fixture->limited, 0);
	sd_bus_close_unref(flooder);
	for (int i = 0; i < FLOOD / 2; i++)
		start(fixture, "/org/smcrd", "org.freedesktop.DBus.Peer", "Ping", "");
	until(fixture, fixture->limited > 0);
}

/* Others find the loop free for most of the time, however many calls wait: all is in the bus's
 * hands before it is looked at. */
static void a_flood_has_a_part_of_the_loop(void **state)
{
	enum { FLOOD = 2000 };
	struct fixture *fixture = *state;
	const struct timeval often = { .tv_usec = 10000 };
	be_on_the_bus(fixture);
	for (int i = 0; i < FLOOD; i++)
		send_call(fixture, properties, "GetAll", MANAGER, true);
	assert_true(sd_bus_flush(fixture->client) >= 0);
	fixture->slow = true;
	const double wall = seconds_of(CLOCK_MONOTONIC), used = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	while (fixture->looks < FLOOD && seconds_of(CLOCK_MONOTONIC) - wall < 1) {
		event_base_loopexit(fixture->fix->base, &often);
		event_base_loop(fixture->fix->base, EVLOOP_ONCE);
	}
	assert_true(fixture->looks > 10);
	assert_true(seconds_of(CLOCK_THREAD_CPUTIME_ID) - used <
		    0.4 * (seconds_of(CLOCK_MONOTONIC) - wall));
}

/* As SetConfig dbus no does. */
static void a_call_may_end_it(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	fixture->leaves = true;
	start(fixture, "/org/smcrd", MANAGER, "ShowInfo", "");
	until(fixture, !is_owned(fixture));
	fixture->leaves = false;
	bus_configure(fixture->bus, CONFIG_DBUS_AUTO);
	until(fixture, is_owned(fixture));
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
}

/* ---- signals ---- */

static int on_signal(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct fixture *fixture = userdata;
	uint64_t id, time_us;
	const char *text;
	(void)error;
	if (!strcmp(sd_bus_message_get_member(message), "Command")) {
		assert_true(sd_bus_message_has_signature(message, "ttsa{sv}"));
		assert_true(sd_bus_message_read(message, "tts", &id, &time_us, &text) > 0);
		assert_string_equal(text, "link.delete: done");
	}
	snprintf(fixture->signals[fixture->num_signals % 8], sizeof(fixture->signals[0]), "%s",
		 sd_bus_message_get_member(message));
	fixture->num_signals++;
	return 0;
}

static void listen_to_signals(struct fixture *fixture)
{
	assert_true(sd_bus_match_signal(fixture->client, NULL, BUS_NAME, "/org/smcrd", MANAGER,
					NULL, on_signal, fixture) >= 0);
}

static void events_are_signals(void **state)
{
	struct fixture *fixture = *state;
	happen(fixture, 5); /* nobody was there */
	be_on_the_bus(fixture);
	listen_to_signals(fixture);
	/* Those before have been left out once something was asked for. */
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	happen(fixture, 1);
	until(fixture, fixture->num_signals == 1);
	assert_string_equal(fixture->signals[0], "Command");
	events_rnic(fixture->fix->control.events, "soft:eth0", false, "its port is down");
	until(fixture, fixture->num_signals == 2);
	assert_string_equal(fixture->signals[1], "RnicDown");
}

static void what_cannot_be_sent_is_counted(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	listen_to_signals(fixture);
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	signals_to_fail = 1;
	happen(fixture, 2);
	until(fixture, fixture->num_signals == 2);
	assert_string_equal(fixture->signals[0], "EventsLost");
	assert_string_equal(fixture->signals[1], "Command");
}

/* U+FFFE and bytes that are no character: the rest of the message goes as it is. */
static void what_d_bus_refuses_is_mended(void **state)
{
	struct fixture *fixture = *state;
	sd_bus_message *message = NULL;
	const char *text;
	be_on_the_bus(fixture);
	json_t *object = json_pack("{s:s, s:s}", "ke\xEF\xBF\xBE", "fine\t", "b",
				   "\xEF\xB7\x90 \xF0\x9F\xBF\xBF");
	assert_non_null(object);
	assert_true(sd_bus_message_new_method_call(fixture->client, &message, BUS_NAME, "/a", "a.b",
						   "C") >= 0);
	assert_true(values_append_object(message, object) >= 0);
	assert_true(sd_bus_message_seal(message, 1, 0) >= 0);
	assert_true(find(message, "ke???", "s", &text));
	assert_string_equal(text, "fine\t");
	assert_true(sd_bus_message_rewind(message, true) >= 0);
	assert_true(find(message, "b", "s", &text));
	assert_string_equal(text, "??? ????");
	sd_bus_message_unref(message);
	json_decref(object);
}

static void what_comes_too_fast_is_counted(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	listen_to_signals(fixture);
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	happen(fixture, EVENTS_OF_A_PEER + 7);
	until(fixture, fixture->num_signals == EVENTS_OF_A_PEER + 1);
	assert_string_equal(fixture->signals[EVENTS_OF_A_PEER % 8], "Command");
}

/* Peers and programs make events: those have a part of the loop that ends. */
static void signals_come_in_parts(void **state)
{
	struct fixture *fixture = *state;
	struct timespec begun, ended;
	be_on_the_bus(fixture);
	listen_to_signals(fixture);
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	clock_gettime(CLOCK_MONOTONIC, &begun);
	happen(fixture, 200);
	until(fixture, fixture->num_signals == 200);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	/* 64, 64, 64 and 8 */
	assert_true((ended.tv_sec - begun.tv_sec) * 1000 +
			    (ended.tv_nsec - begun.tv_nsec) / 1000000 >=
		    3 * BUS_SIGNALS_PAUSE_MS - 10);
}

/* ---- buses come and go ---- */

static void it_comes_back_when_the_bus_does(void **state)
{
	struct fixture *fixture = *state;
	be_on_the_bus(fixture);
	fixture->as_root = true;
	fixture->fix->pair->side[PAIR_CLIENT].blocked = true;
	start(fixture, "/org/smcrd", MANAGER, "TestLink", "uy", 1, 1);
	until(fixture, fixture->asked == 1);
	fixture->client = sd_bus_close_unref(fixture->client);
	end_daemon(fixture);
	until(fixture, fixture->gone == 1);
	start_daemon(fixture);
	connect_client(fixture);
	until(fixture, is_owned(fixture));
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
}

static void without_a_bus_nothing_happens(void **state)
{
	struct fixture *fixture = *state;
	assert_string_equal(bus_state(fixture->bus), "off");
	bus_configure(fixture->bus, CONFIG_DBUS_AUTO);
	assert_string_equal(bus_state(fixture->bus), "unreachable");
	for (int i = 0; i < 50; i++)
		turn(fixture);
	happen(fixture, 1);
	start_daemon(fixture);
	connect_client(fixture);
	until(fixture, is_owned(fixture));
}

static void a_name_that_is_refused_is_asked_for_again(void **state)
{
	struct fixture *fixture = *state;
	write_config(fixture, "<deny own=\"*\"/>");
	start_daemon(fixture);
	connect_client(fixture);
	bus_configure(fixture->bus, CONFIG_DBUS_AUTO);
	for (int i = 0; i < 200; i++)
		turn(fixture);
	assert_false(is_owned(fixture));
	assert_string_equal(bus_state(fixture->bus), "refused");
	write_config(fixture, "<allow own=\"*\"/>");
	kill(fixture->daemon, SIGHUP);
	until(fixture, is_owned(fixture));
	until(fixture, !strcmp(bus_state(fixture->bus), "on"));
}

static void a_name_that_another_has_is_waited_for(void **state)
{
	struct fixture *fixture = *state;
	start_daemon(fixture);
	connect_client(fixture);
	assert_true(sd_bus_request_name(fixture->client, BUS_NAME, 0) >= 0);
	bus_configure(fixture->bus, CONFIG_DBUS_AUTO);
	until(fixture, !strcmp(bus_state(fixture->bus), "waits"));
	assert_true(sd_bus_release_name(fixture->client, BUS_NAME) >= 0);
	expect_good(ask(fixture, "/org/smcrd", MANAGER, "ShowInfo", ""));
	until(fixture, !strcmp(bus_state(fixture->bus), "on"));
}

/* It lets connect, and then says nothing; or does not even do that. */
static void a_bus_that_stands_still_holds_nobody_up(void **state)
{
	struct fixture *fixture = *state;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timespec begin, end;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/bus", fixture->dir);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 0), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (int i = 0; i < 3; i++) {
		bus_configure(fixture->bus, CONFIG_DBUS_NO);
		bus_configure(fixture->bus, CONFIG_DBUS_YES);
		for (int j = 0; j < 100; j++)
			turn(fixture);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	/* Nor does it spin: 300 turns of a millisecond take little of it. */
	assert_true(end.tv_sec - begin.tv_sec < 2);
	close(fd);
	unlink(addr.sun_path);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_follow_from_the_table),
		cmocka_unit_test(every_method_has_a_name_of_its_own),
		cmocka_unit_test(keys_become_camel_case),
		CASE(objects_have_typed_properties),
		CASE(what_is_not_there_is_no_object),
		CASE(introspection_shows_objects_and_methods),
		CASE(the_manual_page_has_all_names),
		CASE(shows_answer_everybody),
		CASE(every_show_has_the_form_it_says),
		CASE(long_views_come_in_parts),
		CASE(changes_are_for_administrators),
		CASE(only_the_bus_says_who_asks),
		CASE(a_bus_that_does_not_say_in_time_is_no_refusal),
		CASE(commands_are_answered_when_they_have_ended),
		CASE(wrong_calls_are_refused),
		CASE(calls_that_wait_are_bounded),
		CASE(who_wants_no_answer_is_shown_nothing),
		CASE(calls_of_a_second_are_bounded),
		CASE(a_flood_has_a_part_of_the_loop),
		CASE(a_call_may_end_it),
		CASE(events_are_signals),
		CASE(what_cannot_be_sent_is_counted),
		CASE(what_d_bus_refuses_is_mended),
		CASE(what_comes_too_fast_is_counted),
		CASE(signals_come_in_parts),
		CASE(it_comes_back_when_the_bus_does),
		CASE(without_a_bus_nothing_happens),
		CASE(a_name_that_is_refused_is_asked_for_again),
		CASE(a_name_that_another_has_is_waited_for),
		CASE(a_bus_that_stands_still_holds_nobody_up),
	};
	return cmocka_run_group_tests_name("bus", tests, NULL, NULL);
}
