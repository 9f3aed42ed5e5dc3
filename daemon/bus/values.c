/* SPDX-License-Identifier: MIT */
#include "daemon/bus/values.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/form.h"
#include "daemon/host/words.h"

/* ---- to the bus ---- */

static int append_variant(sd_bus_message *message, const json_t *value);

/* D-Bus refuses some texts that JSON allows: show them changed. */
static int append_text(sd_bus_message *message, const char *text)
{
	int r = sd_bus_message_append_basic(message, 's', text);
	char *copy = r == -EINVAL ? strdup(text) : NULL;
	if (!copy)
		return r;
	words_mend(copy);
	r = sd_bus_message_append_basic(message, 's', copy);
	free(copy);
	return r;
}

/* Append lists and objects inside others; those of daemon/control are a few levels deep. */
static int append_list(sd_bus_message *message, const json_t *list)
{
	int r = sd_bus_message_open_container(message, 'a', "v");
	for (size_t i = 0; r >= 0 && i < json_array_size(list); i++)
		if (!json_is_null(json_array_get(list, i)))
			r = append_variant(message, json_array_get(list, i));
	return r < 0 ? r : sd_bus_message_close_container(message);
}

static int append_member(sd_bus_message *message, const char *key, const json_t *value)
{
	int r = sd_bus_message_open_container(message, 'e', "sv");
	if (r >= 0)
		r = append_text(message, key);
	if (r >= 0)
		r = append_variant(message, value);
	return r < 0 ? r : sd_bus_message_close_container(message);
}

int values_append_object(sd_bus_message *message, const json_t *object)
{
	const char *key;
	json_t *value;
	int r = sd_bus_message_open_container(message, 'a', "{sv}");
	json_object_foreach((json_t *)object, key, value)
	{
		if (r >= 0 && !json_is_null(value))
			r = append_member(message, key, value);
	}
	return r < 0 ? r : sd_bus_message_close_container(message);
}

static int append_simple(sd_bus_message *message, const char *type, const json_t *value)
{
	int r = sd_bus_message_open_container(message, 'v', type);
	if (r >= 0)
		r = values_append(message, type, value);
	return r < 0 ? r : sd_bus_message_close_container(message);
}

static int append_variant(sd_bus_message *message, const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_STRING: return append_simple(message, "s", value);
	case JSON_INTEGER: return append_simple(message, "x", value);
	case JSON_REAL: return append_simple(message, "d", value);
	case JSON_OBJECT: return append_simple(message, "a{sv}", value);
	case JSON_ARRAY: return append_simple(message, "av", value);
	case JSON_TRUE:
	case JSON_FALSE: return append_simple(message, "b", value);
	case JSON_NULL: break;
	}
	return -EINVAL;
}

int values_append_rows(sd_bus_message *message, const json_t *rows)
{
	int r = sd_bus_message_open_container(message, 'a', "a{sv}");
	for (size_t i = 0; r >= 0 && i < json_array_size(rows); i++)
		r = values_append_object(message, json_array_get(rows, i));
	return r < 0 ? r : sd_bus_message_close_container(message);
}

static int append_texts(sd_bus_message *message, const json_t *list)
{
	int r = sd_bus_message_open_container(message, 'a', "s");
	for (size_t i = 0; r >= 0 && i < json_array_size(list); i++)
		r = values_append(message, "s", json_array_get(list, i));
	return r < 0 ? r : sd_bus_message_close_container(message);
}

static int append_number(sd_bus_message *message, char type, json_int_t number)
{
	const uint64_t u64 = (uint64_t)number;
	const uint32_t u32 = (uint32_t)number;
	const uint8_t u8 = (uint8_t)number;
	switch (type) {
	case 'y': return sd_bus_message_append_basic(message, type, &u8);
	case 'u': return sd_bus_message_append_basic(message, type, &u32);
	default: return sd_bus_message_append_basic(message, type, &u64); /* t, x */
	}
}

int values_append(sd_bus_message *message, const char *type, const json_t *value)
{
	const char *text = json_string_value(value);
	const double real = json_real_value(value);
	const int truth = json_is_true(value);
	if (!strcmp(type, "a{sv}"))
		return values_append_object(message, value);
	if (!strcmp(type, "av"))
		return append_list(message, value);
	if (!strcmp(type, "as"))
		return append_texts(message, value);
	switch (*type) {
	case 's': return append_text(message, text ? text : "");
	case 'b': return sd_bus_message_append_basic(message, 'b', &truth);
	case 'd': return sd_bus_message_append_basic(message, 'd', &real);
	default: return append_number(message, *type, json_integer_value(value));
	}
}

