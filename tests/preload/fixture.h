/* SPDX-License-Identifier: MIT */
/* Each test of the preload library begins with a daemon (pre_daemon.h), a TCP listener on loopback
 * that was not claimed, and imitated BPF programs (pre_net.h) that say that the option was
 * negotiated. */
#ifndef SMCRD_TESTS_PRELOAD_FIXTURE_H
#define SMCRD_TESTS_PRELOAD_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/smcr/settings.h"
#include "tests/lib/pre_daemon.h"
#include "tests/lib/pre_net.h"
#include "tests/lib/proves.h"

static struct pre_daemon smcrd;
static int listener;
static union ipc_addr server;

static int start(void **state)
{
	(void)state;
	pre_daemon_start(&smcrd);
	pre_net_play_option();
	pre_settings.require = false;
	listener = pre_net_listen(AF_INET, &server);
	pre_net_option.negotiated = IPC_NEGOTIATED_YES;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	close(listener);
	pre_daemon_stop(&smcrd);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

#endif
