/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/doctor.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/smcrctl/rules.h"
#include "cli/smcrctl/tools.h"
#include "cli/smcrctl/words.h"

/* In the order of the output: the most important checks come first. */
static const struct {
	const char *name;
	void (*look)(struct doctor *doctor);
} checks[] = {
	{ "daemon", doctor_daemon },        { "namespace", doctor_namespace },
	{ "kernel", doctor_kernel },        { "tcp-option", doctor_option },
	{ "bpf-programs", doctor_foreign }, { "rnics", doctor_rnics },
	{ "memory", doctor_memory },        { "limits", doctor_limits },
	{ "firewall", doctor_firewall },    { "subnets", doctor_subnets },
	{ "configuration", doctor_config }, { "config-file", doctor_config_file },
	{ "peers", doctor_peers },          { "links", doctor_links },
	{ "smb-direct", doctor_smbdirect }, { "guard", doctor_guard },
	{ "programs", doctor_programs },    { "system-bus", doctor_bus },
};

json_int_t doctor_number(const json_t *object, const char *key, const char *inner)
{
	const json_t *value = json_object_get(object, key);
	return json_integer_value(inner ? json_object_get(value, inner) : value);
}

const char *doctor_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

const struct interface *doctor_interface_of(const struct doctor *doctor, const json_t *device)
{
	return doctor->elsewhere
		       ? NULL
		       : interfaces_find(&doctor->interfaces, doctor_text(device, "netdev"));
}

int doctor_run(const struct tool_call *call)
{
	struct doctor doctor = { .socket_path = call->socket_path, .root = geteuid() == 0 };
	if (call->argc > 0) {
		words_refuse("doctor takes no argument; '%s' is one", call->argv[0]);
		return STATUS_USAGE;
	}
	if (call->rules)
		return rules_run(call);
	findings_open(&doctor.findings);
	interfaces_read(&doctor.interfaces);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		doctor.findings.subject = checks[i].name;
		checks[i].look(&doctor);
	}
	if (call->output->json)
		output_json(call->output, "doctor", doctor.findings.list);
	else
		findings_print(&doctor.findings);
	size_t problems = findings_count(&doctor.findings, FINDING_PROBLEM);
	json_decref(doctor.info);
	json_decref(doctor.host);
	json_decref(doctor.devices);
	findings_close(&doctor.findings);
	return problems ? STATUS_FAILED : STATUS_DONE;
}
