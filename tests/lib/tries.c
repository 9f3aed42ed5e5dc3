/* SPDX-License-Identifier: MIT */
#include "tests/lib/tries.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

/** The case that is being tried, and the test that tries it. */
static struct {
	char text[512]; /* "": none */
	const char *file, *test;
	pid_t pid; /* of the test; a process that it forks prints nothing */
} at;

static void tell(FILE *out)
{
	if (at.text[0] && at.pid == getpid())
		fprintf(out, "# %s: %s() failed at %s\n", at.file, at.test, at.text);
	at.text[0] = '\0';
}

static void tell_at_exit(void)
{
	tell(stdout);
}

/* A signal handler may use stderr here: stderr is not buffered, and the process does not go on. */
static void tell_at_abort(int sig)
{
	(void)sig;
	tell(stderr);
}

#ifdef __SANITIZE_ADDRESS__
static void tell_at_death(void)
{
	tell(stderr);
}
#endif

static void listen_once(void)
{
	static bool listening;
	if (listening)
		return;
	listening = true;
	atexit(tell_at_exit);
	signal(SIGABRT, tell_at_abort);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_death_callback(tell_at_death);
#endif
}

struct tries_scope tries_begin(const char *file, const char *test, const char *format, ...)
{
	listen_once();
	if (at.text[0] && strcmp(at.test, test) != 0)
		tell(stdout); /* the case in which an earlier test has failed */
	const struct tries_scope scope = { strlen(at.text) };
	size_t len = scope.outside;
	if (len)
		len += (size_t)snprintf(at.text + len, sizeof(at.text) - len, ", ");
	va_list ap;
	va_start(ap, format);
	if (len < sizeof(at.text))
		vsnprintf(at.text + len, sizeof(at.text) - len, format, ap);
	va_end(ap);
	at.file = file;
	at.test = test;
	at.pid = getpid();
	return scope;
}

void tries_end(const struct tries_scope *scope)
{
	at.text[scope->outside] = '\0';
}
