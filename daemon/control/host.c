/* SPDX-License-Identifier: MIT */
/* Limits, rights and resources of the daemon on this host, which only the daemon itself can
 * tell. */
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"

/* null: no limit */
static json_t *limit_of(__rlimit_resource_t resource)
{
	struct rlimit limit;
	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return json_null();
	return json_integer((json_int_t)limit.rlim_cur);
}

static json_t *netns_cookie(void)
{
	uint64_t cookie;
	return rdv_netns_cookie(&cookie) == 0 ? json_integer((json_int_t)cookie) : json_null();
}

static void add_missing(void *arg, const char *name, const char *error)
{
	json_array_append_new(arg, json_pack("{s:s, s:o}", "name", name, "error",
					     *error ? json_string(error) : json_null()));
}

/* null: the guard is not wanted. Errors are null if it is in force. */
static json_t *egress_guard(const struct control *control)
{
	struct egress_view view;
	json_t *object;
	egress_get_view(control->egress, &view);
	if (!view.wanted)
		return json_null();
	object = json_object();
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		json_object_set_new(object, i == EGRESS_ROCE ? "roce_error" : "clc_error",
				    control_json_text(view.errors[i]));
	return object;
}

/* With what tools compare to find out whether they see the same file. */
static json_t *config_file(const struct config *config)
{
	const struct config_main_file *file = &config->main;
	json_t *object = json_pack("{s:s?, s:b, s:b}", "path", file->path, "named", file->named,
				   "read", file->read);
	if (file->read) {
		json_object_set_new(object, "device", json_integer((json_int_t)file->device));
		json_object_set_new(object, "inode", json_integer((json_int_t)file->inode));
		json_object_set_new(object, "changed_us", json_integer(file->changed_us));
	}
	return object;
}

json_t *control_show_host(struct control *control, struct page *page, struct refusal *refusal)
{
	(void)page;
	(void)refusal;
	json_t *missing = json_array();
	if (control->rnics)
		rnics_each_missing(control->rnics, add_missing, missing);
	return json_pack("{s:o, s:I, s:o, s:o, s:b, s:o, s:o, s:o}", "netns_cookie", netns_cookie(),
			 "uid", (json_int_t)geteuid(), "descriptors_max", limit_of(RLIMIT_NOFILE),
			 "locked_memory_max_bytes", limit_of(RLIMIT_MEMLOCK), "locks_memory",
			 !fabric_can_share(control->fabric), "missing_rnics", missing,
			 "egress_guard", egress_guard(control), "config_file",
			 config_file(control->config));
}
