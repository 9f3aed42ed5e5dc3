/* SPDX-License-Identifier: MIT */
/** @file flow.h The part of `smcrctl connection` about how the bytes of a connection flow. */
#ifndef SMCRD_CONTROL_FLOW_H
#define SMCRD_CONTROL_FLOW_H

#include <jansson.h>

#include "daemon/conns/view.h"

/** Add its keys to the row of a connection; null if the engine does not have the connection, or not
 * any more. */
void flow_set(json_t *row, const struct conn_view *view);

#endif
