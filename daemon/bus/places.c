/* SPDX-License-Identifier: MIT */
/*
 * Objects by their paths. All objects of a class come from the loop in the parts of a view, so that
 * no turn of the loop is long.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"

bool places_add(struct place **places, enum form_class class, const char *path, json_t *row)
{
	const size_t size = strlen(path) + 1;
	struct place *place = calloc(1, sizeof(*place) + size);
	if (!place)
		return false;
	place->class = class;
	place->row = json_incref(row);
	memcpy(place->path, path, size);
	HASH_ADD_STR(*places, path, place);
	return true;
}

struct place *places_find(struct place *places, const char *path)
{
	struct place *place;
	HASH_FIND_STR(places, path, place);
	return place;
}

void places_remove(struct place **places, struct place *place)
{
	HASH_DEL(*places, place);
	json_decref(place->row);
	free(place);
}

void places_clear(struct place **places)
{
	struct place *place, *next;
	HASH_ITER (hh, *places, place, next)
		places_remove(places, place);
}

/* An object that is shown in two parts is kept once. */
static bool add_row(struct place **places, enum form_class class, json_t *row)
{
	char path[BUS_PATH_LEN];
	objects_path(class, row, path);
	struct place *before = places_find(*places, path);
	if (before)
		places_remove(places, before);
	return !*path || places_add(places, class, path, row);
}

/* What is shown of the manager is no list. */
static bool add_rows(struct place **places, enum form_class class, json_t *rows)
{
	if (json_is_object(rows))
		return add_row(places, class, rows);
	for (size_t i = 0; i < json_array_size(rows); i++)
		if (!add_row(places, class, json_array_get(rows, i)))
			return false;
	return true;
}

bool places_look(struct bus_thread *thread, enum form_class class, struct place **places)
{
	const char *method = objects_method(class);
	char next[BUS_PLACE_LEN] = "";
	size_t num = 0;
	bool good;
	do {
		json_t *params = *next ? json_pack("{s:s}", "after", next) : NULL;
		json_t *rows = thread_look(thread, method, params, next);
		good = rows && add_rows(places, class, rows);
		num += json_array_size(rows);
		json_decref(rows);
	} while (good && *next && num < BUS_MAX_OBJECTS);
	return good;
}
