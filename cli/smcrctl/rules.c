/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/smcrctl/output.h"

/* The sentence of the error says why smcrd does not tell; the whole says also what is missing by
 * that. */
static int fail(const struct tool_call *call, int error, const char *text)
{
	char whole[SESSION_ERROR_LEN + 128];
	/* Of a daemon that is absent output_failure() says what to do. */
	snprintf(whole, sizeof(whole), "the rules need the RNICs and peers that smcrd knows: %s%s",
		 text, error == -ECONNREFUSED ? "" : "; 'smcrctl doctor' tells more");
	return output_failure(call->output, error, whole);
}

static void print_json(const struct tool_call *call, const struct rules *rules, const char *text)
{
	json_t *result = json_pack("{s:O, s:O, s:O, s:s}", "interfaces", rules->interfaces, "peers",
				   rules->peers, "users", rules->users, "nft", text);
	output_json(call->output, "rules", result);
	json_decref(result);
}

int rules_run(const struct tool_call *call)
{
	char error[SESSION_ERROR_LEN];
	struct rules rules;
	int r = rules_gather(call->socket_path, &rules, error);
	char *text = r ? NULL : rules_table(&rules);
	int status = STATUS_DONE;
	if (r == -ENODEV || r == -EXDEV || r == -EINVAL)
		status = output_error(call->output, STATUS_FAILED, "failed", error);
	else if (r)
		status = fail(call, r, error);
	else if (!text)
		status = output_error(call->output, STATUS_FAILED, "no-memory", "out of memory");
	else if (call->output->json)
		print_json(call, &rules, text);
	else
		fputs(text, stdout);
	free(text);
	rules_free(&rules);
	return status;
}