/* ---- from the bus ---- */

static int read_text(sd_bus_message *message, json_t **ret_value)
{
	const char *text;
	int r = sd_bus_message_read_basic(message, 's', &text);
	if (r < 0)
		return r;
	if (strlen(text) > VALUES_MAX_TEXT_LEN)
		return -E2BIG;
	*ret_value = json_string(text);
	return *ret_value ? 0 : -EINVAL; /* D-Bus allows texts that JSON refuses */
}

static int read_truth(sd_bus_message *message, json_t **ret_value)
{
	int truth;
	int r = sd_bus_message_read_basic(message, 'b', &truth);
	if (r >= 0)
		*ret_value = json_boolean(truth);
	return r < 0 ? r : 0;
}

/* Whole numbers as in JSON. @return -EINVAL: no type of whole numbers */
static int whole_number(char type, const void *value, json_int_t *ret_number)
{
	switch (type) {
	case 'y': *ret_number = *(const uint8_t *)value; return 0;
	case 'n': *ret_number = *(const int16_t *)value; return 0;
	case 'q': *ret_number = *(const uint16_t *)value; return 0;
	case 'i': *ret_number = *(const int32_t *)value; return 0;
	case 'u': *ret_number = *(const uint32_t *)value; return 0;
	case 'x': *ret_number = *(const int64_t *)value; return 0;
	case 't':
		*ret_number = (json_int_t) * (const uint64_t *)value;
		return *ret_number < 0 ? -EINVAL : 0;
	default: return -EINVAL;
	}
}

static int read_number(sd_bus_message *message, char type, json_t **ret_value)
{
	uint64_t value = 0; /* has room for any of the types */
	json_int_t number;
	if (!strchr("ynqiuxt", type))
		return -EINVAL;
	int r = sd_bus_message_read_basic(message, type, &value);
	if (r >= 0)
		r = whole_number(type, &value, &number);
	if (r < 0)
		return r;
	*ret_value = json_integer(number);
	return *ret_value ? 0 : -ENOMEM;
}

int values_read(sd_bus_message *message, char type, json_t **ret_value)
{
	switch (type) {
	case 's': return read_text(message, ret_value);
	case 'b': return read_truth(message, ret_value);
	default: return read_number(message, type, ret_value);
	}
}

static int read_variant(sd_bus_message *message, json_t **ret_value)
{
	char type;
	const char *contents;
	int r = sd_bus_message_peek_type(message, &type, &contents);
	if (r < 0)
		return r;
	if (!contents || strlen(contents) != 1)
		return -EINVAL;
	type = *contents;
	r = sd_bus_message_enter_container(message, 'v', (const char[]){ type, '\0' });
	if (r >= 0)
		r = values_read(message, type, ret_value);
	if (r < 0)
		return r;
	r = sd_bus_message_exit_container(message);
	if (r < 0)
		json_decref(*ret_value);
	return r < 0 ? r : 0;
}

static int refuse(sd_bus_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(sd_bus_error *error, const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	words_mend(text); /* the caller's text may be cut */
	return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, text);
}

static int read_member(sd_bus_message *message, json_t *object, sd_bus_error *error)
{
	const char *key;
	json_t *value;
	int r = sd_bus_message_read_basic(message, 's', &key);
	if (r < 0)
		return r;
	if (strnlen(key, FORM_NAME_LEN) == FORM_NAME_LEN)
		return refuse(error, "the name of an option is longer than %d bytes",
			      FORM_NAME_LEN - 1);
	if (json_object_size(object) >= VALUES_MAX_OPTIONS)
		return refuse(error, "no method has more than %d options", VALUES_MAX_OPTIONS);
	if (json_object_get(object, key))
		return refuse(error, "option \"%.64s\" is there twice", key);
	r = read_variant(message, &value);
	if (r == -E2BIG)
		return refuse(error, "option \"%.64s\" is longer than %d bytes", key,
			      VALUES_MAX_TEXT_LEN);
	if (r < 0)
		return refuse(error, "option \"%.64s\" is no text, whole number, true or false",
			      key);
	return json_object_set_new(object, key, value) < 0 ? refuse(error, "a name is no text") : 0;
}

int values_read_options(sd_bus_message *message, json_t *object, sd_bus_error *error)
{
	int r = sd_bus_message_enter_container(message, 'a', "{sv}");
	while (r >= 0) {
		r = sd_bus_message_enter_container(message, 'e', "sv");
		if (r == 0)
			return sd_bus_message_exit_container(message);
		if (r > 0)
			r = read_member(message, object, error);
		if (r >= 0)
			r = sd_bus_message_exit_container(message);
	}
	return r;
}
