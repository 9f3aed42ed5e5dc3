/* SPDX-License-Identifier: MIT */
/* RNICs at run time: adding and removing them, and taking them out of use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/host/words.h"
#include "daemon/rnic/verbs.h"
#include "daemon/smcr/view.h"

/* ---- as the key rnic of the files ---- */

static json_t *sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_t *sentence(const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	words_mend(text);
	return json_pack("{s:s}", "text", text);
}

static json_t *refuse_name(struct refusal *refusal, int error, const char *code, const char *text)
{
	refusal->parameter = "name";
	return refuse(refusal, error, code, "%s", text);
}

/* Is the note, "rnic NAME: ...", about the RNIC with that name? Others may begin with it. */
static bool is_about(const char *note, const char *name)
{
	const char *at = strstr(note, name);
	while (at && at[strlen(name)] != ':')
		at = strstr(at + 1, name);
	return at != NULL;
}

/* The note about that RNIC; others may be about other RNICs. Some name the port, some do not. */
static const char *said_of(const struct config_notes *notes, const char *name)
{
	char full[RNIC_NAME_LEN];
	rnic_verbs_full_name(name, full);
	for (size_t i = 0; i < config_notes_kept(notes); i++) {
		const char *note = config_note_text(notes, i);
		if (is_about(note, name) || is_about(note, full))
			return note;
	}
	return NULL;
}

/* @param error  of config_with_rnic(); 0: the RNIC cannot be used */
static const char *code_of(int error)
{
	switch (error) {
	case -EINVAL: return "bad-parameter";
	case -EEXIST: return "exists";
	case -ENOSPC: return "full";
	case -ENOENT: return "not-found";
	case -ENOMEM: return "no-memory";
	default: return "failed";
	}
}

static json_t *set(struct control *control, const char *name, bool wanted, struct refusal *refusal)
{
	struct config_notes errors = { .num = 0 }, notes = { .num = 0 };
	struct config next;
	json_t *result = NULL;
	int error = config_with_rnic(control->config, name, wanted, &next, &errors);
	if (!error) {
		control->set_rnics(control->ctx, &next, &errors, &notes);
		config_free(&next);
	}
	if (errors.num)
		refuse_name(refusal, error ? -error : EIO, code_of(error),
			    config_note_text(&errors, 0));
	else if (said_of(&notes, name))
		result = sentence("%s", said_of(&notes, name));
	else
		result = sentence("rnic %s is %s, until the configuration is read again", name,
				  wanted ? "in use" : "not in use any more");
	config_notes_free(&errors);
	config_notes_free(&notes);
	return result;
}

json_t *device_add(struct control *control, const struct params *params, struct refusal *refusal)
{
	return set(control, params->name, true, refusal);
}

json_t *device_remove(struct control *control, const struct params *params, struct refusal *refusal)
{
	return set(control, params->name, false, refusal);
}

/* ---- out of use ---- */

struct count {
	char name[RNIC_NAME_LEN]; /* with the port */
	unsigned int links;
};

static void count_link(void *arg, const struct smcr_link_view *view)
{
	struct count *count = arg;
	count->links += !strcmp(view->device_name, count->name);
}

/* @return false: refused */
static bool set_drained(struct control *control, const char *name, bool drained,
			struct refusal *refusal)
{
	int error = control->rnics ? rnics_drain(control->rnics, name, drained) : -ENODEV;
	if (error == -EPERM) {
		refusal->parameter = "name";
		refuse(refusal, EBUSY, "busy",
		       "rnic %.60s is not configured, and closed when its links have ended; "
		       "'smcrctl device add' makes it stay",
		       name);
		return false;
	}
	if (error) {
		refusal->parameter = "name";
		refuse(refusal, ENOENT, "not-found",
		       "there is no RNIC '%.60s'; 'smcrctl device' lists them", name);
		return false;
	}
	if (control->rnic_drained)
		control->rnic_drained(control->ctx);
	return true;
}

json_t *device_drain(struct control *control, const struct params *params, struct refusal *refusal)
{
	struct count count = { .links = 0 };
	if (!set_drained(control, params->name, true, refusal))
		return NULL;
	rnic_verbs_full_name(params->name, count.name);
	smcr_engine_each_link(control->engine, count_link, &count);
	if (count.links == 0)
		return sentence("nothing new comes on %s, and no link is on it", count.name);
	if (count.links == 1)
		return sentence("nothing new comes on %s; its link goes if the group has another "
				"one ('smcrctl link' shows what is left)",
				count.name);
	return sentence("nothing new comes on %s; %u links are on it, and those go whose group has "
			"another link ('smcrctl link' shows what is left)",
			count.name, count.links);
}

json_t *device_enable(struct control *control, const struct params *params, struct refusal *refusal)
{
	if (!set_drained(control, params->name, false, refusal))
		return NULL;
	return sentence("%s is used as before", params->name);
}
