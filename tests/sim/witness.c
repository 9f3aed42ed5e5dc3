/* SPDX-License-Identifier: MIT */
#include "tests/sim/witness.h"

#include <stddef.h>
#include <string.h>

/* Which situations must have been seen to prove which requirements. Ids that are not listed need
 * none. */
static const struct {
	const char *name;
	const char *ids;
} table[NUM_WITNESSES] = {
	[SEEN_GROUP] = { "groups", "PLG-3" },
	[SEEN_VERSION_1] = { "groups of version 1", "" },
	[SEEN_VERSION_2] = { "groups of version 2", "" },
	[SEEN_FIRST_CONTACT] = { "first contacts",
				 "RV-1 RV-4 RV-6 RV-7 RV-8 RV-9 RV-11 RV-12 RV-15 ADDL-2" },
	[SEEN_SUBSEQUENT] = { "subsequent contacts", "RS-1 RS-2 RS-6 RS-8 RS-10 GEN-12" },
	[SEEN_DECLINE] = { "Declines", "ERR-1 ERR-2 ERR-3 RV-3 RV-14" },
	[SEEN_LATE_DECLINE] = { "late Declines", "ERR-5 ERR-6 ERR-18" },
	[SEEN_FALLBACK] = { "fallbacks", "GEN-4 ERR-14 CLC-15 LG-14" },
	[SEEN_REVERSED] = { "reversed groups", "PLG-4" },
	[SEEN_TIMED_OUT] = { "timeouts", "ERR-10 ERR-15" },
	[SEEN_EARLY] = { "early messages", "RV-13 RS-9" },
	[SEEN_LINK_ADDED] = { "links added", "ADDL-1 ADDL-4 ADDL-7 ADDL-8 ADDL-10 ADDL-11 ADDL-12 "
					     "RKEY-12 LG-3 LG-8" },
	[SEEN_LINK_REJECTED] = { "links rejected", "ADDL-3 ADDL-6" },
	[SEEN_LINK_DELETED] = { "links deleted", "DELL-1 DELL-2" },
	[SEEN_ASYMMETRIC] = { "asymmetric links", "LG-4" },
	[SEEN_CONT_MORE] = { "long CONTINUATIONs", "ADDL-9" },
	[SEEN_GROUP_DELETED] = { "groups deleted", "LG-16 DELL-8 DELL-9 DELL-10 TERM-1" },
	[SEEN_CONFIRM_RKEY] = { "CONFIRM RKEY", "RKEY-1 RKEY-3 RKEY-5 RKEY-8 RKEY-9 RKEY-11 RS-3 "
						"RS-4 RS-5 SER-2" },
	[SEEN_RKEY_MORE] = { "CONFIRM RKEY CONTINUATION", "RKEY-4" },
	[SEEN_RKEY_REFUSED] = { "CONFIRM RKEY refused", "SER-4 RKEY-6 RKEY-7" },
	[SEEN_RKEY_OVERLAP] = { "overlapping RKEY exchanges", "SER-3" },
	[SEEN_DELETE_RKEY] = { "DELETE RKEY", "RKEY-13 RKEY-14 RKEY-16" },
	[SEEN_TEST_LINK] = { "TEST LINK", "TEST-1 SER-1" },
	[SEEN_WRITE] = { "WRITEs", "CDC-10 CDC-17 RMB-10 RMB-11" },
	[SEEN_CDC] = { "CDCs", "CDC-2 CDC-4 CDC-6 CDC-7 WIN-2" },
	[SEEN_WRAP] = { "wraps", "CDC-8 CDC-9 CDC-11 RMB-2" },
	[SEEN_BLOCKED] = { "B", "CDC-16 WIN-3 WIN-7" },
	[SEEN_URGENT] = { "U", "URG-1 URG-3 URG-5 URG-6 URG-7" },
	[SEEN_URGENT_PENDING] = { "P", "URG-2" },
	[SEEN_UPDATE] = { "window updates", "WIN-1" },
	[SEEN_DONE] = { "D", "CLOSE-1 CLOSE-6" },
	[SEEN_CLOSED] = { "C", "CLOSE-1 CLOSE-2 CLOSE-7 CDC-13" },
	[SEEN_CROSSED_CLOSE] = { "crossed C", "CLOSE-3" },
	[SEEN_ABORT] = { "A", "ABORT-1 ABORT-2 ABORT-5" },
	[SEEN_CROSSED_ABORT] = { "crossed A", "ABORT-3" },
	[SEEN_REUSE] = { "elements used again", "RMB-7 RMB-8" },
	[SEEN_SETTLED] = { "groups settled again", "SER-6" },
	[SEEN_NOTICE] = { "ADD LINK notices", "ADDL-15 ADDL-16" },
	[SEEN_DELETE_ASKED] = { "deletions asked for", "DELL-5 DELL-6 DELL-7" },
	[SEEN_ASYMMETRIC_GONE] = { "asymmetric links no longer needed", "LG-5" },
	[SEEN_MANY_LINKS] = { "groups of more than two links", "ADDL-13" },
	[SEEN_MOVED] = { "moves", "FO-11 FO-12" },
	[SEEN_FAILOVER] = { "failovers", "FO-1 FO-2 FO-3 FO-4 FO-5 FO-6 FO-8 DELL-3 GEN-8" },
	[SEEN_DOUBLE_FAILOVER] = { "double failovers", "FO-14" },
	[SEEN_REPLAY] = { "replayed WRITEs", "FO-9 FO-10" },
	[SEEN_LOST] = { "acknowledged CDCs lost", "FO-7" },
	[SEEN_RESET] = { "resets", "GEN-5 CLOSE-4 ABORT-4 TERM-2" },
	[SEEN_ADD_REFUSED] = { "REQUEST ADD LINK refused", "" },
	[SEEN_EXCUSE] = { "ADD LINK only to be refused", "" },
	[SEEN_LONG] = { "long LLC messages", "" },
	[SEEN_REPEATED] = { "CONFIRM LINK repeated", "" },
	[SEEN_PROOF] = { "full-size packets passed", "" },
	[SEEN_TOO_LARGE] = { "packets larger than the path takes", "" },
	[SEEN_MANGLED] = { "mangled messages", "SEC-6 CDC-12" },
};

static bool lists(const char *ids, const char *id)
{
	size_t len = strlen(id);
	for (const char *at = ids; (at = strstr(at, id)) != NULL; at += len) {
		if ((at == ids || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	}
	return false;
}

bool witness_of(const struct witnesses *seen, const char *id)
{
	for (size_t i = 0; i < NUM_WITNESSES; i++) {
		if (!seen->count[i] && lists(table[i].ids, id))
			return false;
	}
	return true;
}

const char *witness_name(enum witness what)
{
	return table[what].name;
}
