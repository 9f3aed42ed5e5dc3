/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {
	[FINDING_OK] = "ok",
	[FINDING_WARNING] = "warning",
	[FINDING_PROBLEM] = "problem",
};

void findings_open(struct findings *findings)
{
	*findings = (struct findings){ .list = json_array(), .subject = "" };
}

void findings_close(struct findings *findings)
{
	json_decref(findings->list);
}

void findings_add(struct findings *findings, enum finding_level level, const char *format, ...)
{
	va_list args;
	char *text = NULL, *advice = NULL;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		return;
	advice = strchr(text, '\n');
	if (advice)
		*advice++ = '\0';
	json_array_append_new(findings->list,
			      json_pack("{s:s, s:s, s:s, s:s?}", "check", findings->subject,
					"level", level_names[level], "text", text, "advice",
					advice));
	free(text);
}

static const char *text_of(const json_t *finding, const char *key)
{
	return json_string_value(json_object_get(finding, key));
}

size_t findings_count(const struct findings *findings, enum finding_level level)
{
	size_t n = 0, i;
	json_t *finding;
	json_array_foreach(findings->list, i, finding)
	{
		n += !strcmp(text_of(finding, "level"), level_names[level]);
	}
	return n;
}

void findings_print(const struct findings *findings)
{
	size_t i;
	json_t *finding;
	json_array_foreach(findings->list, i, finding)
	{
		const char *advice = text_of(finding, "advice");
		printf("%s: %s%s%s\n", text_of(finding, "level"), text_of(finding, "text"),
		       advice ? "; " : "", advice ? advice : "");
	}
}
