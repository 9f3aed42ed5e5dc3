/* SPDX-License-Identifier: MIT */
#include <stdio.h>

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
		char text[32] = "";
		if (json_is_integer(port))
			snprintf(text, sizeof(text), " port %" JSON_INTEGER_FORMAT,
				 json_integer_value(port));
		findings_add(&doctor->findings, FINDING_WARNING,
			     "%s%s is left to TCP for %" JSON_INTEGER_FORMAT
			     " s: %s\nsee 'smcrctl check %s'; 'smcrctl policy forget %s%s' lets "
			     "SMC-R be tried again",
			     address, text, doctor_number(peer, "seconds_left", NULL),
			     doctor_text(peer, "reason"), address, address, text);
	}
	if (doctor->info && json_array_size(skipped) == 0)
		findings_add(&doctor->findings, FINDING_OK, "no peer is left to TCP for a failure");
}
