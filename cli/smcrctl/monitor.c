/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/smcrctl/interrupt.h"
#include "cli/smcrctl/objects.h"
#include "cli/smcrctl/pages.h"

#define PLACE "event:"

/* "event:12" */
static void keep_place(const json_t *reply, char place[PAGES_PLACE_LEN])
{
	const char *next = pages_next(reply);
	if (next)
		snprintf(place, PAGES_PLACE_LEN, "%s", next);
}

static unsigned long long id_of(const char *place)
{
	unsigned long long id = 0;
	sscanf(place, PLACE "%llu", &id);
	return id;
}

/* Makes the place so many events earlier. */
static void go_back(char place[PAGES_PLACE_LEN], unsigned int events)
{
	unsigned long long id = id_of(place);
	snprintf(place, PAGES_PLACE_LEN, PLACE "%llu", id > events ? id - events : 0);
}

static void print_event(const json_t *event, const struct output *output)
{
	if (output->json)
		output_json(output, "event", event);
	else
		event_print_line(event, output->details);
}

static void print_lost(json_int_t lost, const struct output *output)
{
	json_t *number = json_integer(lost);
	if (output->json)
		output_json(output, "lost", number);
	else
		printf("%" JSON_INTEGER_FORMAT " event%s came faster than smcrctl could print, and "
		       "smcrd does not have %s any more\n",
		       lost, lost == 1 ? "" : "s", lost == 1 ? "it" : "them");
	json_decref(number);
}

/* Each line is flushed at once. @return 0 or -1 */
static int print_result(const json_t *result, bool tell_lost, const struct output *output)
{
	json_int_t lost = json_integer_value(json_object_get(result, "lost"));
	const json_t *events = json_object_get(result, "events"), *event;
	int failed = 0;
	if (tell_lost && lost > 0) {
		interrupt_hold();
		print_lost(lost, output);
		failed = interrupt_release();
	}
	for (size_t i = 0; !failed && (event = json_array_get(events, i)); i++) {
		interrupt_hold();
		print_event(event, output);
		failed = interrupt_release();
	}
	return failed;
}

/* @return -1 to go on, or an exit status */
static int take(const json_t *reply, bool tell_lost, const struct output *output)
{
	const json_t *error = json_object_get(reply, "error");
	const json_t *result = json_object_get(reply, "result");
	if (error)
		return output_refusal(output, error);
	if (!json_is_object(result) || !pages_next(reply))
		return output_error(output, STATUS_FAILED, "bad-reply",
				    "smcrd's reply has no events");
	return print_result(result, tell_lost, output) ? STATUS_FAILED : -1;
}

int monitor_run(struct session *session, const char *request, unsigned int before,
		const struct output *output)
{
	char text[SESSION_ERROR_LEN], place[PAGES_PLACE_LEN] = "";
	unsigned long long begun = 0;
	int status = -1;
	interrupt_is_the_end();
	while (status < 0) {
		json_t *reply;
		bool first = !*place;
		int error = pages_ask(session, request, first ? NULL : place, &reply, text);
		if (error == -ECANCELED)
			interrupt_without_reader();
		if (error)
			return output_failure(output, error, text);
		/* Events of the time before that smcrd no longer has do not count as lost. */
		status = take(reply, !first && id_of(place) >= begun, output);
		keep_place(reply, place);
		json_decref(reply);
		if (!first)
			continue;
		/* smcrd has answered at once; it answers the next requests when events come. */
		session->for_reader = true;
		begun = id_of(place);
		go_back(place, before);
	}
	return status;
}
