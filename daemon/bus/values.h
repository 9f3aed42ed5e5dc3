/* SPDX-License-Identifier: MIT */
/**
 * @file values.h
 * JSON as values of D-Bus, and back. Without a type of their own whole numbers are x, texts s, true
 * and false b, other numbers d, lists av and objects a{sv}; what is null is left out. A text that
 * D-Bus would refuse goes as words_mend() makes it.
 *
 * Functions return 0 or a negative errno, of sd-bus mostly.
 */
#ifndef SMCRD_BUS_VALUES_H
#define SMCRD_BUS_VALUES_H

#include <jansson.h>
#include <systemd/sd-bus.h>

#define VALUES_MAX_OPTIONS  32
#define VALUES_MAX_TEXT_LEN 4096 /* of a text that somebody sends */

/** An object as a{sv}. */
int values_append_object(sd_bus_message *message, const json_t *object);
/** A list of objects as aa{sv}. */
int values_append_rows(sd_bus_message *message, const json_t *rows);
/** Whatever `value` is, as the type: s, u, t, y, b, as or a{sv}. What is unknown (null, NULL) is
 *  empty, 0 or false. */
int values_append(sd_bus_message *message, const char *type, const json_t *value);

/**
 * Read one argument.
 * @param type  s, b, or one of whole numbers
 * @return 0; -E2BIG: longer than any; -EINVAL: of another type
 */
int values_read(sd_bus_message *message, char type, json_t **ret_value);
/**
 * Read a{sv} into an object; values of simple types only. No name has FORM_NAME_LEN bytes or more,
 * and it ends at the first thing that is wrong.
 * @param error  set on failure
 */
int values_read_options(sd_bus_message *message, json_t *object, sd_bus_error *error);

#endif
