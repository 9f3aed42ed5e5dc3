/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void end(int signal)
{
	(void)signal;
	_exit(0); /* nothing is left in standard output's buffer */
}

static void block(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(how, &set, NULL);
}

void interrupt_is_the_end(void)
{
	const struct sigaction action = { .sa_handler = end };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	block(SIG_UNBLOCK);
}

void interrupt_hold(void)
{
	block(SIG_BLOCK);
}

int interrupt_release(void)
{
	int failed = fflush(stdout) || ferror(stdout);
	block(SIG_UNBLOCK);
	return failed ? -1 : 0;
}

struct pollfd interrupt_reader(void)
{
	return (struct pollfd){ .fd = STDOUT_FILENO };
}

bool interrupt_reader_has_gone(const struct pollfd *reader)
{
	return reader->revents & (POLLERR | POLLHUP);
}

void interrupt_without_reader(void)
{
	raise(SIGPIPE);
}
