/* SPDX-License-Identifier: MIT */
#include "tests/lib/controlfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/log.h"

int controlfix_setup(void **state)
{
	struct controlfix *fix = calloc(1, sizeof(*fix));
	const struct config_source source = { .path = "/dev/null" };
	struct config_notes errors = { .num = 0 };
	if (!fix || config_load(&source, &fix->config, &errors) < 0)
		return -1;
	fix->base = event_base_new();
	const struct fabric_params params = { .base = fix->base };
	fix->control = (struct control){ .config = &fix->config,
					 .base = fix->base,
					 .option_error = "not here",
					 .started = fabric_now() };
	if (fabric_new(&params, &fix->control.fabric) < 0)
		return -1;
	fix->pair = pair_grouped(2, &fix->conn);
	fix->control.engine = fix->pair->side[PAIR_SERVER].engine;
	log_open(-1, false);
	*state = fix;
	return 0;
}

int controlfix_teardown(void **state)
{
	struct controlfix *fix = *state;
	control_close(&fix->control);
	pair_free(fix->pair);
	fabric_free(fix->control.fabric);
	config_free(&fix->config);
	event_base_free(fix->base);
	free(fix);
	return 0;
}

json_t *controlfix_ask(struct controlfix *fix, bool root, const char *method)
{
	const struct clients_asker asker = { .request = 1, .cred = { .uid = root ? 0 : 65534 } };
	char request[128], *text = NULL;
	int len = snprintf(request, sizeof(request), "{\"method\":\"%s\"}", method);
	assert_int_equal(control_handle(&fix->control, &asker, request, (size_t)len, &text), 0);
	json_t *reply = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(reply);
	return reply;
}

json_int_t controlfix_number(const json_t *result, const char *path)
{
	char copy[128], *save = NULL;
	const json_t *value = result;
	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key = strtok_r(copy, ".", &save); key; key = strtok_r(NULL, ".", &save))
		value = json_object_get(value, key);
	if (!json_is_integer(value))
		fail_msg("%s is no number", path);
	return json_integer_value(value);
}
