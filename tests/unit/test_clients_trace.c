/* SPDX-License-Identifier: MIT */
/* The protocol trace of sessions: requests and replies, in their order, in the log of a daemon. */
#include "daemon/host/log.h"
#include "daemon/host/trace.h"
#include "tests/unit/clients_side.h"

/* The log of the daemons that are started from now on, in place of standard error. */
struct trace_log {
	FILE *written;
	int before;
};

static struct trace_log log_begin(unsigned int categories)
{
	struct trace_log log = { .written = tmpfile(), .before = dup(STDERR_FILENO) };
	assert_non_null(log.written);
	unsetenv("JOURNAL_STREAM");
	fflush(stderr);
	dup2(fileno(log.written), STDERR_FILENO);
	log_open(LOG_ERR, false);
	trace_set(categories);
	return log;
}

static void log_end(struct trace_log *log, char *text, size_t len)
{
	dup2(log->before, STDERR_FILENO);
	close(log->before);
	trace_set(0);
	rewind(log->written);
	text[fread(text, 1, len - 1, log->written)] = '\0';
	fclose(log->written);
}

static void ask(int session, const char *request)
{
	struct frame frame;
	send_frame(session, IPC_CONTROL, request, strlen(request), -1);
	assert_true(receive_frame(session, &frame));
	free(frame.payload);
}

/* The daemon is forked, and takes log and categories along. */
static void requests_and_replies_are_lines(void **state)
{
	static const char *const wanted[] = {
		": request HELLO\n",
		": request CONTROL, {\"method\":\"??info.show\"}\n",
		": reply CONTROL_REPLY, done, 24 bytes\n",
		": request CONTROL, {\"schema\":1,\"error\":{\"text\":\"no\"}}\n",
		": reply CONTROL_REPLY, {\"text\":\"no\"}\n",
		": request CONTROL, no\n",
		": reply ERROR, uid ",
		": request HANDOVER, a socket that is connected\n",
		": reply RESULT, a pair end\n",
	};
	struct daemon_side daemon;
	struct tcp tcp;
	char text[16384], who[80];
	(void)state;
	struct trace_log log = log_begin(IPC_TRACE_BIT(IPC_TRACE_IPC));
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask(session, "{\"method\":\"\n\x80info.show\"}");
	ask(session, "{\"schema\":1,\"error\":{\"text\":\"no\"}}");
	ask(session, "no");
	script->outcome = OUTCOME_ESTABLISHED;
	tcp = connect_tcp();
	close(hand_over(&daemon, &tcp, IPC_HANDOVER_CONNECTED));
	close(session);
	close(tcp.far);
	daemon_stop(&daemon);
	log_end(&log, text, sizeof(text));
	const char *at = text;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		const char *line = strstr(at, wanted[i]);
		if (!line)
			fail_msg("no line has \"%s\" behind the one before, in\n%s", wanted[i],
				 text);
		at = line + strlen(wanted[i]) - 1;
	}
	snprintf(who, sizeof(who), "smcrd: trace: ipc: session 1, pid %d, uid %u: ", (int)getpid(),
		 (unsigned int)geteuid());
	assert_non_null(strstr(text, who));
}

/* A request that waits for news is made again with each of them, and is traced once. */
static void a_request_that_waits_is_one_line(void **state)
{
	struct daemon_side daemon;
	struct frame frame;
	char text[16384];
	(void)state;
	struct trace_log log = log_begin(IPC_TRACE_BIT(IPC_TRACE_IPC));
	daemon_start(&daemon);
	int session = session_open(&daemon), other = session_open(&daemon);
	send_frame(session, IPC_CONTROL, "news", 4, -1);
	ask(other, "wake");
	ask(other, "wake");
	assert_true(receive_frame(session, &frame));
	free(frame.payload);
	close(session);
	close(other);
	daemon_stop(&daemon);
	log_end(&log, text, sizeof(text));
	const char *line = strstr(text, "request CONTROL, news");
	assert_non_null(line);
	assert_null(strstr(line + 1, "request CONTROL, news"));
}

static void nothing_is_written_while_it_is_off(void **state)
{
	struct daemon_side daemon;
	char text[16384];
	(void)state;
	struct trace_log log = log_begin(IPC_TRACE_BIT(IPC_TRACE_CLC));
	daemon_start(&daemon);
	int session = session_open(&daemon);
	ask(session, "conns");
	close(session);
	daemon_stop(&daemon);
	log_end(&log, text, sizeof(text));
	assert_null(strstr(text, "trace: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_and_replies_are_lines),
		cmocka_unit_test(a_request_that_waits_is_one_line),
		cmocka_unit_test(nothing_is_written_while_it_is_off),
	};
	return cmocka_run_group_tests_name("clients: trace", tests, NULL, NULL);
}
