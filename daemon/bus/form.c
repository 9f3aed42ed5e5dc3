/* SPDX-License-Identifier: MIT */
#include "daemon/bus/form.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The parameters that name an object of a class, and the methods that such objects have. */
static const struct naming {
	const char *word;      /* first word in names of its methods */
	const char *params[2]; /* that name the object */
	bool own_word;         /* other methods use these parameters differently */
} namings[NUM_FORM_CLASSES] = {
	[FORM_DEVICE] = { "device", { "name" }, true },
	[FORM_LINKGROUP] = { "linkgroup", { "linkgroup" } },
	[FORM_LINK] = { "link", { "linkgroup", "link" } },
};

void form_camel(const char *name, char ret_camel[FORM_NAME_LEN])
{
	size_t at = 0;
	bool begins = true;
	for (; *name && at < FORM_NAME_LEN - 1; name++) {
		if (!isalnum((unsigned char)*name)) {
			begins = true;
			continue;
		}
		ret_camel[at++] = (char)(begins ? toupper((unsigned char)*name) : *name);
		begins = false;
	}
	ret_camel[at] = '\0';
}

char form_type(const struct control_param *param)
{
	switch (param->type) {
	case CONTROL_TEXT: return 's';
	case CONTROL_TRUTH: return 'b';
	case CONTROL_NUMBER: break;
	}
	if (param->max <= UINT8_MAX)
		return 'y';
	return param->max <= UINT16_MAX ? 'q' : 'u';
}

static unsigned int bit_of(const char *name)
{
	struct control_param param;
	for (unsigned int i = 0; control_param(i, &param); i++)
		if (!strcmp(param.name, name))
			return 1u << i;
	return 0;
}

static unsigned int bits_of(const struct naming *naming)
{
	unsigned int bits = 0;
	for (size_t i = 0; i < 2 && naming->params[i]; i++)
		bits |= bit_of(naming->params[i]);
	return bits;
}

static bool has_word(const struct control_method *method, const char *word)
{
	size_t len = strlen(word);
	return !strncmp(method->name, word, len) && method->name[len] == '.';
}

/* A method that adds an object is not one of that object. */
static bool adds(const struct control_method *method, const char *word)
{
	return has_word(method, word) && !strcmp(method->name + strlen(word), ".add");
}

static bool names(const struct control_method *method, enum form_class class)
{
	const struct naming *naming = &namings[class];
	unsigned int bits = bits_of(naming);
	return bits && !adds(method, naming->word) && (method->required & bits) == bits &&
	       (!naming->own_word || has_word(method, naming->word));
}

/* A link is named with its group; the method belongs to the link. */
static enum form_class class_of(const struct control_method *method)
{
	enum form_class class = NUM_FORM_CLASSES;
	while (--class > FORM_MANAGER)
		if (names(method, class))
			break;
	return class;
}

static void put_member(const struct control_method *method, enum form_class class,
		       char ret_member[FORM_NAME_LEN])
{
	const char *dot = strchr(method->name, '.');
	char both[FORM_NAME_LEN];
	if (!dot)
		snprintf(both, sizeof(both), "%s", method->name);
	else if (class != FORM_MANAGER && has_word(method, namings[class].word))
		snprintf(both, sizeof(both), "%s", dot + 1);
	else
		snprintf(both, sizeof(both), "%s.%.*s", dot + 1, (int)(dot - method->name),
			 method->name);
	form_camel(both, ret_member);
}

/* Append an argument to the signature and to the names. */
struct writer {
	char *signature;
	size_t signed_len;
	char *names;
	size_t named_len;
};

static void put(struct writer *writer, const char *type, const char *name)
{
	size_t type_len = strlen(type), name_len = strlen(name) + 1;
	if (writer->signed_len + type_len >= FORM_SIGN_LEN ||
	    writer->named_len + name_len >= FORM_NAMES_LEN)
		return; /* no method has so many arguments */
	memcpy(writer->signature + writer->signed_len, type, type_len + 1);
	writer->signed_len += type_len;
	memcpy(writer->names + writer->named_len, name, name_len);
	writer->named_len += name_len;
}

static void put_arguments(struct form *form, struct writer *writer)
{
	struct control_param param;
	for (unsigned int i = 0; control_param(i, &param); i++) {
		const char type[] = { form_type(&param), '\0' };
		if (form->arguments & 1u << i)
			put(writer, type, param.name);
	}
	if (form->options)
		put(writer, "a{sv}", "options");
}

static void put_results(struct form *form, struct writer *writer)
{
	writer->signature = form->out;
	writer->signed_len = 0;
	switch (form->method.result) {
	case CONTROL_OBJECT: put(writer, "a{sv}", "result"); break;
	case CONTROL_ROWS: put(writer, "aa{sv}", "rows"); break;
	case CONTROL_OUTCOME:
		put(writer, "s", "text");
		put(writer, "a{sv}", "details");
		break;
	}
	if (form->parts)
		put(writer, "s", "next");
}

bool form_make(const struct control_method *method, enum form_class class, struct form *ret_form)
{
	struct form form = { .method = *method };
	struct writer writer = { .signature = form.in, .names = form.names };
	if (method->session || (class != FORM_MANAGER && class_of(method) != class))
		return false;
	form.bound = class == FORM_MANAGER ? 0 : bits_of(&namings[class]);
	form.arguments = method->required & ~form.bound;
	form.options = method->optional != 0;
	form.parts = method->result != CONTROL_OUTCOME && method->optional & bit_of("after");
	put_member(method, class, form.member);
	put_arguments(&form, &writer);
	put_results(&form, &writer);
	*ret_form = form;
	return true;
}
