/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/refused.h"

#include <bpf/bpf.h>
#include <stddef.h>

/* BPF programs add entries while this removes them. */
#define USERS_MAX 512

uint64_t rdv_refused_total(const struct rdv_refused *refused)
{
	return refused->total ? __atomic_load_n(refused->total, __ATOMIC_RELAXED) : 0;
}

void rdv_refused_take(const struct rdv_refused *refused, struct rdv_refused_users *ret_users)
{
	struct rdv_refused_users users = { .num = 0 };
	uid_t uid;
	for (int i = 0; refused->total && i < USERS_MAX; i++) {
		uint64_t times = 0;
		if (bpf_map_get_next_key(refused->by_user, NULL, &uid) < 0)
			break;
		bpf_map_lookup_elem(refused->by_user, &uid, &times);
		bpf_map_delete_elem(refused->by_user, &uid);
		users.num++;
		if (times > users.times) {
			users.times = times;
			users.most = uid;
		}
	}
	*ret_users = users;
}
