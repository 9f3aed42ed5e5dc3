/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int ask(struct session *session, const char *request, json_t **ret_reply,
	       char ret_error[SESSION_ERROR_LEN])
{
	char *raw;
	int error = session_request(session, request, &raw, ret_error);
	if (error)
		return error;
	*ret_reply = json_loads(raw, 0, NULL);
	free(raw);
	if (*ret_reply)
		return 0;
	snprintf(ret_error, SESSION_ERROR_LEN, "smcrd's reply is not JSON");
	return -EBADMSG;
}

int pages_ask(struct session *session, const char *request, const char *after, json_t **ret_reply,
	      char ret_error[SESSION_ERROR_LEN])
{
	if (!after)
		return ask(session, request, ret_reply, ret_error);
	json_t *json = json_loads(request, 0, NULL);
	json_object_set_new(json_object_get(json, "params"), "after", json_string(after));
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (!text) {
		snprintf(ret_error, SESSION_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	int error = ask(session, text, ret_reply, ret_error);
	free(text);
	return error;
}

const char *pages_next(const json_t *reply)
{
	return json_string_value(json_object_get(reply, "next"));
}

/* ---- one result of several parts ---- */

#define KEY_LEN 24

/* @return false: rows of this kind have no ids */
static bool key_of(const json_t *row, char ret_key[KEY_LEN])
{
	const json_t *id = json_object_get(row, "id");
	snprintf(ret_key, KEY_LEN, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
	return json_is_integer(id);
}

/* `places` has the index of each row, by the row's id. */
static void note_place(json_t *places, const json_t *row, size_t place)
{
	char key[KEY_LEN];
	if (key_of(row, key))
		json_object_set_new(places, key, json_integer((json_int_t)place));
}

static bool find_place(const json_t *places, const json_t *row, size_t *ret_place)
{
	char key[KEY_LEN];
	const json_t *place = key_of(row, key) ? json_object_get(places, key) : NULL;
	*ret_place = (size_t)json_integer_value(place);
	return place;
}

/* A row that has changed between two parts is in both of them; the later one is right. */
static void add_rows(json_t *rows, const json_t *more, json_t *places)
{
	size_t i, place;
	json_t *row;
	json_array_foreach(more, i, row)
	{
		if (find_place(places, row, &place)) {
			json_array_set(rows, place, row);
			continue;
		}
		note_place(places, row, json_array_size(rows));
		json_array_append(rows, row);
	}
}

/* A result is a list, or an object with lists in it. */
static void add_part(json_t *result, const json_t *part, json_t *places)
{
	const char *key;
	json_t *value;
	if (json_is_array(result)) {
		add_rows(result, part, places);
		return;
	}
	json_object_foreach((json_t *)part, key, value)
	{
		json_t *rows = json_object_get(result, key);
		if (json_is_array(rows) && json_is_array(value))
			add_rows(rows, value, json_object_get(places, key));
	}
}

/* Of a result that is an object: the places of each of its lists, by the list's key. */
static json_t *places_of(const json_t *result)
{
	json_t *places = json_object(), *row;
	const char *key;
	size_t i;
	json_object_foreach((json_t *)result, key, row)
	{
		json_object_set_new(places, key, places_of(row));
	}
	json_array_foreach(result, i, row)
	{
		note_place(places, row, i);
	}
	return places;
}

int pages_request(struct session *session, const char *request, json_t **ret_reply,
		  char ret_error[SESSION_ERROR_LEN])
{
	json_t *whole, *part = NULL;
	int error = ask(session, request, &whole, ret_error);
	if (error)
		return error;
	json_t *result = json_object_get(whole, "result");
	json_t *places = pages_next(whole) ? places_of(result) : NULL;
	const json_t *last = whole;
	while (!error && pages_next(last)) {
		json_t *next;
		error = pages_ask(session, request, pages_next(last), &next, ret_error);
		if (error)
			break;
		json_decref(part);
		last = part = next;
		if (json_object_get(part, "error")) {
			json_decref(whole);
			whole = json_incref(part);
			break;
		}
		add_part(result, json_object_get(part, "result"), places);
	}
	json_decref(part);
	json_decref(places);
	if (error)
		json_decref(whole);
	else
		*ret_reply = whole;
	return error;
}
