/* SPDX-License-Identifier: MIT */
/**
 * @file values.h
 * Converts JSON to values of D-Bus, and back. If no type is given, whole numbers become x, texts s,
 * true and false b, other numbers d, lists av and objects a{sv}; null members are left out. A text
 * that D-Bus would refuse is changed by words_mend().
 *
 * Functions return 0 or a negative errno, mostly one of sd-bus.
 */
#ifndef SMCRD_BUS_VALUES_H
#define SMCRD_BUS_VALUES_H

#include <jansson.h>
#include <systemd/sd-bus.h>

#define VALUES_MAX_OPTIONS  32
#define VALUES_MAX_TEXT_LEN 4096 /* of a text that a caller sends */

/** Append an object as a{sv}. */
int values_append_object(sd_bus_message *message, const json_t *object);
/** Append a list of objects as aa{sv}. */
int values_append_rows(sd_bus_message *message, const json_t *rows);
/** Append `value` as a type: s, u, t, y, b, as or a{sv}. An unknown value (null, NULL) becomes
 * empty, 0 or false. */
int values_append(sd_bus_message *message, const char *type, const json_t *value);

/**
 * Read one argument.
 * @param type  s, b, or a type of whole numbers
 * @return 0; -E2BIG: the text is too long; -EINVAL: the argument has another type
 */
int values_read(sd_bus_message *message, char type, json_t **ret_value);
/**
 * Read a{sv} into an object; values of simple types only. Names must be shorter than FORM_NAME_LEN.
 * Reading stops at the first error.
 * @param error  set on failure
 */
int values_read_options(sd_bus_message *message, json_t *object, sd_bus_error *error);

#endif
