/* SPDX-License-Identifier: MIT */
/*
 * Filters of views. smcrd itself leaves out rows that are not asked for, because writing a row as
 * JSON takes a hundred times as long as checking it. So a narrow question about ten thousand
 * connections is answered in ten short turns instead of a hundred and sixty long ones.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/conns/view.h"
#include "daemon/control/internal.h"

/* "PeerCloseWait1" and "PEER_CLOSE_WAIT_1" are "peer-close-wait-1". */
static bool same_name(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "-_");
		b += strspn(b, "-_");
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (!*a)
			return true;
	}
}

static const char *mode_name(int mode)
{
	return mode <= CONN_MODE_TCP ? conn_mode_name((enum conn_mode)mode) : "unknown";
}

/* Find the name that the word means. @return NULL: refused; the refusal lists all names */
static const char *take_name(const char *word, const char *parameter, const char *(*name)(int),
			     struct refusal *refusal)
{
	char names[200] = "";
	size_t at = 0;
	for (int i = 0; strcmp(name(i), "unknown") != 0; i++) {
		if (same_name(word, name(i)))
			return name(i);
		if (at < sizeof(names))
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
					       i ? ", " : "", name(i));
	}
	refuse(refusal, EINVAL, "bad-parameter", "'%.32s' is no %s; there is: %s", word, parameter,
	       names);
	refusal->parameter = parameter;
	return NULL;
}

bool filter_take(const struct params *params, const char *(*state_name)(int state),
		 struct filter *ret_filter, struct refusal *refusal)
{
	struct filter filter = { .port = params->port,
				 .linkgroup = params->linkgroup,
				 .by_pid = params->given & 1u << PARAM_PID,
				 .by_uid = params->given & 1u << PARAM_UID,
				 .pid = params->pid,
				 .uid = params->uid };
	if (params->peer && !policy_take_address(params->peer, "peer", &filter.peer, refusal))
		return false;
	if (params->mode && !(filter.mode = take_name(params->mode, "mode", mode_name, refusal)))
		return false;
	if (params->state &&
	    !(filter.state = take_name(params->state, "state", state_name, refusal)))
		return false;
	*ret_filter = filter;
	return true;
}

bool filter_peer(const struct filter *filter, const struct smcr_addr *peer)
{
	size_t len = filter->peer.family == AF_INET ? 4 : 16;
	return !filter->peer.family ||
	       (filter->peer.family == peer->family && !memcmp(filter->peer.ip, peer->ip, len));
}

bool filter_group(const struct filter *filter, uint32_t linkgroup)
{
	return !filter->linkgroup || filter->linkgroup == linkgroup;
}

bool filter_port(const struct filter *filter, uint16_t local, uint16_t peer)
{
	return !filter->port || filter->port == local || filter->port == peer;
}

bool filter_name(const char *wanted, const char *name)
{
	return !wanted || !strcmp(wanted, name);
}
