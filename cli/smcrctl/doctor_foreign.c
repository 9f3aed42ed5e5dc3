/* SPDX-License-Identifier: MIT */
/*
 * Somebody else's BPF programs that see the TCP handshakes of programs on this host (sock_ops), and
 * so may take the SMC option out of them. They are attached to cgroups, and act on what runs in
 * there.
 */
#define _XOPEN_SOURCE 700 /* nftw() */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/smcrctl/doctor.h"
#include "proto/ipc/cgroup_root.h"
#include "proto/smcr/reason.h"

#define OWN_NAME    "smcr_sockops" /* of smcrd's, in any network namespace */
#define CGROUPS_MAX 4096           /* that are looked at */
#define PROGS_MAX   64             /* the kernel attaches no more of a kind to one cgroup */

/* nftw() has no argument for its callback. */
static struct look {
	struct doctor *doctor;
	enum finding_level level;
	size_t root_len; /* of the path of the root of the hierarchy */
	size_t cgroups, found;
	int error; /* why they cannot be seen; 0: they can */
} look;

/* @param ret_name  "": only root may know it */
static void name_of(uint32_t id, char ret_name[BPF_OBJ_NAME_LEN])
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);
	*ret_name = '\0';
	if (fd < 0)
		return;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0)
		snprintf(ret_name, BPF_OBJ_NAME_LEN, "%s", info.name);
	close(fd);
}

static void tell(uint32_t id, const char *cgroup)
{
	char name[BPF_OBJ_NAME_LEN];
	name_of(id, name);
	if (!strcmp(name, OWN_NAME))
		return;
	look.found++;
	findings_add(
		&look.doctor->findings, look.level,
		"BPF program %u (%s), which is not smcrd's, sees TCP handshakes of programs in "
		"the cgroup %s%s",
		id, *name ? name : "only root sees its name", *cgroup ? cgroup : "/",
		look.level == FINDING_OK
			? ""
			: "\nhave it return 1 at BPF_SOCK_OPS_HDR_OPT_LEN_CB and "
			  "BPF_SOCK_OPS_WRITE_HDR_OPT_CB, and keep the callback flags that it "
			  "finds set; 'bpftool prog show id' tells more of it");
}

static int look_at(const char *path, const struct stat *st, int kind, struct FTW *place)
{
	uint32_t ids[PROGS_MAX], num = PROGS_MAX;
	(void)st;
	(void)place;
	if (kind != FTW_D)
		return 0;
	if (look.cgroups == CGROUPS_MAX)
		return 1;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0; /* it is gone, or of a container */
	look.cgroups++;
	int r = bpf_prog_query(fd, BPF_CGROUP_SOCK_OPS, 0, NULL, ids, &num) < 0 ? -errno : 0;
	close(fd);
	if (r < 0) {
		look.error = -r;
		return 1;
	}
	for (uint32_t i = 0; i < num; i++)
		tell(ids[i], path + look.root_len);
	return 0;
}

/* How many connections of this host have lost the option. */
static json_int_t removed(const struct doctor *doctor)
{
	const json_t *rows = json_object_get(doctor->info, "fallbacks"), *row;
	for (size_t i = 0; (row = json_array_get(rows, i)); i++)
		if (!strcmp(doctor_text(row, "reason"),
			    smcr_reason_name(SMCR_REASON_OPTION_REMOVED)))
			return doctor_number(row, "connections", NULL);
	return 0;
}

static void tell_removed(struct doctor *doctor, json_int_t connections)
{
	findings_add(
		&doctor->findings, FINDING_PROBLEM,
		"%" JSON_INTEGER_FORMAT
		" connections stayed TCP as something on this host has taken the SMC option out of "
		"their handshakes\nlook at the BPF programs below, and for rules of the firewall "
		"about TCP option 254: nft list ruleset",
		connections);
}

void doctor_foreign(struct doctor *doctor)
{
	char root[32];
	int fd = ipc_cgroup_root(doctor->root);
	json_int_t lost = removed(doctor);
	look = (struct look){ .doctor = doctor, .level = lost ? FINDING_WARNING : FINDING_OK };
	if (lost)
		tell_removed(doctor, lost);
	if (fd >= 0) {
		snprintf(root, sizeof(root), "/proc/self/fd/%d/.", fd);
		look.root_len = strlen(root);
		nftw(root, look_at, 16, FTW_PHYS | FTW_MOUNT);
		close(fd);
	} else {
		look.error = -fd;
	}
	if (look.error)
		findings_add(&doctor->findings, look.level,
			     "which BPF programs of others see TCP handshakes was not looked at: %s"
			     "\nroot sees them: sudo smcrctl doctor",
			     strerror(look.error));
	else if (!look.found)
		findings_add(&doctor->findings, FINDING_OK,
			     "no BPF program of others sees TCP handshakes");
}
