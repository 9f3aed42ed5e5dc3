/* SPDX-License-Identifier: MIT */
/* What users may not send: switched on and off, counted, and told in the log. Needs root. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/rendezvous/egress.h"
#include "tests/lib/option.h"
#include "tests/lib/tries.h"

#define PORT 4791

/* All tests share a network namespace of their own. */
static struct rdv_option *option;
static int cgroup;

static int setup_group(void **state)
{
	(void)state;
	if (option_setup(&option) < 0)
		return -1;
	cgroup = attach_root();
	return cgroup < 0 ? -1 : 0;
}

static int teardown_group(void **state)
{
	(void)state;
	rdv_option_close(option);
	close(cgroup);
	return 0;
}

static struct egress *guarded(void)
{
	struct egress *egress;
	struct egress_view view;
	assert_int_equal(egress_new(cgroup, option, &egress), 0);
	egress_set(egress, true);
	egress_get_view(egress, &view);
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		assert_string_equal(view.errors[i], "");
	return egress;
}

static int send_to(uint16_t port)
{
	const struct sockaddr_in addr = { .sin_family = AF_INET,
					  .sin_port = htons(port),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int r = sendto(fd, "x", 1, 0, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? errno : 0;
	close(fd);
	return r;
}

/* A user sends so many datagrams. @return errno of the last one */
static int user_sends(uid_t uid, uint16_t port, unsigned int times)
{
	int status, r = 0;
	pid_t child = fork();
	if (child == 0) {
		if (setresuid(uid, uid, uid) < 0)
			_exit(255);
		while (times--)
			r = send_to(port);
		_exit(r);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static uint64_t refused(const struct egress *egress)
{
	struct egress_view view;
	egress_get_view(egress, &view);
	assert_int_equal(view.refused[EGRESS_CLC], 0);
	return view.refused[EGRESS_ROCE];
}

static void assert_news(struct egress *egress, const char *expected)
{
	char text[RDV_TEXT_MAX];
	assert_true(egress_has_news(egress, EGRESS_ROCE));
	assert_false(egress_has_news(egress, EGRESS_CLC));
	egress_take_news(egress, EGRESS_ROCE, text);
	assert_string_equal(text, expected);
	assert_false(egress_has_news(egress, EGRESS_ROCE));
}

static void users_are_refused_and_named(void **state)
{
	struct egress *egress = guarded();
	(void)state;
	assert_false(egress_has_news(egress, EGRESS_ROCE));
	assert_int_equal(user_sends(12345, PORT, 1), EPERM);
	assert_news(egress, "user 12345 was refused the use of UDP port 4791, which RoCEv2 packets "
			    "go to, 1 time");
	assert_int_equal(user_sends(12345, PORT, 2), EPERM);
	assert_int_equal(user_sends(12346, PORT, 3), EPERM);
	assert_news(egress,
		    "user 12346 and 1 other were refused the use of UDP port 4791, which RoCEv2 "
		    "packets go to, 5 times");
	assert_int_equal(user_sends(12345, PORT, 2), EPERM);
	assert_int_equal(user_sends(12346, PORT, 1), EPERM);
	assert_int_equal(user_sends(12347, PORT, 1), EPERM);
	assert_news(egress,
		    "user 12345 and 2 others were refused the use of UDP port 4791, which RoCEv2 "
		    "packets go to, 4 times");
	assert_int_equal(refused(egress), 10);
	egress_free(egress);
}

static void other_ports_and_root_are_let_alone(void **state)
{
	struct egress *egress = guarded();
	(void)state;
	assert_int_equal(user_sends(12345, PORT + 1, 1), 0);
	assert_int_equal(user_sends(0, PORT, 1), 0);
	assert_int_equal(refused(egress), 0);
	egress_free(egress);
}

static void refusals_are_counted_on_when_the_guard_ends(void **state)
{
	struct egress *egress = guarded();
	struct egress_view view;
	(void)state;
	assert_int_equal(user_sends(12345, PORT, 3), EPERM);
	egress_set(egress, false);
	egress_get_view(egress, &view);
	assert_false(view.wanted);
	assert_int_equal(user_sends(12345, PORT, 1), 0);
	assert_int_equal(refused(egress), 3);
	/* The BPF programs that are gone knew which users these were. */
	assert_news(egress, "users were refused the use of UDP port 4791, which RoCEv2 packets go "
			    "to, 3 times");
	egress_set(egress, true);
	egress_set(egress, true); /* already on */
	assert_int_equal(user_sends(12345, PORT, 1), EPERM);
	assert_int_equal(refused(egress), 4);
	egress_free(egress);
	assert_int_equal(user_sends(12345, PORT, 1), 0);
}

static void failures_are_logged_and_tried_again(void **state)
{
	struct egress *egress;
	struct egress_view view;
	(void)state;
	assert_int_equal(egress_new(-ENOENT, option, &egress), 0);
	egress_set(egress, true);
	for (int again = 0; again < 2; again++) {
		TRIES("again %d", again);
		egress_get_view(egress, &view);
		assert_true(view.wanted);
		for (int i = 0; i < NUM_EGRESS_KINDS; i++) {
			TRIES("case %d", i);
			assert_string_equal(view.errors[i],
					    "cannot open the root of the cgroup2 hierarchy: "
					    "No such file or directory; mount it on /sys/fs/cgroup "
					    "or give the daemon CAP_SYS_ADMIN");
		}
		assert_int_equal(view.refused[EGRESS_ROCE], 0);
		egress_set(egress, true);
	}
	egress_set(egress, false);
	egress_get_view(egress, &view);
	for (int i = 0; i < NUM_EGRESS_KINDS; i++) {
		TRIES("case %d", i);
		assert_string_equal(view.errors[i], "");
		assert_true(strlen(egress_kind_risk((enum egress_kind)i)) > 0);
	}
	egress_free(egress);
}

/* smcrd does not send the option, so there are no CLC messages to guard. */
static void without_the_option_the_port_is_guarded(void **state)
{
	struct egress *egress;
	struct egress_view view;
	(void)state;
	assert_int_equal(egress_new(cgroup, NULL, &egress), 0);
	egress_set(egress, true);
	egress_get_view(egress, &view);
	assert_string_equal(view.errors[EGRESS_CLC], "");
	assert_int_equal(user_sends(12345, PORT, 1), EPERM);
	egress_free(egress);
	egress_get_view(NULL, &view);
	assert_false(view.wanted);
	assert_false(egress_has_news(NULL, EGRESS_ROCE));
	egress_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_are_refused_and_named),
		cmocka_unit_test(other_ports_and_root_are_let_alone),
		cmocka_unit_test(refusals_are_counted_on_when_the_guard_ends),
		cmocka_unit_test(failures_are_logged_and_tried_again),
		cmocka_unit_test(without_the_option_the_port_is_guarded),
	};
	return cmocka_run_group_tests_name("egress", tests, setup_group, teardown_group);
}
