/* SPDX-License-Identifier: MIT */
/**
 * @file spoken.h
 * smcrd announces the CLC messages that it is about to send on a socket (IPC_SO_SPOKEN,
 * daemon/rendezvous/spoken.c). They are noted with the socket; gate.bpf.c lets no other CLC pass.
 */
#ifndef SMCRD_RENDEZVOUS_BPF_SPOKEN_H
#define SMCRD_RENDEZVOUS_BPF_SPOKEN_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <linux/errno.h>

#include "daemon/rendezvous/bpf/smcr.h"
#include "daemon/rendezvous/bpf/socks.h"

/* The user that smcrd runs as; option.c writes it before it loads the programs. */
const volatile __u32 own_uid;

/* IPC_SO_SPOKEN, for root and smcrd only. Has no effect on a socket that is not HELD.
 * @param end  of the option's value, which may be too short
 * @param uid  who calls */
static __always_inline int speak(struct bpf_sock *sk, const struct smcr_spoken *said, void *end,
				 __u32 uid)
{
	if (uid != 0 && uid != own_uid)
		return -EPERM;
	if ((void *)(&said->length + 1) > end)
		return -EINVAL;
	struct smcr_sock *sock = bpf_sk_storage_get(&socks, sk, NULL, 0);
	if (!sock || !(sock->flags & SMCR_SOCK_HELD))
		return 0;
	if (said->length == SMCR_SPOKEN_FREED) {
		sock->flags &= ~SMCR_SOCK_HELD;
		bpf_sk_storage_delete(&spoken, sk);
		return 0;
	}
	if ((void *)(said + 1) > end || said->length > SMCR_SPOKEN_MAX)
		return -EINVAL;
	struct smcr_spoken *known =
		bpf_sk_storage_get(&spoken, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!known)
		return -ENOMEM;
	for (int i = 0; i < SMCR_SPOKEN_MAX / 8; i++) {
		known->words[i] = said->words[i];
		barrier(); /* else the compiler would call memcpy(), which does not exist here */
	}
	known->length = said->length;
	known->first = sock->first;
	return 0;
}

#endif
