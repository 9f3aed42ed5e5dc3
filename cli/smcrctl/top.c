/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/smcrctl/filters.h"
#include "cli/smcrctl/watch.h"
#include "cli/smcrctl/words.h"

#define BATCH_ROWS 20 /* of each table */
#define REST       4  /* the pause between requests is so many times as long as the last one took */

static uint64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int top_sample(struct top *top)
{
	const uint64_t begun_us = top_ask_now();
	const int error = top_ask(&top->ask, top->note);
	const uint64_t ended_us = top_ask_now();
	if (top->call->top->at_least)
		top->earliest_us = ended_us + REST * (ended_us - begun_us);
	if (error)
		return error;
	top->note[0] = '\0';
	top->view.now_us = now_us();
	top_rates(top->ask.has_before ? &top->ask.before : NULL, &top->ask.now, &top->sums);
	return 0;
}

static void join(char *text, size_t len, int argc, char **argv)
{
	size_t at = 0;
	*text = '\0';
	for (int i = 0; i < argc && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%s", i ? " " : "", argv[i]);
}

bool top_filter(struct top *top, int argc, char **argv)
{
	json_t *params = json_object();
	if (!filters_take("top", argc, argv, params)) {
		json_decref(params);
		return false;
	}
	json_t *old = top->filter;
	top->filter = params;
	top_ask_filter(&top->ask, params);
	top->sums = (struct top_sums){ 0 };
	json_decref(old);
	join(top->words, sizeof(top->words), argc, argv);
	return true;
}

/* ---- one frame after the other ---- */

/* Prints the error of top_sample(). @return the exit status */
static int fail(struct top *top, int error)
{
	const struct output *output = top->call->output;
	if (error == -ENOENT && top->ask.refusal)
		return output_refusal(output, top->ask.refusal);
	return output_failure(output, error, top->note);
}

static void print_text(const struct top *top)
{
	table_set_style(&(const struct table_style){ .exact_bytes = top->call->output->exact_bytes,
						     .quiet = true });
	char *text = top_frame_text(&top->ask.now, &top->sums, &top->view);
	printf("%s\n", text ? text : "");
	free(text);
}

static void print_json(const struct top *top)
{
	json_t *frame = top_frame_json(&top->ask.now, &top->sums, &top->view);
	output_json(top->call->output, "top", frame);
	json_decref(frame);
}

static void rest(const struct top *top)
{
	const uint64_t now = top_ask_now();
	const uint64_t us = top->earliest_us > now ? top->earliest_us - now : 0;
	const struct timespec left = { .tv_sec = (time_t)(us / 1000000),
				       .tv_nsec = (long)(us % 1000000 * 1000) };
	nanosleep(&left, NULL); /* a signal ends the program */
}

/* The first sample has no rates, and is not printed. */
static int print_frame(void *ctx)
{
	struct top *top = ctx;
	const bool first = !top->ask.has_now;
	rest(top);
	const int error = top_sample(top);
	if (error)
		return fail(top, error);
	if (!first && top->call->output->json)
		print_json(top);
	else if (!first)
		print_text(top);
	return 0;
}

static int batch(struct top *top)
{
	const struct tool_top *options = top->call->top;
	const unsigned int rows = top->call->output->json ? 0 : BATCH_ROWS;
	for (enum top_kind kind = 0; kind < TOP_KINDS; kind++)
		top->view.most[kind] = options->number ? options->number : rows;
	const struct watch watch = { .seconds = options->seconds,
				     .count = options->frames ? options->frames + 1 : 0,
				     .print = print_frame,
				     .ctx = top };
	return watch_run(&watch);
}

/* ---- on the terminal ---- */

static int live(struct top *top)
{
	const int error = top_sample(top);
	return error ? fail(top, error) : top_live(top);
}

static bool is_batch(const struct tool_call *call)
{
	return call->top->batch || call->top->frames || call->output->json ||
	       !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
}

int top_run(const struct tool_call *call)
{
	struct top top = { .call = call,
			   .ask = { .socket_path = call->socket_path },
			   .view = { .order = call->top->order.column ? call->top->order
								      : top_default_order,
				     .seconds = call->top->seconds,
				     .details = call->output->details } };
	top.view.filter = top.words;
	if (!top_filter(&top, call->argc, call->argv))
		return STATUS_USAGE;
	const int status = is_batch(call) ? batch(&top) : live(&top);
	top_ask_free(&top.ask);
	json_decref(top.filter);
	return status;
}
