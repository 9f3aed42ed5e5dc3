/* SPDX-License-Identifier: MIT */
/** @file flow.h How the bytes of a connection flow: what `smcrctl connection` tells of that. */
#ifndef SMCRD_CONTROL_FLOW_H
#define SMCRD_CONTROL_FLOW_H

#include <jansson.h>

#include "daemon/conns/view.h"

/** Add its keys to the row of a connection; null where the engine has nothing of it, or no more. */
void flow_set(json_t *row, const struct client_conn_view *view);

#endif
