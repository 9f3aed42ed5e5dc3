/* SPDX-License-Identifier: MIT */
/*
 * smcrctl top on a terminal: a frame for each step and for each key. Keys and signals are taken in
 * wait_for_something() only, so they do not disturb requests and painting.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/smcrctl/top.h"
#include "cli/smcrctl/top_screen.h"
#include "cli/smcrctl/watch.h"
#include "cli/smcrctl/words.h"

#define ESCAPE    27
#define ERASE_ALL 21 /* Ctrl-U */
#define HELP      "q quit  space pause  < > column  r reverse  f filter"
#define PROMPT    "filter, such as 'peer 192.0.2.1': "
#define MAX_WORDS 32

struct live {
	struct top *top;
	struct timespec next; /* time of the next sample, CLOCK_MONOTONIC */
	bool typing;          /* the user types a filter */
	char typed[TOP_FILTER_LEN];
	char problem[SESSION_ERROR_LEN]; /* with the filter; shown until the next key */
	bool over;
};

/* ---- signals ---- */

static volatile sig_atomic_t ended;

static void note_end(int signal)
{
	(void)signal;
	ended = 1;
}

static void hold_signals(void)
{
	const struct sigaction action = { .sa_handler = note_end };
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* ---- painting ---- */

/* Of a filter that is too long for the line, the end is shown. */
static void put_bottom(const struct live *live, char *text, size_t len, size_t columns)
{
	const char *note = live->top->note;
	const size_t fits = columns > sizeof(PROMPT) ? columns - sizeof(PROMPT) : 0;
	const size_t typed = strlen(live->typed);
	if (live->typing)
		snprintf(text, len, PROMPT "%s", live->typed + (typed > fits ? typed - fits : 0));
	else if (*live->problem)
		snprintf(text, len, "%s", live->problem);
	else
		snprintf(text, len, "%s", *note ? note : HELP);
}

static void paint(const struct live *live)
{
	const struct top *top = live->top;
	struct top_view view = top->view;
	char bottom[SESSION_ERROR_LEN];
	size_t columns, lines;
	top_screen_size(&columns, &lines);
	view.lines = lines > 1 ? lines - 1 : 1; /* the last line of the screen tells the keys */
	table_set_style(&(const struct table_style){
		.exact_bytes = top->call->output->exact_bytes, .width = columns, .quiet = true });
	char *text = top_frame_text(&top->ask.now, &top->sums, &view);
	put_bottom(live, bottom, sizeof(bottom), columns);
	top_screen_paint(text ? text : "out of memory", bottom, live->typing);
	free(text);
}

/* ---- keys ---- */

/* Sorts by the column before (-1) or behind (1). */
static void change_column(struct sort *order, int step)
{
	const size_t at = (size_t)(order->column - top_columns);
	order->column = &top_columns[(at + TOP_NUM_COLUMNS + (size_t)step) % TOP_NUM_COLUMNS];
}

/* The next sample is due after a step, and after smcrd's pause. */
static void set_next(struct live *live)
{
	const uint64_t us = live->top->earliest_us;
	const struct timespec earliest = { .tv_sec = (time_t)(us / 1000000),
					   .tv_nsec = (long)(us % 1000000 * 1000) };
	struct timespec *next = &live->next;
	watch_set_next(live->top->view.seconds, next);
	if (next->tv_sec < earliest.tv_sec ||
	    (next->tv_sec == earliest.tv_sec && next->tv_nsec < earliest.tv_nsec))
		*next = earliest;
}

static void sample_now(struct live *live)
{
	clock_gettime(CLOCK_MONOTONIC, &live->next);
	top_sample(live->top);
	set_next(live);
}

static void set_pause(struct live *live, bool paused)
{
	live->top->view.paused = paused;
	if (!paused)
		sample_now(live);
}

/* The error of words_refuse() has to appear in the last line of the screen. */
static bool take_filter(struct live *live, int argc, char **argv)
{
	char *said = NULL;
	size_t len;
	FILE *real = stderr, *memory = open_memstream(&said, &len);
	if (!memory)
		return false;
	stderr = memory;
	const bool good = top_filter(live->top, argc, argv);
	stderr = real;
	fclose(memory);
	const char *colon = good || !said ? NULL : strstr(said, ": ");
	snprintf(live->problem, sizeof(live->problem), "%.*s",
		 colon ? (int)strcspn(colon + 2, "\n") : 0, colon ? colon + 2 : "");
	free(said);
	return good;
}

static void end_typing(struct live *live)
{
	char *argv[MAX_WORDS], *save = NULL, *word;
	int argc = 0;
	for (word = strtok_r(live->typed, " ", &save); word && argc < MAX_WORDS;
	     word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	live->typing = false;
	if (take_filter(live, argc, argv))
		sample_now(live);
}

static void type(struct live *live, int key)
{
	const size_t len = strlen(live->typed);
	if (key == '\n')
		end_typing(live);
	else if (key == ESCAPE)
		live->typing = false;
	else if (key == ERASE_ALL)
		live->typed[0] = '\0';
	else if (key == '\b' && len > 0)
		live->typed[len - 1] = '\0';
	else if (key >= ' ' && key < 0x7F && len + 1 < sizeof(live->typed))
		memcpy(live->typed + len, (const char[2]){ (char)key }, 2);
}

static void begin_typing(struct live *live)
{
	live->typing = true;
	snprintf(live->typed, sizeof(live->typed), "%s", live->top->words);
}

static void obey(struct live *live, int key)
{
	struct top_view *view = &live->top->view;
	live->problem[0] = '\0';
	if (live->typing) {
		type(live, key);
		return;
	}
	switch (key) {
	case 'q': live->over = true; break;
	case ' ':
	case 'p': set_pause(live, !view->paused); break;
	case '<':
	case TOP_SCREEN_LEFT: change_column(&view->order, -1); break;
	case '>':
	case TOP_SCREEN_RIGHT: change_column(&view->order, 1); break;
	case 'r': view->order.descending = !view->order.descending; break;
	case 'f': begin_typing(live); break;
	}
}

/* ---- the loop ---- */

/* Waits for the next step, a key or a signal. @return false: the terminal has gone */
static bool wait_for_something(const struct live *live)
{
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	struct timespec left;
	sigset_t mask;
	if (!watch_left(&live->next, &left))
		left = (struct timespec){ 0 };
	sigemptyset(&mask);
	if (ppoll(&keys, 1, live->top->view.paused ? NULL : &left, &mask) < 0)
		return errno == EINTR;
	return !(keys.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static bool is_due(const struct live *live)
{
	struct timespec left;
	return !live->top->view.paused && !watch_left(&live->next, &left);
}

static int run(struct live *live)
{
	int key;
	while (!live->over) {
		paint(live);
		if (!wait_for_something(live))
			return STATUS_FAILED;
		if (ended)
			return STATUS_DONE;
		while (!live->over && (key = top_screen_key()) != TOP_SCREEN_NO_KEY)
			obey(live, key);
		if (is_due(live)) {
			top_sample(live->top);
			set_next(live);
		}
	}
	return STATUS_DONE;
}

int top_live(struct top *top)
{
	struct live live = { .top = top };
	hold_signals();
	if (!top_screen_open())
		return output_error(top->call->output, STATUS_FAILED, "failed",
				    "this terminal can show no whole screen (TERM): 'smcrctl top "
				    "--batch' prints one frame after the other");
	clock_gettime(CLOCK_MONOTONIC, &live.next);
	set_next(&live);
	const int status = run(&live);
	top_screen_close();
	return status;
}
