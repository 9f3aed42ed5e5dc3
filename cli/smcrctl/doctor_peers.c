/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/doctor.h"

void doctor_peers(struct doctor *doctor)
{
	const json_t *skipped = json_object_get(doctor->info, "skipped_peers");
	size_t i;
	json_t *peer;
	json_array_foreach(skipped, i, peer)
	{
		const char *address = doctor_text(peer, "peer");
		const json_t *port = json_object_get(peer, "port");
		char text[32] = "", number[32] = "";
		if (json_is_integer(port)) {
			snprintf(text, sizeof(text), " port %" JSON_INTEGER_FORMAT,
				 json_integer_value(port));
			snprintf(number, sizeof(number), " %" JSON_INTEGER_FORMAT,
				 json_integer_value(port));
		}
		findings_add(&doctor->findings, FINDING_WARNING,
			     "%s%s is left to TCP for %" JSON_INTEGER_FORMAT
			     " s, for user %" JSON_INTEGER_FORMAT
			     ": %s\nsee 'smcrctl check %s%s'; 'smcrctl policy forget %s%s' lets "
			     "SMC-R be tried again",
			     address, text, doctor_number(peer, "seconds_left", NULL),
			     doctor_number(peer, "uid", NULL), doctor_text(peer, "reason"), address,
			     number, address, text);
	}
	if (doctor->info && json_array_size(skipped) == 0)
		findings_add(&doctor->findings, FINDING_OK, "no peer is left to TCP for a failure");
}

/* How many bytes packets of the RNIC can have; 0: not known. */
static json_int_t mtu_of(const struct doctor *doctor, const char *rnic)
{
	size_t i;
	json_t *device;
	json_array_foreach(doctor->devices, i, device)
	{
		if (!strcmp(doctor_text(device, "name"), rnic))
			return doctor_number(device, "mtu", NULL);
	}
	return 0;
}

static void look_at_link(struct doctor *doctor, const json_t *link)
{
	const char *rnic = doctor_text(link, "rnic");
	json_int_t mtu = doctor_number(link, "path_mtu", NULL), could = mtu_of(doctor, rnic);
	if (!mtu || mtu >= could)
		return;
	findings_add(&doctor->findings, FINDING_WARNING,
		     "link %" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT
		     " to %s has packets of %" JSON_INTEGER_FORMAT
		     " bytes, and RNIC %s could have %" JSON_INTEGER_FORMAT
		     ": the peer's interface has a smaller MTU, or the path does not carry larger "
		     "ones\nfor more speed give both hosts and the network between them one MTU",
		     doctor_number(link, "linkgroup", NULL), doctor_number(link, "number", NULL),
		     doctor_text(link, "peer"), mtu, rnic, could);
}

void doctor_links(struct doctor *doctor)
{
	char error[SESSION_ERROR_LEN];
	json_t *links, *link;
	size_t i;
	if (!doctor->info || ask_smcrd(doctor->socket_path, DOCTOR_PATIENCE_S, "link.show",
				       json_object(), &links, error))
		return;
	json_array_foreach(links, i, link)
	{
		look_at_link(doctor, link);
	}
	json_decref(links);
}
