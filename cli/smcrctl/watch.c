/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/watch.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/smcrctl/interrupt.h"
#include "cli/smcrctl/output.h"

#define TO_HOME    "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

void watch_screen(unsigned short *ret_columns, unsigned short *ret_lines)
{
	struct winsize size = { 0 };
	*ret_columns = *ret_lines = 0;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	*ret_columns = size.ws_col ? size.ws_col : 80;
	*ret_lines = size.ws_row ? size.ws_row : 24;
}

/* Output goes into a text first, so that a screen is painted at once, and no more than fits.
 * @return as watch->print(); *ret_text is NULL without memory */
static int print_to_text(const struct watch *watch, char **ret_text)
{
	FILE *real = stdout;
	size_t len;
	*ret_text = NULL;
	FILE *memory = open_memstream(ret_text, &len);
	if (!memory)
		return watch->print(watch->ctx);
	stdout = memory;
	int status = watch->print(watch->ctx);
	stdout = real;
	fclose(memory);
	return status;
}

static void print_header(const struct watch *watch, const char *end)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%F %T", &tm);
	printf("%s  %s, every %g s%s\n", when, watch->title, watch->seconds, end);
}

/* The first line of the text: @return its bytes @param ret_lines  lines of the screen it takes */
static size_t measure(const char *text, unsigned int columns, unsigned int *ret_lines)
{
	size_t len = strcspn(text, "\n");
	unsigned int width = 0;
	for (size_t i = 0; i < len; i++)
		width += ((unsigned char)text[i] & 0xC0) != 0x80; /* UTF-8 */
	*ret_lines = width > columns ? (width + columns - 1) / columns : 1;
	return len;
}

/* How many lines of the text fit. If not all fit, one line of the screen is kept for saying so. */
static unsigned int lines_that_fit(const char *text, unsigned int columns, unsigned int available,
				   unsigned int *ret_left)
{
	unsigned int fit = 0, fit_before_last = 0, taken = 0, total = 0, lines;
	for (; *text; total++) {
		size_t len = measure(text, columns, &lines);
		taken += lines;
		fit += taken <= available;
		fit_before_last += taken + 1 <= available;
		text += len + (text[len] != '\0');
	}
	*ret_left = fit < total ? total - fit_before_last : 0;
	return fit < total ? fit_before_last : total;
}

static void paint(const char *text, unsigned int columns, unsigned int available)
{
	unsigned int left, lines;
	for (unsigned int n = lines_that_fit(text, columns, available, &left); n > 0; n--) {
		size_t len = measure(text, columns, &lines);
		printf("%.*s" CLEAR_LINE "\n", (int)len, text);
		text += len + 1;
	}
	if (left)
		printf("(%u more line%s)" CLEAR_LINE "\n", left, left == 1 ? "" : "s");
}

static int paint_screen(const struct watch *watch)
{
	unsigned short columns, lines;
	char *text;
	int status = print_to_text(watch, &text);
	watch_screen(&columns, &lines);
	interrupt_hold();
	if (!status) {
		fputs(TO_HOME, stdout);
		print_header(watch, CLEAR_LINE);
		/* below the header, and above the cursor */
		paint(text ? text : "", columns, lines > 3 ? lines - 2u : 1);
		fputs(CLEAR_REST, stdout);
	}
	free(text);
	return interrupt_release() ? 1 : status;
}

static int print_next(const struct watch *watch)
{
	char *text;
	int status = print_to_text(watch, &text);
	interrupt_hold();
	if (watch->title && !status)
		print_header(watch, "");
	fputs(text ? text : "", stdout);
	if (watch->title && !status)
		putchar('\n');
	free(text);
	return interrupt_release() ? 1 : status;
}

static volatile sig_atomic_t resized;

static void note_resize(int signal)
{
	(void)signal;
	resized = 1;
}

/* SIGWINCH comes in wait_until() only, and does not disturb requests and painting. */
static void notice_resizes(void)
{
	const struct sigaction action = { .sa_handler = note_resize };
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGWINCH, &action, NULL);
}

bool watch_left(const struct timespec *end, struct timespec *ret_left)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ret_left->tv_sec = end->tv_sec - now.tv_sec;
	ret_left->tv_nsec = end->tv_nsec - now.tv_nsec;
	if (ret_left->tv_nsec < 0) {
		ret_left->tv_sec--;
		ret_left->tv_nsec += 1000000000;
	}
	return ret_left->tv_sec >= 0;
}

/* @return whether the time is over; otherwise a signal has come, or the reader has gone */
static bool wait_until(const struct timespec *end, struct pollfd *reader)
{
	struct timespec left;
	sigset_t mask;
	if (!watch_left(end, &left))
		return true;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	sigdelset(&mask, SIGWINCH);
	return ppoll(reader, 1, &left, &mask) == 0;
}

void watch_set_next(double seconds, struct timespec *next)
{
	struct timespec now;
	next->tv_sec += (time_t)seconds;
	next->tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	next->tv_sec += next->tv_nsec / 1000000000;
	next->tv_nsec %= 1000000000;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec > next->tv_sec ||
	    (now.tv_sec == next->tv_sec && now.tv_nsec > next->tv_nsec))
		*next = now;
}

/* After a change of its size the terminal is painted anew at once: it has moved the text. */
static int wait_for_next(const struct watch *watch, struct timespec *next)
{
	struct pollfd reader = interrupt_reader();
	int status = 0;
	watch_set_next(watch->seconds, next);
	while (!status && !wait_until(next, &reader)) {
		if (interrupt_reader_has_gone(&reader)) {
			interrupt_without_reader();
			return STATUS_FAILED;
		}
		if (resized) {
			resized = 0;
			status = paint_screen(watch);
		}
	}
	return status;
}

int watch_run(const struct watch *watch)
{
	struct timespec next;
	interrupt_is_the_end();
	clock_gettime(CLOCK_MONOTONIC, &next);
	if (watch->terminal) {
		notice_resizes();
		fputs(TO_HOME CLEAR_REST, stdout);
		fflush(stdout);
	}
	for (uint64_t times = 1;; times++) {
		int status = watch->terminal ? paint_screen(watch) : print_next(watch);
		if (status || times == watch->count)
			return status;
		status = wait_for_next(watch, &next);
		if (status)
			return status;
	}
}
