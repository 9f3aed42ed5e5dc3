/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <time.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/doctor.h"

#define FILES_A_CONNECTION   3
#define ENOUGH_CONNECTIONS   10000 /* what a user may have by default */
#define SOME_FILES           256   /* sessions, RNICs, BPF */
#define MIB                  (1024 * 1024)
#define LATELY_S             600 /* earlier refusals are no problem, unless memory is short now */
#define SET_MEMORY           "config.set {\"name\":\"memory\"" /* the event's text begins so */
#define NEARLY(used, budget) ((budget) > 0 && (used) >= (budget) / 10 * 9)

/* Is the event a command that may have raised the budget? */
static bool gives_memory(const json_t *event)
{
	const char *text = doctor_text(event, "text");
	return !strcmp(doctor_text(event, "event"), "command") &&
	       (!strncmp(text, "config.reload", strlen("config.reload")) ||
		!strncmp(text, SET_MEMORY, strlen(SET_MEMORY)));
}

/* Has memory run out lately, and has no command raised the budget since? */
static bool ran_out_lately(const struct doctor *doctor)
{
	char error[SESSION_ERROR_LEN];
	json_t *events, *event;
	json_int_t since = ((json_int_t)time(NULL) - LATELY_S) * 1000000;
	bool lately = false;
	size_t i;
	if (ask_smcrd(doctor->socket_path, DOCTOR_PATIENCE_S, "event.show", json_object(), &events,
		      error))
		return true; /* smcrd does not say that memory is enough again */
	json_array_foreach(events, i, event)
	{
		const char *reason = doctor_text(event, "reason");
		if (gives_memory(event))
			lately = false;
		else if (!strcmp(reason, "no-memory") || !strcmp(reason, "rmbe-exhausted"))
			lately = doctor_number(event, "time_us", NULL) >= since;
	}
	json_decref(events);
	return lately;
}

void doctor_memory(struct doctor *doctor)
{
	struct findings *findings = &doctor->findings;
	json_int_t used = doctor_number(doctor->info, "engine", "memory_used_bytes");
	json_int_t budget = doctor_number(doctor->info, "engine", "memory_budget_bytes");
	json_int_t refused = doctor_number(doctor->info, "engine", "memory_refused_total");
	if (!doctor->info)
		return;
	if (refused > 0)
		findings_add(findings,
			     NEARLY(used, budget) || ran_out_lately(doctor) ? FINDING_PROBLEM
									    : FINDING_WARNING,
			     "memory for buffers ran out for %" JSON_INTEGER_FORMAT
			     " connection%s since smcrd was started, which became plain TCP: now "
			     "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
			     " KiB are used\nraise 'memory' in smcrd.conf(5), then 'smcrctl config "
			     "reload'",
			     refused, refused == 1 ? "" : "s", used / 1024, budget / 1024);
	else if (NEARLY(used, budget))
		findings_add(findings, FINDING_WARNING,
			     "memory for buffers is nearly used up: %" JSON_INTEGER_FORMAT
			     " of %" JSON_INTEGER_FORMAT
			     " MiB\nraise 'memory' in smcrd.conf(5), then 'smcrctl config reload'",
			     used / MIB, budget / MIB);
	else
		findings_add(findings, FINDING_OK,
			     "memory for buffers: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
			     " MiB are used",
			     used / MIB, budget / MIB);
}

static void descriptors(struct doctor *doctor)
{
	const json_t *max = json_object_get(doctor->host, "descriptors_max");
	json_int_t files = json_integer_value(max);
	json_int_t conns = files > SOME_FILES ? (files - SOME_FILES) / FILES_A_CONNECTION : 0;
	if (json_is_integer(max) && conns < ENOUGH_CONNECTIONS)
		findings_add(&doctor->findings, FINDING_WARNING,
			     "smcrd may have %" JSON_INTEGER_FORMAT
			     " files open, enough for some %" JSON_INTEGER_FORMAT
			     " connections\nraise LimitNOFILE= of smcrd.service, or 'ulimit -n' "
			     "where it is started otherwise",
			     files, conns);
	else
		findings_add(&doctor->findings, FINDING_OK,
			     "smcrd may have files open for %d connections and more",
			     ENOUGH_CONNECTIONS);
}

static void locked_memory(struct doctor *doctor)
{
	const json_t *max = json_object_get(doctor->host, "locked_memory_max_bytes");
	json_int_t budget = doctor_number(doctor->info, "engine", "memory_budget_bytes");
	json_int_t bytes = json_integer_value(max);
	if (!json_is_true(json_object_get(doctor->host, "locks_memory")))
		return; /* software RNICs lock none */
	if (json_is_integer(max) && bytes < budget)
		findings_add(&doctor->findings, FINDING_WARNING,
			     "smcrd may lock %" JSON_INTEGER_FORMAT
			     " MiB of memory, and its RDMA devices want what 'memory' says, "
			     "%" JSON_INTEGER_FORMAT " MiB\nset LimitMEMLOCK=infinity in "
			     "smcrd.service, or 'ulimit -l unlimited' where it is started "
			     "otherwise",
			     bytes / MIB, budget / MIB);
	else
		findings_add(&doctor->findings, FINDING_OK,
			     "smcrd may lock as much memory as its RDMA devices want");
}

static void users(struct doctor *doctor)
{
	size_t i;
	json_t *limit;
	json_array_foreach(json_object_get(doctor->info, "limits"), i, limit)
	{
		const json_t *uid = json_object_get(limit, "uid");
		if (json_is_integer(uid))
			findings_add(&doctor->findings, FINDING_WARNING,
				     "user %" JSON_INTEGER_FORMAT " is at a limit: %s\nsee "
				     "max_connections_per_user and max_sessions_per_user in "
				     "smcrd.conf(5), and LimitNOFILE= of smcrd.service",
				     json_integer_value(uid), doctor_text(limit, "text"));
		else
			findings_add(&doctor->findings, FINDING_WARNING,
				     "all users together are at a limit: %s\nsee LimitNOFILE= of "
				     "smcrd.service",
				     doctor_text(limit, "text"));
	}
}

void doctor_limits(struct doctor *doctor)
{
	if (doctor->host) {
		descriptors(doctor);
		locked_memory(doctor);
	}
	users(doctor);
}
