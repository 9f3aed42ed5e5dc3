/* SPDX-License-Identifier: MIT */
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/smcrctl/doctor.h"

/* The first kernel with every function that smcrd's BPF programs call. */
#define NEEDED_MAJOR 5
#define NEEDED_MINOR 18

void doctor_kernel(struct doctor *doctor)
{
	struct utsname name;
	unsigned int major, minor;
	if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return;
	if (major < NEEDED_MAJOR || (major == NEEDED_MAJOR && minor < NEEDED_MINOR))
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "Linux %s is too old for the TCP option, which takes %d.%d or later"
			     "\nuse a later kernel, or capable_subnet in smcrd.conf(5)",
			     name.release, NEEDED_MAJOR, NEEDED_MINOR);
	else
		findings_add(&doctor->findings, FINDING_OK, "Linux %s is new enough", name.release);
}

/* Is cgroup2 mounted where smcrd looks without CAP_SYS_ADMIN, as a service does? */
static bool has_cgroup2(void)
{
	bool found = false;
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	const struct mntent *entry;
	while (mounts && !found && (entry = getmntent(mounts)))
		found = !strcmp(entry->mnt_type, "cgroup2");
	if (mounts)
		endmntent(mounts);
	return found;
}

/* Is cgroup2 mounted somewhere else? The kernel lists the hierarchy once it was mounted. */
static bool is_hidden(void)
{
	char line[4096];
	bool found = false;
	FILE *groups = fopen("/proc/self/cgroup", "re");
	while (groups && !found && fgets(line, sizeof(line), groups))
		found = !strncmp(line, "0::", 3);
	if (groups)
		fclose(groups);
	return found;
}

static void cgroup2_is_missing(struct doctor *doctor)
{
	if (is_hidden())
		findings_add(
			&doctor->findings, FINDING_WARNING,
			"the cgroup2 hierarchy, which the BPF programs are attached to, cannot "
			"be seen from here: 'ip netns exec' hides it, as containers do"
			"\nsmcrd that runs as root finds the hierarchy and needs nothing; "
			"otherwise mount it here: mount -t cgroup2 none "
			"/sys/fs/cgroup");
	else
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "no cgroup2 hierarchy is mounted, which the BPF programs are attached "
			     "to\nmount one before smcrd starts: mount -t cgroup2 none "
			     "/sys/fs/cgroup/unified");
}

static void option_is_missing(struct doctor *doctor, const json_t *option)
{
	findings_add(
		&doctor->findings, FINDING_PROBLEM,
		"smcrd cannot use BPF, so connections stay TCP: %s\nrun smcrd as the service or "
		"as root; where BPF is not allowed at all name peers by capable_subnet in "
		"smcrd.conf(5)",
		doctor_text(option, "error"));
}

void doctor_option(struct doctor *doctor)
{
	struct findings *findings = &doctor->findings;
	const json_t *option = json_object_get(doctor->info, "tcp_option");
	bool used = json_is_true(json_object_get(option, "available"));
	if (used)
		findings_add(findings, FINDING_OK,
			     "the BPF programs of the TCP option are attached to cgroup2");
	else if (doctor->info)
		option_is_missing(doctor, option);
	if (!used && !has_cgroup2())
		cgroup2_is_missing(doctor);
	json_int_t refused = doctor_number(option, "listeners_refused_total", NULL);
	if (refused > 0)
		findings_add(findings, FINDING_WARNING,
			     "listeners that were too many for SMC-R, and stay TCP: "
			     "%" JSON_INTEGER_FORMAT
			     "\nsee max_connections_per_user in smcrd.conf(5) for how many a "
			     "user may have",
			     refused);
}

static bool guard_lacks(struct doctor *doctor, const char *what, const char *risk)
{
	const char *error = doctor_text(json_object_get(doctor->host, "egress_guard"), what);
	if (*error)
		findings_add(
			&doctor->findings, FINDING_WARNING,
			"any user of this host can %s: %s\nrun smcrd as the service or as root; "
			"'bpftool cgroup tree' shows other programs on the root cgroup; "
			"'smcrctl doctor --rules' prints rules of the firewall for UDP port 4791",
			risk, error);
	return *error;
}

/* The errors are those that smcrd tells: without privileges attached programs cannot be seen. */
void doctor_guard(struct doctor *doctor)
{
	const json_t *guard = json_object_get(doctor->host, "egress_guard");
	bool option = json_is_true(
		json_object_get(json_object_get(doctor->info, "tcp_option"), "available"));
	if (!guard) /* an older smcrd */
		return;
	if (json_is_null(guard)) {
		findings_add(
			&doctor->findings, FINDING_WARNING,
			"any user of this host can send packets and messages that peers take for "
			"smcrd's: egress_guard is no\nset it to yes in smcrd.conf, unless users "
			"need UDP port 4791 for something else");
		return;
	}
	bool roce = guard_lacks(doctor, "roce_error", "send RoCEv2 packets in its name");
	bool clc = guard_lacks(doctor, "clc_error", "speak CLC in its name");
	if (!roce && !clc)
		findings_add(&doctor->findings, FINDING_OK,
			     "users cannot send %s in this host's name",
			     option ? "RoCEv2 packets or CLC messages" : "RoCEv2 packets");
}
