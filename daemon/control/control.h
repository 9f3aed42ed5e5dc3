/* SPDX-License-Identifier: MIT */
/**
 * @file control.h
 * One table of control methods (design decision 7), whatever the transport.
 *
 * A request is a JSON object {"method": "link.show", "params": {..}}; the reply has "schema": 1 and
 * either "result" or "error": {"code": NAME, "errno": N, "text": SENTENCE}. An unknown method, a
 * missing or wrong parameter and a lack of permission are errors too, never silence. Arrays stay
 * arrays, keys are snake_case with units in their names, null means unknown.
 */
#ifndef SMCRD_CONTROL_CONTROL_H
#define SMCRD_CONTROL_CONTROL_H

#include <stddef.h>
#include <sys/socket.h>

#include "daemon/clients/clients.h"
#include "daemon/fabric/fabric.h"
#include "daemon/host/config.h"
#include "daemon/rendezvous/option.h"

#define CONTROL_SCHEMA 1

/** What the methods look at. Owned by the daemon; must outlive the control. */
struct control {
	const struct config *config;
	struct fabric *fabric;
	struct clients *clients;   /* may be NULL while the daemon starts */
	struct rdv_option *option; /* NULL: no TCP option on this host */
	const char *option_error;  /* why not: a sentence; "" otherwise */
	uint64_t started;          /* fabric_now() at the start */
};

/**
 * Serve one request.
 * @param cred  who asks; methods that change something need root or the administrators' group
 * @param json  request text, `len` bytes, not NUL terminated
 * @param ret_reply  malloc'ed, NUL terminated JSON; the caller frees it
 * @return 0 (errors of the request are in the reply) or -ENOMEM
 */
int control_handle(struct control *control, const struct ucred *cred, const char *json, size_t len,
		   char **ret_reply);

#endif
