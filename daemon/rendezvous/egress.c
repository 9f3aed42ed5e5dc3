/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/egress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rendezvous/gate.h"
#include "daemon/rendezvous/guard.h"

struct egress {
	int cgroup;
	const struct rdv_option *option;
	bool wanted;
	struct rdv_guard *guard;
	struct rdv_gate *gate;
	char errors[NUM_EGRESS_KINDS][RDV_TEXT_MAX];
	uint64_t before[NUM_EGRESS_KINDS]; /* refused by programs that are gone */
	uint64_t told[NUM_EGRESS_KINDS];
};

static const char *what(enum egress_kind kind)
{
	switch (kind) {
	case EGRESS_ROCE: return "the use of UDP port 4791, which RoCEv2 packets go to";
	case EGRESS_CLC: return "to speak CLC in the name of this host";
	}
	return "";
}

const char *egress_kind_risk(enum egress_kind kind)
{
	switch (kind) {
	case EGRESS_ROCE:
		return "any user of this host can send RoCEv2 packets in its name (UDP port 4791)";
	case EGRESS_CLC:
		return "any user of this host can speak CLC, which sets up SMC-R, in its name";
	}
	return "";
}

int egress_new(int cgroup, const struct rdv_option *option, struct egress **ret_egress)
{
	struct egress *egress = calloc(1, sizeof(*egress));
	if (!egress)
		return -ENOMEM;
	egress->cgroup = cgroup;
	egress->option = option;
	*ret_egress = egress;
	return 0;
}

static struct rdv_refused refused(const struct egress *egress, enum egress_kind kind)
{
	return kind == EGRESS_ROCE ? rdv_guard_refused(egress->guard)
				   : rdv_gate_refused(egress->gate);
}

static uint64_t total(const struct egress *egress, enum egress_kind kind)
{
	const struct rdv_refused now = refused(egress, kind);
	return egress->before[kind] + rdv_refused_total(&now);
}

/* With the BPF programs of the guard its counts go. */
static void close_guard(struct egress *egress)
{
	egress->before[EGRESS_ROCE] = total(egress, EGRESS_ROCE);
	rdv_guard_close(egress->guard);
	egress->guard = NULL;
}

/* The gate looks at handshakes too, so it is there in any case. */
static void open_gate(struct egress *egress)
{
	char *error = egress->errors[EGRESS_CLC];
	if (!egress->gate && egress->option &&
	    rdv_gate_open(egress->cgroup, egress->option, &egress->gate, error) == 0)
		error[0] = '\0';
}

static void open_guard(struct egress *egress)
{
	char *error = egress->errors[EGRESS_ROCE];
	if (!egress->guard && rdv_guard_open(egress->cgroup, &egress->guard, error) == 0)
		error[0] = '\0';
}

void egress_free(struct egress *egress)
{
	if (!egress)
		return;
	rdv_guard_close(egress->guard);
	rdv_gate_close(egress->gate);
	free(egress);
}

void egress_set(struct egress *egress, bool wanted)
{
	egress->wanted = wanted;
	open_gate(egress);
	rdv_gate_guard(egress->gate, wanted);
	if (wanted) {
		open_guard(egress);
		return;
	}
	close_guard(egress);
	for (int i = 0; i < NUM_EGRESS_KINDS; i++)
		egress->errors[i][0] = '\0';
}

void egress_get_view(const struct egress *egress, struct egress_view *ret_view)
{
	*ret_view = (struct egress_view){ .wanted = egress && egress->wanted };
	for (int i = 0; egress && i < NUM_EGRESS_KINDS; i++) {
		snprintf(ret_view->errors[i], RDV_TEXT_MAX, "%s", egress->errors[i]);
		ret_view->refused[i] = total(egress, (enum egress_kind)i);
	}
}

bool egress_has_news(const struct egress *egress, enum egress_kind kind)
{
	return egress && total(egress, kind) != egress->told[kind];
}

static void put_users(const struct rdv_refused_users *users, char *text, size_t len)
{
	unsigned int others = users->num - 1;
	if (users->num == 0) /* the BPF programs are gone, with their counts */
		snprintf(text, len, "users were");
	else if (users->num == 1)
		snprintf(text, len, "user %u was", (unsigned int)users->most);
	else
		snprintf(text, len, "user %u and %u other%s were", (unsigned int)users->most,
			 others, others == 1 ? "" : "s");
}

void egress_take_news(struct egress *egress, enum egress_kind kind, char ret_text[RDV_TEXT_MAX])
{
	const struct rdv_refused now = refused(egress, kind);
	const uint64_t times = total(egress, kind), news = times - egress->told[kind];
	struct rdv_refused_users users;
	char who[64];
	rdv_refused_take(&now, &users);
	put_users(&users, who, sizeof(who));
	egress->told[kind] = times;
	snprintf(ret_text, RDV_TEXT_MAX, "%s refused %s, %llu time%s", who, what(kind),
		 (unsigned long long)news, news == 1 ? "" : "s");
}
