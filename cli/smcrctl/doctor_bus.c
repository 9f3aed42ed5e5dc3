/* SPDX-License-Identifier: MIT */
/* The system bus: connections do not need it, but programs that ask smcrd by it get no answer. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/smcrctl/doctor.h"

#define POLICY "dbus-1/system.d/org.smcrd.conf"

/* The policy file where the bus looks for it; NULL: there is none. */
static const char *policy_of_bus(void)
{
	static const char *const places[] = { "/etc/" POLICY, "/usr/share/" POLICY };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (access(places[i], F_OK) == 0)
			return places[i];
	return NULL;
}

/* The policy file of this installation, whose programs are in PREFIX/bin. @return false: it has
 * none */
static bool own_policy(char ret_path[PATH_MAX])
{
	char path[PATH_MAX] = "";
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	for (int i = 0; i < 2; i++) {
		char *slash = len > 0 ? strrchr(path, '/') : NULL;
		if (!slash)
			return false;
		*slash = '\0';
	}
	if ((size_t)snprintf(ret_path, PATH_MAX, "%s/share/" POLICY, path) >= PATH_MAX)
		return false;
	return access(ret_path, F_OK) == 0;
}

static void add_refusal(struct findings *findings)
{
	static const char text[] =
		"the system bus refuses smcrd the name org.smcrd: programs cannot ask smcrd by it";
	char own[PATH_MAX];
	const char *policy = policy_of_bus();
	if (policy)
		findings_add(
			findings, FINDING_WARNING,
			"%s\n%s would allow it: have the bus read it, 'systemctl reload dbus'; "
			"smcrd tries again within a minute",
			text, policy);
	else if (own_policy(own))
		findings_add(findings, FINDING_WARNING,
			     "%s\nthe bus looks for the policy in /etc and /usr/share only: cp %s "
			     "/etc/dbus-1/system.d/; smcrd tries again within a minute",
			     text, own);
	else
		findings_add(findings, FINDING_WARNING,
			     "%s\nput the policy, etc/dbus/org.smcrd.conf of its source, into "
			     "/etc/dbus-1/system.d; smcrd tries again within a minute",
			     text);
}

void doctor_bus(struct doctor *doctor)
{
	const char *state = doctor_text(doctor->info, "dbus");
	if (!strcmp(state, "refused"))
		add_refusal(&doctor->findings);
	else if (!strcmp(state, "waits"))
		findings_add(
			&doctor->findings, FINDING_WARNING,
			"another program has the name org.smcrd on the system bus, perhaps the "
			"smcrd of another network namespace\n'busctl status org.smcrd' tells "
			"which; set 'dbus = no' in the configuration of the smcrd that need not "
			"be on the bus");
}
